"""A VAE's two losses summed over a batch: binary cross-entropy of logits, and KL divergence.

>>> total = loss("bce", logits, targets)                  # targets: float32, or bytes of 0 to 255
>>> total = loss("kl", mean, log_variance)
>>> d_logits = bce_gradient(logits, targets, 1 / batch)

Each loss is a function of two numbers, summed over all elements: a map fused into a reduction. The
steps are those of `course.kernels.reduce`:

============  =====================================================================================
"atomics"     each thread adds its element to one address: each addition rounds a large sum
"tree"        a tree in shared memory, one atomic for each block
"unrolled"    each thread adds eight elements first; the tree's last steps are unrolled, those of
              one warp with the warp's own barrier (older code had ``volatile`` instead; since Volta
              a warp's threads need not run in step, so that such sums may be wrong)
"shuffles"    eight elements for each thread, lanes exchange registers
"vectorised"  four elements a load, a partial sum for each block, added up by a second kernel: no
              atomics, so the same bits each time
============  =====================================================================================

BCE is max(l, 0) - l x + log(1 + exp(-|l|)): exp(-|l|) cannot overflow. KL is that of a normal
distribution to the standard one, (mean² + variance - 1 - log variance) / 2.

Source: Kingma, Welling, "Auto-encoding variational Bayes", arXiv:1312.6114, appendix B; M. Harris,
"Optimizing parallel reduction in CUDA" (2007); NVIDIA, CUDA C++ Programming Guide, "Independent
thread scheduling".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import float32, int32, int64

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.slots import workspace
from course.kernels import reduce
from course.kernels.arrays import VECTOR, Array, are_aligned, flat, holds
from course.kernels.steps import Ladder, Launch, Step, ceil_div, require_choice
from course.kernels.warps import WARP
from warpsim.ptx import load4, store4

THREADS = 256
WARPS = THREADS // WARP
SEVERAL = 8  # elements of each thread in "unrolled" and "shuffles"
ACCESSES = 4  # loads of four that a thread has in flight in "vectorised"
TILE = THREADS * ACCESSES * VECTOR
ZERO, HALF, ONE = float32(0), float32(0.5), float32(1)
OF_BYTE = float32(1 / 255)

_, _of_block = reduce.combiners(reduce.KINDS["sum"], WARPS)


# --- functions of two numbers ---------------------------------------------------------------------


@cuda.jit(device=True, fastmath=True)
def bce_of(logit, target):
    """Binary cross-entropy of a logit."""
    return max(logit, ZERO) - logit * target + math.log(ONE + math.exp(-abs(logit)))


@cuda.jit(device=True, fastmath=True)
def bce_slope(logit, target):
    """The derivative of `bce_of` by the logit: sigmoid(logit) - target."""
    e = math.exp(-abs(logit))
    return (ONE if logit >= ZERO else e) / (ONE + e) - target


@cuda.jit(device=True, fastmath=True)
def kl_of(mean, log_variance):
    """KL divergence of a normal distribution to the standard one."""
    return HALF * (mean * mean + math.exp(log_variance) - ONE - log_variance)


LOSSES = {"bce": bce_of, "kl": kl_of}


# --- the steps ------------------------------------------------------------------------------------


@functools.cache
def terms(function: Callable, scale: float) -> Callable:
    """Device function of (x, y, i): element i's term of the sum, 0 behind the arrays' end."""
    factor = float32(scale)

    @cuda.jit(device=True)
    def term(x, y, i):
        return function(x[i], float32(y[i]) * factor) if i < x.size else ZERO

    return term


@functools.cache
def atomics(function: Callable, scale: float) -> Callable:
    """Step 1, of (x, y, out). Mapping: thread i has element i."""
    term = terms(function, scale)

    @cuda.jit(fastmath=True)
    def loss_atomics(x, y, out):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(out, 0, term(x, y, i))

    return loss_atomics


@functools.cache
def tree(function: Callable, scale: float) -> Callable:
    """Step 2, of (x, y, out). Mapping: thread i has element i, then the block's lower half adds."""
    term = terms(function, scale)

    @cuda.jit(fastmath=True)
    def loss_tree(x, y, out):
        values = cuda.shared.array(THREADS, float32)
        t = cuda.threadIdx.x
        values[t] = term(x, y, cuda.grid(1))
        cuda.syncthreads()
        half = THREADS // 2
        while half > 0:
            if t < half:
                values[t] += values[t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            cuda.atomic.add(out, 0, values[0])

    return loss_tree


@functools.cache
def unrolled(function: Callable, scale: float) -> Callable:
    """Step 3, of (x, y, out). Mapping: a block has 2,048 elements, a thread eight, 256 apart."""
    term = terms(function, scale)

    @cuda.jit(fastmath=True)
    def loss_unrolled(x, y, out):
        values = cuda.shared.array(THREADS, float32)
        t = cuda.threadIdx.x
        first, total = int64(cuda.blockIdx.x) * (THREADS * SEVERAL) + t, ZERO
        for n in range(SEVERAL):
            total += term(x, y, first + n * THREADS)
        values[t] = total
        cuda.syncthreads()
        if t < 128:
            values[t] += values[t + 128]
        cuda.syncthreads()
        if t < 64:
            values[t] += values[t + 64]
        cuda.syncthreads()
        if t < WARP:  # one warp is left: a barrier of the warp suffices
            total = values[t] + values[t + 32]
            for step in range(5):
                values[t] = total
                cuda.syncwarp()
                total += values[t ^ (16 >> step)]
                cuda.syncwarp()
            if t == 0:
                cuda.atomic.add(out, 0, total)

    return loss_unrolled


@functools.cache
def shuffles(function: Callable, scale: float) -> Callable:
    """Step 4, of (x, y, out). Mapping: as in step 3; lanes exchange registers, one barrier."""
    term = terms(function, scale)

    @cuda.jit(fastmath=True)
    def loss_shuffles(x, y, out):
        first = int64(cuda.blockIdx.x) * (THREADS * SEVERAL) + cuda.threadIdx.x
        total = ZERO
        for n in range(SEVERAL):
            total += term(x, y, first + n * THREADS)
        total = _of_block(total)
        if cuda.threadIdx.x == 0:
            cuda.atomic.add(out, 0, total)

    return loss_shuffles


@functools.cache
def vectorised(function: Callable, scale: float, aligned: bool) -> Callable:
    """Step 5, of (x, y, partial): a sum for each block.

    Mapping: a block takes tile after tile of 4,096 elements, in a grid-stride loop. A thread has
    four neighbours of each load; all its loads of a tile are in flight before the first is used. In
    the last tile, if it is not full, elements are loaded one by one.
    """
    term, factor = terms(function, scale), float32(scale)

    @cuda.jit(fastmath=True)
    def loss_vectorised(x, y, partial):
        t, total = cuda.threadIdx.x, ZERO
        left = cuda.local.array((ACCESSES, VECTOR), x.dtype)
        right = cuda.local.array((ACCESSES, VECTOR), y.dtype)
        start = int64(cuda.blockIdx.x) * TILE
        while start < x.size:
            if aligned and start + TILE <= x.size:
                for n in range(ACCESSES):
                    place = start + (n * THREADS + t) * VECTOR
                    left[n, 0], left[n, 1], left[n, 2], left[n, 3] = load4(x, place)
                    right[n, 0], right[n, 1], right[n, 2], right[n, 3] = load4(y, place)
                for n in range(ACCESSES):
                    for m in range(VECTOR):
                        total += function(left[n, m], float32(right[n, m]) * factor)
            else:
                for n in range(ACCESSES * VECTOR):
                    total += term(x, y, start + n * THREADS + t)
            start += int64(cuda.gridDim.x) * TILE
        total = _of_block(total)
        if t == 0:
            partial[cuda.blockIdx.x] = total

    return loss_vectorised


#: By step, the function that makes its kernel, and the elements of a block.
KERNELS = {
    "atomics": (atomics, THREADS),
    "tree": (tree, THREADS),
    "unrolled": (unrolled, THREADS * SEVERAL),
    "shuffles": (shuffles, THREADS * SEVERAL),
    "vectorised": (vectorised, TILE),
}


# --- backward -------------------------------------------------------------------------------------


@functools.cache
def bce_backward(scale: float, wide: bool = False) -> Callable:
    """The kernel of (logits, targets, factor, out). Mapping: thread i has element i.

    If `wide`, thread i has elements 4 i to 4 i + 3, loaded and stored 16 bytes at once. Fewer than
    four elements at the end are loaded and stored one by one.
    """
    of_target = float32(scale)

    @cuda.jit(device=True, fastmath=True)
    def one(logit, target, factor):
        return factor * bce_slope(logit, float32(target) * of_target)

    @cuda.jit(fastmath=True)
    def backward_each(logits, targets, factor, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = one(logits[i], targets[i], factor)

    @cuda.jit(fastmath=True)
    def backward_wide(logits, targets, factor, out):
        place = int64(cuda.blockIdx.x) * (THREADS * VECTOR) + int32(cuda.threadIdx.x) * VECTOR
        if place + VECTOR <= out.size:
            x, y = load4(logits, place), load4(targets, place)
            store4(out, place, (
                one(x[0], y[0], factor), one(x[1], y[1], factor),
                one(x[2], y[2], factor), one(x[3], y[3], factor),
            ))  # fmt: skip
        else:
            for i in range(place, out.size):
                out[i] = one(logits[i], targets[i], factor)

    return backward_wide if wide else backward_each


@cuda.jit(fastmath=True)
def kl_backward(mean, log_variance, factor, d_mean, d_log_variance):
    """Mapping: thread i has element i."""
    i = cuda.grid(1)
    if i < d_mean.size:
        d_mean[i] = factor * mean[i]
        d_log_variance[i] = factor * HALF * (math.exp(log_variance[i]) - ONE)


# --- the ladders ----------------------------------------------------------------------------------


def _scale_of(array: Array) -> float:
    return float(OF_BYTE) if array.dtype == np.uint8 else 1.0


class LossProblem(NamedTuple):
    """What decides between the steps of a loss, and of a loss's gradient."""

    size: int
    scale: float  # factor of the second array's elements: 1/255 for bytes
    aligned: bool  # four elements can be accessed at once

    @classmethod
    def of_sum(cls, first: Array, second: Array, out: Array, name: str) -> LossProblem:
        """The problem of a loss, of flat arrays on the device; `out` has one element."""
        return cls(first.size, _scale_of(second), are_aligned(first, second))

    @classmethod
    def of_gradient(cls, first: Array, second: Array, out: Array, scale: float) -> LossProblem:
        """The problem of a gradient, of flat arrays on the device; `out` has as many elements."""
        problem = cls.of_sum(first, second, out, "")
        return problem._replace(aligned=are_aligned(first, second, out))


def _nothing_at(out: Array) -> Launch:
    return Launch(reduce.fill, 1, 1, (out, np.float32(0)))


def _by_atomics(method: str) -> Step:
    """A step whose blocks add their sums to one address by atomics."""
    make, tile = KERNELS[method]

    def launches(
        problem: LossProblem, first: Array, second: Array, out: Array, name: str
    ) -> list[Launch]:
        kernel = make(LOSSES[name], problem.scale)
        grid = ceil_div(problem.size, tile)
        return [_nothing_at(out), Launch(kernel, grid, THREADS, (first, second, out))]

    return Step(launches)


def _parts(problem: LossProblem) -> int:
    most = reduce.config_for().blocks * reduce.multiprocessors()
    return min(ceil_div(problem.size, TILE), most)


def _vectorised(
    problem: LossProblem, first: Array, second: Array, out: Array, name: str
) -> list[Launch]:
    blocks = _parts(problem)
    partial = workspace(blocks, np.float32)
    kernel = vectorised(LOSSES[name], problem.scale, problem.aligned)
    return [
        Launch(kernel, blocks, THREADS, (first, second, partial)),
        *reduce.LADDER.launches(partial, out, kind="sum"),
    ]


LADDER = Ladder(
    "loss", LossProblem.of_sum,
    {name: _by_atomics(name) for name in list(KERNELS)[:-1]} | {"vectorised": Step(_vectorised)},
    best=lambda problem: "vectorised",
)  # fmt: skip


def _bce_backward(wide: bool) -> Step:
    tile = THREADS * VECTOR if wide else THREADS

    def launches(
        problem: LossProblem, logits: Array, targets: Array, out: Array, scale: float
    ) -> list[Launch]:
        kernel = bce_backward(problem.scale, wide)
        arguments = logits, targets, np.float32(scale), out
        return [Launch(kernel, ceil_div(problem.size, tile), THREADS, arguments)]

    def refusal(problem: LossProblem) -> str:
        if problem.aligned or not wide:
            return ""
        return "accesses four elements at once, and an array begins between"

    return Step(launches, refusal)


BACKWARD = Ladder(
    "bce_gradient", LossProblem.of_gradient,
    {"each": _bce_backward(wide=False), "wide": _bce_backward(wide=True)},
    best=lambda problem: "wide" if problem.aligned else "each",
)  # fmt: skip


# --- the entry points -----------------------------------------------------------------------------


def _checked(name: str, first: ArrayFacts, second: ArrayFacts) -> None:
    names, types = ("mean", "log_variance"), (np.float32,)
    if name == "bce":
        names, types = ("logits", "targets"), (np.float32, np.uint8)
    holds(first, names[0])
    holds(second, names[1], *types)
    if first.shape != second.shape:
        raise ValueError(
            f"{names[1]} has the shape {second.shape}; it must have that of {names[0]}, "
            f"{first.shape}"
        )


def _result(first: ArrayFacts, second: ArrayFacts, name: str, method: str) -> Result:
    require_choice(name, "loss", LOSSES)
    require_choice(method, "method", LADDER.names)
    _checked(name, first, second)
    return (1,), np.float32


def _launches(first: Array, second: Array, out: Array, name: str, method: str) -> list[Launch]:
    if not first.size:
        return [_nothing_at(out)]
    pair = flat(first, "the first array"), flat(second, "the second array")
    return LADDER.launches(*pair, out, name=name, method=method)


_LOSS = EntryPoint(
    "loss", ("first", "second"), _result, _launches, scalar=True, empty=True,
    options=("name", "method"),
)  # fmt: skip


def loss(
    name: str, first: Array, second: Array, out: Array | None = None, method: str = "auto",
    stream: Stream = None,
) -> Array:  # fmt: skip
    """A loss summed over all elements, on the GPU (or the simulated one).

    Parameters
    ----------
    name : {"bce", "kl"}
    first, second : array of one shape
        For "bce" logits, float32, and targets, float32 from 0 to 1 or uint8 from 0 to 255; for "kl"
        means and log variances, float32. Arrays of NumPy, CuPy, PyTorch or numba.cuda; on the GPU
        in C order.
    out : array of one float32, optional
        Receives the loss, on the GPU; then the call does not wait.
    method : str
        One of `LADDER.names`; "auto" takes "vectorised".
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; without it the one of first's library.

    Returns
    -------
    `out`, if it is given; for CuPy and PyTorch an array without axes, where `first` is; else a
    numpy.float32, for which the call waits

    Raises
    ------
    TypeError
        For an argument that is no array, or elements of another type.
    ValueError
        For an unknown loss or method, shapes that differ, a wrong `out`, or strides.
    """
    return _LOSS.call((first, second), (name, method), out, stream)


loss.ladder = LADDER


def _bce_result(logits: ArrayFacts, targets: ArrayFacts, scale: float, method: str) -> Result:
    require_choice(method, "method", BACKWARD.names)
    _checked("bce", logits, targets)
    return logits.shape, np.float32


def _bce_launches(
    logits: Array, targets: Array, out: Array, scale: float, method: str
) -> list[Launch]:
    arrays = flat(logits, "logits"), flat(targets, "targets"), flat(out, "out")
    return BACKWARD.launches(*arrays, scale=scale, method=method)


def kl_launches(
    mean: Array, log_variance: Array, d_mean: Array, d_log_variance: Array, scale: float
) -> list[Launch]:
    """The launches of KL's gradient, for device arrays."""
    given = flat(mean, "mean"), flat(log_variance, "log_variance")
    found = flat(d_mean, "d_mean"), flat(d_log_variance, "d_log_variance")
    arguments = *given, np.float32(scale), *found
    return [Launch(kl_backward, ceil_div(mean.size, THREADS), THREADS, arguments)]


_NAMES = "logits", "targets"
_BCE = EntryPoint(
    "bce_gradient", _NAMES, _bce_result, _bce_launches, in_place=_NAMES,
    options=("scale", "method"),
)  # fmt: skip


def bce_gradient(
    logits: Array, targets: Array, scale: float = 1.0, out: Array | None = None,
    method: str = "auto", stream: Stream = None,
) -> Array:  # fmt: skip
    """The gradient of the "bce" loss by the logits, times `scale`; `method` is of `BACKWARD`."""
    return _BCE.call((logits, targets), (float(scale), method), out, stream)


bce_gradient.ladder = BACKWARD
