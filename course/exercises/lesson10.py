"""Exercises of lesson 10 in NumPy: a rotation, a sweep, a tournament."""

import math

import numpy as np

from course.checks import Case, FunctionExercise, Tolerance, register
from course.exercises.lesson10_judges import judge_rotation, judge_tournament
from course.toy_svd import cosine, cosines, rotation, swept
from course.verdicts import count

# --- a rotation -----------------------------------------------------------------------------------


def _products(name, a, b, g):
    return Case(name, lambda rng: {"a": a, "b": b, "g": g})


def _random_products(rng):
    x, y = rng.standard_normal((2, 6))
    return {"a": float(x @ x), "b": float(y @ y), "g": float(x @ y)}


register(
    FunctionExercise(
        name="jacobi-rotation",
        lesson=10,
        title="The rotation that makes two rows orthogonal",
        judge=judge_rotation,
        cases=[
            _products("the second row longer", 2.0, 5.0, 1.0),
            _products("the first row longer", 7.0, 3.0, 2.0),
            _products("a negative product", 4.0, 1.0, -1.5),
            Case("random rows", _random_products),
            _products("orthogonal already", 3.0, 4.0, 0.0),
            _products("equal lengths", 2.0, 2.0, 0.5),
            _products("equal lengths, a negative product", 2.0, 2.0, -0.5),
            _products("nearly orthogonal", 1.0, 3.0, 1e-9),
            _products("one row far shorter", 1e8, 1e-8, 0.3),
        ],
        hints={
            "raised": "With g = 0 the rows are orthogonal already, and tau would divide by 0: "
            "return (1.0, 0.0) first. With a = b tau is 0, and nothing may be divided by it.",
        },
    )
)

# --- a sweep --------------------------------------------------------------------------------------


def _rows(n, m, zero=None, alike=None):
    def arguments(rng):
        rows = rng.standard_normal((n, m)) * np.linspace(1, 3, n)[:, None]
        if zero is not None:
            rows[zero] = 0
        if alike is not None:
            rows[alike] = rows[0]
        return {"rows": rows}

    special = ", one of zeros" if zero is not None else ", two the same" if alike else ""
    return Case(f"{count(n, 'row')} of {m}{special}", arguments)


def _swept(rows, turn=rotation, after=None, measure=None, pairs=None, minus=False):
    """A sweep with other rotations, another measure, other pairs: what typical mistakes make."""
    rows, found, n = rows.copy(), [], len(rows)
    every = [(first, second) for first in range(n) for second in range(first + 1, n)]
    for i, j in every if pairs is None else pairs:
        x, y = rows[i].copy(), rows[j].copy()
        a, b, g = x @ x, y @ y, x @ y
        lengths = math.sqrt(a * b)
        found.append(
            (measure or (lambda g, lengths: abs(g) / lengths if lengths else 0))(g, lengths)
        )
        c, s = turn(a, b, g)
        rows[i] = c * x - s * y
        rows[j] = s * (rows[i] if after else x) + (-c if minus else c) * y
    return rows, max(found, default=0.0)


def _noted(rows, chosen):
    """A sweep, and one of the cosines that it met."""
    met = []

    def measure(g, lengths):
        met.append(abs(g) / lengths if lengths else 0.0)
        return met[-1]

    rows, _ = _swept(rows, measure=measure)
    return rows, chosen(met) if met else 0.0


def _as_it_came(rows):
    """All products from the rows as they were before the sweep."""
    before, n = rows.copy(), len(rows)
    rows = rows.copy()
    for i in range(n):
        for j in range(i + 1, n):
            c, s = rotation(*(before[p] @ before[q] for p, q in ((i, i), (j, j), (i, j))))
            x, y = rows[i].copy(), rows[j].copy()
            rows[i], rows[j] = c * x - s * y, s * x + c * y
    return rows, swept(before)[1]


def _by_old_lengths(rows):
    """All cosines with the lengths before the sweep."""
    lengths, met, new = np.linalg.norm(rows, axis=1), [0.0], rows.copy()
    for i, j in _pairs(len(rows)):
        x, y = new[i].copy(), new[j].copy()
        g = x @ y
        met.append(abs(g) / (lengths[i] * lengths[j]) if g else 0.0)
        c, s = rotation(x @ x, y @ y, g)
        new[i], new[j] = c * x - s * y, s * x + c * y
    return new, max(met)


def _stale_row(rows):
    """Row i as it was before it met its first partner."""
    rows, largest = rows.copy(), 0.0
    for i in range(len(rows)):
        x = rows[i].copy()
        for j in range(i + 1, len(rows)):
            y = rows[j].copy()
            largest = max(largest, cosine(x, y))
            c, s = rotation(x @ x, y @ y, x @ y)
            rows[i], rows[j] = c * x - s * y, s * x + c * y
    return rows, largest


def _from_before(rows):
    """Each rotation of two rows as they were before the sweep."""
    new, largest = rows.copy(), 0.0
    for i, j in _pairs(len(rows)):
        x, y = rows[i], rows[j]
        largest = max(largest, cosine(x, y))
        c, s = rotation(x @ x, y @ y, x @ y)
        new[i], new[j] = c * x - s * y, s * x + c * y
    return new, largest


def _transposed(rows):
    new, largest = swept(rows.T)
    return new.T, largest


def _pairs(n, beyond=1):
    return [(i, j) for i in range(n) for j in range(i + beyond, n)]


def _neighbours(rows):
    return _swept(rows, pairs=[(i, i + 1) for i in range(len(rows) - 1)])


def _twice(rows):
    n = len(rows)
    return _swept(rows, pairs=[(i, j) for i in range(n) for j in range(n) if i != j])


register(
    FunctionExercise(
        name="jacobi-sweep",
        lesson=10,
        title="A sweep, and how far it was from the end",
        reference=swept,
        cases=[
            _rows(2, 5),
            _rows(3, 4),
            _rows(7, 11),
            _rows(6, 6, zero=2),
            _rows(5, 8, alike=3),
            _rows(1, 4),
        ],
        tolerance=Tolerance(
            1e5, "21 rotations one after the other, each by an angle that rounding shifts"
        ),
        hints={
            "wrong-result": "For i from 0, for j from i + 1: the three dot products of the rows as "
            "they are *now*, the cosine |g| / (√a √b), and only then the rotation, both new rows "
            "at once.",
            "raised": "A dot product is x @ x; x * x is a row. A row of zeros has the length 0: "
            "its cosine counts as 0, do not divide by it. And one row has no partner: then the "
            "largest cosine is 0.",
            "input-modified": "Work on a copy: rows = rows.copy().",
            "wrong-shape": "Return two things, in this order: return rows, largest. The rows are "
            "as many and as long as before, the largest cosine is one number.",
        },
        mistakes={
            "the second row is made from the new first one: keep copies of both, or assign both in "
            "one line": lambda rows: _swept(rows, after=True),
            "the rows are turned the other way: c x - s y and s x + c y": lambda rows: _swept(
                rows, turn=lambda a, b, g: (rotation(a, b, g)[0], -rotation(a, b, g)[1])
            ),
            "all products are those from before the sweep: each rotation changes two rows": (
                _as_it_came
            ),
            "only neighbours are rotated: every row meets every other one": _neighbours,
            "each pair is rotated twice: let j begin at i + 1": _twice,
            "the largest product is returned, not the largest cosine: divide by both lengths": (
                lambda rows: _swept(rows, measure=lambda g, lengths: abs(g))
            ),
            "the product is divided by the squared lengths: a cosine has their roots": (
                lambda rows: _swept(
                    rows, measure=lambda g, lengths: abs(g) / lengths**2 if lengths else 0
                )
            ),
            "the sign of the cosine counts; -1 is as far from orthogonal as 1": lambda rows: _swept(
                rows, measure=lambda g, lengths: g / lengths if lengths else 0
            ),
            "the second row has a wrong sign: s x + c y": lambda rows: _swept(rows, minus=True),
            "a cosine is divided by lengths from before the sweep: rotations change them": (
                _by_old_lengths
            ),
            "the cosines are added up: keep the largest one": lambda rows: _noted(rows, sum),
            "the cosine of the last pair is returned, not the largest one": lambda rows: _noted(
                rows, lambda met: met[-1]
            ),
            "the smallest cosine is returned, not the largest one": lambda rows: _noted(rows, min),
            "only row 0 met the others: `return` belongs behind both loops": lambda rows: _swept(
                rows, pairs=[(0, j) for j in range(1, len(rows))]
            ),
            "the last row meets nobody: j goes up to len(rows) - 1, range(i + 1, len(rows))": (
                lambda rows: _swept(rows, pairs=_pairs(len(rows) - 1))
            ),
            "each row is rotated with itself, too: let j begin at i + 1": lambda rows: _swept(
                rows, pairs=_pairs(len(rows), 0)
            ),
            "row i is read once, before the loop over j: read it again for each j": _stale_row,
            "all cosines are those from before the sweep; a pair has another one when it meets": (
                lambda rows: (swept(rows)[0], cosines(rows).max())
            ),
            "x and y come from the rows before the sweep: read them from the copy that changes": (
                _from_before
            ),
            "columns are rotated, not rows": _transposed,
            "0 is returned for the cosine: keep the largest one, noted before each rotation": (
                lambda rows: (swept(rows)[0], 0.0)
            ),
            "the cosine is measured after the sweep; wanted is what the pairs had when they met": (
                lambda rows: (swept(rows)[0], cosines(swept(rows)[0]).max())
            ),
        },
    )
)

# --- a tournament ---------------------------------------------------------------------------------

register(
    FunctionExercise(
        name="tournament",
        lesson=10,
        title="Rounds in which every two rows meet once",
        judge=judge_tournament,
        cases=[Case(f"{n} rows", lambda rng, n=n: {"n": n}) for n in (4, 2, 6, 8, 10, 16, 38)],
        hints={
            "raised": "n is even, 2 at least. Whole numbers come from //.",
        },
    )
)
