"""Tuples that are compared, and functions that return a value on some ways only."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numba import float32, types, uint32
from numba.core.errors import TypingError, UnsupportedError

from tests.texts import body_of
from warpsim import KernelError, cuda, trace
from warpsim.front.names import Unsupported

PAIRS = [
    "(i, 0) {} (2, 2)", "(i, j) {} (j, i)", "(i,) {} (2, 3)", "(1, i, 3) {} (1, i)", "(i, j) {} s",
    "t {} v", "(i, (j, 1)) {} (j, (i, 1))", "(i % 2 == 0, j) {} (j % 2 == 0, i)", "() {} ()",
    "(i * 0.5, j) {} (1, 1.5)", "(uint32(i), j) {} (j - 2, i)", "(i, x[j]) {} (2, x[i])",
]  # fmt: skip


def kernel_of(expression, returns="out[j * 4 + i] = {}"):
    lines = [
        "i = cuda.threadIdx.x", "j = cuda.threadIdx.y", "s = x.shape[0] - 3, 1", "t = (i, 7 - j)",
        "v = (j, 7 - i)", returns.format(expression),
    ]  # fmt: skip
    return cuda.jit(body_of("x, out", "\n".join(lines), uint32=uint32))


NUMBERS = np.array([1, 2, np.nan, 0.5, 3], np.float32)


class Apart:
    """The numbers, each time another object: Python takes a NaN for equal to itself."""

    def __getitem__(self, i):
        return float(NUMBERS[i])


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("symbol", ["<", "<=", ">", ">=", "==", "!="])
def test_tuples_compare_as_in_python(pair, symbol):
    expression = pair.format(symbol)
    x, kernel, wanted = NUMBERS, kernel_of(expression), []
    for j, i in itertools.product(range(4), range(4)):
        names = {"i": i, "j": j, "s": (2, 1), "t": (i, 7 - j), "v": (j, 7 - i), "x": Apart(),
                 "uint32": int}  # fmt: skip
        wanted.append(eval(expression, names))
    for run in (
        lambda out: kernel[1, (4, 4)](x, out),
        lambda out: trace(kernel, 1, (4, 4), x, out),
    ):
        out = np.full(16, 7, np.int32)
        run(out)
        assert list(out) == wanted


def test_a_guard_of_two_axes_and_a_chain():
    @cuda.jit
    def inside(out):
        row, column = cuda.grid(2)
        if (row, 0) < out.shape and (column, 0) < (out.shape[1], 0):
            out[row, column] += 1
        if (0, 0) < (row, column) < (1, 2):
            out[row, column] += 10

    out = np.zeros((3, 2), np.int32)
    inside[1, (3, 2)](out)
    wanted = [[1 + 10 * ((0, 0) < (r, c) < (1, 2)) for c in range(2)] for r in range(3)]
    assert out.tolist() == wanted
    report = trace(inside, 1, (3, 2), out)
    assert not [f for f in report.findings if f.is_error]


def test_an_unsigned_and_a_signed_element_meet_in_float64_as_in_numba():
    @cuda.jit
    def compare(big, small, out):
        out[0] = (big, 0) == (small, 0)
        out[1] = (big, 0) < (small, 1)

    out = np.zeros(2, np.int32)
    compare[1, 1](np.uint64(2**62 + 1), np.int64(2**62), out)
    assert list(out) == [1, 1]


@pytest.mark.parametrize("pair", ["(i, 0) {} 3", "3 {} (i, 0)"])
@pytest.mark.parametrize("symbol", ["<", "=="])
def test_a_tuple_and_a_number_are_refused_with_their_line(pair, symbol):
    with pytest.raises(TypingError, match="line 7 of f"):
        kernel_of(pair.format(symbol))[1, (4, 4)](np.zeros(5), np.zeros(16))


def test_tuples_of_arrays_are_refused_with_their_line():
    with pytest.raises(UnsupportedError, match="comparison of tuples with array.*line 7 of f"):
        kernel_of("(i, x) == (i, x)")[1, (4, 4)](np.zeros(5), np.zeros(16))


def test_unwritten_memory_in_a_tuple_that_is_compared_is_found():
    @cuda.jit
    def kernel(out):
        tile = cuda.shared.array(4, float32)
        if (tile[0], 1) < (float32(2), 1):
            out[0] = 1

    assert "uninitialised-read" in {f.kind for f in trace(kernel, 1, 1, np.zeros(1)).findings}


# ---------------------------------------------------------------------- a value, or None
@cuda.jit(device=True)
def falls_through(v):
    if v > 3:
        return v * 2


@cuda.jit(device=True)
def says_none(v):
    if v > 3:
        return v * 2
    return None


@cuda.jit(device=True)
def only_for_its_stores(v, out):
    if v > 1:
        return None
    out[v] = v + 1
    return v


@cuda.jit(device=True)
def searches(v):
    while True:
        v += 3
        if v > 10:
            return v


@cuda.jit(device=True)
def passes_on(v):
    return falls_through(v)


@pytest.mark.parametrize("function", [falls_through, says_none, passes_on])
def test_a_value_that_may_be_none_is_a_number_where_it_is_none_of_that(function):
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        y = function(i)
        out[i] = -1
        if y is not None and y < 14:
            out[i] = y
        z = None
        if i == 2:
            z = i * 0.5
        if z == None:  # noqa: E711
            z = 0.25
        out[i] += z

    out = np.zeros(8)
    kernel[1, 8](out)
    assert list(out) == [-0.75, -0.75, 0, -0.75, 8.25, 10.25, 12.25, -0.75]
    assert not [f for f in trace(kernel, 1, 8, out).findings if f.kind == "uninitialised-read"]


def test_none_taken_as_a_number_is_found_with_its_line():
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        y = falls_through(i)
        out[i] = y

    with pytest.raises(KernelError, match="(?s)line 4.*which is None"):
        kernel[1, 8](np.zeros(8))
    (found,) = (f for f in trace(kernel, 1, 8, np.zeros(8)).findings if f.line == 4)
    assert found.kind == "uninitialised-read" and found.where.thread == (0, 0, 0)


@cuda.jit(device=True)
def pair_or_nothing(v):
    if v > 3:
        return v, v


def test_a_tuple_that_may_be_none_is_refused_with_its_line():
    @cuda.jit
    def kernel(out):
        y = pair_or_nothing(2)
        out[0] = y[0]

    with pytest.raises(Unsupported, match=r"may be None(.|\n)*line 2 of kernel"):
        kernel[1, 8](np.zeros(8))


def test_a_value_that_nobody_takes_may_be_none_and_an_endless_loop_gives_none_never():
    @cuda.jit
    def kernel(out, found):
        i = cuda.grid(1)
        only_for_its_stores(i, out)
        found[i] = searches(i)

    out, found = np.zeros(4), np.zeros(4)
    kernel[1, 4](out, found)
    assert list(out) == [1, 2, 0, 0]
    assert list(found) == [12, 13, 11, 12]


def test_numba_takes_what_is_compared_here():
    from tests.warpsim.numba_inference import inferred

    def compare(i, j, x):
        return (i, 0) < (2, 2) and (i, j) == x.shape and (i, (j, 1.0)) >= (j, (i, 1))

    kinds = types.int32, types.int32, types.Array(types.float32, 2, "C")
    assert inferred(compare, kinds) == types.boolean
