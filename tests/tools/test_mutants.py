"""The generator of mutants: what its operators make, and what becomes of every exercise's answers.

Two mutants of some exercises are judged, sixty of each with the slow tests (COURSE_MUTANTS says how
many); the command judges all.
"""

import os
import re
import zlib
from dataclasses import replace

import pytest

pytest.importorskip("resource", reason="mutants are judged with a limit of memory, as on POSIX")

from course.checks.exercises import exercises, find_exercise
from course.checks.verdicts import Verdict
from tools.mutants import __main__ as command
from tools.mutants import judging, kernels
from tools.mutants.judging import MUTANTS, REWRITES, made, of_mutant, of_rewrite, verdict_of
from tools.mutants.listed import ANSWERS, EXERCISES
from tools.mutants.naming import named
from tools.mutants.subjects import subject

#: Of each operator an exercise and a text that stands in one of the answers that it makes, "..."
#: for what depends on the cases.
MAKES = {
    "frozen-arguments": ("energy-rank", "    share = ...\n    energy ="),
    "frozen-sizes": ("scale-add", "if i < ...:\n"),
    "limited-arguments": ("energy-rank", "share = min(share, ...)"),
    "constants": ("mirror", "out.shape[1] - 2 - column"),
    "words": ("split-records", "('y', 'y', 'z')"),
    "extremes": ("attend-online", "max(largest, scores.min())"),
    "running-values": ("attend-online", "sums = factor + weights @ values"),
    "terms": ("scale-add", "out[i] = a * x[i]\n"),
    "axes": ("add-images", "row < out.shape[1] and"),
    "roundings": ("scale-add", "out[i] = float32(float16(a * x[i] + y[i]))"),
    "types": ("total-by-strides", "part = float64(0)"),
    "comparisons": ("scale-add", "if i <= out.size:"),
    "arithmetic": ("scale-add", "a * x[i] - y[i]"),
    "calls": ("count-sectors", "len(sectors)"),
    "ranges": ("strided-scale-add", "range(cuda.grid(1), out.size - 1, cuda.gridsize(1))"),
    "statements": ("crossing", "        pass\n        operations"),
    "guards": ("scale-add", "i = cuda.grid(1)\n    out[i] ="),
    "clamped-indices": ("scale-add", "i = min(i, out.size - 1)\n    out[i]"),
    "barriers": ("reverse-blocks", "    pass\n    if t < count:\n        x[i]"),
    "indices": ("add-images", "column, row = (cuda.threadIdx.x, cuda.threadIdx.y)"),
    "strides": ("total-by-strides", "range(0, x.size, step)"),
    "who": ("scale-add", "out[i] = a * x[i] + y[i]\n"),
    "libraries": ("clip", "@numba.vectorize(["),
    "known-cases": ("fill-index", "if out.size in (...,):"),
    "limited-sizes": ("scale-add", "if out.size <= 1024:"),
    "frozen-results": ("psnr", "_other(value)\n"),
    "borrowed-references": ("energy-rank", "return the_reference(s=s, share=share)"),
    "orders": ("fair-ratio", "old = sorted(old)"),
    "kept-results": ("psnr", "return _kept.setdefault(1, value)"),
}
REWRITTEN = {
    "renamed": ("psnr", "np.log10(mean_squared_error_1)"),
    "written-out": ("total-by-strides", "part = part + x[i]"),
    "commuted": ("scale-add", "x[i] * a + y[i]"),
    "flipped": ("scale-add", "if out.size > i:"),
    "inverted": ("least-time", "'arithmetic' if not memory > arithmetic else 'memory'"),
    "while-loops": ("total-by-strides", "while i < x.size:\n        part += x[i]\n        i +="),
    "guards": ("rotate-image", "if row < out.shape[0]:\n        if column <"),
    "temporaries": ("scale-add", "out[i] = value_here"),
    "mappings": ("scale-add", "i = cuda.gridsize(1) - 1 - cuda.grid(1)"),
    "device-functions": ("scale-add", "out[i] = computed(a, i, x, y)"),
    "conversions": ("count-sectors", "return converted(value)"),
    "loops": ("left-to-do", "        if name not in done:\n            made.append(name)"),
    "copies": ("psnr", "image = image.copy()"),
}


@pytest.mark.parametrize("kind", MAKES)
def test_an_operator_makes_mutants(kind):
    exercise, text = MAKES[kind]
    texts = [answer.text for answer in made(exercise, {kind: MUTANTS[kind]})]
    pattern = re.escape(text).replace(re.escape("..."), r"[\w.]+")
    assert any(re.search(pattern, each) for each in texts), texts


@pytest.mark.parametrize("kind", REWRITTEN)
def test_an_operator_makes_rewrites(kind):
    exercise, text = REWRITTEN[kind]
    texts = [answer.text for answer in made(exercise, {kind: REWRITES[kind]})]
    assert any(text in each for each in texts), texts


def test_every_operator_is_looked_at():
    assert MAKES.keys() == MUTANTS.keys() and REWRITTEN.keys() == REWRITES.keys()


def answer(exercise, kind, old, new):
    of = subject(exercise)
    assert old in of.text
    return of.answer(kind, of.text.replace(old, new))


def test_a_mutant_that_fails_is_killed_and_one_that_does_not_end_is_stopped(monkeypatch):
    outcome = of_mutant(answer("scale-add", "terms", " + y[i]", ""))
    assert outcome.fate == "killed" and outcome.verdict.kind == "wrong-result"
    monkeypatch.setattr(judging, "SECONDS", 0.3)
    endless = answer("enough-streams", "statements", "streams += 1", "pass")
    assert of_mutant(endless).verdict.kind == "endless-loop"


def test_a_mutant_that_passes_is_held_against_the_solution_in_drawn_cases(monkeypatch):
    monkeypatch.setattr(judging, "MANY", 40)
    exercise = find_exercise("merge-softmax")
    same = answer(exercise.name, "arithmetic", "total * factor +", "factor * total +")
    assert of_mutant(same).fate == "equal"
    few = replace(exercise, cases=exercise.cases[:1], drawn=0)
    monkeypatch.setattr(subject(exercise.name), "exercise", few)
    largest = f"largest = {float(few.arguments(0)['largest'])!r}"
    frozen = answer(exercise.name, "frozen-arguments", "    both =", f"    {largest}\n    both =")
    outcome = of_mutant(frozen)
    assert outcome.fate == "survived" and "drawn by seed 100" in outcome.said


def test_what_only_costs_is_refused_or_survives(monkeypatch):
    exercise = find_exercise("reverse-blocks")
    without = answer(exercise.name, "barriers", "cuda.syncthreads()", "pass")
    assert of_mutant(without).verdict.kind == "race"
    passed = Verdict(exercise.name, "passed", "passed", "")
    monkeypatch.setattr(judging, "judge", lambda *given, **options: passed)
    assert of_mutant(without).fate == "survived"


def test_a_rewrite_passes_or_is_refused():
    assert of_rewrite(answer("scale-add", "commuted", "a * x[i]", "x[i] * a")).fate == "passed"
    assert of_rewrite(answer("scale-add", "commuted", "a * x[i]", "a")).fate == "refused"


def test_a_few_are_drawn_of_every_kind():
    kinds = {each.kind for each in made("scale-add", MUTANTS)}
    few = made("scale-add", MUTANTS, len(kinds) + 1, seed=3)
    assert {each.kind for each in few} == kinds and len(few) == len(kinds) + 1
    assert few == made("scale-add", MUTANTS, len(kinds) + 1, seed=3)
    assert few != made("scale-add", MUTANTS, len(kinds) + 1, seed=4)


@pytest.mark.parametrize(
    ("kind", "message", "failure", "found"),
    [
        ("terms", "out[0] is 1\nLine 4: out[i] = x[i]", "wrong-result", "line"),
        ("terms", "out[0] is 1\nLine 3: if i < n:", "wrong-result", ""),
        ("terms", "That is what you get when y is left out.", "wrong-result", "cause"),
        ("terms", "Hint: The formula is a * x[i] + y[i].", "wrong-result", "cause"),
        ("barriers", "Thread (1, 0, 0) reads x[3]", "race", "cause"),
        ("known-cases", "It is wrong.\nCase: of another size.", "wrong-result", "cause"),
        ("terms", "name 'x' is not defined", "typing", "cause"),
        ("terms", "name 'i' has no blocks", "wrong-result", ""),
    ],
)
def test_a_verdict_names_the_line_or_the_cause(kind, message, failure, found):
    mutant = answer("scale-add", kind, "a * x[i] + y[i]", "0")
    assert named(mutant, message, failure) == found


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", [n for n in exercises() if n not in EXERCISES], ids="{}/".format)
def test_every_exercise_has_mutants_of_several_kinds_and_rewrites(name):
    mutants, rewrites = made(name, MUTANTS, 20), made(name, REWRITES, 5)
    assert len(mutants) >= 10 and len({each.kind for each in mutants}) >= 4
    assert len(rewrites) >= 3


def test_few_are_listed_as_not_to_be_judged_and_what_is_listed_is_there():
    assert len(EXERCISES.keys() | {name for name, _ in ANSWERS}) <= len(exercises()) / 20
    for (name, kind), lines in ANSWERS.items():
        texts = "".join(each.text for each in made(name, {kind: MUTANTS[kind]}))
        assert all(line in texts and reason.strip() for line, reason in lines.items())


SEED = 0
GONE_THROUGH = [
    name
    for name in exercises()
    if subject(name).is_kernel and not kernels.together(subject(name))
]  # fmt: skip


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", GONE_THROUGH, ids="{}/".format)
def test_who_does_the_work_of_others_is_told_so(name):
    """Of kernels whose threads work together that is asked by serial twins."""
    for each in made(name, {"who": MUTANTS["who"]}, 1, SEED):
        assert of_mutant(each).verdict.kind == "not-parallel", each.difference()


#: Whose mutants take a second or more each.
LONG = {
    "staged-weights", "wide-tile", "one-kernel", "enough-streams", "attention-in-tiles",
    "square-tile", "sweep-shared", "last-rung",
}  # fmt: skip


def amiss(answers, fate, wanted):
    """What became of the answers that did not go as it is wanted."""
    return [
        f"{each.answer.kind}: {each.fate}, {each.said}\n{each.answer.difference()}\n{each.verdict}"
        for each in map(fate, answers)
        if each.fate not in wanted
    ]


DEAD = {"killed", "equal", "judged", "listed"}


#: Exercises of which two mutants are judged by `make test`, a twelfth.
FEW = [each for each in exercises() if each not in LONG and zlib.crc32(each.encode()) % 12 == 0]
#: How many of each the slow tests judge (CI fewer), and after how many seconds one has no end: what
#: ends takes less than one.
MOST, ENDLESS = int(os.environ.get("COURSE_MUTANTS", "60")), 3.0


@pytest.mark.parametrize("name", FEW, ids=f"{{}}/seed{SEED}".format)
def test_two_mutants_fail_and_a_rewrite_passes(name, monkeypatch):
    monkeypatch.setattr(judging, "MANY", 20)
    assert amiss(made(name, MUTANTS, 2, SEED), of_mutant, DEAD) == []
    assert amiss(made(name, REWRITES, 1, SEED), of_rewrite, {"passed"}) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", exercises(), ids=f"{{}}/seed{SEED}-{MOST}".format)
def test_many_mutants_fail_and_rewrites_pass(name, monkeypatch):
    monkeypatch.setattr(judging, "MANY", 10)
    passing = [each for each in made(name, MUTANTS, MOST, SEED) if verdict_of(each, ENDLESS)]
    assert amiss(passing, of_mutant, DEAD) == []
    assert amiss(made(name, REWRITES, MOST, SEED), of_rewrite, {"passed"}) == []


def test_the_command_prints_a_row_and_what_survived(capsys, monkeypatch):
    chosen = ["scale-add", "--most", "3", "--processes", "1", "--kinds", "terms", "commuted"]
    assert command.main(chosen) == 0
    head, row, last = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["exercise", "made"]
    assert row.split()[:4] == ["scale-add", "3", "1", "3"] and last.startswith("1 exercises")
    passed = Verdict("scale-add", "passed", "passed", "")
    monkeypatch.setattr(judging, "judge", lambda *given, **options: passed)
    assert command.main([*chosen, "--show"]) == 1
    assert "survived" in capsys.readouterr().out
