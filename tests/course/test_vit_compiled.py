"""Kernels of the vision transformer in the real compiler: no spills, no float64."""

import pytest
from numba import types

from course.compiler.facts import compiled
from course.kernels.halves.apart import finished_apart
from course.kernels.patches import gather
from tests.course.compiled_samples import needs_compiler

HALF, i4 = types.float16, types.int32
LINE, PLANE, STACK = (types.Array(HALF, n, "C") for n in (1, 2, 4))
WORDS = tuple(types.Array(types.uint32, n, "C") for n in (4, 2, 2, 2))
CASES = {
    f"gather, wide {wide}, begins {begins}": (
        gather(wide, begins), (*(WORDS if wide else (STACK, PLANE, PLANE, PLANE)), i4, i4, i4)
    )
    for wide in (True, False) for begins in (True, False)
} | {
    f"apart, {its}": (finished_apart("float16", *its), (PLANE, LINE, PLANE, PLANE))
    for its in (("gelu", True, False, True), ("", False, True, True), ("gelu", True, True, False))
}  # fmt: skip


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
