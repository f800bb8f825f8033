"""Folders and files of a learner's own beside a notebook, where the course came as a wheel."""

import ast
import os
import subprocess
import sys
import zipfile

import pytest

from course.old_names import MOVED
from tools import address
from tools.notebooks import lessons

pytestmark = pytest.mark.slow

#: What learners call their own things; the wheel claimed some of it once, the repository has it.
OWN = {
    "packages": (
        "lessons/__init__.py", "recording/__init__.py", "tools/__init__.py", "tests/__init__.py",
        "notebooks/__init__.py", "data/__init__.py",
    ),
    "modules": ("lessons.py", "course/notes.py", "warpsim/notes.py"),
}  # fmt: skip
#: A notebook's cells: an exercise is checked, and a module of each package is used.
CELLS = """
from course import check, cuda, data_path, progress
from course_lessons.lesson01 import pictures

@cuda.jit
def fill_index(out):
    i = cuda.grid(1)
    out[i] = i

assert "passed" in str(check("fill-index", fill_index)), check("fill-index", fill_index)
assert data_path("README.md").is_file()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The wheel's files, as pip installs them in a folder."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, lessons.ROOT]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("course-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def python(site, tmp_path):
    """Run a program in a learner's folder, the course being installed from its wheel."""
    # this environment finds the clone by itself
    (tmp_path.parent / "start").mkdir(exist_ok=True)
    (tmp_path.parent / "start/sitecustomize.py").write_text(
        "import os, sys\n"
        "sys.path[:] = [it for it in sys.path if not os.path.exists(f'{it}/pyproject.toml')]\n"
    )
    path = os.pathsep.join([str(tmp_path.parent / "start"), str(site)])
    environment = {**os.environ, "PYTHONPATH": path}

    def run(*words):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("own", OWN)
def test_what_a_learner_has_beside_a_notebook_breaks_nothing(python, tmp_path, own):
    for name in OWN[own]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise ImportError('this is not the course')\n")
    (tmp_path / "cells.py").write_text(CELLS)
    python("cells.py")
    assert "transpose" in python("-m", "course", "bench", "--list")


@pytest.mark.parametrize("own", ["course.py", "warpsim.py"])
@pytest.mark.parametrize("folder", [False, True])
def test_what_hides_a_package_is_named_and_not_run(python, tmp_path, own, folder):
    file = tmp_path / (f"{own.removesuffix('.py')}/__init__.py" if folder else own)
    file.parent.mkdir(exist_ok=True)
    file.write_text("print('this is not the course')\n")
    (tmp_path / "cells.py").write_text(address.read().first_cell() + CELLS)
    cells = "try: exec(open('cells.py').read())\nexcept ImportError as error: print(error)"
    said = python("-c", cells)  # which finds files where a kernel finds them
    assert said.startswith(f"{file} hides the course")
    assert said.endswith("rename it or its folder, restart the kernel\n")


def test_imports_of_all_lessons_work_by_their_old_names(python):
    back = sorted(((new, old) for old, new in MOVED.items()), key=lambda pair: -len(pair[0]))
    pairs = set()
    for path in lessons.paths():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module != "course.torch":
                for name in node.names:
                    whole = f"{node.module}.{name.name}"
                    for new, old in back:
                        if whole.startswith(f"{new}."):
                            before, _, last = f"{old}{whole[len(new) :]}".rpartition(".")
                            pairs.add((f"from {before} import {last} as a", f"from {node.module} "
                                       f"import {name.name} as b"))  # fmt: skip
                            break
    assert len(pairs) > 40
    lines = [f"{old}; {new}; assert a is b, {old!r}" for old, new in sorted(pairs)]
    python("-W", "ignore", "-c", "\n".join(["import course", *lines]))
