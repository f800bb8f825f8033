"""Statements of a lane program: assignments under a mask, branches, loops, returns."""

import ast
import hashlib
import linecache
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba import types

from warpsim.code.accesses import bare, spelled_tuple
from warpsim.code.calls import is_pure
from warpsim.code.emit import Emitter
from warpsim.code.kept import Shell
from warpsim.core import operators
from warpsim.core.operators import Made
from warpsim.front.dataflow import idle_variables
from warpsim.front.expressions import items_of
from warpsim.front.names import Site
from warpsim.front.numba_typing import plain

#: Atomics that take a lock.
LOCKING = ("cas", "compare_and_swap", "exch")
#: The name of a lane program's module.
PROGRAM = "lane program"


def is_covered() -> bool:
    """Whether coverage.py measures which lines run."""
    coverage = sys.modules.get("coverage")
    return coverage is not None and coverage.Coverage.current() is not None


@lru_cache(maxsize=512)
def _compiled(text: str | ast.Module, file: str) -> CodeType:
    """The code of a lane program: many differ only in what they find outside."""
    module = compile(text, file, "exec")
    return next(part for part in module.co_consts if isinstance(part, CodeType))


@dataclass(frozen=True)
class LaneProgram:
    """The translation of one function for one set of argument types."""

    name: str
    text: str
    run: Callable
    sites: tuple[Site, ...]
    result: types.Type
    cluster: int = 1  # blocks that run together
    cooperative: bool = False
    by_warp: bool = False  # its warps wait for each other
    locks: bool = False  # a thread spins until it has a lock: blocks run one after another


def bound(shell: Shell, result: types.Type, calls: list[LaneProgram]) -> LaneProgram:
    """A lane program whose calls are those of some others, one for each."""
    space = {**operators.NAMESPACE, "__name__": PROGRAM}
    for name, value in shell.values.items():
        space[name] = value.maker(*value.given) if type(value) is Made else value
    sites = list(shell.sites)
    for (name, base, _, _), inner in zip(shell.calls, calls, strict=True):
        space[name], space[base] = inner.run, len(sites)
        sites += inner.sites
    file, run = shell.code.co_filename, FunctionType(shell.code, space, shell.name)
    space[shell.code.co_name] = run  # it may call itself
    if file.startswith(f"<{PROGRAM}") and file not in linecache.cache:
        linecache.cache[file] = len(shell.text), None, shell.text.splitlines(True), file
    needs = {
        need: any(getattr(part, need) for part in (shell, *calls))
        for need in ("cooperative", "by_warp", "locks")
    }
    return LaneProgram(shell.name, shell.text, run, tuple(sites), result, shell.cluster, **needs)


class Writer(Emitter):
    """Adds the statements to the expressions of :class:`~warpsim.code.emit.Emitter`."""

    def shell(self) -> Shell:
        """The lane program, its calls not bound yet."""
        source = self.source
        self.block(source.tree.body)
        names = list(map(self.variable, source.arguments, self.typing.arguments))
        named = [f"def {self.own_name}(T, {', '.join(names)}):"]
        named += [f"    # {comment}" for comment in self.comments]
        head = []
        if self.framed:
            head.append(f"    frame = {self.operation('frame', f'kernel={not self.device}')}")
        for (name, _), variable in self.names.items():
            if not self.always_plain(name):
                is_set = variable in names
                head += [] if is_set else [f"    {variable} = UNSET"]
                head.append(f"    _m_{variable} = {self.mask if is_set else None}")
        head += [f"    _s_{name} = None" for name in self.watched_names]
        falls = not isinstance(source.tree.body[-1], ast.Return)
        if isinstance(self.typing.result, types.Optional) and falls:
            nothing = self.convert("None", types.none, self.typing.result)
            self.line(f"if {self.mask}: {self.operation('give', 'frame', nothing)}")
        if self.framed:
            self.line(f"return {self.operation('leave', 'frame')}")
        named += [f"    {part} = T.{part}" for part in sorted(self.parts)]
        text = "\n".join([*named, *head, *(self.out or ["    pass"])]) + "\n"
        # what stands for its file where Python tells where it is
        file = f"<{PROGRAM} {hashlib.sha256(text.encode()).hexdigest()[:12]} of {source.name}>"
        code = text
        if is_covered():
            code, file = self._as_source(text, len(named) + len(head))
        called = {call[0] for call in self.calls}
        values = {
            name: value
            for name, value in self.namespace.maps[0].items()
            if name not in called and value is not operators.NAMESPACE.get(name, self)
        }
        return Shell(
            source.name, text, _compiled(code, file), tuple(self.sites), values, tuple(self.calls),
            self.cooperative, self.by_warp, self.locks, self.cluster,
        )  # fmt: skip

    def _as_source(self, text: str, first: int) -> tuple[ast.Module, str]:
        """The program with the lines of its kernel, and the kernel's file."""
        tree, (file, start) = ast.parse(text), self.source.in_file(1)
        lines = [start] * first + [start + line - self.source.tree.lineno for line in self.lines]
        for node in ast.walk(tree):
            if hasattr(node, "lineno"):
                node.lineno = node.end_lineno = lines[node.lineno - 1]
                node.col_offset = node.end_col_offset = 0
        return tree, file

    # ------------------------------------------------------------------ suites
    def block(self, nodes: list[ast.stmt]) -> None:
        start = self.indent
        written = len(self.out)
        for number, node in enumerate(nodes):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue
            if node in self.typing.dead:
                break
            self.statement(node)
            if isinstance(node, ast.Return | ast.Break | ast.Continue | ast.Raise):
                break
            if number + 1 < len(nodes) and ends_lanes(node):
                self.line(f"if {self.mask}:")
                self.lines[-1] = node.lineno
                self.indent += 1
                written = len(self.out)
        if len(self.out) == written:
            self.line("pass")
        self.indent = start

    def statement(self, node: ast.stmt) -> None:
        self.counts.append(Counter())
        around, self.here = self.here, node
        place = len(self.out)
        getattr(self, f"write_{type(node).__name__}")(node)
        self.here = around
        counts = self.counts.pop()
        if self.costs and counts:
            text = self.operation("count", self.counted_site(node, counts), dict(counts))
            self._insert(place, text, node)
        if node.lineno not in self.lines[place:] and is_covered():
            self._insert(place, "pass", node)  # nothing is left of it, but it is there

    def _insert(self, place: int, text: str, node: ast.stmt) -> None:
        self.out.insert(place, "    " * self.indent + text)
        self.lines.insert(place, node.lineno)

    @contextmanager
    def under(self, head: str) -> Iterator[None]:
        """What is written meanwhile belongs to a line ``if ...:``."""
        self.line(head)
        self.indent += 1
        yield
        self.indent -= 1

    def edge(self, which: str, node: ast.AST) -> None:
        """The conversions where a variable's versions of different type join."""
        for name, old, new in self.typing.edges.get((which, node), ()):
            before = self.variable(name, old)
            with self.under(f"if {before} is not UNSET:"):
                self.merge(self.variable(name, new), self.convert(before, old, new), new)

    def merge(self, variable: str, code: str, kind: types.Type) -> None:
        code = self.joined(code, kind)
        assigned = self.operation("assign", variable, f"_m_{variable}", code)
        self.line(f"{variable}, _m_{variable} = {assigned}")

    def write_Pass(self, node: ast.Pass) -> None:
        pass

    def write_Expr(self, node: ast.Expr) -> None:
        if node.value in self.typing.of:
            self.line(self.expression(node.value))

    # ------------------------------------------------------------------ assignments
    def write_Assign(self, node: ast.Assign) -> None:
        if node.value not in self.typing.of:
            return
        self.copied = node.value if self._is_copy(node) else None
        code, kind = self.expression(node.value), self.typing.of[node.value]
        if len(node.targets) > 1 or not isinstance(node.targets[0], ast.Name | ast.Subscript):
            code = self._held(code)
        for target in node.targets:
            self.assign(target, code, kind, node.value)

    def _held(self, code: str) -> str:
        temporary = self.temporary("value")
        self.line(f"{temporary} = {code}")
        return temporary

    def _is_copy(self, node: ast.Assign) -> bool:
        """Whether it is ``a[i] = b[j]``: one element, of which nothing else is made."""
        several = isinstance(self.typing.targets.get(node.targets[0]), types.Array | types.Record)
        sides = (*node.targets, node.value)
        return len(sides) == 2 and not several and all(isinstance(s, ast.Subscript) for s in sides)

    def write_AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        (left_kind, right_kind), old_kind = self.typing.operands[node], self.typing.of[target]
        if isinstance(target, ast.Name):
            old = self.read(target, old_kind)
        else:
            array, index = self.temporary("array"), self.temporary("index")
            for variable, part in zip((array, index), self.holder(target)):
                self.line(f"{variable} = {part}")
            name, whole = ast.unparse(target.value), ast.unparse(node)
            old = self.operation("load", array, index, self.site(target, name, whole))
        left = self.convert(old, old_kind, left_kind)
        code = self.binary(node, left, self.operand(node.value, right_kind))
        new_kind = self.typing.of[node]
        if isinstance(target, ast.Name):
            self.assign(target, code, new_kind)
        else:
            code = self.stored(code, new_kind, self.typing.targets[target])
            self.line(self.operation("store", array, index, code, self.site(target, name, whole)))

    def assign(
        self, target: ast.expr, code: str, kind: types.Type, value: ast.expr | None = None
    ) -> None:
        if isinstance(target, ast.Name):
            variable = self.variable(target.id, self.typing.targets[target])
            if target in self.scopes.plain:
                self.line(f"{variable} = {bare(code)}")
                if not self.always_plain(target.id):
                    self.line(f"_m_{variable} = {self.mask}")
            else:
                self.merge(variable, code, kind)
            self.note_set(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            if isinstance(kind, types.Array):
                text = "" if value is None else ast.unparse(value)
                site = self.site(target, text, text or None)
                code = self.operation("unpack", code, len(target.elts), site)
                kind = (items_of(kind),) * len(target.elts)
            if not code.isidentifier():
                code = self._held(code)
            for number, element in enumerate(target.elts):
                self.assign(element, f"{code}[{number}]", kind[number])
        else:
            name = target if target in self.typing.fields else target.value
            self.store(target, code, kind, self.site(target, ast.unparse(name)))

    # ------------------------------------------------------------------ control flow
    def write_If(self, node: ast.If) -> None:
        if node in self.typing.known:
            self._decided(node)
            return
        condition = bare(self.condition(node.test))
        if self.costs:
            site = self.site(node, code=f"if {ast.unparse(node.test)}:")
            condition = f"{condition}, {site}" + ("" if node.orelse else ", sides=1")
        sides = {"then": node.body, "else": node.orelse}
        self._sides(node, self.operation("split", condition), sides, ends_lanes(node))

    def _sides(self, node: ast.stmt, split: str, sides: dict[str, list], ends: bool) -> None:
        """Suites for a part of the lanes each, which may lose some of them if it ``ends``."""
        then, other, outer = (self.temporary(stem) for stem in ("then", "else", "outer"))
        self.line(f"{outer} = {self.mask}")
        self.line(f"{then}, {other} = {split}")
        for mask, (which, body) in zip((then, other), sides.items()):
            edges = self.typing.edges.get((which, node))
            if not body and not edges:
                continue
            with self.under(f"if {mask}:"):
                self.line(f"{self.mask} = {mask}")
                if body:
                    self.block(body)
                if edges:
                    with self.under(f"if {self.mask}:"):
                        self.edge(which, node)
                if ends:
                    self.line(f"{mask} = {self.mask}")
        after = self.operation("join", outer, then, other) if ends else outer
        self.line(f"{self.mask} = {after}")

    def _decided(self, node: ast.If | ast.While) -> None:
        """The side of a branch that constants decide; what its condition calls first is called."""
        if not is_pure(node.test):
            self.line(self.condition(node.test))
        self.block(node.body if self.typing.known[node] else node.orelse)

    def _enter_loop(self, node: ast.AST) -> str:
        self.edge("entry", node)
        self.edge("exit", node)
        loop = self.temporary("loop")
        frame = "frame" if self.framed else "None"
        idle = idle_variables(node) if isinstance(node, ast.While) else ()
        own = sorted({code for (name, _), code in self.names.items() if name in idle})
        more = (tuple(own),) if own else ()
        self.line(f"{loop} = {self.operation('loop', frame, self.source.line(node), *more)}")
        self.loops.append((loop, node))
        return loop

    def _loop_body(self, node: ast.For | ast.While) -> None:
        self.block(node.body)
        if self.typing.edges.get(("back", node)) or self.typing.edges.get(("exit", node)):
            with self.under(f"if {self.mask}:"):
                self.line("pass")
                self.edge("back", node)
                self.edge("exit", node)
        self.loops.pop()

    def write_While(self, node: ast.While) -> None:
        if self.typing.known.get(node) is False:
            self._decided(node)
            return
        self.locks |= _spins(node)
        loop = self._enter_loop(node)
        test = self.counted(node.test, lambda: self.condition(node.test))
        site = self.place(node, f"while {ast.unparse(node.test)}:")
        head, goes_on = self.operation("head", loop), self.operation("test", bare(test), *site)
        with self.under(f"while {head} and {goes_on}:"):
            self._loop_body(node)
        self.line(self.operation("end", loop))
        self._loop_else(node, loop)

    def _loop_else(self, node: ast.For | ast.While, loop: str) -> None:
        """The suite for the lanes that left a loop without ``break``."""
        if node.orelse and node not in self.typing.known:
            self._sides(node, self.operation("unbroken", loop), {"orelse": node.orelse}, ends=True)

    def write_For(self, node: ast.For) -> None:
        if self._called(node.iter) is range:
            limits = [self.operand(limit, types.int64) for limit in node.iter.args]
            what, codes = "range", (*limits, *self.place(node.iter, ast.unparse(node.iter)))
        else:
            what, codes = "each", (self._iterable(node.iter),)
        loop = self._enter_loop(node)
        simple = isinstance(node.target, ast.Name) and node.target in self.scopes.plain
        if simple:
            item = self.variable(node.target.id, self.typing.targets[node.target])
        else:
            item = self.temporary("value")
        with self.under(f"for {item} in {self.operation(what, loop, *codes)}:"):
            if not simple:
                self.assign(node.target, item, self.typing.items[node])
            else:
                if not self.always_plain(node.target.id):
                    self.line(f"_m_{item} = {self.mask}")
                self.note_set(node.target.id)
            self._loop_body(node)
        self._loop_else(node, loop)

    def _called(self, node: ast.expr) -> Any:
        return self.source.static(node.func) if isinstance(node, ast.Call) else None

    def _iterable(self, node: ast.expr) -> str:
        function = self._called(node)
        if function is enumerate and node.args[1:]:
            start = self.operand(node.args[1], types.int64)
            return self.operation("numbered", self._iterable(node.args[0]), start)
        if function in (enumerate, zip):
            inner = ", ".join(self._iterable(argument) for argument in node.args)
            return f"{function.__name__}({inner})"
        if function is np.ndindex:
            parts = [self.operand(part, plain(self.typing.of[part])) for part in node.args]
            whole = isinstance(self.typing.of[node.args[0]], types.BaseTuple)
            return self.operation("indices", parts[0] if whole else spelled_tuple(parts))
        if function is np.ndenumerate:
            array = self.expression(node.args[0])
            return self.operation("enumerated", array, self.site(node, ast.unparse(node.args[0])))
        if function is range:
            limits = [self.operand(argument, types.int64) for argument in node.args]
            return self.operation("lane_range", *limits)
        code = self.expression(node)
        if isinstance(self.typing.of[node], types.Array):
            return self.operation("items", code, self.site(node, ast.unparse(node)))
        if isinstance(self.typing.of[node], types.NumpyFlatType):
            elements = self.operation("enumerated", code, self.site(node, ast.unparse(node)))
            return f"(v for _, v in {elements})"
        return code

    def write_Break(self, node: ast.Break) -> None:
        self.edge("break", node)
        loop, owner = self.loops[-1]
        self.line(self.operation("stop", *([loop] if owner.orelse else [])))

    def write_Continue(self, node: ast.Continue) -> None:
        loop, owner = self.loops[-1]
        self.edge("continue", node)
        self.edge("exit", owner)
        self.line(self.operation("skip", loop))

    def write_Return(self, node: ast.Return) -> None:
        result, given = self.typing.result, []
        kind = types.none if node.value is None else self.typing.of[node.value]
        if not isinstance(kind, types.NoneType):
            code = self.operand(node.value, result)
            given = [self.joined(code, result)]
        else:
            if isinstance(node.value, ast.Call):
                self.line(self.expression(node.value))
            code = self.convert("None", types.none, result)
            given = [code] if isinstance(result, types.Optional) else []
        give = self.operation("give", "frame", *given) if self.framed else f"return {bare(code)}"
        self.line(give)

    def write_Assert(self, node: ast.Assert) -> None:
        arguments = [] if node.msg is None else [node.msg]
        self._require(node, self.condition(node.test), AssertionError, arguments)

    def write_Raise(self, node: ast.Raise) -> None:
        made = isinstance(node.exc, ast.Call)
        arguments = node.exc.args if made else []
        kind = node.exc and self.source.static(node.exc.func if made else node.exc)
        known = isinstance(kind, type) and issubclass(kind, BaseException)
        self._require(node, "False", kind if known else RuntimeError, arguments)

    def _require(self, node: ast.stmt, holds: str, error: type, arguments: list) -> None:
        kind = self.constant(error, error.__name__)
        told = tuple(one.value if isinstance(one, ast.Constant) else "" for one in arguments)
        place = repr(self.where_in_file(node))
        self.line(self.operation("require", "frame", holds, kind, repr(told), place))


def ends_lanes(node: ast.AST, in_loop: bool = False) -> bool:
    """Can a statement take lanes away from the statements that follow it in its suite?"""
    if isinstance(node, ast.Return | ast.Raise | ast.Assert):
        return True
    if isinstance(node, ast.Break | ast.Continue):
        return not in_loop
    inside = in_loop or isinstance(node, ast.For | ast.While)
    return any(ends_lanes(child, inside) for child in getattr(node, "body", ())) or any(
        ends_lanes(child, in_loop) for child in getattr(node, "orelse", ())
    )


def _spins(node: ast.While) -> bool:
    """``while cuda.atomic.cas(lock, 0, 0, 1) != 0: pass``"""
    called = [part.func for part in ast.walk(node.test) if isinstance(part, ast.Call)]
    return all(isinstance(line, ast.Pass | ast.Continue) for line in node.body) and any(
        isinstance(one, ast.Attribute) and one.attr in LOCKING for one in called
    )
