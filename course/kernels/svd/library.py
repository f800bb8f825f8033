"""What cuSOLVER's `gesvda` does faster than the course's kernels, where float64 is fast.

`gesvda` computes in float64, but uses all of the GPU for one matrix of 1,000 x 1,000, where
`course.kernels.svd.ladder` uses a few multiprocessors. CuPy, if installed, calls `gesvda`.

Its left vectors are a v / s: where the condition is large, they are not orthonormal. Such matrices,
and all that `svd` refuses or that have zero singular values, are left to the kernels.

Source: NVIDIA, cuSOLVER, cusolverDn<t>gesvdaStridedBatched.
"""

import functools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import float32, int32

from course.backend import array_module, cuda, gpu
from course.dispatch.ahead import compile_ahead
from course.dispatch.kept import Memory
from course.dispatch.plans import to_host
from course.dispatch.prepared import PreparedLaunch, new_slots
from course.dispatch.slots import ArraySlot
from course.heuristics import svd as heuristics
from course.kernels.arrays import Array, address_of
from course.kernels.steps import Launch, ceil_div
from course.kernels.svd.scaling_sorting import ROWS, TILE, largest_of_warp, spreading
from course.kernels.warps import ALL

CONDITION = 2.0**16  # the largest: left vectors are orthonormal to 2**-53 times its square
SPAN = 2.0**40  # a sketch's largest value is in 1 / SPAN .. SPAN: squares are summed
FACTORS = np.array([1, 0], np.float32)  # alpha and beta of cuBLAS's gemm


class IllConditioned(ArithmeticError):
    """The factors are not orthonormal, or there are none."""


@functools.cache
def libraries() -> Any:
    """CuPy's functions of cuSOLVER and cuBLAS, their handles and stream; None without CuPy."""
    cupy, _ = array_module()
    try:
        from cupy.cuda import Stream, device
        from cupy_backends.cuda.libs import cublas, cusolver
    except ImportError:
        return None
    if not (hasattr(cupy, "cuda") and hasattr(cusolver, "sgesvdaStridedBatched")):
        return None
    # not CuPy's handle of cuBLAS: that may round operands, as its last user chose
    products = functools.cache(lambda device: cublas.create())
    return SimpleNamespace(
        cusolver=cusolver, cublas=cublas, stream=Stream.null,
        handles=lambda: (device.get_cusolver_handle(), products(cuda.get_current_device().id)),
    )  # fmt: skip


def _array(dtype: type, *shape: int) -> Array:
    return cuda.device_array(shape, dtype)


def takes(shape: tuple[int, ...], k: int | None = None) -> bool:
    """Whether cuSOLVER takes matrices: it is faster, CuPy is there, and float64 is fast."""
    fast = heuristics.float64_is_fast() and libraries() is not None
    return fast and heuristics.is_faster(shape, k)


@cuda.jit(device=True)
def _move(rows, out, across, first, signs):
    """Copy up to 32 rows from `first` on, times signs, to rows of `out`, or to its columns."""
    x, y = int32(cuda.threadIdx.x), int32(cuda.threadIdx.y)
    if across:  # the eight warps read a sector of each row
        for j in range(y, rows.shape[1], ROWS):
            if first + x < rows.shape[0]:
                out[j, first + x] = signs[x] * rows[first + x, j]
    else:
        for i in range(first + y, min(first + TILE, rows.shape[0]), ROWS):
            for j in range(x, rows.shape[1], TILE):
                out[i, j] = signs[i - first] * rows[i, j]


@cuda.jit
def hand_over(v, u, found, info, span, s, short, across, long, along, ill):
    """Copy rows of v and u to `short` and `long`, v's largest entries positive; a block 32 rows.

    across, along: whether rows become columns. ill: 1 where left vectors may not be orthonormal, or
    there are no factors, or the largest value is not between 1 / `span` and `span`.
    """
    signs = cuda.shared.array(TILE, float32)
    matrix, first = cuda.blockIdx.x, int32(cuda.blockIdx.y * TILE)
    x, y, count = int32(cuda.threadIdx.x), int32(cuda.threadIdx.y), int32(found.shape[1])
    if x == 0 and y == 0 and first == 0:
        largest = found[matrix, 0]
        fine = info[matrix] == 0 and found[matrix, count - 1] > largest * float32(1 / CONDITION)
        ill[matrix] = int32(0 if fine and float32(1) / span < largest < span else 1)
    for step in range(y, TILE, ROWS):
        row, size, value = int32(first + step), float32(-1), float32(0)
        if row < count:  # the same row for all threads of a warp
            for column in range(x, v.shape[2], 32):
                entry = v[matrix, row, column]
                if abs(entry) > size:
                    size, value = abs(entry), entry
            lane = cuda.ffs(cuda.ballot_sync(ALL, size == largest_of_warp(size))) - 1
            value = cuda.shfl_sync(ALL, value, lane)
            if x == 0:
                signs[step] = float32(1) if value >= float32(0) else float32(-1)
                s[matrix, row] = found[matrix, row]
    cuda.syncthreads()
    _move(v[matrix], short[matrix], across, first, signs)
    _move(u[matrix], long[matrix], along, first, signs)


class LibrarySolver(Memory):
    """The k largest singular values of batches of one shape; all of them for None.

    sketch: power and seed of a sketch of one matrix, as `course.kernels.svd.truncated` says. For a
    tall matrix m: y's columns become a basis q of m's range; z = m' q = u_z s v_z' is small, and
    m = (q v_z) s u_z'. Products are by cuBLAS, reflections by cuSOLVER, in float32. `gesvda`
    computes in float64: nothing has to be scaled for it.

    The libraries' matrices are in column-major order: their columns are rows of the arrays here.
    The libraries' calls are listed once; launches are prepared for each set of strides.
    """

    def __init__(self, batch: int, rows: int, columns: int, k: int | None, sketch: tuple = ()):
        short, long = sorted((rows, columns))
        count, floats = short if k is None else k, functools.partial(_array, np.float32)
        narrow, tall = (min(count + heuristics.MORE, short), short) if sketch else (short, long)
        copies = heuristics.copies_of(batch, narrow)
        self.core = floats(copies, narrow, tall)
        self.found, self.v = floats(copies, count), floats(copies, count, narrow)
        self.u = floats(copies, count, tall)
        self.a, self.short, self.long, self.span = self.core, self.v, self.u, math.inf
        self.ill, self.info = _array(np.int32, batch), _array(np.int32, copies)
        self.ones = cuda.to_device(np.ones(batch, np.float32))
        if copies > batch:
            self.core.copy_to_device(np.eye(narrow, tall, dtype=np.float32)[None].repeat(copies, 0))
            self.a = self.core[:batch]
        if sketch:
            self.power, seed = sketch
            random = np.random.default_rng(seed).standard_normal((1, narrow, short))
            self.x, self.y = cuda.to_device(random.astype(np.float32)), floats(1, narrow, long)
            self.a, self.along, self.span = floats(1, short, long), floats(narrow), SPAN
            self.short, self.long = self.u, floats(1, count, long)
        self.handle, self.workspaces = libraries().handles()[0], []
        self.steps = self.sketching() if sketch else self.decomposing()
        self.prepared: dict[tuple, list[Any]] = {}

    def launches(self, a: Array, u: Array, s: Array, vt: Array) -> list[Launch]:
        """The launch before the libraries' calls, and the one after them."""
        wide, (batch, *_) = a.shape[1] < a.shape[2], a.shape
        short, long = (u, vt) if wide else (vt, u)
        found = self.short, self.long, self.found, self.info, np.float32(self.span)
        out = s, short, bool(wide), long, not wide, self.ill
        grid = batch, ceil_div(self.found.shape[1], TILE)
        return [
            spreading(a, self.ones, self.a, not wide),
            Launch(hand_over, grid, (TILE, ROWS), (*found, *out)),
        ]

    def ready(self, *arrays: Array) -> list[Any]:
        """The launches as functions of a queue and the arrays' addresses."""
        if gpu() is None:
            return [lambda queue, addresses, one=one: one.on() for one in self.launches(*arrays)]
        key = tuple(one.strides for one in arrays)
        if key not in self.prepared:
            float32s = np.dtype(np.float32)
            given = [ArraySlot(n, one.shape, one.strides, float32s) for n, one in enumerate(arrays)]
            launches = self.launches(*given)
            compile_ahead(lambda: launches)
            self.prepared[key] = [PreparedLaunch(one, new_slots(len(given))) for one in launches]
        return self.prepared[key]

    def __call__(self, *arrays: Array) -> None:
        """Decompose a into u, s and vt; `IllConditioned` where the kernels must do it."""
        before, behind = self.ready(*arrays)
        addresses = [address_of(one) for one in arrays]
        before(0, addresses)
        with libraries().stream:
            handles = libraries().handles()
            for function, handle, *given in self.steps:
                function(handles[handle], *given)
        behind(0, addresses)
        if to_host(self.ill).any():
            raise IllConditioned

    # --- steps: a library's function, the index of its handle, further arguments
    def decomposing(self) -> list[tuple]:
        """The call that fills `found`, `u` and `v`, of matrices whose columns are `core`'s rows."""
        cusolver, (batch, narrow, tall), about = libraries().cusolver, self.core.shape, []
        for array in self.core, self.found, self.u, self.v:
            _, *row, column = array.shape
            about += [address_of(array), *(column for _ in row), column * math.prod(row)]
        given = cusolver.CUSOLVER_EIG_MODE_VECTOR, self.found.shape[1], tall, narrow, *about
        size = cusolver.sgesvdaStridedBatched_bufferSize(self.handle, *given, batch)
        self.work = _array(np.float32, max(size, 1))
        there = address_of(self.work), size, address_of(self.info), 0, batch
        return [(cusolver.sgesvdaStridedBatched, 0, *given, *there)]

    def sketching(self) -> list[tuple]:
        of_y, of_z = self.orthonormal(self.y), self.orthonormal(self.core)
        into_z = *of_y, self.product(self.a, self.y, self.core, True)
        into_y = *of_z, self.product(self.a, self.core, self.y)
        power = (*into_z, *into_y) * self.power
        first, last = self.product(self.a, self.x, self.y), self.product(self.y, self.v, self.long)
        return [first, *power, *into_z, *self.decomposing(), last]

    def orthonormal(self, q: Array) -> list[tuple]:
        """The calls that replace q's columns by orthonormal ones that span the same."""
        cusolver, (_, columns, rows) = libraries().cusolver, q.shape
        given = address_of(q), rows, address_of(self.along)
        size = max(
            cusolver.sgeqrf_bufferSize(self.handle, rows, columns, *given[:2]),
            cusolver.sorgqr_bufferSize(self.handle, rows, columns, columns, *given),
        )
        self.workspaces.append(_array(np.float32, max(size, 1)))
        there = *given, address_of(self.workspaces[-1]), size, address_of(self.info)
        return [(cusolver.sgeqrf, 0, rows, columns, *there),
                (cusolver.sorgqr, 0, rows, columns, columns, *there)]  # fmt: skip

    def product(self, a: Array, b: Array, out: Array, transposed: bool = False) -> tuple:
        """The call of out = a b, or of a' b."""
        (_, n, m), depth, one = out.shape, b.shape[2], FACTORS.ctypes.data
        left, right = (address_of(a), a.shape[2]), (address_of(b), depth)
        there = one + FACTORS.itemsize, address_of(out), m
        given = int(transposed), 0, m, n, depth, one, *left, *right, *there
        return libraries().cublas.sgemm, 1, *given
