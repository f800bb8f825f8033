"""Exercises of lesson 02: quality of an image, and programs that rebuild it from its SVD."""

import numpy as np

from course.checks.exercises import Case, FunctionExercise, Limit, Tolerance
from course_lessons.cases import (
    OF_LAYERS,
    block_of_two,
    covering,
    drawn,
    empty,
    extent,
    factors,
    kept,
    of_values,
    rebuilt,
    sides,
    turn,
)  # fmt: skip
from course_lessons.edits import LessonKernel
from course_lessons.lesson02.judges import judge_factors

# --- how good is an image? ----------------------------------------------------------------------


def _two_images(rows, columns, error, dtype=np.float64):
    """A case: a random image, and a copy with an error of about that size."""

    def arguments(rng):
        image = rng.random((rows, columns), dtype)
        noise = error * rng.standard_normal(image.shape, dtype)
        return {"image": image, "approximation": image + noise}

    return Case(f"{rows} x {columns}, error about {error:g}", arguments)


FunctionExercise.declare(
    name="psnr",
    lesson=2,
    title="Peak signal-to-noise ratio",
    reference=lambda image, approximation: -10 * np.log10(np.mean((image - approximation) ** 2)),
    cases=[
        _two_images(8, 8, 0.1),
        _two_images(13, 37, 1e-4),
        _two_images(5, 3, 2),
    ],
    drawer=lambda rng: _two_images(
        *sides(rng, 70, 70),
        error=10 ** rng.uniform(-3, 0),
        dtype=rng.choice([np.float32, np.float64]),
    ),
    tolerance=Tolerance(1000, "a mean of thousands of squares and a logarithm"),
    hints={
        "wrong-result": "First the error of each pixel, then its square, then the mean over "
        "all pixels. That is the MSE; the PSNR is -10 times its log10.",
        "wrong-shape": "The mean over all pixels is one number: np.mean without an axis.",
        "raised": "In Python a square is x ** 2 (^ is something else), the mean is np.mean(x), "
        "the logarithm np.log10(x).",
    },
)

_shape = of_values("rows columns", "{rows} x {columns}")


def _some_shape(rng):
    """Every other image has as many numbers as k layers, or one more."""
    k = extent(rng, 1, 20000)
    exact = k + 1, k * (k + 2) + rng.integers(2)
    return _shape(
        *rng.permutation(exact if rng.random() < 0.5 else rng.integers(1, 20000, 2)).tolist()
    )


FunctionExercise.declare(
    name="break-even",
    lesson=2,
    title="Where compression ends",
    reference=lambda rows, columns: (rows * columns - 1) // (rows + columns + 1),
    cases=[_shape(256, 256), _shape(1, 1), _shape(4, 15), _shape(3, 9)],
    drawer=_some_shape,
    drawn=8,
    hints={
        "wrong-result": "k columns of u, k numbers of s, k rows of vt: how many numbers is "
        "that? It must be less than rows * columns, not equal."
    },
)


def _rank(s, share):
    energy = np.cumsum(s**2)
    return int(np.argmax(energy >= share * energy[-1])) + 1


def _spectrum(values, share):
    text = ", ".join(f"{value:g}" for value in values[:4]) + (", …" if len(values) > 4 else "")
    return Case(
        f"s = [{text}], share {share:g}",
        lambda rng: {"s": np.asarray(values, dtype=np.float32), "share": share},
    )


def _some_spectrum(rng):
    """Whole numbers, or 64ths, whose squares add up exactly; zeros at the end of every other one.

    The share is reached exactly, where float32 holds such a one, or clearly passed.
    """
    values = np.sort(rng.integers(1, 60, extent(rng, 1, 300)))[::-1]
    values = np.append(values, np.zeros(extent(rng, 1, 9) * rng.integers(2), int))
    energy = np.append(0, np.unique(np.cumsum(values**2)))
    between = rng.integers(len(energy) - 1) + rng.choice([0.25, 0.75])
    share = np.interp(between, np.arange(len(energy)), energy) / energy[-1]
    share = 1.0 if turn(rng) == 0 and rng.random() < 0.5 else float(share)
    return _spectrum(values / [1, 64, 64][turn(rng)], share)


FunctionExercise.declare(
    name="energy-rank",
    lesson=2,
    title="Choose k by energy",
    reference=_rank,
    cases=[
        _spectrum([8, 6, 4, 2, 1, 1], 0.9),
        _spectrum([1, 1, 1, 1], 1.0),
        _spectrum([4, 3, 0, 0], 1.0),
        _spectrum([600 / 64, 1 / 64], 360_000.25 / 360_001),  # a hair more than the first has
    ],
    drawer=_some_spectrum,
    drawn=12,
    hints={
        "wrong-result": "np.cumsum(s ** 2) is the energy of the first 1, 2, 3, … values. "
        "How many values are needed until it reaches share times its last element?",
        "wrong-shape": "Return one number, k.",
    },
)

# --- copy what is needed ------------------------------------------------------------------------


def _needed(rows, columns, k, order="C", dtype=np.float64):
    least = min(rows, columns)

    def arguments(rng):
        u = np.asarray(rng.standard_normal((rows, least)), dtype, order)
        s = np.sort(rng.random(least, dtype))[::-1].copy()
        return {"u": u, "s": s, "vt": rng.standard_normal((least, columns), dtype), "k": k}

    kind = "" if order == "C" else ", u column by column in memory"
    return Case(f"{rows} x {columns}, k = {k}{kind}", arguments)


def _some_needed(rng):
    rows, columns = rng.integers(1, 120, 2).tolist()
    k = int(rng.integers(1, min(rows, columns) + 1))
    return _needed(rows, columns, k, rng.choice(["C", "F"]), rng.choice([np.float32, np.float64]))


FunctionExercise.declare(
    name="needed-factors",
    lesson=2,
    title="Copy what is needed",
    judge=judge_factors,
    cases=[
        _needed(8, 8, 3),
        _needed(13, 37, 1),
        _needed(16, 23, 4, order="F"),
    ],
    drawer=_some_needed,
    drawn=16,
    hints={
        "raised": "np.ascontiguousarray takes one array and a type, which is np.float32 (float32 "
        "alone is Numba's). u and vt have two axes, s has one: s[:k].",
    },
)

# --- rebuild it ---------------------------------------------------------------------------------


def _layers(rows, columns, values, k):
    return Case(f"{rows} x {columns}, k = {k}", drawn(**factors(rows, columns, values), k=k))


def _some(case, **others):
    """A drawer of such cases: images and numbers of values of any size, and any k."""
    return lambda rng: case(
        *sides(rng, 70, 70), *kept(rng), **{name: make(rng) for name, make in others.items()}
    )


FunctionExercise.declare(
    name="one-loop",
    lesson=2,
    title="Rebuild an image layer by layer",
    reference=rebuilt,
    cases=[_layers(8, 8, 8, 3), _layers(13, 37, 9, 5), _layers(7, 5, 5, 5)],
    drawer=_some(_layers),
    drawn=12,
    tolerance=OF_LAYERS,
    dtype=np.float32,
    hints={
        "wrong-result": "Layer i is the column u[:, i] times the row vt[i], times the number "
        "s[i]. Add the layers 0 to k - 1.",
        "wrong-dtype": "np.zeros makes float64 unless you name the type: "
        "np.zeros((rows, columns), dtype=np.float32).",
        "wrong-shape": "The image has as many rows as u and as many columns as vt: "
        "np.outer(column, row), in that order.",
        "raised": "u is (rows, r), vt is (r, columns): the i-th column is u[:, i], the i-th "
        "row is vt[i].",
    },
)


def _kernel_case(rows, columns, values, k, block=(16, 16), measured=False):
    """Factors, and a grid that covers the image whichever way x walks."""
    arguments = drawn(**factors(rows, columns, values), k=k, out=empty(rows, columns))
    grid = covering(max(rows, columns), block)
    return Case(f"{rows} x {columns}, k = {k}", arguments, block, grid, measured=measured)


_KERNEL_CASES = [
    _kernel_case(16, 16, 16, 5),
    _kernel_case(13, 37, 13, 7),
    _kernel_case(64, 96, 16, 8, measured=True),
]

_KERNEL_HINTS = {
    "out-of-bounds": "The grid has more threads than the image has pixels. Compare row with "
    "out.shape[0] and col with out.shape[1] before you touch memory, and read u[row, i], "
    "s[i], vt[i, col].",
    "unwritten-output": "Every pixel needs its thread: col and row come from cuda.grid(2), and the "
    "guard compares row with out.shape[0], col with out.shape[1].",
    "uninitialised-read": "out holds nothing yet, so do not add to it. Add up in a variable of "
    "your own that starts at 0, and store it once, after the loop.",
    "not-parallel": "Each pixel has a thread of its own, which computes it alone: take both "
    "indices, row and col, from cuda.grid(2).",
    "wrong-result": "For each pixel: the sum over i from 0 to k - 1 of u[row, i] * s[i] * "
    "vt[i, col].",
    "float64": "Start the sum with float32(0): total = 0.0 is float64, and so is total = 0, "
    "because an integer and a float32 meet in float64.",
}

_NUMBERS = (
    "A kernel works on single numbers: u[row, i] * s[i] * vt[i, col], each with all its indices, "
    "added up in a loop over i."
)
_STORED_ONCE = "Each pixel is stored once: add up in a variable, and store it after the loop."
_NEIGHBOURS = (
    "Threads that are neighbours in x should {} neighbours in memory: let x be the column, col, "
    "row = cuda.grid(2)."
)

for _name, _title, _typing, _forbidden, _limits in (
    ("reconstruct", "Your first image from a kernel", _NUMBERS, set(), []),
    (
        "reconstruct-float32",
        "The sum in float32",
        "Only the zero is missing: call float32 with it. It is a function, as float is in Python.",
        {"float64"},
        [],
    ),
    (
        "reconstruct-columns",
        "x walks along the columns",
        "cuda.grid(2) gives two numbers, x first. Give them the names that the next line reads.",
        {"float64"},
        [
            Limit("global", "store", "lanes", "element", 1, _STORED_ONCE),
            Limit("global", "load", "sectors", "request", 2, _NEIGHBOURS.format("read")),
            Limit("global", "store", "sectors", "request", 4, _NEIGHBOURS.format("write")),
        ],
    ),
):
    LessonKernel.declare(
        name=_name,
        lesson=2,
        title=_title,
        outputs=("out",),
        reference=rebuilt,
        cases=_KERNEL_CASES,
        drawer=_some(_kernel_case, block=block_of_two),
        drawn=9,
        tolerance=OF_LAYERS,
        forbidden=_forbidden,
        limits=_limits,
        hints=_KERNEL_HINTS | {"typing": _typing},
    )
