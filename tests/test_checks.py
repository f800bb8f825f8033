"""Typical wrong kernels get the verdict that helps; right ones pass."""

import dataclasses

import numpy as np
import pytest
from numba import float32, int32
from sample_exercises import SQUARE, failed, samples  # noqa: F401

from course import checks, kernel_judge
from course.checks import Case, KernelExercise, Limit, Passes, check
from course.simt import host as cuda
from course.verdicts import Failure

# --- right answers


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


# --- mistakes


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


def test_adding_to_an_integer_output_is_an_uninitialised_read(monkeypatch):
    exercise = KernelExercise(
        name="integers",
        lesson=99,
        title="",
        outputs=("out",),
        reference=lambda x: 2 * x,
        cases=[
            Case(
                "10 elements",
                lambda rng: {
                    "out": np.empty(10, np.int32),
                    "x": rng.integers(0, 9, 10).astype(np.int32),
                },
                block=32,
            )
        ],
    )
    monkeypatch.setitem(checks._exercises, "integers", exercise)

    @cuda.jit
    def twice(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] += 2 * x[i]

    failed(check("integers", twice), "uninitialised-read", "out[0]", "9 of 10 elements")


def test_nan_that_the_kernel_computes_itself_is_a_wrong_result():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = (x[i] - x[i]) / (x[i] - x[i])

    failed(check("sample-square", square), "wrong-result", "out[0] is nan")


def test_right_nan_in_an_output_passes(monkeypatch):
    exercise = KernelExercise(
        name="root",
        lesson=99,
        title="",
        outputs=("out",),
        reference=lambda x: np.where(x < 0, np.nan, x),
        cases=[
            Case(
                "10 elements",
                lambda rng: {
                    "out": np.empty(10, np.float32),
                    "x": rng.standard_normal(10, dtype=np.float32),
                },
                block=32,
            )
        ],
    )
    monkeypatch.setitem(checks._exercises, "root", exercise)

    @cuda.jit
    def keep(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] if x[i] >= 0 else float32(np.nan)

    verdict = check("root", keep)
    assert verdict.status == "passed", verdict


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
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        shared = cuda.shared.array(1, int32)
        shared[0] = 1
        if i < out.size:
            out[i] = x[i] * x[i]

    exercise = dataclasses.replace(SQUARE, name="square-alone", forbidden={"same-value-race"})
    with pytest.raises(Failure, match=r"Thread \(\d+, 0, 0\) of block .* writes"):
        kernel_judge.judge_kernel(exercise, square)


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

    failed(check("sample-histogram", histogram), "race", "counts", "Thread (", "cuda.atomic")


def test_grid_stride_forgotten_counts_too_little():
    @cuda.jit
    def histogram(counts, values):
        i = cuda.grid(1)
        if i < values.size:
            cuda.atomic.add(counts, values[i], 1)

    verdict = check("sample-histogram", histogram)
    failed(verdict, "wrong-result", "500 values, 7 bins", "more values than threads")


def test_endless_loop_ends_in_a_verdict():
    @cuda.jit
    def square(out, x):
        i = cuda.grid(1)
        while i < x.size:
            out[i] = x[i] * x[i]

    failed(check("sample-square", square), "endless-loop", "line 3", "is its condition ever false")


# --- costs


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


@pytest.mark.parametrize(
    ("per", "at_most", "words"),
    [
        ("element", 0.5, "make 1 global stores for each element of out; 0.5 are enough"),
        ("launch", 1, "global stores in all; 1 is enough"),
    ],
)
def test_a_limit_of_accesses_speaks_of_what_the_threads_do(monkeypatch, per, at_most, words):
    limit = Limit("global", "store", "lanes", per=per, at_most=at_most)
    monkeypatch.setitem(checks._exercises, "limited", _limited(limit))
    failed(check("limited", copy_along_columns), "limit", "Your threads make", words)


def test_a_limit_that_is_barely_missed_shows_how(monkeypatch):
    limit = Limit("global", "load", "sectors", per="request", at_most=15.9999)
    monkeypatch.setitem(checks._exercises, "limited", _limited(limit))
    failed(check("limited", copy_along_rows), "limit", "16 sectors per request; 15.9999 are")
    limit = Limit("global", "load", "sectors", per="request", at_most=15.9999999)
    monkeypatch.setitem(checks._exercises, "limited", _limited(limit))
    failed(check("limited", copy_along_rows), "limit", "16 sectors per request; 15.9999999 are")


@pytest.mark.parametrize("forbidden", ["same-value-race", "negative-index"])
def test_a_cost_begins_with_the_thread_that_makes_it(monkeypatch, forbidden):
    @cuda.jit
    def twice(out, a):
        row, column = cuda.grid(2)
        if row < out.shape[0] and column < out.shape[1]:
            out[row - out.shape[0], column] = a[row, column]
            if forbidden == "same-value-race":
                out[0, 0] = a[0, 0]

    monkeypatch.setitem(checks._exercises, "limited", _limited(None, forbidden={forbidden}))
    begins = "The result is right; the cost is not. Thread ("
    verdict = check("limited", twice)
    failed(verdict, forbidden, begins)
    (finding,) = [each for each in verdict.findings if each.kind == forbidden]
    assert finding.sentence in " ".join(verdict.message.split())


@pytest.mark.parametrize(("threads", "verdict"), [(64, "passed"), (32, "failed")])
def test_passes_tell_whether_the_threads_share_the_work(monkeypatch, threads, verdict):
    """Sums over all threads, as limits are, are the same for both answers."""

    @cuda.jit
    def copy_by_some(out, a):
        if cuda.threadIdx.x < threads:
            for i in range(cuda.threadIdx.x, out.size, threads):
                out[i] = a[i]

    exercise = KernelExercise(
        name="shared-out",
        lesson=99,
        title="Copy, a block for all",
        outputs=("out",),
        reference=lambda a: a,
        cases=[
            Case(
                "256 elements",
                lambda rng: {"out": np.empty(256), "a": rng.random(256)},
                block=64,
                grid=1,
            )
        ],
        passes=Passes(4, "Four elements for each thread."),
    )
    monkeypatch.setitem(checks._exercises, "shared-out", exercise)
    found = check("shared-out", copy_by_some)
    assert found.status == verdict, found
    if verdict == "failed":
        failed(found, "limit", "round more than 4 times. Four elements")


def test_forbidden_uncoalesced_refuses_x_along_rows(monkeypatch):
    monkeypatch.setitem(checks._exercises, "limited", _limited(None, forbidden={"uncoalesced"}))
    failed(check("limited", copy_along_rows), "uncoalesced", "The result is right")
    assert check("limited", copy_along_columns).status == "passed"


def test_cost_that_is_not_forbidden_does_not_fail(monkeypatch):
    monkeypatch.setitem(checks._exercises, "limited", _limited(None))
    assert check("limited", copy_along_rows).status == "passed"


def test_misaligned_accesses_are_an_error_of_their_own():
    from course.intrinsics import load4, store4

    @cuda.jit
    def square(out, x):
        i = 4 * cuda.grid(1) + 1
        if i + 3 < x.size:
            a, b, c, d = load4(x, i)
            store4(out, i, (a * a, b * b, c * c, d * d))

    failed(
        check("sample-square", square),
        "misaligned",
        "no multiple of 16",
        "let the last index be a multiple of 4",
        "take one element at a time",
    )


def test_every_error_of_the_simulator_has_its_turn():
    from course import kernel_judge, simt, verdicts

    assert set(kernel_judge.ERRORS) == simt.ERRORS
    assert set(verdicts.FAILURES) >= simt.ERRORS
