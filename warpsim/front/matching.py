"""``match`` as the chain of ``if`` that Python's compiler makes of it.

Numba's bytecode has the comparisons of patterns, and none of sequences, mappings and classes.
"""

import ast
from collections.abc import Callable
from copy import deepcopy

REASON = (
    "Numba takes patterns of values, |, names and _; not of sequences, mappings or classes: "
    "compare the parts with if"
)


class Matches(ast.NodeTransformer):
    """Spells out each ``match``; `refuse` makes the error of a pattern and a reason."""

    def __init__(self, refuse: Callable[[ast.AST, str], Exception]):
        self.refuse, self.count = refuse, 0

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        self.generic_visit(node)
        subject, first = node.subject, []
        if not isinstance(subject, ast.Name | ast.Constant):
            self.count += 1
            name = f"subject_{self.count}"
            first = [ast.Assign([ast.Name(name, ast.Store())], subject)]
            subject = ast.Name(name, ast.Load())
        rest: list[ast.stmt] = []
        for case in reversed(node.cases):
            rest = self._case(case, subject, rest)
        made = [*first, *rest] or [ast.Pass()]
        return [ast.fix_missing_locations(ast.copy_location(one, node)) for one in made]

    def _case(self, case: ast.match_case, subject: ast.expr, rest: list) -> list[ast.stmt]:
        names: list[str] = []
        test = self._test(case.pattern, subject, names)
        taken = [ast.Assign([ast.Name(name, ast.Store())], deepcopy(subject)) for name in names]
        if case.guard is None:
            body = [*taken, *case.body]
            return body if test is None else [_if(test, body, rest, case)]
        if test is None:
            return [*taken, _if(case.guard, case.body, rest, case)]
        both = ast.BoolOp(ast.And(), [test, case.guard])
        before = [_if(deepcopy(test), taken, [], case)] if taken else []
        return [*before, _if(both, case.body, rest, case)]

    def _test(self, pattern: ast.pattern, subject: ast.expr, names: list[str]) -> ast.expr | None:
        """The condition under which a pattern fits; None for always. Adds the names it sets."""
        if isinstance(pattern, ast.MatchValue):
            return ast.Compare(deepcopy(subject), [ast.Eq()], [pattern.value])
        if isinstance(pattern, ast.MatchSingleton):
            return ast.Compare(deepcopy(subject), [ast.Is()], [ast.Constant(pattern.value)])
        if isinstance(pattern, ast.MatchAs):
            inner = pattern.pattern and self._test(pattern.pattern, subject, names)
            names += [pattern.name] if pattern.name else []
            return inner
        if isinstance(pattern, ast.MatchOr):
            tests = [self._test(one, subject, names) for one in pattern.patterns]
            return None if None in tests else ast.BoolOp(ast.Or(), tests)
        raise self.refuse(pattern, f"{ast.unparse(pattern)}: {REASON}")


def _if(test: ast.expr, body: list, rest: list, case: ast.match_case) -> ast.stmt:
    return ast.copy_location(ast.If(test, body, rest), case.pattern)
