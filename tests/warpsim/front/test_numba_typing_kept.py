"""Numba's answers about types of numbers are kept on disk, and are Numba's."""

import math
import operator
import os
import subprocess
import sys

import numpy as np
import pytest
from numba import types

from warpsim.front import numba_typing

MUL = "call _operator.mul float32 float32"
PROGRAM = """
import sys
import numpy as np
from warpsim import cuda

@cuda.jit
def scaled(a, out, factor):
    i = cuda.grid(1)
    if i < out.size:
        total = 0.0
        for n in range(4):
            total += a[i] * factor + n % 3
        out[i] = total

given = np.arange(100, dtype=np.float32)
out = np.zeros_like(given)
scaled[1, 128](given, out, np.float32(2))
assert np.array_equal(out, 8 * given + 3)
print(any(name.endswith("typing.templates") and "cuda" in name for name in sys.modules))
"""


def run(folder, tmp_path):
    """Whether a program with a kernel had Numba's rules loaded."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(program)], capture_output=True, text=True,
        env={**os.environ, "WARPSIM_CACHE": str(folder)},
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return done.stdout.strip() == "True"


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The folder that a first process left, and whether that had Numba's rules loaded."""
    folder = tmp_path_factory.mktemp("first")
    return folder / "kept", run(folder / "kept", folder)


@pytest.mark.slow
def test_the_second_process_loads_no_rules(first, tmp_path):
    folder, had_rules = first
    (file,) = folder.iterdir()
    assert numba_typing._read(file)[MUL]
    assert not run(folder, tmp_path)
    assert run("off", tmp_path) == had_rules  # core Numba has rules of another name


@pytest.fixture
def afresh(tmp_path, monkeypatch):
    """This process has asked nothing, and keeps what it is told in a folder of the test's own."""

    def forget():
        for cached in (numba_typing._file, numba_typing._load):
            cached.cache_clear()

    monkeypatch.setenv("WARPSIM_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(numba_typing, "_found", {})
    monkeypatch.setattr(numba_typing, "_new", set())
    forget()
    yield tmp_path / "kept"
    forget()


@pytest.mark.parametrize("text", ["", "[1, 2", f'{{"{MUL}": ["no"]}}', "3"])
def test_a_broken_file_is_no_error(text, afresh):
    file = numba_typing._file()
    afresh.mkdir()
    file.write_text(text)
    assert numba_typing._flat(operator.mul, (types.float32,) * 2) == (types.float32,) * 3
    numba_typing.save()
    assert numba_typing._read(file)[MUL] == ["float32"] * 3


@pytest.mark.slow
def test_answers_of_other_rules_are_kept_apart_or_not_at_all(tmp_path, monkeypatch):
    """With numba-cuda hidden, and under Numba's own simulator, core Numba answers."""
    (tmp_path / "hidden" / "numba_cuda").mkdir(parents=True)
    (tmp_path / "hidden" / "sitecustomize.py").write_text(
        "import sys\nsys.modules['numba_cuda'] = sys.modules['numba.cuda'] = None\n"
    )
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'hidden'}{os.pathsep}{before}")
    assert not run(tmp_path / "kept", tmp_path)
    monkeypatch.setenv("PYTHONPATH", before)
    (of_core,) = (tmp_path / "kept").iterdir()
    run(tmp_path / "kept", tmp_path)
    if numba_typing.has_numba_cuda():
        assert len(list((tmp_path / "kept").iterdir())) == 2
        assert numba_typing._read(of_core)[MUL] == ["float32"] * 3


def test_a_folder_that_cannot_be_made_is_no_error(afresh):
    afresh.write_text("")
    assert numba_typing._flat(operator.mul, (types.float32,) * 2) == (types.float32,) * 3
    numba_typing.save()
    assert afresh.read_text() == ""


KINDS = types.int8, types.uint32, types.int64, types.float16, types.float32, types.complex64
FUNCTIONS = operator.add, operator.floordiv, math.sin, pow, np.hypot, max


@pytest.mark.parametrize("function", FUNCTIONS)
def test_kept_answers_are_numbas(function, afresh):
    ask = numba_typing._flat.__wrapped__
    count = 1 if function is math.sin else 2
    for first in KINDS:
        for second in KINDS:
            given = (first, second)[:count]
            told = ask(function, given)
            assert (
                numba_typing._flat(function, given) == told == numba_typing._flat(function, given)
            )
    numba_typing.save()
    numba_typing._found.clear()
    numba_typing._load.cache_clear()
    for question, words in numba_typing._read(numba_typing._file()).items():
        _, _, *names = question.split()
        assert numba_typing._flat(function, tuple(numba_typing._KINDS[name] for name in names)) == (
            None if words is None else tuple(numba_typing._KINDS[name] for name in words)
        )


def test_other_questions_are_not_kept():
    def own(a):
        return a

    assert numba_typing._question("call", own, (types.int64,)) is None
    assert numba_typing._question("call", operator.add, (types.Array(types.int8, 1, "C"),)) is None
    own.__module__, own.__name__ = "math", "sin"
    assert numba_typing._question("call", own, (types.int64,)) is None
