"""Exercises of lesson 01: maps, guards, two axes, ufuncs, atomics."""

import numpy as np

from course.checks.comparing import first, shown, told_apart
from course.checks.exercises import Case, FunctionExercise, Tolerance
from course.checks.verdicts import Failure, NotStarted
from course_lessons.cases import (
    block_of_two,
    covering,
    drawn,
    empty,
    extent,
    fixed,
    integers,
    normal,
    sides,
    turn,
    uniform,
    unit,
)
from course_lessons.edits import LessonKernel
from course_lessons.lesson01.crossing import judge_crossing, watched
from course_lessons.lesson01.judges import launch_covers
from warpsim.core.words import count

# --- square-map: one thread, one element ----------------------------------------------------------


def _numbers(n, block, spare=0, low=1):
    arguments = drawn(out=empty(n), x=uniform(low, 5, n, sized=True))
    return Case(count(n, "element"), arguments, block=block, grid=-(-n // block) + spare)


def _some_numbers(rng):
    spare = int(rng.integers(3))
    return _numbers(extent(rng, 1, 140_000), extent(rng, 5, 300), spare, low=-5)


LessonKernel.declare(
    name="square-map",
    lesson=1,
    title="Square every element",
    outputs=("out",),
    reference=lambda x: x * x,
    cases=[_numbers(n, block=block) for n, block in ((512, 128), (1031, 128), (1, 32))],
    drawer=_some_numbers,
    tolerance=Tolerance(1, "one float32 product rounds once"),
    forbidden={"uncoalesced"},
    hints={
        "unwritten-output": "The number of a thread in the whole grid is "
        "blockIdx.x * blockDim.x + threadIdx.x.",
        "wrong-result": "Each thread reads x[i] and writes the square of it to out[i].",
    },
)

# --- launch-1d: how many blocks? ------------------------------------------------------------------


def _elements(n):
    return fixed(count(n, "element"), n=n)


def _elements_of_blocks(rng):
    """As many as whole blocks have threads, or one more."""
    return _elements(int(rng.choice([128, 1024])) * extent(rng, 1, 2**21) + int(rng.integers(2)))


FunctionExercise.declare(
    name="launch-1d",
    lesson=1,
    title="Enough blocks, and none too many",
    judge=launch_covers(lambda n: (n,)),
    cases=[_elements(n) for n in (1024, 1000, 1025, 1)],
    drawer=_elements_of_blocks,
    drawn=8,
    hints={
        "wrong-result": "Divide and round up: (n + threads - 1) // threads. "
        "Return the grid first, then the block."
    },
)

# --- shift-right: what happens at the border ------------------------------------------------------

LessonKernel.declare(
    name="shift-right",
    lesson=1,
    title="Move every element one place to the right",
    outputs=("out",),
    reference=lambda x: np.concatenate([np.zeros(1), x[:-1]]),
    cases=[_numbers(n, block=block) for n, block in ((8, 8), (1, 1), (1031, 128))],
    drawer=_some_numbers,
    hints={
        "negative-index": "For i = 0, x[i - 1] is x[-1], the last element, as in NumPy. "
        "Give thread 0 a branch of its own.",
        "out-of-bounds": "Every index needs its own guard: i for out, i - 1 or i + 1 for "
        "whatever else you touch.",
        "wrong-result": "out[0] is a case of its own: 0. x[-1] would be the last element, "
        "as in NumPy.",
        "unwritten-output": "Each element needs a value: out[0], which alone has no neighbour on "
        "its left, 0, and out[i], in whatever block, x[i - 1].",
    },
)

# --- add-images: two axes, x along the columns ----------------------------------------------------


def _two_images(*shape, block=(16, 16), grid=None, measured=False):
    a = b = normal(*shape, sized=True)
    arguments = drawn(out=empty(*shape), a=a, b=b)
    return Case(f"{shape[0]} x {shape[1]}", arguments, block, grid, measured=measured)


def _in_two_axes(case):
    """A drawer of such cases: any image, any block, a grid that covers it whichever way x walks."""

    def drawer(rng):
        size, block = sides(rng, 70, 70), block_of_two(rng)
        return case(*size, block=block, grid=covering(max(size), block))

    return drawer


LessonKernel.declare(
    name="add-images",
    lesson=1,
    title="Add two images",
    outputs=("out",),
    reference=lambda a, b: a + b,
    cases=[
        _two_images(16, 16),
        _two_images(13, 37),
        _two_images(64, 96, block=(32, 4), measured=True),
    ],
    drawer=_in_two_axes(_two_images),
    tolerance=Tolerance(1, "one float32 sum rounds once"),
    forbidden={"uncoalesced"},
    hints={
        "wrong-result": "Each pixel of out is the sum of the two in its place, and no more.",
        "out-of-bounds": "Guard each with its own axis of out.shape: a row is below shape[0], a "
        "column below shape[1], and a pixel is inside where both hold.",
        "unwritten-output": "Is x the column, as in column, row = cuda.grid(2)? "
        "Compare row with out.shape[0] and column with out.shape[1], both from 0 on.",
        "typing": "cuda.grid(2) gives two numbers: column, row = cuda.grid(2). "
        "An image takes two indices: out[row, column].",
        "uncoalesced": "The first number that cuda.grid(2) gives is x. Let it be the column: "
        "column, row = cuda.grid(2).",
    },
)

# --- rotate-image: out has another shape than the input -------------------------------------------


def _rotation(rows, columns, block=(16, 16), grid=None):
    arguments = drawn(out=empty(columns, rows), image=unit(rows, columns))
    return Case(f"{rows} x {columns}", arguments, block, grid)


LessonKernel.declare(
    name="rotate-image",
    lesson=1,
    title="Turn an image by a quarter, clockwise",
    outputs=("out",),
    reference=lambda image: np.rot90(image, -1),
    cases=[
        _rotation(3, 5, block=(8, 8)),
        _rotation(61, 23, block=(8, 4)),
    ],
    drawer=_in_two_axes(_rotation),
    hints={
        "unwritten-output": "There is a thread for each pixel of out: store in out[row, column].",
        "out-of-bounds": "row and column belong to out here: guard them with out.shape. "
        "The image's last row is image.shape[0] - 1, not image.shape[0].",
        "wrong-result": "Draw it for 2 x 3: out[0, 0] is the lower left corner of the image. "
        "A column of out is a row of the image, counted from below.",
    },
)

# --- clip: a ufunc --------------------------------------------------------------------------------


def _clip_case(*shape):
    low, high = uniform(-0.5, 0.5, *shape), uniform(0.5, 1.5, *shape)
    return Case(" x ".join(map(str, shape)), drawn(x=uniform(-2, 3, *shape), low=low, high=high))


def _judge_clip(result, x, low, high):
    values = np.asarray(result)
    if values.shape != x.shape:
        return f"The result has the shape {values.shape}; x has {x.shape}."
    if values.dtype != np.float32:
        raise Failure(
            "wrong-dtype",
            f"The result has the type {values.dtype}, right is float32. "
            'The signature says it: ["float32(float32, float32, float32)"].',
        )
    right = np.clip(x, low, high)
    wrong = values != right
    if not wrong.any():
        return None
    if np.array_equal(values, x):
        raise NotStarted  # the stub returns x; asked by value, since a GPU's ufunc hides its source
    for sentence, mistaken in (
        ("Only values below low are changed.", np.maximum(x, low)),
        ("Only values above high are changed.", np.minimum(x, high)),
        ("low and high are mixed up.", np.where(x < low, high, np.where(x > high, low, x))),
    ):
        if np.array_equal(values, mistaken):
            return sentence
    index = first(wrong)
    returned, wanted = told_apart(values[index], right[index])
    return (
        f"For x = {shown(x[index])}, low = {shown(low[index])}, high = {shown(high[index])} "
        f"you return {returned}, right is {wanted}."
    )


FunctionExercise.declare(
    name="clip",
    lesson=1,
    title="A ufunc that cuts off what is too dark or too bright",
    judge=_judge_clip,
    runs="gpu-ufunc",
    cases=[_clip_case(1003), _clip_case(13, 37)],
    drawer=lambda rng: _clip_case(*(extent(rng, 1, 30) for _ in range(rng.integers(1, 4)))),
    hints={
        "wrong-result": "Inside a ufunc x, low and high are single numbers. Two ifs do it.",
        "typing": "Inside a ufunc x, low and high are single numbers: no index, no x.size.",
    },
)

# --- to-grey: a device function -------------------------------------------------------------------

_WEIGHTS = np.array([0.299, 0.587, 0.114])


def _colours(rows, columns, block=(16, 16), grid=None):
    arguments = drawn(out=empty(rows, columns), rgb=uniform(0, 2, rows, columns, 3, sized=True))
    return Case(f"{rows} x {columns} x 3", arguments, block, grid)


LessonKernel.declare(
    name="to-grey",
    lesson=1,
    title="Colours to grey, with a device function",
    outputs=("out",),
    reference=lambda rgb: rgb @ _WEIGHTS,
    cases=[
        _colours(4, 4, block=(4, 4)),
        _colours(13, 37),
    ],
    drawer=_in_two_axes(_colours),
    tolerance=Tolerance(8, "three float32 weights, three products and two sums, each rounds"),
    forbidden={"float64"},
    helped="But no function of yours is called. Let a device function take red, green and blue and "
    "return the grey value, and call it in the kernel.",
    hints={
        "float64": "A number such as 0.299 is float64 in a kernel. Write float32(0.299).",
        "out-of-bounds": "Guard row and column with the two axes of out. "
        "The colours are rgb[row, column, 0], 1 and 2.",
        "wrong-result": "grey = 0.299 red + 0.587 green + 0.114 blue.",
        "typing": "A device function needs @cuda.jit(device=True) above it, and a return.",
    },
)

# --- keep-it-there: three launches, two copies ----------------------------------------------------


def _photograph(rows, columns):
    return Case(f"{rows} x {columns}", drawn(photo=unit(rows, columns)))


FunctionExercise.declare(
    name="keep-it-there",
    lesson=1,
    title="Three launches, two copies",
    judge=judge_crossing,
    caller=watched,
    cases=[_photograph(13, 37), _photograph(131, 48)],
    drawer=lambda rng: _photograph(extent(rng, 2, 70), extent(rng, 2, 70)),
    hints={
        "raised": "cuda.to_device(array) and cuda.device_array_like(array) give arrays on the "
        "device; array.copy_to_host() copies one back. contrast(out, image) launches once.",
    },
)

# --- histogram: many threads, one counter ---------------------------------------------------------


def _values(n, bins, grid, block, before=1, filled=None):
    """A case with less than `before` in each bin already; values lie in those `filled`, or all."""
    arguments = drawn(counts=integers(0, before, bins), values=integers(0, filled or bins, n))
    return Case(f"{count(n, 'value')}, {bins} bins", arguments, block=block, grid=grid)


def _some_values(rng):
    n, bins, block = extent(rng, 1, 2000, 140_000), extent(rng, 1, 2200), extent(rng, 1, 300)
    grid = -(-max(n, bins) // block) + int(rng.integers(3))  # threads for all values, and all bins
    filled = bins if turn(rng) == 0 else int(rng.integers(1, bins + 1))
    return _values(n, bins, grid, block, before=100_000, filled=filled)


LessonKernel.declare(
    name="histogram",
    lesson=1,
    title="Count how often each value occurs",
    updated=("counts",),
    own_element=True,  # a thread a bin
    reference=lambda counts, values: counts + np.bincount(values, minlength=counts.size),
    cases=[
        _values(40, bins=4, grid=2, block=32),
        _values(1000, bins=10, grid=8, block=128),
    ],
    drawer=_some_values,
    hints={
        "wrong-result": "Each thread that has a value, i < values.size, adds 1, in one atomic "
        "step, to the counter of this value: cuda.atomic.add(counts, index, 1).",
        "typing": "cuda.atomic.add(array, index, number): the index is one number, values[i].",
        "race": "Many threads add to one counter at the same time, and updates get lost. "
        "cuda.atomic.add(counts, index, 1) lets them queue.",
        "out-of-bounds": "There are as many threads as values or more: guard i with "
        "values.size. The index into counts is values[i], not i.",
    },
)
