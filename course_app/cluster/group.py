"""More than one GPU: batches on Dask workers, a GPU each; without GPUs, CPU workers.

>>> with cluster() as group:                                   # a worker for each GPU
...     for images in group.reconstruct(batches, k=50):        # in the order of the batches
...         ...
...     kept = group.keep(recipes(10_000, 100, 256, 256, 50))  # made there, from a seed
...     digests = list(group.map(rebuilt_digests, kept))       # 8 bytes an image come back

A batch is given to a function of `course_app.cluster.work`, or to any other that can be pickled.
One thread of one worker computes it, with the kernels that a single GPU would run. So the results
are the same, bit for bit, whatever the number of workers, and come in the order of the batches. How
work is split does not depend on the number of workers either.

A worker that dies is started again, and what it had not delivered is done once more; what it kept
is made once more. A batch that fails each time ends everything with a `BatchError`, which names it.

The scheduler and the workers listen on 127.0.0.1. They run whatever they are sent: who can reach
them can run programs here. Another `host` is for networks on which everybody may.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from course import backend
from course.driver import read_driver
from course.images.shortage import FEWER, is_shortage
from course_app.cluster import work as cluster_work
from course_app.cluster.work import (
    WORKSPACE,
    Done,
    Packed,
    Recipe,
    Seen,
    make,
    rebuild,
    rebuilt,
    rebuilt_digests,
    recipes,
)
from course_app.pipeline import capacity

__all__ = [
    "BatchError", "ClusterError", "Group", "Recipe", "Seen", "cluster", "make", "rebuild",
    "rebuilt", "rebuilt_digests", "recipes",
]  # fmt: skip

LOOPBACK = "127.0.0.1"
MOST_CPU_WORKERS = 8  # without being asked for more
AHEAD = 4  # batches in flight for each worker: one is computed, the next ones are there already
RETRIES = 2  # of a batch that failed
PATIENCE = 60.0  # seconds to wait for a worker, when there is none


class ClusterError(RuntimeError):
    """Such workers cannot be had; the message says what to do."""


class BatchError(RuntimeError):
    """A batch failed every time; `number` is its index in the list."""

    def __init__(self, number: int, what: str):
        super().__init__(f"batch {number} {what}")
        self.number = number


class _InFlight(NamedTuple):
    number: int
    batch: Any
    future: Any


@contextmanager
def cluster(
    workers: int | None = None,
    *,
    gpus: bool | None = None,
    host: str = LOOPBACK,
    dashboard: int | None = None,
    dask_cuda: bool | None = None,
) -> Iterator[Group]:
    """Start workers, a process each; they end with the ``with`` block.

    Parameters
    ----------
    workers : int, optional
        How many; without it one for each GPU, or for each CPU core, up to 8.
    gpus : bool, optional
        Whether a worker has a GPU of its own; without it where there are usable GPUs.
    host : str
        Address on which scheduler and workers listen.
    dashboard : int, optional
        Port for Dask's web pages on that address (needs Bokeh); without it there are none.
    dask_cuda : bool, optional
        Whether dask-cuda starts the workers; without it where it is installed and there are GPUs.
        Its workers run a program's file once more: keep ``if __name__ == "__main__":`` around what
        starts them.

    Yields
    ------
    Group

    Raises
    ------
    ImportError
        Without Dask.
    ClusterError
        When there are not so many GPUs, or workers do not start or do not see the GPU that they
        should.
    """
    processes = dask_processes()
    import dask
    from distributed import Client

    devices = _devices(workers, gpus)
    on_gpus = devices[0] is not None
    with_dask_cuda = processes.has_dask_cuda() if dask_cuda is None else dask_cuda
    if dask_cuda and not on_gpus:
        raise ClusterError("dask-cuda starts workers for GPUs only: leave dask_cuda out")
    start = processes.start_dask_cuda if on_gpus and with_dask_cuda else processes.start
    pages = None if dashboard is None else f"{host}:{dashboard}"
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        stack.enter_context(dask.config.set(processes.SETTINGS))
        its = stack.enter_context(start(devices, host, pages, folder))
        problem = processes.wait_for_workers(its, len(devices))
        if problem:
            raise ClusterError(problem)
        client = stack.enter_context(Client(its, set_as_default=False))
        if dashboard is None:
            client.run_on_scheduler(processes.no_pages)
        client.register_plugin(processes.NoPages())
        group = Group(client, its.scheduler, len(devices))
        group.seen = tuple(group.on_each(cluster_work.see))
        if on_gpus:
            check_gpus(group.seen, alone=start is processes.start)
        yield group


def dask_processes() -> Any:
    """`course_app.cluster.processes`, which imports Dask; ImportError says what to install."""
    try:
        from course_app.cluster import processes as cluster_processes
    except ImportError as error:
        from course.installed import install_command

        raise ImportError(
            f"Dask cannot be imported ({error}): {install_command('cluster')}"
        ) from error
    return cluster_processes


def _devices(workers: int | None, gpus: bool | None) -> list[str | None]:
    """For each worker its GPU, as CUDA_VISIBLE_DEVICES names it, or None."""
    if workers is not None and workers < 1:
        raise ClusterError(f"workers is {workers}; it must be at least 1")
    usable = backend.gpu() is not None
    if gpus and not usable:
        raise ClusterError(f"GPUs are asked for and there is no usable one here ({backend.why()})")
    if gpus is False or not usable:
        return [None] * (workers or min(capacity.cores(), MOST_CPU_WORKERS))
    there = dask_processes().visible_devices(len(read_driver().devices))
    if (workers or 1) > len(there):
        raise ClusterError(
            f"workers is {workers} and there are {len(there)} GPUs: a worker has one of its own. "
            "Ask for fewer, or for workers without GPU, gpus=False"
        )
    return list(there[: workers or len(there)])


def check_gpus(seen: Sequence[Seen], alone: bool = True) -> None:
    """Raise ClusterError unless each worker has a GPU of its own.

    Parameters
    ----------
    seen : sequence of Seen
    alone : bool
        A worker may see no other GPU; dask-cuda's see them all, their own first.
    """
    for one in seen:
        if one.gpu is None:
            raise ClusterError(f"worker {one.worker} cannot use its GPU: {one.why}")
        if alone and one.devices != 1:
            raise ClusterError(
                f"worker {one.worker} sees {one.devices} GPUs; it should see its own only. Is "
                "CUDA_VISIBLE_DEVICES set where Python starts, as in sitecustomize?"
            )
    if len({one.identity for one in seen}) < len(seen):
        which = ", ".join(f"{one.worker}: {one.identity}" for one in seen)
        raise ClusterError(f"two workers have the same GPU ({which})")


class Group:
    """Workers, and what can be done with them; `cluster` makes it.

    Attributes
    ----------
    seen : tuple of Seen
        What each worker found when it started: its process, its GPU.
    """

    def __init__(self, client: Any, scheduler: Any, count: int, only: frozenset[Any] | None = None):
        self.client, self._scheduler, self._count, self._only = client, scheduler, count, only
        self.seen: tuple[Seen, ...] = ()

    def workers(self) -> dict[Any, str]:
        """The workers that are there now: name -> address, in the order of the names."""
        there = {one.name: one.address for one in list(self._scheduler.workers.values())}
        return {
            name: there[name]
            for name in sorted(there, key=str)
            if self._only is None or name in self._only
        }

    def __len__(self) -> int:
        """How many workers it has, those included that are being started again."""
        return self._count

    def part(self, count: int) -> Group:
        """A group of the first `count` workers, for measuring."""
        names = list(self.workers())
        if not 1 <= count <= len(names):
            raise ClusterError(f"a part of {count} workers; there are {len(names)}")
        found = Group(self.client, self._scheduler, count, frozenset(names[:count]))
        found.seen = self.seen[:count]
        return found

    # ------------------------------------------------------------------ work
    def map(
        self,
        work: Callable[..., Any],
        batches: Iterable[Any],
        *arguments: Any,
        ahead: int = AHEAD,
        done: list[Done] | None = None,
    ) -> Iterator[Any]:
        """Do each batch on some worker; give the results in the order of the batches.

        Batches are taken from the iterable as others are done: batches in flight and results that
        wait are together at most ``ahead`` a worker.

        Parameters
        ----------
        work : callable
            Called with a batch and `arguments`; must depend on nothing else.
        batches : iterable
            What can be pickled, or what `keep` gave.
        ahead : int
            For each worker. More hides the time that small batches take to travel.
        done : list, optional
            Takes a `Done` for each batch: where and when it was done.

        Raises
        ------
        BatchError
            When a batch failed every time.
        ClusterError
            When no worker has been there for a minute.
        """
        if ahead < 1:
            raise ValueError(f"ahead is {ahead}; it must be at least 1")
        task, numbered = _packed((work, arguments)), enumerate(batches)
        in_flight: deque[_InFlight] = deque()
        arrived: dict[int, Done] = {}
        try:
            while True:
                more = ahead * len(self) - len(in_flight)
                for number, batch in islice(numbered, max(0, more)):
                    future = self._submit(task, number, batch)
                    in_flight.append(_InFlight(number, batch, future))
                if not in_flight:
                    return
                found = self._first(task, in_flight, arrived)
                if done is not None:
                    done.append(found)
                yield found.result
        finally:
            self.client.cancel([one.future for one in in_flight if one.number not in arrived])

    def reconstruct(
        self, batches: Iterable[cluster_work.Factors], k: int, engine: str = "auto"
    ) -> Iterator[np.ndarray]:
        """Rebuild batches of images from their k largest singular values.

        Parameters
        ----------
        batches : iterable of (u, s, vt)
            Stacks of factors: (images, rows, r), (images, r), (images, r, columns), float32.
        k : int
        engine : str
            What computes on a worker, as for `course_app.pipeline.engines.choose_engine`.

        Yields
        ------
        ndarray, shape (images, rows, columns), float32
        """
        return self.map(rebuild, batches, k, engine)

    def keep(self, recipes: Sequence[Recipe], engine: str = "auto") -> list[Any]:
        """Make batches on the workers, one after the other, and keep them in their GPUs' memory.

        The returned objects stand for the batches in `map`; a batch's memory is freed with the last
        reference to its object. Batches of a worker that dies are made again elsewhere.

        Raises
        ------
        ValueError
            When a GPU has not enough memory for its part.
        BatchError
            When a batch failed every time.
        """
        there = list(self.workers().values())
        free = min((one.memory for one in self.seen if one.memory), default=0)
        share = sum(recipe.bytes for recipe in recipes[:: max(1, len(there))]) + WORKSPACE
        if free and share > free:
            raise ValueError(
                f"a worker would keep {share / 2**30:.1f} GiB and its GPU has {free / 2**30:.1f} "
                "free: keep fewer batches at a time"
            )
        kept = [
            self._submit_to(make, [there[index % len(there)]], recipe, engine)
            for index, recipe in enumerate(recipes)
        ]
        for number, future in enumerate(kept):
            self._settled(future, number)
        return kept

    def on_each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function once on each worker, in the thread that does the work there."""
        task = _packed((function, arguments))
        futures = [
            self.client.submit(cluster_work.called, task, pure=False, workers=[address])
            for address in self.workers().values()
        ]
        for future in futures:
            self._wait(future)
        return self.client.gather(futures)

    def stop(self, end: Callable[..., int] | None = None, *arguments: Any) -> None:
        """End at once whatever the workers do, and let them start again; nothing is kept.

        `end` is for workers that belong to others, too: `course_app.cluster.existing`.
        """
        self.client.restart(timeout=PATIENCE, wait_for_workers=False)

    # ------------------------------------------------------------------ one batch
    def _submit(self, task: Packed, number: int, batch: Any) -> Any:
        from distributed import Future

        where = None if self._only is None else list(self.workers().values())
        batch = batch if isinstance(batch, Future) else _packed(batch)
        return self._submit_to(cluster_work.timed, where, task, number, batch)

    def _submit_to(self, function: Callable[..., Any], where: list[str] | None, *given: Any) -> Any:
        # where none of these workers is left, another one does it
        where = {"workers": where, "allow_other_workers": True} if where else {}
        return self.client.submit(function, *given, pure=False, retries=RETRIES, **where)

    def _first(self, task: Packed, in_flight: deque[_InFlight], arrived: dict[int, Done]) -> Done:
        """Take the first batch off those in flight; fetch all others that are done with it."""
        from distributed import KilledWorker

        number, batch, future = in_flight[0]
        if number not in arrived:
            try:
                self._settled(future, number)
            except KilledWorker:
                # Dask also suspects the batches that waited behind the one that ended the workers.
                # Done alone, a batch is blamed only for its own faults.
                for one in in_flight:
                    self._wait(one.future)
                future = self._submit(task, number, batch)
                in_flight[0] = _InFlight(number, batch, future)
                try:
                    self._settled(future, number)
                except KilledWorker as error:
                    raise BatchError(
                        number,
                        "ended its worker's process every time, in the end alone: it may need more "
                        "memory than there is, or crash a library",
                    ) from error
            # together: a message there and back takes longer than a small result
            ready = [
                one
                for one in in_flight
                if one.number not in arrived and one.future.status == "finished"
            ]
            for one, found in zip(ready, self.client.gather([one.future for one in ready])):
                arrived[one.number] = found
                one.future.release()  # it is here now, and need not be there
        in_flight.popleft()
        return arrived.pop(number)

    def _settled(self, future: Any, number: int) -> None:
        """Wait for a batch; raise BatchError when it failed, KilledWorker when workers died."""
        from distributed import KilledWorker

        self._wait(future)
        if future.status == "finished":
            return
        error = future.exception()
        if isinstance(error, KilledWorker):
            raise error
        cure = "; make the batches smaller" if is_shortage(error, FEWER) else ""
        what = f"failed {RETRIES + 1} times, the last time with {_why(error)}{cure}"
        raise BatchError(number, what) from error

    def _wait(self, future: Any) -> None:
        """Wait until a batch is done or has failed; ClusterError when no worker is left for it."""
        from distributed import wait

        waited = 0.0
        while not future.done():
            try:
                with self.client.as_current():
                    wait([future], timeout=PATIENCE / 6)
            except TimeoutError:
                waited = 0.0 if self.workers() else waited + PATIENCE / 6
                if waited >= PATIENCE:
                    raise ClusterError(
                        f"no worker has been there for {PATIENCE:.0f} s: none starts again"
                    ) from None


def _packed(content: Any) -> Packed:
    from cloudpickle import dumps  # Dask depends on it

    return Packed(dumps(content))


def _why(error: BaseException) -> str:
    return backend.one_line(error, 400)
