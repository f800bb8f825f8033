"""Vector accesses, asynchronous copies and tensor cores in the real compiler."""

import inspect
import re

import numpy as np
import pytest
from numba import float32, float64, int8, int32, int64, uint32
from numba.core.errors import NumbaError
from numba.np.numpy_support import from_dtype

from course import trace
from course.compiler.facts import CompilerError, compiled
from tests.course.compiled_samples import MISSING, needs_compiler, needs_hopper
from tests.texts import body_of
from tests.warpsim.ptx.test_wgmma_registers import product, shared_product
from warpsim import cuda, ptx
from warpsim.ptx.instruction import INSTRUCTIONS

F4, F8 = np.zeros(512, np.float32), np.zeros(512)
U4, I4, I1 = (np.zeros(512, kind) for kind in (np.uint32, np.int32, np.int8))
F2, PLANE = np.zeros(512, np.float16), np.zeros((16, 32), np.float32)
PLANE_F2 = PLANE.astype(np.float16)

BY_NAME = {name: getattr(ptx, name) for name in ptx.__all__}
LOAD = {1: ptx.load, 2: ptx.load2, 4: ptx.load4}
STORE = {1: ptx.store, 2: ptx.store2, 4: ptx.store4}


def instructions(facts):
    """The instructions of PTX, without their operands."""
    lines = (line.strip() for line in facts.ptx.splitlines())
    return [line.split()[0].rstrip(";") for line in lines if line.endswith(";")]


# ------------------------------------------------------------------ what they become
def moved(count, dtype):
    read, write, kind = LOAD[count], STORE[count], from_dtype(dtype)

    def through_shared(x, out):
        tile = cuda.shared.array(512, kind)
        i = count * cuda.threadIdx.x
        write(tile, i, read(x, i))
        cuda.syncthreads()
        write(out, i, read(tile, 128 - i))

    return through_shared


@needs_compiler
@pytest.mark.parametrize(
    ("array", "count", "global_", "shared"),
    [
        (F4, 1, "f32", "f32"), (F4, 2, "v2.f32", "v2.f32"), (F4, 4, "v4.f32", "v4.f32"),
        (F8, 1, "f64", "f64"), (F8, 2, "v2.f64", "v2.f64"), (U4, 4, "v4.u32", "v4.u32"),
        (I4, 2, "v2.u32", "v2.u32"), (I1, 4, "v4.u8", "v4.u8"), (I1, 2, "v2.u8", "v2.u8"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_accesses_become_one_instruction(array, count, global_, shared, target):
    facts = compiled(moved(count, array.dtype), (array, array), target)
    assert facts.load_widths == {"global": {global_: 1}, "shared": {shared: 1}}
    assert facts.store_widths == {"global": {global_: 1}, "shared": {shared: 1}}
    assert facts.float64_lines == () and facts.spills == 0


@needs_compiler
def test_elements_of_16_bits_are_moved_two_and_four_at_once():
    def of_16_bits(x, out):
        i = 4 * cuda.grid(1)
        ptx.store4(out, i, ptx.load4(x, i))
        ptx.store2(out, i + 256, ptx.load2(x, i + 256))

    facts = compiled(of_16_bits, (F2, F2))
    assert sum(facts.load_widths["global"].values()) == 2
    assert {width.split(".")[0] for width in facts.load_widths["global"]} == {"v2", "v4"}


@needs_compiler
def test_no_test_for_an_index_from_the_end():
    """What ``x[i]`` costs with an index that may be negative, `load` does not."""

    def plain(x, places, out):
        i = cuda.grid(1)
        ptx.store(out, i, x[ptx.load(places, i)])

    def straight(x, places, out):
        i = cuda.grid(1)
        ptx.store(out, i, ptx.load(x, ptx.load(places, i)))

    first, second = (instructions(compiled(kernel, (F4, I4, F4))) for kernel in (plain, straight))
    assert "and.b64" in first or "selp.b64" in first
    assert "and.b64" not in second and "selp.b64" not in second
    assert len(second) < len(first)


def copying(x, out):
    tile = cuda.shared.array((2, 512), float32)
    t = cuda.threadIdx.x
    ptx.copy_async(tile, (0, t), x, t)
    ptx.commit_copies()
    ptx.copy4_async(tile, (1, 4 * t), x, 4 * t)
    ptx.commit_copies()
    ptx.wait_copies(1)
    out[t] = tile[0, t]
    ptx.wait_copies(0)
    out[t] += tile[1, t]


def float16_k16(x, out):
    t = cuda.threadIdx.x
    zero = float32(0)
    upper, lower = ptx.split_halves(ptx.load(x, t), ptx.load(x, t + 32))
    c = ptx.mma_f16((zero, zero, zero, zero), (upper, lower, upper, lower), (lower, upper))
    ptx.store4(out, 4 * t, c)


def float16_k8(x, out):
    t = cuda.threadIdx.x
    zero = float32(0)
    upper, lower = ptx.split_halves(ptx.load(x, t), ptx.load(x, t + 32))
    ptx.store4(out, 4 * t, ptx.mma_f16_k8((zero, zero, zero, zero), (upper, lower), upper))


def tf32(x, out):
    t = cuda.threadIdx.x
    zero, y = float32(0), ptx.round_tf32(ptx.load(x, t))
    ptx.store4(out, 4 * t, ptx.mma_tf32((zero, zero, zero, zero), (y, zero, y, y), (y, zero)))


NEEDS_80 = {
    copying: (
        "cp.async.ca.shared.global", "cp.async.cg.shared.global", "cp.async.commit_group",
        "cp.async.wait_group",
    ),
    float16_k16: ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "cvt.rn.f16.f32"),
    tf32: ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "cvt.rna.tf32.f32"),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("kernel", NEEDS_80)
def test_what_needs_capability_80(kernel):
    for target in ("sm_80", "sm_90"):
        facts = compiled(kernel, (F4, F4), target)
        for wanted in NEEDS_80[kernel]:
            assert wanted in instructions(facts), wanted
        assert facts.spills == 0 and facts.float64_lines == ()
    with pytest.raises(CompilerError, match="requires .target sm_80 or higher"):
        compiled(kernel, (F4, F4), "sm_75")


@needs_compiler
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90"])
def test_products_of_depth_8_compile_for_every_target(target):
    facts = compiled(float16_k8, (F4, F4), target)
    names = instructions(facts)
    assert names.count("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32") == 1
    assert names.count("cvt.rn.f16.f32") == 4


@needs_compiler
def test_waits_and_copies_stay_in_order():
    wanted = ["cp.async.ca", "cp.async.commit", "cp.async.cg", "cp.async.commit", "cp.async.wait",
              "ld.shared", "cp.async.wait", "ld.shared"]  # fmt: skip
    names = instructions(compiled(copying, (F4, F4), "sm_80"))
    order = [name for name in names if name.startswith(("cp.async", "ld.shared"))]
    assert len(order) == len(wanted)
    assert all(name.startswith(start) for name, start in zip(order, wanted, strict=True))
    facts = compiled(copying, (F4, F4), "sm_80")
    assert "cp.async.wait_group 1;" in facts.ptx and "cp.async.wait_group 0;" in facts.ptx


@needs_compiler
def test_a_product_is_not_moved_into_a_branch():
    """Its result is used by some threads only, and still all threads make it."""

    def some(x, w, out):
        t = cuda.threadIdx.x
        zero = float32(0)
        c = ptx.mma_f16_k8((zero, zero, zero, zero), (w[t], w[t + 32]), w[t + 64])
        if x[t] > zero:
            out[t] = c[0] + x[t + 32]

    facts = compiled(some, (F4, U4, F4))
    names = instructions(facts)
    product = next(i for i, name in enumerate(names) if name.startswith("mma.sync"))
    branches = [i for i, line in enumerate(names) if line.startswith("@%p")]
    assert branches and product < min(branches)


def behind_others(x, out):
    first = cuda.shared.array(5, float32)
    tile = cuda.shared.array(512, float32)
    flags = cuda.shared.array(3, int8)
    sums = cuda.shared.array(7, float64)
    t = cuda.threadIdx.x
    first[t % 5] = x[t]
    ptx.store4(tile, 4 * t, ptx.load4(x, 4 * t))
    flags[t % 3] = t
    sums[t % 7] = t
    cuda.syncthreads()
    out[t] = first[(t + 1) % 5] + ptx.load(tile, 511 - t) + flags[(t + 1) % 3] + sums[(t + 1) % 7]


@needs_compiler
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_shared_arrays_lie_in_the_order_of_the_source(target):
    """20 bytes, 2,048, 3, one to fill up, 56; in the order of their alignment it were 2,127."""
    assert compiled(behind_others, (F4, F4), target).shared_bytes == 2128


def test_a_shared_array_behind_others_is_found_misaligned():
    found = {
        (finding.kind, finding.line, "begins at byte 20 of shared" in finding.message)
        for finding in trace(behind_others, 1, 128, F4, np.copy(F4)).findings
        if finding.kind == "misaligned"
    }
    assert found == {("misaligned", 8, True)}


# ------------------------------------------------------------------ what is refused
FORTRAN = np.zeros((4, 8), np.float32, order="F")

#: Bodies of kernels, their first argument, and words of both compilers' errors.
REFUSED = [
    ("out[0] = load(x, 0)", PLANE,
     "load of an array with 2 axes needs as many integers as its index, not int64"),
    ("out[0] = load(x, (0, 0, 0))", PLANE, "with 2 axes needs as many integers"),
    ("out[0] = load(out, float32(0))", PLANE, "load of an array with 1 axis needs .* not float32"),
    ("out[0] = load(x[0, 0], 0)", PLANE, "load needs an array, not float32"),
    ("out[0] = load(x)", PLANE, "load takes 2 arguments, 1 given"),
    ("store4(out, 0, load4(out, 0), 3)", PLANE, "store4 takes 3 arguments, 4 given"),
    ("store4(out, 0, out[0])", PLANE, r"takes UniTuple\(float32.* x 4\), not float32"),
    ("store4(out, 0, (out[0], out[1], out[2]))", PLANE,
     r"takes UniTuple\(float32.* x 4\), not UniTuple\(float32.* x 3\)"),
    ("store2(out, 0, load4(out, 0))", PLANE,
     r"takes UniTuple\(float32.* x 2\), not UniTuple\(float32.* x 4\)"),
    ("store2(out, 0, (out[0], 1))", PLANE,
     r"takes UniTuple\(float32.* x 2\), not Tuple\(float32, int64\)"),
    ("store(out, 0, 0.5)", PLANE, "store to an array of float32 takes float32, not float64"),
    ("out[0] = load4(x, 0)[0]", F8,
     "load4 of float64 is an access of 32 bytes, a GPU makes them of at most 16"),
    ("tile = cuda.shared.array(32, int32)\ncopy_async(tile, 0, out, 0)", PLANE,
     "copies elements of 4 bytes of one type, not float32 to int32"),
    ("tile = cuda.shared.array(32, int8)\ncopy_async(tile, 0, x, 0)", I1,
     "copies elements of 4 bytes of one type, not int8 to int8"),
    ("wait_copies(x.shape[0])", PLANE, "wait_copies takes a literal, 0 or more"),
    ("wait_copies(-1)", PLANE, "wait_copies takes a literal, 0 or more"),
    ("wait_copies(1.0)", PLANE, "wait_copies takes a literal, 0 or more.*, not float64"),
    ("wait_copies()", PLANE, "wait_copies takes 1 argument, none given"),
    ("commit_copies(1)", PLANE, "commit_copies takes 0 arguments, 1 given"),
    ("y = out[0]\nout[0] = mma_f16((y, y, y, y), (y, y, y, y), (y, y))[0]", PLANE,
     r"mma_f16 takes \(UniTuple\(float32 x 4\), UniTuple\(uint32 x 4\), UniTup"),
    ("y = out[0]\nw = uint32(1)\nout[0] = mma_f16_k8((y, y, y, y), (w, w), (w, w))[0]", PLANE,
     r"mma_f16_k8 takes .* uint32\), given .*UniTuple\(uint32 x 2\)\)"),
    ("y = out[0]\nout[0] = mma_tf32((y, y, y, y), (0.0, 0.0, 0.0, 0.0), (y, y))[0]", PLANE,
     r"mma_tf32 takes .*, given .*UniTuple\(float64 x 4\)"),
    ("split_halves(out[0], 1.0)", PLANE,
     r"split_halves takes \(float32, float32\), given \(float32, float64\)"),
    ("out[0] = load(x, index=(0, 0))", PLANE,
     "load takes its arguments by position, not as index="),
    ("out[0] = load(x, (0, 0))", FORTRAN, "load needs an array whose last axis is contiguous"),
    ("out[0] = load(x, ())", np.zeros((), np.float32), "load needs an array with an axis"),
    ("out[0] = load(x, 0).real", np.zeros(8, np.complex64),
     "load needs an array of integers or floats, not of complex64"),
    ("out[0] = load(x, 0).real", np.zeros(8, bool),
     "load needs an array of integers or floats, not of bool"),
]  # fmt: skip


def refused(body):
    return body_of(
        "x, out", body, **BY_NAME, float32=float32, int8=int8, int32=int32, uint32=uint32
    )


@pytest.mark.parametrize(("body", "x", "words"), REFUSED, ids=lambda one: "")
def test_the_simulator_refuses_what_does_not_fit_and_names_the_line(body, x, words):
    with pytest.raises(NumbaError) as raised:
        trace(refused(body), 1, 1, x, F4)
    text = str(raised.value)
    assert re.search(words, text), text
    assert re.search(r"line [234] of f:\n    \S", text), text


@needs_compiler
@pytest.mark.parametrize(("body", "x", "words"), REFUSED, ids=lambda one: "")
def test_the_compiler_refuses_the_same(body, x, words):
    with pytest.raises(NumbaError) as raised:
        compiled(refused(body), (x, F4), "sm_80")
    text = " ".join(str(raised.value).split())
    assert re.search(words, text), text


@pytest.mark.compiler
def test_both_refuse_to_store_to_a_constant_array():
    table = np.zeros(8, np.float32)

    def into(x, out):
        ptx.store(cuda.const.array_like(table), 0, float32(1))

    with pytest.raises(NumbaError, match="store cannot write to a read-only array"):
        trace(into, 1, 1, F4, F4)
    if not MISSING:
        with pytest.raises(NumbaError, match="store cannot write to a read-only array"):
            compiled(into, (F4, F4))


def accepted():
    """Kernels that both take."""

    def literals(x, out):
        ptx.store2(x, 0, (1, 2))
        ptx.store(x, cuda.threadIdx.x, 3)

    def constants(x, out):
        n = 1
        ptx.commit_copies()
        ptx.wait_copies(n)
        ptx.wait_copies(GROUPS)

    def nested(x, out):
        ptx.store2(out, 0, ptx.load4(out, 4)[:2])

    return [(literals, np.zeros(64, np.int64)), (constants, F4), (nested, F4)]


GROUPS = 2


@pytest.mark.compiler
@pytest.mark.parametrize(("kernel", "x"), accepted())
def test_both_take_literals_and_parts_of_tuples(kernel, x):
    trace(kernel, 1, 32, np.copy(x), np.zeros(64, np.float32), gpu="A100")
    if not MISSING:
        compiled(kernel, (x, F4), "sm_80")


def test_every_instruction_has_its_arguments_counted():
    assert {*ptx.__all__} - {*INSTRUCTIONS} == {"TensorMap"}
    for instruction in INSTRUCTIONS.values():
        assert len(inspect.signature(instruction.__wrapped__).parameters) == len(instruction.takes)


def test_offsets_are_computed_in_64_bits():
    """An index of 32 bits times a row's length of more than 32 bits stays right."""

    def far(x, row):
        x[0] = ptx.load(x, int64(row) * 4)

    trace(far, 1, 1, np.zeros(64, np.float32), np.int32(3))


@needs_hopper
@pytest.mark.parametrize("make", [product, shared_product])
def test_keep_decides_in_the_compiled_code_too(make):
    """The last number before wgmma's predicate; a depth in its place would always keep the sums."""
    arrays = (PLANE_F2, PLANE_F2, PLANE)
    said = []
    for keep in (0, 1):
        text = compiled(make(32, 64, keep=keep), arrays, "sm_90a").ptx
        register = re.search(r"setp\.ne\.b32\s+p, (\S+), 0", text)[1]
        said.append(re.search(rf"mov\.\w+\s+{re.escape(register)}, (\d+);", text)[1])
    assert said == ["0", "1"]
