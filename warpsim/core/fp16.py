"""``cuda.fp16``: arithmetic of float16, each result rounded once to float16."""

from collections.abc import Callable

import numpy as np
from numba import types

from warpsim.core.number_types import namespace
from warpsim.core.operators import truth


def _wide(function: Callable) -> Callable:
    """A function computed in float64 and rounded to float16."""
    return lambda *x: function(*(np.asarray(v, np.float64) for v in x)).astype(np.float16)[()]


_COMPARISONS = {
    "heq": np.equal, "hne": np.not_equal, "hge": np.greater_equal, "hgt": np.greater,
    "hle": np.less_equal, "hlt": np.less,
}  # fmt: skip
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
        name: (lambda a, b, run=run: truth(run(a, b)), "float16", 0)
        for name, run in _COMPARISONS.items()
    },
    **{
        f"h{name}": (_wide(getattr(np, name)), "float16", 0)
        for name in ("ceil", "floor", "trunc", "rint")
    },
    **{
        f"h{name}": (_wide(getattr(np, name)), "special", 1)
        for name in ("sin", "cos", "exp", "exp2", "log", "log2", "log10", "sqrt", "tanh")
    },
    "hdiv": (_wide(np.divide), "special", 1),
    "hexp10": (_wide(lambda x: 10.0**x), "special", 1),
    "hrcp": (_wide(np.reciprocal), "special", 1),
    "hrsqrt": (_wide(lambda x: 1 / np.sqrt(x)), "special", 1),
}  # fmt: skip
_OPERANDS = {"hfma": 3} | dict.fromkeys(
    ("hadd", "hsub", "hmul", "hdiv", "hmax", "hmin", *_COMPARISONS), 2
)
DECLARED = namespace("fp16", {
    name: (types.boolean if name in _COMPARISONS else types.float16,
           (types.float16,) * _OPERANDS.get(name, 1))
    for name in FUNCTIONS
})  # fmt: skip
