"""Matrices for the tests of the SVD, and how its factors are judged: bounds are the project's."""

import numpy as np

from course import cuda

RESIDUAL, SIGMA, ORTHOGONAL = 1e-6, 5e-7, 2e-6


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def errors_of_each(a, factors):
    """The figures of each matrix, by name: arrays (batch,)."""
    a, u, s, vt = (np.asarray(x, np.float64) for x in (a, *factors))
    exact = np.linalg.svd(a, compute_uv=False)
    one = np.eye(s.shape[-1])
    norm, top = np.linalg.norm(a, axis=(1, 2)), exact[:, :1]
    residual = np.linalg.norm(a - (u * s[:, None]) @ vt, axis=(1, 2)) / np.where(norm, norm, 1)
    sigma = np.abs(s - exact) / np.where(top, top, 1)
    return {
        "relative residual": residual,
        "error of a singular value": sigma.max(1),
        "orthogonality of u": np.abs(u.swapaxes(1, 2) @ u - one).max((1, 2)),
        "orthogonality of vt": np.abs(vt @ vt.swapaxes(1, 2) - one).max((1, 2)),
    }


def errors(a, factors):
    """Relative residual, largest error of a singular value, and both orthogonality errors."""
    return tuple(each.max() for each in errors_of_each(a, factors).values())


def assert_right(a, factors):
    (batch, m, n), r = a.shape, min(a.shape[1:])
    shapes = (batch, m, r), (batch, r), (batch, r, n)
    assert tuple(x.shape for x in factors) == shapes
    assert all(x.dtype == np.float32 for x in factors)
    assert (factors[1][:, :-1] >= factors[1][:, 1:]).all() and (factors[1] >= 0).all()
    bounds = RESIDUAL, SIGMA, ORTHOGONAL, ORTHOGONAL
    for (figure, each), most in zip(errors_of_each(a, factors).items(), bounds, strict=True):
        wrong = np.flatnonzero(~(each <= most))  # NaN is wrong, too
        assert not wrong.size, (
            f"{figure}: {each[wrong[0]]:.3g} in matrix {wrong[0]} of {batch}, {m} x {n}, but at "
            f"most {most:g} is right; wrong in the matrices {wrong.tolist()}"
        )


def special(rng, n):
    """Square matrices on which SVDs break, by name."""
    q, p = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    few = max(1, n // 5)
    low = normal(rng, n, few) @ normal(rng, few, n)
    holes = normal(rng, n, n)
    holes[:, ::3] = 0
    holes[1] = 0
    return {
        "zero": np.zeros((n, n)),
        "low rank": low,
        "one row": np.ones((n, n)),
        "zero rows and columns": holes,
        "identity": 3 * np.eye(n),
        "diagonal, ascending": np.diag(np.arange(n)),
        "repeated": (q * np.repeat([4.0, 1.0], [n // 2, n - n // 2])) @ p,
        "graded": (q * 10.0 ** -np.linspace(0, 9, n)) @ p,
        "one entry": np.eye(1, n, n - 1) * np.eye(n, 1, -1),
        "triangular": np.triu(np.ones((n, n))),
    }


def factors_of(solver_shape, k=None):
    """Memory on the GPU for factors."""
    batch, m, n = solver_shape
    k = k or min(m, n)
    return [cuda.device_array(shape, np.float32) for shape in ((batch, m, k), (batch, k),
                                                              (batch, k, n))]  # fmt: skip


def solved(solver, a):
    """Factors of a by a solver, on the host, whose memory was poisoned."""
    factors = factors_of(a.shape)
    for factor in factors:
        factor.copy_to_device(np.full(factor.shape, np.nan, np.float32))
    solver(cuda.to_device(a), *factors)
    return [factor.copy_to_host() for factor in factors]


def same(left, right):
    return all(np.array_equal(x, y) for x, y in zip(left, right, strict=True))


def without_full_rank(rng, *shape):
    """Random matrices, the first of which has rank 3."""
    a = normal(rng, *shape)
    a[0] = normal(rng, shape[1], 3) @ normal(rng, 3, shape[2])
    return a
