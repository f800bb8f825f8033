"""One thread for each call of the linear-algebra library while many threads call it.

NumPy's OpenBLAS keeps a thread for each core and splits each SVD among them. Where an image goes to
each core already, those threads only get in one another's way: an SVD of 256x256 that takes 11 ms
on one thread has been seen to take 800 ms (`course/benches/pipeline.py` measures it). The variable
OPENBLAS_NUM_THREADS says how many, but only before NumPy is loaded; so the loaded library is asked.
"""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_SUFFIXES = ("64_", "_64_", "")
_PREFIXES = ("scipy_openblas", "openblas")

_lock = threading.Lock()
_users = 0
_before = 0


@cache
def _library() -> tuple[ctypes._CFuncPtr, ctypes._CFuncPtr] | None:
    """OpenBLAS's functions that get and set the number of threads; None for another library."""
    package = Path(np.__file__).parent
    places = (package.parent / "numpy.libs", package / ".dylibs")
    for file in sorted(file for place in places for file in place.glob("*openblas*")):
        try:
            library = ctypes.CDLL(str(file))  # the one that is loaded already
        except OSError:
            continue
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                get = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
                put = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
                if get is not None and put is not None:
                    return get, put
    return None


def threads() -> int | None:
    """How many threads a call of NumPy's OpenBLAS uses; None where that is not known."""
    functions = _library()
    return None if functions is None else int(functions[0]())


@contextmanager
def one_thread() -> Iterator[bool]:
    """Let each call of the library use one thread; as it was when the last user leaves.

    Gives False where the library is not NumPy's own OpenBLAS and cannot be asked: set
    OMP_NUM_THREADS=1 before Python starts, then.
    """
    global _users, _before
    functions = _library()
    if functions is None:
        yield any(os.environ.get(name) == "1" for name in VARIABLES)
        return
    get, put = functions
    with _lock:
        if _users == 0:
            _before = int(get())
            put(1)
        _users += 1
    try:
        yield True
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                put(_before)
