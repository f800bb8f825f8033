"""Judges of lesson 15: each says in a sentence what is wrong with an answer, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from course.checks.verdicts import brief
from lessons.lesson15.toy_door import Plan, Tensor, Workshop
from lessons.lesson15.toy_streams import Streams

# --- two streams ----------------------------------------------------------------------------------

FORMS = {
    "record": '("record", event, stream)',
    "wait": '("wait", stream, event)',
    "launch": '("launch", stream)',
}


def judge_order(answer: Any, mine: str, others: Sequence[str]) -> str | None:
    """Judge commands between what other streams wrote before, and write again afterwards."""
    if not isinstance(answer, tuple | list):
        return f"Return a list of commands; got {brief(answer)}."
    streams = {mine, *others}
    for place, command in enumerate(answer):
        fault = _no_command(command, streams)
        if fault:
            return f"Entry {place} is {brief(command)}: {fault}"
    launches = [command for command in answer if command[0] == "launch"]
    if len(launches) != 1:
        return f"The kernel is launched once; your list has {len(launches)} launches."
    if launches[0][1] != mine:
        return (
            f"The kernel is launched on {launches[0][1]}'s stream. Results are handed to the "
            f"caller of {mine}, who goes on there: launch on {mine!r}."
        )
    return _never_recorded(answer) or _raced(answer, mine, others)


def _no_command(command: Any, streams: set[str]) -> str | None:
    if not isinstance(command, tuple | list) or not command or command[0] not in FORMS:
        return f"a command is one of {', '.join(FORMS.values())}."
    kind = command[0]
    if len(command) != (2 if kind == "launch" else 3):
        return f"it must be {FORMS[kind]}."
    stream = command[2] if kind == "record" else command[1]
    if stream not in streams:
        listed = ", ".join(map(repr, sorted(streams)))
        return f"there is no stream {brief(stream)}, there are {listed}; it must be {FORMS[kind]}."
    return None


def _never_recorded(answer: Sequence) -> str | None:
    recorded: set = set()
    later = {command[1] for command in answer if command[0] == "record"}
    for place, command in enumerate(answer):
        if command[0] == "record":
            recorded.add(command[1])
        elif command[0] == "wait" and command[2] not in recorded:
            when = "only later" if command[2] in later else "never"
            return (
                f"Entry {place} waits for the event {command[2]!r}, which is recorded {when}. A "
                "stream does not wait for an event that was not recorded yet: record it first."
            )
    return None


def _raced(answer: Sequence, mine: str, others: Sequence[str]) -> str | None:
    toy = Streams()
    for other in others:
        toy.launch(other, f"{other} writes", writes=[f"array of {other}"])
    for command in answer:
        if command[0] == "record":
            toy.record(command[1], command[2])
        elif command[0] == "wait":
            toy.wait(command[1], command[2])
        else:
            toy.launch(mine, "your kernel", reads=[f"array of {other}" for other in others])
    for other in others:
        toy.launch(other, f"{other} writes again", writes=[f"array of {other}"])
    for earlier, later, _ in toy.races:
        if later == "your kernel":
            other = earlier.removesuffix(" writes")
            return (
                f"Nothing orders your kernel behind what {other}'s stream was given before: it may "
                f"read numbers that are not written yet. Record an event on {other!r}, and let "
                f"{mine!r} wait for it before the launch."
            )
        other = later.removesuffix(" writes again")
        return (
            f"{other} goes on after your call, and may write into its array while your kernel "
            f"still reads it. Record an event on {mine!r} after the launch, and let {other!r} wait "
            "for it."
        )
    return None


# --- a plan ---------------------------------------------------------------------------------------


def find_each(answer: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call an answer for one tensor after the other, with one dict; None from a stub."""
    tensors, _, _ = arguments
    plans, prepare, found = {}, Workshop(), []
    for x in tensors:
        plan = answer(x, plans, prepare)
        if plan is None and not prepare.made:
            return None
        found.append((plan, len(prepare.made)))
    return found


#: What two tensors may differ in, and what becomes of a plan of the one for the other.
DIFFERENT = {
    "shape": "the kernel would compute rows that are not there",
    "strides": "the kernel would look for rows in other places",
    "dtype": "the kernel was compiled for other numbers",
    "device": "the kernel was loaded on another GPU",
}


def _looks(x: Tensor) -> tuple:
    return x.shape, x.strides, x.dtype, x.device, x.address % 16


def judge_plans(answer: Any, x: Sequence[Tensor], plans: dict, prepare: Any) -> str | None:
    """Judge which plan each call got, and for which of them one was made."""
    made = 0
    for place, ((plan, so_far), one) in enumerate(zip(answer, x, strict=True)):
        if not isinstance(plan, Plan):
            return f"Return a plan, as `prepare(x)` makes it; call {place} got {brief(plan)}."
        same = [earlier for earlier in x[:place] if _looks(earlier) == _looks(one)]
        if _looks(plan.x) != _looks(one):
            return f"Call {place} got a plan that was made for another tensor: " + _differ(
                plan.x, one
            )
        if so_far > made and same:
            return (
                f"Call {place} made a plan, though an earlier call's would do: only the address is "
                f"another, {one.address:#x} instead of {same[-1].address:#x}, and both leave "
                f"{one.address % 16} over 16. Addresses are written with each launch."
                if same[-1] != one
                else f"Call {place} made a plan for the same tensor once more: keep what "
                "`prepare(x)` returns in `plans`."
            )
        if so_far - made > 1:
            return f"Call {place} made {so_far - made} plans: call `prepare(x)` once, and keep it."
        made = so_far
    return None


def _differ(one: Tensor, other: Tensor) -> str:
    for name, why in DIFFERENT.items():
        if getattr(one, name) != getattr(other, name):
            return (
                f"its {name} is {getattr(one, name)}, this one's is {getattr(other, name)}, so "
                f"{why}. The key lacks the {name}."
            )
    return (
        f"its address leaves {one.address % 16} over 16, this one's {other.address % 16}. Wide "
        "loads take 16 bytes from addresses that are multiples of 16. The key lacks what the "
        "address leaves over 16."
    )


# --- bfloat16 -------------------------------------------------------------------------------------


def rounded(x: np.ndarray) -> np.ndarray:
    """The bits of the nearest bfloat16, of two as near the even one; NaN is 0x7fc0."""
    bits = x.view(np.uint32).astype(np.uint64)
    return np.where(np.isnan(x), 0x7FC0, bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)


def judge_bits(answer: Any, x: np.ndarray) -> str | None:
    """Judge the bits of bfloat16 numbers."""
    if not isinstance(answer, np.ndarray):
        return f"Return an array of uint16; got {brief(answer)}."
    if answer.dtype == np.float32:
        return "Return the 16 bits as uint16, not float32 numbers: shift the bits by 16."
    if answer.dtype.kind not in "ui":
        return f"Return an array of uint16; it holds {answer.dtype}."
    if answer.shape != x.shape:
        return f"Return an array of x's shape, {x.shape}; it has {answer.shape}."
    if answer.dtype != np.uint16:
        return f"Return uint16, 16 bits; it holds {answer.dtype}: add .astype(np.uint16)."
    right = rounded(x)
    nan = np.isnan(x)
    is_nan = (answer & 0x7FFF) > 0x7F80
    wrong = np.where(nan, ~is_nan, answer != right)
    if not wrong.any():
        return None
    place = tuple(int(n) for n in np.argwhere(wrong)[0])
    where = ", ".join(map(str, place))
    given, got, want = x[place], int(answer[place]), int(right[place])
    told = f"x[{where}] is {given:.9g}, bits {x.view(np.uint32)[place]:#010x}; your 16 bits are "
    told += f"{got:#06x}, {_number(got):.6g}"
    if nan[place]:
        return (
            f"{told}. NaN must stay NaN. Its bits are a full exponent and any fraction but 0: cut "
            "off, or rounded up, it may turn into infinity or into a number. Give NaN bits of its "
            "own, such as 0x7fc0."
        )
    return f"{told}; right is {want:#06x}, {_number(want):.6g}. {_why(x, answer, wrong)}"


def _number(bits: int) -> float:
    return float(np.array([bits << 16], np.uint32).view(np.float32)[0])


def _why(x: np.ndarray, answer: np.ndarray, wrong: np.ndarray) -> str:
    bits = x.view(np.uint32)[wrong].astype(np.uint64)
    found = answer[wrong]
    slips = {
        "You cut the lower 16 bits off. Add half of the last place that stays before you shift.":
            bits >> 16,
        "Half-way you always round up. Of two that are as near, the even one is wanted: add "
        "0x7fff, and 1 more where the last bit that stays is 1.": bits + 0x8000 >> 16,
        "Half-way you always round down. Of two that are as near, the even one is wanted: add "
        "0x7fff, and 1 more where the last bit that stays is 1.": bits + 0x7FFF >> 16,
        "You round up always.": bits + 0xFFFF >> 16,
        "Those are the lower 16 bits; the upper ones hold sign, exponent and the first 7 bits.":
            bits & 0xFFFF,
        "Those are float16's bits: it has 5 bits of exponent, bfloat16 has float32's 8.":
            x[wrong].astype(np.float16).view(np.uint16),
    }  # fmt: skip
    for said, gives in slips.items():
        if (gives.astype(np.uint16) == found).all():
            return said
    return (
        "Take the bits as uint32, add 0x7fff and the last bit that stays, and shift by 16. Mind "
        "that uint16 cannot hold a sum."
    )
