"""How many threads and blocks share a row of softmax and of its gradient: measured on an H200."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from course.heuristics.device import ceil_div, hopper_refusal, multiprocessors, row_limit

VECTOR, WARP = 4, 32  # elements of an access, lanes of a warp


class RowProblem(NamedTuple):
    """What decides between the steps of a softmax and of its gradient."""

    rows: int
    columns: int
    dtype: str
    aligned: bool  # whole rows can be accessed four elements at a time
    shifted: bool = False  # not from their begin on, but from the same columns on in all arrays

    # how kernels in registers access rows: see `course.kernels.softmax.forward.part_of_row`
    access = property(
        lambda self: "aligned" if self.aligned else "shifted" if self.shifted else "single"
    )
    size = property(lambda self: 4 if self.dtype == "float32" else 2)  # bytes of an element


@dataclass(frozen=True)
class SoftmaxConfig:
    """What is tuned."""

    row_threads: int  # that share a row: a power of two, 2 to 1,024 of a block; to 32 by shuffles
    rows: int  # of a block; rows x row_threads is a multiple of 32
    accesses: int  # loads of four elements that a thread has in flight: its whole part of the row
    blocks: int = 1  # that share a row, as a cluster; row_threads are those of all of them

    def unguarded(self, columns: int, access: str) -> int:
        """Loads of a thread that are inside a row of this length for every thread."""
        if access == "single":
            return min(columns // self.row_threads, self.accesses * VECTOR)
        return min(columns // (self.row_threads * VECTOR), self.accesses)


#: Elements of the longest row, by alignment: 1,024 threads have 64 registers each, and where single
#: elements are read, more of them hold addresses.
LONGEST = {True: 32_768, False: 16_384}
#: By how a thread accesses its part of a row, see
#: `course.kernels.softmax.forward.part_of_row`, and bytes of an element: accesses
#: of four elements that it has at most, up to as many threads as a warp has and beyond, and threads
#: of all rows up to which few rows have more threads each. Measured on an H200.
TUNED = {
    ("aligned", 2): (3, 7, 1 << 16), ("aligned", 4): (3, 4, 1 << 16),
    ("shifted", 2): (7, 7, 1 << 17), ("shifted", 4): (7, 7, 1 << 17),
    ("single", 2): (1, 8, 1 << 17), ("single", 4): (1, 4, 13 << 14),
}  # fmt: skip
SHIFTED = 5000  # columns from which "shifted" is faster than "single"
#: A block of up to so many threads has up to so many accesses of such rows, by bytes of an element:
#: several are then on a multiprocessor, and one reads while another writes. On an H200, bfloat16
#: 3890x7534: 55 us by 512 threads, 37 by 256.
SMALL_BLOCK, SMALL_ACCESSES = 256, {2: 12, 4: 10}
FEWEST_THREADS, MOST_THREADS = 2, 1024  # that share a row
#: Threads of a block, at least; and of more rows than `MANY` threads have: a new block can begin
#: about every nanosecond.
BLOCK, LARGE_BLOCK, MANY = 128, 256, 1 << 17
#: Columns up to which a warp has a row, since it needs no barrier, however few rows there are.
BARRIER = 640
#: Few rows, of no more bytes, have fewer threads each, of no more accesses, so that so many
#: launches have registers `at_once`: the next wait beside the one that runs. Where several warps
#: share an aligned row, all rows have so many threads at most, on an H200.
TOGETHER, BESIDE, BESIDE_BYTES, BESIDE_ACCESSES = 8, 20 << 10, 9 << 18, 12
H200 = 132  # its multiprocessors
#: Threads of all rows that begin anywhere up to which none has more accesses.
FEW, FEW_ACCESSES = 9 << 15, 4
#: Where more launches have registers, and fewer than `TOGETHER`, one that begins early finds few
#: multiprocessors free, on which its blocks are crowded: it begins when the one in front is done.
#: But where they are a whole number, nearly, or rows are short.
CROWDED, WHOLE = 2.5, (3, 3.2)


def reach(columns: int, access: str) -> int:
    """Columns of accesses of four that hold a row wherever it begins."""
    return columns + (VECTOR - 1 if access == "shifted" else 0)


def threads_for(columns: int, in_warp: int, most: int) -> int:
    """The fewest threads of a row that have at most so many accesses, up to a warp's and beyond."""
    threads = FEWEST_THREADS
    while threads < WARP and threads * in_warp * VECTOR < columns:
        threads *= 2
    while threads < MOST_THREADS and threads * most * VECTOR < columns:
        threads *= 2
    return threads


def config_of(threads: int, columns: int, access: str, rows: int) -> SoftmaxConfig:
    """The config of so many threads a row."""
    block = LARGE_BLOCK if rows * threads > MANY else BLOCK
    if access != "aligned" and threads > WARP:  # no warp waits for those of many other rows
        block = BLOCK if rows * threads <= 8 * MANY else threads
    accesses = ceil_div(reach(columns, access), threads * VECTOR)
    return SoftmaxConfig(threads, max(1, block // threads), accesses)


def at_once(
    threads: int, columns: int, access: str, rows: int, multiprocessors: int, arrays: int = 1
) -> float:
    """Launches of rows of so many threads that a GPU has registers for: elements of arrays, some
    more, and what guards them. One that begins early does when all blocks of the one in front have.
    """
    elements = VECTOR * ceil_div(reach(columns, access), threads * VECTOR)
    more = 12 if threads <= WARP else 16 if access == "aligned" else 20
    if access != "aligned" and elements - columns // threads > 2:
        more += 4
    blocks = min(256 // (8 * ceil_div(arrays * elements + more, 8)), 8)  # of eight warps
    return multiprocessors * blocks * 8 * WARP / (rows * threads)


def beside(threads: int, columns: int, access: str, rows: int, multiprocessors: int = H200) -> bool:
    """Whether the next launches wait beside one of so many threads a row."""
    if access == "aligned" and threads > WARP:
        return rows * threads * H200 <= BESIDE * multiprocessors
    return at_once(threads, columns, access, rows, multiprocessors) >= TOGETHER


def config_for(
    columns: int, access: str = "aligned", size: int = 4, rows: int = 4096,
    multiprocessors: int = H200,
) -> SoftmaxConfig:  # fmt: skip
    """The config for rows of so many elements of `size` bytes."""

    def waiting(threads: int) -> bool:
        return beside(threads, columns, access, rows, multiprocessors)

    in_warp, most, limit = TUNED[access, size]
    held = reach(columns, access)
    threads = threads_for(held, in_warp, most)
    half = threads // 2
    if access == "shifted" and half <= SMALL_BLOCK and half * VECTOR * SMALL_ACCESSES[size] >= held:
        threads = half
    if threads <= WARP and held <= BARRIER:
        return config_of(threads, columns, access, rows)
    fewer = max(threads, 2 * WARP if access == "single" else 0)
    fewest = max(2 * WARP, 2 * held / (VECTOR * BESIDE_ACCESSES))
    while not waiting(fewer) and fewer >= fewest:
        fewer //= 2
    if waiting(fewer) and rows * columns * size <= BESIDE_BYTES:
        config = config_of(fewer, columns, access, rows)
        if rows * fewer <= multiprocessors * BLOCK or fewer > 2 * WARP:
            return config
        return replace(config, rows=LARGE_BLOCK // fewer)  # no multiprocessor has two blocks
    if not waiting(threads):
        while MOST_THREADS > threads < held / VECTOR and 2 * rows * threads <= (
            FEW if access == "single" and held > VECTOR * FEW_ACCESSES * threads else limit
        ):
            threads *= 2
    return config_of(threads, columns, access, rows)


def begins_early(
    threads: int, columns: int, access: str, rows: int, multiprocessors: int, arrays: int = 1
) -> bool:
    """Whether a launch of so many threads a row should begin before the one in front is done."""
    launches = at_once(threads, columns, access, rows, multiprocessors, arrays)
    crowded = CROWDED < launches < TOGETHER and not WHOLE[0] <= launches < WHOLE[1]
    short = access == "aligned" and columns <= WARP * VECTOR * FEW_ACCESSES or threads < WARP
    few = beside(threads, columns, access, rows, multiprocessors) or threads == MOST_THREADS
    return short or few or not crowded


# --- long rows, and few of them -------------------------------------------------------------------

#: Blocks of a row and their threads, the first that hold it: several of them on a multiprocessor,
#: so that one reads while another writes. Measured on an H200.
CLUSTERS, CLUSTER_ACCESSES = ((4, 256), (8, 256), (8, 512), (8, 1024)), 8
MOST_IN_CLUSTER = CLUSTERS[-1][0] * CLUSTERS[-1][1] * CLUSTER_ACCESSES * VECTOR
#: Of rows this long a cluster is faster, if a multiprocessor is left for each of four blocks; of
#: narrow ones, of 16 bits and no longer than that, if two are.
LONG, NARROW = 12_288, 16_384


def cluster_config(columns: int, access: str, *_: int) -> SoftmaxConfig:
    """The config of the smallest cluster that holds rows of so many elements."""
    held = reach(columns, access)
    blocks, threads = next(
        (blocks, threads) for blocks, threads in CLUSTERS
        if blocks * threads * CLUSTER_ACCESSES * VECTOR >= held
    )  # fmt: skip
    return SoftmaxConfig(blocks * threads, 1, ceil_div(held, blocks * threads * VECTOR), blocks)


#: Why a row does not fit a block's registers, in words, or those of a cluster.
too_long = row_limit(LONGEST.get)
beyond_clusters = row_limit({True: MOST_IN_CLUSTER, False: MOST_IN_CLUSTER - (VECTOR - 1)}.get)


def no_cluster(problem: RowProblem) -> str:
    """Why no cluster can have a row, in words; "" if one can."""
    return beyond_clusters(problem) or hopper_refusal()


def best(problem: RowProblem, clusters: bool) -> str:
    """The step that "auto" takes; `clusters`: whether they can be had."""
    blocks = 8 if problem.size == 2 and problem.columns <= NARROW else 4
    few = blocks * problem.rows <= multiprocessors() and problem.columns > LONG
    if clusters and (few or too_long(problem)):
        return "clusters"
    return "online" if too_long(problem) else "registers"


# --- the gradient ---------------------------------------------------------------------------------

#: Accesses of four elements, of each array, that a thread has at most, by bytes of an element; few
#: rows have more threads each, up to so many of a row and of all of them.
MOST_ACCESSES, SHARING, RESIDENT = {4: 2, 2: 4}, 256, 3 << 16
#: Fewer threads of all rows are let be.
LET_BE = 3 << 13
#: Elements of the longest row in registers, by alignment: 1,024 threads have 64 registers each.
BACKWARD_LONGEST = {True: 16_384, False: 8192}


def backward_config_for(
    columns: int, access: str = "aligned", size: int = 4, rows: int = 4096, *_: int
) -> SoftmaxConfig:
    """The config of the gradient, for rows of so many elements of `size` bytes."""
    most, held = MOST_ACCESSES[size], reach(columns, access)
    threads = threads_for(held, most, most)
    sharing = min(SHARING, held / VECTOR) if rows * threads > LET_BE else 0
    while threads < sharing and 2 * rows * threads <= RESIDENT:
        threads *= 2
    return config_of(threads, columns, access, rows)
