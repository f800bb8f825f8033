"""A vision transformer in NumPy, float64: the reference of all others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from course_models.common import gelu
from course_models.vit.shape import EPSILON, ViTShape

Weights = Mapping[str, np.ndarray]


def norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """LayerNorm of each row."""
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + EPSILON) * weight + bias


def attention(qkv: np.ndarray, heads: int) -> np.ndarray:
    """softmax(q k' / sqrt(head)) v, from (images, tokens, 3 width); heads lie side by side."""
    n, tokens, columns = qkv.shape
    q, k, v = qkv.reshape(n, tokens, 3, heads, -1).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return (shares @ v).transpose(0, 2, 1, 3).reshape(n, tokens, columns // 3)


def tokens(shape: ViTShape, weights: Weights, images: np.ndarray) -> np.ndarray:
    """Images (n, channels, side, side) as tokens before the first block: (n, tokens, width)."""
    w = {name: its.astype(np.float64) for name, its in weights.items() if "block" not in name}
    p, side = shape.patch, shape.image // shape.patch
    cut = images.astype(np.float64).reshape(len(images), shape.channels, side, p, side, p)
    rows = cut.transpose(0, 2, 4, 1, 3, 5).reshape(len(images), side * side, -1)
    x = rows @ w["patch_embed.proj.weight"].reshape(shape.width, -1).T
    x += w["patch_embed.proj.bias"]
    cls = np.broadcast_to(w["cls_token"], (len(images), 1, shape.width))
    return np.concatenate([cls, x], 1) + w["pos_embed"]


def block(shape: ViTShape, weights: Weights, number: int, x: np.ndarray) -> np.ndarray:
    """A block's output (n, tokens, width) for its input."""

    def of(layer: str) -> tuple[np.ndarray, np.ndarray]:
        names = (f"blocks.{number}.{layer}.{which}" for which in ("weight", "bias"))
        return tuple(weights[name].astype(np.float64) for name in names)

    def linear(y: np.ndarray, layer: str) -> np.ndarray:
        weight, bias = of(layer)
        return y @ weight.T + bias

    y = attention(linear(norm(x, *of("norm1")), "attn.qkv"), shape.heads)
    x = x + linear(y, "attn.proj")
    y = gelu(linear(norm(x, *of("norm2")), "mlp.fc1"))
    return x + linear(y, "mlp.fc2")


def forward(shape: ViTShape, weights: Weights, images: np.ndarray) -> np.ndarray:
    """Scores (n, classes) of images (n, channels, side, side)."""
    x = tokens(shape, weights, images)
    for number in range(shape.depth):
        x = block(shape, weights, number, x)
    w = {name: weights[name].astype(np.float64) for name in
         ("norm.weight", "norm.bias", "head.weight", "head.bias")}  # fmt: skip
    x = norm(x[:, 0], w["norm.weight"], w["norm.bias"])
    return x @ w["head.weight"].T + w["head.bias"]
