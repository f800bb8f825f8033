"""Checks that entry points make of arrays (dtype, shape, strides, alignment), and views of them."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from typing import Any

import numpy as np
from numba import float32
from numba.types import float16

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import Result
from course.dispatch.slots import ArraySlot, name_of
from course.kernels.steps import ceil_div
from warpsim.ptx import pack_bf16, pack_f16, unpack_bf16, unpack_f16
from warpsim.ptx.bfloat16 import BFLOAT16, bfloat16

Array = Any  # an array of NumPy, CuPy, PyTorch or numba.cuda

DTYPES = (np.float32, np.float16, BFLOAT16)
VECTOR = 4  # elements of a vectorised access
MOST = 65_535  # blocks along a grid's y axis
#: Numba's types of elements, by the names that `name_of` gives.
NUMBA_TYPES = {"float32": float32, "float16": float16, "bfloat16": bfloat16}
#: By such names: rounds two float32 to 16 bits and packs them in a word of 4 bytes; the inverse.
PACK = {"float16": pack_f16, "bfloat16": pack_bf16}
UNPACK = {"float16": unpack_f16, "bfloat16": unpack_bf16}


# --- what is given --------------------------------------------------------------------------------


def checked(array: ArrayFacts, name: str, like: ArrayFacts | None = None) -> ArrayFacts:
    """The array; TypeError for a dtype not in `DTYPES`, ValueError unless it matches `like`."""
    holds(array, name, *DTYPES)
    if like is not None and (array.shape, array.dtype) != (like.shape, like.dtype):
        raise ValueError(
            f"{name} is {name_of(array.dtype)} of shape {array.shape}; it must be "
            f"{name_of(like.dtype)} of shape {like.shape}"
        )
    return array


def alike(arrays: dict[str, ArrayFacts], rows: bool = False) -> Result:
    """The shape and dtype that all arrays share, by `checked`; `rows` demands at least one axis."""
    (name, first), *others = arrays.items()
    checked(first, name)
    for other, array in others:
        checked(array, other, like=first)
    if rows and first.ndim == 0:
        raise ValueError(f"{name} has no axis, so no rows: give at least one")
    return first.shape, first.dtype


def holds(array: ArrayFacts, name: str, *types: Any) -> None:
    """Raise a TypeError unless the dtype is one of `types`, or float32 where none are given."""
    types = types or (np.float32,)
    if array.dtype in types:
        return
    *others, last = (name_of(np.dtype(one)) for one in types)
    names = f"{', '.join(others)} or {last}" if others else last
    convert, bits = array.library.convert(name, [*others, last][0], array.dtype), ""
    if BFLOAT16 in types and str(array.dtype).endswith("uint16"):
        bits = f"; bits of bfloat16 are {array.library.as_bfloat16(name)}"
    raise TypeError(
        f"{name} holds {name_of(array.dtype)}; it must hold {names}: convert it, {convert}{bits}"
    )


def checked_float32(array: ArrayFacts, name: str, axes: int, shape: str) -> None:
    """Refuse all but float32 with `axes` axes; `shape` describes the right shape in the error."""
    holds(array, name)
    if array.ndim != axes:
        raise ValueError(f"{name} has the shape {array.shape}; it must be {shape}")


def whole(number: Any, name: str, what: str = "whole number") -> int:
    """The number as an int; TypeError unless it is whole, and for True and False."""
    if hasattr(type(number), "__index__") and not isinstance(number, bool | np.bool_):
        with contextlib.suppress(TypeError):  # raised by an array of several elements
            return operator.index(number)
    raise TypeError(f"{name} is {number!r}: give a {what}")


def blocks_over(rows: int, columns: int, tile: tuple[int, int], name: str) -> tuple[int, int]:
    """The grid of tiles (wide, high) that covers a matrix; ValueError for too many rows."""
    wide, high = tile
    if rows > MOST * high:
        raise ValueError(
            f"{name} has {rows:,} rows, and one launch at most {MOST * high:,}: give it in parts"
        )
    return ceil_div(columns, wide), ceil_div(rows, high)


# --- arrays on the device -------------------------------------------------------------------------


def in_order(array: Array, name: str, rows: bool = False) -> Array:
    """Return a device array whose elements are contiguous in C order; ValueError for others.

    With `rows` there may be gaps between a matrix's rows, but not within a row.
    """
    wanted, size = [], array.dtype.itemsize
    for length in reversed(array.shape):
        wanted.insert(0, size)
        size *= length
    pairs = list(zip(array.shape, array.strides, wanted, strict=True))
    strided = [length > 1 and have != want for length, have, want in pairs]
    if array.size and any(strided[-1:] if rows else strided):
        what = "the elements of each row" if rows else "its elements"
        raise ValueError(
            f"{name} has the strides {tuple(array.strides)} bytes; {what} must lie side by side: "
            f"copy it to C order first"
        )
    return array


def flat(array: Array, name: str) -> Array:
    """A view of a contiguous device array with a single axis."""
    return in_order(array, name).reshape(array.size)


def matrix(array: Array, name: str) -> Array:
    """A view of a device array as (rows, columns); a matrix may have gaps between its rows."""
    in_order(array, name, rows=array.ndim == 2)
    if array.ndim == 2:
        return array
    return array.reshape(array.size // array.shape[-1], array.shape[-1])


def as_words(array: Array, size: int = 4, kind: str = "u") -> Array:
    """View a device array of 16-bit elements as unsigned integers of `size` bytes, 4 or 2.

    With the `kind` "f" the view's elements are floats.
    """
    shape = *array.shape[:-1], 2 * array.shape[-1] // size
    return seen_as(array, shape, (*array.strides[:-1], size), np.dtype(f"{kind}{size}"))


def seen_as(array: Array, shape: tuple, strides: tuple, dtype: np.dtype | None = None) -> Array:
    """View a device array's memory with another shape, other strides and perhaps another dtype."""
    if isinstance(array, ArraySlot):
        its = dtype or array.dtype
        return dataclasses.replace(array, shape=shape, strides=strides, dtype=its)
    about = array.__cuda_array_interface__ | {"shape": shape, "strides": strides}
    if dtype is not None:
        about |= {"typestr": dtype.str, "descr": [("", dtype.str)]}
    return cuda.from_cuda_array_interface(about, owner=array, sync=False)


def address_of(array: Array) -> int:
    """The address of a device array's first element."""
    return array.__cuda_array_interface__["data"][0]


def are_aligned(*arrays: Array) -> bool:
    """Whether vector accesses of four elements are aligned at the start of every array's rows."""
    for array in arrays:
        size = VECTOR * array.dtype.itemsize
        if address_of(array) % size or any(step % size for step in array.strides[:-1]):
            return False
    return True


def rows_are_aligned(*arrays: Array | None) -> bool:
    """Whether aligned vector accesses cover the rows completely, in all arrays that are given."""
    there = [array for array in arrays if array is not None]
    return there[0].shape[-1] % VECTOR == 0 and are_aligned(*there)
