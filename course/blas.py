"""One thread for each call of the linear-algebra library while many threads call it.

NumPy's OpenBLAS keeps a thread for each core and splits each SVD among them. Where an image goes to
each core already, those threads only get in one another's way: an SVD of 256x256 that takes 11 ms
on one thread has been seen to take 800 ms (`course/benches/pipeline.py` measures it).
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController, threadpool_limits

_lock = threading.Lock()
_users = 0
_limits: threadpool_limits | None = None


def threads() -> int | None:
    """How many threads a call of NumPy's linear algebra uses; None where that is not known."""
    found = ThreadpoolController().select(user_api="blas").info()
    return max((library["num_threads"] for library in found), default=None)


@contextmanager
def one_thread() -> Iterator[bool]:
    """Let each call of the library use one thread; as it was when the last user leaves.

    Gives False where the library cannot be asked (threadpoolctl knows OpenBLAS, MKL, BLIS and
    FlexiBLAS): set OMP_NUM_THREADS=1 before Python starts, then.
    """
    global _users, _limits
    with _lock:
        if _users == 0:
            _limits = threadpool_limits(1, user_api="blas")
        _users += 1
    try:
        yield threads() == 1
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _limits is not None:
                _limits.restore_original_limits()
                _limits = None
