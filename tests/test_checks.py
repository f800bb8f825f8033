"""Typical wrong answers get the verdict that helps; right ones pass."""

import numpy as np
import pytest
from numba import float32
from sample_exercises import ADD, ALL, HISTOGRAM, MEAN, SQUARE

from course import backend, checks, session
from course.checks import (
    Case,
    FunctionExercise,
    KernelExercise,
    Limit,
    Tolerance,
    UnknownExercise,
    check,
    launch_covers,
)
from course.simt import host as cuda
from course.verdicts import VerdictError


@pytest.fixture(autouse=True)
def samples(monkeypatch):
    """Only the sample exercises, a fresh session, no strictness from outside."""
    monkeypatch.setattr(checks, "_exercises", {exercise.name: exercise for exercise in ALL})
    monkeypatch.setattr(checks, "_loaded", True)
    monkeypatch.setattr(session, "_records", {})
    monkeypatch.delenv("COURSE_STRICT", raising=False)
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    monkeypatch.setattr(backend, "gpu", lambda: None)


def failed(verdict, kind, *words):
    """Assert that a verdict is a failure of this kind, and says these words."""
    assert verdict.status == "failed", verdict
    assert verdict.kind == kind, verdict
    for word in words:
        assert word in str(verdict).replace("\n    ", " "), (word, str(verdict))


# ------------------------------------------------------------------------------ right answers


def test_right_square_passes():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] * x[i]

    verdict = check("sample-square", square)
    assert verdict.status == "passed", verdict
    assert verdict
    assert str(verdict).startswith("✓ sample-square: passed")
    assert "5 cases" in verdict.message
    assert "1,003 elements" in verdict.message


def test_right_square_with_another_spelling_passes():
    @cuda.jit
    def square(result, values):
        i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
        if i >= result.shape[0]:
            return
        value = values[i]
        result[i] = value * value

    assert check("sample-square", square).status == "passed"


def test_right_add_passes():
    @cuda.jit
    def add(out, a, b):
        column, row = cuda.grid(2)
        if row < out.shape[0] and column < out.shape[1]:
            out[row, column] = a[row, column] + b[row, column]

    verdict = check("sample-add", add)
    assert verdict.status == "passed", verdict


def test_right_histogram_passes():
    @cuda.jit
    def histogram(counts, values):
        for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
            cuda.atomic.add(counts, values[i], 1)

    verdict = check("sample-histogram", histogram)
    assert verdict.status == "passed", verdict


# ---------------------------------------------------------------------------------- mistakes


def test_missing_guard_is_out_of_bounds_with_thread_and_index():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        out[i] = x[i] * x[i]

    verdict = check("sample-square", square)
    failed(
        verdict,
        "out-of-bounds",
        "Thread (107, 0, 0) of block (7, 0, 0)",
        "x[1003]",
        "1,003 elements",
        "Compare i with x.size first.",
    )
    assert verdict.findings
    assert verdict.findings[0].kind == "out-of-bounds"


def test_guard_that_admits_one_too_many_is_out_of_bounds():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i <= x.size:
            out[i] = x[i] * x[i]

    failed(check("sample-square", square), "out-of-bounds", "1003")


def test_guard_that_admits_one_too_few_leaves_the_last_element():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size - 1:
            out[i] = x[i] * x[i]

    failed(check("sample-square", square), "unwritten-output", "the last element of 8", "out[7]")


def test_index_without_the_block_leaves_all_but_the_first_block():
    @cuda.jit
    def square(out, x):
        i = cuda.threadIdx.x
        if i < x.size:
            out[i] = x[i] * x[i]

    verdict = check("sample-square", square)
    # Every block writes the same values to the same elements: no result differs, no race harms.
    failed(verdict, "unwritten-output", "the last 875 of 1,003", "out[128]")


def test_off_by_one_index_is_recognised_as_a_shift():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[(i + 1) % x.size] = x[i] * x[i]

    failed(check("sample-square", square), "wrong-result", "Shifted by one", "off by one")


def test_doubling_is_recognised_from_the_declared_mistake():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] + x[i]

    failed(check("sample-square", square), "wrong-result", "you double x instead of squaring it")


def test_copy_is_recognised_as_the_input():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i]

    failed(check("sample-square", square), "wrong-result", "It holds x, unchanged.")


def test_scaled_result_is_recognised():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = float32(0.5) * x[i] * x[i]

    failed(check("sample-square", square), "wrong-result", "0.5 times the right one")


def test_in_place_aliasing_is_input_modified():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = x[i] * x[i]
            out[i] = x[i]

    failed(check("sample-square", square), "input-modified", "x is an input", "write to out")


def test_adding_to_the_output_is_an_uninitialised_read():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] += x[i] * x[i]

    failed(check("sample-square", square), "uninitialised-read", "out[0]", "`=`")


def test_float64_accumulator_is_a_cost_that_fails():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            t = 0.0
            t += x[i] * x[i]
            out[i] = t

    failed(check("sample-square", square), "float64", "The result is right", "float32(0)")


def test_stub_is_not_started():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)  # noqa: F841
        # your code here
        pass  # noqa: PIE790

    verdict = check("sample-square", square)
    assert verdict.status == "not started"
    assert verdict.kind == "not-started"
    assert not verdict
    assert str(verdict).startswith("○ sample-square: not started")


def test_kernel_without_a_store_and_without_a_pass_is_unwritten_output():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            y = x[i] * x[i]  # noqa: F841

    failed(check("sample-square", square), "unwritten-output", "Nothing was written to out")


def test_solution_that_still_has_its_pass_passes():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] * x[i]
        pass  # noqa: PIE790

    assert check("sample-square", square).status == "passed"


def test_missing_decorator_is_named():
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] * x[i]

    failed(check("sample-square", square), "not-a-kernel", "plain Python function", "@cuda.jit")


def test_decorator_with_device_true_is_named():
    @cuda.jit(device=True)
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] * x[i]

    failed(check("sample-square", square), "not-a-kernel", "device function")


def test_decorator_called_with_brackets_passes():
    @cuda.jit()
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] * x[i]

    assert check("sample-square", square).status == "passed"


def test_result_of_a_launch_is_explained():
    failed(check("sample-square", None), "not-a-kernel", "None", "without brackets")


def test_launch_configuration_in_the_answer_is_explained():
    @cuda.jit
    def square(out, x):
        pass

    failed(check("sample-square", square[1, 32]), "not-a-kernel", "Leave out [grid, block]")


def test_njit_is_explained():
    from numba import njit

    @njit
    def square(out, x):
        pass

    failed(check("sample-square", square), "not-a-kernel", "CPU", "@cuda.jit")


@pytest.mark.parametrize(
    ("answer", "word"),
    [(3.5, "float"), (dict, "class"), ("square", "str"), (np.ones(3), "ndarray")],
)
def test_anything_else_is_not_a_kernel(answer, word):
    failed(check("sample-square", answer), "not-a-kernel", word)


def test_wrong_number_of_arguments_names_the_expected_ones():
    @cuda.jit
    def square(x):
        pass

    failed(
        check("sample-square", square), "wrong-arguments", "1 argument (x)", "2 arguments: out, x"
    )


def test_swapped_arguments_are_named():
    @cuda.jit
    def square(x, out):
        pass

    failed(check("sample-square", square), "wrong-arguments", "in the order x, out")


def test_name_error_is_one_sentence_with_the_line():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = y[i] * y[i]  # noqa: F821

    verdict = check("sample-square", square)
    failed(verdict, "typing", "y", "Line 4: out[i] = y[i] * y[i]")
    assert "/" not in verdict.message.replace("1 / 2", "")


def test_guard_on_the_wrong_axis_is_out_of_bounds():
    @cuda.jit
    def add(out, a, b):
        column, row = cuda.grid(2)
        if row < out.shape[1] and column < out.shape[0]:
            out[row, column] = a[row, column] + b[row, column]

    failed(check("sample-add", add), "out-of-bounds", "13 x 37", "grid 3 x 1, block 16 x 16")


def test_guard_with_or_instead_of_and_is_out_of_bounds():
    @cuda.jit
    def add(out, a, b):
        column, row = cuda.grid(2)
        if row < out.shape[0] or column < out.shape[1]:
            out[row, column] = a[row, column] + b[row, column]

    failed(check("sample-add", add), "out-of-bounds", "13 x 37")


def test_guard_on_one_axis_only_is_out_of_bounds():
    @cuda.jit
    def add(out, a, b):
        column, row = cuda.grid(2)
        if column < out.shape[1]:
            out[row, column] = a[row, column] + b[row, column]

    failed(check("sample-add", add), "out-of-bounds")


def test_swapped_indices_of_the_output_are_the_transpose():
    @cuda.jit
    def add(out, a, b):
        column, row = cuda.grid(2)
        if row < out.shape[0] and column < out.shape[1]:
            out[column, row] = a[row, column] + b[row, column]

    failed(check("sample-add", add), "wrong-result", "transpose of the right one", "32 x 32")


def test_x_along_rows_leaves_columns_unwritten():
    @cuda.jit
    def add(out, a, b):
        row, column = cuda.grid(2)
        if row < out.shape[0] and column < out.shape[1]:
            out[row, column] = a[row, column] + b[row, column]

    failed(check("sample-add", add), "unwritten-output", "the last 21 columns of 37")


def test_difference_instead_of_sum_is_wrong_everywhere():
    @cuda.jit
    def add(out, a, b):
        column, row = cuda.grid(2)
        if row < out.shape[0] and column < out.shape[1]:
            out[row, column] = a[row, column] - b[row, column]

    failed(check("sample-add", add), "wrong-result", "out[0, 0] is", "all 1,024 elements")


def test_missing_atomic_is_a_race():
    @cuda.jit
    def histogram(counts, values):
        for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
            counts[values[i]] += 1

    verdict = check("sample-histogram", histogram)
    assert verdict.status == "failed"
    assert verdict.kind in ("race", "wrong-result")
    assert "counts" in str(verdict)
    assert "cuda.atomic" in str(verdict)


def test_grid_stride_forgotten_counts_too_little():
    @cuda.jit
    def histogram(counts, values):
        i = cuda.grid(1)
        if i < values.size:
            cuda.atomic.add(counts, values[i], 1)

    verdict = check("sample-histogram", histogram)
    failed(verdict, "wrong-result", "500 values, 7 bins", "more values than threads")


def test_endless_loop_ends_in_a_verdict(monkeypatch):
    monkeypatch.setattr("course.simt.threads.STEP_LIMIT", 1_000)

    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        while i < x.size:
            out[i] = x[i] * x[i]

    verdict = check("sample-square", square)
    assert verdict.status == "failed"


# ------------------------------------------------------------------------------------ costs


def _limited(limit, shape=(64, 64), **options):
    return KernelExercise(
        name="limited",
        lesson=99,
        title="Copy",
        outputs=("out",),
        reference=lambda a: a,
        cases=[
            Case(
                "64 x 64",
                lambda rng: {
                    "out": np.empty(shape, np.float32),
                    "a": rng.random(shape, dtype=np.float32),
                },
                block=(16, 16),
            )
        ],
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
    monkeypatch.setitem(checks._exercises, "limited", _limited(limit))
    # 16 lanes in a column, two columns in a warp: 16 sectors for each request
    failed(check("limited", copy_along_rows), "limit", "16 sectors", "4 are enough", "x walk")
    assert check("limited", copy_along_columns).status == "passed"


def test_forbidden_uncoalesced_refuses_x_along_rows(monkeypatch):
    monkeypatch.setitem(checks._exercises, "limited", _limited(None, forbidden={"uncoalesced"}))
    failed(check("limited", copy_along_rows), "uncoalesced", "The result is right")
    assert check("limited", copy_along_columns).status == "passed"


def test_cost_that_is_not_forbidden_does_not_fail(monkeypatch):
    monkeypatch.setitem(checks._exercises, "limited", _limited(None))
    assert check("limited", copy_along_rows).status == "passed"


# -------------------------------------------------------------------------------- functions


def test_right_function_passes():
    def error(a, b):
        mse = np.mean((a - b) ** 2)
        return mse, np.sqrt(mse)

    assert check("sample-error", error).status == "passed"


def test_function_stub_is_not_started():
    def error(a, b):
        # your code here
        pass

    assert check("sample-error", error).status == "not started"


def test_function_that_forgets_return_is_told():
    def error(a, b):
        mse = np.mean((a - b) ** 2)  # noqa: F841

    failed(check("sample-error", error), "wrong-result", "return")


def test_function_that_returns_too_little_is_told():
    failed(check("sample-error", lambda a, b: np.mean((a - b) ** 2)), "wrong-result", "2 values")


def test_function_that_returns_the_wrong_number_shows_both():
    def error(a, b):
        mse = np.sum((a - b) ** 2)
        return mse, np.sqrt(mse)

    failed(check("sample-error", error), "wrong-result", "the result[0] is", "right is")


def test_function_that_changes_its_input_is_told():
    def error(a, b):
        a -= b
        return np.mean(a**2), np.sqrt(np.mean(a**2))

    failed(check("sample-error", error), "input-modified", "a is an input")


def test_exception_is_reported_with_its_line():
    def error(a, b):
        scale = 1 // 0
        return scale, a

    failed(check("sample-error", error), "raised", "ZeroDivisionError", "Line 2: scale = 1 // 0")


def test_result_instead_of_function_is_told():
    failed(check("sample-error", (0.1, 0.2)), "not-a-function", "tuple")


def test_wrong_dtype_and_wrong_shape_are_told(monkeypatch):
    exercise = FunctionExercise(
        name="widen",
        lesson=99,
        title="",
        reference=lambda a: a.T,
        cases=[Case("3 x 5", lambda rng: {"a": rng.random((3, 5), dtype=np.float32)})],
        dtype=np.float32,
    )
    monkeypatch.setitem(checks._exercises, "widen", exercise)
    assert check("widen", lambda a: a.T).status == "passed"
    failed(check("widen", lambda a: a.T.astype(np.float64)), "wrong-dtype", "float64", "float32")
    failed(check("widen", lambda a: a), "wrong-shape", "(3, 5)", "Rows and columns are swapped")


def test_function_that_launches_a_bad_kernel_gets_the_kernels_finding():
    @cuda.jit
    def far(out):
        out[cuda.grid(1) + 100] = 1

    def error(a, b):
        out = np.zeros(3, np.float32)
        far[1, 1](out)
        return out

    failed(check("sample-error", error), "out-of-bounds", "100")


def test_launch_covers_takes_any_right_configuration_and_explains_wrong_ones():
    judge = launch_covers(lambda rows, columns: (rows, columns))

    def say(answer):
        return judge(answer, rows=1000, columns=700)

    assert say(((44, 63), (16, 16))) is None
    assert say(((22, 125), (32, 8))) is None
    assert "Along x" in say(((43, 63), (16, 16)))
    assert "12 stay without a thread" in say(((43, 63), (16, 16)))
    assert "more than needed" in say(((63, 63), (16, 16)))
    assert "whole numbers" in say(((700 / 16, 63), (16, 16)))
    assert "1,024" in say(((11, 16), (64, 64)))
    assert "2 numbers" in say((44, 16))
    assert "two things" in say(5)


# --------------------------------------------------------------------------- frame and names


def test_unknown_name_lists_close_ones():
    with pytest.raises(UnknownExercise, match="sample-square"):
        check("sampel-square", None)


def test_swapped_name_and_answer_are_explained():
    def square(out, x):
        pass

    with pytest.raises(UnknownExercise, match="name comes first"):
        check(square, "sample-square")


def test_strict_mode_raises_what_is_not_passed(monkeypatch):
    monkeypatch.setenv("COURSE_STRICT", "1")

    def error(a, b):
        pass

    with pytest.raises(VerdictError, match="not started"):
        check("sample-error", error)
    assert check(
        "sample-error", lambda a, b: (np.mean((a - b) ** 2), np.sqrt(np.mean((a - b) ** 2)))
    )


def test_arguments_are_the_same_on_every_call():
    for exercise in ALL:
        for number in range(len(exercise.cases)):
            first, second = exercise.arguments(number), exercise.arguments(number)
            for name in first:
                if name != "out":
                    assert np.array_equal(first[name], second[name])


def test_verdict_names_no_path_and_no_address():
    @cuda.jit
    def square(out, x):
        out[cuda.grid(1)] = x[0]

    text = str(check("sample-square", square))
    assert ".py" not in text
    assert " at 0x" not in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"outputs": ("result",)}, "must name arguments"),
        ({"outputs": ()}, "must name arguments"),
        ({"forbidden": {"slow"}}, "forbidden knows"),
        ({"cases": []}, "no cases"),
        ({"reference": None}, "needs a reference"),
    ],
)
def test_bad_declarations_are_refused(change, words):
    options = {
        "name": "bad",
        "lesson": 99,
        "title": "",
        "outputs": ("out",),
        "reference": lambda x: x,
        "cases": SQUARE.cases,
    }
    with pytest.raises(ValueError, match=words):
        KernelExercise(**{**options, **change})


def test_limit_of_an_unknown_figure_is_refused():
    with pytest.raises(ValueError, match="sectors"):
        Limit("global", "load", "speed", per="request", at_most=1)


def test_tolerance_grows_with_the_magnitude_given():
    tolerance = Tolerance(2, "two roundings", magnitude=lambda x: abs(x))
    x = np.array([1.0, 100.0], np.float32)
    allowed = tolerance.allowed({"x": x}, np.zeros(2), np.dtype(np.float32))
    assert np.allclose(allowed, 2 * np.finfo(np.float32).eps * x)
    assert tolerance.allowed({"x": x}, np.zeros(2), np.dtype(np.int32)) == 0


def test_names_of_samples_stay_apart():
    assert {ADD.name, HISTOGRAM.name, MEAN.name, SQUARE.name} == set(checks.exercises())


def test_wrong_on_purpose_shows_the_verdict_and_notes_nothing(monkeypatch):
    monkeypatch.setenv("COURSE_STRICT", "1")

    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        out[i] = x[i] * x[i]

    verdict = check("sample-square", square, wrong_on_purpose=True)
    assert verdict.kind == "out-of-bounds"
    assert session._records == {}


# ------------------------------------------------------------------- what lessons declared


@pytest.fixture(scope="module")
def declared():
    """Every exercise of the course."""
    return checks.exercises()


def test_references_of_all_declared_exercises_fit_their_outputs_and_mistakes_differ(declared):
    from course import kernel_judge

    for exercise in declared.values():
        told_apart = set()
        for number in range(len(exercise.cases)):
            arguments = exercise.arguments(number)
            assert list(arguments) == list(exercise.parameters), exercise.name
            if exercise.reference is None:
                continue
            if isinstance(exercise, KernelExercise):

                def call(function, exercise=exercise, arguments=arguments):
                    result = checks.call_with_named(function, arguments)
                    return kernel_judge._by_name(exercise, result, arguments)
            else:

                def call(function, arguments=arguments):
                    return checks.call_with_named(function, arguments)

            right = repr(call(exercise.reference))
            for sentence, mistake in exercise.mistakes.items():
                if repr(call(mistake)) != right:
                    told_apart.add(sentence)
        assert told_apart >= set(exercise.mistakes), exercise.name


def test_hints_of_all_declared_exercises_are_for_kinds_that_exist(declared):
    kinds = {
        *("out-of-bounds", "race", "barrier-divergence", "uninitialised-read", "limit"),
        *("unwritten-output", "wrong-result", "wrong-dtype", "wrong-shape", "input-modified"),
        *("wrong-arguments", "not-a-kernel", "not-a-function", "typing", "raised", "gpu-result"),
        *checks.FINDING_COSTS,
    }
    for exercise in declared.values():
        assert set(exercise.hints) <= kinds, exercise.name
