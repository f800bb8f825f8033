"""Judge every answer, or those of the lessons that are named, and print how many are met."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bug_zoo import all_answers, fault_of_pass, fault_of_refusal, name_of
from course.checks import check


def main(*lessons: str) -> int:
    wrong, right = all_answers(*lessons)
    refused = [
        (exercise, answer, fault_of_refusal(check(exercise, answer), kinds, words))
        for exercise, answer, kinds, words in wrong
    ]
    passed = [
        (exercise, answer, fault_of_pass(check(exercise, answer))) for exercise, answer in right
    ]
    for title, judged in (
        ("wrong answers refused for the right reason", refused),
        ("right answers passed without an error finding", passed),
    ):
        good = sum(fault is None for _, _, fault in judged)
        print(f"{title}: {good} of {len(judged)}, {100 * good / len(judged):.1f}%")
    faults = [each for each in refused + passed if each[2]]
    for exercise, answer, fault in faults:
        print(f"{exercise}, {name_of(answer)}: {fault}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
