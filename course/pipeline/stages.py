"""The pipeline's four stages, decode, factorise, rebuild, write, each on threads of its own.

    files ── decode ── ▯▯ ── factorise ── ▯▯▯▯ ── rebuild, in stacks ── ▯▯▯▯ ── write ── done

Between them are queues of a few places. A stage that is faster than the next finds its queue full
and waits: however many files there are, only a few images are in memory. Threads suffice, although
one at a time executes Python: the work is done by Pillow, LAPACK, zlib and the GPU's driver, which
let other threads run meanwhile.
"""

import errno
import io
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from course import files
from course.images import images, quality
from course.images.reading import NOT_FINITE, ImageError, UnreadableImage
from course.pipeline import threads
from course.pipeline.channels import Channel, Stopped
from course.pipeline.engines import GpuFactors, Rebuild, kept_values
from course.pipeline.journal import GRID_IMAGES, Done, cells_name

GRID_PIXELS = 600  # longer sides are scaled down for the grid, which prints them at half of that
LARGEST_BATCH = 32
BATCH_BYTES = 64 << 20  # of the images, factors and reconstructions of a stack
#: CPU time of the stages in proportion, for images of 256x256; the write's is for each k.
DECODE_COST, FACTORISE_COST, WRITE_COST = 1, 16, 2
PATIENCE = 0.05  # seconds that a stack waits to become longer
#: Bytes a pixel of the image, and of the smaller square in it: in float64 the image, u, vt and the
#: work space, then float32. Measured as a process's peak: 71 for 2500x2500, which takes both.
SVD_BYTES, SQUARE_BYTES = 36, 36
LONG = 30.0  # seconds: an SVD of which the user should know
NEVER_LONG = 2048  # no SVD of so many rows and columns is
TRIAL = 512  # rows and columns of the image that is timed
OUR_TROUBLE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # no fault of the image


class Factors(NamedTuple):
    """The part of a thin SVD that is needed: u (rows, r), s (r,), vt (r, columns), float32."""

    u: np.ndarray
    s: np.ndarray
    vt: np.ndarray


@dataclass(frozen=True)
class Task:
    """An image to rebuild: its place in the list, its file, the files that it becomes."""

    image: int
    file: Path
    names: list[str]


@dataclass(frozen=True)
class Workers:
    """How many threads each stage has; `rebuild` always has one, which feeds the GPU."""

    decode: int
    factorise: int
    write: int

    @classmethod
    def share(
        cls, total: int, rows: int = 256, columns: int = 256, ranks: int = 1, svd: str = "cpu"
    ) -> "Workers":
        """Share so many threads among the stages as their work is: of 16 threads 13 factorise.

        SVDs of large images take much memory; there are never so many at once that they would
        need more than half of the machine's.
        """
        costs = DECODE_COST, FACTORISE_COST if svd == "cpu" else 0, WRITE_COST * ranks
        a_thread = sum(costs) / total
        decode, factorise, write = (max(1, round(cost / a_thread)) for cost in costs)
        fit = (memory() // 2) // svd_bytes(rows, columns)
        return cls(decode, max(1, min(factorise, fit)), write)


@dataclass
class Shown:
    """The first images that are good: those that the grid may show.

    Images finish in any order, so a few more than it will show are taken for it.
    """

    first: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def may_show(self, image: int) -> bool:
        """Whether fewer than 8 images before this one are known to be good."""
        with self.lock:
            return sum(other < image for other in self.first) < GRID_IMAGES

    def add(self, image: int) -> None:
        """This image is good."""
        with self.lock:
            self.first = sorted({*self.first, image})[:GRID_IMAGES]


@dataclass(frozen=True)
class Job:
    """What is to be done with each image.

    Attributes
    ----------
    size : (int, int)
    fit : str
    ranks : list of int
    grid_ranks : list of int
        Those that the grid shows.
    rebuild : Rebuild
    folder : Path
        Where the results go.
    lenient : bool
        Set an image with NaN aside as any other bad one; else it ends the run.
    shown : Shown
    svd : {"cpu", "gpu"}
        Who factorises.
    """

    size: tuple[int, int]
    fit: str
    ranks: list[int]
    grid_ranks: list[int]
    rebuild: Rebuild
    folder: Path
    lenient: bool = False
    shown: Shown = field(default_factory=Shown)
    svd: str = "cpu"


# --- the work of a stage, for one image or a stack ------------------------------------------------


def decode(file: Path, size: tuple[int, int], fit: str) -> np.ndarray:
    """Read a file as a grey image, (rows, columns), float32; raises UnreadableImage."""
    return images.load_image(file, size, fit=fit)


def factorise(image: np.ndarray, most: int) -> Factors:
    """The `most` largest singular values and vectors of an image, and up to 3 more."""
    r = kept_values(most, image)
    u, s, vt = images.svd(image)
    return Factors(np.ascontiguousarray(u[:, :r]), s[:r].copy(), vt[:r].copy())


def rebuild(
    engine: Rebuild, stack: Sequence[Factors], ranks: Sequence[int]
) -> list[list[np.ndarray]]:
    """Rebuild a stack in one go; for each image its reconstruction for each k."""
    by_rank = engine(*(np.stack(parts) for parts in zip(*stack)), ranks)
    return [list(approximations) for approximations in zip(*by_rank)]


def write(
    image: np.ndarray, approximations: Sequence[np.ndarray], paths: Sequence[Path]
) -> tuple[list[tuple[float, float, float]], list[int]]:
    """Measure the reconstructions and write each as a PNG: the measures, the files' bytes."""
    measures, sizes = [], []
    for approximation, path in zip(approximations, paths, strict=True):
        *its, pixels = quality.judged(image, approximation)
        measures.append(tuple(its))
        content = quality.png(pixels)
        files.write_whole(path, content)
        sizes.append(len(content))
    return measures, sizes


# --- pictures for the grid ------------------------------------------------------------------------


def cells_file(folder: Path, image: int) -> Path:
    """Where the grid's pictures of an image are kept until it is drawn."""
    return folder / cells_name(image)


def keep_cells(folder: Path, image: int, pictures: Iterable[np.ndarray]) -> None:
    """Keep pictures for the grid, scaled down to its size."""
    content = io.BytesIO()
    np.savez(content, *map(_thumbnail, pictures))
    files.write_whole(cells_file(folder, image), content.getvalue())


def kept_cells(folder: Path, image: int) -> list[np.ndarray]:
    """The pictures that were kept of an image."""
    with np.load(cells_file(folder, image)) as kept:
        return [kept[name] for name in kept.files]


def _thumbnail(image: np.ndarray) -> np.ndarray:
    if max(image.shape) <= GRID_PIXELS:
        return image
    scale = GRID_PIXELS / max(image.shape)
    rows, columns = (max(1, round(side * scale)) for side in image.shape)
    return np.asarray(Image.fromarray(image).resize((columns, rows), Image.Resampling.LANCZOS))


# --- the threads ----------------------------------------------------------------------------------


class Line:
    """The threads and the queues between them, for one list of tasks.

    Parameters
    ----------
    job : Job
    todo : sequence of Task
    workers : Workers
    batch : int
        The longest stack.

    Attributes
    ----------
    decoded, factored, rebuilt, finished : Channel
        What waits between the stages; `fullest` of each tells where the bottleneck is.
    error : BaseException or None
        What the first thread to fail met.
    """

    def __init__(self, job: Job, todo: Sequence[Task], workers: Workers, batch: int):
        self.job, self.batch = job, batch
        self.error: BaseException | None = None
        factorise, room = self._factorise, workers.factorise
        if job.svd == "gpu":  # which one thread feeds
            factorise, room = self._factorise_stacks, 2 * batch
            workers = replace(workers, factorise=1)
        self.decoded = Channel[tuple[Task, np.ndarray]](room, workers.decode)
        self.factored = Channel[tuple[Task, np.ndarray, Factors]](2 * batch, workers.factorise)
        self.rebuilt = Channel[tuple[Task, np.ndarray, list[np.ndarray]]](batch + workers.write)
        self.finished = Channel[Done](64, workers.decode + workers.factorise + workers.write)
        self._todo, self._lock = iter(todo), threading.Lock()
        decoders = [(self._decode, (self.decoded, self.finished))] * workers.decode
        factorisers = [(factorise, (self.factored, self.finished))] * workers.factorise
        writers = [(self._write, (self.finished,))] * workers.write
        self._threads = [
            threading.Thread(
                target=self._run, args=part, name=f"course{part[0].__name__}", daemon=True
            )
            for part in (*decoders, *factorisers, (self._rebuild, (self.rebuilt,)), *writers)
        ]

    def __iter__(self) -> Iterator[Done]:
        """Start the threads; give what is done as it is done, in any order.

        Raises
        ------
        BaseException
            What the first thread to fail met. All threads have ended by then, as they have when
            the iteration is closed or interrupted.
        """
        try:
            for thread in self._threads:
                thread.start()
            while not self.finished.ended:
                # Ctrl-C does not end a wait without a time on every system.
                yield from self.finished.take(timeout=0.2)
        except Stopped:
            pass
        finally:
            self.stop()
            for thread in self._threads:
                if thread.ident is not None:
                    thread.join()
        if self.error is not None:
            raise self.error

    def stop(self, error: BaseException | None = None) -> None:
        """End all threads, as soon as each has finished the image that it is at."""
        with self._lock:
            self.error = self.error or error
        for channel in (self.decoded, self.factored, self.rebuilt, self.finished):
            channel.stop()

    def _run(self, stage: Callable[[], None], ends: Sequence[Channel]) -> None:
        try:
            stage()
        except Stopped:
            return
        except BaseException as error:  # whatever it is: the main thread raises it
            self.stop(error)
            return
        for channel in ends:
            channel.close()

    def _tasks(self) -> Iterator[Task]:
        while True:
            with self._lock:
                task = next(self._todo, None)
            if task is None:
                return
            yield task

    def _decode(self) -> None:
        for task in self._tasks():
            try:
                image = decode(task.file, self.job.size, self.job.fit)
            except UnreadableImage as error:
                self.finished.put(self._set_aside(task, error))
            else:
                self.decoded.put((task, image))

    def _set_aside(self, task: Task, error: UnreadableImage) -> Done:
        """What is wrong with one image; raises where more than that image is wrong."""
        cause = error.__cause__
        if isinstance(cause, MemoryError) or getattr(cause, "errno", None) in OUR_TROUBLE:
            raise cause
        if isinstance(cause, OSError) and not task.file.parent.is_dir():
            raise FileNotFoundError(
                f"the folder {str(task.file.parent)!r} is gone: bring it back"
            ) from error
        if error.reason == NOT_FINITE and not self.job.lenient:
            raise ImageError(
                f"{error}: repair the image or leave it out; with --resume it is set aside"
            ) from error
        return Done(task.image, [], [], error.reason)

    def _factorise(self) -> None:
        while found := self.decoded.take():
            ((task, image),) = found
            try:
                factors = factorise(image, max(self.job.ranks))
            except np.linalg.LinAlgError as error:
                self.finished.put(Done(task.image, [], [], f"has no SVD: {error}"))
            else:
                self.factored.put((task, image, factors))

    def _factorise_stacks(self) -> None:
        factors = GpuFactors(self.batch, max(self.job.ranks))
        while stack := self.decoded.take(self.batch, PATIENCE):
            for (task, image), its in zip(stack, factors([image for _, image in stack])):
                self.factored.put((task, image, Factors(*its)))

    def _rebuild(self) -> None:
        while stack := self.factored.take(self.batch, PATIENCE):
            tasks, originals, factors = zip(*stack)
            for item in zip(tasks, originals, rebuild(self.job.rebuild, factors, self.job.ranks)):
                self.rebuilt.put(item)

    def _write(self) -> None:
        job = self.job
        while found := self.rebuilt.take():
            ((task, image, approximations),) = found
            paths = [job.folder / name for name in task.names]
            try:
                measures, sizes = write(image, approximations, paths)
                if job.shown.may_show(task.image):
                    for_grid = [a for k, a in zip(job.ranks, approximations) if k in job.grid_ranks]
                    keep_cells(job.folder, task.image, [image, *for_grid])
            except OSError as error:
                raise cannot_write(job.folder.parent, error) from error
            job.shown.add(task.image)
            self.finished.put(Done(task.image, measures, sizes))


def cannot_write(folder: Path, error: OSError) -> OSError:
    """The same error, in words that say what to do."""
    cure = "choose another one"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        cure = "make room on that disk, or choose another folder"
    elif error.errno == errno.EFBIG:
        cure = "raise the limit on the size of files (ulimit -f)"
    told = OSError(f"cannot write to the folder {str(folder)!r}: {error.strerror or error}; {cure}")
    told.errno = error.errno
    return told


# --- how much at once -----------------------------------------------------------------------------


def batch_for(rows: int, columns: int, ranks: Sequence[int]) -> int:
    """How many images a stack has: 32, or fewer where they are large."""
    factors = (max(ranks) + 4) * (rows + columns + 1)
    an_image = 4 * (rows * columns * (1 + len(ranks)) + factors)
    return max(1, min(LARGEST_BATCH, BATCH_BYTES // an_image))


def svd_bytes(rows: int, columns: int) -> int:
    """Bytes of memory, about, that the SVD of an image takes."""
    return SVD_BYTES * rows * columns + SQUARE_BYTES * min(rows, columns) ** 2


def svd_seconds(rows: int, columns: int) -> float:
    """How long an SVD takes here, about: a small one is timed; the work grows as the cube.

    The work of a thin SVD is proportional to rows * columns * min(rows, columns). Small ones reach
    somewhat fewer operations a second, so that this is a little too long rather than too short.
    """
    trial = np.random.default_rng(0).random((TRIAL, TRIAL), dtype=np.float32)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        images.svd(trial)
        seconds.append(time.perf_counter() - start)
    return min(seconds) * rows * columns * min(rows, columns) / TRIAL**3


def long_svds(rows: int, columns: int, count: int, at_once: int) -> str | None:
    """A sentence about SVDs that take long, of so many images; None where they do not.

    Parameters
    ----------
    rows, columns : int
    count : int
        Images to do.
    at_once : int
        Threads that factorise.
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


def cores() -> int:
    """Cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def memory() -> int:
    """Bytes of the machine's memory; where the system does not say, 8 GiB."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8 << 30
