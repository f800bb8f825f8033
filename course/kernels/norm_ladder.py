"""The ladder of LayerNorm: how each step is launched, and which one for rows of a length."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from course.backend import cuda
from course.kernels import norm_long, norm_rows, norm_split, norm_steps
from course.kernels.norm_rows import Form, Shape
from course.kernels.norm_shapes import (
    ALONE,
    ELEMENTS,
    IN_L2,
    LONG,
    ROW_THREADS,
    SHIFTED,
    SHORT,
    longest_split,
    row_shape,
    short_shape,
    split_for,
)  # fmt: skip

BOTH = "registers and shared memory"


class Launch(NamedTuple):
    """A kernel, blocks, threads, and bytes of dynamic shared memory."""

    kernel: Callable
    blocks: int
    threads: int
    shared: int = 0


@dataclass(frozen=True)
class Step:
    """A step of the ladder.

    Attributes
    ----------
    launch : callable
        ``launch(rows, columns, form)`` gives the kernel, called with (x, gamma, beta, eps, out),
        and what it is launched with.
    fused : bool
        It applies an activation before it writes, and does without gamma and beta that are not
        there. Others are given ones and zeros, and a second kernel applies the activation.
    """

    launch: Callable[[int, int, Form], Launch]
    fused: bool = False


def _plain(kernel: Callable, rows_a_block: int, threads: int) -> Step:
    return Step(lambda rows, columns, form: Launch(kernel, -(-rows // rows_a_block), threads))


def _made(make: Callable, shape_for: Callable[[int, bool, str], Shape]) -> Step:
    def launch(rows: int, columns: int, form: Form) -> Launch:
        shape = shape_for(columns, form.aligned, form.kind)
        full = 0 if make is norm_long.long_rows else shape.full(columns, form.aligned)
        in_l2 = form.in_l2 and form.aligned and columns <= IN_L2
        form = replace(form, full=full, in_l2=in_l2)
        return Launch(make(shape, form), -(-rows // shape.rows), shape.threads)

    return Step(launch, fused=True)


def _in_both(rows: int, columns: int, form: Form) -> Launch:
    split = split_for(columns, room()[0], form.shifted)
    form = replace(norm_split.form_of(split, form, columns), in_l2=False)
    threads, size = split.shape.threads, split.dynamic_shared(columns, form.shifted)
    most = cuda.get_current_device().MULTIPROCESSOR_COUNT * (ROW_THREADS[-1] // threads)
    return Launch(norm_long.rows_in_both(split, form), min(rows, most), threads, size)


def can_keep(kind: str) -> bool:
    """Whether L2 can be asked to keep rows: float32, compute capability 8.0."""
    return kind == "float32" and room()[1]


def room() -> tuple[int, bool]:
    """Bytes of shared memory that a block can have, and whether it can be copied to meanwhile."""
    device = cuda.get_current_device()
    shared = int(device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    return shared, tuple(device.compute_capability) >= (8, 0)


#: The steps by name, in the order of the ladder; "squares" is there to be seen failing.
LADDER: dict[str, Step] = {
    "naive": _plain(norm_steps.layer_norm_naive, 64, 64),
    "tree": _plain(norm_steps.layer_norm_tree, 1, norm_steps.TREE),
    "squares": _plain(norm_steps.layer_norm_squares, 1, norm_steps.TREE),
    "one pass": _plain(norm_steps.layer_norm_one_pass, 1, norm_steps.TREE),
    "warp": _plain(norm_steps.layer_norm_warp, norm_steps.WARPS, norm_steps.WARPS * 32),
    "block": _plain(norm_steps.layer_norm_block, 1, norm_steps.WARPS * 32),
    "registers": _made(norm_rows.rows_in_registers, row_shape),
    "several rows": _made(
        norm_rows.rows_in_registers, lambda columns, aligned, kind: short_shape(columns)
    ),
    BOTH: Step(_in_both, fused=True),
    "long": _made(norm_long.long_rows, lambda columns, aligned, kind: LONG),
}


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
    if method not in ("auto", *LADDER):
        raise ValueError(f"there is no method {method!r}: choose auto, {', '.join(LADDER)}")
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
