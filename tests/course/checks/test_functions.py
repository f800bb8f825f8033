"""Typical wrong functions get the verdict that helps; right ones pass."""

import dataclasses
import re
import sys
from decimal import Decimal
from fractions import Fraction

import numba
import numpy as np
import pytest

from course.checks import check, exercises, functions
from course.checks.exercises import Case, FunctionExercise, find_exercise
from course.checks.verdicts import Failure
from course_lessons.lesson01.judges import launch_covers
from tests.course.checks.sample_exercises import failed, samples, writes_far  # noqa: F401
from tests.texts import body_of
from warpsim import cuda

# --- functions


def of_one_case(name, arguments, reference=None, **options):
    """An exercise that is checked with one set of arguments, drawn by its name."""
    cases = [Case("one", arguments)]
    return FunctionExercise(
        name=name, lesson=99, title="", reference=reference, cases=cases, **options
    )


MEAN = "mse = np.mean((a - b) ** 2)\n"


def error(body):
    return body_of("a, b", body, np=np)


def mean_error(a, b):
    return np.mean((a - b) ** 2)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (MEAN + "return mse, np.sqrt(mse)", "passed"),
        (MEAN + "return np.array([mse, np.sqrt(mse)])", "passed"),
        ("# your code here\npass", "not started"),
    ],
)
def test_right_functions_pass_and_stubs_are_not_started(body, status):
    assert check("sample-error", error(body)).status == status


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (error("mse = np.mean((a - b) ** 2)"), "wrong-result", ["return"]),
        (error(MEAN + "return mse"), "wrong-shape", ["2 values"]),
        (lambda a, b: np.zeros(3), "wrong-shape", ["2 values; got 3 values"]),
        (error("mse = np.sum((a - b) ** 2)\nreturn mse, np.sqrt(mse)"), "wrong-result",
         ["the result[0] is", "right is"]),
        (error("a -= b\nreturn np.mean(a**2), np.sqrt(np.mean(a**2))"), "input-modified",
         ["a is an input"]),
        (error("scale = 1 // 0\nreturn scale, a"), "raised",
         ["ZeroDivisionError", "Line 2: scale = 1 // 0"]),
        ((0.1, 0.2), "not-a-function", ["tuple"]),
        (cuda.jit(mean_error), "not-a-function", ["mean_error is compiled", "@cuda.jit"]),
        (cuda.jit(mean_error)[1, 32], "not-a-function", ["mean_error is compiled for the GPU"]),
        (cuda.jit(device=True)(mean_error), "not-a-function", ["a plain Python function"]),
    ],
)  # fmt: skip
def test_wrong_functions_are_told(answer, kind, words):
    failed(check("sample-error", answer), kind, *words)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.add, "add runs on the CPU"),
        (np.vectorize(lambda x: x + x), "runs in Python"),
        (numba.vectorize(lambda x: x + x), "runs on the CPU"),
        (cuda.jit(lambda x: x + x), "is a kernel"),
        (lambda x: x + x, "runs in Python, on the host"),
        (3.5, "of type float"),
        (None, "check was given None"),
    ],
)
def test_a_ufunc_for_the_gpu_is_made_for_the_gpu(answer, words, monkeypatch):
    ones = lambda rng: {"x": np.ones(7, np.float32)}  # noqa: E731
    exercise = of_one_case("doubled", ones, lambda x: x + x, runs="gpu-ufunc")
    monkeypatch.setitem(exercises._exercises, "doubled", exercise)
    failed(check("doubled", answer), "not-a-function", words)
    assert check("doubled", cuda.vectorize(["float32(float32)"])(lambda x: x + x))
    with pytest.raises(ValueError, match="runs is"):
        dataclasses.replace(exercise, runs="kernel")


def halved(kind):
    """An exercise whose arguments are of a type; the right answer is half of them."""
    name = f"halved {np.dtype(kind)}"
    return of_one_case(
        name, lambda rng: {"x": rng.standard_normal(33).astype(kind)}, lambda x: x / 2
    )


@pytest.mark.parametrize(
    ("returned", "given"),
    [(np.float16, np.float32), (np.float16, np.float64), (np.float32, np.float64)],
)
def test_an_answers_own_type_is_enough_where_it_is_given_and_widens_no_tolerance(returned, given):
    def half(x):
        return (x.astype(returned) / returned(2)).astype(returned)

    functions.judge_function(halved(returned), half)
    with pytest.raises(Failure) as told:
        functions.judge_function(halved(given), half)
    assert told.value.kind == "wrong-result"


def test_pythons_own_numbers_are_held_to_the_type_that_was_given():
    def rooted(kind):
        exact = lambda x: np.sqrt(x.astype(np.float64))  # noqa: E731
        return of_one_case("roots", lambda rng: {"x": rng.random(33).astype(kind)}, exact)

    def root(x):
        return np.sqrt(x.astype(np.float32)).tolist()

    functions.judge_function(rooted(np.float32), root)
    with pytest.raises(Failure) as caught:  # digits of float64 were given, and lost
        functions.judge_function(rooted(np.float64), root)
    assert caught.value.kind == "wrong-result"


def test_an_argument_whose_shape_was_changed_is_named():
    def half(x):
        x.shape = (3, 11)
        return x.ravel() / 2

    with pytest.raises(
        Failure, match=r"x is an input, but it was of shape \(33,\), float32"
    ) as told:
        functions.judge_function(halved(np.float32), half)
    assert told.value.kind == "input-modified" and "is now of shape (3, 11)" in told.value.message


def test_an_input_rounded_in_place_is_shown_with_the_digits_that_differ():
    def half(x):
        x[:] = x.astype(np.float32)
        return x / 2

    with pytest.raises(Failure, match=r"x\[0\] changed from (\S+) to (\S+);") as told:
        functions.judge_function(halved(np.float64), half)
    was, now = told.value.message.split(" from ")[1].split(";")[0].split(" to ")
    assert was != now


def test_wrong_dtype_and_wrong_shape_are_told(monkeypatch):
    drawn = lambda rng: {"a": rng.random((3, 5), dtype=np.float32)}  # noqa: E731
    exercise = of_one_case("widen", drawn, lambda a: a.T, dtype=np.float32)
    monkeypatch.setitem(exercises._exercises, "widen", exercise)
    assert check("widen", lambda a: a.T).status == "passed"
    failed(check("widen", lambda a: a.T.astype(np.float64)), "wrong-dtype", "float64", "float32")
    failed(check("widen", lambda a: a), "wrong-shape", "(3, 5)", "Rows and columns are swapped")


def test_function_that_launches_a_bad_kernel_gets_the_kernels_finding():
    failed(check("sample-error", writes_far(cuda)), "out-of-bounds", "100")


def test_launch_covers_takes_any_right_configuration_and_explains_wrong_ones():
    judge = launch_covers(lambda rows, columns: (rows, columns))

    def say(answer):
        return judge(answer, rows=1000, columns=700)

    assert say(((44, 63), (16, 16))) is None
    assert say(((22, 125), (32, 8))) is None
    assert "Along x" in say(((43, 63), (16, 16)))
    assert "12 without a thread" in say(((43, 63), (16, 16)))
    assert "more than needed" in say(((63, 63), (16, 16)))
    assert "whole numbers" in say(((700 / 16, 63), (16, 16)))
    assert "1,024" in say(((11, 16), (64, 64)))
    assert "2 numbers" in say((44, 16))
    assert "two things" in say(5)


@pytest.fixture
def of_a_sum(monkeypatch):
    exercise = of_one_case("sum", lambda rng: {"a": 1.0, "b": 2.0}, lambda a, b: a + b)
    monkeypatch.setitem(exercises._exercises, "sum", exercise)
    return exercise


@pytest.mark.usefixtures("of_a_sum")
def test_answers_that_are_no_numbers_get_a_verdict():
    for odd in ((1.0, np.array([1, 2])), [[1, 2], [3]], "many"):
        failed(check("sum", lambda a, b, odd=odd: odd), "wrong-result", "not numbers")


def test_a_judge_that_trips_over_an_odd_answer_does_not_end_the_lesson(monkeypatch, of_a_sum):
    judge = lambda result, a, b: None if np.asarray(result) == a + b else "Wrong."  # noqa: E731
    judged = dataclasses.replace(of_a_sum, reference=None, judge=judge)
    monkeypatch.setitem(exercises._exercises, "sum", judged)
    failed(check("sum", lambda a, b: [[1, 2], [3]]), "wrong-result", "cannot be judged")


def test_an_answer_that_empties_a_list_is_told_and_spoils_no_case(monkeypatch):
    given = {"waits": {"barrier": [3, 4], "selected": [1]}}
    right = lambda clocks: max(map(sum, clocks["waits"].values()))  # noqa: E731
    exercise = of_one_case("longest", lambda rng: {"clocks": given}, right)
    monkeypatch.setitem(exercises._exercises, "longest", exercise)

    def longest(clocks):
        clocks["waits"].pop("selected")
        return 7

    failed(check("longest", longest), "input-modified", "belongs to the caller", "a new dictionary")
    verdict = check("longest", lambda clocks: max(map(sum, clocks["waits"].values())))
    assert verdict.status == "passed"


@pytest.mark.usefixtures("of_a_sum")
def test_a_function_that_never_ends_is_told(monkeypatch):
    monkeypatch.setattr(functions, "MOST_SECONDS", 0.05)

    def count_up(a, b):
        total = a
        while total != 0:
            total += b
        return total

    verdict = check("sum", count_up)
    failed(verdict, "endless-loop", "had not ended after 0.05 s", "come to an end")


@pytest.mark.usefixtures("of_a_sum")
def test_an_answer_that_quits_ends_nothing_else():
    def leave(a, b):
        raise SystemExit("done")

    failed(check("sum", leave), "raised", "SystemExit", "done")


@pytest.mark.parametrize("number", [Fraction, Decimal])
def test_exact_numbers_are_numbers(number):
    exercise = of_one_case("part", lambda rng: {"n": 8}, lambda n: 1 / n)
    functions.judge_function(exercise, lambda n: number(1) / number(n))
    with pytest.raises(Failure, match=r"result is 0.25, right is 0.125\."):
        functions.judge_function(exercise, lambda n: 2 * number(1) / number(n))


# --- what an answer may not lean on


_KEPT: dict = {}


def test_a_result_kept_by_shape_is_refused_and_a_table_by_value_is_not():
    def kept(x):
        return _KEPT.setdefault(x.shape, x / 2)

    with pytest.raises(Failure) as told:
        functions.judge_function(halved(np.float32), kept)
    says = "Right, and wrong when this case comes again with other values. Something is kept"
    assert says in told.value.message
    assert len(_KEPT) == 1

    def remembered(x):
        return _KEPT.setdefault(x.tobytes(), x / 2)

    functions.judge_function(halved(np.float32), remembered)


def by_find_exercise(x):
    return find_exercise("sample").reference(x)


def by_its_name(x):
    return _helper(x)


def _helper(x):
    return _solution(x)


def _solution(x):
    return x / 2


def by_a_closure(solution=_solution):
    return lambda x: solution(x) if x.size else _solution(x)


def by_an_import(x):
    from course.checks.exercises import find_exercise as found

    return found("sample").reference(x)


def by_a_frame(x):
    frame = sys._getframe()
    while "exercise" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["exercise"].reference(x)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (by_a_frame, "Your answer calls part of what judges it"),
        (by_find_exercise, "uses `find_exercise`, which is part of what judges it"),
        (by_an_import, "find_exercise`, which is part of what judges it"),
        (by_its_name, "uses `_solution`, which is a solution of the course"),
        (by_a_closure(), "uses `solution`"),
        (_solution, "Your answer is a solution of the course"),
    ],
)
def test_the_courses_own_solution_is_no_answer(answer, words):
    exercise = dataclasses.replace(halved(np.float32), solved_by=(_solution,))
    with pytest.raises(Failure, match=re.escape(words)) as told:
        functions.judge_function(exercise, answer)
    assert told.value.kind == "borrowed"
    if answer is by_its_name:
        functions.judge_function(halved(np.float32), answer)
