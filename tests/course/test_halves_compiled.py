"""Products of halves in the real compiler: registers, spills, and no call that serialises wgmma."""

import pytest
from numba import types
from numba.core.errors import TypingError

from course.compiler import toolchain
from course.compiler.arguments import function_of
from course.compiler.facts import compiled
from course.compiler.real_kernels import RealKernel
from course.kernels.halves import plain, products, roles, split, wgmma
from course.kernels.halves.common import ELEMENTS
from course.kernels.hopper import mbarrier_init, mbarrier_wait
from course.kernels.tensor_maps import TensorMapType
from tests.course.compiled_samples import MISSING, needs_compiler
from warpsim import cuda

i4 = types.int32
OLD = ""
if not MISSING:
    try:
        toolchain.check_supported("sm_90a")
    except ValueError as error:
        OLD = str(error)


def needs_hopper(test):
    """Mark a test of wgmma: before numba-cuda 0.30 nothing compiles for sm_90a."""
    return needs_compiler(pytest.mark.skipif(bool(OLD), reason=OLD)(test))


EPILOGUES = (("", False), ("gelu", True), ("gelu tanh", True))
SHAPES = [products.shape_of(*its) for its in (
    (2, 256, 3), (2, 192, 3, True), (2, 128, 2, True), (1, 192, 2), (1, 64, 1), (2, 256, 1),
    (1, 256, 1, True), (1, 112, 1, True),
)]  # fmt: skip
CASES = [
    (shape, ("nt", "nn", "tn")[n % 3] if shape.columns != 112 else "nt",
     ("float16", "bfloat16")[n % 2], EPILOGUES[n // 2 % 3])
    for n, shape in enumerate(SHAPES)
]  # fmt: skip
CASES += [(products.shape_of(2, 256, 3, True), "nt", "bfloat16", EPILOGUES[1])]
CASES += [(products.shape_of(2, 240, 1), "nt", "float16", EPILOGUES[2])]


def signature(shape, layout, element, high=64):
    kind = ELEMENTS[element]
    a = TensorMapType(kind, (64, 64) if layout == "tn" else (shape.rows, 64), True)
    b = TensorMapType(kind, (shape.columns if layout == "nt" else 64, 64), True)
    plane, line = types.Array(kind, 2, "C"), types.Array(kind, 1, "C")
    box = TensorMapType(kind, (high, 64), True)
    return a, b, box, box if shape.added else plane, line, i4, i4, i4, i4


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
@pytest.mark.parametrize(("shape", "layout", "element", "epilogue"), CASES)
def test_roles_have_all_sums_in_registers_and_call_nothing(shape, layout, element, epilogue):
    kernel = roles.product(layout, element, shape, *epilogue)
    kinds = signature(shape, layout, element)
    facts = compiled(kernel, kinds, "sm_90a")
    assert facts.registers <= 65536 // shape.threads and not facts.spills + facts.local_bytes
    assert "wgmma.mma_async" in facts.ptx and "call" not in facts.ptx
    assert not facts.float64_lines and not remarks(kernel, kinds, "sm_90a")


@needs_hopper
def test_blocks_that_share_a_tile_have_their_sums_in_registers():
    shape = products.shape_of(2, 160, 1, True, 2)
    kernel = split.product("nt", "bfloat16", shape, 2, "gelu", True)
    kinds = signature(shape, "nt", "bfloat16", 16)[:-1]
    facts = compiled(kernel, kinds, "sm_90a")
    assert not facts.spills + facts.local_bytes and "call" not in facts.ptx
    assert not remarks(kernel, kinds, "sm_90a")
    # (address & 0x3FFFF) >> 4, of both factors: PTX ISA, "Matrix descriptor format"
    assert facts.ptx.count(", 16383;") == 2


@needs_hopper
@pytest.mark.parametrize("step", products.STEPS)
def test_steps_of_the_ladder_have_their_sums_in_registers(step):
    plane = types.Array(types.float16, 2, "C")
    tiles = {"wgmma": (), "tma": (128, 256)}[step]
    maps = [TensorMapType(types.float16, (rows, 64), True) for rows in tiles]
    kinds = (*maps, *[plane] * (3 - len(maps)), i4, i4, i4, i4)
    kernel = products.STEPS[step].product()
    facts = compiled(kernel, kinds, "sm_90a")
    assert facts.registers <= 65536 // wgmma.THREADS and not facts.spills + facts.local_bytes
    assert "call" not in facts.ptx and not remarks(kernel, kinds, "sm_90a")


@needs_compiler
@pytest.mark.parametrize(
    ("feed", "element", "target", "instruction"),
    [
        ("copied", "float16", "sm_80", "m16n8k16.row.col.f32.f16"),
        ("copied", "bfloat16", "sm_90", "m16n8k16.row.col.f32.bf16"),
        ("loaded", "bfloat16", "sm_80", "m16n8k16.row.col.f32.bf16"),
        ("turing", "float16", "sm_75", "m16n8k8.row.col.f32.f16"),
    ],
)
def test_two_plain_blocks_fit_a_multiprocessor(feed, element, target, instruction):
    epilogue = ("gelu", True, True) if target == "sm_90" else ("", True, False)
    for layout in products.SIDES:
        kind = ELEMENTS[element]
        plane, line = types.Array(kind, 2, "C"), types.Array(kind, 1, "C")
        kernel = plain.product(layout, element, feed, *epilogue)
        facts = compiled(kernel, (plane,) * 3 + (line, plane) + (i4,) * 4, target)
        assert (
            facts.registers <= 65536 // (2 * plain.THREADS) and not facts.spills + facts.local_bytes
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
        compiled(waits, (types.Array(i4, 1, "C"),), "sm_80")
