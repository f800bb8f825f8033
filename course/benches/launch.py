"""The cost of a launch: an empty kernel, for the host, between two events, and queued.

A kernel that does nothing still takes the host and the GPU some time. Without arguments, and with
five arrays of Numba or of CuPy, since the host prepares each argument.
"""

import itertools

from course.event_clock import clock
from course.timing import timing_of

LAUNCHES = 200
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
    """Keep the three times of a launch: host, events, queued; and what its first call took."""
    its_clock = clock()
    bench.figure("empty", name, "", "", "first call", "ms", its_clock.wall(call))
    its_clock.warm_up(itertools.repeat(call))
    host = []
    for _ in range(LAUNCHES):
        its_clock.cuda.synchronize()
        start = its_clock.now()
        call()
        host.append((its_clock.now() - start) * 1e3)
    events = [its_clock.between_events(call) for _ in range(LAUNCHES)]
    cost = sorted(host)[LAUNCHES // 2]
    queued, hidden = its_clock.samples(itertools.repeat(call), 30, cost, together=TOGETHER)
    bench.row("empty", name, "", "", timing_of(host), metric="host")
    bench.row("empty", name, "", "", timing_of(events), metric="events")
    if hidden:
        bench.row("empty", name, "", "", timing_of(queued), metric="queued")
    else:
        bench.notes.append(f"{name}: launches could not be queued behind a busy kernel")
