"""Exercises of lesson 04 on how data lie in memory: the transpose, records."""

import numpy as np

from course.checks import Case, FunctionExercise, KernelExercise, Limit, Tolerance, register
from course.comparing import first, shown
from course.exercises.lesson04 import ONE_THREAD_A_PIXEL
from course.verdicts import Failure, count

# --- transpose-write: one side in order -----------------------------------------------------------


def _to_transpose(rows, columns, block=(16, 16), measured=False):
    """An image, and a grid that covers it whichever of the two arrays x walks along."""
    longest = max(rows, columns)
    return Case(
        f"{rows} x {columns}",
        lambda rng: {
            "out": np.empty((columns, rows), np.float32),
            "image": rng.standard_normal((rows, columns), dtype=np.float32),
        },
        block=block,
        grid=tuple(-(-longest // threads) for threads in block),
        measured=measured,
    )


register(
    KernelExercise(
        name="transpose-write",
        lesson=4,
        title="Transpose, stores in order",
        outputs=("out",),
        reference=lambda image: image.T,
        cases=[
            _to_transpose(16, 16),
            _to_transpose(13, 37),
            _to_transpose(37, 13, block=(8, 4)),
            _to_transpose(1, 5),
            _to_transpose(64, 96, block=(32, 8), measured=True),
        ],
        tolerance=Tolerance(0, "nothing is computed, so nothing rounds"),
        limits=[
            ONE_THREAD_A_PIXEL,
            Limit(
                "global",
                "store",
                "sectors",
                per="request",
                at_most=4,
                why="Let x be the last index of out, so that neighbouring lanes store side by "
                "side. The loads will pay.",
            ),
        ],
        hints={
            "out-of-bounds": "out has the shape (columns, rows) of image. Guard each index with "
            "the axis on which you use it.",
            "unwritten-output": "The threads have to cover out, which has as many rows as the "
            "image has columns. Which shape do you guard with?",
            "wrong-result": "The first index of out is the second index of image.",
            "race": "Each element belongs to one thread: take both indices from cuda.grid(2).",
        },
        mistakes={
            "the image is turned by a quarter instead of transposed": lambda image: np.rot90(
                image, -1
            ),
            "the image is mirrored at its other diagonal": lambda image: image[::-1, ::-1].T,
        },
    )
)

# --- split-records: from an array of structs to a struct of arrays --------------------------------

POINT = np.dtype([("x", np.float32), ("y", np.float32), ("z", np.float32)], align=True)


def _points(n):
    def arguments(rng):
        points = np.zeros(n, POINT)
        for name in POINT.names:
            points[name] = rng.standard_normal(n)
        return {"points": points}

    return Case(count(n, "point"), arguments)


def _judge_split(result, points):
    if isinstance(result, np.ndarray) and result.shape == (3, points.size):
        result = tuple(result)
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        return f"Return three arrays, x, y and z; got {type(result).__name__}."
    for name, part in zip("xyz", result, strict=True):
        if not isinstance(part, np.ndarray) or part.shape != points.shape:
            shape = f"shape {part.shape}" if isinstance(part, np.ndarray) else type(part).__name__
            return f"{name} must be an array of shape {points.shape}; got {shape}."
        if part.dtype != np.float32:
            raise Failure("wrong-dtype", f"{name} has the type {part.dtype}, right is float32.")
        wrong = part != points[name]
        if wrong.any():
            index = first(wrong)[0]
            return (
                f"{name}[{index}] is {shown(part[index])}, but points[{index}].{name} is "
                f"{shown(points[name][index])}."
            )
    for name, part in zip("xyz", result, strict=True):
        if not part.flags.c_contiguous:
            return (
                f"{name} has the right values, but from one to the next it is still "
                f"{part.strides[0]} bytes: it is a view into the records, nothing has moved. "
                "Copy it into an array of its own."
            )
    return None


register(
    FunctionExercise(
        name="split-records",
        lesson=4,
        title="From an array of structs to a struct of arrays",
        judge=_judge_split,
        cases=[_points(8), _points(101), _points(2)],
        hints={
            "wrong-result": "np.ascontiguousarray(points['x']) is an array with neighbours side "
            "by side. Return the three of them: x, y, z.",
            "wrong-dtype": "points['x'] is float32 already; keep that.",
            "raised": "The field x of all records is points['x'].",
        },
    )
)
