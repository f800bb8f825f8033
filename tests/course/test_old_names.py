"""Old names of modules: one module by two names, told once; what a learner owns comes first."""

import importlib
import pkgutil
import subprocess
import sys
import textwrap

import pytest

from course import old_names
from course.files import data_path

ROOT = data_path().parent
#: A program's first lines: no clone is found, though an environment for development knows one.
ALONE = """
import os, sys
sys.path[:] = [it for it in sys.path if it and not os.path.exists(f"{it}/pyproject.toml")]
"""


def python(folder, program, *options):
    """Run a program in a folder, the course being in its path, not the clone."""
    home = folder / "installed"
    if not home.exists():
        home.mkdir()
        for folder_there in (*ROOT.glob("course*"), ROOT / "warpsim", ROOT / "data"):
            (home / folder_there.name).symlink_to(folder_there)
    lines = [
        ALONE,
        f"sys.path[:0] = [{str(folder)!r}, {str(home)!r}]",
        textwrap.dedent(program),
    ]
    return subprocess.run(
        [sys.executable, "-W", "default", *options, "-c", "\n".join(lines)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("old", "new"), old_names.MOVED.items())
def test_an_old_name_is_the_module_of_the_new_one_and_that_is_told_once(tmp_path, old, new):
    done = python(
        tmp_path,
        f"""
        import importlib, course
        old = importlib.import_module({old!r})
        import course_lessons.copies, lessons.copies
        new = importlib.import_module({new!r})
        assert old is new and new.__spec__.name == new.__name__ == {new!r}
        assert course_lessons.copies is lessons.copies
        assert importlib.reload(new) is old
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("FutureWarning") == 1
    first = next(its for its in ("recording", "lessons", "course.", "") if old.startswith(its))
    assert f"FutureWarning: {first}" in done.stderr


@pytest.mark.parametrize(("old", "new"), old_names.NAMES.items())
def test_a_name_that_a_package_gave_is_what_is_elsewhere_now(old, new):
    package, _, name = old.rpartition(".")
    assert getattr(importlib.import_module(package), name) is pkgutil.resolve_name(new)


def test_what_no_table_names_is_not_found(tmp_path):
    done = python(tmp_path, "import course, lessons.nothing_such")
    assert done.stderr.endswith("No module named 'course_lessons.nothing_such'\n")
    assert old_names.new_name("lesson") is old_names.new_name("course") is None
    assert old_names.new_name("lessons.lesson07.phases") == "course_lessons.lesson07.phases"


OWN = {
    "lessons/": ("lessons/__init__.py", "lessons"),
    "lessons.py": ("lessons.py", "lessons"),
    "recording/": ("recording/__init__.py", "recording"),
}


@pytest.mark.parametrize(("file", "name"), OWN.values(), ids=OWN)
def test_a_learners_own_package_or_module_comes_before_an_old_name(tmp_path, file, name):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("mine = True\n")
    (tmp_path / file).with_name("part.py").write_text("mine = True\n")
    done = python(
        tmp_path,
        f"""
        import course, {name}
        assert {name}.mine
        if hasattr({name}, "__path__"):
            import {name}.part
            assert {name}.part.mine
        try:
            import {name}.subjects
        except ModuleNotFoundError:
            print("none below it")
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "none below it\n" and "FutureWarning" not in done.stderr


def test_a_folder_without_init_does_not_hide_an_old_name(tmp_path):
    (tmp_path / "lessons").mkdir()
    done = python(tmp_path, "import course, lessons; print(lessons.__name__)")
    assert done.stdout == "course_lessons\n", done.stderr


def test_a_later_version_takes_the_place_of_the_finder(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [old_names.OldNames(), *sys.meta_path])
    old_names.install()
    names = [type(its).__name__ for its in sys.meta_path]
    assert names.count("OldNames") == 1 and names[0] == "OldNames"
