"""Which products of 16 bits cuBLAS does faster: by sizes alone, and the plan that is taken else.

Three kinds were found among 3,000 drawn products, on an H200; elsewhere it is slower, or as fast.
"""

from __future__ import annotations

from course.heuristics.gemm import BEHIND, FINISHED, SUMMED, Plan, Sizes

OPERATIONS = 5.3e6  # that cuBLAS does in a microsecond on a multiprocessor; a product's first are 3
MEMORY = 4.1e6  # bytes in a microsecond
#: Microseconds of operations, from which tiles that leave multiprocessors idle cost more; the other
#: where blocks of ours share the depth: shorter products cuBLAS shares badly.
LONG, LONG_SHARED = 20, 45
#: Of what cuBLAS takes, from which on; where rows of a factor straddle lines of 128 bytes, less.
MORE, STRADDLING = 1.22, 1.1
FINISHING = 0.85  # of what finishing our partial sums takes: that of cuBLAS's
LARGE = 40e6  # bytes of a factor whose rows begin at multiples of 4 bytes
NARROW = 17, 64  # rows or columns of the other, from and to
#: Results of so few columns, an odd number of 16 bytes; the other side, and the depth, from and to.
FEW, OTHER, DEPTHS = (24, 40, 56, 72), 4096, (256, 25_000)


def is_faster(p: Sizes, plan: Plan, finished: bool) -> bool:
    """Whether a product is handed over.

    plan: the best of the course's kernels. finished: its sums in float32 are, by another launch.

    - Multiplications take longest, and tiles of ours fill the multiprocessors badly.
    - A large factor, beside a narrow one, that TMA does not take, and cuBLAS by 4 bytes.
    - Few columns of results, whose rows begin between sectors of 32 bytes.
    """
    sides, results = (p.rows, p.columns), p.rows * p.columns
    pitches = (
        p.rows if p.layout[0] == "t" else p.depth, p.depth if p.layout[1] == "t" else p.columns
    )  # fmt: skip
    if all(p.aligned):
        work = 2 * results * p.depth / (OPERATIONS * p.blocks)
        read = 2 * (sum(sides) * p.depth + results) / MEMORY
        behind = finished * FINISHING * (BEHIND + (FINISHED + SUMMED) * results)
        long = work >= max(LONG if plan.splits == 1 else LONG_SHARED, read)
        more = STRADDLING if any(pitch % 64 for pitch in pitches) else MORE
        slow = plan.time > max(more * (3 + work), work + behind)
        few = min(sides) in FEW and max(sides) >= OTHER and DEPTHS[0] <= p.depth <= DEPTHS[1]
        return few or (long and slow)
    return any(
        not aligned and pitch % 2 == 0 and NARROW[0] <= other <= NARROW[1]
        and 2 * p.depth * side >= LARGE
        for aligned, pitch, side, other in zip(p.aligned, pitches, sides, sides[::-1])
    )  # fmt: skip
