"""Compiled facts: what NVIDIA's compilers say of a kernel, without a GPU."""

import gc
import linecache
import sys
import weakref

import numpy as np
import pytest
from numba import float32, types
from numba.core.errors import TypingError

from course import gpu, trace
from course.compiler import facts as compiler
from course.compiler import toolchain
from course.compiler.facts import Float64Line, compiled
from course.compiler.ptx import instructions
from course.compiler.real_kernels import RealKernel, origin
from course.kernels.reconstruct import ladder
from tests.course.compiled_samples import (
    FACTORS,
    VECTOR,
    bend_each,
    juggle,
    needs_compiler,
    needs_numba_cuda,
    scaled,
)
from warpsim import cuda
from warpsim.run import random

BOTH = pytest.mark.parametrize("target", ["sm_75", "sm_90"])


def copy(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i]


def texts(facts):
    return [(line.line, line.function) for line in facts.float64_lines]


# ------------------------------------------------------------------ float64, by line
@needs_compiler
@BOTH
def test_finds_the_float64_sum_of_the_original_and_none_in_the_others(target):
    facts = compiled(ladder.reconstruct_original, FACTORS, target)
    by_code = {line.code: line for line in facts.float64_lines}
    total = by_code["total += u[row, i] * s[i] * vt[i, col]"]
    assert total.function == "reconstruct_original"
    # each product is converted and added; the compiler unrolled the loop, so several times
    assert total.count("arithmetic") == total.count("conversion") == total.instructions["add.f64"]
    assert set(total.instructions) == {"add.f64", "cvt.f64.f32"}
    every = [name for line in facts.float64_lines for name in line.instructions]
    assert every.count("cvt.rn.f32.f64") == 1  # the conversion to float32
    assert compiled(ladder.reconstruct_float32, FACTORS, target).float64_lines == ()
    assert compiled(ladder.reconstruct_naive, FACTORS, target).float64_lines == ()


@needs_compiler
def test_lines_count_from_def_below_decorators_comments_and_blank_lines():
    @cuda.jit(
        fastmath=False,
    )
    def scale(x, out):
        """Two lines

        and a blank one."""
        i = cuda.grid(1)

        if i < x.size:
            # a comment
            out[i] = x[i] * 0.1

    (line,) = compiled(scale, (VECTOR, VECTOR)).float64_lines
    assert (line.line, line.code) == (9, "out[i] = x[i] * 0.1")
    assert line.instructions == {"cvt.f64.f32": 1, "cvt.rn.f32.f64": 1, "mul.f64": 1}
    kinds = {"arithmetic": 1, "conversion": 2, "compare": 0, "atomic": 0}
    assert {kind: line.count(kind) for kind in kinds} == kinds


@needs_compiler
def test_tells_compares_and_atomics_from_arithmetic():
    def count_large(x, total):
        i = cuda.grid(1)
        if i < x.size:
            if x[i] > 0.1:
                cuda.atomic.add(total, 0, 1.0)

    lines = compiled(count_large, (VECTOR, np.zeros(1))).float64_lines
    kinds = {line.code: (line.count("compare"), line.count("atomic")) for line in lines}
    assert kinds == {"if x[i] > 0.1:": (1, 0), "cuda.atomic.add(total, 0, 1.0)": (0, 1)}


# ------------------------------------------------------------------ device functions
@needs_numba_cuda
@BOTH
def test_names_the_line_of_a_device_function_by_its_own_def(target):
    store, line = compiled(bend_each, (VECTOR, VECTOR), target).float64_lines
    assert (line.line, line.function, line.code) == (3, "bent", "return scaled(value) / 1.7")
    assert line.count("arithmetic") > 0
    # the kernel's own line rounds the result to float32
    assert (store.line, store.function) == (4, "bend_each")
    assert store.instructions == {"cvt.rn.f32.f64": 1}


CELL = """from warpsim import cuda

@cuda.jit(device=True)
def tenth(x):
    return x * 0.1

@cuda.jit
def shrink(x):
    i = cuda.grid(1)
    x[i] = tenth(x[i])
"""


@needs_numba_cuda
@pytest.mark.parametrize(
    "path", ["/tmp/ipykernel_9/123.py", "<ipython-input-3-ab>", r"C:\me\a b.py", "relative.py"]
)
@pytest.mark.filterwarnings("error")
def test_names_lines_of_notebook_cells_and_paths_with_odd_letters(path, monkeypatch):
    lines = (len(CELL), None, CELL.splitlines(True), path)
    monkeypatch.setitem(linecache.cache, path, lines)
    names = {"__name__": "__main__"}
    exec(compile(CELL, path, "exec"), names)
    store, scaled_line = compiled(names["shrink"], (VECTOR,)).float64_lines
    assert (store.line, store.code) == (3, "x[i] = tenth(x[i])")
    assert (scaled_line.function, scaled_line.code) == ("tenth", "return x * 0.1")


@needs_compiler
def test_compiling_changes_neither_the_kernel_nor_its_device_functions():
    before = dict(bend_each.py_func.__globals__)
    compiled(bend_each, (VECTOR, VECTOR), "sm_80")
    assert bend_each.py_func.__globals__ == before
    assert not trace(bend_each, 1, 64, VECTOR, VECTOR.copy()).findings[1:]


@needs_compiler
def test_closures_modules_and_names_of_cuda_become_numba_cudas():
    from warpsim.cuda import grid, syncthreads

    width = 7
    tools = type(sys)("tools")
    tools.scaled = scaled

    def staged(x, out):
        tile = cuda.shared.array(32, float32)
        i = grid(1)
        tile[i % 32] = tools.scaled(x[i])
        syncthreads()
        out[i] = tile[(i + width) % 32]

    facts = compiled(staged, (VECTOR, VECTOR))
    assert facts.shared_bytes == 32 * 4
    assert tools.scaled is scaled


@needs_compiler
def test_a_device_function_is_found_under_all_its_names_once():
    again = scaled

    def twice(x, out):
        i = cuda.grid(1)
        out[i] = scaled(x[i]) + again(x[i])

    names = [one.name for one in RealKernel(twice).origins]
    assert names == ["twice", "scaled"]


@needs_numba_cuda
def test_takes_kernels_and_device_functions_of_numba_cuda():
    real = pytest.importorskip("numba.cuda")

    @real.jit(device=True)
    def third(value):
        return value / 3.3

    @real.jit(max_registers=24)
    def thirds(x, out):
        i = real.grid(1)
        if i < x.size:
            out[i] = third(x[i])

    facts = compiled(thirds, (VECTOR, VECTOR))
    assert texts(facts) == [(4, "thirds"), (2, "third")]
    assert facts.registers <= 24
    assert not thirds.overloads and not third.overloads


@needs_numba_cuda
def test_random_numbers_are_numba_cudas():
    def draw(states, out):
        i = cuda.grid(1)
        out[i] = random.xoroshiro128p_uniform_float32(states, i)
        out[i] += cuda.random.xoroshiro128p_uniform_float32(states, i)
        out[i] += uniform(states, i)

    uniform = random.xoroshiro128p_uniform_float32
    states = np.zeros(4, random.xoroshiro128p_dtype)
    facts = compiled(draw, (states, VECTOR))
    # Numba's makes a float64 first; that is on the line of each call
    assert texts(facts) == [(3, "draw"), (4, "draw"), (5, "draw")]


@needs_compiler
def test_a_device_function_may_call_itself():
    @cuda.jit(device=True)
    def factorial(n):
        if n <= 1:
            return 1
        return n * factorial(n - 1)

    def fill(x):
        x[0] = factorial(x[1])

    assert compiled(fill, (np.zeros(2, np.int64),)).registers > 0


@needs_numba_cuda
def test_the_current_device_is_asked_as_before_even_after_an_error():
    from numba.cuda import dispatcher

    original = dispatcher.get_current_device
    with pytest.raises(TypingError):
        compiled(bend_each, (3, VECTOR))
    assert dispatcher.get_current_device is original


# ------------------------------------------------------------------ registers, spills, memory
@needs_compiler
def test_registers_that_run_out_spill():
    tight = compiled(juggle, (VECTOR, VECTOR), max_registers=24)
    free = compiled(juggle, (VECTOR, VECTOR))
    assert tight.registers == 24 < free.registers
    assert tight.spill_stores > 0 and tight.spill_loads > 0
    assert tight.spills == tight.spill_stores + tight.spill_loads
    assert free.spills == 0
    assert free.local_bytes == 40 * 4  # an array with computed indices is in memory: no spill
    assert tight.local_bytes > free.local_bytes


@needs_compiler
@BOTH
@pytest.mark.parametrize("kernel", [ladder.reconstruct_original, juggle], ids=["sum", "array"])
def test_line_numbers_do_not_change_the_instructions(kernel, target):
    arguments = FACTORS if kernel is ladder.reconstruct_original else (VECTOR, VECTOR)
    facts = compiled(kernel, arguments, target)
    signature = tuple(toolchain.type_of(value) for value in arguments)
    function = getattr(kernel, "py_func", kernel)
    making = compiler._Making(function, signature, target, fastmath=False, launch_bounds=None)
    lined, _ = making.with_lines(uses_libraries=False)
    names = [one.name for one in instructions(facts.ptx)]
    assert sorted(one.name for one in instructions(lined)) == sorted(names)


@needs_compiler
@BOTH
def test_static_shared_memory_is_that_of_the_arrays(target):
    def staged(x):
        first = cuda.shared.array((16, 17), float32)
        second = cuda.shared.array(10, types.float64)
        i = cuda.threadIdx.x
        first[i, i] = x[i]
        second[i % 10] = x[i]
        cuda.syncthreads()
        x[i] = first[i, 15 - i] + float32(second[(i + 1) % 10])

    facts = compiled(staged, (VECTOR,), target)
    assert facts.shared_bytes == 16 * 17 * 4 + 10 * 8
    assert facts.load_widths["shared"] == {"f32": 1, "f64": 1}
    assert facts.store_widths["shared"] == {"f32": 1, "f64": 1}


@needs_compiler
def test_dynamic_shared_memory_counts_in_the_occupancy_only():
    def staged(x):
        tile = cuda.shared.array(0, float32)
        i = cuda.threadIdx.x
        tile[i] = x[i]
        cuda.syncthreads()
        x[i] = tile[63 - i]

    facts = compiled(staged, (VECTOR,))
    assert facts.shared_bytes == 0
    assert facts.occupancy("T4", 64).limits["shared memory"] == -1
    assert facts.occupancy("T4", 64, dynamic_shared=32 * 1024).blocks == 2


@needs_compiler
@pytest.mark.parametrize(
    ("dtype", "width"),
    [("int8", 8), ("float16", 16), ("uint16", 16), ("int32", 32), ("float64", 64), ("int64", 64)],
)
def test_loads_and_stores_are_as_wide_as_the_elements(dtype, width):
    facts = compiled(copy, (np.zeros(4, dtype), np.zeros(4, dtype)))
    for widths in (facts.load_widths, facts.store_widths):
        ((kind, count),) = widths["global"].items()
        assert (int(kind[1:]), count) == (width, 1)
    assert facts.float64_lines == ()  # moving float64 values is no float64 instruction


@needs_compiler
def test_grid_synchronisation_and_float16_arithmetic_are_linked():
    def in_float16(x):
        i = cuda.grid(1)
        x[i] = x[i] * x[i]
        cuda.cg.this_grid().sync()
        x[i] = x[i] + x[i]

    assert compiled(in_float16, (np.zeros(4, np.float16),)).registers > 0


@needs_compiler
def test_float64_lines_of_a_kernel_with_a_float16_library():
    def mixed(x, out):
        i = cuda.grid(1)
        x[i] = x[i] * x[i]
        out[i] = out[i] * 0.1

    facts = compiled(mixed, (np.zeros(4, np.float16), VECTOR))
    assert texts(facts) == [(4, "mixed")]


@needs_numba_cuda
def test_fastmath_reaches_the_compiler():
    def divide(x, out):
        i = cuda.grid(1)
        out[i] = x[i] / out[i]

    assert "div.approx" not in compiled(divide, (VECTOR, VECTOR)).ptx
    assert "div.approx" in compiled(divide, (VECTOR, VECTOR), fastmath=True).ptx


@needs_compiler
def test_occupancy_is_that_of_the_kernels_registers():
    facts = compiled(juggle, (VECTOR, VECTOR))
    assert facts.occupancy(block=256).gpu == "compute capability 7.5"
    assert facts.occupancy("T4", (16, 16)).registers == facts.registers
    with pytest.raises(ValueError, match='the H200 needs target="sm_90"'):
        facts.occupancy("H200", 256)


@needs_compiler
def test_shows_itself():
    shown = repr(compiled(ladder.reconstruct_original, FACTORS))
    for words in ("for sm_75", "registers", "0 bytes stored", "× global.f32", "line 14 of"):
        assert words in shown


# ------------------------------------------------------------------ arguments, cache
@needs_compiler
def test_arguments_types_and_signatures_mean_the_same():
    def copy(x, n, out):
        i = cuda.grid(1)
        if i < n:
            out[i] = x[i]

    array = types.Array(types.float32, 1, "C")
    facts = compiled(copy, (VECTOR, 4, VECTOR))
    assert compiled(copy, (array, types.int64, array)) is facts
    assert compiled(copy, types.void(array, types.int64, array)) is facts
    assert compiled(copy, "void(float32[::1], int64, float32[::1])") is facts
    assert compiled(copy, [cuda.to_device(VECTOR), np.int64(4), cuda.Out(VECTOR)]) is facts
    assert compiled(copy, (VECTOR, np.int32(4), VECTOR)) is not facts
    assert compiled(copy, (VECTOR, 4, VECTOR), "sm_90") is not facts


@needs_compiler
def test_facts_are_kept_as_long_as_the_function():
    def brief(x):
        x[cuda.grid(1)] *= 0.1

    assert compiled(brief, (VECTOR,)).float64_lines
    kept = weakref.ref(brief)
    del brief
    gc.collect()
    assert kept() is None


@needs_compiler
def test_a_kernel_declared_with_its_types_needs_no_others():
    @cuda.jit("void(float32[:], int32)")
    def fill(x, value):
        x[cuda.grid(1)] = value

    assert compiled(fill).signature == "array(float32, 1d, A), int32"


def test_origin_starts_at_def():
    found = origin(bend_each.py_func)
    assert found.lines[0] == "def bend_each(x, out):"
    assert found.code(4) == "out[i] = bent(x[i])"
    assert found.code(0) == found.code(99) == ""


# ------------------------------------------------------------------ against the GPU
@needs_compiler
@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason="needs a GPU to compare with")
@pytest.mark.parametrize("name", ["original", "float32", "naive", "tiled", "column", "wide"])
def test_registers_are_those_that_the_gpu_reports(name):
    from numba import cuda as real

    major, minor = real.get_current_device().compute_capability
    kernel = ladder.LADDER[name].kernel
    signature = tuple(toolchain.type_of(value) for value in FACTORS)
    kernel.compile(signature)
    overload = kernel.overloads[signature]
    facts = compiled(kernel, FACTORS, f"sm_{major}{minor}")
    assert facts.registers == overload.regs_per_thread
    assert facts.shared_bytes == overload.shared_mem_per_block
    assert facts.local_bytes == overload.local_mem_per_thread


def test_a_float64_line_shows_itself():
    line = Float64Line(3, "x += 0.5", "kernel", {"add.f64": 2, "cvt.f64.f32": 1})
    assert str(line) == "line 3 of kernel: x += 0.5    2 × add.f64, 1 × cvt.f64.f32"


@needs_compiler
def test_a_kernel_may_be_linked_without_optimisation():
    @cuda.jit(lto=False)
    def plain(x):
        tile = cuda.shared.array(100, float32)
        tile[cuda.threadIdx.x] = x[cuda.threadIdx.x]
        cuda.syncthreads()
        x[cuda.threadIdx.x] = tile[99 - cuda.threadIdx.x]

    facts = compiled(plain, "void(float32[::1])", "sm_90")
    assert facts.registers > 0 and facts.shared_bytes == 400 and facts.float64_lines == ()
    assert "st.shared" in facts.ptx or "shared" in facts.store_widths
