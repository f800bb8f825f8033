"""The spectral autoencoder: 5 frames of 64 mel bands, reduced to 32 numbers and rebuilt.

For each frame LayerNorm, Linear 64 -> 64, GELU (with erf); the five side by side are c (320).
h = c P' with the basis P (32, 320), whose rows have length 1; LayerNorm, Linear 32 -> 32, GELU;
r = h P with the same basis; for each frame Linear 64 -> 64. How far that is from the spectrum, the
mean squared error, is its anomaly score. The frames share one encoder and one decoder.

>>> rebuilt, scores = reference(x, Weights.trained())         # NumPy, float64
>>> model = Autoencoder(Weights.trained())                    # weights on the GPU
>>> rebuilt, scores = model(x)                                # one kernel
>>> rebuilt, scores = model(x, method="layers")               # ten
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import vectorize

from course.backend import cuda
from course.kernels.arrays import Array, checked_float32, empty_like, handed_back, known, on_device
from course.kernels.launching import allow_shared, room
from course.models.spectral.data import BANDS, FRAMES, POINTS
from course.models.spectral.fused import fused
from course.models.spectral.layers import Layers
from course.models.spectral.shape import FusedShape
from course.models.spectral.weights import EPSILON, Weights

__all__ = ["METHODS", "SHAPES", "Autoencoder", "Weights", "reference", "shape_for"]

METHODS = ("fused", "folded", "fetched", "layers")
ALIGNED = 16  # bytes

#: Shapes with resident weights, from few spectra a block to many.
SHAPES = (
    FusedShape(1, 2),
    FusedShape(1, 4),
    FusedShape(2, 4),
    FusedShape(2, 8),
    FusedShape(4, 8, max_registers=200),
    FusedShape(4, 8, groups=2, max_registers=168),  # ten warps: 168 registers a thread at most
    FusedShape(4, 8, groups=4, max_registers=96),  # twenty warps, five to a scheduler
)
#: The same with the decoder multiplied into the basis beforehand.
FOLDED = tuple(dataclasses.replace(shape, folded=True) for shape in SHAPES)
#: Shapes that fetch weights in parts, for any GPU.
FETCHED = (FusedShape(2, 4, resident=False), FusedShape(4, 8, resident=False, max_registers=168))

#: Argument types of the fused kernels: x, packed, y, errors.
SIGNATURE = "void(float32[:, ::1], float32[::1], float32[:, ::1], float32[::1])"

kernel_of = functools.cache(fused)


# --- the reference -------------------------------------------------------------------------------
@vectorize
def erf(x: float) -> float:
    """The error function of each number."""
    return math.erf(x)


def gelu(x: np.ndarray) -> np.ndarray:
    """X times the normal distribution's probability below x, with erf."""
    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


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
def shape_for(
    batch: int,
    multiprocessors: int,
    shared_bytes: int,
    capability: tuple[int, int],
    method: str = "fused",
) -> FusedShape:
    """The shape that is launched for a batch on a GPU.

    The smallest tile with which every multiprocessor has a block at most; for larger batches the
    largest tile that fits.

    Parameters
    ----------
    batch : int
    multiprocessors : int
    shared_bytes : int
        What a block can have at most.
    capability : (int, int)
    method : {"fused", "folded", "fetched"}
        The first two keep weights resident where the GPU can, and fetch them elsewhere.
    """
    found: tuple[FusedShape, ...] = FETCHED
    if method != "fetched" and capability >= (8, 0):
        shapes = FOLDED if method == "folded" else SHAPES
        fitting = tuple(shape for shape in shapes if shape.shared_bytes <= shared_bytes)
        found = fitting or FETCHED
    for shape in found:
        if batch <= multiprocessors * shape.tile * shape.groups:
            return shape
    return found[-1]


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

    def configured(
        self, batch: int, method: str = "fused", stream: Any = 0, shape: FusedShape | None = None
    ) -> Callable[..., None]:
        """What computes a batch of this size, ready to be called with (x, y, errors) on the GPU.

        Parameters
        ----------
        batch : int
            At least 1.
        method : str
            One of `METHODS`: one kernel, one with folded weights (a third less work), one without
            resident weights, or ten.
        stream : optional
            Where to launch.
        shape : FusedShape, optional
            Another one than `shape_for` chooses.

        Raises
        ------
        ValueError
            For another method, a batch below 1, or a shape that the GPU has no room for.
        """
        known(method, "method", METHODS)
        if batch < 1:
            raise ValueError(f"batch is {batch}; a launch needs at least 1 spectrum")
        if method == "layers":
            return Layers(self.weights, batch, stream)
        launch, packed = self.kernel(batch, method, stream, shape)

        def call(x: Any, y: Any, errors: Any) -> None:
            launch(x, packed, y, errors)

        return call

    def kernel(
        self, batch: int, method: str = "fused", stream: Any = 0, shape: FusedShape | None = None
    ) -> tuple[Callable[..., None], Any]:
        """The kernel alone, configured, and its weights: called with (x, weights, y, errors)."""
        device = cuda.get_current_device()
        capability = tuple(device.compute_capability)
        most, limit = int(device.MULTIPROCESSOR_COUNT), room()[0]
        shape = shape or shape_for(batch, most, limit, capability, method)
        if capability < shape.capability or shape.shared_bytes > limit:
            raise ValueError(
                f"this shape needs {shape.shared_bytes:,} bytes of shared memory and compute "
                f"capability {'.'.join(map(str, shape.capability))}; this GPU has {limit:,} and "
                f"{'.'.join(map(str, capability))}: choose method='fetched'"
            )
        made = kernel_of(shape)
        if shape.dynamic_shared:
            allow_shared(made, SIGNATURE, shape.dynamic_shared)
        tiles = -(-batch // (shape.tile * shape.groups))
        blocks = shape.blocks(batch, most) if shape.resident else tiles
        call = made[blocks, shape.threads, stream, shape.dynamic_shared]
        return call, self.packed[shape.folded]

    def __call__(self, x: Array, method: str = "fused", out: Array | None = None) -> tuple:
        """Rebuild spectra, and score them.

        Parameters
        ----------
        x : array, shape (batch, 320), float32
            Of NumPy, CuPy or numba.cuda, in C order; on the GPU from an address that is a multiple
            of 16 bytes. A spectrum with NaN or infinity gives NaN, and touches no other.
        method : str
            One of `METHODS`.
        out : array, optional
            Where to write the rebuilt spectra; of x's shape and type, and not x itself.

        Returns
        -------
        rebuilt : array, shape (batch, 320), float32
            `out`, if it is given; else of x's kind.
        scores : array, shape (batch,), float32
            Mean squared errors, of x's kind. For a batch of 0 both are empty.

        Raises
        ------
        TypeError
            For no array, or elements that are not float32.
        ValueError
            For another shape, strides or address, or a method that does not exist.
        """
        known(method, "method", METHODS)
        _check(x, "x")
        if out is not None:
            _check(out, "out")
        if out is not None and (out is x or tuple(out.shape) != tuple(x.shape)):
            raise ValueError(
                f"out is x itself or has the shape {tuple(out.shape)}; it must be another array of "
                f"shape {tuple(x.shape)}: x is read again for the errors"
            )
        batch = x.shape[0]
        target = out if out is not None and not isinstance(out, np.ndarray) else None
        if target is None:
            target = empty_like(x, (batch, POINTS), np.float32)
        errors = empty_like(x, (batch,), np.float32)
        if batch:
            there = on_device(x, "x"), on_device(target, "out"), on_device(errors, "errors")
            for array, name in zip(there[:2], ("x", "out"), strict=True):
                _check_address(array, name)
            self.configured(batch, method)(*there)
        return handed_back(target, out, x), handed_back(errors, None, x)


def _check(array: Array, name: str) -> None:
    """Refuse what is no array of float32 spectra."""
    shape = f"(batch, {POINTS}): {FRAMES} frames of {BANDS} bands, one after the other"
    checked_float32(array, name, 2, shape)
    if array.shape[1] != POINTS:
        raise ValueError(f"{name} has the shape {tuple(array.shape)}; it must be {shape}")


def _check_address(array: Any, name: str) -> None:
    """Refuse an array whose rows cannot be read 16 bytes at a time."""
    address = array.__cuda_array_interface__["data"][0]
    if address % ALIGNED:
        raise ValueError(
            f"{name} begins at an address that is no multiple of {ALIGNED} bytes: copy it first"
        )
