"""Bad input, missing and mixed compilers: a clear sentence each."""

import os
import subprocess
import sys
import sysconfig
import textwrap
from types import SimpleNamespace

import pytest
from numba import float32

from course import successor
from course.compiler import toolchain
from course.compiler.facts import CompilerError, CompilerMissing, compiled
from course.compiler.real_kernels import NoSource
from tests.course.compiled_samples import (
    VECTOR,
    bend_each,
    juggle,
    needs_compiler,
    needs_numba_cuda,
    scaled,
)
from warpsim import cuda


# ------------------------------------------------------------------ bad input
@needs_compiler
@pytest.mark.parametrize(
    ("kernel", "args", "target", "error", "words"),
    [
        (juggle, (VECTOR,), "sm_75", TypeError, r"juggle takes 2 arguments \(x, out\), 1 given"),
        (juggle, VECTOR, "sm_75", TypeError, "give the arguments as a tuple"),
        (juggle, ("x", VECTOR), "sm_75", TypeError, "argument 0 is a str"),
        (juggle, (object(), VECTOR), "sm_75", TypeError, "argument 0 is a object"),
        (juggle, "void(flaot32[:])", "sm_75", TypeError, "cannot be read.*flaot32"),
        (juggle, "float32(float32[:])", "sm_75", TypeError, "returns float32"),
        (juggle, None, "sm_75", TypeError, "argument types are not known"),
        (juggle, (VECTOR, VECTOR), "T4", ValueError, "the Tesla T4 is 'sm_75'"),
        (juggle, (VECTOR, VECTOR), "sm75", ValueError, "write it like 'sm_75'"),
        (juggle, (VECTOR, VECTOR), 75, ValueError, "write it like 'sm_75'"),
        (juggle, (VECTOR, VECTOR), "sm_99", ValueError, "not a target.*sm_75, sm_80"),
        (scaled, (1.0,), "sm_75", TypeError, "scaled is a device function"),
        (bend_each[1, 32], (VECTOR, VECTOR), "sm_75", TypeError, "without its launch config"),
        (3, (VECTOR,), "sm_75", TypeError, "3 is not a kernel"),
        (lambda x: None, (VECTOR,), "sm_75", NoSource, "write the kernel with def"),
    ],
)
def test_says_what_is_wrong_with_what_it_was_given(kernel, args, target, error, words):
    with pytest.raises(error, match=words):
        compiled(kernel, args, target)


@needs_compiler
def test_a_kernel_without_source_is_refused_with_advice():
    names = {"cuda": cuda}
    exec("def typed(x):\n    x[0] = 1\n", names)
    with pytest.raises(NoSource, match="source of typed cannot be found.*file or a notebook cell"):
        compiled(names["typed"], (VECTOR,))


@needs_compiler
def test_keyword_arguments_are_refused():
    def rest(x, *others):
        x[0] = 1

    with pytest.raises(TypeError, match="name each one"):
        compiled(rest, (VECTOR,))


@needs_numba_cuda
def test_the_linkers_reason_is_readable():
    def hoard(x):
        tile = cuda.shared.array(20_000, float32)
        tile[cuda.threadIdx.x] = x[0]
        cuda.syncthreads()
        x[1] = tile[5]

    with pytest.raises(CompilerError, match=r"hoard for sm_75: .*80,000 bytes, 49,152 max") as got:
        compiled(hoard, (VECTOR,))
    assert "_Z" not in str(got.value) and "\n" not in str(got.value)


# ------------------------------------------------------------------ the compilers themselves
def run_python(code, **environment):
    """Run a program in a fresh Python; returns what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUDA")}
    kept.pop("LD_LIBRARY_PATH", None)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**kept, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


BLOCKED = """
    import sys

    class Blocker:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in BLOCKED:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Blocker())
"""


@pytest.mark.slow
@pytest.mark.parametrize("blocked", [("numba_cuda",), ("cuda",)], ids=["numba-cuda", "cuda"])
def test_without_the_extra_one_sentence_and_the_rest_works(blocked):
    if successor.is_chosen() and blocked == ("numba_cuda",):
        pytest.skip("numba-cuda-mlir compiles here")
    printed = run_python(
        f"BLOCKED = {blocked!r}\n"
        + textwrap.dedent(BLOCKED)
        + textwrap.dedent("""
        import numpy as np
        from course import cuda, trace
        from course.compiler.facts import CompilerMissing, compiled
        from course.kernels.reconstruct import reconstruct, reconstruct_naive
        from course.measure.occupancy import occupancy

        one = np.ones((4, 4), np.float32)
        assert reconstruct(one, one[0], one, 4).sum() == 64
        assert occupancy("T4", 256, 32).blocks == 4
        try:
            compiled(reconstruct_naive, (one, one[0], one, 4, one))
        except CompilerMissing as error:
            print(error)
        """)
    )
    assert printed.count("\n") == 1
    assert printed.startswith("compiling a kernel needs NVIDIA's compilers, and ")
    extra = "mlir" if successor.is_chosen() else "compile"
    for words in (f".[{extra}]", "brings them", "everything else works without them"):
        assert words in printed


def test_importing_the_course_loads_no_compiler():
    printed = run_python("""
        import sys, course, course.measure.occupancy, course.compiler.facts
        print([name for name in sys.modules if name.startswith(("cuda.bindings", "cuda.core"))])
    """)
    assert printed.strip() == "[]"


def test_numbas_simulator_is_named_when_it_stands_in_the_way():
    printed = run_python(
        """
        from course.compiler.facts import CompilerMissing, compiled
        from course.kernels.reconstruct import reconstruct_naive
        try:
            compiled(reconstruct_naive, (1, 1, 1, 1, 1))
        except CompilerMissing as error:
            print(error)
        """,
        NUMBA_ENABLE_CUDASIM="1",
    )
    assert "NUMBA_ENABLE_CUDASIM" in printed


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
@pytest.mark.skipif(toolchain.installed() == "no wheels", reason="NVVM is no wheel here")
def test_the_compilers_are_the_wheels_and_no_installed_toolkit():
    printed = run_python("""
        import numpy as np
        from course.compiler.facts import compiled
        from course.kernels.reconstruct import reconstruct_original as kernel
        one = np.ones((4, 4), np.float32)
        compiled(kernel, (one, one[0], one, 4, one)).float64_lines
        loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
        for path in sorted(loaded):
            if any(part in path for part in ("libnvvm", "libnvJitLink", "libnvrtc")):
                print(path)
    """)
    paths = printed.split()
    for library in ("libnvvm", "libnvJitLink", "libnvrtc"):
        assert any(library in path for path in paths), library
    assert all(path.startswith(sysconfig.get_paths()["platlib"]) for path in paths), paths


class OldLinker:
    """A linker that is older than the compiler, with nvJitLink's own words."""

    nvJitLinkError = type("nvJitLinkError", (Exception,), {})
    InputType = SimpleNamespace(LTOIR=1)
    words = b"ERROR 4 in nvvmAddNVVMContainerToProgram, may need newer version of nvJitLink library"
    create = staticmethod(lambda count, options: 1)
    destroy = staticmethod(lambda handle: None)
    get_error_log_size = staticmethod(lambda handle: len(OldLinker.words))

    def get_error_log(self, handle, text):
        text[:] = self.words

    def add_data(self, *what):
        raise self.nvJitLinkError("ERROR_OUTDATED_LIBRARY (14)")


def test_wheels_of_two_releases_are_named(monkeypatch):
    versions = {
        "nvidia-cuda-nvrtc": "13.0.88",
        "nvidia-nvvm": "13.1.80",
        "nvidia-nvjitlink": "13.0.88",
    }
    monkeypatch.setattr(toolchain, "_linker", OldLinker)
    monkeypatch.setattr("course.backend.installed_version", versions.get)
    with pytest.raises(CompilerMissing) as got:
        toolchain.link([b"code"], "kernel", "sm_75")
    message = str(got.value)
    assert "Unsupported .version" in message
    assert "CUDA 13: NVRTC 13.0.88, NVVM 13.1.80, nvJitLink 13.0.88" in message
    assert '"nvidia-nvjitlink==13.1.*"' in message
