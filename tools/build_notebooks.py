"""Build notebooks of lessons, one way only.

``python -m tools.build_notebooks`` makes of each ``course_lessons/lessonNN/name.py``

- ``notebooks/NN_name.ipynb``, the student's: solution blocks taken out, nothing executed;
- ``solutions/NN_name.ipynb``: executed from top to bottom, outputs kept.

A solution is executed only if its cells have changed since (``--force``: always). The same source
gives the same bytes, outputs apart. Never edit a notebook: edit the lesson. One that was edited all
the same is named and left as it is (``--force``: written over).
"""

import argparse
import copy
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbformat import NotebookNode, v4

from course.checks.exercises import exercises
from course.files import write_whole
from course_lessons.warm_up import right_answers
from tools import address
from tools.notebooks import lessons, seals, sections
from tools.notebooks.lessons import Cell
from tools.notebooks.seals import KINDS, text_of

SLOWEST_CELL = 5.0  # seconds, without a GPU
SLOWEST_LESSON = 25.0
SET_UP_TAG = "remove-cell"  # as sites made of notebooks call a cell that they leave out
#: The set-up's code is folded in Colab, and in JupyterLab and VS Code.
_FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}}
_OF_SITES = "mystnb"  # key of a cell's metadata
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NEVER_IN_OUTPUTS = {
    "a path of this machine": re.compile(r"/home/|/tmp/|/root/|/Users/|[A-Z]:\\\\|site-packages"),
    "an address in memory": re.compile(r"\bat 0x[0-9a-fA-F]+"),
    "a cell's temporary name": re.compile(r"ipykernel_\d+|ipython-input-"),
}


def notebook(path: Path, kind: str, where: address.Address) -> NotebookNode:
    """Make one notebook of a lesson, not executed.

    Parameters
    ----------
    path
        The lesson, ``course_lessons/lessonNN/name.py``.
    kind
        "notebooks" for the student's, "solutions" for the solution.
    where
        The public address, for the badge and the first cell.
    """
    title, *rest = sections.with_minutes(lessons.read(path))
    head = _address_cells(where, f"{kind}/{lessons.name(path)}.ipynb")
    cells = [title, *head, *_warm_up(int(lessons.name(path)[:2])), *rest]
    made = []
    seen: dict[tuple[str, str], int] = {}
    for cell in cells:
        cell = lessons.with_space(lessons.with_nbval_tag(cell))
        source = lessons.stub(cell.source) if kind == "notebooks" else cell.source
        ordinal = seen[cell.kind, source] = seen.get((cell.kind, source), 0) + 1
        make = v4.new_markdown_cell if cell.kind == "markdown" else v4.new_code_cell
        node = make(source, id=_identity(cell.kind, source, ordinal))
        if cell.tags:
            node.metadata["tags"] = list(cell.tags)
        if SET_UP_TAG in cell.tags:
            node.metadata.update(copy.deepcopy(_FOLDED))
        made.append(node)
    _mark_for_nbgrader(made)
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        # Colab opens the notebook on a machine with a GPU; it runs on one without as well
        "accelerator": "GPU",
        "colab": {"gpuType": "T4", "provenance": []},
        "course": {
            "lesson": f"course_lessons/{lessons.label(path)}",
            "sha256": source_hash(path),
        },
    }
    node = v4.new_notebook(cells=made, metadata=metadata)
    node.nbformat_minor = 5
    return node


def _mark_for_nbgrader(cells: list[NotebookNode]) -> None:
    """Say which cells a student answers in, and which give points; the same in both notebooks.

    A check has its exercise's name and points, the cell with the answer that name and "-answer".
    """
    known, answer = exercises(), None
    for cell in cells:
        tags = cell.metadata.get("tags", ())
        if "exercise" in tags:
            answer = cell
        elif "check" in tags:
            name = lessons.checked(cell.source)
            points = known[name].points if name in known else 1  # a lesson that only a test has
            cell.metadata["nbgrader"] = {**_mark(name, grade=True), "points": points}
            answer.metadata["nbgrader"] = _mark(f"{name}-answer", grade=False)


def _mark(name: str, grade: bool) -> dict:
    """Return the metadata by which nbgrader knows a cell: a check that is graded, or an answer."""
    return {
        "schema_version": 3, "grade_id": name, "grade": grade,
        "solution": not grade, "locked": grade, "task": False,
    }  # fmt: skip


def source_hash(path: Path) -> str:
    """Return the SHA-256 of a lesson's text, whatever its line ends."""
    return hashlib.sha256(path.read_text(encoding="utf-8").encode("utf-8")).hexdigest()


def _address_cells(where: address.Address, target: str) -> list[Cell]:
    """Badge and set-up, which stand below the title."""
    return [
        Cell("markdown", where.badge(target), (), 0),
        Cell("code", where.first_cell(), (SET_UP_TAG,), 0),
    ]


def _warm_up(lesson: int) -> list[Cell]:
    """Return the cell that asks two questions of earlier lessons."""
    if not lesson:
        return []
    letters = ", ".join(f'"{letter}"' for letter in right_answers(lesson))
    text = (
        "# Warm-up, 2 minutes: two questions of earlier lessons. Write letters, in quotes.\n"
        f"from course_lessons.warm_up import warm_up\n\nwarm_up({lesson}, {letters})"
    )
    return [Cell("code", text, (), 0)]


def _identity(kind: str, source: str, ordinal: int) -> str:
    return hashlib.sha256(f"{kind}\n{ordinal}\n{source}".encode()).hexdigest()[:12]


def execute(node: NotebookNode, folder: Path | None = None) -> list[float]:
    """Run a notebook in this very environment; its outputs and counts are written to `node`.

    It runs in an empty folder, as it would in Colab, unless `folder` is given, and with
    COURSE_STRICT=1: a verdict other than "passed" stops it.

    Returns
    -------
    list of float
        Seconds of each cell; 0 for markdown.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell raises.
    """
    from nbclient import NotebookClient

    begun: dict[int, float] = {}
    seconds = [0.0] * len(node.cells)

    def before(cell: NotebookNode, cell_index: int) -> None:
        begun[cell_index] = time.perf_counter()

    def after(cell: NotebookNode, cell_index: int, execute_reply: dict) -> None:
        seconds[cell_index] = time.perf_counter() - begun[cell_index]

    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as private:
        for attempt in range(3):
            client = NotebookClient(
                node,
                timeout=120,
                record_timing=False,
                coalesce_streams=True,
                resources={"metadata": {"path": str(folder or empty)}},
                kernel_manager_class=kernel_manager(),
                on_cell_execute=before,
                on_cell_executed=after,
            )
            try:
                # the kernel's own log is not the notebook's standard error
                client.execute(env=_environment(private), stderr=subprocess.DEVNULL)
                break
            except RuntimeError:
                # another program may take a kernel's network port before it starts
                if begun or attempt == 2:
                    raise
    _normalise(node)
    return seconds


def kernel_manager() -> type:
    """Return a kernel manager that runs this very Python, whatever `python3` a user registered."""
    import ipykernel.kernelspec
    import traitlets
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    class ThisEnvironment(KernelSpecManager):
        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            facts = ipykernel.kernelspec.get_kernel_dict()
            return KernelSpec(resource_dir=ipykernel.kernelspec.RESOURCES, **facts)

    class Manager(AsyncKernelManager):
        @traitlets.default("kernel_spec_manager")
        def _find_kernels(self) -> KernelSpecManager:
            return ThisEnvironment(parent=self)

    return Manager


def _environment(private: str) -> dict[str, str]:
    """Return the environment of a solution's kernel: the user's own settings stay outside."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("COURSE_") and name not in ("MPLBACKEND", "PYTHONSTARTUP")
    }
    search = [str(lessons.ROOT), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(part for part in search if part)
    environment["COURSE_STRICT"] = "1"
    environment["COURSE_PROGRESS"] = "off"
    environment["IPYTHONDIR"] = private
    return environment


def _normalise(node: NotebookNode) -> None:
    """Take out of an executed notebook what differs from run to run."""
    node.metadata.language_info = {"name": "python"}
    for cell in node.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            if output.output_type in ("display_data", "execute_result"):
                alternatives = {
                    kind: {"alt": about["alt"]}
                    for kind, about in output.metadata.items()
                    if kind.startswith("image/") and "alt" in about
                }
                output.metadata = alternatives
                for kind in output.data:
                    if kind.startswith("image/"):
                        output.data[kind] = output.data[kind].strip() + "\n"


def _describe(node: NotebookNode) -> None:
    """Say of a cell with a picture what it shows: myst-nb takes an alternative from there."""
    for cell in node.cells:
        outputs = cell.get("outputs", [])
        words = [output.get("metadata", {}).get("image/png", {}).get("alt") for output in outputs]
        if said := [text for text in words if text]:
            cell.metadata[_OF_SITES] = {"image": {"alt": " ".join(said)}}


def output_problems(node: NotebookNode) -> list[str]:
    """List what must not stand in a solution's outputs: errors, warnings, paths, addresses."""
    found = []
    for number, cell in enumerate(node.cells):
        for output in cell.get("outputs", []):
            name = f"cell {number} ({cell.source.strip().splitlines()[0]!r})"
            if output.output_type == "error":
                found.append(f"{name}: {output.ename}: {output.evalue}")
            elif output.output_type == "stream" and output.name == "stderr":
                found.append(f"{name}: text on standard error: {output.text.strip()[:200]!r}")
            text = output_text(output)
            for what, pattern in _NEVER_IN_OUTPUTS.items():
                if match := pattern.search(text):
                    around = text[max(match.start() - 40, 0) : match.end() + 40]
                    found.append(f"{name}: {what} in the output: {around!r}")
    return found


def output_text(output: NotebookNode) -> str:
    """Return all text of an output, of every representation that is text."""
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return output.evalue
    return "\n".join(text for kind, text in output.data.items() if kind.startswith("text/"))


def refresh_address(where: address.Address, root: Path = lessons.ROOT) -> int:
    """Write badge and first cell of the address `where` into all notebooks; return their number."""
    count = 0
    for kind in KINDS:
        for target in seals.notebooks(root, kind):
            node = nbformat.read(target, as_version=4)
            made = _address_cells(where, f"{kind}/{target.name}")
            stored = node.cells[1 : 1 + len(made)]  # below the title
            if [cell.cell_type for cell in stored] != [new.kind for new in made]:
                raise ValueError(f"{kind}/{target.name} is of an older form: run `make notebooks`")
            for cell, new in zip(stored, made, strict=True):
                cell.source = new.source
                cell.id = _identity(new.kind, new.source, 1)
            write_whole(target, text_of(node))
            count += 1
    return count


def build(path: Path, where: address.Address, root: Path, force: bool = False) -> list[str]:
    """Build both notebooks of a lesson; return what is wrong, in which case none is written."""
    if problems := lessons.problems(path):
        return problems
    targets = {kind: root / kind / f"{lessons.name(path)}.ipynb" for kind in KINDS}
    made = {kind: notebook(path, kind, where) for kind in KINDS}
    if not force:
        doubtful = [targets[kind] for kind in KINDS if not _lacks_seal(targets[kind], made[kind])]
        if problems := seals.refusals(doubtful):
            return problems
    solution = made["solutions"]
    if force or not _take_outputs(targets["solutions"], solution):
        print(f"{lessons.label(path)}: executing", flush=True)
        try:
            seconds = execute(solution)
        except Exception as error:  # whatever stops a cell is reported with the lesson's name
            return [f"{lessons.label(path)}: {_COLOUR.sub('', str(error))}"]
        _describe(solution)
        if problems := output_problems(solution):
            return [f"{lessons.label(path)}: {problem}" for problem in problems]
        _report(path, solution, seconds)
    for kind in KINDS:
        write_whole(targets[kind], text_of(made[kind]))
    return []


def _lacks_seal(target: Path, made: NotebookNode) -> bool:
    """Tell whether a file is the notebook `made` from before notebooks had seals."""
    stored = seals.read(target)
    if stored is None or seals.is_sealed(stored):
        return False
    executed = any(cell.get("outputs") or cell.get("execution_count") for cell in stored.cells)
    return _cell_difference(stored, made) is None and executed == (target.parent.name == KINDS[1])


def _take_outputs(target: Path, solution: NotebookNode) -> bool:
    """Give `solution` the outputs in the file `target` if all cells say the same; tell whether."""
    stored = seals.read(target)
    if stored is None or [_said(cell) for cell in stored.cells] != [
        _said(cell) for cell in solution.cells
    ]:
        return False
    for cell, old in zip(solution.cells, stored.cells, strict=True):
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = old.outputs, old.execution_count
    _describe(solution)
    return True


def _said(cell: NotebookNode) -> tuple[str, str, str]:
    """Return what a cell's output follows from; its metadata change nothing in that."""
    return cell.cell_type, cell.id, cell.source


def difference(stored: NotebookNode, made: NotebookNode) -> str | None:
    """Say where a stored notebook differs from its source, outputs, counts and seal apart."""
    one, other = (copy.deepcopy(dict(node.metadata)) for node in (stored, made))
    for facts in (one, other):
        facts.get("course", {}).pop(seals.KEY, None)
    if one != other:
        return f"metadata: {one} instead of {other}"
    return _cell_difference(stored, made)


def _cell_difference(stored: NotebookNode, made: NotebookNode) -> str | None:
    if len(stored.cells) != len(made.cells):
        return f"{len(stored.cells)} cells instead of {len(made.cells)}"
    for number, (one, other) in enumerate(zip(stored.cells, made.cells, strict=True)):
        one, other = ({**cell, "metadata": _own(cell)} for cell in (one, other))
        for key in ("cell_type", "id", "source", "metadata"):
            if one[key] != other[key]:
                return f"cell {number}: {key} is {one[key]!r} instead of {other[key]!r}"
    return None


def _own(cell: NotebookNode) -> dict:
    """Return a cell's metadata without what comes from its outputs."""
    return {key: value for key, value in cell.metadata.items() if key != _OF_SITES}


def _report(path: Path, node: NotebookNode, seconds: list[float]) -> None:
    print(
        f"{lessons.label(path)}: {sum(seconds):.1f} s, {len(text_of(node)) / 1000:.0f} kB",
        flush=True,
    )
    if sum(seconds) > SLOWEST_LESSON:
        print(f"  over {SLOWEST_LESSON:.0f} s: make it smaller")
    for number, (cell, taken) in enumerate(zip(node.cells, seconds, strict=True)):
        if taken > SLOWEST_CELL:
            line = cell.source.splitlines()[0]
            print(f"  cell {number} ({line!r}) took {taken:.1f} s, {SLOWEST_CELL:.0f} s at most")


def main(arguments: list[str] | None = None) -> None:
    """Build the notebooks of the lessons named, or of all."""
    parser = argparse.ArgumentParser(prog="python -m tools.build_notebooks", description=__doc__)
    parser.add_argument(
        "lessons", nargs="*", type=Path, help="course_lessons/lessonNN/name.py; none: all"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="execute unchanged lessons as well, and write over edited notebooks",
    )
    parser.add_argument("--check-format", action="store_true", help="check the form, build nothing")
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in options.lessons] or lessons.paths()
    if missing := [lessons.label(path) for path in paths if not path.is_file()]:
        sys.exit(f"no such lesson: {', '.join(missing)}")
    where = address.read()
    problems = []
    for path in paths:
        if options.check_format:
            problems += lessons.problems(path)
        else:
            root = path.parents[2]
            for kind in KINDS:
                (root / kind).mkdir(exist_ok=True)
            problems += build(path, where, root, options.force)
    if not options.check_format and not options.lessons:
        address.refresh_readme(where)
        address.refresh_citation(where)
        address.refresh_instructors()
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
