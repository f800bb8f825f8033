"""A kernel's syntax tree becomes the Python source of a lane program.

A lane program runs all threads of a chunk of blocks at once: a value that differs between threads
is a NumPy array with one element a thread (a *lane*), a value that all share stays a Python scalar.
``T`` is the running :class:`warpsim.run.threads.Threads`, whose parts do what `PARTS` says;
``state.mask`` says which lanes are active.
The source is readable on purpose: ``print(kernel.lane_program(...))`` shows it.
"""

import ast
import keyword
import math
import os
import re
from collections import ChainMap, Counter
from dataclasses import replace
from enum import Enum
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numba import types

from warpsim.code.accesses import Accesses, bare, spelled_tuple
from warpsim.code.calls import Calls, is_pure
from warpsim.core import operators
from warpsim.core.memory import ConstantArray
from warpsim.core.number_types import DATES, bfloat16
from warpsim.front.dataflow import Scopes
from warpsim.front.doubles import why_double
from warpsim.front.names import FOLDED, MISSING, Site, Source, folded
from warpsim.front.nodes import Once, walk
from warpsim.front.numba_typing import dtype_of, of_value, plain, unify
from warpsim.front.types import Typing
from warpsim.watch.store_flow import stored_loads

_SYMBOL = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "==", ast.IsNot: "!=",
}  # fmt: skip
_HELPER = {
    ast.Div: "divide", ast.FloorDiv: "floor_divide", ast.Mod: "remainder",
    ast.LShift: "shift_left", ast.RShift: "shift_right",
}  # fmt: skip
#: What lane programs may call, by the part of `warpsim.run.threads.Threads` that does it: a test
#: holds that to this table. What is CUDA's own has its name there, with ``_`` for dots.
PARTS: dict[str, str] = {
    "T": "call again",
    "geometry": "grid gridsize laneid threadIdx_x threadIdx_y threadIdx_z blockIdx_x blockIdx_y "
    "blockIdx_z blockDim_x blockDim_y blockDim_z gridDim_x gridDim_y gridDim_z",
    "state": "mask",
    "control": "split join both either choose pick element assign unsigned frame give leave loop "
    "stop unbroken skip head test end range lane_range each require divisor some",
    "observer": "count counted compare compare_tuples given maybe now_set print syncwarp "
    "threadfence threadfence_block threadfence_system",
    "memory": "load store atomic view captured shared_array local_array",
    "elements": "field component reshape view_as copied store_all store_record address_of "
    "indices unravel enumerated numbered items unpack reduced ufunc",
    "exchange": "syncthreads syncthreads_count syncthreads_and syncthreads_or grid_sync nanosleep "
    "shfl_sync shfl_up_sync shfl_down_sync shfl_xor_sync activemask lanemask_lt ballot_sync "
    "any_sync all_sync eq_sync match_any_sync match_all_sync",
}
#: The part of each operation; any other is an instruction's, of :mod:`warpsim.ptx`.
OPERATIONS = {name: part for part, names in PARTS.items() for name in names.split()}
_TAKEN = {"T", "frame", "ptx", "slice", *PARTS}
_unparsed = lru_cache(maxsize=1 << 12)(ast.unparse)
_TEMPORARY = re.compile(r"_(then|else|outer|loop|value|array|index|base|m|k|s)(_|\d|$)")


class Emitter(Accesses, Calls):
    """Writes the lane program of one typed function."""

    def __init__(self, typing: Typing, how: tuple[bool, bool, bool, bool]):
        traced, self.device, self.checked, costs = how  # checked: as under debug=True
        self.typing, self.source = typing, typing.source
        self.traced, self.costs = traced, traced and costs  # operations and branches are counted
        self.here: ast.AST = typing.source.tree  # the statement that is written
        self.copied: ast.AST | None = None  # the load of ``a[i] = b[j]``, while that is written
        self.cooperative = False  # waits for the whole grid: all blocks run in one chunk
        self.made_real: dict[str, tuple[str, types.Integer]] = {}  # code of a float: whole number
        self.locks = False  # see `statements.LaneProgram`
        self.by_warp, self.cluster = False, 1  # its warps wait for each other; blocks of a cluster
        self.out: list[str] = []
        self.lines: list[int] = []  # of the kernel's source, for each that is written
        self.parts: set[str] = set()  # of the running threads, that it asks for something
        self.indent = 1
        self.sites: list[Site] = []
        self.calls: list[tuple[str, str, Any, tuple[types.Type, ...]]] = []  # see `kept.Shell`
        self.keeps = True  # other functions of this shape may take it
        self.namespace: ChainMap[str, Any] = ChainMap({}, operators.NAMESPACE)
        self.comments: list[str] = []
        self.loops: list[tuple[str, ast.AST]] = []
        self.counts: list[Counter] = []
        self.numbers: Counter = Counter()
        self.merged = {name for edges in typing.edges.values() for name, _, _ in edges}
        self.scopes = self.source.once(Scopes)
        self.names = self._variable_names()
        self.own_name = self.outside(self.source.name, self)  # in its text
        doubtful = {node.id for node in typing.doubtful} if traced else ()
        self.watched_names = sorted(doubtful)
        self.stored_loads = self.source.once(stored_loads) if traced else set()
        self.framed = self.source.once(_ends_early)

    # ------------------------------------------------------------------ names
    def _variable_names(self) -> dict[tuple[str, Any], str]:
        kinds: dict[str, dict] = {}
        given, targets = zip(self.source.arguments, self.typing.arguments), self.typing.targets
        stores = [(node.id, kind) for node, kind in targets.items() if isinstance(node, ast.Name)]
        joins = [(name, to) for edges in self.typing.edges.values() for name, _, to in edges]
        for name, kind in [*given, *stores, *joins]:
            kinds.setdefault(name, {})[_key(kind)] = None
        names: dict[tuple[str, Any], str] = {}
        for name, found in kinds.items():
            for number, key in enumerate(found):
                suffix = re.sub(r"\W+", "_", str(key)).strip("_")
                wanted = name if number == 0 else f"{name}_{suffix}"
                names[name, key] = self._apart(wanted, {*self.namespace, *names.values()})
        return names

    def _apart(self, name: str, others: set[str]) -> str:
        """A name that is none of others, and none that lane programs use for themselves."""
        name = f"v{name}" if _TEMPORARY.match(name) else name
        while keyword.iskeyword(name) or name in _TAKEN or name in others:
            name += "_"
        return name

    def always_plain(self, name: str) -> bool:
        """Whether every assignment to a variable may overwrite, see `Scopes`."""
        return name not in self.merged and name not in self.scopes.others

    def variable(self, name: str, kind: types.Type) -> str:
        return self.names[name, _key(kind)]

    def read(self, node: ast.Name, kind: types.Type) -> str:
        """Code of a variable's value, which some threads may not have set."""
        variable = self.variable(node.id, kind)
        if node not in self.typing.doubtful:
            return variable
        if not self.traced:
            return self.operation("given", variable, repr(_dtypes(kind)))
        named = [one for one in self.source.nodes if getattr(one, "id", None) == node.id]
        sets = [self.source.line(one) for one in named if isinstance(one.ctx, ast.Store)]
        site = self.site(node, node.id)
        was_set, dtypes = f"_s_{node.id}", repr(_dtypes(kind))
        return self.operation("maybe", variable, was_set, dtypes, tuple(dict.fromkeys(sets)), site)

    def note_set(self, name: str) -> None:
        """Remember who has set a variable that some threads may read without."""
        if name in self.watched_names:
            self.line(f"_s_{name} = {self.operation('now_set', f'_s_{name}')}")

    def temporary(self, stem: str) -> str:
        self.numbers[stem] += 1
        return f"_{stem}{self.numbers[stem]}"

    def outside(self, name: str, value: Any) -> str:
        """The name of what is called: no other function's, no variable's, none of `PARTS`."""
        variables = {*self.names.values()}
        name = self._apart(name, variables)
        while self.namespace.setdefault(name, value) != value:
            name = self._apart(f"{name}_", variables)
        return name

    def constant(self, value: Any, what: str) -> str:
        name = f"_k{len(self.comments)}"
        self.namespace[name] = value
        self.comments.append(f"{name} = {what}")
        return name

    def site(self, node: ast.AST, array: str = "", code: str | None = None) -> int:
        text = _unparsed(node) if code is None else code
        place = self.source.line(node), text, array, self.source.name
        stored, dropped = node in self.stored_loads, node in self.typing.dropped
        self.sites.append(Site(*place, stored, "", dropped, node is self.copied))
        return len(self.sites) - 1

    def place(self, node: ast.AST, code: str) -> list[str]:
        """The last argument of what steers a loop: its place, where that matters."""
        return [f"site={self.site(node, code=code)}"] if self.traced else []

    def where_in_file(self, node: ast.AST) -> str:
        """A place as Numba's errors of a running kernel tell it."""
        file, line = self.source.in_file(self.source.line(node))
        return f"In function {self.source.name!r}, file {os.path.abspath(file)}, line {line}, "

    def line_site(self, node: ast.AST) -> int:
        """The place of a whole line, for operations."""
        return self.site(node, code=self.source.code(self.source.line(node)))

    def counted_site(self, node: ast.AST, counts: Counter) -> int:
        """The place of operations; of those in float64 it says where that comes from."""
        number = self.line_site(node)
        if counts["in double"]:
            self.sites[number] = replace(self.sites[number], double=why_double(self.typing, node))
        return number

    # ------------------------------------------------------------------ writing
    def operation(self, name: str, *codes: Any) -> str:
        """Code of a call of what the running threads do."""
        return f"{self.named(name)}({', '.join(map(str, codes))})"

    def named(self, name: str) -> str:
        """Code of what the running threads have, or do."""
        part = OPERATIONS.get(name, "ptx")
        if part != "T":
            self.parts.add(part)
        return f"{part}.{name}"

    mask = property(lambda self: self.named("mask"))

    def line(self, text: str) -> None:
        self.out.append("    " * self.indent + text)
        self.lines.append(self.here.lineno)

    def count(self, kind: str, amount: int = 1) -> None:
        if self.counts and amount:
            self.counts[-1][kind] += amount

    def counted(self, node: ast.AST, make) -> str:
        """Code of an expression that is evaluated under its own mask, its operations counted."""
        self.counts.append(Counter())
        code = make()
        counts = self.counts.pop()
        if not self.costs or not counts:
            return code
        return self.operation("counted", self.counted_site(node, counts), dict(counts), code)

    # ------------------------------------------------------------------ conversions
    def convert(self, code: str, old: types.Type, new: types.Type) -> str:
        old, new = plain(old), plain(new)
        if old == new or isinstance(new, types.Array | types.NoneType):
            return code
        if isinstance(new, types.BaseTuple):
            parts = [f"lambda x: {self.convert('x', a, b)}" for a, b in zip(old, new, strict=True)]
            return f"convert_tuple({code}, ({', '.join(parts)},))"
        if isinstance(new, types.Optional):
            return self._optional(code, old, new)
        if isinstance(old, types.Optional):
            code = self.operation("some", code, self.line_site(self.here))
            return self.convert(code, old.type, new)
        if old == bfloat16:
            code = f"widened({bare(code)})"
        if isinstance(new, DATES):
            return f"{self.constant(operators.CONVERT[new], str(new))}({bare(code)})"
        if old == types.int8 and isinstance(new, types.Integer) and new.bitwidth > 16:
            code = f"int8({bare(code)})"  # made of a float it may fill a register of 16 bits
        if code in self.made_real and isinstance(new, types.Integer):
            inner, kind = self.made_real[code]
            if operators.float_left_out(kind, old, new):
                return self._whole(inner, kind, new)
        literal = _literal(code)
        if literal is not None:
            value = operators.CONVERT[new](literal)
            if isinstance(value, int | float) and math.isfinite(value):
                return f"({value!r})" if value < 0 else repr(value)
            return self.constant(value, f"{new}({code})")
        made = f"{operators.name_of(new)}({bare(code)})"
        if isinstance(old, types.Integer) and isinstance(new, types.Float):
            self.made_real[made] = code, old
        return made

    def _whole(self, code: str, old: types.Integer, new: types.Integer) -> str:
        """Code of a whole number as another, where the compiler leaves out the float between."""
        if new.bitwidth > old.bitwidth and not (old.signed and new.signed):
            unsigned = types.Integer.from_bitwidth(old.bitwidth, signed=False)
            code, old = self.convert(code, old, unsigned), unsigned
        return self.convert(code, old, new)

    def _optional(self, code: str, old: types.Type, new: types.Optional) -> str:
        """Code of a value that may be None: whether it is, and what it is otherwise."""
        if isinstance(old, types.NoneType):
            return f"(True, {self.convert('0', types.int64, new.type)})"
        if isinstance(old, types.Optional):
            return f"(lambda x: (x[0], {self.convert('x[1]', old.type, new.type)}))({code})"
        return f"(False, {self.convert(code, old, new.type)})"

    def operand(self, node: ast.expr, kind: types.Type) -> str:
        return self.convert(self.expression(node), self.typing.of[node], kind)

    def condition(self, node: ast.expr) -> str:
        if node in self.typing.known and not isinstance(node, ast.IfExp):
            return str(self.typing.known[node])
        kind = self.typing.of[node]
        code = self.expression(node)
        if isinstance(kind, types.BaseTuple):
            return str(len(kind) > 0)
        if isinstance(kind, types.StringLiteral | types.NoneType):
            return str(bool(getattr(kind, "literal_value", None)))
        return code if isinstance(kind, types.Boolean) else f"truth({code})"

    # ------------------------------------------------------------------ expressions
    def expression(self, node: ast.expr) -> str:
        value = folded(node) if isinstance(node, FOLDED) else MISSING
        value = self.typing.values.get(node, value)
        if value is not MISSING:
            return self.value(value, node)
        if type(self.typing.of.get(node)) in (types.DType, types.NumberClass):
            return "None"
        return getattr(self, f"code_{type(node).__name__}")(node)

    def value(self, value: Any, node: ast.AST) -> str:
        if isinstance(value, np.finfo | np.iinfo):
            value = None  # only their attributes have values
        if isinstance(value, bool | str | None):
            return repr(value)
        if isinstance(value, tuple):
            return spelled_tuple([self.value(part, node) for part in value])
        if hasattr(value, "__cuda_array_interface__"):
            name = ast.unparse(node)
            return self.operation("captured", self.constant(value, name), repr(name))
        if isinstance(value, np.ndarray):
            return self.constant(ConstantArray(value), ast.unparse(node))
        if isinstance(value, Enum):
            return self.value(value.value, node)
        value = operators.CONVERT[of_value(value)](value)
        if type(value) in (bool, int) or (type(value) is float and math.isfinite(value)):
            return f"({value!r})" if value < 0 else repr(value)
        return self.constant(value, ast.unparse(node))

    def code_Constant(self, node: ast.Constant) -> str:
        return self.value(node.value, node)

    def code_Name(self, node: ast.Name) -> str:
        if node.id in self.source.assigned:
            return self.read(node, self.typing.of[node])
        return self.value(self.source.static(node), node)

    def code_Tuple(self, node: ast.Tuple) -> str:
        return spelled_tuple([self.expression(element) for element in node.elts])

    def code_BinOp(self, node: ast.BinOp) -> str:
        left, right = map(self.operand, (node.left, node.right), self.typing.operands[node])
        return self.binary(node, left, right)

    def binary(self, node: ast.BinOp | ast.AugAssign, left: str, right: str) -> str:
        kind, op = self.typing.of[node], node.op
        if isinstance(kind, types.BaseTuple):
            return f"({left} + {right})"
        if not self._is_constant(node):
            self._count_binary(node, kind)
        if self.checked and isinstance(op, ast.Div | ast.FloorDiv | ast.Mod):
            right = self.operation("divisor", right, repr(self.where_in_file(node)))
        if isinstance(op, ast.Pow):
            return self.power(left, right, self.typing.operands[node][1], kind)
        if type(op) in _HELPER:
            more = f", {operators.name_of(kind)}" if isinstance(op, ast.LShift | ast.RShift) else ""
            return f"{_HELPER[type(op)]}({left}, {right}{more})"
        wrap = ""
        if isinstance(kind, types.Integer) and isinstance(op, ast.Add | ast.Sub | ast.Mult):
            wrap = "wrap" if kind.signed else "wrap_unsigned"
        return f"{wrap}({left} {_SYMBOL[type(op)]} {right})"

    def power(self, left: str, right: str, exponent: types.Type, kind: types.Type) -> str:
        bits = exponent.bitwidth if isinstance(exponent, types.Integer) else 0
        return f"power({left}, {right}, {operators.name_of(kind)}, {bits})"

    def _is_constant(self, node: ast.expr) -> bool:
        """Arithmetic of constants only: the compiler does it."""
        if isinstance(node, ast.BinOp):
            return self._is_constant(node.left) and self._is_constant(node.right)
        if isinstance(node, ast.UnaryOp):
            return self._is_constant(node.operand)
        return isinstance(self.source.static(node), int | float)

    def _count_binary(self, node: ast.BinOp | ast.AugAssign, kind: types.Type) -> None:
        if not isinstance(kind, types.Float | types.Complex):
            self.count("integer", not isinstance(kind, types.Boolean))
            return
        amount, group = 1, operators.group_of(kind)
        double = group == "float64"
        if isinstance(node.op, ast.Pow):
            exponent = self.source.static(node.right if isinstance(node, ast.BinOp) else node.value)
            small = isinstance(exponent, int) and 1 <= abs(exponent) <= 8
            amount, group = (abs(exponent) - 1, group) if small else (1, "special")
        elif isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
            group = "special"
        self.count(group, amount)
        self.count("in double", amount * double)

    def code_UnaryOp(self, node: ast.UnaryOp) -> str:
        if isinstance(node.op, ast.Not):
            return f"negate({self.condition(node.operand)})"
        kind = self.typing.of[node]
        if isinstance(node.op, ast.UAdd):
            return self.operand(node.operand, kind)
        narrow = self.typing.operands[node][0]
        if isinstance(narrow, types.Boolean) or not isinstance(kind, types.Integer):
            narrow = kind
        code = self.operand(node.operand, narrow)
        if isinstance(node.op, ast.USub):
            code = f"negative({code})"
        else:
            code = f"negate({code})" if isinstance(narrow, types.Boolean) else f"(~{code})"
        if isinstance(narrow, types.Integer) and narrow != types.int64:
            code = f"{operators.name_of(narrow)}({bare(code)})"  # before it gets wider, as Numba
        return self.convert(code, narrow, kind)

    def code_BoolOp(self, node: ast.BoolOp) -> str:
        kind = self.typing.of[node]
        both = isinstance(node.op, ast.And)
        values = [value for value in node.values if value not in self.typing.dead]
        if not isinstance(kind, types.Boolean):
            return self._valued(node, values, kind)
        code = self.condition(values[0])
        for value in values[1:]:
            none = any(isinstance(self.typing.of.get(n), types.Optional) for n in walk(value))
            if is_pure(value) and not none:
                code = f"({code} {'&' if both else '|'} {self.condition(value)})"
            else:
                right = self.counted(value, lambda value=value: self.condition(value))
                code = self.operation("both" if both else "either", code, f"lambda: {right}")
        return code

    def _valued(self, node: ast.BoolOp, values: list, kind: types.Type) -> str:
        """``a and b`` of numbers: the value of b where a is true, else a."""
        first = self.operand(values[0], kind)
        if len(values) == 1:
            return first
        rest = self.counted(values[1], lambda: self._valued(node, values[1:], kind))
        value = self.temporary("value")
        arms = [f"lambda: {self.joined(arm, kind)}" for arm in (rest, value)]
        if isinstance(node.op, ast.Or):
            arms.reverse()
        chosen = self.operation("choose", f"truth({value})", *arms)
        return f"(lambda {value}: {chosen})({first})"

    def joined(self, code: str, kind: types.Type) -> str:
        """The code of a value that other lanes' values join, see `Control.unsigned`."""
        code = bare(code)
        return self.operation("unsigned", code) if plain(kind) == types.uint64 else code

    def code_IfExp(self, node: ast.IfExp) -> str:
        kind = self.typing.of[node]

        def operand(arm: ast.expr) -> str:
            truth = isinstance(kind, types.Boolean)
            return self.condition(arm) if truth else self.operand(arm, kind)

        test = self.condition(node.test)
        if node in self.typing.known:
            code = operand(node.body if self.typing.known[node] else node.orelse)
            return code if is_pure(node.test) else f"({test}, {code})[1]"
        arms = [
            "lambda: " + self.counted(arm, lambda arm=arm: self.joined(operand(arm), kind))
            for arm in (node.body, node.orelse)
        ]
        return self.operation("choose", test, *arms)

    def code_Compare(self, node: ast.Compare) -> str:
        if node in self.typing.known:
            calls = [one for one in (node.left, *node.comparators) if not is_pure(one)]
            codes = [self.expression(one) for one in calls] + [str(self.typing.known[node])]
            return f"({', '.join(codes)})[-1]" if calls else codes[0]
        if isinstance(node.ops[0], ast.In | ast.NotIn):
            return self._among(node)
        sides, kinds = (node.left, *node.comparators), self.typing.operands[node]
        symbol = _SYMBOL[type(node.ops[0])]
        for side, kind in zip(sides, kinds):
            if types.none in kinds and isinstance(kind, types.Optional) and symbol in ("==", "!="):
                none = f"{self.expression(side)}[0]"
                return none if symbol == "==" else f"negate({none})"
        # members of an enumeration whose values are tuples are compared as these
        held = (k.dtype if isinstance(k, types.EnumMember) else k for k in kinds)
        a, b = (v if isinstance(v, types.BaseTuple) else k for v, k in zip(held, kinds))
        if isinstance(a, types.BaseTuple):
            left, right = map(self.expression, sides)
            plan = self.constant(comparison_plan(a, b), f"conversions of {a} and {b}")
            operands = repr(symbol), left, right, plan
            return self.operation("compare_tuples", *operands, self.site(node))
        left, right = map(self.operand, sides, (a, b))
        if self.traced:  # what is compared may be something that was never written
            return self.operation("compare", repr(symbol), left, right, self.site(node))
        return f"({left} {symbol} {right})"

    def _among(self, node: ast.Compare) -> str:
        left, right = self.typing.of[node.left], self.typing.of[node.comparators[0]]
        parts = [
            f"({self.convert('x', left, a)} == {self.convert(f't[{number}]', right[number], b)})"
            for number, (a, b) in enumerate(self.typing.operands[node])
        ]
        values = f"{self.expression(node.left)}, {self.expression(node.comparators[0])}"
        code = f"(lambda x, t: {' | '.join(parts) or 'False'})({values})"
        return code if isinstance(node.ops[0], ast.In) else f"negate({code})"

    def code_Once(self, node: Once) -> str:
        name = "_value_" + "_".join(map(str, node.place))
        return f"({name} := {self.expression(node.value)})" if node.first else name


def _ends_early(source: Source) -> bool:
    """Whether a thread may end before the function's last statement does."""
    last = source.tree.body[-1]
    return any(
        isinstance(node, ast.Raise | ast.Assert | ast.Return)
        and (node is not last or not isinstance(node, ast.Return))
        for node in source.nodes
    )


def comparison_plan(left: types.BaseTuple, right: types.BaseTuple) -> tuple:
    """How each pair of two tuples' elements is converted before it is compared."""
    return tuple(
        comparison_plan(one, other)
        if isinstance(one, types.BaseTuple)
        else operators.CONVERT[unify(plain(one), plain(other))]
        for one, other in zip(left, right)
    )


def _dtypes(kind: types.Type) -> Any:
    """The dtype of a variable by name; of a tuple a tuple; None for what is no number."""
    kind = plain(kind)
    if isinstance(kind, types.Optional):
        return "bool", _dtypes(kind.type)
    if isinstance(kind, types.BaseTuple):
        return tuple(_dtypes(part) for part in kind)
    return dtype_of(kind).name if isinstance(kind, types.Number | types.Boolean) else None


def _key(kind: types.Type) -> Any:
    """Types that share a Python variable: arrays whatever their layout."""
    kind = plain(kind)
    return f"array_{kind.dtype}_{kind.ndim}d" if isinstance(kind, types.Array) else kind


@cache
def _literal(code: str) -> Any:
    """The number that an expression spells, or None."""
    try:
        value = ast.literal_eval(code)
    except (ValueError, SyntaxError):
        return None
    return value if isinstance(value, int | float) else None
