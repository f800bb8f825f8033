"""Exercises of lesson 04: sectors, mappings, divergence, block shapes."""

import numpy as np

from course.backend import cuda
from course.checks import (
    Case,
    FunctionExercise,
    KernelExercise,
    Limit,
    Tolerance,
    launch_covers,
    register,
)
from course.comparing import shown
from course.simt import trace
from course.verdicts import count

# --- count-sectors: what a request costs ----------------------------------------------------------


def _sectors(byte_addresses):
    return len(np.unique(byte_addresses // 32))


def _request(name, indices, itemsize=4):
    return Case(name, lambda rng: {"indices": np.asarray(indices(rng)), "itemsize": itemsize})


_LANES = np.arange(32)

register(
    FunctionExercise(
        name="count-sectors",
        lesson=4,
        title="Count the sectors of a request",
        reference=lambda indices, itemsize: _sectors(indices * itemsize),
        cases=[
            _request("32 neighbours of 4 bytes", lambda rng: _LANES),
            _request("every second element, 4 bytes", lambda rng: 2 * _LANES),
            _request("neighbours from element 1 on, 4 bytes", lambda rng: _LANES + 1),
            _request("all lanes the same element", lambda rng: np.full(32, 77)),
            _request("neighbours of 8 bytes", lambda rng: _LANES, itemsize=8),
            _request("neighbours of 1 byte", lambda rng: _LANES, itemsize=1),
            _request("32 neighbours in any order", lambda rng: rng.permutation(32)),
            _request("anywhere among 1,000", lambda rng: rng.integers(0, 1000, 32), itemsize=2),
            _request("7 active lanes, far apart", lambda rng: 100 * np.arange(7)),
        ],
        hints={
            "wrong-result": "Element i begins at byte i * itemsize, and byte b lies in sector "
            "b // 32. How many different sectors are there?",
            "wrong-shape": "Return one number.",
        },
        mistakes={
            "you count the lanes or their elements, not the sectors under them": (
                lambda indices: len(indices)
            ),
            "you divide the bytes that are asked for by 32: gaps and borders cost, too": (
                lambda indices, itemsize: -(-len(indices) * itemsize // 32)
            ),
            "you divide the index by 32, as if each element had one byte": (
                lambda indices: _sectors(indices)
            ),
            "eight elements make a sector whatever their size": lambda indices: _sectors(
                indices * 4
            ),
            "you count all sectors from the array's beginning; only touched ones move": (
                lambda indices, itemsize: int(indices.max() * itemsize // 32 + 1)
            ),
            "you compare each lane with the one before it; the order of the lanes is free": (
                lambda indices, itemsize: int(
                    np.count_nonzero(np.diff(indices * itemsize // 32)) + 1
                )
            ),
            "you count the sector of the byte behind each element, too": (
                lambda indices, itemsize: _sectors(
                    np.append(indices * itemsize, (indices + 1) * itemsize)
                )
            ),
            "the addresses are kept in 8 bits (uint8): they wrap around at 256": (
                lambda indices, itemsize: _sectors((indices * itemsize) % 256)
            ),
            "you count all sectors between the first and the last; only touched ones move": (
                lambda indices, itemsize: int(
                    indices.max() * itemsize // 32 - indices.min() * itemsize // 32 + 1
                )
            ),
        },
    )
)

# --- total-by-strides: who takes which elements ---------------------------------------------------


_THREADS = {64: 32, 4096: 128, 1003: 96, 5: 64, 97: 1}  # for as many elements
_BLOCKS = {64: 32, 4096: 64, 1003: 32, 5: 32, 97: 1}  # threads of a block, likewise


def _by_strides(x, threads):
    """What each of so many threads adds up."""
    return [x[first::threads] for first in range(threads)]


def _to_add(n, measured=False):
    return Case(
        count(n, "element"),
        lambda rng: {
            "total": np.zeros(1, np.float32),
            "x": rng.uniform(0.5, 1.5, n).astype(np.float32),
        },
        grid=_THREADS[n] // _BLOCKS[n],
        block=_BLOCKS[n],
        measured=measured,
    )


register(
    KernelExercise(
        name="total-by-strides",
        lesson=4,
        title="Add up an array, neighbours side by side",
        updated=("total",),
        reference=lambda total, x: total + x.sum(),
        cases=[
            _to_add(64),
            _to_add(4096, measured=True),
            _to_add(1003),
            _to_add(5),
            _to_add(97),
        ],
        tolerance=Tolerance(
            128, "up to 97 float32 sums in a thread, and one for each of up to 128 threads"
        ),
        forbidden={"float64"},
        limits=[
            Limit(
                "global",
                "atomic",
                "lanes",
                per="launch",
                at_most=128,
                why="Add up in a variable of your own, and let each of the 128 threads add to "
                "total once, after its loop.",
            ),
            Limit(
                "global",
                "load",
                "sectors",
                per="request",
                at_most=4,
                why="In each step of the loop, the 32 lanes of a warp should read 32 neighbours: "
                "start at the thread's number, go on by the number of all threads.",
            ),
        ],
        hints={
            "race": "Many threads add to total[0]: cuda.atomic.add(total, 0, mine).",
            "float64": "Start your sum with float32(0): with 0.0 or 0 it is float64.",
            "out-of-bounds": "for i in range(first, x.size, step) never leaves the array.",
            "wrong-result": "Each element is added exactly once, by one thread. Does every thread "
            "go on until the end of x?",
        },
        mistakes={
            "every thread adds up all elements": lambda total, x: (
                total + _THREADS[x.size] * x.sum()
            ),
            "each step adds the sum so far to total: add mine once, after the loop": (
                lambda total, x: (
                    total + sum(np.cumsum(part).sum() for part in _by_strides(x, _THREADS[x.size]))
                )
            ),
            "each block begins at its threadIdx.x: begin at cuda.grid(1)": lambda total, x: (
                total
                + _THREADS[x.size]
                // _BLOCKS[x.size]
                * sum(part.sum() for part in _by_strides(x, _THREADS[x.size])[: _BLOCKS[x.size]])
            ),
        },
    )
)

# --- one-layer: fix the mapping -------------------------------------------------------------------


def _layer_case(rows, columns, block=(16, 16), measured=False):
    """A column, a number, a row; a grid that covers the layer whichever way x walks."""
    longest = max(rows, columns)
    return Case(
        f"{rows} x {columns}",
        lambda rng: {
            "out": np.empty((rows, columns), np.float32),
            "column": rng.standard_normal(rows, dtype=np.float32),
            "weight": np.float32(rng.uniform(2, 3)),
            "row": rng.standard_normal(columns, dtype=np.float32),
        },
        block=block,
        grid=tuple(-(-longest // threads) for threads in block),
        measured=measured,
    )


ONE_THREAD_A_PIXEL = Limit(
    "global",
    "store",
    "lanes",
    per="element",
    at_most=1,
    why="Each pixel belongs to one thread: take both indices from cuda.grid(2).",
)

register(
    KernelExercise(
        name="one-layer",
        lesson=4,
        title="One layer of an image, in the right order",
        outputs=("out",),
        reference=lambda column, weight, row: weight * np.outer(column, row),
        cases=[
            _layer_case(16, 16),
            _layer_case(13, 37),
            _layer_case(37, 13, block=(8, 4)),
            _layer_case(1, 5),
            _layer_case(64, 96, block=(32, 8), measured=True),
        ],
        tolerance=Tolerance(4, "two float32 products, each of which rounds once"),
        limits=[
            ONE_THREAD_A_PIXEL,
            Limit(
                "global",
                "store",
                "sectors",
                per="request",
                at_most=4,
                why="Neighbours in x should store neighbours in memory: the column of out is its "
                "last index, so it should come from x.",
            ),
        ],
        hints={
            "out-of-bounds": "The grid is larger than the layer. Guard the row with out.shape[0] "
            "and the column with out.shape[1].",
            "unwritten-output": "cuda.grid(2) gives both indices. Guard the row with out.shape[0] "
            "and the column with out.shape[1], whichever of them comes from x.",
            "race": "Each pixel belongs to one thread: take both indices from cuda.grid(2).",
            "wrong-result": "out[i, j] is column[i] * weight * row[j].",
            "typing": "column[i] and row[j] are numbers, and so is weight: it has no index.",
        },
        mistakes={
            "weight is left out": lambda column, row: np.outer(column, row),
            "row and column are exchanged": lambda column, weight, row: (
                weight * np.outer(row, column)
                if row.size == column.size
                else np.full((column.size, row.size), np.nan)
            ),
        },
    )
)

# --- two-jobs: branch by warp ---------------------------------------------------------------------


def _two_arrays(n, block, measured=False):
    return Case(
        f"{n:,} of each",
        lambda rng: {
            "squares": np.empty(n, np.float32),
            "roots": np.empty(n, np.float32),
            "x": rng.uniform(2, 3, n).astype(np.float32),
            "y": rng.uniform(4, 9, n).astype(np.float32),
        },
        block=block,
        grid=-(-2 * n // block),
        measured=measured,
    )


register(
    KernelExercise(
        name="two-jobs",
        lesson=4,
        title="Two jobs in one launch, a job a warp",
        outputs=("squares", "roots"),
        reference=lambda x, y: {"squares": x * x, "roots": np.sqrt(y)},
        cases=[
            _two_arrays(8, block=32),
            _two_arrays(1024, block=128, measured=True),
            _two_arrays(101, block=64),
            _two_arrays(1, block=32),
        ],
        tolerance=Tolerance(4, "a float32 product or a float32 root, each of which rounds once"),
        limits=[
            Limit(
                "global",
                "store",
                "requests",
                per="launch",
                at_most=64,
                why="2,048 numbers are written, 32 by a full request. Yours are not full: the "
                "lanes of a warp have different jobs. Give whole warps one job.",
            ),
            Limit(
                "global",
                "load",
                "sectors",
                per="request",
                at_most=4,
                why="Neighbouring lanes should read neighbouring elements.",
            ),
            Limit(
                "global",
                "store",
                "sectors",
                per="request",
                at_most=4,
                why="Neighbouring lanes should write neighbouring elements.",
            ),
        ],
        hints={
            "out-of-bounds": "Thread n has job 2 and element 0: its index is i - x.size. "
            "Threads from 2 * x.size on have no job at all.",
            "unwritten-output": "There are two elements for each i below x.size: one of squares, "
            "one of roots. Which threads write the squares, which the roots? All of them may be in "
            "one block.",
            "wrong-result": "squares[i] is x[i] * x[i], roots[i] is math.sqrt(y[i]).",
            "typing": "The root of one number is math.sqrt(number).",
        },
        mistakes={
            "the roots are those of x": lambda x: {"squares": x * x, "roots": np.sqrt(x)},
            "squares and roots are exchanged": lambda x, y: {"squares": np.sqrt(y), "roots": x * x},
        },
    )
)

# --- block-shape: whole warps in a row ------------------------------------------------------------


@cuda.jit
def fill_odd_rows(out, image):
    """Copy the even rows; each odd row becomes the mean of its neighbours. An odd number of rows.

    Mapping: thread (x, y) writes row y, column x.
    """
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        if row % 2 == 0:
            out[row, col] = image[row, col]
        else:
            out[row, col] = (image[row - 1, col] + image[row + 1, col]) // 2


_covers = launch_covers(lambda rows, columns: (rows, columns))


def _judge_block_shape(answer, rows, columns):
    sentence = _covers(answer, rows=rows, columns=columns)
    if sentence:
        return sentence
    grid, block = (tuple(int(n) for n in part) for part in answer)
    threads = block[0] * block[1]
    if threads < 64:
        if (
            grid[0] * grid[1] % 32 == 0
            and _covers((block, grid), rows=rows, columns=columns) is None
        ):
            return "Grid and block are exchanged: return (grid, block), the grid first."
        return (
            f"Block {block} has {threads} threads. A T4 holds at most 16 blocks on a "
            "multiprocessor: with less than 64 threads each it stays half empty."
        )
    if columns % 32:
        return None
    image = np.zeros((rows, columns), np.uint8)
    loads = trace(fill_odd_rows, grid, block, np.zeros_like(image), image, gpu="T4").total(
        "global", "load"
    )
    warps_in_a_row = columns // 32
    enough = warps_in_a_row * (rows // 2 + 1) + 2 * warps_in_a_row * (rows // 2)
    if loads.requests <= enough:
        return None
    return (
        f"With block {block} the kernel makes {loads.requests:,} load requests, {enough:,} are "
        f"enough. A request has {shown(round(loads.lanes / loads.requests, 1))} active lanes: a "
        "warp lies over several rows, and walks both sides of the if."
    )


register(
    FunctionExercise(
        name="block-shape",
        lesson=4,
        title="A block whose warps agree",
        judge=_judge_block_shape,
        cases=[
            Case(f"{rows} x {columns}", lambda rng, r=rows, c=columns: {"rows": r, "columns": c})
            for rows, columns in ((65, 96), (101, 64), (7, 128), (1001, 700), (3, 5))
        ],
        hints={
            "wrong-result": "A warp is 32 threads, counted along x first. How wide must a block "
            "be, so that a warp stays in one row? The grid follows by ceiling division.",
        },
    )
)
