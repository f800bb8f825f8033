"""Steps, ladders and launches: what is launched, what is refused and in which words."""

from typing import NamedTuple

import numpy as np
import pytest

from course import backend
from course.backend import cuda
from course.dispatch import slots
from course.dispatch.entry import EntryPoint
from course.kernels.steps import Ladder, Launch, Step, ceil_div, require_choice, round_up
from warpsim.host import gpus

THREADS = 32


@cuda.jit
def add(x, value, out):
    """A number more, or less."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + value


class Problem(NamedTuple):
    size: int

    @classmethod
    def of(cls, x, out, by):
        return cls(x.size)


def _adds(problem, x, out, by):
    return [Launch(add, ceil_div(problem.size, THREADS), THREADS, (x, np.float32(by), out))]


def _in_place(problem, x, out, by):
    return [Launch(add, ceil_div(problem.size, THREADS), THREADS, (out, np.float32(100), out))]


def _too_long(problem):
    return "" if problem.size <= 40 else "holds 40 elements"


LADDER = Ladder(
    "added",
    Problem.of,
    {
        "short": Step(_adds, _too_long),
        "long": Step(_adds).then(_in_place),
        "split": Step(_adds).then(_in_place),
        "newest": Step(_adds, capability=(99, 0)),
    },
    best=lambda problem: "long" if _too_long(problem) else "short",
)


def launched(size, **options):
    x, out = np.arange(size, dtype=np.float32), np.full(size, np.nan, np.float32)
    for launch in LADDER.launches(x, out, **options):
        launch.on()
    return out - x


@pytest.mark.parametrize("b", [1, 2, 7, 16, 33])
def test_ceil_div_and_round_up_reach_a_and_no_more(b):
    for a in range(100):
        assert ceil_div(a, b) * b >= a > (ceil_div(a, b) - 1) * b
        assert round_up(a, b) == ceil_div(a, b) * b


def test_names_are_what_method_can_be():
    assert LADDER.names == ("auto", "short", "long", "split", "newest")
    assert list(LADDER) == ["short", "long", "split", "newest"] and len(LADDER) == 4
    assert LADDER["newest"].capability == (99, 0) and "auto" not in LADDER


@pytest.mark.parametrize(
    ("size", "method", "expected"),
    [
        (40, "auto", 2), (41, "auto", 102), (40, "short", 2), (40, "long", 102), (7, "split", 102),
    ],
)  # fmt: skip
def test_auto_takes_the_best_and_an_explicit_method_itself(size, method, expected):
    assert np.all(launched(size, method=method, by=2) == expected)


def test_launches_come_behind_a_steps_own():
    steps = [Step(_adds), Step(_adds).then(_in_place)]
    x = np.zeros(3, np.float32)
    first = [[one.arguments[1] for one in step.launches(Problem(3), x, x, 2)] for step in steps]
    assert first == [[2], [2, 100]]
    step = Step(_adds, _too_long, (8, 0)).then(_in_place)
    assert step.refusal is _too_long and step.capability == (8, 0)


def test_refusals_say_why_and_name_what_can_be_chosen():
    with pytest.raises(ValueError) as refused:
        launched(41, method="short", by=2)
    assert str(refused.value) == (
        "the method 'short' of added holds 40 elements: choose 'long', 'split'"
    )
    with pytest.raises(ValueError, match="'newest' of added needs compute capability 99.0, and th"):
        launched(3, method="newest", by=2)
    with pytest.raises(ValueError, match="no method 'fast': choose auto, short, long, split, new"):
        launched(3, method="fast", by=2)
    alone = Ladder("added", Problem.of, {"short": LADDER.steps["short"]}, lambda problem: "short")
    with pytest.raises(ValueError, match="holds 40 elements: choose other arrays, or another GPU"):
        alone.choose("auto", Problem(41))


@pytest.mark.parametrize("value", ["c", None, 3, ["a"], np.array(["a", "b"])])
def test_what_is_none_of_the_choices_is_refused(value):
    assert require_choice("a", "kind", ["a", "b"]) == "a"
    with pytest.raises(ValueError, match="there is no kind .*: choose a, b$"):
        require_choice(value, "kind", iter(["a", "b"]))


ENTRY = EntryPoint(
    "added", ("x",), lambda x, by, method: (x.shape, x.dtype), LADDER.launches,
    options=("by", "method"),
)  # fmt: skip


@pytest.mark.parametrize("method", ["auto", "short", "split"])
def test_an_entry_point_launches_what_a_ladder_says(method):
    x = np.arange(33, dtype=np.float32)
    expected = x + (102 if method == "split" else 2)
    assert np.array_equal(ENTRY.call((x,), (2, method)), expected)
    there = cuda.to_device(x)
    assert np.array_equal(ENTRY.call((there,), (2, method)).copy_to_host(), expected)


def test_a_ladder_takes_slots_as_arrays():
    there = slots.ArraySlot(0, (41,), (4,), np.dtype(np.float32))
    launches = LADDER.launches(there, there, by=2)
    assert [one.grid for one in launches] == [2, 2] and launches[0].arguments[0] is there


class Asked:
    """A kernel that notes how it is configured."""

    def __init__(self):
        self.found = []

    def __getitem__(self, how):
        self.found.append(how)
        return lambda *arguments: self.found.append(arguments)

    def typeof_pyval(self, value):
        return type(value).__name__


def test_shared_memory_beyond_what_a_block_has_is_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(backend, "gpu", lambda: "a GPU")
    monkeypatch.setattr("course.dispatch.prepared.allow_shared", lambda *how: asked.append(how))
    kernel = Asked()
    Launch(kernel, 2, 32, (1, 2.0), 47 * 1024).on(5)
    assert kernel.found == [(2, 32, 5, 47 * 1024), (1, 2.0)] and not asked
    Launch(kernel, 2, 32, (1, 2.0), 48 * 1024).on()  # with a barrier it has more
    assert asked == [(kernel, ("int", "float"), 48 * 1024)]


@pytest.mark.skipif(backend.gpu() is not None, reason="simulates another GPU")
def test_what_can_be_had_is_asked_of_the_current_gpu(monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", None)
    step = Step(_adds, capability=(9, 0))
    backend.simulate("H200")
    assert not step.lacks(Problem(1))
    backend.simulate("T4")
    assert step.lacks(Problem(1)) == "needs compute capability 9.0, and this GPU has 7.5"


def test_launches_that_are_not_packed_are_asked_for_one_by_one():
    """What lies between them, memory of a pool say, is done when it comes."""
    seen = []

    def launches(x, out):
        for by in (1, 2):
            seen.append(out.copy_to_host().tolist())
            yield Launch(add, 1, THREADS, (x, np.float32(by), out))

    entry = EntryPoint(
        "added", ("x",), lambda x: (x.shape, x.dtype), launches, packs=False, options=()
    )
    out = cuda.to_device(np.zeros(2, np.float32))
    entry.call((cuda.to_device(np.ones(2, np.float32)),), (), out)
    assert seen == [[0, 0], [2, 2]] and out.copy_to_host().tolist() == [3, 3]
