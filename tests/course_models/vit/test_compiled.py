"""Kernels of the vision transformer in the real compiler: no spills, no float64."""

import pytest

from course.compiler.facts import compiled
from tests.course.compiled_samples import needs_compiler
from tools.compile.tensor_cases import APART as CASES


@needs_compiler
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize("case", CASES)
def test_they_need_no_local_memory_and_no_float64(case, target):
    kernel, kinds = CASES[case]
    facts = compiled(kernel, kinds, target)
    assert facts.registers <= 40 and not facts.spills + facts.local_bytes
    assert not facts.float64_lines


@needs_compiler
def test_eight_pixels_are_one_access():
    kernel, kinds = CASES["gather, wide True, begins True"]
    loads = compiled(kernel, kinds, "sm_90").load_widths["global"]
    assert all(width.startswith("v4") for width in loads)
