"""Trains a VAE on the GPU: two launches for each step, many steps in a CUDA graph.

>>> trainer = FusedTrainer(Training.begun(VAEShape()), images)
>>> trainer.run(468)                              # an epoch of 60,000 images, in batches of 128
>>> trainer.training().save("training.npz")       # from where any trainer goes on

Results are the same to the bit each time, even if a training is saved and resumed in the middle of
an epoch. The kernels are in `course_models.vae.forward` and `update`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from course import backend
from course.backend import cuda
from course.dispatch.graphs import capture_graph
from course.dispatch.prepared import Attribute, PreparedLaunch, allow_shared
from course.kernels.gemm.small_tile import PRECISIONS
from course.kernels.steps import Launch as KernelLaunch
from course_models.training.adam import BETA1, BETA2
from course_models.vae.block_sync import MISSING
from course_models.vae.forward import forward_of
from course_models.vae.memory import KernelPlan, ParameterLayout, round_up4
from course_models.vae.reference import check_images
from course_models.vae.update import update_of
from course_models.vae.weights import Training

IN_A_GRAPH = 32, 4  # steps of a graph: even, since buffers alternate
#: Per cent of an SM's memory that is shared memory: enough for blocks of `update` beside one of
#: `forward`. The rest is L1, through which weights are loaded: 60 per cent were slower.
SHARE = 44
HISTORY = 4096  # losses kept on the GPU until the host reads them


class FusedTrainer:
    """A VAE's training on the GPU (or the simulated one).

    The order of the images and the noise are those of `NumpyTrainer`.

    Parameters
    ----------
    training : Training
        The state to continue: `Training.begun`, or what `Training.load` read.
    images : ndarray, shape (n, pixels), uint8
    precision : str, optional
        One of `PRECISIONS`: "tf32x3" (float32's accuracy on tensor cores), "tf32" (three digits),
        "float32" (CUDA cores). Without it "tf32x3"; below compute capability 8.0, where there is
        no TF32, "float32".

    Attributes
    ----------
    step : int
        Steps that are done, or queued.
    steps_of_an_epoch : int

    Raises
    ------
    TypeError, ValueError
        For images that do not fit, a precision that is unknown or that this GPU lacks.
    """

    def __init__(self, training: Training, images: np.ndarray, precision: str | None = None):
        check_images(training.shape, images, training.batch)
        device = cuda.get_current_device()
        has_tf32 = tuple(device.compute_capability) >= (8, 0)
        self.precision = precision or ("tf32x3" if has_tf32 else "float32")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision is {precision!r}; there are {', '.join(PRECISIONS)}")
        if self.precision != "float32" and not has_tf32:
            raise ValueError(
                f"precision {precision!r} needs compute capability 8.0, and this GPU has "
                f"{'.'.join(map(str, device.compute_capability))}: choose 'float32'"
            )
        self._pitch = round_up4(training.shape.pixels)
        if len(images) * self._pitch >= 2**31:
            raise ValueError(f"{len(images):,} images are too many: 2 GiB of pixels at most")
        self._begun, self.step = training, training.step
        self.steps_of_an_epoch = len(images) // training.batch
        self._layout = ParameterLayout(training.shape)
        self._alone = backend.gpu() is not None
        at_once = int(device.MULTIPROCESSOR_COUNT)
        of = training.shape, training.batch, self.precision
        way = "grid"
        if self._alone:
            way = "early" if tuple(device.compute_capability) >= (9, 0) else "numbers"
        forward = forward_of(*of, at_once, way)
        update = update_of(*of, forward, way)
        parts = training.weights, training.first, training.second
        p, m, v = (self._layout.packed(its) for its in parts)
        self._parameters = [cuda.to_device(its) for its in (np.tile(p, 2), m, v)]
        states = np.zeros((2, 4), np.int32)
        place = training.step % self.steps_of_an_epoch
        states[training.step % 2, :2] = training.step, place
        self._states = cuda.to_device(states.reshape(-1))
        padded = np.zeros((len(images), self._pitch), np.uint8)
        padded[:, : images.shape[1]] = images
        self._images, self._data = len(images), cuda.to_device(padded.reshape(-1))
        # rows that pad the batch are loaded, but their results are 0
        self._order = cuda.device_array(self.steps_of_an_epoch * training.batch + 3, np.int32)
        self._corrected = cuda.device_array(2 * self.steps_of_an_epoch, np.float32)
        self._between = cuda.to_device(np.full(2 * forward.end, MISSING, np.int32))
        self._history = cuda.to_device(np.zeros(HISTORY, np.float32))
        self._read: list[float] = []
        self._first = training.step  # the first step whose loss is not yet read
        self._graphs: dict[int, Any] = {}
        ours = self._given(training.step % 2)
        #: Both launches as the simulator runs them, for `trace`.
        shown = forward_of(*of, at_once, "grid")
        plans = shown, update_of(*of, shown, "grid")
        self.as_simulated = [its.launch(given) for its, given in zip(plans, ours, strict=True)]
        early = (Attribute.dependent(),) if way == "early" else ()
        #: For even steps and for odd ones: the launches of `forward` and of `update`.
        self._launches = [
            (
                self._ready(forward, first, Attribute.cooperative(), *early),
                self._ready(update, second, *early),
            )
            for first, second in map(self._given, range(2))
        ]
        self._tables(self.step // self.steps_of_an_epoch)

    def run(self, steps: int) -> None:
        """Queue so many steps; `losses` and `training` wait for them."""
        end = self.step + steps
        while self.step < end:
            epoch, place = divmod(self.step, self.steps_of_an_epoch)
            count = min(end - self.step, self.steps_of_an_epoch - place)
            count = min(count, HISTORY - (self.step - self._first))
            self._queue(count)
            self.step += count
            if place + count == self.steps_of_an_epoch:
                self._tables(epoch + 1)
            if self.step - self._first == HISTORY:
                self._fetch()

    @property
    def losses(self) -> list[float]:
        """Losses of the steps that this object did."""
        self._fetch()
        return self._read

    def training(self) -> Training:
        """The state from which a training can continue."""
        p, m, v = (its.copy_to_host() for its in self._parameters)
        now = p.reshape(2, -1)[self.step % 2]  # double buffered
        arrays = [self._layout.unpacked(its) for its in (now, m, v)]
        return replace(
            self._begun, **dict(zip(("weights", "first", "second"), arrays)), step=self.step
        )

    def _tables(self, epoch: int) -> None:
        """Copy an epoch's order and Adam's corrections to the GPU, after all queued work."""
        rng = np.random.default_rng((self._begun.seed, epoch))
        order = rng.permutation(self._images)[: self.steps_of_an_epoch * self._begun.batch]
        at = np.arange(1, self.steps_of_an_epoch + 1) + epoch * self.steps_of_an_epoch
        corrected = np.stack([self._begun.rate / (1 - BETA1**at), 1 / (1 - BETA2**at)], axis=1)
        self._order.copy_to_device(np.pad(order * self._pitch, (0, 3)).astype(np.int32))
        self._corrected.copy_to_device(corrected.astype(np.float32).reshape(-1))

    def _given(self, half: int) -> tuple[tuple, tuple]:
        """Arguments of both launches in even or odd steps: arrays are double-buffered."""

        def read_and_written(array: Any) -> tuple[Any, Any]:
            size = array.size // 2
            parts = array[:size], array[size:]
            return parts[half], parts[1 - half]

        p, m, v = self._parameters
        (P, Q), (now, then) = read_and_written(p), read_and_written(self._states)
        S, _ = read_and_written(self._between.view(np.float32))
        _, bits = read_and_written(self._between)
        data = self._data, self._order
        return (
            (P, S, *data, now, np.uint64(self._begun.seed)),
            (P, Q, m, v, S, bits, self._history, *data, self._corrected, now, then),
        )

    def _ready(self, its: KernelPlan, given: tuple, *attributes: Attribute) -> Any:
        """A prepared launch, to be called with a stream's handle and no addresses."""
        allow_shared(its.kernel, its.types, its.shared, SHARE)
        launch = KernelLaunch(its.kernel, its.blocks, its.threads, given, its.shared)
        if self._alone:
            return PreparedLaunch(launch, attributes=attributes)
        return lambda stream, addresses: launch.on()

    def _queue(self, steps: int) -> None:
        """Queue steps of one epoch: with CuPy in CUDA graphs, the rest one by one."""
        done = self.step % 2 if steps else 0  # graphs begin with an even step
        self._launch(0, self.step, done)
        module, _ = backend.array_module()
        for size in IN_A_GRAPH if self._alone and hasattr(module, "cuda") else ():
            while steps - done >= size:
                if size not in self._graphs:
                    origin = module.cuda.Stream(non_blocking=True)
                    self._graphs[size], _ = capture_graph(
                        origin,
                        lambda: self._launch(origin.ptr, 0, size),  # noqa: B023
                    )
                self._graphs[size].launch(module.cuda.Stream.null)
                done += size
        self._launch(0, self.step + done, steps - done)

    def _launch(self, stream: int, first: int, steps: int) -> None:
        for step in range(first, first + steps):
            for launch in self._launches[step % 2]:
                launch(stream, ())

    def _fetch(self) -> None:
        """Copy the losses that are not yet read from the GPU."""
        count = self.step - self._first
        if count:
            history = self._history.copy_to_host()
            self._read += [float(history[n % HISTORY]) for n in range(self._first, self.step)]
            self._first = self.step
