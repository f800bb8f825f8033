"""Small products on tensor cores; factors cut in two: rounded, and by no compiler joined again."""

import re

import numpy as np
import pytest

from course import backend, cuda, trace
from course.compiler.facts import compiled
from course.heuristics.small_gemm import MOST_WARPS, REGISTERS, SHARED, Cut, cut_of
from course.kernels.gemm.float32 import LADDER, LAYOUTS, TENSOR, MatmulProblem, matmul
from course.kernels.gemm.small import SMALL, product_of
from course.kernels.gemm.small_tile import LEVEL, in_two, parts_of
from tests.course.compiled_samples import needs_compiler
from tests.course.kernels.gemm.factors import given, right
from warpsim.host import gpus

F4 = np.zeros(512, np.float32)


@cuda.jit(fastmath=True)
def halve(x, upper, rest):
    i = cuda.grid(1)
    upper[i], rest[i] = in_two(x[i])


def test_a_number_is_its_nearest_of_tf32_and_the_rest():
    x = np.random.default_rng(3).standard_normal(4096).astype(np.float32)
    x[:4] = 0, 1, -(2**20), 1 + 2**-11
    upper, rest = np.empty_like(x), np.empty_like(x)
    halve[16, 256](x, upper, rest)
    assert not np.any(upper.view(np.uint32) & (LEVEL - 1))  # 13 bits are 0
    assert np.array_equal(upper.astype(np.float64) + rest, x)
    assert np.all(np.abs(rest) <= np.abs(x) * (2.0**-11 + 2.0**-22))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 13, 14, 25, 64, 641, 2**16 + 1, 2**31 - 1])
def test_a_number_is_parted_as_python_does(size):
    of_size = parts_of(size)

    @cuda.jit
    def part(numbers, whole, rest):
        i = cuda.grid(1)
        if i < numbers.size:
            whole[i], rest[i] = of_size(numbers[i])

    near = [size * n + d for n in (0, 1, 2, 9, 2**30 // size, (2**31 - 1) // size)
            for d in (-1, 0, 1)]  # fmt: skip
    drawn = np.random.default_rng(1).integers(0, 2**31, 500).tolist()
    numbers = np.array([n for n in near + drawn if 0 <= n < 2**31], np.int32)
    whole, rest = np.empty_like(numbers), np.empty_like(numbers)
    part[-(-numbers.size // 128), 128](numbers, whole, rest)
    assert np.array_equal(whole, numbers // size) and np.array_equal(rest, numbers % size)


@needs_compiler
def test_the_product_is_rounded_before_it_is_subtracted():
    """Joined, ``h = 8193 x; h - 8192 x`` is x itself: an H200 then had TF32's errors."""
    facts = compiled(halve, (F4, F4, F4), "sm_90")
    factors = [f"0f{np.float32(n).view(np.uint32):08X}" for n in (LEVEL + 1, -LEVEL)]
    lines = [line for line in facts.ptx.splitlines() if any(n in line for n in factors)]
    assert len(lines) == 2
    rounded = re.search(r"(%f\d+),", lines[0]).group(1)
    assert "fma.rn" in lines[1] and lines[1].rstrip(";").endswith(rounded), lines


# --- tensor cores ---------------------------------------------------------------------------------

simulated = pytest.mark.skipif(backend.gpu() is not None, reason="chooses a simulated GPU")


def there(*arrays):
    return tuple(map(cuda.to_device, arrays))


def relative(found, exact):
    return np.linalg.norm(found - exact) / np.linalg.norm(exact)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("cut", [Cut((2, 4), 3, 1), Cut((2, 4), 2, 2), Cut((2, 4), 1, 9)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_cut_is_right(h200, layout, cut):
    """Also where rounds are left over, and where a warp has none."""
    size = 68, 100, 132
    a, b = given(*size, layout)
    kernel, grid, block = product_of(layout, *size, "tf32x3", cut)
    out = cuda.to_device(np.full(size[0] * size[1], np.nan, np.float32))
    kernel[grid, block](*there(a.reshape(-1), b.reshape(-1)), out)
    assert relative(out.copy_to_host().reshape(size[:2]), right(a, b, layout)) <= 1e-6


@simulated
@pytest.mark.parametrize("layout", LAYOUTS)
def test_wide_tiles_have_no_bank_conflicts(h200, layout):
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
def test_without_a_method_small_products_go_to_tensor_cores_where_they_can(h200, monkeypatch):
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
def test_what_tensor_cores_cannot_have_is_refused_with_a_way_out(h200, monkeypatch, method):
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
