"""Images a second of each stage alone, on threads, and of the package's pipeline: recorded, here.

A pipeline of threads is as fast as its slowest stage, and which one that is only measuring tells.
The package has the same work done by processes, each of which takes an image through all stages.
"""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from course.images import images
from course.measure import recorded as measurements
from course.measure.recorded import Figure
from course_app.pipeline import quality, stages
from course_app.pipeline.capacity import cores
from course_app.pipeline.engines import Rebuild, choose_engine, rebuilder
from course_app.pipeline.scheduler import Scheduler
from course_app.pipeline.threads import kept, one_thread
from course_app.pipeline.workers import Workers
from warpsim.core.words import wrapped

STAGES = ("decode", "factorise", "rebuild", "write")
#: CPU time of the stages in proportion, one image of 256x256 and one k; a GPU's thread rebuilds.
COSTS = {"decode": 1, "factorise": 7, "write": 4}
SIDE, RANK = 256, 50  # of the recorded images, and of those here
SAMPLE = 8  # images in memory for the stages alone
BATCH = 8  # images that are rebuilt together


@dataclass(frozen=True)
class Rates:
    """How many images a second the stages let through.

    Attributes
    ----------
    machine : str
        Where, in words.
    threads : mapping of a stage to how many threads are its share of the cores
    one_thread : mapping of a stage to its rate with one thread [images/s]
    alone : mapping of a stage to its rate with those threads, while no other one works [images/s]
    whole : float
        Of the package's pipeline [images/s].
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
        lines = [
            wrapped(self.machine),
            f"{'images/s':12}{'1 thread':>10}{'its share of cores':>22}",
        ]
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
    whole = _only(figures, "reconstruct_images, svd cpu, ") or _only(figures, "whole, ")
    if whole is None:
        return None
    # The other numbers of threads are 1, and one for each core: that of the most.
    of_stage = {stage: _numbers(figures, stage) for stage in STAGES}
    there = max(of_stage["factorise"])
    threads = {
        stage: next((n for n in sorted(its) if 1 < n < there), share_of(there)[stage])
        for stage, its in of_stage.items()
    }
    return Rates(
        f"recorded on a machine with {there} cores and an {whole.gpu}, {whole.date}",
        threads,
        {stage: of_stage[stage][1] for stage in STAGES},
        {stage: of_stage[stage][threads[stage]] for stage in STAGES},
        whole.median,
        whole.n,
    )


def share_of(count: int) -> dict[str, int]:
    """So many cores shared among the stages as their work is, a thread for each; at least one."""
    a_core = sum(COSTS.values()) / count
    share = {stage: max(1, round(cost / a_core)) for stage, cost in COSTS.items()}
    return {stage: share.get(stage, 1) for stage in STAGES}


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
        kind, name = choose_engine("auto")
        threads = share_of(cores())
        works = works_of(files[:SAMPLE], Path(place), rebuilder(kind), side, k, BATCH)
        rates = {
            stage: {n: rate_of(works[stage], n, seconds)[1] for n in sorted({1, threads[stage]})}
            for stage in STAGES
        }
        return Rates(
            f"here: {cores()} cores, {name}",
            threads,
            {stage: rates[stage][1] for stage in STAGES},
            {stage: rates[stage][threads[stage]] for stage in STAGES},
            _whole(files, Path(place), kind, side, k),
            count,
        )


def rate_of(
    work: Callable[[int], int], threads: int, seconds: float, as_is: bool = False
) -> tuple[int, float]:
    """Let threads work side by side for some seconds: images done, images a second.

    Parameters
    ----------
    work : callable
        Does chunk i, returns how many images that were.
    as_is : bool
        Leave the linear algebra's threads as they are.
    """
    numbers, done, lock = itertools.count(), [], threading.Lock()
    ready = threading.Barrier(threads + 1)

    def loop() -> None:
        ready.wait()
        mine = 0
        while time.perf_counter() < end:
            with lock:
                number = next(numbers)
            mine += work(number)
        done.append(mine)

    with nullcontext() if as_is else one_thread(), nullcontext() if as_is else kept():
        work(0)
        end = time.perf_counter() + seconds
        pool = [threading.Thread(target=loop, daemon=True) for _ in range(threads)]
        for thread in pool:
            thread.start()
        start = time.perf_counter()
        end = start + seconds
        ready.wait()
        for thread in pool:
            thread.join()
        return sum(done), sum(done) / (time.perf_counter() - start)


def _whole(files: list[Path], place: Path, kind: str, side: int, k: int) -> float:
    """Images a second of the package's pipeline, from the first image that is done to the last."""
    job = stages.Job((side, side), "stretch", [k], [k], place, kind)
    todo = [stages.Task(i, file, [f"rebuilt{i}.png"]) for i, file in enumerate(files)]
    with Workers(cores()) as workers:
        times = [time.perf_counter() for _ in Scheduler(job, todo, workers, BATCH)]
    return (len(times) - 1) / (times[-1] - times[0])


def _make(folder: Path, count: int, side: int) -> list[Path]:
    """Write `count` noisy pictures."""
    picture, rng = images.phantom(side), np.random.default_rng(9)
    found = []
    for number in range(count):
        noisy = picture + 0.05 * rng.standard_normal(picture.shape, dtype=np.float32)
        found.append(folder / f"image{number:04}.png")
        Image.fromarray((255 * np.clip(noisy, 0, 1)).astype(np.uint8)).save(found[-1])
    return found


def works_of(
    files: list[Path], place: Path, engine: Rebuild, side: int, k: int, batch: int
) -> dict[str, Callable[[int], int]]:
    """For each stage what does its piece i, and says how many images that were."""
    originals = [stages.decode(file, (side, side), "stretch") for file in files]
    factors = [stages.factorise(image, k) for image in originals]
    stack = [np.stack(parts) for parts in zip(*factors[:batch], strict=True)]
    (rebuilt,) = engine(*stack, [k])
    target = place / "alone"
    target.mkdir()

    def decode(i: int) -> int:
        stages.decode(files[i % len(files)], (side, side), "stretch")
        return 1

    def factorise(i: int) -> int:
        stages.factorise(originals[i % len(files)], k)
        return 1

    def rebuild(i: int) -> int:
        (found,) = engine(*stack, [k])
        return len(found)

    def write(i: int) -> int:
        at = i % len(rebuilt)
        found = quality.quality_of(originals[at], [rebuilt[at]])
        stages.save([its.lines for its in found], [target / f"{i}.png"])
        return 1

    return {"decode": decode, "factorise": factorise, "rebuild": rebuild, "write": write}
