"""A GPU that does everything as late and in as odd an order as streams and events allow.

Copies and launches are queued in their streams; what runs next is drawn by lot from the
queues' heads. A program that forgot to wait for something gets a wrong result for some seeds.
"""

import random
from types import SimpleNamespace

import numpy as np


class Array:
    """An array on the device; copies to and from it happen when they are drawn."""

    def __init__(self, gpu, values):
        self.gpu, self.values = gpu, values

    shape = property(lambda self: self.values.shape)
    ndim = property(lambda self: self.values.ndim)
    dtype = property(lambda self: self.values.dtype)

    @property
    def __cuda_array_interface__(self):
        return self.values.__array_interface__ | {"version": 3}

    def __getitem__(self, index):
        return Array(self.gpu, self.values[index])

    def reshape(self, *shape):
        return Array(self.gpu, self.values.reshape(*shape))

    def copy_to_device(self, host, stream=0):
        self.gpu.queue(stream, lambda: np.copyto(self.values, host), "in")

    def copy_to_host(self, host=None, stream=0):
        if host is None:
            host = np.full(self.shape, np.nan, self.dtype)
        self.gpu.queue(stream, lambda: np.copyto(host, self.values), "out")
        return host


class Event:
    """Passed when all that was in the stream at the last `record` is done."""

    def __init__(self, gpu):
        self.gpu, self.recorded, self.passed = gpu, 0, 0

    def record(self, stream=0):
        self.recorded += 1
        count = self.recorded
        self.gpu.queue(stream, lambda: setattr(self, "passed", count), "event")

    def wait(self, stream=0):
        count = self.recorded
        self.gpu.queue(stream, None, "wait", lambda: self.passed >= count)

    def synchronize(self):
        while self.passed < self.recorded:
            self.gpu.step()


class Kernel:
    """Rebuilds one image or many."""

    def __init__(self, gpu):
        self.gpu = gpu

    def __getitem__(self, configuration):
        def launch(u, s, vt, k, out):
            def work():
                left = u.values[..., :k].astype(float) * s.values[..., None, :k]
                out.values[...] = left @ vt.values[..., :k, :]

            self.gpu.queue(configuration[2], work, "kernel")

        return launch


class LazyGPU:
    """The part of ``numba.cuda`` that streams need."""

    def __init__(self, seed):
        self.lot, self.queues, self.log = random.Random(seed), {}, []
        self.event = lambda timing=True: Event(self)

    def stream(self):
        stream = SimpleNamespace(number=len(self.queues) + 1)
        self.queues[stream.number] = []
        return stream

    def queue(self, stream, work, what, when=lambda: True):
        """Queue work; without a stream wait for everything, do it, and return."""
        if stream == 0:
            self.synchronize()
            if work:
                work()
            return
        self.queues[stream.number].append((work, when, what))

    def step(self):
        """Do the next thing of a queue whose head need not wait."""
        ready = [number for number, queue in self.queues.items() if queue and queue[0][1]()]
        if not ready:
            raise RuntimeError("a deadlock: every queue waits, or there is nothing to do")
        number = self.lot.choice(ready)
        work, _, what = self.queues[number].pop(0)
        self.log.append((number, what))
        if work:
            work()

    def synchronize(self):
        while any(self.queues.values()):
            self.step()

    def device_array(self, shape, dtype=np.float32):
        return Array(self, np.full(shape, np.nan, dtype))

    def to_device(self, host, stream=0):
        array = self.device_array(host.shape, host.dtype)
        array.copy_to_device(host, stream)
        return array

    def pinned_array(self, shape, dtype=np.float32):
        return np.zeros(shape, dtype)
