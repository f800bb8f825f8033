"""The SVD's bench keeps times of right results alone; here its clocks are the host's."""

import numpy as np
import pytest

from course import backend
from course.kernels.svd import Solver
from course.measure.roofline import Roofs
from course_recording.frame import Bench
from course_recording.subjects import svd as subject

SIMULATED = pytest.mark.skipif(backend.gpu() is not None, reason="on a GPU the bench itself runs")


@pytest.fixture
def bench(monkeypatch):
    for name, value in {
        "SIZES": (12,), "BATCHES": (2,), "OURS": (12, 2), "STEPS_BATCH": 2, "RANK": 3,
        "SAMPLES": 1, "KINDS": ("normal", "deficient"),
        "device_clock": subject.host_clock,
    }.items():  # fmt: skip
        monkeypatch.setattr(subject, name, value)
    monkeypatch.setattr(subject, "LADDER", {"shared": subject.LADDER["shared"]})
    roofs = Roofs("none", 1.0, {"float32": 1.0}, 1, measured=True)
    made = Bench("svd", roofs, say=lambda _: None)
    monkeypatch.setattr(made, "peer", lambda name: None)
    return made


@pytest.mark.slow
@SIMULATED
def test_steps_ranks_and_numpy_are_judged_and_kept(bench):
    subject.run(bench)
    assert not bench.failures
    rows = {(row.kernel, row.variant, row.shape, row.metric): row.median for row in bench.rows}
    for kind in subject.KINDS:
        for name in ("auto", "shared", "numpy"):
            assert rows[f"svd {kind}", name, "2x12x12", "time"] > 0
            assert 0 <= rows[f"svd {kind}", name, "2x12x12", "residual"] <= 1e-5
        assert rows[f"rank 3 {kind}", "2 power steps", "2x12x12x3", "time"] > 0
    assert 1 <= rows["rank 3 normal", "2 power steps", "2x12x12x3", "above best"] <= subject.WORST
    assert ("svd normal", "auto", "2x12x12", "sigma") in rows


@SIMULATED
def test_a_wrong_result_has_no_time(bench, monkeypatch):
    def wrong(self, a, u, s, vt):
        true(self, a, u, s, vt)
        s[:] = np.float32(2)

    true = Solver.__call__
    monkeypatch.setattr(Solver, "__call__", wrong)
    subject.whole(bench, "normal", subject.matrices(bench, "normal", 1, 8), ["shared"])
    assert "residual" in bench.failures[0] and "1x8x8" in bench.failures[0] and not bench.rows


@SIMULATED
def test_a_peer_that_would_take_long_is_left_out_with_a_note(bench):
    peers = {"slow": (np.asarray, lambda a: np.linalg.svd(a, False), np.asarray)}
    before = {"slow": (1, 1e3 * subject.LONGEST)}
    a = subject.matrices(bench, "normal", 2, 8)
    subject.beside(bench, "normal", a, peers, before)
    assert not bench.rows and "slow left out for 2x8x8: longer than" in bench.notes[0]
    subject.beside(bench, "normal", a, peers, {})
    assert bench.rows


def test_accuracy_sees_each_kind_of_error():
    rng = np.random.default_rng(3)
    a = rng.standard_normal((2, 6, 4))
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    assert max(subject.accuracy(a, (u, s, vt)).values()) < 1e-12
    assert subject.accuracy(a, (u, 1.01 * s, vt))["sigma"] == pytest.approx(0.01)
    assert subject.accuracy(a, (1.01 * u, s, vt))["orthogonality"] == pytest.approx(0.0201)
    assert subject.accuracy(a, (u, s, -vt))["residual"] == pytest.approx(2)
    assert subject.above_best(a, (u[:, :, :2], s[:, :2], vt[:, :2])) == pytest.approx(1)
