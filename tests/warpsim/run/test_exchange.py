"""Shuffles, votes and matches against what their definition says, lane by lane."""

from __future__ import annotations

import numpy as np
import pytest
from numba import float32

from tests.warpsim.the_course import cuda
from warpsim import trace

FULL = 0xFFFFFFFF


def run(kernel, *arguments, grid=2, block=64):
    """On the GPU where there is one, else simulated; and always traced, with the same result."""
    simulated = [np.copy(a) for a in arguments]
    report = trace(kernel, grid, block, *simulated)
    assert not [f for f in report.findings if f.is_error]
    kernel[grid, block](*arguments)
    for mine, theirs in zip(simulated, arguments, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    return arguments


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_shuffles(dtype):
    @cuda.jit
    def shuffles(x, out):
        i = cuda.grid(1)
        v = x[i]
        out[0, i] = cuda.shfl_sync(FULL, v, 5)
        out[1, i] = cuda.shfl_up_sync(FULL, v, 3)
        out[2, i] = cuda.shfl_down_sync(FULL, v, 7)
        out[3, i] = cuda.shfl_xor_sync(FULL, v, 9)
        out[4, i] = cuda.shfl_sync(FULL, v, (cuda.laneid * 3) % 32)

    x = (np.random.default_rng(0).random(128) * 1000).astype(dtype)
    _, out = run(shuffles, x, np.zeros((5, 128), dtype))
    rows = x.reshape(-1, 32)
    lane = np.arange(32)
    wanted = [
        rows[:, [5] * 32],
        rows[:, np.where(lane >= 3, lane - 3, lane)],
        rows[:, np.where(lane + 7 < 32, lane + 7, lane)],
        rows[:, lane ^ 9],
        rows[:, lane * 3 % 32],
    ]
    for row, right in zip(out, wanted, strict=True):
        np.testing.assert_array_equal(row, right.reshape(-1))


def test_votes():
    @cuda.jit
    def votes(x, ballot, flags):
        i = cuda.grid(1)
        yes = x[i] > 0
        ballot[i] = cuda.ballot_sync(FULL, yes)
        flags[0, i] = cuda.any_sync(FULL, yes)
        flags[1, i] = cuda.all_sync(FULL, yes)
        flags[2, i] = cuda.eq_sync(FULL, yes)

    x = np.random.default_rng(1).integers(0, 2, (4, 32))
    x[1], x[2] = 0, 1
    _, ballot, flags = run(votes, x.reshape(-1), np.zeros(128, np.int32), np.zeros((3, 128), bool))
    bits = (x.astype(np.int64) << np.arange(32)).sum(1).astype(np.uint32).view(np.int32)
    assert np.array_equal(ballot, np.repeat(bits, 32))
    assert np.array_equal(flags[0], np.repeat(x.any(1), 32))
    assert np.array_equal(flags[1], np.repeat(x.all(1), 32))
    assert np.array_equal(flags[2], np.repeat(x.all(1) | ~x.any(1), 32))


def test_matches_and_active_masks():
    @cuda.jit
    def matches(x, some, every, all_equal, active):
        i = cuda.grid(1)
        some[i] = cuda.match_any_sync(FULL, x[i])
        mask, equal = cuda.match_all_sync(FULL, x[i])
        every[i] = mask
        all_equal[i] = equal
        if cuda.laneid % 3 == 0:
            active[i] = cuda.activemask()

    x = np.random.default_rng(2).integers(0, 4, (4, 32)).astype(np.int32)
    x[3] = 7
    int32s = [np.zeros(128, np.int32) for _ in range(2)]
    out = run(matches, x.reshape(-1), *int32s, np.zeros(128, bool), np.zeros(128, np.uint32))
    some = ((x[:, :, None] == x[:, None, :]).astype(np.int64) << np.arange(32)).sum(2)
    assert np.array_equal(out[1], some.astype(np.uint32).view(np.int32).reshape(-1))
    assert out[2].tolist() == [0] * 96 + [-1] * 32
    assert out[3].tolist() == [False] * 96 + [True] * 32
    third = sum(1 << lane for lane in range(0, 32, 3))
    assert set(out[4].tolist()) == {0, third}


def test_a_layer_norm_by_warp_shuffles():
    @cuda.jit
    def layer_norm(x, out):
        row, lane = cuda.blockIdx.x, cuda.threadIdx.x
        total = float32(0)
        squares = float32(0)
        for j in range(lane, x.shape[1], 32):
            total += x[row, j]
            squares += x[row, j] * x[row, j]
        step = 16
        while step > 0:
            total += cuda.shfl_xor_sync(FULL, total, step)
            squares += cuda.shfl_xor_sync(FULL, squares, step)
            step >>= 1
        mean = total / float32(x.shape[1])
        deviation = (squares / float32(x.shape[1]) - mean * mean) ** float32(0.5)
        for j in range(lane, x.shape[1], 32):
            out[row, j] = (x[row, j] - mean) / deviation

    x = np.random.default_rng(3).random((37, 101), dtype=np.float32)
    out = np.zeros_like(x)
    layer_norm[37, 32](x, out)
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / wide.std(1, keepdims=True)
    np.testing.assert_allclose(out, wanted, atol=2e-5)


def test_bits():
    @cuda.jit
    def bits(x, out):
        i = cuda.grid(1)
        out[0, i] = cuda.popc(x[i])
        out[1, i] = cuda.clz(x[i])
        out[2, i] = cuda.ffs(x[i])

    x = np.array([0, 1, -1, 2, 1 << 30, -(1 << 31), 12, 255], np.int32)
    _, out = run(bits, x, np.zeros((3, 8), np.int64), grid=1, block=8)
    unsigned = x.view(np.uint32)
    assert out[0].tolist() == [int(v).bit_count() for v in unsigned]
    assert out[1].tolist() == [32 - int(v).bit_length() for v in unsigned]
    assert out[2].tolist() == [(int(v) & -int(v)).bit_length() for v in unsigned]


def test_a_grid_barrier_orders_all_blocks():
    @cuda.jit
    def smooth(x, y, steps):
        i = cuda.grid(1)
        grid = cuda.cg.this_grid()
        for _ in range(steps):
            if 0 < i < x.size - 1:
                y[i] = (x[i - 1] + x[i + 1]) * float32(0.5)
            grid.sync()
            if 0 < i < x.size - 1:
                x[i] = y[i]
            grid.sync()

    x = np.random.default_rng(4).random(600, dtype=np.float32)
    wanted = x.copy()
    for _ in range(5):
        wanted[1:-1] = (wanted[:-2] + wanted[2:]) * np.float32(0.5)
    found, _ = x.copy(), np.zeros_like(x)
    report = trace(smooth, 10, 64, found, np.zeros_like(x), 5)
    np.testing.assert_array_equal(found, wanted)
    assert not [f for f in report.findings if f.is_error]
    smooth[10, 64](x, np.zeros_like(x), 5)
    np.testing.assert_array_equal(x, wanted)
    with pytest.raises(ValueError, match="must run at once; a Tesla T4 runs at most 640"):
        trace(smooth, 700, 64, x, np.zeros_like(x), 1, gpu="T4")


def test_a_grid_barrier_in_a_branch_is_an_error():
    @cuda.jit
    def some(x):
        if cuda.blockIdx.x == 0:
            cuda.cg.this_grid().sync()
            x[0] = 1

    report = trace(some, 2, 32, np.zeros(1))
    assert [f.kind for f in report.findings if f.is_error][0] == "barrier-divergence"


def _sum_pairs_of_half_a_mask(x, out):
    i = cuda.grid(1)
    out[i] = x[i] + cuda.shfl_xor_sync(0xFFFF, x[i], 1)


def _vote_under_a_guard(x, out):
    i = cuda.grid(1)
    if i < 50:
        out[i] = cuda.any_sync(FULL, x[i] > 2)


def _match_in_one_branch(x, out):
    i = cuda.grid(1)
    if cuda.laneid % 2 == 0:
        out[i] = cuda.match_any_sync(FULL, x[i])


@pytest.mark.parametrize(
    ("function", "thread", "words"),
    [
        (_sum_pairs_of_half_a_mask, 16, "the mask 0xffff does not name its lane, 16"),
        (_vote_under_a_guard, 50, "the mask 0xffffffff names its lane, 18"),
        (_match_in_one_branch, 1, "the mask 0xffffffff names its lane, 1"),
    ],
)
def test_a_mask_that_does_not_name_just_those_who_make_the_call_is_an_error(
    function, thread, words
):
    kernel = cuda.jit(function)
    x = np.arange(64, dtype=np.float32)
    findings = trace(kernel, 1, 64, x, np.zeros(64, np.float32)).findings
    (finding,) = [each for each in findings if each.is_error]
    assert finding.kind == "barrier-divergence"
    assert finding.where.thread == (thread, 0, 0)
    assert words in finding.message


def test_masks_of_the_lanes_that_are_there_are_no_error():
    @cuda.jit
    def sums(x, out):
        i = cuda.grid(1)
        here = cuda.ballot_sync(FULL, i < x.size)
        if i < x.size:
            other = cuda.shfl_down_sync(here, x[i], 1)
            out[i] = x[i] + other if i + 1 < x.size and cuda.laneid < 31 else x[i]
            if cuda.laneid < 16:
                out[i] += float32(0) * cuda.shfl_sync(0xFFFF, x[i], 3)

    @cuda.jit
    def sums_of_those_that_stay(x, out):
        i = cuda.grid(1)
        if i >= x.size:
            return
        other = cuda.shfl_down_sync(FULL, x[i], 1)
        out[i] = x[i] + other if i + 1 < x.size and cuda.laneid < 31 else x[i]

    x = np.arange(50, dtype=np.float32)
    neighbours = np.append(x[1:], 0)
    neighbours[31] = 0  # in the next warp
    for kernel in (sums, sums_of_those_that_stay):
        out = np.zeros_like(x)
        report = trace(kernel, 1, 64, x, out)
        assert not [f for f in report.findings if f.is_error]
        assert np.array_equal(out, x + neighbours)


def test_a_lane_that_returned_has_no_value_to_give():
    @cuda.jit
    def takes_from_nobody(x, out):
        i = cuda.grid(1)
        if i >= x.size:
            return
        out[i] = cuda.shfl_down_sync(FULL, x[i], 1)

    out = np.zeros(10, np.float32)
    trace(takes_from_nobody, 1, 32, np.ones(10, np.float32), out)
    assert np.isnan(out[9]) and (out[:9] == 1).all()
