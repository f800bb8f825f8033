"""A VAE's training in NumPy, step by step: the kernels' reference, and the training without a GPU.

A step, for a batch of x in [0, 1]:

    h = leaky(x W' + b)         mean, log variance = h W' + b
    z = mean + exp(log variance / 2) e
    g = leaky(z W' + b)         logits = g W' + b
    loss = (BCE(logits, x) + KL(mean, log variance)) / batch

then each layer's gradient, backwards, and Adam. The noise e follows from a seed and a step
(`noise`), so that it can be made again anywhere, in any order.

Source: Kingma, Welling, "Auto-encoding variational Bayes", arXiv:1312.6114; Kingma, Ba, "Adam",
arXiv:1412.6980; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from course_models.vae.shape import VAEShape
from course_models.vae.weights import Training, Weights

SLOPE = 0.2  # LeakyReLU's slope below 0
BETA1, BETA2, TINY = 0.9, 0.999, 1e-8  # Adam's
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57  # Philox's
WEYL = 0x9E3779B9, 0xBB67AE85
ROUNDS, LOW = 10, 0xFFFFFFFF

# --- noise ----------------------------------------------------------------------------------------


def philox(counters: np.ndarray, step: int, seed: int) -> list[np.ndarray]:
    """Philox 4x32-10 of the counters (c, step, 0, 0), with a seed of 64 bits as its key.

    Parameters
    ----------
    counters : ndarray of whole numbers below 2**32

    Returns
    -------
    list of four ndarray of uint64
        Each holds 32 random bits.
    """
    low, half = np.uint64(LOW), np.uint64(32)
    a = np.asarray(counters, np.uint64)
    b, c, d = (np.full_like(a, number) for number in (step & LOW, 0, 0))
    keys = [seed & LOW, seed >> 32]
    for _ in range(ROUNDS):
        p, q = np.uint64(MULTIPLIERS[0]) * a, np.uint64(MULTIPLIERS[1]) * c
        first, second = map(np.uint64, keys)
        a, b, c, d = (q >> half) ^ b ^ first, q & low, (p >> half) ^ d ^ second, p & low
        keys = [(key + more) & LOW for key, more in zip(keys, WEYL)]
    return [a, b, c, d]


def noise(batch: int, latent: int, step: int, seed: int) -> np.ndarray:
    """Standard normal numbers of a step, by Box and Muller: (batch, latent), float64.

    Element i comes from the counter i // 4, so that it does not depend on who computes it.
    """
    count = batch * latent
    bits = philox(np.arange(-(-count // 4)), step, seed)
    radius, angle, radius2, angle2 = ((its >> np.uint64(8)) * 2.0**-24 for its in bits)
    radius, radius2 = (np.sqrt(-2 * np.log(its + 2.0**-24)) for its in (radius, radius2))
    angle, angle2 = (2 * np.pi * (its - 0.5) for its in (angle, angle2))
    four = [
        radius * np.cos(angle), radius * np.sin(angle),
        radius2 * np.cos(angle2), radius2 * np.sin(angle2),
    ]  # fmt: skip
    return np.stack(four, axis=-1).reshape(-1)[:count].reshape(batch, latent)


# --- one way, and back ----------------------------------------------------------------------------


def leaky(x: np.ndarray) -> np.ndarray:
    """x where it is above 0, else a fifth of x."""
    return np.where(x > 0, x, SLOPE * x)


def leaky_gradient(grad: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The gradient by x, from y = leaky(x), which has the sign of x."""
    return np.where(y > 0, grad, SLOPE * grad)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), for x of any size."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def encode(w: Mapping[str, np.ndarray], x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and log variances (n, latent) of images (n, pixels), and the hidden layer."""
    hidden = leaky(x @ w["encode.weight"].T + w["encode.bias"])
    mean, log_variance = np.split(hidden @ w["code.weight"].T + w["code.bias"], 2, axis=1)
    return mean, log_variance, hidden


def decode(w: Mapping[str, np.ndarray], z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logits (n, pixels) of codes (n, latent), and the hidden layer; `sigmoid` gives greys."""
    hidden = leaky(z @ w["decode.weight"].T + w["decode.bias"])
    return hidden @ w["pixels.weight"].T + w["pixels.bias"], hidden


def loss_terms(
    x: np.ndarray, logits: np.ndarray, mean: np.ndarray, log_variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The loss's terms: BCE of each pixel (n, pixels), KL of each latent number (n, latent)."""
    bce = np.maximum(logits, 0) - logits * x + np.log1p(np.exp(-np.abs(logits)))
    return bce, (mean**2 + np.exp(log_variance / 2) ** 2 - 1 - log_variance) / 2


def loss_and_gradients(
    w: Mapping[str, np.ndarray], x: np.ndarray, e: np.ndarray
) -> tuple[float, Weights]:
    """The loss of a batch, and its gradient with respect to each parameter.

    Parameters
    ----------
    w : mapping of str to ndarray
    x : ndarray, shape (batch, pixels)
        Grey levels in [0, 1].
    e : ndarray, shape (batch, latent)
        The noise. All have one dtype, float64 or float32, in which everything is computed.
    """
    batch = len(x)
    mean, log_variance, h = encode(w, x)
    deviation = np.exp(log_variance / 2)
    z = mean + deviation * e
    logits, g = decode(w, z)
    bce, kl = loss_terms(x, logits, mean, log_variance)
    loss = (bce.sum(dtype=np.float64) + kl.sum(dtype=np.float64)) / batch

    d_logits = (sigmoid(logits) - x) / batch
    d_g = leaky_gradient(d_logits @ w["pixels.weight"], g)
    d_z = d_g @ w["decode.weight"]
    d_mean = d_z + mean / batch
    d_log_variance = (d_z * e * deviation + (deviation**2 - 1) / batch) / 2
    d_code = np.concatenate([d_mean, d_log_variance], axis=1)
    d_h = leaky_gradient(d_code @ w["code.weight"], h)
    ways = {"encode": (d_h, x), "code": (d_code, h), "decode": (d_g, z), "pixels": (d_logits, g)}
    gradients = {}
    for name, (above, below) in ways.items():
        gradients |= {f"{name}.weight": above.T @ below, f"{name}.bias": above.sum(axis=0)}
    return float(loss), gradients


def adam(
    w: Weights, first: Weights, second: Weights, gradients: Weights, step: int, rate: float
) -> None:
    """Change weights and both moments by a step of Adam; the first step is 1.

    1 - beta**step is computed in float64: in float32 it would be wrong by 1e-5 for beta = 0.999.
    """
    scale, spread = rate / (1 - BETA1**step), 1 / (1 - BETA2**step)
    for name, gradient in gradients.items():
        first[name] += (1 - BETA1) * (gradient - first[name])
        second[name] += (1 - BETA2) * (gradient * gradient - second[name])
        w[name] -= scale * first[name] / (np.sqrt(spread * second[name]) + TINY)


# --- a training -----------------------------------------------------------------------------------


def _copied(part: Weights) -> Weights:
    return {name: its.copy() for name, its in part.items()}


@dataclass
class _Epoch:
    number: int
    order: np.ndarray


class NumpyTrainer:
    """Trains a VAE with NumPy, in float32.

    In epoch e the images come in the order of ``numpy.random.default_rng((seed, e))``; a last batch
    that is not full is left out. Two trainings that begin alike end in the same bits on one
    machine, even if one of them was saved and resumed.

    Parameters
    ----------
    training : Training
        The state to continue: `Training.begun`, or what `Training.load` read.
    images : ndarray, shape (n, pixels), uint8

    Attributes
    ----------
    step : int
        Steps that are done.
    losses : list of float
        Losses of the steps that this object did.
    """

    def __init__(self, training: Training, images: np.ndarray):
        check_images(training.shape, images, training.batch)
        self._begun, self._images = training, np.asarray(images)  # may be a subclass
        parts = training.weights, training.first, training.second
        self._weights, self._first, self._second = map(_copied, parts)
        self.step, self.losses = training.step, []
        self.steps_of_an_epoch = len(images) // training.batch
        self._epoch = _Epoch(-1, np.empty(0, np.int64))

    def run(self, steps: int) -> None:
        """Do so many steps."""
        of = self._begun
        for _ in range(steps):
            epoch, place = divmod(self.step, self.steps_of_an_epoch)
            if self._epoch.number != epoch:
                rng = np.random.default_rng((of.seed, epoch))
                self._epoch = _Epoch(epoch, rng.permutation(len(self._images)))
            these = self._epoch.order[place * of.batch : (place + 1) * of.batch]
            x = self._images[these].astype(np.float32) / np.float32(255)
            e = noise(of.batch, of.shape.latent, self.step, of.seed).astype(np.float32)
            loss, gradients = loss_and_gradients(self._weights, x, e)
            self.step += 1
            adam(self._weights, self._first, self._second, gradients, self.step, of.rate)
            self.losses.append(loss)

    def training(self) -> Training:
        """The state from which a training can continue."""
        weights, first, second = map(_copied, (self._weights, self._first, self._second))
        return replace(self._begun, weights=weights, first=first, second=second, step=self.step)


def check_images(shape: VAEShape, images: np.ndarray, batch: int) -> None:
    """Refuse images that a VAE of this shape cannot be trained on."""
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 2:
        given = f"{images.dtype} {images.shape}" if isinstance(images, np.ndarray) else type(images)
        raise TypeError(f"images are {given}; they must be uint8, (n, pixels)")
    if images.shape[1] != shape.pixels:
        raise ValueError(
            f"images have {images.shape[1]} pixels, and the VAE takes {shape.pixels}: choose a "
            "shape for them, or other images"
        )
    if len(images) < batch:
        raise ValueError(f"there are {len(images)} images, fewer than a batch, {batch}")
