"""Mutants that know something of the cases: listed sizes, values, or what came out before."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from copy import deepcopy

from tools.mutants.subjects import Change, Subject, indented, is_sized, literal


def known_cases(of: Subject) -> Iterator[Change]:
    """Right for the listed cases' sizes and numbers, or the first's, and otherwise nothing."""
    listed = [n for n, case in enumerate(of.exercise.cases) if case.seed is None]
    given = [of.arguments(number) for number in listed]
    for some in (given, given[:1]):
        if of.is_kernel:
            yield _up_to(of, f"in {tuple(sorted({each[of.results[0]].size for each in some}))}")
        known = [repr([getattr(a, "shape", a) for a in each.values()]) for each in some]
        if not of.is_kernel and len(given) > 1 and not any(" at 0x" in key for key in known):
            returned = f"value if {_key(of)} in {known} else _other(value)"
            yield of.wrapped(returned, OTHER.format("+ 1"))


def _key(of: Subject) -> str:
    """What tells a function's cases apart, as text: shapes, and what is no array."""
    return f"repr([getattr(a, 'shape', a) for a in ({', '.join(of.parameters)},)])"


def _up_to(of: Subject, sizes: str) -> str:
    """The kernel for results of these sizes alone."""
    return of.with_body(f"{of.arrays}if {of.results[0]}.size {sizes}:\n{indented(of.body)}")


OTHER = """
def _other(value):
    if isinstance(value, (tuple, list)):
        return type(value)(map(_other, value))
    return value {} if isinstance(value, (int, float, np.number, np.ndarray)) else value
"""


def limited_sizes(of: Subject) -> Iterator[Change]:
    """Right up to a size, as one block, one warp or a table of that size would be."""
    if not of.is_kernel:
        return
    sizes = [of.arguments(n)[of.results[0]].size for n in range(len(of.exercise.cases))]
    for size in (32, 1024, max(sizes) // 2, max(sizes) - 1):
        if min(sizes) <= size:
            yield _up_to(of, f"<= {size}")


def kept_results(of: Subject) -> Iterator[Change]:
    """What came out before for arguments of the same shapes, or for any."""
    if of.is_kernel or not of.parameters or of.exercise.caller is not None:
        return
    for key in ("1", _key(of))[: 1 if " at 0x" in repr(of.given) else 2]:  # an address tells none
        yield of.wrapped(f"_kept.setdefault({key}, value)", "_kept = {}\n")


def frozen_results(of: Subject) -> Iterator[Change]:
    """Nothing is computed: 0, or what is right in the first case."""
    if not of.is_kernel and of.parameters and of.exercise.caller is None:
        yield of.wrapped("_other(value)", OTHER.format("* 0"))
        value = of.define(of.text, "the solution")(*deepcopy(list(of.given.values())))
        if literal(value, False):
            yield of.with_body(f"return {literal(value, False)}")


def orders(of: Subject) -> Iterator[Change]:
    """What is given is taken in rising order, or from the end."""
    for name, value in of.given.items():
        if not of.is_kernel and is_sized(value) and not isinstance(value, dict):
            rising = "sorted({0})" if isinstance(value, list) else "np.sort({0}, axis=0)"
            yield of.before_all(f"{name} = {rising.format(name)}")
            yield of.before_all(f"{name} = {name}[::-1]")


def borrowed_references(of: Subject) -> Iterator[Change]:
    """What judges the answer is the answer."""
    reference = of.exercise.reference
    if of.is_kernel or reference is None or of.whole.decorator_list:
        return
    own = dict(zip(of.exercise.parameters, of.parameters, strict=True))
    taken = inspect.signature(reference).parameters.keys()
    if hasattr(inspect.getmodule(reference), reference.__name__) and own.keys() >= taken:
        given = ", ".join(f"{name}={own[name]}" for name in taken)
        above = f"from {reference.__module__} import {reference.__name__} as the_reference\n"
        yield above + of.with_body(f"return the_reference({given})")


#: The kind of an answer is the name of what makes it.
OPERATORS = (known_cases, limited_sizes, kept_results, frozen_results, orders, borrowed_references)
