"""Tiles of a transpose, by the matrix."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class TileConfig:
    """What is tuned: powers of two."""

    high: int  # rows of the image in a tile
    wide: int  # columns
    threads: int = 256  # of a block


class MatrixProblem(NamedTuple):
    """A matrix to be transposed."""

    rows: int
    columns: int
    reads: int = 1  # elements of the image in an access: 4 or 1; 0 if rows are not contiguous
    writes: int = 1  # elements of out in an access, likewise


#: Elements up to which small tiles are faster, since they make more blocks for the GPU.
TINY_ELEMENTS, MIDDLE_ELEMENTS = 1 << 15, 1 << 20
#: Tiles of matrices with few rows, or few columns, by their greatest number.
FEW_ROWS = {4: TileConfig(4, 256), 8: TileConfig(8, 128, 128), 16: TileConfig(16, 64)}
FEW_COLUMNS = {4: TileConfig(256, 4), 8: TileConfig(128, 8, 128), 16: TileConfig(64, 16)}
#: Rows from which tiles are high if rows of out begin between sectors. A tile then writes each row
#: of out with a part of a sector at both ends, and these cost as much as whole sectors.
HIGH_ROWS = 1024


def tile_for(problem: MatrixProblem) -> TileConfig:
    """The tiles of a matrix in step 4; measured on an H200."""
    rows, columns, _, writes = problem
    for tiles, side in ((FEW_ROWS, rows), (FEW_COLUMNS, columns)):
        for most, config in tiles.items():
            if side <= most and max(rows, columns) > 4 * most:
                return config
    if rows * columns <= TINY_ELEMENTS:
        return TileConfig(16, 16)
    if rows * columns <= MIDDLE_ELEMENTS:
        return TileConfig(32, 32)
    if rows < 128:
        return TileConfig(32, 64)
    return TileConfig(128, 64, 512) if writes == 1 and rows >= HIGH_ROWS else TileConfig(64, 64)
