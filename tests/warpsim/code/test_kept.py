"""Functions of one shape share a translation, in this process and in the next one."""

import itertools
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from warpsim import cuda, trace
from warpsim.code import kept, likeness, programs, statements


@pytest.fixture
def written(monkeypatch):
    """The names of the functions that are translated meanwhile, by a process that knows nothing."""
    names, shell = [], statements.Writer.shell

    def noted(self):
        names.append(self.source.name)
        return shell(self)

    monkeypatch.setattr(statements.Writer, "shell", noted)
    monkeypatch.setattr(kept, "_by_shape", {})
    monkeypatch.setattr(programs, "_shared", {})
    return names


# ---------------------------------------------------------------------- in one process
def device(number, amount):
    """A device function of three arguments, of several kinds."""
    if number == 0:

        @cuda.jit(device=True)
        def callee(x, own, i):
            return x[i] + amount
    elif number == 1:

        @cuda.jit(device=True)
        def callee(x, own, i):
            own[0] = amount
            return own[0] * 0.5
    elif number == 2:

        @cuda.jit(device=True)
        def callee(x, own, i):
            x[i] = amount
            return i
    elif number == 3:

        @cuda.jit(device=True)
        def callee(x, own, i):
            return own[1]  # nobody has set it
    else:

        @cuda.jit(device=True)
        def callee(x, own, i):
            x[0] = i  # a race
            return np.float32(amount)

    return callee


def calling(first, second, flag):
    @cuda.jit
    def kernel(x, out):
        own = cuda.local.array(2, np.float32)
        i = cuda.threadIdx.x
        value = first(x, own, i)
        if flag:
            value = value + second(x, own, i)
        for n in range(2):
            value = value * 2 + second(x, own, n)
        out[i] = value

    return kernel


def done(kernel, is_traced):
    x, out = np.arange(8, dtype=np.float32), np.zeros(8)
    if not is_traced:
        kernel[1, 8](x, out)
        return x.tolist(), out.tolist()
    report = trace(kernel, 1, 8, x, out)
    findings = [(f.kind, f.line, f.code, f.message) for f in report.findings]
    return x.tolist(), out.tolist(), findings, dict(report._counters.operations)


def drawn(seed):
    """Two functions, perhaps one and the same, and how they are called and run."""
    draw = random.Random(seed)
    first = device(draw.randrange(5), draw.randrange(4))
    second = first if draw.random() < 0.2 else device(draw.randrange(5), draw.randrange(4))
    return calling(first, second, draw.random() < 0.5), draw.random() < 0.7


def test_what_shares_does_as_what_is_translated_alone(monkeypatch, written):
    seeds = range(7_000, 7_200)
    shared = {seed: done(*drawn(seed)) for seed in seeds}
    number = written.count("kernel")
    monkeypatch.setattr(programs, "kept_of", lambda form: None)
    monkeypatch.setattr(programs, "_shared", {})
    written.clear()
    for seed in seeds:
        assert str(shared[seed]) == str(done(*drawn(seed))), f"seed {seed}"
    assert number < 0.6 * written.count("kernel")


def test_only_results_of_one_type_share(written):
    for number, amount in ((0, 1), (0, 2), (3, 1), (1, 1)):
        done(calling(device(number, amount), device(0, 5), False), False)
    assert written.count("kernel") == 3  # one reads other arguments, one gives float64


def test_two_names_of_one_function_are_told_apart_where_they_are_two(written):
    one, other = device(0, 1), device(0, 2)
    assert done(calling(one, one, True), False) != done(calling(one, other, True), False)
    assert done(calling(other, one, True), False) != done(calling(one, other, True), False)
    assert written.count("kernel") == 1


def looking_up(table):
    @cuda.jit
    def kernel(out):
        out[0] = table[0] + LIMIT

    return kernel


LIMIT = 1


def test_what_has_changed_meanwhile_is_noted_nowhere(monkeypatch, written):
    """A kernel that is launched with other types after a change, as compiled then, helps nobody."""
    table, whole = np.zeros(1), np.zeros(1, np.int64)
    kernel = looking_up(table)
    kernel[1, 1](np.zeros(1))
    table[0] = 5
    kernel[1, 1](whole)
    assert whole[0] == 6
    looking_up(np.zeros(1))[1, 1](whole)
    assert whole[0] == 1
    with monkeypatch.context() as changed:
        changed.setitem(globals(), "LIMIT", 10)
        kernel = looking_up(np.zeros(1))
        kernel[1, 1](np.zeros(1))
    kernel[1, 1](whole)
    again = looking_up(np.zeros(1))
    again[1, 1](whole)
    assert whole[0] == 1
    monkeypatch.setitem(globals(), "LIMIT", 10)
    looking_up(np.zeros(1))[1, 1](whole)
    assert whole[0] == 10


def test_a_function_that_is_handed_on_shares_nothing(written):
    def kernel_of(function):
        @cuda.jit(device=True)
        def applied(what, x):
            return what(x)

        @cuda.jit
        def kernel(out):
            out[0] = applied(function, 3)

        return kernel

    def added(amount):
        @cuda.jit(device=True)
        def add(x):
            return x + amount

        return add

    out = np.zeros(1)
    for amount in (1, 2, 3):
        kernel_of(added(amount))[1, 1](out)
        assert out[0] == 3 + amount
    assert written.count("kernel") == 3


# ---------------------------------------------------------------------- in the next process
SUITE = """\
import math

import numpy as np
import pytest
from numba import cuda

table = np.arange(4.0, dtype=np.float32)


def made(amount):
    @cuda.jit(device=True)
    def add(x):
        return math.sqrt(x) + np.float32(amount) + table[1]

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(x[i])

    return kernel


@pytest.mark.parametrize("amount", [1, 2, 30])
def test_added(amount):
    x, out = np.full(40, 4, np.float32), np.zeros(40, np.float32)
    made(amount)[2, 32](x, out)
    assert (out == 3 + amount).all()
"""

COUNTING = """\
from warpsim.code import statements

names, shell = [], statements.Writer.shell


def noted(self):
    names.append(self.source.name)
    return shell(self)


statements.Writer.shell = noted


def pytest_unconfigure(config):
    print("written:", *sorted(names))
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Run a suite in a process of its own: the functions that it translates."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # none from further up
    (tmp_path / "test_it.py").write_text(SUITE)
    (tmp_path / "counting.py").write_text(COUNTING)
    monkeypatch.delenv("COV_CORE_SOURCE", raising=False)

    def run(*options, cache=tmp_path / "cache", passes=True):
        path = os.pathsep.join([str(tmp_path), *sys.path])
        own = {"PYTHONPATH": path, "WARPSIM_CACHE": str(cache)}
        own["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # others take two seconds
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "warpsim.pytest_plugin", "--warpsim",
             "-p", "counting", "-p", "no:cacheprovider", *options, "test_it.py"],
            cwd=tmp_path, capture_output=True, text=True, env=os.environ | own,
        )  # fmt: skip
        assert (done.returncode == 0) is passes, done.stdout + done.stderr
        return next(s.split()[1:] for s in done.stdout.splitlines() if s.startswith("written:"))

    return run


def files(tmp_path):
    return sorted((tmp_path / "cache").glob("programs-*/*"))


@pytest.mark.slow
def test_the_second_run_translates_nothing(suite, tmp_path):
    first = suite()
    assert first == ["add", "add", "add", "kernel"]
    assert not suite() and len(files(tmp_path)) == 4
    assert suite(cache="off") == first
    text = (tmp_path / "test_it.py").read_text()
    (tmp_path / "test_it.py").write_text(text.replace("table[1]", "table[2]").replace("3 +", "4 +"))
    assert suite() == ["add", "add", "add"]  # the kernel is as it was
    (tmp_path / "test_it.py").write_text("\n" + text)
    assert suite() == first  # its lines are others


@pytest.mark.slow
def test_what_is_damaged_is_made_anew(suite, tmp_path):
    first = suite()
    for file, spoil in zip(
        files(tmp_path),
        itertools.cycle([lambda b: b[:-1], lambda b: b"", lambda b: b.replace(b"a", b"b")]),
        strict=False,
    ):
        file.write_bytes(spoil(file.read_bytes()))
    assert suite() == first and not suite()
    if hasattr(os, "geteuid"):
        files(tmp_path)[0].chmod(0o666)  # others may have written it
        assert len(suite()) == 1


@pytest.mark.slow
def test_processes_beside_each_other(suite, tmp_path):
    pytest.importorskip("xdist")
    suite("-p", "xdist", "-n", "2")
    assert len(files(tmp_path)) == 4 and not suite()


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_no_error(suite, tmp_path):
    (tmp_path / "cache").write_text("")
    assert len(suite()) == 4


def test_the_oldest_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "MOST_OF_ALL", 1000)
    for n in range(8):
        file = tmp_path / f"programs-{n % 2}" / str(n)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes(200))
        os.utime(file, (n, n))
    kept._drop_oldest(tmp_path)
    assert sorted(file.name for file in tmp_path.glob("*/*")) == ["6", "7"]


def test_what_no_other_process_has_is_kept_nowhere(monkeypatch):
    class Local(np.ndarray):
        pass

    for value in (Local, os.sep.join, np.zeros(1).view(Local)):
        assert likeness.digest(("key", likeness._This(value))) is None
    assert likeness.digest(("key", likeness._This(np.sin), np.float32, None, 1.5)) is not None
