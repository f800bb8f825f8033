"""What is judged is what the cell shows: of a cell that failed a check says so; boxes come once."""

import ast
import re
from pathlib import Path

import pytest

from course.checks import cells, progress

pytest.importorskip("IPython")

GIVEN = "from course import check, cuda, predict"
RIGHT = """\
@cuda.jit
def fill_index(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = i
"""
NAMED = "check('fill-index', fill_index)"


class Notebook:
    """An IPython in this process; `run` gives what a cell shows, without errors' tracebacks."""

    def __init__(self, shell, capsys):
        self.shell, self.capsys = shell, capsys

    def run(self, *texts):
        for text in texts:
            self.capsys.readouterr()
            self.shell.run_cell(text, store_history=True)
        return self.capsys.readouterr().out

    def says(self, *texts):
        return " ".join(self.run(*texts).split())


@pytest.fixture
def notebook(monkeypatch, capsys):
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.setattr(cells, "_stale", {})
    monkeypatch.setattr(cells, "_watched", [])
    monkeypatch.setattr(progress, "_records", {})
    monkeypatch.setattr(progress, "_failed", {})
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    cells.watch()
    yield Notebook(shell, capsys)
    InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    ("broken", "where"),
    [
        (RIGHT.replace("(out):", "(out)"), "SyntaxError in its line 2"),
        (RIGHT.replace("def", " def", 1), "IndentationError in its line 2"),
        (RIGHT.replace("cuda.jit", "cuda.jjit"), "AttributeError in its line 1"),
        (RIGHT.replace("(out)", "(out=nowhere)"), "NameError in its line 2"),
        ("eval('1 +')\n\n\n" + RIGHT, "SyntaxError in its line 1"),
        ("size = 1 / 0\n" + RIGHT, "ZeroDivisionError in its line 1"),
        (RIGHT + "fill_index = nowhere(\n    fill_index)", "NameError in its line 6"),
        ("%%time\n" + RIGHT.replace("(out):", "(out)"), "SyntaxError"),
        ("%%capture\n" + RIGHT.replace("(out):", "(out)"), "its magic command did not define it"),
    ],
)
def test_a_cell_that_failed_is_named_and_what_it_defined_before_is_not_judged(
    notebook, broken, where
):
    assert notebook.says(GIVEN, RIGHT, NAMED).startswith("Out[3]: ✓ fill-index: passed")
    said = notebook.says(broken, NAMED)
    assert "✗ fill-index: not-run The cell that defines `fill_index` did not run" in said
    assert where in said
    assert progress.latest("fill-index").status == "passed"  # of the answer that was judged
    assert "✓ fill-index: passed" in notebook.says(RIGHT, NAMED)


def test_a_cell_that_failed_below_the_definition_has_defined_it(notebook):
    assert "✓ fill-index: passed" in notebook.says(GIVEN, RIGHT, RIGHT + "1 / 0", NAMED)


def test_a_definition_and_its_check_may_stand_in_one_cell(notebook):
    notebook.run(GIVEN, RIGHT, RIGHT.replace("(out):", "(out)"))
    assert "✓ fill-index: passed" in notebook.says(RIGHT + NAMED)


def test_a_name_that_is_used_elsewhere_is_no_definition(notebook):
    notebook.run(GIVEN, RIGHT, "print(\n    fill_index,\n    out=fill_index.nowhere)")
    assert "✓ fill-index: passed" in notebook.says(NAMED)


def test_what_an_answer_uses_must_have_run_as_well(notebook):
    notebook.run(GIVEN, "OFFSET = 0", RIGHT.replace("= i\n", "= i + OFFSET\n"))
    assert "✓" in notebook.says(NAMED)
    said = notebook.says("OFFSET = 1 +", NAMED)
    assert "The cell that defines `OFFSET`, which your answer uses, did not run" in said
    assert "✓" in notebook.says("OFFSET = 0", NAMED)


def test_an_attribute_is_no_name_of_the_notebook(notebook):
    notebook.run(GIVEN, "size = 1", RIGHT, "size = 1 +")
    assert "✓" in notebook.says(NAMED)


def test_a_function_within_the_answer_reads_names_as_well(notebook):
    within = "def launch_1d(n):\n    def blocks():\n        return (n + T - 1) // T\n"
    notebook.run(GIVEN, "T = 128", within + "    return blocks(), T")
    assert "✓" in notebook.says("check('launch-1d', launch_1d)")
    notebook.run("T = 1 +")
    assert "The cell that defines `T`" in notebook.says("check('launch-1d', launch_1d)")


def test_a_cell_that_failed_is_strictly_no_pass_and_worth_nothing(notebook, monkeypatch):
    notebook.run(GIVEN, RIGHT, RIGHT.replace("(out):", "(out)"))
    monkeypatch.setenv("COURSE_STRICT", "1")
    assert "VerdictError" in notebook.says(NAMED)
    monkeypatch.setenv("COURSE_GRADING", "1")
    said = notebook.says(NAMED)
    assert "✗ fill-index: not-run" in said and "0.0" in said


# --- predictions ---------------------------------------------------------------------------------


def test_guesses_and_outcomes_show_themselves_once_wherever_they_stand(notebook):
    said = notebook.run(
        GIVEN,
        "predict('a', 3, exact=True)\npredict('b', '75%', within=2)\nprint('a table')\n"
        "predict.answer('a', 3)\nkept = predict.answer('b', 0.7)",
    )
    boxes = re.findall(r"^(· a|· b|a table|a|b)\b", said, re.MULTILINE)
    assert boxes == ["· a", "· b", "a table", "a", "b"]
    assert notebook.run("predict.answer('a', 3)").count("you predicted") == 1
    assert notebook.run("kept").count("you predicted 0.75") == 1
    assert notebook.run("for _ in range(3):\n    predict.answer('a', 3)").count("you pred") == 3


def test_without_a_notebook_nothing_is_shown_unasked(capsys):
    from course import predict

    predict("quiet", 3, exact=True)
    predict.answer("quiet", 3)
    assert capsys.readouterr().out == ""


def test_in_a_kernel_a_cell_that_failed_is_named_and_boxes_are_html():
    import nbformat

    from tools import build_notebooks

    broken, boxes = RIGHT.replace("(out):", "(out)"), "predict.answer('a', 3)\nprint('a table')"
    texts = (GIVEN, RIGHT, NAMED, broken, NAMED, "predict('a', 3, exact=True)\n" + boxes)
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in texts])
    for cell in node.cells[3:5]:
        cell.metadata.tags = ["raises-exception"]  # COURSE_STRICT makes an error of a verdict
    build_notebooks.execute(node)
    _, _, passed, failed, second, shown = (cell.outputs for cell in node.cells)
    assert "✓ fill-index: passed" in passed[0].data["text/plain"]
    assert failed[0].ename == "SyntaxError"
    assert "SyntaxError in its line 2" in " ".join(second[0].evalue.split())
    assert [output.output_type for output in shown] == ["display_data", "display_data", "stream"]
    assert all("<div" in output.data["text/html"] for output in shown[:2])


# --- the executed solutions ----------------------------------------------------------------------

SOLUTIONS = sorted((Path(__file__).resolve().parents[3] / "solutions").glob("*.ipynb"))


def predictions_of(cell):
    """How often a cell calls `predict` or `predict.answer`."""
    text = re.sub("^[%!].*", "", cell.source, flags=re.MULTILINE)
    called = [ast.unparse(n.func) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
    return sum(name in ("predict", "predict.answer") for name in called)


def boxes_of(cell):
    """How many guesses and outcomes a cell shows."""
    shown = [output.data.get("text/plain", "") for output in cell.outputs if "data" in output]
    # lesson 00 asks three questions back, "○ pixel. Who ..."
    lines = (
        text
        for text in shown
        if re.match(r"[·○] (?!\w+\. ).*: |.*: you predicted ", " ".join(text.split()))
    )
    return sum(1 for _ in lines)


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_each_guess_and_each_outcome_of_a_solution_is_shown(path):
    import nbformat

    cells_of = nbformat.read(path, as_version=4).cells
    code = [(number, cell) for number, cell in enumerate(cells_of) if cell.cell_type == "code"]
    counted = {number: (predictions_of(cell), boxes_of(cell)) for number, cell in code}
    assert any(called for called, _ in counted.values())
    assert {number: both for number, both in counted.items() if both[0] != both[1]} == {}
