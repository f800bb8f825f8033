"""Reads what is to be compiled: a kernel's function, its options and its argument types."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

from course.compiler import toolchain
from course.compiler.real_kernels import is_device_function


def function_of(kernel: Any) -> tuple[FunctionType, dict[str, Any]]:
    """The Python function of a kernel, and the options it was declared with."""
    function = getattr(kernel, "py_func", kernel)
    if not isinstance(function, FunctionType):
        inner = getattr(kernel, "kernel", None) or getattr(kernel, "dispatcher", None)
        if getattr(inner, "py_func", None) is not None:
            raise TypeError(
                f"give the kernel without its launch configuration: "
                f"compiled({inner.py_func.__name__}, ...)"
            )
        raise TypeError(
            f"{kernel!r} is not a kernel: give a function, or one decorated with @cuda.jit"
        )
    if is_device_function(kernel):
        raise TypeError(
            f"{function.__name__} is a device function: compile a kernel that calls it, with its "
            "lines in the result"
        )
    options = getattr(kernel, "targetoptions", None)
    options = options if isinstance(options, dict) else {}
    if options.get("link"):
        raise TypeError(
            f"{function.__name__} is declared with link=...: kernels with files of their own to "
            "link are not compiled here"
        )
    return function, options


def parameters_of(function: FunctionType, name: str) -> list[str]:
    """The names of a kernel's parameters; `name` is the kernel's, for errors."""
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind not in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters):
        raise TypeError(
            f"{name} has *args, **kwargs or keyword-only arguments: name each one, in order"
        )
    return [one.name for one in parameters]


# ---------------------------------------------------------------------- argument types
def arguments_of(kernel: Any, given: Any) -> tuple[Any, ...]:
    """Numba types of a kernel's arguments, which are `given` as `compiled` takes them."""
    from numba.core.errors import NumbaError
    from numba.core.sigutils import normalize_signature
    from numba.core.typing.templates import Signature

    if given is None:
        return _declared(kernel)
    if isinstance(given, str | Signature):
        try:
            types, result = normalize_signature(given)
        except (NumbaError, SyntaxError, NameError, TypeError, AttributeError) as error:
            raise TypeError(
                f"the signature {given!r} cannot be read ({type(error).__name__}: {error}); write "
                'it like "void(float32[:, :], int32)"'
            ) from error
        if result is not None and str(result) != "none":
            raise TypeError(f"the signature {given!r} returns {result}; a kernel returns nothing")
        return tuple(types)
    if not isinstance(given, tuple | list):
        raise TypeError(
            f"args_or_signature is a {type(given).__name__}: give the arguments as a tuple, as at "
            "a launch, or a signature"
        )
    return tuple(_type_of(value, position) for position, value in enumerate(given))


def _declared(kernel: Any) -> tuple[Any, ...]:
    known = getattr(kernel, "signatures", None) or ()  # of the simulator's kernels
    declared = known[0] if len(known) == 1 else None
    if declared is None:
        signatures = list(getattr(kernel, "overloads", None) or ())
        declared = signatures[0] if len(signatures) == 1 else None
    if declared is None:
        raise TypeError(
            "the kernel's argument types are not known: give the arguments of a launch, or a "
            'signature such as "void(float32[:, :], int32)"'
        )
    return tuple(declared)


def _type_of(value: Any, position: int) -> Any:
    """The Numba type of one argument, or of a Numba or NumPy type given in its place."""
    import numpy as np
    from numba import from_dtype, types

    if isinstance(value, types.Type):
        return value
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return from_dtype(np.dtype(value))
    if type(value).__name__ in ("In", "Out", "InOut"):  # of numba.cuda
        value = getattr(value, "value", value)
    value = getattr(value, "_memory", value)  # the simulator's device arrays
    kind = toolchain.type_of(value)
    if kind is None or isinstance(kind, types.UnicodeType):
        raise TypeError(
            f"argument {position} is a {type(value).__name__}, which a kernel cannot take: give "
            "arrays (NumPy or device), numbers and tuples of them, or Numba types"
        )
    return kind
