"""Exercises: how one is declared, and where they are kept.

An exercise lives in `course_lessons/lessonNN/exercises.py`, which calls `declare`. How an answer is
judged stands in `course/checks/judging.py`; what is said about it in `course/checks/verdicts.py`.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from course.checks.verdicts import COSTS, FAILURES, Failure

Dimensions = int | tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One set of arguments with which an answer is tried.

    Parameters
    ----------
    name : str
        Shown to the learner: "1,003 elements", "13 x 37".
    arguments : callable
        Takes a `numpy.random.Generator`, returns the arguments by name in the order in which the
        answer takes them. Shapes are fixed, values random.
    block : int or tuple of int
        Threads of a block (x, y, z). Kernels only, as are the following.
    grid : int or tuple of int, optional
        Blocks of the grid; without it just enough to cover the first output, x along its last axis.
    shared : int
        Dynamic shared memory, bytes.
    measured : bool
        Costs that depend on the shape (`uncoalesced`, `bank-conflict`, `divergence` and limits)
        are judged here. Where no case is marked it is the one with the largest output, of those
        that are not drawn.
    seed : int, optional
        Of a drawn case: that it was drawn by.
    """

    name: str
    arguments: Callable[[np.random.Generator], dict[str, Any]]
    block: Dimensions = 128
    grid: Dimensions | None = None
    shared: int = 0
    measured: bool = False
    seed: int | None = None


class Drawing(np.random.Generator):
    """What draws the case of a seed, and its arguments; `remainder` is the seed's remainder by 3.

    So of three cases in a row each may be of another kind: `course_lessons.cases.extent` takes
    large sizes where it is 0. In a case that is listed it is 2.
    """

    remainder = 2


@dataclass(frozen=True)
class Tolerance:
    """How far a right answer may be off: roundings x eps(dtype of the output) x magnitude.

    Parameters
    ----------
    roundings : float
        How many roundings may add up, all in the same direction.
    reason : str
        Why that many, for readers and for the learner.
    magnitude : callable, optional
        Takes the arguments it names (floats as float64), returns the size of what is rounded,
        one number or one for each element; without it the largest expected magnitude.
    """

    roundings: float
    reason: str
    magnitude: Callable[..., Any] | None = None

    def allowed(self, arguments: Mapping[str, Any], expected: np.ndarray, dtype: np.dtype) -> Any:
        """Largest error allowed in an output of `dtype`; 0 for integers and bools."""
        if np.dtype(dtype).kind not in "fc" or expected.size == 0:
            return 0.0
        if self.magnitude is not None:
            magnitude = call_with_named(self.magnitude, arguments)
        else:
            finite = np.abs(expected[np.isfinite(expected)])
            magnitude = float(finite.max(initial=0.0))
        return self.roundings * float(np.finfo(dtype).eps) * np.asarray(magnitude)


FEW_ROUNDINGS = Tolerance(8, "a handful of operations, each of which rounds once")


@dataclass(frozen=True)
class Limit:
    """A figure of the trace that an answer must not exceed.

    Parameters
    ----------
    space, operation : str
        "global" or "shared"; "load", "store" or "atomic".
    figure : str
        "requests", "sectors", "bytes", "wavefronts" or "conflicts", as in `Report.total`.
    per : str
        "request", "element" (of the first output), "launch" or "thread": of "lanes", those of the
        thread with the most.
    at_most : float
    why : str
        A sentence for the learner.
    """

    space: str
    operation: str
    figure: str
    per: str
    at_most: float
    why: str = ""

    def __post_init__(self) -> None:
        for value, allowed in (
            (self.space, ("global", "shared", "local")),
            (self.operation, ("load", "store", "atomic")),
            (self.figure, ("requests", "sectors", "bytes", "wavefronts", "conflicts", "lanes")),
            (self.per, ("request", "element", "launch", "thread")),
        ):
            if value not in allowed:
                raise ValueError(f"Limit: {value!r} is none of {', '.join(allowed)}")


@dataclass(frozen=True)
class Counted:
    """How often what is taught is done, counted in every case: too often or too seldom is refused.

    Parameters
    ----------
    what : str
        A device function or an instruction of `warpsim.ptx`, by name: calls by all threads. "mma":
        products on tensor cores, of 16 x 8 x 16 each. "barriers": of the block with the most.
    times : callable
        Takes the arguments it names, and `threads` of the launch; returns how often: one number, or
        the least and the most.
    why : str
        A sentence for the learner.
    """

    what: str
    times: Callable[..., Any]
    why: str = ""

    def count(self, report: Any) -> int:
        if self.what == "barriers":
            return report.barriers
        if self.what == "mma":
            return report.operations.get("tensor", 0) // (2 * 16 * 8 * 16)
        return report.calls(self.what)


class _Cases(Sequence):
    """Listed cases, then drawn ones, each drawn when it is first asked for: most never are."""

    def __init__(self, listed: list[Case], seeds: range, draw: Callable[[int], Case]) -> None:
        self.listed = listed
        self._seeds, self._draw = seeds, functools.cache(draw)

    def __len__(self) -> int:
        return len(self.listed) + len(self._seeds)

    def __getitem__(self, number: int | slice) -> Any:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        if number < 0:
            number += len(self)
        beyond = number - len(self.listed)
        return self.listed[number] if beyond < 0 else self._draw(self._seeds[beyond])


@dataclass(frozen=True, kw_only=True, eq=False)
class Exercise:
    """What every exercise has; declare a `KernelExercise` or a `FunctionExercise`.

    `points` are what it is worth in a class (`course.checks.grading`). What an answer may not call,
    being a solution that the course has, are the `reference` and the functions of `solved_by`.

    An answer is tried in the `cases` that are listed, then in `drawn` more by the `drawer`, which
    takes a `numpy.random.Generator` and returns a `Case` of other sizes and values each time. The
    seeds are `first_seed`, `first_seed` + 1 and so on. `exercise.cases` has all of them. Each is
    chosen of so many `candidates`: of three in a row one goes above the numbers and lengths of the
    listed cases, one below, one either way, in as many arguments as can be had. `anew`: the same
    cases have other random values, which shows what an answer kept of an earlier call.
    `statements` are given, to be ordered: the text of each (`course.checks.ordering`).
    """

    name: str
    lesson: int
    title: str
    cases: Sequence[Case]
    reference: Callable[..., Any] | None = None
    tolerance: Tolerance = FEW_ROUNDINGS
    hints: Mapping[str, str] = field(default_factory=dict)
    points: int = 2
    solved_by: Sequence[Callable[..., Any]] = ()
    drawer: Callable[[np.random.Generator], Case] | None = None
    drawn: int = 3
    candidates: int = 1
    first_seed: int = 0
    anew: bool = False
    statements: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("reference", "judge"):
            if getattr(self, name, None) is not None:
                object.__setattr__(self, name, _kept_from_answers(getattr(self, name)))
        object.__setattr__(self, "cases", self._with_drawn())
        self._require(self.cases, " has no cases; give at least one Case")
        self._require(self.points >= 1, f": points are 1 or more; got {self.points}")
        unknown = [kind for kind in self.hints if kind not in FAILURES]
        self._require(not unknown, f": hints are for {', '.join(FAILURES)}; got {unknown}")

    def _require(self, holds: Any, words: str) -> None:
        """Refuse what does not hold, in words that follow the name."""
        if not holds:
            raise ValueError(f"exercise {self.name!r}{words}")

    def _with_drawn(self) -> Sequence[Case]:
        listed = getattr(self.cases, "listed", self.cases)
        listed = [case for case in listed if case.seed is None]
        if self.drawer is None:
            return listed
        seeds = range(self.first_seed, self.first_seed + self.drawn)
        return _Cases(listed, seeds, self._drawn_case)

    @functools.cached_property
    def _known(self) -> list[np.ndarray]:
        return [_extents(self._made(case, n)) for n, case in enumerate(self.cases.listed)]

    def _drawn_case(self, seed: int) -> Case:
        bits = np.random.PCG64([zlib.crc32(self.name.encode()), seed, 0])
        rng = Drawing(bits)
        rng.remainder = seed % 3
        cases = [self.drawer(rng) for _ in range(self.candidates)]
        if self.candidates > 1 and self._known:
            least, most = np.min(self._known, 0), np.max(self._known, 0)
            up, down = rng.remainder != 1, rng.remainder != 0

            def beyond(case: Case) -> int:
                own = _extents(self._made(case, seed, 1))
                return np.sum(up & (own > most) | down & (own < least))

            cases.sort(key=beyond)
        name = f"{cases[-1].name}, drawn by seed {seed}"
        return replace(cases[-1], name=name, seed=seed)

    def seeded(self, first_seed: int, drawn: int | None = None) -> Exercise:
        """The same exercise with other drawn cases; as many as it says by itself, or `drawn`."""
        drawn = self.drawn if drawn is None else drawn
        return replace(self, first_seed=first_seed, drawn=drawn)

    @classmethod
    def declare(cls, **fields: Any) -> None:
        """Make an exercise of these fields, and make it known; ValueError where its name is."""
        exercise = cls(**fields)
        known = _exercises.setdefault(exercise.name, exercise)
        if known.lesson != exercise.lesson:
            raise ValueError(f"lesson {known.lesson} already has an exercise {exercise.name!r}")
        _exercises[exercise.name] = exercise

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.arguments(0))

    def arguments(self, number: int) -> dict[str, Any]:
        """Arguments of case `number`; the same values on every call and machine."""
        case = self.cases[number]
        stream = [number] if case.seed is None else [case.seed, 1]
        return self._made(case, *stream, *[2] * self.anew)

    def _made(self, case: Case, *stream: int) -> dict[str, Any]:
        rng = Drawing(np.random.PCG64([zlib.crc32(self.name.encode()), *stream]))
        rng.remainder = 2 if case.seed is None else case.seed % 3
        return case.arguments(rng)

    def given(self) -> str:
        """Return the text of the cell that a student begins with; "" where it is not known."""
        return ""


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelExercise(Exercise):
    """An exercise whose answer is a kernel.

    Parameters
    ----------
    outputs : tuple of str
        Arguments that the kernel writes in full; poisoned before the launch.
    updated : tuple of str
        Arguments that it changes in place; given as the case makes them.
    reference : callable
        Takes the arguments it names, floating-point arrays as float64; returns the array that the
        one output (or updated array) must hold, or a dict of them by name.
    forbidden : collection of str
        Kinds of costs that fail an answer: "float64", "uncoalesced", ... An index below 0 always
        does: C++ has none, and Numba takes it from the end only after a test.
    same_value : str
        "meant" where several threads may store one value in one element; else that is refused.
    limits : sequence of Limit
    counted : sequence of Counted
    barriers : str
        Why a block passes no more of them than in the solution; "" where it may. One more is let
        go: at the end, or before a loop.
    own_element : bool
        Whether a thread may do all that there is to do for one element of the first result.
    helped : str
        Why the kernel calls a device function, for the learner; "" where it need not.
    cancels : mapping of sentence -> callable
        What to say where only such elements are wrong in which large terms cancel, in a way that
        costs digits; the callable takes the arguments it names, returns a mask of those elements.
    gpu : str
        The GPU to simulate; the same on every machine, so that verdicts are.
    rivals : course.checks.beside.Rivals, optional
        What `course.beside` shows a right answer beside.
    """

    outputs: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    forbidden: Collection[str] = ()
    same_value: str = ""
    limits: Sequence[Limit] = ()
    counted: Sequence[Counted] = ()
    barriers: str = ""
    own_element: bool = False
    helped: str = ""
    cancels: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    gpu: str = "T4"
    rivals: Any = None
    points: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.reference is not None, " needs a reference")
        results = self.outputs + self.updated
        unknown = [name for name in results if name not in self.parameters]
        known = ", ".join(self.parameters)
        words = f": outputs and updated must name arguments ({known}); got {results}"
        self._require(results and not unknown, words)
        unknown = [kind for kind in self.forbidden if kind not in COSTS]
        self._require(not unknown, f": forbidden knows {', '.join(COSTS)}; got {unknown}")
        self._require(self.same_value in ("", "meant"), ": same_value is 'meant' or ''")

    @property
    def refused(self) -> frozenset[str]:
        always = {"negative-index"} if self.same_value else {"negative-index", "same-value-race"}
        return frozenset(self.forbidden) | always

    def model(self) -> Any:
        """Return a right answer that spreads the work as it is meant, or None.

        No thread of an answer may do much more than its busiest one; see `course.checks.spread`.
        """
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionExercise(Exercise):
    """An exercise whose answer is a plain Python function.

    Parameters
    ----------
    reference : callable, optional
        As for `KernelExercise`; returns what the answer must return: an array, a number, a string,
        a tuple of those.
    judge : callable, optional
        Instead of a reference: `judge(answer, **arguments)` returns None where the answer is right,
        else the sentence for the learner.
    dtype : dtype, optional
        What the returned arrays must have.
    caller : callable, optional
        `caller(answer, arguments)` calls the answer in a way of its own and returns what is judged:
        watched, as `course_lessons.lesson09.watching` does for answers that start threads, or
        killed in between.
    runs : str
        "gpu-ufunc" where the answer must be a ufunc that is made for the GPU.
    """

    judge: Callable[..., str | None] | None = None
    dtype: Any = None
    caller: Callable[[Callable[..., Any], tuple[Any, ...]], Any] | None = None
    runs: str = ""
    candidates: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.runs in ("", "gpu-ufunc"), ": runs is 'gpu-ufunc' or ''")
        one = (self.reference is None) != (self.judge is None)
        self._require(one, " needs a reference or a judge, not both")


_at_work: list[str] = []  # exercises whose answers are being called


@contextlib.contextmanager
def answer_at_work(name: str) -> Iterator[None]:
    """While an answer to that exercise is called, no exercise's reference or judge may be."""
    _at_work.append(name)
    try:
        yield
    finally:
        _at_work.pop()


def refuse_answers() -> None:
    """Raise Failure("borrowed") where it is an answer that calls."""
    if _at_work:
        said = (
            "Your answer calls part of what judges it: write what the exercise asks for yourself."
        )
        raise Failure("borrowed", said)


def _kept_from_answers(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference or judge that refuses whoever finds it in a frame, a module or the collector."""

    @functools.wraps(function)
    def kept(*given: Any, **named: Any) -> Any:
        refuse_answers()
        return function(*given, **named)

    if hasattr(function, "kept_from_answers"):
        return function
    kept.kept_from_answers = True
    return kept


def _extents(arguments: Mapping[str, Any]) -> np.ndarray:
    """Two numbers of each argument: its value twice, or the lengths of its first and last axis."""
    found = []
    for value in arguments.values():
        if isinstance(value, int | float):
            found += [value, value]
        else:
            sized = [len(value)] if isinstance(value, list | tuple | dict | str) else ()
            shape = getattr(value, "shape", sized)
            found += [shape[0], shape[-1]] if len(shape) else [np.nan] * 2
    return np.array(found, dtype=float)


def call_with_named(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call `function` with those arguments whose names it takes; floats widened to float64."""
    parameters = inspect.signature(function).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    chosen = {n: widened(v) for n, v in arguments.items() if takes_all or n in parameters}
    return function(**chosen)


def widened(value: Any) -> Any:
    """A copy of an argument in which floating-point numbers are float64 and complex complex128."""
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fc":
        return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
    return value.copy() if isinstance(value, np.ndarray) else value


_exercises: dict[str, Exercise] = {}
_loaded = False


def exercises() -> dict[str, Exercise]:
    """All exercises of the course by name, in the order of the lessons.

    They are found by importing ``course_lessons.lessonNN.exercises``: the one place, beside
    ``python -m course bench``, where the package reaches for what lies above it.
    """
    global _loaded
    if not _loaded:
        package = importlib.import_module("course_lessons")
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
            name = f"course_lessons.{info.name}.exercises"
            if info.ispkg and importlib.util.find_spec(name) is not None:
                importlib.import_module(name)
        _loaded = True
    return dict(sorted(_exercises.items(), key=lambda item: item[1].lesson))


def find_exercise(name: str) -> Exercise:
    """The exercise of that name.

    Raises
    ------
    KeyError
        When there is none; the message lists names that look alike.
    """
    known = exercises()
    if isinstance(name, str) and name in known:
        return known[name]
    close = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
    suggestion = f"Did you mean {' or '.join(map(repr, close))}?" if close else "See progress()."
    swapped = " The name comes first, as text: check('name', answer)." if callable(name) else ""
    raise UnknownExercise(f"there is no exercise {name!r}. {suggestion}{swapped}")


def lesson_solution(name: str) -> tuple[str, str] | None:
    """The text of an exercise's solution and the name of its function; None where none has it."""
    try:
        found = importlib.import_module("course_lessons.edits").solution(name)
    except LookupError:
        return None
    return found.source, found.function


class UnknownExercise(KeyError):
    """No exercise has that name."""

    def __str__(self) -> str:
        return str(self.args[0])
