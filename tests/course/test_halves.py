"""Products of float16 and bfloat16, simulated: layouts, shapes, epilogues, what is refused."""

import math

import numpy as np
import pytest

from course import backend, cuda, trace
from course.door.bfloat import BFLOAT16
from course.kernels.halves import products, roles, split
from course.kernels.halves.products import SIDES, Shape, fastest, product
from course.kernels.matmul import matmul
from course.kernels.tensor_maps import TensorMap
from warpsim.front.bfloat import rounded, widened
from warpsim.host import gpus

ERRORS = {"race", "out-of-bounds", "uninitialised-read", "barrier-divergence", "deadlock"}
TMA = ("roles", "split")
STEPS = tuple(products.STEPS)
#: Half of the last place: of float16's 11 bits, of bfloat16's 8.
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


@pytest.fixture(autouse=True)
def simulated_h200(monkeypatch):
    """The GPU that has all instructions."""
    monkeypatch.setattr(gpus, "_chosen", None)
    if backend.gpu() is None:
        backend.simulate("H200")


def stored(values, element):
    """Numbers as an array of halves, and what it holds, in float64."""
    if element == "float16":
        halves = np.asarray(values, np.float16)
        return halves, halves.astype(float)
    bits = np.asarray(rounded(np.asarray(values, np.float32)))
    return bits.view(BFLOAT16), widened(bits).astype(float)


def numbers(array):
    return (widened(array.view(np.uint16)) if array.dtype == BFLOAT16 else array).astype(float)


def given(rows, columns, depth, layout, element, seed=5):
    rng = np.random.default_rng(seed)
    sizes = {"r": rows, "c": columns, "k": depth}
    pairs = [stored(rng.standard_normal([sizes[s] for s in side]), element)
             for side in SIDES[layout]]  # fmt: skip
    (a, exact_a), (b, exact_b) = pairs
    exact_a = exact_a.T if layout == "tn" else exact_a
    exact_b = exact_b.T if layout == "nt" else exact_b
    return a, b, exact_a, exact_b


def near(found, exact, a, b, element):
    """Rounded once, and float32's error of the sum."""
    bound = ROUNDING[element] * np.abs(exact) + 2.0**-20 * (np.abs(a) @ np.abs(b)) + 1e-7
    return (np.abs(numbers(found) - exact) <= bound).all()


@pytest.mark.parametrize("element", ROUNDING)
@pytest.mark.parametrize("layout", SIDES)
@pytest.mark.parametrize(
    ("method", "size"),
    [("plain", (131, 70, 200)), ("plain", (5, 3, 7)), ("plain", (1, 136, 64))]
    + [(method, size) for method in TMA for size in ((72, 136, 200), (8, 8, 8), (200, 72, 192))],
)
def test_products_are_float64s_rounded_once(method, size, layout, element):
    a, b, exact_a, exact_b = given(*size, layout, element)
    found = product(a, b, layout, method=method)
    assert found.shape == size[:2] and found.dtype == a.dtype
    assert near(found, exact_a @ exact_b, exact_a, exact_b, element)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("size", [(72, 136, 200), (8, 8, 8), (136, 264, 328)])
def test_steps_of_the_ladder_are_right_and_without_a_finding(step, size):
    a, b, exact_a, exact_b = given(*size, "nt", "float16")
    out = cuda.to_device(np.full(size[:2], np.nan, np.float16))
    arrays = cuda.to_device(a), cuda.to_device(b), out
    kernel, grid, threads, shared, arguments = products.STEPS[step].launch(*arrays, 2)
    report = trace(kernel, grid, threads, *arguments, dynamic_shared=shared, gpu="H200")
    assert not ERRORS & {finding.kind for finding in report.findings}
    assert near(out.copy_to_host(), exact_a @ exact_b, exact_a, exact_b, "float16")


@pytest.mark.parametrize("step", STEPS)
def test_steps_of_the_ladder_go_through_the_door_and_refuse_what_they_do_not_have(step):
    a = np.ones((8, 8), np.float16)
    assert (product(a, a, "nt", method=step) == 8).all()
    for options in ({"layout": "nn"}, {"activation": "gelu"}, {"residual": a}):
        with pytest.raises(ValueError, match=f"'{step}', a step of the ladder, takes float16"):
            product(a, a, **{"layout": "nt", **options}, method=step)


@pytest.mark.parametrize("method", ("plain", *TMA))
def test_bias_activation_and_residual_come_in_this_order(method):
    a, b, exact_a, exact_b = given(72, 40, 64, "nt", "float16")
    rng = np.random.default_rng(1)
    bias, residual = (rng.standard_normal(s).astype(np.float16) for s in (40, (72, 40)))
    found = product(a, b, "nt", bias, "gelu", residual, method=method)
    x = exact_a @ exact_b + bias.astype(float)
    exact = x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2 + residual.astype(float)
    assert near(found, exact, exact_a, exact_b, "float16")


@pytest.mark.parametrize("method", TMA)
def test_a_residual_that_is_the_result_is_added_once_also_where_tiles_end_beyond(method):
    a, b, exact_a, exact_b = given(72, 136, 64, "nt", "float16")
    out = cuda.to_device(np.full((72, 136), 8, np.float16))
    product(cuda.to_device(a), cuda.to_device(b), "nt", residual=out, out=out, method=method)
    assert near(out.copy_to_host(), exact_a @ exact_b + 8, exact_a, exact_b, "float16")


@pytest.mark.parametrize("added", ["", "residual", "in place"])
@pytest.mark.parametrize("shape", [Shape(2, 256, 3), Shape(2, 192, 2), Shape(1, 112, 2, 2)])
@pytest.mark.parametrize("depth", [200, 64])
def test_blocks_that_take_tile_after_tile_are_without_a_finding(shape, added, depth):
    layout = "nt" if shape.columns % 64 else "nn"  # pieces of 64 columns
    rows, columns = 2 * shape.rows - 5, 2 * shape.columns - 8
    a, b, exact_a, exact_b = given(rows, columns, depth, layout, "float16")
    residual = np.random.default_rng(3).standard_normal((rows, columns)).astype(np.float16)
    other = cuda.to_device(residual if added else np.full_like(residual, np.nan))
    out = other if added == "in place" else cuda.to_device(np.full_like(residual, np.nan))
    a, b = cuda.to_device(a), cuda.to_device(b)
    box = shape.columns if layout == "nt" else 64
    maps = TensorMap(a, shape.rows, 64), TensorMap(b, box, 64), TensorMap(out, 64, 64)
    kernel = roles.product(layout, "float16", shape._replace(added=bool(added)))
    sizes = (np.int32(n) for n in (rows, columns, depth, 2))
    arguments = *maps, TensorMap(other, 64, 64), out.reshape(out.size), *sizes
    size = shape._replace(added=bool(added)).shared
    report = trace(kernel, 1, shape.threads, *arguments, dynamic_shared=size, gpu="H200")
    assert not ERRORS & {finding.kind for finding in report.findings}
    exact = exact_a @ exact_b + (residual.astype(float) if added else 0)
    assert near(out.copy_to_host(), exact, exact_a, exact_b, "float16")


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("shape", "splits"), [
    (Shape(2, 160, 2, 1), 2), (Shape(1, 112, 2, 1), 4), (Shape(2, 64, 3, 1), 4),
    (Shape(1, 192, 2, 1), 2),
])  # fmt: skip
def test_blocks_that_share_a_tile_are_without_a_finding(shape, splits, in_place):
    layout = "nt" if shape.columns % 64 else "tn"
    rows, columns, depth = 2 * shape.rows - 8, shape.columns + 8, 64 * 2 * splits + 72
    a, b, exact_a, exact_b = given(rows, columns, depth, layout, "float16")
    residual = np.random.default_rng(3).standard_normal((rows, columns)).astype(np.float16)
    out = cuda.to_device(residual if in_place else np.full_like(residual, np.nan))
    boxes = (
        (64 if layout == "tn" else shape.rows, 64), (64 if layout == "tn" else shape.columns, 64),
        (16, 64), (16, 64),
    )  # fmt: skip
    maps = [
        TensorMap(cuda.to_device(x) if x is not out else x, *box)
        for x, box in zip((a, b, out, out), boxes, strict=True)
    ]
    shape = shape._replace(added=in_place)
    kernel = split.product(layout, "float16", shape, splits)
    sizes = (np.int32(n) for n in (rows, columns, depth))
    report = trace(kernel, (splits, 2, 2), shape.threads, *maps, out.reshape(out.size), *sizes,
                   dynamic_shared=split.shared_bytes(shape, splits), gpu="H200")  # fmt: skip
    assert not ERRORS & {finding.kind for finding in report.findings}
    exact = exact_a @ exact_b + (residual.astype(float) if in_place else 0)
    assert near(out.copy_to_host(), exact, exact_a, exact_b, "float16")


def test_matmul_takes_halves_and_a_turing_gpu_multiplies_float16(monkeypatch):
    a, b, exact_a, exact_b = given(40, 24, 72, "nn", "float16")
    assert near(matmul(a, b), exact_a @ exact_b, exact_a, exact_b, "float16")
    if backend.gpu() is None:
        backend.simulate("T4")
        assert near(matmul(a, b), exact_a @ exact_b, exact_a, exact_b, "float16")
        with pytest.raises(ValueError, match="bfloat16 need compute capability 8.0"):
            matmul(*given(8, 8, 8, "nn", "bfloat16")[:2])
        with pytest.raises(ValueError, match="'roles' needs compute capability 9.0"):
            matmul(a, b, method="roles")


@pytest.mark.skipif(backend.gpu() is not None, reason="names a GPU that is not there")
def test_an_older_numba_cuda_is_refused_in_one_sentence_and_auto_does_without(monkeypatch):
    a = np.ones((8, 8), np.float16)
    installed = backend.installed_version
    monkeypatch.setattr(
        backend, "installed_version", lambda it: "0.29.1" if it == "numba-cuda" else installed(it)
    )
    monkeypatch.setattr(products.launching.backend, "gpu", lambda: "H200")
    arrays = [cuda.to_device(a) for _ in range(3)]
    with pytest.raises(ValueError, match="'roles' needs numba-cuda 0.30, which compiles"):
        products.launches(*arrays[:2], None, None, arrays[2], method="roles")
    assert products.why_not(*arrays).startswith("needs numba-cuda 0.30")


def test_memory_that_begins_anywhere_is_multiplied_element_by_element():
    flat = np.random.default_rng(2).standard_normal(1 + 24 * 40).astype(np.float16)
    a = cuda.to_device(flat)[1:].reshape(24, 40)
    b = cuda.to_device(flat[: 40 * 16].reshape(40, 16))
    exact_a, exact_b = a.copy_to_host().astype(float), b.copy_to_host().astype(float)
    found = product(a, b).copy_to_host()
    assert near(found, exact_a @ exact_b, exact_a, exact_b, "float16")
    with pytest.raises(ValueError, match="multiples of 16 bytes"):
        product(a, b, method="split")


def test_a_product_takes_the_tile_that_fills_the_last_wave():
    few, eight, many = (fastest("nt", rows, 768, 768, 132)[0] for rows in (197, 1576, 12608))
    assert (few.rows, few.columns, few.turns) == (64, 64, 1)
    assert (eight.rows, eight.columns, eight.turns) == (64, 160, 1)  # 125 tiles
    assert (many.rows, many.columns, many.turns) == (128, 192, 3)  # 396 tiles: three waves
    assert fastest("nt", 197, 768, 3072, 132) == (Shape(1, 64, 8, 1), 2)  # 48 tiles
    assert fastest("nt", 1576, 768, 3072, 132) == (Shape(1, 160, 8, 1), 1)  # 125 tiles
    assert fastest("nt", 4096, 4096, 4096, 132) == (Shape(2, 256, 3), 1)
    assert all(fastest("nn", rows, 760, 768, 132)[0].columns % 64 == 0 for rows in (8, 197, 5000))


def test_no_depth_gives_zeros_and_no_rows_nothing():
    none = np.zeros((3, 0), np.float16)
    assert not product(none, np.zeros((0, 8), np.float16)).any()
    assert product(none.T, np.zeros((3, 8), np.float16)).shape == (0, 8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a: product(a, a.astype(np.float32)), "a and b must both hold"),
        (lambda a: product(a, a[:4]), "their depths must be the same"),
        (lambda a: product(a, a, bias=np.zeros(7, np.float16)), r"bias has the shape \(7,\)"),
        (lambda a: product(a, a, activation="relu"), "no activation 'relu'"),
        (lambda a: product(a, a, method="mma"), "no method 'mma'"),
        (lambda a: product(a[0], a), "two axes"),
    ],
)
def test_refusals_name_what_was_given(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call(np.ones((8, 8), np.float16))


@pytest.mark.parametrize(
    ("array", "box", "words"),
    [
        (np.ones((8, 12), np.float16), (8, 64), "multiples of 16 bytes"),
        (np.ones((8, 64), np.float16), (8, 32), "rows of 128 bytes"),
        (np.ones((8, 64), np.float16), (257, 64), "at most 256"),
        (np.ones(64, np.float16), (8, 64), "a matrix of"),
        (np.ones((8, 64)), (8, 64), "float64"),
    ],
)
def test_maps_of_what_tma_does_not_take_are_refused(array, box, words):
    with pytest.raises(ValueError, match=words):
        TensorMap(cuda.to_device(array), *box)
