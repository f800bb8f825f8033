"""Compiled kernels on disk: known by all that they depend on, whole or not used, bounded."""

import importlib
import math
import os
import pickle
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest

from course import backend, kernel_cache
from tests.course.compiled_samples import needs_numba_cuda

on_gpu = pytest.mark.skipif(backend.gpu() is None, reason="needs a GPU")
FACTOR, ONE = 3, np.float32(1)
TABLE = np.arange(4)


def compiled(function, **options):
    """What a dispatcher of numba-cuda is, to what asks for its key."""
    return SimpleNamespace(py_func=function, targetoptions=options)


def key(function, signature="f4", target="sm_90", **options):
    return kernel_cache.key_of(compiled(function, **options), signature, target)


def test_a_key_holds_signature_target_and_options():
    def kernel(x):
        x[0] = 1

    keys = [
        key(kernel), key(kernel, "f8"), key(kernel, target="sm_75"), key(kernel, fastmath=True),
        key(kernel, fastmath=False), key(kernel, max_registers=64),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys) and key(kernel) == keys[0]


def test_a_key_holds_constants_closures_and_defaults():
    def make(n, word=ONE):
        def kernel(x, y=2):
            x[0] = n * word

        return kernel

    keys = {key(make(1)), key(make(2)), key(make(1.0)), key(make(1, np.float64(1)))}
    assert len(keys) == 4 and key(make(1)) in keys

    def one(x):
        x[0] = 1

    def other(x):
        x[0] = 2

    assert key(one) != key(other)


def test_a_key_holds_what_is_global(monkeypatch):
    def kernel(x):
        x[0] = FACTOR * math.sqrt(2) + TABLE[1]

    before = key(kernel)
    assert key(kernel) == before
    monkeypatch.setitem(globals(), "FACTOR", 4)
    changed = key(kernel)
    monkeypatch.setitem(globals(), "TABLE", np.arange(5))
    assert len({before, changed, key(kernel)}) == 3


def test_a_function_edited_in_another_file_gives_another_key(tmp_path, monkeypatch):
    """Numba's own cache sees the kernel's file alone."""
    monkeypatch.syspath_prepend(tmp_path)

    def written(body):
        (tmp_path / "far_away.py").write_text(f"def far(x):\n    return {body}\n")
        importlib.invalidate_caches()
        sys.modules.pop("far_away", None)
        inner = compiled(importlib.import_module("far_away").far)
        middle = compiled(lambda x: inner(x))

        def kernel(x):
            x[0] = middle(x[0])

        return key(kernel)

    assert written("x + 1") == written("x + 1") != written("x + 10001")


def test_a_name_of_a_package_is_what_it_stands_for(tmp_path, monkeypatch):
    """A kernel that says `package.far` depends on the module in which far is defined."""
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "far_package"
    folder.mkdir()

    def written(body):
        (folder / "__init__.py").write_text("from far_package.inside import far\n")
        (folder / "inside.py").write_text(f"def far(x):\n    return {body}\n")
        for file in folder.glob("*.py"):
            os.utime(file, (1e9, 1e9))
        kernel_cache._of_file.cache_clear()  # as in another process
        package = importlib.import_module("far_package")

        def kernel(x):
            x[0] = package.far(x[0])

        return key(kernel)

    assert written("x + 1") == written("x + 1") != written("x + 10001")
    sys.modules.pop("far_package")


def test_what_cannot_be_read_is_not_kept():
    thing = object()

    def kernel(x):
        x[0] = thing

    with pytest.raises(kernel_cache.NotCacheable, match="a object"):
        key(kernel)


def test_functions_that_call_each_other_have_keys():
    def first(x):
        return second_one(x)

    first_one = compiled(first)

    def second(x):
        return first_one(x)

    second_one = compiled(second)
    assert kernel_cache.key_of(first_one, "f4", "") != kernel_cache.key_of(second_one, "f4", "")


# --- files ----------------------------------------------------------------------------------------


class Kernel:
    """What numba-cuda compiles."""

    def __init__(self, words="compiled"):
        self.words = words

    def _reduce_states(self):
        return {"words": self.words}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of a kernel in a folder of its own, and numba-cuda's part of it."""
    dispatcher = pytest.importorskip("numba.cuda.dispatcher")
    pytest.importorskip("numba.cuda.serialize")
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(kernel_cache, "target_here", lambda: "sm_90")
    rebuilt = SimpleNamespace(_rebuild=lambda words: Kernel(words))
    monkeypatch.setattr(dispatcher, "_Kernel", rebuilt)

    def kernel(x):
        x[0] = 1

    return kernel_cache.DiskCache(compiled(kernel))


CONTEXT = SimpleNamespace(refresh=lambda: None)


def test_what_is_kept_is_found_again_and_nothing_else(cache):
    assert cache.load_overload("f4", CONTEXT) is None
    cache.save_overload("f4", Kernel("machine code"))
    assert cache.load_overload("f4", CONTEXT).words == "machine code"
    assert cache.load_overload("f8", CONTEXT) is None
    assert kernel_cache.clear() == 1 and cache.load_overload("f4", CONTEXT) is None


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:-1] + b"?"])
def test_a_damaged_file_is_ignored_and_removed(cache, damage):
    cache.save_overload("f4", Kernel())
    (file,) = kernel_cache.folder().glob("*.kernel")
    file.write_bytes(damage(file.read_bytes()))
    assert cache.load_overload("f4", CONTEXT) is None and not file.exists()


def test_a_payload_of_another_version_is_compiled_anew(cache):
    import hashlib

    cache.save_overload("f4", Kernel())
    (file,) = kernel_cache.folder().glob("*.kernel")
    content = pickle.dumps({"other": 1})
    file.write_bytes(kernel_cache.MARK + hashlib.sha256(content).digest() + content)
    assert cache.load_overload("f4", CONTEXT) is None


def test_the_folder_is_bounded(cache, monkeypatch):
    for number in range(6):
        cache.save_overload(f"f{number}", Kernel("x" * 1000))
        for age, file in enumerate(
            sorted(kernel_cache.folder().glob("*.kernel"), key=os.path.getmtime)
        ):
            os.utime(file, (age, age))
    monkeypatch.setattr(kernel_cache, "MOST_BYTES", 3500)
    cache.save_overload("last", Kernel("x" * 1000))
    assert sum(file.stat().st_size for file in kernel_cache.folder().glob("*.kernel")) <= 3500
    assert cache.load_overload("last", CONTEXT) is not None
    assert cache.load_overload("f0", CONTEXT) is None


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are POSIX's")
def test_a_folder_that_others_can_write_to_is_not_used(cache):
    kernel_cache.folder().mkdir(mode=0o777)
    kernel_cache.folder().chmod(0o777)
    with pytest.warns(RuntimeWarning, match="can be written by others.*COURSE_CACHE"):
        cache.save_overload("f4", Kernel())
    assert not list(kernel_cache.folder().iterdir())


def test_nothing_is_kept_where_that_is_switched_off(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_CACHE", "off")
    cache.save_overload("f4", Kernel())
    assert (
        kernel_cache.folder() is None and kernel_cache.clear() == 0 and not list(tmp_path.iterdir())
    )
    monkeypatch.delenv("COURSE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert kernel_cache.folder() == tmp_path / "course-kernels"


# --- on a GPU -------------------------------------------------------------------------------------

PROGRAM = """
import sys, time
import numpy as np
from course.kernels.norm import layer_norm
from course.kernels.reconstruct import reconstruct
from course.kernels.svd import svd
from course import cuda
cuda.to_device(np.zeros(3)); cuda.synchronize()
a = np.random.default_rng(0).random((4, 64, 64), dtype=np.float32)
for name, call in (
    ("layer_norm", lambda: layer_norm(a[0])), ("reconstruct", lambda: reconstruct(*svd_once, 9)),
    ("svd", lambda: svd(a)), ("svd again", lambda: svd(a)), ("svd thrice", lambda: svd(a)),
):
    svd_once = (a[0], a[0, 0], a[1])
    start = time.perf_counter()
    found = call()
    cuda.synchronize()
    print(name, round(time.perf_counter() - start, 3))
u, s, vt = found
assert np.abs((u * s[:, None]) @ vt - a).max() < 1e-4
"""


@on_gpu
@pytest.mark.gpu
def test_a_second_process_compiles_nothing(tmp_path):
    there = dict(os.environ, COURSE_CACHE=str(tmp_path / "kept"))
    times = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM)], env=there, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        lines = (line.rsplit(" ", 1) for line in done.stdout.splitlines())
        times.append({name: float(seconds) for name, seconds in lines})
    first, second = times
    print(first, second)
    assert second["svd"] < first["svd"] / 5 and second["layer_norm"] < first["layer_norm"]


@needs_numba_cuda
def test_a_compile_does_not_import_scipys_linear_algebra():
    pytest.importorskip("scipy")
    script = """from course import kernel_cache
kernel_cache.cached()
from numba.cuda.descriptor import cuda_target
cuda_target.target_context.refresh()
import sys
print(sys.modules["numba.cuda.np.arraymath"]._HAVE_BLAS, "scipy.linalg" in sys.modules)"""
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "True False\n"
