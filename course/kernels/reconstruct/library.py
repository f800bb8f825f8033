"""Stacks by cuBLAS, step "library": a kernel scales u by s, and cuBLAS multiplies in float32.

Source: NVIDIA, cuBLAS, cublasGemmStridedBatchedEx.
"""

from __future__ import annotations

from ctypes import byref, c_longlong, c_void_p
from typing import Any

import numpy as np
from numba import int32

from course.backend import cuda
from course.dispatch.slots import workspace
from course.heuristics.reconstruct import MOST
from course.kernels.arrays import Array
from course.kernels.gemm import library
from course.kernels.steps import Launch, ceil_div
from course.kernels.warps import WARP
from warpsim.ptx import load, store

ROWS = 8  # of a block, one a warp


@cuda.jit
def scale(u, s, k, out):
    """out[image] = u[image, :, :k] * s[image, :k]. A warp has a row, blockIdx.y is the image."""
    lane, row = int32(cuda.threadIdx.x), int32(cuda.blockIdx.x * ROWS + cuda.threadIdx.y)
    image = int32(cuda.blockIdx.y)
    if row < out.shape[1]:
        for i in range(lane, k, int32(WARP)):
            store(out, (image, row, i), load(u, (image, row, i)) * load(s, (image, i)))


class Stack(library.Product):
    """A product an image of a stack; rows may be padded, and images may lie apart in memory."""

    function = "cublasGemmStridedBatchedEx"

    def matrix(self, pointer: c_void_p, its: Array) -> tuple:
        images, rows, _ = (step // its.dtype.itemsize for step in its.strides)
        pitch = rows if its.shape[1] > 1 else its.shape[2]  # a single row's stride says nothing
        return *super().matrix(pointer, its)[:2], pitch, c_longlong(images)

    def given_to(self, b: tuple, a: tuple, out: tuple) -> tuple:
        p, kinds = self.problem, (library.IN_FLOAT32, library.ITS_CHOICE)
        sizes = 0, 0, p.columns, p.rows, p.k, byref(library.ONE)
        return *sizes, *b, *a, byref(library.ZERO), *out, p.images, *kinds


def launches(p: Any, u: Array, s: Array, vt: Array, out: Array, k: int) -> list[Any]:
    """The launch that scales u, and the product."""
    scaled = workspace((p.images, p.rows, k), np.float32)
    grid = ceil_div(p.rows, ROWS), p.images
    product = Stack(p, (vt, scaled, out, workspace(library.SPACE, np.uint8)))
    return [Launch(scale, grid, (WARP, ROWS), (u, s, np.int32(k), scaled)), product]


def refusal(p: Any) -> str:
    """Why cuBLAS cannot take these arrays, or "" if it can."""
    if not 1 <= p.images <= MOST or p.strided or not p.in_rows:
        return f"takes stacks of up to {MOST:,} images, each row behind the one before it in memory"
    return "" if library.cublas() else "needs a GPU, and CuPy or PyTorch, which load cuBLAS"
