"""Functions that threads begin together."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def hurried():
    """Threads are changed as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def at_once(*tasks) -> list:
    """What functions return that threads begin together."""
    start = threading.Barrier(len(tasks))
    with hurried(), ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(lambda task: (start.wait(), task())[1], tasks))
