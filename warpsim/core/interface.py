"""The CUDA array interface of simulated device arrays.

Its addresses are those of the host's memory in which the simulator keeps the array: good for going
from one object to another in one program, and of no use to a library that works on a real GPU.
"""

import weakref
from typing import Any

import numpy as np

#: Allocations whose address has been given away, by that address.
_given: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()


def owner_of(memory: np.ndarray) -> np.ndarray:
    """The allocation that an array is a part of."""
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    return memory


def start_of(memory: np.ndarray) -> int:
    """The address of an array's first element."""
    return memory.__array_interface__["data"][0]


def address_of(memory: np.ndarray) -> int:
    """The address of an array's first byte, which :func:`memory_from` knows from now on."""
    owner = owner_of(memory)
    _given[start_of(owner)] = owner
    return start_of(memory)


def memory_from(address: int, dtype: np.dtype) -> np.ndarray:
    """The elements from an address on, to the end of the allocation in which it lies."""
    flat, start = _allocation_at(address)
    count = (flat.size - (address - start)) // dtype.itemsize
    return np.ndarray(count, dtype, flat, address - start)


def _allocation_at(address: int) -> tuple[np.ndarray, int]:
    """The bytes of the allocation in which an address lies, and where it starts; or TypeError."""
    for held in _given.valuerefs():  # in one step: other threads may add theirs meanwhile
        owner = held()
        if owner is None:
            continue
        start, flat = start_of(owner), owner.reshape(-1, order="A").view(np.uint8)
        if start <= address < start + flat.size:
            return flat, start
    raise TypeError(
        f"address {address:#x} is no memory of the simulator: an array on a real GPU cannot be "
        "used here; copy it to the host first"
    )


def describe(memory: np.ndarray, stream: Any) -> dict[str, Any]:
    """The interface, version 3, of an array in simulated device memory."""
    address = address_of(memory)
    return {
        "shape": memory.shape,
        "strides": None if memory.flags.c_contiguous else memory.strides,
        "data": (address if memory.size else 0, False),
        "typestr": memory.dtype.str,
        "descr": memory.dtype.descr,
        "stream": int(stream.handle) if hasattr(stream, "handle") else None,
        "version": 3,
    }


def memory_of(interface: dict[str, Any]) -> np.ndarray:
    """The array that an interface describes, in the same memory of the simulator."""
    if interface.get("mask") is not None:
        raise NotImplementedError("Masked arrays are not supported")
    address, readonly = interface["data"]
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    described = np.dtype(interface["typestr"])
    dtype = np.dtype(interface.get("descr", described)) if described.kind == "V" else described
    if 0 in shape:
        return np.empty(shape, dtype)
    flat, start = _allocation_at(address)
    memory = np.ndarray(shape, dtype, flat, address - start, strides)
    memory.flags.writeable = not readonly
    return memory


def device_memory(value: Any) -> np.ndarray | None:
    """The memory of an array on the simulated device, whoever holds it; None for all else."""
    if hasattr(value, "_memory"):
        return value._memory
    interface = getattr(value, "__cuda_array_interface__", None)
    if not isinstance(interface, dict):
        return None
    try:
        return memory_of(interface)
    except TypeError:
        return None  # on a real GPU
