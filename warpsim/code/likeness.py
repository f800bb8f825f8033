"""Which functions are alike: the same code, and what it finds outside of itself is the same.

A factory that makes a device function anew for each solver makes the same one again and again; one
program serves them all. Who holds something that may change meanwhile is like nobody else.

Functions of one *shape* differ only in what the functions that they call do: those have the same
name and parameters (:mod:`warpsim.code.kept`).
"""

import gc
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import cached_property
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import types

from warpsim.core.settings import setting
from warpsim.front.names import KernelName, text_of
from warpsim.front.successor import marked

#: Modules whose names nobody gives other values.
_STEADY = frozenset(
    "_operator builtins cmath math numba numba_cuda numba_cuda_mlir numpy operator warpsim".split()
)
_STEADY_TYPES = (np.generic, Enum, BaseException, types.Type)
#: Bytes of an array outside the kernel that are compared.
MOST_BYTES = 1 << 16


class _Unlike(Exception):
    """What a function finds may change; it is like no other."""


class _This:
    """An object that is like itself alone, and stays as long as something is compared with it."""

    def __init__(self, value: Any):
        self.value = value

    @cached_property
    def _word(self) -> str:
        return _name_of(self.value)

    def __repr__(self) -> str:
        return self._word

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _This) and other.value is self.value


_PYTHONS = bool, int, float, complex, str, bytes, type(None)
#: The types of numbers and texts, whose text says all.
_PLAIN = {kind: _This(kind) for kind in (*_PYTHONS, *np.sctypeDict.values())}
_numbers: dict[tuple, _This] = {}
#: What has been told of functions while one is asked; None for one that is being asked, too.
_told: dict[FunctionType, _This | None] = {}
_shapes: dict[tuple[FunctionType, bool], tuple | None] = {}
_together = False
#: By its id a code, which is hashed once, and the names that it finds outside.
_codes: dict[int, tuple[_This, list[str], CodeType]] = {}
_same_codes: dict[tuple[CodeType, str], _This] = {}
#: Settings of Numba's that its typing asks.
_SETTINGS = "CUDA_ENABLE_NRT", "ALWAYS_WARN_UNINIT_VAR"


@contextmanager
def asked_together() -> Iterator[None]:
    """What is found of functions holds for all that are asked meanwhile, under Numba's lock.

    Nearly all that is made meanwhile stays: Python looks for what can go afterwards.
    """
    global _together
    before, _together = _together, True
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
        _together = before
        if not before:
            _told.clear()
            _shapes.clear()


def likeness(function: FunctionType) -> Any:
    """What functions have in common which are alike; None for one that may change."""
    if function in _told:
        return _told[function]
    is_first = not _told and not _together
    _told[function] = None  # what calls itself is its own
    try:
        key = _key(function, _like)
        number = _told[function] = _numbers.setdefault(key, _This(key))
        return number
    except _Unlike:
        return None
    finally:
        if is_first:
            _told.clear()


def shape(function: FunctionType, read_alone: bool = False) -> tuple | None:
    """What functions have in common that call others in the same way; None for what may change.

    Those that are only read alike, ``read_alone``, may find other numbers and functions outside.
    """
    asked = function, read_alone
    if asked in _shapes:
        return _shapes[asked]
    try:
        found = _key(function, _as_read if read_alone else _as_called)
    except _Unlike:
        found = None
    if _together:
        _shapes[asked] = found
    return found


def _key(function: FunctionType, like: Callable[[Any], Any]) -> tuple:
    code, names = _read(function.__code__)
    key: list[Any] = [code, function.__name__, function.__module__, marked(function)]
    key += [setting(name, 0) for name in _SETTINGS]
    key += map(_like, (function.__defaults__, tuple((function.__kwdefaults__ or {}).items())))
    try:
        key += [like(cell.cell_contents) for cell in function.__closure__ or ()]
    except ValueError:
        raise _Unlike from None  # it has no value yet
    outside = function.__globals__
    for name in names:
        if name in outside:
            key += name, like(outside[name])
    return tuple(key)


def _read(code: CodeType) -> tuple[_This, list[str]]:
    found = _codes.get(id(code))
    if found is None:
        same = _same_codes.setdefault((code, code.co_filename), _This(code))
        found = _codes[id(code)] = same, sorted(_names(code)), code
    return found[:2]


def _names(code: CodeType) -> set[str]:
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _as_called(value: Any) -> Any:
    """The same as `_like`, and of a function only how it is called."""
    function = getattr(value, "py_func", None)
    if not isinstance(function, FunctionType):
        return _like(value)
    names = function.__name__, function.__code__.co_name, function.__module__, marked(function)
    return _This(type(value)), *names, *_parameters(function), *_options(value)


def _as_read(value: Any) -> Any:
    """The same, of a function only its parameters, of numbers and arrays only their type."""
    function = getattr(value, "py_func", None)
    if isinstance(function, FunctionType):
        return "function", *_parameters(function)
    if isinstance(value, int | float | np.generic) and not isinstance(value, Enum):
        return type(value)
    if type(value) is np.ndarray:
        return np.ndarray, value.dtype
    if type(value) is tuple:
        return tuple, frozenset(map(_as_read, value))
    return _like(value)


def _parameters(function: FunctionType) -> tuple:
    code = function.__code__
    rest = (code.co_flags & inspect.CO_VARARGS > 0) + (code.co_flags & inspect.CO_VARKEYWORDS > 0)
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + rest]
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & 12
    defaults = map(_like, (function.__defaults__, tuple((function.__kwdefaults__ or {}).items())))
    return taken, counts, *defaults


def _options(function: Any) -> tuple:
    if getattr(function, "_can_compile", True) is False:
        raise _Unlike  # numba-cuda's own, for some signatures
    inline = getattr(function, "targetoptions", {}).get("inline", "never")
    signatures = _like(tuple(getattr(function, "device_signatures", ())))
    return repr(inline), signatures, getattr(function, "device", None)


def _like(value: Any) -> Any:
    """What is equal for values that mean the same to a kernel; what may change is `_Unlike`."""
    if type(value) in _PLAIN:
        return _PLAIN[type(value)], repr(value)
    if isinstance(value, slice):
        return slice, _like((value.start, value.stop, value.step))
    if isinstance(value, tuple):
        return _This(type(value)), *map(_like, value)
    if isinstance(getattr(value, "py_func", None), FunctionType):
        number = likeness(value.py_func)
        if number is None:
            raise _Unlike
        return number, *_options(value)
    if isinstance(value, types.Type):
        return value if is_plain(value) else _This(value)
    if type(value) is np.ndarray and not value.dtype.hasobject and value.nbytes <= MOST_BYTES:
        return value.dtype, value.shape, value.strides, value.tobytes()
    whole = isinstance(value, ModuleType)
    module = value.__name__ if whole else getattr(value, "__module__", None) or ""
    if (
        isinstance(value, np.dtype | np.ufunc | KernelName | BuiltinFunctionType | Enum)
        or (isinstance(value, type) and issubclass(value, _STEADY_TYPES))
        or ((whole or callable(value)) and module.partition(".")[0] in _STEADY)
    ):
        return _This(value)
    raise _Unlike


# ---------------------------------------------------------------------- in other processes
def digest(key: tuple) -> str | None:
    """A shape as a word that other processes have for it, too; None if there is none."""
    try:
        return hashlib.sha256(repr(key).encode()).hexdigest()[:32]
    except _Unlike:
        return None


def is_plain(kind: types.Type) -> bool:
    """Whether a type is one of numbers, arrays and tuples of them: what it says is all it is."""
    if isinstance(kind, types.Array):
        return is_plain(kind.dtype)
    if isinstance(kind, types.Tuple | types.UniTuple):
        return all(map(is_plain, kind))
    return type(kind) in _PLAIN_TYPES


_PLAIN_TYPES = {types.Integer, types.Float, types.Complex, types.Boolean, types.NoneType}


def _name_of(value: Any) -> str:
    """A word for what is the same in every process; what is not is `_Unlike`."""
    if isinstance(value, CodeType) and value.co_name != "<lambda>":
        try:
            text = text_of(value, value.co_filename)
        except (OSError, TypeError, SyntaxError):
            raise _Unlike from None
        return repr((value.co_filename, value.co_firstlineno, value.co_freevars, text))
    plain = isinstance(value, np.dtype) and not value.hasobject
    if plain or isinstance(value, KernelName) or value is type(None):
        return repr(value)
    whole = isinstance(value, ModuleType)
    if whole and type(value).__module__ == "warpsim.redirect":
        return f"simulated {value.__name__}"
    module = value.__name__ if whole else getattr(value, "__module__", None)
    module = module or ("numpy" if isinstance(value, np.ufunc) else "builtins")
    path = "" if whole else getattr(value, "__qualname__", getattr(value, "__name__", "?"))
    found = sys.modules.get(module)
    for name in filter(None, path.split(".")):
        found = getattr(found, name, None)
    if found is not value or module.partition(".")[0] not in _STEADY:
        raise _Unlike
    return f"{module} {path}"
