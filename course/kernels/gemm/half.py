"""Products of float16 and bfloat16: the entry point, and which step a product takes.

>>> y = gemm(x, weight, "nt", bias, "gelu")     # a layer and its activation, in one launch

=========  ========================================  ============================================
method     a block                                   needs
=========  ========================================  ============================================
"plain"    128 x 128 by mma.sync                     7.5; bfloat16: 8.0. Any shape, any alignment
"roles"    up to 128 x 256, TMA and wgmma            9.0; rows that begin at multiples of 16 bytes
"split"    the same; a cluster shares the depth      the same
=========  ========================================  ============================================

"wgmma" and "tma" are the steps of the ladder between them, to be read and timed: as "roles", of
float16, in the layout "nt", with nothing after the product.

"auto" takes what the model of `config_for` has the fewest cycles for: waves of tiles on the GPU's
multiprocessors, times what a step of the depth costs, which is the tensor cores' time or that of
shared memory. "split" is for few tiles and a long depth. Lesson 17, section 12, shows what all that
takes, and a call with NumPy's arrays, and the first one of a process.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from course import backend
from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.slots import name_of
from course.kernels.arrays import Array, address_of, flat, holds, in_order
from course.kernels.gemm import mma_sync, split_k, tma, warp_specialised, wgmma
from course.kernels.gemm.tiles import ACTIVATIONS, DEPTH, ROW_GROUP
from course.kernels.gemm.warp_specialised import GemmConfig
from course.kernels.steps import (
    Ladder,
    Launch,
    Step,
    ceil_div,
    hopper_refusal,
    multiprocessors,
    require_choice,
)
from warpsim.ptx import TensorMap
from warpsim.ptx.bfloat16 import BFLOAT16

HALF_TYPES = (np.dtype(np.float16), BFLOAT16)
#: layout -> whether the first, the second factor lies transposed.
LAYOUTS = {"nn": (False, False), "nt": (False, True), "tn": (True, False)}
SHARED_LIMIT = 226 * 1024  # bytes of shared memory for a block's tiles, beside its barriers
STAGES = 3, 8  # at least and at most
SPLITS = (2, 4)  # blocks of a cluster; a whole number of warps for each
#: By measurements on an H200, in cycles of one multiprocessor.
SHARED = 0.92  # what is seen of shared memory's time
TILE_CYCLES = 6  # that a tile takes besides its steps, for each of its columns
ADD_CYCLES = 1000, 10  # to add the sums of a cluster's blocks: once, and bytes in a cycle
SLOWER = 1.025  # a narrower tile than 256 is read more often


def staged_config(
    consumers: int, columns: int, waves: int, added: bool = False, splits: int = 1
) -> GemmConfig:
    """A tile with as many stages as fit beside its results; those of a split one lie there, too."""
    bare = GemmConfig(consumers, columns, 0, waves, added)
    results = bare.rows // splits * 64 * bare.boxes if bare.own_results or splits > 1 else 0
    stages = (SHARED_LIMIT - 2 * results) // (2 * bare.stage)
    return bare._replace(stages=min(stages, STAGES[1]))


@functools.lru_cache(maxsize=1024)
def config_for(
    layout: str, rows: int, columns: int, depth: int, blocks: int,
    shared_by: tuple[int, ...] = (1, *SPLITS), added: bool = False,
) -> tuple[GemmConfig, int]:  # fmt: skip
    """The tile of a product, and how many blocks share its depth: one of `shared_by`.

    Counted are a block's cycles: its tiles, times their steps, times what takes longest in a step:
    the tensor cores' 2,048 multiplications a cycle, or shared memory's 128 bytes a cycle. TMA
    writes them once; each consumer reads its part of a, and all of b. Clusters lie in a part of the
    GPU each: pairs of multiprocessors are everywhere, of fours only three quarters are sure. Where
    blocks must share, there may be more clusters than that.
    """
    steps, best = ceil_div(depth, DEPTH), []
    for consumers, wide in itertools.product((1, 2), range(64, 257, 16 if layout == "nt" else 64)):
        tiles = ceil_div(rows, 64 * consumers) * ceil_div(columns, wide)
        step = max(2 * consumers * wide, SHARED * (128 * consumers + wide * (consumers + 1)))
        step *= SLOWER if wide < 256 else 1
        for splits in shared_by:
            waves = ceil_div(tiles, blocks) if splits == 1 else 1
            config = staged_config(consumers, wide, min(waves, 3), added, splits)
            if splits == 1:
                fits, cycles = (
                    config.stages >= STAGES[0],
                    waves * (steps * step + TILE_CYCLES * wide),
                )
            else:
                fits = tiles * splits <= (blocks if splits == 2 else 3 * blocks // 4)
                fits |= 1 not in shared_by
                fits &= split_k.shared_bytes(config, splits) <= SHARED_LIMIT
                given = 4 * config.rows * wide * (splits - 1) // splits
                cycles = ceil_div(steps, splits) * step + TILE_CYCLES * wide + ADD_CYCLES[0]
                cycles += given / ADD_CYCLES[1]
            if fits:
                best.append((cycles, config, splits))
    _, config, splits = min(best)
    return config, splits


# --- what is given --------------------------------------------------------------------------------


def checked_sizes(a: ArrayFacts, b: ArrayFacts, layout: str) -> tuple[int, int]:
    """Rows and columns of a product; ValueError for a layout or shapes that do not fit."""
    require_choice(layout, "layout", LAYOUTS)
    wanted = [
        f"({', '.join(pair[::-1] if transposed else pair)})"
        for pair, transposed in zip((("rows", "depth"), ("depth", "columns")), LAYOUTS[layout])
    ]
    for array, name, shape in ((a, "a", wanted[0]), (b, "b", wanted[1])):
        if array.ndim != 2:
            raise ValueError(f"{name} has the shape {array.shape}; it must be {shape}")
    (rows, depth), (other, columns) = (
        array.shape[::-1] if transposed else array.shape
        for array, transposed in zip((a, b), LAYOUTS[layout])
    )
    if depth != other:
        raise ValueError(
            f"a and b have the shapes {a.shape} and {b.shape}; in the layout {layout!r} they must "
            f"be {' and '.join(wanted)}, so {depth} and {other} must be the same"
        )
    return rows, columns


def result(
    a: ArrayFacts, b: ArrayFacts, bias: ArrayFacts | None, residual: ArrayFacts | None,
    layout: str, activation: str, method: str,
) -> Result:  # fmt: skip
    """Shape and type of a product, of what is right."""
    require_choice(activation, "activation", ACTIVATIONS)
    require_choice(method, "method", LADDER.names)
    for array, name in ((a, "a"), (b, "b")):
        if array.dtype not in HALF_TYPES or array.dtype != a.dtype:
            raise TypeError(
                f"{name} holds {name_of(array.dtype)}; a and b must both hold float16 or bfloat16"
            )
    shape = checked_sizes(a, b, layout)
    for array, name, wanted in ((bias, "bias", shape[1:]), (residual, "residual", shape)):
        if array is not None:
            holds(array, name, a.dtype)
            if array.shape != wanted:
                raise ValueError(f"{name} has the shape {array.shape}; it must be {wanted}")
    return shape, a.dtype


class GemmProblem(NamedTuple):
    """What decides between the steps."""

    layout: str
    rows: int
    columns: int
    depth: int
    dtype: str
    epilogue: tuple[str, bool, bool]  # the activation, whether there are a bias and a residual
    tma: bool  # rows of all matrices begin at multiples of 16 bytes
    copied: bool  # those of both factors do, and results can be stored in pairs

    @classmethod
    def of(cls, a: Array, b: Array, bias: Array | None, residual: Array | None, out: Array,
           layout: str = "nn", activation: str = "") -> GemmProblem:  # fmt: skip
        """That of device arrays; ValueError for strides that no step takes."""
        there = {"a": a, "b": b, "out": out, "bias": bias, "residual": residual}
        there = {name: array for name, array in there.items() if array is not None}
        for name, array in there.items():
            in_order(array, name)
        starts = {name: its.strides[0] | address_of(its) for name, its in there.items()}
        copied = a.size > 0 and b.size > 0 and not ((starts["a"] | starts["b"]) % 16)
        tma = not any(start % 16 for name, start in starts.items() if name != "bias")
        epilogue = activation, bias is not None, residual is not None
        return cls(layout, *out.shape, a.shape[layout != "tn"], name_of(out.dtype), epilogue, tma,
                   copied and not starts["out"] % 4)  # fmt: skip


# --- the steps ------------------------------------------------------------------------------------


def _sizes(p):
    return map(np.int32, (p.rows, p.columns, p.depth))


def _or_anything(bias, out):
    return flat(out, "out") if bias is None else bias


def _plain(p, a, b, bias, residual, out, **_):
    feed = "turing" if _is_turing() else "copied" if p.copied else "loaded"
    kernel = mma_sync.gemm(p.layout, p.dtype, feed, *p.epilogue)
    extra = _or_anything(bias, out), out if residual is None else residual
    grid = ceil_div(p.rows, mma_sync.TILE_M) * ceil_div(p.columns, mma_sync.TILE_N)
    arguments = (a, b, out, *extra, *_sizes(p), np.int32(ROW_GROUP))
    return [Launch(kernel, grid, mma_sync.THREADS, arguments, mma_sync.shared_bytes(feed))]


def _is_turing():
    return tuple(cuda.get_current_device().compute_capability) < (8, 0)


def _plain_refusal(p):
    is_lacking = p.dtype == "bfloat16" and _is_turing()
    return "needs compute capability 8.0 for bfloat16, not for float16" if is_lacking else ""


def _by_tma(shared_by: tuple[int, ...]) -> Callable[..., list[Launch]]:
    """What launches a tile whose depth so many blocks share: that of "auto", if it is such."""

    def launches(p, *arrays, **_):
        how = *p[:4], multiprocessors()
        config, splits = config_for(*how, added=p.epilogue[2])
        if splits not in shared_by:
            config, splits = config_for(*how, shared_by, p.epilogue[2])
        return [launch_of(config, splits, p, *arrays)]

    return launches


def launch_of(config: GemmConfig, splits: int, p: GemmProblem, a: Array, b: Array,
              bias: Array | None, residual: Array | None, out: Array) -> Launch:  # fmt: skip
    """What the method "roles" launches with a config, or "split" with several blocks for a tile."""
    box, added = (16 if splits > 1 else 64, 64), residual is not None
    maps = (
        TensorMap(a, *((64, DEPTH) if p.layout == "tn" else (config.rows, DEPTH))),
        TensorMap(b, *((config.columns, DEPTH) if p.layout == "nt" else (DEPTH, 64))),
        TensorMap(out, *box), TensorMap(residual, *box) if added else out,
    )  # fmt: skip
    arguments = (*maps, _or_anything(bias, out), *_sizes(p))
    down, across = ceil_div(p.rows, config.rows), ceil_div(p.columns, config.columns)
    how = p.layout, p.dtype, config
    if splits > 1:
        kernel = split_k.gemm(*how, splits, *p.epilogue[:2])
        size = split_k.shared_bytes(config, splits)
        return Launch(kernel, (splits, down, across), config.threads, arguments, size)
    grid = (down, across) if config.waves == 1 else min(down * across, multiprocessors())
    return Launch(warp_specialised.gemm(*how, *p.epilogue[:2]), grid, config.threads,
                  (*arguments, np.int32(ROW_GROUP)), config.shared)  # fmt: skip


def _tma_refusal(p):
    if wrong := hopper_refusal():
        return wrong
    if not p.tma:
        return "needs rows that begin at multiples of 16 bytes, and those of one array do not"
    return "" if p.depth else "needs a depth of 1 or more"


def _taught_refusal(p):
    if (p.layout, p.dtype, p.epilogue) != ("nt", "float16", ("", False, False)):
        return "takes float16 in the layout 'nt', and does nothing after the product"
    return _tma_refusal(p)


def _best(p):
    if backend.gpu() is None or LADDER["roles"].lacks(p):
        return "plain"
    _, splits = config_for(*p[:4], multiprocessors(), added=p.epilogue[2])
    return "roles" if splits == 1 else "split"


LADDER_ONLY = ("wgmma", "tma")  # steps to be read and timed, with nothing after the product
LADDER = Ladder("gemm", GemmProblem.of, {
    "plain": Step(_plain, _plain_refusal, (7, 5)),
    "wgmma": Step(wgmma.launches, _taught_refusal, (9, 0)),
    "tma": Step(tma.launches, _taught_refusal, (9, 0)),
    "roles": Step(_by_tma((1,)), _tma_refusal, (9, 0)),
    "split": Step(_by_tma(SPLITS), _tma_refusal, (9, 0)),
}, _best)  # fmt: skip
_ENTRY = EntryPoint("gemm", ("a", "b", "bias", "residual"), result, LADDER.launches,
             optional=("bias", "residual"), empty=True, in_place=("residual",),
             options=("layout", "activation", "method"))  # fmt: skip


def gemm(
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
        Of `gemm.ladder.names`.
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
        For shapes or strides that do not fit, an unknown layout or activation, a method that they
        cannot have.
    """
    options = layout, activation, method
    return _ENTRY.call((a, b, bias, residual), options, out, stream)


gemm.ladder = LADDER
product = gemm  # as it was called before version 0.2
