"""Memory by lifetimes: buffers that are never alive at the same time may share addresses.

Each step of a forward pass reads some buffers and writes one. A buffer lives from the step that
writes it to the last step that reads it. All buffers lie in one arena. They are placed there by
falling size, each at the lowest offset where it overlaps no buffer that is alive at the same time.

>>> lives = lifetimes([("a",), ("b", "a"), ("c", "b")])       # what each step touches
>>> arena = packed(lives, {"a": 100, "b": 50, "c": 100})      # bytes
>>> arena.offsets, arena.size, arena.least
({'a': 0, 'c': 0, 'b': 256}, 512, 150)

No arena can be smaller than `least`, the most bytes that are alive at one time.

Source: Pisarchyk, Lee, "Efficient memory management for deep neural net inference",
arXiv:2001.03288 (greedy by size).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from course import backend
from course.dispatch.array_facts import handle_of
from course.dispatch.slots import DeviceMemory
from course.kernels.steps import round_up
from warpsim.host import libcuda

ALIGNED = 256  # bytes: the driver's own allocations begin at multiples of this


class Arena(NamedTuple):
    """Where buffers lie.

    Attributes
    ----------
    offsets : dict of str to int
        Bytes from the arena's start.
    size : int
        Bytes of the arena.
    least : int
        The most bytes that are alive at one time.
    apart : int
        Bytes of all buffers together without sharing.
    """

    offsets: dict[str, int]
    size: int
    least: int
    apart: int


def lifetimes(steps: Iterable[Sequence[str]]) -> dict[str, tuple[int, int]]:
    """The first and the last step that touches each buffer, from what each step touches."""
    found: dict[str, tuple[int, int]] = {}
    for number, names in enumerate(steps):
        for name in names:
            found[name] = found.get(name, (number,))[0], number
    return found


def packed(lives: Mapping[str, tuple[int, int]], sizes: Mapping[str, int]) -> Arena:
    """Place buffers with these lifetimes and sizes in bytes in an arena."""
    offsets: dict[str, int] = {}
    for name in sorted(lives, key=lambda name: -sizes[name]):
        first, last = lives[name]
        others = sorted(
            (offsets[other], offsets[other] + round_up(sizes[other], ALIGNED))
            for other in offsets
            if lives[other][0] <= last and first <= lives[other][1]
        )
        offset = 0
        for begin, end in others:
            if offset + sizes[name] <= begin:
                break
            offset = max(offset, end)
        offsets[name] = offset
    moments = range(1 + max((last for _, last in lives.values()), default=-1))
    alive = (
        sum(sizes[name] for name, (first, last) in lives.items() if first <= now <= last)
        for now in moments
    )
    size = max((offsets[name] + round_up(sizes[name], ALIGNED) for name in lives), default=0)
    apart = sum(round_up(sizes[name], ALIGNED) for name in lives)
    return Arena(offsets, size, max(alive, default=0), apart)


class Allocation:
    """Bytes from the driver's pool, allocated and freed in the order of a stream's work.

    The memory may still be in use by earlier work of the stream; freed, it goes to later work.
    The host does not wait, and in a CUDA graph allocation and free are nodes.

    Source: NVIDIA, CUDA Driver API, "Stream Ordered Memory Allocator".
    """

    def __init__(self, size: int):
        self.size, self.memory, self.free = size, None, lambda: None

    def on(self, stream: Any = 0) -> None:
        """Allocate on a stream: then `memory` is a device array, and `free` frees it."""
        if backend.gpu() is None:
            self.memory = backend.cuda.device_array(self.size, np.uint8)
            return
        address, queue = ctypes.c_uint64(), ctypes.c_void_p(handle_of(stream) if stream else 0)
        libcuda.call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(self.size), queue)
        memory = DeviceMemory(address.value, (self.size,), (1,), "|u1", None)
        self.memory = backend.cuda.as_cuda_array(memory, sync=False)
        self.free = functools.partial(libcuda.call, "cuMemFreeAsync", address, queue)


def from_pool(
    steps: Sequence[tuple[Sequence[str], Callable[[dict[str, Any]], Iterable]]],
    sizes: Mapping[str, int],
) -> Iterator:  # fmt: skip
    """Yield the launches of all steps; a step has its buffers' names, and a call for launches.

    The call takes these buffers' memory by name. An `Allocation` is yielded before the first step
    that touches a buffer, and freed after the last. The caller launches each item before the next.
    """
    lives = lifetimes(names for names, _ in steps)
    there: dict[str, Allocation] = {}
    try:
        for number, (names, listed) in enumerate(steps):
            for name in names:
                if name not in there:
                    there[name] = Allocation(sizes[name])
                    yield there[name]
            yield from listed({name: there[name].memory for name in names})
            for name in set(names):
                if lives[name][1] == number:
                    there.pop(name).free()
    finally:
        for allocation in there.values():
            allocation.free()
