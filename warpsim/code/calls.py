"""Code of calls in a lane program."""

import ast
import math
from collections.abc import Callable, Hashable
from functools import reduce
from typing import Any
from warnings import warn

import numpy as np
from numba import types
from numba.core.errors import NumbaWarning

from warpsim.code.accesses import spelled_tuple
from warpsim.core import operators
from warpsim.core.fp16 import FUNCTIONS
from warpsim.core.libdevice import runs
from warpsim.core.number_types import VECTORS, vector_code
from warpsim.core.operators import Made
from warpsim.front.allocations import assigned_name
from warpsim.front.calls import CASTS, REDUCTIONS, is_number_class
from warpsim.front.cuda_names import GRID_GROUP
from warpsim.front.names import MISSING, KernelName
from warpsim.front.nodes import walk
from warpsim.front.numba_typing import dtype_of, plain
from warpsim.ptx.instruction import INSTRUCTIONS

_PURE_CALLS = {"min", "max", "abs", "int", "float", "bool", "len"}
_COUNTED = (ast.Div, ast.Mod, ast.FloorDiv, ast.Pow)
#: More values than CUDA's printf takes. Source: numba.cuda.printimpl of 0.30.4.
MOST_PRINTED = 32
_CHEAP = {abs, min, max, round, math.floor, math.ceil, math.fabs, math.trunc, math.copysign}


def is_pure(node: ast.AST) -> bool:
    """True if evaluating the expression on idle lanes does no harm and is not counted."""
    for child in walk(node):
        if isinstance(child, ast.Subscript):
            pure = isinstance(child.value, ast.Attribute) and child.value.attr == "shape"
        elif isinstance(child, ast.Call):
            pure = isinstance(child.func, ast.Name) and child.func.id in _PURE_CALLS
        else:
            pure = not isinstance(getattr(child, "op", None), _COUNTED)
        if not pure:
            return False
    return True


class Calls:
    """What the emitter writes for ``f(...)``."""

    def code_Call(self, node: ast.Call) -> str:
        typing = self.typing
        function = typing.functions[node]
        if isinstance(function, KernelName):
            return self._of_cuda(node, function.path)
        if node in typing.callees:
            return self._device(node)
        if function is MISSING:
            return self._method(node)
        first = typing.of.get(node.args[0]) if node.args else None
        if isinstance(first, types.Array) and function in (sum, min, max, *REDUCTIONS):
            return self._total(node, node.args[0], function.__name__)
        known = self._FUNCTIONS.get(function) if isinstance(function, Hashable) else None
        if known is not None:
            return known(self, node, function)
        if isinstance(typing.of[node], types.BaseNamedTuple):
            return spelled_tuple([self.expression(argument) for argument in node.args])
        if isinstance(function, np.ufunc) and isinstance(typing.of[node], types.Array):
            return self._ufunc(node, function)
        codes = self._operands(node)
        if function in CASTS or is_number_class(function):
            return codes[0]
        self._count(function, typing.of[node])
        return self._library(node, codes, function)

    def _operands(self, node: ast.Call) -> list[str]:
        return list(map(self.operand, node.args, self.typing.operands[node]))

    def _library(self, node: ast.Call, codes: list[str], function: Callable) -> str:
        kind = self.typing.of[node]
        if isinstance(kind, types.BaseTuple):
            made = Made(operators.library_pair, (function, tuple(map(dtype_of, kind))))
        else:
            made = Made(operators.library, (function, dtype_of(kind)))
        return f"{self.outside(function.__name__, made)}({', '.join(codes)})"

    # ---------------------------------------------------------------------- of some functions
    def _absolute(self, node: ast.Call, function: Callable) -> str:
        (code,) = self._operands(node)
        return self.convert(f"absolute({code})", types.none, self.typing.of[node])

    def _rounded(self, node: ast.Call, function: Callable) -> str:
        codes = self._operands(node)
        return f"int64(rint({codes[0]}))" if len(codes) == 1 else f"rint({codes[0]}, {codes[1]})"

    def _power(self, node: ast.Call, function: Callable) -> str:
        codes, kind = self._operands(node), self.typing.of[node]
        self._count(function, kind)
        return self.power(*codes, self.typing.operands[node][1], kind)

    def _length(self, node: ast.Call, function: Callable) -> str:
        kind = self.typing.of[node.args[0]]
        code = self.expression(node.args[0])
        if isinstance(kind, types.NumpyFlatType):
            return f"{code}.size"
        return f"{code}.shape[0]" if isinstance(kind, types.Array) else str(len(kind))

    def _itself(self, node: ast.Call, function: Callable | str) -> str:
        return self.expression(node.args[0])

    def _total(self, node: ast.Call, array: ast.expr, name: str) -> str:
        kind = self.typing.of[node]
        heading, site = operators.group_of(kind), self.site(node, ast.unparse(array))
        convert = operators.name_of(kind)
        code = self.expression(array)
        return self.operation("reduced", repr(name), code, convert, repr(heading), site)

    def _ufunc(self, node: ast.Call, function: np.ufunc) -> str:
        typing, count = self.typing, function.nin
        kinds = typing.operands[node]
        run = self.constant(
            Made(operators.library, (function, dtype_of(kinds[count]))),
            f"{function.__name__} of {kinds[:count]}",
        )
        inputs = []
        for argument, kind in zip(node.args, kinds[:count], strict=False):
            if isinstance(typing.of[argument], types.Array):
                inputs.append(f"({operators.name_of(kind)}, {self.expression(argument)})")
            else:
                inputs.append(f"(None, {self.operand(argument, kind)})")
        out = node.args[count]
        convert = operators.name_of(typing.of[out].dtype)
        return self.operation("ufunc", run, self.expression(out), convert, self.site(node), *inputs)

    def _complex(self, node: ast.Call, function: Callable) -> str:
        codes = self._operands(node)
        if len(codes) == 1:
            return codes[0]
        return f"complex_of({codes[0]}, {codes[1]}, {dtype_of(self.typing.of[node]).name!r})"

    def _extremum(self, node: ast.Call, function: Callable) -> str:
        """Code of ``min`` and ``max``, of numbers or of the elements of a tuple."""
        typing = self.typing
        kind, given = typing.of[node], [typing.of[argument] for argument in node.args]
        if len(given) > 1:
            codes = self._operands(node)
            self._count(function, kind)
            return _folded(_extreme(function, kind, list(map(plain, given))), codes)
        value, parts = self.temporary("value"), list(given[0])
        codes = [self.convert(f"{value}[{n}]", part, kind) for n, part in enumerate(parts)]
        code = _folded(_extreme(function, kind, parts), codes)
        return f"(lambda {value}: {code})({self.expression(node.args[0])})"

    def _sum(self, node: ast.Call, function: Callable) -> str:
        kind, parts = self.typing.of[node], self.typing.of[node.args[0]]
        value, convert = self.temporary("value"), operators.name_of(kind)
        code = f"{convert}(0)"
        for number, part in enumerate(parts):
            code = f"{convert}({code} + {self.convert(f'{value}[{number}]', part, kind)})"
        return f"(lambda {value}: {code})({self.expression(node.args[0])})"

    def _method(self, node: ast.Call) -> str:
        name, owner = node.func.attr, node.func.value
        kind = self.typing.of[owner]
        if kind == GRID_GROUP:
            self.cooperative = True
            return self.operation("grid_sync", self.site(node))
        if name == "bit_count":
            return f"popc({self.operand(owner, kind)}, 64)"
        code = self.expression(owner)
        if name == "item":
            return code
        if name in REDUCTIONS.values():
            return self._total(node, owner, name)
        if name == "conjugate":
            return f"({code}).conjugate()"
        site = self.site(node)
        if name == "view":
            dtype = dtype_of(self.typing.of[node].dtype)
            return self.operation("view_as", code, self.constant(dtype, dtype.name), site)
        if name == "transpose":
            return f"{code}.transposed"
        if name == "fill":
            site = self.site(node, ast.unparse(owner))
            given = node.args[0]
            value = self.stored(self.expression(given), self.typing.of[given], kind.dtype)
            return self.operation("store_all", code, value, site, None)
        if name == "copy":
            made = self.site(node, assigned_name(self.source, node) or ast.unparse(node))
            return self.operation("copied", code, made)
        shape = [self.expression(argument) for argument in node.args]
        whole = isinstance(self.typing.of[node.args[0]], types.BaseTuple)
        return self.operation("reshape", code, shape[0] if whole else spelled_tuple(shape), site)

    def _count(self, function, kind: types.Type) -> None:
        if isinstance(kind, types.Float) and function not in _CHEAP:
            self.count("special", not isinstance(function, type))
            self.count("in double", operators.group_of(kind) == "float64")

    def _device(self, node: ast.Call) -> str:
        function, arguments, result, itself = self.typing.callees[node]
        called = function.py_func.__name__
        name = called if called.isidentifier() else "lambda_"
        self.count(f"call {called}")
        codes = list(map(self.operand, node.args, arguments))
        if itself:  # its places are the same
            code = self.operation("again", self.own_name, *codes)
            return self.convert(code, result, self.typing.of[node])
        callee = self.source.outside_name(node.func, function)
        self.keeps &= callee is not None
        callee = callee or function
        name = self.outside(name, (callee, arguments))
        base = self.temporary("base")
        self.calls.append((name, base, callee, arguments))
        here, there = self.source.function.__module__, function.py_func.__module__
        line = self.source.line(node)
        site = self.site(node, code=self.source.code(line)) if here != there else None
        code = self.operation("call", name, base, site, *codes)
        return self.convert(code, result, self.typing.of[node])

    def _print(self, node: ast.Call, function: Callable) -> str:
        forms = [_format_of(self.typing.of[argument]) for argument in node.args]
        if len(node.args) > MOST_PRINTED:
            warn(
                NumbaWarning(
                    "CUDA print() cannot print more than 32 items. The raw format string will be "
                    "emitted by the kernel instead."
                ),
                stacklevel=2,
            )
            self.keeps = False  # the next one is warned, too
            raw = " ".join(forms).replace("%d", "%lld").replace("%", "%%")
            return self.operation("print", f"({raw!r}, ())")
        parts = [f"({form!r}, {self.expression(one)})" for form, one in zip(forms, node.args)]
        return self.operation("print", *parts)

    # ---------------------------------------------------------------------- names of CUDA
    def _of_cuda(self, node: ast.Call, path: str) -> str:
        if path in VECTORS:
            return vector_code(self, node, path)
        write = self._CUDA.get(path) or self._GROUPS.get(path.partition(".")[0])
        if write is not None:
            return write(self, node, path)
        return self.operation(path, *self._operands(node), self.site(node))

    def _instruction(self, node: ast.Call, path: str) -> str:
        return INSTRUCTIONS[path.removeprefix("pieces.")].code_of_call(self, node)

    def _this_grid(self, node: ast.Call, name: str) -> str:
        self.cooperative = True
        return "0"

    def _grid(self, node: ast.Call, name: str) -> str:
        return self.operation(name, self.expression(node.args[0]))

    def _own_array(self, node: ast.Call, path: str) -> str:
        sizes = self.typing.shapes[node]
        (dtype,) = self.typing.operands[node]
        site = self.site(node, assigned_name(self.source, node) or ast.unparse(node))
        dtype = dtype_of(dtype)
        kind = repr(dtype.name) if dtype.names is None else self.constant(dtype, ast.unparse(node))
        named = {keyword.arg: self.source.static(keyword.value) for keyword in node.keywords}
        more = [named["alignment"]] if type(named.get("alignment")) is int else []
        return self.operation(path.replace(".", "_"), sizes, kind, site, *more)

    def _named(self, node: ast.Call, path: str) -> str:
        codes = self._operands(node)
        _, heading, amount = _about(path)
        if heading is not None:
            self.count(heading, amount)
        name = self.outside(path.replace(".", "_"), Made(run_of, (path,)))
        return f"{name}({', '.join(codes)})"

    def _of_bits(self, node: ast.Call, name: str) -> str:
        (code,) = self._operands(node)
        kind, bits = self.typing.of[node], self.typing.operands[node][0].bitwidth
        code = f"{name}({code}, {bits})"
        return f"{operators.name_of(kind)}({code})" if name == "brev" and kind.signed else code

    def _arithmetic(self, node: ast.Call, name: str) -> str:
        codes, group = self._operands(node), operators.group_of(self.typing.of[node])
        if name == "fma":
            self.count(group, 2)
            self.count("in double", 2 * (group == "float64"))
        elif name == "cbrt":
            self.count("special")
            return self._library(node, codes, np.cbrt)
        return f"{name}({', '.join(codes)})"

    def _atomic(self, node: ast.Call, path: str) -> str:
        typing, name = self.typing, path.removeprefix("atomic.")
        array = self.expression(node.args[0])
        if name == "compare_and_swap":
            index, values = "(0,)", node.args[1:]
        else:
            place, values = node.args[1], node.args[2:]
            if isinstance(typing.of[place], types.BaseTuple):
                index = self.whole_index(place)
            else:
                index = f"({self.index_part(self.expression(place), typing.of[place])},)"
        codes = list(map(self.operand, values, typing.operands[node]))
        used = not isinstance(self.here, ast.Expr) or self.here.value is not node
        site = self.site(node, ast.unparse(node.args[0]))
        name = "cas" if name == "compare_and_swap" else name
        return self.operation("atomic", repr(name), array, index, site, used, *codes)

    #: What writes the call of a function; of any other it is `_library`.
    _FUNCTIONS: dict[Any, Callable] = {
        print: _print, len: _length, tuple: _itself, sum: _sum, min: _extremum, max: _extremum,
        complex: _complex, abs: _absolute, round: _rounded, pow: _power,
    }  # fmt: skip
    #: The same for CUDA's names, and for all below one; any other is an operation of the threads.
    _CUDA: dict[str, Callable] = {
        "cg.this_grid": _this_grid, "grid": _grid, "gridsize": _grid, "shared.array": _own_array,
        "local.array": _own_array, "const.array_like": _itself,
        **dict.fromkeys(("popc", "clz", "ffs", "brev"), _of_bits),
        **dict.fromkeys(("fma", "cbrt", "selp"), _arithmetic),
    }  # fmt: skip
    _GROUPS: dict[str, Callable] = {
        "pieces": _instruction, "atomic": _atomic, "fp16": _named, "libdevice": _named,
    }  # fmt: skip


def _folded(name: str, codes: list[str]) -> str:
    return reduce(lambda code, other: f"{name}({code}, {other})", codes)


def _extreme(function, kind: types.Type, given: list[types.Type]) -> str:
    """Which operation min or max is: that of two floats leaves NaN out, of others it compares."""
    floats = len(given) == 2 and set(given) <= {types.float32, types.float64}
    if floats or isinstance(kind, types.Integer):
        return "minimum" if function is min else "maximum"
    return "smaller" if function is min else "larger"


def _format_of(kind: types.Type) -> str:
    """How CUDA's printf shows a value: integers whole, floats with six decimals."""
    if isinstance(kind, types.BaseTuple):
        inner = ", ".join(_format_of(part) for part in kind)
        return f"({inner},)" if len(kind) == 1 else f"({inner})"
    if isinstance(kind, types.StringLiteral | types.Boolean):
        return "%s"
    return "%d" if isinstance(kind, types.Integer) else "%f"


def run_of(path: str) -> Callable:
    """A function of ``cuda.fp16`` or ``libdevice``, of lanes."""
    return _about(path)[0]


def _about(path: str) -> tuple[Callable, str | None, int]:
    group, _, name = path.partition(".")
    return FUNCTIONS[name] if group == "fp16" else (*runs(name), 1)
