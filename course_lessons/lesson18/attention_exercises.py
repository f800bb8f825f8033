"""Exercises of lesson 18 on attention: one query tile by tile, and a head in a kernel."""

import numpy as np

from course.checks.exercises import Case, FunctionExercise, Limit, Tolerance
from course_lessons.cases import drawn, empty, extent, turn
from course_lessons.edits import LessonKernel
from course_lessons.lesson18 import judges
from course_lessons.lesson18.token_exercises import halves

SIZE, QUERIES = 16, 32

# --- one query, tile by tile ----------------------------------------------------------------------


def _tiles(name, *counts, size=4, shift=0.0, spread=1.0, rising=0.0, above=None):
    """Scores that rise from tile to tile, or fall; one key, of `above`, is far above all others."""

    def arguments(rng):
        tiles = []
        for number, keys in enumerate(counts):
            scores = shift + spread * rng.standard_normal(keys) + number * rising
            tiles.append([scores, rng.standard_normal((keys, size))])
        if above is not None:
            scores, _ = tiles[above]
            scores[len(scores) // 2] += 1000
        return {"tiles": tiles, "size": size}

    return Case(name, arguments)


def _any_tiles(rng):
    counts = [extent(rng, 1, 20) for _ in range(extent(rng, 1, 12))]
    rising, above = rng.choice([-1000, -3, 0, 3, 1000]), rng.choice([None, *range(len(counts))])
    name = f"{len(counts)} tiles" + f" that rise by {rising}" * bool(rising)
    return _tiles(
        name + ", one key far above" * (above is not None), *counts, size=extent(rng, 1, 33),
        shift=rng.choice([0, 200, -2000, -1e12]), spread=10 ** rng.uniform(-1, 2), rising=rising,
        above=above,
    )  # fmt: skip


def _attended(tiles, size):
    scores = np.concatenate([its for its, _ in tiles])
    values = np.concatenate([its for _, its in tiles])
    weights = np.exp(scores - scores.max())
    return weights @ values / weights.sum()


FunctionExercise.declare(
    name="attend-online",
    lesson=18,
    title="Attention of one query, tile by tile",
    reference=_attended,
    caller=judges.call_with_tiles,
    cases=[
        _tiles("tiles of 4, 4 and 2 keys", 4, 4, 2),
        _tiles("scores near 1,000", 4, 4, 3, shift=1000, spread=3),
        _tiles("scores near -1,000", 4, 4, 3, shift=-1000, spread=3),
        _tiles("scores that rise by 1,000 from tile to tile", 4, 4, 4, rising=1000),
        _tiles("scores that fall by 1,000 from tile to tile", 4, 4, 4, rising=-1000),
        _tiles("one key in the middle far above all others", 4, 5, 4, above=1),
        _tiles("64 tiles of 64 keys", *[64] * 64, size=16),
    ],
    drawer=_any_tiles,
    drawn=20,
    tolerance=Tolerance(
        1e4, "a few dozen sums in float64, beside a logarithm as large as the scores",
        magnitude=lambda tiles: 1 + max(np.abs(scores).max() for scores, _ in tiles),
    ),
    hints={
        "wrong-result": "Three things are kept: largest, total, sums. For a tile: new = "
        "max(largest, scores.max()); factor = np.exp(largest - new); weights = np.exp(scores - "
        "new). Then total = total * factor + weights.sum(), sums = sums * factor + weights @ "
        "values, and largest = new. At the end sums / total. NaN comes out where an exponential "
        "overflows, since `new` was not taken away, or the first tile's largest instead; where "
        "total is 0, since largest began above the scores; or where a tile was read again after "
        "the next one had come.",
        "wrong-shape": "Return an array of `size` numbers: weights @ values has as many.",
        "raised": "tiles gives pairs: for scores, values in tiles. It can be gone through once, "
        "and has no length. Shapes: scores (keys,), values (keys, size), so weights @ values is "
        "(size,); the largest of a tile is one number, scores.max().",
        "limit": "For each tile: correct what was kept, and add. A second loop is not needed.",
    },
)  # fmt: skip

# --- a head in tiles ------------------------------------------------------------------------------


def _heads(name, images, tokens, heads, spread=1.0, scale=0.25, apart=0, measured=False):
    size = images, tokens, heads, SIZE

    def around(mean):  # whole numbers, where sums are large: they are exact then
        make = halves(*size, mean=mean, spread=spread)
        return (lambda rng: np.rint(make(rng))) if apart else make

    arguments = drawn(
        q=around(apart), k=around(-apart), v=halves(*size),
        scale=np.float32(scale), out=empty(images, tokens, heads * SIZE, dtype=np.float16),
    )  # fmt: skip
    return Case(name, arguments, QUERIES, (-(-tokens // QUERIES), heads, images), measured=measured)


def _dwarfed(name, half):
    """As many keys that count as keys that count a hundredth: sums of halves drop those."""
    late = np.repeat([0, 1], half)[None, :, None, None]

    def part(value):
        return lambda rng: np.broadcast_to(value, (1, 2 * half, 1, SIZE)).astype(np.float16)

    arguments = drawn(
        q=part(1), k=part(-1.15 * late), v=part(1.5 - 3 * late), scale=np.float32(0.25),
        out=empty(1, 2 * half, SIZE, dtype=np.float16),
    )  # fmt: skip
    return Case(name, arguments, QUERIES, (-(-2 * half // QUERIES), 1, 1))


def _any_heads(rng):
    tokens, heads = extent(rng, 1, 70), int(rng.integers(1, 4))
    name = f"{tokens} tokens, heads: {heads}"
    low = 60 if turn(rng) == 1 else 0  # all scores far below 0, at -14,400 or lower
    spread = 8 if turn(rng) == 0 else rng.choice([0.5, 1])
    scale = rng.choice([0.25 if low else 0.2, 0.5, 1])
    return _heads(name, int(rng.integers(1, 3)), tokens, heads, spread, scale, low)


def _attention(q, k, v, scale):
    q, k, v = (its.transpose(0, 2, 1, 3) for its in (q, k, v))
    scores = scale * (q @ k.swapaxes(-1, -2))
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    n, heads, tokens, size = q.shape
    return (shares @ v).transpose(0, 2, 1, 3).reshape(n, tokens, heads * size)


def _rounded_once(q, k, v, scale):
    """The result, and what float32 loses in scores."""
    lost = 0.01 + scale * SIZE * np.abs(q).max() * np.abs(k).max() / 20_000
    return np.abs(_attention(q, k, v, scale)) + lost * np.abs(v).max()


IN_TILES = (
    "Keys and values come by way of the tiles, once each: a thread brings its part of a tile, and "
    "reads the rest in shared memory. The online softmax needs no second reading."
)

LessonKernel.declare(
    name="attention-in-tiles",
    lesson=18,
    title="Attention of one head in tiles",
    outputs=("out",),
    reference=_attention,
    cases=[
        _heads("16 tokens, one head: a tile", 1, 16, 1),
        _heads("2 images of 17 tokens, 2 heads", 2, 17, 2, scale=0.5),
        _heads("40 tokens whose scores go to 200", 1, 40, 1, spread=8),
        _dwarfed("64 tokens, of which 32 count a hundredth", 32),
        _heads("64 tokens, 2 heads", 1, 64, 2, measured=True),
    ],
    drawer=_any_heads,
    drawn=2,
    tolerance=Tolerance(
        0.5, "the result is rounded to a half, all before it is float32",
        magnitude=_rounded_once,
    ),
    forbidden={"float64", "bank-conflict"},
    barriers="A tile has two barriers: one when it is filled, one when it is read. Those who go "
    "over the keys one after the other need none in between.",
    limits=[
        Limit("global", "load", "lanes", "thread", 16 + 2 * 64 * 16 / 32 + 8, IN_TILES),
        Limit("global", "store", "lanes", "element", 1, "Store each result once, at the end."),
    ],
    hints={
        "race": "Two barriers a tile: one between filling and reading, one between reading and "
        "filling again. And each head has columns of its own in out, from head * SIZE on.",
        "barrier-divergence": "All threads fill and meet at each barrier, those without a query, "
        "too: guard the store alone.",
        "out-of-bounds": "n counts within a tile, from 0 to min(KEYS, tokens - first). Threads of "
        "the last block have no query: store only if query < tokens. A tile has KEYS rows of SIZE "
        "numbers; a head's columns of out begin at head * SIZE.",
        "wrong-result": "For each key n of the tile: score = the sum of mine[e] * keys[n, e]; new "
        "= max(largest, score); factor = exp(largest - new); weight = exp(score - new); total = "
        "total * factor + weight; each sums[e] = sums[e] * factor + weight * values[n, e]; largest "
        "= new. After all tiles sums[e] / total. The last tile has min(KEYS, tokens - first) keys. "
        "NaN comes out where exp(score) overflows: the largest so far is taken away.",
        "unwritten-output": "Each thread with a query stores SIZE numbers, from column head * SIZE "
        "on, of out[image, query].",
        "uninitialised-read": "Call fill_tile for keys and for values, in each round, by all "
        "threads, before the barrier: those without a query fill, too, and return nowhere.",
        "float64": "0.0 and 1e38 are float64: write float32(0), and LOWEST.",
        "not-parallel": "Each thread has one query of its block's head and image.",
        "typing": "fill_tile(tile, source, image, head, first). The exponential is math.exp. out "
        "has three axes: out[image, query, head * SIZE + e].",
        "bank-conflict": "All threads read the same key at the same time: that is a broadcast.",
    },
)  # fmt: skip
