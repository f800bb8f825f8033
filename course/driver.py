"""What NVIDIA's driver says by itself, read through ctypes: needs no package and no toolkit."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from dataclasses import dataclass

# Attribute numbers of cuDeviceGetAttribute, from cuda.h (CUDA driver API, `CUdevice_attribute`).
COMPUTE_CAPABILITY_MAJOR = 75
COMPUTE_CAPABILITY_MINOR = 76

# What the commonest codes of cuda.h's `CUresult` mean to a reader.
MEANINGS = {
    3: "the driver is not initialised",
    34: "only a stub of the driver library was found (a toolkit's, not a driver's)",
    100: "the driver sees no CUDA device",
    101: "the device number does not exist",
    802: "the system is not ready: its fabric manager or the devices are still starting",
    803: "driver and kernel module are of different versions: restart the machine",
    804: "this driver does not support the forward compatibility that was asked for",
    999: "an unknown error inside the driver: restart the process, then the machine",
}


class DriverError(RuntimeError):
    """A call of the CUDA driver failed."""


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


def library_names(platform: str = sys.platform) -> tuple[str, ...]:
    """Names under which the driver library may be loaded on `platform` (as in `sys.platform`)."""
    if platform == "win32":
        return ("nvcuda.dll",)
    if platform == "darwin":
        return ()  # NVIDIA's last driver for macOS is of 2019
    return ("libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1")


def _load() -> ctypes.CDLL | None:
    for name in library_names():
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _call(library: ctypes.CDLL, function: str, *arguments: object) -> None:
    code = getattr(library, function)(*arguments)
    if code != 0:
        raise DriverError(f"{function} failed with code {code}: {MEANINGS.get(code, 'see cuda.h')}")


def _device(library: ctypes.CDLL, index: int) -> Device:
    handle = ctypes.c_int()
    _call(library, "cuDeviceGet", ctypes.byref(handle), index)
    name = ctypes.create_string_buffer(128)
    _call(library, "cuDeviceGetName", name, len(name), handle)
    memory = ctypes.c_size_t()
    _call(library, "cuDeviceTotalMem_v2", ctypes.byref(memory), handle)
    capability = []
    for attribute in (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR):
        value = ctypes.c_int()
        _call(library, "cuDeviceGetAttribute", ctypes.byref(value), attribute, handle)
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
    library = _load()
    if library is None:
        return Driver(found=False, error="no driver library on this machine")
    version = None
    try:
        number = ctypes.c_int()
        _call(library, "cuDriverGetVersion", ctypes.byref(number))
        version = (number.value // 1000, number.value % 1000 // 10)
        _call(library, "cuInit", 0)
        count = ctypes.c_int()
        _call(library, "cuDeviceGetCount", ctypes.byref(count))
        devices = tuple(_device(library, index) for index in range(count.value))
    except (DriverError, AttributeError, OSError) as error:
        return Driver(found=True, version=version, error=str(error))
    return Driver(found=True, version=version, devices=devices)


def begin_context(gpu: int) -> threading.Thread:
    """Begin to make a GPU's context, which takes the driver 0.3 s and more; it stays.

    Whoever uses that GPU later in this process, Numba or CuPy, finds it there: a device has one
    primary context. What goes wrong they find out, too, and say.

    Returns
    -------
    Thread
        That has it made.
    """

    def make() -> None:
        library = _load()
        if library is None:
            return
        device, context = ctypes.c_int(), ctypes.c_void_p()
        with contextlib.suppress(DriverError, AttributeError, OSError):
            _call(library, "cuInit", 0)
            _call(library, "cuDeviceGet", ctypes.byref(device), gpu)
            _call(library, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    return thread
