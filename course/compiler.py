"""Compiled facts: a kernel's machine code without a GPU.

`compiled` runs NVIDIA's own compilers, as a launch on a GPU does, and reads what they say:
registers, spills, shared memory, float64 instructions by line, widths of loads and stores, and
from these the occupancy. It needs the extra ``compile`` and no GPU and no installed toolkit.
"""

from __future__ import annotations

import inspect
import re
import weakref
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from course import toolchain
from course.compiled_facts import Compiled, Float64Line, float64_lines, has_float64
from course.ptx import access_widths, resources, shared_bytes
from course.real_kernels import RealKernel, is_device_function, origin
from course.toolchain import CompilerError, CompilerMissing

__all__ = ["Compiled", "CompilerError", "CompilerMissing", "Float64Line", "compiled"]


# ---------------------------------------------------------------------- compiling
_Key = tuple[tuple[Any, ...], str, bool, int | None, Any, bool]
_compiled: weakref.WeakKeyDictionary[FunctionType, dict[_Key, Compiled]]
_compiled = weakref.WeakKeyDictionary()


def compiled(
    kernel: Any,
    args_or_signature: Any = None,
    target: str = "sm_75",
    *,
    max_registers: int | None = None,
    fastmath: bool | None = None,
) -> Compiled:
    """Compile a kernel as a launch on a GPU would, and say what came out; needs no GPU.

    Parameters
    ----------
    kernel : kernel or function
        Of the simulator, of numba.cuda, or a function that could be decorated with ``@cuda.jit``.
    args_or_signature : tuple, Signature or str
        Arguments as at a launch (arrays, numbers), Numba types, or a signature such as
        ``"void(float32[:, :], float32[:])"``. Not needed where the kernel was declared with one.
    target : str
        "sm_75" (Tesla T4), "sm_80" (A100), "sm_89" (L4), "sm_90" (H100, H200), ...
    max_registers, fastmath : optional
        As for ``cuda.jit``; without them, those that the kernel was declared with. Whether it is
        optimised once more when it is linked (``lto``), the kernel's declaration alone says.

    Returns
    -------
    Compiled
        Kept: the same kernel, types and target are not compiled twice.

    Raises
    ------
    CompilerMissing
        Without NVIDIA's compilers (extra ``compile``), or when they are of several CUDA releases.
    CompilerError
        When NVIDIA's linker refuses the kernel.
    NoSource
        For a lambda, and for a function whose source cannot be found.
    numba.core.errors.TypingError
        When the kernel does not compile with these types.
    TypeError, ValueError
        For something that is not a kernel, other arguments than it takes, or an unknown target.
    """
    function, options = _function(kernel)
    if max_registers is None:
        max_registers = options.get("max_registers")
    fast = bool(options.get("fastmath") if fastmath is None else fastmath)
    bounds, lto = options.get("launch_bounds"), options.get("lto") is not False
    source = origin(function)
    wanted = _parameters(function, source.name)
    toolchain.capability(target)
    toolchain.require()
    signature = _signature(kernel, args_or_signature)
    if len(signature) != len(wanted):
        raise TypeError(
            f"{source.name} takes {len(wanted)} arguments ({', '.join(wanted)}), "
            f"{len(signature)} given"
        )
    toolchain.check_supported(target)
    known = _compiled.setdefault(function, {})
    key = (signature, target, fast, max_registers, bounds, lto)
    if key not in known:
        made = _Making(function, signature, target, fast, bounds, lto)
        known[key] = made.facts(max_registers)
    return known[key]


@dataclass(frozen=True)
class _Making:
    """One kernel on its way through the compilers."""

    function: FunctionType
    signature: tuple[Any, ...]
    target: str
    fastmath: bool
    launch_bounds: Any
    lto: bool = True

    def facts(self, max_registers: int | None) -> Compiled:
        name, what = self.function.__name__, self._what(RealKernel(self.function))
        if self.lto:
            codes = toolchain.compile_kernel(*what, **self._options())
            ptx = toolchain.linked_ptx(codes, name, self.target)
        else:
            ptx = toolchain.ptx_before_linking(*what, **self._options())
            codes = [ptx.encode()]
        sync = "cudaCGSynchronize" in ptx
        log = toolchain.link(codes, name, self.target, max_registers, sync, lto=self.lto)
        used = resources(log)
        lines: tuple[Float64Line, ...] = ()
        if has_float64(ptx):
            lines = float64_lines(*self.with_lines(uses_libraries=len(codes) > 1))
        release = re.search(r"release ([^\n]+)", ptx)
        return Compiled(
            name=name,
            signature=", ".join(map(str, self.signature)),
            target=self.target,
            registers=used.registers,
            spill_stores=used.spill_stores,
            spill_loads=used.spill_loads,
            shared_bytes=used.shared if self.lto else shared_bytes(ptx),
            local_bytes=used.stack,
            load_widths=access_widths(ptx, "ld"),
            store_widths=access_widths(ptx, "st"),
            toolkit=release[1].strip() if release else "unknown",
            ptx=ptx,
            float64_lines=lines,
        )

    def with_lines(self, uses_libraries: bool) -> tuple[str, RealKernel]:
        """PTX with line numbers. Apart from the one that is measured: a launch has none.

        A library's debug information does not link with Numba's, so a kernel that uses one is
        taken as it is before linking.
        """
        real = RealKernel(self.function, lineinfo=True)
        what, options = self._what(real), {**self._options(), "lineinfo": True}
        with real.readable():
            if uses_libraries:
                return toolchain.ptx_before_linking(*what, **options), real
            codes = toolchain.compile_kernel(*what, **options)
        return toolchain.linked_ptx(codes, self.function.__name__, self.target), real

    def _what(self, real: RealKernel) -> tuple[FunctionType, tuple[Any, ...], str]:
        return real.function, self.signature, self.target

    def _options(self) -> dict[str, Any]:
        return {"fastmath": self.fastmath, "launch_bounds": self.launch_bounds}


def _function(kernel: Any) -> tuple[FunctionType, dict[str, Any]]:
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


def _parameters(function: FunctionType, name: str) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind not in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters):
        raise TypeError(
            f"{name} has *args, **kwargs or keyword-only arguments: name each one, in order"
        )
    return [one.name for one in parameters]


# ---------------------------------------------------------------------- argument types
def _signature(kernel: Any, given: Any) -> tuple[Any, ...]:
    """Numba types of a kernel's arguments."""
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
    value = getattr(value, "value", value) if _is_directed(value) else value
    value = getattr(value, "_memory", value)  # the simulator's device arrays
    kind = toolchain.type_of(value)
    if kind is None or isinstance(kind, types.UnicodeType):
        raise TypeError(
            f"argument {position} is a {type(value).__name__}, which a kernel cannot take: give "
            "arrays (NumPy or device), numbers and tuples of them, or Numba types"
        )
    return kind


def _is_directed(value: Any) -> bool:
    """Whether a value is wrapped in ``cuda.In``, ``cuda.Out`` or ``cuda.InOut``."""
    return type(value).__name__ in ("In", "Out", "InOut") and hasattr(value, "value")
