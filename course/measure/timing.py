"""How long something takes: `benchmark` for kernels and functions, `transfers` for copies.

On a GPU, times are the GPU's own, read with CUDA events: the first call (compiling) apart, after a
warm-up, launches queued so that the host's launch cost is not inside, on data that is not in the
L2 cache. Without a GPU nothing is timed that a GPU would do: what comes back is the least time that
the work could take on a named GPU, and what was recorded on one.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from course import backend
from course.measure import roofline
from course.measure.roofline import Bound, Roofs, kinds, time_text
from warpsim.core.words import wrapped
from warpsim.host.device import NoTime
from warpsim.run.kernel import Configured, Kernel

if TYPE_CHECKING:
    from course.measure.event_clock import EventClock
    from course.measure.recorded import Figure

NOT_TIMED = math.nan
LONG = 2.0  # [ms] each call that takes longer is a sample by itself


@dataclass(frozen=True)
class Timing:
    """A time [ms], measured, recorded or a bound; shows itself.

    Attributes
    ----------
    median, q1, q3 : float
        Of a bound all three are the bound.
    n : int
        Samples; 0 where nothing was measured.
    first_call : float
        What the first call took the host until its work was done; NaN where nothing was measured.
    launch : float
        What the host spends on a launch, not contained in the median; NaN where not measured.
    source : {"measured", "bound", "recorded"}
    name, device : str
        What, and on which GPU or processor.
    cold : bool or None
        Each launch found its data in device memory (True), or where the launch before left it
        (False), such as in the L2 cache; None where nothing was measured or there is no data.
    compiled : bool
        The first call compiled the kernel.
    hidden : bool
        The host's launching was hidden behind a busy kernel; else it may be in the times.
    bytes, operations
        What was given or counted, see `course.measure.roofline.bound`; None where it is not known.
    bound : Bound or None
        The least time on this GPU, where bytes or operations are known.
    recorded : Figure or None
        What was recorded of the same kernel on a GPU.
    samples : tuple of float
    """

    median: float
    q1: float
    q3: float
    n: int
    first_call: float = NOT_TIMED
    launch: float = NOT_TIMED
    source: str = "measured"
    name: str = ""
    device: str = ""
    cold: bool | None = None
    compiled: bool = False
    hidden: bool = True
    bytes: float | None = None
    operations: Mapping[str, float] | None = None
    bound: Bound | None = field(default=None, repr=False)
    recorded: Figure | None = field(default=None, repr=False)
    samples: tuple[float, ...] = field(default=(), repr=False)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the median lies with 95% confidence, see `median_interval`; NaN without samples."""
        return median_interval(self.samples)

    @property
    def gigabytes_per_second(self) -> float:
        """Bytes / median [10⁹ bytes/s]; NaN where the bytes are not known."""
        return self.bytes / self.median * 1e-6 if self.bytes else math.nan

    @property
    def teraflops(self) -> float:
        """Floating-point operations / median [10¹²/s]; NaN where they are not known."""
        done = roofline.with_roof(self.operations or {})
        return done / self.median * 1e-9 if done else math.nan

    def __str__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        if self.source == "bound":
            lines = [f"{name}no GPU here, so no time", f"  {self.bound.sentence}"]
        else:
            spread = f"(middle half {time_text(self.q1)} to {time_text(self.q3)}, n = {self.n})"
            lines = [f"{name}{time_text(self.median)} {spread} on {self.device}, {self.source}"]
            lines += [f"  {line}" for line in self._conditions()]
            if self.bound is not None:
                share = self.bound.milliseconds / self.median
                lines.append(f"  {share:.0%} of what the roofs allow: {self.bound.sentence}")
        if self.recorded is not None:
            lines.append(f"  {self.recorded}")
        return wrapped("\n".join(lines))

    __repr__ = __str__

    def _conditions(self) -> Iterator[str]:
        if not math.isnan(self.interval[0]):
            yield "median between {} and {}, at 95%".format(*map(time_text, self.interval))
        if not math.isnan(self.first_call):
            yield f"first call {time_text(self.first_call)}" + self.compiled * ", compiling"
        if not math.isnan(self.launch):
            yield f"a launch costs the host {time_text(self.launch)}" + (
                ", not counted" if self.hidden else ", part of the time: it could not be hidden"
            )
        if self.cold is not None:
            yield "data from device memory" if self.cold else "data where the last call left it"


def timing_of(samples: list[float], **facts: Any) -> Timing:
    """The timing of some samples [ms]: median and quartiles."""
    q1, median, q3 = (float(value) for value in np.percentile(samples, (25, 50, 75)))
    return Timing(median, q1, q3, len(samples), samples=tuple(map(float, samples)), **facts)


def timing_of_bound(least: Bound, name: str, recorded: Figure | None) -> Timing:
    """A bound in place of a time that nobody measured."""
    return Timing(
        *[least.milliseconds] * 3, 0, source="bound", name=name, device=least.roofs.gpu,
        bytes=least.bytes, operations=least.operations, bound=least, recorded=recorded,
    )  # fmt: skip


def sampled(
    sample: Callable[[], float], count: int, seconds: float,
    now: Callable[[], float] = time.perf_counter,
) -> list[float]:  # fmt: skip
    """Samples, `count` of them or as many as the seconds allow; at least 5."""
    found: list[float] = []
    end = now() + seconds
    while len(found) < count and (len(found) < 5 or now() < end):
        found.append(sample())
    return found


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Where the median of all possible samples lies, by order statistics.

    Each sample falls below that median with probability 1/2, whatever the distribution. So the
    number of samples below it is binomial. That gives the probability that the median lies between
    the j-th smallest and the j-th largest sample. j is the largest for which that probability is at
    least `confidence`. The samples must be independent of each other.
    Source: Hoefler and Belli, Scientific benchmarking of parallel computing systems, 2015, rule 5.

    Returns
    -------
    (float, float)
        NaN where there are too few samples for that confidence: below 6 for 95%.
    """
    n, j, outside = len(samples), 0, 0.0
    while j < n // 2:
        outside += 2 * math.comb(n, j) * 0.5**n  # fewer than j + 1 on one side, or on the other
        if outside > 1 - confidence:
            break
        j += 1
    if not j:
        return math.nan, math.nan
    ordered = sorted(samples)
    return float(ordered[j - 1]), float(ordered[n - j])


# ---------------------------------------------------------------------- benchmark
def benchmark(
    call: Callable[..., Any],
    *args: Any,
    bytes: float | None = None,
    operations: float | Mapping[str, float] | None = None,
    gpu: str | Roofs | None = None,
    host: bool = False,
    warm: bool = False,
    samples: int = 30,
    seconds: float = 1.0,
    name: str | None = None,
) -> Timing:
    """Time a kernel on the GPU, or any function; without a GPU give a kernel's bound.

    Parameters
    ----------
    call : ``kernel[grid, block]``, or a callable
        A callable such as a CuPy or PyTorch function works on the GPU's default stream.
    *args
        NumPy arrays of a kernel are copied to the device once and stay as they are; CuPy and
        PyTorch arrays are taken where they lie. Launches work on copies of device arrays.
    bytes, operations : optional
        What the work moves and does, as in `course.measure.roofline.bound`: the result then says
        how near the roof it is, and a time that is too short is refused. Without a GPU they replace
        a trace of the launch, which is slow unless the data is small.
    gpu : str or Roofs, optional
        Whose roofs count. Without it those of the GPU here, else of the simulated one.
    host : bool
        Time a function by the host's clock until all its work is done, such as a CPU program, or
        one that copies to the GPU and back.
    warm : bool
        Let each launch find its data where the one before left it, such as in L2.
    samples : int
        How many at most; fewer (at least 5) where they would take longer than `seconds`.
    name : str, optional
        What the result is called; without it the function's name.

    Returns
    -------
    Timing

    Raises
    ------
    TypeError
        For a kernel without grid and block, or what cannot be called.
    ValueError
        Without a GPU, for a function of which neither bytes nor operations are given.
    course.measure.roofline.ImpossibleFigure
        When the measured time is shorter than the roofs allow.
    course.KernelError
        Without a GPU, when the trace finds an error in the kernel.
    """
    _check(call, samples, seconds)
    name = name or _name_of(call)
    if host:
        return _benchmark_host(call, args, bytes, operations, samples, seconds, name)
    if backend.gpu() is None:
        return _bound_instead(call, args, bytes, operations, gpu, name)
    from course.measure.event_clock import clock

    timing = measure(
        clock(), call, args, bytes=bytes, operations=operations, roofs=roofs_here(gpu),
        warm=warm, samples=samples, seconds=seconds, name=name,
    )  # fmt: skip
    from course.measure.recorded import longest_recorded

    return replace(timing, recorded=longest_recorded(name))


def measure(
    clock: EventClock,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    bytes: float | None = None,
    operations: float | Mapping[str, float] | None = None,
    roofs: Roofs | None,
    warm: bool,
    samples: int,
    seconds: float,
    name: str,
) -> Timing:
    """Time a call with a clock for the GPU; see `benchmark`."""
    from course.measure import event_clock
    from course.measure.event_clock import l2_bytes

    cuda = clock.cuda
    l2, free = l2_bytes(cuda), int(cuda.current_context().get_memory_info().free)
    sets = event_clock.sets_of_arguments(
        args, cuda, cold=not warm, l2=l2, free=free // 2, most=256,
        host_arrays=is_launch(call),
    )  # fmt: skip
    calls = itertools.cycle([functools.partial(call, *chosen) for chosen in sets])
    before = compiled_versions(call)
    first_call = clock.wall(next(calls))
    compiled = before is not None and compiled_versions(call) > before
    about = clock.warm_up(calls)
    launch = clock.launch_cost(calls, 1 if about > LONG else 16)
    arrays = [value for value in sets[0] if event_clock.is_device_array(value)]
    total = len(sets) * event_clock.footprint(arrays)
    # Data that is no argument has no copies to alternate, so L2 is emptied before each call.
    alone = not warm and len(sets) == 1 and total < 2 * l2 and not is_launch(call)
    times, hidden = clock.samples(
        calls, samples, launch, seconds=seconds,
        together=1 if alone or about > LONG else None, empty_l2=not warm and total < 2 * l2,
    )  # fmt: skip
    amounts = None if operations is None else kinds(operations)
    least = None
    if roofs is not None and (bytes is not None or amounts is not None):
        least = roofline.bound(bytes or 0, amounts or 0, roofs)
    timing = timing_of(
        times, first_call=first_call, launch=launch, name=name, device=backend.gpu() or roofs.gpu,
        cold=None if is_launch(call) and not arrays else not warm, compiled=compiled,
        hidden=hidden, bytes=bytes, operations=amounts, bound=least,
    )  # fmt: skip
    if roofs is not None:
        # Small data may still lie in L2 when the clock stops: device memory's roof proves nothing.
        roofline.refuse_impossible(
            timing.median, bytes, amounts, roofs, in_l2=warm or total < 2 * l2, what=name
        )
    return timing


def _benchmark_host(call, args, bytes, operations, samples, seconds, name) -> Timing:
    if is_launch(call) and backend.gpu() is None:
        raise NoTime(
            f"{name}: without a GPU the kernel runs on the simulator, whose seconds say nothing "
            "about a GPU. Leave host=True out to get the bound of a named GPU."
        )
    wait = backend.cuda.synchronize if backend.gpu() is not None else lambda: None
    with _no_simulated_launch(name):
        first_call = _wall(call, args, wait)
        times = sampled(lambda: _wall(call, args, wait), samples, seconds)
    return timing_of(
        times, first_call=first_call, name=name, device=processor(), cold=False, bytes=bytes,
        operations=None if operations is None else kinds(operations),
    )  # fmt: skip


def _wall(call, args, wait) -> float:
    start = time.perf_counter()
    call(*args)
    wait()
    return (time.perf_counter() - start) * 1e3


def _bound_instead(call, args, bytes, operations, gpu, name) -> Timing:
    roofs = roofline.roofs_of(gpu)
    if bytes is not None or operations is not None:
        least = roofline.bound(bytes or 0, operations or 0, roofs)
    elif isinstance(call, Configured):
        least = roofline.bound_of(_trace(call, args), roofs)
    else:
        raise ValueError(
            f"benchmark({name}): there is no GPU here, and a function's work cannot be counted. "
            "Give bytes= and operations= to get its bound, or host=True if it runs on the CPU."
        )
    from course.measure.recorded import longest_recorded

    return timing_of_bound(least, name, longest_recorded(name))


def _trace(call: Configured, args: tuple[Any, ...]) -> Any:
    """Trace a launch on copies of its arrays; KernelError when it finds an error."""
    from warpsim import KernelError, trace
    from warpsim import cuda as host

    twins: dict[int, Any] = {}
    for value in args:
        if isinstance(value, np.ndarray):
            twins[id(value)] = value.copy(order="K")
        elif hasattr(value, "_memory"):
            twins[id(value)] = host.to_device(value)
    report = trace(
        call.kernel, call.grid, call.block, *(twins.get(id(value), value) for value in args),
        dynamic_shared=call.sharedmem,
    )  # fmt: skip
    for finding in report.findings:
        if finding.is_error:
            raise KernelError(finding, report.kernel)
    return report


# ---------------------------------------------------------------------- what was given
def is_launch(call: Any) -> bool:
    """Whether it is a kernel with its grid and block: of numba.cuda or of the simulator."""
    return isinstance(call, Configured) or hasattr(call, "dispatcher")


def _check(call: Any, samples: int, seconds: float) -> None:
    is_kernel = isinstance(call, Kernel) or (hasattr(call, "py_func") and hasattr(call, "forall"))
    if is_kernel:
        raise TypeError(
            f"benchmark({call.__name__}, ...): the kernel has no grid and block; "
            f"write benchmark({call.__name__}[grid, block], ...)"
        )
    if not callable(call):
        raise TypeError(
            f"benchmark(call, *args): the first is kernel[grid, block] or a function; got {call!r}"
            + ". Give the function itself, without calling it." * (call is None)
        )
    if samples < 5 or not seconds > 0:
        raise ValueError(
            f"benchmark(samples={samples}, seconds={seconds}): at least 5 samples, and a time "
            "above 0; quartiles of fewer say nothing"
        )


def _name_of(call: Any) -> str:
    for holder in (call, getattr(call, "kernel", None), getattr(call, "dispatcher", None)):
        named = getattr(holder, "__name__", None) or getattr(
            getattr(holder, "py_func", None), "__name__", None
        )
        if named:
            return named
    return type(call).__name__


def compiled_versions(call: Any) -> int | None:
    """How many compiled versions a kernel has, None for a function."""
    overloads = getattr(getattr(call, "dispatcher", None), "overloads", None)
    return None if overloads is None else len(overloads)


def roofs_here(gpu: str | Roofs | None = None) -> Roofs | None:
    """The roofs to hold a figure against; a GPU that nobody listed has none until measured."""
    try:
        return roofline.roofs_of(gpu)
    except ValueError:
        if gpu is not None:
            raise
        return None


def processor() -> str:
    """What this machine's CPU calls itself."""
    import platform
    from pathlib import Path

    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "this CPU"


@contextmanager
def _no_simulated_launch(name: str) -> Iterator[None]:
    """Refuse a function that launches kernels on the simulator: its seconds mean nothing."""
    from warpsim.run import kernel

    run = kernel.run_kernel

    def refuse(*_: Any, **__: Any) -> None:
        raise NoTime(
            f"{name} launches a kernel on the simulator, whose seconds say nothing about a GPU. "
            "Without a GPU, benchmark(kernel[grid, block], ...) gives the bound of a named GPU."
        )

    kernel.run_kernel = refuse
    try:
        yield
    finally:
        kernel.run_kernel = run
