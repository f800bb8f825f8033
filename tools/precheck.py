"""Name what stands against grading a class: ``python -m tools.precheck DIR [ASSIGNMENT ...]``.

nbgrader gives 0, or all points, without a word where a check cell is gone, `check` is another
function, a kernel dies. Before it grades, this looks at what was handed in below DIR/submitted,
beside DIR/release: at the cells, and at what comes out when each notebook is run as nbgrader will
run it, in a kernel of its own. ``--no-run`` looks at the cells only. The status is 1 where
something was found. INSTRUCTORS.md says what to do about it.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course.checks.cells import defined_names
from tools import build_notebooks
from tools.notebooks import lessons

SECONDS = 600  # of a cell, as in nbgrader_config.py
ENDS_A_KERNEL = ("os._exit", "os.abort", "os.kill", "os.killpg", "exit", "quit")


def name_of(cell: NotebookNode) -> str:
    """The name by which nbgrader knows a cell; empty for others."""
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def is_check(cell: NotebookNode) -> bool:
    """Whether nbgrader grades a cell."""
    return bool(cell.metadata.get("nbgrader", {}).get("grade"))


def named(node: NotebookNode) -> dict[str, NotebookNode]:
    """The cells of a notebook that nbgrader knows, by name; of two of a name the last."""
    return {name_of(cell): cell for cell in node.cells if name_of(cell)}


def faults_of_cells(released: NotebookNode, node: NotebookNode) -> Iterator[str]:
    """What stands against grading in the cells of a notebook."""
    given, there = named(released), named(node)
    names = [name_of(cell) for cell in node.cells if name_of(cell)]
    for name, cell in given.items():
        if name not in there:
            what = "check" if is_check(cell) else "answer"
            yield f"{name}: the {what} cell is missing"
        elif names.count(name) > 1:
            yield f"{name}: {names.count(name)} cells have this name: keep it in one of them"
        elif there[name].cell_type != cell.cell_type:
            yield f"{name}: the cell is of type {there[name].cell_type} now, not {cell.cell_type}"
        elif is_check(cell) and there[name].source != cell.source:
            yield f"{name}: the check cell was changed; nbgrader takes the one that was handed out"
        answer = f"{name}-answer"
        if name in there and answer in there and names.index(answer) > names.index(name):
            yield f"{name}: the check stands above the answer"
    for number, cell in enumerate(node.cells):
        if cell.cell_type != "code":
            continue
        if "check" in defined_names(without_imports(cell.source)):
            yield f"cell {number} redefines `check`: no check below it is the course's"
        if ends := [call for call in calls(cell.source) if call in ENDS_A_KERNEL]:
            yield f"cell {number} calls {ends[0]}(), which ends the kernel: nothing below is graded"


def without_imports(source: str) -> str:
    """A cell without what it imports from the course."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    tree.body = [
        node for node in tree.body
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("course"))
    ]  # fmt: skip
    return ast.unparse(tree)


def calls(source: str) -> list[str]:
    """The functions that a cell calls by name."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    return [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def as_graded(released: NotebookNode, node: NotebookNode) -> NotebookNode:
    """A notebook as nbgrader will run it: with the checks that were handed out, all of them."""
    made = nbformat.from_dict(node)
    for name, cell in named(released).items():
        mine = named(made).get(name)
        if not is_check(cell):
            continue
        if mine is not None:
            mine.update(source=cell.source, cell_type=cell.cell_type)
        elif (answer := named(made).get(f"{name}-answer")) is not None:
            made.cells.insert(made.cells.index(answer) + 1, nbformat.from_dict(cell))
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.update(outputs=[], execution_count=None)
    return made


def faults_of_run(node: NotebookNode, folder: Path) -> Iterator[str]:
    """Run a notebook, as nbgrader does, and say where that ends or gives no points that hold."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    reached = [0]

    def begins(cell: NotebookNode, cell_index: int) -> None:
        reached[0] = cell_index

    kept = {name: text for name, text in os.environ.items() if not name.startswith("COURSE_")}
    path = os.pathsep.join((str(lessons.ROOT), kept.get("PYTHONPATH", "")))
    with tempfile.TemporaryDirectory() as private, tempfile.TemporaryDirectory() as empty:
        place = shutil.copytree(folder, Path(empty) / "work")
        own = {"COURSE_GRADING": "1", "COURSE_PROGRESS": "off", "PYTHONPATH": path}
        client = NotebookClient(
            node, timeout=SECONDS, allow_errors=True, on_cell_execute=begins,
            kernel_manager_class=build_notebooks.kernel_manager(),
            resources={"metadata": {"path": str(place)}},
        )  # fmt: skip
        try:
            client.execute(env=kept | own | {"IPYTHONDIR": private}, stderr=subprocess.DEVNULL)
        except DeadKernelError:
            yield f"the kernel died in cell {reached[0]}: the whole notebook gets no points"
            return
        except CellTimeoutError:
            yield f"cell {reached[0]} did not end in {SECONDS} seconds: nothing below is graded"
            return
    for cell in node.cells:
        if is_check(cell) and (fault := fault_of_points(cell)):
            yield f"{name_of(cell)}: {fault}"


def fault_of_points(cell: NotebookNode) -> str | None:
    """Why nbgrader's points for a check that has run are not those of a verdict."""
    most, text, values = cell.metadata["nbgrader"]["points"], "", []
    for output in cell.outputs:
        if output.output_type == "error":
            return f"no points, the check ends in {output.ename}: {output.evalue.splitlines()[0]}"
        if output.output_type == "stream" and output.name == "stderr":
            return "no points, something is written to standard error"
        if output.output_type == "stream":
            text += output.text
        elif output.output_type == "execute_result":
            values.append(output.data.get("text/plain", ""))
    said = re.search(rf"^[✓✗○] {re.escape(name_of(cell))}: .*", text, re.MULTILINE)
    try:
        points = float(values[0]) if values else None
    except ValueError:
        points = None
    if points is None:
        return "no verdict: `check` is not the course's, and nbgrader would give all points"
    if not 0 <= points <= most:
        return f"{points:g} points of {most}: nbgrader refuses the notebook"
    if said is None:
        return f"no verdict: `check` is not the course's, and gives {points:g} points"
    if said[0].startswith("✓") != (points == most):
        return f"the verdict is {said[0]!r} and gives {points:g} of {most} points"
    return None


def lost(node: NotebookNode, graded: NotebookNode) -> Iterator[str]:
    """The exercises that passed where the student worked, and do not here."""
    now = {name_of(cell): str(cell.get("outputs")) for cell in graded.cells if is_check(cell)}
    for name, text in now.items():
        passed = f"✓ {name}: passed"
        before = str(named(node)[name].get("outputs")) if name in named(node) else ""
        if passed in before and passed not in text:
            yield f"{name}: it passed where it was written, and does not here"


def submissions(folder: Path, assignment: str) -> Iterator[tuple[str, Path]]:
    """The students who handed in an assignment, each with the folder."""
    for place in sorted(folder.glob(f"submitted/*/{assignment}")):
        yield place.parent.name, place


def faults(released: Path, place: Path, run: bool = True) -> Iterator[str]:
    """What stands against grading a notebook that was handed in."""
    mine = place / released.name
    if not mine.is_file():
        there = ", ".join(sorted(path.name for path in place.glob("*.ipynb"))) or "no notebook"
        yield f"{released.name} is missing; there is {there}"
        return
    given = nbformat.read(released, as_version=4)
    try:
        node = nbformat.read(mine, as_version=4)
        nbformat.validate(node)
    except (OSError, ValueError, LookupError, AttributeError, nbformat.ValidationError) as error:
        yield f"{released.name} is no notebook that can be read: {str(error).splitlines()[0]}"
        return
    yield from faults_of_cells(given, node)
    if run:
        graded = as_graded(given, node)
        yield from faults_of_run(graded, place)
        yield from lost(node, graded)


def main(arguments: list[str] | None = None) -> int:
    """Print what was found, a line a fault, and how much was looked at; returns the status."""
    parser = argparse.ArgumentParser(prog="python -m tools.precheck", description=__doc__)
    parser.add_argument("folder", metavar="DIR", type=Path, help="the class's folder")
    parser.add_argument("assignments", metavar="ASSIGNMENT", nargs="*", help="else all of them")
    parser.add_argument("--no-run", action="store_true", help="look at the cells only")
    options = parser.parse_args(arguments)
    known = {path.parent.name: path for path in options.folder.glob("release/*/*.ipynb")}
    wanted = options.assignments or sorted(known)
    if unknown := [name for name in wanted if name not in known]:
        where, there = options.folder / "release", ", ".join(sorted(known)) or "nothing"
        sys.exit(f"precheck: there is no {unknown[0]} in {where}; there is {there}")
    looked, found = 0, 0
    for assignment in wanted:
        for student, place in submissions(options.folder, assignment):
            looked += 1
            for fault in faults(known[assignment], place, not options.no_run):
                found += 1
                print(f"{student}: {assignment}: {fault}", flush=True)
    print(f"looked at: {looked}; against grading: {found}")
    return 1 if found or not looked else 0


if __name__ == "__main__":
    sys.exit(main())
