"""Factors of a stack of images by the GPU: the pipeline's second stage, when it is asked for.

The stage on the CPU has a thread for each core, each with an image of its own
(`course.images.svd`, float64). Here one thread hands stacks to the GPU (`course.kernels.svd`,
float32). An image's factors are the same, bit for bit, in any stack.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from course import images
from course.engines import is_out_of_memory
from course.image_files import ImageError

SVDS = ("cpu", "gpu", "auto")


def choose_svd(svd: str, rows: int, columns: int) -> str:
    """Return who factorises images of a size, "cpu" or "gpu"; "auto" takes a GPU that can.

    Raises
    ------
    ImageError
        When there is no such choice, no usable GPU for "gpu", or the images are too large for it.
    """
    if svd not in SVDS:
        raise ImageError(f"svd is {svd!r}; allowed are {', '.join(SVDS)}")
    if svd == "cpu":
        return svd
    from course import backend
    from course.kernels.svd_qr import LONGEST

    fits, found = max(rows, columns) <= LONGEST, backend.gpu() is not None
    if svd == "auto":
        return "gpu" if fits and found else "cpu"
    if not found:
        raise ImageError(f"no usable GPU for the SVDs ({backend.why()}); use --svd cpu")
    if not fits:
        raise ImageError(
            f"size is {rows}x{columns}: the GPU's SVD takes sides up to {LONGEST}; choose a "
            "smaller size, or --svd cpu"
        )
    return svd


def kept_values(most: int, image: np.ndarray) -> int:
    """`most`, brought up to a multiple of 4, but no more than an image has.

    So rows of u can be read 16 bytes at a time.
    """
    return min(-(-most // 4) * 4, *image.shape)


class GpuFactors:
    """Factorises stacks of images of one size on the GPU.

    Parameters
    ----------
    batch : int
        The longest stack. Memory on the GPU is taken once, for so many.
    most : int
        Singular values that are needed; up to 3 more are kept.
    """

    def __init__(self, batch: int, most: int):
        self.batch, self.most = batch, most
        self._solver: Any = None
        self._there: list[Any] = []

    def __call__(self, stack: Sequence[np.ndarray]) -> list[tuple[np.ndarray, ...]]:
        """The factors (rows, r), (r,), (r, columns) of each image of a stack, all of one shape.

        Raises
        ------
        MemoryError
            When the GPU's memory does not suffice.
        """
        from course.kernels.svd import NotConverged

        r = kept_values(self.most, stack[0])
        try:
            u, s, vt = self._factors(stack, r)
        except NotConverged:  # no image is known for which this happens
            found = [images.svd(image) for image in stack]
            return [(u[:, :r].copy(), s[:r].copy(), vt[:r].copy()) for u, s, vt in found]
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            rows, columns = stack[0].shape
            raise MemoryError(
                f"the GPU has not enough memory to factorise {self.batch} images of "
                f"{rows}x{columns} together; choose a smaller --batch, or --svd cpu"
            ) from error
        return [tuple(parts) for parts in zip(u, s, vt, strict=True)]

    def _factors(self, stack: Sequence[np.ndarray], r: int) -> list[np.ndarray]:
        from course.backend import cuda
        from course.kernels.svd import Solver

        rows, columns = stack[0].shape
        if self._solver is None:
            self._solver = Solver(self.batch, rows, columns)
            shapes = (rows, columns), (rows, r), (r,), (r, columns)
            self._there = [cuda.device_array((self.batch, *shape), np.float32) for shape in shapes]
        whole = np.zeros((self.batch, rows, columns), np.float32)  # those that are missing are 0
        whole[: len(stack)] = stack
        self._there[0].copy_to_device(whole)
        self._solver(*self._there)
        return [array.copy_to_host()[: len(stack)] for array in self._there[1:]]
