"""Random programs that read what was never written, against each thread alone in Python.

Python runs each program with an object in all that was never written that spreads through
arithmetic and notes when it reaches a branch, an index or a store; and with several numbers in its
place. If the object arrives nowhere, the trace must be silent; if the results depend on the number,
it must not. (A condition of several comparisons, each true for one number only, can be missed: at
most one program in a batch.)
"""

from __future__ import annotations

import os
from functools import cache
from types import FunctionType

import numpy as np
import pytest
from numba import float64

from tests.texts import function_of
from tests.warpsim.programs.random_programs import THREADS, WIDTH, _PythonArray, helper, source
from warpsim import cuda, trace

#: Random programs to run; more with COURSE_UNWRITTEN_PROGRAMS.
PROGRAMS = int(os.environ.get("COURSE_UNWRITTEN_PROGRAMS", "200"))
BATCH = 50
NUMBERS = (0, 1, 7_919_000_017, -104_729_000_003)


class Reached(Exception):
    """The unwritten reached a place where it matters."""


class Unwritten:
    """What is there before anything is written: any number made with it is such a thing, too."""

    def _spread(self, *_):
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _spread
    __neg__ = __abs__ = _spread

    def _reach(self, *_):
        raise Reached

    __bool__ = __int__ = __index__ = __float__ = __lt__ = __gt__ = __le__ = __ge__ = _reach
    __eq__ = __ne__ = _reach
    __hash__ = object.__hash__


class Output(_PythonArray):
    def __setitem__(self, index, value):
        if isinstance(value, Unwritten):
            raise Reached
        super().__setitem__(index, value)


@cache
def halves(seed: int) -> tuple[str, str]:
    """A random program that sets some variables for some threads only, for Python and for us."""
    text = source(seed)
    for name, value in (("b", "n[i, 3]"), ("f", "0.5")):
        old = f"    {name} = {value}\n"
        guarded = f"    if n[i, {name == 'f':d}] > -4:\n        {name} = {value}\n"
        text = text.replace(old, f"    {name} = unwritten\n{guarded}", 1)
    text = text.replace("return a * 100 + b * 10 + c + f", "return a * 100 + c")
    device = text.replace("    b = unwritten\n", "").replace("    f = unwritten\n", "")
    return text, device


def inputs(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, (THREADS, WIDTH))


@cache
def for_python(seed: int) -> FunctionType:
    return function_of(halves(seed)[0], f"{seed}", {"helper": helper})


def by_python(seed: int, unwritten) -> np.ndarray:
    n, out = inputs(seed), np.zeros((THREADS, 5))
    plain = for_python(seed)
    plain.__globals__["unwritten"] = unwritten
    for i in range(THREADS):
        local = [0.0, unwritten, n[i, 5].item() * 1.0, unwritten]
        value = plain(i, _PythonArray(n), Output(out), local, 3)
        Output(out)[i, 4] = value
    return out


def traced(seed: int) -> tuple[list, np.ndarray]:
    _, text = halves(seed)
    helpers = {"helper": cuda.jit(device=True)(helper)}
    function = cuda.jit(device=True)(function_of(text, f"{seed} on the device", helpers))

    @cuda.jit
    def kernel(n, o, k):
        i = cuda.grid(1)
        local = cuda.local.array(4, float64)
        if i < n.shape[0]:
            local[0] = 0.0
            local[2] = n[i, 5]
            o[i, 4] = function(i, n, o, local, k)

    out = np.zeros((THREADS, 5))
    report = trace(kernel, 2, 40, inputs(seed), out, 3)
    return [finding for finding in report.findings if finding.is_error], out


def truth(seed: int) -> tuple[bool, bool]:
    """Can the unwritten reach anything? Do the results depend on it?"""
    try:
        by_python(seed, Unwritten())
        reaches = False
    except Reached:
        reaches = True
    with np.errstate(all="ignore"):
        results = [by_python(seed, number) for number in NUMBERS]
    return reaches, any(not np.array_equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize(
    ("first", "size"),
    [
        (0, BATCH // 2),
        *(pytest.param(n, BATCH, marks=pytest.mark.slow) for n in range(0, PROGRAMS, BATCH)),
    ],
)
def test_findings_are_where_results_depend_on_the_unwritten(first, size):
    seen, missed = set(), []
    for seed in range(first, min(first + size, PROGRAMS)):
        reaches, depends = truth(seed)
        errors, out = traced(seed)
        shown = f"program {seed}:\n{halves(seed)[1]}\n{errors}"
        assert all(finding.kind == "uninitialised-read" for finding in errors), shown
        if not reaches:
            assert not errors, shown
            assert np.array_equal(out, by_python(seed, 0)), shown
        elif depends and not errors:
            missed.append(shown)
        seen.add((reaches, depends))
    assert len(missed) <= 1, missed
    assert {(False, False), (True, True)} <= seen
