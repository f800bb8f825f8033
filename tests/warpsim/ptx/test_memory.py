"""Vector loads and stores, simulated: results, counts, findings."""

import numpy as np
import pytest
from numba import float32, int8, int16, int32, int64, uint8, uint32, uint64
from numba.core.errors import TypingError
from numba.np.numpy_support import from_dtype

from course import trace
from tests.warpsim.ptx.kernel_parts import bad, errors, numbers, only, written
from warpsim import cuda, ptx
from warpsim.ptx import (
    commit_copies,
    copy4_async,
    copy_async,
    load,
    load2,
    load4,
    mma_tf32,
    store,
    store2,
    store4,
    wait_copies,
)

LOAD = {1: load, 2: load2, 4: load4}
STORE = {1: store, 2: store2, 4: store4}


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
