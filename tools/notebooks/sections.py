"""A lesson's sections: which are its core, their minutes, and whether the core runs alone.

Below each numbered heading stands a badge, ``<kbd>core</kbd> 15 minutes`` or ``<kbd>deepening</kbd>
10 minutes``, and *How long it takes* sums them up. The minutes follow from one rule,
``section_minutes``. ``python -m tools.notebooks.sections course_lessons/lessonNN/name.py`` writes
them.
"""

import argparse
import ast
import re
import symtable
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.notebooks import cells as cutting
from tools.notebooks.cells import Cell

# The rule. Fitted to the minutes that a reviewer took for the fourteen lessons of the time: it
# misses them by 8% in the mean, and by 14% at most.
WORDS_A_MINUTE = 120
MINUTES_A_CELL = 2 / 3  # to read a code cell, run it and look at what it prints or draws
MINUTES_A_PREDICTION = 2  # to work out a guess, and to see why it was wrong
MINUTES_AN_EXERCISE = {"kernel": 5, "function": 6}  # to understand it, and to read verdicts
MINUTES_A_LINE = 1  # that the solution has

LONGEST_CORE = 120  # minutes: a lab
MOST_CORE_CELLS = (
    70  # with the opening, the closing and the two cells that every notebook begins with
)
MOST_CELLS = 150
GENERATED_CELLS = 2

ABOUT = re.compile(r"^About (\d+)( and a half)? (minute|hour)s?( and a half)?", re.MULTILINE)
_HEADING = re.compile(r"## (\d+) .+")
_BADGE = re.compile(r"## \d+ [^\n]+\n\n<kbd>(core|deepening)</kbd> (\d+) minutes(?:\n\n|$)")
_BADGE_LINE = re.compile(r"^<kbd>\w+</kbd> \d+ minutes$", re.MULTILINE)
_TOP = re.compile(r"Core: .+?, \d+\s+minutes\.(?:\s+Deepening: .+?, \d+\s+minutes\.)?", re.DOTALL)


@dataclass(frozen=True)
class Section:
    """A numbered section: its cells, and what its badge says; ("", 0) where it has none."""

    number: int
    cells: tuple[Cell, ...]
    kind: str
    minutes: int


def sections(cells: list[Cell]) -> list[Section]:
    """Return a lesson's numbered sections, without the opening and the closing."""
    found: list[list[Cell]] = []
    for cell in cells:
        headings = re.findall(r"^## (.+)$", cell.source, flags=re.MULTILINE)
        if cell.kind == "markdown" and _HEADING.match(cell.source):
            found.append([])
        elif found and cell.kind == "markdown" and "What you should be able to say now" in headings:
            break
        if found:
            found[-1].append(cell)
    made = []
    for part in found:
        badge = _BADGE.match(part[0].source)
        kind, minutes = (badge[1], int(badge[2])) if badge else ("", 0)
        made.append(
            Section(int(_HEADING.match(part[0].source)[0].split()[1]), tuple(part), kind, minutes)
        )
    return made


def section_minutes(cells: tuple[Cell, ...]) -> int:
    """Return how many minutes a section takes by the rule above, in fives, five at least."""
    minutes = 0.0
    for cell in cells:
        if cell.kind == "markdown":
            minutes += words(cell.source) / WORDS_A_MINUTE
        elif "exercise" in cell.tags:
            kind = "kernel" if "@cuda.jit" in cell.source else "function"
            minutes += MINUTES_AN_EXERCISE[kind]
            minutes += MINUTES_A_LINE * cutting.written_lines(cell.source)
        elif "check" not in cell.tags:
            minutes += MINUTES_A_CELL
            minutes += MINUTES_A_PREDICTION * len(cutting.predictions(cell.source))
    return max(5 * round(minutes / 5), 5)


def words(markdown: str) -> int:
    """Count the words of a text, badges and the targets of links apart."""
    return len(re.sub(r"\]\([^)]*\)", "]", _BADGE_LINE.sub("", markdown)).split())


def core_minutes(cells: list[Cell]) -> int:
    """Return the minutes of a lesson's core, as its badges have them; 0 where it has none."""
    return sum(part.minutes for part in sections(cells) if part.kind == "core")


def core_cells(cells: list[Cell]) -> int:
    """Return how many cells a learner of the core alone sees, opening and closing among them."""
    deep = sum(len(part.cells) for part in sections(cells) if part.kind == "deepening")
    return GENERATED_CELLS + len(cells) - deep


def top_line(parts: list[Section]) -> str:
    """Return the line below "About 2 hours" that sums up the badges."""
    lines = []
    for kind in ("core", "deepening"):
        chosen = [part for part in parts if part.kind == kind]
        if chosen:
            which = "all sections" if len(chosen) == len(parts) else _listed(chosen)
            total = sum(part.minutes for part in chosen)
            lines.append(f"{kind.capitalize()}: {which}, {total} minutes.")
    return " ".join(lines)


def _listed(parts: list[Section]) -> str:
    """Return "sections 1 to 5 and 7", or "section 8"."""
    runs: list[list[int]] = []
    for part in parts:
        if runs and runs[-1][-1] == part.number - 1:
            runs[-1].append(part.number)
        else:
            runs.append([part.number])
    pieces: list[str] = []
    for run in runs:
        pieces += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    listed = " and ".join(filter(None, (", ".join(pieces[:-1]), pieces[-1])))
    return f"section{'s' if len(parts) > 1 else ''} {listed}"


def about(minutes: int) -> str:
    """Return a lesson's whole time in words: "About 45 minutes", "About 2 and a half hours"."""
    half_hours = round(minutes / 30)
    if minutes < 60 or half_hours == 3:
        return f"About {90 if half_hours == 3 else minutes} minutes"
    half = " and a half" if half_hours % 2 else ""
    return f"About {half_hours // 2}{half} hour{'s' if half_hours > 2 else ''}"


def problems(cells: list[Cell]) -> list[str]:
    """List what is wrong with the sections' badges, times and lengths, and with the core."""
    parts = sections(cells)
    found = []
    for part in parts:
        name = f"section {part.number}"
        by_rule = section_minutes(part.cells)
        if not part.kind:
            found.append(
                f"{name}: its heading is followed by a badge on a line of its own, like "
                f"`<kbd>core</kbd> {by_rule} minutes` or `<kbd>deepening</kbd> {by_rule} minutes`"
            )
        elif part.minutes % 5 or abs(part.minutes - by_rule) > 5 or part.minutes < 5:
            found.append(f"{name}: {part.minutes} minutes, {by_rule} by the rule")
    if not any(part.kind == "core" for part in parts):
        found.append("no section is core")
    if found:
        return found
    opening = "\n".join(cell.source for cell in cells if cell.kind == "markdown")
    opening = opening.partition("## How long it takes")[2].partition("\n## ")[0]
    said, expected = _TOP.search(opening), top_line(parts)
    if not said or said[0].split() != expected.split():
        found.append(f"'How long it takes' has the line: {expected}")
    if hours := ABOUT.search(opening):
        total = sum(part.minutes for part in parts)
        number = int(hours[1]) + 0.5 * bool(hours[2] or hours[4])
        minutes = number * (60 if hours[3] == "hour" else 1)
        if abs(minutes - total) > 15:
            found.append(f"it says {hours[0]!r}, and its sections' badges are {total} minutes")
    if (minutes := core_minutes(cells)) > LONGEST_CORE:
        found.append(f"the core takes {minutes} minutes, {LONGEST_CORE} at most")
    if (count := core_cells(cells)) > MOST_CORE_CELLS:
        found.append(
            f"the core has {count} cells with opening and closing, {MOST_CORE_CELLS} at most"
        )
    if (count := GENERATED_CELLS + len(cells)) > MOST_CELLS:
        found.append(f"the lesson has {count} cells, {MOST_CELLS} at most")
    return found + _core_problems(cells, parts)


# --- does the core run alone? --------------------------------------------------------------------


def _core_problems(cells: list[Cell], parts: list[Section]) -> list[str]:
    """Name what core cells use and deepening ones define, or define anew."""
    deep = {
        cell.line: part.number for part in parts if part.kind == "deepening" for cell in part.cells
    }
    looped: dict[str, Cell] = {}  # a name, and the cell whose loop left it behind
    bound: dict[str, int] = {}  # a name, and the deepening section that bound it last; 0: the core
    asked: dict[str, int] = {}  # a question that predict asks, alike
    found = []
    for cell in cells:
        if cell.kind != "code":
            continue
        section = deep.get(cell.line, 0)
        for question in _questions(cell.source, "predict"):
            asked[question] = section
        if not section:
            for question in _questions(cell.source, "predict.answer"):
                if asked.get(question):
                    found.append(
                        f"{cell}: the core answers {question!r}, asked in deepening section "
                        f"{asked[question]}"
                    )
        for uses, binds, loops in _statements(cell.source):
            for name in sorted(uses):
                if looped.get(name, cell) is not cell:
                    found.append(
                        f"{cell}: `{name}` is what a loop of {looped[name]} left behind; give the "
                        "loop's variable a name of its own"
                    )
                if not section and bound.get(name):
                    found.append(
                        f"{cell}: the core uses `{name}`, which deepening section {bound[name]} "
                        "defines; define it in the core, or give it another name"
                    )
            bound |= dict.fromkeys(binds, section)
            looped = {n: at for n, at in looped.items() if n not in binds} | dict.fromkeys(
                loops, cell
            )
    return list(dict.fromkeys(found))


def _questions(source: str, function: str) -> Iterator[str]:
    """Yield the questions of the calls `function("question", ...)` in a cell's code."""
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == function and node.args:
            if isinstance(question := node.args[0], ast.Constant):
                yield question.value


def _statements(source: str) -> Iterator[tuple[set[str], set[str], set[str]]]:
    """Yield of each statement the names that it uses from before, that it binds, that it loops."""
    for statement in _tree(source).body:
        uses, binds = _names(ast.unparse(statement))
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) and statement.value:
            # the right side, and what is added to, are read before the name is bound
            early = _names(ast.unparse(statement.value))[0]
            if isinstance(statement, ast.AugAssign):
                early |= binds
            yield (uses - binds) | early, binds, set()
        elif isinstance(statement, ast.For):
            yield uses - binds, binds, _names(f"{ast.unparse(statement.target)} = 0")[1]
        else:
            yield uses - binds, binds, set()


def _names(source: str) -> tuple[set[str], set[str]]:
    """Return the global names that code reads, in functions too, and those it binds."""
    uses: set[str] = set()
    binds: set[str] = set()

    def walk(table: symtable.SymbolTable) -> None:
        module = table.get_type() == "module"
        for symbol in table.get_symbols():
            if module or symbol.is_global():
                if symbol.is_referenced():
                    uses.add(symbol.get_name())
                if symbol.is_assigned() or symbol.is_imported():
                    binds.add(symbol.get_name())
        for child in table.get_children():
            walk(child)

    walk(symtable.symtable(source, "<cell>", "exec"))
    return uses, binds


def _tree(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError:  # another part of the check says so
        return ast.Module([], [])


# --- writing the minutes -------------------------------------------------------------------------


def written(text: str) -> str:
    """Return a lesson's text with the minutes of its badges and its opening by the rule."""
    for part in sections(cutting.parse(text)):
        heading = re.escape(part.cells[0].source.split("\n")[0])
        badge = re.compile(rf"(^# {heading}\n#\n# <kbd>\w+</kbd> )\d+( minutes$)", re.MULTILINE)
        text = badge.sub(rf"\g<1>{section_minutes(part.cells)}\g<2>", text)
    parts = sections(cutting.parse(text))
    total = about(sum(part.minutes for part in parts))
    head, heading, rest = text.partition("# ## How long it takes\n")
    opening, begin, rest = rest.partition("\n# %%")
    paragraphs = [each.strip("\n") for each in f"\n{opening.strip()}\n".split("\n#\n")]
    paragraphs = [each for each in paragraphs if each and not each.startswith("# Core:")]
    spoken = r"^# About \d+( and a half)? (minutes?|hours?)( and a half)?"
    paragraphs[0] = re.sub(spoken, f"# {total}", paragraphs[0].removeprefix("#\n"))
    paragraphs.insert(1, "\n".join(f"# {each}" for each in textwrap.wrap(top_line(parts), 98)))
    return head + heading + "#\n" + "\n#\n".join(paragraphs) + "\n" + begin + rest


def main(arguments: list[str] | None = None) -> None:
    """Write the minutes into the lessons named."""
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks.sections", description=__doc__)
    parser.add_argument("lessons", nargs="+", type=Path, help="course_lessons/lessonNN/name.py")
    for path in parser.parse_args(arguments).lessons:
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
