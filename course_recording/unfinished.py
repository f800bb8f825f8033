"""What a stopped bench has measured: kept beside the subject's file until that one is written."""

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
from course.measure.recorded import COLUMNS, Figure

#: Folders whose code figures depend on: what measures, and what is measured.
MEASURED = course, course_models, course_app, course_lessons
ROOMS = tuple(Path(file).parent for file in (__file__, *(its.__file__ for its in MEASURED)))


def sources(rooms: Iterable[Path] = ROOMS) -> str:
    """A digest of the code in some folders: a kernel that was changed is measured anew."""
    digest = hashlib.sha256()
    for room in rooms:
        for path in sorted(room.rglob("*.py")):
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
        What figures depend on, such as GPU, driver, versions and `sources`: parts of others are
        not taken.
    parts : dict
        Rows and notes of each part.
    """

    path: Path | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    parts: dict[str, tuple[list[Figure], list[str]]] = field(default_factory=dict)

    @classmethod
    def found(cls, path: Path, facts: Mapping[str, str], say: Callable[[str], None]) -> Unfinished:
        """What was kept in a file, if it is there, can be read and is of the same facts."""
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
        except Exception as problem:  # half a dozen kinds, by what stands where
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
