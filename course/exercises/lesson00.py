"""Exercises of lesson 00: the first kernels."""

import numpy as np

from course.checks import Case, KernelExercise, Tolerance, register
from course.verdicts import count

# --- fill-index: exactly as many threads as elements, so no guard is needed yet -------------------


def _numbers(n, block):
    return Case(
        count(n, "element"),
        lambda rng: {"out": np.empty(n, np.int32)},
        block=block,
        grid=n // block,
    )


register(
    KernelExercise(
        name="fill-index",
        lesson=0,
        title="Write each thread's number",
        outputs=("out",),
        reference=lambda out: np.arange(out.size),
        cases=[
            _numbers(8, block=8),
            _numbers(12, block=4),
            _numbers(37, block=37),
            _numbers(35, block=7),
            _numbers(1, block=1),
        ],
        hints={
            "unwritten-output": "cuda.threadIdx.x starts again at 0 in every block. "
            "cuda.grid(1) counts over all blocks. And it is out[i] = ..., with an index.",
            "out-of-bounds": "The first element is out[0], the last out[out.size - 1].",
            "uninitialised-read": "Use `=`, not `+=`: nobody has put a value into out before you.",
        },
    )
)

# --- fix-the-guard: more threads than elements ----------------------------------------------------


def _add_one(n, block):
    return Case(
        count(n, "element"),
        lambda rng: {
            "out": np.empty(n, np.int32),
            "x": rng.integers(-1000, 1000, n).astype(np.int32),
        },
        block=block,
    )


register(
    KernelExercise(
        name="fix-the-guard",
        lesson=0,
        title="Add 1, and stay inside the array",
        outputs=("out",),
        reference=lambda x: x + 1,
        cases=[
            _add_one(10, block=4),
            _add_one(12, block=4),
            _add_one(1, block=32),
            _add_one(97, block=32),
            _add_one(1003, block=128),
        ],
        hints={
            "out-of-bounds": "The last block has more threads than elements are left. "
            "Let only threads with i < out.size read and write.",
            "unwritten-output": "Your guard stops too many threads. "
            "The last element has the number out.size - 1, and i < out.size lets it pass.",
        },
    )
)

# --- scale-add: the first kernel of your own ------------------------------------------------------


def _scale_add(n, block):
    return Case(
        count(n, "element"),
        lambda rng: {
            "out": np.empty(n, np.float32),
            "a": np.float32(rng.uniform(2, 3)),
            "x": rng.standard_normal(n, dtype=np.float32),
            "y": rng.standard_normal(n, dtype=np.float32),
        },
        block=block,
    )


register(
    KernelExercise(
        name="scale-add",
        lesson=0,
        title="Scale one array and add another",
        outputs=("out",),
        reference=lambda a, x, y: a * x + y,
        cases=[
            _scale_add(8, block=8),
            _scale_add(256, block=64),
            _scale_add(3, block=32),
            _scale_add(211, block=32),
            _scale_add(1003, block=128),
        ],
        tolerance=Tolerance(2, "one float32 product and one sum, each of which rounds once"),
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
)
