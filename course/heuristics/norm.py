"""How threads and blocks share rows of LayerNorm and its gradients: measured on an H200."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from course.heuristics import device
from course.heuristics.device import ceil_div, round_up

WARP = 32
EIGHT = 8  # elements of 16 bits of an access of 16 bytes
REGISTERS_AND_SHARED = "registers and shared memory"
REGISTERS = 65_536  # of a multiprocessor, from compute capability 5.0 to 12.0


@dataclass(frozen=True)
class Variant:
    """What a kernel is compiled for, beside its config."""

    dtype: str = "float32"  # what the result holds
    aligned: bool = True  # rows, gamma and beta can be accessed four elements at a time
    unguarded: int = 0  # accesses of a thread, the first ones, that need no bounds check
    gamma: bool = True  # whether there is one; without it the argument is not read
    beta: bool = True
    activation: str | None = None  # its name
    # rows begin anywhere, yet all but 66 elements of each are accessed four at a time, from four
    # copies of gamma and beta, one for each alignment: see `course.kernels.norm.long_rows`
    shifted: bool = False
    # L2 is asked to keep x longer than the result: float32, compute capability 8.0. That is 1 to 3%
    # faster on an H200; no counter has shown why
    keep_in_l2: bool = False

    wide = property(lambda self: 4 if self.aligned or self.shifted else 1)  # elements of an access


@dataclass(frozen=True)
class RowConfig:
    """How the threads of a block share rows; what is tuned for a GPU."""

    row_threads: int  # of a row: a power of two below 32, or a multiple of 32
    rows: int = 1  # of a block: rows of less than a warp fill whole warps, longer ones are alone
    elements: int = 8  # that a thread has of a row; a multiple of 4
    most_registers: int = 255  # of a thread; fewer where a block would not fit otherwise
    # gamma and beta are loaded with the row, not after its sums. They take two more registers for
    # each element; where rows are few, the shorter latency is worth it
    ahead: bool = False
    blocks: int = 1  # that share a row, as a cluster

    threads = property(lambda self: self.row_threads * self.rows)  # of a block
    across = property(lambda self: self.row_threads * self.blocks)  # of a row, in all its blocks
    longest = property(lambda self: self.across * self.elements)  # row that fits
    max_registers = property(  # of a thread, so that a block fits a multiprocessor
        lambda self: min(self.most_registers, REGISTERS // self.threads // 8 * 8)
    )

    def parts(self, aligned: bool) -> int:
        """How often a thread accesses a row."""
        return self.elements // (4 if aligned else 1)

    def unguarded(self, columns: int, aligned: bool) -> int:
        """How many of these accesses are inside a row of this length for every thread."""
        wide = 4 if aligned else 1
        return min(columns // (self.across * wide), self.parts(aligned))


class NormProblem(NamedTuple):
    """What decides between the steps."""

    rows: int
    columns: int
    dtype: str = "float32"  # what the result holds
    aligned: bool = True  # rows, gamma and beta can be accessed four elements at a time
    whole: bool = True  # rows have no gaps; the first one can be accessed four elements at a time
    # why eight elements of 16 bits cannot be accessed at once, in words; "" if they can
    eights: str = "is for elements of 16 bits"
    gamma: bool = True  # whether there is one
    beta: bool = True
    activation: str | None = None  # its name
    limits: tuple[int, bool] | None = None  # `shared_limit` of a GPU that is not the current one

    # bytes of shared memory that a block can have, whether it can be copied to meanwhile
    shared_limit = property(lambda self: self.limits or device.shared_memory_limit())
    # bytes of an element
    stored = property(lambda self: 4 if self.dtype == "float32" else 2)

    @property
    def variant(self) -> Variant:
        """What a kernel that applies the activation is compiled for."""
        keep = self.dtype == "float32" and self.shared_limit[1]
        return Variant(
            self.dtype, self.aligned, 0, self.gamma, self.beta, self.activation, keep_in_l2=keep
        )


# --- rows in registers ----------------------------------------------------------------------------


def power_above(number: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << max(number - 1, 0).bit_length()


#: The numbers of threads that a row may have: few of them, so that few kernels are compiled.
ROW_THREADS = (32, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024)
#: Elements of a thread, by alignment. Aligned rows take the fewest that hold the row. Others, which
#: are accessed one element at a time, take those that leave the fewest threads idle.
ELEMENTS = {True: (8, 16, 24, 32), False: (12, 16)}
#: Unaligned rows may have 352 threads, too: with 12 elements each they hold 4,099.
UNALIGNED_THREADS = (*ROW_THREADS, 352)
FEW_THREADS = 512  # of a row that fits them: then several blocks share a multiprocessor
FEW_REGISTERS = 32  # of a thread with 8 elements: then 2,048 threads fit a multiprocessor
UNALIGNED_REGISTERS = 64  # of a thread: each element has an address of its own
SHORT_THREADS = 128  # of a block with several rows
#: Elements of a thread in such a block: the fewest with which a warp, or a part of it, holds a row.
SHORT_ELEMENTS = (8, 12, 16, 24, 32)
NARROW_ELEMENTS = 16  # of a thread, at most, if possible: aligned rows of 16 bits
SHORT_COLUMNS = 384  # up to which "auto" has several rows a block
#: The longest aligned rows in registers that L2 is asked to keep longer than results. On an H200,
#: 2^26 elements: 4,096 columns 4,055 -> 4,128 GB/s, 12,288 4,017 -> 4,047, but 16,384
#: 3,961 -> 3,875, where fewer blocks share a multiprocessor.
IN_L2 = 12_288
LONG = RowConfig(512, 1, 16)  # for rows that no block's registers hold


def row_config(columns: int, aligned: bool = True, kind: str = "float32") -> RowConfig:
    """The config of a block that holds a row in registers, or a few if a warp holds one.

    New blocks begin about every nanosecond. So on an H200 64,887 rows of 427 took 81 us by blocks
    of a warp, and 47 by blocks of four.
    """
    sizes = [
        (elements, threads)
        for elements in ELEMENTS[aligned]
        for threads in (ROW_THREADS if aligned else UNALIGNED_THREADS)
        if threads * elements >= columns
    ]
    if aligned:
        sizes = [size for size in sizes if size[1] <= FEW_THREADS] or sizes
    if aligned and kind == "float32":
        elements, threads = sizes[0]
        registers = FEW_REGISTERS if elements == ELEMENTS[True][0] else 255
        return RowConfig(threads, 1, elements, registers)
    elements, threads = min(sizes, key=lambda size: (size[0] * size[1], -size[0]))
    # accesses of 16-bit elements have half the bytes, so a thread has many in flight
    rows = SHORT_THREADS // threads if threads == WARP else 1
    return RowConfig(threads, rows, elements, 255 if aligned else UNALIGNED_REGISTERS)


#: Elements of all rows, up to which all threads are resident at once: the latency of one decides.
FEW = 1 << 20
LONG_FEW = 2560  # columns from which a thread of such rows has 16 elements, if no more are idle
#: Elements of a thread, where a warp holds a row of `crowded_config`; the fewest if there are more
#: rows than so many for each multiprocessor.
CROWDED_SIZES, MANY_ROWS_SIZE, CROWDED_ROWS = (12, 16, 20, 28), 20, 7
FEW_SHORT_COLUMNS = 256  # then these are the columns up to which "auto" has several rows a block
#: 16-bit elements of all rows up to which a thread has 16 of them, about half as many as else.
FEW_16_BIT = 6 << 20


def few_config(columns: int, sizes: tuple[int, ...] = (4, 8, 12, 16)) -> RowConfig | None:
    """The config by the first of `sizes`, elements of a thread, that will do; None if none does."""
    for elements in sizes:
        threads = ceil_div(columns, elements)
        if elements == 4 and columns > WARP * elements or threads > ROW_THREADS[-1]:
            continue
        threads = power_above(threads) if threads <= WARP else round_up(threads, WARP)
        return RowConfig(threads, max(1, 2 * WARP // threads), elements, ahead=True)
    return None


def crowded_config(usual: RowConfig, rows: int, columns: int, activation: str | None) -> RowConfig:
    """In place of the `usual` config of `few_config`: more aligned rows than multiprocessors.

    Fewer threads, of more elements, leave registers to the next launches. On an H200: float16
    900x480 3.3 -> 2.6 us, bfloat16 720x288 3.1 -> 2.1. An activation takes more threads.
    """
    if not activation and columns <= CROWDED_SIZES[-1] * WARP:  # a warp holds a row
        most = CROWDED_ROWS * device.multiprocessors()
        least = max(columns / WARP, MANY_ROWS_SIZE if rows > most else 0)
        return few_config(columns, tuple(n for n in CROWDED_SIZES if n >= least))
    other = few_config(columns, (16 if activation else 12,))
    if activation:
        fits = other.longest == usual.longest and other.row_threads == 2 * WARP
    else:
        fits = other.longest <= 1.1 * usual.longest
    return other if fits else usual


def block_config(rows: int, columns: int, variant: Variant) -> RowConfig:
    """The config of step 6: a block has a row in registers."""
    size, aligned, narrow = rows * columns, variant.aligned, variant.dtype != "float32"
    few, sixteen = few_config(columns) if size <= FEW else None, few_config(columns, (16,))
    if few is not None and few.rows == 1:
        if aligned and columns > LONG_FEW and sixteen and sixteen.longest <= few.longest:
            return sixteen
        if aligned and rows > device.multiprocessors():
            return crowded_config(few, rows, columns, variant.activation)
        return few
    if aligned and narrow and size <= FEW_16_BIT and sixteen:
        return sixteen
    ahead = narrow and not aligned and size <= FEW_16_BIT
    return replace(row_config(columns, aligned, variant.dtype), ahead=ahead)


def several_config(rows: int, columns: int, variant: Variant) -> RowConfig:
    """The config of step 7: a block has several rows in registers."""
    if rows * columns <= FEW and columns <= FEW_SHORT_COLUMNS:
        return few_config(columns)
    return short_config(columns, variant.aligned and variant.dtype != "float32")


def short_config(columns: int, narrow: bool = False) -> RowConfig:
    """The config of a block that has several rows of this length in registers.

    narrow: elements have 16 bits, and a thread has as many as leave the fewest threads idle.
    """
    found = []
    for elements in SHORT_ELEMENTS:
        threads = power_above(ceil_div(columns, elements))
        if threads <= WARP:
            found.append(RowConfig(threads, SHORT_THREADS // threads, elements))
    if narrow:
        few = [config for config in found if config.elements <= NARROW_ELEMENTS] or found
        return min(few, key=lambda config: (config.longest, -config.elements))
    return found[0]


def longest_in_registers(aligned: bool) -> int:
    """Elements of the longest row that a block's registers hold."""
    return ROW_THREADS[-1] * ELEMENTS[aligned][-1]


# --- rows in registers and shared memory ----------------------------------------------------------

STATIC = 4 * 5 * WARP  # bytes of static shared memory: a warp's count, two means, two squares
#: The body of a row that begins anywhere starts at a multiple of so many elements, 256 bytes. GB/s
#: with 65,535 columns on an H200: 4 elements 3,046, 8 elements 3,085, 32 (a line) 3,117. In another
#: run: 32 elements 3,065, 64 elements 3,155, 128 elements 3,160.
BODY_ALIGNMENT = 64
EDGE = BODY_ALIGNMENT + 2  # elements beside a body, at most: 63 before it, 3 behind it
#: Elements of shared memory beyond those of the row: gamma and beta of the elements beside a body.
EXTRA = 3 * EDGE - (BODY_ALIGNMENT - 1)
SPLIT_THREADS = 1024  # of a row in registers and shared memory, at most
#: Elements of a thread in registers: the fewest with which L1 keeps its share. 12 instead of 16, on
#: an H200, in rows that begin anywhere: 12,001 columns 3,341 -> 3,473 GB/s, 40,001 3,087 -> 3,191.
SPLIT_ELEMENTS = (12, 16)
SPLIT_REGISTERS = 64  # of a thread: then 1,024 threads fit a multiprocessor, in one block or more
#: The share of shared memory that blocks leave to L1, if they can: loads to registers pass through
#: L1. An H200 has 28 KB of L1 beside 228 of shared memory, 60 beside 196, 92 beside 164. The same
#: kernels were 5 to 11% slower with all 228 KB, which they did not need. Two or four blocks share a
#: multiprocessor only if they leave that share. Two were faster with rows of 32,768 elements, 3,620
#: -> 3,840 GB/s, and slower with rows of 33,000, 3,400 -> 3,200.
L1_SHARE = 1 / 7
RESERVED = 1024  # bytes of shared memory that CUDA keeps for itself in each block


def dynamic_shared(config: RowConfig, columns: int, shifted: bool = False) -> int:
    """Bytes of dynamic shared memory for rows of a length."""
    rest = columns - config.longest
    return 4 * (max(rest, BODY_ALIGNMENT - 1) + EXTRA if shifted else max(rest, 0))


def split_config(columns: int, shared: int, shifted: bool = False) -> RowConfig:
    """The config of a block that has a row of this length in registers and shared memory.

    The first ``config.longest`` elements are in registers. `shared`: bytes of shared memory that a
    block can have; `shifted`: of `Variant`.
    """
    for blocks, elements in itertools.product((4, 2, 1), SPLIT_ELEMENTS):
        threads = min(SPLIT_THREADS // blocks, max(32, power_above(columns // 32)))
        config = RowConfig(threads, 1, elements, SPLIT_REGISTERS)
        size = STATIC + dynamic_shared(config, columns, shifted)
        if blocks * (size + RESERVED) <= (1 - L1_SHARE) * (shared + RESERVED):
            break
    return config


def longest_split(shared: int, shifted: bool = True) -> int:
    """The longest row of float32 that fits registers and so many bytes of shared memory."""
    return SPLIT_THREADS * SPLIT_ELEMENTS[-1] + (shared - STATIC) // 4 - (EXTRA if shifted else 0)


def split_variant(config: RowConfig, variant: Variant, columns: int) -> Variant:
    """The variant for rows of a length, with the accesses that need no bounds check."""
    body = (columns - (BODY_ALIGNMENT - 1)) // 4 * 4 if variant.shifted else columns
    return replace(variant, unguarded=config.unguarded(body, True))


# --- rows that the blocks of a cluster share ------------------------------------------------------

CLUSTER_BLOCKS = (2, 4, 8)  # of a row
LONGEST_IN_CLUSTER = {True: 1 << 18, False: 1 << 17}  # elements of a row, by alignment
#: Threads of a block and elements of a thread, at most: whether aligned, or of few rows. Blocks of
#: unaligned rows are small, so that a multiprocessor has several. On an H200, float16 2000x20003:
#: 168 us by two blocks of 1,024 threads, 100 by two of 384; 1x65160: 7.4 by two, 4.9 by eight.
CLUSTER_SIZES, FEW_ROWS_SIZE = {True: (1024, 32), False: (512, 32)}, (1024, 12)


def one_wave(rows: int, blocks: int) -> bool:
    """Whether each of so many blocks a row has a multiprocessor of its own."""
    return blocks * rows <= device.multiprocessors()


def cluster_config(rows: int, columns: int, aligned: bool) -> RowConfig:
    """The config for rows of a length: as few blocks a row as hold it, or eight for few rows."""
    threads, elements = CLUSTER_SIZES[aligned]
    most, few = CLUSTER_BLOCKS[-1], one_wave(rows, CLUSTER_BLOCKS[-1])
    blocks = next((n for n in CLUSTER_BLOCKS if n * threads * elements >= columns), most)
    if few:
        blocks, (threads, elements) = most, FEW_ROWS_SIZE
    if few or not aligned:
        threads = min(threads, round_up(ceil_div(columns, blocks * elements), 64))
    elements = round_up(ceil_div(columns, blocks * threads), 4)
    return RowConfig(threads, 1, elements, 255 if aligned else UNALIGNED_REGISTERS, blocks=blocks)


beyond_clusters = device.row_limit(LONGEST_IN_CLUSTER.get)


def no_cluster(problem: NormProblem) -> str:
    """Why no cluster can have a row, in words; "" if one can."""
    if too_long := beyond_clusters(problem):
        return too_long
    if not problem.shared_limit[1]:  # that of a GPU before compute capability 8.0
        return "needs compute capability 9.0"
    return device.hopper_refusal()


# --- gradients ------------------------------------------------------------------------------------

BACKWARD_SHORT = 256  # columns up to which a block has several rows; their sums take registers, too
BACKWARD_THREADS = 512  # of a row, at most
BACKWARD_ELEMENTS = {True: (8, 16), False: (8,)}
BACKWARD_BLOCKS = 4  # for each multiprocessor: they are persistent


class BackwardProblem(NamedTuple):
    """What decides between the steps of the gradients."""

    rows: int
    columns: int
    variant: Variant  # what a kernel in registers is compiled for, but for its unguarded parts
    parameters: bool  # whether dgamma and dbeta are wanted

    aligned = property(lambda self: self.variant.aligned)


def backward_config(columns: int, aligned: bool = True) -> RowConfig:
    """The config of a block that has a row of dy, the same of x, and its sums in registers."""
    if columns <= BACKWARD_SHORT:
        return short_config(columns)
    return next(
        RowConfig(threads, 1, elements)
        for elements in BACKWARD_ELEMENTS[aligned]
        for threads in ROW_THREADS
        if threads <= BACKWARD_THREADS and threads * elements >= columns
    )


def longest_backward(aligned: bool) -> int:
    """Elements of the longest rows, one of dy and one of x, that a block's registers hold."""
    return BACKWARD_THREADS * BACKWARD_ELEMENTS[aligned][-1]


# --- which step -----------------------------------------------------------------------------------

#: The longest rows in registers alone, by alignment, where shared memory could have a part of them.
REGISTERS_ALONE = {True: 16_384, False: 8192}
#: Columns from which rows that begin anywhere have a body, accessed four elements at a time. The 66
#: elements beside it need a block of three warps.
SHIFTED = 4096
#: Columns from which few rows are faster by clusters of eight blocks a row.
FEW_ROWS_COLUMNS = 12_288
#: "long" reads a row twice. That is faster than a cluster, whose blocks wait for each other: where
#: so many bytes of all rows stay in L2, or rows are longer and a block fills a multiprocessor.
REREAD_BYTES, REREAD_COLUMNS = 32 << 20, 65_536


def by_clusters(problem: NormProblem) -> bool:
    """Whether clusters are faster than "long" for rows that no block holds."""
    large = problem.rows * problem.columns * problem.stored > REREAD_BYTES
    return (
        not problem.aligned or problem.rows < 2 * device.multiprocessors()
        or (large and problem.columns <= REREAD_COLUMNS)
    )  # fmt: skip


def both_refusal(problem: NormProblem) -> str:
    """Why a row's part cannot be copied to shared memory, in words; "" if it can."""
    columns, most = problem.columns, longest_split(problem.shared_limit[0], not problem.aligned)
    wrong = (
        "the GPU's compute capability is below 8.0" if not problem.shared_limit[1]
        else f"the elements are {problem.dtype}, not float32" if problem.dtype != "float32"
        else "rows have gaps between them, or begin at no multiple of 16 bytes" if not problem.whole
        else f"{columns:,} is no multiple of 4 and below {SHIFTED:,}"
        if not problem.aligned and columns < SHIFTED
        else f"a block's registers and shared memory hold {most:,}" if columns > most else ""
    )  # fmt: skip
    if not wrong:
        return ""
    return (
        f"cannot copy these rows of {columns:,} elements to shared memory four at a time, since "
        f"{wrong}"
    )


def best(problem: NormProblem, has: Callable[[str], bool]) -> str:
    """The step that "auto" takes, of those that the ladder `has` for the problem."""
    columns, few = problem.columns, problem.rows * problem.columns <= FEW
    # more than a quarter of the lanes of "half" would be idle
    idle = columns <= SHORT_COLUMNS and 4 * columns < 3 * round_up(columns, EIGHT * WARP)
    if not (few or idle or problem.activation) and has("half"):
        return "half"
    if columns <= (FEW_SHORT_COLUMNS if few else SHORT_COLUMNS):
        return "several rows"
    longest = longest_in_registers(problem.aligned)
    clusters = has("clusters") and by_clusters(problem)
    if clusters and columns > FEW_ROWS_COLUMNS and one_wave(problem.rows, CLUSTER_BLOCKS[-1]):
        return "clusters"
    both = has(REGISTERS_AND_SHARED) and columns <= longest_split(problem.shared_limit[0])
    if few and not problem.aligned and columns <= longest:
        both = False  # for unaligned rows this step needs a launch more, `shifted_factors`
    if both:
        longest = min(longest, REGISTERS_ALONE[problem.aligned])
    if columns <= longest:
        return "registers"
    clusters = clusters and not (both and not one_wave(problem.rows, CLUSTER_BLOCKS[0]))
    return "clusters" if clusters else REGISTERS_AND_SHARED if both else "long"
