"""Train lesson 18's vision transformer on digits: ``data/models/vit_digits.npz``.

    python -m tools.train.vit

needs NumPy alone and a minute. Gradients are written by hand, the optimiser is Adam (Kingma
and Ba, "Adam: a method for stochastic optimization", arXiv:1412.6980). Each image is moved by up to
a pixel each time it is seen. The same machine makes the same weights each time; another one may add
in another order, and its weights differ in the last digits.
"""

from __future__ import annotations

import numpy as np

from course_models.common import erf
from course_models.vae.data import Digits, digits
from course_models.vit.reference import forward
from course_models.vit.shape import EPSILON, ViTShape
from course_models.vit.weights import Weights, initial
from tools.notebooks.lessons import ROOT

FILE = ROOT / "data" / "models" / "vit_digits.npz"
#: 16 patches of 2 x 2 pixels and the class token; 18,218 numbers are learned.
SHAPE = ViTShape(image=8, patch=2, width=32, depth=2, heads=2, mlp=64, classes=10, channels=1)
SEED, BATCH, EPOCHS = 18, 32, 300
RATE, BETA1, BETA2, TINY, DECAY = 3e-3, 0.9, 0.99, 1e-8, 0.02

Array = np.ndarray


def pixels(found: Digits) -> Array:
    """Images (n, 1, 8, 8), float32 from 0 to 1."""
    return (found.images / np.float32(255)).reshape(-1, 1, SHAPE.image, SHAPE.image)


def moved(images: Array, rng: np.random.Generator) -> Array:
    """Each image moved by -1, 0 or 1 pixel along both axes; paper comes in."""
    side = images.shape[-1]
    wide = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    steps = rng.integers(0, 3, (len(images), 2))
    return np.stack([one[:, y : y + side, x : x + side] for one, (y, x) in zip(wide, steps)])


# --- a step ---------------------------------------------------------------------------------------


def normalise(x: Array) -> tuple[Array, Array]:
    """LayerNorm before its factors, and the inverse standard deviations."""
    centred = x - x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
    return centred * inverse, inverse


def normalise_back(d: Array, z: Array, inverse: Array) -> Array:
    """The gradient by what `normalise` was given."""
    return inverse * (d - d.mean(-1, keepdims=True) - z * (d * z).mean(-1, keepdims=True))


def gelu(x: Array) -> tuple[Array, Array]:
    """GELU and its derivative."""
    below = 0.5 * (1 + erf(x * 0.5**0.5))
    return x * below, below + x * np.exp(-0.5 * x * x) * (2 * np.pi) ** -0.5


class Step:
    """A batch forward and back; `gradient` has the loss's derivatives by all that is learned."""

    def __init__(self, shape: ViTShape, w: Weights, images: Array, labels: Array):
        self.shape, self.w, self.gradient = shape, w, {}
        n, side, p = len(images), shape.image // shape.patch, shape.patch
        cut = images.reshape(n, shape.channels, side, p, side, p).transpose(0, 2, 4, 1, 3, 5)
        rows = cut.reshape(n, side * side, -1)
        flat = w["patch_embed.proj.weight"].reshape(shape.width, -1)
        x = rows @ flat.T + w["patch_embed.proj.bias"]
        x = np.concatenate([np.broadcast_to(w["cls_token"], (n, 1, shape.width)), x], 1)
        x = x + w["pos_embed"]
        backs = []
        for number in range(shape.depth):
            for part in (self.attention, self.perceptron):
                y, back = part(f"blocks.{number}.", x)
                x = x + y
                backs.append(back)
        first, back = self.norm("norm", x[:, 0])
        scores, head = self.linear("head", first)
        scores = scores - scores.max(-1, keepdims=True)
        shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        self.loss = float(-np.log(shares[np.arange(n), labels]).mean())
        shares[np.arange(n), labels] -= 1
        d = np.zeros_like(x)
        d[:, 0] = back(head(shares / n))
        for back in reversed(backs):
            d = d + back(d)
        g = self.gradient
        g["pos_embed"], g["cls_token"] = d.sum(0)[None], d[:, :1].sum(0)[None]
        d = d[:, 1:].reshape(-1, shape.width)
        weight = d.T @ rows.reshape(len(d), -1)
        g["patch_embed.proj.weight"] = weight.reshape(w["patch_embed.proj.weight"].shape)
        g["patch_embed.proj.bias"] = d.sum(0)

    def linear(self, name, x):
        """x weight' + bias; and what takes the gradient back through it."""
        weight = self.w[f"{name}.weight"]

        def back(d):
            columns = d.reshape(-1, d.shape[-1])
            self.gradient[f"{name}.weight"] = columns.T @ x.reshape(len(columns), -1)
            self.gradient[f"{name}.bias"] = columns.sum(0)
            return d @ weight

        return x @ weight.T + self.w[f"{name}.bias"], back

    def norm(self, name, x):
        """LayerNorm, forward and backward."""
        z, inverse = normalise(x)
        weight = self.w[f"{name}.weight"]

        def back(d):
            axes = tuple(range(d.ndim - 1))
            self.gradient[f"{name}.weight"], self.gradient[f"{name}.bias"] = (
                (d * z).sum(axes), d.sum(axes),
            )  # fmt: skip
            return normalise_back(d * weight, z, inverse)

        return z * weight + self.w[f"{name}.bias"], back

    def attention(self, block, x):
        """The first half of a block, without what it is added to."""
        n, tokens, width = x.shape
        heads, size = self.shape.heads, self.shape.head
        normed, norm_back = self.norm(f"{block}norm1", x)
        qkv, qkv_back = self.linear(f"{block}attn.qkv", normed)
        q, k, v = qkv.reshape(n, tokens, 3, heads, size).transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) * size**-0.5
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        y = (shares @ v).transpose(0, 2, 1, 3).reshape(n, tokens, width)
        out, proj_back = self.linear(f"{block}attn.proj", y)

        def back(d):
            d = proj_back(d).reshape(n, tokens, heads, size).transpose(0, 2, 1, 3)
            by_v, by_shares = shares.swapaxes(-1, -2) @ d, d @ v.swapaxes(-1, -2)
            d = shares * (by_shares - (by_shares * shares).sum(-1, keepdims=True)) * size**-0.5
            three = np.stack([d @ k, d.swapaxes(-1, -2) @ q, by_v]).transpose(1, 3, 0, 2, 4)
            return norm_back(qkv_back(three.reshape(n, tokens, 3 * width)))

        return out, back

    def perceptron(self, block, x):
        """The second half."""
        normed, norm_back = self.norm(f"{block}norm2", x)
        before, first_back = self.linear(f"{block}mlp.fc1", normed)
        hidden, slope = gelu(before)
        out, second_back = self.linear(f"{block}mlp.fc2", hidden)
        return out, lambda d: norm_back(first_back(second_back(d) * slope))


# --- training -------------------------------------------------------------------------------------


def train(epochs: int = EPOCHS, shape: ViTShape = SHAPE) -> Weights:
    """Train on the digits that are not held out; the step's length falls along a cosine."""
    found = digits(held_out=False)
    images, labels = pixels(found), found.labels
    rng, w = np.random.default_rng(SEED), initial(shape, SEED)
    first, second = ({name: np.zeros_like(its) for name, its in w.items()} for _ in range(2))
    batches = len(images) // BATCH
    for step in range(1, epochs * batches + 1):
        if step % batches == 1:
            order = rng.permutation(len(images))
        chosen = order[(step - 1) % batches * BATCH :][:BATCH]
        done = Step(shape, w, moved(images[chosen], rng), labels[chosen])
        rate = RATE * min(1, step / 200) * 0.5 * (1 + np.cos(np.pi * step / (epochs * batches)))
        for name, g in done.gradient.items():
            first[name] += (1 - BETA1) * (g - first[name])
            second[name] += (1 - BETA2) * (g * g - second[name])
            size = np.sqrt(second[name] / (1 - BETA2**step)) + TINY
            move = first[name] / (1 - BETA1**step) / size
            if name.endswith("weight") and "norm" not in name:
                move = move + DECAY * w[name]
            w[name] = (w[name] - rate * move).astype(np.float32)
    return w


def main() -> None:
    """Train, save, and say how many of the held-out digits are recognised."""
    weights = train()
    np.savez(FILE, **weights)
    unseen = digits(held_out=True)
    found = forward(SHAPE, weights, pixels(unseen)).argmax(1)
    print(f"{FILE.name}: {SHAPE.count:,} numbers, {FILE.stat().st_size:,} bytes")
    print(f"{(found == unseen.labels).mean():.1%} of {len(found)} digits never seen")


if __name__ == "__main__":
    main()
