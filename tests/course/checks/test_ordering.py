"""Given statements put in order: each right order passes, a wrong one gets its own fault."""

import itertools
import linecache
import re

import numpy as np
import pytest

from course.checks import ordering
from course.checks.exercises import Case, FunctionExercise, KernelExercise
from course.checks.judging import judge
from tools.notebooks.cells import stub

HEAD = """\
from numba import float32
from course import cuda

@cuda.jit
def reverse(out, x):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for start in range(0, x.size, 64):
"""
STATEMENTS = {
    "fill": "tile[t] = x[start + t]",
    "wait": "cuda.syncthreads()",
    "take": "out[start + t] = tile[63 - t]",
    "wait again": "cuda.syncthreads()",
}
FOR_TWO = {"fill": "fill", "wait": "wait", "take": "take", "wait again": "wait"}


def _case(n):
    return Case(
        f"{n} elements",
        lambda rng: {"out": np.empty(n, np.float32), "x": rng.random(n, dtype=np.float32)},
        block=64,
        grid=1,
    )


EXERCISE = KernelExercise(
    name="sample-order",
    lesson=99,
    title="Reverse each 64 elements",
    outputs=("out",),
    reference=lambda x: x.reshape(-1, 64)[:, ::-1].ravel(),
    cases=[_case(64), _case(256)],
    statements=tuple(STATEMENTS.values()),
)


def _defined(text, name="reverse"):
    file = f"<{text}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {"__name__": __name__}
    exec(compile(text, file, "exec"), space)
    return space[name]


def _kernel(order):
    return _defined(HEAD + "".join(f"        {STATEMENTS[one]}\n" for one in order))


def _always_right(order, rounds=3):
    """Whether two threads that may run in any order take what was meant, by trying all of them."""
    program = [(FOR_TWO[one], n) for n in range(rounds) for one in order]
    left, seen = [((0, 0), (None, None))], set()
    while left:
        state = left.pop()
        if state in seen:
            continue
        seen.add(state)
        places, buffer = state
        for me in (0, 1):
            if places[me] == len(program):
                continue
            what, n = program[places[me]]
            after = list(buffer)
            if what == "wait" and places[0] != places[1]:
                behind = places[me] < places[1 - me]
                passed = behind and any(
                    w == "wait" for w, _ in program[places[me] : places[1 - me]]
                )
                if not passed:
                    continue  # until the other one is here, too
            if what == "take" and buffer[1 - me] != n:
                return False
            if what == "fill":
                after[me] = n
            step = (1, 1) if what == "wait" and places[0] == places[1] else (1 - me, me)
            now = tuple(place + one for place, one in zip(places, step, strict=True))
            left.append((now, tuple(after)))
    return True


def _stand_together(order):
    return "\n".join(order)


@pytest.mark.parametrize("order", list(itertools.permutations(STATEMENTS)), ids=_stand_together)
def test_an_order_passes_where_each_way_to_run_it_is_right(order):
    verdict = judge(EXERCISE, _kernel(order))
    as_given = [STATEMENTS[one] for one in order] == ordering.as_given(STATEMENTS.values())
    if as_given:
        assert verdict.kind == "not-started"
    else:
        assert (verdict.kind == "passed") == _always_right(order), str(verdict)
        assert verdict or verdict.kind in ("race", "uninitialised-read")


def test_the_oracle_knows_right_and_wrong():
    right = [order for order in itertools.permutations(STATEMENTS) if _always_right(order)]
    places = {tuple(FOR_TWO[one] for one in order) for order in right}
    assert places == {("fill", "wait", "take", "wait"), ("wait", "fill", "wait", "take")}


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (
            "wait, wait again, fill, take",
            "Between `tile[t] = x[start + t]` and `out[start + t] = tile[63 - t]`, there is no",
        ),
        ("fill, wait, wait again, take", "From one round to the next, from `out[start + t] ="),
        ("wait, take, wait again, fill", "`tile[t] = x[start + t]`, and needs what that stores"),
    ],
)
def test_the_verdict_names_the_two_of_which_the_finding_speaks(order, said):
    verdict = judge(EXERCISE, _kernel(order.split(", ")))
    assert said in verdict.message, str(verdict)


SUMS = """\
def sums(x):
    found, total = [], 0
    for one in x:
        {}
    return found
"""
SUM = ("one *= one", "total += one", "total *= 2", "found.append(total)")


@pytest.mark.parametrize("order", list(itertools.permutations(SUM)), ids=_stand_together)
def test_each_wrong_order_is_told_by_two_statements_that_matter(order):
    solution = _defined(SUMS.format("\n        ".join(SUM)), "sums")
    exercise = FunctionExercise(
        name="sample-sums",
        lesson=99,
        title="Sums of squares, doubled",
        reference=lambda x: tuple(solution(x)),
        cases=[Case("1, 2, 3", lambda rng: {"x": [1, 2, 3]})],
        statements=SUM,
    )
    answer = _defined(SUMS.format("\n        ".join(order)), "sums")
    verdict = judge(exercise, answer, repairs=True)
    if verdict or verdict.kind == "not-started":
        return
    line, early, late = re.search(
        r"Line (\d+) decides: `(.*?)`\. In .* stands behind `(.*?)`, and that matters",
        verdict.message,
    ).groups()
    assert order[int(line) - 4] == early and order.index(early) < order.index(late)
    assert SUM.index(late) < SUM.index(early)
    other = list(SUM)
    other.remove(early)
    other.insert(other.index(late), early)
    assert not judge(exercise, _defined(SUMS.format("\n        ".join(other)), "sums"))


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("fill, wait, take", "`cuda.syncthreads()` is given twice, and stands once in your order."),
        ("wait, fill, wait, take, take", "is given once, and stands twice in your order."),
        ("wait, take, wait", "`tile[t] = x[start + t]` is given once, and stands nowhere"),
    ],
)
def test_each_statement_stays(order, said):
    verdict = judge(EXERCISE, _kernel(order.split(", ")))
    assert verdict.kind == "statements" and said in verdict.message, str(verdict)


def test_a_variable_may_have_another_name():
    text = HEAD + "".join(f"        {each}\n" for each in STATEMENTS.values())
    renamed = re.sub(r"\bt\b", "lane", text).replace("start", "first")
    assert judge(EXERCISE, _defined(renamed))


def test_a_student_gets_the_statements_out_of_order_and_has_not_started():
    lines = "".join(f"        {text}  # {name}\n" for name, text in STATEMENTS.items())
    cell = f"{HEAD}        ### BEGIN ORDER\n{lines}        ### END ORDER\n    out[0] = out[0]"
    given = stub(cell)
    comments = [
        line.partition("  # ")[2]
        for line in given.splitlines()
        if "]  # " in line or ")  # " in line
    ]
    assert "        # put these 4 statements in order\n" in given and "ORDER" not in given
    assert comments == ["wait", "wait again", "take", "fill"]
    assert judge(EXERCISE, _defined(given)).kind == "not-started"


def test_statements_of_host_code_are_put_in_order_too():
    exercise = FunctionExercise(
        name="sample-host-order",
        lesson=99,
        title="Twice, and one more",
        reference=lambda n: 2 * n + 1,
        cases=[Case("3", lambda rng: {"n": 3})],
        statements=("n *= 2", "n += 1"),
    )
    text = "def f(n):\n    {}\n    {}\n    return n\n"
    assert judge(exercise, _defined(text.format("n += 1", "n *= 2"), "f")).kind == "wrong-result"
    assert judge(exercise, _defined(text.format("n *= 2", "n += 1"), "f")).kind == "not-started"
