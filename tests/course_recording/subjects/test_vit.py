"""The bench of a vision transformer: the five ways are held to float64 and counted; the peer."""

import numpy as np
import pytest

from course_models.vit import TOY, initial, reference
from course_recording import vit_first
from course_recording.peers.vit_torch import network
from course_recording.subjects import vit
from tests.course_recording.untimed import clocked


@pytest.fixture
def bench(monkeypatch, h200):
    """A bench of a toy, whose clock is made up, without frameworks."""
    monkeypatch.setattr(vit, "SHAPE", TOY)
    return clocked(monkeypatch, "vit")


@pytest.mark.slow
def test_the_ways_of_patches_are_timed_and_counted(bench):
    vit.patches(bench, initial(TOY), batch=2)
    assert not bench.failures
    found = {(row.variant, row.metric): row.median for row in bench.rows}
    variants = ["channels", "sorted", *[f"streams, {n}" for n in vit.STREAMS], "kept", "gemm"]
    assert [row.variant for row in bench.rows if row.metric == "time"] == variants
    assert found["channels", "launches"] == 6 and found["gemm", "launches"] == 2
    assert found["streams, 4", "synchronisations"] == 4
    assert found["gemm", "to_gpu"] == 2 * 2 * 3 * TOY.image**2


def test_a_wrong_way_is_no_row(bench, monkeypatch):
    monkeypatch.setattr(reference, "tokens", lambda *_: np.ones((2, TOY.tokens, TOY.width)))
    vit.patches(bench, initial(TOY), batch=2)
    assert not bench.rows and len(bench.failures) == 8


def test_images_are_timed_from_files(bench):
    vit.pillow(bench, count=2)
    (row,) = bench.rows
    assert (row.kernel, row.median, row.unit) == ("pillow", 2.0, "ms")


def test_without_pytorch_nothing_is_measured(bench):
    vit.run(bench)
    assert not bench.rows and not bench.failures


@pytest.mark.slow
def test_the_first_calls_of_processes_are_timed(bench, monkeypatch):
    monkeypatch.setattr(vit_first, "WAYS", ("ours",))
    monkeypatch.setenv("COURSE_SIMULATED_GPU", "H200")
    vit_first.first_calls(bench, TOY, 1)
    assert not bench.failures
    found = [(row.kernel, row.variant, row.shape, row.metric) for row in bench.rows]
    assert found == [("whole", f"ours, {kept}", "1x8x8", "first")
                     for kept in ("compiled anew", "kept")]  # fmt: skip


@pytest.mark.slow
def test_a_process_that_fails_is_no_row(bench, monkeypatch):
    monkeypatch.setattr(vit_first, "WAYS", ("eager",))
    vit_first.first_calls(bench, TOY, -1)
    assert not bench.rows and "a process of its own, eager" in bench.failures[0]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_pytorchs_model_is_the_reference(device):
    torch = pytest.importorskip("torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU here")
    weights = {name: its.astype(np.float16).astype(np.float32)
               for name, its in initial(TOY, 1).items()}  # fmt: skip
    images = np.random.default_rng(0).standard_normal((2, 3, 8, 8))
    model = network(torch, TOY, weights, device).double()
    found = model(torch.from_numpy(images).to(device)).cpu().numpy()
    assert np.allclose(found, reference.forward(TOY, weights, images), rtol=1e-9, atol=1e-12)
