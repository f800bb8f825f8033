"""A small network that reads digits: data, weights, layer by layer, and all of it in one kernel."""

from course.lazy import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "course.models.digits.data": "held_out",
        "course.models.digits.network": "Network accuracy reference",
        "course.models.digits.weights": "ACTIVATIONS Weights",
    },
)
