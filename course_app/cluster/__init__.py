"""The same batch on several workers, a GPU each."""

from course.lazy import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "course_app.cluster.group": "ClusterError cluster",
        "course_app.cluster.work": "Recipe rebuilt_digests recipes",
        "course_app.cluster": "work",
    },
)
