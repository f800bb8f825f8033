"""The cost of a launch: an empty kernel, for the host, between two events, and queued.

A kernel that does nothing still takes the host and the GPU some time. It is launched without
arguments, and with five arrays of Numba or of CuPy, since the host prepares each argument. The
host's time is that of one launch after waiting for the GPU, and of one in a row of launches.
"""

import itertools

from course.measure import event_clock
from course.measure.timing import timing_of

LAUNCHES = 200
IN_A_ROW = 16  # launches without waiting
TOGETHER = 100  # launches queued behind a busy kernel in one sample


def run(bench):
    """Time an empty kernel in three ways."""
    cuda = bench.cuda

    @cuda.jit
    def empty():
        pass

    @cuda.jit
    def empty_of_five(a, b, c, d, e):
        pass

    programs = {"no arguments": (empty[1, 32], ())}
    arrays = [cuda.device_array(16, "float32") for _ in range(5)]
    programs["5 Numba arrays"] = (empty_of_five[1, 32], arrays)
    if cupy := bench.peer("cupy"):
        programs["5 CuPy arrays"] = (empty_of_five[1, 32], [cupy.zeros(16, "f4") for _ in range(5)])
        raw = cupy.RawKernel('extern "C" __global__ void empty() {}', "empty")
        programs["CuPy's RawKernel, no arguments"] = (lambda: raw((1,), (32,), ()), ())
    for name, (launch, arguments) in programs.items():
        time_launch(bench, name, lambda launch=launch, arguments=arguments: launch(*arguments))


def time_launch(bench, name, call):
    """Keep the times of a launch: first call, host alone and in a row, events, queued."""
    clock = event_clock.clock()
    bench.figure("empty", name, "", "", "first call", "ms", clock.wall(call))
    clock.warm_up(itertools.repeat(call))
    rows = {
        "host": [host_time(clock, call, 1) for _ in range(LAUNCHES)],
        "host in a row": [host_time(clock, call, IN_A_ROW) for _ in range(LAUNCHES // 4)],
        "events": [clock.between_events(call) for _ in range(LAUNCHES)],
    }
    cost = timing_of(rows["host in a row"]).median
    queued, hidden = clock.samples(itertools.repeat(call), 30, cost, together=TOGETHER)
    if hidden:
        rows["queued"] = queued
    else:
        bench.notes.append(f"{name}: launches could not be queued behind a busy kernel")
    for metric, times in rows.items():
        bench.row("empty", name, "", "", timing_of(times), metric=metric)


def host_time(clock, call, launches):
    """The host's milliseconds for a launch in a row of `launches`, without waiting in between."""
    clock.cuda.synchronize()
    start = clock.now()
    for _ in range(launches):
        call()
    return (clock.now() - start) * 1e3 / launches
