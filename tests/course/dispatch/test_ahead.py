"""Kernels are noted without a launch, and other processes compile those that are missing."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from course import backend, kernel_cache
from course.dispatch import ahead
from tests.threads import at_once

pytest.importorskip("numba_cuda")


def kernel_of(name, *there):
    """What a kernel of numba.cuda is, to what looks for it; stored are those of the types given."""

    def function():
        pass

    function.__name__, function.__module__ = name, __name__
    cache = SimpleNamespace(lacks=lambda types: types not in there)
    return SimpleNamespace(py_func=function, _cache=cache, overloads={})


ONE, TWO, STORED = kernel_of("one"), kernel_of("two"), kernel_of("stored", ("f4",))


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(kernel_cache, "cached", lambda *kernels: None)


def test_without_a_gpu_nothing_is_done(monkeypatch):
    monkeypatch.setattr(backend, "gpu", lambda: None)
    assert ahead.compile_ahead(lambda: 1 / 0) == 0


def test_launches_of_this_thread_are_noted_and_those_of_others_made(monkeypatch):
    from numba.cuda.dispatcher import CUDADispatcher

    made = []
    monkeypatch.setattr(CUDADispatcher, "call", lambda self, args, *how: made.append((self, args)))
    kernel = SimpleNamespace(typeof_pyval=type)
    noted, before = [], CUDADispatcher.call
    with ahead._noting(noted):
        CUDADispatcher.call(kernel, (1, "two"), "how")
        at_once(lambda: CUDADispatcher.call(kernel, (3.0,), "how"))
    assert noted == [(kernel, (int, str))] and made == [(kernel, (3.0,))]
    assert CUDADispatcher.call is before
    with pytest.raises(ZeroDivisionError), ahead._noting(noted):
        1 / 0  # noqa: B018
    assert CUDADispatcher.call is before


def test_what_is_missing_is_compiled_once(quiet):
    TWO.overloads["i4",] = None
    notes = [(ONE, ("f4",)), (ONE, ("f4",)), (ONE, ("f8",)), (TWO, ("i4",)), (STORED, ("f4",)),
             (STORED, ("f8",))]  # fmt: skip
    found = ahead._missing([ahead.Noted(*one) for one in notes])
    assert found == [(ONE, ("f4",)), (ONE, ("f8",)), (STORED, ("f8",))]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="without copies of a process nothing is done")
@pytest.mark.parametrize("seed", range(3))
def test_each_kernel_is_compiled_once_and_a_copy_that_fails_or_hangs_holds_nobody(
    monkeypatch, tmp_path, seed
):
    rng = np.random.default_rng(seed)
    here, names = [], [f"kernel {n}" for n in range(rng.integers(2, 24))]
    jobs = [SimpleNamespace(kernel=SimpleNamespace(compile=here.append), types=n) for n in names]
    bad = int(rng.integers(1, len(names)))

    def compile_one(job):
        if job is jobs[bad]:
            time.sleep(60 if seed else 0)
            raise ValueError
        (tmp_path / f"{job.types} {os.getpid()}").touch(exist_ok=False)

    cores = int(rng.integers(1, 40))
    monkeypatch.setattr(ahead, "_compiler", lambda kernel: compile_one)
    monkeypatch.setattr(ahead.os, "sched_getaffinity", lambda _: range(cores), raising=False)
    monkeypatch.setattr(ahead, "LONGEST", 0.5)
    assert ahead._in_processes(jobs) == len(jobs) - 1
    done = [file.name.rsplit(" ", 1) for file in tmp_path.iterdir()]
    processes = {process for _, process in done}
    copies = min(len(names) - 1, ahead.MOST, max(cores - 1, 1))
    behind = names[bad::copies] if seed else names[bad : bad + 1]
    assert here == names[:1] and str(os.getpid()) not in processes
    assert len(processes) in (copies, copies - 1)
    assert sorted(name for name, _ in done) == sorted({*names[1:]} - {*behind})


@pytest.mark.gpu
@pytest.mark.skipif(backend.gpu() is None, reason="compiles for the GPU that is here")
def test_a_new_shape_compiles_nothing(tmp_path):
    program = (
        "import numpy as np; from course.kernels.svd import svd; "
        "from numba.cuda.dispatcher import CUDADispatcher; from course import kernel_cache\n"
        "svd(np.ones((2, 70, 70), 'f4')); before = len(list(kernel_cache.folder().iterdir()))\n"
        "svd(np.ones((3, 78, 78), 'f4')); print(before, len(list(kernel_cache.folder().iterdir())))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"COURSE_CACHE": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, after = map(int, ran.stdout.split())
    assert 3 <= before == after
