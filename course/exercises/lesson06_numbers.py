"""Exercises of lesson 06 whose answers are functions: reads, bytes, registers, banks, halves."""

import numpy as np

from course.checks import Case, FunctionExercise, Tolerance, register

# --- counting: reads, bytes, registers, banks -----------------------------------------------------


def _numbers(**values):
    """A case of a function that takes numbers."""
    name = ", ".join(f"{key} = {value}" for key, value in values.items())
    return Case(name, lambda rng: dict(values))


register(
    FunctionExercise(
        name="shared-reads",
        lesson=6,
        title="Reads of shared memory for a product",
        reference=lambda rows, columns: (rows + columns) / (rows * columns),
        cases=[
            _numbers(rows=rows, columns=columns)
            for rows, columns in ((1, 1), (4, 16), (8, 1), (8, 8), (1, 32))
        ],
        tolerance=Tolerance(4, "a sum, a product and a quotient"),
        hints={
            "wrong-result": "For each i the thread reads one number for each of its rows and one "
            "for each of its columns, and makes a product of every pair.",
        },
        mistakes={
            "you count the reads, and do not divide by the products": lambda rows, columns: (
                rows + columns
            ),
            "you divide the products by the reads; turn it round": lambda rows, columns: (
                rows * columns / (rows + columns)
            ),
            "you count one read in all; every row and every column needs one": (
                lambda rows, columns: 1 / (rows * columns)
            ),
            "you divide before you add: put rows + columns in brackets": lambda rows, columns: (
                rows + columns / (rows * columns)
            ),
            "you divide with //, which cuts off: take /": lambda rows, columns: (
                (rows + columns) // (rows * columns)
            ),
            "you count only the rows' numbers": lambda rows, columns: 1 / columns,
            "you count only the columns' numbers": lambda rows, columns: 1 / rows,
        },
    )
)


def _smallest(rate, step=16):
    """The smallest multiple of `step` whose side / 4 operations a byte reach the ridge."""
    return -(-4 * rate // step) * step


register(
    FunctionExercise(
        name="smallest-block",
        lesson=6,
        title="The block that leaves the memory roof",
        reference=lambda gigabytes_per_second, teraflops: _smallest(
            1000 * teraflops / gigabytes_per_second
        ),
        cases=[
            _numbers(gigabytes_per_second=320, teraflops=8.1),
            _numbers(gigabytes_per_second=1000, teraflops=16.0),
            _numbers(gigabytes_per_second=4201, teraflops=59.7),
            _numbers(gigabytes_per_second=2039, teraflops=19.5),
            _numbers(gigabytes_per_second=4000, teraflops=1.0),
        ],
        hints={
            "wrong-result": "For each i the block loads 2 * side numbers of 4 bytes and makes "
            "side * side products, 2 operations each. Operations / bytes must reach the ridge, "
            "1000 * teraflops / gigabytes_per_second. Then round up to a multiple of 16.",
        },
        mistakes={
            "you do not round up to a multiple of 16": lambda gigabytes_per_second, teraflops: (
                4 * 1000 * teraflops / gigabytes_per_second
            ),
            "you round down, so that the memory still binds": (
                lambda gigabytes_per_second, teraflops: (
                    4000 * teraflops / gigabytes_per_second // 16 * 16
                )
            ),
            "you go a step too far where a side fits exactly": (
                lambda gigabytes_per_second, teraflops: (
                    4000 * teraflops / gigabytes_per_second // 16 * 16 + 16
                )
            ),
            "you count one byte for each number instead of 4": (
                lambda gigabytes_per_second, teraflops: _smallest(
                    250 * teraflops / gigabytes_per_second
                )
            ),
            "you count one operation for a product; with its addition it is two": (
                lambda gigabytes_per_second, teraflops: _smallest(
                    2000 * teraflops / gigabytes_per_second
                )
            ),
            "you count the numbers of u alone; those of vt are as many": (
                lambda gigabytes_per_second, teraflops: _smallest(
                    500 * teraflops / gigabytes_per_second
                )
            ),
        },
    )
)


def _largest_square(registers, other, extra=2):
    side = 0
    while (side + 1) ** 2 + extra * (side + 1) + other <= registers:
        side += 1
    return side


register(
    FunctionExercise(
        name="largest-square",
        lesson=6,
        title="The largest square that fits the registers",
        reference=_largest_square,
        cases=[
            _numbers(registers=registers, other=other)
            for registers, other in ((120, 40), (128, 40), (255, 40), (64, 32), (119, 40), (41, 40))
        ],
        hints={
            "wrong-result": "A square of side n needs n * n registers for its sums, n for the "
            "numbers of u and n for those of vt. Count n up as long as that and `other` fit.",
            "endless-loop": "Let the side grow in every pass, and stop at the first that no longer "
            "fits.",
        },
        mistakes={
            "you go one side too far, or leave out what is read, n numbers of u and n of vt": (
                lambda registers, other: _largest_square(registers, other, 0)
            ),
            "you return the first side that no longer fits": lambda registers, other: (
                _largest_square(registers, other) + 1
            ),
            "you leave out the numbers of u, or those of vt": lambda registers, other: (
                _largest_square(registers, other, 1)
            ),
            "you leave out the other registers": lambda registers, other: _largest_square(
                registers, 0
            ),
            "you return n * n instead of n": (
                lambda registers, other: _largest_square(registers, other) ** 2
            ),
        },
    )
)


def _turned_wavefronts(pitch):
    """Wavefronts of a warp that writes a column of four of the turned tile."""
    lane = np.arange(32)
    words = lane % 2 * 4 * pitch + lane // 2
    return int(np.bincount(np.unique(words) % 32).max())


def _free(least):
    pitch = -(-least // 4) * 4
    while _turned_wavefronts(pitch) > 1:
        pitch += 4
    return pitch


register(
    FunctionExercise(
        name="free-pitch",
        lesson=6,
        title="A pitch without conflicts",
        reference=lambda least: _free(least),
        cases=[_numbers(least=least) for least in (128, 64, 32, 100, 102, 257)],
        hints={
            "wrong-result": "Lane l writes word l % 2 * 4 * pitch + l // 2. Try the pitches from "
            "`least` on that are multiples of 4, until no two different words of the 32 are in one "
            "bank.",
        },
        mistakes={
            "you take the next multiple of 4, and do not look at the banks": lambda least: (
                -(-least // 4) * 4
            ),
            "you add one, as for the transpose; but then most rows begin at no multiple of 4": (
                lambda least: least + 1
            ),
            "you go on to the second pitch without conflicts": lambda least: _free(
                _free(least) + 1
            ),
            "you return the padding, not the pitch": lambda least: _free(least) - least,
        },
    )
)

# --- a number in two halves -----------------------------------------------------------------------


def _judge_split(answer, x):
    """Whether (upper, lower, power) hold x: halves, a power of two, 22 bits of the largest."""
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        return f"Return three things, upper, lower and power; got {type(answer).__name__}."
    upper, lower, power = (np.asarray(part) for part in answer)
    for name, part in (("upper", upper), ("lower", lower)):
        if part.dtype != np.float16 or part.shape != x.shape:
            return (
                f"{name} is {part.dtype} of shape {part.shape}; it must be float16 of shape "
                f"{x.shape}. array.astype(np.float16) rounds to halves."
            )
        if not np.isfinite(part).all():
            return f"{name} has infinite elements: a half ends at 65,504. Choose a smaller power."
    if power.shape != () or not power > 0 or np.frexp(float(power))[0] != 0.5:
        return f"power is {answer[2]}: it must be one power of two, so that no bit is lost by it."
    largest = float(np.abs(x).max())
    back = (upper.astype(np.float64) + lower.astype(np.float64)) / float(power)
    off = float(np.abs(back - x.astype(np.float64)).max()) / largest
    if off <= 2.0**-22:
        return None
    held = upper.astype(np.float64) + lower.astype(np.float64)
    if np.abs(held * float(power) - x).max() <= 2.0**-22 * largest:
        return "power is turned round: return the number that x was multiplied by."
    if np.abs(held - x).max() <= 2.0**-7 * largest:
        return f"upper + lower is x itself, but power is {power}: halve x * power, not x."
    single = float(np.abs(upper.astype(np.float64) / float(power) - x).max()) / largest
    if off >= 0.9 * single and largest * float(power) > 1:
        return (
            f"(upper + lower) / power is off by {off:.1e} of the largest number, no better than "
            "upper alone. lower must hold what rounding to upper left over: x * power - upper, "
            "taken in float32."
        )
    return (
        f"(upper + lower) / power is off by {off:.1e} of the largest number; 2^-22, 2.4e-07, is "
        "possible. What is below 6e-8 is lost in a half: choose a power that brings the largest "
        f"number, here {largest:.2g}, near 2^13."
    )


def _to_split(name, scale):
    return Case(name, lambda rng: {"x": (scale * rng.uniform(-1, 1, (9, 7))).astype(np.float32)})


register(
    FunctionExercise(
        name="split-in-halves",
        lesson=6,
        title="A float32 in two halves",
        judge=_judge_split,
        cases=[
            _to_split("numbers up to 1", 1.0),
            _to_split("numbers up to 8,000", 8e3),
            _to_split("numbers up to a millionth", 1e-6),
            _to_split("numbers up to 10 millions", 1e7),
        ],
        hints={
            "raised": "np.frexp(largest) gives a number below 1 and an exponent: "
            "largest = number * 2**exponent. Take 2.0 ** (14 - exponent).",
        },
    )
)
