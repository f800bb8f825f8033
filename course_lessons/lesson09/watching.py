"""Call a function that starts threads, and say who waits for whom where it does not end.

A thread waits for good in `Queue.get`, `Queue.put`, `Queue.join`, `Event.wait` or `Thread.join`
when it gave no time-out and what it waits for is not so. Where all threads of a call do, nothing
will ever happen again: a deadlock, told at once, and its threads are ended.
"""

from __future__ import annotations

import ctypes
import linecache
import queue
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from course.checks.answers import line_of, plain_function
from course.checks.verdicts import Failure
from warpsim.core.words import count

LOOK = 0.02  # seconds between two looks at the threads
LOOKS = 4  # as many that see the same make a deadlock
GRACE = 1.0  # seconds for threads to end in
MAIN = "your function"

_CODES: dict[CodeType, str] = {
    queue.Queue.get.__code__: "get",
    queue.Queue.put.__code__: "put",
    queue.Queue.join.__code__: "all done",
    threading.Event.wait.__code__: "event",
    threading.Thread.join.__code__: "join",
}
_MACHINERY = (queue.__file__, threading.__file__)


class Stopped(BaseException):
    """Ends a thread of an answer that would never end by itself."""


@dataclass(frozen=True)
class Wait:
    """A thread that waits: who, in which call, on what, in whose frame."""

    who: str
    call: str
    on: Any
    name: str  # of what it waits on, as the source calls it; empty where that is not known
    frame: FrameType

    def is_for_good(self) -> bool:
        """Whether what it waits for is not so, as things stand."""
        if self.call == "get":
            return not self.on.qsize()
        if self.call == "put":
            return 0 < self.on.maxsize <= self.on.qsize()
        if self.call == "all done":
            return self.on.unfinished_tasks > 0
        return not self.on.is_set() if self.call == "event" else self.on.is_alive()

    def __str__(self) -> str:
        name = self.name or "a queue"
        if self.call == "get":
            return f"in {name}.get() for something to come: the queue is empty"
        if self.call == "put":
            full = f"{self.on.qsize()} of {self.on.maxsize}"
            return f"in {name}.put(...) for room: the queue is full, {full}"
        if self.call == "all done":
            return f"in {name}.join() for {self.on.unfinished_tasks} task_done() more"
        if self.call == "event":
            return f"in {self.name or 'an event'}.wait(): nobody set it"
        return f"in join() for the end of {thread_name(self.on)}"


def thread_name(thread: threading.Thread) -> str:
    """A thread by the function that it runs; Python's own numbers differ from run to run."""
    found = re.fullmatch(r"Thread-\d+(?: \((.+)\))?", thread.name)
    return (found[1] or "a thread") if found else thread.name


def call_watched(function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float) -> Any:
    """Call a function in a thread of its own and return its value, or raise what it raised.

    Parameters
    ----------
    function : callable
    arguments : tuple
    seconds : float
        What the call and the threads that it started may take.

    Raises
    ------
    Failure
        "deadlock" where all wait for good, "endless-loop" where time is up, "raised" where a
        thread died of an exception that nobody heard of. No thread of the call goes on then.
    """
    watch = _Watch(function, arguments)
    hook = threading.excepthook
    threading.excepthook = watch.note_death
    watch.hook = hook
    try:
        watch.runner.start()
        watch.follow(seconds)
    finally:
        watch.end_all()
        threading.excepthook = hook
    if watch.error is not None:
        raise watch.error
    if watch.deaths:
        raise Failure("raised", f"{watch.deaths_in_words()} Nobody heard of it.")
    return watch.value


class _Watch:
    """One call, its threads, and what became of them."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]):
        self.function, self.arguments = function, arguments
        self.others = set(threading.enumerate())
        self.value: Any = None
        self.error: BaseException | None = None
        self.deaths: list[tuple[str, BaseException]] = []
        self.hook: Callable[..., Any] = threading.excepthook
        self.runner = threading.Thread(target=self._run, name=MAIN, daemon=True)

    def _run(self) -> None:
        try:
            value = self.function(*self.arguments)
            # As it is now: threads that were not waited for may still add to it.
            self.value = list(value) if isinstance(value, list) else value
        except Stopped:
            pass
        except BaseException as error:  # raised again in the thread that asked
            self.error = error

    def note_death(self, details: Any) -> None:
        """Stands in for `threading.excepthook`: keep what a thread of the call died of."""
        if details.thread in self.others:
            self.hook(details)
        elif not issubclass(details.exc_type, Stopped):
            self.deaths.append((thread_name(details.thread), details.exc_value))

    def alive(self) -> list[threading.Thread]:
        """The call's threads that have not ended."""
        return [thread for thread in threading.enumerate() if thread not in self.others]

    def follow(self, seconds: float) -> None:
        """Return when all threads have ended; raise Failure where they never will."""
        spent, looked, seen, same = 0.0, time.monotonic(), None, 0
        while threads := self.alive():
            threads[0].join(LOOK)
            waits = self.waits()
            for_good = waits is not None and all(wait.is_for_good() for wait in waits)
            now = [(id(wait.frame), wait.call, id(wait.on)) for wait in waits or ()]
            same = same + 1 if for_good and now == seen else 0
            seen = now if for_good else None
            if waits and same >= LOOKS:
                raise Failure("deadlock", self._deadlock(waits), *self._line(waits[0].frame))
            before, looked = looked, time.monotonic()
            spent += min(looked - before, 5 * LOOK)  # longer: the machine was busy with others
            if spent > seconds:
                raise self._time_is_up(seconds)

    def waits(self) -> list[Wait] | None:
        """What each living thread waits for; None where one does not wait, or not for good."""
        frames = sys._current_frames()
        found = []
        for thread in self.alive():
            frame = frames.get(thread.ident or 0)
            wait = None if frame is None else _wait_of(frame, thread_name(thread))
            if wait is None:
                return None
            found.append(wait)
        return found

    def _deadlock(self, waits: list[Wait]) -> str:
        parts = []
        for (name, what), number in Counter((wait.who, str(wait)) for wait in waits).items():
            who = f"{name} waits" if number == 1 else f"{number} threads, {name}, wait"
            parts.append(f"{who} {what}.")
        if not self.runner.is_alive():
            parts.insert(0, "Your function has ended, but not all of its threads have ended.")
        if self.deaths:
            parts.append(self.deaths_in_words())
        verdict = "All wait, and nobody is left to go on: a deadlock."
        if len(waits) == 1:
            verdict = "No other thread is left to go on: a deadlock."
        return " ".join([*(part[0].upper() + part[1:] for part in parts), verdict])

    def _time_is_up(self, seconds: float) -> Failure:
        frames, places, first = sys._current_frames(), [], None
        for thread in self.alive():
            frame = frames.get(thread.ident or 0)
            frame = None if frame is None else self._answers_frame(frame) or _own_frame(frame)
            if frame is not None:
                source = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
                places.append(f"{thread_name(thread)} is at `{source}`")
                first = first or frame
        where = f" {', '.join(places)}." if places else ""
        where = where[:1] + where[1:2].upper() + where[2:]
        message = f"After {seconds:g} seconds it has not ended.{where}"
        return Failure("endless-loop", message, *self._line(first))

    def _answers_frame(self, frame: FrameType | None) -> FrameType | None:
        """The innermost frame in the file of the function that is watched, if there is one."""
        answer = plain_function(self.function)
        while frame is not None and answer is not None:
            if frame.f_code.co_filename == answer.__code__.co_filename:
                return frame
            frame = frame.f_back
        return None

    def deaths_in_words(self) -> str:
        """Who died of what."""
        told = Counter(f"{name} of {type(error).__name__}: {error}" for name, error in self.deaths)
        dead = [text if n == 1 else f"{text} ({n} times)" for text, n in told.items()]
        return f"{count(len(self.deaths), 'thread')} died: {'; '.join(dead)}."

    def _line(self, frame: FrameType | None) -> tuple[int | None, str | None]:
        answer, found = plain_function(self.function), self._answers_frame(frame)
        if answer is None or found is None:
            return None, None
        return line_of(answer, found.f_lineno)

    def end_all(self) -> None:
        """End every thread of the call, waiting or not; gives up after `GRACE` seconds."""
        until = time.monotonic() + GRACE
        while (threads := self.alive()) and time.monotonic() < until:
            frames = sys._current_frames()
            for thread in threads:
                if thread.ident is None:
                    continue
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread.ident), ctypes.py_object(Stopped)
                )
                wait = _wait_of(frames[thread.ident], "") if thread.ident in frames else None
                if wait is not None:
                    _wake(wait)
            threads[0].join(LOOK)


def _wait_of(frame: FrameType, who: str) -> Wait | None:
    """Where a thread waits without a time-out; None where it does not."""
    inner: FrameType | None = frame
    while inner is not None and inner.f_code.co_filename in _MACHINERY:
        call = _CODES.get(inner.f_code)
        if call is not None:
            own = inner.f_locals
            if own.get("timeout") is not None or own.get("block") is False:
                return None
            waits = call == "join" or frame.f_code is threading.Condition.wait.__code__
            outer = inner.f_back
            name = "" if outer is None else _name_in(outer, own["self"])
            return Wait(who, call, own["self"], name, outer or inner) if waits else None
        inner = inner.f_back
    return None


def _name_in(frame: FrameType, value: Any) -> str:
    """What a frame calls a value."""
    for names in (frame.f_locals, frame.f_globals):
        for name, known in list(names.items()):
            if known is value and not name.startswith("_"):
                return name
    return ""


def _own_frame(frame: FrameType) -> FrameType | None:
    """The innermost frame that is not of the machinery of threads and queues, nor of this room."""
    found: FrameType | None = frame
    while found is not None and found.f_code.co_filename in (*_MACHINERY, __file__):
        found = found.f_back
    return found


def _wake(wait: Wait) -> None:
    """Let a waiting thread go on, so that it meets the exception that ends it."""
    if wait.call in ("get", "put", "all done"):
        with wait.on.mutex:
            for condition in (wait.on.not_empty, wait.on.not_full, wait.on.all_tasks_done):
                condition.notify_all()
    elif wait.call == "event":
        wait.on.set()
