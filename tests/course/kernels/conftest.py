"""The GPU that kernels are tested on where there is none."""

import pytest

from course import backend
from warpsim.host import gpus


@pytest.fixture
def h200(monkeypatch):
    """The simulated GPU that has all instructions, unless there is a real one."""
    monkeypatch.setattr(gpus, "_chosen", None)
    if backend.gpu() is None:
        backend.simulate("H200")
