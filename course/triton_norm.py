"""LayerNorm, and LayerNorm followed by GELU, in Triton: a program a row, the row at once.

Importing this needs Triton. The shape follows Triton's own tutorial on layer normalisation: the row
rounded up to a power of two, a warp for each 256 numbers, from 1 to 16.
"""

import triton
import triton.language as tl


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
    """Launch it on PyTorch's tensors, x and out (rows, columns)."""
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    warps = min(max(block // 256, 1), 16)
    layer_norm_kernel[(rows,)](
        x, gamma, beta, eps, out, columns, GELU=gelu, BLOCK=block, num_warps=warps
    )
    return out
