"""A guess is kept and met with what came out, judged as its question says."""

import numpy as np
import pytest

from course.checks.predictions import Predictor, predict

COUNT = {"exact": True}
TIME = {"within": 2}
RATIO = {"within": 1.5, "no_effect": 1}
YES = {"choices": ("yes", "no")}
RACE = {"choices": ("race", "deadlock", "nothing")}
SHAPES = {"choices": ("64 x 4", "32 x 8", "16 x 16", "8 x 32", "4 x 64")}


@pytest.fixture
def predictor():
    return Predictor()


def outcome_of(guess, measured, unit="", how="measured", **rule):
    predictor = Predictor()
    predictor("sectors", guess, **rule)
    return predictor.answer("sectors", measured, unit, how)


def verdict_of(guess, measured, **rule):
    return outcome_of(guess, measured, **rule).verdict


# --- guesses and answers -------------------------------------------------------------------------


def test_guess_is_shown_beside_what_came_out(predictor):
    predictor("sectors per request", 16, exact=True)
    outcome = predictor.answer("sectors per request", 16.0, unit="sectors", how="counted")
    assert repr(outcome) == "sectors per request: you predicted 16, counted 16 sectors ✓ exactly"


def test_question_is_found_whatever_its_capitals_and_spaces(predictor):
    predictor("Sectors  per request", 4)
    assert predictor.answer("sectors per request", 4).predicted == 4


def test_later_guess_replaces_the_earlier_and_keeps_the_rule(predictor):
    predictor("q", 1, exact=True)
    predictor("q", 3)
    assert predictor.answer("q", 4.5).verdict == "✗ 33% too low"


@pytest.mark.parametrize("guess", [(), (None,), (...,), ("",), ("  ",), (..., 4), ((),)])
def test_open_guess_is_no_guess(predictor, guess):
    assert "no prediction yet" in repr(predictor("q", *guess, within=2))
    text = repr(predictor.answer("q", 3, "ms"))
    assert text == "○ q: measured 3 ms. Guess first next time: it sticks better."


def test_answer_without_a_question_is_shown(predictor):
    assert repr(predictor.answer("never asked", 1234567)).startswith("○ never asked: measured 1,2")


@pytest.mark.parametrize("how", ["measured", "counted", "computed", "found"])
def test_the_outcome_says_how_it_came_out(how):
    assert f"you predicted 4, {how} 4 ms" in repr(outcome_of(4, 4, "ms", how, exact=True))


def test_course_predict_keeps_guesses_for_the_session():
    predict("shared question", 5, exact=True)
    assert predict.answer("shared question", 5).predicted == 5
    predict.forget()
    assert predict.answer("shared question", 5).predicted is None


# --- the cell says what is asked for -------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (COUNT, "Put a number in place of the dots; right if exact."),
        (TIME, "Put a number in place of the dots; right within a factor of 2."),
        ({"within": 1.1}, "right within 10%."),
        (RATIO, "right within a factor of 1.5 and on the same side of 1."),
        (YES, 'Put "yes" or "no" in place of the dots.'),
        (RACE, '"race", "deadlock" or "nothing"'),
        ({"numbers": 2, **COUNT}, "Put two numbers in place of the dots: predict(name, 10, 20);"),
    ],
)
def test_open_question_shows_its_form(predictor, rule, words):
    assert words in predictor("q", ..., **rule).sentence


def test_noted_guess_shows_how_it_was_understood_and_will_be_judged(predictor):
    assert repr(predictor("q", 16, within=2)) == (
        "· q: you predict 16; right within a factor of 2."
    )
    assert repr(predictor("q", 8)).startswith("· q: you predict 8;")  # as declared before
    assert repr(predictor("q", "No, some are lost", **YES)) == "· q: you predict no."


# --- judged exactly, by a factor, as an effect ---------------------------------------------------


@pytest.mark.parametrize(
    ("guess", "measured", "words"),
    [
        (16, 16, "✓ exactly"),
        (np.float32(4), 4, "✓ exactly"),
        (0.3, 0.1 + 0.2, "✓ exactly"),
        (1.67, 5 / 3, "✓ to the digits you gave"),
        (1.7, 5 / 3, "✓ to the digits you gave"),
        (2, 5 / 3, "✗ 20% too high"),
        (0.3, 0.25, "✗ 20% too high"),  # one digit is none
        (991, 992, "✗ too low by 1"),
        (3, 4, "✗ too low by 1"),
        (496, 992, "✗ 2 times too low"),
        (4, 2, "✗ 2 times too high"),
        (2, 16, "✗ 8 times too low"),
        (100, 8, "✗ 12.5 times too high"),
        (1, 123456, "✗ 123,456 times too low"),
        (0, 5, "✗ off by 5"),
        (-2, 2, "✗ off by 4"),
        (76800, float("inf"), "✗ it is infinite"),
        ("infinity", float("inf"), "✓ exactly"),
        (float("inf"), 2, "✗ infinitely far off"),
    ],
)
def test_counts_are_right_only_if_equal(guess, measured, words):
    assert verdict_of(guess, measured, exact=True) == words


def test_two_numbers_that_look_alike_are_shown_in_full():
    text = repr(outcome_of(0.99999998, 1.0, exact=True))
    assert "you predicted 0.99999998, measured 1 ✗" in text


@pytest.mark.parametrize(
    ("guess", "measured", "within", "words"),
    [
        (8, 16, 2, "✓ within a factor of 2"),
        (16, 16, 2, "✓ exactly"),
        (7.9, 16, 2, "✗ 2 times too low"),
        (100, 110, 1.1, "✓ within 10%"),
        (100, 112, 1.1, "✗ too low by 12"),
        (2.5, 3, 1.1, "✗ 17% too low"),
        (1, 0, 2, "✗ off by 1"),
    ],
)
def test_times_are_right_within_the_factor_of_the_question(guess, measured, within, words):
    assert verdict_of(guess, measured, within=within) == words


@pytest.mark.parametrize(
    ("guess", "measured", "words"),
    [
        (1.3, 1.6, "✓ within a factor of 1.5"),
        (3, 1.6, "✗ 88% too high"),
        (1.2, 0.83, "✗ on the other side of 1"),
        (0.9, 1.05, "✗ on the other side of 1"),
        (1, 1.4, "✗ 1 would be no effect, and there is one"),
        (1.02, 1.4, "✗ 1 would be no effect, and there is one"),
        (1.4, 1.02, "✗ there is hardly any effect"),
        (1.4, 1, "✗ there is no effect"),
        (1, 1.02, "✓ within a factor of 1.5"),
        (1, 0.97, "✓ within a factor of 1.5"),
        (1, 1, "✓ exactly"),
    ],
)
def test_an_effect_has_a_sign_and_is_not_none(guess, measured, words):
    assert verdict_of(guess, measured, **RATIO) == words


@pytest.mark.parametrize("guess", ["none", "No effect.", "the same", "unchanged"])
def test_no_effect_may_be_said_in_words(guess):
    assert verdict_of(guess, 1.01, **RATIO) == "✓ within a factor of 1.5"
    assert verdict_of(guess, 0, exact=True) == ("✓ exactly" if guess == "none" else "")


def test_no_effect_need_not_be_one():
    assert verdict_of(14.5, 27, within=2, no_effect=14.5).startswith("✗ 14.5 would be no effect")
    assert verdict_of(20, 27, within=2, no_effect=14.5) == "✓ within a factor of 2"


# --- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guess", "truth", "rule"),
    [
        ("No, some are lost", "no", YES),
        ("No.", "no", YES),
        ("n", "no", YES),
        (False, "no", YES),
        ("YES!", "yes", YES),
        ("a race", "race", RACE),
        ("Race condition", "race", RACE),
        ("nothing at all", "nothing", RACE),
        (16, "16 x 16", SHAPES),
        ("16x16", "16 x 16", SHAPES),
        ("16 × 16", "16 x 16", SHAPES),
        ((16, 16), "16 x 16", SHAPES),
        (8, "8 x 32", SHAPES),
        ("processes", "2 processes", {"choices": ("einsum", "2 processes")}),
        ("njit (parallel)", "njit(parallel)", {"choices": ("njit", "njit(parallel)")}),
        ("arithmetic, not memory", "arithmetic", {"choices": ("memory", "arithmetic")}),
        ("b, the kept one", "b", {"choices": ("a", "b", "nobody")}),
        ("A", "A", {"choices": ("A", "B", "A transposed", "a copy")}),
        ("transposed", "A transposed", {"choices": ("A", "B", "A transposed", "a copy")}),
        ("data race", "a race", {"choices": ("nothing", "a race")}),
        ("no finding", "nothing", RACE),
        ("none", "nothing", RACE),
        ("identical", "equal", {"choices": ("equal", "close", "different")}),
        ("infinity", "inf", {"choices": ("2.8e6", "65504", "inf")}),
        ("∞", "inf", {"choices": ("2.8e6", "65504", "inf")}),
        ("65,504", "65504", {"choices": ("2.8e6", "65504", "inf")}),
        ("2.8 million", "2.8e6", {"choices": ("2.8e6", "65504", "inf")}),
    ],
)
def test_words_are_understood(guess, truth, rule):
    assert verdict_of(guess, truth, **rule) == "✓"


@pytest.mark.parametrize(
    ("guess", "rule"),
    [("no", YES), (True, YES), ("nothing", RACE), ("deadlock", RACE), (32, SHAPES)],
)
def test_other_words_are_wrong(guess, rule):
    truth = {"yes": "yes", "race": "race", "64 x 4": "16 x 16"}[rule["choices"][0]]
    verdict = verdict_of(guess, truth, **rule)
    assert verdict == ("✓" if guess is True else "✗")


@pytest.mark.parametrize(
    ("guess", "rule"),
    [
        ("perhaps", YES),
        ("not all", YES),
        ("no race", RACE),
        ("it isn't a race", RACE),
        ("race or deadlock", RACE),
        (256, SHAPES),
        (object(), RACE),
        ("a new array, b", {"choices": ("b", "a", "nobody")}),
        ("I think a", {"choices": ("b", "a", "nobody")}),
    ],
)
def test_a_word_that_is_no_choice_is_told_the_choices_and_not_wrong(predictor, guess, rule):
    choices = [f'"{choice}"' for choice in rule["choices"]]
    noted = repr(predictor("q", guess, **rule))
    outcome = predictor.answer("q", rule["choices"][0], how="found")
    assert outcome.verdict == ""
    for text in (noted, repr(outcome)):
        assert text.startswith("○ q: ")
        assert "✗" not in text
        assert all(choice in text for choice in choices)


# --- numbers as they are written -----------------------------------------------------------------


@pytest.mark.parametrize(
    "guess", ["1000", "1,000", "about 1,000 sectors", "~1000", "1e3", "1_000", "1000x", "100,000%"]
)
def test_a_number_may_be_text(guess):
    assert verdict_of(guess, 1000, exact=True) == "✓ exactly"


@pytest.mark.parametrize(
    "guess", ["apples", "16 x 16", "27 MB", "16 or 17", (4, 32), True, float("nan"), {}]
)
def test_what_is_no_number_is_told_so_and_not_wrong(guess):
    outcome = outcome_of(guess, 16, "ms", exact=True)
    assert outcome.verdict == ""
    assert "is not a number" in repr(outcome)


def test_what_is_no_number_is_told_what_numbers_look_like(predictor):
    noted = predictor("q", "a few", exact=True).sentence
    assert noted.startswith('○ q: "a few" is not a number. Numbers may be written as 0.75, "75%"')


def test_a_number_in_words_is_echoed_as_it_was_read(predictor):
    assert predictor("share of pairs", "75%", within=1.1).sentence.startswith(
        '· share of pairs: you predict "75%", read as 0.75; right within'
    )
    assert predictor("q", "0.75").sentence == "· q: you predict 0.75."
    assert '"305 µs", read as 0.305;' in predictor("ms of a launch", "305 µs", within=2).sentence


def test_a_unit_that_only_the_answer_names_is_converted_there(predictor):
    assert "you predict 305 µs;" in predictor("a launch", "305 µs", within=2).sentence
    assert predictor.answer("a launch", 0.3, "ms").predicted == 0.305
    assert "Your guess" in predictor.answer("a launch", 3, "blocks").note
    assert "you predict 10 layers;" in predictor("k for 30 dB", "10 layers", within=2).sentence
    assert predictor.answer("k for 30 dB", 10, "layers").verdict == "✓ exactly"
    assert "not a number" in predictor("times faster", "2 times slower", within=2).sentence


def test_a_range_is_its_middle_and_never_exact(predictor):
    predictor("q", "between 2 and 4", within=1.5)
    assert predictor.answer("q", 2).verdict == "✓ within a factor of 1.5"
    predictor("q", "2-4", exact=True)
    assert predictor.answer("q", 2).verdict == ""


@pytest.mark.parametrize(
    "guess", [(4, 32), ((4, 32),), ([4, 32],), (np.array([4, 32]),), ("4, 32",), ("4 and 32",)]
)
def test_two_numbers_in_any_form(predictor, guess):
    predictor("q", *guess, exact=True, numbers=2)
    assert predictor.answer("q", (4.0, 32.0)).verdict == "✓ all right"


def test_several_numbers_are_judged_each(predictor):
    predictor("q", 2, 1, 4, 8, exact=True, numbers=4)
    assert predictor.answer("q", (2, 1, 2, 4)).verdict == "✗ 2 of 4 right"


def test_too_few_numbers_are_told_the_form(predictor):
    predictor("q", 4, exact=True, numbers=2)
    assert repr(predictor.answer("q", (4, 32), how="counted")) == (
        "○ q: counted (4, 32). Your guess: 4 is not two numbers: predict(name, 10, 20)."
    )


def test_an_answer_that_is_not_there_yet_is_not_judged(predictor):
    predictor("q", ..., exact=True)
    assert repr(predictor.answer("q", "not written yet")) == "○ q: not written yet."
    predictor("q", 63)
    text = repr(predictor.answer("q", "not written yet", how="computed"))
    assert text == "○ q: not written yet. You predicted 63."


# --- a question that does not say ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("guess", "measured", "sign"),
    [
        (3, 4, "✗"),
        (2.5, 3.5, "✓"),
        ("a race", "race", "✓"),
        ("deadlock", "race", "✗"),
        ((2, 1), (2, 1), "✓"),
    ],
)
def test_without_a_rule_whole_numbers_are_exact_and_words_words(guess, measured, sign):
    assert verdict_of(guess, measured)[0] == sign


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"exact": True, "within": 2}, "judged in one way"),
        ({"numbers": 2}, "judged in one way"),
        ({"within": 1}, "factor above 1, such as within=2; got 1"),
        ({"within": "2"}, "factor above 1"),
        ({"exact": True, "no_effect": 1}, "no_effect goes with a factor"),
        ({"within": 2, "no_effect": 0}, "number above 0; got 0"),
        ({"choices": "yes"}, "choices are words"),
        ({"choices": (1, 2)}, "choices are words"),
        ({"exact": True, "numbers": 0}, "how many are asked for; got 0"),
        ({"choices": ("a", "b"), "numbers": 2}, "asks for one of them"),
    ],
)
def test_ways_to_judge_that_do_not_go_together_are_refused(predictor, rule, words):
    with pytest.raises((TypeError, ValueError), match=words):
        predictor("q", 1, **rule)


def test_question_must_be_text(predictor):
    with pytest.raises(TypeError, match="question is text, first; got 16"):
        predictor(16, "sectors")
    with pytest.raises(TypeError, match="question is text"):
        predictor.answer(" ", 4)


def test_how_must_be_one_of_the_words(predictor):
    with pytest.raises(ValueError, match="measured, counted, computed, found; got 'guessed'"):
        predictor.answer("q", 4, how="guessed")


def test_an_answer_with_other_numbers_than_asked_for_is_refused(predictor):
    predictor("q", 4, 32, exact=True, numbers=2)
    with pytest.raises(ValueError, match="'q' asks for 2 numbers, its answer has 3"):
        predictor.answer("q", (1, 2, 3))
