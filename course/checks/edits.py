"""A function's text with one place changed: as people write it by mistake, and back.

`tools.mutants` makes wrong answers of a solution by these, `course.checks.repair` right ones of an
answer. An operator yields changes: a node of the tree and the text that stands in its place.
"""

from __future__ import annotations

import ast
import re
from ast import unparse
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

#: A node of a text's tree and what stands in its place.
Edit = tuple[ast.AST, str]


COMPARED = {
    "<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",),
    "!=": ("==",), "in": ("not in",), "not in": ("in",), "is": ("is not",), "is not": ("is",),
}  # fmt: skip
OTHER_END = {
    "max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "argmax": "argmin",
    "argmin": "argmax", "median": "mean", "mean": "median", "sum": "max",
}  # fmt: skip
OTHER_TYPE = {"float32": "float64", "float64": "float32", "uint32": "int32", "uint64": "uint32"}

_INDEX = re.compile(r"cuda\.(threadIdx|blockIdx)\.([xyz])")
OTHER_INDICES = (
    "cuda.threadIdx.x", "cuda.blockIdx.x", "cuda.blockIdx.x + cuda.threadIdx.x",
    "cuda.blockIdx.x * cuda.blockDim.x", "cuda.grid(1) + 1",
)  # fmt: skip


def numbers_in(names: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers among the values of names."""
    return {name: value for name, value in names.items() if type(value) in (int, float, np.float32)}


class Text:
    """Functions as text and as a tree, which stays as it is.

    `name` is that of the one that is checked; others may stand above it.
    """

    def __init__(self, text: str, name: str, is_kernel: bool) -> None:
        self.text, self.is_kernel = text, is_kernel
        self.given: Mapping[str, Any] = {}  # the arguments of a case by its own names
        self.numbers: Mapping[str, Any] = {}  # that are defined outside, by name
        self.tree = ast.parse(text)
        self.whole = next(n for n in self.tree.body if getattr(n, "name", "") == name)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def nodes(self, *kinds: type) -> list[Any]:
        """The nodes of these kinds in the functions' bodies, in the order of the text."""
        return [node for node in self._all_nodes if isinstance(node, kinds)]

    @cached_property
    def _all_nodes(self) -> list[Any]:
        functions = [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]
        bodies = [statement for function in functions for statement in function.body]
        found = {node: None for statement in bodies for node in ast.walk(statement)}
        for text in [node for node in found if isinstance(node, ast.JoinedStr)]:
            for part in ast.walk(text):  # Python 3.11 does not know where they stand
                found.pop(part, None)
        placed = [node for node in found if hasattr(node, "lineno")]
        return sorted(placed, key=lambda node: (node.lineno, node.col_offset))

    @cached_property
    def stored(self) -> set[str]:
        return {n.id for n in self.nodes(ast.Name) if isinstance(n.ctx, ast.Store)}

    def edited(self, edits: Iterable[Edit]) -> str:
        """The text with other texts in the place of some nodes; of two within each other one."""
        text = self.text.encode()
        placed = [(*self._place(node), node, new) for node, new in edits]
        for start, end, node, new in sorted(placed, key=lambda each: -each[0]):
            if any(first <= start and end <= last for first, last, n, _ in placed if n != node):
                continue
            if isinstance(node, ast.stmt):
                new = new.replace("\n", "\n" + " " * node.col_offset)
            elif not isinstance(node, ast.arg):
                new = f"({new})"
            text = text[:start] + new.encode() + text[end:]
        return text.decode()

    def _place(self, node: Any) -> tuple[int, int]:
        lines = [0, *accumulate(map(len, self.text.encode().splitlines(keepends=True)))]
        first, last = lines[node.lineno - 1], lines[node.end_lineno - 1]
        return first + node.col_offset, last + node.end_col_offset


def constants(of: Text) -> Iterator[Edit]:
    """A literal's neighbours, and those of a number that the lesson defines above."""
    for node in of.nodes(ast.Constant, ast.Name):
        value, text = getattr(node, "value", None), unparse(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and text not in of.stored:
            value = of.numbers.get(text)
        if _must_be_constant(of, node) or type(value) not in (int, float, np.float32):
            continue
        others = ("{} + 1", "{} - 1") if isinstance(value, int) else ("{} * 1.1", "{} * 0.9")
        if type(value) is int and isinstance(node, ast.Constant):
            others = (str(value + 1), str(value - 1))
        if type(value) is int and value > 8 and not of.is_kernel:
            others = (*others, "{} + 2")
        elif not isinstance(value, int) and (value == 0 or abs(value) > 1e30):  # where maxima begin
            others = ("float32(-1000)", "float32(1)") if of.is_kernel else ("-1000.0", "1.0")
        for other in others:
            yield node, other.format(text)


def _must_be_constant(of: Text, node: ast.AST) -> bool:
    """Whether a number is the size of an array, an axis, or in what Numba must know."""
    while not isinstance(node, ast.stmt | ast.Call | ast.Subscript):
        node = of.parents[node]
    if isinstance(node, ast.Call):
        return unparse(node.func).endswith((".grid", ".gridsize", ".array"))
    return isinstance(node, ast.Subscript) and unparse(node.value).endswith(("shape", "strides"))


def words(of: Text) -> Iterator[Edit]:
    """Another of the solution's own words."""
    nodes = [node for node in of.nodes(ast.Constant) if isinstance(node.value, str)]
    known = list(dict.fromkeys(node.value for node in nodes))
    for node in nodes:
        yield node, repr(known[(known.index(node.value) + 1) % len(known)])


def extremes(of: Text) -> Iterator[Edit]:
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


def terms(of: Text) -> Iterator[Edit]:
    """One side of an operation, without the other."""
    for node in of.nodes(ast.BinOp):
        if not _must_be_constant(of, node):
            yield node, unparse(node.left)
            yield node, unparse(node.right)


def axes(of: Text) -> Iterator[Edit]:
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


def types(of: Text) -> Iterator[Edit]:
    """A wider or narrower type."""
    for node in of.nodes(ast.Name, ast.Attribute):
        module, _, name = unparse(node).rpartition(".")
        if name in OTHER_TYPE and module in ("", "np"):
            yield node, unparse(node).replace(name, OTHER_TYPE[name])


def comparisons(of: Text) -> Iterator[Edit]:
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


def ranges(of: Text) -> Iterator[Edit]:
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


def statements(of: Text) -> Iterator[Edit]:
    """A statement that is forgotten."""
    for node in of.nodes(ast.Assign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.While, ast.Try):
        if not unparse(node).startswith("cuda.sync"):
            yield node, "pass"
        if isinstance(node, ast.If) and node.orelse:
            yield node, "\n".join(map(unparse, node.orelse))


def levels(of: Text) -> Iterator[Edit]:
    """A block's last statement behind the block."""
    for node in of.nodes(ast.For, ast.While, ast.If):
        if len(node.body) > 1 and not node.orelse:
            shorter = deepcopy(node)
            last = shorter.body.pop()
            yield node, f"{unparse(shorter)}\n{unparse(last)}"


def indices(of: Text) -> Iterator[Edit]:
    """x for y, `threadIdx` without `blockIdx`, `blockIdx` without `threadIdx`."""
    for node in of.nodes(ast.Attribute):
        if found := _INDEX.fullmatch(unparse(node)):
            kind, axis = found.groups()
            yield node, f"cuda.{kind}.{'y' if axis == 'x' else 'x'}"
            other = "blockIdx" if kind == "threadIdx" else "threadIdx"
            yield node, f"cuda.{other}.{axis}"
    for node in of.nodes(ast.Call):
        if unparse(node) == "cuda.grid(1)":
            for index in OTHER_INDICES:
                yield node, index
        elif unparse(node) in ("cuda.grid(2)", "cuda.grid(3)"):
            axes = "xyz"[: int(unparse(node)[-2])]
            for source in ("threadIdx", "blockIdx"):
                yield node, ", ".join(f"cuda.{source}.{axis}" for axis in axes)


def whole_indices(of: Text) -> Iterator[Edit]:
    """The number of the thread in the grid for what counts only its block, or only in it."""
    for node in of.nodes(ast.Attribute, ast.BinOp):
        axes = {found[2] for found in _INDEX.finditer(unparse(node))}
        if len(axes) == 1:
            axis = axes.pop()
            yield node, f"cuda.blockIdx.{axis} * cuda.blockDim.{axis} + cuda.threadIdx.{axis}"


def _axes(value: Any) -> int:
    """How many axes an array has; 0 for a number, -1 for anything else."""
    return np.ndim(value) if isinstance(value, np.ndarray | np.generic | int | float) else -1


def names(of: Text) -> Iterator[Edit]:
    """Another name of the same kind: an array of as many axes, or a number."""
    loads = [n for n in of.nodes(ast.Name) if isinstance(n.ctx, ast.Load)]
    axes = {name: _axes(value) for name, value in of.given.items()}
    axes |= {n.id: 0 for n in loads if n.id in of.stored | of.numbers.keys() and n.id not in axes}
    for node in loads:
        for other in axes if node.id in axes else ():
            if other != node.id and axes[other] == axes[node.id]:
                yield node, other


def factors(of: Text) -> Iterator[Edit]:
    """One factor or term more, or a square, of a statement's value or of what a call is given."""
    numbers = [name for name, value in of.given.items() if _axes(value) == 0]
    numbers += [name for name in sorted(of.stored) if name not in numbers]
    values = [node.value for node in of.nodes(ast.Return, ast.Assign, ast.AugAssign)]
    given = [node.args[0] for node in of.nodes(ast.Call) if len(node.args) == 1]
    for new in ("({0}) ** 2", "-({0})", "2 * ({0})", "({0}) / 2", "({0}) + 1", "({0}) - 1"):
        for node in values + given:
            if node is not None and not isinstance(node, ast.Tuple | ast.Starred):
                yield node, new.format(unparse(node))
    for node in values:
        for name in numbers if node is not None and not isinstance(node, ast.Tuple) else ():
            for sign in "*/+-":
                yield node, f"({unparse(node)}) {sign} {name}"


def kept_values(of: Text) -> Iterator[Edit]:
    """A running value that goes on from what it was: a sum, the largest, the smallest."""
    for node in of.nodes(ast.Assign):
        target, value = unparse(node.targets[0]), unparse(node.value)
        yield node, f"{target} += {value}"
        yield node, f"{target} = max({target}, {value})"
        yield node, f"{target} = min({target}, {value})"


def unwrapped(of: Text) -> Iterator[Edit]:
    """What a call is given, in place of what it makes of that."""
    for node in of.nodes(ast.Call):
        if len(node.args) == 1 and not isinstance(node.args[0], ast.Starred):
            yield node, unparse(node.args[0])


def operations(of: Text) -> Iterator[Edit]:
    """Any other of the four operations."""
    for node in of.nodes(ast.BinOp):
        if isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.FloorDiv):
            for sign in "+-*/":
                new = f"({unparse(node.left)}) {sign} ({unparse(node.right)})"
                if type(ast.parse(new, mode="eval").body.op) is not type(node.op):
                    yield node, new
            sides = unparse(node.left), unparse(node.right)
            for one, other in (sides, sides[::-1]):
                if one == "2" and isinstance(node.op, ast.Mult):  # a square is no double
                    yield node, f"({other}) * ({other})"
