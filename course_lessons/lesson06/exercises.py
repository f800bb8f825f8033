"""Exercises of lesson 06: tiles in registers, two buffers; reads, bytes, registers, banks."""

import numpy as np

from course.checks.exercises import Case, FunctionExercise, Limit, Tolerance
from course_lessons.cases import (
    OF_LAYERS,
    drawn,
    empty,
    extent,
    factors,
    kept,
    rebuilt,
    sides,
    told,
)
from course_lessons.edits import LessonKernel
from course_lessons.lesson06 import lanes, rivals

# --- the rungs square, wide and the reader's own --------------------------------------------------

SQUARE = 128, 128, 256  # rows and columns of a block's pixels, its threads
DEPTH = 8


def _factors(rows, columns, values, k, tile, measured=False):
    """Factors with more singular values than are used, so that reading past k shows."""
    down, across, threads = tile
    arguments = drawn(**factors(rows, columns, values), k=k, out=empty(rows, columns))
    grid = (-(-columns // across), -(-rows // down))
    return Case(f"{rows} x {columns}, k = {k}", arguments, threads, grid, measured=measured)


def _any_factors(tile, multiple=1, many=128):
    """A drawer of images of up to a tile, or with a long side; columns and k are multiples."""

    def drawer(rng):
        rows, columns, *others = *sides(rng, *tile[:2]), *kept(rng, 24, many)
        columns = -(-columns // multiple) * multiple
        values, k = (multiple * (n // multiple | 1) for n in others)  # odd: a tile has a part of k
        return _factors(rows, columns, values, k, tile)

    return drawer


HINTS = {
    "race": "Two barriers: one between filling the tiles and reading them, one between reading "
    "them and filling them again in the next round. If two threads write the same pixel of out, "
    "look at its row and column: each begins with its block's, first_row and first_column.",
    "barrier-divergence": "All threads fill and wait in every round, also those without a pixel. "
    "Guard the loads and the stores, never the barrier.",
    "out-of-bounds": "A block's tile of pixels goes past the image's right and lower edge, and "
    "the last tile of u and vt past k. Load only what is there, fill in 0 elsewhere, "
    "and store only pixels below out.shape.",
    "uninitialised-read": "Every place of both tiles needs a value in every round, a number or 0, "
    "and every sum starts with float32(0).",
    "unwritten-output": "Every thread stores all its sums, guarded by out.shape, after the last "
    "round.",
    "wrong-result": "In each round both tiles are filled anew, 0 past the edges, and each sum "
    "grows by the products of its row and its column.",
    "float64": "Start the sums with float32(0): 0.0 is float64.",
    "not-parallel": "Each block has a tile of the image and each thread its own pixels of it; all "
    "threads of the block fill its two tiles, a part each.",
}
ONCE = "Load u, s and vt only where you fill the tiles: once for the block, not once for a thread."
SIDE_BY_SIDE = (
    "The places of a row of u lie side by side in memory, and in the tile: t % DEPTH is the place, "
    "t // DEPTH the row, so that neighbouring threads {}."
)
IN_ORDER = [
    Limit("global", "load", "sectors", "request", 4, SIDE_BY_SIDE.format("load neighbours")),
    Limit("shared", "store", "conflicts", "request", 1, SIDE_BY_SIDE.format("fill neighbours")),
]
STORES = Limit("global", "store", "lanes", "element", 1, "Store once, after the last round.")


def _limits(k, global_lanes, shared_lanes, why):
    """Lanes that load for each pixel, for k values of i."""
    return [
        Limit("global", "load", "lanes", "element", k * global_lanes, ONCE),
        Limit("shared", "load", "lanes", "element", k * shared_lanes, why),
    ]


def _rebuilding(**fields):
    LessonKernel.declare(
        lesson=6, outputs=("out",), reference=rebuilt, tolerance=OF_LAYERS, **fields
    )


_rebuilding(
    name="square-tile",
    rivals=rivals.of_step("square", SQUARE),
    title="A square of results in each thread",
    cases=[
        _factors(2, 515, 4, 2, SQUARE),
        _factors(128, 128, 20, 16, SQUARE, measured=True),
        _factors(256, 256, 24, 17, SQUARE),
    ],
    drawer=_any_factors(SQUARE),
    forbidden={"float64"},
    limits=_limits(
        16,
        3 / 128,
        1 / 4,
        "For each i read the thread's 8 numbers of u and 8 of vt once, into a and b, and "
        "multiply from there: 16 reads for 64 products.",
    )
    + [*IN_ORDER, STORES],
    hints=HINTS,
)
_rebuilding(
    name="wide-tile",
    rivals=rivals.of_step("wide", SQUARE),
    title="Four numbers at a time, and no conflict",
    cases=[
        _factors(2, 516, 8, 4, SQUARE),
        _factors(128, 128, 20, 16, SQUARE, measured=True),
        _factors(130, 132, 16, 12, SQUARE),
    ],
    drawer=_any_factors(SQUARE, multiple=4),
    forbidden={"float64", "bank-conflict"},
    limits=_limits(
        16,
        6 / 512,  # a four of u, one of vt, and at most four numbers of s
        1 / 16,
        "Read the tiles with load4: for each i two fours of u and two of vt, 4 reads for 64 "
        "products.",
    ),
    hints=HINTS
    | {
        "misaligned": "load4 and store4 want an address that is a multiple of 16 bytes: the "
        "last index a multiple of 4, and rows that are a multiple of 4 apart.",
        "out-of-bounds": HINTS["out-of-bounds"] + " The tile of u is turned: the numbers of "
        "one row of u stand below each other, u_tile[i, y] to u_tile[i + 3, y].",
        "race": "Two barriers: one behind filling the tiles, one before filling them again. If "
        "two threads write one place: number e of the four of u goes to u_tile[i + e, y].",
        "wrong-result": "Number e of the four of u goes to u_tile[i + e, y]. A thread's second "
        "fours lie at row + FAR and at column + FAR.",
        "bank-conflict": "Turn the tile of u, give its rows PITCH words, and let a thread's "
        "second four lie half a tile after the first: row + 64 and column + 64.",
    },
)

# --- the last rung: seven statements in order -----------------------------------------------------

_rebuilding(
    name="last-rung",
    rivals=rivals.of_step("warp tiles", SQUARE),
    title="The main loop of the last rung, in order",
    cases=[
        _factors(2, 516, 16, 8, SQUARE),
        _factors(130, 132, 40, 32, SQUARE),
        _factors(128, 128, 32, 24, SQUARE, measured=True),
    ],
    drawer=_any_factors(SQUARE, multiple=8),
    forbidden={"float64", "bank-conflict"},
    statements=(
        "load_tile(u, s, vt, start, first_row, first_column, next_u, next_vt)",
        "seven_depths(total, u_tile, vt_tile, stage, row, column, a, b)",
        "stage = 1 - stage",
        "store_tile(u_tile, vt_tile, stage, next_u, next_vt)",
        "cuda.syncthreads()",
        "read(u_tile, vt_tile, stage, 0, row, column, a, b, 0)",
        "multiply(total, a, b, 1)",
    ),
    hints={
        "race": "The barrier stands behind the stores to a buffer and before the reads of it. And "
        "nobody may store to the buffer that others still read: `stage = 1 - stage` says which.",
        "uninitialised-read": "Something is read before it is there. Depth 0 of the new tile: "
        "change the stage, store the tile, wait, then read. Depth 7 of the old one: seven_depths "
        "reads it, multiply comes later.",
        "wrong-result": "Depths 0 to 6 are multiplied by seven_depths, 7 by multiply. `stage` "
        "changes behind seven_depths and before read. What is stored was loaded in this round.",
    },
)

# --- two buffers ----------------------------------------------------------------------------------

TILE = 16


BUFFERED = TILE, TILE, (TILE, TILE)

_rebuilding(
    name="two-buffers",
    rivals=rivals.of_step("tiled", BUFFERED),
    title="Two buffers, one barrier a round",
    cases=[
        _factors(16, 16, 48, 32, BUFFERED),
        _factors(40, 37, 36, 33, BUFFERED),
        _factors(5, 3, 4, 1, BUFFERED),
    ],
    drawer=_any_factors(BUFFERED, many=256),
    forbidden={"float64"},
    barriers="With two buffers one barrier a round does it: what is filled and what is read are "
    "never the same buffer.",
    hints=HINTS
    | {
        "race": "One barrier at the start of each round does it: behind it this round's tiles "
        "are full, and nobody reads those of the round before, which may be filled now.",
        "out-of-bounds": "There are two buffers, 0 and 1 (stage = 1 - stage), of 16 x 16. Store "
        "only pixels below out.shape.",
        "wrong-result": "The first tile is filled before the loop. In each round fill the next "
        "one, if there is one, add the products of this one, and swap: stage = 1 - stage.",
    },
)


# --- counting: reads, bytes, registers, banks -----------------------------------------------------


FunctionExercise.declare(
    name="shared-reads",
    lesson=6,
    title="Reads of shared memory for a product",
    reference=lambda rows, columns: (rows + columns) / (rows * columns),
    cases=[
        told(rows=rows, columns=columns) for rows, columns in ((4, 16), (8, 1), (8, 8), (1, 16))
    ],
    drawer=lambda rng: told(rows=extent(rng, 1, 600), columns=extent(rng, 1, 600)),
    drawn=6,
    tolerance=Tolerance(4, "a sum, a product and a quotient"),
    hints={
        "wrong-result": "For each i the thread reads one number for each of its rows and one "
        "for each of its columns, and makes a product of every pair."
    },
)


def _any_gpu(rng):
    """A ridge at a multiple of 16 or just beside it, which divides exactly."""
    memory, beside = 250 * extent(rng, 1, 32), float(rng.choice([-1, 0, 1]) / 1024)
    teraflops = memory / 250 * int(rng.integers(1, 12)) + beside
    return told(gigabytes_per_second=memory, teraflops=teraflops)


FunctionExercise.declare(
    name="smallest-block",
    lesson=6,
    title="The block that leaves the memory roof",
    reference=lambda gigabytes_per_second, teraflops: (
        -(-4000 * teraflops / gigabytes_per_second // 16) * 16
    ),
    cases=[
        told(gigabytes_per_second=320, teraflops=8.1),
        told(gigabytes_per_second=1000, teraflops=36.01),
        told(gigabytes_per_second=4201, teraflops=59.7),
        told(gigabytes_per_second=4000, teraflops=1.0),
    ],
    drawer=_any_gpu,
    drawn=10,
    hints={
        "wrong-result": "For each i the block loads 2 * side numbers of 4 bytes and makes "
        "side * side products, 2 operations each. Operations / bytes must reach the ridge, "
        "1000 * teraflops / gigabytes_per_second. Then round up to a multiple of 16."
    },
)


def _largest_square(registers, other):
    side = 0
    while (side + 1) ** 2 + 2 * (side + 1) + other <= registers:
        side += 1
    return side


def _any_registers(rng):
    """As many as a square needs, or one less, or any number."""
    other, side = extent(rng, 1, 100), int(rng.integers(1, 20))
    needed = side**2 + 2 * side + other
    registers = rng.choice([needed - 1, needed, other + extent(rng, 1, 400)])
    return told(registers=int(registers), other=other)


FunctionExercise.declare(
    name="largest-square",
    lesson=6,
    title="The largest square that fits the registers",
    reference=_largest_square,
    cases=[
        told(registers=registers, other=other)
        for registers, other in ((120, 40), (128, 40), (41, 40))
    ],
    drawer=_any_registers,
    hints={
        "wrong-result": "A square of side n needs n * n registers for its sums, n for the "
        "numbers of u and n for those of vt. Count n up as long as that and `other` fit.",
        "endless-loop": "Let the side grow in every pass, and stop at the first that no longer "
        "fits.",
    },
)


def _turned_wavefronts(pitch):
    """Wavefronts of a warp that writes a column of four of the turned tile."""
    lane = np.arange(32)
    words = lane % 2 * 4 * pitch + lane // 2
    return int(np.bincount(np.unique(words) % 32).max())


def _free(least):
    pitch = -(-least // 4) * 4
    while _turned_wavefronts(pitch) > 1:
        pitch += 4
    return pitch


FunctionExercise.declare(
    name="free-pitch",
    lesson=6,
    title="A row stride without conflicts",
    reference=_free,
    cases=[told(least=least) for least in (128, 100, 101)],
    drawer=lambda rng: told(least=int(rng.integers(1, 600))),
    drawn=6,
    hints={
        "wrong-result": "Lane l writes word l % 2 * 4 * pitch + l // 2. Try the row strides from "
        "`least` on that are multiples of 4, until no two different words of the 32 are in one "
        "bank."
    },
)

FunctionExercise.declare(**lanes.EXERCISE)
