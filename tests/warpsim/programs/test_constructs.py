"""What Numba takes in a kernel beside loops and arithmetic: drawn, and held to plain Python.

Each drawn function works on one row of each array. Python runs it row by row, the simulator in one
thread a row: once with a number that all threads share, once with one that differs.
"""

import collections
import enum
import math
import os
import random
import re
import types as python_types

import numpy as np
import pytest

from tests.texts import function_of
from warpsim import cuda
from warpsim.core.executed import noting
from warpsim.front.names import Unsupported
from warpsim.redirect import redirected

ROWS = 5
Pair = collections.namedtuple("Pair", "left right")


class Colour(enum.IntEnum):
    """Members that patterns name."""

    RED, BLUE = 1, 3


TEXTS = ["inf", "-inf", "+Infinity", " nan ", "-NaN", "1.5", "-2e-3", "1_0", "  7 "]
LINES = [
    "for i, j in np.ndindex(A, n):\n    o[i + j] += i * B - j",
    "for i in np.ndindex((n, A)):\n    o[i[0]] += i[1]\n    if i[1] == B % 3:\n        break",
    "for i, j, k in np.ndindex(A, 2, n):\n    if j > k:\n        continue\n    o[i] += k",
    "for i, v in np.ndenumerate(x):\n    o[i[0]] += v * A",
    "for (i, j), v in np.ndenumerate(y):\n    o[i] += v * j",
    "for v in y.flat:\n    if v > B:\n        break\n    o[A] += v",
    "y.flat[n] = A\no[0] += y.flat[B] + len(y.flat)",
    "for i, v in enumerate(x, n):\n    o[A] += i * v",
    "for (i, v), w in zip(np.ndenumerate(x), y.flat):\n    o[i] += v * w",
    "o[A] += max(x[:n]) - min(x) if n > 0 else B",
    "o[A] += x.dtype.type(B) + y.dtype.type(n)",
    "t = o.dtype.type\no[A] += t(n) / t(B + 1)",
    "d = x.dtype\nl = cuda.local.array(B + 2, d)\nl[n % 2] = A\no[0] += l[n % 2]",
    "o[A] += np.finfo(np.float32).eps * n + np.iinfo(np.int16).max",
    "o[A] += np.finfo(x.dtype).max / 2 + np.size(y) + np.shape(y)[1]",
    "o[A] += x[n].item() + float(TEXT)",
    "s = TEXT\no[A] += 1.0 / float(s)",
    "o[A] += ord('q') + len('words') * ('a' == 'a') + ('b' < 'a')",
    "o[A] += n in (A, B) or n not in (1, 2, B)",
    "t = (n, A, B)\no[A] += (B in t) + 2 * (n + 1 in t)",
    "o[A] += isinstance(n, int) + 2 * isinstance(y[0, n], (int, float)) + isinstance((n,), tuple)",
    "p = Pair(n, B)\nq = Pair(right=x[0], left=A)\no[A] += p.left * q.right - p[1] + q.left",
    "o[slice(A, n)] = B",
    "o[...] = n + A",
    "z = x[:, None]\no[A] += z[n, 0] + x[None, :][0, B] + z.T[0, n]",
    "z = y[..., None]\no[A] += z[1, n, 0] + y[np.newaxis, 1, :][0, B]",
    "o[A] += y.T[n, 1] + y.reshape(-1)[B] + y[:, n].T[1]",
    "def add(v):\n    nonlocal n\n    n += v\nadd(B)\nadd(A)\no[A] += n",
    "o[A] += (lambda v: v * B)(n) + (2.5).conjugate()",
    "MATCH",
]
PATTERNS = [
    "0", "1", "-2", "2.0", "1 | 3", "0 | 2 | 4", "_", "v", "(2 | 3) as v", "Colour.RED",
    "Colour.BLUE", "math.pi", "3 if x[0] > 0", "v if v > B", "_ if n > A",
    "(1 | 2 | 3) as v if v != B",
]  # fmt: skip
SUBJECTS = ["n", "n % 3", "n + A", "x[n]", "n > A"]


def drawn(seed: int) -> str:
    """The body of a function."""
    draw = random.Random(seed)

    def filled(text: str) -> str:
        for name, value in (("A", draw.randint(0, 3)), ("B", draw.randint(0, 4))):
            text = re.sub(rf"\b{name}\b", str(value), text)
        return text.replace("TEXT", repr(draw.choice(TEXTS)))

    lines = []
    for number, text in enumerate(draw.choices(LINES, k=2)):
        text = filled(_match(draw) if text == "MATCH" else text)
        lines.append(re.sub(r"\badd\b", f"add_{number}", text))
    return "\n".join(lines)


def _match(draw: random.Random) -> str:
    subject = draw.choice(SUBJECTS)
    cases = []
    for number in range(draw.randint(1, 4)):
        pattern = draw.choice(PATTERNS)
        if subject == "n > A":
            pattern = draw.choice(["True", "False"])
        plus = " + v" if pattern == "v" or " v" in f" {pattern}" else ""
        body = draw.choice([f"o[{number}] = {number + 1}{plus}", f"o[A] += B{plus}"])
        cases.append(f"    case {pattern}:\n        {body}")
        if pattern in ("_", "v"):
            break
    return f"match {subject}:\n" + "\n".join(cases)


def _by_row(function):
    """A kernel whose threads call a function on a row each, with its own number if n is below 0."""
    each = cuda.jit(device=True)(function)

    @cuda.jit
    def rows(o, x, y, counts, n):
        i = cuda.threadIdx.x
        if n < 0:
            each(o[i], x[i], y[i], counts[i])
        else:
            each(o[i], x[i], y[i], n)

    return rows


def difference(seed: int) -> str | None:
    """A drawn function whose results differ, or that is refused."""
    chance, text = np.random.default_rng(seed), drawn(seed)
    names = {"np": np, "math": math, "Pair": Pair, "Colour": Colour}
    local = python_types.SimpleNamespace(array=lambda shape, dtype: np.zeros(shape, dtype))
    body = "def f(o, x, y, n):\n" + "".join(f"    {line}\n" for line in text.split("\n"))
    in_python = {**names, "cuda": python_types.SimpleNamespace(local=local)}
    plainly = function_of(body, f"plain {seed}", in_python)
    kernel = _by_row(function_of(body, f"drawn {seed}", {**names, "cuda": cuda}))
    for shared in (True, False):
        x = chance.integers(-3, 9, (ROWS, 6)).astype(np.float32)
        y = chance.integers(-3, 9, (ROWS, 2, 6)).astype(np.float64)
        counts = np.full(ROWS, 3) if shared else chance.integers(0, 5, ROWS)
        out, expected, before = np.zeros((ROWS, 8)), np.zeros((ROWS, 8)), y.copy()
        try:
            with np.errstate(all="ignore"):
                for row in range(ROWS):
                    plainly(expected[row], x[row], y[row], int(counts[row]))
        except (ZeroDivisionError, UnboundLocalError, IndexError):
            return None
        try:
            kernel[1, ROWS](out, x, before, counts, 3 if shared else -1)
        except Exception as error:
            return f"seed {seed}:\n{text}\n{type(error).__name__}: {error}"
        if not np.allclose(out, expected, equal_nan=True, rtol=1e-6):
            return f"seed {seed}, n {counts}:\n{text}\n{out}\nPython: {expected}"
    return None


@pytest.mark.parametrize("part", range(2))
def test_constructs_do_what_python_does(part):
    count = int(os.environ.get("COURSE_DRAWS", 12))
    found = [difference(seed) for seed in range(part * count, (part + 1) * count)]
    assert not any(found), "\n\n".join(filter(None, found))[:5000]


@cuda.jit(device=True)
def put(o, n):
    o[0] += n


def test_text_that_is_executed_has_its_source():
    before = exec, compile, eval
    with redirected():
        made = []
        for value in (1, 2):  # two texts of one name
            space = {"cuda": cuda}
            exec(f"@cuda.jit\ndef f(o):\n    o[0] = {value} + g(o[1])", space)
            code = compile(f"def g(x):\n    return x * {value}", "<string>", "exec")
            space["g"] = cuda.jit(python_types.FunctionType(code.co_consts[0], {}), device=True)
            made.append(space["f"])
        pair = eval("[cuda.jit(lambda o: put(o, 1)), cuda.jit(lambda o: put(o, 2))]", globals())
    assert (exec, compile, eval) == before
    for kernel, expected in zip([*made, *pair], (6, 12, 6, 7), strict=True):
        out = np.array([5.0, 5.0])
        kernel[1, 1](out)
        assert out[0] == expected


def test_executed_text_finds_what_it_found_before():
    with noting():
        outside = "here"
        exec("inside = outside + '!'", globals(), found := locals())
        assert found["inside"] == "here!" and eval("outside") == outside and eval(b" 1 + 1") == 2
        exec("from __future__ import annotations\ndef f(x: Missing): pass", space := {}, None)
        exec("inside = 1", None, found)
        assert found["inside"] == 1
        with pytest.raises(NameError):
            exec("def f(x: Missing): pass")
        assert eval(compile("1 + 1", "<one>", "eval", dont_inherit=True)) == 2
    assert space["f"].__name__ == "f"


def test_text_that_nobody_noted_says_how_to_run_it():
    exec("def kernel_of_text(o):\n    o[0] = 1", space := {})
    with pytest.raises(Unsupported, match="python -m warpsim, pytest --warpsim or %load_ext"):
        cuda.jit(space["kernel_of_text"])[1, 1](np.zeros(1))
