"""SiLU in Triton: a program for each block of elements, and no threads to see."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_pointer, y_pointer, size, BLOCK: tl.constexpr):
    """Write the SiLU of a block of elements."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    x = tl.load(x_pointer + place, mask=inside)
    tl.store(y_pointer + place, x * tl.sigmoid(x), mask=inside)


def silu(x):
    """Return the SiLU of every element."""
    given = torch.from_numpy(x).cuda()
    y = torch.empty_like(given)
    kernel[(triton.cdiv(x.size, 1024),)](given, y, x.size, BLOCK=1024)
    return y.cpu().numpy()
