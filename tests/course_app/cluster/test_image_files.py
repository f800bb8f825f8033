"""Image files shared by several workers: the results of one process, whatever happens."""

import errno
import filecmp
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from course.driver import Driver
from course_app.cluster import image_files as cluster_files
from course_app.cluster.group import BatchError, Group, cluster
from course_app.cluster.image_files import GroupScheduler, Part, finish
from course_app.cluster.work import see
from course_app.pipeline import capacity, engines, stages
from course_app.pipeline.journal import Done
from course_app.pipeline.pipeline import reconstruct_images
from course_app.pipeline.stages import Job, Task
from tests.course_app.pipeline_parts import call, contents, some_images

pytest.importorskip("distributed", reason="Dask is not installed: it comes with the extra cluster")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    its = some_images(tmp_path_factory.mktemp("files") / "images", 24)
    (its / "image05.png").write_bytes(b"no image")
    return its


@pytest.fixture(scope="module")
def alone(folder, tmp_path_factory):
    """What one process makes of the images."""
    out = tmp_path_factory.mktemp("alone") / "out"
    return reconstruct_images([folder], [3, 9], out, size=20, engine="numpy")


def assert_same(alone, report):
    names = sorted(os.listdir(alone.out))
    assert sorted(os.listdir(report.out)) == names
    same, different, missing = filecmp.cmpfiles(alone.out, report.out, names, shallow=False)
    assert (different, missing) == ([], [])
    assert report.qualities == alone.qualities and report.skipped == alone.skipped


@pytest.mark.slow
def test_shared_files_become_the_same_results(group, folder, alone, tmp_path):
    begun = {one.process for one in group.seen}
    seen = []

    def progress(files):
        for file in files:
            seen.append(file)
            yield file

    report = reconstruct_images(
        [folder],
        [3, 9],
        tmp_path / "out",
        size=20,
        engine="numpy",
        scheduler=GroupScheduler(group),
        progress=progress,
    )
    assert_same(alone, report)
    assert len(seen) == 24 and len(report.skipped) == 1
    assert {one.process for one in group.on_each(see)} == begun  # no worker was ended


@pytest.mark.skipif(os.name != "posix", reason="processes are killed by a signal")
@pytest.mark.slow
def test_a_worker_that_is_killed_costs_nothing_but_time(folder, alone, tmp_path):
    with cluster(2, gpus=False) as its:

        def progress(files):
            for place, file in enumerate(files):
                if place == 4:
                    os.kill(its.seen[0].process, signal.SIGKILL)
                yield file

        report = reconstruct_images(
            [folder], [3, 9], tmp_path / "out", size=20, engine="numpy", batch=1,
            scheduler=GroupScheduler(its), progress=progress,
        )  # fmt: skip
    assert_same(alone, report)


@pytest.mark.slow
def test_what_is_wrong_is_said_as_by_one_process(group, folder, tmp_path, out, monkeypatch):

    def in_no_folder(job, *given):
        return Part(replace(job, folder=tmp_path / "gone" / "deeper"), *given)

    with monkeypatch.context() as patch:
        patch.setattr(cluster_files, "Part", in_no_folder)
        with pytest.raises(OSError, match="cannot write to the folder .*gone") as caught:
            reconstruct_images(
                [folder], [3], out, size=20, engine="numpy", scheduler=GroupScheduler(group)
            )
    assert caught.value.errno == errno.ENOENT
    assert not out.exists()
    report = reconstruct_images(
        [folder], [3], out, size=20, engine="numpy", scheduler=GroupScheduler(group)
    )
    assert len(report.qualities) == 23  # the workers are there again


@pytest.mark.slow
def test_an_interrupted_run_ends_the_work_and_can_be_resumed(group, folder, alone, out):
    scheduler = GroupScheduler(group)
    options = {"size": 20, "engine": "numpy", "scheduler": scheduler, "resume": True, "batch": 1}

    def progress(files):
        for place, file in enumerate(files):
            if place == 9:
                raise KeyboardInterrupt
            yield file

    with pytest.raises(KeyboardInterrupt):
        reconstruct_images([folder], [3, 9], out, progress=progress, **options)
    before = contents(out)
    time.sleep(0.3)
    assert contents(out) == before  # nobody writes any more
    report = reconstruct_images([folder], [3, 9], out, **options)
    assert report.kept == 9
    assert_same(alone, report)


def test_an_error_that_is_no_files_fault_keeps_its_name(monkeypatch):
    class Failing(Group):
        def map(self, *_):
            raise BatchError(3, "failed")

        def stop(self, end, run):
            stopped.append(True)

        def workers(self):
            return {"a": "tcp://here:1", "b": "tcp://here:2"}

    stopped = []
    job = Job((8, 8), "stretch", [1], [1], Path())
    found = GroupScheduler(Failing(None, None, 2))(job, [Task(0, Path(), [])], 1)
    with pytest.raises(BatchError, match="batch 3 failed"):
        next(found)
    assert stopped == [True]


@pytest.mark.parametrize(
    ("workers", "sharing"), [("a:1 a:2 a:3 a:4", 4), ("a:1 b:1 b:2", 2), ("a:1 b:1", 1)]
)
def test_workers_of_one_machine_share_its_cores_and_a_batch_is_not_too_long(workers, sharing):
    parts = []

    class Seeing(Group):
        def map(self, _, batches):
            parts.extend(batches)
            for its in parts:
                yield [Done(task.image, [], [], "") for task in its.tasks]

        def workers(self):
            return {name: f"tcp://{name}" for name in workers.split()}

    count = len(workers.split())
    job = Job((2048, 2048), "stretch", [1], [1], Path())
    tasks = [Task(number, Path(), []) for number in range(500)]
    group = Seeing(None, None, count)
    assert len(list(GroupScheduler(group)(job, tasks, 8))) == 500
    assert {part.sharing for part in parts} == {sharing}
    assert [task.image for part in parts for task in part.tasks] == list(range(500))
    assert max(len(part.tasks) for part in parts) * capacity.cpu_seconds(2048, 2048, 1) <= 60


# --- the command line -----------------------------------------------------------------------------


def test_gpus_that_are_not_there_are_an_error_of_one_line(folder, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(engines, "read_driver", lambda: Driver(found=False))
    words = ["reconstruct", folder, "--k", 3, "--out", tmp_path / "out", "--gpus", 2]
    status, _, err = call(capfd, *words)
    assert status == 2 and "--gpus is 2, and there are 0 GPUs here" in err
    status, _, err = call(capfd, *words, "--engine", "numpy")
    assert status == 2 and "--gpus and --engine numpy contradict each other" in err
    assert not (tmp_path / "out").exists()


def test_finish_is_a_kind_of_work(folder, tmp_path):
    tasks = [Task(0, folder / "image00.png", ["a.png"]), Task(1, folder / "image05.png", ["b.png"])]
    job = Job((20, 20), "stretch", [3], [3], tmp_path)
    first, second = finish(Part(job, tasks, (), 2, 8))
    assert (first.image, second.image) == (0, 1) and (tmp_path / "a.png").is_file()
    assert first.reason is None and "not a JPEG" in second.reason


@pytest.mark.parametrize(("cores", "sharing", "processes"), [(8, 2, 4), (8, 8, 0), (64, 4, 9)])
def test_a_worker_has_processes_for_its_share_of_the_cores(
    folder, tmp_path, monkeypatch, cores, sharing, processes
):
    begun = []

    class Counted:
        def __init__(self, count):
            begun.append(count)

        def __enter__(self):
            return None

        def __exit__(self, *what):
            pass

    monkeypatch.setattr(cluster_files, "Workers", Counted)
    monkeypatch.setattr(capacity, "cores", lambda: cores)
    monkeypatch.setattr(capacity, "WORTH_PROCESSES", 0)
    tasks = [Task(n, folder / f"image{n:02}.png", [f"{n}.png"]) for n in range(9)]
    job = Job((20, 20), "stretch", [3], [3], tmp_path)
    assert len(finish(Part(job, tasks, (), sharing, 8))) == 9
    assert begun == [processes] * bool(processes)


def test_a_run_that_is_stopped_on_a_worker_ends_and_its_late_parts_do_not_begin(
    folder, tmp_path, monkeypatch
):
    tasks = [Task(n, folder / f"image{n:02}.png", [f"{n}.png"]) for n in range(9)]
    part = Part(Job((20, 20), "stretch", [3], [3], tmp_path), tasks, (), 99, 8, "one")
    real, left, said = stages.decode, [], []

    def decode(*arguments):
        if len(left) == 2:
            said.append(cluster_files.stop("one"))
        left.append(1)
        return real(*arguments)

    monkeypatch.setattr(stages, "decode", decode)
    assert [done.image for done in finish(part)] == [0, 1] and said == [1]
    assert cluster_files.stop("one") == 0 and finish(part) == []
    left.clear()
    assert len(finish(replace(part, run="another"))) == 9  # other runs go on
