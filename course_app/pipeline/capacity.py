"""The cores and the memory that this process may use, and what images need of them.

Memory does not grow with the number of images: each process works on one image at a time. With a
GPU, stacks of images lie in memory that the processes share (`course_app.pipeline.shared_buffers`),
as many as `buffer_count` allows: at most `MOST_SHARED` bytes and an eighth of the machine's memory.
"""

import os
import time
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np

from course.images import images
from course_app.pipeline import limits, threads

LARGEST_BATCH = 128
BATCH_BYTES = 128 << 20  # of the images, factors and reconstructions of a stack
#: Bytes of an SVD for each pixel, and for each pixel of a square of the smaller side: the image, u,
#: vt and workspace in float64, then float32. Measured as a process's peak: 71 a pixel of 2500x2500.
SVD_BYTES, SQUARE_BYTES = 36, 36
PROCESS_BYTES = 64 << 20  # of a process besides SVDs, with the image's file; measured: 45 to 60 MiB
MOST_SHARED = 2 << 30  # bytes of stacks that wait for the GPU, or to be saved
#: CPU seconds, about, to decode, factorise, rebuild, judge and save an image of 256x256 for two
#: values of k. Then the seconds of work that are worth starting several processes, each further
#: process, a GPU (seconds with all cores at work), each further GPU.
AN_IMAGE, WORTH_PROCESSES, WORTH_A_PROCESS, WORTH_A_GPU, WORTH_ONE_MORE = 0.015, 1, 0.25, 4, 100
#: Most processes that feed a GPU, and cores for each: 6,000 images on an H200 with 16 cores took
#: 5.5 s with one process, 4.6 with two, 3.9 with three.
MOST_FEEDERS, CORES_A_FEEDER = 3, 4
LONG = 30.0  # seconds: the user is told of SVDs that take longer
NEVER_LONG = 2048  # rows and columns up to which no SVD takes that long
TRIAL = 512  # rows and columns of the image that is timed


def cores() -> int:
    """Cores that this process may use: those it may run on, and no more than its share of time."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    count = len(allowed(0)) if allowed else os.cpu_count() or 1
    return max(1, round(min([count, *limits.of_cores()])))


def memory() -> int:
    """Bytes of memory, the machine's, its container's or the job's; where nobody says, 8 GiB."""
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        there = 8 << 30
    return min([there, *limits.of_memory()])


# --- how much at once -----------------------------------------------------------------------------


def batch_for(rows: int, columns: int, ranks: Sequence[int]) -> int:
    """How many images a stack has: 128, or fewer where they are large."""
    factors = (max(ranks) + 4) * (rows + columns + 1)
    an_image = 4 * (rows * columns * (1 + len(ranks)) + factors)
    return max(1, min(LARGEST_BATCH, BATCH_BYTES // an_image))


def buffer_count(buffer_bytes: int, needed: int) -> int:
    """How many stacks may lie in memory that processes share: at least 2, at most those needed."""
    most = min(MOST_SHARED, memory() // 8)
    return max(2, min(needed, most // buffer_bytes))


def feeders_for(gpus: int) -> int:
    """How many processes feed each GPU: one for every four cores of its share, up to 3."""
    return max(1, min(MOST_FEEDERS, cores() // (CORES_A_FEEDER * gpus)))


def gpus_for(asked: int, seconds: float) -> int:
    """How many GPUs, of those asked for, are worth their start for `seconds` of CPU work."""
    return min(asked, 1 + int(seconds / WORTH_ONE_MORE))


def cpu_seconds(rows: int, columns: int, count: int) -> float:
    """About how many CPU seconds `count` images take; the SVD's time grows as the side's cube."""
    pixels = rows * columns
    return AN_IMAGE * count * max(pixels / 256**2, pixels * min(rows, columns) / 256**3)


def svd_bytes(rows: int, columns: int) -> int:
    """Bytes of memory, about, that the SVD of an image takes."""
    return SVD_BYTES * rows * columns + SQUARE_BYTES * min(rows, columns) ** 2


def processes_for(asked: int | None, rows: int, columns: int, svd: str = "cpu") -> int:
    """How many processes work on images of a size: as asked, or one a core.

    SVDs of large images take much memory: there are only so many processes that their SVDs need at
    most half of it. The other half is for the rest of each process.
    """
    count = min(asked or cores(), memory() // 2 // PROCESS_BYTES)
    if svd == "cpu":
        count = min(count, memory() // 2 // svd_bytes(rows, columns))
    return max(1, count)


# --- how long -------------------------------------------------------------------------------------


def svd_seconds(rows: int, columns: int) -> float:
    """How long an SVD takes here, about, by timing a small one; the work grows as the cube.

    The work of a thin SVD is proportional to rows * columns * min(rows, columns). Small ones reach
    somewhat fewer operations a second, so that this is a little too long rather than too short.
    """
    trial = np.random.default_rng(0).random((TRIAL, TRIAL), dtype=np.float32)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        images.leading_svd(trial, TRIAL)
        seconds.append(time.perf_counter() - start)
    return min(seconds) * rows * columns * min(rows, columns) / TRIAL**3


def long_svds(rows: int, columns: int, count: int, at_once: int) -> str | None:
    """A sentence that warns of SVDs that take long, of `count` images; None where they do not.

    Parameters
    ----------
    rows, columns : int
    count : int
        Images to do.
    at_once : int
        Processes that factorise.
    """
    if count < 1 or rows * columns * min(rows, columns) <= NEVER_LONG**3:
        return None
    with threads.one_thread() if count > 1 else nullcontext():
        each = svd_seconds(rows, columns)
    if each < LONG:
        return None
    told = f"the SVD of an image of {rows}x{columns} takes about {duration(each)} here"
    if count > 1:
        rounds = -(-count // at_once)
        told += f", that of {count:,} images about {duration(each * rounds)}"
    return f"{told}; a smaller size is quicker (half of it 8 times)"


def duration(seconds: float) -> str:
    """A time in words, such as "5 hours"."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
