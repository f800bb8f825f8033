"""Runs the test suite that numba-cuda installs with itself, with the simulator in its place.

The test modules are read from the installed package, never copied. What they import by the names of
``numba.cuda`` is the simulator's module (:mod:`warpsim.cuda`); types, signatures and everything
else that has nothing to do with a GPU stays Numba's. Only the imports of the test modules are
changed, so Numba itself, which the simulator asks for types, is left as it is.

``python tests/warpsim/programs/numba_suite.py cudapy.test_sync doc_examples.test_vecadd`` prints a
line a test, and how many pass; with ``--json FILE`` it writes them. Without names it runs all.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import csv
import importlib
import importlib.util
import io
import itertools
import json
import linecache
import os
import signal
import subprocess
import sys
import time
import types as python_types
import unittest
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = "numba.cuda.tests"
#: The tests that do not pass, each with its kind and its reason.
EXCEPTIONS = Path(__file__).parent / "numba_suite_exceptions.csv"
SECONDS_EACH = 60  # a test that hangs counts as an error

#: What the test modules get instead of ``numba.cuda``'s names, by the module they ask for.
_STAND_INS: dict[str, Any] = {}
_LOADED: dict[str, python_types.ModuleType] = {}
#: How many launches the simulator has begun, those of ufuncs included.
_LAUNCHES = itertools.count()
_NUMBERS = itertools.count(1)

#: The test modules about kernels and the arrays they work on.
MODULES = tuple(
    """
    cudadrv.test_array_attr cudadrv.test_cuda_array_slicing cudadrv.test_cuda_devicerecord
    cudadrv.test_cuda_ndarray cudadrv.test_events cudadrv.test_is_fp16
    cudadrv.test_managed_alloc cudadrv.test_pinned cudadrv.test_profiler
    cudadrv.test_select_device cudadrv.test_streams
    cudapy.test_alignment cudapy.test_analysis cudapy.test_array cudapy.test_array_alignment
    cudapy.test_array_args cudapy.test_array_methods cudapy.test_atomics
    cudapy.test_blackscholes cudapy.test_boolean cudapy.test_byteflow cudapy.test_casting
    cudapy.test_complex cudapy.test_complex_kernel cudapy.test_constmem
    cudapy.test_cooperative_groups cudapy.test_copy_propagate cudapy.test_cuda_array_interface
    cudapy.test_cuda_jit_no_types cudapy.test_datetime cudapy.test_device_array_capture
    cudapy.test_device_func cudapy.test_dispatcher cudapy.test_enums cudapy.test_errors
    cudapy.test_exception cudapy.test_extending cudapy.test_fastmath cudapy.test_flow_control
    cudapy.test_forall cudapy.test_freevar cudapy.test_frexp_ldexp cudapy.test_globals
    cudapy.test_gufunc cudapy.test_gufunc_scalar cudapy.test_idiv cudapy.test_intrinsics
    cudapy.test_iterators cudapy.test_lang cudapy.test_laplace cudapy.test_localmem
    cudapy.test_mandel cudapy.test_math cudapy.test_matmul cudapy.test_minmax
    cudapy.test_montecarlo cudapy.test_nondet cudapy.test_numba_interop cudapy.test_operator
    cudapy.test_overload cudapy.test_powi cudapy.test_print cudapy.test_py2_div_issue
    cudapy.test_random cudapy.test_record_dtype cudapy.test_recursion cudapy.test_reduction
    cudapy.test_retrieve_autoconverted_arrays cudapy.test_slicing cudapy.test_sm
    cudapy.test_sm_creation cudapy.test_ssa cudapy.test_stream_api cudapy.test_sync
    cudapy.test_transpose cudapy.test_ufuncs cudapy.test_userexc cudapy.test_vector_type
    cudapy.test_vectorize cudapy.test_vectorize_complex cudapy.test_vectorize_decor
    cudapy.test_vectorize_device cudapy.test_vectorize_scalar_arg cudapy.test_warning
    cudapy.test_warp_ops
    doc_examples.test_cg doc_examples.test_cpointer doc_examples.test_cpu_gpu_compat
    doc_examples.test_globals doc_examples.test_laplace doc_examples.test_matmul
    doc_examples.test_montecarlo doc_examples.test_random doc_examples.test_reduction
    doc_examples.test_sessionize doc_examples.test_ufunc doc_examples.test_vecadd
    """.split()
)

#: Tests too large for the limit of time above; how long they would take was not measured.
LEFT_OUT = {
    "TestCudaIntrinsic.test_issue_9229": "2**32 threads",
    "TestRandom.test_ex_3d_grid": "450 million random numbers",
    "TestCudaLaplace.test_laplace_small": "1,000 launches on 256 x 256 float64 elements",
    "test_cuda_matmul": "1,600 x 1,600 matrices",
}


def installed() -> Path | None:
    """The folder of numba-cuda's tests, or None where they are not installed."""
    if importlib.util.find_spec("numba_cuda") is None:
        return None
    folder = Path(importlib.util.find_spec("numba_cuda").origin).parent / "numba" / "cuda" / "tests"
    return folder if (folder / "cudapy").is_dir() else None


# ---------------------------------------------------------------------- stand-ins
class _Fallback(python_types.ModuleType):
    """A module with some names of its own; all others are those of the real module."""

    def __init__(self, name: str, real: Any, **own: Any):
        super().__init__(name)
        self.__dict__.update(own, _real=real)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._real, name)


def _runs_anyway(reason: str):
    """``skip_on_cudasim`` is about Numba's own simulator: here the test runs, as on hardware."""

    def decorate(test: Any) -> Any:
        test.numba_simulator = reason
        return test

    return decorate


def _testing(support: Any) -> python_types.ModuleType:
    """The decorators and the base class of ``numba.cuda.testing`` for a machine like a T4."""
    from warpsim.core import settings

    class CUDATestCase(support.TestCase):
        FLOAT16_RTOL = 2.0**-10

        def setUp(self) -> None:
            super().setUp()  # as numba-cuda's own: few blocks are no fault of a test
            kept = contextlib.ExitStack()
            kept.enter_context(settings.quiet())
            self.addCleanup(kept.close)

        def _only_compiled(self, *args: Any, **kwargs: Any) -> None:
            self.skipTest("looks at compiled code")

        assertFileCheckAsm = assertFileCheckLLVM = assertFileCheckMatches = _only_compiled

    def same(test: Any) -> Any:
        return test

    names = {f"skip_unless_cc_{number}": same for number in (50, 53, 60, 75)}
    return _Fallback(
        "numba.cuda.testing",
        None,
        **names,
        unittest=unittest,
        CUDATestCase=CUDATestCase,
        ForeignArray=_ForeignArray,
        skip_unless_cc_90=unittest.skip("requires cc >= 9.0"),
        skip_on_cudasim=_runs_anyway,
        skip_unless_cudasim=unittest.skip,
        xfail_unless_cudasim=unittest.expectedFailure,
        skip_on_standalone_numba_cuda=same,
        skip_if_external_memmgr=lambda reason: same,
        skip_under_cuda_memcheck=lambda reason: same,
        skip_on_arm=lambda reason: same,
        skip_on_wsl2=lambda reason: same,
        skip_on_nvjitlink_13_1_sm_120=lambda reason: same,
        skip_if_cudadevrt_missing=same,
        cudadevrt_missing=lambda: False,
        cc_X_or_above=lambda major, minor: (7, 5) >= (major, minor),
        skip_unless_conda_cudatoolkit=unittest.skip,
        skip_without_nvdisasm=unittest.skip,
        skip_with_nvdisasm=unittest.skip,
        skip_if_nvjitlink_missing=unittest.skip,
        skip_if_cuda_includes_missing=unittest.skip("no CUDA include files"),
        skip_if_curand_kernel_missing=unittest.skip("no curand_kernel.h"),
        test_data_dir=Path(support.__file__).parent / "data",
    )


class _ForeignArray:
    """An array of another library: only its interface is known."""

    def __init__(self, array: Any):
        self._arr = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def _errors(real: Any) -> python_types.ModuleType:
    """numba-cuda's copies of Numba's errors: the simulator raises Numba's own."""
    import numba.core.errors as core

    shared = {
        name: getattr(core, name)
        for name in dir(real)
        if isinstance(getattr(core, name, None), type)
    }
    return _Fallback(real.__name__, real, **shared)


def _either(simulated: Any, real: Any):
    """``numba.vectorize`` and ``guvectorize``: the simulator's where the target is cuda."""

    def decorator(*args: Any, **options: Any) -> Any:
        if options.get("target") == "cuda":
            return simulated(*args, **options)
        return real(*args, **options)

    return decorator


def _make_stand_ins() -> None:
    import numba
    import numba.cuda
    import numba.cuda.core.errors
    from numba.cuda.tests import support

    from warpsim import cuda as host
    from warpsim import numba_names
    from warpsim.run import launch

    class NoLeaks:
        """The simulator allocates nothing that Numba's runtime counts."""

    own = {name: getattr(host, name) for name in dir(host) if not name.startswith("_")}
    cuda = _Fallback("numba.cuda", numba.cuda, **own)
    cuda.__path__ = numba.cuda.__path__
    cuda.testing = _testing(support)
    cuda.random = _Fallback("numba.cuda.random", importlib.import_module("numba.cuda.random"))
    for name in dir(host.random):
        if "xoroshiro" in name:
            setattr(cuda.random, name, getattr(host.random, name))
    cuda.errors = importlib.import_module("numba.cuda.errors")
    core = _Fallback("numba.cuda.core", numba.cuda.core)
    core.errors = _errors(numba.cuda.core.errors)
    cuda.core = core
    drivers = {}
    for name in ("driver", "devicearray"):
        real = importlib.import_module(f"numba.cuda.cudadrv.{name}")
        drivers[name] = _Fallback(real.__name__, real, **numba_names.MODULES[real.__name__])
    cuda.cudadrv = _Fallback("numba.cuda.cudadrv", numba.cuda.cudadrv, **drivers)
    cuda.tests = _Fallback("numba.cuda.tests", importlib.import_module("numba.cuda.tests"))
    cuda.tests.support = _Fallback(
        "numba.cuda.tests.support", support, MemoryLeakMixin=NoLeaks, EnableNRTStatsMixin=NoLeaks
    )
    begin = launch.Launch.__init__

    def counted(self: Any, *args: Any, **options: Any) -> None:
        next(_LAUNCHES)
        begin(self, *args, **options)

    launch.Launch.__init__ = counted
    root = _Fallback("numba", numba, cuda=cuda)
    root.vectorize = _either(host.vectorize, numba.vectorize)
    root.guvectorize = _either(host.guvectorize, numba.guvectorize)
    _STAND_INS.update(
        {
            "numba": root,
            "subprocess": _Fallback("subprocess", subprocess, run=_run),
            "numba.cuda": cuda,
            "numba.cuda.testing": cuda.testing,
            "numba.cuda.random": cuda.random,
            "numba.cuda.core": core,
            "numba.cuda.core.errors": core.errors,
            "numba.cuda.tests.support": cuda.tests.support,
            "numba.cuda.cudadrv": cuda.cudadrv,
            **{f"numba.cuda.cudadrv.{name}": module for name, module in drivers.items()},
        }
    )


def _import(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0):
    """``__import__`` as the test modules see it."""
    full = (
        importlib.util.resolve_name("." * level + name, globals["__package__"]) if level else name
    )
    if full in _STAND_INS:
        found = _STAND_INS[full]
    elif full.startswith(TESTS + ".") and full != TESTS + ".support":
        if (installed().joinpath(*full[len(TESTS) + 1 :].split("."))).is_dir():
            for part in fromlist or ():
                load(f"{full}.{part}")
            return _Fallback(full, None, **{p: _LOADED[f"{full}.{p}"] for p in fromlist or ()})
        found = load(full)
    else:
        found = builtins.__import__(name, globals, locals, fromlist, level)
        return _STAND_INS["numba"] if found.__name__ == "numba" and not fromlist else found
    return found if fromlist or level else _STAND_INS.get(full.partition(".")[0], found)


def load(name: str) -> python_types.ModuleType:
    """A module of numba-cuda's tests, with the simulator in the place of ``numba.cuda``."""
    if name in _LOADED:
        return _LOADED[name]
    if not _STAND_INS:
        _make_stand_ins()
    path = installed().joinpath(*name[len(TESTS) + 1 :].split(".")).with_suffix(".py")
    module = python_types.ModuleType(name)
    module.__file__, module.__package__ = str(path), name.rpartition(".")[0]
    own = dict(vars(builtins), __import__=_import, exec=_exec)
    module.__dict__["__builtins__"] = own
    _LOADED[name] = sys.modules[name] = module
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    return module


def _exec(code: Any, globals: dict | None = None, locals: dict | None = None) -> None:
    """``exec`` that keeps the text, as a notebook does: the simulator reads a kernel's source."""
    if isinstance(code, str):
        name = f"<made by a test {next(_NUMBERS)}>"
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        code = compile(code, name, "exec")
    exec(code, globals, locals)


def _run(command: Any, **options: Any) -> subprocess.CompletedProcess:
    """``subprocess.run``; Python code is run here, with the simulator and what it prints kept."""
    if list(command[:2]) != [sys.executable, "-c"]:
        return subprocess.run(command, **options)
    printed, warned = io.StringIO(), io.StringIO()
    names = {"__name__": "__main__", "__builtins__": dict(vars(builtins), __import__=_import)}
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(warned):
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            _exec(command[2], names)
    outputs = printed.getvalue().encode(), warned.getvalue().encode()
    return subprocess.CompletedProcess(command, 0, *outputs)


# ---------------------------------------------------------------------- running
def _launches() -> int:
    return int(repr(_LAUNCHES).removeprefix("count(").removesuffix(")"))


def _late(number: int, frame: Any) -> None:
    raise TimeoutError(f"took longer than {SECONDS_EACH} s")


def _cases(suite: Any) -> Iterator[unittest.TestCase]:
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from _cases(part)
        else:
            yield part


def _method(function: Any) -> Any:
    return lambda self: function()


def _last_line(error: BaseException) -> str:
    """The error's kind and its text in one line."""
    text = " | ".join(line.strip() for line in str(error).splitlines() if line.strip())
    return f"{type(error).__name__}: {text}"[:600]


class _Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.outcome, self.detail = "passed", ""

    def _note(self, outcome: str, detail: str) -> None:
        if self.outcome == "passed":
            self.outcome, self.detail = outcome, detail

    def addError(self, test: Any, error: Any) -> None:
        self._note("error", _last_line(error[1]))

    def addFailure(self, test: Any, error: Any) -> None:
        self._note("failed", _last_line(error[1]))

    def addSkip(self, test: Any, reason: str) -> None:
        self._note("skipped", reason)

    def addUnexpectedSuccess(self, test: Any) -> None:
        self._note("failed", "passed though Numba expects a failure")

    def addSubTest(self, test: Any, part: Any, error: Any) -> None:
        if error is not None:
            failed = issubclass(error[0], test.failureException)
            self._note("failed" if failed else "error", _last_line(error[1]))


def run_module(short: str) -> list[dict[str, Any]]:
    """Run the tests of a module, such as ``cudapy.test_sync``: a row each."""
    name = f"{TESTS}.{short}"
    try:
        module = load(name)
    except BaseException as error:
        row = {"module": short, "test": "(import)", "outcome": "error"}
        return [
            row
            | {"detail": _last_line(error), "numba_simulator": "", "launches": 0, "seconds": 0.0}
        ]
    rows = []
    loader = unittest.TestLoader()
    for value in list(vars(module).values()):
        if getattr(value, "__module__", None) != name:
            continue
        if isinstance(value, type) and issubclass(value, unittest.TestCase):
            cases = _cases(loader.loadTestsFromTestCase(value))
        elif isinstance(value, python_types.FunctionType) and value.__name__.startswith("test_"):
            cases = [type(module.__name__, (unittest.TestCase,), {value.__name__: _method(value)})]
            cases = [cases[0](value.__name__)]
        else:
            continue
        for case in cases:
            label = f"{value.__name__}.{case._testMethodName}"
            label = case._testMethodName if not isinstance(value, type) else label
            if label in LEFT_OUT:
                continue
            before = _launches()
            method = getattr(case, case._testMethodName)
            noted = getattr(method, "numba_simulator", getattr(value, "numba_simulator", ""))
            result, start = _Result(), time.perf_counter()
            signal.signal(signal.SIGALRM, _late)
            signal.alarm(SECONDS_EACH)
            try:
                with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    case.run(result)
            except BaseException as error:
                result._note("error", _last_line(error))
            finally:
                signal.alarm(0)
            rows.append(
                {
                    "module": short,
                    "test": label,
                    "outcome": result.outcome,
                    "detail": result.detail,
                    "numba_simulator": noted,
                    "launches": _launches() - before,
                    "seconds": round(time.perf_counter() - start, 3),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="such as cudapy.test_sync; without any, all")
    parser.add_argument("--json", type=Path, help="write the rows there")
    arguments = parser.parse_args()
    rows = []
    for short in arguments.modules or MODULES:
        found = run_module(short)
        rows += found
        if arguments.json is None:
            for row in found:
                print("{outcome:8} {seconds:7.3f} {module} {test}  {detail}".format(**row))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows))
    inside = in_scope(rows)
    passed = sum(row["outcome"] == "passed" for row in inside)
    print(f"{passed} of {len(inside)} in scope pass")


def in_scope(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tests about kernels and their host side: not skipped, and not listed as out of scope."""
    with EXCEPTIONS.open(encoding="utf-8", newline="") as file:
        listed = csv.DictReader(file)
        out = {(row["module"], row["test"]) for row in listed if row["kind"] == "scope"}
    return [
        row
        for row in rows
        if row["outcome"] != "skipped" and (row["module"], row["test"]) not in out
    ]


if __name__ == "__main__":
    sys.path.insert(0, os.fspath(Path(__file__).parents[2]))
    main()
