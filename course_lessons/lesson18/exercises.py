"""Exercises of lesson 18: those of tokens and attention, bias and GELU, and two of memory."""

import numpy as np

from course.checks.exercises import Case, FunctionExercise, Limit, Tolerance
from course_lessons.cases import covering, drawn, empty, extent, fixed, sides, table
from course_lessons.edits import LessonKernel
from course_lessons.lesson18 import attention_exercises, judges
from course_lessons.lesson18.token_exercises import halves
from course_lessons.lesson18.toy_gemm import gemm
from course_models.common import gelu

__all__ = ["attention_exercises"]

# --- bias and GELU --------------------------------------------------------------------------------

TILE = 16


def _layer(rows, depth, columns, spread=1.0, mean=0.0, measured=False):
    arguments = drawn(
        x=halves(rows, depth, mean=mean),
        weight=halves(columns, depth, mean=mean, spread=spread / depth**0.5),
        bias=halves(columns, mean=-depth * mean**2), out=empty(rows, columns, dtype=np.float16),
    )  # fmt: skip
    grid = covering(columns, (TILE,)) + covering(rows, (TILE,))
    name = f"{rows} x {depth} to {columns}" + ", far from 0" * bool(spread > 1)
    name += f", sums near {depth * mean**2:.0f}" * bool(mean > 0)
    return Case(name, arguments, (TILE, TILE), grid, measured=measured)


def _any_layer(rng):
    return _layer(
        *sides(rng, 40, 40, 40), spread=rng.choice([0.3, 1, 3]), mean=rng.choice([0.0, 0, 4])
    )


def _gelu(z):
    return 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))


def _hidden(x, weight, bias):
    return _gelu(x @ weight.T + bias)


def _rounded_once(x, weight, bias):
    """The result, what float32 loses, and how far GELU by erf is from that by tanh."""
    z = x @ weight.T + bias
    forms = np.abs(gelu(z) - _gelu(z)) * 2 / np.finfo(np.float16).eps
    return np.abs(_gelu(z)) + forms + 0.001 * (1 + np.abs(x) @ np.abs(weight).T)


LessonKernel.declare(
    name="bias-gelu",
    lesson=18,
    title="Bias and GELU in the epilogue",
    outputs=("out",),
    reference=_hidden,
    cases=[
        _layer(16, 16, 16),
        _layer(13, 75, 37, spread=3),
        _layer(16, 16, 16, mean=4.0),
        _layer(34, 32, 64, measured=True),
    ],
    drawer=_any_layer,
    drawn=6,
    tolerance=Tolerance(
        0.5, "the result is rounded to a half, all before it is float32; GELU may be the exact one",
        magnitude=_rounded_once,
    ),
    forbidden={"float64"},
    limits=[
        Limit("global", "store", "lanes", "element", 1, "Each result is stored once, when bias and "
              "GELU are done: until then it is in a register."),
        Limit("global", "load", "lanes", "thread", 5, "The product is given; besides it a thread "
              "loads one number of the bias. What it has it need not read back."),
    ],
    hints={
        "wrong-result": "z = total + bias[column], then 0.5 z (1 + tanh(SLOPE (z + CUBE z³))). The "
        "bias is added once, before GELU; z³ is z * z * z. NaN comes out where an exponential "
        "overflows: math.tanh does not.",
        "out-of-bounds": "At the edges blocks stick out: read the bias and store only where row < "
        "out.shape[0] and column < out.shape[1]. The bias has one number for each column.",
        "barrier-divergence": "dot_in_tiles has barriers: all threads call it, before any guard. "
        "It needs no other barrier.",
        "uninitialised-read": "dot_in_tiles fills its tiles by all threads of a block: all threads "
        "call it, before any guard, and none returns earlier.",
        "unwritten-output": "Each thread with a result stores it: out[row, column].",
        "float64": "0.5, 1.0 and what is divided by a whole number are float64: write "
        "float32(0.5), float32(1). SLOPE and CUBE are float32. z³ is z * z * z.",
        "not-parallel": "Each thread has one result: row and column are given.",
        "typing": "The tanh is math.tanh, of a float32. A power is z * z * z.",
        "race": "Thread (column, row) stores out[row, column], its own.",
    },
)  # fmt: skip

# --- buffers --------------------------------------------------------------------------------------

_BLOCK = [("x", "normed"), ("normed", "qkv"), ("qkv", "heads"), ("heads", "x", "middle"),
          ("middle", "normed2"), ("normed2", "hidden"), ("hidden", "middle", "out")]  # fmt: skip
_SIZES = {"x": 100, "normed": 100, "qkv": 300, "heads": 100, "middle": 100, "normed2": 100,
          "hidden": 400, "out": 100}  # fmt: skip


def _any_buffers(rng):
    """Of different sizes: which of two alike comes first would change how much is needed."""
    steps = []
    for number in range(extent(rng, 1, 30)):
        reads = rng.choice(number, min(number, rng.integers(0, 3)), replace=False)
        steps.append(tuple(f"buffer {n}" for n in (*reads, number)))
    sizes = rng.permutation(np.arange(1, 60))[: len(steps)]
    return fixed(
        f"{len(steps)} steps",
        steps=steps,
        sizes={f"buffer {n}": 8 * int(size) for n, size in enumerate(sizes)},
    )


FunctionExercise.declare(
    name="buffers-by-lifetimes",
    lesson=18,
    title="Buffers by their lifetimes",
    judge=judges.judge_buffers,
    cases=table(
        "steps sizes",
        ("three, each made of the one before", [("a",), ("b", "a"), ("c", "b")],
         {"a": 100, "b": 50, "c": 100}),
        ("the first is read once more, at the end",
         [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a", "e")],
         {"a": 10, "b": 30, "c": 20, "d": 30, "e": 10}),
        ("a gap between two others",
         [("a", "b"), ("a", "b", "c"), ("c", "a"), ("c", "d", "a"), ("d", "e")],
         {"a": 50, "b": 40, "c": 30, "d": 40, "e": 20}),
        ("a block of a transformer", _BLOCK, _SIZES),
        ("one in the way ends behind the next one",
         [("a", "b", "c"), ("b", "c", "d"), ("c", "d", "e"), ("e",)],
         {"a": 30, "b": 15, "c": 10, "d": 45, "e": 60}),
    ),
    drawer=_any_buffers,
    drawn=20,
    hints={
        "raised": "lifetimes(steps) gives {name: (first, last)}; sizes[name] are its bytes. Keep "
        "the places that you have so far in a dictionary, by name.",
        "input-modified": "Leave steps and sizes as they are: sorted(...) gives a new list.",
        "endless-loop": "Each round goes on behind one of the buffers that are in the way.",
    },
)  # fmt: skip

# --- a product by rows ----------------------------------------------------------------------------


def _product(name, rows, depth, columns):
    a = np.arange(1.0, 1 + rows * depth).reshape(rows, depth)
    b = (np.arange(1.0, 1 + depth * columns) ** 2).reshape(depth, columns)
    return fixed(name, gemm=gemm, a=a, b=b, out=np.zeros((rows, columns)))


def _any_product(rng):
    rows, depth, columns = rng.integers(1, 10, 3).tolist()
    return _product(f"{rows} x {depth} times {depth} x {columns}", rows, depth, columns)


FunctionExercise.declare(
    name="product-by-rows",
    lesson=18,
    title="A product by rows, of a library by columns",
    judge=judges.judge_product,
    caller=judges.call_with_gemm,
    cases=[
        _product("2 x 3 times 3 x 4", 2, 3, 4),
        _product("5 x 2 times 2 x 3", 5, 2, 3),
        _product("3 x 3 times 3 x 3", 3, 3, 3),
    ],
    drawer=_any_product,
    drawn=10,
    hints={
        "raised": "By columns, b's memory is b', columns x depth, and a's memory is a', depth x "
        "rows. So b goes first, m is the columns of b, n the rows of a. The leading dimension is "
        "the length of a row in NumPy: b.shape[1], a.shape[1], out.shape[1].",
        "input-modified": "Only gemm writes, and to out alone.",
        "wrong-result": "out' = b' a': b first. m, n, k = columns, rows, depth. Leading dimensions "
        "are b.shape[1], a.shape[1], out.shape[1].",
    },
)
