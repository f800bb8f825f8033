"""Records and complex numbers in kernels."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import NumbaError

from tests.warpsim.the_course import cuda
from warpsim import trace

PARTICLE = np.dtype([("x", np.float32), ("v", np.float32), ("hits", np.int32)])


def particles(n):
    rng = np.random.default_rng(n)
    out = np.zeros(n, PARTICLE)
    out["x"], out["v"] = rng.random(n), rng.random(n) - 0.5
    return out


@cuda.jit
def step(p):
    i = cuda.grid(1)
    if i < p.size:
        p[i].x += p[i].v
        if p[i]["x"] > 1:
            p[i]["x"] = 1
            p[i].hits += 1
        one = p[i]
        one.v = -one["v"]


def test_records_have_fields():
    p = particles(70)
    step[3, 32](p)
    q = particles(70)
    q["x"] += q["v"]
    q["hits"] = q["x"] > 1
    q["x"] = np.minimum(q["x"], 1)
    q["v"] *= -1
    for name in PARTICLE.names:
        np.testing.assert_allclose(p[name], q[name], rtol=1e-6)


def test_records_are_traced_field_by_field():
    p = particles(64)

    @cuda.jit
    def read(p, out):
        i = cuda.grid(1)
        out[i] = p[i].v

    report = trace(read, 2, 32, p, np.zeros(64, np.float32))
    loads = report.total("global", "load")
    assert loads.requests == 2
    assert loads.sectors == 2 * 12  # 32 records of 12 bytes are 384 bytes, 12 sectors, all touched
    assert loads.ideal_sectors == 2 * 4
    assert not [f for f in report.findings if f.is_error]


def test_different_fields_of_one_record_do_not_race():
    @cuda.jit
    def fields(p):
        t = cuda.threadIdx.x
        if t % 2 == 0:
            p[t // 2].x = t
        else:
            p[t // 2].v = t

    p = particles(16)
    assert not [f for f in trace(fields, 1, 32, p).findings if f.is_error]
    assert p["v"].tolist() == list(range(1, 32, 2))


def test_an_unknown_field_is_named():
    @cuda.jit
    def unknown(p):
        p[0].mass = 1

    with pytest.raises(NumbaError, match="mass"):
        trace(unknown, 1, 1, particles(2))


def test_complex_numbers():
    @cuda.jit
    def squares(z, out, size):
        i = cuda.grid(1)
        if i < z.size:
            w = z[i] * z[i] + 1j
            out[i] = w
            size[i] = w.real * w.real + w.imag * w.imag + abs(z[i])

    rng = np.random.default_rng(0)
    z = (rng.random(40) + 1j * rng.random(40)).astype(np.complex64)
    out, size = np.zeros(40, np.complex128), np.zeros(40)
    squares[2, 32](z, out, size)
    wanted = z.astype(np.complex128) ** 2 + 1j
    np.testing.assert_allclose(out, wanted, rtol=1e-6)
    np.testing.assert_allclose(size, np.abs(wanted) ** 2 + np.abs(z), rtol=1e-6)


def test_float16_storage_and_arithmetic():
    @cuda.jit
    def halves(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] * x[i] + x[i]

    x = np.random.default_rng(0).random(50).astype(np.float16)
    out = np.zeros_like(x)
    report = trace(halves, 2, 32, x, out)
    np.testing.assert_allclose(out, x * x + x, rtol=2e-3)
    assert report.operations["float16"] == 100
    assert report.operations["float64"] == 0
