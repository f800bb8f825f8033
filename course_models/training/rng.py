"""Random numbers without a state, and a VAE's sample from them: z = mean + exp(log variance / 2) e.

>>> z, e = reparameterise(mean, log_variance, counter)     # counter: int64 (2,), seed and step

A generator with a state for each thread, such as Numba's xoroshiro128+, loads and stores 16 bytes
at each call. In a kernel that moves 16 bytes an element that is as much again, and the numbers
depend on which thread draws them. Philox is a function of a counter and a key, as a block cipher
is: here of an element's index, the step, and the seed. It loads nothing, and any grid, any GPU,
and NumPy, too, make the same numbers in any order.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox 4x32-10); Box,
Muller, "A note on the generation of random normal deviates" (1958).
"""

from __future__ import annotations

import math

import numpy as np
from numba import float32, int32, uint64

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.kernels.arrays import Array, flat, holds
from course.kernels.steps import Launch, ceil_div

THREADS = 256
FOUR = 4  # numbers that one counter gives
FIRST, SECOND = uint64(0xD2511F53), uint64(0xCD9E8D57)  # multipliers
KEY_STEP, OTHER_STEP = uint64(0x9E3779B9), uint64(0xBB67AE85)
LOW, HALF_WORD, ROUNDS = uint64(0xFFFFFFFF), uint64(32), 10
DROPPED = uint64(8)  # bits; the other 24 fit into float32
ONE, HALF, MINUS_TWO = float32(1), float32(0.5), float32(-2)
UNIT = float32(2.0**-24)
MIDDLE, ANGLE_UNIT = float32(2.0**23), float32(2 * math.pi * 2.0**-24)


@cuda.jit(device=True)
def philox(first, second, seed):
    """Philox 4x32-10 of the counter (first, second, 0, 0), with the seed's 64 bits as its key.

    Returns
    -------
    four uint64
        Each holds 32 random bits.
    """
    a, b, c, d = uint64(first), uint64(second) & LOW, uint64(0), uint64(0)
    key, other = uint64(seed) & LOW, uint64(seed) >> HALF_WORD
    for _ in range(ROUNDS):
        p, q = FIRST * a, SECOND * c
        a, b, c, d = (q >> HALF_WORD) ^ b ^ key, q & LOW, (p >> HALF_WORD) ^ d ^ other, p & LOW
        key, other = (key + KEY_STEP) & LOW, (other + OTHER_STEP) & LOW
    return a, b, c, d


@cuda.jit(device=True, fastmath=True)
def radius(bits):
    """The radius of Box and Muller's method, from a uniform number in (0, 1]."""
    return math.sqrt(MINUS_TWO * math.log((float32(int32(bits >> DROPPED)) + ONE) * UNIT))


@cuda.jit(device=True, fastmath=True)
def angle(bits):
    """A uniform angle from -pi to pi, where the GPU's fast cosine is most accurate."""
    return (float32(int32(bits >> DROPPED)) - MIDDLE) * ANGLE_UNIT


@cuda.jit(device=True, fastmath=True)
def normal4(first, second, seed):
    """The four standard normal numbers of a counter."""
    a, b, c, d = philox(first, second, seed)
    r, s, v, w = radius(a), radius(c), angle(b), angle(d)
    return r * math.cos(v), r * math.sin(v), s * math.cos(w), s * math.sin(w)


@cuda.jit(fastmath=True)
def sample(mean, log_variance, counter, z, noise):
    """Mapping: thread i has elements 4 i to 4 i + 3, whose noise comes from one counter."""
    i = cuda.grid(1)
    if FOUR * i < z.size:
        numbers = cuda.local.array(FOUR, float32)
        numbers[0], numbers[1], numbers[2], numbers[3] = normal4(i, counter[1], counter[0])
        for n in range(FOUR):
            place = FOUR * i + n
            if place < z.size:
                noise[place] = numbers[n]
                deviation = math.exp(HALF * log_variance[place])
                z[place] = mean[place] + deviation * numbers[n]


@cuda.jit(fastmath=True)
def sample_gradient(grad, log_variance, noise, out):
    """The gradient by the log variance; the gradient by the mean is grad itself."""
    i = cuda.grid(1)
    if i < out.size:
        deviation = math.exp(HALF * log_variance[i])
        out[i] = HALF * grad[i] * noise[i] * deviation


# --- the entry point ------------------------------------------------------------------------------


def _alike(**arrays: ArrayFacts) -> Result:
    """The result for arrays that must all be float32 and of one shape."""
    (name, first), *others = arrays.items()
    for other, array in arrays.items():
        holds(array, other)
    for other, array in others:
        if array.shape != first.shape:
            raise ValueError(
                f"{other} has the shape {array.shape}; it must have that of {name}, {first.shape}"
            )
    return first.shape, np.float32


def checked_counter(counter: ArrayFacts) -> None:
    """Refuse a counter that is not two int64, seed and step."""
    if counter.dtype != np.int64 or counter.shape != (2,):
        raise TypeError(
            f"counter is {counter.dtype} of the shape {counter.shape}; it must be int64, (2,): "
            "seed and step"
        )


def _samples(mean: ArrayFacts, log_variance: ArrayFacts, counter: ArrayFacts) -> list[Result]:
    checked_counter(counter)
    its = _alike(mean=mean, log_variance=log_variance)
    return [its, its]


def launches(
    mean: Array, log_variance: Array, counter: Array, z: Array, noise: Array
) -> list[Launch]:
    """The launches of a sample, for device arrays."""
    mean, log_variance = flat(mean, "mean"), flat(log_variance, "log_variance")
    z, noise = flat(z, "z"), flat(noise, "noise")
    blocks = ceil_div(mean.size, FOUR * THREADS)
    return [Launch(sample, blocks, THREADS, (mean, log_variance, counter, z, noise))]


def gradient_launches(grad: Array, log_variance: Array, noise: Array, out: Array) -> list[Launch]:
    """The launches of a sample's gradient, for device arrays."""
    names = "grad", "log_variance", "noise", "out"
    arrays = tuple(map(flat, (grad, log_variance, noise, out), names))
    return [Launch(sample_gradient, ceil_div(grad.size, THREADS), THREADS, arrays)]


_SAMPLE = EntryPoint(
    "reparameterise", ("mean", "log_variance", "counter"), _samples, launches, options=()
)


def reparameterise(
    mean: Array, log_variance: Array, counter: Array, stream: Stream = None
) -> tuple[Array, Array]:
    """Draw from normal distributions so that gradients pass: z = mean + exp(log variance / 2) e.

    Parameters
    ----------
    mean, log_variance : array of one shape, float32
        Of NumPy, CuPy, PyTorch or numba.cuda. On the GPU in C order.
    counter : array, shape (2,), int64
        Seed and step: the same two give the same numbers. The kernel reads the counter when it
        runs, so that a captured graph draws new numbers once something increases the step.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; without it the one of mean's library.

    Returns
    -------
    z, noise : array
        Of mean's library and shape; noise is e, which the gradient needs. On a GPU e differs by
        up to 1e-5 from `course_models.vae.reference.noise`, due to fast logarithm and cosine.

    Raises
    ------
    TypeError
        For an argument that is no array, or elements of another type.
    ValueError
        For shapes that differ, or strides that do not fit.
    """
    return _SAMPLE.call((mean, log_variance, counter), (), None, stream)
