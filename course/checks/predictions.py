"""Predict, then measure: a guess is kept for the session and shown beside what was measured."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

EXACT = 1e-9  # relative: two computed floats are the same figure
CLOSE = 0.01
ROUGHLY = 2.0  # a factor
ROUGH = "✓ within a factor of 2"


@dataclass(frozen=True)
class Prediction:
    """A guess that was noted; shows itself."""

    question: str
    value: Any

    def __repr__(self) -> str:
        if is_open(self.value):
            return f"○ {self.question}: no prediction yet. Put your guess in place of the dots."
        return f"· {self.question}: you predict {shown(self.value)}."


@dataclass(frozen=True)
class Outcome:
    """A guess beside what was measured; shows itself. `factor` is measured / predicted."""

    question: str
    predicted: Any
    measured: Any
    unit: str = ""
    factor: float | None = None

    def __repr__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        measured = f"measured {shown(self.measured)}{unit}"
        if is_open(self.predicted):
            return (
                f"○ {self.question}: {measured}. You made no prediction. Next time guess first: "
                "being surprised is how it sticks."
            )
        return (
            f"{self.question}: you predicted {shown(self.predicted)}, {measured} "
            f"{judged(self.predicted, self.measured)}"
        )


def is_open(value: Any) -> bool:
    """Whether a guess is still missing: None, `...` or an empty text."""
    return value is None or value is ... or (isinstance(value, str) and not value.strip())


def shown(value: Any) -> str:
    """A value as text, numbers with at most four digits and separated thousands."""
    if isinstance(value, (tuple, list)):
        return f"({', '.join(shown(part) for part in value)})"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return str(value)
    number = float(value)
    if number.is_integer() and abs(number) < 1e15:
        return f"{int(number):,}"
    return f"{number:,.4g}" if 1e-4 <= abs(number) < 1e6 else f"{number:.3e}"


def judged(predicted: Any, measured: Any) -> str:
    """How good a guess was: "✓ exactly", "✓ within a factor of 2", "✗ 8 times too low", ..."""
    if isinstance(measured, (tuple, list)):
        return _judged_parts(predicted, measured)
    if not _is_number(measured) or not _is_number(predicted):
        same = _plain(predicted) == _plain(measured)
        return "✓" if same else "✗"
    guess, truth = float(predicted), float(measured)
    if guess == truth or (math.isfinite(truth) and abs(guess - truth) <= EXACT * abs(truth)):
        return "✓ exactly"
    if not (math.isfinite(guess) and math.isfinite(truth)):
        return "✗"
    if abs(guess - truth) <= CLOSE * abs(truth):
        return "✓ within 1%"
    if guess == 0 or truth == 0 or (guess < 0) != (truth < 0):
        return f"✗ off by {shown(abs(guess - truth))}"
    factor = max(guess / truth, truth / guess)
    if factor <= ROUGHLY:
        return ROUGH
    return f"✗ {_times(factor)} times too {'high' if abs(guess) > abs(truth) else 'low'}"


def _times(factor: float) -> str:
    return f"{factor:.1f}".removesuffix(".0") if factor < 100 else f"{factor:,.0f}"


def _judged_parts(predicted: Any, measured: Any) -> str:
    if not isinstance(predicted, (tuple, list)) or len(predicted) != len(measured):
        return f"✗ {len(measured)} values were asked for"
    verdicts = [judged(p, m) for p, m in zip(predicted, measured, strict=True)]
    right = sum(verdict[0] == "✓" for verdict in verdicts)
    if right < len(measured):
        return f"✗ {right} of {len(measured)} right"
    near = any(verdict == ROUGH for verdict in verdicts)
    return f"{ROUGH}, each" if near else "✓ all right"


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _plain(value: Any) -> str:
    return " ".join(str(value).lower().replace("-", " ").split()).rstrip(".")


class Predictor:
    """`predict(question, value)` notes a guess; `predict.answer(question, measured)` meets it."""

    def __init__(self) -> None:
        self._guesses: dict[str, Any] = {}

    def __call__(self, question: str, value: Any) -> Prediction:
        """Note a guess for the session; a later one for the same question replaces it.

        Parameters
        ----------
        question : str
            The same words as in the cell that measures.
        value : number, str or tuple of those
            Your guess; `...` or None while you have none.
        """
        if not isinstance(question, str) or not question.strip():
            raise TypeError(
                f"predict(question, value): the question is text, first; got {question!r}"
            )
        self._guesses[self._key(question)] = value
        return Prediction(question, value)

    def answer(self, question: str, measured: Any, unit: str = "") -> Outcome:
        """Show what was measured beside the guess; without a guess only what was measured."""
        predicted = self._guesses.get(self._key(question))
        factor = None
        if _is_number(predicted) and _is_number(measured) and predicted != 0:
            factor = float(measured) / float(predicted)
        return Outcome(question, predicted, measured, unit, factor)

    def forget(self) -> None:
        """Drop all guesses of the session."""
        self._guesses.clear()

    @staticmethod
    def _key(question: str) -> str:
        return " ".join(question.lower().split())


predict = Predictor()
