"""Device functions that call themselves."""

from __future__ import annotations

import numpy as np
import pytest
from numba import types
from numba.core.errors import TypingError

from warpsim import cuda, trace


@cuda.jit("int64(int64)", device=True)
def declared(n):
    if n < 2:
        return n
    return declared(n - 1) + declared(n - 2)


@cuda.jit("float32(float32)", device=True)
def in_float32(n):
    if n < np.float32(1):
        return n
    return in_float32(n / 3) + n


@cuda.jit(device=True)
def gcd(a, b):
    if b == 0:
        return a
    return gcd(b, a % b)


@cuda.jit(device=True)
def calls_itself_first(n):
    if n > 0:
        return calls_itself_first(n - 1) + 1.5
    return 0


@cuda.jit(device=True)
def hanoi(n):
    own = cuda.local.array(1, types.int64)  # of each call, as on a stack
    own[0] = n
    moves = 0 if n == 0 else hanoi(n - 1) + 1 + hanoi(n - 1)
    return moves + own[0] - n


@cuda.jit(device=True)
def sort(a, low, high):
    if low < high:
        pivot, i = a[high], low
        for j in range(low, high):
            if a[j] < pivot:
                kept = a[i]
                a[i] = a[j]
                a[j] = kept
                i += 1
        a[high] = a[i]
        a[i] = pivot
        sort(a, low, i - 1)
        sort(a, i + 1, high)


@cuda.jit(device=True)
def first_odd(n):
    if n % 2 == 1:
        return n
    if n > 20:
        return None
    return first_odd(n + 2 if n < 10 else n + 1)


def each(function, n):
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        out[i] = function(i)

    out = np.zeros(n)
    kernel[1, n](out)
    findings = trace(kernel, 1, n, np.zeros(n)).findings
    assert not {"race", "out-of-bounds", "uninitialised-read"} & {f.kind for f in findings}
    return list(out)


def test_each_thread_goes_as_deep_as_it_must():
    assert each(declared, 16) == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610]
    assert each(calls_itself_first, 40) == [1.5 * i for i in range(40)]
    assert each(hanoi, 7) == [0, 1, 3, 7, 15, 31, 63]


def test_random_pairs_and_rows():
    @cuda.jit
    def kernel(a, b, out, rows):
        i = cuda.grid(1)
        out[i] = gcd(a[i], b[i])
        sort(rows[i], i * 0, rows.shape[1] - 1)  # a literal 0 has another type

    generator = np.random.default_rng(3)
    a, b = generator.integers(1, 1000, (2, 100))
    rows, out = generator.integers(0, 50, (100, 17)), np.zeros(100, np.int64)
    expected = np.sort(rows, 1)
    kernel[1, 100](a, b, out, rows)
    assert (out == np.gcd(a, b)).all() and (rows == expected).all()


def test_the_declared_types_are_those_of_the_calls_inside():
    @cuda.jit
    def kernel(out):
        out[0] = in_float32(10.0)

    out = np.zeros(1)
    kernel[1, 1](out)
    n, expected = np.float32(10), np.float32(0)
    terms = []
    while n >= 1:
        terms.append(n)
        n = np.float32(np.float64(n) / 3)
    expected = n
    for term in reversed(terms):
        expected = np.float32(expected + term)
    assert out[0] == expected


def test_its_result_may_be_none():
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        found = first_odd(2 * i)
        out[i] = -1 if found is None else found

    out = np.zeros(13)
    kernel[1, 13](out)
    assert list(out) == [11] * 6 + [13, 15, 17, 19, 21, -1, -1]


def test_one_that_never_ends_is_refused_or_stopped():
    @cuda.jit(device=True)
    def runaway(x):
        return runaway(x)

    with pytest.raises(TypingError, match="cannot type infer runaway recursion"):

        @cuda.jit("void()")
        def kernel():
            runaway(1)

    @cuda.jit(device=True)
    def deeper(n):
        if n == -1:
            return 0
        return deeper(n + 1)

    with pytest.raises(RecursionError, match="deeper calls itself more than 1,000 times deep"):
        each(deeper, 2)


def test_a_result_that_grows_is_refused():
    @cuda.jit(device=True)
    def grows(n):
        if n <= 0:
            return (n,)
        return (n, grows(n - 1))

    with pytest.raises(TypingError, match="does not converge|Can't unify"):
        each(grows, 2)
