"""What the front doors of row kernels share: arrays in, arrays out, and what is refused.

Arrays are of NumPy, CuPy or numba.cuda, with elements of float32 or float16. What lies on the GPU
stays there and is not copied; NumPy's arrays travel there and the result back.
"""

from typing import Any

import numpy as np
from numba import float32
from numba.types import float16

from course.backend import cuda

Array = Any  # of NumPy, of numba.cuda or of CuPy

STORED = (np.float32, np.float16)  # what elements may be
WIDE = 4  # elements in a wide access
WORDS = {"float32": float32, "float16": float16}  # numba's type of a stored element


def checked(array: Array, name: str, like: Array | None = None) -> Array:
    """The array, if it is one, holds float32 or float16, and is shaped and typed as `like`.

    Raises
    ------
    TypeError
        For no array, and for elements of another type.
    ValueError
        When shape or type are not those of `like`.
    """
    if not isinstance(array, np.ndarray) and not hasattr(array, "__cuda_array_interface__"):
        raise TypeError(
            f"{name} is {type(array).__name__}: give an array of NumPy, CuPy or numba.cuda"
        )
    if array.dtype not in STORED:
        raise TypeError(
            f"{name} holds {array.dtype}; it must hold float32 or float16: convert it, "
            f"{name}.astype('float32')"
        )
    if like is not None and (tuple(array.shape), array.dtype) != (tuple(like.shape), like.dtype):
        raise ValueError(
            f"{name} is {array.dtype} of shape {tuple(array.shape)}; it must be {like.dtype} of "
            f"shape {tuple(like.shape)}"
        )
    return array


def on_device(array: Array, name: str, rows: bool = False) -> Array:
    """The array as numba.cuda sees it, in C order; NumPy's travel.

    With `rows`, rows of a matrix may lie apart from each other, not their elements.

    Raises
    ------
    ValueError
        For an array on the GPU whose elements do not lie side by side.
    """
    if isinstance(array, np.ndarray):
        return cuda.to_device(np.ascontiguousarray(array))
    there = array if hasattr(array, "copy_to_host") else cuda.as_cuda_array(array)
    wanted, size = [], there.dtype.itemsize
    for length in reversed(there.shape):
        wanted.insert(0, size)
        size *= length
    pairs = list(zip(there.shape, there.strides, wanted, strict=True))
    apart = [length > 1 and have != want for length, have, want in pairs]
    if there.size and any(apart[-1:] if rows else apart):
        what = "the elements of each row" if rows else "its elements"
        raise ValueError(
            f"{name} has the strides {there.strides} bytes; {what} must lie side by side: copy it "
            f"to C order first, or give it as a NumPy array"
        )
    return there


def empty_like(array: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Memory on the GPU, of CuPy where the array is CuPy's."""
    if isinstance(array, np.ndarray) or hasattr(array, "copy_to_host"):
        return cuda.device_array(shape, dtype)
    import cupy

    return cupy.empty(shape, dtype)


def target_for(out: Array | None, like: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Where a kernel writes: `out`, or new memory on the GPU if there is none or it is NumPy's."""
    if out is None or isinstance(out, np.ndarray):
        return empty_like(like, shape, dtype)
    return out


def handed_back(target: Array, out: Array | None, like: Array) -> Array:
    """What a front door returns: `out`, if it was given; else an array of the kind of `like`."""
    if out is not None and not isinstance(out, np.ndarray):
        return out
    if out is None and not isinstance(like, np.ndarray):
        return target
    there = target if hasattr(target, "copy_to_host") else cuda.as_cuda_array(target)
    result = there.copy_to_host()
    if out is None:
        return result
    out[...] = result
    return out


def are_aligned(*arrays: Array) -> bool:
    """Whether four neighbours can be accessed at once from each row's start on, in all arrays."""
    for array in arrays:
        about = array.__cuda_array_interface__
        size = WIDE * array.dtype.itemsize
        if about["data"][0] % size or any(step % size for step in array.strides[:-1]):
            return False
    return True
