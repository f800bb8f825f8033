"""The front door to attention, and which step a call takes.

>>> qkv = product(x, weight, "nt", bias).reshape(batch, tokens, 3, heads, 64)
>>> y = attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2])     # views: nothing is copied

==========  ==========================================  ==========================================
method      a block                                     needs
==========  ==========================================  ==========================================
"scores"    three launches, scores in memory            memory for tokens x tokens of each head
"fused"     64 queries, a thread each, and all keys     shared memory for a head's keys and values
"online"    64 queries by mma, keys 64 at a time        8.0; tokens at multiples of 16 bytes
"wgmma"     64 to 256 queries, warpgroups, TMA          9.0; heads of 64; strides that TMA takes
==========  ==========================================  ==========================================
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from course import backend
from course.backend import cuda
from course.door.door import Door, Result, Stream
from course.door.layout import Layout, name_of, workspace
from course.door.libraries import Seen
from course.kernels import launching, softmax
from course.kernels.arrays import Array, in_order, known
from course.kernels.attention import first_steps, online
from course.kernels.attention.warpgroups import SIZE, Shape, warpgroups
from course.kernels.halves.products import HALVES
from course.kernels.tensor_maps import TensorMap

METHODS = ("scores", "fused", "online", "wgmma")
SIZES = (32, 64, 128)  # of a head
FASTEST = ("wgmma", "online", "scores")  # "auto" takes the first that fits
MOST = 65_535  # blocks along the second and the third axis of a grid


def result(q: Seen, k: Seen, v: Seen, scale: float | None, method: str) -> Result:
    """Shape and type of the output, of what is right."""
    known(method, "method", ("auto", *METHODS))
    for array, name in ((q, "q"), (k, "k"), (v, "v")):
        if array.dtype not in HALVES or array.dtype != q.dtype:
            raise TypeError(
                f"{name} holds {name_of(array.dtype)}; q, k and v must all hold float16 or bfloat16"
            )
        if array.ndim != 4 or array.shape != q.shape:
            raise ValueError(
                f"{name} has the shape {array.shape}; q, k and v must have the same one, "
                f"(batch, tokens, heads, size)"
            )
    batch, tokens, heads, size = q.shape
    if size not in SIZES:
        raise ValueError(f"heads have {size} numbers; they must have one of {SIZES}")
    if scale is not None and not (
        isinstance(scale, int | float | np.floating) and 0 < scale < math.inf
    ):
        raise ValueError(f"scale is {scale!r}; give a number above 0, or None for size ** -0.5")
    return (batch, tokens, heads * size), q.dtype


def launches(
    q: Array, k: Array, v: Array, out: Array, scale: float | None = None, method: str = "auto",
    stream: Any = 0,
) -> list[tuple[Callable, tuple]]:  # fmt: skip
    """What attention launches, for device arrays; ValueError for a method they cannot have."""
    in_order(out, "out")
    for array, name in ((q, "q"), (k, "k"), (v, "v")):
        if array.strides[-1] != array.dtype.itemsize:
            raise ValueError(
                f"{name} has the strides {tuple(array.strides)} bytes; the numbers of each head "
                f"must lie side by side: copy it to C order first"
            )
    if not out.size:
        return []
    scale = np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    if method == "auto":
        fast = FASTEST if backend.gpu() is not None else FASTEST[1:]  # the simulator takes longest
        method = next((name for name in fast if not why_not(name, q, k, v, out)), fast[-1])
    wrong = why_not(method, q, k, v, out)
    if wrong:
        raise ValueError(f"method {method!r} {wrong}: choose 'auto'")
    return _STEPS[method](q, k, v, out, scale, stream)


def _in_memory(
    q: Array, k: Array, v: Array, out: Array, scale: Any, stream: Any
) -> list[tuple[Callable, tuple]]:
    batch, tokens, heads, size = q.shape
    scores = workspace((batch * heads * tokens, tokens), np.float32)
    side = first_steps.SIDE
    down, block = -(-tokens // side), (side, side)
    first = first_steps.scores_in_memory[(down, down, batch * heads), block, stream]
    middle = softmax.LADDER.launches(scores, scores)[0].configured(stream)
    last = first_steps.values_of_scores[(-(-size // side), down, batch * heads), block, stream]
    return [(first, (q, k, scale, scores)), (middle, (scores, scores)), (last, (scores, v, out))]


def _fused(
    q: Array, k: Array, v: Array, out: Array, scale: Any, stream: Any
) -> list[tuple[Callable, tuple]]:
    batch, tokens, heads, size = q.shape
    kernel = first_steps.fused(name_of(out.dtype), size)
    grid = -(-tokens // first_steps.QUERIES), batch * heads
    shared = 4 * tokens * size
    return [
        launching.ready(kernel, grid, first_steps.QUERIES, stream, shared, (q, k, v, scale, out))
    ]


def _online(
    q: Array, k: Array, v: Array, out: Array, scale: Any, stream: Any
) -> list[tuple[Callable, tuple]]:
    batch, tokens, heads, size = q.shape
    parts = -(-tokens // (online.WARPS * online.ROWS))
    sizes, factor = map(np.int32, (heads, parts)), np.float32(scale / math.log(2))
    kernel, shared = online.online(name_of(out.dtype), size), online.shared_bytes(size)
    return [launching.ready(kernel, batch * heads * parts, online.THREADS, stream, shared,
                    (q, k, v, *sizes, factor, out))]  # fmt: skip


def _wgmma(
    q: Array, k: Array, v: Array, out: Array, scale: Any, stream: Any
) -> list[tuple[Callable, tuple]]:
    shape = shape_of(q.shape[1], q.shape[0] * q.shape[2], _processors())
    return [by_warpgroups(q, k, v, out, scale, shape, stream)]


#: Of at most so many tokens all scores of a query are in registers; of at most `NARROW`, in those
#: of a thread when 512 share a multiprocessor.
HELD, NARROW = 256, 200
LONG = Shape(2, 128, 2, 0, 2)  # for more tokens
#: From so many on more keys a step pay, though a thread lacks some registers: its steps are fewer,
#: and what the last one does twice is little. On an H200 4,096 tokens take 0.95 times as long.
MANY, LONGER = 2048, Shape(3, 208, 2)


def shape_of(tokens: int, heads: int, processors: int) -> Shape:
    """How blocks of "wgmma" work, for so many heads of all images."""
    if tokens > HELD:
        return LONGER if tokens >= MANY else LONG
    keys, tiles = -(-tokens // 16) * 16, -(-tokens // 64)
    if heads < processors:
        return Shape(1, keys, 1, tokens, 3 if tokens <= NARROW else 2)
    if tokens > NARROW:
        return Shape(2, keys, 2, tokens)
    return Shape(tiles, keys, 2, tokens, max(1, 4 // tiles))


def why_not(method: str, q: Array, k: Array, v: Array, out: Array) -> str:
    """What a method needs and does not find, in words; else nothing."""
    batch, tokens, heads, size = q.shape
    given = [(*array.strides, array.__cuda_array_interface__["data"][0]) for array in (q, k, v)]
    capability = tuple(cuda.get_current_device().compute_capability)
    if method == "wgmma" and (lacks := launching.no_warpgroups()):
        return lacks
    if method == "online" and capability < (8, 0):
        return "needs compute capability 8.0, and this GPU has {}.{}".format(*capability)
    if method in ("scores", "fused") and batch * heads > MOST:
        return f"takes at most {MOST:,} heads of all images, not {batch * heads:,}"
    if method == "fused" and 4 * tokens * size > (most := launching.room()[0]):
        return (
            f"keeps a head's keys and values in shared memory: those of {tokens:,} tokens are "
            f"{4 * tokens * size:,} bytes, and a block has {most:,}"
        )
    if method in ("online", "wgmma") and any(
        n % 16 for four in given for n in (*four[:3], four[4])
    ):
        return "needs images, tokens and heads that begin at multiples of 16 bytes"
    if method != "wgmma":
        return ""
    if size != SIZE:
        return f"takes heads of {SIZE}, not of {size}"
    for image, token, head, _, _ in given:
        if (heads > 1 and head != 2 * size) or (batch > 1 and image != tokens * token):
            return "needs a token's heads side by side, and images one after another"
    if out.__cuda_array_interface__["data"][0] % 8:
        return "needs an output that begins at a multiple of 8 bytes"
    return ""


def _rows(array: Array) -> Layout:
    """All tokens of all images as the rows of a matrix, of numbers of all heads."""
    batch, tokens, heads, size = array.shape
    shape, strides = (batch * tokens, heads * size), (array.strides[1], array.dtype.itemsize)
    if isinstance(array, Layout):
        return dataclasses.replace(array, shape=shape, strides=strides)
    about = array.__cuda_array_interface__ | {"shape": shape, "strides": strides}
    return cuda.from_cuda_array_interface(about, owner=array, sync=False)


def by_warpgroups(
    q: Array, k: Array, v: Array, out: Array, scale: Any, shape: Shape, stream: Any = 0
) -> tuple[Callable, tuple]:
    """The launch of "wgmma" with a shape of blocks."""
    batch, tokens, heads, _ = q.shape
    parts = -(-tokens // (64 * shape.groups))
    items = batch * heads * parts
    maps = (TensorMap(_rows(one), rows, SIZE) for one, rows in
            ((q, 64), (k, shape.box), (v, shape.box)))  # fmt: skip
    sizes = (np.int32(n) for n in (tokens, heads, parts, items))
    factor = np.float32(scale / math.log(2))
    grid = items if shape.stages == 1 else min(items, _processors() * shape.blocks)
    kernel = warpgroups(name_of(out.dtype), shape)
    return launching.ready(kernel, grid, shape.threads, stream, shape.shared,
                   (*maps, out, *sizes, factor))  # fmt: skip


def _processors() -> int:
    return int(getattr(cuda.get_current_device(), "MULTIPROCESSOR_COUNT", 132))


_STEPS = {"scores": _in_memory, "fused": _fused, "online": _online, "wgmma": _wgmma}
_DOOR = Door("attention", ("q", "k", "v"), result, launches)


def attention(
    q: Array, k: Array, v: Array, scale: float | None = None, out: Array | None = None,
    method: str = "auto", stream: Stream = None,
) -> Array:  # fmt: skip
    """``softmax(scale q k^T) v`` of each head, without a mask; sums in float32. Forward alone.

    Parameters
    ----------
    q, k, v : array, shape (batch, tokens, heads, size), float16 or bfloat16
        Of NumPy, CuPy, PyTorch or numba.cuda; size is 32, 64 or 128. On the GPU the numbers of a
        head lie side by side; the other axes may have any strides, so views of one product
        (batch, tokens, 3, heads, size) do.
    scale : float, optional
        Above 0; without it ``size ** -0.5``.
    out : array, shape (batch, tokens, heads * size), optional
        Where to write, in C order; none of the others.
    method : str
        Of `METHODS`, or "auto".
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; without it the one of q's library.

    Returns
    -------
    array, shape (batch, tokens, heads * size), of q's type
        `out`, if it is given; else of q's kind. A NaN in q makes its row of the head NaN; one in k
        or v, all rows of the head; other heads and images stay as they are.

    Raises
    ------
    TypeError
        For no array, or elements of another type.
    ValueError
        For shapes or strides that do not fit, an unknown method, a method that they cannot have.
    """
    return _DOOR.enter((q, k, v), (scale, method), out, stream)
