"""A VAE's step in two launches: right, the same bits each time, saved and gone on with."""

import numpy as np
import pytest

from course import backend, trace
from course_models.vae import trainer as fused
from course_models.vae.block_sync import MISSING
from course_models.vae.data import enlarged
from course_models.vae.memory import ParameterLayout
from course_models.vae.reference import NumpyTrainer, loss_and_gradients, noise
from course_models.vae.shape import VAEShape
from course_models.vae.trainer import FusedTrainer
from course_models.vae.weights import Training, initial
from warpsim.host import gpus

HOPPER, TURING = gpus.find("H200"), gpus.find("T4")
#: Of a gradient's error, by their norms. The noise's fast logarithm and cosine are part of it;
#: TF32 keeps 10 bits of fraction, and LeakyReLU's slope jumps where a sum's sign does.
LIMITS = {"float32": 3e-6, "tf32x3": 3e-6, "tf32": 2e-2}
SHAPES = [
    (VAEShape(64, 32, 8), 32),
    (VAEShape(35, 21, 7), 19),  # no width is a multiple of four, the batch neither
    (VAEShape(1, 1, 1), 1),
    (VAEShape(6, 5, 3), 3),
    (VAEShape(20, 600, 4), 17),  # more tiles than a group has blocks
]


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    """All of this runs on a simulated H200, unless a test says otherwise."""
    monkeypatch.setattr(gpus, "_chosen", HOPPER)


def images_of(shape, count, seed=1):
    return np.random.default_rng(seed).integers(0, 256, (count, shape.pixels)).astype(np.uint8)


def gradients_of(trainer):
    """What Adam was given in the first step: a tenth of it is its first moment."""
    return {name: 10 * its.astype(np.float64) for name, its in trainer.training().first.items()}


def expected(training, images):
    """Loss and gradients of the first step in float64."""
    of = training
    order = np.random.default_rng((of.seed, 0)).permutation(len(images))[: of.batch]
    weights = {name: its.astype(np.float64) for name, its in of.weights.items()}
    e = noise(of.batch, of.shape.latent, 0, of.seed)
    return loss_and_gradients(weights, images[order] / 255, e)


def held(training, images, precision):
    trainer = FusedTrainer(training, images, precision)
    trainer.run(1)
    loss, gradients = expected(training, images)
    limit = LIMITS[precision]
    assert trainer.losses == [pytest.approx(loss, rel=limit)]
    for name, found in gradients_of(trainer).items():
        size = np.linalg.norm(gradients[name])
        assert np.linalg.norm(found - gradients[name]) <= limit * size + 1e-30, name


def every_shape():
    """Every shape with the precision of most code, every precision at an awkward one; the rest."""
    for number, shape in enumerate(SHAPES):
        for precision in LIMITS:
            quick = precision == "tf32x3" or number == 1
            yield pytest.param(*shape, precision, marks=() if quick else pytest.mark.slow)


@pytest.mark.drawn(11)
@pytest.mark.parametrize(("shape", "batch", "precision"), every_shape())
def test_a_step_has_float64s_loss_and_gradients(shape, batch, precision):
    held(Training.begun(shape, batch=batch, seed=5), images_of(shape, 3 * batch + 1), precision)


@pytest.mark.slow
def test_more_rows_than_groups(monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", TURING)  # 40 multiprocessors, 41 times 16 rows
    shape = VAEShape(12, 8, 4)
    held(Training.begun(shape, batch=650), images_of(shape, 700), "float32")


def test_steps_follow_those_of_numpy():
    shape = VAEShape(35, 21, 7)
    training, images = Training.begun(shape, batch=19, seed=2**40 + 3), images_of(shape, 60)
    ours, theirs = FusedTrainer(training, images), NumpyTrainer(training, images)
    ours.run(8)  # two epochs and a part
    theirs.run(8)
    assert ours.step == 8 and ours.steps_of_an_epoch == 3
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-5)
    a, b = ours.training(), theirs.training()
    assert (a.step, a.seed, a.rate) == (b.step, b.seed, b.rate)
    for name, weights in b.weights.items():  # Adam divides small gradients by their size
        np.testing.assert_allclose(a.weights[name], weights, atol=2e-4)


@pytest.mark.slow
def test_a_training_goes_on_with_the_same_bits(tmp_path):
    shape = VAEShape(16, 12, 4)
    images = enlarged(40, side=12)[:, :16].copy()
    whole = FusedTrainer(Training.begun(shape, batch=8), images)
    whole.run(9)
    part = FusedTrainer(Training.begun(shape, batch=8), images)
    part.run(3)
    part.run(4)  # in the middle of the second epoch
    part.training().save(tmp_path / "training.npz")
    rest = FusedTrainer(Training.load(tmp_path / "training.npz"), images)
    rest.run(2)
    assert part.losses + rest.losses == whole.losses
    for which in ("weights", "first", "second"):
        for name, its in getattr(whole.training(), which).items():
            assert np.array_equal(its, getattr(rest.training(), which)[name]), (which, name)


@pytest.mark.slow
def test_losses_are_read_before_their_memory_is_full(monkeypatch):
    monkeypatch.setattr(fused, "HISTORY", 4)
    shape = VAEShape(4, 4, 4)
    training, images = Training.begun(shape, batch=4), images_of(shape, 20)
    ours, theirs = FusedTrainer(training, images), NumpyTrainer(training, images)
    for steps in (3, 0, 7):
        ours.run(steps)
        theirs.run(steps)
        np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-5)


@pytest.mark.slow
def test_no_launch_has_a_race():
    shape = VAEShape(20, 40, 7)
    trainer = FusedTrainer(Training.begun(shape, batch=35), images_of(shape, 70))
    for its in trainer.as_simulated:
        report = trace(its.kernel, its.grid, its.block, *its.arguments, dynamic_shared=its.shared)
        slow = {"bank-conflict"}  # of the warps' sums; all else would be wrong
        assert {finding.kind for finding in report.findings} <= slow, report.findings
        assert report.operations["float64"] == 0


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("shape", "batch"), SHAPES)
def test_all_that_blocks_wait_for_is_written(shape, batch):
    """On a GPU a block waits for each number: for one that nobody writes, for ever."""
    trainer = FusedTrainer(Training.begun(shape, batch=batch), images_of(shape, 3 * batch))
    for step in range(3):
        buffers = trainer._between.copy_to_host().reshape(2, -1)
        assert np.all(buffers[step % 2] == MISSING)  # the half of the step that comes
        assert step == 0 or not np.any(buffers[1 - step % 2] == MISSING)
        trainer.run(1)


def test_parameters_are_packed_and_unpacked():
    shape = VAEShape(35, 21, 7)
    layout, weights = ParameterLayout(shape), initial(shape, 3)
    flat = layout.packed(weights)
    assert flat.size == layout.size and np.count_nonzero(flat) == sum(
        np.count_nonzero(its) for its in weights.values()
    )
    for name, its in layout.unpacked(flat).items():
        assert np.array_equal(its, weights[name])


def test_what_is_padded_stays_zero():
    shape = VAEShape(35, 21, 7)
    trainer = FusedTrainer(Training.begun(shape, batch=19), images_of(shape, 60))
    trainer.run(3)
    for flat, its in zip(
        (part.copy_to_host()[-ParameterLayout(shape).size :] for part in trainer._parameters),
        (getattr(trainer.training(), which) for which in ("weights", "first", "second")),
        strict=True,
    ):
        assert np.array_equal(flat, ParameterLayout(shape).packed(its))


@pytest.mark.skipif(backend.gpu() is not None, reason="the simulator is the GPU here")
def test_a_gpu_without_tf32_takes_plain_cores(monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", TURING)
    shape = VAEShape(4, 4, 4)
    training, images = Training.begun(shape, batch=4), images_of(shape, 8)
    assert FusedTrainer(training, images).precision == "float32"
    with pytest.raises(
        ValueError, match=r"'tf32x3' needs compute capability 8\.0.*has 7\.5.*'float32'"
    ):
        FusedTrainer(training, images, "tf32x3")


def test_what_does_not_fit_is_refused():
    shape = VAEShape(4, 4, 4)
    training = Training.begun(shape, batch=4)
    with pytest.raises(ValueError, match="precision is 'half'; there are tf32x3, tf32, float32"):
        FusedTrainer(training, images_of(shape, 8), "half")
    with pytest.raises(ValueError, match="images have 5 pixels, and the VAE takes 4"):
        FusedTrainer(training, images_of(VAEShape(5, 4, 4), 8))
    with pytest.raises(TypeError, match="uint8"):
        FusedTrainer(training, images_of(shape, 8).astype(np.float32))


@pytest.mark.skipif(backend.gpu() is None, reason="needs a GPU")
def test_graphs_and_single_launches_make_the_same_bits(monkeypatch):
    shape = VAEShape()
    training, images = Training.begun(shape), enlarged(60 * 128)
    graphs = FusedTrainer(training, images)
    graphs.run(60)
    monkeypatch.setattr(fused, "IN_A_GRAPH", ())
    singles = FusedTrainer(training, images)
    singles.run(60)
    assert graphs.losses == singles.losses
    for name, its in graphs.training().weights.items():
        assert np.array_equal(its, singles.training().weights[name])
