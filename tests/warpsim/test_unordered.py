"""A verdict on order comes from what orders accesses, never from the data of a test."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.warpsim.unordered_programs import BLOCKS, THREADS, Program
from warpsim import cuda, trace
from warpsim.watch.other_data import OtherData

PROGRAMS, QUICK = int(os.environ.get("COURSE_DRAWS", "200")), 10
SIZE = BLOCKS * THREADS
DATA = {
    "ones": (np.ones(SIZE), 1.0),
    "zeros": (np.zeros(SIZE), 0.0),
    "arange": (np.arange(SIZE), 2.0),
    "random": (np.random.default_rng(1).normal(size=SIZE), 0.7),
}


def verdict(kernel, name):
    x, a = DATA[name]
    given = x.astype(np.float32), np.float32(a), np.zeros(SIZE, np.float32), np.zeros(SIZE)
    kinds = {finding.kind for finding in trace(kernel, BLOCKS, THREADS, *given).findings}
    return next((one for one in ("race", "same-value-race") if one in kinds), "")


@pytest.mark.parametrize(
    "seed",
    [pytest.param(s, marks=pytest.mark.slow if s >= QUICK else ()) for s in range(PROGRAMS)],
)
def test_the_verdict_is_the_same_whatever_the_data(seed):
    program = Program(seed)
    kernel = cuda.jit(program.function(cuda))
    found = {name: verdict(kernel, name) for name in DATA}
    assert found == dict.fromkeys(DATA, program.verdict()), program.text


LIMIT = 7.25


def _over_a_number(x, a, out):
    out[0] = int(x[cuda.grid(1)] > 1e9)


def _at_a_number_outside(x, a, out):
    out[0] = 1.0 if x[cuda.grid(1)] == LIMIT else 0.0


def _clamped_by_an_argument(x, a, out):
    out[0] = min(max(x[cuda.grid(1)], a), a + 1)


def _one_way_or_the_other(x, a, out):
    if x[cuda.grid(1)] > 12345:
        out[0] = 1
    else:
        out[0] = 2


@pytest.mark.parametrize(
    "function",
    [_over_a_number, _at_a_number_outside, _clamped_by_an_argument, _one_way_or_the_other],
)
def test_data_are_drawn_beside_what_a_kernel_compares_them_with(function):
    for x in (np.zeros(SIZE), np.ones(SIZE)):
        found = trace(cuda.jit(function), BLOCKS, THREADS, x, 1e6, np.zeros(1)).findings
        assert "race" in {finding.kind for finding in found}


def test_other_data_make_no_loop_much_longer(monkeypatch):
    @cuda.jit
    def reaches(start, found):
        i = cuda.grid(1)
        for _ in range(start[i], start[i + 1]):
            found[0] = 1

    passes = []
    head = OtherData.head
    monkeypatch.setattr(OtherData, "head", lambda *given: passes.append(1) or head(*given))
    (finding,) = trace(reaches, 2, 32, np.arange(0, 260, 4), np.zeros(1, np.int32)).findings
    assert finding.kind == "same-value-race" and 0 < len(passes) < 5_000
