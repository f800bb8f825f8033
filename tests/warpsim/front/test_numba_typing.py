"""Types of variables and expressions against Numba's own type inference."""

from __future__ import annotations

import itertools
import math
import operator

import numpy as np
import pytest
from numba import float32, int32, types
from numba.core.errors import TypingError

from tests.texts import function_of
from tests.warpsim.numba_inference import inferred
from warpsim.code.programs import Program
from warpsim.front import numba_typing

SCALARS = [
    types.boolean, types.int8, types.int32, types.int64, types.uint8, types.uint32, types.uint64,
    types.float32, types.float64, types.complex64,
]  # fmt: skip
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "&", "<<", "<", "=="]
#: Typed by the rules of another one of them.
ALIKE = {"-", "*", "=="}


def ours(function, arguments):
    """Result type by the simulator, or None where it refuses."""
    try:
        return Program(function).typing(arguments).result
    except TypingError:
        return None


def numbas(function, arguments):
    try:
        return types.unliteral(inferred(function, arguments))
    except TypingError:
        return None


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    "sign",
    [pytest.param(sign, marks=pytest.mark.slow if sign in ALIKE else ()) for sign in OPERATORS],
)
def test_operators_have_numbas_types(sign):
    for left, right in itertools.product(SCALARS, repeat=2):
        f = function_of(f"def f(a, b):\n    return a {sign} b\n", f"{left} {sign} {right}", {})
        assert ours(f, (left, right)) == numbas(f, (left, right)), f"{left} {sign} {right}"


A1 = types.Array(types.float32, 1, "C")
I1 = types.Array(types.int32, 1, "C")
#: Bodies of functions of x (float32 array), y (int32 array), n (int32), s (float32), k (int64).
BODIES = r"""
t = 0; return t
t = 0; t = t + s; return t
t = 0; t += x[0]; return t
t = 0.0; t += x[0]; return t
t = float32(0); t += x[0]; return t
t = float32(0); t += x[0] * n; return t
t = float32(0); t += x[0] * y[0]; return t
t = float32(0); t = t + 1; return t
t = float32(0); t = t + 0.5; return t
t = float32(1) / 3; return t
t = int32(1) + int32(2); return t
t = n + n; return t
t = n * s; return t
t = n / n; return t
t = n // 2; return t
t = n % 2; return t
t = n ** 2; return t
t = s ** 2; return t
t = s ** n; return t
t = s ** 0.5; return t
t = 2 ** n; return t
t = -n; return t
t = -s; return t
t = ~n; return t
t = +n; return t
t = not n; return t
t = n > 2; return t
t = (n > 2) & (k < 3); return t
t = (n > 2) and (k < 3); return t
t = n and k; return t
t = n or s; return t
t = s if n > 2 else 0; return t
t = s if n > 2 else 0.0; return t
t = n if n > 2 else k; return t
t = True; t = t + t; return t
t = min(n, k); return t
t = max(s, 0); return t
t = max(s, 0.0); return t
t = max(n, 3); return t
t = min(n, s); return t
t = max(n, k, 3); return t
t = abs(n); return t
t = abs(s); return t
t = round(s); return t
t = round(s, 2); return t
t = int(s); return t
t = int(n); return t
t = float(n); return t
t = float(s); return t
t = bool(n); return t
t = float32(k); return t
t = np.float32(k); return t
t = np.int64(s); return t
t = math.sqrt(s); return t
t = math.sqrt(n); return t
t = math.exp(s); return t
t = math.pow(s, 2); return t
t = math.pow(s, s); return t
t = math.floor(s); return t
t = math.ceil(s); return t
t = math.erf(s); return t
t = math.isnan(s); return t
t = math.atan2(s, s); return t
t = math.fabs(n); return t
t = np.sin(s); return t
t = np.log(n); return t
t = np.maximum(s, n); return t
t = np.sin(k); return t
t = math.pi * s; return t
t = np.pi * s; return t
t = HALF * s; return t
t = COUNT * s; return t
t = SINGLE * s; return t
t = x.shape[0]; return t
t = x.shape[0] * s; return t
t = x.size; return t
t = x.ndim; return t
t = len(x); return t
t = y[0] + y[1]; return t
t = x[n]; return t
t = x[0] > 0; return t
a, b = n, s; return a
a, b = n, s; return b
a, b = n, s; a, b = b, a; return a
t = (n, s)[1]; return t
t = (n, n)[k]; return t
t = 0\nfor i in range(n):\n    t = t + x[i]\nreturn t
t = 0\nfor i in range(n):\n    t += i\nreturn t
t = 0\nfor i in range(n):\n    t = i\nreturn t
t = n\nfor i in range(n):\n    t = i\nreturn t
t = n\nfor i in range(k):\n    t = i\nreturn t
t = n\nfor i in range(3):\n    t = i\nreturn t
t = 0\nfor i in range(n):\n    t = s\nreturn t
t = 0\nif n > 2:\n    t = 1.5\nreturn t
t = n\nif n > 2:\n    t = s\nelse:\n    t = k\nreturn t
t = 0\nwhile t < n:\n    t += 1\nreturn t
t = 0\nwhile t < n:\n    t += 0.5\nreturn t
t = 0\nfor i in range(n):\n    if i > 3:\n        t = 0.5\n        break\nreturn t
t = n\nt = s\nreturn t
t = n\nu = t\nt = s\nreturn u
t = 7\nt = t // 2\nreturn t * s
t = 0\nfor i in range(n):\n    u = t\n    t = s\nreturn t
t = float32(0)\nfor v in x:\n    t += v\nreturn t
t = 0\nfor i, v in enumerate(x):\n    t = i\nreturn t
t = s\nfor v in (1, 2, 3):\n    t = v\nreturn t
if n > 2:\n    return s\nreturn 0
if n > 2:\n    return n\nreturn k
t = x + 1; return t
t = x[s]; return t
t = n.shape; return t
t = 'a' + n; return t
t = undefined; return t
t = x[0, 0]; return t
t = 9223372036854775807; return t
t = 9223372036854775808; return t
t = 1j * s; return t
t = (1j * s).real; return t
t = n << 3; return t
t = y[0] >> 1; return t
t = 1 if n else 2; return t
t = n == s; return t
t = 0\nt += n\nt += s\nreturn t
""".strip().splitlines()
ENVIRONMENT = {
    "math": math, "np": np, "float32": float32, "int32": int32, "HALF": 0.5, "COUNT": 3,
    "SINGLE": np.float32(2),
}  # fmt: skip
ARGUMENTS = (A1, I1, types.int32, types.float32, types.int64)


@pytest.mark.parametrize("body", BODIES)
def test_functions_have_numbas_types(body):
    lines = body.replace("; ", r"\n").split(r"\n")
    text = "def f(x, y, n, s, k):\n" + "".join(f"    {line}\n" for line in lines)
    f = function_of(text, body, ENVIRONMENT)
    assert ours(f, ARGUMENTS) == numbas(f, ARGUMENTS), text


def test_core_numba_answers_as_numba_cuda_does(monkeypatch):
    """Where numba-cuda is missing, core Numba's rules stand in: they must be the same."""
    pytest.importorskip("numba_cuda")
    from numba.core.registry import cpu_target

    functions = [
        operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv,
        operator.mod, operator.and_, operator.lshift, operator.lt, operator.eq, operator.pow,
    ]  # fmt: skip
    unary = [operator.neg, operator.invert, abs, round, math.sqrt, math.exp, math.floor, math.fabs]
    with_cuda = {}
    for function, pair in itertools.product(functions, itertools.product(SCALARS, repeat=2)):
        with_cuda[function, pair] = numba_typing.resolve(function, pair)
    for function, kind in itertools.product(unary, SCALARS):
        with_cuda[function, (kind,)] = numba_typing.resolve(function, (kind,))
    from contextlib import nullcontext

    context = cpu_target.typing_context
    context.refresh()
    monkeypatch.setattr(numba_typing, "_context", lambda: (context, nullcontext))
    different = []
    for (function, kinds), answer in with_cuda.items():
        other = numba_typing.resolve.__wrapped__(function, kinds)
        if (other and other[0]) != (answer and answer[0]):
            different.append((function.__name__, kinds, answer, other))
    assert not different


def test_exp2_is_typed_as_exp_where_numba_does_not_know_it(monkeypatch):
    """Numba 0.61 alone does not; numba-cuda does."""
    asked = numba_typing._flat
    monkeypatch.setattr(numba_typing, "_flat", lambda f, k: None if f is math.exp2 else asked(f, k))
    typed = numba_typing.resolve.__wrapped__
    assert typed(math.exp2, (types.float32,)) == (types.float32, (types.float32,))
    assert typed(math.exp2, (types.int64,))[0] == types.float64
    assert typed(math.exp2, (types.unicode_type,)) is None
