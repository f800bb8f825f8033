"""Every step of every ladder keeps what `tests.course.kernels.contract` says."""

import csv
import importlib
import itertools
import os
import pkgutil
import zlib
from pathlib import Path

import numpy as np
import pytest

import course.kernels
import course_app.kernels
import course_models
from course import backend
from course.backend import cuda
from course.kernels.steps import Ladder
from course_lessons.lesson13 import digits
from tests.course.kernels.contract import calls, cases, make_call, typed, watched

CASES = {case.name: case for case in cases()}
STEPS = [(name, method) for name, case in CASES.items() for method in case.ladder.names]
MOVED = {}  # by ladder and step: what its threads load and store, in bytes, each load counted
for row in csv.DictReader((Path(__file__).parent / "moved.csv").open(encoding="utf-8")):
    MOVED.setdefault((row["ladder"], row["method"]), {})[row["dtype"]] = int(row["bytes"])
SEEDS = [
    pytest.param(seed, marks=pytest.mark.slow if seed else (), id=f"seed {seed}")
    for seed in range(int(os.environ.get("COURSE_DRAWS", "2")))
]
FEW = 3  # calls of the seed that `make test` draws; others make all that a case asks for
TRIES = 8  # of a call that a step refuses, with other inputs
simulated = pytest.mark.skipif(backend.gpu() is not None, reason="counts simulated launches")
pytestmark = pytest.mark.usefixtures("h200", "blas")


def test_every_ladder_has_a_case():
    found = {
        value.function
        for package in (course.kernels, course_app.kernels, course_models, digits)
        for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        for value in vars(importlib.import_module(one.name)).values()
        if isinstance(value, Ladder)
    }
    assert found == CASES.keys()


@pytest.mark.drawn(2)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("name", "method"), STEPS)
def test_drawn_calls_are_right_or_refused(name, method, seed):
    case, done = CASES[name], 0
    rng = np.random.default_rng([seed, zlib.crc32(f"{name} {method}".encode())])
    for how in itertools.islice(calls(case, rng), None if seed else FEW):
        for attempt in range(TRIES):
            if attempt > 1:  # a step may take nothing of this size
                how = how._replace(size=case.sizes[rng.integers(len(case.sizes))])
            with watched() as found:
                told = make_call(case, method, how, rng)
            if told is not None:
                break
        assert not told, f"{how}: {told}"
        errors = [
            str(one) for one in found.errors
            # in place, a thread beyond the end reads what others write, and makes nothing of it
            if one.kind != "race" or not (how.out in case.in_place or method in case.works_in_place)
        ]  # fmt: skip
        assert not errors, f"{how}: {errors}"
        in_float64 = 0 if method in case.float64 else found.float64
        assert not in_float64, f"{how}: {in_float64} operations of float64"
        done += told is not None
    assert done, "every call was refused"


@pytest.mark.drawn(2)
@simulated
@pytest.mark.parametrize(("name", "method"), MOVED)
def test_a_step_moves_the_bytes_that_it_moved(name, method):
    """Where it is meant to move others, write them into the table."""
    case = CASES[name]
    for dtype, moved in MOVED[name, method].items():
        inputs = case.work(dtype)
        arrays = [typed(a, dtype) if case.holds(n) else a for n, a in inputs.arrays.items()]
        exact = {name: np.asarray(a, np.float64) for name, a in inputs.arrays.items()}
        results = [
            typed(np.atleast_1d(its.values), case.out_dtype or dtype)
            for its in case.right(exact, **inputs.options)
        ]
        arrays, results = (list(map(cuda.to_device, some)) for some in (arrays, results))
        with watched() as found:
            for launch in case.ladder.launches(*arrays, *results, **inputs.options, method=method):
                launch.on()
        assert found.bytes == moved


@pytest.mark.parametrize("name", CASES)
def test_auto_takes_what_is_best(name):
    ladder = CASES[name].ladder
    for problem, step in CASES[name].best:
        assert ladder.best(problem) == step, problem


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_had_is_refused_in_words(name):
    case = CASES[name]
    for call, kind, words in case.refused:
        with pytest.raises(kind, match=words):
            call()
    inputs, dtype = case.draw(np.random.default_rng(0), "tiny"), case.dtypes[0]
    arrays = [typed(a, dtype) if case.holds(n) else a for n, a in inputs.arrays.items()]
    choices = ", ".join(case.ladder.names)
    with pytest.raises(ValueError, match=f"no method 'fast': choose {choices}"):
        case.call(*arrays, **inputs.options, method="fast")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.entered])
def test_other_arrays_are_refused_with_what_to_do(name):
    case, rng = CASES[name], np.random.default_rng(0)
    inputs, dtype = case.draw(rng, "odd"), case.dtypes[0]
    options = {n: its for n, its in inputs.options.items() if n != "factors"}  # all are given
    arrays = {n: typed(a, dtype) if case.holds(n) else a for n, a in inputs.arrays.items()}

    def refused(error, words, other, **more):
        with pytest.raises(error, match=words):
            case.call(*(arrays | other).values(), **options, **more)

    for which in filter(case.holds, arrays):
        its = arrays[which]
        refused(TypeError, "is list|not list", {which: its.tolist()})
        if not case.converts:
            for kind in ("float64", "int32"):
                refused((TypeError, ValueError), kind, {which: its.astype(kind)})
        if case.layout != "any" and not case.converts:
            there = {n: cuda.to_device(a) for n, a in arrays.items()}
            every = *[slice(None)] * (its.ndim - 1), slice(None, None, 2)
            apart = cuda.to_device(np.repeat(its, 2, -1))[every]
            refused(ValueError, "side by side|C order", there | {which: apart})
    if case.out:
        exact = {n: np.asarray(a, np.float64) for n, a in inputs.arrays.items()}
        shape = 2, *np.shape(case.right(exact, **options)[0].values)
        words = "^out is .* of shape"
        refused(ValueError, words, {}, out=typed(np.empty(shape), case.out_dtype or dtype))
