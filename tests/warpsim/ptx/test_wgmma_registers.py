"""A product of a warpgroup whose first factor is in registers: right, waited for, refused."""

import numpy as np
import pytest
from numba import float32, uint32

from warpsim import cuda, trace
from warpsim.ptx import fence_async, pack_f16, unpack, wgmma_rn, wgmma_sums, wgmma_zeros


def product(depth, columns=64, waits=True):
    """A kernel of (a, b, out): 64 x depth times depth x 64, by one warpgroup."""
    WORDS, SUMS, TILE = depth // 4, columns // 2, depth * 64

    @cuda.jit
    def kernel(a, b, out):
        tile = cuda.shared.array(TILE, np.float16, alignment=1024)
        words = cuda.local.array(WORDS, uint32)
        local = cuda.local.array(SUMS, float32)
        t = cuda.threadIdx.x
        row, pair = 16 * (t // 32) + t % 32 // 4, 2 * (t % 4)
        for n in range(t, TILE, 128):
            k, column = n // 64, n % 64
            tile[64 * k + (((column // 8) ^ (k % 8)) * 8) + column % 8] = b[k, column]
        fence_async()
        cuda.syncthreads()
        for n in range(WORDS):
            r, c = row + 8 * (n % 2), 16 * (n // 4) + 8 * (n % 4 // 2) + pair
            words[n] = pack_f16(float32(a[r, c]), float32(a[r, c + 1]))
        sums = wgmma_zeros(columns)
        sums = wgmma_rn(sums, words, tile, 0, depth, 0)
        if waits:
            sums = wgmma_sums(sums)
        unpack(local, sums)
        for n in range(SUMS):
            out[row + 8 * (n % 4 // 2), 8 * (n // 4) + pair + n % 2] = local[n]

    return kernel


def run(kernel, depth):
    random = np.random.default_rng(depth)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((64, depth), (depth, 64)))
    out = np.full((64, 64), np.nan, np.float32)
    report = trace(kernel, 1, 128, a, b, out, gpu="H200")
    return report, np.abs(out - a.astype(float) @ b.astype(float)).max()


@pytest.mark.parametrize("depth", [16, 48, 208])
def test_a_product_is_float64s(depth):
    report, error = run(product(depth), depth)
    assert error < 1e-4
    assert not {"race", "uninitialised-read"} & {finding.kind for finding in report.findings}
    assert report.operations["tensor"] == 2 * 64 * 64 * depth


def test_sums_that_are_not_waited_for_are_a_race():
    report, _ = run(product(64, waits=False), 64)
    assert any("a product under way" in finding.message for finding in report.findings)


@pytest.mark.parametrize(
    ("depth", "columns", "words"),
    [(24, 64, "16, 32, ... 256 deep, not 24"), (64, 128, "makes 64 columns, not 128")],
)
def test_other_shapes_are_refused(depth, columns, words):
    with pytest.raises(Exception, match=words):
        run(product(depth, columns), depth)
