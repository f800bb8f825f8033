"""A bounded queue between the threads of a pipeline, which can be closed and be stopped.

`queue.Queue` of Python 3.11 knows neither an end nor a stop: a thread that waits in it waits for
ever. In a `Channel` whoever waits is woken when the last producer has closed it, or when something
went wrong anywhere.
"""

import threading
import time
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Stopped(Exception):
    """The pipeline was stopped while a thread waited; the thread ends."""


class Channel(Generic[Item]):
    """A queue of at most so many items: who puts waits for room, who takes waits for items.

    Parameters
    ----------
    room : int
        Items that may wait in it: the back-pressure. At least 1.
    producers : int
        How many threads put; each calls `close` once when it is done.

    Attributes
    ----------
    fullest : int
        The most items that ever waited.
    """

    def __init__(self, room: int, producers: int = 1):
        if room < 1 or producers < 1:
            raise ValueError(f"room is {room}, producers {producers}; both must be at least 1")
        self.room, self.fullest = room, 0
        self._items: deque[Item] = deque()
        self._producers = producers
        self._stopped = False
        lock = threading.Lock()
        self._lock = lock
        self._emptier, self._fuller = threading.Condition(lock), threading.Condition(lock)

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item) -> None:
        """Add an item; waits while the queue is full. Raises Stopped."""
        with self._lock:
            while len(self._items) >= self.room and not self._stopped:
                self._emptier.wait()
            if self._stopped:
                raise Stopped
            self._items.append(item)
            self.fullest = max(self.fullest, len(self._items))
            self._fuller.notify()

    def take(
        self, most: int = 1, patience: float = 0.0, timeout: float | None = None
    ) -> list[Item]:
        """Take at least one item, at most `most`.

        Parameters
        ----------
        most : int
        patience : float
            Seconds to wait for more once there is one.
        timeout : float, optional
            Seconds to wait for the first.

        Returns
        -------
        list
            Empty at the end, when all producers have closed, or when the timeout passed: `ended`
            tells which.

        Raises
        ------
        Stopped
        """
        with self._lock:
            self._fuller.wait_for(lambda: self._stopped or self._items or self.ended, timeout)
            enough, until = min(most, self.room), time.monotonic() + patience
            while 0 < len(self._items) < enough and self._producers > 0:
                left = until - time.monotonic()
                if left <= 0 or not self._fuller.wait(left):
                    break
            if self._stopped:
                raise Stopped
            taken = [self._items.popleft() for _ in range(min(most, len(self._items)))]
            self._emptier.notify(len(taken))
            return taken

    def close(self) -> None:
        """One producer is done."""
        with self._lock:
            self._producers -= 1
            self._fuller.notify_all()

    @property
    def ended(self) -> bool:
        """Whether all producers have closed it and nothing is left."""
        return self._producers <= 0 and not self._items

    def stop(self) -> None:
        """Wake whoever waits, with Stopped, now and ever after; what waited in it is let go."""
        with self._lock:
            self._stopped = True
            self._items.clear()
            self._emptier.notify_all()
            self._fuller.notify_all()
