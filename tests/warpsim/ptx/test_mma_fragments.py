"""Matrices in shared memory and in lanes, element by element as the PTX ISA's formulas say."""

import numpy as np
import pytest
from numba import float32, int32, uint16, uint32, uint64

from warpsim import cuda, ptx, trace
from warpsim.host import gpus
from warpsim.ptx import TensorMap, commit_copies, wait_copies
from warpsim.ptx.bfloat16 import BFLOAT16, bfloat16
from warpsim.watch.findings import KernelError

LANES = np.arange(32)


def traced(kernel, threads, *arguments, blocks=1, **options):
    report = trace(kernel, blocks, threads, *arguments, gpu="H200", **options)
    assert not [finding for finding in report.findings if finding.is_error], report
    return report


# ---------------------------------------------------------------------- ldmatrix, stmatrix
@pytest.mark.parametrize("trans", ["", "_trans"])
def test_ldmatrix(trans):
    """Lane l has elements 2 (l % 4) and 2 (l % 4) + 1 of row (transposed: column) l // 4."""
    load = getattr(ptx, f"ldmatrix4{trans}")

    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array((64, 8), uint16)
        t = cuda.threadIdx.x
        for e in range(8):
            tile[t, e] = x[t, e]
        cuda.syncthreads()
        words = load(tile, (t // 32 * 32 + 31 - t % 32, 0))
        for e in range(4):
            out[t, e] = words[e]

    x = np.arange(64 * 8, dtype=np.uint16).reshape(64, 8)
    out = np.zeros((64, 4), np.uint32)
    report = traced(kernel, 64, x, out)
    for t in range(64):
        for i in range(4):
            matrix = np.array([x[t // 32 * 32 + 31 - (8 * i + r)] for r in range(8)], np.uint32)
            matrix = matrix.T if trans else matrix
            row, pair = t % 32 // 4, 2 * (t % 4)
            assert out[t, i] == matrix[row, pair] | matrix[row, pair + 1] << 16
    loads = report.total("shared", "load")
    assert loads.wavefronts == 4 * 2  # each matrix is one pass


@pytest.mark.parametrize("trans", ["", "_trans"])
def test_stmatrix(trans):
    store = getattr(ptx, f"stmatrix4{trans}")

    @cuda.jit
    def kernel(words, out):
        tile = cuda.shared.array((32, 8), uint16)
        t = cuda.threadIdx.x
        four = words[t, 0], words[t, 1], words[t, 2], words[t, 3]
        store(tile, (t, 0), four)
        cuda.syncthreads()
        for e in range(8):
            out[t, e] = tile[t, e]

    words = np.random.default_rng(0).integers(0, 1 << 32, (32, 4), np.uint32)
    out = np.zeros((32, 8), np.uint16)
    traced(kernel, 32, words, out)
    for i in range(4):
        matrix = np.zeros((8, 8), np.uint16)
        for lane in LANES:
            for e in range(2):
                matrix[lane // 4, 2 * (lane % 4) + e] = words[lane, i] >> 16 * e & 0xFFFF
        assert np.array_equal(out[8 * i : 8 * i + 8], matrix.T if trans else matrix)


def test_a_product_of_bfloat16():
    @cuda.jit
    def kernel(a, b, c, out):
        lane = cuda.threadIdx.x
        sums = (c[lane, 0], c[lane, 1], c[lane, 2], c[lane, 3])
        left = (a[lane, 0], a[lane, 1], a[lane, 2], a[lane, 3])
        sums = ptx.mma_bf16(sums, left, (b[lane, 0], b[lane, 1]))
        for e in range(4):
            out[lane, e] = sums[e]

    random = np.random.default_rng(0)
    bits = random.integers(0x3F00, 0x4100, 16 * 16 + 16 * 8).astype(np.uint32)
    a, b = bits[:256].reshape(16, 16), bits[256:].reshape(16, 8)
    c = random.standard_normal((16, 8)).astype(np.float32)
    real_a, real_b = ((x << 16).view(np.float32).astype(np.float64) for x in (a, b))
    right = real_a @ real_b + c
    regs_a, regs_b = np.zeros((32, 4), np.uint32), np.zeros((32, 2), np.uint32)
    regs_c, out = np.zeros((32, 4), np.float32), np.zeros((32, 4), np.float32)

    def spot(lane, i):
        return lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2

    for lane in LANES:
        g, q = lane // 4, 2 * (lane % 4)
        for r in range(4):
            row, column = g + 8 * (r % 2), q + 8 * (r // 2)
            regs_a[lane, r] = a[row, column] | a[row, column + 1] << 16
            regs_c[lane, r] = c[spot(lane, r)]
        for r in range(2):
            regs_b[lane, r] = b[q + 8 * r, g] | b[q + 8 * r + 1, g] << 16
    traced(kernel, 32, regs_a, regs_b, regs_c, out)
    for lane in LANES:
        for i in range(4):
            assert out[lane, i] == pytest.approx(right[spot(lane, i)], rel=1e-5, abs=1e-4)


def test_packing_rounds_to_the_nearest_and_to_even():
    @cuda.jit
    def kernel(x, words, back):
        i = cuda.threadIdx.x
        words[i, 0] = ptx.pack_f16(x[2 * i], x[2 * i + 1])
        words[i, 1] = ptx.pack_bf16(x[2 * i], x[2 * i + 1])
        low, high = ptx.unpack_bf16(words[i, 1])
        back[2 * i], back[2 * i + 1] = low, high

    ties = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -3.1415927, 1e-40, np.inf, 65520, 3e38]
    x = np.array(ties, np.float32)
    with np.errstate(over="ignore"):
        upper = x.astype(np.float16)
    words, back = np.zeros((4, 2), np.uint32), np.zeros(8, np.float32)
    traced(kernel, 4, x, words, back)
    assert np.array_equal(words[:, 0], upper.view(np.uint32))
    assert back[:3].tolist() == [1, 1 + 2 * 2**-7, 1 + 2**-7]
    assert np.all(np.abs(back[3] - x[3]) <= 2**-7)
    assert back[5] == np.inf
    assert np.array_equal(words[:, 1].copy().view(np.uint16), back.view(np.uint32) >> 16)


def test_division_cuts_off():
    @cuda.jit
    def kernel(x, y, out):
        i = cuda.threadIdx.x
        out[i, 0] = ptx.quotient(x[i], y[i])
        out[i, 1] = ptx.remainder(x[i], y[i])

    x, y = np.array([7, -7, 7, -7, 2**31 - 1], np.int32), np.array([2, 2, -2, -2, 10], np.int32)
    out = np.zeros((5, 2), np.int32)
    traced(kernel, 5, x, y, out)
    assert out.tolist() == [[3, 1], [-3, -1], [-3, 1], [3, -1], [214748364, 7]]


def test_copies_of_eight_and_their_zeros():
    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array((32, 8), uint16)
        t = cuda.threadIdx.x
        ptx.copy8_async(tile, (t, 0), x, 8 * t, min(8, max(0, x.size - 8 * t)))
        commit_copies()
        wait_copies(0)
        for e in range(8):
            out[t, e] = tile[t, e]

    x, out = np.arange(1, 166, dtype=np.uint16), np.zeros((32, 8), np.uint16)
    traced(kernel, 32, x, out)
    assert np.array_equal(out.ravel()[:165], x)
    assert not out.ravel()[165:].any()


# ---------------------------------------------------------------------- wgmma, TMA
def warpgroup(layout, element, columns):
    multiply, size = getattr(ptx, f"wgmma_{layout}"), 64 * columns
    half = columns // 2

    @cuda.jit
    def kernel(a, b, out):
        left = cuda.shared.array(64 * 64, element, alignment=1024)
        right = cuda.shared.array(size, element, alignment=1024)
        local = cuda.local.array(half, float32)
        t = cuda.threadIdx.x
        for i in range(t, left.size, 128):
            left[i] = float32(a[i])
        for i in range(t, right.size, 128):
            right[i] = float32(b[i])
        ptx.fence_async()
        cuda.syncthreads()
        sums = ptx.wgmma_zeros(columns)
        sums = multiply(sums, left, 0, right, 0, 0)
        sums = multiply(sums, left, 0, right, 0, 1)
        sums = ptx.wgmma_sums(sums)
        ptx.unpack(local, sums)
        for e in range(half):
            out[t, e] = local[e]

    return kernel


def place(row, column):
    """Where an element of a box lies, in the 128-byte swizzle."""
    return 64 * row + (column // 8 ^ row % 8) * 8 + column % 8


@pytest.mark.parametrize("element", [np.float16, bfloat16])
@pytest.mark.parametrize("layout", ["nt", "nn", "tn"])
def test_a_product_of_a_warpgroup(layout, element):
    """Thread t: sums[4 j + e] is row 16 w + l // 4 + 8 (e // 2), column 8 j + 2 (l % 4) + e % 2."""
    columns = 128
    random = np.random.default_rng(0)
    a, b = (random.integers(-8, 9, (size, 64)).astype(np.float32) for size in (64, columns))
    held_a, held_b = np.zeros(64 * 64, np.float32), np.zeros(64 * columns, np.float32)
    for k in range(64):
        for m in range(64):
            held_a[place(k, m) if layout == "tn" else place(m, k)] = a[m, k]
        for n in range(columns):
            turned = 4096 * (n // 64) + place(k, n % 64)
            held_b[place(n, k) if layout == "nt" else turned] = b[n, k]
    if element is bfloat16:
        held_a, held_b = (
            (x.view(np.uint32) >> 16).astype(np.uint16).view(BFLOAT16) for x in (held_a, held_b)
        )
    else:
        held_a, held_b = held_a.astype(np.float16), held_b.astype(np.float16)
    out = np.zeros((128, columns // 2), np.float32)
    traced(warpgroup(layout, element, columns), 128, held_a, held_b, out)
    right = 2 * a @ b.T
    for t in range(128):
        for i in range(columns // 2):
            row = 16 * (t // 32) + t % 32 // 4 + 8 * (i % 4 // 2)
            assert out[t, i] == right[row, 8 * (i // 4) + 2 * (t % 4) + i % 2]


def one_box():
    @cuda.jit
    def kernel(x, out, row, column):
        tile = cuda.shared.array(16 * 64, np.float16, alignment=1024)
        bars = cuda.shared.array(1, uint64)
        t = cuda.threadIdx.x
        if t == 0:
            ptx.mbarrier_init(bars, 0, 1)
            ptx.fence_mbarriers()
            ptx.mbarrier_expect(bars, 0, 2048)
            ptx.tma_load(tile, 0, x, (row, column), bars, 0)
        cuda.syncthreads()
        ptx.mbarrier_wait(bars, 0, 0)
        for i in range(t, tile.size, 32):
            out[i] = float32(tile[i])

    return kernel


@pytest.mark.parametrize("swizzle", [True, False])
def test_a_box_lies_in_rows_swizzled_or_not(swizzle):
    x = np.arange(1, 1 + 20 * 80).reshape(20, 80).astype(np.float16)
    out = np.zeros(16 * 64, np.float32)
    corner = 9, 40
    tensor = TensorMap(cuda.to_device(x), 16, 64, swizzle)
    report = traced(one_box(), 32, tensor, out, *corner)
    for r in range(16):
        for c in range(64):
            row, column = r + corner[0], c + corner[1]
            value = x[row, column] if row < 20 and column < 80 else 0
            assert out[place(r, c) if swizzle else 64 * r + c] == value
    assert report.total("global", "load").bytes == 2 * 11 * 40


@pytest.mark.parametrize("column", [-8, -4, 0, 1, 4, 8, 12, 16])
def test_a_swizzled_box_begins_at_a_multiple_of_16_bytes_along_a_row(column):
    """Elsewhere a GPU ends the launch: an illegal instruction."""
    tensor = TensorMap(cuda.to_device(np.ones((20, 80), np.float16)), 16, 64)
    report = trace(one_box(), 1, 32, tensor, np.zeros(16 * 64, np.float32), 0, column, gpu="H100")
    wrong = [one for one in report.findings if one.kind == "misaligned"]
    assert bool(wrong) is (column % 8 != 0)
    assert all(f"column {column} on, byte {2 * column} of a row" in one.message for one in wrong)


# ---------------------------------------------------------------------- clusters, refusals
def exchange(ends_together):
    @cuda.jit
    def kernel(out):
        ptx.cluster(2)
        mine = cuda.shared.array(128, float32)
        t = cuda.threadIdx.x
        mine[t] = float32(cuda.blockIdx.x * 128 + t)
        ptx.cluster_barrier()
        if t < 32:
            other = int32(ptx.cluster_rank() ^ 1)
            four = ptx.load4_cluster(mine, 4 * t, other)
            for e in range(4):
                out[cuda.blockIdx.x, 4 * t + e] = four[e]
        if ends_together:
            ptx.cluster_barrier()

    return kernel


def test_blocks_of_a_cluster_read_each_other():
    out = np.zeros((4, 128), np.float32)
    traced(exchange(True), 128, out, blocks=4)
    blocks = np.array([1, 0, 3, 2])[:, None]
    assert np.array_equal(out, blocks * 128 + np.arange(128))


def test_a_block_must_not_end_while_its_cluster_reads_it():
    report = trace(exchange(False), 2, 128, np.zeros((2, 128), np.float32), gpu="H200")
    (finding,) = [finding for finding in report.findings if finding.is_error]
    assert (finding.kind, finding.line) == ("race", 9)
    assert "may have ended" in finding.message


def test_a_gpu_without_the_instruction_refuses_it():
    a = np.zeros(64 * 64, np.float16)
    out = np.zeros((128, 32), np.float32)
    with pytest.raises(Exception, match=r"needs compute capability 9\.0.*Tesla T4 has 7\.5"):
        trace(warpgroup("nt", np.float16, 64), 1, 128, a, a, out, gpu="T4")


@cuda.jit
def stuck(out):
    bars = cuda.shared.array(1, uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bars, 0, 2)
        ptx.fence_mbarriers()
    cuda.syncthreads()
    if t % 32 == 0:
        ptx.mbarrier_arrive(bars, 0)
    ptx.mbarrier_wait(bars, 0, 0)
    ptx.mbarrier_wait(bars, 0, 1)
    out[t] = uint32(1)


def test_a_launch_that_is_not_traced_raises_at_a_deadlock(monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", gpus.find("H200"))
    out = np.zeros(64, np.uint32)
    with pytest.raises(KernelError, match=r"deadlock, line 11(.|\n)*1 have ended"):
        stuck[1, 64](out)
    assert not out.any()
