"""The solutions of exercises, their references, and the parts of cases."""

import numpy as np
import pytest

from course.checks.exercises import KernelExercise, call_with_named, exercises
from course.checks.simulating import by_name
from course_lessons import cases
from course_lessons.edits import solution


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", exercises(), ids="{}/".format)
def test_the_reference_fits_the_outputs(name):
    exercise = exercises()[name]
    for number in range(len(exercise.cases)):
        arguments = exercise.arguments(number)
        assert list(arguments) == list(exercise.parameters)
        if exercise.reference is not None:
            right = call_with_named(exercise.reference, arguments)
            if isinstance(exercise, KernelExercise):
                by_name(exercise, right, arguments)


def test_a_solution_knows_the_names_of_its_lesson():
    found = solution("reverse-blocks")
    assert found.function == "reverse_blocks"
    assert "BEGIN SOLUTION" not in found.source
    with pytest.raises(LookupError, match="no-such-exercise"):
        solution("no-such-exercise")


def test_parts_of_cases():
    rng = np.random.default_rng(1)
    given = cases.drawn(out=cases.empty(2, 3), a=cases.uniform(2, 3), x=cases.normal(4), k=5)(rng)
    assert list(given) == ["out", "a", "x", "k"]
    assert given["out"].shape == (2, 3) and isinstance(given["a"], np.float32)
    assert given["x"].dtype == np.float32 and given["k"] == 5
    first, second = cases.table("n m", ("one", 1, [2]), ("two", 3, []))
    assert (first.name, second.arguments(rng)) == ("one", {"n": 3, "m": []})
    assert first.arguments(rng)["m"] is not first.arguments(rng)["m"]
    assert cases.covering(17, (16, 4)) == (2, 5)
    u, s, vt = (maker(rng) for maker in cases.factors(3, 4, 2).values())
    assert (u.shape, vt.shape) == ((3, 2), (2, 4)) and s[0] >= s[1]
