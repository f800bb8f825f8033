"""What rebuilds a stack of images, and what factorises one: the GPU, the simulator, or the CPU.

An engine takes a stack of factors and gives a stack of images for each k. On the GPU a stack is one
launch. When the GPU's memory does not suffice, the stack is halved, and halved again, down to one
image; only that is an error.

Factors come from the CPU, a thread for each core, each with an image of its own
(`course.images.images.svd`, float64), or when it is asked for from the GPU: one thread hands stacks
to it (`course.kernels.svd`, float32). An image's factors are the same, bit for bit, in any stack.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from course.images import images
from course.images.reading import ImageError

ENGINES = ("auto", "gpu", "simulator", "numpy")
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY of the driver's API

#: u (n, rows, r), s (n, r), vt (n, r, columns), the values of k -> for each an array (n, rows,
#: columns), float32.
Rebuild = Callable[[np.ndarray, np.ndarray, np.ndarray, Sequence[int]], list[np.ndarray]]


def choose_engine(engine: str) -> tuple[Rebuild, str, str]:
    """Return what rebuilds stacks, its kind (gpu, simulator or numpy), its name for the reader.

    Raises
    ------
    ImageError
        When there is no such engine, or no usable GPU for "gpu".
    """
    if engine not in ENGINES:
        raise ImageError(f"engine is {engine!r}; allowed are {', '.join(ENGINES)}")
    if engine == "numpy":
        return by_numpy, "numpy", "NumPy on the CPU"

    from course import backend

    gpu = backend.gpu()
    if engine == "gpu" and gpu is None:
        raise ImageError(
            f"no usable GPU ({backend.why()}); use the engine auto, simulator or numpy"
        )
    if engine == "auto" and gpu is None:
        why = f"NumPy on the CPU, as there is no usable GPU ({backend.why()})"
        return by_numpy, "numpy", why
    if engine == "simulator":
        rebuild = by_gpu if gpu is None else by_simulator  # the backend's cuda is the simulator's
        return rebuild, "simulator", "the GPU kernel on the simulator"
    return by_gpu, "gpu", f"the GPU kernel on {gpu}"


def by_numpy(
    u: np.ndarray, s: np.ndarray, vt: np.ndarray, ranks: Sequence[int]
) -> list[np.ndarray]:
    """Rebuild a stack with NumPy, image by image: each comes out the same in any company."""
    return [np.stack([images.reconstruct(*one, k) for one in zip(u, s, vt)]) for k in ranks]


def by_simulator(
    u: np.ndarray, s: np.ndarray, vt: np.ndarray, ranks: Sequence[int]
) -> list[np.ndarray]:
    """Rebuild a stack with the GPU's kernel on the simulator, on a machine with a GPU."""
    from course.kernels.reconstruct.ladder import LADDER
    from warpsim import trace

    step = LADDER["naive"]
    found = []
    for k in ranks:
        out = np.empty((len(u), u.shape[1], vt.shape[2]), dtype=np.float32)
        grid = step.grid(*out.shape[1:])
        for place in range(len(u)):
            part = np.ascontiguousarray(u[place, :, :k])
            arguments = part, s[place, :k], vt[place, :k], k, out[place]
            trace(step.kernel, grid, step.block, *arguments)
        found.append(out)
    return found


def by_gpu(u: np.ndarray, s: np.ndarray, vt: np.ndarray, ranks: Sequence[int]) -> list[np.ndarray]:
    """Rebuild a stack on the GPU: copied in once, one launch for each k, copied out.

    Which kernel it is depends on the shape of an image and on k, never on the stack's length, so
    that an image comes out the same, bit for bit, in any company.
    """
    from course.backend import cuda, gpu
    from course.kernels.reconstruct.ladder import reconstruct, step_for

    rows, columns = u.shape[1], vt.shape[2]
    there = [cuda.to_device(array) for array in (u, s, vt)]
    out = cuda.device_array((len(u), rows, columns), np.float32)
    found = []
    for k in ranks:
        # of a stack on a GPU; the simulator is quickest image by image
        method, step = step_for("auto", rows, columns, k, images=len(u) if gpu() else 0)
        if step.many is not None:
            reconstruct(*there, k, out=out, method=method)
        else:
            for place in range(len(u)):
                one = [array[place] for array in there]
                reconstruct(*one, k, out=out[place], method=method)
        found.append(out.copy_to_host())
    return found


class Halving:
    """A `Rebuild` that goes on with half of a stack when memory does not suffice for all of it.

    Parameters
    ----------
    rebuild : Rebuild

    Attributes
    ----------
    most : int or None
        The longest stack that memory suffices for, once one was too long.
    """

    def __init__(self, rebuild: Rebuild):
        self.rebuild = rebuild
        self.most: int | None = None

    def __call__(
        self, u: np.ndarray, s: np.ndarray, vt: np.ndarray, ranks: Sequence[int]
    ) -> list[np.ndarray]:
        """Rebuild a stack, in parts if need be.

        Raises
        ------
        MemoryError
            When memory does not suffice for one image.
        """
        parts, start = [], 0
        while start < len(u):
            stop = start + min(len(u) - start, self.most or len(u))
            try:
                parts.append(self.rebuild(u[start:stop], s[start:stop], vt[start:stop], ranks))
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                if stop - start == 1:
                    rows, columns = u.shape[1], vt.shape[2]
                    raise MemoryError(
                        f"there is not enough memory to rebuild one image of {rows}x{columns}; "
                        "choose a smaller size, another engine, or end what else uses the GPU"
                    ) from error
                self.most = (stop - start) // 2
                continue
            start = stop
        return parts[0] if len(parts) == 1 else [np.concatenate(its) for its in zip(*parts)]


def is_out_of_memory(error: Any) -> bool:
    """Whether an exception of NumPy, Numba or CuPy says that memory does not suffice."""
    if isinstance(error, MemoryError):
        return True
    return type(error).__name__ == "CudaAPIError" and (
        getattr(error, "code", None) == OUT_OF_MEMORY or "OUT_OF_MEMORY" in str(error)
    )


# --- factors --------------------------------------------------------------------------------------

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
    from course.kernels.svd.qr import LONGEST

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
