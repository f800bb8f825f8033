"""The workers of a Dask cluster that is there already, as a group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from course_app.cluster.group import ClusterError, Group, dask_processes

PATIENCE = 30  # seconds until the scheduler must have answered, and work that is stopped has ended
PAUSE = 0.05  # seconds


class _Scheduler:
    """What `Group` reads of a scheduler, for one that runs in another process."""

    def __init__(self, client: Any):
        self._client = client

    @property
    def workers(self) -> dict[str, Any]:
        """Address -> worker, with its name and address."""
        found = self._client.scheduler_info(n_workers=-1)["workers"]
        return {
            address: SimpleNamespace(name=its["name"], address=address)
            for address, its in found.items()
        }


class Joined(Group):
    """Workers that others use, too: they are not started again."""

    def stop(self, end: Callable[..., int] | None = None, *arguments: Any) -> None:
        """Call `end` on each worker until none still works, for at most `PATIENCE` seconds.

        Parameters
        ----------
        end : callable
            Ends what this group's work left on a worker; returns how much still runs there.
        """
        deadline = time.monotonic() + PATIENCE
        while end is not None and time.monotonic() < deadline:
            found = self.client.run(end, *arguments, on_error="ignore")
            if not any(found.values()):
                return
            time.sleep(PAUSE)


@contextmanager
def joined(address: str) -> Iterator[Group]:
    """Use the workers of a running cluster; they go on when the ``with`` block ends.

    Whoever can reach a scheduler can run programs on its workers, and the workers' results are
    trusted: use a cluster that you or your administrator started.

    Parameters
    ----------
    address : str
        Of the scheduler, such as "tcp://10.0.0.1:8786".

    Raises
    ------
    ImportError
        Without Dask.
    ClusterError
        When no scheduler answers, it has no workers, or a worker lacks this version of the course.
    """
    dask_processes()
    from distributed import Client

    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(f"no Dask scheduler answers at {address!r}: {error}") from error
    with client:
        scheduler = _Scheduler(client)
        count = len(scheduler.workers)
        if not count:
            raise ClusterError(f"the scheduler at {address!r} has no workers: start some")
        group = Joined(client, scheduler, count)
        _check_course(client, address)
        yield group


def _check_course(client: Any, address: str) -> None:
    """Refuse workers with another version of the course, or none: results would be mixed."""
    import course

    found = client.run(_version, on_error="return")
    wrong = {worker: its for worker, its in found.items() if its != course.__version__}
    if wrong:
        worker, its = next(iter(wrong.items()))
        told = its if isinstance(its, str) else f"none ({type(its).__name__}: {its})"
        raise ClusterError(
            f"worker {worker} of {address!r} has the course {told}, and this is "
            f"{course.__version__}: install the same there"
        )


def _version() -> str:
    import course

    return course.__version__
