"""Rebuild an image from its SVD on the GPU: a ladder of kernels, each a step up from the last.

Steps 1 to 4 are in `first_steps` of this package, 5 to 8 in `register_tiles`, 9 in `warp_tiles`.
Step 10 is in `split_factors` and `tensor_tiles`; for few singular values in `thin_tiles`. Step 11
is in `warpgroups`. Small and narrow images, and stacks of them, take `warp_per_tile`; some stacks
go to cuBLAS, by `library`. This module has the steps' launches and the entry point:

>>> out = reconstruct(u, s, vt, k)                     # NumPy in, NumPy out
>>> reconstruct(u, s, vt, k, out=out)                  # CuPy or Numba device arrays stay there
>>> reconstruct(u, s, vt, k, method="tensor cores")    # a certain step of reconstruct.ladder
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.slots import name_of, workspace
from course.heuristics.device import ceil_div, hopper_refusal, multiprocessors, round_up
from course.heuristics.reconstruct import (
    DEEPEST,
    DEPTH,
    MOST,
    ROWS,
    TENSOR_CONFIGS,
    ImageProblem,
    best_step,
    config_for,
    tile_for,
)
from course.kernels.arrays import VECTOR, Array, are_aligned, whole
from course.kernels.reconstruct import (
    library,
    register_tiles,
    split_factors,
    tensor_tiles,
    thin_tiles,
    warp_tiles,
    warpgroups,
)
from course.kernels.reconstruct.first_steps import (
    TILE,
    reconstruct_float32,
    reconstruct_naive,
    reconstruct_original,
    reconstruct_tiled,
)
from course.kernels.reconstruct.warp_per_tile import warp_per_tile
from course.kernels.steps import Ladder, Launch, Step
from warpsim.ptx import TensorMap

# --- how a step is launched -----------------------------------------------------------------------


@dataclass(frozen=True)
class TileStep(Step):
    """A step whose blocks have a tile of an image each."""

    #: By whether rows begin at multiples of 16 bytes, and whether images are stacked: then the
    #: grid's z is the image.
    kernels: Mapping[tuple[bool, bool], Any] = None
    block: tuple[int, int] = (16, 16)  # threads in x and y
    tile: tuple[int, int] = (16, 16)  # rows and columns of its pixels
    x_walks: str = "columns"  # what the grid's x runs over; or "rows"
    dtype: str | None = None  # of fragments, if kernels take these: "float16" or "tf32"

    #: The kernel for one image with aligned rows.
    kernel = property(lambda self: self.kernels[True, False])

    def grid(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the blocks in x and y that cover rows x columns pixels."""
        down, across = ceil_div(rows, self.tile[0]), ceil_div(columns, self.tile[1])
        return (down, across) if self.x_walks == "rows" else (across, down)


def tiles(
    make: Callable, block: tuple[int, int] = (16, 16), tile: tuple[int, int] = (16, 16),
    **more: Any,
) -> TileStep:  # fmt: skip
    """A step whose kernels `make(aligned)` makes: one, or a pair for one image and for many."""
    made = {aligned: make(aligned) for aligned in (True, False)}
    kernels = {
        (aligned, bool(many)): kernel for aligned, pair in made.items()
        for many, kernel in enumerate(pair if isinstance(pair, tuple) else (pair,))
    }  # fmt: skip

    def launches(p, u, s, vt, out, k):
        kernel = kernels[factors_are_aligned(u, vt, out), p.images > 0]
        grid = (*step.grid(p.rows, p.columns), *([p.images] if p.images else []))
        return [Launch(kernel, grid, block, (u, s, vt, k, out))]

    def refusal(p):
        if p.images and (True, True) not in kernels:
            return "takes one image, u (rows, r), and not a stack, u (images, rows, r)"
        if max(p.images, step.grid(p.rows, p.columns)[1]) > MOST:
            return f"takes at most {MOST:,} images, or rows of tiles, and these are more"
        return _strided_refusal(p) if made[True] is not made[False] else ""

    step = TileStep(launches, refusal, kernels=kernels, block=block, tile=tile, **more)
    return step


def _strided_refusal(p):
    needs = "needs the numbers of a row side by side, as a copy in C order has them"
    return p.strided and f"{needs}, and {p.strided}"


def same(made: Any) -> Callable[[bool], Any]:
    """A `make` for `tiles`: the same kernels, wherever rows begin."""
    return lambda aligned: made


FEW = 64  # values of i up to which one warp splits a fragment
#: Kernels that split u and s vt, by dtype: for one image, then for many.
SPLITTERS = {dtype: split_factors.splitters(dtype) for dtype in ("float16", "tf32")}


def split(step: TileStep) -> TileStep:
    """A step whose kernels take fragments: two launches split u and s vt, one multiplies.

    The fragments take as much memory as the k columns of u and rows of vt.
    """
    kernels, register = SPLITTERS[step.dtype], split_factors.REGISTER_TYPES[step.dtype]

    def launches(p, u, s, vt, out, k):
        (multiply,) = step.launches(p, u, s, vt, out, k)
        down = round_up(p.rows, step.tile[0]) // split_factors.ROWS
        across = round_up(p.columns, step.tile[1]) // split_factors.COLUMNS
        deep, stack = ceil_div(k, split_factors.DEPTH), out.shape[:-2]
        of_u = workspace((*stack, down, deep, split_factors.U_REGISTERS), register)
        of_vt = workspace((*stack, across, deep, split_factors.VT_REGISTERS), register)
        scale_u = workspace((*stack, down * split_factors.ROWS), np.float32)
        scale_vt = workspace((*stack, across * split_factors.COLUMNS), np.float32)
        split_u, split_vt = kernels[2:] if p.images else kernels[:2]
        warps = 1 if k <= FEW else split_factors.WARPS  # for a fragment
        block = 32 * warps, split_factors.WARPS // warps
        images = max(p.images, 1)
        return [
            Launch(split_u, (down // block[1], images), block, (u, k, of_u, scale_u)),
            Launch(split_vt, (across // block[1], images), block, (s, vt, k, of_vt, scale_vt)),
            multiply._replace(arguments=(of_u, of_vt, scale_u, scale_vt, out)),
        ]

    return replace(step, launches=launches)


def factors_are_aligned(u: Array, vt: Array, out: Array) -> bool:
    """Whether rows of these device arrays can be accessed 16 bytes at a time."""
    whole = vt.shape[-1] % VECTOR == 0 and out.shape[-1] % VECTOR == 0
    return whole and are_aligned(u, vt, out)


# --- Hopper's tensor cores ------------------------------------------------------------------------

ROW_GROUP = 16  # rows of tiles that are walked together


def _warpgroups(p, u, s, vt, out, k):
    """One launch splits the factors, into as much memory as they take; one multiplies."""
    depth, wide = round_up(k, DEPTH), round_up(p.columns, 8)
    of_u = workspace((2 * p.rows, depth), np.float16)
    of_vt = workspace((2 * depth, wide), np.float16)
    scales = workspace(p.rows, np.float32), workspace(wide, np.float32)
    whole = (one.shape[1] % VECTOR == 0 and are_aligned(one) for one in (u, vt))
    parts = ceil_div(wide, warpgroups.CUT) + ceil_div(p.rows, warpgroups.WARPS)
    blocks = multiprocessors()
    config = config_for(p.rows, p.columns, k, blocks)
    multiply = warpgroups.warpgroup_tiles(config)
    maps = TensorMap(of_u, ROWS, DEPTH), TensorMap(of_vt, DEPTH, DEPTH)
    given = (*maps, *scales, out, np.int32(depth), np.int32(ROW_GROUP))
    grid = min(config.tiles(p.rows, p.columns), blocks)
    return [
        Launch(warpgroups.splitter(*whole), parts, warpgroups.THREADS,
               (u, s, vt, k, of_u, of_vt, *scales)),
        Launch(multiply, grid, config.threads, given, config.shared),
    ]  # fmt: skip


def _warpgroups_refusal(p):
    if p.images:
        return "takes one image, u (rows, r), and not a stack, u (images, rows, r)"
    return hopper_refusal() or _strided_refusal(p)


# --- a tile a warp --------------------------------------------------------------------------------


def _warp_per_tile(p, u, s, vt, out, k):
    wide, images = factors_are_aligned(vt, vt, out), max(p.images, 1)
    its = tile_for(p.rows, p.columns, p.k, p.images, wide, multiprocessors())
    tiles = its.tiles(p.rows, p.columns)
    kernel, blocks = warp_per_tile(its)[p.images > 0], ceil_div(images * tiles, its.of_block)
    return [Launch(kernel, blocks, its.threads, (u, s, vt, np.int32(k), out, np.int32(tiles)))]


# --- the ladder -----------------------------------------------------------------------------------


def _tensor_tiles(target: str, dtype: str, capability: tuple[int, int]) -> TileStep:
    config = TENSOR_CONFIGS[target]
    make = functools.partial(tensor_tiles.tensor_tiles, config, dtype=dtype)
    block, tile = (config.threads, 1), (config.block_rows, config.block_columns)
    return split(tiles(make, block, tile, dtype=dtype, capability=capability))


def _tiles_of(module: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    return (module.THREADS, 1), (module.BLOCK_ROWS, module.BLOCK_COLUMNS)


_SQUARE = _tiles_of(register_tiles)
_COLUMN = register_tiles.COLUMN_ROWS, register_tiles.COLUMN_COLUMNS
#: Steps that multiply fragments, `OLDER` on GPUs before 8.0; `THIN` splits the factors itself.
SPLIT = {
    "tensor cores": _tensor_tiles("sm_90", "float16", (8, 0)),
    "tf32": _tensor_tiles("sm_90", "tf32", (8, 0)),
}
OLDER = _tensor_tiles("sm_75", "float16", (7, 5))
THIN = tiles(same(thin_tiles.thin_tiles()), *_tiles_of(thin_tiles), capability=(8, 0))


def _tensor_cores(p, u, s, vt, out, k):
    step = SPLIT["tensor cores"] if p.capability >= (8, 0) else OLDER
    if p.capability >= (8, 0) and k <= DEEPEST and factors_are_aligned(vt, vt, out):
        step = THIN
    return step.launches(p, u, s, vt, out, k)


def _best(p):
    step = best_step(p)
    lacks = step == "library" and library.refusal(p)
    return best_step(p._replace(in_rows=False)) if lacks else step


LADDER = Ladder("reconstruct", ImageProblem.of, {
    "original": tiles(same(reconstruct_original), x_walks="rows"),
    "float32": tiles(same(reconstruct_float32), x_walks="rows"),
    "naive": tiles(same(reconstruct_naive)),
    "tiled": tiles(same(reconstruct_tiled), (TILE, TILE), (TILE, TILE)),
    "column": tiles(same(register_tiles.reconstruct_column),
                    (_COLUMN[0] * _COLUMN[1] // register_tiles.COLUMN_RESULTS, 1), _COLUMN),
    "square": tiles(same(register_tiles.reconstruct_square), *_SQUARE),
    "wide": tiles(register_tiles.wide_tiles, *_SQUARE),
    "buffered": tiles(register_tiles.double_buffered, *_SQUARE),
    "asynchronous": tiles(register_tiles.asynchronous, *_SQUARE, capability=(8, 0)),
    "warp tiles": tiles(warp_tiles.warp_tiles, *_tiles_of(warp_tiles)),
    "tensor cores": replace(SPLIT["tensor cores"], launches=_tensor_cores, capability=(7, 5)),
    "warpgroups": Step(_warpgroups, _warpgroups_refusal, (9, 0)),
    "tf32": SPLIT["tf32"],
    "warp per tile": Step(_warp_per_tile, _strided_refusal),
    "library": Step(library.launches, library.refusal),
}, _best)  # fmt: skip


def _result(u: ArrayFacts, s: ArrayFacts, vt: ArrayFacts, k: int, method: str) -> Result:
    shapes = [array.shape for array in (u, s, vt)]
    fit = len(shapes[0]) in (2, 3) and len(shapes[2]) == len(shapes[0]) == len(shapes[1]) + 1
    if fit:
        front, r = shapes[0][:-2], shapes[0][-1]
        fit = shapes[1] == (*front, r) and shapes[2][:-1] == (*front, r)
    if not fit:
        raise ValueError(
            f"u, s, vt have the shapes {', '.join(map(str, shapes))}; they must be (rows, r), "
            "(r,), (r, columns), or the same with one more axis in front, the images"
        )
    if not 1 <= k <= r:
        raise ValueError(f"k is {k}; with {r} singular values it must be from 1 to {r}")
    rows, columns = shapes[0][-2], shapes[2][-1]
    LADDER.choose(method, ImageProblem.of_shape(rows, columns, k, *front))
    for array, what in ((u, "u"), (s, "s"), (vt, "vt")):
        if not array.library.on_device and not isinstance(array.dtype, str):
            if array.dtype.kind not in "biuf":
                raise TypeError(f"{what} holds {name_of(array.dtype)}; it must hold real numbers")
        elif array.dtype != np.float32:
            raise ValueError(
                f"{what}, an array on the GPU, has the type {array.dtype}: convert it to float32 "
                f"first, {array.library.convert(what, 'float32')}"
            )
    return (*front, rows, columns), np.float32


def _part(arrays: list, options: tuple) -> list:
    """What is needed of arrays on the host, in float32; beside arrays on the GPU, all of it."""
    k, axes = options[0], (-1, -1, -2)
    if not all(isinstance(array, np.ndarray) for array in arrays):
        k = None
    return [
        np.asarray(array[..., :k] if axis == -1 else array[..., :k, :], np.float32)
        if isinstance(array, np.ndarray) else array
        for array, axis in zip(arrays, axes, strict=True)
    ]  # fmt: skip


_ENTRY = EntryPoint("reconstruct", ("u", "s", "vt"), _result, LADDER.launches, part=_part,
             options=("k", "method"))  # fmt: skip


def reconstruct(
    u: Array,
    s: Array,
    vt: Array,
    k: int,
    out: Array | None = None,
    method: str = "auto",
    stream: Stream = None,
) -> Array:
    """Rebuild an image from its k largest singular values on the GPU (or the simulated one).

    cuBLAS rebuilds stacks where it is faster, see `course.heuristics.reconstruct.stack_times`.
    Arrays on the GPU are used in place, also slices of larger arrays. Of NumPy arrays, only the k
    columns of u and k rows of vt that are needed are copied to the GPU.

    Parameters
    ----------
    u, s, vt : array, shapes (rows, r), (r,), (r, columns)
        Factors of the image, of NumPy, CuPy, PyTorch or numba.cuda, float32 (those on the host are
        converted). Or stacks of them: (images, rows, r), (images, r), (images, r, columns).
    k : int
        From 1 to r.
    out : array, optional
        Where to write the result; float32, of the result's shape.
    method : str
        One of `reconstruct.ladder.names`.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; by default u's library's current one.

    Returns
    -------
    array, shape (rows, columns) or (images, rows, columns), float32
        `out`, if it is given; else of u's library. Work on the GPU may still be in flight when it
        is returned.

    Raises
    ------
    TypeError
        For an argument that is no array, or a k that is no whole number.
    ValueError
        When k is not from 1 to r, the shapes do not fit together, an array on the GPU is not
        float32, or the method does not exist or does not take these arrays on this GPU.
    """
    if type(k) is not int:  # as a plan's key, 2.0 or True would find that of 2 or 1
        k = whole(k, "k", "whole number of singular values")
    return _ENTRY.call((u, s, vt), (k, method), out, stream)


reconstruct.ladder = LADDER
