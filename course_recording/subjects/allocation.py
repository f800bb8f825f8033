"""Memory for each call: allocated anew, from a library's pool, or one buffer used again.

A call doubles an array, ``out = 2 x``: it gets memory for the result, launches one kernel, frees
the result. Each library is compared with itself, so that the launch costs the same: Numba, which
asks the driver each time; CuPy without its pool and with it; PyTorch with its caching allocator;
and each of them with one buffer that is used again. Data stays where the call before left it
(`warm`), since a pool, too, returns the same memory again.

==============  ==================================================================================
metric          what the clock saw
==============  ==================================================================================
``time``        the GPU alone: calls queued behind a busy kernel, where they can be
``hidden``      1 where they could: the host asked for memory and launched while the GPU was busy;
                0 where a call waits for the GPU, so that ``time`` includes the host's time
``launch``      the host alone: calls in a row, without waiting for the GPU
``call``        the host, for one call until the result is there
``in a row``    the host, for 16 calls until the last result is there, divided by 16
``first``       the host, for one call after the pool gave all its memory back
==============  ==================================================================================
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from course.measure import event_clock
from course.measure.timing import sampled, timing_of

SIZES = (1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26, 1 << 28)  # bytes of the result
THREADS = 256
CALLS, SECONDS = 100, 0.5
IN_A_ROW = 16


@dataclass(frozen=True)
class Way:
    """A way to get memory for a result.

    Attributes
    ----------
    name : str
    call : callable
        ``call(*args)`` returns the result.
    args : tuple
    buffer : device array or None
        The result's memory, where one buffer is used again.
    empty : callable or None
        Makes the pool give its memory back.
    within : callable
        Returns a context manager, within which calls are made.
    """

    name: str
    call: Callable[..., Any]
    args: tuple[Any, ...]
    buffer: Any = None
    empty: Callable[[], Any] | None = None
    within: Callable[[], Any] = contextlib.nullcontext


def run(bench):
    """Time a call in each way, for each size."""
    for size in bench.parts(SIZES):
        values = bench.random(size // 4)
        expected = 2 * values.astype(np.float64)
        for ways in (ways_of_numba, ways_of_cupy, ways_of_torch):
            for way in ways(bench, values):
                with way.within():
                    measured(bench, way, size, expected)


# ---------------------------------------------------------------------- ways
def ways_of_numba(bench, values: np.ndarray) -> Iterator[Way]:
    """Numba without a pool: it asks the driver, and frees several allocations at a time."""
    cuda, n = bench.cuda, len(values)

    @cuda.jit
    def double(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + x[i]

    x, buffer = cuda.to_device(values), cuda.device_array(n, np.float32)
    launch = double[-(-n // THREADS), THREADS]

    def doubled(x, out=None):
        out = cuda.device_array(n, np.float32) if out is None else out
        launch(x, out)
        return out

    yield Way("Numba, each call", doubled, (x,))
    yield Way("Numba, one buffer", doubled, (x, buffer), buffer)


def ways_of_cupy(bench, values: np.ndarray) -> Iterator[Way]:
    """CuPy without a pool, with a new pool of CuPy's type, and with one buffer."""
    cupy = bench.peer("cupy")
    if not cupy:
        return
    x, pool = cupy.asarray(values), cupy.cuda.MemoryPool()
    buffer = cupy.empty_like(x)
    two = np.float32(2)

    def double(x, out=None):
        return cupy.multiply(x, two, out=out)

    without_pool, with_pool = (
        partial(cupy.cuda.using_allocator, its) for its in (None, pool.malloc)
    )
    yield Way("CuPy, each call", double, (x,), within=without_pool)
    yield Way("CuPy, pool", double, (x,), empty=pool.free_all_blocks, within=with_pool)
    yield Way("CuPy, one buffer", double, (x, buffer), buffer)


def ways_of_torch(bench, values: np.ndarray) -> Iterator[Way]:
    """PyTorch with its caching allocator, and with one buffer."""
    torch = bench.peer("torch")
    if not torch:
        return
    x = torch.from_numpy(values).cuda()
    buffer = torch.empty_like(x)

    def double(x, out=None):
        return torch.mul(x, 2, out=out)

    yield Way("PyTorch, pool", double, (x,), empty=torch.cuda.empty_cache)
    yield Way("PyTorch, one buffer", double, (x, buffer), buffer)


# ---------------------------------------------------------------------- clocks
def measured(bench, way: Way, size: int, expected: np.ndarray) -> None:
    """Check a way and keep its rows; a failure stops nothing else."""
    about = ("memory", way.name, f"{size}", "float32")
    try:
        error = bench.check(way.call, way.args, expected, out=way.buffer, limit=0)
        timing = bench.time(way.call, way.args, bytes=2 * size, warm=True, name=way.name)
        waits = by_the_wall(way)
    except Exception as problem:  # whatever a library raises, the others are still measured
        bench.fail(" ".join(about[:3]), problem)
        return
    bench.row(*about, timing)
    bench.figure(*about, "error", "relative", error)
    bench.figure(*about, "hidden", "hidden", timing.hidden)
    bench.figure(*about, "launch", "ms", timing.launch)
    for metric, times in waits.items():
        bench.row(*about, timing_of(times), metric=metric)


def by_the_wall(way: Way) -> dict[str, list[float]]:
    """How long a caller waits [ms], by metric."""
    clock = event_clock.clock()

    def once():
        way.call(*way.args)

    def several():
        for _ in range(IN_A_ROW):
            way.call(*way.args)

    clock.warm_up(itertools.repeat(once))
    found = {"call": sampled(lambda: clock.wall(once), CALLS, SECONDS, clock.now)}
    found["in a row"] = sampled(lambda: clock.wall(several) / IN_A_ROW, CALLS, SECONDS, clock.now)
    if way.empty is not None:
        found["first"] = []
        for _ in range(5):
            clock.cuda.synchronize()
            way.empty()
            found["first"].append(clock.wall(once))
    return found
