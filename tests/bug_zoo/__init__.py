"""Answers to the course's exercises as students write them, a module a lesson.

``python tests/bug_zoo`` judges them all and prints the two percentages; ``python tests/bug_zoo 04
05`` those of two lessons.
"""

import importlib
import pkgutil
from collections.abc import Callable


class Answers:
    """The answers of one lesson: wrong ones, and right ones that look unusual.

    Attributes
    ----------
    noted_wrong : list of (exercise, answer, kinds, words)
        `kinds` are those that the verdict may have, `words` what must stand in it; a word may be
        several with ``|`` between them, of which one must.
    noted_right : list of (exercise, answer)
    """

    def __init__(self) -> None:
        self.noted_wrong = []
        self.noted_right = []

    def wrong(self, exercise: str, kinds: str, *words: str) -> Callable:
        """Note the answer below as wrong, with what its verdict must be and say."""

        def note(answer):
            self.noted_wrong.append((exercise, answer, kinds.split("|"), words))
            return answer

        return note

    def right(self, *exercises: str) -> Callable:
        """Note the answer below as right, though it is not the one in the solution."""

        def note(answer):
            self.noted_right.extend((exercise, answer) for exercise in exercises)
            return answer

        return note


def all_answers(*numbers: str) -> tuple[list, list]:
    """The noted wrong answers of all lessons, or of these, and the noted right ones."""
    names = [found.name for found in pkgutil.iter_modules(__path__)]
    wanted = [f"lesson{number}" for number in numbers] or [n for n in names if n[:6] == "lesson"]
    lessons = [importlib.import_module(f"{__name__}.{name}").ANSWERS for name in wanted]
    return (
        [entry for lesson in lessons for entry in lesson.noted_wrong],
        [entry for lesson in lessons for entry in lesson.noted_right],
    )


def name_of(answer) -> str:
    """What an answer's author called it."""
    function = getattr(answer, "py_func", answer)
    return getattr(function, "__name__", repr(function))


def fault_of_refusal(verdict, kinds, words) -> str | None:
    """What a wrong answer's verdict lacks: the status, the reason or a word; None for nothing."""
    if verdict.status != "failed":
        return f"it is {verdict.status}"
    if verdict.kind not in kinds:
        return f"the reason is {verdict.kind}, right is {' or '.join(kinds)}"
    text = " ".join(str(verdict).split())
    missing = [word for word in words if not any(choice in text for choice in word.split("|"))]
    return f"it does not say {missing}" if missing else None


def fault_of_pass(verdict) -> str | None:
    """What is wrong with a right answer's verdict; an error finding, too, would have failed it."""
    return None if verdict.status == "passed" else f"it is {verdict.status}: {verdict.kind}"
