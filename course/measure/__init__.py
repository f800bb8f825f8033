"""How long a program takes, how long it must take at least, and what was recorded."""

from course.lazy import face

# benchmark, bound, occupancy, recorded and their like are in the course's own face
__getattr__, __dir__, __all__ = face(
    __name__,
    {
        # figures that cannot be
        "course.measure.roofline": "ImpossibleFigure refuse_impossible",
        # the reader's own figures
        "course.measure.own_figures": "compare figure_of keep",
        # what engines did, recorded
        "course.measure": "timeline",
        # how well a median is known
        "course.measure.timing": "median_interval",
    },
)
