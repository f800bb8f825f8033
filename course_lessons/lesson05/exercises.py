"""Exercises of lesson 05: barriers, halos, tiles, dynamic shared memory, banks, the transpose."""

import numpy as np

from course.checks.exercises import Case, FunctionExercise, Limit, Tolerance
from course_lessons.cases import (
    OF_LAYERS,
    drawn,
    empty,
    extent,
    factors,
    kept,
    places,
    rebuilt,
    sides,
    table,
    told,
    turn,
    uniform,
)  # fmt: skip
from course_lessons.edits import LessonKernel
from course_lessons.lesson04.exercises import (
    ONE_THREAD,
    ONE_THREAD_A_PIXEL,
    rectangles,
    side_by_side,
)
from warpsim.core.words import count

BARRIER = (
    "A thread reads what another thread writes: put cuda.syncthreads() between the two, outside "
    "of every branch."
)

# --- reverse-blocks: one buffer, one barrier ------------------------------------------------------

BLOCK = 64  # threads of a block in lesson 05's one-dimensional exercises


def _to_reverse(n):
    x = uniform(1, 5, n, sized=True)
    return Case(count(n, "element"), drawn(x=x), block=BLOCK, grid=-(-n // BLOCK))


def _reversed_pieces(x):
    return np.concatenate([x[first : first + BLOCK][::-1] for first in range(0, len(x), BLOCK)])


LessonKernel.declare(
    name="reverse-blocks",
    lesson=5,
    title="Reverse each block's elements, in place",
    updated=("x",),
    reference=_reversed_pieces,
    cases=[_to_reverse(n) for n in (64, 192, 100, 400)],
    drawer=lambda rng: _to_reverse(extent(rng, 1, 2500)),
    drawn=6,
    hints={
        "race": "Everybody puts an element into the buffer, then all wait at "
        "cuda.syncthreads(), then everybody takes an element out of it. Each block keeps to "
        "its own elements of x.",
        "not-parallel": "Each thread puts one element into the buffer, and takes one out of it.",
        "barrier-divergence": "Guard the store to the buffer, then let all threads wait, then "
        "guard the store to x.",
        "out-of-bounds": "In the last block not every thread has an element. Let count be the "
        "elements of this block, min(BLOCK, x.size - first), and compare threadIdx.x with it.",
        "uninitialised-read": "The last block fills only a part of its buffer. The partner of "
        "thread t is count - 1 - t, with count the elements of this block.",
        "wrong-result": "Block 0 reverses x[0] to x[63], block 1 reverses x[64] to x[127], "
        "and so on. Each block keeps to its own elements.",
    },
)

# --- blur-halo: a tile with borders ---------------------------------------------------------------

RADIUS = 3
WINDOW = 2 * RADIUS + 1


def _to_blur(n, measured=False):
    arguments = drawn(out=empty(n), x=uniform(1, 5, n, sized=True))
    return Case(count(n, "element"), arguments, BLOCK, -(-n // BLOCK), measured=measured)


_HALO_ONCE = (
    "Each block loads its 64 elements and a halo of 3 on either side once, into the tile. All "
    "sums then read the tile."
)

LessonKernel.declare(
    name="blur-halo",
    lesson=5,
    title="Blur with a halo",
    outputs=("out",),
    reference=lambda x: np.convolve(np.pad(x, RADIUS), np.ones(WINDOW), "valid") / WINDOW,
    cases=[_to_blur(1003), _to_blur(5), _to_blur(1025, True)],
    drawer=lambda rng: _to_blur(extent(rng, 1, 2500)),
    tolerance=Tolerance(10, "six sums, a division and a factor, each of which rounds once"),
    forbidden={"float64", "bank-conflict"},
    limits=[Limit("global", "load", "lanes", "element", 1.25, _HALO_ONCE)],
    hints={
        "not-parallel": "Each thread loads one element of its block, a few one of the halo, too; "
        "then each adds up seven places of the tile for its own element.",
        "race": BARRIER,
        "negative-index": "The first block's halo begins at element -3. Fill a 0 where the "
        "element is below 0, as where it is x.size or more.",
        "out-of-bounds": "The tile has 64 + 6 places: 0 to 69. And x ends at x.size - 1: "
        "where there is no element, fill a 0.",
        "uninitialised-read": "All 70 places of the tile need a value: 64 elements, 3 on "
        "either side. Outside of x it is 0.",
        "wrong-result": "out[i] is the sum of x[i - 3] to x[i + 3], divided by 7; outside of "
        "x stand zeros. Place p of the tile holds element first - 3 + p, if the block begins "
        "at element first.",
        "float64": "0.0 is float64, and so is total / 7, as 7 is an int64. Start with "
        "float32(0), divide by float32(7).",
    },
)

# --- reconstruct-tiled: two tiles, two barriers ---------------------------------------------------

TILE = 16


def _factors(rows, columns, values, k, measured=False):
    """Factors with more singular values than are used, so that reading past k shows."""
    arguments = drawn(**factors(rows, columns, values), k=k, out=empty(rows, columns))
    grid = (-(-columns // TILE), -(-rows // TILE))
    return Case(f"{rows} x {columns}, k = {k}", arguments, (TILE, TILE), grid, measured=measured)


def _whole_tiles(rng):
    rows, columns, k = (TILE * extent(rng, 1, most) for most in (4, 4, 34))
    return _factors(rows, columns, k + int(rng.choice([0, 7])), k)


LessonKernel.declare(
    name="tile-rounds",
    lesson=5,
    title="The statements of a round, in order",
    outputs=("out",),
    reference=rebuilt,
    cases=[_factors(16, 32, 40, 16), _factors(32, 16, 40, 32), _factors(48, 32, 64, 64)],
    drawer=_whole_tiles,
    tolerance=OF_LAYERS,
    forbidden={"float64", "bank-conflict"},
    statements=(
        "u_tile[y, x] = u[row, start + x] * s[start + x]",
        "vt_tile[y, x] = vt[start + y, col]",
        "cuda.syncthreads()",
        "for i in range(TILE):\n    total += u_tile[y, i] * vt_tile[i, x]",
        "cuda.syncthreads()",
    ),
    hints={
        "race": "One barrier stands between filling the tiles and reading them, the other between "
        "reading them and filling them again in the next round.",
        "uninitialised-read": "Both tiles are filled, and all wait, before the loop reads them.",
        "wrong-result": "A round fills both tiles, and then adds its 16 products.",
    },
)

_TILES_ONLY = (
    "Load u, s and vt only where you fill the tiles, once a round, one place of each tile a "
    "thread, neighbours in x beside each other in memory; the inner loop reads nothing but the two "
    "tiles."
)
_STORED_ONCE = "Each pixel is stored once, after the last tile."

LessonKernel.declare(
    name="reconstruct-tiled",
    lesson=5,
    title="Rebuild an image from tiles",
    outputs=("out",),
    reference=rebuilt,
    cases=[
        _factors(16, 16, 48, 32),
        _factors(32, 16, 20, 1),
        _factors(41, 17, 33, 33),
        _factors(64, 96, 32, 32, measured=True),
    ],
    drawer=lambda rng: _factors(*sides(rng, 40, 40), *kept(rng)),
    tolerance=OF_LAYERS,
    forbidden={"float64", "bank-conflict"},
    limits=[
        Limit("global", "load", "sectors", "element", 1, _TILES_ONLY),
        Limit("global", "store", "lanes", "element", 1, _STORED_ONCE),
    ],
    hints={
        "race": "Two barriers: one between filling the tiles and reading them, one between "
        "reading them and filling them again in the next round.",
        "barrier-divergence": "All 256 threads fill and wait in every round, also those "
        "without a pixel. Guard the loads and the last store, never the barrier.",
        "out-of-bounds": "A tile has a place for each of the block's 16 x 16 threads: its "
        "indices are y, x and i, all below 16. Tiles go past the edges: load u only where "
        "row < u.shape[0] and start + x < k, load vt only where start + y < k and "
        "col < vt.shape[1]; fill in 0 elsewhere.",
        "uninitialised-read": "Every place of both tiles needs a value in every round: a "
        "number, or 0 beyond the edges of u and vt. Threads without a pixel fill, too.",
        "unwritten-output": "One thread a pixel: col, row = cuda.grid(2), and after the last "
        "round out[row, col] = total.",
        "wrong-result": "In each round both tiles are filled anew, 0 past the edges, and "
        "total grows by the sum over i of u_tile[y, i] * vt_tile[i, x].",
        "float64": "Start the sum with float32(0): 0.0 is float64.",
        "not-parallel": "Each thread has one pixel, and fills one place of either tile in a round: "
        "the 256 threads of a block share the filling.",
        "bank-conflict": "Let x be the last index wherever you fill a tile: "
        "u_tile[y, x] and vt_tile[y, x].",
    },
)

# --- block-sums: dynamic shared memory, a barrier in a loop ---------------------------------------


def _to_sum(n, threads, measured=False):
    blocks = -(-n // threads)
    arguments = drawn(out=empty(blocks), x=uniform(1, 5, n, sized=True))
    return Case(count(n, "element"), arguments, threads, blocks, 4 * threads, measured)


def _any_sums(rng):
    threads = 2 ** int(rng.integers(4, 9))
    most = threads if turn(rng) == 1 else 70 * threads
    return _to_sum(extent(rng, 1, most, 600 * threads), threads)


def _sums(x, out):
    """The sums of equal pieces of x; the threads of a block follow from the sizes."""
    threads = next(n for n in (16, 32, 64, 128, 256) if -(-len(x) // n) == len(out))
    return np.add.reduceat(x, np.arange(0, len(x), threads))


_IN_SHARED_MEMORY = "Add up in shared memory: device memory gets one number a block."
_HALF_EACH = "Let many threads add at once: in each round, half as many as in the round before."

LessonKernel.declare(
    name="block-sums",
    lesson=5,
    title="The sum of each block",
    outputs=("out",),
    reference=_sums,
    cases=[
        _to_sum(64, threads=64),
        _to_sum(1000, threads=128),
        _to_sum(1024, threads=256, measured=True),
    ],
    drawer=_any_sums,
    tolerance=Tolerance(
        256, "up to 255 sums one after the other", magnitude=lambda x, out: _sums(np.abs(x), out)
    ),
    forbidden={"float64"},
    limits=[
        Limit("shared", "load", "requests", "launch", 512, _HALF_EACH),
        Limit("global", "atomic", "lanes", "element", 1, _IN_SHARED_MEMORY),
    ],
    hints={
        "race": "All threads wait after filling the buffer, and again after every round. In a "
        "round only the threads with t < step add: nobody writes what another one reads. "
        "In the end thread 0 alone stores.",
        "not-parallel": _HALF_EACH,
        "endless-loop": "step is halved down to 1, and then to 0, where it stays: while step > 0.",
        "typing": "step is part of an index, a whole number: halve it with //. The shape of a "
        "dynamic array is 0.",
        "barrier-divergence": "In a round only the threads below step add, but all of them "
        "wait: the barrier stands in the loop, and outside of the if. A shuffle waits, too: "
        "for all lanes that its mask names.",
        "uninitialised-read": "Shared memory holds anything at first. A sum starts at 0, and "
        "threads of the last block that have no element fill in a 0.",
        "out-of-bounds": "Guard i with x.size. In a round only the threads with t < step add, "
        "and what they add is part[t + step]. out has one element a block: "
        "out[cuda.blockIdx.x].",
        "unwritten-output": "After the last round thread 0 writes part[0] to out[cuda.blockIdx.x].",
        "wrong-result": "step begins at cuda.blockDim.x // 2 and is halved after every round; "
        "the last round has step = 1.",
    },
)


# --- bank-wavefronts: a plain function ------------------------------------------------------------


_LANE = np.arange(32)

FunctionExercise.declare(
    name="bank-wavefronts",
    lesson=5,
    title="Wavefronts of one request",
    reference=lambda words: np.bincount(np.unique(words) % 32).max(),
    cases=table(
        "words",
        ("12 x 8 threads, a column of 12 x 12", 12 * (_LANE % 12)),
        ("all lanes read word 40", 0 * _LANE + 40),
        ("half of a column, half of a row", np.where(_LANE < 16, 32 * _LANE, _LANE)),
        ("a column of 32 x 32", 32 * _LANE + 5),
        ("a column of 32 x 33", 33 * _LANE + 5),
    ),
    drawer=lambda rng: told(words=places(rng)),
    drawn=6,
    hints={
        "wrong-result": "The bank of a word is word % 32. One bank gives one word at a time, "
        "to any number of lanes. So: how many different words does the busiest bank have?",
        "raised": "np.unique(words) is each word once; np.bincount(numbers) counts how often "
        "0, 1, 2, … occur.",
        "wrong-shape": "Return one number: the most different words that one bank has.",
    },
)

# --- transpose-write: one side in order -----------------------------------------------------------

_one_side, _any_side = rectangles(
    lambda rows, columns: {"out": empty(columns, rows), "image": uniform(-2, 2, rows, columns)}
)

LessonKernel.declare(
    name="transpose-write",
    lesson=5,
    title="Transpose, stores in order",
    outputs=("out",),
    reference=lambda image: image.T,
    cases=[
        _one_side(16, 16),
        _one_side(13, 37),
        _one_side(64, 96, block=(32, 8), measured=True),
    ],
    drawer=_any_side,
    tolerance=Tolerance(0, "nothing is computed, so nothing rounds"),
    limits=[
        ONE_THREAD_A_PIXEL,
        side_by_side(
            "store",
            "Let x be the last index of out, so that neighbouring lanes store side by "
            "side. The loads will pay.",
        ),
    ],
    hints={
        "out-of-bounds": "out has the shape (columns, rows) of image. Guard each index with "
        "the axis on which you use it.",
        "unwritten-output": "The threads have to cover out, which has as many rows as the "
        "image has columns. Which shape do you guard with?",
        "wrong-result": "The first index of out is the second index of image.",
        "race": ONE_THREAD,
        "not-parallel": ONE_THREAD,
    },
)

# --- the transpose: tiled, then padded ------------------------------------------------------------


def _to_transpose(rows, columns, measured=False):
    arguments = drawn(out=empty(columns, rows), image=uniform(1, 5, rows, columns, sized=True))
    grid = (-(-columns // 32), -(-rows // 32))
    return Case(f"{rows} x {columns}", arguments, (32, 32), grid, measured=measured)


_TRANSPOSE_HINTS = {
    "race": BARRIER,
    "barrier-divergence": "Two guards, one for the load and one for the store; the barrier stands "
    "between them, in neither.",
    "out-of-bounds": "Two guards: row and column of the load with image.shape, row and column of "
    "the store with out.shape.",
    "uninitialised-read": "Thread (x, y) fills tile[y, x] and reads tile[x, y]. In the last "
    "tiles another guard is needed for the store than for the load.",
    "unwritten-output": "The store has its own row and column, with blockIdx.y where the load has "
    "blockIdx.x, and its own guard with out.shape. A thread that loads nothing may have an element "
    "to store: none returns before.",
    "not-parallel": "Each thread loads one element, to tile[y, x], and stores one, tile[x, y].",
    "wrong-result": "Load tile[y, x] = image[row, column]. For the store swap the block's indices "
    "(the tile changes its place) and read tile[x, y] (the tile turns).",
    "uncoalesced": "In both global accesses x belongs to the last index. What turns is the tile: "
    "filled at [y, x], read at [x, y].",
    "bank-conflict": "32 rows of 32 words put a whole column into one bank. One more column in "
    "the tile's shape shifts each row by a bank; it is never used.",
}
_OF_FOUR_BYTES = (
    "Is the tile float32? One of float64 takes twice the shared memory, and two wavefronts where "
    "one would do."
)
for _name, _title, _forbidden in (
    ("tiled-transpose", "Transpose through a tile", {"uncoalesced"}),
    ("padded-transpose", "Pad the tile", {"uncoalesced", "bank-conflict"}),
):
    LessonKernel.declare(
        name=_name,
        lesson=5,
        title=_title,
        outputs=("out",),
        reference=lambda image: image.T,
        cases=[
            _to_transpose(64, 64),
            _to_transpose(33, 70),
            _to_transpose(64, 96, measured=True),
        ],
        drawer=lambda rng: _to_transpose(*sides(rng, 70, 70)),
        forbidden=_forbidden | {"float64"},
        limits=[Limit("shared", "load", "bytes", "element", 4, _OF_FOUR_BYTES)],
        hints=_TRANSPOSE_HINTS,
    )
