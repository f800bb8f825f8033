"""Rebuild images from their factors, each phase with a name: a program to point a profiler at.

``python -m course_lessons.lesson07.phases`` says what it does. With Nsight Systems, for the
timeline:

    nsys profile --trace=cuda,nvtx --output=phases python -m course_lessons.lesson07.phases

With Nsight Compute, for the counters of the kernels in one phase of one image:

    ncu --clock-control none --nvtx --nvtx-include "image 1/launch kernel/" python -m
    course_lessons.lesson07.phases

The names are NVTX ranges. NVTX is NVIDIA's library for such marks; CuPy and PyTorch bring it along,
and so does the package nvtx. Without any of them the program runs the same, and its phases have no
marks. Nothing in it waits for the GPU but the copies: so it was in the first project, and so the
phases on the CPU say when work was *queued*.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np

# ---------------------------------------------------------------------- names
#: A function that gives a context manager for a name: the phase lasts as long as the `with`.
Phase = Callable[[str], AbstractContextManager[None]]

#: Module, function that opens a range, function that closes the last one.
LIBRARIES = (
    ("cupy.cuda.nvtx", "RangePush", "RangePop"),
    ("torch.cuda.nvtx", "range_push", "range_pop"),
    ("nvtx", "push_range", "pop_range"),
)


def nvtx() -> tuple[Phase, str]:
    """Give the function that names phases, and a sentence on what it uses.

    Returns
    -------
    phase : callable
        ``with phase("copy in"): ...``
    note : str
        Which library makes the marks, or why there are none.
    """
    why = []
    for library, push_name, pop_name in LIBRARIES:
        try:
            module = importlib.import_module(library)
            push, pop = getattr(module, push_name), getattr(module, pop_name)
            push("is NVTX there?")
            pop()
        except Exception as problem:  # not installed, or built without NVTX
            why.append(f"{library}: {type(problem).__name__}")
            continue
        return _phases(push, pop), f"NVTX ranges through {library}"
    return unmarked, f"no NVTX here ({', '.join(why)}): the phases have no marks"


def _phases(push: Callable[[str], object], pop: Callable[[], object]) -> Phase:
    @contextmanager
    def phase(name: str) -> Iterator[None]:
        push(name)
        try:
            yield
        finally:
            pop()

    return phase


def printing() -> Phase:
    """Return phases that print their names, indented by those that they lie in."""
    around: list[str] = []

    def push(name: str) -> None:
        print("    " * len(around) + name)
        around.append(name)

    return _phases(push, around.pop)


@contextmanager
def unmarked(name: str) -> Iterator[None]:
    """A phase without a mark."""
    yield


# ---------------------------------------------------------------------- the program
#: As the first project did it; and with what lessons 02 to 06 taught.
WAYS = ("first", "tidy")
START_UP = "start up"
PHASES = ("load factors", "copy in", "launch kernel", "copy out")
SEED = 7
SIZE, K, IMAGES = 2048, 256, 4


def write_factors(folder: Path, images: int, size: int) -> None:
    """Write the factors of some images, all of their columns and rows, as three files each."""
    rng = np.random.default_rng(SEED)
    for image in range(images):
        for name, shape in (("u", (size, size)), ("s", size), ("vt", (size, size))):
            np.save(folder / f"{image}-{name}.npy", rng.random(shape, dtype=np.float32))


def read_factors(folder: Path, image: int) -> list[np.ndarray]:
    """Read u, s, vt of an image, whole."""
    return [np.load(folder / f"{image}-{name}.npy") for name in ("u", "s", "vt")]


def rebuild(way: str, folder: Path, images: int, k: int, phase: Phase) -> list[np.ndarray]:
    """Rebuild images one after the other; every phase is named.

    Numba is imported in the first phase, so that it shows in the first run of a process.

    Parameters
    ----------
    way : {"first", "tidy"}
        "first" copies whole factors from ordinary memory to new arrays, and takes the first
        kernel. "tidy" reads and copies the k columns and rows that are needed, through pinned
        memory that is used again, and takes the kernel that `reconstruct` would.
    folder : Path
        Of `write_factors`.
    images, k : int
    phase : callable
        Gives a context manager for a name.

    Returns
    -------
    list of ndarray, shape (rows, columns), float32

    Raises
    ------
    ValueError
        For another way.
    """
    if way not in WAYS:
        raise ValueError(f"way is {way!r}: choose {' or '.join(map(repr, WAYS))}")
    with phase(START_UP):
        if way == "first":
            rebuild_one = first_way(k, phase)
        else:
            rebuild_one = tidy_way(folder, images, k, phase)
    results = []
    for image in range(images):
        with phase(f"image {image}"):
            results.append(rebuild_one(folder, image))
    return results


def first_way(k: int, phase: Phase) -> Callable[[Path, int], np.ndarray]:
    """As the first project did it; what it allocates belongs to the copies."""
    from course.backend import cuda
    from course.kernels.reconstruct import LADDER

    step = LADDER["original"]
    cuda.synchronize()  # the GPU's context is made

    def one(folder: Path, image: int) -> np.ndarray:
        with phase("load factors"):
            u, s, vt = read_factors(folder, image)
        with phase("copy in"):
            there = [cuda.to_device(array) for array in (u, s, vt)]
            out = cuda.device_array((u.shape[0], vt.shape[1]), np.float32)
        with phase("launch kernel"):
            step.kernel[step.grid(*out.shape), step.block](*there, k, out)
        with phase("copy out"):
            return out.copy_to_host()

    return one


def tidy_way(folder: Path, images: int, k: int, phase: Phase) -> Callable[[Path, int], np.ndarray]:
    """Arrays are made once, the kernel is compiled before; only what is needed travels."""
    from course.backend import cuda
    from course.kernels.reconstruct import reconstruct

    rows = np.load(folder / "0-u.npy", mmap_mode="r").shape[0]
    columns = np.load(folder / "0-vt.npy", mmap_mode="r").shape[1]
    shapes = (rows, k), (k,), (k, columns)
    pinned = [cuda.pinned_array(shape, np.float32) for shape in shapes]
    there = [cuda.device_array(shape, np.float32) for shape in shapes]
    out = cuda.device_array((rows, columns), np.float32)
    results = cuda.pinned_array((images, rows, columns), np.float32)
    launches = reconstruct.ladder.launches(*there, out, k=k)
    for launch in launches:
        launch.on()  # compiles
    cuda.synchronize()

    def one(folder: Path, image: int) -> np.ndarray:
        with phase("load factors"):
            u, s, vt = (
                np.load(folder / f"{image}-{name}.npy", mmap_mode="r") for name in ("u", "s", "vt")
            )
            for array, part in zip(pinned, (u[:, :k], s[:k], vt[:k]), strict=True):
                array[...] = part
        with phase("copy in"):
            for array, target in zip(pinned, there, strict=True):
                target.copy_to_device(array)
        with phase("launch kernel"):
            for launch in launches:
                launch.on()
        with phase("copy out"):
            out.copy_to_host(results[image])
        return results[image]

    return one


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--way", choices=WAYS, default="first")
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--size", type=int, default=SIZE, help="rows and columns of an image")
    parser.add_argument("--k", type=int, default=K)
    chosen = parser.parse_args()
    if not 1 <= chosen.k <= chosen.size or chosen.images < 1:
        parser.error("k must be from 1 to the size, and there must be an image")
    phase, note = nvtx()
    with tempfile.TemporaryDirectory() as name:
        write_factors(Path(name), chosen.images, chosen.size)
        results = rebuild(chosen.way, Path(name), chosen.images, chosen.k, phase)
    from course.backend import gpu

    where = gpu() or "no GPU: simulated, so a profiler sees nothing"
    print(
        f"{len(results)} images of {chosen.size} x {chosen.size}, k = {chosen.k}, {where}; {note}"
    )


if __name__ == "__main__":
    main()
