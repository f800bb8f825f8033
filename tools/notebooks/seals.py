"""The seal of a generated notebook: a hash of all the rest of it, in its metadata.

A notebook that does not fit its seal was changed by somebody, a student most likely, since
``make notebooks`` wrote it. It is not written over.
"""

import copy
import hashlib
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_lessons.copies import notebooks_in
from tools import command
from tools.notebooks import lessons

KINDS = ("notebooks", "solutions")
KEY = "written"  # below "course" in the notebook's metadata


def text_of(node: NotebookNode) -> str:
    """Return the text of a notebook's file, sealed; the same notebook gives the same text."""
    sealed = copy.deepcopy(node)
    sealed.metadata.course[KEY] = _seal(node)
    return _plain_text(sealed)


def _plain_text(node: NotebookNode) -> str:
    return nbformat.writes(node, version=4).rstrip("\n") + "\n"


def _seal(node: NotebookNode) -> str:
    """Return the SHA-256 of a notebook without its seal: text, metadata and outputs."""
    bare = copy.deepcopy(node)
    bare.metadata.course.pop(KEY, None)
    return hashlib.sha256(_plain_text(bare).encode("utf-8")).hexdigest()


def read(target: Path) -> NotebookNode | None:
    """Return the notebook in a file; None where there is none, or something else."""
    try:
        return nbformat.read(target, as_version=4)
    except (OSError, ValueError):
        return None


def is_sealed(node: NotebookNode) -> bool:
    """Tell whether a notebook has a seal, fitting or not."""
    return KEY in node.metadata.get("course", {})


def is_as_written(target: Path) -> bool:
    """Tell whether a file is what the generator last wrote there, outputs included."""
    node = read(target)
    return node is not None and is_sealed(node) and node.metadata.course[KEY] == _seal(node)


def refusals(targets: Iterable[Path]) -> list[str]:
    """List those notebooks of `targets` that somebody changed, each with what to do about it."""
    return [_refusal(target) for target in targets if target.exists() and not is_as_written(target)]


def all_refusals(root: Path = lessons.ROOT) -> list[str]:
    """List the notebooks of a repository that somebody changed, as `refusals` does."""
    return refusals(target for kind in KINDS for target in notebooks(root, kind))


def notebooks(root: Path, kind: str) -> list[Path]:
    """Return the notebooks in the folder `kind` of a repository, in order."""
    return notebooks_in(root / kind)


def _refusal(target: Path) -> str:
    kind, name = target.parent.name, f"{target.parent.name}/{target.name}"
    if kind == "notebooks":
        rescue = f"`{command('tools.work')} --new {target.name[:2]}` copies it into work/"
    else:
        rescue = (
            "what shall stay belongs into "
            f"course_lessons/lesson{target.stem[:2]}/{target.stem[3:]}.py"
        )
    return (
        f"{name}: changed since `make notebooks` wrote it, so it is left as it is; {rescue}. Then "
        f"`git checkout {name}` takes the change back, or `make notebooks FORCE=1` writes over it "
        "(and executes every solution again)"
    )
