"""Control flow of the simulator against plain Python, thread for thread."""

from __future__ import annotations

import contextlib
import os
import random

import numpy as np
import pytest
from numba import float64
from numba.core.errors import TypingError

from tests.warpsim import the_course
from tests.warpsim.programs.random_programs import THREADS, helper, results, source
from warpsim import cuda, trace
from warpsim.core.executed import noting
from warpsim.run.control import Control

#: Random programs to run, the first ones in `make test`, the others with the slow tests; 2,000 in
#: CI, and COURSE_RANDOM_PROGRAMS=10000 before a change of the simulator.
PROGRAMS = int(os.environ.get("COURSE_RANDOM_PROGRAMS", "400"))
BATCH = 50


def launcher(function, traced=False):
    @cuda.jit
    def kernel(n, o, k):
        i = cuda.grid(1)
        local = cuda.local.array(4, float64)
        for p in range(4):
            local[p] = 0.0
        if i < n.shape[0]:
            o[i, 4] = function(i, n, o, local, k)

    def launch(n, o, k):
        if traced:
            report = trace(kernel, 2, 40, n, o, k)
            errors = [finding for finding in report.findings if finding.is_error]
            assert not errors, errors
        else:
            kernel[2, 40](n, o, k)

    return launch


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=pytest.mark.slow if first >= BATCH else ())
        for first in range(0, PROGRAMS, BATCH)
    ],
)
def test_random_programs_do_what_each_thread_alone_would_do(first):
    for seed in range(first, min(first + BATCH, PROGRAMS)):
        wanted, found = results(seed, lambda f, seed=seed: launcher(f, traced=seed % 4 == 0))
        assert np.array_equal(wanted, found), f"program {seed}:\n{source(seed)}"


def test_variables_that_a_loop_sets_to_numbers_of_several_types():
    """Loops of drawn lines do what Python does, where that finds all variables set."""
    steps = "v = i|v = i * 0.5|v = 3|w = v|a = v|out[i] += v|out[i] += w".split("|")
    when, ran = ["", "", "if i % 2 == 0: ", "if i > 1: "], 0
    for seed in range(300):
        draw = random.Random(seed)
        lines = [draw.choice(when) + draw.choice(steps) for _ in range(7)]
        text = "\n        ".join(["def body(n, out):\n    a = 1\n    for i in range(n):", *lines])
        with noting():
            exec(f"{text}\n    out[7] = v + a", names := {})
        wanted, found = np.zeros(8), np.zeros(8)
        with contextlib.suppress(NameError, TypingError):
            names["body"](5, wanted)
            cuda.jit(names["body"])[1, 1](5, found)
            assert np.array_equal(wanted, found), f"seed {seed}:\n{text}"
            ran += 1
    assert ran > 40


@pytest.mark.gpu
@pytest.mark.skipif(the_course.gpu() is None, reason="needs a GPU")
def test_random_programs_do_the_same_on_a_gpu():
    """A few of them: a GPU's compiler takes about a second for each."""
    real = the_course.cuda

    def on_the_gpu(function):
        function.py_func.__globals__["helper"] = real.jit(device=True)(helper)
        compiled = real.jit(device=True)(function.py_func)

        @real.jit
        def kernel(n, o, k):
            i = real.grid(1)
            local = real.local.array(4, float64)
            for p in range(4):
                local[p] = 0.0
            if i < n.shape[0]:
                o[i, 4] = compiled(i, n, o, local, k)

        return lambda n, o, k: kernel[2, 40](n, o, k)

    for seed in range(int(os.environ.get("COURSE_GPU_PROGRAMS", "25"))):
        wanted, found = results(seed, on_the_gpu)
        assert np.array_equal(wanted, found), f"program {seed}:\n{source(seed)}"


@pytest.mark.slow
def test_random_programs_do_diverge():
    """The programs above would prove nothing if all threads took the same way."""
    different = 0
    for seed in range(60):
        wanted, _ = results(seed, lambda f: launcher(f))
        different += len(np.unique(wanted[:, 4])) > THREADS // 8
    assert different > 30


@pytest.mark.slow
def test_a_planted_mask_bug_is_found(monkeypatch):
    """The programs above must notice an assignment that forgets the idle lanes."""

    def forgetful(self, where, new, old):
        return new

    monkeypatch.setattr(Control, "merged", forgetful)
    wrong = 0
    for seed in range(60):
        try:
            wanted, found = results(seed, lambda f: launcher(f))
        except Exception:
            wrong += 1
        else:
            wrong += not np.array_equal(wanted, found)
    assert wrong > 12
