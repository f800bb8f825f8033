"""The host side of ``numba.cuda``: the simulator's module of the same names.

``from course import cuda`` is this module where there is no usable GPU.
"""

from collections.abc import Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np

from warpsim.core.interface import describe, memory_of
from warpsim.front.names import KERNEL_NAMES, kernel_name
from warpsim.host import gpus as models
from warpsim.host.device import (
    Context,
    Device,
    DeviceNDArray,
    DeviceRecord,
    Event,
    MemoryInfo,
    Stream,
    copied_as_it_lies,
    deallocations,
    never_set,
    wait_for,
)
from warpsim.host.gpus import simulate
from warpsim.run import random
from warpsim.run.kernel import Kernel, jit
from warpsim.run.ufuncs import Reduce, guvectorize, reduce, vectorize
from warpsim.watch.findings import KernelError

for _name in KERNEL_NAMES:
    if "." not in _name:
        globals()[_name] = kernel_name(_name)
del _name
warpsize = kernel_name("warpsize")
_handles = count(1)  # of streams
#: What floats hold that nobody has set, by their bytes: a NaN that no arithmetic makes.
UNSET = {2: 0x7E5E, 4: 0x7FC5E7ED, 8: 0x7FF85E7E5E7E5E7E}


# ---------------------------------------------------------------------- arrays
def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: DeviceNDArray | None = None):
    """Copy an array to the device."""
    if isinstance(obj, np.void) and obj.dtype.names is not None:
        return DeviceRecord(np.array(obj))
    values = obj._memory if isinstance(obj, DeviceNDArray) else np.asarray(obj)
    if to is not None:
        to.copy_to_device(values)
        return to
    return DeviceNDArray(deallocations.watch(copied_as_it_lies(values, "the array")), stream)


def device_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0
):
    """An array on the device whose elements are not set: filled with NaN or the largest value."""
    memory = _unset(shape, dtype, order, strides)
    never_set(memory)
    return DeviceNDArray(deallocations.watch(memory), stream)


def device_array_like(ary: Any, stream: Any = 0) -> DeviceNDArray:
    return device_array(ary.shape, ary.dtype, *_layout(ary))


def _layout(ary: Any) -> tuple[tuple[int, ...] | None, str]:
    """Strides [bytes] and order of an array like this one, without gaps, as Numba chooses them."""
    in_c, in_f = ary.flags["C_CONTIGUOUS"], ary.flags["F_CONTIGUOUS"]
    if in_c or in_f or ary.ndim <= 1:
        return None, "F" if in_f and not in_c else "C"
    strides, step = [0] * ary.ndim, ary.dtype.itemsize
    for axis in sorted(range(ary.ndim), key=lambda axis: ary.strides[axis]):
        strides[axis] = step
        step *= ary.shape[axis]
    return tuple(strides), "C"


def _empty(shape: Any, dtype: Any, order: str, strides: Any) -> np.ndarray:
    """An array whose elements are not set, with some strides [bytes] where they are given."""
    if strides is None:
        return np.empty(shape, dtype, order)
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    span = sum(abs(step) * (size - 1) for step, size in zip(strides, sizes, strict=True))
    bytes_ = np.empty(span + np.dtype(dtype).itemsize if np.prod(sizes) else 0, np.uint8)
    return np.ndarray(shape, dtype, bytes_, strides=strides)


def _unset(shape: Any, dtype: Any, order: str = "C", strides: Any = None) -> np.ndarray:
    memory = _empty(shape, dtype, order, strides)
    kind = memory.dtype.kind
    if kind in "fc":
        part = memory.itemsize // (2 if kind == "c" else 1)
        bits = np.full(memory.itemsize // part, UNSET[part], f"u{part}")
        memory.fill(bits.view(memory.dtype)[0])
    elif kind in "iu":
        memory.fill(np.iinfo(memory.dtype).max)
    else:
        memory.fill(0)
    return memory


def pinned_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C"
) -> np.ndarray:
    """A host array in page-locked memory; without a GPU, any host array."""
    return _empty(shape, dtype, order, strides)


def pinned_array_like(ary: np.ndarray) -> np.ndarray:
    return pinned_array(ary.shape, ary.dtype, *_layout(ary))


def mapped_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0,
    portable: bool = False, wc: bool = False,
):  # fmt: skip
    """An array that host and device share."""
    floats = np.dtype(dtype).kind in "fc"  # whether one is set can be seen
    memory = (_unset if floats else _empty)(shape, dtype, order, strides)
    if floats:
        never_set(memory)
    array = memory.view(_Mapped)
    array.stream = stream
    return array


def mapped_array_like(ary: np.ndarray, stream: Any = 0, portable: bool = False, wc: bool = False):
    return mapped_array(ary.shape, ary.dtype, *_layout(ary))


managed_array = mapped_array


class _Mapped(np.ndarray):
    """A host array that kernels use without a copy."""

    is_record = False
    stream: Any = 0
    _memory = property(lambda self: self.view(np.ndarray))
    __cuda_array_interface__ = property(lambda self: describe(self._memory, self.stream))


@contextmanager
def mapped(*arrays: np.ndarray, stream: Any = 0):
    """Host arrays as device arrays over the same memory, for a while."""
    made = [DeviceNDArray(array, stream) for array in arrays]
    yield made[0] if len(made) == 1 else made


def is_cuda_array(obj: Any) -> bool:
    return isinstance(obj, DeviceNDArray) or hasattr(obj, "__cuda_array_interface__")


def as_cuda_array(obj: Any, sync: bool = True) -> DeviceNDArray:
    """A device array over the memory of any object with the CUDA array interface."""
    if isinstance(obj, DeviceNDArray):
        return obj
    if not is_cuda_array(obj):
        raise TypeError(f"{type(obj).__name__} is not a device array; use cuda.to_device")
    return from_cuda_array_interface(obj.__cuda_array_interface__, sync=sync)


def from_cuda_array_interface(desc: dict[str, Any], owner: Any = None, sync: bool = True):
    """A device array over the memory that a CUDA array interface describes."""
    if sync:
        wait_for(desc)
    handle = desc.get("stream")
    return DeviceNDArray(memory_of(desc), Stream(handle, external=True) if handle else 0)


class _Directed:
    direction = property(lambda self: type(self).__name__.lower())

    def __init__(self, value: Any):
        self.value = value


class In(_Directed):
    """An argument that is copied to the device and not back."""


class Out(_Directed):
    """An argument that is copied back from the device."""


class InOut(_Directed):
    """An argument that is copied both ways."""


# ---------------------------------------------------------------------- device, streams, events
def is_available() -> bool:
    """True, as in Numba's own simulator, so that programs run; ``course.gpu()`` tells the truth."""
    return True


def detect() -> bool:
    """Print the simulated device."""
    device = get_current_device()
    print("Found 1 CUDA devices (simulated)")
    print(f"id 0    {device.name!r}    compute capability {device.compute_capability}")
    return True


def get_current_device() -> Device:
    return Device(models.current())


def list_devices() -> list[Device]:
    return [get_current_device()]


class _Devices(Sequence):
    """``cuda.gpus``: one simulated device."""

    current = property(lambda self: get_current_device())
    lst = property(lambda self: list_devices())

    def __len__(self) -> int:
        return 1

    def __getitem__(self, number: int) -> Device:
        return list_devices()[number]

    def __str__(self) -> str:
        return ", ".join(map(str, list_devices()))


gpus = _Devices()


def select_device(device_id: int) -> Context:
    if device_id != 0:
        raise ValueError(f"device {device_id}: the simulator has one device, number 0")
    return current_context()


def current_context(devnum: int | None = None) -> Context:
    return Context(models.current())


def synchronize() -> None:
    """Wait for the device; simulated launches are done when they return."""


close = profile_start = profile_stop = synchronize  # nothing to do without a GPU


def stream() -> Stream:
    return Stream(next(_handles))


def default_stream() -> Stream:
    return Stream()


legacy_default_stream = per_thread_default_stream = default_stream


def external_stream(ptr: int) -> Stream:
    return Stream(ptr, external=True)


def event(timing: bool = True) -> Event:
    return Event()


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    return evtstart.elapsed_time(evtend)


@contextmanager
def pinned(*arrays: np.ndarray):
    """Page-lock host arrays for a while; without a GPU, nothing to do."""
    yield


defer_cleanup = profiling = pinned  # of no arrays
__all__ = [
    "Context", "Device", "DeviceNDArray", "Event", "In", "InOut", "Kernel", "KernelError",
    "MemoryInfo", "Out", "Reduce", "random", "Stream", "guvectorize", "jit", "reduce", "simulate",
    "to_device", "vectorize",
]  # fmt: skip
