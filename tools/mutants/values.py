"""Mutants of what is computed: numbers, comparisons, sums, axes, roundings, types, statements."""

from __future__ import annotations

import ast
from ast import unparse
from collections.abc import Iterator

import numpy as np

from tools.mutants.subjects import Change, Subject, literal, suite

COMPARED = {
    ast.Lt: ("<=", ">"), ast.LtE: ("<", ">="), ast.Gt: (">=", "<"), ast.GtE: (">", "<="),
    ast.Eq: ("!=",), ast.NotEq: ("==",), ast.In: ("not in",), ast.NotIn: ("in",),
    ast.Is: ("is not",), ast.IsNot: ("is",),
}  # fmt: skip
COMPUTED = {
    ast.Add: ("-",), ast.Sub: ("+",), ast.Mult: ("+", "/"), ast.Div: ("*",), ast.FloorDiv: ("%",),
    ast.Mod: ("//",), ast.RShift: ("<<",), ast.LShift: (">>",), ast.BitAnd: ("|",),
    ast.BitOr: ("&",), ast.BitXor: ("|",), ast.Pow: ("*",), ast.MatMult: ("*",),
}  # fmt: skip
#: Calls that leave a number much as it is: one is easily forgotten.
PLAIN = {
    "abs", "fabs", "sorted", "set", "int", "float", "round", "ceil", "floor", "sqrt", "exp", "log",
    "log10", "unique", "ascontiguousarray", "copy", "list", "reversed", "cumsum", "ravel",
}  # fmt: skip
LARGEST = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum",
           "argmax": "argmin", "argmin": "argmax", "amax": "amin", "median": "mean",
           "mean": "median", "sum": "max"}  # fmt: skip


def frozen_arguments(of: Subject) -> Iterator[Change]:
    """An argument's value of the first case, whatever is given."""
    for name, value in of.given.items():
        text = literal(value, of.is_kernel)
        if text is not None and any(_differs(value, of.arguments(n)[name]) for n in _others(of)):
            yield before_all(of, f"{name} = {text}")


def _others(of: Subject) -> range:
    return range(1, len(of.exercise.cases))


def _differs(value: object, other: object) -> bool:
    return type(value) is not type(other) or value != other


def before_all(of: Subject, text: str) -> Change:
    """The statement before all others of the function."""
    first = of.whole.body[0]
    return (first, f"{text}\n{unparse(first)}")


def frozen_sizes(of: Subject) -> Iterator[Change]:
    """The first case's size of an array, whatever is given."""
    for node in of.nodes(ast.Attribute, ast.Subscript, ast.Call):
        text = unparse(node)
        array = text.partition(".")[0].removeprefix("len(").removesuffix(")")
        value = of.given.get(array)
        if not hasattr(value, "__len__") or array in of.stored:
            continue
        if text == f"len({array})":
            yield node, str(len(value))
        elif isinstance(value, np.ndarray) and text == f"{array}.size":
            yield node, str(value.size)
        elif isinstance(value, np.ndarray) and text.startswith(f"{array}.shape["):
            axis = getattr(node.slice, "value", None) if isinstance(node, ast.Subscript) else None
            if isinstance(axis, int) and axis < value.ndim:
                yield node, str(value.shape[axis])


def limited_arguments(of: Subject) -> Iterator[Change]:
    """No argument beyond what the listed cases have."""
    listed = [n for n, case in enumerate(of.exercise.cases) if case.seed is None]
    values = [of.arguments(number) for number in listed]
    for name in of.parameters:
        given = [value[name] for value in values]
        if all(type(value) in (int, float) for value in given) and len(set(given)) > 1:
            if not of.is_kernel or name not in of.stored:
                yield before_all(of, f"{name} = min({name}, {max(given)!r})")
                yield before_all(of, f"{name} = max({name}, {min(given)!r})")
        elif not of.is_kernel and all(isinstance(v, np.ndarray) and v.ndim for v in given):
            yield before_all(of, f"{name} = {name}[:{max(len(value) for value in given)}]")
        elif not of.is_kernel and all(isinstance(v, list) for v in given):
            yield before_all(of, f"{name} = {name}[:{max(map(len, given))}]")


def constants(of: Subject) -> Iterator[Change]:
    """A literal's neighbours, and those of a number that the lesson defines above."""
    for node in of.nodes(ast.Constant, ast.Name):
        if _is_place(of, node):
            continue
        value = node.value if isinstance(node, ast.Constant) else None
        if type(value) is int:
            yield node, str(value + 1)
            yield node, str(value - 1)
        elif type(value) is float:
            yield node, repr(value * 1.1)
            yield node, repr(value * 0.9 if value else 1.0)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id in of.numbers and node.id not in of.stored:
                whole = isinstance(of.numbers[node.id], int)
                yield node, f"{node.id} + 1" if whole else f"1.1 * {node.id}"
                yield node, f"{node.id} - 1" if whole else f"0.9 * {node.id}"


def _is_place(of: Subject, node: ast.AST) -> bool:
    """Whether a number is a size that must be constant, an axis or what Numba must know."""
    for above in of.above(node):
        if isinstance(above, ast.Call):
            called = unparse(above.func)
            return called in ("cuda.grid", "cuda.gridsize") or called.endswith((".array",))
        if isinstance(above, ast.Subscript):
            return unparse(above.value).endswith(("shape", "strides"))
        if isinstance(above, ast.stmt):
            return False
    return False


def words(of: Subject) -> Iterator[Change]:
    """Another of the solution's own words."""
    nodes = [node for node in of.nodes(ast.Constant) if isinstance(node.value, str)]
    known = list(dict.fromkeys(node.value for node in nodes))
    for node in nodes:
        if len(known) > 1 and not isinstance(of.parents[node], ast.JoinedStr):
            other = known[(known.index(node.value) + 1) % len(known)]
            yield node, repr(other)


def extremes(of: Subject) -> Iterator[Change]:
    """The first, last, mean or other end in place of the largest or smallest."""
    for node in of.nodes(ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else unparse(node.func)
        if name not in LARGEST or name in of.stored:
            continue
        called = unparse(node)
        yield node.func, _other_name(node.func, name)
        given = [unparse(argument) for argument in node.args]
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            continue
        if len(given) == 2 and not node.keywords and name in ("max", "min", "maximum", "minimum"):
            yield node, given[0]
            yield node, given[1]
            yield node, f"({given[0]} + {given[1]}) / 2"
        elif of.is_kernel:
            continue
        elif len(given) == 1 and isinstance(node.func, ast.Name):
            yield node, f"list({given[0]})[0]"
            yield node, f"list({given[0]})[-1]"
        elif name in ("argmax", "argmin"):
            yield node, "0"
        else:
            values = given[0] if given else unparse(node.func.value)
            yield node, f"np.ravel({values})[0]"
            yield node, f"np.ravel({values})[-1]"
            if name != "mean":
                yield node, called.replace(name, "mean", 1)


def _other_name(node: ast.expr, name: str) -> str:
    return LARGEST[name] if isinstance(node, ast.Name) else f"{unparse(node.value)}.{LARGEST[name]}"


def running_values(of: Subject) -> Iterator[Change]:
    """A sum or a running value that forgets what was before, or is not changed at all."""
    for node in of.nodes(ast.AugAssign):
        yield node, f"{unparse(node.target)} = {unparse(node.value)}"
    for node in of.nodes(ast.Assign):
        names = {unparse(target) for target in node.targets}
        for part in ast.walk(node.value):
            if (
                unparse(part) in names
                and isinstance(part, ast.Name)
                and isinstance(of.parents[part], ast.BinOp)
            ):
                above = of.parents[part]
                other = above.right if above.left is part else above.left
                yield above, unparse(other)


def terms(of: Subject) -> Iterator[Change]:
    """One side of an operation, without the other."""
    for node in of.nodes(ast.BinOp):
        if not _is_place(of, node):
            yield node, unparse(node.left)
            yield node, unparse(node.right)


def axes(of: Subject) -> Iterator[Change]:
    """Rows for columns: an axis, a pair of indices, a transposed operand, two names swapped."""
    for node in of.nodes(ast.keyword):
        if node.arg == "axis" and isinstance(node.value, ast.Constant):
            yield node.value, str(1 - abs(node.value.value))
    for node in of.nodes(ast.Subscript):
        if unparse(node.value).endswith(".shape") and isinstance(node.slice, ast.Constant):
            array = of.given.get(unparse(node.value).partition(".")[0])
            dimensions = getattr(array, "ndim", 2)
            if dimensions > 1:
                yield node.slice, str((node.slice.value + 1) % dimensions)
        if isinstance(node.slice, ast.Tuple) and len(node.slice.elts) > 1:
            first, second, *more = map(unparse, node.slice.elts)
            swapped = ", ".join([second, first, *more])
            yield node, f"{unparse(node.value)}[{swapped}]"
    for node in of.nodes(ast.Attribute):
        if node.attr == "T":
            yield node, unparse(node.value)
    for node in of.nodes(ast.BinOp):
        if isinstance(node.op, ast.MatMult):
            yield node, f"{unparse(node.right)} @ {unparse(node.left)}"
    for node in of.nodes(ast.Tuple):
        if len(node.elts) == 2 and not isinstance(of.parents[node], ast.Subscript | ast.For):
            first, second = map(unparse, node.elts)
            yield node, f"{second}, {first}"


def roundings(of: Subject) -> Iterator[Change]:
    """One rounding more: to float16, or to a whole number."""
    half = "float32(float16({}))" if of.is_kernel else "np.float64(np.float16({}))"
    for node in _results(of):
        whole = "float32(int({}))" if of.is_kernel else "np.trunc({})"
        yield node, half.format(unparse(node))
        yield node, whole.format(unparse(node))


def _results(of: Subject) -> Iterator[ast.expr]:
    """What is stored in an element, added up or returned: of several values each."""
    for node in of.nodes(ast.Return, ast.Assign, ast.AugAssign):
        value = node.value
        if value is None or isinstance(value, ast.Constant | ast.List | ast.Dict | ast.Set):
            continue
        for part in value.elts if isinstance(value, ast.Tuple) else [value]:
            text = unparse(part)
            if not text.startswith("cuda.") and not isinstance(
                part, ast.Compare | ast.Dict | ast.List | ast.ListComp | ast.Starred | ast.Tuple
            ):
                yield part


def types(of: Subject) -> Iterator[Change]:
    """A wider or narrower type."""
    other = {"float32": "float64", "float64": "float16" if of.is_kernel else "float32",
             "uint32": "int32", "uint64": "uint32", "uint16": "int16"}  # fmt: skip
    for node in of.nodes(ast.Name, ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in other:
            module = f"{unparse(node.value)}." if isinstance(node, ast.Attribute) else ""
            if not module or module == "np.":
                yield node, module + other[name]
    if of.is_kernel:
        return
    for name, value in of.given.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            yield before_all(of, f"{name} = {name}.astype(np.float16).astype({name}.dtype)")


def comparisons(of: Subject) -> Iterator[Change]:
    """Another comparison, `and` for `or`, a condition that always holds, or never."""
    for node in of.nodes(ast.Compare):
        sides = [unparse(side) for side in (node.left, *node.comparators)]
        for place, old in enumerate(node.ops):
            for new in COMPARED.get(type(old), ()):
                signs = [_sign(each) for each in node.ops]
                signs[place] = new
                pairs = zip(signs, sides[1:], strict=True)
                yield node, sides[0] + "".join(f" {s} {side}" for s, side in pairs)
    for node in of.nodes(ast.BoolOp):
        parts = [f"({unparse(value)})" for value in node.values]
        joined = " or " if isinstance(node.op, ast.And) else " and "
        yield node, joined.join(parts)
        for place in range(len(parts)):
            left = parts[:place] + parts[place + 1 :]
            yield node, joined.join(left)
    for node in of.nodes(ast.If, ast.IfExp):
        yield node.test, "True"
        yield node.test, "False"


def _sign(operator: ast.cmpop) -> str:
    return unparse(ast.Compare(ast.Name("a"), [operator], [ast.Name("b")]))[2:-2]


def arithmetic(of: Subject) -> Iterator[Change]:
    """Another operation, or a sign lost."""
    for node in of.nodes(ast.BinOp):
        for sign in COMPUTED[type(node.op)]:
            yield node, f"({unparse(node.left)}) {sign} ({unparse(node.right)})"
    for node in of.nodes(ast.UnaryOp):
        if not isinstance(node.operand, ast.Constant):
            yield node, unparse(node.operand)
    signs = {ast.Add: "-=", ast.Sub: "+=", ast.Mult: "/=", ast.FloorDiv: "-=", ast.Div: "*="}
    for node in of.nodes(ast.AugAssign):
        if type(node.op) in signs:
            new = f"{unparse(node.target)} {signs[type(node.op)]} {unparse(node.value)}"
            yield node, new


def calls(of: Subject) -> Iterator[Change]:
    """A call that is forgotten."""
    for node in of.nodes(ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else unparse(node.func)
        if name not in PLAIN:
            continue
        if node.args:
            yield node, unparse(node.args[0])
        elif isinstance(node.func, ast.Attribute):
            yield node, unparse(node.func.value)


def ranges(of: Subject) -> Iterator[Change]:
    """A loop or a slice that begins one late, or ends one early or late."""
    for node in of.nodes(ast.Call):
        if unparse(node.func) != "range" or any(isinstance(a, ast.Starred) for a in node.args):
            continue
        given = [unparse(argument) for argument in node.args]
        start, stop, *step = given if len(given) > 1 else ["0", *given]
        for first, last in ((f"{start} + 1", stop), (start, f"{stop} - 1"), (start, f"{stop} + 1")):
            yield node, f"range({', '.join([first, last, *step])})"
    for node in of.nodes(ast.Slice):
        for bound in filter(None, (node.lower, node.upper)):
            yield bound, f"{unparse(bound)} + 1"
            yield bound, f"{unparse(bound)} - 1"


def statements(of: Subject) -> Iterator[Change]:
    """A statement that is forgotten."""
    for node in of.nodes(ast.Assign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.While, ast.Try):
        if not unparse(node).startswith(("cuda.sync",)):
            yield node, "pass"
        if isinstance(node, ast.If) and node.orelse:
            yield node, suite(node.orelse)


#: Operators by the kind of mutant that they make.
OPERATORS = {
    "frozen argument": frozen_arguments,
    "frozen size": frozen_sizes,
    "limited": limited_arguments,
    "constant": constants,
    "word": words,
    "extreme": extremes,
    "running value": running_values,
    "term": terms,
    "axis": axes,
    "rounding": roundings,
    "type": types,
    "comparison": comparisons,
    "arithmetic": arithmetic,
    "call": calls,
    "range": ranges,
    "statement": statements,
}
