"""Which step rebuilds an image from its SVD, with which tiles: by times fitted on an H200."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from course.backend import cuda, gpu
from course.heuristics.device import ceil_div, hopper_refusal, multiprocessors, round_up

Array = Any  # of NumPy, CuPy, PyTorch or numba.cuda

TENSOR_FLOPS = 2e9  # operations from which tensor cores win, splitting included, before Hopper
TILES_FROM, LIBRARY_FROM = 16, 32  # singular values from which stacks take warp tiles, or cuBLAS
DEEPEST = 56  # singular values of thin tiles, at most: a thread's registers hold no more
MOST = 65_535  # rows of blocks, or images, that a grid can have


class ImageProblem(NamedTuple):
    """What decides between the steps."""

    rows: int
    columns: int
    k: int
    images: int  # of a stack; 0 for one image that is no stack
    capability: tuple[int, int]  # of the GPU
    whole: bool = True  # rows of u and vt begin at multiples of 16 bytes
    strided: str = ""  # which arrays' rows are strided, in words
    in_rows: bool = True  # in vt and in the result each lies behind the one before it

    @classmethod
    def of_shape(cls, rows: int, columns: int, k: int, images: int = 0) -> ImageProblem:
        """The problem of arrays in C order on the current GPU."""
        capability = tuple(cuda.get_current_device().compute_capability)
        return cls(rows, columns, k, images, capability, min(rows, columns) % 4 == columns % 4 == 0)

    @classmethod
    def of(cls, u: Array, s: Array, vt: Array, out: Array, k: int) -> ImageProblem:
        *images, rows, columns = out.shape
        strided = ", ".join(
            f"those of {name} lie {array.strides[-1]} bytes apart"
            for array, name in ((u, "u"), (s, "s"), (vt, "vt"), (out, "out"))
            if array.shape[-1] > 1 and array.strides[-1] != 4
        )
        whole = u.shape[-1] % 4 == columns % 4 == 0
        in_rows = all(a.shape[-2] == 1 or a.strides[-2] >= 4 * columns for a in (vt, out))
        p = cls.of_shape(rows, columns, k, *images)
        return p._replace(whole=whole, strided=strided, in_rows=in_rows)


def best_step(p: ImageProblem) -> str:
    """The step of the least modelled time, of those that are as accurate as float32.

    Before Hopper one image takes tensor cores where the work pays for the pass that splits the
    factors. What has more images or rows than a grid can have takes a tile a warp. The simulator
    runs the naive kernel, which costs least there, and warp tiles for stacks.
    """
    if p.images > MOST or p.rows > MOST * (128 if gpu() else 16):
        return "warp per tile"
    if not gpu():
        return "warp tiles" if p.images else "naive"
    shape, wide, processors = p[:3], p.columns % 4 == 0, multiprocessors()
    if p.images:
        times = stack_times(p, processors)
        return min(times, key=times.get)
    tiles = ceil_div(p.rows, 128) * ceil_div(p.columns, 128)
    tile = tile_for(*shape, 0, wide, processors)
    times = {"warp per tile": tile.time(*shape, processors)}
    if p.whole:
        one = 0.12 + 0.58 * ceil_div(tiles, processors)  # microseconds of a step, 8 deep
        times["warp tiles"] = 2.8 + one * ceil_div(p.k, 8)
    if not hopper_refusal():
        times["warpgroups"] = config_for(*shape, processors).time(*shape, processors)
    elif 2 * math.prod(shape) >= TENSOR_FLOPS and p.k > TILES_FROM and p.capability >= (7, 5):
        return "tensor cores"
    return min(times, key=times.get)


# --- tiles of a step ------------------------------------------------------------------------------

CONSUMERS = 2  # warpgroups, 64 rows of results each
ROWS, DEPTH = 64 * CONSUMERS, 64  # of a tile of u: 128 bytes of a row


class WarpgroupConfig(NamedTuple):
    """A block's tile of results, `ROWS` high: its columns, and the stages of its ring."""

    columns: int
    slots: int

    threads = property(lambda self: 128 * (CONSUMERS + 1))
    slot = property(lambda self: (ROWS + self.columns) * DEPTH)  # elements
    shared = property(lambda self: 2 * self.slots * self.slot)  # bytes

    def tiles(self, rows: int, columns: int) -> int:
        return ceil_div(rows, ROWS) * ceil_div(columns, self.columns)

    def time(self, rows: int, columns: int, k: int, blocks: int) -> float:
        """Microseconds on an H200: splitting the factors is included, storing the pixels is not."""
        splitting = ceil_div(ceil_div(rows, 16) + ceil_div(columns, 32), 2 * blocks)  # in waves
        one = 0.16 + 0.0095 * ceil_div(k, DEPTH) * (self.columns + 16)
        waves = ceil_div(self.tiles(rows, columns), blocks)
        return 5.1 + 1.1 * (columns % 4 > 0) + 1.4 * splitting + one * waves


WARPGROUP_CONFIGS = WarpgroupConfig(192, 5), WarpgroupConfig(128, 6), WarpgroupConfig(64, 8)


def config_for(rows: int, columns: int, k: int, blocks: int) -> WarpgroupConfig:
    """The config whose waves over so many blocks take the least time."""
    return min(WARPGROUP_CONFIGS, key=lambda its: its.time(rows, columns, k, blocks))


WARPS = 4  # of a block


class WarpTile(NamedTuple):
    """The tile of a warp."""

    lanes: int  # along a row of the tile: 8, 16 or 32; the warp's other lanes have rows below
    rows: int  # of a lane, a multiple of 4
    columns: int  # of a lane; if `wide`, a multiple of 4
    deep: int  # values of i loaded at a time, a power of two; times `block_rows` a multiple of 32
    wide: bool = False  # four columns are loaded and stored at once
    shared: bool = False  # a block's warps share the tile, and each takes a part of the values of i

    block_rows = property(lambda self: self.rows * (32 // self.lanes))
    block_columns = property(lambda self: self.lanes * self.columns)
    threads = property(lambda self: 32 * WARPS)
    of_block = property(lambda self: 1 if self.shared else WARPS)  # tiles of a block

    def tiles(self, rows: int, columns: int) -> int:
        return ceil_div(rows, self.block_rows) * ceil_div(columns, self.block_columns)

    def time(self, rows: int, columns: int, k: int, processors: int) -> float:
        """Microseconds of one image on an H200, without those in which pixels are stored."""
        steps = ceil_div(k, self.deep * (WARPS if self.shared else 1))
        loads = self.columns / 4 if self.wide else self.columns
        work = self.deep * (self.rows * self.columns + 4.2 * loads + 0.53 * self.block_rows)
        blocks = ceil_div(ceil_div(self.tiles(rows, columns), self.of_block), processors)
        waves = ceil_div(blocks, 3 if self.shared else 4)  # so many blocks fit the registers
        summed = 0.0081 * self.rows * self.columns if self.shared else 0
        return 2.3 + 0.2 * steps * waves + (6e-4 * steps * work + summed) * blocks

    def stack_time(self, rows: int, columns: int, k: int, images: int, processors: int) -> float:
        """Microseconds of a stack on an H200, without those in which DRAM is the limit."""
        each, at_once = STACK_TILES[self]
        waves = images * self.tiles(rows, columns) / (processors * at_once)
        return 2 + (0.48 + each * round_up(k, self.deep)) * (1 + waves**1.6) ** (1 / 1.6)


#: On an H200 the best of these is slower than the best of 24 by 1% in the mean, 13% at most.
TILES = (
    WarpTile(32, 4, 2, 8), WarpTile(32, 8, 2, 8), WarpTile(32, 8, 1, 8), WarpTile(16, 8, 1, 8),
    WarpTile(32, 16, 2, 4), WarpTile(32, 8, 4, 8, wide=True),
    WarpTile(16, 8, 4, 8, False, shared=True), WarpTile(16, 8, 4, 8, True, shared=True),
    WarpTile(16, 8, 2, 8, False, shared=True), WarpTile(8, 4, 4, 8, True, shared=True),
)  # fmt: skip
#: Microseconds of a stack for a singular value; tiles that a multiprocessor computes at once.
STACK_TILES = {
    WarpTile(32, 4, 2, 8): (0.0285, 6.6), WarpTile(32, 8, 1, 8): (0.034, 9),
    WarpTile(16, 8, 1, 8): (0.031, 6.8), WarpTile(32, 16, 2, 4): (0.058, 5.2),
    WarpTile(32, 8, 3, 8): (0.0585, 6.8), WarpTile(16, 8, 2, 8): (0.0295, 4),
    WarpTile(16, 16, 2, 4): (0.061, 4.7), WarpTile(32, 8, 4, 8, wide=True): (0.052, 5),
}  # fmt: skip


def tile_for(rows: int, columns: int, k: int, images: int, wide: bool, processors: int) -> WarpTile:
    """The tile of the least time. wide: rows have whole fours. images: 0 if one is no stack."""
    fit = [its for its in (STACK_TILES if images else TILES) if wide >= its.wide]
    if images:  # of one image alone warps may share a tile: a stack's sums keep their order
        return min(fit, key=lambda its: its.stack_time(rows, columns, k, images, processors))
    return min(fit, key=lambda its: its.time(rows, columns, k, processors))


def stack_times(p: ImageProblem, processors: int) -> dict[str, float]:
    """Microseconds of a stack on an H200 by the steps that can be the fastest."""
    shape, eighths = (*p[:3], p.images), ceil_div(p.k, 8)
    tile = tile_for(*shape, p.columns % 4 == 0, processors)
    times = {"warp per tile": tile.stack_time(*shape, processors)}
    waves = ceil_div(p.images * ceil_div(p.rows, 128) * ceil_div(p.columns, 128), processors)
    if p.k >= TILES_FROM and p.whole:
        times["warp tiles"] = 2 + (0.63 + 0.72 * eighths) * waves
    if TILES_FROM <= p.k <= DEEPEST and p.columns % 4 == 0 and p.capability >= (8, 0):
        times["tensor cores"] = 2 + (3.8 + 0.07 * eighths) * waves
    if p.k >= LIBRARY_FROM and p.in_rows and not p.whole:
        waves = ceil_div(p.images * ceil_div(p.rows, 64) * ceil_div(p.columns, 64), processors)
        times["library"] = 4.9 + (0.78 + 0.177 * eighths) * waves + p.images * p.rows * p.k / 3.1e5
    moved = p.images * (p.rows * p.columns + (p.rows + p.columns) * p.k) / 5.9e5
    return {step: (time**4 + moved**4) ** 0.25 for step, time in times.items()}


class TensorConfig(NamedTuple):
    """The sizes of the tiles, which are tuned."""

    rows: int = 64  # of a warp's results: a multiple of 16
    columns: int = 32  # of a warp's results: a multiple of 8
    warps_down: int = 2  # of a block
    warps_across: int = 4
    asynchronous: bool = True  # cp.async, and mma of depth 16: compute capability 8.0; else depth 8
    max_registers: int = 128  # of a thread

    block_rows = property(lambda self: self.rows * self.warps_down)
    block_columns = property(lambda self: self.columns * self.warps_across)
    threads = property(lambda self: 32 * self.warps_down * self.warps_across)


TENSOR_CONFIGS = {
    "sm_75": TensorConfig(warps_across=2, asynchronous=False, max_registers=255),
    "sm_90": TensorConfig(),
}
