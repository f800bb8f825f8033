"""The findings of a whole test suite: each once, with its tests, and which of them are accepted."""

import ast
import json
import linecache
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from warpsim.core.own_files import write_json
from warpsim.core.words import count, wrapped
from warpsim.run.program_findings import Collected, Found
from warpsim.watch.findings import MOST_TOLD

#: ``# warpsim: race ok, why``; of several kinds ``race, out-of-bounds ok, why``.
_COMMENT = re.compile(r"#\s*warpsim:\s*([\w, -]+?)\s+ok\b\s*[,:;-]?\s*(.*)")


class BadBaseline(ValueError):
    """A baseline that cannot be read; the text says why."""


@dataclass
class Told(Found):
    """A finding of a suite."""

    tests: list[str] = field(default_factory=list)  # none for what happens outside of tests
    failed: bool = False  # it failed a test, or would have: not accepted there
    accepted: str = ""  # by what: "comment: why", "mark" or "baseline"


class Suite:
    """What all tests found; a baseline's files are relative to the root."""

    def __init__(self, root: Path, baseline: str | None = None):
        self.root = root
        self.told: dict[tuple, Told] = {}
        self.launches = 0
        self.outside = False  # an error that no test had, such as of an import
        self.known = set(map(tuple, _read(Path(baseline)))) if baseline else set()
        self.met: set[tuple] = set()

    # ------------------------------------------------------------------ taking
    def add(self, collected: Collected, test: str, accepted: tuple[str, ...]) -> list[Found]:
        """Take the findings of a test's phase; returns the errors that nothing accepts."""
        self.launches += collected.launches
        errors = []
        for found in collected.findings:
            one = self._one(found, test)
            if not found.error:
                continue
            why = "mark" if found.kind in accepted else self._accepts(found)
            if why:
                one.accepted = why
            else:
                one.failed = True
                self.outside |= not test
                errors.append(found)
        return errors

    def _one(self, found: Found, test: str) -> Told:
        of = found.kind, found.error, found.kernel, found.file, found.line, found.code
        one = self.told.setdefault(of, Told(*of, found.message))
        one.launches += found.launches
        if test and test not in one.tests:
            one.tests.append(test)
        return one

    def _key(self, found: Found) -> tuple[str, str, str, str]:
        path = Path(found.file)
        inside = path.is_relative_to(self.root) and "site-packages" not in path.parts
        file = path.relative_to(self.root).as_posix() if inside else path.name
        return file, found.kernel, found.kind, found.code

    def _accepts(self, found: Found) -> str:
        key = self._key(found)
        if key in self.known:
            self.met.add(key)
            return "baseline"
        for line in _lines(found.file, found.line):
            comment = _COMMENT.search(line)
            if comment and found.kind in re.split(r"[,\s]+", comment[1]):
                if comment[2].strip():
                    return f"comment: {comment[2].strip()}"
                found.message += " (the comment that would accept it gives no reason: add one)"
        return ""

    def merge(self, other: dict[str, Any] | None) -> None:
        if other is None:
            return
        self.launches += other["launches"]
        self.outside |= other["outside"]
        self.met |= set(map(tuple, other["met"]))
        for entry in other["findings"]:
            theirs = Told(**entry)
            for test in theirs.tests or [""]:
                one = self._one(theirs, test)
                theirs.launches = 0
            one.failed |= theirs.failed
            one.accepted = one.accepted or theirs.accepted

    # ------------------------------------------------------------------ telling
    @property
    def any_error(self) -> bool:
        return any(one.failed for one in self.told.values())

    @property
    def stale(self) -> list[tuple]:
        return sorted(self.known - self.met)

    def as_json(self) -> dict[str, Any]:
        """Numbers and text alone, for `json.dump`."""
        return {
            "launches": self.launches, "outside": self.outside,
            "findings": [asdict(one) for one in self._sorted()],
            "met": sorted(self.met), "stale": self.stale,
        }  # fmt: skip

    def _sorted(self) -> list[Told]:
        told = self.told.values()
        return sorted(told, key=lambda one: (not one.failed, not one.error, -len(one.tests)))

    def write(self, file: Path) -> None:
        write_json(file, self.as_json())

    def rebase(self, file: Path) -> None:
        """A baseline that accepts every error that no comment and no mark accepts."""
        keys = {self._key(one) for one in self.told.values() if one.failed} | self.met
        names = "file", "kernel", "kind", "code"
        write_json(file, [dict(zip(names, key, strict=True)) for key in sorted(keys)])

    def summary(self, more: str, most: int | None = MOST_TOLD) -> str:
        """Each line with a finding once, and how many tests have it; nothing where none has."""
        told = self._sorted()
        if not told and not self.stale:
            return ""
        errors = sum(one.failed for one in told)
        accepted = [one for one in told if one.accepted and not one.failed]
        tests = {test for one in told if one.failed for test in one.tests}
        lines = [
            f"{count(errors, 'error')} in {count(len(tests), 'test')}, "
            f"{len(accepted):,} accepted, {len(told) - errors - len(accepted):,} of advice; "
            f"{self.launches:,} launched"
        ]
        shown = told if most is None else [one for one in told if one.error][:most]
        for one in shown:
            where = count(len(one.tests), "test") if one.tests else "outside of tests"
            state = f" [accepted by {one.accepted}]" if one.accepted and not one.failed else ""
            lines.append(f"{one.place}: {one.kind}, {where}: {one.code}{state}")
            if one.failed:
                lines.append(wrapped(one.message, "    ", ""))
        if len(shown) < len(told):
            lines.append(f"{len(told) - len(shown):,} more{': ' + more if more else ''}")
        lines += [
            f"the baseline lists what no test has met: {kind} in {kernel} of {file}: {code}"
            for file, kernel, kind, code in self.stale
        ]
        return "\n".join(lines)


def _lines(file: str, line: int) -> Iterable[str]:
    """The lines of the statement that begins at, or holds, a line."""
    text = linecache.getlines(file)
    first = last = line
    with suppress(SyntaxError):  # of a cell with magics: the line alone
        for node in ast.walk(ast.parse("".join(text))):
            is_simple = isinstance(node, ast.stmt) and not hasattr(node, "body")
            if is_simple and node.lineno <= line <= node.end_lineno:
                first, last = min(first, node.lineno), max(last, node.end_lineno)
    return text[first - 1 : last]


def _read(file: Path) -> list[tuple[str, ...]]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        return [(one["file"], one["kernel"], one["kind"], one["code"]) for one in entries]
    except OSError as error:
        raise BadBaseline(f"{file}: {error.strerror}; --warpsim-write-baseline makes it") from None
    except (ValueError, TypeError, KeyError):
        raise BadBaseline(
            f"{file} is no list of file, kernel, kind and code; --warpsim-write-baseline makes one"
        ) from None
