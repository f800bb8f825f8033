"""Data races: found where they are, and never in a correct program."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from numba import float32, int32

from tests.texts import function_of
from warpsim import cuda, trace

SIZE = 64
DOUBLE = 128


def kinds(kernel, grid, block, *arguments):
    return {f.kind for f in trace(kernel, grid, block, *arguments).findings if f.kind != "float64"}


def f4(*shape):
    return np.random.default_rng(0).random(shape, dtype=np.float32)


# ---------------------------------------------------------------------- wrong programs
@cuda.jit
def reverse_without_barrier(x, out):
    buffer = cuda.shared.array(SIZE, float32)
    t = cuda.threadIdx.x
    buffer[t] = x[cuda.grid(1)]
    out[cuda.grid(1)] = buffer[SIZE - 1 - t]


@cuda.jit
def second_barrier_missing(x, out):
    buffer = cuda.shared.array(SIZE, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for start in range(0, x.size, SIZE):
        buffer[t] = x[start + t]
        cuda.syncthreads()
        total += buffer[(t + 33) % SIZE]
    out[cuda.grid(1)] = total


@cuda.jit
def lost_updates(x, counts):
    i = cuda.grid(1)
    if i < x.size:
        counts[x[i]] += 1


@cuda.jit
def everybody_sums(x, out):
    out[0] += x[cuda.grid(1)]


@cuda.jit
def neighbours_in_place(x):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        x[i] = (x[i - 1] + x[i + 1]) / float32(2)


@cuda.jit
def next_blocks_element(x, out):
    i = cuda.grid(1)
    out[i] = x[i]
    cuda.syncthreads()
    x[i] = out[(i + SIZE) % out.size]


@pytest.mark.parametrize(
    ("kernel", "grid", "arguments"),
    [
        (reverse_without_barrier, 2, (f4(128), f4(128))),
        (second_barrier_missing, 1, (f4(256), f4(64))),
        (lost_updates, 2, (np.arange(128) % 8, np.zeros(8, np.int32))),
        (everybody_sums, 2, (f4(128), np.zeros(1, np.float32))),
        (neighbours_in_place, 2, (f4(128),)),
        (next_blocks_element, 3, (f4(192), f4(192))),
    ],
)
def test_races_are_found(kernel, grid, arguments):
    assert "race" in kinds(kernel, grid, SIZE, *arguments)


def test_a_race_between_chunks_of_blocks_is_found():
    blocks = 600  # more than one chunk of lanes
    assert "race" in kinds(everybody_sums, blocks, SIZE, f4(blocks * SIZE), np.zeros(1, np.float32))


def test_a_race_names_both_threads_and_what_to_do():
    report = trace(reverse_without_barrier, 1, SIZE, f4(64), f4(64))
    (finding,) = [f for f in report.findings if f.kind == "race"]
    assert finding.line == 5
    assert "buffer[63]" in finding.message and "cuda.syncthreads()" in finding.message
    assert finding.where.thread == (0, 0, 0) and "thread (63, 0, 0)" in finding.message


def test_writing_the_same_value_is_no_error():
    @cuda.jit
    def flag(x, found):
        i = cuda.grid(1)
        if x[i] > 0.5:
            found[0] = 1

    report = trace(flag, 2, SIZE, f4(128), np.zeros(1, np.int32))
    assert not [f for f in report.findings if f.is_error]
    assert "same-value-race" in {f.kind for f in report.findings}


# ---------------------------------------------------------------------- right programs
@cuda.jit
def warp_with_syncwarp(x, out):
    buffer = cuda.shared.array(SIZE, float32)
    t = cuda.threadIdx.x
    buffer[t] = x[t]
    cuda.syncwarp()
    value = buffer[t ^ 1]
    cuda.syncwarp()
    buffer[t] = value * value
    cuda.syncwarp()
    out[t] = buffer[t ^ 3]


@cuda.jit
def one_barrier_double_buffer(x, out):
    buffer = cuda.shared.array((2, SIZE), float32)
    t = cuda.threadIdx.x
    total = float32(0)
    now = 0
    for start in range(0, x.size, SIZE):
        buffer[now, t] = x[start + t]
        cuda.syncthreads()
        total += buffer[now, (t + 33) % SIZE]
        now = 1 - now
    out[t] = total


@cuda.jit
def last_block_reduces(x, partial, counter, out):
    part = cuda.shared.array(SIZE, float32)
    last = cuda.shared.array(1, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i]
    cuda.syncthreads()
    step = SIZE // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        partial[cuda.blockIdx.x] = part[0]
        cuda.threadfence()
        last[0] = cuda.atomic.add(counter, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0]:
        cuda.threadfence()
        if t < cuda.gridDim.x:
            part[t] = partial[t]
        cuda.syncthreads()
        if t == 0:
            total = float32(0)
            for b in range(cuda.gridDim.x):
                total += part[b]
            out[0] = total


@cuda.jit
def in_place(x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] = x[i] * x[i] + x[i]


@cuda.jit
def block_in_place(x):
    i = cuda.grid(1)
    value = x[cuda.blockIdx.x * SIZE + (cuda.threadIdx.x + 1) % SIZE]
    cuda.syncthreads()
    x[i] = value
    cuda.syncthreads()
    value = x[cuda.blockIdx.x * SIZE]
    cuda.syncthreads()
    x[i] += value


@cuda.jit
def histogram(x, counts):
    local = cuda.shared.array(8, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t < 8:
        local[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(local, x[i], 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(counts, t, local[t])


@cuda.jit
def reads_beside_atomics(x, best):
    i = cuda.grid(1)
    if x[i] > best[0]:
        cuda.atomic.max(best, 0, x[i])


@cuda.jit
def one_thread_a_block(x):
    if cuda.threadIdx.x == 0:
        for j in range(SIZE):
            x[cuda.blockIdx.x * SIZE + j] = j
    cuda.syncthreads()
    x[cuda.grid(1)] += 1


RIGHT = [
    (warp_with_syncwarp, 1, (f4(64), f4(64))),
    (one_barrier_double_buffer, 1, (f4(512), f4(64))),
    (last_block_reduces, 7,
     (f4(448), np.zeros(7, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32))),
    (in_place, 2, (f4(1000),)),
    (block_in_place, 3, (f4(192),)),
    (histogram, 2, (np.arange(128) % 8, np.zeros(8, np.int32))),
    (reads_beside_atomics, 2, (f4(128), np.zeros(1, np.float32))),
    (one_thread_a_block, 3, (f4(192),)),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "grid", "arguments"), RIGHT)
def test_correct_programs_have_no_race_and_without_one_of_their_barriers_they_have(
    kernel, grid, arguments
):
    found = kinds(kernel, grid, SIZE, *map(np.copy, arguments))
    assert "race" not in found and "same-value-race" not in found
    text = inspect.getsource(kernel.py_func)
    for barrier in re.finditer(r" +cuda\.(sync\w+|threadfence)\(\)\n", text):
        less = text[: barrier.start()] + text[barrier.end() :]
        wrong = function_of(less, f"{kernel.__name__} {barrier.start()}", globals())
        assert "race" in kinds(wrong, grid, SIZE, *map(np.copy, arguments)), less


def test_the_last_block_also_in_another_chunk():
    blocks = 60
    big = f4(blocks * SIZE)
    partial, out = np.zeros(blocks, np.float32), np.zeros(1, np.float32)
    report = trace(last_block_reduces, blocks, SIZE, big, partial, np.zeros(1, np.int32), out)
    assert not [f for f in report.findings if f.is_error]
    np.testing.assert_allclose(out[0], big.sum(), rtol=1e-5)


def test_a_race_through_a_view_and_a_device_function_is_found():
    @cuda.jit(device=True)
    def put(row, value):
        row[0] = value

    @cuda.jit
    def through(x):
        row = x[cuda.blockIdx.x]
        put(row, cuda.threadIdx.x)

    assert "race" in kinds(through, 2, SIZE, f4(2, 3))


def test_a_shuffle_does_not_order_memory():
    @cuda.jit
    def shuffles(x, out):
        buffer = cuda.shared.array(SIZE, float32)
        t = cuda.threadIdx.x
        buffer[t] = x[t]
        value = cuda.shfl_xor_sync(0xFFFFFFFF, x[t], 1)
        out[t] = buffer[t ^ 1] + value

    assert "race" in kinds(shuffles, 1, SIZE, f4(64), f4(64))


# ---------------------------------------------------------------------- other ways to store
RECORDS = np.dtype([("x", "f4"), ("y", "f4")])


@cuda.jit
def sets_a_field(records, out):
    records[0].x = cuda.grid(1)


@cuda.jit
def sets_by_a_ufunc(x, out):
    np.maximum(x, cuda.grid(1), out)


@cuda.jit
def fills(x, out):
    out.fill(cuda.grid(1))


@pytest.mark.parametrize("kernel", [sets_a_field, sets_by_a_ufunc, fills])
def test_a_store_without_an_index_races_too(kernel):
    first = np.zeros(3, RECORDS) if kernel is sets_a_field else np.zeros(3)
    assert "race" in {f.kind for f in trace(kernel, 1, 32, first, np.zeros(3)).findings}
    assert "race" not in {f.kind for f in trace(kernel, 1, 1, first, np.zeros(3)).findings}
