"""Exercises of lesson 18 on tokens: patches as rows, LayerNorm of halves."""

import numpy as np

from course.checks.exercises import Case, Limit, Tolerance
from course_lessons.cases import CANCELS, covering, drawn, empty, extent, row_sizes
from course_lessons.edits import LessonKernel
from course_lessons.lesson18 import parts


def halves(*shape, mean=0.0, spread=1.0):
    """A maker of float16, normal; of one mean, or of one for each row."""
    return lambda rng: (np.asarray(mean) + spread * rng.standard_normal(shape)).astype(np.float16)


# --- patches as rows ------------------------------------------------------------------------------


def _images(name, n, channels, height, width, patch, numbered=False, measured=False):
    rows, columns = n * (height // patch) * (width // patch), channels * patch * patch

    def pixels(rng):
        size = (n, channels, height, width)
        if numbered:
            return np.arange(np.prod(size)).reshape(size).astype(np.float16)
        return rng.standard_normal(size).astype(np.float16)

    arguments = drawn(images=pixels, patch=patch, rows=empty(rows, columns, dtype=np.float16))
    block = (32, 4)
    grid = covering(columns, (32,)) + covering(rows, (4,))
    return Case(name, arguments, block, grid, measured=measured)


def _any_images(rng):
    patch, n, channels = extent(rng, 1, 40), extent(rng, 1, 4), extent(rng, 1, 4)
    height, width = (patch * extent(rng, 1, min(6, 60 // patch)) for _ in range(2))
    name = f"{n} of {channels} x {height} x {width}, patches of {patch}"
    return _images(name, n, channels, height, width, patch)


def _cut(images, patch):
    n, channels, height, width = images.shape
    down, across = height // patch, width // patch
    cut = images.reshape(n, channels, down, patch, across, patch).transpose(0, 2, 4, 1, 3, 5)
    return cut.reshape(n * down * across, -1)


LessonKernel.declare(
    name="patch-rows",
    lesson=18,
    title="Patches as rows",
    outputs=("rows",),
    reference=_cut,
    cases=[
        _images("an image of 4 x 4 numbered pixels, patches of 2", 1, 1, 4, 4, 2, numbered=True),
        _images("two images of 3 channels, 8 x 12, patches of 4", 2, 3, 8, 12, 4),
        _images("a patch is the whole image, 20 x 20", 2, 1, 20, 20, 20),
        _images("3 channels of 32 x 32, patches of 16", 1, 3, 32, 32, 16, measured=True),
    ],
    drawer=_any_images,
    drawn=12,
    tolerance=Tolerance(0, "numbers are moved, and stay as they are"),
    forbidden={"float64", "uncoalesced"},
    limits=[
        Limit("global", "load", "lanes", "element", 1, "Each number of rows is one pixel: load it "
              "once."),
        Limit("global", "store", "lanes", "element", 1, "Each number is stored once."),
    ],
    hints={
        "wrong-result": "Row r is patch r % count of image r // count, where count is the number "
        "of an image's patches; patch p is in line p // across of patches, at place p % across. "
        "Column c is pixel c % patch² of channel c // patch²; pixel i is in line i // patch of its "
        "patch, at place i % patch. Both together: y = line of patches times patch + line in it.",
        "out-of-bounds": "Blocks stick out: row < rows.shape[0] and column < rows.shape[1]. "
        "Where that is guarded, an index goes wrong: an image has height // patch lines of patches "
        "and width // patch in a line; row r is of image r // count, column c of channel c // "
        "patch²; a pixel is images[n, channel, y, x].",
        "unwritten-output": "Thread (column, row) = cuda.grid(2) writes rows[row, column], for all "
        "images and channels.",
        "float64": "/ gives a float: places are whole numbers, by // and %.",
        "typing": "An index is a whole number: // and no /. A pixel is images[n, channel, y, x].",
        "not-parallel": "Thread (column, row) = cuda.grid(2) has one number of rows.",
        "uncoalesced": "x walks along a row: neighbouring threads have neighbouring columns.",
        "race": "Each thread writes its own number, rows[row, column].",
    },
)  # fmt: skip

# --- LayerNorm of halves --------------------------------------------------------------------------


def _tokens(name, rows, columns, mean=0.0, spread=1.0, measured=False):
    arguments = drawn(
        x=halves(rows, columns, mean=mean, spread=spread),
        gamma=halves(columns, mean=1, spread=0.3),
        beta=halves(columns, spread=0.3), out=empty(rows, columns, dtype=np.float16),
    )  # fmt: skip
    return Case(name, arguments, block=128, grid=-(-rows // 4), measured=measured)


def _any_tokens(rng):
    rows, columns = row_sizes(rng)
    spread = 10.0 ** rng.integers(-5, 4)
    mean = spread * rng.choice([0, 0, -3, 60], (rows, 1))
    return _tokens(f"{rows} x {columns}, spread about {spread:g}", rows, columns, mean, spread)


def _normed(x, gamma, beta):
    off = x - x.mean(1, keepdims=True)
    return off / np.sqrt((off**2).mean(1, keepdims=True) + 1e-6) * gamma + beta


def _far(x, gamma, beta):
    return np.repeat(np.abs(x.mean(1, keepdims=True)) > 30 * x.std(1, keepdims=True), x.shape[1], 1)


IN_HALVES = (
    "A sum of halves stops, and squares of halves end at 65,504: start with total = float32(0), "
    "add float32(x[row, c]), and convert a number before it is squared. "
)

LessonKernel.declare(
    name="norm-of-halves",
    lesson=18,
    title="LayerNorm of halves",
    outputs=("out",),
    reference=_normed,
    solved_by=(parts.norm_rows,),
    cases=[
        _tokens("4 tokens of 32 numbers", 4, 32),
        _tokens("4 tokens of 768 numbers, near 0 or 60", 4, 768, [[0], [60], [60], [0]]),
        _tokens("2 tokens of 768 numbers, near 0 and 1,500, with a spread of 3", 2, 768,
                [[0], [1500]], 3),
        _tokens("6 tokens of 64 numbers up to a hundredth", 6, 64, spread=0.003),
        _tokens("64 tokens of 256 numbers", 64, 256, measured=True),
    ],
    drawer=_any_tokens,
    drawn=6,
    tolerance=Tolerance(
        0.5,
        "the result is rounded to a half, all before it is float32",
        magnitude=lambda x, gamma, beta: (
            np.abs(_normed(x, gamma, beta))
            + 0.002 * (1 + np.abs(x).max(1, keepdims=True) / (x.std(1, keepdims=True) + 1e-3))
        ),
    ),
    forbidden={"float64", "uncoalesced"},
    cancels={CANCELS.replace("wrong: ", "wrong: the mean is of a sum in halves; or "): _far},
    limits=[
        Limit("global", "load", "lanes", "element", 5, "A lane reads its own columns, lane, lane + "
              "32, ..., three times, and gamma and beta; row_sum does the rest."),
        Limit("global", "store", "lanes", "element", 1, "Each result is stored once, at the end."),
    ],
    hints={
        "wrong-result": IN_HALVES + "mean = row_sum(total) / columns; the variance is the mean of "
        "(x - mean)². Then (x - mean) / sqrt(variance + 1e-6) * gamma[c] + beta[c].",
        "out-of-bounds": "The last block has warps without a row: if row < x.shape[0]. Lane l has "
        "columns l, l + 32, ..., below x.shape[1].",
        "float64": "1e-6, 1.0 and a division of whole numbers are float64: write float32(1e-6), "
        "float32(1), and float32(x.shape[1]).",
        "barrier-divergence": "All 32 lanes call row_sum, outside of any loop over columns: where "
        "a token has 33 numbers, lanes go round a loop differently often. A barrier of the block "
        "is not needed: a warp has its row to itself.",
        "unwritten-output": "A lane stores columns lane, lane + 32, ... of its row; four rows are "
        "in a block.",
        "not-parallel": "A warp has a row, four rows a block; lane l has columns l, l + 32, ....",
        "uncoalesced": "Neighbouring lanes take neighbouring columns: range(lane, x.shape[1], 32).",
        "typing": "row_sum takes one number. The root is math.sqrt. Both sides of a sum should be "
        "float32: float32(x[row, c]).",
        "race": "A warp has a row of its own: row = 4 blockIdx.x + t // 32.",
    },
)  # fmt: skip
