"""Which lines of a kernel count as run where coverage.py measures."""

import sys
from types import ModuleType

import numpy as np
import pytest

from tests.warpsim.programs.random_programs import results
from tests.warpsim.programs.test_control_flow import launcher
from warpsim import cuda


@pytest.fixture
def covered(monkeypatch):
    """As where coverage.py measures in this process."""
    coverage = ModuleType("coverage")
    coverage.Coverage = type("Coverage", (), {"current": staticmethod(object)})
    monkeypatch.setitem(sys.modules, "coverage", coverage)


def lines_run(file, run):
    """The lines of a file that run, as a function of `sys.settrace` sees them."""
    found, before = set(), sys.gettrace()

    def look(frame, event, argument):
        if frame.f_code.co_filename != file:
            return None
        if event == "line":
            found.add(frame.f_lineno)
        return look

    sys.settrace(look)
    try:
        run()
    finally:
        sys.settrace(before)
    return found


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 7, 10])
def test_they_are_those_that_run_thread_by_thread(covered, seed):
    file, here = f"<{seed}>", set()

    def simulated(function):
        launch = launcher(function, traced=seed % 2 == 1)
        return lambda *arguments: here.update(lines_run(file, lambda: launch(*arguments)))

    by_python = lines_run(file, lambda: results(seed, lambda f: lambda *arguments: None))
    results(seed, simulated)
    assert here == by_python


def test_without_it_a_lane_program_has_a_file_of_its_own():
    def body(x):
        x[cuda.grid(1)] = 1

    first, launch = body.__code__.co_firstlineno, cuda.jit(body)[1, 32]
    assert first + 1 not in lines_run(__file__, lambda: launch(np.zeros(32)))


def test_a_loop_that_never_ends_is_found_all_the_same(covered):
    @cuda.jit
    def waits(x):
        while x[0] == 0:
            pass

    with pytest.raises(RuntimeError, match="waits, line 2: 1 threads wait for ever"):
        waits[1, 1](np.zeros(1))
