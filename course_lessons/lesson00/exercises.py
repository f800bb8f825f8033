"""Exercises of lesson 00: the first kernels."""

import numpy as np

from course.checks.exercises import Case, Tolerance
from course_lessons.cases import block_of_two, drawn, empty, extent, factors, normal, uniform, unit
from course_lessons.edits import LessonKernel, edits
from warpsim.core.words import count

# --- one kernel, one photograph ------------------------------------------------------------------


def _photo(rows, columns, block=(16, 16)):
    """A photograph of that size, and an array for what becomes of it."""
    arguments = drawn(photo=unit(rows, columns), out=empty(rows, columns))
    return Case(f"{rows} x {columns}", arguments, block=block)


def _some_photo(rng):
    return _photo(extent(rng, 1, 90), extent(rng, 1, 90), block=block_of_two(rng))


def _light(rows, columns):
    down, right = ((2 * np.arange(n) + 1) / n - 1 for n in (rows, columns))
    return np.maximum(0.1, 1 - down[:, None] ** 2 - right**2)


_OF_TWO = {
    "unwritten-output": "Each thread stores its own pixel: out[row, column] = ..., with the row "
    "first, inside the guard.",
    "typing": "A kernel works on single numbers: photo[row, column] is one pixel.",
}

LessonKernel.declare(
    name="spotlight",
    lesson=0,
    title="Shine a light on your photograph",
    outputs=("out",),
    reference=lambda photo: photo * _light(*photo.shape),
    cases=[_photo(13, 37), _photo(37, 5, block=(4, 8)), _photo(5, 37, block=(8, 4))],
    drawer=_some_photo,
    tolerance=Tolerance(16, "an index in float32, two squares, two differences and a product"),
    hints=_OF_TWO
    | {
        "typing": "photo[row, column] and light(row, column, out) are single numbers: write both "
        "with all that is in brackets.",
        "wrong-result": "The pixel is photo[row, column], the light on it light(row, column, out): "
        "store their product, photo[row, column] * light(row, column, out).",
        "uninitialised-read": "Use `=`, not `*=`: nobody has stored a pixel in out before you.",
        "input-modified": "photo is given; store in out[row, column].",
    },
    mistakes=edits("""
        the light is left out
            * light(row, column, out) ->
        the photograph is left out: that is the light alone
            photo[row, column] * ->
        row and column have changed places in light(row, column, out)
            light(row, column, out) -> light(column, row, out)
        light and pixel are added, not multiplied
            * light -> + light
    """),
)

LessonKernel.declare(
    name="mirror",
    lesson=0,
    title="Guard the rows, too",
    outputs=("out",),
    reference=lambda photo: photo[:, ::-1],
    cases=[_photo(37, 5), _photo(5, 37), _photo(1, 1)],
    drawer=_some_photo,
    hints=_OF_TWO
    | {
        "out-of-bounds": "A thread is inside if its row exists, too: "
        "inside = inside and row < out.shape[0].",
        "unwritten-output": "Your guard stops too many threads: the last row has the index "
        "out.shape[0] - 1, and row < out.shape[0] lets it pass.",
    },
)

# --- rebuild: a photograph from its layers --------------------------------------------------------


def _layers(rows, columns, values, k, block=(16, 16)):
    arguments = drawn(**factors(rows, columns, values), k=k, out=empty(rows, columns))
    return Case(f"{rows} x {columns}, k = {k}", arguments, block=block)


def _some_layers(rng):
    rows, columns, values = extent(rng, 1, 70), extent(rng, 1, 70), extent(rng, 1, 40)
    return _layers(rows, columns, values, extent(rng, 1, values), block=block_of_two(rng))


LessonKernel.declare(
    name="rebuild",
    lesson=0,
    title="Your photograph from its layers",
    outputs=("out",),
    reference=lambda u, s, vt, k: (u[:, :k] * s[:k]) @ vt[:k],
    cases=[_layers(16, 16, 16, 5), _layers(13, 37, 9, 5), _layers(37, 13, 13, 13)],
    drawer=_some_layers,
    tolerance=Tolerance(
        48,
        "two products and a sum for each of up to 40 layers",
        magnitude=lambda u, s, vt, k: (np.abs(u[:, :k]) * s[:k]) @ np.abs(vt[:k]),
    ),
    hints=_OF_TWO
    | {
        "out-of-bounds": "The guard is inside = column < out.shape[1] and row < out.shape[0]. The "
        "indices are u[row, i], s[i], vt[i, column].",
        "unwritten-output": "A thread stores its pixel where inside is true: "
        "inside = column < out.shape[1] and row < out.shape[0].",
        "wrong-result": "Each layer adds u[row, i] * s[i] * vt[i, column] to the total: three "
        "numbers, two products, and +=.",
        "typing": "u[row, i], s[i] and vt[i, column] are single numbers; u, s and vt are arrays.",
    },
    mistakes=edits("""
        s is left out
            s[i] * ->
        s is multiplied in twice
            s[i] -> s[i] * s[i]
        vt is left out
            * vt[i, column] ->
        u is left out
            u[row, i] * ->
        each layer replaces the total (=) instead of adding to it (+=)
            += u -> = u
        vt is read as if it were V, vt[column, i] instead of vt[i, column]
            vt[i, column] -> vt[column, i]
        u is read as if it were transposed, u[i, row] instead of u[row, i]
            u[row, i] -> u[i, row]
        the layers are subtracted (-=), not added
            += u -> -= u
        u, s and vt are added, not multiplied
            u[row, i] * s[i] * vt[i, column] -> u[row, i] + s[i] + vt[i, column]
    """),
)

# --- fill-index: exactly as many threads as elements, so no guard is needed -----------------------


def _numbers(n, block):
    arguments = drawn(out=empty(n, dtype=np.int32))
    return Case(count(n, "element"), arguments, block=block, grid=n // block)


def _some_numbers(rng):
    block = extent(rng, 1, 300)
    return _numbers(block * extent(rng, 1, 9), block)


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
        "out-of-bounds": "The first element is out[0], the last out[out.size - 1].",
        "uninitialised-read": "Use `=`, not `+=`: nobody has put a value into out before you.",
    },
)

# --- scale-add: a whole kernel ------------------------------------------------------


def scale_add_case(n, block, grid=None, low=2):
    """A number, two arrays and one for the result; lesson 01 takes them, too."""
    arguments = drawn(out=empty(n), a=uniform(low, 3), x=normal(n), y=normal(n))
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
    drawer=lambda rng: scale_add_case(extent(rng, 1, 3000), extent(rng, 1, 300), low=-3),
    tolerance=SCALE_ADD_ROUNDING,
    hints={
        "wrong-result": "The formula for one element is a * x[i] + y[i]; a is one number.",
        "typing": "a is one number, not an array: it has no index. x and y are arrays.",
    },
    mistakes={
        "y is left out": lambda a, x: a * x,
        "a is left out": lambda x, y: x + y,
        "a scales the sum of x and y": lambda a, x, y: a * (x + y),
        "a scales y instead of x": lambda a, x, y: x + a * y,
    },
)
