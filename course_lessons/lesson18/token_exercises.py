"""Exercises of lesson 18 on tokens: patches as rows, LayerNorm of halves."""

import numpy as np

from course.checks.exercises import Case, Limit, Tolerance
from course_lessons.cases import CANCELS, covering, drawn, empty, extent
from course_lessons.edits import LessonKernel, edits
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
    mistakes=edits(r"""
        a patch is read down its columns: its pixels come line by line
            pixel // patch -> pixel % patch + 0
            across * patch + pixel % patch\n -> across * patch + pixel // patch\n
        lines and places of patches are exchanged: patches are counted along the lines
            place // across -> place % across + 0
            x = place % across -> x = place // across
        all rows are of the first image: the image is row // count
            image, place = row // count, row % count -> image, place = 0, row % count
        all columns are of the first channel: it is column // patch²
            images[image, channel -> images[image, 0
        the line of patches is place // patch: a line has `across` patches
            place // across -> place // patch
        the patch's line is not multiplied by patch: neighbouring patches overlap
            place // across * patch -> place // across
        the patch's place in its line is not multiplied by patch: neighbouring patches overlap
            place % across * patch -> place % across
        the channels' pixels take turns: a channel's come together, then the next channel's
            column // (patch * patch), column % (patch * patch)
            -> column % images.shape[1], column // images.shape[1]
        y and x are exchanged: images[n, channel, y, x]
            channel, y, x] -> channel, x % images.shape[2], y % images.shape[3]]
        images take turns: row r is of image r // count, not r % n
            image, place = row // count, row % count
            -> image, place = row % images.shape[0], row // images.shape[0]
    """),
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
    rows, columns = extent(rng, 1, 13), extent(rng, 1, 900)
    spread = 10.0 ** rng.integers(-3, 4)
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
    mistakes=edits(r"""
        the sum is a half: it stops at 2,048 and loses digits before; start from float32(0)
            total = float32(0) -> total = float16(float32(0))
            total += float32(x[row, c]) -> total = float16(total + x[row, c])
        the difference is squared as a half, and overflows from 256 on: convert before you multiply
            squares += off * off -> squares += float32(float16(off) * float16(off))
        the squares are added in a half: they overflow, and end at 65,504
            squares = float32(0) -> squares = float16(float32(0))
            squares += off * off -> squares = float16(squares + float16(off * off))
        the mean is not subtracted before squaring: that is the mean square, not the variance
            off = float32(x[row, c]) - mean -> off = float32(x[row, c])
        the mean is not subtracted in the result
            z = (float32(x[row, c]) - mean) * scale -> z = float32(x[row, c]) * scale
        the root is missing
            math.sqrt(variance + float32(1e-6)) -> (variance + float32(1e-6))
        the mean is of this lane's numbers alone: row_sum adds those of all lanes
            mean = row_sum(total) -> mean = total
        the variance is of this lane's numbers alone: row_sum adds those of all lanes
            variance = row_sum(squares) -> variance = squares
        the sum of squares is not divided by the number of columns
            row_sum(squares) / float32(x.shape[1]) -> row_sum(squares)
        the squares are divided by columns - 1: LayerNorm divides by the number of columns
            row_sum(squares) / float32(x.shape[1])
            -> row_sum(squares) / float32(max(x.shape[1] - 1, 1))
        gamma is missing
            z * float32(gamma[c]) -> z
        beta is missing
            + float32(beta[c]) ->
        gamma and beta are taken by the lane: each column has one
            float32(gamma[c]) + float32(beta[c])
            -> float32(gamma[lane % x.shape[1]]) + float32(beta[lane % x.shape[1]])
        the mean is rounded to a half: it has 11 bits then; keep it in float32
            mean = row_sum(total) / float32(x.shape[1])
            -> mean = float32(float16(row_sum(total) / float32(x.shape[1])))
        each lane adds all columns, and row_sum adds that up: a lane has lane, lane + 32, ...
            range(lane, x.shape[1], 32):\n            total -> range(x.shape[1]):\n            total
        the small number is added to the root: it stands below it
            math.sqrt(variance + float32(1e-6)) -> (math.sqrt(variance) + float32(1e-6))
        the small number is 1e-5, as in other lessons: here it is 1e-6
            1e-6 -> 1e-5
        the small number below the root is missing: a token whose numbers are all equal has a
        variance of 0
            variance + float32(1e-6) -> variance
    """),
)  # fmt: skip
