"""What Numba's launches lack: CUDA graphs, and more shared memory for a block than 48 KiB.

A graph is launches that are recorded once, and then all made by one call of the host. It is
captured through CuPy: launches of Numba, too, when they go to a stream of CuPy.

A GPU gives a block up to 64 KiB of shared memory (Tesla T4) or 227 KiB (H200), dynamic and asked
for once for each kernel. Numba has no word for that; the driver has.
Source: NVIDIA, CUDA C++ Programming Guide, "Shared Memory" of compute capability 7.x;
CUDA Driver API, cuKernelSetAttribute and cuFuncSetAttribute.
"""

from __future__ import annotations

import contextlib
import ctypes
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

from course import backend
from course.door import disk
from warpsim.host import libcuda

_NUMBA = (0, 30)  # compiles for "sm_90a"
#: Of `CUfunction_attribute` in cuda.h.
MAX_DYNAMIC_SHARED_SIZE_BYTES, PREFERRED_SHARED_MEMORY_CARVEOUT = 8, 9
Stream = Any  # of numba.cuda; 0 is the default stream

# --- graphs ---------------------------------------------------------------------------------------


def captured(stream: Any, queue: Callable[[], Any]) -> tuple[Any, Any]:
    """The graph of what is launched on a stream of CuPy, and on streams that join it.

    Nothing of it runs. What the launches need must be compiled and loaded; they may not wait for
    the GPU, nor take memory from it.

    Returns
    -------
    graph : cupy.cuda.Graph
    output
        What `queue` returned.
    """
    stream.begin_capture()
    try:
        output = queue()
    except BaseException:
        with contextlib.suppress(Exception):  # the capture may have ended with the error
            stream.end_capture()
        raise
    return stream.end_capture(), output


class Replayed:
    """Launches that are the same in each call: from the second call on a graph, where CuPy works.

    They all use the same memory, which must live as long. In the first call they are launched one
    by one; so everything is compiled and loaded when they are captured.

    Attributes
    ----------
    graph : cupy.cuda.Graph or None
    """

    def __init__(self) -> None:
        self.graph: Any = None
        self._origin: Any = None
        self._calls = 0

    def __call__(self, queue: Callable[[Stream], None]) -> None:
        """Do on the default stream what ``queue(stream)`` launches on a stream of numba.cuda."""
        self._calls += 1
        if self._calls == 2 and backend.gpu() is not None:
            self._capture(queue)
        if self.graph is None:
            queue(0)
        else:
            self.graph.launch(_cupy().cuda.Stream.null)

    def _capture(self, queue: Callable[[Stream], None]) -> None:
        cupy = _cupy()
        if cupy is None:
            return
        try:
            self._origin = cupy.cuda.Stream(non_blocking=True)
            stream = backend.cuda.external_stream(self._origin.ptr)
            graph, _ = captured(self._origin, lambda: queue(stream))
            graph.upload(self._origin)
            self._origin.synchronize()
        except Exception as problem:  # slower, not wrong: launches work without a graph, too
            warnings.warn(
                f"launches are made one by one, a CUDA graph could not be captured: "
                f"{backend.one_line(problem)}",
                RuntimeWarning,
                stacklevel=3,
            )
            return
        self.graph = graph


def copied(source: Any, target: Any) -> bool:
    """Queue the copy of one contiguous device array to another of its size, where CuPy works.

    It takes the host a few microseconds; numba.cuda's `copy_to_device` takes many times as long.
    """
    cupy = _cupy() if backend.gpu() is not None else None
    if cupy is None or not (source.is_c_contiguous() and source.nbytes == target.nbytes):
        return False
    runtime = cupy.cuda.runtime
    places = (array.__cuda_array_interface__["data"][0] for array in (target, source))
    runtime.memcpyAsync(*places, source.nbytes, runtime.memcpyDeviceToDevice, 0)
    return True


def _cupy() -> ModuleType | None:
    """CuPy, where it works."""
    module, _ = backend.array_module()
    return module if hasattr(module, "cuda") else None


# --- shared memory --------------------------------------------------------------------------------


def room() -> tuple[int, bool]:
    """Bytes of shared memory that a block can have, and whether it can be copied to meanwhile."""
    device = backend.cuda.get_current_device()
    shared = int(device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    return shared, tuple(device.compute_capability) >= (8, 0)


def multiprocessors() -> int:
    """Of the current GPU; those of an H200 where the simulated one does not say."""
    return int(getattr(backend.cuda.get_current_device(), "MULTIPROCESSOR_COUNT", 132))


def allow_shared(kernel: Any, signature: str, size: int, share: int | None = None) -> None:
    """Allow a kernel so many bytes of dynamic shared memory on the current GPU.

    Shared memory and L1 are one memory. By itself the driver makes as much of it shared memory as
    this kernel's blocks need, and then another kernel's blocks find none beside them. With `share`
    about so many hundredths are.

    Compiles the kernel for the signature if it is not. In the simulator nothing is to be done: it
    keeps the simulated GPU's own limit.

    Raises
    ------
    RuntimeError
        When the driver refuses.
    """
    if backend.gpu() is None:
        return
    key = kernel, str(signature), backend.cuda.get_current_device().id
    if _allowed.get(key, 0) < size:
        disk.keep(kernel)
        kernel.compile(signature)
        for version in kernel.overloads.values():
            function = version._codelibrary.get_cufunc()
            _allow(function, key[-1], size)
            if share is not None:
                _set(function, key[-1], PREFERRED_SHARED_MEMORY_CARVEOUT, share)
        _allowed[key] = size


_allowed: dict[tuple[Any, str, int], int] = {}  # bytes by kernel, signature, device


def ready(
    kernel: Any, grid: Any, threads: int, stream: Any, size: int, arguments: tuple
) -> tuple[Callable, tuple]:
    """A launch that may use `size` bytes of dynamic shared memory, as (callable, arguments)."""
    if backend.gpu() is not None:
        kinds = tuple(
            one.numba_type() if hasattr(one, "numba_type") else kernel.typeof_pyval(one)
            for one in arguments
        )
        allow_shared(kernel, kinds, size)
    return kernel[grid, threads, stream, size], arguments


def _allow(function: Any, device: int, size: int) -> None:
    """Set the limit of a loaded function."""
    try:
        _set(function, device, MAX_DYNAMIC_SHARED_SIZE_BYTES, size)
    except libcuda.DriverError as problem:
        raise RuntimeError(
            f"the driver refuses {size:,} bytes of shared memory for a block ({problem}): "
            "choose a method or a shape that needs less"
        ) from problem


def _set(function: Any, device: int, attribute: int, value: int) -> None:
    """Set an attribute of a loaded function, which newer numba-cuda holds as a CUkernel."""
    handle = ctypes.c_void_p(int(getattr(function.handle, "value", function.handle)))
    if hasattr(function, "kernel"):
        libcuda.call("cuKernelSetAttribute", attribute, value, handle, device)
    else:
        libcuda.call("cuFuncSetAttribute", handle, attribute, value)


# --- what a GPU lacks -----------------------------------------------------------------------------


def no_warpgroups() -> str:
    """What kernels of `warpsim.ptx.hopper` need and do not find, in words; else nothing."""
    capability = tuple(backend.cuda.get_current_device().compute_capability)
    if capability != (9, 0):
        return "needs compute capability 9.0, and this GPU has {}.{}".format(*capability)
    version = backend.installed_version("numba-cuda") or ""
    if backend.gpu() is not None and backend.version_tuple(version) < _NUMBA:
        return f"needs numba-cuda 0.30, which compiles for sm_90a, and {version} is installed"
    return ""
