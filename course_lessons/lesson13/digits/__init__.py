"""A small network that reads digits: data, weights, layer by layer, and all of it in one kernel."""

from course.lazy import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "course_models.digits": "held_out",
        "course_lessons.lesson13.digits.network": "Network accuracy reference",
        "course_lessons.lesson13.digits.weights": "ACTIVATIONS Weights",
    },
)
