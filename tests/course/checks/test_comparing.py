"""A wrong array is described by what it is: transposed, shifted, scaled, partly right."""

import numpy as np
import pytest
from numba import njit

from course.checks.answers import typing_failure
from course.checks.comparing import compare, extent, place, poison, shown
from course.checks.verdicts import Failure

RNG = np.random.default_rng(7)
MATRIX = RNG.standard_normal((7, 7))
TALL = RNG.standard_normal((9, 5))
VECTOR = RNG.standard_normal(300)


def message(got, expected, allowed=1e-9, **options):
    with pytest.raises(Failure) as caught:
        compare("out", np.asarray(got), np.asarray(expected), allowed, **options)
    assert caught.value.kind == "wrong-result"
    return caught.value.message


def only(index, value=99.0, source=MATRIX):
    changed = source.copy()
    changed[index] = value
    return changed


@pytest.mark.parametrize(
    ("got", "expected", "words"),
    [
        (MATRIX.T, MATRIX, "transpose of the right one"),
        (TALL.T.reshape(9, 5), TALL, "transposed order"),
        (-VECTOR, VECTOR, "wrong sign"),
        (np.abs(VECTOR), VECTOR, "signs are lost"),
        (VECTOR[::-1], VECTOR, "there, but reversed."),
        (TALL[:, ::-1], TALL, "reversed along axis 1"),
        (np.trunc(10 * VECTOR), 10 * VECTOR, "fractions are lost"),
        (VECTOR**2, VECTOR, "squares of the right"),
        (np.abs(VECTOR), VECTOR**2, "square roots of the right"),
        (np.roll(VECTOR, 1), VECTOR, "i - 1"),
        (np.roll(VECTOR, -1), VECTOR, "i + 1"),
        (np.roll(TALL, 1, axis=0), TALL, "along axis 0"),
        (3 * VECTOR, VECTOR, "3 times the right one"),
        (VECTOR + 0.25, VECTOR, "0.25 more than"),
        (VECTOR - 0.25, VECTOR, "is 0.25 less than"),
        (0 * VECTOR, VECTOR, "Every element is 0"),
        (np.pad(MATRIX[1:-1, 1:-1], 1), MATRIX, "Only elements on the border"),
        (np.round(VECTOR, 2), VECTOR, "rounded to two digits"),
        (np.round(100 * VECTOR, 2), 100 * VECTOR, "rounded to two digits"),
        (VECTOR * (1 + 1e-9), VECTOR, "Close: the largest error"),
    ],
)
def test_wrong_array_is_recognised(got, expected, words):
    assert words in message(got, expected)


def test_right_first_block_only_is_recognised():
    got = VECTOR.copy()
    got[128:] = RNG.standard_normal(172)
    assert "Only the first block's 128 elements" in message(got, VECTOR, threads=128)


def test_right_square_part_only_is_recognised():
    got = TALL.copy()
    got[5:] = RNG.standard_normal((4, 5))
    assert "Only the square part, 5 x 5, is right" in message(got, TALL)


def test_too_little_change_is_no_lost_update_since_that_would_be_a_race():
    before, right, got = np.zeros(3, int), np.array([5, 7, 2]), np.array([1, 7, 1])
    assert "\n" not in message(got, right, before=before)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (VECTOR * 0.9998, VECTOR),
        (VECTOR + 1e-3, VECTOR),
        (only((0, 3)), MATRIX),
        (np.vstack([MATRIX[:-1], 99 * MATRIX[-1:]]), MATRIX),
    ],
)
def test_what_could_be_many_things_is_not_explained(got, expected):
    assert "\n" not in message(got, expected)


def test_how_values_look_must_hold_in_all_cases_that_fail():
    wrong = np.ones(300, bool)
    same, other = (5 * VECTOR, VECTOR, wrong), (VECTOR + 1, VECTOR, wrong)
    assert "3 times the right one" in message(3 * VECTOR, VECTOR, others=lambda: [same])
    assert "\n" not in message(3 * VECTOR, VECTOR, others=lambda: [same, other])


def test_a_single_number_is_a_multiple_where_it_is_the_same_in_all_cases():
    one, four, nine = (np.array(n) for n in (1.0, 4.0, 9.0))
    wrong = np.array(True)
    told = message(four, one, others=lambda: [(4 * nine, nine, wrong)])
    assert "It is 4 times the right one." in told
    for others in ([], [(nine, four, wrong)]):
        assert "times" not in message(four, one, others=lambda found=others: found)


def test_where_nothing_is_added_nobody_hears_of_atomics():
    """The second half of a reversal in place is left as it was."""
    before = np.arange(10)
    got = before[::-1].copy()
    got[5:] = before[5:]
    text = message(got, before[::-1], before=before)
    assert "What is wrong is as it was before: no thread has changed it." in text
    assert "atomic" not in text and "too little" not in text


def test_values_that_went_the_wrong_way_did_not_change_too_little():
    before, right, got = np.zeros(3, int), np.array([5, 7, 2]), np.array([-1, 9, 1])
    assert "too little" not in message(got, right, before=before)


def test_random_error_is_given_no_made_up_explanation():
    text = message(RNG.standard_normal(300), VECTOR)
    assert text.count("\n") == 0
    assert "wrong: all 300 elements" in text


def test_within_tolerance_is_right_and_nan_must_meet_nan():
    compare("out", VECTOR + 1e-10, VECTOR, 1e-9)
    compare("out", np.array([np.nan, np.inf]), np.array([np.nan, np.inf]), 0.0)
    assert "out[0] is nan" in message(np.array([np.nan, 1.0]), np.array([2.0, 1.0]))


@pytest.mark.parametrize(
    ("shape", "chosen", "words"),
    [
        (10, slice(7, None), "the last 3 of 10"),
        (10, slice(9, None), "the last element of 10"),
        (1003, slice(0, 128), "the first 128 of 1,003"),
        (10, slice(3, 6), "elements 3 to 5 of 10"),
        (10, slice(None, None, 2), "5 of 10 elements"),
        (10, slice(None), "all 10 elements"),
        (1, slice(None), "the only element"),
        ((4, 6), np.s_[3:, :], "the last row of 4"),
        ((4, 6), np.s_[:, 4:], "the last 2 columns of 6"),
        ((4, 6), np.s_[:2], "the first 2 rows of 4"),
        ((4, 6), np.s_[:, 2:4], "columns 2 to 3"),
        ((4, 6), np.s_[::2], "2 of 4 rows"),
        ((4, 6), np.s_[1, 1], "1 of 24 elements"),
    ],
)
def test_extent_is_put_in_words(shape, chosen, words):
    mask = np.zeros(shape, bool)
    mask[chosen] = True
    assert extent(mask) == words


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64, np.bool_, np.float16, np.float32])
@pytest.mark.parametrize("finite", [False, True])
def test_poison_is_never_the_right_value(dtype, finite):
    if np.dtype(dtype).kind == "f":
        expected = np.arange(300, dtype=dtype)
    else:
        largest = 1 if dtype is np.bool_ else np.iinfo(dtype).max
        expected = np.array([largest - n if largest > n else n % 2 for n in range(5)], dtype)
    poisoned = poison(expected, dtype, finite=finite)
    assert poisoned.dtype == dtype
    assert not np.any(poisoned == expected)


def test_two_poisons_differ_where_they_can():
    expected = np.array([255, 254, 253, 252, 0], np.uint8)
    assert not np.any(poison(expected, np.uint8) == poison(expected, np.uint8, finite=True))


def test_text_cannot_be_poisoned():
    with pytest.raises(TypeError, match="cannot be poisoned"):
        poison(np.array(["a"]), np.dtype("U1"))


def test_values_and_places_are_short():
    assert shown(np.float32(1 / 3)) == "0.333333"
    assert shown(np.int64(12)) == "12"
    assert shown(True) == "True"
    assert shown(1 + 2j) == "1+2j"
    assert place("image", (2, 5)) == "image[2, 5]"
    assert place("mean", ()) == "mean"


def _attribute(x):
    return x.colour


def _unify(x):
    if x[0] > 0:
        y = 1
    else:
        y = "a"
    return y


def _add(x):
    return x + "a"


@pytest.mark.parametrize(
    ("function", "words", "code"),
    [
        (_attribute, "Unknown attribute 'colour'", "Line 2: return x.colour"),
        (_unify, "unify", "y"),  # "Cannot" or, on Python 3.13, "Can't"
        (_add, "No implementation of function add found", 'Line 2: return x + "a"'),
    ],
)
def test_typing_error_is_one_sentence_with_its_line_and_no_path(function, words, code):
    with pytest.raises(Exception) as caught:
        njit(function)(np.ones(3))
    failure = typing_failure(caught.value, function)
    assert failure.kind == "typing"
    assert words in failure.message
    assert code.split(": ")[-1] in failure.code
    assert ".py" not in failure.message
    assert "\n" not in failure.message


def test_numbers_that_look_alike_are_shown_with_the_digits_that_differ():
    assert message(2.875 * (1 + 1e-12), 2.875, 0.0).startswith(
        "out is 2.875000000003, right is 2.875."
    )
    assert message(float("nan"), 2.875).startswith("out is nan, right is 2.875.")


def test_one_value_for_all_cases_is_told_so():
    def told(got, rights):
        several = [(np.asarray(got), np.asarray(right), np.asarray(True)) for right in rights]
        return message(np.asarray(got), np.asarray(3.5), others=lambda: several)

    assert "It is the same in every case that is wrong." in told(7.0, [1.25, 9.5])
    assert "in every case" not in told(7.0, [3.5, 3.5]), "there is one right value"
    assert "in every case" not in told(7.0, [1.25]), "two are a coincidence"
