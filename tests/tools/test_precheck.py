"""What stands against grading a class is named before nbgrader gives 0 without a word."""

import os

import nbformat
import pytest

from tools import precheck

ASSIGNMENT = "00_sample"
EXERCISES = {"fill-index": 4, "launch-1d": 2}
GIVEN = "from course import check, cuda"
ANSWERS = {
    "fill-index": "@cuda.jit\ndef fill_index(out):\n    i = cuda.grid(1)\n"
    "    if i < out.size:\n        out[i] = i",
    "launch-1d": "def launch_1d(n):\n    return (n + 127) // 128, 128",
}


def notebook(**answers):
    """A small lesson with an answer and a check for each exercise; stubs where none is given."""
    cells = [nbformat.v4.new_code_cell(GIVEN)]
    for name, points in EXERCISES.items():
        function = name.replace("-", "_")
        decorator = "@cuda.jit\n" if name == "fill-index" else ""
        stub = ANSWERS[name].partition(":\n")[0].replace(decorator, "") + ":\n    pass"
        mark = {"grade": False, "solution": True, "locked": False, "schema_version": 3,
                "task": False, "grade_id": f"{name}-answer", "cell_type": "code"}  # fmt: skip
        answer = nbformat.v4.new_code_cell(answers.get(function, decorator + stub))
        answer.metadata.nbgrader = mark
        check = nbformat.v4.new_code_cell(f'check("{name}", {function})')
        check.metadata.nbgrader = mark | {
            "grade": True, "solution": False, "locked": True, "grade_id": name, "points": points,
        }  # fmt: skip
        cells += [answer, check]
    return nbformat.v4.new_notebook(cells=cells)


RIGHT = {name.replace("-", "_"): text for name, text in ANSWERS.items()}


@pytest.fixture
def hand_in(tmp_path, capsys):
    """Hand in a notebook, and return what is found in it."""
    release = tmp_path / "release" / ASSIGNMENT
    release.mkdir(parents=True)
    nbformat.write(notebook(), release / f"{ASSIGNMENT}.ipynb")

    def handed_in(node, *options, name=f"{ASSIGNMENT}.ipynb"):
        place = tmp_path / "submitted" / "ada" / ASSIGNMENT
        place.mkdir(parents=True, exist_ok=True)
        if isinstance(node, str):
            (place / name).write_text(node)
        else:
            nbformat.write(node, place / name)
        status = precheck.main([str(tmp_path), *options])
        *found, last = capsys.readouterr().out.splitlines()
        assert last == f"looked at: 1; against grading: {len(found)}"
        assert status == bool(found)
        return [line.removeprefix(f"ada: {ASSIGNMENT}: ") for line in found]

    return handed_in


def without(name):
    def change(node):
        node.cells = [cell for cell in node.cells if precheck.name_of(cell) != name]

    return change


def twice(node):
    node.cells.insert(2, nbformat.from_dict(node.cells[1]))


def upside_down(node):
    node.cells[1:3] = node.cells[2:0:-1]


def as_text(node):
    node.cells[2] = nbformat.v4.new_markdown_cell(
        node.cells[2].source, metadata=node.cells[2].metadata
    )


def source(number, text):
    return lambda node: node.cells[number].update(source=text)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda node: None, []),
        (without("fill-index"), ["fill-index: the check cell is missing"]),
        (without("fill-index-answer"), ["fill-index-answer: the answer cell is missing"]),
        (twice, ["fill-index-answer: 2 cells have this name: keep it in one of them"]),
        (upside_down, ["fill-index: the check stands above the answer"]),
        (as_text, ["fill-index: the cell is of type markdown now, not code"]),
        (
            source(2, "4.0"),
            ["fill-index: the check cell was changed; nbgrader takes the one that was handed out"],
        ),
        *(
            (source(0, text), ["cell 0 redefines `check`: no check below it is the course's"])
            for text in (
                f"{GIVEN}\ndef check(*a): return 4",
                f"{GIVEN}\ncheck = 3",
                f"{GIVEN}\nfor check in range(3):\n    pass",
                "import course as check",
                "%time\ncheck = 3",
            )
        ),
        (
            source(1, "import os\nos._exit(0)"),
            ["cell 1 calls os._exit(), which ends the kernel: nothing below is graded"],
        ),
    ],
)
def test_what_is_wrong_with_the_cells_is_named(hand_in, change, found):
    node = notebook(**RIGHT)
    change(node)
    assert hand_in(node, "--no-run") == found


def test_a_notebook_that_cannot_be_read_or_has_another_name_is_named(hand_in, tmp_path):
    (said,) = hand_in("{}", "--no-run")
    assert said.startswith(f"{ASSIGNMENT}.ipynb is no notebook that can be read: ")
    (tmp_path / "submitted/ada" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").unlink()
    assert hand_in(notebook(), "--no-run", name="mine.ipynb") == [
        f"{ASSIGNMENT}.ipynb is missing; there is mine.ipynb"
    ]


def test_an_unknown_assignment_and_a_class_that_handed_in_nothing_are_no_success(tmp_path):
    with pytest.raises(SystemExit, match="no 00_sample in .*release; there is nothing"):
        precheck.main([str(tmp_path), ASSIGNMENT])
    assert precheck.main([str(tmp_path)]) == 1


@pytest.mark.slow
def test_right_wrong_and_untouched_answers_have_nothing_against_grading(hand_in):
    wrong = RIGHT["fill_index"].replace("grid(1)", "threadIdx.x")
    assert hand_in(notebook(fill_index=wrong)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "text", "found"),
    [
        (
            1,
            "import os as system\nsystem._exit(0)",
            ["the kernel died in cell 1: the whole notebook gets no points"],
        ),
        (
            1,
            "@cuda.jit\ndef filled(out):\n    pass",
            [
                "fill-index: no points, the check ends in NameError: "
                "name 'fill_index' is not defined"
            ],
        ),
        (
            0,
            f"{GIVEN}\nglobals()['check'] = print",
            [
                f"{name}: no verdict: `check` is not the course's, and nbgrader would give all "
                "points"
                for name in EXERCISES
            ],
        ),
        (
            0,
            f"{GIVEN}\nglobals()['check'] = lambda *a: 2",
            [f"{name}: no verdict: `check` is not the course's, and gives 2 points"
             for name in EXERCISES],
        ),
        (
            0,
            f"{GIVEN}\nimport course.checks.grading as g\ng.points = lambda *a: 9",
            [f"{name}: 9 points of {most}: nbgrader refuses the notebook"
             for name, most in EXERCISES.items()],
        ),
    ],
)  # fmt: skip
def test_what_comes_of_a_run_is_named(hand_in, number, text, found):
    node = notebook(**RIGHT)
    node.cells[number].source = text
    assert hand_in(node) == found


@pytest.mark.slow
def test_a_check_that_is_gone_is_run_all_the_same_and_what_passed_before_must_pass(hand_in):
    node = notebook(**RIGHT)
    del node.cells[2]
    node.cells[1].source = ANSWERS["fill-index"].replace("out[i] = i", "out[i] = 0")
    node.cells[3].outputs = [
        nbformat.v4.new_output("execute_result", {"text/plain": "✓ launch-1d: passed"})
    ]
    node.cells[2].source = "def launch_1d(n):\n    return 0"
    assert hand_in(node) == [
        "fill-index: the check cell is missing",
        "launch-1d: it passed where it was written, and does not here",
    ]
    assert "COURSE_GRADING" not in os.environ
