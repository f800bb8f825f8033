"""Hopper's asynchronous instructions for one warp: wgmma products, TMA copies, clusters.

What an instruction sets going is written down where it begins, and done where it is waited for: the
bytes of a TMA load arrive when a wait on its mbarrier is over, a TMA store and a product read
shared memory when their group is waited for. A kernel that waits rightly cannot tell the
difference; one that does not gets what was there before, and a finding by the clocks of
:mod:`warpsim.watch.happens_before`.
Source: NVIDIA, PTX ISA, "wgmma.mma_async", "Cluster barrier".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpsim.core.memory import Array
from warpsim.ptx.fragment_twins import widened
from warpsim.ptx.mbarrier import HOPPER
from warpsim.ptx.mma_layout import place_in_a
from warpsim.ptx.tma import Store, Tiles
from warpsim.ptx.wgmma_operands import chunks_of, matrix_of, registers_of, taken

ndarray = np.ndarray


class Product(NamedTuple):
    """This warp's 16 rows of a wgmma product under way."""

    left: ndarray | None  # the first factor, if it came in registers
    operands: list[tuple[ndarray, bool]]  # chunks in shared memory, transposed or not
    bfloat: bool
    inputs: tuple | None  # sums to add to
    outputs: tuple[ndarray, ...]
    step: int


class Hopper(Tiles):
    """What the lane program of one warp does with Hopper's instructions."""

    def start_hopper(self) -> None:
        self.warp = (self.geometry.start % self.padded) // 32
        self.multiplying = self._agent(f"a product (wgmma) of warp {self.warp}")
        self.storing = self._agent("a TMA store")
        self.products: list[Product] = []
        self.stores: list[Store] = []
        self.store_groups = self.made = 0

    def wgmma(
        self, sums, a: Array, a_index, b: Array, b_index, keep, bfloat, a_turned, b_turned, site
    ) -> tuple:
        """Begin a product of depth 64 by a warpgroup; this warp makes 16 of its 64 rows.

        The sums given back hold nothing before the product is waited for.
        """
        self.needs(HOPPER, "a product of a warpgroup (wgmma)", site)
        columns = 2 * len(sums)
        outputs = tuple(np.full(32, np.nan, np.float32) for _ in sums)
        if not self.mask:
            return outputs
        self._whole_warps(site)
        starts = [
            self._tile(array, index, 128 * rows, 1024, "multiplies", site)
            for array, index, rows in ((a, a_index, 64), (b, b_index, columns))
        ]
        if None in starts:
            return outputs
        self._together((*starts, columns), site)
        operands = (
            (a, chunks_of(starts[0], 16 * (self.warp % 4), 16, a_turned), a_turned),
            (b, chunks_of(starts[1], 0, columns, b_turned), b_turned),
        )
        return self._begin(sums, None, operands, outputs, 64, keep, bfloat, site)

    def wgmma_rn(self, sums, words: Array, b: Array, b_index, depth, keep, bfloat, site) -> tuple:
        """The same of 64 columns, so deep; its first factor is in registers, four for 16 deep."""
        self.needs(HOPPER, "a product of a warpgroup (wgmma)", site)
        outputs = tuple(np.full(32, np.nan, np.float32) for _ in sums)
        if not self.mask:
            return outputs
        self._whole_warps(site)
        start = self._tile(b, b_index, 128 * depth, 1024, "multiplies", site)
        if start is None:
            return outputs
        self._together((start, depth), site)
        left = np.empty((16, depth), np.float32)
        for number in range(depth // 4):
            pair = self._pair(self.load(words, (number,), site), bfloat)
            for part in range(2):
                row, column = place_in_a(number % 4, part)
                left[row, column + number // 4 * 16] = pair[:, part]
        operands = ((b, chunks_of(start, 0, depth, False), True),)
        return self._begin(sums, left, operands, outputs, depth, keep, bfloat, site)

    def _begin(self, sums, left, operands, outputs, depth, keep, bfloat, site) -> tuple:
        step = self.its.clocks.begin(self.multiplying)
        for array, chunks, _ in operands:
            places = (chunks.reshape(-1, 1) * 16 + np.arange(16)).ravel()
            self.ordered(self.its, self.multiplying, step, places, site, False, array.name)
        if self.counters is not None:
            columns, rows = 2 * len(sums), 64 if left is None else 0
            self.counters.operations["tensor"] += 2 * 16 * columns * depth
            # instructions of a warpgroup, 16 deep, read what is in shared memory once; a quarter of
            # that is this warp's
            self.count_tile(site, "load", depth // 16, 2 * depth * (rows + columns) // 4)
        inputs = sums if self.uniform(keep, site) else None
        taking = [operand[1:] for operand in operands]
        self.products.append(Product(left, taking, bfloat, inputs, outputs, step))
        return outputs

    def _together(self, made: tuple, site: int) -> None:
        """All four warps of a warpgroup make the same products, one after another."""
        group = self.its.products.setdefault(self.warp // 4, [])
        if self.made == len(group):
            group.append((made, set()))
        if group[self.made][0] != made:
            self.found(
                "barrier-divergence",
                "makes another product than the other warps of its warpgroup: all 128 threads give "
                "the same operands, in the same order",
                site, self.one_lane(),
            )  # fmt: skip
        group[self.made][1].add(self.warp)
        self.made += 1

    def wgmma_wait(self, most: int, site: int) -> None:
        """Wait until at most so many products are under way; the whole warpgroup makes them."""
        group = self.its.products.get(self.warp // 4, ())
        while len(self.products) > most:
            number = self.made - len(self.products)
            who = group[number][1]
            self.pause(
                lambda who=who: len(who) == 4,
                site,
                lambda who=who: f"for a product that {len(who)} of the 4 warps of a warpgroup make",
            )
            product = self.products.pop(0)
            self._finish(product)
            self.its.clocks.done(self.number, self.multiplying, product.step)

    def _finish(self, product: Product) -> None:
        *left, right = (
            widened(taken(self.its.memory, *operand), product.bfloat)
            for operand in product.operands
        )
        total = (left[0] if left else product.left) @ right.T
        if product.inputs is not None:
            rows = [np.broadcast_to(np.float32(value), (32,)) for value in product.inputs]
            total += matrix_of(np.stack(rows))
        for output, register in zip(product.outputs, registers_of(total), strict=True):
            output[:] = register

    def wgmma_sums(self, sums: tuple, site: int) -> tuple:
        self.wgmma_wait(0, site)
        return sums

    def spread(self, array: Array, values: tuple, site: int) -> None:
        self.finished(values, site)
        super().spread(array, values, site)

    def finished(self, values: tuple, site: int) -> None:
        """Report sums that are read while the product that makes them is under way."""
        if any(product.outputs is values for product in self.products):
            self.found(
                "race",
                "reads sums that a product under way has yet to write: wgmma_sums(sums) first",
                site, self.one_lane(),
            )  # fmt: skip

    # ------------------------------------------------------------------ clusters
    def cluster_rank(self, site: int) -> int:
        return self.turns.blocks.index(self.its)

    def load4_cluster(self, array: Array, index, rank, site: int) -> tuple:
        """Four neighbours of the same array of another block of the cluster."""
        self.needs(HOPPER, "another block's shared memory", site)
        its, here = self.turns.blocks[self.uniform(rank, site)], array.root
        flat = its.memory[here.address : here.address + here.flat.nbytes].view(here.dtype)
        other = Array(flat, here.shape, here.strides, "shared", array.name)
        other.address, other.block_offset = here.address, here.block_offset
        if its.history is not None:
            uniform, varying, _ = self.locate(array, index, site, "load")
            first = uniform if varying is None else (varying + uniform)[self.mask.indices]
            places = np.unique(np.asarray(first).reshape(-1, 1) * 4 + np.arange(16)) + here.address
            step = int(self.its.clocks.now[self.number])
            self.ordered(its, self.number, step, places, site, False, array.name)
        return self.load_vector(
            other.derived(array.shape, array.strides, array.offset), index, 4, site
        )
