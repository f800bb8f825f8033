"""Copies of the course's notebooks in a folder where somebody works, and nothing lost there.

Lessons that the folder does not have are copied. A file that its owner changed is left alone; where
its lesson has changed as well, that is said. A copy that nobody changed becomes the new lesson.

``.copied.json`` in the folder holds the SHA-256 of each file's original when it was copied: of its
cells' sources, for JupyterLab writes a notebook anew that somebody opened and did not touch.
"""

import argparse
import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from course import __version__
from course.files import make_folder, write_whole
from course.stopping import UsageError, called
from course_app.commands import reconstruct as reconstructing

RECORD = ".copied.json"
EDITED = "edited:"  # before the hash of an original that somebody changed
_HERE = Path(__file__).resolve().parent
HELP = """\
Copy the notebooks of this version to DIR. What you changed there is never written over; a copy
that you did not change becomes the lesson of this version.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the folder and the option of the command `lessons`."""
    where = "where you work; made if need be"
    parser.add_argument("folder", metavar="DIR", type=reconstructing.path, help=where)
    parser.add_argument(
        "--new", metavar="NN", help="put lesson NN, as it is in this version, beside yours"
    )


def run(arguments: argparse.Namespace) -> None:
    """Copy the lessons' notebooks, and say how to open them."""
    from course.diagnosis.probes import pip  # takes seconds to import

    where = arguments.folder
    work = Copies(where, notebooks(), str(where), f"{called()} lessons {where}")
    if arguments.new is not None:
        try:
            print("\n".join(work.put_beside(arguments.new)))
        except ValueError as error:
            raise UsageError(str(error)) from error
        return
    for line in work.fill():
        print(line)
    print(
        f"{where}: {len(work.originals)} lessons, as in version {__version__} or as you have them"
    )
    install = "" if find_spec("jupyterlab") else f"{pip('jupyterlab')}, then "
    print(f"Open them: {install}jupyter lab {where}")


def notebooks() -> Path:
    """The folder of the notebooks of this version: in the wheel, or in the clone.

    Raises
    ------
    FileNotFoundError
        When there is none.
    """
    for place in (_HERE / "notebooks", _HERE.parent / "notebooks"):
        if place.is_dir():
            return place
    raise FileNotFoundError(
        "the course's notebooks are missing; install the package again with pip, "
        "or work in a complete clone of the repository"
    )


def notebooks_in(folder: Path) -> list[Path]:
    """Return the notebooks of lessons in a folder, in order."""
    return sorted(folder.glob("[0-9][0-9]_*.ipynb"))


class Copies:
    """A folder with copies of the course's notebooks.

    Parameters
    ----------
    folder : Path
        Where somebody works; made if it is not there.
    originals : Path
        The folder of the notebooks to copy.
    called : str
        The folder as its owner calls it: ``work``.
    command : str
        What the owner types; with ``--new 05`` after it, it puts a lesson beside the owner's file.
    is_as_written : callable
        Whether an original is as the course has it: no copy may lose somebody's answer.
    """

    def __init__(
        self,
        folder: Path,
        originals: Path,
        called: str,
        command: str,
        is_as_written: Callable[[Path], bool] = lambda path: True,
    ) -> None:
        self.folder, self.called, self.command = folder, called, command
        make_folder(self.folder)
        self.originals = {path.name: path for path in notebooks_in(originals)}
        self.said: list[str] = []
        self._is_as_written = is_as_written
        self._record = self._read_record()

    def fill(self) -> list[str]:
        """Copy new lessons, renew copies that nobody changed; return what there is to say."""
        added = []
        try:
            for name, original in self.originals.items():
                if _put(original.read_bytes(), self.folder / name):
                    self._record[name] = self._mark(original)
                    added.append(name)
                else:
                    self._follow(name, original)
            self._say_what_moved(added)
        finally:
            self._write_record()
        if added:
            numbers = ", ".join(name[:2] for name in added)
            self.said.insert(0, f"{self.called}: copied lessons {numbers}")
        return self.said

    def put_beside(self, lesson: str) -> list[str]:
        """Put a lesson as it is now beside the student's file; return what there is to say.

        Parameters
        ----------
        lesson
            The lesson's number or its file's name.

        Raises
        ------
        ValueError
            If there is no such lesson.
        """
        name = self._find(lesson)
        content = self.originals[name].read_bytes()
        mine = self.folder / name
        if _of(mine) == _hash(content):
            return [f"{self.called}/{name}: this is the lesson as it is now"]
        target, count = mine, 1
        while not _put(content, target) and _of(target) != _hash(content):
            target = mine.with_suffix(f".new{'' if count == 1 else count}.ipynb")
            count += 1
        self._record[name] = self._mark(self.originals[name])
        self._write_record()
        kept = "" if target == mine else f"; {self.called}/{name} is kept as it is"
        return [f"{self.called}/{target.name}: the lesson as it is now{kept}"]

    def _follow(self, name: str, original: Path) -> None:
        """Look whether the lesson of a file that is there has changed, and what that means."""
        target = self.folder / name
        copied, now = self._record.get(name), self._mark(original)
        if copied == now:
            return
        content, mine = original.read_bytes(), _of(target)
        if mine is None:
            self.said.append(
                f"{self.called}/{name}: this is no file that can be read, and is left as it is: "
                "rename it, and the same command copies the lesson"
            )
        elif mine == _hash(content):
            self._record[name] = now
        elif copied in (mine, hashlib.sha256(target.read_bytes()).hexdigest()):
            # the second is what version 0.1 recorded
            _replace(content, target)
            self._record[name] = now
            self.said.append(
                f"{self.called}/{name}: the lesson has changed, and you had not changed your copy: "
                "it is the new lesson now"
            )
        else:
            why = "the lesson has changed since you copied it"
            if copied is None or copied.startswith(EDITED):
                # said once; else again and again, until the student has the new one
                self._record[name] = now
                why = "this is not the lesson as the course has it now"
            self.said.append(
                f"{self.called}/{name}: {why}; your file is kept. "
                f"`{self.command} --new {name[:2]}` puts the lesson as it is now beside "
                f"it, as {target.stem}.new.ipynb"
            )

    def _say_what_moved(self, added: list[str]) -> None:
        """Name the student's files whose lesson has another number now, or is gone."""
        for path in notebooks_in(self.folder):
            if path.name in self.originals:
                continue
            copied = self._record.pop(path.name, None)
            untouched = copied == _of(path)
            fate = "You have not changed it: delete it if you like" if untouched else "It is kept"
            moved = [name for name in self.originals if name[2:] == path.name[2:]]
            if moved and moved[0] in added:
                self.said.append(
                    f"{self.called}/{path.name}: this lesson has the number {moved[0][:2]} now, "
                    f"and is {self.called}/{moved[0]}. {fate}"
                )
            elif copied is not None and not moved:
                self.said.append(
                    f"{self.called}/{path.name}: the course has no such lesson now. {fate}"
                )
        for name in set(self._record) - set(self.originals):
            del self._record[name]

    def _mark(self, original: Path) -> str:
        """Return an original's SHA-256; marked, if it holds an answer, which no copy may lose."""
        return ("" if self._is_as_written(original) else EDITED) + _hash(original.read_bytes())

    def _find(self, lesson: str) -> str:
        number = lesson.zfill(2) if lesson.isdigit() else ""
        for name in self.originals:
            if name[:2] == number or Path(lesson).name in (name, Path(name).stem):
                return name
        there = ", ".join(name[:2] for name in self.originals)
        raise ValueError(f"there is no lesson {lesson!r}; give one of these numbers: {there}")

    def _read_record(self) -> dict[str, str]:
        path = self.folder / RECORD
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            return {str(name): str(mark) for name, mark in record.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError, RecursionError) as error:
            self.said.append(
                f"{self.called}/{RECORD}: not as it was written, so it starts anew ({error})"
            )
            return {}

    def _write_record(self) -> None:
        text = json.dumps(self._record, indent=1, sort_keys=True)
        write_whole(self.folder / RECORD, text + "\n")


def _hash(content: bytes) -> str:
    """The SHA-256 of what a notebook's cells say; of all bytes, where it is no notebook."""
    with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        said = [
            (cell["cell_type"], "".join(cell["source"]), cell.get("attachments") or {})
            for cell in json.loads(content)["cells"]
        ]
        content = json.dumps(said, sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()


def _of(path: Path) -> str | None:
    """The hash of a file; None where a folder, a broken link or nothing that can be read is."""
    try:
        return _hash(path.read_bytes())
    except OSError:
        return None


def _put(content: bytes, target: Path) -> bool:
    """Write a new file, whole or not at all and never over another; tell whether."""
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if os.path.lexists(target):
            return False
        part.write_bytes(content)
        try:
            os.link(part, target)  # unlike a renaming, this fails where a file came meanwhile
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            part.replace(target)
        return True
    finally:
        part.unlink(missing_ok=True)


def _replace(content: bytes, target: Path) -> None:
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
