"""The order in which the blocks of a grid take their tiles of the result."""

from numba import int32, uint32

from course.backend import cuda

TOGETHER = 8  # rows of blocks that run at about the same time: they share columns in the L2 cache


@cuda.jit(device=True)
def in_bands():
    """Return (row, column) of the block's tile: down TOGETHER rows, then on to the next column."""
    across, down = uint32(cuda.gridDim.x), uint32(cuda.gridDim.y)
    number = uint32(uint32(cuda.blockIdx.y) * across + uint32(cuda.blockIdx.x))
    band = uint32(uint32(TOGETHER) * across)
    first = uint32(uint32(number // band) * uint32(TOGETHER))
    height = uint32(min(uint32(down - first), uint32(TOGETHER)))
    inside = uint32(number % band)
    return int32(first + inside % height), int32(inside // height)
