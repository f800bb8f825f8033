"""What kernels of public repositories found: refusals and crashes of what Numba compiles."""

import numpy as np
import pytest
from numba import int32, uint64
from numba.core.errors import TypingError

from warpsim import cuda, trace


# ---------------------------------------------------------------------- uint64 that meet
@cuda.jit
def masks(out, x):
    i = cuda.grid(1)
    value = uint64(0)
    for bit in range(64):
        if x[i] > bit:
            value |= uint64(1) << uint64(bit)
    out[i] = value


@cuda.jit
def halved(out, x):
    i = cuda.grid(1)
    value = uint64(3)
    if x[i] > 2:
        value = uint64(5)
    value *= uint64(0x4000000000000001)
    out[i] = value >> uint64(1)


@cuda.jit(device=True)
def one_of_two(first):
    if first:
        return uint64(2)
    return uint64(1)


@cuda.jit
def quotients(out, x):
    i = cuda.grid(1)
    value = one_of_two(x[i] > 2) * uint64(1 << 63) + (uint64(7) if x[i] > 1 else uint64(8))
    out[i] = value // uint64(3)


def test_bits_up_to_the_last_one_of_a_mask():
    """A suppression mask of 64 boxes a word."""
    out = np.zeros(32, np.uint64)
    masks[1, 32](out, np.arange(32) * 3)
    assert [int(word) for word in out] == [(1 << min(3 * i, 64)) - 1 for i in range(32)]


def test_numbers_from_two_ways_stay_without_a_sign():
    out = np.zeros(32, np.uint64)
    halved[1, 32](out, np.arange(32))
    wanted = [(5 if i > 2 else 3) * 0x4000000000000001 % 2**64 >> 1 for i in range(32)]
    assert [int(word) for word in out] == wanted


def test_what_a_function_and_an_expression_choose_too():
    out = np.zeros(32, np.uint64)
    quotients[1, 32](out, np.arange(32))
    wanted = [((2 if i > 2 else 1) * 2**63 + (7 if i > 1 else 8)) % 2**64 // 3 for i in range(32)]
    assert [int(word) for word in out] == wanted


# ---------------------------------------------------------------------- functions that may be None
@cuda.jit(device=True)
def doubled(x):
    return 2 * x


def driven(driver):
    """A kernel whose driver may be missing."""

    @cuda.jit
    def kernel(out, n):
        i = cuda.grid(1)
        out[i] = 1
        if driver is not None:
            out[i] = driver(i)
        if n > 2 and driver is not None:
            out[i] += driver(10)
        elif driver == None or n > 5:  # noqa: E711 - as somebody wrote it
            out[i] -= 5
        out[i] += 100 if driver is None else 200

    return kernel


@pytest.mark.parametrize(
    ("driver", "n", "wanted"),
    [(None, 1, [96] * 4), (None, 3, [96] * 4), (doubled, 1, [200, 202, 204, 206]),
     (doubled, 3, [220, 222, 224, 226])],
)  # fmt: skip
def test_a_function_that_may_be_none_is_asked_for(driver, n, wanted):
    out = np.zeros(4)
    driven(driver)[1, 4](out, n)
    assert out.tolist() == wanted


def test_a_call_before_the_part_that_decides_is_not_left_out():
    missing = None

    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        if cuda.atomic.add(out, 1, 1) >= 0 and missing is not None:
            out[0] = 5
        if i < 0 or missing is None:
            out[2] = 7

    out = np.zeros(3)
    kernel[1, 4](out)
    assert out.tolist() == [0, 4, 7]


# ---------------------------------------------------------------------- locks between blocks
@cuda.jit(device=True)
def lock(mutex):
    while cuda.atomic.compare_and_swap(mutex, 0, 1) != 0:
        pass
    cuda.threadfence()


@cuda.jit(device=True)
def unlock(mutex):
    cuda.threadfence()
    cuda.atomic.exch(mutex, 0, 0)


@cuda.jit
def nearest(depth, owner, mutex, z):
    """A thread of each block for all: what lies nearest, and whose it is."""
    if cuda.threadIdx.x == 0:
        block = cuda.blockIdx.x
        place = block % 4
        lock(mutex[place : place + 1])
        if z[block] < depth[place]:
            depth[place] = z[block]
            owner[place] = block
        unlock(mutex[place : place + 1])


@cuda.jit
def unordered(depth, owner, mutex, z):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
            continue
        if z[cuda.blockIdx.x] < depth[0]:
            depth[0] = z[cuda.blockIdx.x]
        cuda.atomic.exch(mutex, 0, 0)


def drawn(blocks=50):
    z = np.random.default_rng(3).random(blocks)
    return np.full(4, 2.0), np.full(4, -1), np.zeros(4, np.int32), z


def test_a_lock_between_blocks_is_taken_and_given_back():
    depth, owner, mutex, z = drawn()
    nearest[50, 32](depth, owner, mutex, z)
    assert depth.tolist() == [z[place::4].min() for place in range(4)]
    assert z[owner].tolist() == depth.tolist() and not mutex.any()
    assert not [one for one in trace(nearest, 50, 32, *drawn()).findings if one.is_error]


def test_a_lock_without_fences_orders_nothing():
    found = [one for one in trace(unordered, 50, 32, *drawn()).findings if one.is_error]
    assert {one.kind for one in found} == {"race"} and "depth[0]" in found[0].code


# ---------------------------------------------------------------------- a program of closures
def of_axes(count):
    """A kernel that mentions a variable which was set for more than two axes only."""
    if count > 2:
        third = 5

    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        out[i] = 1
        if count > 2:
            out[i] += third

    return kernel


@pytest.mark.parametrize(("axes", "wanted"), [(2, 1), (3, 6)])
def test_a_variable_from_outside_that_was_never_set_is_asked_for_where_it_is_used(axes, wanted):
    out = np.zeros(4)
    of_axes(axes)[1, 4](out)
    assert out.tolist() == [wanted] * 4


def test_a_variable_that_is_set_after_a_first_launch_is_found():
    @cuda.jit
    def kernel(out):
        out[0] = later

    out = np.zeros(1)
    with pytest.raises(TypingError, match="'later' is not defined"):
        kernel[1, 1](out)
    later = 3
    kernel[1, 1](out)
    assert out[0] == later


def test_a_kernel_is_made_a_device_function_by_options_alone():
    @cuda.jit
    def twice(x):
        return 2 * x

    inner = cuda.jit(device=True)(twice)

    @cuda.jit
    def kernel(out):
        out[cuda.grid(1)] = inner(cuda.grid(1))

    out = np.zeros(4)
    kernel[1, 4](out)
    assert out.tolist() == [0, 2, 4, 6]


def test_the_last_field_of_a_record():
    @cuda.jit
    def kernel(out, records):
        i = cuda.grid(1)
        row = records[i]
        out[i] = row[-1] + 10 * row[0]

    records = np.zeros(4, np.dtype([("sigma", "f4"), ("epsilon", "f4"), ("cut", "f4")], align=True))
    records["cut"], records["sigma"] = 2.5, np.arange(4)
    out = np.zeros(4)
    kernel[1, 4](out, records)
    assert out.tolist() == [2.5, 12.5, 22.5, 32.5]


def test_versions_of_a_variable_meet_where_one_was_never_set():
    @cuda.jit
    def kernel(out, n, x):
        i = cuda.grid(1)
        if i < n:
            for k in range(int32(n)):
                out[i] += k
        if n > 0:
            for k in x:
                out[i] += k

    for n, wanted in ((0, [0, 0, 0, 0]), (2, [2, 2, 1, 1])):
        out = np.zeros(4)
        kernel[1, 4](out, n, np.arange(2.0))
        assert out.tolist() == wanted
