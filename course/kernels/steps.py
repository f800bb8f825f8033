"""The host side of every kernel: what is launched, by which step, and why a step cannot be had.

>>> LADDER.names
('auto', 'three passes', 'online', 'registers', 'clusters')
>>> for launch in LADDER.launches(x, out, method="online"):
...     launch.on(stream)

A *problem* is a NamedTuple of all that decides between the steps: rows, columns, type of the
elements, alignment. It is made of arrays, or of `course.dispatch.slots.ArraySlot`s, which have all
of an array but its memory. A *config* is what is tuned: threads, tile, stages. A function that
users call hands a `Ladder`'s launches to a `course.dispatch.entry.EntryPoint` and has the ladder as
its attribute `ladder`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from course import backend
from course.backend import cuda
from course.dispatch.prepared import Configured, allow_shared, type_of
from course.heuristics.device import ceil_div as ceil_div
from course.heuristics.device import hopper_refusal as hopper_refusal
from course.heuristics.device import multiprocessors as multiprocessors
from course.heuristics.device import round_up as round_up
from course.heuristics.device import shared_memory_limit as shared_memory_limit

STATIC_SHARED = 48 * 1024  # bytes of shared memory that a block has without asking for more
AUTO = "auto"  # the method that takes what is best for the problem


def require_choice(value: str, what: str, choices: Iterable[str]) -> str:
    """The value, if it is one of the choices; else ValueError, which names them."""
    choices = tuple(choices)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"there is no {what} {value!r}: choose {', '.join(choices)}")
    return value


# --- launches -------------------------------------------------------------------------------------


class Launch(NamedTuple):
    """A kernel and how it is launched."""

    kernel: Any  # as `cuda.jit` made it
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    arguments: tuple  # of arrays on the device, or slots of such, and numbers
    shared: int = 0  # bytes of dynamic shared memory of a block
    early: bool = True  # it may begin before the one in front is done, if its kernel waits for that

    @property
    def shape(self) -> tuple[int, ...]:
        """Three numbers of the grid and three of the block, and bytes of shared memory."""
        parts = (one if isinstance(one, tuple) else (one,) for one in (self.grid, self.block))
        sizes = (size for part in parts for size in (*part, 1, 1)[:3])
        return (*map(int, sizes), int(self.shared))

    def allow_shared(self) -> None:
        """Allow the kernel its shared memory; RuntimeError when the driver refuses so much."""
        # barriers, and what aligns the rest, come on top
        if self.shared > STATIC_SHARED - 1024 and backend.gpu() is not None:
            types = tuple(type_of(one, self.kernel) for one in self.arguments)
            allow_shared(self.kernel, types, self.shared)

    def configured(self, stream: Any = 0) -> Callable[..., None]:
        """The kernel with its launch configuration, to be called with the arguments."""
        if backend.successor.is_chosen() and backend.gpu() is not None:
            return Configured(self, stream)
        self.allow_shared()
        return self.kernel[self.grid, self.block, stream, self.shared]

    def on(self, stream: Any = 0) -> None:
        """Launch by Numba on one of its streams; 0 is the default stream."""
        self.configured(stream)(*self.arguments)


def configured(launches: Iterable[Launch], stream: Any = 0) -> list[tuple[Callable, tuple]]:
    """Launches that are made again and again: kernels with their configuration, and arguments."""
    return [(one.configured(stream), one.arguments) for one in launches]


def one_call(calls: Sequence[tuple[Callable, tuple]], given: Sequence[Any]) -> Callable:
    """What `configured` gives, as a function of the arguments for which the launches were made.

    A clock hands it alternating copies, so that data which would fit into L2 is not found there.
    """
    places = {id(argument): place for place, argument in enumerate(given)}
    if len(calls) == 1 and [*map(id, calls[0][1])] == [*places]:
        return calls[0][0]

    def call(*arguments: Any) -> None:
        for launch, own in calls:
            launch(*(arguments[places[id(a)]] if id(a) in places else a for a in own))

    return call


def _takes_all(problem: Any) -> str:
    """The refusal of a step that takes every problem."""
    return ""


def row_limit(most: Callable[[bool], int]) -> Callable[[Any], str]:
    """The refusal of a step whose rows have at most so many elements, aligned or not."""

    def refusal(problem: Any) -> str:
        limit = most(problem.aligned)
        if problem.columns <= limit:
            return ""
        return f"holds rows of at most {limit:,} elements, and these have {problem.columns:,}"

    return refusal


Launches = Callable[..., list[Launch]]


@dataclass(frozen=True)
class Step:
    """A way to do the work."""

    #: ``launches(problem, *arrays, **options)`` says what is launched.
    launches: Launches
    #: ``refusal(problem)`` says why the step cannot be had for this problem, as what follows "the
    #: method 'x' of softmax", such as "holds rows of at most 4,096 elements"; "" if it can.
    refusal: Callable[[Any], str] = _takes_all
    capability: tuple[int, int] = (5, 0)  # the oldest that has its instructions

    def then(self, more: Launches) -> Step:
        """The step with more launches behind its own."""

        def launches(problem: Any, *arrays: Any, **options: Any) -> list[Launch]:
            own = self.launches(problem, *arrays, **options)
            return [*own, *more(problem, *arrays, **options)]

        return replace(self, launches=launches)

    def lacks(self, problem: Any) -> str:
        """Why the step cannot be had for a problem on the current GPU; "" if it can."""
        capability = tuple(cuda.get_current_device().compute_capability)
        if capability < self.capability:
            wanted, have = (".".join(map(str, pair)) for pair in (self.capability, capability))
            return f"needs compute capability {wanted}, and this GPU has {have}"
        return self.refusal(problem)


@dataclass(frozen=True, eq=False)
class Ladder(Mapping[str, Step]):
    """The steps of a function by their names, in the order in which they were thought of."""

    function: str  # what users call
    problem: Callable[..., Any]  # ``problem(*arrays, **options)`` is what the steps decide by
    steps: Mapping[str, Step]
    best: Callable[[Any], str]  # ``best(problem)`` names the step that "auto" takes

    def __getitem__(self, name: str) -> Step:
        return self.steps[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def names(self) -> tuple[str, ...]:
        """What `method` can be."""
        return (AUTO, *self.steps)

    def choose(self, method: str, problem: Any) -> tuple[str, Step]:
        """The step that a method takes for a problem, and its name.

        ValueError for a method that does not exist, or cannot be had for it on this GPU.
        """
        require_choice(method, "method", self.names)
        name = self.best(problem) if method == AUTO else method
        step = self.steps[name]
        lacks = step.lacks(problem)
        if lacks:
            others = [repr(one) for one, other in self.steps.items() if not other.lacks(problem)]
            raise ValueError(
                f"the method {name!r} of {self.function} {lacks}: "
                f"choose {', '.join(others) or 'other arrays, or another GPU'}"
            )
        return name, step

    def launches(self, *arrays: Any, method: str = AUTO, **options: Any) -> list[Launch]:
        """What a method launches, for arrays on the device or slots; refused as `choose` does."""
        problem = self.problem(*arrays, **options)
        _, step = self.choose(method, problem)
        return step.launches(problem, *arrays, **options)
