"""Judges of lesson 15: each says in a sentence what is wrong with an answer, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from course.checks.verdicts import brief
from course_lessons.lesson15.toy_door import Plan, Tensor, Workshop
from course_lessons.lesson15.toy_streams import Streams
from course_lessons.lesson15.toy_torch import WARPS, Context, Log
from course_lessons.lesson15.toy_torch import Tensor as ToyTensor

# --- two streams ----------------------------------------------------------------------------------

FORMS = {
    "record": '("record", event, stream)',
    "wait": '("wait", stream, event)',
    "launch": '("launch", stream)',
}


def judge_order(answer: Any, mine: str, others: Sequence[str]) -> str | None:
    """Judge commands between what other streams wrote before, and write again afterwards."""
    if not isinstance(answer, tuple | list):
        return f"Return a list of commands; {_got(answer)}"
    streams = {mine, *others}
    for place, command in enumerate(answer):
        fault = _no_command(command, streams)
        if fault:
            return f"Entry {place} is {brief(command)}: {fault}"
    launches = [command for command in answer if command[0] == "launch"]
    if len(launches) != 1:
        return (
            f"The kernel is launched once; your list has {len(launches)} launches. Between what it "
            f"waits for and what waits for it stands one {FORMS['launch']}, on {mine!r}."
        )
    if launches[0][1] != mine:
        return (
            f"The kernel is launched on {launches[0][1]}'s stream. Results are handed to the "
            f"caller of {mine}, who goes on there: launch on {mine!r}."
        )
    return _never_recorded(answer, streams) or _raced(answer, mine, others)


def _got(answer: Any) -> str:
    """What came instead of the form that is asked for, in the same words on every machine."""
    kind = type(answer).__name__
    if kind == "generator":
        return "got a generator: leave `yield` out, or put list(...) around it."
    if isinstance(answer, np.ndarray):
        return "got an array."
    if isinstance(answer, str | int | float | complex | tuple | list | None):
        return f"got {brief(answer)}."
    return f"got {'an' if kind[0] in 'aeiou' else 'a'} {kind}."


def _no_command(command: Any, streams: set[str]) -> str | None:
    parts = isinstance(command, tuple | list) and len(command) > 0
    if not parts or not isinstance(command[0], str) or command[0] not in FORMS:
        several = parts and isinstance(command[0], tuple | list)
        inside = " This is a list in the list: use += or extend, not append." if several else ""
        return f"a command is one of {', '.join(FORMS.values())}.{inside}"
    kind = str(command[0])
    if len(command) != (2 if kind == "launch" else 3):
        return f"it must be {FORMS[kind]}."
    stream = command[2] if kind == "record" else command[1]
    if not isinstance(stream, str) or stream not in streams:
        listed = ", ".join(map(repr, sorted(streams)))
        return f"there is no stream {brief(stream)}, there are {listed}; it must be {FORMS[kind]}."
    if kind != "launch":
        event = command[1] if kind == "record" else command[2]
        try:
            hash(event)
        except TypeError:
            return f"an event is a name, such as 'done'; this one is {_got(event)[4:]}"
    return None


def _never_recorded(answer: Sequence, streams: set[str]) -> str | None:
    recorded: set = set()
    later = {command[1] for command in answer if command[0] == "record"}
    for place, command in enumerate(answer):
        if command[0] == "record":
            recorded.add(command[1])
        elif command[0] == "wait" and command[2] not in recorded:
            when = "is recorded only later" if command[2] in later else "is never recorded"
            swapped = command[1] in recorded | later and command[2] in streams
            turned = " Are stream and event turned round?" if swapped else ""
            return (
                f"Entry {place} waits for the event {command[2]!r}, which {when}. A stream does "
                "not wait for an event that was not recorded yet: record it first. The form is "
                f"{FORMS['wait']}.{turned}"
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
            if lost := _recorded_again(answer, other):
                return lost
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


def _recorded_again(answer: Sequence, other: str) -> str | None:
    """What to say where a stream's event was recorded on another one before anybody waited."""
    for place, command in enumerate(answer):
        if command[0] != "record" or command[2] != other:
            continue
        for later in answer[place + 1 :]:
            if later[0] == "wait" and later[2] == command[1]:
                break
            if later[0] == "record" and later[1] == command[1] and later[2] != other:
                return (
                    f"The event {command[1]!r} is recorded on {other!r}, then on {later[2]!r}, and "
                    f"only then waited for: a wait is for the last one, and nothing orders your "
                    f"kernel behind {other}'s stream. Give each stream an event of its own name."
                )
    return None


# --- a plan ---------------------------------------------------------------------------------------


def find_each(answer: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call an answer for one tensor after the other, with one dict; None from a stub.

    For each call: what it returned, how many plans were made by then, those of them that `plans`
    holds, and whether the one returned was made here.
    """
    tensors, _, _ = arguments
    plans, prepare, found = {}, Workshop(), []
    for x in tensors:
        plan = answer(x, plans, prepare)
        if plan is None and not prepare.made:
            return None
        held = [made for made in prepare.made if any(made is kept for kept in plans.values())]
        ours = any(made is plan for made in prepare.made)
        found.append((plan, len(prepare.made), held, ours))
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


def _fits(plan: Plan, x: Tensor) -> bool:
    """Whether a plan is right for a tensor; all that is no multiple of 16 has the same loads."""
    one, other = _looks(plan.x), _looks(x)
    return one[:-1] == other[:-1] and (one[-1] == 0) == (other[-1] == 0)


def judge_plans(answer: Any, x: Sequence[Tensor], plans: dict, prepare: Any) -> str | None:
    """Judge which plan each call got, and for which of them one was made."""
    made, held_before = 0, ()
    for place, ((plan, so_far, held, ours), one) in enumerate(zip(answer, x, strict=True)):
        if not isinstance(plan, Plan):
            return f"Return a plan, as `prepare(x)` makes it; call {place} {_instead(plan)}"
        if not isinstance(plan.x, Tensor):
            return f"Call {place} called `prepare` with {brief(plan.x)}: it takes x, the tensor."
        if not ours:
            return (
                f"Call {place} returned a plan that was made elsewhere. Keep plans in `plans`, "
                "which is given, not in a dict of your own: the check begins with an empty one."
            )
        if not _fits(plan, one):
            told = _differ(plan.x, one, any(_looks(old.x) == _looks(one) for old in held))
            return f"Call {place} got a plan that was made for another tensor: {told}"
        same = [earlier for earlier in x[:place] if _looks(earlier) == _looks(one)]
        if so_far > made and same:
            return f"Call {place} made a plan, {_needless(plan, one, same[-1], held_before)}"
        if so_far - made > 1:
            return f"Call {place} made {so_far - made} plans: call `prepare(x)` once, and keep it."
        made, held_before = so_far, held
    return None


def _instead(plan: Any) -> str:
    if plan is None:
        return "got None. Does each way through your function end with `return` and a plan?"
    if isinstance(plan, dict):
        return "got a dict: return plans[key], not all of them."
    if isinstance(plan, Workshop):
        return "got `prepare` itself: call it, `prepare(x)`."
    return _got(plan)


def _needless(plan: Plan, one: Tensor, before: Tensor, held: Sequence[Plan]) -> str:
    """Why a plan was made once more, for a tensor that looks like one before."""
    if any(plan is old for old in held):
        return (
            "and returned an older one: `prepare(x)` is called before it is known whether a plan "
            "is there. (`plans.setdefault(key, prepare(x))` and `plans.get(key, prepare(x))` call "
            "it each time.) Ask `if key not in plans` first."
        )
    if not any(_looks(old.x) == _looks(one) for old in held):
        return (
            "though an earlier call had made one that fits. It is no longer in `plans`, or never "
            "was: keep what `prepare(x)` returns, `plans[key] = prepare(x)`, and let it stay there."
        )
    if before == one:
        return (
            "though `plans` has one for the same tensor. Was it looked for, with `if key not in "
            "plans`? And is the key the same each time? Make it of what x says, not of id(x)."
        )
    return (
        f"though an earlier call's would do: only the address is another, {one.address:#x} instead "
        f"of {before.address:#x}, and both leave {one.address % 16} over 16. Addresses are written "
        "with each launch: the key has what they leave over 16, no more."
    )


def _differ(one: Tensor, other: Tensor, there: bool) -> str:
    """What differs, and that the key lacks it, unless a plan for the other is there."""
    fix = "`plans` has one for this tensor, too: return the one of its key, plans[key]."
    for name, why in DIFFERENT.items():
        if getattr(one, name) != getattr(other, name):
            are = "are" if name == "strides" else "is"
            lacks = f"The key lacks the {name}, or a part: put x.{name} into it."
            return (
                f"its {name} {are} {getattr(one, name)}, this one's {are} {getattr(other, name)}, "
                f"so {why}. {fix if there else lacks}"
            )
    lacks = "The key lacks what the address leaves over 16, x.address % 16."
    return (
        f"its address leaves {one.address % 16} over 16, this one's {other.address % 16}. Wide "
        f"loads take 16 bytes from addresses that are multiples of 16. {fix if there else lacks}"
    )


# --- bfloat16 -------------------------------------------------------------------------------------


def rounded(x: np.ndarray) -> np.ndarray:
    """The bits of the nearest bfloat16, of two as near the even one; NaN is 0x7fc0."""
    bits = x.view(np.uint32).astype(np.uint64)
    return np.where(np.isnan(x), 0x7FC0, bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)


def judge_bits(answer: Any, x: np.ndarray) -> str | None:
    """Judge the bits of bfloat16 numbers."""
    if not isinstance(answer, np.ndarray):
        return f"Return an array of uint16; {_got(answer)}"
    if answer.dtype == np.float32:
        return "Return the 16 bits as uint16, not float32 numbers: shift the bits by 16."
    if answer.dtype == np.float16:
        return (
            "Return an array of uint16; it holds float16, which is another type: 5 bits of "
            "exponent, where bfloat16 has 8. Begin with the bits, x.view(np.uint32)."
        )
    if answer.dtype.kind not in "ui":
        return f"Return an array of uint16; it holds {answer.dtype}."
    if answer.shape != x.shape:
        halves = answer.size == 2 * x.size
        cut = " x.view(np.uint16) makes two of each number: view it as np.uint32." if halves else ""
        return f"Return an array of x's shape, {x.shape}; it has {answer.shape}.{cut}"
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
    return f"{told}; right is {want:#06x}, {_number(want):.6g}. {_why(x, answer)}".rstrip()


def _number(bits: int) -> float:
    return float(np.array([bits << 16], np.uint32).view(np.float32)[0])


def _why(x: np.ndarray, answer: np.ndarray) -> str:
    """How the bits come about; NaN aside, which has a sentence of its own."""
    numbers = ~np.isnan(x)
    found, x = answer[numbers], x[numbers]
    if not found.any():
        return (
            "All of yours are 0. uint16 keeps the lower 16 bits, and here they are 0: shift by 16 "
            "before .astype(np.uint16). (And x.view(np.uint32) are the bits; x.astype(np.uint32) "
            "are whole numbers.)"
        )
    whole = (x >= 0) & (x < 65536)
    if (x[whole] >= 1).any() and (found[whole] == np.trunc(x[whole])).all():
        return "You convert the values, which .astype does. x.view(np.uint32) are their bits."
    return ""


# --- a launch on PyTorch's stream -----------------------------------------------------------------


def note_launch(answer: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call an answer with the stand-ins, and return their log; None from a stub."""
    torch, cuda, kernel, tensors = arguments
    answer(torch, cuda, kernel, tensors)
    log = kernel.log
    return log if log.launches or log.waits else None


def judge_launch(
    answer: Log, torch: Any, cuda: Any, kernel: Any, tensors: Sequence[ToyTensor]
) -> str | None:
    """Judge what was launched, on how many blocks, with which arrays, and on which stream."""
    if len(answer.launches) != 1:
        return f"The kernel is launched once; yours was launched {len(answer.launches)} times."
    (grid, block, stream, names), rows = answer.launches[0], tensors[0].shape[0]
    grid, block = (tuple(np.atleast_1d(part).tolist()) for part in (grid, block))
    blocks = -(-rows // WARPS)
    if block[0] != 32 * WARPS or any(n != 1 for n in block[1:]):
        return f"A block has {block} threads. The kernel takes 128: four warps, a row each."
    if grid[0] != blocks or any(n != 1 for n in grid[1:]):
        return (
            f"The grid has {grid} blocks for {rows} rows. A block has four warps, and each has a "
            f"row: {blocks}, which is -(-rows // 4), rounded up."
        )
    if names != [one.name for one in tensors]:
        got = ", ".join(names) or "none"
        return f"The kernel takes all of `tensors`, in their order; it got {got}."
    if answer.waits:
        return (
            f"Your function called {answer.waits[0]}: the host waits then until the GPU has done "
            "what it was given. A launch returns at once; the stream keeps the order."
        )
    return _on_other_stream(stream, torch.cuda.current_stream().cuda_stream)


def _on_other_stream(stream: int, current: int) -> str | None:
    toy = Streams()
    toy.launch(str(current), "PyTorch fills x", writes=["x"])
    toy.launch(str(stream), "your kernel", reads=["x"], writes=["out"])
    if not toy.races:
        return None
    where = "the default stream, 0" if stream == 0 else f"stream {stream:#x}"
    return (
        f"PyTorch fills x on stream {current:#x}, its current one, and your kernel is on {where}. "
        "Nothing orders the two: the kernel may read x before it is filled. Ask "
        "torch.cuda.current_stream().cuda_stream in each call, and launch there."
    )


# --- a softmax both ways --------------------------------------------------------------------------


def call_both_ways(answer: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The result of an operator's forward pass, and the gradient of its backward pass."""
    torch, run, *kernels = arguments
    made = answer(torch, run, *kernels)
    if not isinstance(made, type) or not hasattr(made, "forward") or not hasattr(made, "backward"):
        return made
    ctx, x, dy = Context(), torch.x.copy(), torch.dy.copy()
    y = made.forward(ctx, x)
    kept = [np.array(one) for one in ctx.saved_tensors if isinstance(one, np.ndarray)]
    if not run.launched and not kept:
        return None
    dx = made.backward(ctx, dy)
    if isinstance(dx, tuple) and dx and all(one is None for one in dx[1:]):  # as PyTorch takes it
        dx = dx[0]
    given = {"x": (x, torch.x), "dy": (dy, torch.dy)}
    changed = [name for name, (now, before) in given.items() if not np.array_equal(now, before)]
    return {"y": y, "dx": dx, "kept": kept, "launched": list(run.launched), "changed": changed}


def judge_both_ways(
    answer: Any, torch: Any, run: Any, forward_kernel: str, backward_kernel: str
) -> str | None:
    """Judge result and gradient of an operator, and what it kept in between."""
    if not isinstance(answer, dict):
        return "Return the class, with its two functions `forward` and `backward`."
    if answer["changed"]:
        return f"{answer['changed'][0]} is its owner's, and was overwritten: store in a new array."
    powers = np.exp(torch.x - torch.x.max(1, keepdims=True))
    y = powers / powers.sum(1, keepdims=True)
    if not _near(answer["y"], y):
        return "forward returns something else than the softmax: launch `forward_kernel` on x, y."
    if not any(_near(one, y) for one in answer["kept"]):
        return (
            f"ctx.save_for_backward kept {len(answer['kept'])} of your tensors, and not y. The "
            "backward pass needs y; x is not needed any more."
        )
    if len(answer["kept"]) > 1:
        return "Keep y alone: what is kept stays in memory until the backward pass."
    if answer["dx"] is None:
        return "backward returns None: return the gradient of x."
    if not _near(answer["dx"], y * (torch.dy - (y * torch.dy).sum(1, keepdims=True))):
        return (
            "backward returns something else than the gradient of x: launch `backward_kernel` on "
            "dy, y and dx, in that order."
        )
    if answer["launched"] != (forward_kernel, backward_kernel):
        return (
            f"The launches were {', '.join(answer['launched'])}: one in each pass is enough, "
            "`forward_kernel` in forward, `backward_kernel` in backward."
        )
    return None


def _near(given: Any, right: np.ndarray) -> bool:
    same = isinstance(given, np.ndarray) and given.shape == right.shape
    return same and np.allclose(given, right, rtol=1e-4, atol=1e-5)
