"""More than one GPU: strong and weak scaling of batches on workers with a GPU each.

Batches are made from a seed on the workers and stay there. Only digests return, 8 bytes an image,
which must equal those of one worker. A batch of large images takes a worker long; a small batch of
small images takes hardly anything, so that its time is the cost of handing out a batch. Also timed:
the start of the workers, batches without work, and batches whose data is sent to the workers.

Rows: kernel says what is scaled, variant the number of workers, shape is images in a batch x rows x
columns x k. The serial part is measured directly: `course_lessons.lesson12.scaling.Parts`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from course import backend
from course.driver import read_driver
from course_app.cluster import work
from course_app.cluster.group import Group, Recipe, cluster, rebuilt, rebuilt_digests, recipes
from course_lessons.lesson12.scaling import Parts, Scaling, timed_map, variant

CHARTS = "course_lessons.lesson12.plots"  # beside the file
WORKERS = (1, 2, 4)
MEMORY = 0.4  # share of a GPU's free memory that batches may fill
AHEAD = 16  # batches in flight for each worker: they are small messages
EMPTY = 400  # batches without work
LEEWAY = 1.02  # how far above the measured roof a rate may be
LIMIT = 1e-6  # relative Frobenius error of a float32 reconstruction


@dataclass(frozen=True)
class Case:
    """A kind of batches.

    Attributes
    ----------
    images : int
        In a batch. Where memory does not suffice, a batch has fewer, a power of two.
    rows, columns, k : int
    kept : int
        Batches that the workers keep: all together in strong scaling, each in weak scaling.
    passes : int
        How often a run rebuilds each batch.
    runs : int
        How many runs are timed.
    """

    images: int
    rows: int
    columns: int
    k: int
    kept: int
    passes: int
    runs: int

    def batches(self, count: int, free: int) -> list[Recipe]:
        """`count` batches, with as many images each as fit: `kept` batches in `free` bytes."""
        one = Recipe(0, 1, self.rows, self.columns, self.k).bytes
        fit = int(MEMORY * free / (one * self.kept)) if free else self.images
        images = self.images if fit >= self.images else 1 << max(fit, 1).bit_length() - 1
        return recipes(count * images, images, self.rows, self.columns, self.k)


CASES = (
    Case(1024, 2048, 2048, 128, kept=16, passes=3, runs=3),
    Case(16384, 256, 256, 50, kept=16, passes=8, runs=3),
    Case(256, 256, 256, 50, kept=256, passes=1, runs=5),
)


def run(bench) -> None:
    """Measure with as many GPUs as there are."""
    gpus = len(read_driver().devices)
    counts = [count for count in WORKERS if count <= gpus]
    if counts[-1] == 1:
        bench.notes.append("one GPU: nothing to scale to")
    measure(bench, counts, CASES)


def measure(bench, counts: Sequence[int], cases: Sequence[Case], gpus: bool | None = None) -> None:
    """Measure with these numbers of workers and these cases; `gpus` false: on CPU workers."""
    bench.notes.append(f"Dask {backend.installed_version('distributed')}")
    for count in counts[:-1]:
        begin = time.perf_counter()
        with cluster(count, gpus=gpus, dask_cuda=False):
            keep_start(bench, count, time.perf_counter() - begin)
    begin = time.perf_counter()
    with cluster(counts[-1], gpus=gpus, dask_cuda=False) as group:
        keep_start(bench, counts[-1], time.perf_counter() - begin)
        bench.notes += [f"worker {one.worker}: {one.gpu or 'CPU'}" for one in group.seen]
        tasks = [partial(empty, bench, group, counts)]
        tasks += [partial(scaling, bench, group, counts, case) for case in cases]
        tasks.append(partial(travelling, bench, group, counts, cases[-1]))
        for task in tasks:
            try:
                task()
            except Exception as problem:  # the other parts are still measured
                bench.fail(task.func.__name__, problem)


def keep_start(bench, workers: int, seconds: float) -> None:
    """Time until all workers run a kernel, as a row."""
    bench.say(f"  start of {variant(workers)}: {seconds:.1f} s")
    bench.figure("start of workers", variant(workers), "", "", "time", "ms", 1e3 * seconds)


def empty(bench, group: Group, counts: Sequence[int]) -> None:
    """Time batches without work: messages to the worker and from it, and Dask's bookkeeping."""
    for count in counts:
        part = group.part(count)
        times = []
        for _ in range(4):
            _, its = timed_map(part, work.nothing, range(EMPTY), ahead=AHEAD)
            times.append(its.total / EMPTY)
        median = bench.spread("empty batch", variant(count), "", "", "time", "ms", times[1:])
        bench.say(f"  a batch without work, {variant(count)}: {median:.3f} ms")


def scaling(bench, group: Group, counts: Sequence[int], case: Case) -> None:
    """Strong and weak scaling of a case."""
    free = min(one.memory for one in group.seen)
    (trial,) = case.batches(1, free)
    shape = f"{trial.images}x{case.rows}x{case.columns}x{case.k}"
    begin = time.perf_counter()
    group.on_each(
        rebuilt_digests, Recipe(0, min(trial.images, 32), case.rows, case.columns, case.k)
    )
    taken = 1e3 * (time.perf_counter() - begin)
    bench.figure("first batch", variant(counts[-1]), shape, "float32", "time", "ms", taken)
    error = error_of(bench, group, case)
    if error > LIMIT:
        bench.failures.append(f"{shape}: the relative error is {error:.3g}; {LIMIT:g} is allowed")
        return
    bench.figure("strong scaling", variant(1), shape, "float32", "error", "relative", error)

    strong = {n: timed(bench, group.part(n), case, case.kept, free) for n in counts}
    same(bench, f"strong scaling {shape}", {n: digests for n, (digests, _) in strong.items()})
    # with one worker weak and strong scaling have the same work
    weak = {n: timed(bench, group.part(n), case, case.kept * n, free) for n in counts if n > 1}
    weak = {1: strong[1], **weak}
    same(bench, f"weak scaling {shape}", {n: digests for n, (digests, _) in weak.items()})
    keep_law(bench, "strong", shape, case, trial.images, {n: its for n, (_, its) in strong.items()})
    keep_law(bench, "weak", shape, case, trial.images, {n: its for n, (_, its) in weak.items()})
    if not bench.failures:
        keep_predictions(bench, shape, counts)


def error_of(bench, group: Group, case: Case) -> float:
    """The largest relative Frobenius error of an image on each worker, against float64."""
    recipe = Recipe(5, 1, case.rows, case.columns, case.k)
    u, s, vt = (part[0].astype(np.float64) for part in numpy_factors(recipe))
    expected = (u[:, : case.k] * s[: case.k]) @ vt[: case.k]
    found = group.on_each(rebuilt, recipe)
    if any(not np.array_equal(one, found[0]) for one in found):
        bench.failures.append(f"{case}: workers give different images")
    errors = [np.linalg.norm(one[0] - expected) / np.linalg.norm(expected) for one in found]
    return float(max(errors))


def timed(bench, part: Group, case: Case, count: int, free: int) -> tuple[Any, list[Parts]]:
    """Rebuild `count` batches on all workers of a part: digests, and the times of the runs."""
    batches = case.batches(count, free)
    kept = part.keep(batches)
    found: list[Parts] = []
    digests: list[np.ndarray] = []
    for _ in range(case.runs + 1):  # the first is to warm up
        results, its = timed_map(part, rebuilt_digests, kept * case.passes, ahead=AHEAD)
        found.append(its)
        digests.append(np.concatenate(results))
    if any(not np.array_equal(one, digests[0]) for one in digests):
        bench.failures.append(f"{case}, {len(part)} workers: two runs gave different images")
    once = digests[0].size // case.passes
    if any(not np.array_equal(one, digests[0][:once]) for one in np.split(digests[0], case.passes)):
        bench.failures.append(f"{case}, {len(part)} workers: two passes gave different images")
    return digests[0][:once], found[1:]


def same(bench, what: str, digests: dict[int, np.ndarray]) -> None:
    """Compare digests with one worker's; with more work, those of the images that both have."""
    one = digests[1]
    for count, its in digests.items():
        if not np.array_equal(its[: one.size], one):
            bench.failures.append(f"{what}: {count} workers gave other images than one")


def keep_law(
    bench, law: str, shape: str, case: Case, images: int, found: dict[int, list[Parts]]
) -> None:
    """Keep the runs of strong or weak scaling as rows."""
    kernel = f"{law} scaling"
    for count, its in found.items():
        total = images * case.kept * case.passes * (count if law == "weak" else 1)
        times, key = [one.total for one in its], (kernel, variant(count), shape, "float32")
        median = float(np.median(times))
        one = Recipe(0, 1, case.rows, case.columns, case.k).bytes + 4 * case.rows * case.columns
        if bench.roofs and total * one / median * 1e-6 > LEEWAY * count * bench.roofs.bandwidth:
            bench.failures.append(
                f"{kernel} {shape}, {variant(count)}: {median:.3g} ms is less than the memory needs"
            )
            continue
        operations = 2.0 * case.rows * case.columns * case.k * total
        bench.spread(*key, "time", "ms", times, operations=operations)
        bench.say(f"  {law}, {shape}, {variant(count)}: {median:,.1f} ms, "
                  f"{1e3 * total / median:,.0f} images/s")  # fmt: skip
        for metric, unit, values in (
            ("rate", "images/s", [1e3 * total / its for its in times]),
            ("start", "ms", [one.start for one in its]),
            ("gathering", "ms", [one.gathering for one in its]),
            ("working", "ms", [one.working for one in its]),
            ("waiting", "relative", [one.waiting / one.total for one in its]),
            ("serial fraction", "relative", [one.serial_share for one in its]),
        ):
            bench.spread(*key, metric, unit, values)


def keep_predictions(bench, shape: str, counts: Sequence[int]) -> None:
    """Keep speed-ups beside the predictions of Amdahl's and Gustafson's laws, as rows."""
    rows = {(row.kernel, row.variant, row.metric): row.median
            for row in bench.rows if row.shape == shape}  # fmt: skip
    its = Scaling(
        shape,
        {n: rows["strong scaling", variant(n), "time"] for n in counts},
        {n: rows["weak scaling", variant(n), "time"] for n in counts},
        rows["strong scaling", variant(1), "serial fraction"],
    )
    for count in counts[1:]:
        for law, metric, unit, value in (
            ("strong", "speed-up", "times", its.speedup(count)),
            ("strong", "Amdahl", "times", its.amdahl(count)),
            ("strong", "Karp-Flatt", "relative", its.karp_flatt(count)),
            ("weak", "scaled speed-up", "times", its.scaled_speedup(count)),
            ("weak", "Gustafson", "times", its.gustafson(count)),
        ):
            bench.figure(f"{law} scaling", variant(count), shape, "float32", metric, unit, value)
        bench.say(
            f"  {shape}, {variant(count)}: {its.speedup(count):.2f} times as fast (Amdahl "
            f"{its.amdahl(count):.2f}), {its.scaled_speedup(count):.2f} times as much (Gustafson "
            f"{its.gustafson(count):.2f})"
        )


def travelling(bench, group: Group, counts: Sequence[int], case: Case) -> None:
    """Time batches whose factors are sent to the worker, and whose images are sent back."""
    recipe = Recipe(0, min(case.images, 128), case.rows, case.columns, case.k)
    batch = tuple(np.ascontiguousarray(np.asarray(part)) for part in numpy_factors(recipe))
    count = min(case.kept, 8)  # 1 GB sent and returned
    shape = f"{recipe.images}x{case.rows}x{case.columns}x{case.k}"
    moved = count * (
        sum(part.nbytes for part in batch) + 4 * recipe.images * case.rows * case.columns
    )
    expected = None
    for workers in counts:
        part, times = group.part(workers), []
        for _ in range(3):
            results, its = timed_map(part, work.rebuild, [batch] * count, case.k)
            times.append(its.total)
            expected = results[0] if expected is None else expected
            if any(not np.array_equal(one, expected) for one in results):
                bench.failures.append(f"travelling {shape}: {workers} workers differ from one")
        key = "travelling batches", variant(workers), shape, "float32"
        median = bench.spread(*key, "time", "ms", times[1:], bytes=moved)
        rate = 1e3 * count * recipe.images / median
        bench.figure(*key, "rate", "images/s", rate)
        bench.say(f"  travelling, {variant(workers)}: {rate:,.0f} images/s, "
                  f"{moved / median * 1e-6:.2f} GB/s")  # fmt: skip


def numpy_factors(recipe: Recipe) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The factors of a recipe in this process's memory."""
    its = work.make(recipe, "numpy")
    return its.u, its.s, its.vt
