"""What a finding advises is what cures it: guards, padding, barriers, whole warps."""

import math
import random

import numpy as np
import pytest
from numba import float32

from tests.texts import body_of
from tests.warpsim.the_course import needs_course
from warpsim import KernelError, cuda, trace
from warpsim.ptx import load4, store4
from warpsim.watch.advice import update_cure


def only(kernel, grid, block, *arguments):
    (finding,) = trace(kernel, grid, block, *arguments).findings
    return finding


def zeros(*shape):
    return np.zeros(shape, np.float32)


# ------------------------------------------------------------------- an index out of bounds
@cuda.jit
def bare(x):
    i = cuda.grid(1)
    x[i] = 1


@cuda.jit
def one_too_many(x):
    i = cuda.grid(1)
    if i <= x.size:
        x[i] = 1


@cuda.jit
def strided(x):
    for i in range(cuda.grid(1), x.size + 1, cuda.gridsize(1)):
        x[i] = 1


@cuda.jit
def mirrored(x):
    i = cuda.grid(1)
    x[x.size - i] = 1


@cuda.jit
def doubled(x):
    x[2 * cuda.grid(1)] = 1


@cuda.jit
def a_row_a_warp(x):
    row = cuda.grid(1) // 32
    x[row] = 1


@cuda.jit
def a_row_half_a_warp(x):
    row = cuda.grid(1) // 16
    x[row] = 1


@cuda.jit
def every_other_turn(x):
    i = cuda.grid(1)
    while i < 2 * x.size:
        x[i] = 1
        i += 2 * cuda.gridsize(1)


@cuda.jit
def counted(x):
    i = cuda.grid(1)
    cuda.atomic.add(x, i, 1)


@cuda.jit
def far_below(x):
    x[cuda.grid(1) - 100] = 1


@pytest.mark.parametrize(
    ("kernel", "grid", "block", "size", "words"),
    [
        (bare, 2, 32, 40, "guard it with `if i < x.size:`"),
        (one_too_many, 2, 32, 40, "`i` is one too large here: let only `i < x.size` come here"),
        (strided, 1, 32, 64, "let only `i < x.size` come here"),
        (mirrored, 1, 32, 32, "`x.size - i` is one too large: the last index is 31"),
        (doubled, 1, 32, 32, "`2 * cuda.grid(1)` is up to 31 too large: the last index is 31"),
        (a_row_a_warp, 1, 128, 3, "guard it with `if row < x.size:`"),
        (a_row_half_a_warp, 4, 64, 8, "`row` is up to 8 too large: the last index is 7"),
        (every_other_turn, 2, 32, 100, "`i` is up to 92 too large: the last index is 99"),
        (counted, 1, 32, 8, "`i` is up to 24 too large: the last index is 7"),
        (far_below, 1, 32, 8, "`cuda.grid(1) - 100` is negative; the first index is 0"),
        (bare, 1, 32, 0, "x is empty"),
    ],
)
def test_a_guard_is_advised_where_an_index_counts_threads(kernel, grid, block, size, words):
    finding = trace(kernel, grid, block, zeros(size)).findings[0]
    assert finding.kind == "out-of-bounds" and (
        words in finding.message or (size == 0 and "size 0" in finding.message)
    ), finding
    assert ("`if" in finding.message) == ("`if" in words) or size == 0


def test_no_guard_is_advised_that_would_let_nobody_come():
    @cuda.jit
    def second_job(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = 1
        elif i < 2 * x.size:
            out[i] = x[i]

    finding = trace(second_job, 1, 64, np.ones(20), np.ones(64)).findings[0]
    assert "guard" not in finding.message
    assert "`i` is up to 20 too large for all that come here: the last index" in finding.message


def test_a_condition_on_the_index_itself_that_lets_too_many_in_is_told_so():
    """A guard within it would leave those threads without the branch that is theirs."""

    @cuda.jit
    def two_jobs(x, out):
        i = cuda.grid(1)
        if i < 2 * x.size:
            out[i] = x[i]
        elif i < 50:
            out[i] = 1

    finding = trace(two_jobs, 1, 64, np.ones(20), np.ones(64)).findings[0]
    assert "guard" not in finding.message
    assert "up to 20 too large: the condition above it lets in all up to 39" in finding.message


def test_an_index_along_the_wrong_axis_is_no_matter_of_a_guard():
    @cuda.jit
    def swapped(x):
        row, column = cuda.grid(2)
        x[row, column] = 1

    finding = trace(swapped, (3, 1), (16, 16), zeros(13, 37)).findings[0]
    assert "counts the threads along x, which are as many as axis 1 of x needs" in finding.message


@pytest.mark.parametrize("seed", range(4))
def test_an_index_that_counts_groups_or_nothing_is_not_told_to_count_threads(seed):
    r = random.Random(seed)
    group, rows, more = 2 ** r.randrange(1, 4), r.randrange(1, 5), 2 * r.randrange(4, 9)

    @cuda.jit
    def in_groups(x):
        row = cuda.grid(2)[1] // group
        x[row, cuda.threadIdx.x] = 1

    @cuda.jit
    def for_all(x):
        row = more
        x[row, cuda.grid(2)[1]] = 1

    finding = trace(in_groups, (1, 8), (32, 8), zeros(rows, 64)).findings[0]
    assert "counts the threads" not in finding.message, (group, rows, finding)
    finding = trace(for_all, 1, (32, 2), zeros(rows, 2)).findings[0]
    assert f"`row` is {more - rows + 1} too large: the last" in finding.message, (more, rows)


def test_a_shared_array_is_named_with_its_size():
    @cuda.jit
    def small(x):
        tile = cuda.shared.array(32, float32)
        tile[cuda.threadIdx.x] = 1
        cuda.syncthreads()
        x[cuda.grid(1)] = tile[0]

    @cuda.jit
    def by_grid(x):
        tile = cuda.shared.array(32, float32)
        i = cuda.grid(1)
        tile[i] = 1
        x[i] = tile[cuda.threadIdx.x]

    finding = only(small, 1, 64, zeros(64))
    assert "each block's tile has 32 elements" in finding.message
    assert "is up to 32 too large: the last index is 31" in finding.message
    finding = trace(by_grid, 2, 32, zeros(64)).findings[0]
    assert "index it with cuda.threadIdx.x" in finding.message


def test_a_wide_access_is_guarded_in_global_memory_only():
    @cuda.jit
    def wide(x):
        store4(x, 4 * cuda.grid(1), (float32(1), float32(1), float32(1), float32(1)))

    @cuda.jit
    def tiled(x):
        tile = cuda.shared.array(16, float32)
        t = cuda.threadIdx.x
        store4(tile, 4 * t, (x[t], x[t], x[t], x[t]))

    assert "+ 3 < " in trace(wide, 1, 32, zeros(64)).findings[0].message
    finding = trace(tiled, 1, 32, zeros(32)).findings[0]
    assert "the last 4 begin at 12" in finding.message and "guard" not in finding.message


# ------------------------------------------------------------------- lanes at one bank
def by_columns(pitch, width):
    @cuda.jit
    def kernel(x):
        tile = cuda.shared.array((32, pitch), float32)
        t = cuda.threadIdx.x
        for i in range(32):
            tile[i, t] = x[i, t]
        cuda.syncthreads()
        if width == 1:
            x[0, t] = tile[t, 0]
        else:
            a, b, c, d = load4(tile, (t, 0))
            x[0, t] = a + b + c + d

    return trace(kernel, 1, 32, zeros(32, 32)).findings


def test_padding_is_what_the_widest_access_allows_and_it_cures():
    assert "pad its rows by one element" in by_columns(32, 1)[0].message
    assert not by_columns(33, 1)
    assert "pad its rows by 4 elements" in by_columns(32, 4)[0].message
    assert not by_columns(36, 4)
    assert by_columns(33, 4)[0].kind == "misaligned"


def test_where_padding_does_not_help_another_order_is_advised():
    @cuda.jit
    def spread(x):
        tile = cuda.shared.array((2, 64), float32)
        t = cuda.threadIdx.x
        tile[0, 2 * t] = x[t]
        cuda.syncwarp()
        x[t] = tile[0, 2 * t]

    for finding in trace(spread, 1, 32, zeros(32)).findings:
        assert "let neighbouring lanes take neighbouring elements of tile" in finding.message


# ------------------------------------------------------------------- lanes of one warp
@cuda.jit
def neighbours(x, step):
    tile = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    x[t] = tile[t ^ step]


@cuda.jit
def near_and_far(x, step):
    tile = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    near = tile[t ^ 1]
    x[t] = near + tile[t ^ step]


def test_the_barrier_of_the_warp_is_advised_where_it_is_enough():
    x = zeros(128)
    assert "put cuda.syncwarp() between the two" in only(neighbours, 1, 128, x, 1).message
    assert "put cuda.syncthreads() between the two" in only(neighbours, 1, 128, x, 32).message
    assert "put cuda.syncthreads() between the two" in only(neighbours, 1, 32, x, 1).message
    for finding in trace(near_and_far, 1, 128, x, 32).findings:
        assert "put cuda.syncthreads() between the two" in finding.message


@cuda.jit
def summed(x, out):
    i = cuda.grid(1)
    if i >= x.size:
        return
    value = x[i]
    for step in range(5):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, 16 >> step)
    if cuda.threadIdx.x % 32 == 0:
        cuda.atomic.add(out, 0, value)


def test_a_lane_that_has_returned_before_a_shuffle_is_found_where_it_matters():
    finding = only(summed, 2, 32, zeros(40), zeros(1))
    assert (finding.kind, finding.line, finding.whole) == ("uninitialised-read", 7, True)
    assert "takes the value of lane 16, which has returned" in finding.message
    assert not trace(summed, 2, 32, zeros(64), zeros(1)).findings
    assert "which the block does not have" in only(summed, 1, 16, zeros(16), zeros(1)).message


def test_a_value_that_is_thrown_away_may_come_from_a_lane_that_has_returned():
    @cuda.jit
    def dropped(x):
        i = cuda.grid(1)
        if i >= x.size:
            return
        other = cuda.shfl_down_sync(0xFFFFFFFF, x[i], 1)
        if i + 1 < x.size:
            x[i] = other

    assert not trace(dropped, 1, 32, zeros(20)).findings


def test_local_memory_that_others_have_written_is_named():
    @cuda.jit
    def private(x):
        buffer = cuda.local.array(64, float32)
        t = cuda.threadIdx.x
        buffer[t] = x[t]
        cuda.syncthreads()
        x[t] = buffer[63 - t]

    finding = only(private, 1, 64, zeros(64))
    assert "which only other threads have written" in finding.message and finding.whole
    assert "goes through cuda.shared.array" in finding.message


# ------------------------------------------------------------------- whose line it is
@needs_course
def test_a_finding_in_a_function_of_another_module_knows_the_call():
    from course.kernels import reduce

    warp_sum, _ = reduce.pieces(reduce.KINDS["sum"], warps=8)

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < 20:
            return
        out[i] = warp_sum(x[i])

    finding = only(kernel, 1, 32, zeros(32), zeros(32))
    assert finding.call == (5, "out[i] = warp_sum(x[i])") and "shuffle [in " in finding.message

    @cuda.jit
    def untraced(x):
        store4(x, 4 * cuda.grid(1), (float32(1), float32(1), float32(1), float32(1)))

    with pytest.raises(KernelError) as caught:
        untraced[1, 32](zeros(8))
    assert caught.value.module == __name__


# ------------------------------------------------------------------- how a kernel may end
def test_a_kernel_may_end_with_raise_or_assert():
    @cuda.jit
    def asserts(x):
        x[0] = 1
        assert x[0] > 0

    @cuda.jit
    def raises(x):
        x[0] = 2
        raise ValueError("always")

    @cuda.jit
    def only_raises(x):
        raise NotImplementedError()

    x = zeros(1)
    for kernel, left in ((asserts, 1), (raises, 2), (only_raises, 2)):
        trace(kernel, 1, 32, x)
        kernel[1, 1](x)
        assert x[0] == left
    with pytest.raises(ValueError, match="always"):
        cuda.jit(debug=True)(raises.py_func)[1, 1](x)


def test_tuples_are_compared_as_python_compares_them():
    @cuda.jit
    def kernel(out, a, b):
        i = cuda.grid(1)
        mine = (i // 3, i % 3)
        out[0, i] = mine < (a, b)
        out[1, i] = mine <= (a, b)
        out[2, i] = mine == (a, b)
        out[3, i] = mine != (a, b)
        out[4, i] = mine > (a, b)
        out[5, i] = mine >= (a, b)

    out = np.zeros((6, 9), np.int32)
    kernel[1, 9](out, 1, 1)
    for i in range(9):
        mine, other = divmod(i, 3), (1, 1)
        wanted = [mine < other, mine <= other, mine == other, mine != other, mine > other]
        assert [*out[:, i]] == [*wanted, mine >= other]


# ------------------------------------------------------------------- where float64 comes from
#: Parts of an expression, and what a finding says of those that make it float64.
ORIGINS = {
    "x[i]": None, "float32(3)": None, "n": "convert integers", "y[i]": "elements of y are",
    "0.5": "literal 0.5", "a": "argument a is", "SCALE": "SCALE, a constant",
    "math.sqrt(i)": "`math.sqrt(i)`", "t": "literal 0.0",
}  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_float64_is_blamed_on_what_makes_it(seed):
    r = random.Random(seed)
    parts = ["x[i]", *r.choices(list(ORIGINS), k=r.randrange(1, 4))]
    r.shuffle(parts)
    text = " ".join(f"{part} {r.choice('+-*')}" for part in parts[:-1]) + f" {parts[-1]}"
    body = f"i = cuda.grid(1)\nt = 0.0\nout[i] = {text}"
    made = body_of("x, y, a, n, out", body, math=math, float32=float32, SCALE=1.5)
    given = zeros(32), np.zeros(32), 2.0, 3, zeros(32)
    found = trace(cuda.jit(made), 1, 32, *given).findings
    told = " ".join(f.message for f in found if f.kind == "float64")
    reasons = [ORIGINS[part] for part in parts if ORIGINS[part]]
    assert bool(told) == bool(reasons), (text, told)
    assert not told or any(reason in told for reason in reasons), (text, told)
    assert ("literal" in told) <= any("literal" in reason for reason in reasons), (text, told)


# ------------------------------------------------------------------- updates that race
@pytest.mark.parametrize(
    ("statement", "cure"),
    [
        ("x[0] += x[t]", "read into a variable"),
        ("x[t] += x[t - 1]", "read into a variable"),
        ("x[0] += 1", "use cuda.atomic.add,"),
        ("x[0] -= y[t]", "use cuda.atomic.sub,"),
        ("x[0] *= y[t]", "no atomic does this"),
    ],
)
def test_an_update_that_races_is_cured_by_what_helps_it(statement, cure):
    assert cure in update_cure(statement, "x", True)
    assert "barrier" not in update_cure(statement, "x", False)


# ---------------------------------------------------------------------- why it is float64
@cuda.jit
def into_its_place(x, sums):
    f = 0.5
    sums[int(f)] = sums[1]
    x[0] *= f


def test_what_lies_at_an_index_is_no_origin_of_it():
    findings = trace(into_its_place, 1, 1, zeros(2), np.zeros(2)).findings
    (why,) = [one.message for one in findings if one.kind == "float64" and "x[0]" in one.code]
    assert "the literal 0.5 is float64" in why and "elements of sums" not in why
