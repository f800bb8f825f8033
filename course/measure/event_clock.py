"""How long the GPU works on a launch, read with CUDA events.

Three things stand between a launch and its time. The host needs longer to launch a short kernel
than the GPU to run it, so launches are queued behind a busy kernel and run back to back. Data that
the launch before left in the L2 cache makes the next one faster, so launches alternate between
copies of the data. And clocks rise with work, so work comes first, and there are many samples.

A copy has the shape, the strides and the alignment of its original (to 256 bytes), since a kernel's
time depends on them: a copy of ``u[:, :k]`` stays a slice of wide rows.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

#: Steps of the busy kernel that the first one takes, to learn how long a step is.
_TRIAL_STEPS = 20_000
#: How much longer than the host's launching the busy kernel runs.
_MARGIN = 1.5
_QUEUE = 256  # launches that the driver surely takes before it makes the host wait
_TRIES = 6  # how often the head start is doubled, if launches were not hidden


class EventClock:
    """Times launches on the default stream of one GPU.

    Parameters
    ----------
    cuda : module
        numba.cuda.
    busy : callable, optional
        Called with a number of steps, launches a kernel of one thread that takes them one by one.
    empty_l2 : callable, optional
        Launches a kernel that reads so much memory that L2 holds nothing else afterwards.
    now : callable, optional
        The host's clock [s].
    """

    def __init__(
        self,
        cuda: Any,
        busy: Callable[[int], None] | None = None,
        empty_l2: Callable[[], None] | None = None,
        now: Callable[[], float] = time.perf_counter,
    ):
        self.cuda, self.now = cuda, now
        if busy is None or empty_l2 is None:
            own_busy, own_empty = _gpu_kernels(cuda)
            busy, empty_l2 = busy or own_busy, empty_l2 or own_empty
        self.busy, self.empty_l2 = busy, empty_l2
        self._steps_in_ms: float | None = None

    # ------------------------------------------------------------------ the host's side
    def wall(self, call: Callable[[], Any]) -> float:
        """Milliseconds on the host until the call's work is done."""
        self.cuda.synchronize()
        start = self.now()
        call()
        self.cuda.synchronize()
        return (self.now() - start) * 1e3

    def launch_cost(
        self, calls: Iterator[Callable[[], Any]], in_a_row: int = 16, seconds: float = 0.05
    ) -> float:
        """Milliseconds that the host spends on a launch: the median of batches of `in_a_row`.

        A call that waits for its own result shows as one that takes as long as its work.
        """
        costs: list[float] = []
        end = self.now() + seconds
        while len(costs) < 3 or (self.now() < end and len(costs) < 100):
            self.cuda.synchronize()
            batch = [next(calls) for _ in range(in_a_row)]
            start = self.now()
            for call in batch:
                call()
            costs.append((self.now() - start) * 1e3 / in_a_row)
        self.cuda.synchronize()
        return float(np.median(costs))

    def warm_up(self, calls: Iterator[Callable[[], Any]], seconds: float = 0.05) -> float:
        """Work for a while, so that clocks rise; returns about what a call takes [ms]."""
        start, done = self.now(), 0
        while done < 1 or self.now() < start + seconds:
            next(calls)()
            done += 1
            if done % 8 == 1:
                self.cuda.synchronize()
        self.cuda.synchronize()
        return (self.now() - start) * 1e3 / done

    # ------------------------------------------------------------------ the GPU's side
    def between_events(self, call: Callable[[], Any]) -> float:
        """Milliseconds between two events around a call, nothing queued in front."""
        start, end = self.cuda.event(), self.cuda.event()
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(self.cuda.event_elapsed_time(start, end))

    def keep_busy(self, milliseconds: float) -> None:
        """Queue the busy kernel for about so long."""
        if self._steps_in_ms is None:
            self.busy(_TRIAL_STEPS)
            taken = min(self.between_events(lambda: self.busy(_TRIAL_STEPS)) for _ in range(3))
            self._steps_in_ms = _TRIAL_STEPS / taken
        self.busy(max(int(milliseconds * self._steps_in_ms), 1))

    def queued(
        self, calls: Sequence[Callable[[], Any]], head_start: float, *, empty_l2: bool = False
    ) -> tuple[float, bool]:
        """Milliseconds for all calls, launched while the GPU is busy for `head_start` ms.

        Returns
        -------
        milliseconds : float
            From the end of the busy kernel to the end of the last call.
        hidden : bool
            The GPU was still busy when the host had launched the last: no launch cost inside.
        """
        start, end = self.cuda.event(), self.cuda.event()
        self.cuda.synchronize()
        if empty_l2:
            self.empty_l2()
        self.keep_busy(head_start)
        start.record()
        for call in calls:
            call()
        hidden = not start.query()
        end.record()
        end.synchronize()
        return float(self.cuda.event_elapsed_time(start, end)), hidden

    def samples(
        self,
        calls: Iterator[Callable[[], Any]],
        count: int,
        launch_cost: float,
        *,
        seconds: float = 1.0,
        together: int | None = None,
        empty_l2: bool = False,
    ) -> tuple[list[float], bool]:
        """Milliseconds a call, `count` times or as often as the seconds allow (at least 5).

        Parameters
        ----------
        calls : iterator of callables, without end
            Launch the same work, each on the next copy of the data.
        launch_cost : float
            Of one call on the host [ms].
        together : int, optional
            Calls in one sample; without it so many that a sample takes about a millisecond.
        empty_l2 : bool
            Empty the cache before each sample.

        Returns
        -------
        samples : list of float
        hidden : bool
            Whether the host's launching was hidden in every sample. It cannot be when a call
            waits for its result.
        """
        if together is None:
            trial = [next(calls) for _ in range(4)]
            taken, _ = self.queued(trial, _MARGIN * len(trial) * launch_cost + 0.2)
            together = int(min(max(round(len(trial) / max(taken, 1e-6)), 1), _QUEUE))
        # The limit is for calls that wait for their results: no head start hides their launches.
        head_start = min(_MARGIN * together * launch_cost + 0.1, 50.0)
        found: list[float] = []
        all_hidden, tries = True, 0
        end = self.now() + seconds
        while len(found) < count and (len(found) < 5 or self.now() < end):
            batch = [next(calls) for _ in range(together)]
            taken, hidden = self.queued(batch, head_start, empty_l2=empty_l2)
            if not hidden and tries < _TRIES:
                tries, head_start = tries + 1, min(2 * head_start, 50.0)
                continue
            all_hidden &= hidden
            found.append(taken / together)
        return found, all_hidden


@functools.cache
def clock() -> EventClock:
    """The clock of this machine's GPU."""
    from course import backend

    return EventClock(backend.cuda)


def l2_bytes(cuda: Any) -> int:
    """Bytes of the GPU's L2 cache, as its driver says."""
    return int(cuda.get_current_device().L2_CACHE_SIZE)


def _gpu_kernels(cuda: Any) -> tuple[Callable[[int], None], Callable[[], None]]:
    """The busy kernel and the one that empties L2, ready to be launched."""
    from numba import float32, uint64

    @cuda.jit
    def count_down(out, steps):
        # each step needs the one before (G. Marsaglia's xorshift): nothing to run ahead with
        state = uint64(88172645463325252)
        for _ in range(steps):
            state ^= state << uint64(13)
            state ^= state >> uint64(7)
            state ^= state << uint64(17)
        out[0] = state

    @cuda.jit
    def read_all(out, values):
        total = float32(0)
        for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
            total += values[i]
        if total == float32(-1):  # never: the values are 0, but no compiler knows
            out[0] = total

    result = cuda.device_array(1, np.uint64)
    never = cuda.device_array(1, np.float32)
    filler = cuda.to_device(np.zeros(max(2 * l2_bytes(cuda), 1 << 20) // 4, np.float32))
    blocks = 8 * cuda.get_current_device().MULTIPROCESSOR_COUNT
    busy, empty = count_down[1, 1], read_all[blocks, 256]
    return lambda steps: busy(result, steps), lambda: empty(never, filler)


# --- copies of a call's arrays: each launch takes the next, so that it finds a cold cache ---------

ALIGNMENT = 256  # bytes; what a fresh allocation has at least


def is_device_array(value: Any) -> bool:
    """Whether a value lies on the device: of Numba, CuPy or PyTorch."""
    if is_torch(value):
        return bool(value.is_cuda)
    return getattr(value, "__cuda_array_interface__", None) is not None


def is_torch(value: Any) -> bool:
    """Whether a value is PyTorch's, without importing it."""
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "untyped_storage")


def span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """First and last byte, relative to element 0, that an array's elements touch.

    Returns
    -------
    first : int
        Zero or, with a negative stride, less.
    end : int
        One behind the last byte; equal to `first` without elements.
    """
    if any(size == 0 for size in shape):
        return 0, 0
    steps = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return sum(min(step, 0) for step in steps), itemsize + sum(max(step, 0) for step in steps)


def footprint(values: Sequence[Any]) -> int:
    """Bytes of all arrays among some arguments, each array once."""
    total = 0
    for value in {id(value): value for value in values}.values():
        if isinstance(value, np.ndarray) or is_device_array(value) or hasattr(value, "_memory"):
            size = getattr(value, "nbytes", None)
            if size is None:
                size = math.prod(value.shape) * np.dtype(value.dtype).itemsize
            total += int(size)
    return total


def occupied(value: Any) -> int:
    """Bytes from a device array's first element to its last: what a copy of it takes."""
    if is_torch(value):
        return int(value.untyped_storage().nbytes())
    first, end = span(*_layout(value))
    return end - first


def _layout(value: Any) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, strides and bytes of an element."""
    given = value.__cuda_array_interface__
    itemsize, shape = np.dtype(given["typestr"]).itemsize, tuple(given["shape"])
    strides = given.get("strides")
    if strides is None:
        strides = tuple(itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return shape, tuple(strides), itemsize


def copy_of(value: Any, cuda: Any) -> Any:
    """A copy of a device array, of the same library, shape, strides and alignment."""
    from course.dispatch.slots import DeviceMemory  # loads Numba

    if is_torch(value):
        import torch

        flat = value.detach()
        storage = flat.untyped_storage().clone()
        twin = torch.empty(0, dtype=flat.dtype, device=flat.device)
        return twin.set_(storage, flat.storage_offset(), flat.size(), flat.stride())
    given = value.__cuda_array_interface__
    first, end = span(*_layout(value))
    if first == end:
        return value
    start = given["data"][0] + first
    memory = cuda.device_array(ALIGNMENT + end - first, np.uint8)
    base = memory.__cuda_array_interface__["data"][0]
    begin = base + (start - base) % ALIGNMENT
    source = cuda.as_cuda_array(DeviceMemory(start, (end - first,), None, "|u1", value))
    target = cuda.as_cuda_array(DeviceMemory(begin, (end - first,), None, "|u1", memory))
    target.copy_to_device(source)
    twin = DeviceMemory(
        begin - first, given["shape"], given.get("strides"), given["typestr"], memory
    )
    if type(value).__module__.split(".")[0] == "cupy":
        import cupy

        return cupy.asarray(twin)
    return cuda.as_cuda_array(twin)


def sets_of_arguments(
    arguments: Sequence[Any],
    cuda: Any,
    *,
    cold: bool,
    l2: int,
    free: int,
    most: int,
    host_arrays: bool,
) -> list[tuple[Any, ...]]:
    """Some sets of arguments that share no memory, together larger than twice the L2 cache.

    Parameters
    ----------
    arguments : sequence
        The first set; NumPy arrays among them go to the device when `host_arrays` is true.
    cold : bool
        Whether copies are made at all; without it the first set is the only one.
    l2, free : int
        Bytes of the cache, and of the memory that copies may take.
    most : int
        Sets at most.

    Returns
    -------
    list of tuples
        An array that is passed twice is one array in each set, too.
    """
    placed: dict[int, Any] = {}
    for value in arguments:
        if host_arrays and isinstance(value, np.ndarray) and id(value) not in placed:
            placed[id(value)] = cuda.to_device(value)
    first = tuple(placed.get(id(value), value) for value in arguments)
    arrays = list({id(value): value for value in first if is_device_array(value)}.values())
    touched = footprint(arrays)
    if not cold or touched == 0:
        return [first]
    memory = sum(ALIGNMENT + occupied(value) for value in arrays)
    count = min(max(math.ceil(2 * l2 / touched), 2), most, 1 + int(free // memory))
    sets = [first]
    for _ in range(count - 1):
        twins = {id(value): copy_of(value, cuda) for value in arrays}
        sets.append(tuple(twins.get(id(value), value) for value in first))
    return sets
