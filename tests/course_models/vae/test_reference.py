"""A VAE's training in NumPy: gradients against differences, noise, files, resuming."""

import numpy as np
import pytest

from course_models.vae import data, reference, weights
from course_models.vae.reference import NumpyTrainer, loss_and_gradients
from course_models.vae.shape import VAEShape
from course_models.vae.weights import Training

SMALL = VAEShape(7, 5, 3)


@pytest.fixture
def batch():
    rng = np.random.default_rng(1)
    return rng.random((4, 7)), rng.standard_normal((4, 3))


def wide(found):
    return {name: its.astype(np.float64) for name, its in found.items()}


def test_the_models_size_is_that_of_r0():
    assert VAEShape().count == 869_184
    assert [*VAEShape().parameters][:2] == ["encode.weight", "encode.bias"]
    with pytest.raises(ValueError, match="hidden is 0"):
        VAEShape(hidden=0)


def test_gradients_are_those_of_differences(batch):
    w = wide(weights.initial(SMALL, 5))
    rng, (x, e) = np.random.default_rng(2), batch
    for name in w:  # biases, too, are not zero
        w[name] += 0.1 * rng.standard_normal(w[name].shape)
    _, gradients = loss_and_gradients(w, x, e)
    assert [*gradients] == [*SMALL.parameters]
    for name, gradient in gradients.items():
        found = np.empty_like(gradient)
        for place in np.ndindex(gradient.shape):
            sides = []
            for step in (1e-5, -1e-5):
                moved = w | {name: w[name].copy()}
                moved[name][place] += step
                sides.append(loss_and_gradients(moved, x, e)[0])
            found[place] = (sides[0] - sides[1]) / 2e-5
        assert np.abs(found - gradient).max() < 1e-8


def test_the_loss_is_finite_for_large_logits(batch):
    w = wide(weights.initial(SMALL))
    w["pixels.bias"][:] = [1e4, -1e4, 700, -700, 0, 50, -50]
    loss, gradients = loss_and_gradients(w, *batch)
    assert np.isfinite(loss) and all(np.isfinite(its).all() for its in gradients.values())


def test_philox_is_the_published_one():
    """Known answers of Random123's kat_vectors, philox4x32 with 10 rounds."""
    zeros = [int(its) for its in reference.philox(np.array(0), 0, 0)]
    assert zeros == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_noise_is_normal_and_depends_on_step_seed_and_place_alone():
    first = reference.noise(500, 200, 3, 7)
    assert abs(first.mean()) < 0.01 and abs(first.std() - 1) < 0.01
    assert abs((first**4).mean() - 3) < 0.1
    assert np.array_equal(first.ravel()[:600], reference.noise(3, 200, 3, 7).ravel())
    assert np.array_equal(first.ravel()[:7], reference.noise(1, 7, 3, 7).ravel())
    for other in (reference.noise(500, 200, 4, 7), reference.noise(500, 200, 3, 7 + 2**32)):
        assert abs(np.corrcoef(first.ravel(), other.ravel())[0, 1]) < 0.02


def test_initial_weights_have_their_bounds():
    made = weights.initial(VAEShape())
    bounds = {
        "encode.weight": np.sqrt(6 / 1.04 / 784), "code.weight": np.sqrt(6 / 800),
        "decode.weight": np.sqrt(6 / 1.04 / 200), "pixels.weight": np.sqrt(6 / 1184),
    }  # fmt: skip
    for name, bound in bounds.items():
        assert 0.999 * bound < np.abs(made[name]).max() <= bound * (1 + 1e-6)
        assert abs(made[name].std() - bound / 3**0.5) < 0.01 * bound
    assert not any(made[name].any() for name in made if name.endswith("bias"))


# --- trained --------------------------------------------------------------------------------------


@pytest.fixture
def images():
    return data.digits().images


def test_it_learns_the_courses_digits(images):
    trainer = NumpyTrainer(Training.begun(VAEShape(64, 32, 4), batch=64, rate=3e-3), images)
    trainer.run(400)
    assert np.mean(trainer.losses[-20:]) < 0.62 * np.mean(trainer.losses[:3])
    w, x = trainer.training().weights, images[:200] / np.float32(255)
    mean, _, _ = reference.encode(w, x)
    rebuilt = reference.sigmoid(reference.decode(w, mean)[0])
    plain = ((x - x.mean(axis=0)) ** 2).mean()
    assert ((rebuilt - x) ** 2).mean() < 0.75 * plain


def test_a_saved_training_goes_on_with_the_same_bits_in_the_middle_of_an_epoch(images, tmp_path):
    begun = Training.begun(VAEShape(64, 9, 3), batch=200, seed=2**40 + 1)
    whole, first = NumpyTrainer(begun, images), NumpyTrainer(begun, images)
    assert whole.steps_of_an_epoch == 8
    whole.run(20)
    first.run(11)
    first.training().save(tmp_path / "state.npz")
    again = NumpyTrainer(Training.load(tmp_path / "state.npz"), images)
    again.run(9)
    assert again.step == 20 and first.losses + again.losses == whole.losses
    for which in ("weights", "first", "second"):
        for name, its in getattr(whole.training(), which).items():
            assert np.array_equal(its, getattr(again.training(), which)[name])
    assert not begun.first["encode.weight"].any()  # what it began from is as it was


def test_images_and_weights_may_lie_in_any_order(images):
    begun = Training.begun(SMALL, batch=9, seed=1)
    turned = {name: np.asfortranarray(its) for name, its in begun.weights.items()}
    x = np.ascontiguousarray(images[:40, : SMALL.pixels])
    other = Training.begun(SMALL, turned, batch=9, seed=1)
    trainers = NumpyTrainer(begun, x), NumpyTrainer(other, np.ma.array(x[::-1].copy())[::-1])
    for trainer in trainers:
        trainer.run(5)
    assert trainers[0].losses == trainers[1].losses


def test_an_epoch_has_each_image_at_most_once(images, monkeypatch):
    seen = []
    monkeypatch.setattr(
        reference, "loss_and_gradients",
        lambda w, x, e: seen.append(x.copy()) or (0.0, {n: np.zeros_like(i) for n, i in w.items()}),
    )  # fmt: skip
    small = np.arange(70, dtype=np.uint8)[:, None].repeat(64, axis=1)
    trainer = NumpyTrainer(Training.begun(VAEShape(64, 4, 2), batch=16), small)
    trainer.run(8)
    epochs = [np.rint(255 * np.concatenate(seen[i : i + 4])[:, 0]) for i in (0, 4)]
    assert all(len(set(its.tolist())) == 64 for its in epochs)
    assert not np.array_equal(*epochs)


# --- files and refusals ---------------------------------------------------------------------------


def test_weights_are_saved_and_loaded_also_from_a_trainings_file(tmp_path):
    begun = Training.begun(SMALL, seed=4)
    weights.save(tmp_path / "w.npz", SMALL, begun.weights)
    begun.save(tmp_path / "t.npz")
    for name in ("w.npz", "t.npz"):
        shape, found = weights.load(tmp_path / name)
        assert shape == SMALL and all(np.array_equal(found[n], begun.weights[n]) for n in found)
    with pytest.raises(ValueError, match="weights alone"):
        Training.load(tmp_path / "w.npz")
    content = (tmp_path / "t.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.npz").write_text("no file of NumPy's")
    for name in ("cut.npz", "text.npz"):
        with pytest.raises(ValueError, match=f"{name} has no weights of a VAE"):
            Training.load(tmp_path / name)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"decode.bias": None}, "missing or superfluous are decode.bias"),
        ({"more": np.zeros(3, np.float32)}, "missing or superfluous are more"),
        ({"decode.bias": np.zeros(4, np.float32)}, r"decode.bias is float32 \(4,\)"),
        ({"decode.bias": np.zeros(5)}, "decode.bias is float64"),
        ({"decode.bias": [0.0] * 5}, "decode.bias is list"),
        ({"decode.bias": np.full(5, np.nan, np.float32)}, "decode.bias has numbers that are not"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path, change, words):
    given = weights.initial(SMALL) | change
    given = {name: its for name, its in given.items() if its is not None}
    with pytest.raises(ValueError, match=words):
        weights.save(tmp_path / "w.npz", SMALL, given)
    with pytest.raises(ValueError, match=words):
        Training.begun(SMALL, given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "more, words",
    [
        ({"batch": 0}, "batch is 0"), ({"seed": -1}, "seed is -1"), ({"rate": 0.0}, "rate is 0.0"),
        ({"batch": True}, "batch is True"), ({"batch": 2.0}, "batch is 2.0"),
        ({"seed": 2**63}, "from 0 to"), ({"rate": "1"}, "rate is 1"),
    ],
)  # fmt: skip
def test_a_training_that_cannot_begin_says_why(more, words):
    with pytest.raises(ValueError, match=words):
        Training.begun(SMALL, **more)


def test_numpys_numbers_are_taken_for_pythons():
    its, begun = np.int16(3), Training.begun(SMALL, batch=3, seed=3, rate=0.5)
    assert VAEShape(its, its, its) == VAEShape(3, 3, 3)
    found = Training.begun(SMALL, batch=its, seed=np.uint64(3), rate=np.float16(0.5))
    for name in ("batch", "seed", "rate"):
        assert type(getattr(found, name)) is type(getattr(begun, name))
        assert getattr(found, name) == getattr(begun, name)
    for wrong in (True, 2.0, 0, 2**31):
        with pytest.raises(ValueError, match=f"latent is {wrong!r}"):
            VAEShape(3, 3, wrong)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"numbers": np.array([-1, 4, 0, 0])}, "step is -1"),
        ({"numbers": np.array([2**31, 4, 0, 0])}, "step is 2147483648"),
        ({"numbers": np.array([0, 0, 0, 0])}, "batch is 0"),
        ({"numbers": np.array([0.0, 4, 0, 0])}, "another form"),
        ({"numbers": np.array([0, 4, 0])}, "another form"),
        ({"rate": np.array(np.nan)}, "rate is nan"),
        ({"rate": np.array(1j)}, "rate is 1j"),
        ({"second.code.bias": np.full(2 * SMALL.latent, -1, np.float32)}, "is below 0"),
        ({"sizes": np.array([np.inf, 9, 5])}, "no weights"),
        ({"sizes": np.array([1.5, 9, 5])}, "no weights"),
        ({"encode.bias": np.array([{}])}, "no weights"),  # a pickle
    ],
)
def test_a_file_of_another_program_is_refused(tmp_path, change, words):
    Training.begun(SMALL).save(tmp_path / "t.npz")
    np.savez(tmp_path / "t.npz", **dict(np.load(tmp_path / "t.npz")) | change)
    with pytest.raises(ValueError, match=f"t.npz.*{words}"):
        Training.load(tmp_path / "t.npz")


def test_whatever_byte_is_wrong_the_file_is_read_or_refused(tmp_path):
    path, rng = tmp_path / "t.npz", np.random.default_rng(1)
    Training.begun(SMALL).save(path)
    np.savez_compressed(path, **np.load(path))
    whole = path.read_bytes()
    refused = 0
    for place in rng.integers(0, len(whole), 300):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            Training.load(path)
        except ValueError as problem:
            refused += "t.npz" in str(problem)
    assert refused > 150  # zip's own tables repeat much of what they say


def test_images_that_do_not_fit_are_refused(images):
    begun = Training.begun(VAEShape(64, 4, 2), batch=16)
    for wrong, kind, words in (
        (images / 255, TypeError, "images are float64"),
        (images[:, :63], ValueError, "63 pixels, and the VAE takes 64"),
        (images[:15], ValueError, "15 images, fewer than a batch, 16"),
        ([1, 2], TypeError, "they must be uint8"),
    ):
        with pytest.raises(kind, match=words):
            NumpyTrainer(begun, wrong)
