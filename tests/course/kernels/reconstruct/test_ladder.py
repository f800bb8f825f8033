"""The kernels that rebuild an image from its SVD agree with float64, and cost what they say."""

import types

import numpy as np
import pytest

from course import backend, gpu, trace
from course.backend import cuda
from course.images import images
from course.kernels.reconstruct import thin_tiles, warp_tiles
from course.kernels.reconstruct.ladder import (
    LADDER,
    OLDER,
    SPLIT,
    THIN,
    ImageProblem,
    TileStep,
    factors_are_aligned,
    reconstruct,
)
from course_lessons.lesson06 import ladder
from warpsim.host import gpus

SHAPES = [(1, 1), (3, 2), (13, 7), (17, 33), (31, 64), (5, 101)]
FIRST = ("original", "float32", "naive", "tiled")
APART = ("warpgroups", "warp per tile", "library")  # with tests of their own
#: TF32 keeps 11 bits of each factor.
LIMITS = {"tf32": 1e-3}


pytestmark = pytest.mark.usefixtures("h200")


def relative_error(result, expected):
    return np.linalg.norm(result - expected) / np.linalg.norm(expected)


def float64_reference(u, s, vt, k):
    u, s, vt = (factor.astype(np.float64) for factor in (u, s, vt))
    return (u[:, :k] * s[:k]) @ vt[:k]


def test_gaps_in_rows_are_refused_by_the_arrays_names_with_what_to_do():
    u, s, vt = (cuda.to_device(np.ones(shape, np.float32)) for shape in ((4, 8), 8, (8, 12)))
    gaps = "those of u lie 8 bytes apart, those of vt lie 8 bytes apart: choose 'original', "
    with pytest.raises(ValueError, match=f"as a copy in C order has them, and {gaps}"):
        reconstruct(u[:, ::2], s[:4], vt[:4, ::2], 2, method="wide")
    u, s, vt = (cuda.to_device(np.ones((2, *its.shape), np.float32)) for its in (u, s, vt))
    with pytest.raises(ValueError, match="a copy in C order .*: choose other arrays, or another"):
        reconstruct(u, s, vt[:, :, ::2], 2)


@pytest.mark.parametrize("factor", [1e-30, 1e-6, 1.0, 1e6, 1e15])
def test_tensor_cores_take_any_magnitude(rng, factor):
    u = rng.standard_normal((64, 40)).astype(np.float32) * np.float32(factor)
    s = np.logspace(3, -3, 40, dtype=np.float32)
    vt = rng.standard_normal((40, 72)).astype(np.float32)
    rebuilt = reconstruct(u, s, vt, 40, method="tensor cores")
    assert relative_error(rebuilt, float64_reference(u, s, vt, 40)) < 5e-7


def test_tensor_cores_make_zeros_of_zeros_and_keep_nan():
    u, s, vt = np.zeros((8, 4), np.float32), np.ones(4, np.float32), np.ones((4, 8), np.float32)
    assert not reconstruct(u, s, vt, 4, method="tensor cores").any()
    u[3, 1] = np.nan
    rebuilt = reconstruct(u, s, vt, 4, method="tensor cores")
    assert np.isnan(rebuilt[3]).all()


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("its", "k", "aligned"), [
    *((warp_tiles, k, aligned) for k in (1, 7, 8, 24) for aligned in (True, False)),
    *((thin_tiles, k, True) for k in (1, 16, 49, 56)),
])  # fmt: skip
def test_tiles_are_right_at_the_edges_and_read_nothing_behind_k(rng, its, k, aligned):
    rows, columns = its.BLOCK_ROWS + 21, its.BLOCK_COLUMNS + (4 if aligned else 3)
    r = 60 if aligned else 57
    u, s, vt = (rng.random(size, dtype=np.float32) for size in ((rows, r), r, (r, columns)))
    out = np.full((rows, columns), np.nan, np.float32)
    expected = float64_reference(u, s, vt, k)
    for factor in (u[:, k:], s[k:], vt[k:]):  # never factors: 0 times infinity is no zero
        factor[:] = np.inf
    one, many = its.thin_tiles() if its is thin_tiles else its.warp_tiles(aligned)
    if gpu() is None:
        report = trace(one, (2, 2), its.THREADS, u, s, vt, k, out)
        assert not [finding for finding in report.findings if finding.is_error]
        assert report.total("shared", "load").conflicts == 0
    else:
        one[(2, 2), its.THREADS](u, s, vt, k, out)
    assert relative_error(out, expected) < 1e-6
    stack = np.full((1, rows, columns), np.nan, np.float32)
    many[(2, 2, 1), its.THREADS](u[None], s[None], vt[None], k, stack)
    assert np.array_equal(stack[0], out)


@pytest.mark.parametrize(("k", "odd", "columns"), [(50, 0, 132), (56, 4, 132), (57, 4, 132),
                                                   (50, 0, 131)])  # fmt: skip
def test_few_singular_values_need_no_pass_and_rows_of_u_may_begin_anywhere(rng, k, odd, columns):
    """A truncated u has rows of k numbers, 50 say, which begin on no multiple of 16 bytes."""
    r, out = k + odd, cuda.device_array((2, 70, columns), np.float32)
    shapes = (2, 70, r), (2, r), (2, r, columns)
    u, s, vt = (rng.random(size, dtype=np.float32) for size in shapes)
    there = [*map(cuda.to_device, (u, s, vt)), out]
    launches = LADDER.launches(*there, k=k, method="tensor cores")
    is_thin = launches[0].kernel is THIN.kernels[True, True]
    assert is_thin == (len(launches) == 1) == (k <= 56 and columns % 4 == 0)
    for launch in launches:
        launch.on()
    expected = [float64_reference(*factors, k) for factors in zip(u, s, vt, strict=True)]
    assert relative_error(there[-1].copy_to_host(), np.array(expected)) < 2e-7


@pytest.mark.parametrize(
    ("module", "make"),
    [(warp_tiles, lambda: warp_tiles.warp_tiles(True)), (thin_tiles, thin_tiles.thin_tiles)],
)
def test_numba_is_told_with_the_function_not_to_optimise_when_it_links(monkeypatch, module, make):
    """numba-cuda drops ``lto=`` of a decorator that is called without the function."""
    told = []

    def jit(function=None, **options):
        if "lto" in options:
            told.append((function.__name__, options["lto"]))
        return function if function else lambda function: function

    fake = types.SimpleNamespace(jit=jit)
    monkeypatch.setattr(module, "cuda", fake)
    monkeypatch.setattr(backend, "_cuda", lambda: fake)
    make()
    assert [lto for _, lto in told] == [False, False]


@pytest.mark.skipif(gpu() is not None, reason="chooses another GPU to simulate")
def test_older_gpus_have_their_own_steps(monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", gpus.find("Tesla T4"))
    shapes = (512, 12), 12, (12, 512), (512, 512)
    there = [cuda.device_array(shape, np.float32) for shape in shapes]
    assert LADDER.launches(*there, k=9, method="tensor cores")[-1].kernel is OLDER.kernel
    for name in ("asynchronous", "tf32"):
        with pytest.raises(ValueError, match=r"needs compute capability 8.0, and this GPU has 7.5"):
            LADDER.choose(name, ImageProblem.of_shape(512, 512, 64))


@pytest.mark.skipif(gpu() is not None, reason="simulates a Tesla T4")
@pytest.mark.parametrize("name", ["warp tiles", "tensor cores"])
def test_steps_of_older_gpus_are_right(monkeypatch, rng, name):
    monkeypatch.setattr(gpus, "_chosen", gpus.find("Tesla T4"))
    u, s, vt = (rng.random(shape, dtype=np.float32) for shape in ((130, 40), 40, (40, 133)))
    rebuilt = reconstruct(u, s, vt, 37, method=name)
    assert relative_error(rebuilt, float64_reference(u, s, vt, 37)) < 1e-6


@pytest.mark.drawn(3)
@pytest.mark.parametrize("step", [name for name in LADDER if name not in (*FIRST, *APART)])
def test_register_tiles_load_what_they_say_and_have_no_error(rng, step):
    rows, columns, k = 128, 128, 32
    u, s, vt = (rng.random(shape, dtype=np.float32) for shape in ((rows, k), k, (k, columns)))
    chosen = LADDER[step]
    out = np.full((rows, columns), np.nan, np.float32)
    if step in SPLIT:
        reports = ladder.trace_fragments(step, u, s, vt, k, out)
    else:
        grid, given = chosen.grid(rows, columns), (u, s, vt, k, out)
        reports = [trace(chosen.kernel, grid, chosen.block, *given, gpu="H200")]
    report = reports[-1]
    assert not [f for one in reports for f in one.findings if f.is_error], report
    assert relative_error(out, float64_reference(u, s, vt, k)) < LIMITS.get(step, 1e-6)
    down, across = chosen.tile
    assert report.total("global", "load").bytes >= 4 * rows * columns * k * (1 / down + 1 / across)
    if step not in ("column", "square", "asynchronous"):
        assert report.total("shared", "load").conflicts == 0


def test_alignment(rng):
    whole = cuda.device_array((8, 16), np.float32)
    assert factors_are_aligned(whole, whole, whole)
    assert not factors_are_aligned(whole, whole[:, 1:5], whole)
    assert factors_are_aligned(whole[:, 4:], whole[:, 4:8], whole)
    assert not factors_are_aligned(whole, whole[:, :6], whole)
    odd = cuda.device_array((8, 5), np.float32)
    assert not factors_are_aligned(odd, whole, whole)


@pytest.mark.parametrize("walks", ["rows", "columns"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("block", [(16, 16), (32, 4), (5, 7)])
def test_grid_covers_every_pixel_and_no_block_is_idle(walks, shape, block):
    tile = block if walks == "rows" else block[::-1]
    grid_x, grid_y = TileStep(None, block=block, tile=tile, x_walks=walks).grid(*shape)
    along_x, along_y = shape if walks == "rows" else shape[::-1]
    assert (grid_x - 1) * block[0] < along_x <= grid_x * block[0]
    assert (grid_y - 1) * block[1] < along_y <= grid_y * block[1]


def traced(step, u, s, vt, k):
    chosen = LADDER[step]
    out = np.full((len(u), vt.shape[1]), np.nan, np.float32)
    columns_of_u = np.ascontiguousarray(u[:, :k])
    grid = chosen.grid(*out.shape)
    report = trace(chosen.kernel, grid, chosen.block, columns_of_u, s[:k], vt[:k], k, out)
    assert np.abs(out - float64_reference(u, s, vt, k)).max() < 1e-4
    return report


def test_lanes_of_warp_tiles_stand_so_that_they_read_fewer_fours(rng):
    u, s, vt = (rng.random(size, dtype=np.float32) for size in ((128, 16), 16, (16, 128)))
    reads = [traced(step, u, s, vt, 16).total("shared", "load") for step in ("wide", "warp tiles")]
    assert reads[0].requests == reads[1].requests
    assert [read.wavefronts / read.requests for read in reads] == [3, 2]


@pytest.mark.parametrize(("rows", "columns", "k"), [(64, 64, 32), (33, 50, 17), (1, 1, 1)])
def test_tiled_has_no_finding(rng, rows, columns, k):
    u, s, vt = images.svd(rng.random((rows, columns)))
    report = traced("tiled", u, s, vt, k)
    kinds = {finding.kind for finding in report.findings}
    assert kinds <= {"uncoalesced"}  # rows that begin inside a sector, where columns % 8 != 0
    assert columns % 8 or not kinds
    assert report.total("shared", "load").conflicts == 0


def test_tiled_moves_an_eighth_of_the_sectors_of_naive(rng):
    factors = images.svd(rng.random((64, 64)))
    naive, tiled = (
        traced(step, *factors, 32).total("global", "load").sectors for step in ("naive", "tiled")
    )
    assert (naive, tiled) == (20_480, 2_560)
