"""What a machine has, as far as a container lets us; what images need; memory that is shared."""

import errno
import os
import sys

import numpy as np
import pytest

from course_app.pipeline import capacity
from course_app.pipeline import limits as limits_of
from course_app.pipeline.shared_buffers import ALIGNED, Layout, SharedBuffers, SharedFile


@pytest.fixture
def limits(tmp_path, monkeypatch):
    """Files of control groups, of this content."""
    groups = tmp_path / "sys/fs/cgroup"
    groups.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n2:memory:/\n1:cpu,cpuacct:/\n")
    (tmp_path / "proc/self/mountinfo").write_text(
        "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    )
    monkeypatch.setattr(limits_of, "ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16), raising=False)
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1 << 22, "SC_PAGE_SIZE": 4096}.__getitem__)

    def written(**contents):
        for name, content in contents.items():
            (groups / name.replace("_max", ".max")).write_text(content)

    return written


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", 16),
        ("400000 100000", 4),
        ("150000 100000", 2),
        ("20000 100000", 1),
        ("6400000 100000", 16),
        ("0 100000", 16),
        ("nonsense", 16),
        ("", 16),
    ],
)
def test_a_container_has_its_share_of_the_cores(limits, quota, cores):
    limits(cpu_max=quota + "\n")
    assert capacity.cores() == cores


@pytest.mark.parametrize(
    "cores, gpus, each",
    [(2, 1, 1), (7, 1, 1), (8, 1, 2), (16, 1, 3), (64, 1, 3), (16, 2, 2), (8, 8, 1)],
)
def test_a_gpu_has_a_process_for_each_four_of_its_cores(limits, monkeypatch, cores, gpus, each):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores), raising=False)
    assert capacity.feeders_for(gpus) == each


@pytest.mark.parametrize(
    "asked, images, gpus",
    [(1, 10, 1), (4, 10, 1), (4, 6000, 1), (2, 6000, 1), (2, 30_000, 2), (4, 30_000, 4)],
)
def test_few_images_are_not_worth_the_start_of_more_gpus(asked, images, gpus):
    assert capacity.gpus_for(asked, capacity.cpu_seconds(256, 256, images)) == gpus


def test_large_images_come_in_short_stacks_and_few_at_once(limits):
    assert capacity.batch_for(256, 256, [50]) == 128
    assert capacity.batch_for(1024, 1024, [50]) == 15
    assert capacity.batch_for(8192, 8192, [10, 20]) == 1
    assert capacity.processes_for(None, 256, 256) == 16
    assert capacity.processes_for(3, 256, 256) == 3
    assert capacity.processes_for(None, 8192, 8192) == 1
    assert capacity.processes_for(None, 4096, 4096) == 7
    assert capacity.processes_for(None, 4096, 4096, svd="gpu") == 16
    limits(memory_max=str(4 << 30))
    assert capacity.processes_for(None, 4096, 4096) == 1
    assert capacity.processes_for(99, 4096, 4096) == 1


# --- buffers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 12])
@pytest.mark.parametrize("batch", [1, 5, 32])
def test_arrays_of_buffers_lie_one_behind_the_other_and_do_not_touch(batch, kept):
    layout = Layout(3, batch, (20, 31), 2, kept)
    buffers = SharedBuffers(layout)
    arrays = buffers.images, buffers.sizes, buffers.lines, *buffers.factors
    assert buffers.images.shape == (3, batch, 20, 31) and buffers.images.dtype == np.float32
    assert buffers.lines.shape == (3, 2, batch, 20, 32) and buffers.lines.dtype == np.uint8
    assert [part.shape[2:] for part in buffers.factors] == [(20, 12), (12,), (12, 31)][
        : 3 * bool(kept)
    ]
    for number, array in enumerate(arrays):
        assert array.ctypes.data % ALIGNED == 0
        array[...] = number + 1
    assert all((array == number + 1).all() for number, array in enumerate(arrays))
    needed = sum(array.nbytes for array in arrays)
    assert needed <= layout.bytes < needed + ALIGNED * len(arrays)


def test_there_are_as_many_buffers_as_memory_holds_and_images_fill(monkeypatch):
    one = Layout(1, 32, (256, 256), 2).bytes
    for gib, images, count in (
        (64, 10**6, (2 << 30) // one),
        (2, 10**6, (2 << 27) // one),
        (64, 100, 4),
        (64, 3, 2),
        (0, 10**6, 2),
    ):
        monkeypatch.setattr(capacity, "memory", lambda gib=gib: gib << 30)
        layout = Layout.within_memory(32, (256, 256), 2, 0, images)
        assert layout == Layout(count, 32, (256, 256), 2, 0)
        assert layout.bytes <= max(2 << 30, 2 * one)  # what the module promises


@pytest.fixture
def shared():
    its = SharedFile()
    yield its
    its.close()


def test_what_one_writes_in_shared_memory_the_other_reads(shared):
    layout = Layout(2, 3, (8, 9), 1, 4)
    shared.begin(layout)
    assert shared.reserve(0) and shared.reserve(1)
    assert os.fstat(shared.descriptor).st_size == layout.bytes
    here, there = (SharedBuffers(layout, shared.descriptor) for _ in range(2))
    here.images[1, 2] = 7
    here.factors[0][1] = 3
    assert (there.images[1, 2] == 7).all() and (there.factors[0][1] == 3).all()
    assert not there.lines.any() and not there.images[0].any()


def test_a_buffer_takes_its_memory_when_it_is_used(shared):
    """Of two gibibytes that may be taken, a small job takes little."""
    layout = Layout(8, 4, (256, 256), 2, 12)
    shared.begin(layout)
    assert os.fstat(shared.descriptor).st_blocks == 0
    for buffer in range(3):
        shared.reserve(buffer)
        taken = 512 * os.fstat(shared.descriptor).st_blocks
        share = layout.bytes * (buffer + 1) / layout.count
        assert share <= taken <= share + 2 * 4096 * len(layout.shapes())


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="memory is asked for by that")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOMEM, errno.EFBIG])
def test_where_memory_is_scarce_there_are_fewer_buffers_two_at_least(shared, monkeypatch, number):
    layout = Layout(9, 4, (64, 64), 2)
    a_buffer, free = layout.bytes // 9, [0]

    def fallocate(descriptor, start, count):
        free[0] -= count
        if free[0] < 0:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    shared.begin(layout)
    for buffers in (9, 3, 2):
        free[0] = buffers * a_buffer
        assert [shared.reserve(buffer) for buffer in range(min(9, buffers + 1))] == (
            [True] * buffers + [False] * (buffers < 9)
        )
    free[0] = a_buffer
    assert shared.reserve(0)
    with pytest.raises(MemoryError, match="no room for 0 MiB of memory that.*smaller --batch"):
        shared.reserve(1)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="memory is asked for by that")
def test_another_error_of_the_system_is_not_taken_for_scarce_memory(shared, monkeypatch):
    def fallocate(*_):
        raise OSError(errno.EBADF, "planted")

    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    shared.begin(Layout(4, 1, (8, 8), 1))
    with pytest.raises(OSError, match="planted") as caught:
        shared.reserve(0)
    assert caught.value.errno == errno.EBADF


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/shm and memfd")
def test_shared_memory_leaves_nothing_behind(shared):
    before = sorted(os.listdir("/dev/shm"))
    shared.begin(Layout(2, 3, (8, 9), 1))
    assert shared.reserve(0)
    assert sorted(os.listdir("/dev/shm")) == before
    shared.close()
    shared.close()
    assert shared.descriptor == -1
