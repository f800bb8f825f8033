"""What is handed to cuSOLVER: by which rule, with which results, and what comes back from there."""

import numpy as np
import pytest

import course.kernels.svd as package
from course import gpu
from course.kernels.svd import gram, library, rank_k, svd
from course_recording.subjects.drawn import side
from tests.course.kernels.svd_samples import ORTHOGONAL, assert_right, errors, normal, same, special


@pytest.fixture
def by_numpy(monkeypatch):
    """NumPy's factors, with signs of its own, in cuSOLVER's place; how often it was asked."""
    asked = []

    def decompose(solver):
        asked.append(solver.a.shape)
        u, s, vt = np.linalg.svd(solver.a.copy_to_host().swapaxes(1, 2).astype(np.float64), False)
        count = solver.found.shape[1]
        signs = np.where(np.arange(count) % 3 == 1, -1, 1)
        solver.u.copy_to_device((u[:, :, :count] * signs).swapaxes(1, 2).astype(np.float32, "C"))
        solver.v.copy_to_device((vt[:, :count] * signs[:, None]).astype(np.float32, "C"))
        solver.found.copy_to_device(s[:, :count].astype(np.float32, "C"))
        solver.info.copy_to_device(np.zeros(len(s), np.int32))

    device = package.cuda.get_current_device()
    monkeypatch.setattr(gram, "FAST_FLOAT64", (tuple(device.compute_capability),))
    monkeypatch.setattr(library, "cusolver", lambda: True)
    monkeypatch.setattr(library.LibrarySolver, "decompose", decompose)
    monkeypatch.setattr(library.LibrarySolver, "workspace", lambda _: None)
    monkeypatch.setattr(library, "LEAST", 4)
    yield asked
    package.forget()


@pytest.mark.drawn(3)
def test_drawn_matrices(rng, by_numpy):
    a = normal(rng, int(rng.integers(1, 4)), *rng.integers(4, 40, 2))
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
    assert same(svd(a[0]), [one[0] for one in factors])


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
        svd(np.full((1, 9, 9), 3e38, np.float32))
    with pytest.raises(ValueError, match="k is 8"):
        rank_k(a, 8)


def test_kernels_do_it_without_cupy_and_where_float64_is_slow(rng, by_numpy, monkeypatch):
    a = normal(rng, 1, 9, 8)
    monkeypatch.setattr(library, "cusolver", lambda: None)
    assert_right(a, svd(a))
    monkeypatch.setattr(library, "cusolver", lambda: True)
    monkeypatch.setattr(gram, "FAST_FLOAT64", ())
    assert_right(a, svd(a))
    assert not by_numpy
    svd(a, method="one launch")
    assert not by_numpy


def test_the_rule_is_what_the_docstring_says_and_takes_few():
    rng, handed, drawn = np.random.default_rng(11), [0, 0], 0
    while drawn < 2000:
        batch, m, n = side(rng, 1, 4096), side(rng, 8, 1024), side(rng, 8, 1024)
        if batch * m * n > 30_000_000 or batch * max(m, n) * min(m, n) ** 2 > 1e11:
            continue
        drawn += 1
        few = batch <= 24 and 81 <= min(m, n) <= 128
        said = (
            (batch == 1 and min(m, n) >= 81) or few
            or (min(m, n) >= 384 and batch * m * n >= 10_000_000)
        )  # fmt: skip
        assert library.is_faster((batch, m, n)) == said
        for_rank = few or (batch == 1 and 81 <= min(m, n) <= 256)
        assert library.is_faster((batch, m, n), of_rank=True) == for_rank
        assert batch > 1 or library.is_faster((m, n)) == said
        handed = [handed[0] + said, handed[1] + for_rank]
    print(f"of {drawn} shapes {handed[0]} of svd's and {handed[1]} of rank_k's are handed over")
    assert 0 < max(handed) <= drawn // 10


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason="cuSOLVER takes a GPU")
@pytest.mark.parametrize("shape", [(1, 97, 97), (1, 300, 140), (3, 100, 500), (16, 130, 128)])
def test_on_a_gpu(rng, shape):
    if not library.takes(shape):
        pytest.skip("takes CuPy and a GPU with fast float64")
    a = normal(rng, *shape)
    factors = svd(a)
    assert [one.tolist() for one in svd(a)] == [one.tolist() for one in factors]
    assert_right(a, factors)
    assert max(errors(a, factors)) <= 0.1 * ORTHOGONAL  # in float64, as no kernel of ours
    if shape[2] <= 128:
        for found, whole in zip(rank_k(a, 5)[1:], factors[1:], strict=True):
            assert abs(found - whole[:, :5]).max() <= 1e-6 * whole.max()
    square = np.stack(list(special(rng, 100).values())).astype(np.float32)
    assert same(svd(square), svd(square, method="registers"))
