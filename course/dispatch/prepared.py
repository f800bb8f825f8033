"""Launches whose parameters are prepared except for arrays' addresses, and other driver calls.

A launch through Numba costs the host 20 to 60 microseconds: Numba inspects each argument anew. The
driver takes a kernel's parameters as a list of pointers to words of 8 bytes. In Numba's convention
an array of n axes is 5 + 2 n words: two that kernels do not use, the number of elements, bytes of
an element, the address, shape, strides. In numba-cuda-mlir's it is 3 + 2 n: the address twice, an
offset, shape, strides in elements. From call to call only the address changes.

A block may have up to 64 KiB of shared memory on a Tesla T4 and 227 KiB on an H200. Above 48 KiB it
must be dynamic, and the driver must allow it once for each kernel: Numba has no call for that.

Source: NVIDIA, CUDA Driver API, "Execution Control", "Event Management"; CUDA C++ Programming
Guide, "Shared Memory" of compute capability 7.x.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from course import backend, kernel_cache, successor
from course.dispatch.slots import ArraySlot
from warpsim.host import libcuda
from warpsim.ptx.grid_dependency import waits

#: Of `CUfunction_attribute` in cuda.h.
MAX_DYNAMIC_SHARED_SIZE_BYTES, PREFERRED_SHARED_MEMORY_CARVEOUT = 8, 9
SIMULATED = -2  # stands for a GPU's index where the simulator has the arrays
PER_THREAD = 2  # the driver's handle of the per-thread default stream


_LOADING = threading.RLock()  # Numba loads a kernel twice where two threads ask for it first


class CannotPrepare(TypeError):
    """A launch that cannot be prepared: Numba's insides are not as expected."""


# --- prepared launches ----------------------------------------------------------------------------

#: How a scalar becomes a word, by its Numba type; integers are as they are.
_WORDS: dict[str, Callable[[Any], int]] = {
    "float32": lambda value: int(np.float32(value).view(np.uint32)),
    "float64": lambda value: int(np.float64(value).view(np.int64)),
    "bool": int,
}


class Configuration(ctypes.Structure):
    """CUlaunchConfig of the driver."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("how_many", ctypes.c_uint),
    )


class Attribute(ctypes.Structure):
    """CUlaunchAttribute of the driver: an optional property of a launch."""

    _fields_ = (("attribute", ctypes.c_uint64), ("value", ctypes.c_uint * 16))

    @classmethod
    def cooperative(cls) -> Attribute:
        """All blocks run at the same time, or the launch is refused: a block may await others."""
        return cls(2, (1,))

    @classmethod
    def dependent(cls) -> Attribute:
        """The launch may begin as soon as the one before lets it: programmatic dependent launch."""
        return cls(6, (1,))


def new_slots(count: int) -> Any:
    """Memory for `count` addresses, from which launches read them."""
    return (ctypes.c_int64 * count)()


class PreparedLaunch:
    """A launch of a compiled kernel, ready except for addresses.

    The arguments of `launch`, a `course.dispatch.launches.Launch`, are array slots, device arrays
    (which are kept alive) and scalars. `slots`, of `new_slots`, has the addresses for the array
    slots, each of which names its index there. Launches may share `slots`.
    CannotPrepare when Numba's insides are not as expected, or the driver is older than CUDA 11.8.
    """

    def __init__(self, launch: Any, slots: Any = (), attributes: Sequence[Attribute] = ()):
        try:
            self.launch = libcuda.library().cuLaunchKernelEx
            dispatcher, arguments = launch.kernel, launch.arguments
            with _LOADING:
                kernel_cache.cached(launch.kernel)
                launch.allow_shared()
                types = tuple(type_of(value, dispatcher) for value in arguments)
                overload = dispatcher.compile(types)
                kernel = _handle(overload._codelibrary.get_cufunc())
            debug = dispatcher.targetoptions.get("debug")
            if overload.cooperative or debug or dispatcher.extensions:
                raise CannotPrepare(f"{dispatcher.__name__} needs Numba's own launch")
        except (AttributeError, ValueError, OSError) as problem:
            raise CannotPrepare(backend.one_line(problem)) from problem
        self.kept = overload, tuple(arguments)
        self.slots = slots or new_slots(0)
        #: Words that are a slot's address plus an offset: index of the word, slot, offset in bytes.
        self.moved: list[tuple[int, int, int]] = []
        words: list[int] = []
        at_slots: dict[int, int] = {}  # words that are a slot's address: index of the word, slot
        for numba_type, value in zip(types, arguments, strict=True):
            array, first, places = None, len(words), ()
            if hasattr(value, "__cuda_array_interface__"):
                array = value
                its_words, places = _of_array(value)
                words += its_words
            elif hasattr(value, "address_word"):  # a warpsim.ptx.TensorMap
                array, places = value.array, (value.address_word(),)
                words += value
            else:
                word = _WORDS.get(str(numba_type))
                word = word or (int if hasattr(numba_type, "bitwidth") else None)
                if word is None or str(numba_type).startswith("complex"):
                    raise CannotPrepare(f"an argument of type {numba_type}")
                words.append(word(value))
            for index in (first + place for place in places):
                if isinstance(array, ArraySlot) and array.offset:
                    self.moved.append((index, array.slot, array.offset))
                elif isinstance(array, ArraySlot):
                    at_slots[index] = array.slot
        words = [word - 2**64 if word >= 2**63 else word for word in words]
        self.words = (ctypes.c_int64 * len(words))(*words)
        self.attributes = (Attribute * len(attributes))(*attributes)
        self.at_slots, self.kernel, self.shape = at_slots, kernel, launch.shape
        self._pointed()

    def _pointed(self) -> None:
        """Make the pointers to words and slots, and the arguments of cuLaunchKernelEx."""
        words, slots = ctypes.addressof(self.words), ctypes.addressof(self.slots)
        self.pointers = (ctypes.c_void_p * len(self.words))(*(
            slots + 8 * self.at_slots[n] if n in self.at_slots else words + 8 * n
            for n in range(len(self.words))
        ))  # fmt: skip
        attributes = ctypes.addressof(self.attributes) if len(self.attributes) else None
        self.configuration = Configuration(*self.shape, None, attributes, len(self.attributes))
        self.queue = 0
        self.where = (
            ctypes.c_void_p(ctypes.addressof(self.configuration)),
            ctypes.c_void_p(self.kernel),
            ctypes.c_void_p(ctypes.addressof(self.pointers)),
            None,
        )

    def __call__(self, queue: int, addresses: Sequence[int]) -> None:
        """Launch on a stream with the addresses of its slots; not from two threads at once."""
        self.slots[:] = addresses
        self.move(addresses)
        if queue != self.queue:
            self.go_to(queue)
        status = self.launch(*self.where)
        if status:
            self.again(status)

    def go_to(self, queue: int) -> None:
        self.configuration.stream = self.queue = queue

    def move(self, addresses: Sequence[int]) -> None:
        """Write the words that are an address plus an offset."""
        for index, slot, offset in self.moved:
            self.words[index] = addresses[slot] + offset

    def copy(self, slots: Any) -> PreparedLaunch:
        """The same launch with slots, words and stream of its own, for another thread."""
        other = object.__new__(PreparedLaunch)
        other.__dict__.update(self.__dict__)
        other.slots, other.words = slots, type(self.words)(*self.words)
        other._pointed()
        return other

    def again(self, status: int) -> None:
        """After a failed launch: if the thread lacked a context, launch once more; else raise."""
        if libcuda.gave_context(status):
            status = self.launch(*self.where)
        libcuda.check(status, "a kernel's launch")


def _of_array(array: Any) -> tuple[list[int], tuple[int, ...]]:
    """An array's words in the chosen compiler's convention, and which of them are its address."""
    address, size = array.__cuda_array_interface__["data"][0], array.dtype.itemsize
    if not successor.is_chosen():
        return [0, 0, array.size, size, address, *array.shape, *array.strides], (4,)
    if any(stride % size for stride in array.strides):
        raise CannotPrepare(f"strides of {array.strides} bytes for elements of {size}")
    steps = (stride // size for stride in array.strides)
    return [address, address, 0, *array.shape, *steps], (0, 1)


class Configured:
    """A numba-cuda-mlir kernel with its configuration; the driver launches it, with tensor maps."""

    def __init__(self, launch: Any, stream: Any):
        self.launch, self.queue = launch, int(getattr(stream, "handle", stream) or 0)
        self.dispatcher, shape = launch.kernel, launch.shape
        self.griddim, self.blockdim, self.sharedmem = shape[:3], shape[3:6], shape[6]
        self.arguments: tuple | None = None

    def __call__(self, *arguments: Any) -> None:
        """Launch; the same arguments as in the latest call are not prepared again."""
        known = self.arguments
        if known is None or any(a is not b for a, b in zip(known, arguments, strict=True)):
            self.prepared = PreparedLaunch(self.launch._replace(arguments=arguments))
            self.arguments = arguments
        self.prepared(self.queue, ())


def attributes_behind(kernel: Any) -> tuple[Attribute, ...]:
    """The attribute of a programmatic dependent launch, if the kernel waits for the one before."""
    new = tuple(backend.cuda.get_current_device().compute_capability) >= (9, 0)
    function = getattr(kernel, "py_func", None)
    return (Attribute.dependent(),) if new and function is not None and waits(function) else ()


def _handle(function: Any) -> int:
    """The driver's handle of a loaded function, in the current context.

    Newer numba-cuda holds a CUkernel, for which the driver looks up the function at each launch.
    """
    handle = int(getattr(function.handle, "value", function.handle))
    if not hasattr(function, "kernel"):
        return handle
    found = ctypes.c_void_p()
    status = libcuda.library().cuKernelGetFunction(ctypes.byref(found), ctypes.c_void_p(handle))
    return found.value if not status and found.value else handle


def type_of(value: Any, dispatcher: Any) -> Any:
    """The type of an argument in the chosen compiler's type system."""
    if not isinstance(value, ArraySlot):
        return dispatcher.typeof_pyval(value)
    numba_type = value.numba_type()
    return successor.translation().moved(numba_type) if successor.is_chosen() else numba_type


# --- shared memory --------------------------------------------------------------------------------


def allow_shared(kernel: Any, signature: str, size: int, share: int | None = None) -> None:
    """Allow a kernel `size` bytes of dynamic shared memory on the current GPU.

    Shared memory and L1 are parts of one memory. By default the driver makes as much of it shared
    memory as this kernel's blocks need, and another kernel's blocks find none left beside them.
    `share` asks for about so many percent instead (the carveout).

    Compiles the kernel for the signature if need be; RuntimeError when the driver refuses. In the
    simulator there is nothing to do: it applies the simulated GPU's own limit.
    """
    if backend.gpu() is None:
        return
    key = kernel, str(signature), backend.cuda.get_current_device().id
    if _allowed.get(key, 0) < size:
        kernel_cache.cached(kernel)
        kernel.compile(signature)
        for version in kernel.overloads.values():
            function = version._codelibrary.get_cufunc()
            _allow(function, key[-1], size)
            if share is not None:
                _set(function, key[-1], PREFERRED_SHARED_MEMORY_CARVEOUT, share)
        _allowed[key] = size


_allowed: dict[tuple[Any, str, int], int] = {}  # bytes by kernel, signature, device


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


# --- devices --------------------------------------------------------------------------------------


def device_of(address: int) -> int:
    """The number of the GPU that an address lies on; below 0 in the simulator."""
    if backend.gpu() is None:
        return SIMULATED
    number = ctypes.c_int()
    ordinal = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    status = libcuda.library().cuPointerGetAttribute(
        ctypes.byref(number), ordinal, ctypes.c_uint64(address)
    )
    return 0 if status else number.value


@functools.cache
def are_many() -> bool:
    """Whether this machine has more than one GPU."""
    return len(backend.cuda.gpus) > 1


def is_current(device: int) -> bool:
    """Whether this thread works on a GPU."""
    number = ctypes.c_int(-1)
    status = libcuda.library().cuCtxGetDevice(ctypes.byref(number))
    return not status and number.value == device


def is_on_current(stream: Any, queue: int, device: int) -> bool:
    """Whether a stream, of which the driver has the handle, belongs to the current GPU."""
    number = max(getattr(stream, name, -1) for name in ("device_index", "device_id"))
    if number >= 0 or queue <= PER_THREAD:  # PyTorch's say, and CuPy's where it is not the current
        return number in (-1, device)
    its, current = ctypes.c_void_p(), ctypes.c_void_p()
    libcuda.call("cuStreamGetCtx", ctypes.c_void_p(queue), ctypes.byref(its))
    libcuda.call("cuCtxGetCurrent", ctypes.byref(current))
    return its.value == current.value


# --- streams --------------------------------------------------------------------------------------


class Event:
    """A CUDA event, by which one stream waits for the work that is queued on another."""

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        libcuda.call("cuEventCreate", ctypes.byref(handle), 2)  # no timing
        self.handle = handle

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of Python the driver may be gone
            libcuda.library().cuEventDestroy_v2(self.handle)

    def order(self, before: int, after: int) -> None:
        """Let later work on stream `after` wait for what is queued on stream `before` by now."""
        libcuda.call("cuEventRecord", self.handle, ctypes.c_void_p(before))
        libcuda.call("cuStreamWaitEvent", ctypes.c_void_p(after), self.handle, 0)


def wait(stream: int) -> None:
    """Wait until a stream's work is done."""
    libcuda.call("cuStreamSynchronize", ctypes.c_void_p(stream))


def zero(address: int, size: int, stream: int) -> None:
    """Queue setting `size` bytes to zero on a stream."""
    how = ctypes.c_uint64(address), ctypes.c_ubyte(0), ctypes.c_size_t(size)
    libcuda.call("cuMemsetD8Async", *how, ctypes.c_void_p(stream))
