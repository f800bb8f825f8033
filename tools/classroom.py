"""Make a folder in which nbgrader grades a class: ``python -m tools.classroom DIR 00 01 05``.

Of each lesson (all, where none is named) it writes ``source/NN_name/NN_name.ipynb``: the solution
with the student's badge, dots in place of sample guesses and statements out of order, all of which
nbgrader would hand out.
``nbgrader_config.py`` comes once, and is yours from then on. INSTRUCTORS.md says what to do with
the folder.
"""

import argparse
import sys
from pathlib import Path

import nbformat

from course.files import write_whole
from tools import address, command
from tools.notebooks import lessons, seals

CONFIG = '''\
"""How nbgrader grades this course. Yours to change: it is not written again."""

import os

os.environ["COURSE_GRADING"] = "1"  # a check prints its verdict and returns the answer's points
os.environ["COURSE_PROGRESS"] = "off"  # no student's verdict is your own

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "gpu"
# a check that a student deleted is put back below its answer
c.OverwriteCells.add_missing_cells = True
# what students get in place of a solution, as in the course's own notebooks
c.ClearSolutions.code_stub = {"python": "# your code here\\npass"}
# seconds of a cell: a check stops an answer without an end by itself
c.Execute.timeout = 600
'''


def source_of(solution: Path) -> str:
    """Return the text of nbgrader's source notebook, made of an executed solution."""
    node = nbformat.read(solution, as_version=4)
    node.cells[1].source = address.read().badge(f"notebooks/{solution.name}")
    for cell in node.cells:
        if cell.cell_type == "code":
            cell.source = lessons.out_of_order(lessons.without_guesses(cell.source))
            cell.outputs, cell.execution_count = [], None
    return nbformat.writes(node, version=4) + "\n"


def make(folder: Path, numbers: list[str], root: Path = lessons.ROOT) -> list[Path]:
    """Write configuration and sources; return the sources.

    Raises
    ------
    ValueError
        If there is no lesson of such a number.
    """
    solutions = {path.name[:2]: path for path in seals.notebooks(root, "solutions")}
    wanted = [number.zfill(2) for number in numbers] or list(solutions)
    if unknown := [number for number in wanted if number not in solutions]:
        raise ValueError(f"there is no lesson {unknown[0]!r}; there are {', '.join(solutions)}")
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "nbgrader_config.py"
    if not config.exists():
        write_whole(config, CONFIG)
    made = []
    for number in wanted:
        solution = solutions[number]
        target = folder / "source" / solution.stem / solution.name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, source_of(solution))
        made.append(target)
    return made


def main(arguments: list[str] | None = None) -> None:
    """Make the folder, and say what comes next."""
    parser = argparse.ArgumentParser(prog="python -m tools.classroom", description=__doc__)
    parser.add_argument("folder", metavar="DIR", type=Path, help="the class's folder")
    parser.add_argument("lessons", metavar="NN", nargs="*", help="numbers of lessons; else all")
    options = parser.parse_args(arguments)
    try:
        made = make(options.folder, options.lessons)
    except (OSError, ValueError) as error:
        sys.exit(f"classroom: {error}")
    print(f"{options.folder}: {len(made)} lessons in source/, nbgrader_config.py. Next, there:")
    print(f"  nbgrader generate_assignment {made[0].stem} --create")
    print("When they are handed in, here: ", command("tools.precheck"), options.folder)


if __name__ == "__main__":
    main()
