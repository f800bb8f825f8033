"""Predict, then measure: a guess is kept for the session and shown beside what came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from course.checks import verdicts
from course.checks.cells import ShownInItsCell
from course.checks.guesses import Rule, rule_for, shown
from course.checks.written_numbers import FORMS
from warpsim.core.words import wrapped

HOW = ("measured", "counted", "computed", "found")


class _Said(ShownInItsCell):
    """What is said of a `question` in a `sentence`: as text, and as HTML with the question bold."""

    def __repr__(self) -> str:
        return wrapped(self.sentence)

    def _repr_html_(self) -> str:
        before, _, after = self.sentence.partition(f"{self.question}: ")
        head = verdicts.marked(f"{before}{self.question}:")
        return verdicts.box(self.sign, head, [verdicts.marked(after)], ground=False)


@dataclass(frozen=True, repr=False)
class Prediction(_Said):
    """A guess that was noted, and how it will be judged; shows itself."""

    question: str
    value: Any
    rule: Rule | None = None

    @property
    def sentence(self) -> str:
        """What was noted, or what is asked for, in one line."""
        rule = self.rule
        terms = f"; {rule.terms}" if rule and rule.terms else ""
        if is_open(self.value):
            asked, example = (rule.asked, rule.example) if rule else ("your guess", "")
            invitation = f"Put {asked} in place of the dots{example}{terms}."
            return f"○ {self.question}: no prediction yet. {invitation}"
        guess = rule.read(self.value, self.question) if rule else self.value
        if guess is None and not (rule and rule.may_have_unit(self.value)):
            return f"○ {self.question}: {misread(self.value, rule)}."
        said = shown(guess if guess is not None else self.value)  # its unit is that of the answer
        if rule and not rule.choices and isinstance(self.value, str) and said != self.value.strip():
            said = f'"{self.value.strip()}", read as {said}'
        return f"· {self.question}: you predict {said}{terms}."

    sign = property(lambda self: self.sentence[0])


@dataclass(frozen=True, repr=False)
class Outcome(_Said):
    """A guess beside what came out; shows itself.

    `verdict` begins with ✓ or ✗; it is empty where there is nothing to judge.
    """

    question: str
    predicted: Any
    measured: Any
    unit: str = ""
    how: str = HOW[0]
    verdict: str = ""
    note: str = ""

    @property
    def sentence(self) -> str:
        """Guess, what came out and how good the guess was, in one line."""
        came_out = f"{self.how} {shown(self.measured)} {self.unit}".strip()
        if not self.verdict:
            return f"○ {self.question}: {came_out}. {self.note}".rstrip()
        guess = shown(self.predicted)
        if self.verdict[0] == "✗" and guess == shown(self.measured):
            guess = f"{self.predicted!r}"  # it differs in the digits that are not shown
        return f"{self.question}: you predicted {guess}, {came_out} {self.verdict}"

    sign = property(lambda self: self.verdict[:1] or "○")


def is_open(value: Any) -> bool:
    """Whether a guess is still missing: None, `...` or an empty text, or one such part."""
    if isinstance(value, tuple):
        return not value or any(is_open(part) for part in value)
    return value is None or value is ... or (isinstance(value, str) and not value.strip())


def misread(guess: Any, rule: Rule) -> str:
    """Say kindly that a guess has not the form that was asked for, and which that is."""
    written = f'"{guess}"' if isinstance(guess, str) else shown(guess)
    if rule.choices:
        return f"{written} is none of the choices: {rule.asked}"
    if isinstance(guess, str):
        return f"{written} is not {rule.asked}{rule.example}. Numbers may be written as {FORMS}"
    return f"{written} is not {rule.asked}{rule.example}"


class Predictor:
    """`predict(question, guess)` notes a guess; `predict.answer(question, measured)` judges it.

    Both show themselves, wherever in a cell they stand.
    """

    def __init__(self) -> None:
        self._guesses: dict[str, Any] = {}
        self._rules: dict[str, Rule] = {}

    def __call__(
        self,
        question: str,
        *guess: Any,
        exact: bool = False,
        within: float | None = None,
        no_effect: float | None = None,
        choices: tuple[str, ...] = (),
        numbers: int = 1,
    ) -> Prediction:
        """Note a guess for the session; a later one for the same question replaces it.

        ``predict("blocks", 4, exact=True)``, ``predict("ms", 3.5, within=2)``,
        ``predict("load and store", 4, 32, exact=True, numbers=2)``,
        ``predict("a race?", "no", choices=("yes", "no"))``.

        Parameters
        ----------
        question : str
            The same words as in the cell that answers.
        guess : number or str, or `numbers` of them, or one tuple of those
            Your guess; `...` or None while you have none.
        exact : bool
            Right only if equal: counts, and what can be worked out. A fraction may be rounded.
        within : float
            A factor above 1: times, rates, sizes. ``within=2``: from half to twice as much.
        no_effect : float
            With `within`: what no effect would be, 1 for a ratio. A guess on its other side is
            never right, nor "no effect" where there is one, nor an effect where there is none.
        choices : tuple of str
            Words to choose from. "a race" is understood as "race".
        numbers : int
            How many numbers are asked for.

        Raises
        ------
        TypeError, ValueError
            If the question is no text, or the ways to judge do not go together.
        """
        key = self._key(question)
        if exact or within is not None or no_effect is not None or choices or numbers != 1:
            choices = tuple(choices) if isinstance(choices, list) else choices
            self._rules[key] = Rule(exact, within, no_effect, choices, numbers)
        value = self._value(guess[0] if len(guess) == 1 else guess)
        self._guesses[key] = value
        return Prediction(question, value, self._rules.get(key)).shown()

    def answer(
        self, question: str, measured: Any, unit: str = "", how: str = "measured"
    ) -> Outcome:
        """Show what came out beside the guess; without a guess only what came out.

        In a notebook it shows itself where it is called, also before other lines of a cell.

        Parameters
        ----------
        question : str
            The same words as in the cell that asks.
        measured : number, tuple of numbers, or str
            What came out. Words where a number was asked for, such as "not written yet", are
            shown and not judged.
        unit : str
            It is shown behind the number.
        how : "measured", "counted", "computed" or "found"
            A clock or a hardware counter; the simulator's counts; arithmetic or a model; or what
            a program gave when it ran.

        Raises
        ------
        TypeError, ValueError
            If the question is no text, `how` another word, or there are more or fewer numbers
            than were asked for.
        """
        return self._outcome(question, measured, unit, how).shown()

    def _outcome(self, question: str, measured: Any, unit: str, how: str) -> Outcome:
        key = self._key(question)
        if how not in HOW:
            raise ValueError(f"how is one of {', '.join(HOW)}; got {how!r}")
        measured, guess = self._value(measured), self._guesses.get(key)
        rule = self._rules.get(key) or rule_for(measured)
        if not rule.choices and (measured is None or isinstance(measured, str)):
            note = "" if is_open(guess) else f"You predicted {shown(guess)}."
            return Outcome(question, guess, measured, how="", note=note)
        if is_open(guess):
            note = "Guess first next time: it sticks better."
            return Outcome(question, guess, measured, unit, how, note=note)
        count = len(measured) if isinstance(measured, tuple) else 1
        if count != rule.numbers:
            raise ValueError(
                f"{question!r} asks for {rule.numbers} numbers, its answer has {count}: "
                f"{shown(measured)}"
            )
        if (read := rule.read(guess, question, unit)) is None:
            undeclared = rule.choices and key not in self._rules
            verdict = "✗" if undeclared else ""
            note = "" if undeclared else f"Your guess: {misread(guess, rule)}."
            return Outcome(question, guess, measured, unit, how, verdict, note=note)
        return Outcome(question, read, measured, unit, how, rule.judged(read, measured))

    def forget(self) -> None:
        """Drop all guesses of the session, and how they are judged."""
        self._guesses.clear()
        self._rules.clear()

    @staticmethod
    def _key(question: str) -> str:
        if not isinstance(question, str) or not question.strip():
            raise TypeError(
                f"predict(question, guess): the question is text, first; got {question!r}"
            )
        return " ".join(question.lower().split())

    @staticmethod
    def _value(value: Any) -> Any:
        """A guess or an answer, with lists and arrays as tuples."""
        if hasattr(value, "tolist"):  # of NumPy, also a single number
            value = value.tolist()
        if isinstance(value, (list, tuple)):
            return value[0] if len(value) == 1 else tuple(value)
        return value


predict = Predictor()
