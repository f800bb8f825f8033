"""Train the spectral autoencoder on sound spectra: ``data/models/spectral.npz``.

    python -m tools.train.spectral

needs NumPy alone and a few seconds. Gradients are written by hand, the optimiser is Adam (Kingma
and Ba, "Adam: a method for stochastic optimization", arXiv:1412.6980). After each step the rows of
the basis are scaled to length 1 again. The same machine makes the same weights each time; another
one may add in another order, and its weights differ in the last digits.
"""

from __future__ import annotations

import numpy as np

from course_models.common import erf
from course_models.spectral.data import BANDS, FRAMES, POINTS, area_under_curve, held_out, spectra
from course_models.spectral.network import reference
from course_models.spectral.weights import EPSILON, Weights
from tools.notebooks.lessons import ROOT

FILE = ROOT / "data" / "models" / "spectral.npz"
SEED, COUNT = 13, 16_384  # of the spectra
BATCH, STEPS = 256, 600
RATE, BETA1, BETA2, TINY = 3e-3, 0.9, 0.999, 1e-8

Arrays = dict[str, np.ndarray]


def gelu(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """GELU and its derivative."""
    below = 0.5 * (1 + erf(x * np.float32(0.5**0.5)))
    return x * below, below + x * np.exp(-0.5 * x * x) * np.float32((2 * np.pi) ** -0.5)


def normalise(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """LayerNorm before gamma and beta, and the inverse standard deviations."""
    centred = x - x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(EPSILON))
    return centred * inverse, inverse


def normalise_backward(grad: np.ndarray, z: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Gradient with respect to what `normalise` was given."""
    shared = grad.mean(-1, keepdims=True) + z * (grad * z).mean(-1, keepdims=True)
    return inverse * (grad - shared)


def loss_and_gradients(x: np.ndarray, w: Arrays) -> tuple[float, Arrays]:
    """Mean squared error of a batch, and its gradient with respect to each weight."""
    frames = x.reshape(-1, BANDS)
    z1, inverse1 = normalise(frames)
    n1 = z1 * w["encode_gamma"] + w["encode_beta"]
    c, slope1 = gelu(n1 @ w["encode_weight"].T + w["encode_bias"])
    c = c.reshape(-1, POINTS)
    z2, inverse2 = normalise(c @ w["basis"].T)
    n2 = z2 * w["code_gamma"] + w["code_beta"]
    h, slope2 = gelu(n2 @ w["code_weight"].T + w["code_bias"])
    r = (h @ w["basis"]).reshape(-1, BANDS)
    difference = r @ w["decode_weight"].T + w["decode_bias"] - frames

    g: Arrays = {}
    d = difference * np.float32(2 / difference.size)
    g["decode_weight"], g["decode_bias"] = d.T @ r, d.sum(0)
    d = (d @ w["decode_weight"]).reshape(-1, POINTS)
    g["basis"] = h.T @ d
    d = d @ w["basis"].T * slope2
    g["code_weight"], g["code_bias"] = d.T @ n2, d.sum(0)
    d = d @ w["code_weight"]
    g["code_gamma"], g["code_beta"] = (d * z2).sum(0), d.sum(0)
    d = normalise_backward(d * w["code_gamma"], z2, inverse2)
    g["basis"] += d.T @ c
    d = (d @ w["basis"]).reshape(-1, BANDS) * slope1
    g["encode_weight"], g["encode_bias"] = d.T @ n1, d.sum(0)
    d = d @ w["encode_weight"]
    g["encode_gamma"], g["encode_beta"] = (d * z1).sum(0), d.sum(0)
    return float((difference.astype(np.float64) ** 2).mean()), g


def unit_rows(basis: np.ndarray) -> np.ndarray:
    """The basis with rows of length 1."""
    wide = basis.astype(np.float64)
    return (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)


def train(steps: int = STEPS, count: int = COUNT) -> Weights:
    """Train on sound spectra; the step's length falls to zero along a cosine."""
    x, w = spectra(count, SEED), Weights.random(SEED).as_dict()
    order = np.random.default_rng(SEED)
    first = {name: np.zeros_like(array) for name, array in w.items()}
    second = {name: np.zeros_like(array) for name, array in w.items()}
    for step in range(1, steps + 1):
        _, gradients = loss_and_gradients(x[order.integers(0, count, BATCH)], w)
        rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
        for name, g in gradients.items():
            first[name] += np.float32(1 - BETA1) * (g - first[name])
            second[name] += np.float32(1 - BETA2) * (g * g - second[name])
            size = np.sqrt(second[name] / np.float32(1 - BETA2**step)) + np.float32(TINY)
            w[name] = w[name] - np.float32(rate / (1 - BETA1**step)) * first[name] / size
        w["basis"] = unit_rows(w["basis"])
    return Weights(**w)


def main() -> None:
    """Train, save, and say how well the score tells faulty spectra from sound ones."""
    weights = train()
    FILE.parent.mkdir(parents=True, exist_ok=True)
    weights.save(FILE)
    x, is_faulty = held_out()
    _, scores = reference(x, weights)
    sound, faulty = scores[~is_faulty].mean(), scores[is_faulty].mean()
    print(f"{FILE.name}: {FRAMES} frames of {BANDS} bands, {FILE.stat().st_size:,} bytes")
    print(f"mean squared error on held-out spectra: sound {sound:.4f}, faulty {faulty:.4f}")
    print(f"area under the ROC curve: {area_under_curve(scores, is_faulty):.4f}")


if __name__ == "__main__":
    main()
