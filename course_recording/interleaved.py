"""Programs beside each other in CUDA graphs of PyTorch: checked, captured, replayed interleaved.

The calls of a graph alternate between copies of inputs and outputs, so that no call finds its data
in L2. In each round every graph is replayed once. Rows "peer / ours" have the median and quartiles
of the ratios of two replays of one round: above 1 ours is faster than the peer.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Collection
from typing import Any

from course.backend import one_line
from course.measure.roofline import Roofs, known_gpu, refuse_impossible
from course_recording.frame import WrongResult

BEYOND_L2, MOST_SETS = 150_000_000, 10  # bytes of copies of inputs and outputs
ROUNDS, WARM_UP = 21, 3
METRIC = "time in a graph"

Call = Callable[[int], Any]  # takes the index of a copy of inputs and outputs
Times = dict[str, list[float]]  # by program, milliseconds of a call in each round
Key = tuple[str, str, str]  # of rows: kernel, shape, dtype


def sets_of(moved: int) -> int:
    """How many copies of so many bytes do not fit into L2 together, `MOST_SETS` at most."""
    return max(1, min(MOST_SETS, -(-BEYOND_L2 // moved)))


def relative(found: Any, expected: Any, limit: float) -> float:
    """The relative Frobenius error of a result; WrongResult beyond the limit."""
    error = float((found.double() - expected).norm() / expected.norm())
    if not error <= limit:
        raise WrongResult(f"the relative Frobenius error is {error:.3g}; {limit:.3g} is allowed")
    return error


def poisoned(call: Call, expected: Any, outs: list[Any], limit: float) -> float:
    """The relative error of a first call, whose output held NaN before."""
    outs[0].fill_(float("nan"))
    return relative(call(0), expected, limit)


def timed(
    bench: Any, torch: Any, key: Key, programs: dict[str, Call],
    right: Callable[[str, Call], float], calls: int, sets: int, moved: float | None = None,
    operations: float | None = None, roofs: Roofs | None = None, may_fail: Collection[str] = (),
) -> Times:  # fmt: skip
    """Check programs, interleave the replays of their graphs, keep errors and times.

    Parameters
    ----------
    right : callable
        ``right(name, call)`` returns a program's error, or raises.
    calls, sets : int
        Calls in a graph, and copies between which they alternate.
    moved, operations : float, optional
        Bytes of a call, and its operations on tensor cores.
    roofs : Roofs, optional
        Rates that no program may exceed; without it the bench's.
    may_fail : collection of str
        Programs that do not exist for some GPUs or shapes: a note says so.
    """
    (kernel, shape, dtype), graphs = key, {}
    for name, call in programs.items():
        try:
            error = right(name, call)
            graphs[name] = captured(torch, call, calls, sets)
        except Exception as problem:  # the others are still measured
            if name in may_fail:
                bench.note(f"{name} {shape}: {one_line(problem, 300)}")
            else:
                bench.fail(f"{name} {kernel} {shape}", problem)
            continue
        bench.figure(kernel, name, shape, dtype, "error", "relative", error)
    times = interleaved(torch, graphs, calls)
    work = {"tensor_float16": operations} if operations else None
    for name, its in times.items():
        refuse_impossible(statistics.median(its), None, work, roofs or bench.roofs, what=name)
        median = bench.spread(kernel, name, shape, dtype, METRIC, "ms", its, moved, operations)
        bench.say(f"  {kernel} {dtype} {shape} {name}: {1e3 * median:.2f} µs")
    return times


def keep_ratio(bench: Any, key: Key, times: Times, peer: str, name: str = "ours") -> None:
    """Keep how many times as fast as a peer a program is, where both were timed."""
    if peer not in times or name not in times:
        return
    kernel, shape, dtype = key
    ratios = [x / y for x, y in zip(times[peer], times[name], strict=True)]
    ratio = bench.spread(kernel, f"{peer} / {name}", shape, dtype, "ratio", "ratio", ratios)
    bench.say(f"  {kernel} {dtype} {shape} {peer} / {name}: {ratio:.3f}")


def printed_roofs(bench: Any) -> Roofs:
    """The data sheet's roofs, where there are some.

    The tensor cores' roof was measured on a chip at its power limit. A chip that has just paused
    is a little faster, so that a measured roof would refuse its times.
    """
    with contextlib.suppress(ValueError):
        return known_gpu(bench.roofs.gpu)
    return bench.roofs


def captured(torch: Any, call: Call, calls: int, sets: int) -> Any:
    """A CUDA graph of calls, which alternate between copies of arrays."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(min(2, sets)):
            call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(calls):
            call(i % sets)
    return graph


def interleaved(torch: Any, graphs: dict[str, Any], calls: int) -> Times:
    """Milliseconds of a call, round by round; in each round every graph is replayed once."""
    times: Times = {name: [] for name in graphs}
    for number in range(ROUNDS + WARM_UP):
        for name, graph in graphs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            if number >= WARM_UP:
                times[name].append(start.elapsed_time(end) / calls)
    return times
