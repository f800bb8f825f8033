"""Exercises of lesson 00: the first kernels."""

import numpy as np

from course.checks.exercises import Case, Tolerance
from course_lessons.cases import (
    OF_LAYERS,
    block_of_two,
    drawn,
    empty,
    extent,
    factors,
    kept,
    normal,
    rebuilt,
    sides,
    uniform,
    unit,
)
from course_lessons.edits import LessonKernel
from warpsim.core.words import count

# --- one kernel, one photograph ------------------------------------------------------------------


def _photo(rows, columns, block=(16, 16)):
    """A photograph of that size, and an array for what becomes of it."""
    arguments = drawn(photo=unit(rows, columns), out=empty(rows, columns))
    return Case(f"{rows} x {columns}", arguments, block=block)


def _some_photo(rng):
    return _photo(*sides(rng, 90, 90), block=block_of_two(rng))


def _light(rows, columns):
    down, right = ((2 * np.arange(n) + 1) / n - 1 for n in (rows, columns))
    return np.maximum(0.1, 1 - down[:, None] ** 2 - right**2)


LessonKernel.declare(
    name="spotlight",
    lesson=0,
    title="Shine a light on your photograph",
    outputs=("out",),
    reference=lambda photo: photo * _light(*photo.shape),
    cases=[_photo(13, 37), _photo(37, 5, block=(4, 8)), _photo(5, 37, block=(8, 4))],
    drawer=_some_photo,
    tolerance=Tolerance(16, "an index in float32, two squares, two differences and a product"),
    hints={
        "unwritten-output": "Each thread stores its own pixel: out[row, column] = ..., with the "
        "row first, inside the guard.",
        "typing": "photo[row, column] and light(row, column, out) are single numbers: write both "
        "with all that is in brackets.",
        "wrong-result": "The pixel is photo[row, column], the light on it light(row, column, out): "
        "store their product.",
    },
)

LessonKernel.declare(
    name="mirror",
    lesson=0,
    title="Guard the rows, too",
    outputs=("out",),
    reference=lambda photo: photo[:, ::-1],
    cases=[_photo(37, 5), _photo(5, 37), _photo(1, 1)],
    drawer=_some_photo,
    hints={
        "out-of-bounds": "A thread is inside if its column exists and its row exists, too; and "
        "the last column, which thread 0 reads, is out.shape[1] - 1.",
        "unwritten-output": "Each pixel of out needs its thread: a guard of row < out.shape[0] and "
        "column < out.shape[1] lets all of them pass.",
    },
)

# --- rebuild: a photograph from its layers --------------------------------------------------------


def _layers(rows, columns, values, k, block=(16, 16)):
    arguments = drawn(**factors(rows, columns, values, True), k=k, out=empty(rows, columns))
    return Case(f"{rows} x {columns}, k = {k}", arguments, block=block)


def _some_layers(rng):
    return _layers(*sides(rng, 70, 70), *kept(rng), block=block_of_two(rng))


LessonKernel.declare(
    name="rebuild",
    lesson=0,
    title="Your photograph from its layers",
    outputs=("out",),
    reference=rebuilt,
    cases=[_layers(16, 16, 16, 5), _layers(13, 37, 9, 5), _layers(37, 13, 13, 13)],
    drawer=_some_layers,
    tolerance=OF_LAYERS,
    hints={
        "out-of-bounds": "A thread is inside if its column exists and its row exists, too. The "
        "indices are u[row, i], s[i], vt[i, column].",
        "unwritten-output": "A thread stores its pixel where inside is true: let it be true for "
        "each thread that has a pixel.",
        "wrong-result": "Each layer adds to the total, with +=: a product of three numbers.",
        "typing": "u[row, i], s[i] and vt[i, column] are single numbers; u, s and vt are arrays.",
    },
)

# --- fill-index: exactly as many threads as elements, so no guard is needed -----------------------


def _numbers(n, block):
    arguments = drawn(out=empty(n, dtype=np.int32))
    return Case(count(n, "element"), arguments, block=block, grid=n // block)


def _some_numbers(rng):
    block = extent(rng, 1, 300)
    return _numbers(block * extent(rng, 1, 900), block)


LessonKernel.declare(
    name="fill-index",
    lesson=0,
    title="Write each thread's number",
    outputs=("out",),
    reference=lambda out: np.arange(out.size),
    cases=[_numbers(n, block=block) for n, block in ((8, 8), (12, 4), (2400, 100))],
    drawer=_some_numbers,
    hints={
        "unwritten-output": "cuda.threadIdx.x starts again at 0 in every block. "
        "cuda.grid(1) counts over all blocks. And it is out[i] = ..., with an index.",
        "wrong-result": "Each thread stores its number in the grid where that says: out[i] = i.",
    },
)

# --- scale-add: a whole kernel ------------------------------------------------------


def scale_add_case(n, block, grid=None, low=2):
    """A number, two arrays and one for the result; lesson 01 takes them, too."""
    x = y = normal(n, sized=True)
    arguments = drawn(out=empty(n), a=uniform(low, 3), x=x, y=y)
    return Case(count(n, "element"), arguments, block=block, grid=grid)


SCALE_ADD_ROUNDING = Tolerance(
    2,
    "one float32 product and one sum, each of which rounds once",
    magnitude=lambda a, x, y: np.abs(a * x) + np.abs(y),
)
LessonKernel.declare(
    name="scale-add",
    lesson=0,
    title="Scale one array and add another",
    outputs=("out",),
    reference=lambda a, x, y: a * x + y,
    cases=[scale_add_case(n, block=block) for n, block in ((256, 64), (3, 32), (1031, 128))],
    drawer=lambda rng: scale_add_case(extent(rng, 1, 140_000), extent(rng, 5, 300), low=-3),
    tolerance=SCALE_ADD_ROUNDING,
    hints={
        "wrong-result": "The formula for one element is a * x[i] + y[i]; a is one number.",
    },
)
