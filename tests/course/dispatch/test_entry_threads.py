"""Public functions in several threads at once, before any kernel is prepared: right, and alike."""

from __future__ import annotations

import importlib
import os
import random
import subprocess
import sys
import weakref

import numpy as np
import pytest

from course import backend
from course.backend import cuda
from course.checks import judging
from tests.course.checks.sample_exercises import SQUARE
from tests.course.dispatch.drawn_arrays import FRONTS, LONG, modules, to_numpy
from tests.threads import at_once
from warpsim.code import programs

THREADS = 8
simulated = pytest.mark.skipif(backend.gpu() is not None, reason="a GPU's kernels stay compiled")


def forget_all(monkeypatch):
    """No kernel has been made, typed or translated, and no entry point has a plan."""
    monkeypatch.setattr(programs, "_programs", weakref.WeakKeyDictionary())
    for one in modules():
        for value in vars(importlib.import_module(one.name)).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    for front in FRONTS.values():
        front.entry.plans.clear()


def arguments(name: str, seed: int) -> dict:
    front, rng = FRONTS[name], np.random.default_rng(seed)
    return {
        each: (front.values[each](rng) if each in front.values else rng.random(shape)).astype(
            front.types.get(each, np.float32)
        )
        for each, shape in front.shapes.items()
    } | front.options


@simulated
@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=pytest.mark.slow if s > 1 else ()) for s in range(40)]
)
def test_functions_that_threads_call_cold_give_what_they_give_alone(seed, monkeypatch):
    draw = random.Random(seed)
    some = draw.sample([name for name in FRONTS if seed > 1 or name not in LONG], 2)
    tasks = [(draw.choice(some), draw.randrange(9)) for _ in range(THREADS)]

    def do(task):
        return to_numpy(FRONTS[task[0]].call(**arguments(*task)))

    wanted = {task: do(task) for task in tasks}
    forget_all(monkeypatch)
    for task, found in zip(tasks, at_once(*(lambda t=t: do(t) for t in tasks)), strict=True):
        pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in (found, wanted[task])))
        assert all(np.array_equal(one, other, equal_nan=True) for one, other in pairs), task


def test_answers_may_be_checked_in_threads_and_printing_goes_on():
    def judged():
        @cuda.jit
        def square(out, x):
            i = cuda.grid(1)
            if i < x.size:
                out[i] = x[i] * x[i]

        return judging.judge(SQUARE, square)

    before = sys.stdout
    assert all(at_once(*[judged] * 4)) and sys.stdout is before


COLD = """
from concurrent.futures import ThreadPoolExecutor
import sys, threading
import numpy as np
sys.setswitchinterval(1e-6)
start = threading.Barrier(8)
def work(i):
    start.wait()
    from course.kernels.softmax import softmax
    from course.kernels.gemm.float32 import matmul
    x = np.random.default_rng(i).standard_normal((5 + i, 9)).astype(np.float32)
    powers = np.exp(x.astype(float))
    right = np.allclose(softmax(x), powers / powers.sum(1, keepdims=True), atol=1e-6)
    return right and np.allclose(matmul(x, x, "nt"), x @ x.T, atol=1e-4)
with ThreadPoolExecutor(8) as pool:
    assert all(pool.map(work, range(8)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["off", "empty"])
def test_threads_may_begin_with_the_import(cache, tmp_path):
    for run in range(2):
        where = "off" if cache == "off" else str(tmp_path / str(run))
        environment = {**os.environ, "WARPSIM_CACHE": where}
        subprocess.run([sys.executable, "-c", COLD], env=environment, check=True, timeout=300)
