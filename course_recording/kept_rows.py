"""Rows of earlier runs: of a run that was stopped, and of parts that are not measured anew.

Rows of a stopped run lie beside the subject's file until that is written; other parts' stay in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import course
import course_app
import course_lessons
import course_models
from course.files import write_whole
from course.measure.recorded import COLUMNS, Figure, Recording

#: Folders whose code the figures depend on: the code that measures, and the measured code.
MEASURED = course, course_models, course_app, course_lessons
FOLDERS = tuple(Path(file).parent for file in (__file__, *(its.__file__ for its in MEASURED)))

#: Lines of a header that may differ from run to run without any effect on the figures.
OF_A_RUN = ("date", "roofs", "command", "notes")


def sources(folders: Iterable[Path] = FOLDERS) -> str:
    """A digest of the code in some folders, so that a changed kernel is measured anew."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _digest(parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass
class Unfinished:
    """Parts of a subject that were measured, by name.

    Attributes
    ----------
    path : Path, optional
        The file; without it nothing is kept.
    facts : mapping
        What figures depend on, such as GPU, driver, versions and `sources`. Parts that were
        measured with other facts are not taken.
    parts : dict
        Rows and notes of each part.
    """

    path: Path | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    parts: dict[str, tuple[list[Figure], list[str]]] = field(default_factory=dict)

    @classmethod
    def found(cls, path: Path, facts: Mapping[str, str], say: Callable[[str], None]) -> Unfinished:
        """What was kept in a file, if the file can be read and its facts are the same."""
        its = cls(path, dict(facts))
        if not path.exists():
            return its
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            parts = {
                name: ([Figure(**row) for row in part["rows"]], list(part["notes"]))
                for name, part in kept["parts"].items()
            }
            if kept["digest"] != _digest(kept["parts"]):
                raise ValueError("changed since it was written")
            before = dict(kept["facts"])
        except Exception as problem:  # half a dozen types, by what is damaged
            say(f"  {path.name} cannot be read ({problem}): everything is measured anew")
            return its
        other = [key for key in its.facts if before.get(key) != its.facts[key]]
        if other:
            say(f"  {path.name} differs in {', '.join(other)}: everything is measured anew")
            return its
        its.parts = parts
        return its

    def add(self, name: str, rows: Iterable[Figure], notes: Iterable[str]) -> None:
        """Keep a part, and write the file, whole or not at all."""
        self.parts[name] = list(rows), list(notes)
        if self.path is None:
            return
        content: dict[str, Any] = {"facts": dict(self.facts), "parts": {}}
        for part, (figures, said) in self.parts.items():
            rows = [{column: getattr(figure, column) for column in COLUMNS} for figure in figures]
            content["parts"][part] = {"rows": rows, "notes": said}
        content["digest"] = _digest(content["parts"])
        write_whole(self.path, json.dumps(content))

    def remove(self) -> None:
        """Delete the file: the subject's own is written."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def beside_others(
    others: Recording | None, facts: Mapping[str, str], rows: list[Figure], parts: list[str]
) -> tuple[dict[str, str], list[Figure]]:
    """Header and rows of the file: new rows replace those of the same programs, or parts.

    The header is that of the other rows. Its notes name the parts, when they were measured, and
    what differed then. Where there are no other rows, the notes say so.
    """
    what = f"{', '.join(parts)}: measured alone"
    if others is None:
        return {**facts, "notes": joined(facts.get("notes"), f"{what}, and nothing else")}, rows
    header = dict(others.header)
    differing = [f"{key}={value}" for key, value in facts.items()
                 if key not in OF_A_RUN and header.get(key) != value]  # fmt: skip
    what = " ".join([what, f"on {facts['date']}", *differing])
    header["notes"] = joined(header.get("notes"), facts.get("notes"), what)
    new = {row.key for row in rows}
    old = (row for row in others.figures if row.key not in new and row.kernel not in parts)
    return header, [*old, *rows]


def joined(*notes: str | None) -> str:
    """Notes in one line, each once."""
    return "; ".join(dict.fromkeys(filter(None, notes)))
