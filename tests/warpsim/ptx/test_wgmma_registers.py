"""Products of a warpgroup, the first factor in registers or less than 64 deep: right, refused."""

import numpy as np
import pytest
from numba import float32, uint32

from warpsim import cuda, ptx, trace


def product(depth, columns=64, waits=True, keep=0):
    """A kernel of (a, b, out): 64 x depth times depth x columns, by one warpgroup."""
    BOXES = -(-columns // 64)
    WORDS, SUMS, BOX = depth // 4, columns // 2, depth * 64
    TILE = BOXES * BOX

    @cuda.jit
    def kernel(a, b, out):
        tile = cuda.shared.array(TILE, np.float16, alignment=1024)
        words = cuda.local.array(WORDS, uint32)
        local = cuda.local.array(SUMS, float32)
        t = cuda.threadIdx.x
        row, pair = 16 * (t // 32) + t % 32 // 4, 2 * (t % 4)
        for n in range(t, TILE, 128):
            box, k, column = n // BOX, n % BOX // 64, n % 64
            if 64 * box + column < columns:
                at = box * BOX + 64 * k + (((column // 8) ^ (k % 8)) * 8) + column % 8
                tile[at] = b[k, 64 * box + column]
        ptx.fence_async()
        cuda.syncthreads()
        for n in range(WORDS):
            r, c = row + 8 * (n % 2), 16 * (n // 4) + 8 * (n % 4 // 2) + pair
            words[n] = ptx.pack_f16(float32(a[r, c]), float32(a[r, c + 1]))
        sums = ptx.wgmma_zeros(columns)
        sums = ptx.wgmma_rn(sums, words, tile, 0, depth, keep)
        if waits:
            sums = ptx.wgmma_sums(sums)
        ptx.unpack(local, sums)
        for n in range(SUMS):
            out[row + 8 * (n % 4 // 2), 8 * (n // 4) + pair + n % 2] = local[n]

    return kernel


def shared_product(depth, columns, keep=0):
    """The same where both factors are in shared memory, rows of 64 along the depth."""
    SUMS, TILE = columns // 2, 64 * 64
    ALL = TILE + columns * 64

    @cuda.jit
    def kernel(a, b, out):
        tile = cuda.shared.array(ALL, np.float16, alignment=1024)
        local = cuda.local.array(SUMS, float32)
        t = cuda.threadIdx.x
        row, pair = 16 * (t // 32) + t % 32 // 4, 2 * (t % 4)
        for n in range(t, 64 * depth, 128):
            r, k = n // depth, n % depth
            tile[64 * r + (((k // 8) ^ (r % 8)) * 8) + k % 8] = a[r, k]
        for n in range(t, columns * depth, 128):
            r, k = n // depth, n % depth
            tile[TILE + 64 * r + (((k // 8) ^ (r % 8)) * 8) + k % 8] = b[k, r]
        ptx.fence_async()
        cuda.syncthreads()
        sums = ptx.wgmma_zeros(columns)
        sums = ptx.wgmma_sums(ptx.wgmma_nt_deep(sums, tile, 0, tile, TILE, depth, keep))
        ptx.unpack(local, sums)
        for n in range(SUMS):
            out[row + 8 * (n % 4 // 2), 8 * (n // 4) + pair + n % 2] = local[n]

    return kernel


def run(kernel, depth, columns=64):
    random = np.random.default_rng(depth)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((64, depth), (depth, columns)))
    out = np.full((64, columns), np.nan, np.float32)
    report = trace(kernel, 1, 128, a, b, out, gpu="H200")
    return report, np.abs(out - a.astype(float) @ b.astype(float)).max()


@pytest.mark.parametrize(
    ("make", "depth", "columns"),
    [(product, 16, 64), (product, 48, 64), (product, 208, 64), (product, 32, 80),
     (product, 48, 32), (product, 16, 128), (shared_product, 16, 64), (shared_product, 32, 40),
     (shared_product, 64, 16)],
)  # fmt: skip
def test_a_product_is_float64s(make, depth, columns):
    report, error = run(make(depth, columns), depth, columns)
    assert error < 1e-4
    assert not {"race", "uninitialised-read"} & {finding.kind for finding in report.findings}
    assert report.operations["tensor"] == 2 * 64 * columns * depth


def test_sums_that_are_not_waited_for_are_a_race():
    report, _ = run(product(64, waits=False), 64)
    assert any("a product under way" in finding.message for finding in report.findings)


@pytest.mark.parametrize(
    ("make", "depth", "words"),
    [(product, 24, "to 256, in steps of 16, not 24"), (shared_product, 80, "to 64, .*, not 80")],
)
def test_other_shapes_are_refused(make, depth, words):
    with pytest.raises(Exception, match=words):
        run(make(depth, 64), depth)
