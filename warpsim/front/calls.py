"""Calls in a kernel: CUDA's functions, device functions, Python's, math's and NumPy's."""

import ast
import copy
import math
from collections.abc import Hashable
from enum import Enum
from functools import reduce
from typing import Any

import numpy as np
from numba import types
from numba.np.numpy_support import ufunc_find_matching_loop

from warpsim.core.number_types import (
    DATES,
    NOT_CAST,
    REAL,
    SCALARS,
    VECTORS,
    VectorType,
    bfloat16,
    castable,
    vector_type,
)
from warpsim.core.settings import setting
from warpsim.front import cuda_names
from warpsim.front.allocations import Pointer, array_type, constant_dtype
from warpsim.front.names import MISSING, TYPE_OF_CALL, KernelName, Source
from warpsim.front.nodes import Once, walk
from warpsim.front.numba_typing import (
    PLAIN_TUPLE,
    attribute_type,
    best_signature,
    dtype_of,
    held,
    method_type,
    of_dtype,
    of_value,
    plain,
    resolve,
    tuple_type,
)
from warpsim.front.rewriting import all_by_position
from warpsim.front.successor import bits_retyped

CASTS = {int, float, bool, complex}
#: CUDA's functions that take a member of an enumeration for its number.
TAKE_MEMBERS = "popc clz ffs brev syncwarp nanosleep match_any_sync match_all_sync".split()
#: The ufuncs that Numba-CUDA has code for. Source: numba.cuda.ufuncs of 0.22.2 and 0.30.4.
UFUNCS = frozenset(
    """
    arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_or bitwise_xor
    conjugate cos cosh deg2rad degrees divide equal fmax fmin greater greater_equal hypot invert
    isnan left_shift less less_equal log log10 log2 logical_and logical_not logical_or logical_xor
    maximum minimum not_equal rad2deg radians right_shift sin sinh tan tanh
    """.split()
)
_INSTEAD = {
    "add": "use +", "subtract": "use -", "multiply": "use *", "power": "use **", "square": "use *",
    "floor_divide": "use //", "remainder": "use %", "divmod": "use divmod", "absolute": "use abs",
    "fabs": "use abs", "negative": "use -", "positive": "use the value itself", "rint": "use round",
    "cbrt": "use cuda.cbrt", "reciprocal": "use 1 / x", "float_power": "use **",
}  # fmt: skip
#: NumPy's functions, and the methods of arrays, that make one number of an array.
REDUCTIONS = {
    getattr(np, name): name
    for name in ("sum", "mean", "prod", "any", "all", "argmin", "argmax", "var", "std")
}


def call(typer: Any, node: ast.Call) -> types.Type:
    """Type a call and note what it is converted to."""
    source = typer.source
    function = source.static(node.func)
    if function is MISSING:
        function = _class_of(typer, node.func)
    typer.typing.functions[node] = function
    if function is MISSING:
        typer.check_attribute(node.func)
        kernel = node.func
        while isinstance(kernel, ast.Subscript | ast.Attribute | ast.Call):
            kernel = kernel.func if isinstance(kernel, ast.Call) else kernel.value
        of_result = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call)
        if hasattr(source.static(kernel), "py_func") and not of_result:
            what = f"{ast.unparse(node.func)} is a launch, and a kernel cannot launch kernels"
            cure = "launch it from the host, or call a device function: cuda.jit(device=True)"
            raise source.refused(node, f"{what}: {cure}")
        if isinstance(node.func, ast.Attribute):
            return _method(typer, node)
        raise source.refused(node, f"NameError: name {ast.unparse(node.func)!r} is not defined")
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        _spread(typer, node)
    if isinstance(function, KernelName):
        return _intrinsic(typer, node, function.path)
    if hasattr(function, "py_func"):  # decorated with cuda.jit, the simulator's or numba.cuda's
        _check_device(typer, node, function)
        return _device(typer, node, function)
    if getattr(function, "__name__", "") in ("carray", "farray"):
        return _of_a_pointer(typer, node, function.__name__)
    if isinstance(function, type) and issubclass(function, tuple) and hasattr(function, "_fields"):
        all_by_position(source, function, node)
        kinds = [plain(typer.expression(argument)) for argument in node.args]
        return tuple_type(function(*kinds), kinds)
    if node.keywords:
        raise source.unsupported(node, f"keyword arguments of {ast.unparse(node.func)}")
    if function is print:
        return _print(typer, node)
    value = _known(typer, node, function)
    if value is not MISSING:
        typer.typing.values[node] = value
        return of_value(value) or types.Opaque(ast.unparse(node.func))
    if function is len:
        return _length(typer, node)
    if function is tuple and len(node.args) == 1:
        kind = plain(typer.expression(node.args[0]))
        if isinstance(kind, types.BaseTuple):
            return kind
        raise source.refused(node, f"tuple({kind}): only a tuple can be made one")
    cast = of_dtype(function) if is_number_class(function) else None
    cast = types.intp if function in CASTS else cast  # decided in _cast
    given = tuple(plain(typer.expression(argument)) for argument in node.args)
    arguments = tuple(map(held, given))
    if cast is not None and function not in CASTS and given != arguments:
        text = f"({given[0]}) of what may be None: take int(...) or float(...)"
        raise source.refused(node, ast.unparse(node.func) + text)
    whole = isinstance(cast, types.Integer) and function not in CASTS
    if any(isinstance(source.static(one), Enum) for one in node.args) and not whole:
        if function in (min, max, round) or cast is not None:
            text = "Numba takes no member of an enumeration there: .value"
            raise source.refused(node, f"{ast.unparse(node)}: {text}")
    if cast is not None:
        return _cast(typer, node, function, cast, arguments)
    array = len(arguments) == 1 and isinstance(arguments[0], types.Array) and arguments[0]
    if function in (min, max) and array and array.ndim == 1 and isinstance(array.dtype, REAL):
        typer.typing.operands[node] = (array.dtype,)
        return array.dtype
    if function in (min, max) and arguments:
        several = arguments if len(arguments) > 1 else arguments[0]
        if not isinstance(several, types.BaseTuple | tuple) or not len(several):
            raise source.refused(node, f"{function.__name__}({several}) needs several numbers")
        return _several(typer, node, function, tuple(several))
    module = getattr(function, "__module__", None)
    if isinstance(function, np.ufunc):
        _check_ufunc(source, node, function)
        if any(isinstance(kind, types.Array) for kind in arguments):
            return _ufunc_type(typer, node, function, arguments)
        kind = typer.call_type(node, function, arguments)
        # cos of uint8 is computed in float32, unlike NumPy's
        loop = ufunc_find_matching_loop(function, arguments)
        if loop is not None and [plain(k) for k in loop.outputs] == [kind]:
            typer.typing.operands[node] = tuple(plain(k) for k in loop.inputs)
        return kind
    if function in (abs, min, max, round, pow, divmod) or module in ("math", "cmath"):
        return typer.call_type(node, function, arguments)
    if function is sum and len(arguments) == 1 and resolve(sum, arguments) is not None:
        typer.typing.operands[node] = (resolve(sum, arguments)[0],)
        return typer.typing.operands[node][0]
    if array and isinstance(function, Hashable) and function in REDUCTIONS:
        return _total_type(typer, node, array, REDUCTIONS[function])
    name = ast.unparse(node.func)
    if callable(function) and hasattr(function, "__code__"):
        raise source.refused(
            node,
            f"Untyped global name {name!r}: {name} is a plain Python function; decorate it with "
            "@cuda.jit(device=True) to call it from a kernel",
        )
    if str(module).partition(".")[0] == "numpy":
        text = f"{name} is not available in a kernel here: loop over the elements"
        raise source.refused(node, text)
    if isinstance(node.func, ast.Attribute) and isinstance(source.static(node.func.value), type):
        of = ast.unparse(node.func.value)
        raise source.refused(node, f"Unknown attribute {node.func.attr!r} of type class({of})")
    instead = "Loop over a range, or compare: 0 <= i < n." if function is range else ""
    raise source.unsupported(node, f"the call of {name}", instead)


def _class_of(typer: Any, node: ast.expr) -> Any:
    """The type that ``x.dtype.type``, ``type(x)`` or a variable stands for; else MISSING."""
    if isinstance(node, ast.Call) and typer.source.static(node.func) is type:
        kind = plain(typer.expression(node.args[0])) if len(node.args) == 1 else None
        return kind if isinstance(kind, types.Number) else MISSING
    held_by = isinstance(node, ast.Name) and node.id in typer.environment
    if held_by or (isinstance(node, ast.Attribute) and node.attr == "type"):
        kind = typer.expression(node)
        return kind.instance_type if isinstance(kind, types.NumberClass) else MISSING
    return MISSING


#: What ``isinstance`` asks for, numbers apart: a class and the types that are of it.
CLASSES = {tuple: types.BaseTuple, str: types.UnicodeType}
#: Types whose values ``isinstance`` takes.
ASKED = (
    REAL | types.Complex | types.Tuple | types.UniTuple | types.Array | types.NoneType | DATES
    | types.UnicodeType
)  # fmt: skip


def _known(typer: Any, node: ast.Call, function: Any) -> Any:
    """The value of a call that is known when the kernel is compiled, or MISSING."""
    given = [typer.source.static(argument) for argument in node.args]
    if function is isinstance and len(given) == 2:
        kind, asked = plain(typer.expression(node.args[0])), given[1]
        asked = asked if isinstance(asked, tuple) else (asked,)
        if not isinstance(kind, ASKED):
            raise typer.source.refused(node, f"isinstance() of {kind} is not supported")
        return any(_is_instance(typer, node, kind, one) for one in asked)
    if function is hasattr and len(given) == 2 and isinstance(given[1], str):
        return attribute_type(plain(typer.expression(node.args[0])), given[1]) is not None
    text = typer.text(node.args[0]) if len(node.args) == 1 else None
    if function in (float, ord, len) and text is not None:
        try:
            return function(text)
        except (TypeError, ValueError) as error:
            raise typer.source.refused(node, str(error)) from None
    if function in (np.finfo, np.iinfo) and len(given) == 1 and given[0] not in (int, float):
        dtype = constant_dtype(typer, node.args[0])
        wanted = types.Float if function is np.finfo else types.Integer
        if isinstance(dtype, wanted):
            return function(dtype_of(dtype))
    return MISSING


def _is_instance(typer: Any, node: ast.Call, kind: types.Type, asked: Any) -> bool:
    """Numba's isinstance: of exactly the Numba type that a class stands for."""
    if asked in CLASSES:
        return isinstance(kind, CLASSES[asked])
    if asked in CASTS or is_number_class(asked):
        return of_dtype(asked) == kind
    raise typer.source.unsupported(node, f"isinstance of {ast.unparse(node.args[1])}")


def _spread(typer: Any, node: ast.Call) -> None:
    """``f(*t)`` as ``f(t[0], t[1])``; what reads memory or calls something does it once."""
    arguments = []
    for argument in node.args:
        if not isinstance(argument, ast.Starred):
            arguments.append(argument)
            continue
        kind = typer.expression(argument.value)
        if not isinstance(kind, types.BaseTuple):
            raise typer.source.refused(node, f"* needs a tuple, not {kind}")
        for number in range(len(kind)):
            index = ast.copy_location(ast.Constant(number), argument)
            value: ast.expr = copy.deepcopy(argument.value)
            if any(isinstance(part, ast.Subscript | ast.Call) for part in walk(value)):
                place = node.lineno, node.col_offset, len(arguments) - number
                value = ast.copy_location(Once(value, place, number == 0), argument)
            arguments.append(ast.copy_location(ast.Subscript(value, index, ast.Load()), argument))
    node.args = arguments


def _of_a_pointer(typer: Any, node: ast.Call, name: str) -> types.Type:
    """``carray(p, (2, n))`` as ``p[: 2 * n].reshape(2, n)``; of ``farray`` the axes in reverse."""
    given = dict(zip(("address", "shape", "dtype"), node.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in node.keywords}
    pointer, shape, dtype = map(given.get, ("address", "shape", "dtype"))
    kind = typer.expression(pointer) if pointer and shape else None
    element = constant_dtype(typer, dtype) if dtype else getattr(kind, "dtype", None)
    if not isinstance(kind, Pointer) or element != kind.dtype:
        cure = "Give the kernel the array, or declare the address as a CPointer of the dtype."
        raise typer.source.unsupported(node, f"an array of an address, {ast.unparse(node)},", cure)
    sizes = shape.elts if isinstance(shape, ast.Tuple) else [shape]
    size = reduce(lambda one, other: ast.BinOp(one, ast.Mult(), other), sizes)
    flat = ast.Subscript(pointer, ast.Slice(None, size), ast.Load())
    node.func = ast.Attribute(flat, "reshape", ast.Load())
    node.args, node.keywords = sizes, []
    if name == "farray":
        turned = ast.Call(node.func, sizes[::-1], [])
        node.func, node.args = ast.Attribute(turned, "transpose", ast.Load()), []
    return call(typer, ast.fix_missing_locations(node))


def _check_ufunc(source: Source, node: ast.Call, function: np.ufunc) -> None:
    """Refuse the ufuncs that Numba types in a kernel and then has no code for."""
    name = function.__name__
    if name in UFUNCS:
        return
    advice = _INSTEAD.get(name) or (f"use math.{name}" if hasattr(math, name) else "write it out")
    text = f"{ast.unparse(node.func)} is not available in a CUDA kernel of Numba: {advice}"
    raise source.refused(node, text)


def _ufunc_type(typer: Any, node: ast.Call, function: np.ufunc, arguments: tuple) -> types.Type:
    """Type of ``np.add(x, y, out)``; notes the types that the loop works with."""
    name = ast.unparse(node.func)
    inputs, outputs = arguments[: function.nin], arguments[function.nin :]
    if not outputs:
        raise typer.source.refused(
            node,
            f"{name} of an array makes a new array, which a kernel has no memory for: give it an "
            f"array for the result, {name}(x, out), or loop over the elements",
        )
    if len(outputs) != 1 or function.nout != 1:
        raise typer.source.unsupported(node, f"{name} with {len(outputs)} arrays for results")
    fits = isinstance(outputs[0], types.Array) and all(
        not isinstance(kind, types.Array) or kind.ndim <= outputs[0].ndim for kind in inputs
    )
    plainly = tuple(
        types.Array(kind.dtype, kind.ndim, "C") if isinstance(kind, types.Array) else kind
        for kind in arguments
    )
    found = resolve(function, plainly) if fits else None
    elements = [kind.dtype if isinstance(kind, types.Array) else kind for kind in arguments]
    loop = ufunc_find_matching_loop(function, elements) if found is not None else None
    if loop is None:
        raise typer.call_refused(node, name, arguments)
    typer.check_mutable(node, outputs[0])
    typer.typing.operands[node] = (*loop.inputs, *loop.outputs)
    return outputs[0]


def _total_type(typer: Any, node: ast.Call, kind: types.Array, name: str) -> types.Type:
    """Type of ``x.sum()`` and its like: each thread goes through the whole array."""
    plainly = types.Array(kind.dtype, kind.ndim, "C")
    number = isinstance(kind.dtype, types.Number | types.Boolean)
    found = method_type(plainly, name) if number else None
    if not isinstance(found, types.Number | types.Boolean):
        raise typer.source.refused(node, f"No implementation of function {name} of {kind}")
    typer.typing.operands[node] = (found,)
    return found


def _check_device(typer: Any, node: ast.Call, function: Any) -> None:
    """Refuse what is made for the host: ufuncs, and CPU functions with signatures."""
    declared = getattr(function, "_can_compile", True) is False
    if hasattr(function, "reduce") or hasattr(function, "outputs"):
        why = "a ufunc works on whole arrays and is called from the host; call a function "
        why += "decorated with @cuda.jit(device=True)"
    elif declared and type(function).__name__ == "CPUDispatcher":
        why = "using cpu function on device; it has signatures"
    else:
        return
    raise typer.source.refused(node, f"Untyped global name {ast.unparse(node.func)!r}: {why}")


def is_number_class(value: Any) -> bool:
    """Whether a value is a number's class of NumPy's, or a type of Numba's."""
    whole = isinstance(value, type) and issubclass(value, np.generic)
    return whole or isinstance(value, types.Type)


def _cast(typer: Any, node: ast.Call, function: Any, cast: types.Type, arguments: tuple):
    if function is complex and 1 <= len(arguments) <= 2:
        kind = typer.call_type(node, complex, arguments)
        if len(arguments) == 1:
            typer.typing.operands[node] = (kind,)
        elif any(isinstance(one, types.Complex) for one in arguments):
            raise typer.source.unsupported(node, "complex of two complex numbers")
        return kind
    if function is bool and isinstance(arguments[0], types.BaseTuple | types.NoneType):
        typer.typing.values[node] = isinstance(arguments[0], types.BaseTuple) and bool(arguments[0])
        return types.boolean
    if len(arguments) != 1 or not isinstance(arguments[0], types.Number | types.Boolean):
        listed = ", ".join(map(str, arguments))
        raise typer.source.refused(node, f"{ast.unparse(node.func)}({listed}) needs one number")
    (kind,) = arguments
    real = cast not in (types.complex64, types.complex128)
    lost = isinstance(kind, types.Complex) and real and function not in (bool, np.bool_)
    if lost and cast is not types.boolean or function is float and isinstance(kind, types.Boolean):
        raise typer.call_refused(node, function, arguments)
    if not castable(plain(kind), types.boolean if function is bool else cast):
        why = NOT_CAST[kind if kind == types.float16 else bfloat16]
        raise typer.source.refused(node, f"{ast.unparse(node.func)}({kind}): {why}")
    family, cast = {
        float: (types.Float, types.float64), int: (types.Integer, types.int64),
        bool: (types.Boolean, types.boolean),
    }.get(function, ((), cast))  # fmt: skip
    cast = kind if isinstance(kind, family) else cast
    typer.typing.operands[node] = (cast,)
    return cast


def _several(typer: Any, node: ast.Call, function: Any, arguments: tuple) -> types.Type:
    """min and max: the type of the pairs, folded; all operands get it."""
    kind = plain(arguments[0])
    if bfloat16 in map(plain, arguments):
        raise typer.source.refused(node, f"{function.__name__} of bfloat16: {NOT_CAST[bfloat16]}")
    for other in map(plain, arguments[1:]):
        found = resolve(function, (kind, other))
        if found is None:
            raise typer.call_refused(node, function, (kind, other))
        kind = found[0]
    typer.typing.operands[node] = (kind,) * len(arguments)
    return kind


def _print(typer: Any, node: ast.Call) -> types.Type:
    for argument in node.args:
        kind = typer.expression(argument)
        if not _printable(kind) or isinstance(typer.source.static(argument), Enum):
            raise typer.source.refused(node, f"print of {kind} is not possible in a kernel")
    return types.none


def _printable(kind: types.Type) -> bool:
    if isinstance(kind, PLAIN_TUPLE):
        return all(_printable(part) for part in kind)
    return isinstance(kind, REAL | types.StringLiteral)


def _length(typer: Any, node: ast.Call) -> types.Type:
    kind = typer.expression(node.args[0]) if len(node.args) == 1 else None
    lengthy = types.Array | types.BaseTuple | types.NumpyFlatType
    shapeless = isinstance(kind, Pointer | VectorType) or getattr(kind, "ndim", 1) == 0
    if not isinstance(kind, lengthy) or shapeless:
        raise typer.source.refused(node, f"len of {kind}")
    return types.intp


def _method(typer: Any, node: ast.Call) -> types.Type:
    kind = typer.expression(node.func.value)
    if isinstance(kind, types.Array):
        return _array_method(typer, node, kind, node.func.attr)
    name = None if node.args else node.func.attr
    if kind == cuda_names.GRID_GROUP and name == "sync":
        typer.typing.operands[node] = ()
        return types.int32
    whole = isinstance(kind, types.Integer) and name == "bit_count"
    if whole or isinstance(kind, types.Number) and name in ("item", "conjugate"):
        typer.typing.operands[node] = (kind,)
        return method_type(kind, name) if name == "conjugate" else plain(kind)
    raise typer.source.refused(node, f"Unknown attribute {node.func.attr!r} of type {kind}")


def _array_method(typer: Any, node: ast.Call, kind: types.Array, name: str) -> types.Type:
    """Methods of arrays that make a view; the others Numba refuses in kernels, too."""
    typer.typing.operands[node] = ()
    if not node.keywords and name == "view" and len(node.args) == 1:
        dtype = constant_dtype(typer, node.args[0])
        text = isinstance(typer.source.static(node.args[0]), str)
        if isinstance(dtype, types.Number | types.Boolean) and not text:
            return kind.copy(dtype=dtype)
        raise typer.source.refused(node, f".view({ast.unparse(node.args[0])}): not an element type")
    if not node.keywords and name == "reshape" and node.args:
        kinds = [plain(typer.expression(argument)) for argument in node.args]
        parts = list(kinds[0]) if isinstance(kinds[0], types.BaseTuple) else kinds
        if all(isinstance(part, types.Integer) for part in parts):
            if kind.layout == "A":
                raise typer.source.refused(node, "reshape() supports contiguous array only")
            return kind.copy(ndim=len(parts))
    if not node.keywords and name == "fill" and len(node.args) == 1:
        typer.check_mutable(node, kind)
        value = held(typer.expression(node.args[0]))
        if isinstance(value, SCALARS) and isinstance(kind.dtype, SCALARS):
            typer.typing.operands[node] = (kind.dtype,)
            return types.none
    if not node.keywords and not node.args:
        if name in REDUCTIONS.values():
            return _total_type(typer, node, kind, name)
        if name == "transpose":
            return typer.of_array(kind, "T")
        if name == "copy" and setting("CUDA_ENABLE_NRT", 0):
            return types.Array(kind.dtype, kind.ndim, "C")
        if name == "copy":
            raise typer.source.refused(
                node,
                "Numba needs memory to copy an array, which a kernel cannot allocate (NRT required "
                "but not enabled: NUMBA_CUDA_ENABLE_NRT=1): loop over the elements",
            )
    text = f"kernels have no array method .{name}(): loop over the elements"
    raise typer.source.refused(node, text)


def _device(typer: Any, node: ast.Call, function: Any) -> types.Type:
    arguments = tuple(plain(typer.expression(argument)) for argument in node.args)
    if node.keywords:
        raise typer.source.unsupported(node, "keyword arguments of a device function")
    declared = _declared(typer, node, function, arguments)
    if declared is not None:
        arguments = declared[0]  # arguments and result are converted, as on a GPU
    typing = typer.callee(typer.source, node, function, arguments)
    if typing.optional and typer.unused is not node:
        raise typer.source.unsupported(
            node,
            f"a value that may be None: {typing.source.name} returns {typing.result} on some ways "
            "and nothing on others, which",
            "Return a number on every way, such as -1 for nothing.",
        )
    if declared is None and (typing.recursive or typing.source is typer.source):
        _check_literals(typer, node, typing.source)
    itself = typing.source is typer.source and arguments == typer.typing.arguments
    typer.typing.callees[node] = (function, arguments, typing.result, itself)
    typer.typing.operands[node] = arguments
    if declared is not None and not isinstance(typing.result, types.NoneType):
        return declared[1] or typing.result
    return typing.result


def _check_literals(typer: Any, node: ast.Call, inner: Source) -> None:
    """A literal has a type of its own: what calls itself must hand it on as it is."""
    for number, (name, argument) in enumerate(zip(inner.arguments, node.args)):
        if typer.literal(argument) is MISSING:
            continue
        for part in walk(inner.tree):
            again = isinstance(part, ast.Call) and getattr(part.func, "id", None) == inner.name
            given = part.args[number] if again and number < len(part.args) else None
            if again and (typer.source is inner or getattr(given, "id", None) != name):
                raise typer.source.refused(
                    node,
                    f"{inner.name} calls itself with arguments of other types than the literal "
                    f"{ast.unparse(argument)}, which Numba-CUDA has no code for "
                    "(insert_unresolved_ref): give it a variable, such as an argument",
                )


def _declared(typer: Any, node: ast.Call, function: Any, arguments: tuple):
    """The signature of a device function, with its result or None, that Numba chooses."""
    signatures = list(getattr(function, "device_signatures", ()))
    if not signatures and getattr(function, "_can_compile", True) is False:
        # numba.cuda's own, declared with signatures
        signatures = [(s.args, s.return_type) for s in function.nopython_signatures]
    if not signatures:
        return None
    chosen = best_signature(tuple(kinds for kinds, _ in signatures), arguments)
    if chosen is None:
        given = ", ".join(str(kind) for kind in arguments)
        listed = "; ".join(f"({', '.join(map(str, kinds))})" for kinds, _ in signatures)
        raise typer.source.refused(
            node,
            f"Invalid use of type(CUDADispatcher({function.__name__})) with parameters ({given})\n"
            f"Known signatures: {listed}",
        )
    return signatures[chosen]


# ---------------------------------------------------------------------- CUDA's own
def _intrinsic(typer: Any, node: ast.Call, path: str) -> types.Type:
    source = typer.source
    if path in VECTORS:
        return vector_type(typer, node, path)
    if path in TYPE_OF_CALL:
        return TYPE_OF_CALL[path](typer, node)
    if path in ("grid", "gridsize"):
        given = [*node.args, *(one.value for one in node.keywords if one.arg == "ndim")]
        alone = len(node.args) + len(node.keywords) == len(given) == 1
        dimensions = typer.literal(given[0]) if alone else MISSING
        if dimensions not in (1, 2, 3):
            text = f"RequireLiteralValue: cuda.{path} takes the literal 1, 2 or 3"
            raise source.refused(node, text)
        node.args, node.keywords = given, []
        typer.typing.values[given[0]] = dimensions
        kind = types.int32 if source.of_the_successor else types.intp
        return kind if dimensions == 1 else types.UniTuple(kind, dimensions)
    if path in ("shared.array", "local.array"):
        return array_type(typer, node, path)
    if path == "const.array_like":
        given = [*node.args, *(one.value for one in node.keywords if one.arg == "ndarray")]
        kind = typer.expression(given[0]) if len(given) == 1 else None
        if not isinstance(kind, types.Array) or len(node.args) + len(node.keywords) > 1:
            raise source.refused(node, f"cuda.const.array_like of {kind}: it takes one array")
        node.args, node.keywords = given, []
        return kind  # no copy: Numba gives the array itself, one from outside is constant anyway
    if path.startswith("atomic."):
        return _atomic(typer, node, path[7:])
    low, high, signature = cuda_names.FUNCTIONS.get(path, (0, -1, None))
    if not low <= len(node.args) <= high or node.keywords:
        raise source.refused(node, f"cuda.{path} takes {low} arguments, {len(node.args)} given")
    arguments = tuple(plain(typer.expression(argument)) for argument in node.args)
    members = any(isinstance(source.static(argument), Enum) for argument in node.args)
    if members and path not in TAKE_MEMBERS:
        raise source.refused(node, f"cuda.{path} takes no member of an enumeration: .value")
    takes = all(isinstance(held(kind), REAL) or kind == bfloat16 for kind in arguments)
    found = signature(*arguments) if takes else None
    if source.of_the_successor:
        found = bits_retyped(path, arguments, found)
    return typer.called(node, path, arguments, found)


def _atomic(typer: Any, node: ast.Call, name: str) -> types.Type:
    source = typer.source
    wanted = 4 if name == "cas" else 3
    if len(node.args) != wanted or node.keywords:
        text = f"cuda.atomic.{name} takes {wanted} arguments, {len(node.args)} given"
        raise source.refused(node, text)
    array = typer.expression(node.args[0])
    allowed = cuda_names.ATOMIC_TYPES[name]
    if not isinstance(array, types.Array):
        given = ast.unparse(node.args[0])
        said = f"cuda.atomic.{name} takes an array first, and {given} is {array}"
        if isinstance(node.args[0], ast.Subscript) and name != "compare_and_swap":
            parts = [node.args[0].value, node.args[0].slice, *node.args[2:]]
            said += f": write cuda.atomic.{name}({', '.join(map(ast.unparse, parts))})"
        raise source.refused(node, said)
    if array.dtype not in allowed:
        listed = ", ".join(str(kind) for kind in allowed)
        text = f"cuda.atomic.{name} on {array} is not possible; element types: {listed}"
        raise source.refused(node, text)
    typer.check_mutable(node, array)
    values = node.args[1:] if name == "compare_and_swap" else node.args[2:]
    if name != "compare_and_swap":
        index = plain(typer.expression(node.args[1]))
        parts = index if isinstance(index, types.BaseTuple) and array.ndim != 1 else (index,)
        real = parts and all(isinstance(held(part), REAL) for part in parts)
        if len(parts) != array.ndim or not real:
            raise source.refused(node, f"cuda.atomic.{name}: index {index} for {array}")
    for value in values:
        kind = held(typer.expression(value))
        if not isinstance(kind, REAL):
            raise source.refused(node, f"cuda.atomic.{name}: value of type {kind}")
    typer.typing.operands[node] = (array.dtype,) * len(values)
    return array.dtype
