"""Normalise the rows of a matrix on the GPU (LayerNorm), and go back: a ladder, and front doors.

Steps 1 to 5 are in `course.kernels.norm_steps`, 6 and 7 in `course.kernels.norm_rows`, 8 and 9 in
`course.kernels.norm_long`, the gradients in `course.kernels.norm_backward`. How a step is launched
says `course.kernels.norm_ladder`.

>>> y = layer_norm(x, gamma, beta)                          # NumPy in, NumPy out
>>> layer_norm(x, gamma, beta, out=y, activation="gelu")    # CuPy or Numba arrays stay there
>>> layer_norm(x, method="one pass")                        # a certain step of LADDER
>>> dx, dgamma, dbeta = layer_norm_backward(dy, x, gamma)
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from course.backend import cuda
from course.kernels import norm_backward, norm_rows
from course.kernels.arrays import (
    Array,
    are_aligned,
    checked,
    empty_like,
    handed_back,
    on_device,
    target_for,
)  # fmt: skip
from course.kernels.norm_ladder import BOTH, LADDER, can_keep, method_for
from course.kernels.norm_long import rows_in_both
from course.kernels.norm_rows import ACTIVATIONS, Form
from course.kernels.norm_shapes import (
    ALONE,
    BACKWARD_ELEMENTS,
    BACKWARD_THREADS,
    BLOCKS,
    IN_L2,
    backward_shape,
    split_for,
)  # fmt: skip
from course.kernels.norm_split import form_of, shifted_factors
from course.models.shared_limit import allow_shared

LONGEST = 2**24  # columns: as many as float32 counts exactly


# --- forward --------------------------------------------------------------------------------------


def layer_norm(
    x: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
    eps: float = 1e-5,
    out: Array | None = None,
    method: str = "auto",
    activation: str | None = None,
) -> Array:
    """Normalise each row, ``(x - mean) / sqrt(variance + eps) * gamma + beta``, on the GPU.

    Arrays that are on the GPU stay where they are. Sums are float32, whatever is stored. NaN and
    infinity make their whole row NaN, as in PyTorch.

    Parameters
    ----------
    x : array, shape (..., columns), float32 or float16
        Of NumPy, CuPy or numba.cuda; on the GPU a row's numbers lie side by side, and rows of a
        matrix may lie apart.
    gamma, beta : array, shape (columns,), float32 or float16, optional
        Without them as if they were ones and zeros.
    eps : float
        Added to the variance, 0 or more.
    out : array, optional
        Where to write the result, of x's shape and type; may be x.
    method : str
        "auto", or a step of `LADDER`.
    activation : str, optional
        A name of `course.kernels.activation.FUNCTIONS`, such as "gelu", applied to the result; the
        steps from "registers" on do so before they write it.

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
    _check_rows(x, {"gamma": gamma, "beta": beta}, eps)
    if out is not None:
        checked(out, "out", like=x)
    if method not in ("auto", *LADDER):
        raise ValueError(f"there is no method {method!r}: choose auto, {', '.join(LADDER)}")
    if activation not in ACTIVATIONS:
        known = ", ".join(repr(name) for name in ACTIVATIONS)
        raise ValueError(f"there is no activation {activation!r}: choose one of {known}")
    target = target_for(out, x, tuple(x.shape), x.dtype)
    if x.size:
        matrices = _matrix(x, "x"), _matrix(target, "out")
        factors = [
            None if g is None else on_device(g, n) for g, n in ((gamma, "gamma"), (beta, "beta"))
        ]
        for launch, arguments in prepared(
            matrices[0], *factors, eps, matrices[1], method, activation
        ):
            launch(*arguments)
    return handed_back(target, out, x)


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
    aligned = _are_aligned(x, out, gamma, beta)
    matters = method == BOTH or (method == "auto" and columns > min(ALONE.values()))
    whole = not matters or _are_whole(x, out)
    method = method_for(method, columns, aligned, str(x.dtype), whole=whole)
    step = LADDER[method]
    fused = activation if step.fused else None
    kind = str(out.dtype)
    form = Form(
        kind, aligned, 0, gamma is not None, beta is not None, fused, in_l2=can_keep(kind)
    )  # fmt: skip
    if gamma is None:
        gamma = _constant(1, 1 if step.fused else columns)
    if beta is None:
        beta = _constant(0, 1 if step.fused else columns)
    if method == BOTH:
        form = replace(form, shifted=not aligned, types=_types(x, gamma, beta, out))
    launches: list[tuple[Callable, tuple]] = []
    if form.shifted:
        width = -(-columns // 4) * 4
        copies = [
            cuda.device_array(4 * width if there else 1, np.float32)
            for there in (form.gamma, form.beta)
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


@functools.cache
def activate(activation: str) -> Callable:
    """A kernel that applies an activation to a matrix, in place: what fusing saves."""
    function = ACTIVATIONS[activation]
    float32 = norm_rows.float32

    @cuda.jit
    def activate_matrix(matrix):
        column = cuda.grid(1)
        if column < matrix.shape[1]:
            for row in range(cuda.blockIdx.y, matrix.shape[0], cuda.gridDim.y):
                matrix[row, column] = function(float32(matrix[row, column]))

    return activate_matrix


# --- backward -------------------------------------------------------------------------------------

BACKWARD = ("two kernels", "registers")


def layer_norm_backward(
    dy: Array,
    x: Array,
    gamma: Array | None = None,
    eps: float = 1e-5,
    parameters: bool = True,
    method: str = "auto",
) -> tuple[Array, Array | None, Array | None]:
    """The gradients of `layer_norm` without an activation: of x, of gamma and of beta.

    Parameters
    ----------
    dy : array, shape (..., columns)
        The gradient of the result; of x's shape and type.
    x, gamma, eps
        As given to `layer_norm`.
    parameters : bool
        Whether dgamma and dbeta are wanted.
    method : str
        "auto", or one of `BACKWARD`; "registers" takes rows as `backward_shape` does.

    Returns
    -------
    dx : array, of x's shape and type
    dgamma, dbeta : array or None, shape (columns,)
        Of gamma's type; without gamma of x's.

    Raises
    ------
    ValueError, TypeError
        As `layer_norm`.
    """
    columns = _check_rows(x, {"gamma": gamma}, eps)
    checked(dy, "dy", like=x)
    if method not in ("auto", *BACKWARD):
        raise ValueError(f"there is no method {method!r}: choose auto, {', '.join(BACKWARD)}")
    dx = empty_like(x, tuple(x.shape), x.dtype)
    sums: list[Array | None] = [None, None]
    if parameters:
        dtype = x.dtype if gamma is None else gamma.dtype
        sums = [empty_like(x, (columns,), dtype) for _ in range(2)]
    if x.size:
        arrays = [_matrix(array, name) for array, name in ((dy, "dy"), (x, "x"), (dx, "dx"))]
        there = None if gamma is None else on_device(gamma, "gamma")
        made = [None if some is None else on_device(some, "a sum") for some in sums]
        for launch, arguments in prepared_backward(*arrays, there, eps, *made, method=method):
            launch(*arguments)
    elif parameters:
        for some in sums:
            on_device(some, "a sum").copy_to_device(np.zeros(columns, some.dtype))
    results = [None if some is None else handed_back(some, None, x) for some in (dx, *sums)]
    return results[0], results[1], results[2]


def prepared_backward(
    dy: Array,
    x: Array,
    dx: Array,
    gamma: Array | None,
    eps: float,
    dgamma: Array | None,
    dbeta: Array | None,
    method: str = "auto",
    stream: Any = 0,
) -> list[tuple[Callable, tuple]]:
    """What `layer_norm_backward` launches, for arrays on the GPU, as `prepared`.

    Memory for the sums over some of the rows is made here, and lives as long as the list.
    """
    rows, columns = x.shape
    parameters, eps = dgamma is not None, np.float32(eps)
    most = BLOCKS * cuda.get_current_device().MULTIPROCESSOR_COUNT
    across = -(-columns // norm_backward.COLUMNS)
    block = norm_backward.COLUMNS, norm_backward.DOWN
    launches: list[tuple[Callable, tuple]] = []
    aligned = _are_aligned(dy, x, dx, gamma)
    if method == "auto":
        most_columns = BACKWARD_THREADS * BACKWARD_ELEMENTS[aligned][-1]
        method = "registers" if columns <= most_columns else "two kernels"
    if method == "registers":
        shape = backward_shape(columns, aligned)
        blocks = min(-(-rows // shape.rows), most)
        parts = blocks * shape.rows
    else:
        parts = min(-(-rows // norm_backward.DOWN), 64)
    shape_of_sums = (parts if parameters else 1, columns)
    some = [cuda.device_array(shape_of_sums, np.float32) for _ in range(2)]
    if method == "registers":
        full = shape.full(columns, aligned)
        form = Form(str(dx.dtype), aligned, full, gamma is not None)
        kernel = norm_backward.backward_in_registers(shape, form, parameters)
        factor = _constant(1, 1) if gamma is None else gamma
        call = kernel[blocks, shape.threads, stream]
        launches.append((call, (dy, x, factor, eps, dx, *some)))
    else:
        moments = cuda.device_array((rows, 2), np.float32)
        factor = _constant(1, columns) if gamma is None else gamma
        call = norm_backward.backward_of_rows[rows, norm_backward.THREADS, stream]
        launches.append((call, (dy, x, factor, eps, dx, moments)))
        if parameters:
            call = norm_backward.backward_of_columns[(across, parts), block, stream]
            launches.append((call, (dy, x, moments, *some)))
    if parameters:
        call = norm_backward.column_sums[across, block, stream]
        launches += [(call, (some[0], dgamma)), (call, (some[1], dbeta))]
    return launches


# --- compiled ahead -------------------------------------------------------------------------------

#: Lengths of rows, aligned or not, by what is stored: each number of elements a thread once.
COMPILED = {
    "float32": (
        (96, True), (768, True), (1000, False), (4096, True), (5000, True), (16_384, True),
        (16_001, False), (32_768, True), (65_536, True), (65_535, False),
    ),
    "float16": ((768, True), (1000, False), (4096, True), (65_536, True)),
}  # fmt: skip


def made_kernels() -> dict[str, tuple]:
    """Kernels that are made for a shape and a form: with their types, and the oldest capability."""
    found: dict[str, tuple] = {"activate, gelu": (activate("gelu"), f"void({_SUMS})")}
    for kind, lengths in COMPILED.items():
        rows, columns = f"{kind}[:, ::1]", f"{kind}[::1]"
        types = f"void({rows}, {columns}, {columns}, float32, {rows})"
        back = f"void({rows}, {rows}, {columns}, float32, {rows}, {_SUMS}, {_SUMS})"
        for length, aligned in lengths:
            where = f"{length}{'' if aligned else ' unaligned'}, {kind}"
            step = LADDER[method_for("auto", length, aligned, kind, given=(0, False))]
            for activation in (None, "gelu") if length in (768, 4096) else ("gelu",):
                name = f"{'rows' if activation is None else 'rows, gelu'}, {where}"
                form = Form(kind, aligned, activation=activation)
                found[name] = step.launch(1, length, form).kernel, types
                if aligned and kind == "float32" and length <= IN_L2:
                    kernel = step.launch(1, length, replace(form, in_l2=True)).kernel
                    found[f"{name}, kept in L2"] = kernel, types, (8, 0)
            if length <= BACKWARD_THREADS * BACKWARD_ELEMENTS[aligned][-1]:
                shape = backward_shape(length, aligned)
                form = Form(kind, aligned, shape.full(length, aligned))
                kernel = norm_backward.backward_in_registers(shape, form, True)
                found[f"backward, {where}"] = kernel, back
            if kind == "float32" and length > ALONE[aligned]:
                form = Form(kind, aligned, activation="gelu", shifted=not aligned)
                split = split_for(length, 2**18, form.shifted)
                kernel = rows_in_both(split, form_of(split, form, length))
                found[f"rows in both, gelu, {where}"] = kernel, types, (8, 0)
    return found


_SUMS = "float32[:, ::1]"


# --- arrays ---------------------------------------------------------------------------------------


def _check_rows(x: Array, factors: dict[str, Array | None], eps: float) -> int:
    """The length of the rows."""
    shape = tuple(checked(x, "x").shape)
    if not shape or not 1 <= shape[-1] <= LONGEST:
        raise ValueError(
            f"x has the shape {shape}: its rows, along the last axis, must have from 1 to "
            f"{LONGEST:,} numbers"
        )
    for name, factor in factors.items():
        if factor is not None and tuple(checked(factor, name).shape) != shape[-1:]:
            raise ValueError(
                f"{name} has the shape {tuple(factor.shape)}; x has rows of {shape[-1]} numbers, "
                f"so it must be {shape[-1:]}"
            )
    if not eps >= 0:
        raise ValueError(f"eps is {eps}: it is added to the variance and must be 0 or more")
    return shape[-1]


def _types(x: Array, gamma: Array, beta: Array, out: Array) -> str:
    """Signature of a step's kernel for arrays on the GPU, whose rows have no gaps between them."""
    rows, more_rows = (f"{array.dtype}[:, ::1]" for array in (x, out))
    return f"void({rows}, {gamma.dtype}[::1], {beta.dtype}[::1], float32, {more_rows})"


def _matrix(array: Array, name: str) -> Array:
    """An array as (rows, columns), on the GPU."""
    there = on_device(array, name, rows=array.ndim == 2)
    if there.ndim == 2:
        return there
    return there.reshape(there.size // there.shape[-1], there.shape[-1])


def _are_aligned(*arrays: Array | None) -> bool:
    """Whether whole rows can be accessed four numbers at a time, of those arrays that are there."""
    there = [array for array in arrays if array is not None]
    return there[0].shape[-1] % 4 == 0 and are_aligned(*there)


def _are_whole(*arrays: Array) -> bool:
    """Whether no gaps are between rows, and the first begins where four numbers can be accessed."""
    return all(
        array.is_c_contiguous() and are_aligned(array.reshape(array.size)) for array in arrays
    )


@functools.lru_cache(16)
def _constant(value: int, length: int) -> Array:
    """A number again and again, on the GPU; kept."""
    return cuda.to_device(np.full(length, value, np.float32))
