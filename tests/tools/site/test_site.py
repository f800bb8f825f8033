"""What the site makes of lessons, terms and figures, and what its checks find."""

import re
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml

from course.measure import recorded
from tools import address
from tools.notebooks import lessons, minutes, sections
from tools.site import accessible, checking, figures
from tools.site import lessons as pages

ROOT = Path(__file__).resolve().parents[3]
GLOSSARY = (ROOT / "site/glossary.md").read_text(encoding="utf-8")
PATH = next(path for path in lessons.paths() if path.parent.name == "lesson05")


@pytest.fixture(scope="module")
def lesson05():
    solution = nbformat.read(ROOT / f"solutions/{lessons.name(PATH)}.ipynb", as_version=4)
    described = pages.described(PATH, solution)
    return solution, described, pages.page(solution, described, address.read())


# --- lessons -------------------------------------------------------------------------------------


def test_the_index_says_what_a_lesson_says_of_itself(lesson05):
    _, described, _ = lesson05
    assert (described.title, described.needs) == ("Shared memory", ("01", "02", "04"))
    assert described.core == minutes.span(sections.times(lessons.read(PATH)).core)
    assert described.picture.startswith(b"\x89PNG") and len(described.alternative.split()) > 5
    card = pages.cards([described])
    assert f"Core {described.core} min" in card and described.alternative in card


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (
            "Lessons [03](03_a.ipynb) to\n[05](05_b.ipynb), [08](08_c.ipynb)",
            ("03", "04", "05", "08"),
        ),
        ("nothing", ()),
    ],
)
def test_a_range_of_lessons_is_all_of_them(text, numbers):
    assert pages._needed(text) == numbers


def test_every_answer_is_folded_below_its_stub(lesson05):
    solution, _, page = lesson05
    exercises = [cell for cell in solution.cells if "exercise" in cell.metadata.get("tags", ())]
    folded = [
        (before, cell)
        for before, cell in zip(page.cells, page.cells[1:])
        if "exercise" in cell.metadata.get("tags", ())
    ]
    assert len(folded) == len(exercises) > 5
    for (asked, answer), exercise in zip(folded, exercises):
        assert asked.source == f"```python\n{lessons.stub(exercise.source)}\n```"
        assert "hide-input" in answer.metadata.tags
        lines = exercise.source.split("\n")
        kept = [line for line in lines if not re.search("### (BEGIN|END) ", line)]
        assert answer.source == "\n".join(kept)


def test_guesses_stay_out_and_what_came_out_is_folded(lesson05):
    solution, _, page = lesson05
    asked = [cell for cell in page.cells if lessons.predictions(cell.source)]
    assert len(asked) == sum(bool(lessons.predictions(cell.source)) for cell in solution.cells)
    assert all("..." in cell.source and "you predict" not in str(cell.outputs) for cell in asked)
    answered = [cell for cell in page.cells if "predict.answer(" in cell.source]
    assert answered and all("hide-output" in cell.metadata.tags for cell in answered)


def test_a_page_links_to_the_exercises_not_to_the_solution(lesson05):
    _, described, page = lesson05
    head = page.cells[1].source
    assert f"/notebooks/{described.name}.ipynb" in head and "solutions/" not in head
    assert f"../downloads/{described.name}.ipynb" in head
    assert not any("google.colab" in cell.source for cell in page.cells)


# --- glossary ------------------------------------------------------------------------------------


def names() -> list[str]:
    """Every name of every entry of the glossary."""
    found = []
    for block in re.findall(r"```\{glossary\}\n(.*?)```", GLOSSARY, re.DOTALL):
        found += [line for line in block.splitlines() if line and not line.startswith(" ")]
    return found


def test_a_term_stands_in_the_glossary_once():
    assert len(names()) == len(set(map(str.lower, names()))) > 180


@pytest.mark.parametrize(
    ("name", "text", "is_one"),
    [
        ("bank conflict", "Bank\nconflicts", True),
        ("latency", "latencies", True),
        ("wave", "wavefront", False),
        ("TMA", "tma", False),
        ("C-contiguous", "C-contiguous", True),
    ],
)
def test_a_term_is_found_in_the_forms_that_it_has(name, text, is_one):
    terms = pytest.importorskip("tools.site.links_to_terms", reason="the extra site is missing")
    search, entries = terms._search([(name,)])
    assert (search.fullmatch(text) is not None) is is_one
    assert entries == [(name,)]


def test_the_first_use_outside_code_headings_and_links_is_found():
    terms = pytest.importorskip("tools.site.links_to_terms", reason="the extra site is missing")
    from docutils import nodes
    from docutils.utils import new_document

    document = new_document("lesson")
    document += nodes.title("", "Tiles")
    document += nodes.paragraph("", "", nodes.literal("", "tile"), nodes.Text(" and a pre-tile, "))
    document += nodes.paragraph("", "then warp tiles and a tile, of one warp.")
    entries = [("tile",), ("warp tile", "warp's tile"), ("warp",)]
    found = [
        (term[0], str(text)[slice(*span)]) for term, text, span in terms._uses(document, entries)
    ]
    assert found == [("warp tile", "warp tiles"), ("tile", "tile"), ("warp", "warp")]


# --- figures -------------------------------------------------------------------------------------


def test_a_chart_has_a_bar_for_each_program_at_the_shape_that_most_have():
    (recording,) = recorded.recordings("reconstruct")
    chart = figures.chart(list(recording.figures))
    assert re.search(r"<caption>time, \d+x\d+x\d+, float32, medians</caption>", chart)
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", chart)]
    assert max(widths) == 100 and 5 < len(widths) <= figures.MOST_BARS


@pytest.mark.parametrize("subject", ["vit", "vae_micro"])
def test_a_bar_stands_beside_bars_of_its_own_unit_alone(subject):
    recording = recorded.read(ROOT / f"data/measurements/h200-{subject}.csv")
    chart = figures.chart([figure for figure in recording.figures if figure.kernel == "roof"])
    tables = re.findall(r"<table.*?</table>", chart, re.DOTALL)
    units = [set(re.findall(r"<td>[\d.e+]+ (\S+)</td>", table)) for table in tables]
    assert units == [{"GB/s"}, {"TFLOP/s"}]
    for table in tables:
        widths = [float(width) for width in re.findall(r"width:([\d.]+)%", table)]
        amounts = [float(amount) for amount in re.findall(r"<td>([\d.e+]+) ", table)]
        longest = max(amounts)
        assert widths == pytest.approx([100 * amount / longest for amount in amounts], abs=0.1)


def test_the_page_of_a_file_says_its_machine_and_date():
    header, table = figures._parts(ROOT / "data/measurements/h200-norm.csv")
    said = figures._said(header)
    assert "NVIDIA H200" in said and header["date"] in said and header["driver"] in said
    assert table[0] == list(recorded.COLUMNS) and len(table) > 100


def test_what_a_file_says_is_no_markup():
    assert "<b>" not in figures._said({"notes": "<b>"}) + figures._table([["<b>"], ["<b>"]], "a")


# --- what a page lacks ---------------------------------------------------------------------------

TABLE = """<table class="table"><thead>
<tr class="row-odd"><th class="head text-right"><p></p></th>
<th class="head"><p>bytes</p></th></tr>
</thead>
<tbody><tr><td><p>a warp</p></td>
<td><p>128</p></td></tr></tbody></table>"""


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (
            '<summary aria-label="Toggle hidden content"><p>Show an answer</p></summary>',
            "<summary><p>Show an answer</p></summary>",
        ),
        (
            '<button class="btn search-button-field x" title="Search" aria-label="Search" a="b">',
            '<button class="btn search-button-field x" title="Search" a="b">',
        ),
        (
            TABLE,
            TABLE.replace('<th class="head text-right"><p></p></th>', "<td></td>").replace(
                "<td><p>a warp</p></td>", '<th scope="row"><p>a warp</p></th>'
            ),
        ),
        (TABLE.replace("<p></p>", "<p>who</p>"), TABLE.replace("<p></p>", "<p>who</p>")),
        (
            '<div class="pst-scrollable-table-container">' * 2,
            "".join(
                '<div class="pst-scrollable-table-container" role="region" '
                f'aria-label="Table {number}">' for number in (1, 2)
            ),
        ),
        (
            '<img alt="a dot" src="../_images/a.png" />',
            '<a class="site-picture" href="../_images/a.png">'
            '<img alt="a dot" src="../_images/a.png" /></a>',
        ),
        ('<img class="sd-card-img-top" src="_images/a.png">',) * 2,
    ],
    ids=["fold", "search", "corner", "head", "scrolls", "picture", "card"],
)  # fmt: skip
def test_a_page_has_what_theme_and_notebooks_leave_out(tmp_path, theirs, ours):
    (tmp_path / "a.html").write_text(theirs, encoding="utf-8")
    accessible.mend(tmp_path)
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == ours


# --- what came out -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('<a href="gone.html">x</a>', "gone.html leads nowhere"),
        ('<a href="other.html#nowhere">x</a>', "no such place"),
        ('<img src="a.png">', "has no words"),
        ('<img src="a.png" alt="_images/a.png">', "has no words"),
        ('<script src="https://example.org/x.js"></script>', "works offline"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "works offline"),
        ('<img src="a.png" alt="a dot">' + "x" * 3_000_000, "MB at most"),
        ('<a href="https://example.org">x</a><a href="other.html#here">x</a>', None),
        ('<img src="a.png" alt="a dot"><a href="#top">x</a><p id="top">', None),
    ],
)
def test_the_check_of_the_site_finds(tmp_path, body, said):
    (tmp_path / "index.html").write_text(body, encoding="utf-8")
    (tmp_path / "other.html").write_text('<p id="here">', encoding="utf-8")
    (tmp_path / "a.png").write_bytes(b"")
    found = checking.problems(tmp_path)
    assert found == [] if said is None else len(found) == 1 and said in found[0]


def test_a_style_sheet_fetches_nothing_from_elsewhere(tmp_path):
    (tmp_path / "x.css").write_text("a { background: url('https://example.org/x.woff2') }")
    assert "works offline" in checking.problems(tmp_path)[0]


def test_the_workflow_publishes_what_make_site_makes():
    text = (ROOT / ".github/workflows/site.yml").read_text(encoding="utf-8")
    steps = yaml.safe_load(text)["jobs"]["site"]["steps"]
    assert [step["run"].partition(" REPO=")[0] for step in steps if "run" in step] == [
        "make badges", "make site",
    ]  # fmt: skip
    assert any(step.get("with", {}).get("path") == "build/site/html" for step in steps)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {"site", "browser"} <= set(project["project"]["optional-dependencies"])
    assert '-e ".[site]"' in (ROOT / "Makefile").read_text(encoding="utf-8")
