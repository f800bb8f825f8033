"""Peers in Triton for rows and elements; import this only where Triton is installed.

Each function takes PyTorch tensors on the GPU, C-contiguous, and writes its result into `out`.
LayerNorm, alone or followed by GELU, has one program instance for each row, which loads the whole
row. Block and warps follow Triton's tutorial on layer normalisation: the row's length rounded up to
a power of two, a warp for each 256 elements, from 1 to 16.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

BLOCK = 1024  # elements of a program instance in `activation`


@triton.jit
def _gelu(x_pointer, out_pointer, size, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    x = tl.load(x_pointer + place, mask=inside).to(tl.float32)
    y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(out_pointer + place, y, mask=inside)


@triton.jit
def _silu(x_pointer, out_pointer, size, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    x = tl.load(x_pointer + place, mask=inside).to(tl.float32)
    tl.store(out_pointer + place, x * tl.sigmoid(x), mask=inside)


@triton.jit
def _relu(x_pointer, out_pointer, size, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    x = tl.load(x_pointer + place, mask=inside).to(tl.float32)
    tl.store(out_pointer + place, tl.where(x <= 0, 0.0, x), mask=inside)


@triton.jit
def _softmax(x_pointer, out_pointer, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_pointer + start + column, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_pointer + start + column, powers / tl.sum(powers, axis=0), mask=inside)


def gelu(x: Any, out: Any) -> None:
    """GELU of every element."""
    _gelu[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK=BLOCK)


def silu(x: Any, out: Any) -> None:
    """SiLU of every element."""
    _silu[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK=BLOCK)


def relu(x: Any, out: Any) -> None:
    """ReLU of every element; NaN stays NaN."""
    _relu[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK=BLOCK)


def softmax(x: Any, out: Any) -> None:
    """Softmax of every row: a program instance for each row, which holds the row in registers."""
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    warps = min(16, max(4, block // 512))
    _softmax[(rows,)](x, out, columns, BLOCK=block, num_warps=warps)


# --- LayerNorm ------------------------------------------------------------------------------------


@triton.jit
def layer_norm_kernel(x, gamma, beta, eps, out, columns, GELU: tl.constexpr, BLOCK: tl.constexpr):
    """out[row] = (x[row] - mean) / sqrt(variance + eps) * gamma + beta, for contiguous rows."""
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    here = place < columns
    values = tl.load(x + row * columns + place, mask=here, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    difference = tl.where(here, values - mean, 0.0)
    variance = tl.sum(difference * difference, axis=0) / columns
    scale = 1.0 / tl.sqrt(variance + eps)
    g = tl.load(gamma + place, mask=here).to(tl.float32)
    b = tl.load(beta + place, mask=here).to(tl.float32)
    result = difference * scale * g + b
    if GELU:
        result = 0.5 * result * (1.0 + tl.erf(result * 0.7071067811865476))
    tl.store(out + row * columns + place, result, mask=here)


def layer_norm(x, gamma, beta, eps, out, gelu=False):
    """Launch `layer_norm_kernel` on PyTorch's tensors, x and out (rows, columns)."""
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    warps = min(max(block // 256, 1), 16)
    layer_norm_kernel[(rows,)](
        x, gamma, beta, eps, out, columns, GELU=gelu, BLOCK=block, num_warps=warps
    )
    return out
