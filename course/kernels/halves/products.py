"""The front door to products of float16 and bfloat16, and which step a product takes.

>>> y = product(x, weight, "nt", bias, "gelu")     # a layer and its activation, in one launch

=========  ========================================  ============================================
method     a block                                   needs
=========  ========================================  ============================================
"plain"    128 x 128 by mma.sync                     7.5; bfloat16: 8.0. Any shape, any alignment
"roles"    up to 128 x 256, TMA and wgmma            9.0; rows that begin at multiples of 16 bytes
"split"    the same; a cluster shares the depth      the same
=========  ========================================  ============================================

"wgmma" and "tma" are the steps of the ladder between them, to be read and timed: as "roles", of
float16, in the layout "nt", with nothing after the product.

"auto" takes what the model of `fastest` has the fewest cycles for: waves of tiles on the GPU's
multiprocessors, times what a step of the depth costs, which is the tensor cores' time or that of
shared memory. "split" is for few tiles and a long depth. Lesson 17, section 12, shows what all that
takes, and a call with NumPy's arrays, and the first one of a process.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from course import backend
from course.backend import cuda
from course.door.bfloat import BFLOAT16
from course.door.door import Door, Result, Stream
from course.door.layout import name_of
from course.door.libraries import Seen
from course.kernels import launching
from course.kernels.arrays import Array, flat, holds, in_order, known
from course.kernels.halves import plain, roles, split, tma, wgmma
from course.kernels.halves.common import ACTIVATIONS, BAND, DEPTH
from course.kernels.halves.roles import Shape
from course.kernels.tensor_maps import TensorMap

HALVES = (np.dtype(np.float16), BFLOAT16)
STEPS = {"wgmma": wgmma, "tma": tma}  # of the ladder, by name only
METHODS = ("plain", "roles", "split", *STEPS)
SIDES = {"nn": ("rk", "kc"), "nt": ("rk", "ck"), "tn": ("kr", "kc")}
ROOM = 226 * 1024  # bytes of shared memory for a block's tiles, beside its barriers
STAGES = 3, 8  # at least and at most
SPLITS = (2, 4)  # blocks of a cluster; a whole number of warps for each
#: By measurements on an H200, in cycles of one multiprocessor.
SHARED = 0.92  # what is seen of shared memory's time
TILE = 6  # that a tile takes besides its steps, for each of its columns
ADDING = 1000, 10  # to add the sums of a cluster's blocks: once, and bytes in a cycle
SLOWER = 1.025  # a narrower tile than 256 is read more often


def shape_of(
    consumers: int, columns: int, turns: int, added: bool = False, splits: int = 1
) -> Shape:
    """A tile with as many stages as fit beside its results; of a split one they lie apart, too."""
    bare = Shape(consumers, columns, 0, turns, added)
    results = bare.rows // splits * 64 * bare.pieces if bare.apart or splits > 1 else 0
    stages = (ROOM - 2 * results) // (2 * bare.stage)
    return bare._replace(stages=min(stages, STAGES[1]))


@functools.lru_cache(maxsize=1024)
def fastest(
    layout: str,
    rows: int,
    columns: int,
    depth: int,
    blocks: int,
    methods: tuple[str, ...] = METHODS,
    added: bool = False,
) -> tuple[Shape, int]:
    """The tile of a product, and how many blocks share its depth.

    Counted are a block's cycles: its tiles, times their steps, times what takes longest in a step:
    the tensor cores' 2,048 multiplications a cycle, or shared memory's 128 bytes a cycle. TMA
    writes them once; each consumer reads its part of a, and all of b. Clusters lie in a part of the
    GPU each: pairs of multiprocessors are everywhere, of fours only three quarters are sure.
    """
    steps, best = -(-depth // DEPTH), []
    for consumers, wide in itertools.product((1, 2), range(64, 257, 16 if layout == "nt" else 64)):
        tiles = -(-rows // (64 * consumers)) * -(-columns // wide)
        step = max(2 * consumers * wide, SHARED * (128 * consumers + wide * (consumers + 1)))
        step *= SLOWER if wide < 256 else 1
        if "roles" in methods:
            turns = -(-tiles // blocks)
            shape = shape_of(consumers, wide, min(turns, 3), added)
            if shape.stages >= STAGES[0]:
                best.append((turns * (steps * step + TILE * wide), shape, 1))
        for splits in SPLITS if "split" in methods else ():
            shape = shape_of(consumers, wide, 1, added, splits)
            fits = tiles * splits <= (blocks if splits == 2 else 3 * blocks // 4)
            fits = fits or methods == ("split",)
            if fits and split.shared_bytes(shape, splits) <= ROOM:
                given = 4 * shape.rows * wide * (splits - 1) // splits
                cycles = -(-steps // splits) * step + TILE * wide + ADDING[0] + given / ADDING[1]
                best.append((cycles, shape, splits))
    _, shape, splits = min(best)
    return shape, splits


def why_not(out: Array, *factors: Array) -> str:
    """What "roles" and "split" need and do not find, in words; else nothing."""
    if wrong := launching.no_warpgroups():
        return wrong
    for array in (out, *factors):
        pitch, start = array.strides[0], array.__cuda_array_interface__["data"][0]
        if pitch % 16 or start % 16:
            return "needs rows that begin at multiples of 16 bytes, and those of one array do not"
    return "" if factors[0].size and factors[1].size else "needs a depth of 1 or more"


def result(
    a: Seen, b: Seen, bias: Seen | None, residual: Seen | None, layout: str, activation: str,
    method: str,
) -> Result:  # fmt: skip
    """Shape and type of a product, of what is right."""
    known(layout, "layout", SIDES)
    known(activation, "activation", ACTIVATIONS)
    known(method, "method", ("auto", *METHODS))
    sizes: dict[str, int] = {}
    for array, name, sides in zip((a, b), ("a", "b"), SIDES[layout], strict=True):
        if array.dtype not in HALVES or array.dtype != a.dtype:
            raise TypeError(
                f"{name} holds {name_of(array.dtype)}; a and b must both hold float16 or bfloat16"
            )
        if array.ndim != 2:
            raise ValueError(f"{name} has the shape {array.shape}; it must have two axes")
        for side, length in zip(sides, array.shape, strict=True):
            if sizes.setdefault(side, length) != length:
                raise ValueError(
                    f"a and b have the shapes {a.shape} and {b.shape}; in the layout {layout!r} "
                    f"their depths must be the same"
                )
    shape = sizes["r"], sizes["c"]
    for array, name, wanted in ((bias, "bias", shape[1:]), (residual, "residual", shape)):
        if array is not None:
            holds(array, name, a.dtype)
            if array.shape != wanted:
                raise ValueError(f"{name} has the shape {array.shape}; it must be {wanted}")
    return shape, a.dtype


def launches(
    a: Array, b: Array, bias: Array | None, residual: Array | None, out: Array, layout: str = "nn",
    activation: str = "", method: str = "auto", stream: Any = 0,
    tile: tuple[Shape, int] | None = None,
) -> list[tuple[Callable, tuple]]:  # fmt: skip
    """What a product launches, for device arrays; ValueError for a method they cannot have.

    Of "roles" and "split", `tile` is theirs in place of the one that `fastest` gives.
    """
    a, b, out = in_order(a, "a"), in_order(b, "b"), in_order(out, "out")
    rows, columns = out.shape
    if not out.size:
        return []
    depth = a.shape[0 if layout == "tn" else 1]
    added = residual is not None
    wrong = why_not(out, a, b, *([residual] if added else []))
    if method == "auto":
        method = "plain" if wrong or backend.gpu() is None else "auto"
    elif method != "plain" and wrong:
        raise ValueError(f"method {method!r} {wrong}: choose 'plain'")
    element, epilogue = name_of(out.dtype), (activation, bias is not None, added)
    extra = flat(out, "out") if bias is None else in_order(bias, "bias")
    extra = extra, out if residual is None else in_order(residual, "residual")
    sizes = tuple(map(np.int32, (rows, columns, depth)))
    if method == "plain":
        feed = _feed(element, a, b, out)
        kernel, size = plain.product(layout, element, feed, *epilogue), plain.shared_bytes(feed)
        arguments = (a, b, out, *extra, *sizes, np.int32(BAND))
        grid = -(-rows // plain.HIGH) * -(-columns // plain.WIDE)
        return [launching.ready(kernel, grid, plain.THREADS, stream, size, arguments)]
    blocks = int(getattr(cuda.get_current_device(), "MULTIPROCESSOR_COUNT", 132))
    if method in STEPS:
        if (layout, element, *epilogue) != ("nt", "float16", "", False, False):
            raise ValueError(
                f"method {method!r}, a step of the ladder, takes float16 in the layout 'nt' and "
                f"nothing after the product: choose 'roles'"
            )
        kernel, grid, threads, size, arguments = STEPS[method].launch(a, b, out, blocks)
        return [launching.ready(kernel, grid, threads, stream, size, arguments)]
    methods = METHODS if method == "auto" else (method,)
    shape, splits = tile or fastest(layout, rows, columns, depth, blocks, methods, added)
    maps = (
        TensorMap(a, *((64, DEPTH) if layout == "tn" else (shape.rows, DEPTH))),
        TensorMap(b, *((shape.columns, DEPTH) if layout == "nt" else (DEPTH, 64))),
    )
    down, across = -(-rows // shape.rows), -(-columns // shape.columns)
    if splits > 1:
        kernel = split.product(layout, element, shape, splits, *epilogue[:2])
        size = split.shared_bytes(shape, splits)
        maps += (TensorMap(out, 16, 64), TensorMap(residual, 16, 64) if added else out)
        return [launching.ready(kernel, (splits, down, across), shape.threads, stream, size,
                                (*maps, extra[0], *sizes))]  # fmt: skip
    kernel = roles.product(layout, element, shape, *epilogue[:2])
    maps += (TensorMap(out, 64, 64), TensorMap(residual, 64, 64) if added else out)
    arguments = (*maps, extra[0], *sizes, np.int32(BAND))
    grid = (down, across) if shape.turns == 1 else min(down * across, blocks)
    return [launching.ready(kernel, grid, shape.threads, stream, shape.shared, arguments)]


def _feed(element: str, a: Array, b: Array, out: Array) -> str:
    """How "plain" brings its tiles: by copies of 16 bytes where it can, and stores pairs then."""
    if tuple(cuda.get_current_device().compute_capability) < (8, 0):
        if element == "bfloat16":
            raise ValueError("products of bfloat16 need compute capability 8.0: convert to float16")
        return "turing"
    aligned = all(
        array.size and not (array.strides[0] | array.__cuda_array_interface__["data"][0]) % size
        for array, size in ((a, 16), (b, 16), (out, 4))
    )
    return "copied" if aligned else "loaded"


_DOOR = Door("product", ("a", "b", "bias", "residual"), result, launches,
             optional=("bias", "residual"), empty=True, in_place=("residual",))  # fmt: skip


def product(
    a: Array, b: Array, layout: str = "nn", bias: Array | None = None, activation: str = "",
    residual: Array | None = None, out: Array | None = None, method: str = "auto",
    stream: Stream = None,
) -> Array:  # fmt: skip
    """activation(a b + bias) + residual, of float16 or bfloat16; sums in float32, one rounding.

    Parameters
    ----------
    a, b : array, float16 or bfloat16
        Of NumPy, CuPy, PyTorch or numba.cuda; on the GPU in C order. By the layout: "nn"
        (rows, depth), (depth, columns); "nt" (rows, depth), (columns, depth); "tn" (depth, rows),
        (depth, columns).
    bias : array, shape (columns,), optional
    activation : str
        "", "gelu" or "gelu tanh".
    residual : array, shape (rows, columns), optional
    out : array, shape (rows, columns), optional
        Where to write; none of the others but, if you like, the residual.
    method : str
        Of `METHODS`, or "auto".
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; without it the one of a's library.

    Returns
    -------
    array, shape (rows, columns), of a's type
        `out`, if it is given; else of a's kind. It is the sum, with float32's error, rounded once:
        by at most 2**-11 or 2**-8 of it.

    Raises
    ------
    TypeError
        For no array, or elements of another type.
    ValueError
        For shapes or strides that do not fit, an unknown word, a method that they cannot have.
    """
    options = layout, activation, method
    return _DOOR.enter((a, b, bias, residual), options, out, stream)
