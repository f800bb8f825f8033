"""What decomposes a batch of matrices: which kernels, or a library's, and by how many threads.

Rules and figures are an H200's, GPU time in ms; `gesvda` is cuSOLVER's, as PyTorch calls it.
"""

from __future__ import annotations

from course.backend import cuda
from course.heuristics.device import ceil_div, multiprocessors, round_up

#: Compute capabilities of GPUs with half of float32's rate in float64; others have 1/32, or less.
FAST_FLOAT64 = (8, 0), (9, 0), (10, 0)
ONE_LAUNCH, IN_REGISTERS = 32, 128  # columns: up to there a block decomposes a matrix at once
MANY = 64  # matrices: more of them keep the GPU busy, a block each


def float64_is_fast() -> bool:
    """Whether the current GPU is one of those."""
    return tuple(cuda.get_current_device().compute_capability) in FAST_FLOAT64


def _sides(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """How many matrices (batch, rows, columns), or one (rows, columns); both sides, sorted."""
    return shape[0] if len(shape) == 3 else 1, *sorted(shape[-2:])


def is_tall(shape: tuple[int, ...]) -> bool:
    """Whether a Gram matrix in float64 is faster than reflections, and seldom ill-conditioned."""
    batch, columns, rows = _sides(shape)
    if columns > ONE_LAUNCH:
        least = 1.6 * columns if batch > MANY else min(1.6 * columns, columns + 8)
    else:
        least = 144 if batch > MANY else 240
    return rows >= least and float64_is_fast()


# --- a library ------------------------------------------------------------------------------------

#: Columns and matrices that few blocks' rotations take longer for: 2 of 100 x 100 1.13, `gesvda`
#: .82; 4 of 115 x 477 1.18 and .88. 8 of 96 x 96 take .94 and .81, 30 of 110 x 128 1.08 and 1.00.
LEAST, FEW = 97, 24
#: Columns and elements of matrices that are many enough, and long, for all of the GPU.
LONG, ELEMENTS = 320, 10_000_000
MORE = 8  # columns of a sketch beyond k, at least


def is_faster(shape: tuple[int, ...], k: int | None = None) -> bool:
    """Whether `gesvda` is faster than the kernels: all values, or the k largest.

    One matrix of more columns than `IN_REGISTERS` is rotated by several blocks: 140 x 150 take 2.9,
    `gesvda` 1.3. One matrix's largest values for the sake of their first call: kernels compile for
    5 s.
    """
    batch, columns, rows = _sides(shape)
    if batch == 1 and (k is not None or columns > IN_REGISTERS):
        return True
    if columns <= IN_REGISTERS or k is not None:
        return LEAST <= columns <= IN_REGISTERS and 1 < batch <= FEW
    return columns >= LONG and batch * rows * columns >= ELEMENTS


def is_sketched(shape: tuple[int, ...], k: int | None) -> bool:
    """Whether the k largest values of one matrix are found faster by a sketch than all by `gesvda`.

    1024 x 1024 with k = 1 take .8 and 10.8, 281 x 272 with k = 61 2.2 and 2.8; 200 x 256 with k =
    60 2.1 and 2.0.
    """
    batch, columns, _ = _sides(shape)
    return batch == 1 and k is not None and columns > IN_REGISTERS and 2 * columns >= 7 * (k + MORE)


def copies_of(batch: int, columns: int) -> int:
    """Matrices that `gesvda` is asked for: one is decomposed sooner beside a second one.

    Of up to `IN_REGISTERS` columns: 128 x 128 take 1.2, and 2.0 alone.
    """
    return max(batch, 2) if columns <= IN_REGISTERS else batch


# --- launches -------------------------------------------------------------------------------------


def sketch_columns(k: int, rank: int) -> int:
    """Columns of the kernels' sketch for k singular values of matrices with `rank` = min(m, n)."""
    return min(round_up(k + MORE, 32), rank)


#: Warps of a block that does all in one launch, by columns, padded: where matrices are few, and
#: many. A matrix's result is the same to the bit with either: all sums are made in one order.
FEW_WARPS = {16: 4, ONE_LAUNCH: 8}
MANY_WARPS = {16: 2, ONE_LAUNCH: 2}
MUCH = 64 * 1024  # bytes of shared memory from which so few blocks share a multiprocessor


def warps_of(size: int, shared: int, batch: int) -> int:
    """Warps for matrices of so many columns, padded, and bytes of shared memory."""
    few = shared > MUCH or batch <= 2 * multiprocessors()
    return (FEW_WARPS if few else MANY_WARPS)[size]


MOST_PARTS = 8  # blocks that share a Gram matrix


def gram_parts(tiles: int, batch: int) -> int:
    """Blocks for one of `batch` Gram matrices that is a sum over so many tiles of rows."""
    return min(tiles, ceil_div(2 * multiprocessors(), batch), MOST_PARTS)


def gram_tile(size: int) -> tuple[int, int]:
    """Of results with so many columns: threads along an edge of a square, and a thread's rows."""
    return {16: 4, 32: 8, 64: 8}.get(size, 16), 8 if size in (32, 48) else 4


def reflects_in_parts(columns: int, batch: int) -> bool:
    """Whether several blocks reflect a matrix, by two launches a panel: where there are few."""
    return columns >= 128 and batch <= multiprocessors() // 2
