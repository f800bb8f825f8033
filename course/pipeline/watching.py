"""How far a run is: a bar on a terminal, a line now and then elsewhere; the slowest stage.

A stage that is slower than those after it finds the queue before it full. So the slowest is the
last one whose queue is more than half full, on average; where none is, it is the first, `decode`.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from course.pipeline.stages import Line, duration

EVERY = 30.0  # seconds between lines
SEEN = 8  # images until the queues say something
WAITING = {"decoded": "factorise", "factored": "rebuild", "rebuilt": "write"}  # who takes from each


class Watch:
    """Shows progress; wraps the list of files, as `progress` of `reconstruct_images`.

    Parameters
    ----------
    file : TextIO
        Where to; a bar if that is a terminal.
    clock : callable
        Gives seconds.
    """

    def __init__(self, file: TextIO, clock: Callable[[], float] = time.monotonic):
        self.file, self.clock = file, clock
        self.line: Line | None = None
        self._fill = dict.fromkeys(WAITING, 0.0)
        self._seen = 0

    def watch(self, line: Line) -> None:
        """Look at these queues from now on."""
        self.line = line

    @property
    def slowest(self) -> str | None:
        """The stage that the others wait for; None as long as too little was seen."""
        if self._seen < SEEN:
            return None
        full = [stage for name, stage in WAITING.items() if self._fill[name] > self._seen / 2]
        return full[-1] if full else "decode"

    def __call__(self, files: list[Path]) -> Iterator[Path]:
        """Give the files, and show how many are done."""
        steps = self._bar(files) if self.file.isatty() else self._lines(files)
        try:
            yield from steps
        finally:
            steps.close()

    def _look(self) -> None:
        if self.line is None:
            return
        self._seen += 1
        for name in WAITING:
            queue = getattr(self.line, name)
            self._fill[name] += len(queue) / queue.room

    def _bar(self, files: list[Path]) -> Iterator[Path]:
        from tqdm import tqdm

        with tqdm(files, unit="image", file=self.file, leave=False) as bar:
            for file in bar:
                yield file
                self._look()
                if self.slowest:
                    bar.set_postfix_str(f"slowest stage: {self.slowest}", refresh=False)

    def _lines(self, files: list[Path]) -> Iterator[Path]:
        start = said = self.clock()
        for done, file in enumerate(files, 1):
            yield file
            self._look()
            now = self.clock()
            if now - said >= EVERY and done < len(files):
                said, rate = now, done / (now - start)
                told = f"{done:,} of {len(files):,} images done, {rate:.3g} a second, "
                told += f"{duration((len(files) - done) / rate)} left"
                told += f"; slowest stage: {self.slowest}" if self.slowest else ""
                print(told, file=self.file, flush=True)
