"""Drawn operations: expressions, types and values with the awkward ones, and kernels of them."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable

import numpy as np
from numba.core.errors import NumbaError

from tests.texts import function_of
from warpsim import cuda

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")
TYPES = ("bool", *INTEGERS, *FLOATS)
#: Exact in every bit: what the compiler makes of them are instructions, not approximations.
EXACT = """
    a + b | a - b | a * b | a // b | a % b | a << b | a >> b | a & b | a|b | a ^ b | ~a | -a
    +a | a < b | a <= b | a == b | a != b | not a | a and b | a or b | a if a > b else b | abs(a)
    min(a, b) | max(a, b) | min(a, b, 3) | max(a, 2.5) | min(a, True) | divmod(a, b)[0]
    divmod(a, b)[1] | a << 3 | a >> 2 | a & 255 | a // 8 | a % 8 | a // -7 | a % -7
    100 // b | 100 % b | a // 2.5 | a % 2.5 | int(a) | float(a) | bool(a) | round(a)
    round(a, 2) | round(a, -1)
    cuda.popc(a) | cuda.clz(a) | cuda.ffs(a) | cuda.brev(a) | cuda.selp(bool(b), a, a)
    math.floor(a) | math.ceil(a) | math.trunc(a) | math.fabs(a) | math.copysign(a, b)
    math.isnan(a) | math.isinf(a) | math.isfinite(a) | math.sqrt(a) | a / b | a / 3 | 1 / b
    cuda.fma(a, b, a) | math.ldexp(float(a), 3) | a - b < a | -a < b | ~a & b | abs(a) % b
    np.int32(a) << 31 | np.uint8(a) + b | np.int8(a) - b | int(np.float32(a)) | float(int(a)) * 2
    np.uint64(a) // 3 | np.uint64(a) > b | np.int64(b) == a | np.uint32(a) * np.uint32(b)
    (a > 1) + b | (a > 0) << 3 | -(a > b) | ~(a > b) | (a < b) * 2.5 | a == b == a | 0 < a <= b
"""
CASTS = tuple(f"np.{name if name != 'bool' else 'bool_'}(a)" for name in TYPES)
#: Of these the last bits are the device library's own.
CLOSE = """
    a ** b | pow(a, b) | a ** 2 | a ** 3 | a ** 9 | a ** -1 | a ** 0 | 2 ** b | a ** 70000
    a ** 0.5 | a ** 2.0 | math.pow(a, b) | math.pow(a, 2) | math.atan2(a, b) | math.hypot(a, b)
    math.fmod(a, b) | math.remainder(a, b) | math.nextafter(a, b) | math.log(a) | math.exp(a)
    math.gamma(a) | math.lgamma(a) | math.erf(a) | math.erfc(a) | math.log2(a) | math.log10(a)
    math.expm1(a) | math.log1p(a) | math.sin(a) | math.cos(a) | math.tan(a) | math.asin(a)
    math.acos(a) | math.atan(a) | math.sinh(a) | math.cosh(a) | math.tanh(a) | math.asinh(a)
    math.acosh(a) | math.atanh(a) | math.exp2(a) | math.degrees(a) | math.radians(a)
    math.modf(a)[0] | math.modf(a)[1] | math.frexp(a)[0] | math.frexp(a)[1] | cuda.cbrt(a)
    np.sin(a) | np.arctan2(a, b) | np.hypot(a, b) | np.log(a) | np.fmin(a, b) | np.maximum(a, b)
    np.isnan(a) | np.deg2rad(a) | np.tanh(a) | np.bitwise_and(a, b) | np.invert(a)
    np.left_shift(a, b) | np.logical_not(a) | np.less(a, b) | np.divide(a, b)
    complex(a, b).real | abs(complex(a, b)) | (complex(a, b) * complex(b, a)).imag
    (complex(a, 1) / complex(b, 2)).real | (complex(a, b) ** 2).real
"""
#: They store by themselves: @ is the index of the result, # their number, KIND a drawn type.
STATEMENTS = """
    t# = cuda.local.array(2, np.KIND); t#[0] = a; t#[0] += b; o[@] = t#[0]
    t# = cuda.local.array(2, np.KIND); t#[:] = a; o[@] = t#[1] * b
    t# = cuda.shared.array(32, np.KIND); t#[i] = a; o[@] = t#[i] - b
    t# = cuda.shared.array(32, np.KIND); t#[i] = b; cuda.atomic.add(t#, i, a); o[@] = t#[i]
    t# = cuda.const.array_like(TABLE); o[@] = t#[int(a) & 3] + b
    o[@] = b; o[@] += a | o[@] = b; o[@] -= a | o[@] = b; o[@] *= a | o[@] = b; o[@] /= a
    o[@] = b; o[@] //= a | o[@] = b; o[@] %= a | o[@] = b; o[@] **= a | o[@] = b; o[@] >>= a
    o[@] = b; o[@] <<= a | o[@] = b; o[@] &= a | o[@] = b; o[@] ^= a
    v# = a; v# += b; o[@] = v# | v# = 0; v# -= a; o[@] = v# | v# = a; v# //= b; o[@] = v#
    v# = np.KIND(a); v# *= np.KIND(b); o[@] = v# | v# = a or np.KIND(b); o[@] = v#
    v# = (a, a); o[@] = v#[int(b) & 1] | o[@] = np.KIND(a) // np.KIND(b) | o[@] = np.KIND(a) ** b
    o[@] = b; cuda.atomic.add(o, (@), a) | o[@] = b; cuda.atomic.max(o, (@), a)
    o[@] = b; cuda.atomic.exch(o, (@), a) | o[@] = b; cuda.atomic.inc(o, (@), a)
    o[@] = b; cuda.atomic.xor(o, (@), a) | o[@] = b; v# = cuda.atomic.cas(o, (@), b, a); o[@] = v#
    o[@] = cuda.shfl_sync(cuda.activemask(), a, cuda.laneid) | o[@] = np.complex64(a).real
    o[@] = cuda.fp16.hfma(np.float16(a), np.float16(b), np.float16(a))
    o[@] = cmath.sqrt(complex(a, b)).imag | o[@] = (np.complex64(a) / b).real
"""
TABLE = np.array([3, -1, 2**62, 0])
_VALUES = {
    "i": [0, 1, -1, 2, -3, 7, 31, 32, 33, 63, 64, 65, 100, 127, 128, 200, 255, 2**31, -(2**31)],
    "f": [0.0, -0.0, 0.5, 1.0, 1.5, -1.5, 2.5, -2.5, 7.0, 300.7, -70000.0, 3e9, -3e9, 1e10, 1e19,
          -1e19, 2.0**63, 3e38, math.inf, -math.inf, math.nan],
}  # fmt: skip


def expressions(listed: str) -> list[str]:
    return [text.strip() for line in listed.strip().splitlines() for text in line.split(" | ")]


def values(kind: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """``count`` values of a type, most of them awkward."""
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "f":
        pool = np.array([*_VALUES["f"], 1e300, *rng.normal(0, [1, 100, 1e5])])
    else:
        info = np.iinfo(dtype)
        pool = np.array([n for n in _VALUES["i"] if info.min <= n <= info.max], dtype)
        drawn = rng.integers(info.min, info.max, 4, dtype, endpoint=True)
        pool = np.array([*pool, info.min, info.max, *drawn], dtype)
    with np.errstate(all="ignore"):
        return rng.choice(pool, min(count, len(pool)), replace=False).astype(dtype)


def kernel(texts: list[str], a: str = "i", b: str = "i", at: str = "i"):
    """A kernel that stores each expression of x[a] and y[b] into its row of ``o``."""
    lines = [text if "@" in text or "#" in text else f"o[@] = {text}" for text in texts]
    rows = "".join(
        f"    {line.replace('@', f'{n}, {at}').replace('#', str(n))}\n"
        for n, line in enumerate(lines)
    )
    source = f"def f(x, y, o, j, k):\n    i = cuda.grid(1)\n    a = x[{a}]\n    b = y[{b}]\n{rows}"
    names = {"cuda": cuda, "math": math, "cmath": cmath, "np": np, "TABLE": TABLE}
    return cuda.jit(function_of(source, f"{texts} {a} {b}", names))


def accepted(texts: Iterable[str], x: np.ndarray, y: np.ndarray, out: str) -> list[str]:
    """Those of the expressions that the simulator takes."""
    taken = []
    for text in texts:
        try:
            kernel([text]).lane_program(x, y, np.zeros((1, 1), out), 0, 0)
            taken.append(text)
        except NumbaError:
            pass
    return taken


def by_lanes(texts: list[str], x: np.ndarray, y: np.ndarray, out: str) -> np.ndarray:
    """Results of all pairs, each pair a thread: [expression, x, y]."""
    left, right = np.repeat(x, len(y)), np.tile(y, len(x))
    result = np.zeros((len(texts), len(left)), out)
    kernel(texts)[1, len(left)](left, right, result, 0, 0)
    return result.reshape(len(texts), len(x), len(y))


def by_shared(texts: list[str], x: np.ndarray, y: np.ndarray, out: str, which: str) -> np.ndarray:
    """The same where all threads share the left, the right, or both values."""
    result = np.zeros((len(texts), len(x), len(y)), out)
    if which == "left":
        run = kernel(texts, a="j")
        for j in range(len(x)):
            one = np.zeros((len(texts), len(y)), out)
            run[1, len(y)](x, y, one, j, 0)
            result[:, j] = one
    elif which == "right":
        run = kernel(texts, b="k")
        for k in range(len(y)):
            one = np.zeros((len(texts), len(x)), out)
            run[1, len(x)](x, y, one, 0, k)
            result[:, :, k] = one
    else:
        run = kernel(texts, a="j", b="k", at="0")
        for j in range(len(x)):
            for k in range(len(y)):
                one = np.zeros((len(texts), 1), out)
                run[1, 1](x, y, one, j, k)
                result[:, j, k] = one[:, 0]
    return result


def same(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> np.ndarray:
    """Where two results are the same; floats within a relative tolerance."""
    equal = found == wanted
    if wanted.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            close = np.isclose(found, wanted, rtol=tolerance, atol=0, equal_nan=True)
        equal |= close | (np.isnan(found) & np.isnan(wanted))
    return equal
