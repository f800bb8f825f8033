"""Which products of 16 bits cuBLAS does faster: by sizes alone, and the plan that is taken else.

All figures are an H200's. Of 3,000 drawn products it does three kinds faster, others not.
"""

from __future__ import annotations

from course.heuristics.gemm import REDUCE, REDUCE_RESULT, REDUCE_SUM, Plan, Sizes

FLOPS_PER_US = 5.3e6  # of cuBLAS on a multiprocessor, after some 3 us that any product takes
BYTES_PER_US = 4.1e6  # of DRAM
#: Microseconds of multiplying, from which on tiles that leave multiprocessors idle cost more. With
#: split-K in our plan the second holds: below that cuBLAS splits the depth badly.
LONG_US, LONG_SPLIT_US = 20, 45
#: Our time by cuBLAS's, beyond which cuBLAS is taken. Less where rows begin within lines of L2.
SLOWDOWN, STRADDLING_SLOWDOWN = 1.22, 1.1
LIBRARY_REDUCE = 0.85  # time of the launch behind cuBLAS, by that of a reduction of one sum of ours
LARGE_BYTES = 40e6  # of a factor that TMA cannot load, but whose rows begin at multiples of 4 bytes
#: Rows or columns of the other factor: at least, at most, and at most beside up to `SHORT_SIDE`.
OTHER_SIDE, SHORT_SIDE = (17, 96, 128), 1024
#: Results' shorter side, an odd multiple of 16 bytes; the longer, at least; depths, from and to.
NARROW, LONG_SIDE, DEPTHS = (24, 40, 56, 72), 4096, (256, 25_000)


def is_faster(p: Sizes, plan: Plan, finished: bool) -> bool:
    """Whether a product is handed to cuBLAS, in one of three cases.

    plan: the best of our kernels. finished: another launch adds bias and activation to cuBLAS's.

    - Multiplying takes longest, and our tiles fill the multiprocessors badly.
    - TMA cannot load a large factor, beside a narrow one; cuBLAS loads it by 4 bytes.
    - Results have few columns, and their rows begin between sectors of 32 bytes.
    """
    sides, results = (p.rows, p.columns), p.rows * p.columns
    pitches = (
        p.rows if p.layout[0] == "t" else p.depth, p.depth if p.layout[1] == "t" else p.columns
    )  # fmt: skip
    if all(p.aligned):
        work = 2 * results * p.depth / (FLOPS_PER_US * p.blocks)
        read = 2 * (sum(sides) * p.depth + results) / BYTES_PER_US
        behind = finished * LIBRARY_REDUCE * (REDUCE + (REDUCE_RESULT + REDUCE_SUM) * results)
        long = work >= max(LONG_US if plan.splits == 1 else LONG_SPLIT_US, read)
        more = STRADDLING_SLOWDOWN if any(pitch % 64 for pitch in pitches) else SLOWDOWN
        slow = plan.time > max(more * (3 + work), work + behind)
        few = min(sides) in NARROW and max(sides) >= LONG_SIDE and DEPTHS[0] <= p.depth <= DEPTHS[1]
        return few or (long and slow)
    return any(
        not aligned and pitch % 2 == 0
        and OTHER_SIDE[0] <= other <= OTHER_SIDE[1 + (side <= SHORT_SIDE)]
        and 2 * p.depth * side >= LARGE_BYTES
        for aligned, pitch, side, other in zip(p.aligned, pitches, sides, sides[::-1])
    )  # fmt: skip
