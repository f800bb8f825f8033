"""A small network that reads digits: data, weights, layer by layer, and all of it in one kernel."""

from course.models.digits.data import CLASSES, EVERY, held_out, network_input, training
from course.models.digits.network import FUNCTIONS, METHODS, Network, Program, accuracy, reference
from course.models.digits.weights import ACTIVATIONS, SIDE, Weights, multiplications

__all__ = [
    "ACTIVATIONS", "CLASSES", "EVERY", "FUNCTIONS", "METHODS", "SIDE", "Network", "Program",
    "Weights", "accuracy", "held_out", "multiplications", "network_input", "reference", "training",
]  # fmt: skip
