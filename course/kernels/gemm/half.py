"""Products of float16 and bfloat16: the entry point, and the steps that a product can take.

>>> y = gemm(x, weight, "nt", bias, "gelu")     # a layer and its activation, in one launch

=========  ========================================  ============================================
method     a block's tile, and how it is computed    compute capability, and other needs
=========  ========================================  ============================================
"plain"    128 x 128 by mma.sync                     7.5; bfloat16: 8.0. Any shape, any alignment
"thin"     16 x 8 to 64 x 32 of a warp by mma.sync,  8.0. Any alignment
           operands straight from global memory;
           split-K where it pays
"roles"    up to 128 x 256, TMA and wgmma            9.0; rows that begin at multiples of 16 bytes
"split"    the same; split-K within a cluster        the same
"partial"  the same; split-K by any blocks through   9.0. Any alignment: operands are copied,
           global memory; or clusters of two blocks  threads store the results
"library"  cuBLAS's choice                           9.0, and CuPy or PyTorch, which load it
=========  ========================================  ============================================

"wgmma" and "tma" are steps between "plain" and "roles", to be read and timed. They have the needs
of "roles", and take only float16 in the layout "nt", without an epilogue.

"auto" takes the step for which the models of `course.heuristics.gemm` predict the shortest time.
Lesson 17 climbs the ladder from section 12 on; its section 18 compares it with cuBLAS.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from course import backend
from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.slots import name_of
from course.heuristics import gemm as heuristics
from course.heuristics import gemm_library
from course.heuristics.device import ceil_div, hopper_refusal, multiprocessors, round_up
from course.heuristics.gemm import DEPTH, SPLITS, GemmConfig, Sizes, config_for
from course.kernels.arrays import Array, address_of, as_words, flat, holds, in_order
from course.kernels.gemm import library, mma_sync, padding, partial, split_k, thin, tma, wgmma
from course.kernels.gemm.epilogue import NO_NORM, Norm
from course.kernels.gemm.tiles import ACTIVATIONS, ROW_GROUP, or_anything
from course.kernels.gemm.warp_specialised import gemm as gemm_warp_specialised
from course.kernels.steps import Ladder, Launch, Step, require_choice
from warpsim.ptx import TensorMap
from warpsim.ptx.bfloat16 import BFLOAT16

HALF_TYPES = (np.dtype(np.float16), BFLOAT16)
MOST = 2**31 - 2**20  # elements of a matrix that int32 indexes, and some indices beyond its end
#: By layout: whether a lies transposed, and whether b does.
LAYOUTS = {"nn": (False, False), "nt": (False, True), "tn": (True, False)}

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
    """Shape and dtype of a product; raises for arguments that do not fit together."""
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
    copied: bool  # rows of a and b do, for cp.async, and rows of out at multiples of 4 bytes
    aligned: tuple[bool, bool, bool]  # whether rows of a do, of b, of both out and residual
    begins_aligned: bool  # out's first element lies at a multiple of 16 bytes

    @classmethod
    def of(cls, a: Array, b: Array, bias: Array | None, residual: Array | None, out: Array,
           layout: str = "nn", activation: str = "") -> GemmProblem:  # fmt: skip
        """The problem of device arrays; ValueError for strides that no step takes."""
        there = {"a": a, "b": b, "out": out, "bias": bias, "residual": residual}
        there = {name: array for name, array in there.items() if array is not None}
        for name, array in there.items():
            in_order(array, name)
        # from shapes, since the stride of a single row may be any number
        pitches = {name: its.shape[-1] * its.dtype.itemsize for name, its in there.items()}
        starts = {name: pitches[name] | address_of(its) for name, its in there.items()}
        copied = a.size > 0 and b.size > 0 and not ((starts["a"] | starts["b"]) % 16)
        tma = not any(start % 16 for name, start in starts.items() if name != "bias")
        epilogue = activation, bias is not None, residual is not None
        ends = starts["out"] | starts.get("residual", 0)
        aligned = tuple(not start % 16 for start in (starts["a"], starts["b"], ends))
        return cls(layout, *out.shape, a.shape[layout != "tn"], name_of(out.dtype), epilogue, tma,
                   copied and not starts["out"] % 4, aligned, not address_of(out) % 16)  # fmt: skip


# --- the steps ------------------------------------------------------------------------------------


def _sizes(p):
    return map(np.int32, (p.rows, p.columns, p.depth))


def _plain(p, a, b, bias, residual, out, **_):
    feed = "turing" if _is_turing() else "copied" if p.copied else "loaded"
    kernel = mma_sync.gemm(p.layout, p.dtype, feed, *p.epilogue)
    extra = or_anything(bias, residual, out)
    grid = ceil_div(p.rows, mma_sync.TILE_M) * ceil_div(p.columns, mma_sync.TILE_N)
    arguments = (a, b, out, *extra, *_sizes(p), np.int32(ROW_GROUP))
    return [Launch(kernel, grid, mma_sync.THREADS, arguments, mma_sync.shared_bytes(feed))]


def _is_turing():
    return tuple(cuda.get_current_device().compute_capability) < (8, 0)


def _plain_refusal(p):
    is_lacking = p.dtype == "bfloat16" and _is_turing()
    return "needs compute capability 8.0 for bfloat16, not for float16" if is_lacking else ""


def _by_tma(shared_by: tuple[int, ...]) -> Callable[..., list[Launch]]:
    """`launches` for tiles with split-K factors of `shared_by`; prefers the best config of all."""

    def launches(p, *arrays, **_):
        how = *p[:4], multiprocessors()
        config, splits = config_for(*how, added=p.epilogue[2])
        if splits not in shared_by:
            config, splits = config_for(*how, shared_by, p.epilogue[2])
        return [launch_of(config, splits, p, *arrays)]

    return launches


def launch_of(config: GemmConfig, splits: int, p: GemmProblem, a: Array, b: Array,
              bias: Array | None, residual: Array | None, out: Array,
              norm: Norm = NO_NORM, sums: Array | None = None) -> Launch:  # fmt: skip
    """What the method "roles" launches with a config, or "split" with several blocks for a tile.

    With ``norm.parts``, `sums` holds the sums of a's rows, and `bias` is float32: (bias, sum of
    the weights) for each column. With ``norm.counts``, `sums` is written. With ``config.partial``
    the partial sums go to `sums`, without an epilogue.
    """
    clustered, more = splits > 1 and not config.partial, (*p.epilogue[:2], norm)
    box, added = (16 if clustered else 64, 64), residual is not None
    extra, _ = or_anything(bias, None, out)
    if config.partial:
        ends, more, sums = (sums, extra), (), None
    elif config.by_threads:
        ends = as_words(flat(out, "out")), as_words(flat(out, "out"), 2)
    else:
        ends = TensorMap(out, *box), TensorMap(residual, *box) if added else out
    layout, sizes = p.layout, (p.rows, p.columns)
    if config.swapped:
        layout = "".join("nt"[c == "n"] for c in layout[::-1])
        a, b, sizes = b, a, sizes[::-1]
    wide = config.columns // (1 + config.paired)
    factors = (
        TensorMap(a, *((DEPTH, 64) if layout[0] == "t" else (config.rows, DEPTH))),
        TensorMap(b, *((wide, DEPTH) if layout[1] == "t" else (DEPTH, 64))),
    )
    arguments = (*factors, *ends, extra, extra if sums is None else sums,
                 *map(np.int32, (*sizes, p.depth)))  # fmt: skip
    down, across = ceil_div(sizes[0], config.rows), ceil_div(sizes[1], config.columns)
    how = layout, p.dtype, config
    if clustered:
        kernel, size = split_k.gemm(*how, splits, *more), config.split(splits)[2]
        return Launch(kernel, (splits, down, across), config.threads, arguments, size)
    grid: Any = round_up(down, 1 + config.paired), across, splits
    if config.waves > 1:  # persistent blocks: at most one a multiprocessor, in whole pairs
        blocks = multiprocessors()
        grid = min(math.prod(grid), blocks - blocks % (1 + config.paired))
    arguments = *arguments, np.int32(splits), np.int32(ROW_GROUP)
    kernel = gemm_warp_specialised(*how, *more)
    return Launch(kernel, grid, config.threads, arguments, config.shared)


def partial_launches(
    config: GemmConfig, splits: int, p: GemmProblem, a: Array, b: Array, bias: Array | None,
    residual: Array | None, out: Array, copied: tuple[bool, bool] | None = None,
) -> list[Launch]:  # fmt: skip
    """What "partial" launches; it first copies the operands `copied`, or those TMA cannot read."""
    first, (a, b) = padding.launches((a, b), copied or (not p.aligned[0], not p.aligned[1]))
    if not config.partial:
        return [*first, launch_of(config, splits, p, a, b, bias, residual, out)]
    sums = partial.workspace_for(splits, out)
    own = launch_of(config, splits, p, a, b, None, None, out, sums=sums)
    return [*first, own, *partial.launches(sums, bias, residual, out, p.epilogue[0])]


def _sizes_of(p: GemmProblem) -> Sizes:
    return Sizes(*p[:4], multiprocessors(), p.aligned, p.epilogue[2], p.begins_aligned)


def _thin(p, *arrays, **_):
    plan = heuristics.thin_plan(_sizes_of(p))
    return thin.launches(*plan[2:5], p, *arrays)


def _small_refusal(p, row=1):
    """`row`: a padded copy's rows have a multiple of so many elements."""
    sizes = p.rows, p.columns, p.depth
    if min(sizes) and max(m * round_up(n, row) for m, n in itertools.permutations(sizes, 2)) < MOST:
        return ""
    return f"takes matrices of 1 to {MOST:,} elements"


def _partial(p, *arrays, **_):
    plan = heuristics.partial_plan(_sizes_of(p))
    return partial_launches(plan.config, plan.splits, p, *arrays, copied=plan.copied)


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
    methods = [name for name in ("thin", "partial") if not LADDER[name].lacks(p)]
    if backend.gpu() is None or not methods:
        return "plain"
    if not LADDER["roles"].lacks(p):
        methods.append("stored")
    sizes = _sizes_of(p)
    plan = heuristics.plan_for(sizes, tuple(methods))
    handed = gemm_library.is_faster(sizes, plan, any(p.epilogue))
    return "library" if handed and not LADDER["library"].lacks(p) else plan.method


LADDER_ONLY = ("wgmma", "tma")  # steps to be read and timed, without an epilogue
LADDER = Ladder("gemm", GemmProblem.of, {
    "plain": Step(_plain, _plain_refusal, (7, 5)),
    "thin": Step(_thin, _small_refusal, (8, 0)),
    "wgmma": Step(wgmma.launches, _taught_refusal, (9, 0)),
    "tma": Step(tma.launches, _taught_refusal, (9, 0)),
    "roles": Step(_by_tma((1,)), _tma_refusal, (9, 0)),
    "split": Step(_by_tma(SPLITS), _tma_refusal, (9, 0)),
    "partial": Step(_partial, lambda p: hopper_refusal() or _small_refusal(p, 16), (9, 0)),
    "library": Step(library.launches, library.refusal, (9, 0)),
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

    cuBLAS multiplies where it is faster, see `course.heuristics.gemm_library`. It takes large
    products whose tiles would leave SMs idle, and results of 24 to 72 long columns. It also takes a
    large operand, with rows at multiples of 4 bytes, beside a narrow one.

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
        Where to write; it may be the residual, but none of the other arrays.
    method : str
        Of `gemm.ladder.names`.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; without it the one of a's library.

    Returns
    -------
    array, shape (rows, columns), of a's type
        `out`, if it is given; else of a's library. Sums have float32's error and are rounded once,
        by at most 2**-11 (float16) or 2**-8 (bfloat16) of themselves.

    Raises
    ------
    TypeError
        For no array, or elements of another type.
    ValueError
        For shapes or strides that do not fit, an unknown layout or activation, a method that cannot
        take them.
    """
    options = layout, activation, method
    return _ENTRY.call((a, b, bias, residual), options, out, stream)


gemm.ladder = LADDER
product = gemm  # as it was called before version 0.2
