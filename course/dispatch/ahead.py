"""Compile a program's kernels in several processes, before its first launches.

Numba compiles a kernel at its first launch, one after the other, some seconds each. Instead
`compile_ahead` first collects the kernels and their argument types, without a launch. Kernels that
are neither compiled nor on disk are compiled by forks of this process (`os.fork`): a fork imports
nothing again, and compiles without the driver, which does not work in a fork. `course.kernel_cache`
stores the kernels, and the launches load them from there. Where anything is not as expected, Numba
compiles them as usual.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from course import backend, kernel_cache, successor
from course.dispatch.prepared import type_of

FEWEST = 2  # kernels from which on forks are worth their start
MOST = 16  # forks
LONGEST = 60.0  # seconds that a fork may still work when this process has compiled its kernel


class Noted(NamedTuple):
    """A kernel that was not launched, and the types of its arguments."""

    kernel: Any
    types: tuple


@contextlib.contextmanager
def _noting(found: list[Noted]) -> Iterator[None]:
    """Within the block, collect this thread's launches through Numba in `found`; launch nothing."""
    from numba.cuda.dispatcher import CUDADispatcher

    launch, here = CUDADispatcher.call, threading.get_ident()

    def call(dispatcher: Any, args: tuple, *how: Any) -> Any:
        if threading.get_ident() != here:
            return launch(dispatcher, args, *how)
        found.append(Noted(dispatcher, tuple(type_of(one, dispatcher) for one in args)))
        return None

    CUDADispatcher.call = call
    try:
        yield
    finally:
        CUDADispatcher.call = launch


_alone = threading.Lock()


def compile_ahead(launches: Callable[[], Any]) -> int:
    """Compile in several processes what `launches` would launch; launch nothing.

    `launches` launches through Numba, or returns launches. Returned is how many kernels went to
    other processes: 0 without a GPU, a folder for compiled kernels or `os.fork`, where few kernels
    are missing, and with numba-cuda-mlir, which launches otherwise.
    """
    ready = backend.gpu() is not None and kernel_cache.folder() is not None
    if not ready or successor.is_chosen() or not hasattr(os, "fork"):
        return 0
    noted: list[Noted] = []
    with _alone:
        with _noting(noted):
            for one in launches() or ():
                types = (type_of(argument, one.kernel) for argument in one.arguments)
                noted.append(Noted(one.kernel, tuple(types)))
        missing = sorted(_missing(noted), key=lambda one: -kernel_cache.size_of(one.kernel))
        return _in_processes(missing) if len(missing) >= FEWEST else 0


def _missing(noted: list[Noted]) -> list[Noted]:
    """The kernels that neither this process nor the folder on disk has, each once."""
    found = {}
    for one in noted:
        kernel_cache.cached(one.kernel)
        if one.types not in one.kernel.overloads and one.kernel._cache.lacks(one.types):
            found[id(one.kernel), one.types] = one
    return list(found.values())


def _in_processes(missing: list[Noted]) -> int:
    """Compile the first kernel in this process and the others in forks of it."""
    from numba.cuda.core.compiler_lock import global_compiler_lock

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    count = min(len(missing) - 1, MOST, max((cores or 1) - 1, 1))
    compile_one, copies = _compiler(missing[0].kernel), []
    with global_compiler_lock, warnings.catch_warnings():  # no other thread may hold its locks
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks of a process with threads
        for start in range(count):
            copy = os.fork()
            if not copy:
                _work(compile_one, missing[1 + start :: count])
            copies.append(copy)
    try:
        missing[0].kernel.compile(missing[0].types)
    finally:
        _wait(copies, time.monotonic() + LONGEST)
    return len(missing) - 1


def _compiler(kernel: Any) -> Callable[[Noted], None]:
    """A function that compiles and stores a kernel in a fork; the driver is asked here, before."""
    from numba.cuda import codegen, dispatcher

    kernel.typingctx.refresh()  # once, not in each fork
    kernel.targetctx.refresh()
    target, library = kernel_cache.target_here(), codegen.CUDACodeLibrary
    device = SimpleNamespace(compute_capability=dispatcher.get_current_device().compute_capability)
    capability = library._ensure_cc(None, None)

    def compile_one(one: Noted) -> None:
        kernel_cache.target_here = lambda: target
        dispatcher.get_current_device = lambda: device
        library._ensure_cc = lambda self, given: given or capability
        with kernel_cache.shortcuts():
            made = dispatcher._Kernel(one.kernel.py_func, one.types, **one.kernel.targetoptions)
            made.library.get_cubin()
        one.kernel._cache.save_overload(one.types, made)

    return compile_one


def _work(compile_one: Callable[[Noted], None], jobs: list[Noted]) -> None:
    """In a fork: compile the jobs, then end without Python's clean-up."""
    try:
        gc.disable()  # memory on the GPU is the parent's: a fork must not free it
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        for one in jobs:
            with contextlib.suppress(Exception):  # then the kernel is compiled at its launch
                compile_one(one)
    finally:
        os._exit(0)


def _wait(copies: list[int], end: float) -> None:
    """Wait for the forks; kill those that still work at `end`."""
    while copies:
        ended = os.waitpid(copies[0], os.WNOHANG)[0]
        if ended:
            copies.pop(0)
        elif time.monotonic() > end:
            os.kill(copies[0], signal.SIGKILL)
        else:
            time.sleep(0.01)
