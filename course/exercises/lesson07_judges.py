"""Answers that take lists and dictionaries get copies, and must leave them as they were."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from course.verdicts import Failure


def on_copies(answer: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call an answer with copies of its arguments, and return what it returns.

    For exercises whose arguments are lists and dictionaries: what is judged afterwards must be the
    case, not what the answer made of it.

    Raises
    ------
    Failure
        ``input-modified`` if the answer has changed one of them.
    """
    given = deepcopy(arguments)
    result = answer(*given)
    for old, new in zip(arguments, given, strict=True):
        if isinstance(old, list | dict) and (old != new or list(old) != list(new)):
            raise Failure(
                "input-modified",
                "What your function is given belongs to the caller, and it changed it: "
                f"{old!r:.70} is now {new!r:.70}. Work on a copy: sorted(x) and list(x) make new "
                "lists, dict(x) a new dictionary.",
            )
    return result
