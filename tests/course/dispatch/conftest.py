"""What tests of dispatch share."""

import contextlib

import pytest

from course import backend
from course.backend import cuda
from course.dispatch import array_facts, entry, graphs, prepared
from tests.course.dispatch.arrays import X
from tests.course.dispatch.noted_launches import NotingDriver
from warpsim.host import libcuda


@pytest.fixture
def noted(monkeypatch):
    """A driver that notes, and device arrays of a GPU 0 that look like Numba's."""
    driver = NotingDriver()
    monkeypatch.setattr(libcuda, "library", lambda: driver)
    monkeypatch.setattr(prepared, "are_many", lambda: False)
    monkeypatch.setattr(graphs, "is_captured", lambda stream: driver.capturing)
    monkeypatch.setattr(prepared, "zero", lambda *given: driver.ordered.append(given))
    monkeypatch.setattr(graphs, "keep_with_graph", lambda *given: driver.ordered.append(given))
    monkeypatch.setattr(backend.cuda, "gpus", [contextlib.nullcontext()], raising=False)
    monkeypatch.setattr(entry.backend, "gpu", lambda: "a GPU")
    monkeypatch.setattr(prepared.successor, "is_chosen", lambda: False)  # its fake kernels' words

    def look(array):
        address = array.__cuda_array_interface__["data"][0]
        return ("numba", array.shape, array.strides, array.dtype.char, 0, False), address

    monkeypatch.setitem(array_facts.READERS, type(cuda.to_device(X)), look)
    return driver
