"""The host side of the simulator: arrays, streams, events, devices, ufuncs, reductions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import float32

from warpsim import cuda, trace
from warpsim.host import gpus
from warpsim.run import kernel, launch


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


def test_host_arrays_are_copied_in_and_back():
    x = np.arange(5, dtype=np.float32)
    double[1, 32](x)
    assert list(x) == [0, 2, 4, 6, 8]


def test_parts_of_arrays_come_back_where_they_belong():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    double[1, 32](x[1])
    assert x.tolist() == [[0, 1, 2, 3], [8, 10, 12, 14], [8, 9, 10, 11]]


def test_host_arrays_with_gaps_are_refused_as_in_numba():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with pytest.raises(ValueError, match="'x' is not contiguous.*ascontiguousarray"):
        double[1, 32](x[:, 1])
    with pytest.raises(ValueError, match="not contiguous"):
        cuda.to_device(x[:, ::2])
    d = cuda.to_device(x)
    double[1, 32](d[:, 1])
    assert d.copy_to_host().tolist() == [[0, 2, 2, 3], [4, 10, 6, 7], [8, 18, 10, 11]]


def test_device_arrays_stay_on_the_device():
    x = np.arange(5, dtype=np.float32)
    d = cuda.to_device(x)
    double[1, 32](d)
    assert list(x) == [0, 1, 2, 3, 4]
    assert list(d.copy_to_host()) == [0, 2, 4, 6, 8]
    out = np.empty(5, np.float32)
    assert d.copy_to_host(out) is out and out[4] == 8
    d.copy_to_device(x)
    assert list(d.copy_to_host()) == [0, 1, 2, 3, 4]


def test_device_array_properties_and_views():
    d = cuda.to_device(np.arange(12, dtype=np.int32).reshape(3, 4))
    assert (d.shape, d.ndim, d.size, d.nbytes, d.dtype) == ((3, 4), 2, 12, 48, np.int32)
    assert d.strides == (16, 4)
    assert d[1].copy_to_host().tolist() == [4, 5, 6, 7]
    assert d[2, 3] == 11
    assert d.reshape(4, 3).shape == (4, 3)
    assert d.T.copy_to_host().shape == (4, 3)
    d[0] = cuda.to_device(np.zeros(4, np.int32))
    assert d.ravel().copy_to_host()[:5].tolist() == [0, 0, 0, 0, 4]
    row = d[1]
    double[1, 32](row)
    assert d.copy_to_host()[1].tolist() == [8, 10, 12, 14]


def test_unset_device_arrays_are_poisoned():
    assert np.isnan(cuda.device_array(3, np.float32).copy_to_host()).all()
    like = cuda.device_array_like(np.zeros((2, 3), np.int16, order="F"))
    assert like.copy_to_host().tolist() == [[32767] * 3] * 2
    assert like.flags == {"C_CONTIGUOUS": False, "F_CONTIGUOUS": True}


def test_mismatched_copies_are_refused():
    d = cuda.device_array(3, np.float32)
    with pytest.raises(ValueError, match="incompatible shape"):
        d.copy_to_host(np.zeros(4, np.float32))
    with pytest.raises(TypeError, match="incompatible dtype"):
        d.copy_to_device(np.zeros(3))


def test_mapped_and_pinned_arrays_are_used_by_kernels():
    mapped = cuda.mapped_array(4, np.float32)
    mapped[:] = 1
    double[1, 32](mapped)
    assert list(mapped) == [2, 2, 2, 2]
    pinned = cuda.pinned_array((2, 2), np.float32)
    pinned[:] = 3
    with cuda.pinned(pinned):
        double[1, 32](pinned.reshape(-1))
    assert pinned.tolist() == [[6, 6], [6, 6]]


def test_in_is_not_copied_back():
    x, y = np.ones(3, np.float32), np.ones(3, np.float32)
    double[1, 32](cuda.In(x))
    double[1, 32](cuda.InOut(y))
    assert x.tolist() == [1, 1, 1] and y.tolist() == [2, 2, 2]


def test_streams_and_events_do_everything_in_order():
    stream = cuda.stream()
    start, end = cuda.event(), cuda.event()
    with stream.auto_synchronize():
        d = cuda.to_device(np.ones(4, np.float32), stream=stream)
        start.record(stream)
        double[1, 32, stream](d)
        end.record(stream)
    end.synchronize()
    stream.synchronize()
    cuda.synchronize()
    assert end.query() and d.copy_to_host(stream=stream).tolist() == [2, 2, 2, 2]
    with pytest.raises(RuntimeError, match="course.benchmark"):
        cuda.event_elapsed_time(start, end)


def test_the_simulated_device_has_a_t4s_properties_unless_told_otherwise(monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", None)
    monkeypatch.delenv("COURSE_SIMULATED_GPU", raising=False)
    device = cuda.get_current_device()
    assert device.compute_capability == (7, 5)
    assert device.MULTIPROCESSOR_COUNT == 40 and device.WARP_SIZE == 32
    assert len(cuda.gpus) == 1 and cuda.gpus[0].name == "Tesla T4 (simulated)"
    cuda.simulate("h200")
    assert cuda.get_current_device().compute_capability == (9, 0)
    monkeypatch.setattr(gpus, "_chosen", None)
    monkeypatch.setenv("COURSE_SIMULATED_GPU", "A100")
    assert cuda.current_context().device.MULTIPROCESSOR_COUNT == 108
    free, total = cuda.current_context().get_memory_info()
    assert free == total > 2**36


def test_forall_covers_all_tasks():
    x = np.ones(1000, np.float32)
    double.forall(1000)(x)
    assert (x == 2).all()
    double.forall(0)(np.empty(0, np.float32))


def test_f_order_and_reversed_arrays_work():
    x = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))

    @cuda.jit
    def number(x):
        i, j = cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            x[i, j] = 10 * i + j

    number[1, (4, 4)](x)
    assert x.tolist() == [[0, 1, 2], [10, 11, 12]]
    y = cuda.to_device(np.arange(4, dtype=np.float32))
    double[1, 32](y[:1:-1])
    assert y.copy_to_host().tolist() == [0, 1, 4, 6]


def test_empty_arrays_are_no_problem():
    double[1, 32](np.empty(0, np.float32))


def test_closures_and_globals_are_frozen_when_the_kernel_is_first_launched():
    factor = 3

    @cuda.jit
    def scale(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= factor

    x = np.ones(2, np.float32)
    scale[1, 32](x)
    factor = 5
    scale[1, 32](x)
    assert x.tolist() == [9, 9]


def test_a_kernel_runs_in_chunks_as_in_one_piece(monkeypatch):
    x, y = np.ones(5000, np.float32), np.ones(5000, np.float32)
    double[50, 100](x)
    monkeypatch.setattr(launch, "CHUNK_LANES", 256)
    double[50, 100](y)
    assert np.array_equal(x, y) and (x == 2).all()


def test_the_lane_program_can_be_read():
    text = double.lane_program(np.ones(3, np.float32))
    assert text.startswith("def double(T, x):") and "control.split(i < x.size)" in text


def test_jit_takes_all_options_and_refuses_what_is_no_function():
    cuda.jit(fastmath=True, lineinfo=True, max_registers=32, cache=False)(lambda x: None)
    assert cuda.jit(double).py_func is double.py_func
    with pytest.raises(TypeError, match="takes a function written with def, not a int"):
        cuda.jit()(3)
    assert isinstance(double, kernel.Kernel) and "kernel double" in repr(double)


# ---------------------------------------------------------------------- ufuncs, reductions
@cuda.vectorize(["float32(float32, float32)", "float64(float64, float64)"])
def hypotenuse(a, b):
    return math.sqrt(a * a + b * b)


@pytest.mark.parametrize("size", [1, 127, 128, 129, 40_000])
def test_vectorize_works_on_arrays_of_any_length(size):
    a, b = np.random.default_rng(size).random((2, size), dtype=np.float32)
    result = hypotenuse(a, b)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, np.hypot(a, b), rtol=1e-6)


def test_vectorize_broadcasts_chooses_types_and_keeps_device_arrays():
    a = np.random.default_rng(0).random((3, 1))
    b = np.arange(4.0).reshape(1, 4)
    np.testing.assert_allclose(hypotenuse(a, b), np.hypot(a, b), rtol=1e-12)
    with pytest.raises(ValueError, match="its first element for all"):  # on a GPU, without a word
        hypotenuse(a, b.ravel())
    d = hypotenuse(cuda.to_device(a.astype(np.float32)), cuda.to_device(a.astype(np.float32)))
    assert isinstance(d, cuda.DeviceNDArray) and d.shape == (3, 1)
    out = cuda.device_array((3, 4))
    assert hypotenuse(a, b, out=out) is out
    with pytest.raises(AssertionError, match="only if it has one dimension"):  # as in Numba
        hypotenuse(a, b, out=np.empty((3, 4)))
    with pytest.raises(TypeError, match="No matching signature"):
        hypotenuse(a)
    with pytest.raises(TypeError, match="exact types"):  # as on a GPU
        hypotenuse(a.astype(np.int32), b)
    np.testing.assert_allclose(hypotenuse(a, 2), np.hypot(a, 2), rtol=1e-12)
    with pytest.raises(TypeError, match="needs signatures"):
        cuda.vectorize(lambda a: a)


def test_vectorize_with_branches():
    @cuda.vectorize(["int32(float32)"])
    def sign(x):
        if x > 0:
            return 1
        if x < 0:
            return -1
        return 0

    assert sign(np.array([-2, 0, 3], np.float32)).tolist() == [-1, 0, 1]


def test_guvectorize_works_on_rows_and_matrices():
    @cuda.guvectorize(["void(float32[:,:], float32[:], float32[:])"], "(m,n),(n)->(m)")
    def multiply(matrix, vector, out):
        for i in range(matrix.shape[0]):
            total = float32(0)
            for j in range(matrix.shape[1]):
                total += matrix[i, j] * vector[j]
            out[i] = total

    rng = np.random.default_rng(0)
    matrices, vectors = rng.random((300, 3, 5), np.float32), rng.random((300, 5), np.float32)
    wanted = np.einsum("bmn,bn->bm", matrices, vectors)
    np.testing.assert_allclose(multiply(matrices, vectors), wanted, rtol=1e-5)
    same = np.einsum("bmn,n->bm", matrices, vectors[0])
    np.testing.assert_allclose(multiply(matrices, vectors[0]), same, rtol=1e-5)
    device = multiply(cuda.to_device(matrices), cuda.to_device(vectors))
    assert isinstance(device, cuda.DeviceNDArray) and device.shape == (300, 3)
    with pytest.raises(ValueError, match="does not fit"):
        multiply(matrices, vectors[:, :4])
    with pytest.raises(NameError, match="undefined output symbols: m"):
        cuda.guvectorize(["void(float32[:], float32[:])"], "(n)->(m)")(lambda a, b: None)


def test_guvectorize_with_a_scalar_in_and_out():
    @cuda.guvectorize(["void(float64[:], float64, float64[:])"], "(n),()->()")
    def above(x, limit, out):
        count = 0
        for v in x:
            if v > limit:
                count += 1
        out[0] = count

    x = np.random.default_rng(1).random((40, 7))
    assert above(x, 0.5).tolist() == (x > 0.5).sum(1).tolist()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000, 1023])
def test_reduce(size):
    @cuda.reduce
    def total(a, b):
        return a + b

    x = np.arange(size, dtype=np.float64)
    assert total(x) == x.sum()
    assert total(x, init=5) == x.sum() + 5
    assert total(cuda.to_device(x)) == x.sum()
    if size:
        biggest = cuda.Reduce(lambda_free_maximum)
        assert biggest(x, init=-1) == size - 1
        result = cuda.device_array(1, np.float64)
        assert total(x, size=1, res=result) is None and result.copy_to_host()[0] == 0


def lambda_free_maximum(a, b):
    return max(a, b)


# ---------------------------------------------------------------------- the trace's contract
@pytest.mark.parametrize(
    ("rows_on_x", "load_sectors", "store_sectors"), [(True, 18_432, 2_048), (False, 5_120, 512)]
)
def test_counts_equal_the_hardware_counters_of_an_h200(rows_on_x, load_sectors, store_sectors):
    @cuda.jit
    def traced(u, s, vt, out, k):
        i, j = cuda.grid(2) if rows_on_x else cuda.grid(2)[::-1]
        if i < out.shape[0] and j < out.shape[1]:
            t = float32(0)
            for q in range(k):
                t += u[i, q] * s[q] * vt[q, j]
            out[i, j] = t

    rng = np.random.default_rng(0)
    u, s, vt = rng.random((64, 8)), rng.random(8), rng.random((8, 64))
    u, s, vt = (x.astype(np.float32) for x in (u, s, vt))
    out = np.zeros((64, 64), np.float32)
    report = trace(traced, (4, 4), (16, 16), u, s, vt, out, 8)
    loads, stores = report.total("global", "load"), report.total("global", "store")
    assert (loads.requests, loads.sectors) == (3_072, load_sectors)
    assert (stores.requests, stores.sectors) == (128, store_sectors)
    assert report.operations["float32"] == 64 * 64 * 8 * 3
    assert report.operations["float64"] == 0
    assert report.unique_bytes == (64 * 8 + 8 + 8 * 64 + 64 * 64) * 4
    np.testing.assert_allclose(out, (u * s) @ vt, rtol=1e-5)
    lines = report.lines
    assert list(lines.line) == [6, 6, 6, 7]
    assert set(lines.array) == {"u", "s", "vt", "out"}
    with pytest.raises(ValueError, match="global, shared, local"):
        report.total("texture", "load")


def test_a_float64_literal_is_found_with_its_line():
    @cuda.jit
    def original(x, out):
        total = 0.0
        for i in range(x.size):
            total += x[i]
        out[0] = total

    report = trace(original, 1, 1, np.ones(10, np.float32), np.zeros(1, np.float32))
    (finding,) = [f for f in report.findings if f.kind == "float64"]
    assert finding.line == 4 and finding.code == "total += x[i]"
    assert "10 float64 operations" in finding.message
    assert report.operations["float64"] == 10


@pytest.mark.parametrize(("stride", "wavefronts"), [(1, 1), (2, 2), (8, 8), (32, 32), (33, 1)])
def test_bank_conflicts_are_counted(stride, wavefronts):
    @cuda.jit
    def strided(out, stride):
        tile = cuda.shared.array(1056, float32)
        t = cuda.threadIdx.x
        for i in range(t, 1056, 32):
            tile[i] = i
        cuda.syncthreads()
        out[t] = tile[t * stride]

    report = trace(strided, 1, 32, np.zeros(32, np.float32), stride)
    loads = report.total("shared", "load")
    assert (loads.requests, loads.wavefronts) == (1, wavefronts)
    assert loads.conflicts == wavefronts - 1
    assert ("bank-conflict" in {f.kind for f in report.findings}) == (wavefronts >= 2)


def test_findings_in_a_device_function_name_it_and_its_line():
    @cuda.jit(device=True)
    def grey(red):
        weight = 0.3
        return weight * red

    @cuda.jit
    def convert(x, out):
        i = cuda.grid(1)
        out[i] = grey(x[i])

    report = trace(convert, 1, 32, np.ones(32, np.float32), np.zeros(32, np.float32))
    (finding,) = [f for f in report.findings if f.kind == "float64"]
    assert finding.line == 3 and finding.code == "return weight * red"
    assert "[in grey]" in finding.message


def test_arithmetic_of_constants_is_the_compilers():
    window = 5

    @cuda.jit
    def mean(x, out):
        i = cuda.grid(1)
        out[i] = x[i] * float32(1 / window)

    report = trace(mean, 1, 32, np.ones(32, np.float32), np.zeros(32, np.float32))
    assert report.operations["float64"] == 0 and report.operations["float32"] == 32
    assert not report.findings


@pytest.mark.parametrize(("span", "both"), [(1, 4), (16, 4), (32, 0), (64, 0)])
def test_warps_that_take_both_sides_are_counted(span, both):
    @cuda.jit
    def sides(out, span):
        i = cuda.grid(1)
        if i // span % 2 == 0:
            out[i] = 1
        else:
            out[i] = 2

    report = trace(sides, 2, 64, np.zeros(128, np.float32), span)
    found = [f for f in report.findings if f.kind == "divergence"]
    assert len(found) == (both > 0)
    if found:
        assert found[0].line == 3 and found[0].code == "if i // span % 2 == 0:"
        assert f"{both} of 4 times" in found[0].message


def test_of_several_signatures_the_fitting_one_is_taken():
    @cuda.jit(["(float64[:], float32)", "(float64[:], float64)"])
    def keep(out, x):
        out[0] = x

    out = np.zeros(1)
    keep[1, 1](out, 1.0000000298)
    assert out[0] == 1.0000000298
    keep[1, 1](out, np.float32(0.1))
    assert out[0] == np.float32(0.1)


def test_a_device_functions_signature_converts():
    @cuda.jit("int32(int32, int32)", device=True)
    def add(a, b):
        return a + b

    @cuda.jit
    def kernel(out):
        out[0] = add(1.5, 2.5)

    out = np.zeros(1)
    kernel[1, 1](out)
    assert out[0] == 3


def test_functions_with_two_results_and_rounding_to_decimals():
    @cuda.jit
    def parts(x, out):
        i = cuda.grid(1)
        fraction, exponent = math.frexp(x[i])
        out[0, i], out[1, i] = fraction, exponent
        fraction, whole = math.modf(x[i])
        out[2, i], out[3, i] = fraction, whole
        out[4, i] = round(x[i], 3)

    x = np.array([0.3425, 5.75, -2.25, 1e-3], np.float32)
    out = np.zeros((5, 4))
    parts[1, 4](x, out)
    for i, value in enumerate(x):
        assert tuple(out[:2, i]) == math.frexp(value)
        assert tuple(out[2:4, i]) == math.modf(value)
    np.testing.assert_allclose(out[4], [0.343, 5.75, -2.25, 0.001], rtol=1e-6)
