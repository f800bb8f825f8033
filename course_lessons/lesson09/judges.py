"""Judges of lesson 09's exercises that are no threads: a file, and a journal."""

from __future__ import annotations

from typing import Any

from course.checks.verdicts import brief
from course_lessons.lesson09.killed_writes import Outcome, Remains


def judge_saved(answer: Any, path: Any, data: bytes) -> str | None:
    """Judge what is left of a file where its writer is killed at any step."""
    for outcome in answer:
        sentence = _fault_of(outcome, path.name)
        if sentence:
            return sentence
    return None


def _fault_of(outcome: Outcome, name: str) -> str | None:
    end = outcome.undisturbed
    if end.content != outcome.new:
        if end.content is None:
            return f"At the end there is no {name}. There is: {', '.join(end.others) or 'nothing'}."
        if end.content == outcome.old:
            return f"At the end {name} still has its older content."
        return (
            f"At the end {name} holds {len(end.content):,} bytes, not the {len(outcome.new):,} of "
            f"data.{_why_not_all(outcome)}"
        )
    if outcome.moved_from_elsewhere:
        return (
            "The second file lies in another folder. That may be another disk, and then the move "
            f"is a copy that can be cut off. Put it beside {name}."
        )
    if end.others:
        return f"At the end {', '.join(end.others)} is still there. Rename it, do not copy it."
    for kill in outcome.kills:
        if kill.content not in (outcome.old, outcome.new):
            return _torn(kill, outcome, name)
    for kill in outcome.kills:
        if kill.again != outcome.new:
            return _not_again(kill, outcome, name)
    return None


def _not_again(kill: Remains, outcome: Outcome, name: str) -> str:
    left = f", {', '.join(kill.others)} is left behind" if kill.others else ""
    if isinstance(kill.again, str):
        ends = f"ends in {kill.again}"
    elif kill.again is None:
        ends = f"leaves no {name}"
    else:
        ends = f"makes {name} of {len(kill.again):,} bytes, where data have {len(outcome.new):,}"
    return (
        f"Killed after {kill.after}{left}. That is all right; but the next run's call, which finds "
        f"it there, {ends}. Write over what a killed run left: mode 'wb'."
    )


def _torn(kill: Remains, outcome: Outcome, name: str) -> str:
    there = "" if outcome.old is None else ", where an older one was,"
    if kill.content is None:
        return (
            f"Killed after {kill.after}, there{there} is no {name} at all: neither the old one nor "
            "the new one. os.replace puts the new one in its place in one step; remove nothing."
        )
    return (
        f"Killed after {kill.after}, {name}{there} holds {len(kill.content):,} of "
        f"{len(outcome.new):,} bytes. Who starts again finds the name and takes it for a whole "
        "image."
    )


def _why_not_all(outcome: Outcome) -> str:
    closed_late = any("renamed" in kill.after for kill in outcome.kills[:-1])
    return " Was it renamed before it was closed?" if closed_late else ""


def judge_remaining(answer: Any, names: list[str], journal: str) -> str | None:
    """Judge which images are still to be done."""
    if isinstance(answer, str) or not hasattr(answer, "__iter__"):
        return f"Return a list of names; got {brief(answer)}."
    given = list(answer)
    whole = journal.split("\n")[:-1]
    right = [name for name in names if name not in whole]
    if given == right:
        return None
    lists = f"Your list is {brief(given, 120)}, right is {brief(right, 120)}."
    told = f"The journal is {brief(journal, 160)}. {lists}"
    if sorted(map(str, given)) == sorted(right):
        return f"{told} The names are right; keep the order of names."
    if given == names[len(whole) :]:
        return (
            f"{told} You count lines; but images do not finish in their order. Look for the names."
        )
    return told
