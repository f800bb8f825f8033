"""What students write in work/ is safe: from `git pull`, from `make lab`, from the tests."""

import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest

from course import __version__
from course.__main__ import main
from course_lessons import copies
from tests.tools.little_course import LESSON, answer, build, edit, make, nbval_of
from tools import work
from tools.notebooks import lessons, seals

NAME = "00_sample.ipynb"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = make(tmp_path_factory.mktemp("built"))
    assert build(root / "course_lessons/lesson00/sample.py") == []
    return root


@pytest.fixture
def root(built, tmp_path):
    """A repository with one lesson, and nobody's work yet."""
    return shutil.copytree(built, tmp_path / "root")


def fill(root):
    return work.copies(root).fill()


def change_the_lesson(root, text="It squares numbers."):
    """Write another version of the lesson, as `git pull` fetches one."""
    lesson = root / "course_lessons/lesson00/sample.py"
    lesson.write_text(LESSON.replace("It squares.", text))
    (root / "notebooks" / NAME).unlink()
    assert build(lesson) == []


def renumber_the_lesson(root, number):
    (root / "notebooks" / NAME).rename(root / f"notebooks/{number}_sample.ipynb")


def files(root):
    return {path.name: path.read_bytes() for path in (root / "work").iterdir()}


def original(root):
    return (root / "notebooks" / NAME).read_bytes()


def test_a_new_clone_gets_all_lessons_and_then_has_nothing_more_to_say(root):
    assert fill(root) == ["work: copied lessons 00"]
    assert files(root).pop(NAME) == original(root)
    assert sorted(files(root)) == [copies.RECORD, NAME]
    before = files(root)
    assert fill(root) == []
    assert files(root) == before


@pytest.mark.slow
def test_an_answer_stays_byte_for_byte_and_disturbs_neither_tests_nor_generator(root):
    lesson = root / "course_lessons/lesson00/sample.py"
    nbval = nbval_of(lesson)
    fill(root)
    edit(root, "work", answer)
    edit(root, "work", lambda cells: cells[-2].update(source="1 / 0"))
    (root / "work/test_mine.py").write_text("import os\ndef test(): assert  False\n")
    before = files(root)

    assert fill(root) == []
    assert build(lesson) == []
    done = nbval(".")
    assert "16 passed" in done.stdout and done.returncode == 0, done.stdout
    found = nbval("--collect-only").stdout
    assert "solutions/" in found and "work/" not in found, found
    for check in (["check"], ["format", "--check"]):
        words = [*check, "--no-cache", "--exclude", "course_lessons", "."]
        ruff = [sys.executable, "-m", "ruff", *words]
        done = subprocess.run(ruff, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
    assert files(root) == before


def test_a_changed_file_is_kept_where_its_lesson_changes_until_the_new_one_is_beside_it(root):
    fill(root)
    edit(root, "work", answer)
    mine = files(root)[NAME]
    change_the_lesson(root)
    for _ in range(2):
        (said,) = fill(root)
        assert said.startswith(f"work/{NAME}: the lesson has changed since you copied it")
        assert "-m tools.work --new 00` puts" in said and "00_sample.new.ipynb" in said
        assert files(root)[NAME] == mine
    work.copies(root).put_beside("0")
    assert files(root)[NAME] == mine
    assert files(root)["00_sample.new.ipynb"] == original(root)
    assert fill(root) == []

    # the student goes on in the new file; then the lesson changes once more
    newer = files(root)["00_sample.new.ipynb"].replace(b"your code here", b"my code")
    (root / "work/00_sample.new.ipynb").write_bytes(newer)
    change_the_lesson(root, "It cubes.")
    assert len(fill(root)) == 1
    for _ in range(2):
        (said,) = work.copies(root).put_beside(NAME)
        assert said.startswith("work/00_sample.new2.ipynb: ")
    assert files(root) == {
        **files(root),
        NAME: mine,
        "00_sample.new.ipynb": newer,
        "00_sample.new2.ipynb": original(root),
    }
    assert len(files(root)) == 4


def test_a_copy_that_nobody_changed_becomes_the_new_lesson(root):
    fill(root)
    change_the_lesson(root)
    (said,) = fill(root)
    assert "it is the new lesson now" in said
    assert files(root)[NAME] == original(root)
    assert fill(root) == []


def opened_and_saved(root):
    """Write the copy as JupyterLab does after somebody opened and ran it, and changed nothing."""
    path = root / "work" / NAME
    notebook = json.loads(path.read_text())
    notebook["metadata"]["kernelspec"]["display_name"] = "Python 3 (ipykernel)"
    notebook["metadata"]["language_info"] = {"name": "python", "version": "3.13.1"}
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])  # a list of lines or one text, as a program likes
        cell["metadata"]["collapsed"] = True
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
    path.write_text(json.dumps(notebook))
    return path.read_bytes()


def test_a_copy_that_was_opened_and_not_changed_becomes_the_new_lesson(root):
    fill(root)
    mine = opened_and_saved(root)
    assert fill(root) == [] and files(root)[NAME] == mine
    assert work.copies(root).put_beside("0") == [f"work/{NAME}: this is the lesson as it is now"]
    change_the_lesson(root)
    (said,) = fill(root)
    assert "it is the new lesson now" in said
    assert files(root)[NAME] == original(root)


@pytest.mark.parametrize("what", ["source", "attachments"])
def test_a_copy_that_was_opened_and_changed_is_kept(root, what):
    fill(root)
    opened_and_saved(root)
    edit(
        root,
        "work",
        lambda cells: cells[0].update(
            {what: {"a.png": {"image/png": ""}}} if what == "attachments" else {what: "mine"}
        ),
    )
    mine = files(root)[NAME]
    change_the_lesson(root)
    (said,) = fill(root)
    assert "your file is kept" in said and files(root)[NAME] == mine


@pytest.mark.parametrize("opened", [True, False])
def test_a_record_of_bytes_is_still_understood(root, opened):
    fill(root)
    (root / "work" / copies.RECORD).write_text(
        json.dumps({NAME: hashlib.sha256(original(root)).hexdigest()})
    )
    if opened:
        opened_and_saved(root)
        assert fill(root) == []
    change_the_lesson(root)
    assert "it is the new lesson now" in fill(root)[0]


def test_a_file_that_was_there_first_is_never_written_over(root):
    (root / "work").mkdir()
    (root / "work" / NAME).write_bytes(b"mine")
    (said,) = fill(root)
    assert "your file is kept" in said
    assert fill(root) == []
    change_the_lesson(root)
    assert len(fill(root)) == 1
    assert files(root)[NAME] == b"mine"


@pytest.mark.slow
def test_an_answer_in_notebooks_is_copied_and_stays_when_the_change_there_is_taken_back(root):
    clean = original(root)
    edit(root, "notebooks", answer)
    mine = original(root)
    fill(root)
    assert files(root)[NAME] == mine
    (root / "notebooks" / NAME).write_bytes(clean)
    (said,) = fill(root)
    assert "your file is kept" in said
    change_the_lesson(root)
    fill(root)
    assert files(root)[NAME] == mine

    # and beside another answer, as `make notebooks` advises
    edit(root, "notebooks", answer)
    assert "--new 00` copies it" in seals.all_refusals(root)[0]
    work.copies(root).put_beside("00")
    assert files(root)["00_sample.new.ipynb"] == original(root)
    assert files(root)[NAME] == mine


@pytest.mark.parametrize(
    "record", [None, *(pytest.param(text, marks=pytest.mark.slow) for text in ("{", "[]"))]
)
def test_without_its_record_nothing_is_lost(root, record):
    fill(root)
    edit(root, "work", answer)
    mine = files(root)[NAME]
    path = root / "work" / copies.RECORD
    path.unlink() if record is None else path.write_text(record)
    change_the_lesson(root)
    assert any("your file is kept" in said for said in fill(root))
    assert files(root)[NAME] == mine
    assert fill(root) == []


@pytest.mark.parametrize("changed", [True, False])
def test_a_lesson_with_a_new_number_comes_beside_the_file_with_the_old_one(root, changed):
    fill(root)
    if changed:
        edit(root, "work", answer)
    mine = files(root)[NAME]
    renumber_the_lesson(root, 11)
    (added, said) = fill(root)
    assert added == "work: copied lessons 11"
    assert said.startswith(f"work/{NAME}: this lesson has the number 11 now")
    assert said.endswith("It is kept" if changed else "delete it if you like")
    assert files(root)[NAME] == mine
    assert "11_sample.ipynb" in files(root)
    assert fill(root) == []


def test_a_lesson_that_is_gone_is_named_once_and_its_file_stays(root):
    fill(root)
    (root / "notebooks" / NAME).unlink()
    (said,) = fill(root)
    assert said.startswith(f"work/{NAME}: the course has no such lesson now")
    assert NAME in files(root)
    assert fill(root) == []


def test_a_file_that_comes_in_between_is_not_written_over(root, monkeypatch):
    link = os.link

    def late(part, target):
        target.write_bytes(b"mine")
        link(part, target)

    monkeypatch.setattr(os, "link", late)
    fill(root)
    assert files(root)[NAME] == b"mine"
    assert sorted(files(root)) == [copies.RECORD, NAME]


@pytest.mark.parametrize(
    ("stop", "links"),
    [("write_bytes", True), ("write_bytes", False), ("replace", False), ("the record", True)],
)
def test_a_copy_that_is_stopped_leaves_nothing_half(root, monkeypatch, stop, links):
    def stopped(*arguments):
        raise KeyboardInterrupt

    def no_links(part, target):
        raise PermissionError

    with monkeypatch.context() as patch:
        if stop == "the record":
            patch.setattr(copies, "write_whole", stopped)
        else:
            patch.setattr(copies.Path, stop, stopped)
        if not links:
            patch.setattr(os, "link", no_links)
        with pytest.raises(KeyboardInterrupt):
            fill(root)
    assert set(files(root)) <= {NAME, copies.RECORD}
    assert files(root).get(NAME, original(root)) == original(root)
    there = NAME in files(root)
    assert fill(root) == ([] if there else ["work: copied lessons 00"])
    assert json.loads(files(root)[copies.RECORD]) == {NAME: copies._hash(original(root))}


def test_a_lesson_that_does_not_exist_is_answered_with_those_that_do(root, capsys):
    with pytest.raises(SystemExit, match="no lesson '77'; give one of these numbers: 00"):
        work.main(["--root", str(root), "--new", "77"])
    work.main(["--root", str(root)])
    assert capsys.readouterr().out == "work: copied lessons 00\n"
    work.main(["--root", str(root)])
    assert capsys.readouterr().out == ""


def test_work_is_ignored_by_git():
    if not (lessons.ROOT / ".git").exists():
        pytest.skip("no git clone")
    ask = ["git", "-C", str(lessons.ROOT), "check-ignore", "-q", "work/00_x.ipynb"]
    assert subprocess.run(ask, check=False).returncode == 0


# --- where the course came from pip ---------------------------------------------------------------


def test_the_command_lessons_copies_all_notebooks_and_never_writes_over_work(tmp_path, capsys):
    folder = tmp_path / "new" / "mine"
    assert main(["lessons", str(folder)]) == 0
    said = capsys.readouterr().out
    everything = {
        path.name: path.read_bytes() for path in seals.notebooks(lessons.ROOT, "notebooks")
    }
    assert f"{folder}: {len(everything)} lessons, as in version {__version__}" in said
    assert f"jupyter lab {folder}" in said
    (first, second, *_) = everything
    (folder / first).write_text("mine")
    (folder / second).unlink()
    assert main(["lessons", str(folder)]) == 0
    assert f"{folder}: copied lessons {second[:2]}\n" in capsys.readouterr().out
    assert (folder / first).read_text() == "mine"
    assert main(["lessons", str(folder), "--new", first[:2]]) == 0
    assert f"{first} is kept as it is" in capsys.readouterr().out
    beside = folder / first.replace(".ipynb", ".new.ipynb")
    assert beside.read_bytes() == everything[first]
    assert (folder / first).read_text() == "mine"


def test_the_command_lessons_says_in_a_line_what_cannot_be(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    for words in (["lessons", f"{tmp_path}/file"], ["lessons", f"{tmp_path}/new", "--new", "77"]):
        assert main(words) == 2
        assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setattr(copies, "_HERE", tmp_path / "nowhere")
    assert main(["lessons", f"{tmp_path}/new"]) == 2
    assert "the course's notebooks are missing; install" in capsys.readouterr().err
