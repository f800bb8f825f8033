"""What the front doors of kernels share: arrays in, arrays out, and what is refused.

Arrays are of NumPy, CuPy or numba.cuda, with elements of float32 or float16. What lies on the GPU
stays there and is not copied; NumPy's arrays travel there and the result back.
"""

from collections.abc import Callable, Iterable
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
    _must_be_array(array, name)
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


def _must_be_array(array: Array, name: str) -> None:
    if not isinstance(array, np.ndarray) and not hasattr(array, "__cuda_array_interface__"):
        raise TypeError(
            f"{name} is {type(array).__name__}: give an array of NumPy, CuPy or numba.cuda"
        )


def checked_float32(array: Array, name: str, axes: int, shape: str) -> None:
    """Refuse what is no array of float32 with so many axes; `shape` says what it must be."""
    _must_be_array(array, name)
    if array.dtype != np.float32:
        raise TypeError(f"{name} holds {array.dtype}: convert it, {name}.astype('float32')")
    if len(array.shape) != axes:
        raise ValueError(f"{name} has the shape {tuple(array.shape)}; it must be {shape}")


def float32_out(out: Array | None, like: Array, shape: tuple[int, ...]) -> Array:
    """Where a kernel writes a result of float32, see `target_for`; ValueError for another shape."""
    if out is not None:
        checked_float32(out, "out", len(shape), str(shape))
        if tuple(out.shape) != shape:
            raise ValueError(f"out has the shape {tuple(out.shape)}; it must be {shape}")
    return target_for(out, like, shape, np.float32)


def known(word: str, what: str, choices: Iterable[str], before: str = "") -> None:
    """Refuse a word that is none of the choices: "there is no method 'x': choose a, b"."""
    if word not in choices:
        raise ValueError(f"there is no {what} {word!r}: choose {before}{', '.join(choices)}")


def as_device_array(array: Array) -> Array:
    """An array that is on the GPU, as numba.cuda sees it."""
    return array if hasattr(array, "copy_to_host") else cuda.as_cuda_array(array)


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
    there = as_device_array(array)
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


def flat_on_device(array: Array, name: str) -> Array:
    """All elements of an array in C order, side by side, on the GPU."""
    there = on_device(array, name)
    return there.reshape(there.size)


def matrix_on_device(array: Array, name: str) -> Array:
    """An array as (rows, columns), on the GPU as `on_device`; rows of a matrix may lie apart."""
    there = on_device(array, name, rows=array.ndim == 2)
    if there.ndim == 2:
        return there
    return there.reshape(there.size // there.shape[-1], there.shape[-1])


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
    result = as_device_array(target).copy_to_host()
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


def rows_are_aligned(*arrays: Array | None) -> bool:
    """Whether whole rows can be accessed four numbers at a time, of those arrays that are there."""
    there = [array for array in arrays if array is not None]
    return there[0].shape[-1] % WIDE == 0 and are_aligned(*there)


def applied(
    given: dict[str, Array], out: Array | None, launch: Callable[..., None], rows: bool = False
) -> Array:
    """A front door of kernels whose arrays and result all have one shape and type.

    Parameters
    ----------
    given : dict
        The arrays by name.
    out : array, optional
    launch : callable
        Called with them and where to write, on the device: flat, or with `rows` as matrices.
    """
    (name, first), *others = given.items()
    checked(first, name)
    for other, array in others:
        checked(array, other, like=first)
    if rows and first.ndim == 0:
        raise ValueError(f"{name} has no axis, so no rows: give at least one")
    if out is not None:
        checked(out, "out", like=first)
    target = target_for(out, first, tuple(first.shape), first.dtype)
    if first.size:
        bring = matrix_on_device if rows else flat_on_device
        launch(*(bring(array, name) for name, array in (*given.items(), ("out", target))))
    return handed_back(target, out, first)
