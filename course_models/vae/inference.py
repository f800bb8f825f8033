"""A trained VAE's encoder and decoder, of the course's own kernels, in float32.

>>> vae = VAE.trained()                            # or VAE(*load("training.npz"))
>>> mean, log_variance = vae.encode(x)             # x (n, pixels), float32 in [0, 1]
>>> grey = vae.decode(mean)                        # what vae.reconstruct(x) gives
>>> new = vae.sample(16, 3)                        # 16 images of seed 3

Arrays are of NumPy, CuPy, PyTorch or numba.cuda, and so are results. With few images a layer is
one launch of `course.kernels.gemm.gemv`; with many it is product, bias and activation.
"""

from __future__ import annotations

import numbers

import numpy as np

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.slots import workspace
from course.kernels.activation import LADDER as ACTIVATION
from course.kernels.arrays import Array, checked_float32, flat, in_order
from course.kernels.gemm import float32 as matmul
from course.kernels.gemm import gemv
from course.kernels.steps import Launch
from course_models.training import rng
from course_models.vae.shape import VAEShape
from course_models.vae.weights import Weights, checked, trained

FEW = 32  # images up to which a layer is one launch


class VAE:
    """A VAE on the GPU (or the simulated one); `weights.load` returns its shape and weights."""

    def __init__(self, shape: VAEShape, weights: Weights):
        self.shape, self.weights = shape, checked(shape, weights)
        self._there = {name: cuda.to_device(its) for name, its in self.weights.items()}
        for name in ("code.weight", "code.bias"):
            for half, its in zip(("mean", "spread"), np.split(self.weights[name], 2)):
                self._there[f"{half} {name}"] = cuda.to_device(its)
        self._device = cuda.get_current_device().id
        self._encode = EntryPoint("encode", ("x",), self._codes, self._to_codes, options=())
        self._decode = EntryPoint("decode", ("z",), self._images, self._to_images, options=())
        self._sample = EntryPoint(
            "sample", ("counter",), self._drawn, self._to_drawn, options=("count",)
        )

    @classmethod
    def trained(cls) -> VAE:
        """The small VAE that comes with the course: 8 x 8 pixels to 8 numbers."""
        return cls(*trained())

    def encode(self, x: Array, stream: Stream = None) -> tuple[Array, Array]:
        """Means and log variances (n, latent) of images x (n, pixels), float32."""
        return self._encode.call((x,), (), None, stream)

    def decode(self, z: Array, out: Array | None = None, stream: Stream = None) -> Array:
        """Grey levels (n, pixels), from 0 to 1, of codes z (n, latent), float32."""
        return self._decode.call((z,), (), out, stream)

    def reconstruct(self, x: Array, stream: Stream = None) -> Array:
        """Images rebuilt from the means of their codes: decode(encode(x)[0])."""
        return self.decode(self.encode(x, stream)[0], None, stream)

    def sample(self, count: int, counter: int | Array = 0, stream: Stream = None) -> Array:
        """Images (count, pixels) of codes that are drawn from the standard normal distribution.

        `counter` is a seed; then the images are NumPy's. Or it is an array of int64, seed and step,
        as `reparameterise` takes it; then the images are of its library.
        """
        if isinstance(count, numbers.Integral):
            count = int(count)
        if isinstance(counter, numbers.Integral):
            if not 0 <= counter < 2**63:
                raise ValueError(f"counter is {counter}; a seed is from 0 to 2**63 - 1")
            counter = np.array([counter, 0], np.int64)
        return self._sample.call((counter,), (count,), None, stream)

    # ------------------------------------------------------------------ results
    def _rows(self, array: ArrayFacts, name: str, width: int) -> int:
        array.must_be_beside(name, "the weights", self._device)
        checked_float32(array, name, 2, f"(n, {width})")
        if array.shape[1] != width:
            raise ValueError(f"{name} has the shape {array.shape}; it must be (n, {width})")
        return array.shape[0]

    def _codes(self, x: ArrayFacts) -> list[Result]:
        return [((self._rows(x, "x", self.shape.pixels), self.shape.latent), np.float32)] * 2

    def _images(self, z: ArrayFacts) -> Result:
        return (self._rows(z, "z", self.shape.latent), self.shape.pixels), np.float32

    def _drawn(self, counter: ArrayFacts, count: int) -> Result:
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"count is {count!r}; it must be a whole number of at least 1")
        counter.must_be_beside("counter", "the weights", self._device)
        rng.checked_counter(counter)
        return (count, self.shape.pixels), np.float32

    # ------------------------------------------------------------------ launches
    def _layer(self, name: str, x: Array, out: Array, activation: str | None) -> list[Launch]:
        weight, bias = self._there[f"{name}.weight"], self._there[f"{name}.bias"]
        if x.shape[0] <= FEW:
            how = {"activation": activation, "method": "warp"}
            return gemv.LADDER.launches(x, weight, bias, out, **how)
        found = matmul.LADDER.launches(x, weight, out, layout="nt", method="vectorised")
        found += matmul.bias_launches(out, bias, out)
        if activation:
            found += ACTIVATION.launches(flat(out, "out"), flat(out, "out"), name=activation)
        return found

    def _to_codes(self, x: Array, mean: Array, log_variance: Array) -> list[Launch]:
        hidden = workspace((x.shape[0], self.shape.hidden), "float32")
        return [
            *self._layer("encode", in_order(x, "x"), hidden, "leaky relu"),
            *self._layer("mean code", hidden, mean, None),
            *self._layer("spread code", hidden, log_variance, None),
        ]

    def _to_images(self, z: Array, out: Array) -> list[Launch]:
        hidden = workspace((z.shape[0], self.shape.hidden), "float32")
        return [
            *self._layer("decode", in_order(z, "z"), hidden, "leaky relu"),
            *self._layer("pixels", hidden, in_order(out, "out"), "sigmoid"),
        ]

    def _to_drawn(self, counter: Array, out: Array, count: int) -> list[Launch]:
        size = count, self.shape.latent
        zeros = workspace(size, "float32", zeros=True)  # mean and log variance
        z, noise = workspace(size, "float32"), workspace(size, "float32")
        drawn = rng.launches(zeros, zeros, counter, z, noise)
        return drawn + self._to_images(z, out)
