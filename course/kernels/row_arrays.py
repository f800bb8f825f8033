"""Arrays whose rows are worked on: checked, brought to the GPU, seen as matrices, handed back.

They are NumPy's, which travel, or CuPy's or numba.cuda's, which stay where they are.
"""

import functools
from typing import Any

import numpy as np

from course.backend import cuda

Array = Any  # of NumPy, of numba.cuda or of CuPy

LONGEST = 2**24  # columns: as many as float32 counts exactly


def are_aligned(*arrays: Array) -> bool:
    """Whether these arrays on the GPU can be accessed four numbers of a row at a time."""
    for array in arrays:
        wide = 4 * array.dtype.itemsize
        starts = array.__cuda_array_interface__["data"][0]
        if starts % wide or array.shape[-1] % 4:
            return False
        if array.ndim == 2 and array.shape[0] > 1 and array.strides[0] % wide:
            return False
    return True


def kind_of(array: Array) -> str:
    """What an array holds, "float32" or "float16"."""
    return np.dtype(array.dtype).name


def check_rows(x: Array, factors: dict[str, Array | None], eps: float) -> int:
    """The length of the rows; a ValueError where x, eps, or a factor of each column is wrong."""
    shape = checked_kind(x, "x")
    if not shape or not 1 <= shape[-1] <= LONGEST:
        raise ValueError(
            f"x has the shape {shape}: its rows, along the last axis, must have from 1 to "
            f"{LONGEST:,} numbers"
        )
    for name, factor in factors.items():
        if factor is not None and checked_kind(factor, name) != shape[-1:]:
            raise ValueError(
                f"{name} has the shape {tuple(factor.shape)}; x has rows of {shape[-1]} numbers, "
                f"so it must be {shape[-1:]}"
            )
    if not eps >= 0:
        raise ValueError(f"eps is {eps}: it is added to the variance and must be 0 or more")
    return shape[-1]


def checked_kind(array: Array, name: str) -> tuple[int, ...]:
    """The shape of an array that holds float32 or float16."""
    on_device = hasattr(array, "__cuda_array_interface__")
    if not isinstance(array, np.ndarray) and not on_device:
        raise ValueError(
            f"{name} is a {type(array).__name__} and no array: give one of NumPy, CuPy or "
            "numba.cuda"
        )
    if array.dtype not in (np.float32, np.float16):
        raise ValueError(
            f"{name} holds {array.dtype}; the kernels take float32 and float16: convert it first, "
            f"{name}.astype(np.float32)"
        )
    return tuple(array.shape)


def check_like(x: Array, other: Array | None, name: str) -> None:
    """Raise a ValueError where an array that is there has not x's shape and type."""
    if other is None:
        return
    shape = checked_kind(other, name)
    if shape != tuple(x.shape) or other.dtype != x.dtype:
        raise ValueError(
            f"{name} is {other.dtype} of shape {shape}; it must be as x, {x.dtype} of shape "
            f"{tuple(x.shape)}"
        )


def on_device(array: Array, name: str) -> Array:
    """The array as numba.cuda sees it, a row's numbers side by side; NumPy's travel."""
    if isinstance(array, np.ndarray):
        return cuda.to_device(np.ascontiguousarray(array))
    there = array if hasattr(array, "copy_to_host") else cuda.as_cuda_array(array)
    if there.shape[-1] > 1 and there.strides[-1] != there.dtype.itemsize:
        raise ValueError(
            f"the numbers of a row of {name} lie {there.strides[-1]} bytes apart, and must lie "
            f"side by side, {there.dtype.itemsize} bytes: make a copy in C order"
        )
    return there


def as_matrix(array: Array, name: str) -> Array:
    """An array on the GPU as (rows, columns)."""
    if array.ndim == 2:
        return array
    if not array.flags["C_CONTIGUOUS"]:
        raise ValueError(
            f"{name} has {array.ndim} axes and its rows lie apart: make a copy in C order, or call "
            "with one matrix at a time"
        )
    return array.reshape(array.size // array.shape[-1], array.shape[-1])


def empty_like(array: Array, shape: tuple[int, ...] | None = None) -> Array:
    """Memory on the GPU of the kind that the array is, for NumPy's of numba.cuda."""
    shape = tuple(array.shape) if shape is None else shape
    if isinstance(array, np.ndarray) or hasattr(array, "copy_to_host"):
        return cuda.device_array(shape, array.dtype)
    import cupy

    return cupy.empty(shape, array.dtype)


@functools.lru_cache(16)
def constant(value: int, length: int) -> Array:
    """An array on the GPU that holds one number again and again; kept."""
    return cuda.to_device(np.full(length, value, np.float32))


def handed_back(target: Array, x: Array, out: Array | None) -> Array:
    """What the caller gets: `out`, or the result where x is."""
    if out is not None and not isinstance(out, np.ndarray):
        return out
    if out is None and not isinstance(x, np.ndarray):
        return target
    result = target.copy_to_host() if hasattr(target, "copy_to_host") else target.get()
    if out is None:
        return result
    out[...] = result
    return out
