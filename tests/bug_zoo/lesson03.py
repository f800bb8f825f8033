"""Wrong answers to the exercises of lesson 03 as students write them, and unusual right ones."""

from statistics import mean, median

import numpy as np

from bug_zoo import Answers
from course.occupancy import occupancy

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right

# --- time-a-launch ------------------------------------------------------------------------------


@wrong("time-a-launch", "wrong-result", "You launched 1 time:")
def time_once(launch, synchronize, clock):
    start = clock()
    launch()
    synchronize()
    return 1e3 * (clock() - start)


@wrong("time-a-launch", "wrong-result", "You timed the launch, not the work")
def time_without_waiting(launch, synchronize, clock):
    launch()
    synchronize()
    times = []
    for _ in range(20):
        start = clock()
        launch()
        times.append(1e3 * (clock() - start))
    return median(times)


@wrong("time-a-launch", "wrong-result", "That is seconds")
def time_in_seconds(launch, synchronize, clock):
    launch()
    times = []
    for _ in range(20):
        synchronize()
        start = clock()
        launch()
        synchronize()
        times.append(clock() - start)
    return median(times)


@wrong("time-a-launch", "wrong-result", "the median does not")
def time_by_mean(launch, synchronize, clock):
    launch()
    times = []
    for _ in range(21):
        synchronize()
        start = clock()
        launch()
        synchronize()
        times.append(1e3 * (clock() - start))
    return mean(times)


@wrong("time-a-launch", "wrong-result", "Compiling is in it")
def time_all_and_divide(launch, synchronize, clock):
    start = clock()
    for _ in range(20):
        launch()
    synchronize()
    return 1e3 * (clock() - start) / 20


@wrong("time-a-launch", "wrong-result", "the median does not")
def time_in_a_row_and_divide(launch, synchronize, clock):
    launch()
    synchronize()
    start = clock()
    for _ in range(21):
        launch()
    synchronize()
    return 1e3 * (clock() - start) / 21


@wrong("time-a-launch", "wrong-result", "the shortest of your samples")
def time_best_of_all(launch, synchronize, clock):
    launch()
    synchronize()
    times = []
    for _ in range(21):
        start = clock()
        launch()
        synchronize()
        times.append(1e3 * (clock() - start))
    return min(times)


@wrong("time-a-launch", "wrong-result", "Some of the work was not over")
def time_minus_launch_cost(launch, synchronize, clock):
    times = []
    for number in range(22):
        start = clock()
        launch()
        launched = clock()
        synchronize()
        if number:
            times.append(1e3 * (clock() - launched) - 10 * 1e3 * (launched - start))
    return median(times)


@wrong("time-a-launch", "wrong-result", "Return one number")
def time_all_samples(launch, synchronize, clock):
    launch()
    times = []
    for _ in range(20):
        synchronize()
        start = clock()
        launch()
        synchronize()
        times.append(1e3 * (clock() - start))
    return times


@wrong("time-a-launch", "raised", "a million times")
def time_waits_for_the_clock(launch, synchronize, clock):
    launch()
    start = clock()
    while clock() - start < 1:
        pass
    return 1e3 * (clock() - start)


@right("time-a-launch")
def time_for_a_while(launch, synchronize, clock):
    for _ in range(3):
        launch()
    synchronize()
    begin, times = clock(), []
    while len(times) < 9 or clock() - begin < 0.2:
        synchronize()
        start = clock()
        launch()
        synchronize()
        times.append(clock() - start)
    return np.median(times) * 1e3


@right("time-a-launch")
def time_with_all_and_the_first(launch, synchronize, clock):
    times = []
    for _ in range(30):
        synchronize()
        start = clock()
        launch()
        synchronize()
        times.append(1e3 * (clock() - start))
    return sorted(times)[len(times) // 2]


# --- needed-factors -----------------------------------------------------------------------------


@wrong("needed-factors", "wrong-result", "That is the whole factor")
def factors_whole(u, s, vt, k):
    return u.astype(np.float32), s.astype(np.float32), vt.astype(np.float32)


@wrong("needed-factors", "wrong-result", "u is float64, not float32")
def factors_in_float64(u, s, vt, k):
    return np.ascontiguousarray(u[:, :k]), s[:k].copy(), vt[:k].copy()


@wrong("needed-factors", "wrong-result", "u is a view of a larger array")
def factors_as_views(u, s, vt, k):
    return u.astype(np.float32)[:, :k], s.astype(np.float32)[:k], vt.astype(np.float32)[:k]


@wrong("needed-factors", "wrong-result", "lies column by column")
def factors_keep_their_order(u, s, vt, k):
    return tuple(part.astype(np.float32) for part in (u[:, :k], s[:k], vt[:k]))


@wrong("needed-factors", "wrong-result", "vt has the shape (8, 3)")
def factors_columns_of_vt(u, s, vt, k):
    return tuple(
        np.ascontiguousarray(part, dtype=np.float32) for part in (u[:, :k], s[:k], vt[:, :k])
    )


@wrong("needed-factors", "wrong-result", "u has other values")
def factors_with_s_inside(u, s, vt, k):
    parts = (u[:, :k] * s[:k], s[:k], vt[:k])
    return tuple(np.ascontiguousarray(part, dtype=np.float32) for part in parts)


@right("needed-factors")
def factors_by_np_array(u, s, vt, k):
    return [np.array(part, dtype="f4", order="C") for part in (u[:, :k], s[:k], vt[:k, :])]


@right("needed-factors")
def factors_by_filling(u, s, vt, k):
    rooms = np.empty((len(u), k), np.float32), np.empty(k, np.float32), None
    rooms[0][:], rooms[1][:] = u[:, :k], s[:k]
    return rooms[0], rooms[1], vt[:k].astype(np.float32)


# --- effective-rates ----------------------------------------------------------------------------


@wrong("effective-rates", "wrong-result", "the image that is written is left out")
def rates_without_image(rows, columns, k, milliseconds):
    moved = 4 * (rows * k + k + k * columns)
    return moved / milliseconds / 1e6, 2 * rows * columns * k / moved


@wrong("effective-rates", "wrong-result", "you count numbers, not bytes")
def rates_of_numbers(rows, columns, k, milliseconds):
    moved = rows * k + k + k * columns + rows * columns
    return moved / milliseconds / 1e6, 2 * rows * columns * k / moved


@wrong("effective-rates", "wrong-result", "you took it as seconds")
def rates_in_seconds(rows, columns, k, milliseconds):
    moved = 4 * (rows * k + k + k * columns + rows * columns)
    return moved / milliseconds / 1e9, 2 * rows * columns * k / moved


@wrong("effective-rates", "wrong-result", "GB are 10⁹")
def rates_in_gib(rows, columns, k, milliseconds):
    moved = 4 * (rows * k + k + k * columns + rows * columns)
    return moved / (milliseconds / 1e3) / 2**30, 2 * rows * columns * k / moved


@wrong("effective-rates", "wrong-result", "one operation for each pixel and layer")
def rates_of_steps(rows, columns, k, milliseconds):
    moved = 4 * (rows * k + k + k * columns + rows * columns)
    return moved / milliseconds / 1e6, rows * columns * k / moved


@wrong("effective-rates", "wrong-result", "every load of every thread is counted")
def rates_of_every_load(rows, columns, k, milliseconds):
    moved = 4 * rows * columns * (3 * k + 1)
    return moved / milliseconds / 1e6, 2 * rows * columns * k / moved


@wrong("effective-rates", "wrong-result", "Return two values")
def rates_one(rows, columns, k, milliseconds):
    return 4 * (rows * k + k + k * columns + rows * columns) / milliseconds / 1e6


@right("effective-rates")
def rates_with_the_scaling(rows, columns, k, milliseconds):
    moved = 4 * (k * (rows + columns + 1) + rows * columns)
    return np.array([moved / 1e9 / (milliseconds / 1e3), rows * columns * k * 2 / moved]).tolist()


# --- least-time ---------------------------------------------------------------------------------


@wrong("least-time", "wrong-result", "you add the two times")
def least_by_sum(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth / 1e6, operations / rate / 1e9
    return memory + arithmetic, "memory" if memory > arithmetic else "arithmetic"


@wrong("least-time", "wrong-result", "the shorter of the two")
def least_by_min(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth / 1e6, operations / rate / 1e9
    return min(memory, arithmetic), "memory" if memory > arithmetic else "arithmetic"


@wrong("least-time", "wrong-result", "you return seconds")
def least_in_seconds(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth / 1e9, operations / rate / 1e12
    return max(memory, arithmetic), "memory" if memory > arithmetic else "arithmetic"


@wrong("least-time", "wrong-result", "you look at the memory only")
def least_of_memory(bytes, operations, bandwidth, rate):
    return bytes / bandwidth / 1e6, "memory"


@wrong("least-time", "wrong-result", "TFLOP/s are taken for GFLOP/s")
def least_in_gflops(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth / 1e6, operations / rate / 1e6
    return max(memory, arithmetic), "memory" if memory > arithmetic else "arithmetic"


@wrong("least-time", "wrong-result", "the names have changed places")
def least_with_swapped_names(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth / 1e6, operations / rate / 1e9
    return max(memory, arithmetic), "memory" if memory < arithmetic else "arithmetic"


@right("least-time")
def least_by_ridge(bytes, operations, bandwidth, rate):
    if operations / bytes > rate * 1e3 / bandwidth:
        return operations / (rate * 1e12) * 1e3, "arithmetic"
    return bytes / (bandwidth * 1e9) * 1e3, "memory"


# --- impossible-figures -------------------------------------------------------------------------


@wrong("impossible-figures", "wrong-result", "'my matmul'", "not in your list")
def impossible_by_memory(figures, bandwidth, rate):
    return [name for name, count, _, ms in figures if count / ms / 1e6 > bandwidth]


@wrong("impossible-figures", "wrong-result", "'fast copy'", "not in your list")
def impossible_by_arithmetic(figures, bandwidth, rate):
    return [name for name, _, operations, ms in figures if operations / ms / 1e9 > rate]


@wrong("impossible-figures", "wrong-result", "'fast copy'", "not in your list")
def impossible_in_both(figures, bandwidth, rate):
    return [n for n, b, f, ms in figures if b / ms / 1e6 > bandwidth and f / ms / 1e9 > rate]


@wrong("impossible-figures", "wrong-result", "It is possible, but in your list")
def impossible_if_slow(figures, bandwidth, rate):
    return [
        n for n, b, f, ms in figures if b / ms / 1e6 < bandwidth / 10 or b / ms / 1e6 > bandwidth
    ]


@wrong("impossible-figures", "wrong-result", "It is possible, but in your list")
def impossible_in_seconds(figures, bandwidth, rate):
    return [n for n, b, f, ms in figures if b / ms / 1e3 > bandwidth or f / ms / 1e9 > rate]


@wrong("impossible-figures", "wrong-result", "none of the names")
def impossible_by_number(figures, bandwidth, rate):
    return [i for i, (_, b, f, ms) in enumerate(figures) if b / ms / 1e6 > bandwidth]


@right("impossible-figures")
def impossible_as_a_set(figures, bandwidth, rate):
    found = set()
    for name, count, operations, milliseconds in figures:
        least = max(count / bandwidth / 1e6, operations / rate / 1e9)
        if milliseconds < least:
            found.add(name)
    return found


# --- fullest-block ------------------------------------------------------------------------------


@wrong("fullest-block", "wrong-result", "16 warps", "There is a size that gives 28")
def block_of_1024_or_half(registers, shared):
    return 32 if registers > 64 else 1024


@wrong(
    "fullest-block",
    "wrong-result",
    "No block of 1024 threads can start: too much is asked of registers",
)
def block_always_1024(registers, shared):
    return 1024


@wrong("fullest-block", "wrong-result", "24 warps", "There is a size that gives 28")
def block_always_256(registers, shared):
    return 256


@wrong("fullest-block", "wrong-result", "limited by shared memory")
def block_without_shared(registers, shared):
    return max(range(32, 1025, 32), key=lambda n: occupancy("T4", n, registers, 0).warps)


@wrong("fullest-block", "wrong-result", "There is a size that gives|can start")
def block_with_shared_of_a_thread(registers, shared):
    sizes = range(32, 1025, 32)
    return max(reversed(sizes), key=lambda n: occupancy("T4", n, registers, shared).warps)


@wrong("fullest-block", "wrong-result", "whole warps")
def block_of_warps(registers, shared):
    return max(occupancy("T4", n, registers, shared * n).warps for n in range(32, 1025, 32)) - 1


@wrong("fullest-block", "wrong-result", "Return one whole number")
def block_with_its_shape(registers, shared):
    return (16, 16)


@right("fullest-block")
def block_largest_of_the_best(registers, shared):
    best, warps = 32, 0
    for threads in range(32, 1025, 32):
        found = occupancy("T4", threads, registers, threads * shared)
        if found.fraction >= warps:
            best, warps = threads, found.fraction
    return best


# --- crossing -----------------------------------------------------------------------------------


def times_of(n, cpu, gpu, link, start, moved):
    k = n // 8
    operations = 2 * n * n * k
    on_gpu = start + moved(n, k) / link / 1e6 + operations / gpu / 1e6
    return operations / cpu / 1e6, on_gpu


def first_where(sizes, *rates, moved):
    for n in sizes:
        on_cpu, on_gpu = times_of(n, *rates, moved)
        if on_gpu < on_cpu:
            return n
    return 0


@wrong("crossing", "wrong-result", "the copies are left out")
def crossing_without_copies(sizes, cpu, gpu, link, start):
    return first_where(sizes, cpu, gpu, link, start, moved=lambda n, k: 0)


@wrong("crossing", "wrong-result", "the copy back of the image is left out")
def crossing_without_the_way_back(sizes, cpu, gpu, link, start):
    return first_where(sizes, cpu, gpu, link, start, moved=lambda n, k: 4 * (2 * n * k + k))


@wrong("crossing", "wrong-result", "the whole factors are copied")
def crossing_with_whole_factors(sizes, cpu, gpu, link, start):
    return first_where(sizes, cpu, gpu, link, start, moved=lambda n, k: 4 * (3 * n * n + n))


@wrong("crossing", "wrong-result", "milliseconds and seconds are mixed")
def crossing_with_start_in_seconds(sizes, cpu, gpu, link, start):
    needed = lambda n, k: 4 * (2 * n * k + k + n * n)  # noqa: E731
    return first_where(sizes, cpu, gpu, link, 1000 * start, moved=needed)


@wrong("crossing", "wrong-result", "you compare the rates alone")
def crossing_by_rates(sizes, cpu, gpu, link, start):
    return next((n for n in sizes if gpu > cpu), 0)


@wrong("crossing", "wrong-result", "returns None")
def crossing_none_where_there_is_none(sizes, cpu, gpu, link, start):
    needed = lambda n, k: 4 * (2 * n * k + k + n * n)  # noqa: E731
    return first_where(sizes, cpu, gpu, link, start, moved=needed) or None


@right("crossing")
def crossing_in_seconds(sizes, cpu, gpu, link, start):
    n = np.array(sizes, dtype=np.float64)
    k = n // 8
    work, data = 2 * n**2 * k, 4 * (n * n + 2 * n * k + k)
    wins = start / 1e3 + data / (link * 1e9) + work / (gpu * 1e9) < work / (cpu * 1e9)
    return int(n[wins.argmax()]) if wins.any() else 0
