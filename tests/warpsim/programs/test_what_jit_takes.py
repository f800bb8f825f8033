"""What cuda.jit is given that is no plain function, and words that Python has for several."""

import functools

import numpy as np
import pytest
from numba import float32
from numba.core.errors import TypingError

from warpsim import KernelError, Unsupported, cuda, trace


class Callable:
    def __call__(self, x):
        x[0] = 1


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Callable, "the class Callable"),
        (Callable(), "a Callable"),
        (Callable().__call__, "a method"),
        (functools.partial(Callable()), "a partial"),
        (len, "a builtin_function_or_method"),
    ],
)
def test_jit_of_what_is_no_function_says_what_it_is(value, what):
    for decorate in (cuda.jit, cuda.jit(device=True)):
        with pytest.raises(TypeError, match=f"written with def, not {what}:"):
            decorate(value)


def test_a_kernel_that_another_decorator_wrapped_is_named():
    def logged(function):
        @functools.wraps(function)
        def around(x):
            return function(x)

        return around

    @cuda.jit
    @logged
    def kernel(x):
        x[0] = 1

    with pytest.raises(Unsupported, match="kernel is decorated: what runs is 'around'"):
        kernel[1, 1](np.zeros(1))


def test_one_of_several_numbers():
    @cuda.jit
    def choose(x):
        i = cuda.grid(1)
        if i in (2, 5):
            x[i] = 1
        if i not in (2, 3):
            x[i] += 2

    x = np.zeros(8)
    choose[1, 8](x)
    assert x.tolist() == [2, 2, 1, 0, 2, 3, 2, 2]


def test_a_slice_of_fixed_length_is_unpacked():
    @cuda.jit
    def unpack(x, rows, out):
        a, b, c = x[:3]
        first, second = rows[1:3]
        out[0] = 100 * a + 10 * b + c
        out[1] = first[0] + second[1]

    out = np.zeros(2)
    unpack[1, 1](np.arange(1.0, 9.0), np.arange(8.0).reshape(4, 2), out)
    assert out.tolist() == [123, 2 + 5]


def test_unpacking_beyond_the_end_is_found():
    @cuda.jit
    def unpack(x):
        a, b, c = x[1:4]
        x[0] = a + b + c

    with pytest.raises(KernelError, match="out-of-bounds"):
        unpack[1, 1](np.zeros(3))


def test_a_loop_over_a_list_of_numbers():
    @cuda.jit
    def add(x):
        i = cuda.grid(1)
        for j in [1, 2, 4]:
            x[i] += j * i

    x = np.zeros(4)
    add[1, 4](x)
    assert x.tolist() == [0, 7, 14, 21]


def test_the_elements_of_an_array_are_unpacked():
    @cuda.jit
    def unpack(pairs, cube, out):
        i = cuda.grid(1)
        x, y = pairs[i]
        first, second = cube[i]
        out[i] = 100 * x + 10 * y + first[0] + second[1]
        for a, b in pairs:
            out[i] += a * b

    pairs, cube, out = np.arange(6.0).reshape(3, 2), np.arange(12.0).reshape(3, 2, 2), np.zeros(3)
    unpack[1, 3](pairs, cube, out)
    expected = pairs @ [100, 10] + cube[:, 0, 0] + cube[:, 1, 1] + pairs.prod(1).sum()
    assert (out == expected).all()
    with pytest.raises(ValueError, match="line 3: pairs.* has more than the 2 elements"):
        unpack[1, 3](np.zeros((3, 3)), cube, out)
    found = trace(unpack, 1, 3, pairs[:, :1].copy(), cube, out).findings
    (finding,) = [f for f in found if f.line == 3]
    assert finding.kind == "out-of-bounds" and finding.code == "pairs[i]"


def test_ranges_and_views_that_end_elsewhere_in_each_thread():
    @cuda.jit
    def loops(x, out):
        i = cuda.grid(1)
        for a, b in zip(range(i), range(2, 20, 3)):
            if a == 5:
                break
            out[i] += a * b
        for k, value in enumerate(x[i:]):
            if k == 2:
                continue
            out[i] += k * value
        for k, a in enumerate(range(5, i, -1)):
            out[i] += k - a
        out[i] += x[i:].sum() + np.mean(x[: i + 1])

    def one(i):
        out = sum(a * b for a, b in zip(range(min(i, 5)), range(2, 20, 3)))
        out += sum(k * value for k, value in enumerate(x[i:]) if k != 2)
        out += sum(k - a for k, a in enumerate(range(5, i, -1)))
        return out + x[i:].sum() + x[: i + 1].mean()

    x, out = np.arange(9.0), np.zeros(9)
    loops[3, 3](x, out)
    np.testing.assert_allclose(out, [one(i) for i in range(9)])
    assert not [f for f in trace(loops, 3, 3, x, out).findings if f.is_error]


def test_sums_of_and_assignments_to_views_that_end_elsewhere_in_each_thread():
    @cuda.jit
    def fill(x, y, out):
        i = cuda.grid(1)
        x[i, i:] = i + 1
        x[i, :i] = -i
        out[i] = y[i:, 1 : i + 1].sum()

    x, y, out = np.zeros((5, 5)), np.arange(30.0).reshape(5, 6), np.zeros(5)
    fill[1, 5](x, y, out)
    rows, columns = np.mgrid[:5, :5]
    assert (x == np.where(columns >= rows, rows + 1, -rows)).all()
    assert out.tolist() == [y[i:, 1 : i + 1].sum() for i in range(5)]


def test_the_sum_of_a_tuple_and_of_an_array():
    @cuda.jit
    def add(x, out):
        i = cuda.grid(1)
        mixed = (x[i], i, 2)
        out[i] = sum(mixed) + sum(x) + sum((1, i)) + sum((True, i > 0))

    x, out = np.arange(8, dtype=np.float32), np.zeros(8)
    add[2, 4](x, out)
    assert (out == 3 * x + 3 + x.sum() + 1 + (x > 0)).all()


def test_a_type_by_another_name():
    @cuda.jit
    def alias(x):
        dtype = float32
        value = np.float64
        value = x[0]
        room = cuda.local.array(1, dtype)
        room[0] = 0.1
        x[0] = room[0] + value + dtype(0)

    x = np.zeros(1)
    alias[1, 1](x)
    assert x[0] == np.float32(0.1)


def test_conversions_and_other_names_that_numba_takes():
    @cuda.jit
    def kernel(a, x, flag, pair, o, c):
        i = cuda.grid(1)
        atomic = cuda.atomic
        if i == 0:
            a[:x] = 3
            a[flag:x:True] = 4
            a[6:None] = 9
        atomic.add(c, x, 1)
        atomic.add(o, (x, flag), 1)
        if i < 3 and pair and x:
            atomic.add(c, flag, 1)
        if not (i < 4 and ()) and hasattr(a, "size") and not bool(()):
            atomic.add(c, 0, 1)
        if "" or i == 0 or None:
            atomic.add(c, 4, 1)
        matched = cuda.match_any_sync(-1, i > 1)
        if i == 5:
            c[3] = matched
        empty = ()
        c[5 + len(empty)] = hasattr(i, "size") or bool(pair)

    a, o, c = np.zeros(8), np.zeros((4, 4)), np.zeros(6)
    kernel[1, 32](a, 2.9, True, (1, 2), o, c)
    assert a.tolist() == [3, 4, 0, 0, 0, 0, 9, 9]
    assert o[2, 1] == o.sum() == 32
    assert c.tolist() == [32, 3, 32, -4, 1, 1]


def test_a_variable_that_names_a_function_holds_no_older_value():
    @cuda.jit
    def kernel(x):
        value = 5
        value = float32
        x[0] = value

    with pytest.raises(TypingError, match="has no value"):
        kernel[1, 1](np.zeros(1))
