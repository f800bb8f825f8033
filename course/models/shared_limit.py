"""More shared memory for a block than the 48 KiB that every kernel has.

A GPU gives a block up to 64 KiB (Tesla T4) or 227 KiB (H200), dynamic and asked for once for each
kernel. Numba has no word for that; the driver has.
Source: NVIDIA, CUDA C++ Programming Guide, "Shared Memory" of compute capability 7.x;
CUDA Driver API, cuKernelSetAttribute and cuFuncSetAttribute.
"""

from __future__ import annotations

from typing import Any

from course.backend import gpu


def allow_shared(kernel: Any, signature: str, size: int) -> None:
    """Allow a kernel so many bytes of dynamic shared memory on the current GPU.

    Compiles the kernel for the signature if it is not. In the simulator nothing is to be done: it
    keeps the simulated GPU's own limit.

    Raises
    ------
    RuntimeError
        When the driver refuses.
    """
    if gpu() is None:
        return
    from numba import cuda

    key = kernel, cuda.get_current_device().id
    if _allowed.get(key, 0) < size:
        kernel.compile(signature)
        for version in kernel.overloads.values():
            _allow(version._codelibrary.get_cufunc(), key[1], size)
        _allowed[key] = size


_allowed: dict[tuple[Any, int], int] = {}  # bytes by kernel and device


def _allow(function: Any, device: int, size: int) -> None:
    """Set the limit of a loaded function, which newer numba-cuda holds as a CUkernel."""
    from cuda.bindings import driver

    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    handle = int(function.handle)
    if hasattr(function, "kernel"):
        place = driver.CUkernel(handle), driver.CUdevice(device)
        (status,) = driver.cuKernelSetAttribute(attribute, size, *place)
    else:
        (status,) = driver.cuFuncSetAttribute(driver.CUfunction(handle), attribute, size)
    if int(status):
        raise RuntimeError(
            f"the driver refuses {size:,} bytes of shared memory for a block ({status.name}): "
            "choose a method or a shape that needs less"
        )
