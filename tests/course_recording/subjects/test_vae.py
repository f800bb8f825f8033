"""The bench of a VAE's epochs: all begin alike and are held to float64; each way has its rows."""

import numpy as np
import pytest

from course import backend
from course_models.vae.reference import NumpyTrainer
from course_models.vae.shape import VAEShape
from course_recording import first_calls
from course_recording.subjects import vae, vae_autotune
from tests.course_recording.untimed import clocked

pytestmark = pytest.mark.skipif(backend.gpu() is not None, reason="on a GPU the bench itself runs")


@pytest.fixture
def bench(monkeypatch):
    """A bench of a tiny VAE, whose clock is made up, without frameworks."""
    small = {"COUNT": 17, "BATCH": 5, "SIDE": 12, "SHAPE": VAEShape(144, 8, 4), "SECONDS": 0.0,
             "COMPARED": 3, "DEVICE": "cpu"}  # fmt: skip
    for name, value in small.items():
        monkeypatch.setattr(vae, name, value)

    monkeypatch.setattr(vae, "FIRST", ())
    return clocked(monkeypatch, "vae")


def rows(bench):
    found = {}
    for its in bench.rows:
        found.setdefault((its.kernel, its.variant, its.dtype), {})[its.metric] = its.median
    return found


@pytest.mark.slow
def test_layered_steps_are_right_and_timed(bench, monkeypatch):
    ours = {name: vae.OURS[name] for name in ("naive", "optimised")}
    monkeypatch.setattr(vae, "OURS", ours)
    vae.run(bench)
    assert not bench.failures
    found = rows(bench)
    assert found["errors", "Philox", "float32"]["noise"] < 1e-5
    for name in ("naive", "optimised"):
        its = found["errors", name, "float32"]
        assert its["gradients"] < 1e-6 and its["losses"] < 1e-6 and its["worst gradient"] < 1e-5
        assert set(its) == {"first loss", "losses", "worst gradient", "gradients", "weights",
                            "change"}  # fmt: skip
        assert found["epoch", name, "float32"]["time"] == 2.0
        assert set(found["epoch", name, "float32"]) == {"time", "loss"}
    assert len(found) == 5


@pytest.mark.slow
def test_a_fused_trainer_is_taken_in_each_precision(bench, monkeypatch):
    asked = []

    class Fused(NumpyTrainer):
        def __init__(self, training, images, precision):
            asked.append(precision)
            super().__init__(training, images)

    monkeypatch.setattr(vae, "FusedTrainer", Fused)
    vae.run(bench)
    assert not bench.failures and not bench.notes
    assert sorted(set(asked)) == ["float32", "tf32", "tf32x3"]
    found = rows(bench)
    assert found["errors", "fused, TF32", "tfloat32"]["gradients"] < 1e-5
    assert "time" in found["epoch", "fused, 3xTF32", "float32"]


@pytest.mark.slow
def test_wrong_gradients_and_losses_that_are_not_finite_are_failures(bench, monkeypatch):
    class Wrong(NumpyTrainer):
        def __init__(self, training, images, precision):
            super().__init__(training, images)

        def run(self, steps):
            super().run(steps)
            self._first["code.weight"] *= 1.5
            self.losses[-1] = np.nan

    monkeypatch.setattr(vae, "FusedTrainer", Wrong)
    vae.run(bench)
    assert len(bench.failures) == 6
    assert "its gradients are wrong by 0." in bench.failures[0]
    assert sum("the loss is nan" in text for text in bench.failures) == 3
    assert ("epoch", "fused, TF32", "tfloat32") not in rows(bench)


def test_operations_are_those_of_the_products(monkeypatch):
    assert vae.SHAPE == VAEShape() and vae.COUNT // vae.BATCH == 468
    assert vae.operations() == pytest.approx(586e6, rel=0.01)


@pytest.mark.slow
def test_a_processs_first_epoch_is_that_of_a_process(bench, monkeypatch):
    monkeypatch.setattr(vae, "FIRST", ("fused, float32",))
    vae.first_epochs(bench)
    assert not bench.failures
    found = rows(bench)
    for kept in ("compiled anew", "kept"):
        assert found["epoch", f"fused, float32, {kept}", "float32"]["first"] > 10


@pytest.mark.slow
def test_a_process_that_fails_is_told(bench, monkeypatch):
    monkeypatch.setattr(vae, "FIRST", ("no such way",))
    vae.first_epochs(bench)
    (problem,) = bench.failures
    assert "no such way, compiled anew" in problem and "Error" in problem


def test_a_process_that_takes_too_long_is_a_failure_and_stops_nothing(bench, monkeypatch):
    monkeypatch.setattr(first_calls, "LONGEST", 0.01)
    monkeypatch.setattr(vae, "FIRST", ("fused, float32",))
    vae.first_epochs(bench)
    assert bench.failures == ["a process of its own, fused, float32, compiled anew: over 0.01 s"]


# --- PyTorch --------------------------------------------------------------------------------------


@pytest.fixture
def torch(bench, monkeypatch):
    its = pytest.importorskip("torch")
    monkeypatch.setattr(bench, "peer", lambda name: its if name == "torch" else None)
    return its


def test_pytorch_trains_the_same_model(bench, torch, monkeypatch):
    few = ("torch eager", "torch eager, fused Adam", "torch eager, data loader")
    monkeypatch.setattr(vae, "PEERS", {name: vae.PEERS[name] for name in few})
    monkeypatch.setattr(vae, "OURS", {})
    vae.run(bench)
    assert not bench.failures
    found = rows(bench)
    its = found["errors", "torch", "float32"]
    assert its["gradients"] < 1e-6 and its["losses"] < 1e-6 and its["weights"] < 1e-4
    for name in few:
        for dtype in ("float32", "tfloat32"):
            assert np.isfinite(found["epoch", name, dtype]["loss"])


def test_tf32_is_as_it_was_afterwards(torch):
    from course_recording.peers.vae_torch import tf32

    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    with pytest.raises(KeyError), tf32(torch, True):
        assert matmul.allow_tf32
        raise KeyError
    assert matmul.allow_tf32 == before


def test_eager_epochs_take_the_batches_of_the_course(bench, torch, monkeypatch):
    from course_recording.peers.vae_torch import TorchTrainer

    training, images = vae.begun(), vae.data.enlarged(vae.COUNT, side=vae.SIDE)
    trainer = TorchTrainer(torch, training, images, device="cpu")
    seen = []
    monkeypatch.setattr(trainer, "train", lambda x: seen.append(x.numpy()))
    for _ in range(2):
        trainer.run_epoch()
    orders = [np.random.default_rng((vae.SEED, n)).permutation(len(images)) for n in (0, 1)]
    right = np.concatenate([images[order[:15]] for order in orders]) / np.float32(255)
    assert np.allclose(np.concatenate(seen), right, atol=1e-7)


def test_autotune_is_a_subject_of_its_own(bench, torch, monkeypatch):
    timed = []
    monkeypatch.setattr(vae_autotune, "peer", lambda *given, **how: timed.append((given[1:3], how)))
    vae_autotune.run(bench)
    assert [given for given, _ in timed] == [(vae_autotune.NAME, dtype) for dtype in vae.LIMITS]
    assert all(how["graph"] and how["compiled"]["mode"].startswith("max") for _, how in timed)
