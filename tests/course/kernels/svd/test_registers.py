"""Matrices of up to 128 columns: right in any company, completed where values are zero."""

import numpy as np
import pytest

from course import gpu
from course.kernels.svd import NotConverged, rank_k, registers, svd
from course.kernels.svd import ladder as solvers
from tests.course.kernels.svd_samples import ORTHOGONAL, assert_right, normal, special

SHAPES = [(8, 5), (30, 41), (36, 33)]  # beside the square ones of test_ladder.py


@pytest.mark.drawn(4)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", ["one launch", "registers"])
def test_matrices_on_which_svds_break_tall_square_and_wide(rng, method, shape):
    m, n = shape
    if method == "one launch" and min(shape) > 32:
        pytest.skip("takes up to 32 columns")
    a = np.stack([np.asarray(one)[:m, :n] for one in special(rng, max(shape)).values()])
    a = a.astype(np.float32)
    assert_right(a, svd(a, method=method))
    if m > n:
        wide = np.ascontiguousarray(a[:4].swapaxes(1, 2))
        assert_right(wide, svd(wide, method=method))


@pytest.mark.parametrize("lost", [1, 6, 12])
def test_leading_vectors_are_orthonormal_where_values_are_zero(rng, lost):
    a = normal(rng, 1, 20, 12 - lost) @ normal(rng, 1, 12 - lost, 14)
    u, s, vt = rank_k(a, 12)
    assert s.shape == (1, 12) and (s[0, 12 - lost :] <= 1e-6 * s[0, 0]).all()
    for one in (u[0].T @ u[0], vt[0] @ vt[0].T):
        assert np.abs(one - np.eye(12)).max() <= ORTHOGONAL


def test_what_does_not_converge_is_told(rng, monkeypatch):
    monkeypatch.setattr(registers, "MOST_SWEEPS", 1)
    with pytest.raises(NotConverged, match="2 of 2 matrices.*1 sweeps.*'one launch'"):
        svd(normal(rng, 2, 12, 12))


def test_beyond_shared_memory_is_refused_in_words(monkeypatch):
    def refusal(name, columns, limit, rows=0):
        monkeypatch.setattr(solvers, "shared_memory_limit", lambda: (limit, True))
        return solvers.LADDER[name].refusal(solvers.SVDProblem(columns, rows))

    assert refusal("registers", 128, 232_448) == refusal("registers", 80, 65_536) == ""
    assert "bytes of shared memory for 81 columns" in refusal("registers", 81, 65_536)
    assert "at most 128; given 129" in refusal("registers", 129, 232_448)
    assert refusal("one launch", 32, 65_536, 300) == ""
    assert "memory for 600 x 32, and a block has at" in refusal("one launch", 32, 65_536, 600)


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason="many matrices take a GPU")
@pytest.mark.parametrize("size", registers.SIZES)
@pytest.mark.parametrize("length", [8, 64, 600])
def test_many_matrices(rng, size, length):
    for batch in (3, 1000):
        a = normal(rng, batch, length, size - 2)
        if not solvers.LADDER["registers"].lacks(solvers.SVDProblem(*sorted(a.shape[1:]))):
            assert_right(a, svd(a, method="registers"))
            assert_right(a, svd(a))
