"""Accesses that no cache need keep: what they do and count, and what they are compiled to."""

import numpy as np
import pytest
from numba import float32
from numba.core.errors import TypingError

from course import compiled, trace
from tests.course.compiled_samples import needs_compiler
from warpsim import cuda, ptx

KINDS = (np.float32, np.float16, np.int32)
PLAIN = {1: (ptx.load, ptx.store), 4: (ptx.load4, ptx.store4)}
KEPT = {1: (ptx.load_kept, ptx.store), 4: (ptx.load4_kept, ptx.store4)}
STREAMING = {
    1: (ptx.load_streaming, ptx.store_streaming),
    4: (ptx.load4_streaming, ptx.store4_streaming),
}


def copier(count, pair):
    read, write = pair

    def copy(x, out):
        i = count * cuda.grid(1)
        if i < out.size:
            write(out, i, read(x, i))

    return copy


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 4])
def test_they_move_and_count_what_plain_ones_do(count, kind):
    x = np.arange(96).astype(kind)
    reports = []
    for pair in (PLAIN[count], STREAMING[count]):
        out = np.zeros_like(x)
        reports.append(trace(cuda.jit(copier(count, pair)), 1, 96 // count, x, out))
        np.testing.assert_array_equal(out, x)
        assert not reports[-1].findings
    for operation in ("load", "store"):
        first, second = (report.total("global", operation) for report in reports)
        assert first == second and second.sectors == x.nbytes // 32


@pytest.mark.parametrize("kind", [np.float32, np.int32])
@pytest.mark.parametrize("count", [1, 4])
def test_what_l2_shall_keep_is_loaded_and_counted_as_ever(count, kind):
    x = np.arange(96).astype(kind)
    loads = []
    for pair in (PLAIN[count], KEPT[count]):
        out = np.zeros_like(x)
        report = trace(cuda.jit(copier(count, pair)), 1, 96 // count, x, out, gpu="H200")
        np.testing.assert_array_equal(out, x)
        assert not report.findings
        loads.append(report.total("global", "load"))
    assert loads[0] == loads[1] and loads[1].sectors == x.nbytes // 32


def test_l2_keeps_global_memory_of_4_bytes_on_newer_gpus():
    def shared(x, out):
        tile = cuda.shared.array(32, float32)
        i = cuda.threadIdx.x
        tile[i] = x[i]
        cuda.syncthreads()
        out[i] = ptx.load_kept(tile, i)

    x = np.zeros(64, np.float32)
    with pytest.raises(TypingError, match="line 6: a kept access .* tile is in shared memory"):
        trace(cuda.jit(shared), 1, 32, x, x.copy(), gpu="H200")
    with pytest.raises(TypingError, match="L2 shall keep needs compute capability 8.0, .* T4"):
        trace(cuda.jit(copier(4, KEPT[4])), 1, 16, x, x.copy(), gpu="T4")
    of_16_bits = np.zeros(64, np.float16)
    with pytest.raises(TypingError, match="load_kept needs elements of 4 bytes, not of float16"):
        trace(cuda.jit(copier(1, KEPT[1])), 1, 64, of_16_bits, of_16_bits.copy(), gpu="H200")


def test_only_global_memory_is_streamed():
    def keep(x, out):
        tile = cuda.shared.array(32, float32)
        i = cuda.threadIdx.x
        ptx.store_streaming(tile, i, ptx.load_streaming(x, i))
        cuda.syncthreads()
        out[i] = tile[i]

    with pytest.raises(TypingError, match="line 4: a streaming access .* tile is in shared mem"):
        trace(cuda.jit(keep), 1, 32, np.zeros(32, np.float32), np.zeros(32, np.float32))


def test_an_access_that_does_not_fit_is_refused():
    for kind, says in ((np.int8, "elements of 2, 4 or 8 bytes"), (np.float64, "32 bytes")):
        x = np.zeros(64, kind)
        with pytest.raises(TypingError, match=says):
            trace(cuda.jit(copier(4, STREAMING[4])), 1, 16, x, x.copy())


def test_errors_are_found_as_at_plain_ones():
    @cuda.jit
    def shifted(x, out):
        i = 4 * cuda.threadIdx.x
        ptx.store4_streaming(out, i, ptx.load4_streaming(x, i + 1))

    x = np.zeros(256, np.float32)
    kinds = {finding.kind for finding in trace(shifted, 1, 32, x, x.copy()).findings}
    assert "misaligned" in kinds


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_they_become_one_instruction(count, kind, target):
    x = np.zeros(512, kind)
    facts = compiled(copier(count, STREAMING[count]), (x, x), target)
    width = f"{'v4.' if count == 4 else ''}b{8 * x.itemsize}"
    assert f"ld.global.cs.{width}" in facts.ptx and f"st.global.cs.{width}" in facts.ptx
    assert facts.load_widths["global"] == facts.store_widths["global"] == {width: 1}
    assert facts.spills == 0


@needs_compiler
def test_a_streamed_number_is_read_again_after_it_was_written():
    def twice(x, out):
        i = cuda.grid(1)
        first = ptx.load_streaming(x, i)
        x[i] = first + float32(1)
        out[i] = first + ptx.load_streaming(x, i)

    facts = compiled(twice, (np.zeros(32, np.float32),) * 2)
    assert facts.ptx.count("ld.global.cs.b32") == 2


@needs_compiler
@pytest.mark.parametrize("kind", [np.float32, np.int32])
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_what_l2_shall_keep_is_one_instruction_with_a_policy(count, kind, target):
    x = np.zeros(512, kind)
    facts = compiled(copier(count, KEPT[count]), (x, x), target)
    width = f"{'v4.' if count == 4 else ''}b32"
    assert f"ld.global.L1::evict_last.L2::cache_hint.{width}" in facts.ptx
    assert facts.ptx.count("createpolicy.fractional.L2::evict_last.b64") == 1
    assert facts.spills == 0
