"""Exercises of lesson 11: rotations, a sweep in NumPy and as kernels, a range from a sketch."""

import math

import numpy as np

from course.checks.beside import Rivals
from course.checks.exercises import Case, FunctionExercise, Limit, Tolerance
from course_lessons.cases import extent, fixed, table
from course_lessons.edits import LessonKernel
from course_lessons.lesson11.judges import judge_range, judge_rotation, judge_tournament
from course_lessons.lesson11.toy_svd import rotated, swept, tournament
from warpsim.core.words import count

# --- a rotation -----------------------------------------------------------------------------------


def _products(rng):
    """Products of two rows of any lengths: some as long as each other, orthogonal, or nearly so."""
    a, b = (10 ** (rng.uniform(-4, 8, 2) - 20 * rng.integers(2))).tolist()
    b = float(rng.choice([a, b], p=[0.25, 0.75]))
    cosine = rng.choice([0, 1e-9, 1e-3, *rng.random(3)]) * rng.choice([-1, 1])
    g = float(cosine) * math.sqrt(a * b)
    return fixed(f"a = {a:.3g}, b = {b:.3g}, g = {g:.3g}", a=a, b=b, g=g)


FunctionExercise.declare(
    name="jacobi-rotation",
    lesson=11,
    title="The rotation that makes two rows orthogonal",
    judge=judge_rotation,
    cases=[
        fixed("the second row longer", a=2.0, b=5.0, g=1.0),
        fixed("the first row longer", a=7.0, b=3.0, g=2.0),
        fixed("a negative product", a=4.0, b=1.0, g=-1.5),
        fixed("orthogonal already", a=3.0, b=4.0, g=0.0),
        fixed("equal lengths", a=2.0, b=2.0, g=0.5),
        fixed("nearly orthogonal", a=1.0, b=3.0, g=1e-9),
        fixed("short rows", a=2e-13, b=5e-13, g=1e-13),
    ],
    drawer=_products,
    drawn=20,
    hints={
        "wrong-result": "tau is (b - a) / (2 g), where a and b are squared lengths already, and t "
        "is sign(tau) / (|tau| + √(1 + tau²)).",
        "raised": "With g = 0 the rows are orthogonal already, and tau would divide by 0: "
        "return (1.0, 0.0) first. With a = b tau is 0, and nothing may be divided by it.",
    },
)

# --- a sweep --------------------------------------------------------------------------------------


def _rows(n, m, zero=False, parallel=False):
    def arguments(rng):
        rows = rng.standard_normal((n, m)) * np.linspace(1, 3, n)[:, None]
        first, other = rng.permutation(n)[:2] if n > 1 else (0, 0)
        if zero:
            rows[first] = 0
        if parallel:
            rows[other] = 1.5 * rows[first]
        return {"rows": rows}

    special = ", one of zeros" * zero + ", two of them parallel" * parallel
    return Case(f"{count(n, 'row')} of {m}{special}", arguments)


def _drawn_rows(rng):
    return _rows(extent(rng, 1, 12), extent(rng, 2, 40), *(rng.random(2) < 0.25).tolist())


FunctionExercise.declare(
    name="jacobi-sweep",
    lesson=11,
    title="A sweep, and how far it was from the end",
    reference=swept,
    cases=[
        _rows(3, 4),
        _rows(6, 6, zero=True),
        _rows(1, 4),
    ],
    drawer=_drawn_rows,
    drawn=8,
    tolerance=Tolerance(
        1e5, "66 rotations one after the other, each by an angle that rounding shifts"
    ),
    hints={
        "wrong-result": "For i from 0, for j from i + 1: the three dot products of the rows as "
        "they are *now*, the cosine |g| / (√a √b), and only then the rotation, both new rows "
        "at once.",
        "raised": "A dot product is x @ x; x * x is a row. A row of zeros has the length 0: "
        "its cosine counts as 0, do not divide by it. And one row has no partner: then the "
        "largest cosine is 0.",
        "input-modified": "Work on a copy: rows = rows.copy().",
        "wrong-shape": "Return two things, in this order: return rows, largest. The rows are "
        "as many and as long as before, the largest cosine is one number.",
    },
)

# --- a tournament ---------------------------------------------------------------------------------

FunctionExercise.declare(
    name="tournament",
    lesson=11,
    title="Rounds in which every two rows meet once",
    judge=judge_tournament,
    cases=table("n", ("4 rows", 4), ("2 rows", 2), ("6 rows", 6)),
    drawer=lambda rng: fixed("even", n=2 * extent(rng, 1, 40)),
    drawn=8,
    hints={"raised": "n is even, 2 at least. Whole numbers come from //."},
)


# --- all pairs of a round -------------------------------------------------------------------------


SPECIAL = {
    "zero": "a row of zeros",
    "parallel": "two parallel rows",
    "orthogonal": "two rows as long and orthogonal",
    "as long": "two rows as long",
    "small": "small numbers",
}


def _round(batch, n, m, *special, measured=False):
    """Special are names of `SPECIAL`."""

    def arguments(rng):
        rows = rng.standard_normal((batch, n, m)) * np.linspace(1, 3, n)[:, None]
        order = rng.permutation(n).reshape(-1, 2)
        (x, y), (first, other) = order[0], order[-1]
        if "zero" in special:
            rows[:, x] = 0
        if "parallel" in special:
            rows[:, other] = 1.5 * rows[:, first]
        if "as long" in special:  # tau is 0, and g is not
            rows[:, [first, other]] = 2
            rows[:, other, : m // 3] = -2
        if "orthogonal" in special:
            rows[:, [x, y]] = 2
            rows[:, x, ::2] = 0
            rows[:, y, 1::2] = 0
        if "small" in special:
            rows *= 1e-15
        return {"w": rows.astype(np.float32), "pairs": order.astype(np.int32)}

    plural = "matrices" if batch > 1 else "matrix"
    name = f"{batch} {plural} of {n} x {m}" + "".join(f", {SPECIAL[each]}" for each in special)
    return Case(name, arguments, block=16 * n, grid=batch, measured=measured)


def _drawn_round(rng):
    special = [each for each in SPECIAL if rng.random() < 0.25]
    return _round(extent(rng, 1, 4), 2 * extent(rng, 1, 12), extent(rng, 1, 300, 600), *special)


LessonKernel.declare(
    name="rotate-pairs",
    rivals=Rivals(timed=_round(256, 32, 256)),
    lesson=11,
    title="All pairs of a round, a warp a pair",
    updated=("w",),
    reference=lambda w, pairs: np.stack([rotated(rows, pairs) for rows in w]),
    cases=[
        _round(1, 4, 32),
        _round(1, 8, 64),
        _round(1, 6, 7),
        _round(1, 4, 32, "orthogonal"),
        _round(1, 4, 32, "as long"),
        _round(1, 4, 32, "small"),
        _round(6, 8, 96, measured=True),
    ],
    drawer=_drawn_round,
    drawn=4,
    tolerance=Tolerance(
        64,
        "sums of 96 products decide an angle, and each number is rotated by it",
        magnitude=lambda w: np.sqrt((w * w).sum(axis=2)).max(),
    ),
    forbidden={"float64", "uncoalesced"},
    hints={
        "race": "A row belongs to one pair, and a pair to one warp: warp number "
        "threadIdx.x // 32, rows pairs[warp, 0] and pairs[warp, 1]. Its lanes share the "
        "columns among them: lane, lane + 32, ...",
        "same-value-race": "Lanes share the columns among them: lane, lane + 32, ... Each "
        "number has one writer.",
        "out-of-bounds": "It is w[matrix, row, column]: the matrix is cuda.blockIdx.x, rows "
        "are pairs[warp, 0] and pairs[warp, 1], with warp = cuda.threadIdx.x // 32. Columns "
        "may be fewer than 32, or no multiple: range(lane, w.shape[2], 32) ends in time.",
        "typing": "The device function is called rotate.rotation in this lesson, and returns "
        "(s, d). The other `rotation` is for NumPy.",
        "barrier-divergence": "All 32 lanes make every shuffle. Keep the five steps out of "
        "loops over columns, and out of `if` that lanes answer differently. No barrier is "
        "needed: a warp has its two rows for itself.",
        "uncoalesced": "Neighbouring lanes take neighbouring columns: lane, lane + 32, ...",
        "not-parallel": "A block has a matrix and each of its warps a pair, whose columns the 32 "
        "lanes share: lane, lane + 32, ...",
        "float64": "Begin the three sums with float32(0): 0.0 is float64, and so is all that "
        "is added to it.",
        "wrong-result": "Each lane adds x * x, y * y and x * y of its columns; the sums over the "
        "warp are given. Then s, d = rotate.rotation(a, b, g), unless g is 0 (0 itself, not "
        "small); then both rows, each number by the old x and y. Is it NaN? Then g was 0.",
    },
)

# --- a sweep in shared memory ---------------------------------------------------------------------


def _to_sweep(batch, n, columns, warps, measured=False):
    def arguments(rng):
        rows = rng.standard_normal((batch, n, columns)) * np.linspace(1, 3, n)[:, None]
        return {"w": rows.astype(np.float32)}

    plural = "matrices" if batch > 1 else "matrix"
    name = f"{batch} {plural} of {n} x {columns}, {count(warps, 'warp')}"
    return Case(name, arguments, block=32 * warps, grid=batch, measured=measured)


def _in_rounds(w):
    """Each matrix after a sweep."""
    for rows in w:
        for turn in tournament(len(rows)):
            rows[...] = rotated(rows, turn)
    return w


def _drawn_sweep(rng):
    """No more rows than columns: more turn into noise, whose angles may be any."""
    rows = 2 * extent(rng, 1, 16)
    columns, warps = extent(rng, rows, 32), extent(rng, -(-rows // 8), 16)
    return _to_sweep(extent(rng, 1, 4), rows, columns, warps)


LessonKernel.declare(
    name="sweep-shared",
    rivals=Rivals(timed=_to_sweep(256, 32, 32, 8)),
    lesson=11,
    title="A sweep in shared memory",
    updated=("w",),
    reference=_in_rounds,
    cases=[
        _to_sweep(1, 8, 32, 4),
        _to_sweep(2, 10, 32, 2),
        _to_sweep(1, 32, 32, 8),
        _to_sweep(6, 8, 32, 4, measured=True),
    ],
    drawer=_drawn_sweep,
    tolerance=Tolerance(
        1000,
        "31 rounds of rotations one after the other, each by an angle that rounding shifts",
        magnitude=lambda w: np.sqrt((w * w).sum(axis=2)).max(),
    ),
    forbidden={"float64", "uncoalesced"},
    limits=[
        Limit("global", "load", "lanes", "element", 1, "Each number comes once from device "
              "memory: copy the matrix to shared memory, and rotate there."),
        Limit("global", "store", "lanes", "element", 1, "Each number goes back once, after the "
              "last round."),
        Limit("global", "load", "requests", "launch", 2 * 6 * 8, "All threads of a block "
              "copy, 32 neighbouring numbers a warp and request."),
        Limit("global", "store", "requests", "launch", 2 * 6 * 8, "All threads of a block "
              "copy back, 32 neighbouring numbers a warp and request."),
    ],
    hints={
        "race": "All warps wait, cuda.syncthreads(), after the copying and after each round: "
        "in the next one a row has another partner, in another warp. A round has n / 2 pairs, "
        "each for one warp, k, k + warps, ... for warp k: partners(turn, pair, n). And block b "
        "has matrix b.",
        "same-value-race": "Each number of the matrix is copied by one thread: thread t takes "
        "every blockDim.x-th, from t on.",
        "barrier-divergence": "Warps may have different numbers of pairs. Put the barrier "
        "behind the loop over pairs, inside the loop over rounds: all warps make all rounds. "
        "And a pair is for a warp, not for a thread: all 32 lanes call rotate_two together.",
        "uninitialised-read": "Some numbers of the shared array were never copied, or not yet: "
        "all n * columns of them, then cuda.syncthreads(). rotate_two must get "
        "rows[:n, :columns]; the rest of the 32 x 32 is not filled.",
        "out-of-bounds": "A matrix has n rows and `columns` columns, up to 32 of each: the "
        "shared array is (32, 32). It is matrix cuda.blockIdx.x; its number e is row "
        "e // columns, column e % columns.",
        "typing": "Is it the shared array? Its size must be fixed: (32, 32) holds every "
        "matrix, and rows[:n, :columns] is the part that is used.",
        "float64": "The shared array holds float32, as w does.",
        "not-parallel": "A block has a matrix. All its threads copy it, a part each, and in a "
        "round each warp has pairs of its own: k, k + warps, ... for warp k.",
        "wrong-result": "n - 1 rounds, of n / 2 pairs each; warp k takes the pairs k, k + "
        "warps, ... All lanes of a warp call rotate_two together, with rows[:n, :columns].",
    },
)  # fmt: skip


def _sketch(rows, columns, wide, power, falls, rest=0.1):
    """A matrix whose singular values fall by a factor over `wide` of them, then to `rest` of it."""

    def arguments(rng):
        rank = min(rows, columns)
        u, v = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for n in (rows, columns))
        s = np.full(rank, rest / falls)
        s[:wide] = np.geomspace(1, 1 / falls, wide)
        return {
            "a": ((u * s) @ v.T).astype(np.float32),
            "random": rng.standard_normal((columns, wide)).astype(np.float32),
            "power": power,
        }

    steps = f"{power} power step" + "s" * (power != 1)
    return Case(f"{rows} x {columns}, {count(wide, 'column')}, {steps}", arguments)


def _drawn_sketch(rng):
    rows, columns = extent(rng, 4, 60), extent(rng, 4, 60)
    wide, falls = extent(rng, 1, min(rows, columns) // 2), 10 ** rng.uniform(0.2, 1.7)
    return _sketch(rows, columns, wide, int(rng.integers(5)), falls, rng.choice([0.1, 0.7]))


FunctionExercise.declare(
    name="range-finder",
    lesson=11,
    title="Orthonormal columns from a sketch",
    judge=judge_range,
    cases=[
        _sketch(20, 12, 4, 0, 3),
        _sketch(12, 30, 5, 1, 3),
        _sketch(19, 16, 4, 2, 2, rest=0.7),
        _sketch(40, 40, 8, 2, 100),
    ],
    drawer=_drawn_sketch,
    drawn=12,
    hints={
        "raised": "a is (m, n), `random` (n, l): y = a @ random is (m, l). Back to n rows it "
        "goes with a.T. And `power` may be 0: then q comes from a @ random alone.",
        "input-modified": "Leave a and `random` as they are: y = a @ random is a new array.",
    },
)
