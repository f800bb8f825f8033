"""Code of calls in a lane program."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING
from warnings import warn

import numpy as np
from numba import types
from numba.core.errors import NumbaWarning

from warpsim.code.accesses import spelled_tuple
from warpsim.core import operators
from warpsim.core.fp16 import FUNCTIONS
from warpsim.core.libdevice import runs
from warpsim.core.number_types import VECTORS, vector_code
from warpsim.front.allocations import assigned_name, is_carray
from warpsim.front.cuda_names import GRID_GROUP
from warpsim.front.elementwise import REDUCTIONS, is_reduction, total_code, ufunc_code
from warpsim.front.names import MISSING, KernelName
from warpsim.front.nodes import walk
from warpsim.front.numba_typing import dtype_of, plain
from warpsim.ptx.instruction_types import piece_code

if TYPE_CHECKING:
    from warpsim.code.emit import Emitter

_PURE_CALLS = {"min", "max", "abs", "int", "float", "bool", "len"}
_CHEAP = {abs, min, max, round, math.floor, math.ceil, math.fabs, math.trunc, math.copysign}


def is_pure(node: ast.AST) -> bool:
    """True if evaluating the expression on idle lanes does no harm and is not counted."""
    for child in walk(node):
        if isinstance(child, ast.Subscript):
            shape = isinstance(child.value, ast.Attribute) and child.value.attr == "shape"
            if not shape:
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
        return _intrinsic(emitter, node, function.path)
    if isinstance(node.func, ast.Attribute) and typing.of.get(node.func.value) == GRID_GROUP:
        emitter.cooperative = True
        return f"T.grid_sync({emitter.site(node)})"
    if node in typing.callees:
        return _device(emitter, node)
    if function is print:
        return _print(emitter, node)
    if function is len:
        kind = typing.of[node.args[0]]
        code = emitter.expression(node.args[0])
        if isinstance(kind, types.NumpyFlatType):
            return f"{code}.size"
        return f"{code}.shape[0]" if isinstance(kind, types.Array) else str(len(kind))
    if function is tuple:
        return emitter.expression(node.args[0])
    if function is MISSING:
        return _method(emitter, node)
    if isinstance(typing.of[node], types.BaseNamedTuple):
        return spelled_tuple([emitter.expression(argument) for argument in node.args])
    if function is sum and not isinstance(typing.of[node.args[0]], types.Array):
        return _sum_of_tuple(emitter, node)
    if function is sum or is_reduction(function):
        return total_code(emitter, node, node.args[0], REDUCTIONS.get(function, "sum"))
    if isinstance(function, np.ufunc) and isinstance(typing.of[node], types.Array):
        return ufunc_code(emitter, node, function)
    operands = typing.operands[node]
    if is_carray(function):
        kind, codes = typing.of[node], [emitter.expression(part) for part in operands]
        dtype = emitter.constant(dtype_of(kind.dtype), str(kind.dtype))
        site, fortran = emitter.site(node), function.__name__ == "farray"
        name = assigned_name(emitter.source.tree, node) or function.__name__
        return f"T.array_at({codes[0]}, {codes[1]}, {dtype}, {fortran}, {name!r}, {site})"
    if function in (min, max) and isinstance(typing.of[node.args[0]], types.Array):
        return total_code(emitter, node, node.args[0], function.__name__)
    if function in (min, max) and len(node.args) == 1:
        return _extreme_of_tuple(emitter, node, function)
    codes = [emitter.operand(a, k) for a, k in zip(node.args, operands, strict=True)]
    kind = typing.of[node]
    if function is complex and len(codes) == 2:
        return f"complex_of({codes[0]}, {codes[1]}, {dtype_of(kind).name!r})"
    if operators.is_cast(function):
        return codes[0]
    _count(emitter, function, kind)
    if function in (min, max):
        name = _extreme(function, kind, [plain(typing.of[argument]) for argument in node.args])
        code = codes[0]
        for other in codes[1:]:
            code = f"{name}({code}, {other})"
        return code
    if function is abs:
        return emitter.convert(f"absolute({codes[0]})", types.none, kind)
    if function is round:
        if len(codes) == 1:
            return f"int64(rint({codes[0]}))"
        return f"rint({codes[0]}, {codes[1]})"
    if function is pow:
        return emitter.power(*codes, operands[1], kind)
    name = function.__name__
    key = f"{name}_" if name in emitter.namespace else name
    if isinstance(kind, types.BaseTuple):
        parts = tuple(dtype_of(part) for part in kind)
        emitter.namespace[key] = operators.library_pair(function, parts)
    else:
        emitter.namespace[key] = operators.library(function, dtype_of(kind))
    return f"{key}({', '.join(codes)})"


def _extreme(function, kind: types.Type, given: list[types.Type]) -> str:
    """Which operation min or max is: that of two floats leaves NaN out, of others it compares."""
    floats = len(given) == 2 and set(given) <= {types.float32, types.float64}
    if floats or isinstance(kind, types.Integer):
        return "minimum" if function is min else "maximum"
    return "smaller" if function is min else "larger"


def _extreme_of_tuple(emitter: Emitter, node: ast.Call, function) -> str:
    """Code of ``min(t)`` and ``max(t)``."""
    kind, parts = emitter.typing.of[node], list(emitter.typing.of[node.args[0]])
    name = _extreme(function, kind, parts)
    value, code = emitter.temporary("value"), ""
    for number, part in enumerate(parts):
        one = emitter.convert(f"{value}[{number}]", part, kind)
        code = f"{name}({code}, {one})" if code else one
    return f"(lambda {value}: {code})({emitter.expression(node.args[0])})"


def _sum_of_tuple(emitter: Emitter, node: ast.Call) -> str:
    kind, parts = emitter.typing.of[node], emitter.typing.of[node.args[0]]
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
        return f"T.view_as({code}, {emitter.constant(dtype, dtype.name)}, {site})"
    if name == "transpose":
        return f"{code}.transposed"
    if name == "fill":
        site = emitter.site(node, ast.unparse(owner))
        return f"T.store_all({code}, {emitter.operand(node.args[0], kind.dtype)}, {site}, None)"
    if name == "copy":
        made = emitter.site(node, assigned_name(emitter.source.tree, node) or ast.unparse(node))
        return f"T.copied({code}, {made})"
    shape = [emitter.expression(argument) for argument in node.args]
    whole = isinstance(emitter.typing.of[node.args[0]], types.BaseTuple)
    return f"T.reshape({code}, {shape[0] if whole else spelled_tuple(shape)}, {site})"


def _count(emitter: Emitter, function, kind: types.Type) -> None:
    if isinstance(kind, types.Float):
        emitter.count("special", function not in _CHEAP and not isinstance(function, type))
        if operators.group_of(kind) == "float64":
            emitter.count("in double", function not in _CHEAP)


def _device(emitter: Emitter, node: ast.Call) -> str:
    function, arguments = emitter.typing.callees[node]
    program = emitter.program_of(function, arguments, emitter.traced)
    name = program.name
    codes = [emitter.operand(a, k) for a, k in zip(node.args, arguments, strict=True)]
    if program.run is None:  # the function itself: its places are the same
        code = f"T.again({', '.join([name, *codes])})"
        return emitter.convert(code, program.result, emitter.typing.of[node])
    # another function of this name, or a variable of the caller
    taken = name == emitter.source.name or name in emitter.names.values()
    if taken or emitter.namespace.setdefault(name, program.run) is not program.run:
        name = emitter.temporary(f"{name}_")
        emitter.namespace[name] = program.run
    base = len(emitter.sites)
    emitter.sites.extend(program.sites)
    emitter.cooperative |= program.cooperative
    emitter.turns |= program.turns
    emitter.locks |= program.locks
    here, there = emitter.source.function.__module__, function.py_func.__module__
    line = emitter.source.line(node)
    site = emitter.site(node, code=emitter.source.code(line)) if here != there else None
    code = f"T.call({', '.join([name, str(base), str(site), *codes])})"
    return emitter.convert(code, program.result, emitter.typing.of[node])


#: More values than CUDA's printf takes. Source: numba.cuda.printimpl of 0.30.4.
MOST_PRINTED = 32


def _print(emitter: Emitter, node: ast.Call) -> str:
    if len(node.args) > MOST_PRINTED:
        warn(
            NumbaWarning(
                "CUDA print() cannot print more than 32 items. The raw format string will be "
                "emitted by the kernel instead."
            ),
            stacklevel=2,
        )
        forms = [_format_of(emitter.typing.of[argument]) for argument in node.args]
        raw = " ".join(forms).replace("%d", "%lld").replace("%", "%%")
        return f"T.print(({raw!r}, ()))"
    parts = []
    for argument in node.args:
        kind = emitter.typing.of[argument]
        parts.append(f"({_format_of(kind)!r}, {emitter.expression(argument)})")
    return f"T.print({', '.join(parts)})"


def _format_of(kind: types.Type) -> str:
    """How CUDA's printf shows a value: integers whole, floats with six decimals."""
    if isinstance(kind, types.BaseTuple):
        inner = ", ".join(_format_of(part) for part in kind)
        return f"({inner},)" if len(kind) == 1 else f"({inner})"
    if isinstance(kind, types.StringLiteral | types.Boolean):
        return "%s"
    return "%d" if isinstance(kind, types.Integer) else "%f"


def _intrinsic(emitter: Emitter, node: ast.Call, path: str) -> str:
    typing = emitter.typing
    if path in VECTORS:
        return vector_code(emitter, node, path)
    if path.startswith("pieces."):
        return piece_code(emitter, node, path[7:])
    if path == "cg.this_grid":
        emitter.cooperative = True
        return "0"
    if path in ("grid", "gridsize"):
        return f"T.{path}({emitter.expression(node.args[0])})"
    if path in ("shared.array", "local.array"):
        sizes = typing.shapes[node]
        (dtype,) = typing.operands[node]
        name = assigned_name(emitter.source.tree, node) or ast.unparse(node)
        site = emitter.site(node, name)
        kind = emitter.element_type(dtype, ast.unparse(node))
        named = {keyword.arg: emitter.source.static(keyword.value) for keyword in node.keywords}
        more = f", {named['alignment']}" if type(named.get("alignment")) is int else ""
        return f"T.{path[:-6]}_array({sizes}, {kind}, {site}{more})"
    if path == "const.array_like":
        return emitter.expression(node.args[0])
    if path.startswith("atomic."):
        return _atomic(emitter, node, path[7:])
    codes = [
        emitter.operand(argument, kind)
        for argument, kind in zip(node.args, typing.operands[node], strict=True)
    ]
    if path.startswith("fp16."):
        run, heading, amount = FUNCTIONS[path[5:]]
        emitter.count(heading, amount)
        name = path.replace(".", "_")
        emitter.namespace[name] = run
        return f"{name}({', '.join(codes)})"
    if path.startswith("libdevice."):
        run, heading = runs(path[10:])
        if heading is not None:
            emitter.count(heading)
        name = path.replace(".", "_")
        emitter.namespace[name] = run
        return f"{name}({', '.join(codes)})"
    if path in ("popc", "clz", "ffs", "brev"):
        bits = typing.operands[node][0].bitwidth
        return f"{path}({codes[0]}, {bits})"
    if path in ("fma", "cbrt", "selp"):
        if path == "fma":
            emitter.count(operators.group_of(typing.of[node]), 2)
            if operators.group_of(typing.of[node]) == "float64":
                emitter.count("in double", 2)
        elif path == "cbrt":
            emitter.count("special")
        return f"{path}({', '.join(codes)})"
    codes.append(str(emitter.site(node)))
    return f"T.{path}({', '.join(codes)})"


def _atomic(emitter: Emitter, node: ast.Call, name: str) -> str:
    typing = emitter.typing
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
    codes = [
        emitter.operand(value, kind)
        for value, kind in zip(values, typing.operands[node], strict=True)
    ]
    used = not any(
        isinstance(statement, ast.Expr) and statement.value is node
        for statement in walk(emitter.source.tree)
    )
    site = emitter.site(node, ast.unparse(node.args[0]))
    name = "cas" if name == "compare_and_swap" else name
    return f"T.atomic({name!r}, {array}, {index}, {site}, {used}, {', '.join(codes)})"
