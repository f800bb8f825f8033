"""What a verdict tells a student to do is done to the letter: the answer must get further.

How they are followed stands in tools/mutants/advice.py, which follows them on mutants, too; here
are those to slips of learners.
"""

import re

import pytest

from course.checks import check
from course.checks.exercises import exercises
from course_lessons.edits import edited, solution
from tests.course_lessons.wrong_answers.solutions import define
from tools.mutants.advice import INSTRUCTIONS, following, on_the_line, without_help

HERE = {"__name__": __name__}


# ------------------------------------------------------------------- kernels, each with its faults
GUARD_1D = {"i < out.size": "True"}
GUARD_2D = {"row < out.shape[0] and column < out.shape[1]": "True"}
FAULTY = [
    ("square-map", GUARD_1D),
    ("square-map", {"i < out.size": "i <= out.size"}),
    ("square-map", {"i < out.size": "i < out.shape"}),
    ("square-map", {"out[i] = ": "return "}),
    ("square-map", {"x[i] * x[i]": "x * x[i]"}),
    ("scale-add", GUARD_1D),
    ("scale-add", {"i < out.size": "i <= out.size"}),
    ("scale-add", {"i < out.size": "i < out.shape"}),
    ("scale-add", {"x[i] + y[i]": "x + y[i]"}),
    ("scale-add", {"out[i] = ": "return "}),
    ("add-images", {"column < out.shape[1]": "True"}),
    ("add-images", {"row < out.shape[0]": "True"}),
    ("add-images", GUARD_2D),
    ("add-images", {" and ": " & "}),
    ("add-images", {"row < out.shape[0] and column < out.shape[1]": "(row, column) < out.shape"}),
    ("rotate-image", {"- 1 -": "-"}),
    ("rotate-image", {" and ": " & "}),
    ("rotate-image", {"row < out.shape[0] and column < out.shape[1]": "(row, column) < out.shape"}),
    ("strided-scale-add", {"size,": "size + 1,"}),
    ("total-by-strides", {"x.size": "x.size + 1"}),
    ("histogram", {"cuda.atomic.add(counts, values[i], 1)": "counts[values[i]] += 1"}),
    ("histogram", {"i < values.size": "True"}),
    ("one-layer", {"i < out.shape[0]": "True"}),
    ("one-layer", {"j < out.shape[1]": "True"}),
    ("reverse-blocks", {"count - 1 - t": "count - t"}),
    ("reverse-blocks", {"buffer[t]": "buffer[i]"}),
    ("reverse-blocks", {"cuda.syncthreads()": "pass"}),
    ("reverse-blocks", {"shared.": "local."}),
    ("blur-halo", {"    cuda.syncthreads()\n": ""}),
    ("reconstruct-tiled", {"        cuda.syncthreads()\n        for": "        for"}),
    ("reconstruct-tiled", {"u_tile[y, i]": "u_tile[row, i]"}),
    ("tiled-transpose", {"    cuda.syncthreads()\n": ""}),
    ("padded-transpose", {"PADDED": "SIDE"}),
    ("reconstruct", {"row < out.shape[0]": "True"}),
    ("wide-tile", {"PITCH": "BLOCK"}),
    ("reconstruct-columns", {"float32(0)": "0"}),
    ("reconstruct-float32", {"float32(0)": "0.0"}),
    ("total-by-strides", {"float32(0)": "0.0"}),
    ("one-kernel", {"= share\n    cuda.syncthreads()": "= share"}),
    ("one-kernel", {"gelu(q)\n    cuda.syncwarp()": "gelu(q)"}),
    ("one-kernel", {"share = float32(0)": "share = 0.0"}),
]  # fmt: skip


def _taken_by_index(text, number, found):
    for name in re.findall(r"`(\w+)`", found[1]):
        text = on_the_line(text, number, f" {name} ", f" {name}[i] ")
    return text


SLIPS = (
    (r"write `and` instead of &", " & ", " and "),
    (r"Compare each number by itself: (.*?\.shape\[1\])\..* Line \d+: .*?(\(.*?\) < \w+\.shape)",
     "{1}", "{0}"),
    (r"(\w+\.shape) is a tuple of sizes.* compare with (\w+\.shape\[0\])", "{0}", "{1}"),
    (r"goes through cuda.shared.array", lambda text, *_: text.replace("cuda.local", "cuda.shared")),
    (r"Store the value where", "return ", "out[i] = "),
    (r"Hint: (.*) stands? for a whole array here", _taken_by_index),
    (r"It has no `return`", lambda text, *_: re.sub(r"(?m)^( *)(.+)\s*\Z", r"\1return \2\n", text)),
)  # fmt: skip


def followed(text, judged, times=4):
    """The verdicts on a text and on what their instructions make of it, until there is none."""
    verdicts = [judged(text)]
    while verdicts[-1].status != "passed" and len(verdicts) <= times:
        text = following(text, verdicts[-1], (*INSTRUCTIONS, *SLIPS))
        if text is None:
            break
        verdicts.append(judged(text))
    return verdicts


def judged(exercise):
    """What judges a text that stands in the place of an exercise's solution."""
    return lambda text: check(exercise, define(text, exercise, f"{exercise} as told", HERE))


@pytest.mark.drawn(8)
@pytest.mark.parametrize(
    ("exercise", "edit"), FAULTY, ids=[f"{n}-{name}" for n, (name, _) in enumerate(FAULTY)]
)
def test_an_instruction_that_is_followed_leads_further(exercise, edit):
    text = edited(solution(exercise).source, edit.items(), exercise)
    verdicts = followed(text, judged(exercise))
    assert verdicts[0].status == "failed" and len(verdicts) > 1, verdicts[0]
    assert without_help(exercises()[exercise], verdicts) == ""
    assert verdicts[-1].status == "passed" or len(verdicts) < 5, verdicts[-1]


def test_a_function_that_is_told_to_return_does():
    text = "def launch(n):\n    (n + 127) // 128, 128\n"
    text = text.replace("launch", solution("launch-1d").function)
    verdicts = followed(text, judged("launch-1d"))
    assert "It has no `return`" in str(verdicts[0]) and verdicts[-1].status == "passed"


def test_an_instruction_that_leads_nowhere_is_noticed():
    text = edited(solution("square-map").source, GUARD_1D.items(), "square-map")
    verdict, exercise = judged("square-map")(text), exercises()["square-map"]
    assert "nothing has changed" in without_help(exercise, [verdict, verdict])
    after = judged("square-map")(text.replace("x[i]", "z[i]"))
    assert "breaks the answer" in without_help(exercise, [verdict, after])
