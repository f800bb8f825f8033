"""What a run leaves: a table of qualities, a grid of pictures, a report of what was set aside.

The grid is drawn by Pillow alone: a plotting library takes seconds, for which everything else
has to wait.
"""

import csv
import hashlib
import importlib.util
import io
import json
import math
import operator
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from course import files
from course.images import images
from course.images.reading import printable
from course_app.pipeline.journal import Done, is_file, is_plain

GRID_FILE = "grid.png"
TABLE_FILE = "quality.csv"
DIGITS = {"psnr_db": ".4f", "ssim": ".4f", "compression": ".4f", "mse": ".6g"}  # in that table
REPORT_FILE = "report.json"
SUMMARIES = GRID_FILE, TABLE_FILE, REPORT_FILE
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # so begins what a spreadsheet computes
GRID_RANKS = 6  # columns at most: a figure that can still be read
EXACT = 100.0  # dB: errors below 1e-5 of the range are rounding's; k is then the rank or more


@dataclass(frozen=True)
class Quality:
    """One reconstruction: a line of the table.

    The quality is that of the float32 reconstruction, before it is rounded to a PNG's 8 bits, with
    the digits of the table.
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
        A line for each image and k, in the order of the files.
    skipped : list of (str, str)
        Path and reason of each file that was set aside.
    engine : str
        What computed the reconstructions, in words.
    out : Path
        Folder with the reconstructions, the grid, the table and the report.
    kept : int
        How many of the files an earlier run, that was resumed, had done.
    passed_over : Counter
        What else lies in the folders that were read: how many, by kind.
    unreadable : list of (str, str)
        Subfolders that could not be read, and why.
    """

    qualities: list[Quality]
    skipped: list[tuple[str, str]]
    engine: str
    out: Path
    kept: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)
    unreadable: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Means:
    """The means of all images for one k.

    Attributes
    ----------
    k : int
    psnr_db : float or None
        Of the images whose PSNR is below `EXACT`. Higher ones, such as 140 dB, come from float32's
        rounding and would hide what the others have lost. Where all are above, the mean of the
        finite ones; None without any.
    exact : int
        How many were left out: they were rebuilt without any error but rounding.
    ssim, compression : float
    """

    k: int
    psnr_db: float | None
    exact: int
    ssim: float
    compression: float


def means(qualities: list[Quality]) -> list[Means]:
    """The means for each k, smallest first."""
    found = []
    for k in sorted({quality.k for quality in qualities}):
        lines = [quality for quality in qualities if quality.k == k]
        finite = [line.psnr_db for line in lines if math.isfinite(line.psnr_db)]
        lossy = [value for value in finite if value < EXACT] or finite
        ssim = fmean(line.ssim for line in lines)
        psnr_db = fmean(lossy) if lossy else None
        found.append(Means(k, psnr_db, len(lines) - len(lossy), ssim, lines[0].compression))
    return found


def gathered(
    files: list[tuple[Path, str]],
    ranks: list[int],
    size: tuple[int, int],
    done: Mapping[int, Done],
    engine: str,
    out: Path,
) -> Report:
    """The report, in the order of the files, each given with the name of its results."""
    rows, columns = size
    fewer = [images.compression(rows, columns, k) for k in ranks]
    same = [(k, _as_written("compression", its)) for k, its in zip(ranks, fewer, strict=True)]
    qualities, skipped = [], []
    for image, (file, name) in enumerate(files):
        if done[image].reason is not None:
            skipped.append((str(file), printable(done[image].reason)))
            continue
        source = harmless(str(file))
        for (k, compression), measures in zip(same, done[image].measures, strict=True):
            psnr_db, ssim, mse = map(_as_written, ("psnr_db", "ssim", "mse"), measures)
            its = name, k, psnr_db, ssim, mse, compression, rows, columns, f"{name}_k{k}.png"
            qualities.append(Quality(*its, source))
    return Report(qualities, skipped, engine, out)


def harmless(path: str) -> str:
    """The same file's path, without a first letter that makes a spreadsheet compute it."""
    return f".{os.sep}{path}" if path.startswith(FORMULA) else path


def _as_written(column: str, value: float) -> float:
    """A value as the table has it: a later run that reads it there says the same of it."""
    return float(format(value, DIGITS[column]))


def evenly(values: list[int], most: int) -> list[int]:
    """At most `most` of the values: the first, the last and some between."""
    if len(values) <= most:
        return values
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def write_table(qualities: list[Quality], path: Path) -> None:
    """Write a CSV file, a line for each image and k.

    File names are written byte for byte, with any bytes that are no UTF-8.
    """
    columns = [column.name for column in fields(Quality)]
    forms = [DIGITS.get(column, "") for column in columns]
    values = operator.attrgetter(*columns)
    with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(map(format, values(quality), forms) for quality in qualities)


def write_report(report: Report, settings: dict[str, Any], begun_with: str, path: Path) -> None:
    """Write a JSON file: the settings, what was rebuilt, what was set aside and why.

    It has a checksum of itself and of the table beside it.
    """
    set_aside = [{"file": file, "reason": reason} for file, reason in report.skipped]
    rebuilt = len(report.qualities) // len(settings["k"])
    content = {
        "rebuilt by": report.engine.partition(", ")[0],  # no reasons, no number of workers
        **settings,
        "images": rebuilt + len(set_aside),
        "rebuilt": rebuilt,
        "set aside": set_aside,
        "begun with": begun_with,
    }
    content["checksum"] = _checksum(content, path.parent)
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    # a byte of a name that is no UTF-8 becomes \udcXX, which is how JSON, too, writes that sign
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def _checksum(content: dict[str, Any], out: Path) -> str:
    both = json.dumps(content).encode() + (out / TABLE_FILE).read_bytes()
    return hashlib.sha256(both).hexdigest()[:16]


def nothing_readable(skipped: list[tuple[str, str]]) -> str:
    """What is said when no file could be used."""
    first = "; ".join(f"{printable(file)!r} {reason}" for file, reason in skipped[:3])
    more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    return f"none of the {len(skipped)} files could be used: {first}{more}"


def names_there(out: Path) -> set[str]:
    """The files of a finished run in a folder, as its table names them."""
    named = {line.get("file") for line in _table(out) if _is_result(line)}
    return {name for name in named if is_file(out / name)}


def _is_result(line: dict[str, Any]) -> bool:
    name = line.get("file")
    return isinstance(name, str) and is_plain(name) and name.endswith(f"_k{line.get('k')}.png")


def of_earlier_run(folder: Path, names: Iterable[str]) -> set[str]:
    """Which of a folder's files a run of this program left there."""
    content = _report(folder)
    if not isinstance(content.get("begun with"), str) or "rebuilt by" not in content:
        return set()
    ks = content["k"] if isinstance(content.get("k"), list) else []
    ends = tuple(f"_k{k}.png" for k in ks)
    left = names_there(folder) or {name for name in names if name.endswith(ends)}
    return {GRID_FILE, *left}.intersection(names)


def begun_with(out: Path) -> str | None:
    """What the finished run in a folder was begun with, in short; None without one."""
    return _report(out).get("begun with")


def is_whole(out: Path) -> bool:
    """Whether report and table of a finished run are as it left them, by the report's checksum."""
    content = _report(out)
    its = content.pop("checksum", None)  # none of a report that cannot be read
    return its is None or (is_file(out / TABLE_FILE) and its == _checksum(content, out))


def finished(out: Path, begun_with: str) -> Report | None:
    """The report of a finished run in `out` that was begun with the same; None without one."""
    content = _report(out)
    same = content.get("begun with") == begun_with and "checksum" in content
    if not same or not is_whole(out):
        return None
    try:
        kinds = {column.name: column.type for column in fields(Quality)}
        lines = _table(out)
        qualities = [Quality(**{name: kinds[name](line[name]) for name in kinds}) for line in lines]
        skipped = [(str(one["file"]), str(one["reason"])) for one in content["set aside"]]
        engine, count = str(content["rebuilt by"]), int(content["images"])
    except (ValueError, KeyError, TypeError):
        return None  # another program's files
    there = all(is_file(out / line.file) for line in qualities)
    return Report(qualities, skipped, engine, out, count) if there else None


def _report(out: Path) -> dict[str, Any]:
    """What is in a run's report; nothing where there is none, or something else."""
    if not is_file(out / REPORT_FILE):
        return {}
    try:
        content = json.loads((out / REPORT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _table(out: Path) -> list[dict[str, Any]]:
    """The lines of a run's table; none where there is none, or something else."""
    if not is_file(out / TABLE_FILE):
        return []
    try:
        with open(out / TABLE_FILE, newline="", encoding="utf-8", errors="surrogateescape") as file:
            return list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error):
        return []


# --- the grid -------------------------------------------------------------------------------------

SIDE = 300  # pixels: cells are at most so wide and high, and widened until a caption fits
NARROWEST = 200
MARGIN, LINE, LETTERS = 12, 19, 15  # pixels
PAPER, INK = 255, 40


def write_grid(
    qualities: list[Quality], ranks: list[int], shown: list[list[np.ndarray]], path: Path
) -> None:
    """Draw originals and reconstructions side by side.

    Parameters
    ----------
    qualities : list of Quality
        Of all images, in order.
    ranks : list of int
        All values of k; up to 6 of them are shown.
    shown : list of list of ndarray
        Of each of the first images the original, then its reconstruction for each k shown.
    path : Path
    """
    shown_ranks = evenly(ranks, GRID_RANKS)
    images_of_all = [qualities[i : i + len(ranks)] for i in range(0, len(qualities), len(ranks))]
    left_out = [
        f"{count:,} more {one if count == 1 else several}"
        for count, one, several in (
            (len(images_of_all) - len(shown), "image", "images"),
            (len(ranks) - len(shown_ranks), "value of k", "values of k"),
        )
        if count
    ]
    note = f"{' and '.join(left_out)} in {TABLE_FILE}" if left_out else ""
    pictures = [[_picture(cell) for cell in cells] for cells in shown]
    width = max([NARROWEST, *(its.width for row in pictures for its in row)])
    height = max([1, *(its.height for row in pictures for its in row)])
    row_height = LINE + height + 2 * LINE + MARGIN
    size = (
        MARGIN + (1 + len(shown_ranks)) * (width + MARGIN),
        MARGIN + len(pictures) * row_height + (LINE if note else 0),
    )
    page = Image.new("L", size, PAPER)
    pen, font = ImageDraw.Draw(page), _font()
    for number, (row, lines) in enumerate(zip(pictures, images_of_all, strict=False)):
        top = MARGIN + number * row_height
        pen.text((MARGIN, top), printable(lines[0].name), INK, font)
        captions = ["original"] + [
            f"k = {line.k}: {_smaller(line.compression)}\n"
            f"{line.psnr_db:.1f} dB, SSIM {line.ssim:.3f}"
            for line in lines
            if line.k in shown_ranks
        ]
        for column, (picture, caption) in enumerate(zip(row, captions, strict=True)):
            left = MARGIN + column * (width + MARGIN)
            page.paste(picture, (left, top + LINE))
            pen.multiline_text(
                (left, top + LINE + picture.height + 2), caption, INK, font, spacing=2
            )
    if note:
        pen.text((MARGIN, size[1] - LINE - MARGIN // 2), note, INK, font)
    content = io.BytesIO()
    page.save(content, "png", compress_level=1)
    files.write_whole(path, content.getvalue())


def _picture(cell: np.ndarray) -> Image.Image:
    """A cell in 8 bits; small ones with each pixel several times as large."""
    picture = Image.fromarray(np.rint(255 * np.clip(cell, 0, 1)).astype(np.uint8))
    longest = max(picture.size)
    scale = SIDE // longest if longest <= SIDE else SIDE / longest
    size = tuple(max(1, round(side * scale)) for side in picture.size)
    how = Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.LANCZOS
    return picture if size == picture.size else picture.resize(size, how)


def _font() -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    """Letters of many scripts, a file of Matplotlib's, which need not be imported for it."""
    found = importlib.util.find_spec("matplotlib")
    if found is not None and found.origin:
        letters = Path(found.origin).parent / "mpl-data/fonts/ttf/DejaVuSans.ttf"
        try:
            return ImageFont.truetype(str(letters), LETTERS)
        except OSError:
            pass
    return ImageFont.load_default(LETTERS)


def _smaller(compression: float) -> str:
    if compression < 1:
        return f"{1 / compression:.3g}× larger"
    return f"{compression:.3g}× smaller"
