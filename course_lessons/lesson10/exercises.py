"""Exercises of lesson 10: a warp adds a row, blocks an array, two parts meet, a softmax."""

import math

import numpy as np

from course.checks.exercises import Case, FunctionExercise, Limit, Tolerance
from course.kernels.reduce import KINDS, combiners
from course_lessons.cases import drawn, empty, extent, fixed, normal, row_sizes, table, turn, zeros
from course_lessons.edits import LessonKernel
from course_lessons.lesson10 import rivals

WARPS = 4  # of a block where a warp has a row

ALL_LANES = "A warp's {}: neighbouring lanes take neighbouring columns, all 32 at the same time."

SHUFFLE_HINTS = {
    "barrier-divergence": "All 32 lanes make every shuffle. Guard what a lane loads, never the "
    "shuffle: a lane without a number gives one that changes nothing. And a warp needs no "
    "cuda.syncthreads(), which waits for warps that may have no row.",
    "out-of-bounds": "The last block may have warps without a row, and the last round of a row "
    "lanes without a column: compare with x.shape first. The row is x's first index.",
    "uncoalesced": "Lane l takes the columns l, l + 32, l + 64, ...: neighbours read neighbours.",
    "float64": "In your own lines: 0.0, 1.0 and 1e-5 are float64, and so is a whole number such as "
    "x.shape[1], or 1, beside a float32 in a product or quotient. Write float32(0), float32(1).",
    "unwritten-output": "Each row has a warp; one of its lanes, or each for its columns, stores.",
    "not-parallel": "Each warp of the launch has a row, and its 32 lanes share the columns: lane l "
    "begins at l and goes on by 32.",
}

# --- a warp adds a row ----------------------------------------------------------------------------


def _sums(rows, columns, measured=False):
    arguments = drawn(x=normal(rows, columns, sized=True), out=empty(rows))
    name = f"{rows} x {columns}"
    return Case(name, arguments, block=32 * WARPS, grid=-(-rows // WARPS), measured=measured)


LessonKernel.declare(
    name="warp-row-sum",
    rivals=rivals.of_row_sum(_sums(16_384, 256)),
    lesson=10,
    title="A warp adds a row",
    outputs=("out",),
    reference=lambda x: x.sum(1),
    cases=[
        _sums(8, 96),
        _sums(5, 70),
        _sums(3, 7),
        _sums(32, 256, measured=True),
    ],
    drawer=lambda rng: _sums(*row_sizes(rng)),
    drawn=5,
    tolerance=Tolerance(
        1,
        "one addition in a lane for 32 columns, and up to 32 between lanes",
        magnitude=lambda x: (32 + x.shape[1] / 32) * np.abs(x).sum(1),
    ),
    forbidden={"float64", "uncoalesced"},
    limits=[
        Limit("shared", "store", "requests", "launch", 0, "Lanes exchange registers: shuffles "
              "do without shared memory."),
        Limit("global", "load", "lanes", "element", 256, "Load each number once."),
        Limit("global", "load", "requests", "launch", 256, ALL_LANES.format("lanes share a "
              "row")),
        Limit("global", "atomic", "lanes", "launch", 0, "The lanes meet by shuffles, then one "
              "of them stores."),
        Limit("global", "store", "lanes", "element", 1, "One lane stores the sum, lane 0."),
    ],
    hints=SHUFFLE_HINTS
    | {
        "same-value-race": "All lanes have the sum, and one stores it: if lane == 0.",
        "race": "One lane of each warp stores, at out[row].",
        "wrong-result": "Each lane adds its columns first. Then five shuffles, with 16, 8, 4, "
        "2 and 1, each followed by an addition. A lane without a column goes along with "
        "float32(0): one that returns early is missing in the shuffles.",
    },
)  # fmt: skip

# --- a block adds, one atomic each ----------------------------------------------------------------

BLOCKS = 3

SHARED_OUT = BLOCKS * 256 * 24  # elements where costs are judged, 24 for each thread


def _all(size, blocks=BLOCKS, measured=False):
    arguments = drawn(x=normal(size, sized=True), out=zeros(1))
    name = f"{size:,} element{'s' * (size != 1)}, {blocks} block{'s' * (blocks != 1)}"
    return Case(name, arguments, block=256, grid=blocks, measured=measured)


def _drawn_all(rng):
    blocks = 5 if turn(rng) == 0 else extent(rng, 1, 5)
    return _all(extent(rng, 65_537 if turn(rng) == 0 else 1, 60 * 256 * blocks), blocks)


LessonKernel.declare(
    name="sum-several",
    rivals=rivals.of_sum(_all(1_048_576, 1056)),
    lesson=10,
    title="Several elements a thread, one atomic a block",
    updated=("out",),
    reference=lambda x, out: np.array([x.sum()]),
    solved_by=combiners(KINDS["sum"], warps=8)[1:],
    cases=[
        _all(1_003),
        _all(1),
        _all(3_000, 8),
        _all(SHARED_OUT, measured=True),
    ],
    drawer=_drawn_all,
    drawn=5,
    tolerance=Tolerance(
        40,
        "up to 60 additions in a thread, 5 and 3 between lanes, up to 8 atomics",
        magnitude=lambda x: np.array([np.abs(x).sum()]),
    ),
    forbidden={"float64", "uncoalesced"},
    limits=[
        Limit("global", "atomic", "lanes", "launch", BLOCKS, "One thread of each block adds to "
              "out, after the warps have met in shared memory."),
        Limit("global", "load", "lanes", "launch", SHARED_OUT, "Load each element once."),
        Limit("global", "load", "requests", "launch", SHARED_OUT // 32, "All threads of "
              "the block load, neighbours beside each other."),
        Limit("global", "load", "lanes", "thread", 32, "All warps of all blocks share the "
              "elements, 24 for each thread: begin at cuda.grid(1) in every warp."),
        Limit("shared", "atomic", "lanes", "launch", 8 * BLOCKS, "In shared memory, too, many "
              "additions at one address stand in line: the lanes of a warp meet first."),
        Limit("shared", "store", "lanes", "launch", 8 * BLOCKS, "One lane of each warp stores "
              "its warp's sum: 8 numbers a block."),
    ],
    hints=SHUFFLE_HINTS
    | {
        "race": "The warps' sums are stored, then all wait (cuda.syncthreads()), then one warp "
        "or one thread reads them. Only atomics may touch out, which holds 0 at the start.",
        "out-of-bounds": "sums has eight places: lanes 8 to 31 take float32(0) instead. And "
        "for i in range(cuda.grid(1), x.size, cuda.gridsize(1)) stays inside x.",
        "uncoalesced": "for i in range(cuda.grid(1), x.size, cuda.gridsize(1)): then "
        "neighbouring threads read neighbouring elements.",
        "not-parallel": "All threads of the launch share the elements: begin at cuda.grid(1), and "
        "go on by cuda.gridsize(1).",
        "barrier-divergence": "Shuffles and the barrier stand outside of every if, and of the "
        "loop over the elements: all threads make them. warp_sum, too.",
        "wrong-result": "A thread's own elements, then warp_sum, then the warps' sums in "
        "shared memory, then one atomic a block. A thread without an element goes along with "
        "float32(0): one that returns early is missing in the shuffles.",
        "uninitialised-read": "sums has a place for each of the 8 warps: lane 0 of every warp "
        "stores there.",
    },
)  # fmt: skip

# --- two parts of a softmax -----------------------------------------------------------------------

LOWEST = -3.4028234663852886e38  # float32's


def _parts(rng):
    """Two parts of a softmax, either one above; some are empty, or have the same largest number."""
    largest = rng.uniform(-1, 1, 2) * [2000, 10 ** rng.uniform(0, 3.3)][turn(rng) > 0]
    largest[rng.integers(2)] = rng.choice([*largest, LOWEST], p=[0.4, 0.4, 0.2])
    given = {}
    for which, one in zip(("", "other_"), largest.tolist(), strict=True):
        given[which + "largest"] = one
        given[which + "total"] = float(rng.choice([1, rng.uniform(1, 900)])) * (one > LOWEST)
    return fixed("largest {largest:.3g} and {other_largest:.3g}".format(**given), **given)


def _merged(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    return both, total * math.exp(largest - both) + other_total * math.exp(other_largest - both)


FunctionExercise.declare(
    name="merge-softmax",
    lesson=10,
    title="Two parts of a softmax become one",
    reference=_merged,
    cases=table(
        "largest total other_largest other_total",
        ("the second has the larger number", 1.0, 2.5, 3.0, 1.25),
        ("the first has the larger number", 2.0, 4.0, -1.0, 3.0),
        ("far apart, the second above", -900.0, 7.0, 900.0, 1.5),
        ("the first is empty", LOWEST, 0.0, -4.0, 2.0),
    ),
    drawer=_parts,
    drawn=30,
    tolerance=Tolerance(
        4096, "two exponentials, and a total's logarithm if it is added to a largest of up to 2000"
    ),
    hints={
        "wrong-result": "Both totals must become relative to the same largest number: multiply "
        "each by exp(its own largest - the larger of the two), then add.",
        "raised": "math.exp of a large number overflows. The exponents here are never above 0: "
        "each part's largest less the larger of the two.",
        "wrong-shape": "Return two numbers, (largest, total).",
    },
)  # fmt: skip


def row_limits(reads, why):
    """What may be done to read the numbers of 128 full warps so often, and to write them once."""
    read, write = (ALL_LANES.format(f"lanes share the {how}ing") for how in ("read", "writ"))
    return [
        Limit("global", "load", "lanes", "element", reads, why),
        Limit("global", "load", "requests", "launch", reads * 128, read),
        Limit("global", "store", "lanes", "element", 1, "Write each number once, at the end."),
        Limit("global", "store", "requests", "launch", 128, write),
        Limit("shared", "store", "requests", "launch", 0, "A warp needs shuffles alone."),
    ]


ALL_WRITE = "Each lane writes all of its columns: lane, lane + 32, lane + 64, ..."


def row_case(
    rows, columns, spread=1.0, middle=0.0, measured=False, *, order=0, outlier=0, **factors
):
    """A case of rows with a warp each, in no order or rising (1) or falling (-1).

    `factors` are further arguments by name, from rng.
    """

    def arguments(rng):
        x = rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(spread)
        if order:
            x = np.sort(x)[:, ::order].copy()
        x[range(rows), rng.choice([0, columns // 2, columns - 1], rows)] += np.float32(outlier)
        given = {"x": x + np.float32(middle)}
        given |= {name: make(rng, columns) for name, make in factors.items()}
        return given | {"out": np.empty((rows, columns), np.float32)}

    about = f" around {middle:g}" if middle else ""
    about += f", one {outlier:+d}" if outlier else ""
    block, grid = 32 * WARPS, -(-rows // WARPS)
    return Case(f"{rows} x {columns}{about}", arguments, block, grid, measured=measured)


def _drawn_rows(rng):
    sizes, spread = row_sizes(rng), 10 ** rng.uniform(-1, 1.3)
    middle, outlier = (int(number) for number in rng.choice([0, 200, -2000], 2))
    return row_case(*sizes, spread, middle, order=int(rng.integers(-1, 2)), outlier=outlier)


# --- softmax online -------------------------------------------------------------------------------


def _softmax(x):
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


LessonKernel.declare(
    name="softmax-online",
    rivals=rivals.of_softmax(row_case(4096, 1024)),
    lesson=10,
    title="Softmax in two readings, a warp a row",
    outputs=("out",),
    reference=_softmax,
    cases=[
        row_case(8, 128, spread=3),
        row_case(3, 7),
        row_case(5, 70, outlier=200),
        row_case(2, 64, middle=-2000),
        row_case(32, 128, spread=4, measured=True),
    ],
    drawer=_drawn_rows,
    drawn=5,
    tolerance=Tolerance(
        400,
        "an exponential's argument is rounded before it is taken, to digits of x or up to 100",
        magnitude=lambda x: _softmax(x) * (1 + np.abs(x).max() / 200) + 1e-30,
    ),
    forbidden={"float64", "uncoalesced", "same-value-race"},
    limits=row_limits(
        2, "Maximum and sum in the same loop: x is read once for both, and once more to write the "
        "row, each number by one lane."
    ),
    hints=SHUFFLE_HINTS
    | {
        "wrong-result": "A lane's largest begins with LOWEST, its total with 0. When the "
        "largest grows, the total is multiplied by exp(old largest - new largest) before the "
        "new power is added; the same when two lanes meet, whose pairs are exchanged before "
        "either is changed. All lanes write, so all need the result: shfl_xor_sync. A lane "
        "without a column goes along: one that returns early is missing in the shuffles.",
        "uninitialised-read": "A lane without a number has LOWEST and 0, which change nothing.",
        "unwritten-output": ALL_WRITE,
    },
)  # fmt: skip
