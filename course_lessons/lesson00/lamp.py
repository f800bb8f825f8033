"""The light that the first exercise shines on a photograph."""

from numba import float32

from course.backend import cuda

DARK = float32(0.1)


@cuda.jit(device=True)
def light(row, column, out):
    """How bright it is at a pixel: 1 in the middle of the image, 0.1 from the circle's edge on."""
    down = float32(2 * row + 1) / float32(out.shape[0]) - float32(1)
    right = float32(2 * column + 1) / float32(out.shape[1]) - float32(1)
    return max(DARK, float32(1) - down * down - right * right)
