"""Rebuild an image from its SVD on the GPU: a ladder of kernels, each a step up from the last.

Steps 1 to 4 are in `course.kernels.reconstruct.first_steps`, 5 to 8 in
`course.kernels.reconstruct.register_tiles`, 9 in `course.kernels.reconstruct.warp_tiles`, 10 in
`course.kernels.reconstruct.fragments` and `course.kernels.reconstruct.tensor_tiles`, and for few
singular values in `course.kernels.reconstruct.thin_tiles`. Here is how each is launched, and the
front door:

>>> out = reconstruct(u, s, vt, k)                     # NumPy in, NumPy out
>>> reconstruct(u, s, vt, k, out=out)                  # CuPy or Numba device arrays stay there
>>> reconstruct(u, s, vt, k, method="tensor cores")    # a certain step of LADDER
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from course.backend import cuda, gpu
from course.door.door import Door, Result, Stream
from course.door.layout import workspace
from course.door.libraries import Seen
from course.kernels.arrays import WIDE, Array, are_aligned, known
from course.kernels.reconstruct import (
    fragments,
    register_tiles,
    tensor_tiles,
    thin_tiles,
    warp_tiles,
)
from course.kernels.reconstruct.first_steps import (
    TILE,
    reconstruct_float32,
    reconstruct_naive,
    reconstruct_original,
    reconstruct_tiled,
)

ENOUGH = 2e9  # operations from which tensor cores win, splitting included, on an H200
#: Singular values from which tensor cores win without that pass, likewise: of one image, and the
#: pixels that it must have, and of each image of a stack.
THIN_FROM, THIN_PIXELS, THIN_OF_MANY = 40, 2**22, 32


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
                "this step takes one image, u (rows, r), and not a stack, u (images, rows, r); "
                f"{', '.join(name for name, step in LADDER.items() if step.many)} take both"
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

#: What splits the factors, by kind: for one image u and s vt, for many u and s vt.
FRAGMENTS = {kind: fragments.splitters(kind) for kind in ("halves", "tf32")}
FEW = 64  # values of i up to which one warp splits a fragment

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
    if name == "tensor cores":
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
    and where there is enough work for a pass that splits the factors, warp tiles between, and the
    naive kernel for what fills no tile. In the simulator it takes the naive kernel, which costs
    least there, and warp tiles for stacks.

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
    step = LADDER[method]
    if capability < (8, 0) and method in OLDER:
        step = OLDER[method]
    if capability < step.capability:
        wanted, have = (".".join(map(str, pair)) for pair in (step.capability, capability))
        raise ValueError(
            f"the step {method!r} needs compute capability {wanted}, this GPU has {have}: choose "
            "another method, or without a GPU another one to simulate, course.simulate('H200')"
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
    if not isinstance(k, int | np.integer):
        raise TypeError(f"k is {k!r}: give a whole number of singular values")
    if not 1 <= k <= r:
        raise ValueError(f"k is {k}; with {r} singular values it must be from 1 to {r}")
    shape = (*front, shapes[0][-2], shapes[2][-1])
    name, _ = step_for(method, shape[-2], shape[-1], k, shape[0] if len(shape) == 3 else 0)
    for array, what in ((u, "u"), (s, "s"), (vt, "vt")):
        if array.library.on_device or isinstance(array.dtype, str):
            _check_factor(array, what, name)
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
    ValueError
        When k is not from 1 to r, the shapes do not fit together, an array on the GPU is not
        float32 or its rows' neighbours lie apart, or there is no such method.
    """
    return _DOOR.enter((u, s, vt), (k, method), out, stream)
