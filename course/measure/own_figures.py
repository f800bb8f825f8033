"""The reader's own figures: kept in a folder of theirs, shown beside the recorded ones."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from course import backend
from course.files import data_path
from course.measure.recorded import Figure, file_name, header, read, recorded, write
from warpsim.host.device import NoTime

if TYPE_CHECKING:
    import pandas

    from course.measure.timing import Timing

#: Relative difference up to which figures are the same: runs of one program differ as much.
SAME = 0.05


def own_folder() -> Path:
    """Where the reader's own figures are kept: COURSE_MEASUREMENTS, else ~/.course/measurements."""
    given = os.environ.get("COURSE_MEASUREMENTS")
    return Path(given).expanduser() if given else Path.home() / ".course" / "measurements"


def compare(subject: str | None = None, own: Path | None = None) -> pandas.DataFrame:
    """The reader's own figures beside the recorded ones.

    Parameters
    ----------
    subject : str, optional
        One subject; without it all.
    own : Path, optional
        Folder of the reader's own files; without it `own_folder()`.

    Returns
    -------
    pandas.DataFrame
        A row for each figure that both have: what it is of, own and recorded median with the GPUs,
        and own / recorded.
    """
    import pandas

    theirs: dict[tuple[str, ...], list[Figure]] = {}
    for figure in recorded(subject, metric=None):
        theirs.setdefault(figure.key, []).append(figure)
    rows = [
        (
            *mine.key, mine.unit, mine.gpu, mine.median, other.gpu, other.median,
            mine.median / other.median if other.median else math.nan,
            judged(mine, other),
        )
        for mine in recorded(subject, metric=None, folder=own or own_folder())
        for other in theirs.get(mine.key, [])
    ]  # fmt: skip
    names = ["kernel", "variant", "shape", "dtype", "metric", "unit", "own GPU", "own"]
    return pandas.DataFrame(
        rows, columns=[*names, "recorded GPU", "recorded", "own / recorded", "says"]
    )


def beside(subject: str, own: Path) -> str:
    """Own times of a subject beside the recorded ones, as text; "" where no time is in both."""
    if own.resolve() == data_path("measurements").resolve():
        return ""  # these are the recorded ones
    table = compare(subject, own)
    times = table[table["unit"] == "ms"]
    if times.empty:
        return ""
    shown = times[["variant", "shape", "metric", "own", "recorded GPU", "recorded", "says"]]
    return shown.to_string(index=False, float_format=lambda value: f"{value:.4g}")


def judged(own: Figure, other: Figure) -> str:
    """How an own figure stands to a recorded one, in words."""
    if not other.median or not own.median:
        return ""
    factor = own.median / other.median
    apart = own.q1 > other.q3 or own.q3 < other.q1
    if abs(factor - 1) <= SAME or not apart:
        return "the same"
    return f"{factor:.3g} times as much" if factor > 1 else f"{1 / factor:.3g} times less"


def keep(subject: str, figures: Iterable[Figure], folder: Path | None = None) -> Path:
    """Add figures to the reader's own of a subject; a new one replaces the old one of its key.

    Parameters
    ----------
    subject : str
        Such as "lesson03"; the file is ``<gpu>-<subject>.csv``.
    figures : iterable of Figure
        See `figure_of`.
    folder : Path, optional
        Without it `own_folder()`.

    Raises
    ------
    NoTime
        Without a GPU, whose figures they would be.
    OSError
        When the folder cannot be written.
    """
    gpu = backend.gpu()
    if gpu is None:
        raise NoTime(f"keep({subject!r}): without a GPU there are no figures of one to keep")
    folder = own_folder() if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name(gpu, subject)
    found = {figure.key: figure for figure in (read(path).figures if path.exists() else ())}
    found |= {figure.key: figure for figure in figures}
    return write(path, header(gpu, None, "course.measure.own_figures.keep"), found.values())


def figure_of(timing: Timing, kernel: str, shape: str = "") -> Figure:
    """A measured timing as a figure to keep; its name is the variant.

    Raises
    ------
    ValueError
        For a bound, which nobody measured.
    """
    if timing.source != "measured":
        raise ValueError(f"{timing.name}: a {timing.source} is no figure of yours to keep")
    done = timing.teraflops * timing.median * 1e9
    return Figure(
        kernel, timing.name, shape, "float32", "time", "ms", timing.median, timing.q1, timing.q3,
        timing.n, timing.bytes, None if math.isnan(done) else done,
    )  # fmt: skip
