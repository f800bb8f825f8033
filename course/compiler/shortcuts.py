"""Numba's way to a kernel's machine code without what it does for nothing, or again and again.

A kernel comes out the same, in two thirds of the CPU's time.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """What this thread compiles meanwhile takes them; other threads' compiles wait.

    Python does not look for garbage. Numba looks once for what an operator or a function of its own
    makes of certain types, not at each call. NVVM makes code for the linker alone, no PTX besides:
    Numba only looks for names there, which are in the text for NVVM, too. Where Numba's insides are
    not as expected, it compiles as ever.
    """
    try:
        from numba.cuda import codegen, types
        from numba.cuda.core.compiler_lock import global_compiler_lock
        from numba.cuda.descriptor import cuda_target

        library, function = codegen.CUDACodeLibrary, types.BaseFunction
        get_asm_str, get_call_type = library.get_asm_str, function.get_call_type
    except (ImportError, AttributeError):
        yield
        return
    here, known = threading.get_ident(), {}

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
        if self.get_impl_key(found) == self.typing_key:  # others are compiled, by the caller's flags
            known[key] = found
        return found

    with global_compiler_lock, _without_collections():
        library.get_asm_str, function.get_call_type = text, call_type
        try:
            yield
        finally:
            library.get_asm_str, function.get_call_type = get_asm_str, get_call_type


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def by_shortcuts(compile_kernel: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A kernel's method `compile` that takes them."""

    def compile_quickly(signature: Any) -> Any:
        with shortcuts():
            return compile_kernel(signature)

    return compile_quickly
