"""Products by cuBLAS, where it is faster than the course's kernels: the step "library".

cuBLAS is column-major and the course's arrays are row-major, so it computes out' = b' a'. With an
epilogue it leaves float32 sums, and `course.kernels.gemm.partial` finishes them.

Source: NVIDIA, cuBLAS, cublasGemmEx, cublasSetWorkspace.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import threading
from collections.abc import Sequence
from ctypes import byref, c_float, c_size_t, c_void_p
from typing import Any

import numpy as np

from course import backend
from course.dispatch.array_facts import handle_of
from course.dispatch.slots import name_of, workspace
from course.kernels.arrays import Array, address_of
from course.kernels.gemm import partial

NAMES = "libcublas.so.13", "libcublas.so.12"  # CuPy and PyTorch load them
SPACE = 32 * 2**20  # bytes of a workspace, as NVIDIA recommends for Hopper
#: CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT.
FLOAT32_SUMS, IN_FLOAT32, ITS_CHOICE = 16, 68, -1
TYPES = {"float32": 0, "float16": 2, "bfloat16": 14}  # cudaDataType
ONE, ZERO = c_float(1), c_float(0)  # alpha and beta of out = alpha a b + beta out


class Handle:
    """A handle of cuBLAS on the current GPU, which remembers its latest stream and workspace."""

    def __init__(self, library: Any):
        self.library, self.lock, self.its = library, threading.Lock(), c_void_p()
        self.now: Any = None
        if library.cublasCreate_v2(byref(self.its)):
            raise OSError("cuBLAS does not begin to work")
        library.cublasSetMathMode(self.its, FLOAT32_SUMS)

    def multiply(self, function: str, queue: int, space: int, *given: Any) -> int:
        """Queue a product, or a stack of them, on a stream; returns cuBLAS's status."""
        library, its = self.library, self.its
        with self.lock:
            if self.now != (queue, space):  # cublasSetStream resets the workspace
                library.cublasSetStream_v2(its, c_void_p(queue))
                library.cublasSetWorkspace_v2(its, c_void_p(space), c_size_t(SPACE))
                self.now = queue, space
            return getattr(library, function)(its, *given)


@functools.cache
def _handle(device: int) -> Handle | None:
    with contextlib.suppress(ImportError):
        importlib.import_module("cupy_backends.cuda.libs.cublas")
    for name in NAMES:
        with contextlib.suppress(OSError, AttributeError):
            return Handle(ctypes.CDLL(name))
    return None


def cublas() -> Handle | None:
    """The current GPU's handle; None without a GPU, or without CuPy or PyTorch to load cuBLAS."""
    return None if backend.gpu() is None else _handle(backend.cuda.get_current_device().id)


class Product:
    """out = a b by cuBLAS, with the methods of `course.dispatch.launches.Launch`, prepared too.

    `arrays` are b, a, the results or sums (whose rows may be padded), and a workspace.
    """

    moved, where, queue, function = True, (), 0, "cublasGemmEx"

    def __init__(self, p: Any, arrays: Sequence[Array], slots: Sequence[int] = ()):
        self.problem, self.arrays, self.slots, self.cublas = p, arrays, slots, cublas()
        self.pointers = [c_void_p() for _ in arrays]
        self.given = self.given_to(*map(self.matrix, self.pointers, arrays[:3]))

    def matrix(self, pointer: c_void_p, its: Array) -> tuple:
        return pointer, TYPES[name_of(its.dtype)], its.shape[-1]

    def given_to(self, b: tuple, a: tuple, out: tuple) -> tuple:
        p = self.problem
        how = p.layout[1] == "t", p.layout[0] == "t", p.columns, p.rows, p.depth, byref(ONE)
        return *how, *b, *a, byref(ZERO), *out, IN_FLOAT32, ITS_CHOICE

    def prepared(self, slots: Sequence[int]) -> Product:
        return type(self)(self.problem, self.arrays, slots)

    copy = prepared

    def on(self, stream: Any = 0) -> None:
        self(handle_of(stream), ())

    def __call__(self, queue: int, addresses: Sequence[int]) -> None:
        self.move(addresses)
        self.go_to(queue)
        self.again(self.launch())

    def move(self, addresses: Sequence[int]) -> None:
        for pointer, its in zip(self.pointers, self.arrays):
            pointer.value = addresses[its.slot] if addresses else address_of(its)

    def go_to(self, queue: int) -> None:
        self.queue = queue

    def launch(self) -> int:
        space = self.pointers[3].value
        return self.cublas.multiply(self.function, self.queue, space, *self.given)

    def again(self, status: int) -> None:
        if status:
            raise RuntimeError(f"cuBLAS does not multiply: its status is {status}")


def launches(p: Any, a: Array, b: Array, bias: Array | None, residual: Array | None, out: Array,
             **_: Any) -> list[Any]:  # fmt: skip
    """The product and, where there is an epilogue, the launch that finishes its sums."""
    sums = partial.workspace_for(1, out) if any(p.epilogue) else out
    behind = partial.launches(sums, bias, residual, out, p.epilogue[0]) if sums is not out else []
    return [Product(p, (b, a, sums, workspace(SPACE, np.uint8))), *behind]


def refusal(p: Any) -> str:
    """Why a problem cannot be handed over; "" where it can."""
    if not min(p.rows, p.columns, p.depth):
        return "takes matrices that have elements"
    return "" if cublas() else "needs a GPU, and CuPy or PyTorch, which load cuBLAS"
