"""Exercises of lesson 10 that are kernels: the pairs of a round, a sweep in shared memory."""

import math

import numpy as np

from course.checks import Case, KernelExercise, Limit, Tolerance, register
from course.toy_svd import rotated, rotation, tournament
from course.verdicts import count

# --- all pairs of a round -------------------------------------------------------------------------


def _round(batch, n, m, *, zero=False, alike=False, orthogonal=False, small=False, measured=False):
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
        if small:
            rows *= 1e-4
        return {"w": rows.astype(np.float32), "pairs": order.astype(np.int32)}

    plural = "matrices" if batch > 1 else "matrix"
    special = ", a row of zeros" if zero else ", two rows alike" if alike else ""
    special += ", two rows as long and orthogonal" if orthogonal else ""
    special += ", small numbers" if small else ""
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


def _first_columns(x, y, c, s, wide=32):
    """As if lanes had no loop: sums and rotations of 32 columns."""
    a, b = x[:wide], y[:wide]
    c, s = rotation(a @ a, b @ b, a @ b)
    return tuple(
        np.concatenate([new, old[wide:]])
        for new, old in zip(_turned(a, b, c, s), (x, y), strict=True)
    )


def _last_columns(x, y, c, s):
    """Each lane's last column, 32 in all, decide the angle."""
    a, b = x[-32:], y[-32:]
    return _turned(x, y, *rotation(a @ a, b @ b, a @ b))


def _half_done(x, y, c, s):
    """All columns decide the angle, the first 32 are turned by it."""
    return tuple(
        np.concatenate([new[:32], old[32:]])
        for new, old in zip(_turned(x, y, c, s), (x, y), strict=True)
    )


LANES = np.arange(32)


def _by_lanes(shuffle, inside=False, only="abg"):
    """Rows as turned by the angle that each lane has from its sums.

    `shuffle` makes other sums of the lanes' 32, once after the loop over columns, or `inside` it;
    for `only` these of a, b and g.
    """

    def change(x, y, c, s):
        filled = -len(x) % 32
        x_lanes, y_lanes = (np.pad(row, (0, filled)).reshape(-1, 32) for row in (x, y))
        sums = {}
        for name, products in zip("abg", (x_lanes**2, y_lanes**2, x_lanes * y_lanes), strict=True):
            total = np.zeros(32)
            for each in products:
                total = shuffle(total + each) if inside else total + each
            sums[name] = shuffle(total) if name in only and not inside else total
        new = np.empty((2, *x_lanes.shape))
        for lane in LANES:
            c, s = rotation(*(sums[name][lane] for name in "abg"))
            new[:, :, lane] = _turned(x_lanes[:, lane], y_lanes[:, lane], c, s)
        return new.reshape(2, -1)[:, : len(x)]

    return lambda w, pairs: _pairwise(w, pairs, change)


def _xor(*masks):
    def shuffle(sums):
        for mask in masks:
            sums = sums + sums[LANES ^ mask]
        return sums

    return shuffle


def _down(*steps):
    def shuffle(sums):
        for step in steps:
            sums = sums + sums[np.where(LANES + step < 32, LANES + step, LANES)]
        return sums

    return shuffle


def _other_way(w, pairs):
    return _pairwise(w, pairs, lambda x, y, c, s: _turned(x, y, c, -s))


def _of_lengths(w, pairs):
    """With roots of the squared lengths."""

    def change(x, y, c, s):
        return _turned(x, y, *rotation(math.sqrt(x @ x), math.sqrt(y @ y), x @ y))

    return _pairwise(w, pairs, change)


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
            _round(1, 4, 32),
            _round(1, 2, 32),
            _round(1, 8, 64),
            _round(2, 6, 40),
            _round(1, 6, 7),
            _round(1, 4, 33, zero=True),
            _round(1, 4, 32, orthogonal=True),
            _round(1, 6, 50, alike=True),
            _round(1, 4, 32, small=True),
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
            "out-of-bounds": "It is w[matrix, row, column]: the matrix is cuda.blockIdx.x, rows "
            "are pairs[warp, 0] and pairs[warp, 1], with warp = cuda.threadIdx.x // 32. Columns "
            "may be fewer than 32, or no multiple: range(lane, w.shape[2], 32) ends in time.",
            "typing": "The device function is called rotation_on_gpu in this lesson, and returns "
            "(s, d). The other `rotation` is for NumPy.",
            "barrier-divergence": "All 32 lanes make every shuffle. Keep the five steps out of "
            "loops over columns, and out of `if` that lanes answer differently. No barrier is "
            "needed: a warp has its two rows for itself.",
            "uncoalesced": "Neighbouring lanes take neighbouring columns: lane, lane + 32, ...",
            "float64": "Begin the three sums with float32(0): 0.0 is float64, and so is all that "
            "is added to it.",
            "wrong-result": "Three sums over the columns, each over the warp by five shuffles; "
            "then s, d = rotation_on_gpu(a, b, g), unless g is 0 (0 itself, not small); then both "
            "rows, each number by the old x and y. Is it NaN? Then g was 0, or lanes without a "
            "column have left too early.",
        },
        mistakes={
            "the second row is made from the new first one: read x and y into variables first": (
                lambda w, pairs: _pairwise(w, pairs, _overwritten)
            ),
            "the rows are turned the other way: rotation_on_gpu(a, b, g), a of x and b of y, then "
            "x - (d x + s y) and y + (s x - d y)": _other_way,
            "a sign is wrong in the first row: x - (d x + s y)": lambda w, pairs: _pairwise(
                w, pairs, lambda x, y, c, s: (x + ((1 - c) * x + s * y), s * x + c * y)
            ),
            "a sign is wrong in the second row: y + (s x - d y)": lambda w, pairs: _pairwise(
                w, pairs, lambda x, y, c, s: (c * x - s * y, y - (s * x - (1 - c) * y))
            ),
            "the signs in both brackets are wrong: x - (d x + s y), y + (s x - d y)": (
                lambda w, pairs: _pairwise(
                    w, pairs, lambda x, y, c, s: (c * x + s * y, s * x + (2 - c) * y)
                )
            ),
            "each new row is stored in the other one's place: row i is that of x": (
                lambda w, pairs: _pairwise(w, pairs, lambda *given: _turned(*given)[::-1])
            ),
            "w.shape[1] is the number of rows; that of columns is w.shape[2]": lambda w, pairs: (
                _pairwise(w, pairs, lambda *given: _first_columns(*given, wide=w.shape[1]))
            ),
            "each lane keeps its last column's product: add them up, `+=`": lambda w, pairs: (
                _pairwise(w, pairs, _last_columns)
            ),
            "what a shuffle returns takes the place of the sum: add it, `+=`": _by_lanes(
                lambda sums: sums[LANES ^ 31]
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
            "warp": _by_lanes(_xor()),
            "four shuffles add up 16 lanes; for all 32 it takes five, range(5)": _by_lanes(
                _xor(1, 2, 4, 8)
            ),
            "the shuffles are xor 0, 1, 2, 3, 4: the distances double, 1 << step": _by_lanes(
                _xor(0, 1, 2, 3, 4)
            ),
            "only lane 0 has the sums: shfl_xor_sync adds them up in every lane, shfl_down_sync "
            "does not": _by_lanes(_down(1, 2, 4, 8, 16)),
            "only lane 0 has the sums: shfl_xor_sync gives them to every lane, shfl_down_sync does "
            "not": _by_lanes(_down(16, 8, 4, 2, 1)),
            "the shuffles stand inside the loop over columns: they come once, after it": _by_lanes(
                _xor(1, 2, 4, 8, 16), inside=True
            ),
            "g was not added up over the warp, a and b were": _by_lanes(
                _xor(1, 2, 4, 8, 16), only="ab"
            ),
            "a and b are squared lengths already: no root": _of_lengths,
            "s and d have changed places: rotation_on_gpu returns (s, d)": lambda w, pairs: (
                _pairwise(w, pairs, lambda x, y, c, s: _turned(x, y, 1 - s, 1 - c))
            ),
            "brackets are missing: x - (d x + s y), y + (s x - d y)": lambda w, pairs: _pairwise(
                w, pairs, lambda x, y, c, s: (c * x + s * y, s * x + c * y)
            ),
            "pairs with a negative g are left alone: compare with `!= 0`": lambda w, pairs: (
                _pairwise(w, pairs, lambda x, y, c, s: _turned(x, y, c, s) if x @ y > 0 else (x, y))
            ),
            "only one of the two rows is stored": lambda w, pairs: _pairwise(
                w, pairs, lambda x, y, c, s: (c * x - s * y, y)
            ),
            "only matrix 0 is rotated: a block's matrix is cuda.blockIdx.x": _first_matrix,
            "only the first pair is rotated: warp p has pair p": lambda w, pairs: _pairwise(
                w, pairs[:1], _turned
            ),
            "a pair is a row of `pairs`: pairs[warp, 0] and pairs[warp, 1]": lambda w, pairs: (
                _pairwise(w, pairs.T if len(pairs) == 2 else pairs, _turned)
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


def _by_turns(w, turns):
    """Each matrix after other turns; in turn n - 1 the last row meets itself, by 45 degrees."""
    w = w.copy()
    for place, rows in enumerate(w):
        n = len(rows)
        rounds = tournament(n)
        for turn in turns(n):
            if turn < n - 1:
                rows = rotated(rows, rounds[turn])
            else:
                rows = rotated(rows, rounds[0][1:]) if n > 2 else rows.copy()
                rows[-1] *= math.sqrt(2)
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
            _to_sweep(1, 32, 32, 8),
            _to_sweep(3, 16, 32, 8, measured=True),
        ],
        tolerance=Tolerance(
            1000,
            "31 rounds of rotations one after the other, each by an angle that rounding shifts",
            magnitude=lambda w: np.sqrt((w * w).sum(axis=2)).max(),
        ),
        forbidden={"float64", "uncoalesced", "negative-index", "same-value-race"},
        limits=[
            Limit("global", "load", "lanes", "element", 1, "Each number comes once from device "
                  "memory: copy the matrix to shared memory, and rotate there."),
            Limit("global", "store", "lanes", "element", 1, "Each number goes back once, after the "
                  "last round."),
            Limit("global", "load", "requests", "launch", 2 * 3 * 16, "All threads of a block "
                  "copy, 32 neighbouring numbers a warp and request."),
            Limit("global", "store", "requests", "launch", 2 * 3 * 16, "All threads of a block "
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
            "wrong-result": "n - 1 rounds, of n / 2 pairs each; warp k takes the pairs k, k + "
            "warps, ... All lanes of a warp call rotate_two together, with rows[:n, :columns].",
        },
        mistakes={
            "the matrix stays as it is: rotate the rows of the shared array; after the last round "
            "they are copied back": lambda w: w,
            "the last round is missing: there are n - 1 of them, range(n - 1)": lambda w: (
                _in_rounds(w, rounds=-1)
            ),
            "only round 0 was made, or its pairs meet in each: ask partners(turn, pair, n)": (
                lambda w: _in_rounds(w, rounds=1)
            ),
            "there are too few rounds: n - 1, of n / 2 pairs each": lambda w: _in_rounds(
                w, rounds=w.shape[1] // 2
            ),
            "only the first n columns are rotated: rotate_two gets rows[:n, :columns]": (
                lambda w: np.concatenate(
                    [_in_rounds(w[..., : w.shape[1]]), w[..., w.shape[1] :]], axis=2
                )
            ),
            "pair 0 alone is rotated in each round": lambda w: _in_rounds(w, pairs=1),
            "the last pair of each round is missing: there are n / 2 of them": lambda w: (
                _in_rounds(w, pairs=-1)
            ),
            "each warp rotates one pair a round; where there are more pairs than warps, it goes on "
            "with another one": lambda w: _in_rounds(w, pairs=2),
            "there is a round too many: n - 1 of them, range(n - 1)": lambda w: _by_turns(
                w, lambda n: range(n)
            ),
            "the rounds are counted from 1: they are 0 to n - 2, range(n - 1)": lambda w: _by_turns(
                w, lambda n: range(1, n)
            ),
            "the same pairs meet in each round: ask partners(turn, pair, n)": lambda w: np.stack(
                [rotated(rows, [(p, p + 1) for p in range(0, len(rows), 2)]) for rows in w]
            ),
            "two sweeps were made: one is enough": lambda w: _in_rounds(w, sweeps=2),
            "only matrix 0 is swept: a block's matrix is cuda.blockIdx.x": lambda w: np.concatenate(
                [_in_rounds(w[:1]), w[1:]]
            ),
        },
    )
)  # fmt: skip
