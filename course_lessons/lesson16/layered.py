"""A VAE's training step as a launch for each operation: right, readable, and what fusing must beat.

>>> trainer = LayeredTrainer(Training.begun(VAEShape()), images)       # or method="naive"
>>> trainer.run(468)
>>> trainer.losses[-1], trainer.training()

The formulas, their order and the noise are those of `course_models.vae.reference`. What one launch
writes the next ones read from global memory: the hidden layer goes there and back between product,
bias and LeakyReLU. All memory is taken once. From the second step on the launches are one CUDA
graph, where there is a GPU and CuPy; whatever changes from step to step, place in the epoch, noise,
Adam's corrections, kernels therefore read on the GPU, by the step that is counted there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from course import backend
from course.backend import cuda
from course.dispatch import graphs
from course.kernels import activation
from course.kernels.gemm import float32 as matmul
from course.kernels.steps import Launch, ceil_div, configured, require_choice
from course_lessons.lesson16.parts import Parameters, add, count, gather
from course_models.training import adam, losses
from course_models.training import rng as sampling
from course_models.vae.reference import check_images
from course_models.vae.weights import Training, Weights

THREADS = 256
BLOCK = (32, 8)


class Way(NamedTuple):
    """Which step of each family's ladder is taken, and whether one Adam serves all parameters."""

    product: str
    element: str
    loss: str
    together: bool


METHODS = {
    "naive": Way("naive", "each", "atomics", False),
    "optimised": Way("vectorised", "wide", "vectorised", True),
}
Launches = Iterator[Launch]


class LayeredTrainer:
    """Trains a VAE, float32, a launch for each operation; as `NumpyTrainer` of the reference does.

    Parameters
    ----------
    training : Training
        From where to go on.
    images : ndarray, shape (n, pixels), uint8
    method : str
        Of `METHODS`.

    Attributes
    ----------
    step : int
        Steps that are done.
    losses : list of float
        Of the steps that this object did.
    launches : list
        Of a step: configured kernels and their arguments.
    """

    def __init__(self, training: Training, images: np.ndarray, method: str = "optimised"):
        check_images(training.shape, images, training.batch)
        require_choice(method, "method", METHODS)
        self._begun, self._way, shape = training, METHODS[method], training.shape
        self.step, self.losses = training.step, []
        self.steps_of_an_epoch = len(images) // training.batch
        self._epoch, self._noted, self._graph, self._warm = -1, training.step, None, False
        parts = training.weights, training.first, training.second
        self._weights, self._first, self._second = (Parameters(shape, part) for part in parts)
        self._gradients = Parameters(shape)

        self._images = cuda.to_device(np.ascontiguousarray(images))
        self._order = cuda.to_device(np.zeros(len(images), np.int32))
        self._table = cuda.to_device(np.zeros((self.steps_of_an_epoch, 2), np.float32))
        self._history = cuda.to_device(np.zeros(self.steps_of_an_epoch, np.float32))
        self._counter = cuda.to_device(np.array([training.seed, training.step], np.int64))
        cupy, _ = backend.array_module()
        self._origin, self._stream = None, 0
        if backend.gpu() is not None and hasattr(cupy, "cuda"):
            self._origin = cupy.cuda.Stream(non_blocking=True)
            self._stream = cuda.external_stream(self._origin.ptr)
        self.launches = configured(self._step(), self._stream)
        cuda.synchronize()

    def run(self, steps: int) -> None:
        """Do so many steps."""
        for _ in range(steps):
            epoch = self.step // self.steps_of_an_epoch
            if epoch != self._epoch:
                self._begin(epoch)
            self._one()
            self.step += 1
        self._note()

    def training(self) -> Training:
        """All that is needed to go on from here."""
        cuda.synchronize()
        parts = (its.host() for its in (self._weights, self._first, self._second))
        weights, first, second = parts
        return replace(self._begun, weights=weights, first=first, second=second, step=self.step)

    def gradients(self) -> Weights:
        """Those of the latest step, by name."""
        cuda.synchronize()
        return self._gradients.host()

    # ------------------------------------------------------------------ from step to step
    def _begin(self, epoch: int) -> None:
        """Hand the GPU an epoch's order, and Adam's corrections of its steps."""
        self._note()
        rng = np.random.default_rng((self._begun.seed, epoch))
        self._order.copy_to_device(rng.permutation(len(self._images)).astype(np.int32))
        first = epoch * self.steps_of_an_epoch + 1
        steps = range(first, first + self.steps_of_an_epoch)
        self._table.copy_to_device(
            np.stack([adam.corrections(step, self._begun.rate) for step in steps])
        )
        cuda.synchronize()
        self._epoch = epoch

    def _one(self) -> None:
        if self._warm and self._graph is None and self._origin is not None:
            self._graph, _ = graphs.capture_graph(self._origin, self._queue)
        if self._graph is not None:
            self._graph.launch(self._origin)
            return
        self._queue()
        cuda.synchronize()  # all is compiled and loaded when it is captured
        self._warm = True

    def _queue(self) -> None:
        for launch, arguments in self.launches:
            launch(*arguments)

    def _note(self) -> None:
        """Fetch the losses since the last time."""
        cuda.synchronize()
        first = self._epoch * self.steps_of_an_epoch
        if self.step > self._noted:
            history = self._history.copy_to_host()
            self.losses += history[self._noted - first : self.step - first].tolist()
        self._noted = self.step

    # ------------------------------------------------------------------ a step
    def _step(self) -> Launches:
        """A step's launches, in their order."""
        shape, batch, way = self._begun.shape, self._begun.batch, self._way
        scale = 1 / batch

        def array(columns: int) -> Any:
            return cuda.device_array((batch, columns), np.float32)

        x, logits, d_logits = (array(shape.pixels) for _ in range(3))
        h, g, d_h, d_g, more = (array(shape.hidden) for _ in range(5))
        mean, log_variance, z, noise, d_z, d_log_variance, of_mean, of_log_variance = (
            array(shape.latent) for _ in range(8)
        )
        bce, kl, corrected = (cuda.device_array(n, np.float32) for n in (1, 1, 2))

        def product(a: Any, b: Any, out: Any, layout: str) -> Launches:
            yield from matmul.LADDER.launches(a, b, out, layout=layout, method=way.product)

        def layer(name: str, below: Any, out: Any) -> Launches:
            weight, bias = self._weights.of(name)
            yield from product(below, weight, out, "nt")
            yield from matmul.bias_launches(out, bias, out)

        def leaky(*arrays: Any) -> Launches:
            """Forward of (x, out), backward of (grad, result, out)."""
            flat = tuple(each.reshape(each.size) for each in arrays)
            ladder = activation.LADDER if len(flat) == 2 else activation.GRADIENT
            yield from ladder.launches(*flat, name="leaky relu", method=way.element)

        def added(to: Any, other: Any) -> Launches:
            flat = to.reshape(to.size), other.reshape(other.size)
            yield Launch(add, ceil_div(to.size, THREADS), THREADS, flat)

        def by_weights(name: str, above: Any, below: Any) -> Launches:
            weight, bias = self._gradients.of(name)
            yield from product(above, below, weight, "tn")
            yield from matmul.sum_launches(above, bias)

        def by_input(name: str, above: Any, out: Any) -> Launches:
            weight, _ = self._weights.of(name)
            yield from product(above, weight, out, "nn")

        # forward
        grid = ceil_div(shape.pixels, BLOCK[0]), ceil_div(batch, BLOCK[1])
        steps = self.steps_of_an_epoch
        batch_of = self._images, self._order, self._counter, steps, x
        yield Launch(gather, grid, BLOCK, batch_of)
        yield from layer("encode", x, h)
        yield from leaky(h, h)
        yield from layer("mean", h, mean)
        yield from layer("log variance", h, log_variance)
        yield from sampling.launches(mean, log_variance, self._counter, z, noise)
        yield from layer("decode", z, g)
        yield from leaky(g, g)
        yield from layer("pixels", g, logits)
        for name, total, *pair in (("bce", bce, logits, x), ("kl", kl, mean, log_variance)):
            pair = (its.reshape(its.size) for its in pair)
            yield from losses.LADDER.launches(*pair, total, name=name, method=way.loss)
        # backward
        arrays = (its.reshape(its.size) for its in (logits, x, d_logits))
        yield from losses.BACKWARD.launches(*arrays, scale=scale, method=way.element)
        yield from by_input("pixels", d_logits, d_g)
        yield from leaky(d_g, g, d_g)
        yield from by_input("decode", d_g, d_z)
        yield from sampling.gradient_launches(d_z, log_variance, noise, d_log_variance)
        yield from losses.kl_launches(mean, log_variance, of_mean, of_log_variance, scale)
        yield from added(d_log_variance, of_log_variance)
        yield from added(d_z, of_mean)  # z is the mean, and noise: now the gradient by the mean
        yield from by_input("mean", d_z, d_h)
        yield from by_input("log variance", d_log_variance, more)
        yield from added(d_h, more)
        yield from leaky(d_h, h, d_h)
        yield from by_weights("pixels", d_logits, g)
        yield from by_weights("decode", d_g, z)
        yield from by_weights("mean", d_z, h)
        yield from by_weights("log variance", d_log_variance, h)
        yield from by_weights("encode", d_h, x)
        # only now do weights change: all that read them are done
        yield Launch(count, 1, 1, (
            self._counter, steps, self._table, corrected, bce, kl, np.float32(scale), self._history,
        ))  # fmt: skip
        parts = self._weights, self._gradients, self._first, self._second
        groups = [[p.all for p in parts]] if way.together else zip(*(p.each() for p in parts))
        for w, gradient, first, second in groups:
            given = (its.reshape(its.size) for its in (w, gradient, first, second))
            w, gradient, first, second = given
            arrays = w, gradient, first, second, corrected, w, first, second
            yield from adam.LADDER.launches(*arrays, method=way.element)
