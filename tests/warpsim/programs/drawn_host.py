"""Host-side programs, drawn: device arrays, ufuncs and signatures, here and in numba-cuda's code.

numba-cuda's own classes run on memory of the host, with a driver of a few lines instead of CUDA's.

    python -m tests.warpsim.programs.drawn_host --seed 1 --count 1000
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import random
import warnings
from contextlib import ExitStack, contextmanager, nullcontext
from unittest.mock import patch

import numpy as np

from tests.warpsim.numba_inference import without_gpu
from warpsim import cuda as simulated

RECORD = np.dtype([("u", np.float32), ("w", np.int32)])


class Memory:
    """What numba-cuda calls gpu_data: bytes, here of the host."""

    def __init__(self, data: np.ndarray):
        self.data, self.size = data, data.size
        self.device_ctypes_pointer = ctypes.c_void_p(data.ctypes.data if data.size else None)

    def view(self, start, stop=None):
        return Memory(self.data[start:stop])


def _copy(dst, src, size, stream=0):
    ends = [getattr(one, "gpu_data", one) for one in (dst, src)]
    places = [one.data if isinstance(one, Memory) else one for one in ends]
    ctypes.memmove(*(place.ctypes.data for place in places), size)


class OnHost:
    """A kernel of Numba's host code, as a function of NumPy arrays that share the memory."""

    def __init__(self, function):
        self.function = function

    def forall(self, count, stream=0):
        return lambda *arrays: self.function(*map(_as_numpy, arrays)) if count else None


def _as_numpy(array):
    if isinstance(array, np.ndarray):
        return array
    return np.ndarray(array.shape, array.dtype, array.gpu_data.data, strides=array.strides)


def _assign(lhs, rhs):
    lhs[...] = rhs


@contextmanager
def without_driver():
    """numba-cuda's host code, on memory of the host."""
    from numba import cuda
    from numba.cuda import api
    from numba.cuda.cudadrv import devicearray, devices

    context = type("Context", (), {"memalloc": lambda self, size: Memory(np.zeros(size, np.uint8))})
    context.get_default_stream = lambda self: simulated.stream()
    driver = devicearray._driver
    with ExitStack() as patches:
        for of, name, value in (
            (driver, "device_to_host", _copy),
            (driver, "host_to_device", _copy),
            (driver, "device_to_device", _copy),
            (driver, "MemoryPointer", lambda **of: Memory(np.zeros(0, np.uint8))),
            (devices, "get_context", context),
            (devices._runtime, "ensure_context", nullcontext),
            (devicearray, "_assign_kernel", lambda ndim: OnHost(_assign)),
            (api, "current_context", context),
        ):
            patches.enter_context(patch.object(of, name, value))
        patches.enter_context(without_gpu())
        yield cuda


INDICES = """0 1 -1 5 -9 : 1: ::2 :0 1:3 None ... True False 1.0 [0,1] [0] () (0,) mask whole
    np.int64(1) np.array(1) np.array([1]) np.True_ 'u' 'missing' np.float64(1) 1.5: slice(0,2) d
""".split()
METHODS = """d.reshape({shape}) d.reshape(*{shape}) d.reshape({shape},order='F') d.ravel()
    d.ravel('F') d.ravel('A') d.ravel('K') d.squeeze() len(d)
    d.view('i4') d.view(np.int64) d.view(np.uint8) list(d.split(2)) d.copy_to_host() d.flags
    d.copy_to_host({host}) d.copy_to_device({host}) d.copy_to_device(cuda.to_device({host}))
    d.is_c_contiguous() d.is_f_contiguous() d.nbytes d.size d.ndim d.strides d.transpose((0,1))
    d.transpose((1,0,2)) d.astype('f4') d.sum() d.copy() d.fill(0) d.itemsize d.flat d.tolist()
    d.real d.item() d.mean() d.max() d.dot(d) d.__array__() np.asarray(d) d+1 d==d abs(d) iter(d)
    cuda.to_device({host}) cuda.device_array({shape}).shape d.getitem(0)
    cuda.device_array_like(d).strides bool(d) float(d) d.getitem(1,stream=0)""".split()
SHAPES = ["(4,3)", "(12,)", "12", "(-1,)", "(2,6)", "(-1,-1)", "(5,)", "(1,12)", "6", "(3,4)"]
HOSTS = [
    "np.ones((3,4))",
    "np.ones((3,4),order='F')",
    "np.ones((4,3))",
    "np.ones(12)",
    "np.ones(6)",
]
HOSTS += ["np.ones((3,4),'f4')", "np.ones(12)[::2]", "np.ones((1,3,4))", "[1,2]", "np.zeros(0)"]
VALUES = ["1", "2.5", "[1,2]", "np.ones(6)", "np.ones((3,1))", "np.ones(4)", "np.ones((9,9))"]
VALUES += ["np.ones(12)[::3]", "d", "True", "np.ones((1,1,1,1))", "d[0]"]
ARRAYS = ["np.arange(12.0)", "np.arange(12.0).reshape(3,4)", "np.arange(12.0).reshape(4,3).T"]
ARRAYS += ["np.arange(12.0).reshape(2,3,2)", "np.array(1.5)", "np.ones((1,4))"]
ARRAYS += ["np.zeros(3,RECORD)", "np.arange(6,dtype='i4')"]
OPERANDS = ["np.ones(4)", "np.ones((3,1))", "np.ones((1,4))", "np.ones((3,4))", "np.ones(8)[::2]"]
OPERANDS += ["2", "2.5", "np.ones(4,'f4')", "np.ones(4,'i4')", "np.array(2.0)", "1j", "[1.0,2,3,4]"]
OPERANDS += [
    "np.ones((3,4),order='F')",
    "np.ones((4,8))[:,::2]",
    "np.float32(2)",
    "np.ones((2,1,4))",
]
OPERANDS += [
    f"cuda.to_device({one})" for one in (*OPERANDS[:4], "np.ones(4,'f4')", "np.array(2.0)")
]
OPERANDS += ["cuda.to_device(np.ones(8))[::2]", "np.zeros(0)", "True", "np.ones(1)", "np.True_"]
OUTS = ["np.empty(4)", "np.empty((3,4))", "cuda.device_array(4)", "np.empty(4,'f4')", "np.empty(3)"]
GUFUNCS = ["(n)->(n)", "(n),(n)->(n)", "(n),()->(n)", "(m,n),(n)->(m)", "(),()->()"]


def program(chance: random.Random) -> tuple[str, ...]:
    """Statements; the last one's value counts."""
    kind = chance.random()
    if kind < 0.25:
        given = [chance.choice(OPERANDS) for _ in range(2)]
        out = f",out={chance.choice(OUTS)}" if chance.random() < 0.2 else ""
        return (f"add({', '.join(given)}{out})",)
    if kind < 0.5:
        layout = chance.choice(GUFUNCS)
        count = layout.partition("->")[0].count("(") + (chance.random() < 0.1)
        given = [chance.choice(OPERANDS) for _ in range(count)]
        return (f"gufuncs[{layout!r}]({', '.join(given)})",)
    array = chance.choice(ARRAYS)
    lines = [f"d = cuda.to_device({array})"]
    if chance.random() < 0.5:
        lines.append(f"d = d[{_index(chance)}]")
    if chance.random() < 0.3:
        return *lines, f"d[{_index(chance)}] = {chance.choice(VALUES)}", "d.copy_to_host()"
    if chance.random() < 0.4 or "RECORD" in array:
        return *lines, f"d[{_index(chance)}]"
    method = chance.choice(METHODS)
    return *lines, method.format(shape=chance.choice(SHAPES), host=chance.choice(HOSTS))


def _index(chance: random.Random) -> str:
    return ",".join(chance.choice(INDICES) for _ in range(chance.choice([1, 1, 2, 2, 3])))


def outcome(lines: tuple[str, ...], cuda, functions: dict):
    """The value of the last line, or the class of the error."""
    names = {"cuda": cuda, "np": np, "RECORD": RECORD, "whole": np.array([1, 0]), **functions}
    names["mask"] = np.array([True, False, True])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for line in lines[:-1]:
                exec(line, names)
            return _described(eval(lines[-1], names))
        except Exception as error:
            return type(error).__name__, str(error)[:150]


def _described(value):
    if isinstance(value, list | tuple):
        return [_described(one) for one in value]
    if hasattr(value, "copy_to_host") and min((0, *value.strides)) >= 0:
        value = value.copy_to_host()
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tolist()
    if hasattr(value, "__next__"):
        return "an iterator"
    return value.item() if isinstance(value, np.generic) else str(value)


def functions_of_numba() -> dict:
    """A ufunc and gufuncs of numba-cuda's classes, with kernels on the host."""
    from numba.cuda.deviceufunc import GUFuncEngine
    from numba.cuda.vectorizers import CUDAGeneralizedUFunc, CUDAUFuncDispatcher

    double = np.dtype("f8")

    def add(a, b, out):
        out[...] = a + b

    def total(*arrays):
        for number in range(min(array.shape[0] for array in arrays)):
            parts = [array[number] for array in arrays]
            # of a matrix and a vector the sums of rows, else element by element
            summed = sum(parts[:-1])
            arrays[-1][number] = summed.sum(-1) if np.ndim(summed) > np.ndim(parts[-1]) else summed

    def gufunc(layout):
        engine = GUFuncEngine.from_signature(layout)
        return CUDAGeneralizedUFunc(
            {(double,) * engine.nin: ((double,), OnHost(total))}, engine, add
        )

    made = CUDAUFuncDispatcher({(double, double): (double, OnHost(add))}, add)
    return {"add": made, "gufuncs": {layout: gufunc(layout) for layout in GUFUNCS}}


def functions_here() -> dict:
    """The same functions, declared as a program declares them."""

    def one(a, out):
        for i in range(out.size):
            out[i] = a[i]

    def two(a, b, out):
        for i in range(out.size):
            out[i] = a[i] + b[i]

    def scalar(a, b, out):
        for i in range(out.size):
            out[i] = a[i] + b

    def matrix(a, b, out):
        for i in range(out.size):
            out[i] = 0.0
            for j in range(b.size):
                out[i] += a[i, j] + b[j]

    def scalars(a, b, out):
        out[0] = a + b

    kinds = ["f8[:], f8[:]", "f8[:], f8[:], f8[:]", "f8[:], f8, f8[:]", "f8[:,:], f8[:], f8[:]"]
    kinds += ["f8, f8, f8[:]"]
    bodies = [one, two, scalar, matrix, scalars]
    gufuncs = {
        layout: simulated.guvectorize([f"void({kind})"], layout)(body)
        for layout, kind, body in zip(GUFUNCS, kinds, bodies, strict=True)
    }
    return {"add": simulated.vectorize(["f8(f8, f8)"])(lambda a, b: a + b), "gufuncs": gufuncs}


def differences(seed: int | str, count: int):
    """Drawn programs whose outcomes differ, each with both."""
    here, there = functions_here(), functions_of_numba()
    for number in range(count):
        lines = program(random.Random(f"{seed}-{number}"))
        with without_driver() as cuda:
            numbas = outcome(lines, cuda, there)
        ours = outcome(lines, simulated, here)
        if "its first element for all" in str(ours):  # wrong there without a word, refused here
            continue
        both = _is_error(numbas) and _is_error(ours)  # of two mistakes, either may be told first
        if numbas != ours and not (
            both and (numbas[0] == ours[0] or any("," in line for line in lines))
        ):
            yield f"{seed}-{number}", lines, numbas, ours


def _is_error(found) -> bool:
    return isinstance(found, tuple) and len(found) == 2 and str(found[0]).endswith("Error")


def main() -> None:
    """Print the differences, the commonest first."""
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=1000)
    chosen = options.parse_args()
    found = collections.defaultdict(list)
    for name, lines, numbas, ours in differences(chosen.seed, chosen.count):
        kind = tuple(one[0] if _is_error(one) else "runs" for one in (numbas, ours))
        found[kind, lines[-1].partition("(")[0][:12]].append((name, lines, numbas, ours))
    print(f"{chosen.count} programs, {sum(map(len, found.values()))} differ")
    for (kind, _), cases in sorted(found.items(), key=lambda pair: -len(pair[1])):
        print(f"\n== {len(cases)} times {kind}")
        for name, lines, numbas, ours in cases[:2]:
            print(f"{name}: {'; '.join(lines)}\n  Numba: {numbas}\n  here:  {ours}")


if __name__ == "__main__":
    main()
