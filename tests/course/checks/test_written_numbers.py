"""A number is read as it is meant, however it is written; what is none is not read."""

import math

import pytest

from course.checks.guesses import Rule, read_number
from tests.course.checks.drawn_guesses import drawn


@pytest.mark.parametrize(
    ("text", "question", "meant"),
    [
        ("half", "percent of x", 50),
        ("1e-3", "", 0.001),
        ("27 s", "sectors ms", 27000),
        ("two and a half", "", 2.5),
        ("one in four", "", 0.25),
        ("one in a million", "", 1e-6),
        ("about one in a hundred", "", 0.01),
        ("1 in 10 million", "", 1e-7),
        ("1 of 4", "", 0.25),
        ("1½", "", 1.5),
        ("10⁻³", "", 0.001),
        ("6.7 times as fast", "times as fast", 6.7),
        ("ten-fold", "", 10),
        ("<10", "", None),
        ("-3", "", -3),
        ("minus 3", "", -3),
        ("10-3", "", None),
        ("8 - 1", "", 7),
        ("1'024", "", 1024),
        ("0,5", "", 0.5),
        ("100ish", "", 100),
        ("9**9**9", "", None),
        ("2.8 TB per second", "GB/s of a copy", 2800),
        ("20 µs", "microseconds of a launch by Numba", 20),
        ("305 µs a launch", "microseconds of a launch", 305),
        ("ten percent", "", 0.1),
        ("1/2 of the time", "share of the time", 0.5),
        ("a lot", "", None),
        ("no", "", 0),
        ("1e3", "", 1000),
        ("3 ± 1", "", None),
        ("half a millisecond", "ms of a launch", 0.5),
        ("a tenth of a second", "ms of a launch", 100),
        ("5 hundred", "", 500),
        ("300 usec", "ms of a launch", 0.3),
        ("2 secs", "ms of a launch", 2000),
        ("5 a second", "images a second", 5),
        ("1.5 TFLOPS", "GFLOP/s of a product", 1500),
        ("a second", "ms of a launch", 1000),
        ("somewhere between 1 and 3", "", 2),
        ("3 1/2", "", 3.5),
        ("33 1/3 %", "share", 1 / 3),
        ("x2-x3", "times as fast", 2.5),
        ("two and four", "", None),
        ("two, four", "", None),
        ("four 5", "", None),
        ("a hundred and four", "", 104),
        ("two and a half million", "", 2.5e6),
        ("twice", "percent of x", 200),
        ("infinitely many", "", math.inf),
        ("none at all", "", 0),
        ("factor of 5", "", 5),
        ("2 times slower", "times faster", None),
        ("at least 3", "", None),
        ("more than 100", "", None),
        ("1.000.000", "", None),
        ("1e-3-2e-3", "", 0.0015),
    ],
)
def test_a_number_is_read_in_what_the_question_asks(text, question, meant):
    assert read_number(text, question) == (meant if meant is None else pytest.approx(meant))


@pytest.mark.parametrize(
    ("unit", "meant"), [("ms", 0.305), ("µs", 305), ("%", None), ("blocks", None), ("", None)]
)
def test_the_answers_unit_is_the_one_that_is_asked_for(unit, meant):
    assert read_number("305 µs", "a launch", unit) == meant


@pytest.mark.parametrize(
    "text", ["75%, 100%", "75% and 100%", "(75%; 100%)", "3/4, 1", "0.75 1", "three quarters, one"]
)
def test_several_numbers_may_be_one_text(text):
    assert Rule(exact=True, numbers=2).read(text, "shares") == (0.75, 1)
    assert Rule(exact=True, numbers=2).read("1,024, 2,048") == (1024, 2048)


def misread(seed):
    """What is wrong with how a drawn guess is read; None if nothing is."""
    guess = drawn(seed)
    read = Rule(within=2).read(guess.text, guess.question)
    same = read is None if guess.meant is None else read == pytest.approx(guess.meant, rel=1e-9)
    return None if same else f"{guess} read as {read}"


@pytest.mark.parametrize("first", range(0, 10_000, 1000))
def test_a_drawn_guess_is_read_as_it_is_meant(first):
    assert not [wrong for seed in range(first, first + 1000) if (wrong := misread(seed))]
