"""Kinds of work that fail, dawdle or end their process: workers import them by name."""

import os
import signal
import time
from pathlib import Path


def dawdle(batch, seconds):
    time.sleep(seconds)
    return batch, os.getpid()


def fail_at(batch, bad):
    if batch == bad:
        raise ValueError(f"nothing can be done with {batch}")
    return batch


def fail_once(batch, folder):
    """Fails where the batch is seen for the first time."""
    seen = Path(folder) / str(batch)
    if not seen.exists():
        seen.touch()
        raise OSError("a network that hiccups")
    return batch


def end_process_at(batch, bad):
    time.sleep(0.05)  # neighbours are there when the process ends
    if batch == bad:
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    return batch


def out_of_memory(batch):
    raise MemoryError


def environment(name):
    return os.environ.get(name)
