"""Ways through the course: for whom, which lessons, and the hours of their cores and in all."""

from pathlib import Path

from tools.notebooks import lessons, sections

GROUND = ("00", "01", "02", "03", "04", "05")
TRACKS = (
    ("write a first kernel that is right, and know why GPUs want thousands of threads", GROUND[:3]),
    ("make a kernel fast: measure it, count what it moves, use shared memory", GROUND),
    (
        "climb from a first kernel to two thirds of cuBLAS, and say what binds each step",
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


def table(root: Path = lessons.ROOT) -> str:
    """Return the README's table of tracks; a lesson that is not there counts nothing."""
    core, whole = {}, {}
    for path in lessons.paths(root):
        cells = lessons.read(path)
        parts = sections.sections(cells)
        core[lessons.name(path)[:2]] = sections.core_minutes(cells)
        whole[lessons.name(path)[:2]] = sum(part.minutes for part in parts)
    rows = ["| you want to | lessons | cores | all of them |", "|---|---|---|---|"]
    for aim, numbers in TRACKS:
        minutes = [sum(each.get(number, 0) for number in numbers) for each in (core, whole)]
        rows.append(f"| {aim} | {listed(numbers)} | {hours(minutes[0])} | {hours(minutes[1])} |")
    rows.append(
        f"| do all of it | all | {hours(sum(core.values()))} | {hours(sum(whole.values()))} |"
    )
    return "\n".join(rows)


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


def hours(minutes: int) -> str:
    """Return a time in half hours, one at least: "3½ h"."""
    half_hours = max(round(minutes / 30), 1)
    return f"{half_hours // 2 or ''}{'½' if half_hours % 2 else ''} h"
