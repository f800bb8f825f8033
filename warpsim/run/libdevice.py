"""``cuda.libdevice``: the device library's functions of real numbers, computed by NumPy.

Values are NumPy's, rounded to the result's type: the last bits of a GPU's functions differ, most of
all those of the ``fast_`` ones. Roundings other than to nearest are not here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numba import types

i4, i8, f4, f8 = types.int32, types.int64, types.float32, types.float64


def _special(name: str, value):
    from warpsim.front.operators import library

    return library(getattr(math, name), np.dtype(np.float64))(value)


def _away_from_zero(x):
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


_ONE = {
    **{name: getattr(np, name) for name in (
        "cbrt", "ceil", "cos", "cosh", "exp", "exp2", "expm1", "fabs", "floor", "log", "log10",
        "log1p", "log2", "rint", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    )},
    **{f"a{name}": getattr(np, f"arc{name}")
       for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: partial(_special, name) for name in ("erf", "erfc", "lgamma")},
    "tgamma": partial(_special, "gamma"),
    "nearbyint": np.rint,
    "round": _away_from_zero,
    "exp10": lambda x: 10.0**x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "sinpi": lambda x: np.sin(np.pi * np.fmod(x, 2)),
    "cospi": lambda x: np.cos(np.pi * np.fmod(x, 2)),
    "normcdf": lambda x: _special("erfc", -np.asarray(x) / math.sqrt(2)) / 2,
}  # fmt: skip
_TWO = {
    "atan2": np.arctan2, "copysign": np.copysign, "fmax": np.fmax, "fmin": np.fmin,
    "fmod": np.fmod, "hypot": np.hypot, "nextafter": np.nextafter, "pow": np.power,
    "fdim": lambda x, y: np.where(x <= y, 0.0, x - y), "remainder": np.vectorize(math.remainder),
}  # fmt: skip
_ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
_FAST = {name: _ONE[name] for name in ("cos", "exp", "exp10", "log", "log10", "log2", "sin", "tan")}
#: Computed in the type itself: exact, or rounded once.
_EXACT = frozenset({"nextafter", "add", "sub", "mul", "div"})


def _in_double(function: Callable, *values):
    return function(*(np.asarray(value, np.float64) for value in values))


def _bits(dtype: type, given: type, value):
    return np.asarray(value, given).view(dtype)


#: name -> (function of lanes, its result's type, its operands' types)
CALLS: dict[str, tuple[Callable, types.Type, tuple[types.Type, ...]]] = {}


def _both(functions: dict[str, Callable], operands: int) -> None:
    """A function of float64 and, with an f, of float32: computed in float64, rounded once."""
    for name, function in functions.items():
        run = function if name in _EXACT else partial(_in_double, function)
        for kind, end in ((f8, ""), (f4, "f")):
            CALLS[name + end] = run, kind, (kind,) * operands


_both(_ONE, 1)
_both(_TWO, 2)
_both({"fma": lambda a, b, c: a * b + c}, 3)
CALLS |= {
    **{f"fast_{name}f": (partial(_in_double, run), f4, (f4,)) for name, run in _FAST.items()},
    "fast_powf": (partial(_in_double, np.power), f4, (f4, f4)),
    "fast_fdividef": (np.divide, f4, (f4, f4)),
    "saturatef": (lambda x: np.where(np.isnan(x), 0, np.clip(x, 0, 1)), f4, (f4,)),
    **{f"f{name}_rn": (run, f4, (f4, f4)) for name, run in _ARITHMETIC.items()},
    **{f"d{name}_rn": (run, f8, (f8, f8))
       for name, run in _ARITHMETIC.items() if name != "sub"},  # there is no dsub_rn
    "fsqrt_rn": (np.sqrt, f4, (f4,)), "dsqrt_rn": (np.sqrt, f8, (f8,)),
    "frcp_rn": (np.reciprocal, f4, (f4,)), "drcp_rn": (np.reciprocal, f8, (f8,)),
    "frsqrt_rn": (partial(_in_double, _ONE["rsqrt"]), f4, (f4,)),
    "abs": (np.abs, i4, (i4,)), "llabs": (np.abs, i8, (i8,)),
    "max": (np.maximum, i4, (i4, i4)), "min": (np.minimum, i4, (i4, i4)),
    "llmax": (np.maximum, i8, (i8, i8)), "llmin": (np.minimum, i8, (i8, i8)),
    "isnanf": (np.isnan, i4, (f4,)), "isnand": (np.isnan, i4, (f8,)),
    "isinff": (np.isinf, i4, (f4,)), "isinfd": (np.isinf, i4, (f8,)),
    "finitef": (np.isfinite, i4, (f4,)), "isfinited": (np.isfinite, i4, (f8,)),
    "signbitf": (np.signbit, i4, (f4,)), "signbitd": (np.signbit, i4, (f8,)),
    "int2float_rn": (np.asarray, f4, (i4,)), "int2double_rn": (np.asarray, f8, (i4,)),
    "double2float_rn": (np.asarray, f4, (f8,)), "ll2double_rn": (np.asarray, f8, (i8,)),
    "float_as_int": (partial(_bits, np.int32, np.float32), i4, (f4,)),
    "int_as_float": (partial(_bits, np.float32, np.int32), f4, (i4,)),
    "double_as_longlong": (partial(_bits, np.int64, np.float64), i8, (f8,)),
    "longlong_as_double": (partial(_bits, np.float64, np.int64), f8, (i8,)),
    "powif": (partial(_in_double, np.power), f4, (f4, i4)),
    "powi": (partial(_in_double, np.power), f8, (f8, i4)),
    "ldexpf": (np.ldexp, f4, (f4, i4)), "ldexp": (np.ldexp, f8, (f8, i4)),
    **{f"sincos{end}": (lambda x: (np.sin(x), np.cos(x)), types.UniTuple(kind, 2), (kind,))
       for kind, end in ((f8, ""), (f4, "f"))},
}  # fmt: skip

NAMES = frozenset({"libdevice", *(f"libdevice.{name}" for name in CALLS)})
ARITY = {f"libdevice.{name}": (len(call[2]),) * 2 for name, call in CALLS.items()}


def _typed(name: str) -> Callable:
    _, result, operands = CALLS[name]

    def signature(*arguments):
        real = types.Integer | types.Float | types.Boolean
        return (result, operands) if all(isinstance(kind, real) for kind in arguments) else None

    return signature


#: As :data:`warpsim.front.intrinsics.FUNCTIONS`.
TYPES: dict[str, Callable] = {f"libdevice.{name}": _typed(name) for name in CALLS}


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
