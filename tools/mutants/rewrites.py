"""Rewrites of a solution that are as right as it is: each must pass."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from ast import unparse
from collections.abc import Iterator

from tools.mutants.subjects import Change, Subject, suite
from tools.mutants.wholes import with_body

LISTS = (ast.List, ast.ListComp, ast.JoinedStr)


def renamed(of: Subject) -> Iterator[Change]:
    """All local variables have other names."""
    inner = {
        node for function in of.nodes(ast.FunctionDef, ast.Lambda) for node in ast.walk(function)
    }
    bound = {n.arg for n in of.nodes(ast.arg)} | {n.name for n in of.nodes(ast.FunctionDef)}
    shared = {name for n in of.nodes(ast.Nonlocal, ast.Global) for name in n.names}
    names = {n.id for n in of.nodes(ast.Name) if isinstance(n.ctx, ast.Store) and n not in inner}
    names -= bound | shared | set(of.parameters)
    edits = [(node, f"{node.id}_1") for node in of.nodes(ast.Name) if node.id in names]
    if edits:
        yield edits


def renamed_parameters(of: Subject) -> Iterator[Change]:
    """The parameters have other names; so do all uses."""
    if len(of.tree.body) > 1 or not of.parameters:
        return
    bound = {n.arg for n in of.nodes(ast.arg)}
    names = set(of.parameters) - bound
    arguments = [(node, f"{node.arg}_1") for node in of.whole.args.args if node.arg in names]
    uses = [(node, f"{node.id}_1") for node in of.nodes(ast.Name) if node.id in names]
    yield [*arguments, *uses]


def written_out(of: Subject) -> Iterator[Change]:
    """`x = x + y` for `x += y`."""
    signs = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Div: "/"}
    edits = []
    for node in of.nodes(ast.AugAssign):
        if type(node.op) in signs:
            target = unparse(node.target)
            new = f"{target} = {target} {signs[type(node.op)]} ({unparse(node.value)})"
            edits.append((node, new))
    if edits:
        yield edits


def commuted(of: Subject) -> Iterator[Change]:
    """Operands of sums and products the other way round."""
    for kind in (ast.Mult, ast.Add):
        edits = []
        for node in of.nodes(ast.BinOp):
            within = any(isinstance(above, ast.BinOp) for above in of.above(node))
            if isinstance(node.op, kind) and not within and not _of_lists(node):
                sign = "*" if kind is ast.Mult else "+"
                new = f"({unparse(node.right)}) {sign} ({unparse(node.left)})"
                edits.append((node, new))
        if edits:
            yield edits


def _of_lists(node: ast.BinOp) -> bool:
    """Whether lists or texts may be put together."""
    return any(
        isinstance(part, LISTS) or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in ast.walk(node)
    )


def flipped(of: Subject) -> Iterator[Change]:
    """`n > i` for `i < n`."""
    signs = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: "<", ast.GtE: "<=", ast.Eq: "==", ast.NotEq: "!="}
    edits = [
        (
            node,
            f"({unparse(node.comparators[0])}) {signs[type(node.ops[0])]} ({unparse(node.left)})",
        )
        for node in of.nodes(ast.Compare)
        if len(node.ops) == 1 and type(node.ops[0]) in signs and _outermost(of, node)
    ]
    if edits:
        yield edits


def _outermost(of: Subject, node: ast.AST) -> bool:
    return not any(isinstance(above, ast.Compare | ast.NamedExpr) for above in of.above(node))


def inverted(of: Subject) -> Iterator[Change]:
    """`if not a: y else: x` for `if a: x else: y`."""
    for node in of.nodes(ast.If):
        if node.orelse:
            then, other = (suite(part) for part in (node.body, node.orelse))
            new = f"if not ({unparse(node.test)}):\n{_in(other)}\nelse:\n{_in(then)}"
            yield node, new
    edits = [
        (n, f"{unparse(n.orelse)} if not ({unparse(n.test)}) else {unparse(n.body)}")
        for n in of.nodes(ast.IfExp)
        if not any(isinstance(above, ast.IfExp) for above in of.above(n))
    ]
    if edits:
        yield edits


def _in(text: str) -> str:
    return textwrap.indent(text, "    ")


def while_loops(of: Subject) -> Iterator[Change]:
    """A `while` for each innermost `for` over a range."""
    edits = []
    for node in of.nodes(ast.For):
        loops = [n for n in ast.walk(node) if isinstance(n, ast.For | ast.Continue)]
        if len(loops) > 1 or node.orelse or not isinstance(node.target, ast.Name):
            continue
        if not re.fullmatch(r"range\(.*\)", unparse(node.iter)):
            continue
        given = [unparse(argument) for argument in node.iter.args]
        start, stop, step, *_ = (
            given if len(given) == 3 else [*["0"] * (2 - len(given)), *given, "1"]
        )
        if step.startswith("-"):
            continue
        name, body = unparse(node.target), suite(node.body)
        new = f"{name} = {start}\nwhile {name} < {stop}:\n{_in(body)}\n    {name} += {step}"
        edits.append((node, new))
    if edits:
        yield edits


def early_returns(of: Subject) -> Iterator[Change]:
    """`return` where there is nothing to do, in place of a guard round the last statements."""
    last = of.whole.body[-1]
    if of.is_kernel and isinstance(last, ast.If) and not last.orelse:
        body = suite(last.body)
        yield last, f"if not ({unparse(last.test)}):\n    return\n{body}"


def nested_guards(of: Subject) -> Iterator[Change]:
    """An `if` within an `if` for two conditions joined by `and`."""
    for node in of.nodes(ast.If):
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And):
            if not node.orelse:
                first, *others = map(unparse, node.test.values)
                body = _in(suite(node.body))
                inner = _in(f"if {' and '.join(others)}:\n{body}")
                yield node, f"if {first}:\n{inner}"


def temporaries(of: Subject) -> Iterator[Change]:
    """What is returned or stored has a name first."""
    edits = []
    for node in of.nodes(ast.Return, ast.Assign):
        inner = any(isinstance(above, ast.Lambda) for above in of.above(node))
        if (
            inner
            or node.value is None
            or isinstance(node.value, ast.Tuple | ast.Name | ast.Constant)
        ):
            continue
        if isinstance(node, ast.Return):
            edits.append((node, f"result = {unparse(node.value)}\nreturn result"))
        elif isinstance(node.targets[0], ast.Subscript):
            target = unparse(node.targets[0])
            edits.append((node, f"value_here = {unparse(node.value)}\n{target} = value_here"))
    if edits:
        yield edits


def reversed_threads(of: Subject) -> Iterator[Change]:
    """The last thread takes the first element."""
    if not of.is_kernel or re.search("shared|Idx|warp|sample|normal", of.text):
        return
    edits = []
    for node in of.nodes(ast.Call):
        if unparse(node) == "cuda.grid(1)":
            edits.append((node, "cuda.gridsize(1) - 1 - cuda.grid(1)"))
        elif unparse(node) == "cuda.grid(2)":
            each = (f"cuda.gridsize(2)[{n}] - 1 - cuda.grid(2)[{n}]" for n in range(2))
            edits.append((node, ", ".join(each)))
    if edits:
        yield edits


def grid_strides(of: Subject) -> Iterator[Change]:
    """A grid-stride loop in place of a guard."""
    body = of.whole.body
    if len(body) != 2 or not isinstance(body[1], ast.If) or body[1].orelse:
        return
    test = re.fullmatch(r"i < (.*)", unparse(body[1].test))
    if test and "cuda.grid(1)" in unparse(body[0]) and unparse(body[0]).startswith("i = "):
        inner = _in(suite(body[1].body))
        loop = f"for i in range(cuda.grid(1), {test[1]}, cuda.gridsize(1)):\n{inner}"
        yield with_body(of, loop)


def device_functions(of: Subject) -> Iterator[Change]:
    """What is stored last is computed by a device function."""
    if not of.is_kernel:
        return
    stores = [
        node
        for node in of.nodes(ast.Assign)
        if isinstance(node.targets[0], ast.Subscript) and isinstance(node.value, ast.BinOp)
    ]
    if not stores:
        return
    value = stores[-1].value
    local = of.stored | set(of.parameters)
    names = sorted({n.id for n in ast.walk(value) if isinstance(n, ast.Name)} & local)
    above = f"@cuda.jit(device=True)\ndef computed({', '.join(names)}):\n"
    above += f"    return {unparse(value)}\n"
    yield above + of.edited([(value, f"computed({', '.join(names)})")])


CONVERSIONS = {
    "NumPy's numbers": ("(int, float)", "np.asarray(value)[()]", "tuple"),
    "Python's numbers": ("(np.integer, np.floating)", "value.item()", "tuple"),
    "fractions": ("int", "Fraction(value)", "tuple"),
    "lists": ("()", "value", "list"),
}


def conversions(of: Subject) -> Iterator[Change]:
    """Numbers of another type, lists for tuples."""
    if of.is_kernel or of.whole.decorator_list or not of.parameters:
        return
    for name, (types, new, container) in CONVERSIONS.items():
        if name == "fractions" and of.exercise.reference is None:
            continue  # a grid, an index or a count of a judge is a whole number
        above = textwrap.dedent(
            f"""
            from fractions import Fraction

            def converted(value):
                if isinstance(value, {types}) and not isinstance(value, bool):
                    return {new}
                if isinstance(value, tuple):
                    return {container}(map(converted, value))
                return value
            """
        )
        edits = [
            (node.value, f"converted({unparse(node.value)})")
            for node in of.nodes(ast.Return)
            if node.value is not None
            and of.whole in of.above(node)
            and not any(
                isinstance(a, ast.FunctionDef) and a is not of.whole for a in of.above(node)
            )
        ]
        yield above + of.edited(edits)


def loops(of: Subject) -> Iterator[Change]:
    """A loop that appends for a list comprehension."""
    for node in of.nodes(ast.Assign, ast.Return):
        made = node.value
        if not isinstance(made, ast.ListComp) or len(made.generators) != 1:
            continue
        each = made.generators[0]
        tests = " and ".join(f"({unparse(test)})" for test in each.ifs) or "True"
        lines = [
            "made = []",
            f"for {unparse(each.target)} in {unparse(each.iter)}:",
            f"    if {tests}:",
            f"        made.append({unparse(made.elt)})",
        ]
        target = f"{unparse(node.targets[0])} =" if isinstance(node, ast.Assign) else "return"
        yield node, "\n".join([*lines, f"{target} made"])


def copies(of: Subject) -> Iterator[Change]:
    """The function works on copies of what it is given."""
    if of.is_kernel or of.whole.decorator_list or not of.parameters:
        return
    first = of.whole.body[0]
    lines = [f"{name} = deepcopy({name})" for name in of.parameters if not callable(of.given[name])]
    text = "\n".join([*lines, unparse(first)])
    yield "from copy import deepcopy\n" + of.edited([(first, text)])


def references(of: Subject) -> Iterator[Change]:
    """The reference itself, which computes in another way."""
    reference = of.exercise.reference
    if of.is_kernel or reference is None or of.whole.decorator_list:
        return
    taken = inspect.signature(reference).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
        return
    own = dict(zip(of.exercise.parameters, of.parameters, strict=True))
    given = ", ".join(f"{name}={own[name]}" for name in taken)
    module = inspect.getmodule(reference)
    if module is None or getattr(module, reference.__name__, None) is not reference:
        return
    above = f"from {module.__name__} import {reference.__name__} as the_reference\n"
    yield above + with_body(of, f"return the_reference({given})")


#: Operators by the kind of rewrite that they make.
OPERATORS = {
    "renamed": renamed,
    "renamed parameters": renamed_parameters,
    "written out": written_out,
    "commuted": commuted,
    "flipped": flipped,
    "inverted": inverted,
    "while": while_loops,
    "early return": early_returns,
    "nested guards": nested_guards,
    "temporary": temporaries,
    "reversed threads": reversed_threads,
    "grid stride": grid_strides,
    "device function": device_functions,
    "converted": conversions,
    "loop": loops,
    "copy": copies,
    "reference": references,
}
