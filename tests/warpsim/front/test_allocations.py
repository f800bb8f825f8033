"""Shapes of shared and local arrays: which expressions are literals, exactly as Numba's typing."""

from __future__ import annotations

import linecache

import numpy as np
import pytest
from numba import float32, types
from numba.core.errors import TypingError

from tests.warpsim.numba_inference import inferred
from warpsim import cuda
from warpsim.code.programs import program_of

TPB, SHAPE, NESTED, HALF, TRUE = 64, (4, 5), ((2, 3), 4), 2.5, True
NARROW, WIDE, PAIR = np.int32(4), np.int64(4), (np.int64(4), 4)
SIGNATURE = (types.Array(types.float32, 1, "C"), types.UniTuple(types.int64, 2))

ONES = """
64 * 5 | (32 + 2, 32 + 2) | TPB | (TPB, 4) | (TPB, 2 * 2) | SHAPE | SHAPE[0] | SHAPE[-1] | 64 // 2
2 ** 5 | 1 << 5 | -(-5) | ~-6 | +6 | 10 % 4 | 10 | 4 | 10 ^ 4 | (1, 2)[1] | 64 if True else 32
64 and 32 | (64,) | (2,) * 2 | (2,) + (3,) | (2, 3)[:1] | 2 * (3 + 4) - 1 | SHAPE[:1] | x.ndim
(x.ndim, 2) | (SHAPE[0], 4) | TPB * 8 | TPB + 1 | (TPB + 1, 4) | (4, 4 * TPB) | -TPB | 64 / 2
int(64 / 2) | int(4) | len((1, 2)) | len(SHAPE) | max(3, 4) | x.shape[0] | x.size | True | not 0
4 > 3 | HALF | 64.0 | TRUE | NARROW | WIDE | PAIR | NESTED | NESTED[0] | (4, (2, 3)) | t[0] | t
(2, 3) + SHAPE | np.int32(4) | len(x.shape)
""".replace("\n", " | ").split(" | ")
#: Statements that set ``n`` before it is the shape.
NAMED = [
    "n = 8 * 8", "n = TPB", "n = TPB * 2", "n = 8\nn = n * 2", "m = 8\nn = m", "n = (8, 8)",
    "n = (8 * 2, 8)", "n = (TPB, 8)", "n = 8\nn = 9", "a, b = 8, 9\nn = (a, b)", "n: int = 8",
    "a, b = SHAPE\nn = a", "n = m = 8", "n = 8\nn += 1", "m = 8 * 8\nn = (m, 2)",
    "if x.size > 3:\n    n = 8\nelse:\n    n = 8", "if x.size > 3:\n    n = 8\nelse:\n    n = 9",
    "if x.size > 3:\n    n = 8\nelse:\n    n = TPB", "n = 8\nif x.size > 3:\n    n = 9",
    "n = 8\nfor i in range(3):\n    n = 8", "n = 8\nfor i in range(3):\n    n = 9",
    "n = 8\nfor i in range(3):\n    n += 1", "n = 8 if x.size > 3 else 8",
    "n = 8 if x.size > 3 else 9", "m = SHAPE\nn = m[0]", "m = (8, 9)\nn = m[1]",
    "i = 1\nn = SHAPE[i]", "n = 8\nm = n * 1\nn = m", "n = x.ndim", "n = x.shape[0]", "n = t[0]",
    "for n in range(3):\n    pass", "m = 8\nn = (m, TPB)", "n = True", "n = 2.0",
    "m = (2, 3)\nn = m + (4,)",
]  # fmt: skip


def made(text):
    lines = ["def function(x, t):", *(f"    {line}" for line in text.splitlines())]
    name = f"<shapes {text}>"
    linecache.cache[name] = (0, None, [f"{line}\n" for line in lines], name)
    names = {**globals(), "cuda": cuda}
    exec(compile("\n".join(lines), name, "exec"), names)
    return names["function"]


def numbas(function):
    """The same function with numba.cuda's names."""
    from numba import cuda as real

    function.__globals__["cuda"] = real
    return function


@pytest.mark.drawn(3)
@pytest.mark.parametrize("where", ["shared", "local"])
@pytest.mark.parametrize(
    "text", [*(f"n = 0\na = cuda.array({one}, float32)" for one in ONES if one),
             *(f"{named}\na = cuda.array(n, float32)" for named in NAMED)],
)  # fmt: skip
def test_a_shape_is_taken_where_numba_takes_it(text, where):
    text = text.replace("cuda.array", f"cuda.{where}.array") + "\nreturn a.size"
    try:
        inferred(numbas(made(text)), SIGNATURE)
    except TypingError:
        with pytest.raises(TypingError, match="compile-time constant"):
            program_of(made(text)).typing(SIGNATURE)
    else:
        assert program_of(made(text)).typing(SIGNATURE).result == types.int64


def test_folded_shapes_make_arrays_of_their_size():
    @cuda.jit
    def fill(out):
        n = 8 * 8
        rows = cuda.shared.array((3 + 1, 32 - 2), float32)
        line = cuda.local.array(n, float32)
        line[0] = rows.shape[0] * 1000 + rows.shape[1]
        if out.size > 1:
            n = 9
        out[0] = line[0]
        out[1] = line.size
        out[2] = n

    out = np.zeros(3, np.float32)
    fill[1, 1](out)
    assert list(out) == [4030, 64, 9]


def test_what_python_folds_has_the_type_of_its_value():
    """An exponent below zero: a float where Python folds it, as Numba gets it."""

    @cuda.jit
    def powers(out):
        two = 2
        out[0] = 2**-1
        out[1] = 2**-1 * 3
        out[2] = (5, 6, 7)[1 + 1]
        out[3] = two**3

    out = np.zeros(4)
    powers[1, 1](out)
    assert list(out) == [0.5, 1.5, 7, 8]


@pytest.mark.parametrize("shape", ["0", "(2, 0)", "3 - 4"])
def test_an_array_of_no_elements_is_refused(shape):
    function = made(f"a = cuda.local.array({shape}, float32)\nreturn a.size")
    with pytest.raises(TypingError, match="array length <= 0"):
        program_of(function).typing(SIGNATURE)
