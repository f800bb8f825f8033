"""NVIDIA's driver library through ctypes, which needs no package and no toolkit.

>>> libcuda.call("cuDeviceGetCount", ctypes.byref(count))

What is called is given ctypes' own values, so that nothing has to be converted.

Source: NVIDIA, CUDA Driver API, "Error Handling", "Data types used by CUDA driver".
"""

import contextlib
import ctypes
import functools
import importlib
import sys

NO_CONTEXT, CONTEXT_IS_DESTROYED = 201, 709
#: What the commonest codes of cuda.h's `CUresult` mean to a reader.
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
    """What the driver says of a call that failed, or of an earlier launch."""


def library_names(platform: str = sys.platform) -> tuple[str, ...]:
    """Names under which the driver library may be loaded on `platform` (as in `sys.platform`)."""
    if platform == "win32":
        return ("nvcuda.dll",)
    if platform == "darwin":
        return ()  # NVIDIA's last driver for macOS is of 2019
    return ("libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1")


@functools.cache
def library() -> ctypes.CDLL:
    """The driver library; its functions let other threads of Python run. OSError without one."""
    for name in library_names():
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise OSError("no driver library on this machine")


def call(function: str, *arguments: object) -> None:
    """Call a function of the driver; a thread that has no context yet gets Numba's first.

    PyTorch's backward pass, say, runs in threads of its own.

    Raises
    ------
    DriverError
        For a status that is not success.
    OSError, AttributeError
        Where there is no driver, or it is older than the function.
    """
    called = getattr(library(), function)
    status = called(*arguments)
    if gave_context(status):
        status = called(*arguments)
    check(status, function)


def gave_context(status: int) -> bool:
    """Whether a call failed because this thread had no context; it has one from now on."""
    if status not in (NO_CONTEXT, CONTEXT_IS_DESTROYED):
        return False
    importlib.import_module("numba.cuda").current_context()
    return True


def check(status: int, function: str) -> None:
    """Raise `DriverError` for a status of the driver that is not success."""
    if status:
        found = ctypes.c_char_p()
        library().cuGetErrorName(status, ctypes.byref(found))
        name = (found.value or b"unknown").decode()
        other = "the driver also reports here what an earlier launch did wrong"
        meaning = MEANINGS.get(status, other)
        raise DriverError(f"{function}: {name} ({status}): {meaning}")
