"""Products of matrices in every layout and by every step, a layer's bias, and what is refused."""

import numpy as np
import pytest

from course import cuda, trace
from course.kernels import matmul as kernels
from course.kernels.matmul import LADDER, LAYOUTS, add_bias, bias_gradient, matmul

ERRORS = {"race", "out-of-bounds", "uninitialised-read", "barrier-divergence"}
#: Rows, columns, depth: whole tiles, parts of them, one number, wide enough for 16 bytes or not.
SIZES = [(64, 64, 32), (1, 1, 1), (33, 65, 17), (68, 36, 20), (7, 130, 100), (130, 4, 3)]


def given(rows, columns, depth, layout, seed=3):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((rows, depth)), rng.standard_normal((depth, columns))
    turned = [its.T if turn else its for its, turn in zip((a, b), LAYOUTS[layout], strict=True)]
    a, b = (np.ascontiguousarray(its, np.float32) for its in turned)
    return a, b


def right(a, b, layout):
    turn_a, turn_b = LAYOUTS[layout]
    a, b = a.astype(float), b.astype(float)
    return (a.T if turn_a else a) @ (b.T if turn_b else b)


@pytest.mark.parametrize("method", LADDER)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", SIZES)
def test_products_are_those_of_float64(method, layout, size):
    a, b = given(*size, layout)
    found = matmul(a, b, layout, method=method)
    assert found.shape == size[:2] and found.dtype == np.float32
    units = size[2] / 16 + 16 if method == "vectorised" else size[2]
    bound = (units + 1) * 2.0**-24 * right(np.abs(a), np.abs(b), layout)
    assert (np.abs(found - right(a, b, layout)) <= bound).all()


@pytest.mark.parametrize("method", LADDER)
def test_factors_that_begin_anywhere_and_a_place_for_the_result(method):
    rng = np.random.default_rng(1)
    numbers = rng.standard_normal(1 + 32 * 40).astype(np.float32)
    a = cuda.to_device(numbers)[1:].reshape(32, 40)  # 4 bytes past a multiple of 16
    b = cuda.to_device(rng.standard_normal((40, 48)).astype(np.float32))
    out = cuda.device_array((32, 48), np.float32)
    assert matmul(a, b, out=out, method=method) is out
    wanted = right(a.copy_to_host(), b.copy_to_host(), "nn")
    assert np.abs(out.copy_to_host() - wanted).max() < 1e-5


@pytest.mark.parametrize("method", LADDER)
def test_no_depth_is_zero_and_no_rows_is_empty(method):
    empty = np.zeros((5, 0), np.float32)
    assert np.array_equal(matmul(empty, empty, "nt", method=method), np.zeros((5, 5)))
    rows = matmul(np.zeros((0, 3), np.float32), np.ones((3, 4), np.float32), method=method)
    assert rows.shape == (0, 4)


def test_what_is_not_a_number_stays_in_its_row():
    a, b = given(40, 70, 33, "nn")
    a[3, 5], a[39, 32] = np.nan, np.inf
    for method in LADDER:
        found = matmul(a, b, method=method)
        assert np.isnan(found[3]).all() and not np.isfinite(found[39]).any()
        assert np.isfinite(np.delete(found, (3, 39), axis=0)).all()


def test_long_sums_of_equal_numbers_do_not_drift():
    depth = 1 << 14
    a = np.full((1, depth), 0.1, np.float32)
    exact = float(np.float32(0.1)) ** 2 * depth
    errors = {m: abs(float(matmul(a, a, "nt", method=m)[0, 0]) / exact - 1) for m in LADDER}
    assert errors["vectorised"] < 2e-5 and 4 * errors["vectorised"] < errors["naive"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_wrong_and_padding_parts_the_banks(layout):
    a, b = given(68, 68, 36, layout)
    wavefronts = {}
    for name in LADDER:
        arrays = (*map(cuda.to_device, (a, b)), cuda.to_device(np.full((68, 68), np.nan, "f4")))
        ((call, arguments),) = kernels.launches(*arrays, layout, name)
        arguments = [its.copy_to_host() for its in arguments]
        kernel = {
            "naive": kernels.naive(layout),
            "tiled": kernels.tiled(layout),
            "padded": kernels.tiled(layout, 1),
            "vectorised": kernels.vectorised(layout),
        }[name]
        tile = {"naive": (32, 8), "vectorised": (64, 64)}.get(name, (32, 32))
        block = {"naive": (32, 8), "vectorised": 128}.get(name, (32, 8))
        grid = -(-68 // tile[0]), -(-68 // tile[1])
        report = trace(kernel, grid, block, *arguments)
        assert not ERRORS & {finding.kind for finding in report.findings}
        assert not report.operations["float64"]
        assert np.abs(arguments[-1] - right(a, b, layout)).max() < 1e-4
        wavefronts[name] = report.total("shared", "store").wavefronts
    if layout == "nn":
        assert wavefronts["tiled"] == wavefronts["padded"]
    else:  # one of two tiles is written down a column: 32 wavefronts and 1 instead of 1 and 1
        assert 2 * wavefronts["tiled"] == 33 * wavefronts["padded"]


def test_the_bias_is_added_to_each_row_and_its_gradient_is_their_sum():
    rng = np.random.default_rng(5)
    for rows, columns in ((128, 400), (1, 1), (9, 33), (31, 70)):
        x = rng.standard_normal((rows, columns)).astype(np.float32)
        bias = rng.standard_normal(columns).astype(np.float32)
        assert np.array_equal(add_bias(x, bias), x + bias)
        assert np.abs(bias_gradient(x) - x.sum(axis=0, dtype=float)).max() < 2e-5
    assert np.array_equal(bias_gradient(np.zeros((0, 3), np.float32)), np.zeros(3))
    at = cuda.to_device(x)
    assert add_bias(at, cuda.to_device(bias), out=at) is at
    assert np.array_equal(at.copy_to_host(), x + bias)


@pytest.mark.parametrize(
    "arrays, options, kind, words",
    [
        ((np.ones((2, 3)), np.ones((3, 2), "f4")), {}, TypeError, "a holds float64"),
        ((np.ones((2, 3), "f4"),) * 2, {}, ValueError, r"in the layout 'nn' .* 3 and 2 must be"),
        ((np.ones((2, 3), "f4"), np.ones((2, 3), "f4")), {"layout": "tt"}, ValueError, "no layout"),
        ((np.ones((2, 2), "f4"),) * 2, {"method": "fast"}, ValueError, "no method 'fast'"),
        ((np.ones(3, "f4"), np.ones((3, 2), "f4")), {}, ValueError, r"a has the shape \(3,\)"),
        ((np.ones((2, 2), "f4"), None), {}, TypeError, "b is None"),
    ],
)
def test_what_does_not_fit_is_refused(arrays, options, kind, words):
    with pytest.raises(kind, match=words):
        matmul(*arrays, **options)


def test_a_bias_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"bias has the shape \(2,\); for x's it must be \(3,\)"):
        add_bias(np.ones((2, 3), np.float32), np.ones(2, np.float32))
