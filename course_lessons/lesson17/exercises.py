"""Exercises of lesson 17: products on tensor cores, two halves, tiles and their order."""

import numpy as np

from course import cuda
from course.checks.exercises import Case, Counted, FunctionExercise, Limit, Tolerance
from course_lessons.cases import extent, fixed, table, turn
from course_lessons.edits import LessonKernel
from course_lessons.lesson17 import hopper, judges
from warpsim.ptx import TensorMap

AMPERE = "A100"  # the oldest GPU that has m16n8k16

# --- a number in two halves -----------------------------------------------------------------------


def _to_split(name, scale, largest=None, shape=(9, 7)):
    """Numbers up to a scale; one of them, somewhere, may be set."""

    def arguments(rng):
        x = (scale * rng.uniform(-1, 1, shape)).astype(np.float32)
        if largest is not None:
            x.flat[rng.choice([0, x.size // 2, x.size - 1])] = largest
        return {"x": x}

    return Case(name, arguments)


def _any_to_split(rng):
    scale = 2.0 ** rng.integers(-60, 60)
    largest = scale * rng.choice([-1, 1]) * rng.choice([1, 0.9999999, 5000, rng.uniform(1, 2)])
    shape = extent(rng, 1, 70), extent(rng, 1, 70)
    return _to_split(f"{shape}, up to {largest:.8g}, others to {scale:g}", scale, largest, shape)


FunctionExercise.declare(
    name="split-in-halves",
    lesson=17,
    title="A float32 in two halves",
    judge=judges.split,
    cases=[
        _to_split("numbers up to 1", 1.0),
        _to_split("numbers up to a millionth", 1e-6),
        _to_split("numbers up to 10 millions", 1e7),
        _to_split("-5,000 among numbers up to 1", 1.0, -5000),
        _to_split("the largest just below 1", 1.0, 0.99999),
    ],
    drawer=_any_to_split,
    drawn=20,
    hints={
        "raised": "np.frexp(largest) gives a number below 1 and an exponent: "
        "largest = number * 2**exponent. Take 2.0 ** (14 - exponent)."
    },
)

# --- a product on tensor cores --------------------------------------------------------------------

OWN_SHARE = (
    "A lane hands over its own numbers alone, 8 of a and 4 of b in all: the tensor cores bring "
    "them together."
)
OWN_SUMS = (
    "Each lane stores sums of its own: with g = lane // 4 and q = lane % 4 those of row g, columns "
    "2 q and 2 q + 1, and the same of row g + 8."
)
NO_FLOAT64 = {"float64"}
WHOLE = Tolerance(2, "whole numbers, exact as halves and in their sums")


def _product(name, make):
    def arguments(rng):
        a, b = make(rng)
        return {"a": a, "b": b, "out": np.empty((16, 8), np.float32)}

    return Case(name, arguments, block=32, grid=1)


def _whole(rng, rows=16, depth=16, columns=8):
    """Whole numbers, exact as halves; so are their products and sums in float32."""
    a, b = rng.integers(-9, 10, (rows, depth)), rng.integers(-9, 10, (depth, columns))
    return a.astype(np.float32), b.astype(np.float32)


def _numbered_b(rng):
    """A matrix of ones on the diagonal, so that the numbers of b come out as they went in."""
    return np.eye(16, dtype=np.float32), np.arange(128, dtype=np.float32).reshape(16, 8)


def _numbered_a(rng):
    """Ones on b's diagonal, so that the first eight columns of a come out."""
    return np.arange(256, dtype=np.float32).reshape(16, 16), np.eye(16, 8, dtype=np.float32)


LessonKernel.declare(
    name="one-product",
    lesson=17,
    title="16 x 8 sums on tensor cores",
    outputs=("out",),
    reference=lambda a, b: a @ b,
    cases=[
        _product("ones on a's diagonal, b numbered", _numbered_b),
        _product("a numbered, ones on b's diagonal", _numbered_a),
        _product("whole numbers up to 9", _whole),
    ],
    drawer=lambda rng: _product("other whole numbers", _whole),
    tolerance=WHOLE,
    forbidden=NO_FLOAT64,
    limits=[Limit("global", "load", "lanes", "thread", 12, OWN_SHARE)],
    counted=[Counted("mma", lambda: 1, "One call of mma_f16 takes all 16 of k.")],
    gpu=AMPERE,
    hints={
        "wrong-result": "With ones on the diagonal of one factor the other comes out: see where "
        "its numbers went, and look them up in the picture. Of a, a lane has rows g and g + 8; of "
        "b, column g; of both, the k 2 q, 2 q + 1 and the same plus 8. Its sums: row g, columns "
        "2 q and 2 q + 1, then the same of row g + 8. One call multiplies all 16 of k.",
        "out-of-bounds": "g goes from 0 to 7, q from 0 to 3. a is a[row, k], b is b[k, column]: "
        "rows g and g + 8, column g, and k below 16.",
        "unwritten-output": "Each lane stores four sums: two in row g, two in row g + 8.",
        "typing": "mma_f16 takes four sums, a tuple of four pairs of a, and a tuple of two of b; "
        "a pair is what pair(x, y) makes of two numbers.",
        "not-parallel": "All 32 lanes hand over their shares, 8 numbers of a and 4 of b, and each "
        "stores four sums.",
        "race": OWN_SUMS,
        "same-value-race": OWN_SUMS,
        "barrier-divergence": "All 32 lanes call mma_f16, in no branch: each has a share.",
    },
)

# --- a tile of products ---------------------------------------------------------------------------

REUSE = (
    "Two products stand side by side in a tile, and take the same share of a: load it once, for "
    "both. For each 16 of k that is 8 numbers of a and 8 of b."
)


def _tiles(rows, columns, depth, measured=False):
    def arguments(rng):
        a, b = _whole(rng, rows, depth, columns)
        return {"a": a, "b": b, "out": np.empty((rows, columns), np.float32)}

    grid = columns // 16, rows // 16
    return Case(f"{rows} x {columns}, k = {depth}", arguments, 32, grid, measured=measured)


LessonKernel.declare(
    name="tile-of-products",
    lesson=17,
    title="16 x 16 sums by a warp, along all of k",
    outputs=("out",),
    reference=lambda a, b: a @ b,
    cases=[_tiles(16, 16, 80), _tiles(32, 48, 48, measured=True)],
    drawer=lambda rng: _tiles(*(16 * extent(rng, 1, 5, most) for most in (5, 5, 34))),
    drawn=5,
    tolerance=WHOLE,
    forbidden=NO_FLOAT64,
    limits=[
        Limit("global", "load", "lanes", "thread", 16 * 3, REUSE),
        Limit("global", "store", "lanes", "element", 1, "Store the sums once, after the loop."),
    ],
    counted=[Counted("mma", lambda a, b: a.size * b.shape[1] // (16 * 8 * 16))],
    gpu=AMPERE,
    hints={
        "wrong-result": "left holds the sums of the tile's columns 0 to 7, right those of 8 to 15. "
        "Both go on from step to step: left = mma_f16(left, ...). A step has 16 of k, "
        "up to a.shape[1]; a lane's share begins at start + 2 q. Rows begin at row + g, columns of "
        "b at column + g, and 8 farther on for right.",
        "out-of-bounds": "A block has 16 rows from 16 blockIdx.y on, and 16 columns from 16 "
        "blockIdx.x on; a[row, k] has k below a.shape[1], in steps of 16.",
        "unwritten-output": "Store both halves of the tile: left from column + 2 q on, right 8 "
        "columns farther. A block's tile begins at row 16 blockIdx.y and column 16 blockIdx.x.",
        "race": OWN_SUMS,
        "same-value-race": OWN_SUMS,
        "typing": "mma_f16(c, share of a, share of b): share_of_a(a, row, k), share_of_b(b, k, "
        "column). Sums start as zeros, a tuple of four; store_sums stores four.",
        "endless-loop": "range(0, a.shape[1], 16): 16 of k are done in a step.",
        "barrier-divergence": "All 32 lanes call mma_f16, in no branch.",
    },
)

# --- a float32 product of halves ------------------------------------------------------------------


def _reals(name, low, high):
    def make(rng):
        signs = [np.where(rng.random(shape) < 0.5, -1, 1) for shape in ((16, 16), (16, 8))]
        return [(sign * rng.uniform(low, high, sign.shape)).astype(np.float32) for sign in signs]

    return _product(name, make)


def _any_reals(rng):
    most = 10.0 ** rng.uniform(0, 3)
    return _reals(f"numbers up to {most:.4g}", 0.5, most)


LessonKernel.declare(
    name="split-product",
    lesson=17,
    title="A float32 product of halves",
    outputs=("out",),
    reference=lambda a, b: a @ b,
    cases=[_reals("numbers from 1 to 2", 1, 2), _reals("numbers up to 200", 0.5, 200)],
    drawer=_any_reals,
    tolerance=Tolerance(
        4, "each factor to 2^-23, lower times lower left out", lambda a, b: np.abs(a) @ np.abs(b)
    ),
    forbidden=NO_FLOAT64,
    limits=[Limit("global", "load", "lanes", "thread", 12, OWN_SHARE)],
    counted=[Counted("mma", lambda: 3, "Lower times lower is too small to matter.")],
    gpu=AMPERE,
    hints={
        "wrong-result": "Three products, each added to the sums of the one before: upper_a with "
        "upper_b, upper_a with lower_b, lower_a with upper_b. Give c to each, and take c from it.",
        "unwritten-output": "store_sums(out, g, 2 * q, c) stores a lane's four sums.",
        "out-of-bounds": "A lane's sums begin at row g and column 2 q of out.",
        "race": OWN_SUMS,
        "same-value-race": OWN_SUMS,
        "typing": "mma_f16(c, four pairs of a, two pairs of b): upper_a and lower_a are of a, "
        "upper_b and lower_b of b. store_sums(out, row, column, c) takes all four sums.",
        "barrier-divergence": "All 32 lanes call mma_f16, in no branch.",
    },
)

# --- a swizzled tile ------------------------------------------------------------------------------

WHOLE_ROWS = (
    "Bring whole rows to shared memory first, a lane a word, then read the fragments there: a "
    "fragment's rows are 16 bytes each, half a sector."
)
SWIZZLED = (
    "In a row of 32 words, word w of every row lies in bank w. Let word w of a row lie at w ^ (row "
    "% 8 * 4): chunks of four words change places, in each of eight rows to another one. Fill the "
    "tile and read it by the same rule."
)


def _fragments(a):
    lane = np.arange(32)
    g, q = lane // 4, lane % 4
    return np.array(
        [
            [a[g + r % 2 * 8, 8 * step + r // 2 * 4 + q] for r in range(4)]
            for step in range(a.shape[1] // 8)
        ]
    )


def _words(name, make):
    def arguments(rng):
        return {"a": make(rng).astype(np.uint32), "out": np.empty((4, 4, 32), np.uint32)}

    return Case(name, arguments, block=32, grid=1)


LessonKernel.declare(
    name="swizzled-tile",
    lesson=17,
    title="Fragments from a tile in shared memory, without bank conflicts",
    outputs=("out",),
    reference=_fragments,
    cases=[
        _words("words numbered", lambda rng: np.arange(512).reshape(16, 32)),
    ],
    drawer=lambda rng: _words("any words", lambda rng: rng.integers(0, 2**32, (16, 32))),
    forbidden={"float64"},
    limits=[
        Limit("global", "load", "sectors", "request", 4, WHOLE_ROWS),
        Limit("shared", "load", "conflicts", "launch", 0, SWIZZLED),
        Limit("shared", "store", "conflicts", "launch", 0, SWIZZLED),
    ],
    hints={
        "wrong-result": "out[step, r, lane] is the pair of row g + 8 (r % 2), word 8 step + 4 (r "
        "// 2) + q of a. What is put at word ^ flip of its row must be read there, with the flip "
        "of that same row: row % 8 * 4.",
        "uninitialised-read": "Fill all 16 rows of the tile, 32 words each: in a row, lane l "
        "brings word l. What you read must lie where you wrote it: word ^ (row % 8 * 4), in both.",
        "out-of-bounds": "The tile has 16 rows of 32 words. row % 8 * 4 is 0 to 28, and word ^ "
        "that stays below 32; word + that does not. A step's words are 8 step to 8 step + 7, since "
        "q is 0 to 3. out is out[step, r, lane].",
        "race": "Between filling and reading the warp meets: cuda.syncwarp().",
        "unwritten-output": "Four steps, four registers: out[step, r, lane] for step and r from 0 "
        "to 3.",
        "bank-conflict": SWIZZLED,
    },
)

# --- the order of tiles ---------------------------------------------------------------------------


def _any_tile(rng):
    down, across = (int(rng.choice([extent(rng, 1, 9), rng.integers(1, 200)])) for _ in range(2))
    number, band = int(rng.integers(down * across)), extent(rng, 1, down + 9)
    if turn(rng) == 1 and rng.random() < 0.3:
        number = 0
    elif rng.random() < 0.5:  # in the last band, or near it
        number = down * across - 1 - number % (band + 1)
    return fixed(
        f"tile {number:,} of {down} x {across}, bands of {band}",
        number=number, down=down, across=across, band=band,
    )  # fmt: skip


FunctionExercise.declare(
    name="tile-order",
    lesson=17,
    title="The order in which blocks take tiles",
    reference=hopper.tile_of,
    cases=table(
        "number down across band",
        ("tile 1: the one below", 1, 12, 12, 4),
        ("tile 48, the first of the second band", 48, 12, 12, 4),
        ("tile 395, the last, in a band of 3 rows", 395, 99, 4, 8),
        ("tile 17, a band higher than the result", 17, 5, 7, 64),
    ),
    drawer=_any_tile,
    drawn=40,
    hints={
        "wrong-result": "A whole band has band * across tiles: divmod(number, band * across) is "
        "the band and the place in it. In it tiles go down first: place % high rows down, place // "
        "high columns to the right; high is band, or in the last band what rows are left.",
        "wrong-shape": "Return two whole numbers, (row, column).",
        "raised": "The last band may have fewer rows than band, but never 0 of them.",
    },
)


# --- a descriptor ---------------------------------------------------------------------------------


def _place(rng):
    """Where a tile lies: all three are multiples of 16 bytes below 2**18."""
    address, leading, stride = (16 * rng.integers(2**14, size=3)).tolist()
    return fixed(
        f"address {address}, leading {leading}, stride {stride}",
        address=address, leading=leading, stride=stride, swizzle=int(rng.integers(4)),
    )  # fmt: skip


FunctionExercise.declare(
    name="wgmma-descriptor",
    lesson=17,
    title="The 64 bits that say where a tile lies",
    judge=judges.descriptor,
    cases=table(
        "address leading stride swizzle",
        ("a tile at byte 2,048", 2048, 16, 1024, 1),
        ("the last address", 2**18 - 16, 16, 512, 2),
        ("no swizzle", 48, 128, 256, 0),
        ("a swizzle of 32 bytes", 4096, 32, 256, 3),
    ),
    drawer=_place,
    drawn=10,
    hints={"raised": "Whole numbers: `>> 4` divides by 16, `<< 32` moves a field to bit 32."},
)

# --- a product of a warpgroup ---------------------------------------------------------------------


def _of_warpgroup(name, make):
    def arguments(rng):
        a, b = (make(rng).astype(np.float16) for _ in range(2))
        return {"a": a, "b": b, "out": np.empty((64, 64), np.float32)}

    return Case(name, arguments, block=128, grid=1)


def _any_of_warpgroup(rng):
    scale = 10 ** rng.uniform(-2, 2)
    return _of_warpgroup(
        f"numbers around {scale:.3g}", lambda rng: scale * rng.standard_normal((64, 64))
    )


LessonKernel.declare(
    name="one-wgmma",
    lesson=17,
    title="One product of a warpgroup, in order",
    outputs=("out",),
    reference=lambda a, b: a @ b.T,
    cases=[
        _of_warpgroup("64 x 64 of whole numbers", lambda rng: rng.integers(-9, 10, (64, 64))),
        _of_warpgroup("64 x 64", lambda rng: rng.standard_normal((64, 64))),
    ],
    drawer=_any_of_warpgroup,
    tolerance=Tolerance(
        64, "64 products are added, and sums are cut", lambda a, b: np.abs(a) @ np.abs(b).T
    ),
    forbidden=NO_FLOAT64,
    counted=[Counted("mma", lambda: 128, "One wgmma multiplies 64 x 64 x 64.")],
    statements=(
        "fence_async()",
        "cuda.syncthreads()",
        "c = wgmma_nt(c, tiles, int32(0), tiles, int32(SIDE), int32(0))",
        "c = wgmma_sums(c)",
    ),
    gpu="H200",
    hints={
        "race": "The tensor cores read shared memory on a path of their own. Who stored calls "
        "fence_async(), then all meet at a barrier, then one may multiply. And sums may be read "
        "after wgmma_sums.",
        "uninitialised-read": "wgmma reads what all 128 threads store: it comes after the barrier.",
    },
)

# --- a box by TMA ---------------------------------------------------------------------------------


def _box(rows):
    def arguments(rng):
        there = cuda.to_device(rng.standard_normal((rows, 64)).astype(np.float16))
        return {"box": TensorMap(there, rows, 64), "out": np.empty((rows, 64), np.float16)}

    return Case(f"a box of {rows} rows", arguments, block=128, grid=1, shared=128 * rows)


LessonKernel.declare(
    name="one-box",
    lesson=17,
    title="A box by TMA: its bytes, and six steps in order",
    outputs=("out",),
    reference=lambda box: box.array.copy_to_host(),
    cases=[_box(64), _box(8), _box(256)],
    drawer=lambda rng: _box(extent(rng, 1, 256)),
    statements=(
        "if t == 0:\n    mbarrier_init(arrived, 0, 1)",
        "fence_mbarriers()",
        "cuda.syncthreads()",
        "if t == 0:\n    mbarrier_expect(arrived, 0, size)",
        "if t == 0:\n    tma_load(tile, 0, box, (0, 0), arrived, 0)",
        "mbarrier_wait(arrived, 0, 0)",
    ),
    gpu="H200",
    hints={
        "deadlock": "Initialise first, wait last; size is in bytes, of all elements of out.",
        "race": "After mbarrier_init comes fence_mbarriers(), before TMA uses it, and "
        "cuda.syncthreads(), before other threads do.",
    },
)

# --- a ring of stages -----------------------------------------------------------------------------


def _ring_place(step, stages):
    return step % stages, step // stages % 2, 1 - step // stages % 2


FunctionExercise.declare(
    name="ring-place",
    lesson=17,
    title="Stage and parities of a step",
    reference=_ring_place,
    cases=table(
        "step stages",
        ("the first step", 0, 4),
        ("the last of the first round", 3, 4),
        ("the second round", 5, 4),
        ("the third round of three", 7, 3),
    ),
    drawer=lambda rng: fixed("any step", step=int(rng.integers(1000)), stages=extent(rng, 1, 70)),
    drawn=20,
    hints={
        "wrong-shape": "Return three numbers: stage, parity of full, parity of empty.",
        "wrong-result": "A ring of n stages: step % n. The round is step // n; its parity, 0 or 1, "
        "is what consumers wait for. The producer waits for the round before.",
    },
)

# --- roles ----------------------------------------------------------------------------------------


def _by_roles(steps):
    def arguments(rng):
        made = (rng.standard_normal((64, 64 * steps)).astype(np.float16) for _ in range(2))
        a, b = (TensorMap(cuda.to_device(each), 64, 64) for each in made)
        return {"a": a, "b": b, "out": np.empty((64, 64), np.float32), "steps": np.int32(steps)}

    return Case(
        f"64 x 64 sums of {64 * steps} products",
        arguments,
        block=256,
        grid=1,
        shared=4 * 2 * 64 * 64,
    )


def _of_maps(a, b, change=np.asarray):
    a, b = (change(its.array.copy_to_host().astype(np.float64)) for its in (a, b))
    return a @ b.T


LessonKernel.declare(
    name="by-roles",
    lesson=17,
    title="Who waits for whom",
    outputs=("out",),
    reference=_of_maps,
    cases=[_by_roles(steps) for steps in (1, 2, 5)],
    drawer=lambda rng: _by_roles(extent(rng, 1, 9)),
    tolerance=Tolerance(
        512,
        "up to 576 products are added, and sums are cut",
        lambda a, b: _of_maps(a, b, np.abs),
    ),
    counted=[Counted("mma", lambda steps: 128 * steps, "One wgmma a step multiplies both tiles.")],
    gpu="H200",
    hints={
        "deadlock": "Each wait needs its arrivals. Thread 0 waits for empty, of the round before: "
        "parity ^ 1. Four warps wait for full, of this round, and one thread of each arrives at "
        "empty.",
        "race": "Nobody refills a stage before all four warps have arrived at its empty, and "
        "nobody reads it before its full is over.",
        "uninitialised-read": "The product reads what TMA brings: wait for full first.",
    },
)
