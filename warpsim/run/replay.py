"""One more run of a traced launch, which reports what it does, event by event.

:mod:`warpsim.run.uninitialised` holds such runs against each other.
"""

from __future__ import annotations

from array import array as compact
from collections import Counter
from typing import Any

import numpy as np

from warpsim.core.interface import device_memory
from warpsim.core.masks import EndlessLoop, Mask
from warpsim.core.memory import Array, global_array
from warpsim.front.names import Site
from warpsim.run.threads import Threads

ndarray = np.ndarray

#: What stands in for the unwritten: first, as in the traced run, where others are held against it.
BASE, *OTHERS = ("zeros", "wild", "opposite", "ones", "nan")

#: Runs in which comparisons with the unwritten come out the other way than in the first.
TURNED = ("opposite", "ones")

#: What stands in elsewhere while one place is tried: 0 would hide what is multiplied with it.
ELSEWHERE = "ones"

#: Bytes kept of what is compared; comparisons beyond come out as they do.
MOST_BYTES = 1 << 26


class Differs(Exception):
    """A run does something else than the one before it; ``args`` say what, and where."""


# ---------------------------------------------------------------------- what stands in
def stand_ins(fill: str, dtype: np.dtype, size: int, seed: int) -> ndarray:
    """Values for memory that was never written.

    Parameters
    ----------
    fill : {'zeros', 'ones', 'wild', 'opposite', 'nan'}
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
    if fill == "nan":
        if dtype.kind in "fc":
            return np.full(size, np.nan, dtype)
        fill = "wild"
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
    values = random.integers(top // 2, top, size, dtype)
    if dtype.kind == "u":
        return values if fill == "wild" else top - values
    return (signs * values).astype(dtype)


# ---------------------------------------------------------------------- one run
class Transcript:
    """What one run does, event by event; held against another run's if that is given.

    Parameters
    ----------
    fill : str
        What stands in for the unwritten.
    only : Site, optional
        A place whose reads alone get it; all others get :data:`ELSEWHERE`.
    model : Transcript, optional
        The run to be held against.
    most : int, optional
        End the run after so many events.
    """

    def __init__(
        self,
        fill: str,
        only: Site | None = None,
        model: Transcript | None = None,
        most: int | None = None,
    ):
        self.fill, self.only, self.model, self.most = fill, only, model, most
        self.events = compact("q")
        self.aside: dict[tuple, tuple[int, int]] = {}
        self.repeats: Counter = Counter()
        self.compared: dict[tuple, tuple[ndarray, ndarray]] = {}
        self.bytes_left = MOST_BYTES
        self.memory: list[ndarray] = []

    def add(self, event: int, words: str, site: Site | None) -> None:
        """One thing that the threads do."""
        model = self.model
        if model is not None:
            number = len(self.events)
            if number >= len(model.events) or model.events[number] != event:
                raise Differs(words, site)
        if self.most is not None and len(self.events) >= self.most:
            raise EndlessLoop("a run with other values in unwritten memory does not end")
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

    @property
    def everywhere(self) -> str:
        """What stands in where no single place is tried."""
        return self.fill if self.only is None else ELSEWHERE

    @property
    def compares(self) -> bool:
        """Does this run keep its comparisons, or turn them?"""
        return self.model is None or self.fill in TURNED

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


class Silent(Threads):
    """Threads that count nothing and print nothing, in memory of their own."""

    def captured(self, device: Any, name: str) -> Array:
        if id(device) not in self.launch.captured:  # a way that the traced run did not go
            copy = device_memory(device).copy()
            self.launch.captured[id(device)] = global_array(copy, name)
        return self.launch.captured[id(device)]

    def candidate(self, *of_a_candidate, **more) -> None:
        """Known from the traced run."""

    def print(self, *parts) -> None:
        """Nothing is printed twice."""

    def count(self, site: int, operations: dict[str, int]) -> None: ...

    def count_branch(self, site: int, warps: int, both: int) -> None: ...

    def count_access(self, array: Array, uniform, varying, bad, site: int, op: str) -> None: ...


class Replay(Silent):
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

    def _fill(self, array: Array, known: bool) -> Array:
        if not known:
            seed = len(self._allocated)
            fill = self.transcript.everywhere
            array.flat[...] = self._stand_in(array.dtype, array.flat.size, fill, seed)
        return array

    def shared_array(self, shape: tuple[int, ...], dtype: str, site: int, *more: int) -> Array:
        known = self.base + site in self._allocated
        return self._fill(super().shared_array(shape, dtype, site, *more), known)

    def local_array(self, shape: tuple[int, ...], dtype: str, site: int, *more: int) -> Array:
        known = self.base + site in self._allocated
        return self._fill(super().local_array(shape, dtype, site, *more), known)

    def _watched(self, part: Array, root: Array) -> None:
        super()._watched(part, root)
        if part.space == "local" and not np.may_share_memory(part.flat, root.flat):
            self._fill(part, False)  # a field that is an array has memory of its own

    def stand_in(self, dtype: np.dtype, site: int) -> ndarray:
        chosen = self.transcript.only in (None, self.site(site))
        return self._stand_in(
            dtype, self.lanes, self.transcript.fill if chosen else ELSEWHERE, 1000 + site
        )

    def lost(self, dtype: np.dtype, site: int, lanes: ndarray) -> ndarray:
        return np.broadcast_to(self.stand_in(dtype, site), (self.lanes,))[lanes]

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
        if written is None or not mask:
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

    def load_at(self, array: Array, uniform, varying, bad, site: int):
        value = super().load_at(array, uniform, varying, bad, site)
        if self.fresh is not None:  # other places keep on reading theirs
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

    def compare(self, symbol: str, left, right, site: int):
        result = super().compare(symbol, left, right, site)
        numbers = all(np.asarray(value).dtype.kind in "biufc" for value in (left, right))
        if not (self.mask and self.transcript.compares and numbers):
            return result
        active, marks = self.mask.active, _marks(left, right, result)
        kept = self.transcript.keep_compared((symbol, self.base + site), active, marks)
        if kept is None:
            return result
        differ = active & kept[0] & ((kept[1] ^ marks) > 1)
        return np.where(differ, (kept[1] & 1) == 0, result) if differ.any() else result

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

    # ------------------------------------------------------------------ what a replay leaves out
    def found(self, *of_a_finding, **more) -> None: ...

    def track(self, array: Array, size: int) -> None: ...

    def barrier_passed(self) -> None: ...

    def grid_passed(self) -> None: ...

    def syncwarp(self, *mask_and_site) -> None: ...

    def threadfence(self, site: int) -> None: ...

    threadfence_system = threadfence


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
