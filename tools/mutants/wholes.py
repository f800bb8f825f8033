"""Mutants that know something of the cases: listed sizes, values, or what came out before."""

from __future__ import annotations

from ast import unparse
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from tools.mutants.subjects import Change, Subject, indented, is_sized, literal, suite


def known_cases(of: Subject) -> Iterator[Change]:
    """Right for the listed cases' sizes and numbers, or the first's, and otherwise nothing."""
    listed = [n for n, case in enumerate(of.exercise.cases) if case.seed is None]
    given = [of.arguments(number) for number in listed]
    terms = {name: _term(name, [each[name] for each in given]) for name in of.parameters}
    terms = {name: term for name, term in terms.items() if term}
    known = [tuple(_known(each[name]) for name in terms) for each in given]
    for some in (known, known[:1]):
        test = f"({', '.join(terms.values())},) in {[*dict.fromkeys(some)]}"
        if of.is_kernel:
            array = _first_result(of)
            sizes = sorted({each[array].size for each in given[: len(some)]})
            yield _guarded(of, " or ".join(f"{array}.size == {size}" for size in sizes))
        elif terms and len(given) > 1 and len(test) < 3000:
            yield _wrapped(of, f"value if {test} else _other(value)", OTHER.format("+ 1"))


def _term(name: str, values: list[Any]) -> str:
    """What of an argument tells cases apart, as text: its shape or itself; "" for nothing."""
    if all(isinstance(value, np.ndarray) for value in values):
        return f"{name}.shape"
    return f"repr({name})" if None not in [literal(value, False) for value in values] else ""


def _known(value: Any) -> Any:
    return value.shape if isinstance(value, np.ndarray) else repr(value)


def _first_result(of: Subject) -> str:
    """The solution's name of the array that a kernel writes first."""
    name = (of.exercise.outputs + of.exercise.updated)[0]
    return of.parameters[list(of.exercise.parameters).index(name)]


def _guarded(of: Subject, test: str) -> str:
    """The kernel with its whole body below a condition; declarations of arrays stay above."""
    arrays = [node for node in of.whole.body if ".array(" in unparse(node)]
    body = suite(node for node in of.whole.body if node not in arrays)
    return of.with_body("\n".join([*map(unparse, arrays), f"if {test}:", indented(body)]))


OTHER = """
def _other(value):
    if isinstance(value, (tuple, list)):
        return type(value)(map(_other, value))
    return value {} if isinstance(value, (int, float, np.number, np.ndarray)) else value
"""


def _wrapped(of: Subject, returned: str, above: str = "") -> str:
    """The solution under another name, and a function that changes what it returns."""
    name, parameters = of.whole.name, ", ".join(of.parameters)
    right = of.text.replace(f"def {name}(", "def _right(")
    last = f"def {name}({parameters}):\n    value = _right({parameters})\n    return {returned}\n"
    return "\n".join([above, right, last])


def limited_sizes(of: Subject) -> Iterator[Change]:
    """Right up to a size, as one block, one warp or a table of that size would be."""
    if not of.is_kernel:
        return
    array = _first_result(of)
    sizes = [of.arguments(n)[array].size for n in range(len(of.exercise.cases))]
    for size in (32, 1024, max(sizes) // 2, max(sizes) - 1):
        if min(sizes) <= size:
            yield _guarded(of, f"{array}.size <= {size}")


def kept_results(of: Subject) -> Iterator[Change]:
    """What came out before for arguments of the same shapes, or for any."""
    if of.is_kernel or not of.parameters or of.exercise.caller is not None:
        return
    for key in ("1", f"repr([getattr(a, 'shape', a) for a in ({', '.join(of.parameters)},)])"):
        yield _wrapped(of, f"_kept.setdefault({key}, value)", "_kept = {}")


def frozen_results(of: Subject) -> Iterator[Change]:
    """Nothing is computed: 0, or what is right in the first case."""
    if not of.is_kernel and of.parameters and of.exercise.caller is None:
        yield _wrapped(of, "_other(value)", OTHER.format("* 0"))
        value = of.define(of.text, "the solution")(*deepcopy(list(of.given.values())))
        if literal(value, False):
            yield of.with_body(f"return {literal(value, False)}")


def orders(of: Subject) -> Iterator[Change]:
    """What is given is taken in rising order, or from the end."""
    for name, value in of.given.items():
        if not of.is_kernel and is_sized(value) and not isinstance(value, dict):
            rising = "sorted({0})" if isinstance(value, list) else "np.sort({0}, axis=0)"
            for new in (rising, "{0}[::-1]"):
                first = of.whole.body[0]
                yield first, f"{name} = {new.format(name)}\n{unparse(first)}"


#: The kind of an answer is the name of what makes it.
OPERATORS = (
    known_cases, limited_sizes, kept_results, frozen_results, orders,
)  # fmt: skip
