"""The reader's own kernel in later lessons: as it passed, or the package's with the reason said."""

import math
import os

import numpy as np
import pytest
from numba import float32

from course import cuda
from course.checks import kept
from course.checks import progress as session
from course.checks.verdicts import Verdict
from tests.course.checks.sample_exercises import ADD, MEAN, SQUARE, samples  # noqa: F401
from tests.course.checks.test_progress import home  # noqa: F401

POWER = 2
HALF = np.float32(0.5)
ROOTS = np.sqrt(np.arange(4, dtype=np.float32))
NOWHERE = float("nan")


@cuda.jit(device=True)
def squared(x):
    """A device function of the reader."""
    return x**POWER


@cuda.jit
def my_square(out, x):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = float32(math.fabs(squared(x[i])))


@cuda.jit
def package_square(out, x):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * x[i]


@cuda.jit
def with_constants(out, x):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = HALF * ROOTS[i % 4] + x[i]


@cuda.jit
def reads_no_constant(out, x):
    out[0] = NOWHERE


def my_mean(a, b):
    return np.mean((a - b) ** 2), math.sqrt(np.mean((a - b) ** 2))


def package_mean(a, b):
    return my_mean(a, b)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    for name in ("_passed", "_failed"):
        monkeypatch.setattr(session, name, {})


def passed(exercise, answer, status="passed"):
    session.record(exercise, Verdict(exercise.name, status, status, ""), answer)


def squares(kernel):
    x = np.array([1, -2, 3], np.float32)
    out = np.zeros_like(x)
    kernel[1, 32](out, x)
    return out.tolist()


def text_file(home, exercise):  # noqa: F811
    return home / ".course" / "progress-passed" / f"{exercise.name}.py"


def test_what_passed_in_this_session_is_yours_even_where_nothing_is_kept(capsys):
    assert os.environ["COURSE_PROGRESS"] == "off"
    assert session.mine(SQUARE.name, package_square) is package_square
    assert "the package's; yours, once it has passed" in capsys.readouterr().out
    passed(SQUARE, my_square, "failed")
    assert session.mine(SQUARE.name, package_square) is package_square
    passed(SQUARE, my_square)
    passed(SQUARE, package_square, "failed")  # tried further; what passed is still there
    capsys.readouterr()
    assert session.mine(SQUARE.name, package_square) is my_square
    assert capsys.readouterr().out == f"{SQUARE.name}: yours.\n"


def test_a_kernel_with_its_device_function_and_constant_is_yours_in_the_next_session(
    home,  # noqa: F811
    capsys,
):
    passed(SQUARE, my_square)
    session._passed.clear()
    kernel = session.mine(SQUARE.name, package_square)
    where = f"~{os.sep}.course{os.sep}progress-passed{os.sep}{SQUARE.name}.py"
    assert capsys.readouterr().out == f"{SQUARE.name}: yours, from {where}.\n"
    assert kernel is not my_square and kernel.__name__ == "my_square"
    assert squares(kernel) == [1, 4, 9]
    assert "A device function of the reader" in text_file(home, SQUARE).read_text()


@pytest.mark.parametrize(
    ("exercise", "answer", "call"),
    [
        (SQUARE, with_constants, squares),
        (MEAN, my_mean, lambda function: function(np.zeros(3), np.ones(3))),
    ],
    ids=["constants of NumPy", "a plain function"],
)
def test_what_an_answer_reads_is_in_its_text(exercise, answer, call, tmp_path):
    path = tmp_path / "answer.py"
    path.write_text(kept.text_to_keep(exercise, answer))
    assert call(kept.read(exercise, path)) == call(answer)


def made_by_a_function(factor):
    @cuda.jit
    def kernel(out, x):
        out[0] = factor

    return kernel


@pytest.mark.parametrize(
    "answer", [None, len, lambda out, x: None, reads_no_constant, made_by_a_function(2)]
)
def test_what_no_text_gives_again_is_not_kept(answer):
    assert kept.text_to_keep(SQUARE, answer) is None


def test_what_is_not_kept_leaves_an_earlier_answer_there(home):  # noqa: F811
    passed(SQUARE, my_square)
    before = text_file(home, SQUARE).read_text()
    passed(SQUARE, made_by_a_function(2))
    assert text_file(home, SQUARE).read_text() == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "defines no function"),
        ("def kernel(out, x):\n    pass", "is a plain Python function"),
        ("import nothing_of_that_name\n", "cannot be run: ModuleNotFoundError"),
        ("def kernel(out x):", "cannot be run: SyntaxError"),
        (
            "from course import cuda\n@cuda.jit\ndef kernel(x):\n    x[0] = 1",
            "takes 1 argument (x)",
        ),
        ("from course import cuda\n@cuda.jit\ndef kernel(x, out):\n    x[0] = 1", "in the order"),
        ("\udcff", "cannot be read: UnicodeDecodeError"),
    ],
)
def test_a_text_that_no_longer_fits_gives_the_packages_and_says_why(home, text, said, capsys):  # noqa: F811
    passed(SQUARE, my_square)
    session._passed.clear()
    text_file(home, SQUARE).write_bytes(text.encode(errors="surrogateescape"))
    assert session.mine(SQUARE.name, package_square) is package_square
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith(f"{SQUARE.name}: the package's, since yours in ~") and said in told


@pytest.mark.parametrize(
    ("name", "value"),
    [("COURSE_PROGRESS", "off"), ("COURSE_GRADING", "1"), ("COURSE_STRICT", "1")],
)
def test_tests_grading_and_solutions_neither_read_nor_write_it(home, monkeypatch, name, value):  # noqa: F811
    passed(SQUARE, my_square)
    monkeypatch.setenv(name, value)
    passed(ADD, my_square)
    session._passed.clear()
    assert session.mine(SQUARE.name, package_square) is package_square
    assert os.listdir(home / ".course" / "progress-passed") == [f"{SQUARE.name}.py"]


def test_progress_forgets_it(home):  # noqa: F811
    passed(SQUARE, my_square)
    session.progress(clear=True)
    assert os.listdir(home / ".course") == []
    assert session.mine(SQUARE.name, package_square) is package_square
