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
    reads: int = 1  # elements of the image at once: 4, or 1; 0 where those of a row lie apart
    writes: int = 1  # and of out


#: Elements up to which small tiles are faster, since more blocks run at the same time.
TINY, MIDDLE = 1 << 15, 1 << 20
#: Tiles of thin matrices, of rows and columns, by the side that they have at most.
LOW = {4: TileConfig(4, 256), 8: TileConfig(8, 128, 128), 16: TileConfig(16, 64)}
NARROW = {4: TileConfig(256, 4), 8: TileConfig(128, 8, 128), 16: TileConfig(64, 16)}
#: Rows from which tiles are high where rows of out begin between two sectors: each row of a tile
#: then ends in two parts of sectors, which cost as much as whole ones.
HIGH = 1024


def tile_for(problem: MatrixProblem) -> TileConfig:
    """The tiles of a matrix in step 4; measured on an H200."""
    rows, columns, _, writes = problem
    for tiles, side in ((LOW, rows), (NARROW, columns)):
        for most, config in tiles.items():
            if side <= most and max(rows, columns) > 4 * most:
                return config
    if rows * columns <= TINY:
        return TileConfig(16, 16)
    if rows * columns <= MIDDLE:
        return TileConfig(32, 32)
    if rows < 128:
        return TileConfig(32, 64)
    return TileConfig(128, 64, 512) if writes == 1 and rows >= HIGH else TileConfig(64, 64)
