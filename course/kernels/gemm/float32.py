"""The product of two float32 matrices, as steps of one idea: load each element less often.

>>> y = matmul(x, weight, "nt")                     # x weight', a layer's way forward
>>> d_x = matmul(d_y, weight)                       # "nn", the gradient by what came in
>>> d_weight = matmul(d_y, x, "tn")                 # d_y' x, the gradient by the weights

The layout says how the operands lie in memory: "n" as they are multiplied, "t" transposed. A layer
and its two gradients need "nt", "nn" and "tn"; no matrix is copied for any of them.

===================  =====================================================  =====================
method               what a block does                                      global loads of an FMA
===================  =====================================================  =====================
"naive"              a thread a result, operands from global memory         2
"tiled"              32 x 32 results, tiles of both in shared memory        2 / 32
"padded"             the same; tiles' rows padded against bank conflicts    2 / 32
"vectorised"         64 x 64 results, 8 x 4 a thread, 16 bytes an access    2 / 64, a quarter of
                                                                            the instructions
"tensor_cores"       some 32 x 16 results on tensor cores, in 3xTF32        3 / 32, all at once
"tensor_cores_tf32"  the same in TF32: three digits                         3 / 32
===================  =====================================================  =====================

The last two are for small products, see `course.kernels.gemm.small`. Each shape has a kernel of its
own: the first call compiles it, for some seconds, and later programs find it on disk.

`bias_launches` adds a layer's bias to each row; `sum_launches` sums the rows for its gradient.

Source: NVIDIA, "CUDA C++ best practices guide", shared memory in matrix multiplication; Volkov,
Demmel, "Benchmarking GPUs to tune dense linear algebra", SC 2008 (several results a thread).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.kernels.arrays import VECTOR, Array, blocks_over, holds, in_order, rows_are_aligned
from course.kernels.gemm.half import HALF_TYPES, LAYOUTS, checked_sizes, gemm
from course.kernels.gemm.half import result as gemm_result
from course.kernels.gemm.small import SMALL, product_of, tensor_refusal
from course.kernels.steps import Ladder, Launch, Step, ceil_div, require_choice
from course.kernels.warps import WARP
from warpsim.ptx import load, load4, store, store4

ZERO = float32(0)
NAIVE_BLOCK = (32, 8)
SQUARE = 32  # "tiled" and "padded": side of a block's results, and depth of its tiles
BLOCK_Y = 8  # threads of such a block along y
HIGH = BLOCK_Y  # the old name, which learners' older copies of lesson 16's notebook use
EACH = SQUARE // BLOCK_Y  # results of such a thread
TILE, DEPTH, THREADS = 64, 16, 128  # "vectorised": a block's tile, its depth, its threads
PITCH = TILE + 4  # row stride of its tiles: whole 16 bytes, yet rows begin in different banks
FETCHED = TILE * DEPTH // THREADS // VECTOR  # vector loads of a thread for one tile
THREAD_M, THREAD_N = 8, 4  # results of a thread

# --- the steps ------------------------------------------------------------------------------------


@functools.cache
def naive(layout: str) -> Callable:
    """Step 1, a kernel of (a, b, out). Mapping: thread (column, row) computes out[row, column].

    Memory: a warp's lanes are neighbours along the columns. In "nn" and "tn" they read neighbours
    of b, 4 sectors, and one element of a. In "nt" each lane reads its own row of b: 32 sectors.
    """
    transpose_a, transpose_b = LAYOUTS[layout]

    @cuda.jit
    def matmul_naive(a, b, out):
        column, row = cuda.grid(2)
        if row < out.shape[0] and column < out.shape[1]:
            total = ZERO
            for k in range(a.shape[0] if transpose_a else a.shape[1]):
                x = a[k, row] if transpose_a else a[row, k]
                y = b[column, k] if transpose_b else b[k, column]
                total += x * y
            out[row, column] = total

    return matmul_naive


@functools.cache
def tiled(layout: str, pad: int = 0) -> Callable:
    """Steps 2 and 3, kernels of (a, b, out): tiles in shared memory, rows padded by `pad` words.

    Mapping: block (i, j) computes 32 rows from 32 j on and 32 columns from 32 i on. Thread (x, y)
    computes rows y, y + 8, ... of column x.
    Memory: lanes read neighbours in global memory, whatever the layout. So a transposed operand is
    written down a column of its tile. 32 words at a stride of 32 share one bank: 32 wavefronts
    instead of one. At a stride of 33 they lie in 32 banks.
    """
    transpose_a, transpose_b = LAYOUTS[layout]
    pitch = SQUARE + pad

    @cuda.jit
    def matmul_tiled(a, b, out):
        a_tile = cuda.shared.array((SQUARE, pitch), float32)  # [row, k]
        b_tile = cuda.shared.array((SQUARE, pitch), float32)  # [k, column]
        total = cuda.local.array(EACH, float32)
        x, y = int32(cuda.threadIdx.x), int32(cuda.threadIdx.y)
        first_row, first_column = cuda.blockIdx.y * SQUARE, cuda.blockIdx.x * SQUARE
        depth = a.shape[0] if transpose_a else a.shape[1]
        for n in range(EACH):
            total[n] = ZERO
        for start in range(0, depth, SQUARE):
            for n in range(EACH):
                z = y + n * BLOCK_Y
                if transpose_a:
                    k, row = start + z, first_row + x
                    inside = k < depth and row < out.shape[0]
                    a_tile[x, z] = a[k, row] if inside else ZERO
                else:
                    row, k = first_row + z, start + x
                    inside = k < depth and row < out.shape[0]
                    a_tile[z, x] = a[row, k] if inside else ZERO
                if transpose_b:
                    column, k = first_column + z, start + x
                    inside = k < depth and column < out.shape[1]
                    b_tile[x, z] = b[column, k] if inside else ZERO
                else:
                    k, column = start + z, first_column + x
                    inside = k < depth and column < out.shape[1]
                    b_tile[z, x] = b[k, column] if inside else ZERO
            cuda.syncthreads()
            for k in range(SQUARE):
                factor = b_tile[k, x]
                for n in range(EACH):
                    total[n] += a_tile[y + n * BLOCK_Y, k] * factor
            cuda.syncthreads()
        column = first_column + x
        for n in range(EACH):
            row = first_row + y + n * BLOCK_Y
            if row < out.shape[0] and column < out.shape[1]:
                out[row, column] = total[n]

    return matmul_tiled


@functools.cache
def vectorised(layout: str, wide: bool = True) -> Callable:
    """Step 4, a kernel of (a, b, out). `wide`: all rows begin and end at multiples of 16 bytes.

    Mapping: block (i, j) computes 64 rows from 64 j on and 64 columns from 64 i on. Thread t
    computes rows 4 (t / 16) to + 3 and the rows 32 below, in columns 4 (t % 16) to + 3.
    Memory: a thread loads four neighbours at once. The next tiles are prefetched into registers
    while the current ones are multiplied. Three 16-byte loads from shared memory serve 32 FMAs.
    Sums: a tile's 16 products are summed on their own before they join the accumulator. So a long
    sum of equal values does not drift.
    """
    transpose_a, transpose_b = LAYOUTS[layout]
    # upright: the operand is contiguous along the result, not along the depth
    upright_a, upright_b = transpose_a, not transpose_b

    @cuda.jit(device=True)
    def load_share(factor, first, start, upright, numbers):
        """Load a thread's share of a tile: four neighbours in memory, `FETCHED` times."""
        for go in range(FETCHED):
            n = (int32(cuda.threadIdx.x) + go * THREADS) * VECTOR
            if upright:
                row, column = int32(start + n // TILE), int32(first + n % TILE)
            else:
                row, column = int32(first + n // DEPTH), int32(start + n % DEPTH)
            four = ZERO, ZERO, ZERO, ZERO
            if wide:
                if row < factor.shape[0] and column < factor.shape[1]:
                    four = load4(factor, (row, column))
                for e in range(VECTOR):
                    numbers[go, e] = four[e]
            else:
                for e in range(VECTOR):
                    inside = row < factor.shape[0] and column + e < factor.shape[1]
                    numbers[go, e] = load(factor, (row, column + e)) if inside else ZERO

    @cuda.jit(device=True)
    def store_share(numbers, upright, tile):
        for go in range(FETCHED):
            n = (int32(cuda.threadIdx.x) + go * THREADS) * VECTOR
            if upright:
                four = numbers[go, 0], numbers[go, 1], numbers[go, 2], numbers[go, 3]
                store4(tile, (n // int32(TILE), n % int32(TILE)), four)
            else:
                for e in range(VECTOR):
                    store(tile, (n % int32(DEPTH) + e, n // int32(DEPTH)), numbers[go, e])

    @cuda.jit
    def matmul_vectorised(a, b, out):
        a_tile = cuda.shared.array((DEPTH, PITCH), float32)  # [k, row]
        b_tile = cuda.shared.array((DEPTH, PITCH), float32)  # [k, column]
        total = cuda.local.array((THREAD_M, THREAD_N), float32)
        part = cuda.local.array((THREAD_M, THREAD_N), float32)
        next_a = cuda.local.array((FETCHED, VECTOR), float32)
        next_b = cuda.local.array((FETCHED, VECTOR), float32)
        t = int32(cuda.threadIdx.x)
        first_row, first_column = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
        row, column = t // int32(16) * int32(VECTOR), t % int32(16) * int32(VECTOR)
        for i in range(THREAD_M):
            for j in range(THREAD_N):
                total[i, j] = ZERO
        depth = a.shape[0] if transpose_a else a.shape[1]
        load_share(a, first_row, 0, upright_a, next_a)
        load_share(b, first_column, 0, upright_b, next_b)
        for start in range(0, depth, DEPTH):
            store_share(next_a, upright_a, a_tile)
            store_share(next_b, upright_b, b_tile)
            cuda.syncthreads()
            load_share(a, first_row, start + DEPTH, upright_a, next_a)
            load_share(b, first_column, start + DEPTH, upright_b, next_b)
            for i in range(THREAD_M):
                for j in range(THREAD_N):
                    part[i, j] = ZERO
            for k in range(DEPTH):
                upper, lower = load4(a_tile, (k, row)), load4(a_tile, (k, row + TILE // 2))
                factor = load4(b_tile, (k, column))
                for i in range(VECTOR):
                    for j in range(THREAD_N):
                        part[i, j] += upper[i] * factor[j]
                        part[i + VECTOR, j] += lower[i] * factor[j]
            for i in range(THREAD_M):
                for j in range(THREAD_N):
                    total[i, j] += part[i, j]
            cuda.syncthreads()
        across = first_column + column
        for i in range(THREAD_M):
            down = first_row + row + (i if i < VECTOR else i + TILE // 2 - VECTOR)
            if down < out.shape[0]:
                if wide:
                    if across < out.shape[1]:
                        four = total[i, 0], total[i, 1], total[i, 2], total[i, 3]
                        store4(out, (down, across), four)
                else:
                    for j in range(THREAD_N):
                        if across + j < out.shape[1]:
                            out[down, across + j] = total[i, j]

    return matmul_vectorised


@cuda.jit
def bias_added(x, bias, out):
    """Mapping: thread (column, row) has out[row, column]; a block's rows share the biases in L1."""
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = x[row, column] + bias[column]


@cuda.jit
def bias_backward(grad, out):
    """Mapping: a block sums 32 columns; warp w the rows w, w + 8, ..., then warp 0 all warps' sums.

    Memory: lanes read neighbours. The order of the sum is fixed, so its bits are reproducible.
    """
    parts = cuda.shared.array((BLOCK_Y, WARP), float32)
    lane, warp = int32(cuda.threadIdx.x), int32(cuda.threadIdx.y)
    column = cuda.blockIdx.x * WARP + lane
    total = ZERO
    if column < out.size:
        for row in range(warp, grad.shape[0], BLOCK_Y):
            total += grad[row, column]
    parts[warp, lane] = total
    cuda.syncthreads()
    if warp == 0 and column < out.size:
        total = parts[0, lane]
        for w in range(1, BLOCK_Y):
            total += parts[w, lane]
        out[column] = total


# --- the ladder -----------------------------------------------------------------------------------


class MatmulProblem(NamedTuple):
    """What decides between the steps."""

    layout: str
    rows: int
    columns: int
    depth: int
    wide: bool  # rows of all three matrices begin and end at multiples of 16 bytes

    @classmethod
    def of(cls, a: Array, b: Array, out: Array, layout: str = "nn") -> MatmulProblem:
        """The problem of device arrays in C order; ValueError for others."""
        for array, name in ((a, "a"), (b, "b"), (out, "out")):
            in_order(array, name)
        wide = a.size > 0 and all(map(rows_are_aligned, (a, b, out)))
        return cls(layout, *out.shape, a.shape[0 if LAYOUTS[layout][0] else 1], wide)


def _on_plain_cores(make: Callable, tile: tuple[int, int], block: Any) -> Step:
    """A step on CUDA cores, whose blocks compute a tile each."""

    def launches(p, *arrays, **_):
        grid = blocks_over(p.rows, p.columns, tile, "the product")
        return [Launch(make(p), grid, block, arrays)]

    return Step(launches)


def _on_tensor_cores(precision: str) -> Step:
    def launches(p, *arrays, **_):  # in C order: `MatmulProblem.of` has looked
        kernel, blocks, threads = product_of(*p[:4], precision)
        return [Launch(kernel, blocks, threads, tuple(one.reshape(one.size) for one in arrays))]

    return Step(launches, tensor_refusal, (8, 0))


def _best(p):
    tensor = p.rows * p.columns <= SMALL and not LADDER["tensor_cores"].lacks(p)
    return "tensor_cores" if tensor else "vectorised"


#: The precision of each step on tensor cores.
TENSOR = {"tensor_cores": "tf32x3", "tensor_cores_tf32": "tf32"}
LADDER = Ladder("matmul", MatmulProblem.of, {
    "naive": _on_plain_cores(lambda p: naive(p.layout), NAIVE_BLOCK, NAIVE_BLOCK),
    "tiled": _on_plain_cores(lambda p: tiled(p.layout), (SQUARE, SQUARE), (SQUARE, BLOCK_Y)),
    "padded": _on_plain_cores(lambda p: tiled(p.layout, 1), (SQUARE, SQUARE), (SQUARE, BLOCK_Y)),
    "vectorised": _on_plain_cores(lambda p: vectorised(p.layout, p.wide), (TILE, TILE), THREADS),
    **{name: _on_tensor_cores(precision) for name, precision in TENSOR.items()},
}, _best)  # fmt: skip


def _result(a: ArrayFacts, b: ArrayFacts, layout: str, method: str) -> Result:
    if a.dtype in HALF_TYPES:
        return gemm_result(a, b, None, None, layout, "", method)
    require_choice(method, "method", LADDER.names)
    holds(a, "a")
    holds(b, "b")
    return checked_sizes(a, b, layout), np.float32


def _launches(a, b, out, layout, method):
    if out.dtype in HALF_TYPES:
        return gemm.ladder.launches(a, b, None, None, out, layout=layout, method=method)
    return LADDER.launches(a, b, out, layout=layout, method=method)


def bias_launches(x: Array, bias: Array, out: Array) -> list[Launch]:
    """What adding a bias launches, for device arrays."""
    grid = blocks_over(*x.shape, NAIVE_BLOCK, "x")
    arrays = in_order(x, "x"), in_order(bias, "bias"), in_order(out, "out")
    return [Launch(bias_added, grid, NAIVE_BLOCK, arrays)]


def sum_launches(grad: Array, out: Array) -> list[Launch]:
    """What a bias's gradient launches, for device arrays."""
    arrays = in_order(grad, "grad"), in_order(out, "out")
    return [Launch(bias_backward, ceil_div(out.size, WARP), (WARP, BLOCK_Y), arrays)]


_ENTRY = EntryPoint(
    "matmul", ("a", "b"), _result, _launches, empty=True, options=("layout", "method")
)


def matmul(
    a: Array, b: Array, layout: str = "nn", out: Array | None = None, method: str = "auto",
    stream: Stream = None,
) -> Array:  # fmt: skip
    """Multiply two matrices, float32, float16 or bfloat16, on the GPU (or the simulated one).

    Parameters
    ----------
    a, b : array, float32
        Of NumPy, CuPy, PyTorch or numba.cuda; on the GPU in C order. By the layout:
        "nn" (rows, depth), (depth, columns): a b; "nt" (rows, depth), (columns, depth): a b';
        "tn" (depth, rows), (depth, columns): a' b.
    layout : str
    out : array, shape (rows, columns), optional
        Where to write; neither a nor b.
    method : str
        Of `matmul.ladder.names`; "auto" takes "tensor_cores" for small products that it can
        compute, else "vectorised". Tensor cores need compute capability 8.0; rows, columns and
        depth that are multiples of four; arrays that begin at multiples of 16 bytes. Values must be
        below 4e34: infinity gives NaN. A new shape's first call compiles for seconds. The methods
        for float16 and bfloat16 are those of `course.kernels.gemm.half`.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; without it the one of a's library.

    Returns
    -------
    array, shape (rows, columns), of a's type
        `out`, if it is given; else of a's library; 0 for a depth of 0. Bounds of float32's error,
        relative to the sum of |a| |b|: by "vectorised" depth / 16 + 16 units of 2**-24, and by
        "tensor_cores" depth / 16 + 32. By "tensor_cores_tf32": 2**-9. By others: depth units.

    Raises
    ------
    TypeError
        For no array, or elements of another type.
    ValueError
        For shapes or strides that do not fit, an unknown layout or method.
    """
    return _ENTRY.call((a, b), (layout, method), out, stream)


matmul.ladder = LADDER
