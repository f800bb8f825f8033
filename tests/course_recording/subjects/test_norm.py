"""The bench of LayerNorm times right programs, with what they are given, and judges them."""

import types

import numpy as np
import pytest

from course import gpu
from course.backend import cuda
from course.heuristics.norm import REGISTERS_AND_SHARED
from course.kernels.norm.backward import BACKWARD
from course.kernels.norm.ladder import LADDER, prepared
from course.kernels.steps import shared_memory_limit
from course_recording.frame import WrongResult
from course_recording.peers import cuda_cpp
from course_recording.subjects import norm as bench_norm
from course_recording.subjects import norm_lengths
from tests.course.kernels.cases import norm as case
from tests.course_recording.untimed import Untimed
from warpsim.host import gpus

STEPS = [name for name in LADDER if name not in (REGISTERS_AND_SHARED, "half", "clusters")]


def exact(x, gamma, beta, activation=None):
    """The definition, in float64."""
    arrays = {"x": x.astype(np.float64), "gamma": gamma, "beta": beta}
    return case.right(arrays, bench_norm.EPS, activation)[0].values


def assert_close(result, expected):
    assert np.all(np.abs(result - expected) <= 2e-6 * np.maximum(1, np.abs(expected)))


@pytest.mark.slow
def test_the_bench_times_right_programs(monkeypatch):
    monkeypatch.setattr(bench_norm, "SHAPES", ((9, 40),))
    monkeypatch.setattr(bench_norm, "ORIGINAL", (3, 1028))
    monkeypatch.setattr(norm_lengths, "LENGTHS", (9, 300))
    monkeypatch.setattr(norm_lengths, "NUMBERS", 900)
    frame = Untimed()
    bench_norm.run(frame)
    norm_lengths.run(frame)
    measured = frame.measured()
    for name in ("layer norm", "layer norm + gelu"):
        assert all((name, method, "9x40", "float32") in measured for method in STEPS)
        kept = (name, REGISTERS_AND_SHARED, "9x40", "float32") in measured
        assert kept == shared_memory_limit()[1]
    assert (
        f"{REGISTERS_AND_SHARED} left out: it needs compute capability 8.0" in frame.notes
    ) != shared_memory_limit()[1]
    assert ("layer norm + gelu", "auto", "9x40", "float16") in measured
    assert ("layer norm + gelu", "auto", "3x300", "float32") in measured
    assert all(("layer norm backward", m, "9x40", "float32") in measured for m in BACKWARD)


@pytest.mark.skipif(gpu() is not None, reason="chooses the simulated GPU")
def test_the_bench_times_a_step_of_two_launches_with_what_it_is_given(monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", gpus.find("H200"))
    frame = Untimed()
    data = bench_norm.inputs(frame, 2, 8193)
    given = tuple(cuda.to_device(array) for array in data)
    given += np.float32(bench_norm.EPS), cuda.to_device(np.empty_like(data[0]))
    # four copies of gamma and beta, and rows that begin anywhere
    assert len(prepared(*given, REGISTERS_AND_SHARED, "gelu")) == 2
    bench_norm.ours(frame, data, "gelu", (REGISTERS_AND_SHARED,), exact(*data, "gelu"))
    assert [row.variant for row in frame.rows] == [REGISTERS_AND_SHARED]


@pytest.mark.parametrize("activation", [None, "gelu"])
def test_the_bench_writes_where_pytorch_writes_too_and_judges_what_is_there(activation):
    frame, made = Untimed(), []

    def empty(shape, dtype, device):
        assert (dtype, device) == ("its float32", "cuda")
        made.append(cuda.to_device(np.full(shape, np.nan, np.float32)))
        return made[-1]

    torch = types.SimpleNamespace(
        empty=empty,
        empty_like=lambda like: empty(like.shape, "its float32", "cuda"),
        float32="its float32",
    )
    frame.peer = lambda name: torch if name == "torch" else None
    data = bench_norm.inputs(frame, 9, 40)
    expected = exact(*data, activation)
    bench_norm.ours(frame, data, activation, ("block", "registers"), expected)
    name = "layer norm" if activation is None else "layer norm + gelu"
    said = [row.variant for row in frame.rows]
    assert said == ["block", "registers", "registers, in PyTorch's memory"]
    assert frame.measured()[-1] == (name, said[-1], "9x40", "float32")
    assert_close(made[-1].copy_to_host(), expected)  # a new array for the call, and it is written
    there = [cuda.to_device(array) for array in data]
    arguments = (*there, np.float32(bench_norm.EPS), cuda.to_device(data[0]))
    work = bench_norm.work_of(data, activation)[1]
    with pytest.raises(WrongResult):
        bench_norm.in_torch_memory(
            frame, torch, (name, "registers"), arguments, expected + 1e-3, work
        )


def test_the_bench_leaves_small_work_in_its_own_memory(monkeypatch):
    monkeypatch.setattr(bench_norm, "ORIGINAL", (9, 40))
    frame = Untimed()
    frame.peer = lambda name: types.SimpleNamespace()  # it has nothing to call
    data = bench_norm.inputs(frame, 9, 40)
    bench_norm.ours(frame, data, None, ("registers",), exact(*data))
    assert [row.variant for row in frame.rows] == ["registers"]


def test_the_cuda_kernel_is_left_out_where_its_registers_are_too_many(rng):
    frame = Untimed()
    data = [np.zeros((1, 65_536), np.float32), *np.zeros((2, 65_536), np.float32)]
    kernel = types.SimpleNamespace(num_regs=72)
    cupy = types.SimpleNamespace(RawKernel=lambda *source: kernel)  # it has nothing to launch
    bench_norm.cuda_cpp(frame, cupy, data, True, "layer norm + gelu", {})
    (note,) = frame.notes
    assert "left out at rows of 65536: 72 registers for each of 1,024 threads" in note


def test_the_cuda_kernel_covers_the_row():
    for columns in (4, 128, 768, 4096, 16_384, 65_536):
        threads, parts = cuda_cpp.launch_shape(columns)
        assert threads * parts * 4 >= columns and threads % 32 == 0
    assert cuda_cpp.launch_shape(1023) is None
    assert cuda_cpp.launch_shape(65_540) is None
