"""bfloat16 in the simulator: what is rounded, what is read, and what is refused as Numba does."""

import numpy as np
import pytest
from numba import float32

from warpsim import cuda
from warpsim.core.number_types import BFLOAT16, bfloat16, rounded, widened
from warpsim.ptx import load4, store4

PATTERNS = np.arange(2**16, dtype=np.uint32)
#: All finite values, in order; the next that there would be, which rounds to infinity; their bits.
POSITIVE = np.append((PATTERNS[:0x7F80] << 16).view(np.float32).astype(np.float64), 2.0**128)


def nearest(x):
    """The bits nearest to finite float32 numbers, ties to even: looked up among all values."""
    size = np.abs(x.astype(np.float64))
    above = np.searchsorted(POSITIVE, size)  # the first that is not below
    below = np.maximum(above - 1, 0)
    up, down = POSITIVE[above] - size, size - POSITIVE[below]
    take_above = (up < down) | ((up == down) & (above % 2 == 0)) | (above == 0)
    return np.where(take_above, above, below).astype(np.uint16) | np.signbit(x) * np.uint16(0x8000)


@cuda.jit
def convert(x, out, back):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i]
        back[i] = float32(out[i])


def converted(x):
    """The bits that a kernel stores for float32 numbers, and what it reads of them."""
    out, back = np.zeros(x.size, BFLOAT16), np.zeros(x.size, np.float32)
    convert[-(-x.size // 256), 256](x, out, back)
    return out["bfloat16"], back


def test_every_bfloat16_is_read_exactly_and_written_as_it_was():
    values = (PATTERNS << 16).view(np.float32)
    bits, back = converted(values)
    nan = np.isnan(values)
    assert np.array_equal(bits[~nan], PATTERNS[~nan]) and np.array_equal(back, values, True)
    assert np.array_equal(widened(PATTERNS), values, True)
    assert np.isnan(back[nan]).all() and nan.sum() == 2 * 127


@pytest.mark.parametrize("beyond", [1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
def test_what_lies_between_goes_to_the_nearest_ties_to_even(beyond):
    values = (PATTERNS << 16 | beyond).view(np.float32)
    finite = np.isfinite(values)
    bits, _ = converted(values)
    assert np.array_equal(bits[finite], nearest(values[finite]))
    assert np.isnan(widened(bits[~finite])).all()  # however small the part that makes it NaN
    assert np.array_equal(rounded(values), bits)


def test_the_largest_finite_number_and_what_rounds_to_infinity():
    largest = float(POSITIVE[-2])
    half = largest + (2.0**128 - largest) / 2
    given = np.float32([largest, np.nextafter(np.float32(half), np.float32(0)), half, np.inf])
    bits, back = converted(np.concatenate([given, -given]))
    assert bits.tolist() == [0x7F7F, 0x7F7F, 0x7F80, 0x7F80, 0xFF7F, 0xFF7F, 0xFF80, 0xFF80]
    assert back[0] == largest and np.isinf(back[2]) and isinstance(rounded(np.float32(1)), int)


def test_local_arrays_vectors_and_casts_carry_the_bits():
    @cuda.jit
    def doubled(x, out):
        t = 4 * cuda.threadIdx.x
        own = cuda.local.array((1, 4), bfloat16)
        own[0, 0], own[0, 1], own[0, 2], own[0, 3] = load4(x, (cuda.blockIdx.x, t))
        for e in range(4):
            own[0, e] = bfloat16(float32(own[0, e]) + float32(own[0, e]))
        four = own[0, 0], own[0, 1], own[0, 2], bfloat16(float32(4))
        store4(out, (cuda.blockIdx.x, t), four)

    x = rounded(np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32))
    out = cuda.device_array((3, 64), BFLOAT16)
    doubled[3, 16](cuda.to_device(x.view(BFLOAT16)), out)
    wanted = 2 * widened(x)
    wanted[:, 3::4] = 4
    assert np.array_equal(widened(out.copy_to_host()["bfloat16"]), wanted)


def test_parts_of_arrays_are_taken_and_what_is_outside_is_nan():
    x = rounded(np.arange(40, dtype=np.float32)).view(BFLOAT16)
    out = np.zeros(10, np.float32)

    @cuda.jit
    def read(x, out):
        out[cuda.threadIdx.x] = float32(x[cuda.threadIdx.x])

    read[1, 10](cuda.to_device(x)[3:][::2], out)
    assert out.tolist() == list(range(3, 23, 2))


def add(x, out):
    out[0] = x[0] + float32(1)


def store_double(x, out):
    x[0] = 1.0


def to_int(x, out):
    out[0] = int(x[0])


def store_as_it_is(x, out):
    out[0] = x[0]


def of_double(x, out):
    x[0] = bfloat16(2.0)


def if_one(x, out):
    if x[0]:
        out[0] = 1


def largest(x, out):
    out[0] = float32(max(x[0], x[1]))


def chosen(x, out):
    out[0] = float32(cuda.selp(True, x[0], x[1]))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (if_one, r"x\[0\] is a condition: a bfloat16 becomes a float32"),
        (largest, "max of bfloat16: a bfloat16 becomes a float32"),
        (chosen, "a bfloat16 becomes a float32"),
        (add, r"add\(bfloat16, float32\)"),
        (store_double, "Cannot cast float64 to bfloat16"),
        (store_as_it_is, "Cannot cast bfloat16 to float32"),
        (to_int, r"int\(bfloat16\): a bfloat16 becomes a float32"),
        (of_double, r"bfloat16\(float64\): a bfloat16 becomes a float32 and is made of one"),
    ],
)
def test_arithmetic_and_other_casts_are_refused(function, words):
    with pytest.raises(Exception, match=words):
        cuda.jit(function)[1, 1](np.zeros(2, BFLOAT16), np.zeros(1, np.float32))
