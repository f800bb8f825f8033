"""Exercises of lesson 05 on banks: wavefronts, and the transpose through a tile."""

import numpy as np

from course.checks import Case, FunctionExercise, KernelExercise, register
from course.exercises.lesson05 import BARRIER

# --- bank-wavefronts: a plain function ------------------------------------------------------------

BANKS = 32


def _wavefronts(words):
    return int(np.bincount(np.unique(words) % BANKS).max())


def _addresses(name, words):
    return Case(name, lambda rng: {"words": np.array(words(np.arange(32), rng))})


register(
    FunctionExercise(
        name="bank-wavefronts",
        lesson=5,
        title="Wavefronts of one request",
        reference=_wavefronts,
        cases=[
            # first a case in which no two of the mistakes below come to the same figure
            _addresses("12 x 8 threads, a column of 12 x 12", lambda t, rng: 12 * (t % 12)),
            _addresses("lane t reads word t", lambda t, rng: t),
            _addresses("lane t reads word 2 * t", lambda t, rng: 2 * t),
            _addresses("all lanes read word 40", lambda t, rng: 0 * t + 40),
            _addresses("a column of 32 x 32", lambda t, rng: 32 * t + 5),
            _addresses("a column of 32 x 33", lambda t, rng: 33 * t + 5),
            _addresses("16 x 16 threads, a column of 16 x 16", lambda t, rng: 16 * (t % 16)),
            _addresses("random words", lambda t, rng: rng.integers(0, 200, 32)),
        ],
        hints={
            "wrong-result": "The bank of a word is word % 32. One bank gives one word at a time, "
            "to any number of lanes. So: how many different words does the busiest bank have?",
            "raised": "np.unique(words) is each word once; np.bincount(numbers) counts how often "
            "0, 1, 2, … occur.",
            "wrong-shape": "Return one number: the most different words that one bank has.",
        },
        mistakes={
            "lanes that read the same word are counted apart; one wavefront serves them all": (
                lambda words: np.bincount(words % BANKS).max()
            ),
            "this is how many banks are busy": lambda words: len(np.unique(words % BANKS)),
            "this is how many different words there are": lambda words: len(np.unique(words)),
            "words // 32 is taken for the bank; that is the row, words % 32 is the bank": (
                lambda words: np.bincount(np.unique(words) // BANKS).max()
            ),
            "bytes are taken for words: a bank holds words of 4 bytes": (
                lambda words: np.bincount(np.unique(4 * words) % BANKS).max()
            ),
            "these are the conflicts: the first wavefront is missing": lambda words: (
                _wavefronts(words) - 1
            ),
        },
    )
)

# --- the transpose: tiled, then padded ------------------------------------------------------------

TRANSPOSE_TILE = 32


def _to_transpose(rows, columns, measured=False):
    return Case(
        f"{rows} x {columns}",
        lambda rng: {
            "out": np.empty((columns, rows), np.float32),
            "image": rng.random((rows, columns), dtype=np.float32),
        },
        block=(TRANSPOSE_TILE, TRANSPOSE_TILE),
        grid=(-(-columns // TRANSPOSE_TILE), -(-rows // TRANSPOSE_TILE)),
        measured=measured,
    )


def _tiles_stay(image):
    """Each 32 x 32 tile is transposed, and stays where it was."""
    out = np.zeros(image.shape[::-1])
    for row in range(0, image.shape[0], 32):
        for column in range(0, image.shape[1], 32):
            tile = image[row : row + 32, column : column + 32].T
            space = out[row : row + tile.shape[0], column : column + tile.shape[1]]
            space[...] = tile[: space.shape[0], : space.shape[1]]
    return out


def _tiles_move_only(image):
    """The tiles change places, and what is in them does not turn."""
    out = np.zeros(image.shape[::-1])
    for row in range(0, image.shape[0], 32):
        for column in range(0, image.shape[1], 32):
            tile = image[row : row + 32, column : column + 32]
            space = out[column : column + 32, row : row + 32]
            side = min(*tile.shape, *space.shape)
            space[:side, :side] = tile[:side, :side]
    return out


_TRANSPOSE_HINTS = {
    "race": BARRIER,
    "barrier-divergence": "Two guards, one for the load and one for the store; the barrier stands "
    "between them, in neither.",
    "out-of-bounds": "Two guards: row and column of the load with image.shape, row and column of "
    "the store with out.shape.",
    "uninitialised-read": "Thread (x, y) fills tile[y, x] and reads tile[x, y]. In the last "
    "tiles another guard is needed for the store than for the load.",
    "unwritten-output": "The store has its own row and column, with blockIdx.y where the load has "
    "blockIdx.x, and its own guard with out.shape.",
    "wrong-result": "Load tile[y, x] = image[row, column]. For the store swap the block's indices "
    "(the tile changes its place) and read tile[x, y] (the tile turns).",
    "uncoalesced": "In both global accesses x belongs to the last index. What turns is the tile: "
    "filled at [y, x], read at [x, y].",
    "bank-conflict": "32 rows of 32 words put a whole column into one bank. One more column in "
    "the tile's shape shifts each row by a bank; it is never used.",
}
_TRANSPOSE_MISTAKES = {
    "the tiles turn, but stay in their places: swap the block's indices for the store": _tiles_stay,
    "the tiles change places, but do not turn, or turn twice: fill tile[y, x], read tile[x, y], "
    "and let x be the last index of both arrays": _tiles_move_only,
}

for _name, _title, _forbidden in (
    ("tiled-transpose", "Transpose through a tile", {"uncoalesced"}),
    ("padded-transpose", "Pad the tile", {"uncoalesced", "bank-conflict"}),
):
    register(
        KernelExercise(
            name=_name,
            lesson=5,
            title=_title,
            outputs=("out",),
            reference=lambda image: image.T,
            cases=[
                _to_transpose(32, 32),
                _to_transpose(64, 64),
                _to_transpose(33, 70),
                _to_transpose(5, 40),
                _to_transpose(1, 1),
                _to_transpose(64, 96, measured=True),
            ],
            forbidden=_forbidden | {"float64", "negative-index"},
            hints=_TRANSPOSE_HINTS,
            mistakes=_TRANSPOSE_MISTAKES,
        )
    )
