"""A guess as it was written, and how it is judged: exactly, by a factor, as an effect, a word."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from course.checks.written_numbers import COMPARED, asked, written

EXACT = 1e-9  # relative: two computed floats are the same figure
UNCHANGED = 0.03  # relative: what is nearer than this to "no effect" is none
COUNTED_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_NEGATIONS = {"no", "not", "never", "none", "nothing", "neither", "nor", "without", "hardly"}
# words that say the same of a guess, and of what is asked
_ALIKE = {"faster": "fast", "slower": "slow", "longer": "long", "shorter": "short"}
_SYNONYMS = {
    "nothing": ("none", "no finding", "no findings", "nil"),
    "equal": ("identical", "same", "alike", "unchanged", "exactly equal", "bit for bit"),
    "alike": ("equal", "same", "equally fast", "no difference"),
    "yes": ("true", "yep", "yeah", "sure"),
    "no": ("false", "nope", "never"),
}
_NO_EFFECT = {
    "none", "no", "nothing", "no effect", "no difference", "no change", "unchanged", "same",
    "equal", "the same", "as fast", "equally fast", "alike",
}  # fmt: skip
_SEPARATORS = (r";", r",\s+|\s+and\s+", r",|\band\b", r"[,/]", r"\s+")


@dataclass(frozen=True)
class Rule:
    """How guesses at a question are judged; `predict` says what each part means.

    Raises
    ------
    TypeError, ValueError
        If the parts do not go together, or one is not what it should be.
    """

    exact: bool = False
    within: float | None = None
    no_effect: float | None = None
    choices: tuple[str, ...] = ()
    numbers: int = 1

    def __post_init__(self) -> None:
        ways = (self.exact, self.within is not None, bool(self.choices))
        if sum(ways) != 1:
            raise ValueError(
                "a question is judged in one way: give exact=True, or within=2, or "
                f'choices=("yes", "no"); got {self}'
            )
        if self.within is not None and not (is_number(self.within) and self.within > 1):
            raise ValueError(f"within is a factor above 1, such as within=2; got {self.within!r}")
        if self.no_effect is not None and self.within is None:
            raise ValueError("no_effect goes with a factor: predict(..., within=2, no_effect=1)")
        if self.no_effect is not None and not (is_number(self.no_effect) and self.no_effect > 0):
            raise ValueError(f"no_effect is a number above 0; got {self.no_effect!r}")
        if isinstance(self.choices, str) or not all(isinstance(c, str) for c in self.choices):
            raise TypeError(f'choices are words: choices=("yes", "no"); got {self.choices!r}')
        if not isinstance(self.numbers, int) or self.numbers < 1:
            raise ValueError(f"numbers is how many are asked for; got {self.numbers!r}")
        if self.choices and self.numbers != 1:
            raise ValueError("a question with choices asks for one of them, not for numbers")

    @property
    def asked(self) -> str:
        """What is asked for: "a number", "two numbers", '"yes" or "no"'."""
        if self.choices:
            return listed(self.choices)
        few = self.numbers < len(COUNTED_WORDS)
        many = COUNTED_WORDS[self.numbers] if few else self.numbers
        return "a number" if self.numbers == 1 else f"{many} numbers"

    @property
    def example(self) -> str:
        """How several numbers are written: ": predict(name, 10, 20)"; else empty."""
        if self.numbers == 1:
            return ""
        return f": predict(name, {', '.join(str(10 * n) for n in range(1, self.numbers + 1))})"

    @property
    def terms(self) -> str:
        """When a guess is right: "right if exact"; empty for words."""
        if self.choices:
            return ""
        if self.exact:
            return "right if exact"
        side = "" if self.no_effect is None else f" and on the same side of {shown(self.no_effect)}"
        return f"right {margin(self.within)}{side}"

    def read(self, guess: Any, question: str = "", unit: str = "") -> Any:
        """Return a guess in the form that is judged: a number, a tuple of them, a choice.

        None if it has another form. Words of `question` may stand behind a number; what is written
        in another unit is converted to `unit`, or to the one that the question names.
        """
        parts = guess if isinstance(guess, tuple) else (guess,)
        if self.choices:
            return chosen(" x ".join(_word(part) for part in parts), self.choices)
        if self.numbers > 1 and isinstance(guess, str):
            each = (re.split(rf"\s*(?:{s})\s*", guess.strip(" ()[]")) for s in _SEPARATORS)
            readings = [tuple(self._number(p, question, unit) for p in parts) for parts in each]
        else:
            readings = [tuple(self._number(part, question, unit) for part in parts)]
        for values in readings:
            if len(values) == self.numbers and None not in values:
                return values if self.numbers > 1 else values[0]
        return None

    def may_have_unit(self, guess: Any) -> bool:
        """Whether a guess is a number and words behind it, which the answer's unit may explain."""
        found = written(guess) if isinstance(guess, str) and self.numbers == 1 else None
        if self.choices or found is None or found.is_range and self.exact:
            return False
        return bool(found.unit or found.rest) and not found.rest & COMPARED

    def _number(self, part: Any, question: str, unit: str) -> float | None:
        if isinstance(part, str):
            if self.no_effect is not None and part.strip(" .!").lower() in _NO_EFFECT:
                return float(self.no_effect)
            if self.exact and (found := written(part)) and found.is_range:
                return None
        return read_number(part, question, unit)

    def judged(self, guess: Any, truth: Any) -> str:
        """Say how good a guess is, as `read` returned it: "✓ exactly", "✗ 8 times too low", ..."""
        if isinstance(truth, tuple):
            verdicts = [self.judged(g, t) for g, t in zip(guess, truth, strict=True)]
            right = sum(verdict[0] == "✓" for verdict in verdicts)
            return "✓ all right" if right == len(truth) else f"✗ {right} of {len(truth)} right"
        if self.choices:
            return "✓" if _words(guess) == _words(truth) else "✗"
        if same(guess, truth):
            return "✓ exactly"
        if self.exact:
            return (
                "✓ to the digits you gave" if _rounded(guess, truth) else f"✗ {_off(guess, truth)}"
            )
        if self.no_effect is not None and (wrong := self._wrong_side(guess, truth)):
            return f"✗ {wrong}"
        if _factor(guess, truth) <= self.within * (1 + EXACT):
            return f"✓ {margin(self.within)}"
        return f"✗ {_off(guess, truth)}"

    def _wrong_side(self, guess: float, truth: float) -> str:
        """Say that an effect's sign is wrong, or one is seen where none is; empty if neither."""
        one = self.no_effect
        if (guess - one) * (truth - one) < 0:
            return f"on the other side of {shown(one)}"
        if _factor(guess, truth) <= 1 + UNCHANGED:
            return ""
        changes, changed = (abs(x / one - 1) > UNCHANGED + EXACT for x in (guess, truth))
        if changes and not changed:
            return "there is no effect" if same(truth, one) else "there is hardly any effect"
        if changed and not changes:
            return f"{shown(one)} would be no effect, and there is one"
        return ""


def rule_for(truth: Any) -> Rule:
    """Return how a question is judged that does not say: words, whole numbers, and other ones."""
    parts = truth if isinstance(truth, tuple) else (truth,)
    if not all(is_number(part) for part in parts):
        return Rule(choices=(str(truth),))
    if all(float(part).is_integer() for part in parts):
        return Rule(exact=True, numbers=len(parts))
    return Rule(within=2.0, numbers=len(parts))


def is_number(value: Any) -> bool:
    """Whether a value is a real number, and not True or False."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def read_number(value: Any, question: str = "", unit: str = "") -> float | None:
    """Return the number in a guess such as 16, "about 1,000 bytes", "75%" or "5/8"; else None."""
    if is_number(value):
        return None if math.isnan(value) else float(value)
    found = written(value) if isinstance(value, str) else None
    if found is None or not _stems(found.rest) <= _stems(_words(f"{question} {unit}")):
        return None
    return found.within(asked(question, unit))


def _stems(words: Iterable[str]) -> set[str]:
    """Words of guess and question that can be compared: "sectors" and "sector" are one."""
    return {_ALIKE.get(word, word.removesuffix("s")) for word in words}


def chosen(text: str, choices: tuple[str, ...]) -> str | None:
    """Return the choice that a text means: "No, some are lost" is "no", "a race" is "race".

    None if it means none of them, or may mean several; "no race" is not "race". The first word
    wins; a choice of one letter is meant only where it stands alone.
    """
    for choice in choices:
        if text.strip().lower() == choice.lower():
            return choice
    said, number = _choice_words(text), read_number(text)
    each = {choice: _choice_words(choice) for choice in choices}
    same_number = [c for c in choices if number is not None and read_number(c) == number]
    if len(same_number) == 1:
        return same_number[0]
    if not said:
        return None
    first = re.match(r"\W*(\w+)\W*(?:[,.;:!?\"')]|$)", text)
    if first and (alone := [c for c in choices if c.lower() == first[1].lower()]):
        return alone[0]
    long = {choice: words for choice, words in each.items() if len("".join(words)) > 1}
    within = [choice for choice, words in long.items() if _contains(said, words)]
    longest = [c for c in within if not any(c != d and _contains(each[d], each[c]) for d in within)]
    if len(longest) > 1 and "or" in said:
        return None
    begun = [choice for choice in longest if said[: len(each[choice])] == each[choice]]
    if begun:
        return begun[0]
    longest = [choice for choice in longest if len("".join(each[choice])) > 2]
    beginnings = [c for c, words in each.items() if " ".join(words).startswith(" ".join(said))]
    if len(beginnings) == 1:
        return beginnings[0]
    if len(longest) == 1:
        denied = bool(_NEGATIONS & (set(said) - set(each[longest[0]])))
        return None if denied else longest[0]
    parts = [choice for choice, words in each.items() if _contains(words, said)]
    if len(parts) == 1 and not within:
        return parts[0]
    meant = [c for c, words in each.items() if " ".join(said) in _SYNONYMS.get(" ".join(words), ())]
    return meant[0] if meant else None


def shown(value: Any) -> str:
    """A value as text, numbers with at most four digits and separated thousands."""
    if isinstance(value, (tuple, list)):
        return f"({', '.join(shown(part) for part in value)})"
    if not is_number(value):
        return str(value)
    number = float(value)
    if number.is_integer() and abs(number) < 1e15:
        return f"{int(number):,}"
    if 1e-4 <= abs(number) < 1e6 or not math.isfinite(number):
        return f"{number:,.4g}"
    return re.sub(r"\.?0+e", "e", f"{number:.3e}")


def listed(choices: tuple[str, ...]) -> str:
    """Choices as text, in quotes: "yes" or "no"."""
    *others, last = (f'"{choice}"' for choice in choices)
    return f"{', '.join(others)} or {last}" if others else last


def margin(within: float) -> str:
    """A factor as text: "within a factor of 2", "within 10%"."""
    if within < 1.2:
        return f"within {100 * (within - 1):.2g}%"
    return f"within a factor of {shown(within)}"


def same(guess: float, truth: float) -> bool:
    """Whether two numbers are the same but for a computation's rounding."""
    return guess == truth or abs(guess - truth) <= EXACT * abs(truth) < math.inf


def _rounded(guess: float, truth: float) -> bool:
    """Whether a guess is what is exact, rounded to the two or more digits of the guess."""
    if float(truth).is_integer() or not (math.isfinite(guess) and math.isfinite(truth)):
        return False
    digits = len(f"{guess:.12g}".partition("e")[0].replace(".", "").lstrip("-0"))
    fits = digits > 1 and same(float(f"{truth:.{digits}g}"), guess)
    return fits or abs(guess - truth) <= 1e-3 * abs(truth)


def _factor(guess: float, truth: float) -> float:
    """By which factor, 1 or more, a guess is off; infinite if no factor leads to the truth."""
    if guess == 0 or truth == 0 or (guess < 0) != (truth < 0):
        return math.inf
    return max(guess / truth, truth / guess)


def _off(guess: float, truth: float) -> str:
    factor, difference = _factor(guess, truth), abs(guess - truth)
    if math.isinf(truth):
        return "it is infinite"
    if not math.isfinite(factor):
        return f"off by {shown(difference)}" if math.isfinite(difference) else "infinitely far off"
    direction = "high" if abs(guess) > abs(truth) else "low"
    if factor >= 1.95:
        times = f"{factor:.1f}".removesuffix(".0") if factor < 100 else f"{factor:,.0f}"
        return f"{times} times too {direction}"
    if float(guess).is_integer() and float(truth).is_integer():
        return f"too {direction} by {shown(difference)}"
    if factor < 1.01:
        return f"off by {shown(difference)}"
    return f"{100 * abs(guess / truth - 1):.0f}% too {direction}"


def _word(part: Any) -> str:
    if part is True or part is False:
        return "yes" if part else "no"
    return shown(part)


def _words(text: Any) -> tuple[str, ...]:
    """The words of a text, alike for "16x16" and "16 × 16", "Float-64" and "float 64"."""
    plain = re.sub("n['\N{RIGHT SINGLE QUOTATION MARK}]t\\b", " not", str(text).lower())
    plain = plain.replace("\N{MULTIPLICATION SIGN}", "x")
    plain = re.sub(r"(?<=\d)\s*x\s*(?=\d)", " x ", plain)
    return tuple(re.findall(r"[a-zµ]+|\d+(?:\.\d+)?", plain))


def _choice_words(text: Any) -> tuple[str, ...]:
    """The words of a choice; without an article before others."""
    words = _words(text)
    return words[1:] if len(words) > 1 and words[0] in ("a", "an", "the") else words


def _contains(words: tuple[str, ...], part: tuple[str, ...]) -> bool:
    return any(
        words[start : start + len(part)] == part for start in range(len(words) - len(part) + 1)
    )
