"""Memory that many threads take and give back at once.

The C library maps each array of more than 128 KiB afresh and unmaps it when it is let go. An SVD of
256x256 lets go of some megabytes: about a thousand pages that the system must find, clear and take
back from all cores, one thread at a time. `kept` tells glibc to keep what was let go for the next
array. Other C libraries are left as they are.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt(3)
LARGEST = 32 << 20  # bytes: glibc takes no larger threshold
DEFAULT = 128 << 10


@contextmanager
def kept() -> Iterator[bool]:
    """Let the process keep memory that it lets go; at the end it goes back to the system.

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
