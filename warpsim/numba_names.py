"""What programs ask of the modules inside ``numba.cuda``, by their names there.

All that Numba's own simulator answers is here; what makes machine code says so when it is called.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba.core import config, errors, types

from warpsim import cuda as host
from warpsim import ptx
from warpsim.front import successor
from warpsim.host import device
from warpsim.host.device import DeviceNDArray
from warpsim.run.kernel import OPTIONS


class CudaSupportError(ImportError):
    """There is no usable GPU; the simulator never raises it."""


class NvvmSupportError(ImportError):
    """There is no NVVM."""


class LinkableCode:
    """Code to be linked to a kernel, of which the simulator runs none.

    Parameters
    ----------
    data : bytes or str
    name : str, optional
    """

    def __init__(self, data: Any, name: str | None = None):
        self.data, self.name = data, name or f"<unnamed-{type(self).__name__.lower()}>"


class _Config:
    """Numba's settings, which say that the GPU is simulated."""

    ENABLE_CUDASIM = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(config, name)


class _Runtime:
    """``cuda.runtime``: there is none, and no version."""

    supported_versions = ((-1, -1),)

    def get_version(self) -> tuple[int, int]:
        return -1, -1

    def is_supported_version(self) -> bool:
        return True


class _Driver:
    """``cudadrv.driver.driver``."""

    def get_device_count(self) -> int:
        return 1

    def get_version(self) -> tuple[int, int]:
        return -1, -1


class NVVM:
    """``cudadrv.nvvm.NVVM``, which cannot be had."""

    def __init__(self) -> None:
        raise NvvmSupportError("the simulator makes no machine code: there is no NVVM")


def _refusing(name: str) -> Callable:
    """A function of Numba that can be imported, and says why it does nothing when it is called."""

    def refused(*args: Any, **options: Any) -> Any:
        raise NotImplementedError(
            f"the simulator has no numba.cuda.{name}: it makes no machine code, which takes CUDA's "
            "compiler"
        )

    refused.__name__ = name
    return refused


def _require_context(function: Callable) -> Callable:
    return function


def _successors_jit(func_or_sig: Any = None, **options: Any) -> Any:
    """``numba_cuda_mlir.cuda.jit``; options that its compiler alone knows are left out."""
    known = {name: value for name, value in options.items() if name in OPTIONS}

    def decorate(function: Any) -> host.Kernel:
        successor.mark(getattr(function, "py_func", function))
        whole = isinstance(func_or_sig, FunctionType | host.Kernel)
        return host.jit(function, **known) if whole else host.jit(func_or_sig, **known)(function)

    return (
        decorate(func_or_sig) if isinstance(func_or_sig, FunctionType | host.Kernel) else decorate
    )


def _reset() -> None:
    """Nothing to reset without a GPU."""


def _auto_device(obj: Any, stream: Any = 0, copy: bool = True) -> tuple[Any, bool]:
    """An array on the device, and whether it was copied there."""
    return (obj, False) if host.is_cuda_array(obj) else (host.to_device(obj, stream, copy), True)


def _require(value: Any) -> None:
    if not host.is_cuda_array(value):
        raise ValueError("require an cuda ndarray object")


DEVICEARRAY = {
    "DeviceNDArray": DeviceNDArray,
    "DeviceRecord": device.DeviceRecord,
    "is_cuda_ndarray": host.is_cuda_array,
    "require_cuda_ndarray": _require,
    "verify_cuda_ndarray_interface": _require,
}
DRIVER = {name: getattr(device, name) for name in ("Context", "Device", "Event", "Stream")}
DRIVER |= {"MemoryPointer": device.MemoryPointer}
DRIVER |= {"CudaAPIError": type("CudaAPIError", (RuntimeError,), {})}


Dim3 = namedtuple("Dim3", "x y z")
_MACHINE_CODE = (
    "compile", "compile_all", "compile_for_current_device", "compile_ptx",
    "compile_ptx_for_current_device", "declare_device",
)  # fmt: skip
_LINKABLE = {
    name: type(name, (LinkableCode,), {})
    for name in ("Archive", "CUSource", "Cubin", "Fatbin", "LTOIR", "Object", "PTXSource")
} | {"LinkableCode": LinkableCode}
_COMPILE = {name: _refusing(name) for name in _MACHINE_CODE}
_ARRAYS = {
    name: getattr(host, name)
    for name in (
        "device_array", "device_array_like", "managed_array", "mapped_array", "pinned",
        "pinned_array", "pinned_array_like", "to_device",
    )
}  # fmt: skip
_DEVICES = {
    "gpus": host.gpus, "get_context": host.current_context, "reset": _reset,
    "require_context": _require_context,
}  # fmt: skip
_NVVM = {
    "NVVM": NVVM, "NvvmSupportError": NvvmSupportError, "is_available": lambda: False,
    "get_supported_ccs": lambda: (), "NvvmError": None, "nvvmError": None,
} | {
    name: _refusing(f"cudadrv.nvvm.{name}")
    for name in ("CompilationUnit", "LibDevice", "compile_ir", "get_arch_option", "set_cuda_kernel")
}  # fmt: skip
_ERROR = {
    "CudaSupportError": CudaSupportError,
    "NvrtcError": type("NvrtcError", (RuntimeError,), {}),
}
#: What says how caches keep an element.
_HINTS = {
    **dict.fromkeys(("ldca", "ldcg", "ldcs", "ldcv", "ldlu"), ptx.load_streaming),
    **dict.fromkeys(("stcg", "stcs", "stwb", "stwt"), ptx.store_streaming),
}

#: ``numba.cuda`` itself, beside what `warpsim.cuda` has.
CUDA = _LINKABLE | _COMPILE | _HINTS | {
    "config": _Config(), "runtime": _Runtime(), "Dim3": Dim3, "dim3": Dim3,
    "FakeCUDAKernel": host.Kernel, "HAS_NUMBA": True, "auto_device": _auto_device,
    "is_bfloat16_supported": lambda: False, "is_float16_supported": lambda: True,
    "is_fp8_supported": lambda: False, "is_supported_version": lambda: True,
    "require_context": _require_context, "reset": _reset,
}  # fmt: skip
MODULES = {
    "numba.cuda.api": {},
    "numba.cuda.args": {
        "In": host.In, "InOut": host.InOut, "Out": host.Out, "ArgHint": host.In.__base__,
    },
    "numba.cuda.compiler": _COMPILE,
    "numba.cuda.dispatcher": {"CUDADispatcher": host.Kernel},
    "numba.cuda.cudadrv": {},
    "numba.cuda.cudadrv.devicearray": DEVICEARRAY | _ARRAYS | {
        "FakeCUDAArray": DeviceNDArray, "auto_device": _auto_device, "types": types,
    },
    "numba.cuda.cudadrv.devices": _DEVICES,
    "numba.cuda.cudadrv.driver": DRIVER | {"driver": _Driver()} | _ERROR,
    "numba.cuda.cudadrv.drvapi": {},
    "numba.cuda.cudadrv.error": _ERROR,
    "numba.cuda.cudadrv.linkable_code": _LINKABLE,
    "numba.cuda.cudadrv.nvvm": _NVVM,
    "numba.cuda.cudadrv.runtime": {"runtime": CUDA["runtime"]},
    "numba.cuda.simulator": {},
    "numba.cuda.simulator.api": {"FakeCUDAKernel": host.Kernel},
    "numba.cuda.simulator.kernel": {"FakeCUDAKernel": host.Kernel},
    "numba.cuda.simulator.cudadrv": {},
    "numba.cuda.simulator.cudadrv.devicearray": DEVICEARRAY | {"FakeCUDAArray": DeviceNDArray},
}  # fmt: skip
#: ``numba_cuda_mlir.cuda``, beside that, and which of its modules are Numba's own.
SUCCESSORS_CUDA = {
    "jit": _successors_jit, "HAS_NUMBA": False, "local_array": host.local.array,
    "shared_array": host.shared.array,
}  # fmt: skip
SUCCESSORS_ERRORS = {
    f"{successor.NAME}.{name}": errors
    for name in ("errors", "numba_cuda.errors", "numba_cuda.core.errors")
}
