"""SiLU in numba-cuda-mlir, which is to follow numba-cuda: the same language."""

import math

import numpy as np
from numba_cuda_mlir import cuda
from numba_cuda_mlir.types import float32


@cuda.jit
def kernel(x, y):
    """Write the SiLU of ``x[i]`` to ``y[i]``; one thread for each element."""
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] / (float32(1) + math.exp(-x[i]))


def silu(x):
    """Return the SiLU of every element."""
    y = np.empty_like(x)
    kernel[-(-x.size // 256), 256](x, y)
    return y
