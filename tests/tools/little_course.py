"""A repository with one small lesson, for tests of what makes, copies and runs notebooks."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext

import nbformat

from tests.house import warm_kernels
from tools import address, build_notebooks
from tools.notebooks import lessons

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
# A break is not needed.

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
# <kbd>core</kbd>
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


def make(folder):
    """Make the repository in an empty folder and return that."""
    for name in ("course_lessons", "notebooks", "solutions"):
        (folder / name).mkdir()
    (folder / "course_lessons/lesson00").mkdir()
    (folder / "course_lessons/lesson00/sample.py").write_text(LESSON)
    return folder


def build(lesson, cold=False, **options):
    """Build the notebooks, by a kernel that starts from nothing or, sooner, by a forked one."""
    with nullcontext() if cold else warm_kernels.launching():
        return build_notebooks.build(lesson, WHERE, lesson.parents[2], **options)


def load(lesson, kind):
    return nbformat.read(lesson.parents[2] / kind / "00_sample.ipynb", as_version=4)


def code(node):
    return [cell for cell in node.cells if cell.cell_type == "code"]


def edit(root, kind, change):
    path = root / kind / "00_sample.ipynb"
    node = json.loads(path.read_text())
    change(node["cells"])
    path.write_text(json.dumps(node))


def cell_with(cells, text):
    """Return the one cell of a notebook's file whose source has `text` in it."""
    (cell,) = (cell for cell in cells if text in "".join(cell["source"]))
    return cell


def answer(cells):
    cell_with(cells, "def square").update(source="def square(x):\n    return x * x")


def nbval_of(lesson):
    """Return what runs `pytest --nbval` on the notebooks, configured as this repository."""
    root = lesson.parents[2]
    for name in ("pyproject.toml", "conftest.py"):
        (root / name).write_bytes((lessons.ROOT / name).read_bytes())
    if not list(root.glob("solutions/*.ipynb")):
        assert build(lesson) == []
    # nbformat takes it for addresses, which no notebook here has, and it takes a second to import
    (root / "rfc3987_syntax.py").write_text('"""Not here."""\n\nraise ImportError\n')

    def run(*arguments):
        environment = {**os.environ, "COURSE_STRICT": "1"}  # must not reach the student's kernel
        command = [sys.executable, "-m", "pytest", "--nbval", "-q", "--color=no", *arguments]
        return subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, check=False
        )

    return run
