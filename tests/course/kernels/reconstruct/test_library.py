"""Stacks by cuBLAS: what it is asked for is the product, of slices of larger arrays, too."""

import numpy as np
import pytest

from course import gpu
from course.backend import cuda
from course.kernels.reconstruct import library
from course.kernels.reconstruct.ladder import reconstruct

pytestmark = pytest.mark.usefixtures("h200")


@pytest.mark.drawn(4)
@pytest.mark.parametrize("seed", range(3))
def test_drawn_stacks(blas, seed):
    rng = np.random.default_rng(seed)
    images, rows, columns = (int(2 ** rng.uniform(0, most)) for most in (3, 6, 6))
    r = min(rows, columns)
    k = int(rng.integers(1, r + 1))
    u, s, vt = (
        cuda.to_device(rng.standard_normal(its, dtype=np.float32))
        for its in ((images, rows + 1, r + 2), (images, r), (images, r, columns + 3))
    )
    u, vt = u[:, :rows, :r], vt[:, :, :columns]
    out = cuda.to_device(np.full((images, rows, columns + 1), np.nan, np.float32))
    reconstruct(u, s, vt, k, out[:, :, :columns], "library")
    u, s, vt, out = (its.copy_to_host().astype(np.float64) for its in (u, s, vt, out))
    right = u[..., :k] * s[:, None, :k] @ vt[:, :k]
    assert np.linalg.norm(out[..., :columns] - right) <= 2e-6 * np.linalg.norm(right)
    assert np.isnan(out[..., columns:]).all()


def test_what_cublas_does_not_take_is_refused_in_words(blas, monkeypatch):
    u, s, vt = (np.ones(its, np.float32) for its in ((4, 3), 3, (3, 5)))
    with pytest.raises(ValueError, match="'library' of reconstruct takes stacks"):
        reconstruct(u, s, vt, 2, method="library")
    backwards = cuda.to_device(np.ones((2, 3, 5), np.float32))[:, ::-1]
    u, s = (cuda.to_device(np.stack([its] * 2)) for its in (u, s))
    with pytest.raises(ValueError, match="each row behind the one before it"):
        reconstruct(u, s, backwards, 2, method="library")
    monkeypatch.setattr(library.library, "cublas", lambda: None)
    if gpu() is None:
        with pytest.raises(ValueError, match="needs a GPU, and CuPy or PyTorch"):
            reconstruct(u, s, cuda.to_device(np.ones((2, 3, 5), np.float32)), 2, method="library")
