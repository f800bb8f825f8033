"""Stores that nobody orders and that leave the same: would they on other data, too?

A launch with such stores runs again, with arguments drawn at random. Its threads may go other ways
then, as they may in a user's next launch; what races in any of these runs is a race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, product
from typing import Any

import numpy as np

from warpsim.front.names import Site, Unsupported
from warpsim.run.masks import EndlessLoop
from warpsim.run.memory import Array
from warpsim.run.threads import geometry
from warpsim.watch.accesses import Clock
from warpsim.watch.disputes import Disputes
from warpsim.watch.races import HARMLESS
from warpsim.watch.replay import Silent, stand_ins
from warpsim.watch.report import Finding
from warpsim.watch.uninitialised import leaves

#: Times that each choice of arguments is drawn anew; whole numbers that are drawn alone.
DRAWS, MOST_ALONE = 4, 8
#: Passes of loops in one such run: what it has found by then counts.
MOST_PASSES = 20_000


def judged(
    launch: Any, program: Callable, chunks: list[tuple], stored: frozenset[str]
) -> dict[tuple[str, Site], Finding]:
    """The findings of a launch, with a verdict on stores that nothing orders.

    Parameters
    ----------
    launch : warpsim.run.launch.Launch
        With the inputs of the traced run.
    program : callable
        The lane program.
    chunks : list of tuple
        The geometry of each chunk of blocks.
    stored : frozenset of str
        Arguments that the kernel may change.
    """
    launch.disputes.judge()
    differ, alike = ({launch.sites[n] for n in places} for places in launch.disputes.places)
    known = {(one.array, one.function) for kind, one in launch.findings if kind == "race"}
    alike = {one for one in alike - differ if (one.array, one.function) not in known}
    # what takes turns keeps no inputs; addresses would lead to memory that is the user's
    if alike and launch.inputs is not None and not any(type(k) is tuple for k in launch.captured):
        differ |= _on_other_data(launch, program, chunks, stored, alike)
    findings = {}
    for (kind, place), finding in launch.findings.items():
        if kind != "unordered":
            findings[kind, place] = finding
        elif place in differ:
            findings.setdefault(("race", place), finding)
        elif place in alike:
            findings[HARMLESS, place] = launch.disputes.harmless[place]
    return findings


def _on_other_data(launch, program, chunks, stored, alike: set[Site]) -> set[Site]:
    """Places among some at which it matters who stores last, once arguments are drawn anew.

    Whole numbers may be addresses and sizes, with which nobody meets any more if they are drawn:
    floats are drawn alone first, then with each whole number or array of them, then with all.
    """
    inputs = launch.inputs
    inputs.keep_all(launch.captured)
    kinds = [_dtype(leaf).kind for leaf in leaves((*inputs.values, *launch.captured.values()))]
    floats = frozenset(n for n, kind in enumerate(kinds) if kind in "fc")
    others = [n for n, kind in enumerate(kinds) if kind in "biuV"]
    choices = [floats, *(floats | {one} for one in others[:MOST_ALONE]), floats.union(others)]
    differ: set[Site] = set()
    for seed, chosen in product(range(DRAWS), dict.fromkeys(choices)):
        clock = Clock(len(launch.clock.block), launch.clock.padded)
        again, values = inputs.again(launch, inputs.copies(), clock=clock, disputes=Disputes())
        numbers = count()
        values = [_drawn(value, numbers, chosen, seed) for value in values]
        for array in again.captured.values():
            _drawn(array, numbers, chosen, seed)
        again.watch(stored, dict(zip(inputs.names, values, strict=True)))
        try:
            for chunk in chunks:
                program(OtherData(again, geometry(*chunk)), *values)
        except (EndlessLoop, Unsupported):
            pass  # as far as it came
        again.disputes.judge()
        differ |= alike & {launch.sites[number] for number in again.disputes.torn}
        differ |= alike & {place for kind, place in again.findings if kind == "race"}
        if differ == alike:
            break
    return differ


def _dtype(leaf: Any) -> np.dtype:
    return leaf.dtype if isinstance(leaf, Array) else np.asarray(leaf).dtype


def _drawn(value: Any, numbers: Iterator[int], chosen: frozenset[int], seed: int) -> Any:
    """An argument, with other elements, or another number, if it is among the chosen ones."""
    if isinstance(value, tuple):
        return tuple(_drawn(part, numbers, chosen, seed) for part in value)
    number = next(numbers)
    if number not in chosen:
        return value
    if type(value) is int:
        return value + 1 + (seed + number) % 3
    size = value.flat.size if isinstance(value, Array) else 1
    fill = ("wild", "opposite")[seed % 2]
    drawn = stand_ins(fill, _dtype(value), size, DRAWS * number + seed)
    if drawn.dtype.kind in "fc" and seed % 4 in (1, 2):  # of large ones the last digits are zeros
        drawn = (drawn * (100 / np.abs(drawn).max(initial=1))).astype(drawn.dtype)
    if not isinstance(value, Array):
        return type(value)(drawn[0])
    value.flat[...] = drawn
    return value


class OtherData(Silent):
    """Threads that say nothing of what other data make them do, except where they meet."""

    passes = 0

    def head(self, loop) -> bool:
        self.passes += 1
        if self.passes > MOST_PASSES:
            raise EndlessLoop("on other data it does not end soon")
        return super().head(loop)

    def array_at(self, *of_an_address) -> Array:
        raise Unsupported("memory at an address is the user's own")

    def out_of_bounds(self, *of_a_finding) -> None: ...

    def negative_index(self, *of_a_finding) -> None: ...
