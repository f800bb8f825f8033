"""What the notebook generator promises, shown on a small lesson of its own."""

import json
import os
import re
import subprocess
import sys
import textwrap

import nbformat
import pytest

from tests.tools.little_course import (
    LESSON,
    WHERE,
    answer,
    build,
    cell_with,
    code,
    edit,
    load,
    make,
    nbval_of,
)
from tools import address, badges, build_notebooks
from tools.notebooks import lessons


@pytest.fixture
def root(tmp_path):
    """A repository with one lesson."""
    return make(tmp_path)


@pytest.fixture
def lesson(root):
    return root / "course_lessons/lesson00/sample.py"


@pytest.fixture(scope="module")
def notebooks_built(tmp_path_factory):
    """What `build` writes for the sample, by path in the repository: executed once."""
    place = make(tmp_path_factory.mktemp("built"))
    assert build(place / "course_lessons/lesson00/sample.py") == []
    return {path.relative_to(place): path.read_bytes() for path in place.rglob("*.ipynb")}


@pytest.fixture
def built(root, lesson, notebooks_built):
    """The lesson with its notebooks, as after `build`."""
    for name, content in notebooks_built.items():
        (root / name).write_bytes(content)
    return lesson


# --- the notebooks -------------------------------------------------------------------------------


def test_the_same_lesson_gives_the_same_bytes_twice(lesson):
    for kind in ("notebooks", "solutions"):
        one, other = (
            build_notebooks.text_of(build_notebooks.notebook(lesson, kind, WHERE)) for _ in range(2)
        )
        assert one == other
        node = nbformat.reads(one, as_version=4)
        identities = [cell.id for cell in node.cells]
        assert len(set(identities)) == len(identities)  # two cells are alike in their source


def test_the_text_does_not_depend_on_the_line_ends_of_the_checkout(lesson):
    one = build_notebooks.text_of(build_notebooks.notebook(lesson, "notebooks", WHERE))
    lesson.write_bytes(LESSON.replace("\n", "\r\n").encode())
    assert build_notebooks.text_of(build_notebooks.notebook(lesson, "notebooks", WHERE)) == one


def test_the_student_gets_a_stub_that_the_solution_only_adds_to(lesson):
    student = build_notebooks.notebook(lesson, "notebooks", WHERE)
    solution = build_notebooks.notebook(lesson, "solutions", WHERE)
    (stub,) = (cell for cell in student.cells if "exercise" in cell.metadata.get("tags", ()))
    (full,) = (cell for cell in solution.cells if "exercise" in cell.metadata.get("tags", ()))
    assert stub.source == textwrap.dedent('''\
        def square(x):
            """Return the square of `x`."""
            result = None
            # your code here
            pass
            return result''')
    kept = [
        line
        for line in stub.source.splitlines()
        if line.strip() not in ("pass", "# your code here")
    ]
    assert [line for line in full.source.splitlines() if line in kept] == kept
    assert "x * x" in full.source


def test_the_title_stands_first_badge_and_folded_set_up_below_it(lesson):
    for kind in ("notebooks", "solutions"):
        title, badge, set_up, *_ = build_notebooks.notebook(lesson, kind, WHERE).cells
        assert title.source.startswith("# 00 A sample")
        assert badge.source == WHERE.badge(f"{kind}/00_sample.ipynb")
        assert set_up.source == WHERE.first_cell()
        assert set_up.metadata == {
            "tags": ["remove-cell"],
            "cellView": "form",
            "jupyter": {"source_hidden": True},
        }


def test_nbgrader_finds_what_is_answered_and_what_is_graded(lesson):
    for kind in ("notebooks", "solutions"):
        node = build_notebooks.notebook(lesson, kind, WHERE)
        marks = [cell.metadata.get("nbgrader") for cell in node.cells]
        same = {"schema_version": 3, "task": False}
        assert [mark for mark in marks if mark] == [
            same | {"grade_id": "square-answer", "grade": False, "solution": True, "locked": False},
            same
            | {
                "grade_id": "square",
                "grade": True,
                "solution": False,
                "locked": True,
                "points": 1,
            },
        ]
        assert [cell.metadata.tags for cell, mark in zip(node.cells, marks, strict=True) if mark]


def test_a_folded_answer_has_space_below_it(lesson):
    for kind in ("notebooks", "solutions"):
        text = "".join(cell.source for cell in build_notebooks.notebook(lesson, kind, WHERE).cells)
        assert 'Why? <details style="margin-bottom: 1em"><summary>Answer</summary>Because.' in text


def test_nbvals_marker_becomes_the_tag_that_nbval_knows(lesson):
    plugin = pytest.importorskip("nbval.plugin")
    for kind in ("notebooks", "solutions"):
        node = build_notebooks.notebook(lesson, kind, WHERE)
        assert "NBVAL" not in "".join(cell.source for cell in node.cells)
        tagged = [cell for cell in node.cells if cell.metadata.get("tags") == [lessons.IGNORE_TAG]]
        assert [cell.source.splitlines()[0] for cell in tagged] == ["import time"]
        assert dict(plugin.find_metadata_tags(tagged[0].metadata)) == {"check": False}


@pytest.mark.parametrize(
    ("source", "student"),
    [
        ('predict("a", 4, exact=True)', 'predict("a", ..., exact=True)'),
        ('predict("x² µs", 4, 32, numbers=2)', 'predict("x² µs", ..., numbers=2)'),
        ('predict("a", ("no", 1))\npredict("b", -1)', 'predict("a", ...)\npredict("b", ...)'),
        (
            'predict(\n    "a",\n    float("inf"),\n    within=2,\n)',
            'predict(\n    "a",\n    ...,\n    within=2,\n)',
        ),
        ('predict.answer("a", 4)', 'predict.answer("a", 4)'),
        ("text = 'predict(\"a\", 4)'", "text = 'predict(\"a\", 4)'"),
        ('Write predict("a", 4) first.', 'Write predict("a", 4) first.'),  # markdown
    ],
)
def test_the_student_gets_dots_in_place_of_a_sample_guess(source, student):
    assert lessons.stub(source) == student


def test_building_executes_the_solution_strictly_without_the_users_own_settings(
    lesson, monkeypatch
):
    monkeypatch.setenv("COURSE_SIMULATED_GPU", "H200")
    assert build(lesson, cold=True) == []
    solution = load(lesson, "solutions")
    assert [cell.execution_count for cell in code(solution)] == list(range(1, 9))
    assert code(solution)[-1].outputs[0].text == "1 None\n"
    assert "execution" not in str([cell.metadata for cell in solution.cells])
    student = load(lesson, "notebooks")
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code(student))


def test_a_solution_runs_in_an_empty_folder(lesson):
    lesson.write_text(LESSON.replace('print("same")', 'print(os.listdir("."))', 1))
    assert build(lesson) == []
    assert code(load(lesson, "solutions"))[5].outputs[0].text == "[]\n"


@pytest.mark.slow
def test_an_unchanged_lesson_is_not_executed_again(lesson, capsys):
    assert build(lesson) == []
    first = (lesson.parents[2] / "solutions/00_sample.ipynb").read_bytes()
    capsys.readouterr()
    assert build(lesson) == []
    assert capsys.readouterr().out == ""
    assert (lesson.parents[2] / "solutions/00_sample.ipynb").read_bytes() == first
    lesson.write_text(LESSON.replace("It squares.", "It squares numbers."))
    assert build(lesson) == []
    assert "executing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1 / 0", "ZeroDivisionError"),
        pytest.param(
            "import sys; print('careful', file=sys.stderr)",
            "standard error",
            marks=pytest.mark.slow,
        ),
        ("print('/tmp/' + 'x')", "a path"),
        pytest.param("object()", "an address in memory", marks=pytest.mark.slow),
    ],
)
def test_a_solution_with_an_error_warning_or_path_is_not_written(built, line, says):
    lesson = built
    before = {path: path.read_bytes() for path in lesson.parents[2].rglob("*.ipynb")}
    lesson.write_text(LESSON.replace('print("same")', line, 1))
    (problem,) = build(lesson)
    assert says in problem
    assert "lesson00/sample.py" in problem
    assert {path: path.read_bytes() for path in lesson.parents[2].rglob("*.ipynb")} == before


def test_a_wrong_solution_is_not_written(lesson):
    lesson.write_text(LESSON.replace("x * x", "x + x"))
    (problem,) = build(lesson)
    assert "RuntimeError: square" in problem
    assert not list(lesson.parents[2].rglob("*.ipynb"))


# --- notebooks that somebody edited --------------------------------------------------------------


def change_an_output(cells):
    cell_with(cells, "time.time()")["outputs"][0]["text"] = "12.5"


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("kind", "change", "advice"),
    [
        ("notebooks", answer, "python -m tools.work --new 00` copies it into work/"),
        ("solutions", answer, "course_lessons/lesson00/sample.py"),
        ("solutions", change_an_output, "course_lessons/lesson00/sample.py"),
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        LESSON,
        pytest.param(LESSON.replace("It squares.", "It squares numbers."), marks=pytest.mark.slow),
    ],
    ids=["as it was", "changed since"],
)
def test_an_edited_notebook_is_named_and_nothing_is_written(
    root, lesson, capsys, kind, change, advice, text
):
    assert build(lesson) == []
    lesson.write_text(text)
    edit(root, kind, change)
    before = {path: path.read_bytes() for path in root.rglob("*.ipynb")}
    capsys.readouterr()
    (problem,) = build(lesson)
    assert problem.startswith(f"{kind}/00_sample.ipynb: changed since")
    assert advice in problem and "FORCE=1" in problem
    assert {path: path.read_bytes() for path in root.rglob("*.ipynb")} == before
    assert capsys.readouterr().out == "", "it was executed first"


@pytest.mark.slow
def test_force_writes_over_an_edited_notebook(root, lesson):
    assert build(lesson) == []
    student = (root / "notebooks/00_sample.ipynb").read_bytes()
    edit(root, "notebooks", answer)
    (root / "solutions/00_sample.ipynb").write_text("<<<<<<< a merge left this")
    assert len(build(lesson)) == 2
    assert build(lesson, force=True) == []
    assert (root / "notebooks/00_sample.ipynb").read_bytes() == student
    assert build(lesson) == []


def test_another_way_to_write_the_same_notebook_is_no_change(root, lesson):
    assert build(lesson) == []
    before = {path: path.read_bytes() for path in root.rglob("*.ipynb")}
    for kind in ("notebooks", "solutions"):
        edit(root, kind, lambda cells: None)
    assert {path: path.read_bytes() for path in root.rglob("*.ipynb")} != before
    assert build(lesson) == []
    assert {path: path.read_bytes() for path in root.rglob("*.ipynb")} == before


def unseal(root):
    for path in root.rglob("*.ipynb"):
        node = json.loads(path.read_text())
        del node["metadata"]["course"]["written"]
        path.write_text(json.dumps(node))


def test_notebooks_from_before_there_were_seals_get_one_and_are_not_executed(root, lesson, capsys):
    assert build(lesson) == []
    before = {path: path.read_bytes() for path in root.rglob("*.ipynb")}
    unseal(root)
    capsys.readouterr()
    assert build(lesson) == []
    assert {path: path.read_bytes() for path in root.rglob("*.ipynb")} == before
    assert capsys.readouterr().out == ""
    edit(root, "notebooks", answer)
    unseal(root)
    (problem,) = build(lesson)
    assert "notebooks/00_sample.ipynb" in problem


def test_what_a_picture_shows_stays_beside_it_for_readers_and_for_sites(root, lesson):
    picture = """
class Dot:
    def _repr_png_(self):
        import base64
        dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5E"
        return base64.b64decode(dot + "rkJggg=="), {"alt": "A dot.", "width": 1}

    def __repr__(self):
        return "A dot."


Dot()"""
    lesson.write_text(LESSON.replace('print("same")', picture, 1))
    assert build(lesson) == []
    cell = cell_with(load(lesson, "solutions").cells, "class Dot")
    assert cell.outputs[0].metadata == {"image/png": {"alt": "A dot."}}
    assert cell.metadata == {"mystnb": {"image": {"alt": "A dot."}}}
    made = build_notebooks.notebook(lesson, "solutions", WHERE)
    assert build_notebooks.difference(load(lesson, "solutions"), made) is None
    before = (root / "solutions/00_sample.ipynb").read_bytes()
    assert build(lesson) == [] and (root / "solutions/00_sample.ipynb").read_bytes() == before


def test_where_only_the_metadata_differ_the_outputs_stay(root, lesson, capsys):
    assert build(lesson) == []
    outputs = [cell.outputs for cell in code(load(lesson, "solutions"))]
    lesson.write_text(LESSON + "\n")
    capsys.readouterr()
    assert build(lesson) == []
    assert capsys.readouterr().out == ""
    assert [cell.outputs for cell in code(load(lesson, "solutions"))] == outputs
    made = build_notebooks.notebook(lesson, "solutions", WHERE)
    assert build_notebooks.difference(load(lesson, "solutions"), made) is None


# --- the format ----------------------------------------------------------------------------------


def test_the_sample_keeps_the_format(lesson):
    assert lessons.problems(lesson) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("# # 00 A sample", "# A sample", "starts with a heading"),
        ("# # 00 A sample", "# # 07 A sample", "the heading's number is 07"),
        ("## What you need", "## What is needed", "opens with the headings"),
        ("## What you will do\n# Square numbers.", "## What you will do", "nothing stands below"),
        ("## Common misconceptions", "## Misconceptions", "closes with the headings"),
        ("## 1 Squares", "## Squares", "numbered"),
        ("## 1 Squares", "## 2 Squares", "numbered"),
        ("<details><summary>Answer</summary>Because.</details>", "Because.", "folds its answers"),
        ("<details><summary>Answer</summary>Because.</details>", "<details>x", "do not pair"),
        (", [two](https://example.org/two)", "", "two links"),
        ("### BEGIN SOLUTION", "### Begin solution", "alone on its line"),
        ("### BEGIN SOLUTION", "    ### BEGIN SOLUTION", "indented alike"),
        ("    ### END SOLUTION\n", "", "does not end"),
        ("    ### BEGIN SOLUTION\n", "", "never began"),
        ("    result = x * x\n", "    ### BEGIN SOLUTION\n", "opens inside another"),
        ('tags=["exercise"]', "", 'tag it "exercise"'),
        ('# %% tags=["check"]\ncheck("square", square)\n', "", "no `check` cell follows"),
        ('check("square", square)\n\n#', 'check("square", square)\nprint(1)\n\n#', "one call"),
        ("# NBVAL_IGNORE_OUTPUT", "# nbval_ignore_output", "alone on its line"),
        ("# NBVAL_IGNORE_OUTPUT\nimport time", "import time  # NBVAL_IGNORE_OUTPUT", "alone"),
        ('tags=["check"]', 'tags=["check", "fun"]', "unknown tag 'fun'"),
        ('# %%\nprint("same")', '# %% Title\nprint("same")', "no cell's first line"),
        ('# %%\nprint("same")', "# %%", "the cell is empty"),
        ("# It squares.", "It squares.", "starts with `# `"),
        ("# %% [markdown]\n# # 00", "import os\n# %% [markdown]\n# # 00", "nothing before"),
        ('print("same")', "%time x", "does not compile"),
        ('print("same")', "x = 1\n" * 21, "21 lines"),
        (
            'print("same")',
            'predict("how many?", ..., exact=True)',
            "no sample guess for 'how many?'",
        ),
        ("# It squares.", "# " + "word " * 130, "words"),
        ("    return result", "    return result\n  ", None),
    ],
)
def test_a_lesson_that_breaks_the_format_is_told_what_is_wrong(lesson, old, new, says):
    assert old in LESSON
    lesson.write_text(LESSON.replace(old, new, 1))
    found = lessons.problems(lesson)
    if says is None:
        assert found == []
    else:
        assert any(says in problem for problem in found), found
        assert all(problem.startswith("lesson00/sample.py: ") for problem in found)


def test_docstrings_comments_and_markers_do_not_count_as_lines(lesson):
    body = "    x = 1\n" * 19 + "\n" * 9 + "    # a comment\n" * 9
    cell = f'# %%\ndef long():\n    """Say\n    {"much" * 3}\n    """\n{body}\n\n'
    lesson.write_text(LESSON.replace('# %%\nprint("same")', f'{cell}# %%\nprint("same")', 1))
    assert lessons.problems(lesson) == []


def test_a_long_cell_can_be_allowed(lesson):
    long = '# %% tags=["long"]\n' + "x = 1\n" * 40
    lesson.write_text(LESSON.replace('# %%\nprint("same")', f'{long}\n# %%\nprint("same")', 1))
    assert lessons.problems(lesson) == []


# --- the address ---------------------------------------------------------------------------------


def test_make_badges_rewrites_the_address_everywhere_and_executes_nothing(root, built, capsys):
    for name in ("pyproject.toml", "README.md"):
        (root / name).write_bytes((lessons.ROOT / name).read_bytes())
    lesson = built
    outputs = [cell.outputs for cell in code(load(lesson, "solutions"))]
    pyproject = (root / "pyproject.toml").read_text()
    now = address.read(root)

    badges.main(["--root", str(root), "--repository", "new-owner/new.name", "--tag", "v2"])

    changed = address.Address("new-owner/new.name", "v2")
    assert address.read(root) == changed
    differing = [
        (old, new)
        for old, new in zip(
            pyproject.splitlines(), (root / "pyproject.toml").read_text().splitlines(), strict=True
        )
        if old != new
    ]
    assert differing == [
        (f'repository = "{now.repository}"', 'repository = "new-owner/new.name"'),
        (f'tag = "{now.tag}"', 'tag = "v2"'),
    ]
    readme = (root / "README.md").read_text()
    assert now.repository not in readme
    assert "new-owner/new.name/blob/v2/notebooks/00_sample.ipynb" in readme
    for kind in ("notebooks", "solutions"):
        made = build_notebooks.notebook(lesson, kind, changed)
        assert build_notebooks.difference(load(lesson, kind), made) is None
    assert [cell.outputs for cell in code(load(lesson, "solutions"))] == outputs
    assert "2 notebooks" in capsys.readouterr().out


@pytest.mark.slow
def test_make_badges_leaves_everything_as_it_is_where_a_notebook_was_edited(root, lesson):
    for name in ("pyproject.toml", "README.md"):
        (root / name).write_bytes((lessons.ROOT / name).read_bytes())
    assert build(lesson) == []
    edit(root, "notebooks", answer)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(SystemExit, match="notebooks/00_sample.ipynb: changed since"):
        badges.main(["--root", str(root), "--tag", "v2"])
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_make_badges_asks_for_a_build_where_a_notebook_has_an_older_form(root, built):
    for name in ("pyproject.toml", "README.md"):
        (root / name).write_bytes((lessons.ROOT / name).read_bytes())
    target = root / "notebooks/00_sample.ipynb"
    node = nbformat.read(target, as_version=4)
    node.cells = [node.cells[1], node.cells[2], node.cells[0], *node.cells[3:]]
    target.write_text(build_notebooks.text_of(node))
    with pytest.raises(SystemExit, match=r"00_sample.ipynb is of an older form: run `make notebo"):
        badges.main(["--root", str(root), "--tag", "v2"])


@pytest.mark.parametrize(("option", "value"), [("--repository", "no-slash"), ("--tag", "a b")])
def test_a_wrong_address_is_refused_before_anything_is_written(root, option, value):
    for name in ("pyproject.toml", "README.md"):
        (root / name).write_bytes((lessons.ROOT / name).read_bytes())
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(SystemExit, match=re.escape(repr(value))):
        badges.main(["--root", str(root), option, value])
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


# --- under nbval ---------------------------------------------------------------------------------


@pytest.fixture
def nbval(root, built):
    """Run `pytest --nbval` in the little repository, with this repository's configuration."""
    return nbval_of(built)


def test_nbval_runs_both_notebooks_the_solution_strictly(nbval):
    done = nbval()
    assert done.returncode == 0, done.stdout
    assert "16 passed" in done.stdout


def test_nbval_compares_a_solutions_outputs(root, nbval):
    def change(cells):
        cell_with(cells, 'COURSE_STRICT"),')["outputs"][0]["text"] = ["None None\n"]

    edit(root, "solutions", change)
    done = nbval("solutions")
    assert done.returncode == 1
    assert "Cell outputs differ" in done.stdout


def test_nbval_refuses_a_stub_whose_verdict_is_not_not_started(root, nbval):
    def change(cells):
        cell_with(cells, "def square").update(
            source=["square = abs\n", "check = lambda *_: 'failed'"]
        )

    edit(root, "notebooks", change)
    done = nbval("notebooks")
    assert done.returncode == 1
    assert "The verdict is not 'not started'" in done.stdout


@pytest.mark.slow
def test_nbval_refuses_a_student_notebook_that_raises(root, nbval):
    edit(root, "notebooks", lambda cells: cells[-2].update(source=["1 / 0"]))
    done = nbval("notebooks")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stdout


@pytest.mark.slow
def test_a_kernel_that_dies_before_it_starts_is_started_again(root, nbval, monkeypatch):
    (root / "one_death.py").write_text(
        textwrap.dedent("""
            from nbval import kernel

            start = kernel.start_new_kernel
            deaths = []

            def start_new_kernel(*args, **options):
                if not deaths:
                    deaths.append(1)
                    raise RuntimeError("Kernel died before replying to kernel_info")
                print("second start")
                return start(*args, **options)

            kernel.start_new_kernel = start_new_kernel
        """)
    )
    monkeypatch.setenv("PYTHONPATH", str(root))
    done = nbval("-s", "-p", "one_death", "solutions")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("second start") == 1


def test_plain_pytest_runs_no_notebook(root, nbval):
    environment = {**os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"],
        cwd=root, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 5, done.stdout  # no tests were collected
