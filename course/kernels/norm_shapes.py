"""Sizes of the LayerNorm kernels by the length of the rows: what is tuned for a GPU.

Forward by measurement on an H200, backward by registers and resident threads alone.
"""

import itertools

from course.kernels.norm_long import SUMS
from course.kernels.norm_rows import Shape, power_above
from course.kernels.norm_split import EXTRA, Split

#: Threads of a row from which a kernel is chosen, so that few are compiled.
ROW_THREADS = (32, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024)
#: Numbers a thread: of aligned rows the fewest that reach the row's end; of others, whose accesses
#: are of one number, what leaves the fewest threads idle.
ELEMENTS = {True: (8, 16, 24, 32), False: (12, 16)}
#: More threads of a row whose accesses are of one number: 352 x 12 hold one of 4,099.
UNALIGNED_THREADS = (*ROW_THREADS, 352)
FEW_THREADS = 512  # of a row, if they hold it: several blocks a multiprocessor
FEW_REGISTERS = 32  # with 8 numbers a thread: all 2,048 threads fit a multiprocessor
UNALIGNED_REGISTERS = 64  # room for an address each
SHORT_THREADS = 128  # of a block with several rows
#: Numbers a thread of one of several rows: the fewest that let a warp, or a part of it, hold it.
SHORT_ELEMENTS = (8, 12, 16, 24, 32)
SHORT = 384  # columns up to which "auto" puts several rows into a block
BACKWARD_SHORT = 256  # the same backward, whose sums of two more rows take registers, too
BACKWARD_THREADS = 512  # of a row, at most
BACKWARD_ELEMENTS = {True: (8, 16), False: (8,)}
BLOCKS = 4  # for each multiprocessor, of kernels that walk over the rows
SPLIT_THREADS = 1024  # of a row in registers and shared memory, at most
#: Numbers a thread in registers: the fewest that leave L1 its part. On an H200 12 instead of 16, of
#: odd rows: 12,001 columns 3,341 -> 3,473 GB/s, 40,001 3,087 -> 3,191.
SPLIT_ELEMENTS = (12, 16)
SPLIT_REGISTERS = 64  # of a thread: 1,024 of them fit a multiprocessor, in how many blocks ever
#: What blocks leave to L1 of the memory that can be shared, if they can: what is fetched to
#: registers is in L1 on its way. An H200 gives L1 28 KB beside 228, 60 beside 196, 92 beside 164.
#: The same kernels were 5 to 11% slower when all 228 were set apart that they did not need. Two or
#: four blocks share a multiprocessor only if they leave it: two for rows of 32,768 numbers, 3,620
#: -> 3,840 GB/s, but of 33,000 3,400 -> 3,200.
SPLIT_FREE = 1 / 7
RESERVED = 1024  # bytes of shared memory that a block takes beside its own
#: The longest rows in registers alone, aligned or not, where shared memory can have a part of them.
ALONE = {True: 16_384, False: 8192}
#: Rows that begin anywhere, from here on: all but at most 66 numbers are accessed four at a time.
#: The block must have three warps for those.
SHIFTED = 4096
#: The longest aligned rows in registers that L2 is asked to keep longer than what is written. On an
#: H200, 2^26 numbers: 4,096 columns 4,055 -> 4,128 GB/s, 12,288 4,017 -> 4,047, but 16,384
#: 3,961 -> 3,875, where fewer blocks share a multiprocessor.
IN_L2 = 12_288
LONG = Shape(512, 1, 16)  # for rows that no block's registers hold


def row_shape(columns: int, aligned: bool = True, kind: str = "float32") -> Shape:
    """The shape of a block that has a row of this length in registers, or a few if a warp does.

    Raises
    ------
    ValueError
        When the row is too long.
    """
    sizes = [
        (elements, threads)
        for elements in ELEMENTS[aligned]
        for threads in (ROW_THREADS if aligned else UNALIGNED_THREADS)
        if threads * elements >= columns
    ]
    if not sizes:
        raise ValueError(
            f"a row of {columns:,} numbers is too long for a block's registers, which hold "
            f"{ROW_THREADS[-1] * ELEMENTS[aligned][-1]:,}: choose the method 'long' or 'auto'"
        )
    if aligned and kind == "float16":  # half the bytes an access: as many of them as there can be
        elements, threads = min(sizes, key=lambda size: (size[0] * size[1], -size[0]))
        return Shape(threads, SHORT_THREADS // threads if threads == 32 else 1, elements)
    if aligned:
        few = [(elements, threads) for elements, threads in sizes if threads <= FEW_THREADS]
        elements, threads = (few or sizes)[0]
        return Shape(threads, 1, elements, FEW_REGISTERS if elements == ELEMENTS[True][0] else 255)
    elements, threads = min(sizes, key=lambda size: (size[0] * size[1], -size[0]))
    return Shape(threads, 1, elements, UNALIGNED_REGISTERS)


def short_shape(columns: int) -> Shape:
    """The shape of a block that has several rows of this length in registers.

    Raises
    ------
    ValueError
        When the rows are too long.
    """
    for elements in SHORT_ELEMENTS:
        threads = power_above(-(-columns // elements))
        if threads <= 32:
            return Shape(threads, SHORT_THREADS // threads, elements)
    raise ValueError(
        f"rows of {columns:,} numbers are too long for a warp's registers, which hold "
        f"{32 * SHORT_ELEMENTS[-1]:,}: choose the method 'registers', 'long' or 'auto'"
    )


def split_for(columns: int, shared: int, shifted: bool = False) -> Split:
    """How a row of this length lies in registers and shared memory.

    Parameters
    ----------
    shared : int
        Bytes of shared memory that a block can have.
    shifted : bool
        Of `Form`.

    Raises
    ------
    ValueError
        When the row is too long.
    """
    for blocks, elements in itertools.product((4, 2, 1), SPLIT_ELEMENTS):
        threads = min(SPLIT_THREADS // blocks, max(32, power_above(columns // 32)))
        split = Split(Shape(threads, 1, elements, SPLIT_REGISTERS))
        size = SUMS + split.dynamic_shared(columns, shifted)
        if blocks * (size + RESERVED) <= (1 - SPLIT_FREE) * (shared + RESERVED):
            return split
    if size > shared:
        most = columns - (size - shared) // 4
        raise ValueError(
            f"a row of {columns:,} numbers is too long for a block's registers and shared memory, "
            f"which hold {most:,} on this GPU: choose the method 'long' or 'auto'"
        )
    return split


def longest_split(shared: int) -> int:
    """The longest row of float32 that surely fits registers and so many bytes of shared memory."""
    return SPLIT_THREADS * SPLIT_ELEMENTS[-1] + (shared - SUMS) // 4 - EXTRA


def backward_shape(columns: int, aligned: bool = True) -> Shape:
    """The shape of a block that has rows of this length of dy and x, and its sums, in registers.

    Raises
    ------
    ValueError
        When the rows are too long.
    """
    if columns <= BACKWARD_SHORT:
        return short_shape(columns)
    for elements in BACKWARD_ELEMENTS[aligned]:
        for threads in ROW_THREADS:
            if threads <= BACKWARD_THREADS and threads * elements >= columns:
                return Shape(threads, 1, elements)
    raise ValueError(
        f"two rows of {columns:,} numbers are too long for a block's registers, which hold "
        f"{BACKWARD_THREADS * BACKWARD_ELEMENTS[aligned][-1]:,} of each: choose the method "
        "'two kernels' or 'auto'"
    )
