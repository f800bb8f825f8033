"""What cases of exercises are made of: tables of values, random arrays, grids that cover."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from course.checks.exercises import Case, Drawing, Tolerance

#: What is said where only those elements are wrong whose mean is large beside their spread.
CANCELS = (
    "Only what has a mean far from 0, beside its spread, is wrong: E[x²] - mean² is the difference "
    "of two large numbers there, whose digits cancel. Sum (value - mean)² instead."
)

Maker = Callable[[np.random.Generator], Any]


def rebuilt(u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int) -> np.ndarray:
    """An image, or a stack of them, from the first `k` of its layers."""
    return (u[..., :k] * s[..., None, :k]) @ vt[..., :k, :]


OF_LAYERS = Tolerance(
    1,
    "two products and a sum for each layer",
    magnitude=lambda u, s, vt, k: (k + 20) * rebuilt(np.abs(u), s, np.abs(vt), k),
)


def fixed(name: str, **values: Any) -> Case:
    """A case of values that are always the same."""
    return Case(name, lambda rng: deepcopy(values))


def told(**values: Any) -> Case:
    """A case of values that its name tells, as of those that are drawn."""
    lists = {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in values.items()}
    return fixed(", ".join(f"{name} = {value}" for name, value in lists.items()), **values)


def table(names: str, *rows: tuple[Any, ...]) -> list[Case]:
    """A case for each row: its name, then a value for each of the arguments' names."""
    return [fixed(name, **dict(zip(names.split(), row, strict=True))) for name, *row in rows]


def of_values(names: str, title: str) -> Callable[..., Case]:
    """A function that makes a case of such values, in that order; the title shows them."""

    def case(*values: Any, name: str = title) -> Case:
        named = dict(zip(names.split(), values, strict=True))
        return fixed(name.format(**named), **named)

    return case


def drawn(**makers: Any) -> Callable[[np.random.Generator], dict[str, Any]]:
    """Arguments of a case: made by a maker below, in this order, or values as they are."""
    return lambda rng: {
        name: maker(rng) if callable(maker) else maker for name, maker in makers.items()
    }


def empty(*shape: int, dtype: Any = np.float32) -> Maker:
    """An array for results."""
    return lambda rng: np.empty(shape, dtype)


def normal(*shape: int, sized: bool = False) -> Maker:
    """Float32 from the normal distribution, times `factor`."""
    return lambda rng: factor(rng, sized) * rng.standard_normal(shape, dtype=np.float32)


def uniform(low: float, high: float, *shape: int, sized: bool = False) -> Maker:
    """Float32 between two numbers, times `factor`; one of them without a shape."""
    return lambda rng: factor(rng, sized) * np.float32(rng.uniform(low, high, shape or None))


def factor(rng: np.random.Generator, sized: bool = True) -> np.float32:
    """What brings numbers near 1 below -65,536, near 0, or leaves them, in drawn cases in turns."""
    return np.float32((-(2**20), 2**-20, 1)[turn(rng) if sized else 2])


def unit(*shape: int) -> Maker:
    """Float32 between 0 and 1."""
    return lambda rng: rng.random(shape, dtype=np.float32)


def integers(low: int, high: int, *shape: int) -> Maker:
    """Int32 from `low` to below `high`."""
    return lambda rng: rng.integers(low, high, shape).astype(np.int32)


def zeros(*shape: int, dtype: Any = np.float32) -> Maker:
    """An array for sums."""
    return lambda rng: np.zeros(shape, dtype)


def factors(rows: int, columns: int, values: int, sized: bool = False) -> dict[str, Maker]:
    """The factors u, s and vt of an image, the largest singular value first; `sized` is of s."""

    def falling(rng: np.random.Generator) -> np.ndarray:
        rising = np.sort(unit(values)(rng) + np.float32(0.5))
        return abs(factor(rng, sized)) * rising[::-1].copy()

    return {"u": normal(rows, values), "s": falling, "vt": normal(values, columns)}


def covering(size: int, block: tuple[int, ...]) -> tuple[int, ...]:
    """A grid that covers as many elements along each axis."""
    return tuple(-(-size // threads) for threads in block)


def extent(rng: np.random.Generator, low: int, high: int, most: int = 0) -> int:
    """A size from `low` to `high`, small ones as likely as large ones, for a drawn case.

    A third are one below, at or above a multiple of a warp or a power of two, where there is one.
    Of three cases in a row the first has one of the upper half, up to `most` where that is given.
    """
    if turn(rng) == 0:
        high = most or high
        low = max(low, high // 2)
    size = round(float(np.exp(rng.uniform(np.log(low), np.log(high + 1)))))
    if rng.random() < 1 / 3:
        step = int(rng.choice([32, 1 << size.bit_length()]))
        size = round(size / step) * step + int(rng.integers(-1, 2))
    return min(max(size, low), high)


def block_of_two(rng: np.random.Generator) -> tuple[int, int]:
    """Threads along x and y of a block, for a drawn case; neither is four times the other.

    So who takes x for the row spreads the work about as well as who takes it for the column. Where
    a side is long (`sides`) it has at least 16 of both: who does all blocks' work comes to an end.
    """
    few = turn(rng) < 2
    return tuple((extent(rng, 8 if few else 1, 10) * rng.integers(1 + few, 4, 2)).tolist())


def places(rng: np.random.Generator, lanes: int = 32) -> np.ndarray:
    """Where the lanes of a warp read, for a drawn case: in rows of any pitch, or anywhere."""
    across = np.arange(lanes) % extent(rng, 1, lanes)
    down = np.arange(lanes) // (across.max() + 1)
    first, step, pitch = int(rng.integers(300)), extent(rng, 1, 40), extent(rng, 1, 5000)
    found = [down * pitch + across, down + step * across, rng.integers(0, pitch + 200, lanes)]
    return first + rng.permutation(found[rng.integers(3)])


def sides(rng: np.random.Generator, *most: int) -> list[int]:
    """Sizes up to these, for a drawn case; of three in a row each has another of 257 or more."""
    long = turn(rng)
    return [256 * (side == long) + extent(rng, 1, 16 if side == long else m)
            for side, m in enumerate(most)]  # fmt: skip


def kept(rng: np.random.Generator, few: int = 40, many: int = 256) -> tuple[int, int]:
    """How many singular values there are and are used: few, one, and more than many, in turns."""
    values = extent(rng, 2, few) + many * (turn(rng) == 2)
    return values, [extent(rng, 1, values), 1, values - int(rng.integers(2))][turn(rng)]


def row_sizes(rng: np.random.Generator) -> tuple[int, int]:
    """How many rows and how long, for a drawn case; the second of three in a row has over 256."""
    many = turn(rng) == 1
    return extent(rng, 1, 12) + 256 * many, extent(rng, 1, 70 if many else 2100)


def turn(rng: np.random.Generator) -> int:
    """Which of three drawn cases in a row it is, from 0, that each may be of another kind."""
    return rng.remainder if isinstance(rng, Drawing) else 2
