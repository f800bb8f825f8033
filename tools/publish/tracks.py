"""Ways through the course: for whom, which lessons, and the hours of their cores and in all."""

import re
from pathlib import Path

from tools.notebooks import lessons, sections

GROUND = ("00", "01", "02", "03", "04", "05")
HOURS = "no one two three four five six seven eight nine ten".split()
TRACKS = (
    ("write a first kernel that is right, and know why GPUs want thousands of threads", GROUND[:3]),
    ("make a kernel fast: measure it, count what it moves, use shared memory", GROUND),
    (
        "climb from a first kernel to nine tenths of the speed of NVIDIA's own library, "
        "and say what holds each step back",
        (*GROUND, "06", "07", "17"),
    ),
    (
        "make a whole program fast: streams, many images, several GPUs",
        (*GROUND, "06", "08", "09", "12"),
    ),
    (
        "build neural networks: reductions, fusion, one kernel, inside PyTorch, training",
        (*GROUND, "06", "08", "10", "13", "14", "15", "16", "18"),
    ),
    ("factorise matrices on the GPU", (*GROUND, "10", "11")),
)


def rows(root: Path = lessons.ROOT) -> list[tuple[str, str, str, str, list[str]]]:
    """Return for each track its aim, its lessons, hours of cores and in all, and its new lessons.

    A lesson is new in the first track that has it; one that is not there counts nothing.
    """
    times = times_by_lesson(root)
    everything = tuple(number for number, _ in lessons.PLAN)
    found, shown = [], set()
    for aim, numbers in (*TRACKS, ("do all of it", everything)):
        its = [times[number] for number in numbers if number in times]
        taken = "all" if numbers == everything else listed(numbers)
        core, whole = sum(each.core for each in its), sum(each.whole for each in its)
        new = [number for number in numbers if number not in shown]
        found.append((aim, taken, hours(core), hours(whole), new))
        shown.update(new)
    return found


def table(root: Path = lessons.ROOT) -> str:
    """Return the table of tracks."""
    made = ["| you want to | lessons | cores | all of them |", "|---|---|---|---|"]
    made += [f"| {' | '.join(row[:4])} |" for row in rows(root)]
    return "\n".join(made)


def sentences(root: Path = lessons.ROOT) -> list[tuple[re.Pattern[str], str]]:
    """Return the README's sentences about hours: how each is found, and what it says."""
    times = times_by_lesson(root)
    whole = sum(time.whole for time in times.values())
    share = sum(time.deepening for time in times.values()) / max(whole, 1)
    part = "half" if 0.45 < share < 0.55 else f"{100 * share:.0f}%"
    first, fast = (
        HOURS[round(sum(times[n].core for n in numbers if n in times) / 60)]
        for _, numbers in TRACKS[:2]
    )
    return [
        (
            re.compile(r"some \d+ hours, \S+ of that \w+"),
            f"some {5 * round(whole / 300)} hours, {part} of that deepening",
        ),
        (
            re.compile(r"\w+ hours to a first kernel that you understand, \w+ to one that"),
            f"{first} hours to a first kernel that you understand, {fast} to one that",
        ),
    ]


def times_by_lesson(root: Path) -> dict[str, sections.Times]:
    """Return the minutes of each lesson by its number."""
    return {
        lessons.name(path)[:2]: sections.times(lessons.read(path)) for path in lessons.paths(root)
    }


def listed(numbers: tuple[str, ...]) -> str:
    """Return lessons' numbers in words: "00 to 05, 08, 09"."""
    runs: list[list[str]] = []
    for number in numbers:
        if runs and int(number) == int(runs[-1][-1]) + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    pieces = []
    for run in runs:
        pieces += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else run
    return ", ".join(pieces)


def hours(minutes: float) -> str:
    """Return a time in half hours, one at least: "3½ h"."""
    half_hours = max(round(minutes / 30), 1)
    return f"{half_hours // 2 or ''}{'½' if half_hours % 2 else ''} h"
