"""Two plans for a class, for INSTRUCTORS.md: which lessons when, their minutes and what they need.

The minutes follow from the lessons' texts (`tools.notebooks.minutes`).
"""

from pathlib import Path

from tools.notebooks import lessons, sections
from tools.notebooks.minutes import in_fives
from tools.publish.tracks import hours

#: One lesson a week, its core in a lab of two hours; where there are several, each group takes one.
SEMESTER = (
    (("00",), "a first kernel"),
    (("01",), "which thread does what"),
    (("02",), "the program that the course makes fast"),
    (("03",), "figures that hold; hand in 00 to 02"),
    (("04",), "what a warp moves"),
    (("05",), "tiles, barriers, races"),
    (("06",), "to nine tenths of cuBLAS; hand in 03 to 05"),
    (("07",), "a kernel nobody has seen, diagnosed"),
    (("08",), "the program around the kernel"),
    (("10",), "threads that add up together; hand in 06 to 08"),
    (("13",), "what a network does between its products"),
    (("09", "11", "14"), "groups: throughput, linear algebra, networks"),
    (("12", "15", "17", "18"), "groups go on; hand in 10 and 13"),
    (("19",), "looking back; projects begin or are shown"),
)
DAYS = (("00", "01", "02", "04"), ("05", "06", "03"))


def blocks(root: Path = lessons.ROOT) -> dict[str, str]:
    """Return the generated blocks of INSTRUCTORS.md by their names."""
    known = {lessons.name(path)[:2]: path for path in lessons.paths(root)}
    return {"semester": semester(known), "days": days(known)}


def semester(known: dict[str, Path]) -> str:
    """Return the table of a semester."""
    rows = ["| week | lessons | in the lab | at home | about |", "|---|---|---|---|---|"]
    for week, (numbers, about) in enumerate(SEMESTER, start=1):
        there = [known[number] for number in numbers if number in known]
        links = " or ".join(_link(path) for path in there) or f"{numbers[0]}, planned"
        core, rest = (_span([minutes(path)[part] for path in there]) for part in (0, 1))
        rows.append(f"| {week} | {links} | {core} | {rest} | {about} |")
    return "\n".join(rows)


def days(known: dict[str, Path]) -> str:
    """Return the table of two days: cores alone."""
    rows = ["| day | lesson | core | the day so far |", "|---|---|---|---|"]
    for day, numbers in enumerate(DAYS, start=1):
        total = 0
        for path in (known[number] for number in numbers if number in known):
            core, _ = minutes(path)
            total += core
            rows.append(f"| {day} | {_link(path)} | {core} min | {hours(total)} |")
    return "\n".join(rows)


def minutes(path: Path) -> tuple[int, int]:
    """Return the minutes of a lesson's core, and of all that deepens it."""
    times = sections.times(lessons.read(path))
    return in_fives(times.core), in_fives(times.deepening)


def _span(numbers: list[int]) -> str:
    """Return minutes in words: "75 min", "55 to 110 min"."""
    if not numbers:
        return ""
    least, most = min(numbers), max(numbers)
    return f"{least} min" if least == most else f"{least} to {most} min"


def _link(path: Path) -> str:
    number, name = lessons.title(lessons.read(path))
    return f"[{number} {name}](notebooks/{lessons.name(path)}.ipynb)"
