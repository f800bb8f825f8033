"""The entry point of attention, and the step that a call takes.

>>> qkv = product(x, weight, "nt", bias).reshape(batch, tokens, 3, heads, 64)
>>> y = attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2])     # views: nothing is copied

==========  ==========================================  ==========================================
method      a block                                     needs
==========  ==========================================  ==========================================
"scores"    three launches, scores in memory            memory for tokens x tokens of each head
"fused"     64 queries, a thread each, and all keys     shared memory for a head's keys and values
"online"    64 queries by mma, keys 64 at a time        8.0; tokens at multiples of 16 bytes
"wgmma"     64 to 256 queries, warpgroups, TMA          9.0; strides that TMA takes
==========  ==========================================  ==========================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from course import backend
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.slots import name_of, workspace
from course.heuristics.attention import WIDE, Config, HeadsProblem, config_for
from course.heuristics.device import ceil_div, hopper_refusal, multiprocessors, shared_memory_limit
from course.kernels import softmax
from course.kernels.arrays import MOST, Array, address_of, holds, in_order, seen_as
from course.kernels.attention import first_steps, online
from course.kernels.attention.warpgroups import warpgroups
from course.kernels.gemm.half import HALF_TYPES
from course.kernels.steps import Ladder, Launch, Step, require_choice
from warpsim.ptx import TensorMap

SIZES = (32, 64, 80, 96, 128)  # of a head


def result(q: ArrayFacts, k: ArrayFacts, v: ArrayFacts, scale: float | None, method: str) -> Result:
    """Shape and dtype of the output; refuses arguments that do not fit together."""
    require_choice(method, "method", LADDER.names)
    holds(q, "q", *HALF_TYPES)
    for array, name in ((q, "q"), (k, "k"), (v, "v")):
        holds(array, name, q.dtype)
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


def problem_of(q: Array, k: Array, v: Array, out: Array, scale: Any = None) -> HeadsProblem:
    """The problem of device arrays; ValueError for strides that no step takes."""
    in_order(out, "out")
    (batch, tokens, heads, size), aligned, contiguous = q.shape, True, True
    for array, name in ((q, "q"), (k, "k"), (v, "v")):
        image, token, head, element = in_order(array, name, rows=True).strides
        aligned &= not any(n % 16 for n in (image, token, head, address_of(array)))
        contiguous &= heads == 1 or head == size * element
        contiguous &= batch == 1 or image == tokens * token
        contiguous &= batch * tokens == 1 or token >= heads * size * element
    return HeadsProblem(batch, tokens, heads, size, aligned, contiguous, address_of(out) % 8)


def _scale(p, scale):
    return np.float32(p.size**-0.5 if scale is None else scale)


def _in_memory(p, q, k, v, out, scale=None):
    scores = workspace((p.batch * p.heads * p.tokens, p.tokens), np.float32)
    side, heads = first_steps.SIDE, p.batch * p.heads
    down, across = ceil_div(p.tokens, side), ceil_div(p.size, side)
    products, sums = first_steps.scores_in_memory, first_steps.values_of_scores
    return [
        Launch(products, (down, down, heads), (side, side), (q, k, _scale(p, scale), scores)),
        *softmax.LADDER.launches(scores, scores),
        Launch(sums, (across, down, heads), (side, side), (scores, v, out)),
    ]


def _fused(p, q, k, v, out, scale=None):
    kernel, threads = first_steps.fused(name_of(out.dtype), p.size), first_steps.QUERIES
    grid, arguments = (ceil_div(p.tokens, threads), p.batch * p.heads), (q, k, v, _scale(p, scale))
    return [Launch(kernel, grid, threads, (*arguments, out), p.keys_and_values)]


def _online(p, q, k, v, out, scale=None):
    parts = ceil_div(p.tokens, online.WARPS * online.ROWS)
    factor = np.float32(_scale(p, scale) / math.log(2))
    kernel, sizes = online.online(name_of(out.dtype), p.size), map(np.int32, (p.heads, parts))
    rows = online.WARPS * online.ROWS + 4 * online.KEYS  # queries; two stages of keys and values
    return [Launch(kernel, p.batch * p.heads * parts, online.THREADS,
                   (q, k, v, *sizes, factor, out), 2 * rows * online.pitch(p.size))]  # fmt: skip


def by_warpgroups(config: Config | None = None) -> Callable[..., list[Launch]]:
    """What "wgmma" launches, with this config instead of the one that `config_for` chooses."""

    def launches(p, q, k, v, out, scale=None):
        its = config or config_for(p.tokens, p.batch * p.heads, multiprocessors(), p.size)
        parts = ceil_div(p.tokens, 64 * its.groups)
        items = p.batch * p.heads * parts
        maps = (TensorMap(_rows(one), rows, WIDE) for one, rows in
                ((q, 64), (k, its.box), (v, its.box)))  # fmt: skip
        sizes = map(np.int32, (p.tokens, p.heads, parts, items))
        factor = np.float32(_scale(p, scale) / math.log(2))
        grid = items if its.stages == 1 else min(items, multiprocessors() * its.blocks)
        kernel, arguments = warpgroups(name_of(out.dtype), its), (*maps, out, *sizes, factor)
        return [Launch(kernel, grid, its.threads, arguments, its.shared)]

    return launches


def _in_memory_refusal(p):
    heads = p.batch * p.heads
    return "" if heads <= MOST else f"takes at most {MOST:,} heads of all images, not {heads:,}"


def _fused_refusal(p):
    size, most = p.keys_and_values, shared_memory_limit()[0]
    if size > most:
        return (
            f"keeps a head's keys and values in shared memory: those of {p.tokens:,} tokens are "
            f"{size:,} bytes, and a block has {most:,}"
        )
    return _in_memory_refusal(p)


def _online_refusal(p):
    if not p.aligned:
        return "needs images, tokens and heads that begin at multiples of 16 bytes"
    return "needs an output that begins at a multiple of 4 bytes" if p.beyond % 4 else ""


def _wgmma_refusal(p):
    if wrong := hopper_refusal() or _online_refusal(p):
        return wrong
    if not p.contiguous:
        return "needs a token's heads side by side, and images one after another"
    return "" if not p.beyond else "needs an output that begins at a multiple of 8 bytes"


def _best(p):
    """The fastest step that fits; never "wgmma" in the simulator, which is slowest at it."""
    fast = ("wgmma", "online") if backend.gpu() is not None else ("online",)
    return next((name for name in fast if not LADDER.steps[name].lacks(p)), "scores")


LADDER = Ladder("attention", problem_of, {
    "scores": Step(_in_memory, _in_memory_refusal),
    "fused": Step(_fused, _fused_refusal),
    "online": Step(_online, _online_refusal, (8, 0)),
    "wgmma": Step(by_warpgroups(), _wgmma_refusal, (9, 0)),
}, _best)  # fmt: skip


def _rows(array: Array) -> Array:
    """All tokens of all images as the rows of a matrix, whose columns are those of all heads."""
    batch, tokens, heads, size = array.shape
    shape, strides = (batch * tokens, heads * size), (array.strides[1], array.dtype.itemsize)
    return seen_as(array, shape, strides)


_ENTRY = EntryPoint(
    "attention", ("q", "k", "v"), result, LADDER.launches, options=("scale", "method")
)


def attention(
    q: Array, k: Array, v: Array, scale: float | None = None, out: Array | None = None,
    method: str = "auto", stream: Stream = None,
) -> Array:  # fmt: skip
    """Multi-head attention, ``softmax(scale q k^T) v``: no mask, sums in float32, forward only.

    Parameters
    ----------
    q, k, v : array, shape (batch, tokens, heads, size), float16 or bfloat16
        Of NumPy, CuPy, PyTorch or numba.cuda; size is 32, 64, 80, 96 or 128. On the GPU the last
        axis is contiguous. The other axes may have any strides: views of one projection (batch,
        tokens, 3, heads, size) are taken as they are.
    scale : float, optional
        Factor of the scores, above 0; by default ``size ** -0.5``.
    out : array, shape (batch, tokens, heads * size), optional
        Where to write, in C order; shares no memory with q, k and v.
    method : str
        One of `attention.ladder.names`; "auto" takes the fastest that fits.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; by default q's library's current one.

    Returns
    -------
    array, shape (batch, tokens, heads * size), of q's dtype
        `out`, if it is given; else of q's library. A NaN in q reaches its row of that head, a NaN
        in k or v all rows of that head. Other heads and images are unaffected.

    Raises
    ------
    TypeError
        For an argument that is no array, or another dtype.
    ValueError
        For shapes or strides that do not fit, an unknown method, or one that cannot take them.
    """
    if isinstance(scale, np.generic):  # it would be compared in its own precision
        scale = scale.item()
    return _ENTRY.call((q, k, v), (scale, method), out, stream)


attention.ladder = LADDER
