"""Pages of the packages' interfaces, which Sphinx fills from docstrings."""

import importlib
import inspect
import itertools
import pkgutil
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import course.kernels
import course_app
import course_models

#: Packages whose folders and files have a page each.
HOMES = course.kernels, course_app, course_models
#: Of a picture, what Matplotlib's own documentation says.
_OF_MATPLOTLIB = "add_axes, add_subplot, text, legend, set"


def write(source: Path) -> None:
    """Write the pages of faces, of each family of kernels and each part of the other packages."""
    folder = source / "interfaces"
    folder.mkdir(exist_ok=True)
    for name in ("course", "warpsim", "warpsim.ptx"):
        (folder / f"{name}.rst").write_text(_face(importlib.import_module(name)), encoding="utf-8")
    found = (pkgutil.iter_modules(home.__path__, f"{home.__name__}.") for home in HOMES)
    for family in itertools.chain.from_iterable(found):
        text = _heading(family.name)
        if family.ispkg and not family.name.startswith("course.kernels."):
            text += f".. automodule:: {family.name}\n\n"  # its parts say what its names are
        else:
            text += _module(family.name)
        if family.ispkg:
            package = importlib.import_module(family.name)
            for part in pkgutil.iter_modules(package.__path__, f"{family.name}."):
                text += _heading(part.name.removeprefix(f"{family.name}."), "-") + _module(
                    part.name
                )
        (folder / f"{family.name}.rst").write_text(text, encoding="utf-8")


def plain_kernels() -> None:
    """Replace the course's kernels by their Python functions, for autodoc to read."""
    for home in HOMES:
        for module in pkgutil.walk_packages(home.__path__, f"{home.__name__}."):
            importlib.import_module(module.name)
    for name, module in list(sys.modules.items()):
        if name.startswith(tuple(home.__name__ for home in HOMES)):
            for each, value in list(vars(module).items()):
                if function := getattr(value, "py_func", None):
                    setattr(module, each, function)


def _heading(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def _module(name: str) -> str:
    return f".. automodule:: {name}\n   :members:\n   :exclude-members: {_OF_MATPLOTLIB}\n\n"


def _arguments(function: Callable) -> str:
    """The arguments that an instruction's docstring says; its function's first one is Numba's."""
    call = re.match(r"``(?:[\w, ]+ = )?\w+(\(.*?\))``", function.__doc__ or "")
    return call[1] if call else ""


def _face(package: ModuleType) -> str:
    """Return a page of the names that a package offers, modules of its own last."""
    name = package.__name__
    text = _heading(name) + f".. automodule:: {name}\n\n"
    parts = []
    for each in package.__all__:
        value = getattr(package, each)
        if inspect.ismodule(value):
            own = value.__name__.startswith(f"{name}.") and value.__name__ != f"{name}.kernels"
            parts += [value.__name__] if own else []
        elif inspect.isclass(value):
            text += f".. autoclass:: {name}.{each}\n   :members:\n\n"
        elif callable(value) and hasattr(value, "__name__"):
            text += f".. autofunction:: {name}.{each}{_arguments(value)}\n\n"
        elif callable(value):  # an object that is called, such as predict
            kind = type(value)
            text += f".. autoclass:: {kind.__module__}.{kind.__name__}\n   :members: __call__\n\n"
    for part in parts:
        text += _heading(part, "-") + _module(part)
    return text
