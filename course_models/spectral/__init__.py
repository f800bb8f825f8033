"""A spectral autoencoder: its data and weights; layer by layer, and as one kernel."""

from course.old_names import elsewhere
from course_models.spectral.config import FusedConfig
from course_models.spectral.data import FAULTS, area_under_curve, held_out, spectra
from course_models.spectral.layers import Layers
from course_models.spectral.network import CONFIGS, Autoencoder, config_for, kernel_of, reference
from course_models.spectral.weights import Weights, multiplications

__all__ = [
    "CONFIGS", "FAULTS", "Autoencoder", "FusedConfig", "Layers", "Weights", "area_under_curve",
    "config_for", "held_out", "kernel_of", "multiplications", "reference", "spectra",
]  # fmt: skip

__getattr__ = elsewhere(__name__)
