"""One more run of a traced launch, which reports what it does, event by event.

:mod:`warpsim.run.uninitialised` holds such runs against each other.
"""

from __future__ import annotations

from array import array as compact
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from warpsim.core.interface import device_memory
from warpsim.core.masks import EndlessLoop, Mask
from warpsim.core.memory import Array, global_array
from warpsim.front.names import Site
from warpsim.run.control import Control
from warpsim.run.memory import Memory
from warpsim.run.observer import Observer
from warpsim.run.state import State
from warpsim.run.threads import Threads

ndarray = np.ndarray

#: What stands in for the unwritten: first, as in the traced run, where others are held against it.
BASE, *OTHERS = ("zeros", "wild", "opposite", "ones", "nan")

#: Runs in which comparisons with the unwritten come out the other way than in the first.
INVERTED = ("opposite", "ones")

#: What stands in elsewhere while one place is tried: 0 would hide what is multiplied with it.
ELSEWHERE = "ones"

#: Bytes kept of what is compared; comparisons beyond come out as they do.
MOST_BYTES = 1 << 26
#: Accesses to each thread's own arrays that are remembered.
MOST_PLACES = 4096


class Differs(Exception):
    """A run does something else than the one before it; ``args`` say what, and where."""


# ---------------------------------------------------------------------- what stands in
def stand_ins(fill: str, dtype: np.dtype, size: int, seed: int) -> ndarray:
    """Values for memory that was never written: zeros, ones, wild, opposite or nan.

    Wild ones are large and of random sign: as an index or a bound far outside, and larger than any
    data, but their cube is finite. The opposite of the same seed has the other signs.
    """
    if dtype.names:
        return by_field(partial(stand_ins, fill), dtype, size, seed)
    if fill == "nan" and dtype.kind in "fc":
        return np.full(size, np.nan, dtype)
    if fill in ("zeros", "ones"):
        return np.full(size, fill == "ones", dtype)
    random = np.random.default_rng(seed)
    if dtype.kind == "b":
        return (random.random(size) < 0.5) ^ (fill == "opposite")
    part = 0.5 + 0.4 * random.random(size)
    signs = random.choice((-1, 1), size) * (-1 if fill == "opposite" else 1)
    if dtype.kind == "f":
        return (signs * part * 0.1 * np.cbrt(np.float64(np.finfo(dtype).max))).astype(dtype)
    if dtype.kind == "c":
        real = np.dtype(f"f{dtype.itemsize // 2}")
        both = [stand_ins(fill, real, size, seed + number) for number in (1, 2)]
        return (both[0] + 1j * both[1]).astype(dtype)
    top = int(np.iinfo(dtype).max)
    values = random.integers(top // 2, top, size, dtype)
    if dtype.kind == "u":
        return top - values if fill == "opposite" else values
    return (signs * values).astype(dtype)


def by_field(make: Callable, dtype: np.dtype, size: int, seed: int) -> ndarray:
    """Records, of which ``make(dtype, size, seed)`` gives each field's values."""
    values = np.zeros(size, dtype)
    for number, name in enumerate(dtype.names):
        part = values[name]
        part[...] = make(part.dtype, part.size, seed + number).reshape(part.shape)
    return values


# ---------------------------------------------------------------------- one run
@dataclass
class Transcript:
    """What one run does, event by event; held against another run, the ``model``, if it is given.

    ``fill`` stands in for the unwritten: everywhere, or in the reads of one place ``only``, where
    all others get :data:`ELSEWHERE`. After the ``most`` events a run is ended.
    """

    fill: str
    only: Site | None = None
    model: Transcript | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        self.events = compact("q")
        self.aside: dict[tuple, tuple[int, int]] = {}
        self.repeats: Counter = Counter()
        self.compared: dict[tuple, tuple[ndarray, ndarray]] = {}
        self.bytes_left = MOST_BYTES
        self.memory: list[ndarray] = []

    def add(self, event: int, words: str, site: Site | None) -> None:
        model, number = self.model, len(self.events)
        if self.most is not None and number >= self.most:
            raise EndlessLoop("a run with other values in unwritten memory does not end")
        if model is not None:
            if number >= len(model.events) or model.events[number] != event:
                raise Differs(words, site)
        self.events.append(event)
        self.repeats.clear()

    def add_aside(self, place: tuple, who: int, event: int, words: str, site: Site) -> None:
        """One thing in a part of an expression that only some threads, ``who``, evaluate.

        Which may depend on the unwritten; only what the same do in both runs is compared.
        """
        self.repeats[place] += 1
        key = (len(self.events), self.repeats[place], *place)
        self.aside[key] = who, event
        other = self.model.aside.get(key) if self.model is not None else None
        if other is not None and other[0] == who and other[1] != event:
            raise Differs(words, site)

    everywhere = property(lambda self: self.fill if self.only is None else ELSEWHERE)

    def keep_compared(self, place: tuple, active: ndarray, marks: ndarray):
        """Remember a comparison of the first run, or look it up: its threads and its marks."""
        self.repeats[place] += 1
        key = (len(self.events), self.repeats[place], *place)
        if self.model is not None:
            return self.model.compared.get(key)
        self.bytes_left -= marks.nbytes + active.nbytes
        if self.bytes_left >= 0:
            self.compared[key] = active, marks
        return None


def _nothing(self: Any, *of_an_event, **more) -> None:
    """Is known from the traced run, or nobody asks for it."""


class SilentObserver(Observer):
    """Counts nothing and prints nothing."""

    candidate = count = count_branch = count_access = print = _nothing


class SilentMemory(Memory):
    """Memory of a run that must not change what is outside."""

    def captured(self, device: Any, name: str) -> Array:
        captured = self.state.launch.captured
        if id(device) not in captured:  # a way that the traced run did not go
            captured[id(device)] = global_array(device_memory(device).copy(), name)
        return captured[id(device)]


class ReplayObserver(SilentObserver):
    """Checks nothing, but reports what threads do to a `Transcript`."""

    transcript: Transcript
    track = barrier_passed = grid_passed = syncwarp = _nothing
    threadfence = threadfence_system = _nothing

    def __init__(self, state: State):
        super().__init__(state)
        self.lazy = 0  # parts of expressions that only some threads evaluate, one in another
        self.substituted: tuple[ndarray, ndarray, ndarray] | None = None
        self.prepared = cache(stand_ins)
        self._places: dict[tuple, tuple[Mask, ndarray, bytes]] = {}

    def event(self, words: str, site: int, *parts: bytes) -> None:
        state = self.state
        place = (words, state.base + site)
        if self.lazy:
            who = hash(bits(state.mask))
            self.transcript.add_aside(place, who, hash(parts), words, state.site(site))
        else:
            self.transcript.add(hash((place, parts)), words, state.site(site))

    def chosen(self, value: Any, mask: Mask, dtype: np.dtype | None = None) -> bytes:
        """The values of the active lanes as bytes, equal ones alike."""
        if isinstance(value, tuple):
            return b"".join(self.chosen(part, mask) for part in value)
        if not mask or isinstance(value, str | Array):
            return b""
        lanes = np.asarray(value)
        lanes = lanes[mask.indices] if lanes.ndim else np.full(mask.count, lanes)
        lanes = lanes if dtype is None else lanes.astype(dtype, copy=False)
        if lanes.dtype.names:
            return b"".join(_alike(lanes[name]) for name in lanes.dtype.names)
        return _alike(lanes)

    # ------------------------------------------------------------------ what stands in
    def stand_in(self, dtype: np.dtype, site: int) -> ndarray:
        chosen = self.transcript.only in (None, self.state.site(site))
        fill = self.transcript.fill if chosen else ELSEWHERE
        return self.prepared(fill, dtype, self.state.lanes, 1000 + site)

    def lost(self, dtype: np.dtype, site: int, lanes: ndarray) -> ndarray:
        return self.stand_in(dtype, site)[lanes]

    # ------------------------------------------------------------------ events
    def record(self, array: Array, uniform, varying, bad, site: int, op: str, value=None) -> None:
        state = self.state
        mask = state.active_part(bad)
        place, told = self._place(array, uniform, varying, mask)
        self.event("chooses the element of {array}", site, bits(mask), told)
        if array.space == "global" and op == "store":
            self.event("is stored in {array}", site, self.chosen(value, mask, array.dtype))
        elif array.space == "global" and op == "atomic":
            self.event("goes into an atomic on {array}", site, self.chosen(value, mask))
        written = array.root.written
        if written is None or not mask:
            return
        if op != "store" and state.site(site) == self.transcript.only:
            place, flat = place[~written[place]], array.root.flat  # the tried one reads its own
            values = self.prepared(self.transcript.fill, array.dtype, flat.size, 0)[place]
            if op == "load" and len(place):
                self.substituted = flat, place, flat[place].copy()
            flat[place] = values
        if op != "load":
            written[place] = True

    def _place(self, array: Array, uniform, varying, mask: Mask) -> tuple[ndarray, bytes]:
        """The elements that the active lanes touch, also as bytes; those of a loop come back."""
        comes_back = varying is None and array.space == "local"
        key = id(mask), uniform
        if comes_back and key in self._places:
            return self._places[key][1:]
        elements = self.state.elements(array, uniform, varying)
        elements = elements[mask.indices] if mask else elements[:0]
        if comes_back:
            if len(self._places) >= MOST_PLACES:
                self._places.clear()
            self._places[key] = mask, elements, elements.tobytes()
        return elements, elements.tobytes()

    def compare(self, symbol: str, left, right, site: int):
        result = super().compare(symbol, left, right, site)
        mask = self.state.mask
        numbers = all(np.asarray(value).dtype.kind in "biufc" for value in (left, right))
        keeps = self.transcript.model is None or self.transcript.fill in INVERTED
        if not (mask and keeps and numbers):
            return result
        active, marks = mask.active, _marks(left, right, result)
        kept = self.transcript.keep_compared((symbol, self.state.base + site), active, marks)
        if kept is None:
            return result
        differ = active & kept[0] & ((kept[1] ^ marks) > 1)
        return np.where(differ, (kept[1] & 1) == 0, result) if differ.any() else result


class ReplayState(State):
    """Finds nothing."""

    found = _nothing


class ReplayMemory(SilentMemory):
    """Memory that holds stand-ins before it is written."""

    observer: ReplayObserver

    def fill(self, array: Array) -> None:
        seed, fill = len(self.state.allocated), self.observer.transcript.everywhere
        array.flat[...] = self.observer.prepared(fill, array.dtype, array.flat.size, seed)

    def load_at(self, array: Array, uniform, varying, bad, site: int):
        value = super().load_at(array, uniform, varying, bad, site)
        if self.observer.substituted is not None:  # other places keep on reading theirs
            flat, place, before = self.observer.substituted
            flat[place] = before
            self.observer.substituted = None
        return value


class ReplayControl(Control):
    """Control flow that reports the ways of the threads."""

    observer: ReplayObserver

    def split(self, condition, site: int | None = None, sides: int = 2) -> tuple[Mask, Mask]:
        yes, no = super().split(condition)
        if site is not None:
            self.observer.event("decides the `if`", site, bits(yes), bits(no))
        return yes, no

    def test(self, condition, site: int | None = None) -> bool:
        goes_on = super().test(condition)
        if site is not None:
            self.observer.event("decides how long the loop runs", site, bits(self.state.mask))
        return goes_on

    def range(self, loop, start, stop=None, step=1, site: int | None = None):
        if site is not None:
            limits = start, 0 if stop is None else stop, step
            told = self.observer.chosen(limits, self.state.mask)
            self.observer.event("decides how often the loop runs", site, told)
        return super().range(loop, start, stop, step)

    def _lazily(self, left, right, goes_on: bool):
        self.observer.lazy += 1
        result = super()._lazily(left, right, goes_on)
        self.observer.lazy -= 1
        return result

    def choose(self, condition, yes, no):
        self.observer.lazy += 1
        result = super().choose(condition, yes, no)
        self.observer.lazy -= 1
        return result


class Replay(Threads):
    """Threads of a run that is held against another."""

    State, Observer, Memory, Control = ReplayState, ReplayObserver, ReplayMemory, ReplayControl


def bits(mask: Mask) -> bytes:
    """The active lanes as bytes."""
    return mask.active.tobytes() if mask else b""


def _alike(values: ndarray) -> bytes:
    """Values as bytes, all NaN and both zeros alike."""
    if values.dtype.kind in "fc":
        values = np.where(np.isnan(values), np.nan, values + 0).astype(values.dtype)
    return values.tobytes()


def _marks(left: Any, right: Any, result: Any) -> ndarray:
    """For each comparison a number that tells its operands, and in its last bit the result."""
    first, second = (_whole(np.atleast_1d(value)) for value in (left, right))
    mixed = first * np.uint64(0x9E3779B97F4A7C15) + second * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed = (mixed ^ (mixed >> np.uint64(29))) >> np.uint64(31)
    return (mixed & np.uint64(0xFFFFFFFE)).astype(np.uint32) | np.atleast_1d(result)


def _whole(values: ndarray) -> ndarray:
    """Numbers as 64 bits, equal ones alike."""
    if values.dtype.kind == "c":
        return _whole(values.real) * np.uint64(0xD6E8FEB86659FD93) + _whole(values.imag)
    if values.dtype.kind == "f":
        wide = values.astype(np.float64)
        return np.where(np.isnan(wide), np.nan, wide + 0).view(np.uint64)
    return values.astype(np.int64 if values.dtype.kind in "bi" else np.uint64).view(np.uint64)
