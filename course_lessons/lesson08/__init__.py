"""Streams: one batch, many ways to the GPU and back; what overlaps, and what it can gain."""

from course.lazy import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        # the ways
        "course_lessons.lesson08.pinned": "PinnedPool packed",
        "course_lessons.lesson08.batches": "WAYS rebuild_stack",
        # the model of what overlaps, and the laws
        "course_lessons.lesson08.overlap": (
            "STEPS Stage back_at_the_end least_length length play recorded_link schedule stage_of "
            "amdahl gustafson serial_fraction"
        ),
        # what engines did, recorded
        "course.measure.timeline": "busy together",
        "course.measure": "timeline",
    },
)
