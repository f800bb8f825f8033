"""What lesson 10 says in words of recorded figures and of numbers is true of them."""

import math

import numpy as np
import pytest

from course import recorded_roofs
from course.kernels import reduce
from course.measure.recorded import recorded

BIG = str(2**26)


def of(subject, kernel, variant, shape, metric="time", dtype="float32"):
    """A recorded median; times are in ms."""
    (figure,) = recorded(
        subject, kernel=kernel, variant=variant, shape=shape, metric=metric, dtype=dtype, gpu="H200"
    )
    return figure.median


def of_sum(variant, metric="time", kind="sum"):
    return of("reduce", kind, variant, BIG, metric)


# --- the ladder of sums ---------------------------------------------------------------------------


def test_the_tree_and_the_shuffles_stand_at_the_roof_of_one_address():
    each = of_sum("atomics") / 2**26
    for step in ("tree", "shuffles"):
        assert of_sum(step) == pytest.approx(2**18 * each, rel=0.1)


def test_shuffles_gain_nothing_for_a_sum_and_something_for_a_maximum():
    assert of_sum("tree") / of_sum("shuffles") == pytest.approx(1, abs=0.05)
    assert of_sum("tree", kind="max") > 1.1 * of_sum("shuffles", kind="max")
    assert of_sum("tree", kind="max") < of_sum("tree")


def test_atomics_are_about_two_thousand_times_too_slow():
    reading = 4 * 2**26 / recorded_roofs("H200").highest_bandwidth * 1e-6
    assert of_sum("atomics") / reading == pytest.approx(2000, rel=0.2)


def test_with_several_numbers_a_thread_reading_is_the_roof():
    each, config = of_sum("atomics") / 2**26, reduce.CONFIGS["sm_90"]
    reading = 4 * 2**26 / recorded_roofs("H200").highest_bandwidth * 1e-6
    assert 2**26 / config.tile * each < reading
    for step in ("several", "last block"):
        assert of_sum(step) < 1.2 * reading


def test_half_of_a_sum_of_fractions_is_lost_by_atomics_and_nothing_by_the_other_steps():
    assert of_sum("atomics", "error of fractions") == pytest.approx(0.5, abs=0.01)
    for step in ("tree", "shuffles", "several", "last block"):
        assert of_sum(step, "error of fractions") < 1e-5


def test_an_atomic_maximum_is_faster_than_an_addition():
    assert of_sum("atomics", kind="max") < of_sum("atomics")
    assert of_sum("shuffles", kind="max") < of_sum("shuffles")


# --- softmax --------------------------------------------------------------------------------------


def test_three_passes_lose_more_than_their_bytes_and_online_stands_near_registers():
    three, online, registers = (
        of("reduce", "softmax", step, "16384x4096")
        for step in ("three passes", "online", "registers")
    )
    assert three / registers > 2
    assert online / registers < 1.25 < 3 / 2


# --- numbers --------------------------------------------------------------------------------------


def test_float32_numbers_from_2_to_the_24_on_are_2_apart():
    assert math.isclose(float(np.spacing(np.float32(2**24))), 2)
