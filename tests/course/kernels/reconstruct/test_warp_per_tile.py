"""A tile a warp: right for each tile at all edges, and what decides between the tiles."""

import numpy as np
import pytest
from numba import types

from course.compiler.facts import compiled
from course.heuristics.reconstruct import STACK_TILES, TILES, WARPS, WarpTile
from course.kernels.reconstruct.warp_per_tile import warp_per_tile
from course.kernels.steps import Launch, ceil_div
from tests.course.compiled_samples import needs_compiler
from tests.course.kernels.launched import traced
from warpsim import cuda

EVERY = tuple(dict.fromkeys((*TILES, *STACK_TILES)))
SHAPES = [(0, 37, 152, 19), (3, 40, 36, 11), (5, 16, 16, 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tile", [*EVERY, WarpTile(8, 4, 2, 8)])
def test_a_tile_is_right_at_the_edges_and_has_no_error(tile, shape):
    images, rows, columns, k = shape
    stack, rng = (images,) if images else (), np.random.default_rng(7)
    shapes = (rows, k + 3), (k + 3,), (k + 3, columns)
    u, s, vt = (rng.standard_normal((*stack, *one)).astype(np.float32) for one in shapes)
    u[..., k:] = s[..., k:] = vt[..., k:, :] = np.inf  # never factors: 0 times infinity is no zero
    out = cuda.to_device(np.full((*stack, rows, columns), np.nan, np.float32))
    tiles = tile.tiles(rows, columns)
    blocks = ceil_div(max(images, 1) * tiles, tile.of_block)
    kernel = warp_per_tile(tile)[images > 0]
    there = map(cuda.to_device, (u, s, vt))
    traced(Launch(kernel, blocks, tile.threads, (*there, np.int32(k), out, np.int32(tiles))))
    scaled = u[..., :k].astype(float) * s[..., None, :k]
    bound = 2.0**-23 * (k + 2) * (np.abs(scaled) @ np.abs(vt[..., :k, :]))
    assert (np.abs(out.copy_to_host() - scaled @ vt[..., :k, :]) <= bound).all()


def test_an_image_has_the_same_bits_by_any_tile():
    rng = np.random.default_rng(7)
    u, s, vt = (rng.standard_normal(shape).astype(np.float32) for shape in ((21, 13), 13, (13, 40)))
    found = []
    for tile in (one for one in EVERY if not one.shared):
        out, tiles = np.empty((21, 40), np.float32), np.int32(tile.tiles(21, 40))
        kernel, _ = warp_per_tile(tile)
        kernel[ceil_div(int(tiles), WARPS), tile.threads](u, s, vt, np.int32(13), out, tiles)
        found.append(out)
    assert all(np.array_equal(found[0], other) for other in found)


@needs_compiler
@pytest.mark.parametrize("tile", EVERY)
@pytest.mark.parametrize("many", [False, True])
def test_a_tile_is_in_registers(tile, many):
    u, s = (types.Array(types.float32, axes + many, "C") for axes in (2, 1))
    kinds = u, s, u, types.int32, u, types.int32
    facts = compiled(warp_per_tile(tile)[many], kinds, "sm_80")
    assert facts.registers <= 168 and not facts.spills + facts.local_bytes
    assert not facts.float64_lines and "call" not in facts.ptx
