"""Programs of small and of large work: checked, then the small ones timed in a CUDA graph.

A product of a small network takes less than the host needs to launch it, and in a training step its
data lies in L2. So it is timed as it runs there: calls one after the other in a graph, data where
the call before left it. PyTorch's programs are captured by PyTorch, the course's through CuPy.
Large work is timed by the frame, its data in device memory.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from collections.abc import Callable
from typing import Any

from course import backend
from course.measure import event_clock
from course.measure.event_clock import footprint
from course.measure.roofline import bound, kinds, refuse_impossible
from course.measure.timing import Timing, timing_of
from course_recording import launch_costs
from course_recording.frame import judged

METRIC = "time in a graph"  # in place of "time", see above
CALLS = 50  # of a graph
SAMPLES, SECONDS = 30, 0.4

Captured = launch_costs.Captured


def of_numba(bench: Any, queued: Callable[[Any], Callable[[], Any]], calls: int) -> Captured:
    """A replay of calls of ``queued(stream)``; see `launch_costs.captured_by_cupy`."""
    cupy = bench.peer("cupy")
    if cupy is None:
        raise RuntimeError("a CUDA graph needs CuPy")
    return launch_costs.captured_by_cupy(cupy, bench.cuda, queued, (), calls, numba=True)


def of_torch(call: Callable[[], Any], calls: int) -> Captured:
    """A replay of calls of a PyTorch program, in TF32 where that is on: a peer asked for is not."""
    return launch_costs.captured_by_torch(importlib.import_module("torch"), call, (), calls)


def time(
    bench: Any, replay: Callable[[], Any], bytes: float | None, operations: Any, name: str
) -> Timing:
    """A call's time, of the `CALLS` that a replay makes.

    Raises
    ------
    course.measure.roofline.ImpossibleFigure
        When it is shorter than L2 and the pipes allow.
    """
    clock, turns = event_clock.clock(), itertools.repeat(replay)
    clock.warm_up(turns)
    launch = clock.launch_cost(turns)
    times, hidden = clock.samples(turns, SAMPLES, launch, seconds=SECONDS)
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


# --- one program ----------------------------------------------------------------------------------


def keep(
    bench: Any, op: str, strategy: str, shape: str, *, expected: Any, call: Callable[..., Any],
    args: tuple, small: bool, graph: Callable[[int], Any], out: Any = None, limit: float = 1e-5,
    bytes: float, operations: Any = None, needed: float | None = None, dtype: str = "float32",
    in_place: bool = False,
) -> None:  # fmt: skip
    """Check a program, time it in a graph or by the frame, keep time and error.

    `graph(calls)` captures it. With `in_place` the result is right after the first call alone, so
    nothing is poisoned.
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
            timing = time(bench, replay, bytes, operations, name)
        else:
            timing = bench.time(call, args, bytes=bytes, operations=operations, name=name)
    except Exception as problem:  # whatever a program raises, the others are still measured
        bench.failures.append(f"{name}: {backend.one_line(problem, 400)}")
        bench.say(f"  FAILED {bench.failures[-1]}")
        return
    if needed is not None:
        timing = dataclasses.replace(timing, operations={dtype: needed})
    metric = METRIC if small else "time"
    bench.row(op, strategy, shape, dtype, timing, metric=metric)
    bench.figure(op, strategy, shape, dtype, "error", "relative", error)


def ours(
    bench: Any, op: str, strategy: str, shape: str, make: Callable, arrays: tuple,
    alone: bool = True, **given: Any,
) -> None:  # fmt: skip
    """Keep a program of the course: ``make(stream)`` gives its launches.

    One launch gets its arrays as arguments, whose copies then take turns. Several cannot, nor, not
    `alone`, one that works in place: their data is more than a cache holds, or the cache is emptied
    before each.
    """

    def queued(stream: Any) -> Callable[[], None]:
        launches = make(stream)
        bench.cuda.synchronize()  # their memory is filled, whatever the stream

        def whole(*_: Any) -> None:
            for launch, arguments in launches:
                launch(*arguments)

        return whole

    try:
        launches = make(0)
    except Exception as problem:  # a strategy that this GPU does not have
        bench.failures.append(f"{op} {strategy} {shape}: {backend.one_line(problem, 400)}")
        return
    call, args = launches[0]
    if len(launches) > 1 or not alone:
        evicts_itself = footprint(arrays) > 4 * bench.roofs.l2_bytes
        call, args = queued(0), arrays if evicts_itself else ()
    keep(bench, op, strategy, shape, call=call, args=args,
         graph=lambda calls: of_numba(bench, queued, calls), **given)  # fmt: skip


def theirs(
    bench: Any, op: str, strategy: str, shape: str, call: Callable, args: tuple, **given: Any
) -> None:
    """Keep a program of PyTorch, of tensors."""

    def graph(calls: int) -> Captured:
        return of_torch(lambda: call(*args), calls)

    keep(bench, op, strategy, shape, call=call, args=args, graph=graph, **given)
