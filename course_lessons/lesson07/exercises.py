"""Exercises of lesson 07: reading the rows of a timeline, and a kernel's counters."""

import math

import numpy as np

from course.checks.exercises import Case, FunctionExercise, Tolerance
from course.checks.verdicts import brief
from course_lessons.cases import extent, places, table, told
from course_lessons.lesson07 import suspects

# --- a row of the timeline ------------------------------------------------------------------------


def _union(spans):
    """Time in which at least one span is running."""
    total, until = 0.0, -np.inf
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def _any_spans(rng, apart=False):
    """Up to 40 spans in any order, in quarters of a millisecond; they may touch."""
    times = rng.integers(0, 80, (extent(rng, 1, 41) - 1, 2)) / 4
    if apart:
        times = np.sort(times, axis=None).reshape(-1, 2)
    return [tuple(span) for span in rng.permutation(np.sort(times)).tolist()]


MILLISECONDS = Tolerance(64, "a few sums and differences of times")

FunctionExercise.declare(
    name="busy-time",
    lesson=7,
    title="How long a row was busy",
    reference=_union,
    cases=table(
        "spans",
        ("two that overlap, and one", [(0.0, 4.0), (3.0, 5.0), (5.001, 7.5)]),
        ("one inside another", [(0.0, 10.0), (2.0, 3.0), (4.0, 5.5)]),
        ("not in order", [(6.0, 7.25), (8.0, 8.5), (4.0, 5.0), (0.0, 2.0), (1.0, 3.0)]),
        ("no span at all", []),
    ),
    drawer=lambda rng: told(spans=_any_spans(rng)),
    drawn=6,
    tolerance=MILLISECONDS,
    hints={
        "wrong-result": "Sort the spans by their starts. Remember the latest end that you have "
        "seen: of each span only what lies behind it is new.",
        "raised": "If it fails at the last case only: the row may be empty, and was busy for 0 "
        "ms then.",
    },
)

# --- two rows of the timeline ---------------------------------------------------------------------


FunctionExercise.declare(
    name="together",
    lesson=7,
    title="How long two rows were busy at once",
    reference=lambda first, second: sum(
        max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in first for b in second
    ),
    cases=table(
        "first second",
        ("one inside another", [(0.0, 10.0)], [(2.0, 3.0), (5.0, 9.0)]),
        ("several against several", [(0.0, 3.0), (4.0, 8.0)], [(2.0, 5.0), (7.0, 9.0)]),
        ("as many, but not in pairs", [(5.0, 6.0), (0.0, 1.0)], [(0.5, 2.0), (5.5, 7.0)]),
        ("an empty row", [(0.0, 1.0)], []),
    ),
    drawer=lambda rng: told(first=_any_spans(rng, apart=True), second=_any_spans(rng, apart=True)),
    drawn=6,
    tolerance=MILLISECONDS,
    hints={
        "wrong-result": "Two spans share the time from the later of the starts to the earlier "
        "of the ends, if that is more than 0. Add that up for each span of one row with each "
        "span of the other.",
        "raised": "A row may be empty, and the two may have different numbers of spans.",
        "wrong-shape": "One number: add up what each pair of spans shares.",
    },
)

# --- what a load costs in L1 ----------------------------------------------------------------------

_LANE = np.arange(32)


FunctionExercise.declare(
    name="lines-of-a-load",
    lesson=7,
    title="Lines of the L1 cache under a load",
    reference=lambda elements: len(np.unique(elements // 32)),
    cases=table(
        "elements",
        ("every sixth", _LANE * 6 + 64),
        ("32 neighbours", _LANE),
        ("neighbours that start at 24", _LANE + 24),
        ("32 rows of 4096", _LANE * 4096),
    ),
    drawer=lambda rng: told(elements=places(rng)),
    drawn=6,
    hints={
        "wrong-result": "A line is 128 bytes, 32 numbers. Element e lies in line e // 32. How "
        "many different lines do the 32 lanes name?",
        "wrong-shape": "Return how many lines they are, not the lines.",
    },
)

# --- what binds a kernel --------------------------------------------------------------------------


def _any_light(rng):
    """Two different percentages; every second one is just at 60, or beside it."""
    near = rng.integers(599, 602, 2)
    sm, memory = np.where(rng.random(2) < 0.5, near, rng.choice(1000, 2, replace=False)) / 10
    return told(sm=float(sm), memory=float(memory)) if sm != memory else _any_light(rng)


ENOUGH = 60.0  # percent, from which on the larger throughput has the word, see profile.NEAR_A_ROOF
WORDS = ("compute", "memory", "waiting")


def _limiter(sm, memory):
    if max(sm, memory) < ENOUGH:
        return "waiting"
    return "compute" if sm >= memory else "memory"


def _judge_limiter(answer, sm, memory):
    """Judge the word for a kernel with these two percentages."""
    right = _limiter(sm, memory)
    if not isinstance(answer, str) or answer.lower() not in WORDS:
        return f"Return one of the words 'compute', 'memory' and 'waiting'; got {brief(answer)}."
    if answer == right:
        return None
    if answer not in WORDS:
        return f"Write the word in lower case: {answer.lower()!r}, not {answer!r}."
    if right == "waiting":
        return (
            f"You say {answer!r}, but neither {sm} nor {memory} reaches {ENOUGH:.0f}: neither roof "
            "is near, so the kernel is 'waiting'."
        )
    if answer == "waiting":
        if max(sm, memory) == ENOUGH:
            return f"You say 'waiting', but {ENOUGH:.0f} itself is enough: at least {ENOUGH:.0f}."
        return (
            f"You say 'waiting', but {max(sm, memory)} is at least {ENOUGH:.0f}. A kernel is "
            "'waiting' only if both are below."
        )
    return (
        f"You say {answer!r}, right is {right!r}: the larger of the two has the word. SM stands "
        "for 'compute'."
    )


FunctionExercise.declare(
    name="speed-of-light",
    lesson=7,
    title="What binds a kernel",
    judge=_judge_limiter,
    cases=table(
        "sm memory",
        ("a copy", 12.0, 99.9),
        ("much arithmetic", 99.9, 99.85),
        ("just under", 59.9, 59.95),
        ("just enough", 59.95, 60.0),
        ("the first just enough", 60.0, 8.0),
    ),
    drawer=_any_light,
    candidates=1,
    drawn=10,
    hints={
        "wrong-result": "First ask whether either is at least 60: if neither is, the kernel is "
        "'waiting'. Else the larger one has the word: 'compute' or 'memory'."
    },
)

# --- where warps wait -----------------------------------------------------------------------------

NOT_WAITING = ("selected", "not_selected")


WAITING = ("barrier", "long_scoreboard", "math_pipe_throttle", "mio_throttle", "wait")


def _any_states(rng):
    """Different amounts of `selected`, some kinds of waiting and often `not_selected`, mixed."""
    waiting = rng.choice(WAITING, int(rng.integers(1, len(WAITING) + 1)), replace=False)
    states = rng.permutation(["selected", *NOT_WAITING[int(rng.integers(1, 3)) :], *waiting])
    amounts = (1 + rng.permutation(80)[: len(states)]) / 8
    return told(clocks=dict(zip(states.tolist(), amounts.tolist(), strict=True)))


def _main_stall(clocks):
    waits = {state: amount for state, amount in clocks.items() if state not in NOT_WAITING}
    worst = max(waits, key=waits.get)
    return worst, waits[worst] / sum(clocks.values())


def _judge_stall(answer, clocks):
    """Judge the state with the most waiting, and its share."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        return f"Return two things, the name of a state and its share; got {brief(answer)}."
    if isinstance(answer[1], str) and not isinstance(answer[0], str):
        return f"The other way round: first the state's name, then its share; got {brief(answer)}."
    if not isinstance(answer[0], str):
        return f"The first thing must be the name of a state; got {brief(answer[0])}."
    (state, share), (right, right_share) = answer, _main_stall(clocks)
    if state in NOT_WAITING:
        return (
            f"{state!r} is taken as waiting. Such a warp waits for nothing: it issues, or it "
            "could. Leave both 'selected' and 'not_selected' out."
        )
    if state != right:
        where = "no state of this kernel" if state not in clocks else f"{clocks[state]} cycles"
        return f"You say {state!r}: {where}. It waits most for {right!r}, {clocks[right]} cycles."
    try:
        given = float(share)
    except (TypeError, ValueError):
        return f"The second thing must be a number, the share; got {brief(share)}."
    if math.isclose(given, right_share, abs_tol=1e-4):  # four digits will do
        return None
    return f"{right!r} is right, its share is {right_share:.4g}; got {given:.4g}."


FunctionExercise.declare(
    name="main-stall",
    lesson=7,
    title="What a warp waits for most",
    judge=_judge_stall,
    cases=[
        told(clocks={"selected": 1.0, "not_selected": 0.5, "long_scoreboard": 9.5, "wait": 1.0}),
        told(clocks={"selected": 1.0, "not_selected": 8.0, "barrier": 2.0, "wait": 2.125}),
        told(clocks={"selected": 1.0, "not_selected": 0.25, "wait": 0.75}),
    ],
    drawer=_any_states,
    drawn=6,
    hints={
        "wrong-result": "Leave out 'selected' and 'not_selected'. Of the others take the one "
        "with the most cycles, and divide its cycles by the sum of all, those two included.",
        "raised": "Not every kernel has every state: clocks.get(state, 0) does not fail.",
    },
)

# --- kernels that nobody shows --------------------------------------------------------------------

FunctionExercise.declare(
    name="unseen-kernels",
    lesson=7,
    title="What is wrong with kernels that are not shown",
    judge=suspects.judge,
    cases=[Case("five kernels", lambda rng: {})],
    hints={
        "wrong-result": "Divide sectors by requests, for loads and for stores: 4 is what 32 "
        "neighbours need. Then look for conflicts, for float64, and at the blocks: an H200 has "
        "132 multiprocessors.",
        "not-a-function": "Write a function without arguments that returns the dictionary.",
    },
)
