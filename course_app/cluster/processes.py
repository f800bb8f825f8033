"""The processes of `course_app.cluster`: a scheduler in this one, and one for each worker.

A worker is a Python of its own, started with its own CUDA_VISIBLE_DEVICES: the driver reads that
variable once, when the first CUDA call is made, and by then it is set. Dask's own `LocalCluster`
sets variables in a child that has run the user's program up to its ``if __name__ == "__main__"``,
and may have touched CUDA there. Each worker has a nanny, which starts it again when it dies; both
end when this process ends, however it ends.

This file imports Dask; `course_app.cluster` imports it where it is needed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from distributed import Scheduler, WorkerPlugin
from distributed.deploy.spec import ProcessInterface, SpecCluster

import course

START = 120.0  # seconds until all workers must have answered
LEAVE = 10.0  # seconds that a worker has to end by itself
ORPHAN = 60  # seconds that a worker looks for its scheduler
#: Dask's settings while a cluster is there.
SETTINGS = {
    # a batch that has ended a worker twice is tried again alone: see `Group`
    "distributed.scheduler.allowed-failures": 1,
    # data that lies on a GPU stays there
    "distributed.scheduler.work-stealing": False,
    # a batch is meant to be large
    "distributed.admin.large-graph-warning-threshold": "1 TiB",
}


class WorkerProcess(ProcessInterface):
    """A worker and its nanny, with environment variables of their own.

    Parameters
    ----------
    scheduler : str
        Address of the scheduler; Dask gives it.
    name : int
        Dask gives it.
    environment : dict
        Variables beside those of this process.
    host : str
        Where the worker listens.
    folder : str
        For what the worker writes: its messages, Dask's files.
    """

    def __init__(
        self, scheduler: str, name: int, environment: dict[str, str], host: str, folder: str
    ):
        super().__init__()
        self.scheduler, self.name, self.host, self.folder = scheduler, name, host, folder
        self.environment = {**os.environ, **environment}
        self.log = Path(folder) / f"worker-{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start the process; it connects to the scheduler by itself."""
        options = {
            "name": self.name, "nthreads": 1, "host": self.host, "memory_limit": 0,
            "local_directory": self.folder, "dashboard": False, "death_timeout": ORPHAN,
        }  # fmt: skip
        command = [
            sys.executable, "-m", "distributed.cli.dask_spec", self.scheduler,
            "--spec", json.dumps({"cls": "distributed.Nanny", "opts": options}),
        ]  # fmt: skip
        with open(self.log, "wb") as log:
            # Ctrl-C is for the program that started them, which ends its workers
            self.process = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        await super().start()

    async def close(self) -> None:
        """End the process, and if it does not, kill it."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            end = time.monotonic() + LEAVE
            while self.process.poll() is None and time.monotonic() < end:
                await asyncio.sleep(0.02)
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
        await super().close()


def environment_of(number: int, device: str | None) -> dict[str, str]:
    """Variables of a worker: its name, its GPU ("" for none), where this course lies."""
    found = {
        "COURSE_WORKER": str(number),
        "DASK_LOGGING__DISTRIBUTED": "error",
        "CUDA_VISIBLE_DEVICES": device or "-1",
        # else a worker asks NVML for the first visible device, and dies where that is "-1"
        "DASK_DISTRIBUTED__DIAGNOSTICS__NVML": "False",
    }
    home = Path(course.__file__).resolve().parents[1]
    if home.name not in ("site-packages", "dist-packages"):  # found there anyway
        before = os.environ.get("PYTHONPATH")
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (str(home), before)))
    return found


def visible_devices(count: int) -> list[str]:
    """At most `count` GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = named.split(",") if named else map(str, range(count))
    return [name.strip() for name in names][:count]


def start(
    devices: Sequence[str | None], host: str, dashboard: str | None, folder: str
) -> SpecCluster:
    """Start a scheduler, and a worker for each of the devices; None is a worker without GPU."""
    workers = {
        number: {
            "cls": WorkerProcess,
            "options": {
                "environment": environment_of(number, device), "host": host, "folder": folder,
            },
        }
        for number, device in enumerate(devices)
    }  # fmt: skip
    options = {
        "host": host, "port": 0, "dashboard": dashboard is not None,
        "dashboard_address": dashboard or f"{host}:0",
    }  # fmt: skip
    return SpecCluster(
        workers=workers, scheduler={"cls": Scheduler, "options": options},
        silence_logs=logging.CRITICAL,
    )  # fmt: skip


def has_dask_cuda() -> bool:
    """Whether dask-cuda is installed."""
    return importlib.util.find_spec("dask_cuda") is not None


def start_dask_cuda(
    devices: Sequence[str], host: str, dashboard: str | None, folder: str
) -> SpecCluster:
    """The same with dask-cuda's workers, which also keep to the CPU cores near their GPU."""
    from dask_cuda import LocalCUDACluster

    return LocalCUDACluster(
        CUDA_VISIBLE_DEVICES=",".join(devices), n_workers=len(devices), threads_per_worker=1,
        host=host, dashboard_address=dashboard, protocol="tcp", local_directory=folder,
        memory_limit=None, device_memory_limit=None, silence_logs=logging.CRITICAL,
    )  # fmt: skip


class NoPages(WorkerPlugin):
    """Closes the port on which a worker would show web pages about itself."""

    name = "no pages"

    def setup(self, worker: Any) -> None:
        """Runs when a worker starts, or starts again."""
        worker.http_server.stop()


def no_pages(dask_scheduler: Any) -> None:
    """Close the port on which a scheduler would show web pages."""
    dask_scheduler.http_server.stop()


def wait_for_workers(group: SpecCluster, count: int, limit: float = START) -> str | None:
    """Wait until so many workers have answered; None, or what is wrong."""
    end = time.monotonic() + limit
    while len(group.scheduler.workers) < count:
        for name, worker in list(group.workers.items()):
            process = getattr(worker, "process", None)
            if isinstance(worker, WorkerProcess) and process and process.poll() is not None:
                told = worker.log.read_text(encoding="utf-8", errors="replace").strip()
                status = process.returncode
                return f"worker {name} ended at once with status {status}: {told[-1500:]}"
        if time.monotonic() > end:
            there = len(group.scheduler.workers)
            return f"{there} of {count} workers answered within {limit:.0f} s"
        time.sleep(0.01)
    return None
