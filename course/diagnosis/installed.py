"""How the course came here, and how more of it comes the same way."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

CLONE, COLAB, WHEEL = "clone", "Colab", "pip"
_ROOT = Path(__file__).resolve().parents[2]


def installed_as() -> str:
    """`CLONE` (it runs from a clone's own files), `COLAB`, or `WHEEL` (pip brought it)."""
    if "google.colab" in sys.modules:
        return COLAB
    return CLONE if (_ROOT / "pyproject.toml").is_file() else WHEEL


def bring(extra: str) -> str:
    """The command that installs an extra of the course where it runs now.

    In a clone the extra itself; elsewhere what is in it, since pip would fetch the course anew.
    """
    if installed_as() == CLONE:
        return f'python -m pip install -e ".[{extra}]"'
    return " ".join(["python -m pip install", *(f'"{each}"' for each in requirements(extra))])


def requirements(extra: str) -> list[str]:
    """What an extra of the installed course requires, as pip takes it."""
    found = []
    for line in metadata.requires("course") or ():
        requirement, _, condition = line.partition(";")
        if f"extra == '{extra}'" in condition.replace('"', "'"):
            found.append(requirement.strip())
    return found
