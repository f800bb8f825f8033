"""Vector accesses, asynchronous copies and tensor cores, simulated: results, counts, findings."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import float32, int8, int16, int32, int64, uint8, uint32, uint64
from numba.core.errors import TypingError
from numba.np.numpy_support import from_dtype

from course import trace
from tests.texts import body_of
from warpsim import KernelError, cuda, ptx
from warpsim.host import gpus
from warpsim.ptx import (
    commit_copies,
    copy4_async,
    copy_async,
    load,
    load2,
    load4,
    mma_f16,
    mma_f16_k8,
    mma_tf32,
    round_tf32,
    split_halves,
    store,
    store2,
    store4,
    wait_copies,
)

LOAD = {1: load, 2: load2, 4: load4}
STORE = {1: store, 2: store2, 4: store4}


def numbers(*shape, dtype=np.float32, seed=0):
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        most = np.iinfo(dtype)
        return random.integers(most.min, most.max, shape, dtype, endpoint=True)
    return random.standard_normal(shape).astype(dtype)


def errors(report):
    return [finding for finding in report.findings if finding.is_error]


def only(report, kind, line=None, words=()):
    """The one error of a report."""
    (finding,) = errors(report)
    assert finding.kind == kind
    assert line is None or finding.line == line
    for part in words:
        assert part in finding.message
    return finding


def written(body, parameters="x"):
    """A kernel of these lines, which may call all instructions."""
    instructions = {name: getattr(ptx, name) for name in ptx.__all__}
    return cuda.jit(body_of(parameters, body, float32=float32, **instructions))


def mover(count, spelled=int64):
    """A kernel that copies ``count`` elements a thread, and every element's successor's sum."""
    read, write = LOAD[count], STORE[count]

    @cuda.jit
    def move(x, out, n):
        i = spelled(cuda.grid(1) * count)
        if i + count <= n:
            write(out, i, read(x, i))

    return move


# ------------------------------------------------------------------ loads and stores
DTYPES = [
    (dtype, count)
    for dtype in (np.int8, np.uint8, np.int16, np.float16, np.int32, np.uint32, np.float32)
    for count in (1, 2, 4)
] + [(dtype, count) for dtype in (np.int64, np.uint64, np.float64) for count in (1, 2)]


@pytest.mark.parametrize(("dtype", "count"), DTYPES)
def test_moves_what_numpy_moves(dtype, count):
    x = numbers(203, dtype=dtype)
    out = np.full_like(x, 7)
    report = trace(mover(count), 4, 77, x, out, 203)
    whole = min(203, 4 * 77 * count) // count * count
    np.testing.assert_array_equal(out[:whole], x[:whole])
    assert (out[whole:] == 7).all()
    assert not errors(report)


@pytest.mark.parametrize("spelled", [int8, int16, int32, int64, uint8, uint32, uint64])
def test_any_integer_is_an_index(spelled):
    x, out = numbers(96), np.zeros(96, np.float32)
    mover(4, spelled)[1, 32](x, out, 96)
    np.testing.assert_array_equal(out, x)


def test_indices_of_several_axes_and_kinds():
    @cuda.jit
    def rotated(x, y, out):
        i, t = cuda.blockIdx.x, cuda.threadIdx.x
        place = (i, uint32(t // 3), int32(t % 3 * 4))
        a, b, c, d = load4(x, place)
        e, f = load2(y, (t // 3, t % 3 * 2))
        store4(out, (i, t // 3, t % 3 * 4), (d, c * e, b, a + f))

    x, y, out = numbers(2, 5, 12), numbers(5, 6), np.zeros((2, 5, 12), np.float32)
    report = trace(rotated, 2, 15, x, y, out)
    assert not errors(report)
    four, two = x.reshape(2, 5, 3, 4), y.reshape(5, 3, 2)
    wanted = np.stack(
        [four[..., 3], four[..., 2] * two[..., 0], four[..., 1], four[..., 0] + two[..., 1]], -1
    )
    np.testing.assert_array_equal(out, wanted.reshape(2, 5, 12))


def test_parts_of_arrays_keep_their_rows():
    @cuda.jit
    def halve(x, out):
        row, column = cuda.threadIdx.y, cuda.threadIdx.x * 4
        a, b, c, d = load4(x, (row, column))
        store2(out, (row, column // 2), (a + b, c + d))

    whole = cuda.to_device(numbers(7, 40))
    target = cuda.to_device(np.full((7, 40), 5, np.float32))
    report = trace(halve, 1, (3, 4), whole[2:6, 8:20], target[1:5, 2:8])
    assert not errors(report)
    x, out = whole.copy_to_host(), target.copy_to_host()
    wanted = np.full((7, 40), 5, np.float32)
    wanted[1:5, 2:8] = x[2:6, 8:20:2] + x[2:6, 9:20:2]
    np.testing.assert_array_equal(out, wanted)


def test_slices_and_rows_taken_in_the_kernel():
    @cuda.jit
    def rows(x, out):
        t = cuda.threadIdx.x
        row, part = x[t], out[t, 4:12]
        store4(part, 0, load4(row, 8))
        store4(part, 4, load4(row[4:], 8))

    x, out = numbers(16, 16), np.zeros((16, 16), np.float32)
    assert not errors(trace(rows, 1, 16, x, out))
    np.testing.assert_array_equal(out[:, 4:12], x[:, 8:])


def test_shared_and_local_memory_and_several_blocks():
    @cuda.jit
    def through(x, out):
        tile = cuda.shared.array((2, 64), float32)
        mine = cuda.local.array(4, float32)
        t = cuda.threadIdx.x
        first = cuda.blockIdx.x * 128
        store4(mine, 0, load4(x, first + 4 * t))
        store2(tile, (0, 2 * t), load2(mine, 2))
        store2(tile, (1, 2 * t), load2(mine, 0))
        cuda.syncthreads()
        other = 31 - t
        a, b = load2(tile, (0, 2 * other))
        c, d = load2(tile, (1, 2 * other))
        store4(out, first + 4 * t, (a, b, c, d))

    x, out = numbers(5 * 128), np.zeros(5 * 128, np.float32)
    assert not errors(trace(through, 5, 32, x, out))
    four = x.reshape(5, 32, 4)[:, ::-1]
    np.testing.assert_array_equal(out.reshape(5, 32, 4), four[..., [2, 3, 0, 1]])


def test_only_the_threads_of_a_branch_move():
    @cuda.jit
    def odd(x, out):
        t = cuda.threadIdx.x
        if t % 3 == 1:
            store4(out, 4 * t, load4(x, 4 * t))
        elif t % 3 == 2:
            store(out, 4 * t, load(x, 4 * t + 3))

    x, out = numbers(180), np.zeros(180, np.float32)
    report = trace(odd, 1, 45, x, out)  # the last warp has 13 threads
    wanted = np.zeros((45, 4), np.float32)
    wanted[1::3], wanted[2::3, 0] = x.reshape(45, 4)[1::3], x.reshape(45, 4)[2::3, 3]
    np.testing.assert_array_equal(out.reshape(45, 4), wanted)
    assert not errors(report)
    assert report.total("global", "load").requests == 4


def test_all_threads_may_load_the_same():
    @cuda.jit
    def same(x, out):
        a, b, c, d = load4(x, 4)
        out[cuda.grid(1)] = a + b * c - d

    x, out = numbers(8), np.zeros(40, np.float32)
    report = trace(same, 1, 40, x, out)
    np.testing.assert_array_equal(out, np.full(40, x[4] + x[5] * x[6] - x[7]))
    load_ = report.total("global", "load")
    assert (load_.requests, load_.sectors, load_.bytes) == (2, 2, 40 * 16)


def test_constant_arrays_can_be_loaded():
    table = np.arange(8, dtype=np.float32)

    @cuda.jit
    def look_up(out):
        constants = cuda.const.array_like(table)
        store4(out, 4 * cuda.threadIdx.x, load4(constants, 4 * (cuda.threadIdx.x % 2)))

    out = np.zeros(128, np.float32)
    assert not errors(trace(look_up, 1, 32, out))
    np.testing.assert_array_equal(out, np.tile(table, 16))


def test_instructions_are_named_as_they_are_called():
    @cuda.jit(device=True)
    def through(read, write, x, out, i):
        write(out, i, read(x, i))

    @cuda.jit
    def passed(x, out):
        i = 2 * (cuda.threadIdx.x % 32)
        through(ptx.load2, store2, x, out, i)

    @cuda.jit
    def named(x, out):
        out[0] = load

    x, out = numbers(64), np.zeros(64, np.float32)
    assert not errors(trace(passed, 1, 32, x, out))
    np.testing.assert_array_equal(out, x)
    (race,) = trace(passed, 1, 64, x, np.zeros(64, np.float32)).findings
    assert (race.kind, race.line) == ("same-value-race", 2)
    with pytest.raises(TypingError, match=r"^load is a function: call it, load\(\.\.\.\)"):
        named[1, 1](x, out)


@pytest.mark.parametrize("seed", range(40))
def test_random_accesses_are_right_or_in_error(seed):
    """Any array, any index: what is not inside or not aligned is dropped, by itself."""
    random = np.random.default_rng(seed)
    count, threads = int(random.choice((1, 2, 4))), int(random.integers(1, 100))
    dtype = random.choice(
        (np.float32, np.int8, np.float64) if count < 4 else (np.float32, np.int16)
    )
    read, write, ndim = LOAD[count], STORE[count], int(random.integers(1, 4))
    shape = tuple(int(n) for n in random.integers(4, 14, ndim))
    whole = numbers(*shape, dtype=dtype, seed=seed)
    start = [int(random.integers(0, 4)) for _ in shape]
    steps = [int(random.integers(1, 3)) for _ in shape[:-1]] + [1]
    part = tuple(slice(a, None, s) for a, s in zip(start, steps, strict=True))
    view = whole[part]
    near = random.random() < 0.5  # mostly inside and aligned
    index = np.stack(
        [random.integers(0 if near else -3, n + 1 - near, threads) for n in view.shape]
    )
    if near:
        index[-1] -= (index[-1] + start[-1]) % count

    @cuda.jit
    def loads(x, index, out):
        t = cuda.grid(1)
        if t < index.shape[1]:
            if ndim == 1:
                write(out, t * count, read(x, index[0, t]))
            elif ndim == 2:
                write(out, t * count, read(x, (index[0, t], index[1, t])))
            else:
                write(out, t * count, read(x, (index[0, t], index[1, t], index[2, t])))

    kinds, wanted = set(), np.zeros((threads, count), dtype)
    for t, place in enumerate(index.T.tolist()):
        inside = all(0 <= i < n for i, n in zip(place, view.shape, strict=True))
        inside = inside and place[-1] + count <= view.shape[-1]
        element = np.ravel_multi_index(
            [a + i * s for a, i, s in zip(start, place, steps, strict=True)], shape, mode="wrap"
        )
        if not inside:
            kinds.add("out-of-bounds")
        elif element % count:
            kinds.add("misaligned")
        if not inside or element % count:
            wanted[t] = np.nan if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
        else:
            wanted[t] = view[(*place[:-1], slice(place[-1], place[-1] + count))]
    out = np.zeros(threads * count, dtype)
    report = trace(loads, 2, 64, cuda.to_device(whole)[part], index, out)
    np.testing.assert_array_equal(out.reshape(threads, count), wanted)
    assert {finding.kind for finding in errors(report)} == kinds


# ------------------------------------------------------------------ counts
@pytest.mark.parametrize(
    ("dtype", "count", "same_as"),
    [(np.float32, 2, np.float64), (np.int16, 4, np.int64), (np.int8, 4, np.int32)],
)
@pytest.mark.parametrize("pattern", ["rows", "columns", "broadcast", "few", "reversed"])
def test_counts_as_an_access_of_one_wide_element(dtype, count, same_as, pattern):
    """Eight bytes in two or four parts cost what one element of eight bytes costs."""
    read, write = LOAD[count], STORE[count]

    @cuda.jit
    def by_parts(x, out, places):
        tile = cuda.shared.array(size, part)
        t = cuda.grid(1)
        if places[t] >= 0:
            i = places[t] * count
            values = read(x, i)
            write(tile, i, values)
            write(out, i, read(tile, i))

    @cuda.jit
    def whole(x, out, places):
        tile = cuda.shared.array(2048, one)
        t = cuda.grid(1)
        if places[t] >= 0:
            i = places[t]
            tile[i] = x[i]
            out[i] = tile[i]

    part, one, size = from_dtype(np.dtype(dtype)), from_dtype(np.dtype(same_as)), 2048 * count
    t = np.arange(96)
    places = {
        "rows": t, "columns": t * 17 % 2048, "broadcast": t // 8,
        "few": np.where(t % 5 == 0, 3 * t, -1), "reversed": 95 - t,
    }[pattern]  # fmt: skip
    x = numbers(size, dtype=dtype)
    wide = numbers(2048, dtype=same_as)
    first = trace(by_parts, 3, 32, x, np.zeros_like(x), places)
    second = trace(whole, 3, 32, wide, np.zeros_like(wide), places)
    assert first.unique_bytes == second.unique_bytes
    for space in ("global", "shared"):
        for op in ("load", "store"):
            assert first.total(space, op) == second.total(space, op)


def test_counts_of_sixteen_bytes_a_lane():
    """As an H200 counts float4: 512 bytes a warp are 16 sectors, and 4 wavefronts."""

    @cuda.jit
    def move(x, out, step):
        tile = cuda.shared.array(4096, float32)
        t = cuda.threadIdx.x
        store4(tile, 4 * t * step, load4(x, 4 * t * step))
        store4(out, 4 * t, load4(tile, 4 * t * step))

    x, out = numbers(4096), np.zeros(1024, np.float32)
    report = trace(move, 1, 64, x, out, 1)
    for op in ("load", "store"):
        total, shared = report.total("global", op), report.total("shared", op)
        assert (total.requests, total.sectors, total.ideal_sectors) == (2, 32, 32)
        assert (total.bytes, total.lanes, shared.bytes, shared.lanes) == (1024, 64, 1024, 64)
        assert (shared.requests, shared.wavefronts, shared.conflicts) == (2, 8, 0)
    assert report.unique_bytes == 2 * 1024
    assert not report.findings
    spread = trace(move, 1, 64, x, out, 8)  # each lane 128 bytes from the next: one bank for all
    total, shared = spread.total("global", "load"), spread.total("shared", "load")
    assert (total.sectors, total.ideal_sectors) == (64, 32)
    assert (shared.wavefronts, shared.conflicts) == (2 * 32, 2 * 28)
    kinds = {(finding.kind, finding.line) for finding in spread.findings}
    assert kinds == {("uncoalesced", 4), ("bank-conflict", 4), ("bank-conflict", 5)}
    lines = spread.lines
    assert list(lines[lines.line == 4].array) == ["x", "tile"]


def test_a_copy_counts_as_a_load_and_a_store():
    @cuda.jit
    def begin(x):
        tile = cuda.shared.array((2, 256), float32)
        t = cuda.threadIdx.x
        copy4_async(tile, (0, 4 * t), x, 4 * t)
        copy_async(tile, (1, t), x, t)

    report = trace(begin, 1, 64, numbers(256), gpu="A100")
    load_, store_ = report.total("global", "load"), report.total("shared", "store")
    assert (load_.requests, load_.sectors, load_.bytes) == (4, 32 + 8, 64 * 20)
    assert (store_.requests, store_.wavefronts, store_.bytes) == (4, 8 + 2, 64 * 20)
    assert report.unique_bytes == 1024


# ------------------------------------------------------------------ findings
def bad(kernel, *arguments, block=32):
    """The error of a trace, which a plain launch raises, too; what was stored in the trace."""
    copies = [np.copy(argument) for argument in arguments]
    with pytest.raises(KernelError) as raised:
        kernel[1, block](*copies)
    for copy, argument in zip(copies, arguments, strict=True):
        np.testing.assert_array_equal(copy, argument)
    report = trace(kernel, 1, block, *arguments)
    finding = only(report, raised.value.finding.kind)
    assert finding == raised.value.finding
    assert "negative-index" not in {one.kind for one in report.findings}
    return finding


def test_the_last_elements_of_an_access_are_inside_too():
    @cuda.jit
    def move(x, out):
        i = 4 * cuda.threadIdx.x
        if i < x.size:
            store4(out, i, load4(x, i))

    x, out = numbers(50), np.zeros(128, np.float32)
    finding = bad(move, x, out)
    assert (finding.kind, finding.line, finding.where.thread) == ("out-of-bounds", 4, (12, 0, 0))
    assert finding.code == "load4(x, i)"
    assert "reads 4 elements from x[48] on, but x has size 50" in finding.message
    assert "`if i + 3 < x.size:`" in finding.message
    np.testing.assert_array_equal(out[:48], x[:48])
    assert np.isnan(out[48:52]).all() and (out[52:] == 0).all()


def test_what_is_stored_outside_is_dropped_as_a_whole():
    @cuda.jit
    def fill(out):
        i = 2 * cuda.threadIdx.x
        store2(out, (0, i), (float32(1), float32(2)))

    out = np.zeros((2, 7), np.float32)
    finding = bad(fill, out)
    assert finding.kind == "out-of-bounds" and finding.where.thread == (3, 0, 0)
    assert "writes 2 elements from out[0, 6] on, but axis 1 of out has size 7" in finding.message
    assert "(29 threads in all)" in finding.message
    np.testing.assert_array_equal(out, [[1, 2] * 3 + [0], [0] * 7])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_no_index_counts_from_the_end(count):
    read, write = LOAD[count], STORE[count]

    @cuda.jit
    def before(x, out):
        i = (cuda.threadIdx.x - 1) * count
        write(out, i + count, read(x, i))

    @cuda.jit
    def into(x, out):
        i = (cuda.threadIdx.x - 1) * count
        write(out, i, read(x, i + count))

    x, out = numbers(32 * count), np.zeros(32 * count, np.float32)
    finding = bad(before, x, out)
    assert (finding.kind, finding.where.thread) == ("out-of-bounds", (0, 0, 0))
    for words in (f"x[{-count}]", "counts none from the end", "`if i >= 0:`"):
        assert words in finding.message
    assert np.isnan(out[:count]).all()
    np.testing.assert_array_equal(out[count:], x[:-count])
    out = np.zeros(32 * count, np.float32)
    assert bad(into, x, out).message.startswith("writes ")
    np.testing.assert_array_equal(out, np.r_[x[count:], np.zeros(count, np.float32)])


def test_an_index_all_threads_share_may_be_outside():
    @cuda.jit
    def last(x, out, i):
        a, b = load2(x, i)
        out[cuda.threadIdx.x] = a + b
        store2(x, i, (a, b))

    for i in (-2, 6, 7, 8, 1 << 40):
        out = np.zeros(32, np.float32)
        report = trace(last, 1, 32, numbers(7), out, i)
        assert [finding.kind for finding in errors(report)] == ["out-of-bounds"] * 2
        assert np.isnan(out).all()


def test_an_empty_array_has_no_elements():
    @cuda.jit
    def first(x, out, i):
        a, b, c, d = load4(x, 4 * cuda.threadIdx.x)
        e, f = load2(x, i)
        out[cuda.threadIdx.x] = a + e

    out = np.zeros(32, np.float32)
    report = trace(first, 1, 32, np.zeros(0, np.float32), out, 0)
    assert [finding.kind for finding in errors(report)] == ["out-of-bounds"] * 2
    assert np.isnan(out).all()


def test_idle_threads_may_have_any_index():
    @cuda.jit
    def guarded(x, out):
        i = 4 * (cuda.threadIdx.x - 8)
        j = i + 1 if cuda.threadIdx.x > 20 else i
        if 0 <= i and i + 3 < x.size and j == i:
            store4(out, i, load4(x, j))

    x, out = numbers(61), np.zeros(61, np.float32)
    assert not errors(trace(guarded, 1, 64, x, out))
    np.testing.assert_array_equal(out[:52], x[:52])
    assert not out[52:].any()


def test_an_index_that_is_no_multiple_is_misaligned():
    @cuda.jit
    def shifted(x, out):
        t = cuda.threadIdx.x
        i = 4 * t if t < 9 else 4 * t + 2
        if i + 3 < x.size:
            store4(out, 4 * t, load4(x, i))

    x, out = numbers(128), np.zeros(128, np.float32)
    finding = bad(shifted, x, out)
    assert (finding.kind, finding.line, finding.where.thread) == ("misaligned", 5, (9, 0, 0))
    assert finding.message.startswith("reads 4 elements from x[38] on, an access of 16 bytes whose")
    assert "let the last index be a multiple of 4" in finding.message
    np.testing.assert_array_equal(out[:36], x[:36])
    assert np.isnan(out[36:124]).all()


def test_rows_that_are_no_multiple_are_misaligned():
    @cuda.jit
    def rows(x, out):
        y, i = cuda.threadIdx.y, 2 * cuda.threadIdx.x
        store2(out, (y, i), load2(x, (y, i)))

    @cuda.jit
    def padded(x, out):
        tile = cuda.shared.array((4, 33), float32)
        y, i = cuda.threadIdx.y, 4 * cuda.threadIdx.x
        store4(tile, (y, i), load4(x, (y, i)))
        cuda.syncthreads()
        store4(out, (y, i), load4(tile, (y, i)))

    x = numbers(4, 9)
    finding = bad(rows, x, np.zeros((4, 8), np.float32), block=(4, 4))
    assert (finding.kind, finding.where.thread) == ("misaligned", (0, 1, 0))
    for words in ("x[1, 0]", "a row of x has 9 elements", "multiples of 2 elements"):
        assert words in finding.message
    report = trace(padded, 1, (8, 4), numbers(4, 32), np.zeros((4, 32), np.float32))
    assert [(f.kind, f.line, f.code) for f in errors(report)] == [
        ("misaligned", 4, "store4(tile, (y, i), load4(x, (y, i)))"),
        ("misaligned", 6, "load4(tile, (y, i))"),
    ]


def test_a_part_that_begins_in_between_is_misaligned():
    @cuda.jit
    def move(x, out):
        i = 4 * cuda.threadIdx.x
        store4(out, i, load4(x, i))

    out = cuda.to_device(np.zeros(128, np.float32))
    whole = cuda.to_device(numbers(200))
    for start in (4, 8, 72):
        assert not errors(trace(move, 1, 32, whole[start:], out))
        np.testing.assert_array_equal(out.copy_to_host(), numbers(200)[start : start + 128])
    for start in (1, 2, 3, 41):
        finding = only(
            trace(move, 1, 32, whole[start:], out), "misaligned", 3, [f"its byte {4 * start}"]
        )
        assert finding.where.thread == (0, 0, 0)


def test_shared_arrays_after_odd_ones_are_misaligned():
    @cuda.jit
    def behind(out):
        flags = cuda.shared.array(3, int32)
        tile = cuda.shared.array(128, float32)
        i = 4 * cuda.threadIdx.x
        flags[0] = 1
        store4(tile, i, (float32(1), float32(2), float32(3), float32(4)))

    report = trace(behind, 1, 32, np.zeros(1, np.float32))
    only(report, "misaligned", 6, ["tile begins at byte 12 of shared memory"])


def test_the_last_axis_must_be_contiguous():
    first = written("out[cuda.threadIdx.x] = load(x, (cuda.threadIdx.x, 0))", "x, out")
    turned = written("out[cuda.threadIdx.x] = load(x.T, (0, cuda.threadIdx.x))", "x, out")
    second = written("out[cuda.threadIdx.x] = load(x[:, ::2], (0, 1))", "x, out")
    out = np.zeros(8, np.float32)
    for kernel, x in ((first, np.asfortranarray(numbers(8, 8))), (turned, numbers(8, 8))):
        with pytest.raises(TypingError, match="contiguous, not one in Fortran's order"):
            trace(kernel, 1, 8, x, out)
    with pytest.raises(TypingError, match="line 2: neighbours .* lie 8 bytes apart"):
        second[1, 8](numbers(8, 8), out)
    trace(first, 1, 8, cuda.to_device(numbers(8, 8))[:, 3:4], out)  # one column: no neighbours
    np.testing.assert_array_equal(out, numbers(8, 8)[:, 3])


def test_stores_through_instructions_are_watched_for_races():
    @cuda.jit
    def same(out):
        store(out, cuda.threadIdx.x // 2, float32(cuda.threadIdx.x))

    @cuda.jit
    def overlapping(out):
        i = 4 * (cuda.grid(1) // 2)
        value = float32(cuda.grid(1))
        store4(out, i, (value, value, value, value))

    @cuda.jit(device=True)
    def write(target, i, value):
        store2(target, i, (value, value))

    @cuda.jit
    def called(out):
        write(out, 2 * (cuda.threadIdx.x % 8), float32(cuda.threadIdx.x))

    only(trace(same, 1, 32, np.zeros(32, np.float32)), "race", 2, ["writes out["])
    only(trace(overlapping, 2, 32, np.zeros(128, np.float32)), "race", 4, ["writes out["])
    only(trace(called, 1, 32, np.zeros(64, np.float32)), "race", 2, ["[in write]"])


def test_wide_accesses_without_a_barrier_race():
    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array(256, float32)
        t = cuda.threadIdx.x
        store4(tile, 4 * t, load4(x, 4 * t))
        store4(out, 4 * t, load4(tile, 4 * (63 - t)))

    only(
        trace(kernel, 1, 64, numbers(256), np.zeros(256, np.float32)),
        "race", 5, ["reads tile[", "cuda.syncthreads()"],
    )  # fmt: skip


# ------------------------------------------------------------------ unwritten memory
def test_a_wide_load_of_the_unwritten_that_is_stored():
    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array(128, float32)
        t = cuda.threadIdx.x
        store2(tile, 4 * t, load2(x, 2 * t))
        a, b, c, d = load4(tile, 4 * t)
        out[t] = a + b + d

    finding = only(
        trace(kernel, 1, 32, numbers(64), np.zeros(32, np.float32)), "uninitialised-read", 5
    )
    assert finding.code == "load4(tile, 4 * t)"


def test_a_wide_load_of_padding_that_is_thrown_away():
    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array(128, float32)
        mine = cuda.local.array(4, float32)
        t = cuda.threadIdx.x
        store2(tile, 4 * t, load2(x, 2 * t))
        store4(mine, 0, load4(tile, 4 * t))
        store2(out, 2 * t, load2(mine, 0))

    x, out = numbers(64), np.zeros(64, np.float32)
    assert not errors(trace(kernel, 1, 32, x, out))
    np.testing.assert_array_equal(out, x)


def test_of_two_loads_of_the_unwritten_the_one_that_matters_is_found():
    @cuda.jit
    def kernel(x, out):
        tile = cuda.shared.array(128, float32)
        t = cuda.threadIdx.x
        tile[4 * t] = x[t]
        a, b = load2(tile, 4 * t)
        c, d = load2(tile, 4 * t)
        store2(out, 2 * t, (a + c, d))

    report = trace(kernel, 1, 32, numbers(32), np.zeros(64, np.float32))
    only(report, "uninitialised-read", 6, ["reads tile[1]"])


def test_what_was_copied_is_written():
    @cuda.jit
    def kernel(x, out, n):
        tile = cuda.shared.array(128, float32)
        t = cuda.threadIdx.x
        if 4 * t < n:
            copy4_async(tile, 4 * t, x, 4 * t)
        commit_copies()
        wait_copies(0)
        a, b, c, d = load4(tile, 4 * t)
        store4(out, 4 * t, (a, b, c, d))

    out = np.zeros(128, np.float32)
    assert not errors(trace(kernel, 1, 32, numbers(128), out, 128, gpu="A100"))
    np.testing.assert_array_equal(out, numbers(128))
    report = trace(kernel, 1, 32, numbers(128), out, 60, gpu="A100")
    finding = only(report, "uninitialised-read", 8, ["reads tile[60]", "stored in out in line 9"])
    assert finding.where.thread == (15, 0, 0)


@pytest.mark.parametrize("rows", [16, 10])
def test_rows_of_a_product_that_are_thrown_away(rows):
    """A tile of 16 rows holds 10; the others' results are not stored, or are."""

    @cuda.jit
    def kernel(a, b, out):
        tile = cuda.shared.array((16, 8), float32)
        lane = cuda.threadIdx.x
        g, q = lane // 4, lane % 4
        for i in range(lane, 80, 32):
            tile[i // 8, i % 8] = a[i]
        cuda.syncthreads()
        zero = float32(0)
        left = (tile[g, q], tile[g + 8, q], tile[g, q + 4], tile[g + 8, q + 4])
        c = mma_tf32((zero, zero, zero, zero), left, (b[q, g], b[q + 4, g]))
        store2(out, (g, 2 * q), (c[0], c[1]))
        if g + 8 < out.shape[0]:
            store2(out, (g + 8, 2 * q), (c[2], c[3]))

    a, b, out = numbers(80), numbers(8, 8), np.zeros((rows, 8), np.float32)
    report = trace(kernel, 1, 32, a, b, out, gpu="A100")
    np.testing.assert_allclose(out[:10], a.reshape(10, 8) @ b, rtol=0, atol=1e-2)
    found = {(finding.kind, finding.line) for finding in errors(report)}
    assert found == (set() if rows == 10 else {("uninitialised-read", 9)})


def test_arrays_that_only_instructions_change_start_again_from_their_inputs():
    """Another run of the launch must not find what this one stored."""

    @cuda.jit
    def kernel(out):
        tile = cuda.shared.array(128, float32)
        t = cuda.threadIdx.x
        tile[4 * t] = float32(1)
        a, b, c, d = load4(tile, 4 * t)
        store(out, t, load(out, t) + a)

    out = np.zeros(32, np.float32)
    assert not errors(trace(kernel, 1, 32, out))
    assert (out == 1).all()


# ------------------------------------------------------------------ asynchronous copies
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


# ------------------------------------------------------------------ tensor cores
def fragments(lane):
    """Rows and columns of each lane's numbers, as the PTX ISA lists them.

    Source: PTX ISA 8.7, 9.7.14.5, figures of m16n8k8 (.f16, .tf32) and m16n8k16 (.f16).
    """
    group, inside = lane // 4, lane % 4
    c = [(group + (8 if i >= 2 else 0), inside * 2 + (i & 1)) for i in range(4)]
    a16 = [
        (group + (8 if i // 2 % 2 else 0), inside * 2 + (i & 1) + (8 if i >= 4 else 0))
        for i in range(8)
    ]
    b16 = [(inside * 2 + (i & 1) + (8 if i >= 2 else 0), group) for i in range(4)]
    a32 = [(group + (8 if i in (1, 3) else 0), inside + (4 if i >= 2 else 0)) for i in range(4)]
    b32 = [(inside + 4 * i, group) for i in range(2)]
    return c, a16, b16, a32, b32


@cuda.jit
def float16_k16(a, b, c, out):
    t = cuda.threadIdx.x
    left = (a[t, 0], a[t, 1], a[t, 2], a[t, 3])
    total = (c[t, 0], c[t, 1], c[t, 2], c[t, 3])
    store4(out, (t, 0), mma_f16(total, left, (b[t, 0], b[t, 1])))


@cuda.jit
def float16_k8(a, b, c, out):
    t = cuda.threadIdx.x
    total = (c[t, 0], c[t, 1], c[t, 2], c[t, 3])
    store4(out, (t, 0), mma_f16_k8(total, (a[t, 0], a[t, 1]), b[t, 0]))


@cuda.jit
def tf32(a, b, c, out):
    t = cuda.threadIdx.x
    left = (a[t, 0], a[t, 1], a[t, 2], a[t, 3])
    total = (c[t, 0], c[t, 1], c[t, 2], c[t, 3])
    store4(out, (t, 0), mma_tf32(total, left, (b[t, 0], b[t, 1])))


@pytest.mark.parametrize(
    ("kernel", "depth", "gpu"),
    [(float16_k16, 16, "A100"), (float16_k8, 8, None), (tf32, 8, "H200")],
)
def test_products_of_a_warp_are_matrix_products(kernel, depth, gpu):
    warps, half = 3, kernel is not tf32
    a, b, c = numbers(warps, 16, depth), numbers(warps, depth, 8), numbers(warps, 16, 8)
    if half:
        a, b = a.astype(np.float16), b.astype(np.float16)
    parts = []
    for lane in range(32):
        in_c, in_a16, in_b16, in_a32, in_b32 = fragments(lane)
        in_a, in_b = (in_a16[: depth // 2], in_b16[: depth // 4]) if half else (in_a32, in_b32)
        parts.append(
            [np.stack([m[:, i, j] for i, j in p], -1) for m, p in ((a, in_a), (b, in_b), (c, in_c))]
        )
    held = [np.stack([part[i] for part in parts], 1).reshape(warps * 32, -1) for i in range(3)]
    if half:
        held[:2] = [np.ascontiguousarray(one).view(np.uint32) for one in held[:2]]
    out = np.zeros((warps * 32, 4), np.float32)
    report = trace(kernel, 1, warps * 32, *held, out, gpu=gpu)
    assert not errors(report)
    result = np.zeros((warps, 16, 8))
    for lane in range(32):
        for e, (i, j) in enumerate(fragments(lane)[0]):
            result[:, i, j] = out.reshape(warps, 32, 4)[:, lane, e]
    wanted = a.astype(np.float64) @ b.astype(np.float64) + c
    # float16 is taken exactly, float32 cut to 10 bits of fraction; sums are in float32
    tolerance = 2e-6 if half else 2.0**-10 * 2 * 4 * depth
    np.testing.assert_allclose(result, wanted, rtol=0, atol=tolerance)
    assert half or np.abs(result - wanted).max() > 1e-4
    assert report.operations["tensor"] == warps * 2 * 16 * 8 * depth


def test_operations_of_tensor_cores_are_listed_where_there_are_any():
    report = trace(mover(1), 1, 32, numbers(32), np.zeros(32, np.float32), 32)
    assert "tensor" not in report.operations


def test_tf32_is_cut_to_ten_bits_by_tensor_cores():
    @cuda.jit
    def cut(x, out):
        """Lane 0's first number of a, times 1 at row 0 of column 0."""
        t = cuda.threadIdx.x
        zero = float32(0)
        one = float32(1) if t == 0 else zero
        value = x[0] if t == 0 else zero
        c = mma_tf32((zero, zero, zero, zero), (value, zero, zero, zero), (one, zero))
        if t == 0:
            out[0] = c[0]

    cases = {
        1 + 2.0**-10: 1 + 2.0**-10, 1 + 2.0**-11: 1.0, -1 - 3 * 2.0**-11: -1 - 2.0**-10,
        2 - 2.0**-23: 2 - 2.0**-10, 0.0: 0.0,
    }  # fmt: skip
    for value, wanted in cases.items():
        out = np.zeros(1, np.float32)
        trace(cut, 1, 32, np.array([value], np.float32), out, gpu="A100")
        assert out[0] == np.float32(wanted), value
    for value in (np.inf, -np.inf, np.nan):
        out = np.zeros(1, np.float32)
        trace(cut, 1, 32, np.array([value], np.float32), out, gpu="A100")
        np.testing.assert_array_equal(out, np.float32(value))


def test_tf32_keeps_ten_bits_and_rounds_ties_away_from_zero():
    @cuda.jit
    def rounded(x, out):
        out[cuda.threadIdx.x] = round_tf32(x[cuda.threadIdx.x])

    cases = {
        1 + 2.0**-10: 1 + 2.0**-10, 1 + 2.0**-11: 1 + 2.0**-10, -1 - 2.0**-11: -1 - 2.0**-10,
        1 + 2.0**-11 - 2.0**-23: 1.0, 1 + 3 * 2.0**-11: 1 + 2.0**-9, 2 - 2.0**-23: 2.0, 0.0: 0.0,
        1e30: float(np.float32(1e30).view(np.uint32) + 0x1000 & 0xFFFFE000),
    }  # fmt: skip
    cases[1e30] = float(np.array([int(cases[1e30])], np.uint32).view(np.float32)[0])
    special = [np.inf, -np.inf, np.nan, np.array(0x7FFFFFFF, np.uint32).view(np.float32)]
    x = np.array([*cases, *special], np.float32)
    out = np.zeros_like(x)
    trace(rounded, 1, len(x), x, out, gpu="A100")
    np.testing.assert_array_equal(out, np.array([*cases.values(), *special], np.float32))


@cuda.jit
def one_for_all(x, out):
    out[cuda.threadIdx.x] = round_tf32(x[0])


def test_tf32_of_a_number_that_all_threads_share():
    x, out = np.array([1 + 2.0**-11, 5], np.float32), np.zeros(32, np.float32)
    trace(one_for_all, 1, 32, x, out, gpu="A100")
    assert (out == np.float32(1 + 2.0**-10)).all()


def test_tf32_needs_a_gpu_that_has_it():
    with pytest.raises(TypingError, match=r"rounding to TF32 needs compute capability 8\.0"):
        trace(one_for_all, 1, 32, numbers(2), numbers(32), gpu="T4")


@cuda.jit
def split(x, out):
    t = cuda.grid(1)
    upper, lower = split_halves(load(x, 2 * t), load(x, 2 * t + 1))
    store2(out, (t, 0), (upper, lower))


def test_split_halves_keep_22_bits():
    random = np.random.default_rng(3)
    size = np.exp2(random.uniform(-2, 15.99, 4096))
    x = (random.choice((-1, 1), 4096) * size).astype(np.float32)
    out = np.zeros((2048, 2), np.uint32)
    split[16, 128](x, out)
    parts = out.view(np.float16).reshape(2048, 2, 2).astype(np.float64)  # thread, part, number
    both = parts.sum(1).reshape(-1)
    np.testing.assert_array_equal(parts[:, 0].reshape(-1), x.astype(np.float16))
    relative = np.abs(both - x) / np.abs(x)
    assert relative.max() <= 2.0**-23  # half a unit of the 22nd bit
    assert (relative > 2.0**-25).any()  # not all 24 bits


def test_split_halves_of_small_and_large_numbers():
    small = (np.random.default_rng(4).uniform(-0.25, 0.25, 256)).astype(np.float32)
    small[:128] *= np.float32(2.0**-12)
    out = np.zeros((128, 2), np.uint32)
    split[1, 128](small, out)
    both = out.view(np.float16).reshape(128, 2, 2).astype(np.float64).sum(1).reshape(-1)
    assert np.abs(both - small).max() <= 2.0**-25
    large = np.array([65504, 65519, 65520, -1e6], np.float32)
    out = np.zeros((2, 2), np.uint32)
    split[1, 2](large, out)
    upper = out.view(np.float16).reshape(2, 2, 2)[:, 0].reshape(-1)
    np.testing.assert_array_equal(upper, [65504, 65504, np.inf, -np.inf])


def test_split_halves_of_numbers_that_all_threads_share():
    @cuda.jit
    def kernel(out, x):
        upper, lower = split_halves(x, float32(0.1))
        out[0, cuda.threadIdx.x] = upper
        out[1, cuda.threadIdx.x] = lower + uint32(0)

    out = np.zeros((2, 8), np.uint32)
    kernel[1, 8](out, np.float32(1 / 3))
    x = np.array([1 / 3, 0.1], np.float32)
    upper = x.astype(np.float16)
    lower = (x - upper.astype(np.float32)).astype(np.float16)
    wanted = np.array([upper.view(np.uint32)[0], lower.view(np.uint32)[0]])
    np.testing.assert_array_equal(out, np.repeat(wanted[:, None], 8, 1))


def products_in(shape):
    @cuda.jit
    def kernel(out):
        t = cuda.threadIdx.x
        zero = float32(0)
        c = (zero, zero, zero, zero)
        if shape == 0:
            if t % 32 < 24:
                c = mma_f16_k8(c, (uint32(0), uint32(0)), uint32(0))
        elif shape == 1:
            if t >= 40:
                return
            c = mma_f16_k8(c, (uint32(0), uint32(0)), uint32(0))
        elif shape == 2:
            if t // 32 == 1:
                c = mma_f16_k8(c, (uint32(0), uint32(0)), uint32(0))
        else:
            c = mma_f16_k8(c, (uint32(0), uint32(0)), uint32(0))
        out[t] = c[0]

    return kernel


def test_a_product_needs_the_whole_warp():
    out = np.zeros(64, np.float32)
    finding = only(trace(products_in(0), 1, 64, out), "barrier-divergence", 7)
    assert finding.where.thread == (24, 0, 0)
    assert "does not make this call, but its warp does" in finding.message
    assert "outside of the branch" in finding.message
    finding = only(trace(products_in(1), 1, 64, out), "barrier-divergence", 11)
    assert finding.where.thread == (32, 0, 0)
    assert "a warp of which 8 threads are left" in finding.message
    finding = only(trace(products_in(3), 1, 50, out), "barrier-divergence", 16)
    assert "18 threads are left" in finding.message and "multiple of 32" in finding.message
    with pytest.raises(KernelError, match=r"all\s+32\s+lanes\s+together"):
        products_in(0)[1, 64](out)
    assert not errors(trace(products_in(2), 1, 96, np.zeros(96, np.float32)))
    assert not errors(trace(products_in(3), 1, 64, out))


# ------------------------------------------------------------------ the simulated GPU
def test_a_t4_refuses_what_it_has_not_and_says_who_has_it():
    copy = written(
        "tile = cuda.shared.array(32, float32)\n"
        "copy_async(tile, cuda.threadIdx.x, x, cuda.threadIdx.x)"
    )
    commit, wait = written("commit_copies()"), written("wait_copies(0)")
    zeros = [np.zeros((32, 4), kind) for kind in (np.uint32, np.uint32, np.float32, np.float32)]
    singles = [np.zeros((32, 4), np.float32) for _ in range(4)]
    words = r'compute capability 8.0, and the simulated Tesla T4 has 7.5: .*course.simulate\("'
    for kernel, what in ((copy, "cp.async"), (commit, "group"), (wait, "waiting")):
        with pytest.raises(TypingError, match=f"^line [23]: .*{what}.*{words}"):
            trace(kernel, 1, 32, numbers(32), gpu="T4")
        trace(kernel, 1, 32, numbers(32), gpu="L4")
    for kernel, arguments in ((float16_k16, zeros), (tf32, singles)):
        with pytest.raises(TypingError, match=f"^line 5: the product of tensor cores.*{words}"):
            trace(kernel, 1, 32, *arguments, gpu="T4")
        trace(kernel, 1, 32, *arguments, gpu="A100")
    trace(float16_k8, 1, 32, *zeros, gpu="T4")


# ------------------------------------------------------------------ outside a kernel
@pytest.mark.parametrize(
    "instruction",
    [getattr(ptx, name) for name in ptx.__all__ if name != "TensorMap"],
)  # fmt: skip
def test_instructions_work_only_inside_a_kernel(instruction):
    name = instruction.__name__
    with pytest.raises(TypeError, match=f"^{name} works only inside a kernel, a function dec"):
        instruction(np.zeros(4), 0)
    assert name in repr(instruction) and name in instruction.__doc__


WITHOUT_NUMBA_CUDA = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "numba_cuda" or name.startswith("numba.cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
import numpy as np
from course import cuda
from warpsim.ptx import load4, mma_f16, store4

@cuda.jit
def move(x, out):
    store4(out, 4 * cuda.grid(1), load4(x, 4 * cuda.grid(1)))

x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
move[1, 32](x, out)
assert np.array_equal(out, x)
for instruction in (load4, mma_f16):
    try:
        instruction(x, 0)
    except TypeError as error:
        print(error)
assert "numba.cuda" not in sys.modules
"""


def test_instructions_work_where_numba_cuda_is_missing(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(WITHOUT_NUMBA_CUDA)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, env=environment, timeout=120
    )
    words = "works only inside a kernel, a function decorated with @cuda.jit"
    assert done.stdout.splitlines() == [f"load4 {words}", f"mma_f16 {words}"], done.stderr
    assert done.stderr == ""
