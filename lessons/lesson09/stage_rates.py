"""Images a second of each stage of the pipeline alone, and of the whole: recorded, and here.

A pipeline is as fast as its slowest stage, and which one that is only measuring tells.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from course.images import images
from course.measure import recorded as measurements
from course.measure.recorded import Figure
from course.pipeline import stages
from course.pipeline.engines import Halving, choose_engine
from course.pipeline.threads import kept, one_thread, rate_of
from warpsim.wrapping import wrapped

STAGES = ("decode", "factorise", "rebuild", "write")
SIDE, RANK = 256, 50  # of the recorded images, and of those here
SAMPLE = 8  # images in memory for the stages alone
BATCH = 8  # of the few images that go through the pipeline here


@dataclass(frozen=True)
class Rates:
    """How many images a second the stages let through.

    Attributes
    ----------
    machine : str
        Where, in words.
    threads : mapping of a stage to how many threads it has in the pipeline
    one_thread : mapping of a stage to its rate with one thread [images/s]
    alone : mapping of a stage to its rate with those threads, while no other one works [images/s]
    whole : float
        Of the pipeline [images/s].
    images : int
        That went through it.
    """

    machine: str
    threads: Mapping[str, int]
    one_thread: Mapping[str, float]
    alone: Mapping[str, float]
    whole: float
    images: int

    @property
    def slowest(self) -> str:
        """The stage that sets the pace."""
        return min(self.alone, key=self.alone.__getitem__)

    @property
    def share(self) -> float:
        """What the whole reaches of the slowest stage alone."""
        return self.whole / self.alone[self.slowest]

    def __str__(self) -> str:
        lines = [wrapped(self.machine), f"{'images/s':12}{'1 thread':>10}{'in the pipeline':>19}"]
        for stage in STAGES:
            threads = f"{self.threads[stage]} thread{'s' * (self.threads[stage] != 1)}"
            mark = "  <- the slowest" if stage == self.slowest else ""
            both = f"{self.one_thread[stage]:10,.0f}{self.alone[stage]:10,.0f}"
            lines.append(f"{stage:12}{both}, {threads}{mark}")
        lines.append(
            f"{'the whole':12}{'':10}{self.whole:10,.0f}, {self.images:,} images: "
            f"{self.share:.0%} of {self.slowest} alone"
        )
        return "\n".join(lines)

    __repr__ = __str__


def recorded(gpu: str = "H200", folder: Path | None = None) -> Rates | None:
    """The rates of `python -m course bench pipeline` on a GPU's machine; None where none are."""
    figures = {
        figure.variant: figure
        for figure in measurements.recorded("pipeline", metric="rate", gpu=gpu, folder=folder)
    }
    whole = _only(figures, "whole, ")
    if whole is None:
        return None
    # The other numbers of threads are 1, and one for each core: that of the most.
    of_stage = {stage: _numbers(figures, stage) for stage in STAGES}
    cores = max(of_stage["factorise"])
    share = stages.Workers.share(cores, SIDE, SIDE, 1)
    threads = {"decode": share.decode, "factorise": share.factorise, "rebuild": 1}
    threads["write"] = share.write
    return Rates(
        f"recorded on a machine with {cores} cores and an {whole.gpu}, {whole.date}",
        threads,
        {stage: of_stage[stage][1] for stage in STAGES},
        {stage: of_stage[stage][threads[stage]] for stage in STAGES},
        whole.median,
        whole.n,
    )


def _numbers(figures: Mapping[str, Figure], stage: str) -> dict[int, float]:
    """Rates of a stage by its number of threads."""
    found = {}
    for variant, figure in figures.items():
        name, _, rest = variant.partition(", ")
        number, _, unit = rest.partition(" ")
        if name == stage and unit in ("thread", "threads") and number.isdigit():
            found[int(number)] = figure.median
    return found


def _only(figures: Mapping[str, Figure], beginning: str) -> Figure | None:
    """The row of so many threads, and of nothing else, that begins like this."""
    for variant, figure in figures.items():
        if variant.startswith(beginning) and variant.removeprefix(beginning)[:1].isdigit():
            return figure
    return None


def measure(count: int = 64, seconds: float = 0.2, side: int = SIDE, k: int = RANK) -> Rates:
    """Measure the stages and the whole on this machine, in a few seconds.

    Parameters
    ----------
    count : int
        Images that go through the pipeline.
    seconds : float
        For each stage with one number of threads.
    side, k : int
        Images of side x side pixels, rebuilt from k singular values.
    """
    with tempfile.TemporaryDirectory() as place, kept(), one_thread():
        files = _make(Path(place), count, side)
        share = stages.Workers.share(stages.cores(), side, side, 1)
        threads = {"decode": share.decode, "factorise": share.factorise, "rebuild": 1}
        threads["write"] = share.write
        works = _works(files[:SAMPLE], Path(place), side, k)
        rates = {
            stage: {n: rate_of(works[stage], n, seconds)[1] for n in sorted({1, threads[stage]})}
            for stage in STAGES
        }
        rebuild, _, name = choose_engine("auto")
        job = stages.Job((side, side), "stretch", [k], [k], Halving(rebuild), Path(place))
        todo = [stages.Task(i, file, [f"rebuilt{i}.png"]) for i, file in enumerate(files)]
        start = time.perf_counter()
        done = [one for one in stages.Line(job, todo, share, BATCH) if one.reason is None]
        whole = len(done) / (time.perf_counter() - start)
        return Rates(
            f"here: {stages.cores()} cores, {name}",
            threads,
            {stage: rates[stage][1] for stage in STAGES},
            {stage: rates[stage][threads[stage]] for stage in STAGES},
            whole,
            len(done),
        )


def _make(folder: Path, count: int, side: int) -> list[Path]:
    """Write `count` noisy pictures."""
    picture, rng = images.phantom(side), np.random.default_rng(9)
    found = []
    for number in range(count):
        noisy = picture + 0.05 * rng.standard_normal(picture.shape, dtype=np.float32)
        found.append(folder / f"image{number:04}.png")
        Image.fromarray((255 * np.clip(noisy, 0, 1)).astype(np.uint8)).save(found[-1])
    return found


def _works(files: list[Path], place: Path, side: int, k: int) -> dict:
    """For each stage what does its piece i, and says how many images that were."""
    originals = [stages.decode(file, (side, side), "stretch") for file in files]
    factors = [stages.factorise(image, k) for image in originals]
    engine = Halving(choose_engine("auto")[0])
    rebuilt = [image for (image,) in stages.rebuild(engine, factors, [k])]
    target = place / "alone"
    target.mkdir()

    def decode(i: int) -> int:
        stages.decode(files[i % len(files)], (side, side), "stretch")
        return 1

    def factorise(i: int) -> int:
        stages.factorise(originals[i % len(originals)], k)
        return 1

    def rebuild(i: int) -> int:
        return len(stages.rebuild(engine, factors, [k]))

    def write(i: int) -> int:
        stages.write(originals[i % len(files)], [rebuilt[i % len(files)]], [target / f"{i}.png"])
        return 1

    return {"decode": decode, "factorise": factorise, "rebuild": rebuild, "write": write}
