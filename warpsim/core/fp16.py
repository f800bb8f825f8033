"""``cuda.fp16``: arithmetic of float16, each result rounded once to float16."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import types

from warpsim.core.operators import truth


def _wide(function: Callable) -> Callable:
    """A function computed in float64 and rounded to float16."""

    def run(*values):
        result = function(*(np.asarray(value, np.float64) for value in values))
        return result.astype(np.float16)[()]

    return run


def _compare(function: Callable) -> Callable:
    return lambda a, b: truth(function(a, b))


#: name -> (function of float16 values, heading under which it is counted, operations)
FUNCTIONS: dict[str, tuple[Callable, str, int]] = {
    "hadd": (_wide(np.add), "float16", 1),
    "hsub": (_wide(np.subtract), "float16", 1),
    "hmul": (_wide(np.multiply), "float16", 1),
    "hfma": (_wide(lambda a, b, c: a * b + c), "float16", 2),
    "hneg": (np.negative, "float16", 0),
    "habs": (np.abs, "float16", 0),
    "hmax": (np.fmax, "float16", 0),
    "hmin": (np.fmin, "float16", 0),
    **{
        f"h{name}": (_compare(function), "float16", 0)
        for name, function in {
            "eq": np.equal, "ne": np.not_equal, "ge": np.greater_equal, "gt": np.greater,
            "le": np.less_equal, "lt": np.less,
        }.items()
    },
    **{f"h{name}": (_wide(getattr(np, name)), "float16", 0) for name in ("ceil", "floor", "trunc")},
    "hrint": (_wide(np.rint), "float16", 0),
    **{
        f"h{name}": (_wide(getattr(np, name)), "special", 1)
        for name in ("sin", "cos", "exp", "exp2", "log", "log2", "log10", "sqrt", "tanh")
    },
    "hdiv": (_wide(np.divide), "special", 1),
    "hexp10": (_wide(lambda x: 10.0**x), "special", 1),
    "hrcp": (_wide(np.reciprocal), "special", 1),
    "hrsqrt": (_wide(lambda x: 1 / np.sqrt(x)), "special", 1),
}  # fmt: skip
_COMPARISONS = ("heq", "hne", "hge", "hgt", "hle", "hlt")
_OPERANDS = {"hfma": 3} | dict.fromkeys(
    ("hadd", "hsub", "hmul", "hdiv", "hmax", "hmin", *_COMPARISONS), 2
)

NAMES = frozenset({"fp16", *(f"fp16.{name}" for name in FUNCTIONS)})
ARITY = {f"fp16.{name}": (_OPERANDS.get(name, 1),) * 2 for name in FUNCTIONS}


def _typed(name: str) -> Callable:
    result = types.boolean if name in _COMPARISONS else types.float16

    def signature(*arguments):
        real = types.Integer | types.Float | types.Boolean
        if not all(isinstance(kind, real) for kind in arguments):
            return None
        return result, (types.float16,) * len(arguments)

    return signature


#: As :data:`warpsim.front.cuda_names.FUNCTIONS`; numba-cuda converts any real number to float16.
TYPES: dict[str, Callable] = {f"fp16.{name}": _typed(name) for name in FUNCTIONS}
