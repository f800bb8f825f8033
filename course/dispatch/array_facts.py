"""What a plan depends on: an array's library, shape, strides, dtype, device and stream.

``reader(array)`` returns these facts as a hashable tuple, and the address. It runs for each array
of each call, so each type has a reader of its own. `Library` is what plans need of a library.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from course import backend
from course.dispatch.prepared import SIMULATED, device_of
from course.dispatch.slots import HasShape, in_c_order
from warpsim.ptx.bfloat16 import BFLOAT16

#: Readers by type: array -> (facts, address). Facts are (library, shape, strides, element, device,
#: flag): strides in the library's own units, and None where elements are contiguous.
READERS: dict[type, Callable[[Any], tuple[tuple | None, int]]] = {type(None): lambda _: (None, 0)}

_PLAIN = np.ndarray.__array_ufunc__  # subclasses such as arrays with units override it


class Library:
    """A library whose arrays the course accepts; this base class has all its arrays on the host.

    Attributes
    ----------
    name : str
    on_device : bool
        Whether its arrays lie on the GPU, and kernels can be launched on them as they are.
    """

    name, on_device = "NumPy", False
    waits = False  # whether `as_scalar` copies to the host, so that the stream is waited for
    #: Whether a graph is captured on the caller's stream; called only where `lends` is set.
    is_captured: Callable[[], bool] = staticmethod(lambda: False)
    #: Whether each call borrows its workspaces from the library's allocator, if none must hold
    #: zeros. That costs next to nothing and is ordered by stream; what is allocated while the
    #: library captures a graph stays with the graph.
    lends = False

    def convert(self, name: str, dtype: str, held: Any = None) -> str:
        """The code by which a user converts the array called `name`; `held` is its dtype.

        NumPy has no bfloat16: the course's is a record dtype, which `astype` cannot convert.
        """
        if held == BFLOAT16:
            name = f"{name}.view(ml_dtypes.bfloat16)"
        return f"{name}.astype({'ml_dtypes.bfloat16' if dtype == 'bfloat16' else repr(dtype)})"

    def as_bfloat16(self, name: str) -> str:
        """The code by which a user reinterprets 16-bit integers as bfloat16."""
        return (
            f"{name}.view(BFLOAT16), of course.kernels.arrays, or {name}.view(ml_dtypes.bfloat16)"
        )

    def to_host(self, array: Any) -> np.ndarray:
        """The array as NumPy's, without a copy."""
        return np.asarray(array)

    def from_host(self, array: np.ndarray) -> Any:
        """An array of this library with the elements of NumPy's."""
        return array

    def stream(self, device: int) -> int:
        """The stream that the caller works on, as the driver's handle."""
        return 0

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: int) -> Any:
        """A new array in C order, allocated in the order of the caller's stream."""
        return backend.cuda.device_array(shape, dtype)

    def maker(self, shape: tuple[int, ...], dtype: np.dtype, device: int) -> Callable[[], Any]:
        """A function without arguments that allocates such an array, for plans to call."""
        return functools.partial(self.empty, shape, dtype, device)

    def address(self, array: Any) -> int:
        """The address of an array that `empty` or `maker` allocated."""
        return int(array.__cuda_array_interface__["data"][0])

    def on_stream(self, stream: int, device: int) -> Any:
        """A context in which `empty` makes memory for work on another stream than the current."""
        return contextlib.nullcontext()

    def as_scalar(self, array: Any) -> Any:
        """What a reduction to one element returns, from the array that holds this element."""
        return array.reshape(())


class HostArrays(Library):
    """NumPy."""

    def as_scalar(self, array: Any) -> Any:
        return array[0]


class NamedArrays(HostArrays):
    """NumPy, with the bfloat16 of the package ml_dtypes."""

    def to_host(self, array: Any) -> np.ndarray:
        return array.view(BFLOAT16)

    def from_host(self, array: np.ndarray) -> Any:
        return array.view(_named_bfloat16()) if array.dtype == BFLOAT16 else array


class NumbaArrays(Library):
    """numba.cuda, or the simulator: arrays work on the default stream."""

    name, on_device, waits = "numba.cuda", True, True

    def convert(self, name: str, dtype: str, held: Any = None) -> str:
        found = Library.convert(self, f"{name}.copy_to_host()", dtype, held)
        return f"cuda.to_device({found}{'.view(BFLOAT16)' if dtype == 'bfloat16' else ''})"

    def as_scalar(self, array: Any) -> Any:
        return array.copy_to_host()[0]


class CuPyArrays(Library):
    """CuPy."""

    name, on_device = "CuPy", True

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        self.current = cupy.cuda.get_current_stream

    def stream(self, device: int) -> int:
        return self.current().ptr

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: int) -> Any:
        return self.cupy.empty(shape, _named_bfloat16() if dtype == BFLOAT16 else dtype)

    def maker(self, shape: tuple[int, ...], dtype: np.dtype, device: int) -> Callable[[], Any]:
        dtype = _named_bfloat16() if dtype == BFLOAT16 else dtype
        return functools.partial(self.cupy.ndarray, shape, dtype)

    def address(self, array: Any) -> int:
        return array.data.ptr

    def on_stream(self, stream: int, device: int) -> Any:
        return self.cupy.cuda.ExternalStream(stream, device)


class Tensors(Library):
    """PyTorch."""

    name = "PyTorch"

    def convert(self, name: str, dtype: str, held: Any = None) -> str:
        return f"{name}.to(torch.{dtype})"

    def as_bfloat16(self, name: str) -> str:
        return f"{name}.view(torch.bfloat16)"


class TorchArrays(Tensors):
    """PyTorch, on the GPU."""

    on_device, lends = True, True

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.stream = getattr(torch._C, "_cuda_getCurrentRawStream", self._current)
        self.address = torch.Tensor.data_ptr
        self.is_captured = getattr(
            torch._C, "_cuda_isCurrentStreamCapturing", torch.cuda.is_current_stream_capturing
        )
        #: How torch.compile's programs allocate, on the current device: half the cost of `empty`.
        guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
        self.strided = getattr(guards, "_empty_strided_cuda", None)
        self.types = {np.dtype(name): getattr(torch, name) for name in TORCH_TYPES}
        self.types[BFLOAT16] = torch.bfloat16
        self.devices: dict[int, Any] = {}

    def _current(self, device: int) -> int:
        return self.torch.cuda.current_stream(device).cuda_stream

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: int) -> Any:
        there = self.devices.get(device) or self.devices.setdefault(
            device, self.torch.device("cuda", device)
        )
        return self.torch.empty(shape, dtype=self.types[dtype], device=there)

    def maker(self, shape: tuple[int, ...], dtype: np.dtype, device: int) -> Callable[[], Any]:
        if self.strided is None:
            return super().maker(shape, dtype, device)
        steps = tuple(step // dtype.itemsize for step in in_c_order(shape, dtype.itemsize))
        return functools.partial(self.strided, shape, steps, self.types[dtype])

    def is_captured_by_others(self, address: int) -> bool:
        """Whether a graph is captured, but not by PyTorch, whose graphs have pools of memory."""
        if not self.is_captured():
            return False
        try:
            segments = self.torch.cuda.memory_snapshot()
        except RuntimeError:  # PyTorch uses another allocator than its usual one
            return True
        return not any(
            one["address"] <= address < one["address"] + one["total_size"]
            and tuple(one.get("segment_pool_id", (0, 0))) != (0, 0)
            for one in segments
        )

    def on_stream(self, stream: int, device: int) -> Any:
        return self.torch.cuda.stream(self.torch.cuda.ExternalStream(stream, device))


class TorchOnHost(Tensors):
    """PyTorch, in the host's memory."""

    def to_host(self, array: Any) -> np.ndarray:
        import torch

        array = array.detach()
        if array.dtype == torch.bfloat16:
            return array.view(torch.int16).numpy().view(BFLOAT16)
        return array.numpy()

    def from_host(self, array: np.ndarray) -> Any:
        import torch

        if array.dtype == BFLOAT16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)


class Foreign(NumbaArrays):
    """Any other library with the CUDA array interface; results are Numba's arrays."""

    name, convert = "another library", Library.convert


DLPACK_IMPORTERS = ("cupy", "torch")  # libraries that import GPU memory through DLPack
#: PyTorch's dtypes that NumPy has, too.
TORCH_TYPES = (
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool",
    "complex64", "complex128",
)  # fmt: skip


def _named_bfloat16() -> np.dtype:
    """The bfloat16 of the package ml_dtypes, which CuPy has, too."""
    from ml_dtypes import bfloat16

    return np.dtype(bfloat16)


@functools.cache
def library(name: str) -> Library:
    """The `Library` that an array's facts name."""
    made: dict[str, Callable[[], Library]] = {
        "numpy": HostArrays, "ml_dtypes": NamedArrays, "numba": NumbaArrays, "cupy": CuPyArrays,
        "torch": TorchArrays, "torch on host": TorchOnHost, "foreign": Foreign,
    }  # fmt: skip
    return made[name]()


def handle_of(stream: Any) -> int:
    """The driver's handle of a stream of numba.cuda, CuPy or PyTorch, or the number itself."""
    for name in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, name, None)
        if found is not None:
            return int(getattr(found, "value", found) or 0)
    if isinstance(stream, int):
        return stream
    raise TypeError(
        f"stream is {type(stream).__name__}: give a stream of CuPy, PyTorch or numba.cuda, or the "
        "number of one"
    )


# --- readers --------------------------------------------------------------------------------------


def _read_numpy(array: np.ndarray) -> tuple[tuple, int]:
    return ("numpy", array.shape, array.strides, array.dtype, -1, not array.flags.writeable), 0


def _read_cupy(array: Any) -> tuple[tuple, int]:
    data = array.data
    return ("cupy", array.shape, array.strides, array.dtype, data.device_id, False), data.ptr


def _read_numba(array: Any) -> tuple[tuple, int]:
    address = array.device_ctypes_pointer.value or 0
    stream, context = array.stream, getattr(array.gpu_data, "context", None)
    device = 0 if context is None else context.device.id
    return (
        ("numba", array.shape, array.strides, array.dtype, device, False,
         handle_of(stream) if stream else 0),
        address,
    )  # fmt: skip


def _read_simulated(array: Any) -> tuple[tuple, int]:
    address = array._memory.__array_interface__["data"][0]
    return ("numba", array.shape, array.strides, array.dtype, SIMULATED, False), address


def _read_torch() -> Callable[[Any], tuple[tuple, int]]:
    import torch

    records = torch.is_grad_enabled

    def reader(array: Any) -> tuple[tuple, int]:
        device, flag = array.get_device(), array.requires_grad and records()
        if device < 0:
            return ("torch on host", array.shape, array.stride(), array.dtype, device, flag), 0
        steps = None if array.is_contiguous() else array.stride()
        return ("torch", array.shape, steps, array.dtype, device, flag), array.data_ptr()

    return reader


def _read_foreign(array: Any) -> tuple[tuple, int]:
    about = array.__cuda_array_interface__
    address, read_only = about["data"]
    return (
        ("foreign", tuple(about["shape"]), about.get("strides"), about["typestr"],
         device_of(address or 0), read_only, about.get("stream"), about.get("mask") is not None),
        address or 0,
    )  # fmt: skip


def reader_of(array: Any) -> Callable[[Any], tuple[tuple, int]] | None:
    """The reader for an array's type, kept for the next array; None for what is no array."""
    array_type = type(array)
    package = array_type.__module__.partition(".")[0]
    reader = READERS.get(array_type)
    if reader is not None:
        return reader
    if isinstance(array, np.ndarray):
        if array_type is not np.ndarray and (
            isinstance(array, np.ma.MaskedArray) or array_type.__array_ufunc__ is not _PLAIN
        ):
            return None  # a kernel would ignore its mask or its units
        reader = _read_numpy
    elif hasattr(array, "untyped_storage") and hasattr(array, "get_device"):  # or a subclass
        reader = _read_torch()
    elif package == "cupy" and hasattr(array, "__cuda_array_interface__"):
        reader = _read_cupy
    elif hasattr(array, "_memory") and hasattr(array, "copy_to_host"):
        reader = _read_simulated
    elif hasattr(array, "copy_to_host") and hasattr(array, "device_ctypes_pointer"):
        reader = _read_numba
    elif hasattr(array, "__cuda_array_interface__") and not has_space(array):
        reader = _read_foreign
    if reader is not None:
        READERS[array_type] = reader
    return reader


def has_space(array: Any) -> bool:
    """Whether results can be handed to an array's library, such as JAX, through DLPack.

    Here CuPy or PyTorch must be installed for that: they exchange GPU memory through DLPack.
    """
    names = ("__array_namespace__", "__dlpack__", "__dlpack_device__")
    return all(hasattr(array, name) for name in names) and any(
        importlib.util.find_spec(name) is not None for name in DLPACK_IMPORTERS
    )


# --- facts, read --------------------------------------------------------------------------------


class ArrayFacts(HasShape):
    """An array's properties, which checks and plans look at.

    `strides` are in bytes. `dtype` is `BFLOAT16` for every library's bfloat16, and a string where
    NumPy lacks the dtype. `device` is the index of the GPU; below 0 for the host and the simulator.
    """

    def __init__(self, facts: tuple):
        name, shape, strides, element, device, flag = facts[:6]
        self.library, self.shape, self.device = library(name), tuple(shape), device
        self.stream = facts[6] if len(facts) > 6 else None
        self.has_mask = len(facts) > 7 and facts[7]
        self.read_only = bool(flag) and not name.startswith("torch")
        self.wants_gradient = bool(flag) and name.startswith("torch")
        self.dtype: Any
        if name.startswith("torch"):
            word = str(element).removeprefix("torch.")
            self.dtype = np.dtype(word) if word in TORCH_TYPES else str(element)
            if word == "bfloat16":
                self.dtype = BFLOAT16
            size = element.itemsize
            strides = None if strides is None else tuple(size * step for step in strides)
        else:
            self.dtype = np.dtype(element)
            if self.dtype.name == "bfloat16":  # of ml_dtypes
                self.dtype = BFLOAT16
                self.library = library("ml_dtypes") if name == "numpy" else self.library
            size = self.dtype.itemsize
        self.strides = in_c_order(self.shape, size) if strides is None else tuple(strides)

    def must_be_beside(self, name: str, what: str, device: int) -> None:
        """Refuse an array that is not on `device`, where the function already has its `what`."""
        if self.device >= 0 and self.device != device:
            raise ValueError(
                f"{name} lies on GPU {self.device}, {what} on GPU {device}: bring {name} there"
            )
