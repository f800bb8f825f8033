"""Packages whose names are loaded when they are first used: importing one costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from course import old_names


def face(
    package: str, names_in: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """A package's ``__getattr__``, ``__dir__`` and ``__all__``.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    names_in : mapping
        For each module the names that are taken from it, between spaces; for the package itself
        those of its own modules.

    Examples
    --------
    >>> __getattr__, __dir__, __all__ = face(__name__, {"course.images.reading": "load_image"})
    """

    old = old_names.elsewhere(package)
    home = {name: module for module, names in names_in.items() for name in names.split()}

    def load(name: str) -> Any:
        if (module := home.get(name)) is None:
            try:
                return old(name)
            except AttributeError:
                raise AttributeError(
                    f"module {package!r} has no attribute {name!r}; it has "
                    f"{', '.join(sorted(home))}"
                ) from None
        own = module == package
        value = import_module(f"{package}.{name}") if own else getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home})

    return load, names, sorted(home)
