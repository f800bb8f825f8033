"""Reads of what nobody wrote are errors where the value matters, and only there."""

import inspect
import math
from copy import copy

import numpy as np
import pytest
from numba import boolean, complex64, float32, float64, from_dtype, int8, int32, types, uint8

from tests.warpsim.the_course import needs_course
from warpsim import cuda, trace
from warpsim.ptx import commit_copies, copy_async, load4, wait_copies
from warpsim.run import replay, uninitialised
from warpsim.run.replay import BASE, OTHERS, stand_ins

N = 32
EVERY = (1 << 32) - 1


def report(kernel, *arguments, grid=1, block=N):
    return trace(kernel, grid, block, *arguments)


def errors(kernel, *arguments, **configuration):
    return [f for f in report(kernel, *arguments, **configuration).findings if f.is_error]


def found(kernel, *arguments, line, code, words, thread=None, **configuration):
    """The launch has one error: an uninitialised read, on a line, told in these words."""
    (finding,) = errors(kernel, *arguments, **configuration)
    assert finding.kind == "uninitialised-read"
    assert (finding.line, finding.code) == (line, code)
    for part in words:
        assert part in finding.message
    if thread is not None:
        assert finding.where.thread == (thread, 0, 0)
    return finding


def silent(kernel, *arguments, **configuration):
    assert errors(kernel, *arguments, **configuration) == []


def zeros(kind=np.float32, n=N):
    return np.zeros(n, kind)


def numbers(n=N):
    return np.random.default_rng(0).normal(size=n).astype(np.float32)


def finds(line, code, *words, thread=None, **given):
    """A test that a kernel has this one error; `out` and `x` are zeros and numbers if not given."""

    def test_of(kernel):
        def test():
            values = _values(kernel, given)
            found(cuda.jit(kernel), *values, line=line, code=code, words=words, thread=thread)

        return test

    return test_of


def passes(**given):
    """A test that a kernel has no error."""

    def made(kernel):
        def test():
            silent(cuda.jit(kernel), *_values(kernel, given))

        return test

    return made


def _values(kernel, given):
    usual = {"out": zeros(), "x": numbers()} | given
    return [copy(usual[name]) for name in inspect.signature(kernel).parameters]


@cuda.jit(device=True)
def doubled(x):
    return x + x


@cuda.jit(device=True)
def first_of(array):
    return array[0]


# ---------------------------------------------------------------------- wrong programs
@finds(
    5, "total[0] += x[(t + i) % 32]", "reads total[0]", "no thread has written", "local memory",
    "stored in out in line 6", "set it first", thread=0,
)  # fmt: skip
def test_a_local_accumulator_that_is_never_set(out, x):
    total = cuda.local.array(1, float32)
    t = cuda.threadIdx.x
    for i in range(4):
        total[0] += x[(t + i) % 32]
    out[t] = total[0]


def test_an_element_of_shared_memory_missing_from_a_sum():
    @cuda.jit
    def kernel(out, x):
        tile = cuda.shared.array(34, float32)
        t = cuda.threadIdx.x
        tile[t] = x[t]
        cuda.syncthreads()
        out[t] = tile[t] + tile[t + 1] + tile[t + 2]

    (*_, last) = errors(kernel, zeros(), numbers())
    assert {f.code for f in errors(kernel, zeros(), numbers())} == {"tile[t + 1]", "tile[t + 2]"}
    assert "reads tile[32]" in last.message and "is stored in out; set it" in last.message


def test_a_variable_set_only_under_an_if_and_stored():
    @cuda.jit
    def kernel(out, x, n):
        t = cuda.threadIdx.x
        if t < n:
            value = x[t]
        out[t] = value

    for n, thread in ((7, 7), (0, 0)):
        found(
            kernel, zeros(), numbers(), n, line=5, code="value", thread=thread,
            words=["reads value", "never set it: only line 4 does", "stored in out", "give value"],
        )  # fmt: skip
    silent(kernel, zeros(), numbers(), N)


@finds(5, "place", "chooses the element of x", thread=31, n=31)
def test_a_variable_set_only_under_an_if_and_used_as_an_index(out, x, n):
    t = cuda.threadIdx.x
    if t < n:
        place = t
    out[t] = x[place]


@pytest.mark.parametrize("kind", [float32, int32, uint8, boolean], ids=str)
def test_a_variable_set_only_under_an_if_and_used_as_a_condition(kind):
    @cuda.jit
    def kernel(out, n):
        t = cuda.threadIdx.x
        if t < n:
            flag = kind(1)
        if flag:
            out[t] = 1

    found(kernel, zeros(), 8, line=5, code="flag", words=["decides the `if`"], thread=8)


@pytest.mark.parametrize("wanted", [-5, 0, 1, 7], ids=str)
def test_a_flag_in_shared_memory_that_is_compared_with_a_number(wanted):
    @cuda.jit
    def less(out):
        flag = cuda.shared.array(1, int32)
        if flag[0] < wanted:
            out[0] = 1

    found(less, zeros(), line=3, code="flag[0]", words=["decides the `if`"])


@pytest.mark.parametrize("wanted", [0, 1, 7])
def test_a_flag_in_shared_memory_that_is_compared_for_equality(wanted):
    @cuda.jit
    def equal(out):
        flag = cuda.shared.array(1, int32)
        if flag[0] == wanted:
            out[0] = 1

    found(equal, zeros(), line=3, code="flag[0]", words=["decides the `if`"])


@finds(4, "count[0]", "decides how often the loop runs")
def test_a_bound_of_a_loop_bound(out):
    count = cuda.local.array(1, int32)
    total = float32(0)
    for i in range(count[0]):
        total += i
    out[cuda.threadIdx.x] = total


@finds(4, "count[0]", "decides how long the loop runs")
def test_a_bound_of_a_loop_counter(out):
    count = cuda.local.array(1, int32)
    i = 0
    while i < count[0]:
        i += 1
    out[cuda.threadIdx.x] = i


@finds(8, "first[31 - t]", "reads first[0]", "stored in out in line 10", thread=31)
def test_through_another_shared_array(out, x):
    first = cuda.shared.array(32, float32)
    second = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    if t > 0:
        first[t] = x[t]
    cuda.syncthreads()
    second[t] = first[31 - t]
    cuda.syncthreads()
    out[t] = second[t]


def test_through_a_device_function():
    @cuda.jit
    def outside(out):
        value = cuda.local.array(1, float32)
        out[cuda.threadIdx.x] = doubled(value[0])

    @cuda.jit
    def inside(out):
        value = cuda.local.array(1, float32)
        out[cuda.threadIdx.x] = first_of(value)

    found(outside, zeros(), line=3, code="value[0]", words=["stored in out; set"])
    found(inside, zeros(), line=2, code="array[0]", words=["[in first_of]", "of inside"])


def test_a_variable_of_a_device_function():
    @cuda.jit(device=True)
    def sign(x):
        if x > 0:
            result = 1
        if x < 0:
            result = -1
        return result

    @cuda.jit
    def kernel(out, x):
        out[cuda.threadIdx.x] = sign(x[cuda.threadIdx.x])

    x = numbers()
    silent(kernel, zeros(), x)
    x[[5, 9]] = 0
    found(
        kernel, zeros(), x, line=6, code="result", thread=5,
        words=["lines 3 and 5 do", "[in sign]", "stored in out in line 2 of kernel"],
    )  # fmt: skip


@finds(3, "value[0]", "goes into an atomic on out")
def test_through_an_atomic_global_counter(out):
    value = cuda.local.array(1, float32)
    cuda.atomic.add(out, 0, value[0])


@finds(
    4, "cuda.atomic.add(bins, t % 4, 1)", "reads bins[0]", "stored in out in line 7",
    out=zeros(np.int32),
)  # fmt: skip
def test_through_an_atomic_shared_counter(out):
    bins = cuda.shared.array(4, int32)
    t = cuda.threadIdx.x
    cuda.atomic.add(bins, t % 4, 1)
    cuda.syncthreads()
    if t < 4:
        out[t] = bins[t]


@finds(
    3, "cuda.atomic.add(counter, 0, 1)", "reads counter[0]", "chooses the element of out in line 4",
    out=zeros(np.int32),
)  # fmt: skip
def test_the_old_value_of_an_atomic(out):
    counter = cuda.shared.array(1, int32)
    place = cuda.atomic.add(counter, 0, 1)
    out[place % 32] = cuda.threadIdx.x


@finds(5, "value", "stored in out", thread=31)
def test_through_a_shuffle(out, x):
    t = cuda.threadIdx.x
    if t < 31:
        value = x[t]
    out[t] = cuda.shfl_down_sync(EVERY, value, 1)


@pytest.mark.parametrize("vote", ["ballot_sync", "any_sync", "all_sync"])
def test_through_a_vote(vote):
    ask, usual = getattr(cuda, vote), int(vote == "all_sync")

    @cuda.jit
    def kernel(out, x):
        t = cuda.threadIdx.x
        seen = cuda.local.array(1, int32)
        if t != 3:
            seen[0] = usual
        out[t] = ask(EVERY, seen[0] != 0)

    found(kernel, zeros(np.int32), numbers(), line=6, code="seen[0]", words=["stored in out"])


@finds(5, "yes", "stored in out", out=zeros(np.int32))
def test_through_a_barrier_that_counts(out):
    t = cuda.threadIdx.x
    if t > 3:
        yes = t % 2
    out[t] = cuda.syncthreads_count(yes)


@finds(4, "value[0]", "stored in out")
def test_a_store_that_a_later_one_covers(out):
    value = cuda.local.array(1, float32)
    t = cuda.threadIdx.x
    out[t] = value[0]
    out[t] = 1


@finds(5, "a[1]", "reads a[1]", "line 6")
def test_only_the_places_that_matter_are_named(out):
    a = cuda.local.array(2, float32)
    t = cuda.threadIdx.x
    unused = doubled(a[0])
    used = a[1]
    out[t] = used if t < 32 else unused


def test_places_that_matter_only_together_are_named():
    @cuda.jit
    def kernel(out):
        a = cuda.local.array(1, float32)
        b = cuda.local.array(1, float32)
        out[cuda.threadIdx.x] = a[0] * b[0]

    assert {f.code for f in errors(kernel, zeros())} == {"a[0]", "b[0]"}


@pytest.mark.parametrize(
    "kind", [boolean, int8, int32, uint8, types.float16, float32, float64, complex64], ids=str
)
def test_every_type_of_element(kind):
    @cuda.jit
    def kernel(out):
        tile = cuda.shared.array(64, kind)
        t = cuda.threadIdx.x
        out[t] = tile[t + 1]

    name = {"boolean": "bool", "bool": "bool"}.get(str(kind), str(kind))
    found(kernel, zeros(name), line=4, code="tile[t + 1]", words=["reads tile[1]", "out"])


PAIR = np.dtype([("a", np.float32), ("b", np.int32, (3,))], align=True)
PAIR_TYPE = from_dtype(PAIR)


@pytest.mark.parametrize("space", ["shared", "local"])
def test_a_field_of_a_record(space):
    array = getattr(cuda, space).array

    @cuda.jit
    def kernel(out):
        tile = array(32, PAIR_TYPE)
        t = cuda.threadIdx.x
        tile[t].a = 1
        tile[t].b[1] = 1
        cuda.syncthreads()
        out[t] = tile[t].a + tile[t].b[1]
        out[t] = tile[t].b[2]

    (finding,) = errors(kernel, zeros())
    assert finding.code == "tile[t].b[2]"
    assert "is stored in out" in finding.message


def test_a_device_array_from_outside_the_kernel():
    results = cuda.to_device(np.zeros(N, np.float32))

    @cuda.jit
    def wrong(out):
        value = cuda.local.array(1, float32)
        results[cuda.threadIdx.x] = value[0]

    @cuda.jit
    def right(out):
        value = cuda.local.array(1, float32)
        unused = value[0]
        results[cuda.threadIdx.x] += 1 if cuda.threadIdx.x >= 0 else unused

    found(wrong, zeros(), line=3, code="value[0]", words=["stored in results"])
    silent(right, zeros())
    assert np.array_equal(results.copy_to_host(), np.ones(N))


def test_a_dynamic_array_and_several_blocks_and_a_partial_one():
    @cuda.jit
    def kernel(out, x):
        part = cuda.shared.array(0, float32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        if i < x.size:
            part[t] = x[i]
        cuda.syncthreads()
        if i < x.size:
            out[i] = part[cuda.blockDim.x - 1 - t]

    x = numbers(70)
    launch = trace(kernel, 3, 32, zeros(n=70), x, dynamic_shared=128)
    (finding,) = [f for f in launch.findings if f.is_error]
    assert finding.where.block == (2, 0, 0)
    launch = trace(kernel, 3, 32, zeros(n=96), numbers(96), dynamic_shared=128)
    assert not [f for f in launch.findings if f.is_error]


def test_a_local_array_in_a_loop_keeps_what_earlier_passes_stored():
    """The launch runs again for what is read without need, and must not find more in the loop."""

    def right(out, x):
        i = cuda.grid(1)
        unused = cuda.local.array(1, float32)
        for n in range(3):
            kept = cuda.local.array(2, float32)
            if n == 0:
                kept[0] = x[i]
                kept[1] = unused[0]
            out[i] = kept[0]

    silent(right, zeros(), numbers())


@pytest.mark.parametrize("blocks", [1, 3])
def test_dynamic_arrays_are_the_same_memory(blocks):
    """CUDA: all dynamic shared arrays of a kernel begin at one address."""

    @cuda.jit
    def kernel(out):
        t = cuda.threadIdx.x
        whole = cuda.shared.array(0, float32)
        again = cuda.shared.array(0, float32)
        words = cuda.shared.array(0, int32)
        wide = cuda.shared.array(0, float64)
        whole[t] = t + cuda.blockIdx.x
        cuda.syncthreads()
        out[cuda.grid(1), 0] = again[t]
        out[cuda.grid(1), 1] = words[t]
        out[cuda.grid(1), 2] = wide.size

    def wanted(n):
        own = np.float32(np.arange(n) % 31 + np.arange(n) // 31)
        return np.stack([own, own.view(np.int32), np.full(n, 15)], axis=1)

    out = np.zeros((31 * blocks, 3))
    kernel[blocks, 31, 0, 124](out)
    np.testing.assert_array_equal(out, wanted(len(out)))
    out[:] = 0
    assert not [
        f for f in trace(kernel, blocks, 31, out, dynamic_shared=124).findings if f.is_error
    ]
    np.testing.assert_array_equal(out, wanted(len(out)))


def test_a_variable_set_only_in_a_loop():
    @cuda.jit
    def kernel(out, x, n):
        t = cuda.threadIdx.x
        for i in range(n):
            if x[i] > 0:
                last = i
        out[t] = last

    x = np.abs(numbers()) + 1
    silent(kernel, zeros(), x, 3)
    found(kernel, zeros(), x, 0, line=6, code="last", words=["line 5"])
    found(kernel, zeros(), -x, 3, line=6, code="last", words=["line 5"])


def test_a_tuple_set_only_under_an_if():
    @cuda.jit
    def kernel(out, n):
        t = cuda.threadIdx.x
        if t < n:
            pair = t, float32(2)
        out[t] = pair[0] * pair[1]

    assert {f.code for f in errors(kernel, zeros(), 5)} == {"pair"}
    silent(kernel, zeros(), N)


@finds(5, "total", "stored in out in line 6", n=5)
def test_adding_to_a_variable_set_only_under_an_if(out, n):
    t = cuda.threadIdx.x
    if t < n:
        total = float32(1)
    total += t
    out[t] = total


@needs_course
def test_a_copy_that_nobody_waited_for():
    @cuda.jit
    def kernel(out, x):
        tile = cuda.shared.array(32, float32)
        t = cuda.threadIdx.x
        copy_async(tile, t, x, t)
        commit_copies()
        value = tile[t]
        wait_copies(0)
        out[t] = value + tile[t]

    (finding,) = (
        f for f in trace(kernel, 1, N, zeros(), numbers(), gpu="H200").findings if f.is_error
    )
    assert (finding.line, finding.code) == (6, "tile[t]")


# ---------------------------------------------------------------------- right programs
@needs_course
@passes()
def test_a_wide_load_whose_last_elements_are_not_used(out, x):
    tile = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    tile[4 * t] = x[t]
    tile[4 * t + 1] = x[t]
    a, b, _, _ = load4(tile, 4 * t)
    out[t] = a + b


@passes()
def test_a_select_throws_it_away_after(out, x):
    tile = cuda.shared.array(40, float32)
    t = cuda.threadIdx.x
    if t < 20:
        tile[t] = x[t]
    cuda.syncthreads()
    value = tile[t + 1]
    out[t] = value if t + 1 < 20 else float32(0)


@passes()
def test_a_select_throws_it_away_with_selp(out, x):
    tile = cuda.shared.array(40, float32)
    t = cuda.threadIdx.x
    if t < 20:
        tile[t] = x[t]
    cuda.syncthreads()
    out[t] = cuda.selp(t + 1 < 20, tile[t + 1], float32(0))


# A GPU may hold NaN there; a whole number times 0 is 0 whatever it is.
@finds(8, "tile[t]", "stored in out", thread=20)
def test_0_times_it_may_be_nan_kernel(out, x):
    tile = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    if t < 20:
        tile[t] = x[t]
    cuda.syncthreads()
    valid = t < 20
    out[t] = tile[t] * float32(valid) + tile[t] * -float32(0) * valid


@passes(out=zeros(np.int32), x=np.arange(32, dtype=np.int32))
def test_0_times_it_may_be_nan_whole(out, x):
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    if t < 20:
        tile[t] = x[t]
    cuda.syncthreads()
    out[t] = tile[t] * (t < 20)


@passes()
def test_a_fragment_with_its_padding_is_copied(out, x):
    tile = cuda.shared.array((32, 33), float32)
    mine = cuda.local.array(33, float32)
    copy = cuda.local.array(33, float32)
    t = cuda.threadIdx.x
    for i in range(32):
        tile[t, i] = x[i]
    cuda.syncthreads()
    for i in range(33):
        mine[i] = tile[t, i]
    for i in range(33):
        copy[i] = mine[i]
    total = float32(0)
    for i in range(32):
        total += copy[i]
    out[t] = total


@passes()
def test_a_row_past_the_tile_is_fetched_ahead_and_not_used(out, x):
    tile = cuda.shared.array((5, 32), float32)
    t = cuda.threadIdx.x
    for i in range(4):
        tile[i, t] = x[t] + i
    cuda.syncthreads()
    total = float32(0)
    ahead = tile[0, t]
    for i in range(4):
        now = ahead
        ahead = tile[i + 1, t]
        total += now
    out[t] = total


@passes(n=20)
def test_a_shuffle_from_lanes_whose_value_is_ignored(out, x, n):
    part = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    if t < n:
        part[t] = x[t]
    cuda.syncthreads()
    value = part[t]
    step = 16
    while step > 0:
        other = cuda.shfl_down_sync(EVERY, value, step)
        if t + step < n:
            value += other
        step //= 2
    if t == 0:
        out[0] = value


@passes(out=zeros(np.int32), n=20)
def test_a_vote_of_which_only_some_bits_are_used(out, x, n):
    t = cuda.threadIdx.x
    if t < n:
        value = x[t]
    bits = cuda.ballot_sync(EVERY, value > 0)
    out[t] = cuda.popc(bits & ((1 << n) - 1))


def test_a_variable_used_under_the_condition_that_set_it():
    @cuda.jit
    def kernel(out, x):
        i = cuda.grid(1)
        inside = i < x.size
        if inside:
            value = x[i]
        cuda.syncthreads()
        if inside:
            out[i] = value
        if inside and value > 0:
            out[i] += 1
        if value > 0 and inside:
            out[i] += 1
        out[i % 20] += 0 if not inside else int(value > 0) * 0

    x = numbers(20)
    assert [f.kind for f in errors(kernel, zeros(n=20), x)] in ([], ["race"])


@passes()
def test_a_condition_whose_other_half_decides(out, x):
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    if t < 16:
        tile[t] = t
    cuda.syncthreads()
    if tile[t] > 5 and x[min(tile[t], 31)] > -100 and t < 16:
        out[t] = 1
    out[t] += float32(x[tile[t]]) if t < 16 else float32(0)


def test_a_search_that_finds_something():
    @cuda.jit
    def kernel(out, x, wanted):
        t = cuda.threadIdx.x
        for i in range(x.size):
            if x[i] == wanted:
                place = i
                break
        out[t] = place

    x = np.arange(N, dtype=np.float32)
    out = zeros()
    assert not [f for f in trace(kernel, 1, N, out, x, 7.0).findings if f.is_error]
    assert (out == 7).all()
    assert errors(kernel, zeros(), x, 77.0)


def test_a_block_whose_last_elements_are_missing():
    """The block sums of a last, partial block: no thread adds what was not filled."""

    @cuda.jit
    def kernel(out, x):
        part = cuda.shared.array(32, float32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        count = min(32, x.size - cuda.blockIdx.x * 32)
        if t < count:
            part[t] = x[i]
        cuda.syncthreads()
        step = 16
        while step > 0:
            other = part[(t + step) % 32]
            cuda.syncthreads()
            if t < step and t + step < count:
                part[t] += other
            cuda.syncthreads()
            step //= 2
        if t == 0:
            out[cuda.blockIdx.x] = part[0]

    x = numbers(83)
    out = zeros(n=3)
    assert not [f for f in trace(kernel, 3, 32, out, x).findings if f.is_error]
    np.testing.assert_allclose(out, [x[:32].sum(), x[32:64].sum(), x[64:].sum()], rtol=1e-5)


def test_random_numbers_and_atomics_are_the_same_in_every_run():
    from warpsim.run.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

    @cuda.jit
    def kernel(out, count, states):
        spare = cuda.local.array(2, float32)
        t = cuda.grid(1)
        spare[0] = xoroshiro128p_uniform_float32(states, t)
        unused = spare[1]
        place = cuda.atomic.add(count, 0, 1)
        if place < out.size:
            out[place] = spare[0] if place >= 0 else unused

    states = create_xoroshiro128p_states(64, seed=1)
    before = states.copy_to_host()
    out, count = zeros(n=64), zeros(np.int32, 1)
    launch = trace(kernel, 2, 32, out, count, states)
    assert not [f for f in launch.findings if f.is_error]
    assert count[0] == 64
    plain = create_xoroshiro128p_states(64, seed=1)
    out_plain, count_plain = zeros(n=64), zeros(np.int32, 1)
    kernel[2, 32](out_plain, count_plain, plain)
    assert np.array_equal(out, out_plain)
    assert np.array_equal(states.copy_to_host(), plain.copy_to_host())
    assert not np.array_equal(states.copy_to_host(), before)


def test_views_of_one_device_array_stay_views_of_one():
    @cuda.jit
    def kernel(first, second):
        spare = cuda.local.array(2, float32)
        t = cuda.threadIdx.x
        unused = spare[1]
        first[t] += 1
        cuda.syncthreads()
        second[t] = first[t + 16] if t >= 0 else unused

    whole = cuda.to_device(np.zeros(96, np.float32))
    assert not [f for f in trace(kernel, 1, 32, whole[:48], whole[48:]).findings if f.is_error]
    got = whole.copy_to_host()
    assert got.sum() == 32 + 16


def test_what_a_kernel_prints_is_printed_once(capfd):
    @cuda.jit
    def kernel(out):
        spare = cuda.local.array(1, float32)
        unused = spare[0]
        if cuda.threadIdx.x == 3:
            print("thread", cuda.threadIdx.x)
        out[0] = 1 if cuda.threadIdx.x >= 0 else unused

    silent(kernel, zeros(), block=4)
    assert capfd.readouterr().out.count("thread 3") == 1


def test_the_results_and_counts_of_a_trace_are_those_of_the_launch_alone():
    @cuda.jit
    def kernel(out, x):
        tile = cuda.shared.array(33, float32)
        t = cuda.threadIdx.x
        tile[t] = x[t]
        cuda.syncthreads()
        out[t] += tile[t + 1]

    @cuda.jit
    def filled(out, x):
        tile = cuda.shared.array(33, float32)
        t = cuda.threadIdx.x
        tile[t] = x[t]
        tile[32] = 0
        cuda.syncthreads()
        out[t] += tile[t + 1]

    x, out, plain = numbers(), zeros(), zeros()
    traced = trace(kernel, 1, 32, out, x)
    kernel[1, 32](plain, x)
    assert np.array_equal(out, plain)
    assert traced.total("shared", "load") == trace(filled, 1, 32, zeros(), x).total(
        "shared", "load"
    )


# ---------------------------------------------------------------------- how it works
def test_a_launch_without_such_reads_runs_once(monkeypatch):
    def never(*_):
        raise AssertionError("ran again")

    @cuda.jit
    def kernel(out, x):
        tile = cuda.shared.array(32, float32)
        t = cuda.threadIdx.x
        tile[t] = x[t]
        cuda.syncthreads()
        out[t] = tile[31 - t]

    monkeypatch.setattr(uninitialised.Again, "findings", never)
    silent(kernel, zeros(), numbers())


# A loop as long as a stand-in would take hours.
@finds(3, "bound[0]", "decides how often the loop runs")
def test_runs_stop_at_the_first_difference(out):
    bound = cuda.shared.array(1, int32)
    for _ in range(bound[0]):
        for _ in range(bound[0]):
            cuda.syncthreads()
    out[0] = 1


def test_a_loop_that_ends_only_by_luck():
    """Memory happens to hold 0 when it is traced; with anything else the loop never ends."""

    @cuda.jit
    def kernel(out):
        lock = cuda.shared.array(1, int32)
        other = cuda.shared.array(1, int32)
        while lock[0] != 0:
            cuda.syncthreads()
        out[0] = other[0]

    first, *_ = errors(kernel, zeros(), block=1)
    assert (first.kind, first.line, first.code) == ("uninitialised-read", 4, "lock[0]")
    assert "decides how long the loop runs" in first.message


@pytest.mark.parametrize("kind", ["b1", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "c8"])
def test_stand_ins_differ_and_stay_finite(kind):
    dtype = np.dtype({"b1": "?"}.get(kind, kind))
    values = {fill: stand_ins(fill, dtype, 200, 3) for fill in (BASE, *OTHERS)}
    assert all(value.dtype == dtype for value in values.values())
    assert not np.array_equal(values["wild"], values["opposite"])
    assert (values["ones"] == 1).all() and (values["zeros"] == 0).all()
    assert len(np.unique(values["wild"])) > min(100, 1 if kind == "b1" else 100) or kind in (
        "b1", "i1", "u1",
    )  # fmt: skip
    if dtype.kind == "f":
        with np.errstate(all="raise"):
            finite = [value for fill, value in values.items() if fill != "nan"]
            assert all(np.isfinite(value**3).all() for value in finite)
        assert np.isnan(values["nan"]).all()
        assert ((values["wild"] > 0) != (values["opposite"] > 0)).all()
    again = stand_ins("wild", dtype, 200, 3)
    assert np.array_equal(again, values["wild"])


def test_a_planted_blindness_is_found(monkeypatch):
    """If stores were not compared, the first example would pass."""

    @cuda.jit
    def kernel(out):
        value = cuda.local.array(1, float32)
        out[cuda.threadIdx.x] = value[0]
        out[cuda.threadIdx.x] = math.sqrt(4.0)

    assert errors(kernel, zeros())
    monkeypatch.setattr(replay.ReplayObserver, "chosen", lambda *_: b"")
    assert not errors(kernel, zeros())


@cuda.jit(device=True)
def _looks_at_none(x, spare):
    return x + 1


@cuda.jit(device=True)
def _looks_at_both(x, spare):
    return x + spare


@pytest.mark.parametrize("function", [_looks_at_none, _looks_at_both])
def test_what_is_handed_over_in_vain_needs_no_other_run(function, monkeypatch):
    runs = []
    monkeypatch.setattr(uninitialised.Again, "findings", lambda self: runs.append(self) or {})

    @cuda.jit
    def kernel(x, out):
        counters = cuda.local.array(2, float32)
        counters[1] = x[0]
        spare = counters[0]
        out[cuda.threadIdx.x] = function(counters[1], spare)

    trace(kernel, 1, 32, np.ones(1, np.float32), np.zeros(32, np.float32))
    assert bool(runs) == (function is _looks_at_both)
