"""Many images: rebuild each from its SVD, measure the quality, write everything or nothing."""

import csv
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import numpy as np
from PIL import Image

from course import images, plots
from course.image_files import NOT_FINITE, checked_size, list_folder, printable
from course.images import ImageError, UnreadableImage

ENGINES = ("auto", "gpu", "simulator", "numpy")
GRID_FILE = "grid.png"
TABLE_FILE = "quality.csv"
GRID_IMAGES = 8  # rows and columns at most: a figure that can still be read
GRID_RANKS = 6
GRID_PIXELS = 600  # longer sides are scaled down for the grid, which prints them at half of that
LONGEST_NAME = 50  # letters, each up to 4 bytes: with _k50.png it fits a file system's 255 bytes
SMALLEST_SIDE = 7  # SSIM compares windows of 7x7 pixels

Reconstruct = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]


@dataclass(frozen=True)
class Quality:
    """One reconstruction: a line of the table.

    The quality is that of the float32 reconstruction, before it is rounded to a PNG's 8 bits.
    """

    name: str
    k: int
    psnr_db: float
    ssim: float
    mse: float
    compression: float
    rows: int
    columns: int
    file: str
    source: str


@dataclass(frozen=True)
class Report:
    """What `reconstruct_images` did.

    Attributes
    ----------
    qualities : list of Quality
        A line for each image and k.
    skipped : list of (str, str)
        Path and reason of each file that was left out.
    engine : str
        What computed the reconstructions, in words.
    out : Path
        Folder with the reconstructions, the grid and the table.
    """

    qualities: list[Quality]
    skipped: list[tuple[str, str]]
    engine: str
    out: Path


@dataclass
class _Work:
    """What has been gathered while image after image went through."""

    qualities: list[Quality] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    cells: list[np.ndarray] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    done: int = 0


def reconstruct_images(
    inputs: Sequence[str | Path],
    ranks: Iterable[int],
    out: str | Path,
    *,
    size: tuple[int, int] | int = (256, 256),
    fit: str = "stretch",
    engine: str = "auto",
    progress: Callable[[list[Path]], Iterable[Path]] = iter,
) -> Report:
    """Rebuild images from their k largest singular values and write the results to a folder.

    The folder receives a PNG for each image and k, a grid of originals and reconstructions
    (grid.png) and a table (quality.csv). Everything is first written to a hidden folder beside
    them and moved when all is done: an error or an interruption leaves nothing behind.

    Parameters
    ----------
    inputs : sequence of str or Path
        Image files, and folders of images.
    ranks : iterable of int
        The values of k, each from 1 to the smaller side of `size`.
    out : str or Path
        Folder for the results, made when it is not there. Files of earlier runs are replaced.
    size, fit
        Size of the images in pixels and how they are brought to it, as for `images.load_image`.
    engine : {"auto", "gpu", "simulator", "numpy"}
        What computes: "auto" takes the GPU where there is one, else NumPy.
    progress : callable
        Wraps the list of files that is worked through, as tqdm does.

    Returns
    -------
    Report

    Raises
    ------
    ImageError
        When a size, rank, engine or image cannot be used; the message says what to change.
    OSError
        When a file or folder is missing or cannot be written.
    """
    rows, columns = size = checked_size(size)
    if min(size) < SMALLEST_SIDE:
        raise ImageError(
            f"size is {rows}x{columns}; SSIM needs at least {SMALLEST_SIDE}x{SMALLEST_SIDE} pixels"
        )
    ranks = sorted({images.checked_rank(k, rows, columns) for k in ranks})
    if not ranks:
        raise ImageError("no k was given; give at least one, such as 50")
    rebuild, engine_name = choose_engine(engine)
    files = list_images(inputs, out)

    work = _Work()
    with _all_or_nothing(Path(out)) as folder:
        for file in progress(files):
            try:
                image = images.load_image(file, size, fit=fit)
            except UnreadableImage as error:
                if error.reason == NOT_FINITE:
                    raise ImageError(f"{error}: repair the image or leave it out") from error
                work.skipped.append((str(file), error.reason))
                continue
            _rebuild_one(work, image, file, ranks, rebuild, folder)
        if not work.done:
            raise ImageError(_nothing_readable(work.skipped))
        _write_grid(work, ranks, folder / GRID_FILE)
        _write_table(work.qualities, folder / TABLE_FILE)
    return Report(work.qualities, work.skipped, engine_name, Path(out))


def choose_engine(engine: str) -> tuple[Reconstruct, str]:
    """Return the function that rebuilds an image, and its name for the reader.

    Raises
    ------
    ImageError
        When there is no such engine, or no usable GPU for "gpu".
    """
    if engine not in ENGINES:
        raise ImageError(f"engine is {engine!r}; allowed are {', '.join(ENGINES)}")
    if engine == "numpy":
        return images.reconstruct, "NumPy on the CPU"

    from course import backend

    gpu = backend.gpu()
    if engine == "gpu" and gpu is None:
        raise ImageError(
            f"no usable GPU ({backend.why()}); use the engine auto, simulator or numpy"
        )
    if engine == "auto" and gpu is None:
        return images.reconstruct, f"NumPy on the CPU, as there is no usable GPU ({backend.why()})"

    from course.kernels.reconstruct import reconstruct

    if engine != "simulator":
        return reconstruct, f"the GPU kernel on {gpu}"
    rebuild = reconstruct if gpu is None else _simulated
    return rebuild, "the GPU kernel on the simulator"


def _simulated(u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int) -> np.ndarray:
    """Run the GPU's kernel on the simulator on a machine where it would run on the GPU."""
    from course.kernels.reconstruct import LADDER
    from course.simt import trace

    step = LADDER["naive"]
    out = np.empty((len(u), vt.shape[1]), dtype=np.float32)
    columns_of_u = np.ascontiguousarray(u[:, :k])
    trace(step.kernel, step.grid(*out.shape), step.block, columns_of_u, s[:k], vt[:k], k, out)
    return out


def list_images(inputs: Sequence[str | Path], out: str | Path | None = None) -> list[Path]:
    """Return the files to read: each file given, and each image of a folder given, once.

    Raises
    ------
    OSError
        When one does not exist, or a folder holds no image.
    ImageError
        When nothing is given, or when `out` is one of the folders that are read.
    """
    if not inputs:
        raise ImageError("no images were given; name image files, or folders that hold some")
    found: dict[Path, Path] = {}
    for given in map(Path, inputs):
        if given.is_dir():
            if out is not None and given.resolve() == Path(out).resolve():
                raise ImageError(
                    f"{str(given)!r} would be read and written; choose another folder for results"
                )
            listed = list_folder(given)
        elif given.exists():
            listed = [given]
        else:
            raise FileNotFoundError(f"there is no file or folder {str(given)!r}")
        for file in listed:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _rebuild_one(
    work: _Work, image: np.ndarray, file: Path, ranks: list[int], rebuild: Reconstruct, folder: Path
) -> None:
    rows, columns = image.shape
    name = _unused_name(printable(file.stem), work.names)
    show = work.done < GRID_IMAGES
    work.done += 1
    if show:
        work.shown.append(name)
        work.cells.append(_thumbnail(image))
        work.titles.append("original")
    u, s, vt = images.svd(image)
    for k in ranks:
        approximation = rebuild(u, s, vt, k)
        quality = Quality(
            name=name,
            k=k,
            psnr_db=images.psnr(image, approximation),
            ssim=images.ssim(image, approximation),
            mse=images.mse(image, approximation),
            compression=images.compression(rows, columns, k),
            rows=rows,
            columns=columns,
            file=f"{name}_k{k}.png",
            source=printable(str(file)),
        )
        work.qualities.append(quality)
        pixels = np.rint(np.clip(approximation, 0, 1) * 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / quality.file)
        if show and k in _evenly(ranks, GRID_RANKS):
            work.cells.append(_thumbnail(approximation))
            work.titles.append(
                f"k = {k}: {_smaller(quality.compression)}\n"
                f"{quality.psnr_db:.1f} dB, SSIM {quality.ssim:.3f}"
            )


def _smaller(compression: float) -> str:
    if compression < 1:
        return f"{1 / compression:.3g}× larger"
    return f"{compression:.3g}× smaller"


def _thumbnail(image: np.ndarray) -> np.ndarray:
    if max(image.shape) <= GRID_PIXELS:
        return image
    scale = GRID_PIXELS / max(image.shape)
    rows, columns = (max(1, round(side * scale)) for side in image.shape)
    return np.asarray(Image.fromarray(image).resize((columns, rows), Image.Resampling.LANCZOS))


def _unused_name(stem: str, used: set[str]) -> str:
    """Return the stem, numbered if an earlier image has it: photos of two folders may share it."""
    stem = stem[:LONGEST_NAME]
    name, count = stem, 1
    while name.casefold() in used:  # some file systems do not tell A.png from a.png
        count += 1
        name = f"{stem}_{count}"
    used.add(name.casefold())
    return name


def _evenly(values: list[int], most: int) -> list[int]:
    if len(values) <= most:
        return values
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def _write_grid(work: _Work, ranks: list[int], path: Path) -> None:
    shown_ranks = _evenly(ranks, GRID_RANKS)
    left_out = [
        f"{count} more {one if count == 1 else several}"
        for count, one, several in (
            (work.done - len(work.shown), "image", "images"),
            (len(ranks) - len(shown_ranks), "value of k", "values of k"),
        )
        if count
    ]
    picture = plots.image_grid(
        work.cells,
        work.titles,
        columns=1 + len(shown_ranks),
        row_names=work.shown,
        footnote=f"{' and '.join(left_out)} in {TABLE_FILE}" if left_out else None,
    )
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; that is no news to the user.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        picture.save(path, dpi=150)


def _write_table(qualities: list[Quality], path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [column.name for column in fields(Quality)])
        writer.writeheader()
        for quality in qualities:
            line = asdict(quality)
            for column in ("psnr_db", "ssim", "compression"):
                line[column] = f"{line[column]:.4f}"
            writer.writerow(line | {"mse": f"{quality.mse:.6g}"})


def _nothing_readable(skipped: list[tuple[str, str]]) -> str:
    first = "; ".join(f"{printable(file)!r} {reason}" for file, reason in skipped[:3])
    more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    return f"none of the {len(skipped)} files could be used: {first}{more}"


@contextmanager
def _all_or_nothing(out: Path) -> Iterator[Path]:
    """Give a hidden folder inside `out`; move its files to `out` at the end, or remove all."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{str(out)!r} is a file; results need a folder")
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    finished = False
    try:
        try:
            out.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=out))
        except OSError as error:
            raise OSError(
                f"cannot write to the folder {str(out)!r}: {error.strerror or error}; "
                "choose another one"
            ) from error
        try:
            yield folder
            for file in folder.iterdir():
                if (out / file.name).is_dir():
                    raise IsADirectoryError(f"{str(out / file.name)!r} is a folder: in the way")
            for file in folder.iterdir():
                os.replace(file, out / file.name)
            finished = True
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        if not finished:
            for folder in made:
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()
