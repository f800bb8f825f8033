"""Vector accesses, asynchronous copies and tensor-core products of the running threads.

Fragments lie in the lanes of a warp as PTX defines them. A product is computed in float32 from the
exact values of its operands; hardware adds the terms of one product in another order and cuts bits
off below the largest, so that the last bits differ.
Source: NVIDIA, PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and the same
for m16n8k8.
"""

from __future__ import annotations

import numpy as np

from course.simt import gpus
from course.simt.memory import Array
from course.simt.names import typing_error

ndarray = np.ndarray


class WideArray(Array):
    """An array whose accesses are of several elements at once, for counting."""

    __slots__ = ("count",)

    def __init__(self, array: Array, count: int):
        super().__init__(
            array.flat, array.shape, array.strides, array.space, array.name, array.offset, array.root
        )
        self.pitch, self.address, self.count = array.pitch, array.address, count

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize * self.count


class Vectors:
    """What lane programs do with several elements at once."""

    # ------------------------------------------------------------------ loads and stores
    def load_vector(self, array: Array, index: tuple, count: int, site: int):
        """``count`` neighbouring elements of each lane, as a tuple; one of them as a number."""
        index = self._whole(index)
        self._check_vector(array, index, count, site, "load")
        with _Apart(self, count):
            values = tuple(
                self.load(array, (*index[:-1], index[-1] + e), site) for e in range(count)
            )
        return values if count > 1 else values[0]

    def store_vector(self, array: Array, index: tuple, values, count: int, site: int) -> None:
        """Write ``count`` neighbouring elements of each active lane."""
        index = self._whole(index)
        self._check_vector(array, index, count, site, "store")
        values = values if count > 1 else (values,)
        with _Apart(self, count):
            for e in range(count):
                self.store(array, (*index[:-1], index[-1] + e), values[e], site)

    @staticmethod
    def _whole(index: tuple) -> tuple:
        return tuple(
            i.astype(np.int64) if type(i) is ndarray else int(i) for i in index
        )  # fmt: skip

    def _check_vector(self, array: Array, index: tuple, count: int, site: int, op: str) -> None:
        """No index below zero, neighbours in memory, and an address that the width divides."""
        if not self.mask:
            return
        if count > 1 and array.strides[-1] != 1:
            raise typing_error(
                f"line {self.site(site).line}: {array.name} has a stride of {array.strides[-1]} "
                f"elements on its last axis: a load or store of {count} elements at once needs "
                "neighbours"
            )
        active = self.mask.active
        for axis, i in enumerate(index):
            below = active & (np.asarray(i) < 0)
            if below.any():
                self.out_of_bounds(array, index, axis, below, site, op)
        if count > 1:
            uniform, varying, bad = self.locate(array, index, site, op)
            mask = self.active_part(bad)
            elements = uniform if varying is None else varying + uniform
            size = array.itemsize
            odd = mask.active & ((np.asarray(elements) * size + array.root.address) % (count * size) != 0)
            if odd.any():
                self._misaligned(array, index, odd, count, site, op)
        if self.counters is not None and count > 1:
            self.count_vector(array, index, count, site, op)

    def _misaligned(self, array: Array, index: tuple, odd: ndarray, count: int, site, op) -> None:
        lane = int(np.flatnonzero(odd)[0])
        spelled = ", ".join(str(int(i[lane]) if type(i) is ndarray else i) for i in index)
        verb = {"load": "reads", "store": "writes"}[op]
        size = count * array.itemsize
        self.found(
            "misaligned",
            f"{verb} {count} elements from {array.name}[{spelled}] on, whose address is no "
            f"multiple of {size} bytes: an access of {size} bytes needs one; let the index, and the "
            f"length of a row, be multiples of {count}",
            site,
            lane,
        )

    def count_vector(self, array: Array, index: tuple, count: int, site: int, op: str) -> None:
        """Count one access of ``count`` elements a lane."""
        uniform, varying, bad = self.locate(array, index, site, op)
        last = (*index[:-1], index[-1] + count - 1)
        beyond = self.locate(array, last, site, op)[2]
        if beyond is not None:
            bad = beyond if bad is None else bad | beyond
        self.count_access(WideArray(array, count), uniform, varying, bad, site, op)
        if array.space == "global" and self.active_part(bad):
            mask = self.active_part(bad)
            first = np.broadcast_to(
                np.asarray(uniform if varying is None else varying + uniform), (self.lanes,)
            )[mask.active]
            for e in range(1, count):
                self.counters.touch(array, first + e)

    # ------------------------------------------------------------------ asynchronous copies
    def copy_async(self, to: Array, index, source: Array, place, count: int, site, other) -> None:
        """Begin to copy ``count`` elements; they arrive when ``wait_copies`` waits for them."""
        self.needs((8, 0), "an asynchronous copy (cp.async)", site)
        if not self.mask:
            return
        values = self.load_vector(source, place, count, other)
        index = self._whole(index)
        self.copies[-1].append((to, index, values, count, site, self.mask, self.base))

    def commit_copies(self, site: int) -> None:
        """Close the group of the copies begun since the last one."""
        self.needs((8, 0), "a group of asynchronous copies", site)
        self.copies.append([])

    def wait_copies(self, most: int, site: int) -> None:
        """Let all groups arrive but the newest ``most`` committed ones."""
        self.needs((8, 0), "waiting for asynchronous copies", site)
        ready = max(0, len(self.copies) - 1 - most)
        here, base = self.mask, self.base
        for group in self.copies[:ready]:
            for to, index, values, count, place, mask, its_base in group:
                self.mask, self.base = mask, its_base
                self.store_vector(to, index, values, count, place)
        self.mask, self.base = here, base
        del self.copies[:ready]

    # ------------------------------------------------------------------ tensor cores
    def split_halves(self, x, y, site: int):
        """Two float32 as two pairs of halves: upper parts, and what they leave."""
        pair = np.stack(np.broadcast_arrays(np.float32(x), np.float32(y)), axis=-1)
        upper = pair.astype(np.float16)
        lower = (pair - upper.astype(np.float32)).astype(np.float16)
        return tuple(np.ascontiguousarray(part).view(np.uint32)[..., 0] for part in (upper, lower))

    def mma_f16_k8(self, c, a, b, site: int):
        self.needs((7, 5), "the product of tensor cores m16n8k8 in half precision", site)
        return self._product(c, _halves(self, a), _halves(self, (b,)), site)

    def mma_f16(self, c, a, b, site: int):
        self.needs((8, 0), "the product of tensor cores m16n8k16 in half precision", site)
        return self._product(c, _halves(self, a), _halves(self, b), site)

    def mma_tf32(self, c, a, b, site: int):
        self.needs((8, 0), "the product of tensor cores in TF32", site)
        left, right = (
            [rounded_tf32(_lanes(self, value, np.float32))[:, None] for value in part]
            for part in (a, b)
        )
        return self._product(c, left, right, site)

    def _product(self, c: tuple, a: list[ndarray], b: list[ndarray], site: int):
        """``c + a b`` for each warp: a is 16 x K, b is K x 8.

        Registers of a: rows g and g + 8 by turns, then the next columns; ``a[r][:, p]`` is part p
        of register r of every lane.
        """
        self._whole_warps(site)
        lane = np.arange(32)
        g, q = lane >> 2, lane & 3
        parts, warps = a[0].shape[1], self.lanes // 32
        depth = len(b) * 4 * parts
        left = np.zeros((warps, 16, depth), np.float32)
        right = np.zeros((warps, depth, 8), np.float32)
        total = np.zeros((warps, 16, 8), np.float32)
        for r, register in enumerate(a):
            for p in range(parts):
                column = (r // 2) * 4 * parts + q * parts + p
                left[:, g + 8 * (r % 2), column] = register[:, p].reshape(warps, 32)
        for r, register in enumerate(b):
            for p in range(parts):
                right[:, r * 4 * parts + q * parts + p, g] = register[:, p].reshape(warps, 32)
        for r, value in enumerate(c):
            total[:, g + 8 * (r // 2), 2 * q + r % 2] = _lanes(self, value, np.float32).reshape(
                warps, 32
            )
        total += left @ right
        return tuple(
            total[:, g + 8 * (r // 2), 2 * q + r % 2].reshape(-1).copy() for r in range(4)
        )

    def _whole_warps(self, site: int) -> None:
        mask = self.mask
        if mask is self.root and mask.count == self.lanes:
            return
        here = mask.active.reshape(-1, 32).sum(1)
        torn = np.flatnonzero((here > 0) & (here < 32))
        if len(torn):
            row = int(torn[0]) * 32
            lane = row + int(np.flatnonzero(~mask.active[row : row + 32])[0])
            self.found(
                "barrier-divergence",
                "does not make this call, but other lanes of its warp do: a tensor core's product "
                "is made by all 32 lanes together; let the whole warp make it, outside of the "
                "branch",
                site,
                lane,
            )

    def needs(self, capability: tuple[int, int], what: str, site: int) -> None:
        """Refuse what the simulated GPU has not."""
        gpu = self.launch.gpu
        if gpu.compute_capability < capability:
            have = ".".join(map(str, gpu.compute_capability))
            newer = [
                name for name, g in gpus.GPUS.items() if g.compute_capability >= capability
            ]
            raise typing_error(
                f"line {self.site(site).line}: {what} needs compute capability "
                f"{capability[0]}.{capability[1]}, and the simulated {gpu.name} has {have}: choose "
                f'another with course.simulate("{newer[-2]}"), or trace(..., gpu="{newer[-2]}")'
            )


class _Apart:
    """While elements of one access are touched one by one, they are not counted one by one."""

    def __init__(self, threads: Vectors, count: int):
        self.threads, self.count = threads, count

    def __enter__(self) -> None:
        self.threads.counted_apart = self.count > 1

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


def rounded_tf32(x: ndarray) -> ndarray:
    """float32 with 10 bits of fraction: rounded to nearest, ties away from zero (cvt.rna.tf32)."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
