"""What a launch of a kernel does to a photograph, beside the other launches that were tried.

The kernel takes a flat photograph and a flat result, and is right with any launch. Requests,
sectors and steps are counted by the simulator on a small photograph, which a single thread has
soon done; a GPU is timed on a large one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from course import backend
from course.checks.answers import plain_function
from course.measure.timing import benchmark
from course.plots.style import FONT_SIZE, Picture, framed
from warpsim import trace
from warpsim.core.words import wrapped
from warpsim.draw.palette import BLUE, FAINT, INK

SIDE = 128  # pixels of the longer side that is traced
LARGE = 1024  # pixels of each side that a GPU is timed with
MOST = 1 << 18  # threads: more are traced for long, and have no pixel
HEAD = "LAUNCH", "requests", "sectors", "steps"
EXAMPLE = "give blocks and threads of a block, as in LAUNCH = 1, 32"


@dataclass(frozen=True)
class Counted:
    """What a launch did.

    Attributes
    ----------
    requests, sectors : int
        Of loads and stores together.
    steps : int
        Pixels of the thread with the most.
    ms : float or None
        Of the large photograph, where there is a GPU.
    """

    requests: int
    sectors: int
    steps: int
    ms: float | None


@dataclass(frozen=True)
class Watched:
    """The launches that were tried, the last of which made the image; shows itself."""

    launches: Mapping[tuple[int, int], Counted]
    image: np.ndarray | None
    last: tuple[int, int] | None = None
    problem: str = ""

    @property
    def requests(self) -> int:
        """Memory requests of the last launch."""
        return self.launches[self.last].requests

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The table: a head, then a row for each launch."""
        timed = any(each.ms is not None for each in self.launches.values())
        rows = [HEAD + ("ms",) * timed]
        for (blocks, threads), each in self.launches.items():
            row = (f"{blocks}, {threads}", *(f"{n:,}" for n in (each.requests, each.sectors)))
            row += (f"{each.steps:,}",) + (f"{each.ms:.3g}" if each.ms else "-",) * timed
            rows.append(row)
        return rows

    def __repr__(self) -> str:
        return wrapped(self.problem) if self.problem else repr(self.picture())

    def _repr_png_(self) -> tuple[bytes, dict[str, str]] | None:
        return None if self.problem else self.picture()._repr_png_()

    def picture(self) -> Picture:
        """The image, and the table beside it; the last launch is bold."""
        rows, columns = self.image.shape
        height = max(1.7, 0.26 * len(self.rows) + 0.5)
        picture = Picture(6.4, height)
        tall = min(height - 0.2, 1.9 * rows / columns)
        wide = tall * columns / rows
        axes = framed(picture.add_axes((0.1 / 6.4, 1 - (0.1 + tall) / height, wide / 6.4,
                                        tall / height)))  # fmt: skip
        axes.imshow(self.image, cmap="gray", vmin=0, vmax=1)
        step = (6.3 - 2.3) / len(self.rows[0])
        for line, row in enumerate(self.rows):
            bold = line and list(self.launches)[line - 1] == self.last
            look = {"fontweight": "bold", "color": BLUE} if bold else {"color": INK}
            look = look if line else {"color": FAINT}
            y = 1 - (0.2 + 0.26 * line) / height
            for place, cell in enumerate(row, start=1):
                x = (2.3 + step * place) / 6.4
                picture.text(x, y, cell, ha="right", va="center", fontsize=FONT_SIZE, **look)
        size = f"counted on {rows} × {columns} pixels"
        size += f"; ms on {LARGE} × {LARGE}" if len(self.rows[0]) > len(HEAD) else ""
        picture.text(2.5 / 6.4, 0.14 / height, size, fontsize=FONT_SIZE - 1, color=FAINT)
        said = ("; ".join(" ".join(pair) for pair in zip(self.rows[0], row)) for row in
                self.rows[1:])  # fmt: skip
        return picture.described(f"The photograph, {size}, after the kernel. {'. '.join(said)}.")


_tried: dict[tuple[int, int], Counted] = {}
_of: list[Any] = []  # the kernel and the photograph that `_tried` is of


def watch(kernel: Any, launch: tuple[int, int], photo: np.ndarray) -> Watched:
    """Launch a kernel on a photograph, and count what the launch does.

    Parameters
    ----------
    kernel : kernel
        Takes a photograph and a result, flat, and loops over what a thread has to do.
    launch : (int, int)
        Blocks, and threads of a block.
    photo : ndarray, shape (rows, columns)

    Returns
    -------
    Watched
        The launches of this kernel and photograph that were tried so far; shows itself.
    """
    if problem := _fault(launch):
        return Watched({}, None, problem=problem)
    text = getattr(plain_function(kernel), "__code__", None)
    if len(_of) != 2 or _of[0] != text or not np.array_equal(_of[1], photo):
        _of[:] = text, photo
        _tried.clear()
    small = _small(photo)
    out = np.zeros(small.size, np.float32)
    report = trace(kernel, *launch, small.ravel(), out)
    if report.findings and report.findings[0].is_error:
        return Watched({}, None, problem=str(report.findings[0]))
    kinds = [report.total("global", kind) for kind in ("load", "store")]
    steps = report.by_thread(("global", "store"))
    _tried[launch] = Counted(
        sum(each.requests for each in kinds), sum(each.sectors for each in kinds),
        int(steps.max()), _time(kernel, launch, photo),
    )  # fmt: skip
    return Watched(dict(_tried), out.reshape(small.shape), launch)


def _fault(launch: Any) -> str:
    """What is wrong with blocks and threads, as a sentence; "" for nothing."""
    whole = isinstance(launch, tuple) and all(type(number) is int for number in launch)
    if not whole or len(launch) != 2:
        return f"LAUNCH is {launch!r}: {EXAMPLE}."
    blocks, threads = launch
    if min(launch) < 1:
        return f"LAUNCH is {launch!r}: there is at least one block of one thread."
    if threads > 1024:
        return f"LAUNCH is {launch!r}: a block has at most 1,024 threads. Take more blocks."
    if blocks * threads > MOST:
        return f"LAUNCH is {launch!r}, {blocks * threads:,} threads: here take at most {MOST:,}."
    return ""


def _small(photo: np.ndarray) -> np.ndarray:
    """The photograph with `SIDE` pixels on the longer side, an even number on the shorter."""
    scale = SIDE / max(photo.shape)
    sides = [2 * max(1, round(scale * side / 2)) for side in photo.shape]
    rows, columns = (
        np.linspace(0, given - 1, wanted).round().astype(int)
        for given, wanted in zip(photo.shape, sides, strict=True)
    )
    return np.ascontiguousarray(photo[np.ix_(rows, columns)], dtype=np.float32)


def _time(kernel: Any, launch: tuple[int, int], photo: np.ndarray) -> float | None:
    """Milliseconds of a launch for a large photograph; None without a GPU."""
    if backend.gpu() is None:
        return None
    large = np.resize(photo, LARGE * LARGE).astype(np.float32)
    there = backend.cuda.to_device(large), backend.cuda.device_array_like(large)
    return benchmark(kernel[launch], *there, samples=5, seconds=0.5).median
