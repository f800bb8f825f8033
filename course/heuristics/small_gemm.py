"""How a small product of float32 is cut on tensor cores: a tile for each block, its warps."""

from __future__ import annotations

from typing import NamedTuple

from course.heuristics.device import ceil_div, round_up

WARP = 32
DEEP = 16  # along the depth, of one round of a warp
AT_ONCE = 132  # blocks, one a multiprocessor of an H200; an A100 has 108
MOST_WARPS, REGISTERS, SHARED = 16, 2**16, 48 * 2**10  # of a block; bytes
FRAGMENTS = {
    "nn": ((1, 2), (2, 2), (1, 4), (2, 4)), "nt": ((1, 2), (1, 4), (2, 4)), "tn": ((2, 4),),
}  # fmt: skip


class Cut(NamedTuple):
    """How a product is cut, in `small_gemm_tile`'s words; a block's threads, their registers."""

    fragments: tuple[int, int]
    warps: int
    ahead: int
    threads = property(lambda self: WARP * self.warps)
    # a multiprocessor's quarters have a quarter of them each: 10 warps count as 12
    quarter = property(lambda self: round_up(self.threads, 4 * WARP))
    registers = property(lambda self: min(255, REGISTERS // self.quarter // 8 * 8))


def cut_of(layout: str, rows: int, columns: int, depth: int) -> Cut:
    """The cut of which a multiprocessor loads least; with warps enough to load all at once."""

    def loads(fragments: tuple[int, int]) -> tuple[int, int]:
        high, wide = 16 * fragments[0], 8 * fragments[1]
        blocks = ceil_div(rows, high) * ceil_div(columns, wide)
        return ceil_div(blocks, AT_ONCE) * (high + wide), blocks

    fragments = down, across = min(FRAGMENTS[layout], key=loads)
    sums = 4 * 16 * down * (8 * across + 8)  # bytes of a tile's, at most
    most = min(MOST_WARPS, SHARED // sums)
    # a thread's elements of one round; and its sums, what is cut in two, addresses
    each, besides = 8 * down + 4 * across, 4 * down * across + 8 * down + 4 * across + 40
    rounds = ceil_div(depth, DEEP)
    for ahead in range(1, rounds + 1):
        cut = Cut(fragments, ceil_div(rounds, ahead), ahead)
        if cut.warps <= most and each * ahead + besides <= cut.registers:
            return cut
    cut = Cut(fragments, min(most, 8), 1)
    return cut._replace(ahead=max(1, (cut.registers - besides) // each))
