"""How long a lesson takes: one rule, of which all minutes in the repository are made.

Adults read plain texts at 238 words a minute (Brysbaert 2019); half that with code between the
lines. The other figures are estimates. They are fitted anew from times that readers send, never
from one reviewer's. Who knows CUDA already takes `FAST` of it.
"""

import re
from collections.abc import Iterable

from tools.notebooks import cells as cutting
from tools.notebooks.cells import Cell

WORDS_A_MINUTE = 110
FOLDED_WORDS_A_MINUTE = 220
LINES_A_MINUTE = 10  # of code that is shown
PICTURE = 1.0
OUTPUT = 0.5  # text below a cell
PREDICTION = 2.0
WARM_UP = 2.0  # the two questions at the head of every lesson but the first
FILL = 5.0  # at most three blanks
ORDER = 8.0
WRITE = ((4, 8.0), (8, 10.0), (12, 12.0))  # at most so many lines; a core has none longer
QUESTION = 2.0  # of the closing, with its answer
FAST = 0.65

MOST_BLANKS = 3
MOST_SILENT = 2.0  # minutes of reading without an output
ORDER_BLOCK = "### BEGIN ORDER"
_BADGE_LINE = re.compile(r"^<kbd>\w+</kbd>.*$", re.MULTILINE)
_FOLD = re.compile(r"<details.*?</details>", re.DOTALL)
_FENCE = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_QUESTIONS = re.compile(r"^## Questions\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_TITLE = re.compile(r"# (?!00 )\d\d ")  # of a lesson that has a warm-up below it
_ASKED = re.compile(r"^(?:[*]{2})?\d+[.]", re.MULTILINE)
# Calls after which a picture stands below a cell, by what the course's pictures are made with.
_DRAWS = re.compile(r"\b(plots|pictures)\.|\.(show|draw|heat_map|chart)\(|\w_picture\(")


def taken(cells: Iterable[Cell]) -> float:
    """Return how many minutes some cells take a reader who is new to their subject."""
    return sum(map(_of_one, cells))


def in_fives(minutes: float) -> int:
    """Return minutes rounded to fives, five at least."""
    return max(5 * round(minutes / 5), 5)


def span(minutes: float) -> str:
    """Return minutes as a reader sees them, from who knows CUDA to who is new: "45–70"."""
    least, most = in_fives(FAST * minutes), in_fives(minutes)
    return f"{least}–{most}" if least < most else str(most)


def silent(cells: Iterable[Cell]) -> list[tuple[Cell, float]]:
    """Return where a reader has no output for longer than `MOST_SILENT`, and for how many minutes.

    The cell is the one that ends it. The closing, with its questions, counts nothing.
    """
    found, read = [], 0.0
    for cell in cells:
        if _TITLE.match(cell.source):
            continue  # the warm-up says something
        if cell.kind == "markdown":
            if _QUESTIONS.search(cell.source):
                break
            read += _of_text(_FOLD.sub("", cell.source))
            continue
        if "check" not in cell.tags:
            read += _shown_lines(cell) / LINES_A_MINUTE
        guesses = cutting.predictions(cell.source)
        if "exercise" in cell.tags:
            continue  # its check says something
        if guesses or "check" in cell.tags or _DRAWS.search(cell.source) or _says(cell):
            if read > MOST_SILENT:
                found.append((cell, read))
            read = 0.0
    return found


def words(markdown: str) -> int:
    """Count the words of a text; badges, targets of links and lines of tables are none."""
    text = re.sub(r"\]\([^)]*\)", "]", _BADGE_LINE.sub("", markdown))
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def words_of(cells: Iterable[Cell]) -> tuple[int, int]:
    """Count the words of cells that are seen, and those that are folded."""
    texts = [cell.source for cell in cells if cell.kind == "markdown"]
    folded = sum(words(fold) for text in texts for fold in _FOLD.findall(text))
    return sum(words(_FOLD.sub("", text)) for text in texts), folded


def lines_to_write(source: str) -> int:
    """Return the lines that an exercise asks for, 0 where blanks are filled or lines ordered."""
    lines = cutting.written_lines(source)
    filled = lines <= MOST_BLANKS and lines == source.count(cutting.BEGIN)
    return 0 if filled or ORDER_BLOCK in source else lines


def _of_one(cell: Cell) -> float:
    if cell.kind == "markdown":
        return _of_text(cell.source)
    if "check" in cell.tags:
        return 0.0
    shown = _shown_lines(cell) / LINES_A_MINUTE
    if "exercise" in cell.tags:
        return shown + _of_exercise(cell.source)
    if guesses := len(cutting.predictions(cell.source)):
        return shown + PREDICTION * guesses
    return shown + (PICTURE if _DRAWS.search(cell.source) else OUTPUT if _says(cell) else 0.0)


def _shown_lines(cell: Cell) -> int:
    return cutting.counted_lines(cutting.stub(cell.source))


def _of_text(source: str) -> float:
    questions = "".join(_QUESTIONS.findall(source))
    asked = len(_ASKED.findall(_FOLD.sub("", questions)))
    rest = _QUESTIONS.sub("", source)
    code = _FENCE.findall(rest)
    rest = _FENCE.sub("", rest)
    folded = sum(map(words, _FOLD.findall(rest)))
    return (
        QUESTION * asked
        + words(_FOLD.sub("", rest)) / WORDS_A_MINUTE
        + folded / FOLDED_WORDS_A_MINUTE
        + sum(text.count("\n") for text in code) / LINES_A_MINUTE
    )


def _of_exercise(source: str) -> float:
    if ORDER_BLOCK in source:
        return ORDER
    lines = lines_to_write(source)
    if not lines:
        return FILL
    return next(
        (time for most, time in WRITE if lines <= most), WRITE[-1][1] + lines - WRITE[-1][0]
    )


def _says(cell: Cell) -> bool:
    """Whether text stands below a code cell: what it prints, or its last expression."""
    if "print(" in cell.source:
        return True
    last = cell.source.rstrip().split("\n")[-1]
    return bool(re.match(r"[a-z][\w.]*[(\[.]|[a-z]\w*$", last)) and "=" not in last.split("(")[0]
