"""Whole kernels with wide accesses, asynchronous copies and tensor cores against NumPy."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numba import float32, int32

import course
from course import trace
from course.compiler.facts import compiled
from tests.course.compiled_samples import needs_compiler
from warpsim import cuda as simulated
from warpsim import ptx
from warpsim.host import gpus

THREADS = 64
TILE = 32
PITCH = 36  # a multiple of 4, and no two rows of 8 in the same banks
DEPTH = 128


@dataclass
class Sample:
    """A kernel, its launch, its arguments with the output last, and what it should write there."""

    kernel: object
    grid: object
    block: object
    arguments: list[np.ndarray]
    wanted: np.ndarray
    tolerance: float = 0.0
    capability: tuple[int, int] = (7, 0)


SAMPLES: dict[str, Callable] = {}


def sample(function: Callable) -> Callable:
    SAMPLES[function.__name__] = function
    return function


def floats(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@sample
def vector_copy(cuda):
    """Four elements a thread, in grid strides; what is left over is taken one by one."""

    @cuda.jit
    def kernel(x, out):
        wide = x.size // 4
        for i in range(cuda.grid(1), wide, cuda.gridsize(1)):
            ptx.store4(out, 4 * i, ptx.load4(x, 4 * i))
        for i in range(4 * wide + cuda.grid(1), x.size, cuda.gridsize(1)):
            ptx.store(out, i, ptx.load(x, i))

    x = floats(10_007)
    return Sample(kernel, 7, 96, [x, np.zeros_like(x)], x)


@sample
def transpose_by_fours(cuda):
    """A float4 of a row in, a float4 of a row of the transpose out."""

    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array((TILE, PITCH), float32)
        part, line = cuda.threadIdx.x * 4, cuda.threadIdx.y
        row, column = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
        if row + line < x.shape[0] and column + part < x.shape[1]:
            ptx.store4(tile, (line, part), ptx.load4(x, (row + line, column + part)))
        cuda.syncthreads()
        if column + line < out.shape[0] and row + part < out.shape[1]:
            a, b = tile[part, line], tile[part + 1, line]
            ptx.store4(
                out, (column + line, row + part), (a, b, tile[part + 2, line], tile[part + 3, line])
            )

    x = floats(68, 44)
    return Sample(kernel, (2, 3), (8, 32), [x, np.zeros((44, 68), np.float32)], x.T)


@sample
def rows_added_behind_a_copy(cuda):
    """While a row is added, the next one is on its way."""

    @cuda.jit
    def kernel(x, scale, out):
        tile = cuda.shared.array((2, DEPTH), float32)
        factor = cuda.shared.array((2, 4), float32)
        t = cuda.threadIdx.x
        first = cuda.blockIdx.x * DEPTH
        a, b, c, d = float32(0), float32(0), float32(0), float32(0)
        ptx.copy4_async(tile, (0, 4 * t), x, (0, first + 4 * t))
        if t < 1:
            ptx.copy_async(factor, (0, t), scale, 0)
        ptx.commit_copies()
        for row in range(x.shape[0]):
            stage = row % 2
            if row + 1 < x.shape[0]:
                ptx.copy4_async(tile, (1 - stage, 4 * t), x, (row + 1, first + 4 * t))
                if t < 1:
                    ptx.copy_async(factor, (1 - stage, t), scale, row + 1)
            ptx.commit_copies()
            ptx.wait_copies(1)
            cuda.syncthreads()
            w, f = 4 * (31 - t), factor[stage, 0]  # another thread's
            p, q = ptx.load2(tile, (stage, w))
            r, s = ptx.load2(tile, (stage, w + 2))
            a, b, c, d = a + f * p, b + f * q, c + f * r, d + f * s
            cuda.syncthreads()
        ptx.store4(out, first + 4 * (31 - t), (a, b, c, d))

    x, scale = floats(9, 3 * DEPTH), floats(9, seed=2)
    wanted = scale.astype(np.float64) @ x
    return Sample(kernel, 3, 32, [x, scale, np.zeros(3 * DEPTH, np.float32)], wanted, 1e-5, (8, 0))


@sample
def float16_of_a_warp(cuda):
    """16 x 16 = 16 x 16 times 16 x 16: two products of a warp; float16 in, float32 out."""

    @cuda.jit
    def kernel(a, b, out):
        lane = cuda.threadIdx.x % 32
        first = (cuda.grid(1) // 32) * 16
        g, q = lane // 4, lane % 4
        zero = float32(0)
        rows, parts = (first + g, first + g + 8), (q, q + 4)
        left = (
            ptx.load(a, (rows[0], parts[0])), ptx.load(a, (rows[1], parts[0])),
            ptx.load(a, (rows[0], parts[1])), ptx.load(a, (rows[1], parts[1])),
        )  # fmt: skip
        for n in range(2):
            column = n * 8 + g
            right = (ptx.load(b, (column, parts[0])), ptx.load(b, (column, parts[1])))
            c = ptx.mma_f16((zero, zero, zero, zero), left, right)
            ptx.store2(out, (rows[0], n * 8 + 2 * q), (c[0], c[1]))
            ptx.store2(out, (rows[1], n * 8 + 2 * q), (c[2], c[3]))

    a, b = floats(6 * 16, 16).astype(np.float16), floats(16, 16, seed=2).astype(np.float16)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    turned = np.ascontiguousarray(b.T)  # two neighbours of a column side by side
    packed = [a.view(np.uint32), turned.view(np.uint32)]
    return Sample(
        kernel, 3, 64, [*packed, np.zeros((6 * 16, 16), np.float32)], wanted, 2e-6, (8, 0)
    )


@sample
def split_product(cuda):
    """float32's accuracy from float16: three products of parts, 16 x 8 x 24, on a T4, too."""

    @cuda.jit
    def kernel(a, b, out):
        lane = int32(cuda.threadIdx.x % 32)
        g, q = lane // 4, lane % 4
        zero = float32(0)
        c = (zero, zero, zero, zero)
        for start in range(0, a.shape[1], 8):
            i = start + 2 * q
            w, x = ptx.load2(a, (g, i))
            y, z = ptx.load2(a, (g + 8, i))
            upper, lower = ptx.split_halves(w, x)
            upper_below, lower_below = ptx.split_halves(y, z)
            high, low = ptx.split_halves(b[i, g], b[i + 1, g])
            c = ptx.mma_f16_k8(c, (lower, lower_below), high)
            c = ptx.mma_f16_k8(c, (upper, upper_below), low)
            c = ptx.mma_f16_k8(c, (upper, upper_below), high)
        ptx.store2(out, (g, 2 * q), (c[0], c[1]))
        ptx.store2(out, (g + 8, 2 * q), (c[2], c[3]))

    a, b = floats(16, 24) + 3, floats(24, 8, seed=2) + 3
    wanted = a.astype(np.float64) @ b
    return Sample(
        kernel, 1, 32, [a, b, np.zeros((16, 8), np.float32)], wanted, 3e-6 * np.abs(wanted).max(),
        (7, 5),
    )  # fmt: skip


@sample
def tf32_product(cuda):
    """16 x 8 x 16 in TF32: 10 bits of fraction are left of each factor."""

    @cuda.jit
    def kernel(a, b, out):
        lane = cuda.threadIdx.x
        g, q = lane // 4, lane % 4
        c = (float32(1), float32(1), float32(1), float32(1))
        for start in range(0, a.shape[1], 8):
            i = start + q
            w, x = ptx.round_tf32(a[g, i]), ptx.round_tf32(a[g + 8, i])
            y, z = ptx.round_tf32(a[g, i + 4]), ptx.round_tf32(a[g + 8, i + 4])
            c = ptx.mma_tf32(
                c, (w, x, y, z), (ptx.round_tf32(b[i, g]), ptx.round_tf32(b[i + 4, g]))
            )
        ptx.store2(out, (g, 2 * q), (c[0], c[1]))
        ptx.store2(out, (g + 8, 2 * q), (c[2], c[3]))

    a, b = floats(16, 16), floats(16, 8, seed=2)

    def rounded(x):
        """Ties away from zero, by float64's arithmetic."""
        mantissa, exponent = np.frexp(x.astype(np.float64))
        whole = np.floor(np.abs(mantissa) * 2**11 + 0.5)
        return np.sign(mantissa) * np.ldexp(whole, exponent - 11)

    wanted = rounded(a) @ rounded(b) + 1
    return Sample(kernel, 1, 32, [a, b, np.zeros((16, 8), np.float32)], wanted, 5e-6, (8, 0))


def compare(made: Sample, out: np.ndarray) -> None:
    np.testing.assert_allclose(out, made.wanted, rtol=0, atol=made.tolerance)


@pytest.mark.parametrize("name", SAMPLES)
def test_kernels_agree_with_numpy_and_have_no_error(name):
    made = SAMPLES[name](simulated)
    report = trace(made.kernel, made.grid, made.block, *made.arguments, gpu="A100")
    compare(made, made.arguments[-1])
    assert not [finding for finding in report.findings if finding.is_error], report


@pytest.mark.parametrize("name", SAMPLES)
def test_a_launch_computes_what_a_trace_computes(name, monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", gpus.find("H200"))
    made = SAMPLES[name](simulated)
    out = np.full_like(made.arguments[-1], np.nan)
    made.kernel[made.grid, made.block](*made.arguments[:-1], out)
    trace(made.kernel, made.grid, made.block, *made.arguments, gpu="A100")
    np.testing.assert_array_equal(out, made.arguments[-1])


def test_traffic_of_the_transpose():
    made = SAMPLES["transpose_by_fours"](simulated)
    report = trace(made.kernel, made.grid, made.block, *made.arguments)
    elements = 68 * 44
    for op in ("load", "store"):
        assert report.total("global", op).bytes == 4 * elements
        assert report.total("global", op).sectors <= 1.2 * elements * 4 / 32
    assert report.unique_bytes == 8 * elements


@pytest.mark.gpu
@pytest.mark.skipif(course.gpu() is None, reason="needs a GPU")
@pytest.mark.parametrize("name", SAMPLES)
def test_kernels_on_the_gpu(name):
    made = SAMPLES[name](course.cuda)
    have = course.cuda.get_current_device().compute_capability
    if tuple(have) < made.capability:
        pytest.skip(f"needs compute capability {made.capability}")
    out = np.full_like(made.arguments[-1], np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.kernel[made.grid, made.block](*made.arguments[:-1], out)
    compare(made, out)


@needs_compiler
@pytest.mark.parametrize("name", SAMPLES)
def test_kernels_compile_without_spills(name):
    made = SAMPLES[name](simulated)
    target = "sm_{}{}".format(*max(made.capability, (7, 5)))
    facts = compiled(made.kernel, tuple(made.arguments), target)
    assert facts.spills == 0 and facts.float64_lines == ()
