"""What crosses between host and device is counted, and the answer's names are its own again."""

import numpy as np
import pytest

from course import cuda
from course_lessons.lesson01.crossing import BY_LAUNCHES, judge_crossing, watched

PHOTO = np.random.default_rng(0).random((5, 9), dtype=np.float32)


def contrast(out, image):
    raise AssertionError("the launch is watched, not made")


def with_copies(photo):
    a, b = photo.copy(), np.zeros_like(photo)
    contrast(b, a)
    contrast(a, b)
    contrast(b, a)
    return b


def raises(photo):
    contrast(np.zeros_like(photo), cuda.to_device(photo))
    raise KeyError("after a launch")


def test_a_launch_copies_each_numpy_array_there_and_back():
    seen = watched(with_copies, (PHOTO,))
    assert seen["copies"] == {BY_LAUNCHES: 3 * 2 * 2} and seen["launches"] == 3
    assert judge_crossing(seen, PHOTO).startswith("12 copies")


def test_an_answers_names_are_its_own_again_even_when_it_raises():
    before = globals()["cuda"], globals()["contrast"]
    with pytest.raises(KeyError, match="after a launch"):
        watched(raises, (PHOTO,))
    assert (globals()["cuda"], globals()["contrast"]) == before
