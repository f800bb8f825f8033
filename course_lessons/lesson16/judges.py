"""The judge of launches of lesson 16: which operation reads or writes too early, or too late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from course.checks.verdicts import brief
from course_lessons.lesson16.toy_launches import Work, clash, fewest, races

FORM = 'a list of launches, each a list of names, such as [["h"], ["code"], ...]'


def judge_launches(answer: Any, work: Sequence[Work]) -> str | None:
    """Judge launches: each operation once, no race in any, the order kept, and no more than needed.

    Parameters
    ----------
    work : sequence of Work
        In an order in which one after the other is right.
    """
    works = [Work(*its) for its in work]
    answer = _listed(answer)
    if isinstance(answer, tuple | list):
        answer = [*map(_listed, answer)]
    fault = _no_launches(answer, works)
    if fault:
        return fault
    by_name = {its.name: its for its in works}
    launches = [[by_name[name] for name in launch] for launch in answer]
    for number, launch in enumerate(launches, 1):
        if found := races(launch):
            return _raced(number, found[0], works)
    place = {name: n for n, launch in enumerate(answer, 1) for name in launch}
    return _out_of_order(works, place) or _too_many(works, place, len(answer))


def _listed(its: Any) -> Any:
    """A set or an array of names as a list, in any order: in a launch there is none."""
    if isinstance(its, set | frozenset):
        return sorted(its, key=str)
    return its.tolist() if isinstance(its, np.ndarray) else its


def _no_launches(answer: Any, works: Sequence[Work]) -> str | None:
    """What is wrong with the form."""
    if not isinstance(answer, tuple | list):
        return f"Return {FORM}; got {brief(answer)}."
    names, seen = {its.name for its in works}, set()
    for number, launch in enumerate(answer, 1):
        if isinstance(launch, str):
            return f"Launch {number} is the name {launch!r}: each launch is a list, [{launch!r}]."
        if not isinstance(launch, tuple | list):
            return f"Launch {number} is {brief(launch)}: return {FORM}."
        if not launch:
            return f"Launch {number} is empty: leave it out."
        for its in launch:
            if isinstance(its, tuple | list):
                return (
                    f"Launch {number} holds {brief(its)}: give the name alone, the first of the "
                    "three."
                )
            if not isinstance(its, str) or its not in names:
                return f"Launch {number} holds {brief(its)}, which is no name of `work`."
            if its in seen:
                return f"{its!r} is launched twice, again in launch {number}: each once."
            seen.add(its)
    missing = [its.name for its in works if its.name not in seen]
    if missing:
        return f"{missing[0]!r} is never launched: each operation is, once."
    return None


def _raced(number: int, race: Any, works: Sequence[Work]) -> str:
    """Two operations of one launch that use an array which one of them writes."""
    order = [its.name for its in works]
    reads = race.array in works[order.index(race.other)].reads
    does = "reads" if reads else "writes"
    first, second = sorted((race.writer, race.other), key=order.index)
    return (
        f"A race in launch {number}: {race.writer!r} writes {race.array}, and {race.other!r} "
        f"{does} it, with nothing to order the two. In `work` {first!r} comes first: {second!r} "
        "needs a later launch."
    )


def _out_of_order(works: Sequence[Work], place: dict[str, int]) -> str | None:
    """The first operation that stands before one that it must come after."""
    for n, later in enumerate(works):
        for earlier in works[:n]:
            array = clash(earlier, later)
            if not array or place[earlier.name] < place[later.name]:
                continue
            when = f"launch {place[later.name]}", f"launch {place[earlier.name]}"
            if array in earlier.writes and array in later.reads:
                return (
                    f"{later.name!r} reads {array} in {when[0]}, and {earlier.name!r} writes it "
                    f"only in {when[1]}: it would read what was there before."
                )
            if array in earlier.writes:
                return (
                    f"{earlier.name!r} and {later.name!r} both write {array}. In `work` "
                    f"{later.name!r} comes last, and its result stays: here it is overwritten in "
                    f"{when[1]}."
                )
            return (
                f"{later.name!r} changes {array} in {when[0]}, and {earlier.name!r} reads it only "
                f"in {when[1]}: it would get the new one. Nothing changes before its last reader."
            )
    return None


def _too_many(works: Sequence[Work], place: dict[str, int], launches: int) -> str | None:
    """Where the order is right, and fewer launches would do."""
    needed = max(fewest(works), default=0)
    if launches <= needed:
        return None
    for n, its in enumerate(works):
        possible = 1 + max((place[o.name] for o in works[:n] if clash(o, its)), default=0)
        if possible < place[its.name]:
            free = f"all that it must come after is done before launch {possible}"
            if possible == 1:
                free = "it must come after nothing"
            return (
                f"The order is right, but these are {launches} launches, and {needed} "
                f"suffice{'s' * (needed == 1)}. {its.name!r} is in launch {place[its.name]}, and "
                f"{free}. Two that only read an array may share a launch, and what comes later in "
                "`work` may go into an earlier launch."
            )
    return None  # cannot be: some operation can move, or the launches are as few as they can be
