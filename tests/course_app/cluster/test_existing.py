"""A Dask cluster that is there already, its processes in folders of their own: the same results."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_app.cluster.existing import joined
from course_app.cluster.group import ClusterError
from course_app.cluster.image_files import GroupScheduler
from course_app.pipeline.pipeline import reconstruct_images
from tests.course_app.pipeline_parts import call, contents, some_images
from tools import kill_test

pytest.importorskip("distributed", reason="Dask is not installed: it comes with the extra cluster")
pytestmark = pytest.mark.slow
PATIENCE = 60  # seconds
COUNT = 12


def started(folder, *words):
    """A process of Dask's, begun in a folder of its own."""
    folder.mkdir()
    command = [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]]
    return subprocess.Popen(
        command, cwd=folder, env=kill_test.environment(), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


@pytest.fixture
def scheduler(tmp_path):
    """The address of a scheduler with two workers, and the workers' processes."""
    place = tmp_path / "address"
    its = [started(tmp_path / "scheduler", "dask_scheduler", "--host", "127.0.0.1", "--port", "0",
                   "--no-dashboard", "--scheduler-file", str(place))]  # fmt: skip
    try:
        wait_for(place.exists)
        address = json.loads(place.read_text())["address"]
        for number in range(2):
            words = ["dask_worker", address, "--no-nanny", "--no-dashboard", "--nthreads", "1"]
            its.append(started(tmp_path / f"worker{number}", *words, "--host", "127.0.0.1"))
        wait_for(lambda: workers_of(address) == 2)
        yield address, its[1:]
    finally:
        for process in its:
            process.kill()
            process.wait()


def wait_for(there):
    deadline = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def workers_of(address):
    try:
        with joined(address) as group:
            return len(group)
    except ClusterError:
        return 0


@pytest.fixture
def folder(tmp_path):
    its = some_images(tmp_path / "in", COUNT)
    (its / "image05.png").write_bytes(b"no image")
    return its


def pictures(out):
    return {name: its for name, its in contents(out).items() if name != "report.json"}


def test_a_command_uses_workers_of_another_folder_and_leaves_them(
    folder, tmp_path, scheduler, capfd, monkeypatch
):
    """By names that are relative to the command's folder."""
    address, processes = scheduler
    monkeypatch.chdir(tmp_path)
    words = ["reconstruct", "in", "--k", 3, 9, "--size", 20, "--engine", "numpy"]
    assert call(capfd, *words, "--out", "alone")[0] == 0
    status, said, err = call(capfd, *words, "--out", "shared", "--scheduler", address)
    assert status == 0, err
    assert "11 images rebuilt by NumPy on the CPU, shared by 2 workers" in said
    assert pictures(Path("shared")) == pictures(Path("alone"))
    assert all(process.poll() is None for process in processes) and workers_of(address) == 2


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_worker_that_is_killed_costs_nothing_and_a_stopped_run_is_resumed(
    folder, tmp_path, out, scheduler
):
    address, processes = scheduler
    options = {"size": 20, "engine": "numpy", "batch": 1}
    reconstruct_images([folder], [3, 9], tmp_path / "alone", **options)

    def stopped(files):
        for place, file in enumerate(files):
            if place == 3:
                raise KeyboardInterrupt
            yield file

    def killed(files):
        for place, file in enumerate(files):
            if place == 1:
                processes[0].send_signal(signal.SIGKILL)
            yield file

    with joined(address) as group, pytest.raises(KeyboardInterrupt):
        reconstruct_images(
            [folder], [3, 9], out, scheduler=GroupScheduler(group), progress=stopped, **options
        )
    left = contents(out)
    time.sleep(0.3)
    assert contents(out) == left  # nobody writes any more, and the workers are as they were
    assert all(process.poll() is None for process in processes) and workers_of(address) == 2
    with joined(address) as group:
        report = reconstruct_images(
            [folder],
            [3, 9],
            out,
            scheduler=GroupScheduler(group),
            progress=killed,
            resume=True,
            **options,
        )
    assert report.kept == 3 and pictures(out) == pictures(tmp_path / "alone")


def test_where_nobody_answers_it_is_said(folder, tmp_path, capfd, monkeypatch):
    from course_app.cluster import existing as room

    monkeypatch.setattr(room, "PATIENCE", 1)
    words = ["reconstruct", folder, "--k", 3, "--out", tmp_path / "out"]
    status, _, err = call(capfd, *words, "--scheduler", "tcp://127.0.0.1:9")
    assert status == 2 and "no Dask scheduler answers at 'tcp://127.0.0.1:9'" in err
    status, _, err = call(capfd, *words, "--scheduler", "tcp://127.0.0.1:9", "--gpus", 2)
    assert status == 2 and "--scheduler and --gpus contradict each other" in err
