"""Convolution and Linear: every step against float64, at awkward shapes; what is refused."""

import numpy as np
import pytest

from course import cuda, trace
from course.kernels.gemm import gemv as linears
from course_lessons.lesson13.digits import convolution as kernels
from course_lessons.lesson13.digits import network
from course_lessons.lesson13.digits.convolution import (
    LADDER,
    ConvolutionConfig,
    config_for,
    fused,
    fused_bytes,
)
from tests.course.kernels.launched import layered

#: Relative to the largest result: a float32 sum of up to 1,568 products in any order.
LIMIT = 2e-6
FUNCTIONS = {**network.FUNCTIONS, None: lambda x: x}
#: (images, inputs, rows, columns), outputs
SHAPES = (
    ((3, 1, 8, 8), 16),  # the digits' first layer, and the second
    ((2, 16, 4, 4), 32),
    ((1, 3, 5, 7), 17),  # odd rows and columns are dropped; one output beyond a group
    ((5, 2, 2, 3), 3),
    ((2, 7, 13, 3), 1),
    ((1, 1, 28, 28), 5),
    ((1, 4, 3, 66), 33),
)


def given(rng, shape, outputs):
    """Images, weights and biases."""
    x = rng.standard_normal(shape).astype(np.float32)
    weight = rng.standard_normal((outputs, shape[1], 3, 3)).astype(np.float32)
    return x, weight, rng.standard_normal(outputs).astype(np.float32)


def convolution(x, weight, bias, activation="relu", method="fused"):
    shape = len(x), len(weight), x.shape[2] // 2, x.shape[3] // 2
    return layered(LADDER, x, weight, bias, shape, activation, method)


def linear(x, weight, bias, activation=None, method="warp"):
    return layered(linears.LADDER, x, weight, bias, (len(x), len(weight)), activation, method)


def exact(x, weight, bias, activation):
    """The layer in float64."""
    wide = [array.astype(np.float64) for array in (x, weight, bias)]
    y = FUNCTIONS[activation](network.convolution(*wide))
    return network.pooling(y[:, :, : y.shape[2] // 2 * 2, : y.shape[3] // 2 * 2])


def assert_near(y, expected, limit=LIMIT):
    assert y.dtype == np.float32 and y.shape == expected.shape
    assert np.abs(y - expected).max() <= limit * np.abs(expected).max()


# --- right ---------------------------------------------------------------------------------------


def test_the_reference_is_the_formula_written_out(rng):
    x, weight, bias = given(rng, (2, 3, 4, 5), 2)
    y = network.convolution(*(array.astype(np.float64) for array in (x, weight, bias)))
    for image, output, row, column in np.ndindex(y.shape):
        total = float(bias[output])
        for channel, down, right in np.ndindex(3, 3, 3):
            r, c = row + down - 1, column + right - 1
            if 0 <= r < 4 and 0 <= c < 5:
                total += float(x[image, channel, r, c]) * float(
                    weight[output, channel, down, right]
                )
        assert y[image, output, row, column] == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(
    "shape",
    [
        ConvolutionConfig(1, 1),
        ConvolutionConfig(2, 8),
        ConvolutionConfig(32, 4),
        ConvolutionConfig(4, 3),
        ConvolutionConfig(64, 16),
    ],
)
def test_the_fused_kernel_is_right_in_other_shapes_of_blocks(shape, rng):
    x, weight, bias = given(rng, (2, 3, 10, 6), 11)
    expected = exact(x, weight, bias, "gelu")
    kernel = fused(kernels.function_of("gelu"), 3, 10, 6, shape)
    out = np.full((2, 11, 15), np.nan, np.float32)
    grid, block = (2, -(-11 // shape.outputs)), (shape.pixels, shape.outputs)
    kernel[grid, block](x.reshape(2, 180), weight.ravel(), bias, out)
    assert_near(out.reshape(expected.shape), expected)


def test_activation_and_pooling_do_not_change_places(rng):
    """GELU falls before it rises: of -0.7 and -3 it is larger at -3."""
    x = np.array([[[[-3.0, -0.7], [-0.7, -0.7]]]], np.float32)
    weight = np.zeros((1, 1, 3, 3), np.float32)
    weight[0, 0, 1, 1] = 1
    for name in ("gelu", "silu"):
        largest = FUNCTIONS[name](np.array([-3.0, -0.7])).max()
        turned = FUNCTIONS[name](np.array(-0.7))
        for method in LADDER:
            y = convolution(x, weight, np.zeros(1, np.float32), name, method=method)
            assert y.item() == pytest.approx(largest, rel=1e-5) and y.item() > turned + 0.02


# --- traced --------------------------------------------------------------------------------------

ERRORS = {"race", "out-of-bounds", "uninitialised-read", "barrier-divergence", "misaligned"}


def reports(launches):
    return [trace(its.kernel, its.grid, its.block, *its.arguments) for its in launches]


@pytest.mark.parametrize(("shape", "outputs"), SHAPES[:2])
def test_the_fused_layer_moves_each_byte_once_and_reads_without_bank_conflicts(shape, outputs, rng):
    x, weight, bias = given(rng, shape, outputs)
    there = [cuda.to_device(array) for array in (x, weight, bias)]
    out = cuda.device_array((shape[0], outputs, shape[2] // 2, shape[3] // 2), np.float32)
    (one,) = reports(LADDER.launches(*there, out, activation="relu", method="fused"))
    assert one.unique_bytes == x.nbytes + weight.nbytes + bias.nbytes + 4 * out.size
    assert one.total("shared", "load").conflicts == 0
    written = one.total("shared", "store")
    assert written.conflicts < 0.2 * written.requests
    stores = one.total("global", "store")
    assert stores.bytes == 4 * out.size and stores.sectors == stores.bytes // 32
    three = reports(LADDER.launches(*there, out, activation="relu", method="naive"))
    saved = sum(report.unique_bytes for report in three) - one.unique_bytes
    assert saved == 4 * 4 * 4 * out.size  # written, read and written, read: 4 numbers a result


def test_shared_memory_is_what_the_shape_says(rng):
    x, weight, bias = given(rng, (1, 3, 6, 8), 5)
    there = [cuda.to_device(array) for array in (x, weight, bias)]
    out = cuda.device_array((1, 5, 3, 4), np.float32)
    ((kernel, *_),) = LADDER.launches(*there, out, activation="relu", method="fused")
    assert kernel is fused(kernels.function_of("relu"), 3, 6, 8, config_for(6, 8))
    assert fused_bytes(3, 6, 8, config_for(6, 8)) == 4 * (3 * 8 * 12 + 16 * 27)


def test_what_is_no_activation_or_method_is_refused(rng):
    rows = *np.ones((2, 5, 5), np.float32), np.ones(5, np.float32)
    for of, (x, weight, bias) in ((convolution, given(rng, (2, 3, 4, 4), 6)), (linear, rows)):
        with pytest.raises(ValueError, match="no activation 'tanh': choose gelu"):
            of(x, weight, bias, "tanh")
        with pytest.raises(ValueError, match="no method 'fast': choose auto, naive, "):
            of(x, weight, bias, method="fast")


# --- Linear --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", linears.LADDER)
@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"),
    [(16, 128, 64), (5, 33, 10), (1, 1, 1), (7, 1568, 65), (4, 31, 8), (13, 64, 10)],
)
def test_linear_agrees_with_float64(method, rows, inputs, outputs, rng):
    x = rng.standard_normal((rows, inputs)).astype(np.float32)
    weight = rng.standard_normal((outputs, inputs)).astype(np.float32)
    bias = rng.standard_normal(outputs).astype(np.float32)
    expected = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    for activation, function in FUNCTIONS.items():
        out = linear(x, weight, bias, activation, method)
        assert np.abs(out - function(expected)).max() <= LIMIT * np.abs(expected).max()


def test_a_warp_reads_weights_side_by_side_and_naive_threads_do_not(rng):
    x = cuda.to_device(rng.standard_normal((8, 128)).astype(np.float32))
    weight = cuda.to_device(rng.standard_normal((64, 128)).astype(np.float32))
    bias, out = cuda.to_device(np.zeros(64, np.float32)), cuda.device_array((8, 64), np.float32)
    found = {
        method: reports(
            linears.LADDER.launches(x, weight, bias, out, activation="gelu", method=method)
        )
        for method in linears.LADDER
    }
    for report in found["naive"] + found["warp"]:
        assert not (ERRORS | {"float64"}) & {finding.kind for finding in report.findings}
    of_weights = {
        method: lines[lines.code.str.startswith("weight")]
        for method, lines in ((m, found[m][0].lines) for m in linears.LADDER)
    }
    for method, sectors in (("naive", 32), ("warp", 4)):
        its = of_weights[method]
        assert (its.sectors == sectors * its.requests).all()


def test_linear_propagates_nan_within_its_row(rng):
    x = rng.standard_normal((5, 40)).astype(np.float32)
    x[3, 39] = np.nan
    weight, bias = np.ones((9, 40), np.float32), np.zeros(9, np.float32)
    for method in linears.LADDER:
        y = linear(x, weight, bias, "relu", method=method)
        assert np.isnan(y[3]).all() and np.isfinite(np.delete(y, 3, 0)).all()
