"""A driver that only notes what it is given, and kernels and entry points for it."""

import ctypes
from types import SimpleNamespace

import numpy as np

from course.dispatch import entry, prepared, slots
from course.kernels.steps import Launch

SHAPE = ("gx", "gy", "gz", "bx", "by", "bz", "shared")


class NotingDriver:
    """Takes what `course.dispatch.prepared` calls: the words of each launch, the latest's shape."""

    def __init__(self):
        self.launched, self.capturing, self.ordered = [], False, []

    def cuLaunchKernelEx(self, how, kernel, what, nothing):
        configuration = prepared.Configuration.from_address(how.value)
        self.shape = tuple(getattr(configuration, name) for name in SHAPE)
        self.launched.append((kernel.value, configuration.stream or 0, what.value))
        return 0


class FakeKernel:
    """What a kernel of numba.cuda looks like from outside."""

    cooperative = False
    extensions, targetoptions, __name__ = (), {}, "fake"

    def __init__(self):
        self._codelibrary = self

    def typeof_pyval(self, value):
        from numba import typeof

        return typeof(value)

    def compile(self, kinds):
        return self

    def get_cufunc(self):
        return SimpleNamespace(handle=SimpleNamespace(value=77))


def words_of(address, count):
    pointers = (ctypes.c_void_p * count).from_address(address)
    return [ctypes.c_int64.from_address(pointer).value for pointer in pointers]


def fake_entry(**given):
    def result(x, factor):
        return x.shape, np.float32

    def listed(x, out, factor):
        memory = slots.workspace((2, 3), np.float32, zeros=True) if given else None
        return [Launch(FakeKernel(), 3, 64, (x, factor, *([memory] if given else []), out))]

    return entry.EntryPoint("fake", ("x",), result, listed, options=("factor",))
