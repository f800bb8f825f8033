"""A mistake is an edit of the lesson's solution: all of them fit, and say what they say."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from course import check
from course.checks.comparing import NoValue, is_wholly
from course.checks.exercises import KernelExercise, exercises, find_exercise
from course.checks.judging import judge
from course.checks.simulating import by_name
from course_lessons import cases
from course_lessons.edits import Edit, edited, edits, solution


def declared():
    """Every edit, with its exercise and sentence."""
    for name, exercise in exercises().items():
        for sentence, mistake in exercise.mistakes.items():
            if isinstance(mistake, Edit):
                yield pytest.param(name, sentence, mistake, id=f"{name}/{sentence[:40]}")


#: Two mistakes that no value of these exercises tells apart: another sentence is said.
ALIKE = {
    "merge-softmax", "network-bytes", "last-batch", "count-transfers", "time-of-launches",
}  # fmt: skip


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("name", "sentence", "edit"), [*declared()])
def test_a_mistake_is_refused_and_named(name, sentence, edit):
    """The answer is the edited solution, as if a student had written it."""
    verdict = check(name, edit.answer(name))
    assert (verdict.status, verdict.kind) == ("failed", "wrong-result"), verdict
    said = " ".join(str(verdict).split())
    alike = exercises()[name].mistakes if name in ALIKE else ()
    assert any(" ".join(words.split()) in said for words in (sentence, *alike)), verdict


@pytest.mark.parametrize(
    "name", dict.fromkeys(param.values[0] for param in declared()), ids="{}/".format
)
def test_an_exercise_with_edits_has_a_right_solution(name):
    assert check(name, Edit("first: pass").answer(name))


def apart(value, right):
    """Whether a mistake gives something else; of a function's numbers, other digits are enough."""
    if not is_wholly(value, right):
        return True
    try:
        return not np.allclose(np.asarray(value, float), right, rtol=1e-9, atol=0)
    except (TypeError, ValueError):  # results by name, or words, or parts of several shapes
        return False


@pytest.mark.parametrize("name", exercises(), ids="{}/".format)
def test_the_reference_fits_the_outputs_and_mistakes_differ(name):
    exercise, told_apart = exercises()[name], set()
    for number in range(len(exercise.cases)):
        arguments = exercise.arguments(number)
        assert list(arguments) == list(exercise.parameters)
        if exercise.reference is None:
            continue

        def call(function, number=number, arguments=arguments):
            result = exercise.mistaken(function, number)
            if isinstance(exercise, KernelExercise):
                return by_name(exercise, result, arguments)
            return result

        right = call(exercise.reference)
        for sentence in set(exercise.mistakes) - told_apart:
            with suppress(NoValue):
                if apart(call(exercise.mistakes[sentence]), right):
                    told_apart.add(sentence)
    assert told_apart >= set(exercise.mistakes)


def test_a_table_says_what_is_edited():
    table = edits(r"""
        y is left out
            + y[i] ->
        a sentence of two lines that ends
        here
            a * x[i]
            -> x[i]
            \n    return ->
            return 100 * {}
            first: n = 1
    """)
    assert list(table) == ["y is left out", "a sentence of two lines that ends here"]
    first, second = table.values()
    assert first.texts == [("+ y[i]", "")]
    assert second.texts == [("a * x[i]", "x[i]"), ("\n    return", "")]
    assert (second.first, second.returned) == ("n = 1", "100 * {}")
    assert repr(first) == "+ y[i] ->"


@pytest.mark.parametrize("table", ["a sentence alone", "a sentence\n    without an arrow"])
def test_a_table_that_says_nothing_is_refused(table):
    with pytest.raises(ValueError, match="->"):
        edits(table)


@pytest.mark.parametrize("old", ["y[j]", "out"])
def test_an_edit_that_does_not_fit_names_exercise_and_text(old):
    with pytest.raises(ValueError, match=f"scale-add: '{old[0]}.* stands [03] times"):
        Edit(f"{old} -> x").answer("scale-add")
    assert edited("a b", [("a", "c"), ("c b", "d")], "here") == "d"


def test_a_solution_knows_the_names_of_its_lesson():
    found = solution("reverse-blocks")
    assert found.function == "reverse_blocks"
    assert "BEGIN SOLUTION" not in found.source
    with pytest.raises(LookupError, match="no-such-exercise"):
        solution("no-such-exercise")


def test_statements_come_first_and_values_are_changed():
    exercise = find_exercise("network-bytes")
    right = exercise.mistaken(exercise.reference, 0)
    assert exercise.mistaken(Edit("return {} / 1e6"), 0) == right / 1e6
    assert exercise.mistaken(Edit("first: images = 0"), 0) == 0


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("scale-add", "i < out.size -> True"),  # the simulator has an error
        ("last-batch", "return 1 / 0"),
        ("last-batch", "first: raise SystemExit"),
    ],
)
def test_an_edit_that_fails_is_no_match(name, line):
    with pytest.raises(NoValue):
        find_exercise(name).mistaken(Edit(line), 2)


def test_what_an_edit_gives_is_computed_once(monkeypatch):
    edit = Edit("* x[i] -> * y[i]")
    exercise = find_exercise("scale-add")
    once = exercise.mistaken(edit, 0)
    monkeypatch.setattr(Edit, "answer", None)
    assert exercise.mistaken(edit, 0) is once


def test_the_verdict_names_the_mistake_and_a_broken_edit_does_not_hide_another():
    edits = {"it is broken": Edit("i < out.size -> True"), "y is left out": Edit("+ y[i] ->")}
    exercise = replace(find_exercise("scale-add"), mistakes=edits)
    verdict = judge(exercise, edits["y is left out"].answer("scale-add"))
    assert "That is what you get when y is left out." in str(verdict)


def test_an_edit_of_a_function_that_gives_fewer_values_is_no_match():
    def swapped(start, working, gathering, workers):
        return 1.0, 2.0

    verdict = check("two-laws", swapped)
    assert verdict.kind == "wrong-result"


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
