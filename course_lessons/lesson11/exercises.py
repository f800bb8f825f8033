"""Exercises of lesson 11: rotations, a sweep in NumPy and as kernels, a range from a sketch."""

import math

import numpy as np

from course.checks.beside import Rivals
from course.checks.exercises import Case, FunctionExercise, Limit, Tolerance
from course_lessons.cases import extent, fixed, table
from course_lessons.edits import LessonKernel, edits
from course_lessons.lesson11.judges import judge_range, judge_rotation, judge_tournament
from course_lessons.lesson11.toy_svd import cosines, rotated, swept, tournament
from warpsim.core.words import count

# --- a rotation -----------------------------------------------------------------------------------


def _products(rng):
    """Products of two rows of any lengths: some as long as each other, orthogonal, or nearly so."""
    a, b = (10 ** rng.uniform(-4, 8, 2)).tolist()
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
    ],
    drawer=_products,
    drawn=20,
    hints={
        "raised": "With g = 0 the rows are orthogonal already, and tau would divide by 0: "
        "return (1.0, 0.0) first. With a = b tau is 0, and nothing may be divided by it."
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
    mistakes=edits(r"""
        the second row is made from the new first one: keep copies of both, or assign both in
        one line
            s * x + c * y -> s * (c * x - s * y) + c * y
        the rows are turned the other way: c x - s y and s x + c y
            c * x - s * y, s * x + c * y -> c * x + s * y, c * y - s * x
        all products are those from before the sweep: each rotation changes two rows
            first: r = rows.copy()
            x @ x, y @ y, x @ y -> r[i] @ r[i], r[j] @ r[j], r[i] @ r[j]
        only neighbours are rotated: every row meets every other one
            i + 1, len(rows) -> i + 1, min(i + 2, len(rows))
        each pair is rotated twice: let j begin at i + 1
            in range(i + 1, len(rows)) -> in {*range(len(rows))} - {i}
        the largest product is returned, not the largest cosine: divide by both lengths
            / math.sqrt(a) / math.sqrt(b) ->
        the sign of the cosine counts; -1 is as far from orthogonal as 1
            abs(g) -> g
            , 0.0 -> , -1.0
        a cosine is divided by lengths from before the sweep: rotations change them
            first: lengths = np.linalg.norm(rows, axis=1)
            math.sqrt(a) / math.sqrt(b) -> lengths[i] / lengths[j]
        the cosines are added up: keep the largest one
            max(largest, abs(g) / math.sqrt(a) / math.sqrt(b))
            -> largest + abs(g) / math.sqrt(a) / math.sqrt(b)
        the cosine of the last pair is returned, not the largest one
            max(largest, abs(g) / math.sqrt(a) / math.sqrt(b))
            -> abs(g) / math.sqrt(a) / math.sqrt(b)
        only row 0 met the others: `return` belongs behind both loops
            for i in range(len(rows)) -> for i in range(1)
        the last row meets nobody: j goes up to len(rows) - 1, range(i + 1, len(rows))
            i + 1, len(rows) -> i + 1, len(rows) - 1
        x and y come from the rows before the sweep: read them from the copy that changes
            first: before = rows
            rows[i].copy(), rows[j].copy() -> before[i], before[j]
    """)
    | {
        "all cosines are those from before the sweep; a pair has another one when it meets": (
            lambda rows: (swept(rows)[0], cosines(rows).max())
        ),
        "the cosine is measured after the sweep; wanted is what the pairs had when they met": (
            lambda rows: (swept(rows)[0], cosines(swept(rows)[0]).max())
        ),
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


def _round(
    batch, n, m, *, zero=False, parallel=False, orthogonal=False, small=False, measured=False
):
    def arguments(rng):
        rows = rng.standard_normal((batch, n, m)) * np.linspace(1, 3, n)[:, None]
        order = rng.permutation(n).reshape(-1, 2)
        if zero:
            rows[:, order[0, 0]] = 0
        if parallel:
            rows[:, order[-1, 1]] = 1.5 * rows[:, order[-1, 0]]
        if orthogonal:
            rows[:, order[0]] = 2
            rows[:, order[0, 0], ::2] = 0
            rows[:, order[0, 1], 1::2] = 0
        if small:
            rows *= 1e-4
        return {"w": rows.astype(np.float32), "pairs": order.astype(np.int32)}

    plural = "matrices" if batch > 1 else "matrix"
    special = ", a row of zeros" if zero else ", two parallel rows" if parallel else ""
    special += ", two rows as long and orthogonal" if orthogonal else ""
    special += ", small numbers" if small else ""
    name = f"{batch} {plural} of {n} x {m}{special}"
    return Case(name, arguments, block=16 * n, grid=batch, measured=measured)


def _drawn_round(rng):
    given = dict(
        zip(("zero", "parallel", "orthogonal", "small"), rng.random(4) < 0.25, strict=True)
    )
    return _round(extent(rng, 1, 4), 2 * extent(rng, 1, 12), int(rng.integers(1, 300)), **given)


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
        _round(1, 4, 32, orthogonal=True),
        _round(1, 4, 32, small=True),
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
        "wrong-result": "Three sums over the columns, each over the warp by five shuffles; "
        "then s, d = rotate.rotation(a, b, g), unless g is 0 (0 itself, not small); then both "
        "rows, each number by the old x and y. Is it NaN? Then g was 0, or lanes without a "
        "column have left too early.",
    },
    mistakes=edits(r"""
        the second row is made from the new first one: read x and y into variables first
            s * x - -> s * w[matrix, i, column] -
        the rows are turned the other way: rotate.rotation(a, b, g), a of x and b of y, then x -
        (d x + s y) and y + (s x - d y)
            (d * x + s * y) -> (d * x - s * y)
            (s * x - d * y) -> (-s * x - d * y)
        a sign is wrong in the first row: x - (d x + s y)
            x - (d -> x + (d
        each new row is stored in the other one's place: row i is that of x
            i, column] = x -> j, column] = x
            j, column] = y -> i, column] = y
        w.shape[1] is the number of rows; that of columns is w.shape[2]
            w.shape[2], 32):\n        x -> w.shape[1], 32):\n        x
            w.shape[2] -> w.shape[1]
        each lane keeps its last column's product: add them up, `+=`
            a += x -> a = x
            b += y -> b = y
            g += x -> g = x
        what a shuffle returns takes the place of the sum: add it, `+=`
            a += cuda -> a = cuda
            b += cuda -> b = cuda
            g += cuda -> g = cuda
        d is used as if it were c; it is 1 - c
            x - (d * x + s * y) -> d * x - s * y
            y + (s * x - d * y) -> s * x + d * y
        only the first 32 columns are rotated: a lane has every 32nd
            w.shape[2], 32):\n        x -> min(w.shape[2], 32), 32):\n        x
            column in range(lane, w.shape[2] -> column in range(lane, min(w.shape[2], 32)
        each lane turns by an angle of its own columns: the sums are never added over the warp
            range(5) -> range(0)
        only lane 0 has the sums: shfl_xor_sync adds them up in every lane, shfl_down_sync does
        not
            xor_sync(0xFFFFFFFF, a -> down_sync(0xFFFFFFFF, a
            xor_sync(0xFFFFFFFF, b -> down_sync(0xFFFFFFFF, b
            xor_sync(0xFFFFFFFF, g -> down_sync(0xFFFFFFFF, g
        the shuffles stand inside the loop over columns: they come once, after it
            \n    for step in range(5):\n        a
            -> \n        for step in range(5):\n            a
            \n        b += cuda -> \n            b += cuda
            \n        g += cuda -> \n            g += cuda
        g was not added up over the warp, a and b were
            g += cuda.shfl_xor_sync(0xFFFFFFFF, g, 1 << step) ->
        a and b are squared lengths already: no root
            rotate.rotation(a, b, g) -> rotate.rotation(math.sqrt(a), math.sqrt(b), g)
        s and d have changed places: rotate.rotation returns (s, d)
            s, d = -> d, s =
        only matrix 0 is rotated: a block's matrix is cuda.blockIdx.x
            if g != -> if matrix == 0 and g !=
        only the first pair is rotated: warp p has pair p
            if g != -> if warp == 0 and g !=
        a pair is a row of `pairs`: pairs[warp, 0] and pairs[warp, 1]
            pairs[warp, 0], pairs[warp, 1] -> pairs[0, warp], pairs[1, warp]
        rows 2 p and 2 p + 1 are rotated; a pair's rows stand in pairs[p]
            pairs[warp, 0], pairs[warp, 1] -> 2 * warp, 2 * warp + 1
    """),
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
    pairs = extent(rng, 1, 16)
    return _to_sweep(
        extent(rng, 1, 4), 2 * pairs, extent(rng, 1, 32), extent(rng, -(-pairs // 4), 16)
    )


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
    mistakes=edits("""
        the last round is missing: there are n - 1 of them, range(n - 1)
            range(n - 1) -> range(n - 2)
        only round 0 was made, or its pairs meet in each: ask rotate.partners(turn, pair, n)
            range(n - 1) -> range(1)
        there are too few rounds: n - 1, of n / 2 pairs each
            range(n - 1) -> range(n // 2)
        only the first n columns are rotated: rotate_two gets rows[:n, :columns]
            rows[:n, :columns] -> rows[:n, :n]
        the last pair of each round is missing: there are n / 2 of them
            n // 2, -> n // 2 - 1,
        each warp rotates one pair a round; where there are more pairs than warps, it goes on
        with another one
            n // 2, -> min(n // 2, threads // 32),
        the rounds are counted from 1: they are 0 to n - 2, range(n - 1)
            range(n - 1) -> range(1, n)
        the same pairs meet in each round: ask rotate.partners(turn, pair, n)
            rotate.partners(turn, pair, n) -> 2 * pair, 2 * pair + 1
        only matrix 0 is swept: a block's matrix is cuda.blockIdx.x
            range(n - 1) -> range(n - 1 if matrix == 0 else 0)
        the matrix stays as it is: rotate the rows of the shared array; after the last round
        they are copied back
            toy_svd.rotate_two(rows[:n, :columns], i, j) -> pass
    """),
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
