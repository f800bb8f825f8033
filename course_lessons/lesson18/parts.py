"""What lesson 18 gives: a product in tiles, two of its epilogues, and a small trained network.

The network is `course_models.vit` in small, trained on digits by `tools.train.vit`. Each of its
layers is a launch of a kernel that the lesson shows; four of them are the student's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float32

from course.backend import cuda
from course.files import data_path
from course.kernels.warps import lanes_sum
from course_models.vae.data import digits
from course_models.vit import reference
from course_models.vit.shape import ViTShape
from course_models.vit.weights import Weights, checked, shape_of

TILE, PITCH = 16, 17  # threads of a block along an axis; numbers of a row of a tile
SIZE, KEYS, QUERIES = (
    16,
    16,
    32,
)  # numbers of a head; keys of a tile; queries of a block, a thread each
LOWEST = float32(-3e38)  # below every score
SLOPE, CUBE = float32(math.sqrt(2 / math.pi)), float32(0.044715)  # of GELU by tanh

add_lanes = lanes_sum(32)

# --- device functions -----------------------------------------------------------------------------


@cuda.jit(device=True)
def row_sum(value):
    """The sum over a warp's lanes in float32, for each of them: lesson 10's five exchanges."""
    return add_lanes(float32(value))


@cuda.jit(device=True)
def fetched(factor, line, k):
    """A factor's number as float32, 0 beyond its edges."""
    inside = line < factor.shape[0] and k < factor.shape[1]
    return float32(factor[line, k]) if inside else float32(0)


@cuda.jit(device=True)
def dot_in_tiles(x, weight):
    """Row `row` of x times row `column` of weight, of thread (column, row); float32.

    Lesson 16's loop: tiles in shared memory, two barriers a round. All threads of a block call it.
    """
    x_tile = cuda.shared.array((TILE, PITCH), float32)
    w_tile = cuda.shared.array((TILE, PITCH), float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    row, unit = cuda.blockIdx.y * TILE + j, cuda.blockIdx.x * TILE + j
    total = float32(0)
    for start in range(0, x.shape[1], TILE):
        x_tile[j, i], w_tile[j, i] = fetched(x, row, start + i), fetched(weight, unit, start + i)
        cuda.syncthreads()
        for n in range(TILE):
            total += x_tile[j, n] * w_tile[i, n]
        cuda.syncthreads()
    return total


@cuda.jit(device=True)
def load_query(mine, q, scale, image, head, query):
    """A query's numbers times the scale; beyond the last token, those of the last."""
    place = min(query, q.shape[1] - 1)
    for e in range(SIZE):
        mine[e] = scale * float32(q[image, place, head, e])


@cuda.jit(device=True)
def fill_tile(tile, source, image, head, first):
    """tile[n, e] = source[image, first + n, head, e], for KEYS tokens; 0 beyond the last."""
    for n in range(cuda.threadIdx.x, KEYS * SIZE, QUERIES):
        token, e = first + n // SIZE, n % SIZE
        inside = token < source.shape[1]
        tile[n // SIZE, e] = float32(source[image, token, head, e]) if inside else float32(0)


# --- kernels --------------------------------------------------------------------------------------


@cuda.jit
def linear(x, weight, bias, out):
    """x weight' + bias, in blocks of TILE x TILE threads."""
    column, row = cuda.grid(2)
    total = dot_in_tiles(x, weight)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total + float32(bias[column])


@cuda.jit
def linear_added(x, weight, bias, before, out):
    """before + x weight' + bias: the residual in the epilogue."""
    column, row = cuda.grid(2)
    total = dot_in_tiles(x, weight)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = float32(before[row, column]) + (total + float32(bias[column]))


@cuda.jit
def with_positions(patches, cls, position, out):
    """Tokens (images * tokens, width): the class token, then the patches, each with its position.

    Mapping: thread (column, row) has out[row, column]. Memory: lanes read and write neighbours.
    """
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        tokens = position.shape[0]
        image, token = row // tokens, row % tokens
        if token == 0:
            value = float32(cls[column])
        else:
            value = float32(patches[image * (tokens - 1) + token - 1, column])
        out[row, column] = value + float32(position[token, column])


# --- the network ----------------------------------------------------------------------------------


def trained() -> tuple[ViTShape, Weights]:
    """The small network's sizes and weights."""
    with np.load(path := data_path("models/vit_digits.npz")) as file:
        arrays = dict(file)
    shape = shape_of(arrays, 2, str(path))
    return shape, checked(shape, arrays, str(path))


def unseen() -> tuple[np.ndarray, np.ndarray]:
    """Digits that it was not trained on, (360, 1, 8, 8) in [0, 1], float16; which they are."""
    found = digits(held_out=True)
    return (found.images / np.float32(255)).reshape(-1, 1, 8, 8).astype(np.float16), found.labels


def class_shares(shape: ViTShape, weights: Weights, image: np.ndarray, block: int) -> np.ndarray:
    """What the class token takes of each patch in a block's attention: (heads, side, side)."""
    x = reference.tokens(shape, weights, image[None])
    for number in range(block):
        x = reference.block(shape, weights, number, x)
    layer = f"blocks.{block}."
    normed = reference.norm(x[0], weights[f"{layer}norm1.weight"], weights[f"{layer}norm1.bias"])
    qkv = normed @ weights[f"{layer}attn.qkv.weight"].T + weights[f"{layer}attn.qkv.bias"]
    q, k, _ = qkv.reshape(shape.tokens, 3, shape.heads, shape.head).transpose(1, 2, 0, 3)
    scores = (k @ q[:, 0, :, None])[..., 0] / shape.head**0.5
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    side = shape.image // shape.patch
    return shares[:, 1:].reshape(shape.heads, side, side)


@cuda.jit
def norm_rows(x, gamma, beta, out):
    """Write LayerNorm of each row of halves; a warp has a row, four are in a block."""
    t = cuda.threadIdx.x
    row, lane, columns = cuda.blockIdx.x * 4 + t // 32, t % 32, float32(x.shape[1])
    if row >= x.shape[0]:
        return
    total, squares = float32(0), float32(0)
    for c in range(lane, x.shape[1], 32):
        total += float32(x[row, c])
    mean = row_sum(total) / columns
    for c in range(lane, x.shape[1], 32):
        squares += (float32(x[row, c]) - mean) ** 2
    scale = float32(1) / math.sqrt(row_sum(squares) / columns + float32(1e-6))
    for c in range(lane, x.shape[1], 32):
        out[row, c] = (float32(x[row, c]) - mean) * scale * float32(gamma[c]) + float32(beta[c])


class Layers:
    """The layers of a vision transformer, a launch each; all arrays are float16.

    Parameters
    ----------
    shape : ViTShape
        With heads of `SIZE` numbers.
    weights : dict of str to ndarray
        By timm's names.
    patch_rows, norm_rows, attention, linear_gelu : kernel
        As the lesson's exercises ask for them.
    """

    def __init__(
        self, shape: ViTShape, weights: Weights, patch_rows: Any, norm_rows: Any, attention: Any,
        linear_gelu: Any,
    ):  # fmt: skip
        self.shape, self.launches, self.milliseconds = shape, 0, None
        self.kernels = patch_rows, norm_rows, attention, linear_gelu
        self.there = {
            name: cuda.to_device(np.ascontiguousarray(its.astype(np.float16)))
            for name, its in weights.items()
        }

    def tokens(self, images: np.ndarray) -> Any:
        """Images (n, channels, side, side) as tokens (n * tokens, width)."""
        s = self.shape
        count = len(images) * (s.tokens - 1)
        rows = self._made(count, s.channels * s.patch**2)
        given = cuda.to_device(images), s.patch, rows
        self._launch(self.kernels[0], _blocks(rows, 32, 4), (32, 4), *given)
        weight = self.there["patch_embed.proj.weight"].reshape(s.width, rows.shape[1])
        patches = self._product(linear, s.width, rows, weight, self.there["patch_embed.proj.bias"])
        out = self._made(len(images) * s.tokens, s.width)
        cls, position = self.there["cls_token"].reshape(s.width), self.there["pos_embed"]
        given = patches, cls, position.reshape(s.tokens, s.width), out
        self._launch(with_positions, _blocks(out, 32, 4), (32, 4), *given)
        return out

    def shares(self, forward: Callable[[], Any]) -> dict[str, float]:
        """Of the GPU's time for a pass the share of each kernel, by its name, largest first.

        Call the pass once before, so that each kernel is compiled.
        """
        self.milliseconds = Counter()
        forward()
        found, self.milliseconds = self.milliseconds, None
        return {name: its / found.total() for name, its in found.most_common()}

    def norm(self, x: Any, layer: str) -> Any:
        """LayerNorm of each row."""
        out = self._made(*x.shape)
        self._launch(self.kernels[1], -(-x.shape[0] // 4), 128, x, *self._of(layer), out)
        return out

    def linear(self, x: Any, layer: str, gelu: bool = False, added_to: Any = None) -> Any:
        """x weight' + bias, with GELU, or added to what was there before."""
        weight, bias = self._of(layer)
        if added_to is None:
            kernel, more = self.kernels[3] if gelu else linear, ()
        else:
            kernel, more = linear_added, (added_to,)
        return self._product(kernel, weight.shape[0], x, weight, bias, *more)

    def attention(self, qkv: Any) -> Any:
        """Attention of all heads; qkv has (n * tokens, 3 * width)."""
        s = self.shape
        n, out = qkv.shape[0] // s.tokens, self._made(qkv.shape[0], s.width)
        parts = qkv.reshape(n, s.tokens, 3, s.heads, s.head)
        three, scale = [parts[:, :, which] for which in range(3)], np.float32(s.head**-0.5)
        given = *three, scale, out.reshape(n, s.tokens, s.width)
        self._launch(self.kernels[2], (-(-s.tokens // QUERIES), s.heads, n), QUERIES, *given)
        return out

    def class_tokens(self, x: Any) -> Any:
        """Of each image the first token."""
        return x.reshape(x.shape[0] // self.shape.tokens, self.shape.tokens, self.shape.width)[:, 0]

    def _of(self, layer: str) -> tuple[Any, Any]:
        return self.there[f"{layer}.weight"], self.there[f"{layer}.bias"]

    def _product(self, kernel: Any, columns: int, x: Any, *others: Any) -> Any:
        out = self._made(x.shape[0], columns)
        self._launch(kernel, _blocks(out, TILE, TILE), (TILE, TILE), x, *others, out)
        return out

    def _made(self, *shape: int) -> Any:
        """Filled with NaN: what no kernel writes is seen."""
        return cuda.to_device(np.full(shape, np.nan, np.float16))

    def _launch(self, kernel: Callable, grid: Any, block: Any, *arguments: Any) -> None:
        self.launches += 1
        if self.milliseconds is None:
            kernel[grid, block](*arguments)
            return
        before, after = cuda.event(), cuda.event()
        before.record()
        kernel[grid, block](*arguments)
        after.record()
        after.synchronize()
        self.milliseconds[kernel.__name__] += cuda.event_elapsed_time(before, after)


def _blocks(out: Any, wide: int, high: int) -> tuple[int, int]:
    return -(-out.shape[1] // wide), -(-out.shape[0] // high)
