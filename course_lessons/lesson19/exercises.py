"""Exercises of lesson 19: a ratio that is fair, and the stage that is worth mending."""

import numpy as np

from course.checks.exercises import FunctionExercise
from course_lessons.cases import extent, fixed, table

# --- fair-ratio: warm, in the middle, for the same work -------------------------------------------


def _fair_ratio(old, new, old_work, new_work):
    return (np.median(old[1:]) / old_work) / (np.median(new[1:]) / new_work)


def _any_times(rng):
    """The first call may be the slowest or the fastest; some of the others are disturbed."""

    def times():
        found = rng.uniform(1, 9) * rng.uniform(0.9, 1.1, extent(rng, 2, 40))
        found[rng.random(len(found)) < 0.3] *= rng.uniform(1, 20)
        return [float(its) for its in found.round(3)]

    old, new = times(), times()
    old_work, new_work = extent(rng, 1, 5000), extent(rng, 1, 5000)
    return fixed(
        f"{len(old)} calls of {old_work}, {len(new)} of {new_work}",
        old=old, new=new, old_work=old_work, new_work=new_work,
    )  # fmt: skip


FunctionExercise.declare(
    name="fair-ratio",
    lesson=19,
    title="A speed-up that you can believe",
    reference=_fair_ratio,
    cases=table(
        "old new old_work new_work",
        ("a quarter of the work", [40.0, 7.0, 7.3, 7.1], [160.0, 53.0, 52.0, 54.0], 256, 1024),
        ("one call was disturbed", [9.0, 4.0, 90.0, 95.0, 4.1], [30.0, 2.0, 2.2, 2.1], 10, 20),
    ),
    drawer=_any_times,
    drawn=20,
    hints={
        "wrong-result": "Leave the first call out, take the median of the others, divide by the "
        "work; then how many of the new fit into one of the old?",
        "raised": "`old` and `new` are lists of milliseconds: old[1:] is all but the first.",
        "wrong-shape": "Return one number.",
    },
)

# --- what-to-mend: one stage, the whole program ---------------------------------------------------


def _what_to_mend(now, possible, overlapped):
    whole = max if overlapped else sum
    after = {stage: whole({**now, stage: possible[stage]}.values()) for stage in now}
    best = min(after, key=after.get)
    return after[best], best


_STAGES = (
    {"read": 2.0, "factorise": 6.0, "rebuild": 5.0, "write": 3.0},
    {"read": 1.5, "factorise": 4.5, "rebuild": 0.5, "write": 1.0},
)


def _any_stages(rng):
    """Times that are added exactly, small or large; few values, so that many are equal, or many."""
    names = ("read", "decode", "copy in", "kernel", "copy out", "encode", "write", "send", "log")
    stages = rng.permutation(names)[: rng.integers(1, len(names) + 1)].tolist()
    unit, most = 2.0 ** rng.integers(-20, 12), extent(rng, 2, 200)
    now = {stage: unit * int(rng.integers(1, most)) for stage in stages}
    possible = {stage: unit * int(rng.integers(now[stage] / unit + 1)) for stage in stages}
    overlapped = bool(rng.integers(2))
    return fixed(
        f"{len(stages)} stages" + ", overlapped" * overlapped,
        now=now, possible=possible, overlapped=overlapped,
    )  # fmt: skip


FunctionExercise.declare(
    name="what-to-mend",
    lesson=19,
    title="Which stage, and what comes of it?",
    reference=_what_to_mend,
    cases=table(
        "now possible overlapped",
        ("one after the other", *_STAGES, False),
        ("the same, overlapped", *_STAGES, True),
        ("two are worth the same", {"write": 4.0, "read": 4.0}, {"write": 1.0, "read": 1.0}, False),
        ("the largest factor", {"a": 1.0, "b": 8.0}, {"a": 0.01, "b": 6.0}, False),
    ),
    drawer=_any_stages,
    drawn=20,
    hints={
        "wrong-result": "Try each stage alone: put its possible time in the place of its time now, "
        "and work out the whole program: the sum of all stages, or the longest where they overlap.",
        "wrong-shape": "Return two things: the whole time afterwards, and the stage's name.",
        "input-modified": "{**now, stage: 3.0} is a new dictionary with one value changed.",
    },
)
