"""Exercises of lesson 16: BCE and its slope, a code's sample, Adam, an epilogue, launches."""

import numpy as np

from course.checks.exercises import Case, Counted, FunctionExercise, Limit, Tolerance
from course_lessons.cases import covering, drawn, empty, extent, fixed, normal, sides, table, unit
from course_lessons.edits import LessonKernel
from course_lessons.lesson16 import rivals
from course_lessons.lesson16.judges import judge_launches
from course_lessons.lesson16.toy_launches import STEP, Work, fewest
from course_models.vae import reference

THREADS = 128

# --- BCE of a logit, and its slope ----------------------------------------------------------------

SCALE = np.float32(1 / 32)


def _logits(size, spread, scale=SCALE, measured=False):
    def logits(rng):
        return np.float32(spread) * rng.standard_normal(size, dtype=np.float32)

    arguments = drawn(
        logits=logits, targets=unit(size), scale=scale, values=empty(size), slopes=empty(size)
    )
    name = f"{size:,} logit{'s' * (size > 1)} with a spread of {spread:g}"
    name += ", another scale" * bool(scale != SCALE)
    return Case(name, arguments, block=THREADS, measured=measured)


def _far(rng):
    return np.float32([0, 20, -20, 100, -100, 1000, -1000, 0.5])


def _far_targets(rng):
    return np.float32([0, 0, 1, 0.25, 1, 0, 1, 1])


def _any_logits(rng):
    spread = 10.0 ** rng.integers(-1, 4)
    return _logits(
        extent(rng, 1, 3000, 140_000), spread, scale=np.float32(1 / rng.integers(1, 999))
    )


def _bce(logits, targets, scale):
    e = np.exp(-np.abs(logits))
    return {
        "values": np.maximum(logits, 0) - logits * targets + np.log1p(e),
        "slopes": scale * (np.where(logits >= 0, 1, e) / (1 + e) - targets),
    }


LessonKernel.declare(
    name="bce-of-logits",
    rivals=rivals.of_bce(_logits(2**22, 8)),
    lesson=16,
    title="BCE of a logit, and its slope",
    outputs=("values", "slopes"),
    reference=_bce,
    cases=[
        _logits(1_003, 8),
        Case(
            "logits as far out as 1,000",
            drawn(logits=_far, targets=_far_targets, scale=SCALE, values=empty(8), slopes=empty(8)),
            block=THREADS,
        ),
        _logits(4_096, 4, measured=True),
    ],
    drawer=_any_logits,
    drawn=6,
    tolerance=Tolerance(
        8, "a product, three sums, a logarithm", magnitude=lambda logits: 1 + np.abs(logits)
    ),
    forbidden={"float64", "uncoalesced"},
    limits=[
        Limit("global", "load", "lanes", "element", 2, "Load logit and target once each, into "
              "variables."),
        Limit("global", "store", "lanes", "element", 2, "Store each result once."),
    ],
    hints={
        "wrong-result": "With l the logit, x the target and e = exp(-|l|): the loss is max(l, 0) - "
        "l x + log(1 + e). The slope is (sigmoid(l) - x) scale, where sigmoid(l) is 1 / (1 + e) "
        "for l >= 0, and e / (1 + e) below. Where only logits far from 0 are wrong, something "
        "overflows or rounds to 1.",
        "out-of-bounds": "The last block has threads without a logit: if i < logits.size.",
        "float64": "In your own lines: 1.0, 0.0 and 1 beside a float32 make float64. Write "
        "float32(1), float32(0).",
        "unwritten-output": "Each thread stores two numbers: values[i] and slopes[i]. Its place i "
        "counts the threads of all blocks, i = cuda.grid(1), and each i < logits.size has a logit.",
        "not-parallel": "Thread i = cuda.grid(1) has one logit.",
        "uncoalesced": "Thread i takes logit i: neighbours read neighbours.",
        "typing": "Write math.exp and math.log; abs and max need no module.",
        "race": "Each thread stores at its own place, i = cuda.grid(1).",
    },
)  # fmt: skip

# --- a sample of a code ---------------------------------------------------------------------------


def _codes(size, blocks, seed=5, step=11, measured=False, spread=1):
    arguments = drawn(
        mean=normal(size), log_variance=lambda rng: np.float32(spread) * normal(size)(rng),
        counter=np.array([seed, step]),
        z=empty(size), noise=empty(size),
    )  # fmt: skip
    name = f"{size:,} number{'s' * (size > 1)}, {blocks} block{'s' * (blocks > 1)}"
    name += ", another seed and step" * ((seed, step) != (5, 11))
    return Case(name, arguments, block=32, grid=blocks, measured=measured)


def _any_codes(rng):
    seed, step = int(rng.integers(1 << 62)), int(rng.integers(1 << 30))
    sizes = extent(rng, 1, 20_000, 140_000), extent(rng, 1, 12)
    return _codes(*sizes, seed, step, spread=rng.choice([1, 12]))


def _sample(mean, log_variance, counter):
    seed, step = map(int, counter)
    e = reference.noise(1, mean.size, step, seed)[0]
    return {"z": mean + np.exp(log_variance / 2) * e, "noise": e}


LessonKernel.declare(
    name="sample-code",
    rivals=rivals.of_sample(_codes(2**22, 2**22 // 128)),
    lesson=16,
    title="A sample of a code, from a counter",
    outputs=("z", "noise"),
    reference=_sample,
    cases=[
        _codes(1_000, 2),
        _codes(1_000, 12, seed=3 << 40, step=2),
        _codes(37, 1),
        _codes(4_096, 32, measured=True),
    ],
    drawer=_any_codes,
    drawn=8,
    tolerance=Tolerance(
        128,
        "fast logarithm and cosine of a GPU are good to 1e-5",
        magnitude=lambda log_variance: 1 + np.exp(log_variance / 2),
    ),
    forbidden={"float64"},
    limits=[
        Limit("global", "store", "lanes", "element", 2, "Store z and noise once each."),
        Limit("global", "load", "lanes", "element", 3, "Each number needs its mean and log "
              "variance, and each four the counter's two."),
    ],
    counted=[
        # threads without a group may draw before they ask
        Counted("normal4", lambda mean, threads: (-(-mean.size // 4), mean.size // 4 + 1 + threads),
                "One thread draws a group's four numbers, once."),
    ],
    hints={
        "wrong-result": "Group g has the numbers 4 g to 4 g + 3, in the order in which normal4(g, "
        "step, seed) returns them; counter[0] is the seed, counter[1] the step. And z = mean + "
        "exp(log variance / 2) times the noise.",
        "out-of-bounds": "The last group may stick out: ask if i < z.size for each number. There "
        "are (z.size + 3) // 4 groups, and four[n] has n from 0 to 3.",
        "float64": "log_variance[i] / 2 and 0.5 * log_variance[i] are float64: write "
        "float32(0.5) * log_variance[i].",
        "unwritten-output": "There are (z.size + 3) // 4 groups, the last of them not whole; and "
        "there may be more groups than threads: begin at cuda.grid(1), go on by cuda.gridsize(1).",
        "uninitialised-read": "Store the noise that normal4 returned, then use that variable.",
        "not-parallel": "Thread t begins with group cuda.grid(1), and goes on by cuda.gridsize(1).",
        "typing": "normal4 returns four numbers: four = normal4(group, step, seed), then four[n]. "
        "The exponential is math.exp.",
        "race": "A group has four places of its own, from 4 * group on.",
        "same-value-race": "Each group is one thread's: begin at cuda.grid(1), go on by "
        "cuda.gridsize(1).",
    },
)  # fmt: skip

# --- a step of Adam -------------------------------------------------------------------------------


def _weights(size, step=3, more=0, rate=0.1, near=1.0, measured=False):
    """Moments as they are after some steps; `more` blocks of threads that have no weight.

    Beside gradients near 1e-7 epsilon counts; a few are 0, and their weights move, too.
    """

    def small(rng):
        numbers = np.float32(near) * rng.standard_normal(size, dtype=np.float32)
        return numbers * (rng.random(size) < 0.95)

    def second(rng):
        squares = rng.random(size, dtype=np.float32) * np.float32(0.1) + np.float32(0.01)
        return squares * np.float32(near) ** 2

    sizes = rate / (1 - 0.9**step), 1 / (1 - 0.999**step)
    arguments = drawn(
        w=normal(size), gradient=small, first=small, second=second,
        corrected=np.array(sizes, np.float32),
    )  # fmt: skip
    name = f"{size:,} weight{'s' * (size > 1)}, step {step}" + f", {more} blocks more" * (more > 0)
    name += f", gradients near {near:g}" * (near < 1)
    grid = -(-size // THREADS) + more
    return Case(name, arguments, block=THREADS, grid=grid, measured=measured)


def _any_weights(rng):
    return _weights(
        extent(rng, 1, 1500, 140_000), step=extent(rng, 1, 5000), more=int(rng.integers(4)),
        rate=10.0 ** rng.integers(-3, 1), near=float(rng.choice([99, 1, 1e-2, 1e-7])),
    )  # fmt: skip


def _adam(w, gradient, first, second, corrected):
    first = first + 0.1 * (gradient - first)
    second = second + 0.001 * (gradient**2 - second)
    step = corrected[0] * first / (np.sqrt(second * corrected[1]) + 1e-8)
    return {"w": w - step, "first": first, "second": second}


LessonKernel.declare(
    name="adam-step",
    rivals=rivals.of_adam(_weights(2**22)),
    lesson=16,
    title="A step of Adam, in place",
    updated=("w", "first", "second"),
    reference=_adam,
    cases=[
        _weights(1_000),
        _weights(256, step=1, more=3),
        _weights(100, near=1e-7),
        _weights(4_096, measured=True),
    ],
    drawer=_any_weights,
    drawn=6,
    tolerance=Tolerance(
        8,
        "a dozen operations, of which the last adds a step to a weight",
        magnitude=lambda w, gradient, first, second, corrected: (
            1 + np.abs(w) + np.abs(gradient) + np.abs(first) + second + gradient**2
            + np.abs(_adam(w, gradient, first, second, corrected)["w"] - w)
        ),
    ),
    forbidden={"float64", "uncoalesced"},
    limits=[
        Limit("global", "load", "lanes", "element", 12, "Weight, gradient and two moments are "
              "loaded into variables, and the two corrections."),
        Limit("global", "store", "lanes", "element", 3, "Store weight and moments once each."),
    ],
    hints={
        "wrong-result": "First the moments: first += 0.1 (g - first), second += 0.001 (g² - "
        "second). Then, with the new ones: w -= corrected[0] * first / (sqrt(second * "
        "corrected[1]) + 1e-8).",
        "out-of-bounds": "The last blocks have threads without a weight: if i < w.size. And "
        "`corrected` has two numbers for all: corrected[0] and corrected[1].",
        "float64": "0.1, 0.001, 0.999 and 1e-8 are float64: write float32(0.1) and so on.",
        "unwritten-output": "Three stores: w[i], first[i] and second[i].",
        "race": "Each thread has one weight, of its own: i is cuda.grid(1). One without a weight "
        "must not touch another one's, not even to read it, since that one is changing. So idle "
        "threads do nothing: if i < w.size, around all of it.",
        "same-value-race": "Thread i has weight i, and threads without one store nothing.",
        "not-parallel": "Thread i = cuda.grid(1) has one weight.",
        "uncoalesced": "Thread i takes weight i: neighbours read neighbours.",
        "typing": "The root is math.sqrt; w is an array, w[i] a number.",
        "input-modified": "Only w, first and second change; the gradient stays.",
    },
)  # fmt: skip

# --- a product, its bias and activation in the epilogue -------------------------------------------

TILE = 32


def _layer(rows, depth, columns, measured=False):
    arguments = drawn(
        x=normal(rows, depth, sized=True), weight=normal(columns, depth),
        bias=normal(columns, sized=True), out=empty(rows, columns),
    )  # fmt: skip
    grid = covering(columns, (TILE,)) + covering(rows, (TILE,))
    name = f"{rows} x {depth} to {columns}"
    return Case(name, arguments, (TILE, TILE), grid, measured=measured)


def _hidden(x, weight, bias):
    y = x @ weight.T + bias
    return np.where(y > 0, y, 0.2 * y)


LessonKernel.declare(
    name="product-epilogue",
    rivals=rivals.of_layer(_layer(128, 784, 400)),
    lesson=16,
    title="A product with bias and LeakyReLU in its epilogue",
    outputs=("out",),
    reference=_hidden,
    cases=[
        _layer(32, 32, 32),
        _layer(13, 75, 37),
        _layer(64, 64, 96, measured=True),
    ],
    drawer=lambda rng: _layer(*sides(rng, 70, 70, 70)),
    drawn=4,
    tolerance=Tolerance(
        340,
        "a product and a sum for each of up to 326 numbers, a bias and a slope",
        magnitude=lambda x, weight, bias: np.abs(x) @ np.abs(weight).T + np.abs(bias),
    ),
    forbidden={"float64", "bank-conflict"},
    barriers="A round has two: one when the tiles are filled, one when they are read. The loop "
    "over n needs none.",
    limits=[
        Limit("global", "store", "lanes", "element", 1, "Each result is stored once, when bias and "
              "LeakyReLU are done: until then it is in a register."),
        Limit("global", "load", "lanes", "element", 9, "The tiles are given; besides them a thread "
              "loads one bias. What it has summed it still has: nothing is read back from out."),
    ],
    hints={
        "race": "Two barriers a round: one between filling the tiles and reading them, one "
        "between reading them and filling them again.",
        "barrier-divergence": "All threads meet at each barrier, also those without a result: "
        "guard the store alone, and let none return before.",
        "out-of-bounds": "At the edges blocks stick out: store, and read the bias, only where "
        "row < out.shape[0] and column < out.shape[1]. Inside a tile all indices are below 32.",
        "wrong-result": "After each filling: total += x_tile[j, n] * w_tile[i, n], for n from 0 to "
        "31. After the last round: y = total + bias[column], and y or float32(0.2) * y is stored.",
        "unwritten-output": "After the loop each thread with a result stores it: out[row, column].",
        "float64": "0.2 and 0.0 are float64: write float32(0.2), float32(0).",
        "not-parallel": "Each thread has one result: row and column are given.",
        "bank-conflict": "Lanes differ in i. Rows of a tile are 33 numbers apart, so w_tile[i, n] "
        "is in another bank for each, and x_tile[j, n] is one number for all.",
        "uninitialised-read": "n goes from 0 to 31: what a row of a tile has beyond that is "
        "padding, and nobody fills it. Each thread fills a place of either tile for the others, "
        "also those without a result: none may return before the loop is done.",
    },
)  # fmt: skip

# --- launches in order ----------------------------------------------------------------------------

_TWO_LAYERS = (
    Work("y", ("x", "A"), ("y",)),
    Work("d_y", ("y", "x"), ("d_y",)),
    Work("update A", ("d_y", "x", "A"), ("A",)),
    Work("next y", ("x", "A"), ("y",)),
)
_APART = (Work("a", ("x",), ("a",)), Work("b", ("x",), ("b",)), Work("c", ("y",), ("c",)))
_IN_PLACE = (
    Work("product", ("x", "W"), ("y",)),
    Work("bias", ("y", "b"), ("y",)),
    Work("leaky", ("y",), ("y",)),
    Work("new W", ("x", "g"), ("W",)),
    Work("new b", ("g",), ("b",)),
)
_TWO_READERS = (
    Work("move", ("x",), ("y",)),
    Work("look", ("y", "v"), ("z",)),
    Work("glance", ("v",), ("a",)),
    Work("change", ("g",), ("b", "v")),
    Work("tell", ("v",), ("c",)),
)


def _any_works(rng):
    """Operations on few arrays, so that many read, or write, the same; on many, too."""
    if rng.random() < 0.5:
        return _late_and_early(rng)
    if rng.random() < 0.2:
        many = [(f"work {n}", ("x",), (f"new {n}",)) for n in range(extent(rng, 5, 40))]
        return fixed(f"{len(many)} operations that read one array", work=many)
    arrays = list("abcdefghijklmnop")[: extent(rng, 2, 16)]

    def some(least):
        most = min(4, len(arrays))
        return tuple(map(str, rng.permutation(arrays)[: rng.integers(least, most)]))

    works = [(f"work {n}", some(0), some(1)) for n in range(extent(rng, 1, 30))]
    return fixed(f"{len(works)} operations on {len(arrays)} arrays", work=works)


def _late_and_early(rng):
    """Arrays that are read late in a chain, then early by an operation beside it, then changed."""
    works, made = [], ["x"]
    for n in range(extent(rng, 4, 30)):
        array = str(rng.choice(["a", "b"]))
        if rng.random() < 1 / 4:
            works.append((f"change {n}", (), (array,)))
        else:
            before = made[-1] if rng.random() < 2 / 3 else str(rng.choice(made))
            works.append((f"work {n}", (before, array), (f"new {n}",)))
            made.append(f"new {n}")
    return fixed(f"{len(works)} operations, most of which write a new array", work=works)


def _plain(works):
    return [tuple(its) for its in works]


FunctionExercise.declare(
    name="order-the-launches",
    lesson=16,
    title="As few launches as the order allows",
    judge=judge_launches,
    solved_by=(fewest,),
    cases=table(
        "work",
        ("a layer, its gradient, its update, its next result", _plain(_TWO_LAYERS)),
        ("three that have nothing in common", _plain(_APART)),
        ("bias and LeakyReLU in place, then an update", _plain(_IN_PLACE)),
        ("an array that is read late, then early, and changed after both", _plain(_TWO_READERS)),
        ("a VAE's step", _plain(STEP)),
    ),
    drawer=_any_works,
    drawn=40,
    hints={
        "raised": "`work` is a list of (name, reads, writes), where reads and writes are tuples of "
        "names. Keep the launches that you have so far as lists of these triples, and return the "
        "names alone.",
        "input-modified": "Leave `work` as it is: go through it with a loop.",
    },
)
