"""What is kept between calls: alternating calls make nothing anew, and memory has a bound."""

import types

import numpy as np
import pytest

from course import cuda
from course.dispatch import plans
from course.dispatch.entry import EntryPoint
from course.dispatch.kept import Kept, Memory
from course.dispatch.slots import Workspace
from course.kernels import svd as family
from tests.course.kernels.contract import cases, typed
from tests.course.kernels.svd_samples import normal

SHAPES = [(1, 6, 4), (1, 5, 5)]


def sized(nbytes):
    return types.SimpleNamespace(nbytes=nbytes)


@pytest.mark.parametrize("seed", range(6))
def test_drawn_calls_find_what_was_used_last(seed):
    rng = np.random.default_rng(seed)
    most_bytes, most = int(rng.integers(1, 60)), int(rng.integers(1, 6))
    sizes, kept, recent = rng.integers(0, 30, 8), Kept(most_bytes, most), []
    for key in rng.integers(0, 8, 200):
        made = []
        kept.get(key, lambda key=key, made=made: made.append(key) or sized(int(sizes[key])))
        assert (key in recent) == (not made)
        recent = [*(one for one in recent if one != key), key]
        while len(recent) > 1 and (len(recent) > most or sizes[recent].sum() > most_bytes):
            recent.pop(0)


def test_where_memory_does_not_suffice_the_others_go():
    kept, tries = Kept(), []
    kept.get("small", lambda: sized(1))

    def large():
        tries.append(len(kept._values))
        if kept._values:
            raise MemoryError("no room")
        return sized(2)

    assert kept.get("large", large).nbytes == 2 and tries == [1, 0]
    with pytest.raises(ValueError, match="refused"):
        kept.get("refused", lambda: np.array("refused", int))
    assert "large" in kept._values
    kept.clear()
    with pytest.raises(ZeroDivisionError):
        kept.get("none", lambda: 1 // 0)


def test_memory_counts_arrays_once_and_those_of_what_it_holds():
    class Holder(Memory):
        def __init__(self, array, *others):
            self.one, self.same, self.others, self.name = array, array, others, "x"
            self.inner = others[0] if others else None

    inner = Holder(cuda.device_array(8, np.float32))
    assert inner.nbytes == 32 and Holder(cuda.device_array(4, np.float64), inner).nbytes == 64


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_alternating_svd_and_rank_k_make_each_solver_once(seed, monkeypatch):
    """Of two shapes, in a drawn order; results are those of each alone, bit for bit."""
    rng = np.random.default_rng(seed)
    family.forget()
    made, data = [], {shape: normal(rng, *shape) for shape in SHAPES}

    get = family._solvers.get
    monkeypatch.setattr(
        family._solvers, "get", lambda key, make: get(key, lambda: made.append(key) or make())
    )
    calls = {
        "svd": lambda a: family.svd(a, method="shared"),
        "rank_k": lambda a: family.rank_k(a, 3, method="shared"),
    }
    alone = {(name, shape): calls[name](data[shape]) for name in calls for shape in SHAPES}
    assert len(made) == len(set(made)) == 4
    for _ in range(6):
        name, shape = rng.choice(list(calls)), SHAPES[rng.integers(2)]
        found = calls[name](data[shape])
        assert all(map(np.array_equal, found, alone[name, shape]))
    assert len(made) == 4


@pytest.mark.drawn(6)
@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("name", [case.name for case in cases() if case.entered])
def test_each_function_plans_a_call_once_whatever_came_between(name, seed, monkeypatch):
    case = next(case for case in cases() if case.name == name)
    rng, planned = np.random.default_rng(seed), []
    plan = EntryPoint._planned
    monkeypatch.setattr(
        EntryPoint, "_planned", lambda self, *how: planned.append(how) or plan(self, *how)
    )
    size = "tiny" if "tiny" in case.sizes else case.sizes[0]

    def call(one):
        arrays = {
            key: typed(array, case.dtypes[0]) if case.holds(key) else array
            for key, array in one.arrays.items()
        }
        case.call(**arrays, **one.options)

    inputs = [case.draw(rng, size) for _ in range(3)]
    for one in inputs:
        call(one)
    first = len(planned)
    for index in rng.integers(0, 3, 9):
        call(inputs[index])
    assert len(planned) == first


@pytest.mark.parametrize("few", [True, False])
def test_a_plan_keeps_a_streams_workspaces_where_they_are_small(monkeypatch, few):
    size = plans.MOST_KEPT // 8 if few else plans.MOST_KEPT // 8 + 1
    plan = object.__new__(plans.PreparedPlan)
    plan.workspaces = [Workspace(n, (size,), np.dtype(np.float32), False) for n in (3, 4)]
    plan.are_borrowed, plan.device, plan.by_stream = False, 0, {}
    plan.library = types.SimpleNamespace(empty=lambda shape, dtype, device: [shape])
    monkeypatch.setattr(plans.graphs, "is_captured", lambda queue: False)
    first, again = plan._workspaces(7), plan._workspaces(7)
    assert first == again == [[(4 * size,)]] * 2 and len(plan.by_stream) == few
    assert (first[0] is again[0]) == few
