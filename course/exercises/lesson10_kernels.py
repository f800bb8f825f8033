"""Exercises of lesson 10 that are kernels: the pairs of a round, a sweep in shared memory."""

import numpy as np

from course.checks import Case, KernelExercise, Limit, Tolerance, register
from course.toy_svd import rotated, rotation, tournament
from course.verdicts import count

# --- all pairs of a round -------------------------------------------------------------------------


def _round(batch, n, m, *, zero=False, alike=False, orthogonal=False, measured=False):
    def arguments(rng):
        rows = rng.standard_normal((batch, n, m)) * np.linspace(1, 3, n)[:, None]
        order = rng.permutation(n).reshape(-1, 2)
        if zero:
            rows[:, order[0, 0]] = 0
        if alike:
            rows[:, order[-1, 1]] = rows[:, order[-1, 0]]
        if orthogonal:
            rows[:, order[0]] = 2
            rows[:, order[0, 0], ::2] = 0
            rows[:, order[0, 1], 1::2] = 0
        return {"w": rows.astype(np.float32), "pairs": order.astype(np.int32)}

    plural = "matrices" if batch > 1 else "matrix"
    special = ", a row of zeros" if zero else ", two rows alike" if alike else ""
    special += ", two rows as long and orthogonal" if orthogonal else ""
    name = f"{batch} {plural} of {n} x {m}{special}"
    return Case(name, arguments, block=16 * n, grid=batch, measured=measured)


def _pairwise(w, pairs, change):
    """Every pair's two rows as `change(x, y, c, s)` makes them."""
    w = w.copy()
    for matrix in w:
        for i, j in pairs:
            x, y = matrix[i].copy(), matrix[j].copy()
            matrix[i], matrix[j] = change(x, y, *rotation(x @ x, y @ y, x @ y))
    return w


def _turned(x, y, c, s):
    return c * x - s * y, s * x + c * y


def _overwritten(x, y, c, s):
    new = c * x - s * y
    return new, s * new + c * y


def _first_columns(x, y, c, s):
    """As if lanes had no loop: sums and rotations of 32 columns."""
    a, b = x[:32], y[:32]
    c, s = rotation(a @ a, b @ b, a @ b)
    return tuple(
        np.concatenate([new, old[32:]])
        for new, old in zip(_turned(a, b, c, s), (x, y), strict=True)
    )


def _half_done(x, y, c, s):
    """All columns decide the angle, the first 32 are turned by it."""
    return tuple(
        np.concatenate([new[:32], old[32:]])
        for new, old in zip(_turned(x, y, c, s), (x, y), strict=True)
    )


def _lanes_alone(x, y, c, s):
    """As if each lane turned by the angle of its own columns."""
    new = np.array([x, y])
    for lane in range(32):
        a, b = x[lane::32], y[lane::32]
        new[:, lane::32] = _turned(a, b, *rotation(a @ a, b @ b, a @ b))
    return new


def _first_matrix(w, pairs):
    return np.concatenate([_pairwise(w[:1], pairs, _turned), w[1:]])


register(
    KernelExercise(
        name="rotate-pairs",
        lesson=10,
        title="All pairs of a round, a warp a pair",
        updated=("w",),
        reference=lambda w, pairs: _pairwise(w, pairs, _turned),
        cases=[
            _round(1, 2, 32),
            _round(1, 8, 64),
            _round(2, 6, 40),
            _round(1, 6, 7),
            _round(1, 4, 33, zero=True),
            _round(1, 4, 32, orthogonal=True),
            _round(1, 6, 50, alike=True),
            _round(3, 8, 96, measured=True),
        ],
        tolerance=Tolerance(
            64,
            "sums of 96 products decide an angle, and each number is rotated by it",
            magnitude=lambda w: np.sqrt((w * w).sum(axis=2)).max(),
        ),
        forbidden={"float64", "uncoalesced", "negative-index", "same-value-race"},
        hints={
            "race": "A row belongs to one pair, and a pair to one warp: warp number "
            "threadIdx.x // 32, rows pairs[warp, 0] and pairs[warp, 1]. Its lanes share the "
            "columns among them: lane, lane + 32, ...",
            "same-value-race": "Lanes share the columns among them: lane, lane + 32, ... Each "
            "number has one writer.",
            "out-of-bounds": "A row may have fewer columns than a warp has lanes, or no multiple "
            "of 32: range(lane, w.shape[2], 32) ends in time. The matrix is cuda.blockIdx.x.",
            "barrier-divergence": "All 32 lanes make every shuffle. Keep the five steps out of "
            "loops over columns, and out of `if` that lanes answer differently.",
            "uncoalesced": "Neighbouring lanes take neighbouring columns: lane, lane + 32, ...",
            "float64": "Begin the three sums with float32(0): 0.0 is float64, and so is all that "
            "is added to it.",
            "wrong-result": "Three sums over the columns, each over the warp by five shuffles; "
            "then s, d = rotation(a, b, g), unless g is 0; then both rows, each number by the old "
            "x and y. Is it NaN? Then g was 0.",
        },
        mistakes={
            "the second row is made from the new first one: read x and y into variables first": (
                lambda w, pairs: _pairwise(w, pairs, _overwritten)
            ),
            "the rows are turned the other way: x - (d x + s y) and y + (s x - d y)": (
                lambda w, pairs: _pairwise(w, pairs, lambda x, y, c, s: _turned(x, y, c, -s))
            ),
            "d is used as if it were c; it is 1 - c": lambda w, pairs: _pairwise(
                w, pairs, lambda x, y, c, s: _turned(x, y, 1 - c, s)
            ),
            "only the first 32 columns are rotated: a lane has every 32nd": lambda w, pairs: (
                _pairwise(w, pairs, _first_columns)
            ),
            "all columns are summed, but only the first 32 are rotated": lambda w, pairs: _pairwise(
                w, pairs, _half_done
            ),
            "each lane turns by an angle of its own columns: the sums are never added over the "
            "warp": lambda w, pairs: _pairwise(w, pairs, _lanes_alone),
            "only one of the two rows is stored": lambda w, pairs: _pairwise(
                w, pairs, lambda x, y, c, s: (c * x - s * y, y)
            ),
            "only matrix 0 is rotated: a block's matrix is cuda.blockIdx.x": _first_matrix,
            "only the first pair is rotated: warp p has pair p": lambda w, pairs: _pairwise(
                w, pairs[:1], _turned
            ),
            "rows 2 p and 2 p + 1 are rotated; a pair's rows stand in pairs[p]": lambda w, pairs: (
                _pairwise(w, np.arange(w.shape[1]).reshape(-1, 2), _turned)
            ),
        },
    )
)

# --- a sweep in shared memory ---------------------------------------------------------------------


def _to_sweep(batch, n, columns, warps, measured=False):
    def arguments(rng):
        rows = rng.standard_normal((batch, n, columns)) * np.linspace(1, 3, n)[:, None]
        return {"w": rows.astype(np.float32)}

    plural = "matrices" if batch > 1 else "matrix"
    name = f"{batch} {plural} of {n} x {columns}, {count(warps, 'warp')}"
    return Case(name, arguments, block=32 * warps, grid=batch, measured=measured)


def _in_rounds(w, rounds=None, pairs=None, sweeps=1):
    """Each matrix after a sweep; of only some rounds, or some pairs of each."""
    w = w.copy()
    for place, rows in enumerate(w):
        for turn in tournament(len(rows))[:rounds] * sweeps:
            rows = rotated(rows, turn[:pairs]) if turn[:pairs] else rows
        w[place] = rows
    return w


register(
    KernelExercise(
        name="sweep-shared",
        lesson=10,
        title="A sweep in shared memory",
        updated=("w",),
        reference=_in_rounds,
        cases=[
            _to_sweep(1, 8, 32, 4),
            _to_sweep(1, 2, 32, 1),
            _to_sweep(2, 6, 17, 3),
            _to_sweep(2, 10, 32, 2),
            _to_sweep(3, 16, 32, 8, measured=True),
        ],
        tolerance=Tolerance(
            1000,
            "15 rounds of rotations one after the other, each by an angle that rounding shifts",
            magnitude=lambda w: np.sqrt((w * w).sum(axis=2)).max(),
        ),
        forbidden={"float64", "uncoalesced", "negative-index", "same-value-race"},
        limits=[
            Limit("global", "load", "lanes", "element", 1, "Each number comes once from device "
                  "memory: copy the matrix to shared memory, and rotate there."),
            Limit("global", "store", "lanes", "element", 1, "Each number goes back once, after the "
                  "last round."),
        ],
        hints={
            "race": "All warps wait, cuda.syncthreads(), after the copying and after each round: "
            "in the next one a row has another partner, in another warp. And block b has matrix b.",
            "same-value-race": "Each number of the matrix is copied by one thread: thread t takes "
            "every blockDim.x-th, from t on.",
            "barrier-divergence": "Warps may have different numbers of pairs. Put the barrier "
            "behind the loop over pairs, inside the loop over rounds: all warps make all rounds. "
            "And a pair is for a warp, not for a thread: all 32 lanes call rotate_two together.",
            "uninitialised-read": "Some numbers of the shared array were never copied, or not yet: "
            "all n * columns of them, then cuda.syncthreads(). rotate_two must get "
            "rows[:n, :columns]; the rest of the 32 x 32 is not filled.",
            "out-of-bounds": "A matrix has n rows and `columns` columns, perhaps fewer than 32; it "
            "is matrix cuda.blockIdx.x.",
            "wrong-result": "n - 1 rounds, of n / 2 pairs each; warp k takes the pairs k, k + "
            "warps, ... All lanes of a warp call rotate_two together.",
        },
        mistakes={
            "the rows stay as they are: after the last round they are copied back": lambda w: w,
            "the last round is missing: there are n - 1 of them, range(n - 1)": lambda w: (
                _in_rounds(w, rounds=-1)
            ),
            "only round 0 was made": lambda w: _in_rounds(w, rounds=1),
            "pair 0 alone is rotated in each round": lambda w: _in_rounds(w, pairs=1),
            "the last pair of each round is missing: there are n / 2 of them": lambda w: (
                _in_rounds(w, pairs=-1)
            ),
            "each warp rotates one pair a round; where there are more pairs than warps, it goes on "
            "with another one": lambda w: _in_rounds(w, pairs=2),
            "two sweeps were made: one is enough": lambda w: _in_rounds(w, sweeps=2),
            "only matrix 0 is swept: a block's matrix is cuda.blockIdx.x": lambda w: np.concatenate(
                [_in_rounds(w[:1]), w[1:]]
            ),
        },
    )
)  # fmt: skip
