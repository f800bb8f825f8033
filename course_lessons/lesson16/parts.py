"""Parts of lesson 16 and its `layered`: kernels that no family has, parameters, quotients."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import float32

from course.backend import cuda
from course.kernels.arrays import VECTOR
from course_models.vae import reference
from course_models.vae.shape import VAEShape
from course_models.vae.weights import Weights, initial

BYTE = float32(255)

# --- kernels --------------------------------------------------------------------------------------


@cuda.jit
def gather(images, order, counter, steps, x):
    """A batch's images as numbers in [0, 1]: (batch, pixels).

    Mapping: thread (column, row) has x[row, column]. Memory: lanes read neighbouring bytes of an
    image, and write neighbours; where the image lies, its row of `order` says.
    """
    column, row = cuda.grid(2)
    if row < x.shape[0] and column < x.shape[1]:
        image = order[counter[1] % steps * x.shape[0] + row]
        x[row, column] = float32(images[image, column]) / BYTE


@cuda.jit
def add(x, more):
    """x + more, in x's place: two gradients of one array. Mapping: thread i has element i."""
    i = cuda.grid(1)
    if i < x.size:
        x[i] += more[i]


@cuda.jit
def count(counter, steps, table, corrected, bce, kl, scale, history):
    """One thread: Adam's corrections of this step, its loss into the history; it is counted.

    All that draw noise or images by the counter come before, in the stream's order, Adam after.
    """
    place = counter[1] % steps
    corrected[0], corrected[1] = table[place, 0], table[place, 1]
    history[place] = scale * (bce[0] + kl[0])
    counter[1] += 1


@cuda.jit(device=True)
def fetched(factor, line, k):
    """A factor's number, 0 beyond its edges."""
    return factor[line, k] if line < factor.shape[0] and k < factor.shape[1] else float32(0)


# --- parameters -----------------------------------------------------------------------------------


class Parameters:
    """An array for each parameter, all in one on the GPU, each from a multiple of 16 bytes on.

    What lies between two of them is 0, and stays so: Adam moves a 0 nowhere by a gradient of 0.
    """

    def __init__(self, shape: VAEShape, values: Weights | None = None):
        self._shape, self._places, size = shape, {}, 0
        for name, its in shape.parameters.items():
            self._places[name] = slice(size, size + math.prod(its))
            size += -(-math.prod(its) // VECTOR) * VECTOR
        host = np.zeros(size, np.float32)
        for name, array in (values or {}).items():
            host[self._places[name]] = array.ravel()
        self.all = cuda.to_device(host)

    def each(self) -> list[Any]:
        """The arrays, one after the other."""
        return [self.all[place] for place in self._places.values()]

    def of(self, layer: str) -> tuple[Any, Any]:
        """Weight and bias; of "mean" and "log variance" the halves of "code"."""
        half = {
            "mean": slice(0, self._shape.latent),
            "log variance": slice(self._shape.latent, None),
        }
        name = "code" if layer in half else layer
        weight, bias = (
            self.all[self._places[key]].reshape(self._shape.parameters[key])
            for key in (f"{name}.weight", f"{name}.bias")
        )
        return (weight[half[layer]], bias[half[layer]]) if layer in half else (weight, bias)

    def host(self) -> Weights:
        """Copies on the host, by name."""
        all_of_them = self.all.copy_to_host()
        return {name: all_of_them[self._places[name]].reshape(its).copy()
                for name, its in self._shape.parameters.items()}  # fmt: skip


# --- the gradient that is tested ------------------------------------------------------------------


def quotients(names: tuple[str, ...]) -> Iterator[tuple[str, float, float]]:
    """Yield of a tiny network's first weight of each array: derivative by hand, and as a quotient.

    Both are in float64, by `course_models.vae.reference`.
    """
    rng, shape, step = np.random.default_rng(7), VAEShape(pixels=6, hidden=5, latent=2), 1e-5
    weights = {name: its.astype(np.float64) for name, its in initial(shape, 1).items()}
    images, noise = rng.random((3, 6)), rng.standard_normal((3, 2))
    _, by_hand = reference.loss_and_gradients(weights, images, noise)
    for name in names:
        losses = []
        for sign in (1, -1):
            moved = {key: its.copy() for key, its in weights.items()}
            moved[name].flat[0] += sign * step
            losses.append(reference.loss_and_gradients(moved, images, noise)[0])
        yield name, by_hand[name].flat[0], (losses[0] - losses[1]) / (2 * step)
