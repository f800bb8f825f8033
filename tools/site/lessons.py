"""Lessons as pages: a solution's notebook with its answers folded, and the index of them all.

Outputs are those that the solution keeps; nothing is executed.
"""

import base64
import copy
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode, v4

from tools import address
from tools.notebooks import lessons, minutes, sections
from tools.notebooks.lessons import stub
from tools.publish import readme_picture, tracks

_MARKER = re.compile(r"^ *### (?:BEGIN|END) (?:SOLUTION|ORDER)\n?", re.MULTILINE)
_GUESS = "· "  # how an output begins that repeats a guess
_RANGE = re.compile(r"\]\((\d\d)_\w+\.ipynb\)(\s+to\s+)?")
#: Where the first picture of a lesson says little about it, words of a better one's alternative.
PICTURES = {
    "01": "elements in 5 rows",
    "03": "a roofline",
    "06": "a roofline",
    "09": "Four stages",
}


@dataclass(frozen=True)
class Lesson:
    """What the index says of a lesson.

    Attributes
    ----------
    name : str
        Of its notebooks, ``05_shared_memory``.
    title, summary : str
    core : str
        Minutes, "45–70".
    duration : str
        Of all of it, "3 h".
    needs : tuple of str
        The numbers of the lessons that it builds on.
    picture : bytes
        PNG.
    alternative : str
        The picture in words.
    """

    name: str
    title: str
    summary: str
    core: str
    duration: str
    needs: tuple[str, ...]
    picture: bytes
    alternative: str

    @property
    def number(self) -> str:
        """Such as "05"."""
        return self.name[:2]


def write(root: Path, source: Path) -> None:
    """Write a page for each lesson of the repository `root`, and the index, below `source`."""
    where = address.read(root)
    for folder in ("lessons", "downloads", "pictures"):
        (source / folder).mkdir(exist_ok=True)
    found = []
    for path in lessons.paths(root):
        name = lessons.name(path)
        solution = nbformat.read(root / "solutions" / f"{name}.ipynb", as_version=4)
        lesson = described(path, solution)
        found.append(lesson)
        (source / "pictures" / f"{name}.png").write_bytes(lesson.picture)
        shutil.copy(root / "notebooks" / f"{name}.ipynb", source / "downloads")
        nbformat.write(page(solution, lesson, where), source / "lessons" / f"{name}.ipynb")
    shutil.copy(root / readme_picture.FILE, source)
    index = source / "index.md"
    text = index.read_text(encoding="utf-8")
    for block, made in (
        ("cards", cards(found)),
        ("picture", f"![{readme_picture.words()}]({Path(readme_picture.FILE).name})"),
        ("tracks", tracks.table(root)),
        ("contents", "\n".join(f"lessons/{lesson.name}" for lesson in found)),
    ):
        text = text.replace(f"<!-- generated: {block} -->", made)
    index.write_text(text, encoding="utf-8")


def described(path: Path, solution: NotebookNode) -> Lesson:
    """Take what the index says of a lesson from its text, and the picture from its solution."""
    cells = lessons.read(path)
    number, title = lessons.title(cells)
    times = sections.times(cells)
    needs = next(cell.source for cell in cells if cell.source.startswith("## What you need"))
    wanted = PICTURES.get(number, "")
    found = [(picture, words) for picture, words in _pictures(solution) if wanted in words]
    if not found:
        raise ValueError(
            f"lesson {number} has no picture {wanted!r} for the index: change PICTURES in "
            "tools/site/lessons.py"
        )
    picture, words = found[0]
    return Lesson(
        name=lessons.name(path),
        title=title,
        summary=cells[0].source.split("\n\n")[1].replace("\n", " "),
        core=minutes.span(times.core),
        duration=tracks.hours(times.whole),
        needs=_needed(needs),
        picture=picture,
        alternative=words,
    )


def _needed(text: str) -> tuple[str, ...]:
    """Return the numbers of the lessons that a text links to: ``03 to 05`` are three."""
    found: set[int] = set()
    first = None
    for link in _RANGE.finditer(text):
        number = int(link[1])
        found |= set(range(number if first is None else first, number + 1))
        first = number if link[2] else None
    return tuple(f"{number:02}" for number in sorted(found))


def _pictures(notebook: NotebookNode):
    """Yield the pictures of a notebook, as PNG and in words."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if png := output.get("data", {}).get("image/png"):
                yield base64.b64decode(png), output.metadata["image/png"]["alt"]


# --- a page --------------------------------------------------------------------------------------


def page(solution: NotebookNode, lesson: Lesson, where: address.Address) -> NotebookNode:
    """Return a lesson's solution as Sphinx reads it: answers folded, links to the exercises."""
    made = copy.deepcopy(solution)
    title, _badge, *rest = made.cells
    made.cells = [title, v4.new_markdown_cell(_head(lesson, where))]
    for cell in rest:
        made.cells += _folded(cell) if cell.cell_type == "code" else [_for_pages(cell)]
    for number, cell in enumerate(made.cells):
        cell.id = f"cell-{number}"
    return made


def _head(lesson: Lesson, where: address.Address) -> str:
    notebook = f"notebooks/{lesson.name}.ipynb"
    colab = re.search(r"\]\((https:[^)]*blob[^)]*)\)$", where.badge(notebook))[1]
    return (
        f"Core {lesson.core} minutes, all of it {lesson.duration}. Here every answer is folded: "
        "think first, then unfold. To answer yourself, take the exercises:\n\n"
        f"[Open in Colab]({colab}){{.site-button}} "
        f"{{download}}`Download the notebook <../downloads/{lesson.name}.ipynb>`"
    )


def _for_pages(cell: NotebookNode) -> NotebookNode:
    """Give folded texts the look that code has when folded."""
    cell.source = re.sub(r"<details[^>]*>", '<details class="site-fold">', cell.source)
    return cell


def _folded(cell: NotebookNode) -> list[NotebookNode]:
    """Return the cells that a code cell becomes: an exercise's answer is folded below its stub."""
    tags = cell.metadata.get("tags", [])
    if "remove-cell" in tags:
        return []
    about = cell.metadata.setdefault("mystnb", {})
    if "exercise" in tags:
        cell.metadata["tags"] = [*tags, "hide-input"]
        about["code_prompt_show"] = "Show an answer"
        about["code_prompt_hide"] = "Hide the answer"
        asked = v4.new_markdown_cell(f"```python\n{stub(cell.source)}\n```")
        cell.source = _MARKER.sub("", cell.source).rstrip("\n")
        return [asked, cell]
    if "predict.answer(" in cell.source:
        cell.metadata["tags"] = [*tags, "hide-output"]
        about["code_prompt_show"] = "Show what came out"
        about["code_prompt_hide"] = "Hide what came out"
    if lessons.predictions(cell.source):
        cell.source = stub(cell.source)
        cell.outputs = [output for output in cell.outputs if not _repeats_a_guess(output)]
    return [cell]


def _repeats_a_guess(output: NotebookNode) -> bool:
    return output.get("data", {}).get("text/plain", "").startswith(_GUESS)


# --- the index -----------------------------------------------------------------------------------


def cards(found: list[Lesson]) -> str:
    """Return a card for each lesson: picture, title, minutes, what it needs, what it is about."""
    names = {lesson.number: lesson.name for lesson in found}
    made = []
    for lesson in found:
        needs = ", ".join(
            f"[{number}](lessons/{names[number]}.ipynb)"
            for number in lesson.needs
            if number in names
        )
        made.append(
            f"""::::{{grid-item-card}}
:img-top: pictures/{lesson.name}.png
:img-alt: {" ".join(lesson.alternative.split())}

**[{lesson.number} {lesson.title}](lessons/{lesson.name}.ipynb)**

{lesson.summary}

:::{{card-footer}}
Core {lesson.core} min · all {lesson.duration} · needs {needs or "nothing before it"}
:::
::::"""
        )
    return ":::::{grid} 1 2 2 3\n:gutter: 3\n\n" + "\n\n".join(made) + "\n:::::"
