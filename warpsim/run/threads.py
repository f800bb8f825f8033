"""The threads of a chunk of blocks, running a lane program in step."""

from __future__ import annotations

import math
import sys
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from warpsim.core import masks
from warpsim.core.masks import Control, EndlessLoop, Loop, Mask
from warpsim.core.memory import Array, Memory, contiguous_strides
from warpsim.core.operators import FAR_BELOW
from warpsim.core.views import Ragged
from warpsim.front.elementwise import Elementwise
from warpsim.front.names import Unsupported
from warpsim.ptx.fragment_twins import Fragments
from warpsim.ptx.vectors import Vectors
from warpsim.run import deadlock
from warpsim.run.atomics import Atomics
from warpsim.run.elements import Addresses, Records
from warpsim.run.exceptions import Raising
from warpsim.run.exchange import Warps
from warpsim.run.whole_arrays import Reductions
from warpsim.watch.advice import bounds_cure
from warpsim.watch.counts import Counters, Counting
from warpsim.watch.findings import ERRORS, Finding, KernelError, Where, in_function, index_names
from warpsim.watch.races import Races
from warpsim.watch.uninitialised_reads import Unwritten

ndarray = np.ndarray
#: How deep a device function may call itself, and the Python frames that this takes.
DEEPEST, FRAMES = 1_000, 12_000
Dim3 = tuple[int, int, int]


class Lanes:
    """Lanes within their blocks: the same for each part of a launch.

    Parameters
    ----------
    shape : (x, y, z)
        Of a block.
    block, inside : ndarray of int64, (lanes,)
        Which of the part's blocks a lane belongs to, and its number in there; from the shape's
        number of threads on it only fills its block's last warp.
    """

    def __init__(self, shape: Dim3, block: ndarray, inside: ndarray):
        self.shape, self.block, self.lane = shape, block, np.arange(len(inside))
        active = inside < math.prod(shape)
        self.root = Mask(active, int(np.count_nonzero(active)), None)
        self.inside = np.where(active, inside, 0)
        self.laneid = inside % 32

    def _axis(self, axis: int):
        size = self.shape[axis]
        below = math.prod(self.shape[:axis])
        return self.inside // below % size if size > 1 else 0

    threadIdx = cached_property(lambda self: tuple(map(self._axis, range(3))))


@lru_cache(maxsize=8)
def whole_blocks(shape: Dim3, blocks: int) -> Lanes:
    """The lanes of so many blocks, each padded to whole warps."""
    padded = -(-math.prod(shape) // 32) * 32
    block, inside = np.divmod(np.arange(blocks * padded), padded)
    return Lanes(shape, block, inside)


class Geometry:
    """The indices of the threads of some consecutive blocks, or of a warp in one.

    A value that all threads share is a Python int. ``start`` is the number of the first lane's
    thread in the grid, whose blocks are padded to whole warps.
    """

    def __init__(self, grid: Dim3, first: int, blocks: int, lanes: Lanes, warp: int = 0):
        self.grid, self.block_shape, self.first, self.blocks = grid, lanes.shape, first, blocks
        self.threads = math.prod(lanes.shape)
        self.padded = -(-self.threads // 32) * 32
        self.start = first * self.padded + 32 * warp
        self.lanes, self.lane, self.block = len(lanes.lane), lanes.lane, lanes.block
        self.root, self.laneid = lanes.root, lanes.laneid
        self.threadIdx_x, self.threadIdx_y, self.threadIdx_z = self.threadIdx = lanes.threadIdx
        self._indices: dict[int, Any] = {}

    def _block_axis(self, axis: int):
        size = self.grid[axis]
        below = math.prod(self.grid[:axis])
        if self.blocks == 1:
            return self.first // below % size
        numbers = np.arange(self.first, self.first + self.blocks)
        return np.repeat(numbers // below % size, self.padded) if size > 1 else 0

    blockIdx_x = cached_property(lambda self: self._block_axis(0))
    blockIdx_y = cached_property(lambda self: self._block_axis(1))
    blockIdx_z = cached_property(lambda self: self._block_axis(2))

    @cached_property
    def thread_number(self) -> ndarray:
        """Number of each lane's thread in the whole grid, blocks padded to whole warps."""
        return (self.lane + self.start).astype(np.int32)

    def index(self, axis: int):
        """The thread's index in the whole grid along an axis."""
        if axis not in self._indices:
            first = self._block_axis(axis) * self.block_shape[axis]
            self._indices[axis] = first + self.threadIdx[axis]
        return self._indices[axis]

    @property
    def indices(self) -> tuple:
        """The same along each axis."""
        return tuple(map(self.index, range(3)))


@lru_cache(maxsize=32)
def geometry(grid: Dim3, block: Dim3, first: int, blocks: int) -> Geometry:
    """The indices of some blocks; kept, as launches come back with the same shapes."""
    return Geometry(grid, first, blocks, whole_blocks(block, blocks))


def _of_geometry(name: str) -> property:
    return property(lambda self: getattr(self.geometry, name))


class Threads(
    Control,
    Memory,
    Vectors,
    Fragments,
    Ragged,
    Records,
    Addresses,
    Raising,
    Elementwise,
    Reductions,
    Atomics,
    Races,
    Unwritten,
    Warps,
    Counting,
):
    """What a lane program sees as ``T``."""

    threadIdx_x, threadIdx_y, threadIdx_z = map(
        _of_geometry, ("threadIdx_x", "threadIdx_y", "threadIdx_z")
    )
    blockIdx_x, blockIdx_y, blockIdx_z = map(
        _of_geometry, ("blockIdx_x", "blockIdx_y", "blockIdx_z")
    )
    laneid = _of_geometry("laneid")

    def __init__(self, launch: Any, geometry: Geometry):
        self.launch, self.geometry = launch, geometry
        self.lanes, self.blocks, self.padded = geometry.lanes, geometry.blocks, geometry.padded
        self.lane, self.block = geometry.lane, geometry.block
        self.root = self.mask = geometry.root
        self.exited: ndarray | None = None
        self.counters: Counters | None = launch.counters
        self.dynamic_shared: int = launch.dynamic_shared
        self.shared_bytes = self.dynamic_shared
        self.step_limit = masks.STEP_LIMIT.get()
        self.sites, self.base = launch.sites, 0
        self.calling: Any = None  # the line on which a function of another module was called
        self.blockDim_x, self.blockDim_y, self.blockDim_z = geometry.block_shape
        self.gridDim_x, self.gridDim_y, self.gridDim_z = geometry.grid
        self._highest: dict = {}
        self._scaled: dict = {}
        self._patterns: dict = {}
        self._allocated: dict = {}
        self.depth = 0  # calls of functions by themselves
        self.counted_apart = False  # the elements of one access, touched one by one
        self.copies: list[Any] = []  # asynchronous copies under way, oldest first
        self.groups: Any = 0  # of copies that each thread has closed

    # ------------------------------------------------------------------ places
    def site(self, number: int):
        return self.sites[self.base + number]

    @property
    def function(self) -> str:
        return self.launch.name

    def call(self, program, base: int, site: int | None, *arguments):
        """Call a device function; its places follow those of its caller.

        ``site`` is the call's own, if the function is one of another module.
        """
        outer, calling = self.base, self.calling
        if site is not None and calling is None:
            self.calling = self.site(site)
        if self.calling is not None and self.counters is not None:
            self.counters.called.setdefault(program.__name__, self.calling)
        self.base = outer + base
        try:
            return program(self, *arguments)
        finally:
            self.base, self.calling = outer, calling

    def again(self, program, *arguments):
        """Call the device function that is running, from inside itself."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise RecursionError(
                f"{self.launch.name}: {program.__name__} calls itself more than {DEEPEST:,} times "
                "deep; a GPU's stack is full long before"
            )
        if sys.getrecursionlimit() < FRAMES:
            sys.setrecursionlimit(FRAMES)  # for good: it is the process's, and has other threads
        try:
            return program(self, *arguments)
        finally:
            self.depth -= 1

    def grid(self, dimensions: int):
        index = self.geometry.index
        return index(0) if dimensions == 1 else tuple(map(index, range(dimensions)))

    def gridsize(self, dimensions: int):
        geometry = self.geometry
        sizes = tuple(a * b for a, b in zip(geometry.grid, geometry.block_shape, strict=True))
        return sizes[0] if dimensions == 1 else sizes[:dimensions]

    def where(self, lane: int) -> Where:
        """Block and thread of a lane."""
        return self.where_of(self.geometry.start + lane)

    @property
    def thread_number(self) -> ndarray:
        """Number of each lane's thread in the whole grid, blocks padded to whole warps."""
        return self.geometry.thread_number

    def where_of(self, thread: int) -> Where:
        """Block and thread of a thread's number."""
        geometry = self.geometry
        block, inside = divmod(thread, self.padded)
        return Where(_unravel(block, geometry.grid), _unravel(inside, geometry.block_shape))

    # ------------------------------------------------------------------ findings
    def finding(
        self, kind: str, message: str, site: int, lane: int | None, whole: bool = False
    ) -> Finding:
        place = self.site(site)
        message += in_function(place, self.launch.name)
        where = None if lane is None else self.where(lane)
        call = self.calling and (self.calling.line, self.calling.code)
        return Finding(kind, place.line, place.code, message, where, call, whole, place.function)

    def found(
        self, kind: str, message: str, site: int, lane: int | None, whole: bool = False
    ) -> None:
        finding = self.finding(kind, message, site, lane, whole)
        if self.counters is not None:
            self.launch.findings.setdefault((kind, self.site(site)), finding)
        elif kind in ERRORS:
            raise KernelError(finding, self.launch.name)

    def out_of_bounds(self, array, index, axis, outside, site, op) -> None:
        if op == "view":
            op = "load"
        lanes = np.flatnonzero(outside)
        lane = int(lanes[0])
        values = tuple(int(i[lane]) if type(i) is ndarray else int(i) for i in index)
        wrapped = values[axis] < -(FAR_BELOW >> 1) or values[axis] >> 63 == 1
        values = tuple(i + FAR_BELOW + (1 << 64) if i < -(FAR_BELOW >> 1) else i for i in values)
        spelled = ", ".join(str(value) for value in values)
        names = index_names(self.site(site), len(index))
        size = int(_flat(array.shape[axis], lane))
        others = f" ({len(lanes):,} threads in all)" if len(lanes) > 1 else ""
        axis_name = f"axis {axis} of {array.name}" if array.ndim > 1 else array.name
        verb = {"load": "reads", "store": "writes", "atomic": "updates"}[op]
        if wrapped:
            cure = (
                "the index is unsigned and went below zero, where nothing counts from the end: "
                "subtract signed integers, such as int32, and guard with `>= 0`"
            )
        else:
            if type(array.shape[axis]) is ndarray:  # each lane has a size of its own
                outside = self.lane == lane
            full = np.broadcast_to(np.asarray(index[axis]), (self.lanes,))
            cure = bounds_cure(self, array, names[axis], axis, full, outside, size, op)
        self.found(
            "out-of-bounds",
            f"{verb} {array.name}[{spelled}], but {axis_name} has size {size}{others}: {cure}",
            site,
            lane,
        )

    def negative_index(self, array, index, axis, lane, site, op) -> None:
        i = index[axis]
        value = int(i[lane]) if type(i) is ndarray else int(i)
        self.found(
            "negative-index",
            f"uses index {value} on axis {axis} of {array.name}, which counts from the end: Numba "
            "wraps it, at the price of a test in every access; make sure that it is meant",
            site,
            lane,
        )

    def barrier_divergence(
        self, arrived: int, expected: int, lane: int, site: int, of: str = "block"
    ) -> None:
        self.found(
            "barrier-divergence",
            f"does not reach this barrier, and {arrived:,} of the {of}'s {expected:,} threads do: "
            "on a GPU they wait for ever or go on with half the data; move it out of the branch",
            site,
            lane,
        )

    def watch(self, array: Array, uniform, varying, mask: Mask, site: int, op: str, value) -> None:
        """Races, and reads of shared and local memory that nobody has written."""
        root = array.root
        if root.written is None and root.shadow is None:
            return
        if varying is None and array.space == "local" and root.shadow is None:
            if self.is_written(root.written, uniform, mask, op):
                return
        if op == "load" and root.shadow is not None:
            if self.put_off_load(array, uniform, varying, mask):
                return
        elements = self.elements(array, uniform, varying)
        if root.pending is not None and self.meets_copy(array, elements, mask, site, op):
            return
        if root.written is not None:
            self.watch_unwritten(array, elements, mask, site, op)
        if root.shadow is not None:
            self.look_for_races(array, elements, mask, site, op, value)

    def spelled(self, array: Array, element: int) -> str:
        """An element of an allocation as source would write it, such as ``tile[3, 4]``."""
        root = array.root
        if root.space == "shared":
            element %= max(1, root.flat.size // self.blocks)
        elif root.space == "local":
            element //= self.lanes
        if root.strides != contiguous_strides(root.shape) or root.offset != 0:
            return f"an element of {array.name}"
        index = np.unravel_index(int(element), root.shape) if root.shape else ()
        return f"{array.name}[{', '.join(str(i) for i in index)}]"

    # ------------------------------------------------------------------ errors
    def long_loop(self, loop: Loop, frame: Any) -> None:
        """Stop a loop that is past its limit, or in which nothing changes from pass to pass."""
        self.launch.progress.look(self.launch.name, frame)
        if loop.steps > loop.due:
            self._judge_loop(loop, frame)
        loop.patience = min(loop.steps + min(loop.steps, masks.EACH_TIME), loop.due)

    def _judge_loop(self, loop: Loop, frame: Any) -> None:
        limit = self.step_limit
        if limit == masks.ENDLESS:
            limit = max(limit, getattr(loop, "total", 0))
        if loop.steps > limit:
            self.endless(loop)
        now = deadlock.variables(self, frame, loop.idle)
        same = now is not None and loop.seen[:1] == (now,)
        if same and len(loop.seen) == 1:
            loop.seen = (now, deadlock.memory(self, frame))
        elif same and loop.seen[1] == deadlock.memory(self, frame):
            self.stuck(loop)
        elif not loop.seen and now is not None:
            loop.seen = (now,)
        else:  # it goes on: look again when it is twice as old
            loop.seen, loop.due = (), min(2 * loop.steps, limit)

    def stuck(self, loop: Loop) -> None:
        sites = self.sites[self.base :]
        after = [s for s in sites if s.line >= loop.line and not s.code.endswith(":")]
        first = min(after, key=lambda site: (not site.array, site.line), default=None)
        at = f", at {first.code}" if first is not None else ""
        raise EndlessLoop(
            f"{self.launch.name}, line {loop.line}: {self.mask.count:,} threads wait for ever in "
            f"this loop{at}: no variable and no memory changes any more. Is its "
            "condition ever false? A lock or a flag between threads of a block cannot be waited "
            "for here: its threads run in step, so the one that should change it does not go on "
            "before the others do; on a GPU that may hang, too. Let one thread of a block wait, "
            "use atomics that need no lock, or cuda.syncthreads()"
        )

    def endless(self, loop: Loop) -> None:
        raise EndlessLoop(
            f"{self.launch.name}, line {loop.line}: this loop has run {self.step_limit:,} times "
            f"and {self.mask.count:,} threads are still in it; is its condition ever false?"
        )

    def wrong_dimensions(self, array: Array, index: tuple, site: int) -> None:
        raise TypeError(
            f"line {self.site(site).line}: {array.name} has {array.ndim} dimensions, "
            f"{len(index)} indices given"
        )

    def merged_arrays(self, where, new, old):
        if new.root is old.root and new.strides == old.strides:
            shape = tuple(
                a if a is b or (type(a) is type(b) is int and a == b) else np.where(where, a, b)
                for a, b in zip(new.shape, old.shape, strict=True)
            )
            same = type(new.offset) is type(old.offset) is int and new.offset == old.offset
            offset = new.offset if same else np.where(where, new.offset, old.offset)
            return new.derived(shape, new.strides, offset)
        raise Unsupported(
            f"{self.launch.name}: an array is chosen by thread ({new.name} for some, {old.name} "
            "for others), which the simulator cannot do; choose the element instead"
        )

    def constant_store(self, array: Array, site: int) -> None:
        raise TypeError(
            f"line {self.site(site).line}: {self.site(site).code} writes to a constant array"
        )

    def check_shared(self, site: int) -> None:
        limit = self.launch.gpu.shared_per_block
        static = self.shared_bytes - self.dynamic_shared
        if static > 49_152 or self.shared_bytes > limit:
            raise Unsupported(
                f"{self.launch.name}: {self.shared_bytes:,} bytes of shared memory a block; the "
                f"{self.launch.gpu.name} has 49,152 for shared.array and {limit:,} in all"
            )

    def print(self, *parts) -> None:
        """``print``: a line for each active thread, in their order."""
        template = " ".join(form for form, _ in parts)
        for lane in self.mask.indices:
            print(
                template
                % tuple(_flat(value, lane) for _, value in parts for value in _leaves(value))
            )


def _leaves(value):
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _flat(value, lane: int):
    return value[lane] if type(value) is ndarray else value


def _unravel(number: int, shape: Dim3) -> Dim3:
    x, y, _ = shape
    return number % x, number // x % y, number // (x * y)
