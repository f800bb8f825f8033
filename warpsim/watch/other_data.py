"""Stores that nobody orders and that leave the same: would they on other data, too?

A launch with such stores runs again, with arguments drawn at random. The ways of its threads may be
others then, as they may be in the next launch of a user; what races in any of these runs is a race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, product
from typing import Any

import numpy as np

from warpsim.front.names import Site, Unsupported
from warpsim.host.interface import device_memory
from warpsim.run.masks import EndlessLoop
from warpsim.run.memory import Array, global_array
from warpsim.run.threads import Threads, geometry
from warpsim.watch.accesses import Clock
from warpsim.watch.counts import Counters
from warpsim.watch.disputes import Disputes
from warpsim.watch.races import HARMLESS
from warpsim.watch.report import Finding

ndarray = np.ndarray

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
    known = {place for kind, place in launch.findings if kind == "race"}
    alike -= differ | known
    # whoever keeps no inputs runs once; addresses would lead to memory that is the user's
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
    arguments = [*leaves(inputs.values), *launch.captured.values()]
    for leaf in arguments:
        if isinstance(leaf, Array):
            inputs.keep(leaf)  # what the kernel cannot change is as it was
    floats = frozenset(n for n, leaf in enumerate(arguments) if _kind(leaf) in "fc")
    others = [n for n, leaf in enumerate(arguments) if _kind(leaf) in "biuVmM"]
    choices = [floats, *(floats | {one} for one in others[:MOST_ALONE]), floats.union(others)]
    choices = [chosen for chosen in dict.fromkeys(choices) if chosen]
    differ: set[Site] = set()
    for seed, chosen in product(range(DRAWS), choices):
        again, values = _other_launch(launch, chosen, np.random.default_rng(seed))
        again.watch(stored, dict(zip(inputs.names, values, strict=True)))
        try:
            for chunk in chunks:
                program(OtherData(again, geometry(*chunk)), *values)
        except (EndlessLoop, Unsupported):
            pass  # as far as it came
        again.disputes.judge()
        differ |= alike & {launch.sites[number] for number in again.disputes.places[0]}
        differ |= alike & {place for kind, place in again.findings if kind == "race"}
        if differ == alike:
            break
    return differ


def leaves(values: Any) -> Iterator[Any]:
    """The arrays and numbers of some arguments, those in tuples, too."""
    for value in values:
        if isinstance(value, tuple):
            yield from leaves(value)
        else:
            yield value


def _kind(leaf: Any) -> str:
    return leaf.dtype.kind if isinstance(leaf, Array) else np.asarray(leaf).dtype.kind


def _other_launch(launch: Any, chosen: frozenset[int], random: np.random.Generator) -> tuple:
    copies, numbers = launch.inputs.copies(), count()

    def other(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(other, value))
        draw = next(numbers) in chosen
        if not isinstance(value, Array):
            return _other_number(value, random) if draw else value
        new = launch.inputs.renewed(value, copies)
        if draw:
            new.flat[...] = drawn(new.dtype, new.flat.size, random)
        return new

    values = list(map(other, launch.inputs.values))
    made = replace(
        launch,
        counters=Counters(launch.sites),
        findings={},
        candidates={},
        shadows={},
        spans=[],
        disputes=Disputes(),
        clock=Clock(len(launch.clock.block), launch.clock.padded),
        captured={key: other(array) for key, array in launch.captured.items()},
        inputs=None,
        debug=False,
    )
    return made, values


def _other_number(value: Any, random: np.random.Generator) -> Any:
    if isinstance(value, bool | np.bool_):
        return not value
    if isinstance(value, int):
        return value + int(random.integers(1, 4))
    return type(value)(drawn(np.asarray(value).dtype, 1, random)[0])


def drawn(dtype: np.dtype, size: int, random: np.random.Generator) -> ndarray:
    """Random elements: of both signs, small ones and large ones."""
    if dtype.names:
        values = np.zeros(size, dtype)
        for name in dtype.names:
            part = values[name]
            part[...] = drawn(part.dtype, part.size, random).reshape(part.shape)
        return values
    if dtype.kind in "fc":
        values = random.normal(0, 2, size) * np.where(random.random(size) < 0.5, 1, 100)
        return (values + (1j * random.normal(0, 2, size) if dtype.kind == "c" else 0)).astype(dtype)
    if dtype.kind == "b":
        return random.random(size) < 0.5
    if dtype.kind not in "iu":
        return random.integers(0, 1 << 16, size).astype("i8").astype(dtype)
    top = int(np.iinfo(dtype).max)
    wide = random.integers(0, top, size, dtype, endpoint=True)
    return np.where(random.random(size) < 0.5, wide, random.integers(0, 8, size)).astype(dtype)


class OtherData(Threads):
    """Threads that count nothing, and say nothing of what other data make them do."""

    passes = 0

    def head(self, loop) -> bool:
        self.passes += 1
        if self.passes > MOST_PASSES:
            raise EndlessLoop("on other data it does not end soon")
        return super().head(loop)

    def captured(self, device: Any, name: str) -> Array:
        if id(device) not in self.launch.captured:  # a way that the traced run did not go
            self.launch.captured[id(device)] = global_array(device_memory(device).copy(), name)
        return self.launch.captured[id(device)]

    def array_at(self, *of_an_address) -> Array:
        raise Unsupported("memory at an address is the user's own")

    def count(self, site: int, operations: dict[str, int]) -> None: ...

    def count_branch(self, site: int, warps: int, both: int) -> None: ...

    def count_access(self, array, uniform, varying, bad, site: int, op: str) -> None: ...

    def candidate(self, *of_a_candidate, **more) -> None: ...

    def out_of_bounds(self, *of_a_finding) -> None: ...

    def negative_index(self, *of_a_finding) -> None: ...

    def print(self, *parts) -> None: ...
