"""Launches that are looked at for errors alone: no cost is counted, and one thread is quick."""

import numpy as np
import pytest
from numba import float64

from warpsim import cuda
from warpsim.code.programs import program_of
from warpsim.run import kernel as launches
from warpsim.run.launch import types_of
from warpsim.run.program_findings import Collected


@pytest.fixture
def found(monkeypatch):
    """What is found, with costs left out."""
    collected = Collected()
    monkeypatch.setattr(launches, "counts_costs", False)
    monkeypatch.setattr(launches, "onlookers", [collected.look])
    return lambda: {(one.kind, one.code) for one in collected.findings}


@cuda.jit(device=True)
def squared(x):
    return x * x


@cuda.jit
def shares(x, out):
    s = cuda.shared.array(4, float64)
    i = cuda.threadIdx.x
    own = cuda.local.array(2, float64)
    own[0] = x[i]
    if x[i] > 2:
        own[1] = squared(own[0])
    s[0] = own[0]
    out[i] = own[1] + s[0]


def test_a_translation_for_errors_counts_nothing():
    kinds = types_of((np.zeros(4), np.zeros(4)))
    texts = [
        program_of(function).lane_program(of, True, function.device, costs=costs).text
        for function, of in ((shares, kinds), (squared, kinds[:1] and (float64,)))
        for costs in (True, False)
    ]
    assert ["observer.count" in text for text in texts] == [True, False, True, False]


def test_one_thread_is_alone_and_reads_what_nobody_has_written_all_the_same(found):
    shares[1, 1](np.full(1, 3.0), np.zeros(1))
    assert not found()
    shares[1, 1](np.full(1, 1.0), np.zeros(1))
    assert found() == {("uninitialised-read", "own[1]")}


def test_a_second_thread_races(found):
    shares[1, 2](np.array([3.0, 4.0]), np.zeros(2))
    assert {kind for kind, _ in found()} == {"race"}


@pytest.mark.parametrize("grid", [2, 3])
def test_blocks_of_one_thread_race(found, grid):
    @cuda.jit
    def last(out):
        out[0] = cuda.blockIdx.x

    last[grid, 1](np.zeros(1))
    assert found() == {("race", "out[0]")}


def test_one_threads_own_array_is_its_own_through_loops_branches_and_functions(found):
    @cuda.jit(device=True)
    def put(own, i, value):
        own[i] = value

    @cuda.jit
    def runs(x, out):
        own = cuda.local.array((2, 3), float64)
        for i in range(3):
            own[0, i] = 0
            own[1, i] = 0
        for i in range(x.size):
            if x[i] > 0:
                put(own[1], i % 3, own[0, i % 3] + x[i])
            else:
                own[0, i % 3] -= own[1, (i + 1) % 3]
            own[0, 0], own[0, 1] = own[0, 1], own[0, 0]
        for i in range(6):
            out[i] = own[i // 3, i % 3]

    x = np.random.default_rng(0).normal(size=50)
    alone, several = np.zeros(6), np.zeros(6)
    runs[1, 1](x, alone)
    assert not found()
    launches.onlookers.clear()
    runs[1, 33](x, several)
    assert (alone == several).all() and alone.any()


def test_out_of_bounds_is_told_of_one_thread(found):
    @cuda.jit
    def beyond(x):
        own = cuda.local.array(2, float64)
        for i in range(3):
            own[i] = i
        x[x.size] = own[0]

    beyond[1, 1](np.zeros(2))
    assert found() == {("out-of-bounds", "own[i]"), ("out-of-bounds", "x[x.size]")}
