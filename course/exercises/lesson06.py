"""Exercises of lesson 06 whose answers are kernels: tiles in registers, two buffers."""

import numpy as np

from course.checks import Case, KernelExercise, Limit, Tolerance, register

# --- steps 5, 6 and 7 -----------------------------------------------------------------------------

COLUMN = 64, 64, 512  # rows and columns of a block's pixels, its threads
SQUARE = 128, 128, 256
DEPTH = 8


def _factors(rows, columns, values, k, tile, measured=False):
    """Factors with more singular values than are used, so that reading past k shows."""
    down, across, threads = tile

    def arguments(rng):
        return {
            "u": rng.standard_normal((rows, values), dtype=np.float32),
            "s": np.sort(rng.random(values, dtype=np.float32) + np.float32(0.5))[::-1].copy(),
            "vt": rng.standard_normal((values, columns), dtype=np.float32),
            "k": k,
            "out": np.empty((rows, columns), np.float32),
        }

    return Case(
        f"{rows} x {columns}, k = {k}",
        arguments,
        block=threads,
        grid=(-(-columns // across), -(-rows // down)),
        measured=measured,
    )


def _reconstruction(u, s, vt, k, first=0):
    return (u[:, first:k] * s[first:k]) @ vt[first:k]


def _mistakes(depth):
    return {
        "s is left out": lambda u, s, vt, k: u[:, :k] @ vt[:k],
        "s is multiplied in twice": lambda u, s, vt, k: (u[:, :k] * s[:k] ** 2) @ vt[:k],
        "the last tile reads past k": lambda u, s, vt, k: _reconstruction(
            u, s, vt, min(-(-k // depth) * depth, len(s))
        ),
        f"the last tile is left out where k is no multiple of {depth}": lambda u, s, vt, k: (
            _reconstruction(u, s, vt, k // depth * depth)
        ),
        "the last tile is left out": lambda u, s, vt, k: _reconstruction(
            u, s, vt, (k - 1) // depth * depth
        ),
        "only the first tile is used": lambda u, s, vt, k: _reconstruction(u, s, vt, min(k, depth)),
        "only the last tile is used: the sums start again in every round": lambda u, s, vt, k: (
            _reconstruction(u, s, vt, k, (k - 1) // depth * depth)
        ),
        "every tile uses the first singular values of s: s[i] instead of s[start + i]": (
            lambda u, s, vt, k: (u[:, :k] * np.resize(s[:depth], k)) @ vt[:k]
        ),
        "one sum is written to all pixels of a thread's column": lambda u, s, vt, k: np.repeat(
            _reconstruction(u, s, vt, k)[::8], 8, axis=0
        )[: len(u)],
    }


def _misplaced(tile, side=8):
    """Mistakes of a block that takes its numbers from the wrong place, and of its threads."""
    down, across, _ = tile

    def first_rows(u, s, vt, k):
        return _reconstruction(u, s, vt, k)[np.arange(len(u)) % down]

    def first_columns(u, s, vt, k):
        return _reconstruction(u, s, vt, k)[:, np.arange(vt.shape[1]) % across]

    def rows_of_thread_0(u, s, vt, k):
        row = np.arange(len(u))
        return _reconstruction(u, s, vt, k)[row // down * down + row % side]

    def columns_of_thread_0(u, s, vt, k):
        column = np.arange(vt.shape[1])
        return _reconstruction(u, s, vt, k)[:, column // across * across + column % side]

    return {
        "every round uses the first columns of u: u[..., i] instead of u[..., start + i]": (
            lambda u, s, vt, k: (u[:, np.arange(k) % DEPTH] * s[:k]) @ vt[:k]
        ),
        "every round uses the first rows of vt: vt[i, ...] instead of vt[start + i, ...]": (
            lambda u, s, vt, k: (u[:, :k] * s[:k]) @ vt[np.arange(k) % DEPTH]
        ),
        "every block uses the rows of u of the first: first_row is left out": first_rows,
        "every block uses the columns of vt of the first: first_column is left out": first_columns,
        "every thread uses the first rows of u_tile: row is left out where it reads": (
            rows_of_thread_0
        ),
        "every thread uses the first columns of vt_tile: column is left out where it reads": (
            columns_of_thread_0
        ),
    }


def _one_s_for_four(u, s, vt, k):
    """As if the s of a four's first number were multiplied into all four numbers of u."""
    return (u[:, :k] * s[np.arange(k) // 4 * 4]) @ vt[:k]


def _squares_turned(u, s, vt, k):
    """As if the sums of each thread's 8 x 8 pixels were a[n] * b[m] instead of a[m] * b[n]."""
    right = _reconstruction(u, s, vt, k)
    rows, columns = (-(-size // 8) * 8 for size in right.shape)
    padded = np.zeros((rows, columns))
    padded[: right.shape[0], : right.shape[1]] = right
    turned = padded.reshape(rows // 8, 8, columns // 8, 8).swapaxes(1, 3)
    return turned.reshape(rows, columns)[: right.shape[0], : right.shape[1]]


def _stored_as_one_square(u, s, vt, k):
    """As if a thread's four quarters, half a tile apart, were stored side by side."""
    right = _reconstruction(u, s, vt, k)
    down, across, _ = SQUARE
    padded = np.zeros((right.shape[0] + down, right.shape[1] + across))
    padded[: right.shape[0], : right.shape[1]] = right

    def source(size, tile):
        place = np.arange(size)
        within = place % tile // 8 * 4 + place % 4
        return place // tile * tile + within + np.where(place % 8 < 4, 0, tile // 2)

    return padded[np.ix_(source(right.shape[0], down), source(right.shape[1], across))]


TOLERANCE = Tolerance(
    48,
    "two products and a sum for each of up to 40 singular values",
    magnitude=lambda u, s, vt, k: (np.abs(u[:, :k]) * s[:k]) @ np.abs(vt[:k]),
)
HINTS = {
    "race": "Two barriers: one between filling the tiles and reading them, one between reading "
    "them and filling them again in the next round. If two threads write the same pixel of out, "
    "look at its row and column: each begins with its block's, first_row and first_column.",
    "barrier-divergence": "All threads fill and wait in every round, also those without a pixel. "
    "Guard the loads and the stores, never the barrier.",
    "out-of-bounds": "A block's tile of pixels sticks out of the image at its right and lower "
    "edge, and the last tile of u and vt out of k. Load only what is there, fill in 0 elsewhere, "
    "and store only pixels below out.shape.",
    "uninitialised-read": "Every place of both tiles needs a value in every round, a number or 0, "
    "and every sum starts with float32(0).",
    "unwritten-output": "Every thread stores all its sums, guarded by out.shape, after the last "
    "round.",
    "wrong-result": "In each round both tiles are filled anew, 0 where they stick out, and each "
    "sum grows by the products of its row and its column.",
    "float64": "Start the sums with float32(0): 0.0 is float64.",
}
ONCE = "Load u, s and vt only where you fill the tiles: once for the block, not once for a thread."


STORES = Limit("global", "store", "lanes", "element", 1, "Store once, after the last round.")


def _limits(k, global_lanes, shared_lanes, why):
    """Lanes that load for each pixel, for k values of i."""
    return [
        Limit("global", "load", "lanes", "element", k * global_lanes, ONCE),
        Limit("shared", "load", "lanes", "element", k * shared_lanes, why),
    ]


register(
    KernelExercise(
        name="column-tile",
        lesson=6,
        title="Step 5: a column of results in each thread",
        outputs=("out",),
        reference=lambda u, s, vt, k: _reconstruction(u, s, vt, k),
        cases=[
            _factors(64, 64, 8, 8, COLUMN),
            _factors(64, 64, 40, 32, COLUMN),
            _factors(128, 64, 20, 5, COLUMN),
            _factors(13, 37, 24, 19, COLUMN),
            _factors(70, 65, 33, 33, COLUMN),
            _factors(1, 1, 4, 2, COLUMN),
            _factors(128, 128, 32, 32, COLUMN, measured=True),
        ],
        tolerance=TOLERANCE,
        forbidden={"float64", "negative-index"},
        limits=_limits(
            32,
            3 / 64,  # of u, of the s that goes with it, and of vt
            9 / 8,
            "For each i read the number of vt once, keep it in a variable, and use it for all 8 "
            "rows: 9 reads for 8 products.",
        )
        + [STORES],
        hints=HINTS,
        mistakes=_mistakes(DEPTH) | _misplaced(COLUMN),
    )
)
register(
    KernelExercise(
        name="square-tile",
        lesson=6,
        title="Step 6: a square of results in each thread",
        outputs=("out",),
        reference=lambda u, s, vt, k: _reconstruction(u, s, vt, k),
        cases=[
            _factors(128, 128, 8, 8, SQUARE),
            _factors(128, 128, 20, 16, SQUARE),
            _factors(13, 37, 24, 19, SQUARE),
            _factors(129, 131, 12, 11, SQUARE),
            _factors(1, 1, 4, 2, SQUARE),
            _factors(128, 256, 16, 16, SQUARE, measured=True),
        ],
        tolerance=TOLERANCE,
        forbidden={"float64", "negative-index"},
        limits=_limits(
            16,
            3 / 128,
            1 / 4,
            "For each i read the thread's 8 numbers of u and 8 of vt once, into a and b, and "
            "multiply from there: 16 reads for 64 products.",
        )
        + [STORES],
        hints=HINTS,
        mistakes=_mistakes(DEPTH)
        | _misplaced(SQUARE)
        | {"a goes with the rows, m, b with the columns, n; you exchanged them": _squares_turned},
    )
)
register(
    KernelExercise(
        name="wide-tile",
        lesson=6,
        title="Step 7: four numbers at a time, and no conflict",
        outputs=("out",),
        reference=lambda u, s, vt, k: _reconstruction(u, s, vt, k),
        cases=[
            _factors(128, 128, 8, 8, SQUARE),
            _factors(128, 128, 20, 16, SQUARE),
            _factors(13, 36, 24, 20, SQUARE),
            _factors(130, 132, 12, 12, SQUARE),
            _factors(1, 4, 4, 4, SQUARE),
            _factors(128, 256, 16, 16, SQUARE, measured=True),
        ],
        tolerance=TOLERANCE,
        forbidden={"float64", "negative-index", "bank-conflict"},
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
            "bank-conflict": "Turn the tile of u, give its rows PITCH words, and let a thread's "
            "second four lie half a tile after the first: row + 64 and column + 64.",
        },
        mistakes=_mistakes(DEPTH)
        | _misplaced(SQUARE)
        | {
            "a four of u is multiplied by one s; its four numbers have four": _one_s_for_four,
            "the four quarters are stored side by side, as one square": _stored_as_one_square,
            "a goes with the rows, m, b with the columns, n; you exchanged them": (_squares_turned),
        },
    )
)

# --- two buffers ----------------------------------------------------------------------------------

TILE = 16


def _to_buffer(rows, columns, values, k):
    case = _factors(rows, columns, values, k, (TILE, TILE, (TILE, TILE)))
    return case


register(
    KernelExercise(
        name="two-buffers",
        lesson=6,
        title="Two buffers, one barrier a round",
        outputs=("out",),
        reference=lambda u, s, vt, k: _reconstruction(u, s, vt, k),
        cases=[
            _to_buffer(16, 16, 16, 16),
            _to_buffer(16, 16, 48, 32),
            _to_buffer(16, 32, 64, 64),
            _to_buffer(13, 37, 24, 19),
            _to_buffer(41, 17, 40, 33),
            _to_buffer(5, 3, 1, 1),
        ],
        tolerance=TOLERANCE,
        forbidden={"float64", "negative-index"},
        hints=HINTS
        | {
            "race": "One barrier at the start of each round does it: behind it this round's tiles "
            "are full, and nobody reads those of the round before, which may be filled now.",
            "out-of-bounds": "There are two buffers, 0 and 1: stage = 1 - stage. Store only "
            "pixels below out.shape.",
            "wrong-result": "The first tile is filled before the loop. In each round fill the next "
            "one, if there is one, add the products of this one, and swap: stage = 1 - stage.",
        },
        mistakes=_mistakes(TILE)
        | {
            "stage is never swapped, or the first tile is filled again in the first round, so that "
            "it is used twice": lambda u, s, vt, k: (
                -(-k // TILE) * _reconstruction(u, s, vt, min(k, TILE))
            ),
        },
    )
)
