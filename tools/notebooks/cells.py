"""Find lessons, cut their text into cells, and make of these what students get."""

import ast
import re
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BEGIN = "### BEGIN SOLUTION"
END = "### END SOLUTION"
BEGIN_ORDER = "### BEGIN ORDER"
END_ORDER = "### END ORDER"
IGNORE_OUTPUT = "# NBVAL_IGNORE_OUTPUT"
IGNORE_TAG = "nbval-ignore-output"

_CELL = re.compile(r'# %%(?P<markdown> \[markdown\])?(?: tags=\[(?P<tags>"\w+"(?:, "\w+")*)\])?')
_WARM_UP = re.compile(r"(\bwarm_up\(\d+)(?:, \"[abc]\"){2}\)")
_FOR_TOOLS = re.compile(r" *# (?:fmt: \w+|noqa\b.*|type: ignore\b.*)$", re.MULTILINE)
_ROOMY = '<details style="margin-bottom: 1em">'


class LessonError(ValueError):
    """A lesson's source that cannot be cut into cells."""


@dataclass(frozen=True)
class Cell:
    """One cell of a lesson: its text, its tags, and the line of the file it starts on."""

    kind: str  # "markdown" or "code"
    source: str
    tags: tuple[str, ...]
    line: int

    def __str__(self) -> str:
        return f"the {self.kind} cell at line {self.line}"


def parse(text: str) -> list[Cell]:
    """Cut a lesson's text into cells.

    Raises
    ------
    LessonError
        If text stands before the first cell, a cell's first line is not understood, a cell is
        empty, or a markdown cell has a line that is no comment.
    """
    cells: list[Cell] = []
    head: re.Match | None = None
    start = 0
    lines: list[str] = []

    def finish() -> None:
        if head is None:
            if any(line.strip() for line in lines):
                raise LessonError("line 1: a lesson starts with `# %% [markdown]`, nothing before")
            return
        kind = "markdown" if head["markdown"] else "code"
        source = _uncomment(lines, start) if kind == "markdown" else "\n".join(lines)
        source = source.strip("\n")
        if not source.strip():
            raise LessonError(f"line {start}: the cell is empty")
        tags = tuple(re.findall(r"\w+", head["tags"] or ""))
        cells.append(Cell(kind, source, tags, start))

    for number, line in enumerate(text.splitlines(), start=1):
        line = line.rstrip()
        if line.startswith("# %%"):
            finish()
            head, start, lines = _CELL.fullmatch(line), number, []
            if head is None:
                raise LessonError(
                    f"line {number}: {line!r} is no cell's first line; write `# %%`, "
                    '`# %% [markdown]` or `# %% tags=["exercise"]`'
                )
        else:
            lines.append(line)
    finish()
    if not cells:
        raise LessonError("line 1: the lesson has no cell")
    return cells


def _uncomment(lines: list[str], start: int) -> str:
    text = []
    for number, line in enumerate(lines, start=start + 1):
        if line and line != "#" and not line.startswith("# "):
            raise LessonError(f"line {number}: a line of a markdown cell starts with `# `")
        text.append(line[2:])
    return "\n".join(text)


def paths(root: Path = ROOT) -> list[Path]:
    """Return the lessons' texts below `root`, in order: in each folder the file cut in cells."""
    folders = sorted((root / "course_lessons").glob("lesson[0-9][0-9]"))
    return [path for folder in folders for path in sorted(folder.glob("*.py")) if _is_text(path)]


def _is_text(path: Path) -> bool:
    with path.open(encoding="utf-8") as file:
        return file.readline().startswith("# %%")


def name(path: Path) -> str:
    """Return a lesson's whole name, as its notebooks have it: ``05_shared_memory``."""
    return f"{path.parent.name.removeprefix('lesson')}_{path.stem}"


def label(path: Path) -> str:
    """Return what messages call a lesson's text: ``lesson05/shared_memory.py``."""
    return f"{path.parent.name}/{path.name}"


def read(path: Path) -> list[Cell]:
    """Return the cells of the lesson in the file `path`."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except LessonError as error:
        raise LessonError(f"{label(path)}: {error}") from None


def with_nbval_tag(cell: Cell) -> Cell:
    """Return a cell with nbval's tag in place of its marker, and without marks of a formatter."""
    if cell.kind == "code":
        cell = replace(cell, source=_FOR_TOOLS.sub("", cell.source))
    lines = cell.source.split("\n")
    kept = [line for line in lines if line.strip() != IGNORE_OUTPUT]
    if cell.kind != "code" or len(kept) == len(lines):
        return cell
    return replace(cell, source="\n".join(kept).strip("\n"), tags=(*cell.tags, IGNORE_TAG))


def with_space(cell: Cell) -> Cell:
    """Return a cell with space below each folded answer, which else sticks to the next question."""
    return (
        replace(cell, source=cell.source.replace("<details>", _ROOMY))
        if cell.kind == "markdown"
        else cell
    )


def stub(source: str) -> str:
    """Take out of a cell's code what a student writes.

    Each solution block becomes ``# your code here`` and ``pass``, the statements to be ordered
    stand in another, and the guess of each ``predict("question", 4, exact=True)``, which is the
    solution's sample, becomes ``...``.
    """
    kept: list[str] = []
    inside = False
    for line in source.split("\n"):
        marker = line.strip()
        if marker == BEGIN:
            indent = line[: len(line) - len(line.lstrip())]
            kept += [f"{indent}# your code here", f"{indent}pass"]
            inside = True
        elif marker == END:
            inside = False
        elif not inside:
            kept.append(line)
    return without_guesses(out_of_order("\n".join(kept)))


def out_of_order(source: str) -> str:
    """Return a cell's code with the statements of each order block sorted, as a student gets them.

    What stands behind or above a statement goes with it.
    """
    lines = source.split("\n")
    while BEGIN_ORDER in (markers := [line.strip() for line in lines]):
        first, last = markers.index(BEGIN_ORDER), markers.index(END_ORDER)
        block = lines[first + 1 : last]
        ends = [node.end_lineno for node in ast.parse(textwrap.dedent("\n".join(block))).body]
        parts = [block[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        parts.sort(key=lambda part: ast.unparse(ast.parse(textwrap.dedent("\n".join(part)))))
        indent = lines[first][: len(lines[first]) - len(markers[first])]
        head = f"{indent}# put these {len(parts)} statements in order"
        lines[first : last + 1] = [head, *(line for part in parts for line in part)]
    return "\n".join(lines)


def predictions(source: str) -> list[ast.Call]:
    """Return the calls ``predict("question", guess, ...)`` of a cell's code, in order."""
    if "predict(" not in source:
        return []
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a markdown cell
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = [call for call in calls if getattr(call.func, "id", None) == "predict"]
    return sorted(calls, key=lambda call: call.lineno)


def checked(source: str) -> str:
    """Return the name of the exercise that a check cell, ``check("name", function)``, is about."""
    return ast.parse(source).body[0].value.args[0].value


def without_guesses(source: str) -> str:
    """Return a cell's code with dots in place of each prediction's and each warm-up's answer."""
    source = _WARM_UP.sub("\\1, ..., ...)", source)
    lines = source.encode().split(b"\n")  # Python's syntax tree counts columns in bytes
    for call in reversed(predictions(source)):
        if guesses := call.args[1:]:
            first, last = guesses[0], guesses[-1]
            row, column = first.lineno - 1, first.col_offset
            rest = lines[last.end_lineno - 1][last.end_col_offset :]
            lines[row : last.end_lineno] = [lines[row][:column] + b"..." + rest]
    return b"\n".join(lines).decode()


def written_lines(source: str) -> int:
    """Count the lines that a student writes: those of the solution blocks, comments apart."""
    inside, count = False, 0
    for line in map(str.strip, source.split("\n")):
        if line in (BEGIN, END):
            inside = line == BEGIN
        elif inside and line and not line.startswith("#"):
            count += 1
    return count


def counted_lines(source: str) -> int:
    """Count the lines of a code cell without blank lines, comments, markers and docstrings."""
    lines = {
        number
        for number, line in enumerate(source.split("\n"), start=1)
        if line.strip() and not line.strip().startswith("#")
    }
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            text = node.body[0]
            lines -= set(range(text.lineno, text.end_lineno + 1))
    return len(lines)
