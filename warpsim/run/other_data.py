"""Stores that nobody orders and that leave the same: would they on other data, too?

A launch with such stores runs again, with arguments drawn at random. Its threads may go other ways
then, as they may in a user's next launch; what races in any of these runs is a race.
"""

import ast
import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from types import FunctionType
from typing import Any

import numpy as np

from warpsim.code.programs import program_of
from warpsim.core.masks import EndlessLoop
from warpsim.core.memory import Array, arrays, leaves
from warpsim.front.names import Site, Source, Unsupported
from warpsim.run.control import Control
from warpsim.run.replay import SilentMemory, SilentObserver, by_field, stand_ins
from warpsim.run.state import geometry
from warpsim.run.threads import Threads
from warpsim.watch.access_history import Clock
from warpsim.watch.disputes import Disputes
from warpsim.watch.findings import Finding
from warpsim.watch.races import HARMLESS

#: Times that each choice of arguments is drawn anew; whole numbers that are drawn alone. In all
#: draws but two most elements lie at, or beside, what the kernel may compare them with.
DRAWS, MOST_ALONE = 6, 8
#: The order in which draws are tried, each with another choice of arguments; runs that a launch
#: gets at least; passes of loops times threads (4,096 at least) that more runs may take.
ORDER, LEAST_RUNS, MOST_WORK = (0, 4, 1, 5, 2, 3), 4, 1 << 23
#: Passes of loops in one such run, beside twice those on the given data: what it has found by then
#: counts. Chunks of blocks that run.
MORE_PASSES, MOST_CHUNKS = 100, 2
#: Elements of an array outside the kernel that count as numbers in its text; what functions ask for
#: that no such number is.
MOST_OF_TABLE = 32
_ASKED_FOR = {
    "isnan": (math.nan,), "isinf": (math.inf,), "isfinite": (math.nan, math.inf),
}  # fmt: skip


def judged(launch: Any, run: Callable, chunks: list[tuple]) -> dict[tuple[str, Site], Finding]:
    """The findings of a launch, with a verdict on stores that nothing orders."""
    launch.disputes.judge()
    differ, alike = ({launch.sites[n] for n in places} for places in launch.disputes.places)
    repeats = launch.inputs is not None  # what runs warp by warp keeps none
    loads = {place for kind, place in launch.findings if kind == "unordered-load"}
    calm = _calm(launch, run, chunks, loads, differ, alike) if loads and repeats else set()
    known = {place for kind, place in launch.findings if kind == "race"} | (loads - calm)
    known = {(one.array, one.function) for one in known}
    alike = {one for one in alike - differ if (one.array, one.function) not in known}
    doubtful = calm | {one for one in alike if not launch.is_settled(one)}
    if doubtful and repeats:
        differ |= _judged_before(launch, run, chunks, doubtful, bool(calm))
    torn = {(one.array, one.function) for one in differ}
    calm = {one for one in calm if (one.array, one.function) not in torn}
    findings = {}
    for (kind, place), finding in launch.findings.items():
        if kind not in ("unordered", "unordered-load"):
            findings[kind, place] = finding
        elif place in differ or (kind == "unordered-load" and place not in calm):
            findings.setdefault(("race", place), finding)
        elif place in alike | calm:
            findings[HARMLESS, place] = launch.disputes.harmless[place]
    return findings


def _calm(launch, run, chunks, loads, differ, alike) -> set[Site]:
    """Places of loads, and of stores after them, where on these data no thread sees what changes.

    Only where all stores leave the same is there any.
    """
    same, torn = ({(one.array, one.function) for one in places} for places in (alike, differ))
    program, disputes = launch.program, launch.disputes
    calm = {one for one in loads if (one.array, one.function) in same - torn} - program.racing
    if not calm:
        return calm
    if not disputes.thorough and not disputes.gave_up:
        disputes, _ = _once_more(launch, run, chunks, lambda value: value, True)
    found = calm if disputes.gave_up else calm & {launch.sites[n] for n in disputes.early}
    program.racing |= found
    program.loads_unordered = calm != found  # the next launch is searched thoroughly at once
    return calm - found


def _judged_before(launch, run, chunks, doubtful: set[Site], thorough: bool) -> set[Site]:
    """`_on_other_data`; of the launches with such a place for the 1st, 4th, 16th and so on."""
    judged = launch.program.judged
    due = []
    for site in doubtful:
        times, differs = judged.get(site, (0, False))
        judged[site] = times, differs = times + 1, differs
        if not differs and times.bit_count() == 1 and times.bit_length() % 2 == 1:
            due.append(times.bit_length() // 2)
    if due:
        for site in _on_other_data(launch, run, chunks, doubtful, thorough, min(due)):
            judged[site] = judged[site][0], True
    return {site for site in doubtful if judged[site][1]}


def _once_more(launch, run, chunks, changed: Callable, thorough: bool) -> tuple[Disputes, set]:
    """A launch with arguments and arrays from outside ``changed``: its disputes, other races."""
    clock, disputes = Clock(len(launch.clock.block), launch.clock.padded), Disputes(thorough)
    inputs = launch.inputs
    again, values = inputs.again(launch, inputs.copies(), clock=clock, disputes=disputes)
    values = [changed(value) for value in values]
    taken = {f"captured {number}": one for number, one in enumerate(again.captured.values())}
    for array in taken.values():
        changed(array)
    names = launch.program.stored.union(taken)
    again.watch(names, {**dict(zip(inputs.names, values, strict=True)), **taken})
    passes = iter(range(2 * launch.passes + MORE_PASSES))
    try:
        for chunk in chunks:
            threads = OtherData(again, geometry(*chunk))
            threads.control.passes, threads.observer.given = passes, launch.findings
            run(threads, *values)
    except (EndlessLoop, Unsupported):
        pass  # as far as it came
    disputes.judge()
    kinds = ("race",) if disputes.thorough else ("race", "unordered-load")
    return disputes, {place for kind, place in again.findings if kind in kinds}


def _on_other_data(launch, run, chunks, alike: set[Site], thorough: bool, before: int) -> set[Site]:
    """Places among some at which the order matters, once arguments are drawn anew.

    Whole numbers may be addresses and sizes, with which nobody races any more if they are drawn:
    floats are drawn alone first, then with each whole number or array of them, then with all.
    """
    inputs = launch.inputs
    given = [*leaves((*inputs.values, *launch.captured.values()))]
    for array in arrays((*given,)):  # what the launch could not change, too: it is as it was
        inputs.keep(array)
    # numbers in the kernel's text and its functions', of names outside, and among its arguments
    found = [0.0, *leaves(inputs.values), *_numbers_in(launch.program.source, set())]
    real = (int, float, np.integer, np.floating)
    compared = np.unique([float(one) for one in found if isinstance(one, real)])
    kinds = [_dtype(leaf).kind for leaf in given]
    floats = frozenset(n for n, kind in enumerate(kinds) if kind in "fc")
    others = [n for n, kind in enumerate(kinds) if kind in "biuV"]
    choices = [floats, *(floats | {one} for one in others[:MOST_ALONE]), floats.union(others)]
    numbered = list(enumerate(dict.fromkeys(choices)))
    draws = [(ORDER[(n + repeat) % DRAWS], one) for repeat in range(DRAWS) for n, one in numbered]
    threads = max(4096, sum(blocks * math.prod(block) for _, block, _, blocks in chunks))
    most = max(LEAST_RUNS, MOST_WORK // (threads * (launch.passes + 1)))
    if before:
        first = LEAST_RUNS * before % len(draws)
        draws, most = draws[first:] + draws[:first], LEAST_RUNS
    differ = alike & {launch.sites[number] for number in launch.disputes.torn}
    for seed, chosen in draws[:most]:
        if differ == alike:
            break
        changed = partial(_drawn, numbers=count(), chosen=chosen, seed=seed, compared=compared)
        disputes, races = _once_more(launch, run, chunks[:MOST_CHUNKS], changed, thorough)
        differ |= alike & {launch.sites[number] for number in disputes.torn | disputes.early}
        differ |= alike if disputes.gave_up else alike & races
    return differ


def _dtype(leaf: Any) -> np.dtype:
    return leaf.dtype if isinstance(leaf, Array) else np.asarray(leaf).dtype


def _numbers_in(source: Source, seen: set[FunctionType]) -> Iterator[Any]:
    """What stands, or has a name, in the text of a function and of those that it calls."""
    for node in source.nodes:
        value = source.static(node)
        if isinstance(node, ast.Compare) and ast.dump(node.left) == ast.dump(node.comparators[0]):
            yield math.nan  # nothing else differs from itself
        elif getattr(value, "__name__", "") in _ASKED_FOR:
            yield from _ASKED_FOR[value.__name__]
        elif hasattr(value, "py_func") and value.py_func not in seen:
            seen.add(value.py_func)
            yield from _numbers_in(program_of(value).source, seen)
        for part in leaves(value):
            yield from part.flat[:MOST_OF_TABLE] if isinstance(part, np.ndarray) else (part,)


def _beside(numbers: np.ndarray, dtype: np.dtype, size: int, seed: int) -> np.ndarray:
    """Elements at some numbers, amid two of them, and a little or one above and below."""
    if dtype.names:
        return by_field(partial(_beside, numbers), dtype, size, seed)
    random = np.random.default_rng(seed)
    if dtype.kind == "c":
        kind = np.dtype(f"f{dtype.itemsize // 2}")
        real, imaginary = (_beside(numbers, kind, size, seed + number) for number in (1, 2))
        return (real + 1j * np.where(random.random(size) < 0.5, imaginary, 0)).astype(dtype)
    if dtype.kind == "b":
        return random.random(size) < 0.5
    finite = numbers[np.isfinite(numbers)]
    amid = (finite[1:] + finite[:-1]) / 2
    side = seed % 2 - 0.5
    near = np.concatenate([(1 + side / 2) * finite, finite - 2 * side, amid])
    whole = dtype.kind in "iu"
    # each of them as often, if there are enough elements: few that are chosen freely miss some
    at, near = (
        random.permutation(np.resize(random.permutation(some), size))
        for some in (finite if whole else numbers, near)
    )
    found = np.where(random.random(size) < 0.5, at, near)
    found *= random.choice([1, 1, -1], size)  # a text has hardly a number below 0
    if whole:
        limits = np.iinfo(dtype)
        found = np.clip(np.rint(found), max(limits.min, -(2.0**62)), min(limits.max, 2.0**62))
    return found.astype(dtype)


def _drawn(value: Any, numbers: Iterator[int], chosen: frozenset, seed: int, compared) -> Any:
    """An argument, with other elements, or another number, if it is among the chosen ones."""
    if isinstance(value, tuple):
        return tuple(_drawn(part, numbers, chosen, seed, compared) for part in value)
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
    if seed > 1:
        beside = _beside(compared, drawn.dtype, size, DRAWS * number + seed)
        random = np.random.default_rng(seed)
        is_beside = random.random(size) < 0.75 if size > 1 else seed % 3 == 2
        drawn = np.where(is_beside, beside, drawn)
        drawn = np.where(random.random(size) < 0.25, np.roll(drawn, 1), drawn)  # like neighbours
    if not isinstance(value, Array):
        return type(value)(drawn[0])
    value.flat[...] = drawn
    return value


class OtherObserver(SilentObserver):
    """Says nothing of where other data lead."""

    out_of_bounds = lambda self, *of_a_finding: None  # noqa: E731
    given: dict  # findings on the given data

    def negative_index(self, array, index, axis, lane, site, op) -> bool:
        """One that was never below zero on the given data counts from no end: it is outside."""
        return ("negative-index", self.state.site(site)) in self.given


class OtherControl(Control):
    """Control flow that ends before long."""

    passes: Iterator[int]  # of loops that are left

    def head(self, loop) -> bool:
        if next(self.passes, None) is None:
            raise EndlessLoop("on other data it does not end soon")
        return super().head(loop)


class OtherData(Threads):
    """Threads that say nothing of what other data make them do, except where they race."""

    Observer, Memory, Control = OtherObserver, SilentMemory, OtherControl
