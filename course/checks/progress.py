"""What was checked, in this session and in earlier ones, and how a learner shows it to somebody.

It is kept in the user's own folder beside the own figures, a line a verdict, and a text for each
answer that passed, which `mine` gives; `progress(clear=True)` deletes both. What grades or executes
solutions (COURSE_GRADING, COURSE_STRICT) leaves it alone.

The module is not called `progress`, since `course.progress` must stay the function.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import inspect
import json
import os
import textwrap
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from course.checks import answers, kept, verdicts
from course.checks.exercises import Exercise, exercises, find_exercise
from course.checks.verdicts import SYMBOLS, Verdict
from course.files import make_folder, progress_file, write_whole
from warpsim.core.words import count, wrapped

PROVES_NOTHING = (
    "This table is the learner's own statement: anybody can edit it. "
    "The fingerprint of an answer is made from its source, so that it can be compared with the "
    "notebook handed in; the digest belongs to the rows above it."
)
ELSEWHERE = "COURSE_PROGRESS names another file, or is off."
NOT_STARTED = "not started", "not-started", ""  # status, kind, answer


@dataclass(frozen=True)
class Record:
    """One check: exercise, outcome, fingerprint of the answer's source, UTC date."""

    exercise: str
    lesson: int
    status: str
    kind: str
    answer: str
    date: str


_records: dict[str, Record] = {}
_failed: dict[str, set[str]] = {}  # by exercise: fingerprints of the answers that failed
_passed: dict[str, Any] = {}  # by exercise: the latest answer that passed
_trouble: str | None = None


def fingerprint(answer: Any) -> str:
    """Eight hexadecimal digits of the SHA-256 of an answer's source; "" where it has none.

    Indentation in front of the whole, blank lines and trailing blanks do not count.
    """
    function = answers.plain_function(answer)
    if function is None:
        return ""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return ""
    lines = [line.rstrip() for line in source.splitlines() if line.strip()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]


def _text_of(name: str) -> Path | None:
    """The file in which the answer to an exercise is kept; None where none is."""
    path = progress_file()
    return path and path.with_name(f"{path.stem}-passed") / f"{name}.py"


def record(exercise: Exercise, verdict: Verdict, answer: Any) -> None:
    """Keep a verdict for the session, and for later ones what is no mere stub.

    A file that cannot be written does not disturb the check; `progress()` says so.
    """
    global _trouble
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    entry = Record(
        exercise.name, exercise.lesson, verdict.status, verdict.kind, fingerprint(answer), now
    )
    _records[exercise.name] = entry
    if verdict.status == "failed":
        _failed.setdefault(exercise.name, set()).add(entry.answer)
    if verdict.status == "passed":
        _passed[exercise.name] = answer
    path = progress_file()
    if path is None or verdict.status == "not started":
        return
    try:
        if not os.environ.get("COURSE_PROGRESS"):
            make_folder(path.parent)
        _append(path, json.dumps(asdict(entry)) + "\n")
        if verdict.status == "passed" and (text := kept.text_to_keep(exercise, answer)):
            text_file = _text_of(exercise.name)
            make_folder(text_file.parent)
            write_whole(text_file, text)
        _trouble = None
    except OSError as error:
        why = error.strerror or str(error)
        _trouble = f"Not kept: {_name(path)} cannot be written: {why}. {ELSEWHERE}"


def latest(name: str) -> Record | None:
    """The latest verdict on an exercise in this session."""
    return _records.get(name)


def tries(name: str, answer: Any = None) -> int:
    """How many answers to an exercise have failed in this session, each counted once.

    With `answer`: how many others than this one; so the verdict on an answer that is checked again
    unchanged stays the same. Answers without a source are one.
    """
    return len(_failed.get(name, set()) - ({fingerprint(answer)} if answer is not None else set()))


def mine(name: str, otherwise: Any) -> Any:
    """Your own answer that has passed ``check(name, …)``, in this session or an earlier one.

    Says in a line whose it gives.

    Parameters
    ----------
    name : str
        Name of the exercise, of this lesson or an earlier one.
    otherwise : kernel or function
        The package's, with the arguments of the exercise: what you get where no answer of yours has
        passed, or none was kept (COURSE_PROGRESS).

    Returns
    -------
    kernel or function

    Raises
    ------
    UnknownExercise
        When no exercise has that name.
    """
    exercise = find_exercise(name)
    if (answer := _passed.get(name)) is not None:
        print(f"{name}: yours.")
        return answer
    path = _text_of(name)
    if path is None or not path.exists():
        print(wrapped(f"{name}: the package's; yours, once it has passed check({name!r}, …)."))
        return otherwise
    try:
        answer = kept.read(exercise, path)
    except kept.CannotKeep as error:
        print(wrapped(f"{name}: the package's, since yours in {_name(path)} {error}"))
        return otherwise
    print(wrapped(f"{name}: yours, from {_name(path)}."))
    return answer


def _append(path: Path, line: str) -> None:
    # One write of a file opened for appending: lines of two notebooks do not mix.
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        # after a line that a full disk cut off, this one begins anew
        size = os.lseek(handle, 0, os.SEEK_END)
        if size and os.lseek(handle, -1, os.SEEK_END) >= 0 and os.read(handle, 1) != b"\n":
            line = "\n" + line
        if os.write(handle, line.encode()) < len(line.encode()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(handle)


def _name(path: Path) -> str:
    """A file's path, short where it lies below the user's home."""
    home = os.path.expanduser("~")
    text = str(path)
    return "~" + text.removeprefix(home) if text.startswith(home + os.sep) else text


def _earlier() -> tuple[dict[str, Record], str | None]:
    """Latest records of the file in which they are kept, and what there is to say of it."""
    path = progress_file()
    if path is None:
        return {}, None
    found: dict[str, Record] = {}
    unreadable = 0
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}, None
    except (OSError, UnicodeDecodeError) as error:
        why = type(error).__name__
        return {}, f"{_name(path)}, where progress is kept, cannot be read: {why}. {ELSEWHERE}"
    for line in filter(None, lines):
        try:
            entry = Record(**json.loads(line))
            words = [value for name, value in vars(entry).items() if name != "lesson"]
            if not all(isinstance(word, str) for word in words) or entry.status not in SYMBOLS:
                raise ValueError(line)
        except (ValueError, TypeError, RecursionError):
            unreadable += 1
            continue
        found[entry.exercise] = entry
    said = f"Kept in {_name(path)}; progress(clear=True) deletes it."
    if unreadable:
        said += f" {count(unreadable, 'line')} of it cannot be read and are left out."
    return found, said


def known() -> dict[str, Record]:
    """The latest verdict on whatever was asked, by name, in this session or an earlier one."""
    return _known()[0]


def _known() -> tuple[dict[str, Record], str | None]:
    found, said = _earlier()
    for name, entry in _records.items():
        before = found.get(name)
        if before is None or (entry.status != "not started" and entry.date >= before.date):
            found[name] = entry
    return found, said


@dataclass(frozen=True)
class Row:
    """One exercise in the table; `answer` is the fingerprint of the latest answer."""

    lesson: int
    exercise: str
    title: str
    status: str
    kind: str
    answer: str

    of_kind = property(lambda self: f" ({self.kind})" if self.status == "failed" else "")


@dataclass(frozen=True)
class Progress:
    """The exercises of the lessons that were touched, with the latest status of each."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> int:
        return sum(row.status == "passed" for row in self.rows)

    def __repr__(self) -> str:
        if not self.rows:
            lines = ["Nothing was checked yet."]
        else:
            lines = [f"{self.passed} of {len(self.rows)} exercises passed"]
        width = max((len(row.exercise) for row in self.rows), default=0)
        for lesson, rows in groupby(self.rows, key=lambda row: row.lesson):
            lines.append(f"Lesson {lesson:02d}")
            for row in rows:
                line = f"  {SYMBOLS[row.status]} {row.exercise:<{width}}  {row.title}{row.of_kind}"
                lines.append(wrapped(line, hanging=" " * (width + 4)))
        return "\n".join([*lines, *map(wrapped, self.notes)])

    def _repr_html_(self) -> str:
        head, *_ = str(self).splitlines()
        lines = [verdicts.bar(self.passed, len(self.rows))] if self.rows else []
        for lesson, rows in groupby(self.rows, key=lambda row: row.lesson):
            lines.append(f"<b>Lesson {lesson:02d}</b>")
            for row in rows:
                name = f"<code>{verdicts.marked(row.exercise)}</code>"
                said = verdicts.marked(row.title) + verdicts.marked(row.of_kind)
                lines.append(f"{SYMBOLS[row.status]} {name} {said}")
        lines += map(verdicts.marked, self.notes)
        sign = "✓" if self.rows and self.passed == len(self.rows) else "○"
        return verdicts.box(sign, verdicts.marked(head), lines, ground=False)

    def digest(self) -> str:
        """Twelve hexadecimal digits of the SHA-256 of the rows, the same on every machine."""
        text = json.dumps([asdict(row) for row in self.rows], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_markdown(self) -> str:
        """The table as Markdown, with date and digest."""
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        lines = [
            "# Course progress",
            "",
            f"{today} (UTC) · {self.passed} of {len(self.rows)} exercises passed",
            "",
            "| lesson | exercise | title | status | answer |",
            "|---|---|---|---|---|",
        ]
        for row in self.rows:
            status = f"{SYMBOLS[row.status]} {row.status}{row.of_kind}"
            title = row.title.replace("|", "\\|")
            lines.append(
                f"| {row.lesson:02d} | {row.exercise} | {title} | {status} | {row.answer} |"
            )
        return "\n".join([*lines, "", f"Digest: {self.digest()}", "", PROVES_NOTHING, ""])

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the table as Markdown, whole or not at all.

        Raises
        ------
        OSError
            When the folder does not exist or cannot be written; an older file stays as it was.
        """
        target = Path(path)
        write_whole(target, self.to_markdown())
        return target


def progress(lesson: int | None = None, *, clear: bool = False) -> Progress:
    """The exercises of every lesson touched, in this session or an earlier one, or of one lesson.

    Parameters
    ----------
    lesson : int, optional
        Show this lesson, touched or not.
    clear : bool
        Forget all verdicts, of earlier sessions, too: the file in which they are kept is deleted.

    Returns
    -------
    Progress
        Shows itself, and where it is kept; `.save("progress.md")` writes it.

    Raises
    ------
    ValueError
        When the lesson has no exercises.
    OSError
        When the file cannot be deleted.
    """
    global _trouble
    if clear:
        for its in (_records, _failed, _passed):
            its.clear()
        _trouble = None
        if path := progress_file():
            path.unlink(missing_ok=True)
            texts = _text_of("").parent
            for text in texts.glob("*.py"):
                text.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # there is none, or something else is in it
                texts.rmdir()
    latest, note = _known()
    declared = exercises()
    if lesson is not None and lesson not in {e.lesson for e in declared.values()}:
        known = ", ".join(map(str, sorted({e.lesson for e in declared.values()})))
        raise ValueError(f"progress: lesson {lesson} has no exercises; these have: {known}")
    touched = {e.lesson for e in declared.values() if e.name in latest}
    wanted = touched if lesson is None else {lesson}
    rows = []
    for exercise in declared.values():
        if exercise.lesson in wanted:
            entry = latest.get(exercise.name)
            told = (entry.status, entry.kind, entry.answer) if entry else NOT_STARTED
            rows.append(Row(exercise.lesson, exercise.name, exercise.title, *told))
    if clear:
        deleted = f", and {_name(path)} is deleted" if path else ""
        note = f"All verdicts are forgotten{deleted}."
    return Progress(tuple(rows), tuple(text for text in (note, _trouble) if text))
