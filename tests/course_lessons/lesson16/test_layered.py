"""A VAE's step of many launches: loss, gradients and weights of float64, on awkward sizes."""

import numpy as np
import pytest

from course_lessons.lesson16.layered import METHODS, LayeredTrainer
from course_lessons.lesson16.parts import Parameters
from course_models.vae.reference import NumpyTrainer, adam, loss_and_gradients, noise
from course_models.vae.shape import VAEShape
from course_models.vae.weights import Training

SHAPES = {"prime": (VAEShape(13, 11, 3), 5), "even": (VAEShape(64, 32, 8), 16)}


@pytest.fixture(params=SHAPES)
def training(request):
    """A training of which nothing is done, with biases that are not 0."""
    shape, batch = SHAPES[request.param]
    begun = Training.begun(shape, batch=batch, seed=7, rate=1e-2)
    rng = np.random.default_rng(3)
    for name, its in begun.weights.items():
        if name.endswith("bias"):
            its[...] = rng.uniform(-0.3, 0.3, its.shape)
    return begun


def images_for(training, batches=3):
    """So many batches of random images, and a few more."""
    count = training.batch * batches + 2
    return np.random.default_rng(1).integers(
        0, 256, (count, training.shape.pixels), np.uint8, endpoint=False
    )


def exact(training, images, steps):
    """Losses, weights and the last gradients of some steps in float64."""
    parts = (training.weights, training.first, training.second)
    w, first, second = ({n: a.astype(float) for n, a in part.items()} for part in parts)
    losses, batch, of_an_epoch = [], training.batch, len(images) // training.batch
    for step in range(training.step, training.step + steps):
        epoch, place = divmod(step, of_an_epoch)
        order = np.random.default_rng((training.seed, epoch)).permutation(len(images))
        x = images[order[place * batch : (place + 1) * batch]] / 255
        e = noise(batch, training.shape.latent, step, training.seed)
        loss, gradients = loss_and_gradients(w, x, e)
        adam(w, first, second, gradients, step + 1, training.rate)
        losses.append(loss)
    return losses, w, gradients


def relative(found, right):
    return np.linalg.norm(found - right) / np.linalg.norm(right)


@pytest.mark.parametrize("method", METHODS)
def test_a_step_has_the_loss_and_the_gradients_of_float64(training, method):
    images = images_for(training)
    trainer = LayeredTrainer(training, images, method)
    trainer.run(1)
    (loss,), _, gradients = exact(training, images, 1)
    assert trainer.losses == [pytest.approx(loss, rel=1e-5)]
    found = trainer.gradients()
    for name, its in gradients.items():
        assert relative(found[name], its) < 1e-5, name  # sums of a few dozen rounded products
        moment = trainer.training().first[name]
        assert relative(moment / np.float32(0.1), its) < 1e-5, name


@pytest.mark.parametrize("method", METHODS)
def test_some_steps_end_near_the_weights_of_float64(training, method):
    images = images_for(training, batches=2)
    trainer = LayeredTrainer(training, images, method)
    trainer.run(3)  # into the second epoch
    losses, weights, _ = exact(training, images, 3)
    assert trainer.step == trainer.training().step == 3
    assert np.allclose(trainer.losses, losses, rtol=1e-5)
    found = trainer.training().weights
    for name, its in weights.items():
        assert np.abs(found[name] - its).max() < 2e-3 * training.rate * 3, name


def test_a_resumed_training_ends_in_the_same_bits(training):
    images = images_for(training)
    whole = LayeredTrainer(training, images)
    whole.run(4)
    half = LayeredTrainer(training, images)
    half.run(2)
    rest = LayeredTrainer(half.training(), images)
    rest.run(1)
    rest.run(1)
    assert half.losses + rest.losses == whole.losses
    for part in ("weights", "first", "second"):
        for name, its in getattr(whole.training(), part).items():
            assert np.array_equal(its, getattr(rest.training(), part)[name]), (part, name)


def test_it_goes_as_the_reference_does_in_float32(training):
    images = images_for(training)
    ours, numpys = LayeredTrainer(training, images), NumpyTrainer(training, images)
    for trainer in (ours, numpys):
        trainer.run(2)
    assert np.allclose(ours.losses, numpys.losses, rtol=1e-5)
    assert ours.steps_of_an_epoch == numpys.steps_of_an_epoch


def test_the_optimised_step_has_fewer_launches_and_the_same_memory_in_each(training):
    images = images_for(training)
    naive, optimised = (LayeredTrainer(training, images, method) for method in METHODS)
    assert len(naive.launches) - len(optimised.launches) == len(training.shape.parameters) - 1
    before = list(optimised.launches)
    optimised.run(2)
    assert all(a is b for a, b in zip(before, optimised.launches, strict=True))


def test_parameters_lie_from_multiples_of_16_bytes_on(training):
    its = Parameters(training.shape, training.weights)
    assert all(a.__cuda_array_interface__["data"][0] % 16 == 0 for a in its.each())
    assert all(np.array_equal(a, training.weights[n]) for n, a in its.host().items())
    weight, bias = its.of("log variance")
    latent = training.shape.latent
    assert np.array_equal(weight.copy_to_host(), training.weights["code.weight"][latent:])
    assert np.array_equal(bias.copy_to_host(), training.weights["code.bias"][latent:])


def test_what_does_not_fit_is_refused(training):
    with pytest.raises(ValueError, match="no method 'fused': choose naive, optimised"):
        LayeredTrainer(training, images_for(training), "fused")
    with pytest.raises(TypeError, match="must be uint8"):
        LayeredTrainer(training, images_for(training) / 255)
