"""How a small product of float32 is cut on tensor cores: a tile for each block, shared by warps."""

from __future__ import annotations

from typing import NamedTuple

from course.heuristics.device import ceil_div, round_up

WARP = 32
DEEP = 16  # elements of the depth in a warp's round
RESIDENT_BLOCKS = 132  # one a multiprocessor of an H200; an A100 has 108
MOST_WARPS, REGISTERS, SHARED = 16, 2**16, 48 * 2**10  # of a block; SHARED in bytes
FRAGMENTS = {  # of a tile, down and across: 16 rows and 8 columns each
    "nn": ((1, 2), (2, 2), (1, 4), (2, 4)), "nt": ((1, 2), (1, 4), (2, 4)), "tn": ((2, 4),),
}  # fmt: skip


class Cut(NamedTuple):
    """How a product is cut: arguments of `small_gemm_tile`."""

    fragments: tuple[int, int]  # of the tile, down and across
    warps: int  # of a block: they share the tile's depth
    ahead: int  # rounds of the second factor that a warp loads before it waits
    threads = property(lambda self: WARP * self.warps)
    # each quarter of a multiprocessor has a quarter of the registers: 10 warps count as 12
    quarter = property(lambda self: round_up(self.threads, 4 * WARP))
    registers = property(lambda self: min(255, REGISTERS // self.quarter // 8 * 8))


def cut_of(layout: str, rows: int, columns: int, depth: int) -> Cut:
    """The cut with the fewest loads a multiprocessor, and with warps to load all at once."""

    def loads(fragments: tuple[int, int]) -> tuple[int, int]:
        high, wide = 16 * fragments[0], 8 * fragments[1]
        blocks = ceil_div(rows, high) * ceil_div(columns, wide)
        return ceil_div(blocks, RESIDENT_BLOCKS) * (high + wide), blocks

    fragments = down, across = min(FRAGMENTS[layout], key=loads)
    sums = 4 * 16 * down * (8 * across + 8)  # bytes of a warp's sums in shared memory, at most
    most = min(MOST_WARPS, SHARED // sums)
    # a thread's registers: elements of a round; sums, elements cut in two (tf32x3), addresses
    each, besides = 8 * down + 4 * across, 4 * down * across + 8 * down + 4 * across + 40
    rounds = ceil_div(depth, DEEP)
    for ahead in range(1, rounds + 1):
        cut = Cut(fragments, ceil_div(rounds, ahead), ahead)
        if cut.warps <= most and each * ahead + besides <= cut.registers:
            return cut
    cut = Cut(fragments, min(most, 8), 1)
    return cut._replace(ahead=max(1, (cut.registers - besides) // each))
