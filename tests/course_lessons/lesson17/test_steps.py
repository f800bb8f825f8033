"""Lesson 17's small kernels for wgmma and TMA: right, broken line by line, compiled for Hopper."""

import itertools

import numpy as np
import pytest
from numba import float32, int32, uint64  # noqa: F401 - in the lesson's kernel

from course import CompilerMissing, compiled, cuda
from course_lessons.edits import solution
from course_lessons.lesson17 import steps
from course_lessons.lesson17.steps import TILE, save_sums  # noqa: F401 - the same
from tools.notebooks import cells, lessons
from warpsim import ptx
from warpsim.ptx import TensorMap

LESSON = lessons.ROOT / "course_lessons/lesson17/tensor_cores.py"


@pytest.fixture(scope="module")
def by_roles(tmp_path_factory):
    """The kernel of the lesson's cell, in a file, whose text the simulator reads."""
    found = [c.source for c in cells.read(LESSON) if "def following" in c.source]
    found += [c.source for c in cells.read(LESSON) if "def by_roles" in c.source]
    path = tmp_path_factory.mktemp("roles") / "roles.py"
    path.write_text("\n\n".join(found))
    names = {n: getattr(ptx, n) for n in ptx.__all__} | globals() | {"__name__": "roles"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["by_roles"]


def test_the_orders_that_bring_a_box_have_the_barrier_known_to_all_before_it_is_used():
    right = [
        order
        for order in itertools.permutations(steps.STEPS)
        if steps.try_box(list(order), 64 * 2 * 3, 3) is None
    ]
    assert steps.STEPS in right and len(right) == 12
    for order in right:
        place = order.index
        assert place("init") < place("fence") < min(place("load"), place("wait"))
        assert place("init") < place("expect") < place("wait")
        assert place("init") < place("barrier") < place("wait") > place("load")


@pytest.mark.parametrize("size", [64 * 2 * 3 - 16, 64 * 2 * 3 + 16, 64 * 3])
def test_a_box_of_other_bytes_is_waited_for_without_end(size):
    assert "were announced" in " ".join(steps.try_box(list(steps.STEPS), size, 3).split())


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_product_by_roles_is_right(by_roles, count):
    assert steps.try_product(by_roles, count).startswith("no finding, largest error")


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("mbarrier_wait(full, stage, parity)", "pass", "uninitialised-read"),
        ("mbarrier_arrive(empty, stage)", "pass", "deadlock"),
        ("4 * TILE", "TILE", "deadlock"),
        ("4 * TILE", "2 * TILE", "race"),
        ("(empty, s, 4)", "(empty, s, 1)", "race"),
        ("parity ^ 1)", "parity)", "deadlock"),
    ],
)
def test_a_line_that_is_changed_is_found(by_roles, old, new, kind):
    assert steps.try_product(steps.changed(by_roles, old, new)).startswith(kind)


def test_a_text_that_is_not_there_cannot_be_changed(by_roles):
    with pytest.raises(ValueError, match="stands 0 times"):
        steps.changed(by_roles, "mbarrier_wait(nobody", "pass")


def test_both_kernels_compile_for_hopper_without_a_spill(by_roles):
    given = solution("one-wgmma")
    halves, out = np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float32)
    maps = [TensorMap(cuda.to_device(halves), 64, 64)] * 2
    try:
        for kernel, arguments in (
            (given.define(given.source, "one-wgmma"), (halves, halves, out)),
            (by_roles, (*maps, out, np.int32(5))),
        ):
            facts = compiled(kernel, arguments, target="sm_90a")
            assert facts.spill_stores == 0 and "wgmma.mma_async" in facts.ptx
    except CompilerMissing:
        pytest.skip("the extra compile is not installed")
