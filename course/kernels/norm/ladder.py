"""Normalise the rows of a matrix on the GPU (LayerNorm): the ladder, and the front door.

Each step stands beside its launch: 1 to 5 in `course.kernels.norm.first_steps`, 6, 7 and 9 in
`course.kernels.norm.registers`, 8 in `course.kernels.norm.long_rows`; 16-bit numbers have a ladder
of their own, `course.kernels.norm.halves`, whose last step "auto" takes. Gradients are in
`course.kernels.norm.backward` and `course.kernels.norm.backward_registers`.

>>> y = layer_norm(x, gamma, beta)                          # NumPy in, NumPy out
>>> layer_norm(x, gamma, beta, out=y, activation="gelu")    # CuPy or Numba arrays stay there
>>> layer_norm(x, method="one pass")                        # a certain step of LADDER
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numba import float32, void

from course.backend import cuda
from course.door.door import Door, Result, Stream
from course.door.layout import name_of, workspace
from course.door.libraries import Seen
from course.kernels.arrays import (
    WORDS,
    Array,
    are_aligned,
    checked,
    in_order,
    known,
    matrix,
    rows_are_aligned,
)
from course.kernels.launching import allow_shared, room
from course.kernels.norm.first_steps import ACTIVATIONS, FIRST_STEPS, Form, NormStep
from course.kernels.norm.halves import prepared_wide, takes_wide
from course.kernels.norm.long_rows import IN_BOTH, longest_split
from course.kernels.norm.registers import ELEMENTS, IN_REGISTERS, ROW_THREADS, SHORT

LONGEST = 2**24  # columns: as many as float32 counts exactly
BOTH = "registers and shared memory"

#: The steps by name, in the order of the ladder.
LADDER: dict[str, NormStep] = {
    **FIRST_STEPS,
    "registers": IN_REGISTERS["registers"],
    "several rows": IN_REGISTERS["several rows"],
    BOTH: IN_BOTH,
    "long": IN_REGISTERS["long"],
}
#: The longest rows in registers alone, aligned or not, where shared memory can have a part of them.
ALONE = {True: 16_384, False: 8192}
#: Rows that begin anywhere, from here on: all but at most 66 numbers are accessed four at a time.
#: The block must have three warps for those.
SHIFTED = 4096


def method_for(
    method: str,
    columns: int,
    aligned: bool = True,
    kind: str = "float32",
    given: tuple[int, bool] | None = None,
    whole: bool = True,
) -> str:
    """The step that `layer_norm` launches for a method, by the length of the rows.

    `given`: what `room` says of another than the current GPU. `whole`: no gaps are between the rows
    and the first begins where four numbers can be accessed.

    Raises
    ------
    ValueError
        For a method that does not exist, or that does not take such rows on this GPU.
    """
    known(method, "method", ("auto", *LADDER))
    if method not in ("auto", BOTH):
        return method
    if method == "auto" and columns <= SHORT:
        return "several rows"
    shared, copies = given or room()
    fits = copies and kind == "float32" and whole
    if method == BOTH and not (fits and (aligned or columns >= SHIFTED)):
        wrong = (
            "the GPU's compute capability is below 8.0" if not copies
            else f"the numbers are {kind}, not float32" if kind != "float32"
            else "rows have gaps between them, or begin at no multiple of 16 bytes" if not whole
            else f"{columns:,} is no multiple of 4 and below {SHIFTED:,}"
        )  # fmt: skip
        raise ValueError(
            f"the method {BOTH!r} cannot copy these rows of {columns:,} numbers to shared memory "
            f"four at a time: {wrong}; choose 'registers', 'long' or 'auto'"
        )
    if method == BOTH:
        return method
    fits &= columns <= longest_split(shared)
    most = ROW_THREADS[-1] * ELEMENTS[aligned][-1]
    if columns <= (min(most, ALONE[aligned]) if fits else most):
        return "registers"
    return BOTH if fits else "long"


def can_keep(kind: str) -> bool:
    """Whether L2 can be asked to keep rows: float32, compute capability 8.0."""
    return kind == "float32" and room()[1]


def _result(
    x: Seen, gamma: Seen | None, beta: Seen | None, eps: float, method: str, activation: str | None
) -> Result:
    check_rows(x, {"gamma": gamma, "beta": beta}, eps)
    known(method, "method", ("auto", *LADDER))
    check_activation(activation)
    return x.shape, x.dtype


def _launches(
    x: Array, gamma: Array | None, beta: Array | None, out: Array, *options: Any, stream: Stream
) -> list[tuple[Callable, tuple]]:
    eps, method, activation = options
    for name, factor in (("gamma", gamma), ("beta", beta)):
        if factor is not None:
            in_order(factor, name)
    rows, target = matrix(x, "x"), matrix(out, "out")
    return prepared(rows, gamma, beta, eps, target, method, activation, stream)


_DOOR = Door(
    "layer_norm", ("x", "gamma", "beta"), _result, _launches, ("gamma", "beta"), in_place=("x",)
)


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

    Arrays that are on the GPU stay where they are. Sums are float32, whatever is stored. NaN and
    infinity make their whole row NaN, as in PyTorch.

    Parameters
    ----------
    x : array, shape (..., columns), float32, float16 or bfloat16
        Of NumPy, CuPy, PyTorch or numba.cuda; on the GPU a row's numbers lie side by side, and
        rows of a matrix may lie apart.
    gamma, beta : array, shape (columns,), optional
        Of x's type or float32; beside float32, of any of the three. Without them as if they were
        ones and zeros.
    eps : float
        Added to the variance, 0 or more.
    out : array, optional
        Where to write the result, of x's shape and type; may be x.
    method : str
        "auto", or a step of `LADDER`.
    activation : str, optional
        A name of `course.kernels.activation.FUNCTIONS`, such as "gelu", applied to the result; the
        steps from "registers" on do so before they write it.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; without it the one that x's library is at.

    Returns
    -------
    array, of x's shape and type
        `out`, if it is given; else of NumPy if x is, else of x's kind. Work on the GPU may still be
        under way when it is returned.

    Raises
    ------
    ValueError
        When an array has a wrong shape or layout, rows have no numbers or too many for the step,
        eps is negative, or there is no such method or activation.
    TypeError
        For what is no array, and for numbers of another type.
    """
    if isinstance(eps, np.generic):  # which would be compared in its own precision
        eps = eps.item()
    return _DOOR.enter((x, gamma, beta), (eps, method, activation), out, stream)


def prepared(
    x: Array,
    gamma: Array | None,
    beta: Array | None,
    eps: float,
    out: Array,
    method: str = "auto",
    activation: str | None = None,
    stream: Any = 0,
) -> list[tuple[Callable, tuple]]:
    """What `layer_norm` launches, for arrays on the GPU: configured kernels and their arguments.

    x and out are matrices. There are two launches where a step that is not fused is followed by an
    activation, else one.
    """
    rows, columns = x.shape
    if method == "auto" and activation is None and takes_wide(x, gamma, beta, out):
        return prepared_wide(x, gamma, beta, eps, out, stream)
    aligned = rows_are_aligned(x, out, gamma, beta)
    matters = method == BOTH or (method == "auto" and columns > min(ALONE.values()))
    whole = not matters or _are_whole(x, out)
    method = method_for(method, columns, aligned, name_of(x.dtype), whole=whole)
    step = LADDER[method]
    fused = activation if step.fused else None
    kind = name_of(out.dtype)
    form = Form(
        kind, aligned, 0, gamma is not None, beta is not None, fused, in_l2=can_keep(kind)
    )  # fmt: skip
    if gamma is None:
        gamma = constant(1, 1 if step.fused else columns)
    if beta is None:
        beta = constant(0, 1 if step.fused else columns)
    if method == BOTH:
        form = replace(form, shifted=not aligned, types=_types(x, gamma, beta, out))
    launches: list[tuple[Callable, tuple]] = []
    if form.shifted:
        width = -(-columns // 4) * 4
        copies = [
            workspace(4 * width if there else 1, np.float32) for there in (form.gamma, form.beta)
        ]
        if form.gamma or form.beta:
            call = shifted_factors[-(-width // 256), 256, stream]
            launches.append((call, (gamma, beta, *copies)))
        gamma, beta = copies
    made = step.launch(rows, columns, form)
    if made.shared:
        allow_shared(made.kernel, form.types, made.shared)
    call = made.kernel[made.blocks, made.threads, stream, made.shared]
    launches.append((call, (x, gamma, beta, np.float32(eps), out)))
    if activation is not None and not step.fused:
        grid = -(-columns // 256), min(rows, 65_535)
        launches.append((activate(activation)[grid, 256, stream], (out,)))
    return launches


@cuda.jit
def shifted_factors(gamma, beta, gammas, betas):
    """Four copies of gamma, and of beta, one after the other: copy r begins at its number r.

    A thread makes one number of each; copies without room for a number are not made.
    """
    place = cuda.grid(1)
    for start in range(4):
        if place < gammas.size // 4:
            near = min(place + start, gamma.size - 1)
            gammas[start * (gammas.size // 4) + place] = float32(gamma[near])
        if place < betas.size // 4:
            near = min(place + start, beta.size - 1)
            betas[start * (betas.size // 4) + place] = float32(beta[near])


@functools.cache
def activate(activation: str) -> Callable:
    """A kernel that applies an activation to a matrix, in place: what fusing saves."""
    function = ACTIVATIONS[activation]

    @cuda.jit
    def activate_matrix(matrix):
        column = cuda.grid(1)
        if column < matrix.shape[1]:
            for row in range(cuda.blockIdx.y, matrix.shape[0], cuda.gridDim.y):
                matrix[row, column] = function(float32(matrix[row, column]))

    return activate_matrix


# --- what is given --------------------------------------------------------------------------------


def check_activation(activation: str | None) -> None:
    """Refuse what is no activation."""
    if activation not in tuple(ACTIVATIONS):
        names = ", ".join(map(repr, ACTIVATIONS))
        raise ValueError(f"there is no activation {activation!r}: choose one of {names}")


def check_rows(x: Seen, factors: dict[str, Seen | None], eps: float) -> int:
    """The length of the rows."""
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
                f"{factor.library.convert(name, held)}"
            )
    if not isinstance(eps, int | float | np.number):
        raise TypeError(f"eps is {type(eps).__name__}: give a number, 0 or more")
    if not eps >= 0:
        raise ValueError(f"eps is {eps}: it is added to the variance and must be 0 or more")
    return shape[-1]


def _types(x: Array, gamma: Array, beta: Array, out: Array) -> Any:
    """Signature of a step's kernel for arrays on the GPU, whose rows have no gaps between them."""
    x, gamma, beta, out = (WORDS[name_of(array.dtype)] for array in (x, gamma, beta, out))
    return void(x[:, ::1], gamma[::1], beta[::1], float32, out[:, ::1])


def _are_whole(*arrays: Array) -> bool:
    """Whether no gaps are between rows, and the first begins where four numbers can be accessed."""
    return all(
        array.is_c_contiguous() and are_aligned(array.reshape(array.size)) for array in arrays
    )


def constant(value: int, length: int) -> Array:
    """A number again and again, on the current GPU; kept."""
    return _constant(value, length, cuda.get_current_device().id)


@functools.lru_cache(16)
def _constant(value: int, length: int, device: int) -> Array:
    return cuda.to_device(np.full(length, value, np.float32))
