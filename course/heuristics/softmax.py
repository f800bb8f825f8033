"""How many threads and blocks share a row of softmax and of its gradient: measured on an H200.

The forward pass is fitted to 203 shapes with all their configs, `begins_early` to 819 launches.
"""

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
    shifted: bool = False  # rows can, but for their ends: from the same columns on in all arrays

    # how kernels in registers access rows: see `course.kernels.softmax.forward.part_of_row`
    access = property(
        lambda self: "aligned" if self.aligned else "shifted" if self.shifted else "single"
    )
    size = property(lambda self: 4 if self.dtype == "float32" else 2)  # bytes of an element


@dataclass(frozen=True)
class SoftmaxConfig:
    """What is tuned."""

    row_threads: int  # that share a row: a power of two, 2 to 1,024 of a block
    rows: int  # of a block; rows x row_threads is a multiple of 32
    accesses: int  # loads of four elements that a thread has in flight: its whole part of the row
    blocks: int = 1  # that share a row, as a cluster; row_threads counts the threads of all

    def unguarded(self, columns: int, access: str) -> int:
        """How many loads of a thread are inside a row of this length, whatever the thread."""
        if access == "single":
            return min(columns // self.row_threads, self.accesses * VECTOR)
        return min(columns // (self.row_threads * VECTOR), self.accesses)


#: Elements of the longest row, by alignment: 1,024 threads have 64 registers each. Accesses to one
#: element need more of them for addresses.
LONGEST = {True: 32_768, False: 16_384}
#: By access, see `course.kernels.softmax.forward.part_of_row`, and bytes of an element. The most
#: accesses of a thread, four elements each, where a row has at most a warp, and where it has more.
#: Then the threads of all rows up to which a row's threads are doubled.
TUNED = {
    ("aligned", 2): (3, 7, 1 << 16), ("aligned", 4): (3, 4, 1 << 16),
    ("shifted", 2): (12, 12, 1 << 17), ("shifted", 4): (7, 7, 1 << 17),
    ("single", 2): (1, 8, 1 << 17), ("single", 4): (1, 4, 11 << 15),
}  # fmt: skip
#: Columns from which "shifted" is faster than "single": in float32's forward pass, and else.
SHIFTED_FLOAT32, SHIFTED = 640, 5000
#: The first of these holds for so many bytes, or rows, at least.
SHIFTED_BYTES, SHIFTED_ROWS = 9 << 20, 2000
#: Accesses of a thread to "shifted" rows of float32, at most, where they need no larger block; that
#: block's threads; its accesses, at most. Small blocks share a multiprocessor, and one reads while
#: another writes.
FEW_SHIFTED, SMALL_BLOCK, SMALL_ACCESSES = 5, 256, 10
#: Accesses of 1,024 threads to "aligned" rows with whose registers two blocks fit a multiprocessor,
#: and of 512 threads. Where only one fits, no row is loaded while another is stored: on an
#: H200, bfloat16 15312x15584 took 376 us by 1,024 threads and Triton's kernel 245 by 512.
TWO_LARGE, TWO_BLOCKS = 3, 12
FEWEST_THREADS, MOST_THREADS = 2, 1024  # that share a row
#: Threads of a block, at least: the second if all rows have over `MANY_THREADS`, since a new block
#: can begin about every nanosecond.
BLOCK_THREADS, LARGE_BLOCK_THREADS, MANY_THREADS = 128, 256, 1 << 17
#: Columns up to which a row has at most a warp, which needs no barrier, however few rows there are.
WARP_COLUMNS = 640
#: Rows of at most `QUEUED_BYTES` in all take fewer threads, of up to `QUEUED_ACCESSES`, so that the
#: registers hold `QUEUED_LAUNCHES`: the next ones wait beside the one that runs. Aligned rows of
#: several warps have at most `QUEUED_THREADS` in all, on an H200.
QUEUED_LAUNCHES, QUEUED_THREADS, QUEUED_BYTES, QUEUED_ACCESSES = 8, 20 << 10, 9 << 18, 12
H200 = 132  # multiprocessors
#: "single" access has this limit, not that of `TUNED`, while threads have more accesses.
SINGLE_LIMIT, FEW_ACCESSES = 9 << 15, 4
#: In float32, a row's threads become twice as many, up to this, if each then has so many accesses.
SINGLE_THREADS, SINGLE_ACCESSES = 512, 1.3
#: With more launches `at_once`, up to `QUEUED_LAUNCHES`, an early one crowds its blocks on few free
#: multiprocessors. So it begins when the launch in front is done, unless launches `at_once` are
#: nearly a whole number, or rows are short.
CROWDED, WHOLE = 2.5, (3, 3.2)


def reach(columns: int, access: str) -> int:
    """Columns that accesses of four must reach to hold a row wherever it begins."""
    return columns + (VECTOR - 1 if access == "shifted" else 0)


def prefers_shifted(rows: int, columns: int, float32_forward: bool) -> bool:
    """Whether "shifted" is faster than "single", where arrays allow both."""
    many = rows >= SHIFTED_ROWS or 4 * rows * columns >= SHIFTED_BYTES
    return columns > (SHIFTED_FLOAT32 if float32_forward and many else SHIFTED)


def threads_for(columns: int, in_warp: int, most: int) -> int:
    """The fewest threads of a row that need at most `in_warp` accesses, or `most` beyond a warp."""
    threads = FEWEST_THREADS
    while threads < WARP and threads * in_warp * VECTOR < columns:
        threads *= 2
    while threads < MOST_THREADS and threads * most * VECTOR < columns:
        threads *= 2
    return threads


def config_of(threads: int, columns: int, access: str, rows: int) -> SoftmaxConfig:
    """The config of so many threads a row."""
    block = LARGE_BLOCK_THREADS if rows * threads > MANY_THREADS else BLOCK_THREADS
    if access != "aligned" and threads > WARP:  # no warp waits for many other rows' warps
        block = BLOCK_THREADS if rows * threads <= 8 * MANY_THREADS else threads
    accesses = ceil_div(reach(columns, access), threads * VECTOR)
    return SoftmaxConfig(threads, max(1, block // threads), accesses)


def at_once(
    threads: int, columns: int, access: str, rows: int, multiprocessors: int, arrays: int = 1
) -> float:
    """Launches whose registers, of all arrays' elements and 12 to 24 more, a GPU holds at once."""
    elements = VECTOR * ceil_div(reach(columns, access), threads * VECTOR)
    more = 12 if threads <= WARP else 16 if access == "aligned" else 20
    if access != "aligned" and elements - columns // threads > 2:
        more += 4
    blocks = min(256 // (8 * ceil_div(arrays * elements + more, 8)), 8)  # of eight warps
    return multiprocessors * blocks * 8 * WARP / (rows * threads)


def beside(threads: int, columns: int, access: str, rows: int, multiprocessors: int = H200) -> bool:
    """Whether the next launches have registers, and wait beside one of so many threads a row."""
    if access == "aligned" and threads > WARP:
        return rows * threads * H200 <= QUEUED_THREADS * multiprocessors
    return at_once(threads, columns, access, rows, multiprocessors) >= QUEUED_LAUNCHES


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
    if access == "shifted" and size == 4 and SMALL_BLOCK * VECTOR * SMALL_ACCESSES >= held:
        threads = min(threads_for(held, in_warp, FEW_SHIFTED), SMALL_BLOCK)
    one_block = access != "aligned" or held > MOST_THREADS * VECTOR * TWO_LARGE
    if threads == MOST_THREADS and one_block and held <= MOST_THREADS // 2 * VECTOR * TWO_BLOCKS:
        threads //= 2
    if threads <= WARP and held <= WARP_COLUMNS:
        return config_of(threads, columns, access, rows)
    fewer = max(threads, 2 * WARP if access == "single" else 0)
    fewest = max(2 * WARP, 2 * held / (VECTOR * QUEUED_ACCESSES))
    while not waiting(fewer) and fewer >= fewest:
        fewer //= 2
    if waiting(fewer) and rows * columns * size <= QUEUED_BYTES:
        config = config_of(fewer, columns, access, rows)
        if rows * fewer <= multiprocessors * BLOCK_THREADS or fewer > 2 * WARP:
            return config
        return replace(config, rows=LARGE_BLOCK_THREADS // fewer)  # one block a multiprocessor
    if not waiting(threads):
        widest = held / VECTOR
        if access == "single" and size == 4:
            widest = min(widest / (2 * SINGLE_ACCESSES), SINGLE_THREADS)
        while MOST_THREADS > threads < widest and 2 * rows * threads <= (
            SINGLE_LIMIT if access == "single" and held > VECTOR * FEW_ACCESSES * threads else limit
        ):
            threads *= 2
    return config_of(threads, columns, access, rows)


def begins_early(
    threads: int, columns: int, access: str, rows: int, multiprocessors: int, arrays: int = 1
) -> bool:
    """Whether a launch should begin once all blocks of the one in front have begun, not ended."""
    launches = at_once(threads, columns, access, rows, multiprocessors, arrays)
    crowded = CROWDED < launches < QUEUED_LAUNCHES and not WHOLE[0] <= launches < WHOLE[1]
    short = access == "aligned" and columns <= WARP * VECTOR * FEW_ACCESSES or threads < WARP
    few = beside(threads, columns, access, rows, multiprocessors) or threads == MOST_THREADS
    return short or few or not crowded


# --- long rows, and few of them -------------------------------------------------------------------

#: Blocks of a cluster and threads of a block: the first that hold the row, since of small blocks a
#: multiprocessor has several, and one reads while another writes.
CLUSTERS, CLUSTER_ACCESSES = ((4, 256), (8, 256), (8, 512), (8, 1024)), 8
MOST_IN_CLUSTER = CLUSTERS[-1][0] * CLUSTERS[-1][1] * CLUSTER_ACCESSES * VECTOR
#: Few rows of more columns are faster by clusters, if each of four blocks a row has a
#: multiprocessor. Rows of 16 bits up to the second length need two for each block.
LONG_COLUMNS, NARROW_COLUMNS = 12_288, 16_384


def cluster_config(columns: int, access: str, *_: int) -> SoftmaxConfig:
    """The config of the smallest cluster that holds rows of so many elements."""
    held = reach(columns, access)
    blocks, threads = next(
        (blocks, threads) for blocks, threads in CLUSTERS
        if blocks * threads * CLUSTER_ACCESSES * VECTOR >= held
    )  # fmt: skip
    return SoftmaxConfig(blocks * threads, 1, ceil_div(held, blocks * threads * VECTOR), blocks)


#: Why the registers of a block, or of a cluster, do not hold a row, in words.
too_long = row_limit(LONGEST.get)
beyond_clusters = row_limit({True: MOST_IN_CLUSTER, False: MOST_IN_CLUSTER - (VECTOR - 1)}.get)


def no_cluster(problem: RowProblem) -> str:
    """Why no cluster can have a row, in words; "" if one can."""
    return beyond_clusters(problem) or hopper_refusal()


def best(problem: RowProblem, clusters: bool) -> str:
    """The step that "auto" takes; `clusters`: whether they can be had."""
    blocks = 8 if problem.size == 2 and problem.columns <= NARROW_COLUMNS else 4
    few = blocks * problem.rows <= multiprocessors() and problem.columns > LONG_COLUMNS
    if clusters and (few or too_long(problem)):
        return "clusters"
    return "online" if too_long(problem) else "registers"


# --- the gradient ---------------------------------------------------------------------------------

#: Accesses of a thread to each array, at most, by bytes of an element. A row's threads are doubled,
#: up to so many, while those of all rows are resident at once.
BACKWARD_ACCESSES, BACKWARD_ROW_THREADS, BACKWARD_RESIDENT = {4: 2, 2: 4}, 256, 3 << 16
BACKWARD_FEW = 3 << 13  # threads of all rows: no more leave multiprocessors to the next launch
#: Elements of the longest row in registers, by alignment: 1,024 threads have 64 registers each.
BACKWARD_LONGEST = {True: 16_384, False: 8192}


def backward_config_for(
    columns: int, access: str = "aligned", size: int = 4, rows: int = 4096, *_: int
) -> SoftmaxConfig:
    """The config of the gradient, for rows of so many elements of `size` bytes."""
    most, held = BACKWARD_ACCESSES[size], reach(columns, access)
    threads = threads_for(held, most, most)
    sharing = min(BACKWARD_ROW_THREADS, held / VECTOR) if rows * threads > BACKWARD_FEW else 0
    while threads < sharing and 2 * rows * threads <= BACKWARD_RESIDENT:
        threads *= 2
    return config_of(threads, columns, access, rows)
