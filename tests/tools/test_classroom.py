"""A class: what nbgrader gives an untouched notebook, a wrong, a right one; instructors' pages.

The round trip runs where nbgrader is installed (extra class): generate, submit, autograde,
feedback, export.
"""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from course.checks import grading, judging
from course.checks.exercises import exercises, find_exercise
from course_lessons.edits import edited, solution
from tests.course_lessons.wrong_answers import page
from tools import address, classroom
from tools.notebooks import lessons, seals
from tools.publish import syllabus

INSTRUCTORS = (lessons.ROOT / "INSTRUCTORS.md").read_text(encoding="utf-8")
LESSON = "00_your_picture_your_kernel"
POINTS = dict.fromkeys(("spotlight", "rebuild", "mirror", "fill-index", "scale-add"), 4)


def test_an_exercises_name_and_points_are_those_of_its_check_in_both_notebooks():
    for kind in ("notebooks", "solutions"):
        for path in seals.notebooks(lessons.ROOT, kind):
            marks = [
                (cell.metadata["nbgrader"], "exercise" in cell.metadata["tags"])
                for cell in nbformat.read(path, as_version=4).cells
                if "nbgrader" in cell.metadata
            ]
            graded = {mark["grade_id"]: mark["points"] for mark, answer in marks if not answer}
            assert {mark["grade_id"] for mark, answer in marks if answer} == {
                f"{name}-answer" for name in graded
            }
            declared = [e for e in exercises().values() if e.lesson == int(path.name[:2])]
            assert graded == {exercise.name: exercise.points for exercise in declared}


def test_the_folder_of_a_class_has_sources_without_sample_guesses(tmp_path, capsys):
    classroom.main([str(tmp_path), "3", "04"])
    assert "2 lessons in source/" in capsys.readouterr().out
    made = sorted(tmp_path.glob("source/*/*.ipynb"))
    assert [path.stem for path in made] == [path.parent.name for path in made]
    assert [path.name[:2] for path in made] == ["03", "04"]
    for path in made:
        cells = nbformat.read(path, as_version=4).cells
        asked = [call for cell in cells for call in lessons.predictions(cell.source)]
        assert asked and all(call.args[1].value is ... for call in asked)
        assert sum("### BEGIN SOLUTION" in cell.source for cell in cells) >= 5
        assert not any(cell.get("outputs") for cell in cells)
    (tmp_path / "nbgrader_config.py").write_text("mine")
    classroom.main([str(tmp_path), "05"])
    assert (tmp_path / "nbgrader_config.py").read_text() == "mine"
    with pytest.raises(SystemExit, match="no lesson '77'; there are 00, 01"):
        classroom.main([str(tmp_path), "77"])


# --- the instructors' pages ----------------------------------------------------------------------


def test_the_instructors_plans_are_up_to_date_with_the_lessons():
    made = address.with_blocks(INSTRUCTORS, syllabus.blocks(), "INSTRUCTORS.md")
    assert made == INSTRUCTORS, "run `make notebooks`"


def test_the_plans_fit_a_lab_and_a_day():
    known = {lessons.name(path)[:2]: path for path in lessons.paths()}
    cores = {number: syllabus.minutes(path)[0] for number, path in known.items()}
    planned = [number for numbers, _ in syllabus.SEMESTER for number in numbers]
    assert sorted(planned) == sorted(set(planned)), "a lesson stands there twice"
    assert set(planned) <= {number for number, _ in lessons.PLAN}
    assert all(sum(cores[number] for number in day) <= 6 * 60 for day in syllabus.DAYS)


def test_the_page_of_misconceptions_is_up_to_date_with_lessons_and_wrong_answers():
    run = "run `.venv/bin/python -m tests.course_lessons.wrong_answers.page`"
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), run


def test_the_instructors_page_names_every_variable_of_the_environment_and_no_other():
    said = set(re.findall(r"^\| `(COURSE_\w+)` \|", INSTRUCTORS, re.MULTILINE))
    listing = ["git", "-C", str(lessons.ROOT), "ls-files", "-z", "*.py"]
    found = set()
    for name in subprocess.run(listing, capture_output=True, text=True).stdout.split("\0"):
        text = (lessons.ROOT / name).read_text(encoding="utf-8") if name else ""
        found |= set(re.findall(r'"(COURSE_[A-Z_]+)"', text))
    if not found:
        pytest.skip("no git clone: the repository's files cannot be listed")
    assert said == found


# --- the round trip ------------------------------------------------------------------------------


ONE_BLOCK = {"grid(1)": "threadIdx.x"}
NOTHING = dict.fromkeys(POINTS, 0)
SCORES = {
    "untouched": NOTHING,
    # right; right where one block is enough; right and done by one thread
    "partly": NOTHING | {"spotlight": 4, "fill-index": None},
    "full": POINTS,
    # deleted a check, which nbgrader adds again; an answer does not run
    "lost": POINTS | {"spotlight": 0},
    # wrote points in place of a check, which nbgrader restores
    "cheat": NOTHING,
}


def handed_in(released, edits=None, checks=None, lost=None):
    """Return the text of a released notebook with edited solutions, and other checks, in it.

    The check `lost` is deleted.
    """
    node = nbformat.read(released, as_version=4)
    names = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in node.cells]
    if lost:
        del node.cells[names.index(lost)]
    for cell in node.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        exercise = name.removesuffix("-answer")
        if exercise != name and exercise in (edits or {}):
            cell.source = edited(solution(exercise).source, edits[exercise].items(), name)
        elif name == checks:
            cell.source = "4.0"
    return nbformat.writes(node)


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The folder of a class after the round trip."""
    pytest.importorskip("nbgrader")
    folder = tmp_path_factory.mktemp("class")
    classroom.make(folder, ["00"])
    private = tmp_path_factory.mktemp("private")

    def nbgrader(*words):
        own = {"PYTHONPATH": str(lessons.ROOT), "JUPYTER_PREFER_ENV_PATH": "1"}
        # nbgrader calls alembic by its name: the environment has to be active
        own["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        own |= {"JUPYTER_CONFIG_DIR": str(private), "IPYTHONDIR": str(private)}
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *words],
            cwd=folder, env=os.environ | own, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    nbgrader("generate_assignment", LESSON, "--create")
    released = folder / "release" / LESSON / f"{LESSON}.ipynb"
    one_thread = (
        "if cuda.grid(1) == 0:\n        for i in range(out.size):\n"
        "            out[i] = a * x[i] + y[i]"
    )
    texts = {
        "untouched": handed_in(released),
        "partly": handed_in(
            released,
            {
                "spotlight": {},
                "fill-index": ONE_BLOCK,
                "scale-add": {"if i < out.size:\n        out[i] = a * x[i] + y[i]": one_thread},
            },
        ),
        "full": handed_in(released, {name: {} for name in POINTS}),
        "lost": handed_in(
            released,
            {**dict.fromkeys(POINTS, {}), "spotlight": {"row < out": "row << < out"}},
            lost="scale-add",
        ),
        "cheat": handed_in(released, checks="scale-add"),
    }
    for student, text in texts.items():
        target = folder / "submitted" / student / LESSON / f"{LESSON}.ipynb"
        target.parent.mkdir(parents=True)
        target.write_text(text)
    nbgrader("autograde", LESSON)
    nbgrader("generate_feedback", LESSON)
    nbgrader("export", "--to", "scores.csv")
    return folder


@pytest.mark.slow
def test_what_nbgrader_hands_out_is_the_students_notebook(graded):
    released = nbformat.read(graded / f"release/{LESSON}/{LESSON}.ipynb", as_version=4)
    student = nbformat.read(lessons.ROOT / f"notebooks/{LESSON}.ipynb", as_version=4)
    assert [cell.source for cell in released.cells] == [cell.source for cell in student.cells]


@pytest.mark.slow
def test_an_untouched_notebook_gets_nothing_a_wrong_one_a_part_and_a_right_one_all(graded):
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{graded}/gradebook.db") as book:
        found = {
            student: {
                grade.name: grade.score
                for grade in book.find_submission_notebook(LESSON, LESSON, student).grades
            }
            for student in SCORES
        }
    exercise, known = find_exercise("fill-index"), solution("fill-index")
    answer = known.define(edited(known.source, ONE_BLOCK.items(), "partly"), "partly")
    part = grading.points(exercise, answer, judging.judge(exercise, answer))
    expected = SCORES | {"partly": SCORES["partly"] | {"fill-index": part}}
    assert found == expected and 0 < part < 2
    with (graded / "scores.csv").open() as file:
        exported = {row["student_id"]: float(row["raw_score"]) for row in csv.DictReader(file)}
    assert exported == {student: sum(scores.values()) for student, scores in expected.items()}


@pytest.mark.slow
def test_the_feedback_says_why(graded):
    for student, words in {
        "untouched": "○ fill-index: not started",
        "partly": "✗ scale-add: not-parallel",
        "full": "✓ scale-add: passed",
        "cheat": "○ scale-add: not started",
    }.items():
        page = graded / "feedback" / student / LESSON / f"{LESSON}.html"
        assert words in page.read_text(encoding="utf-8"), student
