"""The host side of every kernel: a function's steps, what each launches, why one is refused.

>>> LADDER.names
('auto', 'three passes', 'online', 'registers', 'clusters')
>>> for launch in LADDER.launches(x, out, method="online"):
...     launch.on(stream)

A *problem* is a NamedTuple of the facts that decide between the steps: rows, columns, dtype,
alignment. They come from arrays, or from `course.dispatch.slots.ArraySlot`s: descriptions of arrays
without their memory. A *config* holds the tuned parameters: threads, tile, stages. A public
function passes its `Ladder`'s launches to a `course.dispatch.entry.EntryPoint`, and offers the
ladder as its attribute `ladder`.
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

AUTO = "auto"  # the method that takes the best step for the problem


def require_choice(value: str, what: str, choices: Iterable[str]) -> str:
    """The value, if it is one of the choices; otherwise a ValueError that lists them."""
    choices = tuple(choices)
    if not isinstance(value, str) or value not in choices:
        named = ", ".join(choice or "''" for choice in choices)
        raise ValueError(f"there is no {what} {value!r}: choose {named}")
    return value


def _takes_all(problem: Any) -> str:
    """Refuse nothing: the default, for a step that takes every problem."""
    return ""


Launches = Callable[..., list[Launch]]


@dataclass(frozen=True)
class Step:
    """One implementation of a function: what it launches, and what it needs."""

    #: ``launches(problem, *arrays, **options)`` returns a list of `Launch`.
    launches: Launches
    #: ``refusal(problem)`` returns why the step cannot take a problem, or "" if it can. The text
    #: follows "the method 'x' of softmax", for example "holds rows of at most 4,096 elements".
    refusal: Callable[[Any], str] = _takes_all
    capability: tuple[int, int] = (5, 0)  # the lowest compute capability with its instructions

    def then(self, more: Launches) -> Step:
        """A copy of the step that launches `more` after its own kernels."""

        def launches(problem: Any, *arrays: Any, **options: Any) -> list[Launch]:
            own = self.launches(problem, *arrays, **options)
            return [*own, *more(problem, *arrays, **options)]

        return replace(self, launches=launches)

    def lacks(self, problem: Any) -> str:
        """Why the step cannot take a problem on the current GPU; "" if it can."""
        capability = tuple(cuda.get_current_device().compute_capability)
        if capability < self.capability:
            wanted, have = (".".join(map(str, pair)) for pair in (self.capability, capability))
            return f"needs compute capability {wanted}, and this GPU has {have}"
        return self.refusal(problem)


@dataclass(frozen=True, eq=False)
class Ladder(Mapping[str, Step]):
    """The steps of a function by name, in the order in which they are taught."""

    function: str  # the name of the function that users call
    problem: Callable[..., Any]  # ``problem(*arrays, **options)``: the facts that decide
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
        """The values that `method` can have."""
        return (AUTO, *self.steps)

    def choose(self, method: str, problem: Any) -> tuple[str, Step]:
        """The name and the step that a method stands for, given a problem.

        ValueError for a method that does not exist, or cannot take the problem on this GPU.
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
        """What a method launches, for device arrays or `ArraySlot`s; it raises as `choose` does."""
        problem = self.problem(*arrays, **options)
        _, step = self.choose(method, problem)
        return step.launches(problem, *arrays, **options)
