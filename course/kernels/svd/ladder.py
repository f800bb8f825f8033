"""The SVD of batches of one shape: its launches, and the ladder of kernels that rotate.

`course.kernels.svd` says what each of the four steps is for. The host launches as many sweeps as
matrices usually need, and what comes after them, without waiting. Then it reads the state of all
matrices once. Launches that use only the solver's own memory are the same in every call, and form
a CUDA graph, see `course.dispatch.graphs`.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from course import kernel_cache
from course.backend import cuda
from course.dispatch.ahead import compile_ahead
from course.dispatch.graphs import ReplayedGraph
from course.dispatch.kept import Memory
from course.kernels.arrays import Array
from course.kernels.gemm import batched
from course.kernels.gemm.batched import multiply
from course.kernels.steps import Ladder, Launch, Step, ceil_div, round_up, shared_memory_limit
from course.kernels.svd import blocks, one_launch, qr, registers, rotate, scaling_sorting
from course.kernels.svd.qr import LONGEST, Reflections
from course.kernels.svd.registers import MOST_SWEEPS
from course.kernels.svd.rotate import FINISHED, REFRESHES

Stream = Any  # of numba.cuda; 0 is the default stream

MORE = 2  # sweeps, or groups of them, to add while some matrix is not finished
#: Largest entry with which no singular value overflows: they are at most `LONGEST` times as large.
SURELY_FINITE = 2.0**100


class NotConverged(ArithmeticError):
    """A matrix's rows are not orthogonal after `MOST_SWEEPS` sweeps or a few more."""


# --- the ladder -----------------------------------------------------------------------------------


class SVDProblem(NamedTuple):
    """What decides between the steps: the matrices' shorter side, and the longer one."""

    columns: int
    rows: int = 0  # 0: as many as columns


@dataclass(frozen=True, kw_only=True)
class SVDStep(Step):
    """A step of the ladder: the kernel that rotates, in one or more sweeps.

    `launches` takes a problem, the kernel, and the arrays w, k, floor, cosines, since, state.
    """

    kernel: Any
    smallest: int  # rows and columns, padded to a multiple of 32, that the kernel takes
    largest: int
    swept: int  # sweeps in the launches; 0 where the kernel counts
    #: How often they are made before the host reads whether all matrices are finished. A sweep
    #: of finished matrices takes few microseconds; to read, sweep on and hand over takes many.
    sweeps_before_check: int


def _no_more(
    largest: int, needs: Callable[[SVDProblem], tuple[int, str]] = lambda p: (0, "")
) -> Callable[[SVDProblem], str]:
    """The refusal of matrices whose shorter side is too long, or that need too much shared memory.

    ``needs(problem)``: dynamic shared memory in bytes, and what it holds.
    """

    def refusal(p: SVDProblem) -> str:
        if p.columns > largest:
            return f"takes matrices whose shorter side is at most {largest}; given {p.columns}"
        (needed, what), (limit, _) = needs(p), shared_memory_limit()
        if needed and needed + registers.STATIC > limit:
            return (
                f"needs {needed + registers.STATIC:,} bytes of shared memory for {what}, and a "
                f"block has at most {limit:,}"
            )
        return ""

    return refusal


def _whole(kernel: Any, largest: int = LONGEST) -> SVDStep:
    """Sweeps in one launch, a block a matrix."""

    def launches(p, kernel, w, k, floor, cosines, since, state):
        arguments = w, k, floor, np.int32(MOST_SWEEPS), cosines, since, state
        return [Launch(kernel, len(w), rotate.THREADS, arguments)]

    return SVDStep(
        launches, _no_more(largest), kernel=kernel, smallest=32, largest=largest, swept=0,
        sweeps_before_check=3,
    )  # fmt: skip


def _in_blocks(kernel: Any, capability: tuple[int, int] = (5, 0)) -> SVDStep:
    """A sweep: one launch for each step of a round-robin tournament between blocks of rows."""

    def launches(p, kernel, w, k, floor, cosines, since, state):
        players = max(2, round_up(w.shape[1] // blocks.BLOCK, 2))
        grid = len(w), players // 2
        return [
            Launch(kernel, grid, blocks.THREADS, (w, k, floor, np.int32(step), cosines, state))
            for step in range(players - 1)
        ]

    return SVDStep(
        launches, capability=capability, kernel=kernel, smallest=64, largest=LONGEST, swept=1,
        sweeps_before_check=10,
    )  # fmt: skip


def _all_sweeps(
    by: Any, launched: Callable[..., list[Launch]], needs: Callable[[SVDProblem], tuple[int, str]]
) -> SVDStep:
    """All sweeps in one launch of a module's kernel; `launched` makes it of the arguments."""
    return SVDStep(
        lambda p, kernel, *arguments: launched(*arguments), _no_more(by.LARGEST, needs),
        kernel=by.SVD, smallest=16, largest=by.LARGEST, swept=0, sweeps_before_check=MOST_SWEEPS,
    )  # fmt: skip


def _whole_matrix(p):
    rows = max(p.rows, p.columns)
    return one_launch.shared_bytes(p.columns, rows), f"{rows} x {p.columns}"


def _its_triangle(p):
    return registers.shared_bytes(registers.padded(p.columns)), f"{p.columns} columns"


def _best(p):
    for name in ("one launch", "registers"):
        if not LADDER[name].lacks(p):
            return name
    return "blocks" if LADDER["tensor cores"].lacks(p) else "tensor cores"


LADDER = Ladder("svd", SVDProblem, {
    "plain": _whole(rotate.rotate_plain),
    "shared": _whole(rotate.rotate_shared, rotate.SHARED_ROWS),
    "one launch": _all_sweeps(one_launch, lambda *its: [one_launch.launch(*its)], _whole_matrix),
    "registers": _all_sweeps(registers, registers.of_triangles, _its_triangle),
    "blocks": _in_blocks(blocks.rotate_blocks),
    "tensor cores": _in_blocks(blocks.ROTATE["tensor"], blocks.CAPABILITY),
}, _best)  # fmt: skip


def unfinished(told: np.ndarray, values: Callable[[], np.ndarray]) -> int:
    """How many matrices are not finished, as `told` by the GPU; ValueError as `Solver`.

    `values()` gives the singular values.
    """
    refused = told[registers.REFUSED]
    if refused.any():
        wrong = np.flatnonzero(refused)
        raise ValueError(
            f"a[{wrong[0]}] holds NaN or infinite values"
            + (f", and so do {len(wrong) - 1} more matrices" if len(wrong) > 1 else "")
            + ": an SVD needs numbers, so repair them first"
        )
    remaining = int((told[registers.STATE] != FINISHED).sum())
    if not remaining and (told[registers.UNSCALE].view(np.float32) > SURELY_FINITE).any():
        beyond = np.flatnonzero(np.isinf(values()).any(axis=1))
        if beyond.size:
            raise ValueError(
                f"a[{beyond[0]}] has a singular value beyond float32's largest, 3.4e38: scale "
                "it, a * 2**-20, say, and the values back in float64"
            )
    return remaining


def not_converged(remaining: int, batch: int, sweeps: int, method: str) -> NotConverged:
    """The error for matrices that did not converge."""
    return NotConverged(
        f"{remaining} of {batch} matrices have rows that are not orthogonal after {sweeps} sweeps; "
        f"the method was {method!r}"
    )


class Solver(Memory):
    """The SVD of batches of one shape: memory on the GPU, and the launches.

    Parameters
    ----------
    batch, rows, columns : int
        Neither side longer than `LONGEST`.
    method : str
        Of `LADDER.names`.

    Attributes
    ----------
    sweeps : int
        How often rows were swept, or groups of sweeps launched, until all matrices of the last call
        were finished.
    """

    def __init__(self, batch: int, rows: int, columns: int, method: str = "auto"):
        if max(rows, columns) > LONGEST:
            raise ValueError(
                f"a is {rows} x {columns}; a side has at most {LONGEST:,}: take the QR "
                "decomposition of a longer one first, or part it"
            )
        # Numba compiles these kernels: let it cache them on disk
        kernels = batched, blocks, one_launch, qr, registers, rotate, scaling_sorting
        kernel_cache.cached(*kernel_cache.kernels_of(*kernels))
        self.problem = SVDProblem(min(rows, columns), max(rows, columns))
        self.method, self.step = LADDER.choose(method, self.problem)
        if self.method == "one launch":  # it needs no solver
            self.method, self.step = LADDER.choose("registers", self.problem)
        self.in_registers = self.method == "registers"
        self.batch, self.shape, self.wide = batch, (rows, columns), rows < columns
        self.rank = min(rows, columns)
        self.sweeps, self.queued = 0, min(self.step.sweeps_before_check, MOST_SWEEPS)
        self.ones = cuda.to_device(np.ones(batch, np.float32))
        self.always = cuda.to_device(np.zeros(batch, np.int32))
        self._told = cuda.device_array((4, batch), np.int32)  # the host reads these
        self.state, self.refused, self.swept, unscale = (self._told[row] for row in range(4))
        self.unscale = unscale.view(np.float32)
        self._first_sweeps, self._more_sweeps = ReplayedGraph(), ReplayedGraph()
        self.scale = cuda.device_array(batch, np.float32)
        self.compiled = False
        self._allocate()

    def _allocate(self) -> None:
        batch, (rows, columns) = self.batch, self.shape
        if self.in_registers:
            self.memory = registers.Scratch.made((batch, rows, columns), cuda.device_array)
            self.tall, self.q1, self.first = self.memory
            return
        self.size = size = max(round_up(self.rank, 32), self.step.smallest)
        self.square = rows == columns
        floats = functools.partial(cuda.device_array, dtype=np.float32)
        counts = functools.partial(cuda.device_array, dtype=np.int32)
        square, tall = (batch, size, size), (batch, max(rows, columns, size), size)
        self.tall = floats(square if self.square else tall)
        self.core, self.low, self.w, self.k = (floats(square) for _ in range(4))
        self.spare = self.tall if self.square else floats(square)
        self.first = Reflections(*self.tall.shape)
        self.second = self.first if self.square else Reflections(*square)
        self.q1 = None if self.square else floats(tall)
        self.cosines, self.floor = floats(batch), floats(batch)
        self.since, self.refreshes, self.missing, self.deficient = (
            counts(batch) for _ in range(4)
        )  # fmt: skip
        self.order = counts((batch, size))
        self.w_factor, self.k_factor = floats((batch, size)), floats((batch, size))

    def __call__(self, a: Array, u: Array, s: Array, vt: Array) -> None:
        """Decompose.

        Parameters
        ----------
        a : device array, shape (batch, rows, columns), float32
            Of any strides.
        u, s, vt : device arrays, shapes (batch, rows, k), (batch, k), (batch, k, columns)
            Receive the factors of the k largest singular values, k at most min(rows, columns); in
            C order.

        Raises
        ------
        ValueError
            When a matrix holds NaN or infinite values, or a singular value is beyond float32.
        NotConverged
        """
        if not self.compiled:
            self.compile(a, u, s, vt)
        self.find_scale(a)
        self.take(a, self.scale)
        self._first_sweeps(self.queue)
        self.finish(lambda: self.hand_over(u, s, vt), s)

    def compile(self, a: Array, u: Array, s: Array, vt: Array, *before: Callable) -> None:
        """Compile all kernels that a call and `before` launch, in several processes."""

        def launches() -> None:
            for launch in before:
                launch()
            self.find_scale(a)
            self.take(a, self.scale)
            self.queue(0)
            self.hand_over(u, s, vt)

        compile_ahead(launches)
        self.compiled = True

    # ------------------------------------------------------------------ before the sweeps
    def find_scale(self, a: Array, stream: Stream = 0) -> None:
        """Find the power of two that scales each matrix's largest entry to 1/2 .. 1."""
        scaling_sorting.scaling(a, self.scale, self.unscale, self.refused).on(stream)

    def take(self, a: Array, scale: Array, stream: Stream = 0) -> None:
        """Launch the copy of scale a that `queue` works on."""
        scaling_sorting.spreading(a, scale, self.tall, self.wide).on(stream)

    def queue(self, stream: Stream) -> None:
        """Launch what lies between `take` and `finish`, all in the solver's own memory."""
        if self.in_registers:
            self.first.factor(self.tall, self.always, stream=stream)
            return
        self._precondition(stream)
        for _ in range(self.queued):
            self._sweep(stream)

    def _precondition(self, stream: Stream) -> None:
        """w and k of step 3, before the first sweep."""

        def transpose(a: Array, out: Array) -> None:
            scaling_sorting.spreading(a, self.ones, out, True).on(stream)

        if self.square:
            transpose(self.tall, self.core)
        self.first.factor(self.tall, self.always, stream=stream)
        transpose(self.tall, self.low)
        if not self.square:
            transpose(self.tall, self.core)
            self.first.form(self.q1, self.always, stream=stream)
        self.second.factor(self.low, self.always, stream=stream)
        self.second.form(self.spare, self.always, stream=stream)
        transpose(self.spare, self.k)
        multiply(self.k, self.core, self.w, self.always, stream=stream)
        scaling_sorting.by_rows(
            scaling_sorting.begin, self.w, self.w, self.floor, self.cosines, self.since,
            self.refreshes, self.state, self.swept,
        ).on(stream)  # fmt: skip

    # ------------------------------------------------------------------ sweeps
    def _sweep(self, stream: Stream) -> None:
        """Sweep once, judge, and refresh the matrices that wait for a refresh."""
        arrays = self.w, self.k, self.floor, self.cosines, self.since, self.state
        for launch in self.step.launches(self.problem, self.step.kernel, *arrays):
            launch.on(stream)
        judge = scaling_sorting.judge[ceil_div(self.batch, 128), 128, stream]
        swept = np.int32(self.step.swept), self.swept
        judge(self.cosines, self.since, self.refreshes, self.state, *swept)
        self._refresh(stream)

    def _refresh(self, stream: Stream) -> None:
        """Make k orthonormal, and w = k R', for the matrices that wait for a refresh."""
        waits = {"state": self.state, "wanted": REFRESHES, "stream": stream}
        multiply(self.k, self.k, self.low, transpose_b=True, **waits)
        multiply(self.low, self.k, self.spare, alpha=-0.5, beta=1.5, c=self.k, **waits)
        given = self.spare, self.k, self.state, np.int32(REFRESHES)
        scaling_sorting.in_parts(scaling_sorting.copy_matrices, self.k, *given).on(stream)
        multiply(self.k, self.core, self.w, **waits)

    def _sweep_on(self, stream: Stream) -> None:
        for _ in range(MORE):
            self._sweep(stream)

    # ------------------------------------------------------------------ after the sweeps
    def finish(self, hand_over: Callable[[], None], s: Array) -> None:
        """Hand over the factors, and again after more sweeps, until all matrices are finished."""
        queued = self.queued
        hand_over()
        while remaining := self._ask(s):
            if queued >= MOST_SWEEPS:
                raise not_converged(remaining, self.batch, queued, self.method)
            self._more_sweeps(self._sweep_on)
            queued += MORE
            hand_over()

    def _ask(self, s: Array) -> int:
        """Wait for the GPU; return how many matrices are not finished."""
        told = self._told.copy_to_host()
        self.sweeps = int(told[registers.SWEPT].max())
        return unfinished(told, s.copy_to_host)

    def hand_over(self, u: Array, s: Array, vt: Array) -> None:
        """Sort; normalise rows to singular vectors; complete those of zero singular values."""
        if self.in_registers:
            told = self.ones, self.unscale, self.refused, self._told, self.always
            arguments = self.memory, (u, s, vt), *told
            for launch in self.step.launches(self.problem, self.step.kernel, *arguments):
                launch.on()
            return
        everyone, deficient = np.int32(-1), np.int32(1)
        scaling_sorting.by_rows(
            scaling_sorting.sort_rows, self.w, self.w, self.k, self.unscale, s, self.order,
            self.w_factor, self.k_factor, self.missing, self.deficient, shared=4 * self.size,
        ).on()  # fmt: skip
        right, left = (u, vt) if self.wide else (vt, u)
        target = left if self.square else self.spare
        of_w, of_k = (self.w, self.order, self.w_factor), (self.k, self.order, self.k_factor)
        for given in (
            (*of_k, right, self.wide, self.always, everyone),
            (*of_w, target, True, self.always, everyone),
            (*of_w, self.low, True, self.deficient, deficient),
        ):  # tiles of rows become columns
            scaling_sorting.by_tiles(scaling_sorting.gather, self.spare, *given).on()
        self.second.factor(self.low, self.deficient, deficient)
        self.second.form(self.spare, self.deficient, deficient)
        wanted = np.int32(s.shape[1])
        given = self.spare, *of_w, self.missing, target, wanted
        scaling_sorting.in_parts(scaling_sorting.complete, target, *given).on()
        if self.wide:
            multiply(self.spare, self.q1, vt, self.always, transpose_a=True, transpose_b=True)
        elif not self.square:
            multiply(self.q1, self.spare, u, self.always)
