"""Where a VAE's numbers lie on the GPU while it is trained: in rows of multiples of four.

So every row begins at a multiple of 16 bytes. What is added is 0 and stays 0: it gets no gradient.
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

ROW = 8  # float32, a sector of the memory
F, I4 = "float32[::1]", "int32[::1]"  # types of kernels' arguments


def round_up4(size: int) -> int:
    """The next multiple of four: rows in memory begin at multiples of 16 bytes."""
    return round_up(size, 4)


def row_pitch(inputs: int) -> int:
    """From one row of weights to the next: inputs, in fours, then four with the bias."""
    return round_up(inputs + 4, ROW)


@dataclass(frozen=True)
class ParameterLayout:
    """Where a VAE's parameters lie in one flat array.

    A layer's biases are one more column of its weights: of an input that is always 1. It is the
    first of the four behind the inputs, and rows begin at multiples of `ROW`.
    """

    shape: VAEShape

    @functools.cached_property
    def places(self) -> dict[str, tuple[int, tuple[int, int]]]:
        """Where each layer's rows begin, and its padded shape."""
        found, begin = {}, 0
        for name, (outputs, inputs) in self.shape.layers.items():
            # means and log variances are padded each by themselves
            rows = 2 * round_up4(self.shape.latent) if name == "code" else round_up4(outputs)
            found[name] = begin, (rows, row_pitch(round_up4(inputs)))
            begin += math.prod(found[name][1])
        return found

    @functools.cached_property
    def size(self) -> int:
        return sum(math.prod(padded) for _, padded in self.places.values())

    def _views(self, flat: np.ndarray, name: str) -> list[tuple[np.ndarray, slice]]:
        """Parts of a flat array that hold a parameter, and which of its rows."""
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
    """Where what a step's first launch makes for its second begins; `end` is behind it all."""

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
    """The places for one shape and batch, each (batch, columns)."""
    d, h, z, b = map(round_up4, (shape.pixels, shape.hidden, shape.latent, batch))
    found = [0]
    for columns in (h, 2 * z, z, z, h, d, h, 2 * z, h):
        found.append(found[-1] + b * columns)
    return Between(*found)


@dataclass(frozen=True)
class KernelPlan:
    """A kernel, its types, and how it is launched; shared memory, dynamic, in bytes."""

    kernel: Callable
    types: str
    blocks: int
    threads: int
    shared: int

    def launch(self, arguments: tuple) -> Launch:
        """The launch with arguments."""
        return Launch(self.kernel, self.blocks, self.threads, arguments, self.shared)
