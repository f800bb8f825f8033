"""What rebuilds images, and what factorises them: the GPU, the simulator, or the CPU.

On the CPU, or the simulated GPU, each image is rebuilt alone, from its factors. A GPU rebuilds
stacks of images: `OnGpu` factorises them on the GPU (`course.kernels.svd`, float32) or takes
factors that CPUs computed in float64, rebuilds, and measures the reconstructions. An image's
results are the same, bit for bit, in any stack. When the GPU's memory does not suffice, the stack
is halved, and halved again; only a single image that does not fit is an error.
"""

import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from course.driver import read_driver
from course.images.images import leading_svd, reconstruct
from course.images.reading import ImageError
from course.images.shortage import FEWER, is_shortage

ENGINES = ("auto", "gpu", "simulator", "numpy")
STACK = 64  # images: kernels are chosen as for a stack of this length, whatever its own

#: u (n, rows, r), s (n, r), vt (n, r, columns), the values of k -> for each an array (n, rows,
#: columns), float32.
Rebuild = Callable[[np.ndarray, np.ndarray, np.ndarray, Sequence[int]], list[np.ndarray]]


def choose_engine(engine: str, gpus: int | None = None) -> tuple[str, str]:
    """Return what rebuilds, "gpu", "simulator" or "numpy", and its name for the reader.

    Parameters
    ----------
    engine : str
        Of `ENGINES`, or "small", which is "auto" for too little work to be worth a GPU's start.
    gpus : int, optional
        How many GPUs are wanted.

    Raises
    ------
    ImageError
        When there is no such engine, or no GPU for "gpu". Whether a GPU is usable shows only when
        it is used: `gpus_cuda`.
    """
    if engine not in (*ENGINES, "small"):
        raise ImageError(f"engine is {engine!r}; allowed are {', '.join(ENGINES)}")
    if gpus and engine not in ("auto", "gpu"):
        raise ImageError(f"--gpus and --engine {engine} contradict each other")
    if engine == "numpy":
        return "numpy", "NumPy on the CPU"
    if engine in ("auto", "small") and not gpus:
        driver = read_driver()
        if not driver.devices:
            why = driver.error or "the driver sees no CUDA device"
            return "numpy", f"NumPy on the CPU, as there is no usable GPU ({why})"
        if engine == "small":
            return "numpy", "NumPy on the CPU, since a GPU's start would take longer"
    if engine == "simulator":
        return "simulator", "the GPU kernel on the simulator"
    driver = read_driver()
    if gpus and gpus > len(driver.devices):
        raise ImageError(f"--gpus is {gpus}, and there are {len(driver.devices)} GPUs here")
    if not driver.devices:
        raise NoGpu(driver.error or "the driver sees no CUDA device")
    return "gpu", f"the GPU kernel on {driver.devices[0].name}"


class NoGpu(ImageError):
    """There is no usable GPU."""

    def __init__(self, why: str):
        super().__init__(f"no usable GPU ({why}); use the engine auto, simulator or numpy")
        self.why = why

    def __reduce__(self) -> tuple:
        return NoGpu, (self.why,)  # pickled, as it goes from one process to another


_trying = threading.Lock()


def gpus_cuda() -> Any:
    """numba.cuda; raises NoGpu where no GPU is usable, which the first call tries for seconds."""
    from course import backend

    with _trying:
        if backend.gpu() is None:
            raise NoGpu(backend.why())
    return backend.cuda


def on_cpu(engine: str) -> Rebuild:
    """What rebuilds a stack on this CPU, by "numpy" or the "simulator"."""
    if engine == "numpy":
        return by_numpy
    from course import backend

    # without a GPU the backend's cuda is the simulator's
    return by_gpu if backend.gpu() is None else by_simulator


def by_numpy(
    u: np.ndarray, s: np.ndarray, vt: np.ndarray, ranks: Sequence[int]
) -> list[np.ndarray]:
    """Rebuild a stack with NumPy, image by image: each comes out the same in any company."""
    return [np.stack([reconstruct(*one, k) for one in zip(u, s, vt)]) for k in ranks]


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
        for image in range(len(u)):
            part = np.ascontiguousarray(u[image, :, :k])
            arguments = part, s[image, :k], vt[image, :k], k, out[image]
            trace(step.kernel, grid, step.block, *arguments)
        found.append(out)
    return found


def by_gpu(u: np.ndarray, s: np.ndarray, vt: np.ndarray, ranks: Sequence[int]) -> list[np.ndarray]:
    """Rebuild a stack by the backend's kernels: copied in once, launched for each k, copied out."""
    from course.backend import cuda

    there = [cuda.to_device(array) for array in (u, s, vt)]
    out = cuda.device_array((len(u), u.shape[1], vt.shape[2]), np.float32)
    found = []
    for k in ranks:
        rebuild_there(*there, k, out)
        found.append(out.copy_to_host())
    return found


def rebuild_there(u: Any, s: Any, vt: Any, k: int, out: Any) -> None:
    """Rebuild a stack whose factors and results lie on the device.

    The kernel depends on the shape of an image and on k, never on the stack's length. So an image
    comes out the same, bit for bit, in any stack.
    """
    from course.kernels.reconstruct import ladder

    method, together = _method(*out.shape[1:], k)
    if together:
        ladder.reconstruct(u, s, vt, k, out=out, method=method)
        return
    for image in range(len(out)):
        ladder.reconstruct(u[image], s[image], vt[image], k, out=out[image], method=method)


def _method(rows: int, columns: int, k: int) -> tuple[str, bool]:
    """What rebuilds images of a size, and whether it takes a stack of them."""
    from course.backend import gpu
    from course.kernels.reconstruct import ladder

    # on a GPU the best kernel for a stack; the simulator is quickest image by image
    one, many = (ladder.ImageProblem.of_shape(rows, columns, k, images) for images in (0, STACK))
    many = many._replace(in_rows=False)  # not cuBLAS: it sums by the stack's length
    method, step = ladder.LADDER.choose("auto", many if gpu() else one)
    return method, not step.lacks(many)


class Halved:
    """Processes a stack, in parts half as long whenever memory does not suffice.

    Attributes
    ----------
    most : int
        The longest part to try: half of the last one for which memory did not suffice.
    """

    def __init__(self, most: int):
        self.most = most

    def __call__(self, do: Callable[[int, int], None], count: int, size: tuple[int, int]) -> None:
        """Call ``do(start, stop)`` for all of a stack.

        Raises
        ------
        MemoryError
            When memory does not suffice for one image, of that size.
        """
        start = 0
        while start < count:
            stop = min(count, start + self.most)
            try:
                do(start, stop)
            except Exception as error:
                if not is_shortage(error, FEWER):
                    raise
                if stop - start == 1:
                    raise MemoryError(
                        f"there is not enough memory to rebuild one image of {size[0]}x{size[1]}; "
                        "choose a smaller size, another engine, or end what else uses the GPU"
                    ) from error
                self.most = (stop - start) // 2
                continue
            start = stop


class Halving:
    """A `Rebuild` that goes on with half of a stack when memory does not suffice for all of it.

    Parameters
    ----------
    rebuild : Rebuild
    """

    def __init__(self, rebuild: Rebuild):
        self.rebuild, self.halved = rebuild, Halved(sys.maxsize)

    def __call__(
        self, u: np.ndarray, s: np.ndarray, vt: np.ndarray, ranks: Sequence[int]
    ) -> list[np.ndarray]:
        """Rebuild a stack, in parts if need be; MemoryError as `Halved`."""
        parts: list[list[np.ndarray]] = []

        def do(start: int, stop: int) -> None:
            parts.append(self.rebuild(u[start:stop], s[start:stop], vt[start:stop], ranks))

        self.halved(do, len(u), (u.shape[1], vt.shape[2]))
        return parts[0] if len(parts) == 1 else [np.concatenate(its) for its in zip(*parts)]


def rebuilder(engine: str) -> Halving:
    """What rebuilds stacks in the host's memory, by "gpu", "simulator" or "numpy"."""
    return Halving(by_gpu if engine == "gpu" else on_cpu(engine))


# --- stacks on a GPU ------------------------------------------------------------------------------


@dataclass
class Judged:
    """What a GPU found about a stack of n images, for r values of k.

    Attributes
    ----------
    mse, ssim : ndarray, shape (r, n), float64
    pictures : dict of int to list of ndarray
        Of the images that were wanted, by index: the image, and for each k an approximation,
        (rows, columns), float32.
    """

    mse: np.ndarray
    ssim: np.ndarray
    pictures: dict[int, list[np.ndarray]]


class OnGpu:
    """Rebuilds and judges stacks of images of one size on a GPU.

    Parameters
    ----------
    size : (int, int)
    ranks : sequence of int
    batch : int
        The longest stack. GPU memory is allocated once, for that stack or for one that fits.
    svd : {"cpu", "gpu"}
        Who factorises.
    """

    def __init__(self, size: tuple[int, int], ranks: Sequence[int], batch: int, svd: str):
        self.size, self.ranks, self.svd = size, list(ranks), svd
        self.halved = Halved(batch)
        self._memory: _Memory | None = None

    def compile(self) -> None:
        """Compile what a stack takes, in several processes, unless a process has done so before."""
        from course.dispatch.ahead import compile_ahead

        try:
            self._memory = _Memory(self.size, self.ranks, self.halved.most, self.svd)
            compile_ahead(partial(self._memory.launches, self.ranks))
        except Exception as error:
            if not is_shortage(error, FEWER):
                raise
            self._memory = None  # the first stack allocates less, and compiles

    def __call__(
        self,
        images: np.ndarray,
        factors: Sequence[np.ndarray],
        lines: np.ndarray,
        wanted: Collection[int] = (),
        sizes: np.ndarray | None = None,
    ) -> Judged:
        """Rebuild a stack, in parts if need be.

        Parameters
        ----------
        images : ndarray, shape (n, rows, columns), float32
        factors : sequence of ndarray
            u (n, rows, r), s (n, r), vt (n, r, columns), or nothing, where the GPU factorises.
        lines : ndarray, shape (r, n or more, rows, 1 + columns), uint8
            Receives the scan lines.
        wanted : collection of int
            Indices of images that are given back with their reconstructions.
        sizes : ndarray, shape (n, 2), int32, optional
            As those of `SharedBuffers`: where it is not 0, an image is uint8 of that size, and the
            GPU resizes it.

        Raises
        ------
        MemoryError
            When memory does not suffice for one image.
        ImageError
            When a reconstruction holds NaN or infinite values.
        """
        mse, ssim = np.empty((2, len(self.ranks), len(images)))
        found = Judged(mse, ssim, {})

        def do(start: int, stop: int) -> None:
            try:
                if self._memory is None:
                    self._memory = _Memory(self.size, self.ranks, self.halved.most, self.svd)
                its = None if sizes is None else sizes[start:stop]
                self._memory.send(its, *(part[start:stop] for part in (images, *factors)))
                for one in filter(wanted.__contains__, range(start, stop)):
                    found.pictures[one] = [self._memory.picture(one - start)]
                for rank, k in enumerate(self.ranks):
                    its = self._memory.rebuilt(k, lines[rank, start:stop])
                    mse[rank, start:stop], ssim[rank, start:stop] = its
                    for one in filter(wanted.__contains__, range(start, stop)):
                        found.pictures[one].append(self._memory.approximation(one - start))
            except Exception as error:
                if is_shortage(error, FEWER):
                    self._memory = None  # the next part allocates less
                raise

        self.halved(do, len(images), self.size)
        if not np.isfinite(found.mse).all():
            raise ImageError("the reconstruction holds NaN or infinite values")
        return found


class _Memory:
    """Arrays on the GPU for a stack, and what is done with them."""

    def __init__(self, size: tuple[int, int], ranks: Sequence[int], batch: int, svd: str):
        from course.backend import cuda

        (rows, columns), self.batch = size, batch
        r = kept_values(max(ranks), *size)
        shapes = (rows, columns), (rows, r), (r,), (r, columns), (rows, columns)
        *self.arrays, self.out = (
            cuda.device_array((batch, *shape), np.float32) for shape in shapes
        )
        self.pixels, self.solver = None, None
        if svd == "gpu":
            from course.kernels.svd import Solver

            self.solver = Solver(batch, rows, columns)

    def launches(self, ranks: Sequence[int]) -> Iterator[Any]:
        """List the launches for a stack, to compile them; those of the SVD are made instead."""
        from course.backend import cuda
        from course.kernels.reconstruct import ladder
        from course_app.kernels import image_quality, resize

        images, u, s, vt, out = *self.arrays, self.out  # a step may depend on how many they are
        (_, rows, columns), empty = out.shape, cuda.device_array
        lines, sums = empty((1, rows, 1 + columns), np.uint8), empty((1, 1, 2), np.float32)
        yield from image_quality.launches(images, out, lines, sums)
        for k in ranks:
            method, together = _method(rows, columns, k)
            arrays = (its if together else its[0] for its in (u, s, vt, out))
            yield from ladder.LADDER.launches(*arrays, k=k, method=method)
        if self.solver is not None:
            pixels, sizes = empty((1, 4 * rows * columns), np.uint8), empty((1, 2), np.int32)
            yield from resize.launches(pixels, sizes, images, rows, columns)
            a, *factors = self.arrays
            self.solver.find_scale(a)
            self.solver.take(a, self.solver.scale)
            self.solver.queue(0)
            self.solver.hand_over(*factors)

    def send(self, sizes: np.ndarray | None, images: np.ndarray, *factors: np.ndarray) -> None:
        """Copy images to the GPU, and their factors; where there are none, compute them."""
        count = len(images)
        for there, here in zip(self.arrays[1:], factors, strict=False):
            there[:count].copy_to_device(np.ascontiguousarray(here))
        self._copy_in(images, sizes)
        if self.solver is None:
            return
        from course.kernels.svd import NotConverged

        if count < self.batch:  # zeros, since the SVD of leftovers might never converge
            nothing = np.zeros((self.batch - count, *images.shape[1:]), np.float32)
            self.arrays[0][count:].copy_to_device(nothing)
        try:
            self.solver(*self.arrays)
        except NotConverged:  # no image has been seen for which this happens
            r = self.arrays[2].shape[1]
            these = self.arrays[0][:count].copy_to_host()
            parts = zip(*(leading_svd(image, r) for image in these), strict=True)
            for there, its in zip(self.arrays[1:], parts, strict=True):
                there[:count].copy_to_device(np.stack(its))

    def _copy_in(self, images: np.ndarray, sizes: np.ndarray | None) -> None:
        """Copy images to the GPU, and resize them there."""
        count, rows, columns = images.shape
        there = self.arrays[0][:count]
        if sizes is None or not sizes.any():
            there.copy_to_device(np.ascontiguousarray(images))
            return
        from course.backend import cuda
        from course_app.kernels.resize import resized

        if self.pixels is None:
            self.pixels = cuda.device_array((self.batch, 4 * rows * columns), np.uint8)
        self.pixels[:count].copy_to_device(images.reshape(count, -1).view(np.uint8))
        resized(self.pixels[:count], cuda.to_device(sizes), rows, columns, out=there)
        for index in np.flatnonzero(~sizes.any(axis=1)):
            there[int(index)].copy_to_device(images[index])

    def picture(self, index: int) -> np.ndarray:
        """One of the images."""
        return self.arrays[0][index].copy_to_host()

    def rebuilt(self, k: int, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rebuild as many images as `lines` holds: mean squared errors and SSIM."""
        from course_app.kernels.image_quality import measures, quality_of

        images, u, s, vt = (there[: len(lines)] for there in self.arrays)
        out = self.out[: len(lines)]
        rebuild_there(u, s, vt, k, out)
        lines_there, sums = quality_of(images, out)
        lines_there.copy_to_host(lines)
        return measures(sums.copy_to_host(), *images.shape[1:])

    def approximation(self, index: int) -> np.ndarray:
        """One of the images that were rebuilt last."""
        return self.out[index].copy_to_host()


# --- factors --------------------------------------------------------------------------------------

SVDS = ("cpu", "gpu", "auto")
LONGEST = 1024  # `course.kernels.svd.qr.LONGEST`, which is not imported before a GPU is used


def choose_svd(svd: str, engine: str, rows: int, columns: int) -> str:
    """Return who factorises images of a size, "cpu" or "gpu"; "auto" takes a GPU that rebuilds.

    Raises
    ------
    ImageError
        When there is no such choice, no usable GPU for "gpu", or the images are too large for it.
    """
    if svd not in SVDS:
        raise ImageError(f"svd is {svd!r}; allowed are {', '.join(SVDS)}")
    if svd == "cpu" or (svd == "auto" and engine != "gpu"):
        return "cpu"
    fits = max(rows, columns) <= LONGEST
    if svd == "auto":
        return "gpu" if fits else "cpu"
    if engine != "gpu":
        driver = read_driver()
        if driver.devices:
            raise ImageError(f"--svd gpu and --engine {engine} contradict each other")
        why = driver.error or "the driver sees no CUDA device"
        raise ImageError(f"no usable GPU for the SVDs ({why}); use --svd cpu")
    if not fits:
        raise ImageError(
            f"size is {rows}x{columns}: the GPU's SVD takes sides up to {LONGEST}; choose a "
            "smaller size, or --svd cpu"
        )
    return svd


def kept_values(most: int, rows: int, columns: int) -> int:
    """`most` singular values, rounded up to a multiple of 4, at most all that an image has.

    So rows of u can be loaded 16 bytes at a time.
    """
    return min(-(-most // 4) * 4, rows, columns)
