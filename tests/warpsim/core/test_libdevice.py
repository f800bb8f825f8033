"""cuda.libdevice against Python's own functions, and against the declarations of numba-cuda."""

import math
import os
import re
from fractions import Fraction

import numpy as np
import pytest
from numba import types

from warpsim import cuda
from warpsim.core import arithmetic, libdevice
from warpsim.front.names import KERNEL_NAMES

X = np.array([0.25, 0.5, 0.75, 0.9])
BY_MATH = [
    "acos", "asin", "atan", "atanh", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "fabs",
    "floor", "lgamma", "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh",
    "trunc", "cbrt", "exp2",
]  # fmt: skip


def _kernel(function):
    @cuda.jit
    def each(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = function(x[i])

    return each


@pytest.mark.parametrize("name", BY_MATH)
@pytest.mark.parametrize("end, dtype", [("", np.float64), ("f", np.float32)])
def test_as_pythons_math(name, end, dtype):
    out = np.zeros(4)
    _kernel(getattr(cuda.libdevice, name + end))[1, 32](X.astype(dtype), out)
    expected = [getattr(math, name)(float(x)) for x in X.astype(dtype)]
    np.testing.assert_allclose(
        out, expected, rtol=4 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).eps
    )
    if dtype is np.float32:
        assert (out == out.astype(np.float32)).all()


@cuda.jit
def several(x, out, bits):
    i = cuda.grid(1)
    if i < x.size:
        s, c = cuda.libdevice.sincosf(x[i])
        out[0, i] = s * s + c * c
        out[1, i] = cuda.libdevice.fast_fdividef(x[i], 2)
        out[2, i] = cuda.libdevice.saturatef(x[i] * 2 - 1)
        out[3, i] = cuda.libdevice.powif(x[i], 3)
        out[4, i] = cuda.libdevice.int_as_float(cuda.libdevice.float_as_int(x[i]))
        bits[i] = cuda.libdevice.float_as_int(x[i]) + cuda.libdevice.llmax(i, 2)


def test_results_that_are_no_plain_numbers():
    x, out, bits = X.astype(np.float32), np.zeros((5, 4), np.float32), np.zeros(4, np.int64)
    several[1, 32](x, out, bits)
    expected = [np.ones(4), x / 2, np.clip(2 * x - 1, 0, 1), x**3, x]
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert (bits == x.view(np.int32) + np.maximum(np.arange(4), 2)).all()


def test_types_are_those_that_numba_declares():
    declared = pytest.importorskip("numba.cuda.libdevicefuncs")
    lacking = {*declared.functions} - {f"__nv_{name}" for name in libdevice.CALLS}
    assert lacking <= {"__nv_nan", "__nv_nanf"}  # of a text, which older releases declare
    for name, (_, result, operands) in libdevice.CALLS.items():
        signature = declared.create_signature(*declared.functions[f"__nv_{name}"])
        assert [str(kind) for kind in signature.args] == [str(kind) for kind in operands], name
        assert str(signature.return_type) == str(result), name


# ---------------------------------------------------------------------- drawn: all that Numba has
INTEGERS = [0, 1, -1, 2, 7, 0x4321, 0x7FFFFFFF, -0x80000000, 0x800000, -0x800001]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, 1e-45, -1e-40, 3e38, -3e38, 1e-310, 1e300, 2.0**31,
          -(2.0**31), 2.0**63, 2.0**64, 1 / 3, math.inf, -math.inf, math.nan]  # fmt: skip


def _drawn(rng, kind, count):
    """Lanes of a type: half of them at its ends and between its steps, half anywhere."""
    if kind in (types.float32, types.float64):
        dtype = np.dtype(str(kind))
        anywhere = rng.integers(0, 1 << 8 * dtype.itemsize, count, np.uint64)
        bits = anywhere.astype(f"u{dtype.itemsize}").view(dtype)
        near = (rng.standard_normal(count) * 2.0 ** rng.integers(-5, 40, count)).astype(dtype)
        with np.errstate(over="ignore"):
            ends = rng.choice(FLOATS, count).astype(dtype)
        return np.choose(rng.integers(0, 3, count), [bits, near, ends])
    info = np.iinfo(str(kind))
    anywhere = rng.integers(info.min, info.max, count, np.int64, endpoint=True)
    ends = rng.choice([n for n in INTEGERS if info.min <= n <= info.max], count)
    return np.where(rng.random(count) < 0.5, anywhere, ends).astype(str(kind))


def _between(value, exact, mode):
    """Is a float what an exact number is rounded to? By its neighbours."""
    value = value[()]
    with np.errstate(over="ignore"):
        low, high = (np.nextafter(value, value.dtype.type(side)) for side in (-np.inf, np.inf))
    number, below, above = (
        Fraction(float(x)) if np.isfinite(x) else float(x) for x in (value, low, high)
    )
    if number == exact:
        return True
    if mode == "rn":
        if isinstance(number, float):  # beyond the largest
            return abs(exact) > abs(Fraction(float(low if number > 0 else high)))
        beside = above if exact > number else below
        return isinstance(beside, float) or 2 * abs(exact - number) <= abs(beside - number)
    down = mode == "rd" or (mode == "rz" and exact > 0)
    return number < exact < above if down else below < exact < number


EXACTLY = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b, "rcp": lambda a: 1 / a, "fma": lambda a, b, c: a * b + c,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_directions_are_the_exact_results_neighbours(seed):
    rng, count = np.random.default_rng(seed), int(os.environ.get("COURSE_DRAWS", 16))
    pattern = re.compile(r"[fd]?(add|sub|mul|div|rcp|fma)f?_(r[nduz])")
    for name, (_, _, operands) in libdevice.CALLS.items():
        found, run = pattern.fullmatch(name), libdevice.runs(name)[0]
        for _ in range(count if found else 0):
            values = [_drawn(rng, one, 1)[0] for one in operands]
            with np.errstate(all="ignore"):
                result = np.asarray(run(*values))
            divides = found[1] in ("div", "rcp") and values[-1] == 0
            if np.isfinite(values).all() and not divides:
                exact = EXACTLY[found[1]](*map(Fraction, map(float, values)))
                assert _between(result, exact, found[2]), (seed, name, values, result)


@pytest.mark.parametrize("seed", range(2))
def test_conversions_in_a_direction(seed):
    rng, count = np.random.default_rng(seed), int(os.environ.get("COURSE_DRAWS", 16))
    pattern = re.compile(r"(float|double|u?int|u?ll)2(float|double|u?int|u?ll)_(r[nduz])")
    whole = {"rd": math.floor, "ru": math.ceil, "rz": math.trunc, "rn": round}
    for name, (_, _, operands) in libdevice.CALLS.items():
        found, run = pattern.fullmatch(name), libdevice.runs(name)[0]
        for value in _drawn(rng, operands[0], count) if found else ():
            with np.errstate(all="ignore"):
                result = np.asarray(run(value))
            given = f"{seed}: {name}({value!r}) = {result!r}"
            if found[2] in ("float", "double"):
                width = 8 * value.itemsize if found[1].startswith("u") else 0
                exact = int(value) % (1 << width) if width else value.item()
                if np.isfinite(value):
                    assert _between(result, Fraction(exact), found[3]), given
                continue
            unsigned, width = found[2].startswith("u"), 32 if "int" in name else 64
            low, high = (
                (0, 2**width - 1) if unsigned else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
            )
            got = int(result) % 2**width if unsigned else int(result)
            if np.isfinite(value):
                assert got == min(max(whole[found[3]](Fraction(float(value))), low), high), given
            elif not np.isnan(value):
                assert got == (high if value > 0 else low), given


def test_bits_are_those_of_cudas_own_functions():
    rng = np.random.default_rng(3)
    for end, kind in (("", types.int32), ("ll", types.int64)):
        for name in ("popc", "clz", "ffs", "brev"):
            values = _drawn(rng, kind, 32)
            run = libdevice.runs(name + end)[0]
            expected = getattr(arithmetic, name)(values, 8 * values.itemsize)
            assert (run(values) == expected.astype(values.dtype)).all(), name
            assert run(int(values[0])) == run(values)[0]


def test_inverses_and_pairs():
    x = np.linspace(-0.95, 0.95, 7)
    run = {name: libdevice.runs(name)[0] for name in libdevice.CALLS}
    np.testing.assert_allclose(run["erf"](run["erfinv"](x)), x, rtol=1e-14)
    np.testing.assert_allclose(run["normcdf"](run["normcdfinv"](x / 2 + 0.5)), x / 2 + 0.5)
    np.testing.assert_allclose(run["erfcx"](x), np.exp(x * x) * run["erfc"](x), rtol=1e-13)
    assert (run["hiloint2double"](run["double2hiint"](x), run["double2loint"](x)) == x).all()
    assert (run["half2float"](run["float2half_rn"](x)) == x.astype(np.float16)).all()
    part, exponent = run["frexp"](8 * x)
    assert (run["scalbn"](part, exponent) == 8 * x).all()
    assert (exponent[x != 0] - 1 == run["ilogb"](8 * x)[x != 0]).all()
    rest, quotient = run["remquo"](37 * x, np.full(7, 0.7))
    whole = np.rint((37 * x - rest) / 0.7)
    assert (np.abs(quotient) == np.abs(whole) % 8).all() and (quotient * x >= 0).all()
    order = np.full(7, 2)
    bessel = run["jn"](order, x + 2) + run["jn"](order - 2, x + 2)  # J0 + J2 = 2 J1 / x
    np.testing.assert_allclose(bessel, 2 / (x + 2) * run["j1"](x + 2))


def test_every_function_runs_for_one_lane_and_for_many():
    rng = np.random.default_rng(5)
    for name, (_, _, operands) in libdevice.CALLS.items():
        values = [_drawn(rng, kind, 3) for kind in operands]
        with np.errstate(all="ignore"):
            many = libdevice.runs(name)[0](*values)
            one = libdevice.runs(name)[0](
                *(v[0].item() if v.dtype.kind == "i" else v[0] for v in values)
            )
        for part, whole in zip(np.atleast_1d(one), np.atleast_2d(many), strict=True):
            np.testing.assert_equal(part, whole[0], err_msg=name)


def test_cudas_names_are_those_that_numba_types():
    declared = pytest.importorskip("numba.cuda.cudadecl")
    known = {name.rpartition(".")[2] for name in KERNEL_NAMES}
    for template in vars(declared).values():
        names = {n[8:] for n in dir(template) if n.startswith("resolve_")}
        assert names <= known, (template, names - known)
