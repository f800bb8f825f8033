"""A serial program in place of a kernel is refused, by words on who does the work.

The loop that a NumPy programmer writes first has right values: it once passed three of four checks.
"""

import re
from dataclasses import replace

import pytest

from course.checks import check
from course.checks.comparing import wrong_elements
from course.checks.exercises import KernelExercise, call_with_named, exercises, find_exercise
from course.checks.simulating import values_of
from tests.course_lessons.serial_twins import TWINS, WHO, twins
from tools.mutants.kernels import together
from tools.mutants.subjects import subject
from warpsim.ptx import TensorMap

KERNELS = {
    name: each
    for name, each in exercises().items()
    if isinstance(each, KernelExercise) and together(subject(name))
    if all(counted.what != "mma" for counted in each.counted)
    if not any(isinstance(given, TensorMap) for given in each.arguments(0).values())
}
# Where there are fewer items than lanes, a warp or a block is a few threads.
FEW = r"one of \d+ threads does|one warp does|one of \d+ blocks does|\d+ of \d+ threads do"
WORDS = dict.fromkeys(WHO, FEW) | {"every thread does all": "each thread does the work of many"}

LONG = {"one-kernel"}  # a network: seconds for a twin, so one each time, others with the slow


def slow(name, who=""):
    return pytest.mark.slow if name in LONG and who != "one thread does all" else ()


@pytest.mark.drawn(8)
@pytest.mark.parametrize(
    ("name", "who"),
    [pytest.param(name, who, id=f"{name}/{who}", marks=slow(name, who)) for name, who in twins()],
)
def test_a_serial_twin_is_refused_for_who_does_the_work(name, who):
    verdict = check(name, TWINS[name].answer(name, who))
    if find_exercise(name).counted and verdict.kind == "limit":  # without what is taught
        assert "are needed" in verdict.message or "is needed" in verdict.message, verdict
        return
    assert verdict.kind == "not-parallel", verdict
    said = " ".join(verdict.message.split())
    assert re.search(WORDS[who], said.replace(",", "")), verdict
    assert "The result is right, but" in said and "Hint: " in said


@pytest.mark.parametrize(
    "name", [pytest.param(name, id=f"{name}/", marks=slow(name)) for name in KERNELS]
)
def test_a_serial_twin_is_right_by_the_reference(name):
    """Run by a block, which is quick; the check has compared the others before it refuses them."""
    answer = TWINS[name].answer(name, "one block does all")
    for number in range(min(2, len(KERNELS[name].cases))):
        assert faults(KERNELS[name], number, answer) == {}


def faults(exercise, number, answer):
    """How many elements of each result are wrong in a case, where any are."""
    arguments = exercise.arguments(number)
    right = call_with_named(exercise.reference, arguments)
    if not isinstance(right, dict):
        right = {(exercise.outputs + exercise.updated)[0]: right}
    found = {}
    for name, values in values_of(exercise, number, answer).items():
        allowed = exercise.tolerance.allowed(arguments, right[name], values.dtype)
        if wrong := int(wrong_elements(values, right[name], allowed).sum()):
            found[name] = wrong
    return found


def test_a_twin_that_is_wrong_would_be_told():
    exercise, twin = KERNELS["tiled-transpose"], TWINS["tiled-transpose"]
    wrong = replace(twin, item=twin.item.replace("image[c, r]", "image[c, r] + 1"))
    answer = wrong.answer(exercise.name, "one thread does all")
    assert faults(exercise, 0, answer) == {"out": exercise.arguments(0)["out"].size}


def test_every_kernel_exercise_has_a_twin_and_what_is_left_out_has_its_reason():
    assert set(TWINS) == set(KERNELS)
    assert len(KERNELS) >= 24
    for name, twin in TWINS.items():
        assert set(twin.without) < set(WHO), name
        assert all(reason.strip() for reason in twin.without.values()), name
    assert len(twins()) >= 100
