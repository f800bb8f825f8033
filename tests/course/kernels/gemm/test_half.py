"""Products of float16 and bfloat16, simulated: layouts, shapes, epilogues, what is refused."""

import numpy as np
import pytest

from course import backend, cuda
from course.heuristics.gemm import SPLITS, GemmConfig
from course.kernels.gemm import half
from course.kernels.gemm.float32 import matmul
from course.kernels.gemm.half import LADDER, GemmProblem, launch_of
from tests.course.kernels.gemm.factors import Product
from warpsim.ptx import TensorMap
from warpsim.ptx.bfloat16 import BFLOAT16

pytestmark = pytest.mark.usefixtures("h200")


@pytest.mark.slow
@pytest.mark.parametrize("added", ["", "residual", "in place"])
@pytest.mark.parametrize(
    "config", [GemmConfig(2, 256, 3), GemmConfig(2, 192, 2), GemmConfig(1, 112, 2, 2)]
)
@pytest.mark.parametrize("depth", [200, 64])
def test_blocks_that_take_tile_after_tile_are_without_a_finding(config, added, depth):
    layout = "nt" if config.columns % 64 else "nn"  # boxes of 64 columns
    rows, columns = 2 * config.rows - 5, 2 * config.columns - 8
    its = Product(rows, columns, depth, layout, added=added)
    launch = launch_of(config._replace(added=bool(added)), 1, its.problem, *its.arrays)
    its.check([launch._replace(arguments=(*launch.arguments[:-1], np.int32(2)))], blocks=1)


@pytest.mark.slow
@pytest.mark.parametrize("added", ["", "in place"])
@pytest.mark.parametrize(("config", "splits"), [
    (GemmConfig(2, 160, 2, 1), 2), (GemmConfig(1, 112, 2, 1), 4), (GemmConfig(2, 64, 3, 1), 4),
    (GemmConfig(1, 192, 2, 1), 2),
])  # fmt: skip
def test_blocks_that_share_a_tile_are_without_a_finding(config, splits, added):
    layout = "nt" if config.columns % 64 else "tn"
    rows, columns, depth = 2 * config.rows - 8, config.columns + 8, 64 * 2 * splits + 72
    its = Product(rows, columns, depth, layout, added=added)
    its.check([launch_of(config._replace(added=bool(added)), splits, its.problem, *its.arrays)])


@pytest.mark.parametrize("splits", SPLITS)
def test_a_result_has_the_same_bits_in_any_tile_that_blocks_share(splits):
    """Of 120 rows the second tile begins at 56: their sums end in other blocks than of 128."""
    rng = np.random.default_rng(3)
    x, y, z, u, v, w = rng.standard_normal((6, 128, 320))
    a = np.hstack([1024 * x, -1024 * x, y, z]).astype(np.float16)  # large sums that cancel
    b = np.hstack([u, u, v, w])[:64].astype(np.float16)
    found = []
    for rows in (128, 120):
        out = cuda.to_device(np.full((rows, 64), np.nan, np.float16))
        arrays = cuda.to_device(a[:rows]), cuda.to_device(b), None, None, out
        problem = GemmProblem.of(*arrays, "nt")
        launch_of(GemmConfig(1, 64, 2, 1), splits, problem, *arrays).on()
        found.append(out.copy_to_host())
    assert np.array_equal(found[0][:120], found[1])


def test_a_turing_gpu_multiplies_float16():
    a, b = np.ones((40, 72), np.float16), np.ones((72, 24), np.float16)
    assert np.array_equal(matmul(a, b), np.full((40, 24), 72))
    if backend.gpu() is None:
        backend.simulate("T4")
        its = Product(40, 24, 72, "nn")
        its.check(LADDER.launches(*its.arrays, layout="nn"))
        with pytest.raises(ValueError, match="needs compute capability 8.0 for bfloat16"):
            matmul(a.view(BFLOAT16), b.view(BFLOAT16))
        with pytest.raises(ValueError, match="'roles' of gemm needs compute capability 9.0"):
            matmul(a, b, method="roles")


@pytest.mark.skipif(backend.gpu() is not None, reason="names a GPU that is not there")
def test_an_older_numba_cuda_is_refused_in_one_sentence_and_auto_does_without(monkeypatch):
    a = np.ones((8, 8), np.float16)
    installed = backend.installed_version
    monkeypatch.setattr(
        backend, "installed_version", lambda it: "0.29.1" if it == "numba-cuda" else installed(it)
    )
    monkeypatch.setattr(half.backend, "gpu", lambda: "H200")
    given = cuda.to_device(a), cuda.to_device(a), None, None, cuda.to_device(a)
    with pytest.raises(ValueError, match="'roles' of gemm needs numba-cuda 0.30, which"):
        LADDER.launches(*given, method="roles")
    assert LADDER.choose("auto", GemmProblem.of(*given))[0] == "thin"


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
