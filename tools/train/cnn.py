"""Train the digit network, once with each activation: ``data/models/digits_relu.npz`` and so on.

    python -m tools.train.cnn [relu gelu silu]
    python -m tools.train.cnn silu --mnist FOLDER --out FILE

needs NumPy alone: half a minute on the course's digits, minutes on MNIST's IDX files. Gradients
are written by hand, the optimiser is Adam (Kingma and Ba, arXiv:1412.6980); each image is moved by
up to one pixel each time it is shown. All three begin with the same numbers and see the same images
in the same order. The same machine makes the same weights each time; another one may add in
another order, and its weights differ in the last digits.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from course_lessons.lesson13.digits.network import accuracy, erf, reference
from course_lessons.lesson13.digits.weights import ACTIVATIONS, Weights
from course_models import digits
from course_models.digits import mnist
from tools.notebooks.lessons import ROOT

FOLDER = ROOT / "data" / "models"
SEED = 12
BATCH, STEPS = 64, 2000
PART = 500  # images that are read at a time, so that MNIST's take little memory
RATE, BETA1, BETA2, TINY = 3e-3, 0.9, 0.999, 1e-8

Arrays = dict[str, np.ndarray]


# --- layers: forward, and what backward needs -----------------------------------------------------
def activated(x: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """An activation and its derivative."""
    if name == "relu":
        above = x > 0
        return x * above, above.astype(x.dtype)
    if name == "silu":
        s = 1 / (1 + np.exp(-x))
        return x * s, s * (1 + x * (1 - s))
    below = (0.5 * (1 + erf(x * x.dtype.type(0.5**0.5)))).astype(x.dtype)
    return x * below, below + x * np.exp(-0.5 * x * x) * x.dtype.type((2 * np.pi) ** -0.5)


def patches(x: np.ndarray) -> np.ndarray:
    """Each pixel's 3 x 3 neighbours in all channels: (n, c, r, s) -> (n r s, 9 c)."""
    n, c, rows, columns = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * rows * columns, 9 * c)


def convolved(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The convolution, (n, outputs, r, s), and the patches."""
    n, _, rows, columns = x.shape
    rolled = patches(x)
    y = rolled @ weight.reshape(len(weight), -1).T + bias
    return y.reshape(n, rows, columns, -1).transpose(0, 3, 1, 2), rolled


def convolved_back(d: np.ndarray, weight: np.ndarray, rolled: np.ndarray, shape: tuple) -> tuple:
    """Gradients with respect to weight, bias and x, which had this shape."""
    n, inputs, rows, columns = shape
    flat = d.transpose(0, 2, 3, 1).reshape(-1, len(weight))
    to_weight, to_bias = (flat.T @ rolled).reshape(weight.shape), flat.sum(0)
    spread = (flat @ weight.reshape(len(weight), -1)).reshape(n, rows, columns, inputs, 3, 3)
    padded = np.zeros((n, inputs, rows + 2, columns + 2), d.dtype)
    for row in range(3):
        for column in range(3):
            padded[:, :, row : row + rows, column : column + columns] += spread[
                ..., row, column
            ].transpose(0, 3, 1, 2)
    return to_weight, to_bias, padded[:, :, 1:-1, 1:-1]


def pooled(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest of each 2 x 2 pixels, and which it was, the first among equals."""
    n, c, rows, columns = x.shape
    fours = x.reshape(n, c, rows // 2, 2, columns // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    fours = fours.reshape(n, c, rows // 2, columns // 2, 4)
    which = fours.argmax(-1)
    return np.take_along_axis(fours, which[..., None], -1)[..., 0], which


def pooled_back(d: np.ndarray, which: np.ndarray) -> np.ndarray:
    """The gradient goes to the largest."""
    n, c, rows, columns = d.shape
    fours = d[..., None] * (which[..., None] == np.arange(4))
    fours = fours.reshape(n, c, rows, columns, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    return fours.reshape(n, c, 2 * rows, 2 * columns)


def loss_and_gradients(
    x: np.ndarray, labels: np.ndarray, w: Arrays, activation: str
) -> tuple[float, Arrays]:
    """The mean cross entropy of a batch, and its gradient with respect to each weight."""
    a1, rolled1 = convolved(x, w["first_weight"], w["first_bias"])
    b1, slope1 = activated(a1, activation)
    p1, which1 = pooled(b1)
    a2, rolled2 = convolved(p1, w["second_weight"], w["second_bias"])
    b2, slope2 = activated(a2, activation)
    p2, which2 = pooled(b2)
    flat = p2.reshape(len(x), -1)
    h, slope3 = activated(flat @ w["hidden_weight"].T + w["hidden_bias"], activation)
    scores = h @ w["out_weight"].T + w["out_bias"]
    shifted = scores - scores.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    each = np.arange(len(x))

    g: Arrays = {}
    d = np.exp(logs)
    d[each, labels] -= 1
    d /= len(x)
    g["out_weight"], g["out_bias"] = d.T @ h, d.sum(0)
    d = d @ w["out_weight"] * slope3
    g["hidden_weight"], g["hidden_bias"] = d.T @ flat, d.sum(0)
    d = pooled_back((d @ w["hidden_weight"]).reshape(p2.shape), which2) * slope2
    g["second_weight"], g["second_bias"], d = convolved_back(
        d, w["second_weight"], rolled2, p1.shape
    )
    d = pooled_back(d, which1) * slope1
    g["first_weight"], g["first_bias"], _ = convolved_back(d, w["first_weight"], rolled1, x.shape)
    return float(-logs[each, labels].astype(np.float64).mean()), g


# --- training ------------------------------------------------------------------------------------
def moved(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each image moved by -1, 0 or 1 pixels in each direction; paper follows."""
    n, _, rows, columns = x.shape
    padded = np.pad(x[:, 0], ((0, 0), (1, 1), (1, 1)))
    up, left = rng.integers(0, 3, (2, n, 1, 1))
    row, column = up + np.arange(rows)[:, None], left + np.arange(columns)
    return padded[np.arange(n)[:, None, None], row, column][:, None]


def train(
    x: np.ndarray, labels: np.ndarray, activation: str, steps: int = STEPS, seed: int = SEED
) -> Weights:
    """Train on images; the step's length falls to zero along a cosine."""
    w = Weights.random(seed, activation, x.shape[-1]).as_dict()
    rng = np.random.default_rng(seed)
    first = {name: np.zeros_like(array) for name, array in w.items()}
    second = {name: np.zeros_like(array) for name, array in w.items()}
    for step in range(1, steps + 1):
        some = rng.integers(0, len(labels), BATCH)
        _, gradients = loss_and_gradients(moved(x[some], rng), labels[some], w, activation)
        rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
        for name, g in gradients.items():
            first[name] += np.float32(1 - BETA1) * (g - first[name])
            second[name] += np.float32(1 - BETA2) * (g * g - second[name])
            size = np.sqrt(second[name] / np.float32(1 - BETA2**step)) + np.float32(TINY)
            w[name] = w[name] - np.float32(rate / (1 - BETA1**step)) * first[name] / size
    return Weights(activation, **w)


def main(words: list[str] | None = None) -> None:
    """Train, save, and say how many of the held-out digits each network reads right."""
    parser = argparse.ArgumentParser(prog="python -m tools.train.cnn", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("activations", nargs="*", metavar="ACTIVATION", help="relu, gelu, silu")
    parser.add_argument("--mnist", type=Path, metavar="FOLDER", help="train on MNIST's IDX files")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to save, of one activation")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of {BATCH} images ({STEPS})")
    chosen = parser.parse_args(words)
    activations = tuple(chosen.activations) or ACTIVATIONS
    for name in activations:
        if name not in ACTIVATIONS:
            parser.error(f"there is no activation {name!r}: choose {', '.join(ACTIVATIONS)}")
    if (chosen.mnist is not None or chosen.out is not None) and len(activations) != 1:
        parser.error("name one activation: --mnist and --out are for one network")
    if chosen.mnist is not None and chosen.out is None:
        parser.error("--mnist needs --out: the course's files hold networks for its own digits")
    if chosen.mnist is not None:
        x, labels = mnist(chosen.mnist, "train")
        test, truth = mnist(chosen.mnist, "t10k")
    else:
        (x, labels), (test, truth) = digits.training(), digits.held_out()
    for name in activations:
        weights = train(x, labels, name, chosen.steps)
        file = chosen.out or FOLDER / f"digits_{name}.npz"
        file.parent.mkdir(parents=True, exist_ok=True)
        weights.save(file)
        parts = [reference(some, weights) for some in np.array_split(test, -(-len(test) // PART))]
        right = accuracy(np.concatenate(parts), truth)
        print(f"{file.name}: {right:.2%} of {len(truth):,} held-out digits right")


if __name__ == "__main__":
    main()
