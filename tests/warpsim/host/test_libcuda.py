"""The one binding of NVIDIA's driver: what fails is said in its words, and threads get contexts."""

import ctypes
import sys
from types import SimpleNamespace

import pytest

from warpsim.host import libcuda


class Library:
    """A driver whose launches fail with the statuses that it is given, one after the other."""

    def __init__(self, *statuses):
        self.statuses, self.given = list(statuses), []

    def cuLaunch(self, *arguments):
        self.given.append(arguments)
        return self.statuses.pop(0)

    def cuGetErrorName(self, status, name):
        name._obj.value = {700: b"CUDA_ERROR_ILLEGAL_ADDRESS", 34: None}[status]


@pytest.fixture
def contexts(monkeypatch):
    """A numba.cuda that only counts how often it was asked for a context."""
    asked = []
    numba = SimpleNamespace(current_context=lambda: asked.append(1))
    monkeypatch.setitem(sys.modules, "numba.cuda", numba)
    return asked


def called(monkeypatch, *statuses):
    library = Library(*statuses)
    monkeypatch.setattr(libcuda, "library", lambda: library)
    libcuda.call("cuLaunch", 1, 2)
    return library.given


@pytest.mark.parametrize("status", [libcuda.NO_CONTEXT, libcuda.CONTEXT_IS_DESTROYED])
def test_a_thread_without_a_context_gets_one_and_the_call_is_made_again(
    monkeypatch, contexts, status
):
    assert called(monkeypatch, status, 0) == [(1, 2), (1, 2)] and contexts == [1]
    assert called(monkeypatch, 0) == [(1, 2)] and contexts == [1]


def test_what_fails_is_named_as_the_driver_names_it(monkeypatch, contexts):
    with pytest.raises(libcuda.DriverError, match=r"^cuLaunch: CUDA_ERROR_ILLEGAL_ADDRESS \(700\)"):
        called(monkeypatch, 700)
    with pytest.raises(libcuda.DriverError, match=r"^cuLaunch: unknown \(34\): only a stub of the"):
        called(monkeypatch, 34)
    assert not contexts


def test_without_a_library_the_error_says_so(monkeypatch):
    monkeypatch.setattr(libcuda, "library_names", lambda: ("no-such-library.so",))
    libcuda.library.cache_clear()
    with pytest.raises(OSError, match="no driver library on this machine"):
        libcuda.library()


def test_the_library_has_a_name_on_linux_and_windows_only():
    assert "libcuda.so.1" in libcuda.library_names("linux")
    assert libcuda.library_names("win32") == ("nvcuda.dll",)
    assert libcuda.library_names("darwin") == ()


@pytest.mark.skipif(sys.platform != "linux", reason="its name is another one")
def test_a_library_is_loaded_by_the_first_name_that_there_is(monkeypatch):
    monkeypatch.setattr(libcuda, "library_names", lambda: ("no-such-library.so", "libc.so.6"))
    libcuda.library.cache_clear()
    assert isinstance(libcuda.library(), ctypes.CDLL)
    libcuda.library.cache_clear()
