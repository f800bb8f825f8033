"""Wrong answers to the exercises of lesson 03 as students write them, and unusual right ones."""

from statistics import mean, median
from time import perf_counter

import numpy as np

from bug_zoo import Answers
from course.occupancy import occupancy
from course.toy_gpu import ToyGPU

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right

# --- time-a-launch ------------------------------------------------------------------------------


@wrong("time-a-launch", "wrong-result", "You launched 1 time. Needed are")
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


def samples_of(launch, synchronize, clock, count=13):
    """Right samples [s], for answers that go wrong after them."""
    launch()
    samples = []
    for _ in range(count):
        synchronize()
        start = clock()
        launch()
        synchronize()
        samples.append(clock() - start)
    return samples


@wrong("time-a-launch", "wrong-result", "That is µs")
def time_in_microseconds(launch, synchronize, clock):
    return 1e6 * median(samples_of(launch, synchronize, clock))


@wrong("time-a-launch", "wrong-result", "You divided")
def time_divided_by_1000(launch, synchronize, clock):
    return median(samples_of(launch, synchronize, clock)) / 1000


@wrong("time-a-launch", "wrong-result", "below 0")
def time_earlier_minus_later(launch, synchronize, clock):
    return -1e3 * median(samples_of(launch, synchronize, clock))


@wrong("time-a-launch", "wrong-result", "rounded to whole ms")
def time_in_whole_ms(launch, synchronize, clock):
    return median(int(1e3 * sample) for sample in samples_of(launch, synchronize, clock))


@wrong("time-a-launch", "wrong-result", "That is one of your samples")
def time_in_the_middle_of_the_unsorted(launch, synchronize, clock):
    samples = samples_of(launch, synchronize, clock)
    return 1e3 * samples[len(samples) // 2]


@wrong("time-a-launch", "wrong-result", "the shortest of your samples")
def time_half_a_percentile(launch, synchronize, clock):
    return 1e3 * np.percentile(samples_of(launch, synchronize, clock), 0.5)


@wrong("time-a-launch", "wrong-result", "the longest of your samples")
def time_worst_of_all(launch, synchronize, clock):
    return 1e3 * max(samples_of(launch, synchronize, clock))


TOY = ToyGPU()  # as the lesson's own, which stands in the notebook when a student writes


@wrong("time-a-launch", "wrong-result", "never called", "not another toy's")
def time_of_the_toy_at_hand(launch, synchronize, clock):
    return 1e3 * median(samples_of(TOY.launch, TOY.synchronize, TOY.clock))


@wrong("time-a-launch", "wrong-result", "Return one number", "got '2.04 ms'")
def time_as_text(launch, synchronize, clock):
    return f"{1e3 * median(samples_of(launch, synchronize, clock)):.2f} ms"


@wrong("time-a-launch", "wrong-result", "Your result is nan. Was the list of samples empty?")
def time_of_no_samples(launch, synchronize, clock):
    samples_of(launch, synchronize, clock)
    return float("nan")  # what np.median makes of []


@wrong("time-a-launch", "wrong-result", "Return one number", "got 2 values")
def time_with_its_samples(launch, synchronize, clock):
    samples = samples_of(launch, synchronize, clock)
    return 1e3 * median(samples), samples


@wrong("time-a-launch", "wrong-result", "That is all launches together")
def time_in_a_row_undivided(launch, synchronize, clock):
    launch()
    synchronize()
    start = clock()
    for _ in range(20):
        launch()
    synchronize()
    return 1e3 * (clock() - start)


@wrong("time-a-launch", "wrong-result", "That is 2 launches")
def time_with_the_warm_up_in_each_sample(launch, synchronize, clock):
    times = []
    for _ in range(13):
        synchronize()
        start = clock()
        launch()
        launch()
        synchronize()
        times.append(1e3 * (clock() - start))
    return median(times)


@wrong("time-a-launch", "wrong-result", "no difference of two readings", "brackets")
def time_without_brackets(launch, synchronize, clock):
    launch()
    times = []
    for _ in range(20):
        synchronize()
        start = clock()
        launch()
        synchronize()
        times.append(1000 * clock() - start)
    return median(times)


@wrong("time-a-launch", "wrong-result", "You never called clock()")
def time_by_another_clock(launch, synchronize, clock):
    return 1e3 * median(samples_of(launch, synchronize, perf_counter))


@wrong("time-a-launch", "wrong-result", "You timed the launch, not the work")
def time_with_synchronize_uncalled(launch, synchronize, clock):
    launch()
    times = []
    for _ in range(13):
        synchronize  # noqa: B018
        start = clock()
        launch()
        synchronize  # noqa: B018
        times.append(1e3 * (clock() - start))
    return median(times)


@wrong("time-a-launch", "wrong-result", "You launched 2 times", "behind the loop")
def time_returned_in_the_loop(launch, synchronize, clock):
    launch()
    for _ in range(13):
        synchronize()
        start = clock()
        launch()
        synchronize()
        return 1e3 * (clock() - start)


@wrong("time-a-launch", "wrong-result", "You launched 5 times")
def time_of_four(launch, synchronize, clock):
    return 1e3 * median(samples_of(launch, synchronize, clock, count=4))


@wrong("time-a-launch", "raised", "Line 4", "take no arguments; clock() gives seconds")
def time_with_clock_uncalled(launch, synchronize, clock):
    launch()
    start = clock
    return 1e3 * (clock - start)


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


@right("time-a-launch")
def time_between_stamps(launch, synchronize, clock):
    launch()
    synchronize()
    stamps = [clock()]
    for _ in range(15):
        launch()
        synchronize()
        stamps.append(clock())
    return 1e3 * float(np.median(np.diff(stamps)))


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


def as_float32(*parts):
    """Parts as they should travel, for answers that take other parts."""
    return tuple(np.ascontiguousarray(part, dtype=np.float32) for part in parts)


@wrong("needed-factors", "wrong-result", "These are rows of u")
def factors_rows_of_u(u, s, vt, k):
    return as_float32(u[:k], s[:k], vt[:k])


@wrong("needed-factors", "wrong-result", "These are rows of vt: return u, s, vt")
def factors_in_another_order(u, s, vt, k):
    return as_float32(vt[:k], s[:k], u[:, :k])


@wrong("needed-factors", "wrong-result", "It is turned")
def factors_with_u_turned(u, s, vt, k):
    return as_float32(u[:, :k].T, s[:k], vt[:k])


@wrong("needed-factors", "wrong-result", "s is no matrix")
def factors_with_a_diagonal(u, s, vt, k):
    return as_float32(u[:, :k], np.diag(s[:k]), vt[:k])


@wrong("needed-factors", "wrong-result", "s has the shape (8,)", "That is the whole factor")
def factors_with_all_of_s(u, s, vt, k):
    return as_float32(u[:, :k], s, vt[:k])


@wrong("needed-factors", "wrong-result", "u has the shape (8, 2); (8, 3) is needed")
def factors_one_too_few(u, s, vt, k):
    return as_float32(u[:, : k - 1], s[: k - 1], vt[: k - 1])


@wrong("needed-factors", "wrong-result", "u has other values than the first 3")
def factors_the_last(u, s, vt, k):
    return as_float32(u[:, -k:], s[-k:], vt[-k:])


@wrong("needed-factors", "wrong-result", "u is float16")
def factors_in_half(u, s, vt, k):
    return tuple(part.astype(np.float16, order="C") for part in (u[:, :k], s[:k], vt[:k]))


@wrong("needed-factors", "wrong-result", "lies column by column")
def factors_in_fortran_order(u, s, vt, k):
    return tuple(np.asfortranarray(part, np.float32) for part in (u[:, :k], s[:k], vt[:k]))


@wrong("needed-factors", "wrong-result", "got 2 values")
def factors_in_two(u, s, vt, k):
    return as_float32(u[:, :k] * s[:k], vt[:k])


@wrong("needed-factors", "wrong-result", "got one ndarray")
def factors_multiplied_out(u, s, vt, k):
    return np.ascontiguousarray((u[:, :k] * s[:k]) @ vt[:k], dtype=np.float32)


@wrong("needed-factors", "wrong-result", "u is no NumPy array")
def factors_as_lists(u, s, vt, k):
    return u[:, :k].tolist(), s[:k].tolist(), vt[:k].tolist()


@right("needed-factors")
def factors_by_np_array(u, s, vt, k):
    return [np.array(part, dtype="f4", order="C") for part in (u[:, :k], s[:k], vt[:k, :])]


@right("needed-factors")
def factors_by_filling(u, s, vt, k):
    rooms = np.empty((len(u), k), np.float32), np.empty(k, np.float32), None
    rooms[0][:], rooms[1][:] = u[:, :k], s[:k]
    return rooms[0], rooms[1], vt[:k].astype(np.float32)


@right("needed-factors")
def factors_copied_first(u, s, vt, k):
    return tuple(part.copy().astype(np.float32) for part in (u[:, :k], s[:k], vt[:k]))


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


def effective(moved, operations, milliseconds):
    return moved / milliseconds / 1e6, operations / moved


@wrong("effective-rates", "wrong-result", "the k numbers of s are left out")
def rates_without_s(rows, columns, k, milliseconds):
    moved = 4 * (rows * k + k * columns + rows * columns)
    return effective(moved, 2 * rows * columns * k, milliseconds)


@wrong("effective-rates", "wrong-result", "s is taken for a matrix of k × k")
def rates_with_a_diagonal(rows, columns, k, milliseconds):
    moved = 4 * (rows * k + k * k + k * columns + rows * columns)
    return effective(moved, 2 * rows * columns * k, milliseconds)


@wrong("effective-rates", "wrong-result", "the image is counted twice")
def rates_with_the_image_read(rows, columns, k, milliseconds):
    moved = 4 * (rows * k + k + k * columns + 2 * rows * columns)
    return effective(moved, 2 * rows * columns * k, milliseconds)


@wrong("effective-rates", "wrong-result", "the image is counted once for each layer")
def rates_with_the_image_at_each_layer(rows, columns, k, milliseconds):
    moved = 4 * (rows * k + k + k * columns + rows * columns * k)
    return effective(moved, 2 * rows * columns * k, milliseconds)


@wrong("effective-rates", "wrong-result", "put the sum in brackets")
def rates_without_brackets(rows, columns, k, milliseconds):
    moved = 4 * rows * k + k + k * columns + rows * columns
    return effective(moved, 2 * rows * columns * k, milliseconds)


@wrong("effective-rates", "wrong-result", "1000 x 700", "for a square one")
def rates_of_a_square(rows, columns, k, milliseconds):
    moved = 4 * (2 * rows * k + k + rows * rows)
    return effective(moved, 2 * rows * rows * k, milliseconds)


@wrong("effective-rates", "wrong-result", "you count bits")
def rates_of_bits(rows, columns, k, milliseconds):
    moved = 32 * (rows * k + k + k * columns + rows * columns)
    return effective(moved, 2 * rows * columns * k, milliseconds)


@wrong("effective-rates", "wrong-result", "8 bytes a number")
def rates_of_float64(rows, columns, k, milliseconds):
    moved = 8 * (rows * k + k + k * columns + rows * columns)
    return effective(moved, 2 * rows * columns * k, milliseconds)


def needed_bytes(rows, columns, k):
    return 4 * (rows * k + k + k * columns + rows * columns)


@wrong("effective-rates", "wrong-result", "you multiply by the time")
def rates_times_the_time(rows, columns, k, milliseconds):
    moved = needed_bytes(rows, columns, k)
    return moved / 1e9 * (milliseconds / 1e3), 2 * rows * columns * k / moved


@wrong("effective-rates", "wrong-result", "is 1000 times the right one", "1 GB = 10⁹ bytes")
def rates_in_megabytes(rows, columns, k, milliseconds):
    moved = needed_bytes(rows, columns, k)
    return moved / 1e6 / (milliseconds / 1e3), 2 * rows * columns * k / moved


@wrong("effective-rates", "wrong-result", "is 1e-06 times the right one")
def rates_with_ms_multiplied(rows, columns, k, milliseconds):
    moved = needed_bytes(rows, columns, k)
    return moved / 1e9 / (milliseconds * 1e3), 2 * rows * columns * k / moved


@wrong("effective-rates", "wrong-result", "you count three operations")
def rates_of_the_kernel_s_operations(rows, columns, k, milliseconds):
    return effective(needed_bytes(rows, columns, k), 3 * rows * columns * k, milliseconds)


@wrong("effective-rates", "wrong-result", "k is left out of the operations")
def rates_of_one_layer(rows, columns, k, milliseconds):
    return effective(needed_bytes(rows, columns, k), 2 * rows * columns, milliseconds)


@wrong("effective-rates", "wrong-result", "by numbers, not by bytes")
def rates_an_element(rows, columns, k, milliseconds):
    moved = needed_bytes(rows, columns, k)
    return moved / milliseconds / 1e6, 2 * rows * columns * k / (moved / 4)


@wrong("effective-rates", "wrong-result", "the intensity is upside down")
def rates_upside_down(rows, columns, k, milliseconds):
    moved = needed_bytes(rows, columns, k)
    return moved / milliseconds / 1e6, moved / (2 * rows * columns * k)


@wrong("effective-rates", "wrong-result", "the intensity has no time in it")
def rates_with_gflops(rows, columns, k, milliseconds):
    gflops = 2 * rows * columns * k / milliseconds / 1e6
    return needed_bytes(rows, columns, k) / milliseconds / 1e6, gflops


@wrong("effective-rates", "wrong-result", "10 is rounded")
def rates_rounded(rows, columns, k, milliseconds):
    both = effective(needed_bytes(rows, columns, k), 2 * rows * columns * k, milliseconds)
    return tuple(map(round, both))


@wrong("effective-rates", "wrong-result", "The two have changed places")
def rates_in_another_order(rows, columns, k, milliseconds):
    both = effective(needed_bytes(rows, columns, k), 2 * rows * columns * k, milliseconds)
    return both[::-1]


@right("effective-rates")
def rates_as_an_array(rows, columns, k, milliseconds):
    numbers = k * (rows + 1 + columns) + rows * columns
    return np.array([numbers / (milliseconds * 250_000), k * rows * columns / (2 * numbers)])


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


@wrong("least-time", "wrong-result", "the name is that of the shorter time")
def least_with_swapped_names(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth / 1e6, operations / rate / 1e9
    return max(memory, arithmetic), "memory" if memory < arithmetic else "arithmetic"


@wrong("least-time", "wrong-result", "the shorter of the two")
def least_by_min_with_its_name(bytes, operations, bandwidth, rate):
    return min((bytes / bandwidth / 1e6, "memory"), (operations / rate / 1e9, "arithmetic"))


@wrong("least-time", "wrong-result", "you look at the arithmetic only")
def least_of_arithmetic(bytes, operations, bandwidth, rate):
    return operations / rate / 1e9, "arithmetic"


@wrong("least-time", "wrong-result", "a softmax", "the name is that of the shorter time")
def least_with_bytes_against_operations(bytes, operations, bandwidth, rate):
    longer = max(bytes / bandwidth / 1e6, operations / rate / 1e9)
    return longer, "memory" if bytes > operations else "arithmetic"


@wrong("least-time", "wrong-result", "the name is that of the shorter time")
def least_with_a_ridge_in_other_units(bytes, operations, bandwidth, rate):
    longer = max(bytes / bandwidth / 1e6, operations / rate / 1e9)
    return longer, "memory" if operations / bytes < rate / bandwidth else "arithmetic"


@wrong("least-time", "raised", "Line 3", "A copy has 0 operations")
def least_by_bytes_an_operation(bytes, operations, bandwidth, rate):
    longer = max(bytes / bandwidth / 1e6, operations / rate / 1e9)
    return longer, "memory" if bytes / operations > bandwidth / rate / 1e3 else "arithmetic"


@wrong("least-time", "wrong-result", "you return µs")
def least_in_microseconds(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth / 1e3, operations / rate / 1e6
    return max(memory, arithmetic), "memory" if memory > arithmetic else "arithmetic"


@wrong("least-time", "wrong-result", "one of the two times is in seconds")
def least_with_memory_in_seconds(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth / 1e9, operations / rate / 1e9
    return max(memory, arithmetic), "memory" if memory > arithmetic else "arithmetic"


@wrong("least-time", "wrong-result", "a copy", "GB are 10⁹")
def least_in_gib(bytes, operations, bandwidth, rate):
    memory, arithmetic = 1e3 * bytes / (bandwidth * 2**30), operations / rate / 1e9
    return max(memory, arithmetic), "memory" if memory > arithmetic else "arithmetic"


@wrong("least-time", "wrong-result", "1e+09 times the right one", "1 TFLOP = 10¹²")
def least_without_units(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth, operations / rate
    return max(memory, arithmetic), "memory" if memory > arithmetic else "arithmetic"


@wrong("least-time", "wrong-result", "each operation is counted twice")
def least_with_operations_doubled(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth / 1e6, 2 * operations / rate / 1e9
    return max(memory, arithmetic), "memory" if memory > arithmetic else "arithmetic"


@wrong("least-time", "wrong-result", "0.27 is rounded")
def least_rounded(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth / 1e6, operations / rate / 1e9
    return round(max(memory, arithmetic), 2), "memory" if memory > arithmetic else "arithmetic"


@wrong("least-time", "wrong-result", "'compute' is none of 'memory', 'arithmetic'")
def least_in_other_words(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth / 1e6, operations / rate / 1e9
    return max(memory, arithmetic), "memory" if memory > arithmetic else "compute"


@wrong("least-time", "wrong-result", "is none of 'memory', 'arithmetic'")
def least_both_times(bytes, operations, bandwidth, rate):
    return bytes / bandwidth / 1e6, operations / rate / 1e9


@wrong("least-time", "wrong-result", "is none of 'memory', 'arithmetic'")
def least_with_both_times(bytes, operations, bandwidth, rate):
    times = np.array([bytes / bandwidth / 1e6, operations / rate / 1e9])
    return times.max(), times


@wrong("least-time", "wrong-result", "inf is no figure")
def least_over_nothing(bytes, operations, bandwidth, rate):
    return float("inf"), "arithmetic"


@wrong("least-time", "wrong-result", "'memory' is no number")
def least_from_a_dict(bytes, operations, bandwidth, rate):
    times = {"memory": bytes / bandwidth / 1e6, "arithmetic": operations / rate / 1e9}
    return max(times), max(times.values())


@wrong("least-time", "wrong-result", "The two have changed places")
def least_in_another_order(bytes, operations, bandwidth, rate):
    memory, arithmetic = bytes / bandwidth / 1e6, operations / rate / 1e9
    return "memory" if memory > arithmetic else "arithmetic", max(memory, arithmetic)


@right("least-time")
def least_by_ridge(bytes, operations, bandwidth, rate):
    if operations / bytes > rate * 1e3 / bandwidth:
        return operations / (rate * 1e12) * 1e3, "arithmetic"
    return bytes / (bandwidth * 1e9) * 1e3, "memory"


@right("least-time")
def least_as_the_larger_pair(bytes, operations, bandwidth, rate):
    return max((bytes / bandwidth / 1e6, "memory"), (operations / rate / 1e9, "arithmetic"))


# --- impossible-figures -------------------------------------------------------------------------


@wrong("impossible-figures", "wrong-result", "'my matmul'", "not in your list")
def impossible_by_memory(figures, bandwidth, rate):
    return [name for name, count, _, ms in figures if count / ms / 1e6 > bandwidth]


@wrong("impossible-figures", "wrong-result", "not in your list", "you look at the operations only")
def impossible_by_arithmetic(figures, bandwidth, rate):
    return [name for name, _, operations, ms in figures if operations / ms / 1e9 > rate]


@wrong("impossible-figures", "wrong-result", "not in your list", "above both roofs")
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


@wrong("impossible-figures", "wrong-result", "'image of 16 layers'", "but they overlap")
def impossible_by_the_sum(figures, bandwidth, rate):
    return [n for n, b, f, ms in figures if ms < b / bandwidth / 1e6 + f / rate / 1e9]


@wrong("impossible-figures", "wrong-result", "'better copy'", "not in your list", "GB are 10⁹")
def impossible_in_gib(figures, bandwidth, rate):
    return [n for n, b, f, ms in figures if b / ms * 1e3 / 2**30 > bandwidth or f / ms / 1e9 > rate]


@wrong("impossible-figures", "wrong-result", "'fast image' is 2 times in your list")
def impossible_twice(figures, bandwidth, rate):
    found = [n for n, b, _, ms in figures if b / ms / 1e6 > bandwidth]
    return found + [n for n, _, f, ms in figures if f / ms / 1e9 > rate]


@wrong("impossible-figures", "wrong-result", "the comparison is turned round")
def impossible_if_possible(figures, bandwidth, rate):
    return [n for n, b, f, ms in figures if ms > max(b / bandwidth / 1e6, f / rate / 1e9)]


@wrong("impossible-figures", "wrong-result", "ms are taken for seconds")
def impossible_with_ms_for_seconds(figures, bandwidth, rate):
    return [n for n, b, f, ms in figures if b / ms / 1e9 > bandwidth or f / ms / 1e12 > rate]


@wrong("impossible-figures", "wrong-result", "'fast copy'", "not in your list")
def impossible_the_first(figures, bandwidth, rate):
    for name, count, operations, ms in figures:
        if ms < max(count / bandwidth / 1e6, operations / rate / 1e9):
            return [name]
    return []


@wrong("impossible-figures", "raised", "least_time(...)[0]")
def impossible_by_a_pair(figures, bandwidth, rate):
    found = []
    for name, count, operations, ms in figures:
        if ms < least_as_the_larger_pair(count, operations, bandwidth, rate):
            found.append(name)
    return found


@wrong("impossible-figures", "raised", "'float' and 'str'", "least_time(...)[0]")
def impossible_by_what_binds(figures, bandwidth, rate):
    return [
        name
        for name, count, operations, ms in figures
        if ms < least_as_the_larger_pair(count, operations, bandwidth, rate)[1]
    ]


@wrong("impossible-figures", "wrong-result", "figures of a T4, all possible", "returns None")
def impossible_none_where_all_are_possible(figures, bandwidth, rate):
    return [*impossible_as_a_set(figures, bandwidth, rate)] or None


@wrong("impossible-figures", "wrong-result", "got a dict")
def impossible_as_a_dict(figures, bandwidth, rate):
    found = impossible_as_a_set(figures, bandwidth, rate)
    return {name: name in found for name, *_ in figures}


@wrong("impossible-figures", "wrong-result", "Return a list of names", "got 'better copy, ")
def impossible_in_one_string(figures, bandwidth, rate):
    found = impossible_as_a_set(figures, bandwidth, rate)
    return ", ".join(name for name, *_ in figures if name in found)


@wrong("impossible-figures", "wrong-result", "('better copy', 536870912, 0, 0.1235) is none of")
def impossible_with_all_of_a_figure(figures, bandwidth, rate):
    found = impossible_as_a_set(figures, bandwidth, rate)
    return [figure for figure in figures if figure[0] in found]


@wrong("impossible-figures", "wrong-result", "'copy', in 138 µs", "It is possible, but")
def impossible_from_half_a_roof(figures, bandwidth, rate):
    return [n for n, b, f, ms in figures if ms < 2 * max(b / bandwidth / 1e6, f / rate / 1e9)]


@right("impossible-figures")
def impossible_as_a_set(figures, bandwidth, rate):
    found = set()
    for name, count, operations, milliseconds in figures:
        least = max(count / bandwidth / 1e6, operations / rate / 1e9)
        if milliseconds < least:
            found.add(name)
    return found


@right("impossible-figures")
def impossible_backwards_in_an_array(figures, bandwidth, rate):
    found = impossible_as_a_set(figures, bandwidth, rate)
    return np.array([name for name, *_ in reversed(figures) if name in found])


# --- fullest-block ------------------------------------------------------------------------------


@wrong("fullest-block", "wrong-result", "32 warps", "There is a size that gives 40")
def block_always_1024(registers, shared):
    return 1024


@wrong(
    "fullest-block",
    "wrong-result",
    "No block of 1024 threads can start: too much is asked of registers",
)
def block_of_1024_or_64(registers, shared):
    return 64 if registers == 44 else 1024


@wrong("fullest-block", "wrong-result", "24 warps", "There is a size that gives 28")
def block_always_256(registers, shared):
    return 256


@wrong("fullest-block", "wrong-result", "limited by shared memory")
def block_without_shared(registers, shared):
    return max(range(32, 1025, 32), key=lambda n: occupancy("H200", n, registers, 0).warps)


@wrong("fullest-block", "wrong-result", "There is a size that gives|can start")
def block_with_shared_of_a_thread(registers, shared):
    sizes = range(32, 1025, 32)
    return max(reversed(sizes), key=lambda n: occupancy("H200", n, registers, shared).warps)


@wrong("fullest-block", "wrong-result", "whole warps")
def block_of_warps(registers, shared):
    return max(occupancy("H200", n, registers, shared * n).warps for n in range(32, 1025, 32)) - 1


@wrong("fullest-block", "wrong-result", "Return one whole number")
def block_with_its_shape(registers, shared):
    return (16, 16)


def warps_of(threads, registers, shared):
    return occupancy("H200", threads, registers, shared * threads).warps


@wrong("fullest-block", "wrong-result", "There is a size that gives 40")
def block_largest_that_starts(registers, shared):
    return max(n for n in range(32, 1025, 32) if warps_of(n, registers, shared))


@wrong("fullest-block", "wrong-result", "24 registers", "There is a size that gives 36")
def block_of_a_power_of_two(registers, shared):
    return max((32, 64, 128, 256, 512, 1024), key=lambda n: warps_of(n, registers, shared))


@wrong("fullest-block", "wrong-result", "limited by blocks")
def block_with_the_most_blocks(registers, shared):
    sizes = range(32, 1025, 32)
    return max(sizes, key=lambda n: occupancy("H200", n, registers, shared * n).blocks)


@wrong("fullest-block", "wrong-result", "There is a size that gives")
def block_for_a_t4(registers, shared):
    return max(range(32, 1025, 32), key=lambda n: occupancy("T4", n, registers, shared * n).warps)


@wrong("fullest-block", "wrong-result", "40 threads", "Or are these warps? Return the threads")
def block_as_the_most_warps(registers, shared):
    return max(warps_of(n, registers, shared) for n in range(32, 1025, 32))


@wrong("fullest-block", "wrong-result", "take a multiple of 32", "whole warps")
def block_as_a_place(registers, shared):
    return int(np.argmax([warps_of(n, registers, shared) for n in range(32, 1025, 32)]))


@wrong("fullest-block", "wrong-result", "take a multiple of 32", "whole warps")
def block_of_any_size(registers, shared):
    return max(range(1, 1025), key=lambda n: warps_of(n, registers, shared))


@wrong("fullest-block", "wrong-result", "There is a size that gives 40")
def block_with_the_fewest_warps(registers, shared):
    return min(range(32, 1025, 32), key=lambda n: warps_of(n, registers, shared))


@wrong("fullest-block", "wrong-result", "There is a size that gives 40")
def block_from_the_registers(registers, shared):
    return min(1024, 65536 // registers // 32 * 32)


@wrong("fullest-block", "wrong-result", "There is a size that gives 48")
def block_until_it_gets_worse(registers, shared):
    best = 32
    for threads in range(64, 1025, 32):
        if warps_of(threads, registers, shared) < warps_of(best, registers, shared):
            break
        best = threads
    return best


@wrong("fullest-block", "raised", "block 0 has 0 threads", "Line 3", "shared * block")
def block_from_0_on(registers, shared):
    sizes = range(0, 1025, 32)
    return max(sizes, key=lambda n: occupancy("H200", n, registers, shared * n).warps)


@wrong("fullest-block", "raised", "'Occupancy' and 'Occupancy'", "Line 2")
def block_by_occupancies(registers, shared):
    return max(range(32, 1025, 32), key=lambda n: occupancy("H200", n, registers, shared * n))


@right("fullest-block")
def block_largest_of_the_best(registers, shared):
    best, warps = 32, 0
    for threads in range(32, 1025, 32):
        found = occupancy("H200", threads, registers, threads * shared)
        if found.fraction >= warps:
            best, warps = threads, found.fraction
    return best


@right("fullest-block")
def block_from_an_array(registers, shared):
    sizes = np.arange(1024, 0, -32)
    return sizes[np.argmax([warps_of(int(n), registers, shared) for n in sizes])]


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


def needed_by(n, k):
    return 4 * (2 * n * k + k + n * n)


@wrong("crossing", "wrong-result", "the last size at which the GPU wins")
def crossing_the_last(sizes, *rates):
    won = 0
    for n in sizes:
        on_cpu, on_gpu = times_of(n, *rates, needed_by)
        if on_gpu < on_cpu:
            won = n
    return won


@wrong("crossing", "wrong-result", "the last size at which the CPU still wins")
def crossing_one_before(sizes, *rates):
    found = first_where(sizes, *rates, moved=needed_by)
    return sizes[sizes.index(found) - 1] if found else 0


@wrong("crossing", "wrong-result", "you count numbers, not bytes")
def crossing_of_numbers(sizes, *rates):
    return first_where(sizes, *rates, moved=lambda n, k: 2 * n * k + k + n * n)


@wrong("crossing", "wrong-result", "as for float64")
def crossing_in_float64(sizes, *rates):
    return first_where(sizes, *rates, moved=lambda n, k: 8 * (2 * n * k + k + n * n))


@wrong("crossing", "wrong-result", "all bytes twice")
def crossing_with_everything_both_ways(sizes, *rates):
    return first_where(sizes, *rates, moved=lambda n, k: 2 * needed_by(n, k))


@wrong("crossing", "wrong-result", "the cost of starting is left out")
def crossing_without_start(sizes, cpu, gpu, link, start):
    return first_where(sizes, cpu, gpu, link, 0, moved=needed_by)


@wrong("crossing", "wrong-result", "the cost of starting is counted twice")
def crossing_with_two_starts(sizes, cpu, gpu, link, start):
    return first_where(sizes, cpu, gpu, link, 2 * start, moved=needed_by)


@wrong("crossing", "wrong-result", "they are 10⁹")
def crossing_in_gib(sizes, cpu, gpu, link, start):
    more = 2**30 / 1e9
    return first_where(sizes, cpu * more, gpu * more, link * more, start, moved=needed_by)


@wrong("crossing", "wrong-result", "you count one operation")
def crossing_of_one_operation(sizes, cpu, gpu, link, start):
    return first_where(sizes, 2 * cpu, 2 * gpu, link, start, moved=needed_by)


@wrong("crossing", "wrong-result", "go on at the same time")
def crossing_with_overlap(sizes, cpu, gpu, link, start):
    for n in sizes:
        k = n // 8
        work = 2 * n * n * k
        if start + max(needed_by(n, k) / link, work / gpu) / 1e6 < work / cpu / 1e6:
            return n
    return 0


@wrong("crossing", "wrong-result", "k is taken for n")
def crossing_with_all_layers(sizes, cpu, gpu, link, start):
    for n in sizes:
        work = 2 * n * n * n
        if start + (needed_by(n, n) / link + work / gpu) / 1e6 < work / cpu / 1e6:
            return n
    return 0


@wrong("crossing", "wrong-result", "only the copy back is counted")
def crossing_without_the_way_in(sizes, *rates):
    return first_where(sizes, *rates, moved=lambda n, k: 4 * n * n)


@wrong("crossing", "wrong-result", "turn the comparison round")
def crossing_where_the_cpu_wins(sizes, *rates):
    for n in sizes:
        on_cpu, on_gpu = times_of(n, *rates, needed_by)
        if on_gpu > on_cpu:
            return n
    return 0


@wrong("crossing", "wrong-result", "`return 0` stands behind it")
def crossing_that_gives_up_at_once(sizes, *rates):
    for n in sizes:
        on_cpu, on_gpu = times_of(n, *rates, needed_by)
        if on_gpu < on_cpu:
            return n
        return 0


@wrong("crossing", "wrong-result", "the position in sizes")
def crossing_as_a_place(sizes, *rates):
    found = first_where(sizes, *rates, moved=needed_by)
    return sizes.index(found) if found else 0


@wrong("crossing", "wrong-result", "right is 0", "-1 for none")
def crossing_minus_1_for_none(sizes, *rates):
    return first_where(sizes, *rates, moved=needed_by) or -1


@wrong("crossing", "wrong-shape", "Return one number, the first size")
def crossing_all_of_them(sizes, *rates):
    wins = [n for n in sizes if np.diff(times_of(n, *rates, needed_by))[0] < 0]
    return wins


@right("crossing")
def crossing_in_seconds(sizes, cpu, gpu, link, start):
    n = np.array(sizes, dtype=np.float64)
    k = n // 8
    work, data = 2 * n**2 * k, 4 * (n * n + 2 * n * k + k)
    wins = start / 1e3 + data / (link * 1e9) + work / (gpu * 1e9) < work / (cpu * 1e9)
    return int(n[wins.argmax()]) if wins.any() else 0


@right("crossing")
def crossing_by_min(sizes, *rates):
    wins = (n for n in sizes if np.diff(times_of(n, *rates, needed_by))[0] < 0)
    return min(wins, default=0)
