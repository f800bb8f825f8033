"""Functions and lambdas that a kernel defines for itself."""

from __future__ import annotations

import numpy as np
import pytest
from numba import float32
from numba.core.errors import TypingError

from warpsim import cuda, trace
from warpsim.front.names import Unsupported


def results(kernel, n=9):
    out = np.zeros(n, np.int64)
    kernel[1, n](np.arange(n), out)
    again = np.zeros(n, np.int64)
    assert not trace(kernel, 1, n, np.arange(n), again).findings
    assert (out == again).all()
    return list(out)


def test_it_reads_the_kernels_variables_as_they_are_when_it_is_called():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        scale = 3

        def f(v, w=2):
            if v > 4:
                return v * scale + w
            return v - w

        g = lambda a: a * a + i  # noqa: E731
        out[i] = f(x[i]) + g(2) * 100 + f(1, w=i)
        i += 1
        out[i - 1] += 10_000 * (lambda a: g(a))(1)

    def expected(i):
        f = i * 3 + 2 if i > 4 else i - 2
        return f + (4 + i) * 100 + 1 - i + 10_000 * (i + 2)

    assert results(kernel) == [expected(i) for i in range(9)]


def test_what_it_declares_nonlocal_is_the_kernels():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        total, calls = 0, 0

        def add(v):
            nonlocal total, calls
            if v == 5:
                return
            for j in range(v):
                total += j
            calls += 1

        add(i)
        add(3)
        out[i] = total * 10 + calls

    def expected(i):
        return 31 if i == 5 else (sum(range(i)) + 3) * 10 + 2

    assert results(kernel) == [expected(i) for i in range(9)]


def test_one_may_call_another():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)

        def square(v):
            return v * v + i

        def both(v):
            return square(v) + square(v + 1)

        out[i] = both(x[i])

    assert results(kernel) == [i * i + (i + 1) ** 2 + 2 * i for i in range(9)]


def test_a_constant_of_the_kernel_may_be_a_shape_in_it():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        size = 4

        def reversed_at(v):
            mine = cuda.local.array(size, float32)
            for j in range(size):
                mine[j] = v + size - j
            return mine[0]

        out[i] = reversed_at(x[i])

    assert results(kernel) == [i + 4 for i in range(9)]


def test_an_error_in_it_names_its_line():
    @cuda.jit
    def kernel(x, out):
        def f(v):
            w = v + 1
            return w + nowhere  # noqa: F821

        out[0] = f(x[0])

    with pytest.raises(TypingError, match=r"'nowhere' is not defined(.|\n)*line 3 of f"):
        results(kernel)


def test_a_store_stays_under_a_name_that_once_held_a_local_array():
    @cuda.jit
    def kernel(x, out):
        s = cuda.local.array(4, np.int64)
        double = (lambda v: 2 * v)(x[cuda.grid(1)])
        s = out
        s[cuda.grid(1)] = double

    assert results(kernel) == [*range(0, 18, 2)]


def test_what_cannot_be_kept_is_refused():
    @cuda.jit
    def in_an_expression(x, out):
        n = 0

        def count():
            nonlocal n
            n = n + 1

        if count() is None:
            out[0] = n

    with pytest.raises(Unsupported, match="count, which sets nonlocal variables, in an expression"):
        results(in_an_expression)

    @cuda.jit
    def twice(x, out):
        def f(v):
            return v

        def f(v):  # noqa: F811
            return v + 1

        out[0] = f(1)

    with pytest.raises(Unsupported, match="a second f inside a kernel"):
        results(twice)
