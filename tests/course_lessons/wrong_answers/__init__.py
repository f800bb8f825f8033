"""Answers to the course's exercises as students write them, a module a lesson.

Most are an edit of the lesson's own solution: text that stands in it once, and what a student
wrote instead. Names that such an answer uses are those of the module that holds it, else the
lesson's. ``python tests/course_lessons/wrong_answers`` judges them all and prints the two
percentages; with ``04 05`` those of two lessons.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from course.checks import check
from course.checks.verdicts import Verdict
from course_lessons.edits import edited, solution
from tests.course_lessons.wrong_answers.solutions import define, source_of, with_body

ANSWERS = []


@dataclass(frozen=True)
class Answer:
    """An answer to an exercise; it is compiled when it is judged.

    Attributes
    ----------
    exercise : str
    kinds : list of str
        Those that the verdict may have; none for a right answer.
    words : tuple of str
        What must stand in the verdict; a word may be several with ``|`` between them, of which one
        must. "Line 9 decides" is said at a second try.
    base : Answer, function or None
        What is edited, the lesson's solution where it is None.
    edit : dict of str, or str
        Old text and new, one edit after the other; or the body that stands instead of the base's;
        None where `base` is the answer.
    place : (dict, int)
        The names of the module that holds the answer, and the line there.
    """

    exercise: str
    kinds: list
    words: tuple
    base: Any
    edit: dict | str | None
    place: tuple = field(repr=False)

    @property
    def module(self) -> str:
        return self.place[0]["__name__"].rpartition(".")[2]

    @property
    def name(self) -> str:
        """What an answer's author called it, or where its edit stands."""
        if self.edit is not None:
            return f"{self.module}:{self.place[1]}"
        function = getattr(self.base, "py_func", self.base)
        return getattr(function, "__name__", repr(function))

    @cached_property
    def source(self) -> str:
        """The text of the answer; of the lesson's solution and a sibling, too, before the edit.

        Raises
        ------
        ValueError
            When an old text is not there, or more than once.
        """
        if self.edit is None:
            return source_of(self.base)
        if self.base is None:
            text = solution(self.exercise).source
        else:
            text = self.base.source if isinstance(self.base, Answer) else source_of(self.base)
        if isinstance(self.edit, str):
            return with_body(text, self.edit)
        return edited(text, self.edit.items(), f"{self.name}, {self.exercise}")

    @cached_property
    def function(self) -> Any:
        """The answer itself, ready for `check`."""
        if self.edit is None:
            return self.base
        return define(self.source, self.exercise, self.name, self.place[0])

    def judged(self) -> Verdict:
        """The verdict; with all help, the line that decides, where the words ask for that."""
        return check(self.exercise, self.function, explain="decides" in " ".join(self.words))


def answers_to(*exercises: str) -> tuple[Callable, Callable]:
    """Two functions that note a wrong answer, and a right one, to these exercises.

    ``wrong("race", "Line 9")({"cuda.syncthreads()": ""})`` notes the solution without a barrier:
    the verdict is a race, and says "Line 9". Edits in several dictionaries, a line each, are one
    after the other, too. ``wrong("wrong-result")("return n, 1")`` is the solution with another
    body; ``@wrong("race")`` stands above a whole function. What is noted may be the `base` of
    another edit.
    """

    def noting(kinds, words, base):
        def note(answer, *more, base=base):
            frame = sys._getframe(1)
            place = (frame.f_globals, frame.f_lineno)
            edit = answer if isinstance(answer, dict | str) else None
            for edits in more:
                edit = {**edit, **edits}
            given = base if edit else answer
            found = [Answer(name, kinds, words, given, edit, place) for name in exercises]
            ANSWERS.extend(found)
            return found[0] if edit else answer

        return note

    def wrong(kinds: str, *words: str, base: Any = None) -> Callable:
        return noting(kinds.split("|"), words, base)

    return wrong, noting([], (), None)


def all_answers(*numbers: str) -> tuple[list[Answer], list[Answer]]:
    """The wrong answers of all lessons, or of these, and the unusual right ones."""
    names = [found.name for found in pkgutil.iter_modules(__path__)]
    wanted = [f"lesson{number}" for number in numbers] or [n for n in names if n[:6] == "lesson"]
    for name in wanted:
        importlib.import_module(f"{__name__}.{name}")
    found = [answer for answer in ANSWERS if answer.module in wanted]
    return [answer for answer in found if answer.kinds], [a for a in found if not a.kinds]


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
