"""Normalise the rows of a matrix on the GPU (LayerNorm), and go back: a ladder, and front doors.

Steps 1 to 5 are in `course.kernels.norm_steps`, 6 to 8 in `course.kernels.norm_rows`, the gradients
in `course.kernels.norm_backward`. Here is how each is launched:

>>> y = layer_norm(x, gamma, beta)                          # NumPy in, NumPy out
>>> layer_norm(x, gamma, beta, out=y, activation="gelu")    # CuPy or Numba arrays stay there
>>> layer_norm(x, method="one pass")                        # a certain step of LADDER
>>> dx, dgamma, dbeta = layer_norm_backward(dy, x, gamma)
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from course.backend import cuda
from course.kernels import norm_backward, norm_rows, norm_steps
from course.kernels.norm_rows import ACTIVATIONS, Form, Shape
from course.kernels.row_arrays import (
    are_aligned,
    as_matrix,
    check_like,
    check_rows,
    constant,
    empty_like,
    handed_back,
    kind_of,
    on_device,
)

Array = Any  # of NumPy, of numba.cuda or of CuPy
Launch = tuple[Callable, int, int]  # kernel, blocks, threads

#: Threads of a row from which a kernel is chosen, so that few are compiled.
ROW_THREADS = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
#: Numbers a thread, the fewest that reach the row's end.
ELEMENTS = (8, 16, 32)
SHORT_THREADS = 128  # of a block with several rows
SHORT = 256  # columns up to which "auto" puts several rows into a block
LONG = Shape(512, 1, 16)  # for rows that no block's registers hold


# --- shapes ---------------------------------------------------------------------------------------


def row_shape(columns: int) -> Shape:
    """The shape of a block that has one row of this length in registers.

    Raises
    ------
    ValueError
        When the row is too long.
    """
    for elements in ELEMENTS:
        for threads in ROW_THREADS:
            if threads * elements >= columns:
                return Shape(threads, 1, elements)
    raise ValueError(
        f"a row of {columns:,} numbers is too long for a block's registers, which hold "
        f"{ROW_THREADS[-1] * ELEMENTS[-1]:,}: choose the method 'long' or 'auto'"
    )


def short_shape(columns: int) -> Shape:
    """The shape of a block that has several rows of this length in registers.

    Raises
    ------
    ValueError
        When the rows are too long.
    """
    for elements in ELEMENTS:
        threads = 1 << max(-(-columns // elements) - 1, 0).bit_length()
        if threads <= 32:
            return Shape(threads, SHORT_THREADS // threads, elements)
    raise ValueError(
        f"rows of {columns:,} numbers are too long for a warp's registers, which hold "
        f"{32 * ELEMENTS[-1]:,}: choose the method 'registers', 'long' or 'auto'"
    )


@dataclass(frozen=True)
class Step:
    """A step of the ladder.

    Attributes
    ----------
    launch : callable
        ``launch(rows, columns, form)`` gives the kernel, called with (x, gamma, beta, eps, out),
        and its blocks and threads.
    fused : bool
        It applies an activation before it writes, and does without gamma and beta that are not
        there. Others are given ones and zeros, and a second kernel applies the activation.
    """

    launch: Callable[[int, int, Form], Launch]
    fused: bool = False


def _plain(kernel: Callable, rows_a_block: int, threads: int) -> Step:
    return Step(lambda rows, columns, form: (kernel, -(-rows // rows_a_block), threads))


def _made(make: Callable, shape_for: Callable[[int], Shape]) -> Step:
    def launch(rows: int, columns: int, form: Form) -> Launch:
        shape = shape_for(columns)
        whole = make is not norm_rows.long_rows and columns == shape.longest
        form = Form(form.kind, form.aligned, whole, form.gamma, form.beta, form.activation)
        return make(shape, form), -(-rows // shape.rows), shape.threads

    return Step(launch, fused=True)


#: The steps by name, in the order of the ladder; "squares" is there to be seen failing.
LADDER: dict[str, Step] = {
    "naive": _plain(norm_steps.layer_norm_naive, 64, 64),
    "tree": _plain(norm_steps.layer_norm_tree, 1, norm_steps.TREE),
    "squares": _plain(norm_steps.layer_norm_squares, 1, norm_steps.TREE),
    "one pass": _plain(norm_steps.layer_norm_one_pass, 1, norm_steps.TREE),
    "warp": _plain(norm_steps.layer_norm_warp, norm_steps.WARPS, norm_steps.WARPS * 32),
    "block": _plain(norm_steps.layer_norm_block, 1, norm_steps.WARPS * 32),
    "registers": _made(norm_rows.rows_in_registers, row_shape),
    "several rows": _made(norm_rows.rows_in_registers, short_shape),
    "long": _made(norm_rows.long_rows, lambda columns: LONG),
}


def method_for(method: str, columns: int) -> str:
    """The step that `layer_norm` launches for a method, by the length of the rows.

    Raises
    ------
    ValueError
        For a method that does not exist.
    """
    if method not in ("auto", *LADDER):
        raise ValueError(f"there is no method {method!r}: choose auto, {', '.join(LADDER)}")
    if method != "auto":
        return method
    if columns <= SHORT:
        return "several rows"
    return "registers" if columns <= ROW_THREADS[-1] * ELEMENTS[-1] else "long"


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
    activation : {"gelu"}, optional
        Applied to the result; the steps from "registers" on do so before they write it.

    Returns
    -------
    array, of x's shape and type
        `out`, if it is given; else of NumPy if x is, else of x's kind. Work on the GPU may still be
        under way when it is returned.

    Raises
    ------
    ValueError
        When an array has a wrong shape, type or layout, rows have no numbers or too many for the
        step, eps is negative, or there is no such method or activation.
    """
    columns = check_rows(x, {"gamma": gamma, "beta": beta}, eps)
    check_like(x, out, "out")
    name = method_for(method, columns)
    if activation not in ACTIVATIONS:
        known = ", ".join(repr(name) for name in ACTIVATIONS)
        raise ValueError(f"there is no activation {activation!r}: choose one of {known}")
    target = empty_like(x) if out is None or isinstance(out, np.ndarray) else out
    if x.size:
        there = as_matrix(on_device(x, "x"), "x")
        result = as_matrix(on_device(target, "out"), "out")
        factors = (
            None if g is None else on_device(g, n) for g, n in ((gamma, "gamma"), (beta, "beta"))
        )
        for launch, arguments in prepared(there, *factors, eps, result, name, activation):
            launch(*arguments)
    return handed_back(target, x, out)


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
    step = LADDER[method_for(method, columns)]
    aligned = are_aligned(x, out, *(g for g in (gamma, beta) if g is not None))
    fused = activation if step.fused else None
    form = Form(kind_of(out), aligned, False, gamma is not None, beta is not None, fused)
    kernel, blocks, threads = step.launch(rows, columns, form)
    if gamma is None:
        gamma = constant(1, 1 if step.fused else columns)
    if beta is None:
        beta = constant(0, 1 if step.fused else columns)
    launches = [(kernel[blocks, threads, stream], (x, gamma, beta, np.float32(eps), out))]
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
LONGEST_BACK = 8192  # columns whose x, dy and sums fit into a block's registers
BLOCKS = 4  # for each multiprocessor, of kernels that walk over the rows


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
        "auto", or one of `BACKWARD`; "registers" takes rows of up to `LONGEST_BACK` numbers.

    Returns
    -------
    dx : array, of x's shape and type
    dgamma, dbeta : array or None, shape (columns,)
        Of gamma's type; without gamma of x's.

    Raises
    ------
    ValueError
        As `layer_norm`.
    """
    columns = check_rows(x, {"gamma": gamma}, eps)
    check_like(x, dy, "dy")
    if method not in ("auto", *BACKWARD):
        raise ValueError(f"there is no method {method!r}: choose auto, {', '.join(BACKWARD)}")
    if method == "registers" and columns > LONGEST_BACK:
        raise ValueError(
            f"rows of {columns:,} numbers are too long for 'registers', which takes "
            f"{LONGEST_BACK:,}: choose 'two kernels' or 'auto'"
        )
    if method == "auto":
        method = "registers" if columns <= LONGEST_BACK else "two kernels"
    dx = empty_like(x)
    sums: list[Array | None] = [None, None]
    if parameters:
        sums = [empty_like(x if gamma is None else gamma, (columns,)) for _ in range(2)]
    if x.size:
        arrays = [as_matrix(on_device(a, n), n) for a, n in ((dy, "dy"), (x, "x"), (dx, "dx"))]
        there = None if gamma is None else on_device(gamma, "gamma")
        made = [None if some is None else on_device(some, "a sum") for some in sums]
        for launch, arguments in prepared_backward(*arrays, there, eps, *made, method=method):
            launch(*arguments)
    elif parameters:
        for some in sums:
            on_device(some, "a sum").copy_to_device(np.zeros(columns, some.dtype))
    return tuple(None if some is None else handed_back(some, x, None) for some in (dx, *sums))  # type: ignore[return-value]


def prepared_backward(
    dy: Array,
    x: Array,
    dx: Array,
    gamma: Array | None,
    eps: float,
    dgamma: Array | None,
    dbeta: Array | None,
    method: str,
    stream: Any = 0,
) -> list[tuple[Callable, tuple]]:
    """What `layer_norm_backward` launches, for arrays on the GPU, as `prepared`.

    Memory for the sums over some of the rows is made here, and lives as long as the list.
    """
    rows, columns = x.shape
    parameters, eps = dgamma is not None, np.float32(eps)
    most = BLOCKS * cuda.get_current_device().MULTIPROCESSOR_COUNT
    launches: list[tuple[Callable, tuple]] = []
    if method == "registers":
        shape = short_shape(columns) if columns <= SHORT else row_shape(columns)
        blocks = min(-(-rows // shape.rows), most)
        parts = blocks * shape.rows
    else:
        parts = min(-(-rows // norm_backward.DOWN), 64)
    shape_of_sums = (parts if parameters else 1, columns)
    some = [cuda.device_array(shape_of_sums, np.float32) for _ in range(2)]
    if method == "registers":
        aligned = are_aligned(dy, x, dx, *(() if gamma is None else (gamma,)))
        form = Form(kind_of(dx), aligned, columns == shape.longest, gamma is not None)
        kernel = norm_backward.backward_in_registers(shape, form, parameters)
        factor = constant(1, 1) if gamma is None else gamma
        call = kernel[blocks, shape.threads, stream]
        launches.append((call, (dy, x, factor, eps, dx, *some)))
    else:
        moments = cuda.device_array((rows, 2), np.float32)
        factor = constant(1, columns) if gamma is None else gamma
        call = norm_backward.backward_of_rows[rows, norm_backward.THREADS, stream]
        launches.append((call, (dy, x, factor, eps, dx, moments)))
        if parameters:
            grid = -(-columns // norm_backward.COLUMNS), parts
            block = norm_backward.COLUMNS, norm_backward.DOWN
            call = norm_backward.backward_of_columns[grid, block, stream]
            launches.append((call, (dy, x, moments, *some)))
    if parameters:
        blocks, block = (
            -(-columns // norm_backward.COLUMNS),
            (norm_backward.COLUMNS, norm_backward.DOWN),
        )
        call = norm_backward.column_sums[blocks, block, stream]
        launches += [(call, (some[0], dgamma)), (call, (some[1], dbeta))]
    return launches
