"""Vector accesses, asynchronous copies and tensor-core products of the running threads.

Fragments lie in the lanes of a warp as PTX defines them (`warpsim.ptx.mma_layout`). A product is
computed in float32 from the exact values of its operands; hardware adds the terms of one product in
another order and cuts bits off below the largest, so that the last bits differ.
Source: NVIDIA, PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and the same
for m16n8k8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsim.core.memory import Array
from warpsim.front.names import typing_error
from warpsim.host import gpus
from warpsim.ptx.mma_layout import place_in_a, place_in_b, place_in_c
from warpsim.watch.advice import wide_cure
from warpsim.watch.findings import index_names

ndarray = np.ndarray
_together = np.bitwise_or.reduce


class WideArray(Array):
    """An array whose accesses are of several elements at once, for counting."""

    __slots__ = ("count",)

    def __init__(self, array: Array, count: int):
        super().__init__(
            array.flat, array.shape, array.strides, array.space, array.name, array.offset,
            array.root,
        )  # fmt: skip
        self.pitch, self.address, self.count = array.pitch, array.address, count

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize * self.count


@dataclass
class Copy:
    """An asynchronous copy under way: what to write where, and the lanes still waiting for it."""

    array: Array
    place: tuple
    values: tuple
    active: ndarray
    group: Any
    site: int
    base: int


class Vectors:
    """What lane programs do with several elements at once."""

    # ------------------------------------------------------------------ loads and stores
    def load_vector(self, array: Array, index: tuple, count: int, site: int, cached=""):
        """``count`` neighbouring elements of each lane, as a tuple; one of them as a number."""
        if cached:
            self._check_global(array, site, cached)
        uniform, varying, bad = self._reach(array, index, count, site, "load")
        if bad is not None and not self.active_part(bad):
            values = (self.poison(array.dtype),) * count
            return values if count > 1 else values[0]
        self._count_vector(array, uniform, varying, bad, count, site, "load")
        with _Apart(self):
            values = tuple(
                self.load_at(array, uniform + e, varying, bad, site) for e in range(count)
            )
        return values if count > 1 else values[0]

    def store_vector(
        self, array: Array, index: tuple, values, count: int, site: int, cached=""
    ) -> None:
        """Write ``count`` neighbouring elements of each active lane."""
        if cached:
            self._check_global(array, site, cached)
        if array.space == "constant":
            self.constant_store(array, site)
        uniform, varying, bad = self._reach(array, index, count, site, "store")
        self._count_vector(array, uniform, varying, bad, count, site, "store")
        self._write(array, (uniform, varying, bad), values if count > 1 else (values,), site)

    def _write(self, array: Array, place: tuple, values: tuple, site: int) -> None:
        uniform, varying, bad = place
        if self.active_part(bad):
            with _Apart(self):
                for e, value in enumerate(values):
                    self.store_at(array, uniform + e, varying, bad, value, site)

    def _check_global(self, array: Array, site: int, cached: str) -> None:
        if cached == "kept":
            self.needs((8, 0), "a load that L2 shall keep", site)
        if array.space != "global":
            raise typing_error(
                f"line {self.site(site).line}: a {cached} access is one of global memory, and "
                f"{array.name} is in {array.space} memory: take load or store, load4 or store4"
            )

    def _reach(self, array: Array, index: tuple, count: int, site: int, op: str) -> tuple:
        """Where each lane's first element is: the parts of its number, and the lanes in error.

        No index counts from the end; all elements are inside; they are neighbours in memory; the
        access's bytes divide their address.
        """
        index = tuple(
            [i.astype(np.int64, copy=False) if type(i) is ndarray else int(i) for i in index]
        )
        self._check_neighbours(array, count, site)
        bad = self._beyond(array, index, count, site, op)
        if bad is not None:
            index = tuple(
                np.where(bad, 0, i) if type(i) is ndarray else 0 if bad.all() else i for i in index
            )
            if not self.active_part(bad):
                return 0, None, bad
        uniform, varying, outside = self.locate(array, index, site, op)
        bad = outside if bad is None else bad if outside is None else bad | outside
        size = count * array.itemsize
        if count > 1 and self.mask:
            first = uniform * array.itemsize + array.root.address
            odd = first if varying is None else int(_together(varying)) * array.itemsize | first
            if type(odd) is ndarray or odd & (size - 1):  # of an odd address one part at least
                odd = (first if varying is None else varying * array.itemsize + first) & (size - 1)
                odd = self.active_part(bad).active & (odd != 0) if self.active_part(bad) else odd
                if np.any(odd):
                    lane = int(np.flatnonzero(odd)[0])
                    self._misaligned(array, index, lane, count, site, op)
                    bad = odd if bad is None else bad | odd
        return uniform, varying, bad

    def _check_neighbours(self, array: Array, count: int, site: int) -> None:
        last, pitch = array.strides[-1], array.pitch // array.itemsize
        if (last != 1 and np.any(np.asarray(array.shape[-1]) > 1)) or pitch != 1:
            raise typing_error(
                f"line {self.site(site).line}: neighbours on the last axis of {array.name} lie "
                f"{last * array.pitch} bytes apart, its elements have {array.itemsize}: this "
                f"access needs a contiguous last axis; index {array.name} with [ ] instead"
            )

    def _beyond(self, array: Array, index: tuple, count: int, site: int, op: str) -> ndarray | None:
        """The active lanes with an element outside of the array; reported, if there are any."""
        bad = None
        for axis, i in enumerate(index):
            size, more = array.shape[axis], count - 1 if axis == len(index) - 1 else 0
            highest = self.highest(i) if type(i) is ndarray else i
            if type(size) is not ndarray and 0 <= highest < size - more:
                continue
            outside = self.mask.active & ((i < 0) | (i + more >= size)) if self.mask else None
            if outside is not None and outside.any():
                self._outside(array, index, axis, outside, more, site, op)
                bad = outside if bad is None else bad | outside
        return bad

    def _outside(
        self, array: Array, index: tuple, axis: int, outside: ndarray, more: int, site: int, op: str
    ) -> None:
        lane = int(np.flatnonzero(outside)[0])
        values = [int(i[lane]) if type(i) is ndarray else i for i in index]
        if values[axis] >= 0 and not more:
            self.out_of_bounds(array, index, axis, outside, site, op)
            return
        size = array.shape[axis]
        size = int(size[lane] if type(size) is ndarray else size)
        name = index_names(self.site(site), len(index))[axis]
        where = f"axis {axis} of {array.name}" if array.ndim > 1 else array.name
        verb = {"load": "reads", "store": "writes"}[op]
        what = f"{array.name}[{', '.join(map(str, values))}]"
        if more:
            what = f"{more + 1} elements from {what} on"
        lanes = int(np.count_nonzero(outside))
        others = f" ({lanes:,} threads in all)" if lanes > 1 else ""
        if values[axis] < 0:
            why = (
                f"and this access counts none from the end{others}: let the index be 0 or more, or "
                f"guard it with `if {name} >= 0:`"
            )
        else:
            full = np.broadcast_to(np.asarray(index[axis]), (self.lanes,))
            cure = wide_cure(array, name, axis, int(full[outside].max()), more, size)
            why = f"but {where} has size {size}{others}: {cure}"
        self.found("out-of-bounds", f"{verb} {what}, {why}", site, lane)

    def _misaligned(self, array: Array, index: tuple, lane: int, count: int, site, op) -> None:
        spelled = ", ".join(str(int(i[lane]) if type(i) is ndarray else i) for i in index)
        verb = {"load": "reads", "store": "writes"}[op]
        size = count * array.itemsize
        last = int(index[-1][lane] if type(index[-1]) is ndarray else index[-1])
        offset = array.offset[lane] if type(array.offset) is ndarray else array.offset
        start = int(offset) * array.itemsize + array.root.address
        if last % count:
            cure = f"let the last index be a multiple of {count}"
        elif array.ndim > 1 and any(stride % count for stride in array.strides[:-1]):
            cure = (
                f"a row of {array.name} has {array.strides[-2]} elements: let rows be multiples of "
                f"{count} elements long, or access one element at a time"
            )
        elif start % size and array.space == "shared":
            cure = (
                f"{array.name} begins at byte {start} of shared memory, after other arrays: let "
                f"their sizes be multiples of {size} bytes, or make it the first one"
            )
        else:
            cure = (
                f"{array.name} is a part of an array that begins at its byte {start}: let it begin "
                f"at a multiple of {size}"
            )
        self.found(
            "misaligned",
            f"{verb} {count} elements from {array.name}[{spelled}] on, an access of {size} bytes "
            f"whose address is no multiple of {size}, where a GPU stops: {cure}",
            site,
            lane,
        )

    def _count_vector(
        self, array: Array, uniform, varying, bad, count: int, site: int, op: str
    ) -> None:
        """Count one access of ``count`` elements a lane."""
        if self.counters is None or array.space == "constant":
            return
        mask = self.active_part(bad)
        if not mask:
            return
        self.count_access(WideArray(array, count), uniform, varying, bad, site, op)
        if array.space == "global":
            elements = uniform if varying is None else (varying + uniform)[mask.indices]
            for e in range(1, count):
                self.counters.touch(array, elements + e)

    # ------------------------------------------------------------------ asynchronous copies
    def copy_async(
        self, to: Array, index, source: Array, place, count: int, site, other, values=None
    ) -> None:
        """Begin to copy ``count`` elements; they arrive when ``wait_copies`` waits for them.

        Copies that nobody waits for are completed by the hardware when the kernel ends, when
        nobody can see them any more.
        """
        self.needs((8, 0), "an asynchronous copy (cp.async)", site)
        if to.space != "shared" or source.space != "global":
            raise typing_error(
                f"line {self.site(site).line}: an asynchronous copy goes from global to shared "
                f"memory, not from {source.space} ({source.name}) to {to.space} ({to.name})"
            )
        if values is None:
            values = self.load_vector(source, place, count, other)
        uniform, varying, bad = self._reach(to, index, count, site, "store")
        mask = self.active_part(bad)
        if not mask:
            return
        self._count_vector(to, uniform, varying, bad, count, site, "store")
        values = values if count > 1 else (values,)
        target = uniform, varying, bad
        self.copies.append(Copy(to, target, values, mask.active, self.groups, site, self.base))
        if to.root.shadow is not None:  # traced: from now on these elements may change
            if to.root.pending is None:
                to.root.pending = np.zeros(to.root.flat.size, np.int32)
            for e, value in enumerate(values):
                elements = self.elements(to, uniform + e, varying)
                if not self.meets_copy(to, elements, mask, site, "store"):
                    self.look_for_races(to, elements, mask, site, "store", value)
                to.root.pending[elements[mask.indices]] = self.base + site + 1

    def commit_copies(self, site: int) -> None:
        """Close each active thread's group of the copies begun since its last one."""
        self.needs((8, 0), "a group of asynchronous copies (cp.async)", site)
        self.groups = self.groups + (self.mask.active if self.mask else 0)

    def wait_copies(self, most: int, site: int) -> None:
        """Let the copies of the active threads arrive, but not those of their newest groups."""
        self.needs((8, 0), "waiting for asynchronous copies (cp.async)", site)
        here, base = self.mask, self.base
        if not here:
            return
        for copy in self.copies:
            ready = copy.active & here.active & (copy.group < self.groups - most)
            if ready.any():
                copy.active = copy.active & ~ready
                self.mask, self.base = self.inside(ready, self.root), copy.base
                if copy.array.root.pending is not None:
                    for e in range(len(copy.values)):
                        elements = self.elements(copy.array, copy.place[0] + e, copy.place[1])
                        copy.array.root.pending[elements[self.mask.indices]] = 0
                self._write(copy.array, copy.place, copy.values, copy.site)
        self.mask, self.base = here, base
        self.copies = [copy for copy in self.copies if copy.active.any()]

    # ------------------------------------------------------------------ tensor cores
    def split_halves(self, x, y, site: int):
        """Two float32 as two pairs of halves: upper parts, and what they leave."""
        pair = np.stack(np.broadcast_arrays(np.float32(x), np.float32(y)), axis=-1)
        upper = pair.astype(np.float16)
        lower = (pair - upper.astype(np.float32)).astype(np.float16)
        both = (np.ascontiguousarray(part).view(np.uint32)[..., 0] for part in (upper, lower))
        return tuple(part if part.ndim else part.item() for part in both)

    def round_tf32(self, x, site: int):
        """float32 with 10 bits of fraction."""
        self.needs((8, 0), "rounding to TF32", site)
        rounded = rounded_tf32(np.atleast_1d(np.asarray(x, np.float32)))
        return rounded if np.ndim(x) else rounded[0]

    def mma_f16_k8(self, c, a, b, site: int):
        self.needs((7, 5), "the product of tensor cores m16n8k8 in half precision", site)
        return self._product(c, _halves(self, a), _halves(self, (b,)), site)

    def mma_f16(self, c, a, b, site: int):
        self.needs((8, 0), "the product of tensor cores m16n8k16 in half precision", site)
        return self._product(c, _halves(self, a), _halves(self, b), site)

    def mma_tf32(self, c, a, b, site: int):
        self.needs((8, 0), "the product of tensor cores in TF32", site)
        left, right = (
            [cut_tf32(_lanes(self, value, np.float32))[:, None] for value in part]
            for part in (a, b)
        )
        return self._product(c, left, right, site)

    def _product(self, c: tuple, a: list[ndarray], b: list[ndarray], site: int):
        """``c + a b`` for each warp: a is 16 x K, b is K x 8.

        ``a[r][:, p]`` is part p of register r of every lane.
        """
        self._whole_warps(site)
        parts, warps = a[0].shape[1], self.lanes // 32
        depth = len(b) * 4 * parts
        left = np.zeros((warps, 16, depth), np.float32)
        right = np.zeros((warps, depth, 8), np.float32)
        total = np.zeros((warps, 16, 8), np.float32)
        for r, register in enumerate(a):
            for p in range(parts):
                row, column = place_in_a(r, p, parts)
                left[:, row, column] = register[:, p].reshape(warps, 32)
        for r, register in enumerate(b):
            for p in range(parts):
                row, column = place_in_b(r, p, parts)
                right[:, row, column] = register[:, p].reshape(warps, 32)
        for r, value in enumerate(c):
            row, column = place_in_c(r)
            total[:, row, column] = _lanes(self, value, np.float32).reshape(warps, 32)
        total += left @ right
        sums = (total[:, row, column] for row, column in map(place_in_c, range(4)))
        return tuple(part.reshape(-1).copy() for part in sums)

    def _whole_warps(self, site: int) -> None:
        mask = self.mask
        if mask is self.root and mask.count == self.lanes:
            return
        here = mask.active.reshape(-1, 32)
        torn = np.flatnonzero(here.any(1) & ~here.all(1))
        if not len(torn):
            return
        row = int(torn[0]) * 32
        alive = self.root.active if self.exited is None else self.root.active & ~self.exited
        missing = np.flatnonzero((alive & ~mask.active)[row : row + 32])
        if len(missing):
            lane, what = row + int(missing[0]), "does not make this call, but its warp does"
            cure = "let the whole warp make it, outside of the branch"
        else:
            lane = row + int(np.flatnonzero(here[torn[0]])[0])
            what = f"makes this call in a warp of which {int(here[torn[0]].sum())} threads are left"
            cure = "let no thread return before it, and blocks have a multiple of 32 threads"
        self.found(
            "barrier-divergence",
            f"{what}: a tensor core's product is made by all 32 lanes together; {cure}",
            site,
            lane,
        )

    def needs(self, capability: tuple[int, int], what: str, site: int) -> None:
        """Refuse what the simulated GPU has not."""
        gpu = self.launch.gpu
        if gpu.compute_capability < capability:
            have = ".".join(map(str, gpu.compute_capability))
            newest = max(gpus.GPUS.values(), key=lambda gpu: gpu.compute_capability).name
            raise typing_error(
                f"line {self.site(site).line}: {what} needs compute capability "
                f"{capability[0]}.{capability[1]}, and the simulated {gpu.name} has {have}: choose "
                f'another with course.simulate("{newest}"), or trace(..., gpu="{newest}")'
            )


class _Apart:
    """While elements of one access are touched one by one, they are not counted one by one."""

    def __init__(self, threads: Vectors):
        self.threads = threads

    def __enter__(self) -> None:
        self.threads.counted_apart = True

    def __exit__(self, *error) -> None:
        self.threads.counted_apart = False


def _lanes(threads: Vectors, value, dtype) -> ndarray:
    return np.broadcast_to(np.asarray(value, dtype), (threads.lanes,))


def _halves(threads: Vectors, registers: tuple) -> list[ndarray]:
    """The two halves in each register of each lane, as float32."""
    return [
        np.ascontiguousarray(_lanes(threads, value, np.uint32))
        .view(np.float16)
        .reshape(-1, 2)
        .astype(np.float32)
        for value in registers
    ]


def cut_tf32(x: ndarray) -> ndarray:
    """float32 with 10 bits of fraction, the others left out, as tensor cores read TF32."""
    bits = np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(x), np.float32(np.nan), bits.view(np.float32))


def rounded_tf32(x: ndarray) -> ndarray:
    """float32 with 10 bits of fraction: rounded to nearest, ties away from zero (cvt.rna.tf32)."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), rounded)
