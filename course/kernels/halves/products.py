"""The front door to products of float16 and bfloat16, and which step a product takes.

>>> y = product(x, weight, "nt", bias, "gelu")     # a layer and its activation, in one launch

=========  ========================================  ============================================
method     a block                                   needs
=========  ========================================  ============================================
"plain"    128 x 128 by mma.sync                     7.5; bfloat16: 8.0. Any shape, any alignment
"roles"    up to 128 x 256, TMA and wgmma            9.0; rows that begin at multiples of 16 bytes
"split"    the same; a cluster shares the depth      the same, and the layout "nt"; by name only
=========  ========================================  ============================================

"wgmma" and "tma" are the steps of the ladder between them, to be read and timed: as "roles", of
float16, in the layout "nt", with nothing after the product.

"auto" takes what the model of `fastest` has the fewest cycles for: waves of tiles on the GPU's
multiprocessors, times what a step of the depth costs, which is the tensor core's time or that of
the tiles' way from L2.
"""

from __future__ import annotations

import functools
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
SHAPES = (Shape(2, 256, 3), Shape(2, 192, 4), Shape(2, 128, 6), Shape(1, 192, 6), Shape(1, 128, 8),
          Shape(1, 64, 6))  # fmt: skip
#: Of which no block has more than one.
ALONE = (Shape(2, 256, 4, True), Shape(2, 128, 7, True), Shape(1, 192, 7, True),
         Shape(1, 128, 9, True))  # fmt: skip
#: A tile whose depth a cluster of so many blocks shares. On an H200 results of "nt" were right in
#: every run, some of "nn" and "tn" wrong. The likely cause: a block's rank, in its addresses, got
#: into a field of the descriptors that "nt" has no use for. Addresses are cut now, which has not
#: run on a GPU; until then the two are refused, and "auto" shares no depth.
SPLIT = Shape(1, 128, 4), 4
#: Cycles of one multiprocessor, by measurements on an H200.
TILE = 1500  # that a tile takes besides its steps
SLOWER = 1.025  # a narrower tile than 256 is read more often


def tiles_of(shape: Shape, rows: int, columns: int) -> int:
    """How many tiles a product has."""
    return -(-rows // shape.rows) * -(-columns // shape.columns)


def _cycles(shape: Shape, rows: int, columns: int, steps: int, blocks: int) -> float:
    """What a product takes on so many multiprocessors."""
    waves = -(-tiles_of(shape, rows, columns) // blocks)
    sums = 2 * shape.consumers * shape.columns  # 64 x 64 deep, 2,048 multiplications a cycle
    step = max(sums, 1.5 * (shape.rows + shape.columns))
    each = steps * step * (SLOWER if shape.columns < 256 else 1)
    return waves * (each + TILE - 300 * shape.alone)


@functools.lru_cache(maxsize=1024)
def fastest(rows: int, columns: int, depth: int, blocks: int) -> Shape:
    """The tile of a product."""
    several = [*SHAPES, *(its for its in ALONE if tiles_of(its, rows, columns) <= blocks)]
    return min(several, key=lambda its: _cycles(its, rows, columns, -(-depth // DEPTH), blocks))


def why_not(out: Array, *factors: Array) -> str:
    """What "roles" and "split" need and do not find, in words; else nothing."""
    capability = tuple(cuda.get_current_device().compute_capability)
    if capability != (9, 0):
        return "needs compute capability 9.0, and this GPU has {}.{}".format(*capability)
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
) -> list[tuple[Callable, tuple]]:  # fmt: skip
    """What a product launches, for device arrays; ValueError for a method they cannot have."""
    a, b, out = in_order(a, "a"), in_order(b, "b"), in_order(out, "out")
    rows, columns = out.shape
    if not out.size:
        return []
    depth = a.shape[0 if layout == "tn" else 1]
    wrong = why_not(out, a, b)
    if method == "auto":
        method = "plain" if wrong or backend.gpu() is None else "roles"
    elif method != "plain" and wrong:
        raise ValueError(f"method {method!r} {wrong}: choose 'plain'")
    element, epilogue = name_of(out.dtype), (activation, bias is not None, residual is not None)
    extra = flat(out, "out") if bias is None else in_order(bias, "bias")
    extra = extra, out if residual is None else in_order(residual, "residual")
    sizes = tuple(map(np.int32, (rows, columns, depth)))
    if method == "plain":
        feed = _feed(element, wrong, a, b)
        kernel, size = plain.product(layout, element, feed, *epilogue), plain.shared_bytes(feed)
        arguments = (a, b, out, *extra, *sizes, np.int32(BAND))
        grid = -(-rows // plain.HIGH) * -(-columns // plain.WIDE)
        return [_launch(kernel, grid, plain.THREADS, stream, size, arguments)]
    blocks = int(getattr(cuda.get_current_device(), "MULTIPROCESSOR_COUNT", 132))
    if method == "split" and layout != "nt":
        raise ValueError(
            f"method 'split' takes the layout 'nt', not {layout!r}, of which an H200 made wrong "
            f"results: choose 'roles'"
        )
    if method in STEPS:
        if (layout, element, *epilogue) != ("nt", "float16", "", False, False):
            raise ValueError(
                f"method {method!r}, a step of the ladder, takes float16 in the layout 'nt' and "
                f"nothing after the product: choose 'roles'"
            )
        kernel, grid, threads, size, arguments = STEPS[method].launch(a, b, out, blocks)
        return [_launch(kernel, grid, threads, stream, size, arguments)]
    shape, splits = fastest(rows, columns, depth, blocks), 1
    if method == "split":
        shape, splits = SPLIT
    maps = (
        TensorMap(a, *((64, DEPTH) if layout == "tn" else (shape.rows, DEPTH))),
        TensorMap(b, *((shape.columns, DEPTH) if layout == "nt" else (DEPTH, 64))),
    )
    tiles = tiles_of(shape, rows, columns)
    if splits > 1:
        kernel = split.product(layout, element, shape, splits, *epilogue)
        arguments = (*maps, out, *extra, *sizes)
        return [_launch(kernel, tiles * splits, shape.threads, stream, split.shared_bytes(shape),
                        arguments)]  # fmt: skip
    kernel = roles.product(layout, element, shape, *epilogue)
    arguments = (*maps, TensorMap(out, 64, 64), *extra, *sizes, np.int32(BAND))
    grid = min(tiles, blocks * (2 if shape.shared < 2**17 - 2**14 else 1))
    return [_launch(kernel, grid, shape.threads, stream, shape.shared, arguments)]


def _feed(element: str, wrong: str, *factors: Array) -> str:
    """How "plain" brings its tiles."""
    if tuple(cuda.get_current_device().compute_capability) < (8, 0):
        if element == "bfloat16":
            raise ValueError("products of bfloat16 need compute capability 8.0: convert to float16")
        return "turing"
    starts = [array.__cuda_array_interface__["data"][0] for array in factors]
    aligned = not any(n % 16 for n in starts + [array.strides[0] for array in factors])
    return "copied" if aligned and all(array.size for array in factors) else "loaded"


def _launch(
    kernel: Any, grid: int, threads: int, stream: Any, size: int, arguments: tuple
) -> tuple[Callable, tuple]:
    if backend.gpu() is not None:
        kinds = tuple(
            one.numba_type() if hasattr(one, "numba_type") else kernel.typeof_pyval(one)
            for one in arguments
        )
        launching.allow_shared(kernel, kinds, size)
    return kernel[grid, threads, stream, size], arguments


_DOOR = Door("product", ("a", "b", "bias", "residual"), result, launches,
             optional=("bias", "residual"), empty=True)  # fmt: skip


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
