"""What a lane hands over to `mma_f16` and gets back: device functions, once the reader wrote them.

Lane l has g = l // 4 and q = l % 4; a share begins at row g of a tile, its k at 2 q.
"""

from course import cuda
from warpsim.ptx import split_halves


@cuda.jit(device=True)
def pair(x, y):
    """Two numbers as halves, side by side in 32 bits."""
    return split_halves(x, y)[0]


@cuda.jit(device=True)
def share_of_a(a, row, k):
    """Eight numbers of a: rows `row` and 8 below, columns k, k + 1, and both 8 to the right."""
    return (
        pair(a[row, k], a[row, k + 1]),
        pair(a[row + 8, k], a[row + 8, k + 1]),
        pair(a[row, k + 8], a[row, k + 9]),
        pair(a[row + 8, k + 8], a[row + 8, k + 9]),
    )


@cuda.jit(device=True)
def share_of_b(b, k, column):
    """Four numbers of b: rows k, k + 1, k + 8 and k + 9 of one column."""
    return pair(b[k, column], b[k + 1, column]), pair(b[k + 8, column], b[k + 9, column])


@cuda.jit(device=True)
def split_share_of_a(a, row, k):
    """`share_of_a` as sums of two halves: the upper parts, then the lower ones."""
    upper0, lower0 = split_halves(a[row, k], a[row, k + 1])
    upper1, lower1 = split_halves(a[row + 8, k], a[row + 8, k + 1])
    upper2, lower2 = split_halves(a[row, k + 8], a[row, k + 9])
    upper3, lower3 = split_halves(a[row + 8, k + 8], a[row + 8, k + 9])
    return (upper0, upper1, upper2, upper3), (lower0, lower1, lower2, lower3)


@cuda.jit(device=True)
def split_share_of_b(b, k, column):
    """`share_of_b` as sums of two halves: the upper parts, then the lower ones."""
    upper0, lower0 = split_halves(b[k, column], b[k + 1, column])
    upper1, lower1 = split_halves(b[k + 8, column], b[k + 9, column])
    return (upper0, upper1), (lower0, lower1)


@cuda.jit(device=True)
def store_sums(out, row, column, c):
    """Write a lane's four sums: two in `row` from `column` on, two in row + 8."""
    out[row, column], out[row, column + 1] = c[0], c[1]
    out[row + 8, column], out[row + 8, column + 1] = c[2], c[3]
