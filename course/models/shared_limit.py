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
    from cuda.bindings import driver
    from numba import cuda

    kernel.compile(signature)
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    for version in kernel.overloads.values():
        function = version._codelibrary.get_cufunc()
        handle = int(function.handle)
        if hasattr(function, "kernel"):  # numba-cuda from 0.24 or so: a CUkernel
            device = driver.CUdevice(cuda.get_current_device().id)
            status = driver.cuKernelSetAttribute(attribute, size, driver.CUkernel(handle), device)
        else:
            status = driver.cuFuncSetAttribute(driver.CUfunction(handle), attribute, size)
        if int(status[0]):
            raise RuntimeError(
                f"the driver refuses {size:,} bytes of shared memory for a block "
                f"({status[0].name}): choose a method or a shape that needs less"
            )
