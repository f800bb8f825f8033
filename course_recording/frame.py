"""What all subjects of ``python -m course bench`` share: check a program, time it, keep its rows.

`course_recording.subjects` says what is timed. A program's figure is kept only if its result is
right: compared with float64, on random inputs, in an output that held NaN before. A figure above
the GPU's measured roofs is refused. Each subject's file is written as soon as the subject is done.
Until then the finished parts of a long subject are kept beside that file, so that the same command
goes on where it was stopped. Parts can also be measured alone; the file's other rows stay.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from course import backend
from course.files import write_whole
from course.measure import recorded
from course.measure.recorded import Figure, Recording
from course.measure.roofline import Roofs
from course.measure.timing import Timing, compiled_versions, measure
from course_recording.kept_rows import Unfinished, beside_others, sources

Item = TypeVar("Item")

#: Largest relative Frobenius error of a float32 program that sums a few thousand products.
FLOAT32_LIMIT = 1e-6
SEED = 2025


class WrongResult(ValueError):
    """A program's result is not what float64 says; its time would mean nothing."""


class Bench:
    """What a subject works with: check, time, peers, rows.

    Parameters
    ----------
    subject : str
    roofs : Roofs
        Measured on this GPU, in this process.
    say : callable
        Shows a line of text to the reader.
    folder : Path, optional
        Where a subject may write files of its own beside its rows, such as timelines.
    unfinished : Unfinished, optional
        What a stopped run has measured.
    only : collection of str, optional
        The parts to measure; without it all.
    seed : int
        Seed of random inputs, and of shapes that are drawn.

    Attributes
    ----------
    rng : numpy.random.Generator
        Seeded; for inputs.
    rows : list of Figure
    failures, notes : list of str
        What went wrong; what was left out, and why.
    of_parts : dict
        Rows of each part that was measured.
    passed_over : list of str
        Parts that `only` leaves out.
    keep : callable
        Called when a part that `only` names is done.
    """

    def __init__(
        self, subject: str, roofs: Roofs, say: Callable[[str], None] = print,
        folder: Path | None = None, unfinished: Unfinished | None = None,
        only: Collection[str] = (), seed: int = SEED,
    ):  # fmt: skip
        self.subject, self.roofs, self.say, self.folder = subject, roofs, say, folder
        self.unfinished = unfinished or Unfinished()
        self.cuda = backend.cuda
        self.seed, self.rng = seed, np.random.default_rng(seed)
        self.rows: list[Figure] = []
        self.failures: list[str] = []
        self.notes: list[str] = []
        self.only, self.of_parts, self.passed_over = frozenset(only), {}, []
        self.keep: Callable[[], Any] = lambda: None

    def random(self, *shape: int, dtype: Any = np.float32) -> np.ndarray:
        """A host array of uniform random numbers from -0.5 to 0.5."""
        return (self.rng.random(shape, dtype=np.float32) - np.float32(0.5)).astype(dtype)

    def parts(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items such as sizes, each a part: its rows are kept when the next part begins.

        A part that a stopped run has measured is not measured again: its rows and notes are taken.
        A part in which something failed, or that gave no row, is not kept.
        """
        for item in items:
            name = str(item)
            if self.only and name not in self.only:
                self.passed_over.append(name)
                continue
            if name in self.unfinished.parts:
                rows, notes = self.unfinished.parts[name]
                self.rows += rows
                notes = [*notes, f"{name}: measured in an earlier run that was stopped"]
                self.notes += [note for note in notes if note not in self.notes]
                self.say(f"  {name}: measured before this run, {len(rows)} rows are taken")
                continue
            first, noted, failed = len(self.rows), len(self.notes), len(self.failures)
            yield item
            self.of_parts[name] = self.rows[first:]
            if self.only and len(self.rows) > first:
                self.keep()
            if len(self.failures) == failed and len(self.rows) > first:
                self.unfinished.add(name, self.rows[first:], self.notes[noted:])

    def note(self, text: str) -> None:
        """Note something, once, such as what is not measured here and why, and say it."""
        if text not in self.notes:
            self.notes.append(text)
            self.say(f"  {text}")

    def fail(self, what: str, problem: Exception) -> None:
        """Keep, and say, that something failed; whatever it raised, the others are measured."""
        self.failures.append(f"{what}: {backend.one_line(problem, 400)}")
        self.say(f"  FAILED {self.failures[-1]}")

    # ------------------------------------------------------------------ one program
    def variant(
        self,
        kernel: str,
        variant: str,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        *,
        expected: Any,
        shape: str,
        out: Any = None,
        dtype: str = "float32",
        limit: float = FLOAT32_LIMIT,
        bytes: float | None = None,
        operations: float | Mapping[str, float] | None = None,
        needed: float | None = None,
        warm: bool = False,
        registers: bool = True,
    ) -> Timing | None:
        """Check a program, time it, keep what was found; a failure stops nothing else.

        Rows: time, error, launch (on the host), first call (where it compiled), registers and
        local memory (of a Numba kernel).

        Parameters
        ----------
        kernel, variant, shape, dtype : str
            What a row is of, see `course.measure.recorded.Figure`.
        call, args
            ``call(*args)`` does the work: ``kernel[grid, block]``, or a function such as CuPy's.
            Arrays among the arguments lie on the device.
        expected : ndarray of float64, of NumPy or CuPy
            The right result. With CuPy's the comparison is done on the GPU.
        out : device array, optional
            The one of `args` that receives the result. Without it the call returns the result.
        limit : float
            Largest relative Frobenius error; 0 where the result must be exact.
        bytes, operations : optional
            Bytes moved, and operations by pipe, as in `course.measure.roofline.bound`. Three
            products on tensor cores are ``{"tensor_float16": 3 * 2 * m * n * k}``.
        needed : float, optional
            Operations that the work needs, where the program does more; the rows hold this number.
        warm : bool
            Let the data stay in L2.
        registers : bool
            Keep registers and local memory, where the program is a Numba kernel.

        Returns
        -------
        Timing or None
            None where the program failed; `failures` then says how.
        """
        from course.measure.event_clock import clock

        try:
            before = compiled_versions(call)
            first_call = clock().wall(lambda: call(*args))
            compiled = before is not None and compiled_versions(call) > before
            error = self.check(call, args, expected, out=out, limit=limit)
            timing = self.time(
                call, args, bytes=bytes, operations=operations, warm=warm, name=variant
            )
        except Exception as problem:  # whatever a program raises, the others are still measured
            self.fail(f"{kernel} {variant} {shape}", problem)
            return None
        if needed is not None:
            timing = dataclasses.replace(timing, operations={dtype: needed})
        self.row(kernel, variant, shape, dtype, timing)
        self.figure(kernel, variant, shape, dtype, "error", "relative", error)
        self.figure(kernel, variant, shape, dtype, "launch", "ms", timing.launch)
        if compiled:
            self.figure(kernel, variant, shape, dtype, "first call", "ms", first_call)
        if registers:
            for metric, unit, amount in compiled_facts(call):
                self.figure(kernel, variant, shape, dtype, metric, unit, amount)
        return timing

    def check(
        self,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        expected: Any,
        *,
        out: Any = None,
        limit: float = FLOAT32_LIMIT,
    ) -> float:
        """Run a program once into a poisoned output; return the relative Frobenius error.

        Raises
        ------
        WrongResult
            When elements were not written or the error is above the limit.
        """
        if out is not None:
            poison(out, self.cuda)
        returned = call(*args)
        self.cuda.synchronize()
        return judged(returned if out is None else out, expected, limit, self.cuda)

    def time(
        self,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        *,
        bytes: float | None = None,
        operations: float | Mapping[str, float] | None = None,
        warm: bool = False,
        samples: int = 30,
        seconds: float = 1.0,
        name: str = "",
    ) -> Timing:
        """Time a program as `course.benchmark` does, against this GPU's measured roofs."""
        from course.measure.event_clock import clock

        return measure(
            clock(), call, args, bytes=bytes, operations=operations, roofs=self.roofs, warm=warm,
            samples=samples, seconds=seconds, name=name,
        )  # fmt: skip

    # ------------------------------------------------------------------ rows
    def row(
        self, kernel: str, variant: str, shape: str, dtype: str, timing: Timing,
        metric: str = "time",
    ) -> Figure:  # fmt: skip
        """Keep a timing as a row."""
        done = None
        if timing.operations:
            done = sum(n for k, n in timing.operations.items() if k not in ("integer", "special"))
        figure = Figure(
            kernel, variant, shape, dtype, metric, "ms", timing.median, timing.q1, timing.q3,
            timing.n, timing.bytes, done,
        )  # fmt: skip
        self.rows.append(figure)
        self.say(f"  {recorded.table([figure])[0].strip()}")
        return figure

    def figure(
        self, kernel: str, variant: str, shape: str, dtype: str, metric: str, unit: str,
        value: float, n: int = 1,
    ) -> None:  # fmt: skip
        """Keep one number as a row; it is of `n` samples."""
        value = float(value)
        self.rows.append(
            Figure(kernel, variant, shape, dtype, metric, unit, value, value, value, n)
        )

    def spread(
        self, kernel: str, variant: str, shape: str, dtype: str, metric: str, unit: str,
        values: Sequence[float], bytes: float | None = None, operations: float | None = None,
    ) -> float:  # fmt: skip
        """Keep the median and the quartiles of some values as a row; returns the median."""
        q1, median, q3 = map(float, np.percentile(values, (25, 50, 75)))
        about = metric, unit, median, q1, q3, len(values), bytes, operations
        self.rows.append(Figure(kernel, variant, shape, dtype, *about))
        return median

    def peer(self, name: str) -> ModuleType | None:
        """A framework to compare with: "cupy", "torch" or "triton"; None, with a note, without it.

        Products of float32 matrices are done in float32: TF32 is off.
        """
        try:
            module = importlib.import_module(name)
            if name == "cupy":
                module.arange(2).sum().get()
            if name == "torch":
                module.backends.cuda.matmul.allow_tf32 = False
                module.backends.cudnn.allow_tf32 = False
                module.zeros(1).cuda()
        except Exception as problem:  # not installed, or broken in its own way
            self.note(f"{name} left out: {backend.one_line(problem)}")
            return None
        return module


def poison(out: Any, cuda: Any) -> None:
    """Fill a device array with NaN, or with the largest integer."""
    array = cuda.as_cuda_array(out)
    kind = np.dtype(array.dtype)
    array[:] = kind.type(np.nan if kind.kind in "fc" else np.iinfo(kind).max)
    cuda.synchronize()


def judged(result: Any, expected: Any, limit: float, cuda: Any) -> float:
    """The relative Frobenius error of a result; WrongResult when it is not finite or too large."""
    if type(expected).__module__.split(".")[0] == "cupy":
        import cupy as library

        given = library.asarray(result)
    else:
        library = np
        given = result if isinstance(result, np.ndarray) else cuda.as_cuda_array(result)
        given = given if isinstance(given, np.ndarray) else given.copy_to_host()
    if given.shape != expected.shape:
        raise WrongResult(f"the result has the shape {given.shape}, not {expected.shape}")
    missing = int((~library.isfinite(given)).sum())
    if missing:
        raise WrongResult(
            f"{missing:,} of {given.size:,} elements are not finite: not written, or wrong"
        )
    norm = float(library.linalg.norm(expected))
    error = float(library.linalg.norm(given.astype(np.float64) - expected)) / (norm or 1.0)
    if not error <= limit:
        raise WrongResult(f"the relative Frobenius error is {error:.3g}; {limit:.3g} is allowed")
    return error


def compiled_facts(call: Any) -> list[tuple[str, str, float]]:
    """Registers of a thread and bytes of local memory, of a Numba kernel's newest version."""
    overloads = getattr(getattr(call, "dispatcher", None), "overloads", None)
    if not overloads:
        return []
    compiled = list(overloads.values())[-1]
    return [
        ("registers", "registers", compiled.regs_per_thread),
        ("local memory", "bytes", compiled.local_mem_per_thread),
    ]


# ---------------------------------------------------------------------- subjects
def subjects() -> dict[str, str]:
    """What each subject of `course_recording.subjects` measures, in the order in which they run."""
    package = importlib.import_module("course_recording.subjects")
    found = {}
    for module in pkgutil.iter_modules(package.__path__):
        text = importlib.import_module(f"course_recording.subjects.{module.name}").__doc__ or ""
        found[module.name] = text.strip().split("\n")[0].rstrip(".")
    first = [name for name in package.FIRST if name in found]
    return {name: found[name] for name in (*first, *sorted(found.keys() - set(first)))}


def measure_subjects(
    chosen: Iterable[str],
    folder: Path,
    say: Callable[[str], None] = print,
    parts: Collection[str] = (),
    seed: int = SEED,
) -> tuple[list[Path], list[str]]:
    """Measure subjects, one after the other; each file is written as soon as it is done.

    Returns
    -------
    files : list of Path
    failures : list of str
        Programs that were wrong or failed; the others' figures are in the files.

    A subject that was stopped goes on with the part at which it stopped, see `Bench.parts`. With
    `parts` these alone are measured, anew. As soon as one is done, its rows replace the old ones
    in the subject's file. A seed other than `SEED` has its own file, GPU-SUBJECT-SEED.csv.

    A subject with ``CHARTS = True`` gets the charts of `course_lessons.lesson13.speed_charts`
    beside its file. ``CHARTS`` may also name another module that draws charts.
    """
    from course.measure.measured_roofs import measure_roofs

    gpu = backend.gpu()
    say(f"measuring the roofs of this {gpu}")
    roofs = measure_roofs()
    say(f"  {roofs}")
    folder.mkdir(parents=True, exist_ok=True)
    files, failures = [], []
    for subject in chosen:
        say(subject)
        other = seed != SEED
        command = f"python -m course bench {subject}" + (f" --seed {seed}" if other else "")
        path = folder / recorded.file_name(gpu, f"{subject}-{seed}" if other else subject)
        facts = recorded.header(gpu, None, command)
        lasting = {key: value for key, value in facts.items() if key != "date"}
        lasting["sources"] = sources()
        unfinished, others = Unfinished(), None
        if parts and path.exists():
            others = recorded.read(path)
        elif not parts:
            unfinished = Unfinished.found(path.with_suffix(".unfinished"), lasting, say)
        bench = Bench(subject, roofs, say, folder, unfinished, parts, seed)

        def written(bench=bench, path=path, others=others, command=command) -> Path:
            facts, rows = recorded.header(gpu, roofs, command), bench.rows
            if bench.notes:
                facts["notes"] = "; ".join(bench.notes)
            if parts:
                rows = [row for rows in bench.of_parts.values() for row in rows]
                facts, rows = beside_others(others, facts, rows, list(bench.of_parts))
            return recorded.write(path, facts, rows)

        bench.keep = written
        module = importlib.import_module(f"course_recording.subjects.{subject}")
        module.run(bench)
        for name in parts:
            if name not in bench.of_parts:
                there = ", ".join(map(repr, bench.passed_over)) or "none"
                bench.failures.append(f"there is no part {name!r}; others are: {there}")
        failures += [f"{subject}: {failure}" for failure in bench.failures]
        if not (any(bench.of_parts.values()) if parts else bench.rows):
            say(f"  nothing was measured, so no file of {subject}")
            continue
        files.append(written())
        unfinished.remove()
        say(f"  written: {path}")
        if name := getattr(module, "CHARTS", None):
            try:
                given = {"bandwidth": roofs.bandwidth} if name is True else {}
                module = "course_lessons.lesson13.speed_charts" if name is True else name
                for chart in charts_beside(path, importlib.import_module(module), **given):
                    say(f"  written: {chart}")
            except Exception as problem:  # the figures are kept whatever becomes of their picture
                failures.append(f"{subject}: no charts: {backend.one_line(problem, 400)}")
    return files, failures


def charts_beside(path: Path, module: ModuleType, **given: Any) -> list[Path]:
    """Draw ``module.charts(figures, **given)`` of a file of figures beside it, all or none."""
    drawn = {
        path.with_name(f"{path.stem}-{name}.png"): picture.png(dpi=150)
        for name, picture in module.charts(recorded.read(path).figures, **given).items()
    }
    for target, content in drawn.items():
        write_whole(target, content)
    return list(drawn)


def recorded_text(subject: str) -> str:
    """What the course has recorded of a subject, as text."""
    found: tuple[Recording, ...] = recorded.recordings(subject)
    if not found:
        return f"{subject}: nothing is recorded yet"
    return "\n".join(f"{subject}, recorded on {recording}" for recording in found)
