"""Mutants that know something of the cases: listed sizes, values, or what came out before."""

from __future__ import annotations

import textwrap
from ast import unparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from tools.mutants.subjects import Change, Subject, literal


def known_cases(of: Subject) -> Iterator[Change]:
    """Right for the listed cases' sizes and numbers, for the first's alone, otherwise nothing."""
    listed = [n for n, case in enumerate(of.exercise.cases) if case.seed is None]
    given = [of.arguments(number) for number in listed]
    keys = {name: _key(name, [each[name] for each in given], of) for name in of.parameters}
    terms = [key for key in keys.values() if key]
    if not terms or len(listed) < 2:
        return
    values = [tuple(_known(each[name]) for name, key in keys.items() if key) for each in given]
    for known in (values, values[:1]):
        yield from _only(of, terms, list(dict.fromkeys(known)))


def _key(name: str, values: list[Any], of: Subject) -> str | None:
    """What of an argument tells cases apart, as text: its shape, its length or itself."""
    if all(isinstance(value, np.ndarray) for value in values):
        return f"{name}.size" if of.is_kernel else f"{name}.shape"
    if of.is_kernel or any(literal(value, False) is None for value in values):
        return None
    return f"repr({name})"


def _known(value: Any) -> Any:
    return value.shape if isinstance(value, np.ndarray) else repr(value)


def _only(of: Subject, terms: list[str], known: list[tuple[Any, ...]]) -> Iterator[Change]:
    if of.is_kernel:
        sizes = sorted({int(np.prod(shapes[0])) for shapes in known})
        test = " or ".join(f"{terms[0]} == {size}" for size in sizes)
        yield _guarded(of, test)
    elif sum(len(repr(each)) for each in known) < 3000:
        test = f"({', '.join(terms)},) not in {known!r}"
        yield _returning_early(of, test)


def _guarded(of: Subject, test: str) -> str:
    """The kernel with its whole body below a condition; declarations of arrays stay above."""
    arrays = [node for node in of.whole.body if ".array(" in unparse(node)]
    body = "\n".join(unparse(node) for node in of.whole.body if node not in arrays)
    inner = "\n".join([*map(unparse, arrays), f"if {test}:", textwrap.indent(body, "    ")])
    return with_body(of, inner)


def with_body(of: Subject, inner: str, above: str = "") -> str:
    """The solution with another body of its function."""
    others = [unparse(node) for node in of.tree.body if node is not of.whole]
    marks = [f"@{unparse(mark)}" for mark in of.whole.decorator_list]
    head = f"def {of.whole.name}({', '.join(of.parameters)}):"
    return "\n".join([*others, above, *marks, head, textwrap.indent(inner, "    ")]) + "\n"


def _returning_early(of: Subject, test: str) -> Change:
    """The function that, where the test holds, returns half of the right numbers."""
    above = textwrap.dedent(
        """
        def _other(value):
            if isinstance(value, (tuple, list)):
                return type(value)(map(_other, value))
            if isinstance(value, (int, float, np.number, np.ndarray)):
                return value + 1
            return value
        """
    )
    return _wrapped(of, f"_other(value) if {test} else value", above)


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
    results = of.exercise.outputs + of.exercise.updated
    place = list(of.exercise.parameters).index(results[0])
    array = of.parameters[place]
    if array in of.stored:
        return
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


#: Operators by the kind of mutant that they make.
OPERATORS = {
    "known cases": known_cases,
    "limited size": limited_sizes,
    "kept result": kept_results,
}
