"""The three questions at the end of the first core, asked and judged at once."""

from __future__ import annotations

from dataclasses import dataclass

from warpsim.core.words import wrapped


@dataclass(frozen=True)
class Question:
    """A question, and by letter what may be chosen and what is said to it; `right` is one."""

    asked: str
    choices: dict[str, tuple[str, str]]
    right: str


QUESTIONS = {
    "pixel": Question(
        "Who tells a thread its pixel?",
        {
            "a": ("the launch", "it says how many threads there are, the same to all of them"),
            "b": ("cuda.grid", "each thread asks it, and gets an index of its own"),
            "c": ("the photograph", "it is the same array for all threads"),
        },
        "b",
    ),
    "guard": Question(
        "Why is there a guard?",
        {
            "a": ("it is faster", "one comparison more makes nothing faster"),
            "b": ("a GPU would stop", "a GPU goes on, and stores elsewhere; the simulator stops"),
            "c": ("blocks go past the edge", "and a GPU stores there without a word"),
        },
        "c",
    ),
    "thousands": Question(
        "Why thousands of threads?",
        {
            "a": ("some go on while others wait", "memory takes hundreds of cycles to answer"),
            "b": ("fewer requests", "from one warp on, the requests were the same"),
            "c": ("each thread is fast", "a single thread is slower than one of a CPU"),
        },
        "a",
    ),
}


class Answers:
    """Each question with its verdict; shows itself."""

    def __init__(self, chosen: dict[str, object]):
        self.lines = [_judged(name, question, chosen[name]) for name, question in QUESTIONS.items()]

    def __repr__(self) -> str:
        return "\n".join(map(wrapped, self.lines))


def looking_back(pixel: str, guard: str, thousands: str) -> Answers:
    """Ask three questions, and judge the letters that were chosen."""
    return Answers({"pixel": pixel, "guard": guard, "thousands": thousands})


def _judged(name: str, question: Question, chosen: object) -> str:
    letter = str(chosen).strip(" .():").lower()
    if letter not in question.choices:
        choices = ", ".join(f"{each}: {text}" for each, (text, _) in question.choices.items())
        return f"○ {name}. {question.asked} {choices}."
    text, why = question.choices[letter]
    if letter == question.right:
        return f"✓ {name}: {text}. {why[0].upper()}{why[1:]}."
    return f"✗ {name}: not {letter}, {text}: {why}. {question.asked}"
