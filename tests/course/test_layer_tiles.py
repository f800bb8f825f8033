"""Factors cut in two for tensor cores: rounded, and not by a compiler joined again."""

import re

import numpy as np
import pytest

from course import cuda
from course.compiler.facts import compiled
from course.kernels.split_factors import LEVEL, in_two, parts_of
from tests.course.compiled_samples import needs_compiler

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
