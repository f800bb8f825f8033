"""Branches and loops as Numba takes them: ``else`` after a loop, None, what types decide."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import TypingError

from warpsim import cuda, trace

DEBUG = False


def test_else_after_a_loop_runs_for_the_threads_that_did_not_break():
    def one(i, a, out):
        total = 0.0
        for j in range(i):
            if j == 5:
                break
            if j == 2 and i == 4:
                continue
            if i == 9:
                return
            total += a[j]
        else:
            total += 1.5
            if i == 3:
                return
        out[i] = total
        k = 0
        while k < i:
            if k == 3:
                break
            k += 1
        else:
            out[i] += 100

    device = cuda.jit(device=True)(one)

    @cuda.jit
    def kernel(a, out):
        i = cuda.grid(1)
        if i < out.size:
            device(i, a, out)

    a = np.arange(40.0)
    found, wanted = np.zeros(40), np.zeros(40)
    report = trace(kernel, 2, 32, a, found)
    for i in range(40):
        one(i, a, wanted)
    np.testing.assert_array_equal(found, wanted)
    assert not [finding for finding in report.findings if finding.is_error]


def test_break_in_the_else_of_a_loop_leaves_the_loop_around_it():
    def one(i):
        steps = 0
        for j in range(6):
            for k in range(4):
                if k + j == i:
                    break
                steps += 1
            else:
                if j >= i:
                    break
                steps += 100
        else:
            steps += 1000
        return steps

    device = cuda.jit(device=True)(one)

    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        out[i] = device(i)

    out = np.zeros(33, np.int64)
    kernel[1, 33](out)
    assert out.tolist() == [one(i) for i in range(33)]


def test_a_type_that_changes_before_the_else_is_converted():
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        x = 1
        for j in range(3):
            if i == j:
                break
        else:
            x = 0.5
        out[i] = x / 2

    out = np.zeros(5)
    kernel[1, 5](out)
    assert out.tolist() == [0.5, 0.5, 0.5, 0.25, 0.25]


def test_none_as_an_argument_of_a_function_leaves_its_branch_out():
    @cuda.jit(device=True)
    def biased(i, bias):
        value = 1.0
        if bias is not None:
            value += bias[i]
        return value if bias is None else value + bias[0]

    @cuda.jit
    def without(out):
        out[cuda.grid(1)] = biased(cuda.grid(1), None)

    @cuda.jit
    def kernel(out, bias):
        out[cuda.grid(1)] = biased(cuda.grid(1), bias)

    out = np.zeros(3)
    without[1, 3](out)
    assert out.tolist() == [1, 1, 1]
    kernel[1, 3](out, np.arange(3.0) + 1)
    assert out.tolist() == [3, 4, 5]
    with pytest.raises(NotImplementedError, match="'bias' is None: no kernel takes that"):
        kernel[1, 3](out, None)


def test_none_used_as_an_array_is_refused():
    @cuda.jit
    def kernel(out):
        bias = None
        out[0] = bias[0]

    with pytest.raises(TypingError, match="bias is None, not an array"):
        kernel[1, 1](np.zeros(1))


def test_is_of_truth_values_compares_and_of_other_types_is_false():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        positive = x[i] > 0
        out[i, 0] = positive is True
        out[i, 1] = positive is not False
        out[i, 2] = i is positive

    x = np.array([1, -1, 2, -2], np.int32)
    out = np.ones((4, 3), np.bool_)
    kernel[1, 4](x, out)
    np.testing.assert_array_equal(out, np.stack([x > 0, x > 0, x > 9], axis=1))


def test_a_branch_that_a_constant_or_the_axes_rule_out_is_not_typed():
    @cuda.jit
    def kernel(x, out):
        if DEBUG:
            out[0] = x.no_such_attribute
        if x.ndim == 2:
            out[0] = x[0, 1]
        elif x.ndim == 1:
            out[0] = x[1]
        if x.ndim > 1:
            out[0] += x.shape[1]

    out = np.zeros(1)
    kernel[1, 1](np.array([1.0, 2.0]), out)
    assert out[0] == 2
    kernel[1, 1](np.array([[1.0, 3.0]]), out)
    assert out[0] == 5


def test_statements_after_a_return_on_both_sides_are_left_out():
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        if i < 2:
            out[i] = 1
            return
        else:
            out[i] = 2
            return
        out[i] = unknown_name  # noqa: F821

    out = np.zeros(4)
    kernel[1, 4](out)
    assert out.tolist() == [1, 1, 2, 2]


def test_what_stands_in_the_middle_of_a_chain_is_evaluated_once():
    @cuda.jit
    def kernel(k, calls, out):
        i = cuda.grid(1)
        if i < out.size:
            once = 4 < k[i] + cuda.atomic.add(calls, 0, 1) * 0 != 7
            out[i] = 0 < k[i] < k[i + 1] * 2 <= k[i + 2] + 9 < 18 and once

    k = np.random.default_rng(0).integers(0, 10, 300)
    calls, out = np.zeros(1, np.int64), np.zeros(290, bool)
    kernel[10, 32](k, calls, out)
    wanted = [0 < k[i] < k[i + 1] * 2 <= k[i + 2] + 9 < 18 and 4 < k[i] != 7 for i in range(290)]
    assert out.tolist() == wanted
    assert 0 < sum(wanted) < 290
    assert calls[0] == 290
