"""Code of calls in a lane program."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Hashable
from functools import reduce
from typing import TYPE_CHECKING, Any
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
from warpsim.front.allocations import assigned_name, is_carray
from warpsim.front.cuda_names import GRID_GROUP
from warpsim.front.elementwise import REDUCTIONS, total_code, ufunc_code
from warpsim.front.names import MISSING, KernelName
from warpsim.front.nodes import walk
from warpsim.front.numba_typing import dtype_of, plain
from warpsim.ptx.instruction import INSTRUCTIONS

if TYPE_CHECKING:
    from warpsim.code.emit import Emitter

_PURE_CALLS = {"min", "max", "abs", "int", "float", "bool", "len"}
_CHEAP = {abs, min, max, round, math.floor, math.ceil, math.fabs, math.trunc, math.copysign}


def is_pure(node: ast.AST) -> bool:
    """True if evaluating the expression on idle lanes does no harm and is not counted."""
    for child in walk(node):
        if isinstance(child, ast.Subscript):
            if not (isinstance(child.value, ast.Attribute) and child.value.attr == "shape"):
                return False
        elif isinstance(child, ast.Call):
            if not (isinstance(child.func, ast.Name) and child.func.id in _PURE_CALLS):
                return False
        elif isinstance(child, ast.BinOp) and isinstance(
            child.op, ast.Div | ast.Mod | ast.FloorDiv | ast.Pow
        ):
            return False
    return True


def emit_call(emitter: Emitter, node: ast.Call) -> str:
    """Code of one call, its operands converted as Numba converts them."""
    typing = emitter.typing
    function = typing.functions.get(node, MISSING)
    if function is MISSING:
        function = emitter.source.static(node.func)
    if isinstance(function, KernelName):
        return _of_cuda(emitter, node, function.path)
    if isinstance(node.func, ast.Attribute) and typing.of.get(node.func.value) == GRID_GROUP:
        emitter.cooperative = True
        return emitter.operation("grid_sync", emitter.site(node))
    if node in typing.callees:
        return _device(emitter, node)
    if function is MISSING:
        return _method(emitter, node)
    known = _FUNCTIONS.get(function) if isinstance(function, Hashable) else None
    if known is not None:
        return known(emitter, node, function)
    if isinstance(typing.of[node], types.BaseNamedTuple):
        return spelled_tuple([emitter.expression(argument) for argument in node.args])
    if isinstance(function, np.ufunc) and isinstance(typing.of[node], types.Array):
        return ufunc_code(emitter, node, function)
    if is_carray(function):
        return _array_at(emitter, node, function)
    codes = _operands(emitter, node)
    if operators.is_cast(function):
        return codes[0]
    _count(emitter, function, typing.of[node])
    return _library(emitter, node, codes, function)


def _operands(emitter: Emitter, node: ast.Call) -> list[str]:
    return list(map(emitter.operand, node.args, emitter.typing.operands[node]))


def _library(emitter: Emitter, node: ast.Call, codes: list[str], function: Callable) -> str:
    """Code of a function of ``math`` or NumPy."""
    kind, name = emitter.typing.of[node], function.__name__
    key = f"{name}_" if name in emitter.namespace else name
    if isinstance(kind, types.BaseTuple):
        parts = tuple(dtype_of(part) for part in kind)
        emitter.namespace[key] = Made(operators.library_pair, (function, parts))
    else:
        emitter.namespace[key] = Made(operators.library, (function, dtype_of(kind)))
    return f"{key}({', '.join(codes)})"


# ---------------------------------------------------------------------- of some functions
def _absolute(emitter: Emitter, node: ast.Call, function: Callable) -> str:
    (code,) = _operands(emitter, node)
    return emitter.convert(f"absolute({code})", types.none, emitter.typing.of[node])


def _rounded(emitter: Emitter, node: ast.Call, function: Callable) -> str:
    codes = _operands(emitter, node)
    return f"int64(rint({codes[0]}))" if len(codes) == 1 else f"rint({codes[0]}, {codes[1]})"


def _power(emitter: Emitter, node: ast.Call, function: Callable) -> str:
    codes, kind = _operands(emitter, node), emitter.typing.of[node]
    _count(emitter, function, kind)
    return emitter.power(*codes, emitter.typing.operands[node][1], kind)


def _length(emitter: Emitter, node: ast.Call, function: Callable) -> str:
    kind = emitter.typing.of[node.args[0]]
    code = emitter.expression(node.args[0])
    if isinstance(kind, types.NumpyFlatType):
        return f"{code}.size"
    return f"{code}.shape[0]" if isinstance(kind, types.Array) else str(len(kind))


def _itself(emitter: Emitter, node: ast.Call, function: Callable | str) -> str:
    return emitter.expression(node.args[0])


def _total(emitter: Emitter, node: ast.Call, function: Callable) -> str:
    return total_code(emitter, node, node.args[0], REDUCTIONS[function])


def _array_at(emitter: Emitter, node: ast.Call, function: Callable) -> str:
    kind = emitter.typing.of[node]
    codes = [emitter.expression(part) for part in emitter.typing.operands[node]][:2]
    dtype = emitter.constant(dtype_of(kind.dtype), str(kind.dtype))
    site, fortran = emitter.site(node), function.__name__ == "farray"
    name = assigned_name(emitter.source, node) or function.__name__
    return emitter.operation("array_at", *codes, dtype, fortran, repr(name), site)


def _complex(emitter: Emitter, node: ast.Call, function: Callable) -> str:
    codes = _operands(emitter, node)
    if len(codes) == 1:
        return codes[0]
    return f"complex_of({codes[0]}, {codes[1]}, {dtype_of(emitter.typing.of[node]).name!r})"


def _extremum(emitter: Emitter, node: ast.Call, function: Callable) -> str:
    """Code of ``min`` and ``max``: of numbers, of the elements of a tuple or of an array."""
    typing = emitter.typing
    kind, given = typing.of[node], [typing.of[argument] for argument in node.args]
    if isinstance(given[0], types.Array):
        return total_code(emitter, node, node.args[0], function.__name__)
    if len(given) > 1:
        codes = _operands(emitter, node)
        _count(emitter, function, kind)
        return _folded(_extreme(function, kind, list(map(plain, given))), codes)
    value, parts = emitter.temporary("value"), list(given[0])
    codes = [emitter.convert(f"{value}[{n}]", part, kind) for n, part in enumerate(parts)]
    code = _folded(_extreme(function, kind, parts), codes)
    return f"(lambda {value}: {code})({emitter.expression(node.args[0])})"


def _folded(name: str, codes: list[str]) -> str:
    return reduce(lambda code, other: f"{name}({code}, {other})", codes)


def _extreme(function, kind: types.Type, given: list[types.Type]) -> str:
    """Which operation min or max is: that of two floats leaves NaN out, of others it compares."""
    floats = len(given) == 2 and set(given) <= {types.float32, types.float64}
    if floats or isinstance(kind, types.Integer):
        return "minimum" if function is min else "maximum"
    return "smaller" if function is min else "larger"


def _sum(emitter: Emitter, node: ast.Call, function: Callable) -> str:
    """Code of ``sum``, of a tuple or an array."""
    kind, parts = emitter.typing.of[node], emitter.typing.of[node.args[0]]
    if isinstance(parts, types.Array):
        return total_code(emitter, node, node.args[0], "sum")
    value, convert = emitter.temporary("value"), operators.name_of(kind)
    code = f"{convert}(0)"
    for number, part in enumerate(parts):
        code = f"{convert}({code} + {emitter.convert(f'{value}[{number}]', part, kind)})"
    return f"(lambda {value}: {code})({emitter.expression(node.args[0])})"


def _method(emitter: Emitter, node: ast.Call) -> str:
    """Code of a method of a number or an array."""
    name, owner = node.func.attr, node.func.value
    kind = emitter.typing.of[owner]
    if name == "bit_count":
        return f"popc({emitter.operand(owner, kind)}, 64)"
    code = emitter.expression(owner)
    if name == "item":
        return code
    if name in REDUCTIONS.values():
        return total_code(emitter, node, owner, name)
    if name == "conjugate":
        return f"conjugate({code})"
    site = emitter.site(node)
    if name == "view":
        dtype = dtype_of(emitter.typing.of[node].dtype)
        return emitter.operation("view_as", code, emitter.constant(dtype, dtype.name), site)
    if name == "transpose":
        return f"{code}.transposed"
    if name == "fill":
        site = emitter.site(node, ast.unparse(owner))
        value = emitter.operand(node.args[0], kind.dtype)
        return emitter.operation("store_all", code, value, site, None)
    if name == "copy":
        made = emitter.site(node, assigned_name(emitter.source, node) or ast.unparse(node))
        return emitter.operation("copied", code, made)
    shape = [emitter.expression(argument) for argument in node.args]
    whole = isinstance(emitter.typing.of[node.args[0]], types.BaseTuple)
    return emitter.operation("reshape", code, shape[0] if whole else spelled_tuple(shape), site)


def _count(emitter: Emitter, function, kind: types.Type) -> None:
    if isinstance(kind, types.Float) and function not in _CHEAP:
        emitter.count("special", not isinstance(function, type))
        emitter.count("in double", operators.group_of(kind) == "float64")


def _device(emitter: Emitter, node: ast.Call) -> str:
    function, arguments = emitter.typing.callees[node]
    program = emitter.program_of(function, arguments, emitter.traced, emitter.costs)
    name = program.name
    emitter.count(f"call {function.py_func.__name__}")
    codes = list(map(emitter.operand, node.args, arguments))
    if program.run is None:  # the function itself: its places are the same
        code = emitter.operation("again", name, *codes)
        return emitter.convert(code, program.result, emitter.typing.of[node])
    callee = emitter.outside_name(node.func, function)
    # another function of this name, or a variable of the caller
    taken = name == emitter.source.name or name in emitter.names.values()
    if taken or emitter.namespace.setdefault(name, (callee, arguments)) != (callee, arguments):
        name = emitter.temporary(f"{name}_")
    base = emitter.temporary("base")
    emitter.calls.append((name, base, callee, arguments))
    here, there = emitter.source.function.__module__, function.py_func.__module__
    line = emitter.source.line(node)
    site = emitter.site(node, code=emitter.source.code(line)) if here != there else None
    code = emitter.operation("call", name, base, site, *codes)
    return emitter.convert(code, program.result, emitter.typing.of[node])


#: More values than CUDA's printf takes. Source: numba.cuda.printimpl of 0.30.4.
MOST_PRINTED = 32


def _print(emitter: Emitter, node: ast.Call, function: Callable) -> str:
    if len(node.args) > MOST_PRINTED:
        warn(
            NumbaWarning(
                "CUDA print() cannot print more than 32 items. The raw format string will be "
                "emitted by the kernel instead."
            ),
            stacklevel=2,
        )
        emitter.keeps = False  # the next one is warned, too
        forms = [_format_of(emitter.typing.of[argument]) for argument in node.args]
        raw = " ".join(forms).replace("%d", "%lld").replace("%", "%%")
        return emitter.operation("print", f"({raw!r}, ())")
    parts = []
    for argument in node.args:
        kind = emitter.typing.of[argument]
        parts.append(f"({_format_of(kind)!r}, {emitter.expression(argument)})")
    return emitter.operation("print", *parts)


def _format_of(kind: types.Type) -> str:
    """How CUDA's printf shows a value: integers whole, floats with six decimals."""
    if isinstance(kind, types.BaseTuple):
        inner = ", ".join(_format_of(part) for part in kind)
        return f"({inner},)" if len(kind) == 1 else f"({inner})"
    if isinstance(kind, types.StringLiteral | types.Boolean):
        return "%s"
    return "%d" if isinstance(kind, types.Integer) else "%f"


# ---------------------------------------------------------------------- names of CUDA
def _of_cuda(emitter: Emitter, node: ast.Call, path: str) -> str:
    """Code of a call of CUDA's own."""
    if path in VECTORS:
        return vector_code(emitter, node, path)
    write = _CUDA.get(path) or _GROUPS.get(path.partition(".")[0])
    if write is not None:
        return write(emitter, node, path)
    return emitter.operation(path, *_operands(emitter, node), emitter.site(node))


def _instruction(emitter: Emitter, node: ast.Call, path: str) -> str:
    return INSTRUCTIONS[path.removeprefix("pieces.")].code_of_call(emitter, node)


def _this_grid(emitter: Emitter, node: ast.Call, name: str) -> str:
    emitter.cooperative = True
    return "0"


def _grid(emitter: Emitter, node: ast.Call, name: str) -> str:
    return emitter.operation(name, emitter.expression(node.args[0]))


def _own_array(emitter: Emitter, node: ast.Call, path: str) -> str:
    """Code of an array that a block or a thread has for itself."""
    sizes = emitter.typing.shapes[node]
    (dtype,) = emitter.typing.operands[node]
    site = emitter.site(node, assigned_name(emitter.source, node) or ast.unparse(node))
    kind = emitter.element_type(dtype, ast.unparse(node))
    named = {keyword.arg: emitter.source.static(keyword.value) for keyword in node.keywords}
    more = [named["alignment"]] if type(named.get("alignment")) is int else []
    return emitter.operation(path.replace(".", "_"), sizes, kind, site, *more)


def _named(emitter: Emitter, node: ast.Call, path: str) -> str:
    codes, name = _operands(emitter, node), path.replace(".", "_")
    _, heading, amount = _about(path)
    if heading is not None:
        emitter.count(heading, amount)
    emitter.namespace[name] = Made(run_of, (path,))
    return f"{name}({', '.join(codes)})"


def run_of(path: str) -> Callable:
    """A function of ``cuda.fp16`` or ``libdevice``, of lanes."""
    return _about(path)[0]


def _about(path: str) -> tuple[Callable, str | None, int]:
    group, _, name = path.partition(".")
    return FUNCTIONS[name] if group == "fp16" else (*runs(name), 1)


def _of_bits(emitter: Emitter, node: ast.Call, name: str) -> str:
    (code,) = _operands(emitter, node)
    kind, bits = emitter.typing.of[node], emitter.typing.operands[node][0].bitwidth
    code = f"{name}({code}, {bits})"
    return f"{operators.name_of(kind)}({code})" if name == "brev" and kind.signed else code


def _arithmetic(emitter: Emitter, node: ast.Call, name: str) -> str:
    codes, group = _operands(emitter, node), operators.group_of(emitter.typing.of[node])
    if name == "fma":
        emitter.count(group, 2)
        emitter.count("in double", 2 * (group == "float64"))
    elif name == "cbrt":
        emitter.count("special")
    return f"{name}({', '.join(codes)})"


def _atomic(emitter: Emitter, node: ast.Call, path: str) -> str:
    typing, name = emitter.typing, path.removeprefix("atomic.")
    array = emitter.expression(node.args[0])
    if name == "compare_and_swap":
        index, values = "(0,)", node.args[1:]
    else:
        kind = plain(typing.of[node.args[1]])
        if isinstance(kind, types.BaseTuple):
            index = emitter.whole_index(node.args[1])
        else:
            index = f"({emitter.index_part(emitter.expression(node.args[1]), kind)},)"
        values = node.args[2:]
    codes = list(map(emitter.operand, values, typing.operands[node]))
    used = not any(
        isinstance(statement, ast.Expr) and statement.value is node
        for statement in walk(emitter.source.tree)
    )
    site = emitter.site(node, ast.unparse(node.args[0]))
    name = "cas" if name == "compare_and_swap" else name
    return emitter.operation("atomic", repr(name), array, index, site, used, *codes)


_Code = Callable[["Emitter", ast.Call, Any], str]
#: What writes the call of a function; of any other it is `_library`.
_FUNCTIONS: dict[Any, _Code] = {
    print: _print, len: _length, tuple: _itself, sum: _sum, min: _extremum, max: _extremum,
    complex: _complex, abs: _absolute, round: _rounded, pow: _power,
    **dict.fromkeys(REDUCTIONS, _total),
}  # fmt: skip
#: The same for CUDA's names, and for all below one; any other is an operation of the threads.
_CUDA: dict[str, _Code] = {
    "cg.this_grid": _this_grid, "grid": _grid, "gridsize": _grid, "shared.array": _own_array,
    "local.array": _own_array, "const.array_like": _itself,
    **dict.fromkeys(("popc", "clz", "ffs", "brev"), _of_bits),
    **dict.fromkeys(("fma", "cbrt", "selp"), _arithmetic),
}  # fmt: skip
_GROUPS: dict[str, _Code] = {
    "pieces": _instruction, "atomic": _atomic, "fp16": _named, "libdevice": _named,
}  # fmt: skip
