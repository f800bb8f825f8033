"""Ctrl-C, SIGTERM, a closed terminal: the command ends in order, and says what it waits for."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MODULE = "python -m course"
SILENCE = 2.0  # seconds after Ctrl-C until the user is told what is waited for
TOGETHER = 0.5  # seconds within which one Ctrl-C and the next are one wish
SIGNALS = "SIGINT", "SIGTERM", "SIGHUP"  # the last is not on Windows
INTERRUPTED = 130  # what shells report for a program that Ctrl-C ended


class UsageError(ValueError):
    """What was asked for does not exist; the message says what does."""


class Stopping:
    """Handler of signals: interrupt the run; where a large SVD goes on for long, say so."""

    def __init__(self):
        self.last: float | None = None

    def __call__(self, number: int, frame: Any) -> None:
        """Raise KeyboardInterrupt, which a second one soon after does not disturb."""
        now, last = time.monotonic(), self.last
        if last is not None and now - last < TOGETHER:
            return
        self.last = now  # before all else: the next may come meanwhile
        if last is None:
            words = "stopping: a large SVD or the GPU's stack ends first; Ctrl-C again ends at once"
            told = threading.Timer(SILENCE, print, (words,), {"file": sys.stderr})
            told.daemon = True
            told.start()
        raise KeyboardInterrupt


@contextmanager
def stoppable() -> Iterator[None]:
    """Clean up after Ctrl-C, SIGTERM and a terminal that closes, unless somebody ignores them."""
    stop, before = Stopping(), {}
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) in USUAL:
            before[number] = signal.signal(number, stop)
    program = at_once in before.values()
    after = {n: signal.default_int_handler if its is at_once else its for n, its in before.items()}
    try:
        yield
    except KeyboardInterrupt:
        if program:  # it says so and ends: nothing more can be stopped
            after = dict.fromkeys(before, signal.SIG_IGN)
        raise
    finally:
        for number, handler in after.items():
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C and its like wait for the end of what must not be cut in two."""
    seen: list[int] = []
    numbers = [its for name in SIGNALS if (its := getattr(signal, name, None))]
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if callable(handler):
            signal.signal(number, lambda given, frame: seen.append(given))
    try:
        yield
    finally:
        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, handler)
    if seen:
        before[seen[0]](seen[0], None)


def called() -> str:
    """How the user called the program."""
    return "course" if os.path.basename(sys.argv[0]) in ("course", "course.exe") else MODULE


def at_once(number: int, frame: Any) -> None:
    """End while nothing has begun; an exception might be caught by what is being imported."""
    os.write(2, f"{called()}: stopped; nothing was written\n".encode())
    os._exit(INTERRUPTED)


def let_interrupt() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


#: Handlers of signals that nobody chose.
USUAL = (signal.SIG_DFL, signal.default_int_handler, at_once)
