"""How an instruction is declared: once, for Numba's compiler and the simulator.

>>> @instruction("barriers index number", twin=MBarriers.mbarrier_expect, by_warp=True)
... def mbarrier_expect(barriers, index, size):
...     return Ptx("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;")

The words say what it takes, and so what is refused, by both alike. The function gets the types of a
call's arguments and returns its code: text of PTX, whose operands and constraints follow from the
same words, or a function that writes LLVM's. The twin is what the running threads of the simulator
do. Numba asks for an instruction's type when it first compiles a kernel that has it: until then
numba.cuda is not imported.

Source: Numba, "Extending Numba", ``intrinsic``; LLVM, "Inline Assembler Expressions".
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError

from warpsim.core.number_types import bfloat16
from warpsim.front import names
from warpsim.front.numba_typing import plain

if TYPE_CHECKING:
    from warpsim.code.emit import Emitter
    from warpsim.front.expressions import Expressions

f4, i4, u4, u8 = types.float32, types.int32, types.uint32, types.uint64
FLOAT, BYTE, WORD, LONG = ir.FloatType(), ir.IntType(8), ir.IntType(32), ir.IntType(64)
GENERIC, GLOBAL, SHARED = 0, 1, 3  # address spaces
LETTERS = {16: "h", 32: "r", 64: "l"}  # of inline PTX, for registers of so many bits
CONVERGENT = ("convergent",)  # a warp's lanes make it together: it is not moved into a branch

ELEMENTS_16 = (types.float16, bfloat16, types.uint16, types.int16)
#: Types of the elements of an array that an instruction takes, by what `takes` calls it.
ELEMENTS = {
    "array": None, "halves": ELEMENTS_16, "factor": (types.float16, bfloat16), "barriers": (u8,),
    "floats": (f4,), "words": (u4,),
}  # fmt: skip
TYPES = {
    "f4": f4, "i4": i4, "u4": u4, "u4x2": types.UniTuple(u4, 2), "u4x4": types.UniTuple(u4, 4),
    "f4x2": types.UniTuple(f4, 2), "f4x4": types.UniTuple(f4, 4),
}  # fmt: skip
#: All instructions, by name.
INSTRUCTIONS: dict[str, Instruction] = {}


class Intrinsic:
    """A function of the compiler's: given types of a call, it has its type and what writes code."""

    def __init__(self, typed: Callable):
        functools.update_wrapper(self, typed)

    #: The function of (typing, types of arguments ...), as Numba's ``intrinsic`` takes it.
    typed = property(lambda self: self.__wrapped__)

    @functools.cached_property
    def _numba_type_(self) -> types.Type:
        from numba.cuda.descriptor import cuda_target
        from numba.cuda.extending import intrinsic

        context = cuda_target.typing_context
        made = intrinsic(self.typed)
        context.refresh()
        return context.resolve_value_type(made)


class Instruction(Intrinsic):
    """A function that works inside a kernel, on a GPU and in the simulator alike.

    ``function`` gives the code for the types of a call's arguments. ``takes`` says what they are:
    an array by its key in `ELEMENTS` and ``index`` after it, ``value`` (what is stored), ``number``
    (an integer), ``literal``, ``map``, ``corner`` (a row and a column), ``sums`` (of a warpgroup),
    or a type by its name in `TYPES`. ``gives`` is the result's type, or makes it of the arguments'.
    ``twin`` is the method of the running threads that does it, by name where it is the scheduler's,
    and ``more`` what that takes besides; without one it has no effect there. ``by_warp``: its warps
    wait for each other, and run one after the other; ``hopper``: no other GPU is compiled for.
    ``each(name, takes, kinds)`` says what is wrong with arguments one
    by one, ``check(name, *kinds)`` what else is. ``unknown`` is said of a literal that is none of
    the ``known`` ones.
    """

    def __init__(
        self, function: Callable, takes: str = "", gives: Any = types.none, *,
        twin: Callable | str | None = None, more: Mapping[str, Any] | None = None,
        by_warp: bool = False, hopper: bool = False,
        each: Callable | None = None, check: Callable | None = None, known: range = range(0),
        unknown: str = "",
    ):  # fmt: skip
        super().__init__(function)
        name = function.__name__
        self.takes, self.gives, self.more = takes.split(), gives, more or {}
        self.twin = getattr(twin, "__name__", twin)
        self.by_warp, self.hopper = by_warp, hopper
        self.each, self.check = each or _argument_by_argument, check or (lambda *kinds: None)
        self.known, self.unknown = known, unknown
        if known and not unknown:
            ends = f"{known[0]} to {known[-1]}, in steps of {known.step}"
            self.unknown = f"{name} takes a literal from {ends}"
        INSTRUCTIONS[name] = self
        names.register(self, f"pieces.{name}", self.type_of_call)

    def __call__(self, *arguments, **named):
        text = f"{self.__name__} works only inside a kernel, a function decorated with @cuda.jit"
        raise TypeError(text)

    def __repr__(self) -> str:
        return f"<instruction {self.__name__}>"

    # ------------------------------------------------------------------ types
    def refusal(self, kinds: tuple[types.Type, ...], named: tuple[str, ...] = ()) -> str | None:
        """What is wrong with the types of a call's arguments, some of them given by name."""
        name, count = self.__name__, len(self.takes)
        if named:
            return f"{name} takes its arguments by position, not as {', '.join(named)}="
        if len(kinds) != count:
            given = f"{len(kinds)} given" if kinds else "none given"
            return f"{name} takes {count} argument{'s' * (count != 1)}, {given}"
        for take, kind in zip(self.takes, kinds, strict=True):
            value = getattr(kind, "literal_value", kind)  # of whole numbers alone a range is asked
            if take == "literal" and not (isinstance(value, int) and value in self.known):
                return f"{self.unknown}, not {value}"
        kinds = tuple(map(types.unliteral, kinds))
        return self.each(name, self.takes, kinds) or self.check(name, *kinds)

    def result(self, kinds: tuple[types.Type, ...]) -> types.Type:
        return self.gives if isinstance(self.gives, types.Type) else self.gives(*kinds)

    @property
    def typed(self) -> Callable:
        function = self.__wrapped__

        @functools.wraps(function)
        def typed(typing, *kinds, **named):
            wrong = self.refusal(kinds, tuple(named))
            if wrong is not None:
                raise TypingError(wrong)
            here = capability()
            if self.hopper and here not in ((0, 0), (9, 0)):  # in the simulator none is compiled
                raise TypingError(
                    f"{self.__name__} is an instruction of compute capability 9.0 (H100, H200): "
                    f"choose a method for {here[0]}.{here[1]}"
                )
            code = function(*kinds)
            generate = functools.partial(code.generate, self.takes) if type(code) is Ptx else code
            return self.result(kinds)(*kinds), generate

        own = inspect.signature(function).parameters.values()
        first = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        typed.__signature__ = inspect.Signature([first, *own])
        return typed

    # ------------------------------------------------------------------ in the simulator
    def type_of_call(self, typer: Expressions, node: ast.Call) -> types.Type:
        """The type of a call, with the types that its operands are converted to noted."""
        kinds = tuple(plain(typer.expression(argument)) for argument in node.args)
        typer.typing.operands[node] = kinds
        known = list(kinds)
        for n, (take, argument) in enumerate(zip(self.takes, node.args)):
            if take == "literal" and type(value := typer.source.static(argument)) is int:
                known[n] = types.literal(value)
        wrong = self.refusal(tuple(known), tuple(str(keyword.arg) for keyword in node.keywords))
        if wrong is not None:
            raise typer.source.refused(node, wrong)
        return self.result(tuple(known))

    def code_of_call(self, emitter: Emitter, node: ast.Call) -> str:
        emitter.by_warp |= self.by_warp
        if self.__name__ == "cluster":
            emitter.cluster = emitter.source.static(node.args[0])
        if self.twin is None:
            return "None"
        indexed = [n for n, take in enumerate(self.takes[1:]) if take == "index"] or [0]
        site = emitter.site(node, ast.unparse(node.args[indexed[0]]) if node.args else "")
        codes = [
            self._operand(emitter, take, argument)
            for take, argument in zip(self.takes, node.args, strict=True)
        ]
        if "factor" in self.takes:
            factor = emitter.typing.operands[node][self.takes.index("factor")]
            codes.append(repr(factor.dtype == bfloat16))
        emitter.count(f"call {self.__name__}")
        codes += [f"{name}={value!r}" for name, value in self.more.items()]
        codes.append(f"site={site}")
        if len(indexed) > 1 and "count" in self.more:  # a copy: where it reads
            codes.append(f"other={emitter.site(node, ast.unparse(node.args[indexed[1]]))}")
        return emitter.operation(self.twin, *codes)

    @staticmethod
    def _operand(emitter: Emitter, take: str, argument: ast.expr) -> str:
        if take == "literal":
            return repr(emitter.source.static(argument))
        if take == "index" and not isinstance(plain(emitter.typing.of[argument]), types.BaseTuple):
            return f"({emitter.expression(argument)},)"
        if take in TYPES:
            return emitter.operand(argument, TYPES[take])
        return emitter.expression(argument)


def instruction(*of: Any, **options: Any) -> Callable:
    """Declare an instruction: parameters as of `Instruction`, behind the function."""
    return lambda function: Instruction(function, *of, **options)


def named(function: Callable, call: str, does: str, result: str = "") -> Callable:
    """One of a family's functions, with a name and a docstring of its own."""
    function.__name__ = function.__qualname__ = call.partition("(")[0]
    function.__doc__ = f"``{result}{call}``: {does}"
    return function


def several(kind: types.Type, count: int) -> types.Type:
    """The type of so many numbers: one by itself, more as a tuple."""
    return kind if count == 1 else types.UniTuple(kind, count)


def _argument_by_argument(name: str, takes: list[str], kinds: tuple) -> str | None:
    for place, (take, kind) in enumerate(zip(takes, kinds, strict=True)):
        if wrong := _unfit(take, kind, kinds[place - 1]):
            return f"argument {place + 1} of {name} is {wrong}, not {kind}"
    return None


def _unfit(take: str, kind: Any, before: Any) -> str | None:
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


# ---------------------------------------------------------------------- while Numba compiles
def capability() -> tuple[int, int]:
    """The compute capability that is compiled for; (0, 0) if nothing is."""
    from numba.core.targetconfig import ConfigStack

    found = getattr(ConfigStack().top_or_none(), "compute_capability", None) or (0, 0)
    return found[0], found[1]


@dataclass(frozen=True)
class Ptx:
    """Text of PTX: $0 and on are the numbers of the result, operands in their order follow.

    What has no result may write to memory, and so does what takes sums, which lie where the result
    does; with the attribute ``readonly`` it reads what may change, so that it is neither left out
    nor moved across what writes.
    """

    text: str
    attributes: tuple[str, ...] = ()  # LLVM's, of the call
    spaces: tuple[int, ...] = (SHARED, SHARED)  # of its arrays' elements
    bits: bool = False  # numbers are moved as bits, whatever their type is
    fixed: tuple[int, ...] = ()  # of descriptors of its arrays: all but where they begin
    words: int = 0  # how many it takes of an array of words

    def generate(self, takes: list[str], context, builder, signature, args) -> Any:
        given, spaces, fixed = [], iter(self.spaces), iter(self.fixed)
        for n, take in enumerate(takes):
            kind, value = signature.args[n], args[n]
            if take == "sums":
                parts = enumerate(cgutils.unpack_tuple(builder, value))
                given += [(part, str(e)) for e, part in parts]
            elif take == "words":
                data = context.make_array(kind)(context, builder, value).data
                places = [builder.gep(data, [WORD(e)]) for e in range(self.words)]
                given += [(builder.load(place), "r") for place in places]
            elif take in ELEMENTS and self.fixed:
                given.append(descriptor(context, builder, signature, args, n, next(fixed)))
            elif take in ELEMENTS:
                given.append(address(context, builder, signature, args, n, next(spaces)))
            elif take == "number":
                given.append((context.cast(builder, value, kind, u4), "r"))
            elif take == "map":
                given.append((value, "l"))
            elif take == "corner":  # the instructions take column and row
                parts = zip(cgutils.unpack_tuple(builder, value), kind, strict=True)
                given += [(context.cast(builder, *one, i4), "r") for one in reversed(list(parts))]
            elif take not in ("index", "literal"):
                parts = [value]
                if isinstance(kind, types.BaseTuple):
                    parts = cgutils.unpack_tuple(builder, value)
                dtype = getattr(kind, "dtype", kind)
                register, letter = self._register(context, dtype)
                given += [(builder.bitcast(part, register), letter) for part in parts]
        result = signature.return_type
        kinds = list(result) if isinstance(result, types.BaseTuple) else [result]
        kinds = [] if result == types.none else kinds
        register, letter = self._register(context, kinds[0]) if kinds else (ir.VoidType(), "")
        made = register if len(kinds) < 2 else ir.LiteralStructType([register] * len(kinds))
        writes = not kinds or "sums" in takes
        values, inputs = zip(*given, strict=True) if given else ((), ())
        constraints = [f"={letter}"] * len(kinds) + [*inputs] + ["~{memory}"] * writes
        code = ir.InlineAsm(
            ir.FunctionType(made, [value.type for value in values]), self.text,
            ",".join(constraints), side_effect=writes or "readonly" in self.attributes,
        )  # fmt: skip
        out = builder.call(code, values, attrs=self.attributes)
        if not kinds:
            return context.get_dummy_value()
        numbers = range(len(kinds)) if len(kinds) > 1 else ()
        parts = [builder.extract_value(out, e) for e in numbers] or [out]
        parts = [builder.bitcast(part, context.get_data_type(kinds[0])) for part in parts]
        return parts[0] if len(kinds) == 1 else context.make_tuple(builder, result, parts)

    def _register(self, context: Any, dtype: types.Type) -> tuple[Any, str]:
        """The register of a number, LLVM's type and a constraint's letter."""
        if dtype == f4 and not self.bits:
            return FLOAT, "f"
        return ir.IntType(dtype.bitwidth), LETTERS[dtype.bitwidth]


def pointer(context, builder, signature, args, n: int) -> Any:
    """Pointer to the bytes of ``args[n][args[n + 1]]``."""
    array_type, index_type = signature.args[n : n + 2]
    view = context.make_array(array_type)(context, builder, args[n])
    strides = cgutils.unpack_tuple(builder, view.strides, array_type.ndim)
    parts = [(args[n + 1], index_type)]
    if isinstance(index_type, types.BaseTuple):
        parts = zip(cgutils.unpack_tuple(builder, args[n + 1]), index_type, strict=True)
    parts = [context.cast(builder, part, kind, types.intp) for part, kind in parts]
    found = builder.bitcast(view.data, BYTE.as_pointer())
    for part, stride in zip(parts[:-1], strides, strict=False):
        found = builder.gep(found, [builder.mul(part, stride)])
    size = ir.Constant(LONG, array_type.dtype.bitwidth // 8)
    return builder.gep(found, [builder.mul(parts[-1], size)])


def address(context, builder, signature, args, n: int, space: int = SHARED) -> tuple[Any, str]:
    """The address of ``args[n][args[n + 1]]`` and its constraint; 32 bits in shared memory."""
    found = pointer(context, builder, signature, args, n)
    if space != GENERIC:
        found = builder.addrspacecast(found, ir.PointerType(BYTE, space))
    register = WORD if space == SHARED else LONG
    return builder.ptrtoint(found, register), LETTERS[register.width]


def descriptor(context, builder, signature, args, n: int, fixed: int) -> tuple[Any, str]:
    """What wgmma is told of an operand: where it begins, and what is the same of all such."""
    place, _ = address(context, builder, signature, args, n)
    # 18 bits of an address: others, such as a block's rank in a cluster, are other fields
    start = builder.and_(builder.lshr(place, WORD(4)), WORD(0x3FFF))
    return builder.or_(builder.zext(start, LONG), ir.Constant(LONG, fixed)), "l"
