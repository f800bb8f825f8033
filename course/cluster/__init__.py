"""The same batch on several workers, a GPU each."""

from course.lazy import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "course.cluster.group": "ClusterError cluster",
        "course.cluster.work": "Recipe rebuilt_digests recipes",
        "course.cluster": "scaling work",
    },
)
