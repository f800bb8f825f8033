"""Fragments of matrices, and the instructions of Hopper: types and code of their calls.

These are the functions of :mod:`warpsim.ptx.fragments` and :mod:`warpsim.ptx.hopper`. What
each takes is a line of a table, from which follow what is refused, the type and the code;
:mod:`warpsim.ptx.fragment_twins` and :mod:`warpsim.ptx.hopper_twins` run them.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numba import types

from warpsim.core.number_types import bfloat16
from warpsim.front.numba_typing import plain

if TYPE_CHECKING:
    from warpsim.code.emit import Emitter
    from warpsim.front.expressions import Expressions

f4, i4, u4, u8 = types.float32, types.int32, types.uint32, types.uint64
_TWO, _FOUR = types.UniTuple(u4, 2), types.UniTuple(u4, 4)
_SUMS = types.UniTuple(f4, 4)
HALVES = (types.float16, bfloat16, types.uint16, types.int16)
#: Types of the elements of an array that an instruction takes, by what the table calls it.
ELEMENTS = {
    "array": None, "halves": HALVES, "factor": (types.float16, bfloat16), "barriers": (u8,),
    "floats": (f4,), "words": (u4,),
}  # fmt: skip


@dataclass(frozen=True)
class Instruction:
    """How an instruction is called.

    Attributes
    ----------
    takes : str
        Its arguments: an array by its key in `ELEMENTS` and ``index`` after it, ``number`` (an
        integer), ``literal``, ``map``, ``corner`` (a row and a column), ``sums``
        (of a warpgroup), or a type by its name in `TYPES`.
    gives : Type, str or None
        Its result; ``"sums"`` that of the argument, ``"zeros"`` as many as a literal says.
    method : str
        Of the running threads; the instruction's name if empty.
    more : tuple
        What the method takes beside the arguments.
    turns : bool
        Its warps wait for each other, and take turns.
    """

    takes: str = ""
    gives: Any = None
    method: str = ""
    more: tuple = ()
    turns: bool = True


TYPES = {"f4": f4, "i4": i4, "u4": u4, "u4x2": _TWO, "u4x4": _FOUR, "f4x4": _SUMS}
_BARRIER = "barriers index"
_PRODUCT = "sums factor index factor index number"
INSTRUCTIONS = {
    "mma_bf16": Instruction("f4x4 u4x4 u4x2", _SUMS, turns=False),
    "quotient": Instruction("i4 i4", i4, turns=False),
    "remainder": Instruction("i4 i4", i4, turns=False),
    "copy8_async": Instruction("halves index halves index number", turns=False),
    "pack_f16": Instruction("f4 f4", u4, turns=False),
    "pack_bf16": Instruction("f4 f4", u4, turns=False),
    "unpack_f16": Instruction("u4", types.UniTuple(f4, 2), turns=False),
    "unpack_bf16": Instruction("u4", types.UniTuple(f4, 2), turns=False),
    "wgmma_zeros": Instruction("literal", "zeros"),
    "wgmma_nt": Instruction(_PRODUCT, "sums", "wgmma", (False, False)),
    "wgmma_nn": Instruction(_PRODUCT, "sums", "wgmma", (False, True)),
    "wgmma_tn": Instruction(_PRODUCT, "sums", "wgmma", (True, True)),
    "wgmma_rn": Instruction("sums words factor index literal number", "sums"),
    "wgmma_wait": Instruction("literal"),
    "wgmma_sums": Instruction("sums", "sums"),
    "spread": Instruction("floats sums"),
    "fence_async": Instruction(),
    "mbarrier_init": Instruction(f"{_BARRIER} number"),
    "fence_mbarriers": Instruction(method="fence_async"),
    "mbarrier_arrive": Instruction(_BARRIER),
    "mbarrier_arrive_at": Instruction(f"{_BARRIER} number"),
    "mbarrier_expect": Instruction(f"{_BARRIER} number"),
    "mbarrier_wait": Instruction(f"{_BARRIER} number"),
    "named_barrier": Instruction("number number"),
    "tma_load": Instruction(f"array index map corner {_BARRIER}"),
    "tma_load_multicast": Instruction(
        f"array index map corner {_BARRIER} number", None, "tma_load"
    ),
    "tma_store": Instruction("map corner array index"),
    "tma_prefetch": Instruction("map", method="nothing"),
    "same_start": Instruction("map map", i4, turns=False),
    "commit_stores": Instruction(),
    "wait_stores": Instruction("literal"),
    "cluster": Instruction("literal", method="nothing"),
    "cluster_rank": Instruction(gives=i4),
    "cluster_barrier": Instruction(),
    "load4_cluster": Instruction("floats index number", _SUMS),
    "follow": Instruction(method="nothing", turns=False),
    "setmaxnreg_dec": Instruction("literal", method="nothing"),
    "setmaxnreg_inc": Instruction("literal", method="nothing"),
    "ldmatrix4": Instruction("halves index", TYPES["u4x4"], "ldmatrix", (False,), turns=False),
    "ldmatrix4_trans": Instruction("halves index", TYPES["u4x4"], "ldmatrix", (True,), turns=False),
    "stmatrix4": Instruction("halves index u4x4", None, "stmatrix", turns=False),
}


def refusal(name: str, kinds: tuple[types.Type, ...], named: tuple[str, ...]) -> str | None:
    """What is wrong with the types of a call's arguments, for Numba and the simulator alike."""
    takes = INSTRUCTIONS[name].takes.split()
    if named:
        return f"{name} takes its arguments by position, not as {', '.join(named)}="
    if len(kinds) != len(takes):
        given = f"{len(kinds)} given" if kinds else "none given"
        return f"{name} takes {len(takes)} argument{'s' * (len(takes) != 1)}, {given}"
    for place, (take, kind) in enumerate(zip(takes, kinds, strict=True)):
        wrong = _unfit(take, kind, kinds[place - 1])
        if wrong:
            return f"argument {place + 1} of {name} is {wrong}, not {kind}"
    if name == "wgmma_rn" and len(kinds[0]) != 32:
        return f"wgmma_rn makes 64 columns, not {2 * len(kinds[0])}"
    if name.startswith(("wgmma_n", "wgmma_t")):
        a, b, columns = kinds[1].dtype, kinds[3].dtype, 2 * len(kinds[0])
        if a != b:
            return f"{name} multiplies arrays of one type, not {a} with {b}"
        if name != "wgmma_nt" and columns % 64:
            return f"{name} makes a multiple of 64 columns, not {columns}: b lies in pieces of 64"
    if name == "copy8_async" and kinds[0].dtype != kinds[2].dtype:
        return f"{name} copies elements of one type, not {kinds[2].dtype} to {kinds[0].dtype}"
    return None


def _unfit(take: str, kind: Any, before: Any) -> str | None:
    """What an argument should be, if it is not."""
    if take in ELEMENTS:
        wanted = ELEMENTS[take]
        fits = isinstance(kind, types.Array) and kind.ndim > 0
        fits = fits and (wanted is None or kind.dtype in wanted)
        named = f" of {' or '.join(map(str, wanted))}" if wanted else ""
        return None if fits else f"an array{named}"
    if take == "index":
        parts = list(kind) if isinstance(kind, types.BaseTuple) else [kind]
        whole = all(isinstance(part, types.Integer) for part in parts)
        fits = whole and len(parts) == before.ndim
        return None if fits else f"an index, {before.ndim} integer{'s' * (before.ndim > 1)}"
    if take == "map":
        return None if hasattr(kind, "box") else "a TensorMap, the kernel's own argument"
    if take == "corner":
        fits = isinstance(kind, types.BaseTuple) and len(kind) == 2
        fits = fits and all(isinstance(part, types.Integer) for part in kind)
        return None if fits else "a tuple (row, column) of integers"
    if take == "sums":
        fits = isinstance(kind, types.UniTuple) and kind.dtype == f4
        fits = fits and len(kind) % 4 == 0 and 4 <= len(kind) <= 128
        return None if fits else "the sums of a warpgroup, such as wgmma_zeros(128)"
    if take in ("number", "literal"):
        return None if isinstance(kind, types.Integer | types.Boolean) else "an integer"
    return None if kind == TYPES[take] else str(TYPES[take])


def instruction_type(typer: Expressions, node: ast.Call, name: str) -> types.Type:
    """The type of a call."""
    source, instruction = typer.source, INSTRUCTIONS[name]
    takes = instruction.takes.split()
    kinds = tuple(plain(typer.expression(argument)) for argument in node.args)
    wrong = refusal(name, kinds, tuple(str(keyword.arg) for keyword in node.keywords))
    for take, argument in zip(takes, node.args, strict=False):
        if wrong is None and take == "literal" and type(source.static(argument)) is not int:
            wrong = f"{name} takes an integer that is known when the kernel is compiled"
    if wrong is not None:
        raise source.refused(node, wrong)
    typer.typing.operands[node] = kinds
    if name == "wgmma_rn":
        depth = source.static(node.args[4])
        if depth % 16 or not 16 <= depth <= 256:
            raise source.refused(node, f"wgmma_rn multiplies 16, 32, ... 256 deep, not {depth}")
    if instruction.gives == "sums":
        return kinds[0]
    if instruction.gives == "zeros":
        columns = source.static(node.args[0])
        if columns % 8 or not 8 <= columns <= 256:
            raise source.refused(node, f"{name} makes 8, 16, ... 256 columns, not {columns}")
        return types.UniTuple(f4, columns // 2)
    return types.none if instruction.gives is None else instruction.gives


def instruction_code(emitter: Emitter, node: ast.Call, name: str) -> str:
    """Code of a call in a lane program."""
    instruction, source = INSTRUCTIONS[name], emitter.source
    emitter.turns |= instruction.turns
    if name == "cluster":
        emitter.cluster = source.static(node.args[0])
    codes = []
    takes = instruction.takes.split()
    for take, argument in zip(takes, node.args, strict=True):
        kind = plain(emitter.typing.of[argument])
        if take == "literal":
            codes.append(repr(source.static(argument)))
        elif take == "index" and not isinstance(kind, types.BaseTuple):
            codes.append(f"({emitter.expression(argument)},)")
        elif take in TYPES:
            codes.append(emitter.operand(argument, TYPES[take]))
        else:
            codes.append(emitter.expression(argument))
    if "factor" in takes:
        factor = emitter.typing.operands[node][takes.index("factor")]
        codes.append(repr(factor.dtype == bfloat16))
    if name == "mma_bf16":
        emitter.count("tensor", 128)
    codes += [repr(part) for part in instruction.more]
    place = 2 if name == "tma_store" else takes.index("factor") if "factor" in takes else 0
    array = ast.unparse(node.args[place]) if place < len(node.args) else ""
    codes.append(f"site={emitter.site(node, array)}")
    return emitter.operation(instruction.method or name, *codes)
