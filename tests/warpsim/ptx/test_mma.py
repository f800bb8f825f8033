"""Tensor cores, simulated: products of a warp, TF32, numbers split into two of 16 bits."""

import numpy as np
import pytest
from numba import float32, uint32
from numba.core.errors import TypingError

from course import trace
from tests.warpsim.ptx.kernel_parts import errors, numbers, only, written
from warpsim import KernelError, cuda, ptx


def fragments(lane):
    """Rows and columns of each lane's numbers, as the PTX ISA lists them.

    Source: PTX ISA 8.7, 9.7.14.5, figures of m16n8k8 (.f16, .tf32) and m16n8k16 (.f16).
    """
    group, inside = lane // 4, lane % 4
    c = [(group + (8 if i >= 2 else 0), inside * 2 + (i & 1)) for i in range(4)]
    a16 = [
        (group + (8 if i // 2 % 2 else 0), inside * 2 + (i & 1) + (8 if i >= 4 else 0))
        for i in range(8)
    ]
    b16 = [(inside * 2 + (i & 1) + (8 if i >= 2 else 0), group) for i in range(4)]
    a32 = [(group + (8 if i in (1, 3) else 0), inside + (4 if i >= 2 else 0)) for i in range(4)]
    b32 = [(inside + 4 * i, group) for i in range(2)]
    return c, a16, b16, a32, b32


@cuda.jit
def float16_k16(a, b, c, out):
    t = cuda.threadIdx.x
    left = (a[t, 0], a[t, 1], a[t, 2], a[t, 3])
    total = (c[t, 0], c[t, 1], c[t, 2], c[t, 3])
    ptx.store4(out, (t, 0), ptx.mma_f16(total, left, (b[t, 0], b[t, 1])))


@cuda.jit
def float16_k8(a, b, c, out):
    t = cuda.threadIdx.x
    total = (c[t, 0], c[t, 1], c[t, 2], c[t, 3])
    ptx.store4(out, (t, 0), ptx.mma_f16_k8(total, (a[t, 0], a[t, 1]), b[t, 0]))


@cuda.jit
def tf32(a, b, c, out):
    t = cuda.threadIdx.x
    left = (a[t, 0], a[t, 1], a[t, 2], a[t, 3])
    total = (c[t, 0], c[t, 1], c[t, 2], c[t, 3])
    ptx.store4(out, (t, 0), ptx.mma_tf32(total, left, (b[t, 0], b[t, 1])))


@pytest.mark.parametrize(
    ("kernel", "depth", "gpu"),
    [(float16_k16, 16, "A100"), (float16_k8, 8, None), (tf32, 8, "H200")],
)
def test_products_of_a_warp_are_matrix_products(kernel, depth, gpu):
    warps, half = 3, kernel is not tf32
    a, b, c = numbers(warps, 16, depth), numbers(warps, depth, 8), numbers(warps, 16, 8)
    if half:
        a, b = a.astype(np.float16), b.astype(np.float16)
    parts = []
    for lane in range(32):
        in_c, in_a16, in_b16, in_a32, in_b32 = fragments(lane)
        in_a, in_b = (in_a16[: depth // 2], in_b16[: depth // 4]) if half else (in_a32, in_b32)
        parts.append(
            [np.stack([m[:, i, j] for i, j in p], -1) for m, p in ((a, in_a), (b, in_b), (c, in_c))]
        )
    held = [np.stack([part[i] for part in parts], 1).reshape(warps * 32, -1) for i in range(3)]
    if half:
        held[:2] = [np.ascontiguousarray(one).view(np.uint32) for one in held[:2]]
    out = np.zeros((warps * 32, 4), np.float32)
    report = trace(kernel, 1, warps * 32, *held, out, gpu=gpu)
    assert not errors(report)
    result = np.zeros((warps, 16, 8))
    for lane in range(32):
        for e, (i, j) in enumerate(fragments(lane)[0]):
            result[:, i, j] = out.reshape(warps, 32, 4)[:, lane, e]
    wanted = a.astype(np.float64) @ b.astype(np.float64) + c
    # float16 is taken exactly, float32 cut to 10 bits of fraction; sums are in float32
    tolerance = 2e-6 if half else 2.0**-10 * 2 * 4 * depth
    np.testing.assert_allclose(result, wanted, rtol=0, atol=tolerance)
    assert half or np.abs(result - wanted).max() > 1e-4
    assert report.operations["tensor"] == warps * 2 * 16 * 8 * depth


def test_operations_of_tensor_cores_are_listed_where_there_are_any():
    report = trace(written("store(x, cuda.threadIdx.x, load(x, 0))"), 1, 32, numbers(32))
    assert "tensor" not in report.operations


def test_tf32_is_cut_to_ten_bits_by_tensor_cores():
    @cuda.jit
    def cut(x, out):
        """Lane 0's first number of a, times 1 at row 0 of column 0."""
        t = cuda.threadIdx.x
        zero = float32(0)
        one = float32(1) if t == 0 else zero
        value = x[0] if t == 0 else zero
        c = ptx.mma_tf32((zero, zero, zero, zero), (value, zero, zero, zero), (one, zero))
        if t == 0:
            out[0] = c[0]

    cases = {
        1 + 2.0**-10: 1 + 2.0**-10, 1 + 2.0**-11: 1.0, -1 - 3 * 2.0**-11: -1 - 2.0**-10,
        2 - 2.0**-23: 2 - 2.0**-10, 0.0: 0.0,
    }  # fmt: skip
    for value, wanted in cases.items():
        out = np.zeros(1, np.float32)
        trace(cut, 1, 32, np.array([value], np.float32), out, gpu="A100")
        assert out[0] == np.float32(wanted), value
    for value in (np.inf, -np.inf, np.nan):
        out = np.zeros(1, np.float32)
        trace(cut, 1, 32, np.array([value], np.float32), out, gpu="A100")
        np.testing.assert_array_equal(out, np.float32(value))


def test_tf32_keeps_ten_bits_and_rounds_ties_away_from_zero():
    @cuda.jit
    def rounded(x, out):
        out[cuda.threadIdx.x] = ptx.round_tf32(x[cuda.threadIdx.x])

    cases = {
        1 + 2.0**-10: 1 + 2.0**-10, 1 + 2.0**-11: 1 + 2.0**-10, -1 - 2.0**-11: -1 - 2.0**-10,
        1 + 2.0**-11 - 2.0**-23: 1.0, 1 + 3 * 2.0**-11: 1 + 2.0**-9, 2 - 2.0**-23: 2.0, 0.0: 0.0,
        1e30: float(np.float32(1e30).view(np.uint32) + 0x1000 & 0xFFFFE000),
    }  # fmt: skip
    cases[1e30] = float(np.array([int(cases[1e30])], np.uint32).view(np.float32)[0])
    special = [np.inf, -np.inf, np.nan, np.array(0x7FFFFFFF, np.uint32).view(np.float32)]
    x = np.array([*cases, *special], np.float32)
    out = np.zeros_like(x)
    trace(rounded, 1, len(x), x, out, gpu="A100")
    np.testing.assert_array_equal(out, np.array([*cases.values(), *special], np.float32))


@cuda.jit
def one_for_all(x, out):
    out[cuda.threadIdx.x] = ptx.round_tf32(x[0])


def test_tf32_of_a_number_that_all_threads_share():
    x, out = np.array([1 + 2.0**-11, 5], np.float32), np.zeros(32, np.float32)
    trace(one_for_all, 1, 32, x, out, gpu="A100")
    assert (out == np.float32(1 + 2.0**-10)).all()


def test_tf32_needs_a_gpu_that_has_it():
    with pytest.raises(TypingError, match=r"rounding to TF32 needs compute capability 8\.0"):
        trace(one_for_all, 1, 32, numbers(2), numbers(32), gpu="T4")


@cuda.jit
def split(x, out):
    t = cuda.grid(1)
    upper, lower = ptx.split_halves(ptx.load(x, 2 * t), ptx.load(x, 2 * t + 1))
    ptx.store2(out, (t, 0), (upper, lower))


def test_split_halves_keep_22_bits():
    random = np.random.default_rng(3)
    size = np.exp2(random.uniform(-2, 15.99, 4096))
    x = (random.choice((-1, 1), 4096) * size).astype(np.float32)
    out = np.zeros((2048, 2), np.uint32)
    split[16, 128](x, out)
    parts = out.view(np.float16).reshape(2048, 2, 2).astype(np.float64)  # thread, part, number
    both = parts.sum(1).reshape(-1)
    np.testing.assert_array_equal(parts[:, 0].reshape(-1), x.astype(np.float16))
    relative = np.abs(both - x) / np.abs(x)
    assert relative.max() <= 2.0**-23  # half a unit of the 22nd bit
    assert (relative > 2.0**-25).any()  # not all 24 bits


def test_split_halves_of_small_and_large_numbers():
    small = (np.random.default_rng(4).uniform(-0.25, 0.25, 256)).astype(np.float32)
    small[:128] *= np.float32(2.0**-12)
    out = np.zeros((128, 2), np.uint32)
    split[1, 128](small, out)
    both = out.view(np.float16).reshape(128, 2, 2).astype(np.float64).sum(1).reshape(-1)
    assert np.abs(both - small).max() <= 2.0**-25
    large = np.array([65504, 65519, 65520, -1e6], np.float32)
    out = np.zeros((2, 2), np.uint32)
    split[1, 2](large, out)
    upper = out.view(np.float16).reshape(2, 2, 2)[:, 0].reshape(-1)
    np.testing.assert_array_equal(upper, [65504, 65504, np.inf, -np.inf])


def test_split_halves_of_numbers_that_all_threads_share():
    @cuda.jit
    def kernel(out, x):
        upper, lower = ptx.split_halves(x, float32(0.1))
        out[0, cuda.threadIdx.x] = upper
        out[1, cuda.threadIdx.x] = lower + uint32(0)

    out = np.zeros((2, 8), np.uint32)
    kernel[1, 8](out, np.float32(1 / 3))
    x = np.array([1 / 3, 0.1], np.float32)
    upper = x.astype(np.float16)
    lower = (x - upper.astype(np.float32)).astype(np.float16)
    wanted = np.array([upper.view(np.uint32)[0], lower.view(np.uint32)[0]])
    np.testing.assert_array_equal(out, np.repeat(wanted[:, None], 8, 1))


def products_in(shape):
    @cuda.jit
    def kernel(out):
        t = cuda.threadIdx.x
        zero = float32(0)
        c = (zero, zero, zero, zero)
        if shape == 0:
            if t % 32 < 24:
                c = ptx.mma_f16_k8(c, (uint32(0), uint32(0)), uint32(0))
        elif shape == 1:
            if t >= 40:
                return
            c = ptx.mma_f16_k8(c, (uint32(0), uint32(0)), uint32(0))
        elif shape == 2:
            if t // 32 == 1:
                c = ptx.mma_f16_k8(c, (uint32(0), uint32(0)), uint32(0))
        else:
            c = ptx.mma_f16_k8(c, (uint32(0), uint32(0)), uint32(0))
        out[t] = c[0]

    return kernel


def test_a_product_needs_the_whole_warp():
    out = np.zeros(64, np.float32)
    finding = only(trace(products_in(0), 1, 64, out), "barrier-divergence", 7)
    assert finding.where.thread == (24, 0, 0)
    assert "does not make this call, but its warp does" in finding.message
    assert "outside of the branch" in finding.message
    finding = only(trace(products_in(1), 1, 64, out), "barrier-divergence", 11)
    assert finding.where.thread == (32, 0, 0)
    assert "a warp of which 8 threads are left" in finding.message
    finding = only(trace(products_in(3), 1, 50, out), "barrier-divergence", 16)
    assert "18 threads are left" in finding.message and "multiple of 32" in finding.message
    with pytest.raises(KernelError, match=r"all\s+32\s+lanes\s+together"):
        products_in(0)[1, 64](out)
    assert not errors(trace(products_in(2), 1, 96, np.zeros(96, np.float32)))
    assert not errors(trace(products_in(3), 1, 64, out))
