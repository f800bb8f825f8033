"""Sum and maximum of an array on the GPU: a ladder of kernels.

>>> reduction(x)                                # the sum, a float32; NumPy in, a scalar out
>>> reduction(x, "max", out=result)             # into an array of one float32 on the GPU

Elements are float32, float16 or bfloat16, partial results float32. A NaN makes the result NaN, a
maximum, too. The work is to read each element once: 4 bytes of float32, one operation. The steps
differ in how they combine partial results: by atomics, in shared memory, by shuffles, in registers.

Source: Harris, "Optimizing Parallel Reduction in CUDA", NVIDIA 2007; for the last block CUDA C++
Programming Guide, `__threadfence`. The softmax of rows is in `course.kernels.softmax`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float32, int32, int64, uint32

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.slots import workspace
from course.heuristics import reduce as heuristics
from course.heuristics.reduce import CONFIGS, ReductionConfig, ReductionProblem, config_for
from course.kernels.arrays import VECTOR, Array, are_aligned, checked, flat
from course.kernels.steps import Ladder, Launch, Step, ceil_div, multiprocessors, require_choice
from course.kernels.warps import WARP, over_lanes
from warpsim.ptx import grid_dependency_wait, load4

THREADS = 256  # of a block in steps 1 to 4; a power of two
WARPS = THREADS // WARP
NAN_BITS = np.int32(0x7FC00000)


# --- what is reduced ------------------------------------------------------------------------------


@cuda.jit(device=True)
def added(a, b):
    """The sum of two."""
    return a + b


@cuda.jit(device=True)
def add_at(out, value):
    """An atomic sum."""
    cuda.atomic.add(out, 0, value)


@cuda.jit(device=True)
def larger(a, b):
    """The larger of two; NaN where one is NaN, which a comparison alone would lose."""
    return b if b > a or b != b else a


@cuda.jit(device=True)
def raise_to(out, value):
    """An atomic maximum of float32, by integer atomics on the bits.

    Positive values sort as their bits do as signed integers, negative ones in the reverse order of
    their bits as unsigned integers. A NaN with its sign cleared is above all. CUDA's own atomic
    maximum of float32 ignores NaN, and is a compare-and-swap loop.
    """
    local = cuda.local.array(1, float32)
    local[0] = value
    bits = local.view(np.int32)[0]
    if value != value:
        bits = NAN_BITS
    if bits >= 0:
        cuda.atomic.max(out.view(np.int32), 0, bits)
    else:
        cuda.atomic.min(out.view(np.uint32), 0, uint32(bits))


@dataclass(frozen=True)
class Kind:
    """A reduction: how two values are combined, also by an atomic, and its identity element."""

    combined: Callable
    combine_at: Callable
    nothing: np.float32


KINDS = {
    "sum": Kind(added, add_at, np.float32(0)),
    "max": Kind(larger, raise_to, np.float32(-np.inf)),
}


@cuda.jit
def fill(out, value):
    """Write the identity element to out, into which steps 1 to 4 combine by atomics."""
    out[0] = value


# --- steps 1 to 3: an element a thread ------------------------------------------------------------


@functools.cache
def atomics(kind: Kind) -> Callable:
    """Step 1, of (x, out): every thread combines its element with one address.

    Mapping: thread i has element i. Memory: coalesced loads; the atomics of all threads serialise
    at one address.
    """
    combine_at = kind.combine_at

    @cuda.jit
    def reduce_atomics(x, out):
        i = cuda.grid(1)
        if i < x.size:
            combine_at(out, float32(x[i]))

    return reduce_atomics


@functools.cache
def tree(kind: Kind) -> Callable:
    """Step 2, of (x, out): a tree in shared memory, then one atomic a block.

    Mapping: thread i has element i; half of the block's threads combine two values, then a quarter.
    Active threads are neighbours, and so are their addresses: no warp diverges until fewer than 32
    threads are active, and there are no bank conflicts. 9 barriers.
    """
    combined, combine_at, nothing = kind.combined, kind.combine_at, kind.nothing

    @cuda.jit
    def reduce_tree(x, out):
        values = cuda.shared.array(THREADS, float32)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        values[t] = float32(x[i]) if i < x.size else nothing
        cuda.syncthreads()
        half = THREADS // 2
        while half > 0:
            if t < half:
                values[t] = combined(values[t], values[t + half])
            cuda.syncthreads()
            half //= 2
        if t == 0:
            combine_at(out, values[0])

    return reduce_tree


@functools.cache
def combiners(kind: Kind, warps: int) -> tuple[Callable, Callable]:
    """Device functions that combine the values of a warp, for all lanes, and those of a block.

    Only thread 0 gets the block's result. `warps` is a power of two.
    """
    of_warp, nothing = over_lanes(kind.combined), kind.nothing

    @cuda.jit(device=True)
    def of_block(value):
        values = cuda.shared.array(warps, float32)
        t = int32(cuda.threadIdx.x)
        value = of_warp(value)
        if t % WARP == 0:
            values[t // WARP] = value
        cuda.syncthreads()
        if t < WARP:
            value = of_warp(values[t] if t < warps else nothing)
        return value

    return of_warp, of_block


@functools.cache
def shuffles(kind: Kind) -> Callable:
    """Step 3, of (x, out): lanes combine by shuffles, warps in shared memory, one barrier.

    Mapping: thread i has element i. A block has one barrier and 8 values in shared memory, where
    step 2 has 9 barriers and 255 additions there.
    """
    combine_at, nothing = kind.combine_at, kind.nothing
    _, of_block = combiners(kind, WARPS)

    @cuda.jit
    def reduce_shuffles(x, out):
        i = cuda.grid(1)
        value = of_block(float32(x[i]) if i < x.size else nothing)
        if cuda.threadIdx.x == 0:
            combine_at(out, value)

    return reduce_shuffles


# --- steps 4 and 5: many elements a thread --------------------------------------------------------


SHAPES, pieces = CONFIGS, combiners  # as lesson 10 called them before version 0.2


@functools.cache
def gatherer(kind: Kind, config: ReductionConfig, aligned: bool) -> Callable:
    """Device function of (x, first, step): a thread's result for the tiles from `first` on.

    Whole tiles are read unguarded, four elements at a time where the array is aligned, with all
    loads in flight before the first is used. Each access has its own partial result, so that no
    addition waits for the one before. Only in the tile where x ends are accesses guarded.
    """
    combined, nothing, threads = kind.combined, kind.nothing, config.threads
    accesses, tile = config.accesses, config.tile

    @cuda.jit(device=True)
    def at(n, e, t):
        """Where element e of access n is in a tile."""
        return (n * threads + t) * VECTOR + e if aligned else (n * VECTOR + e) * threads + t

    @cuda.jit(device=True)
    def folded(partial, values):
        for n in range(accesses):
            left = combined(float32(values[n, 0]), float32(values[n, 1]))
            right = combined(float32(values[n, 2]), float32(values[n, 3]))
            partial[n] = combined(partial[n], combined(left, right))

    @cuda.jit(device=True)
    def gathered(x, first, step):
        t, size = int32(cuda.threadIdx.x), int64(x.size)
        partial = cuda.local.array(accesses, float32)
        values = cuda.local.array((accesses, VECTOR), x.dtype)
        for n in range(accesses):
            partial[n] = nothing
        start = first
        while start + tile <= size:
            for n in range(accesses):
                if aligned:
                    four = load4(x, start + at(n, 0, t))
                    values[n, 0], values[n, 1], values[n, 2], values[n, 3] = four
                else:
                    for e in range(VECTOR):
                        values[n, e] = x[start + at(n, e, t)]
            folded(partial, values)
            start += step
        if start < size:
            rest, last = int32(size - start), cuda.local.array((accesses, VECTOR), float32)
            for n in range(accesses):
                for e in range(VECTOR):
                    last[n, e] = nothing
                if aligned and at(n, VECTOR - 1, t) < rest:
                    four = load4(x, start + at(n, 0, t))
                    last[n, 0], last[n, 1] = float32(four[0]), float32(four[1])
                    last[n, 2], last[n, 3] = float32(four[2]), float32(four[3])
                else:
                    for e in range(VECTOR):
                        if at(n, e, t) < rest:
                            last[n, e] = float32(x[start + at(n, e, t)])
            folded(partial, last)
        value = nothing
        for n in range(accesses):
            value = combined(value, partial[n])
        return value

    return gathered


@functools.cache
def several(kind: Kind, config: ReductionConfig, aligned: bool) -> Callable:
    """Step 4, of (x, out): several elements a thread by wide loads; then as step 3, one atomic.

    Mapping: block b has the b-th tile.
    """
    combine_at, tile = kind.combine_at, config.tile
    gathered = gatherer(kind, config, aligned)
    _, of_block = combiners(kind, config.threads // WARP)

    @cuda.jit
    def reduce_several(x, out):
        first = int64(cuda.blockIdx.x) * tile
        value = of_block(gathered(x, first, int64(cuda.gridDim.x) * tile))
        if cuda.threadIdx.x == 0:
            combine_at(out, value)

    return reduce_several


@functools.cache
def last_block(kind: Kind, config: ReductionConfig, aligned: bool) -> Callable:
    """Step 5, of (x, partial, counter, out): one wave of blocks, the last of which combines all.

    Mapping: block b has tiles b, b + blocks, ... It writes its result to ``partial[b]``, makes it
    visible to all blocks (threadfence), and increments counter. The block that counts last knows
    that all results are there, and combines them. counter is 0 before and after. Partial results
    are always combined in the same order, so the result's bits are reproducible, unlike an atomic
    sum's. A single block writes its result directly.
    """
    nothing, tile, threads = kind.nothing, config.tile, config.threads
    combined = kind.combined
    gathered = gatherer(kind, config, aligned)
    _, of_block = combiners(kind, config.threads // WARP)

    @cuda.jit
    def reduce_last_block(x, partial, counter, out):
        is_last = cuda.shared.array(1, int32)
        grid_dependency_wait()
        t, blocks = int32(cuda.threadIdx.x), int32(cuda.gridDim.x)
        first = int64(cuda.blockIdx.x) * tile
        value = of_block(gathered(x, first, int64(blocks) * tile))
        if blocks == 1:
            if t == 0:
                out[0] = value
            return
        if t == 0:
            partial[cuda.blockIdx.x] = value
            cuda.threadfence()
            is_last[0] = int32(cuda.atomic.inc(counter, 0, blocks - 1) == blocks - 1)
        cuda.syncthreads()
        if is_last[0]:
            cuda.threadfence()
            value = nothing
            for block in range(t, blocks, threads):
                value = combined(value, partial[block])
            value = of_block(value)
            if t == 0:
                out[0] = value

    return reduce_last_block


# --- the ladder -----------------------------------------------------------------------------------


def _problem_of(x: Array, out: Array, kind: str) -> ReductionProblem:
    return ReductionProblem(x.size, are_aligned(x))


def _nothing_at(out: Array, kind: str) -> Launch:
    return Launch(fill, 1, 1, (out, KINDS[kind].nothing))


def _one_each(make: Callable[[Kind], Callable]) -> Step:
    """A step whose threads have one element each."""

    def launches(problem: ReductionProblem, x: Array, out: Array, kind: str) -> list[Launch]:
        grid = max(1, ceil_div(problem.size, THREADS))
        return [_nothing_at(out, kind), Launch(make(KINDS[kind]), grid, THREADS, (x, out))]

    return Step(launches)


def _several(problem: ReductionProblem, x: Array, out: Array, kind: str) -> list[Launch]:
    config = config_for()
    kernel = several(KINDS[kind], config, problem.aligned)
    grid = max(1, ceil_div(problem.size, config.tile))
    return [_nothing_at(out, kind), Launch(kernel, grid, config.threads, (x, out))]


def _last_block(problem: ReductionProblem, x: Array, out: Array, kind: str) -> list[Launch]:
    """Two launches at the same time must not share its partial results and its counter."""
    config = heuristics.last_block_config(problem.size)
    most = config.blocks * multiprocessors()
    blocks = min(max(1, ceil_div(problem.size, config.tile)), most)
    kernel = last_block(KINDS[kind], config, problem.aligned)
    partial, counter = workspace(blocks, np.float32), workspace(1, np.uint32, zeros=True)
    return [Launch(kernel, blocks, config.threads, (x, partial, counter, out))]


LADDER = Ladder(
    "reduction",
    _problem_of,
    {
        "atomics": _one_each(atomics),
        "tree": _one_each(tree),
        "shuffles": _one_each(shuffles),
        "several": Step(_several),
        "last block": Step(_last_block),
    },
    best=lambda problem: "last block",
)


# --- the entry point ------------------------------------------------------------------------------


def _result(x: ArrayFacts, kind: str, method: str) -> Result:
    require_choice(kind, "reduction", KINDS)
    require_choice(method, "method", LADDER.names)
    checked(x, "x")
    if kind == "max" and not x.size:
        raise ValueError("x has no elements, so no maximum: give at least one")
    return (1,), np.float32


def _launches(x: Array, out: Array, kind: str, method: str) -> list[Launch]:
    if not x.size:
        return [_nothing_at(out, kind)]
    return LADDER.launches(flat(x, "x"), out, kind=kind, method=method)


_ENTRY = EntryPoint(
    "reduction", ("x",), _result, _launches, scalar=True, empty=True, options=("kind", "method")
)


def reduction(
    x: Array,
    kind: str = "sum",
    out: Array | None = None,
    method: str = "auto",
    stream: Stream = None,
) -> Any:
    """The sum or the maximum of all elements, on the GPU (or the simulated one).

    Parameters
    ----------
    x : array of any shape
        Of NumPy, CuPy, PyTorch or numba.cuda, float32, float16 or bfloat16. On the GPU in C
        order.
    kind : {"sum", "max"}
    out : array of one float32, optional
        On the GPU: where to write. The call then returns without waiting for the GPU.
    method : str
        One of `LADDER.names`; "auto" takes "last block".
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; by default x's library's current one.

    Returns
    -------
    `out`, if it is given. Else, for CuPy and PyTorch, an array without axes on x's device; for
    others a numpy.float32, for which the call waits for the GPU

    Raises
    ------
    TypeError
        For an argument that is no array, or another dtype.
    ValueError
        For an unknown kind or method, the maximum of no elements, or a wrong `out` or strides.
    """
    return _ENTRY.call((x,), (kind, method), out, stream)


reduction.ladder = LADDER
