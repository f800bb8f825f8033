"""A lesson's sections: which are its core, their minutes, and whether the core runs alone.

Below each numbered heading stands a badge, ``<kbd>core</kbd>`` or ``<kbd>deepening</kbd>``. The
notebooks have minutes behind it, and the lesson's own below *How long it takes*: `with_minutes`
writes both, by the rule of `tools.notebooks.minutes`. A lesson's text has none.
``python -m tools.notebooks.sections`` prints minutes, words, cells and lines of each lesson.
"""

import ast
import re
import symtable
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tools.notebooks import cells as cutting
from tools.notebooks import minutes
from tools.notebooks.cells import Cell

MOST_CORE_CELLS = (
    70  # with the opening, the closing and the two cells that every notebook begins with
)
MOST_CELLS = 150
GENERATED_CELLS = 2

HOW_LONG = "## How long it takes"
#: The closing begins with one of these.
_CLOSING = {"What you should be able to say now", "Common misconceptions"}
_HEADING = re.compile(r"## (\d+) .+")
_BADGE = re.compile(r"(## \d+ [^\n]+\n\n<kbd>(core|deepening)</kbd>)(?: \d+ minutes)?(?=\n\n|$)")
_TOP = re.compile(
    r"^Core: .+?, \d+\s+minutes\.(?:\s+Deepening: .+?, \d+\s+minutes\.)?\n*", re.M | re.S
)


@dataclass(frozen=True)
class Section:
    """A numbered section: its cells, and its badge's word, "" where it has none."""

    number: int
    cells: tuple[Cell, ...]
    kind: str

    @cached_property
    def minutes(self) -> float:
        """How long it takes by the rule."""
        return minutes.taken(self.cells)


@dataclass(frozen=True)
class Times:
    """Minutes of a lesson: of its core, with opening and closing, and of what deepens it."""

    core: float
    deepening: float

    @property
    def whole(self) -> float:
        """Core and deepening together."""
        return self.core + self.deepening


def sections(cells: list[Cell]) -> list[Section]:
    """Return a lesson's numbered sections, without the opening and the closing."""
    found: list[list[Cell]] = []
    for cell in cells:
        headings = re.findall(r"^## (.+)$", cell.source, flags=re.MULTILINE)
        if cell.kind == "markdown" and _HEADING.match(cell.source):
            found.append([])
        elif found and cell.kind == "markdown" and _CLOSING & set(headings):
            break
        if found:
            found[-1].append(cell)
    made = []
    for part in found:
        badge = _BADGE.match(part[0].source)
        number = int(_HEADING.match(part[0].source)[1])
        made.append(Section(number, tuple(part), badge[2] if badge else ""))
    return made


def times(cells: list[Cell]) -> Times:
    """Return the minutes of a lesson by the rule."""
    deep = sum(part.minutes for part in sections(cells) if part.kind == "deepening")
    first = cells[0].source.startswith("# 00 ")
    return Times(minutes.taken(cells) - deep + (0.0 if first else minutes.WARM_UP), deep)


def core_cells(cells: list[Cell]) -> int:
    """Return how many cells a learner of the core alone sees, opening and closing among them."""
    deep = sum(len(part.cells) for part in sections(cells) if part.kind == "deepening")
    return GENERATED_CELLS + len(cells) - deep


def with_minutes(cells: list[Cell]) -> list[Cell]:
    """Return a lesson's cells as notebooks have them: minutes by its badges and at its top."""
    parts = {part.cells[0].line: part for part in sections(cells)}
    made = []
    for cell in cells:
        source = cell.source
        if part := parts.get(cell.line):
            source = _BADGE.sub(rf"\1 {minutes.span(part.minutes)} min", source)
        elif cell.kind == "markdown" and HOW_LONG in source:
            before, heading, below = source.partition(HOW_LONG)
            rest = _TOP.sub("", below).strip("\n")
            source = "\n\n".join(filter(None, (f"{before}{heading}", top_line(cells), rest)))
        made.append(replace(cell, source=source))
    return made


def top_line(cells: list[Cell]) -> str:
    """Return the line that says how long core and deepening take, and which sections they are."""
    parts, whole = sections(cells), times(cells)
    lines = []
    for kind, time in (("core", whole.core), ("deepening", whole.deepening)):
        chosen = [part for part in parts if part.kind == kind]
        if chosen:
            which = "all sections" if len(chosen) == len(parts) else _listed(chosen)
            lines.append(f"{kind.capitalize()}: {which}, {minutes.span(time)} minutes.")
    return " ".join([*lines, "The shorter times are for those who know CUDA."])


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


def problems(cells: list[Cell]) -> list[str]:
    """List what is wrong with the sections' badges and lengths, and with the core."""
    parts = sections(cells)
    found = []
    for part in parts:
        if not part.kind:
            found.append(
                f"section {part.number}: its heading is followed by a badge on a line of its own, "
                "`<kbd>core</kbd>` or `<kbd>deepening</kbd>`"
            )
    if not any(part.kind == "core" for part in parts):
        found.append("no section is core")
    if found:
        return found
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

    alone = ast.unparse(_Generators().visit(_tree(source)))
    walk(symtable.symtable(alone, "<cell>", "exec"))
    return uses, binds


class _Generators(ast.NodeTransformer):
    """Every comprehension as a generator: from Python 3.12 on, others' names count as outside's."""

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.AST:
        self.generic_visit(node)
        return ast.GeneratorExp(node.elt, node.generators)

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        self.generic_visit(node)
        return ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators)


def _tree(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError:  # another part of the check says so
        return ast.Module([], [])


# --- a table of all lessons ----------------------------------------------------------------------


def table(root: Path = cutting.ROOT) -> str:
    """Return minutes, words and cells of each lesson's core and deepening, and lines of its folder.

    Words are those that are seen, and in brackets those that are folded.
    """
    rows = [
        "| lesson | core min | deepening min | core words | cells | lines |",
        "|---|---|---|---|---|---|",
    ]
    for path in cutting.paths(root):
        cells = cutting.read(path)
        deep = {cell.line for p in sections(cells) if p.kind == "deepening" for cell in p.cells}
        core = [cell for cell in cells if cell.line not in deep]
        time = times(cells)
        seen, folded = minutes.words_of(core)
        lines = sum(len(file.read_text().splitlines()) for file in path.parent.glob("*.py"))
        rows.append(
            f"| {cutting.name(path)[:2]} | {time.core:.0f} | {time.deepening:.0f} | "
            f"{seen:,} ({folded:,}) | {core_cells(cells)} of {GENERATED_CELLS + len(cells)} | "
            f"{lines:,} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
