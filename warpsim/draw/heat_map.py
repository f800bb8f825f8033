"""The source of a traced kernel with the traffic of each line beside it."""

import ast
import textwrap
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from warpsim.draw.palette import BLUE, FAINT, GREEN, VERMILLION
from warpsim.draw.panels import LETTER, WIDTH, Pen
from warpsim.draw.style import FONT_SIZE, Picture, listed, shortened
from warpsim.watch.counts import Count, Counters
from warpsim.watch.findings import Finding

ROW, MARK_ROW, CODE = 0.2, 0.16, 0.45
FIXED = 0.07  # width of a letter of code
MOST_LETTERS = 60  # a longer line of code goes on in the next row
MOST_LINES = 45  # a longer kernel is shown without the lines that do nothing here
HEAT = "#F7D9C4"
LEGEND = {BLUE: "global memory, needed", GREEN: "shared memory, needed", VERMILLION: "beyond that"}


@dataclass
class Row:
    """A line of source, and what it moves."""

    number: int | None  # counted from ``def`` as 1; None where lines are left out
    code: str
    traffic: Count = field(default_factory=Count)
    kinds: list[Finding] = field(default_factory=list)  # one of each kind

    indent = property(lambda self: min(30, len(self.code) - len(self.code.lstrip())))

    @property
    def passes(self) -> float:
        """Sectors and wavefronts on one scale: 128 bytes each."""
        return self.traffic.sectors / 4 + self.traffic.wavefronts

    @property
    def bars(self) -> list[tuple[str, str, float, int, int]]:
        """Colour, unit, passes for one, moved and needed: of global, of shared memory."""
        count = self.traffic
        both = [
            (BLUE, "sectors", 0.25, count.sectors, count.ideal_sectors),
            (GREEN, "wavefronts", 1.0, count.wavefronts, count.ideal_wavefronts),
        ]
        return [bar for bar in both if bar[3]]

    @property
    def figures(self) -> list[str]:
        """What stands behind each bar."""
        return [
            f"{moved:,}" + (f" ({needed:,})" if moved > needed else "") + f" {unit}"
            for _, unit, _, moved, needed in self.bars
        ]

    @cached_property
    def lines(self) -> list[str]:
        """The code, in as many rows as it takes."""
        hanging = {"subsequent_indent": " " * (self.indent + 4), "break_on_hyphens": False}
        return textwrap.wrap(self.code, MOST_LETTERS, **hanging) or [""]

    @property
    def height(self) -> float:
        return max(ROW * len(self.bars), ROW * len(self.lines) + MARK_ROW * bool(self.kinds))


def rows_of(counters: Counters, kernel: str, source: str, findings: tuple) -> list[Row]:
    """The rows of the picture: the kernel's lines, then those of device functions that move data.

    The docstring is left out; so are, in a long kernel, lines without traffic or findings.
    """
    rows = {(kernel, n): Row(n, code) for n, code in enumerate(source.splitlines(), start=1)}
    codes = {(site.function, site.line, site.code): site for site, *_ in counters.accesses}
    for function, line, code in codes:
        if function != kernel:
            known = rows.get((function, line))
            code = f"{known.code}, {code}" if known else f"{function}: {code}"
            rows[function, line] = Row(line, code)
    for (site, _, _), count in counters.accesses.items():
        rows.setdefault((site.function, site.line), Row(site.line, "")).traffic.add(count)
    for finding in findings:
        place = finding.function or kernel, finding.line
        row = rows.setdefault(place, Row(finding.line, f"{place[0]}: {finding.code}"))
        if finding.kind not in {known.kind for known in row.kinds}:
            row.kinds.append(finding)
    doc = _docstring(source)
    kept: list[Row] = []
    for (function, number), row in rows.items():
        silent = not (row.bars or row.kinds) and len(rows) - len(doc) > MOST_LINES and number > 1
        if function == kernel and (number in doc or silent):
            if kept and kept[-1].number is not None and number not in doc:
                kept.append(Row(None, "…"))
            continue
        kept.append(row)
    return kept


def _docstring(source: str) -> range:
    with suppress(SyntaxError, IndexError, AttributeError, TypeError):  # no source of a function
        function = ast.parse(textwrap.dedent(source)).body[0]
        if ast.get_docstring(function) is not None and len(function.body) > 1:
            return range(function.body[0].lineno, function.body[0].end_lineno + 1)
    return range(0)


def heat_map_picture(counters: Counters, kernel: str, source: str, findings: tuple) -> Picture:
    """The picture of :meth:`warpsim.draw.report.Report.heat_map`."""
    rows = rows_of(counters, kernel, source, findings)
    left = CODE + max(len(line) for row in rows for line in row.lines) * FIXED + 0.15
    most = max((passes * moved for row in rows for _, _, passes, moved, _ in row.bars), default=1)
    figures = max((len(text) for row in rows for text in row.figures), default=0) * LETTER
    scale = (WIDTH - left - figures - 0.1) / most
    hottest = max((row.passes for row in rows), default=0) or 1
    pen = Pen(0.4 + sum(row.height for row in rows) + 0.5)
    title = f"{shortened(kernel, 40)}: memory traffic by line"
    pen.text(0.1, 0.2, title, FONT_SIZE, ha="left", weight="bold")
    beside = max(left, 0.3 + len(title) * 0.68 * FONT_SIZE / 72)  # bold letters
    pen.text(beside, 0.2, "moved (needed)", color=FAINT, ha="left")
    y = 0.4
    for row in rows:
        _draw(pen, row, y, left, scale, row.passes / hottest)
        y += row.height
    _legend(pen, rows, y + 0.22)
    moving = [f"line {row.number} {' and '.join(row.figures)}" for row in rows if row.bars]
    words = f"{kernel}, each line's memory traffic, in brackets what is needed where that is less: "
    return pen.picture.described(f"{words}{listed(moving) if moving else 'none'}.")


def _draw(pen: Pen, row: Row, y: float, left: float, scale: float, heat: float) -> None:
    if heat > 0.02:
        pen.box(0, y, left - 0.08, row.height, HEAT, line=0, alpha=0.15 + 0.85 * heat)
    if row.number is not None:
        pen.text(CODE - 0.1, y + ROW / 2, str(row.number), color=FAINT, ha="right")
    for number, line in enumerate(row.lines):
        pen.text(CODE, y + (number + 0.5) * ROW, line, ha="left", family="monospace")
    for number, (colour, unit, passes, moved, needed) in enumerate(row.bars):
        top, length = y + number * ROW, moved * passes * scale
        useful = min(needed, moved) * passes * scale
        pen.box(left, top + 0.035, useful, ROW - 0.07, colour, line=0).set_gid(f"needed {unit}")
        if moved > needed:
            place = left + useful, top + 0.035, length - useful, ROW - 0.07
            pen.box(*place, VERMILLION, line=0).set_gid(f"excess {unit}")
        pen.text(left + length + 0.06, top + ROW / 2, row.figures[number], ha="left")
    if row.kinds:
        marks = "  ".join(f"{'✖' if f.is_error else '▲'} {f.kind}" for f in row.kinds)
        x, y = CODE + row.indent * FIXED, y + ROW * len(row.lines)
        pen.text(x, y + MARK_ROW / 2, marks, color="#A33F00", ha="left", weight="bold")


def _legend(pen: Pen, rows: list[Row], y: float) -> None:
    bars = [bar for row in rows for bar in row.bars]
    seen = {colour for colour, *_ in bars}
    seen |= {VERMILLION for *_, moved, needed in bars if moved > needed}
    x = CODE
    for colour, text in LEGEND.items():
        if colour in seen:
            pen.box(x, y - 0.05, 0.1, 0.1, colour, line=0)
            pen.text(x + 0.15, y, text, ha="left")
            x += 0.35 + len(text) * 0.94 * LETTER
    if {BLUE, GREEN} <= seen:
        pen.text(x, y, "a wavefront is as long as 4 sectors", color=FAINT, ha="left")
