"""A verdict on order comes from what orders accesses, never from the data of a test."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.warpsim.unordered_programs import BLOCKS, THREADS, Program
from warpsim import cuda, trace

PROGRAMS, QUICK = int(os.environ.get("COURSE_UNORDERED_PROGRAMS", "200")), 10
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
