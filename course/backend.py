"""Which machine is this: a GPU through numba.cuda or its successor, or the simulator.

`cuda` and `xp` are decided once, when they are first asked for. Nothing is hidden: a GPU that is
there and cannot be used is left alone; `why()` and `course.doctor()` say what stands in the way.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import sys
import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from course import successor
from course.colab import installed_version
from course.driver import read_driver
from warpsim.host import gpus

# numba-cuda up to this version calls np.row_stack when it compiles; NumPy 2.5 no longer has it.
NUMBA_CUDA_WITH_ROW_STACK = (0, 30, 4)
NUMPY_WITHOUT_ROW_STACK = (2, 5)


@dataclass(frozen=True)
class Machine:
    """What was found: the name of the usable GPU, or None and the reason."""

    gpu: str | None
    reason: str


def version_tuple(text: str) -> tuple[int, ...]:
    """Leading numbers of a version: "0.30.4rc1" -> (0, 30, 4)."""
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def numpy_too_new() -> str | None:
    """The sentence that says that NumPy is too new for the installed numba-cuda, or None."""
    numba_cuda = None if successor.is_chosen() else installed_version("numba-cuda")
    if numba_cuda is None or version_tuple(numba_cuda) > NUMBA_CUDA_WITH_ROW_STACK:
        return None
    if version_tuple(np.__version__) < NUMPY_WITHOUT_ROW_STACK:
        return None
    return (
        f"NumPy {np.__version__} is too new for numba-cuda {numba_cuda}, "
        "which fails with it whenever it compiles a kernel"
    )


def numba_simulator_wanted() -> bool:
    """Whether NUMBA_ENABLE_CUDASIM replaces numba.cuda by Numba's own simulator."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "") not in ("", "0")


def one_line(error: BaseException, longest: int = 200) -> str:
    """An exception as "Type: first line of its message", at most `longest` characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= longest else text[: longest - 1] + "…"


def silence_performance_warnings() -> None:
    """Keep Numba from warning of small grids and of copied host arrays at every launch.

    A lesson launches small grids on purpose. This is the only place that filters warnings.
    Newer numba-cuda defines the class and the settings a second time, so both are named. The
    settings also hold where somebody resets the filters, as test runners do. numba-cuda-mlir's are
    set only where it is imported already, since its import takes seconds.
    """
    packages = ["numba.core"]
    if not successor.is_chosen() or successor.PACKAGE in sys.modules:
        packages.append(f"{successor.above()}.core")
    for package in packages:
        try:
            category = importlib.import_module(f"{package}.errors").NumbaPerformanceWarning
            settings = importlib.import_module(f"{package}.config")
        except (ImportError, AttributeError):
            continue
        warnings.filterwarnings("ignore", category=category)
        settings.CUDA_LOW_OCCUPANCY_WARNINGS = 0
        settings.CUDA_WARN_ON_IMPLICIT_COPY = 0


def run_smoke_kernel(numba_cuda: ModuleType) -> None:
    """Compile a kernel, or load what an earlier process compiled, run it, look at what came back.

    Raises
    ------
    Exception
        Whatever numba-cuda raises, or RuntimeError when the result is wrong.
    """

    @numba_cuda.jit
    def double_each(x):
        i = numba_cuda.grid(1)
        if i < x.size:
            x[i] = x[i] + x[i]

    from course import kernel_cache

    kernel_cache.cached(double_each)
    on_device = numba_cuda.to_device(np.arange(5, dtype=np.float32))
    double_each[1, 32](on_device)
    result = on_device.copy_to_host()
    if not np.array_equal(result, np.arange(0, 10, 2, dtype=np.float32)):
        raise RuntimeError(f"a kernel that doubles 0..4 returned {result.tolist()}")


def _find_gpu() -> Machine:
    if numba_simulator_wanted():
        return Machine(None, "NUMBA_ENABLE_CUDASIM is set")
    driver = read_driver()
    if not driver.devices:
        return Machine(None, driver.error or "the driver sees no CUDA device")
    name = driver.devices[0].name
    too_new = numpy_too_new()
    if too_new:
        return Machine(None, too_new)
    package = successor.compiler()
    runs = package if successor.is_chosen() else "numba.cuda"
    if not successor.is_installed(package):
        return Machine(None, f"the package {package} is not installed")
    try:
        found = successor.numba_cuda()
        if "numba_cuda" not in (found.__file__ or ""):
            return Machine(None, "numba.cuda is Numba's old built-in target, not numba-cuda's")
        if not found.is_available():
            return Machine(None, f"{runs} does not accept this machine's {name}")
        silence_performance_warnings()
        run_smoke_kernel(found)
    except Exception as error:  # whatever a broken installation raises, the course goes on
        return Machine(None, one_line(error))
    return Machine(name, f"{runs} runs kernels on the {name}")


@functools.cache
def machine() -> Machine:
    """What this machine has, found out once."""
    return _find_gpu()


def gpu() -> str | None:
    """Name of the real GPU on which kernels run, or None where they are simulated."""
    return machine().gpu


def why() -> str:
    """One sentence: why kernels run on a GPU here, or why they are simulated."""
    return machine().reason


@functools.cache
def _cuda() -> ModuleType:
    silence_performance_warnings()
    return successor.numba_cuda() if gpu() is not None else importlib.import_module("warpsim.cuda")


def jit_without_lto(**options: Any) -> Any:
    """``cuda.jit`` without link-time optimisation (LTO).

    Numba-CUDA, 0.22 to 0.30 at least, loses ``lto=False`` of a decorator that is called with
    options alone. If the function is passed beside the options, ``lto=False`` has its effect.

    >>> @jit_without_lto(fastmath=True, max_registers=128)
    ... def kernel(x, out): ...
    """
    return functools.partial(_cuda().jit, lto=False, **options)


@functools.cache
def array_module() -> tuple[ModuleType, str]:
    """CuPy or NumPy, and the reason. CuPy only beside a usable GPU: `cuda` takes its arrays."""
    if gpu() is None:
        return np, "no usable GPU"
    try:
        cupy = importlib.import_module("cupy")
        total = float((cupy.arange(4, dtype=cupy.float32) + 1).sum().get())
        if total != 10.0:
            raise RuntimeError(f"CuPy adds 1 + 2 + 3 + 4 to {total}")
    except Exception as error:  # whatever a broken CuPy raises, NumPy serves
        return np, one_line(error)
    return cupy, f"CuPy {cupy.__version__} works"


def simulate(name: str) -> None:
    """Choose the GPU that the simulator imitates, such as "T4" (at the start) or "H200".

    On a machine with a GPU kernels still run there; `trace` and `check` follow the choice.
    """
    gpus.simulate(name)


def simulated(name: str | None = None) -> gpus.GPU:
    """What the simulator knows of a GPU: multiprocessors, memory, limits.

    Parameters
    ----------
    name : str, optional
        Such as "H200"; without it the one that is simulated now.

    Raises
    ------
    ValueError
        When no GPU of that name can be simulated; the message lists those that can.
    """
    return gpus.current() if name is None else gpus.find(name)


def __getattr__(name: str) -> Any:
    if name == "cuda":
        return _cuda()
    if name == "xp":
        return array_module()[0]
    raise AttributeError(f"module 'course.backend' has no attribute {name!r}; it has cuda, xp, gpu")
