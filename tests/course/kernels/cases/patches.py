"""Patches of images as tokens: a convolution whose stride is its size, and what a token adds."""

import numpy as np

from course.backend import cuda
from course_models.patches import LADDER, PatchEmbedding, PatchProblem
from tests.course.kernels.contract import ROUNDING, Case, Inputs, Right, in_float64

#: channels, patch, patches along a side, width
SIZES = {
    "tiny": [(1, 1, 1, 1), (2, 1, 2, 3), (1, 2, 1, 5)],
    "odd": [(3, 3, 3, 7), (2, 5, 3, 33), (1, 7, 2, 20)],
    "fours": [(3, 4, 3, 24), (1, 8, 2, 16)],  # 16 bytes an access
    "long": [(1, 16, 2, 776), (5, 16, 1, 40), (13, 8, 2, 8)],  # rows longer than a block
}


def _draw(rng, size):
    channels, patch, across, width = SIZES[size][rng.integers(len(SIZES[size]))]
    tokens, images = 1 + across**2, int(rng.integers(1, 4))
    shapes = {
        "images": (images, channels, across * patch, across * patch),
        "weight": (width, channels, patch, patch), "bias": (width,), "cls": (width,),
        "position": (tokens, width),
    }  # fmt: skip
    return Inputs({name: rng.standard_normal(shape) for name, shape in shapes.items()})


def _tokens(images, *weights, method="auto"):
    """What a network does: weights once, then launches on images and memory of its own."""
    embedding = PatchEmbedding(*(in_float64(its).astype(np.float16) for its in weights))
    on_gpu = hasattr(images, "__cuda_array_interface__")
    there = cuda.as_cuda_array(images) if on_gpu else cuda.to_device(np.asarray(images))
    count = len(images) * embedding.tokens
    rows, begun, tokens = (
        cuda.to_device(np.full((count, width), np.nan, np.float16))
        for width in (embedding.rows_of(method), embedding.width, embedding.width)
    )
    for launch in embedding.launches(there, rows, begun, tokens, method):
        launch.on()
    return tokens


_tokens.ladder = LADDER


def _right(arrays):
    images, weight, bias, cls, position = arrays.values()
    (count, _, side, _), (width, _, patch, _) = images.shape, weight.shape
    across = side // patch
    exact = np.tile(position, (count, 1, 1))
    exact[:, 0] += cls
    sums = np.abs(exact)
    for p in range(across**2):
        y, x = (patch * place for place in divmod(p, across))
        pixels = images[:, :, y : y + patch, x : x + patch].reshape(count, -1)
        exact[:, 1 + p] += pixels @ weight.reshape(width, -1).T + bias
        sums[:, 1 + p] += np.abs(pixels) @ np.abs(weight).reshape(width, -1).T + np.abs(bias)
    # what each channel adds is rounded, and so are the table and the token itself
    return [Right(*(its.reshape(-1, width) for its in (exact, (2 + images.shape[1]) * sums)))]


CASES = [
    Case(
        _tokens, _draw, _right, errors={"float16": ROUNDING["float16"]}, out=False, entered=False,
        special=(np.nan,), specials=("images",), sizes=tuple(SIZES), calls=4,
        best=[(PatchProblem(1, 3), "gemm"), (PatchProblem(64, 1), "gemm")],
    ),
]  # fmt: skip
