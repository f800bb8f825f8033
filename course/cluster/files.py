"""Image files on several workers: each takes some through all stages of the pipeline.

Only names of files and measures travel: a worker decodes, factorises, rebuilds on its GPU and
writes. So the workers must see the same folders, as those of one machine do. The files become the
same results as in one process, bit for bit, and the journal is kept by the one that asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from course.cluster.group import BatchError, Group
from course.images.reading import ImageError
from course.pipeline import threads as blas
from course.pipeline import threads as heap
from course.pipeline.engines import Halving, choose_engine
from course.pipeline.journal import Done
from course.pipeline.stages import Job, Line, Shown, Task, Workers

STACKS = 8  # of images in a batch of files at most
IN_TURNS = 4  # batches that each worker should get at least, so that all end at about the same time


@dataclass(frozen=True)
class Part:
    """Some files of a job, and all that a worker must know of it.

    Attributes
    ----------
    tasks : list of Task
    size, fit, ranks, grid_ranks, folder, lenient, svd
        As of `course.pipeline.stages.Job`.
    engine : str
        As for `course.pipeline.engines.choose_engine`.
    good : tuple of int
        Images that are known to be good, the first ones: the grid may show them.
    workers : Workers
        Threads of each stage, on this worker.
    batch : int
        The longest stack.
    """

    tasks: list[Task]
    size: tuple[int, int]
    fit: str
    ranks: list[int]
    grid_ranks: list[int]
    folder: Path
    lenient: bool
    engine: str
    good: tuple[int, ...]
    workers: Workers
    batch: int
    svd: str = "cpu"


def finish(part: Part) -> list[Done]:
    """Take files through all stages, on this worker: a kind of work for `Group.map`."""
    job = Job(
        part.size, part.fit, part.ranks, part.grid_ranks, Halving(choose_engine(part.engine)[0]),
        part.folder, part.lenient, Shown(list(part.good)), part.svd,
    )  # fmt: skip
    with heap.kept(), blas.one_thread():
        return list(Line(job, part.tasks, part.workers, part.batch))


def spread(
    group: Group, job: Job, engine: str, todo: Sequence[Task], workers: Workers, batch: int
) -> Iterator[Done]:
    """Do a list of tasks on all workers of a group; give what is done as it is done.

    Parameters
    ----------
    group : Group
    job : Job
    engine : str
        What rebuilds on a worker; the job's own `rebuild` is not used.
    todo : sequence of Task
    workers : Workers
        Threads of each stage for this machine; the group's workers share them.
    batch : int
        The longest stack.

    Raises
    ------
    BaseException
        What a worker met with the files, as from one process. No worker works on them by then.
    """
    count = len(group)
    length = max(1, min(STACKS * batch, -(-len(todo) // (IN_TURNS * count))))
    threads = shared(workers, count)

    def parts() -> Iterator[Part]:  # each is made when it is handed out, and knows what is good
        for start in range(0, len(todo), length):
            yield Part(
                list(todo[start : start + length]), job.size, job.fit, job.ranks, job.grid_ranks,
                job.folder, job.lenient, engine, tuple(job.shown.first), threads, batch,
                job.svd,
            )  # fmt: skip

    left = len(todo)
    try:
        for dones in group.map(finish, parts()):
            for done in dones:
                if done.reason is None:
                    job.shown.add(done.image)
                left -= 1
                yield done
    except BatchError as error:
        if isinstance(error.__cause__, ImageError | OSError | MemoryError):
            raise error.__cause__ from None
        raise
    finally:
        if left:
            group.stop()


def shared(workers: Workers, count: int) -> Workers:
    """A worker's threads, where so many workers share a machine's."""
    return replace(
        workers,
        decode=max(1, workers.decode // count),
        factorise=max(1, workers.factorise // count),
        write=max(1, workers.write // count),
    )
