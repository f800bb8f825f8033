"""Wrong answers to the exercises of lesson 13 as students write them, and unusual right ones."""

import math

import numpy as np
from numba import float32

from bug_zoo import Answers
from course import cuda
from course.kernels.activation import gelu

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right

ALL = 0xFFFFFFFF

# --- fused-bytes ----------------------------------------------------------------------------------


def sizes_of(of_a_sample, of_weights, batch):
    size = {name: 4 * batch * count for name, count in of_a_sample.items()}
    return size | {name: 4 * count for name, count in of_weights.items()}


@wrong("fused-bytes", "wrong-result", "numbers are counted, not bytes")
def bytes_as_numbers(launches, of_a_sample, of_weights, results, batch):
    unfused, fused = bytes_right(launches, of_a_sample, of_weights, results, batch)
    return unfused // 4, fused // 4


@wrong("fused-bytes", "wrong-result", "read twice counts twice")
def bytes_read_twice(launches, of_a_sample, of_weights, results, batch):
    size = {name: 4 * batch * count for name, count in of_a_sample.items()}
    size.update({name: 4 * count for name, count in of_weights.items()})
    made = [written for _, written in launches]
    unfused = fused = 0
    for reads, written in launches:
        unfused += size[written] + sum(size[name] for name in reads)
        fused += sum(size[name] for name in reads if name not in made)
    return unfused, fused + sum(size[name] for name in results)


@wrong("fused-bytes", "wrong-result", "lies between the layers")
def bytes_that_keep_everything(launches, of_a_sample, of_weights, results, batch):
    size = {name: 4 * batch * count for name, count in of_a_sample.items()}
    size.update({name: 4 * count for name, count in of_weights.items()})
    unfused = sum(size[name] for reads, written in launches for name in (*reads, written))
    return unfused, sum(size.values())


@wrong("fused-bytes", "wrong-result", "weights are multiplied by the batch")
def bytes_with_weights_for_each(launches, of_a_sample, of_weights, results, batch):
    many = {name: batch * count for name, count in of_weights.items()}
    return bytes_right(launches, of_a_sample, many, results, batch)


@wrong("fused-bytes", "wrong-result", "changed places")
def bytes_in_the_other_order(launches, of_a_sample, of_weights, results, batch):
    return bytes_right(launches, of_a_sample, of_weights, results, batch)[::-1]


@wrong("fused-bytes", "wrong-result", "Return two values")
def bytes_of_the_launches_alone(launches, of_a_sample, of_weights, results, batch):
    return bytes_right(launches, of_a_sample, of_weights, results, batch)[0]


@wrong("fused-bytes", "wrong-result", "Your bytes of one kernel", "nothing that later ones need")
def bytes_of_the_first_launch(launches, of_a_sample, of_weights, results, batch):
    size = sizes_of(of_a_sample, of_weights, batch)
    unfused = sum(size[name] for reads, written in launches for name in (*reads, written))
    return unfused, sum(size[name] for name in (*launches[0][0], *results))


@wrong("fused-bytes", "wrong-result", "Your bytes of the launches", "each reads it for itself")
def bytes_of_different_names(launches, of_a_sample, of_weights, results, batch):
    size = sizes_of(of_a_sample, of_weights, batch)
    read = {name for reads, _ in launches for name in reads}
    made = {written for _, written in launches}
    unfused = sum(size[name] for name in (*read, *made))
    return unfused, sum(size[name] for name in (*(read - made), *results))


@wrong("fused-bytes", "wrong-result", "of several results only the last")
def bytes_of_the_last_result(launches, of_a_sample, of_weights, results, batch):
    return bytes_right(launches, of_a_sample, of_weights, results[-1:], batch)


@wrong("fused-bytes", "wrong-result", "reads its own results")
def bytes_with_results_read_again(launches, of_a_sample, of_weights, results, batch):
    size = sizes_of(of_a_sample, of_weights, batch)
    unfused = sum(size[name] for reads, written in launches for name in (*reads, written))
    read = {name for reads, _ in launches for name in reads}
    between = {written for _, written in launches if written not in results}
    return unfused, sum(size[name] for name in (*(read - between), *results))


@wrong("fused-bytes", "wrong-result", "what the launches write is left out")
def bytes_without_writing(launches, of_a_sample, of_weights, results, batch):
    size = sizes_of(of_a_sample, of_weights, batch)
    _, fused = bytes_right(launches, of_a_sample, of_weights, results, batch)
    return sum(size[name] for reads, _ in launches for name in reads), fused


@wrong("fused-bytes", "wrong-result", "the weights are left out")
def bytes_without_weights(launches, of_a_sample, of_weights, results, batch):
    nothing = dict.fromkeys(of_weights, 0)
    return bytes_right(launches, of_a_sample, nothing, results, batch)


@wrong("fused-bytes", "raised", "a tuple of names, and one name")
def bytes_of_letters(launches, of_a_sample, of_weights, results, batch):
    """A loop over a name goes through its letters."""
    size = sizes_of(of_a_sample, of_weights, batch)
    unfused = sum(size[n] for reads, written in launches for n in (*reads, *written))
    return unfused, bytes_right(launches, of_a_sample, of_weights, results, batch)[1]


@wrong("fused-bytes", "raised", "take them from the launches")
def bytes_of_a_network_with_an_x(launches, of_a_sample, of_weights, results, batch):
    size = sizes_of(of_a_sample, of_weights, batch)
    unfused = sum(size[name] for reads, written in launches for name in (*reads, written))
    return unfused, size["x"] + sum(size[name] for name in (*of_weights, *results))


@wrong("fused-bytes", "wrong-result", "Your bytes of one kernel", "between the layers is taken off")
def bytes_less_what_lies_between(launches, of_a_sample, of_weights, results, batch):
    size = sizes_of(of_a_sample, of_weights, batch)
    unfused = sum(size[name] for reads, written in launches for name in (*reads, written))
    return unfused, unfused - sum(2 * size[made] for _, made in launches if made not in results)


@wrong("fused-bytes", "wrong-result", "bits are counted")
def bytes_as_bits(launches, of_a_sample, of_weights, results, batch):
    unfused, fused = bytes_right(launches, of_a_sample, of_weights, results, batch)
    return 8 * unfused, 8 * fused


@wrong("fused-bytes", "wrong-result", "Your bytes of the launches", "only the results are written")
def bytes_of_launches_that_write_results(launches, of_a_sample, of_weights, results, batch):
    size = sizes_of(of_a_sample, of_weights, batch)
    unfused = sum(size[name] for reads, _ in launches for name in reads)
    unfused += sum(size[name] for name in results)
    return unfused, bytes_right(launches, of_a_sample, of_weights, results, batch)[1]


@wrong("fused-bytes", "wrong-result", "also one that a launch reads")
def bytes_of_what_nobody_reads(launches, of_a_sample, of_weights, results, batch):
    size = sizes_of(of_a_sample, of_weights, batch)
    unfused = sum(size[name] for reads, written in launches for name in (*reads, written))
    read = {name for reads, _ in launches for name in reads}
    made = {written for _, written in launches}
    return unfused, sum(size[name] for name in read ^ made)


@wrong(
    "fused-bytes",
    "wrong-result",
    "103,424. That is what you get when weights are multiplied by the batch",
    "46,080. That is what you get when the weights are left out",
)
def bytes_wrong_in_two_ways(launches, of_a_sample, of_weights, results, batch):
    """Each figure has its own reason."""
    many = {name: batch * count for name, count in of_weights.items()}
    unfused, _ = bytes_right(launches, of_a_sample, many, results, batch)
    nothing = dict.fromkeys(of_weights, 0)
    return unfused, bytes_right(launches, of_a_sample, nothing, results, batch)[1]


@wrong("fused-bytes", "wrong-result", "right is 46,080. One kernel reads each name that no launch")
def bytes_that_no_one_can_explain(launches, of_a_sample, of_weights, results, batch):
    unfused, fused = bytes_right(launches, of_a_sample, of_weights, results, batch)
    return unfused, fused + 4 * (len(launches) - 1)


@right("fused-bytes")
def bytes_of_all_but_what_lies_between(launches, of_a_sample, of_weights, results, batch):
    size = sizes_of(of_a_sample, of_weights, batch)
    made = {written for _, written in launches}
    unfused = sum(sum(map(size.get, reads)) + size[written] for reads, written in launches)
    return np.array([unfused, sum(size[n] for n in size if n not in made or n in results)])


@right("fused-bytes")
def bytes_right(launches, of_a_sample, of_weights, results, batch):
    def size(name):
        return 4 * (of_weights[name] if name in of_weights else batch * of_a_sample[name])

    unfused, touched, made = 0, set(), set()
    for reads, written in launches:
        unfused += size(written)
        for name in reads:
            unfused += size(name)
            if name not in made:
                touched.add(name)
        made.add(written)
    return unfused, sum(map(size, touched)) + sum(map(size, results))


# --- time-of-launches -----------------------------------------------------------------------------


@wrong("time-of-launches", "wrong-result", "launches and work are added")
def time_as_a_sum(launch, works):
    return sum(launch + work for work in works)


@wrong("time-of-launches", "wrong-result", "must be launched")
def time_as_the_larger(launch, works):
    return max(launch * len(works), sum(works))


@wrong("time-of-launches", "wrong-result", "only the work counts")
def time_of_the_work(launch, works):
    return sum(works)


@wrong("time-of-launches", "wrong-result", "only the launches count")
def time_of_the_launches(launch, works):
    return launch * len(works)


@wrong("time-of-launches", "wrong-result", "not made to wait for each other")
def time_without_a_queue(launch, works):
    return max([launch * (n + 1) + work for n, work in enumerate(works)] or [0.0])


@wrong("time-of-launches", "wrong-result", "only the first launch")
def time_with_one_launch(launch, works):
    return launch + sum(works) if works else 0.0


@wrong("time-of-launches", "wrong-result", "only the first and the last launch")
def time_by_two_ends(launch, works):
    if not works:
        return 0.0
    return max(launch + sum(works), launch * len(works) + works[-1])


@wrong("time-of-launches", "wrong-result", "`return` in the loop")
def time_that_returns_early(launch, works):
    now = done = 0.0
    for work in works:
        now += launch
        done = max(now, done) + work
        return done
    return 0.0


@wrong("time-of-launches", "wrong-result", "launches and work are added")
def time_of_a_host_that_waits(launch, works):
    done = 0.0
    for work in works:
        now = done + launch
        done = now + work
    return done


@wrong("time-of-launches", "raised", "it may be empty")
def time_of_at_least_one(launch, works):
    done = launch + works[0]
    for place, work in enumerate(works[1:], 2):
        done = max(done, place * launch) + work
    return done


@wrong("time-of-launches", "input-modified", "leave the list")
def time_that_empties_the_list(launch, works):
    now = done = 0.0
    while works:
        now += launch
        done = max(now, done) + works.pop(0)
    return done


@wrong("time-of-launches", "wrong-result", "launches the next one meanwhile")
def time_of_a_host_held_back(launch, works):
    now = done = 0.0
    for work in works:
        now += launch
        if now < done:
            now = done
        done = now + work
    return done


@wrong("time-of-launches", "wrong-result", "the larger of launch and work")
def time_of_the_larger_each_time(launch, works):
    return launch + sum(max(launch, work) for work in works) if works else 0.0


@wrong("time-of-launches", "wrong-shape", "Return one number")
def time_of_both_clocks(launch, works):
    now = done = 0.0
    for work in works:
        now += launch
        done = max(now, done) + work
    return now, done


@right("time-of-launches")
def time_by_the_last_gap(launch, works):
    """From some kernel on the GPU never waits again: the latest of all such starts counts."""
    starts = [launch * (n + 1) + sum(works[n:]) for n in range(len(works))]
    return max(starts, default=0)


# --- normalise-frames -----------------------------------------------------------------------------


@wrong("normalise-frames", "wrong-result", "one of its two numbers only")
@cuda.jit
def frames_with_half_sums(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(32)
    square = (a - mean) * (a - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(32) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "wrong-result", "normalised by itself")
@cuda.jit
def frames_of_two_halves(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    for half in range(2):
        column = cuda.threadIdx.x // 32 * 64 + 32 * half + lane
        a = x[row, column]
        total = a
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 1 << step)
        mean = total / float32(32)
        square = (a - mean) * (a - mean)
        for step in range(5):
            square += cuda.shfl_xor_sync(ALL, square, 1 << step)
        out[row, column] = (a - mean) / math.sqrt(square / float32(32) + float32(1e-5))


@wrong("normalise-frames", "wrong-result", "E[x²] - mean² loses its digits")
@cuda.jit
def frames_by_the_mean_of_squares(x, out):
    """E[x²] - mean²: digits are lost where the level is high."""
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total, square = a + b, a * a + b * b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    mean = total / float32(64)
    scale = float32(1) / math.sqrt(square / float32(64) - mean * mean + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "wrong-result", "shfl_down_sync to lane 0 alone")
@cuda.jit
def frames_with_sums_in_lane_0(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(5):
        total += cuda.shfl_down_sync(ALL, total, 16 >> step)
    mean = total / float32(64)
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(5):
        square += cuda.shfl_down_sync(ALL, square, 16 >> step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "float64", "bare literals")
@cuda.jit
def frames_in_float64(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / 64
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = 1 / math.sqrt(square / 64 + 1e-5)
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "uncoalesced|limit", "lane and lane + 32")
@cuda.jit
def frames_of_neighbours(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + 2 * lane
    a, b = x[row, column], x[row, column + 1]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(64)
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 1] = (b - mean) * scale


@wrong("normalise-frames", "limit", "keep it in a variable")
@cuda.jit
def frames_read_again(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    total = x[row, column] + x[row, column + 32]
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(64)
    square = float32(0)
    for n in range(2):
        square += (x[row, column + 32 * n] - mean) * (x[row, column + 32 * n] - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    for n in range(2):
        out[row, column + 32 * n] = (x[row, column + 32 * n] - mean) * scale


@wrong("normalise-frames", "limit", "Shuffles need no shared memory")
@cuda.jit
def frames_by_shared_memory(x, out):
    sums = cuda.shared.array((2, 160), float32)
    row, thread = cuda.blockIdx.x, cuda.threadIdx.x
    first, column = thread // 32 * 32, thread // 32 * 64 + thread % 32
    a, b = x[row, column], x[row, column + 32]
    sums[0, thread] = a + b
    cuda.syncthreads()
    total = float32(0)
    for other in range(32):
        total += sums[0, first + other]
    mean = total / float32(64)
    sums[1, thread] = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    cuda.syncthreads()
    square = float32(0)
    for other in range(32):
        square += sums[1, first + other]
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "wrong-result", "belongs under it")
@cuda.jit
def frames_with_epsilon_beside_the_root(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(64)
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / (math.sqrt(square / float32(64)) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "wrong-result", "epsilon is missing")
@cuda.jit
def frames_without_epsilon(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(64)
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    deviation = math.sqrt(square / float32(64))
    out[row, column] = (a - mean) / deviation
    out[row, column + 32] = (b - mean) / deviation


@wrong("normalise-frames", "wrong-result", "it takes five steps")
@cuda.jit
def frames_in_four_steps(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(4):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(64)
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(4):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "wrong-result", "1 << step apart")
@cuda.jit
def frames_by_lanes_step_apart(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, step)
    mean = total / float32(64)
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "wrong-result", "divided by 32")
@cuda.jit
def frames_of_32(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(32)
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(32) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "wrong-result", "numbers of two frames")
@cuda.jit
def frames_in_strides_of_the_block(x, out):
    row, column = cuda.blockIdx.x, cuda.threadIdx.x
    a, b = x[row, column], x[row, column + 160]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(64)
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 160] = (b - mean) * scale


@wrong("normalise-frames", "race", "Warp f begins at column 64")
@cuda.jit
def frames_32_apart(x, out):
    row, column = cuda.blockIdx.x, cuda.threadIdx.x
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(64)
    out[row, column], out[row, column + 32] = a - mean, b - mean


@wrong("normalise-frames", "barrier-divergence", "All 32 lanes make a shuffle together")
@cuda.jit
def frames_that_shuffle_in_a_branch(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    apart = 16
    while apart > 0:
        if lane < apart:
            total += cuda.shfl_down_sync(ALL, total, apart)
        apart //= 2
    mean = cuda.shfl_sync(ALL, total, 0) / float32(64)
    out[row, column], out[row, column + 32] = a - mean, b - mean


@wrong("normalise-frames", "unwritten-output", "Block b has spectrum b")
@cuda.jit
def frames_of_the_first_spectrum(x, out):
    lane = cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[0, column], x[0, column + 32]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(64)
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[0, column] = (a - mean) * scale
    out[0, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "wrong-result", "a sixth step doubles them")
@cuda.jit
def frames_in_six_steps(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(6):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(64)
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(6):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "wrong-result", "the sum is subtracted, not the mean")
@cuda.jit
def frames_less_their_sum(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "wrong-result", "it is those of value - mean")
@cuda.jit
def frames_with_squares_of_the_values(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(64)
    square = a * a + b * b
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "wrong-result", "only the first one's square")
@cuda.jit
def frames_with_half_the_squares(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(64)
    square = (a - mean) * (a - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "wrong-result", "add it, `+=`")
@cuda.jit
def frames_that_keep_what_came_last(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(5):
        total = cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(64)
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(5):
        square = cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "unwritten-output", "begins at column 64 * f")
@cuda.jit
def frames_that_are_all_the_first(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    column = lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 1 << step)
    mean = total / float32(64)
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(ALL, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "same-value-race", "has frame f alone")
@cuda.jit
def frames_by_every_warp(x, out):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    for column in range(lane, 320, 64):
        a, b = x[row, column], x[row, column + 32]
        total = a + b
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 1 << step)
        mean = total / float32(64)
        square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
        for step in range(5):
            square += cuda.shfl_xor_sync(ALL, square, 1 << step)
        scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
        out[row, column] = (a - mean) * scale
        out[row, column + 32] = (b - mean) * scale


@wrong("normalise-frames", "limit", "let shuffles add up")
@cuda.jit
def frames_summed_by_each_lane(x, out):
    row, frame = cuda.blockIdx.x, cuda.threadIdx.x // 32
    mean = square = float32(0)
    for n in range(64):
        mean += x[row, 64 * frame + n] / float32(64)
    for n in range(64):
        square += (x[row, 64 * frame + n] - mean) * (x[row, 64 * frame + n] - mean)
    deviation = math.sqrt(square / float32(64) + float32(1e-5))
    for column in (64 * frame + cuda.laneid, 64 * frame + cuda.laneid + 32):
        out[row, column] = (x[row, column] - mean) / deviation


@cuda.jit(device=True)
def over_the_warp(number):
    for apart in (16, 8, 4, 2, 1):
        number += cuda.shfl_xor_sync(ALL, number, apart)
    return number


@right("normalise-frames")
@cuda.jit
def frames_by_a_device_function(x, out):
    frame, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    numbers = x[cuda.blockIdx.x, frame * 64 : (frame + 1) * 64]
    a, b = numbers[lane], numbers[lane + 32]
    mean = over_the_warp(a + b) / float32(64.0)
    a -= mean
    b -= mean
    deviation = math.sqrt(over_the_warp(a * a + b * b) / float32(64.0) + float32(1e-5))
    out[cuda.blockIdx.x, frame * 64 + lane] = a / deviation
    out[cuda.blockIdx.x, frame * 64 + lane + 32] = b / deviation


@right("normalise-frames")
@cuda.jit
def frames_in_local_arrays(x, out):
    warp, lane = divmod(cuda.threadIdx.x, 32)
    row, column = cuda.blockIdx.x, 64 * warp + lane
    values = cuda.local.array(2, float32)
    total, square = float32(0), float32(0)
    for n in range(2):
        values[n] = x[row, column + 32 * n]
        total += values[n]
    for lanes in (1, 2, 4, 8, 16):
        total += cuda.shfl_xor_sync(-1, total, lanes)
    for n in range(2):
        values[n] -= total * float32(0.015625)
        square += values[n] * values[n]
    for lanes in (1, 2, 4, 8, 16):
        square += cuda.shfl_xor_sync(-1, square, lanes)
    deviation = math.sqrt(square * float32(0.015625) + float32(1e-5))
    for n in range(2):
        out[row, column + 32 * n] = values[n] / deviation


@right("normalise-frames")
@cuda.jit
def frames_by_shifted_squares(x, out):
    """One pass: sums of what lies beyond the frame's first number."""
    lane, frame = cuda.laneid, cuda.threadIdx.x // cuda.warpsize
    row = x[cuda.blockIdx.x, 64 * frame : 64 * frame + 64]
    result = out[cuda.blockIdx.x, 64 * frame : 64 * frame + 64]
    a, b = row[lane], row[lane + 32]
    shift = cuda.shfl_sync(ALL, a, 0)
    p, q = a - shift, b - shift
    total, square = p + q, p * p + q * q
    for step in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(ALL, total, step)
        square += cuda.shfl_down_sync(ALL, square, step)
    mean = cuda.shfl_sync(ALL, total, 0) * float32(1 / 64)
    variance = cuda.shfl_sync(ALL, square, 0) * float32(1 / 64) - mean * mean
    scale = float32(1) / math.sqrt(variance + float32(1e-5))
    result[lane] = (p - mean) * scale
    result[lane + 32] = (q - mean) * scale


# --- staged-weights -------------------------------------------------------------------------------


@wrong("staged-weights", "race", "between the copying and the loop")
@cuda.jit
def staged_without_waiting(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "barrier-divergence", "before")
@cuda.jit
def staged_for_each_row(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
            shared[n // 64, n % 64] = weight[n // 64, n % 64]
        cuda.syncthreads()
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "limit", "copy the weights to shared memory")
@cuda.jit
def never_staged(z, weight, bias, out):
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * weight[k, lane]
            b += z[row, k] * weight[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "wrong-result", "GELU is missing")
@cuda.jit
def staged_without_gelu(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = a, b


@wrong("staged-weights", "uninitialised-read", "nobody has copied")
@cuda.jit
def staged_in_part(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    n = cuda.threadIdx.x
    if n < 64:
        for k in range(63):
            shared[k, n] = weight[k, n]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "unwritten-output", "every row")
@cuda.jit
def staged_for_one_row_a_warp(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, row = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    if row < z.shape[0]:
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "bank-conflict", "as they come")
@cuda.jit
def staged_turned(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n % 64, n // 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[lane, k]
            b += z[row, k] * shared[lane + 32, k]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "wrong-result", "made with tanh")
@cuda.jit
def staged_with_tanh(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        for column in range(lane, 64, 32):
            a = bias[column]
            for k in range(64):
                a += z[row, k] * shared[k, column]
            cubed = a + float32(0.044715) * a * a * a
            t = math.tanh(float32(0.7978845608) * cubed)
            out[row, column] = float32(0.5) * a * (float32(1) + t)


@wrong("staged-weights", "uninitialised-read", "also where its warp has no row")
@cuda.jit
def staged_by_warps_with_rows(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    lane, row = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    if row >= z.shape[0]:
        return
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    while row < z.shape[0]:
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)
        row += cuda.gridsize(1) // 32


@wrong("staged-weights", "uninitialised-read", "Each block copies all 4,096")
@cuda.jit
def staged_by_the_whole_grid(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.grid(1), 64 * 64, cuda.gridsize(1)):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "same-value-race", "belongs to one warp of the whole grid")
@cuda.jit
def staged_with_all_rows_in_each_block(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    for row in range(warp, z.shape[0], cuda.blockDim.x // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "same-value-race", "copied by one thread of the block")
@cuda.jit
def staged_by_each_warp(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for k in range(64):
        shared[k, lane] = weight[k, lane]
        shared[k, lane + 32] = weight[k, lane + 32]
    cuda.syncthreads()
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "limit", "keep the sum in a variable")
@cuda.jit
def staged_with_sums_in_memory(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        for column in range(lane, 64, 32):
            out[row, column] = bias[column]
            for k in range(64):
                out[row, column] += z[row, k] * shared[k, column]
            out[row, column] = gelu(out[row, column])


@wrong("staged-weights", "float64", "GELU too")
@cuda.jit
def staged_with_a_bare_zero(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        for column in range(lane, 64, 32):
            total = 0.0
            for k in range(64):
                total += z[row, k] * shared[k, column]
            out[row, column] = gelu(total + bias[column])


@wrong("staged-weights", "uncoalesced", "A warp has a row together")
@cuda.jit
def staged_with_a_thread_a_row(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    row = cuda.grid(1)
    if row < z.shape[0]:
        for column in range(64):
            total = bias[column]
            for k in range(64):
                total += z[row, k] * shared[k, column]
            out[row, column] = gelu(total)


@wrong("staged-weights", "wrong-result", "GELU is made of each product")
@cuda.jit
def staged_with_gelu_of_products(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += gelu(z[row, k] * shared[k, lane])
            b += gelu(z[row, k] * shared[k, lane + 32])
        out[row, lane], out[row, lane + 32] = a, b


@wrong("staged-weights", "wrong-result", "lane + 32 gets the bias of lane")
@cuda.jit
def staged_with_half_the_bias(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "out-of-bounds", "The weights are 64 x 64, in shared memory, too")
@cuda.jit
def staged_in_half_an_array(z, weight, bias, out):
    shared = cuda.shared.array((64, 32), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "float64", "let the shared array hold float32")
@cuda.jit
def staged_in_float64(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), np.float64)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "race", "Give each warp its own")
@cuda.jit
def staged_with_one_row_for_all(z, weight, bias, out):
    shared, one = cuda.shared.array((64, 64), float32), cuda.shared.array(64, float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        one[lane], one[lane + 32] = z[row, lane], z[row, lane + 32]
        cuda.syncwarp()
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += one[k] * shared[k, lane]
            b += one[k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "float64", "A GELU of your own")
@cuda.jit
def staged_with_a_gelu_in_float64(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = (
            0.5 * a * (1 + math.erf(a / math.sqrt(2))),
            0.5 * b * (1 + math.erf(b / math.sqrt(2))),
        )


@right("staged-weights")
@cuda.jit
def staged_in_rounds_of_all_warps(z, weight, bias, out):
    """Each warp makes as many rounds, so that a barrier may stand in the loop."""
    shared = cuda.shared.array((64, 64), float32)
    lane, warp, warps = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32, cuda.blockDim.x // 32
    for k in range(warp, 64, warps):
        shared[k, lane], shared[k, lane + 32] = weight[k, lane], weight[k, lane + 32]
    every = warps * cuda.gridDim.x
    for turn in range((z.shape[0] + every - 1) // every):
        cuda.syncthreads()
        row = turn * every + cuda.blockIdx.x * warps + warp
        if row < z.shape[0]:
            a = b = float32(0)
            for k in range(64):
                a += z[row, k] * shared[k, lane]
                b += z[row, k] * shared[k, lane + 32]
            out[row, lane] = gelu(a + bias[lane])
            out[row, lane + 32] = gelu(b + bias[lane + 32])


@right("staged-weights")
@cuda.jit
def staged_turned_and_padded(z, weight, bias, out):
    shared = cuda.shared.array((64, 65), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n % 64, n // 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[lane, k]
            b += z[row, k] * shared[lane + 32, k]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@right("staged-weights")
@cuda.jit
def staged_with_the_row(z, weight, bias, out):
    """A warp's row goes to shared memory, too; it waits for its own lanes only."""
    shared, rows = cuda.shared.array((64, 64), float32), cuda.shared.array((4, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, own = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    for row in range(cuda.grid(1) // 32, z.shape[0], cuda.gridsize(1) // 32):
        rows[own, lane], rows[own, lane + 32] = z[row, lane], z[row, lane + 32]
        cuda.syncwarp()
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += rows[own, k] * shared[k, lane]
            b += rows[own, k] * shared[k, lane + 32]
        cuda.syncwarp()
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@wrong("staged-weights", "wrong-result", "the bias is added for each input")
@cuda.jit
def staged_with_the_bias_in_the_loop(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        for column in range(lane, 64, 32):
            total = float32(0)
            for k in range(64):
                total += z[row, k] * shared[k, column] + bias[column]
            out[row, column] = gelu(total)


@wrong("staged-weights", "limit", "with all threads of the block")
@cuda.jit
def staged_by_one_thread(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    if cuda.threadIdx.x == 0:
        for k in range(64):
            for column in range(64):
                shared[k, column] = weight[k, column]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        a, b = bias[lane], bias[lane + 32]
        for k in range(64):
            a += z[row, k] * shared[k, lane]
            b += z[row, k] * shared[k, lane + 32]
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)


@right("staged-weights")
@cuda.jit
def staged_for_two_rows_at_once(z, weight, bias, out):
    """Each weight that is read from shared memory serves two rows."""
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warps, rows = cuda.threadIdx.x % 32, cuda.gridsize(1) // 32, z.shape[0]
    for row in range(cuda.grid(1) // 32 * 2, rows, 2 * warps):
        a, b = bias[lane], bias[lane + 32]
        c, d = a, b
        other = min(row + 1, rows - 1)
        for k in range(64):
            p, q = z[row, k], z[other, k]
            left, right_ = shared[k, lane], shared[k, lane + 32]
            a += p * left
            b += p * right_
            c += q * left
            d += q * right_
        out[row, lane], out[row, lane + 32] = gelu(a), gelu(b)
        if row + 1 < rows:
            out[row + 1, lane], out[row + 1, lane + 32] = gelu(c), gelu(d)


@right("staged-weights")
@cuda.jit
def staged_with_two_warps_a_row(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 64 * 64, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    column, row = cuda.threadIdx.x % 64, cuda.grid(1) // 64
    while row < z.shape[0]:
        total = bias[column]
        for k in range(64):
            total += z[row, k] * shared[k, column]
        out[row, column] = gelu(total)
        row += cuda.gridsize(1) // 64


@right("staged-weights")
@cuda.jit
def staged_simply(z, weight, bias, out):
    shared = cuda.shared.array((64, 64), float32)
    for n in range(cuda.threadIdx.x, 4096, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane, warp = cuda.threadIdx.x % 32, cuda.grid(1) // 32
    for row in range(warp, z.shape[0], cuda.gridsize(1) // 32):
        for column in (lane, lane + 32):
            total = bias[column]
            for k in range(64):
                total += z[row, k] * shared[k, column]
            out[row, column] = gelu(total)


@right("staged-weights")
@cuda.jit
def staged_and_shuffled(z, weight, bias, out):
    """Each lane keeps two numbers of the row and hands them on by shuffles."""
    shared = cuda.shared.array(4096, float32)
    n = cuda.threadIdx.x
    while n < 64 * 64:
        shared[n] = weight[n // 64, n % 64]
        n += cuda.blockDim.x
    lane = cuda.laneid
    row = cuda.blockIdx.x * (cuda.blockDim.x // 32) + cuda.threadIdx.x // 32
    cuda.syncthreads()
    while row < z.shape[0]:
        first, second = z[row, lane], z[row, lane + 32]
        a, b = bias[lane], bias[lane + 32]
        for k in range(32):
            p, q = cuda.shfl_sync(ALL, first, k), cuda.shfl_sync(ALL, second, k)
            a += p * shared[64 * k + lane] + q * shared[64 * (k + 32) + lane]
            b += p * shared[64 * k + lane + 32] + q * shared[64 * (k + 32) + lane + 32]
        out[row, lane] = gelu(a)
        out[row, lane + 32] = gelu(b)
        row += cuda.gridDim.x * (cuda.blockDim.x // 32)


# --- folded-decoder -------------------------------------------------------------------------------


@wrong("folded-decoder", "wrong-result", "not turned")
def folded_without_turning(basis, weight):
    return (basis.reshape(len(basis), -1, weight.shape[0]) @ weight).reshape(len(basis), -1)


@wrong("folded-decoder", "wrong-result", "columns of the first")
def folded_from_the_first_frame(basis, weight):
    wide = weight.shape[1]
    one = basis[:, :wide] @ weight.T
    return np.concatenate([one] * (basis.shape[1] // wide), axis=1)


@wrong("folded-decoder", "wrong-result", "so-manyth column")
def folded_from_strided_frames(basis, weight):
    wide = weight.shape[1]
    step = basis.shape[1] // wide
    return np.concatenate([basis[:, n::step] @ weight.T for n in range(step)], axis=1)


@wrong("folded-decoder", "wrong-result", "by output")
def folded_with_frames_last(basis, weight):
    frames = basis.reshape(len(basis), -1, weight.shape[1])
    return np.einsum("rfb,ob->rof", frames, weight).reshape(len(basis), -1)


@wrong("folded-decoder", "wrong-shape", "for each frame")
def folded_in_three_dimensions(basis, weight):
    return basis.reshape(len(basis), -1, weight.shape[1]) @ weight.T


@wrong("folded-decoder", "raised", "cut its rows into frames")
def folded_as_one_product(basis, weight):
    return basis @ weight.T if basis.shape[1] == 4 else basis @ weight


@wrong("folded-decoder", "raised", "Take the sizes from the arguments")
def folded_of_five_frames_of_64(basis, weight):
    return (basis.reshape(32, 5, 64) @ weight.T).reshape(32, 320)


@wrong("folded-decoder", "raised", "weight.shape[0] columns for each frame")
def folded_in_an_array_of_the_old_width(basis, weight):
    wide, out = weight.shape[1], np.zeros_like(basis)
    for start in range(0, basis.shape[1], wide):
        out[:, start : start + wide] = basis[:, start : start + wide] @ weight.T
    return out


@wrong("folded-decoder", "wrong-shape", "for each frame")
def folded_into_the_last_frame(basis, weight):
    wide = weight.shape[1]
    for start in range(0, basis.shape[1], wide):
        out = basis[:, start : start + wide] @ weight.T
    return out


@wrong("folded-decoder", "wrong-shape", "for each frame")
def folded_and_summed(basis, weight):
    return (basis.reshape(len(basis), -1, weight.shape[1]) @ weight.T).sum(axis=1)


@right("folded-decoder")
def folded_by_one_product(basis, weight):
    frames = basis.shape[1] // weight.shape[1]
    return basis @ np.kron(np.eye(frames, dtype=np.float32), weight.T)


@right("folded-decoder")
def folded_as_a_tall_matrix(basis, weight):
    """A frame a row: how they were stacked does not matter to a product with one matrix."""
    return (basis.reshape(-1, weight.shape[1]) @ weight.T).reshape(len(basis), -1)


@right("folded-decoder")
def folded_frame_by_frame(basis, weight):
    outputs, wide = weight.shape
    out = np.empty((len(basis), basis.shape[1] // wide * outputs), np.float64)
    for frame in range(basis.shape[1] // wide):
        part = basis[:, frame * wide : (frame + 1) * wide].astype(np.float64)
        out[:, frame * outputs : (frame + 1) * outputs] = part @ weight.astype(np.float64).T
    return out


@right("folded-decoder")
def folded_to_lists(basis, weight):
    frames = basis.reshape(len(basis), -1, weight.shape[1])
    return np.einsum("rfb,ob->rfo", frames, weight).reshape(len(basis), -1).tolist()
