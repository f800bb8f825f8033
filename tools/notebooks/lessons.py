"""Read a lesson (py:percent) and hold it to the lesson format.

A lesson's text, ``course_lessons/lessonNN/name.py``, is a plain Python file cut in cells by lines
that start with ``# %%``. This module finds lessons, reads them, and lists what is wrong with their
form; `cells` cuts them, `sections` divides core from deepening, and `links` links lesson to lesson.
CONTRIBUTING.md describes the format.
"""

import ast
import re
from pathlib import Path

from tools.notebooks import links, minutes, sections
from tools.notebooks.cells import (
    BEGIN,
    BEGIN_ORDER,
    END,
    END_ORDER,
    IGNORE_OUTPUT,
    IGNORE_TAG,
    ROOT,
    Cell,
    LessonError,
    checked,
    counted_lines,
    label,
    name,
    out_of_order,
    parse,
    paths,
    predictions,
    read,
    stub,
    with_nbval_tag,
    with_space,
    without_guesses,
)

__all__ = [
    "IGNORE_TAG",
    "ROOT",
    "Cell",
    "LessonError",
    "checked",
    "label",
    "name",
    "out_of_order",
    "parse",
    "paths",
    "predictions",
    "read",
    "stub",
    "with_nbval_tag",
    "with_space",
    "without_guesses",
]

TAGS = {"exercise", "check", "long"}
OPENING = ("What you will do", "What you will learn", "What you need", "How long it takes")
CLOSING = (
    "What you should be able to say now",
    "Questions",
    "Exercises on your own",
    "Common misconceptions",
    "What to read next",
)
#: Of a lesson that begins with a picture at once, as the first does: no aims, no list of answers.
SHORT_OPENING = OPENING[2:]
SHORT_CLOSING = CLOSING[3:]
LONGEST_CODE_CELL = 20  # lines
LONGEST_MARKDOWN_CELL = 120  # words, folded answers apart

PLAN = (
    ("00", "Your picture, your kernel"),
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

_FOLD = re.compile(r"<details>.*?</details>", re.DOTALL)
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def title(cells: list[Cell]) -> tuple[str, str]:
    """Return the number and the name of a lesson from its first heading."""
    match = re.match(r"# (\d\d) (.+)", cells[0].source)
    if match is None:
        raise LessonError("the first cell starts with a heading like `# 00 The machine ...`")
    return match[1], match[2].strip()


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
    found += _heading_problems(cells) or sections.problems(cells)
    found += _exercise_problems(cells)
    built = {name(each)[:2]: name(each) for each in paths(path.parents[2])}
    for cell in cells:
        found += [f"{cell}: unknown tag {tag!r}" for tag in cell.tags if tag not in TAGS]
        if cell.kind == "markdown":
            found += _markdown_problems(cell) + links.problems(cell, number, built)
        else:
            found += _code_problems(cell)
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
    short = title(cells)[0] == "00" and names[:1] == [SHORT_OPENING[0]]
    opening, closing = (SHORT_OPENING, SHORT_CLOSING) if short else (OPENING, CLOSING)
    found = []
    if tuple(names[: len(opening)]) != opening:
        found.append(f"it opens with the headings {', '.join(opening)}; it has {names[:4]}")
    if tuple(names[-len(closing) :]) != closing:
        found.append(f"it closes with the headings {', '.join(closing)}; it has {names[-5:]}")
    if found:
        return found
    body = names[len(opening) : -len(closing)]
    for position, heading in enumerate(body, start=1):
        if not heading.startswith(f"{position} "):
            found.append(
                f"heading {heading!r}: the body's headings are numbered, this is {position}"
            )
    below = dict(headings)
    found += [
        f"nothing stands below {name!r}"
        for name in opening[:-1] + closing  # how long it takes is said for the author
        if not below[name].strip()
    ]
    if not short and not _FOLD.search(below["Questions"]):
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
            if unchecked is None:
                found.append(f"{cell}: no `exercise` cell stands above it")
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
    words = minutes.words(text)
    if words > LONGEST_MARKDOWN_CELL:
        found.append(f"{cell}: {words} words, {LONGEST_MARKDOWN_CELL} at most; cut it in two")
    return found


def _code_problems(cell: Cell) -> list[str]:
    found = _marker_problems(cell)
    for what, source in (("solution", cell.source), ("stub", stub(cell.source))):
        try:
            compile(source, "<cell>", "exec")
        except SyntaxError as error:
            found.append(
                f"{cell}: the {what} does not compile: {error.msg}, its line {error.lineno}"
            )
            return found
    for call in predictions(cell.source):
        guesses = call.args[1:]
        if not guesses or any(getattr(guess, "value", 0) is ... for guess in guesses):
            question = ast.unparse(call.args[0]) if call.args else "a question"
            found.append(f"{cell}: predict has no sample guess for {question}")
    lines = counted_lines(cell.source)
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
        if marker in (BEGIN, BEGIN_ORDER):
            if opened is not None:
                found.append(f"{cell}: a solution block opens inside another")
            opened, blocks = indent, blocks + 1
        elif marker in (END, END_ORDER):
            if opened is None:
                found.append(f"{cell}: a solution block ends that never began")
            elif indent != opened:
                found.append(f"{cell}: the two markers of a solution block are indented alike")
            opened = None
        elif re.search(r"(BEGIN|END)\s+(SOLUTION|ORDER)", line, flags=re.IGNORECASE):
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
