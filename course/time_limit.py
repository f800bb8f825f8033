"""Work that is stopped when it takes too long: a loop without an end must not hang a notebook."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class OutOfTime(BaseException):
    """Raised in the thread that works; no ``except Exception`` of an answer takes it."""


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Raise an exception in a thread between two of its instructions; None takes it back."""
    what = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in what is inside when it takes longer.

    Python code is stopped wherever it is; a call into a library is stopped when it comes back.
    """
    worker, lock, state = threading.get_ident(), threading.Lock(), {"over": False, "raised": False}

    def stop() -> None:
        with lock:
            if not state["over"]:
                state["raised"] = True
                _raise_in(worker, OutOfTime)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            state["over"] = True
            if state["raised"]:  # where it has not been raised yet, it is not raised any more
                _raise_in(worker, None)
        timer.cancel()
