"""Exercises of lesson 05: barriers, halos, tiles, dynamic shared memory."""

import numpy as np

from course.checks import Case, KernelExercise, Limit, Tolerance, register
from course.verdicts import count

BARRIER = (
    "A thread reads what another thread writes: put cuda.syncthreads() between the two, outside "
    "of every branch."
)

# --- reverse-blocks: one buffer, one barrier ------------------------------------------------------

BLOCK = 64  # threads of a block in lesson 05's one-dimensional exercises


def _blocks(n):
    """How many blocks cover n elements."""
    return -(-n // BLOCK)


def _to_reverse(n):
    return Case(
        count(n, "element"),
        lambda rng: {"x": rng.uniform(1, 5, n).astype(np.float32)},
        block=BLOCK,
        grid=_blocks(n),
    )


def _pieces(x):
    return [x[first : first + BLOCK] for first in range(0, len(x), BLOCK)]


def _reversed_pieces(x):
    return np.concatenate([piece[::-1] for piece in _pieces(x)])


register(
    KernelExercise(
        name="reverse-blocks",
        lesson=5,
        title="Reverse each block's elements, in place",
        updated=("x",),
        reference=_reversed_pieces,
        cases=[_to_reverse(64), _to_reverse(192), _to_reverse(100), _to_reverse(1)],
        hints={
            "race": "Everybody puts an element into the buffer, then all wait at "
            "cuda.syncthreads(), then everybody takes an element out of it. Each block keeps to "
            "its own elements of x.",
            "barrier-divergence": "Guard the store to the buffer, then let all threads wait, then "
            "guard the store to x.",
            "out-of-bounds": "In the last block not every thread has an element. Let count be the "
            "elements of this block, min(BLOCK, x.size - first), and compare threadIdx.x with it.",
            "uninitialised-read": "The last block fills only a part of its buffer. The partner of "
            "thread t is count - 1 - t, with count the elements of this block.",
            "wrong-result": "Block 0 reverses x[0] to x[63], block 1 reverses x[64] to x[127], "
            "and so on. Each block keeps to its own elements.",
        },
        mistakes={
            "the whole array is reversed, not each block by itself": lambda x: x[::-1],
            "the last block is reversed as if it were full; the partner of thread t is count - 1 "
            "- t": lambda x: np.concatenate(
                [np.pad(piece, (0, BLOCK - len(piece)))[::-1][: len(piece)] for piece in _pieces(x)]
            ),
            "only full blocks are reversed": lambda x: np.concatenate(
                [piece[::-1] if len(piece) == BLOCK else piece for piece in _pieces(x)]
            ),
        },
    )
)

# --- blur-halo: a tile with borders ---------------------------------------------------------------

RADIUS = 3
WINDOW = 2 * RADIUS + 1


def _to_blur(n, measured=False):
    return Case(
        count(n, "element"),
        lambda rng: {
            "out": np.empty(n, np.float32),
            "x": rng.uniform(1, 5, n).astype(np.float32),
        },
        block=BLOCK,
        grid=_blocks(n),
        measured=measured,
    )


def _window_sums(x, radius=RADIUS):
    padded = np.pad(x, radius)
    return sum(padded[shift : shift + len(x)] for shift in range(2 * radius + 1))


def _blurred_with_a_wrong_right_halo(x):
    """As if places 67 to 69 held elements 3 to 5 of the block, a radius away from their threads."""
    left = np.concatenate([np.zeros(RADIUS), x])
    right = np.concatenate([x, np.zeros(BLOCK + RADIUS)])
    blurred = []
    for first in range(0, len(x), BLOCK):
        tile = np.zeros(BLOCK + 2 * RADIUS)
        own = left[first : first + BLOCK + RADIUS]
        tile[: len(own)] = own
        tile[-RADIUS:] = right[first + RADIUS : first + 2 * RADIUS]
        blurred.append(np.convolve(tile, np.ones(WINDOW), "valid") / WINDOW)
    return np.concatenate(blurred)[: len(x)]


def _blurred_with_elements_of_the_threads(x):
    """As if place p were filled with element i - 3 + p by its thread, which has element i."""
    places = np.arange(BLOCK + 2 * RADIUS)
    blurred = []
    for first in range(0, len(x), BLOCK):
        elements = first + places % BLOCK - RADIUS + places
        inside = (elements >= 0) & (elements < len(x))
        tile = np.where(inside, x[np.clip(elements, 0, len(x) - 1)], 0)
        blurred.append(np.convolve(tile, np.ones(WINDOW), "valid") / WINDOW)
    return np.concatenate(blurred)[: len(x)]


def _blurred_in_pieces(x):
    return np.concatenate([_window_sums(piece) for piece in _pieces(x)]) / WINDOW


register(
    KernelExercise(
        name="blur-halo",
        lesson=5,
        title="Blur with a halo",
        outputs=("out",),
        reference=lambda x: _window_sums(x) / WINDOW,
        cases=[_to_blur(64), _to_blur(1003), _to_blur(66), _to_blur(1), _to_blur(1024, True)],
        tolerance=Tolerance(10, "six sums, a division and a factor, each of which rounds once"),
        forbidden={"float64", "negative-index", "bank-conflict"},
        limits=[
            Limit(
                "global",
                "load",
                "lanes",
                per="element",
                at_most=1.25,
                why="Each block loads its 64 elements and a halo of 3 on either side once, into "
                "the tile. All sums then read the tile.",
            )
        ],
        hints={
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
        mistakes={
            "the halo is empty: each block sums only its own elements": _blurred_in_pieces,
            "the sum is not divided by 7": lambda x: _window_sums(x),
            "the window begins at the element itself: place 0 of the tile must hold element first "
            "- 3": lambda x: _window_sums(np.append(x, np.zeros(RADIUS)))[RADIUS:] / WINDOW,
            "place is counted from the thread's own element; element is first - 3 + place, and "
            "first is i - t": _blurred_with_elements_of_the_threads,
            "the halo on the right is not that of this block: place t + 67 holds x[i + 64]": (
                _blurred_with_a_wrong_right_halo
            ),
            "the window ends one element too early": lambda x: (
                (_window_sums(x) - np.pad(x, RADIUS)[2 * RADIUS :][: len(x)]) / WINDOW
            ),
            "the last elements come round to the front: x[-1] is the last one, as in NumPy": (
                lambda x: (
                    _window_sums(np.concatenate([x[-RADIUS:], x]))[-len(x) :] / WINDOW
                    if len(x) > RADIUS
                    else np.full(len(x), np.nan)
                )
            ),
            "the window is cut off at the border and the mean taken of what is left": lambda x: (
                _window_sums(x) / _window_sums(np.ones(len(x)))
            ),
        },
    )
)

# --- reconstruct-tiled: two tiles, two barriers ---------------------------------------------------

TILE = 16


def _factors(rows, columns, values, k, measured=False):
    """Factors with more singular values than are used, so that reading past k shows."""

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
        block=(TILE, TILE),
        grid=(-(-columns // TILE), -(-rows // TILE)),
        measured=measured,
    )


def _reconstruction(u, s, vt, k, first=0):
    return (u[:, first:k] * s[first:k]) @ vt[first:k]


def _past_k(u, s, vt, k):
    return _reconstruction(u, s, vt, min(-(-k // TILE) * TILE, len(s)))


def _last_tile_missing(u, s, vt, k):
    return _reconstruction(u, s, vt, k // TILE * TILE)


register(
    KernelExercise(
        name="reconstruct-tiled",
        lesson=5,
        title="Rebuild an image from tiles",
        outputs=("out",),
        reference=lambda u, s, vt, k: _reconstruction(u, s, vt, k),
        cases=[
            _factors(16, 16, 16, 16),
            _factors(16, 16, 48, 32),
            _factors(32, 16, 20, 5),
            _factors(13, 37, 24, 19),
            _factors(41, 17, 33, 33),
            _factors(5, 3, 1, 1),
            _factors(1, 1, 4, 2),
            _factors(64, 96, 32, 32, measured=True),
        ],
        tolerance=Tolerance(
            40,
            "two products and a sum for each of up to 33 singular values",
            magnitude=lambda u, s, vt, k: (np.abs(u[:, :k]) * s[:k]) @ np.abs(vt[:k]),
        ),
        forbidden={"float64", "bank-conflict", "negative-index"},
        limits=[
            Limit(
                "global",
                "load",
                "sectors",
                per="element",
                at_most=1,
                why="Load u, s and vt only where you fill the tiles, once a round, neighbours in x "
                "beside each other in memory; the inner loop reads nothing but the two tiles.",
            ),
            Limit(
                "global",
                "store",
                "lanes",
                per="element",
                at_most=1,
                why="Each pixel is stored once, after the last tile.",
            ),
        ],
        hints={
            "race": "Two barriers: one between filling the tiles and reading them, one between "
            "reading them and filling them again in the next round.",
            "barrier-divergence": "All 256 threads fill and wait in every round, also those "
            "without a pixel. Guard the loads and the last store, never the barrier.",
            "out-of-bounds": "A tile has a place for each of the block's 16 x 16 threads: its "
            "indices are y, x and i, all below 16. At the edges it sticks out: load u only where "
            "row < u.shape[0] and start + x < k, load vt only where start + y < k and "
            "col < vt.shape[1]; fill in 0 elsewhere.",
            "uninitialised-read": "Every place of both tiles needs a value in every round: a "
            "number, or 0 where the tile sticks out. Threads without a pixel fill, too.",
            "unwritten-output": "One thread a pixel: col, row = cuda.grid(2), and after the last "
            "round out[row, col] = total.",
            "wrong-result": "In each round both tiles are filled anew, 0 where they stick out, and "
            "total grows by the sum over i of u_tile[y, i] * vt_tile[i, x].",
            "float64": "Start the sum with float32(0): 0.0 is float64.",
            "bank-conflict": "Let x be the last index wherever you fill a tile: "
            "u_tile[y, x] and vt_tile[y, x].",
        },
        mistakes={
            "s is left out": lambda u, s, vt, k: u[:, :k] @ vt[:k],
            "s is multiplied in twice": lambda u, s, vt, k: (u[:, :k] * s[:k] ** 2) @ vt[:k],
            "the last tile reads past k": _past_k,
            "the last tile is left out where k is no multiple of 16": _last_tile_missing,
            "start goes up by 1 instead of 16, so that the tiles overlap": lambda u, s, vt, k: (
                (u[:, :k] * (s[:k] * np.minimum(np.arange(k) + 1, TILE))) @ vt[:k]
            ),
            "only the first tile is used": lambda u, s, vt, k: _reconstruction(
                u, s, vt, min(k, TILE)
            ),
            "only the last tile is used: total starts again in every round": (
                lambda u, s, vt, k: _reconstruction(u, s, vt, k, (k - 1) // TILE * TILE)
            ),
            "every tile uses the first singular values of s: s[x] instead of s[start + x]": (
                lambda u, s, vt, k: (u[:, :k] * np.resize(s[:TILE], k)) @ vt[:k]
            ),
            "every round fills the same tile: start is missing in the index": (
                lambda u, s, vt, k: sum(
                    _reconstruction(u, s, vt, min(k - start, TILE)) for start in range(0, k, TILE)
                )
            ),
        },
    )
)

# --- block-sums: dynamic shared memory, a barrier in a loop ---------------------------------------


def _to_sum(n, threads, measured=False):
    blocks = -(-n // threads)
    return Case(
        count(n, "element"),
        lambda rng: {
            "out": np.empty(blocks, np.float32),
            "x": rng.uniform(1, 5, n).astype(np.float32),
        },
        block=threads,
        grid=blocks,
        shared=4 * threads,
        measured=measured,
    )


def _sums(x, out):
    """The sums of equal pieces of x; the threads of a block follow from the sizes."""
    threads = next(n for n in (16, 32, 64, 128, 256) if -(-len(x) // n) == len(out))
    return np.add.reduceat(x, np.arange(0, len(x), threads))


register(
    KernelExercise(
        name="block-sums",
        lesson=5,
        title="The sum of each block",
        outputs=("out",),
        reference=_sums,
        cases=[
            _to_sum(64, threads=64),
            _to_sum(1000, threads=128),
            _to_sum(100, threads=32),
            _to_sum(1, threads=16),
            _to_sum(1024, threads=256, measured=True),
        ],
        tolerance=Tolerance(
            256, "up to 255 sums one after the other", magnitude=lambda x, out: _sums(x, out)
        ),
        forbidden={"float64", "negative-index"},
        limits=[
            Limit(
                "shared",
                "load",
                "requests",
                per="launch",
                at_most=512,
                why="Let many threads add at once: in each round, half as many as in the round "
                "before.",
            )
        ],
        hints={
            "race": "All threads wait after filling the buffer, and again after every round. In a "
            "round only the threads with t < step add: nobody writes what another one reads. "
            "In the end thread 0 alone stores.",
            "endless-loop": "step is halved down to 1, and then to 0, where it stays: "
            "while step > 0.",
            "typing": "step is part of an index, a whole number: halve it with //. The shape of a "
            "dynamic array is 0.",
            "barrier-divergence": "In a round only the threads below step add, but all of them "
            "wait: the barrier stands in the loop, and outside of the if. A shuffle waits, too: "
            "for all lanes that its mask names.",
            "uninitialised-read": "Shared memory holds anything at first. A sum starts at 0, and "
            "threads of the last block that have no element fill in a 0.",
            "out-of-bounds": "Guard i with x.size. In a round only the threads with t < step add, "
            "and what they add is part[t + step].",
            "unwritten-output": "After the last round thread 0 writes part[0] to "
            "out[cuda.blockIdx.x].",
            "wrong-result": "step begins at cuda.blockDim.x // 2 and is halved after every round; "
            "the last round has step = 1.",
        },
        mistakes={
            "the last round is missing: step has to reach 1": lambda x, out: np.array(
                [sum(piece[::2]) for piece in np.array_split(x, len(out))]
            ),
            "only the first element of each block is there: nothing was added": lambda x, out: x[
                :: max(1, len(x) // len(out))
            ][: len(out)],
            "the sum is divided by the elements of the block: that is the mean": lambda x, out: (
                _sums(x, out) / _sums(np.ones(len(x)), out)
            ),
        },
    )
)
