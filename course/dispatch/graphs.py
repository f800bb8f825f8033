"""CUDA graphs: launches that are captured once, and then all made by one call of the host.

CuPy captures the graphs, with launches of Numba, too, when they go to a stream of CuPy.

Source: NVIDIA, CUDA Driver API, "Stream Management", "Graph Management".
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
import warnings
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any

from course import backend
from warpsim.host import libcuda

Stream = Any  # of numba.cuda; 0 is the default stream


def capture_graph(stream: Any, queue: Callable[[], Any]) -> tuple[Any, Any]:
    """Capture what `queue` launches on a stream of CuPy, and on streams that join it, as a graph.

    Nothing runs meanwhile. Kernels must be compiled and loaded before; `queue` may neither wait for
    the GPU nor allocate its memory. Returned are a cupy.cuda.Graph and what `queue` returned.
    """
    stream.begin_capture()
    try:
        output = queue()
    except BaseException:
        with contextlib.suppress(Exception):  # the capture may have ended with the error
            stream.end_capture()
        raise
    return stream.end_capture(), output


class ReplayedGraph:
    """Launches that repeat in each call; from the second call on a graph, where CuPy works.

    All calls use the same memory, which must live as long as this object. The first call launches
    one by one, so that all kernels are compiled and loaded when the second one captures them.
    """

    def __init__(self) -> None:
        self.graph: Any = None
        self._origin: Any = None
        self._calls = 0

    def __call__(self, queue: Callable[[Stream], None]) -> None:
        """Do on the default stream what ``queue(stream)`` launches on a stream of numba.cuda."""
        self._calls += 1
        if self._calls == 2 and backend.gpu() is not None:
            self._capture(queue)
        if self.graph is None:
            queue(0)
        else:
            self.graph.launch(_cupy().cuda.Stream.null)

    def _capture(self, queue: Callable[[Stream], None]) -> None:
        cupy = _cupy()
        if cupy is None:
            return
        try:
            self._origin = cupy.cuda.Stream(non_blocking=True)
            stream = backend.cuda.external_stream(self._origin.ptr)
            graph, _ = capture_graph(self._origin, lambda: queue(stream))
            graph.upload(self._origin)
            self._origin.synchronize()
        except Exception as problem:  # slower, not wrong: launches work without a graph, too
            warnings.warn(
                f"launches are made one by one, a CUDA graph could not be captured: "
                f"{backend.one_line(problem)}",
                RuntimeWarning,
                stacklevel=3,
            )
            return
        self.graph = graph


def copied(source: Any, target: Any) -> bool:
    """Queue the copy of one contiguous device array to another of its size, where CuPy works.

    It takes the host a few microseconds; numba.cuda's `copy_to_device` takes many times as long.
    """
    cupy = _cupy() if backend.gpu() is not None else None
    if cupy is None or not (source.is_c_contiguous() and source.nbytes == target.nbytes):
        return False
    runtime = cupy.cuda.runtime
    addresses = (array.__cuda_array_interface__["data"][0] for array in (target, source))
    runtime.memcpyAsync(*addresses, source.nbytes, runtime.memcpyDeviceToDevice, 0)
    return True


def _cupy() -> ModuleType | None:
    module, _ = backend.array_module()
    return module if hasattr(module, "cuda") else None


# --- memory that belongs to a graph ---------------------------------------------------------------


def is_captured(stream: int) -> bool:
    """Whether what is launched on a stream goes into a graph that is being captured."""
    status = ctypes.c_int()
    libcuda.call("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(status))
    return status.value == 1


_kept: dict[int, Any] = {}
_given_up: deque[int] = deque()
_numbers = itertools.count(1)
_lock = threading.Lock()


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _give_up(number: int) -> None:
    """Called by the driver when no graph holds the memory any more; may not call the driver."""
    _given_up.append(number)


def keep_with_graph(stream: int, memory: Any) -> None:
    """Keep memory alive as long as the graph that is being captured on a stream, and its copies."""
    with _lock:
        while _given_up:
            _kept.pop(_given_up.popleft(), None)
    status, graph = ctypes.c_int(), ctypes.c_void_p()
    found = ctypes.byref(status), None, ctypes.byref(graph), None, None
    libcuda.call("cuStreamGetCaptureInfo_v2", ctypes.c_void_p(stream), *found)
    number, holder = next(_numbers), ctypes.c_void_p()
    with _lock:
        _kept[number] = memory
    libcuda.call(
        "cuUserObjectCreate", ctypes.byref(holder), ctypes.c_void_p(number), _give_up, 1, 1
    )
    libcuda.call("cuGraphRetainUserObject", graph, holder, 1, 1)
