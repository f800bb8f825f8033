"""Wrong answers to the exercises of lesson 12 as students write them, and unusual right ones."""

import math

import numpy as np
from numba import float32

from bug_zoo import Answers
from course import cuda
from course.kernels.activation import gelu
from course.kernels.reduce import KINDS, pieces

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right

ALL = 0xFFFFFFFF
LOWEST = np.finfo(np.float32).min
PARTS = 8
warp_sum, block_sum = pieces(KINDS["sum"], 8)

# --- warp-row-sum -------------------------------------------------------------------------------


@wrong("warp-row-sum", "wrong-result", "only the first 32 columns")
@cuda.jit
def row_of_32_columns(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = x[row, lane] if lane < x.shape[1] else float32(0)
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "wrong-result", "the lanes never meet")
@cuda.jit
def row_of_one_lane(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "wrong-result", "one step of five is missing")
@cuda.jit
def row_of_four_steps(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        for step in range(4):
            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "wrong-result", "starts with 16")
@cuda.jit
def row_from_eight_on(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        offset = 8
        while offset > 0:
            total += cuda.shfl_down_sync(ALL, total, offset)
            offset //= 2
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "barrier-divergence", "All 32 lanes make every shuffle")
@cuda.jit
def row_with_guarded_shuffle(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0] and lane < x.shape[1]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "out-of-bounds", "warps without a row")
@cuda.jit
def row_without_a_guard(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    total = float32(0)
    for column in range(lane, x.shape[1], 32):
        total += x[row, column]
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
    if lane == 0:
        out[row] = total


@wrong("warp-row-sum", "same-value-race", "one stores it")
@cuda.jit
def row_stored_by_all(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
        out[row] = total


@wrong("warp-row-sum", "race", "writes out")
@cuda.jit
def row_down_stored_by_all(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        for step in range(5):
            total += cuda.shfl_down_sync(ALL, total, 16 >> step)
        out[row] = total


@wrong("warp-row-sum", "uncoalesced", "Lane l takes the columns l, l + 32")
@cuda.jit
def row_in_pieces(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total, part = float32(0), (x.shape[1] + 31) // 32
        for column in range(lane * part, min((lane + 1) * part, x.shape[1])):
            total += x[row, column]
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "float64", "float32(0)")
@cuda.jit
def row_in_float64(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = 0.0
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "limit", "shuffles do without shared memory")
@cuda.jit
def row_by_a_tree(x, out):
    sums = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    total = float32(0)
    if row < x.shape[0]:
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
    sums[t] = total
    half = 16
    while half > 0:
        cuda.syncthreads()
        if lane < half:
            sums[t] += sums[t + half]
        half //= 2
    if lane == 0 and row < x.shape[0]:
        out[row] = sums[t]


@right("warp-row-sum")
@cuda.jit
def row_downwards_from_one(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row >= x.shape[0]:
        return
    total = float32(0)
    column = lane
    while column < x.shape[1]:
        total += x[row, column]
        column += 32
    for step in range(5):
        total += cuda.shfl_down_sync(ALL, total, 1 << step)
    if not lane:
        out[row] = total


def row(shuffle="xor", first=16, steps=5, storing=0, last=0, whole=False, shared=False, mask=ALL):
    """The answer with mistakes."""
    exchanged = {
        "xor": cuda.shfl_xor_sync,
        "down": cuda.shfl_down_sync,
        "up": cuda.shfl_up_sync,
    }[shuffle]
    stride = 128 if shared else 32

    @cuda.jit
    def row_with_mistakes(x, out):
        t = cuda.threadIdx.x
        row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
        if row < x.shape[0]:
            total = float32(0)
            end = x.shape[1] // 32 * 32 if whole else x.shape[1] - last
            for column in range(t if shared else lane, end, stride):
                total += x[row, column]
            for step in range(steps):
                total += exchanged(mask, total, first >> step)
            if lane == storing:
                out[row] = total

    return row_with_mistakes


right("warp-row-sum")(row())
right("warp-row-sum")(row("down"))
right("warp-row-sum")(row("up", storing=31))
right("warp-row-sum")(row(mask=-1))
wrong("warp-row-sum", "wrong-result", "arrives in lane 31")(row("up"))
wrong("warp-row-sum", "wrong-result", "arrives in lane 0")(row("down", storing=31))
wrong("warp-row-sum", "wrong-result", "with lane + 32, which is not there")(row(first=32))
wrong("warp-row-sum", "wrong-result", "Every element is 2 times")(row(steps=6))
wrong("warp-row-sum", "wrong-result", "last column is left out")(row(last=1))
wrong("warp-row-sum", "wrong-result", "last round of a row is left out")(row(whole=True))
wrong("warp-row-sum", "wrong-result", "has a row of its own")(row(shared=True))
wrong("warp-row-sum", "barrier-divergence", "the mask 0xffff does not name")(row(mask=0xFFFF))


@wrong("warp-row-sum", "wrong-result", "replaces your own")
@cuda.jit
def row_replaced(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        for step in range(5):
            total = cuda.shfl_xor_sync(ALL, total, 16 >> step)
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "unwritten-output", "Each row has a warp")
@cuda.jit
def row_stored_by_thread_0(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        total = warp_sum(total)
        if t == 0:
            out[row] = total


@wrong("warp-row-sum", "barrier-divergence", "All 32 lanes make every shuffle")
@cuda.jit
def row_with_half_of_the_lanes_shuffling(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        half = 16
        while half > 0:
            if lane < half:
                total += cuda.shfl_down_sync(ALL, total, half)
            half //= 2
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "limit", "The lanes meet by shuffles")
@cuda.jit
def row_by_atomics(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        if lane == 0:
            out[row] = 0
        cuda.syncwarp()
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        cuda.atomic.add(out, row, total)


@wrong("warp-row-sum", "limit", "all 32 at the same time")
@cuda.jit
def row_by_lane_0_alone(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0] and lane == 0:
        total = float32(0)
        for column in range(x.shape[1]):
            total += x[row, column]
        out[row] = total


@wrong("warp-row-sum", "limit", "Load each number once")
@cuda.jit
def row_by_every_lane(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(x.shape[1]):
            total += x[row, column]
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "float64", "float32(0)")
@cuda.jit
def row_from_an_integer(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = 0
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        total = warp_sum(total)
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "wrong-result", "one that returns early is missing")
@cuda.jit
def row_whose_idle_lanes_return(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row >= x.shape[0] or lane >= x.shape[1]:
        return
    total = float32(0)
    for column in range(lane, x.shape[1], 32):
        total += x[row, column]
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
    if lane == 0:
        out[row] = total


@wrong("warp-row-sum", "wrong-result", "they meet once, after the loop")
@cuda.jit
def row_met_after_each_column(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
            for step in range(5):
                total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "wrong-result", "a lane goes on by steps of 32")
@cuda.jit
def row_by_steps_of_a_block(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], cuda.blockDim.x):
            total += x[row, column]
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "race", "One lane of each warp stores, at out[row]")
@cuda.jit
def row_stored_at_the_lane(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
        if lane == 0:
            out[lane] = total


@wrong("warp-row-sum", "out-of-bounds", "The row is x's first index")
@cuda.jit
def row_and_column_swapped(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[column, row]
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
        if lane == 0:
            out[row] = total


@wrong("warp-row-sum", "barrier-divergence", "a warp needs no cuda.syncthreads()")
@cuda.jit
def row_with_a_barrier_of_the_block(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
            cuda.syncthreads()
        if lane == 0:
            out[row] = total


@right("warp-row-sum")
@cuda.jit
def row_by_asking_every_lane(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    own, total, column = float32(0), float32(0), lane
    while row < x.shape[0] and column < x.shape[1]:
        own += x[row, column]
        column += 32
    for other in range(32):
        total += cuda.shfl_sync(ALL, own, other)
    if row < x.shape[0] and lane == 31:
        out[row] = total


# --- sum-several --------------------------------------------------------------------------------


def several(strided=True, in_warps=True, barrier=True, all_warps=True, atomic=True, threads=1):
    """The answer with mistakes."""

    @cuda.jit
    def sum_of_several(x, out):
        sums = cuda.shared.array(8, float32)
        t = cuda.threadIdx.x
        warp, lane = t // 32, t % 32
        total = float32(0)
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1) if strided else x.size):
            total += x[i]
        if in_warps:
            total = warp_sum(total)
        if lane == 0:
            sums[warp] = total
        if barrier:
            cuda.syncthreads()
        if all_warps:
            total = warp_sum(sums[lane] if lane < 8 else float32(0))
        if t < threads:
            if atomic:
                cuda.atomic.add(out, 0, total)
            else:
                out[0] += total

    return sum_of_several


right("sum-several")(several())
wrong("sum-several", "wrong-result", "adds one element")(several(strided=False))
wrong("sum-several", "wrong-result", "only the first warp of each block")(several(all_warps=False))
wrong("sum-several", "wrong-result", "only the first lane of each warp")(several(in_warps=False))
wrong("sum-several", "race", "then all wait")(several(barrier=False))
wrong("sum-several", "race", "Only atomics may touch out")(several(atomic=False))
wrong("sum-several", "wrong-result", "one atomic a block")(several(threads=32))


@wrong("sum-several", "limit", "One thread of each block")
@cuda.jit
def sum_with_an_atomic_a_warp(x, out):
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    total = warp_sum(total)
    if cuda.threadIdx.x % 32 == 0:
        cuda.atomic.add(out, 0, total)


@wrong("sum-several", "limit", "One thread of each block")
@cuda.jit
def sum_with_an_atomic_an_element(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(out, 0, x[i])


@wrong("sum-several", "limit", "One lane of each warp stores")
@cuda.jit
def sum_by_a_tree(x, out):
    sums = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    sums[t] = total
    half = 128
    while half > 0:
        cuda.syncthreads()
        if t < half:
            sums[t] += sums[t + half]
        half //= 2
    if t == 0:
        cuda.atomic.add(out, 0, sums[0])


@wrong("sum-several", "barrier-divergence", "outside of every if")
@cuda.jit
def sum_with_a_shuffle_of_eight(x, out):
    sums = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    total = warp_sum(total)
    if t % 32 == 0:
        sums[t // 32] = total
    cuda.syncthreads()
    if t < 8:
        total = warp_sum(sums[t])
    if t == 0:
        cuda.atomic.add(out, 0, total)


@right("sum-several")
@cuda.jit
def sum_by_the_package(x, out):
    total = float32(0)
    i = cuda.grid(1)
    while i < x.size:
        total += x[i]
        i += cuda.gridDim.x * 256
    total = block_sum(total)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(out, 0, total)


def several_from(grid=True, stride="grid", adds="thread", guarded=True, waits="block", early=False):
    """The answer with other mistakes."""

    @cuda.jit
    def sum_of_several(x, out):
        sums = cuda.shared.array(8, float32)
        t = cuda.threadIdx.x
        warp, lane = t // 32, t % 32
        if early and cuda.grid(1) >= x.size:
            return
        total = float32(0)
        step = cuda.gridsize(1) if stride == "grid" else cuda.blockDim.x
        for i in range(cuda.grid(1) if grid else t, x.size, step):
            total += x[i]
        total = warp_sum(total)
        if lane == 0:
            sums[warp] = total
        if waits == "block":
            cuda.syncthreads()
        else:
            cuda.syncwarp()
        if guarded:
            total = warp_sum(sums[lane] if lane < 8 else float32(0))
        else:
            total = warp_sum(sums[lane])
        if t == 0 and adds == "thread" or lane == 0 and adds == "warp":
            cuda.atomic.add(out, 0, total)

    return sum_of_several


right("sum-several")(several_from())
wrong("sum-several", "wrong-result", "all blocks add the same elements")(several_from(grid=False))
wrong("sum-several", "wrong-result", "elements of other blocks again")(several_from(stride="block"))
wrong("sum-several", "wrong-result", "every block adds all of x")(
    several_from(grid=False, stride="block")
)
wrong("sum-several", "wrong-result", "each of the eight warps adds")(several_from(adds="warp"))
wrong("sum-several", "out-of-bounds", "sums has eight places")(several_from(guarded=False))
wrong("sum-several", "race", "then all wait (cuda.syncthreads())")(several_from(waits="warp"))
wrong("sum-several", "wrong-result", "one that returns early")(several_from(early=True))


@wrong("sum-several", "barrier-divergence", "outside of every if")
@cuda.jit
def sum_with_a_barrier_for_lane_0(x, out):
    sums = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    total = warp_sum(total)
    if t % 32 == 0:
        sums[t // 32] = total
        cuda.syncthreads()
    total = warp_sum(sums[t % 32] if t % 32 < 8 else float32(0))
    if t == 0:
        cuda.atomic.add(out, 0, total)


@wrong("sum-several", "limit", "All threads of the block load")
@cuda.jit
def sum_by_one_thread_a_block(x, out):
    if cuda.threadIdx.x == 0:
        total = float32(0)
        for i in range(cuda.blockIdx.x, x.size, cuda.gridDim.x):
            total += x[i]
        cuda.atomic.add(out, 0, total)


def sum_by_shared_atomics(in_warps):
    """The answer with atomics in shared memory, of a lane of each warp or of all."""

    @cuda.jit
    def sum_of_several(x, out):
        block = cuda.shared.array(1, float32)
        t = cuda.threadIdx.x
        if t == 0:
            block[0] = 0
        cuda.syncthreads()
        total = float32(0)
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            total += x[i]
        if in_warps:
            total = warp_sum(total)
        if not in_warps or t % 32 == 0:
            cuda.atomic.add(block, 0, total)
        cuda.syncthreads()
        if t == 0:
            cuda.atomic.add(out, 0, block[0])

    return sum_of_several


right("sum-several")(sum_by_shared_atomics(in_warps=True))
wrong("sum-several", "limit", "the lanes of a warp meet first")(
    sum_by_shared_atomics(in_warps=False)
)


@wrong("sum-several", "uncoalesced", "neighbouring threads read neighbouring elements")
@cuda.jit
def sum_in_pieces(x, out):
    part = -(-x.size // cuda.gridsize(1))
    total = float32(0)
    for i in range(cuda.grid(1) * part, min((cuda.grid(1) + 1) * part, x.size)):
        total += x[i]
    total = block_sum(total)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(out, 0, total)


@wrong("sum-several", "float64", "float32(0)")
@cuda.jit
def sum_with_a_literal(x, out):
    sums = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    total = warp_sum(total)
    if t % 32 == 0:
        sums[t // 32] = total
    cuda.syncthreads()
    total = warp_sum(sums[t % 32] if t % 32 < 8 else 0.0)
    if t == 0:
        cuda.atomic.add(out, 0, total)


@right("sum-several")
@cuda.jit
def sum_of_eight_by_a_loop(x, out):
    sums = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    for step in range(5):
        total += cuda.shfl_down_sync(ALL, total, 16 >> step)
    if t % 32 == 0:
        sums[t // 32] = total
    cuda.syncthreads()
    if t == 0:
        for warp in range(1, 8):
            total += sums[warp]
        cuda.atomic.add(out, 0, total)


@right("sum-several")
@cuda.jit
def sum_with_a_mask_of_eight(x, out):
    sums = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    total = warp_sum(total)
    if t % 32 == 0:
        sums[t // 32] = total
    cuda.syncthreads()
    if t < 8:
        value = sums[t]
        for step in range(3):
            value += cuda.shfl_down_sync(0xFF, value, 4 >> step)
        if t == 0:
            cuda.atomic.add(out, 0, value)


def sum_by_few(all_meet):
    """One warp of each block loads, the others go along with 0 or not at all."""

    @cuda.jit
    def sum_by_one_warp_a_block(x, out):
        t = cuda.threadIdx.x
        total = float32(0)
        if t < 32:
            for i in range(cuda.blockIdx.x * 32 + t, x.size, cuda.gridDim.x * 32):
                total += x[i]
        total = block_sum(total) if all_meet else warp_sum(total)
        if t == 0:
            cuda.atomic.add(out, 0, total)

    return sum_by_one_warp_a_block


wrong("sum-several", "limit", "All warps of all blocks share the elements")(sum_by_few(True))
wrong("sum-several", "limit", "All warps of all blocks share the elements")(sum_by_few(False))


@wrong("sum-several", "limit", "All warps of all blocks share the elements")
@cuda.jit
def sum_by_one_block(x, out):
    total = float32(0)
    if cuda.blockIdx.x == 0:
        for i in range(cuda.threadIdx.x, x.size, 256):
            total += x[i]
    total = block_sum(total)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(out, 0, total)


@wrong("sum-several", "limit", "All warps of all blocks share the elements")
@cuda.jit
def sum_by_half_of_the_warps(x, out):
    t = cuda.threadIdx.x
    total = float32(0)
    if t < 128:
        for i in range(cuda.blockIdx.x * 128 + t, x.size, cuda.gridDim.x * 128):
            total += x[i]
    total = block_sum(total)
    if t == 0:
        cuda.atomic.add(out, 0, total)


def sum_with(place="lane", added=False, first="grid", storing=0, zeroed=False):
    """The answer with yet other mistakes."""

    @cuda.jit
    def sum_of_several(x, out):
        sums = cuda.shared.array(8, float32)
        t = cuda.threadIdx.x
        warp, lane = t // 32, t % 32
        if zeroed and t == 0:
            out[0] = 0
        total = float32(0)
        if first == "grid":
            for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
                total += x[i]
        else:
            for i in range(lane, x.size, 32):
                total += x[i]
        total = warp_sum(total)
        if lane == 0:
            sums[warp] = total
        cuda.syncthreads()
        if place == "lane":
            value = warp_sum(sums[lane] if lane < 8 else float32(0))
        else:
            value = warp_sum(sums[warp])
        total = total + value if added else value
        if t == storing:
            cuda.atomic.add(out, 0, total)

    return sum_of_several


right("sum-several")(sum_with())
right("sum-several")(sum_with(storing=255))
wrong("sum-several", "wrong-result", "lane l takes sums[l]")(sum_with(place="warp"))
wrong("sum-several", "wrong-result", "the first warp is counted twice")(sum_with(added=True))
wrong("sum-several", "wrong-result", "begin at cuda.grid(1), not at the lane")(
    sum_with(first="lane")
)
wrong("sum-several", "race", "which holds 0 at the start")(sum_with(zeroed=True))


@wrong("sum-several", "wrong-result", "the block's sum is in thread 0")
@cuda.jit
def sum_added_by_the_last_thread(x, out):
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    total = block_sum(total)
    if cuda.threadIdx.x == 255:
        cuda.atomic.add(out, 0, total)


@wrong("sum-several", "barrier-divergence", "and of the loop over the elements")
@cuda.jit
def sum_that_meets_in_the_loop(x, out):
    sums = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += warp_sum(x[i])
    if t % 32 == 0:
        sums[t // 32] = total
    cuda.syncthreads()
    total = warp_sum(sums[t % 32] if t % 32 < 8 else float32(0))
    if t == 0:
        cuda.atomic.add(out, 0, total)


@right("sum-several")
@cuda.jit
def sum_by_asking_every_lane(x, out):
    sums = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    own, total = float32(0), float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        own += x[i]
    for lane in range(32):
        total += cuda.shfl_sync(ALL, own, lane)
    if t % 32 == 0:
        sums[t // 32] = total
    cuda.syncthreads()
    if t == 0:
        for warp in range(1, 8):
            total += sums[warp]
        cuda.atomic.add(out, 0, total)


@right("sum-several")
@cuda.jit
def sum_of_a_part_for_each_block(x, out):
    t = cuda.threadIdx.x
    part = -(-x.size // cuda.gridDim.x)
    first = cuda.blockIdx.x * part
    total = float32(0)
    for i in range(first + t, min(first + part, x.size), cuda.blockDim.x):
        total += x[i]
    total = block_sum(total)
    if t == 0:
        cuda.atomic.add(out, 0, total)


@right("sum-several")
@cuda.jit
def sum_of_four_at_a_time(x, out):
    total, i, step = float32(0), cuda.grid(1), cuda.gridsize(1)
    while i + 3 * step < x.size:
        total += x[i] + x[i + step] + x[i + 2 * step] + x[i + 3 * step]
        i += 4 * step
    while i < x.size:
        total += x[i]
        i += step
    total = block_sum(total)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(out, 0, total)


# --- merge-softmax ------------------------------------------------------------------------------


@wrong("merge-softmax", "wrong-result", "the smaller of the two")
def merged_with_the_smaller(largest, total, other_largest, other_total):
    both = min(largest, other_largest)
    return both, total * math.exp(largest - both) + other_total * math.exp(other_largest - both)


@wrong("merge-softmax", "wrong-result", "the factor of the other part")
def merged_crosswise(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    return both, total * math.exp(other_largest - both) + other_total * math.exp(largest - both)


@wrong("merge-softmax", "wrong-result", "in the other order")
def merged_total_first(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    return total * math.exp(largest - both) + other_total * math.exp(other_largest - both), both


@wrong("merge-softmax", "wrong-shape", "must be 2 values")
def merged_total_alone(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    return total * math.exp(largest - both) + other_total * math.exp(other_largest - both)


@wrong("merge-softmax", "wrong-result", "taken as the one with the larger number")
def merged_as_if_the_second_were_larger(largest, total, other_largest, other_total):
    factor = math.exp(min(largest - other_largest, 700))
    return max(largest, other_largest), total * factor + other_total


@right("merge-softmax")
def merged_by_numpy(largest, total, other_largest, other_total):
    both = np.maximum(largest, other_largest)
    return [both, total * np.exp(largest - both) + other_total * np.exp(other_largest - both)]


@wrong("merge-softmax", "wrong-result", "lower largest is not multiplied down")
def merged_totals_as_they_are(largest, total, other_largest, other_total):
    return max(largest, other_largest), total + other_total


@wrong("merge-softmax", "wrong-result|raised", "exponent")
def merged_turned_round(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    return both, total * math.exp(both - largest) + other_total * math.exp(both - other_largest)


@wrong("merge-softmax", "wrong-result", "lower largest is not multiplied down")
def merged_first_scaled(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    return both, total * math.exp(largest - both) + other_total


@wrong("merge-softmax", "wrong-result", "lower largest is not multiplied down")
def merged_second_scaled(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    return both, total + other_total * math.exp(other_largest - both)


@wrong("merge-softmax", "raised", "never above 0")
def merged_from_raw_powers(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    raw = total * math.exp(largest) + other_total * math.exp(other_largest)
    return both, raw / math.exp(both)


@right("merge-softmax")
def merged_by_cases(largest, total, other_largest, other_total):
    if largest < other_largest:
        largest, total, other_largest, other_total = other_largest, other_total, largest, total
    return largest, total + other_total * math.exp(other_largest - largest)


@wrong("merge-softmax", "wrong-result", "nothing is subtracted in the exponents")
def merged_by_powers(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    return both, total * np.exp(largest) + other_total * np.exp(other_largest)


@wrong("merge-softmax", "wrong-result", "by the first one's factor; each has its own")
def merged_by_one_factor(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    return both, (total + other_total) * math.exp(largest - both)


@wrong("merge-softmax", "wrong-result", "exp is missing")
def merged_by_differences(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    return both, total * (largest - both) + other_total * (other_largest - both)


@wrong("merge-softmax", "wrong-result", "each is a factor of its part's total")
def merged_without_totals(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    return both, math.exp(largest - both) + math.exp(other_largest - both)


# --- softmax-online -----------------------------------------------------------------------------


def online(rescaled=True, met=True, merged=True, divided=True, lowest=LOWEST, shared_largest=True):
    """The answer with mistakes."""

    @cuda.jit
    def softmax_online(x, out):
        t = cuda.threadIdx.x
        row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
        largest, total = lowest, float32(0)
        if row < x.shape[0]:
            for column in range(lane, x.shape[1], 32):
                value = x[row, column]
                new = max(largest, value)
                if rescaled:
                    total *= math.exp(largest - new)
                total += math.exp(value - new)
                largest = new
            if met:
                for step in range(5):
                    other = cuda.shfl_xor_sync(ALL, largest, 16 >> step)
                    other_total = cuda.shfl_xor_sync(ALL, total, 16 >> step)
                    new = max(largest, other) if shared_largest else largest
                    if merged:
                        total = total * math.exp(largest - new) + other_total * math.exp(
                            other - new
                        )
                    elif rescaled:
                        total *= math.exp(largest - new)
                    else:
                        total += other_total
                    largest = new
            for column in range(lane, x.shape[1], 32):
                share = math.exp(x[row, column] - largest)
                out[row, column] = share / total if divided else share

    return softmax_online


right("softmax-online")(online())
wrong("softmax-online", "wrong-result", "not divided by their sum")(online(divided=False))
wrong("softmax-online", "wrong-result", "the lanes never meet")(online(met=False))
wrong("softmax-online", "wrong-result", "the lanes never meet")(online(merged=False))
wrong("softmax-online", "wrong-result", "not multiplied down")(online(merged=False, rescaled=False))
wrong("softmax-online", "wrong-result", "begins with LOWEST")(online(lowest=np.float32(-np.inf)))


def online_with(in_lane=True, meeting=True, shuffle="xor", steps=5, lowest=LOWEST, turned=False,
                kept=True, relative=True, early=False):  # fmt: skip
    """The answer with other mistakes."""
    exchanged = cuda.shfl_xor_sync if shuffle == "xor" else cuda.shfl_down_sync

    @cuda.jit
    def softmax_online(x, out):
        t = cuda.threadIdx.x
        row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
        largest, total = lowest, float32(0)
        if row < x.shape[0]:
            for column in range(lane, x.shape[1], 32):
                value = x[row, column]
                new = max(largest, value)
                if in_lane:
                    total *= math.exp(new - largest) if turned else math.exp(largest - new)
                total += math.exp(value - new)
                if kept:
                    largest = new
            for step in range(steps):
                other = exchanged(ALL, largest, 16 >> step)
                if early:
                    largest = max(largest, other)
                other_total = exchanged(ALL, total, 16 >> step)
                new = max(largest, other)
                if meeting:
                    other_total *= math.exp(other - new)
                    total *= math.exp(largest - new)
                total += other_total
                largest = new
            for column in range(lane, x.shape[1], 32):
                value = x[row, column] - largest if relative else x[row, column]
                out[row, column] = math.exp(value) / total

    return softmax_online


right("softmax-online")(online_with())
wrong("softmax-online", "wrong-result", "larger number comes in its columns")(
    online_with(in_lane=False)
)
wrong("softmax-online", "wrong-result", "multiplied down where lanes meet")(
    online_with(meeting=False)
)
wrong("softmax-online", "wrong-result", "so all need the result")(online_with(shuffle="down"))
wrong("softmax-online", "wrong-result", "a step of five is missing")(online_with(steps=4))
wrong("softmax-online", "wrong-result", "begins with LOWEST")(online_with(lowest=float32(0)))
wrong("softmax-online", "wrong-result", "exp(old largest - new largest)")(online_with(turned=True))
wrong("softmax-online", "wrong-result", "exp(old largest - new largest)")(online_with(kept=False))
wrong("softmax-online", "wrong-result", "before either is changed")(online_with(early=True))
wrong("softmax-online", "wrong-result", "not subtracted from what is written")(
    online_with(relative=False)
)


@wrong("softmax-online", "wrong-result", "each lane adds the whole row")
@cuda.jit
def softmax_of_the_row_in_every_lane(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        largest, total = LOWEST, float32(0)
        for column in range(x.shape[1]):
            value = x[row, column]
            new = max(largest, value)
            total = total * math.exp(largest - new) + math.exp(value - new)
            largest = new
        total = warp_sum(total)
        for column in range(lane, x.shape[1], 32):
            out[row, column] = math.exp(x[row, column] - largest) / total


@right("softmax-online")
@cuda.jit
def softmax_by_a_logarithm(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        largest, total = LOWEST, float32(0)
        for column in range(lane, x.shape[1], 32):
            value = x[row, column]
            new = max(largest, value)
            total = total * math.exp(largest - new) + math.exp(value - new)
            largest = new
        for step in range(5):
            new = max(largest, cuda.shfl_xor_sync(ALL, largest, 16 >> step))
            total *= math.exp(largest - new)
            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
            largest = new
        total = largest + math.log(total)
        for column in range(lane, x.shape[1], 32):
            out[row, column] = math.exp(x[row, column] - total)


@wrong("softmax-online", "limit", "lanes share the reading")
@cuda.jit
def softmax_by_lane_0(x, out):
    t = cuda.threadIdx.x
    row = cuda.blockIdx.x * 4 + t // 32
    if row < x.shape[0] and t % 32 == 0:
        largest, total = LOWEST, float32(0)
        for column in range(x.shape[1]):
            value = x[row, column]
            new = max(largest, value)
            total = total * math.exp(largest - new) + math.exp(value - new)
            largest = new
        for column in range(x.shape[1]):
            out[row, column] = math.exp(x[row, column] - largest) / total


@wrong("softmax-online", "limit", "lanes share the")
@cuda.jit
def softmax_written_by_lane_0(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        largest, total = LOWEST, float32(0)
        for column in range(lane, x.shape[1], 32):
            value = x[row, column]
            new = max(largest, value)
            total = total * math.exp(largest - new) + math.exp(value - new)
            largest = new
        highest = largest
        for step in range(5):
            highest = max(highest, cuda.shfl_xor_sync(ALL, highest, 16 >> step))
        total = warp_sum(total * math.exp(largest - highest))
        if lane == 0:
            for column in range(x.shape[1]):
                out[row, column] = math.exp(x[row, column] - highest) / total


@wrong("softmax-online", "barrier-divergence", "All 32 lanes make every shuffle")
@cuda.jit
def softmax_of_lanes_with_columns(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0] and lane < x.shape[1]:
        largest, total = LOWEST, float32(0)
        for column in range(lane, x.shape[1], 32):
            value = x[row, column]
            new = max(largest, value)
            total = total * math.exp(largest - new) + math.exp(value - new)
            largest = new
        highest = largest
        for step in range(5):
            highest = max(highest, cuda.shfl_xor_sync(ALL, highest, 16 >> step))
        total = warp_sum(total * math.exp(largest - highest))
        for column in range(lane, x.shape[1], 32):
            out[row, column] = math.exp(x[row, column] - highest) / total


@wrong("softmax-online", "limit", "Maximum and sum in the same loop")
@cuda.jit
def softmax_in_three_readings(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        largest, total = LOWEST, float32(0)
        for column in range(lane, x.shape[1], 32):
            largest = max(largest, x[row, column])
        for step in range(5):
            largest = max(largest, cuda.shfl_xor_sync(ALL, largest, 16 >> step))
        for column in range(lane, x.shape[1], 32):
            total += math.exp(x[row, column] - largest)
        total = warp_sum(total)
        for column in range(lane, x.shape[1], 32):
            out[row, column] = math.exp(x[row, column] - largest) / total


@wrong("softmax-online", "wrong-result", "LOWEST")
@cuda.jit
def softmax_without_the_largest(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += math.exp(x[row, column])
        total = warp_sum(total)
        for column in range(lane, x.shape[1], 32):
            out[row, column] = math.exp(x[row, column]) / total


@right("softmax-online")
@cuda.jit
def softmax_that_rescales_only_when_larger(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row >= x.shape[0]:
        return
    largest, total = LOWEST, float32(0)
    for column in range(lane, x.shape[1], 32):
        value = x[row, column]
        if value > largest:
            total = total * math.exp(largest - value) + float32(1)
            largest = value
        else:
            total += math.exp(value - largest)
    highest = largest
    for step in range(5):
        highest = max(highest, cuda.shfl_xor_sync(ALL, highest, 1 << step))
    total = warp_sum(total * math.exp(largest - highest))
    for column in range(lane, x.shape[1], 32):
        out[row, column] = math.exp(x[row, column] - highest) / total


def softmax_with(meets="both", power="new", write="share", stride=32):
    """The answer with mistakes where lanes meet, in the powers, and in what is written."""

    @cuda.jit
    def softmax_online(x, out):
        t = cuda.threadIdx.x
        row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
        largest, total = LOWEST, float32(0)
        if row < x.shape[0]:
            for column in range(lane, x.shape[1], stride):
                value = x[row, column]
                new = max(largest, value)
                if power == "new":
                    own = math.exp(value - new)
                elif power == "before":
                    own = math.exp(value - largest)
                else:
                    own = math.exp(value)
                total = total * math.exp(largest - new) + own
                largest = new
            for step in range(5):
                other = cuda.shfl_xor_sync(ALL, largest, 16 >> step)
                other_total = cuda.shfl_xor_sync(ALL, total, 16 >> step)
                new = max(largest, other)
                if meets == "totals":
                    total += other_total
                elif meets == "largest":
                    largest = new
                elif meets == "one factor":
                    total = (total + other_total) * math.exp(largest - new)
                    largest = new
                else:
                    total = total * math.exp(largest - new) + other_total * math.exp(other - new)
                    if meets != "not kept":
                        largest = new
            for column in range(lane, x.shape[1], 32):
                if write == "share":
                    out[row, column] = math.exp(x[row, column] - largest) / total
                elif write == "product":
                    out[row, column] = math.exp(x[row, column] - largest) * total
                elif write == "difference":
                    out[row, column] = (x[row, column] - largest) / total
                else:
                    out[row, column] = x[row, column] / total

    return softmax_online


right("softmax-online")(softmax_with())
wrong("softmax-online", "wrong-result", "the totals meet and the largest do not")(
    softmax_with("totals")
)
wrong("softmax-online", "wrong-result", "the largest meet and the totals do not")(
    softmax_with("largest")
)
wrong("softmax-online", "wrong-result", "it has its own")(softmax_with("one factor"))
wrong("softmax-online", "wrong-result", "largest = new is missing")(softmax_with("not kept"))
wrong("softmax-online", "wrong-result", "is a power relative to LOWEST")(
    softmax_with(power="before")
)
wrong("softmax-online", "wrong-result", "a new power is not relative to the largest")(
    softmax_with(power="alone")
)
wrong("softmax-online", "wrong-result", "you multiply by the sum")(softmax_with(write="product"))
wrong("softmax-online", "wrong-result", "exp is missing in what is written, exp(number")(
    softmax_with(write="difference")
)
wrong("softmax-online", "wrong-result", "exp is missing in what is written")(
    softmax_with(write="number")
)
wrong("softmax-online", "wrong-result", "a lane goes on by steps of 32")(softmax_with(stride=128))


@wrong("softmax-online", "unwritten-output", "not lane 0 alone")
@cuda.jit
def softmax_written_in_a_branch(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    largest, total = LOWEST, float32(0)
    if row < x.shape[0]:
        for column in range(lane, x.shape[1], 32):
            value = x[row, column]
            new = max(largest, value)
            total = total * math.exp(largest - new) + math.exp(value - new)
            largest = new
        highest = largest
        for step in range(5):
            highest = max(highest, cuda.shfl_xor_sync(ALL, highest, 16 >> step))
        total = warp_sum(total * math.exp(largest - highest))
        if lane == 0:
            for column in range(lane, x.shape[1], 32):
                out[row, column] = math.exp(x[row, column] - highest) / total


@right("softmax-online")
@cuda.jit
def softmax_downwards_then_from_lane_0(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    largest, total = LOWEST, float32(0)
    if row < x.shape[0]:
        for column in range(lane, x.shape[1], 32):
            value = x[row, column]
            new = max(largest, value)
            total = total * math.exp(largest - new) + math.exp(value - new)
            largest = new
        for step in range(5):
            other = cuda.shfl_down_sync(ALL, largest, 16 >> step)
            other_total = cuda.shfl_down_sync(ALL, total, 16 >> step)
            new = max(largest, other)
            total = total * math.exp(largest - new) + other_total * math.exp(other - new)
            largest = new
        largest = cuda.shfl_sync(ALL, largest, 0)
        inverse = float32(1) / cuda.shfl_sync(ALL, total, 0)
        for column in range(lane, x.shape[1], 32):
            out[row, column] = math.exp(x[row, column] - largest) * inverse


# --- merge-moments ------------------------------------------------------------------------------


@wrong("merge-moments", "wrong-result", "distance of the means is missing")
def moments_added(count, mean, squares, other_count, other_mean, other_squares):
    both = count + other_count
    mean = (count * mean + other_count * other_mean) / max(both, 1)
    return both, mean, squares + other_squares


@wrong("merge-moments", "wrong-result", "loses digits")
def moments_by_raw_squares(count, mean, squares, other_count, other_mean, other_squares):
    both = max(count + other_count, 1)
    total = count * mean + other_count * other_mean
    raw = squares + count * mean**2 + other_squares + other_count * other_mean**2
    return count + other_count, total / both, raw - total * total / both


@wrong("merge-moments", "raised", "Both parts may be empty")
def moments_of_none(count, mean, squares, other_count, other_mean, other_squares):
    both, difference = count + other_count, other_mean - mean
    share = other_count / both
    grown = squares + other_squares + difference**2 * count * share
    return both, mean + difference * share, grown


@wrong("merge-moments", "wrong-result", "whatever their counts")
def moments_with_the_middle_of_the_means(
    count, mean, squares, other_count, other_mean, other_squares
):
    both, difference = count + other_count, other_mean - mean
    grown = squares + other_squares + difference**2 * count * other_count / max(both, 1)
    return both, (mean + other_mean) / 2, grown


@wrong("merge-moments", "wrong-result", "not divided by their sum")
def moments_not_divided(count, mean, squares, other_count, other_mean, other_squares):
    both, difference = count + other_count, other_mean - mean
    grown = squares + other_squares + difference**2 * count * other_count
    return both, mean + difference * other_count / max(both, 1), grown


@right("merge-moments")
def moments_by_two_distances(count, mean, squares, other_count, other_mean, other_squares):
    both = count + other_count
    if both == 0:
        return 0, 0.0, 0.0
    new = mean + (other_mean - mean) * (other_count / both)
    grown = count * (mean - new) ** 2 + other_count * (other_mean - new) ** 2
    return both, new, squares + other_squares + grown


@wrong("merge-moments", "wrong-result", "by the first part's share")
def moments_by_the_first_share(count, mean, squares, other_count, other_mean, other_squares):
    both, difference = max(count + other_count, 1), other_mean - mean
    grown = squares + other_squares + difference**2 * count * other_count / both
    return count + other_count, mean + difference * count / both, grown


@wrong("merge-moments", "wrong-result", "moves away from the other part")
def moments_moved_away(count, mean, squares, other_count, other_mean, other_squares):
    both, difference = max(count + other_count, 1), mean - other_mean
    grown = squares + other_squares + difference**2 * count * other_count / both
    return count + other_count, mean + difference * other_count / both, grown


@wrong("merge-moments", "wrong-result", "after it has moved")
def moments_by_the_moved_mean(count, mean, squares, other_count, other_mean, other_squares):
    both = max(count + other_count, 1)
    mean += (other_mean - mean) * other_count / both
    difference = other_mean - mean
    grown = squares + other_squares + difference**2 * count * other_count / both
    return count + other_count, mean, grown


@wrong("merge-moments", "wrong-result", "you return the variance")
def moments_as_variance(count, mean, squares, other_count, other_mean, other_squares):
    both, difference = max(count + other_count, 1), other_mean - mean
    grown = squares + other_squares + difference**2 * count * other_count / both
    return count + other_count, mean + difference * other_count / both, grown / both


@wrong("merge-moments", "wrong-result", "by the sum of the counts twice")
def moments_divided_twice(count, mean, squares, other_count, other_mean, other_squares):
    both, difference = max(count + other_count, 1), other_mean - mean
    grown = squares + other_squares + difference**2 * count * other_count / both**2
    return count + other_count, mean + difference * other_count / both, grown


@wrong("merge-moments", "wrong-result", "right is 0")
def moments_of_one_at_least(count, mean, squares, other_count, other_mean, other_squares):
    both, difference = max(count + other_count, 1), other_mean - mean
    grown = squares + other_squares + difference**2 * count * other_count / both
    return both, mean + difference * other_count / both, grown


@right("merge-moments")
def moments_by_cases(count, mean, squares, other_count, other_mean, other_squares):
    if count == 0:
        return other_count, other_mean, other_squares
    if other_count == 0:
        return count, mean, squares
    both, difference = count + other_count, mean - other_mean
    grown = squares + other_squares + difference * difference * count * other_count / both
    return both, (count * mean + other_count * other_mean) / both, grown


def moments_with(grown="right", moved="right", order=(0, 1, 2)):
    """The answer with mistakes."""

    def moments(count, mean, squares, other_count, other_mean, other_squares):
        both = count + other_count
        difference, share = other_mean - mean, other_count / max(both, 1)
        new = mean + (difference * share if moved == "right" else difference / max(both, 1))
        total = {
            "right": squares + other_squares + difference**2 * count * share,
            "one": squares + other_squares + difference * (other_mean - new),
            "share": squares + other_squares + difference**2 * share,
            "first": squares + difference**2 * count * share,
            "other": other_squares + difference**2 * count * share,
            "weighted": (squares * count + other_squares * other_count) / max(both, 1)
            + difference**2 * count * share,
        }[grown]
        results = both, new, total
        return tuple(results[n] for n in order)

    return moments


right("merge-moments")(moments_with())
wrong("merge-moments", "wrong-result", "here other_count numbers come in")(moments_with("one"))
wrong("merge-moments", "wrong-result", "by count, too")(moments_with("share"))
wrong("merge-moments", "wrong-result", "other_squares is missing")(moments_with("first"))
wrong("merge-moments", "wrong-result", "first part's squares are missing")(moments_with("other"))
wrong("merge-moments", "wrong-result", "weighted by the counts")(moments_with("weighted"))
wrong("merge-moments", "wrong-result", "as for one new number")(moments_with(moved="one"))
wrong("merge-moments", "wrong-result", "in another order")(moments_with(order=(1, 2, 0)))


# --- count-transfers ----------------------------------------------------------------------------


@wrong("count-transfers", "wrong-result", "only what the first step reads")
def transfers_of_the_first_step(steps):
    return sum(len(set(inputs)) + 1 for inputs, _ in steps), len(set(steps[0][0])) + 1


@wrong("count-transfers", "wrong-result", "only the last one is wanted")
def transfers_by_a_symmetric_difference(steps):
    read = {name for inputs, _ in steps for name in inputs}
    made = {output for _, output in steps}
    return sum(len(set(inputs)) + 1 for inputs, _ in steps), len(read ^ made)


@wrong("count-transfers", "wrong-result", "a write is a transfer")
def transfers_without_the_last_write(steps):
    read = {name for inputs, _ in steps for name in inputs}
    made = {output for _, output in steps}
    return sum(len(set(inputs)) + 1 for inputs, _ in steps), len(read - made)


@wrong("count-transfers", "wrong-result", "each step reads it again")
def transfers_two_a_step(steps):
    read = {name for inputs, _ in steps for name in inputs}
    made = {output for _, output in steps}
    return 2 * len(steps), len(read - made) + 1


@wrong("count-transfers", "wrong-result", "right is 6")
def transfers_of_the_example(steps):
    return 5, 2


@right("count-transfers")
def transfers_of_joined_lists(steps):
    read, made = [], []
    for inputs, output in steps:
        read = read + inputs
        made.append(output)
    apart = sum(len(set(inputs)) for inputs, _ in steps) + len(steps)
    return apart, len({name for name in read if name not in made}) + 1


@wrong("count-transfers", "wrong-result", "names twice is counted twice")
def transfers_with_doubles(steps):
    outside = {name for inputs, _ in steps for name in inputs} - {output for _, output in steps}
    return sum(len(inputs) + 1 for inputs, _ in steps), len(outside) + 1


@wrong("count-transfers", "wrong-result", "always 2|from outside")
def transfers_fused_to_two(steps):
    return sum(len(set(inputs)) + 1 for inputs, _ in steps), 2


@wrong("count-transfers", "wrong-result", "a write is a transfer")
def transfers_read_only(steps):
    outside = {name for inputs, _ in steps for name in inputs} - {output for _, output in steps}
    return sum(len(set(inputs)) for inputs, _ in steps), len(outside)


@wrong("count-transfers", "wrong-result", "stays in registers")
def transfers_of_everything(steps):
    names = {name for inputs, _ in steps for name in inputs}
    return sum(len(set(inputs)) + 1 for inputs, _ in steps), len(names) + 1


@wrong("count-transfers", "wrong-result", "in the other order")
def transfers_fused_first(steps):
    outside = {name for inputs, _ in steps for name in inputs} - {output for _, output in steps}
    return len(outside) + 1, sum(len(set(inputs)) + 1 for inputs, _ in steps)


@right("count-transfers")
def transfers_one_by_one(steps):
    apart, known, fused = 0, set(), 0
    for inputs, output in steps:
        new = set(inputs)
        apart += len(new) + 1
        fused += len(new - known)
        known |= new | {output}
    return apart, fused + 1


@wrong("count-transfers", "wrong-result", "two steps read is counted twice")
def transfers_from_a_list(steps):
    apart = sum(len(set(inputs)) + 1 for inputs, _ in steps)
    made = [output for _, output in steps]
    return apart, len([name for inputs, _ in steps for name in inputs if name not in made]) + 1


@wrong("count-transfers", "wrong-result", "only the last output is counted as written")
def transfers_with_one_write(steps):
    made = {output for _, output in steps}
    read = {name for inputs, _ in steps for name in inputs}
    return sum(len(set(inputs)) for inputs, _ in steps) + 1, len(read - made) + 1


@wrong("count-transfers", "wrong-result", "letters of the output's name")
def transfers_of_letters(steps):
    made = {output for _, output in steps}
    read = {name for inputs, _ in steps for name in inputs}
    return sum(len(set(inputs)) + len(output) for inputs, output in steps), len(read - made) + 1


# --- layer-norm-gelu ----------------------------------------------------------------------------


def fused(
    activated=True, factors_last=False, beta_in=True, less=0, root=True, guarded=True, eps_in=True
):
    """The answer with mistakes."""

    @cuda.jit
    def layer_norm_gelu(x, gamma, beta, eps, out):
        values = cuda.local.array(PARTS, float32)
        t = cuda.threadIdx.x
        row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
        columns = float32(x.shape[1])
        if row < x.shape[0]:
            total = float32(0)
            for n in range(PARTS):
                column = lane + 32 * n
                values[n] = x[row, column] if column < x.shape[1] else float32(0)
                total += values[n]
            mean = warp_sum(total) / columns
            squares = float32(0)
            for n in range(PARTS):
                if not guarded or lane + 32 * n < x.shape[1]:
                    squares += (values[n] - mean) * (values[n] - mean)
            variance = warp_sum(squares) / max(columns - float32(less), float32(1))
            inside = variance + (eps if eps_in else float32(1e-30))
            scale = float32(1) / (math.sqrt(inside) if root else inside)
            for n in range(PARTS):
                column = lane + 32 * n
                if column < x.shape[1]:
                    y = (values[n] - mean) * scale
                    shift = beta[column] if beta_in else float32(0)
                    if factors_last:
                        out[row, column] = gelu(y) * gamma[column] + shift
                    elif activated:
                        out[row, column] = gelu(y * gamma[column] + shift)
                    else:
                        out[row, column] = y * gamma[column] + shift

    return layer_norm_gelu


right("layer-norm-gelu")(fused())
wrong("layer-norm-gelu", "wrong-result", "GELU is missing")(fused(activated=False))
wrong("layer-norm-gelu", "wrong-result", "come before it")(fused(factors_last=True))
wrong("layer-norm-gelu", "wrong-result", "beta is missing")(fused(beta_in=False))
wrong("layer-norm-gelu", "wrong-result", "divides by columns - 1")(fused(less=1))
wrong("layer-norm-gelu", "wrong-result", "not by its root")(fused(root=False))
wrong("layer-norm-gelu", "wrong-result", "beyond the row's end")(fused(guarded=False))
wrong("layer-norm-gelu", "wrong-result", "eps is missing")(fused(eps_in=False))


@wrong("layer-norm-gelu", "wrong-result", "sum of (value - mean)²")
@cuda.jit
def fused_by_raw_squares(x, gamma, beta, eps, out):
    values = cuda.local.array(PARTS, float32)
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    columns = float32(x.shape[1])
    if row < x.shape[0]:
        total, squares = float32(0), float32(0)
        for n in range(PARTS):
            column = lane + 32 * n
            values[n] = x[row, column] if column < x.shape[1] else float32(0)
            total += values[n]
            squares += values[n] * values[n]
        mean = warp_sum(total) / columns
        variance = warp_sum(squares) / columns - mean * mean
        scale = float32(1) / math.sqrt(variance + eps)
        for n in range(PARTS):
            column = lane + 32 * n
            if column < x.shape[1]:
                y = (values[n] - mean) * scale
                out[row, column] = gelu(y * gamma[column] + beta[column])


@wrong("layer-norm-gelu", "limit", "x is read once")
@cuda.jit
def fused_with_three_readings(x, gamma, beta, eps, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    columns = float32(x.shape[1])
    if row < x.shape[0]:
        total, squares = float32(0), float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        mean = warp_sum(total) / columns
        for column in range(lane, x.shape[1], 32):
            squares += (x[row, column] - mean) * (x[row, column] - mean)
        scale = float32(1) / math.sqrt(warp_sum(squares) / columns + eps)
        for column in range(lane, x.shape[1], 32):
            y = (x[row, column] - mean) * scale
            out[row, column] = gelu(y * gamma[column] + beta[column])


@right("layer-norm-gelu")
@cuda.jit
def fused_from_a_first_number(x, gamma, beta, eps, out):
    """One pass of squares, relative to the row's first number: nothing large is squared."""
    values = cuda.local.array(PARTS, float32)
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    columns = float32(x.shape[1])
    if row >= x.shape[0]:
        return
    total, squares = float32(0), float32(0)
    for n in range(PARTS):
        column = lane + 32 * n
        values[n] = x[row, column] if column < x.shape[1] else float32(0)
    first = cuda.shfl_sync(ALL, values[0], 0)
    for n in range(PARTS):
        values[n] = values[n] - first if lane + 32 * n < x.shape[1] else float32(0)
        total += values[n]
        squares += values[n] * values[n]
    mean = warp_sum(total) / columns
    scale = float32(1) / math.sqrt(warp_sum(squares) / columns - mean * mean + eps)
    for n in range(PARTS):
        column = lane + 32 * n
        if column < x.shape[1]:
            y = (values[n] - mean) * scale
            out[row, column] = gelu(y * gamma[column] + beta[column])


def fused_with(mean_met=True, squares_met=True, divisor="columns", centred=True, at="column",
               order="gamma", one=True, store="guarded", smooth=False, mean_out=True):  # fmt: skip
    """The answer with other mistakes."""

    @cuda.jit
    def layer_norm_gelu(x, gamma, beta, eps, out):
        values = cuda.local.array(PARTS, float32)
        t = cuda.threadIdx.x
        row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
        columns = float32(x.shape[1])
        if divisor == "places":
            columns = float32(256)
        elif divisor == "rows":
            columns = float32(x.shape[0])
        if row < x.shape[0]:
            total = float32(0)
            for n in range(PARTS):
                column = lane + 32 * n
                values[n] = x[row, column] if column < x.shape[1] else float32(0)
                total += values[n]
            mean = (warp_sum(total) if mean_met else total) / columns
            squares = float32(0)
            for n in range(PARTS):
                if lane + 32 * n < x.shape[1]:
                    squares += (values[n] - mean) ** 2 if centred else values[n] ** 2
            variance = (warp_sum(squares) if squares_met else squares) / columns
            scale = (float32(1) if one else 1.0) / math.sqrt(variance + eps)
            for n in range(PARTS):
                column = lane + 32 * n
                if column < x.shape[1] or store != "guarded":
                    place = lane if at == "lane" else column
                    y = (values[n] - mean if mean_out else values[n]) * scale
                    if order == "gamma":
                        y = y * gamma[place] + beta[place]
                    else:
                        y = (y + beta[place]) * gamma[place]
                    if smooth:
                        inner = float32(0.7978846) * (y + float32(0.044715) * y * y * y)
                        out[row, column] = float32(0.5) * y * (float32(1) + math.tanh(inner))
                    else:
                        out[row, column] = gelu(y)

    return layer_norm_gelu


right("layer-norm-gelu")(fused_with())
wrong("layer-norm-gelu", "wrong-result", "the mean of its own numbers")(fused_with(mean_met=False))
wrong("layer-norm-gelu", "wrong-result", "its own squares alone")(fused_with(squares_met=False))
wrong("layer-norm-gelu", "wrong-result", "256 places")(fused_with(divisor="places"))
wrong("layer-norm-gelu", "wrong-result", "mean = sum / columns")(fused_with(divisor="rows"))
wrong("layer-norm-gelu", "wrong-result", "not subtracted before squaring")(
    fused_with(centred=False)
)
wrong("layer-norm-gelu", "wrong-result", "at the lane, not at the column")(fused_with(at="lane"))
wrong("layer-norm-gelu", "wrong-result", "beta is added before gamma")(fused_with(order="beta"))
wrong("layer-norm-gelu", "float64", "1.0 and 1e-5 are float64")(fused_with(one=False))
wrong("layer-norm-gelu", "out-of-bounds", "lanes without a column")(fused_with(store="all"))
wrong("layer-norm-gelu", "wrong-result", "with tanh it is another function")(
    fused_with(smooth=True)
)
wrong("layer-norm-gelu", "wrong-result", "not subtracted from what is written")(
    fused_with(mean_out=False)
)


@wrong("layer-norm-gelu", "limit", "all 32 at the same time")
@cuda.jit
def fused_by_lane_0(x, gamma, beta, eps, out):
    values = cuda.local.array(256, float32)
    t = cuda.threadIdx.x
    row, columns = cuda.blockIdx.x * 4 + t // 32, float32(x.shape[1])
    if row < x.shape[0] and t % 32 == 0:
        total, squares = float32(0), float32(0)
        for column in range(x.shape[1]):
            values[column] = x[row, column]
            total += values[column]
        mean = total / columns
        for column in range(x.shape[1]):
            squares += (values[column] - mean) ** 2
        scale = float32(1) / math.sqrt(squares / columns + eps)
        for column in range(x.shape[1]):
            y = (values[column] - mean) * scale
            out[row, column] = gelu(y * gamma[column] + beta[column])


@wrong("layer-norm-gelu", "uninitialised-read", "beyond the row's end")
@cuda.jit
def fused_with_places_left_unset(x, gamma, beta, eps, out):
    values = cuda.local.array(PARTS, float32)
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    columns = float32(x.shape[1])
    if row < x.shape[0]:
        total, squares = float32(0), float32(0)
        for n in range(PARTS):
            if lane + 32 * n < x.shape[1]:
                values[n] = x[row, lane + 32 * n]
            total += values[n]
        mean = warp_sum(total) / columns
        for n in range(PARTS):
            if lane + 32 * n < x.shape[1]:
                squares += (values[n] - mean) ** 2
        scale = float32(1) / math.sqrt(warp_sum(squares) / columns + eps)
        for n in range(PARTS):
            column = lane + 32 * n
            if column < x.shape[1]:
                y = (values[n] - mean) * scale
                out[row, column] = gelu(y * gamma[column] + beta[column])


@right("layer-norm-gelu")
@cuda.jit
def fused_by_merging_moments(x, gamma, beta, eps, out):
    values = cuda.local.array(PARTS, float32)
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row >= x.shape[0]:
        return
    count, mean, squares = float32(0), float32(0), float32(0)
    for n in range(PARTS):
        if lane + 32 * n < x.shape[1]:
            values[n] = x[row, lane + 32 * n]
            count += float32(1)
            difference = values[n] - mean
            mean += difference / count
            squares += difference * (values[n] - mean)
    for step in range(5):
        other_count = cuda.shfl_xor_sync(ALL, count, 16 >> step)
        other_mean = cuda.shfl_xor_sync(ALL, mean, 16 >> step)
        other_squares = cuda.shfl_xor_sync(ALL, squares, 16 >> step)
        difference, both = other_mean - mean, max(count + other_count, float32(1))
        squares += other_squares + difference * difference * count * other_count / both
        mean += difference * other_count / both
        count += other_count
    for n in range(PARTS):
        column = lane + 32 * n
        if column < x.shape[1]:
            y = (values[n] - mean) / math.sqrt(squares / count + eps)
            out[row, column] = gelu(y * gamma[column] + beta[column])


def normalised_with(divided=("sum", "squares"), inverse=True, at="column", early=False, rows=False):
    """The answer with yet other mistakes."""
    divides_sum, divides_squares = "sum" in divided, "squares" in divided

    @cuda.jit
    def layer_norm_gelu(x, gamma, beta, eps, out):
        values = cuda.local.array(PARTS, float32)
        t = cuda.threadIdx.x
        row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
        columns = float32(x.shape[0] if rows else x.shape[1])
        if early and lane >= x.shape[1]:
            return
        if row < x.shape[0]:
            total = float32(0)
            for n in range(PARTS):
                column = lane + 32 * n
                values[n] = x[row, column] if column < x.shape[1] else float32(0)
                total += values[n]
            mean = warp_sum(total)
            if divides_sum:
                mean /= columns
            squares = float32(0)
            for n in range(PARTS):
                if lane + 32 * n < x.shape[1]:
                    squares += (values[n] - mean) * (values[n] - mean)
            variance = warp_sum(squares)
            if divides_squares:
                variance /= columns
            root = math.sqrt(variance + eps)
            for n in range(PARTS):
                column = lane + 32 * n
                if column < x.shape[1]:
                    y = (values[n] - mean) / root if inverse else (values[n] - mean) * root
                    place = column if at == "column" else n if at == "n" else row
                    out[row, column] = gelu(y * gamma[place] + beta[place])

    return layer_norm_gelu


right("layer-norm-gelu")(normalised_with())
wrong("layer-norm-gelu", "wrong-result", "that is no mean")(normalised_with(["squares"]))
wrong("layer-norm-gelu", "wrong-result", "squares is not divided")(normalised_with(["sum"]))
wrong("layer-norm-gelu", "wrong-result", "multiply by the root")(normalised_with(inverse=False))
wrong("layer-norm-gelu", "wrong-result", "taken at n, not")(normalised_with(at="n"))
wrong("layer-norm-gelu", "wrong-result", "taken at the row, not")(normalised_with(at="row"))
wrong("layer-norm-gelu", "wrong-result", "missing in warp_sum")(normalised_with(early=True))
wrong("layer-norm-gelu", "wrong-result", "columns is x.shape[1]")(normalised_with(rows=True))


@right("layer-norm-gelu")
@cuda.jit
def normalised_in_place(x, gamma, beta, eps, out):
    values = cuda.local.array(PARTS, float32)
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    columns = float32(x.shape[1])
    if row < x.shape[0]:
        total, squares = float32(0), float32(0)
        for column in range(lane, x.shape[1], 32):
            values[column // 32] = x[row, column]
            total += values[column // 32]
        mean = warp_sum(total) / columns
        for column in range(lane, x.shape[1], 32):
            values[column // 32] -= mean
            squares += values[column // 32] ** 2
        scale = (warp_sum(squares) / columns + eps) ** float32(-0.5)
        for column in range(lane, x.shape[1], 32):
            y = values[column // 32] * scale * gamma[column] + beta[column]
            out[row, column] = y * float32(0.5) * (float32(1) + math.erf(y * float32(0.70710678)))
