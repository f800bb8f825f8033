"""A GPU of arithmetic: two clocks, a queue and a cache, to test the measuring without a GPU.

The host's clock runs while it launches; the GPU works the queue off. A launch takes longer when its
arrays are not in the cache. "Device memory" is the host's, so that copies can be looked at.
"""

import ctypes
from collections import OrderedDict
from types import SimpleNamespace

import numpy as np

from course.measure.roofline import Roofs

STEP = 1e-9  # seconds that a step of the busy kernel takes

ROOFS = Roofs("fake", 1000.0, {"float32": 10.0, "tensor_float16": 10.0}, 1 << 20, measured=True)


class FakeArray:
    """An array in "device memory" with the CUDA array interface."""

    def __init__(self, values, owner=None):
        self.values, self.owner = values, owner
        self.shape, self.dtype, self.nbytes = values.shape, values.dtype, values.nbytes

    @property
    def __cuda_array_interface__(self):
        return {
            "data": (self.values.ctypes.data, False),
            "shape": self.values.shape,
            "strides": None if self.values.flags.c_contiguous else self.values.strides,
            "typestr": self.values.dtype.str,
            "version": 3,
        }

    @property
    def address(self):
        return self.values.ctypes.data

    def copy_to_device(self, other):
        self.values[...] = other.values if isinstance(other, FakeArray) else other

    def copy_to_host(self):
        return self.values.copy()

    def __setitem__(self, index, value):
        self.values[index] = value


def view(given):
    """The NumPy array that a CUDA array interface describes."""
    interface = given.__cuda_array_interface__
    dtype, shape = np.dtype(interface["typestr"]), interface["shape"]
    strides = interface["strides"]
    if strides is None:
        strides = np.empty(shape, np.uint8).strides
        strides = tuple(stride * dtype.itemsize for stride in strides)
    low = sum(min((n - 1) * s, 0) for n, s in zip(shape, strides, strict=True))
    high = sum(max((n - 1) * s, 0) for n, s in zip(shape, strides, strict=True)) + dtype.itemsize
    raw = (ctypes.c_uint8 * (high - low)).from_address(interface["data"][0] + low)
    return np.ndarray(shape, dtype, buffer=raw, offset=-low, strides=strides)


class FakeGPU:
    """Clocks, queue, cache, and the part of ``numba.cuda`` that measuring needs."""

    def __init__(self, l2=1 << 20, free=1 << 26):
        self.host = self.done = 0.0  # seconds: the host's clock, and when the queue is worked off
        self.l2, self.free = l2, free
        self.cache = OrderedDict()  # address -> bytes, the last used at the end
        self.launches = []
        self.emptied = 0

    # --- work -------------------------------------------------------------------------------------
    def launch(self, seconds, cost=0.0):
        self.host += cost
        self.done = max(self.host, self.done) + seconds

    def touch(self, array):
        """Whether an array was in the cache; it is now."""
        known = self.cache.pop(array.address, None) is not None
        self.cache[array.address] = array.nbytes
        while sum(self.cache.values()) > self.l2:
            self.cache.popitem(last=False)
        return known

    def busy(self, steps):
        self.launch(steps * STEP, cost=1e-6)

    def empty_l2(self):
        self.cache.clear()
        self.emptied += 1
        self.launch(1e-6, cost=1e-6)

    def now(self):
        self.host += 1e-9
        return self.host

    def kernel(self, cold, warm, cost=0.0, compile=0.0):
        """A launch that takes so many seconds, and the first time also compiles."""
        gpu = self

        class Launch:
            dispatcher = SimpleNamespace(overloads={}, __name__="fake_kernel")

            def __call__(self, *args):
                if not self.dispatcher.overloads:
                    gpu.host += compile
                    self.dispatcher.overloads["signature"] = "code"
                arrays = [value for value in args if isinstance(value, FakeArray)]
                hits = [gpu.touch(array) for array in arrays]
                gpu.launches.append(args)
                gpu.launch(warm if arrays and all(hits) else cold, cost)

        Launch.dispatcher = SimpleNamespace(overloads={}, __name__="fake_kernel")
        return Launch()

    # --- numba.cuda -------------------------------------------------------------------------------
    def synchronize(self):
        self.host = max(self.host, self.done)

    def event(self):
        gpu = self

        class Event:
            def record(self):
                self.time = max(gpu.host, gpu.done)

            def query(self):
                return gpu.host >= self.time

            def synchronize(self):
                gpu.host = max(gpu.host, self.time)

        return Event()

    def event_elapsed_time(self, start, end):
        return (end.time - start.time) * 1e3

    def get_current_device(self):
        return SimpleNamespace(L2_CACHE_SIZE=self.l2, MULTIPROCESSOR_COUNT=4)

    def current_context(self):
        return SimpleNamespace(get_memory_info=lambda: SimpleNamespace(free=self.free))

    def device_array(self, shape, dtype=np.float64):
        return FakeArray(np.zeros(shape, dtype))

    def to_device(self, values):
        return FakeArray(values.copy())

    def as_cuda_array(self, given):
        return given if isinstance(given, FakeArray) else FakeArray(view(given), owner=given)
