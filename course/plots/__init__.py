"""The charts that several lessons use, in one style.

>>> from course import plots
>>> plots.image_grid([image, rebuilt], ["given", "k = 50"])

Each is a `Picture`, which a notebook shows once when it is a cell's last expression. Drawings of
one lesson are made with the pen of `course.plots.style`.
"""

from course.lazy import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "course.plots.style": "Picture",
        # images and their ranks
        "course.plots.image_charts": "image_grid quality_curve singular_values",
        "course.plots.vae_charts": "loss_curve rebuilt_digits digit_grid digit_walk code_plane",
        # times
        "course.plots.time_charts": "time_bars timeline samples heat_maps curves",
        # what the machine allows
        "course.plots.roofline_chart": "roofline",
    },
)
