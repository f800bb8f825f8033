"""Does the value of something that was never written matter? The launch runs again to find out.

A traced launch notes its reads of unwritten memory and of variables that were never set
(:mod:`course.simt.unwritten`). If there are any, it runs again on the same inputs, each time with
something else in all that is never written. If a value stored to global memory, an address, or the
way of a thread at an `if` or a loop differs between two such runs, it comes from there, and that
is an error; if nothing differs, the kernel throws the values away, as correct kernels do with
padding. Runs stop at the first difference, and a launch without such reads never runs again.

The stand-ins are finite numbers, large and small, of both signs, and 0 and 1, another one for each
element; so 0 times a stand-in is 0, and a comparison with one comes out both ways.
"""

from __future__ import annotations

from array import array as compact
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from course.simt.counts import Counters
from course.simt.emit import Site
from course.simt.masks import EndlessLoop, Mask
from course.simt.memory import Array
from course.simt.names import Unsupported
from course.simt.report import Finding, in_function
from course.simt.threads import Threads, geometry

ndarray = np.ndarray

#: What stands in for the unwritten: first in the run that the others are held against.
BASE, *OTHERS = ("ones", "wild", "opposite", "zeros")

#: At most so many places are tried one by one.
MOST_PLACES = 12


class Differs(Exception):
    """A run does something else than the one before it; ``args`` say what, and where."""


# ---------------------------------------------------------------------- what stands in
def stand_ins(fill: str, dtype: np.dtype, size: int, seed: int) -> ndarray:
    """Values for memory that was never written.

    Parameters
    ----------
    fill : {'zeros', 'ones', 'wild', 'opposite'}
        Wild ones are large and of random sign: as an index or a bound far outside, and larger
        than any data, but their cube is finite. The opposite has the other signs.
    dtype : numpy.dtype
    size : int
    seed : int
        The same seed gives the same values.
    """
    if dtype.names:
        values = np.zeros(size, dtype)
        for number, name in enumerate(dtype.names):
            part = values[name]
            part[...] = stand_ins(fill, part.dtype, part.size, seed + number).reshape(part.shape)
        return values
    if fill in ("zeros", "ones"):
        return np.full(size, fill == "ones", dtype)
    random = np.random.default_rng(seed)
    if dtype.kind == "b":
        return (random.random(size) < 0.5) ^ (fill == "opposite")
    part = 0.5 + 0.4 * random.random(size)
    signs = random.choice((-1, 1), size) * (1 if fill == "wild" else -1)
    if dtype.kind == "f":
        return (signs * part * 0.1 * np.cbrt(np.float64(np.finfo(dtype).max))).astype(dtype)
    if dtype.kind == "c":
        real = np.dtype(f"f{dtype.itemsize // 2}")
        both = [stand_ins(fill, real, size, seed + number) for number in (1, 2)]
        return (both[0] + 1j * both[1]).astype(dtype)
    top = int(np.iinfo(dtype).max)
    if dtype.kind == "u":
        return ((part if fill == "wild" else 1 - part) * top).astype(dtype)
    return (signs * part * top).astype(dtype)


# ---------------------------------------------------------------------- the same inputs again
class Inputs:
    """The arguments of a launch as they were before it."""

    def __init__(self, names: list[str], values: list[Any], stored: frozenset[str]):
        self.values = values
        self._kept: dict[int, tuple[ndarray, ndarray]] = {}
        for name, value in zip(names, values, strict=True):
            if name in stored:
                for part in _arrays(value):
                    owner = _owner(part.flat)
                    self._kept.setdefault(id(owner), (owner, owner.copy(order="K")))

    def fresh(self) -> tuple[list[Any], list[ndarray]]:
        """Arguments to run with, and their memory that the kernel may change."""
        copies = {key: kept.copy(order="K") for key, (_, kept) in self._kept.items()}
        return [self._renewed(value, copies) for value in self.values], list(copies.values())

    def _renewed(self, value: Any, copies: dict[int, ndarray]) -> Any:
        if isinstance(value, tuple):
            return tuple(self._renewed(part, copies) for part in value)
        if not isinstance(value, Array):
            return value
        owner, flat = _owner(value.flat), value.flat
        if id(owner) in copies and flat.size:
            memory = copies[id(owner)].reshape(-1, order="A")
            start = _address(flat) - _address(owner)
            flat = np.ndarray(flat.shape, flat.dtype, memory.view(np.uint8), start, flat.strides)
        new = Array(flat, value.shape, value.strides, value.space, value.name, value.offset)
        new.address, new.pitch = value.address, value.pitch
        return new


def _arrays(value: Any) -> Iterator[Array]:
    for part in value if isinstance(value, tuple) else (value,):
        if isinstance(part, tuple):
            yield from _arrays(part)
        elif isinstance(part, Array):
            yield part


def _owner(flat: ndarray) -> ndarray:
    """The whole allocation that memory is a part of."""
    owner = flat
    while isinstance(owner.base, ndarray):
        owner = owner.base
    whole = owner.flags.c_contiguous or owner.flags.f_contiguous
    return owner if whole else flat


def _address(memory: ndarray) -> int:
    return memory.__array_interface__["data"][0]


# ---------------------------------------------------------------------- one run
class Transcript:
    """What one run does, event by event; held against another run's if that is given.

    Parameters
    ----------
    fill : str
        What stands in for the unwritten.
    only : Site, optional
        A place whose reads alone get it; all others get the stand-in of the base.
    model : Transcript, optional
        The run to be held against.
    """

    def __init__(self, fill: str, only: Site | None = None, model: Transcript | None = None):
        self.fill, self.only, self.model = fill, only, model
        self.events = compact("q")
        self.aside: dict[tuple, tuple[int, int]] = {}
        self.repeats: Counter = Counter()
        self.memory: list[ndarray] = []

    def add(self, event: int, words: str, site: Site | None) -> None:
        """One thing that the threads do."""
        model = self.model
        if model is not None:
            number = len(self.events)
            if number >= len(model.events) or model.events[number] != event:
                raise Differs(words, site)
        self.events.append(event)
        self.repeats.clear()

    def add_aside(self, place: tuple, who: int, event: int, words: str, site: Site) -> None:
        """One thing in a part of an expression that only some threads evaluate.

        Which ones may depend on the unwritten, as in ``tile[i] > 0 and inside``; only what the
        same threads do in both runs is compared.
        """
        self.repeats[place] += 1
        key = (len(self.events), self.repeats[place], *place)
        self.aside[key] = who, event
        other = self.model.aside.get(key) if self.model is not None else None
        if other is not None and other[0] == who and other[1] != event:
            raise Differs(words, site)


class Replay(Threads):
    """Threads that count nothing and check nothing, but report what they do to a `Transcript`."""

    def __init__(self, launch: Any, geometry: Any, transcript: Transcript):
        super().__init__(launch, geometry)
        self.transcript = transcript
        self.lazy = 0
        self.fresh: tuple[Array, ndarray, ndarray] | None = None
        self.operands: tuple = ()
        self._prepared: dict = {}

    def event(self, words: str, site: int, *parts: bytes) -> None:
        place = (words, self.base + site)
        if self.lazy:
            who = hash(self._bits(self.mask))
            self.transcript.add_aside(place, who, hash(parts), words, self.site(site))
        else:
            self.transcript.add(hash((place, parts)), words, self.site(site))

    @staticmethod
    def _bits(mask: Mask) -> bytes:
        return mask.active.tobytes() if mask else b""

    def _chosen(self, value: Any, mask: Mask, dtype: np.dtype | None = None) -> bytes:
        """The values of the active lanes as bytes, equal ones alike."""
        if isinstance(value, tuple):
            return b"".join(self._chosen(part, mask) for part in value)
        if not mask or isinstance(value, str | Array):
            return b""
        lanes = np.broadcast_to(np.asarray(value), (self.lanes,))[mask.indices]
        lanes = lanes if dtype is None else lanes.astype(dtype, copy=False)
        if lanes.dtype.names:
            return b"".join(self._chosen_field(lanes[name]) for name in lanes.dtype.names)
        return self._chosen_field(lanes)

    @staticmethod
    def _chosen_field(values: ndarray) -> bytes:
        if values.dtype.kind in "fc":
            values = np.where(np.isnan(values), np.nan, values + 0).astype(values.dtype)
        return values.tobytes()

    # ------------------------------------------------------------------ what stands in
    def _stand_in(self, dtype: np.dtype, size: int, fill: str, seed: int) -> ndarray:
        key = dtype.str, size, fill, seed
        if key not in self._prepared:
            self._prepared[key] = stand_ins(fill, dtype, size, seed)
        return self._prepared[key]

    @property
    def _everywhere(self) -> str:
        """What stands in where no single place is tried."""
        return self.transcript.fill if self.transcript.only is None else BASE

    def _fill(self, array: Array, known: bool) -> Array:
        if not known:
            seed = len(self._allocated)
            array.flat[...] = self._stand_in(array.dtype, array.flat.size, self._everywhere, seed)
        return array

    def shared_array(self, shape: tuple[int, ...], dtype: str, site: int) -> Array:
        known = self.base + site in self._allocated
        return self._fill(super().shared_array(shape, dtype, site), known)

    def local_array(self, shape: tuple[int, ...], dtype: str, site: int) -> Array:
        known = self.base + site in self._allocated
        return self._fill(super().local_array(shape, dtype, site), known)

    def stand_in(self, dtype: np.dtype, site: int) -> ndarray:
        chosen = self.transcript.only in (None, self.site(site))
        return self._stand_in(
            dtype, self.lanes, self.transcript.fill if chosen else BASE, 1000 + site
        )

    def candidate(self, what: str, advice: str, site: int, lane: int) -> None:
        """Known from the traced run."""

    # ------------------------------------------------------------------ events: memory
    def record(self, array: Array, uniform, varying, bad, site: int, op: str, value=None) -> None:
        mask = self.active_part(bad)
        elements = self.elements(array, uniform, varying)
        words = "chooses the element of {array}"
        self.event(words, site, self._bits(mask), elements[mask.indices].tobytes() if mask else b"")
        if array.space == "global" and op == "store":
            self.event("is stored in {array}", site, self._chosen(value, mask, array.dtype))
        elif array.space == "global" and op == "atomic":
            self.event("goes into an atomic on {array}", site, self._chosen(self.operands, mask))
        written = array.root.written
        if self.transcript.only is None or written is None or not mask:
            return
        if op != "store" and self.site(site) == self.transcript.only:
            self._substitute(array, elements, mask, op)
        if op != "load":
            written[elements[mask.indices]] = True

    def _substitute(self, array: Array, elements: ndarray, mask: Mask, op: str) -> None:
        """Put the stand-in into the unwritten elements that the tried place reads."""
        root, place = array.root, elements[mask.indices]
        place = place[~root.written[place]]
        if len(place):
            values = self._stand_in(array.dtype, root.flat.size, self.transcript.fill, 0)[place]
            if op == "load":
                self.fresh = root.flat, place, root.flat[place].copy()
            root.flat[place] = values

    def load(self, array: Array, index: tuple, site: int):
        value = super().load(array, index, site)
        if self.fresh is not None:  # other places keep on reading the base's stand-in
            flat, place, before = self.fresh
            flat[place] = before
            self.fresh = None
        return value

    def atomic(self, kind: str, array: Array, index: tuple, site: int, used: bool, *values):
        self.operands = values
        return super().atomic(kind, array, index, site, used, *values)

    # ------------------------------------------------------------------ events: ways
    def split(self, condition, site: int | None = None, sides: int = 2) -> tuple[Mask, Mask]:
        yes, no = super().split(condition)
        if site is not None:
            self.event("decides the `if`", site, self._bits(yes), self._bits(no))
        return yes, no

    def test(self, condition, site: int | None = None) -> bool:
        goes_on = super().test(condition)
        if site is not None:
            self.event("decides how long the loop runs", site, self._bits(self.mask))
        return goes_on

    def range(self, loop, start, stop=None, step=1, site: int | None = None):
        if site is not None:
            limits = start, 0 if stop is None else stop, step
            self.event("decides how often the loop runs", site, self._chosen(limits, self.mask))
        return super().range(loop, start, stop, step)

    def _lazily(self, left, right, goes_on: bool):
        self.lazy += 1
        try:
            return super()._lazily(left, right, goes_on)
        finally:
            self.lazy -= 1

    def choose(self, condition, yes, no):
        self.lazy += 1
        try:
            return super().choose(condition, yes, no)
        finally:
            self.lazy -= 1

    def print(self, *parts) -> None:
        """Nothing is printed twice."""

    # ------------------------------------------------------------------ what a replay leaves out
    def count(self, site: int, operations: dict[str, int]) -> None: ...

    def found(self, kind: str, message: str, site: int, lane: int | None) -> None: ...

    def track(self, array: Array, size: int) -> None: ...

    def barrier_passed(self) -> None: ...

    def grid_passed(self) -> None: ...

    def syncwarp(self, *mask_and_site) -> None: ...

    def threadfence(self, site: int) -> None: ...

    threadfence_system = threadfence


# ---------------------------------------------------------------------- the judgement
class Again:
    """Runs a launch again, and says which of its candidates are errors.

    Parameters
    ----------
    launch : course.simt.launch.Launch
        With the candidates of the traced run.
    program : callable
        The lane program.
    chunks : list of tuple
        The geometry of each chunk of blocks.
    inputs : Inputs
    """

    def __init__(self, launch: Any, program: Callable, chunks: list[tuple], inputs: Inputs):
        self.launch, self.program, self.chunks, self.inputs = launch, program, chunks, inputs

    def findings(self) -> dict[tuple[str, Site], Finding]:
        """The findings, by kind and place."""
        base = Transcript(BASE)
        try:
            self._run(base)
        except (EndlessLoop, Unsupported):
            return {}
        for fill in OTHERS:
            transcript = Transcript(fill, model=base)
            end = self._difference(transcript)
            if end is not None:
                return self._judged(fill, base, end)
        return {}

    def _run(self, transcript: Transcript) -> None:
        values, transcript.memory = self.inputs.fresh()
        launch = replace(
            self.launch, counters=Counters(), findings={}, candidates={}, shadows={}, debug=False
        )
        for chunk in self.chunks:
            self.program(Replay(launch, geometry(*chunk), transcript), *values)

    def _difference(self, transcript: Transcript) -> tuple[str, Site | None] | None:
        """Where a run first does something else than its model, if anywhere."""
        model = transcript.model
        try:
            self._run(transcript)
        except Differs as difference:
            return difference.args
        except (EndlessLoop, Unsupported):
            return None
        same = len(transcript.events) == len(model.events) and all(
            _same(a, b) for a, b in zip(transcript.memory, model.memory, strict=True)
        )
        return None if same else ("changes the result", None)

    def _judged(self, fill: str, base: Transcript, end: tuple) -> dict[tuple[str, Site], Finding]:
        """Findings for the candidates that matter, when all of them together do."""
        candidates = self.launch.candidates
        ends = {}
        if len(candidates) > 1:
            for site in list(candidates)[:MOST_PLACES]:
                alone = self._difference(Transcript(fill, site, base))
                if alone is not None:
                    ends[site] = alone
        if not ends:
            ends[next(iter(candidates))] = end
        found = (self._finding(site, *end) for site, end in ends.items())
        return {(finding.kind, site): finding for site, finding in zip(ends, found, strict=True)}

    def _finding(self, site: Site, words: str, end: Site | None) -> Finding:
        found = self.launch.candidates[site]
        if end is not None:
            words = words.format(array=end.array)
            if (end.line, end.function) != (site.line, site.function):
                words += f" in line {end.line}"
                if end.function != site.function:
                    words += f" of {end.function}"
        remark = in_function(site, self.launch.name)
        message = f"{found.what} {words}; {found.advice}{remark}"
        return Finding("uninitialised-read", site.line, site.code, message, found.where)


def _same(a: ndarray, b: ndarray) -> bool:
    if a.dtype.names:
        return all(_same(a[name], b[name]) for name in a.dtype.names)
    return bool(np.all((a == b) | ((a != a) & (b != b))))
