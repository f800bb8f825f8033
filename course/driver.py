"""What NVIDIA's driver reports by itself, without any package or toolkit."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from dataclasses import dataclass

from warpsim.host import libcuda

# Attribute numbers of cuDeviceGetAttribute, from cuda.h (CUDA driver API, `CUdevice_attribute`).
COMPUTE_CAPABILITY_MAJOR = 75
COMPUTE_CAPABILITY_MINOR = 76


@dataclass(frozen=True)
class Device:
    """One GPU as the driver describes it; `memory` in bytes."""

    index: int
    name: str
    compute_capability: tuple[int, int]
    memory: int


@dataclass(frozen=True)
class Driver:
    """The driver library: found or not, the newest CUDA version it runs, its devices.

    `version` is (major, minor) of CUDA, not the number that nvidia-smi shows for the driver.
    `error` says why there are no devices, where something went wrong.
    """

    found: bool
    version: tuple[int, int] | None = None
    devices: tuple[Device, ...] = ()
    error: str | None = None


def _device(index: int) -> Device:
    handle = ctypes.c_int()
    libcuda.call("cuDeviceGet", ctypes.byref(handle), index)
    name = ctypes.create_string_buffer(128)
    libcuda.call("cuDeviceGetName", name, len(name), handle)
    memory = ctypes.c_size_t()
    libcuda.call("cuDeviceTotalMem_v2", ctypes.byref(memory), handle)
    capability = []
    for attribute in (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR):
        value = ctypes.c_int()
        libcuda.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, handle)
        capability.append(value.value)
    return Device(index, name.value.decode(errors="replace"), tuple(capability), memory.value)


def read_driver() -> Driver:
    """Ask the driver for its CUDA version and its devices; never raises.

    Returns
    -------
    Driver
        `found=False` where no driver library can be loaded. CUDA_VISIBLE_DEVICES applies, as
        it does to every CUDA program.
    """
    try:
        libcuda.library()
    except OSError as error:
        return Driver(found=False, error=str(error))
    version = None
    try:
        number = ctypes.c_int()
        libcuda.call("cuDriverGetVersion", ctypes.byref(number))
        version = (number.value // 1000, number.value % 1000 // 10)
        libcuda.call("cuInit", 0)
        count = ctypes.c_int()
        libcuda.call("cuDeviceGetCount", ctypes.byref(count))
        devices = tuple(_device(index) for index in range(count.value))
    except (libcuda.DriverError, AttributeError, OSError) as error:
        return Driver(found=True, version=version, error=str(error))
    return Driver(found=True, version=version, devices=devices)


def begin_context(gpu: int) -> threading.Thread:
    """Begin to create a GPU's primary context in a thread; it takes the driver 0.3 s and more.

    A device has one primary context in a process, so Numba and CuPy find it there later. Errors are
    ignored here: Numba or CuPy run into the same ones and report them.

    Returns
    -------
    Thread
        The thread that creates the context.
    """

    def make() -> None:
        device, context = ctypes.c_int(), ctypes.c_void_p()
        with contextlib.suppress(libcuda.DriverError, AttributeError, OSError):
            libcuda.call("cuInit", 0)
            libcuda.call("cuDeviceGet", ctypes.byref(device), gpu)
            libcuda.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    return thread
