"""Which functions are alike: the same code, and what it finds outside of itself is the same.

A factory that makes a device function anew for each solver makes the same one again and again; one
program serves them all. Who holds something that may change meanwhile is like nobody else.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import types

from warpsim.front.names import KernelName
from warpsim.front.successor import marked

#: Modules whose names nobody gives other values.
_STEADY = frozenset(
    "builtins cmath math numba numba_cuda numba_cuda_mlir numpy operator warpsim".split()
)
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
#: Bytes of an array outside the kernel that are compared.
MOST_BYTES = 1 << 16


class _Unlike(Exception):
    """What a function finds may change; it is like no other."""


class _This:
    """An object that is like itself alone, and stays as long as something is compared with it."""

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _This) and other.value is self.value


_numbers: dict[tuple, int] = {}
#: What has been told of functions while one is asked; None for one that is being asked, too.
_told: dict[FunctionType, int | None] = {}


def likeness(function: FunctionType) -> int | None:
    """A number that functions have in common which are alike; None for one that may change."""
    if function in _told:
        return _told[function]
    is_first = not _told
    _told[function] = None  # what calls itself is its own
    try:
        key = function.__code__, function.__module__, marked(function), *_found_by(function)
        number = _told[function] = _numbers.setdefault(key, len(_numbers))
        return number
    except _Unlike:
        return None
    finally:
        if is_first:
            _told.clear()


def _found_by(function: FunctionType) -> Iterator[Any]:
    for held in (function.__defaults__ or (), tuple((function.__kwdefaults__ or {}).items())):
        yield _like(held)
    for cell in function.__closure__ or ():
        try:
            yield _like(cell.cell_contents)
        except ValueError:
            raise _Unlike from None  # it has no value yet
    outside = function.__globals__
    for name in sorted(_names(function.__code__)):
        if name in outside:
            yield name, _like(outside[name])


def _names(code: CodeType) -> set[str]:
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _like(value: Any) -> Any:
    """What is equal for values that mean the same to a kernel.

    Raises
    ------
    _Unlike
        For what may change.
    """
    if isinstance(value, _PLAIN) and not isinstance(value, Enum):
        return type(value), repr(value)
    if isinstance(value, slice):
        return slice, _like((value.start, value.stop, value.step))
    if isinstance(value, tuple):
        return type(value), *map(_like, value)
    if isinstance(getattr(value, "py_func", None), FunctionType):
        number = likeness(value.py_func)
        if number is None:
            raise _Unlike
        inline = getattr(value, "targetoptions", {}).get("inline", "never")
        signatures = tuple(getattr(value, "device_signatures", ()))
        return number, repr(inline), signatures, getattr(value, "device", None)
    if isinstance(value, types.Type):
        return value
    if isinstance(value, np.ndarray) and type(value) is np.ndarray and not value.dtype.hasobject:
        if value.nbytes <= MOST_BYTES:
            return value.dtype, value.shape, value.strides, value.tobytes()
    if isinstance(value, np.dtype | np.ufunc | KernelName | BuiltinFunctionType | Enum):
        return _This(value)
    if isinstance(value, ModuleType) and value.__name__.partition(".")[0] in _STEADY:
        return _This(value)
    if isinstance(value, type) and (
        issubclass(value, np.generic | Enum | BaseException | types.Type)
        or value.__module__ == "builtins"
    ):
        return _This(value)
    module = getattr(value, "__module__", None) or ""
    if callable(value) and module.partition(".")[0] in _STEADY:
        return _This(value)
    raise _Unlike
