"""The layout of a VAE's arrays on the GPU during training: rows are padded to multiples of four.

So every row begins at a multiple of 16 bytes. Padding is 0 and stays 0, as it gets no gradient.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from course.kernels.steps import Launch, round_up
from course_models.vae.shape import VAEShape
from course_models.vae.weights import Weights

ROW = 8  # float32 in a sector
F, I4 = "float32[::1]", "int32[::1]"  # argument types of kernels


def round_up4(size: int) -> int:
    """The next multiple of four: rows in memory begin at multiples of 16 bytes."""
    return round_up(size, 4)


def row_pitch(inputs: int) -> int:
    """A row of weights: `inputs`, a multiple of four, then four with the bias, padded to `ROW`."""
    return round_up(inputs + 4, ROW)


@dataclass(frozen=True)
class ParameterLayout:
    """Where a VAE's parameters lie in one flat array.

    A layer's biases are one more column of its weights, for an input that is always 1. That column
    is the first of four behind the inputs; rows begin at multiples of `ROW`.
    """

    shape: VAEShape

    @functools.cached_property
    def places(self) -> dict[str, tuple[int, tuple[int, int]]]:
        """Where each layer's rows begin, and its padded shape."""
        found, begin = {}, 0
        for name, (outputs, inputs) in self.shape.layers.items():
            # rows of means and of log variances are padded separately
            rows = 2 * round_up4(self.shape.latent) if name == "code" else round_up4(outputs)
            found[name] = begin, (rows, row_pitch(round_up4(inputs)))
            begin += math.prod(found[name][1])
        return found

    @functools.cached_property
    def size(self) -> int:
        return sum(math.prod(padded) for _, padded in self.places.values())

    def _views(self, flat: np.ndarray, name: str) -> list[tuple[np.ndarray, slice]]:
        """Views of a flat array that hold a parameter, each with the rows that it holds."""
        layer, kind = name.split(".")
        begin, padded = self.places[layer]
        array = flat[begin : begin + math.prod(padded)].reshape(padded)
        outputs, inputs = self.shape.layers[layer]
        column = round_up4(inputs) if kind == "bias" else slice(inputs)
        if layer != "code":
            return [(array[:outputs, column], slice(outputs))]
        latent, second = self.shape.latent, round_up4(self.shape.latent)
        return [
            (array[:latent, column], slice(latent)),
            (array[second : second + latent, column], slice(latent, 2 * latent)),
        ]

    def packed(self, arrays: Weights) -> np.ndarray:
        flat = np.zeros(self.size, np.float32)
        for name, its in arrays.items():
            for view, rows in self._views(flat, name):
                view[...] = its[rows]
        return flat

    def unpacked(self, flat: np.ndarray) -> Weights:
        made = {name: np.empty(size, np.float32) for name, size in self.shape.parameters.items()}
        for name, array in made.items():
            for view, rows in self._views(flat, name):
                array[rows] = view
        return made


class Between(NamedTuple):
    """Where each result of a step's first launch begins in S; `end` is behind all of them."""

    h: int
    code: int
    z: int
    noise: int
    g: int
    d_logits: int
    d_g: int
    d_code: int
    d_h: int
    end: int


def between(shape: VAEShape, batch: int) -> Between:
    """The layout for one shape and batch; each result is (batch, columns)."""
    d, h, z, b = map(round_up4, (shape.pixels, shape.hidden, shape.latent, batch))
    found = [0]
    for columns in (h, 2 * z, z, z, h, d, h, 2 * z, h):
        found.append(found[-1] + b * columns)
    return Between(*found)


@dataclass(frozen=True)
class KernelPlan:
    """A kernel, its types and its launch; `shared` is dynamic shared memory in bytes."""

    kernel: Callable
    types: str
    blocks: int
    threads: int
    shared: int

    def launch(self, arguments: tuple) -> Launch:
        """The launch with arguments."""
        return Launch(self.kernel, self.blocks, self.threads, arguments, self.shared)
