"""Fragments of matrices in the lanes of a warp: ldmatrix, stmatrix, pairs of halves, bfloat16.

Source: NVIDIA, PTX ISA, "ldmatrix", "stmatrix", "mma.m16n8k16", "cvt", "div".
"""

from __future__ import annotations

import numpy as np

from warpsim.core.memory import Array
from warpsim.front.names import typing_error

ndarray = np.ndarray


def widened(bits: ndarray, bfloat: bool) -> ndarray:
    """16 bits as float32: those of a float16 or of a bfloat16."""
    if bfloat:
        return (np.ascontiguousarray(bits).astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(bits).view(np.float16).astype(np.float32)


def rounded_bfloat(x: ndarray) -> ndarray:
    """The bits of float32 rounded to bfloat16: to nearest, ties to even (cvt.rn.bf16.f32)."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    nearest = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint32(0x7FFF), nearest).astype(np.uint16)


class Fragments:
    """What lane programs do with matrices of 16-bit elements."""

    def ldmatrix(self, array: Array, index: tuple, transposed: bool, site: int):
        """Four matrices of 8 x 8; lane 8 i + r gives the start of row r of matrix i."""
        self.needs((7, 5), "ldmatrix", site)
        self._shared_rows(array, "ldmatrix", site)
        values = self.load_vector(array, index, 8, site) if self.mask else (0,) * 8
        rows = np.stack([np.broadcast_to(value, (self.lanes,)) for value in values], axis=-1)
        matrices = rows.astype(array.dtype, copy=False).view(np.uint16).reshape(-1, 4, 8, 8)
        if transposed:
            matrices = matrices.swapaxes(2, 3)
        words = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, 4, 32)
        return tuple(words[:, number].reshape(-1).copy() for number in range(4))

    def stmatrix(self, array: Array, index: tuple, values, site: int):
        """Write four 8 x 8 matrices, as `ldmatrix` reads them."""
        self.needs((9, 0), "stmatrix", site)
        self._shared_rows(array, "stmatrix", site)
        words = np.zeros((self.lanes // 32, 4, 32), np.uint32)
        for number, value in enumerate(values):
            words[:, number] = np.broadcast_to(np.asarray(value, np.uint32), (self.lanes,)).reshape(
                -1, 32
            )
        rows = words.view(np.uint16).reshape(-1, 8).view(array.dtype)
        if self.mask:
            self.store_vector(array, index, tuple(rows.T.copy()), 8, site)

    def _shared_rows(self, array: Array, name: str, site: int) -> None:
        if array.space != "shared":
            raise typing_error(
                f"line {self.site(site).line}: {name} takes an array in shared memory, and "
                f"{array.name} is in {array.space} memory"
            )
        self._whole_warps(site)

    def mma_bf16(self, c, a, b, site: int):
        """As `mma_f16`, of bfloat16."""
        self.needs((8, 0), "the product of tensor cores m16n8k16 in bfloat16", site)
        left, right = ([self._pair(word, True) for word in part] for part in (a, b))
        return self._product(c, left, right, site)

    def _pair(self, word, bfloat: bool) -> ndarray:
        """The two parts of a register of each lane, as float32: (lanes, 2)."""
        words = np.broadcast_to(np.asarray(word, np.uint32), (self.lanes,))
        return widened(np.ascontiguousarray(words).view(np.uint16), bfloat).reshape(-1, 2)

    def pack_f16(self, x, y, site: int):
        return self._packed(x, y, lambda v: v.astype(np.float16).view(np.uint16))

    def pack_bf16(self, x, y, site: int):
        self.needs((8, 0), "rounding to bfloat16", site)
        return self._packed(x, y, rounded_bfloat)

    @staticmethod
    def _packed(x, y, rounded):
        pair = np.stack(np.broadcast_arrays(np.float32(x), np.float32(y)), axis=-1)
        words = np.ascontiguousarray(rounded(pair)).view(np.uint32)[..., 0]
        return words if words.ndim else words.item()

    def unpack_f16(self, word, site: int):
        return tuple(self._pair(word, False).T)

    def unpack_bf16(self, word, site: int):
        return tuple(self._pair(word, True).T)

    def quotient(self, x, y, site: int):
        """Division of int32 that cuts off; by zero it gives anything, as the hardware does."""
        with np.errstate(all="ignore"):
            wide, by = np.int64(x), np.where(np.asarray(y) == 0, 1, np.int64(y))
            whole = np.abs(wide) // np.abs(by) * np.sign(wide) * np.sign(by)
        return whole.astype(np.int32) if np.ndim(whole) else int(whole)

    def remainder(self, x, y, site: int):
        rest = x - self.quotient(x, y, site) * y
        return rest if np.ndim(rest) else int(rest)

    def copy8_async(self, to: Array, index, source: Array, place, count, site: int) -> None:
        """Begin to copy 8 elements of 16 bits: the first ``count`` are read, the others are 0."""
        self.needs((8, 0), "an asynchronous copy (cp.async)", site)
        whole = np.broadcast_to(np.asarray(count), (self.lanes,))
        values = tuple(np.zeros(self.lanes, source.dtype) for _ in range(8))
        here, last = self.mask, tuple(place[:-1])
        for most in np.unique(whole[here.indices]).tolist() if here else ():
            self.mask = self.inside(here.active & (whole == most), here)
            steps = range(most) if most < 8 else (0,)
            for e in steps:
                width = 1 if most < 8 else 8
                part = self.load_vector(source, (*last, place[-1] + e), width, site)
                for n, value in enumerate((part,) if width == 1 else part):
                    np.copyto(values[e + n], value, where=self.mask.active)
        self.mask = here
        if here:
            self.copy_async(to, index, source, place, 8, site, site, values)

    # ------------------------------------------------------------------ sums of a warpgroup
    def spread(self, array: Array, values: tuple, site: int) -> None:
        """All elements of a tuple into a local array."""
        for number, value in enumerate(values):
            self.store(array, (number,), value, site)

    def wgmma_zeros(self, columns: int, site: int) -> tuple:
        return (np.float32(0),) * (columns // 2)

    def nothing(self, *arguments, site: int) -> None:
        """What has no effect here but its cost."""
