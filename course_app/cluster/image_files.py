"""Image files on several workers: each takes some through all stages of the pipeline.

Only names of files and measures travel: a worker decodes, factorises, rebuilds on its GPU and
writes. So all workers must see the same folders, as those of one machine do. The results are those
of one process, bit for bit, and the calling process keeps the journal.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from course.images.reading import ImageError
from course_app.cluster.group import BatchError, Group
from course_app.pipeline import capacity, threads
from course_app.pipeline.journal import Done
from course_app.pipeline.scheduler import Scheduler
from course_app.pipeline.stages import Job, Shown, Task
from course_app.pipeline.workers import Workers

BATCHES_EACH = 4  # batches for each worker, at least, so that all end at about the same time
MOST_SECONDS = 60.0  # CPU time of a batch at most, about: it is lost if its worker dies


@dataclass(frozen=True)
class Part:
    """Some files of a job, and all that a worker must know of it.

    Attributes
    ----------
    job : Job
    tasks : list of Task
    good : tuple of int
        Images that are known to be good, the first ones: the grid may show them.
    sharing : int
        How many workers share a machine's cores, as far as their addresses tell.
    batch : int
        The longest stack.
    run : str
        The name of the run that it is a part of; no other run has that name.
    """

    job: Job
    tasks: list[Task]
    good: tuple[int, ...]
    sharing: int
    batch: int
    run: str = ""


_at_work: dict[Scheduler, str] = {}  # schedulers that run in this process, and the run of each
_stopped: set[str] = set()  # stopped runs: parts of them may still arrive


def finish(part: Part) -> list[Done]:
    """Take files through all stages, on this worker; `Group.map` can be given it."""
    job = part.job
    work = capacity.cpu_seconds(*job.size, len(part.tasks))
    count = max(1, capacity.processes_for(None, *job.size, job.svd) // part.sharing)
    with ExitStack() as stack:
        workers = None
        if count > 1 and work > capacity.WORTH_PROCESSES:
            workers = stack.enter_context(Workers(min(count, len(part.tasks))))
        stack.enter_context(threads.kept())
        stack.enter_context(threads.one_thread())
        scheduler = Scheduler(job, part.tasks, workers, part.batch, good=part.good)
        _at_work[scheduler] = part.run
        try:
            return [] if part.run in _stopped else list(scheduler)
        finally:
            del _at_work[scheduler]


def stop(run: str) -> int:
    """End what this worker does for a run; return how many parts of the run still work."""
    _stopped.add(run)
    schedulers = [scheduler for scheduler, its in list(_at_work.items()) if its == run]
    for scheduler in schedulers:
        scheduler.stop()
    return len(schedulers)


@dataclass(frozen=True)
class GroupScheduler:
    """The workers of a group as the `scheduler` of `reconstruct_images`.

    >>> reconstruct_images(folder, [50], out, scheduler=GroupScheduler(group))
    """

    group: Group

    def __len__(self) -> int:
        return len(self.group)

    def __call__(
        self, job: Job, todo: Sequence[Task], batch: int, good: Sequence[int] = ()
    ) -> Iterator[Done]:
        """Do a list of tasks on all workers; give what is done as it is done.

        Parameters
        ----------
        job : Job
        todo : sequence of Task
        batch : int
            The longest stack.
        good : sequence of int
            Images that are known to be good already.

        Raises
        ------
        BaseException
            What a worker met with the files, as from one process. No worker works on them by then.
        """
        return _distribute(self.group, job, todo, batch, good)


def _distribute(
    group: Group, job: Job, todo: Sequence[Task], batch: int, good: Sequence[int]
) -> Iterator[Done]:
    count = len(group)
    # workers may have begun in another folder
    job = replace(job, folder=job.folder.absolute())
    todo = [replace(task, file=task.file.absolute()) for task in todo]
    shown = Shown(tuple(good))
    most = int(MOST_SECONDS / capacity.cpu_seconds(*job.size, 1))
    length = max(1, min(most, -(-len(todo) // (BATCHES_EACH * count))))
    hosts = Counter(address.rpartition(":")[0] for address in group.workers().values())
    sharing = max(hosts.values(), default=count)

    run = uuid.uuid4().hex

    def parts() -> Iterator[Part]:  # each is made when it is handed out, and knows what is good
        for start in range(0, len(todo), length):
            yield Part(job, todo[start : start + length], shown.first, sharing, batch, run)

    left = len(todo)
    try:
        with closing(group.map(finish, parts())) as found:
            for dones in found:
                for done in dones:
                    if done.reason is None:
                        shown.add(done.image)
                    left -= 1
                    yield done
    except BatchError as error:
        if isinstance(error.__cause__, ImageError | OSError | MemoryError):
            raise error.__cause__ from None
        raise
    finally:
        if left:
            group.stop(stop, run)
