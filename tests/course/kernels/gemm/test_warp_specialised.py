"""Products of float16 in the compiler: registers, spills, and no call that serialises wgmma."""

import re

import pytest
from numba import types
from numba.core.errors import TypingError

from course.compiler import toolchain
from course.compiler.arguments import function_of
from course.compiler.facts import compiled
from course.compiler.real_kernels import RealKernel
from course.kernels.gemm import half, mma_sync, split_k, tma, warp_specialised, wgmma
from course.kernels.gemm.epilogue import Norm
from tests.course.compiled_samples import needs_compiler, needs_hopper
from tools.compile import tensor_cases as cases
from warpsim import cuda
from warpsim.ptx import mbarrier_init, mbarrier_wait


def remarks(kernel, kinds, target):
    """What ptxas says beside the resources."""
    function, options = function_of(kernel)
    codes = toolchain.compile_kernel(
        RealKernel(function).function, kinds, target, fastmath=True,
        launch_bounds=options["launch_bounds"],
    )  # fmt: skip
    log = toolchain.link(codes, "product", target)
    return [line for line in log.splitlines() if "C75" in line or "warning" in line]


@needs_hopper
@pytest.mark.parametrize(("shape", "layout", "element", "epilogue"), cases.WARP_SPECIALISED)
def test_consumers_have_all_sums_in_registers_and_call_nothing(shape, layout, element, epilogue):
    kernel = warp_specialised.gemm(layout, element, shape, *epilogue)
    kinds = cases.of_warp_specialised(shape, layout, element)
    facts = compiled(kernel, kinds, "sm_90a")
    assert facts.registers <= 65536 // shape.threads and not facts.spills + facts.local_bytes
    assert "wgmma.mma_async" in facts.ptx and "call" not in facts.ptx
    assert not facts.float64_lines and not remarks(kernel, kinds, "sm_90a")


@needs_hopper
def test_what_tiles_share_has_the_same_bits_whatever_the_compiler_shares():
    """A box that repeats columns of another: a product used twice is no part of one instruction."""
    config, *_ = cases.WARP_SPECIALISED[-1]  # 240 columns
    kinds = list(cases.of_warp_specialised(config, "nt", "float16"))
    kinds[4:6] = types.float32[::1], types.float32[:, ::1]
    kernel = warp_specialised.gemm("nt", "float16", config, "", True, Norm(5, 1e-6))
    facts = compiled(kernel, tuple(kinds), "sm_90a")
    end = facts.ptx[facts.ptx.index("stmatrix") :]
    assert "fma.rn.f32" in end and not re.search(r"\b(mul|add|sub)(\.ftz)?\.f32", end)
    assert not facts.spills + facts.local_bytes and not remarks(kernel, tuple(kinds), "sm_90a")


@needs_hopper
def test_blocks_that_share_a_tile_have_their_sums_in_registers():
    kernel = split_k.gemm("nt", "bfloat16", cases.SPLIT, 2, "gelu", True)
    kinds = cases.of_warp_specialised(cases.SPLIT, "nt", "bfloat16", 16)[:-2]
    facts = compiled(kernel, kinds, "sm_90a")
    assert not facts.spills + facts.local_bytes and "call" not in facts.ptx
    assert not remarks(kernel, kinds, "sm_90a")
    # (address & 0x3FFFF) >> 4, of both factors: PTX ISA, "Matrix descriptor format"
    assert facts.ptx.count(", 16383;") == 2


@needs_hopper
@pytest.mark.parametrize("step", half.LADDER_ONLY)
def test_steps_of_the_ladder_have_their_sums_in_registers(step):
    kinds = cases.of_step(step)
    kernel = {"wgmma": wgmma, "tma": tma}[step].gemm()
    facts = compiled(kernel, kinds, "sm_90a")
    assert facts.registers <= 65536 // wgmma.THREADS and not facts.spills + facts.local_bytes
    assert "call" not in facts.ptx and not remarks(kernel, kinds, "sm_90a")


@needs_compiler
@pytest.mark.parametrize(("feed", "element", "target", "instruction"), cases.PLAIN)
def test_two_plain_blocks_fit_a_multiprocessor(feed, element, target, instruction):
    epilogue = ("gelu", True, True) if target == "sm_90" else ("", True, False)
    for layout in half.LAYOUTS:
        kernel = mma_sync.gemm(layout, element, feed, *epilogue)
        facts = compiled(kernel, cases.of_plain(element), target)
        assert (
            facts.registers <= 65536 // (2 * mma_sync.THREADS)
            and not facts.spills + facts.local_bytes
        )
        assert instruction in facts.ptx


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
