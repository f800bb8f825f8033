"""Many threads at once: one thread a call of the linear-algebra library, and memory that is kept.

NumPy's OpenBLAS keeps a thread for each core and splits each SVD among them. Where an image goes to
each core already, those threads only get in one another's way: an SVD of 256x256 that takes 11 ms
on one thread has been seen to take 800 ms (`course_recording/subjects/pipeline.py` measures it).
Hence `one_thread`.

The C library maps each array of more than 128 KiB anew and unmaps it when it is freed. An SVD of
256x256 frees some megabytes: about a thousand pages that the system must find, clear and take back
from all cores, one thread at a time. `kept` tells glibc to keep freed memory for the next array.
Other C libraries are left as they are.
"""

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

_lock = threading.Lock()
_users = 0
_limits: threadpool_limits | None = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Let each call of the library use one thread; as it was when the last user leaves.

    Where the library cannot be asked (threadpoolctl knows OpenBLAS, MKL, BLIS and FlexiBLAS) set
    OMP_NUM_THREADS=1 before Python starts.
    """
    global _users, _limits
    with _lock:
        if _users == 0:
            _limits = threadpool_limits(1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _limits is not None:
                _limits.restore_original_limits()
                _limits = None


# --- memory that is kept --------------------------------------------------------------------------

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt(3)
LARGEST = 32 << 20  # bytes: glibc takes no larger threshold
DEFAULT = 128 << 10


@contextmanager
def kept() -> Iterator[bool]:
    """Let the process keep freed memory for further arrays; at the end the system gets it back.

    Gives False where the C library is not glibc and nothing was changed.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if not hasattr(library, "gnu_get_libc_version"):
        yield False
        return
    library.mallopt(MMAP_THRESHOLD, LARGEST)
    library.mallopt(TRIM_THRESHOLD, 1 << 30)
    try:
        yield True
    finally:
        library.mallopt(MMAP_THRESHOLD, DEFAULT)
        library.mallopt(TRIM_THRESHOLD, DEFAULT)
        library.malloc_trim(0)
