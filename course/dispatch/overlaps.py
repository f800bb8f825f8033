"""Results that lie over what they are computed from: right where it is the same array, or refused.

On the host such arrays do no harm: what travels to the GPU is a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from course.dispatch.array_facts import ArrayFacts

MOST_WORK = 10_000  # of NumPy, to find an element that two arrays share
SOMEWHERE = 1 << 60


def without_overlap(
    plan: Callable[..., Any],
    arrays: Sequence[ArrayFacts | None],
    names: Sequence[str],
    same: Sequence[str],
) -> Callable[..., Any]:
    """A plan that is refused an `out`, the last array, which shares memory with another one.

    Those named in `same` it may be, element for element.
    """
    *inputs, out = arrays
    first, last = _reach(out)
    near = []  # between which distances of two arrays' addresses they share memory
    for slot, one in enumerate(inputs):
        if one is not None and one.size and out.size:
            low, high = _reach(one)
            alike = (one.shape, one.strides, one.dtype) == (out.shape, out.strides, out.dtype)
            near.append((slot, first - high, last - low, alike and names[slot] in same))

    def checked(plan: Callable[..., Any]) -> Callable[..., Any]:
        def call(given: Sequence[Any], addresses: list[int], target: Any, stream: Any) -> Any:
            for slot, low, high, alike in near:
                away = addresses[slot] - addresses[-1]
                if low < away < high and (away or not alike) and _share(out, inputs[slot], away):
                    itself = f", or {names[slot]} itself" if names[slot] in same else ""
                    raise ValueError(
                        f"out lies in the memory of {names[slot]}: give memory that is no part of "
                        f"it{itself}"
                    )
            return plan(given, addresses, target, stream)

        call.__wrapped__ = plan
        if hasattr(plan, "own"):
            call.own = lambda: checked(plan.own())
        return call

    return checked(plan)


def _reach(one: ArrayFacts) -> tuple[int, int]:
    """The first byte of an array and that behind its last, from its address on."""
    ends = [step * (length - 1) for step, length in zip(one.strides, one.shape, strict=True)]
    return sum(min(0, end) for end in ends), one.dtype.itemsize + sum(max(0, end) for end in ends)


def _share(one: ArrayFacts, other: ArrayFacts, away: int) -> bool:
    """Whether two arrays, so many bytes away from each other, have or might have a common one."""
    left, right = (
        SimpleNamespace(__array_interface__={
            "data": (address, False), "shape": array.shape, "strides": array.strides,
            "typestr": f"|V{array.dtype.itemsize}", "version": 3,
        })
        for array, address in ((one, SOMEWHERE), (other, SOMEWHERE + away))
    )  # fmt: skip
    try:
        return np.shares_memory(np.asarray(left), np.asarray(right), MOST_WORK)
    except np.exceptions.TooHardError:
        return True
