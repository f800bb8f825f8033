"""What blocks tell each other: right programs have no finding, wrong ones have a race."""

from __future__ import annotations

import os

import numpy as np
import pytest
from numba import float32, int32

from tests.warpsim.watch.publishing_programs import FENCE, SYNC, arguments, function, program
from warpsim import cuda, trace
from warpsim.run import launch

#: Random right programs; so many belong to the normal run.
PROGRAMS, QUICK = int(os.environ.get("COURSE_PUBLISHING_PROGRAMS", "200")), 20


def errors(kernel, grid, block, *given):
    return [f for f in trace(kernel, grid, block, *given).findings if f.is_error]


def batches(size=20):
    return [
        pytest.param(first, marks=pytest.mark.slow if first >= QUICK else ())
        for first in range(0, PROGRAMS, size)
    ]


@pytest.mark.parametrize("lanes", [launch.CHUNK_LANES, 128])
@pytest.mark.parametrize("first", batches())
def test_right_programs_have_no_error(first, lanes, monkeypatch):
    """All blocks at once, and a few at a time."""
    monkeypatch.setattr(launch, "CHUNK_LANES", lanes)
    for seed in range(first, first + 20):
        author = program(seed)
        given = arguments(author, seed)
        found = errors(cuda.jit(function(author.text, cuda)), author.grid, author.block, *given)
        assert not found, f"{seed}: {found}\n{author.text}"


@pytest.mark.parametrize(("lanes", "most"), [(launch.CHUNK_LANES, 0.8), (128, 0.55)])
def test_without_one_of_its_fences_a_program_has_a_race(lanes, most, monkeypatch):
    """Of programs whose last fence, or last barrier of the grid, is left out.

    Of blocks that ran long before, in an earlier chunk, other acts may have told the rest.
    """
    monkeypatch.setattr(launch, "CHUNK_LANES", lanes)
    tried = raced = 0
    for seed in range(30):
        author = program(seed)
        lines = author.text.splitlines(True)
        places = [k for k, line in enumerate(lines) if line.strip() in (FENCE, SYNC)]
        if not places:
            continue
        tried += 1
        lines[places[-1]] = lines[places[-1]].replace(lines[places[-1]].strip(), "pass")
        kernel = cuda.jit(function("".join(lines), cuda))
        found = errors(kernel, author.grid, author.block, *arguments(author, seed))
        raced += any(finding.kind == "race" for finding in found)
    assert tried >= 15 and raced >= most * tried, (raced, tried)


# ---------------------------------------------------------------------- one mistake each
@cuda.jit
def divided(x, total, out):
    i = cuda.grid(1)
    cuda.atomic.add(total, 0, x[i])
    out[i] = x[i] / total[0]


@cuda.jit
def divided_after_a_barrier(x, total, out):
    i = cuda.grid(1)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(total, 0, x[i])
    cuda.syncthreads()
    share = total[0]
    if share > 0:
        out[i] = x[i] / share


@cuda.jit
def through_shared(x, total, out):
    both = cuda.shared.array(1, float32)
    i = cuda.grid(1)
    cuda.atomic.max(total, 0, x[i])
    if cuda.threadIdx.x == 0:
        both[0] = total[0]
    cuda.syncthreads()
    out[i] = x[i] - both[0]


@cuda.jit(device=True)
def share_of(value, total):
    return value / total[0]


@cuda.jit
def through_a_function(x, total, out):
    i = cuda.grid(1)
    cuda.atomic.add(total, 0, x[i])
    out[i] = share_of(x[i], total)


@cuda.jit
def fenced_but_nobody_counts(x, total, out):
    i = cuda.grid(1)
    cuda.atomic.add(total, 0, x[i])
    cuda.threadfence()
    out[i] = x[i] / total[0]


@cuda.jit
def others_add(x, total, out):
    i = cuda.grid(1)
    if cuda.blockIdx.x == 0:
        cuda.atomic.add(total, 0, x[i])
    out[i] = total[0]


@cuda.jit
def plain_flag(x, total, out):
    i = cuda.grid(1)
    if i == 0:
        total[1] = x[0]
        cuda.threadfence()
        cuda.atomic.add(total, 0, 1.0)
    cuda.syncthreads()
    if cuda.blockIdx.x > 0 and total[0] == 1.0:
        out[i] = total[1]


WRONG = [divided, divided_after_a_barrier, through_shared, through_a_function]
WRONG += [fenced_but_nobody_counts, others_add, plain_flag]


def launched(kernel, grid=3):
    x = np.arange(1, grid * 64 + 1, dtype=np.float32)
    return errors(kernel, grid, 64, x, np.zeros(2, np.float32), np.zeros(x.size, np.float32))


@pytest.mark.parametrize("kernel", WRONG, ids=lambda kernel: kernel.__name__)
def test_a_read_that_other_blocks_may_still_change_is_a_race(kernel):
    found = launched(kernel)
    assert [f.kind for f in found] == ["race"] and "total[" in found[0].message


def test_the_message_says_what_to_do():
    (found,) = launched(divided)
    assert found.line == 4 and found.code == "total[0]"
    assert "second launch" in found.message and "counts last" in found.message


@cuda.jit
def in_one_block(x, total, out):
    i = cuda.grid(1)
    cuda.atomic.add(total, 0, x[i])
    cuda.syncthreads()
    out[i] = x[i] / total[0]


def test_in_one_block_a_barrier_is_enough():
    assert launched(in_one_block, grid=1) == []
    assert [f.kind for f in launched(in_one_block, grid=2)] == ["race"]


@pytest.mark.parametrize("where", ["never", "first", "before the barrier", "after the barrier"])
def test_the_last_block_needs_a_fence_before_and_after_its_count(where):
    @cuda.jit
    def last_block(x, partial, counter, out):
        last = cuda.shared.array(1, int32)
        t = cuda.threadIdx.x
        if t == 0:
            partial[cuda.blockIdx.x] = x[cuda.blockIdx.x]
            if where != "never":
                cuda.threadfence()
            last[0] = cuda.atomic.add(counter, 0, 1) == cuda.gridDim.x - 1
            if where == "before the barrier":
                cuda.threadfence()
        cuda.syncthreads()
        if last[0]:
            if where == "after the barrier":
                cuda.threadfence()
            total = float32(0)
            for block in range(t, cuda.gridDim.x, cuda.blockDim.x):
                total += partial[block]
            out[t] = total

    room = np.zeros(4, np.float32), np.zeros(1, np.int32), np.zeros(64, np.float32)
    found = errors(last_block, 4, 64, np.ones(4, np.float32), *room)
    if "barrier" in where:
        assert found == []
    else:
        assert [f.kind for f in found] == ["race"] and found[0].code == "partial[block]"
        assert ("between that atomic and this read" in found[0].message) == (where == "first")


def test_read_by_an_atomic_it_needs_no_second_fence():
    @cuda.jit
    def last_block(x, partial, counter, out):
        if cuda.threadIdx.x == 0:
            partial[cuda.blockIdx.x] = x[cuda.blockIdx.x]
            cuda.threadfence()
            if cuda.atomic.add(counter, 0, 1) == cuda.gridDim.x - 1:
                total = float32(0)
                for block in range(cuda.gridDim.x):
                    total += cuda.atomic.add(partial, block, 0)
                out[0] = total
                counter[0] = 0

    room = np.zeros(4, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32)
    assert errors(last_block, 4, 64, np.ones(4, np.float32), *room) == []
    assert room[2][0] == 4


@pytest.mark.parametrize("fenced", [True, False])
def test_an_earlier_fence_publishes_no_later_store(fenced):
    @cuda.jit
    def adds(lock, out):
        if cuda.threadIdx.x == 0:
            while cuda.atomic.cas(lock, 0, 0, 1) != 0:
                pass
            cuda.threadfence()
            out[0] += 1
            if fenced:
                cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)

    found = trace(adds, 4, 32, np.zeros(1, np.int32), np.zeros(1)).findings
    assert any(finding.is_error for finding in found) != fenced
