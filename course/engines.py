"""What rebuilds a stack of images: the GPU's kernels, the simulator's, or NumPy.

An engine takes a stack of factors and gives a stack of images for each k. On the GPU a stack is one
launch. When the GPU's memory does not suffice, the stack is halved, and halved again, down to one
image; only that is an error.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from course import images
from course.image_files import ImageError

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
    from course.kernels.reconstruct import LADDER
    from course.simt import trace

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
    from course.kernels.reconstruct import reconstruct, step_for

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
