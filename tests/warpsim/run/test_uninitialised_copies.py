"""A copy of the unwritten, ``a[i] = b[j]`` into local memory, is no finding until it is used."""

from __future__ import annotations

import os
import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numba import complex64, float32, float64, int32

from tests.texts import body_of, function_of
from warpsim import cuda
from warpsim.run import launch, uninitialised
from warpsim.run.launch import run_kernel
from warpsim.watch.counts import Counters

THREADS = 8
PROGRAMS, BATCH = int(os.environ.get("COURSE_UNWRITTEN_PROGRAMS", "200")), 50


def errors(kernel, *arguments):
    """What a launch finds, the same whether it counts costs, too, or only looks for errors."""
    return found_and_judged(kernel, *arguments)[0]


def found_and_judged(kernel, *arguments):
    """The same, and the lines of the reads that may matter, each with its function."""
    both = []
    for costs in (True, False):
        own = tuple(a.copy() if type(a) is np.ndarray else a for a in arguments)
        launch = run_kernel(kernel, 1, THREADS, own, counters=Counters(costs=costs))
        both.append([f for f in launch.findings.values() if f.is_error])
    places = [{(f.kind, f.function, f.line) for f in found} for found in both]
    assert places[0] == places[1]
    return both[1], {(site.function, site.line) for site in launch.candidates}


def lines(kernel, *arguments):
    found = errors(cuda.jit(kernel), *arguments)
    assert {f.kind for f in found} <= {"uninitialised-read"}, found
    return {f.line for f in found}


# ---------------------------------------------------------------------- one by one
def test_the_line_of_the_copy_is_named_and_where_its_value_ends():
    @cuda.jit
    def kernel(out):
        a = cuda.local.array(2, float32)
        b = cuda.local.array(2, float32)
        t = cuda.threadIdx.x
        b[1] = a[0]
        b[0] = b[1]
        if t > 5:
            out[t] = b[0]

    (found,) = errors(kernel, np.zeros(THREADS))
    assert (found.line, found.code) == (5, "a[0]")
    assert "reads a[0], which no thread has written" in found.message
    assert "is stored in out in line 8" in found.message


def test_a_launch_with_copies_that_nobody_uses_runs_once(monkeypatch):
    @cuda.jit
    def kernel(out, copies, used):
        a, b = cuda.local.array(2, float32), cuda.local.array(2, float32)
        for i in range(copies):
            b[i] = a[1 - i]
        a[0] = 1
        out[cuda.threadIdx.x] = a[0]
        if used:
            out[0] = b[0]

    class Judged(Exception):
        pass

    def again(*_):
        raise Judged

    monkeypatch.setattr(launch, "Again", again)
    assert not errors(kernel, np.zeros(THREADS), 2, 0)
    with pytest.raises(Judged):
        errors(kernel, np.zeros(THREADS), 2, 1)


def test_a_copy_to_where_others_may_read_it_is_used():
    def to_shared(out):
        a, b = cuda.local.array(1, float32), cuda.shared.array(8, float32)
        t = cuda.threadIdx.x
        b[t] = a[0]
        out[t] = b[t]

    def to_global(out):
        a = cuda.local.array(1, float32)
        out[cuda.threadIdx.x] = a[0]

    assert lines(to_shared, np.zeros(THREADS)) == {4}
    assert lines(to_global, np.zeros(THREADS)) == {3}


def test_the_unset_is_copied_from_shared_and_global_memory_too():
    def kernel(out, x, used):
        tile, own = cuda.shared.array(8, float32), cuda.local.array(2, float32)
        t = cuda.threadIdx.x
        own[0] = tile[t]
        own[1] = x[t]
        if used == 1:
            out[t] = own[0]
        if used == 2:
            out[t] = own[1]

    found = [lines(kernel, np.zeros(THREADS), cuda.device_array(THREADS), n) for n in range(3)]
    assert found == [set(), {4}, {5}]


def test_what_is_set_may_become_unset_by_a_copy_and_set_again():
    def kernel(out, n):
        a, b = cuda.local.array(1, float32), cuda.local.array(1, float32)
        t = cuda.threadIdx.x
        for _ in range(n):
            b[0] = 3
            out[t] += b[0]
            if t == 2:
                b[0] = a[0]
        if n < 4:
            out[t] += b[0]

    assert lines(kernel, np.zeros(THREADS), 0) == {10}
    assert lines(kernel, np.zeros(THREADS), 3) == {8}
    assert lines(kernel, np.zeros(THREADS), 4) == set()


def test_copies_read_as_other_elements():
    def bits(out, n):
        a, b = cuda.local.array(2, float32), cuda.local.array(2, float32)
        for i in range(2):
            b[i] = 1
        whole = b.view(int32)
        out[0] = whole[0]
        b[0] = a[0]
        out[0] = whole[n]

    def real_part(out, n):
        a, b = cuda.local.array(2, complex64), cuda.local.array(2, complex64)
        b[0] = b[1] = 1j
        parts = b.real
        out[0] = parts[0]
        b[0] = a[0]
        out[0] = parts[n]

    for kernel, line in ((bits, 7), (real_part, 6)):
        found = lines(kernel, np.zeros(1), 0)
        assert found and found <= {line, line + 1}
        assert not lines(kernel, np.zeros(1), 1)


def test_a_copy_over_what_all_threads_have_set():
    def kernel(out):
        a, b, c = cuda.local.array(1, int32), cuda.local.array(1, int32), cuda.local.array(1, int32)
        b[0] = 3
        out[0] = b[0]
        b[0] = a[0]
        c[0] = 1
        out[0] = b[0]

    assert lines(kernel, np.zeros(1)) == {5}


@pytest.mark.parametrize(
    ("statement", "used"),
    [("b[0] = c[0] = a[0]", "b[0]"), ("b[0] = c[0] = a[0]", "c[0]"), ("b[:] = a[0]", "b[1]")],
)
def test_copies_to_several_places(statement, used):
    made = [f"{name} = cuda.local.array(2, int32)" for name in "abc"]
    text = "\n".join([*made, statement, "if n == 1:", f"    out[0] = {used}"])
    assert lines(body_of("out, n", text, int32=int32), np.zeros(1), 0) == set()
    assert lines(body_of("out, n", text, int32=int32), np.zeros(1), 1) == {5}


# ---------------------------------------------------------------------- drawn programs
class Unset:
    """What is there before anything is written, and what is made with it; the lines that read it.

    ``used`` collects the lines of those of which something else than a copy is made, ``reached``
    of those that come to a store or a branch.
    """

    used: set[tuple[str, int]]
    reached: set[tuple[str, int]]

    def __init__(self, lines=frozenset()):
        self.lines = lines

    def read(self, frame) -> Unset:
        """The same after a line of the program has read it: only the first that does counts."""
        code = frame.f_code
        here = code.co_name, frame.f_lineno - code.co_firstlineno + 1
        return Unset(self.lines or frozenset([here]))

    def __add__(self, other):
        mine = self.read(sys._getframe(1))
        other = other.read(sys._getframe(1)).lines if isinstance(other, Unset) else frozenset()
        Unset.used |= mine.lines | other
        return Unset(mine.lines | other)

    __radd__ = __add__

    def __gt__(self, other):
        Unset.reached |= self.read(sys._getframe(1)).lines
        return 0 > other


class Local:
    """A local array, or a part of one."""

    def __init__(self, values):
        self.values = values

    def __getitem__(self, index):
        value = self.values[index]
        return Local(value) if isinstance(index, slice) else value

    def __setitem__(self, index, value):
        self.values[index] = value.read(sys._getframe(1)) if isinstance(value, Unset) else value


class Output(Local):
    def __setitem__(self, index, value):
        if isinstance(value, Unset):
            Unset.reached |= value.read(sys._getframe(1)).lines
        self.values[index] = value


HELPER = """\
def hand_over(to, source, count):
    for k in range(count):
        to[k] = source[k]
"""
SIZE, WIDTH = 4, 5


def drawn(seed: int) -> str:
    """A kernel with three local arrays: sets, copies, parts, loops, branches, uses."""
    r = random.Random(seed)

    def array():
        return r.choice("abc")

    def element():
        return f"{array()}[{r.choice((*map(str, range(SIZE)), 'n[t, 0]', 'n[t, 1]'))}]"

    def copied():
        return f"{element()} = {element()}"

    def given():
        return f"{element()} = n[t, {r.randrange(SIZE)}]"

    def use():
        return r.choice(
            (f"out[t, {r.randrange(WIDTH)}] = {element()}", f"{element()} = {element()} + 1.5")
            + (f"out[t, {r.randrange(WIDTH)}] = {element()} + {element()}",)
        )

    def loop():
        one, other = array(), array()
        way = r.choice((f"{one}[j] = {other}[j]", f"{one}[j] = {other}[{SIZE - 1} - j]"))
        return f"for j in range({r.choice(('2', '4', 'n[t, 2]'))}):\n        {way}"

    def part():
        first = r.randrange(SIZE - 1)
        parts = f"p, q = {array()}[{first}:], {array()}[:2]"
        return f"{parts}\n    p[{r.randrange(SIZE - first)}] = q[{r.randrange(2)}]"

    def branch():
        own = f"n[t, {r.randrange(SIZE)}] > {r.randrange(3)}"
        if r.random() < 0.3:
            return f"if {element()} > 2.5:\n        out[t, 0] = 7.0"
        return f"if {own}:\n        {r.choice((copied, copied, given, use))()}"

    def call():
        return f"hand_over({array()}, {array()}, {r.choice(('2', 'n[t, 3]'))})"

    kinds = [copied] * 4 + [given] * 3 + [loop] * 2 + [part, branch, branch, branch, call, use]
    body = [r.choice(kinds)() for _ in range(r.randint(4, 9))]
    body.append(r.choice((use, copied))())
    made = "".join(
        f"    {name} = cuda.local.array({SIZE}, {kind})\n"
        for name, kind in zip("abc", ("float64", "float32", "float64"), strict=True)
    )
    head = f"def kernel(n, out):\n    t = cuda.threadIdx.x\n{made}"
    return head + "".join(f"    {line}\n" for line in body)


def by_python(text: str, n: np.ndarray) -> tuple[np.ndarray, set, set]:
    """The results, each thread alone; lines whose reads of the unset are used, and which reach."""
    Unset.used, Unset.reached = set(), set()
    out = np.zeros((THREADS, WIDTH), object)
    local = SimpleNamespace(array=lambda size, _: Local(np.array([Unset()] * size, object)))
    names = {"float32": None, "float64": None, "hand_over": function_of(HELPER, "helper", {})}
    for t in range(THREADS):
        thread = SimpleNamespace(local=local, threadIdx=SimpleNamespace(x=t))
        function_of(text, "drawn", {**names, "cuda": thread})(n, Output(out))
    return out, Unset.used | Unset.reached, Unset.reached


def traced(text: str, n: np.ndarray) -> tuple[np.ndarray, set, set]:
    names = {"float32": float32, "float64": float64, "cuda": cuda}
    names["hand_over"] = cuda.jit(device=True)(function_of(HELPER, "helper", {}))
    out = np.zeros((THREADS, WIDTH))
    kernel = cuda.jit(function_of(text, "drawn", names))
    kernel[1, THREADS](n, out)
    found, judged = found_and_judged(kernel, n, out)
    assert {f.kind for f in found} <= {"uninitialised-read"}, found
    return out, judged, {(f.function, f.line) for f in found}


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=pytest.mark.slow if first else ())
        for first in range(0, PROGRAMS, BATCH)
    ],
)
def test_copies_are_found_where_what_they_copy_reaches_something(monkeypatch, first):
    silent = 0
    for seed in range(first, first + BATCH):
        monkeypatch.setattr(uninitialised, "SOON", seed % 9)  # how long the first run goes at first
        text = drawn(seed)
        n = np.random.default_rng(seed).integers(0, SIZE, (THREADS, SIZE))
        results, *expected = by_python(text, n)
        out, *seen = traced(text, n)
        shown = f"program {seed}:\n{text}"
        assert seen == expected, shown
        for ours, theirs in zip(out.ravel(), results.ravel(), strict=True):
            assert isinstance(theirs, Unset) or ours == np.float32(theirs), shown
        silent += not expected[0]
    assert 3 < silent < 47
