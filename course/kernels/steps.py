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

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from course.backend import cuda
from course.dispatch.launches import STATIC_SHARED, Launch, configured, one_call  # noqa: F401
from course.heuristics.device import ceil_div as ceil_div
from course.heuristics.device import hopper_refusal as hopper_refusal
from course.heuristics.device import multiprocessors as multiprocessors
from course.heuristics.device import round_up as round_up
from course.heuristics.device import row_limit as row_limit
from course.heuristics.device import shared_memory_limit as shared_memory_limit

AUTO = "auto"  # the method that takes what is best for the problem


def require_choice(value: str, what: str, choices: Iterable[str]) -> str:
    """The value, if it is one of the choices; else ValueError, which names them."""
    choices = tuple(choices)
    if not isinstance(value, str) or value not in choices:
        named = ", ".join(choice or "''" for choice in choices)
        raise ValueError(f"there is no {what} {value!r}: choose {named}")
    return value


def _takes_all(problem: Any) -> str:
    """The refusal of a step that takes every problem."""
    return ""


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
