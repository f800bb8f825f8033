"""Guesses drawn as people write them, each with what it means: the oracle is the drawn value.

A form makes a text of a value; around it come what says "about", words of the question, signs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

SHARE, PERCENT = "share of the time at work", "share of the time at work, in percent"
COUNT, FACTOR = "sectors of a request", "two streams: times as fast"
TIMES = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1, "nanoseconds": 1e-9,
         "microseconds": 1e-6, "milliseconds": 1e-3, "seconds": 1}  # fmt: skip
BYTES = {"B": 1, "bytes": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "megabytes": 1e6,
         "gigabytes": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}  # fmt: skip
RATES = {"MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12, "GB per second": 1e9, "GB a second": 1e9}
ONES = "zero one two three four five six seven eight nine ten eleven twelve".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
PARTS = {"third": 3, "quarter": 4, "fifth": 5, "tenth": 10}
BEFORE = (
    "",
    "",
    "about ",
    "around ",
    "roughly ",
    "~",
    "~ ",
    "≈ ",
    "ca. ",
    "maybe ",
    "some ",
    "I think ",
)
AFTER = ("", "", "", ".", "!", "?", " or so", ", I think", " maybe")


class Drawn(NamedTuple):
    """A guess's text, the question, and the number that it means; None where it means none."""

    text: str
    question: str
    meant: float | None


def one(rng: np.random.Generator, among):
    return among[int(rng.integers(len(among)))]


def whole(rng: np.random.Generator, most: float = 1e6) -> int:
    return int(np.exp(rng.uniform(0, np.log(most))))


def rounded(rng: np.random.Generator, low: float, high: float) -> float:
    """A number between two, as often small as large, of at most three digits."""
    return float(f"{np.exp(rng.uniform(np.log(low), np.log(high))):.3g}")


def in_words(number: int) -> str:
    """A number below a million as words."""
    if number < 13:
        return ONES[number]
    if number < 20:
        return {13: "thirteen", 15: "fifteen", 18: "eighteen"}.get(
            number, f"{ONES[number - 10]}teen"
        )
    if number < 100:
        tens, rest = TENS[number // 10 - 2], number % 10
        return f"{tens}-{ONES[rest]}" if rest else tens
    size, word = (100, "hundred") if number < 1000 else (1000, "thousand")
    rest = f" and {in_words(number % size)}" if number % size else ""
    return f"{in_words(number // size)} {word}{rest}"


def plain(rng):
    n = whole(rng)
    return one(rng, (f"{n}", f"{n:,}", f"{n:_}", f"{n:,}".replace(",", " "), f"+{n}")), COUNT, n


def decimal(rng):
    x = rounded(rng, 1e-6, 1e6)
    return one(rng, (f"{x}", f"{x:e}", f"{x:.2e}", repr(x).lstrip("0") or "0")), COUNT, x


def percent(rng):
    p = rounded(rng, 0.001, 900)
    sign = one(rng, ("%", " %", " percent", " per cent", "% of the time"))
    return f"{p}{sign}", *one(rng, ((SHARE, p / 100), (PERCENT, p)))


def number_of_percent(rng):
    p = rounded(rng, 0.001, 900)
    return f"{p}", PERCENT, p


def fraction(rng):
    below = whole(rng, 100) + 1
    above = int(rng.integers(1, below))
    text = one(rng, (f"{above}/{below}", f"{above} / {below}", f"{above} out of {below}"))
    return text, *one(rng, ((SHARE, above / below), (PERCENT, 100 * above / below)))


def part(rng):
    word, below = one(rng, list(PARTS.items()))
    text, value = one(
        rng,
        (
            (f"a {word}", 1 / below), (f"one {word}", 1 / below), ("half", 0.5), ("a half", 0.5),
            (f"two {word}s", 2 / below), ("three quarters", 0.75), ("½", 0.5), ("¾", 0.75),
        ),
    )  # fmt: skip
    return text + one(rng, ("", " of the time")), SHARE, value


def words(rng):
    n = one(rng, (whole(rng, 100), whole(rng, 1e5), int(rng.integers(21))))
    return one(rng, ((in_words(n), n), ("none", 0), ("a dozen", 12), ("a hundred", 100))) + (COUNT,)


def factor(rng):
    n = whole(rng, 3000) + 1
    small = int(rng.integers(2, 13))
    return one(
        rng,
        (
            (f"x{n}", n), (f"{n}x", n), (f"{n:,}×", n), (f"× {n}", n), (f"{n} times", n),
            (f"{n} times as fast", n), (f"{n}-fold", n), (f"a factor of {n}", n), ("twice", 2),
            ("twice as fast", 2), ("half as fast", 0.5), (f"{in_words(small)} times", small),
            (f"{ONES[small]}fold", small), (f"{n} times faster", n), ("one and a half times", 1.5),
            (f"{small}½ times", small + 0.5), ("double", 2),
        ),
    ) + (FACTOR,)  # fmt: skip


def power(rng):
    base, up = one(rng, (2, 2, 10)), int(rng.integers(2, 12))
    raised = str(up).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    m = rounded(rng, 1, 9)
    return one(
        rng,
        (
            (f"{base}**{up}", base**up), (f"{base}^{up}", base**up), (f"{base} ** {up}", base**up),
            (f"{base}{raised}", base**up), (f"{base}**-{up}", base**-up),
            (f"{m} x 10^{up}", m * 10**up), (f"{m}×10**{up}", m * 10**up),
            (f"{m}*10^-{up}", m * 10**-up), (f"{up} * {base}", up * base),
        ),
    ) + (COUNT,)  # fmt: skip


def large(rng):
    m, small = rounded(rng, 1, 900), int(rng.integers(1, 13))
    return one(
        rng,
        (
            (f"{m} million", m * 1e6), (f"{m}k", m * 1e3), (f"{m} K", m * 1e3), (f"{m}M", m * 1e6),
            (f"{m} thousand", m * 1e3), (f"{m} billion", m * 1e9), ("a million", 1e6),
            (f"{in_words(small)} million", small * 1e6), ("half a million", 5e5),
            ("∞", np.inf), ("inf", np.inf), ("infinity", np.inf), ("infinite", np.inf),
        ),
    ) + (COUNT,)  # fmt: skip


def united(units, asked, question) -> Callable:
    """A form in a unit, asked for in another."""

    def form(rng):
        unit, wanted = one(rng, list(units)), one(rng, asked)
        x = rounded(rng, 0.01, 1000)
        space = one(rng, ("", " ")) if not unit[3:] else " "
        value = x * units[unit] / units[wanted]
        if wanted == "KiB" and unit[0].upper() in "KMG":  # KB for KiB
            value = x * units[unit[0].upper() + "iB"] / units[wanted]
        return f"{x}{space}{unit}", f"{wanted} {question}", value

    return form


def between(rng):
    low = rounded(rng, 1, 1000)
    high = float(f"{low * rng.uniform(1.1, 3):.3g}")
    text, middle = one(
        rng,
        (
            "between {} and {}", "from {} to {}", "{}-{}", "{} - {}", "{}–{}", "{}..{}", "{} to {}",
        ),
    ).format(f"{low:g}", f"{high:g}"), (low + high) / 2  # fmt: skip
    unit, size, question = one(
        rng,
        (("", 1, COUNT), (" ms", 1, "ms of a copy"), ("%", 0.01, SHARE), ("x", 1, FACTOR),
         (" µs", 1e-3, "ms of a copy"), (" sectors", 1, COUNT)),
    )  # fmt: skip
    return text + unit, question, middle * size


def no_number(rng):
    n = whole(rng, 1000) + 1
    text = one(
        rng,
        (f"{n} or {n + 1}", f"{n} x {n}", "a few", "many", f"{n} apples", f"< {n}", f"{n}% faster",
         f"{n} MB or so", "no idea", f"{n}/0", "as fast", f"{n} ms"),
    )  # fmt: skip
    return text, FACTOR, None


FORMS = (
    plain, decimal, percent, number_of_percent, fraction, part, words, factor, power, large,
    united(TIMES, ("ns", "µs", "ms", "seconds", "microseconds"), "of a launch"),
    united(BYTES, ("bytes", "KiB", "MB", "GB", "megabytes"), "for an image"),
    united(RATES, ("GB/s", "TB/s"), "of a copy"), between, no_number,
)  # fmt: skip


def drawn(seed: int) -> Drawn:
    """The guess of a seed."""
    rng = np.random.default_rng(seed)
    form = FORMS[seed % len(FORMS)]
    text, *rest = form(rng)
    question, meant = rest if isinstance(rest[0], str) else reversed(rest)
    before, after = one(rng, BEFORE), one(rng, AFTER)
    if question == COUNT and rng.random() < 0.3 and text[-1].isalnum() and form is plain:
        text += one(rng, (" sectors", " sector", " of a request"))
    return Drawn(f"{before}{text}{after}", question, meant)
