"""The first run of what launches many kernels: compilers at work in several processes.

Numba compiles a kernel when it is launched first, one after the other, some seconds each. What
launches many notes them before: the kernels and their types of arguments, without a launch. Those
that no process has compiled yet are compiled by processes, one kernel each, and stored by
`course.kernel_cache`, from where the launches load them. Where anything is not as expected, Numba
compiles them as ever.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from course import backend, kernel_cache, successor
from course.dispatch.prepared import type_of

FEWEST = 3  # kernels for which processes are worth their start, 2 s
MOST = 16  # processes
PROGRAM = "from course.dispatch.ahead import serve; serve()"


class Noted(NamedTuple):
    """A kernel that was not launched, and the types of its arguments."""

    kernel: Any
    types: tuple


@contextlib.contextmanager
def _noting(found: list[Noted]) -> Iterator[None]:
    """This thread's launches by Numba are noted, not made."""
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
    """Compile what `launches` launches by Numba, in several processes; nothing is launched.

    Returns
    -------
    int
        How many kernels were compiled by other processes. 0 without a GPU, without a folder for
        compiled kernels, where few are missing, and with numba-cuda-mlir, which launches otherwise.
    """
    if backend.gpu() is None or kernel_cache.folder() is None or successor.is_chosen():
        return 0
    noted: list[Noted] = []
    with _alone:
        with _noting(noted):
            launches()
        missing = sorted(_missing(noted), key=lambda one: -kernel_cache.size_of(one.kernel))
        jobs = [job for job in map(_job, missing) if job is not None]
        if len(jobs) < FEWEST:
            return 0
        return _in_processes(jobs)


def _missing(noted: list[Noted]) -> list[Noted]:
    """Those that neither this process nor the folder has, each once."""
    found = {}
    for one in noted:
        kernel_cache.cached(one.kernel)
        if one.types not in one.kernel.overloads and one.kernel._cache.lacks(one.types):
            found[id(one.kernel), one.types] = one
    return list(found.values())


def _job(one: Noted) -> tuple[str, int, tuple] | None:
    """How another process finds the kernel: its module, and which of its kernels it is."""
    module = one.kernel.py_func.__module__
    for index, kernel in enumerate(kernel_cache.kernels_of(sys.modules[module])):
        if kernel is one.kernel:
            return module, index, one.types
    return None


def _in_processes(jobs: list[tuple[str, int, tuple]]) -> int:
    """This process compiles the first kernel, as it need not start; others the rest."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    count = min(len(jobs) - 1, MOST, max((cores or 1) - 1, 1))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    others = []
    for start in range(count):
        its = pickle.dumps(jobs[1 + start :: count])
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with contextlib.suppress(OSError):  # it has ended: what it lacks is compiled here
            process.stdin.write(its)
            process.stdin.close()
        others.append(process)
    try:
        _compile(jobs[:1])
    finally:
        for process in others:
            process.wait()
    return len(jobs) - 1


def _compile(jobs: list[tuple[str, int, tuple]]) -> None:
    for module, index, types in jobs:
        kernel = list(kernel_cache.kernels_of(importlib.import_module(module)))[index]
        kernel_cache.cached(kernel)
        kernel.compile(types)


def serve() -> None:
    """Compile what stands on the standard input, and store it."""
    _compile(pickle.loads(sys.stdin.buffer.read()))
