"""What a worker of `course_app.cluster` does with a batch: functions for `Group.map`.

Each takes a batch and a few plain values, and depends on nothing else. So any worker can compute a
batch, and another one can compute it again, with the same bits, when a worker is lost. Write your
own like `rebuild`; nothing here knows of Dask.

A batch is a stack of factors (u, s, vt) that travels to the worker, or a `Recipe`, a few numbers
from which the worker makes the factors itself, where it needs them.
"""

from __future__ import annotations

import functools
import os
import pickle
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from course_app.pipeline.engines import Halving, choose_engine, rebuilder

SEED = 2025
WORKSPACE = 1 << 30  # bytes of a GPU's memory for images that are rebuilt together

#: Factors of a batch: u (images, rows, r), s (images, r), vt (images, r, columns), float32.
Factors = tuple[np.ndarray, np.ndarray, np.ndarray]


class Done(NamedTuple):
    """A batch that is done: what came out, on which worker, when [s, of `time.perf_counter`]."""

    number: int
    result: Any
    worker: str
    start: float
    end: float


class Packed(NamedTuple):
    """What travels to a worker, as bytes that `pickle` reads.

    A worker unpickles it while it computes the batch, so that an error is the batch's own. Dask
    would unpickle it as messages arrive, where an error, such as a missing module, ends the worker.
    """

    content: bytes

    def opened(self) -> Any:
        """What was packed."""
        return pickle.loads(self.content)


def timed(task: Packed, number: int, batch: Any) -> Done:
    """Do a batch on this worker; the task is a function and what it takes beside the batch."""
    start = time.perf_counter()
    work, arguments = task.opened()
    result = work(batch.opened() if isinstance(batch, Packed) else batch, *arguments)
    return Done(number, result, worker_name(), start, time.perf_counter())


def called(task: Packed) -> Any:
    """Call a function on this worker."""
    function, arguments = task.opened()
    return function(*arguments)


def worker_name() -> str:
    """This worker's name: the number that it was started with, else that of its process."""
    return os.environ.get("COURSE_WORKER") or f"process {os.getpid()}"


def nothing(batch: Any) -> None:
    """Do nothing with a batch: its time is then the overhead of a batch."""


# ---------------------------------------------------------------------- factors that travel
def rebuild(batch: Factors, k: int, engine: str = "auto") -> np.ndarray:
    """Rebuild a batch of images from their k largest singular values.

    Parameters
    ----------
    batch : (u, s, vt)
        Of shapes (images, rows, r), (images, r), (images, r, columns), float32.
    k : int
        From 1 to r.
    engine : str
        As for `course_app.pipeline.engines.choose_engine`.

    Returns
    -------
    ndarray, shape (images, rows, columns), float32
    """
    if len({len(part) for part in batch}) != 1 or len(batch) != 3:
        shapes = ", ".join(str(part.shape) for part in batch)
        raise ValueError(f"a batch is (u, s, vt) of as many images each; its shapes are {shapes}")
    r = batch[1].shape[-1]
    if not 1 <= k <= r:
        raise ValueError(f"k is {k}; with {r} singular values it must be from 1 to {r}")
    (images,) = _rebuilder(engine)(*batch, [k])
    return images


@functools.cache
def _rebuilder(engine: str) -> Halving:
    return rebuilder(choose_engine(engine)[0])


# ---------------------------------------------------------------------- factors from a recipe
@dataclass(frozen=True)
class Recipe:
    """A batch of factors to be made from a seed.

    Attributes
    ----------
    first : int
        The index of its first image among all; an image's elements depend on that index, not on
        how many are in its batch.
    images, rows, columns, k : int
    seed : int
    """

    first: int
    images: int
    rows: int
    columns: int
    k: int
    seed: int = SEED

    def __post_init__(self) -> None:
        for name in ("images", "rows", "columns", "k"):
            if getattr(self, name) < 1:
                raise ValueError(f"Recipe: {name} is {getattr(self, name)}; give 1 or more")
        if self.first < 0 or self.k > min(self.rows, self.columns):
            raise ValueError(
                f"Recipe: first is {self.first}, k is {self.k} for {self.rows}x{self.columns} "
                "pixels; first must be 0 or more, k at most the smaller side"
            )

    @property
    def r(self) -> int:
        """How many columns u has: k or up to 3 more, so that rows load 16 bytes at a time."""
        return min(-(-self.k // 4) * 4, self.rows, self.columns)

    @property
    def bytes(self) -> int:
        """Of the factors."""
        return 4 * self.images * self.r * (self.rows + 1 + self.columns)


def recipes(
    images: int, batch: int, rows: int, columns: int, k: int, seed: int = SEED
) -> list[Recipe]:
    """So many images in batches of a length, the last one shorter: the same on every machine."""
    if images < 1 or batch < 1:
        raise ValueError(f"images is {images}, batch {batch}; both must be at least 1")
    return [
        Recipe(first, min(batch, images - first), rows, columns, k, seed)
        for first in range(0, images, batch)
    ]


class Resident:
    """The factors of a recipe, in the memory of the device on which they are used.

    Only the recipe is pickled: another worker makes the factors again.

    Attributes
    ----------
    recipe : Recipe
    u, s, vt : array
        Device arrays on a GPU and in the simulator; NumPy's for the engine numpy.
    engine : str
        "gpu", "simulator" or "numpy".
    """

    def __init__(self, recipe: Recipe, engine: str = "auto"):
        from course.backend import gpu
        from course_app.kernels import synthetic_images

        self.recipe, self.engine = recipe, choose_engine(engine)[0]
        if self.engine == "simulator" and gpu() is not None:
            raise ValueError(
                "engine is 'simulator': where there is a GPU, recipes are made on it, or by NumPy; "
                "choose the engine auto, gpu or numpy"
            )
        r = recipe.r
        make = (
            synthetic_images.filled_by_numpy if self.engine == "numpy" else synthetic_images.filled
        )
        shapes = (recipe.images, recipe.rows, r), (recipe.images, r, recipe.columns)
        # u and vt have a seed each; an image's elements begin at an index of its own
        self.u, self.vt = (
            make(shape, 2 * recipe.seed + which, recipe.first * shape[1] * shape[2])
            for which, shape in enumerate(shapes)
        )
        falling = np.float32(1) / np.arange(1, r + 1, dtype=np.float32)
        self.s = np.ascontiguousarray(np.broadcast_to(falling, (recipe.images, r)))
        if self.engine != "numpy":
            from course.backend import cuda

            self.s = cuda.to_device(self.s)

    def __reduce__(self) -> tuple[Any, ...]:
        return make, (self.recipe, self.engine)

    def __sizeof__(self) -> int:
        return self.recipe.bytes


def make(recipe: Recipe, engine: str = "auto") -> Resident:
    """Make the factors of a recipe where this runs."""
    found = Resident(recipe, engine)
    if found.engine == "gpu":
        from course.backend import cuda

        cuda.synchronize()
    return found


def rebuilt(batch: Recipe | Resident, engine: str = "auto") -> np.ndarray:
    """Rebuild the images of a recipe, and hand them over.

    Returns
    -------
    ndarray, shape (images, rows, columns), float32
    """
    found = [
        stack.copy() if isinstance(stack, np.ndarray) else stack.copy_to_host()
        for stack in _stacks(_resident(batch, engine))
    ]
    return found[0] if len(found) == 1 else np.concatenate(found)


def rebuilt_digests(batch: Recipe | Resident, engine: str = "auto") -> np.ndarray:
    """Rebuild the images of a recipe, which stay on the device; return a digest of each.

    Returns
    -------
    ndarray, shape (images,), uint64
        Of each image 8 bytes that depend on every bit of it:
        `course_app.kernels.synthetic_images.digest`.
    """
    from course_app.kernels import synthetic_images

    batch = _resident(batch, engine)
    if batch.engine == "numpy":
        return np.concatenate(
            [synthetic_images.digests_by_numpy(stack) for stack in _stacks(batch)]
        )
    from course.backend import cuda

    totals, start = cuda.to_device(np.zeros(batch.recipe.images, np.uint64)), 0
    for stack in _stacks(batch):
        synthetic_images.digests(stack, totals[start : start + stack.shape[0]])
        start += stack.shape[0]
    return totals.copy_to_host()


def _resident(batch: Recipe | Resident, engine: str) -> Resident:
    return batch if isinstance(batch, Resident) else make(batch, engine)


def _stacks(batch: Resident) -> Iterator[Any]:
    """Rebuild the images of a batch, as many at once as `WORKSPACE` holds; use each stack at once.

    On a GPU all stacks use the same memory: the next one's work is queued behind this one's.
    """
    its = batch.recipe
    if batch.engine == "numpy":
        for index in range(its.images):
            one = slice(index, index + 1)
            yield rebuild((batch.u[one], batch.s[one], batch.vt[one]), its.k, "numpy")
        return
    from course.backend import gpu
    from course.kernels.reconstruct.ladder import reconstruct

    together = max(1, min(its.images, WORKSPACE // (4 * its.rows * its.columns)))
    # the simulator is quickest with the naive kernel, image by image
    many = gpu() is not None
    workspace = _workspace(together if many else 1, its.rows, its.columns)
    for start in range(0, its.images, workspace.shape[0]):
        stop = min(start + workspace.shape[0], its.images)
        out = workspace[: stop - start]
        parts = batch.u[start:stop], batch.s[start:stop], batch.vt[start:stop]
        if many:
            reconstruct(*parts, its.k, out=out)
        else:
            reconstruct(*(part[0] for part in parts), its.k, out=out[0])
        yield out


_kept = threading.local()  # a worker has one thread for work


def _workspace(images: int, rows: int, columns: int) -> Any:
    """Device memory for a stack of images, kept for the next: an allocation takes milliseconds."""
    from course.backend import cuda

    shape = images, rows, columns
    if getattr(_kept, "workspace", None) is None or _kept.workspace.shape != shape:
        _kept.workspace = None
        _kept.workspace = cuda.device_array(shape, np.float32)
    return _kept.workspace


# ---------------------------------------------------------------------- what a worker sees
@dataclass(frozen=True)
class Seen:
    """What a worker finds: its name, its process, its GPU.

    Attributes
    ----------
    worker : str
    process : int
    gpu, identity : str or None
        The GPU's name and UUID; None where there is no usable one.
    devices : int
        GPUs that the process can see.
    memory : int
        Free bytes of the GPU's memory; 0 without one.
    why : str
        Why kernels run on a GPU there, or are simulated.
    """

    worker: str
    process: int
    gpu: str | None
    identity: str | None
    devices: int
    memory: int
    why: str


def see() -> Seen:
    """What this worker finds; numba.cuda is first touched here."""
    from course import backend
    from course.driver import read_driver

    name, identity, memory = backend.gpu(), None, 0
    if name is not None:
        device = backend.cuda.get_current_device()
        uuid = device.uuid
        identity = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
        memory = int(backend.cuda.current_context().get_memory_info().free)
    return Seen(
        worker_name(), os.getpid(), name, identity,
        len(read_driver().devices), memory, backend.why(),
    )  # fmt: skip
