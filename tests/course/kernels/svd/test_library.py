"""What is handed to cuSOLVER: by which rule, with which results, and what comes back from there."""

import ctypes
from contextlib import nullcontext

import numpy as np
import pytest

import course.kernels.svd as package
from course import gpu
from course.heuristics import svd as heuristics
from course.kernels.svd import library, rank_k, svd
from tests.course.kernels.svd_samples import ORTHOGONAL, assert_right, errors, normal, same, special


def at(address, columns, pitch, dtype=ctypes.c_float):
    """A matrix in memory, as its columns."""
    return np.ctypeslib.as_array((dtype * (columns * pitch)).from_address(address)).reshape(
        columns, pitch
    )


class NumPys:
    """NumPy in cuSOLVER's and cuBLAS's place, by their signatures; `gesvda`'s signs are its own."""

    CUSOLVER_EIG_MODE_VECTOR = 1

    def __init__(self):
        self.asked, self.stream, self.cusolver, self.cublas = [], nullcontext(), self, self
        self.handles = lambda: ("cuSOLVER", "cuBLAS")
        sizes = "sgesvdaStridedBatched", "sgeqrf", "sorgqr"
        vars(self).update({f"{name}_bufferSize": lambda *_: 1 for name in sizes})

    def sgesvdaStridedBatched(
        self, handle, mode, k, m, n, a, pitch, step, s, s_step, u, u_pitch, u_step, v, v_pitch,
        v_step, work, size, info, norms, batch,
    ):  # fmt: skip
        assert (handle, mode, size, m >= n >= k) == ("cuSOLVER", 1, 1, True)
        self.asked.append((batch, n, m))
        signs = np.where(np.arange(k) % 3 == 1, -1, 1)[:, None]
        for one in range(batch):
            matrix = at(a + 4 * one * step, n, pitch)[:, :m].T.astype(np.float64)
            left, values, right = np.linalg.svd(matrix, full_matrices=False)
            at(u + 4 * one * u_step, k, u_pitch)[:] = left.T[:k] * signs
            at(v + 4 * one * v_step, k, v_pitch)[:] = right[:k] * signs
            with np.errstate(over="ignore"):
                at(s + 4 * one * s_step, 1, k)[:] = values[:k]
        at(info, 1, batch, ctypes.c_int)[:] = 0

    def sgeqrf(self, handle, m, n, a, pitch, factors, work, size, info):
        assert (handle, size) == ("cuSOLVER", 1)
        columns = at(a, n, pitch)
        columns[:] = np.linalg.qr(columns[:, :m].T)[0].T

    def sorgqr(self, handle, m, n, k, a, pitch, factors, work, size, info):
        assert (handle, k, size) == ("cuSOLVER", n, 1)

    def sgemm(self, handle, of_a, of_b, m, n, k, by, a, a_pitch, b, b_pitch, more, out, pitch):
        assert (handle, of_b, at(by, 1, 1), at(more, 1, 1)) == ("cuBLAS", 0, 1, 0)
        left = at(a, m if of_a else k, a_pitch)
        at(out, n, pitch)[:] = at(b, n, b_pitch) @ (left.T if of_a else left)


@pytest.fixture
def by_numpy(monkeypatch):
    """NumPy in the libraries' place; the matrices that it was asked for."""
    if gpu() is not None:
        pytest.skip("NumPy reads the host's memory")
    there, device = NumPys(), package.cuda.get_current_device()
    monkeypatch.setattr(heuristics, "FAST_FLOAT64", (tuple(device.compute_capability),))
    monkeypatch.setattr(library, "libraries", lambda: there)
    monkeypatch.setattr(heuristics, "LEAST_COLUMNS", 4)
    yield there.asked
    package.forget()


@pytest.mark.drawn(3)
def test_drawn_matrices(rng, by_numpy):
    a = normal(rng, int(rng.integers(2, 4)), *rng.integers(4, 40, 2))
    a *= np.float32(10.0 ** rng.integers(-25, 25))
    factors = svd(a)
    assert by_numpy
    assert_right(a, factors)
    _, m, n = a.shape
    short = factors[2] if m >= n else factors[0].swapaxes(1, 2)
    assert (np.take_along_axis(short, abs(short).argmax(2)[..., None], 2) > 0).all()
    k = int(rng.integers(1, min(m, n) + 1))
    cut = factors[0][:, :, :k], factors[1][:, :k], factors[2][:, :k]
    assert same(rank_k(a, k), cut)
    assert same(rank_k(a[0], k), [one[0] for one in cut])


@pytest.mark.drawn(3)
def test_drawn_sketches_of_one_matrix(rng, by_numpy):
    shape, k = sketch_is_right(rng)
    assert by_numpy == 3 * [(2, k + heuristics.MORE, min(shape))]


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason="cuSOLVER takes a GPU")
@pytest.mark.drawn(8)
def test_drawn_sketches_on_a_gpu(rng):
    if not library.takes((129, 129), 1):
        pytest.skip("takes CuPy and a GPU with fast float64")
    sketch_is_right(rng, 800)
    a = normal(rng, 150, 140)
    values, huge = rank_k(a, 5)[1], np.float32(2.0**90)  # whose squares are infinite
    np.testing.assert_allclose(rank_k(a * huge, 5)[1], values * huge, rtol=0.1)
    a[7, 9] = np.nan
    with pytest.raises(ValueError, match=r"a\[0\] holds NaN"):
        rank_k(a, 5)


def sketch_is_right(rng, longest=180):
    """Check `rank_k` of one matrix that is nearly of rank k; its shape, and k."""
    m, n = (int(side) for side in rng.integers(129, longest, 2))
    k, power, scale = int(rng.integers(1, 8)), int(rng.integers(0, 4)), 10.0 ** rng.integers(-9, 9)
    large = normal(rng, m, k) @ normal(rng, k, n)
    a = ((large + np.float32(1e-3) * normal(rng, m, n)) * np.float32(scale)).astype(np.float32)
    u, s, vt = rank_k(a, k, power, seed=int(rng.integers(9)))
    exact = np.linalg.svd(a.astype(np.float64), False)
    assert abs(s - exact[1][:k]).max() <= 1e-5 * exact[1][0]
    left, least = np.linalg.norm(a - (u * s).astype(np.float64) @ vt), exact[1][k:]
    assert left <= 1.1 * np.linalg.norm(least) + 2e-6 * exact[1][0]
    assert max(abs(u.T @ u - np.eye(k)).max(), abs(vt @ vt.T - np.eye(k)).max()) <= ORTHOGONAL
    short = vt if m >= n else u.T
    assert (np.take_along_axis(short, abs(short).argmax(1)[:, None], 1) > 0).all()
    assert same(rank_k(a, k, power, seed=9), rank_k(a, k, power, seed=9))
    return (m, n), k


def test_what_has_no_factors_there_comes_back(rng, by_numpy):
    a = normal(rng, 3, 9, 7)
    a[1, :, 4] = a[1, :, 3]
    kernels = svd(a, method="one launch")
    assert same(svd(a), kernels) and len(by_numpy) == 1
    a[1, :, 4] += np.float32(1e-2) * normal(rng, 9)
    assert not same(svd(a), svd(a, method="one launch"))
    a[2] = 0
    assert_right(a, svd(a))
    a[2, 5, 5] = np.inf
    with pytest.raises(ValueError, match=r"a\[2\] holds NaN"):
        svd(a)
    with pytest.raises(ValueError, match="beyond float32"):
        svd(np.full((2, 9, 9), 3e38, np.float32))
    with pytest.raises(ValueError, match="k is 8"):
        rank_k(a, 8)


def test_kernels_do_it_without_cupy_and_where_float64_is_slow(rng, by_numpy, monkeypatch):
    a = normal(rng, 2, 9, 8)
    there = library.libraries
    monkeypatch.setattr(library, "libraries", lambda: None)
    assert_right(a, svd(a))
    monkeypatch.setattr(library, "libraries", there)
    monkeypatch.setattr(heuristics, "FAST_FLOAT64", ())
    assert_right(a, svd(a))
    assert not by_numpy
    svd(a, method="one launch")
    assert not by_numpy


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason="cuSOLVER takes a GPU")
@pytest.mark.parametrize("shape", [(1, 150, 133), (1, 300, 140), (3, 100, 500), (16, 130, 128)])
def test_on_a_gpu(rng, shape):
    if not library.takes(shape):
        pytest.skip("takes CuPy and a GPU with fast float64")
    a = normal(rng, *shape)
    factors = svd(a)
    assert [one.tolist() for one in svd(a)] == [one.tolist() for one in factors]
    assert_right(a, factors)
    assert max(errors(a, factors)) <= 0.1 * ORTHOGONAL  # in float64, as no kernel of ours
    if shape[2] <= 128:
        for found, whole in zip(rank_k(a, 30)[1:], factors[1:], strict=True):
            assert abs(found - whole[:, :30]).max() <= 1e-6 * whole.max()
    square = np.stack(list(special(rng, 100).values())).astype(np.float32)
    assert same(svd(square), svd(square, method="registers"))
