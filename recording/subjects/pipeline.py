"""Ten thousand images through the pipeline: each stage alone, then all of them together.

The images are made from a seed: shapes, shades and textures, as PNG files of 256x256. A stage alone
works on what lies in memory, for a second or two, on one thread, on those that it has in the
pipeline, and on one for each core. The whole is what `reconstruct_images` takes from the list of
files to the report; with a GPU, once more with the SVDs there. Rates are in images a second. Apart
from the kernels, the machine's CPU decides: the header says how many cores there are.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from course import backend
from course.images import quality
from course.measure.recorded import Figure
from course.pipeline import pipeline, stages
from course.pipeline import threads as blas
from course.pipeline.engines import GpuFactors, Halving, choose_engine
from course.pipeline.threads import rate_of

IMAGES = 10_000
SIDE = 256
RANK = 50
SECONDS = 1.5  # of each stage alone
SAMPLE = 256  # images in memory for the stages alone
SEED = 2025


def run(bench) -> None:
    """Measure the stages, the cost of too many threads, and the whole."""
    with tempfile.TemporaryDirectory() as place:
        measure(bench, Path(place), IMAGES, SECONDS)


def measure(bench, place: Path, count: int, seconds: float) -> None:
    """The same for other numbers of images and seconds, in a folder."""
    folder = place / "images"
    folder.mkdir()
    start = time.perf_counter()
    make_images(folder, count)
    bench.say(f"  {count} images made in {time.perf_counter() - start:.1f} s")
    files = sorted(folder.iterdir())
    cores = stages.cores()
    share = stages.Workers.share(cores, SIDE, SIDE, 1)
    alone = stages_alone(bench, files[:SAMPLE], place, share, cores, seconds)
    whole(bench, folder, place / "out", count, alone)
    if backend.gpu() is not None:
        with_gpu_svds(bench, folder, place / "out-gpu", files[:SAMPLE], seconds)
    bench.notes.append(f"{cores} cores, {os.cpu_count()} in the machine; threads: {share}")


def make_images(folder: Path, count: int) -> None:
    """Write PNG files with structure: shades, ellipses with edges, waves, a little noise."""
    parts = [range(i, count, 4 * stages.cores()) for i in range(min(count, 4 * stages.cores()))]
    with ProcessPoolExecutor(stages.cores(), multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_make, [folder] * len(parts), parts))


def _make(folder: Path, numbers: range) -> None:
    down, across = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j].astype(np.float32)
    for number in numbers:
        rng = np.random.default_rng((SEED, number))
        picture = 0.4 + 0.2 * (down * rng.uniform(-1, 1) + across * rng.uniform(-1, 1))
        for _ in range(6):
            y, x, height, width, shade = rng.uniform(
                (-1, -1, 0.1, 0.1, -0.4), (1, 1, 0.7, 0.7, 0.4)
            )
            picture += shade * (((down - y) / height) ** 2 + ((across - x) / width) ** 2 < 1)
        a, b, c = rng.uniform((5, 5, 0), (40, 40, 6))
        picture += 0.1 * np.sin(a * down + b * across * down + c)
        picture += 0.02 * rng.standard_normal(picture.shape, dtype=np.float32)
        grey = (255 * np.clip(picture, 0, 1)).astype(np.uint8)
        (folder / f"image{number:05}.png").write_bytes(quality.png(grey))


def stages_alone(
    bench, files: list[Path], place: Path, share: stages.Workers, cores: int, seconds: float
) -> dict[str, float]:
    """Rates of the stages, each with the threads that it has in the pipeline."""
    size = SIDE, SIDE
    originals = [stages.decode(file, size, "stretch") for file in files]
    with blas.one_thread(), ThreadPoolExecutor(cores) as pool:
        factors = list(pool.map(lambda image: stages.factorise(image, RANK), originals))
    engine = Halving(choose_engine("auto")[0])
    batch = stages.batch_for(*size, [RANK])
    rebuilt = [image for (image,) in stages.rebuild(engine, factors[:batch], [RANK])]
    target = place / "alone"
    target.mkdir()

    def decode(i: int) -> int:
        stages.decode(files[i % len(files)], size, "stretch")
        return 1

    def factorise(i: int) -> int:
        stages.factorise(originals[i % len(originals)], RANK)
        return 1

    def rebuild(i: int) -> int:
        at = i * batch % len(factors)
        return len(stages.rebuild(engine, factors[at : at + batch], [RANK]))

    def write(i: int) -> int:
        at = i % len(rebuilt)
        stages.write(originals[at], [rebuilt[at]], [target / f"{i}.png"])
        return 1

    found = {}
    works = (
        ("decode", decode, share.decode),
        ("factorise", factorise, share.factorise),
        ("rebuild", rebuild, 1),
        ("write", write, share.write),
    )
    for name, work, threads in works:
        for count in sorted({1, threads, cores} if name != "rebuild" else {1}):
            images, rate = rate_of(work, count, seconds)
            keep(bench, name, count, images, rate)
            if count == threads:
                found[name] = rate
    images, rate = rate_of(factorise, cores, seconds, as_is=True)
    keep(bench, "factorise, BLAS as NumPy starts it", cores, images, rate)
    return found


def keep(bench, stage: str, threads: int, images: int, rate: float) -> None:
    """A rate as a row."""
    bench.say(f"  {stage}, {threads} threads: {rate:,.0f} images/s")
    text = f"{stage}, {threads} thread{'' if threads == 1 else 's'}"
    shape = f"{SIDE}x{SIDE}x{RANK}"
    bench.rows.append(
        Figure("pipeline", text, shape, "float32", "rate", "images/s", rate, rate, rate, images)
    )


def whole(bench, folder: Path, out: Path, count: int, alone: dict[str, float]) -> None:
    """The pipeline, from the folder to the report, beside its slowest stage."""
    times: list[float] = []

    def progress(files):
        for file in files:
            times.append(time.perf_counter())
            yield file

    start, cpu = time.perf_counter(), time.process_time()
    report = pipeline.reconstruct_images([folder], [RANK], out, size=SIDE, progress=progress)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    if len(report.qualities) != count:
        bench.failures.append(f"{len(report.qualities)} of {count} images were rebuilt")
        return
    threads = stages.Workers.share(stages.cores(), SIDE, SIDE, 1)
    total = threads.decode + threads.factorise + 1 + threads.write
    keep(bench, "whole", total, count, count / seconds)
    keep(bench, "whole, without start and end", total, count, (count - 1) / (times[-1] - times[0]))
    slowest = min(alone, key=alone.__getitem__)
    shape = f"{SIDE}x{SIDE}x{RANK}"
    for metric, unit, value in (
        ("share of the slowest stage", "relative", count / seconds / alone[slowest]),
        ("CPU time an image", "ms", 1e3 * cpu / count),
        ("cores busy", "cores", cpu / seconds),
    ):
        bench.figure("pipeline", "whole", shape, "float32", metric, unit, value)
        bench.say(f"  whole: {metric} {value:.3g} {unit}")
    bench.notes.append(f"{count} images; the bottleneck is the stage {slowest}")


def with_gpu_svds(bench, folder: Path, out: Path, files: list[Path], seconds: float) -> None:
    """The second stage on the GPU, alone, from memory to memory; and the whole with it."""
    size, batch = (SIDE, SIDE), stages.batch_for(SIDE, SIDE, [RANK])
    originals = [stages.decode(file, size, "stretch") for file in files]
    factors = GpuFactors(batch, RANK)

    def factorise(i: int) -> int:
        at = i * batch % len(originals)
        return len(factors(originals[at : at + batch]))

    images, rate = rate_of(factorise, 1, seconds)
    keep(bench, "factorise on the GPU", 1, images, rate)
    start = time.perf_counter()
    report = pipeline.reconstruct_images([folder], [RANK], out, size=SIDE, svd="gpu")
    seconds, count = time.perf_counter() - start, len(report.qualities)
    threads = stages.Workers.share(stages.cores(), SIDE, SIDE, 1, "gpu")
    total = threads.decode + 2 + threads.write
    keep(bench, "whole, SVDs on the GPU", total, count, count / seconds)
