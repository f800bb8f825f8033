"""Compiled kernels on disk, so that a second process starts without a compiler.

A kernel's key is a hash of all that its machine code depends on: its code and that of **all**
functions that it calls, the constants that they use, options, argument types, versions, the GPU's
compute capability. (Numba's own cache looks at the kernel's file alone, and is stale after a change
in another file.) A kernel that uses an object whose value cannot be read is not cached.

The files lie in the user's cache folder, `folder`; COURSE_CACHE names another one, or is "off".
They hold code that is run: where there are POSIX permissions, a folder that others can write to is
not used, nor is another user's file. A renamed file is not used either. Files are written whole,
damaged ones are ignored, and beyond `MOST_BYTES` the oldest go. `clear` removes them all.

Kernels without a file are compiled with `shortcuts`: the same code, in two thirds of the CPU time.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import importlib.util
import os
import pickle
import platform
import sys
import threading
import time
import types as python
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from course import successor
from course.files import write_whole
from warpsim.core.own_files import is_own, own_content
from warpsim.ptx import bfloat16
from warpsim.ptx.instruction import Instruction, Intrinsic

MOST_BYTES = 256 * 1024 * 1024
MARK = b"course kernel 2\n"
_STARTED = time.time()
#: Packages whose version stands for their contents in a key.
_VERSIONED = (
    "numba", "numpy", "llvmlite", "math", "operator", "cuda", "numba_cuda", "numba_cuda_mlir"
)  # fmt: skip


class NotCacheable(TypeError):
    """A kernel whose machine code depends on something that cannot be read."""


def folder() -> Path | None:
    """Where compiled kernels are stored; None where they are not."""
    chosen = os.environ.get("COURSE_CACHE", "")
    if chosen.lower() == "off":
        return None
    if chosen:
        return Path(chosen)
    try:
        if sys.platform == "win32":
            base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        else:
            base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a user without a home
        return None
    return Path(base) / "course-kernels"


def clear() -> int:
    """Remove all that is cached; returns how many files that were."""
    directory, found = folder(), 0
    if directory is None or not directory.is_dir():
        return 0
    for file in (*directory.glob("*.kernel"), *directory.glob(".*.part")):
        with contextlib.suppress(OSError):
            file.unlink()
            found += 1
    return found


# --- what a kernel depends on ---------------------------------------------------------------------


def key_of(dispatcher: Any, signature: Any, target: str) -> str:
    """The key of a kernel: another one wherever the machine code may differ.

    Raises
    ------
    NotCacheable
    """
    digest = hashlib.sha256()
    seen: set[int] = set()
    types = str(getattr(signature, "args", signature))
    loads = _of_file(bfloat16.__file__) if str(bfloat16.bfloat16) in types else ""
    for part in (MARK.decode(), target, types, loads, *_of_function(dispatcher, seen)):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def size_of(dispatcher: Any) -> int:
    """How much code a kernel and its callees have: a guess at how long compiling takes."""
    with contextlib.suppress(NotCacheable, OSError, AttributeError):
        return sum(map(len, _of_function(dispatcher, set())))
    return 0


def target_here() -> str:
    """The versions and the compute capability that machine code depends on, as a text."""
    import llvmlite
    import numba

    # not `backend.cuda`: that tries the GPU with a cached kernel, whose key needs this function
    cuda = successor.numba_cuda()
    package = importlib.import_module(successor.compiler().replace("-", "_"))
    device = cuda.get_current_device()
    return repr((
        numba.__version__, package.__name__, package.__version__, llvmlite.__version__,
        np.__version__, platform.python_version(), platform.machine(),
        tuple(device.compute_capability), tuple(cuda.runtime.get_version()),
        *map(_of_file, successor.files()),
    ))  # fmt: skip


def _of_function(dispatcher: Any, seen: set[int]) -> Iterator[str]:
    """What a function's machine code depends on, as texts: its options, its code, its callees."""
    if id(dispatcher) in seen:
        yield "again"
        return
    seen.add(id(dispatcher))
    options = successor.told(dict(getattr(dispatcher, "targetoptions", {})))
    for name in sorted(options):
        yield name
        yield from _of_value(options[name], seen)
    yield from _of_code(dispatcher.py_func, seen)


def _of_code(function: Any, seen: set[int]) -> Iterator[str]:
    code, names = function.__code__, _names(function.__code__)
    yield from _of_code_object(code)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield name
        yield from _of_value(cell.cell_contents, seen, names)
    yield from _of_value(function.__defaults__ or (), seen)
    for name in sorted(names):
        if name in function.__globals__:
            yield name
            yield from _of_value(function.__globals__[name], seen, names)


def _of_code_object(code: python.CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount))
    for constant in code.co_consts:
        if isinstance(constant, python.CodeType):
            yield from _of_code_object(constant)
        else:
            yield repr(constant)


def _names(code: python.CodeType) -> frozenset[str]:
    inner = (part for part in code.co_consts if isinstance(part, python.CodeType))
    return frozenset(code.co_names).union(*map(_names, inner))


def _of_value(value: Any, seen: set[int], names: frozenset = frozenset()) -> Iterator[str]:
    """What identifies a value that a function uses; NotCacheable where nothing does."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, tuple | list):
        yield f"{len(value)} of"
        for one in value:
            yield from _of_value(one, seen)
    elif isinstance(value, dict):
        for name in sorted(value, key=repr):
            yield repr(name)
            yield from _of_value(value[name], seen)
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    elif hasattr(value, "py_func") and hasattr(value, "targetoptions"):
        yield from _of_function(value, seen)
    elif isinstance(value, bfloat16.Bfloat16):
        yield _of_file(bfloat16.__file__)
    elif isinstance(value, python.ModuleType):
        yield value.__name__
        if value.__name__.partition(".")[0] not in _VERSIONED:
            yield _of_file(getattr(value, "__file__", None))
            for name in sorted(names & vars(value).keys()):  # what `module.name` stands for
                with contextlib.suppress(NotCacheable):  # the module's file stands for the others
                    yield from _of_value(vars(value)[name], seen, names - {name})
    elif isinstance(value, python.BuiltinFunctionType | type):
        yield f"{value.__module__} {value.__qualname__}"
    elif _module(value).partition(".")[0] in _VERSIONED:
        name = getattr(value, "__name__", None) or repr(value)
        if " at 0x" in name:
            raise NotCacheable(name)
        yield f"{_module(value)} {name}"
    elif _definition(value) is not None:  # Python that runs when a kernel is compiled
        function = _definition(value)
        yield function.__qualname__
        yield _of_file(sys.modules[function.__module__].__file__)
        if isinstance(value, Instruction):
            yield _of_file(sys.modules[Instruction.__module__].__file__)
    else:
        raise NotCacheable(f"a {type(value).__name__}")


def _module(value: Any) -> str:
    return getattr(value, "__module__", None) or type(value).__module__


def _definition(value: Any) -> Any:
    """The Python function behind a function or an intrinsic."""
    found = getattr(value, "_defn", value)
    if isinstance(value, Intrinsic):
        found = value.__wrapped__
    return found if isinstance(found, python.FunctionType) else None


@functools.cache
def _of_file(file: str | None) -> str:
    if file is None:
        raise NotCacheable("a module without a file")
    if Path(file).stat().st_mtime > _STARTED:
        raise NotCacheable(f"{file} was changed since it was imported")
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


# --- files ----------------------------------------------------------------------------------------


class DiskCache:
    """A dispatcher's cache: numba-cuda loads from it before it compiles, and saves to it after."""

    cache_path = None

    def __init__(self, dispatcher: Any):
        self.dispatcher = dispatcher

    def _file(self, signature: Any) -> Path | None:
        directory = _safe_folder()
        if directory is None:
            return None
        with contextlib.suppress(NotCacheable, OSError, KeyError, AttributeError, ImportError):
            return directory / f"{key_of(self.dispatcher, signature, target_here())}.kernel"
        return None

    def lacks(self, signature: Any) -> bool:
        """Whether a kernel of these types could be stored, and is not."""
        file = self._file(signature)
        return file is not None and not file.exists()

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The compiled kernel, or None."""
        file = self._file(signature)
        if file is None:
            return None
        content = own_content(file, MOST_BYTES)
        if content is None:
            return None
        found, rest = content[: len(MARK) + 32], content[len(MARK) + 32 :]
        if found != MARK + hashlib.sha256(rest).digest():
            with contextlib.suppress(OSError):
                file.unlink()  # cut off, or changed
            return None
        try:
            target_context.refresh()
            name, states = pickle.loads(rest)
            if name != file.name:
                return None
            if successor.is_chosen():
                kernel = successor.loaded(signature, states)
            else:
                from numba.cuda.dispatcher import _Kernel

                kernel = _Kernel._rebuild(**states)
            with contextlib.suppress(OSError):
                os.utime(file)  # `_bound` removes the least recently used first
            return kernel
        except Exception:  # another version of numba-cuda stored it: compile again
            return None

    def save_overload(self, signature: Any, kernel: Any) -> None:
        """Store a compiled kernel; silently do nothing where that is not possible."""
        file = self._file(signature)
        if file is None:
            return
        with contextlib.suppress(Exception):
            if successor.is_chosen():
                content = pickle.dumps((file.name, successor.stored(kernel)))
            else:
                from numba.cuda import serialize

                content = serialize.dumps((file.name, kernel._reduce_states()))
            write_whole(file, MARK + hashlib.sha256(content).digest() + content, mode=0o600)
            _bound(file.parent)

    def enable(self) -> None:
        """The cache is always enabled, whatever Numba's dispatchers ask for."""

    disable = flush = enable


def _safe_folder() -> Path | None:
    """The folder, made; None where there is none, or others can write to it."""
    directory = folder()
    if directory is None:
        return None
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = directory.stat()
    except OSError:
        return None
    if not is_own(about):
        warnings.warn(
            f"{str(directory)!r} belongs to somebody else or can be written by others, so compiled "
            "kernels are not kept there: chmod go-w, or name another folder, COURSE_CACHE",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return directory


def _bound(directory: Path) -> None:
    """Remove the oldest files beyond `MOST_BYTES`."""
    files = []
    for file in directory.glob("*.kernel"):
        with contextlib.suppress(OSError):
            about = file.stat()
            files.append((about.st_mtime, about.st_size, file))
    total = sum(size for _, size, _ in files)
    for _, size, file in sorted(files, key=lambda one: one[0]):
        if total <= MOST_BYTES:
            return
        with contextlib.suppress(OSError):
            file.unlink()
            total -= size


# --- compiling ------------------------------------------------------------------------------------


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """Compile faster in this thread within the block; other threads' compilations wait.

    Python's garbage collector is off. Numba resolves an operator or function for certain types, a
    function's signature and a type's size only once, not at each use. Its passes report no events,
    and variables' lifetimes are computed only where a pass reads them.
    NVVM makes the linker's input alone, and no PTX: Numba only looks for names in that text, which
    NVVM's input has, too. Where Numba's insides are not as expected, it compiles as usual.
    """
    try:
        from numba.cuda import codegen, types, utils
        from numba.cuda.core import base, postproc, transforms
        from numba.cuda.core import compiler_machinery as passes
        from numba.cuda.core.compiler_lock import global_compiler_lock
        from numba.cuda.descriptor import cuda_target

        places = (
            (codegen.CUDACodeLibrary, "get_asm_str"), (types.BaseFunction, "get_call_type"),
            (base.BaseContext, "get_abi_sizeof"), (postproc.PostProcessor, "run"),
            (passes.PassManager, "_runPass"), (utils, "pysignature"),
        )  # fmt: skip
        before = [getattr(owner, name) for owner, name in places]
        lifetime, canonical = postproc.VariableLifetime, transforms.canonicalize_cfg
        about, context = passes._pass_registry.get, passes.errors.new_error_context
    except (ImportError, AttributeError):
        yield
        return
    get_asm_str, get_call_type, get_size, process, _, signature = before
    here, known, sizes = threading.get_ident(), {}, {}

    def text(self: Any, *which: Any, **named: Any) -> str:
        for_linker = getattr(self, "_lto", False) and not cuda_target.target_context.enable_nrt
        if for_linker and threading.get_ident() == here:
            return self.get_llvm_str()
        return get_asm_str(self, *which, **named)

    def call_type(self: Any, context: Any, arguments: tuple, named: dict) -> Any:
        key = self, context, arguments
        if named or threading.get_ident() != here:
            return get_call_type(self, context, arguments, named)
        if key in known:
            return known[key]
        found = get_call_type(self, context, arguments, named)
        if self.get_impl_key(found) == self.typing_key:  # others are compiled for the caller
            known[key] = found
        return found

    def size(self: Any, kind: Any) -> int:
        key = str(kind)  # all structure types of llvmlite have one hash
        if key not in sizes:
            sizes[key] = get_size(self, kind)
        return sizes[key]

    def processed(self: Any, emit_dels: bool = False, **named: Any) -> None:
        code = self.func_ir
        if emit_dels or code.is_generator:
            process(self, emit_dels, **named)
            return
        code.blocks, code.generator_info = canonical(code.blocks), None
        code.variable_lifetime = lifetime(code.blocks)

    def run(self: Any, index: int, one: Any, state: Any) -> None:
        one.analysis = self._analysis
        with context(f"Pass {one.name()}"):
            steps = one.run_initialization, one.run_pass, one.run_finalizer
            changed = sum(step(state) for step in steps)
        if about(type(one)).mutates_CFG:
            if changed:
                postproc.PostProcessor(state.func_ir).run()
            else:
                state.func_ir.blocks = canonical(state.func_ir.blocks)

    after = text, call_type, size, processed, run, functools.cache(signature)
    with global_compiler_lock:
        for (owner, name), new in zip(places, after, strict=True):
            setattr(owner, name, new)
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            for (owner, name), old in zip(places, before, strict=True):
                setattr(owner, name, old)
            if collects:
                gc.enable()


# --- kernels --------------------------------------------------------------------------------------


@functools.cache
def _without_scipy() -> None:
    """Import Numba's array functions without SciPy: they would import its linear algebra (0.15 s)
    only to learn whether it is there.
    """
    with contextlib.suppress(ImportError, AttributeError):
        linalg = importlib.import_module("numba.cuda.np.linalg")
        ask, linalg.ensure_blas = linalg.ensure_blas, lambda: None
        try:
            if importlib.util.find_spec("scipy"):
                importlib.import_module("numba.cuda.np.arraymath")
        finally:
            linalg.ensure_blas = ask


def cached(*kernels: Any) -> None:
    """Cache kernels on disk; those of numba.cuda are compiled with `shortcuts`, too."""
    if not successor.is_chosen():
        _without_scipy()
    for kernel in kernels:
        if hasattr(kernel, "_cache") and not isinstance(kernel._cache, DiskCache):
            kernel._cache = DiskCache(kernel)
            if not successor.is_chosen():
                kernel.compile = shortcuts()(kernel.compile)


def kernels_of(*modules: python.ModuleType) -> Iterator[Any]:
    """The kernels among the names of modules, and in their dicts."""
    for module in modules:
        for value in vars(module).values():
            for one in value.values() if isinstance(value, dict) else (value,):
                if hasattr(one, "py_func") and hasattr(one, "_cache"):
                    yield one
