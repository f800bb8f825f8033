"""A function's simulated twin: the same source, with the simulator in place of numba.cuda.

On a GPU machine a wrong kernel can poison the whole session, so `check` first runs an answer's
twin.
"""

from __future__ import annotations

import sys
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from warpsim import cuda as host


def is_gpu_kernel(value: Any) -> bool:
    """Whether a value is a kernel or device function of numba.cuda."""
    return any(base.__name__ == "CUDADispatcher" for base in type(value).__mro__)


def simulated_twin(function: FunctionType) -> FunctionType | None:
    """A copy of `function` whose kernels are simulated, or None where it uses no GPU at all.

    Followed are the global names and closures that it, its kernels and the functions of the same
    module use: numba.cuda, kernels, CuPy (which becomes NumPy).
    """
    memory: dict[int, Any] = {}
    twin = _twin(function, memory)
    return twin if any(_is_gpu(original) for original, _ in memory.values()) else None


def _is_gpu(value: Any) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__ in ("numba.cuda", "cupy")
    return is_gpu_kernel(value)


def _twin(value: Any, memory: dict[int, Any]) -> Any:
    if id(value) in memory:
        return memory[id(value)][1]
    if isinstance(value, ModuleType) and _is_gpu(value):
        replacement: Any = host if value.__name__ == "numba.cuda" else np
    elif is_gpu_kernel(value):
        device = bool(value.targetoptions.get("device"))
        copy = _copy(value.py_func, memory)
        replacement = host.jit(copy, device=device)
    elif isinstance(value, FunctionType) and _is_readers(value):
        return _copy(value, memory)
    else:
        return value
    memory[id(value)] = (value, replacement)
    return replacement


def _is_readers(function: FunctionType) -> bool:
    """Whether a function is the reader's own; installed packages are left as they are."""
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None) or ""
    top = (function.__module__ or "").partition(".")[0]
    return "site-packages" not in file and top not in ("course", "course_app", "course_models")


def _copy(function: FunctionType, memory: dict[int, Any]) -> FunctionType:
    if id(function) in memory:
        return memory[id(function)][1]
    names = dict(function.__globals__)
    cells = tuple(CellType() for _ in function.__closure__ or ())
    copy = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, cells or None
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    # Kept before its parts are looked at: a function may name itself.
    memory[id(function)] = (function, copy)
    for name in _names(function.__code__):
        if name in names:
            names[name] = _twin(names[name], memory)
    for cell, original in zip(cells, function.__closure__ or (), strict=True):
        try:
            cell.cell_contents = _twin(original.cell_contents, memory)
        except ValueError:
            continue  # a name that has no value yet stays without one
    return copy


def _names(code: CodeType) -> set[str]:
    """Names that a function's code uses, those of functions inside it too."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found
