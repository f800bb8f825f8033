"""Random kernels whose threads exchange values: against Numba's simulator, and against a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.texts import function_of
from tests.warpsim import the_course
from tests.warpsim.programs.exchange_programs import GRID, arguments, function, result, source
from warpsim import cuda as simulated
from warpsim import trace

HERE = Path(__file__).parent
#: Programs run by Numba's simulator, a Python thread for each CUDA thread; and by a GPU.
PROGRAMS = int(os.environ.get("COURSE_EXCHANGE_PROGRAMS", "40"))
ON_A_GPU = int(os.environ.get("COURSE_GPU_PROGRAMS", "20"))


@pytest.mark.slow
def test_exchanges_agree_with_numbas_simulator(tmp_path):
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    file = tmp_path / "numba.npz"
    command = [sys.executable, "exchange_programs.py", str(file), "simulator", "0", str(PROGRAMS)]
    subprocess.run(command, cwd=HERE, env=environment, check=True, timeout=1200)
    wanted = dict(np.load(file))
    assert len(wanted) == PROGRAMS
    for seed in range(PROGRAMS):
        found = result(seed, simulated, shuffles=False)
        assert np.array_equal(found, wanted[str(seed)]), source(seed, False)[0]


@pytest.mark.gpu
@pytest.mark.skipif(the_course.gpu() is None, reason="needs a GPU")
def test_exchanges_agree_with_the_gpu():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(ON_A_GPU):
            wanted = result(seed, the_course.cuda, shuffles=True)
            found = result(seed, simulated, shuffles=True)
            assert np.array_equal(found, wanted), source(seed, True)[0]


def batches(end, quick):
    """The first of each 50 programs; from `quick` on they are slow tests."""
    return [
        pytest.param(first, marks=pytest.mark.slow if first >= quick else ())
        for first in range(0, end, 50)
    ]


@pytest.mark.parametrize("first", batches(300, 50))
def test_correct_exchanges_have_no_error_finding(first):
    for seed in range(first, first + 50):
        made, block = function(seed, simulated, shuffles=True)
        x, n, out = arguments(seed, block)
        report = trace(simulated.jit(made), GRID, block, x, n, out)
        errors = [finding for finding in report.findings if finding.is_error]
        assert not errors, f"{errors}\n{source(seed, True)[0]}"
        assert np.array_equal(out, result(seed, simulated, shuffles=True))


@pytest.mark.slow
@pytest.mark.parametrize("first", batches(150, 50))
def test_a_barrier_left_out_is_found_or_did_no_harm(first):
    """Of programs with one barrier less, those that race are found; most of them do."""
    raced = tried = 0
    for seed in range(first, first + 50):
        made, block = function(seed, simulated, shuffles=False)
        text, _ = source(seed, False)
        lines = text.splitlines(True)
        barriers = [number for number, line in enumerate(lines) if "syncthreads" in line]
        if not barriers:
            continue
        tried += 1
        lines[barriers[0]] = lines[barriers[0]].replace("cuda.syncthreads()", "pass")
        less = function_of("".join(lines), f"exchange {seed}, a barrier less", made.__globals__)
        report = trace(simulated.jit(less), GRID, block, *arguments(seed, block))
        raced += any(finding.kind == "race" for finding in report.findings)
    assert tried >= 30
    assert raced >= 0.9 * tried
