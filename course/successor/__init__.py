"""numba-cuda-mlir in place of numba-cuda: the compiler that NVIDIA recommends as its successor.

It is used where ``COURSE_COMPILER=mlir`` asks for it, or where it is installed and numba-cuda is
not. It is imported only to compile or launch for a GPU, since its import takes seconds.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import io
import os
import threading
from contextlib import redirect_stdout
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numba import types

PACKAGE, DISTRIBUTION = "numba_cuda_mlir", "numba-cuda-mlir"
VERSION = "0.6.0"  # whose faults `course.successor.mended` knows
VARIABLE = "COURSE_COMPILER"
_answering = threading.RLock()
_GIVEN = (
    "debug", "device", "fastmath", "forceinline", "inline", "launch_bounds", "lineinfo", "lto",
    "_lto_explicit", "max_registers", "opt_level",
)  # fmt: skip


class UnknownVersion(RuntimeError):
    """A version of numba-cuda-mlir whose faults are not known."""


@functools.cache
def is_chosen() -> bool:
    """Whether numba-cuda-mlir compiles here, not numba-cuda.

    Raises
    ------
    ValueError
        When the variable says something else than "mlir", "numba-cuda" or nothing.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", "mlir", "numba-cuda"):
        raise ValueError(f"{VARIABLE} is {asked!r}: set it to mlir or numba-cuda, or not at all")
    if asked:
        return asked == "mlir"
    return not is_installed("numba-cuda") and is_installed(DISTRIBUTION)


def is_installed(distribution: str) -> bool:
    """Whether there is a package of that name to import."""
    try:
        return importlib.util.find_spec(distribution.replace("-", "_")) is not None
    except (ImportError, ValueError):  # the latter where a module without a spec stands for it
        return False


def compiler() -> str:
    """The distribution that compiles here: numba-cuda or numba-cuda-mlir."""
    return DISTRIBUTION if is_chosen() else "numba-cuda"


def above() -> str:
    """The package that has numba.cuda's modules, such as ``cudadrv``, for the chosen compiler."""
    return f"{PACKAGE}.numba_cuda" if is_chosen() else "numba.cuda"


@functools.cache
def cuda() -> ModuleType:
    """numba-cuda-mlir's ``cuda``, its faults mended, with the course's instructions and types.

    Raises
    ------
    ImportError
        Where it is not installed.
    UnknownVersion
        Where it is a version that the course does not know.
    """
    version = importlib.metadata.version(DISTRIBUTION)
    if version != VERSION:
        raise UnknownVersion(
            f"{DISTRIBUTION} {version} is installed, and the course knows the faults of {VERSION}: "
            f'python -m pip install "{DISTRIBUTION}=={VERSION}"'
        )
    found = importlib.import_module(f"{PACKAGE}.cuda")
    importlib.import_module(f"{__name__}.mended")
    importlib.import_module(f"{__name__}.facade").register()
    return found


def numba_cuda() -> ModuleType:
    """``numba.cuda`` of the package numba-cuda, or what numba-cuda-mlir has in its place."""
    if is_chosen():
        return cuda()
    importlib.import_module("numba.cuda.random")  # so that cuda.random is there, as simulated
    return importlib.import_module("numba.cuda")


def translation() -> ModuleType:
    """The module that translates types and instructions: `course.successor.facade`."""
    cuda()
    return importlib.import_module(f"{__name__}.facade")


def compiled(
    function: FunctionType, signature: tuple[types.Type, ...], target: str, **options: Any
) -> dict[str, Any]:
    """Compile a kernel; results by the compiler's names: "ptx" or "ltoir", "cubin", "linker".

    `options` are those of ``cuda.jit``.
    """
    kinds = tuple(map(translation().moved, signature))
    tools = importlib.import_module(f"{PACKAGE}.tools")
    compiler = importlib.import_module(f"{PACKAGE}.compiler")
    with _answering, redirect_stdout(io.StringIO()):  # it prints modules that it refuses
        before = tools._cached_cc  # else it asks the driver, even where the target is given
        tools._cached_cc = tools.parse_compute_capability(target)
        try:
            chosen = {"chip": target, **options}
            return compiler._compile_and_optimize(function, kinds, chosen).metadata
        finally:
            tools._cached_cc = before


def codes(
    function: FunctionType, signature: tuple[types.Type, ...], target: str, lto: bool,
    **options: Any,
) -> list[bytes]:  # fmt: skip
    """The linker's input, LTO-IR of a kernel and then its libraries, or PTX of the kernel."""
    made = compiled(function, signature, target, lto=lto, **options)
    if not lto:
        return [made["ptx"].encode()]
    libraries = (code for code in made["linker"]._ltoirs.values() if code != made["ltoir"])
    return [made["ltoir"], *libraries]


# --- on disk: for `course.kernel_cache` -----------------------------------------------------------


def files() -> list[str]:
    """The files of this folder that the machine code of all kernels depends on."""
    parts = ("mended", "facade") if is_chosen() else ()
    return [importlib.import_module(f"{__name__}.{part}").__file__ for part in parts]


def told(options: dict[str, Any]) -> dict[str, Any]:
    """The options that the user gave a dispatcher, without those that it adds as it compiles."""
    return {name: options[name] for name in _GIVEN if name in options} if is_chosen() else options


def stored(made: Any) -> dict[str, Any]:
    """The part of a compiled kernel that a launch needs, to be stored on disk.

    Raises
    ------
    ValueError
        For a kernel that needs more than its machine code.
    """
    about = made.metadata
    if about.get("needs_nrt") or about.get("setup_callbacks") or about.get("teardown_callbacks"):
        raise ValueError("something is to be called when it is loaded")
    return {name: about.get(name) for name in ("cubin", "func_name", "use_cooperative")}


def loaded(signature: Any, states: dict[str, Any]) -> Any:
    """A compiled kernel as numba-cuda-mlir's dispatchers take it, from what was `stored`."""
    caching = importlib.import_module(f"{PACKAGE}.caching")
    none = importlib.import_module(f"{PACKAGE}.numba_cuda.types").none
    return caching.CachedCompileResult(none(*getattr(signature, "args", signature)), states)
