"""Mutants of what is computed: numbers, comparisons, sums, axes, roundings, types, statements."""

from __future__ import annotations

import ast
from ast import unparse
from collections.abc import Iterator

import numpy as np

from tools.mutants.subjects import Change, Subject, is_sized, literal, suite

COMPARED = {
    "<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",),
    "!=": ("==",), "in": ("not in",), "not in": ("in",), "is": ("is not",), "is not": ("is",),
}  # fmt: skip
COMPUTED = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+ /", ast.Div: "* //", ast.FloorDiv: "% /",
    ast.Mod: "*", ast.RShift: "*", ast.LShift: "/", ast.BitAnd: "|", ast.BitOr: "&",
    ast.BitXor: "|", ast.Pow: "*", ast.MatMult: "*",
}  # fmt: skip
#: Calls that leave a number much as it is: one is easily forgotten.
PLAIN = "abs fabs sorted set int float round ceil floor sqrt exp log log10 unique list copy".split()
PLAIN += ["ascontiguousarray", "reversed", "cumsum", "ravel"]
OTHER_END = {
    "max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "argmax": "argmin",
    "argmin": "argmax", "median": "mean", "mean": "median", "sum": "max",
}  # fmt: skip
OTHER_TYPE = {"float32": "float64", "float64": "float32", "uint32": "int32", "uint64": "uint32"}


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


def constants(of: Subject) -> Iterator[Change]:
    """A literal's neighbours, and those of a number that the lesson defines above."""
    for node in of.nodes(ast.Constant, ast.Name):
        value, text = getattr(node, "value", None), unparse(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and text not in of.stored:
            value = of.numbers.get(text)
        if _must_be_constant(of, node) or type(value) not in (int, float, np.float32):
            continue
        others = ("{} + 1", "{} - 1") if isinstance(value, int) else ("{} * 1.1", "{} * 0.9")
        if type(value) is int and value > 8 and not of.is_kernel:
            others = (*others, "{} + 2")
        elif not isinstance(value, int) and (value == 0 or abs(value) > 1e30):  # where maxima begin
            others = ("float32(-1000)", "float32(1)") if of.is_kernel else ("-1000.0", "1.0")
        for other in others:
            yield node, other.format(text)


def _must_be_constant(of: Subject, node: ast.AST) -> bool:
    """Whether a number is the size of an array, an axis, or in what Numba must know."""
    while not isinstance(node, ast.stmt | ast.Call | ast.Subscript):
        node = of.parents[node]
    if isinstance(node, ast.Call):
        return unparse(node.func).endswith((".grid", ".gridsize", ".array"))
    return isinstance(node, ast.Subscript) and unparse(node.value).endswith(("shape", "strides"))


def words(of: Subject) -> Iterator[Change]:
    """Another of the solution's own words."""
    nodes = [node for node in of.nodes(ast.Constant) if isinstance(node.value, str)]
    known = list(dict.fromkeys(node.value for node in nodes))
    for node in nodes:
        yield node, repr(known[(known.index(node.value) + 1) % len(known)])


def extremes(of: Subject) -> Iterator[Change]:
    """The first, last, mean or other end in place of the largest or smallest."""
    for node in of.nodes(ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else unparse(node.func)
        if name not in OTHER_END or any(isinstance(each, ast.Starred) for each in node.args):
            continue
        yield node, unparse(node)[::-1].replace(name[::-1], OTHER_END[name][::-1], 1)[::-1]
        given = [unparse(argument) for argument in node.args]
        if len(given) == 2 and not node.keywords:
            for other in (*given, f"({given[0]} + {given[1]}) / 2"):
                yield node, other
        elif len(given) == 1 and isinstance(node.func, ast.Name):
            yield node, f"list({given[0]})[0]"
            yield node, f"list({given[0]})[-1]"
        elif not of.is_kernel:
            values = f"np.ravel({given[0] if given else unparse(node.func.value)})"
            for other in (f"{values}[0]", f"{values}[-1]", f"{values}.mean()"):
                yield node, other if not name.startswith("arg") else "0"


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


def terms(of: Subject) -> Iterator[Change]:
    """One side of an operation, without the other."""
    for node in of.nodes(ast.BinOp):
        if not _must_be_constant(of, node):
            yield node, unparse(node.left)
            yield node, unparse(node.right)


def axes(of: Subject) -> Iterator[Change]:
    """Rows for columns: an axis, a pair of indices, a transposed operand, two names swapped."""
    for node in of.nodes(ast.keyword):
        if node.arg == "axis" and isinstance(node.value, ast.Constant):
            yield node.value, str(1 - abs(node.value.value))
    for node in of.nodes(ast.Call):
        if getattr(node.func, "attr", "") in OTHER_END and not node.keywords and not of.is_kernel:
            yield node, f"{unparse(node)[:-1]}{', ' if node.args else ''}axis=0)"
    for node in of.nodes(ast.Subscript):
        if unparse(node.value).endswith(".shape") and isinstance(node.slice, ast.Constant):
            array = of.given.get(unparse(node.value).partition(".")[0])
            if getattr(array, "ndim", 2) > 1:
                yield node.slice, str((node.slice.value + 1) % getattr(array, "ndim", 2))
        if isinstance(node.slice, ast.Tuple) and len(node.slice.elts) > 1:
            first, second, *more = map(unparse, node.slice.elts)
            yield node, f"{unparse(node.value)}[{', '.join([second, first, *more])}]"
    for node in of.nodes(ast.Attribute):
        if node.attr == "T":
            yield node, unparse(node.value)
    for node in of.nodes(ast.BinOp):
        if isinstance(node.op, ast.MatMult):
            yield node, f"{unparse(node.right)} @ {unparse(node.left)}"
    for node in of.nodes(ast.Tuple):
        if len(node.elts) > 1 and not isinstance(of.parents[node], ast.Subscript | ast.For):
            first, second, *more = map(unparse, node.elts)
            yield node, ", ".join([second, first, *more])


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
    for node in of.nodes(ast.Name, ast.Attribute):
        module, _, name = unparse(node).rpartition(".")
        if name in OTHER_TYPE and module in ("", "np"):
            yield node, unparse(node).replace(name, OTHER_TYPE[name])
    for name, value in of.given.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not of.is_kernel:
            narrow = "float32" if value.dtype == np.float64 else "float16"
            yield of.before_all(f"{name} = {name}.astype(np.{narrow}).astype({name}.dtype)")
            for node in of.nodes(ast.Return):
                if isinstance(node.value, ast.BinOp | ast.Call | ast.Name):
                    yield node.value, f"np.{narrow}({unparse(node.value)})"


def comparisons(of: Subject) -> Iterator[Change]:
    """Another comparison, `and` for `or`, a condition that always holds, or never."""
    for node in of.nodes(ast.Compare):
        sides = [f"({unparse(side)})" for side in (node.left, *node.comparators)]
        signs = [
            unparse(ast.Compare(ast.Name("a"), [op], [ast.Name("b")]))[2:-2] for op in node.ops
        ]
        for place, sign in enumerate(signs):
            for new in COMPARED[sign]:
                others = [*signs[:place], new, *signs[place + 1 :], ""]
                yield node, " ".join(f"{a} {b}" for a, b in zip(sides, others, strict=True))
    for node in of.nodes(ast.BoolOp):
        parts = [f"({unparse(value)})" for value in node.values]
        yield node, (" or " if isinstance(node.op, ast.And) else " and ").join(parts)
        for part in node.values:
            yield part, str(isinstance(node.op, ast.And))
    for node in of.nodes(ast.If, ast.IfExp):
        yield node.test, "True"
        yield node.test, "False"


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


def ranges(of: Subject) -> Iterator[Change]:
    """A loop or a slice that begins one late, or ends one early or late."""
    for node in of.nodes(ast.Call):
        if unparse(node.func) == "range":
            given = [unparse(argument) for argument in node.args]
            start, stop, *step = given if len(given) > 1 else ["0", *given]
            for ends in ((f"{start} + 1", stop), (start, f"{stop} - 1"), (start, f"{stop} + 1")):
                yield node, f"range({', '.join([*ends, *step])})"
    for node in of.nodes(ast.Slice):
        for bound in filter(None, (node.lower, node.upper)):
            yield bound, f"{unparse(bound)} + 1"
            yield bound, f"{unparse(bound)} - 1"


def statements(of: Subject) -> Iterator[Change]:
    """A statement that is forgotten."""
    for node in of.nodes(ast.Assign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.While, ast.Try):
        if not unparse(node).startswith("cuda.sync"):
            yield node, "pass"
        if isinstance(node, ast.If) and node.orelse:
            yield node, suite(node.orelse)


#: The kind of an answer is the name of what makes it.
OPERATORS = (
    frozen_arguments, frozen_sizes, limited_arguments, constants, words, extremes,
    running_values, terms, axes, roundings, types, comparisons, arithmetic, calls, ranges,
    statements,
)  # fmt: skip
