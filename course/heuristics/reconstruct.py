"""Which step rebuilds an image from its SVD, and with which tiles: what was measured on an H200."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from course.backend import cuda, gpu
from course.heuristics.device import ceil_div, hopper_refusal, multiprocessors, round_up

Array = Any  # of NumPy, CuPy, PyTorch or numba.cuda

ENOUGH = 2e9  # operations from which tensor cores win, splitting included, on an H200
#: Operations and singular values from which Hopper's warpgroups win, likewise.
GROUPS_ENOUGH, GROUPS_FROM = 1.5e8, 64
#: Singular values from which tensor cores win without that pass, likewise: of one image, and the
#: pixels that it must have, and of each image of a stack.
THIN_FROM, THIN_PIXELS, THIN_OF_MANY = 40, 2**22, 32
SMALL_K = 16  # singular values below which tiles of 128 x 128 win nowhere, likewise
DEEPEST = 56  # singular values of thin tiles: what a thread's registers hold
FEW_PIXELS = 1024  # up to which nothing begins sooner than the naive kernel


class ImageProblem(NamedTuple):
    """What decides between the steps."""

    rows: int
    columns: int
    k: int
    images: int  # in a stack, 0 for one that is in none
    capability: tuple[int, int]  # of the GPU
    strided: str = ""  # which arrays' rows are strided, in words

    @classmethod
    def of_shape(cls, rows: int, columns: int, k: int, images: int = 0) -> ImageProblem:
        """That of arrays in C order on the current GPU."""
        capability = tuple(cuda.get_current_device().compute_capability)
        return cls(rows, columns, k, images, capability)

    @classmethod
    def of(cls, u: Array, s: Array, vt: Array, out: Array, k: int) -> ImageProblem:
        *images, rows, columns = out.shape
        strided = ", ".join(
            f"those of {name} lie {array.strides[-1]} bytes apart"
            for array, name in ((u, "u"), (s, "s"), (vt, "vt"), (out, "out"))
            if array.strides[-1] != 4
        )
        return cls.of_shape(rows, columns, k, *images)._replace(strided=strided)


def _fills_tiles(p: ImageProblem) -> bool:
    """Whether tiles of 128 x 128 pixels are full enough, and as many as multiprocessors need."""
    down, across = ceil_div(p.rows, 128), ceil_div(p.columns, 128)
    filled, tiles = p.rows * p.columns / (2**14 * down * across), max(p.images, 1) * down * across
    if p.columns % 4:
        return p.k >= 64 and filled >= 0.6 and tiles >= 2 * multiprocessors()
    return filled >= 0.4 and tiles >= 0.45 * multiprocessors()


def best_step(p: ImageProblem) -> str:
    """The fastest that is as accurate as float32.

    A tile a warp for few singular values, small images and rows that begin anywhere; tensor cores
    where there is enough work for a pass that splits the factors, Hopper's by warpgroups; warp
    tiles, or thin ones, between. In the simulator the naive kernel, which costs least there, and
    warp tiles for stacks.
    """
    if not gpu():
        return "warp tiles" if p.images else "naive"
    if p.rows * p.columns <= FEW_PIXELS and p.k <= 2 and not p.images:
        return "naive"
    operations, pixels, one = 2 * p.rows * p.columns * p.k, p.rows * p.columns, not p.images
    if one and operations >= GROUPS_ENOUGH and p.k >= GROUPS_FROM and not hopper_refusal():
        return "warpgroups"
    if one and operations >= ENOUGH and p.k > SMALL_K and p.capability >= (7, 5):
        return "tensor cores"
    if p.k < SMALL_K or not _fills_tiles(p):
        return "warp per tile"
    least = THIN_FROM if one else THIN_OF_MANY
    thin = p.columns % 4 == 0 and least <= p.k <= DEEPEST
    thin &= p.capability >= (8, 0)
    return "tensor cores" if thin and (p.images or pixels >= THIN_PIXELS) else "warp tiles"


# --- tiles of a step ------------------------------------------------------------------------------

CONSUMERS = 2  # warpgroups, 64 rows of results each
ROWS, DEPTH = 64 * CONSUMERS, 64  # of a tile of u: 128 bytes of a row


class WarpgroupConfig(NamedTuple):
    """A block's tile of results, `ROWS` high: its columns, and slots for tiles of the factors."""

    columns: int
    slots: int

    threads = property(lambda self: 128 * (CONSUMERS + 1))
    slot = property(lambda self: (ROWS + self.columns) * DEPTH)  # elements
    shared = property(lambda self: 2 * self.slots * self.slot)  # bytes

    def tiles(self, rows: int, columns: int) -> int:
        return ceil_div(rows, ROWS) * ceil_div(columns, self.columns)


WARPGROUP_CONFIGS = WarpgroupConfig(192, 5), WarpgroupConfig(128, 6), WarpgroupConfig(64, 8)


@functools.lru_cache(maxsize=1024)
def config_for(rows: int, columns: int, blocks: int) -> WarpgroupConfig:
    """The config whose waves over so many blocks take the least time."""
    waves = lambda its: ceil_div(its.tiles(rows, columns), blocks)  # noqa: E731
    return min(WARPGROUP_CONFIGS, key=lambda its: waves(its) * its.columns)


WARPS = 4  # of a block


class WarpTile(NamedTuple):
    """The tile of a warp."""

    lanes: int  # side by side: 8, 16 or 32; the others have further rows
    rows: int  # of a lane, a multiple of 4
    columns: int  # of a lane; if `wide`, a multiple of 4
    deep: int  # values of i that are loaded at a time; with all rows a multiple of 32
    wide: bool = False  # four columns are loaded and stored at once
    shared: bool = False  # by a block's warps, each of which takes some of i

    block_rows = property(lambda self: self.rows * (32 // self.lanes))
    block_columns = property(lambda self: self.lanes * self.columns)
    threads = property(lambda self: 32 * WARPS)
    of_block = property(lambda self: 1 if self.shared else WARPS)  # tiles

    def tiles(self, rows: int, columns: int) -> int:
        return ceil_div(rows, self.block_rows) * ceil_div(columns, self.block_columns)


#: Tiles of a warp: on an H200 one of the others than the second is within 3% of the fastest of 22;
#: that one waits half as often where singular values are many.
TILES = (
    WarpTile(32, 4, 2, 8), WarpTile(32, 4, 2, 16), WarpTile(32, 8, 1, 8), WarpTile(16, 8, 1, 8),
    WarpTile(32, 16, 2, 4), WarpTile(32, 8, 4, 8, wide=True),
)  # fmt: skip
MANY_K = 48  # singular values from which on 16 are loaded at a time
WARPS_AT_WORK = 8  # of a multiprocessor, from which on more of them take longer


@functools.lru_cache(maxsize=4096)
def tile_for(rows: int, columns: int, k: int, images: int, wide: bool, processors: int) -> WarpTile:
    """The tile that takes least, by what a lane does and how often all multiprocessors are filled.

    `wide`: rows of vt and of the result begin at multiples of 16 bytes.
    """

    def cost(its: WarpTile) -> float:
        deep = round_up(k, its.deep)
        loads = its.columns // 4 if its.wide else its.columns
        one = 100 + deep * (its.rows * its.columns + loads + 0.75 * its.block_rows + 20 / its.deep)
        return one * max(1, images * its.tiles(rows, columns) / (processors * WARPS_AT_WORK))

    fit = (its for its in TILES if (wide or not its.wide) and (its.deep <= 8 or k >= MANY_K))
    return min(fit, key=cost)


class TensorConfig(NamedTuple):
    """The sizes of the tiles, which are tuned."""

    rows: int = 64  # results of a warp: a multiple of 16
    columns: int = 32  # and of 8
    warps_down: int = 2  # of a block
    warps_across: int = 4
    asynchronous: bool = True  # copies bypass the registers, a product has 16 i (8.0); or 8 (7.5)
    max_registers: int = 128  # of a thread

    block_rows = property(lambda self: self.rows * self.warps_down)
    block_columns = property(lambda self: self.columns * self.warps_across)
    threads = property(lambda self: 32 * self.warps_down * self.warps_across)


TENSOR_CONFIGS = {
    "sm_75": TensorConfig(warps_across=2, asynchronous=False, max_registers=255),
    "sm_90": TensorConfig(),
}
