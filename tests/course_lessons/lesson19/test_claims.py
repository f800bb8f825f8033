"""What lesson 19 says of figures is what the recorded files say; seven programs run as shown."""

import ast
import re
import sys
from types import ModuleType

import numpy as np
import pytest

from course import backend, recorded
from course.files import data_path
from course_lessons.lesson19 import evidence, programs
from tools.notebooks import lessons

TEXT = (lessons.ROOT / "course_lessons/lesson19/what_carries_over.py").read_text(encoding="utf-8")
PLAIN = re.sub(r"\n# ?", " ", TEXT)
FACTORS = {each.what: each.factor for each in evidence.changes()}


def test_every_change_was_measured_on_one_gpu_and_is_a_gain():
    for each in evidence.changes():
        assert {each.before.gpu, each.after.gpu} == {"NVIDIA H200"}
        assert each.before.shape == each.after.shape or "warps" in each.before.variant
        assert each.factor > 1.3, each.what
    assert {each.principle for each in evidence.changes()} == set(evidence.COLOURS)


def test_the_text_repeats_the_factors_that_the_files_have():
    together = FACTORS["tiles in shared memory"] * FACTORS["sums and tiles in registers"]
    assert f"and together {int(together)} times" in PLAIN
    assert f"second gave {int(together)} times between" in PLAIN
    batch = FACTORS["pinned memory, used again"] * FACTORS["copies while kernels run"]
    assert "the third 20 times for a batch" in PLAIN and 20 <= batch < 21
    pinned = next(e for e in evidence.changes() if e.what == "pinned memory, used again")
    assert f"this took {pinned.before.median:.0f} ms" in PLAIN
    assert 3.5 < FACTORS["four GPUs, not one"] < 4


def test_no_principle_wins():
    """The picture's claim: of the five largest factors none of the three has all."""
    largest = sorted(evidence.changes(), key=lambda each: -each.factor)[:7]
    assert {each.principle for each in largest} == set(evidence.COLOURS)


def test_the_factorisation_is_the_longest_stage_and_then_decoding_and_writing():
    stages = evidence.stages()
    assert sorted(stages, key=stages.get) == ["rebuild", "decode", "write", "factorise"]


def test_the_chart_says_in_words_what_it_shows():
    said = evidence.chart().alternative
    for each in evidence.changes():
        assert f"{each.what}: {evidence.factor_text(each.factor)} ({each.principle})" in said


def test_programs_that_can_run_here_are_right_and_others_say_what_they_lack(monkeypatch):
    lines = dict(line.split(maxsplit=1) for line in programs.compared(257).splitlines())
    assert re.search(r"largest error \d\.\de-0[78]", programs.compared(257).splitlines()[0])
    monkeypatch.setattr(programs.importlib.util, "find_spec", lambda name: None)
    assert all("is not installed" in line for line in programs.compared(8).splitlines())
    assert len(lines) >= 5


def test_a_program_for_a_gpu_alone_says_so_where_there_is_none(monkeypatch):
    monkeypatch.setattr(programs.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(backend, "gpu", lambda: None)
    assert programs.missing("Triton") == "it needs a GPU"
    assert programs.missing("Numba") == programs.missing("PyTorch") == ""


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_a_program_is_short_and_has_the_formula(name):
    text = programs.text(name)
    assert len(text.splitlines()) <= 24
    assert re.search(r"exp\(-|expf\(-|sigmoid|functional\.silu", text)
    assert ast.parse(text)


def test_numba_and_its_successor_differ_in_their_imports_alone():
    ours, theirs = (programs.text(name).splitlines() for name in ("Numba", "numba-cuda-mlir"))
    assert all("import" in line for line in set(ours) ^ set(theirs))


def test_cuda_cpp_is_launched_with_a_thread_for_each_element(monkeypatch):
    """With a stand-in for CuPy that runs the launch: index and guard are the kernel's own text."""
    launches = []

    class Kernel:
        def __init__(self, source, name):
            assert f'extern "C" __global__ void {name}(' in source

        def __call__(self, grid, block, arguments):
            launches.append((grid, block, int(arguments[2])))

    class Array(np.ndarray):
        def get(self):
            return np.asarray(self)

    cupy = ModuleType("cupy")
    cupy.RawKernel = Kernel
    cupy.asarray = lambda x: x.view(Array)
    cupy.empty_like = np.empty_like
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.delitem(
        sys.modules, "course_lessons.lesson19.programs.with_cuda_cpp", raising=False
    )
    programs.module("CUDA C++").silu(np.ones(1003, np.float32))
    monkeypatch.delitem(
        sys.modules, "course_lessons.lesson19.programs.with_cuda_cpp", raising=False
    )
    assert launches == [((4,), (256,), 1003)]


def test_the_best_kernel_is_as_fast_in_either_language():
    where = {"kernel": "silu", "shape": "67108864", "dtype": "float32", "gpu": "H200"}
    times = {figure.variant: figure.median for figure in recorded("activation", **where)}
    fastest = [times[name] for name in ("wide", "CUDA C++", "torch", "Triton")]
    assert max(fastest) < 1.02 * min(fastest)


def test_what_is_said_of_the_successor_is_what_its_files_say():
    text = data_path("successor.csv").read_text(encoding="utf-8")
    rows = [line.split(",") for line in text.splitlines() if line.startswith("sm_")]
    (older, compiled), (newer, as_many) = ((int(row[1]), int(row[2])) for row in rows)
    assert (older, newer) == (compiled, as_many)
    said = f"compiles all {older} kernels of the course for a Tesla T4 and all {newer} for an H200"
    assert said in PLAIN
    assert "same result to the bit     104 of 116" in evidence.successor()
    assert "116 steps of the course's ladders ran on an H200" in PLAIN
