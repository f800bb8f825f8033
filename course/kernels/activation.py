"""Activation functions on the GPU, forward and backward: GELU, SiLU, sigmoid, ReLU, LeakyReLU.

>>> y = activation(x, "silu")              # NumPy in, NumPy out; GPU arrays stay there
>>> dx = activation_gradient(dy, x, "silu")

Each function is a device function of float32; arrays hold float32, float16 or bfloat16. `LADDER`
has the kernels that apply it: one element a thread, then several by wide loads. Each element is
loaded once and stored once; the memory traffic must hide the arithmetic.

Source: Hendrycks, Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415; Ramachandran, Zoph, Le,
"Searching for Activation Functions", arXiv:1710.05941. At minus infinity GELU and SiLU are -0,
their limit. The formulas as written give NaN there, infinity times 0, and so do PyTorch's releases
up to at least 2.12. NaN stays NaN.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from numba import float32, int32, int64

from course.backend import cuda
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.slots import name_of
from course.heuristics.activation import ActivationConfig, ElementProblem, config_for
from course.kernels.arrays import NUMBA_TYPES, VECTOR, Array, alike, are_aligned, flat
from course.kernels.steps import Ladder, Launch, Step, ceil_div, require_choice
from warpsim.ptx import grid_dependency_wait, load4, store4

ZERO, MINUS_ZERO, HALF, ONE = float32(0), float32(-0.0), float32(0.5), float32(1)
#: exp(x) = 2^(x log2(e)), and the GPU has an instruction for 2^x
LOG2_E = float32(1.4426950408889634)

# --- the upper tail of the normal distribution: a fast erf ----------------------------------------

#: log2 of the probability that a standard normal number exceeds t, as a polynomial in t; see
#: `upper_tail`. Fitted on 0 <= t <= 6, so that t times the probability has the least maximum error.
TAIL = (
    -0.99999988079, -1.15110969543, -0.459172219038, -0.0526030510664, 0.00721638929099,
    -0.000253436242929, -0.000138088362291, 2.92720233119e-05, -1.99190026251e-06,
)  # fmt: skip
T0, T1, T2, T3, T4, T5, T6, T7, T8 = map(float32, TAIL)
FAR = float32(16)  # from here on the tail is 0 in float32


@cuda.jit(device=True)
def upper_tail(t):
    """Probability that a standard normal number exceeds t, (1 - erf(t / sqrt(2))) / 2; t to 16.

    It is 2 to a polynomial of degree 8: eight fused multiply-adds and one instruction for the
    power. `math.erf` has two polynomials and chooses between them. The absolute error is below
    1e-7, also of t times the probability, which GELU needs. Beyond t = 6 the result falls to 0.
    """
    p = T8 * t + T7
    p = p * t + T6
    p = p * t + T5
    p = p * t + T4
    p = p * t + T3
    p = p * t + T2
    p = p * t + T1
    return math.exp2(p * t + T0)


# --- GELU -----------------------------------------------------------------------------------------

SQRT_HALF = float32(math.sqrt(0.5))
DENSITY = float32(1 / math.sqrt(2 * math.pi))  # of the normal distribution at 0
HALF_LOG2_E = float32(0.5 * math.log2(math.e))


@cuda.jit(device=True)
def gelu(x):
    """x times the normal distribution's probability below x: max(x, 0) - |x| tail(|x|)."""
    t = min(abs(x), FAR)
    right = MINUS_ZERO if x < ZERO else x
    return right - t * upper_tail(t)


@cuda.jit(device=True)
def gelu_gradient(grad, x):
    """grad (P + x p), with the normal distribution's probability P below x and density p at x."""
    t = min(abs(x), FAR)
    tail = upper_tail(t)
    below = tail if x < ZERO else ONE - tail
    clamped = -t if x < ZERO else t  # infinity times 0 would be NaN
    return grad * (below + clamped * DENSITY * math.exp2(-HALF_LOG2_E * x * x))


@cuda.jit(device=True)
def gelu_erf(x):
    """GELU as the formula has it, with the library's erf: what `gelu` is measured against."""
    y = max(x, -FAR) if x == x else x
    return HALF * y * (ONE + math.erf(y * SQRT_HALF))


@cuda.jit(device=True)
def gelu_erf_gradient(grad, x):
    """The gradient of `gelu_erf`, with the library's erf and exp."""
    y = clamped(x, FAR)
    below = HALF * (ONE + math.erf(y * SQRT_HALF))
    return grad * (below + y * DENSITY * math.exp(-HALF * y * y))


# --- GELU with tanh -------------------------------------------------------------------------------

TANH_SLOPE = float32(math.sqrt(2 / math.pi))
TANH_CUBE = float32(0.044715)
TWICE_SLOPE_LOG2_E = float32(2 * math.sqrt(2 / math.pi) * math.log2(math.e))
TANH_FAR = float32(10)  # exp of twice the argument is still finite


@cuda.jit(device=True)
def clamped(x, most):
    """x within -most and most; NaN stays NaN."""
    above = -most if x < -most else x
    return most if above > most else above


@cuda.jit(device=True)
def gelu_tanh(x):
    """x (1 + tanh(z)) / 2 with z = sqrt(2/pi) (x + 0.044715 x^3), an approximation of GELU.

    (1 + tanh(z)) / 2 is the sigmoid of 2 z. The result is off by up to 4.8e-4, near |x| = 2.7.
    """
    y = -FAR if x < -FAR else x
    return y / (ONE + math.exp2(-TWICE_SLOPE_LOG2_E * (y + TANH_CUBE * y * y * y)))


@cuda.jit(device=True)
def gelu_tanh_gradient(grad, x):
    """grad (s + x s (1 - s) 2 z'), s the sigmoid of 2 z; 1 - s as e s, without cancellation."""
    y = clamped(x, TANH_FAR)
    square = TANH_CUBE * y * y
    e = math.exp2(-TWICE_SLOPE_LOG2_E * y * (ONE + square))
    s = ONE / (ONE + e)
    slope = (TANH_SLOPE + TANH_SLOPE) * (ONE + float32(3) * square)
    return grad * (s + y * (e * s) * s * slope)


# --- Swish (SiLU), and what it is made of ---------------------------------------------------------

SILU_FAR = float32(87)  # exp of it is finite in float32
SILU_GONE = float32(128)  # exp of it is infinite: silu is -0 from -128 down


@cuda.jit(device=True)
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return ONE / (ONE + math.exp2(-LOG2_E * x))


@cuda.jit(device=True)
def sigmoid_gradient(grad, x):
    """grad s (1 - s)."""
    e = math.exp2(-LOG2_E * clamped(x, SILU_FAR))
    s = ONE / (ONE + e)
    return grad * ((e * s) * s)


@cuda.jit(device=True)
def silu(x):
    """Swish: x times the sigmoid of x."""
    y = -SILU_GONE if x < -SILU_GONE else x
    return y / (ONE + math.exp2(-LOG2_E * y))


@cuda.jit(device=True)
def silu_gradient(grad, x):
    """grad s (1 + x (1 - s)) with the sigmoid s; 1 - s as exp(-x) s, without cancellation."""
    y = clamped(x, SILU_FAR)
    e = math.exp2(-LOG2_E * y)
    s = ONE / (ONE + e)
    return grad * (s * (ONE + y * (e * s)))


@cuda.jit(device=True)
def relu(x):
    """x where it is above 0, else 0."""
    return ZERO if x <= ZERO else x


@cuda.jit(device=True)
def relu_gradient(grad, x):
    """grad where x is above 0, else 0."""
    return ZERO if x <= ZERO else grad


SLOPE = float32(0.2)  # of LeakyReLU below 0


@cuda.jit(device=True)
def leaky_relu(x):
    """x where it is above 0, else a fifth of it."""
    return x if x > ZERO else SLOPE * x


@cuda.jit(device=True)
def leaky_relu_gradient(grad, x):
    """grad where x is above 0, else a fifth of it; x may be the result, of the same sign."""
    return grad if x > ZERO else SLOPE * grad


#: name -> (function of x, its gradient, a function of grad and x)
FUNCTIONS: dict[str, tuple[Callable, Callable]] = {
    "gelu": (gelu, gelu_gradient),
    "gelu erf": (gelu_erf, gelu_erf_gradient),
    "gelu tanh": (gelu_tanh, gelu_tanh_gradient),
    "silu": (silu, silu_gradient),
    "sigmoid": (sigmoid, sigmoid_gradient),
    "relu": (relu, relu_gradient),
    "leaky relu": (leaky_relu, leaky_relu_gradient),
}


@cuda.jit(device=True)
def unchanged(x):
    """No activation."""
    return x


@cuda.jit(device=True)
def as_it_is(grad, x):
    """The gradient of no activation."""
    return grad


def function_of(activation: str | None, backward: bool = False) -> Callable:
    """The device function of an activation's name, or its gradient; ValueError for another name."""
    if activation is None:
        return as_it_is if backward else unchanged
    require_choice(activation, "activation", FUNCTIONS)
    return FUNCTIONS[activation][backward]


# --- the kernels ----------------------------------------------------------------------------------


EACH = 256  # threads of a block of step 1


def element_blocks(out: Array) -> tuple[int, int]:
    """Grid and block where a thread has one element; one block at least."""
    return max(1, ceil_div(out.size, EACH)), EACH


def in_place(out: Array, activation: str | None) -> list[Launch]:
    """The launch that applies an activation to an array on the device; none for None."""
    if activation is None:
        return []
    elements = flat(out, "out")
    return [Launch(each(function_of(activation)), *element_blocks(out), (elements, elements))]


@functools.cache
def each(function: Callable) -> Callable:
    """Step 1, of (x, out): one element a thread. Mapping: thread i computes element i."""

    @cuda.jit
    def activation_each(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(float32(x[i]))

    return activation_each


@functools.cache
def each_gradient(function: Callable) -> Callable:
    """Step 1 backward, of (grad, x, out)."""

    @cuda.jit
    def gradient_each(grad, x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(float32(grad[i]), float32(x[i]))

    return gradient_each


@cuda.jit(device=True)
def load_four(array, place, values, n):
    """Four neighbours of a flat array, into ``values[n]``."""
    four = load4(array, place)
    values[n, 0], values[n, 1], values[n, 2], values[n, 3] = four


@functools.cache
def wide(function: Callable, dtype: str, config: ActivationConfig, backward: bool = False) -> Any:
    """Step 2, of (x, out): several elements a thread, all loads in flight before the first result.

    Mapping: block b has tile b. In each access, neighbouring threads load neighbouring groups of
    four elements; arrays are aligned for that. Up to three elements after the last group go to
    single threads of the last block. x may be out. With `backward` the kernel is the same for
    (grad, x, out), where grad or x may be out.
    """
    element, accesses = NUMBA_TYPES[dtype], config.accesses
    step, tile, rows = config.threads * VECTOR, config.tile, accesses + 1

    @cuda.jit(device=True)
    def one(given, values, n, e):
        if backward:
            return element(function(float32(given[n, e]), float32(values[n, e])))
        return element(function(float32(values[n, e])))

    @cuda.jit(device=True)
    def all_of(grad, x, out):
        t = int32(cuda.threadIdx.x)
        first, single = int64(cuda.blockIdx.x) * tile + t * VECTOR, out.size - 1 - t
        alone = t < out.size % VECTOR and cuda.blockIdx.x == cuda.gridDim.x - 1
        given = cuda.local.array((rows, VECTOR), element)
        values = cuda.local.array((rows, VECTOR), element)
        for n in range(accesses):
            if first + (n * step + VECTOR) <= out.size:
                if backward:
                    load_four(grad, first + n * step, given, n)
                load_four(x, first + n * step, values, n)
        if alone:
            if backward:
                given[accesses, 0] = grad[single]
            values[accesses, 0] = x[single]
        for n in range(accesses):
            if first + (n * step + VECTOR) <= out.size:
                four = (
                    one(given, values, n, 0), one(given, values, n, 1),
                    one(given, values, n, 2), one(given, values, n, 3),
                )  # fmt: skip
                store4(out, first + n * step, four)
        if alone:
            out[single] = one(given, values, accesses, 0)

    @cuda.jit
    def activation_wide(x, out):
        grid_dependency_wait()  # here, not in all_of: `waits` looks at the kernel's own code
        all_of(x, x, out)

    @cuda.jit
    def gradient_wide(grad, x, out):
        grid_dependency_wait()
        all_of(grad, x, out)

    return gradient_wide if backward else activation_wide


@cuda.jit
def multiply(a, b, out):
    """a times b. After `sigmoid` it makes Swish in two kernels: 5 transfers an element, not 2."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = float32(a[i]) * float32(b[i])


# --- the ladders ----------------------------------------------------------------------------------


def _problem_of(*arrays: Array, name: str) -> ElementProblem:
    """The problem of flat arrays on the device, the last of which receives the result."""
    its = arrays[-1]
    return ElementProblem(its.size, name_of(its.dtype), are_aligned(*arrays), name)


def _between(problem: ElementProblem) -> str:
    return "" if problem.aligned else "accesses four elements at once, and an array begins between"


def _ladder(function: str, backward: bool) -> Ladder:
    make_each = each_gradient if backward else each

    def by_each(problem: ElementProblem, *arrays: Array, name: str) -> list[Launch]:
        return [Launch(make_each(FUNCTIONS[name][backward]), *element_blocks(arrays[-1]), arrays)]

    def by_four(problem: ElementProblem, *arrays: Array, name: str) -> list[Launch]:
        config = config_for(problem.dtype, problem.size)
        kernel = wide(FUNCTIONS[name][backward], problem.dtype, config, backward)
        return [Launch(kernel, max(1, ceil_div(problem.size, config.tile)), config.threads, arrays)]

    steps = {"each": Step(by_each), "wide": Step(by_four, _between)}
    return Ladder(
        function, _problem_of, steps, lambda problem: "wide" if problem.aligned else "each"
    )


LADDER = _ladder("activation", backward=False)
GRADIENT = _ladder("activation_gradient", backward=True)


# --- the entry points -----------------------------------------------------------------------------


def _entry(ladder: Ladder, *names: str) -> EntryPoint:
    """The entry point of a function whose arrays are all alike."""

    def result(*given: Any) -> Result:
        *arrays, name, method = given
        require_choice(name, "function", FUNCTIONS)
        require_choice(method, "method", ladder.names)
        return alike(dict(zip(names[::-1], arrays[::-1], strict=True)))

    def launches(*arrays: Array, name: str, method: str) -> list[Launch]:
        there = (flat(array, n) for array, n in zip(arrays, (*names, "out"), strict=True))
        return ladder.launches(*there, name=name, method=method)

    return EntryPoint(
        ladder.function, names, result, launches, in_place=names, options=("name", "method")
    )


_ENTRY, _GRADIENT = _entry(LADDER, "x"), _entry(GRADIENT, "grad", "x")


def activation(
    x: Array,
    name: str = "gelu",
    out: Array | None = None,
    method: str = "auto",
    stream: Stream = None,
) -> Array:
    """Apply an activation function to every element, on the GPU (or the simulated one).

    Parameters
    ----------
    x : array of any shape
        Of NumPy, CuPy, PyTorch or numba.cuda, float32, float16 or bfloat16. On the GPU in C
        order.
    name : str
        One of `FUNCTIONS`: "gelu", "gelu erf", "gelu tanh", "silu" (Swish), "sigmoid", "relu",
        "leaky relu" (0.2).
    out : array, optional
        Where to write, of x's shape and type; may be x.
    method : str
        One of `LADDER.names`: "auto" takes "wide", and "each" for slices that are not aligned to
        four elements.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; by default x's library's current one.

    Returns
    -------
    array
        `out`, if it is given; else of x's library, shape and dtype. An empty array launches
        nothing.

    Raises
    ------
    TypeError
        For an argument that is no array, or another dtype.
    ValueError
        For an unknown function or method, or an `out` or strides that do not fit.
    """
    return _ENTRY.call((x,), (name, method), out, stream)


activation.ladder = LADDER


def activation_gradient(
    grad: Array,
    x: Array,
    name: str = "gelu",
    out: Array | None = None,
    method: str = "auto",
    stream: Stream = None,
) -> Array:
    """The gradient of a loss by x; `grad` is that by the result. All else as for `activation`."""
    return _GRADIENT.call((grad, x), (name, method), out, stream)


activation_gradient.ladder = GRADIENT
