"""The recorded figures as pages: each file of ``data/measurements`` with its machine and date.

Of a bench each kernel has a chart, the medians at the shape that most programs were measured at,
and all its figures folded below. Timelines are drawn, other files are tables.
"""

import ast
import csv
import io
import shutil
from collections import Counter
from html import escape
from pathlib import Path

from course.measure import recorded, timeline
from course.measure.recorded import Figure, Recording
from course_lessons.lesson08.plots import gantt

MOST_BARS = 24
#: What was not recorded by a bench, which says in its docstring what it is.
ABOUT = {
    "counters": "Hardware counters of single launches, which the simulator's counts are held to.",
    "counters-explained": "Where the simulator counts otherwise than the hardware, and why.",
    "further_counters": "The same of a hundred small whole programs.",
    "further_counters-explained": "Where the simulator counts these otherwise, and why.",
    "profile": "What Nsight Compute says of the kernels of lesson 07.",
    "profile-norm": "What Nsight Compute says of reductions and LayerNorm.",
    "simulator": "How long the simulator takes: process time on a host, no time of a GPU.",
    "profile-timeline": "Calls, copies and kernels of the first project's program, in time.",
    "successor": "Kernels of the course compiled by numba-cuda and by its successor, side by side.",
}


def write(root: Path, source: Path) -> None:
    """Write the pages of the repository `root` and their list below `source`."""
    folder = source / "figures"
    folder.mkdir(exist_ok=True)
    timelines, others = [], []
    rows = []
    for path in sorted((root / "data/measurements").glob("*.csv")):
        shutil.copy(path, folder)
        subject = recorded.subject_of(path)
        if subject.startswith(recorded.TIMELINE):
            timelines.append(path)
            continue
        header, table = _parts(path)
        bench = table[0] == list(recorded.COLUMNS)
        body = _bench(recorded.read(path)) if bench else _table(table, "All rows")
        about = ABOUT.get(subject) or _sentence(
            root / "course_recording/subjects" / f"{subject}.py"
        )
        where = header.get("gpu") or header.get("host", "")
        machine = f" on {where}" if where else ""
        text = f"# {subject}{machine}\n\n{about}\n\n{_said(header)}\n\n"
        text += f"{{download}}`{path.name} <{path.name}>`\n\n{body}\n"
        (folder / f"{path.stem}.md").write_text(text, encoding="utf-8")
        others.append(f"figures/{path.stem}")
        rows.append(
            f"| [{subject}](figures/{path.stem}.md) | {where} "
            f"| {header.get('date', '')} | {len(table) - 1:,} | {about} |"
        )
    (folder / "timelines.md").write_text(_timelines(timelines, folder), encoding="utf-8")
    index = source / "figures.md"
    text = index.read_text(encoding="utf-8")
    head = "| subject | machine | date | rows | what it is |\n|---|---|---|---|---|"
    text = text.replace("<!-- generated: figures -->", "\n".join([head, *rows]))
    text = text.replace("<!-- generated: contents -->", "\n".join([*others, "figures/timelines"]))
    index.write_text(text, encoding="utf-8")


def _parts(path: Path) -> tuple[dict[str, str], list[list[str]]]:
    """Return a file's header and its rows, the columns' names first."""
    lines = path.read_text(encoding="utf-8").splitlines()
    head = [line[1:].strip().partition("=") for line in lines if line.startswith("#")]
    body = "\n".join(line for line in lines if not line.startswith("#"))
    return {key: value for key, _, value in head}, list(csv.reader(io.StringIO(body)))


def _sentence(program: Path) -> str:
    """Return the first sentence of a recording program's docstring; nothing where there is none."""
    if not program.is_file():
        return ""
    words = ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or ""
    return " ".join(words.partition("\n\n")[0].split())


def _said(header: dict[str, str]) -> str:
    """Return what a file says of its machine, as a folded list below its first line."""
    machine = [header[key] for key in ("gpu", "host", "date") if key in header]
    driver = [f"driver {header['driver']}"] if "driver" in header else []
    rest = "\n".join(
        f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in header.items()
    )
    line = f"**{', '.join(machine + driver)}.** " if machine else ""
    fold = '<details class="site-fold"><summary>Versions, roofs and notes</summary>'
    return f'{line}\n\n{fold}\n<dl class="site-header">\n{rest}\n</dl>\n</details>'


# --- benches -------------------------------------------------------------------------------------


def _bench(recording: Recording) -> str:
    """Return a section for each kernel: a chart, and all its figures folded."""
    kernels: dict[str, list[Figure]] = {}
    for figure in recording.figures:
        kernels.setdefault(figure.kernel, []).append(figure)
    parts = []
    for kernel, its in kernels.items():
        rows = [["variant", "shape", "type", "metric", "median", "q1", "q3", "unit", "n"]]
        rows += [
            [f.variant, f.shape, f.dtype, f.metric]
            + [recorded.number(value) for value in (f.median, f.q1, f.q3)]
            + [f.unit, str(f.n)]
            for f in its
        ]
        parts.append(f"## {kernel}\n\n{chart(its)}\n\n{_table(rows, f'All {len(its)} figures')}")
    return "\n\n".join(parts)


def chart(figures: list[Figure]) -> str:
    """Return bars, in HTML, of one metric at one shape: those that most programs have.

    A time goes before any other metric. Of shapes with equally many programs the last is taken,
    the largest in most files. Bars begin at zero; each unit has a table of its own.
    """
    metrics = Counter(figure.metric for figure in figures)
    metric = "time" if "time" in metrics else metrics.most_common(1)[0][0]
    its = [figure for figure in figures if figure.metric == metric]
    shapes = Counter((figure.shape, figure.dtype) for figure in its)
    place = max(reversed(list(shapes)), key=lambda shape: shapes[shape])
    its = [figure for figure in its if (figure.shape, figure.dtype) == place][:MOST_BARS]
    what = ", ".join(part for part in (metric, *place, "medians") if part)
    units = dict.fromkeys(figure.unit for figure in its)
    return "\n".join(_bars([f for f in its if f.unit == unit], what) for unit in units)


def _bars(its: list[Figure], what: str) -> str:
    """Return a table of bars, of one unit; the longest fills its place."""
    longest = max(abs(figure.median) for figure in its) or 1
    bars = "\n".join(
        f'<tr><th scope="row">{escape(figure.variant or figure.kernel)}</th>'
        f'<td><span style="width:{100 * abs(figure.median) / longest:.1f}%"></span></td>'
        f"<td>{escape(figure.amount)}</td></tr>"
        for figure in its
    )
    return f'<table class="site-bars"><caption>{escape(what)}</caption>\n{bars}\n</table>'


def _table(rows: list[list[str]], summary: str) -> str:
    """Return a folded table in HTML, the first row its head."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in rows[0])
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row) + "</tr>" for row in rows[1:]
    )
    return (
        f'<details class="site-fold"><summary>{escape(summary)}</summary>\n'
        f'<div class="site-scroll" tabindex="0" role="region" aria-label="{escape(summary)}">\n'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>\n</div></details>"
    )


# --- timelines -----------------------------------------------------------------------------------


def _timelines(paths: list[Path], folder: Path) -> str:
    """Draw each timeline beside the page; return the page."""
    parts = [
        "# Timelines of a batch",
        "What the copy engines and the multiprocessors did when: for each way of [lesson "
        "08](../lessons/08_streams.ipynb), and for the vision transformer of [lesson "
        "18](../lessons/18_a_vision_transformer.ipynb).",
    ]
    for path in paths:
        header, spans = timeline.header(path), timeline.read(path)
        title = f"{header['gpu']}, {header['date']}: {header['shape']}"
        marks = {"bound": float(header["bound"])} if "bound" in header else None
        picture = gantt(spans, title, marks=marks)
        picture.savefig(folder / f"{path.stem}.svg", metadata={"Date": None})
        parts.append(
            f"## {header['way'].partition(':')[0]}\n\n{header['way'].partition(': ')[2]}.\n\n"
            f"![{picture.alternative}]({path.stem}.svg)\n\n"
            f"{{download}}`{path.name} <{path.name}>`"
        )
    return "\n\n".join(parts) + "\n"
