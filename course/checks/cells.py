"""The notebook around a check: which cells failed to run, and what a cell has shown already.

A name in a kernel keeps its old value where the cell that should define it anew fails: by a
SyntaxError, or by an exception before its definition. A check that took that value would judge a
text that nobody sees any more. IPython says before and after each cell what ran; of JupyterLab,
Colab, VS Code and nbclient alike. A cell that was edited and not run is known to its editor alone.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from course.checks.answers import globals_read, plain_function

_DEFINED = re.compile(
    r"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)|^(\w+)[ \t]*(?::[^=\n]+)?=(?!=)", re.M
)


@dataclass(frozen=True)
class _Stale:
    """What a name still stands for although the cell that should define it anew failed."""

    value: Any
    reason: str


_stale: dict[str, _Stale] = {}
_before: dict[str, Any] = {}  # what the names of a cell under a magic command stood for
_watched: list[Any] = []  # the shell whose cells are looked at
_cell = [0]  # the number of the cell that runs


def shell() -> Any:
    """The running IPython, in a notebook or a terminal; None in a plain Python."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def watch() -> None:
    """Look at the cells that run from now on, if there is an IPython to say so."""
    running = shell()
    if running is None or running in _watched:
        return
    _watched[:] = [running]
    running.events.register("pre_run_cell", _begins)
    running.events.register("post_run_cell", _ended)


def stale(answer: Any) -> str | None:
    """Why an answer is not what its cell says, in sentences; None where that is not known.

    That of a function that the answer calls, or of a constant that it reads, is said as well.
    """
    running = shell()
    if running is None or not _stale:
        return None
    names = {name: its for name, its in _stale.items() if running.user_ns.get(name) is its.value}
    for name, its in names.items():
        if its.value is answer:
            return (
                f"The cell that defines `{name}` did not run: {its.reason}. `{name}` is still what "
                "it was before, which is not judged. Run that cell first, then this one."
            )
    for name in _read_by(plain_function(answer), running.user_ns):
        if name in names:
            return (
                f"The cell that defines `{name}`, which your answer uses, did not run: "
                f"{names[name].reason}. `{name}` is still what it was before: nothing is judged. "
                "Run that cell first, then this one."
            )
    return None


def _read_by(function: FunctionType | None, space: dict[str, Any]) -> Iterator[str]:
    """The names of a notebook that a function reads, and the functions that it calls."""
    left, seen = [function], set()
    while left:
        one = left.pop()
        if one is None or one.__globals__ is not space:
            continue
        for name in globals_read(one.__code__) & set(space) - seen:
            seen.add(name)
            yield name
            left.append(plain_function(space[name]))


def _begins(info: Any) -> None:
    _cell[0] += 1
    if _is_magic(info):  # it may run its text as a cell of its own
        names, space = defined_names(info.raw_cell), shell().user_ns
        _before.update((name, space[name]) for name in names if name in space)


def _ended(result: Any) -> None:
    error, space = result.error_before_exec or result.error_in_exec, shell().user_ns
    magic = _is_magic(result.info)
    line = None if error is None or magic else _line(result, space)
    for name, last in defined_names(result.info.raw_cell).items():
        _stale.pop(name, None)
        if name not in space or (line is not None and line > last):
            continue
        value = space[name]
        if error is not None:
            where = f" in its line {line}" if line is not None else ""
            _stale[name] = _Stale(value, f"{type(error).__name__}{where}")
        elif magic and value is _before.get(name) and plain_function(value) is not None:
            # %%capture and its like keep an error for themselves
            _stale[name] = _Stale(value, "its magic command did not define it")
    if magic:
        _before.clear()


def _is_magic(info: Any) -> bool:
    return info.raw_cell.lstrip().startswith("%%")


def _line(result: Any, space: dict[str, Any]) -> int | None:
    """The line of a cell at which it failed."""
    if result.error_before_exec is not None:
        return getattr(result.error_before_exec, "lineno", None)
    trace = result.error_in_exec.__traceback__
    while trace is not None and trace.tb_frame.f_globals is not space:
        trace = trace.tb_next
    return trace.tb_lineno if trace is not None else None


def defined_names(text: str) -> dict[str, int]:
    """The names that a cell's text defines, each with the line where its last definition ends.

    Of a text that is no Python those that look defined, at its end.
    """
    running = shell()
    body = re.sub(r"\A\s*%%.*", "", text)
    try:
        tree = ast.parse(running.transform_cell(body) if running is not None else body)
    except (SyntaxError, ValueError):
        return {one or other: sys.maxsize for one, other in _DEFINED.findall(body)}
    return dict(_bound(tree.body))


def _bound(nodes: Any, end: int = 0) -> Iterator[tuple[str, int]]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.end_lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, max(end, node.end_lineno)
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0], max(end, node.end_lineno)
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp):
            whole = isinstance(node, ast.stmt) and not hasattr(node, "body")
            yield from _bound(ast.iter_child_nodes(node), node.end_lineno if whole else end)


class ShownInItsCell:
    """What shows itself in the cell that made it, wherever in the cell that is, and there once."""

    def shown(self) -> Any:
        """Show it now, where there is a notebook; as a cell's last line it adds nothing."""
        if shell() is not None:
            watch()
            self._ipython_display_()
            object.__setattr__(self, "_shown_in", _cell[0])
        return self

    def _ipython_display_(self) -> None:
        if self.__dict__.get("_shown_in") != _cell[0]:
            from IPython.display import display

            display({"text/plain": repr(self), "text/html": self._repr_html_()}, raw=True)
