"""Exercises of lesson 18: patches as rows, LayerNorm of halves, bias and GELU; two of memory."""

import numpy as np

from course.checks.exercises import Case, FunctionExercise, Limit, Tolerance
from lessons.cases import CANCELS, covering, drawn, empty, fixed, table
from lessons.edits import LessonKernel, edits
from lessons.lesson18 import attention_exercises, judges
from lessons.lesson18.toy_gemm import gemm

__all__ = ["attention_exercises"]


def halves(*shape, mean=0.0, spread=1.0):
    """A maker of float16, normal."""
    return lambda rng: (mean + spread * rng.standard_normal(shape)).astype(np.float16)


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
        _images("two channels of 6 x 6, patches of 3", 1, 2, 6, 6, 3, numbered=True),
        _images("three images of 4 x 8, patches of 2", 3, 1, 4, 8, 2),
        _images("two images of 3 channels, 8 x 12, patches of 4", 2, 3, 8, 12, 4),
        _images("a patch is the whole image, 5 x 5", 2, 1, 5, 5, 5),
        _images("3 channels of 32 x 32, patches of 16", 1, 3, 32, 32, 16, measured=True),
    ],
    tolerance=Tolerance(0, "numbers are moved, and stay as they are"),
    forbidden={"float64", "negative-index", "uncoalesced", "same-value-race"},
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
        "out-of-bounds": "Blocks stick out: row < rows.shape[0] and column < rows.shape[1]. An "
        "image has height // patch lines of patches; a pixel is images[n, channel, y, x].",
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
        y of the patch is missing: only the line within it is taken
            place // across * patch + pixel // patch -> pixel // patch
        x of the patch is missing: only the place within its line is taken
            place % across * patch + pixel % patch -> pixel % patch
        the patch's line is not multiplied by patch: neighbouring patches overlap
            place // across * patch -> place // across
        the patch's place in its line is not multiplied by patch: neighbouring patches overlap
            place % across * patch -> place % across
        each pixel is one too far to the right: places count from 0
            x = place % across * patch + pixel % patch
            -> x = (place % across * patch + pixel % patch + 1) % images.shape[3]
        each pixel is one line too low: lines count from 0
            y = place // across * patch + pixel // patch
            -> y = (place // across * patch + pixel // patch + 1) % images.shape[2]
        the channels' pixels take turns: a channel's come together, then the next channel's
            column // (patch * patch), column % (patch * patch)
            -> column % images.shape[1], column // images.shape[1]
        y and x are exchanged: images[n, channel, y, x]
            channel, y, x] -> channel, x % images.shape[2], y % images.shape[3]]
        images take turns: row r is of image r // count, not r % n
            image, place = row // count, row % count
            -> image, place = row % images.shape[0], row // images.shape[0]
        the line within a patch is found by across: a patch's lines have `patch` pixels
            pixel // patch -> pixel // across % patch
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
    cases=[
        _tokens("4 tokens of 32 numbers", 4, 32),
        _tokens("3 tokens of 768 numbers near 60", 3, 768, mean=60),
        _tokens("5 tokens of 100 numbers up to 1,000", 5, 100, spread=300),
        _tokens("2 tokens of 768 numbers near 1,500, with a spread of 3", 2, 768, 1500, 3),
        _tokens("7 tokens of 33 numbers", 7, 33),
        _tokens("3 tokens of 64 numbers up to a hundredth", 3, 64, spread=0.003),
        _tokens("1 token of 1 number", 1, 1),
        _tokens("64 tokens of 256 numbers", 64, 256, measured=True),
    ],
    tolerance=Tolerance(2, "the result is rounded to a half, all before it is float32"),
    forbidden={"float64", "negative-index", "uncoalesced", "same-value-race"},
    cancels={CANCELS: _far},
    limits=[
        Limit("global", "load", "lanes", "element", 5, "Three readings of x, and gamma and beta."),
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
        "a token has 33 numbers, lanes go round a loop differently often.",
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
        the result is multiplied by the deviation: it is divided
            float32(1) / math.sqrt -> math.sqrt
        the mean is of this lane's numbers alone: row_sum adds those of all lanes
            mean = row_sum(total) -> mean = total
        the variance is of this lane's numbers alone: row_sum adds those of all lanes
            variance = row_sum(squares) -> variance = squares
        the sum of squares is not divided by the number of columns
            row_sum(squares) / float32(x.shape[1]) -> row_sum(squares)
        the sum is divided by 32 lanes: a mean divides by the number of columns
            row_sum(total) / float32(x.shape[1]) -> row_sum(total) / float32(32)
        the squares are divided by columns - 1: LayerNorm divides by the number of columns
            row_sum(squares) / float32(x.shape[1])
            -> row_sum(squares) / float32(max(x.shape[1] - 1, 1))
        gamma is missing
            z * float32(gamma[c]) -> z
        beta is missing
            + float32(beta[c]) ->
        gamma and beta are exchanged
            float32(gamma[c]) + float32(beta[c]) -> float32(beta[c]) + float32(gamma[c])
        gamma and beta are taken by the row: each column has one
            float32(gamma[c]) + float32(beta[c])
            -> float32(gamma[row % x.shape[1]]) + float32(beta[row % x.shape[1]])
        the first 32 columns alone are summed
            total += float32(x[row, c]) -> total += float32(x[row, c]) if c < 32 else float32(0)
        the small number is 1e-5, as in other lessons: here it is 1e-6
            1e-6 -> 1e-5
        the small number below the root is missing: a token whose numbers are all equal has a
        variance of 0
            variance + float32(1e-6) -> variance
    """),
)  # fmt: skip

# --- bias and GELU --------------------------------------------------------------------------------

TILE = 16


def _layer(rows, depth, columns, spread=1.0, measured=False):
    arguments = drawn(
        x=halves(rows, depth), weight=halves(columns, depth, spread=spread / depth**0.5),
        bias=halves(columns), out=empty(rows, columns, dtype=np.float16),
    )  # fmt: skip
    grid = covering(columns, (TILE,)) + covering(rows, (TILE,))
    name = f"{rows} x {depth} to {columns}" + ", far from 0" * (spread > 1)
    return Case(name, arguments, (TILE, TILE), grid, measured=measured)


def _gelu(z):
    return 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))


def _hidden(x, weight, bias):
    return _gelu(x @ weight.T + bias)


LessonKernel.declare(
    name="bias-gelu",
    lesson=18,
    title="Bias and GELU in the epilogue",
    outputs=("out",),
    reference=_hidden,
    cases=[
        _layer(16, 16, 16),
        _layer(17, 32, 64),
        _layer(13, 75, 37, spread=3),
        _layer(5, 3, 1),
        _layer(1, 1, 1),
        _layer(34, 32, 64, measured=True),
    ],
    tolerance=Tolerance(
        1, "the result is rounded to a half, all before it is float32",
        magnitude=lambda x, weight, bias: 0.5 + np.abs(x @ weight.T + bias),
    ),
    forbidden={"float64", "negative-index", "same-value-race"},
    limits=[
        Limit("global", "store", "lanes", "element", 1, "Each result is stored once, when bias and "
              "GELU are done: until then it is in a register."),
        Limit("global", "load", "lanes", "thread", 5, "The product is given; besides it a thread "
              "loads one number of the bias. What it has it need not read back."),
    ],
    hints={
        "wrong-result": "z = total + bias[column], then 0.5 z (1 + tanh(SLOPE (z + CUBE z³))). The "
        "bias is added once, before GELU; z³ is z * z * z.",
        "out-of-bounds": "At the edges blocks stick out: read the bias and store only where row < "
        "out.shape[0] and column < out.shape[1]. The bias has one number for each column.",
        "barrier-divergence": "dot_in_tiles has barriers: all threads call it, before any guard.",
        "unwritten-output": "Each thread with a result stores it: out[row, column].",
        "float64": "0.5 and 1.0 are float64: write float32(0.5), float32(1).",
        "not-parallel": "Each thread has one result: row and column are given.",
        "typing": "The tanh is math.tanh, of a float32. A power is z * z * z.",
        "race": "Thread (column, row) stores out[row, column], its own.",
    },
    mistakes=edits(r"""
        the tanh is missing: what stands in its brackets is taken as it is
            math.tanh(inner) -> inner
        1 + is missing: tanh goes from -1 to 1, and 1 + tanh from 0 to 2
            (float32(1) + math.tanh(inner)) -> math.tanh(inner)
        the half is missing
            float32(0.5) * z * -> z *
        z is missing: the curve is z times a share
            float32(0.5) * z * -> float32(0.5) *
        the bias is added twice
            z = total + float32(bias[column]) -> z = total + float32(2) * float32(bias[column])
        the bias is missing
            z = total + float32(bias[column]) -> z = total
        the bias is added after GELU: it comes before
            z = total + float32(bias[column]) -> z = total
            math.tanh(inner)) -> math.tanh(inner)) + float32(bias[column])
        the bias of the row is taken: each column has one
            bias[column] -> bias[row % bias.size]
        the bias of the thread's place in the block is taken: it is bias[column]
            bias[column] -> bias[cuda.threadIdx.x % bias.size]
        z³ is missing in the brackets
            + CUBE * z * z * z ->
        it is z² in the brackets: z³
            CUBE * z * z * z -> CUBE * z * z
        SLOPE stands before z alone: it multiplies the whole bracket
            SLOPE * (z + CUBE * z * z * z) -> SLOPE * z + CUBE * z * z * z
        SLOPE is missing
            SLOPE * (z -> (z
        the tanh's argument is halved, as for the sigmoid: that is of twice z
            math.tanh(inner) -> math.tanh(float32(0.5) * inner)
        it is ReLU: GELU is smooth
            float32(0.5) * z * (float32(1) + math.tanh(inner)) -> max(z, float32(0))
        the result is stored transposed: it is out[row, column]
            out[row, column] = -> out[column, row] =
        GELU is missing: z is stored
            float32(0.5) * z * (float32(1) + math.tanh(inner)) -> z
        it is SiLU, z times the sigmoid of z: GELU has another curve
            math.tanh(inner) -> math.tanh(float32(0.5) * z)
    """),
)  # fmt: skip

# --- buffers --------------------------------------------------------------------------------------

_BLOCK = [("x", "normed"), ("normed", "qkv"), ("qkv", "heads"), ("heads", "x", "middle"),
          ("middle", "normed2"), ("normed2", "hidden"), ("hidden", "middle", "out")]  # fmt: skip
_SIZES = {"x": 100, "normed": 100, "qkv": 300, "heads": 100, "middle": 100, "normed2": 100,
          "hidden": 400, "out": 100}  # fmt: skip

FunctionExercise.declare(
    name="buffers-by-lifetimes",
    lesson=18,
    title="Buffers by their lifetimes",
    judge=judges.judge_buffers,
    cases=table(
        "steps sizes",
        ("one buffer", [("a",)], {"a": 7}),
        ("three, each made of the one before", [("a",), ("b", "a"), ("c", "b")],
         {"a": 100, "b": 50, "c": 100}),
        ("all alive at the end", [("a",), ("b",), ("a", "b", "c")], {"a": 3, "b": 5, "c": 4}),
        ("the first is read once more, at the end",
         [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a", "e")],
         {"a": 10, "b": 30, "c": 20, "d": 30, "e": 10}),
        ("a gap between two others",
         [("a", "b"), ("a", "b", "c"), ("c", "a"), ("c", "d", "a"), ("d", "e")],
         {"a": 50, "b": 40, "c": 30, "d": 40, "e": 20}),
        ("a block of a transformer", _BLOCK, _SIZES),
        ("two blocks, one behind the other",
         [*_BLOCK, *(tuple(f"{name}1" for name in step) for step in
                     [("normed", "qkv"), ("qkv", "heads")]), ("out", "normed1")],
         _SIZES | {f"{name}1": _SIZES[name] for name in ("normed", "qkv", "heads")}),
    ),
    hints={
        "raised": "lifetimes(steps) gives {name: (first, last)}; sizes[name] are its bytes. Keep "
        "the places that you have so far in a dictionary, by name.",
        "input-modified": "Leave steps and sizes as they are: sorted(...) gives a new list.",
        "endless-loop": "Each round goes on behind one of the buffers that are in the way.",
    },
)  # fmt: skip

# --- a product by rows ----------------------------------------------------------------------------


def _product(name, rows, depth, columns):
    a = np.arange(1.0, 1 + rows * depth).reshape(rows, depth)
    b = (np.arange(1.0, 1 + depth * columns) ** 2).reshape(depth, columns)
    return fixed(name, gemm=gemm, a=a, b=b, out=np.zeros((rows, columns)))


FunctionExercise.declare(
    name="product-by-rows",
    lesson=18,
    title="A product by rows, of a library by columns",
    judge=judges.judge_product,
    caller=judges.call_with_gemm,
    cases=[
        _product("2 x 3 times 3 x 4", 2, 3, 4),
        _product("5 x 2 times 2 x 3", 5, 2, 3),
        _product("3 x 3 times 3 x 3", 3, 3, 3),
        _product("1 x 4 times 4 x 6", 1, 4, 6),
        _product("4 x 1 times 1 x 2", 4, 1, 2),
    ],
    hints={
        "raised": "By columns, b's memory is b', columns x depth, and a's memory is a', depth x "
        "rows. So b goes first, m is the columns of b, n the rows of a. The leading dimension is "
        "the length of a row in NumPy: b.shape[1], a.shape[1], out.shape[1].",
        "input-modified": "Only gemm writes, and to out alone.",
        "wrong-result": "out' = b' a': b first. m, n, k = columns, rows, depth. Leading dimensions "
        "are b.shape[1], a.shape[1], out.shape[1].",
    },
)
