"""``cuda.vectorize``, ``cuda.guvectorize`` and ``cuda.reduce``."""

import math
from collections.abc import Callable, Iterator
from typing import Any
from warnings import warn

import numpy as np
from numba import types
from numba.core.sigutils import normalize_signature
from numba.np.ufunc.sigparse import parse_signature

from warpsim.code.programs import program_of
from warpsim.core.interface import device_memory
from warpsim.core.masks import Mask
from warpsim.core.memory import Array, contiguous_strides
from warpsim.core.operators import CONVERT
from warpsim.core.settings import warn_of_few_blocks
from warpsim.front.numba_typing import dtype_of, of_dtype
from warpsim.host import gpus
from warpsim.host.device import DeviceNDArray, copied
from warpsim.run.launch import CHUNK_LANES, Launch
from warpsim.run.state import geometry
from warpsim.run.threads import Threads


def apply(function: Any, signature: tuple[types.Type, ...], arrays: list[np.ndarray]) -> np.ndarray:
    """Run a device function on the elements of equally long 1-D arrays, a thread an element."""
    size = len(arrays[0])
    result = np.empty(size, dtype_of(program_of(function).typing(signature).result))
    with np.errstate(all="ignore"):
        for run, threads, number in _chunks(function, signature, size):
            inputs = [array.take(number, mode="clip") for array in arrays]
            values = np.broadcast_to(np.asarray(run(threads, *inputs)), number.shape)
            result[number[0] : size][: len(number)] = values[: size - number[0]]
    return result


def _chunks(function: Any, signature: tuple[types.Type, ...], size: int) -> Iterator[tuple]:
    """A device function on so many threads in blocks of 128: program, threads, their numbers."""
    lanes = program_of(function).lane_program(signature, False, device=True)
    launch = Launch(lanes.name, gpus.current(), lanes.sites, 0, False, None)
    blocks, most = -(-size // 128), CHUNK_LANES // 128
    for first in range(0, blocks, most):
        place = geometry((blocks, 1, 1), (128, 1, 1), first, min(most, blocks - first))
        threads, number = Threads(launch, place), place.lane + first * 128
        count = min(place.lanes, size - first * 128)
        threads.state.mask = Mask(number < size, count, place.root)
        yield lanes.run, threads, number


def on_device(value: Any) -> Any:
    """A device array for one that only has its interface; any other value as it is."""
    if isinstance(value, tuple) and any(hasattr(v, "__cuda_array_interface__") for v in value):
        return tuple(map(on_device, value))
    if isinstance(value, np.ndarray | DeviceNDArray):
        return value
    memory = device_memory(value)
    return value if memory is None else DeviceNDArray(memory)


def _memory(value: Any) -> Any:
    return value._memory if isinstance(value, DeviceNDArray) else value


class Vectorized:
    """A function of scalars that works on whole arrays, element by element."""

    def __init__(self, function: Callable, signatures: list[tuple[tuple, Any]]):
        self.py_func = function
        self.signatures = [  # a result that is not declared is that of the function
            (kinds, result or program_of(function).typing(kinds).result)
            for kinds, result in signatures
        ]
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __call__(self, *arguments: Any, out: Any = None, stream: Any = 0) -> Any:
        arguments, out = [on_device(argument) for argument in arguments], on_device(out)
        device = any(isinstance(argument, DeviceNDArray) for argument in arguments)
        scalars = [isinstance(a, int | float | complex | np.number) for a in arguments]
        arrays = [np.asarray(_memory(argument)) for argument in arguments]
        kinds, result = self._choose(arrays, scalars)
        arrays = [
            np.array([value], dtype_of(kind)) if scalar else array
            for value, array, scalar, kind in zip(arguments, arrays, scalars, kinds, strict=True)
        ]
        shapes = tuple(array.shape for array in arrays)
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            text = f"{self.__name__}: failed to broadcast arguments of {shapes}"
            raise ValueError(text) from None
        if not shape:
            raise IndexError(
                f"{self.__name__}: Numba's ufuncs take no arrays of zero dimensions alone: give "
                "numbers, or x.reshape(1)"
            )
        for number, (array, given) in enumerate(zip(arrays, arguments, strict=True)):
            if len(shape) == 1 and not isinstance(given, DeviceNDArray):
                copied(array, f"{self.__name__}: argument {number}")
            if array.ndim < len(shape) and array.size > 1:
                raise ValueError(
                    f"{self.__name__}: argument {number} has {array.ndim} of {len(shape)} "
                    "dimensions, and Numba would take its first element for all: give the missing "
                    f"ones, x.reshape({', '.join(['1'] * (len(shape) - array.ndim))}, ...)"
                )
        spread = (np.ascontiguousarray(np.broadcast_to(one, shape)).reshape(-1) for one in arrays)
        flat = [CONVERT[kind](one) for one, kind in zip(spread, kinds, strict=True)]
        values = apply(self.py_func, kinds, flat) if flat[0].size else np.empty(0)
        values = values.astype(dtype_of(result)).reshape(shape)
        if isinstance(out, np.ndarray) and (out.shape, out.dtype) != ((values.size,), values.dtype):
            raise AssertionError(
                f"{self.__name__}: Numba takes a host array as out only if it has one dimension "
                f"and the result's type: {values.dtype} of shape {(values.size,)}, not {out.dtype} "
                f"of {out.shape}"
            )
        if out is None:
            return DeviceNDArray(values) if device else values
        np.copyto(_memory(out), values.reshape(out.shape), casting="unsafe")
        return out if out.shape == shape else out.reshape(shape)

    def _choose(self, arrays: list[np.ndarray], scalars: list[bool]):
        """The signature whose types the arrays have; single numbers are converted."""
        given = [of_dtype(array.dtype) for array in arrays]
        for convertible in ([False] * len(given), scalars):  # exact types come first
            found = []
            for kinds, result in self.signatures:
                fits = len(kinds) == len(given)
                for array, scalar, kind in zip(arrays, convertible, kinds, strict=False):
                    fits &= scalar or array.dtype == dtype_of(kind)
                found += [(kinds, result)] * fits
            if len(found) > 1:
                raise TypeError(
                    "Failed to resolve ufunc due to ambiguous signature. Too many untyped scalars. "
                    "Use numpy dtype object to type tag."
                )
            if found:
                return found[0]
        listed = "; ".join(f"({', '.join(map(str, kinds))})" for kinds, _ in self.signatures)
        raise TypeError(
            f"No matching signature for {self.__name__}({', '.join(map(str, given))}); it has "
            f"{listed}. GPU ufunc requires array arguments to have the exact types: convert them "
            "with .astype(...), or add a signature"
        )

    def reduce(self, arg: Any, stream: Any = 0) -> Any:
        """One value from all elements of a 1-D array, by a function of two values."""
        return Reduce(self.py_func)(arg, init=None)

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
        text = 'cuda.vectorize needs signatures: @cuda.vectorize(["float32(float32, float32)"])'
        raise TypeError(text)
    if "nopython" in options:
        warn("nopython kwarg for cuda target is redundant", RuntimeWarning, stacklevel=2)
    if options.pop("nopython", True) is not True:
        raise TypeError("nopython flag must be True")
    unknown = sorted(set(options) - {"cache", "identity"})
    if unknown:
        raise KeyError(f"Unrecognized options. {', '.join(unknown)}; cuda.vectorize takes none")
    given = [ftylist_or_function] if isinstance(ftylist_or_function, str) else ftylist_or_function
    signatures = [(tuple(kinds), result) for kinds, result in map(normalize_signature, given)]
    if not signatures:
        raise TypeError('cuda.vectorize needs signatures: ["float32(float32, float32)"]')
    return lambda function: Vectorized(function, signatures)


class GeneralisedUfunc:
    """A function of small arrays that works on all of them in larger arrays, a thread each."""

    def __init__(self, function: Callable, signatures: list[tuple], layout: str):
        self.py_func, self.signatures = function, signatures
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.inputs, self.outputs = parse_signature(layout)

    def __call__(self, *arguments: Any, out: Any = None, stream: Any = 0) -> Any:
        taken, whole = len(self.inputs), len(self.inputs) + len(self.outputs)
        if len(arguments) not in (taken, whole):
            plural = "" if len(arguments) == 1 else "s"
            raise TypeError(
                f"{self.__name__}: gufunc accepts {taken} positional arguments (when providing "
                f"input only) or {whole} positional arguments (when providing input and output). "
                f"Got {len(arguments)} positional argument{plural}."
            )
        if len(arguments) == whole and out is not None:
            raise ValueError("cannot specify argument 'out' as both positional and keyword")
        if len(arguments) == whole:
            arguments, out = arguments[:taken], tuple(arguments[taken:])
        arguments, out = [on_device(argument) for argument in arguments], on_device(out)
        device = any(isinstance(argument, DeviceNDArray) for argument in arguments)
        given = [a if isinstance(a, DeviceNDArray) else np.asarray(a) for a in arguments]
        loop, sizes = self._schedule([array.shape for array in given])
        kinds = self._choose([array.dtype for array in given])
        results = [
            np.zeros((*loop, *(sizes[name] for name in names)), dtype_of(_element(kind)))
            for names, kind in zip(self.outputs, kinds[taken:], strict=True)
        ]
        targets = () if out is None else out if isinstance(out, tuple) else (out,)
        outs = [one if isinstance(one, DeviceNDArray) else np.asarray(one) for one in targets]
        for one in outs:
            one.reshape(-1)  # as Numba does: an array with gaps on the device is refused
        shapes = [one.shape for one in outs]
        if out is not None and shapes != [result.shape for result in results]:
            raise ValueError(f"{self.__name__}: output shape mismatch: {shapes}")
        arrays = [
            self._laid_out(number, array, kinds[number], math.prod(loop), sizes)
            for number, array in enumerate(given)
        ]
        self._run(arrays, results, kinds, loop, sizes)
        for target, result in zip(targets, results, strict=False):
            np.copyto(_memory(target), result)
        given = targets or tuple(DeviceNDArray(one) if device else one for one in results)
        return given[0] if len(given) == 1 else given

    def _schedule(self, shapes: list[tuple[int, ...]]) -> tuple[tuple[int, ...], dict[str, int]]:
        """What the loop runs over, as Numba finds it, and the sizes of the core dimensions."""
        sizes: dict[str, int] = {}
        loops = []
        for number, (shape, names) in enumerate(zip(shapes, self.inputs, strict=True)):
            core = shape[len(shape) - len(names) :]
            known = (sizes.setdefault(*pair) == pair[1] for pair in zip(names, core, strict=True))
            if len(shape) < len(names) or not all(known):
                raise ValueError(
                    f"{self.__name__}: argument {number} of shape {shape} does not fit the "
                    f"core dimensions ({', '.join(names)}); known so far: {sizes}"
                )
            loops.append(shape[: len(shape) - len(names)])
        loop = max(loops, key=math.prod)
        for number, one in enumerate(loops):
            if one not in (loop, (1,), ()):
                raise ValueError(
                    f"arg #{number + 1}: outer dimension mismatch: {one} and {loop}; Numba "
                    "broadcasts no axes here: give np.broadcast_to(...).copy()"
                )
        if not math.prod(loop):
            raise AssertionError("zero looping dimension")
        return loop, sizes

    def _choose(self, given: list[np.dtype]) -> tuple[types.Type, ...]:
        """The signature of these types; else, as in Numba, the first that is narrower."""
        taken = ((tuple(map(_element, kinds[: len(given)])), kinds) for kinds in self.signatures)
        dtypes = {tuple(map(dtype_of, elements)): kinds for elements, kinds in taken}
        if tuple(given) in dtypes:
            return dtypes[tuple(given)]
        for wanted, kinds in dtypes.items():
            if all(np.can_cast(one, other) for one, other in zip(wanted, given, strict=True)):
                return kinds
        listed = "; ".join(f"({', '.join(map(str, kinds))})" for kinds in self.signatures)
        raise TypeError(
            f"no matching signature: {self.__name__}({', '.join(map(str, given))}); it has "
            f"{listed}. Numba widens no argument: convert it with .astype(...)"
        )

    def _laid_out(self, number: int, array: Any, kind: types.Type, count: int, sizes) -> np.ndarray:
        """An argument with one axis for the loop before its core dimensions."""
        dtype, core = dtype_of(_element(kind)), tuple(sizes[name] for name in self.inputs[number])
        if array.dtype != dtype and isinstance(array, DeviceNDArray):
            raise TypeError(
                f"{self.__name__}: a compatible signature is possible by casting but "
                f"{DeviceNDArray} does not support .astype(): give it the type of the signature"
            )
        if not isinstance(array, DeviceNDArray):
            converted = array.astype(dtype, copy=False)
            array = DeviceNDArray(copied(converted, f"{self.__name__}: argument {number}"))
        if (array.size == 1 and not core) or array.ndim <= len(core):
            return np.broadcast_to(array._memory.reshape(core), (count, *core))
        return array.reshape(count, *core)._memory

    def _run(self, arrays, results, kinds, loop, sizes) -> None:
        size = math.prod(loop)
        warn_of_few_blocks(-(-size // 128))
        names = self.inputs + self.outputs
        flat = [np.ascontiguousarray(array).reshape(-1) for array in (*arrays, *results)]
        shapes = [tuple(sizes[name] for name in core) for core in names]
        arguments = program_of(self.py_func).source.arguments
        with np.errstate(all="ignore"):
            for run, threads, number in _chunks(self.py_func, kinds, size):
                values = []
                for memory, shape, kind, name in zip(flat, shapes, kinds, arguments, strict=True):
                    if isinstance(kind, types.Array):
                        core = shape or (1,)
                        place = core, contiguous_strides(core), "global", name
                        values.append(Array(memory, *place, number * math.prod(core)))
                    else:
                        values.append(memory.take(number, mode="clip"))
                run(threads, *values)


def _element(kind: types.Type) -> types.Type:
    return kind.dtype if isinstance(kind, types.Array) else kind


def guvectorize(
    ftylist: Any, signature: str | None = None, target: str = "cuda", **options: Any
) -> Any:
    """Make a function of small arrays that works on all of them in larger arrays.

    Parameters
    ----------
    ftylist : list of signatures
        Such as ``["void(float32[:], float32[:])"]``, the outputs last.
    signature : str
        The layout, such as ``"(n)->(n)"``.
    """
    if signature is None:
        raise TypeError('cuda.guvectorize needs signatures and a layout such as "(n),(n)->(n)"')
    if options.pop("nopython", True) is not True:
        raise TypeError("nopython flag must be True")
    options.pop("cache", None)
    if options:
        listed = ", ".join(repr(name) for name in options)
        raise TypeError(f"The following target options are not supported: {listed}")
    given = [ftylist] if isinstance(ftylist, str) else ftylist
    kinds = []
    for one in given:
        arguments, result = normalize_signature(one)
        if result not in (None, types.none):
            raise TypeError(
                f"guvectorized functions cannot return values: signature {one} specifies {result} "
                "return type"
            )
        kinds.append(tuple(arguments))
    return lambda function: GeneralisedUfunc(function, kinds, signature)


class Reduce:
    """A reduction of a 1-D array by a function of two values."""

    def __init__(self, functor: Callable):
        self.functor = functor

    def __call__(self, arr: Any, size: int | None = None, res=None, init: Any = 0, stream: Any = 0):
        values = np.asarray(_memory(arr))
        if values.ndim != 1:
            raise TypeError("only support 1D array")
        values = values[:size]
        kind = of_dtype(values.dtype)
        partial = values.copy()
        if init is not None:
            partial = np.concatenate([values, [values.dtype.type(init)]]).astype(values.dtype)
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
