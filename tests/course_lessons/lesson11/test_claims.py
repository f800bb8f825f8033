"""What lesson 11 says in words of rotations, sweeps, sketches and figures is true."""

import inspect
import itertools
import math

import numpy as np
import pytest

from course import cuda, recorded_roofs, trace
from course.heuristics.svd import is_faster, sketch_columns
from course.images import images
from course.kernels.svd import LADDER, qr, rank_k
from course.kernels.svd.rotate import SHARED_ROWS
from course.measure.recorded import recorded as find
from course.measure.recorded import recordings
from course_lessons.lesson11 import pictures, toy_svd
from course_lessons.lesson11.judges import found_range, judge_rotation, judge_tournament
from tests.pictures import assert_drawn
from warpsim.host import gpus

SIZE = 64
KINDS, RANK = (
    ("normal", "image", "deficient"),
    50,
)  # as `course_recording.subjects.svd` names its figures


@pytest.fixture(scope="module")
def matrices():
    """The lesson's three matrices, made as it makes them."""
    rng = np.random.default_rng(10)
    return {
        "random": rng.standard_normal((SIZE, SIZE)),
        "photograph": images.photograph("camera", SIZE).astype(float),
        "rank 10": rng.standard_normal((SIZE, 10)) @ rng.standard_normal((10, SIZE)),
    }


def sweeps(rows, floor=0.0):
    return len(toy_svd.history(rows, floor=floor)[0]) - 1


# --- the toy --------------------------------------------------------------------------------------


def test_a_rotation_makes_rows_orthogonal_by_at_most_45_degrees():
    rng = np.random.default_rng(1)
    for scale in (1, 1e-8, 1e8):
        for _ in range(50):
            x, y = rng.standard_normal((2, 7)) * np.array([[1], [scale]])
            c, s = toy_svd.rotation(x @ x, y @ y, x @ y)
            assert abs(s) <= c and c * c + s * s == pytest.approx(1)
            assert toy_svd.cosine(c * x - s * y, s * x + c * y) < 1e-6
            assert judge_rotation((c, s), x @ x, y @ y, x @ y) is None
    assert toy_svd.rotation(2.0, 3.0, 0.0) == (1.0, 0.0)
    for g in (0.5, -0.5):
        c, s = toy_svd.rotation(2.0, 2.0, g)
        assert c == pytest.approx(abs(s))


@pytest.mark.parametrize("n", [2, 4, 6, 22, 64])
def test_in_a_tournament_each_two_meet_once(n):
    rounds = toy_svd.tournament(n)
    assert len(rounds) == n - 1 and all(len(pairs) == n // 2 for pairs in rounds)
    assert all(sorted(itertools.chain(*pairs)) == list(range(n)) for pairs in rounds)
    met = {frozenset(pair) for pairs in rounds for pair in pairs}
    assert len(met) == n * (n - 1) // 2
    assert judge_tournament(rounds, n) is None


def test_sweeps_end_with_singular_values_as_lengths(matrices):
    for rows in matrices.values():
        found, last = toy_svd.history(rows, floor=1e-12)
        exact = np.linalg.svd(rows, compute_uv=False)
        lengths = np.sort(np.linalg.norm(last, axis=1))[::-1]
        assert found[-1] <= 1e-6
        assert np.abs(lengths - exact).max() < 1e-12 * exact[0]


def test_a_round_rotates_as_its_pairs_do_one_by_one():
    rows = np.random.default_rng(2).standard_normal((6, 9))
    pairs = toy_svd.tournament(6)[3]
    together = toy_svd.rotated(rows, pairs)
    for pair in pairs:
        rows = toy_svd.rotated(rows, [pair])
    assert np.array_equal(rows, together)


def test_the_warps_rotation_is_the_toys():
    @cuda.jit
    def rotate_two_of(rows):
        toy_svd.rotate_two(rows, 1, 4)

    rows = np.random.default_rng(4).standard_normal((5, 41)).astype(np.float32)
    found = rows.copy()
    rotate_two_of[1, 32](found)
    assert np.abs(found - toy_svd.rotated(rows.astype(float), [(1, 4)])).max() < 1e-5
    assert not trace(rotate_two_of, 1, 32, rows).findings


# --- what the lesson says -------------------------------------------------------------------------


def test_the_textbooks_way_has_about_500_steps_and_fills_a_quarter_of_the_threads():
    assert 255 + 254 == pytest.approx(500, rel=0.02)
    places = 2048 * gpus.find("H200").multiprocessors
    assert 0.23 < 256 * 256 / places < 0.26
    assert 0.9 < 64 * 256 / 2 / (places / 32) < 1


def test_random_rows_take_eight_sweeps_and_the_exponent_doubles(matrices):
    found, _ = toy_svd.history(matrices["random"])
    assert len(found) - 1 == 8
    assert found[5] > 0.1
    for value, said in zip(found[-3:], (0.05, 2e-5, 2e-13), strict=True):
        assert 0.5 < value / said < 2


def test_a_photograph_takes_longer_and_two_qr_decompositions_halve_that(matrices):
    photograph = matrices["photograph"]
    once = np.linalg.qr(photograph)[1]
    counts = [sweeps(photograph), sweeps(once), sweeps(np.linalg.qr(once.T)[1])]
    assert counts == [12, 9, 6]


def test_rows_of_noise_take_half_of_the_sweeps(matrices):
    with_noise, without = sweeps(matrices["rank 10"]), sweeps(matrices["rank 10"], 1e-12)
    assert with_noise >= 1.7 * without
    assert with_noise > sweeps(matrices["photograph"])


def test_one_by_one_and_in_rounds_take_about_as_many_sweeps(matrices):
    rows, largest, count = matrices["photograph"], 1.0, 0
    while largest > 1e-6:
        rows, largest = toy_svd.swept(rows)
        count += 1
    assert abs(count - sweeps(matrices["photograph"])) <= 2


def test_a_small_angle_has_no_cosine_in_float32():
    assert np.float32(math.cos(0.0002)) == 1
    assert math.cos(0.0002) == pytest.approx(0.99999998, abs=1e-9)
    assert np.float32(1 - math.cos(0.0002)) == pytest.approx(2e-8, rel=1e-3)
    s, lengths = np.float32(2e-4), []
    for d in (np.float32(0), s * s / np.float32(2)):
        x, y = np.float32(0.6), np.float32(0.8)
        for _ in range(10_000):
            x, y = x - (d * x + s * y), y + (s * x - d * y)
        lengths.append(math.hypot(x, y))
    assert lengths == pytest.approx([1.0002, 1], abs=2e-6)


def test_matrices_of_64_rows_fit_into_any_gpus_shared_memory_and_256_into_none():
    assert SHARED_ROWS == 64
    assert 2 * SHARED_ROWS**2 * 4 == 32 * 1024 < 48 * 1024
    assert 2 * 256**2 * 4 == 512 * 1024 > 228 * 1024


def test_the_ladder_has_the_steps_that_the_lesson_names():
    assert list(LADDER)[:4] == ["plain", "shared", "one launch", "registers"]
    assert LADDER["shared"].largest == 64 and LADDER["blocks"].smallest == 64
    assert list(LADDER)[4:] == ["blocks", "tensor cores"]
    assert LADDER["one launch"].largest == 32
    assert LADDER["registers"].largest == 128


def test_the_package_goes_over_to_another_way_where_the_lesson_says():
    assert LADDER["registers"].largest == 128 and qr.PANEL == 16


def test_memory_sets_the_pace_pair_by_pair_and_blocks_are_beyond_the_ridge():
    roofs = recorded_roofs("H200")
    ridge = 1e3 * roofs.rates["float32"] / roofs.bandwidth
    assert 22 / 40 < 1 < ridge < 25
    assert 2 * (256 * 255 // 2) / (64 * (8 * 7 // 2)) == pytest.approx(36, abs=0.5)


# --- sketches -------------------------------------------------------------------------------------


def percent_above(a, columns, power, k=50):
    """How far a sketch's rank k is above the best one, computed in full."""
    random = np.random.default_rng(1).standard_normal((a.shape[1], columns))
    q = found_range(a, random, power)
    u, s, vt = np.linalg.svd(q.T @ a, full_matrices=False)
    error = np.linalg.norm(a - q @ ((u[:, :k] * s[:k]) @ vt[:k]))
    return 100 * (error / np.linalg.norm(np.linalg.svd(a, compute_uv=False)[k:]) - 1)


def test_images_need_a_power_step_and_noise_is_hardest_for_steps():
    photograph = images.photograph("camera", 256).astype(float)
    mri = images.head_mri().astype(float)
    noise = np.random.default_rng(2).standard_normal((256, 256))
    errors = [[percent_above(a, 64, power) for power in range(3)] for a in (photograph, mri, noise)]
    assert round(errors[0][0]) == 39
    for image in errors[:2]:
        assert image[0] > 35 and image[1] < 2.1 and image[2] < 0.5
    assert errors[2][0] < min(errors[0][0], errors[1][0])
    assert errors[2][1] > max(errors[0][1], errors[1][1])
    assert errors[2][2] > max(errors[0][2], errors[1][2])
    assert percent_above(photograph, 58, 1) < 0.5 * percent_above(photograph, 50, 1)


def test_the_package_takes_eight_columns_more_and_two_power_steps():
    assert [sketch_columns(k, 256) for k in (1, 24, 25, 50)] == [32, 32, 64, 64]
    assert inspect.signature(rank_k).parameters["power"].default == 2
    assert math.sqrt(1 + 50 / (64 - 50 - 1)) == pytest.approx(2.2, abs=0.01)


def test_a_sketch_without_power_steps_loses_decibels_and_auto_makes_none_of_small_images():
    """Up to 128 columns all are decomposed, so the lesson names a method."""
    originals = np.stack([images.photograph(name, 64) for name in ("camera", "coffee", "chelsea")])

    def lost(a, k, power, method):
        u, s, vt = rank_k(a, k, power, method=method)
        best = [images.reconstruct(*images.svd(image), k) for image in a]
        pairs = zip(a, best, (u * s[:, None, :]) @ vt, strict=True)
        return max(images.psnr(its, one) - images.psnr(its, other) for its, one, other in pairs)

    assert 2 < lost(originals, 24, 0, "shared") < 4
    assert 0 < lost(originals, 24, 2, "shared") < 0.05
    noise = np.random.default_rng(3).standard_normal((1, 36, 36)).astype(np.float32)
    assert lost(noise, 24, 0, "shared") > 0.01 > 1e-4 > abs(lost(noise, 24, 0, "auto"))


def test_auto_hands_over_what_the_lesson_says():
    handed = [[1, 129, True], [1, 128, False], [1, 512, True], [24, 97, True], [24, 128, True]]
    for batch, columns, said in [*handed, [24, 96, False], [64, 512, True], [64, 256, False]]:
        assert is_faster((batch, columns, columns)) == said


# --- what is recorded -----------------------------------------------------------------------------

BATCH, ACCURACY = "64x256x256", ("residual", "sigma", "orthogonality")
GESVDA = "torch gesvda"


def recorded(variant, shape=BATCH, metric="time", kernel="svd normal"):
    """A recorded median, times in ms; exactly one figure fits, or the look-up is ambiguous."""
    wanted = {"kernel": kernel, "variant": variant, "shape": shape, "metric": metric}
    (found,) = find("svd", gpu="H200", **wanted)
    return found.median


def variants(kernel, shape):
    return {figure.variant for figure in find("svd", kernel=kernel, shape=shape, gpu="H200")}


def test_recorded_decompositions_have_one_time_and_one_error_each():
    shown = [(f"svd {kind}", BATCH, ACCURACY) for kind in KINDS]
    shown += [(f"rank {RANK} {kind}", f"{BATCH}x{RANK}", ["above best"]) for kind in KINDS[:2]]
    for kernel, shape, metrics in shown:
        assert len(variants(kernel, shape)) >= 3
        for name in variants(kernel, shape):
            for metric in ("time", *metrics):
                assert recorded(name, shape, metric, kernel) > 0


def test_batching_decides():
    assert recorded("cupy") > 100 * recorded("auto")
    for kind in KINDS:
        kernel = f"svd {kind}"
        times = {name: recorded(name, kernel=kernel) for name in variants(kernel, BATCH)}
        assert times["auto"] == pytest.approx(times["tensor cores"], rel=0.03)
        assert min(times, key=times.get) in ("auto", "tensor cores")
        for name, ms in times.items():
            if name in ("cupy", "torch gesvdj", "numpy"):
                assert ms > 400
            elif name != "plain":
                assert ms < 10.5
    for name in ("cupy", "torch gesvdj"):
        assert recorded(name) / recorded(name, "1x256x256") == pytest.approx(64, rel=0.1)


def test_deficient_matrices_take_the_fewest_sweeps():
    counts = [recorded("auto", metric="sweeps", kernel=f"svd {kind}") for kind in KINDS]
    assert counts[2] < min(counts[:2])


def test_gesvdj_and_cupy_leave_larger_residuals():
    ours = recorded("auto", metric="residual")
    assert recorded("torch gesvdj", metric="residual") / ours == pytest.approx(300, rel=0.1)
    assert round(recorded("cupy", metric="residual") / ours) == 12


def test_gesvda_is_as_exact_as_numpy_for_noise_and_its_vectors_are_off_for_images():
    for metric in ACCURACY:
        found = {name: recorded(name, metric=metric) for name in variants("svd normal", BATCH)}
        assert found[GESVDA] == pytest.approx(found["numpy"], rel=0.01) == min(found.values())
    image = {metric: recorded(GESVDA, metric=metric, kernel="svd image") for metric in ACCURACY}
    assert image["residual"] < 1.3 * recorded(GESVDA, metric="residual") < 1e-7
    assert image["orthogonality"] == pytest.approx(2e-4, rel=0.05)
    ours = recorded("auto", metric="orthogonality", kernel="svd image")
    assert image["orthogonality"] / ours == pytest.approx(200, rel=0.05)


def test_gesvda_failed_for_deficient_matrices_and_the_file_says_how():
    assert GESVDA not in variants("svd deficient", BATCH)
    (recording,) = recordings("svd")
    for said in ("failed to converge", "ill-conditioned or has too many repeated singular values"):
        assert f"{GESVDA} left out for {BATCH}: " in recording.header["notes"]
        assert said in recording.header["notes"]


def test_numpy_computes_in_float64_and_rounds():
    a = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    for x, y in zip(np.linalg.svd(a), np.linalg.svd(a.astype(float)), strict=True):
        assert np.array_equal(x, y.astype(np.float32))


def test_photographs_have_far_smaller_singular_values_than_noise():
    photograph = images.photograph("camera", 256).astype(float)
    noise = np.random.default_rng(2).standard_normal((256, 256))
    for_image, for_noise = (np.linalg.svd(a, compute_uv=False) for a in (photograph, noise))
    assert for_image[-1] / for_image[0] < 1e-2 * for_noise[-1] / for_noise[0]


def test_what_each_step_of_the_ladder_brought():
    small = "64x64x64"
    assert recorded("shared", small) / recorded("plain", small) == pytest.approx(7 / 8, abs=0.02)
    assert 2 * 64 * 64 * 64 * 4 == 2 * 2**20 < 50e6  # w and k, and an H200's L2 cache
    assert 0.5 < recorded("blocks", small) / recorded("shared", small) < 0.6
    assert recorded("plain") / recorded("blocks") == pytest.approx(6.5, abs=0.1)
    assert recorded("tensor cores") / recorded("blocks") == pytest.approx(0.8, abs=0.03)


def test_gesvda_is_faster_for_one_large_matrix_some_small_ones_and_many_large_ones():
    def slower(batch, size):
        shape = f"{batch}x{size}x{size}"
        return recorded("auto", shape) / recorded(GESVDA, shape)

    assert recorded("auto", "1x256x256") == pytest.approx(4.5, abs=0.1)
    assert slower(1, 256) == pytest.approx(2, rel=0.05)
    assert 3.7 < slower(1, 512) < 4
    assert recorded("auto", "8x256x256") < 1.05 * recorded("auto", "1x256x256")
    for batch, size in itertools.product((8, 64), (64, 128)):
        assert slower(batch, size) > 1.15
    assert 1.2 < slower(64, 512) < slower(256, 512) == pytest.approx(1.5, abs=0.02)


def test_few_matrices_leave_less_for_a_turn_than_its_rounds_take():
    rounds, without = 0.079, {(256, 256): 0.236, (256, 512): 0.870}  # ms: course.kernels.svd.blocks

    def turn(variant, batch, size):
        shape = f"{batch}x{size}x{size}"
        turns = recorded("auto", shape, "sweeps") * (size // 32 - 1)
        return recorded(variant, shape) / turns

    for batch, size in ((8, 64), (64, 64), (64, 128), (1, 256), (1, 512)):
        assert 0.038 < turn(GESVDA, batch, size) < 0.076 < rounds
    for (batch, size), products in without.items():
        ours = turn("auto", batch, size)
        assert ours > turn(GESVDA, batch, size) > ours - products / 2
        assert products > ours / 2


def test_ours_is_faster_for_some_batches():
    for shape in ("8x256x256", BATCH, "1024x64x64"):
        assert recorded(GESVDA, shape) > 1.15 * recorded("auto", shape)


def test_rank_50_takes_a_quarter_of_the_time_and_pytorchs_sketch_65_times_as_long():
    one, two, theirs = "1 power steps", "2 power steps", "torch svd_lowrank"
    for kind, above_one, above_two in (("normal", 4.7, 1.9), ("image", 2.7, 0.5)):
        its = {"shape": f"{BATCH}x{RANK}", "kernel": f"rank {RANK} {kind}"}
        part = recorded(two, **its) / recorded("auto", kernel=f"svd {kind}")
        assert part == pytest.approx(0.25, abs=0.03)
        assert recorded(one, **its) / recorded(two, **its) == pytest.approx(0.8, abs=0.02)
        assert recorded(theirs, **its) / recorded(two, **its) == pytest.approx(65, rel=0.07)
        off = [
            100 * (recorded(name, metric="above best", **its) - 1) for name in (one, two, theirs)
        ]
        assert [round(each, 1) for each in off[:2]] == [above_one, above_two]
        assert 0.5 * off[1] < off[2] < off[1]


def test_the_pipelines_others_are_the_limit_when_the_gpu_factorises():
    def rate(variant):
        (found,) = find("pipeline", variant=variant, metric="rate", gpu="H200")
        return found.median

    alone = rate("factorise, rebuild and judge on the GPU, 1 thread")
    before, whole = (rate(f"reconstruct_images, svd {svd}, 16 processes") for svd in ("cpu", "gpu"))
    assert round(alone / rate("factorise, 9 threads"), 1) == 6.3
    assert round(whole / before, 1) == 1.8
    assert 2 < alone / whole < 2.5  # "more than twice as many as reach it"
    together = 16 / (1 / rate("decode, 1 thread") + 1 / rate("write, 1 thread"))
    assert together == pytest.approx(4200, rel=0.03) and whole < together
    (recording,) = recordings("pipeline")
    assert "10000 images" in recording.header["notes"] and "16 cores" in recording.header["notes"]


# --- pictures -------------------------------------------------------------------------------------

ROWS = np.random.default_rng(3).standard_normal((6, 6))


@pytest.mark.parametrize(
    "picture",
    [
        pictures.rotation((2.0, 0.4), (1.2, 1.1), -0.5),
        pictures.rotation((0.0, 1.0), (1.0, 0.0), 0.0),
        pictures.convergence({"a": [1, 0.1, 1e-3], "b": [1, 0]}, 1e-6),
        pictures.fading({"before": toy_svd.cosines(ROWS), "after": np.zeros((6, 6))}),
        pictures.tournament(toy_svd.tournament(8)),
        pictures.sketch_errors({"a": [1.4, 1.02], "b": [1.1, 1.0]}),
    ],
)
def test_a_picture_fits_a_notebook_and_is_not_blank(picture):
    assert_drawn(picture, most_bytes=70_000)


def test_the_picture_of_a_tournament_says_in_which_round_rows_meet():
    rounds = toy_svd.tournament(8)
    picture = pictures.tournament(rounds)
    table = picture.axes[-1]
    said = {(text.get_position()): int(text.get_text()) for text in table.texts}
    for turn, pairs in enumerate(rounds):
        for i, j in pairs:
            assert said[j, i] == said[i, j] == turn
