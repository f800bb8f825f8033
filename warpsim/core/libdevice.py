"""``cuda.libdevice``: the device library's functions of real numbers, computed by NumPy.

Values are NumPy's and SciPy's, rounded to the result's type: the last bits of a GPU's functions
differ, most of all those of the ``fast_`` ones. Arithmetic that rounds in a direction is exact.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
from numba import types
from numba.core.errors import UnsupportedError

from warpsim.core.arithmetic import MATH, brev, clz, each, ffs, fma, popc, raised, scipy
from warpsim.core.number_types import namespace
from warpsim.core.operators import CONVERT, int64

i4, i8, f4, f8 = types.int32, types.int64, types.float32, types.float64


def _away_from_zero(x):
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


_ONE = {
    **{name: getattr(np, name) for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "exp",
        "exp2", "expm1", "fabs", "floor", "log", "log1p", "rint", "sin", "sinh", "sqrt", "tan",
        "tanh", "trunc",
    )},
    **{name: MATH[name] for name in ("erf", "erfc", "lgamma", "log2", "log10")},
    "tgamma": MATH["gamma"],
    "nearbyint": np.rint,
    "round": _away_from_zero,
    "exp10": lambda x: 10.0**x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "sinpi": lambda x: np.sin(np.pi * np.fmod(x, 2)),
    "cospi": lambda x: np.cos(np.pi * np.fmod(x, 2)),
    "normcdf": lambda x: MATH["erfc"](-np.asarray(x) / math.sqrt(2)) / 2,
}  # fmt: skip
_TWO = {
    "atan2": np.arctan2, "copysign": np.copysign, "fmax": np.fmax, "fmin": np.fmin,
    "fmod": np.fmod, "hypot": MATH["hypot"], "nextafter": np.nextafter, "pow": np.float_power,
    "fdim": lambda x, y: np.where(x <= y, 0.0, x - y), "remainder": each(math.remainder),
}  # fmt: skip
_FAST = {name: _ONE[name] for name in ("cos", "exp", "exp10", "log", "log10", "log2", "sin", "tan")}


def _in_double(function: Callable, *values):
    return function(*(np.asarray(value, np.float64) for value in values))


def _bits(dtype: type, given: type, value):
    return np.asarray(value, given).view(dtype)


#: name -> (function of lanes, its result's type, its operands' types); first those of float64 and,
#: with an f, of float32: computed in float64, rounded once
CALLS: dict[str, tuple[Callable, types.Type, tuple[types.Type, ...]]] = {
    name + end: (run if name == "nextafter" else partial(_in_double, run), kind, (kind,) * operands)
    for functions, operands in ((_ONE, 1), (_TWO, 2), ({"fma": fma}, 3))
    for name, run in functions.items()
    for kind, end in ((f8, ""), (f4, "f"))
} | {
    **{f"fast_{name}f": (partial(_in_double, run), f4, (f4,)) for name, run in _FAST.items()},
    "fast_powf": (partial(_in_double, np.float_power), f4, (f4, f4)),
    "fast_fdividef": (np.divide, f4, (f4, f4)),
    "saturatef": (lambda x: np.where(np.isnan(x), 0, np.clip(x, 0, 1)), f4, (f4,)),
    "frsqrt_rn": (partial(_in_double, _ONE["rsqrt"]), f4, (f4,)),
    "abs": (np.abs, i4, (i4,)), "llabs": (np.abs, i8, (i8,)),
    "max": (np.maximum, i4, (i4, i4)), "min": (np.minimum, i4, (i4, i4)),
    "llmax": (np.maximum, i8, (i8, i8)), "llmin": (np.minimum, i8, (i8, i8)),
    "isnanf": (np.isnan, i4, (f4,)), "isnand": (np.isnan, i4, (f8,)),
    "isinff": (np.isinf, i4, (f4,)), "isinfd": (np.isinf, i4, (f8,)),
    "finitef": (np.isfinite, i4, (f4,)), "isfinited": (np.isfinite, i4, (f8,)),
    "signbitf": (np.signbit, i4, (f4,)), "signbitd": (np.signbit, i4, (f8,)),
    "float_as_int": (partial(_bits, np.int32, np.float32), i4, (f4,)),
    "int_as_float": (partial(_bits, np.float32, np.int32), f4, (i4,)),
    "double_as_longlong": (partial(_bits, np.int64, np.float64), i8, (f8,)),
    "longlong_as_double": (partial(_bits, np.float64, np.int64), f8, (i8,)),
    "powif": (raised, f4, (f4, i4)), "powi": (raised, f8, (f8, i4)),
    "ldexpf": (np.ldexp, f4, (f4, i4)), "ldexp": (np.ldexp, f8, (f8, i4)),
    **{f"sincos{end}": (lambda x: (np.sin(x), np.cos(x)), types.UniTuple(kind, 2), (kind,))
       for kind, end in ((f8, ""), (f4, "f"))},
}  # fmt: skip


# ---------------------------------------------------------------------- directions of rounding
# The exact result is a fraction; from it the mode takes the float or the integer: to nearest (rn),
# down (rd), up (ru) or towards zero (rz).
#: mode -> a float's nearest integer in that direction
WHOLE = {"rn": np.rint, "rd": np.floor, "ru": np.ceil, "rz": np.trunc}


def to_float(exact: Fraction, mode: str, kind: type) -> np.floating:
    """The float of a kind (np.float32, np.float64) that an exact number is rounded to."""
    try:
        near = kind(float(exact))
    except OverflowError:
        near = kind(math.inf if exact > 0 else -math.inf)
    if np.isfinite(near) and Fraction(float(near)) == exact:
        return near
    low = near if float(near) < exact else np.nextafter(near, kind(-np.inf))
    high = np.nextafter(low, kind(np.inf))
    if mode == "rz":
        mode = "rd" if exact > 0 else "ru"
    if mode != "rn":
        return low if mode == "rd" else high
    if not (np.isfinite(low) and np.isfinite(high)):
        return near
    below, above = exact - Fraction(float(low)), Fraction(float(high)) - exact
    even = int(low.view(f"u{low.itemsize}")) % 2 == 0
    return low if below < above or (below == above and even) else high


def _root(x: Fraction) -> Fraction:
    """A square root, exact or with 128 bits more than a float has and one below them."""
    shift = 1 << 2 * 1300  # a float's denominator is at most 2**1074
    found = Fraction(math.isqrt(int(x * shift)), 1 << 1300)
    return found if found * found == x else found + Fraction(1, 1 << 1301)


#: name -> (exact result, as floats have it where that is no number)
_DIRECTED: dict[str, tuple[Callable, Callable]] = {
    "add": (lambda a, b: a + b, np.add),
    "sub": (lambda a, b: a - b, np.subtract),
    "mul": (lambda a, b: a * b, np.multiply),
    "div": (lambda a, b: a / b, np.divide),
    "rcp": (lambda a: 1 / a, np.reciprocal),
    "sqrt": (_root, np.sqrt),
    "fma": (lambda a, b, c: a * b + c, lambda a, b, c: a * b + c),
}


def operation(name: str, mode: str, kind: type) -> Callable:
    """``__nv_dadd_rd`` and its like, on lanes of a kind of float."""
    exactly, plainly = _DIRECTED[name]
    if mode == "rn" and name != "fma":
        return plainly

    def one(*values):
        rough = plainly(*map(kind, values))
        if not np.isfinite(values).all() or (name in ("div", "rcp") and values[-1] == 0):
            return rough
        real = name != "sqrt" or values[0] > 0
        if real and (exact := exactly(*map(Fraction, map(float, values)))):
            return to_float(exact, mode, kind)
        if name in ("add", "sub", "fma") and mode == "rd":  # x - x is -0 only when rounded down
            terms = (values[0] * values[1], values[2]) if name == "fma" else values
            signs = [math.copysign(1, term) for term in terms]
            return kind(0.0 if (signs[0] > 0) and (signs[1] > 0) != (name == "sub") else -0.0)
        return rough

    return np.vectorize(one, otypes=[kind])


def to_kind(mode: str, kind: type, unsigned: int = 0) -> Callable:
    """``__nv_double2float_rd``, ``__nv_uint2float_rz``; of unsigned integers the number of bits."""
    mask = (1 << unsigned) - 1 if unsigned else -1
    if mode == "rn" and not unsigned:
        return np.asarray

    def one(x):
        number = float(x) if isinstance(x, float | np.floating) else int(x) & mask
        exact = Fraction(number) if math.isfinite(number) else 0
        return to_float(exact, mode, kind) if exact else kind(x)

    return np.vectorize(one, otypes=[kind])


def to_integer(mode: str, kind: types.Integer, wide: bool) -> Callable:
    """``__nv_float2int_rz`` and its like, or of the ``wide`` float64; unsigned ones give bits."""
    given, convert = np.float64 if wide else np.float32, CONVERT[kind]
    return lambda x: convert(np.asarray(WHOLE[mode](np.asarray(x, given))))


_FLOATS = (f4, np.float32, "f", "f", "float"), (f8, np.float64, "d", "", "double")
for _mode, (_kind, _type, _letter, _end, _word) in product(WHOLE, _FLOATS):
    for _name in ("add", "sub", "mul", "div", "rcp", "sqrt"):
        _kinds = (_kind,) * (1 if _name in ("rcp", "sqrt") else 2)
        if (_letter, _name) != ("d", "sub"):  # there is no dsub
            CALLS[f"{_letter}{_name}_{_mode}"] = operation(_name, _mode, _type), _kind, _kinds
    CALLS[f"fma{_end}_{_mode}"] = operation("fma", _mode, _type), _kind, (_kind,) * 3
    for (_name, _bits, _own), _sign in product((("int", 32, i4), ("ll", 64, i8)), ("", "u")):
        _whole = types.Integer.from_bitwidth(_bits, not _sign)
        _to = to_integer(_mode, _whole, _letter == "d")
        CALLS[f"{_word}2{_sign}{_name}_{_mode}"] = _to, _own, (_kind,)
        if _letter == "f" or _bits == 64 or _mode == "rn":
            _from = to_kind(_mode, _type, _bits if _sign else 0)
            CALLS[f"{_sign}{_name}2{_word}_{_mode}"] = _from, _kind, (_own,)
    CALLS[f"double2float_{_mode}"] = to_kind(_mode, np.float32), f4, (f8,)


# ---------------------------------------------------------------------- integers and bits
def _cut(function: Callable, own: type, mask: int = -1) -> Callable:
    """A function of Python's endless integers, masked before; its result is cut to the type."""
    unsigned = np.dtype(f"u{own().itemsize}").type
    last = int(np.iinfo(unsigned).max)

    def one(*values):
        return unsigned(function(*(int(value) & mask for value in values)) & last).view(own)

    return np.vectorize(one, otypes=[own])


def _permuted(x: int, y: int, choice: int) -> int:
    both = x | y << 32
    return sum((both >> 8 * (choice >> 4 * n & 7) & 255) << 8 * n for n in range(4))


def _low24(x: int) -> int:
    return (x & 0xFFFFFF ^ 0x800000) - 0x800000


_U32, _U64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
CALLS |= {
    name: (_cut(run, np.int32, mask), i4, (i4,) * count)
    for name, run, mask, count in (
        ("byte_perm", _permuted, _U32, 3), ("mul24", lambda x, y: _low24(x) * _low24(y), -1, 2),
        ("umul24", lambda x, y: x * y, 0xFFFFFF, 2), ("umax", max, _U32, 2),
        ("umin", min, _U32, 2),
    )
} | {
    f"{sign}{name}": (_cut(run, np.int32, mask), i4, (i4,) * count)
    for name, run, count in (
        ("hadd", lambda x, y: x + y >> 1, 2), ("rhadd", lambda x, y: x + y + 1 >> 1, 2),
        ("mulhi", lambda x, y: x * y >> 32, 2), ("sad", lambda x, y, z: abs(x - y) + z, 3),
    )
    for sign, mask in (("", -1), ("u", _U32))
} | {
    name: (_cut(run, np.int64, mask), i8, (i8, i8))
    for name, run, mask in (
        ("mul64hi", lambda x, y: x * y >> 64, -1), ("umul64hi", lambda x, y: x * y >> 64, _U64),
        ("ullmax", max, _U64), ("ullmin", min, _U64),
    )
} | {
    f"{run.__name__}{end}": (partial(run, bits=bits), kind if run is brev else i4, (kind,))
    for run in (brev, clz, ffs, popc) for end, bits, kind in (("", 32, i4), ("ll", 64, i8))
}  # fmt: skip


# ---------------------------------------------------------------------- parts of floats
def _half(part: int, value):
    return np.array(value, np.float64)[..., None].view(np.int32)[..., part]


def _from_words(high, low):
    both = np.asarray(high, np.int64) << 32 | np.asarray(low, np.int64) & 0xFFFFFFFF
    return np.asarray(both).view(np.float64)


def _exponent(of_zero: float, of_infinity: float, of_nan: float, x):
    found = np.where(x == 0, of_zero, np.frexp(x)[1] - 1)
    return np.where(np.isnan(x), of_nan, np.where(np.isinf(x), of_infinity, found))


def _remquo(x, y):
    """The remainder, and the last three bits of the rounded quotient with its sign."""

    def one(x, y):
        if not math.isfinite(x) or y == 0 or y != y:
            return math.nan, 0
        if math.isinf(y):
            return x, 0
        bits = abs(round(Fraction(float(x)) / Fraction(float(y)))) & 7
        return math.remainder(x, y), -bits if (x < 0) != (y < 0) else bits

    return np.vectorize(one, otypes=[float, int])(x, y)


def _scipy(name: str, *values):
    if scipy() is None:
        raise UnsupportedError(f"SciPy's {name} computes this: pip install scipy")
    return getattr(scipy(), name)(*values)


_ENDS = -(2.0**31), 2.0**31 - 1, -(2.0**31)
for _kind, _end in ((f8, ""), (f4, "f")):
    _pair = types.UniTuple(_kind, 2)
    CALLS |= {
        f"modf{_end}": (np.modf, _pair, (_kind,)),
        f"frexp{_end}": (np.frexp, types.Tuple((_kind, i4)), (_kind,)),
        f"remquo{_end}": (_remquo, types.Tuple((_kind, i4)), (_kind, _kind)),
        f"sincospi{_end}": (lambda x: (_ONE["sinpi"](x), _ONE["cospi"](x)), _pair, (_kind,)),
        f"ilogb{_end}": (partial(_exponent, *_ENDS), i4, (_kind,)),
        f"logb{_end}": (partial(_exponent, -np.inf, np.inf, np.nan), _kind, (_kind,)),
        f"scalbn{_end}": (np.ldexp, _kind, (_kind, i4)),
        f"llrint{_end}": (to_integer("rn", i8, True), i8, (_kind,)),
        f"llround{_end}": (
            lambda x: int64(_away_from_zero(np.asarray(x, np.float64))), i8, (_kind,)
        ),
        **{f"{name}{_end}": (partial(_in_double, partial(_scipy, there)), _kind, (_kind,))
           for name, there in (
               ("j0", "j0"), ("j1", "j1"), ("y0", "y0"), ("y1", "y1"), ("erfinv", "erfinv"),
               ("erfcinv", "erfcinv"), ("erfcx", "erfcx"), ("normcdfinv", "ndtri"),
           )},
        **{f"{name}{_end}": (partial(_in_double, partial(_scipy, there)), _kind, (i4, _kind))
           for name, there in (("jn", "jv"), ("yn", "yn"))},
    }  # fmt: skip
CALLS |= {
    "fast_sincosf": CALLS["sincosf"],
    "double2hiint": (partial(_half, 1), i4, (f8,)), "double2loint": (partial(_half, 0), i4, (f8,)),
    "hiloint2double": (_from_words, f8, (i4, i4)),
    "float2half_rn": (
        lambda x: np.asarray(x, np.float32).astype(np.float16).view(np.int16), types.int16, (f4,)
    ),
    "half2float": (lambda x: np.asarray(x, np.int16).view(np.float16), f4, (types.int16,)),
}  # fmt: skip

DECLARED = namespace("libdevice", {name: call[1:] for name, call in CALLS.items()})


def _as(kind: types.Type, value):
    """A result as lane programs hold it: integers that all lanes share are Python's."""
    if isinstance(kind, types.BaseTuple):
        return tuple(_as(part, one) for part, one in zip(kind, value, strict=True))
    result = np.asarray(value).astype(kind.name)[()]
    return int(result) if isinstance(kind, types.Integer) and not result.ndim else result


def runs(name: str) -> tuple[Callable, str | None]:
    """A function of lanes, and the heading under which it is counted."""
    function, kind, operands = CALLS[name]
    exact = isinstance(kind, types.Integer) or operands[0] in (i4, i8) or "_as_" in name
    return lambda *values: _as(kind, function(*values)), None if exact else "special"
