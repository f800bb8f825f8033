"""Where the simulator takes a quicker way, it says what it would on the long one."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numba import float32, int32

from warpsim import cuda, trace
from warpsim.code.programs import program_of
from warpsim.core.masks import Mask
from warpsim.run.memory import _by_place
from warpsim.watch.counts import sector_counts, wavefronts

SIZE = 64


def kinds(kernel, grid, block, *arguments):
    return {finding.kind for finding in trace(kernel, grid, block, *arguments).findings}


# ---------------------------------------------------------------------- what may change
def copies_elements(x, y, out):
    tile = cuda.shared.array((SIZE, 2), float32)
    t = cuda.threadIdx.x
    tile[t, 0], tile[t, 1] = x[t], y[t]
    cuda.syncthreads()
    out[t] = tile[SIZE - 1 - t, 0]


def through_a_row(x, y, out):
    row = x[0]
    row[cuda.threadIdx.x] = y[0, 0]


def through_a_tuple(x, y, out):
    first, second = x, out
    first[0, cuda.threadIdx.x] = second[0, 0]


def through_an_annotated_name(x, y, out):
    other: object = x
    other[0, cuda.threadIdx.x] = y[0, 0]


def through_a_loop(x, y, out):
    for one in (x, out):
        one[0, cuda.threadIdx.x] = y[0, 0]


@pytest.mark.parametrize(
    ("function", "changed"),
    [
        (copies_elements, "out"),
        (through_a_row, "x"),
        (through_a_tuple, "x out"),
        (through_an_annotated_name, "x"),
        (through_a_loop, "x out"),
    ],
)
def test_only_arrays_that_are_stored_into_by_any_name_are_watched(function, changed):
    """What an element is copied from does not change; who shares an array's memory may."""
    assert program_of(cuda.jit(function)).stored == frozenset(changed.split())


# ---------------------------------------------------------------------- loads
@cuda.jit
def gathers(index, x, out):
    i = cuda.grid(1)
    if 0 <= index[i] < x.size:
        out[i] = x[index[i]]


def test_idle_lanes_may_be_as_far_outside_as_they_like():
    far = 2**62
    index = np.array([0, far, -far, 2, 1, far, 3, -1] * 8)
    x, out = np.arange(4.0), np.full(64, -1.0)
    began = time.process_time()
    gathers[1, 64](index, x, out)
    assert time.process_time() - began < 5
    assert list(out) == [i if 0 <= i < 4 else -1 for i in index]


# ---------------------------------------------------------------------- when who touched what
@cuda.jit
def turns(x, barrier):
    """A block alone: neighbours swap, with a barrier between the turns or without."""
    t = cuda.threadIdx.x
    for turn in range(4):
        i = 2 * t + turn % 2
        if i + 1 < x.size and x[i] > x[i + 1]:
            x[i], x[i + 1] = x[i + 1], x[i]
        if barrier:
            cuda.syncthreads()


@cuda.jit
def after_half_a_barrier(x, out):
    """Half of the blocks pass a barrier between a store and a load of another thread's element."""
    tile = cuda.shared.array(SIZE, int32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    if cuda.blockIdx.x % 2 == 0:
        cuda.syncthreads()
    if cuda.blockIdx.x >= out.shape[0]:
        return
    out[cuda.blockIdx.x, t] = tile[SIZE - 1 - t]


@cuda.jit
def in_turns_of_blocks(x):
    """One element for all blocks, each of which passes a barrier of its own first."""
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        x[0] = cuda.blockIdx.x


def test_a_lone_block_s_barrier_orders_global_memory_and_nothing_else_does():
    x = np.random.default_rng(0).random(2 * SIZE)
    assert "race" not in kinds(turns, 1, SIZE, x.copy(), True)
    assert "race" in kinds(turns, 1, SIZE, x.copy(), False)
    assert "race" in kinds(in_turns_of_blocks, 2, SIZE, np.zeros(1))


@pytest.mark.parametrize(("rows", "races"), [(1, False), (2, True)])
def test_a_barrier_of_some_blocks_orders_theirs_alone(rows, races):
    """Block 0 passes it and block 1 does not: only block 1 races, if it reads at all."""
    x, out = np.arange(SIZE, dtype=np.int32), np.zeros((rows, SIZE), np.int32)
    assert ("race" in kinds(after_half_a_barrier, 4, SIZE, x, out)) is races


@pytest.mark.parametrize("places", [[], [3], [2, 0, 2, 2, 1, 0], [0, 0, 1, 5], [2**40, 0, 2**40]])
def test_atomics_go_by_place_then_by_number(places):
    places = np.array(places, np.int64)
    assert list(_by_place(places)) == list(np.argsort(places, kind="stable"))


# ---------------------------------------------------------------------- counts
def _lanes(seed: int) -> tuple[np.ndarray, Mask, int]:
    """Elements of four warps and a mask, by one of several patterns; bytes of an element."""
    rng = np.random.default_rng(seed)
    elements = [
        np.arange(128), rng.integers(0, 500, 128), np.arange(128)[::-1] * 3, np.repeat(7, 128),
        np.sort(rng.integers(0, 90, 128)),
    ][seed % 5]  # fmt: skip
    active = rng.random(128) < (1, 0.5, 0.02)[seed % 3]
    return elements.astype(np.int64), Mask(active, int(active.sum()), None), 2 ** (seed % 4)


@pytest.mark.parametrize("seed", range(60))
def test_sectors_are_those_of_sets(seed):
    elements, mask, size = _lanes(seed)
    address = size * (seed % 7)
    warps = [elements[w : w + 32][mask.active[w : w + 32]] for w in range(0, 128, 32)]
    sectors = [len({(e * size + address) // 32 for e in warp}) for warp in warps]
    ideal = sum(-(-len(set(warp.tolist())) * size // 32) for warp in warps)
    found = sector_counts(elements, size, size, address, mask)
    assert found[:3] == (sum(map(bool, sectors)), sum(sectors), ideal)
    assert list(found[3]) == sectors and found[4] == max(sectors)


@pytest.mark.parametrize("seed", range(60))
def test_wavefronts_are_the_words_of_the_busiest_bank(seed):
    elements, mask, size = _lanes(seed)
    size = min(size, 4)
    words = elements * size // 4
    passes = []
    for w in range(0, 128, 32):
        wanted = set(words[w : w + 32][mask.active[w : w + 32]].tolist())
        passes.append(max([len({x for x in wanted if x % 32 == bank}) for bank in range(32)]))
    found = wavefronts(elements, size, size, 0, mask)
    assert found[:2] == (sum(passes), sum(map(bool, passes)))
    assert list(found[2]) == passes


@cuda.jit
def rows_and_columns(x, out):
    """Loads that come again further on, in a loop, by all lanes and by some."""
    tile = cuda.shared.array((8, 8), float32)
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    for i in range(x.shape[0]):
        tile[row, col] = x[i, col]
        cuda.syncthreads()
        if row < 5:
            out[cuda.blockIdx.x, row, col] += x[i, row] + tile[col, row]
        cuda.syncthreads()


def test_what_comes_again_is_counted_as_often_as_it_comes():
    """Two blocks in one part, by thread, by byte and by wavefront, against a count by hand."""
    passes, blocks = 9, 2
    x, out = np.ones((passes, 8), np.float32), np.zeros((blocks, 8, 8), np.float32)
    report = trace(rows_and_columns, blocks, (8, 8), x, out)
    loads = report.by_thread(("global", "load")).reshape(blocks, 8, 8)
    assert (loads[:, :5] == 3 * passes).all() and (loads[:, 5:] == passes).all()
    assert (report.by_thread(("shared", "store")) == passes).all()
    assert report.unique_bytes == 4 * (8 * passes + blocks * 5 * 8)
    # x[i, col] and x[i, row]: 2 warps a block; of the second warp one row of five is active
    assert report.total("global", "load").requests == blocks * passes * 6
    assert report.total("shared", "load").requests == blocks * passes * 2
    # tile[col, row]: 8 columns 8 words apart, of 4 rows and then of 1, so 2 meet in each bank
    assert report.total("shared", "load").wavefronts == blocks * passes * 4
