"""Recorded figures: written by ``python -m course bench``, read by lessons, tests and readers.

A file ``data/measurements/<gpu>-<subject>.csv`` is one run on one GPU: a header of ``# key=value``
lines (which GPU, driver and versions, when, the roofs measured in the same run), then a row for
each figure. Times are in ms. Nothing is written by hand. The reader's own figures have the same
form, in another folder: see `course.measure.own_figures`.
"""

from __future__ import annotations

import datetime
import functools
import math
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from course import __version__, backend
from course.files import data_path, table_parts, table_text, write_whole
from course.measure.roofline import Roofs, article, plain_name, time_text

COLUMNS = (
    "kernel", "variant", "shape", "dtype", "metric", "unit", "median", "q1", "q3", "n", "bytes",
    "operations",
)  # fmt: skip
#: What every header says; further lines are free.
REQUIRED = ("gpu", "course", "date")
#: Subjects whose files are no benches, such as profiles: see course_recording/profiling/README.md.
OTHER_LAYOUT = (
    "further_counters", "further_counters-explained", "successor",
    "counters", "counters-explained", "profile", "profile-norm", "profile-timeline",
    "role_counters", "simulator", "vae_micro-table", "vit_counters",
)  # fmt: skip
TIMELINE = "timeline-"  # `course.measure.timeline` reads these


#: Packages whose versions a header names.
PACKAGES = ("numba-cuda", "numba", "numpy", "cupy", "torch", "triton")


class BadMeasurements(ValueError):
    """A file of figures that cannot be used; the message names the file, the line and the cure."""


@dataclass(frozen=True)
class Figure:
    """One figure, a row of a file.

    Attributes
    ----------
    kernel : str
        What is computed, such as "transpose".
    variant : str
        Which program does it: the kernel's function name, or "cupy", "torch", ...
    shape, dtype : str
        Such as "8192x8192x2048" and "float32".
    metric, unit : str
        Such as "time" and "ms".
    median, q1, q3 : float
    n : int
        Samples.
    bytes, operations : float or None
        Of one call, for a time: what it must move and do.
    gpu, date : str
        From the file's header.
    """

    kernel: str
    variant: str
    shape: str
    dtype: str
    metric: str
    unit: str
    median: float
    q1: float
    q3: float
    n: int
    bytes: float | None = None
    operations: float | None = None
    gpu: str = field(default="", compare=False)
    date: str = field(default="", compare=False)

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What a figure is of: two of one key in a file would contradict each other."""
        return self.kernel, self.variant, self.shape, self.dtype, self.metric

    @property
    def gigabytes_per_second(self) -> float:
        """Bytes / time [10⁹ bytes/s]; NaN where it is no time or the bytes are not known."""
        return self.bytes / self.median * 1e-6 if self.unit == "ms" and self.bytes else math.nan

    @property
    def teraflops(self) -> float:
        """Operations / time [10¹²/s]; NaN where it is no time or they are not known."""
        done = self.operations if self.unit == "ms" else None
        return done / self.median * 1e-9 if done else math.nan

    @property
    def amount(self) -> str:
        """The median with its unit."""
        if self.unit == "ms":
            return time_text(self.median)
        return f"{self.median:.4g}" + f" {self.unit}" * (self.unit not in (self.metric, "relative"))

    def __str__(self) -> str:
        what = " ".join(part for part in (self.variant, self.shape, self.dtype) if part)
        metric = "" if self.metric == "time" else f" {self.metric}"
        when = f", {self.date}" if self.date else ""
        found = f"{what}{metric} {self.amount} (n = {self.n})"
        return f"recorded on {article(self.gpu)}{when}: {found}"


@dataclass(frozen=True)
class Recording:
    """A file's content: header and figures."""

    header: Mapping[str, str]
    figures: tuple[Figure, ...]
    path: Path | None = None

    @property
    def gpu(self) -> str:
        return self.header["gpu"]

    def __str__(self) -> str:
        return "\n".join([f"{self.gpu}, {self.header['date']}", *table(self.figures)])

    __repr__ = __str__


def table(figures: Iterable[Figure]) -> list[str]:
    """Figures as lines of text: for each program its time, its rate, and what else is known."""
    programs: dict[tuple[str, ...], list[Figure]] = {}
    for figure in figures:
        programs.setdefault(figure.key[:4], []).append(figure)
    rows = []
    for program, its in programs.items():
        time = next((figure for figure in its if figure.metric == "time"), None)
        others = [f"{figure.metric} {figure.amount}" for figure in its if figure is not time]
        rows.append((*program, time.amount if time else "", _rate(time), ", ".join(others)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _rate(time: Figure | None) -> str:
    if time is None:
        return ""
    if not math.isnan(time.teraflops):
        return f"{time.teraflops:.3g} TFLOP/s"
    known = not math.isnan(time.gigabytes_per_second)
    return f"{time.gigabytes_per_second:,.4g} GB/s" if known else ""


def file_name(gpu: str, subject: str) -> str:
    """Name of the file of a subject measured on a GPU: "rtx4090-..." of a GeForce RTX 4090."""
    return f"{plain_name(gpu).replace(' ', '') or 'gpu'}-{subject}.csv"


# ---------------------------------------------------------------------- writing
def number(value: float | None) -> str:
    """A number as it stands in a file: six digits, whole numbers whole, nothing for None."""
    if value is None:
        return ""
    if float(value).is_integer() and abs(value) < 1e18:
        return str(int(value))
    return f"{value:.6g}"


def write(path: str | os.PathLike[str], header: Mapping[str, str], figures: Iterable[Figure]):
    """Write a file, whole or not at all; what cannot be read back is not written.

    Raises
    ------
    BadMeasurements
        When the header lacks a line or a figure is not one.
    OSError
        When the folder does not exist or cannot be written; an older file stays as it was.
    """
    target = Path(path)
    rows = (
        [v if isinstance(v, str) else number(v) for v in (getattr(f, name) for name in COLUMNS)]
        for f in figures
    )
    text = table_text(target.name, header, COLUMNS, rows, BadMeasurements)
    parsed(text, target)
    write_whole(target, text)
    return target


# ---------------------------------------------------------------------- reading
def read(path: str | os.PathLike[str]) -> Recording:
    """Read a file of figures.

    Raises
    ------
    BadMeasurements
        When it is not such a file; the message names the line.
    OSError
        When it cannot be read at all.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadMeasurements(f"{Path(path).name}: not a text file in UTF-8") from None
    return _known(text, Path(path))


@functools.lru_cache(maxsize=64)
def _known(text: str, path: Path) -> Recording:
    """The recording of a text, parsed once: a lesson asks for figures dozens of times."""
    found = parsed(text, path)
    return Recording(MappingProxyType(dict(found.header)), found.figures, path)


def parsed(text: str, path: Path) -> Recording:
    """Parse a file's text."""
    header, first, rows = table_parts(path.name, text, REQUIRED, COLUMNS, BadMeasurements)
    figures = []
    seen: dict[tuple[str, ...], int] = {}
    for place, row in enumerate(rows, first):
        figure = _figure(row, header, f"{path.name}, line {place}")
        if figure.key in seen:
            raise BadMeasurements(
                f"{path.name}, line {place}: {' '.join(figure.key)} stands in line "
                f"{seen[figure.key]} already; measure again"
            )
        seen[figure.key] = place
        figures.append(figure)
    return Recording(header, tuple(figures), path)


def _figure(row: list[str], header: Mapping[str, str], where: str) -> Figure:
    if len(row) != len(COLUMNS):
        raise BadMeasurements(f"{where}: {len(row)} values for {len(COLUMNS)} columns")
    found: dict[str, object] = dict(zip(COLUMNS, row, strict=True))
    for name in ("median", "q1", "q3", "n", "bytes", "operations"):
        text = found[name]
        try:
            found[name] = int(text) if name == "n" else float(text)
        except ValueError:
            if text or name not in ("bytes", "operations"):
                raise BadMeasurements(f"{where}: {name} is {text!r}, which is no number") from None
            found[name] = None
    figure = Figure(**found, gpu=header["gpu"], date=header["date"])
    spread = (figure.q1, figure.median, figure.q3)
    if not all(map(math.isfinite, spread)) or not figure.q1 <= figure.median <= figure.q3:
        raise BadMeasurements(f"{where}: q1, median and q3 are {spread}; they must rise")
    if figure.n < 1 or not figure.kernel or not figure.metric or not figure.unit:
        raise BadMeasurements(
            f"{where}: a figure has a kernel, a metric, a unit and n of 1 or more"
        )
    if figure.unit == "ms" and figure.q1 <= 0:
        raise BadMeasurements(f"{where}: a time of {figure.q1} ms")
    return figure


def header(gpu: str, roofs: Roofs | None, command: str) -> dict[str, str]:
    """What a file's figures may depend on: GPU, driver, versions, date, measured roofs, command.

    Parameters
    ----------
    roofs : course.measure.roofline.Roofs, optional
        Those measured in the same run; what is written is its sentence.
    """
    cuda = backend.cuda
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        driver = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        driver = ""
    found = {
        "gpu": gpu,
        "compute_capability": ".".join(map(str, cuda.get_current_device().compute_capability)),
        "driver": driver or "unknown",
        "cuda": ".".join(map(str, cuda.runtime.get_version())),
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        names = (package, "cupy-cuda13x", "cupy-cuda12x") if package == "cupy" else (package,)
        version = next(filter(None, map(backend.installed_version, names)), None)
        if version:
            found[package] = version
    found["course"] = __version__
    found["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
    if roofs is not None:
        found["roofs"] = roofs.sentence.partition(": ")[2]
    found["command"] = command
    return found


# ---------------------------------------------------------------------- finding
def subject_of(path: Path) -> str:
    """The subject in a file's name: "h200-transpose.csv" -> "transpose"."""
    return path.stem.partition("-")[2]


def recordings(subject: str | None = None, folder: Path | None = None) -> tuple[Recording, ...]:
    """Every recording of a folder, or those of a subject; without a folder the course's own."""
    folder = data_path("measurements") if folder is None else folder
    if not folder.is_dir():
        return ()
    found = []
    for path in sorted(folder.glob("*.csv")):
        its = subject_of(path)
        layout = its not in OTHER_LAYOUT and not its.startswith(TIMELINE)
        if layout and subject in (None, its):
            found.append(read(path))
    return tuple(found)


def recorded(
    subject: str | None = None,
    *,
    kernel: str | None = None,
    variant: str | None = None,
    shape: str | None = None,
    dtype: str | None = None,
    metric: str | None = "time",
    gpu: str | None = None,
    folder: Path | None = None,
) -> list[Figure]:
    """Recorded figures that fit all that is given.

    Parameters
    ----------
    subject, kernel, variant, shape, dtype, metric : str, optional
        None fits everything.
    gpu : str, optional
        Part of the GPU's name, such as "H200".
    folder : Path, optional
        Another folder than the course's, such as `course.measure.own_figures.own_folder()`.
    """
    wanted = {
        "kernel": kernel, "variant": variant, "shape": shape, "dtype": dtype, "metric": metric,
    }  # fmt: skip
    return [
        figure
        for recording in recordings(subject, folder)
        if gpu is None or gpu.lower() in recording.gpu.lower()
        for figure in recording.figures
        if all(value is None or getattr(figure, name) == value for name, value in wanted.items())
    ]


def longest_recorded(name: str) -> Figure | None:
    """The recorded time of a program with this name, of the largest work; None without one."""
    times = [f for f in recorded() if name in (f.variant, f"{f.kernel}_{f.variant}")]
    return max(times, key=lambda figure: figure.bytes or figure.operations or 0, default=None)
