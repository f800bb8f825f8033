"""``cuda.vectorize`` and ``cuda.reduce``: element-wise functions and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.core.sigutils import normalize_signature

from course.simt import gpus
from course.simt.device import DeviceNDArray
from course.simt.launch import CHUNK_LANES, Launch
from course.simt.masks import Mask
from course.simt.names import Unsupported
from course.simt.operators import CONVERT
from course.simt.oracle import dtype_of, of_dtype
from course.simt.programs import program_of
from course.simt.threads import Threads, geometry


def apply(function: Any, signature: tuple[types.Type, ...], arrays: list[np.ndarray]) -> np.ndarray:
    """Run a device function on the elements of equally long 1-D arrays, a thread an element."""
    program = program_of(function)
    kind = program.typing(signature).result
    lanes = program.lane_program(signature, False, device=True)
    launch = Launch(lanes.name, gpus.current(), lanes.sites, 0, False, None)
    size = len(arrays[0])
    result = np.empty(size, dtype_of(kind))
    blocks = -(-size // 128)
    with np.errstate(all="ignore"):
        for first in range(0, blocks, CHUNK_LANES // 128):
            place = geometry(
                (blocks, 1, 1), (128, 1, 1), first, min(CHUNK_LANES // 128, blocks - first)
            )
            threads = Threads(launch, place)
            start = first * 128
            count = min(place.lanes, size - start)
            inputs = [np.resize(array[start : start + count], place.lanes) for array in arrays]
            threads.mask = Mask(np.arange(place.lanes) < count, count, place.root)
            values = np.broadcast_to(np.asarray(lanes.run(threads, *inputs)), (place.lanes,))
            result[start : start + count] = values[:count]
    return result


class Vectorized:
    """A function of scalars that works on whole arrays, element by element."""

    def __init__(self, function: Callable, signatures: list[tuple[tuple, Any]]):
        self.py_func, self.signatures = function, signatures
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __call__(self, *arguments: Any, out: Any = None, stream: Any = 0) -> Any:
        device = any(isinstance(argument, DeviceNDArray) for argument in arguments)
        arrays = [a._memory if isinstance(a, DeviceNDArray) else np.asarray(a) for a in arguments]
        kinds, result = self._choose(arrays)
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        flat = [
            CONVERT[kind](np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(-1))
            for array, kind in zip(arrays, kinds, strict=True)
        ]
        values = apply(self.py_func, kinds, flat) if flat[0].size else np.empty(0)
        values = values.astype(dtype_of(result)).reshape(shape)
        if out is not None:
            target = out._memory if isinstance(out, DeviceNDArray) else out
            np.copyto(target, values)
            return out
        return DeviceNDArray(values) if device else values

    def _choose(self, arrays: list[np.ndarray]):
        given = [of_dtype(array.dtype) for array in arrays]
        for kinds, result in self.signatures:
            if len(kinds) == len(given) and all(
                np.can_cast(array.dtype, dtype_of(kind), "safe")
                for array, kind in zip(arrays, kinds, strict=True)
            ):
                return kinds, result
        listed = "; ".join(str(kinds) for kinds, _ in self.signatures)
        raise TypeError(
            f"No matching signature for {self.__name__}({', '.join(str(k) for k in given)}); "
            f"it has {listed}"
        )

    def __repr__(self) -> str:
        return f"<simulated CUDA ufunc {self.__name__}>"


def vectorize(ftylist_or_function: Any = (), target: str = "cuda", **options: Any) -> Any:
    """Make an element-wise function of whole arrays.

    Parameters
    ----------
    ftylist_or_function : list of signatures
        Such as ``["float32(float32, float32)"]``; CUDA needs them.
    """
    if callable(ftylist_or_function) and not isinstance(ftylist_or_function, types.Type):
        raise TypeError(
            'cuda.vectorize needs signatures: @cuda.vectorize(["float32(float32, float32)"])'
        )
    given = [ftylist_or_function] if isinstance(ftylist_or_function, str) else ftylist_or_function
    signatures = []
    for one in given:
        kinds, result = normalize_signature(one)
        if result is None:
            raise TypeError(f"cuda.vectorize: the signature {one!r} has no result type")
        signatures.append((tuple(kinds), result))
    if not signatures:
        raise TypeError('cuda.vectorize needs signatures: ["float32(float32, float32)"]')
    return lambda function: Vectorized(function, signatures)


def guvectorize(*args: Any, **options: Any) -> Any:
    """Not there: a kernel says the same."""
    raise Unsupported("cuda.guvectorize is not supported by the simulator: write a kernel")


class Reduce:
    """A reduction of a 1-D array by a function of two values."""

    def __init__(self, functor: Callable):
        self.functor = functor

    def __call__(
        self, arr: Any, size: int | None = None, res: Any = None, init: Any = 0, stream: Any = 0
    ):
        values = arr._memory if isinstance(arr, DeviceNDArray) else np.asarray(arr)
        if values.ndim != 1:
            raise TypeError("only support 1D array")
        values = values[:size]
        init = values.dtype.type(init)
        kind = of_dtype(values.dtype)
        partial = np.concatenate([values, [init]]).astype(values.dtype)
        while len(partial) > 1:
            half = len(partial) // 2
            merged = apply(self.functor, (kind, kind), [partial[:half], partial[half : 2 * half]])
            partial = np.concatenate([merged.astype(values.dtype), partial[2 * half :]])
        if res is None:
            return partial[0]
        res[0] = partial[0]
        return None


def reduce(functor: Callable) -> Reduce:
    """Decorator: make a reduction from a function of two values."""
    return Reduce(functor)
