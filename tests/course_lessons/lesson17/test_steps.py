"""Lesson 17's kernels with wgmma and TMA, compiled for Hopper."""

import numpy as np
import pytest

from course import CompilerMissing, compiled, cuda
from course_lessons.edits import solution
from warpsim.ptx import TensorMap

SUMS = np.zeros((64, 64), np.float32)
FACTOR = np.zeros((64, 64), np.float16)


def arguments_of(name):
    box = TensorMap(cuda.to_device(FACTOR), 64, 64)
    return {
        "one-wgmma": (FACTOR, FACTOR, SUMS),
        "one-box": (box, FACTOR),
        "by-roles": (box, box, SUMS, np.int32(5)),
    }[name]


@pytest.mark.parametrize("name", ["one-wgmma", "one-box", "by-roles"])
def test_a_solution_compiles_for_hopper_without_a_spill(name):
    given = solution(name)
    try:
        facts = compiled(given.define(given.source, name), arguments_of(name), target="sm_90a")
    except CompilerMissing:
        pytest.skip("the extra compile is not installed")
    assert facts.spill_stores == 0
    assert ("wgmma.mma_async" in facts.ptx) == (name != "one-box")
