"""Mutants of kernels: guards, barriers, indices, and who does the work."""

from __future__ import annotations

import ast
import re
from ast import unparse
from collections.abc import Iterator

import numpy as np

from course.checks import edits
from course.checks.trials import launch_configuration
from tools.mutants.subjects import Change, Subject, indented, is_sized, suite

_BARRIER = re.compile(r"cuda\.sync(threads|warp)\(\)")


def guards(of: Subject) -> Iterator[Change]:
    """A guard that is left out, or what one thread does is done by all."""
    for node in of.nodes(ast.If):
        if _limits(node.test) and not node.orelse:
            yield node, suite(node.body)
        elif node.orelse:
            other = indented(suite(node.orelse))
            yield node, f"{suite(node.body)}\nif not ({unparse(node.test)}):\n{other}"


def clamped_indices(of: Subject) -> Iterator[Change]:
    """An index that is clamped, or wrapped round, in place of a guard."""
    for node in of.nodes(ast.If):
        limits = _limits(node.test)
        stored = any(re.search(rf"(?m)^ *{name}\[.*\] \S?= ", unparse(node)) for name in of.results)
        if limits and stored and not node.orelse and all(n.isidentifier() for n, _ in limits):
            for new in ("{0} = min({0}, {1} - 1)", "{0} = {0} % {1}"):
                lines = [new.format(*limit) for limit in limits]
                yield node, "\n".join([*lines, suite(node.body)])


def _limits(test: ast.expr) -> list[tuple[str, str]]:
    """What a guard compares, as (index, limit); empty where it is no guard."""
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    found = []
    for part in parts:
        if not isinstance(part, ast.Compare) or not isinstance(part.ops[-1], ast.Lt):
            return []
        index = part.left if len(part.ops) == 1 else part.comparators[-2]
        found.append((unparse(index), unparse(part.comparators[-1])))
    return found


def barriers(of: Subject) -> Iterator[Change]:
    """A barrier that is left out, or one of the warp in place of one of the block."""
    warps = max(np.prod(case.block) for case in of.exercise.cases) > 32
    for node in of.nodes(ast.Expr):
        if _BARRIER.fullmatch(unparse(node)):
            yield node, "pass"
            if warps and unparse(node) == "cuda.syncthreads()":
                yield node, "cuda.syncwarp()"


def strides(of: Subject) -> Iterator[Change]:
    """A loop over the data whose step is another, or that everybody runs from the start."""
    for node in of.nodes(ast.Call):
        if unparse(node.func) != "range" or len(node.args) != 3:
            continue
        start, stop, step = map(unparse, node.args)
        if "cuda." in start or start in ("t", "lane", "thread", "first"):
            yield node, f"range(0, {stop}, {step})"
            yield node, f"range({start}, {stop}, 1)"
            yield node, f"range({start}, min({stop}, {start} + 1), {step})"


#: Who goes through the launch, and through which of a block's threads in which steps.
WHO = (
    ("if {block} == 0 and {thread} == 0:", "range(0, {threads}, 1)"),
    ("if {block} == 0 and {thread} < 32:", "range({thread}, {threads}, 32)"),
    ("if {block} == 0:", ""),
    ("if True:", "range(0, {threads}, 1)"),
    ("if True:", ""),
)
ROW = "(cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)"
FLAT = {
    "block": "cuda.blockIdx.x + cuda.blockIdx.y + cuda.blockIdx.z",
    "thread": f"(cuda.threadIdx.x + cuda.blockDim.x * {ROW})",
    "threads": "cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z",
}


def together(of: Subject) -> bool:
    """Whether threads of a kernel work together, by barriers, shuffles or in functions it calls."""
    return bool(re.search(r"sync|shared\.array|warp|mma|fill(_tile)?\(|row_sum|tiles", of.text))


def who(of: Subject) -> Iterator[Change]:
    """One thread, one warp, one block or each thread goes through the whole launch.

    Loops stand in for the launch's blocks and threads. Where threads work together only the
    blocks can be gone through.
    """
    cases = enumerate(of.exercise.cases)
    grids = [launch_configuration(of.exercise, c, of.exercise.arguments(n))[0] for n, c in cases]
    for condition, steps in WHO if any(np.prod(grid) > 1 for grid in grids) else ():
        again = condition == "if True:" and of.exercise.updated
        if not again and not (steps and together(of)):
            yield _gone_through(of, condition.format(**FLAT), steps.format(**FLAT))
    inputs = [n for n, v in of.given.items() if is_sized(v) and n not in of.results]
    if inputs and not together(of):
        places = ["{thread} % " + inputs[0] + ".shape[0]", *["0"] * (of.given[inputs[0]].ndim - 1)]
        seen = f"_seen = {inputs[0]}[{', '.join(places)}]\n{WHO[0][0]}"
        yield _gone_through(of, seen.format(**FLAT), WHO[0][1].format(**FLAT))


def _gone_through(of: Subject, condition: str, steps: str) -> str:
    """The kernel with its body in loops over the launch's blocks and, in steps, their threads."""
    body = re.sub(r"\breturn\b(?! )", "continue", of.body)
    body = re.sub(r"cuda\.grid\((\d)\)", _indices, body).replace("cuda.blockIdx.", "_block_")
    if steps:
        body = f"""\
_thread_x = _number % cuda.blockDim.x
_thread_y = _number // cuda.blockDim.x % cuda.blockDim.y
_thread_z = _number // cuda.blockDim.x // cuda.blockDim.y
{body.replace("cuda.threadIdx.", "_thread_")}"""
        body = f"for _number in {steps}:\n{indented(body)}"
    else:
        body += "\ncuda.syncthreads()"
    for axis in "xyz":
        body = f"for _block_{axis} in range(cuda.gridDim.{axis}):\n{indented(body)}"
    return of.with_body(f"{of.arrays}{condition}\n{indented(body)}")


def _indices(call: re.Match) -> str:
    """What `cuda.grid(n)` says, from the indices of block and thread."""
    each = [f"cuda.blockIdx.{a} * cuda.blockDim.{a} + cuda.threadIdx.{a}" for a in "xyz"]
    return ", ".join(each[: int(call[1])]) if call[1] != "1" else f"({each[0]})"


def libraries(of: Subject) -> Iterator[Change]:
    """NumPy on the host, or Numba on the CPU, in place of a kernel."""
    marks = [f"@{unparse(mark)}\n" for mark in of.whole.decorator_list]
    if not any("cuda." in mark for mark in marks):
        return
    name = of.whole.name
    if len(of.tree.body) == 1:
        yield of.text.replace(marks[-1], "", 1)
    yield of.text.replace(f"{marks[-1]}def {name}", f"@numba.njit\ndef {name}")
    if "vectorize" in marks[0]:
        yield of.text.replace("cuda.vectorize", "numba.vectorize")


#: The kind of an answer is the name of what makes it.
OPERATORS = (guards, clamped_indices, barriers, edits.indices, strides, who, libraries)
