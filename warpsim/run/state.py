"""What all parts of the running threads share: where they are, which are active, what is found."""

import math
import operator
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy import ndarray

from warpsim.core.masks import Mask
from warpsim.core.memory import Array, contiguous_strides
from warpsim.front.names import Site
from warpsim.watch.counts import PATTERNS, Counters
from warpsim.watch.findings import ERRORS, Finding, Where, error_of, in_function

Dim3 = tuple[int, int, int]


class Lanes:
    """Lanes within their blocks, of a shape: the same for each part of a launch.

    ``block`` says which of the part's blocks a lane belongs to, ``inside`` its number in there;
    from the shape's number of threads on it only fills its block's last warp.
    """

    def __init__(self, shape: Dim3, block: ndarray, inside: ndarray):
        self.shape, self.block, self.lane = shape, block, np.arange(len(inside))
        active = inside < math.prod(shape)
        self.root = Mask(active, int(np.count_nonzero(active)), None)
        self.inside = np.where(active, inside, 0)
        self.laneid = inside % 32

    @cached_property
    def threadIdx(self) -> tuple:
        below = (math.prod(self.shape[:axis]) for axis in range(3))
        both = zip(self.shape, below, strict=True)
        return tuple(self.inside // step % size if size > 1 else 0 for size, step in both)


@lru_cache(maxsize=8)
def whole_blocks(shape: Dim3, blocks: int) -> Lanes:
    """The lanes of so many blocks, each padded to whole warps."""
    padded = -(-math.prod(shape) // 32) * 32
    block, inside = np.divmod(np.arange(blocks * padded), padded)
    return Lanes(shape, block, inside)


class Geometry:
    """The indices of the threads of some consecutive blocks, or of a warp in one.

    ``start`` is the number of the first lane's thread in the grid, with padded blocks.
    """

    def __init__(self, grid: Dim3, first: int, blocks: int, lanes: Lanes, warp: int = 0):
        self.grid_shape, self.block_shape = grid, lanes.shape
        self.first, self.blocks = first, blocks
        self.threads = math.prod(lanes.shape)
        self.padded = -(-self.threads // 32) * 32
        self.start = first * self.padded + 32 * warp
        self.lanes, self.lane, self.block = len(lanes.lane), lanes.lane, lanes.block
        self.root, self.laneid = lanes.root, lanes.laneid
        self.threadIdx_x, self.threadIdx_y, self.threadIdx_z = self.threadIdx = lanes.threadIdx
        self.blockDim_x, self.blockDim_y, self.blockDim_z = lanes.shape
        self.gridDim_x, self.gridDim_y, self.gridDim_z = grid
        self._indices: dict[int, Any] = {}

    def _block_axis(self, axis: int):
        size = self.grid_shape[axis]
        below = math.prod(self.grid_shape[:axis])
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
        if axis not in self._indices:
            first = self._block_axis(axis) * self.block_shape[axis]
            self._indices[axis] = first + self.threadIdx[axis]
        return self._indices[axis]

    indices = property(lambda self: tuple(map(self.index, range(3))))

    def grid(self, dimensions: int):
        return self.index(0) if dimensions == 1 else self.indices[:dimensions]

    def gridsize(self, dimensions: int):
        sizes = tuple(map(operator.mul, self.grid_shape, self.block_shape))
        return sizes[0] if dimensions == 1 else sizes[:dimensions]

    def where(self, thread: int) -> Where:
        """Block and thread of a thread's number in the grid, blocks padded to whole warps."""
        block, inside = divmod(thread, self.padded)
        return Where(_unravel(block, self.grid_shape), _unravel(inside, self.block_shape))


@lru_cache(maxsize=32)
def geometry(grid: Dim3, block: Dim3, first: int, blocks: int) -> Geometry:
    """The indices of some blocks; kept, as launches come back with the same shapes."""
    return Geometry(grid, first, blocks, whole_blocks(block, blocks))


def _unravel(number: int, shape: Dim3) -> Dim3:
    x, y, _ = shape
    return number % x, number // x % y, number // (x * y)


class State:
    """The running threads of a chunk of blocks."""

    def __init__(self, launch: Any, geometry: Geometry):
        self.launch, self.geometry = launch, geometry
        self.lanes, self.blocks, self.padded = geometry.lanes, geometry.blocks, geometry.padded
        self.lane, self.block = geometry.lane, geometry.block
        self.root = self.mask = geometry.root  # the lanes that are threads, and that are active
        self.exited: ndarray | None = None  # those that have returned from the kernel
        self.counters: Counters | None = launch.counters
        self.sites, self.base = launch.sites, 0  # a device function's places follow its caller's
        self.calling: Site | None = None  # where a function of another module was called
        self.depth = 0  # calls of functions by themselves
        self.allocated: dict[Any, Array] = {}  # shared and local arrays that were made, by place
        self.patterns: dict[tuple, tuple] = {}

    @property
    def alive(self) -> ndarray:
        return self.root.active if self.exited is None else self.root.active & ~self.exited

    def active_part(self, bad: ndarray | None) -> Mask:
        """The active lanes, less those whose address is bad."""
        return self.mask if bad is None else self.mask.part(self.mask.active & ~bad)

    # ------------------------------------------------------------------ elements
    def elements(self, array: Array, uniform: int, varying: ndarray | None) -> ndarray:
        """The element of the whole allocation that each lane touches."""
        if array.space == "shared" and self.blocks > 1:
            if varying is None:
                return array.root.block_offset + uniform
            if self.counters is None:  # asked once, for a store
                full = varying + array.root.block_offset
            else:
                full = self.in_blocks(varying, array)
            return full + uniform if uniform else full
        full = np.full(self.lanes, uniform) if varying is None else varying + uniform
        return full * self.lanes + self.lane if array.space == "local" else full

    def in_blocks(self, varying: ndarray, array: Array) -> ndarray:
        """Elements of shared memory, each in its own block's; kept as other patterns are."""
        offset = array.root.block_offset
        return self.pattern(varying, offset, (), lambda: varying + offset)

    def pattern(self, varying: ndarray, mask, kind: tuple, make: Callable) -> Any:
        """What is known of an access whose lanes lie as those of an earlier one, further on."""
        key = id(varying), id(mask), kind
        found = self.patterns.get(key)
        if found is None:
            if len(self.patterns) >= PATTERNS:
                self.patterns.clear()
            found = self.patterns[key] = varying, mask, make()
        return found[2]

    # ------------------------------------------------------------------ places and findings
    def site(self, number: int) -> Site:
        return self.sites[self.base + number]

    def where(self, lane: int) -> Where:
        return self.geometry.where(self.geometry.start + lane)

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

    def finding(self, kind: str, message: str, site: int, lane: int | None, whole=False) -> Finding:
        place = self.site(site)
        message += in_function(place, self.launch.name)
        where = None if lane is None else self.where(lane)
        call = self.calling and (self.calling.line, self.calling.code)
        return Finding(kind, place.line, place.code, message, where, call, whole, place.function)

    def found(self, kind: str, message: str, site: int, lane: int | None, whole=False) -> None:
        """Note a finding of a launch that is traced; else raise it, if it is an error."""
        finding = self.finding(kind, message, site, lane, whole)
        if self.counters is not None:
            self.launch.findings.setdefault((kind, self.site(site)), finding)
        elif kind in ERRORS:
            raise error_of(finding, self.launch.name)
