"""What programs ask of the modules inside ``numba.cuda``, by their names there.

All that Numba's own simulator answers is here; what makes machine code says so when it is called.
"""

from collections import namedtuple
from collections.abc import Callable
from importlib import import_module
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from numba.core import config, errors, types
from numba.core.sigutils import is_signature

from warpsim import cuda as host
from warpsim import ptx
from warpsim.front import successor
from warpsim.host import device
from warpsim.host.device import DeviceNDArray
from warpsim.run.kernel import OPTIONS


class LinkableCode:
    """Code to be linked to a kernel, bytes or text, of which the simulator runs none."""

    def __init__(self, data: Any, name: str | None = None):
        self.data, self.name = data, name or f"<unnamed-{type(self).__name__.lower()}>"


class Over(ModuleType):
    """A module of Numba with some names of its own."""

    def __init__(self, real: ModuleType, **own: Any):
        super().__init__(real.__name__)
        self.__dict__.update(own, __getattr__=lambda name: getattr(real, name))


NO_VERSION = -1, -1
_DRIVER_ITSELF = SimpleNamespace(get_version=lambda: NO_VERSION, get_device_count=lambda: 1)


def _as_there(module: str) -> dict[str, Any]:
    """What Numba's own simulator, of the release that is here, has in a module of ``numba.cuda``.

    What is None there refuses to be called.
    """
    try:
        found = vars(import_module(f"numba.cuda.simulator.{module}"))
    except ImportError:
        return {}
    names = [n for n in found if not (n.startswith("_") or isinstance(found[n], ModuleType))]
    return {n: _refusing(f"{module}.{n}") if found[n] is None else found[n] for n in names}


def _refusing(name: str) -> Callable:
    """A function of Numba that can be imported, and says why it does nothing when it is called."""

    def refused(*args: Any, **options: Any) -> Any:
        why = "it makes no machine code, which takes CUDA's compiler"
        raise NotImplementedError(f"the simulator has no numba.cuda.{name}: {why}")

    refused.__name__ = name
    return refused


def _successors_jit(func_or_sig: Any = None, **options: Any) -> Any:
    """``numba_cuda_mlir.cuda.jit``; options that its compiler alone knows are left out."""
    known = {name: value for name, value in options.items() if name in OPTIONS}
    whole = isinstance(func_or_sig, FunctionType | host.Kernel)

    def decorate(function: Any) -> host.Kernel:
        successor.mark(getattr(function, "py_func", function))
        return host.jit(function, **known) if whole else host.jit(func_or_sig, **known)(function)

    return decorate(func_or_sig) if whole else decorate


def _auto_device(obj: Any, stream: Any = 0, copy: bool = True) -> tuple[Any, bool]:
    """An array on the device, and whether it was copied there."""
    return (obj, False) if host.is_cuda_array(obj) else (host.to_device(obj, stream, copy), True)


def _bytes(array: Any, size: int) -> Any:
    memory = getattr(array, "_memory", array)
    return memory.reshape(-1, order="A").view("u1")[:size]


def _copy_bytes(dst: Any, src: Any, size: int, stream: Any = 0) -> None:
    _bytes(dst, size)[...] = _bytes(src, size)


_ARRAYS = _as_there("cudadrv.devicearray") | {
    name: getattr(host, name)
    for name in (
        "device_array", "device_array_like", "managed_array", "mapped_array", "pinned",
        "pinned_array", "pinned_array_like", "to_device",
    )
} | {
    "DeviceNDArray": DeviceNDArray, "DeviceRecord": device.DeviceRecord,
    "FakeCUDAArray": DeviceNDArray, "FakeShape": tuple, "auto_device": _auto_device, "types": types,
}  # fmt: skip
_DRIVER = _as_there("cudadrv.driver") | {
    name: getattr(device, name)
    for name in ("Context", "Device", "Event", "MemoryPointer", "Stream")
} | {
    "FakeDriver": lambda: _DRIVER_ITSELF,
    "device_memory_size": lambda obj: obj.dtype.itemsize * obj.size,
    "device_memset": lambda dst, val, size, stream=0: _bytes(dst, size).fill(val),
    "device_to_device": _copy_bytes, "device_to_host": _copy_bytes,
    "driver": _DRIVER_ITSELF, "host_to_device": _copy_bytes,
    "launch_kernel": _refusing("cudadrv.driver.launch_kernel"),
}  # fmt: skip


Dim3 = namedtuple("Dim3", "x y z")
_MACHINE_CODE = (
    "compile", "compile_all", "compile_for_current_device", "compile_ptx",
    "compile_ptx_for_current_device",
)  # fmt: skip
_LINKABLE = {
    name: type(name, (LinkableCode,), {})
    for name in ("Archive", "CUSource", "Cubin", "Fatbin", "LTOIR", "Object", "PTXSource")
} | {"LinkableCode": LinkableCode}
_COMPILE = {name: _refusing(name) for name in _MACHINE_CODE}
_DEVICES = {
    "FakeCUDAContext": device.Context, "FakeCUDADevice": device.Device,
    "FakeDeviceList": type(host.gpus), "get_context": host.current_context, "gpus": host.gpus,
    "require_context": lambda function: function, "reset": lambda: None,
}  # fmt: skip
#: What says how caches keep an element.
_HINTS = {
    **dict.fromkeys(("ldca", "ldcg", "ldcs", "ldcv", "ldlu"), ptx.load_streaming),
    **dict.fromkeys(("stcg", "stcs", "stwb", "stwt"), ptx.store_streaming),
}

#: ``numba.cuda`` itself, beside what `warpsim.cuda` has.
CUDA = _as_there("cudadrv.runtime") | _as_there("cudadrv.error") | _LINKABLE | _COMPILE | _HINTS | {
    "cuda_error": lambda: None,
    "declare_device": lambda name, sig, **_: _refusing(name),
    "implementation": "NVIDIA", "is_signature": is_signature,
    "config": Over(config, ENABLE_CUDASIM=1), "Dim3": Dim3, "dim3": Dim3,
    "FakeCUDAKernel": host.Kernel, "HAS_NUMBA": True, "auto_device": _auto_device,
    "is_bfloat16_supported": lambda: False, "is_float16_supported": lambda: True,
    "is_fp8_supported": lambda: False, "is_supported_version": lambda: True,
    "require_context": _DEVICES["require_context"], "reset": _DEVICES["reset"],
}  # fmt: skip
MODULES = {
    f"numba.cuda.{name}": _as_there(name)
    for name in (
        "_internal", "_internal.cuda_bf16", "bf16", "cudadrv", "cudadrv.drvapi",
        "cudadrv.dummyarray", "cudadrv.error", "cudadrv.libs", "cudadrv.nvrtc", "cudadrv.nvvm",
        "cudadrv.runtime", "memory_management",
    )
} | {
    "numba.cuda.api": {},
    "numba.cuda.args": {
        "In": host.In, "InOut": host.InOut, "Out": host.Out, "ArgHint": host.In.__base__,
        "wrap_arg": lambda value, default=host.InOut: (
            value if isinstance(value, host.In.__base__) else default(value)
        ),
    },
    "numba.cuda.compiler": _as_there("compiler") | _COMPILE,
    "numba.cuda.dispatcher": {"CUDADispatcher": host.Kernel},
    "numba.cuda.cudadrv.devicearray": _ARRAYS,
    "numba.cuda.cudadrv.devices": _DEVICES,
    "numba.cuda.cudadrv.driver": _DRIVER | _as_there("cudadrv.error"),
    "numba.cuda.cudadrv.linkable_code": _LINKABLE,
    "numba.cuda.memory_management.nrt": _as_there("memory_management.nrt")
    | {"config": CUDA["config"]},
    "numba.cuda.reduction": {"Reduce": host.Reduce, "reduce": host.reduce},
    "numba.cuda.simulator": {},
    "numba.cuda.simulator.kernel": {"Dim3": Dim3, "FakeCUDAKernel": host.Kernel},
    "numba.cuda.simulator.kernelapi": {"Dim3": Dim3},
    "numba.cuda.simulator.vector_types": {
        "vector_types": {name: value for name, value in vars(host).items() if "32x" in name}
    },
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
