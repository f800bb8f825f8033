"""Judge every answer, or those of the lessons that are named, and print how many are met."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.course_lessons.wrong_answers import all_answers, fault_of_pass, fault_of_refusal


def main(*lessons: str) -> int:
    os.environ["COURSE_PROGRESS"] = "off"  # no verdict of these is the user's
    wrong, right = all_answers(*lessons)
    refused = [(each, fault_of_refusal(each.judged(), each.kinds, each.words)) for each in wrong]
    passed = [(each, fault_of_pass(each.judged())) for each in right]
    for title, judged in (
        ("wrong answers refused for the right reason", refused),
        ("right answers passed without an error finding", passed),
    ):
        good = sum(fault is None for _, fault in judged)
        print(f"{title}: {good} of {len(judged)}, {100 * good / len(judged):.1f}%")
    faults = [each for each in refused + passed if each[1]]
    for answer, fault in faults:
        print(f"{answer.exercise}, {answer.name}: {fault}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
