"""The cases: a kernel, its launch and its arguments, the same on a GPU and in the simulator.

Making `CASES` needs no GPU. Arguments are computed by integer arithmetic, so that they are the same
on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numba import types

from course.kernels import transpose
from course.kernels.reconstruct import ladder
from course.kernels.steps import ceil_div
from course_recording.profiling.cases import access_kernels as kernels
from course_recording.profiling.cases import lesson_kernels as lessons

#: Counter of the data file -> Nsight Compute's counter.
COUNTERS = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "global_atomic_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "global_reduction_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    "local_load_requests": "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum",
    "local_store_requests": "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum",
    "shared_load_requests": "smsp__inst_executed_op_shared_ld.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_requests": "smsp__inst_executed_op_shared_st.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}

#: Steps of the reconstruction whose counters are read.
LADDER = ("original", "float32", "naive", "tiled")


@dataclass(frozen=True)
class Case:
    """A launch whose traffic is counted.

    Attributes
    ----------
    name : str
        Unique, such as ``"strided load by 8"``.
    kernel : kernel
        Of ``course.cuda``; None for a kernel that only a GPU can run.
    arguments : callable
        Takes ``to_device``, returns the arguments of the launch.
    lanes : ndarray of int, optional
        For a wide shared access: the index of each thread's element of 16 bytes, below 0 for none.
    """

    name: str
    kernel: Any
    grid: Any
    block: Any
    arguments: Callable[[Callable], tuple]
    lanes: np.ndarray | None = field(default=None, compare=False)


# ---------------------------------------------------------------------- values
def numbers(shape: Any, kind: str = "f4") -> np.ndarray:
    """An array of small whole numbers, not all equal."""
    size = int(np.prod(shape))
    return ((np.arange(size) * 37 + 11) % 101).reshape(shape).astype(kind)


def shuffled(size: int, step: int = 37, start: int = 11) -> np.ndarray:
    """A permutation of 0 to size - 1; ``step`` and ``size`` have no common factor."""
    return ((np.arange(size) * step + start) % size).astype("i4")


def scattered(count: int, size: int, seed: int) -> np.ndarray:
    """``count`` numbers below ``size``, some of them more than once."""
    found, state = [], seed
    for _ in range(count):
        state = (state * 1_103_515_245 + 12_345) % 2**31
        found.append((state >> 8) % size)
    return np.array(found, "i4")


def filled(*values: Any) -> Callable[[Callable], tuple]:
    """Make a case's arguments: arrays are copied to the device, numbers stay."""
    return lambda to_device: tuple(
        to_device(value) if isinstance(value, np.ndarray) else value for value in values
    )


# ---------------------------------------------------------------------- lessons
def lesson_cases() -> list[Case]:
    """The kernels of the lessons and of `course.kernels` on awkward shapes."""

    def images(kernel, shape, block, *inputs):
        rows, columns = shape
        grid = -(-columns // block[0]), -(-rows // block[1])
        name = f"{kernel.__name__} {rows}x{columns} by {block[0]}x{block[1]}"
        return Case(name, kernel, grid, block, filled(np.zeros(shape, "f4"), *inputs))

    def line(kernel, size, block, *inputs, grid=None, name=""):
        grid = grid or -(-size // block)
        name = name or f"{kernel.__name__} {size} by {block}"
        return Case(name, kernel, grid, block, filled(np.zeros(size, "f4"), *inputs))

    a, x, y = np.float32(1.5), numbers(1000), numbers(1000)
    cases = [
        line(lessons.fill_index, 128, 32),
        line(lessons.add_one, 1000, 128, x),
        line(lessons.scale_add, 1000, 128, a, x, y),
        line(lessons.square, 1000, 256, x),
        line(lessons.shift_right, 1000, 256, x),
        line(lessons.scale_add_strided, 1000, 64, a, x, y, grid=3),
        Case("to_grey 45x67 by 16x16", lessons.to_grey, (5, 3), (16, 16),
             filled(np.zeros((45, 67), "f4"), numbers((45, 67, 3)))),
        Case("histogram 1000 in 8 bins", lessons.histogram, 8, 128,
             filled(np.zeros(8, "i4"), numbers(1000, "i4") % 8)),
        Case("histogram 1000 in 64 bins", lessons.histogram, 8, 128,
             filled(np.zeros(64, "i4"), scattered(1000, 64, 5))),
        Case("take_numbers 500", kernels.take_numbers, 4, 128,
             filled(np.zeros(16, "i4"), np.zeros(500, "i4"))),
    ]  # fmt: skip
    for block in ((16, 16), (32, 8), (8, 4), (5, 7)):
        cases.append(
            images(lessons.add_images, (45, 67), block, numbers((45, 67)), numbers((45, 67)))
        )
    cases.append(images(lessons.rotate, (67, 45), (16, 16), numbers((45, 67))))
    cases.append(images(kernels.early_return, (45, 67), (16, 16), numbers((45, 67))))
    cases.append(images(kernels.early_return, (45, 67), (33, 3), numbers((45, 67))))
    fields = [("x", "f4"), ("y", "f4"), ("z", "f4")]
    points, aligned = (numbers(900).view(np.dtype(fields, align=align)) for align in (False, True))
    cases += [
        Case("add_pieces 1000", lessons.add_pieces, 2, 64, filled(np.zeros(1, "f4"), x)),
        Case("add_strided 1000", lessons.add_strided, 2, 64, filled(np.zeros(1, "f4"), x)),
        line(lessons.lengths_of_records, 300, 128, points, name="lengths of packed records"),
        line(lessons.lengths_of_records, 300, 128, aligned, name="lengths of aligned records"),
        images(lessons.one_layer, (45, 67), (16, 16), numbers(45), a, numbers(67)),
        Case("fill_odd_rows 45x67 by 16x16", lessons.fill_odd_rows, (5, 3), (16, 16),
             filled(np.zeros((45, 67), "u1"), numbers((45, 67), "u1"))),
    ]  # fmt: skip
    for rows, columns in ((64, 64), (45, 67)):
        for kernel, transposed, tiled in (
            (transpose.copy, False, False),
            (transpose.transpose_read_coalesced, False, False),
            (transpose.transpose_write_coalesced, True, False),
            (transpose.transpose_tiled, False, True),
            (transpose.transpose_padded, False, True),
        ):
            width, height = (rows, columns) if transposed else (columns, rows)
            shape = (rows, columns) if kernel is transpose.copy else (columns, rows)
            grid = -(-width // 32), -(-height // (32 if tiled else 8))
            cases.append(Case(
                f"lesson {kernel.__name__} {rows}x{columns}", kernel, grid, (32, 8),
                filled(np.zeros(shape, "f4"), numbers((rows, columns))),
            ))  # fmt: skip
    for rows, columns, k, block in (
        (64, 64, 8, (16, 16)),
        (45, 67, 5, (16, 16)),
        (64, 96, 3, (32, 8)),
    ):
        factors = numbers((rows, k)), numbers(k), numbers((k, columns))
        for name in LADDER:
            step = ladder.LADDER[name]
            tile = block if step.x_walks == "rows" else block[::-1]
            if name == "tiled" and block != step.block:
                continue
            cases.append(Case(
                f"reconstruct {name} {rows}x{columns} k={k} by {block[0]}x{block[1]}",
                step.kernel,
                replace(step, block=block, tile=tile).grid(rows, columns), block,
                filled(*factors, k, np.zeros((rows, columns), "f4")),
            ))  # fmt: skip
    for rows, columns, k in ((64, 64, 32), (45, 67, 21)):
        factors = numbers((rows, k)), numbers(k), numbers((k, columns))
        for rows_on_x in (True, False):
            walks = "rows" if rows_on_x else "columns"
            grid = ceil_div(rows, 16), ceil_div(columns, 16)
            cases.append(Case(
                f"reconstruct tiled, x on {walks}, {rows}x{columns} k={k}",
                kernels.reconstruct_through_tiles(rows_on_x),
                grid if rows_on_x else grid[::-1], (16, 16),
                filled(*factors, k, np.zeros((rows, columns), "f4")),
            ))  # fmt: skip
    return cases


# ---------------------------------------------------------------------- global memory
def global_cases() -> list[Case]:
    """Patterns of loads and stores in global memory."""
    cases = []

    def add(name, kernel, grid, block, *arguments):
        cases.append(Case(name, kernel, grid, block, filled(*arguments)))

    for stride in (1, 2, 3, 4, 8, 16, 32, 33):
        add(f"strided load by {stride}", kernels.strided_load, 2, 128,
            np.zeros(250, "f4"), numbers(250 * stride), stride)  # fmt: skip
    for stride in (2, 8, 33):
        add(f"strided store by {stride}", kernels.strided_store, 2, 128,
            np.zeros(250 * stride, "f4"), numbers(250), stride)  # fmt: skip
    for kind in ("u1", "i2", "f2", "f8"):
        add(f"strided load by 5 of {kind}", kernels.strided_load, 2, 128,
            np.zeros(250, kind), numbers(1250, kind), 5)  # fmt: skip
    for width in (2, 16, 32, 1000):
        add(f"broadcast to {width}", kernels.broadcast, 3, 96,
            np.zeros(270, "f4"), numbers(270), width)  # fmt: skip
    for step in (37, 101, 8):
        index = shuffled(513, step)
        add(f"gather by {step}", kernels.gather, 5, 128, np.zeros(513, "f4"), numbers(513), index)
        add(f"scatter by {step}", kernels.scatter, 5, 128, np.zeros(513, "f4"), numbers(513), index)
    add("gather with repeats", kernels.gather, 4, 128,
        np.zeros(500, "f4"), numbers(500), scattered(500, 500, 1))  # fmt: skip
    add("gather of f8 with repeats", kernels.gather, 4, 128,
        np.zeros(500, "f8"), numbers(500, "f8"), scattered(500, 500, 2))  # fmt: skip
    for kind in ("u1", "i2", "f2", "i4", "f4", "i8", "f8", "c8", "c16"):
        add(f"copy of {kind}", kernels.copy, 4, 256, np.zeros(1000, kind), numbers(1000, kind))
    for block in (1, 7, 33, 48, 1000):
        add(f"copy by {block}", kernels.copy, -(-301 // block), block,
            np.zeros(301, "f4"), numbers(301))  # fmt: skip
    for block in ((8, 4, 4), (4, 4, 4), (3, 5, 2), (32, 2, 2)):
        grid = tuple(-(-size // threads) for size, threads in zip((13, 11, 9), block))
        shape = "x".join(map(str, block))
        add(f"three axes by {shape}", kernels.three_axes, grid, block,
            np.zeros((9, 11, 13), "f4"), numbers((9, 11, 13)))  # fmt: skip
    add("either", kernels.either, 3, 100, np.zeros(290, "f4"), numbers(290), numbers(290))
    add("lower triangle sums", kernels.lower_triangle_sums, 2, 40,
        np.zeros(70, "f4"), numbers((70, 70)))  # fmt: skip
    add("in registers", kernels.in_registers, 2, 128, np.zeros(200, "f4"), numbers(200))
    add("in local memory", kernels.in_local_memory, 2, 128,
        np.zeros(200, "f4"), numbers(200), scattered(10, 64, 3))  # fmt: skip
    for rows, columns in ((64, 64), (45, 67)):
        for block in ((32, 8), (16, 16)):
            add(f"transpose naive {rows}x{columns} by {block[0]}x{block[1]}",
                kernels.transpose_naive, (-(-columns // block[0]), -(-rows // block[1])), block,
                np.zeros((columns, rows), "f4"), numbers((rows, columns)))  # fmt: skip
        for padding in (0, 1):
            add(f"transpose tiled {rows}x{columns}, padding {padding}",
                kernels.transpose_through_tile(padding), (-(-columns // 32), -(-rows // 32)),
                (32, 8), np.zeros((columns, rows), "f4"), numbers((rows, columns)))  # fmt: skip
    return cases + view_cases()


def view_cases() -> list[Case]:
    """Views of device arrays: shifted, strided, reversed."""

    def parts(out_part, part, kind="f4"):
        def arguments(to_device):
            out, x = to_device(np.zeros(600, kind)), to_device(numbers(600, kind))
            return out[out_part], x[part]

        return arguments

    def case(name, out_part, part, kind="f4"):
        return Case(name, kernels.copy, 2, 128, parts(out_part, part, kind))

    cases = [
        case(f"load shifted by {offset}", np.s_[:250], np.s_[offset : offset + 250])
        for offset in range(1, 9)
    ]
    cases += [
        case(f"store shifted by {offset}", np.s_[offset : offset + 250], np.s_[:250])
        for offset in (1, 7)
    ]
    cases += [
        case("load shifted by 3, of f8", np.s_[:250], np.s_[3:253], "f8"),
        case("load shifted by 5, of u1", np.s_[:250], np.s_[5:255], "u1"),
        case("load of every second", np.s_[:250], np.s_[0:500:2]),
        case("store to every second, from 1", np.s_[1:501:2], np.s_[:250]),
    ]
    return cases


# ---------------------------------------------------------------------- shared memory
ELEMENTS = {"u1": types.uint8, "i2": types.int16, "f4": types.float32, "f8": types.float64}


def patterns(size: int) -> dict[str, np.ndarray]:
    """By name, which element of ``size`` bytes each of 32 lanes accesses; below 0: none."""
    lane = np.arange(32, dtype="i4")
    row = max(1, 128 // size)  # elements in one pass over all banks

    def only(lanes, elements):
        return np.where(lanes, elements, -1).astype("i4")

    found = {
        "one element": 0 * lane + 5,
        "pairs": lane // 2,
        "quads": lane // 4,
        "eights": lane // 8,
        "halves": lane % 16,
        "quarters": lane % 8,
        "backwards": 31 - lane,
        "neighbours swapped": lane ^ 1,
        "shifted by 3": lane + 3,
        "shuffled": shuffled(32, 7, 3),
        "one bank for pairs": (lane % 2) * row,
        "one bank for quads": (lane % 4) * row + lane // 4 * 2,
        "one bank for both halves": lane // 16 * row + lane % 16,
        "one bank for all": (lane * row) % 1024,
        "rows of four": lane // 4 * row + lane % 4,
        "first half of the lanes": only(lane < 16, lane),
        "even lanes": only(lane % 2 == 0, lane),
        "even lanes, close": only(lane % 2 == 0, lane // 2),
        "every fourth lane, one bank": only(lane % 4 == 0, (lane * row) % 1024),
        "one lane": only(lane == 9, lane),
        "repeats among 16": scattered(32, 16, 1),
        "repeats among 64": scattered(32, 64, 2),
        "repeats among 256": scattered(32, 256, 3),
        "repeats among 1024": scattered(32, 1024, 4),
        "repeats in pairs": scattered(16, 256, 5)[lane // 2],
        "repeats every second": scattered(4, 256, 6)[lane % 4],
    }
    if size < 8:
        return found
    # which lanes share an element decides whether two half-warps are served together
    return found | {
        "crossed pairs": lane // 4 * 2 + lane % 2,
        "pairs in the first half": np.where(lane < 16, lane // 2, lane),
        "pairs in the first quarter": np.where(lane < 8, lane // 2, lane),
        "pairs, then crossed pairs": np.where(lane < 16, lane // 2, lane // 4 * 2 + lane % 2),
        "pairs and crossed pairs in turn": lane // 4 * 2
        + np.where(lane // 4 % 2 == 0, lane // 2, lane) % 2,
        "three of four alike": lane // 4 * 2 + (lane % 4 == 3),
        "outer and inner alike": lane // 4 * 2 + (lane % 4 // 2 ^ lane % 2),
        "first two of four": only(lane % 4 < 2, lane // 4 * 2 + lane % 2),
        "first and last of four": only((lane + 1) % 4 < 2, lane),
        "three of four": only(lane % 4 < 3, lane),
        "three of four, a pair": only(lane % 4 < 3, lane // 2),
        "three of four, a crossed pair": only(lane % 4 < 3, lane // 4 * 2 + lane % 2),
        "second half of the lanes": only(lane >= 16, lane),
        "one of each half": only(lane % 16 == 3, lane),
        "outer quarters": only((lane < 8) | (lane >= 24), lane),
        "pairs far apart": lane // 2 * 3,
        "pairs in one bank": (lane // 2 * row) % 1024,
        "crossed pairs far apart": scattered(16, 256, 7)[lane // 4 * 2 + lane % 2],
        "repeats in pairs, backwards": scattered(16, 1024, 8)[15 - lane // 2],
    }


def shared_cases() -> list[Case]:
    """Strides and patterns in shared memory, for elements of 1 to 16 bytes."""
    cases = []
    for kind, element in ELEMENTS.items():
        strided = kernels.shared_strided(element)
        gather, scatter = kernels.shared_gather(element), kernels.shared_scatter(element)
        for stride in (1, 2, 3, 4, 8, 16, 32, 33):
            cases.append(Case(
                f"shared {kind} by {stride}", strided, 2, 48,
                filled(np.zeros(48, kind), numbers(48, kind), stride),
            ))  # fmt: skip
        for number, (name, index) in enumerate(patterns(np.dtype(kind).itemsize).items()):
            cases.append(Case(
                f"shared load of {kind}, {name}", gather, 1, 32,
                filled(np.zeros(32, kind), numbers(1024, kind), index),
            ))  # fmt: skip
            if number % 2 == 0:
                cases.append(Case(
                    f"shared store of {kind}, {name}", scatter, 1, 32,
                    filled(np.zeros(1024, kind), numbers(32, kind), index),
                ))  # fmt: skip
    for kind, element in {**ELEMENTS, "c16": types.complex128}.items():
        cases.append(Case(
            f"shared {kind}, one place", kernels.shared_uniform(element), 1, 48,
            filled(np.zeros(48, kind), numbers(48, kind), 7),
        ))  # fmt: skip
    for name, index in patterns(16).items():
        cases.append(Case(
            f"shared access of 16 bytes, {name}", None, 1, 32,
            filled(np.zeros(32, "f4"), numbers(32), index), lanes=index,
        ))  # fmt: skip
    complex_gather = kernels.shared_gather(types.complex128)
    for name in ("neighbours swapped", "one element", "pairs", "shuffled", "repeats among 64"):
        cases.append(Case(
            f"shared load of c16, {name}", complex_gather, 1, 32,
            filled(np.zeros(32, "c16"), numbers(1024, "c16"), patterns(16)[name]),
        ))  # fmt: skip
    return cases


CASES = lesson_cases() + global_cases() + shared_cases()
