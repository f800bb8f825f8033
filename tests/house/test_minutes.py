"""How long lessons take, by the rule of tools/notebooks/minutes.py, and what they must come to.

Lessons that take longer yet are listed with what they take today; a figure may only fall.
"""

import pytest

from tools.notebooks import cells, minutes, sections

PATHS = {cells.name(path)[:2]: path for path in cells.paths()}
CORE = {"00": 30, "01": 75, "02": 75}
LAB = 110  # minutes of any other core
LONGEST_EXERCISE = 12  # lines that a core asks for
#: Stretches of more than two minutes of reading without an output.
SILENT_YET = {
    "06": 4,  # whole kernels, in one cell each
    "08": 3,
    "09": 8,
    "10": 1,
    "11": 11,
    "12": 11,
    "13": 6,
    "14": 12,
    "15": 6,
    "17": 4,
    "18": 5,
    "19": 4,
}


@pytest.fixture(params=PATHS)
def lesson(request):
    return request.param, cells.read(PATHS[request.param])


def test_a_core_fits_its_minutes(lesson):
    number, read = lesson
    most = CORE.get(number, LAB)
    assert sections.times(read).core <= most, "print(tools.notebooks.sections.table()) has them all"


def test_no_reader_waits_two_minutes_for_an_output(lesson):
    number, read = lesson
    silent = [f"line {cell.line}: {taken:.1f} min" for cell, taken in minutes.silent(read)]
    assert len(silent) <= SILENT_YET.get(number, 0), silent


def test_no_exercise_of_a_core_asks_for_more_than_twelve_lines(lesson):
    number, read = lesson
    deep = [cell for part in sections.sections(read) if part.kind != "core" for cell in part.cells]
    lines = [
        minutes.lines_to_write(cell.source)
        for cell in read
        if "exercise" in cell.tags and cell not in deep
    ]
    assert max(lines, default=0) <= LONGEST_EXERCISE
