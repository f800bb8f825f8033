"""The spectral autoencoder: 5 frames of 64 mel bands, reduced to 32 elements and rebuilt.

For each frame LayerNorm, Linear 64 -> 64, GELU (with erf); the five side by side are c (320).
h = c P' with the basis P (32, 320), whose rows have length 1; LayerNorm, Linear 32 -> 32, GELU;
r = h P with the same basis; for each frame Linear 64 -> 64. The mean squared error of the rebuilt
spectrum is its anomaly score. The frames share one encoder and one decoder.

>>> rebuilt, scores = reference(x, Weights.trained())         # NumPy, float64
>>> model = Autoencoder(Weights.trained())                    # weights on the GPU
>>> rebuilt, scores = model(x)                                # one kernel
>>> rebuilt, scores = model(x, method="layers")               # ten
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.prepared import allow_shared
from course.kernels.arrays import Array, checked_float32, in_order
from course.kernels.steps import Ladder, Launch, Step, ceil_div, require_choice, shared_memory_limit
from course_models.common import gelu
from course_models.spectral.config import FusedConfig
from course_models.spectral.data import BANDS, FRAMES, POINTS
from course_models.spectral.fused import fused
from course_models.spectral.layers import Layers
from course_models.spectral.weights import EPSILON, Weights

__all__ = ["CONFIGS", "Autoencoder", "Weights", "config_for", "reference"]

ALIGNED = 16  # bytes

#: Configs with resident weights, from few spectra for each block to many.
CONFIGS = (
    FusedConfig(1, 2),
    FusedConfig(1, 4),
    FusedConfig(2, 4),
    FusedConfig(2, 8),
    FusedConfig(4, 8, max_registers=200),
    FusedConfig(4, 8, groups=2, max_registers=168),  # ten warps: at most 168 registers a thread
    FusedConfig(4, 8, groups=4, max_registers=96),  # twenty warps, five to a scheduler
)
#: These configs with the decoder multiplied into the basis beforehand.
FOLDED = tuple(dataclasses.replace(config, folded=True) for config in CONFIGS)
#: Configs that fetch weights in parts, which run on any GPU.
FETCHED = (FusedConfig(2, 4, resident=False), FusedConfig(4, 8, resident=False, max_registers=168))

#: Argument types of the fused kernels: x, packed, y, errors.
SIGNATURE = "void(float32[:, ::1], float32[::1], float32[:, ::1], float32[::1])"

kernel_of = functools.cache(fused)


# --- the reference -------------------------------------------------------------------------------
def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Normalise over the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + EPSILON) * gamma + beta


def reference(x: np.ndarray, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Rebuild spectra in float64, layer after layer.

    Parameters
    ----------
    x : ndarray, shape (batch, 320)
    weights : Weights

    Returns
    -------
    rebuilt : ndarray, shape (batch, 320), float64
    scores : ndarray, shape (batch,), float64
        Mean squared error of each spectrum.
    """
    given = weights.as_dict().items()
    w = {name: array.astype(np.float64) for name, array in given}
    x = np.asarray(x, np.float64).reshape(-1, POINTS)
    x_frames = x.reshape(-1, FRAMES, BANDS)
    frames = layer_norm(x_frames, w["encode_gamma"], w["encode_beta"])
    c = gelu(frames @ w["encode_weight"].T + w["encode_bias"])
    c = c.reshape(-1, POINTS)
    h = layer_norm(c @ w["basis"].T, w["code_gamma"], w["code_beta"])
    h = gelu(h @ w["code_weight"].T + w["code_bias"])
    r = (h @ w["basis"]).reshape(-1, FRAMES, BANDS)
    rebuilt = (r @ w["decode_weight"].T + w["decode_bias"]).reshape(-1, POINTS)
    return rebuilt, ((rebuilt - x) ** 2).mean(1)


# --- launching -----------------------------------------------------------------------------------
def config_for(
    batch: int, multiprocessors: int, shared_bytes: int, capability: tuple[int, int],
    method: str = "fused",
) -> FusedConfig:  # fmt: skip
    """The config that is launched for a batch on a GPU.

    It has the smallest tile with which no SM has more than one block; for larger batches the
    largest tile that fits.

    Parameters
    ----------
    batch, multiprocessors, shared_bytes : int
        The last is the most that a block can have.
    capability : (int, int)
    method : {"fused", "folded", "fetched"}
        The first two keep weights resident where the GPU can, and fetch them elsewhere.
    """
    found: tuple[FusedConfig, ...] = FETCHED
    if method != "fetched" and capability >= (8, 0):
        configs = FOLDED if method == "folded" else CONFIGS
        fitting = tuple(config for config in configs if config.shared_bytes <= shared_bytes)
        found = fitting or FETCHED
    for config in found:
        if batch <= multiprocessors * config.tile * config.groups:
            return config
    return found[-1]


class SpectraProblem(NamedTuple):
    """How many spectra there are."""

    batch: int

    @classmethod
    def of(cls, x: Array, out: Array, errors: Array) -> SpectraProblem:
        """The problem of these arrays."""
        return cls(x.shape[0])


class Autoencoder:
    """The autoencoder with its weights on the GPU (or the simulated one).

    Parameters
    ----------
    weights : Weights
    """

    def __init__(self, weights: Weights):
        if not isinstance(weights, Weights):
            raise TypeError(
                f"weights is {type(weights).__name__}: give Weights, such as Weights.trained()"
            )
        self.weights = weights
        self.packed = {fold: cuda.to_device(weights.packed(fold)) for fold in (False, True)}
        self.device = cuda.get_current_device().id
        steps = {name: self._in_one(name) for name in ("fused", "folded", "fetched")}
        steps["layers"] = Step(self._by_layers)
        self.ladder = Ladder("an autoencoder", SpectraProblem.of, steps, best=lambda p: "fused")
        self._entry = EntryPoint(
            "an autoencoder", ("x",), self._results, self._launches, options=("method",)
        )

    def configured(
        self, batch: int, method: str = "auto", stream: Any = 0, config: FusedConfig | None = None
    ) -> Callable[..., None]:
        """A function that computes a batch of this size, called with (x, y, errors) on the GPU.

        Parameters
        ----------
        batch : int
            At least 1.
        method : str
            One of `ladder.names`: "fused" ("auto"), one kernel; "folded", one with folded weights,
            a third less work; "fetched", one without resident weights; "layers", ten kernels.
        stream : optional
            Where to launch.
        config : FusedConfig, optional
            In place of the one that `config_for` chooses.

        Raises
        ------
        ValueError
            For another method, a batch below 1, or a config that needs more shared memory than
            the GPU has.
        """
        require_choice(method, "method", self.ladder.names)
        if batch < 1:
            raise ValueError(f"batch is {batch}; a launch needs at least 1 spectrum")
        if method == "layers":
            return Layers(self.weights, batch, stream)
        launch, packed = self.kernel(batch, method, stream, config)

        def call(x: Any, y: Any, errors: Any) -> None:
            launch(x, packed, y, errors)

        return call

    def kernel(
        self, batch: int, method: str = "auto", stream: Any = 0, config: FusedConfig | None = None
    ) -> tuple[Callable[..., None], Any]:
        """The configured kernel, to be called with (x, weights, y, errors), and its weights."""
        config, blocks = self._config(batch, method, config)
        made = kernel_of(config)
        if config.dynamic_shared:
            allow_shared(made, SIGNATURE, config.dynamic_shared)
        call = made[blocks, config.threads, stream, config.dynamic_shared]
        return call, self.packed[config.folded]

    def _config(
        self, batch: int, method: str, config: FusedConfig | None
    ) -> tuple[FusedConfig, int]:
        """The config for a batch, if none is given, and its blocks."""
        device = cuda.get_current_device()
        capability = tuple(device.compute_capability)
        most, limit = int(device.MULTIPROCESSOR_COUNT), shared_memory_limit()[0]
        config = config or config_for(batch, most, limit, capability, method)
        if capability < config.capability or config.shared_bytes > limit:
            raise ValueError(
                f"this shape needs {config.shared_bytes:,} bytes of shared memory and compute "
                f"capability {'.'.join(map(str, config.capability))}; this GPU has {limit:,} and "
                f"{'.'.join(map(str, capability))}: choose method='fetched'"
            )
        tiles = ceil_div(batch, config.tile * config.groups)
        return config, config.blocks(batch, most) if config.resident else tiles

    def _in_one(self, method: str) -> Step:
        """A step that launches one kernel."""

        def launches(p: SpectraProblem, x: Array, out: Array, errors: Array) -> list[Launch]:
            config, blocks = self._config(p.batch, method, None)
            arguments = x, self.packed[config.folded], out, errors
            kernel, shared = kernel_of(config), config.dynamic_shared
            return [Launch(kernel, blocks, config.threads, arguments, shared)]

        return Step(launches)

    def _by_layers(self, p: SpectraProblem, x: Array, out: Array, errors: Array) -> list[Launch]:
        layers = Layers(self.weights, p.batch).launches(x, out, errors)
        return [Launch(kernel, *how, arguments) for _, kernel, how, arguments in layers]

    def _results(self, x: ArrayFacts, method: str) -> list[Result]:
        require_choice(method, "method", self.ladder.names)
        x.must_be_beside("x", "the weights", self.device)
        shape = f"(batch, {POINTS}): {FRAMES} frames of {BANDS} bands, one after the other"
        checked_float32(x, "x", 2, shape)
        if x.shape[1] != POINTS:
            raise ValueError(f"x has the shape {x.shape}; it must be {shape}")
        return [(x.shape, np.float32), ((x.shape[0],), np.float32)]

    def _launches(self, x: Array, out: Array, errors: Array, method: str) -> list[Launch]:
        for array, name in ((x, "x"), (out, "out")):
            _check_address(in_order(array, name), name)
        return self.ladder.launches(x, out, errors, method=method)

    def __call__(
        self, x: Array, method: str = "auto", out: Array | None = None, stream: Stream = None
    ) -> tuple:
        """Rebuild spectra, and score them.

        Parameters
        ----------
        x : array, shape (batch, 320), float32
            Of NumPy, CuPy, PyTorch or numba.cuda, in C order; on the GPU at an address that is a
            multiple of 16 bytes. A spectrum with NaN or infinity gives NaN, and affects no other.
        method : str
            One of `ladder.names`.
        out : array, optional
            Receives the rebuilt spectra; of x's shape and dtype, and not x itself.
        stream : stream, optional
            Of CuPy, PyTorch or numba.cuda, or its handle; without it x's library's current one.

        Returns
        -------
        rebuilt : array, shape (batch, 320), float32
            `out`, if it is given; else of x's library.
        scores : array, shape (batch,), float32
            Mean squared errors, of x's library. For a batch of 0 both are empty.

        Raises
        ------
        TypeError
            For an argument that is no array, or elements that are not float32.
        ValueError
            For another shape, strides or address, or a method that does not exist.
        """
        if out is not None and out is x:
            raise ValueError("out is x itself: x is read again for the errors, so give another")
        return self._entry.call((x,), (method,), out, stream)


def _check_address(array: Any, name: str) -> None:
    """Refuse an array whose rows cannot be read 16 bytes at a time."""
    address = array.__cuda_array_interface__["data"][0]
    if address % ALIGNED:
        raise ValueError(
            f"{name} begins at an address that is no multiple of {ALIGNED} bytes: copy it first"
        )
