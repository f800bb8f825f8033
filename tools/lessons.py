"""Read a lesson (py:percent) and hold it to the lesson format.

A lesson's text, ``lessons/lessonNN/name.py``, is a plain Python file cut in cells by lines that
start with ``# %%``. This module cuts it, turns solution blocks into stubs, and lists what is wrong
with a lesson's form. CONTRIBUTING.md describes the format.
"""

import ast
import re
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "### BEGIN SOLUTION"
END = "### END SOLUTION"
IGNORE_OUTPUT = "# NBVAL_IGNORE_OUTPUT"
IGNORE_TAG = "nbval-ignore-output"
TAGS = {"exercise", "check", "long"}
_ABOUT = re.compile(r"^About (\d+)( and a half)? (minute|hour)s?( and a half)?", re.MULTILINE)
OPENING = ("What you will do", "What you will learn", "What you need", "How long it takes")
CLOSING = (
    "What you should be able to say now",
    "Questions",
    "Exercises on your own",
    "Common misconceptions",
    "What to read next",
)
LONGEST_CODE_CELL = 20  # lines
LONGEST_MARKDOWN_CELL = 120  # words, folded answers apart

PLAN = (
    ("00", "The machine in front of you"),
    ("01", "Threads, blocks, grids"),
    ("02", "An image from its SVD"),
    ("03", "Measuring honestly"),
    ("04", "Warps and coalescing"),
    ("05", "Shared memory"),
    ("06", "Reuse, reuse, reuse"),
    ("07", "Reading a profiler"),
    ("08", "Streams"),
    ("09", "A thousand images"),
    ("10", "Reductions"),
    ("11", "The decomposition itself"),
    ("12", "More than one GPU"),
    ("13", "Normalisation and fusion"),
    ("14", "A network in one kernel"),
    ("15", "Your kernel inside PyTorch"),
    ("16", "A VAE from your own kernels"),
    ("17", "Tensor cores"),
    ("18", "A vision transformer"),
    ("19", "What carries over"),
)

_CELL = re.compile(r'# %%(?P<markdown> \[markdown\])?(?: tags=\[(?P<tags>"\w+"(?:, "\w+")*)\])?')
_FOLD = re.compile(r"<details>.*?</details>", re.DOTALL)
_ROOMY = '<details style="margin-bottom: 1em">'
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


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


def paths(root: Path = ROOT) -> list[Path]:
    """Return the lessons' texts below `root`, in order: in each folder the file cut in cells."""
    folders = sorted((root / "lessons").glob("lesson[0-9][0-9]"))
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


def read(path: Path) -> list[Cell]:
    """Return the cells of the lesson in the file `path`."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except LessonError as error:
        raise LessonError(f"{label(path)}: {error}") from None


def title(cells: list[Cell]) -> tuple[str, str]:
    """Return the number and the name of a lesson from its first heading."""
    match = re.match(r"# (\d\d) (.+)", cells[0].source)
    if match is None:
        raise LessonError("the first cell starts with a heading like `# 00 The machine ...`")
    return match[1], match[2].strip()


def duration(cells: list[Cell]) -> str:
    """Return how long a lesson takes by its own words, "About 2 and a half hours": "2½ h"."""
    text = "\n".join(cell.source for cell in cells if cell.kind == "markdown")
    found = _ABOUT.search(text)
    if not found:
        raise LessonError("no line says how long it takes: About 2 hours ..., About 45 minutes ...")
    number, half, unit, later = found.groups()
    return f"{number}{'½' if half or later else ''} {'min' if unit == 'minute' else 'h'}"


def with_nbval_tag(cell: Cell) -> Cell:
    """Return a cell with nbval's tag in place of its marker, which no reader needs to see."""
    lines = cell.source.split("\n")
    kept = [line for line in lines if line.strip() != IGNORE_OUTPUT]
    if cell.kind != "code" or len(kept) == len(lines):
        return cell
    return replace(cell, source="\n".join(kept).strip("\n"), tags=(*cell.tags, IGNORE_TAG))


def stub(source: str) -> str:
    """Take out of a cell's code what a student writes.

    Each solution block becomes ``# your code here`` and ``pass``, and the guess of each
    ``predict("question", 4, exact=True)``, which is the solution's sample, becomes ``...``.
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
    return _without_guesses("\n".join(kept))


def with_room(cell: Cell) -> Cell:
    """Return a cell with room below each folded answer, which else sticks to the next question."""
    return (
        replace(cell, source=cell.source.replace("<details>", _ROOMY))
        if cell.kind == "markdown"
        else cell
    )


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


def _without_guesses(source: str) -> str:
    lines = source.encode().split(b"\n")  # Python's syntax tree counts columns in bytes
    for call in reversed(predictions(source)):
        if guesses := call.args[1:]:
            first, last = guesses[0], guesses[-1]
            row, column = first.lineno - 1, first.col_offset
            rest = lines[last.end_lineno - 1][last.end_col_offset :]
            lines[row : last.end_lineno] = [lines[row][:column] + b"..." + rest]
    return b"\n".join(lines).decode()


def problems(path: Path) -> list[str]:
    """List what is wrong with the form of the lesson in the file `path`; empty when all is well."""
    if not re.fullmatch(r"lesson\d\d/[a-z][a-z0-9_]*\.py", label(path)):
        return [f"{label(path)}: a lesson's file is named like lesson00/machine.py"]
    try:
        cells = read(path)
        number, _ = title(cells)
    except LessonError as error:
        return [f"{label(path)}: {str(error).removeprefix(f'{label(path)}: ')}"]
    found = [] if path.parent.name == f"lesson{number}" else [f"the heading's number is {number}"]
    found += _heading_problems(cells)
    found += _exercise_problems(cells)
    for cell in cells:
        found += [f"{cell}: unknown tag {tag!r}" for tag in cell.tags if tag not in TAGS]
        found += _markdown_problems(cell) if cell.kind == "markdown" else _code_problems(cell)
    return [f"{label(path)}: {problem}" for problem in found]


def _headings(cells: list[Cell]) -> list[tuple[str, str]]:
    """Return the level-2 headings with the text below each."""
    text = "\n\n".join(cell.source for cell in cells if cell.kind == "markdown")
    text = _FENCE.sub(lambda fence: fence[0].replace("\n#", "\n "), text)
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return [(name.strip(), below) for name, below in zip(parts[::2], parts[1::2], strict=True)]


def _heading_problems(cells: list[Cell]) -> list[str]:
    headings = _headings(cells)
    names = [name for name, _ in headings]
    found = []
    if tuple(names[: len(OPENING)]) != OPENING:
        found.append(f"it opens with the headings {', '.join(OPENING)}; it has {names[:4]}")
    if tuple(names[-len(CLOSING) :]) != CLOSING:
        found.append(f"it closes with the headings {', '.join(CLOSING)}; it has {names[-5:]}")
    if found:
        return found
    body = names[len(OPENING) : -len(CLOSING)]
    for position, name in enumerate(body, start=1):
        if not name.startswith(f"{position} "):
            found.append(f"heading {name!r}: the body's headings are numbered, this is {position}")
    below = dict(headings)
    found += [
        f"nothing stands below {name!r}" for name in OPENING + CLOSING if not below[name].strip()
    ]
    if not _ABOUT.search(below["How long it takes"]):
        found.append("'How long it takes' begins About 45 minutes, or About 2 and a half hours")
    if not _FOLD.search(below["Questions"]):
        found.append("'Questions' folds its answers in <details>")
    if len(re.findall(r"\]\(https://", below["What to read next"])) < 2:
        found.append("'What to read next' has two links or more, as in [name](https://...)")
    return found


def _exercise_problems(cells: list[Cell]) -> list[str]:
    found = []
    unchecked: Cell | None = None
    for cell in cells:
        if "exercise" in cell.tags:
            if unchecked is not None:
                found.append(f"{unchecked}: no `check` cell follows before the next exercise")
            unchecked = cell
        elif "check" in cell.tags:
            unchecked = None
            if not _is_one_check(cell.source):
                found.append(f'{cell}: a check cell is one call like check("name", function)')
    if unchecked is not None:
        found.append(f"{unchecked}: no `check` cell follows")
    return found


def _is_one_check(source: str) -> bool:
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return False
    call = getattr(body[0], "value", None) if len(body) == 1 else None
    return (
        isinstance(call, ast.Call)
        and getattr(call.func, "id", None) == "check"
        and len(call.args) >= 2
        and isinstance(call.args[0], ast.Constant)
    )


def _markdown_problems(cell: Cell) -> list[str]:
    text = _FOLD.sub("", cell.source)
    found = []
    if text.count("<details>") or text.count("</details>"):
        found.append(f"{cell}: <details> and </details> do not pair within the cell")
    words = len(re.sub(r"\]\([^)]*\)", "]", text).split())
    if words > LONGEST_MARKDOWN_CELL:
        found.append(f"{cell}: {words} words, {LONGEST_MARKDOWN_CELL} at most; cut it in two")
    return found


def _code_problems(cell: Cell) -> list[str]:
    found = _marker_problems(cell)
    for name, source in (("solution", cell.source), ("stub", stub(cell.source))):
        try:
            compile(source, "<cell>", "exec")
        except SyntaxError as error:
            found.append(
                f"{cell}: the {name} does not compile: {error.msg}, its line {error.lineno}"
            )
            return found
    for call in predictions(cell.source):
        guesses = call.args[1:]
        if not guesses or any(getattr(guess, "value", 0) is ... for guess in guesses):
            question = ast.unparse(call.args[0]) if call.args else "a question"
            found.append(f"{cell}: predict has no sample guess for {question}")
    lines = _counted_lines(cell.source)
    if lines > LONGEST_CODE_CELL and "long" not in cell.tags:
        found.append(
            f'{cell}: {lines} lines, {LONGEST_CODE_CELL} at most; cut it, or tag it "long"'
        )
    return found


def _marker_problems(cell: Cell) -> list[str]:
    found = []
    opened = None
    blocks = 0
    for line in cell.source.split("\n"):
        indent, marker = len(line) - len(line.lstrip()), line.strip()
        if "NBVAL_" in line.upper() and marker != IGNORE_OUTPUT:
            found.append(f"{cell}: {marker!r} must be `{IGNORE_OUTPUT}`, alone on its line")
        if marker == BEGIN:
            if opened is not None:
                found.append(f"{cell}: a solution block opens inside another")
            opened, blocks = indent, blocks + 1
        elif marker == END:
            if opened is None:
                found.append(f"{cell}: a solution block ends that never began")
            elif indent != opened:
                found.append(f"{cell}: the two markers of a solution block are indented alike")
            opened = None
        elif re.search(r"(BEGIN|END)\s+SOLUTION", line, flags=re.IGNORECASE):
            found.append(f"{cell}: {marker!r} must be `{BEGIN}` or `{END}`, alone on its line")
        elif opened is not None and marker and indent < opened:
            found.append(f"{cell}: {marker!r} leaves its solution block's indentation")
    if opened is not None:
        found.append(f"{cell}: a solution block does not end")
    if blocks and "exercise" not in cell.tags:
        found.append(f'{cell}: it has a solution block; tag it "exercise"')
    if not blocks and "exercise" in cell.tags:
        found.append(f"{cell}: an exercise has a solution block")
    return found


def _counted_lines(source: str) -> int:
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
