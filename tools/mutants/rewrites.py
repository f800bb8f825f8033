"""Rewrites of a solution that are as right as it is: each must pass."""

from __future__ import annotations

import ast
import re
import textwrap
from ast import unparse
from collections.abc import Iterator

import numpy as np

from tools.mutants.kernels import together
from tools.mutants.subjects import Change, Subject, indented, suite

FLIPPED = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: "<", ast.GtE: "<=", ast.Eq: "==", ast.NotEq: "!="}
WRITTEN_OUT = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Div: "/"}


def renamed(of: Subject) -> Iterator[Change]:
    """All local variables have other names, or all parameters."""
    functions = of.nodes(ast.FunctionDef, ast.Lambda)
    inner = {node for function in functions for node in ast.walk(function)}
    bound = {n.arg for n in of.nodes(ast.arg)} | {n.name for n in of.nodes(ast.FunctionDef)}
    stored = [n for n in of.nodes(ast.Name) if isinstance(n.ctx, ast.Store) and n not in inner]
    names = {n.id for n in stored} - bound - set(of.parameters)
    yield [(node, f"{node.id}_1") for node in of.nodes(ast.Name) if node.id in names]
    if len(of.tree.body) == 1:
        names = set(of.parameters) - bound
        uses = [(node, f"{node.id}_1") for node in of.nodes(ast.Name) if node.id in names]
        yield [(n, f"{n.arg}_1") for n in of.whole.args.args if n.arg in names] + uses


def written_out(of: Subject) -> Iterator[Change]:
    """`x = x + y` for `x += y`."""
    edits = []
    for node in of.nodes(ast.AugAssign):
        if sign := WRITTEN_OUT.get(type(node.op)):
            target = unparse(node.target)
            edits.append((node, f"{target} = {target} {sign} ({unparse(node.value)})"))
    yield edits


def commuted(of: Subject) -> Iterator[Change]:
    """Operands of products, or of sums, the other way round."""
    for kind, sign in ((ast.Mult, "*"), (ast.Add, "+")):
        edits = []
        for node in of.nodes(ast.BinOp):
            parts = [*ast.walk(node)]  # lists and texts are concatenated
            other = any(isinstance(p, ast.List | ast.ListComp | ast.JoinedStr) for p in parts)
            other |= any(isinstance(getattr(p, "value", None), str) for p in parts)
            if isinstance(node.op, kind) and not other:
                edits.append((node, f"({unparse(node.right)}) {sign} ({unparse(node.left)})"))
        yield edits


def flipped(of: Subject) -> Iterator[Change]:
    """`n > i` for `i < n`."""
    edits = []
    for node in of.nodes(ast.Compare):
        sign = FLIPPED.get(type(node.ops[0])) if len(node.ops) == 1 else None
        if sign:
            edits.append((node, f"({unparse(node.comparators[0])}) {sign} ({unparse(node.left)})"))
    yield edits


def inverted(of: Subject) -> Iterator[Change]:
    """`if not a: y else: x` for `if a: x else: y`."""
    for node in of.nodes(ast.If):
        if node.orelse:
            then, other = indented(suite(node.body)), indented(suite(node.orelse))
            yield node, f"if not ({unparse(node.test)}):\n{other}\nelse:\n{then}"
    yield [
        (n, f"{unparse(n.orelse)} if not ({unparse(n.test)}) else {unparse(n.body)}")
        for n in of.nodes(ast.IfExp)
    ]


def while_loops(of: Subject) -> Iterator[Change]:
    """A `while` for each innermost `for` over a range."""
    edits = []
    for node in of.nodes(ast.For):
        loops = [n for n in ast.walk(node) if isinstance(n, ast.For | ast.Continue)]
        counted = isinstance(node.iter, ast.Call) and unparse(node.iter.func) == "range"
        if len(loops) == 1 and isinstance(node.target, ast.Name) and counted:
            given = [unparse(argument) for argument in node.iter.args]
            start, stop, step = [*["0"] * (len(given) == 1), *given, "1"][:3]
            name = node.target.id
            body = indented(f"{suite(node.body)}\n{name} += {step}")
            edits.append((node, f"{name} = {start}\nwhile {name} < {stop}:\n{body}"))
    yield edits


def guards(of: Subject) -> Iterator[Change]:
    """`return` in place of a guard round all that is left, and an `if` within an `if` for `and`."""
    last = of.whole.body[-1]
    if of.is_kernel and isinstance(last, ast.If) and not last.orelse:
        yield last, f"if not ({unparse(last.test)}):\n    return\n{suite(last.body)}"
    for node in of.nodes(ast.If):
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And):
            if not node.orelse:
                first, *others = map(unparse, node.test.values)
                inner = f"if {' and '.join(others)}:\n{indented(suite(node.body))}"
                yield node, f"if {first}:\n{indented(inner)}"


def temporaries(of: Subject) -> Iterator[Change]:
    """What is returned or stored has a name first."""
    edits = []
    for node in of.nodes(ast.Return, ast.Assign):
        if node.value is None or isinstance(node.value, ast.Tuple | ast.Constant):
            continue
        if isinstance(node, ast.Return):
            edits.append((node, f"result = {unparse(node.value)}\nreturn result"))
        elif isinstance(node.targets[0], ast.Subscript):
            new = f"value_here = {unparse(node.value)}\n{unparse(node.targets[0])} = value_here"
            edits.append((node, new))
    yield edits


def mappings(of: Subject) -> Iterator[Change]:
    """The last thread takes the first element; a grid-stride loop in place of a guard."""
    if not of.is_kernel or together(of) or re.search("Idx|normal", of.text):
        return
    axes = {"cuda.grid(1)": ("cuda.gridsize(1) - 1 - cuda.grid(1)",)}
    axes["cuda.grid(2)"] = tuple(f"cuda.gridsize(2)[{n}] - 1 - cuda.grid(2)[{n}]" for n in (0, 1))
    calls = of.nodes(ast.Call)
    yield [(node, ", ".join(axes[unparse(node)])) for node in calls if unparse(node) in axes]
    first, *guards = of.whole.body
    if unparse(first) == "i = cuda.grid(1)" and len(guards) == 1 and isinstance(guards[0], ast.If):
        test = re.fullmatch(r"i < (.*)", unparse(guards[0].test))
        if test and not guards[0].orelse:
            loop = f"for i in range(cuda.grid(1), {test[1]}, cuda.gridsize(1)):\n"
            yield of.with_body(loop + indented(suite(guards[0].body)))


def device_functions(of: Subject) -> Iterator[Change]:
    """What is stored last is computed by a device function."""
    if not of.is_kernel:
        return
    stores = [
        node.value
        for node in of.nodes(ast.Assign)
        if isinstance(node.targets[0], ast.Subscript) and isinstance(node.value, ast.BinOp)
    ]
    for value in stores[-1:]:
        names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
        given = ", ".join(sorted(names & (of.stored | set(of.parameters))))
        above = f"@cuda.jit(device=True)\ndef computed({given}):\n    return {unparse(value)}\n"
        yield above + of.edited([(value, f"computed({given})")])


#: Types that are converted, into what, and what a tuple becomes.
CONVERSIONS = (
    ("(int, float)", "np.asarray(value)[()]", "tuple"),
    ("(np.integer, np.floating)", "value.item()", "tuple"),
    ("()", "value", "list"),
    ("int", "Fraction(value)", "tuple"),
)
CONVERTED = """
from fractions import Fraction

def converted(value):
    if isinstance(value, {}) and not isinstance(value, bool):
        return {}
    return {}(map(converted, value)) if isinstance(value, tuple) else value
"""


def conversions(of: Subject) -> Iterator[Change]:
    """Numbers of another type, lists for tuples."""
    if of.is_kernel or of.whole.decorator_list or not of.parameters:
        return
    # a grid, an index or a count for a judge is a whole number
    for conversion in CONVERSIONS if of.exercise.reference is not None else CONVERSIONS[:-1]:
        yield of.wrapped("converted(value)", CONVERTED.format(*conversion))


def loops(of: Subject) -> Iterator[Change]:
    """A loop that appends for a list comprehension."""
    for node in of.nodes(ast.Assign, ast.Return):
        if isinstance(node.value, ast.ListComp) and len(node.value.generators) == 1:
            each = node.value.generators[0]
            tests = " and ".join(f"({unparse(test)})" for test in each.ifs) or "True"
            target = f"{unparse(node.targets[0])} =" if isinstance(node, ast.Assign) else "return"
            new = f"""
            made = []
            for {unparse(each.target)} in {unparse(each.iter)}:
                if {tests}:
                    made.append({unparse(node.value.elt)})
            {target} made"""
            yield node, textwrap.dedent(new).strip()


def copies(of: Subject) -> Iterator[Change]:
    """The function works on copies of what it is given."""
    if not of.is_kernel and not of.whole.decorator_list and of.exercise.caller is None:
        copied = [n for n, value in of.given.items() if type(value) in (np.ndarray, list)]
        yield of.before_all("\n".join(f"{name} = {name}.copy()" for name in copied))


#: The kind of an answer is the name of what makes it.
OPERATORS = (
    renamed, written_out, commuted, flipped, inverted, while_loops, guards, temporaries,
    mappings, device_functions, conversions, loops, copies,
)  # fmt: skip
