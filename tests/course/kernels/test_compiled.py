"""Kernels on tensor cores in the real compiler: registers, spills, calls that serialise wgmma."""

import re

import pytest
from numba import types
from numba.core.errors import TypingError

from course.compiler import toolchain
from course.compiler.arguments import function_of
from course.compiler.facts import compiled
from course.compiler.real_kernels import RealKernel
from course.heuristics.attention import LONGER
from course.kernels.attention import first_steps
from course.kernels.attention.warpgroups import warpgroups
from course.kernels.gemm import warp_specialised
from course.kernels.gemm.epilogue import Norm
from course.kernels.gemm.tiles import ELEMENTS
from tests.course.compiled_samples import needs_compiler, needs_hopper
from tools.compile import tensor_cases as cases
from warpsim import cuda
from warpsim.ptx import mbarrier_init, mbarrier_wait

#: But for attention by warpgroups, the transformer's and LayerNorm, which have tests of their own.
CASES = {
    case.name: case
    for case in cases.tensor_cases()
    if case.name.startswith(("halves", "attention: online", "reconstruct"))
}
HOPPER = [name for name, case in CASES.items() if case.suffix]


def remarks(kernel, kinds, target):
    """What ptxas says beside the resources."""
    function, options = function_of(kernel)
    codes = toolchain.compile_kernel(
        RealKernel(function).function, kinds, target, fastmath=True,
        launch_bounds=options["launch_bounds"],
    )  # fmt: skip
    log = toolchain.link(codes, "product", target)
    return [line for line in log.splitlines() if "C75" in line or "warning" in line]


def in_registers(kernel, kinds, target):
    """Facts of a kernel that has all in as many registers as its launch bounds leave."""
    facts = compiled(kernel, kinds, target)
    threads, blocks = function_of(kernel)[1].get("launch_bounds") or (256, 1)
    assert facts.registers <= 65536 // (threads * blocks) and not facts.spills + facts.local_bytes
    assert not facts.float64_lines and "call" not in facts.ptx
    return facts


@needs_compiler
@pytest.mark.parametrize("name", [name for name in CASES if name not in HOPPER])
def test_what_loads_fragments_or_copies_is_in_registers(name):
    case = CASES[name]
    targets = [its for its in ("sm_75", "sm_80", "sm_90") if case.is_for(its)]
    facts = in_registers(case.kernel, case.declared, targets[0])
    for feed, element, _, instruction in cases.PLAIN:
        if name.startswith(f"halves: {feed}, ") and name.endswith(f" {element}"):
            assert instruction in facts.ptx


@needs_hopper
@pytest.mark.parametrize("name", HOPPER)
def test_warpgroups_have_all_sums_in_registers_and_call_nothing(name):
    kernel, kinds = CASES[name].kernel, CASES[name].declared
    assert "wgmma.mma_async" in in_registers(kernel, kinds, "sm_90a").ptx
    assert not remarks(kernel, kinds, "sm_90a")


@needs_hopper
@pytest.mark.parametrize("element", ELEMENTS)
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


@needs_hopper
def test_what_tiles_share_has_the_same_bits_whatever_the_compiler_shares():
    """A box that repeats columns of another: a product used twice is no part of one instruction."""
    config = next(its for its, *_ in cases.WARP_SPECIALISED if its.columns == 240)
    kinds = list(cases.of_warp_specialised(config, "nt", "float16"))
    kinds[4:6] = types.float32[::1], types.float32[:, ::1]
    kernel = warp_specialised.gemm("nt", "float16", config, "", True, Norm(5, 1e-6))
    end = in_registers(kernel, tuple(kinds), "sm_90a").ptx.partition("stmatrix")[2]
    assert "fma.rn.f32" in end and not re.search(r"\b(mul|add|sub)(\.ftz)?\.f32", end)
    assert not remarks(kernel, tuple(kinds), "sm_90a")


@needs_hopper
def test_a_descriptor_is_made_once_for_each_factor():
    """Of ``(address & 0x3FFFF) >> 4``: PTX ISA, "Matrix descriptor format"."""
    case = CASES["halves: split"]
    assert compiled(case.kernel, case.declared, "sm_90a").ptx.count(", 16383;") == 2


@needs_compiler
def test_a_fused_head_compiles_for_a_t4():
    four, out = cases.of_attention("float16")
    in_registers(first_steps.fused("float16", 64), (four, four, four, types.float32, out), "sm_75")


@needs_compiler
def test_older_gpus_refuse_hoppers_instructions_in_one_sentence():
    @cuda.jit
    def waits(out):
        bars = cuda.shared.array(1, types.uint64)
        mbarrier_init(bars, 0, 1)
        mbarrier_wait(bars, 0, 0)
        out[0] = 1

    with pytest.raises(TypingError, match="mbarrier_init is an instruction of compute capability"):
        compiled(waits, (types.Array(types.int32, 1, "C"),), "sm_80")
