"""Device arrays, streams, events and device properties of the simulator."""

import ctypes
import math
import operator
import weakref
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numba import types

from warpsim.core.interface import describe, owner_of, start_of
from warpsim.core.settings import setting
from warpsim.front.numba_typing import of_dtype, of_value
from warpsim.host.gpus import GPU

#: What Numba says of an array with gaps.
NOT_CONTIGUOUS = (
    "Array contains non-contiguous buffer and cannot be transferred as a single memory region. "
    "Please ensure contiguous buffer with numpy .ascontiguousarray()"
)
#: What an index of a device array may be.
ONLY_WHOLE = (
    "as in Numba, a device array takes integers and slices, no masks, lists, None or ...: "
    "copy_to_host() first, or choose the elements in a kernel"
)


class NoTime(RuntimeError):
    """Asked for a time that only a GPU has."""


def copied(array: np.ndarray, what: str) -> np.ndarray:
    """A copy on the device, in the same order; as Numba, only of contiguous memory."""
    if array.size and _has_gaps(array):
        raise ValueError(
            f"{what} is not contiguous (shape {array.shape}, strides {array.strides} bytes), so it "
            "cannot be copied to the device in one piece: give np.ascontiguousarray(...) of it, "
            "or copy the whole array and take the part on the device"
        )
    copy = np.array(array, order="K", copy=True)
    return copy if copy.flags.forc else np.ascontiguousarray(array).copy()


def _has_gaps(array: np.ndarray) -> bool:
    """Whether elements lie apart; an axis that broadcasting made takes no memory, and no gaps."""
    spread = zip(array.strides, array.shape, strict=True)
    core = array[tuple(0 if stride == 0 and size else slice(None) for stride, size in spread)]
    return not core.flags.forc


def copied_as_it_lies(array: np.ndarray, what: str) -> np.ndarray:
    """A copy on the device with the same strides: what broadcasting made takes no memory there."""
    spread = [stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape)]
    if not any(spread):
        return copied(array, what)
    core = copied(array[tuple(slice(0, 1) if one else slice(None) for one in spread)], what)
    strides = [0 if one else step for one, step in zip(spread, core.strides)]
    return np.ndarray(array.shape, array.dtype, core, strides=strides)


# ---------------------------------------------------------------------- what nobody has set
# Elements of ``cuda.device_array`` count as set once a host call, or a kernel's store, has gone
# there; after a launch that is not traced all that it may store to. Whoever writes some other way
# is seen by what stands there.
#: Allocations with elements that nobody has set: which are, and what the others hold.
_allocations: dict[int, tuple[np.ndarray, np.generic]] = {}


def never_set(memory: np.ndarray) -> None:
    """Note an allocation whose elements all hold the same, and no value."""
    owner, size = owner_of(memory), memory.itemsize
    if memory.size and memory.dtype.names is None and not owner.nbytes % size:
        made = np.zeros(owner.nbytes // size, bool), memory.reshape(-1, order="A")[0].copy()
        _allocations[id(owner)] = made
        weakref.finalize(owner, _allocations.pop, id(owner), None).atexit = False


def set_elements(memory: np.ndarray) -> np.ndarray | None:
    """Which elements are set, as a view; None where all are, and where that is not known."""
    owner = owner_of(memory)
    known = _allocations.get(id(owner))
    if known is None or not memory.size:
        return None
    is_set, filled = known
    start, size = start_of(memory) - start_of(owner), filled.itemsize
    if memory.itemsize != size or any(step % size for step in (start, *memory.strides)):
        is_set[...] = True  # elements of another size: not followed further
    if is_set.all():
        del _allocations[id(owner)]
        return None
    steps = [step // size for step in memory.strides]
    return np.ndarray(memory.shape, bool, is_set, start // size, steps)


def now_set(memory: np.ndarray, values: Any = None) -> None:
    """All elements of an array have been written, or those for which some values are set."""
    found = set_elements(memory) if _allocations else None
    if found is not None:
        known = set_elements(values) if isinstance(values, np.ndarray) else None
        found |= True if known is None else known


def never_set_elements(flat: np.ndarray) -> np.ndarray | None:
    """Which elements of a 1-D array are set, as a view, once one has looked at what they hold."""
    found = set_elements(flat) if _allocations else None
    if found is not None:
        held = _allocations[id(owner_of(flat))][1].tobytes()
        found |= (flat.view(np.uint8).reshape(len(flat), -1) != np.frombuffer(held, "u1")).any(1)
    return found


# ---------------------------------------------------------------------- arrays
class DeviceNDArray:
    """An array on the simulated device.

    The host cannot read it by accident: ``copy_to_host`` gives its values.
    """

    def __init__(self, memory: np.ndarray, stream: Any = 0):
        self._memory, self.stream = memory, stream

    is_record = False
    __cuda_memory__ = __cuda_ndarray__ = True  # how Numba's own functions know such an array
    shape = property(lambda self: self._memory.shape)
    dtype = property(lambda self: self._memory.dtype)
    strides = property(lambda self: self._memory.strides)
    ndim = property(lambda self: self._memory.ndim)
    size = property(lambda self: self._memory.size)
    nbytes = property(lambda self: self._memory.nbytes)
    alloc_size = nbytes
    __cuda_array_interface__ = property(lambda self: describe(self._memory, self.stream))

    @property
    def flags(self) -> dict[str, bool]:
        """In which orders the elements lie one after the other; an axis of stride 0 is in none."""
        flags = self._memory.flags
        return {"C_CONTIGUOUS": flags.c_contiguous, "F_CONTIGUOUS": flags.f_contiguous}

    @property
    def gpu_data(self) -> "MemoryPointer":
        return MemoryPointer(self.__cuda_array_interface__["data"][0], self.nbytes)

    #: The address of the first element; see :mod:`warpsim.core.interface`.
    device_ctypes_pointer = property(lambda self: self.gpu_data.device_ctypes_pointer)

    @property
    def _numba_type_(self) -> types.Type:
        kind = of_value(self._memory)
        broadcast = 0 in self.strides and self.size != 0
        return types.Array(kind.dtype, kind.ndim, "A") if broadcast else kind

    def is_c_contiguous(self) -> bool:
        return self._memory.flags.c_contiguous

    def is_f_contiguous(self) -> bool:
        return self._memory.flags.f_contiguous

    def get_ipc_handle(self) -> None:
        raise RuntimeError("no other process can reach the simulator's memory: copy it to the host")

    def bind(self, stream: Any = 0) -> "DeviceNDArray":
        """The same array with another default stream."""
        return type(self)(self._memory, stream)

    T = property(lambda self: self.transpose())

    def transpose(self, axes: tuple[int, ...] | None = None) -> "DeviceNDArray":
        """The transposed matrix: as in Numba a new array in C order, not a view."""
        if axes and tuple(axes) == tuple(range(self.ndim)):
            return self
        if self.ndim != 2:
            raise NotImplementedError("transposing a non-2D DeviceNDArray isn't supported")
        if axes is not None and set(axes) != {0, 1}:
            raise ValueError(f"invalid axes list {axes!r}")
        return DeviceNDArray(np.array(self._memory.T, order="C", copy=True))

    def copy_to_host(self, ary: np.ndarray | None = None, stream: Any = 0) -> np.ndarray:
        """The values, in a new host array or in ``ary``."""
        if any(stride < 0 for stride in self.strides):
            text = f"D->H copy not implemented for negative strides: {self.strides}"
            raise NotImplementedError(text)
        if ary is None:
            return self._memory.copy(order="K")
        self._check(ary, "copy_to_host", ary.squeeze().strides)
        np.copyto(ary, self._memory.reshape(ary.shape))
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Set the values from a host or device array of the same shape and dtype."""
        if ary.size == 0:
            return
        self._contiguous(self._memory)
        of_device = isinstance(ary, DeviceNDArray)
        if of_device:
            self._contiguous(ary._memory)
        self._check(ary, "copy_to_device", ary._memory.squeeze().strides if of_device else None)
        values = np.reshape(ary._memory if of_device else ary, self.shape)
        np.copyto(self._memory, values)
        now_set(self._memory, values if of_device else None)

    @staticmethod
    def _contiguous(memory: np.ndarray) -> None:
        """Refuse an array with gaps: a copy to or from it is one of bytes in a row."""
        if _has_gaps(memory):
            raise ValueError(NOT_CONTIGUOUS)

    def _check(self, other: Any, what: str, strides: tuple[int, ...] | None) -> None:
        """Refuse to copy between arrays of other shapes, dtypes or strides, axes of 1 aside."""
        mine = self._memory.squeeze()
        if other.dtype != self.dtype:
            raise TypeError(f"incompatible dtype: {what} of {self.dtype} and {other.dtype}")
        if tuple(size for size in other.shape if size != 1) != mine.shape:
            raise ValueError(f"incompatible shape: {what} of {self.shape} and {other.shape}")
        if self.size and strides not in (None, mine.strides):
            raise ValueError(f"incompatible strides: {self.strides} vs. {other.strides}")

    def _as_it_lies(self) -> np.ndarray:
        """The elements in a row, in the order of memory: Numba makes no other shape of others."""
        flags, place = self._memory.flags, f"shape {self.shape}, strides {self.strides} bytes"
        if not flags.forc:
            raise NotImplementedError(f"operation requires copying: {place}")
        return self._memory.reshape(-1, order="C" if flags.c_contiguous else "F")

    def reshape(self, *shape: Any, order: str = "C") -> "DeviceNDArray":
        """The same elements in the order of memory, as a view; gaps are refused, as in Numba."""
        shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        if shape == self.shape:
            return DeviceNDArray(self._memory)
        if order not in ("C", "F", "A"):
            raise ValueError("order not C|F|A")
        fortran = order == "F" or (order == "A" and self._memory.flags.f_contiguous)
        if math.prod(shape) != self.size and min(shape, default=0) >= 0:
            raise ValueError(f"reshape changes the size of the array: {self.shape} to {shape}")
        return DeviceNDArray(self._as_it_lies().reshape(shape, order="F" if fortran else "C"))

    def ravel(self, order: str = "C", stream: Any = 0) -> "DeviceNDArray":
        """The elements in a row, as a view; what would need a copy is refused, as in Numba."""
        flags = self._memory.flags
        if order not in ("C", "F", "A"):
            raise ValueError("order not C|F|A")
        if not (order in "CA" and flags.c_contiguous or order in "FA" and flags.f_contiguous):
            raise NotImplementedError("ravel of an array that does not lie in this order")
        return DeviceNDArray(self._as_it_lies())

    def squeeze(self, axis: Any = None, stream: Any = 0) -> "DeviceNDArray":
        """A view without axes of size one."""
        return DeviceNDArray(self._memory.squeeze(axis))

    def view(self, dtype: Any) -> "DeviceNDArray":
        """The same bytes as elements of another dtype."""
        if not self.ndim:
            raise IndexError("a device array without dimensions has no view, as in Numba")
        if np.dtype(dtype).itemsize != self.dtype.itemsize and not self.is_c_contiguous():
            text = "To change to a dtype of a different size, the array must be C-contiguous"
            raise ValueError(text)
        return DeviceNDArray(self._memory.view(dtype))

    def split(self, section: int, stream: Any = 0):
        """Parts of ``section`` elements, as views."""
        if self.ndim != 1:
            raise ValueError("only support 1d array")
        if self.strides[0] != self.dtype.itemsize:
            raise ValueError("only support unit stride")
        for start in range(0, self.size, section):
            yield DeviceNDArray(self._memory[start : start + section])

    def _part(self, index: Any) -> np.ndarray:
        """A view of the elements that integers and slices name: Numba has no other indices."""
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) > self.ndim:
            raise IndexError(f"{len(parts) - self.ndim} extra indices given")
        for part in parts:
            if isinstance(part, np.ndarray) and part.size > 1:
                raise ValueError(f"an array of {part.dtype} as an index: {ONLY_WHOLE}")
            if not isinstance(part, slice | int | np.integer) and not (
                isinstance(part, np.ndarray) and part.shape == () and part.dtype.kind in "iu"
            ):
                raise TypeError(f"{part!r} as an index: {ONLY_WHOLE}")
        whole = [part if isinstance(part, slice) else operator.index(part) for part in parts]
        return self._memory[(*whole, ...)]

    def __getitem__(self, index: Any) -> Any:
        part = self._part(index)
        parts = index if isinstance(index, tuple) else (index,)
        if part.ndim or any(isinstance(one, slice) for one in parts):
            return DeviceNDArray(part)
        return DeviceRecord(part) if part.dtype.names else part[()]

    def getitem(self, index: Any, stream: Any = 0) -> Any:
        return self[index]

    def setitem(self, index: Any, value: Any, stream: Any = 0) -> None:
        """Set elements; without a stream of its own, the call waits for the default one."""
        part = self._part(index)
        values = value._memory if isinstance(value, DeviceNDArray) else np.asarray(value)
        kinds = values.dtype.kind, part.dtype.kind
        if kinds[0] != kinds[1] and (of_dtype(values.dtype) is None or kinds[0] == "c"):
            raise TypeError(f"elements of {part.dtype} cannot be set to {values.dtype}")
        self._contiguous(values)
        if values.ndim > part.ndim:
            raise ValueError(f"Can't assign {values.ndim}-D array to {part.ndim}-D self")
        for axis, (mine, size) in enumerate(zip(part.shape[::-1], values.shape[::-1])):
            if size not in (1, mine):
                raise ValueError(
                    f"Can't copy sequence with size {size} to array axis {part.ndim - 1 - axis} "
                    f"with dimension {mine}"
                )
        part[...] = values
        now_set(part, values)
        if not (stream or self.stream):
            Stream().synchronize()

    __setitem__ = setitem

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}, as in Numba: "
            "copy_to_host() gives an array of NumPy, which has more"
        )

    def __len__(self) -> int:
        return len(self._memory)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("`copy=False` is not supported: a host array is always a copy")
        return np.array(self._memory, dtype=dtype)

    def __repr__(self) -> str:
        return f"<device array of shape {self.shape}, {self.dtype}, simulated>"


class MemoryPointer(NamedTuple):
    """An address on the device, and how many bytes lie there."""

    device_pointer: int
    size: int

    device_pointer_value = property(lambda self: self.device_pointer)
    device_ctypes_pointer = property(lambda self: ctypes.c_void_p(self.device_pointer))

    def __int__(self) -> int:
        return self.device_pointer


class DeviceRecord(DeviceNDArray):
    """A record on the simulated device."""

    is_record = True

    def _part(self, index: Any) -> np.ndarray:
        """A view of a field."""
        if index not in (self.dtype.fields or ()):
            raise KeyError(index)
        return self._memory[index]


class Stream:
    """A queue of work; the simulator does everything at once, in order."""

    def __init__(self, handle: int = 0, external: bool = False):
        self.handle, self.external = handle, external

    def __int__(self) -> int:
        return self.handle

    def synchronize(self) -> None:
        """Wait until the queue is empty; it always is."""

    @contextmanager
    def auto_synchronize(self):
        yield self

    def add_callback(self, callback: Any, arg: Any = None) -> None:
        callback(self, 0, arg)

    def async_done(self) -> Any:
        """What a coroutine awaits until the queue is empty, a Future; it always is."""
        import asyncio  # 30 modules, which hardly anybody asks for

        done = asyncio.get_running_loop().create_future()
        done.set_result(self)
        return done

    def __repr__(self) -> str:
        return "<simulated CUDA stream>"


def wait_for(interface: dict[str, Any]) -> None:
    """Wait for the stream in which an array of another library is written, if it has one."""
    handle = interface.get("stream")
    if handle and setting("CUDA_ARRAY_INTERFACE_SYNC", 1):
        Stream(handle, external=True).synchronize()


class Event:
    """A mark in a stream; without a GPU it has no time."""

    def record(self, stream: Any = 0) -> None:
        """Mark the stream, or wait for the mark: it has always been passed."""

    synchronize = wait = record

    def query(self) -> bool:
        return True

    def elapsed_time(self, evtend: "Event") -> float:
        raise NoTime(
            "there is no GPU here, so there is no GPU time: the simulator's seconds say nothing "
            "about a GPU. course.benchmark gives the bound of a named GPU and recorded figures"
        )


class MemoryInfo(NamedTuple):
    """Bytes of device memory."""

    free: int
    total: int


class Deallocations(list):
    """Bytes of each device array that nobody has any more, until the queue is emptied."""

    def watch(self, memory: np.ndarray) -> np.ndarray:
        """Count an allocation once it is gone."""
        weakref.finalize(memory, self.append, memory.nbytes).atexit = False
        return memory


#: The queue of all device arrays that ``to_device`` and ``device_array`` made.
deallocations = Deallocations()


class Device:
    """The simulated device and its context: properties, by the names that ``numba.cuda`` uses."""

    id = 0
    uuid = "GPU-00000000-0000-0000-0000-000000000000"

    def __enter__(self) -> "Device":
        """Make it the current one, as ``with cuda.gpus[0]:`` does; it always is."""
        return self

    def __exit__(self, *what: object) -> None:
        """It stays the current one."""

    def __init__(self, gpu: GPU):
        self.gpu = gpu
        self.compute_capability = gpu.compute_capability
        self.name = f"{gpu.name} (simulated)"
        self.MULTIPROCESSOR_COUNT = gpu.multiprocessors
        self.MAX_THREADS_PER_BLOCK = gpu.threads_per_block
        self.MAX_THREADS_PER_MULTI_PROCESSOR = gpu.threads_per_multiprocessor
        self.MAX_BLOCK_DIM_X, self.MAX_BLOCK_DIM_Y, self.MAX_BLOCK_DIM_Z = 1024, 1024, 64
        self.MAX_GRID_DIM_X, self.MAX_GRID_DIM_Y, self.MAX_GRID_DIM_Z = 2**31 - 1, 65_535, 65_535
        self.MAX_SHARED_MEMORY_PER_BLOCK = 49_152
        self.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = gpu.shared_per_block
        self.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = gpu.shared_per_multiprocessor
        self.WARP_SIZE = gpu.warp_size
        self.supports_float16 = gpu.compute_capability >= (5, 3)
        self.COMPUTE_CAPABILITY_MAJOR, self.COMPUTE_CAPABILITY_MINOR = gpu.compute_capability

    device = property(lambda self: self)  # in Numba's own simulator ``cuda.gpus`` holds contexts
    memory_manager = property(lambda self: self)  # it knows the memory, and what is to be freed
    deallocations = deallocations

    def get_memory_info(self) -> MemoryInfo:
        """Bytes of the GPU that is simulated; arrays live in the host's memory."""
        return MemoryInfo(self.gpu.memory, self.gpu.memory)

    def reset(self) -> None:
        """Nothing to reset, or to wait for."""

    synchronize = reset

    def __getattr__(self, name: str) -> Any:
        hint = ": use cuda.device_array" if name in ("memalloc", "memhostalloc") else ""
        raise AttributeError(f"the simulator has no {name}{hint}")

    def __repr__(self) -> str:
        return f"<simulated CUDA device 0 '{self.gpu.name}'>"


Context = Device
