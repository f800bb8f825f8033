"""Races between arrays that lie over each other: parts of one device array, other element sizes."""

from __future__ import annotations

import numpy as np
import pytest

from warpsim import cuda, trace

SIZE, THREADS = 256, 64


@cuda.jit
def copy(x, out):
    i = cuda.grid(1)
    if i < x.size and i < out.size:
        out[i] = x[i]


@cuda.jit
def set_both(a, b):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = 1
    if i < b.size:
        b[i] = 2


@cuda.jit
def of_a_tuple(pair):
    i = cuda.grid(1)
    if i < 127:
        pair[1][i] = pair[0][i]


def races(kernel, *arguments):
    report = trace(kernel, SIZE // THREADS, THREADS, *arguments)
    return [f for f in report.findings if f.kind == "race"]


def numbers(dtype=np.float32, shape=SIZE):
    return cuda.to_device(np.arange(np.prod(shape), dtype=dtype).reshape(shape))


@pytest.mark.parametrize("offset", [1, 31, 64, 100])
def test_a_copy_into_the_next_elements_races(offset):
    d = numbers()
    (found,) = races(copy, d[: SIZE - offset], d[offset:])
    assert found.code in ("x[i]", "out[i]")
    (found,) = races(copy, d[offset:], d[: SIZE - offset])
    assert "out[" in found.message or "x[" in found.message


def test_the_element_is_named_as_in_its_own_array():
    @cuda.jit
    def one(a, b):
        i = cuda.grid(1)
        if i == 0:
            a[10] = 1
        if i == 100:
            b[7] = 2

    d = numbers()
    (found,) = races(one, d[:128], d[3:])
    assert "b[7]" in found.message and found.where.thread == (100 % THREADS, 0, 0)


def test_parts_that_do_not_meet_do_not_race():
    d = numbers()
    assert not races(copy, d[:128], d[128:])
    assert not races(set_both, d[:128], d[128:])
    assert not races(set_both, d[::2], d[1::2])
    m = numbers(shape=(16, 16))
    assert not races(set_both, m[:, 3], m[:, 4]) and not races(set_both, m[2], m[3])


def test_parts_that_meet_do():
    m = numbers(shape=(16, 16))
    assert races(set_both, m[:, 3], m[2]) and races(set_both, m.reshape(256)[::2], m[3])


def test_the_same_element_by_the_same_thread_is_no_race():
    d = numbers()
    assert not races(copy, d, d) and not races(set_both, d, d)
    assert not races(set_both, d, d.reshape(SIZE))


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.float64])
def test_the_same_bytes_as_other_elements_are_seen(kind):
    d = numbers()
    other = d.view(kind)
    same = np.dtype(kind).itemsize == 4
    assert bool(races(set_both, d, other)) is not same
    assert bool(races(copy, other, d)) is not same


def test_a_tuple_of_parts_is_watched():
    d = numbers()
    assert races(of_a_tuple, (d[:128], d[1:])) and not races(of_a_tuple, (d[:128], d[128:]))


def test_a_device_array_from_outside_over_an_argument():
    outside = numbers()

    @cuda.jit
    def shift(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = outside[i]

    assert races(shift, outside[1:]) and not races(shift, outside)


def test_two_host_arrays_are_copied_apart_and_do_not_race():
    x = np.zeros(SIZE, np.float32)
    assert not races(copy, x[:128], x[1:])


def test_the_transposed_device_array_is_a_new_one():
    """As in Numba, so that it does not race; as a view inside the kernel it does."""

    @cuda.jit
    def transpose(x, out):
        i, j = cuda.grid(2)
        out[i, j] = x[j, i]

    @cuda.jit
    def in_place(x):
        i, j = cuda.grid(2)
        x[i, j] = x.T[i, j]

    d = numbers(shape=(16, 16))
    for kernel, given, wanted in ((transpose, (d, d.T), False), (in_place, (d,), True),
                                  (transpose, (d, d), True)):  # fmt: skip
        found = [f for f in trace(kernel, (4, 4), (4, 4), *given).findings if f.kind == "race"]
        assert bool(found) is wanted
