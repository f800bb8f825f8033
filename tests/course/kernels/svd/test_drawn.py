"""Matrices drawn over the whole range of float32, and their SVDs, beside NumPy's in float64."""

import numpy as np
import pytest

from course.images import images
from course.images.reading import ImageError
from course.kernels.svd import rank_k, svd
from tests.course.kernels.svd_samples import ORTHOGONAL, RESIDUAL, SIGMA, special

LARGEST, LEAST = float(np.finfo(np.float32).max), 2.0**-149
INFINITE = LARGEST + 2.0**103  # from here on a number is infinite as a float32
NAMES = [*special(np.random.default_rng(0), 5), "normal", "ones", "mixed", "flat and noise"]
METHODS = ("plain", "shared", "blocks", "one launch", "registers")


def drawn(rng, m, n):
    """A matrix of float32, of any kind, whose largest entry is anywhere in its range."""
    name, size = rng.choice(NAMES), max(m, n, 2)
    if name == "normal":
        a = rng.standard_normal((m, n))
    elif name == "ones":
        a = np.ones((m, n))
    elif name == "mixed":
        a = rng.standard_normal((m, n)) * 2.0 ** rng.integers(-150, 1, (m, n))
    elif name == "flat and noise":
        a = 1 + 1e-7 * rng.standard_normal((m, n))
    else:
        a = np.asarray(special(rng, size)[name], np.float64)[:m, :n]
    a = a / (abs(a).max() or 1)
    ends = LARGEST, LEAST, 1.2e-38, 2.0 ** rng.integers(-149, 128)
    return (a * ends[rng.integers(len(ends))]).astype(np.float32)


def assert_right(a, u, s, vt, name):
    """To the bounds of the project, and half of the least float32 for each number."""
    a, u, s, vt = (np.asarray(x, np.float64) for x in (a, u, s, vt))
    exact = np.linalg.svd(a, compute_uv=False)[: len(s)]
    assert (s[:-1] >= s[1:]).all() and (s >= 0).all(), name
    assert (abs(s - exact) <= SIGMA * exact[0] + LEAST).all(), name
    one = np.eye(len(s))
    assert abs(vt @ vt.T - one).max() < ORTHOGONAL and abs(u.T @ u - one).max() < ORTHOGONAL, name
    best = np.linalg.norm(np.linalg.svd(a, compute_uv=False)[len(s) :])
    wrong = np.linalg.norm(a - (u * s) @ vt) - 1.05 * best
    assert wrong <= RESIDUAL * np.linalg.norm(a) + LEAST * len(s), name


SEEDS = [pytest.param(s, marks=pytest.mark.slow if s else ()) for s in range(24)]


@pytest.mark.parametrize("seed", SEEDS)
def test_any_finite_matrices_are_decomposed_or_refused_for_their_values(seed):
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, 9 if seed == 0 else 24, 2)
    batch = np.stack([drawn(rng, m, n) for _ in range(6)])
    beyond = [s[0] >= INFINITE for s in np.linalg.svd(batch.astype(float), compute_uv=False)]
    few = {"k": int(rng.integers(1, min(m, n) + 1))}
    call, more = (rank_k, few) if seed % 3 == 2 else (svd, {})
    if any(beyond):
        with pytest.raises(ValueError, match=rf"a\[{np.argmax(beyond)}\] has a singular value bey"):
            call(batch, **more)
    right = batch[~np.array(beyond)]
    for a, *factors in zip(right, *call(right, **more), strict=True):
        assert_right(a, *factors, seed)


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_rows_and_columns_of_very_different_lengths_give_orthonormal_factors(seed):
    """The cosine of two short rows changes as each of them is rotated with longer ones."""
    rng = np.random.default_rng([seed, 24])
    m, n = rng.integers(4, 10 if seed == 0 else 25, 2)
    a = rng.standard_normal((4, m, n))
    rows, columns = rng.integers(0, 40, 2)  # powers of two that their lengths span
    a *= 2.0 ** -rng.uniform(0, rows, (4, m, 1)) * 2.0 ** -rng.uniform(0, columns, (4, 1, n))
    for method in METHODS:
        for one, *factors in zip(np.float32(a), *svd(np.float32(a), method=method), strict=True):
            assert_right(one, *factors, (seed, method))


@pytest.mark.slow
@pytest.mark.parametrize("power", (-149, -126, -60, 0, 60, 120))
def test_a_sketch_does_not_mind_where_numbers_lie(power):
    rng = np.random.default_rng(power + 200)
    a = rng.standard_normal((40, 5)) @ rng.standard_normal((5, 36))
    a = (a / abs(a).max() * 2.0**power).astype(np.float32)
    assert_right(a, *rank_k(a, 4, method="shared"), power)


@pytest.mark.parametrize("seed", range(8))
def test_leading_values_are_sorted_and_right_wherever_they_lie(seed):
    rng = np.random.default_rng(seed)
    for case in range(25):
        m, n = rng.integers(1, 20, 2)
        a = drawn(rng, m, n).astype(np.float64) * 2.0 ** rng.choice([0, 0, 0, -850, 700])
        k = int(rng.integers(1, min(m, n) + 1))
        exact = np.linalg.svd(a, compute_uv=False)
        name = f"seed {seed}, case {case}: {m} x {n}, k {k}"
        if exact[0] > LARGEST:
            for call in (lambda: images.leading_svd(a, k), lambda: images.svd(a)):  # noqa: B023
                with pytest.raises(ImageError, match="singular value beyond float32's largest"):
                    call()
            continue
        u, s, vt = images.leading_svd(a, k)
        assert (s[:-1] >= s[1:]).all(), name
        assert (abs(s - exact[:k]) <= 2e-7 * exact[0] + LEAST).all(), name
        best = np.linalg.norm(exact[k:])
        wrong = np.linalg.norm(a - (u.astype(float) * s) @ vt)
        assert wrong <= best + 1e-6 * np.linalg.norm(a) + LEAST * k, name
        assert (images.svd(a)[1] == exact.astype(np.float32)).all(), name
