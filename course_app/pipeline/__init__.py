"""Many images: processes and GPUs that work at the same time, memory that they share, resume."""

from course.lazy import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {"course_app.pipeline.pipeline": "reconstruct_images", "course_app.pipeline": "threads"},
)
