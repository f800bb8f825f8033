"""The command line; see the package's docstring."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable

from course.checks.exercises import exercises, find_exercise
from tools.mutants.judging import MUTANTS, REWRITES, Outcome, made, of_mutant, of_rewrite

MOST_BYTES = 8 << 30  # of a process's addresses: an answer that grows without end fails by that
FATES = ("killed", "equal", "judged", "listed", "survived", "passed", "refused")
HEAD = ("exercise", "made", "kinds", *FATES, "named", "unhelped", "seconds")


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tools.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="exercises or numbers of lessons; all by itself")
    parser.add_argument("--seed", type=int, default=0, help="by which --most are drawn")
    parser.add_argument("--most", type=int, help="mutants, and rewrites, of an exercise")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=[*MUTANTS, *REWRITES], metavar="KIND")
    parser.add_argument("--show", nargs="*", metavar="FATE", help="the answers of a column's fate")
    chosen = parser.parse_args(arguments)
    meant = {find_exercise(name).name for name in chosen.names if not name.isdigit()}
    lessons = {int(name) for name in chosen.names if name.isdigit()}
    names = [
        n for n, e in exercises().items() if not chosen.names or n in meant or e.lesson in lessons
    ]
    print(_line(*HEAD), flush=True)
    found, start = [], time.monotonic()
    tasks = [(name, chosen.kinds, chosen.most, chosen.seed) for name in names]
    for name, outcomes, seconds in _in_processes(tasks, chosen.processes):
        found += outcomes
        print(_row(name, outcomes, seconds), flush=True)
        if chosen.show is not None:
            _show(outcomes, chosen.show or ["survived", "refused", "unhelped"])
    print(_row(f"{len(tasks)} exercises", found, time.monotonic() - start))
    return int(any(each.fate in ("survived", "refused") for each in found))


def _in_processes(tasks: list[tuple], processes: int) -> Iterable[tuple[str, list[Outcome], float]]:
    if processes < 2 or len(tasks) < 2:
        yield from map(_of_exercise, tasks)
        return
    context = multiprocessing.get_context("fork")
    with context.Pool(processes, initializer=_limited, maxtasksperchild=10) as pool:
        yield from pool.imap(_of_exercise, tasks)


def _limited() -> None:
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def _of_exercise(task: tuple) -> tuple[str, list[Outcome], float]:
    """What becomes of an exercise's answers; runs in a process of its own."""
    name, kinds, most, seed = task
    start, outcomes = time.monotonic(), []
    for operators, fate in ((MUTANTS, of_mutant), (REWRITES, of_rewrite)):
        some = {k: operator for k, operator in operators.items() if not kinds or k in kinds}
        outcomes += map(fate, made(name, some, most, seed))
    return name, outcomes, time.monotonic() - start


def _row(name: str, outcomes: list[Outcome], seconds: float) -> str:
    fates = Counter(each.fate for each in outcomes)
    kinds = Counter(each.answer.kind for each in outcomes if each.fate not in ("passed", "refused"))
    named = sum(bool(each.named) for each in outcomes) / max(fates["killed"], 1)
    unhelped = sum(bool(each.unhelped) for each in outcomes)
    counts = [fates[fate] for fate in FATES]
    return _line(
        name, kinds.total(), len(kinds), *counts, f"{named:.0%}", unhelped, f"{seconds:.1f}"
    )


def _line(name: str, *cells: object) -> str:
    return f"{name:28}" + "".join(f"{cell!s:>9}" for cell in cells)


def _show(outcomes: Iterable[Outcome], fates: list[str]) -> None:
    for each in outcomes:
        more = {each.fate, "unhelped" * bool(each.unhelped)}
        more |= {"unnamed" * (each.fate == "killed" and not each.named)}
        for fate in more.intersection(fates):
            said = each.unhelped if fate == "unhelped" else each.said
            print(f"\n--- {each.answer.exercise}, {each.answer.kind}: {fate}; {said}")
            print(each.answer.difference())
            if fate in ("refused", "unnamed", "killed"):
                print(each.verdict)
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
