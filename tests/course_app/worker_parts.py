"""Programs that tests run in the processes that work on images, and what they look at there."""

import os
import time
from pathlib import Path

TIMEOUT = 60  # seconds after which a test says that a process lives on

#: Begins what Python executes at the start of a process: what decodes can be another function.
CUSTOM = """
import os, signal, sys, time
from course.images import reading

def patched(decode, real=reading.load_levels):
    reading.load_levels = lambda path, *more, **options: decode(real, path, *more, **options)
"""
SLOWLY = """
def decode(real, *given, **options):
    time.sleep(0.03)
    return real(*given, **options)

patched(decode)
"""
#: The simulator is taken for a GPU, or for several.
SIMULATED = """
from types import SimpleNamespace
from course_app.pipeline import worker

worker.gpus_cuda = lambda: SimpleNamespace(select_device=lambda gpu: None)
"""
#: As a fault of a decoder's: the process ends, by a signal or with a status.
FAULTY = """
def decode(real, path, *more, **options):
    if "fatal" in path.name:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "killed" in path.name:
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    if "ends" in path.name:
        os._exit(5)
    if "speaks" in path.name:
        os.write(1, b"a decoder says what it thinks of the file" * 100)
    return real(path, *more, **options)

patched(decode)
"""


def customized(folder, monkeypatch, program):
    """Have processes that begin from now on execute a program first."""
    place = folder / "customized"
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text(CUSTOM + program)
    monkeypatch.syspath_prepend(place)
    return place


def lives(process):
    """Whether a process is at work; one that only waits to be counted as ended is not."""
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][:1]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state not in "ZX"


def all_end(processes):
    """Wait until no process is at work; whether that happens."""
    deadline = time.monotonic() + TIMEOUT
    while any(map(lives, processes)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
