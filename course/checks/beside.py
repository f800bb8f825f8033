"""A student's kernel that has passed, beside the package's, PyTorch's, and the least it takes.

Counts are the simulator's, on every machine. Times are measured where there is a GPU; without one
those stand there that were recorded on an H200, and the student's kernel has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from course import backend
from course.checks import judging, progress
from course.checks.answers import is_gpu_kernel
from course.checks.exercises import Case, KernelExercise, find_exercise
from course.checks.trials import launch_configuration
from course.dispatch.launches import Launch
from course.measure.measured_roofs import recorded_roofs
from course.measure.recorded import recorded
from course.measure.roofline import bound
from course.measure.timing import benchmark, roofs_here
from warpsim import trace
from warpsim.core.words import wrapped

RECORDED_ON = "H200"
YOURS, PACKAGE, TORCH, LEAST = "yours", "package", "PyTorch", "least"
NAMES = YOURS, PACKAGE, TORCH, "CuPy", LEAST
FIRST, WIDTH = 28, 10  # columns: of what it is, of each program

#: What is counted of some launches, and what any program needs, where that is known.
COUNTS: dict[str, Callable[[list[Any]], float]] = {
    "launches": len,
    "bytes touched, each once": lambda reports: sum(r.unique_bytes for r in reports),
    "sectors of global loads": lambda reports: _of(reports, "global", "load", "sectors"),
    "sectors of global stores": lambda reports: _of(reports, "global", "store", "sectors"),
    "wavefronts of shared memory": lambda reports: sum(
        _of(reports, "shared", kind, "wavefronts") for kind in ("load", "store")
    ),
    "bank conflicts": lambda reports: sum(
        _of(reports, "shared", kind, "conflicts") for kind in ("load", "store")
    ),
    "barriers of a block": lambda reports: sum(r.barriers for r in reports),
    "float32 operations": lambda reports: sum(r.operations.get("float32", 0) for r in reports),
}


@dataclass(frozen=True, kw_only=True)
class Rivals:
    """Other programs for an exercise's work, the least that it takes, and sizes.

    Functions take a case's arguments by name.

    Parameters
    ----------
    package : callable, optional
        Returns the package's launches for NumPy arrays, a list of `Launch`.
    called : callable, optional
        Returns ``(call, arguments)`` for arrays on a GPU, to be timed; without it the one launch of
        `package` is.
    torch : callable, optional
        Takes the module and then the inputs, as tensors on the GPU and plain numbers; returns what
        is computed.
    bytes : callable, optional
        Bytes that any program must read or write once; without it those of all arrays.
    operations : callable, optional
        float32 operations that any program needs.
    traced, timed : Case, optional
        What is counted, and what a GPU is timed with; without them the exercise's measured case,
        and what is counted.
    recorded : mapping
        What `course.recorded` is asked for, of the timed case on an H200: ``{"package": {"subject":
        "norm", "variant": "warp", ...}, "PyTorch": {...}}``.
    """

    package: Callable[..., list[Launch]] | None = None
    called: Callable[..., tuple[Callable[..., Any], tuple[Any, ...]]] | None = None
    torch: Callable[..., Any] | None = None
    bytes: Callable[..., float] | None = None
    operations: Callable[..., float] | None = None
    traced: Case | None = None
    timed: Case | None = None
    recorded: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def least(self, arguments: Mapping[str, Any]) -> tuple[float, float]:
        """Bytes and operations that any program needs for these arguments."""
        arrays = [value for value in arguments.values() if isinstance(value, np.ndarray)]
        moved = sum(array.nbytes for array in arrays)
        if self.bytes is not None:
            moved = self.bytes(**arguments)
        return moved, self.operations(**arguments) if self.operations is not None else 0


def _of(reports: Iterable[Any], space: str, kind: str, figure: str) -> int:
    return sum(getattr(report.total(space, kind), figure) for report in reports)


@dataclass(frozen=True)
class Beside:
    """A table of programs; shows itself."""

    title: str
    counts: Mapping[str, Mapping[str, float]]  # what is counted: the figure of each program
    times: Mapping[str, Mapping[str, float]]  # the same [µs], by how they came to be known
    timed: str = ""
    note: str = ""  # what is to be done, or said

    def __repr__(self) -> str:
        lines = [self.title] if self.title else []
        lines += _table("counted by the simulator", self.counts, "{:,.0f}")
        if self.times:
            lines += ["", *_table(self.timed, self.times, "{:,.1f}")]
        if self.note:
            lines.append(wrapped(self.note, hanging=""))
        return "\n".join(lines)


def _table(head: str, rows: Mapping[str, Mapping[str, float]], form: str) -> list[str]:
    if not rows:
        return []
    columns = [name for name in NAMES if any(name in row for row in rows.values())]
    lines = [f"{head:<{FIRST}}" + "".join(f"{name:>{WIDTH}}" for name in columns)]
    if len(head) >= FIRST:
        lines = [head, f"{'':<{FIRST}}" + lines[0][len(head) :]]
    for what, row in rows.items():
        cells = (form.format(row[name]) if name in row else "-" for name in columns)
        lines.append(f"{what:<{FIRST}}" + "".join(f"{cell:>{WIDTH}}" for cell in cells))
    return lines


def beside(name: str, kernel: Any) -> Beside:
    """Trace and time a kernel that has passed its check, beside other programs for the same work.

    Parameters
    ----------
    name : str
        Name of the exercise, as for `check`.
    kernel : kernel
        What you wrote.

    Returns
    -------
    Beside
        Shows itself; of an exercise that is not solved it says so.

    Raises
    ------
    ValueError
        When there is nothing to show beside this exercise's kernels.
    """
    exercise = find_exercise(name)
    rivals = getattr(exercise, "rivals", None)
    if rivals is None:
        raise ValueError(f"beside({name!r}, ...): nothing is known to stand beside its answers")
    if not _has_passed(exercise, kernel):
        text = f"{name} has not passed its check: solve the exercise first, then run this cell."
        return Beside("", {}, {}, note=text)
    case = rivals.traced or _measured(exercise)
    counts = _counted(exercise, rivals, kernel, case)
    timed = rivals.timed or case
    times, note = _times(exercise, rivals, kernel, timed)
    return Beside(f"{name}: {case.name}", counts, times, f"µs, {timed.name}", note)


def _has_passed(exercise: KernelExercise, kernel: Any) -> bool:
    """Whether this very kernel passed in this session, or does now."""
    known = progress.latest(exercise.name)
    if known is not None and known.answer and known.answer == progress.fingerprint(kernel):
        return known.status == "passed"
    return judging.judge(exercise, kernel).status == "passed"


def _measured(exercise: KernelExercise) -> Case:
    chosen = [case for case in exercise.cases if case.measured]
    first = (exercise.outputs + exercise.updated)[0]
    return max(chosen or exercise.cases, key=lambda case: _arguments(exercise, case)[first].size)


def _arguments(exercise: KernelExercise, case: Case) -> dict[str, Any]:
    return case.arguments(np.random.default_rng(exercise.lesson))


def _own_launch(exercise: KernelExercise, kernel: Any, case: Case) -> Launch:
    arguments = _arguments(exercise, case)
    grid, block = launch_configuration(exercise, case, arguments)
    return Launch(kernel, grid, block, tuple(arguments.values()), case.shared)


# ---------------------------------------------------------------------- counts
def _counted(
    exercise: KernelExercise, rivals: Rivals, kernel: Any, case: Case
) -> dict[str, dict[str, float]]:
    programs = {YOURS: [_own_launch(exercise, kernel, case)]}
    if rivals.package is not None:
        programs[PACKAGE] = rivals.package(**_arguments(exercise, case))
    reports = {
        name: [
            trace(it.kernel, it.grid, it.block, *it.arguments, dynamic_shared=it.shared, gpu="H200")
            for it in launches
        ]
        for name, launches in programs.items()
    }
    rows = {what: {who: of(its) for who, its in reports.items()} for what, of in COUNTS.items()}
    moved, operations = rivals.least(_arguments(exercise, case))
    rows["launches"][LEAST] = 1
    rows["bytes touched, each once"][LEAST] = moved
    if operations:
        rows["float32 operations"][LEAST] = operations
    return {what: row for what, row in rows.items() if any(row.values())}


# ---------------------------------------------------------------------- times
def _times(
    exercise: KernelExercise, rivals: Rivals, kernel: Any, case: Case
) -> tuple[dict[str, dict[str, float]], str]:
    """Microseconds by who measured them, and what is to be said of them."""
    rows: dict[str, dict[str, float]] = {}
    notes = []
    arguments = _arguments(exercise, case)
    moved, operations = rivals.least(arguments)
    if backend.gpu() is not None and is_gpu_kernel(kernel):
        here, notes = _here(exercise, rivals, kernel, case)
        if (roofs := roofs_here()) is not None:
            here[LEAST] = 1e3 * bound(moved, operations, roofs).milliseconds
        rows["measured here"] = here
    known = {
        name: 1e3 * figures[0].median
        for name, wanted in rivals.recorded.items()
        if (figures := recorded(gpu=RECORDED_ON, **wanted))
    }
    if known:
        known[LEAST] = 1e3 * bound(moved, operations, recorded_roofs(RECORDED_ON)).milliseconds
        rows[f"recorded on an {RECORDED_ON}"] = known
    if not any(YOURS in row for row in rows.values()) and not notes:
        notes.append("No GPU is here, so yours has no time: on one, this cell measures it.")
    return rows, " ".join(notes)


def _here(
    exercise: KernelExercise, rivals: Rivals, kernel: Any, case: Case
) -> tuple[dict[str, float], list[str]]:
    """Microseconds on this GPU, queued, of data that is not in the cache; and what failed."""
    moved, _ = rivals.least(_arguments(exercise, case))
    own = _own_launch(exercise, kernel, case)
    programs: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
        YOURS: lambda: _call_of(own)
    }
    if rivals.called is not None:
        programs[PACKAGE] = lambda: rivals.called(**_on_device(_arguments(exercise, case)))
    elif rivals.package is not None:
        programs[PACKAGE] = lambda: _call_of(*rivals.package(**_arguments(exercise, case)))
    if rivals.torch is not None:
        programs[TORCH] = lambda: _torch_call(exercise, rivals, _arguments(exercise, case))
    found, notes = {}, []
    for name, made in programs.items():
        try:
            call, given = made()
            timing = benchmark(call, *given, bytes=moved, name=name, seconds=0.3)
            found[name] = 1e3 * timing.median
        except ImportError:
            notes.append(f"{name} is not installed here.")
        except Exception as problem:  # a program that is missing or fails hides no other
            notes.append(f"{name}: {backend.one_line(problem, 200)}.")
    return found, notes


def _call_of(launch: Launch) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    its = launch._replace(arguments=tuple(_on_device(dict(enumerate(launch.arguments))).values()))
    return its.configured(), its.arguments


def _on_device(arguments: Mapping[Any, Any]) -> dict[Any, Any]:
    return {
        name: backend.cuda.to_device(value) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }


def _torch_call(
    exercise: KernelExercise, rivals: Rivals, arguments: Mapping[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    import torch

    inputs = {name: value for name, value in arguments.items() if name not in exercise.outputs}
    tensors = [
        torch.from_numpy(value).cuda() if isinstance(value, np.ndarray) else value
        for value in inputs.values()
    ]
    return lambda *given: rivals.torch(torch, **dict(zip(inputs, given, strict=True))), (*tensors,)
