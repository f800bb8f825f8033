"""Ten thousand images: each stage of the pipeline alone, then the command beside a plain script.

The images are made from a seed: shapes, shades and textures, as PNG files of 256x256. A stage alone
works for a second or two on images in memory: with one thread, with as many as its share of the
cores, and with one for each core. The whole is timed as a program, start and end included. It is
``python -m course reconstruct``, with SVDs on the CPU and on the GPU, if there is one. Its peer is
the script of 25 lines that a user would write (course_recording/peers/plain_script.py). Rates are
images a second. Besides the kernels they depend on the CPU; the header has the number of cores.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from course import backend
from course_app.pipeline import capacity, stages
from course_app.pipeline.capacity import cores
from course_app.pipeline.engines import OnGpu, choose_engine, rebuilder
from course_lessons.lesson09.stage_rates import rate_of, share_of, works_of

IMAGES = 10_000
SIDE = 256
RANK = 50
SECONDS = 1.5  # for which each stage alone is timed
SAMPLE = 256  # images in memory for the stages alone
SEED = 2025
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "course_recording" / "peers" / "plain_script.py"


def run(bench) -> None:
    """Measure the stages, the cost of too many threads, and the whole."""
    with tempfile.TemporaryDirectory() as place:
        measure(bench, Path(place), IMAGES, SECONDS)


def measure(bench, place: Path, count: int, seconds: float) -> None:
    """Measure with `count` images and this time for each stage, in the folder `place`."""
    folder = place / "images"
    folder.mkdir()
    start = time.perf_counter()
    make_images(folder, count)
    bench.say(f"  {count} images made in {time.perf_counter() - start:.1f} s")
    files, share = sorted(folder.iterdir()), share_of(cores())
    alone = stages_alone(bench, files[:SAMPLE], place, share, seconds)
    if backend.gpu() is not None:
        gpu_alone(bench, files[:SAMPLE], seconds)
    whole(bench, folder, place, count, alone)
    threads = ", ".join(f"{stage} {number}" for stage, number in share.items())
    bench.notes.append(f"{cores()} cores, {os.cpu_count()} in the machine; threads: {threads}")


def make_images(folder: Path, count: int) -> None:
    """Write PNG files with structure: shades, ellipses with edges, waves, a little noise."""
    parts = [range(i, count, 4 * cores()) for i in range(min(count, 4 * cores()))]
    with ProcessPoolExecutor(cores(), multiprocessing.get_context("spawn")) as pool:
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
        Image.fromarray(grey).save(folder / f"image{number:05}.png")


def stages_alone(
    bench, files: list[Path], place: Path, share: dict[str, int], seconds: float
) -> dict[str, float]:
    """Rates of the stages, each with the threads that are its share of the cores."""
    engine = rebuilder(choose_engine("auto")[0])
    works = works_of(files, place, engine, SIDE, RANK, capacity.batch_for(SIDE, SIDE, [RANK]))
    found = {}
    for name, work in works.items():
        for count in sorted({1, share[name], cores()} if name != "rebuild" else {1}):
            images, rate = rate_of(work, count, seconds)
            keep(bench, f"{name}, {several(count)}", images, rate)
            if count == share[name]:
                found[name] = rate
    images, rate = rate_of(works["factorise"], cores(), seconds, as_is=True)
    threads = several(cores())
    keep(bench, f"factorise, BLAS as NumPy starts it, {threads}", images, rate)
    return found


def gpu_alone(bench, files: list[Path], seconds: float) -> None:
    """Keep the GPU's rate for stacks in memory: factorise, rebuild, judge."""
    batch = capacity.batch_for(SIDE, SIDE, [RANK])
    originals = np.stack([stages.decode(file, (SIDE, SIDE), "stretch") for file in files])
    lines = np.empty((1, batch, SIDE, 1 + SIDE), np.uint8)
    on_gpu = OnGpu((SIDE, SIDE), [RANK], batch, "gpu")

    def work(i: int) -> int:
        at = i * batch % len(originals)
        return on_gpu(originals[at : at + batch], (), lines).mse.shape[1]

    images, rate = rate_of(work, 1, seconds)
    keep(bench, "factorise, rebuild and judge on the GPU, 1 thread", images, rate)


def several(count: int, one: str = "thread", more: str = "threads") -> str:
    """Such as "1 thread", or "3 threads"."""
    return f"{count} {one if count == 1 else more}"


def keep(bench, variant: str, images: int, rate: float) -> None:
    """Keep a rate as a row."""
    bench.say(f"  {variant}: {rate:,.0f} images/s")
    shape = f"{SIDE}x{SIDE}x{RANK}"
    bench.figure("pipeline", variant, shape, "float32", "rate", "images/s", rate, images)


def whole(bench, folder: Path, place: Path, count: int, alone: dict[str, float]) -> None:
    """Time the course's program and the plain script; compare with the slowest stage."""
    shape, processes = f"{SIDE}x{SIDE}x{RANK}", several(cores(), "process", "processes")
    words = [SCRIPT, folder, place / "plain", cores(), RANK]
    script = count / seconds_of(words)[0]
    keep(bench, f"plain script, {processes}", count, script)
    rates = {}
    for svd in ("cpu", "gpu") if backend.gpu() is not None else ("cpu",):
        words = ["-m", "course", "reconstruct", folder, "--k", RANK, "--size", SIDE, "--svd", svd]
        seconds, said = seconds_of([*words, "--quiet", "--json", "--out", place / f"out-{svd}"])
        report = json.loads(said)
        if report["rebuilt"] != count:
            bench.failures.append(f"{report['rebuilt']} of {count} images were rebuilt")
            return
        rates[svd] = count / seconds
        variant = f"reconstruct_images, svd {svd}"
        keep(bench, f"{variant}, {processes}", count, rates[svd])
        ratio = rates[svd] / script
        bench.figure(
            "pipeline", variant, shape, "float32", "speed of the script", "relative", ratio
        )
        bench.say(f"  {variant}: {ratio:.2f} times the plain script; {report['engine']}")
    slowest = min(alone, key=alone.__getitem__)
    of_slowest = rates["cpu"] / alone[slowest]
    metric = "share of the slowest stage"
    bench.figure("pipeline", "whole", shape, "float32", metric, "relative", of_slowest)
    bench.notes.append(f"{count} images; of the stages {slowest} is the slowest on its threads")


def seconds_of(words: Sequence[object]) -> tuple[float, str]:
    """How long a Python program takes, from its start to its end, and what it prints."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *map(str, words)], env=os.environ | {"PYTHONPATH": path}, check=True,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return time.perf_counter() - start, done.stdout
