"""Products of warpgroups, four warps, whose factors come from shared memory; all need 9.0.

A box is 64 columns of 16 bits, 128 bytes a row, and begins at a multiple of 1,024 bytes; the
chunks of 16 bytes of its row r lie at chunk ^ (r % 8), so a column of chunks is in each bank once,
too. TMA writes boxes like that (`warpsim.ptx.TensorMap`), and wgmma reads them.

Sums of a warpgroup, threads 128 w to 128 w + 127: ``sums[4 j + e]`` of lane l of its warp v is row
16 v + l // 4 + 8 (e // 2), column 8 j + 2 (l % 4) + e % 2. The registers of a factor are those of
`mma_f16`: for 16 deep four words, and with s the sums of a product of 64 rows, those are

>>> words[4 * j] = pack_f16(s[8 * j], s[8 * j + 1])              # row l // 4
>>> words[4 * j + 1] = pack_f16(s[8 * j + 2], s[8 * j + 3])      # eight rows below
>>> words[4 * j + 2] = pack_f16(s[8 * j + 4], s[8 * j + 5])      # eight columns to the right
>>> words[4 * j + 3] = pack_f16(s[8 * j + 6], s[8 * j + 7])

So no element moves to another lane, and none through memory.

The simulator multiplies where a product is waited for: a kernel that waits rightly cannot tell the
difference; one that does not gets what was there before, and a finding.
Source: NVIDIA, PTX ISA, "Asynchronous warpgroup level matrix instructions", "Register Fragments for
wgmma.mma_async.m64nNk16", "Asynchronous Warpgroup Level Matrix Shared Memory Layout".
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import types
from numpy import ndarray

from warpsim.core.memory import Array
from warpsim.core.number_types import bfloat16
from warpsim.ptx.clusters import Clusters
from warpsim.ptx.instruction import CONVERGENT, FLOAT, WORD, Instruction, Ptx, instruction, named
from warpsim.ptx.mbarrier import HOPPER
from warpsim.ptx.mma import place_in_a, widened
from warpsim.ptx.tma import Store, Tma, swizzled

DEPTH = 64  # of one call of wgmma_nt and its like: four instructions of 16
BOX = 64 * 128  # bytes of 64 rows of a box


# ---------------------------------------------------------------------- in the simulator
@lru_cache(maxsize=64)
def chunks_of(first: int, rows: int, mn_major: bool) -> ndarray:
    """Numbers, from an operand's start on, of its chunks of 16 bytes: of some rows, 64 deep.

    All is swizzled. They are (rows, 8); or, where neighbours lie along the rows' numbers, in boxes
    of 64, and not along the depth (MN-major), (64, rows // 8).
    """
    if not mn_major:
        return swizzled(128 * np.arange(first, first + rows)[:, None] + 16 * np.arange(8)) >> 4
    along = 2 * np.arange(first, first + rows, 8)
    return swizzled(128 * np.arange(64)[:, None] + along // 128 * BOX + along % 128) >> 4


def taken(memory: ndarray, chunks: ndarray, mn_major: bool) -> ndarray:
    """An operand as a matrix of uint16, (rows, 64)."""
    matrix = memory.reshape(-1, 16)[chunks].view(np.uint16).reshape(len(chunks), -1)
    return matrix.T if mn_major else matrix


class Sums:
    """What any threads do with the sums of a warpgroup."""

    def unpack_sums(self, array: Array, values: tuple, site: int) -> None:
        for number, value in enumerate(values):
            self.store(array, (number,), value, site)

    def wgmma_zeros(self, columns: int, site: int) -> tuple:
        return (np.float32(0),) * (columns // 2)


class Product(NamedTuple):
    """This warp's 16 rows of a wgmma product in flight."""

    left: ndarray | None  # the first factor, if it came in registers
    operands: list[tuple[ndarray, bool]]  # chunks in shared memory, mn_major or not
    bfloat: bool
    inputs: tuple | None  # sums to add to
    outputs: tuple[ndarray, ...]
    step: int


class Hopper(Tma, Clusters, Sums):
    """What the lane program of one warp does with Hopper's instructions."""

    def start_hopper(self) -> None:
        self.warp = (self.geometry.start % self.padded) // 32
        self.multiplying = self._agent(f"a product (wgmma) of warp {self.warp}")
        self.storing = self._agent("a TMA store")
        self.products: list[Product] = []
        self.stores: list[Store] = []
        self.store_groups = self.made = 0

    def wgmma(self, sums, a, a_index, b, b_index, *how, site, a_mn=False, b_mn=False) -> tuple:
        """Begin a product by a warpgroup, 64 deep or as it says; this warp makes 16 of its 64 rows.

        The sums given back hold nothing before the product is waited for.
        """
        *said, keep, bfloat = how
        depth = said[0] if said else DEPTH
        columns, outputs = 2 * len(sums), self._outputs(sums, site)
        if not self.mask:
            return outputs
        starts = [
            self._tile(array, index, 128 * rows, 1024, "multiplies", site)
            for array, index, rows in ((a, a_index, 64), (b, b_index, columns))
        ]
        if None in starts:
            return outputs
        self._together((*starts, columns, depth), site)
        chunks_a = (starts[0] >> 4) + chunks_of(16 * (self.warp % 4), 16, a_mn)
        chunks_b = (starts[1] >> 4) + chunks_of(0, columns, b_mn)
        if depth < DEPTH:  # of rows along the depth, the first chunks of 8
            chunks_a, chunks_b = chunks_a[:, : depth // 8], chunks_b[:, : depth // 8]
        operands = (a, chunks_a, a_mn), (b, chunks_b, b_mn)
        return self._begin(sums, None, operands, outputs, depth, keep, bfloat, site)

    def wgmma_rn(self, sums, words: Array, b: Array, b_index, depth, keep, bfloat, site) -> tuple:
        """The same, so deep; its first factor is in registers, four for 16 deep."""
        outputs = self._outputs(sums, site)
        if not self.mask:
            return outputs
        columns, box = 2 * len(sums), 128 * depth
        size = box * -(-columns // 64)
        start = self._tile(b, b_index, size, 1024, "multiplies", site)
        if start is None:
            return outputs
        self._together((start, columns, depth), site)
        left = np.empty((16, depth), np.float32)
        for number in range(depth // 4):
            pair = self.pair(self.load(words, (number,), site), bfloat)
            for part in range(2):
                row, column = place_in_a(number % 4, part)
                left[row, column + number // 4 * 16] = pair[:, part]
        boxes = [(at >> 4) + chunks_of(0, depth, False) for at in range(start, start + size, box)]
        operands = ((b, np.hstack(boxes)[:, : columns // 8], True),)
        return self._begin(sums, left, operands, outputs, depth, keep, bfloat, site)

    def _outputs(self, sums: tuple, site: int) -> tuple[ndarray, ...]:
        self.needs(HOPPER, "a product of a warpgroup (wgmma)", site)
        if self.mask:
            self.whole_warps(site)
        return tuple(np.full(32, np.nan, np.float32) for _ in sums)

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
            text = "makes another product than the other warps of its warpgroup: all 128 threads "
            text += "give the same operands, in the same order"
            self.wrong("barrier-divergence", site, text)
        group[self.made][1].add(self.warp)
        self.made += 1

    def wgmma_wait(self, most: int, site: int) -> None:
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
            split = np.stack(rows).reshape(-1, 2, 2, 8, 4)  # 8 columns, half, neighbour, row, pair
            total += split.transpose(1, 3, 0, 4, 2).reshape(16, -1)
        registers = total.reshape(2, 8, -1, 4, 2).transpose(2, 0, 4, 1, 3).reshape(-1, 32)
        for output, register in zip(product.outputs, registers, strict=True):
            output[:] = register

    def wgmma_sums(self, sums: tuple, site: int) -> tuple:
        self.wgmma_wait(0, site)
        return sums

    def unpack_sums(self, array: Array, values: tuple, site: int) -> None:
        self.finished(values, site)
        super().unpack_sums(array, values, site)

    def finished(self, values: tuple, site: int) -> None:
        """Report sums that are read while the product that makes them is in flight."""
        if any(product.outputs is values for product in self.products):
            text = "reads sums that a product under way has yet to write: wgmma_sums(sums) first"
            self.wrong("race", site, text)


# ---------------------------------------------------------------------- code
def _multiply(layout: str, sums: types.UniTuple, b: types.Array, depth: int = DEPTH) -> Ptx:
    """Code of a product, by the layouts of a and b: "r" is in registers.

    Descriptors say: start, bytes to the next box, bytes to the next eight rows, swizzle.
    """
    in_registers = layout[0] == "r"
    mn_major = layout[0] == "t", layout[1] == "n"  # neighbours lie along the sums, not the depth
    sides = {"y": mn_major[1]} if in_registers else dict(zip("xy", mn_major, strict=True))
    # 16 deep: 32 bytes along a swizzled row, or 16 rows of 128 bytes; in units of 16 bytes
    steps = {name: 16 * 128 // 16 if side else 16 * 2 // 16 for name, side in sides.items()}
    box = 128 * depth if in_registers else BOX
    boxes = (box // 16 if side else 1 for side in sides.values())
    fixed = tuple(1 << 62 | (1024 // 16) << 32 | step << 16 for step in boxes)
    transposed = ", ".join(str(int(side)) for side in sides.values())
    count, words = len(sums), in_registers * depth // 4
    places = {name: 2 * count + words + n for n, name in enumerate(steps)}
    letters = "bf16" if b.dtype == bfloat16 else "f16"
    numbers = "{" + ", ".join(f"${n}" for n in range(count)) + "}"
    lines = [
        f"{{ .reg .pred p; .reg .b64 {', '.join(places)};",
        f"setp.ne.b32 p, ${2 * count + words + len(places)}, 0;",
        " ".join(f"mov.b64 {name}, ${place};" for name, place in places.items()),
        "wgmma.fence.sync.aligned;",
    ]
    for k in range(depth // 16):
        if k:
            lines.append(" ".join(f"add.s64 {n}, {n}, {by};" for n, by in steps.items()))
        four = ", ".join(f"${2 * count + 4 * k + n}" for n in range(4))
        lines.append(
            f"wgmma.mma_async.sync.aligned.m64n{2 * count}k16.f32.{letters}.{letters} {numbers}, "
            f"{f'{{{four}}}' if in_registers else 'x'}, y, {'1' if k else 'p'}, 1, 1, {transposed};"
        )
    lines.append("wgmma.commit_group.sync.aligned; }")
    return Ptx("\n".join(lines), CONVERGENT, fixed=fixed, words=words)


def _products(name: str, sums, a, a_index, b, *_) -> str | None:
    if a.dtype != b.dtype:
        return f"{name} multiplies arrays of one type, not {a.dtype} with {b.dtype}"
    return None


def _as_sums(sums, *_) -> types.Type:
    return sums


def _shared(layout: str) -> Instruction:
    # ``a[a_index]`` and ``b[b_index]`` are where the tiles begin: "n" of a and "t" of b are one box
    # of 64 rows, or as many as sums have columns, 64 deep; else boxes of 64 rows along the depth,
    # one for 64 of the sums' rows or columns, one after another
    call = f"wgmma_{layout}(sums, a, a_index, b, b_index, keep)"
    return Instruction(
        named(lambda sums, a, a_index, b, b_index, keep: _multiply(layout, sums, b), call,
              "begin sums + a b.", "sums = "),
        "sums factor index factor index number", _as_sums, check=_products, twin=Hopper.wgmma,
        more={"a_mn": layout[0] == "t", "b_mn": layout[1] == "n"}, by_warp=True, hopper=True,
    )  # fmt: skip


wgmma_nt, wgmma_nn, wgmma_tn, wgmma_tt = map(_shared, ("nt", "nn", "tn", "tt"))


@instruction("sums factor index factor index literal number", _as_sums, check=_products,
             known=range(16, 65, 16), twin=Hopper.wgmma, by_warp=True, hopper=True)  # fmt: skip
def wgmma_nt_deep(sums, a, a_index, b, b_index, depth, keep):
    """``sums = wgmma_nt_deep(sums, a, a_index, b, b_index, depth, keep)``: begin sums + a b.

    As `wgmma_nt`, of the first `depth` numbers of each row: 16, 32, 48 or 64, a literal.
    """
    return _multiply("nt", sums, b, depth.literal_value)


@instruction("sums words factor index literal number", _as_sums, known=range(16, 257, 16),
             twin=Hopper.wgmma_rn, by_warp=True, hopper=True)  # fmt: skip
def wgmma_rn(sums, words, b, index, depth, keep):
    """``sums = wgmma_rn(sums, words, b, index, depth, keep)``: begin sums + a b.

    a is in `words`, a local array of uint32; ``b[index]`` is where boxes of `depth` rows begin, one
    for 64 columns, one after another; `depth`, a literal, is a multiple of 16. Without `keep` the
    sums begin at 0.
    """
    return _multiply("rn", sums, b, depth.literal_value)


@instruction("literal", lambda n: types.UniTuple(types.float32, n.literal_value // 2),
             known=range(8, 257, 8), twin=Sums.wgmma_zeros, by_warp=True)  # fmt: skip
def wgmma_zeros(n):
    """``sums = wgmma_zeros(n)``: zeros for n columns, a literal."""

    def generate(context, builder, signature, args):
        kind = signature.return_type
        return context.make_tuple(builder, kind, [FLOAT(0.0)] * len(kind))

    return generate


@instruction("literal", known=range(8), twin=Hopper.wgmma_wait, by_warp=True)
def wgmma_wait(most):
    """``wgmma_wait(n)``: until at most the newest n products are in flight; a literal."""
    return Ptx(f"wgmma.wait_group.sync.aligned {most.literal_value};", CONVERGENT)


@instruction("sums", _as_sums, twin=Hopper.wgmma_sums, by_warp=True)
def wgmma_sums(sums):
    """``sums = wgmma_sums(sums)``: wait for all products; their sums may be read then."""
    return Ptx("wgmma.wait_group.sync.aligned 0;", CONVERGENT)


@instruction("floats sums", twin=Sums.unpack_sums, by_warp=True)
def unpack(array, sums):
    """``unpack(array, sums)``: ``array[i] = sums[i]``, a local array of float32."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        for e in range(len(signature.args[1])):
            builder.store(builder.extract_value(args[1], e), builder.gep(data, [WORD(e)]))
        return context.get_dummy_value()

    return generate
