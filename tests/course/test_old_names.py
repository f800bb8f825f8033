"""Old names of modules: one module by two names, told once; what a learner owns comes first."""

import importlib
import json
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


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What one process says of each old name, as if it were the first; "" where all is well."""
    done = python(
        tmp_path_factory.mktemp("names"),
        """
        import importlib, json, traceback, warnings, course
        from course.old_names import MOVED, OldNames, new_name

        def ask(old, new):
            for name in filter(new_name, list(sys.modules)):
                del sys.modules[name]
            OldNames.warned = False
            module = importlib.import_module(old)
            import course_lessons.copies, lessons.copies
            its = importlib.import_module(new)
            assert module is its and its.__spec__.name == its.__name__ == new
            assert course_lessons.copies is lessons.copies

        def answer(old, new):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                try:
                    ask(old, new)
                except Exception:
                    return traceback.format_exc(), []
            return "", [str(one.message) for one in found if one.category is FutureWarning]

        print(json.dumps({old: answer(old, new) for old, new in MOVED.items()}))
        """,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("old", old_names.MOVED)
def test_an_old_name_is_the_module_of_the_new_one_and_that_is_told_once(told, old):
    wrong, warnings = told[old]
    assert not wrong
    (warning,) = warnings
    first = next(its for its in ("recording", "lessons", "course.", "") if old.startswith(its))
    assert warning.startswith(first)


def test_a_module_of_two_names_is_told_on_standard_error_and_can_be_loaded_again(tmp_path):
    done = python(
        tmp_path,
        """
        import importlib, course, lessons.copies
        import course_lessons.copies
        assert importlib.reload(course_lessons.copies) is lessons.copies
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("FutureWarning: lessons is called course_lessons now") == 1


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
