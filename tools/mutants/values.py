"""Mutants of what is computed: arguments frozen, types, roundings, and one place changed."""

from __future__ import annotations

import ast
from ast import unparse
from collections.abc import Iterator

import numpy as np

from course.checks import edits
from tools.mutants.subjects import Change, Subject, is_sized, literal

COMPUTED = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+ /", ast.Div: "* //", ast.FloorDiv: "% /",
    ast.Mod: "*", ast.RShift: "*", ast.LShift: "/", ast.BitAnd: "|", ast.BitOr: "&",
    ast.BitXor: "|", ast.Pow: "*", ast.MatMult: "*",
}  # fmt: skip
#: Calls that leave a number much as it is: one is easily forgotten.
PLAIN = "abs fabs sorted set int float round ceil floor sqrt exp log log10 unique list copy".split()
PLAIN += ["ascontiguousarray", "reversed", "cumsum", "ravel"]


def frozen_arguments(of: Subject) -> Iterator[Change]:
    """An argument's value of the first case, whatever is given."""
    others = [of.arguments(number) for number in range(1, len(of.exercise.cases))]
    for name, value in of.given.items():
        text = literal(value, of.is_kernel)
        if text is not None and any(repr(value) != repr(other[name]) for other in others):
            yield of.before_all(f"{name} = {text}")


def frozen_sizes(of: Subject) -> Iterator[Change]:
    """The first case's size of an array, whatever is given."""
    sizes: dict[str, int] = {}
    for name, value in of.given.items():
        if is_sized(value) and name not in of.stored:
            sizes[f"len({name})"] = len(value)
        if isinstance(value, np.ndarray) and name not in of.stored:
            sizes[f"{name}.size"] = value.size
            sizes |= {f"{name}.shape[{axis}]": size for axis, size in enumerate(value.shape)}
    for node in of.nodes(ast.Attribute, ast.Subscript, ast.Call):
        if unparse(node) in sizes:
            yield node, str(sizes[unparse(node)])


def limited_arguments(of: Subject) -> Iterator[Change]:
    """No argument beyond what the listed cases have."""
    listed = [n for n, case in enumerate(of.exercise.cases) if case.seed is None]
    values = [of.arguments(number) for number in listed]
    for name in of.parameters:
        given = [value[name] for value in values]
        if all(type(value) in (int, float) for value in given) and len(set(given)) > 1:
            yield of.before_all(f"{name} = min({name}, {max(given)!r})")
            yield of.before_all(f"{name} = max({name}, {min(given)!r})")
        elif not of.is_kernel and all(map(is_sized, given)) and not isinstance(given[0], dict):
            yield of.before_all(f"{name} = {name}[:{max(map(len, given))}]")


def roundings(of: Subject) -> Iterator[Change]:
    """One rounding more: to float16, or to a whole number."""
    half = "float32(float16({}))" if of.is_kernel else "np.float64(np.float16({}))"
    whole = "float32(int({}))" if of.is_kernel else "np.trunc({})"
    places = [node.slice for node in of.nodes(ast.Subscript)]
    places += [node.iter for node in of.nodes(ast.For)] + of.nodes(ast.Compare)
    indices = {unparse(part) for place in places for part in ast.walk(place)}
    for node in of.nodes(ast.Return, ast.Assign, ast.AugAssign):
        targets = [getattr(node, "target", None), *getattr(node, "targets", [None])]
        if of.is_kernel and any(unparse(each) in indices for each in filter(None, targets)):
            continue
        for part in node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]:
            if isinstance(part, ast.BinOp | ast.Call | ast.Name | ast.Subscript | ast.Attribute):
                yield part, half.format(unparse(part))
                yield part, whole.format(unparse(part))


def types(of: Subject) -> Iterator[Change]:
    """A wider or narrower type."""
    yield from edits.types(of)
    for name, value in of.given.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not of.is_kernel:
            narrow = "float32" if value.dtype == np.float64 else "float16"
            yield of.before_all(f"{name} = {name}.astype(np.{narrow}).astype({name}.dtype)")
            for node in of.nodes(ast.Return):
                if isinstance(node.value, ast.BinOp | ast.Call | ast.Name):
                    yield node.value, f"np.{narrow}({unparse(node.value)})"


def running_values(of: Subject) -> Iterator[Change]:
    """A sum or a running value that forgets what was before."""
    for node in of.nodes(ast.AugAssign):
        yield node, f"{unparse(node.target)} = {unparse(node.value)}"
    for node in of.nodes(ast.Assign):
        names = {unparse(target) for target in node.targets}
        for part in ast.walk(node.value):
            above = of.parents[part]
            if unparse(part) in names and isinstance(above, ast.BinOp):
                yield above, unparse(above.right if above.left is part else above.left)


def arithmetic(of: Subject) -> Iterator[Change]:
    """Another operation, or a sign lost."""
    for node in of.nodes(ast.BinOp):
        for sign in COMPUTED[type(node.op)].split():
            yield node, f"({unparse(node.left)}) {sign} ({unparse(node.right)})"
    for node in of.nodes(ast.UnaryOp):
        if not isinstance(node.operand, ast.Constant):
            yield node, unparse(node.operand)
    for node in of.nodes(ast.AugAssign):
        for sign in COMPUTED[type(node.op)].split():
            yield node, f"{unparse(node.target)} {sign}= {unparse(node.value)}"


def calls(of: Subject) -> Iterator[Change]:
    """A call that is forgotten."""
    for node in of.nodes(ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else unparse(node.func)
        if name in PLAIN and node.args:
            yield node, unparse(node.args[0])
        elif name in PLAIN and isinstance(node.func, ast.Attribute):
            yield node, unparse(node.func.value)


#: The kind of an answer is the name of what makes it.
OPERATORS = (
    frozen_arguments, frozen_sizes, limited_arguments, edits.constants, edits.words, edits.extremes,
    running_values, edits.terms, edits.axes, roundings, types, edits.comparisons,
    arithmetic, calls, edits.ranges, edits.statements,
)  # fmt: skip
