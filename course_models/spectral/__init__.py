"""A spectral autoencoder: its data and weights, layer by layer, and all of it in one kernel."""

from course_models.spectral.config import FusedShape
from course_models.spectral.data import FAULTS, area_under_curve, held_out, spectra
from course_models.spectral.layers import Layers
from course_models.spectral.network import SHAPES, Autoencoder, kernel_of, reference, shape_for
from course_models.spectral.weights import Weights, multiplications

__all__ = [
    "FAULTS", "SHAPES", "Autoencoder", "FusedShape", "Layers", "Weights", "area_under_curve",
    "held_out", "kernel_of", "multiplications", "reference", "shape_for", "spectra",
]  # fmt: skip
