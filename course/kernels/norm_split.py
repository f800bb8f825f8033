"""Where the numbers of a long row are, and device functions for those in shared memory.

What `course.kernels.norm_long` makes its step 8 of. Each thread touches only its own places of
shared memory, so that copies need no barrier.

Rows of a length that is no multiple of four begin anywhere. Then all of a row but at most 66
numbers is its *body*: it begins at a multiple of 256 bytes, and is accessed four numbers at a time.
What is beside it, before that place and behind the last four, is fetched and written one number a
thread.
Where the body begins differs from row to row, so gamma and beta are four copies, which begin at
their numbers 0 to 3: in one of them the body's factors can be accessed four at a time, too.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from numba import int32, int64

from course.backend import cuda
from course.intrinsics import (
    commit_copies,
    copy4_async,
    copy_async,
    wait_copies,
)  # fmt: skip
from course.kernels.norm_rows import ACTIVATIONS, Form, Pieces, Shape
from course.kernels.norm_steps import WARP

#: A body begins at a multiple of so many numbers, 256 bytes. GB/s of 65,535 columns on an H200: for
#: 4 numbers 3,046, for 8 3,085, for 32, a line, 3,117; in another run for 32 3,065, for 64 3,155,
#: for 128 3,160.
BEGIN = 64
BESIDE = BEGIN + 2  # numbers beside a body, at most: before it, and fewer than four behind it
#: Numbers of shared memory that a row takes beyond its own: gamma and beta beside a body.
EXTRA = 3 * BESIDE - (BEGIN - 1)
BEHIND = 2  # groups of accesses under way, after which what has arrived is added up


@dataclass(frozen=True)
class Split:
    """Where the numbers of a row are.

    Attributes
    ----------
    shape : Shape
        Of a block with one row: the first ``shape.longest`` numbers are in registers.
    group : int
        Accesses whose gamma and beta a thread fetches at a time, while it computes the results of
        as many before.
    """

    shape: Shape
    group: int = 1

    def __post_init__(self) -> None:
        shape = self.shape
        if shape.rows != 1 or shape.threads % WARP:
            raise ValueError(f"{shape} has several rows or a part of a warp: take one row")
        if self.group < 1:
            raise ValueError(f"groups of {self.group} accesses: take at least 1")

    def dynamic_shared(self, columns: int, shifted: bool = False) -> int:
        """Bytes of dynamic shared memory for rows of a length."""
        rest = columns - self.shape.longest
        numbers = max(rest, BEGIN - 1) + EXTRA if shifted else max(rest, 0)
        return 4 * numbers


def body_of(columns: int, form: Form) -> int:
    """Numbers of a row's body."""
    return (columns - (BEGIN - 1)) // 4 * 4 if form.shifted else columns


def form_of(split: Split, form: Form, columns: int) -> Form:
    """The form for rows of a length: with the parts that they fill.

    Raises
    ------
    ValueError
        When the split cannot have rows of this form.
    """
    if form.kind != "float32" or form.wide != 4:
        raise ValueError(
            f"numbers are copied to shared memory as float32, four at a time; this is {form}"
        )
    if form.shifted and split.shape.threads < BESIDE:
        raise ValueError(f"rows are shifted by at least {BESIDE} threads; this is {split}")
    if form.shifted and columns <= BESIDE:
        raise ValueError(f"{columns} numbers may have no body: shift rows of more than {BESIDE}")
    return replace(form, full=split.shape.full(body_of(columns, form), True))


@cuda.jit
def shifted_factors(gamma, beta, gammas, betas):
    """Four copies of gamma, and of beta, one after the other: copy r begins at its number r.

    A thread makes one number of each; copies without room for a number are not made.
    """
    place = cuda.grid(1)
    for start in range(4):
        if place < gammas.size // 4:
            near = min(place + start, gamma.size - 1)
            gammas[start * (gammas.size // 4) + place] = gamma[near]
        if place < betas.size // 4:
            near = min(place + start, beta.size - 1)
            betas[start * (betas.size // 4) + place] = beta[near]


class Edges(NamedTuple):
    """Device functions of a row's body and of what is beside it.

    `body`: numbers of the body. `before`: those before it in a row. `factors_from`: where gamma and
    beta of its first number are in their four copies. `column`: of the number that a thread has
    beside the body; `fetch`: begin to copy it with its gamma and beta; `finish`: write its result.
    """

    body: Callable
    before: Callable
    factors_from: Callable
    column: Callable
    fetch: Callable
    finish: Callable


def edges(form: Form) -> Edges:
    """The device functions for a form; in one that is not shifted nothing is beside the body."""
    has_gamma, has_beta, activation = form.gamma, form.beta, ACTIVATIONS[form.activation]

    @cuda.jit(device=True)
    def column(thread, before, body):
        return int64(thread) if thread < before else int64(thread + body)

    if not form.shifted:

        @cuda.jit(device=True)
        def body(columns):
            return int32(columns)

        @cuda.jit(device=True)
        def none(row, columns):
            return int32(0)

        @cuda.jit(device=True)
        def fetch(rest, place, x, row, column, gamma, beta):
            pass

        @cuda.jit(device=True)
        def finish(out, row, column, rest, place, scaling):
            pass

        return Edges(body, none, none, column, fetch, finish)

    @cuda.jit(device=True)
    def shifted_body(columns):
        return int32((columns - (BEGIN - 1)) // 4 * 4)

    @cuda.jit(device=True)
    def before(row, columns):
        return int32(-(row * columns) & int32(BEGIN - 1))

    @cuda.jit(device=True)
    def factors_from(before, factor):
        return int32(before + (before & int32(3)) * (factor.size // 4 - 1))

    @cuda.jit(device=True)
    def shifted_fetch(rest, place, x, row, column, gamma, beta):
        copy_async(rest, place, x, (row, column))
        if has_gamma:
            copy_async(rest, place + BESIDE, gamma, column)
        if has_beta:
            copy_async(rest, place + 2 * BESIDE, beta, column)

    @cuda.jit(device=True)
    def shifted_finish(out, row, column, rest, place, scaling):
        mean, scale = scaling
        value = (rest[place] - mean) * scale
        if has_gamma:
            value *= rest[place + BESIDE]
        if has_beta:
            value += rest[place + 2 * BESIDE]
        out[row, column] = activation(value)

    return Edges(shifted_body, before, factors_from, column, shifted_fetch, shifted_finish)


class Rest(NamedTuple):
    """Device functions of a thread's numbers in shared memory.

    `fetch`: begin to bring the numbers of an access. `arrived`: wait for all. `sums`: of the
    differences from a number, and of their squares, continued from a place on. `write`: the results
    of a group of accesses, in whose places it begins to bring the next row's numbers if one
    `follows`; `write_one` those of one access. `catch_up`: add up the group that was fetched
    `BEHIND` groups before; `caught_up`: the place up to which that is done, before the group at
    `place` is.
    """

    fetch: Callable
    arrived: Callable
    sums: Callable
    write: Callable
    write_one: Callable
    catch_up: Callable
    caught_up: Callable


def rest_pieces(split: Split, form: Form, part: Pieces, follows: bool) -> Rest:
    """The device functions for a split and a form."""
    take, put, factors_at, result = part.take, part.put, part.factors_at, part.result
    wide, group, held = form.wide, split.group, split.shape.longest
    across, pair = split.shape.threads * wide, 2 * wide
    span, at_once = group * across, group * wide
    back = BEHIND * span

    @cuda.jit(device=True)
    def fetch(rest, place, x, row, column):
        copy4_async(rest, place, x, (row, column))

    @cuda.jit(device=True)
    def arrived():
        commit_copies()
        wait_copies(0)

    @cuda.jit(device=True)
    def earlier_arrived():
        commit_copies()
        wait_copies(BEHIND)

    @cuda.jit(device=True)
    def added(some, numbers, shift, total, square):
        for e in range(numbers):
            difference = some[e] - shift
            total += difference
            square += difference * difference
        return total, square

    @cuda.jit(device=True)
    def sums(rest, some, place, length, shift, total, square):
        while place < length - (group - 1) * across:
            here = int64(place)
            for g in range(group):
                take(rest, here + g * across, some, g * wide)
            total, square = added(some, at_once, shift, total, square)
            place += int32(span)
        while group > 1 and place < length:
            take(rest, place, some, 0)
            total, square = added(some, wide, shift, total, square)
            place += int32(across)
        return total, square

    @cuda.jit(device=True)
    def write(out, now, rest, some, factors, half, place, scaling, x, then):
        mean, scale = scaling
        row, before = now
        following, next_before = then
        here, column = int64(place), int64(int32(place + before))
        next_column = int64(int32(place + next_before))
        for g in range(group):
            take(rest, here + g * across, some, g * wide)
        for g in range(group):
            result(some, g * wide, mean, scale, factors, (half * group + g) * pair)
        for g in range(group):
            put(out, (row, column + (held + g * across)), some, g * wide)
        if follows:
            for g in range(group):
                column = next_column + (held + g * across)
                fetch(rest, here + g * across, x, following, column)

    @cuda.jit(device=True)
    def write_one(out, now, rest, some, factors, place, scaling, weights, gamma, beta, x, then):
        mean, scale = scaling
        row, before = now
        following, next_before = then
        factors_at(gamma, beta, int64(int32(place + weights)) + held, factors, 0)
        column = int64(int32(place + before)) + held
        take(rest, place, some, 0)
        result(some, 0, mean, scale, factors, 0)
        put(out, (row, column), some, 0)
        if follows:
            fetch(rest, place, x, following, int64(int32(place + next_before)) + held)

    @cuda.jit(device=True)
    def catch_up(rest, some, first, place, shift, total, square):
        if follows:
            earlier_arrived()
            if place >= first + back:
                here = int64(place)
                for g in range(group):
                    take(rest, here + (g * across - back), some, g * wide)
                total, square = added(some, at_once, shift, total, square)
        return total, square

    @cuda.jit(device=True)
    def caught_up(first, place):
        return max(int32(place - back), first) if follows else first

    return Rest(fetch, arrived, sums, write, write_one, catch_up, caught_up)
