"""What a small piece of work costs beside its kernels: the host, the events, a CUDA graph.

At small sizes the host's launch takes longer than the kernel. So a program is timed in several
ways, each a row of its own, data left where the call before left it (in L2, where it fits):

launch        the host's time for a call, of several in a row (a row of every program)
events        between two events around one call, nothing queued in front: what a careless clock
              shows, the host's launch within
queued        a call, of many that wait behind a busy kernel: the GPU's own time, and what lies
              between two launches
graph         a replay of a CUDA graph that holds one call, queued likewise
graph launch  the host's time for such a replay
graph of 20   a call, of the 20 that one graph holds: the host's cost is divided by 20

Numba's and CuPy's launches are captured through CuPy, PyTorch's and Triton's through PyTorch.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from course.backend import one_line
from course.kernels import launching as graphs
from course.measure import event_clock
from course.measure.event_clock import is_torch
from course.measure.timing import timing_of

TOGETHER = 20  # calls in the larger graph
LAUNCHES = 100  # between events
SAMPLES = 30
SECONDS = 0.5  # for all samples of a row, at most
METRICS = ("events", "queued", "graph", "graph launch", f"graph of {TOGETHER}")

#: A stream -> the program, launching on it.
Queued = Callable[[Any], Callable[..., Any]]


def variant(
    bench: Any,
    kernel: str,
    name: str,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    small: bool = False,
    queued: Queued | None = None,
    **given: Any,
) -> Any:
    """`bench.variant`, a row of the samples' mean, and for small work the rows of `METRICS`.

    Parameters
    ----------
    bench : course_recording.frame.Bench
    kernel, name, call, args, **given
        As `Bench.variant` takes them.
    small : bool
        Whether the further rows are wanted.
    queued : callable, optional
        Of a program of Numba launches: ``queued(stream)(*args)`` does the work of ``call(*args)``
        on a stream of numba.cuda.

    Returns
    -------
    Timing or None
        As of `Bench.variant`; None where the program failed.
    """
    timing = bench.variant(kernel, name, call, args, **given)
    if timing is None:
        return None
    key = kernel, name, given["shape"], given.get("dtype", "float32")
    bench.figure(*key, "mean", "ms", statistics.fmean(timing.samples))
    if not small:
        return timing
    rows = Rows(bench, key)
    rows.plain(lambda: call(*args))
    try:
        found = captured(bench, call, args, queued)
    except Exception as problem:  # a program that cannot be captured, or no CuPy to do it
        note = f"{kernel} {name} in a CUDA graph left out: {one_line(problem)}"
        bench.notes.append(note)
        bench.say(f"  {note}")
        return timing
    if found is None:
        return timing
    (one, output), (many, _) = found
    limit = {"limit": given["limit"]} if "limit" in given else {}
    out = given.get("out")
    try:
        bench.check(one, (), given["expected"], out=output if out is None else out, **limit)
    except Exception as problem:  # what was captured is not the work, so its time says nothing
        bench.failures.append(f"{kernel} {name}, graph: {one_line(problem, 400)}")
        bench.say(f"  FAILED {bench.failures[-1]}")
        return timing
    rows.replayed(one, many)
    return timing


class Rows:
    """The rows of a program."""

    def __init__(self, bench: Any, key: tuple[str, str, str, str]):
        self.bench, self.key, self.clock = bench, key, event_clock.clock()

    def plain(self, call: Callable[[], Any]) -> None:
        """Keep events and queued."""
        self.clock.warm_up(itertools.repeat(call))
        self._keep("events", [self.clock.between_events(call) for _ in range(LAUNCHES)])
        self._queued("queued", call, 1)

    def replayed(self, one: Callable[[], Any], many: Callable[[], Any]) -> None:
        """Keep what graphs of one call and of `TOGETHER` take."""
        for replay in (one, many):
            self.clock.warm_up(itertools.repeat(replay))
        launch = self._queued("graph", one, 1)
        self.bench.figure(*self.key, "graph launch", "ms", launch)
        self._queued(f"graph of {TOGETHER}", many, TOGETHER)

    def _queued(self, metric: str, call: Callable[[], Any], calls: int) -> float:
        """Keep the time queued behind a busy kernel; returns the host's cost of a launch [ms]."""
        launch = self.clock.launch_cost(itertools.repeat(call))
        times, hidden = self.clock.samples(itertools.repeat(call), SAMPLES, launch, seconds=SECONDS)
        if hidden:
            self._keep(metric, [time / calls for time in times])
        else:
            self.bench.notes.append(
                f"{' '.join(self.key)}: {metric} left out, it could not be queued"
            )
        return launch

    def _keep(self, metric: str, times: Sequence[float]) -> None:
        self.bench.row(*self.key, timing_of(list(times)), metric=metric)


# --- graphs --------------------------------------------------------------------------------------
Captured = tuple[Callable[[], Any], Any]  # a replay on the default stream, and the call's output


def captured(
    bench: Any, call: Callable[..., Any], args: tuple[Any, ...], queued: Queued | None
) -> tuple[Captured, Captured] | None:
    """Graphs of one call and of `TOGETHER`; None, with a note, without the library for it."""
    if queued is None and any(map(is_torch, args)):
        torch = bench.peer("torch")
        return tuple(captured_by_torch(torch, call, args, calls) for calls in (1, TOGETHER))
    cupy = bench.peer("cupy")
    if cupy is None:
        return None
    made = tuple(
        captured_by_cupy(cupy, bench.cuda, call if queued is None else queued, args, calls,
                         numba=queued is not None)
        for calls in (1, TOGETHER)
    )  # fmt: skip
    return made


def captured_by_cupy(
    cupy: ModuleType,
    cuda: Any,
    program: Callable[..., Any],
    args: tuple[Any, ...],
    calls: int = 1,
    *,
    numba: bool,
) -> Captured:
    """A CUDA graph of some calls, captured on a stream of CuPy.

    Parameters
    ----------
    cupy, cuda : module
        `cuda` is numba.cuda.
    program : callable
        With `numba`, ``program(stream)(*args)`` launches on a stream of numba.cuda; else
        ``program(*args)`` works on CuPy's current stream.

    Returns
    -------
    replay : callable
        Launches the graph on the default stream; what the graph uses lives as long.
    output
        What the last call returned.
    """
    stream = cupy.cuda.Stream(non_blocking=True)
    call = program(cuda.external_stream(stream.ptr)) if numba else program
    with stream:
        call(*args)  # compiled, loaded, and its memory in the stream's pool, before the capture
        stream.synchronize()
        cuda.synchronize()
        graph, outputs = graphs.captured(stream, lambda: [call(*args) for _ in range(calls)])

    def replay(used: Any = (call, args, outputs)) -> None:
        graph.launch(cupy.cuda.Stream.null)

    return replay, outputs[-1]


def captured_by_torch(
    torch: ModuleType, program: Callable[..., Any], args: tuple[Any, ...], calls: int = 1
) -> Captured:
    """A CUDA graph of some calls, after a warm-up on another stream; as `captured_by_cupy`."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            program(*args)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = [program(*args) for _ in range(calls)]
    torch.cuda.synchronize()

    def replay(used: Any = (program, args, outputs)) -> None:
        graph.replay()

    return replay, outputs[-1]
