"""Asynchronous copies, simulated: when they have arrived, and what is found where nobody waits."""

import numpy as np
import pytest
from numba import float32
from numba.core.errors import TypingError

from course import trace
from tests.texts import body_of
from tests.warpsim.ptx.kernel_parts import errors, numbers, only, written
from warpsim import cuda
from warpsim.host import gpus
from warpsim.ptx import commit_copies, copy_async, wait_copies


def waiting(commit=True, wait=0, barrier=True, own=False):
    """Each thread copies an element and reads another's, or its own, after parts of the ritual."""

    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        tile[t] = float32(-1)
        cuda.syncthreads()
        copy_async(tile, t, x, t)
        if commit:
            commit_copies()
        if wait == 0:
            wait_copies(0)
        elif wait == 1:
            wait_copies(1)
        if barrier:
            cuda.syncthreads()
        out[t] = tile[t if own else 63 - t]

    return kernel


def test_copies_arrive():
    x, out = numbers(64), np.zeros(64, np.float32)
    assert not errors(trace(waiting(), 1, 64, x, out, gpu="H100"))
    np.testing.assert_array_equal(out, x[::-1])
    report = trace(waiting(barrier=False, own=True), 1, 64, x, out, gpu="H100")
    assert not errors(report)  # its own copies are a thread's own without a barrier
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize(
    "missing", [{"wait": None}, {"commit": False}, {"wait": 1}, {"wait": None, "commit": False}]
)
@pytest.mark.parametrize("own", [False, True])
def test_copies_nobody_waited_for_are_found_and_have_not_arrived(missing, own, monkeypatch):
    x, out = numbers(64), np.zeros(64, np.float32)
    monkeypatch.setattr(gpus, "_chosen", gpus.find("H100"))
    waiting(own=own, **missing)[1, 64](x, out)
    assert (out == -1).all()
    report = trace(waiting(own=own, **missing), 1, 64, x, out, gpu="H100")
    finding = only(report, "race", 15, ["which the copy begun in line 6 has yet to fill"])
    assert "commit_copies() and wait_copies(n)" in finding.message
    assert finding.code == "tile[t if own else 63 - t]"
    assert (out == -1).all()


def test_a_wait_is_no_barrier():
    x, out = numbers(64), np.zeros(64, np.float32)
    report = trace(waiting(barrier=False), 1, 64, x, out, gpu="H100")
    only(report, "race", 15, ["reads tile[", "put cuda.syncthreads() between the two"])


def test_a_copy_may_not_begin_while_others_still_read():
    """The barrier between the copy's begin and its arrival comes too late."""

    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        tile[t] = x[t]
        cuda.syncthreads()
        value = tile[63 - t]
        copy_async(tile, t, x, 63 - t)
        commit_copies()
        cuda.syncthreads()
        wait_copies(0)
        cuda.syncthreads()
        out[t] = value + tile[t]

    report = trace(kernel, 1, 64, numbers(64), np.zeros(64, np.float32), gpu="H100")
    only(report, "race", 7, ["writes tile[", "reads too"])


@pytest.mark.parametrize("second", ["copy_async(tile, t, x, 63 - t)", "tile[t] = float32(0)"])
def test_two_copies_into_one_element_race_and_so_does_a_store(second):
    begun = "tile = cuda.shared.array(64, float32)\nt = cuda.threadIdx.x\ncopy_async(tile, t, x, t)"
    report = trace(written(f"{begun}\n{second}"), 1, 64, numbers(64), gpu="H100")
    only(report, "race", 5, ["writes tile[0]", "the copy begun in line 4"])


def test_groups_belong_to_each_thread():
    """The newest groups of a thread may be in flight; others have groups of their own."""

    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array((3, 32), float32)
        t = cuda.threadIdx.x
        copy_async(tile, (0, t), x, t)
        commit_copies()
        if t % 2 == 0:
            copy_async(tile, (1, t), x, t + 32)
            commit_copies()
        wait_copies(1)
        if t % 2 == 0:
            out[t] = tile[0, t]
        wait_copies(0)
        if t % 2 == 1:
            out[t] = tile[0, t]
        else:
            out[t] += tile[1, t]

    x, out = numbers(64), np.zeros(32, np.float32)
    assert not errors(trace(kernel, 1, 32, x, out, gpu="L4"))
    t = np.arange(32)
    np.testing.assert_array_equal(out, np.where(t % 2, x[:32], x[:32] + x[32:]))


def test_a_group_of_others_does_not_count():
    """Threads with an odd number have closed one group only, so that it may be the newest."""

    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array(32, float32)
        t = cuda.threadIdx.x
        copy_async(tile, t, x, t)
        commit_copies()
        if t % 2 == 0:
            commit_copies()
        wait_copies(1)
        out[t] = tile[t]

    report = trace(kernel, 1, 32, numbers(32), np.zeros(32, np.float32), gpu="L4")
    assert only(report, "race", 9, ["reads tile[1]"]).where.thread == (1, 0, 0)


def test_copies_begun_in_a_device_function():
    @cuda.jit(device=True)
    def begin(tile, x, t):
        copy_async(tile, t, x, t)
        commit_copies()

    def reading(after):
        @cuda.jit
        def kernel(x, out):
            tile = cuda.shared.array(64, float32)
            t = cuda.threadIdx.x
            begin(tile, x, 63 - t)
            if after:
                wait_copies(0)
            out[t] = tile[63 - t]

        return kernel

    x, out = numbers(64), np.zeros(64, np.float32)
    assert not errors(trace(reading(True), 1, 64, x, out, gpu="L4"))
    np.testing.assert_array_equal(out, x[::-1])
    report = trace(reading(False), 1, 64, x, out, gpu="L4")
    only(report, "race", 7, ["reads tile[63]", "the copy begun in line 2"])
    assert {line for line, array in zip(report.lines.line, report.lines.array, strict=True)
            if array == "x"} == {2}  # fmt: skip


def test_a_thread_waits_for_itself_alone():
    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        tile[t] = float32(0)
        copy_async(tile, t, x, t)
        commit_copies()
        if t < 32:
            wait_copies(0)
        cuda.syncthreads()
        out[t] = tile[63 - t]

    out = np.zeros(64, np.float32)
    report = trace(kernel, 1, 64, numbers(64), out, gpu="H100")
    finding = only(report, "race", 10, ["reads tile[63]"])
    assert finding.where.thread == (0, 0, 0)
    np.testing.assert_array_equal(out[32:], numbers(64)[:32][::-1])


def test_a_double_buffer_has_the_older_group_only():
    """While one half is read, the next copy goes into the other one."""

    def buffered(most, barrier):
        @cuda.jit
        def kernel(x, out):
            tile = cuda.shared.array((2, 64), float32)
            t = cuda.threadIdx.x
            total = float32(0)
            copy_async(tile, (0, t), x, t)
            commit_copies()
            for step in range(1, 6):
                if step < 5:
                    copy_async(tile, (step % 2, t), x, 64 * step + t)
                commit_copies()
                if most == 1:
                    wait_copies(1)
                else:
                    wait_copies(2)
                cuda.syncthreads()
                total += tile[(step - 1) % 2, 63 - t] * step
                if barrier:
                    cuda.syncthreads()
            out[t] = total

        return kernel

    x, out = numbers(5, 64), np.zeros(64, np.float32)
    assert not errors(trace(buffered(1, True), 1, 64, x.reshape(-1), out, gpu="A100"))
    wanted = np.zeros(64, np.float32)
    for step in range(5):
        wanted += x[step, ::-1] * np.float32(step + 1)
    np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-5)
    found = errors(trace(buffered(2, True), 1, 64, x.reshape(-1), out, gpu="A100"))
    assert ("race", 16) in {(finding.kind, finding.line) for finding in found}
    found = errors(trace(buffered(1, False), 1, 64, x.reshape(-1), out, gpu="A100"))
    assert {(finding.kind, finding.line) for finding in found} == {("race", 9)}


def test_copies_at_the_end_of_a_kernel_need_no_wait():
    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        copy_async(tile, t, x, t)
        out[t] = x[t]

    out = np.zeros(64, np.float32)
    assert not errors(trace(kernel, 1, 64, numbers(64), out, gpu="A100"))
    np.testing.assert_array_equal(out, numbers(64))


def test_copies_are_checked_when_they_begin():
    def by_fours(size, start):
        place = f"4 * cuda.threadIdx.x{start}"
        copy = f"copy4_async(tile, {place}, x, 4 * cuda.threadIdx.x)"
        return written(f"tile = cuda.shared.array({size}, float32)\n{copy}")

    far, full, odd = by_fours(128, ""), by_fours(100, ""), by_fours(130, " + 2")
    beyond = written(
        "tile = cuda.shared.array(128, float32)\n"
        "t = cuda.threadIdx.x\n"
        "copy_async(tile, t, x, 5 * t - 3)"
    )
    x = numbers(128)
    report = trace(beyond, 1, 20, x, gpu="A100")
    only(report, "out-of-bounds", 4, ["reads x[-3]", "`if 5 * t - 3 >= 0:`"])
    only(trace(far, 1, 32, x[:90].copy(), gpu="A100"), "out-of-bounds", 3, ["from x[88] on"])
    only(trace(full, 1, 32, x, gpu="A100"), "out-of-bounds", 3, ["from tile[100] on"])
    only(trace(odd, 1, 32, x, gpu="A100"), "misaligned", 3, ["writes 4 elements from tile[2]"])


def test_copies_go_from_global_to_shared_memory():
    @cuda.jit
    def back(x):
        tile = cuda.shared.array(64, float32)
        copy_async(x, cuda.threadIdx.x, tile, cuda.threadIdx.x)

    with pytest.raises(TypingError, match=r"not from shared \(tile\) to global \(x\)"):
        trace(back, 1, 32, numbers(64), gpu="A100")


@pytest.mark.parametrize(("most", "given"), [("n", "int64"), ("-1", "-1"), ("1.0", "float64")])
def test_how_many_groups_are_waited_for_is_known_beforehand(most, given):
    kernel = cuda.jit(body_of("n", f"wait_copies({most})", wait_copies=wait_copies))
    words = f"wait_copies takes a literal, 0 or more: .*, not {given}"
    with pytest.raises(TypingError, match=words):
        trace(kernel, 1, 1, 3, gpu="A100")
