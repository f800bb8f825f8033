"""Numba's warnings and settings, streams that are waited for, what a kernel tells of itself."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numba import int32, types
from numba.core.errors import NumbaInvalidConfigWarning, NumbaPerformanceWarning

from warpsim import cuda, redirect, trace
from warpsim.core import settings
from warpsim.host import device

config = pytest.importorskip("numba.cuda.core.config")


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


class Foreign:
    """An array of another library: only its interface is known."""

    def __init__(self, array):
        self.owner, self.__cuda_array_interface__ = array, array.__cuda_array_interface__


@pytest.fixture
def waited(monkeypatch):
    """The handles of the streams that are waited for."""
    seen = []
    monkeypatch.setattr(device.Stream, "synchronize", lambda self: seen.append(self.handle))
    return seen


# ---------------------------------------------------------------------- warnings
def test_few_blocks_are_told_where_numba_tells_them(monkeypatch):
    monkeypatch.setattr(config, "CUDA_LOW_OCCUPANCY_WARNINGS", 1)
    with pytest.warns(NumbaPerformanceWarning, match="Grid size 127 .* low occupancy") as told:
        double[127, 32](cuda.to_device(np.ones(3)))
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        double[(64, 2), 32](cuda.to_device(np.ones(3)))
        trace(double, 1, 32, np.ones(3))
        monkeypatch.setattr(config, "DISABLE_PERFORMANCE_WARNINGS", 1, raising=False)
        double[1, 32]


def test_arrays_of_the_host_are_told_at_a_launch(monkeypatch):
    monkeypatch.setattr(config, "CUDA_WARN_ON_IMPLICIT_COPY", 1)
    for array in (np.ones(3), cuda.pinned_array(3)):
        with pytest.warns(NumbaPerformanceWarning, match="copy overhead to/from device") as told:
            double[1, 32](array)
        assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for array in (cuda.to_device(np.ones(3)), cuda.mapped_array(3), cuda.In(np.ones(3))):
            double[1, 32](array)


def test_debug_with_optimisation_is_told():
    with pytest.warns(NumbaInvalidConfigWarning, match="not supported by CUDA"):
        cuda.jit(debug=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cuda.jit(debug=True, opt=False)
        cuda.jit(opt=True)


def test_a_quiet_time_ends_and_the_environment_comes_first(monkeypatch):
    monkeypatch.setattr(config, "CUDA_LOW_OCCUPANCY_WARNINGS", 1)
    with settings.quiet():
        assert config.CUDA_LOW_OCCUPANCY_WARNINGS == 0
    assert config.CUDA_LOW_OCCUPANCY_WARNINGS == 1
    monkeypatch.setenv("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "1")
    with settings.quiet():
        assert config.CUDA_LOW_OCCUPANCY_WARNINGS == 1


# ---------------------------------------------------------------------- streams, memory
def test_setting_elements_waits_unless_there_is_a_stream(waited):
    array = cuda.to_device(np.arange(5))
    array[0] = 10
    assert waited == [0] and array[0] == 10
    array.setitem(1, 11, stream=cuda.stream())
    cuda.to_device(np.arange(5), stream=cuda.stream())[0] = 1
    assert waited == [0]


def test_the_stream_of_another_librarys_array_is_waited_for(waited, monkeypatch):
    stream = cuda.stream()
    array = Foreign(cuda.to_device(np.ones(3), stream=stream))
    cuda.as_cuda_array(array)
    double[1, 32](array)
    assert waited == [stream.handle] * 2
    cuda.as_cuda_array(array, sync=False)
    double[1, 32](Foreign(cuda.to_device(np.ones(3))))
    monkeypatch.setattr(config, "CUDA_ARRAY_INTERFACE_SYNC", 0)
    double[1, 32](array)
    assert len(waited) == 2


def test_memory_that_nobody_has_waits_for_its_deallocation():
    queue = cuda.current_context().memory_manager.deallocations
    queue.clear()
    array = cuda.to_device(np.arange(100))
    same = cuda.as_cuda_array(array)
    part = array[3:]
    del array, same
    assert len(queue) == 0 and part.copy_to_host()[0] == 3
    del part
    assert len(queue) == 1
    queue.clear()
    assert len(queue) == 0


def test_a_broadcast_array_takes_no_more_memory_on_the_device():
    array = cuda.to_device(np.broadcast_to(np.arange(3.0), (4, 3)))
    assert array.strides == (0, 8) and array._numba_type_.layout == "A"
    np.testing.assert_array_equal(array.copy_to_host(), [[0, 1, 2]] * 4)


# ---------------------------------------------------------------------- kernels
def test_signatures_are_those_that_were_met():
    kernel = cuda.jit(lambda x, n: None)
    assert kernel.signatures == []
    kernel[1, 1](np.ones(2, np.float32), 1)
    assert kernel.signatures == [(types.Array(types.float32, 1, "C"), types.int64)]
    assert kernel.get_max_threads_per_block() == {kernel.signatures[0]: 1024}
    assert kernel.get_max_threads_per_block(kernel.signatures[0]) == 1024


def test_a_kernel_of_a_kernel_is_the_function_anew():
    again = cuda.jit(double)
    x = np.ones(2)
    again[1, 32](x)
    assert again is not double and list(x) == [2, 2]


def test_an_overload_tells_the_types_of_variables():
    @cuda.jit(types.void(int32[::1]))
    def kernel(x):
        kept = cuda.local.array(10, dtype="int32")
        kept[0] = x[0]
        half = x[0] / 2
        x[0] = kept[0] + half

    (overload,) = kernel.overloads.values()
    array = types.Array(types.int32, 1, "C")
    assert overload._type_annotation.typemap == {"x": array, "kept": array, "half": types.float64}
    with pytest.raises(RuntimeError, match=r"overloads\[...\].typemap"):
        kernel.inspect_types()


# ---------------------------------------------------------------------- modules
def test_a_program_finds_the_classes_of_the_drivers_modules():
    with redirect.redirected():
        namespace: dict = {}
        exec(
            "from numba import cuda\n"
            "from numba.cuda.cudadrv.devicearray import verify_cuda_ndarray_interface as verify\n"
            "from numba.cuda.cudadrv.driver import Stream\n"
            "array = cuda.to_device([1, 2])\n"
            "verify(array)\n"
            "found = isinstance(array, cuda.cudadrv.devicearray.DeviceNDArray)\n"
            "stream = isinstance(cuda.stream(), Stream)\n",
            namespace,
        )
    assert namespace["found"] and namespace["stream"]
    with pytest.raises(ValueError, match="require an cuda ndarray object"):
        namespace["verify"](np.ones(2))
