"""Results whose memory overlaps an input's: allowed where both are the same array, else refused.

On the host such arrays do no harm: the GPU works on copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from course.dispatch.array_facts import ArrayFacts

MOST_WORK = 10_000  # candidate solutions that np.shares_memory tries
SOMEWHERE = 1 << 60  # a made-up address: only the distance of two arrays counts


def without_overlap(
    plan: Callable[..., Any],
    arrays: Sequence[ArrayFacts | None],
    names: Sequence[str],
    same: Sequence[str],
) -> Callable[..., Any]:
    """Wrap a plan: it refuses an `out`, the last array, that shares memory with an input.

    `out` may be an input that `same` names, with the same shape, strides and dtype.
    """
    *inputs, out = arrays
    first, last = _reach(out)
    near = []  # for each input the distances from `out` between which their memory may overlap
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
    """Offsets from an array's address to its lowest byte, and to the byte after its highest."""
    ends = [step * (length - 1) for step, length in zip(one.strides, one.shape, strict=True)]
    return sum(min(0, end) for end in ends), one.dtype.itemsize + sum(max(0, end) for end in ends)


def _share(one: ArrayFacts, other: ArrayFacts, away: int) -> bool:
    """Whether two arrays share a byte, with `other` `away` bytes after `one`; True if unclear."""
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
