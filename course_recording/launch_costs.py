"""What little work costs beside its kernels: the host, the events, a CUDA graph.

At small sizes the host's launch takes longer than the kernel. So a program is timed in several
ways, each a row of its own. Data stays where the call before left it (in L2, where it fits):

launch        the host's time for a call in a row of calls (a row of every program)
events        between two events around one call with nothing queued before it, as a careless
              clock times: the host's launch is included
queued        a call in a row of calls queued behind a busy kernel: the GPU's time, and the gap
              between two launches
graph         a replay of a CUDA graph that holds one call, queued in the same way
graph launch  the host's time for such a replay
graph of 20   a call in a graph of 20 calls, so that the host's cost is divided by 20

Numba's and CuPy's launches are captured through CuPy, PyTorch's and Triton's through PyTorch.

A product of a small network takes less than the host needs to launch it, and in a training step its
data lies in L2. `ours` and `theirs` time such small work as it runs there (`IN_A_GRAPH`): calls one
after the other in a graph, data left where the call before left it. Large work is timed by
`Bench.time`, with its data in device memory.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

from course.backend import one_line
from course.dispatch import graphs
from course.kernels.steps import Launch, configured, one_call
from course.measure import event_clock
from course.measure.event_clock import is_torch
from course.measure.roofline import bound, kinds, refuse_impossible
from course.measure.timing import Timing, timing_of
from course_recording import interleaved, peers
from course_recording.frame import judged

TOGETHER = 20  # calls in the larger graph
LAUNCHES = 100  # each between two events
SAMPLES = 30
SECONDS = 0.5  # for all samples of a row, at most
IN_A_GRAPH, CALLS = "time in a graph", 50  # the metric; calls in one graph
GRAPH_SECONDS = 0.4
METRICS = ("events", "queued", "graph", "graph launch", f"graph of {TOGETHER}")

#: Takes a stream, returns the program that launches on it.
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
        For a program of Numba launches: ``queued(stream)(*args)`` does the work of
        ``call(*args)`` on a stream of numba.cuda.

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
        bench.note(f"{kernel} {name} in a CUDA graph left out: {one_line(problem)}")
        return timing
    if found is None:
        return timing
    (one, output), (many, _) = found
    limit = {"limit": given["limit"]} if "limit" in given else {}
    out = given.get("out")
    try:
        bench.check(one, (), given["expected"], out=output if out is None else out, **limit)
    except Exception as problem:  # the graph does not do the work, so its time is useless
        bench.fail(f"{kernel} {name}, graph", problem)
        return timing
    rows.replayed(one, many)
    return timing


def step(
    bench: Any, kernel: str, name: str, launches: Callable[[], Iterable[Launch]], args: tuple,
    **given: Any,
) -> None:  # fmt: skip
    """`variant` of a ladder's step: ``launches()`` of `args`, whose last receives the result."""

    def queued(stream: Any) -> Callable[..., None]:
        return one_call(configured(launches(), stream), args)

    variant(bench, kernel, name, queued(0), args, out=args[-1], queued=queued, **given)


def torch_and_compiled(
    bench: Any, kernel: str, call: Callable[..., Any], args: tuple, **given: Any
) -> None:
    """`variant` of PyTorch's `call`, as it is and compiled."""
    variant(bench, kernel, "torch", call, args, **given)
    if made := peers.torch_compiled(bench, call, *args):
        variant(bench, kernel, "torch.compile", made, args, **given)


class Rows:
    """The rows of a program."""

    def __init__(self, bench: Any, key: tuple[str, str, str, str]):
        self.bench, self.key, self.clock = bench, key, event_clock.clock()

    def plain(self, call: Callable[[], Any]) -> None:
        """Keep the rows "events" and "queued"."""
        self.clock.warm_up(itertools.repeat(call))
        self._keep("events", [self.clock.between_events(call) for _ in range(LAUNCHES)])
        self._queued("queued", call, 1)

    def replayed(self, one: Callable[[], Any], many: Callable[[], Any]) -> None:
        """Keep the rows of graphs of one call and of `TOGETHER` calls."""
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
            self.bench.note(f"{' '.join(self.key)}: {metric} left out, it could not be queued")
        return launch

    def _keep(self, metric: str, times: Sequence[float]) -> None:
        self.bench.row(*self.key, timing_of(list(times)), metric=metric)


# --- graphs --------------------------------------------------------------------------------------
Captured = tuple[Callable[[], Any], Any]  # a replay on the default stream, and the call's output


def captured(
    bench: Any, call: Callable[..., Any], args: tuple[Any, ...], queued: Queued | None
) -> tuple[Captured, Captured] | None:
    """Graphs of one call and of `TOGETHER` calls; None, with a note, where no library captures."""
    if queued is None and any(map(is_torch, args)):
        torch = bench.peer("torch")
        return tuple(captured_by_torch(torch, call, args, calls) for calls in (1, TOGETHER))
    cupy = bench.peer("cupy")
    if cupy is None:
        return None
    return tuple(
        captured_by_cupy(cupy, bench.cuda, queued or call, args, calls, numba=queued is not None)
        for calls in (1, TOGETHER)
    )


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
        Launches the graph on the default stream; keeps alive what the graph uses.
    output
        What the last call returned.
    """
    stream = cupy.cuda.Stream(non_blocking=True)
    call = program(cuda.external_stream(stream.ptr)) if numba else program
    with stream:
        call(*args)  # compiles, loads, and fills the stream's memory pool, before the capture
        stream.synchronize()
        cuda.synchronize()
        graph, outputs = graphs.capture_graph(stream, lambda: [call(*args) for _ in range(calls)])

    def replay(used: Any = (call, args, outputs)) -> None:
        graph.launch(cupy.cuda.Stream.null)

    return replay, outputs[-1]


def captured_by_torch(
    torch: ModuleType, program: Callable[..., Any], args: tuple[Any, ...], calls: int = 1
) -> Captured:
    """A CUDA graph of some calls, after a warm-up on another stream; as `captured_by_cupy`."""
    outputs: list[Any] = []
    graph = interleaved.captured(torch, lambda _: outputs.append(program(*args)), calls, 2)

    def replay(used: Any = (program, args, outputs)) -> None:
        graph.replay()

    return replay, outputs[-1]


# --- work as it runs in a graph -------------------------------------------------------------------


def of_numba(bench: Any, queued: Callable[[Any], Callable[[], Any]], calls: int) -> Captured:
    """A replay of calls of ``queued(stream)``; see `captured_by_cupy`."""
    cupy = bench.peer("cupy")
    if cupy is None:
        raise RuntimeError("a CUDA graph needs CuPy")
    return captured_by_cupy(cupy, bench.cuda, queued, (), calls, numba=True)


def of_torch(call: Callable[[], Any], calls: int) -> Captured:
    """A replay of calls of a PyTorch program, in TF32 where that is on (`peer` switches it off)."""
    return captured_by_torch(importlib.import_module("torch"), call, (), calls)


def time_in_graph(
    bench: Any, replay: Callable[[], Any], bytes: float | None, operations: Any, name: str
) -> Timing:
    """The time of one of the `CALLS` calls of a replay.

    Raises
    ------
    course.measure.roofline.ImpossibleFigure
        When the time is shorter than the roofs of L2 and of the pipes allow.
    """
    clock, replays = event_clock.clock(), itertools.repeat(replay)
    clock.warm_up(replays)
    launch = clock.launch_cost(replays)
    times, hidden = clock.samples(replays, SAMPLES, launch, seconds=GRAPH_SECONDS)
    if not hidden:
        raise RuntimeError(f"{name}: replays could not be queued, so the host's time is in them")
    amounts = None if operations is None else kinds(operations)
    least = bound(bytes or 0, amounts or 0, bench.roofs)
    timing = timing_of(
        [its / CALLS for its in times], launch=launch / CALLS, name=name, cold=False, bytes=bytes,
        operations=amounts, bound=least,
    )  # fmt: skip
    refuse_impossible(timing.median, bytes, amounts, bench.roofs, in_l2=True, what=name)
    return timing


def keep(
    bench: Any, op: str, strategy: str, shape: str, *, expected: Any, call: Callable[..., Any],
    args: tuple, small: bool, graph: Callable[[int], Any], out: Any = None, limit: float = 1e-5,
    bytes: float, operations: Any = None, needed: float | None = None, dtype: str = "float32",
    in_place: bool = False,
) -> None:  # fmt: skip
    """Check a program, time it in a graph or by `Bench.time`, keep time and error.

    `graph(calls)` captures the program. With `in_place` the program changes its input, so that only
    the first call's result is right, and the output is not poisoned.
    """
    name = f"{op} {strategy} {shape}"
    try:
        if in_place:
            call(*args)
            error = judged(out, expected, limit, bench.cuda)
        else:
            error = bench.check(call, args, expected, out=out, limit=limit)
        if small:
            replay, output = graph(CALLS)
            if not in_place:
                its = output if out is None else out
                bench.check(replay, (), expected, out=its, limit=limit)
            timing = time_in_graph(bench, replay, bytes, operations, name)
        else:
            timing = bench.time(call, args, bytes=bytes, operations=operations, name=name)
    except Exception as problem:  # whatever a program raises, the others are still measured
        bench.fail(name, problem)
        return
    if needed is not None:
        timing = dataclasses.replace(timing, operations={dtype: needed})
    metric = IN_A_GRAPH if small else "time"
    bench.row(op, strategy, shape, dtype, timing, metric=metric)
    bench.figure(op, strategy, shape, dtype, "error", "relative", error)


def ours(bench: Any, op: str, strategy: str, shape: str, make: Callable, **given: Any) -> None:
    """Check, time and keep a program of the course; ``make()`` returns its launches.

    Calls alternate between copies of the launches' arrays."""

    def queued(stream: Any) -> Callable[[], None]:
        launches = configured(make(), stream)
        bench.cuda.synchronize()  # so that arrays filled on another stream are ready
        return one_call(launches, ())

    try:
        launches = configured(make())
    except Exception as problem:  # a strategy that this GPU cannot run
        bench.fail(f"{op} {strategy} {shape}", problem)
        return
    args = {id(argument): argument for _, arguments in launches for argument in arguments}.values()
    keep(bench, op, strategy, shape, call=one_call(launches, (*args,)), args=(*args,),
         graph=lambda calls: of_numba(bench, queued, calls), **given)  # fmt: skip


def theirs(
    bench: Any, op: str, strategy: str, shape: str, call: Callable, args: tuple, **given: Any
) -> None:
    """Check, time and keep a program of PyTorch, whose arguments are tensors."""

    def graph(calls: int) -> Captured:
        return of_torch(lambda: call(*args), calls)

    keep(bench, op, strategy, shape, call=call, args=args, graph=graph, **given)
