"""Kill a function that writes a file at every step of the way, and look at what is on the disk.

Nothing is really killed. The function runs again and again in a folder of its own; each time its
calls of `open`, `os.replace` and their like stop at one place further on, and from there on change
nothing any more, as in a process that is gone. Its buffers are lost, as they are then.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.checks.answers import plain_function

MOST_STEPS = 60  # that one write may have


class Killed(SystemExit):
    """The process is gone: `except Exception` does not catch it, and a thread ends in silence."""


@dataclass(frozen=True)
class Remains:
    """What a kill left behind.

    Attributes
    ----------
    after : str
        Where it was killed, in words; "the end" for the run that nobody disturbed.
    content : bytes or None
        Of the file at its name; None where there is none.
    others : tuple of str
        Names of other files that lie there.
    again : bytes or str or None
        Content of the file after a second call where the kill left things, as a run that goes on
        makes it; or, in words, the error that ended that call. None where nothing was killed, or
        where no file is there.
    """

    after: str
    content: bytes | None
    others: tuple[str, ...]
    again: bytes | str | None = None


@dataclass(frozen=True)
class Outcome:
    """All that happened to one file: a run to the end, and one killed after each step."""

    old: bytes | None
    new: bytes
    undisturbed: Remains
    kills: tuple[Remains, ...]
    moved_from_elsewhere: bool


def kill_everywhere(save: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
    """Run `save(path, data)` undisturbed, then killed after each of its steps.

    Parameters
    ----------
    save : callable
    arguments : (Path, bytes, bytes or None)
        Where to write, what, and an older content of that file. Only the path's name is used.

    Returns
    -------
    Outcome
        Without kills where it took no step at all.
    """
    path, data, *rest = arguments
    old = rest[0] if rest else None
    disk, undisturbed = _run(save, Path(path).name, data, old, stop_at=None)
    kills = tuple(
        _run(save, Path(path).name, data, old, stop_at=number)[1]
        for number in range(min(len(disk.steps), MOST_STEPS))
    )
    return Outcome(old, data, undisturbed, kills, disk.moved_from_elsewhere)


def _run(
    save: Callable[..., Any], name: str, data: bytes, old: bytes | None, stop_at: int | None
) -> tuple[_Disk, Remains]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if old is not None:
            path.write_bytes(old)
        disk = _Disk(Path(folder), stop_at)
        function = plain_function(save)
        with disk.in_place_of_the_real_one(function.__globals__ if function else {}):
            try:
                save(path, data)
            except Killed:
                pass
            except OSError as error:  # its message has the path of the temporary folder
                message = str(error).replace(str(path), name).replace(folder, "the folder")
                raise type(error)(message) from error
            finally:
                disk.close()
        others = tuple(sorted(found.name for found in Path(folder).iterdir() if found != path))
        content = path.read_bytes() if path.is_file() else None
        if not disk.dead:
            return disk, Remains("the end", content, others)
        return disk, Remains(disk.steps[-1], content, others, _again(save, path, data))


def _again(save: Callable[..., Any], path: Path, data: bytes) -> bytes | str | None:
    """Call a function once more in a folder that a kill left; its error in words if it fails."""
    disk = _Disk(path.parent, None)
    function = plain_function(save)
    with disk.in_place_of_the_real_one(function.__globals__ if function else {}):
        try:
            save(path, data)
        except Exception as error:
            where = str(error).replace(str(path), path.name).replace(str(path.parent), "the folder")
            return f"{type(error).__name__}: {where}"
        finally:
            disk.close()
    return path.read_bytes() if path.is_file() else None


class _Disk:
    """The folder as a process sees it that is killed after step `stop_at`."""

    def __init__(self, folder: Path, stop_at: int | None):
        self.folder, self.stop_at = os.path.realpath(folder), stop_at
        self.steps: list[str] = []
        self.dead = False
        self.moved_from_elsewhere = False
        self.files: list[_File] = []
        self.numbers: dict[int, str] = {}  # open file descriptors of the folder's files
        self.real = {
            "open": builtins.open, "os.open": os.open, "write": os.write, "replace": os.replace,
            "rename": os.rename, "unlink": os.unlink, "remove": os.remove, "fsync": os.fsync,
        }  # fmt: skip

    def step(self, what: str) -> None:
        """Note a step; the process may die behind it."""
        self.steps.append(what)
        if self.stop_at is not None and len(self.steps) > self.stop_at:
            self.dead = True
            raise Killed

    def alive(self) -> None:
        if self.dead:
            raise Killed

    def inside(self, path: Any) -> bool:
        try:
            return os.path.realpath(os.path.dirname(os.fspath(path))) == self.folder
        except TypeError:
            return False

    def name(self, path: Any) -> str:
        return os.path.basename(os.fspath(path))

    # --- what stands in for open and os --------------------------------------------------------

    def open(self, file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
        known = self.numbers.get(file) if isinstance(file, int) else None
        writes = any(letter in mode for letter in "wax+")
        if not writes or (known is None and (isinstance(file, int) or not self.inside(file))):
            return self.real["open"](file, mode, *more, **named)
        self.alive()
        name = known or self.name(file)
        there = known is None and os.path.exists(file)
        handle = _File(self, self.real["open"](file, mode, *more, **named), name)
        self.files.append(handle)
        if known is None:
            emptied = there and "w" in mode
            self.step(f"{name} was {'opened and so emptied' if emptied else 'opened'}")
        return handle

    def os_open(self, path: Any, flags: int, *more: Any, **named: Any) -> int:
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if not writes or not self.inside(path):
            return self.real["os.open"](path, flags, *more, **named)
        self.alive()
        number = self.real["os.open"](path, flags, *more, **named)
        self.numbers[number] = self.name(path)
        self.step(f"{self.name(path)} was opened")
        return number

    def os_write(self, number: int, data: Any) -> int:
        if number not in self.numbers:
            return self.real["write"](number, data)
        self.alive()
        name, half = self.numbers[number], len(data) // 2
        self.real["write"](number, data[:half])
        self.step(f"half of {name} was written")
        self.real["write"](number, data[half:])
        self.step(f"{name} was written")
        return len(data)

    def fsync(self, number: Any) -> None:
        if isinstance(number, int) and number >= 0:
            self.real["fsync"](number)

    def moves(self, how: str) -> Callable[..., None]:
        def move(source: Any, target: Any, **named: Any) -> None:
            if not self.inside(target):
                return self.real[how](source, target, **named)
            self.alive()
            self.moved_from_elsewhere |= not self.inside(source)
            self.real[how](source, target, **named)
            self.step(f"{self.name(source)} was renamed to {self.name(target)}")

        return move

    def removes(self, how: str) -> Callable[..., None]:
        def remove(path: Any, **named: Any) -> None:
            if not self.inside(path):
                return self.real[how](path, **named)
            self.alive()
            self.real[how](path, **named)
            self.step(f"{self.name(path)} was removed")

        return remove

    @contextlib.contextmanager
    def in_place_of_the_real_one(self, names: dict[str, Any]) -> Iterator[None]:
        """Put this disk under `open` and `os`, and under what an answer's own names lead to."""
        stand_ins = {
            "open": self.open, "os.open": self.os_open, "write": self.os_write,
            "replace": self.moves("replace"), "rename": self.moves("rename"),
            "unlink": self.removes("unlink"), "remove": self.removes("remove"),
            "fsync": self.fsync,
        }  # fmt: skip
        places: list[tuple[Any, str, str]] = [(builtins, "open", "open"), (io, "open", "open")]
        places += [(os, how.removeprefix("os."), how) for how in stand_ins if how != "open"]
        absent = object()
        # A notebook has an `open` of its own, and `from os import replace` binds the real one.
        own = {
            name: next(how for how, real in self.real.items() if real is value)
            for name, value in names.items()
            if callable(value) and any(real is value for real in self.real.values())
        } | {"open": "open"}
        before = {name: names.get(name, absent) for name in own}
        try:
            for module, name, how in places:
                setattr(module, name, stand_ins[how])
            names.update({name: stand_ins[how] for name, how in own.items()})
            yield
        finally:
            for module, name, how in places:
                setattr(module, name, self.real[how])
            for name, value in before.items():
                if value is absent:
                    names.pop(name, None)
                else:
                    names[name] = value

    def close(self) -> None:
        """Close what is open, without writing what is still in a buffer."""
        for file in self.files:
            file.real.close()
        for number in self.numbers:
            with contextlib.suppress(OSError):
                os.close(number)


class _File:
    """A file opened for writing: what is written stays in the process until flush or close."""

    def __init__(self, disk: _Disk, real: Any, name: str):
        self.disk, self.real, self.name = disk, real, name
        self.waiting: list[Any] = []
        self.closed = False

    def write(self, data: Any) -> int:
        self.disk.alive()
        self.waiting.append(bytes(data) if not isinstance(data, str) else data)
        return len(data)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self.disk.alive()
        if not self.waiting:
            return
        data = type(self.waiting[0])().join(self.waiting)
        self.waiting = []
        half = len(data) // 2
        self.real.write(data[:half])
        self.real.flush()
        self.disk.step(f"half of {self.name} was written")
        self.real.write(data[half:])
        self.real.flush()
        self.disk.step(f"{self.name} was written")

    def close(self) -> None:
        if not self.closed and not self.disk.dead:
            self.flush()
            self.real.close()
            self.closed = True

    def fileno(self) -> int:
        return self.real.fileno()

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()

    def __getattr__(self, what: str) -> Any:
        return getattr(self.real, what)
