"""What the notebook generator promises, shown on a small lesson of its own."""

import json
import os
import re
import subprocess
import sys
import textwrap

import nbformat
import pytest

from tools import address, build_notebooks, lessons

WHERE = address.Address("someone/somewhere", "v9")

LESSON = '''\
# %% [markdown]
# # 00 A sample
# It squares.
#
# ## What you will do
# Square numbers.
#
# ## What you will learn
# What a square is.
#
# ## What you need
# Nothing.

# %% [markdown]
# ## How long it takes
# Five minutes.

# %%
import os


def check(name, function):
    passed = function(3) == 9
    if not passed and os.environ.get("COURSE_STRICT") == "1":
        raise RuntimeError(name)
    return f"{name}: {'passed' if passed else 'not started'}"


# %% [markdown]
# ## 1 Squares
#
# ### Exercise: square

# %% tags=["exercise"]
def square(x):
    """Return the square of `x`."""
    result = None
    ### BEGIN SOLUTION
    result = x * x
    ### END SOLUTION
    return result


# %% tags=["check"]
check("square", square)

# %%
# NBVAL_IGNORE_OUTPUT
import time

print(time.time())

# %%
print("same")

# %%
print("same")

# %%
print(os.environ.get("COURSE_STRICT"), os.environ.get("COURSE_SIMULATED_GPU"))

# %% [markdown]
# ## What you should be able to say now
# What a square is.
#
# ## Questions
# Why? <details><summary>Answer</summary>Because.</details>
#
# ## Exercises on your own
# Cubes.
#
# ## Common misconceptions
# A square is no cube.
#
# ## What to read next
# [One](https://example.org/one), [two](https://example.org/two).
'''


@pytest.fixture
def root(tmp_path):
    """A repository with one lesson."""
    for folder in ("lessons", "notebooks", "solutions"):
        (tmp_path / folder).mkdir()
    (tmp_path / "lessons/00_sample.py").write_text(LESSON)
    return tmp_path


@pytest.fixture
def lesson(root):
    return root / "lessons/00_sample.py"


def build(lesson, **options):
    return build_notebooks.build(lesson, WHERE, lesson.parent.parent, **options)


def load(lesson, kind):
    return nbformat.read(lesson.parent.parent / kind / "00_sample.ipynb", as_version=4)


def code(node):
    return [cell for cell in node.cells if cell.cell_type == "code"]


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


def test_building_executes_the_solution_strictly_without_the_users_own_settings(
    lesson, monkeypatch
):
    monkeypatch.setenv("COURSE_SIMULATED_GPU", "H200")
    assert build(lesson) == []
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


def test_an_unchanged_lesson_is_not_executed_again(lesson, capsys):
    assert build(lesson) == []
    first = (lesson.parent.parent / "solutions/00_sample.ipynb").read_bytes()
    capsys.readouterr()
    assert build(lesson) == []
    assert capsys.readouterr().out == ""
    assert (lesson.parent.parent / "solutions/00_sample.ipynb").read_bytes() == first
    lesson.write_text(LESSON.replace("It squares.", "It squares numbers."))
    assert build(lesson) == []
    assert "executing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import sys; print('careful', file=sys.stderr)", "standard error"),
        ("print('/tmp/' + 'x')", "a path"),
        ("object()", "an address in memory"),
    ],
)
def test_a_solution_with_an_error_warning_or_path_is_not_written(lesson, line, says):
    assert build(lesson) == []
    before = {path: path.read_bytes() for path in lesson.parent.parent.rglob("*.ipynb")}
    lesson.write_text(LESSON.replace('print("same")', line, 1))
    (problem,) = build(lesson)
    assert says in problem
    assert "00_sample.py" in problem
    assert {path: path.read_bytes() for path in lesson.parent.parent.rglob("*.ipynb")} == before


def test_a_wrong_solution_is_not_written(lesson):
    lesson.write_text(LESSON.replace("x * x", "x + x"))
    (problem,) = build(lesson)
    assert "RuntimeError: square" in problem
    assert not list(lesson.parent.parent.rglob("*.ipynb"))


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
        ("# Five minutes.", "# Not long.", "names minutes or hours"),
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
        assert all(problem.startswith("00_sample.py: ") for problem in found)


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


def test_make_badges_rewrites_the_address_everywhere_and_executes_nothing(root, lesson, capsys):
    for name in ("pyproject.toml", "README.md"):
        (root / name).write_bytes((lessons.ROOT / name).read_bytes())
    assert build(lesson) == []
    outputs = [cell.outputs for cell in code(load(lesson, "solutions"))]
    pyproject = (root / "pyproject.toml").read_text()
    now = address.read(root)

    address.main(["--root", str(root), "--repository", "new-owner/new.name", "--tag", "v2"])

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


@pytest.mark.parametrize(("option", "value"), [("--repository", "no-slash"), ("--tag", "a b")])
def test_a_wrong_address_is_refused_before_anything_is_written(root, option, value):
    for name in ("pyproject.toml", "README.md"):
        (root / name).write_bytes((lessons.ROOT / name).read_bytes())
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(SystemExit, match=re.escape(repr(value))):
        address.main(["--root", str(root), option, value])
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


# --- under nbval ---------------------------------------------------------------------------------


@pytest.fixture
def nbval(root, lesson):
    """Run `pytest --nbval` in the little repository, with this repository's configuration."""
    for name in ("pyproject.toml", "conftest.py"):
        (root / name).write_bytes((lessons.ROOT / name).read_bytes())
    assert build(lesson) == []

    def run(*arguments):
        environment = {**os.environ, "COURSE_STRICT": "1"}  # must not reach the student's kernel
        command = [sys.executable, "-m", "pytest", "--nbval", "-q", "--color=no", *arguments]
        return subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, check=False
        )

    return run


def edit(root, kind, change):
    path = root / kind / "00_sample.ipynb"
    node = json.loads(path.read_text())
    change(node["cells"])
    path.write_text(json.dumps(node))


def test_nbval_runs_both_notebooks_the_solution_strictly(nbval):
    done = nbval()
    assert done.returncode == 0, done.stdout
    assert "16 passed" in done.stdout


def test_nbval_compares_a_solutions_outputs(root, nbval):
    def change(cells):
        (cell,) = (c for c in cells if 'COURSE_STRICT"),' in "".join(c["source"]))
        cell["outputs"][0]["text"] = ["None None\n"]

    edit(root, "solutions", change)
    done = nbval("solutions")
    assert done.returncode == 1
    assert "Cell outputs differ" in done.stdout


def test_nbval_refuses_a_stub_whose_verdict_is_not_not_started(root, nbval):
    def change(cells):
        (cell,) = (c for c in cells if "def square" in "".join(c["source"]))
        cell["source"] = ["square = abs\n", "check = lambda *_: 'failed'"]

    edit(root, "notebooks", change)
    done = nbval("notebooks")
    assert done.returncode == 1
    assert "The verdict is not 'not started'" in done.stdout


def test_nbval_refuses_a_student_notebook_that_raises(root, nbval):
    edit(root, "notebooks", lambda cells: cells[-2].update(source=["1 / 0"]))
    done = nbval("notebooks")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stdout


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
