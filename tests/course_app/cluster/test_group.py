"""Batches on several workers: the bits of one, in order, whatever happens to a worker."""

import os
import signal
import subprocess
import sys
import time
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from course import backend
from course.driver import Device, Driver, read_driver
from course_app.cluster import group as front
from course_app.cluster import work as cluster_work
from course_app.cluster.group import (
    BatchError,
    ClusterError,
    Group,
    Recipe,
    Seen,
    check_gpus,
    cluster,
    rebuild,
    rebuilt,
    rebuilt_digests,
    recipes,
)
from course_app.kernels import synthetic_images
from tests.course_app.cluster import cluster_work_samples as samples

pytest.importorskip("distributed", reason="Dask is not installed: it comes with the extra cluster")
import psutil

from course_app.cluster import processes as cluster_processes

POSIX = pytest.mark.skipif(os.name != "posix", reason="processes are killed by a signal")
GPUS = len(read_driver().devices) if backend.gpu() else 0
TWO_GPUS = pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")


def factors(count, images=3, rows=23, columns=17, k=5):
    """Random batches of (u, s, vt)."""
    rng = np.random.default_rng(7)
    shapes = (images, rows, k), (images, k), (images, k, columns)
    return [
        tuple(rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
        for _ in range(count)
    ]


def awaited(condition, seconds=60.0):
    """Whether a condition comes true in that time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


# --- the same bits, in order ----------------------------------------------------------------------


def test_workers_rebuild_what_one_process_rebuilds(group):
    batches = factors(9)
    together = list(group.reconstruct(iter(batches), 4))
    assert len(together) == 9
    for batch, images in zip(batches, together, strict=True):
        assert images.dtype == np.float32 and images.shape == (3, 23, 17)
        assert np.array_equal(images, rebuild(batch, 4))
        u, s, vt = (part.astype(np.float64) for part in batch)
        expected = (u[..., :4] * s[:, None, :4]) @ vt[:, :4]
        assert np.linalg.norm(images - expected) <= 1e-6 * np.linalg.norm(expected)


@pytest.mark.slow
def test_the_simulated_kernel_runs_on_workers(group):
    batches = factors(2, images=2, rows=9, columns=7)
    for batch, images in zip(batches, group.reconstruct(batches, 3, "simulator"), strict=True):
        assert np.array_equal(images, rebuild(batch, 3, "simulator"))


@pytest.mark.slow
def test_made_images_do_not_depend_on_workers_or_batches(group):
    whole = rebuilt(Recipe(0, 11, 19, 13, 6))
    for length in (1, 4, 11):
        split = recipes(11, length, 19, 13, 6)
        assert sum(one.images for one in split) == 11
        assert np.array_equal(np.concatenate(list(group.map(rebuilt, split))), whole)
    digests = np.concatenate(list(group.map(rebuilt_digests, recipes(11, 2, 19, 13, 6))))
    assert np.array_equal(digests, synthetic_images.digests_by_numpy(whole))
    other = rebuilt(Recipe(0, 11, 19, 13, 6, seed=1))
    assert not np.isclose(other, whole).any(axis=(1, 2)).all()


def test_factors_made_by_the_kernel_are_those_made_by_numpy(group):
    recipe = Recipe(3, 2, 9, 11, 5)
    there, here = cluster_work.make(recipe, "simulator"), cluster_work.make(recipe, "numpy")
    assert here.u.shape == (2, 9, 8) and here.vt.shape == (2, 8, 11)
    for name in ("u", "s", "vt"):
        assert np.array_equal(getattr(there, name).copy_to_host(), getattr(here, name))
    assert -0.5 <= here.u.min() < -0.4 and 0.4 < here.u.max() < 0.5
    kept = group.keep([recipe], "simulator")
    (digests,) = group.map(rebuilt_digests, kept)
    assert np.array_equal(digests, rebuilt_digests(recipe, "simulator"))


def test_a_digest_depends_on_every_bit_and_on_its_place():
    images = synthetic_images.filled_by_numpy((3, 5, 7), 1, 0)
    right = synthetic_images.digests_by_numpy(images)
    changed = images.copy()
    changed.view(np.uint32)[1, 4, 6] ^= 1
    assert (synthetic_images.digests_by_numpy(changed) != right).tolist() == [False, True, False]
    changed = images.copy()
    changed[2, 0, [0, 1]] = changed[2, 0, [1, 0]]
    assert (synthetic_images.digests_by_numpy(changed) != right).tolist() == [False, False, True]


def test_batches_are_kept_on_all_workers_and_used_where_they_are(group):
    split = recipes(12, 2, 15, 20, 4)
    kept, done = group.keep(split), []
    for _ in range(2):
        found = np.concatenate(list(group.map(rebuilt_digests, kept, done=done)))
        assert np.array_equal(found, rebuilt_digests(Recipe(0, 12, 15, 20, 4)))
    assert [one.number for one in done] == 2 * list(range(6))
    assert [one.worker for one in done] == 2 * ["0", "1", "0", "1", "0", "1"]


def test_a_part_of_the_workers_works_alone(group):
    done = []
    assert list(group.part(1).map(samples.fail_at, range(5), None, done=done)) == [0, 1, 2, 3, 4]
    assert {one.worker for one in done} == {"0"}
    with pytest.raises(ClusterError, match="a part of 3 workers; there are 2"):
        group.part(3)


# --- never all batches at once --------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [1, 3])
def test_batches_are_taken_as_buffers_are_free(group, ahead):
    taken = 0

    def batches():
        nonlocal taken
        for number in range(30):
            taken += 1
            yield number

    for received, _ in enumerate(group.map(samples.fail_at, batches(), None, ahead=ahead)):
        assert taken - received <= 2 * ahead
    assert taken == 30


def test_what_is_not_wanted_any_more_is_not_done(group):
    results = group.map(samples.dawdle, range(1000), 0.01)
    assert next(results)[0] == 0
    results.close()
    assert list(group.map(samples.fail_at, [1], None)) == [1]


# --- workers die ----------------------------------------------------------------------------------


@pytest.mark.slow
@POSIX
def test_a_worker_that_is_killed_loses_nothing():
    batches, split = factors(12), recipes(8, 1, 15, 20, 4)
    with cluster(2, gpus=False) as its:
        kept = its.keep(split)
        first, second = (one.process for one in its.seen)
        slow = its.map(samples.dawdle, range(16), 0.1)
        numbers = [next(slow)[0]]
        os.kill(first, signal.SIGKILL)
        left = list(slow)
        assert numbers + [number for number, _ in left] == list(range(16))
        assert second in {process for _, process in left}
        again = list(its.reconstruct(batches, 5))
        for batch, images in zip(batches, again, strict=True):
            assert np.array_equal(images, rebuild(batch, 5))
        # what the dead worker kept is made once more
        found = np.concatenate(list(its.map(rebuilt_digests, kept)))
        assert np.array_equal(found, rebuilt_digests(Recipe(0, 8, 15, 20, 4)))
        assert awaited(lambda: len(its.workers()) == 2), "the worker is not started again"
        processes = {one.process for one in its.on_each(cluster_work.see)}
        assert second in processes and first not in processes


@POSIX
@pytest.mark.slow
def test_the_only_worker_is_killed_and_comes_back():
    with cluster(1, gpus=False) as its:
        slow = its.map(samples.dawdle, range(4), 0.1)
        next(slow)
        os.kill(its.seen[0].process, signal.SIGKILL)
        assert [number for number, _ in slow] == [1, 2, 3]


@pytest.mark.slow
@POSIX
def test_a_batch_that_ends_its_process_is_named_and_its_neighbours_are_not(group):
    with pytest.raises(BatchError, match="batch 5 ended its worker's process every time") as caught:
        list(group.map(samples.end_process_at, range(12), 5))
    assert caught.value.number == 5
    assert awaited(lambda: len(group.workers()) == 2)
    assert list(group.map(samples.fail_at, range(3), None)) == [0, 1, 2]


def test_a_batch_that_fails_every_time_is_named(group):
    results = group.map(samples.fail_at, range(10), 7)
    assert [next(results) for _ in range(7)] == list(range(7))
    with pytest.raises(BatchError, match="batch 7 failed 3 times.*nothing can be done with 7"):
        next(results)
    with pytest.raises(BatchError, match="batch 0 failed.*make the batches smaller"):
        list(group.map(samples.out_of_memory, range(2)))
    with pytest.raises(BatchError, match="batch 1 .* k is 6; with 5 singular values"):
        list(group.map(rebuild, [*factors(1, k=6), *factors(1)], 6))


def test_what_a_worker_cannot_import_fails_and_leaves_the_worker_alone(group, monkeypatch):
    here = ModuleType("only_here")
    exec("def work(batch):\n    return batch\nclass Batch:\n    pass", here.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", here)
    for work, batches in ((here.work, [1]), (samples.environment, [here.Batch()])):
        with pytest.raises(BatchError, match="batch 0 failed .* No module named 'only_here'"):
            list(group.map(work, batches))
    with pytest.raises(ModuleNotFoundError, match="only_here"):
        group.on_each(here.work, 1)
    assert len(group.workers()) == 2


def test_a_batch_that_fails_once_is_done_again(group, tmp_path):
    assert list(group.map(samples.fail_once, range(4), str(tmp_path))) == [0, 1, 2, 3]


def test_without_workers_for_long_there_is_an_error(group, monkeypatch):
    monkeypatch.setattr(front, "PATIENCE", 0.12)
    nobody = Group(group.client, SimpleNamespace(workers={}), 1)
    with pytest.raises(ClusterError, match="no worker has been there"):
        list(nobody.map(samples.dawdle, [0], 1))


# --- who can reach it, and what is left -----------------------------------------------------------


def family():
    its = psutil.Process()
    return [its, *its.children(recursive=True)]


def test_everything_listens_on_loopback_and_nothing_shows_pages(group):
    ports = []
    for process in family():
        for one in process.net_connections(kind="inet"):
            if one.status == psutil.CONN_LISTEN:
                assert one.laddr.ip == "127.0.0.1"
                ports.append(one.laddr.port)
    # a scheduler, and for each worker itself and its nanny
    assert len(ports) == 5 and 8787 not in ports


@pytest.mark.slow
def test_nothing_is_left_when_the_block_ends():
    others = set(family())
    with pytest.raises(KeyError):
        with cluster(1, gpus=False) as its:
            folder = its.client.cluster.workers[0].folder
            started = set(family()) - others
            assert started and os.path.isdir(folder)
            raise KeyError
    assert awaited(lambda: not any(one.is_running() for one in started))
    assert not os.path.isdir(folder)


PROGRAM = """
import os, sys, time
from course import cuda                         # no  if __name__ == "__main__"
from course_app.cluster import cluster
with cluster(1, gpus=False) as group:
    print(group.seen[0].process, flush=True)
    time.sleep(60)
"""


@POSIX
@pytest.mark.slow
def test_workers_end_when_the_program_is_killed(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    program = subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, text=True)
    worker = psutil.Process(int(program.stdout.readline()))
    its = [worker, *worker.parents()[:1]]
    assert all(one.is_running() for one in its)
    program.kill()
    program.wait()
    program.stdout.close()
    assert awaited(lambda: not any(one.is_running() for one in its), 30)


# --- what is asked for ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"workers": 0}, "workers is 0; it must be at least 1"),
        ({"gpus": True}, "GPUs are asked for and there is no usable one here"),
        ({"dask_cuda": True, "gpus": False}, "for GPUs only"),
    ],
)
def test_what_cannot_be_had_is_refused(asked, says, monkeypatch):
    monkeypatch.setattr(backend, "gpu", lambda: None)
    with pytest.raises(ClusterError, match=says):
        with cluster(**asked):
            pytest.fail("it started")


def test_a_worker_has_a_gpu_of_its_own(monkeypatch):
    two = tuple(Device(n, "Tesla T4", (7, 5), 1 << 34) for n in range(2))
    monkeypatch.setattr(backend, "gpu", lambda: "Tesla T4")
    monkeypatch.setattr(front, "read_driver", lambda: Driver(True, (13, 0), two))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert front._devices(None, None) == ["0", "1"]
    assert front._devices(1, True) == ["0"]
    assert front._devices(3, False) == [None] * 3
    with pytest.raises(ClusterError, match="workers is 3 and there are 2 GPUs"):
        front._devices(3, None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b, GPU-a")
    assert front._devices(None, None) == ["GPU-b", "GPU-a"]


def seen(worker, identity="GPU-a", gpu="Tesla T4", devices=1):
    return Seen(worker, 1, gpu, identity, devices, 1 << 34, "no driver")


def test_workers_that_do_not_see_their_gpu_are_refused():
    check_gpus([seen("0"), seen("1", "GPU-b")])
    check_gpus([seen("0", devices=2), seen("1", "GPU-b", devices=2)], alone=False)
    with pytest.raises(ClusterError, match="worker 1 cannot use its GPU: no driver"):
        check_gpus([seen("0"), seen("1", None, None)])
    with pytest.raises(ClusterError, match="worker 0 sees 2 GPUs"):
        check_gpus([seen("0", devices=2)])
    with pytest.raises(ClusterError, match="two workers have the same GPU"):
        check_gpus([seen("0"), seen("1")])


def test_the_variable_is_there_when_a_worker_begins(group):
    assert group.on_each(samples.environment, "CUDA_VISIBLE_DEVICES") == ["-1", "-1"]
    assert cluster_processes.environment_of(1, "GPU-b")["CUDA_VISIBLE_DEVICES"] == "GPU-b"
    assert [one.worker for one in group.seen] == ["0", "1"]
    assert all(one.gpu is None and one.devices == 0 for one in group.seen)


def test_more_than_a_gpu_can_hold_is_refused(group):
    small = group.part(2)
    small.seen = tuple(seen(str(n), memory) for n, memory in ((0, "GPU-a"), (1, "GPU-b")))
    with pytest.raises(ValueError, match="a worker would keep .* and its GPU has 16.0 free"):
        small.keep(recipes(100_000, 1000, 2048, 2048, 128))


def test_a_worker_that_does_not_start_says_why(monkeypatch):
    original = cluster_processes.environment_of

    def broken(number, device):
        return original(number, device) | {"PYTHONHOME": "/nowhere"}

    monkeypatch.setattr(cluster_processes, "environment_of", broken)
    with pytest.raises(ClusterError, match="worker 0 ended at once with status"):
        with cluster(1, gpus=False):
            pytest.fail("it started")


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "course_app.cluster.processes", None)
    monkeypatch.delattr("course_app.cluster.processes", raising=False)
    with pytest.raises(ImportError, match=r"Dask cannot .*pip install .*\[cluster\]"):
        with cluster(1):
            pytest.fail("it started")


def test_dask_cuda_is_asked_for_the_same(monkeypatch):
    given = {}
    module = ModuleType("dask_cuda")
    module.LocalCUDACluster = lambda **options: given.update(options) or "its"
    monkeypatch.setitem(sys.modules, "dask_cuda", module)
    assert cluster_processes.start_dask_cuda(["0", "1"], "127.0.0.1", None, "/folder") == "its"
    assert given["CUDA_VISIBLE_DEVICES"] == "0,1" and given["n_workers"] == 2
    assert given["host"] == "127.0.0.1" and given["dashboard_address"] is None
    assert given["threads_per_worker"] == 1


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Recipe(0, 0, 8, 8, 2), "images is 0; give 1 or more"),
        (lambda: Recipe(-1, 1, 8, 8, 2), "first is -1"),
        (lambda: Recipe(0, 1, 8, 6, 7), "k is 7 for 8x6 pixels"),
        (lambda: recipes(0, 1, 8, 8, 2), "images is 0, batch 1"),
        (lambda: rebuild(factors(1)[0][:2], 2), "a batch is"),
        (lambda: next(Group(None, None, 1).map(rebuild, [], ahead=0)), "ahead is 0"),
    ],
)
def test_wrong_numbers_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


# --- with GPUs ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpu_group():
    with cluster(2, dask_cuda=False) as its:
        yield its


@pytest.mark.gpu
@TWO_GPUS
def test_gpu_workers_have_one_gpu_each(gpu_group):
    assert len({one.identity for one in gpu_group.seen}) == 2
    assert all(one.gpu and one.devices == 1 for one in gpu_group.seen)


@pytest.mark.gpu
@TWO_GPUS
@pytest.mark.parametrize("shape", [(256, 256, 50), (521, 333, 128)])
def test_gpu_workers_rebuild_what_one_gpu_rebuilds(gpu_group, shape):
    rows, columns, k = shape
    split = recipes(14, 4, rows, columns, k)
    alone = [rebuilt(one) for one in split]
    together = list(gpu_group.map(rebuilt, split))
    kept = gpu_group.keep(split)
    digests = list(gpu_group.map(rebuilt_digests, kept))
    for one, images, digest in zip(alone, together, digests, strict=True):
        assert np.array_equal(one, images)
        assert np.array_equal(synthetic_images.digests_by_numpy(one), digest)
    its = cluster_work.make(split[1], "numpy")
    for name in ("u", "s", "vt"):
        there = getattr(cluster_work.make(split[1]), name).copy_to_host()
        assert np.array_equal(there, getattr(its, name))
    (travelled,) = gpu_group.reconstruct([(its.u, its.s, its.vt)], k)
    assert np.array_equal(travelled, alone[1])
    wide = [part.astype(np.float64) for part in (its.u, its.s, its.vt)]
    expected = (wide[0][..., :k] * wide[1][:, None, :k]) @ wide[2][:, :k]
    assert np.linalg.norm(alone[1] - expected) <= 1e-6 * np.linalg.norm(expected)


@pytest.mark.slow
@pytest.mark.gpu
@TWO_GPUS
def test_gpu_worker_that_is_killed_loses_nothing():
    split = recipes(64, 4, 256, 256, 50)
    expected = np.concatenate([rebuilt_digests(one) for one in split])
    with cluster(2, dask_cuda=False) as its:
        kept = its.keep(split)
        found = its.map(rebuilt_digests, kept * 20)
        first = [next(found) for _ in range(16)]
        os.kill(its.seen[0].process, signal.SIGKILL)
        digests = np.concatenate([*first, *found])
        assert np.array_equal(digests, np.tile(expected, 20))
        assert awaited(lambda: len(its.workers()) == 2)
        again = its.on_each(cluster_work.see)
        assert {one.identity for one in again} == {one.identity for one in its.seen}


@pytest.mark.slow
@pytest.mark.gpu
@TWO_GPUS
@pytest.mark.skipif(not cluster_processes.has_dask_cuda(), reason="dask-cuda is not installed")
def test_gpu_workers_of_dask_cuda_do_the_same():
    split = recipes(12, 3, 256, 256, 50)
    with cluster(2, dask_cuda=True) as its:
        assert len({one.identity for one in its.seen}) == 2
        for one, digests in zip(split, its.map(rebuilt_digests, its.keep(split)), strict=True):
            assert np.array_equal(digests, rebuilt_digests(one))
