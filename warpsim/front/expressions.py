"""Types of a kernel's expressions: operators, attributes, indices, calls."""

import ast
import operator
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import ModuleType
from typing import Any
from warnings import warn

import numpy as np
from numba import types
from numba.core.errors import NumbaError, NumbaWarning
from numba.core.typing.arraydecl import get_array_index_type

from warpsim.core.number_types import DATES, NOT_CAST, REAL, SCALARS, VectorType
from warpsim.core.settings import setting
from warpsim.front import cuda_names
from warpsim.front.attributes import Attributes
from warpsim.front.calls import call
from warpsim.front.names import FOLDED, MISSING, KernelName, NotYet, folded
from warpsim.front.nodes import BINARY, COMPARE, UNARY, Once
from warpsim.front.numba_typing import PLAIN_TUPLE, held, of_value, plain, resolve
from warpsim.front.static_branches import TRUE_OR_FALSE, Decisions
from warpsim.front.successor import retyped

#: What neither a GPU nor the simulator has, by the name of its syntax.
REFUSED = {
    "List": "kernels have no lists: use a tuple, or cuda.local.array with a fixed size",
    "ListComp": "kernels have no lists: write the loop, into cuda.local.array or an output array",
    **dict.fromkeys(("Dict", "DictComp"), "kernels have no dictionaries"),
    **dict.fromkeys(("Set", "SetComp"), "kernels have no sets"),
    "GeneratorExp": "kernels have no generators: write the loop",
    "Lambda": "call a lambda, or give it a name first; as a value kernels have none",
    "JoinedStr": "kernels have no f-strings: give print the values, separated by commas",
    "Yield": "kernels have no generators",
    "Await": "kernels cannot wait for Python",
    "Try": "kernels have no try: test the values instead",
    "With": "kernels have no with",
    **dict.fromkeys(("Import", "ImportFrom"), "import at the top of the file, not inside a kernel"),
    "ClassDef": "kernels have no classes",
    "Global": "kernels cannot change global variables: write into an array argument",
    "Nonlocal": "kernels cannot change outer variables: write into an array argument",
    "NamedExpr": "Numba does not take :=; assign on a line of its own",
    "Delete": "kernels have no del",
}


@cache
def _indexed(base: types.Array, kinds: tuple[types.Type, ...]) -> types.Type:
    return get_array_index_type(base, types.Tuple(kinds)).result


@dataclass(frozen=True)
class Conflict:
    """A variable whose versions have no common type; an error only where it is read."""

    kinds: tuple[types.Type, ...]


class Expressions(Attributes, Decisions):
    """Types of expressions; the statements are in :mod:`warpsim.front.types`."""

    def unknown_syntax(self, node: ast.AST, what: str) -> Exception:
        name = type(node).__name__
        if name in REFUSED:
            return self.source.refused(node, f"{name}: {REFUSED[name]}")
        return self.source.unsupported(node, f"the {what} {name!r}")

    # ------------------------------------------------------------------ expressions
    def check_condition(self, node: ast.expr, kind: types.Type) -> None:
        """Refuse what has no truth value, or none that is compiled."""
        if not isinstance(kind, TRUE_OR_FALSE):
            raise self.source.refused(node, f"{ast.unparse(node)} is {kind}, not a condition")
        if plain(kind) in NOT_CAST:
            why = f"is a condition: {NOT_CAST[plain(kind)]}"
            raise self.source.refused(node, f"{ast.unparse(node)} {why}")

    def expression(self, node: ast.expr) -> types.Type:
        handler = getattr(self, f"see_{type(node).__name__}", None)
        if handler is None:
            raise self.unknown_syntax(node, "expression")
        value = folded(node) if isinstance(node, FOLDED) else MISSING
        kind = handler(node) if value is MISSING else of_value(value)
        if kind is None:
            raise self.source.refused(node, f"{ast.unparse(node)} cannot be used in a kernel")
        self.typing.of[node] = kind
        return kind

    def see_Constant(self, node: ast.Constant) -> types.Type:
        return of_value(node.value)

    def see_Name(self, node: ast.Name) -> types.Type:
        if node.id in self.source.assigned:
            if (node.id, "set") not in self.environment:
                self.typing.doubtful.add(node)
            if self.text(node) is not None:
                return types.literal(self.text(node))
            kind = self.environment.get(node.id, MISSING)
            if kind is MISSING:
                kind = self._never_set(node)
            if not isinstance(kind, Conflict):
                return kind
            if len(kind.kinds) == 1:
                raise self.source.refused(node, f"{node.id} is {kind.kinds[0]}, which has no value")
            listed = " and ".join(map(str, kind.kinds))
            text = f"Cannot unify {listed} for {node.id!r}: it has two types here"
            raise self.source.refused(node, text)
        return self._static(node)

    def _never_set(self, node: ast.Name) -> types.Type:
        """Type of a variable that only other ways have set: as in Numba it is zero here."""
        stores = self.typing.targets.items()
        kinds = [k for n, k in stores if isinstance(n, ast.Name) and n.id == node.id]
        if not kinds or not isinstance(kinds[0], SCALARS):
            zero = f", and {kinds[0]} has no zero here" if kinds else ""
            raise self.source.refused(node, f"variable {node.id!r} is used before it is set{zero}")
        if setting("ALWAYS_WARN_UNINIT_VAR", 0):
            warn(NumbaWarning(f"Detected uninitialized variable {node.id}"), stacklevel=2)
        return kinds[0]

    def _static(self, node: ast.expr) -> types.Type:
        value = self.source.static(node)
        if value is MISSING:
            raise self.source.refused(node, f"NameError: name {ast.unparse(node)!r} is not defined")
        if isinstance(value, KernelName):
            if value.path not in cuda_names.VALUES:
                raise self.source.refused(node, self.what_cuda_has(value.path))
            return cuda_names.VALUES[value.path]
        if isinstance(value, ModuleType):
            raise self.source.refused(node, f"{ast.unparse(node)} is a module, not a value")
        kind = of_value(value)
        if isinstance(value, np.ndarray) and kind is not None:
            kind = kind.copy(readonly=True)
        if kind is None:
            text = f"Untyped global name {ast.unparse(node)!r}: cannot be used in a kernel"
            raise self.source.refused(node, text)
        return plain(kind) if not isinstance(value, str) else kind

    def see_Tuple(self, node: ast.Tuple) -> types.Type:
        return types.Tuple([plain(self.expression(element)) for element in node.elts])

    def see_BinOp(self, node: ast.BinOp) -> types.Type:
        return self.binary(node, node.op, self.expression(node.left), self.expression(node.right))

    def binary(self, node: ast.AST, op: ast.operator, left, right) -> types.Type:
        left, right = held(left), held(right)
        tuples = isinstance(left, PLAIN_TUPLE) and isinstance(right, PLAIN_TUPLE)
        if tuples and isinstance(op, ast.Add):
            self.typing.operands[node] = (left, right)
            return types.Tuple([*left, *right])
        function = BINARY.get(type(op))
        if function is None:
            raise self.source.unsupported(node, f"the operator {type(op).__name__}")
        result = self.call_type(node, function, (left, right))
        if isinstance(result, types.Integer) and not isinstance(op, ast.Pow):
            # int64 and uint64 together are added, divided, ... as what the result is
            shift = isinstance(op, ast.LShift | ast.RShift) and isinstance(right, types.Integer)
            self.typing.operands[node] = (result, plain(right) if shift else result)
        elif isinstance(op, ast.Div) and isinstance(left, types.Integer | types.Boolean):
            self.typing.operands[node] = (result, result)
        return result

    def call_type(self, node: ast.AST, function: Any, arguments: tuple) -> types.Type:
        """Ask Numba for the type of a call; remember what its operands are converted to."""
        arguments = tuple(held(kind) for kind in arguments)
        found = None
        if not any(isinstance(kind, types.Array) for kind in arguments):
            found = resolve(function, arguments)
            if self.source.of_the_successor:
                found = retyped(function, arguments, found)
        return self.called(node, function, arguments, found)

    def called(self, node: ast.AST, function: Any, arguments: tuple, found: Any) -> types.Type:
        """The result of a call that takes such operands; a text says what is wrong with them."""
        if isinstance(found, str):
            raise self.source.refused(node, found)
        if found is None:
            raise self.call_refused(node, function, arguments)
        self.typing.operands[node] = tuple(found[1])
        return found[0]

    def call_refused(
        self, node: ast.AST, function: Any, arguments: Iterable, why: str = ""
    ) -> Exception:
        """Numba's error of a function that takes no such arguments."""
        name = function if isinstance(function, str) else getattr(function, "__name__", function)
        listed = ", ".join(map(str, arguments))
        text = f"No implementation of function {name} found for signature:\n\n >>> {name}({listed})"
        return self.source.refused(node, f"{text}\n\n{why}" if why else text)

    def see_UnaryOp(self, node: ast.UnaryOp) -> types.Type:
        if isinstance(node.op, ast.Not):
            kind = self.expression(node.operand)
            if isinstance(kind, types.BaseTuple):
                raise self.call_refused(node, operator.not_, (kind,))
            if kind != types.float16:
                self.check_condition(node.operand, kind)
            return types.boolean
        return self.call_type(node, UNARY[type(node.op)], (self.expression(node.operand),))

    def see_BoolOp(self, node: ast.BoolOp) -> types.Type:
        ends, kinds = isinstance(node.op, ast.Or), []
        self.typing.dead.difference_update(node.values)
        for number, value in enumerate(node.values, 1):
            last = number == len(node.values)
            truth = None if last else self.decided(value)
            pruned = truth is not None and isinstance(value, ast.Compare)
            kind = self.typing.of[value] = types.boolean if pruned else self.expression(value)
            if truth is not ends and truth is not None:
                self.typing.dead.add(value)
                continue
            kinds.append(plain(kind))
            if truth is ends:
                self.typing.dead.update(node.values[number:])
                break
            if not last and isinstance(kind, types.Array | types.Record | DATES):
                raise self.call_refused(node, bool, (kind,))
            if not last and kind == types.float16:
                self.check_condition(value, kind)
        return self.unified(node, kinds)

    def see_IfExp(self, node: ast.IfExp) -> types.Type:
        kinds = []
        for arm in self.arms(node):
            with suppress(NotYet):  # what calls itself has the type of the other arm, for now
                kinds.append(self.expression(arm))
        if not kinds:
            raise NotYet
        return self.unified(node, kinds)

    def unified(self, node: ast.AST, kinds: list) -> types.Type:
        merged = self._unify([plain(kind) for kind in kinds])
        if isinstance(merged, Conflict):
            listed = " and ".join(str(kind) for kind in kinds)
            raise self.source.refused(node, f"Cannot unify {listed} in {ast.unparse(node)}")
        return merged

    def see_Compare(self, node: ast.Compare) -> types.Type:
        if self.asks_for_a_function(node):
            return types.boolean
        self.typing.known.pop(node, None)
        texts = [self.text(side) for side in (node.left, *node.comparators)]
        if None not in texts and type(node.ops[0]) in COMPARE:
            self.typing.values[node] = COMPARE[type(node.ops[0])](*texts)
            return types.boolean
        left = self.expression(node.left)
        if isinstance(node.ops[0], ast.In | ast.NotIn):
            return self._among(node, left)
        if isinstance(node.ops[0], ast.Is | ast.IsNot):
            return self.identity(node, left)
        if isinstance(left, types.Optional) and self.source.static(node.comparators[0]) is None:
            return self.identity(node, left)  # == None
        right = self.expression(node.comparators[0])
        if isinstance(node.ops[0], ast.Eq | ast.NotEq) and self._never_equal(left, right):
            self.typing.known[node] = isinstance(node.ops[0], ast.NotEq)
            return types.boolean
        self.call_type(node, COMPARE[type(node.ops[0])], (left, right))
        if isinstance(left, types.BaseTuple):
            self.pairs(node, left, right)
            self.typing.operands[node] = (left, right)  # converted pair by pair
        return types.boolean

    @staticmethod
    def _never_equal(left: types.Type, right: types.Type) -> bool:
        """What is compared with None or text, and tuples of other lengths: Numba takes no look."""
        if isinstance(left, types.BaseTuple) and isinstance(right, types.BaseTuple):
            pairs = zip(left, right, strict=False)
            typed = all(resolve(operator.eq, (plain(a), plain(b))) for a, b in pairs)
            return len(left) != len(right) and typed
        alone = types.NoneType | types.StringLiteral | types.UnicodeType
        optional = isinstance(left, types.Optional) or isinstance(right, types.Optional)
        return isinstance(left, alone) != isinstance(right, alone) and not optional

    def _among(self, node: ast.Compare, left: types.Type) -> types.Type:
        """``i in t``: compared with each element of a tuple."""
        right = self.expression(node.comparators[0])
        if isinstance(right, types.Array):
            raise self.source.unsupported(node, f"in of {right}")
        if not isinstance(right, types.UniTuple) and right != types.Tuple(()):
            why = "all elements must be of one type"
            raise self.call_refused(node, "contains", (right, left), why)
        pairs = []
        for part in right:
            self.call_type(node, operator.eq, (left, part))
            pairs.append(self.typing.operands[node])
        self.typing.operands[node] = tuple(pairs)
        return types.boolean

    def see_Subscript(self, node: ast.Subscript) -> types.Type:
        if self.source.static(node) is not MISSING:
            return self._static(node)
        base = self.expression(node.value)
        if isinstance(base, types.BaseTuple):
            return self._tuple_item(node, base)
        return self.item(node, base)

    def item(self, node: ast.Subscript, base: types.Type) -> types.Type:
        """Type of an element, of a field or of a view of an array, or of the field of a record."""
        records = isinstance(base, types.Array) and isinstance(base.dtype, types.Record)
        name = self.source.static(node.slice)
        if isinstance(base, types.Record) or (records and isinstance(name, str)):
            return self.field(node, base, name)
        return self.subscript(node, base)

    def _tuple_item(self, node: ast.Subscript, base: types.BaseTuple) -> types.Type:
        if isinstance(base, VectorType):
            text = f"{ast.unparse(node.value)} is {base}: it has the parts {', '.join(base.fields)}"
            raise self.source.refused(node, f"No implementation of getitem({base}): {text}")
        index = self.literal_index(node.slice)
        if index is not MISSING:
            self.typing.values[node.slice] = index
            if isinstance(index, slice):
                return types.Tuple(list(base)[index])
            inside = -len(base) <= index < len(base)
            sure = self.constant(node.slice) is not MISSING
            if not inside and not sure and isinstance(base, types.UniTuple):
                self.typing.values.pop(node.slice)
                self.expression(node.slice)
                return base.dtype  # only the index's type is a literal: Numba looks at run time
            if not inside:
                raise self.source.refused(node, f"index {index} of a tuple of {len(base)}")
            return base[index]
        self.typing.values.pop(node.slice, None)
        if isinstance(node.slice, ast.Slice):
            raise self.source.refused(node, "a tuple's slice must be constant")
        kind = self.expression(node.slice)
        member = isinstance(self.source.static(node.slice), Enum)
        if member or not isinstance(kind, types.Integer) or not isinstance(base, types.UniTuple):
            text = f"No implementation of getitem({base}, {kind}): the index must be constant"
            raise self.source.refused(node, text)
        return base.dtype

    def subscript(self, node: ast.Subscript, base: types.Type) -> types.Type:
        if isinstance(base, types.NumpyFlatType) and not isinstance(node.slice, ast.Slice):
            self.index(node, base.array_type, node.slice)
            return base.dtype
        if not isinstance(base, types.Array):
            given = "None" if isinstance(base, types.NoneType) else base
            raise self.source.refused(node, f"{ast.unparse(node.value)} is {given}, not an array")
        kinds: list[types.Type] = []
        several = isinstance(node.slice, ast.Tuple)
        nodes = list(node.slice.elts) if several else [node.slice]
        for index in nodes:
            if isinstance(index, ast.Slice):
                for part in (index.lower, index.upper, index.step):
                    if part is not None:
                        self.index(node, base, part, REAL | types.NoneType)
                kinds.append(types.slice2_type if index.step is None else types.slice3_type)
            elif folded(index) is Ellipsis:
                kinds.append(types.ellipsis)
            elif self.source.static(index) is None and (several or isinstance(node.ctx, ast.Store)):
                self.typing.of[index] = types.none
                kinds.append(types.none)
            else:
                kinds += self.index(node, base, index)
        count = sum(kind not in (types.ellipsis, types.none) for kind in kinds)
        dots = [n for n, index in enumerate(nodes) if folded(index) is Ellipsis]
        if dots and not several and isinstance(node.ctx, ast.Load):
            raise self.source.refused(node, "Numba reads no element ... alone: write [:]")
        if count > base.ndim:
            text = f"cannot index {base} with {count} indices: it has {base.ndim} dimensions"
            raise self.source.refused(node, text)
        try:
            found = _indexed(base, tuple(kinds))
        except NumbaError as error:
            raise self.source.refused(node, str(error)) from None
        self.typing.indices[node] = nodes
        for place in dots:  # it stands for as many whole axes as are left
            whole = [ast.copy_location(ast.Slice(), node) for _ in range(base.ndim - count)]
            self.typing.indices[node] = [*nodes[:place], *whole, *nodes[place + 1 :]]
        return found.copy(layout="A") if types.none in kinds else found  # as numba-cuda has it

    def index(
        self, node: ast.AST, base: types.Array, index: ast.expr, takes: Any = types.Integer
    ) -> list[types.Type]:
        """Check one index; the types of the axes it stands for (a tuple variable: several)."""
        kind = plain(self.expression(index))
        several = isinstance(kind, types.BaseTuple) and takes is types.Integer
        kinds = list(kind) if several else [kind]
        if not all(isinstance(one, takes) for one in kinds):
            why = "an index must be an integer: use int(...)"
            raise self.call_refused(node, "getitem", (base, kind), why)
        return kinds

    # ------------------------------------------------------------------ calls and loops
    def see_Once(self, node: Once) -> types.Type:
        return self.expression(node.value)

    see_Call = call

    def iterated(self, node: ast.expr) -> types.Type:
        """Type of the items of what a for loop runs over."""
        if isinstance(node, ast.Call):
            function = self.source.static(node.func)
            if function is range:
                kinds = tuple(held(self.expression(argument)) for argument in node.args)
                found = resolve(range, kinds) if not node.keywords else None
                if found is None:
                    listed = ", ".join(map(str, kinds))
                    raise self.source.refused(node, f"range({listed}) needs one to three integers")
                return found[0].dtype
            if function is enumerate and 1 <= len(node.args) <= 2 and not node.keywords:
                if node.args[1:] and not isinstance(self.expression(node.args[1]), types.Integer):
                    raise self.source.refused(node, "enumerate counts from an integer")
                return types.Tuple([types.intp, self.iterated(node.args[0])])
            if function is zip and node.args and not node.keywords:
                return types.Tuple([self.iterated(argument) for argument in node.args])
            if function is np.ndindex and node.args and not node.keywords:
                kinds = [plain(self.expression(argument)) for argument in node.args]
                parts = list(kinds[0]) if isinstance(kinds[0], types.BaseTuple) else kinds
                if all(isinstance(part, types.Integer) for part in parts):
                    return types.UniTuple(types.intp, len(parts))
                raise self.source.refused(node, f"np.ndindex{tuple(kinds)} needs integers")
            if function is np.ndenumerate and len(node.args) == 1 and not node.keywords:
                kind = self.expression(node.args[0])
                if isinstance(kind, types.Array):
                    return types.Tuple([types.UniTuple(types.intp, kind.ndim), kind.dtype])
        kind = self.expression(node)
        if isinstance(kind, types.UniTuple | types.NumpyFlatType):
            return kind.dtype
        if isinstance(kind, types.Array) and kind.ndim:
            return items_of(kind)
        raise self.source.refused(node, f"cannot loop over {kind}")


def items_of(array: types.Array) -> types.Type:
    """Type of what a loop over an array goes through: elements, or rows."""
    return array.dtype if array.ndim == 1 else array.copy(ndim=array.ndim - 1, layout="A")
