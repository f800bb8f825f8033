"""A trained VAE of the course's kernels: held to float64, in all libraries, few and many images."""

import numpy as np
import pytest

from course.backend import cuda
from course.files import data_path
from course_models.vae import data, inference, reference, weights
from course_models.vae.inference import VAE
from course_models.vae.shape import VAEShape
from tools.train import vae as train_vae

ODD = VAEShape(7, 5, 3)


@pytest.fixture(scope="module")
def vae():
    return VAE.trained()


@pytest.fixture(scope="module")
def x():
    return data.digits(held_out=True).images[:40] / np.float32(255)


def wide(its):
    return {name: array.astype(np.float64) for name, array in its.items()}


def assert_near(found, exact, bound=2e-5):
    """Sums of 128 products of float32, one after the other, twice: some 2**-24 each, relative."""
    assert found.dtype == np.float32 and found.shape == exact.shape
    assert np.abs(found - exact).max() <= bound * max(1, np.abs(exact).max())


@pytest.mark.parametrize("count", [1, inference.FEW, inference.FEW + 1])
def test_codes_and_images_are_those_of_float64(vae, x, count):
    w, x = wide(vae.weights), x[:count]
    mean, log_variance, _ = reference.encode(w, x.astype(np.float64))
    for found, exact in zip(vae.encode(x), (mean, log_variance), strict=True):
        assert_near(found, exact)
    grey = reference.sigmoid(reference.decode(w, mean)[0])
    assert_near(vae.decode(mean.astype(np.float32)), grey)
    assert_near(vae.reconstruct(x), grey, 1e-4)


@pytest.mark.parametrize("count", [2, 35])
def test_odd_sizes_are_right_too(count):
    made = weights.initial(ODD, 3)
    vae, rng = VAE(ODD, made), np.random.default_rng(1)
    x = rng.random((count, 7), np.float32)
    mean, log_variance, _ = reference.encode(wide(made), x)
    for found, exact in zip(vae.encode(x), (mean, log_variance), strict=True):
        assert_near(found, exact)
    assert_near(vae.reconstruct(x), reference.sigmoid(reference.decode(wide(made), mean)[0]))


def test_samples_are_those_of_their_seed(vae):
    z = reference.noise(5, vae.shape.latent, 0, 7)
    exact = reference.sigmoid(reference.decode(wide(vae.weights), z)[0])
    assert_near(vae.sample(5, 7), exact, 1e-4)  # a GPU's fast logarithm
    assert np.array_equal(vae.sample(5, np.array([7, 0], np.int64)), vae.sample(5, 7))
    assert not np.array_equal(vae.sample(5, np.array([7, 1], np.int64)), vae.sample(5, 7))


def test_numpys_numbers_and_weights_of_any_order_do(vae, x):
    assert np.array_equal(vae.sample(np.int64(2), np.uint8(7)), vae.sample(2, 7))
    for reordered in (np.asfortranarray, lambda its: its[::-1].copy()[::-1]):
        other = VAE(vae.shape, {name: reordered(its) for name, its in vae.weights.items()})
        assert np.array_equal(other.reconstruct(x), vae.reconstruct(x))


def test_results_are_of_the_inputs_kind(vae, x):
    mean, _ = vae.encode(cuda.to_device(x[:3]))
    assert type(mean) is type(cuda.to_device(x)) and mean.shape == (3, 8)
    torch = pytest.importorskip("torch")
    there = torch.from_numpy(x[:3]).to("cuda" if torch.cuda.is_available() else "cpu")
    rebuilt = vae.reconstruct(there)
    assert isinstance(rebuilt, torch.Tensor) and rebuilt.device == there.device
    assert np.array_equal(rebuilt.cpu().numpy(), vae.reconstruct(x[:3]))


def test_no_image_comes_to_no_image(vae, x):
    assert vae.encode(x[:0])[0].shape == (0, 8)
    assert vae.reconstruct(x[:0]).shape == (0, 64)


def test_what_does_not_fit_is_named(vae, x):
    with pytest.raises(ValueError, match=r"x has the shape \(40, 32\); it must be \(n, 64\)"):
        vae.encode(np.ascontiguousarray(x[:, :32]))
    with pytest.raises(TypeError, match="z holds float64"):
        vae.decode(np.zeros((1, 8)))
    for seed in (-1, 2**63):
        with pytest.raises(ValueError, match=f"counter is {seed}; a seed is from 0"):
            vae.sample(1, seed)
    with pytest.raises(ValueError, match="count is 0"):
        vae.sample(0)
    with pytest.raises(TypeError, match="counter is float32"):
        vae.sample(1, np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="code.bias"):
        VAE(vae.shape, {n: its for n, its in vae.weights.items() if n != "code.bias"})


# --- the weights that are shipped -----------------------------------------------------------------


def test_the_shipped_weights_loss_is_that_of_the_readme(vae):
    parts = [data.digits(held_out=out).images for out in (False, True)]
    assert [len(images) for images in parts] == [1437, 360] and vae.shape == train_vae.SHAPE
    losses = [train_vae.loss(vae.weights, images) for images in parts]
    text = " ".join(data_path("README.md").read_text(encoding="utf-8").split())
    assert "{:.2f} of those that it saw, {:.2f} of the 360 held out".format(*losses) in text


def test_they_rebuild_digits_that_they_never_saw(vae):
    x, w = data.digits(held_out=True).images / 255, wide(vae.weights)
    rebuilt = reference.sigmoid(reference.decode(w, reference.encode(w, x)[0])[0])
    assert ((rebuilt - x) ** 2).mean() < 0.31 * ((x - x.mean(axis=0)) ** 2).mean()


@pytest.mark.slow
def test_the_tool_makes_the_same_weights_each_time(tmp_path, capsys):
    for name in ("one.npz", "two.npz"):
        train_vae.main(["--epochs", "1", "--out", str(tmp_path / name)])
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    assert "BCE + KL in nats an image: 2" in capsys.readouterr().out
    shape, made = weights.load(tmp_path / "one.npz")
    assert shape == train_vae.SHAPE
    before = train_vae.loss(weights.initial(shape), data.digits(held_out=True).images)
    assert train_vae.loss(made, data.digits(held_out=True).images) < 0.7 * before
