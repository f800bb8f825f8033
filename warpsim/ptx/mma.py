"""Products of tensor cores by a warp, and loads of 16-bit matrices to its registers.

All 32 lanes of a warp take part in mma, ldmatrix and stmatrix. A product m16n8 is c (16 x 8) + a
(16 x depth) b (depth x 8); a register holds `parts` neighbours, 2 of 16 bits or 1 of 32. Of lane l
the group is l // 4, the place in it l % 4. Lane 8 i + r gives ldmatrix the start of row r of matrix
i: ``array[index]`` is the first of 8 neighbours, at a multiple of 16 bytes.

The simulator computes a product in float32 from the exact values of its operands; hardware adds the
terms of one product in another order and cuts bits off below the largest, so the last bits differ.
Source: NVIDIA, PTX ISA, "Warp-level matrix instructions": ldmatrix, stmatrix, mma, "Matrix
Fragments for mma.m16n8k16 with floating point type" and for m16n8k8; cvt.
"""

import itertools
from collections.abc import Callable

import numpy as np
from numpy import ndarray

from warpsim.core import number_types
from warpsim.core.memory import Array
from warpsim.front.names import typing_error
from warpsim.ptx.instruction import CONVERGENT, TYPES, Instruction, Ptx, instruction, named
from warpsim.ptx.memory import Accesses

LANE = np.arange(32)
GROUP, IN_GROUP = LANE >> 2, LANE & 3
Places = tuple[np.ndarray, np.ndarray]


def place_in_a(register: int, part: int = 0, parts: int = 2) -> Places:
    """Row and column, of each lane, of a part of a register of a."""
    column = (register // 2) * 4 * parts + IN_GROUP * parts + part
    return GROUP + 8 * (register % 2), column


def place_in_b(register: int, part: int = 0, parts: int = 2) -> Places:
    """Row and column, of each lane, of a part of a register of b."""
    return register * 4 * parts + IN_GROUP * parts + part, GROUP


def place_in_c(register: int) -> Places:
    """Row and column, of each lane, of a sum."""
    return GROUP + 8 * (register // 2), 2 * IN_GROUP + register % 2


# ---------------------------------------------------------------------- in the simulator
def widened(bits: ndarray, bfloat: bool) -> ndarray:
    """16 bits as float32: those of a float16 or of a bfloat16."""
    if bfloat:
        return number_types.widened(bits)
    return np.ascontiguousarray(bits).view(np.float16).astype(np.float32)


def cut_tf32(x: ndarray, more: int = 0) -> ndarray:
    """float32 with 10 bits of fraction, the others left out, as tensor cores read TF32.

    With 0x1000 ``more`` it is rounded to nearest, ties away from zero (cvt.rna.tf32).
    """
    bits = (np.ascontiguousarray(x).view(np.uint32) + np.uint32(more)) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(x), np.float32(np.nan), bits.view(np.float32))


#: Products, as errors name them.
PRODUCTS = {
    "f16": "the product of tensor cores m16n8k16 in half precision",
    "f16_k8": "the product of tensor cores m16n8k8 in half precision",
    "bf16": "the product of tensor cores m16n8k16 in bfloat16",
    "tf32": "the product of tensor cores in TF32",
}


class TensorCores(Accesses):
    """What the running threads do with matrices in the registers of a warp."""

    def split_halves(self, x, y, site: int):
        pair = _side_by_side(x, y)
        upper = pair.astype(np.float16)
        return _words(upper), _words((pair - upper.astype(np.float32)).astype(np.float16))

    def round_tf32(self, x, site: int):
        self.needs((8, 0), "rounding to TF32", site)
        rounded = cut_tf32(np.atleast_1d(np.asarray(x, np.float32)), 0x1000)
        return rounded if np.ndim(x) else rounded[0]

    def mma(self, c, a, b, kind: str, site: int):
        self.needs((7, 5) if kind == "f16_k8" else (8, 0), PRODUCTS[kind], site)
        b = (b,) if kind == "f16_k8" else b
        if kind == "tf32":
            a, b = (
                [cut_tf32(_lanes(self, value, np.float32))[:, None] for value in part]
                for part in (a, b)
            )
        else:
            a, b = ([self.pair(value, kind == "bf16") for value in part] for part in (a, b))
        return self._product(c, a, b, site)

    def _product(self, c: tuple, a: list[ndarray], b: list[ndarray], site: int):
        """``c + a b`` for each warp; ``a[r][:, p]`` is part p of register r of every lane."""
        self.whole_warps(site)
        parts, warps = a[0].shape[1], self.lanes // 32
        depth = len(b) * 4 * parts
        if self.counters is not None and self.mask:
            self.counters.operations["tensor"] += 2 * 16 * 8 * depth // 32 * self.mask.count
        left = np.zeros((warps, 16, depth), np.float32)
        right = np.zeros((warps, depth, 8), np.float32)
        total = np.zeros((warps, 16, 8), np.float32)
        for matrix, place, registers in ((left, place_in_a, a), (right, place_in_b, b)):
            for r, register in enumerate(registers):
                for p in range(parts):
                    row, column = place(r, p, parts)
                    matrix[:, row, column] = register[:, p].reshape(warps, 32)
        for r, value in enumerate(c):
            row, column = place_in_c(r)
            total[:, row, column] = _lanes(self, value, np.float32).reshape(warps, 32)
        total += left @ right
        sums = (total[:, row, column] for row, column in map(place_in_c, range(4)))
        return tuple(part.reshape(-1).copy() for part in sums)

    def whole_warps(self, site: int) -> None:
        mask = self.mask
        if mask is self.root and mask.count == self.lanes:
            return
        here = mask.active.reshape(-1, 32)
        torn = np.flatnonzero(here.any(1) & ~here.all(1))
        if not len(torn):
            return
        row = int(torn[0]) * 32
        missing = np.flatnonzero((self.state.alive & ~mask.active)[row : row + 32])
        if len(missing):
            lane, what = row + int(missing[0]), "does not make this call, but its warp does"
            cure = "let the whole warp make it, outside of the branch"
        else:
            lane = row + int(np.flatnonzero(here[torn[0]])[0])
            what = f"makes this call in a warp of which {int(here[torn[0]].sum())} threads are left"
            cure = "let no thread return before it, and blocks have a multiple of 32 threads"
        text = f"{what}: a tensor core's product is made by all 32 lanes together; {cure}"
        self.found("barrier-divergence", text, site, lane)

    def ldmatrix(self, array: Array, index: tuple, transposed: bool, site: int):
        self.needs((7, 5), "ldmatrix", site)
        self._shared_rows(array, "ldmatrix", site)
        values = self.load_vector(array, index, 8, site) if self.mask else (0,) * 8
        rows = np.stack([np.broadcast_to(value, (self.lanes,)) for value in values], axis=-1)
        matrices = rows.astype(array.dtype, copy=False).view(np.uint16).reshape(-1, 4, 8, 8)
        if transposed:
            matrices = matrices.swapaxes(2, 3)
        words = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, 4, 32)
        return tuple(words[:, number].reshape(-1).copy() for number in range(4))

    def stmatrix(self, array: Array, index: tuple, values, transposed: bool, site: int):
        self.needs((9, 0), "stmatrix", site)
        self._shared_rows(array, "stmatrix", site)
        words = np.zeros((self.lanes // 32, 4, 32), np.uint32)
        for number, value in enumerate(values):
            words[:, number] = _lanes(self, value, np.uint32).reshape(-1, 32)
        matrices = words.view(np.uint16).reshape(-1, 8, 8)
        if transposed:
            matrices = np.ascontiguousarray(matrices.swapaxes(1, 2))
        rows = matrices.reshape(-1, 8).view(array.dtype)
        if self.mask:
            self.store_vector(array, index, tuple(rows.T.copy()), 8, site)

    def _shared_rows(self, array: Array, name: str, site: int) -> None:
        if array.space != "shared":
            raise typing_error(
                f"line {self.site(site).line}: {name} takes an array in shared memory, and "
                f"{array.name} is in {array.space} memory"
            )
        self.whole_warps(site)

    def pair(self, word, bfloat: bool) -> ndarray:
        """The two parts of a register of each lane, as float32: (lanes, 2)."""
        words = np.ascontiguousarray(_lanes(self, word, np.uint32))
        return widened(words.view(np.uint16), bfloat).reshape(-1, 2)

    def packed(self, x, y, bfloat: bool, site: int):
        if bfloat:
            self.needs((8, 0), "rounding to bfloat16", site)
        pair = _side_by_side(x, y)
        if not bfloat:
            return _words(pair.astype(np.float16))
        return _words(np.where(np.isnan(pair), np.uint16(0x7FFF), number_types.rounded(pair)))

    def unpacked(self, word, bfloat: bool, site: int):
        return tuple(self.pair(word, bfloat).T)


def _side_by_side(x, y) -> ndarray:
    return np.stack(np.broadcast_arrays(np.float32(x), np.float32(y)), axis=-1)


def _words(pairs: ndarray):
    """Pairs of 16 bits as words; one as a number."""
    words = np.ascontiguousarray(pairs).view(np.uint32)[..., 0]
    return words if words.ndim else words.item()


def _lanes(threads: TensorCores, value, dtype) -> ndarray:
    return np.broadcast_to(np.asarray(value, dtype), (threads.lanes,))


# ---------------------------------------------------------------------- products
def _all_types(name: str, takes: list[str], kinds: tuple) -> str | None:
    """Refuse what are not these types, all at once."""
    wanted = tuple(TYPES[take] for take in takes)
    if kinds == wanted:
        return None
    spelled = [", ".join(map(str, some)) for some in (wanted, kinds)]
    return f"{name} takes ({spelled[0]}), given ({spelled[1]})"


def _product(shape: str, a: int, b: int, bits: bool = False) -> Ptx:
    """Code of a product, whose factors are in so many registers."""
    ends = itertools.pairwise(itertools.accumulate((0, 4, 4, a, b)))
    sums, c, *factors = ("{" + ", ".join(f"${n}" for n in range(*end)) + "}" for end in ends)
    text = f"mma.sync.aligned.{shape} {sums}, {', '.join(factors)}, {c};"
    return Ptx(text, CONVERGENT, bits=bits)


def _mma(takes: str, kind: str, each: Callable | None = _all_types) -> Callable:
    more = {"kind": kind}
    return instruction(takes, TYPES["f4x4"], each=each, twin=TensorCores.mma, more=more)


@_mma("f4x4 u4x4 u4x2", "f16")
def mma_f16(c, a, b):
    """``mma_f16(c, a, b)``: c + a b, 16 x 8 from 16 x 16 and 16 x 8 float16; needs 8.0.

    Lane l has g = l // 4 and q = l % 4. c: four float32, rows g, g, g + 8, g + 8, columns 2q,
    2q + 1, 2q, 2q + 1. a: four uint32 of two float16, rows g, g + 8, g, g + 8, columns 2q and
    2q + 1, in the last two 8 more. b: two, rows 2q and 2q + 1, then 8 more, column g.
    """
    return _product("m16n8k16.row.col.f32.f16.f16.f32", 4, 2)


@_mma("f4x4 u4x2 u4", "f16_k8")
def mma_f16_k8(c, a, b):
    """``mma_f16_k8(c, a, b)``: c + a b, 16 x 8 from 16 x 8 and 8 x 8 float16; needs 7.5.

    As `mma_f16` with the first two registers of a and the first, no tuple, of b.
    """
    return _product("m16n8k8.row.col.f32.f16.f16.f32", 2, 1)


@_mma("f4x4 f4x4 f4x2", "tf32")
def mma_tf32(c, a, b):
    """``mma_tf32(c, a, b)``: c + a b, 16 x 8 from 16 x 8 and 8 x 8 float32; needs 8.0.

    The factors are cut to TF32, 10 bits of fraction: `round_tf32` them before. c as for `mma_f16`.
    a: four float32, rows g, g + 8, g, g + 8, columns q, q, q + 4, q + 4. b: two, rows q and q + 4,
    column g.
    """
    return _product("m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, bits=True)


@_mma("f4x4 u4x4 u4x2", "bf16", each=None)
def mma_bf16(c, a, b):
    """``mma_bf16(c, a, b)``: c + a b as `mma_f16`, of bfloat16; needs 8.0."""
    return _product("m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2)


# ---------------------------------------------------------------------- ldmatrix, stmatrix
def _ldmatrix(trans: str) -> Ptx:
    text = f"ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{$0, $1, $2, $3}}, [$4];"
    return Ptx(text, ("readonly", *CONVERGENT))


@instruction("halves index", TYPES["u4x4"], twin=TensorCores.ldmatrix, more={"transposed": False})
def ldmatrix4(array, index):
    """``ldmatrix4(array, index)``: four matrices of 8 x 8; see above. Needs 7.5.

    Lane l gets elements 2 (l % 4) and the next one of row l // 4, the first in the lower 16 bits.
    """
    return _ldmatrix("")


@instruction("halves index", TYPES["u4x4"], twin=TensorCores.ldmatrix, more={"transposed": True})
def ldmatrix4_trans(array, index):
    """``ldmatrix4_trans(array, index)``: as `ldmatrix4`, of column l // 4 for lane l."""
    return _ldmatrix(".trans")


def _stmatrix(trans: str) -> Instruction:
    text = f"stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [$0], {{$1, $2, $3, $4}};"
    also, does = trans.replace(".", "_"), "write what `ldmatrix4{}` reads; needs 9.0."
    function = named(lambda array, index, x: Ptx(text, CONVERGENT),
                     f"stmatrix4{also}(array, index, x)", does.format(also))  # fmt: skip
    how = {"twin": TensorCores.stmatrix, "more": {"transposed": bool(trans)}}
    return Instruction(function, "halves index u4x4", **how)


stmatrix4, stmatrix4_trans = _stmatrix(""), _stmatrix(".trans")


# ---------------------------------------------------------------------- numbers of other types
def _pack(kind: str, long: str) -> Instruction:
    does = f"two float32 as {long}, rounded; x in the lower half. Needs 8.0."
    function = named(
        lambda x, y: Ptx(f"cvt.rn.{kind}x2.f32 $0, $2, $1;"), f"pack_{kind}(x, y)", does
    )
    how = {"twin": TensorCores.packed, "more": {"bfloat": kind == "bf16"}}
    return Instruction(function, "f4 f4", TYPES["u4"], **how)


pack_f16, pack_bf16 = _pack("f16", "float16"), _pack("bf16", "bfloat16")


@instruction("u4", TYPES["f4x2"], twin=TensorCores.unpacked, more={"bfloat": False})
def unpack_f16(word):
    """``x, y = unpack_f16(word)``: the two float16 of a register as float32."""
    return Ptx("{ .reg .b16 l, h; mov.b32 {l, h}, $2; cvt.f32.f16 $0, l; cvt.f32.f16 $1, h; }")


@instruction("u4", TYPES["f4x2"], twin=TensorCores.unpacked, more={"bfloat": True})
def unpack_bf16(word):
    """``x, y = unpack_bf16(word)``: the two bfloat16 of a register as float32."""
    return Ptx(
        "{ .reg .b32 l, h; shl.b32 l, $2, 16; and.b32 h, $2, 0xffff0000; "
        "mov.b32 $0, l; mov.b32 $1, h; }"
    )


@instruction("f4 f4", TYPES["u4x2"], each=_all_types, twin=TensorCores.split_halves)
def split_halves(x, y):
    """``upper, lower = split_halves(x, y)``: x and y as sums of two float16 each.

    ``upper`` holds x and y rounded to float16, ``lower`` what that leaves, rounded; each is a
    uint32 with x's part in its lower 16 bits. Together they keep 22 of float32's 24 bits of numbers
    from 1/4 to 65,504 in magnitude; of smaller ones all to 2^-25, half of the smallest float16.
    """
    code = "{ .reg .b16 a, b, c, d; .reg .f32 x, y; "
    for number, upper, rest, lower in ("$2", "a", "x", "c"), ("$3", "b", "y", "d"):
        code += f"\ncvt.rn.f16.f32 {upper}, {number};\ncvt.f32.f16 {rest}, {upper};"
        code += f"\nsub.rn.f32 {rest}, {number}, {rest};\ncvt.rn.f16.f32 {lower}, {rest};"
    return Ptx(f"{code}\nmov.b32 $0, {{a, b}};\nmov.b32 $1, {{c, d}}; }}")


@instruction("f4", TYPES["f4"], each=_all_types, twin=TensorCores.round_tf32)
def round_tf32(x):
    """``round_tf32(x)``: x with 10 bits of fraction, to nearest, ties away from zero; needs 8.0."""
    return Ptx("cvt.rna.tf32.f32 $0, $1;", bits=True)
