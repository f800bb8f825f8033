"""Exercises of lesson 00: the first kernels."""

import numpy as np

from course.checks.exercises import Case, Tolerance
from course_lessons.cases import drawn, empty, extent, integers, normal, uniform
from course_lessons.edits import LessonKernel
from warpsim.core.words import count

# --- fill-index: exactly as many threads as elements, so no guard is needed yet -------------------


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

# --- fix-the-guard: more threads than elements ----------------------------------------------------


def _add_one(n, block, spare=0, most=1000):
    arguments = drawn(out=empty(n, dtype=np.int32), x=integers(-most, most, n))
    return Case(count(n, "element"), arguments, block=block, grid=-(-n // block) + spare)


LessonKernel.declare(
    name="fix-the-guard",
    lesson=0,
    title="Add 1, and stay inside the array",
    outputs=("out",),
    reference=lambda x: x + 1,
    cases=[_add_one(n, block=block) for n, block in ((10, 4), (1, 32), (1031, 128))],
    drawer=lambda rng: _add_one(
        extent(rng, 1, 3000), extent(rng, 1, 300), spare=int(rng.integers(3)), most=2**31 - 1
    ),
    hints={
        "out-of-bounds": "The last block has more threads than elements are left. "
        "Let only threads with i < out.size read and write.",
        "unwritten-output": "Your guard stops too many threads. "
        "The last element has the number out.size - 1, and i < out.size lets it pass.",
    },
)

# --- scale-add: the first kernel of your own ------------------------------------------------------


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
