"""How far a run is: a bar on a terminal, a line now and then elsewhere; what takes the time."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from course_app.pipeline.capacity import duration
from course_app.pipeline.scheduler import Scheduler

EVERY = 30.0  # seconds between lines
SEEN = 8  # images after which the slowest stage is named


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
        self.scheduler: Scheduler | None = None
        self._seen = 0

    def watch(self, scheduler: Scheduler) -> None:
        """Take the times of stages from this scheduler from now on."""
        self.scheduler = scheduler

    @property
    def slowest(self) -> str | None:
        """The stage that takes most of the time; None as long as too little was seen."""
        return (
            self.scheduler.slowest() if self.scheduler is not None and self._seen >= SEEN else None
        )

    def __call__(self, files: list[Path]) -> Iterator[Path]:
        """Give the files, and show how many are done."""
        steps = self._bar(files) if self.file.isatty() else self._lines(files)
        try:
            yield from steps
        finally:
            steps.close()

    def _bar(self, files: list[Path]) -> Iterator[Path]:
        from tqdm import tqdm

        with tqdm(files, unit="image", file=self.file, leave=False) as bar:
            for file in bar:
                yield file
                self._seen += 1
                if slowest := self.slowest:
                    bar.set_postfix_str(f"slowest stage: {slowest}", refresh=False)

    def _lines(self, files: list[Path]) -> Iterator[Path]:
        start = said = self.clock()
        for done, file in enumerate(files, 1):
            yield file
            self._seen += 1
            now = self.clock()
            if now - said >= EVERY and done < len(files):
                said, rate = now, done / (now - start)
                told = f"{done:,} of {len(files):,} images done, {rate:.3g} a second, "
                told += f"{duration((len(files) - done) / rate)} left"
                told += f"; slowest stage: {self.slowest}" if self.slowest else ""
                print(told, file=self.file, flush=True)
