"""Rebuild an image from its SVD on the GPU: a ladder of kernels, each a step up from the last.

Steps 1 to 4 are in `course.kernels.reconstruct.first_steps`, 5 to 8 in
`course.kernels.reconstruct.register_tiles`, 9 in `course.kernels.reconstruct.warp_tiles`, 10 in
`course.kernels.reconstruct.fragments` and `course.kernels.reconstruct.tensor_tiles`, for few
singular values in `course.kernels.reconstruct.thin_tiles`, and 11 in
`course.kernels.reconstruct.warpgroup_tiles`. How each is launched is in
`course.kernels.reconstruct.steps`. Here are their names, and the front door:

>>> out = reconstruct(u, s, vt, k)                     # NumPy in, NumPy out
>>> reconstruct(u, s, vt, k, out=out)                  # CuPy or Numba device arrays stay there
>>> reconstruct(u, s, vt, k, method="tensor cores")    # a certain step of LADDER
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from course.backend import cuda, gpu
from course.door.door import Door, Result, Stream
from course.door.layout import name_of
from course.door.libraries import Seen
from course.kernels.arrays import Array, known, whole
from course.kernels.launching import no_warpgroups
from course.kernels.reconstruct import register_tiles, tensor_tiles, thin_tiles, warp_tiles
from course.kernels.reconstruct.first_steps import (
    TILE,
    reconstruct_float32,
    reconstruct_naive,
    reconstruct_original,
    reconstruct_tiled,
)
from course.kernels.reconstruct.steps import (
    FRAGMENTS,
    ImageStep,
    WarpgroupStep,
    factors_are_aligned,
)

__all__ = ["FRAGMENTS", "LADDER", "OLDER", "factors_are_aligned", "reconstruct"]

ENOUGH = 2e9  # operations from which tensor cores win, splitting included, on an H200
#: Operations and singular values from which Hopper's warpgroups win, likewise.
GROUPS_ENOUGH, GROUPS_FROM = 5e8, 64
#: Singular values from which tensor cores win without that pass, likewise: of one image, and the
#: pixels that it must have, and of each image of a stack.
THIN_FROM, THIN_PIXELS, THIN_OF_MANY = 40, 2**22, 32


def _tiles(make: Callable, block: int, tile: tuple[int, int], **more: Any) -> ImageStep:
    """A step whose kernels `make(aligned)` makes: one, or a pair for one image and for many."""
    kernels = [
        made if isinstance(made, tuple) else (made, None) for made in map(make, (True, False))
    ]
    (one, many), (unaligned, many_unaligned) = kernels
    return ImageStep(one, "columns", (block, 1), tile, unaligned, many, many_unaligned, **more)


def _warp_tiles(target: str) -> ImageStep:
    shape = warp_tiles.SHAPES[target]
    tile = shape.block_rows, shape.block_columns
    return _tiles(functools.partial(warp_tiles.warp_tiles, shape), shape.threads, tile)


def _tensor_tiles(target: str, kind: str, capability: tuple[int, int]) -> ImageStep:
    shape = tensor_tiles.SHAPES[target]

    def make(aligned: bool) -> tuple[Callable, Callable]:
        return tensor_tiles.tensor_tiles(shape, aligned, kind)

    tile = shape.block_rows, shape.block_columns
    more = {"thin": _thin_tiles()} if kind == "halves" and shape.asynchronous else {}
    return _tiles(make, shape.threads, tile, capability=capability, kind=kind, **more)


def _thin_tiles() -> ImageStep:
    shape = thin_tiles.ThinShape()
    tile = shape.block_rows, shape.block_columns
    make = functools.partial(thin_tiles.thin_tiles, shape)
    return _tiles(make, shape.threads, tile, capability=thin_tiles.CAPABILITY, u_anywhere=True)


_SQUARE = register_tiles.THREADS, (register_tiles.BLOCK_ROWS, register_tiles.BLOCK_COLUMNS)
_COLUMN = (
    register_tiles.COLUMN_ROWS * register_tiles.COLUMN_COLUMNS // register_tiles.COLUMN_RESULTS,
    (register_tiles.COLUMN_ROWS, register_tiles.COLUMN_COLUMNS),
)

#: The steps by name, in the order of the ladder.
LADDER: dict[str, ImageStep] = {
    "original": ImageStep(reconstruct_original, x_walks="rows"),
    "float32": ImageStep(reconstruct_float32, x_walks="rows"),
    "naive": ImageStep(reconstruct_naive),
    "tiled": ImageStep(reconstruct_tiled, block=(TILE, TILE)),
    "column": ImageStep(register_tiles.reconstruct_column, "columns", (_COLUMN[0], 1), _COLUMN[1]),
    "square": ImageStep(register_tiles.reconstruct_square, "columns", (_SQUARE[0], 1), _SQUARE[1]),
    "wide": _tiles(register_tiles.wide_tiles, *_SQUARE),
    "buffered": _tiles(register_tiles.double_buffered, *_SQUARE),
    "asynchronous": _tiles(register_tiles.asynchronous, *_SQUARE, capability=(8, 0)),
    "warp tiles": _warp_tiles("sm_90"),
    "tensor cores": _tensor_tiles("sm_90", "halves", (8, 0)),
    "warpgroups": WarpgroupStep(None, capability=(9, 0)),
    "tf32": _tensor_tiles("sm_90", "tf32", (8, 0)),
}
#: What takes a step's place on GPUs before 8.0.
OLDER = {
    "warp tiles": _warp_tiles("sm_75"),
    "tensor cores": _tensor_tiles("sm_75", "halves", (7, 5)),
}


#: rows, columns, k at which every step is timed.
LADDER_SHAPE = (4096, 4096, 1024)


def work_of(name: str, m: int, n: int, k: int, images: int = 1) -> dict[str, Any]:
    """Bytes and operations by unit of a step, and the operations that are needed."""
    needed = 2 * m * n * k * images
    work = {"bytes": 4 * images * (m * k + k + k * n + m * n), "operations": {"float32": needed}}
    if name == "original":
        work["operations"] = {"float64": needed}
    if name in ("tensor cores", "warpgroups"):
        work |= {"operations": {"tensor_float16": 3 * needed}, "needed": needed}
        work["dtype"] = "tensor_float16"  # what is multiplied: three products for one
    if name == "tf32":
        work |= {"operations": {"tensor_float32": needed}, "dtype": "tensor_float32"}
    return work


#: Steps that read rows as they lie, whatever the distance between neighbours in a row.
_ANY_STRIDE = ("original", "float32", "naive", "tiled", "column", "square")


def step_for(
    method: str, rows: int, columns: int, k: int, images: int = 0
) -> tuple[str, ImageStep]:
    """The step that `reconstruct` launches for a method, by shape and device.

    `images` is how many are in a stack, 0 for one that is in none.

    "auto" takes the fastest that is as accurate as float32: tensor cores for few singular values
    and where there is enough work for a pass that splits the factors, Hopper's by warpgroups, warp
    tiles between, and the naive kernel for what fills no tile. In the simulator it takes the naive
    kernel, which costs least there, and warp tiles for stacks.

    Raises
    ------
    ValueError
        For a method that does not exist, or that the GPU cannot run.
    """
    known(method, "method", ("auto", *LADDER))
    capability = tuple(cuda.get_current_device().compute_capability)
    if method == "auto":
        method = "warp tiles" if images else "naive"
        if gpu() and (images or (min(rows, columns) >= 64 and k >= 4)):
            least = THIN_OF_MANY if images else THIN_FROM
            thin = least <= k <= thin_tiles.DEEPEST and capability >= thin_tiles.CAPABILITY
            thin &= columns % 4 == 0 and (images > 0 or rows * columns >= THIN_PIXELS)
            enough = 2 * rows * columns * k >= ENOUGH and capability >= (7, 5) and not images
            method = "tensor cores" if thin or enough else "warp tiles"
            many = 2 * rows * columns * k >= GROUPS_ENOUGH and k >= GROUPS_FROM
            if many and not images and not no_warpgroups():
                method = "warpgroups"
    step = LADDER[method]
    if capability < (8, 0) and method in OLDER:
        step = OLDER[method]
    why = no_warpgroups() if isinstance(step, WarpgroupStep) else ""
    if capability < step.capability and not why:
        wanted, have = (".".join(map(str, pair)) for pair in (step.capability, capability))
        why = f"needs compute capability {wanted}, this GPU has {have}"
    if why:
        raise ValueError(
            f"the step {method!r} {why}: choose another method, or without a GPU another one to "
            "simulate, course.simulate('H200')"
        )
    return method, step


def _result(u: Seen, s: Seen, vt: Seen, k: int, method: str) -> Result:
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
    shape = (*front, shapes[0][-2], shapes[2][-1])
    name, _ = step_for(method, shape[-2], shape[-1], k, shape[0] if len(shape) == 3 else 0)
    for array, what in ((u, "u"), (s, "s"), (vt, "vt")):
        if array.library.on_device or isinstance(array.dtype, str):
            _check_factor(array, what, name)
        elif array.dtype.kind not in "biuf":
            raise TypeError(f"{what} holds {name_of(array.dtype)}; it must hold real numbers")
    return shape, np.float32


def _check_factor(array: Seen | Array, what: str, method: str) -> None:
    """Refuse an array on the GPU that a step does not read."""
    if array.dtype != np.float32:
        raise ValueError(
            f"{what}, an array on the GPU, has the type {array.dtype}: convert it to float32 "
            f"first, {array.library.convert(what, 'float32')}"
        )
    if method not in _ANY_STRIDE and array.strides[-1] != 4:
        raise ValueError(
            f"the step {method!r} needs the numbers of a row side by side, and those of {what} lie "
            f"{array.strides[-1]} bytes apart: make a copy in C order, or choose one of "
            f"{', '.join(_ANY_STRIDE)}"
        )


def _launches(
    u: Array, s: Array, vt: Array, out: Array, k: int, method: str, stream: Stream
) -> list[tuple[Callable, tuple]]:
    name, step = step_for(method, *out.shape[-2:], k, out.shape[0] if out.ndim == 3 else 0)
    _check_factor(out, "out", name)
    return step.launches(u, s, vt, k, out, stream)


def _part(arrays: list, options: tuple) -> list:
    """Of arrays on the host only what is needed, in float32; beside the GPU's all of it."""
    k, axes = options[0], (-1, -1, -2)
    if not all(isinstance(array, np.ndarray) for array in arrays):
        k = None
    return [
        np.asarray(array[..., :k] if axis == -1 else array[..., :k, :], np.float32)
        if isinstance(array, np.ndarray) else array
        for array, axis in zip(arrays, axes, strict=True)
    ]  # fmt: skip


_DOOR = Door("reconstruct", ("u", "s", "vt"), _result, _launches, part=_part)


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

    Arrays that are on the GPU stay where they are and are not copied, slices of larger ones
    included; of NumPy arrays only the k columns of u and k rows of vt that are needed travel.

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
        "auto", or a step of `LADDER`; see `step_for`.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; without it the one that u's library is at.

    Returns
    -------
    array, shape (rows, columns) or (images, rows, columns), float32
        `out`, if it is given; else of u's kind. Work on the GPU may
        still be under way when it is returned.

    Raises
    ------
    TypeError
        For no array, and a k that is no whole number.
    ValueError
        When k is not from 1 to r, the shapes do not fit together, an array on the GPU is not
        float32 or its rows' neighbours lie apart, or there is no such method.
    """
    if type(k) is not int:  # 2.0 and True are as good as 2 and 1 to find a plan by
        k = whole(k, "k", "whole number of singular values")
    return _DOOR.enter((u, s, vt), (k, method), out, stream)
