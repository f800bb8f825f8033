"""The softmax's gradient is right at awkward lengths, in place, and moves what it says."""

import numpy as np
import pytest

from course import cuda, trace
from course.compiler.facts import compiled
from course.kernels.softmax import backward as back
from course.kernels.softmax.backward import softmax_backward
from course.kernels.softmax.forward import config_for
from tests.course.compiled_samples import needs_compiler

SHAPES = [(1, 1), (3, 2), (9, 10), (5, 37), (3, 64), (2, 129), (3, 768), (2, 1023), (3, 4999)]
LONG = [(1, 8192), (1, 8193), (1, 16_384), (1, 16_385), (2, 65_536)]
STORED = (np.float32, np.float16)
#: Relative to the largest term of a row, y * (|dy| + sum |dy * y|): a few roundings.
ERRORS = {np.float32: 5e-7, np.float16: 6e-4}


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def pair(rng, *shape, dtype=np.float32):
    """A gradient, and a result of a softmax."""
    return rng.normal(0, 1, shape).astype(dtype), softmax(rng.normal(0, 3, shape)).astype(dtype)


def exact(dy, y):
    dy, y = dy.astype(np.float64), y.astype(np.float64)
    return y * (dy - (dy * y).sum(-1, keepdims=True))


def assert_right(dx, dy, y):
    assert dx.dtype == dy.dtype and dx.shape == dy.shape
    wide = np.abs(dy.astype(np.float64)), y.astype(np.float64)
    terms = (wide[1] * (wide[0] + (wide[0] * wide[1]).sum(-1, keepdims=True))).max(-1)
    error = np.abs(dx - exact(dy, y)).max(-1)
    assert (error <= ERRORS[dy.dtype.type] * terms).all()


def test_the_reference_is_the_slope(rng):
    x, dy = rng.standard_normal((2, 6)), rng.standard_normal((2, 6))
    dx, step = exact(dy, softmax(x)), 1e-6
    for place in np.ndindex(2, 6):
        moved = np.zeros((2, 6))
        moved[place] = step
        change = (dy * (softmax(x + moved) - softmax(x - moved))).sum() / (2 * step)
        assert change == pytest.approx(dx[place], abs=1e-8)


@pytest.mark.parametrize("shape", LONG)
def test_gradients_of_long_rows(rng, shape):
    dy, y = pair(rng, *shape)
    assert_right(softmax_backward(dy, y), dy, y)


def test_an_infinite_neighbour_beyond_the_end_counts_for_nothing(rng):
    dy, y = pair(rng, 3, 40)
    dy[:, 37:] = y[:, 37:] = np.nan
    there = [cuda.to_device(array)[:, :37] for array in (dy, y)]
    dx = softmax_backward(*there).copy_to_host()
    assert_right(dx, dy[:, :37], y[:, :37])


def test_whole_rows_are_read_and_written_once_in_wide_accesses(rng):
    dy, y = pair(rng, 4, 1024)
    config = config_for(1024, back.MOST_ACCESSES["float32"])
    kernel = back.backward_in_registers("float32", config, True)
    grid = 4 // config.rows, (config.row_threads, config.rows)
    report = trace(kernel, *grid, dy, y, np.empty_like(dy))
    assert report.total("global", "load").bytes == 2 * dy.nbytes
    assert report.total("global", "load").requests == 2 * dy.nbytes / 512
    assert report.total("global", "store").requests == dy.nbytes / 512


def test_what_is_wrong_is_said():
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(TypeError, match="dy holds float64"):
        softmax_backward(x.astype(np.float64), x)
    with pytest.raises(TypeError, match="y is list"):
        softmax_backward(x, [1.0])
    with pytest.raises(ValueError, match="y is float32 of shape"):
        softmax_backward(x, x.T)
    with pytest.raises(ValueError, match="y is float16"):
        softmax_backward(x, x.astype(np.float16))
    with pytest.raises(ValueError, match="out is float32 of shape"):
        softmax_backward(x, x, out=x[:1])
    with pytest.raises(ValueError, match="no axis"):
        softmax_backward(x[0, 0:1].reshape(()), x[0, 0:1].reshape(()))
    with pytest.raises(ValueError, match="no method 'fast': choose auto, two passes, registers"):
        softmax_backward(x, x, method="fast")
    with pytest.raises(ValueError, match="side by side"):
        softmax_backward(*[cuda.to_device(np.zeros((4, 6), np.float32))[:, ::2]] * 2)


@needs_compiler
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize("aligned", [True, False])
def test_the_longest_rows_in_registers_leave_a_block_that_can_be_launched(aligned, target):
    config = config_for(back.LONGEST[aligned], back.MOST_ACCESSES["float32"])
    kernel = back.backward_in_registers("float32", config, aligned)
    facts = compiled(kernel, f"void({', '.join(['float32[:, :]'] * 3)})", target)
    assert facts.registers * config.row_threads <= 65_536
    assert facts.local_bytes == facts.spills == 0
