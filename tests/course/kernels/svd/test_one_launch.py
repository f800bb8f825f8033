"""Small matrices in one launch: right in any company, completed where singular values are zero."""

import numpy as np
import pytest

from course import cuda, gpu
from course.kernels.svd import NotConverged, one_launch, rank_k, svd
from course.kernels.svd import ladder as solvers
from tests.course.kernels.svd_samples import (
    ORTHOGONAL,
    assert_right,
    factors_of,
    normal,
    special,
    without_full_rank,
)
from warpsim.host import gpus

SHAPES = [(8, 5), (16, 16), (30, 41), (50, 33)]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("shape", SHAPES)
def test_matrices_on_which_svds_break_tall_square_and_wide(rng, shape):
    m, n = shape
    a = np.stack([np.asarray(one)[:m, :n] for one in special(rng, max(shape)).values()])
    a = a.astype(np.float32)
    assert_right(a, svd(a, method="one launch"))
    wide = np.ascontiguousarray(a[:4].swapaxes(1, 2))
    assert_right(wide, svd(wide, method="one launch"))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("size", one_launch.SIZES)
def test_blocks_of_any_number_of_warps_give_the_same_to_the_bit(rng, monkeypatch, size):
    monkeypatch.setattr(gpus, "_chosen", gpus.find("H200"))  # a T4 has too little for 64
    a, found = without_full_rank(rng, 2, size + 9, size - 1), []
    for warps in (one_launch.FEW_WARPS, one_launch.MANY_WARPS):
        monkeypatch.setattr(one_launch, "FEW_WARPS", warps)
        out = factors_of(a.shape)
        told = cuda.to_device(np.zeros((4, 2), np.int32))
        one_launch.launch(cuda.to_device(a), *out, told, 60).on()
        found.append([one.copy_to_host() for one in out])
    assert all(map(np.array_equal, *found))
    assert_right(a, found[0])


@pytest.mark.parametrize("lost", [1, 6, 12])
def test_leading_vectors_are_orthonormal_where_values_are_zero(rng, lost):
    a = normal(rng, 1, 20, 12 - lost) @ normal(rng, 1, 12 - lost, 14)
    u, s, vt = rank_k(a, 12)
    assert s.shape == (1, 12) and (s[0, 12 - lost :] <= 1e-6 * s[0, 0]).all()
    for one in (u[0].T @ u[0], vt[0] @ vt[0].T):
        assert np.abs(one - np.eye(12)).max() <= ORTHOGONAL


def test_what_does_not_converge_is_told(rng, monkeypatch):
    monkeypatch.setattr("course.kernels.svd.MOST_SWEEPS", 1)
    with pytest.raises(NotConverged, match="2 of 2 matrices.*1 sweeps.*'one launch'"):
        svd(normal(rng, 2, 12, 12))


def test_beyond_shared_memory_is_refused_in_words():
    assert one_launch.refusal(64, 200, 232_448) == ""
    assert "bytes of shared memory for 1024 x 64" in one_launch.refusal(64, 1024, 232_448)
    assert "at most 64; given 65" in one_launch.refusal(65, 65, 232_448)


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason="many matrices take a GPU")
@pytest.mark.parametrize("size", one_launch.SIZES)
@pytest.mark.parametrize("length", [8, 64, 600])
def test_many_matrices(rng, size, length):
    for batch in (3, 1000):
        a = normal(rng, batch, length, size - 2)
        if not solvers.LADDER["one launch"].lacks(solvers.SVDProblem(*sorted(a.shape[1:]))):
            assert_right(a, svd(a, method="one launch"))
