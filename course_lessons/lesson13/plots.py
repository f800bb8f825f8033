"""The charts of lesson 13: recorded activations and normalisations, and networks by batch."""

from course.lazy import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "course_lessons.lesson13.speed_charts": "original speed_chart speedup_chart",
        "course_lessons.lesson13.batch_charts": (
            "latency_by_batch speedup_by_batch efficiency_by_batch"
        ),
    },
)
