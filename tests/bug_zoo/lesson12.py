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
wrong("sum-several", "race", "only atomics may add")(several(atomic=False))
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


# --- merge-softmax ------------------------------------------------------------------------------


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


# --- count-transfers ----------------------------------------------------------------------------


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
