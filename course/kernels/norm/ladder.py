"""Normalise the rows of a matrix on the GPU (LayerNorm): the ladder, and the entry point.

Steps 1 to 5 are in `first_steps` of this package, 6, 7, 9 and 10 in `registers`, 8 in `long_rows`,
and "half", for 16-bit elements, in `half`. Which step "auto" takes, and how threads share rows, is
chosen in `course.heuristics.norm`. Gradients are in `backward` and `backward_registers`.

>>> y = layer_norm(x, gamma, beta)                          # NumPy in, NumPy out
>>> layer_norm(x, gamma, beta, out=y, activation="gelu")    # CuPy or Numba arrays stay there
>>> layer_norm(x, method="one pass")                        # a certain step of LADDER
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numba import float32

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Stream
from course.dispatch.slots import name_of, workspace
from course.heuristics.norm import REGISTERS_AND_SHARED, NormProblem, best, both_refusal
from course.kernels.activation import function_of
from course.kernels.arrays import (
    MOST,
    Array,
    are_aligned,
    checked,
    in_order,
    matrix,
    rows_are_aligned,
)
from course.kernels.norm.first_steps import FIRST_STEPS, NormStep, or_constant
from course.kernels.norm.half import HALF, eights_refusal
from course.kernels.norm.long_rows import in_both
from course.kernels.norm.registers import IN_REGISTERS
from course.kernels.steps import Ladder, Launch, ceil_div, configured, require_choice, round_up

LONGEST = 2**24  # columns: float32 counts exactly up to here


def problem_of(
    x: Array, gamma: Array | None, beta: Array | None, out: Array, eps: float,
    activation: str | None,
) -> NormProblem:  # fmt: skip
    """The problem of matrices on the device."""
    whole = all(one.is_c_contiguous() and are_aligned(one.reshape(one.size)) for one in (x, out))
    return NormProblem(
        *x.shape, name_of(out.dtype), rows_are_aligned(x, out, gamma, beta), whole,
        eights_refusal(x, gamma, beta, out), gamma is not None, beta is not None, activation,
    )  # fmt: skip


# --- rows in registers and shared memory ----------------------------------------------------------


def _both(p, x, gamma, beta, out, eps, activation):
    variant = replace(p.variant, shifted=not p.aligned)
    gamma, beta = or_constant(gamma, 1, 1), or_constant(beta, 0, 1)
    first = []
    if variant.shifted:
        width = round_up(p.columns, 4)
        copies = [
            workspace(4 * width if there else 1, np.float32)
            for there in (variant.gamma, variant.beta)
        ]
        if variant.gamma or variant.beta:
            first.append(Launch(shifted_factors, ceil_div(width, 256), 256, (gamma, beta, *copies)))
        gamma, beta = copies
    made = in_both(p.rows, p.columns, variant)
    arguments = x, gamma, beta, np.float32(eps), out
    return [*first, Launch(made.kernel, made.blocks, made.threads, arguments, made.shared)]


@cuda.jit
def shifted_factors(gamma, beta, gammas, betas):
    """Four copies of gamma, and of beta, one after the other: copy r begins with its element r.

    A thread writes one element of each copy. An array of fewer than four elements gets no copies.
    """
    place = cuda.grid(1)
    for start in range(4):
        if place < gammas.size // 4:
            clamped = min(place + start, gamma.size - 1)
            gammas[start * (gammas.size // 4) + place] = float32(gamma[clamped])
        if place < betas.size // 4:
            clamped = min(place + start, beta.size - 1)
            betas[start * (betas.size // 4) + place] = float32(beta[clamped])


# --- an activation that is not fused --------------------------------------------------------------


@functools.cache
def activate(activation: str) -> Callable:
    """A kernel that applies an activation to a matrix, in place: the launch that fusing saves."""
    function = function_of(activation)

    @cuda.jit
    def activate_matrix(matrix):
        column = cuda.grid(1)
        if column < matrix.shape[1]:
            for row in range(cuda.blockIdx.y, matrix.shape[0], cuda.gridDim.y):
                matrix[row, column] = function(float32(matrix[row, column]))

    return activate_matrix


def _activated(p, x, gamma, beta, out, eps, activation):
    if activation is None:
        return []
    grid = ceil_div(p.columns, 256), min(p.rows, MOST)
    return [Launch(activate(activation), grid, 256, (out,))]


# --- the ladder -----------------------------------------------------------------------------------


LADDER = Ladder(
    "layer_norm",
    problem_of,
    {
        **{name: step.then(_activated) for name, step in FIRST_STEPS.items()},
        "registers": IN_REGISTERS["registers"],
        "several rows": IN_REGISTERS["several rows"],
        REGISTERS_AND_SHARED: NormStep(_both, both_refusal, launch=in_both),
        "long": IN_REGISTERS["long"],
        "clusters": IN_REGISTERS["clusters"],
        "half": HALF.then(_activated),
    },
    lambda problem: best(problem, lambda step: not LADDER[step].lacks(problem)),
)


# --- the entry point ------------------------------------------------------------------------------


def _result(x, gamma, beta, eps, method, activation):
    check_rows(x, {"gamma": gamma, "beta": beta}, eps)
    require_choice(method, "method", LADDER.names)
    function_of(activation)
    return x.shape, x.dtype


def factors_in_order(gamma: Array | None, beta: Array | None) -> None:
    """Refuse factors on the device that are not in C order."""
    for name, factor in (("gamma", gamma), ("beta", beta)):
        if factor is not None:
            in_order(factor, name)


def _launches(x, gamma, beta, out, **options):
    factors_in_order(gamma, beta)
    return LADDER.launches(matrix(x, "x"), gamma, beta, matrix(out, "out"), **options)


_ENTRY = EntryPoint(
    "layer_norm", ("x", "gamma", "beta"), _result, _launches, ("gamma", "beta"), in_place=("x",),
    options=("eps", "method", "activation"),
)  # fmt: skip


def layer_norm(
    x: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
    eps: float = 1e-5,
    out: Array | None = None,
    method: str = "auto",
    activation: str | None = None,
    stream: Stream = None,
) -> Array:
    """Normalise each row, ``(x - mean) / sqrt(variance + eps) * gamma + beta``, on the GPU.

    Arrays on the GPU stay there. Sums are float32, whatever the arrays hold. NaN and infinity make
    their whole row NaN, as in PyTorch.

    Parameters
    ----------
    x : array, shape (..., columns), float32, float16 or bfloat16
        Of NumPy, CuPy, PyTorch or numba.cuda. On the GPU each row is contiguous; the rows of a
        matrix may be strided.
    gamma, beta : array, shape (columns,), optional
        Of x's dtype or float32; where x is float32, of any of the three dtypes. By default ones
        and zeros.
    eps : float
        Added to the variance, 0 or more.
    out : array, optional
        Where to write the result, of x's shape and dtype; may be x.
    method : str
        One of `LADDER.names`: "auto" takes the fastest for rows of this length.
    activation : str, optional
        A name of `course.kernels.activation.FUNCTIONS`, such as "gelu", applied to the result. The
        steps from "registers" on fuse it, except "half"; the others launch one more kernel.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; by default x's library's current one.

    Returns
    -------
    array, of x's shape and dtype
        `out`, if it is given; else of x's library. Work on the GPU may still be in flight when it
        is returned.

    Raises
    ------
    ValueError
        When an array has a wrong shape or layout, rows have no elements or too many for the step,
        eps is negative, or there is no such method or activation.
    TypeError
        For an argument that is no array, or another dtype.
    """
    if isinstance(eps, np.generic):  # it would be compared in its own precision
        eps = eps.item()
    return _ENTRY.call((x, gamma, beta), (eps, method, activation), out, stream)


layer_norm.ladder = LADDER


# --- as lesson 13 called it before version 0.2 ----------------------------------------------------


def prepared(
    x: Array, gamma: Array | None, beta: Array | None, eps: float, out: Array,
    method: str = "auto", activation: str | None = None, stream: Any = 0,
) -> list[tuple[Callable, tuple]]:  # fmt: skip
    """The launches of `layer_norm` for matrices on the GPU: configured kernels, and arguments."""
    arrays = x, gamma, beta, out
    launches = LADDER.launches(*arrays, eps=eps, method=method, activation=activation)
    return configured(launches, stream)


# --- what is given --------------------------------------------------------------------------------


def check_rows(x: ArrayFacts, factors: dict[str, ArrayFacts | None], eps: float) -> int:
    """The length of the rows; TypeError or ValueError where arguments do not fit."""
    shape = checked(x, "x").shape
    if not shape or not 1 <= shape[-1] <= LONGEST:
        raise ValueError(
            f"x has the shape {shape}: its rows, along the last axis, must have from 1 to "
            f"{LONGEST:,} numbers"
        )
    for name, factor in factors.items():
        if factor is None:
            continue
        if checked(factor, name).shape != shape[-1:]:
            raise ValueError(
                f"{name} has the shape {factor.shape}; x has rows of {shape[-1]} numbers, "
                f"so it must be {shape[-1:]}"
            )
        held = name_of(x.dtype)
        if factor.dtype not in (x.dtype, np.float32) and held != "float32":
            raise TypeError(
                f"{name} holds {name_of(factor.dtype)}, x {held}: of types of 16 bits take one, "
                f"{factor.library.convert(name, held, factor.dtype)}"
            )
    if not isinstance(eps, int | float | np.number):
        raise TypeError(f"eps is {type(eps).__name__}: give a number, 0 or more")
    if not eps >= 0:
        raise ValueError(f"eps is {eps}: it is added to the variance and must be 0 or more")
    return shape[-1]
