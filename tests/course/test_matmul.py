"""Products of matrices in every layout and by every step, a layer's bias, and what is refused."""

import numpy as np
import pytest

from course import backend, cuda, trace
from course.kernels import linear
from course.kernels import matmul as kernels
from course.kernels.matmul import LADDER, LAYOUTS, TENSOR, MatmulProblem, matmul
from course.kernels.tensor_products import (
    MOST_WARPS,
    REGISTERS,
    SHARED,
    SMALL,
    Cut,
    cut_of,
    product_of,
)
from course.kernels.transpose import transpose
from tests.course.launched import launched
from warpsim.host import gpus

ERRORS = {"race", "out-of-bounds", "uninitialised-read", "barrier-divergence"}
PLAIN = [method for method in LADDER if method not in TENSOR]


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


def test_long_sums_of_equal_numbers_do_not_drift():
    depth = 1 << 14
    a = np.full((1, depth), 0.1, np.float32)
    exact = float(np.float32(0.1)) ** 2 * depth
    errors = {m: abs(float(matmul(a, a, "nt", method=m)[0, 0]) / exact - 1) for m in PLAIN}
    assert errors["vectorised"] < 2e-5 and 4 * errors["vectorised"] < errors["naive"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_wrong_and_padding_parts_the_banks(layout):
    a, b = given(68, 68, 36, layout)
    wavefronts = {}
    for name in PLAIN:
        arrays = (*map(cuda.to_device, (a, b)), cuda.to_device(np.full((68, 68), np.nan, "f4")))
        (its,) = LADDER.launches(*arrays, layout=layout, method=name)
        report = trace(its.kernel, its.grid, its.block, *its.arguments)
        assert not ERRORS & {finding.kind for finding in report.findings}
        assert not report.operations["float64"]
        assert np.abs(arrays[-1].copy_to_host() - right(a, b, layout)).max() < 1e-4
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
        (added,) = launched(kernels.bias_launches, (x, bias), [x.shape])
        assert np.array_equal(added, x + bias)
        (total,) = launched(kernels.sum_launches, (x,), [bias.shape])
        assert np.abs(total - x.sum(axis=0, dtype=float)).max() < 2e-5
    (total,) = launched(kernels.sum_launches, (np.zeros((0, 3), np.float32),), [3])
    assert np.array_equal(total, np.zeros(3))
    at = cuda.to_device(x)  # in place
    (launch,) = kernels.bias_launches(at, cuda.to_device(bias), at)
    launch.on()
    assert np.array_equal(at.copy_to_host(), x + bias)


# --- tensor cores ---------------------------------------------------------------------------------

#: Rows, columns, depth: multiples of four, of which few are multiples of a tile's or of 16.
FOURS = [(4, 4, 4), (20, 36, 52), (128, 44, 100), (64, 64, 32), (36, 132, 260), (128, 200, 400)]
#: Of 3xTF32 21 bits of a factor are kept, of TF32 11.
ERRORS_OF = {"tensor_cores": 1e-6, "tensor_cores_tf32": 2e-3}
simulated = pytest.mark.skipif(backend.gpu() is not None, reason="chooses a simulated GPU")


@pytest.fixture
def hopper(monkeypatch):
    """A simulated H200, where no GPU is."""
    monkeypatch.setattr(gpus, "_chosen", gpus.find("H200"))


def there(*arrays):
    return tuple(map(cuda.to_device, arrays))


def relative(found, exact):
    return np.linalg.norm(found - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize("method", TENSOR)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", FOURS)
def test_products_on_tensor_cores_are_those_of_float64(hopper, method, layout, size):
    a, b = given(*size, layout)
    out = cuda.to_device(np.full(size[:2], np.nan, np.float32))
    found = matmul(*there(a, b), layout, out, method).copy_to_host()
    exact, bound = right(a, b, layout), right(np.abs(a), np.abs(b), layout)
    assert relative(found, exact) <= ERRORS_OF[method]
    units = 2.0**15 if TENSOR[method] == "tf32" else size[2] / 16 + 32
    assert (np.abs(found - exact) <= units * 2.0**-24 * bound).all()


@pytest.mark.parametrize("cut", [Cut((2, 4), 3, 1), Cut((2, 4), 2, 2), Cut((2, 4), 1, 9)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_cut_is_right(hopper, layout, cut):
    """Also where rounds are left over, and where a warp has none."""
    size = 68, 100, 132
    a, b = given(*size, layout)
    kernel, grid, block = product_of(layout, *size, "tf32x3", cut)
    out = cuda.to_device(np.full(size[0] * size[1], np.nan, np.float32))
    kernel[grid, block](*there(a.reshape(-1), b.reshape(-1)), out)
    assert relative(out.copy_to_host().reshape(size[:2]), right(a, b, layout)) <= 1e-6


@simulated
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensor_cores_have_no_race_and_write_nothing_beside(hopper, layout):
    size = 36, 68, 100
    a, b = given(*size, layout)
    guarded = np.full((size[0] + 2, size[1]), 7, np.float32)
    kernel, grid, block = product_of(layout, *size, "tf32x3")
    out = guarded[1:-1].reshape(-1)
    report = trace(kernel, grid, block, a.reshape(-1), b.reshape(-1), out)
    assert {finding.kind for finding in report.findings} <= {"bank-conflict"}, report.findings
    assert not report.operations["float64"]
    assert relative(guarded[1:-1], right(a, b, layout)) <= 1e-6
    assert (guarded[[0, -1]] == 7).all()


@simulated
@pytest.mark.parametrize("layout", LAYOUTS)
def test_wide_tiles_have_no_bank_conflicts(hopper, layout):
    """Tiles of 16 columns have, in "nt": half of the loads of their sums."""
    cut = Cut((2, 4) if layout == "tn" else (1, 4), 2, 2)
    kernel, grid, block = product_of(layout, 64, 64, 64, "tf32x3", cut)
    arrays = (np.ones(64 * 64, np.float32) for _ in range(3))
    assert not trace(kernel, grid, block, *arrays).findings


def test_cuts_fit_a_block_and_the_models_fill_a_gpu():
    rng = np.random.default_rng(2)
    sizes = [(4096,) * 3, (4, 4, 2**20), *(4 * rng.integers(1, 1000, (200, 3))).tolist()]
    for layout in LAYOUTS:
        for rows, columns, depth in sizes:
            cut = cut_of(layout, rows, columns, depth)
            assert cut.threads <= 32 * MOST_WARPS
            assert -(-cut.threads // 128) * 32 * cut.registers <= REGISTERS // 4  # of a quarter
            high, wide = 16 * cut.fragments[0], 8 * cut.fragments[1]
            assert 4 * cut.warps * high * (wide + 8) <= SHARED and min(cut[1:]) >= 1
    for layout, *size in (("nt", 128, 400, 784), ("nn", 128, 200, 400), ("tn", 400, 400, 128)):
        assert product_of(layout, *size, "tf32x3")[1] >= 90


@simulated
def test_without_a_method_small_products_go_to_tensor_cores_where_they_can(hopper, monkeypatch):
    def chosen(rows, columns, depth, begin=0):
        numbers = cuda.to_device(np.zeros(begin + rows * depth, np.float32))
        a = numbers[begin:].reshape(rows, depth)
        arrays = a, *there(np.zeros((depth, columns), "f4"), np.zeros((rows, columns), "f4"))
        return LADDER.choose("auto", MatmulProblem.of(*arrays, "nn"))[0]

    assert chosen(64, 64, 32) == "tensor_cores"
    assert {chosen(63, 64, 32), chosen(64, 64, 32, begin=1), chosen(64, 64, 0)} == {"vectorised"}
    assert chosen(4, SMALL, 4) == "vectorised"
    a, b = given(64, 48, 32, "nn")
    assert np.array_equal(matmul(a, b), matmul(a, b, method="tensor_cores"))
    monkeypatch.setattr(gpus, "_chosen", gpus.find("T4"))
    assert chosen(64, 64, 32) == "vectorised"
    assert np.array_equal(matmul(a, b), matmul(a, b, method="vectorised"))


@simulated
@pytest.mark.parametrize("method", TENSOR)
def test_what_tensor_cores_cannot_have_is_refused_with_a_way_out(hopper, monkeypatch, method):
    def refused(words, a, b):
        with pytest.raises(ValueError, match=f"'{method}' of matmul needs {words}.*'vectorised'$"):
            matmul(a, b, method=method)

    a, b = given(8, 8, 8, "nn")
    refused("rows, columns and depth to be multiples of four, and they are 7, 8 and 8", a[:7], b)
    refused("rows, columns and depth .* 8, 6 and 8", a, b[:, :6].copy())
    refused("rows, columns and depth .* 8, 8 and 0", a[:, :0], b[:0])
    numbers = cuda.to_device(np.zeros(65, np.float32))
    refused("memory that begins at multiples of 16 bytes", numbers[1:].reshape(8, 8), *there(b))
    monkeypatch.setattr(gpus, "_chosen", gpus.find("T4"))
    refused(r"compute capability 8\.0, and this GPU has 7\.5", a, b)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_not_a_number_stays_in_its_row_on_tensor_cores(hopper, layout):
    a, b = given(36, 68, 52, layout)
    its = a.T if LAYOUTS[layout][0] else a
    its[3, 5], its[35, 48] = np.nan, np.inf
    for method in TENSOR:
        found = matmul(*there(a, b), layout, method=method).copy_to_host()
        assert not np.isfinite(found[[3, 35]]).any()
        assert np.isfinite(np.delete(found, (3, 35), axis=0)).all()


def test_tensor_cores_make_no_rows_of_none(hopper):
    none = np.zeros((0, 4), np.float32)
    assert matmul(none, np.ones((4, 8), np.float32), method="tensor_cores").shape == (0, 8)


@pytest.mark.parametrize("method", ["naive", "padded", "vectorised"])
def test_more_rows_than_a_grid_has_blocks_for_are_refused(method):
    high = {"naive": 8, "padded": 32, "vectorised": 64}[method]
    a = np.ones((65_535 * high + 1, 1), np.float32)
    with pytest.raises(ValueError, match=f"has {len(a):,} rows, and one launch at most"):
        matmul(a, a[:1], method=method)
    if method != "vectorised":
        with pytest.raises(ValueError, match=f"image has {len(a):,} rows"):
            transpose(a, method=method)
    if method == "naive":
        with pytest.raises(ValueError, match="x has 524,281 rows, and one launch at most 524,280"):
            kernels.bias_launches(a, a[0], a)
        for step in linear.LADDER:
            with pytest.raises(ValueError, match="x has 524,281 rows"):
                linear.LADDER.launches(a, a[:1], a[0], a, activation=None, method=step)
