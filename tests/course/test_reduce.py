"""Sums, maxima and softmax: every step is right at awkward lengths, and moves what it says."""

import numpy as np
import pytest

from course import cuda, trace
from course.compiler.facts import compiled
from course.kernels import reduce
from course.kernels.activation import activation
from course.kernels.reduce import KINDS, reduction
from course.kernels.softmax import forward
from tests.course.compiled_samples import needs_compiler

STORED = (np.float32, np.float16)
#: A float32 sum in a tree has about 20 roundings of 2^-24 on its way, more where a thread adds.
SUM_ERROR = 1e-6


def numbers(rng, *shape, dtype=np.float32):
    return rng.normal(0, 3, shape).astype(dtype)


def clean(report):
    """A trace's report, if it has no error finding."""
    assert not [str(finding) for finding in report.findings if finding.is_error]
    return report


def launch_of(call):
    """Kernel, grid and block of a configured kernel, the simulator's or numba.cuda's."""
    if hasattr(call, "dispatcher"):
        return call.dispatcher, call.griddim, call.blockdim
    return call.kernel, call.grid, call.block


class Foreign:
    """An array on the GPU of another library: it shows where it lies."""

    def __init__(self, values):
        self.there = cuda.to_device(values)
        self.shape, self.dtype, self.size = values.shape, values.dtype, values.size
        self.ndim, self.strides = values.ndim, values.strides
        self.__cuda_array_interface__ = self.there.__cuda_array_interface__


# ---------------------------------------------------------------------- sum and maximum
@pytest.mark.parametrize("method", reduce.LADDER)
def test_nan_and_infinity_reach_the_result(rng, method):
    for place in (0, 31, 700, 5000):
        x = numbers(rng, 5001)
        x[place] = np.nan
        for kind in KINDS:
            assert np.isnan(reduction(x, kind, method=method))
            assert np.isnan(reduction(np.copysign(x, -1), kind, method=method))
        x[place] = np.inf
        assert reduction(x, "max", method=method) == np.inf
        assert reduction(x, "sum", method=method) == np.inf
    assert reduction(np.full(777, -np.inf, np.float32), "max", method=method) == -np.inf


def test_the_last_block_leaves_its_counter_as_it_was_and_can_be_called_again(rng):
    x = cuda.to_device(numbers(rng, 50_000))
    out = cuda.device_array(1, np.float32)
    (launch,) = reduce.LADDER.launches(x, out, kind="sum")
    launch.on()
    first = out.copy_to_host()[0]
    launch.on()
    assert out.copy_to_host()[0] == first  # bit for bit: always added in the same order


def test_shuffles_leave_eight_stores_a_block_in_shared_memory_and_atomics_one_request_a_warp(rng):
    x, warps = numbers(rng, 1024), 1024 // 32
    kind, out = KINDS["sum"], np.zeros(1, np.float32)
    reports = {
        name: clean(trace(reduce.LADDER[name].make(kind), 4, 256, x, out))
        for name in ("atomics", "tree", "shuffles")
    }
    assert reports["atomics"].total("global", "atomic").requests == warps
    assert reports["tree"].total("global", "atomic").requests == 4
    assert reports["shuffles"].total("global", "atomic").requests == 4
    # the tree stores 8 warps' values a block, then those of 4, 2, and six times of 1 warp
    assert reports["tree"].total("shared", "store").requests == 4 * (8 + 4 + 2 + 6 * 1)
    assert reports["shuffles"].total("shared", "store").requests == 4 * 8


def test_wide_loads_ask_a_quarter_as_often(rng):
    config, kind = reduce.ReductionConfig(threads=64, accesses=2), KINDS["sum"]
    x, out = numbers(rng, 4 * config.tile), np.zeros(1, np.float32)
    requests = []
    for aligned in (True, False):
        report = clean(trace(reduce.several(kind, config, aligned), 4, 64, x, out))
        total = report.total("global", "load")
        requests.append(total.requests)
        assert total.sectors == x.nbytes / 32
    assert requests == [x.size // 128, x.size // 32]


def test_arrays_of_other_libraries_are_used_where_they_lie(rng):
    x = numbers(rng, 6, 52)
    given, out = Foreign(x), Foreign(np.full_like(x, np.nan))
    assert forward.softmax(given, out=out) is out
    assert_softmax(out.there.copy_to_host(), x)
    assert activation(given, "silu", out=out) is out
    exact = x.astype(np.float64)
    assert np.allclose(out.there.copy_to_host(), exact / (1 + np.exp(-exact)), atol=3e-7)
    place = Foreign(np.zeros(1, np.float32))
    assert reduction(given, "max", out=place) is place
    assert place.there.copy_to_host()[0] == x.max()


def test_the_sum_of_nothing_is_zero_and_its_maximum_an_error():
    nothing = np.empty((0, 5), np.float32)
    assert reduction(nothing) == 0
    with pytest.raises(ValueError, match="no elements"):
        reduction(nothing, "max")


@pytest.mark.parametrize("work", [reduction, forward.softmax])
def test_wrong_arrays_are_refused_with_what_to_do(work):
    with pytest.raises(TypeError, match="float64; it must hold float32, .* bfloat16: convert"):
        work(np.zeros(4))
    with pytest.raises(TypeError, match="int32"):
        work(np.zeros(4, np.int32))
    with pytest.raises(TypeError, match="x is list"):
        work([1.0, 2.0])
    with pytest.raises(ValueError, match="side by side"):
        work(cuda.to_device(np.zeros((4, 6), np.float32))[:, ::2])
    with pytest.raises(ValueError, match="out is float32 of shape"):
        work(np.zeros((2, 3), np.float32), out=np.zeros((3, 2), np.float32))
    with pytest.raises(ValueError, match="no method 'fast': choose"):
        work(np.zeros(4, np.float32), method="fast")


def test_an_unknown_reduction_is_refused():
    with pytest.raises(ValueError, match="no reduction 'mean': choose sum, max"):
        reduction(np.zeros(4, np.float32), "mean")


# ---------------------------------------------------------------------- softmax
SHAPES = [(1, 1), (3, 2), (9, 10), (5, 37), (3, 64), (2, 129), (3, 768), (2, 1023), (3, 5003)]
LONG = [(1, 16_385), (1, 32_768), (1, 32_771), (2, 65_536)]
#: Largest error relative to a row's largest result: a rounded exponent's; float16's rounding.
ERRORS = {np.float32: 5e-7, np.float16: 6e-4}


def exact_softmax(x):
    with np.errstate(all="ignore"):
        powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True).astype(np.float64))
        return powers / powers.sum(-1, keepdims=True)


def assert_softmax(y, x):
    right = exact_softmax(x)
    assert y.dtype == x.dtype
    error = np.abs(y - right) / right.max(-1, keepdims=True)
    assert error.max() <= ERRORS[x.dtype.type]


@pytest.mark.parametrize("shape", LONG)
def test_softmax_of_long_rows(rng, shape):
    x = numbers(rng, *shape)
    assert_softmax(forward.softmax(x), x)


@pytest.mark.parametrize("method", forward.LADDER)
def test_softmax_treats_nan_infinity_and_the_largest_numbers_as_pytorch_does(method):
    most = np.finfo(np.float32).max
    for columns in (5, 1029):
        x = np.zeros((8, columns), np.float32)
        x[0, 3], x[1, 2], x[2, :], x[3, 1:] = np.nan, np.inf, -np.inf, -np.inf
        x[4, :], x[5, 1], x[6, :], x[7, 4] = -most, most, most, 80
        y = forward.softmax(x, method=method)
        assert np.isnan(y[:3]).all()
        assert np.array_equal(y[3], np.eye(1, columns)[0])
        assert np.allclose(y[[4, 6]], 1 / columns, rtol=1e-6)
        assert np.array_equal(y[5], np.eye(1, columns, 1)[0])
        assert_softmax(y[7:], x[7:])


def test_registers_reads_whole_rows_once_and_writes_them_once(rng):
    x = numbers(rng, 4, 1536)
    kernel = forward.registers("float32", forward.config_for(1536), True)
    config = forward.config_for(1536)
    out = np.empty_like(x)
    report = clean(trace(kernel, 4 // config.rows, (config.row_threads, config.rows), x, out))
    assert report.total("global", "load").sectors == x.nbytes / 32
    assert report.total("global", "store").sectors == x.nbytes / 32
    assert report.unique_bytes == 2 * x.nbytes


def test_every_length_has_a_config_that_holds_it():
    for columns in range(1, forward.LONGEST[True] + 1):
        config = forward.config_for(columns)
        assert columns <= config.row_threads * config.accesses * forward.WIDE
        assert config.row_threads * config.rows % 32 == 0
        assert config.row_threads * config.rows <= 1024


# ---------------------------------------------------------------------- compiled
@needs_compiler
@pytest.mark.parametrize("aligned", [True, False])
def test_the_longest_rows_in_registers_leave_a_block_that_can_be_launched(aligned):
    longest = forward.LONGEST[aligned]
    kernel = forward.registers("float32", forward.config_for(longest), aligned)
    facts = compiled(kernel, "void(float32[:, :], float32[:, :])", "sm_90")
    assert facts.registers * forward.config_for(longest).row_threads <= 65_536
    assert facts.local_bytes == facts.spills == 0


@needs_compiler
def test_wide_loads_of_the_last_block_are_16_bytes_and_its_arrays_in_registers():
    kernel = reduce.last_block(KINDS["sum"], reduce.CONFIGS["sm_90"], True)
    facts = compiled(kernel, "void(float32[::1], float32[::1], uint32[::1], float32[::1])", "sm_90")
    assert facts.load_widths["global"]["v4.f32"] == reduce.CONFIGS["sm_90"].accesses
    assert facts.local_bytes == 0
