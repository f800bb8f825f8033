"""Image files shared by several workers: the results of one process, whatever happens."""

import filecmp
import json
import os
import signal
import time

import pytest

from course.cluster import files as cluster_files
from course.cluster.files import finish, shared
from course.cluster.group import BatchError, Group, cluster
from course.cluster.work import see
from course.images.reading import ImageError
from course.pipeline.pipeline import reconstruct_images
from course.pipeline.stages import Workers
from tests.course.pipeline_parts import call, contents, some_images

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
    assert (different, missing) == (["report.json"], [])  # it says who rebuilt them
    ours, theirs = (json.loads((its.out / "report.json").read_text()) for its in (report, alone))
    assert ours.pop("rebuilt by") == theirs.pop("rebuilt by") + ", shared by 2 workers"
    assert ours == theirs
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
        [folder], [3, 9], tmp_path / "out", size=20, engine="numpy", group=group, progress=progress
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
            [folder], [3, 9], tmp_path / "out", size=20, engine="numpy", group=its, batch=1,
            progress=progress,
        )  # fmt: skip
    assert_same(alone, report)


@pytest.mark.slow
def test_what_is_wrong_is_said_as_by_one_process(group, folder, tmp_path, monkeypatch):
    out = tmp_path / "out"
    real = cluster_files.Part

    def in_no_folder(*given):
        its = list(given)
        its[5] = tmp_path / "gone" / "deeper"
        return real(*its)

    monkeypatch.setattr(cluster_files, "Part", in_no_folder)
    with pytest.raises(OSError, match="cannot write to the folder .*gone"):
        reconstruct_images([folder], [3], out, size=20, engine="numpy", group=group)
    assert not out.exists()
    monkeypatch.setattr(cluster_files, "Part", real)
    report = reconstruct_images([folder], [3], out, size=20, engine="numpy", group=group)
    assert len(report.qualities) == 23  # the workers are there again


@pytest.mark.slow
def test_an_interrupted_run_ends_the_work_and_can_be_resumed(group, folder, alone, tmp_path):
    out = tmp_path / "out"
    options = {"size": 20, "engine": "numpy", "group": group, "resume": True, "batch": 1}

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

        def stop(self):
            stopped.append(True)

    stopped = []
    job = cluster_files.Job((8, 8), "stretch", [1], [1], None, None)
    with pytest.raises(BatchError, match="batch 3 failed"):
        next(cluster_files.spread(Failing(None, None, 2), job, "numpy", [1], Workers(1, 1, 1), 1))
    assert stopped == [True]


def test_workers_share_the_machines_threads():
    assert shared(Workers(1, 13, 2), 2) == Workers(1, 6, 1)
    assert shared(Workers(3, 12, 8), 4) == Workers(1, 3, 2)


# --- the command line -----------------------------------------------------------------------------


def test_gpus_that_are_not_there_are_an_error_of_one_line(folder, tmp_path, capfd, monkeypatch):
    from course import backend

    monkeypatch.setattr(backend, "gpu", lambda: None)
    words = ["reconstruct", folder, "--k", 3, "--out", tmp_path / "out", "--gpus", 2]
    status, _, err = call(capfd, *words)
    assert status == 2 and "GPUs are asked for and there is no usable one here" in err
    status, _, err = call(capfd, *words, "--engine", "numpy")
    assert status == 2 and "--gpus and --engine numpy contradict each other" in err
    assert not (tmp_path / "out").exists()


def test_finish_is_a_kind_of_work(folder, tmp_path):
    tasks = [cluster_files.Task(0, folder / "image00.png", ["a.png"])]
    part = cluster_files.Part(
        tasks, (20, 20), "stretch", [3], [3], tmp_path, False, "numpy", (), Workers(1, 1, 1), 1
    )
    (done,) = finish(part)
    assert done.image == 0 and done.reason is None and (tmp_path / "a.png").is_file()
    with pytest.raises(ImageError, match="engine is 'cuda'"):
        finish(cluster_files.Part(
            tasks, (20, 20), "stretch", [3], [3], tmp_path, False, "cuda", (), Workers(1, 1, 1), 1
        ))  # fmt: skip
