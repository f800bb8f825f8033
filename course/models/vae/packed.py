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

from course.models.vae.shape import VAEShape
from course.models.vae.weights import Weights

F, I4 = "float32[::1]", "int32[::1]"  # types of kernels' arguments


def up(size: int) -> int:
    """The next multiple of four: rows in memory begin at multiples of 16 bytes."""
    return -(-size // 4) * 4


@dataclass(frozen=True)
class Layout:
    """Where a VAE's parameters lie in one flat array."""

    shape: VAEShape

    @functools.cached_property
    def places(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """Where each parameter begins, and its padded shape."""
        found, begin = {}, 0
        for name, size in self.shape.parameters.items():
            padded = tuple(map(up, size))
            if name.startswith("code"):  # means and log variances, each padded by themselves
                padded = (2 * up(self.shape.latent), *padded[1:])
            found[name] = begin, padded
            begin += math.prod(padded)
        return found

    @functools.cached_property
    def size(self) -> int:
        begin, padded = self.places["pixels.bias"]
        return begin + math.prod(padded)

    def _view(self, flat: np.ndarray, name: str) -> list[tuple[np.ndarray, slice]]:
        """Parts of a flat array that hold a parameter, and which of its rows."""
        begin, padded = self.places[name]
        array = flat[begin : begin + math.prod(padded)].reshape(padded)
        size, latent = self.shape.parameters[name], self.shape.latent
        inner = tuple(slice(n) for n in size[1:])
        if not name.startswith("code"):
            return [(array[(slice(size[0]), *inner)], slice(size[0]))]
        second = up(latent)
        return [
            (array[(slice(latent), *inner)], slice(latent)),
            (array[(slice(second, second + latent), *inner)], slice(latent, 2 * latent)),
        ]

    def packed(self, arrays: Weights) -> np.ndarray:
        flat = np.zeros(self.size, np.float32)
        for name in self.places:
            for view, rows in self._view(flat, name):
                view[...] = arrays[name][rows]
        return flat

    def unpacked(self, flat: np.ndarray) -> Weights:
        made = {name: np.empty(size, np.float32) for name, size in self.shape.parameters.items()}
        for name, array in made.items():
            for view, rows in self._view(flat, name):
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
    d, h, z, b = map(up, (shape.pixels, shape.hidden, shape.latent, batch))
    found = [0]
    for columns in (h, 2 * z, z, z, h, d, h, 2 * z, h):
        found.append(found[-1] + b * columns)
    return Between(*found)


@dataclass(frozen=True)
class Launch:
    """A kernel, its types, and how it is launched; shared memory, dynamic, in bytes."""

    kernel: Callable
    types: str
    blocks: int
    threads: int
    shared: int
