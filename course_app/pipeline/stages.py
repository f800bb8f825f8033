"""What is done with an image, stage by stage: decode, factorise, rebuild, judge, save.

`whole` does all of it with one image, on the CPU. Where a GPU computes, `fill` stores images in
memory that processes share (`course_app.pipeline.shared_buffers`), the GPU rebuilds and judges
whole stacks (`course_app.pipeline.engines`), and `save` writes what it left there. Any process can
do each of them: `course_app.pipeline.worker` has them done by several,
`course_app.pipeline.scheduler` by this one.
"""

import errno
import io
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from course import files
from course.images import LARGEST, images, reading
from course.images.reading import UnreadableImage
from course.images.shortage import is_shortage
from course_app.pipeline import png, quality
from course_app.pipeline.engines import OnGpu, Rebuild, kept_values, on_cpu
from course_app.pipeline.journal import GRID_IMAGES, Done, cells_name
from course_app.pipeline.shared_buffers import SharedBuffers, goes_as_it_is

GRID_PIXELS = 600  # longer sides are scaled down for the grid, which prints them at half of that


class Factors(NamedTuple):
    """The part of a thin SVD that is needed: u (rows, r), s (r,), vt (r, columns), float32."""

    u: np.ndarray
    s: np.ndarray
    vt: np.ndarray


@dataclass(frozen=True)
class Task:
    """An image to rebuild: its index in the list, its file, the files that it becomes."""

    image: int
    file: Path
    names: list[str]


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
    folder : Path
        Where the results go.
    engine : {"numpy", "simulator", "gpu"}
        Who rebuilds.
    svd : {"cpu", "gpu"}
        Who factorises.
    largest : float
        Megapixels of the largest image that is decoded.
    """

    size: tuple[int, int]
    fit: str
    ranks: list[int]
    grid_ranks: list[int]
    folder: Path
    engine: str = "numpy"
    svd: str = "cpu"
    largest: float = LARGEST


@dataclass
class Shown:
    """The first images that are good: those that the grid may show.

    Images finish in any order, so a few more than it will show are taken for it.
    """

    first: tuple[int, ...] = ()

    def may_show(self, image: int) -> bool:
        """Whether fewer than 8 images before this one are known to be good."""
        return sum(other < image for other in self.first) < GRID_IMAGES

    def add(self, image: int) -> None:
        """This image is good."""
        self.first = tuple(sorted({*self.first, image})[:GRID_IMAGES])


@dataclass
class Clock:
    """Seconds that each stage took, by name."""

    seconds: Counter = field(default_factory=Counter)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - start


# --- the work of a stage --------------------------------------------------------------------------


def decode(
    file: Path,
    size: tuple[int, int],
    fit: str,
    for_gpu: bool = False,
    largest: float = LARGEST,
) -> np.ndarray:
    """Read a file as a grey image, (rows, columns), float32; raises UnreadableImage.

    With `for_gpu` it is uint8 of the file's own size, if the GPU can resize it.
    """
    levels = reading.load_levels(file, largest=largest)
    if for_gpu and fit == "stretch" and goes_as_it_is(levels, size):
        return levels
    return reading.resized_to(levels, size, fit)


def factorise(image: np.ndarray, most: int) -> Factors:
    """The `most` largest singular values and vectors of an image, and up to 3 more."""
    return Factors(*images.leading_svd(image, kept_values(most, *image.shape)))


def rebuild(engine: Rebuild, factors: Factors, ranks: Sequence[int]) -> list[np.ndarray]:
    """An image's reconstruction for each k."""
    return [stack[0] for stack in engine(*(part[None] for part in factors), ranks)]


def save(lines: Iterable[np.ndarray], paths: Iterable[Path]) -> list[int]:
    """Write each reconstruction as a PNG; return the sizes of the files in bytes.

    The files have their final names at once: none counts before the journal says so.
    """
    sizes = []
    for one, path in zip(lines, paths, strict=True):
        content = png.file_of(one)
        files.write_new(path, content)
        sizes.append(len(content))
    return sizes


# --- an image, or some ----------------------------------------------------------------------------


def whole(job: Job, task: Task, shown: Shown, clock: Clock) -> Done:
    """Take an image through all stages, on the CPU."""
    its = _factors(job, task, clock)
    if isinstance(its, Done):
        return its
    image, factors = its
    with clock("rebuild"):
        approximations = rebuild(on_cpu(job.engine), factors, job.ranks)
    with clock("judge"):
        found = quality.quality_of(image, approximations)
    sizes = _saved(job, task, [its.lines for its in found], clock)
    if shown.may_show(task.image):
        keep_cells(job, task, image, approximations)
    return Done(task.image, [(its.psnr_db, its.ssim, its.mse) for its in found], sizes)


def fill(
    job: Job, tasks: Sequence[tuple[int, Task]], buffers: SharedBuffers, buffer: int, clock: Clock
) -> list[Done | None]:
    """Store images in their slots of a buffer; return for each None, or why it was set aside."""
    found: list[Done | None] = []
    for slot, task in tasks:
        its = _factors(job, task, clock)
        if isinstance(its, Done):
            found.append(its)
            continue
        levels, factors = its
        buffers.store(buffer, slot, levels)
        for there, part in zip(buffers.factors, factors or (), strict=True):
            there[buffer][slot] = part
        found.append(None)
    return found


def compute(
    job: Job,
    tasks: Sequence[tuple[int, Task]],
    buffers: SharedBuffers,
    buffer: int,
    clock: Clock,
    on_gpu: OnGpu,
    shown: Shown,
) -> list[list[tuple[float, float, float]]]:
    """Have a GPU rebuild and judge a buffer's images; return the measures of each for each k."""
    count = tasks[-1][0] + 1  # slots of images that were set aside hold older ones
    wanted = {slot: task for slot, task in tasks if shown.may_show(task.image)}
    with clock("gpu"):
        found = on_gpu(
            buffers.images[buffer][:count], [part[buffer][:count] for part in buffers.factors],
            buffers.lines[buffer], wanted, buffers.sizes[buffer][:count],
        )  # fmt: skip
    for slot, (image, *approximations) in found.pictures.items():
        keep_cells(job, wanted[slot], image, approximations)
    measures = []
    for slot, _ in tasks:
        mse, ssim = (of[:, slot].tolist() for of in (found.mse, found.ssim))
        measures.append([(images.psnr_of(e), s, e) for e, s in zip(mse, ssim, strict=True)])
    return measures


def save_buffer(
    job: Job, tasks: Sequence[tuple[int, Task]], buffers: SharedBuffers, buffer: int, clock: Clock
) -> list[list[int]]:
    """Write the images of a buffer that the GPU has rebuilt; return each one's sizes of files."""
    return [_saved(job, task, buffers.lines[buffer][:, slot], clock) for slot, task in tasks]


def _factors(job: Job, task: Task, clock: Clock) -> Done | tuple[np.ndarray, Factors | None]:
    """An image and its factors, none where the GPU factorises; or why it is set aside."""
    try:
        with clock("decode"):
            image = decode(task.file, job.size, job.fit, job.svd == "gpu", job.largest)
    except UnreadableImage as error:
        return set_aside(task, error)
    if job.svd == "gpu":
        return image, None
    try:
        with clock("factorise"):
            return image, factorise(image, max(job.ranks))
    except np.linalg.LinAlgError as error:
        return Done(task.image, [], [], f"has no SVD: {error}")


def _saved(job: Job, task: Task, lines: Iterable[np.ndarray], clock: Clock) -> list[int]:
    try:
        with clock("save"):
            return save(lines, [job.folder / name for name in task.names])
    except OSError as error:
        raise cannot_write(job.folder.parent, error) from error


def set_aside(task: Task, error: UnreadableImage) -> Done:
    """Set an image aside, with the reason; raise where more than this image is wrong."""
    cause = error.__cause__
    if is_shortage(error):
        raise cause or error
    if isinstance(cause, OSError) and not task.file.parent.is_dir():
        raise FileNotFoundError(
            f"the folder {str(task.file.parent)!r} is gone: bring it back"
        ) from error
    return Done(task.image, [], [], error.reason)


class CannotWrite(OSError):
    """Results cannot be written to a folder; has what to do, and the system's error number."""

    def __init__(self, words: str, number: int | None):
        super().__init__(words)
        self.errno = number

    def __reduce__(self) -> tuple:
        return CannotWrite, (str(self), self.errno)  # pickled, as it goes between processes


def cannot_write(folder: Path, error: OSError) -> CannotWrite:
    """The same error, in words that say what to do."""
    cure = "choose another one"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        cure = "make room on that disk, or choose another folder"
    elif error.errno == errno.EFBIG:
        cure = "raise the limit on the size of files (ulimit -f)"
    told = f"cannot write to the folder {str(folder)!r}: {error.strerror or error}; {cure}"
    return CannotWrite(told, error.errno)


# --- pictures for the grid ------------------------------------------------------------------------


def cells_file(folder: Path, image: int) -> Path:
    """Where the grid's pictures of an image are kept until it is drawn."""
    return folder / cells_name(image)


def keep_cells(
    job: Job, task: Task, image: np.ndarray, approximations: Sequence[np.ndarray]
) -> None:
    """Keep an image and its reconstructions that the grid shows, scaled down to the grid's size."""
    shown = [its for k, its in zip(job.ranks, approximations, strict=True) if k in job.grid_ranks]
    content = io.BytesIO()
    np.savez(content, *map(_thumbnail, (image, *shown)))
    try:
        files.write_whole(cells_file(job.folder, task.image), content.getvalue())
    except OSError as error:
        raise cannot_write(job.folder.parent, error) from error


def kept_cells(
    folder: Path, image: int, size: Sequence[int], count: int
) -> list[np.ndarray] | None:
    """The `count` pictures that were kept of an image; None where one is missing or damaged."""
    file, shape = cells_file(folder, image), _shown_size(size)
    most = count * (4 * shape[0] * shape[1] + 1024)  # bytes: what says more is not unpacked
    try:
        if file.stat().st_size > most:
            return None
        cells = [*files.arrays_in(file).values()]
    except (OSError, ValueError) as error:
        if is_shortage(error):
            raise
        return None
    found = [(its.shape, its.dtype) for its in cells]
    return cells if found == [(shape, np.float32)] * count else None


def _shown_size(size: Sequence[int]) -> tuple[int, ...]:
    scale = min(1.0, GRID_PIXELS / max(size))
    return tuple(max(1, round(side * scale)) for side in size)


def _thumbnail(image: np.ndarray) -> np.ndarray:
    rows, columns = _shown_size(image.shape)
    if (rows, columns) == image.shape:
        return image
    return np.asarray(Image.fromarray(image).resize((columns, rows), Image.Resampling.LANCZOS))
