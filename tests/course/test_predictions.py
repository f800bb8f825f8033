"""A guess is kept and met with the measurement, in the same words on every machine."""

import numpy as np
import pytest

from course.checks.predictions import Predictor, judged, predict


@pytest.fixture
def predictor():
    return Predictor()


def test_guess_is_shown_beside_the_measurement(predictor):
    predictor("sectors per request", 16)
    outcome = predictor.answer("sectors per request", 16.0, unit="sectors")
    assert repr(outcome) == ("sectors per request: you predicted 16, measured 16 sectors ✓ exactly")
    assert outcome.factor == 1


def test_question_is_found_whatever_its_capitals_and_spaces(predictor):
    predictor("Sectors  per request", 4)
    assert predictor.answer("sectors per request", 4).predicted == 4


def test_later_guess_replaces_the_earlier(predictor):
    predictor("q", 1)
    predictor("q", 2)
    assert predictor.answer("q", 2).predicted == 2


@pytest.mark.parametrize("guess", [None, ..., "", "  "])
def test_open_guess_is_no_guess(predictor, guess):
    assert "no prediction yet" in repr(predictor("q", guess))
    text = repr(predictor.answer("q", 3, "ms"))
    assert text.startswith("○ q: measured 3 ms.")
    assert "guess first" in text


def test_measurement_without_a_guess_is_shown_kindly(predictor):
    text = repr(predictor.answer("never asked", 1234567))
    assert "measured 1,234,567" in text
    assert "You made no prediction" in text


@pytest.mark.parametrize(
    ("guess", "measured", "words"),
    [
        (16, 16, "✓ exactly"),
        (np.float32(4), 4, "✓ exactly"),
        (0.3, 0.1 + 0.2, "✓ exactly"),
        (1000, 1005, "✓ within 1%"),
        (10, 16, "✓ within a factor of 2"),
        (8, 16, "✓ within a factor of 2"),
        (2, 16, "✗ 8 times too low"),
        (100, 8, "✗ 12.5 times too high"),
        (1, 123456, "✗ 123,456 times too low"),
        (0, 5, "✗ off by 5"),
        (-2, 2, "✗ off by 4"),
        (float("inf"), 2, "✗"),
        ("float64", "float64", "✓"),
        ("Float-64 ", "float 64", "✓"),
        ("float32", "float64", "✗"),
        ("sixteen", 16, "✗"),
        (True, 1, "✗"),
        ((1, 2), (1, 2), "✓ all right"),
        ([1, 9], (1, 2), "✗ 1 of 2 right"),
        (1, (1, 2), "✗ 2 values were asked for"),
        ((44, 63), (44, 63), "✓ all right"),
        ((3, 1, 1), (3, 2, 1), "✓ within a factor of 2, each"),
    ],
)
def test_judgement_says_how_far_off(guess, measured, words):
    assert judged(guess, measured) == words


def test_question_must_be_text(predictor):
    with pytest.raises(TypeError, match="question is text"):
        predictor(16, "sectors")


def test_course_predict_keeps_guesses_for_the_session():
    predict("shared question", 5)
    assert predict.answer("shared question", 5).predicted == 5
    predict.forget()
    assert predict.answer("shared question", 5).predicted is None
