"""What cuSOLVER's `gesvda` does faster than the course's kernels, where float64 is fast.

It computes in float64, but one matrix of 1,000 x 1,000 by all of the GPU, where the rotations of
`course.kernels.svd.ladder` keep a few multiprocessors busy. Through CuPy, where that is installed.

Its left vectors are a v / s: of matrices whose condition is large they are not orthonormal. Such
matrices, and all that `svd` refuses or that have zero singular values, are left to the kernels.

Source: NVIDIA, cuSOLVER, cusolverDn<t>gesvdaStridedBatched.
"""

import functools
from typing import Any

import numpy as np
from numba import float32, int32

from course.backend import array_module, cuda
from course.dispatch.ahead import compile_ahead
from course.dispatch.kept import Memory
from course.kernels.arrays import Array, address_of
from course.kernels.steps import Launch
from course.kernels.svd.gram import float64_is_fast
from course.kernels.svd.ladder import SURELY_FINITE
from course.kernels.svd.scaling_sorting import (
    by_tiles,
    gather,
    largest_of_warp,
    scaling,
    spreading,
)
from course.kernels.warps import ALL

LEAST = 81  # columns, of one matrix or of few; with fewer a block's rotations are as fast
FEW = 24
IN_REGISTERS = 128  # columns: more are rotated by several blocks, which is slow for one matrix
RANKED = 256  # columns of one matrix whose largest values are not found faster than all
#: Columns and elements of matrices that are many enough, and long, for all of the GPU.
LONG, ELEMENTS = 384, 10_000_000
CONDITION = 2.0**16  # the largest: left vectors are orthonormal to 2**-53 of its square


class IllConditioned(ArithmeticError):
    """The factors are not orthonormal, or there are none."""


def is_faster(shape: tuple[int, ...], of_rank: bool = False) -> bool:
    """Whether it is faster for matrices (batch, rows, columns); of_rank: the largest values alone.

    As measured on an H200.
    """
    (columns, rows), batch = sorted(shape[-2:]), shape[0] if len(shape) == 3 else 1
    if columns <= IN_REGISTERS:
        return columns >= LEAST and batch <= FEW
    if of_rank:
        return batch == 1 and columns <= RANKED
    return batch == 1 or (columns >= LONG and batch * rows * columns >= ELEMENTS)


@functools.cache
def cusolver() -> Any:
    """CuPy's functions of cuSOLVER; None where they cannot be had."""
    cupy, _ = array_module()
    try:
        from cupy_backends.cuda.libs import cusolver as found
    except ImportError:
        return None
    return found if hasattr(cupy, "cuda") and hasattr(found, "sgesvdaStridedBatched") else None


def takes(shape: tuple[int, ...], of_rank: bool = False) -> bool:
    """Whether matrices are handed over: it is faster, CuPy is there, and float64 is fast."""
    return is_faster(shape, of_rank) and float64_is_fast() and cusolver() is not None


@cuda.jit
def sign_rows(v, found, info, unscale, s, factor, ill):
    """s = unscale found; factor: what makes the largest entry of v's rows positive; a warp a row.

    ill: 1 where left vectors may not be orthonormal, or a value may be beyond float32.
    """
    matrix, t = cuda.blockIdx.x, int32(cuda.threadIdx.x)
    row, lane, least = int32(t // 32), int32(t % 32), found[matrix, found.shape[1] - 1]
    if t == 0:
        fine = least > found[matrix, 0] * float32(1 / CONDITION) and info[matrix] == 0
        ill[matrix] = int32(0 if fine and unscale[matrix] <= float32(SURELY_FINITE) else 1)
    while row < found.shape[1]:
        size, value = float32(-1), float32(0)
        for column in range(lane, v.shape[2], 32):
            x = v[matrix, row, column]
            if abs(x) > size:
                size, value = abs(x), x
        first = cuda.ffs(cuda.ballot_sync(ALL, size == largest_of_warp(size))) - 1
        positive = cuda.shfl_sync(ALL, value, first) >= float32(0)
        if lane == 0:
            factor[matrix, row] = float32(1) if positive else float32(-1)
            s[matrix, row] = found[matrix, row] * unscale[matrix]
        row = int32(row + cuda.blockDim.x // 32)


class LibrarySolver(Memory):
    """The k largest singular values of batches of one shape; all of them for None."""

    def __init__(self, batch: int, rows: int, columns: int, k: int | None):
        short, long = sorted((rows, columns))
        count = short if k is None else k
        floats = functools.partial(cuda.device_array, dtype=np.float32)
        self.a, self.u = floats((batch, short, long)), floats((batch, count, long))
        self.v, self.found = floats((batch, count, short)), floats((batch, count))
        self.scale, self.unscale, self.factor = floats(batch), floats(batch), floats((batch, count))
        self.ill, self.info = (cuda.device_array(batch, np.int32) for _ in range(2))
        order = np.broadcast_to(np.arange(count, dtype=np.int32), (batch, count))
        self.order = cuda.to_device(np.ascontiguousarray(order))
        self.work, self.compiled = self.workspace(), False

    def __call__(self, a: Array, u: Array, s: Array, vt: Array) -> None:
        """Decompose; `IllConditioned` where the kernels must."""
        wide = a.shape[1] < a.shape[2]
        before = [
            scaling(a, self.scale, self.unscale, self.ill),
            spreading(a, self.scale, self.a, not wide),
        ]
        given = self.v, self.found, self.info, self.unscale, s, self.factor, self.ill
        after = [Launch(sign_rows, len(a), 256, given)]
        short, long = (u, vt) if wide else (vt, u)
        for rows, out, across in ((self.v, short, wide), (self.u, long, not wide)):
            given = rows, self.order, self.factor, out, across, self.ill, np.int32(-1)
            after.append(by_tiles(gather, rows, *given))
        if not self.compiled:
            compile_ahead(lambda: [*before, *after])
            self.compiled = True
        for launch in before:
            launch.on()
        self.decompose()
        for launch in after:
            launch.on()
        if self.ill.copy_to_host().any():
            raise IllConditioned

    def given(self) -> list:
        """What cuSOLVER takes, from its handle to the number of matrices, but for the workspace."""
        from cupy.cuda import device

        (batch, short, long), count = self.a.shape, self.found.shape[1]
        arrays = (self.a, long, long * short), (self.found, count), (self.u, long, long * count), (
            self.v, short, short * count)  # fmt: skip
        about = [part for array, *rest in arrays for part in (address_of(array), *rest)]
        mode = cusolver().CUSOLVER_EIG_MODE_VECTOR
        return [device.get_cusolver_handle(), mode, count, long, short, *about, batch]

    def workspace(self) -> Array:
        size = cusolver().sgesvdaStridedBatched_bufferSize(*self.given())
        return cuda.device_array(max(size, 1), np.float32)

    def decompose(self) -> None:
        """`found`, and rows u and v, of matrices whose columns are a's rows."""
        from cupy.cuda import Stream

        *given, batch = self.given()
        there = address_of(self.work), self.work.size, address_of(self.info)
        with Stream.null:
            cusolver().sgesvdaStridedBatched(*given, *there, 0, batch)
