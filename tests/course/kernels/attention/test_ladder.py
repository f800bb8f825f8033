"""What is special about attention: warpgroups that wait, NaN, large scores, which step is taken."""

import numpy as np
import pytest

from course import backend, cuda
from course.heuristics.attention import Config, pingpong
from course.kernels.attention import LADDER, attention
from course.kernels.attention.ladder import by_warpgroups
from tests.course.kernels.contract import checked, in_float64
from tests.course.kernels.launched import traced

pytestmark = pytest.mark.usefixtures("h200")


def given(batch, tokens, heads, size):
    """One product (batch, tokens, 3, heads, size), with scores that are far from even."""
    rng = np.random.default_rng(3)
    return (2 * rng.standard_normal((batch, tokens, 3, heads, size))).astype(np.float16)


def assert_right(found, qkv):
    arrays = {name: np.ascontiguousarray(qkv[:, :, n]) for n, name in enumerate("qkv")}
    checked("attention", found=found, scale=None, **arrays)


def views(qkv):
    there = cuda.to_device(qkv)
    return there[:, :, 0], there[:, :, 1], there[:, :, 2]


#: Held scores of one and of two warpgroups, blocks with several items; a ring of steps, whose last
#: one begins earlier; heads of less and of more than one box; warpgroups that alternate.
CONFIGS = [
    (Config(1, 48, 2, 37), (2, 37, 3)), (Config(2, 112, 2, 100), (2, 100, 2)),
    (Config(1, 48, 1, 41, 3), (1, 41, 2)), (Config(1, 32, 2), (2, 70, 2)),
    (Config(2, 32, 2), (1, 140, 3)), (Config(1, 32, 2, 0, 1, 32), (1, 70, 3)),
    (Config(1, 48, 2, 37, 1, 80), (2, 37, 3)), (Config(2, 32, 2, 0, 1, 96), (1, 140, 2)),
    (Config(1, 32, 1, 20, 1, 128), (2, 20, 2)), (pingpong(48), (2, 140, 2)),
    (pingpong(32)._replace(size=80), (1, 70, 3)),
]  # fmt: skip


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("config", "size"), CONFIGS)
def test_warpgroups_wait_for_what_they_read(config, size):
    qkv = given(*size, config.size)
    out = cuda.to_device(np.full((*size[:2], size[2] * config.size), np.nan, np.float16))
    arrays = *views(qkv), out
    (its,) = by_warpgroups(config)(LADDER.problem(*arrays), *arrays)
    grid = its.grid if config.stages == 1 else 2  # so that blocks have several items
    report = traced(its, grid)
    assert_right(out, qkv)
    written = report.total("global", "store")
    assert written.sectors == out.size * 2 // 32  # whole sectors, each once


@pytest.mark.parametrize("size", [64, 80])
@pytest.mark.parametrize("method", LADDER.steps)
def test_nan_and_infinity_stay_in_their_row_head_and_image(method, size):
    qkv = given(2, 37, 2, size)
    qkv[0, 5, 0, 0, 3] = np.nan  # a query
    qkv[1, 36, 2, 1, 7] = np.nan  # a value
    qkv[1, 0, 1, 0, 2] = np.inf  # a key
    found = attention(*views(qkv), method=method).copy_to_host().reshape(2, 37, 2, size)
    wrong = ~np.isfinite(found)
    assert wrong[0, 5, 0].all() and wrong[0].sum() == size
    assert wrong[1, :, 1, 7].all() and wrong[1, :, 1].sum() == 37
    q = in_float64(qkv)[1, :, 0, 0, 2]
    assert np.isnan(found[1, q > 0, 0]).all()  # infinity over infinity, as in PyTorch
    assert np.isfinite(found[1, q < 0, 0]).all()  # a weight of zero


@pytest.mark.parametrize("method", ["online", "wgmma"])
def test_large_scores_do_not_overflow(method):
    """Scores of float16 beyond 65,504: exponents of differences are never above 0."""
    qkv = given(1, 33, 1, 64)
    qkv[:, :, :2] *= np.float16(40)
    found = attention(*views(qkv), 1.0, method=method).copy_to_host()
    assert np.isfinite(found).all()
    scores = in_float64(qkv)[0, :, 0, 0] @ in_float64(qkv)[0, :, 1, 0].T
    best = np.sort(scores, 1)
    clear = best[:, -1] - best[:, -2] > 50
    assert clear.any() and np.abs(scores).max() > 65_504
    wanted = in_float64(qkv)[0, scores.argmax(1)[clear], 2, 0]
    # a GPU's 2 ** (x - largest x) has the rounding of x in it, so a weight is near 1
    assert np.allclose(found[0][clear], wanted, rtol=2.0**-10, atol=0)


def test_auto_takes_the_fastest_that_fits():
    """What each method lacks, in words; what it lacks is another's."""

    def lacks(method, q, k, v):
        out = cuda.device_array((*q.shape[:2], q.shape[2] * q.shape[3]), np.float16)
        return LADDER.steps[method].lacks(LADDER.problem(q, k, v, out))

    assert not lacks("wgmma", *views(given(2, 37, 2, 64)))
    assert not lacks("wgmma", *views(given(1, 5, 1, 80)))
    shared = "shared memory: those of 1,000 tokens are 256,000 bytes"
    assert shared in lacks("fused", *views(np.zeros((1, 1000, 3, 1, 64), np.float16)))
    apart = cuda.to_device(np.zeros((2, 8, 2, 3, 64), np.float16))[:, :, :, 0]
    assert "side by side" in lacks("wgmma", apart, apart, apart)
    odd = cuda.to_device(np.zeros((2, 8, 2, 68), np.float16))[:, :, :, 4:]
    assert "multiples of 16 bytes" in lacks("online", odd, odd, odd)
    assert not lacks("scores", odd, odd, odd)
    if backend.gpu() is None:
        backend.simulate("T4")
        qkv = given(1, 5, 1, 64)
        wanted = "needs compute capability 8.0, and this GPU has 7.5"
        assert wanted in lacks("online", *views(qkv))
        assert_right(attention(*views(qkv)), qkv)
