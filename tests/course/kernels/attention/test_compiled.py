"""Attention in the real compiler: registers, spills, instructions."""

import pytest
from numba import types

from course.compiler.facts import compiled
from course.kernels.attention import first_steps, online
from course.kernels.attention.configs import LONGER
from course.kernels.attention.ladder import SIZES
from course.kernels.attention.warpgroups import warpgroups
from tests.course.compiled_samples import needs_compiler, needs_hopper
from tests.course.kernels.gemm.test_warp_specialised import remarks
from tools.compile import tensor_cases as cases

i4, f4 = types.int32, types.float32
KINDS = ("float16", "bfloat16")


@needs_hopper
@pytest.mark.parametrize("element", KINDS)
@pytest.mark.parametrize("config", cases.ATTENTION)
def test_warpgroups_have_all_scores_in_registers_and_call_nothing(config, element):
    kernel, kinds = warpgroups(element, config), cases.of_warpgroup_attention(config, element)
    facts = compiled(kernel, kinds, "sm_90a")
    assert facts.registers <= 65536 // (config.threads * config.blocks)
    # with 128 registers, a dozen or two words of 1,600 instructions do not fit
    few = config.threads * config.blocks == 512 or config == LONGER
    assert facts.spills <= (160 if few else 0)
    assert "call" not in facts.ptx
    # in one process, so that code for one depth is not taken for another
    assert facts.ptx.count("wgmma.mma_async") == (config.size + config.keys) // 16
    assert not facts.float64_lines and not remarks(kernel, kinds, "sm_90a")


@needs_compiler
@pytest.mark.parametrize("element", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_two_blocks_of_mma_fit_a_multiprocessor(size, element):
    four, out = cases.of_attention(element)
    facts = compiled(online.online(element, size), (four, four, four, i4, i4, f4, out), "sm_80")
    assert facts.registers <= 255 and not facts.spills + facts.local_bytes
    assert not facts.float64_lines and "call" not in facts.ptx
    letters = "bf16" if element == "bfloat16" else "f16"
    assert f"m16n8k16.row.col.f32.{letters}" in facts.ptx


@needs_compiler
def test_the_first_steps_compile_for_a_t4_without_float64():
    four, out = cases.of_attention("float16")
    scores = types.Array(f4, 2, "C")
    for kernel, kinds in (
        (first_steps.scores_in_memory, (four, four, f4, scores)),
        (first_steps.values_of_scores, (scores, four, out)),
        (first_steps.fused("float16", 64), (four, four, four, f4, out)),
    ):
        facts = compiled(kernel, kinds, "sm_75")
        assert not facts.spills + facts.local_bytes and not facts.float64_lines
