"""Slips that stand in an answer's text get one hint each, with their line; limits have one name."""

import numpy as np
import pytest

from course.checks import check, progress
from course.checks.judging import agreeing
from course.checks.verdicts import MORE, Verdict
from tests.course.checks.sample_exercises import SQUARE_TEXT as SQUARE
from tests.course.checks.sample_exercises import samples  # noqa: F401
from tests.texts import function_of
from warpsim import cuda

ADD = """@cuda.jit
def add(out, a, b):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] + b[row, column]
"""
BOTH = "row < out.shape[0] and column < out.shape[1]"


def said_of(text, old, new):
    assert text.count(old) == 1
    name = "square" if text is SQUARE else "add"
    function = function_of(text.replace(old, new), f"{name} {new}", {"cuda": cuda, "np": np})
    verdict = check(f"sample-{name}", function)
    return verdict, " ".join(str(verdict).split())


@pytest.mark.parametrize(
    ("text", "old", "new", "kind", "words"),
    [
        (SQUARE, "out.size", "out.shape", "typing",
         ["Line 3: i < out.shape", "is a tuple of sizes", "out.shape[0]"]),
        (SQUARE, "x[i] * x[i]", "math.sqrt(x[i])", "typing", ["Line 4", "Run `import math`"]),
        (SQUARE, "x[i] * x[i]", "ex[i] * x[i]", "typing", ["Line 4", "Do you mean x?"]),
        (SQUARE, "x[i] * x[i]", "speed * x[i]", "typing",
         ["Set speed before this line. `square` is given out, x."]),
        (SQUARE, "x[i] * x[i]", "x[i] * x(i)", "typing", ["Line 4", "x is no function", "x[...]"]),
        (SQUARE, "cuda.grid(1)", "blockIdx.x", "typing", ["Line 2", "Write cuda.blockIdx"]),
        (SQUARE, "x[i] * x[i]", "np.multiply(x, x)", "typing",
         ["Line 4", "A kernel computes single numbers"]),
        (SQUARE, "x[i] * x[i]", "x * x[i]", "typing", ["`x` stands for a whole array here"]),
        (SQUARE, "out[i] =", "return", "typing",
         ["Line 4: return x[i] * x[i]", "a kernel returns nothing", "Store the value"]),
        (ADD, " and ", " & ", "unwritten-output",
         ["Line 3", "as & binds more tightly", "write `and` instead of &"]),
        (ADD, BOTH, "(row, column) < out.shape", "out-of-bounds",
         ["Line 3", "row < out.shape[0] and column < out.shape[1]."]),
        (ADD, "column, row =", "row =", "typing",
         ["Line 3", "`row` is a tuple", "column, row = cuda.grid(2)"]),
    ],
)  # fmt: skip
def test_a_slip_is_named_with_its_line_and_its_cure(text, old, new, kind, words):
    verdict, said = said_of(text, old, new)
    assert verdict.kind == kind, verdict
    for word in words:
        assert word in said, verdict
    assert "truth value" not in said and said.count("Hint:") <= 1


def test_a_comparison_that_is_not_the_fault_is_left_alone():
    verdict, said = said_of(ADD, "+ b[row", "- b[row")
    assert verdict.kind == "wrong-result"
    assert "Line" not in said and "Hint" not in said


def test_a_finding_and_its_hint_name_one_limit():
    cases = [{"out": np.zeros((n, n + 1)), "x": np.zeros(n)} for n in (3, 5)]
    message = "reads x[3]: guard it with `if i < x.size:`"
    assert agreeing(message, "Guard with out.shape[0].", cases).endswith("`if i < out.shape[0]:`")
    assert agreeing(message, "Guard with out.shape[1].", cases) == message
    assert agreeing(message, "Compare i with x.size.", cases) == message
    assert agreeing(message, None, cases) == message
    assert agreeing("nothing of that kind", "out.size", cases) == "nothing of that kind"


def test_stubs_of_all_kinds_are_not_started_and_code_that_ends_in_pass_is():
    for body, status in (
        ("raise NotImplementedError()", "not started"),
        ("raise NotImplementedError", "not started"),
        ("...", "not started"),
        ("i = cuda.grid(1)\n    pass", "not started"),
        ("i = cuda.grid(1)\n    y = x[i]\n    pass", "failed"),
        ("i = cuda.grid(1)\n    if i < 0:\n        pass", "failed"),
    ):
        text = f"@cuda.jit\ndef square(out, x):\n    {body}\n"
        verdict = check("sample-square", function_of(text, body, {"cuda": cuda}))
        assert verdict.status == status, (body, verdict)


def test_a_name_that_a_function_has_not_is_told_as_a_kernels():
    for name, words in (("math", "Run `import math`"), ("bb", "Do you mean b?")):
        text = f"def error(a, b):\n    return {name}.sqrt(2.0), 1\n"
        verdict = check("sample-error", function_of(text, name, {}))
        assert verdict.kind == "raised" and words in str(verdict), verdict


def test_a_function_without_return_is_told_so_and_is_no_stub():
    text = "def error(a, b):\n    for n in range(2):\n        pass\n    a.sum()\n"
    verdict = check("sample-error", function_of(text, "no return", {}))
    assert verdict.kind == "wrong-result" and "It has no `return`" in str(verdict)
    assert "Hint" not in str(verdict)
    text = "def error(a, b):\n    c = a\n    pass\n"
    assert check("sample-error", function_of(text, "given line", {})).status == "not started"
    text = "def error(a, b):\n    if a.sum() > 1e9:\n        return 0, 0\n"
    verdict = check("sample-error", function_of(text, "some return", {}))
    assert "Some way through it returns no value" in verdict.message


# --- slips of a kernel's text ---------------------------------------------------------------------


FORMULA = "cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x"


@pytest.mark.parametrize(
    ("text", "old", "new", "words"),
    [
        (SQUARE, "cuda.grid(1)", "cuda.threadIdx.x", ["reads cuda.threadIdx.x and not", FORMULA]),
        (ADD, "cuda.grid(2)", "cuda.threadIdx.x, cuda.threadIdx.y", ["all 2 x 2 blocks", FORMULA]),
        (SQUARE, "cuda.grid(1)", "cuda.blockIdx.x + cuda.threadIdx.x", ["not the thread's number"]),
        (SQUARE, "cuda.grid(1)", "cuda.blockIdx.x * cuda.gridDim.x + cuda.threadIdx.x",
         ["in line 2 is not the thread's number", f"Write {FORMULA}"]),
    ],
)  # fmt: skip
def test_an_index_that_does_not_count_the_blocks_is_named(text, old, new, words):
    verdict, said = said_of(text, old, new)
    assert verdict.kind in ("unwritten-output", "wrong-result"), verdict
    for word in words:
        assert word in said, verdict


def test_a_right_index_is_no_slip():
    for index in (FORMULA, "cuda.threadIdx.x + cuda.blockDim.x * cuda.blockIdx.x"):
        verdict, said = said_of(SQUARE, "cuda.grid(1)\n", f"{index}\n    x = out\n")
        assert verdict.kind == "uninitialised-read" and "number in the grid" not in said, verdict


# --- help in three steps --------------------------------------------------------------------------


def test_help_comes_in_three_steps():
    lines = [
        "out[0] is 1, right is 2.",
        "Case: 5 elements.",
        "Hint: Look.",
        "Line 2 decides: `a`. With another name in place of `a` the answer passes.",
        "Line 2 would be right as `b`.",
    ]
    whole = Verdict("square", "failed", "wrong-result", "\n".join(lines))
    first, second = whole.at_try(0).message, whole.at_try(1).message
    assert first.splitlines() == [*lines[:2], MORE[0]]
    assert second.splitlines() == [*lines[:4], MORE[1]]
    assert whole.at_try(2) == whole.at_try(7) == whole
    assert whole.at_try(0).kind == "wrong-result" and whole.findings == whole.at_try(0).findings


def test_where_there_is_no_more_help_none_is_promised():
    short = Verdict("square", "failed", "typing", "It does not compile.\nLine 2: i = x")
    assert short.at_try(0) == short


def test_a_learners_second_answer_gets_the_hint(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "mine"))
    monkeypatch.setattr(progress, "_failed", {})
    said = [said_of(SQUARE, "i < out.size", f"i < out.size + {n}")[1] for n in (1, 1, 2)]
    assert [("Hint: " in each, MORE[0] in each) for each in said] == [
        (False, True), (False, True), (True, False),
    ]  # fmt: skip
