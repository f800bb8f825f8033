"""Exercises of lesson 04: sectors, strides, mappings, divergence, block shapes; layouts."""

import numpy as np

from course.backend import cuda
from course.checks.comparing import first, shown, told_apart
from course.checks.exercises import Case, FunctionExercise, Limit, Tolerance
from course.checks.verdicts import Failure
from course_lessons.cases import covering, drawn, empty, extent, places, sides, table, told, uniform
from course_lessons.edits import LessonKernel
from course_lessons.lesson00.exercises import SCALE_ADD_ROUNDING, scale_add_case
from course_lessons.lesson01.judges import launch_covers
from warpsim import trace
from warpsim.core.words import count


def side_by_side(operation, why):
    """A limit: a warp touches no more sectors than 32 neighbours of 4 bytes have."""
    return Limit("global", operation, "sectors", "request", 4, why)


ONE_THREAD = "Each element belongs to one thread: take both indices from cuda.grid(2)."
ONE_THREAD_A_PIXEL = Limit("global", "store", "lanes", "element", 1, ONE_THREAD)


# --- count-sectors: what a request costs ----------------------------------------------------------


_LANES = np.arange(32)

FunctionExercise.declare(
    name="count-sectors",
    lesson=4,
    title="Count the sectors of a request",
    reference=lambda indices, itemsize: len(np.unique(indices * itemsize // 32)),
    cases=table(
        "indices itemsize",
        ("32 neighbours of 4 bytes", _LANES, 4),
        ("neighbours from element 100,001 on, 4 bytes", _LANES + 100_001, 4),
        ("neighbours of 16 bytes", _LANES, 16),
        ("32 neighbours in another order, 4 bytes", _LANES * 7 % 32, 4),
        ("7 active lanes, far apart, 4 bytes", 16384 * _LANES[:7], 4),
    ),
    drawer=lambda rng: told(
        indices=places(rng, extent(rng, 1, 32)), itemsize=2 ** int(rng.integers(5))
    ),
    drawn=10,
    hints={
        "wrong-result": "Element i begins at byte i * itemsize, and byte b lies in sector "
        "b // 32. How many different sectors are there?",
        "wrong-shape": "Return one number.",
    },
)

# --- total-by-strides: who takes which elements ---------------------------------------------------


def _to_add(n, grid, block, measured=False, start=0):
    total, x = uniform(start, start, 1, sized=True), uniform(0.5, 1.5, n, sized=True)
    arguments = drawn(total=total, x=x)
    return Case(count(n, "element"), arguments, block, grid, measured=measured)


def _any_sum(rng):
    block, grid = extent(rng, 9, 70), extent(rng, 1, 8)
    n = extent(rng, grid * block, 20 * grid * block, 132_000)
    return _to_add(n, grid, block, start=rng.integers(1, 9))


_ADD_ONCE = (
    "Add up in a variable of your own, and let each of the 128 threads add to total once, after "
    "its loop."
)

LessonKernel.declare(
    name="total-by-strides",
    lesson=4,
    title="Add up an array, neighbours side by side",
    updated=("total",),
    reference=lambda total, x: total + x.sum(),
    cases=[
        _to_add(2003, 6, 32),
        _to_add(4096, 2, 64, measured=True),
        _to_add(5, 2, 32),
    ],
    drawer=_any_sum,
    tolerance=Tolerance(
        550, "up to 950 float32 sums in a thread, one for each of 140 or more: half of eps each"
    ),
    forbidden={"float64"},
    limits=[
        Limit("global", "atomic", "lanes", "launch", 128, _ADD_ONCE),
        side_by_side(
            "load",
            "In each step of the loop, the 32 lanes of a warp should read 32 neighbours: "
            "start at the thread's number, go on by the number of all threads.",
        ),
    ],
    hints={
        "race": "Many threads add to total[0]: cuda.atomic.add(total, 0, part).",
        "float64": "Start your sum with float32(0): with 0.0 or 0 it is float64.",
        "out-of-bounds": "for i in range(first, x.size, step) never leaves the array.",
        "wrong-result": "Each element is added exactly once, by one thread: start at the thread's "
        "index in the grid, and go on by the number of all threads.",
    },
)

# --- fix-the-access: a symmetric matrix -----------------------------------------------------------


def _any_block(rng):
    return extent(rng, 4, 40), extent(rng, 1, 12)


def _dot_products(n, block=(16, 16), measured=False):
    def arguments(rng):
        columns = rng.uniform(0.1, 1, (n + 5, n)) * rng.uniform(0.5, 2, n)
        dots = columns.T @ columns
        dots = np.float32((dots + dots.T) / 2)
        return {"out": np.empty_like(dots), "dots": dots, "lengths": uniform(1, 9, n)(rng)}

    return Case(f"{n} x {n}", arguments, block, covering(n, block), measured=measured)


LessonKernel.declare(
    name="fix-the-access",
    lesson=4,
    title="Fix the access",
    outputs=("out",),
    reference=lambda dots, lengths: dots / lengths[:, None],
    cases=[
        _dot_products(16),
        _dot_products(37),
        _dot_products(96, block=(32, 8), measured=True),
    ],
    drawer=lambda rng: _dot_products(extent(rng, 1, 150, 540), _any_block(rng)),
    tolerance=Tolerance(4, "one float32 division, which rounds once"),
    limits=[
        ONE_THREAD_A_PIXEL,
        side_by_side(
            "load",
            "Let x be col, and col the last index of dots: dots is symmetric, so its two may be "
            "swapped.",
        ),
        side_by_side("store", "Keep x on the columns of out: `col, row = cuda.grid(2)`."),
    ],
    hints={
        "out-of-bounds": "Guard the row with out.shape[0] and the column with out.shape[1].",
        "unwritten-output": "Guard the row with out.shape[0] and the column with out.shape[1].",
        "wrong-result": "out[row, col] is dots[row, col] / lengths[row]. Only the order of the two "
        "indices of dots is free.",
        "race": ONE_THREAD,
        "not-parallel": ONE_THREAD,
    },
)

# --- strided-scale-add: fewer threads than elements -----------------------------------------------


def _some_rounds(rng):
    block, grid = extent(rng, 8, 200), extent(rng, 1, 9)
    return scale_add_case(extent(rng, 1, 20 * grid * block, 140_000), block, grid=grid, low=-3)


LessonKernel.declare(
    name="strided-scale-add",
    lesson=4,
    title="More elements than threads",
    outputs=("out",),
    reference=lambda a, x, y: a * x + y,
    cases=[
        scale_add_case(24, grid=2, block=4),
        scale_add_case(1031, grid=6, block=32),
        scale_add_case(5, grid=2, block=32),
    ],
    drawer=_some_rounds,
    drawn=5,
    tolerance=SCALE_ADD_ROUNDING,
    forbidden={"uncoalesced"},
    hints={
        "unwritten-output": "Each thread must go on: from i by steps of cuda.gridsize(1), "
        "which is how many threads the whole grid has.",
        "out-of-bounds": "Let range stop at out.size: range(start, out.size, step).",
        "uncoalesced": "Let the threads take neighbouring elements and stride by the whole "
        "grid; a chunk of its own for each thread scatters them.",
        "wrong-result": "The formula for one element is a * x[i] + y[i].",
    },
)

# --- one-layer: fix the mapping -------------------------------------------------------------------


def rectangles(arguments):
    """A maker of cases whose grid covers a rectangle whichever way x walks, and a drawer."""

    def case(rows, columns, block=(16, 16), measured=False):
        grid = covering(max(rows, columns), block)
        made = drawn(**arguments(rows, columns))
        return Case(f"{rows} x {columns}", made, block, grid, measured=measured)

    return case, lambda rng: case(*sides(rng, 70, 70), _any_block(rng))


_layer_case, _any_layer = rectangles(
    lambda rows, columns: {
        "out": empty(rows, columns),
        "column": uniform(-2, 2, rows),
        "weight": uniform(2, 3),
        "row": uniform(-2, 2, columns, sized=True),
    }
)


LessonKernel.declare(
    name="one-layer",
    lesson=4,
    title="One layer of an image, in the right order",
    outputs=("out",),
    reference=lambda column, weight, row: weight * np.outer(column, row),
    cases=[
        _layer_case(16, 16),
        _layer_case(13, 37),
        _layer_case(64, 96, block=(32, 8), measured=True),
    ],
    drawer=_any_layer,
    tolerance=Tolerance(4, "two float32 products, each of which rounds once"),
    limits=[
        ONE_THREAD_A_PIXEL,
        side_by_side(
            "store",
            "Neighbours in x should store neighbours in memory: the column of out is its "
            "last index, so it should come from x.",
        ),
    ],
    hints={
        "out-of-bounds": "The grid is larger than the layer. Guard the row with out.shape[0] "
        "and the column with out.shape[1].",
        "unwritten-output": "cuda.grid(2) gives both indices. Guard the row with out.shape[0] "
        "and the column with out.shape[1], whichever of them comes from x.",
        "race": ONE_THREAD,
        "not-parallel": ONE_THREAD,
        "wrong-result": "out[i, j] is column[i] * weight * row[j].",
        "typing": "column[i] and row[j] are numbers, and so is weight: it has no index.",
    },
)

# --- two-jobs: branch by warp ---------------------------------------------------------------------


def _two_arrays(n, block, measured=False):
    x, y = uniform(2, 3, n, sized=True), uniform(4, 9, n)
    arguments = drawn(squares=empty(n), roots=empty(n), x=x, y=y)
    return Case(f"{n:,} of each", arguments, block, -(-2 * n // block), measured=measured)


_FULL = (
    "2,048 numbers are written, 32 by a full request. Yours are not full: the lanes of a warp "
    "have different jobs. Give whole warps one job."
)

LessonKernel.declare(
    name="two-jobs",
    lesson=4,
    title="Two jobs in one launch, a job a warp",
    outputs=("squares", "roots"),
    reference=lambda x, y: {"squares": x * x, "roots": np.sqrt(y)},
    cases=[
        _two_arrays(8, block=64),
        _two_arrays(1024, block=128, measured=True),
        _two_arrays(101, block=64),
    ],
    drawer=lambda rng: _two_arrays(extent(rng, 30, 5000, 140_000), 64 * int(rng.integers(1, 5))),
    tolerance=Tolerance(4, "a float32 product or a float32 root, each of which rounds once"),
    limits=[
        Limit("global", "store", "requests", "launch", 64, _FULL),
        side_by_side("load", "Neighbouring lanes should read neighbouring elements."),
        side_by_side("store", "Neighbouring lanes should write neighbouring elements."),
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
            "multiprocessor: with less than 64 threads each it is never full."
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


def _any_odd_rows(rng):
    if rng.integers(2):
        rows, columns = (2 * rng.integers(1, 3000, 2) - 1).tolist()
        return told(rows=rows, columns=columns)
    columns = int(rng.choice([extent(rng, 1, 400), 32 * extent(rng, 1, 9)]))
    return told(rows=2 * extent(rng, 1, 200) - 1, columns=columns)


FunctionExercise.declare(
    name="block-shape",
    lesson=4,
    title="A block whose warps agree",
    judge=_judge_block_shape,
    cases=[
        told(rows=rows, columns=columns)
        for rows, columns in ((65, 96), (1001, 700), (3, 5), (7, 33))
    ],
    drawer=_any_odd_rows,
    drawn=8,
    hints={
        "wrong-result": "A warp is 32 threads, counted along x first. How wide must a block "
        "be, so that a warp stays in one row? The grid follows by ceiling division."
    },
)


# --- split-records: from an array of structs to a struct of arrays --------------------------------

POINT = np.dtype([("x", np.float32), ("y", np.float32), ("z", np.float32)], align=True)


def _points(n):
    def arguments(rng):
        points = np.zeros(n, POINT)
        for name in POINT.names:
            points[name] = rng.standard_normal(n)
        return {"points": points}

    return Case(count(n, "point"), arguments)


def _judge_split(result, points):
    if isinstance(result, np.ndarray) and result.shape == (3, points.size):
        result = tuple(result)
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        return f"Return three arrays, x, y and z; got {type(result).__name__}."
    for name, part in zip("xyz", result, strict=True):
        if not isinstance(part, np.ndarray) or part.shape != points.shape:
            shape = f"shape {part.shape}" if isinstance(part, np.ndarray) else type(part).__name__
            return f"{name} must be an array of shape {points.shape}; got {shape}."
        if part.dtype != np.float32:
            raise Failure("wrong-dtype", f"{name} has the type {part.dtype}, right is float32.")
        wrong = part != points[name]
        if wrong.any():
            index = first(wrong)[0]
            got, right = told_apart(part[index], points[name][index])
            return f"{name}[{index}] is {got}, but points[{index}].{name} is {right}."
    for name, part in zip("xyz", result, strict=True):
        if not part.flags.c_contiguous:
            return (
                f"{name} has the right values, but from one to the next it is still "
                f"{part.strides[0]} bytes: it is a view into the records, nothing has moved. "
                "Copy it into an array of its own."
            )
    return None


FunctionExercise.declare(
    name="split-records",
    lesson=4,
    title="From an array of structs to a struct of arrays",
    judge=_judge_split,
    cases=[_points(8), _points(2)],
    drawer=lambda rng: _points(extent(rng, 1, 2000)),
    hints={
        "wrong-result": "np.ascontiguousarray(points['x']) is an array with neighbours side "
        "by side. Return the three of them: x, y, z.",
        "wrong-dtype": "points['x'] is float32 already; keep that.",
        "raised": "The field x of all records is points['x'].",
    },
)
