"""What a launch does to memory and arithmetic units, counted as the hardware's counters count.

A *request* is one access of the source by one warp with at least one active lane. A *sector* is 32
aligned bytes of global memory, a *wavefront* one pass over the 32 four-byte banks of shared memory.
Source of the definitions: Nsight Compute's documentation, "Memory tables". A complex number in
global memory is two accesses, of its real and of its imaginary part, as in Numba's compiled code
(data/measurements/h200-counters.csv); in shared memory it is one.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

import numpy as np
from numpy import ndarray

from warpsim.core.masks import Mask, in_warps
from warpsim.core.memory import Array, contiguous_strides
from warpsim.front.names import Site

_sum = np.add.reduce
#: Of larger launches what each thread does is not kept.
MOST_THREADS = 1 << 20
PATTERNS = 64  # of accesses that are kept, with their arrays
SECTOR = 32  # bytes
BANKS = 32


@dataclass
class Count:
    """Sums over the accesses of one place in the source, or of several.

    ``sectors`` and ``ideal_sectors`` belong to global memory, ``wavefronts`` and
    ``ideal_wavefronts`` to shared memory; ``bytes`` is what the active lanes asked for.
    """

    requests: int = 0
    sectors: int = 0
    ideal_sectors: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    lanes: int = 0
    bytes: int = 0

    example = 0  # sectors or wavefronts of the request that is kept for the pictures

    @property
    def conflicts(self) -> int:
        """Wavefronts beyond the ideal."""
        return self.wavefronts - self.ideal_wavefronts

    def add(self, other: "Count") -> None:
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Counters:
    """The counts of one traced launch; without ``costs`` only errors are looked for."""

    def __init__(self, sites: tuple[Site, ...] = (), costs: bool = True) -> None:
        self.sites, self.costs = sites, costs
        self.accesses: dict[tuple[Site, str, str], Count] = defaultdict(Count)
        self.by_number: dict[tuple[int, str, str], tuple] = {}  # the same, found sooner
        self.samples: dict[tuple[Site, str, str], Sample] = {}  # for the pictures
        self.operations: Counter = Counter()
        self.doubles: dict[int, int] = defaultdict(int)  # float64 operations, by place
        self.branches: dict[Site, list[int]] = {}  # if-else: warps that came, that took both sides
        self.touched: dict[int, tuple[Array, ndarray]] = {}
        self._by_thread: dict[tuple[str, str], ndarray] = {}
        self._by_mask: dict[tuple, list] = {}  # not yet added to them: mask, times
        self.barriers = np.zeros(1, np.int32)  # that each block has passed
        self.called: dict[str, Site] = {}  # functions of other modules: where they are called
        self.threads = 0  # of a block, without those that fill its last warp

    def keep_by_thread(self, blocks: int, threads: int, padded: int) -> None:
        """From now on count the accesses of each thread, too, unless there are very many."""
        if blocks * padded <= MOST_THREADS:
            self.threads = threads
            kinds = product(("global", "shared"), ("load", "store", "atomic"))
            self._by_thread = {kind: np.zeros((blocks, padded), np.int32) for kind in kinds}

    def came(self, kind: tuple[str, str], mask, start: int) -> None:
        """The threads of a mask, of which the first lane's is number ``start``, touch memory."""
        if not self.threads:
            return
        key = kind, start, id(mask)
        if key not in self._by_mask and len(self._by_mask) >= PATTERNS:
            self._add_up()
        self._by_mask.setdefault(key, [mask, 0])[1] += 1

    def _add_up(self) -> None:
        for (kind, start, _), (mask, times) in self._by_mask.items():
            own = self._by_thread[kind].reshape(-1)[start : start + len(mask.active)]
            own += mask.active if times == 1 else mask.active * np.int32(times)
        self._by_mask.clear()

    @property
    def by_thread(self) -> dict[tuple[str, str], ndarray]:
        """Accesses of each thread, by space and operation; nothing for a very large launch."""
        self._add_up()
        return self._by_thread

    def of(self, number: int, space: str, op: str) -> tuple[tuple[Site, str, str], Count]:
        """The count of one kind of access at one of the launch's places, and its key."""
        found = self.by_number.get((number, space, op))
        if found is None:
            key = (self.sites[number], space, op)
            found = self.by_number[number, space, op] = key, self.accesses[key]
        return found

    def touch(self, array: Array, elements) -> None:
        root = array.root
        if id(root) not in self.touched:
            self.touched[id(root)] = (root, np.zeros(root.flat.size, bool))
        self.touched[id(root)][1][elements] = True

    @property
    def unique_bytes(self) -> int:
        touched = self.touched.values()
        return sum(np.count_nonzero(seen) * root.itemsize for root, seen in touched)


class Counting:
    """Counts the accesses and operations of the running threads."""

    state: Any
    counted_apart: bool

    def count(self, site: int, operations: dict[str, int]) -> None:
        """Operations of one statement, each done by every active lane."""
        state = self.state
        lanes, counters = state.mask.count, state.counters
        for kind, amount in operations.items():
            if kind == "in double":
                counters.doubles[state.base + site] += amount * lanes
            else:
                counters.operations[kind] += amount * lanes

    def count_branch(self, site: int, warps: int, both: int) -> None:
        """One ``if`` with an ``else``: how many warps came, and how many took both sides."""
        count = self.state.counters.branches.setdefault(self.state.site(site), [0, 0])
        count[:] = count[0] + warps, count[1] + both

    def counted(self, site: int, operations: dict[str, int], value):
        self.count(site, operations)
        return value

    def record(self, array: Array, uniform, varying, bad, site: int, op: str, value=None) -> None:
        mask = self.state.active_part(bad)
        if not mask or array.space == "constant":
            return
        if self.state.counters.costs and not self.counted_apart:
            self.count_access(array, uniform, varying, bad, site, op)
        self.watch(array, uniform, varying, mask, site, op, value)

    def count_access(self, array: Array, uniform, varying, bad, site: int, op: str) -> None:
        state = self.state
        mask = state.active_part(bad)
        if not mask or not state.counters.costs:
            return
        key, count = state.counters.of(state.base + site, array.space, op)
        count.lanes += mask.count
        count.bytes += mask.count * array.itemsize
        if array.space == "local":
            count.requests += mask.warps
            return
        state.counters.came((array.space, op), mask, state.geometry.start)
        if array.space == "global":
            self._record_global(count, key, array, uniform, varying, mask)
            return
        count.requests += mask.warps
        if array.space == "shared":
            self._record_shared(count, key, array, uniform, varying, mask)

    def _record_shared(self, count: Count, key, array: Array, uniform, varying, mask) -> None:
        is_atomic = key[2] == "atomic"  # its passes are not counted: the first request is kept
        if is_atomic or (varying is None and array.itemsize <= 4):
            if not is_atomic:
                count.wavefronts += mask.warps
                count.ideal_wavefronts += mask.warps
            self._sample(count, key, array, uniform, varying, mask, 1)
            return
        if varying is None:
            varying = np.zeros(len(mask.active), np.int64)
        size, pitch, loads = array.itemsize, array.pitch, key[2] == "load"
        phase = (uniform * pitch + array.root.address) % 4  # whole words further it is other banks
        moved, ideal, by_group = self.state.pattern(
            varying, mask, (size, pitch, phase, loads),
            lambda: self._wavefronts(varying, mask, size, pitch, phase, loads),
        )  # fmt: skip
        count.wavefronts += moved
        count.ideal_wavefronts += ideal
        groups = 32 // lanes_together(size)
        if moved > ideal or count.example < groups:
            by_warp = by_group if groups == 1 else by_group.reshape(-1, groups).sum(1)
            self._sample(count, key, array, uniform, varying, mask, int(by_warp.max()), by_warp)

    def _wavefronts(self, varying: ndarray, mask, size: int, *how) -> tuple[int, int, ndarray]:
        """Of all blocks; where all do as the first one does, by that one, which is the example."""
        state = self.state
        padded, blocks = state.padded, state.blocks
        active, whole = mask.active, mask.count == state.lanes
        alike = blocks > 1 and (varying[padded:] == varying[:-padded]).all()
        if alike and (whole or (active[padded:] == active[:-padded]).all()):
            one = Mask(active[:padded], mask.count // blocks, None)
            moved, ideal, by_group = wavefronts(varying[:padded], size, *how[:2], one, how[2])
            return moved * blocks, ideal * blocks, by_group
        return wavefronts(varying, size, *how[:2], mask, how[2])

    def _sample(self, count: Count, key, array, uniform, varying, mask, most: int, by_warp=None):
        """Keep the first request with the most sectors or wavefronts as this place's example."""
        if most <= count.example:
            return
        state, root, order = self.state, array.root, ""
        row = int(mask.indices[0]) // 32 if by_warp is None else int(by_warp.argmax())
        lanes = slice(row * 32, row * 32 + 32)
        elements = np.full(32, uniform) if varying is None else varying[lanes] + uniform
        if root.strides == contiguous_strides(root.shape):
            order = "C"
        elif root.strides == contiguous_strides(root.shape[::-1])[::-1]:
            order = "F"
        warp = (state.geometry.start // 32 + row) % (state.padded // 32)
        state.counters.samples[key] = Sample(
            *key, int(most), elements, mask.active[lanes].copy(), array.itemsize, array.pitch,
            root.address, root.shape, order, state.where(row * 32).block,
            state.geometry.block_shape, warp,
        )  # fmt: skip
        count.example = most

    def _record_global(self, count: Count, key, array: Array, uniform, varying, mask) -> None:
        size, pitch, address = array.itemsize, array.pitch, array.root.address
        parts = 2 if array.dtype.kind == "c" and key[2] != "atomic" else 1
        if varying is None:
            count.requests += mask.warps * parts
            count.sectors += mask.warps * parts
            count.ideal_sectors += mask.warps * parts
            self._sample(count, key, array, uniform, None, mask, 1)
            self.state.counters.touch(array, uniform)
            return
        for part in range(parts):
            phase = (uniform * pitch + address + part * (size // parts)) % SECTOR
            # the ideal of the whole element: that its parts lie side by side is no one's mistake
            requests, sectors, ideal, by_warp, most = self.state.pattern(
                varying, mask, (size, pitch, phase),
                lambda at=phase: sector_counts(varying, size, pitch, at, mask),
            )  # fmt: skip
            count.requests += requests
            count.sectors += sectors
            count.ideal_sectors += ideal
        self._sample(count, key, array, uniform, varying, mask, most, by_warp)
        elements = self._distinct(varying, mask)
        self.state.counters.touch(array, elements + uniform if uniform else elements)

    def _distinct(self, varying: ndarray, mask) -> ndarray:
        """The elements that active lanes touch; each once, if the same lanes come again."""
        kept = self.state.pattern(varying, mask, (), list)
        if not kept:
            kept.append(varying if mask.count == len(varying) else varying[mask.indices])
        elif len(kept) == 1:
            elements, first = kept[0], kept[0].min()
            span = int(elements.max() - first) + 1
            if span <= 8 * len(elements):
                touched = np.zeros(span, bool)
                touched[elements - first] = True
                elements = np.flatnonzero(touched) + first
            kept[:] = elements, "each once"
        return kept[0]


def sector_counts(elements: ndarray, size: int, pitch: int, address: int, mask) -> tuple:
    """Requests, sectors and ideal sectors of one access, the sectors of each warp and the most.

    The element of each lane has ``size`` bytes, with ``pitch`` to the next, from ``address`` on.
    """
    low = -(1 << 40)  # idle lanes: below any address
    if mask.count < len(elements):
        elements = np.where(mask.active, elements, low)
    if not np.logical_and.reduce(_beside(np.greater_equal, elements, True)):
        elements = np.sort(elements.reshape(-1, 32), axis=1).reshape(-1)
    first = elements[::32] > low
    distinct = _changes(elements) + first
    by_warp = _changes((elements * pitch + address) >> 5) + first
    ideal = _sum((distinct * np.int64(size) + (SECTOR - 1)) >> 5)
    return mask.warps, int(_sum(by_warp)), int(ideal), by_warp, int(by_warp.max())


def _beside(compare: np.ufunc, values: ndarray, first: bool) -> ndarray:
    """How each lane compares with its neighbour on the left; ``first`` for a warp's lane 0."""
    steps = np.empty(len(values), bool)
    compare(values[1:], values[:-1], out=steps[1:])
    steps[::32] = first
    return steps


def _changes(values: ndarray) -> ndarray:
    """How often lanes of a warp differ from their neighbour on the left, for each warp."""
    return np.bitwise_count(in_warps(_beside(np.not_equal, values, False)))


def wavefronts(elements: ndarray, size: int, pitch: int, address: int, mask, loads=True) -> tuple:
    """Wavefronts of one access to shared memory, the least that its width needs, and by group.

    All lanes of a warp go together for elements of up to 4 bytes, half warps for 8 bytes, quarter
    warps for 16: bytes of one four-byte word never conflict. Loads of 8 and 16 bytes need half as
    many groups, neighbouring ones go together, if in the whole warp each lane ``i`` has the element
    of lane ``i ^ 1``, or each that of lane ``i ^ 2``; an idle lane fits any other. Stores do not.
    Source: measured on an H200 (data/measurements/h200-counters.csv).
    """
    words = (elements * pitch + address) >> 2
    by_group = passes(words, mask.active, size)
    if loads and lanes_together(size) < 32:
        alike = _alike(elements, mask.active, 1) | _alike(elements, mask.active, 2)
        if alike.any():
            lanes, rows = alike.repeat(32), by_group.reshape(len(alike), -1)
            both = passes(words[lanes], mask.active[lanes], size, together=2)
            rows[alike, ::2], rows[alike, 1::2] = both.reshape(alike.sum(), -1), 0
    return int(by_group.sum()), int(np.count_nonzero(by_group)), by_group


def passes(words: ndarray, active: ndarray, size: int, together: int = 1) -> ndarray:
    """Of each group of lanes, or so many ``together``, the most different words of one bank.

    Each lane's element, of ``size`` bytes, begins at one of these words.
    """
    words, active = (of.reshape(-1, together * lanes_together(size)) for of in (words, active))
    extra = max(1, size // 4)
    if extra > 1:
        words = np.concatenate([words + step for step in range(extra)], axis=1)
        active = np.concatenate([active] * extra, axis=1)
    busy = active.any(1)
    whole = active.all()
    rows = np.sort(words if whole else np.where(active, words, -1), axis=1)
    low = rows[:, 0] if whole else np.where(active, words, 1 << 40).min(1)
    hard = busy & (rows[:, -1] - low >= BANKS)
    by_group = busy.astype(np.int64)
    if hard.any():
        rows = rows[hard]
        first = rows >= 0
        first[:, 1:] &= rows[:, 1:] != rows[:, :-1]
        bank = (np.arange(len(rows))[:, None] * BANKS + (rows & (BANKS - 1)))[first]
        by_bank = np.bincount(bank, minlength=len(rows) * BANKS).reshape(-1, BANKS)
        by_group[hard] = by_bank.max(1)
    return by_group


def _alike(elements: ndarray, active: ndarray, step: int) -> ndarray:
    """Warps in which each lane and the one ``step`` across have one element, or one is idle."""
    other = np.arange(32) ^ step
    rows, on = elements.reshape(-1, 32), active.reshape(-1, 32)
    return ((rows == rows[:, other]) | ~on | ~on[:, other]).all(1)


# ---------------------------------------------------------------------- examples for the pictures
@dataclass(frozen=True)
class Sample:
    """A request of one warp: which lane wants which element."""

    site: Site
    space: str
    op: str
    amount: int  # sectors (global memory) or wavefronts (shared memory)
    elements: ndarray  # int64, (32,): numbers within the array, in shared memory the block's own
    active: ndarray  # bool, (32,)
    size: int  # bytes of an element, from one to the next, and before the first
    pitch: int
    address: int
    shape: tuple[int, ...]  # of the whole array
    order: str  # 'C' or 'F', in which its elements are numbered; '' where in neither
    block: tuple[int, int, int]
    block_shape: tuple[int, int, int]
    warp: int  # in its block

    @property
    def lanes(self) -> list[int]:
        return np.flatnonzero(self.active).tolist()

    @property
    def bytes(self) -> ndarray:
        """Byte address of each lane's element, from the start of the array's space."""
        return self.elements * self.pitch + self.address

    @property
    def ideal(self) -> int:
        """The least that would do: sectors or wavefronts."""
        if self.space == "global":
            distinct = len(np.unique(self.elements[self.active]))
            return -(-distinct * self.size // SECTOR)
        return len(self.groups)

    def element_name(self, element: int) -> str:
        """The index of an element, such as ``[3, 4]``."""
        if not self.order or not self.shape or not 0 <= element < math.prod(self.shape):
            return f"#{element}"
        index = np.unravel_index(int(element), self.shape, self.order)
        return f"[{', '.join(str(i) for i in index)}]"

    # ------------------------------------------------------------------ global memory
    @property
    def sectors(self) -> dict[int, list[int]]:
        """The lanes of each sector, by the sector's number, ascending."""
        found: dict[int, list[int]] = {}
        for lane in self.lanes:
            found.setdefault(int(self.bytes[lane]) // SECTOR, []).append(lane)
        return dict(sorted(found.items()))

    @property
    def wanted(self) -> Counter[int]:
        return Counter(self.elements[self.active].tolist())

    # ------------------------------------------------------------------ shared memory
    @property
    def groups(self) -> list[list[int]]:
        """The active lanes that go together: all, or half or quarter warps of wide elements."""
        width = lanes_together(self.size)
        return [[*lanes] for _, lanes in groupby(self.lanes, lambda lane: lane // width)]

    @property
    def stacks(self) -> list[dict[int, dict[int, list[int]]]]:
        """For each group the banks that it wants, their four-byte words, and the words' lanes."""
        out = []
        for group in self.groups:
            banks: dict[int, dict[int, list[int]]] = {}
            for lane in group:
                first = int(self.bytes[lane]) // 4
                for word in range(first, first + max(1, self.size // 4)):
                    banks.setdefault(word % BANKS, {}).setdefault(word, []).append(lane)
            out.append(banks)
        return out


def lanes_together(size: int) -> int:
    """Lanes of a warp that reach shared memory together, by the bytes of an element."""
    return {8: 16, 16: 8}.get(size, 32)
