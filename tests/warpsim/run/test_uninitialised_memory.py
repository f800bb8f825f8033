"""Device memory that nobody has set: found where it reaches a result, and only there."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from warpsim import cuda, trace

SIZE = 24
PROGRAMS, QUICK = int(os.environ.get("COURSE_DRAWS", "300")), 12


@cuda.jit
def fills(d, first, last):
    i = cuda.grid(1)
    if first <= i < last:
        d[i] = 1


@cuda.jit
def copies(d, first, last, out):
    i = cuda.grid(1)
    if first <= i < last:
        out[i] = d[i]


@cuda.jit
def adds(d, first, last):
    i = cuda.grid(1)
    if first <= i < last:
        cuda.atomic.add(d, i, 1)


@cuda.jit
def counts_passes(d, first, last, out):
    for i in range(first, last):
        for _ in range(int(d[i]) % 5):
            out[cuda.grid(1)] += 1


@cuda.jit
def throws_away(d, first, last, out):
    i = cuda.grid(1)
    value = d[i]
    if first <= i < last:
        out[i] = value


def reads_the_unset(kernel, *arguments):
    found = [f for f in trace(kernel, 1, SIZE, *arguments).findings if f.is_error]
    assert {f.kind for f in found} <= {"uninitialised-read"}, found
    return bool(found)


@pytest.mark.parametrize(
    "seed",
    [pytest.param(s, marks=pytest.mark.slow if s >= QUICK else ()) for s in range(PROGRAMS)],
)
def test_what_was_set_by_the_host_and_by_kernels_may_be_read(seed):
    r = random.Random(seed)
    dtype = np.dtype(r.choice(("f4", "f8", "i4", "i8")))
    whole = cuda.device_array(SIZE + 8, dtype)
    if r.random() < 0.3:
        whole = cuda.device_array_like(whole)
    start = r.choice((0, 4))
    known, out = np.zeros(SIZE, bool), np.zeros(SIZE)
    for _ in range(r.randrange(2, 8)):
        d = whole[start : start + SIZE]
        first, last = sorted((r.randrange(SIZE + 1), r.randrange(SIZE + 1)))
        part, act = slice(first, last), r.randrange(9)
        if act == 0:
            d[part] = 1
        elif act == 1 and last > first:
            d[part].copy_to_device(np.ones(last - first, dtype))
        elif act == 2 and r.random() < 0.2:
            fills[1, SIZE](whole, first, last)  # not traced: it may have set any
            known[:] = True
        elif act == 3:
            assert not reads_the_unset(fills, d, first, last)
        elif act == 4:
            assert reads_the_unset(adds, d, first, last) == (not known[part].all())
        elif act == 5:
            assert reads_the_unset(throws_away, d, first, last, out) == (not known[part].all())
        elif act == 6:
            found = reads_the_unset(counts_passes, d, first, last, out)
            assert found == (not known[part].all())
        else:
            assert reads_the_unset(copies, d, first, last, out) == (not known[part].all())
        known[part] |= act in (0, 1, 3, 4)


def test_others_who_write_there_are_seen():
    @cuda.vectorize(["float64(float64)"])
    def double(x):
        return 2 * x

    for write in (
        lambda d: double(np.full(SIZE, np.nan), out=d),
        lambda d: cuda.to_device(np.ones(SIZE), to=d),
        lambda d: cuda.as_cuda_array(d).copy_to_device(np.ones(SIZE)),
        lambda d: cuda.as_cuda_array(d).setitem(slice(None), 3),
        lambda d: cuda.from_cuda_array_interface(d.__cuda_array_interface__).setitem(3, 3),
        lambda d: d.view(np.int64)[:].copy_to_device(np.arange(SIZE)),
        lambda d: d.reshape(4, -1)[:].copy_to_device(np.ones((4, 6))),
    ):
        d = cuda.device_array(SIZE)
        write(d)
        assert not reads_the_unset(copies, d, 3, 4, np.zeros(SIZE))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_of_a_mapped_array_it_is_seen_what_the_host_has_set(dtype):
    d = cuda.mapped_array(SIZE, dtype)
    d[: SIZE - 2] = np.nan
    out = np.zeros(SIZE, dtype)
    assert not reads_the_unset(copies, d, 0, SIZE - 2, out)
    assert reads_the_unset(copies, d, 2, SIZE, out)
    d.fill(0)
    assert not reads_the_unset(copies, d, 0, SIZE, out)


def test_an_array_from_outside_the_kernel_and_what_to_do():
    total = cuda.device_array(1, np.float32)

    @cuda.jit
    def sums(x):
        cuda.atomic.add(total, 0, x[cuda.grid(1)])

    report = trace(sums, 1, 8, np.ones(8, np.float32))
    (found,) = [f for f in report.findings if f.is_error]
    assert found.kind == "uninitialised-read" and "total[:] = 0" in found.message
    total[0] = 0
    assert not [f for f in trace(sums, 1, 8, np.ones(8, np.float32)).findings if f.is_error]


def test_a_copy_of_what_was_never_set_sets_nothing():
    for copy in (
        lambda to, of: to.copy_to_device(of),
        lambda to, of: to.setitem(slice(None), of),
    ):
        of, to, out = cuda.device_array(SIZE), cuda.device_array(SIZE), np.zeros(SIZE)
        of[:4] = 1
        copy(to, of)
        assert not reads_the_unset(copies, to, 0, 4, out)
        assert reads_the_unset(copies, to, 0, 5, out)
