"""The spectral autoencoder layer by layer: ten launches of four small kernels.

As in a framework, each layer reads from device memory what the layer before it wrote there.
The kernels are as simple as their layers. The fused kernel is compared with these ten launches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numba import float32

from course.backend import cuda
from course.dispatch.slots import workspace
from course.kernels.activation import gelu
from course.kernels.warps import ALL
from course_models.spectral.data import BANDS, FRAMES, POINTS
from course_models.spectral.weights import CODE, EPSILON, Weights

TILE = 16
ROWS = 4  # of a block, in kernels that have a warp for each row


@cuda.jit
def layer_norm(x, gamma, beta, out):
    """Normalise each row of x (rows, n), n a multiple of 32: a warp for each row.

    A row is read three times, but only once from device memory, then from the cache.
    """
    lane, row = cuda.threadIdx.x, cuda.blockIdx.x * ROWS + cuda.threadIdx.y
    if row < x.shape[0]:
        width = x.shape[1]
        total = float32(0)
        for column in range(lane, width, 32):
            total += x[row, column]
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 1 << step)
        mean = total / float32(width)
        square = float32(0)
        for column in range(lane, width, 32):
            square += (x[row, column] - mean) * (x[row, column] - mean)
        for step in range(5):
            square += cuda.shfl_xor_sync(ALL, square, 1 << step)
        scale = float32(1) / math.sqrt(square / float32(width) + float32(EPSILON))
        for column in range(lane, width, 32):
            out[row, column] = (x[row, column] - mean) * scale * gamma[column] + beta[column]


@cuda.jit
def linear(x, weight, bias, out):
    """Out = x weight + bias: a thread for each result, tiles of 16 x 16 in shared memory.

    x (rows, n); weight (n, m), the transpose of PyTorch's, so that reads along x are coalesced;
    bias (m,), out (rows, m). n and m are multiples of 16, rows any number.
    """
    x_tile = cuda.shared.array((TILE, TILE), float32)
    weight_tile = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = bias[column]
    for start in range(0, x.shape[1], TILE):
        x_tile[ty, tx] = x[row, start + tx] if row < x.shape[0] else float32(0)
        weight_tile[ty, tx] = weight[start + ty, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += x_tile[ty, k] * weight_tile[k, tx]
        cuda.syncthreads()
    if row < x.shape[0]:
        out[row, column] = total


@cuda.jit
def gelu_each(x, out):
    """GELU of every element of x (rows, n): a thread for each."""
    column, row = cuda.grid(2)
    if row < x.shape[0]:
        out[row, column] = gelu(x[row, column])


@cuda.jit
def mean_squared_error(x, y, errors):
    """For each row the mean of (x - y)^2: a warp for each row."""
    lane, row = cuda.threadIdx.x, cuda.blockIdx.x * ROWS + cuda.threadIdx.y
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            difference = x[row, column] - y[row, column]
            total += difference * difference
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 1 << step)
        if lane == 0:
            errors[row] = total / float32(x.shape[1])


class Layers:
    """The ten launches, with weights and intermediate results on the GPU.

    Parameters
    ----------
    weights : Weights
    batch : int
        Spectra of each call, at least 1.
    stream : optional
        Where to launch.
    """

    def __init__(self, weights: Weights, batch: int, stream: Any = 0):
        there = weights.as_dict()
        transposed = {name: there[name].T.copy() for name in there if name.endswith("weight")}
        transposed |= {"basis": there["basis"], "basis_transposed": there["basis"].T.copy()}
        flat = {name: array for name, array in there.items() if array.ndim == 1}
        self.weights = {name: cuda.to_device(array) for name, array in (transposed | flat).items()}
        self.zeros = cuda.to_device(0 * there["encode_bias"].repeat(FRAMES))
        self.batch, self.stream = batch, stream
        self._frames = [self._memory(FRAMES * batch, BANDS) for _ in range(2)]
        self._codes = [self._memory(batch, CODE) for _ in range(2)]

    @staticmethod
    def _memory(rows: int, columns: int) -> Any:
        return workspace((rows, columns), "float32")

    def launches(self, x: Any, y: Any, errors: Any) -> list[tuple[str, Callable, tuple, tuple]]:
        """For each launch: its layer, the kernel, (grid, block), arguments."""
        w, (a, b), (c, d) = self.weights, self._frames, self._codes
        batch, n = self.batch, FRAMES * self.batch
        frames, rebuilt = x.reshape(n, BANDS), y.reshape(n, BANDS)
        whole_a, whole_b = (array.reshape(batch, POINTS) for array in (a, b))
        warps = {rows: (-(-rows // ROWS), (32, ROWS)) for rows in (batch, n)}

        def tiles(rows: int, columns: int) -> tuple:
            return (columns // TILE, -(-rows // TILE)), (TILE, TILE)

        e, k, v = "encode", "code", "decode"
        return [
            ("LayerNorm", layer_norm, warps[n], (frames, w[f"{e}_gamma"], w[f"{e}_beta"], a)),
            ("Linear", linear, tiles(n, BANDS), (a, w[f"{e}_weight"], w[f"{e}_bias"], b)),
            ("GELU", gelu_each, tiles(n, BANDS), (b, a)),
            ("basis", linear, tiles(batch, CODE), (whole_a, w["basis_transposed"], self.zeros, c)),
            ("LayerNorm", layer_norm, warps[batch], (c, w[f"{k}_gamma"], w[f"{k}_beta"], d)),
            ("Linear", linear, tiles(batch, CODE), (d, w[f"{k}_weight"], w[f"{k}_bias"], c)),
            ("GELU", gelu_each, tiles(batch, CODE), (c, d)),
            ("basis", linear, tiles(batch, POINTS), (d, w["basis"], self.zeros, whole_b)),
            ("Linear", linear, tiles(n, BANDS), (b, w[f"{v}_weight"], w[f"{v}_bias"], rebuilt)),
            ("error", mean_squared_error, warps[batch], (x, y, errors)),
        ]

    def __call__(self, x: Any, y: Any, errors: Any) -> None:
        """Launch all layers, without waiting; x, y (batch, 320), errors (batch,) on the GPU."""
        for _, kernel, (grid, block), arguments in self.launches(x, y, errors):
            kernel[grid, block, self.stream](*arguments)
