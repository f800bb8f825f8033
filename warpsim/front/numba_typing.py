"""Numba's own typing, asked without a GPU: result types of operators and functions.

Hand-written promotion rules and NumPy's are wrong in dozens of pairs (``float32 * int64`` is
float64 in Numba). The typing context of ``numba.cuda`` answers where that is installed; else core
Numba's, with the few differences of CUDA's library corrected.

Its rules take half a second to load, so answers about types of numbers are kept on disk. Only
questions about numbers, asked of functions of Python's and NumPy's own, are kept: nobody gives
these other answers. The file belongs to the versions of Numba, numba-cuda and Python, and to the
text of what asks. It lies in the user's cache folder; WARPSIM_CACHE names another one, or is "off".
"""

import atexit
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import math
import sys
from collections.abc import Callable
from contextlib import nullcontext
from enum import Enum
from functools import cache, wraps
from pathlib import Path
from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.core.compiler_lock import global_compiler_lock as one_at_a_time
from numba.core.errors import NumbaError, UnsupportedError

from warpsim.core.interface import device_memory
from warpsim.core.number_types import BFLOAT16, DATES, SCALARS, bfloat16, date_dtype
from warpsim.core.own_files import folder, keep, kept

# ---------------------------------------------------------------------- answers on disk
_NAMES = (
    "boolean int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
    "complex128"
).split()
_RANGES = "range_state32_type range_state64_type unsigned_range_state64_type".split()
_KINDS = {str(kind): kind for kind in (getattr(types, name) for name in (*_NAMES, *_RANGES))}
_MODULES = "_operator", "math", "numpy", "builtins"

MOST_BYTES = 1 << 24  # of the file

_found: dict[str, list] = {}
_new: set[str] = set()


@cache
def has_numba_cuda() -> bool:
    """Whether numba-cuda can be imported, by the looks of it."""
    try:
        there = importlib.util.find_spec("numba_cuda") is not None
    except (ImportError, ValueError):  # somebody hides it
        return False
    return there and sys.modules.get("numba.cuda", there) is not None


def versions() -> Any:
    """A digest, to be updated, of what answers: Python, Numba and numba-cuda."""
    said = hashlib.sha256(repr((*sys.version_info[:3], has_numba_cuda())).encode())
    for package in ("numba", "numba-cuda"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            said.update(f"{package} {importlib.metadata.version(package)}".encode())
    return said


@cache
def _file() -> Path | None:
    if (where := folder()) is None:
        return None
    said = versions()
    said.update(Path(__file__).read_bytes())
    return where / f"types-{said.hexdigest()[:16]}.json"


@cache
def _load() -> None:
    """Read what earlier processes were told, and leave what is new behind at the end."""
    if (file := _file()) is not None:
        _found.update(_read(file) | _found)
        atexit.register(save)


def _read(file: Path) -> dict[str, list]:
    return json.loads(kept(file, MOST_BYTES) or "{}")


def save() -> None:
    """Write all answers; a folder that cannot be written is no error."""
    file = _file()
    if file is None or not _new:
        return
    with contextlib.suppress(OSError, ValueError):
        answers = _read(file) | {question: _found[question] for question in sorted(_new)}
        keep(file, json.dumps(answers).encode())
        _new.clear()


def _question(what: str, function: Any, kinds: tuple) -> str | None:
    """A question as a word; None if its answer is not kept."""
    words = [what]
    if function is not None:
        name = getattr(function, "__name__", "")
        module = "numpy" if isinstance(function, np.ufunc) else getattr(function, "__module__", "")
        if module not in _MODULES or getattr(sys.modules.get(module), name, None) is not function:
            return None
        words.append(f"{module}.{name}")
    for kind in kinds:
        name = str(kind)
        if _KINDS.get(name) != kind:
            return None
        words.append(name)
    return " ".join(words)


def answered(what: str) -> Callable:
    """Decorate a question of a function (or None) and types; its answer is types, or None."""

    def decorate(ask: Callable) -> Callable:
        @wraps(ask)
        def answer(function: Any, kinds: tuple[types.Type, ...]) -> tuple[types.Type, ...] | None:
            question = _question(what, function, kinds)
            if question is None:
                return ask(function, kinds)
            _load()
            if question not in _found:
                told = ask(function, kinds)
                names = None if told is None else [str(kind) for kind in told]
                known = tuple(map(_KINDS.get, names or ())) == (told or ())
                if not known or not rules_are_usual():
                    return told
                _found[question] = names
                _new.add(question)
            names = _found[question]
            return None if names is None else tuple(_KINDS[name] for name in names)

        return answer

    return decorate


# ---------------------------------------------------------------------- questions
#: Tuples that are added and printed: Numba has no such code for named ones.
PLAIN_TUPLE = types.Tuple | types.UniTuple
#: In CUDA these give floats: the same float type, float64 for integers. Core Numba says int64.
_FLOAT_ROUNDING = (math.floor, math.ceil, math.trunc)

#: Functions that numba-cuda knows and older Numba does not, each with one of the same types.
_TYPED_AS = {math.exp2: math.exp}


@cache
def _core_context() -> Any:
    """Core Numba's, with what that writes in Python: phase of cmath, means of arrays."""
    import numba.cpython.cmathimpl
    import numba.np.arraymath  # noqa: F401
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    return cpu_target.typing_context


@cache
def _context() -> tuple[Any, Any]:
    """The typing context and the context manager under which it is asked."""
    try:
        from numba.core.target_extension import target_override
        from numba.cuda.descriptor import cuda_target

        context = cuda_target.typing_context
        context.refresh()
        return context, lambda: target_override("cuda")
    except (ImportError, AttributeError):
        return _core_context(), nullcontext


def rules_are_usual() -> bool:
    """Whether numba-cuda's rules answer where it is there; under Numba's simulator others do."""
    if not _context.cache_info().currsize:
        return True
    return (_context()[1] is not nullcontext) == has_numba_cuda()


@one_at_a_time
def load_rules() -> None:
    """Load what types are asked of, as the first kernel does."""
    _context()


#: By its id a type, and what it is without its literal value.
_plain: dict[int, tuple[types.Type, types.Type]] = {}


def plain(kind: types.Type) -> types.Type:
    """A type without its literal value: ``Literal[int](3)`` becomes int64."""
    found = _plain.get(id(kind))
    if found is None:
        found = _plain[id(kind)] = kind, types.unliteral(kind)
    return found[1]


def held(kind: types.Type) -> types.Type:
    """The type of the value that may be None; any other type as it is."""
    kind = plain(kind)
    return kind.type if isinstance(kind, types.Optional) else kind


@cache
def resolve(function: Any, arguments: tuple[types.Type, ...]) -> tuple | None:
    """Result type and operand types of a call, by Numba's rules; None if there is no such call."""
    told = _flat(function, arguments)
    if told is None:
        return resolve(_TYPED_AS[function], arguments) if function in _TYPED_AS else None
    return told[0], told[1:]


def _signature(function_in: Callable[[Any], Any], arguments: tuple) -> Any:
    """The signature of a call of what a typing context has for a function."""
    context, override = _context()
    try:
        with override():
            return context.resolve_function_type(function_in(context), arguments, {})
    except NumbaError:
        return None
    except Exception:
        # some overloads of numba-cuda ask the driver for a device before they answer
        context = _core_context()
        # of core Numba's errors: a wrong number of arguments, float16
        with contextlib.suppress(NumbaError, ValueError, NotImplementedError):
            return context.resolve_function_type(function_in(context), arguments, {})


@answered("call")
def _flat(function: Any, arguments: tuple[types.Type, ...]) -> tuple | None:
    """The result's type and those of the operands, by Numba's rules."""
    if function in _FLOAT_ROUNDING and len(arguments) == 1:
        if isinstance(arguments[0], types.Float):
            return arguments[0], *arguments
        if not isinstance(arguments[0], types.Integer | types.Boolean):
            return None
        wide = types.uint64 if getattr(arguments[0], "signed", True) is False else types.int64
        return types.float64, wide
    if function in (min, max) and any(  # numba-cuda; core Numba takes more
        isinstance(k, types.Boolean | types.Complex) for k in arguments
    ):
        return (types.boolean, *arguments) if set(arguments) == {types.boolean} else None
    signature = _signature(lambda context: function, arguments)
    if signature is None:
        return None
    operands = signature.args if len(signature.args) == len(arguments) else arguments
    return plain(signature.return_type), *map(plain, operands)


@cache
def unify(first: types.Type, second: types.Type) -> types.Type | None:
    """The type of a variable that gets both types, or None if Numba has none."""
    if first == second:
        return first
    (told,) = _unified(None, (first, second)) or (None,)
    return told


@answered("unify")
def _unified(_: None, kinds: tuple[types.Type, types.Type]) -> tuple | None:
    context, override = _context()
    with override():
        kind = context.unify_types(*kinds)
    whole = isinstance(kind, types.Array | types.BaseTuple) or isinstance(held(kind), SCALARS)
    return (kind,) if whole else None


@cache
def best_signature(
    declared: tuple[tuple[types.Type, ...], ...], arguments: tuple[types.Type, ...]
) -> int | None:
    """Which signature takes arguments by the fewest and safest conversions; None if none does."""
    return _chosen("device function", declared, arguments)


def _chosen(function: Any, declared: tuple, arguments: tuple, **options) -> int | None:
    context, override = _context()
    cases, found = [types.none(*kinds) for kinds in declared], None
    # of an error: no signature fits without a loss
    with override(), contextlib.suppress(NumbaError):
        found = context.resolve_overload(function, cases, arguments, {}, **options)
    return None if found is None else cases.index(found)


@one_at_a_time
def only_choice(function: Any, declared: tuple, arguments: tuple[types.Type, ...]) -> int | None:
    """The same for a launch; if it fits two equally well, Numba's TypeError says which."""
    return _chosen(function, declared, arguments, allow_ambiguous=False)


@cache
def attribute_type(kind: types.Type, name: str) -> types.Type | None:
    """Type of an attribute of a value, by Numba's rules; None if it has none."""
    if isinstance(kind, types.Complex) and name in ("real", "imag"):  # without loading the rules
        return kind.underlying_float
    context, override = _context()
    with override(), contextlib.suppress(NumbaError):
        return context.resolve_getattr(kind, name)


@cache
def method_type(kind: types.Type, name: str) -> Any:
    """Result type of a method of a number, by Numba's rules; None if there is none."""
    if not isinstance(attribute_type(kind, name), types.BoundFunction):
        return None
    signature = _signature(lambda context: context.resolve_getattr(kind, name), ())
    return None if signature is None else plain(signature.return_type)


def of_value(value: Any) -> types.Type | None:
    """The type of an argument or of a constant from outside the kernel; None if it has none."""
    if isinstance(value, bool):
        return types.boolean
    if isinstance(value, int):
        wide = types.int64 if value < 2**63 else types.uint64
        return wide if -(2**63) <= value < 2**64 else None
    if isinstance(value, float):
        return types.float64
    if isinstance(value, complex):
        return types.complex128
    if value is None:
        return types.none
    if isinstance(value, str):
        return types.literal(str(value))
    if isinstance(value, np.ndarray | np.generic):
        layout = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
        # records of the same fields are equal as keys, and may be two types
        kept = _array_type if value.dtype.isbuiltin else _array_type.__wrapped__
        kind = kept(value.dtype, value.ndim, layout)
        return kind.dtype if kind and isinstance(value, np.generic) else kind
    if hasattr(value, "__cuda_array_interface__"):
        memory = device_memory(value)  # a device array from outside, by its address
        return None if memory is None else of_value(memory)
    if isinstance(value, tuple):
        parts = [of_value(part) for part in value]
        return None if None in parts else tuple_type(value, parts)
    if isinstance(value, Enum):
        kind = of_value(value.value)
        whole = isinstance(kind, types.Number | types.BaseTuple)
        return types.EnumMember(type(value), kind) if whole else None
    return None


@cache
def _array_type(dtype: np.dtype, ndim: int, layout: str) -> types.Array | None:
    element = of_dtype(dtype)
    return None if element is None else types.Array(element, ndim, layout)


def tuple_type(value: tuple, parts: list[types.Type]) -> types.Type:
    """The type of a tuple or named tuple whose parts have some types."""
    if not hasattr(value, "_fields"):
        return types.Tuple(parts)
    if len(set(parts)) == 1:
        return types.NamedUniTuple(parts[0], len(parts), type(value))
    return types.NamedTuple(parts, type(value))


def of_dtype(dtype: Any) -> types.Type | None:
    """The Numba type of a NumPy dtype, of a scalar type or of a Numba type itself."""
    if isinstance(dtype, types.Type):
        return dtype if isinstance(dtype, types.Record | DATES) or str(dtype) in _ELEMENTS else None
    if not isinstance(dtype, type | np.dtype | str):
        return None
    try:
        dtype = np.dtype(dtype)
        if dtype == BFLOAT16:
            return bfloat16
        if dtype.byteorder == ">":
            return None
        kind = from_dtype(dtype)
    except (TypeError, NumbaError, NotImplementedError):
        return None
    return kind if isinstance(kind, SCALARS | types.Record) else None


#: Numbers that arrays and variables may hold here: others, such as a float8, Numba has, too.
_ELEMENTS = {"bool", "bfloat16", *_NAMES}


@cache
def dtype_of(kind: types.Type) -> np.dtype:
    """The NumPy dtype of a number's or a record's type."""
    if isinstance(kind, types.Record):
        return kind.dtype
    if isinstance(kind, DATES):
        return date_dtype(kind)
    name = {"bool": "bool_", "boolean": "bool_", "bfloat16": "uint16"}.get(str(kind), str(kind))
    if not hasattr(np, name):
        raise UnsupportedError(f"elements of type {kind} are not supported by the simulator")
    return np.dtype(getattr(np, name))
