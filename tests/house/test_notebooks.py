"""The notebooks of this repository match their lessons, and both keep the lesson format.

What the generator itself does is tested in test_notebooks_generator.py; that the notebooks run,
and that a solution's outputs are those that are stored, is tested by `pytest --nbval`.
"""

import functools
import re

import nbformat
import pytest

from course.checks.exercises import exercises
from tools import address, build_notebooks
from tools.notebooks import lessons, seals
from warpsim.core.words import WIDTH

PATHS = lessons.paths()
EACH_LESSON = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
EACH_NOTEBOOK = pytest.mark.parametrize(
    ("path", "kind"),
    [(path, kind) for path in PATHS for kind in ("notebooks", "solutions")],
    ids=lambda value: getattr(value, "stem", value),
)


@functools.cache
def stored(path, kind):
    target = lessons.ROOT / kind / f"{lessons.name(path)}.ipynb"
    assert target.exists(), f"{kind}/{target.name} is missing: run `make notebooks`"
    return nbformat.read(target, as_version=4)


@functools.cache
def made(path, kind):
    return build_notebooks.notebook(path, kind, address.read())


def code_cells(node):
    return [cell for cell in node.cells if cell.cell_type == "code"]


def test_every_notebook_has_a_lesson():
    stems = {lessons.name(path) for path in PATHS}
    for kind in ("notebooks", "solutions"):
        assert {target.stem for target in (lessons.ROOT / kind).glob("*.ipynb")} == stems


@EACH_LESSON
def test_the_lesson_keeps_the_format(path):
    assert lessons.problems(path) == []


@EACH_NOTEBOOK
def test_the_notebook_matches_its_lesson(path, kind):
    difference = build_notebooks.difference(stored(path, kind), made(path, kind))
    assert difference is None, f"run `make notebooks`: {difference}"


@EACH_NOTEBOOK
def test_the_notebook_is_valid_and_written_as_the_generator_writes(path, kind):
    node = stored(path, kind)
    nbformat.validate(node)
    target = lessons.ROOT / kind / f"{lessons.name(path)}.ipynb"
    assert target.read_text(encoding="utf-8") == build_notebooks.text_of(node)
    assert seals.is_as_written(target)


@EACH_LESSON
def test_the_student_notebook_is_byte_for_byte_what_the_generator_makes(path):
    target = lessons.ROOT / "notebooks" / f"{lessons.name(path)}.ipynb"
    assert target.read_bytes() == build_notebooks.text_of(made(path, "notebooks")).encode()


@EACH_LESSON
def test_the_student_notebook_has_no_solution_and_no_output(path):
    node = stored(path, "notebooks")
    for cell in code_cells(node):
        assert cell.outputs == []
        assert cell.execution_count is None
        assert "SOLUTION" not in cell.source
        assert "### " not in cell.source
        if "exercise" in cell.metadata.get("tags", ()) and not shuffled(cell.source):
            assert "# your code here\n" in cell.source


def shuffled(source):
    """Whether statements to put in order stand in a cell."""
    return re.search(r"^ *# put these \d statements in order$", source, re.MULTILINE)


def bare(source):
    """Return a cell's lines without comments, which hold the markers."""
    return [line for line in source.splitlines() if not line.lstrip().startswith("#")]


@EACH_LESSON
def test_the_student_gets_an_order_exercises_statements_in_another_order(path):
    both = (code_cells(stored(path, kind)) for kind in ("notebooks", "solutions"))
    for given, solved in zip(*both, strict=True):
        if "### BEGIN ORDER" in solved.source:
            assert shuffled(given.source)
            blank = re.sub(r"(?s)### BEGIN SOLUTION.*?### END SOLUTION", "pass", solved.source)
            assert bare(given.source) != bare(blank)
            assert sorted(bare(given.source)) == sorted(bare(blank))


@EACH_LESSON
def test_the_solution_was_run_from_top_to_bottom_in_one_go(path):
    counts = [cell.execution_count for cell in code_cells(stored(path, "solutions"))]
    assert counts == list(range(1, len(counts) + 1))


@EACH_LESSON
def test_the_solutions_outputs_have_no_error_warning_or_path(path):
    assert build_notebooks.output_problems(stored(path, "solutions")) == []


@EACH_LESSON
def test_every_check_of_the_solution_passed(path):
    checks = [
        cell
        for cell in code_cells(stored(path, "solutions"))
        if "check" in cell.metadata.get("tags", ())
    ]
    assert checks, "a lesson has exercises"
    for cell in checks:
        text = "\n".join(build_notebooks.output_text(output) for output in cell.outputs)
        assert "passed" in text, cell.source


@EACH_LESSON
def test_no_line_of_the_solutions_outputs_is_longer_than_a_page(path):
    long = {
        f"cell {number}: {line}"
        for number, cell in enumerate(stored(path, "solutions").cells)
        for output in cell.get("outputs", ())
        for line in printed(output).splitlines()
        if len(line) > WIDTH
    }
    assert not long, f"over {WIDTH} columns; `wrapped` of course breaks lines"


def printed(output):
    """Return what a terminal shows of an output."""
    return output.get("text") or output.get("data", {}).get("text/plain", "")


@EACH_LESSON
def test_every_picture_of_the_solution_says_in_words_what_it_shows(path):
    outputs = [o for cell in code_cells(stored(path, "solutions")) for o in cell.outputs]
    pictures = [o for o in outputs if "image/png" in o.get("data", {})]
    for one in pictures:
        words = one.metadata["image/png"]["alt"]
        assert words.endswith(".") and " ".join(one.data["text/plain"].split()) == words


@EACH_NOTEBOOK
def test_the_title_comes_first_and_the_set_up_is_folded_quiet_and_short(path, kind):
    title, badge, set_up, *_ = stored(path, kind).cells
    assert title.source.startswith(f"# {lessons.name(path)[:2]} ")
    assert badge.source.startswith("[![Open in Colab]")
    assert set_up.source == address.read().first_cell()
    assert set_up.metadata.jupyter.source_hidden and set_up.metadata.cellView == "form"
    assert set_up.outputs == []
    assert len(set_up.source.splitlines()) <= 17  # 13 where the repository's address is known


@EACH_NOTEBOOK
def test_no_comment_for_formatter_or_linter_stands_on_a_page(path, kind):
    cells = made(path, kind).cells
    assert not [its.source for its in cells if re.search("# (fmt:|noqa|type: ignore)", its.source)]


@EACH_NOTEBOOK
def test_no_marker_of_nbval_stands_on_a_page(path, kind):
    assert not [cell for cell in stored(path, kind).cells if lessons.IGNORE_OUTPUT in cell.source]


def test_all_solutions_together_stay_small():
    size = sum(target.stat().st_size for target in (lessons.ROOT / "solutions").glob("*.ipynb"))
    assert size < 10e6, "make figures smaller"


# --- exercises -----------------------------------------------------------------------------------


def checked_names(path):
    """Return the names in a lesson's check cells, in order."""
    sources = [cell.source for cell in lessons.read(path) if "check" in cell.tags]
    return [re.match(r'check\(\s*"([\w-]+)"', source)[1] for source in sources]


@EACH_LESSON
def test_a_lesson_checks_exactly_the_exercises_declared_for_it(path):
    declared = [
        name for name, each in exercises().items() if each.lesson == int(lessons.name(path)[:2])
    ]
    assert sorted(set(checked_names(path))) == sorted(declared)


@EACH_LESSON
def test_every_exercise_has_a_wrong_answer_that_is_told_why(path):
    number, _ = lessons.title(lessons.read(path))
    file = lessons.ROOT / "tests/course_lessons/wrong_answers" / f"lesson{number}.py"
    assert file.exists(), (
        f"tests/course_lessons/wrong_answers/{file.name} holds the wrong answers of the lesson"
    )
    text = file.read_text(encoding="utf-8")
    missing = [name for name in checked_names(path) if f'answers_to("{name}")' not in text]
    assert not missing, f"no wrong answer in {file.name}"
