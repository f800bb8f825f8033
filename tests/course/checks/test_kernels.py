"""Typical wrong kernels get the verdict that helps; right ones pass."""

import dataclasses
import re

import numpy as np
import pytest
from numba import float32, njit

from course.checks import check, exercises, kernels, simulating
from course.checks.exercises import Case, Counted, KernelExercise, Limit
from course.checks.verdicts import Failure
from tests.course.checks.sample_exercises import SQUARE, failed, samples  # noqa: F401
from tests.texts import function_of
from warpsim import cuda

SQUARES = """def square(out, x):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * x[i]
"""
ADDS = """def add(out, a, b):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] + b[row, column]
"""
COUNTS = """def histogram(counts, values):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, values[i], 1)
"""


def verdict_of(text, *edits, jit=cuda.jit):
    """The verdict on a right kernel after edits: an old text that stands once, and a new one."""
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    name = text.split("(")[0].removeprefix("def ")
    return check(f"sample-{name}", jit(function_of(text, name, {"cuda": cuda, "float32": float32})))


def of_one_case(name, reference, arguments, case="10 elements", block=32, grid=None, **options):
    """An exercise to fill `out`, checked in one case, whose numbers are drawn by its name."""
    cases = [Case(case, arguments, block=block, grid=grid)]
    return KernelExercise(
        name=name, lesson=99, title="", outputs=("out",), reference=reference, cases=cases,
        **options,
    )  # fmt: skip


# --- right answers


def test_right_square_passes():
    verdict = verdict_of(SQUARES)
    assert verdict.status == "passed", verdict
    assert verdict
    assert str(verdict).startswith("✓ sample-square: passed")
    assert "5 cases" in verdict.message
    assert "1,003 elements" in verdict.message


SPELLED = """def square(result, values):
    i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    if i >= result.shape[0]:
        return
    value = values[i]
    result[i] = value * value
"""


@pytest.mark.parametrize("text", [SPELLED, SQUARES + "    pass\n", ADDS, COUNTS])
def test_other_right_answers_pass(text):
    verdict = verdict_of(text)
    assert verdict.status == "passed", verdict


def test_decorator_called_with_brackets_passes():
    assert verdict_of(SQUARES, jit=cuda.jit()).status == "passed"


# --- mistakes


MISTAKEN = {
    "a guard that admits one too many": (SQUARES, [("<", "<=")], "out-of-bounds", "1003"),
    "a guard that admits one too few": (
        SQUARES, [("size", "size - 1")], "unwritten-output", "the last element of 8", "out[7]",
    ),
    # Every block writes the same values to the same elements: no result differs, no race harms.
    "an index without the block": (
        SQUARES, [("grid(1)", "threadIdx.x")],
        "unwritten-output", "the last 875 of 1,003", "out[128]",
    ),
    "an index off by one": (
        SQUARES, [("out[i]", "out[(i + 1) % x.size]")],
        "wrong-result", "Shifted by one", "off by one",
    ),
    "the input": (SQUARES, [("* x[i]", "")], "wrong-result", "It holds x, unchanged."),
    "a scaled result": (
        SQUARES, [("= x", "= float32(0.5) * x")], "wrong-result", "0.5 times the right one",
    ),
    "the input changed": (
        SQUARES, [("out[i] =", "x[i] ="), ("* x[i]", "* x[i]\n        out[i] = x[i]")],
        "input-modified", "x is an input", "write to out",
    ),
    "adding to the output": (
        SQUARES, [("] =", "] +=")], "uninitialised-read", "out[0]", "`=`",
    ),
    "a NaN of its own": (
        SQUARES, [("x[i] * x[i]", "(x[i] - x[i]) / (x[i] - x[i])")],
        "wrong-result", "out[0] is nan",
    ),
    "a sum in float64": (
        SQUARES, [("out[i] =", "t = 0.0\n        t +="), ("* x[i]", "* x[i]\n        out[i] = t")],
        "float64", "The result is right", "float32(0)",
    ),
    "no store and no pass": (
        SQUARES, [("out[i]", "y")], "unwritten-output", "Nothing was written to out",
    ),
    "too few arguments": (
        "def square(x):\n    pass\n", [],
        "wrong-arguments", "1 argument (x)", "2 arguments: out, x",
    ),
    "swapped arguments": (
        "def square(x, out):\n    pass\n", [], "wrong-arguments", "in the order x, out",
    ),
    "an endless loop": (
        SQUARES, [("if", "while")], "endless-loop", "line 3", "no variable and no memory changes",
    ),
    "a guard on the wrong axis": (
        ADDS, [("row < out.shape[0] and column <", "column < out.shape[0] and row <")],
        "out-of-bounds", "13 x 37", "grid 3 x 1, block 16 x 16",
    ),
    "or instead of and": (ADDS, [("and", "or")], "out-of-bounds", "13 x 37"),
    "a guard on one axis": (ADDS, [("row < out.shape[0] and ", "")], "out-of-bounds"),
    "a swapped store": (
        ADDS, [("out[row, column]", "out[column, row]")],
        "wrong-result", "transpose of the right one", "32 x 32",
    ),
    "x along rows": (
        ADDS, [("column, row =", "row, column =")],
        "unwritten-output", "the last 21 columns of 37",
    ),
    "a difference": (ADDS, [("+", "-")], "wrong-result", "out[0, 0] is", "all 1,024 elements"),
    "no atomic": (
        COUNTS, [("cuda.atomic.add(counts, values[i], 1)", "counts[values[i]] += 1")],
        "race", "counts", "Thread (", "cuda.atomic",
    ),
    "no grid stride": (
        COUNTS, [("for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):",
                  "i = cuda.grid(1)\n    if i < values.size:")],
        "wrong-result", "500 values, 7 bins",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKEN)
def test_mistakes_get_the_verdict_that_helps(mistake, monkeypatch):
    monkeypatch.setattr(simulating, "MOST_STEPS", 500)  # an endless loop ends sooner
    text, edits, kind, *words = MISTAKEN[mistake]
    failed(verdict_of(text, *edits), kind, *words)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda square: square, ("plain Python function", "@cuda.jit")),
        (cuda.jit(device=True), ("device function",)),
        (lambda _: None, ("None", "without brackets")),
        (lambda square: cuda.jit(square)[1, 32], ("Leave out [grid, block]",)),
        (njit, ("CPU", "@cuda.jit")),
        (lambda _: 3.5, ("float",)),
        (lambda _: dict, ("class",)),
        (lambda _: "square", ("str",)),
        (lambda _: np.ones(3), ("ndarray",)),
    ],
)
def test_what_is_no_kernel_is_named(make, words):
    failed(verdict_of(SQUARES, jit=make), "not-a-kernel", *words)


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        (
            "void(float64[:], float32[:])",
            "argument 'out' is array(float32, 1d, C), the signature says",
        ),
        ("void(float32[:], float64[:])", "argument 'x' is array(float32, 1d, C)"),
        (["void(int32[:], int32[:])", "void(int64[:], int64[:])"], "says array(int32"),
    ],
)
def test_an_explicit_signature_is_matched_as_at_a_launch(signature, words):
    verdict = verdict_of(SQUARES, jit=cuda.jit(signature))
    failed(verdict, "wrong-arguments", words, "Hint: @cuda.jit without a signature")


def test_a_signature_that_fits_passes():
    assert verdict_of(SQUARES, jit=cuda.jit("void(float32[::1], float32[:])"))


def test_a_layout_is_matched_before_any_case():
    """The second case alone has another layout; the first would be out of bounds."""
    exercise = of_one_case(
        "columns",
        lambda x: x,
        lambda rng: {"out": np.zeros((4, 4)), "x": np.ones((4, 4))},
        grid=1,
    )
    turned = Case(
        "columns", lambda rng: {"out": np.zeros((4, 4), order="F"), "x": np.ones((4, 4))}, grid=1
    )
    exercise = dataclasses.replace(exercise, cases=[*exercise.cases, turned])

    @cuda.jit("void(float64[:, ::1], float64[:, ::1])")
    def copies(out, x):
        out[4, 4] = x[4, 4]

    with pytest.raises(Failure, match=r"'out' is array\(float64, 2d, F\)"):
        kernels.judge_kernel(exercise, copies)


def test_missing_guard_is_out_of_bounds_with_thread_and_index():
    verdict = verdict_of(SQUARES, ("if i < x.size:\n        ", ""))
    says = "Thread (107, 0, 0) of block (7, 0, 0)", "x[1003]", "1,003 elements"
    failed(verdict, "out-of-bounds", *says, "Compare i with x.size first.")
    assert verdict.findings[0].kind == "out-of-bounds"


def test_adding_to_an_integer_output_is_an_uninitialised_read(monkeypatch):
    exercise = of_one_case(
        "sample-square",
        lambda x: x * x,
        lambda rng: {"out": np.empty(10, np.int32), "x": np.arange(9, -1, -1, np.int32)},
    )
    monkeypatch.setitem(exercises._exercises, "sample-square", exercise)
    verdict = verdict_of(SQUARES, ("] =", "] +="))
    failed(verdict, "uninitialised-read", "out[0]", "the first 9 of 10")  # the last is 0


@pytest.mark.parametrize("hint", ["out holds nothing yet.", "Fill every place of the tile."])
def test_a_hint_to_what_is_read_unset_is_told_where_it_is_of_that_array(monkeypatch, hint):
    exercise = dataclasses.replace(
        exercises._exercises["sample-square"], hints={"uninitialised-read": hint}
    )
    monkeypatch.setitem(exercises._exercises, "sample-square", exercise)
    verdict = verdict_of(SQUARES, ("] =", "] +="))
    failed(verdict, "uninitialised-read", "Store the result with `=`")
    assert (hint in verdict.message) == hint.startswith("out")


def test_right_nan_in_an_output_passes(monkeypatch):
    exercise = of_one_case(
        "sample-square",
        lambda x: np.where(x == 0, np.nan, 1),
        lambda rng: {"out": np.empty(10, np.float32), "x": np.arange(-5, 5, 1, np.float32)},
    )
    monkeypatch.setitem(exercises._exercises, "sample-square", exercise)
    verdict = verdict_of(SQUARES, ("x[i] * x[i]", "x[i] / x[i]"))
    assert verdict.status == "passed", verdict
    failed(verdict_of(SQUARES, ("x[i] * x[i]", "float32(1)")), "wrong-result", "right is nan")


def test_float64_that_a_function_is_handed_is_shown_where_it_came_in():
    @cuda.jit(device=True)
    def doubled(value):
        return value + value

    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = doubled(0.5 * x[i] * x[i])

    says = "The result is right; the cost is not.", "Line 4: out[i] = doubled(0.5"
    failed(check("sample-square", square), "float64", *says)


def test_a_thread_that_costs_is_named():
    sets = "    shared = cuda.shared.array(1, float32)\n    shared[0] = 1\n    if"
    verdict = verdict_of(SQUARES, ("    if", sets))
    failed(verdict, "same-value-race")
    assert re.search(r"Thread \(\d+, 0, 0\) of block .* writes", verdict.message)


NO_GUARDS = {
    "clamped": [("grid(1)", "grid(1)\n    i = min(i, x.size - 1)"), ("i < x.size", "True")],
    "modulo": [("grid(1)", "grid(1) % x.size"), ("i < x.size", "True")],
    "everybody": [("    if i", "    out[0] = x[0] * x[0]\n    if 0 < i")],
}
SAME_VALUE = {
    "clamped": "`min(i, x.size - 1)` in line 3 gives threads beyond the end",
    "modulo": "`cuda.grid(1) % x.size` in line 2 gives threads beyond the end",
    "everybody": "Hint: A thread that has no element of its own stores nothing",
}


@pytest.mark.parametrize("guard", NO_GUARDS)
def test_several_threads_that_store_the_same_are_refused_unless_it_is_meant(guard, monkeypatch):
    verdict = verdict_of(SQUARES, *NO_GUARDS[guard])
    failed(verdict, "same-value-race", "right. Thread", SAME_VALUE[guard])
    meant = dataclasses.replace(SQUARE, same_value="meant")
    monkeypatch.setitem(exercises._exercises, "sample-square", meant)
    assert verdict_of(SQUARES, *NO_GUARDS[guard])


def test_same_value_is_meant_or_nothing():
    with pytest.raises(ValueError, match="same_value"):
        dataclasses.replace(SQUARE, same_value="yes")


#: As a lesson gives it, and as nbgrader does.
STUBS = "i = cuda.grid(1)\n    # your code here\n    pass", "raise NotImplementedError()"


@pytest.mark.parametrize("stub", STUBS)
def test_a_stub_is_not_started(stub):
    verdict = verdict_of(f"def square(out, x):\n    {stub}\n")
    assert (verdict.status, verdict.kind) == ("not started", "not-started") and not verdict
    assert str(verdict).startswith("○ sample-square: not started")


def test_name_error_is_one_sentence_with_the_line():
    verdict = verdict_of(SQUARES, ("x[i] * x[i]", "y[i] * y[i]"))
    failed(verdict, "typing", "y", "Line 4: out[i] = y[i] * y[i]")
    assert "/" not in verdict.message.replace("1 / 2", "")


# --- costs


def _limited(limit, shape=(64, 64), **options):
    return of_one_case(
        "alone",
        lambda a: a,
        lambda rng: {"out": np.empty(shape, np.float32), "a": rng.random(shape, dtype=np.float32)},
        case="64 x 64",
        block=(16, 16),
        limits=[limit] if limit else [],
        **options,
    )


@cuda.jit
def copy_along_rows(out, a):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column]


@cuda.jit
def copy_along_columns(out, a):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column]


def test_limit_of_sectors_refuses_x_along_rows_and_passes_x_along_columns(monkeypatch):
    limit = Limit("global", "load", "sectors", per="request", at_most=4, why="Let x walk columns.")
    monkeypatch.setitem(exercises._exercises, "alone", _limited(limit))
    # 16 lanes in a column, two columns in a warp: 16 sectors for each request
    failed(check("alone", copy_along_rows), "limit", "16 sectors", "4 are enough", "x walk")
    assert check("alone", copy_along_columns).status == "passed"


@pytest.mark.parametrize(
    ("per", "at_most", "words"),
    [
        ("element", 0.5, "make 1 global stores for each element of out; 0.5 are enough"),
        ("launch", 1, "global stores in all; 1 is enough"),
    ],
)
def test_a_limit_of_accesses_speaks_of_what_the_threads_do(monkeypatch, per, at_most, words):
    limit = Limit("global", "store", "lanes", per=per, at_most=at_most)
    monkeypatch.setitem(exercises._exercises, "alone", _limited(limit))
    failed(check("alone", copy_along_columns), "limit", "Your threads make", words)


@cuda.jit(device=True)
def doubled(x):
    return x + x


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (lambda: 1, ""),
        (lambda out: (0, out.size), ""),
        (lambda out: out.size + 2, "makes 1 call of doubled; 3 are needed. Why."),
        (lambda: 0, "makes 1 call of doubled; 0 are enough. Why."),
    ],
)
def test_what_is_taught_is_counted(times, words):
    exercise = of_one_case(
        "doubles",
        lambda x: x + x,
        lambda rng: {"out": np.empty(1, np.float32), "x": np.ones(1, np.float32)},
        counted=[Counted("doubled", times, "Why."), Counted("barriers", lambda: (0, 1))],
    )

    @cuda.jit
    def doubles(out, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = doubled(x[i])

    if not words:
        kernels.judge_kernel(exercise, doubles)
        return
    with pytest.raises(Failure, match=words):
        kernels.judge_kernel(exercise, doubles)


def test_a_limit_that_is_barely_missed_shows_how(monkeypatch):
    limit = Limit("global", "load", "sectors", per="request", at_most=15.9999)
    monkeypatch.setitem(exercises._exercises, "alone", _limited(limit))
    failed(check("alone", copy_along_rows), "limit", "16 sectors per request; 15.9999 are")
    limit = Limit("global", "load", "sectors", per="request", at_most=15.9999999)
    monkeypatch.setitem(exercises._exercises, "alone", _limited(limit))
    failed(check("alone", copy_along_rows), "limit", "16 sectors per request; 15.9999999 are")


@pytest.mark.parametrize("forbidden", ["same-value-race", "negative-index"])
def test_a_cost_begins_with_the_thread_that_makes_it(monkeypatch, forbidden):
    @cuda.jit
    def twice(out, a):
        row, column = cuda.grid(2)
        if row < out.shape[0] and column < out.shape[1]:
            if forbidden == "negative-index":
                out[row - out.shape[0], column] = a[row, column]
            else:
                out[row, column] = a[row, column]
                out[0, 0] = a[0, 0]

    monkeypatch.setitem(exercises._exercises, "alone", _limited(None, forbidden={forbidden}))
    cost = "" if forbidden == "same-value-race" else "; the cost is not"
    begins = f"The result is right{cost}. Thread ("
    verdict = check("alone", twice)
    failed(verdict, forbidden, begins)
    (finding,) = [each for each in verdict.findings if each.kind == forbidden]
    assert finding.sentence in " ".join(verdict.message.split())


def test_forbidden_uncoalesced_refuses_x_along_rows(monkeypatch):
    monkeypatch.setitem(exercises._exercises, "alone", _limited(None, forbidden={"uncoalesced"}))
    failed(check("alone", copy_along_rows), "uncoalesced", "The result is right")
    assert check("alone", copy_along_columns).status == "passed"


def test_cost_that_is_not_forbidden_does_not_fail(monkeypatch):
    monkeypatch.setitem(exercises._exercises, "alone", _limited(None))
    assert check("alone", copy_along_rows).status == "passed"


def test_misaligned_accesses_are_an_error_of_their_own():
    from warpsim.ptx import load4, store4

    @cuda.jit
    def square(out, x):
        i = 4 * cuda.grid(1) + 1
        if i + 3 < x.size:
            a, b, c, d = load4(x, i)
            store4(out, i, (a * a, b * b, c * c, d * d))

    cure = "let the last index be a multiple of 4", "take one element at a time"
    failed(check("sample-square", square), "misaligned", "no multiple of 16", *cure)


def test_every_error_of_the_simulator_has_its_turn():
    import warpsim as simt
    from course.checks import verdicts

    assert set(simulating.ERRORS) == simt.ERRORS
    assert set(verdicts.FAILURES) >= simt.ERRORS


def test_results_kept_in_an_array_of_the_module_are_refused():
    exercise = dataclasses.replace(SQUARE, cases=SQUARE.cases[:1])
    squares = np.float32(exercise.arguments(0)["x"]) ** 2

    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = squares[i]

    with pytest.raises(Failure) as told:
        kernels.judge_kernel(exercise, square)
    assert "wrong when this case comes again with other values" in told.value.message
