"""What a kernel's text contains that explains a verdict: which indices it reads, how it guards.

A slip is named only where the text has it and the lesson's solution does not, and where the verdict
is of a kind that it leads to.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from course.checks.answers import function_node, names_in_reach, plain_function
from course.checks.exercises import KernelExercise
from course.checks.trials import launch_configuration
from course.checks.verdicts import Failure

_ELEMENTS = {"unwritten-output", "wrong-result", "race", "same-value-race", "uninitialised-read"}
_COVERS = _ELEMENTS | {"out-of-bounds", "uncoalesced", "limit"}


class Text:
    """A kernel's source, with that of the device functions that it calls."""

    def __init__(self, kernel: Any) -> None:
        self.whole = function_node(kernel)
        left, seen = [kernel], set()
        self.nodes: list[ast.AST] = []
        while left:
            function = plain_function(left.pop())
            node = function_node(function)
            if node is None or function in seen:
                continue
            seen.add(function)
            self.nodes += ast.walk(node)
            left += [v for v in names_in_reach(function).values() if hasattr(v, "py_func")]
        self.names = {ast.unparse(n) for n in self.nodes if isinstance(n, ast.Attribute)}

    def counts_blocks(self, axis: str) -> bool:
        """Whether it reads the number of the block along an axis."""
        return bool(self.names & {f"cuda.blockIdx.{axis}", "cuda.blockIdx", "cuda.grid"})

    def own(self, kind: type) -> Iterator[Any]:
        """The nodes of a kind in the kernel itself, from top to bottom."""
        found = [n for n in ast.walk(self.whole) if isinstance(n, kind)] if self.whole else []
        return iter(sorted(found, key=lambda node: (node.lineno, node.col_offset)))


def add_slip(failure: Failure, exercise: KernelExercise, answer: Any) -> None:
    """Let a failure name the first slip that the text of a kernel has; in place."""
    text, right = Text(answer), Text(exercise.model())
    if text.whole is None:
        return
    looks = _threads_alone, _formula, _exchanged, _clamped, _atomic_result, _stored_over
    for look in (*looks, _early_return):
        found = look(failure, exercise, text, right)
        if found:
            failure.message += f"\n{found[0]}"
            told = exercise.hints.get(failure.kind, "")
            fits = look is _early_return or (look is _clamped and "sync" not in told)
            if not (told and fits) or failure.kind == "unwritten-output":
                failure.hint = found[1]
            return
    if failure.kind == "not-parallel" and "not-parallel" not in exercise.hints:
        failure.hint = _shared_out(exercise, failure.number or 0, right)


Slip = tuple[str, str | None] | None  # what is said, and the hint; None for the exercise's


def _threads_alone(failure: Failure, exercise: KernelExercise, text: Text, right: Text) -> Slip:
    """`threadIdx` without `blockIdx`, in a launch of several blocks."""
    number = failure.number or 0
    grid, _ = launch_configuration(exercise, exercise.cases[number], exercise.arguments(number))
    blocks = dict(zip("xyz", (grid,) if isinstance(grid, int) else grid, strict=False))
    alone = [
        axis
        for axis, several in blocks.items()
        if several > 1
        and f"cuda.threadIdx.{axis}" in text.names
        and not text.counts_blocks(axis)
        and (right.whole is None or right.counts_blocks(axis))
    ]
    if not alone or failure.kind not in _COVERS | {"not-parallel"}:
        return None
    threads = " and ".join(f"cuda.threadIdx.{axis}" for axis in alone)
    of_blocks = " and ".join(f"cuda.blockIdx.{axis}" for axis in alone)
    many = " x ".join(str(blocks[axis]) for axis in alone)
    sums = ", ".join(f"cuda.blockIdx.{a} * cuda.blockDim.{a} + cuda.threadIdx.{a}" for a in alone)
    hint = f"Count the blocks' threads, too: {sums}. That is what cuda.grid({len(blocks)}) gives."
    theirs = {ast.unparse(node) for node in right.own(ast.BinOp | ast.Attribute)}
    counts = {"cuda.grid", *(f"cuda.blockIdx.{a} * cuda.blockDim.{a}" for a in alone)} & theirs
    counts = counts or right.whole is None
    return (
        f"Your kernel reads {threads} and not {of_blocks}: all {many} blocks do the same.",
        hint if counts else None,  # else a block has a number of its own: a row, a matrix
    )


def _formula(failure: Failure, exercise: KernelExercise, text: Text, right: Text) -> Slip:
    """A thread's number in the grid from something else than blockIdx * blockDim + threadIdx."""
    known = {ast.unparse(n) for n in right.nodes if isinstance(n, ast.BinOp)}
    for node in text.own(ast.BinOp) if failure.kind in _COVERS else ():
        if not isinstance(node.op, ast.Add) or ast.unparse(node) in known:
            continue
        for side, other in ((node.left, node.right), (node.right, node.left)):
            thread, axis = ast.unparse(side), ast.unparse(side)[-1]
            blocks = f"cuda.blockIdx.{axis}"
            factors = {ast.unparse(other)}
            if isinstance(other, ast.BinOp) and isinstance(other.op, ast.Mult):
                factors = {ast.unparse(other.left), ast.unparse(other.right)}
            per = factors - {blocks}
            builtin = all(each.startswith("cuda.") for each in per)
            if thread != f"cuda.threadIdx.{axis}" or blocks not in factors or not builtin:
                continue
            if per != {f"cuda.blockDim.{axis}"}:
                return (
                    f"`{ast.unparse(node)}` in line {node.lineno} is not the thread's number in "
                    "the grid: a block has blockDim threads.",
                    f"Write cuda.blockIdx.{axis} * cuda.blockDim.{axis} + cuda.threadIdx.{axis}.",
                )
    return None


def _exchanged(failure: Failure, exercise: KernelExercise, text: Text, right: Text) -> Slip:
    """``row, column = cuda.grid(2)`` for an array that is indexed by row and column."""
    wanted = {_first_two(node) for node in right.own(ast.Subscript)}
    looks = failure.kind in _COVERS and "cuda.shared.array" not in right.names
    for node in text.own(ast.Assign) if looks else ():
        names = node.targets[0]
        if ast.unparse(node.value) != "cuda.grid(2)" or not isinstance(names, ast.Tuple):
            continue
        x, y = (ast.unparse(each) for each in names.elts)
        targets = (target for each in text.own(ast.Assign) for target in each.targets)
        mine = {_first_two(target) for target in targets if isinstance(target, ast.Subscript)}
        grids = [n for n in right.own(ast.Assign) if ast.unparse(n.value) == "cuda.grid(2)"]
        theirs = {tuple(ast.unparse(e) for e in n.targets[0].elts) for n in grids}
        if (x, y) in mine and theirs and not theirs & wanted:
            advice = f"Neighbours in x belong to one row: {y}, {x} = cuda.grid(2)."
            if (x, y) in theirs:
                advice = f"An array has the row first: [{y}, {x}]."
            return (
                f"cuda.grid(2) gives x first, so `{x}` in line {node.lineno} counts along x, and "
                "it is taken for the row.",
                advice,
            )
    return None


def _first_two(node: ast.Subscript) -> tuple[str, ...]:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return tuple(ast.unparse(part) for part in parts[:2])


def _clamped(failure: Failure, exercise: KernelExercise, text: Text, right: Text) -> Slip:
    """A clamped or wrapped index, where threads beyond the array should do nothing."""
    if failure.kind not in ("same-value-race", "race"):
        return None
    known = {ast.unparse(node) for node in right.nodes if isinstance(node, ast.BinOp | ast.Call)}
    for node in text.own(ast.BinOp | ast.Call):
        said = ast.unparse(node)
        last = r"\bmin\(.*\.(size|shape\[\d\]) - 1\b"  # not the length of what a block has left
        wraps = r"% \w+\.(size|shape\[\d\])$"
        if said not in known and (re.match(last, said) or re.search(wraps, said)):
            return (
                f"`{said}` in line {node.lineno} gives threads beyond the end an element that "
                "another thread has.",
                "Let them do nothing: compare the index with the size, and load and store under "
                "that `if` alone.",
            )
    return None


def _atomic_result(failure: Failure, exercise: KernelExercise, text: Text, right: Text) -> Slip:
    """What an atomic returns stored over what it added, or an array that comes filled set to 0."""
    for node in text.own(ast.Assign) if failure.kind in _ELEMENTS else ():
        targets = [ast.unparse(t.value) for t in node.targets if isinstance(t, ast.Subscript)]
        call = node.value if isinstance(node.value, ast.Call) else None
        atomic = call is not None and ast.unparse(call.func).startswith("cuda.atomic.")
        if atomic and targets and ast.unparse(call.args[0]) in targets:
            return (
                f"cuda.atomic changes {targets[0]} itself and returns what was there before: line "
                f"{node.lineno} stores that over the new value.",
                f"Call it without the assignment: {ast.unparse(call)}.",
            )
        names = [argument.arg for argument in text.whole.args.args]
        given = {names[exercise.parameters.index(name)] for name in exercise.updated}
        if isinstance(node.value, ast.Constant) and given & set(targets):
            return (
                f"`{ast.unparse(node)}` in line {node.lineno} throws away what {targets[0]} holds, "
                "and what others have added.",
                f"{targets[0]} is given as it should begin: only add to it.",
            )
    return None


def _stored_over(failure: Failure, exercise: KernelExercise, text: Text, right: Text) -> Slip:
    """An element that is added to, and then set to something else."""
    suites = ast.FunctionDef | ast.For | ast.While | ast.If
    for node in text.own(suites) if failure.kind in _ELEMENTS else ():
        for place, after in enumerate(node.body):
            target = ast.unparse(after.targets[0]) if isinstance(after, ast.Assign) else ""
            if "[" not in target or target in ast.unparse(after.value):
                continue
            for added in (n for before in node.body[:place] for n in ast.walk(before)):
                if isinstance(added, ast.AugAssign) and ast.unparse(added.target) == target:
                    return (
                        f"`{ast.unparse(after)}` in line {after.lineno} stores over what line "
                        f"{added.lineno} has added to {target}.",
                        f"Add up in a variable of your own, and store that in {target}, once.",
                    )
    return None


def _early_return(failure: Failure, exercise: KernelExercise, text: Text, right: Text) -> Slip:
    """Threads that return before a barrier, after which the others need them."""
    if failure.kind not in ("unwritten-output", "uninitialised-read") or any(right.own(ast.Return)):
        return None
    calls = [n for n in text.own(ast.Call) if ast.unparse(n.func) == "cuda.syncthreads"]
    for node in text.own(ast.Return):
        if calls and node.lineno < calls[-1].lineno:
            return (
                f"Threads that return in line {node.lineno} do nothing after the barrier either, "
                "and some have something to load or store there.",
                "Put the condition around the load or the store alone, and let all threads go on.",
            )
    return None


def _shared_out(exercise: KernelExercise, number: int, right: Text) -> str:
    """How the threads of this launch share the work."""
    case = exercise.cases[number]
    size = exercise.arguments(number)[(exercise.outputs + exercise.updated)[0]].shape
    if not isinstance(case.block, int) and len([n for n in case.block if n > 1]) > 1:
        return "A thread has the row and the column of its own: column, row = cuda.grid(2)."
    if "cuda.shared.array" in right.names:
        return (
            "All threads of a block share its work: thread t, cuda.threadIdx.x, takes element t, "
            "and goes on by cuda.blockDim.x where there are more."
        )
    grid, block = launch_configuration(exercise, case, exercise.arguments(number))
    if len(size) == 1 and isinstance(grid, int) and grid * int(block) >= size[0] > 1:
        return "There is a thread for each element: i = cuda.grid(1), and no loop over all of them."
    return (
        "Begin at the thread's own index and go on by the number of threads: "
        "range(cuda.grid(1), size, cuda.gridsize(1))."
    )
