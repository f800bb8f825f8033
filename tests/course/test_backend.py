"""Which machine is this: a usable GPU is used, anything less is simulated, and why is known."""

import os
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

from course import backend
from course.driver import Device, Driver, read_driver

REPOSITORY = Path(__file__).parents[2]
T4 = Device(0, "Tesla T4", (7, 5), 15 * 2**30)
WITH_GPU = Driver(found=True, version=(13, 0), devices=(T4,))
WITHOUT = Driver(found=False, error="no driver library on this machine")


@pytest.fixture(autouse=True)
def undecided():
    """Decide anew in each test; a driver without trouble, no variables.

    After it the decision is made again, without the test's pretences: left open, it would be made
    by the next test that pretends to have a GPU, for all that follow in this process.
    """
    caches = (backend.machine, backend._cuda, backend.array_module)
    for cached in caches:
        cached.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
        yield  # what the test's own monkeypatch changed is undone before this goes on
    for cached in caches:
        cached.cache_clear()
    backend._cuda()


def fake_numba_cuda(monkeypatch, *, smoke=None, available=True):
    """A GPU, and a numba.cuda that is there, whose first kernel does what `smoke` does."""
    monkeypatch.setattr(backend, "read_driver", lambda: WITH_GPU)
    monkeypatch.setattr(backend, "numpy_too_new", lambda: None)
    module = types.ModuleType("numba.cuda")
    module.__file__ = "site-packages/numba_cuda/numba/cuda/__init__.py"
    module.is_available = lambda: available
    real = backend.importlib.import_module

    def import_module(name):
        return module if name == "numba.cuda" else real(name)

    monkeypatch.setattr(backend.importlib, "import_module", import_module)
    monkeypatch.setattr(backend.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(backend, "run_smoke_kernel", smoke or (lambda numba_cuda: None))
    return module


def broken(*args):
    raise RuntimeError("ptxas application ptx input, line 9; fatal: Unsupported .version 9.0\nmore")


def test_no_driver_means_the_simulator(monkeypatch):
    monkeypatch.setattr(backend, "read_driver", lambda: WITHOUT)
    assert backend.gpu() is None
    assert backend.cuda.__name__ == "warpsim.cuda"
    assert backend.xp is np
    assert "no driver" in backend.why()


def test_usable_gpu_means_numba_cuda_itself(monkeypatch):
    module = fake_numba_cuda(monkeypatch)
    assert backend.gpu() == "Tesla T4"
    assert backend.cuda is module


def test_the_kernel_that_tries_a_gpu_runs_once_though_it_is_kept_on_disk(monkeypatch, tmp_path):
    """What keeps it must not ask for the GPU that is still being tried."""
    numba = pytest.importorskip("numba")
    pytest.importorskip("numba_cuda")
    runs = []

    class Tried:
        targetoptions, _cache, compile = {}, None, lambda self, types: None

        def __init__(self, function):
            self.py_func = function

        def __getitem__(self, configuration):
            return self

        def __call__(self, array):
            runs.append(array)
            self._cache.load_overload("float32[:]", None)
            array.values = 2 * array.values

    fake = types.ModuleType("numba.cuda")
    fake.__file__ = "/packages/numba_cuda/numba/cuda/__init__.py"
    fake.jit, fake.is_available, fake.grid = Tried, lambda: True, None
    to_host = property(lambda self: lambda: self.values)
    on_device = type("Array", (types.SimpleNamespace,), {"copy_to_host": to_host})
    fake.to_device = lambda values: on_device(values=values)
    fake.get_current_device = lambda: types.SimpleNamespace(compute_capability=(7, 5))
    fake.runtime = types.SimpleNamespace(get_version=lambda: (13, 0))
    monkeypatch.setitem(sys.modules, "numba.cuda", fake)
    monkeypatch.setattr(numba, "cuda", fake, raising=False)
    monkeypatch.setattr(backend, "read_driver", lambda: WITH_GPU)
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "kept"))
    assert backend.machine().gpu == "Tesla T4"
    assert len(runs) == 1


def test_gpu_whose_first_kernel_fails_is_left_alone_with_the_reason(monkeypatch):
    fake_numba_cuda(monkeypatch, smoke=broken)
    assert backend.gpu() is None
    assert backend.cuda.__name__ == "warpsim.cuda"
    assert "Unsupported .version 9.0" in backend.why()
    assert "\n" not in backend.why()


def test_gpu_that_numba_refuses_is_left_alone(monkeypatch):
    fake_numba_cuda(monkeypatch, available=False)
    assert backend.gpu() is None
    assert "does not accept" in backend.why()


def test_builtin_target_of_numba_is_not_taken(monkeypatch):
    fake_numba_cuda(monkeypatch).__file__ = "site-packages/numba/cuda/__init__.py"
    assert backend.gpu() is None
    assert "built-in target" in backend.why()


def test_missing_numba_cuda_is_the_reason(monkeypatch):
    monkeypatch.setattr(backend, "read_driver", lambda: WITH_GPU)
    monkeypatch.setattr(backend, "numpy_too_new", lambda: None)
    monkeypatch.setattr(backend.importlib.util, "find_spec", lambda name: None)
    assert backend.gpu() is None
    assert "numba-cuda is not installed" in backend.why()


@pytest.mark.parametrize(
    ("numpy", "numba_cuda", "too_new"),
    [
        ("2.5.0", "0.30.4", True), ("2.5.2", "0.22.2", True), ("3.0.0rc1", "0.30.4", True),
        ("2.4.6", "0.30.4", False), ("2.5.0", "0.31.0", False), ("2.5.0", None, False),
    ],
)  # fmt: skip
def test_numpy_2_5_is_too_new_for_numba_cuda_to_0_30_4(monkeypatch, numpy, numba_cuda, too_new):
    monkeypatch.setattr(backend.np, "__version__", numpy)
    monkeypatch.setattr(backend, "installed_version", lambda name: numba_cuda)
    sentence = backend.numpy_too_new()
    assert (sentence is not None) == too_new
    assert not too_new or (numpy in sentence and numba_cuda in sentence)


def test_gpu_with_numpy_too_new_is_left_alone_before_anything_compiles(monkeypatch):
    fake_numba_cuda(monkeypatch, smoke=lambda cuda: pytest.fail("a kernel was compiled"))
    monkeypatch.setattr(backend, "numpy_too_new", lambda: "NumPy 2.5.0 is too new")
    assert backend.gpu() is None
    assert backend.why() == "NumPy 2.5.0 is too new"


def test_numbas_own_simulator_is_never_used(monkeypatch):
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    monkeypatch.setattr(backend, "read_driver", lambda: WITH_GPU)
    assert backend.gpu() is None
    assert "NUMBA_ENABLE_CUDASIM" in backend.why()


def test_machine_is_decided_once(monkeypatch):
    calls = []
    monkeypatch.setattr(backend, "read_driver", lambda: calls.append(1) or WITHOUT)
    for _ in range(3):
        backend.gpu()
        _ = backend.cuda
    assert len(calls) == 1


@pytest.mark.parametrize("error", [ImportError("libnvrtc.so.12"), RuntimeError("CUDARuntimeError")])
def test_cupy_that_does_not_work_gives_numpy_and_the_reason(monkeypatch, error):
    monkeypatch.setattr(backend, "gpu", lambda: "Tesla T4")
    real = backend.importlib.import_module

    def import_module(name):
        if name == "cupy":
            raise error
        return real(name)

    monkeypatch.setattr(backend.importlib, "import_module", import_module)
    module, reason = backend.array_module()
    assert module is np
    assert str(error) in reason


def test_cupy_that_works_is_xp(monkeypatch):
    monkeypatch.setattr(backend, "gpu", lambda: "Tesla T4")
    cupy = types.ModuleType("cupy")
    cupy.__version__, cupy.float32 = "14.2.0", np.float32

    class Array(np.ndarray):
        def get(self):
            return np.asarray(self)

    cupy.arange = lambda n, dtype: np.arange(n, dtype=dtype).view(Array)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert backend.array_module() == (cupy, "CuPy 14.2.0 works")


def test_simulate_chooses_the_simulated_gpu(monkeypatch):
    from warpsim.host import gpus

    monkeypatch.setattr(gpus, "_chosen", None)
    backend.simulate("H200")
    assert gpus.current().name == "H200"
    with pytest.raises(ValueError, match="known: Tesla T4"):
        backend.simulate("H2000 Ultra")


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'cupy'"):
        _ = backend.cupy


def test_performance_warnings_are_silent_in_both_of_numbas_classes():
    import numba.core.errors

    classes = [numba.core.errors.NumbaPerformanceWarning]
    try:
        import numba.cuda.core.errors as second

        classes.append(second.NumbaPerformanceWarning)
    except (ImportError, AttributeError):
        pass
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        backend.silence_performance_warnings()
        for category in classes:
            warnings.warn("Grid size 1 will likely result in GPU under-utilization", category, 2)
    assert caught == []


def test_versions_are_read_as_numbers():
    assert backend.version_tuple("0.30.4") == (0, 30, 4)
    assert backend.version_tuple("2.5.0rc1") == (2, 5, 0)
    assert backend.version_tuple("13.0.88.post1") == (13, 0, 88)
    assert backend.version_tuple("unknown") == ()


def test_driver_is_read_without_raising_on_this_machine():
    driver = read_driver()
    assert driver.found or driver.error == "no driver library on this machine"
    assert all(device.memory > 0 for device in driver.devices)


CORE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("cupy", "numba_cuda") or name.startswith("numba.cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
import numpy as np
from numba import float32
import course
from course import cuda, xp, trace, doctor, gpu

assert gpu() is None and xp is np

@cuda.jit
def scale(out, x):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = float32(2) * x[i]

x = np.arange(100, dtype=np.float32)
out = np.zeros_like(x)
scale[4, 32](out, x)
assert np.array_equal(out, 2 * x)
assert trace(scale, 4, 32, out, x).findings == ()
text = str(doctor())
assert "failed itself" not in text, text
assert "cupy" not in sys.modules and "numba.cuda" not in sys.modules
print("core works")
"""


def run_python(code, folder):
    """Run a program of its own; from a file, so that kernels in it have a source."""
    program = folder / "program.py"
    program.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        [sys.executable, program], capture_output=True, text=True, env=environment, timeout=120
    )


def test_core_works_where_numba_cuda_and_cupy_are_missing(tmp_path):
    done = run_python(CORE, tmp_path)
    assert done.stdout.strip() == "core works", done.stderr[-2000:]
    assert done.stderr == ""


def test_import_of_course_loads_neither_numba_nor_numpy(tmp_path):
    code = "import sys, course; print([m for m in ('numba', 'numpy', 'cupy') if m in sys.modules])"
    done = run_python(code, tmp_path)
    assert done.stdout.strip() == "[]", done.stderr
