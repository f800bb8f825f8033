"""Fixtures of many tests."""

import signal

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(12)


@pytest.fixture
def keep_signal_handlers():
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(scope="module")
def compiled_once():
    """Numba compiles a kernel and its device functions once for all targets of a file."""
    from course.compiler.together import compiled_together

    with compiled_together():
        yield


@pytest.fixture
def h200(monkeypatch):
    """The simulated GPU that has all instructions, unless there is a real one."""
    from course import backend
    from warpsim.host import gpus

    monkeypatch.setattr(gpus, "_chosen", None)
    if backend.gpu() is None:
        backend.simulate("H200")
