"""What decomposes a batch of matrices: which kernels, or a library's, and by how many threads.

Rules and figures are an H200's, GPU time in ms; `gesvda` is cuSOLVER's, as PyTorch calls it.
"""

from __future__ import annotations

from course.backend import cuda
from course.heuristics.device import ceil_div, multiprocessors, round_up

#: Compute capabilities of GPUs with half of float32's rate in float64; others have 1/32, or less.
FAST_FLOAT64 = (8, 0), (9, 0), (10, 0)
ONE_LAUNCH, IN_REGISTERS = 32, 128  # columns, at most: one launch does all; R is in registers
MANY_MATRICES = 64  # more of them keep the GPU busy with a block each


def float64_is_fast() -> bool:
    """Whether the current GPU is one of `FAST_FLOAT64`."""
    return tuple(cuda.get_current_device().compute_capability) in FAST_FLOAT64


def _sides(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Matrices, shorter side, longer side; a shape is (rows, columns), or has a batch in front."""
    return shape[0] if len(shape) == 3 else 1, *sorted(shape[-2:])


def is_tall(shape: tuple[int, ...]) -> bool:
    """Whether a Gram matrix in float64 is faster than reflections, and seldom ill-conditioned."""
    batch, columns, rows = _sides(shape)
    if columns > ONE_LAUNCH:
        least = 1.6 * columns if batch > MANY_MATRICES else min(1.6 * columns, columns + 8)
    else:
        least = 144 if batch > MANY_MATRICES else 240
    return rows >= least and float64_is_fast()


# --- a library ------------------------------------------------------------------------------------

#: From so many columns, up to so many matrices, `gesvda` is taken: 2 of 100 x 100 .82, ours 1.13;
#: 4 of 115 x 477 .88, 1.18. Not so: 8 of 96 x 96 .81, ours .94; 30 of 110 x 128 1.00, 1.08.
LEAST_COLUMNS, FEW_MATRICES = 97, 24
#: From so many columns, and elements of all matrices, `gesvda` keeps all of the GPU busy.
LONG_COLUMNS, LONG_ELEMENTS = 320, 10_000_000
MORE = 8  # columns of a sketch beyond k, at least: the oversampling


def is_faster(shape: tuple[int, ...], k: int | None = None) -> bool:
    """Whether `gesvda` is faster than the kernels: all values, or the k largest.

    It is for one matrix of more than `IN_REGISTERS` columns, which several blocks of ours rotate:
    140 x 150 take 2.9, `gesvda` 1.3. It also finds the k largest values of one matrix, for the sake
    of the first call: our kernels compile for 5 s.
    """
    batch, columns, rows = _sides(shape)
    if batch == 1 and (k is not None or columns > IN_REGISTERS):
        return True
    if columns <= IN_REGISTERS or k is not None:
        return LEAST_COLUMNS <= columns <= IN_REGISTERS and 1 < batch <= FEW_MATRICES
    return columns >= LONG_COLUMNS and batch * rows * columns >= LONG_ELEMENTS


def is_sketched(shape: tuple[int, ...], k: int | None) -> bool:
    """Whether the k largest values of one matrix are found faster by a sketch than all by `gesvda`.

    The sketch of 1024 x 1024 with k = 1 takes .8, `gesvda` 10.8; 281 x 272 with k = 61 2.2 and 2.8;
    200 x 256 with k = 60 2.1 and 2.0.
    """
    batch, columns, _ = _sides(shape)
    return batch == 1 and k is not None and columns > IN_REGISTERS and 2 * columns >= 7 * (k + MORE)


def copies_of(batch: int, columns: int) -> int:
    """How many matrices `gesvda` gets: a single one of few columns is faster beside a second.

    Up to `IN_REGISTERS` columns: 128 x 128 takes 1.2 so, and 2.0 alone.
    """
    return max(batch, 2) if columns <= IN_REGISTERS else batch


# --- launches -------------------------------------------------------------------------------------


def sketch_columns(k: int, rank: int) -> int:
    """Columns of the kernels' sketch for k singular values of matrices with `rank` = min(m, n)."""
    return min(round_up(k + MORE, 32), rank)


#: Warps of a block that decomposes a matrix in one launch, by padded columns: of few matrices, of
#: many. Results are the same to the bit with either: all sums are made in one order.
FEW_WARPS = {16: 4, ONE_LAUNCH: 8}
MANY_WARPS = {16: 2, ONE_LAUNCH: 2}
MUCH_SHARED = 64 * 1024  # bytes of a block; with more a multiprocessor has few blocks


def warps_of(size: int, shared: int, batch: int) -> int:
    """Warps of a block for matrices of `size` padded columns; shared: bytes that a block takes."""
    few = shared > MUCH_SHARED or batch <= 2 * multiprocessors()
    return (FEW_WARPS if few else MANY_WARPS)[size]


MOST_PARTS = 8  # blocks that share a Gram matrix


def gram_parts(tiles: int, batch: int) -> int:
    """Blocks that share each of `batch` Gram matrices, a sum over so many tiles of rows."""
    return min(tiles, ceil_div(2 * multiprocessors(), batch), MOST_PARTS)


def gram_tile(size: int) -> tuple[int, int]:
    """For matrices of so many columns: threads across them, and rows of a thread in products."""
    return {16: 4, 32: 8, 64: 8}.get(size, 16), 8 if size in (32, 48) else 4


def reflects_in_parts(columns: int, batch: int) -> bool:
    """Whether blocks share a matrix's reflections, two launches a panel: if matrices are few."""
    return columns >= 128 and batch <= multiprocessors() // 2
