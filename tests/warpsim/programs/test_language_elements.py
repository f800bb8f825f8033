"""Complex and structured elements, views, enumerations and named tuples, as Numba takes them."""

from __future__ import annotations

import cmath
from collections import namedtuple
from enum import Enum

import numpy as np
import pytest
from numba import complex64, float32, float64, njit
from numba.core.errors import TypingError

from tests.texts import body_of
from warpsim import cuda, trace
from warpsim.front.names import Unsupported

INNER = np.dtype([("x", np.float32), ("y", np.float64)], align=True)
PARTICLE = np.dtype(
    [("mass", np.float32), ("place", INNER), ("count", np.int16, (2, 3)), ("z", np.complex64)],
    align=True,
)
PACKED = np.dtype([("values", np.float32, (3,)), ("last", np.int16), ("flag", np.uint8)])
UNALIGNED = np.dtype([("flag", np.uint8), ("values", np.float32, (3,))])

Point = namedtuple("Point", ["x", "y"])


class Colour(Enum):
    RED = 1
    GREEN = 2


def errors(report) -> list:
    return [finding for finding in report.findings if finding.is_error]


def particles(n: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    records = np.zeros(n, PARTICLE)
    records["mass"] = random.random(n)
    records["place"]["x"], records["place"]["y"] = random.random((2, n))
    records["count"] = random.integers(-99, 99, (n, 2, 3))
    records["z"] = random.random(n) + 1j * random.random(n)
    return records


# ---------------------------------------------------------------------- complex
Z = np.array(
    [complex(a, b) for a in (-2.5, -0.0, 0.0, 0.75, 3.0) for b in (-1.5, 0.0, 0.5, 2.0)], complex
)


@pytest.mark.drawn(10)
@pytest.mark.parametrize(
    "name",
    "acos acosh asin asinh atan atanh cos cosh exp log log10 phase sin sinh sqrt tan tanh "
    "isnan isinf isfinite".split(),
)
@pytest.mark.parametrize(
    "dtype", [np.complex64, pytest.param(np.complex128, marks=pytest.mark.slow)]
)
def test_functions_of_cmath_are_numbas(name, dtype):
    function = getattr(cmath, name)

    @cuda.jit
    def kernel(z, out):
        i = cuda.grid(1)
        out[i] = function(z[i])

    compiled = njit(lambda z: function(z))
    values = Z[(np.abs(Z) > 0)].astype(dtype)
    wanted = np.array([compiled(value) for value in values])
    found = np.zeros_like(wanted)
    kernel[1, len(values)](values, found)
    np.testing.assert_allclose(found, wanted, rtol=2e-6 if dtype == np.complex64 else 1e-14)


def test_parts_conjugates_and_conversions_of_complex_numbers():
    @cuda.jit
    def kernel(z, base, out):
        i = cuda.grid(1)
        r, phi = cmath.polar(z[i])
        out[i, 0] = z[i].conjugate() * z[i].imag + z[i].real
        out[i, 1] = cmath.rect(r, phi)
        out[i, 2] = complex(z[i].imag, i)
        out[i, 3] = cmath.log(z[i], base) if z[i] != 0 else 0j
        own = z[i]
        out[i, 4] = complex(*cmath.polar(own))
        out[i, 5] = float32(2).conjugate() + complex64(i).imag

    out = np.zeros((len(Z), 6), complex)
    kernel[1, len(Z)](Z, 2j, out)
    np.testing.assert_allclose(out[:, 0], Z.conj() * Z.imag + Z.real)
    np.testing.assert_allclose(out[:, 1], Z, atol=1e-15)
    np.testing.assert_allclose(out[:, 2], Z.imag + 1j * np.arange(len(Z)))
    logs = [cmath.log(z, 2j) if z else 0 for z in Z]
    np.testing.assert_allclose(out[:, 3], logs)
    np.testing.assert_allclose(out[:, 4], [complex(*cmath.polar(z)) for z in Z])
    assert (out[:, 5] == 2).all()


def test_real_and_imaginary_parts_of_an_array_are_views_of_it():
    @cuda.jit
    def kernel(z, shares):
        i = cuda.grid(1)
        own = cuda.shared.array(8, complex64)
        own[cuda.threadIdx.x] = z[i]
        cuda.syncthreads()
        z.real[i] += 10
        z.imag[i] = own.real[7 - cuda.threadIdx.x]
        cuda.atomic.add(shares.imag, 0, 1)

    z = (np.arange(16) + 1j * np.arange(16)).astype(np.complex64)
    shares = np.zeros(1, complex)
    old = z.copy()
    report = trace(kernel, 2, 8, z, shares)
    assert not errors(report)
    np.testing.assert_array_equal(z.real, old.real + 10)
    np.testing.assert_array_equal(z.imag, old.real.reshape(2, 8)[:, ::-1].ravel())
    assert shares[0] == 16j
    assert report.total("global", "store").bytes == 16 * 4 * 2


def test_a_star_is_spelled_out_for_each_length_of_its_tuple():
    @cuda.jit(device=True)
    def two(a, b):
        return a - b

    @cuda.jit
    def kernel(out, pair):
        out[0] = two(*pair)

    out = np.zeros(1)
    kernel[1, 1](out, (5.0, 3))
    assert out[0] == 2
    with pytest.raises(TypingError, match="two takes 2 arguments, 3 given"):
        kernel[1, 1](out, (5.0, 3, 2))


# ---------------------------------------------------------------------- records
def test_fields_of_fields_and_arrays_in_records():
    @cuda.jit
    def kernel(a, out):
        i = cuda.grid(1)
        if i < a.size:
            r = a[i]
            out[i, 0] = r.mass + r.place.x * r["place"]["y"]
            out[i, 1] = r.count[1, 2] + a[i].count[0, -1]
            out[i, 2] = r.z.imag
            r.place.y = i
            r.count[i % 2, 1] += 5
            a.mass[i] = 2 * r.mass
            a["z"].real[i] = -1

    a = particles(37)
    old, out = a.copy(), np.zeros((37, 3))
    report = trace(kernel, 2, 32, a, out)
    assert not errors(report)
    i = np.arange(37)
    np.testing.assert_allclose(out[:, 0], old["mass"] + old["place"]["x"] * old["place"]["y"])
    np.testing.assert_array_equal(out[:, 1], old["count"][:, 1, 2] + old["count"][:, 0, 2])
    np.testing.assert_array_equal(out[:, 2], old["z"].imag)
    old["place"]["y"], old["mass"], old["z"].real = i, 2 * old["mass"], -1
    old["count"][i, i % 2, 1] += 5
    assert (old == a).all()


@pytest.mark.parametrize("dtype", [PARTICLE, PACKED], ids=["aligned", "packed"])
@pytest.mark.parametrize("space", ["global", "shared", "local"])
def test_whole_records_are_read_and_assigned(dtype, space):
    in_shared, in_local = space == "shared", space == "local"

    @cuda.jit
    def kernel(a, b):
        i = cuda.grid(1)
        t = cuda.threadIdx.x
        if in_shared:
            tile = cuda.shared.array(8, dtype)
            tile[t] = a[i]
            cuda.syncthreads()
            b[i] = tile[7 - t]
        elif in_local:
            mine = cuda.local.array(3, dtype)
            mine[i % 3] = a[i]
            other = mine[i % 3]
            b[i] = other
        else:
            r = a[i] if i % 2 == 0 else a[i - 1]
            b[i] = r

    random = np.random.default_rng(3)
    a = np.frombuffer(random.bytes(16 * dtype.itemsize), dtype).copy()
    for name in dtype.names:
        if a[name].dtype.kind in "fc":
            a[name] = random.random(a[name].shape)
    if dtype is PARTICLE:
        a["place"]["x"] = a["place"]["y"] = 0.5
    b = np.zeros_like(a)
    report = trace(kernel, 2, 8, a, b)
    assert not errors(report), errors(report)
    i = np.arange(16)
    order = {"global": i - i % 2, "local": i, "shared": i // 8 * 8 + 7 - i % 8}[space]
    for name in dtype.names:
        np.testing.assert_array_equal(b[name], a[name][order])


def test_a_record_is_an_argument_and_comes_back():
    @cuda.jit(device=True)
    def heavier(r, factor):
        r.mass *= factor
        return r

    @cuda.jit
    def kernel(r, out):
        changed = heavier(r, 3)
        out[0] = changed.mass
        out[1] = changed[0]
        r["count"][0, 0] = 7

    a, out = particles(2), np.zeros(2, np.float32)
    mass = a["mass"][1]
    kernel[1, 1](a[1], out)
    assert out[0] == out[1] == a["mass"][1] == np.float32(3) * mass
    assert a["count"][1, 0, 0] == 7
    on_device = cuda.to_device(a[0])
    kernel[1, 1](on_device, out)
    assert on_device.copy_to_host()["count"][0, 0] == 7


def test_arrays_are_assigned_to_slices_and_to_fields():
    @cuda.jit
    def kernel(a, r, m, values):
        r["count"] = values
        m[1:, ::2] = 4.7
        m[0, 1:4] = (1.2, 2.9, float(values[0, 1]))
        m[..., 1] = values[0, 0]
        a[2] = a[:, ...][1]

    a = particles(3)
    m = np.arange(20, dtype=np.int32).reshape(4, 5)
    wanted = m.copy()
    values = np.arange(6, dtype=np.int16).reshape(2, 3)
    r = a[0].copy()
    kernel[1, 1](a, r, m, values)
    wanted[1:, ::2] = 4
    wanted[0, 1:4] = 1, 2, 1
    wanted[..., 1] = 0
    np.testing.assert_array_equal(m, wanted)
    np.testing.assert_array_equal(r["count"], values)
    assert a[2] == a[1]


@pytest.mark.parametrize(
    ("body", "arguments", "kind", "words"),
    [
        ("a[0] = b[0]", (particles(2), np.zeros(2, PACKED)), TypingError, "Cannot cast"),
        ("a[1:] = (1, 2)", (np.zeros(9), 0), ValueError,
         "line 2: cannot assign 2 values to a slice of 8"),
        ("a[1:] = a[:8]", (np.zeros(9), 0), TypingError, "NRT required"),
        ('a[0]["count"] = b', (particles(2), np.zeros((2, 3), np.float32)), TypingError,
         "takes an array of its own type"),
        ("b[0] = a[0].values[1]", (np.zeros(2, UNALIGNED), np.zeros(1)), TypingError,
         "values of type float32 is not aligned"),
        ("b[0] = a[0].name == a[1].name", (np.zeros(2, [("name", "U4")]), np.zeros(1)),
         Unsupported, "a field of type"),
        ("a[::2].reshape(3, 1)[0, 0] = 1", (np.zeros(6), 0), TypingError, "contiguous"),
        ("a.reshape(4, 4)[0, 0] = 1", (np.zeros(6), 0), ValueError,
         "size of new array must be unchanged"),
        ("a.copy()", (np.zeros(6), 0), TypingError, "NRT required but not enabled"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(body, arguments, kind, words):
    with pytest.raises(kind, match=words):
        cuda.jit(body_of("a, b", body))[1, 1](*arguments)


# ---------------------------------------------------------------------- views
def test_views_whose_limits_differ_by_thread():
    @cuda.jit
    def kernel(x, y, out):
        i = cuda.grid(1)
        tail = x[i:]
        part = x[1 : i + 1 : 2]
        back = x[i::-1]
        out[i, 0] = tail.shape[0]
        out[i, 1] = tail[0]
        out[i, 2] = tail[-1]
        total = 0.0
        for j in range(len(part)):
            total += part[j]
        out[i, 3] = total
        out[i, 4] = len(back)
        out[i, 5] = back[i // 2]
        y[i:][:2][0] += 100.0

    x = np.random.default_rng(0).random(11)
    y, out = x.copy(), np.zeros((11, 6))
    report = trace(kernel, 1, 11, x, y, out)
    assert not errors(report)
    for i in range(11):
        tail, part, back = x[i:], x[1 : i + 1 : 2], x[i::-1]
        row = [len(tail), tail[0], tail[-1], part.sum(), len(back), back[i // 2]]
        np.testing.assert_allclose(out[i], row)
    np.testing.assert_allclose(y, x + 100)


def test_a_view_by_thread_keeps_its_own_bounds():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        head = x[:i]
        out[i] = head[i]

    report = trace(kernel, 1, 5, np.arange(9.0), np.zeros(5))
    (finding,) = [finding for finding in errors(report) if finding.kind == "out-of-bounds"]
    assert finding.line == 4 and "size 0 (5 threads in all)" in finding.message


def test_reshaped_and_reinterpreted_arrays_share_their_memory():
    @cuda.jit
    def kernel(x, bits, out):
        i = cuda.grid(1)
        y = x.reshape(3, -1)
        z = x.reshape((2, 3))
        out[i] = y[i % 3, i % 2] + z[i % 2, i % 3]
        bits[i] = x.view(np.int32)[i]
        x[2:4].view(np.uint8)[i] = 0

    x = np.arange(6, dtype=np.float32) + 1
    old, out, bits = x.copy(), np.zeros(6, np.float32), np.zeros(6, np.int32)
    kernel[1, 6](x, bits, out)
    i = np.arange(6)
    wanted = old.reshape(3, 2)[i % 3, i % 2] + old.reshape(2, 3)[i % 2, i % 3]
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(bits, old.view(np.int32))
    old[2:4].view(np.uint8)[:6] = 0
    np.testing.assert_array_equal(x, old)


# ---------------------------------------------------------------------- enumerations, tuples
def test_members_of_enumerations_are_compared_passed_and_returned():
    @cuda.jit(device=True)
    def choose(first):
        return Colour.RED if first else Colour["GREEN"]

    @cuda.jit
    def kernel(given, out):
        i = cuda.grid(1)
        out[i, 0] = choose(i < 2) == Colour.RED
        out[i, 1] = given is Colour.GREEN
        out[i, 2] = choose(i > 0) != given
        out[i, 3] = given.value

    out = np.zeros((4, 4), np.int8)
    kernel[1, 4](Colour.GREEN, out)
    wanted = [[i < 2, True, i > 0, 2] for i in range(4)]
    np.testing.assert_array_equal(out, np.array(wanted, np.int8))


def test_fields_of_named_tuples_have_their_own_types():
    @cuda.jit
    def kernel(p, q, out):
        out[0] = p.x + q.y
        x, y = p
        out[1] = y / 2 + len(p) + q[0]

    out = np.zeros(2)
    kernel[1, 1](Point(1, 2.5), Point(3, 4), out)
    assert out.tolist() == [5, 6.25]
    with pytest.raises(TypingError, match="Unknown attribute 'x'"):
        kernel[1, 1]((1, 2), Point(3, 4), out)


def _doubled_in(s, x, out):
    """Each thread's two floats of shared memory as one double."""
    t = cuda.threadIdx.x
    own = s[2 * t : 2 * t + 2].view(float64)
    own[0] = 2 * x[cuda.grid(1)]
    cuda.syncthreads()
    out[cuda.grid(1)] = s.view(float64)[cuda.blockDim.x - 1 - t]


def test_shared_memory_as_elements_of_another_size():
    doubled = cuda.jit(device=True)(_doubled_in)

    @cuda.jit
    def fixed(x, out):
        doubled(cuda.shared.array(64, float32), x, out)

    @cuda.jit
    def dynamic(x, out):
        doubled(cuda.shared.array(0, float32), x, out)

    x = np.arange(96.0)
    expected = 2 * x.reshape(3, 32)[:, ::-1].reshape(-1)
    for kernel, size in ((fixed, 0), (dynamic, 256)):
        plain, traced = np.zeros(96), np.zeros(96)
        kernel[3, 32, 0, size](x, plain)
        report = trace(kernel, 3, 32, x, traced, dynamic_shared=size)
        assert (plain == expected).all() and (traced == expected).all()
        assert not {finding.kind for finding in report.findings} & {"race", "uninitialised-read"}


def test_a_view_of_another_size_is_watched_and_lies_on_whole_elements():
    @cuda.jit
    def hasty(x, out):
        s = cuda.shared.array(64, float32).view(float64)
        t = cuda.threadIdx.x
        s[t] = x[t]
        out[t] = s[31 - t]

    @cuda.jit
    def astride(out):
        s = cuda.shared.array(64, float32)
        out[0] = s[1:3].view(float64)[0]

    report = trace(hasty, 1, 32, np.ones(32), np.zeros(32))
    assert "race" in {finding.kind for finding in report.findings}
    with pytest.raises(Unsupported, match="no multiple of 8 bytes"):
        astride[1, 1](np.zeros(1))
