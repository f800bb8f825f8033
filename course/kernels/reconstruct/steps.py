"""How a step of the ladder is launched: one kernel, or some that split the factors and one more."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from course.backend import cuda
from course.door.layout import workspace
from course.kernels.arrays import WIDE, Array, are_aligned
from course.kernels.halves.common import DEPTH
from course.kernels.launching import ready
from course.kernels.reconstruct import fragments, thin_tiles, warpgroup_tiles
from course.kernels.reconstruct.warpgroup_tiles import ROWS, TILES, Tile
from course.kernels.tensor_maps import TensorMap

FEW = 64  # values of i up to which one warp splits a fragment
#: What splits the factors, by kind: for one image u and s vt, for many u and s vt.
FRAGMENTS = {kind: fragments.splitters(kind) for kind in ("halves", "tf32")}


@dataclass(frozen=True)
class ImageStep:
    """A step of the ladder: its kernels, and how to launch them.

    Attributes
    ----------
    kernel : kernel
        Called with (u, s, vt, k, out); where `unaligned` is given, for aligned arrays.
    x_walks : {"rows", "columns"}
        What the grid's x direction runs over.
    block : (int, int)
        Threads in x and y.
    tile : (int, int), optional
        Rows and columns of pixels that a block computes; without it, one a thread.
    unaligned : kernel, optional
        The same where a row starts anywhere.
    many, many_unaligned : kernel, optional
        The same for stacks of images, one more axis in front, one image for each z of the grid.
    capability : (int, int)
        The oldest compute capability that has the instructions.
    kind : {"halves", "tf32"}, optional
        The kernels take the factors as fragments of this kind, and one launch becomes three.
    thin : ImageStep, optional
        What takes its place where k is at most `course.kernels.reconstruct.thin_tiles.DEEPEST`.
    u_anywhere : bool
        Rows of u may start anywhere for the kernels of aligned arrays, too.
    """

    kernel: Callable
    x_walks: str = "columns"
    block: tuple[int, int] = (16, 16)
    tile: tuple[int, int] | None = None
    unaligned: Callable | None = None
    many: Callable | None = None
    many_unaligned: Callable | None = None
    capability: tuple[int, int] = (5, 0)
    kind: str | None = None
    thin: "ImageStep | None" = None
    u_anywhere: bool = False

    def grid(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the blocks in x and y that cover rows x columns pixels."""
        down, across = self.tile or self.block[::-1]
        if self.x_walks == "rows":
            return -(-rows // self.block[0]), -(-columns // self.block[1])
        return -(-columns // across), -(-rows // down)

    def for_k(self, k: int) -> "ImageStep":
        """The step that is launched for k singular values: this one, or its `thin`."""
        return self.thin if self.thin and k <= thin_tiles.DEEPEST else self

    def launches(
        self, u: Array, s: Array, vt: Array, k: int, out: Array, stream: Any = 0
    ) -> list[tuple[Callable, tuple]]:
        """What is launched for arrays on the GPU: configured kernels, and their arguments.

        One kernel, or for a step that multiplies fragments three, and memory for the fragments, as
        much as for the k columns of u and rows of vt.

        Raises
        ------
        ValueError
            For stacks of images, where the step takes one image only.
        """
        if (chosen := self.for_k(k)) is not self:
            return chosen.launches(u, s, vt, k, out, stream)
        fits = factors_are_aligned(vt if self.u_anywhere else u, vt, out)
        grid: tuple[int, ...] = self.grid(*out.shape[-2:])
        if out.ndim == 2:
            kernel = self.kernel if fits or self.unaligned is None else self.unaligned
        else:
            grid = (*grid, out.shape[0])
            kernel = self.many if fits else self.many_unaligned
        if kernel is None:
            raise ValueError(
                "this step takes one image, u (rows, r), and not a stack, u (images, rows, r): "
                "'warp tiles' and 'tensor cores' take both"
            )
        call = kernel[grid, self.block, stream]
        if self.kind is None:
            return [(call, (u, s, vt, k, out))]
        of_u, of_vt, scale_u, scale_vt = self.room(k, out)
        split_u, split_vt = (
            kernel[blocks, threads, stream] for kernel, blocks, threads in self.split(k, out)
        )
        return [
            (split_u, (u, k, of_u, scale_u)),
            (split_vt, (s, vt, k, of_vt, scale_vt)),
            (call, (of_u, of_vt, scale_u, scale_vt, out)),
        ]

    def configured(
        self, u: Array, vt: Array, k: int, out: Array, stream: Any = 0
    ) -> Callable[..., None]:
        """The step, ready to be called with (u, s, vt, k, out) of these shapes and alignments.

        See `launches`: for one kernel that is the kernel with its launch configuration; memory for
        fragments lives as long as what is returned. Nothing is waited for.
        """
        launches = self.launches(u, None, vt, k, out, stream)
        if len(launches) == 1:
            return launches[0][0]
        (split_u, (*_, of_u, scale_u)), (split_vt, (*_, of_vt, scale_vt)), (call, _) = launches

        def launch(u: Array, s: Array, vt: Array, k: int, out: Array) -> None:
            split_u(u, k, of_u, scale_u)
            split_vt(s, vt, k, of_vt, scale_vt)
            call(of_u, of_vt, scale_u, scale_vt, out)

        return launch

    def fragments(self, out: Array) -> tuple[int, int]:
        """Return the fragments of u and of vt, for whole blocks."""
        if self.tile is None or self.kind is None:
            raise ValueError("this step takes no fragments")
        down, across = (
            -(-size // tile) * tile for size, tile in zip(out.shape[-2:], self.tile, strict=True)
        )
        return down // fragments.ROWS, across // fragments.COLUMNS

    def room(self, k: int, out: Array) -> tuple[Array, Array, Array, Array]:
        """Memory on the GPU for the fragments of u and of s vt, and for their scales."""
        down, across = self.fragments(out)
        tiles, word = -(-k // fragments.DEPTH), fragments.WORDS[self.kind]
        front = out.shape[:-2]
        return (
            workspace((*front, down, tiles, fragments.U_WORDS), word),
            workspace((*front, across, tiles, fragments.VT_WORDS), word),
            workspace((*front, down * fragments.ROWS), np.float32),
            workspace((*front, across * fragments.COLUMNS), np.float32),
        )

    def split(self, k: int, out: Array) -> list[tuple[Callable, tuple[int, int], tuple[int, int]]]:
        """The kernels that fill that room, u's and vt's, each with its grid and block."""
        kernels, images = FRAGMENTS[self.kind], 1
        pair = (kernels.u, kernels.vt)
        if out.ndim == 3:
            pair, images = (kernels.many_u, kernels.many_vt), out.shape[0]
        warps = 1 if k <= FEW else fragments.WARPS  # for a fragment
        block = 32 * warps, fragments.WARPS // warps
        return [
            (kernel, (count // block[1], images), block)
            for kernel, count in zip(pair, self.fragments(out), strict=True)
        ]


def factors_are_aligned(u: Array, vt: Array, out: Array) -> bool:
    """Whether rows of these device arrays can be accessed 16 bytes at a time."""
    whole = vt.shape[-1] % WIDE == 0 and out.shape[-1] % WIDE == 0
    return whole and are_aligned(u, vt, out)


# --- Hopper's tensor cores ------------------------------------------------------------------------

BAND = 16  # rows of tiles that are walked together


@functools.lru_cache(maxsize=1024)
def tile_for(rows: int, columns: int, blocks: int) -> Tile:
    """The tile whose waves over so many blocks take the least time."""
    return min(TILES, key=lambda its: -(-tiles_of(its, rows, columns) // blocks) * its.columns)


def tiles_of(tile: Tile, rows: int, columns: int) -> int:
    """How many tiles an image has."""
    return -(-rows // ROWS) * -(-columns // tile.columns)


@dataclass(frozen=True)
class WarpgroupStep(ImageStep):
    """`course.kernels.reconstruct.warpgroup_tiles`: kernels by the image's shape, for one image."""

    def launches(
        self, u: Array, s: Array, vt: Array, k: int, out: Array, stream: Any = 0
    ) -> list[tuple[Callable, tuple]]:
        """What splits the factors, and what multiplies them, in memory as large as the factors."""
        if out.ndim != 2:
            return super().launches(u, s, vt, k, out, stream)
        rows, columns = out.shape
        depth, wide = -(-k // DEPTH) * DEPTH, -(-columns // 8) * 8
        of_u, of_vt = (
            workspace((2 * length, width), np.float16)
            for length, width in ((rows, depth), (depth, wide))
        )
        scales = workspace(rows, np.float32), workspace(wide, np.float32)
        whole = u.shape[1] % WIDE == 0 and vt.shape[1] % WIDE == 0 and are_aligned(u, vt)
        split = warpgroup_tiles.splitter(whole)
        parts = -(-wide // warpgroup_tiles.CUT) + -(-rows // warpgroup_tiles.WARPS)
        call = split[parts, warpgroup_tiles.THREADS, stream]
        blocks = int(getattr(cuda.get_current_device(), "MULTIPROCESSOR_COUNT", 132))
        tile = tile_for(rows, columns, blocks)
        multiply = warpgroup_tiles.warpgroup_tiles(tile, columns % 2 == 0 and are_aligned(out))
        maps = TensorMap(of_u, ROWS, DEPTH), TensorMap(of_vt, DEPTH, DEPTH)
        given = (*maps, *scales, out, np.int32(depth), np.int32(BAND))
        grid = min(tiles_of(tile, rows, columns), blocks)
        return [
            (call, (u, s, vt, k, of_u, of_vt, *scales)),
            ready(multiply, grid, tile.threads, stream, tile.shared, given),
        ]

    def configured(
        self, u: Array, vt: Array, k: int, out: Array, stream: Any = 0
    ) -> Callable[..., None]:
        """As those of other steps; memory for the halves lives as long as what is returned."""
        (split, (*_, of_u, of_vt, of_s, of_t)), (multiply, (a, b, _, _, _, *rest)) = self.launches(
            u, None, vt, k, out, stream
        )

        def launch(u: Array, s: Array, vt: Array, k: int, out: Array) -> None:
            split(u, s, vt, k, of_u, of_vt, of_s, of_t)
            multiply(a, b, of_s, of_t, out, *rest)

        return launch
