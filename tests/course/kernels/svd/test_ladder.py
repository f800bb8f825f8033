"""The batched SVD is as accurate as float32 allows, whatever the matrix, and says what it refuses.

Bounds: those of the project's requirements, against NumPy's float64. Without a GPU sizes are small.
"""

import numpy as np
import pytest
from numba import float32

from course import cuda, gpu, trace
from course.compiler.facts import compiled
from course.heuristics.svd import sketch_columns
from course.kernels.gemm.batched import multiply
from course.kernels.svd import (
    LADDER,
    Solver,
    SVDProblem,
    blocks,
    forget,
    one_launch,
    qr,
    rank_k,
    registers,
    rotate,
    scaling_sorting,
    svd,
)
from course.kernels.svd import diagonalise as diagonal
from course.kernels.svd.blocks import SQUARE
from course.kernels.svd.qr import Reflections
from tests.course.compiled_samples import needs_compiler
from tests.course.kernels.svd_samples import (
    ORTHOGONAL,
    assert_right,
    errors_of_each,
    factors_of,
    normal,
    same,
    special,
)
from warpsim.host import gpus
from warpsim.ptx.mma import TensorCores

LARGE = [(3, 64, 64), (2, 131, 127), (5, 100, 256), (2, 256, 256), (2, 512, 300), (1, 1024, 40),
         (1, 300, 512), (1, 512, 512)]  # fmt: skip
needs_gpu = pytest.mark.skipif(gpu() is None, reason="large matrices take a GPU")


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.slow if name in ("plain", "blocks") else ())
        for name in LADDER
    ]
)
def method(request, monkeypatch):
    """Each step of the ladder, on a GPU that can run it."""
    if gpu() is None and LADDER[request.param].capability > (7, 5):
        monkeypatch.setattr(gpus, "_chosen", gpus.find("H200"))
    return request.param


# --- right ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_matrices_on_which_svds_break(rng, method):
    a = np.stack(list(special(rng, 24).values())).astype(np.float32)
    assert_right(a, svd(a, method=method))


@pytest.mark.slow
@pytest.mark.skipif(gpu() is not None, reason="tensor cores themselves cut off there")
def test_what_tensor_cores_cut_off_does_not_matter(rng, monkeypatch):
    """Each sum of theirs one unit of the last place nearer to zero: theirs are not rounded."""

    def cut(self, c, a, b, site):
        return tuple(np.nextafter(x, np.float32(0)) for x in exact(self, c, a, b, site))

    exact = TensorCores._product
    monkeypatch.setattr(TensorCores, "_product", cut)
    monkeypatch.setattr(gpus, "_chosen", gpus.find("H200"))
    a = np.stack([normal(rng, 60, 60), special(rng, 60)["repeated"]]).astype(np.float32)
    assert_right(a, svd(a, method="tensor cores"))


@pytest.mark.slow
def test_tall_and_wide_matrices_without_full_rank(rng):
    a = normal(rng, 3, 45, 20)
    a[0] = a[0, :, :4] @ a[0, :4]
    a[1, :, 3:] = 0
    a[2] = 0
    assert_right(a, svd(a))
    wide = np.ascontiguousarray(a.swapaxes(1, 2))
    assert_right(wide, svd(wide))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(37, 30), (21, 21), (18, 23)])
def test_vectors_of_singular_values_that_are_zero_few_or_many(rng, shape):
    """One by one in shared memory, by a QR decomposition elsewhere."""
    m, n = shape
    r, lost = min(shape), [0, 1, 8, 9]
    a = np.stack([normal(rng, m, r - less) @ normal(rng, r - less, n) for less in lost])
    holes = normal(rng, 2, m, n)
    holes[0, 4:6], holes[1, :, 7] = 0, holes[1, :, 2]  # no direction is left; nearly one
    a = np.concatenate([a, holes])
    assert_right(a, svd(a))
    solver, factors = Solver(*a.shape, "shared"), factors_of(a.shape)
    solver(cuda.to_device(a), *factors)
    assert_right(a, [factor.copy_to_host() for factor in factors])
    missing = solver.missing.copy_to_host()
    assert missing[0] == 0 and 1 <= missing[2] <= 8  # others are noise, but no less
    some = factors_of(a.shape, r - 1)
    solver(cuda.to_device(a), *some)
    u = some[0].copy_to_host()
    assert np.abs(u.swapaxes(1, 2) @ u - np.eye(r - 1)).max() <= ORTHOGONAL


@pytest.mark.slow
def test_of_deficient_matrices_only_the_missing_vectors_come_from_reflections(rng):
    """Those of singular values stay as the rotations left them: 3e-7, else 4e-7 and more."""
    low = normal(rng, 2, 96, 32) @ normal(rng, 2, 32, 96)
    holes = special(rng, 96)["zero rows and columns"]
    a = np.concatenate([low, holes[None]]).astype(np.float32)
    factors = svd(a, method="blocks")
    assert_right(a, factors)
    assert max(errors_of_each(a, factors)["relative residual"]) < 3.4e-7


@needs_gpu
def test_large_matrices(rng, method):
    for shape in LARGE:
        if min(shape[1:]) <= LADDER[method].largest:
            a = normal(rng, *shape)
            assert_right(a, svd(a, method=method))


@needs_gpu
def test_large_matrices_on_which_svds_break(rng, method):
    for n in (63, 129, 256, 300):
        if n <= LADDER[method].largest:
            a = np.stack(list(special(rng, n).values())).astype(np.float32)
            assert_right(a, svd(a, method=method))


@needs_gpu
def test_many_matrices(rng):
    a = normal(rng, 1024, 40, 30)
    assert_right(a, svd(a))


# --- the same on every call ----------------------------------------------------------------------


@pytest.mark.slow
def test_the_result_is_the_same_to_the_bit_and_the_sign_is_told(rng):
    a = normal(rng, 1, 40, 36)
    first = svd(a)
    forget()
    again, wide = svd(a), svd(np.ascontiguousarray(a[:, :20, :17].swapaxes(1, 2)))
    assert all(np.array_equal(x, y) for x, y in zip(first, again, strict=True))
    vt, u = first[2], wide[0]
    assert (np.take_along_axis(vt, np.abs(vt).argmax(2)[..., None], 2) > 0).all()
    assert (np.take_along_axis(u, np.abs(u).argmax(1)[:, None], 1) > 0).all()


@pytest.mark.slow
def test_a_matrix_of_a_batch_and_a_view_on_the_gpu_give_the_same(rng):
    whole = normal(rng, 3, 30, 25)
    there = cuda.to_device(whole)
    part = whole[1:, 2:22, 3:20]
    alone, batch = svd(there[2, 2:22, 3:20]), svd(there[1:, 2:22, 3:20])
    assert_right(part, [x.copy_to_host() for x in batch])
    for x, y in zip(alone, batch, strict=True):
        assert np.array_equal(x.copy_to_host(), y.copy_to_host()[1])
    assert np.array_equal(there.copy_to_host(), whole)


@pytest.mark.parametrize(
    ("name", "most", "blocks"), [("T4", 80, "blocks"), ("H200", 128, "tensor cores")]
)
def test_auto_takes_registers_where_a_matrix_fits(monkeypatch, name, most, blocks):
    monkeypatch.setattr(gpus, "_chosen", gpus.find(name))

    def chosen(*sides, method="auto"):
        return LADDER.choose(method, SVDProblem(*sides))[0]

    assert chosen(1) == chosen(8, 1024) == chosen(32, 300) == "one launch"
    assert chosen(33) == chosen(most, 1024) == "registers"
    assert chosen(most + 1) == chosen(1024) == blocks
    assert chosen(64, method="shared") == "shared"  # who asks for it gets it


def test_wrong_factors_are_named(rng):
    a = normal(rng, 3, 6, 5)
    u, s, vt = (np.copy(x) for x in np.linalg.svd(a, full_matrices=False))
    assert_right(a, (u, s, vt))
    for wrong, place, figure in (
        (u, (1, 0, 4), "relative residual: .* in matrix 1 of 3, 6 x 5, .* matrices \\[1\\]"),
        (vt, (2, 0, 0), "relative residual: nan in matrix 2 of 3"),
    ):
        kept = wrong[place]
        wrong[place] = kept + 1 if place[0] == 1 else np.nan
        with pytest.raises(AssertionError, match=figure):
            assert_right(a, (u, s, vt))
        wrong[place] = kept
    with pytest.raises(AssertionError, match="error of a singular value: .* in matrix 0 of 3"):
        assert_right(a, (u, s * np.float32(1 + 8e-7), vt))
    u[2], vt[2] = u[2] * np.float32(1 + 4e-6), vt[2] / np.float32(1 + 4e-6)  # the product stays
    with pytest.raises(AssertionError, match="orthogonality of u: .* in matrix 2 of 3"):
        assert_right(a, (u, s, vt))


@pytest.mark.slow
def test_nan_and_infinity_name_the_matrix(rng):
    a = normal(rng, 4, 5, 3)
    for call, bads in ((svd, (np.nan, np.inf, -np.inf)), (lambda a: rank_k(a, 2), (np.inf,))):
        for bad in bads:
            a[2, 4, 1] = bad
            with pytest.raises(ValueError, match=r"^a\[2\] holds NaN"):
                call(a)
    assert_right(a[:2], svd(a[:2]))


# --- the k largest -------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_largest_singular_values_by_a_sketch(rng):
    a = normal(rng, 1, 45, 50)
    k = 6
    assert sketch_columns(k, 45) == 32
    u, s, vt = rank_k(a, k, method="shared")
    exact = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    error = np.linalg.norm(a - (u * s[:, None]).astype(np.float64) @ vt, axis=(1, 2))
    assert (error <= 1.05 * np.sqrt((exact[:, k:] ** 2).sum(1))).all()
    assert np.abs(u.swapaxes(1, 2) @ u - np.eye(k)).max() <= ORTHOGONAL
    assert np.abs(vt @ vt.swapaxes(1, 2) - np.eye(k)).max() <= ORTHOGONAL
    again = rank_k(a, k, method="shared")
    assert all(np.array_equal(x, y) for x, y in zip((u, s, vt), again, strict=True))


def test_a_sketch_of_full_width_is_the_svd(rng):
    a = normal(rng, 2, 30, 21)
    whole, part = svd(a), rank_k(a, 7)
    for x, y in zip((whole[0][:, :, :7], whole[1][:, :7], whole[2][:, :7]), part, strict=True):
        np.testing.assert_allclose(x, y, atol=2e-6 * np.abs(x).max())


@pytest.mark.drawn(2)
def test_the_first_vectors_of_any_shape_are_those_of_all(rng):
    shape, k = (1, int(rng.integers(33, 49)), int(rng.integers(49, 65))), int(rng.integers(1, 33))
    for a in (normal(rng, *shape), normal(rng, *shape).swapaxes(1, 2)):
        solver, there = Solver(*a.shape, "shared"), cuda.to_device(np.ascontiguousarray(a))
        whole, part = factors_of(a.shape), factors_of(a.shape, k)
        solver(there, *whole)
        solver(there, *part)
        u, s, vt = (one.copy_to_host() for one in whole)
        assert same([one.copy_to_host() for one in part], (u[:, :, :k], s[:, :k], vt[:, :k]))


@pytest.mark.slow
def test_a_matrix_of_lower_rank_than_k(rng):
    a = (normal(rng, 40, 3) @ normal(rng, 3, 50))[None]
    u, s, vt = rank_k(a, 8, method="shared")
    assert (s[0, 3:] <= 1e-6 * s[0, 0]).all()
    assert np.linalg.norm(a - (u * s[:, None]) @ vt) <= 2e-6 * np.linalg.norm(a)
    assert np.abs(u[0].T @ u[0] - np.eye(8)).max() <= ORTHOGONAL
    assert np.abs(vt[0] @ vt[0].T - np.eye(8)).max() <= ORTHOGONAL


# --- the parts -----------------------------------------------------------------------------------


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    "shape", [(2, 6, 4), (1, 40, 36), (1, 300, 20), (1, 600, 68), (1, 150, 140)]
)
def test_reflections_are_a_qr_decomposition(rng, shape):
    a = normal(rng, *shape)
    a[0, :, 1] = a[0, :, 0]  # not of full rank
    there, q = cuda.to_device(a), cuda.device_array(shape, np.float32)
    always = cuda.to_device(np.zeros(shape[0], np.int32))
    reflections = Reflections(*shape)
    reflections.factor(there, always)
    reflections.form(q, always)
    r, q = there.copy_to_host(), q.copy_to_host()
    assert np.array_equal(np.triu(r), r)
    assert np.abs(q @ r[:, : shape[2]] - a).max() <= 2e-6 * np.abs(a).max() * shape[1] ** 0.5
    assert np.abs(q.swapaxes(1, 2) @ q - np.eye(shape[2])).max() <= ORTHOGONAL


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_of_transposes(rng, transpose_a, transpose_b):
    a, b, c = normal(rng, 3, 70, 33), normal(rng, 3, 33, 50), normal(rng, 3, 70, 50)
    expected = 2 * a @ b - 0.5 * c
    state = cuda.to_device(np.int32([1, 0, 1]))
    out = cuda.to_device(np.full(c.shape, np.nan, np.float32))
    given = [x.swapaxes(1, 2) if its else x for x, its in ((a, transpose_a), (b, transpose_b))]
    there = [cuda.to_device(np.ascontiguousarray(x)) for x in given]
    which = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    multiply(*there, out, state, 1, **which, alpha=2, beta=-0.5, c=cuda.to_device(c))
    found = out.copy_to_host()
    np.testing.assert_allclose(found[::2], expected[::2], atol=3e-5)
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize("players", [2, 6, 64])
def test_each_two_rows_are_a_pair_once_and_pairs_have_no_common_row(players):
    pair_of = rotate.partners.py_func
    rounds = [
        [tuple(pair_of(t, p, players)) for p in range(players // 2)] for t in range(players - 1)
    ]
    assert all(sorted(sum(pairs, ())) == list(range(players)) for pairs in rounds)
    assert (
        len({frozenset(its) for pairs in rounds for its in pairs}) == players * (players - 1) // 2
    )


def test_players_of_the_inner_sweep_sit_as_the_tournament_says():
    pair_of, after = rotate.partners.py_func, diagonal._next_seat.py_func
    for number in range(diagonal.ROUNDS):
        seats = [pair_of(number, p, diagonal.PLAYERS) for p in range(diagonal.PAIRS)]
        then = [pair_of((number + 1) % diagonal.ROUNDS, p, 64) for p in range(diagonal.PAIRS)]
        for p, pair in enumerate(seats):
            for side in (0, 1):
                there, beside = after(p, side)
                assert then[there][beside] == pair[side]


@cuda.jit
def inner_sweep(g, floor, place):
    here, h = cuda.shared.array(SQUARE, float32), cuda.shared.array(SQUARE, float32)
    rotations = cuda.shared.array(64, float32)
    for n in range(cuda.threadIdx.x, SQUARE, diagonal.THREADS):
        here[n] = g[n]
    cuda.syncthreads()
    diagonal.diagonalise(here, floor, h, rotations, place)
    for n in range(cuda.threadIdx.x, SQUARE, diagonal.THREADS):
        g[n] = here[n]


@needs_compiler
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_the_kernel_of_this_file_compiles(target):
    facts = compiled(inner_sweep, "void(float32[::1], float32, int32[::1])", target)
    assert facts.spills == 0 and facts.shared_bytes == 4 * (2 * SQUARE + 64)


def test_one_inner_sweep_diagonalises_what_is_nearly_diagonal(rng):
    """q' g q has small numbers beside its diagonal, and q is orthonormal to a rounding."""
    noise = normal(rng, 64, 64) * np.float32(1e-3)
    matrix = np.diag(rng.permutation(np.arange(1, 65)).astype(np.float32)) + noise + noise.T
    g = np.zeros((64, diagonal.PITCH), np.float32)
    g[:, :64] = matrix
    there, place = cuda.to_device(g.ravel()), cuda.to_device(np.zeros(64, np.int32))
    inner_sweep[1, diagonal.THREADS](there, np.float32(0), place)
    q = np.eye(64) + there.copy_to_host().reshape(g.shape)[:, :64].astype(np.float64)
    after = q.T @ matrix.astype(np.float64) @ q
    assert np.abs(after - np.diag(np.diag(after))).max() <= 3e-5
    assert np.abs(q.T @ q - np.eye(64)).max() <= 2e-7
    assert np.array_equal(np.argsort(-np.diag(after)), np.argsort(place.copy_to_host()))


@pytest.mark.slow
def test_kernels_have_no_error_under_trace(rng):
    w, k = normal(rng, 1, 64, 64), np.eye(64, dtype=np.float32)[None]
    floor, cosines = np.zeros(1, np.float32), np.zeros(1, np.float32)
    since, state = np.full(1, -1, np.int32), np.zeros(1, np.int32)
    arguments = w, k, floor, np.int32(0), cosines, state
    given = (1, 1), blocks.THREADS, *arguments
    reports = [trace(blocks.rotate_blocks, *given)]
    reports.append(trace(blocks.ROTATE["tensor"], *given, gpu="H200"))
    one = np.int32(1), cosines, since, state
    small = normal(rng, 1, 32, 32), k[:, :32, :32].copy(), floor
    for kernel in (rotate.rotate_plain, rotate.rotate_shared):
        reports.append(trace(kernel, 1, rotate.THREADS, *small, *one))
    v, t = np.zeros((1, 40, 48), np.float32), np.zeros((1, 3, 16, 16), np.float32)
    ends = state, np.int32(0), np.int32(0), np.int32(3), np.int32(1)
    reports.append(trace(qr.FACTOR[1], 1, 64, normal(rng, 1, 40, 40), v, t, *ends))
    reports.append(trace(qr.form_q, 1, 64, v, t, normal(rng, 1, 40, 40), *ends[:3]))
    for shape in ((1, 6, 9), (1, 40, 20)):
        matrix, r = normal(rng, *shape), min(shape[1:])
        matrix[0, 2] = 0
        out = [np.zeros(its, np.float32) for its in ((1, shape[1], r), (1, r), (1, r, shape[2]))]
        told = np.zeros((4, 1), np.int32)
        one = one_launch.launch(matrix, *out, told, 60)
        for launch in (one, *registers.launches(matrix, *out, told)):
            given = launch.grid, launch.block, *launch.arguments
            if launch is one or launch.kernel in registers.SVD.values():
                reports.append(trace(launch.kernel, *given, dynamic_shared=launch.shared))
            else:
                launch.on()
        assert_right(matrix, out)
    found = np.zeros(1, np.float32), np.zeros(1, np.float32), np.zeros(1, np.int32)
    reports.append(trace(scaling_sorting.find_scale, 1, 96, matrix, *found))
    assert found[0] * found[1] == 1 and 0.5 <= np.abs(matrix).max() * found[0][0] < 1
    for report in reports:
        assert not [finding for finding in report.findings if finding.is_error]
        assert report.operations["float64"] == 0
