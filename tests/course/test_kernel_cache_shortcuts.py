"""Shortcuts through Numba's compiler: the same machine code, and Numba afterwards as before."""

import gc
import importlib
from contextlib import nullcontext
from operator import attrgetter

import pytest

from course.compiler import toolchain
from course.compiler.arguments import arguments_of, function_of
from course.compiler.real_kernels import RealKernel
from course.kernel_cache import cached, shortcuts
from course.kernels.svd import gram
from tests.course.compiled_samples import needs_numba_cuda
from tests.course.compiler.test_together import KERNELS
from tools.compile.ptx_hashes import normalised

SQUARES = "float64[:, :, ::1]"
SAMPLES = KERNELS | {
    "product": lambda: (
        gram.PRODUCT[16], f"void(float32[:, :, :], boolean, {SQUARES}, {SQUARES}, boolean)"
    )
}  # fmt: skip
#: What shortcuts stand for, of numba.cuda's modules.
INSIDES = {
    "codegen": "CUDACodeLibrary.get_asm_str", "types": "BaseFunction.get_call_type",
    "core.base": "BaseContext.get_abi_sizeof", "core.postproc": "PostProcessor.run",
    "core.compiler_machinery": "PassManager._runPass", "utils": "pysignature",
}  # fmt: skip


def part(name):
    return importlib.import_module(f"numba.cuda.{name}")


def insides():
    return [gc.isenabled(), *(attrgetter(name)(part(module)) for module, name in INSIDES.items())]


@needs_numba_cuda
def test_afterwards_numba_is_as_before(monkeypatch):
    before, among = insides(), []
    with pytest.raises(RuntimeError, match="of the kernel"), shortcuts(), shortcuts():
        among += insides()
        raise RuntimeError("of the kernel")
    assert insides() == before
    assert not any(one == other for one, other in zip(before, among, strict=True))
    monkeypatch.delattr(part("codegen"), "CUDACodeLibrary")  # of a numba-cuda with other insides
    with shortcuts():
        assert gc.isenabled()


@needs_numba_cuda
@pytest.mark.parametrize("name", SAMPLES)
def test_a_kernel_comes_out_the_same_and_nvvm_compiles_it_once(name, monkeypatch):
    (kernel, types), capability = SAMPLES[name](), (9, 0)
    library = part("codegen").CUDACodeLibrary
    monkeypatch.setattr(library, "_ensure_cc", lambda self, given: given or capability)
    found, asked = [], []
    for quick in (shortcuts, nullcontext):
        real, options = RealKernel(function_of(kernel)[0]), function_of(kernel)[1]
        linked = {"lto": True} | {n: x for n, x in options.items() if n != "device"}
        with quick(), toolchain.device_answers(capability), toolchain.translations() as texts:
            made = part("dispatcher")._Kernel(real.function, arguments_of(kernel, types), **linked)
            assert len(made.library.get_cubin().code) > 1000
        write = made.library.get_lto_ptx if linked["lto"] else made.library.get_asm_str
        found.append(normalised(write()))
        asked.append(["gen-lto" in how for _, how in texts])
    assert found[0] == found[1]
    assert asked == ([[True], [False, True]] if linked["lto"] else [[False], [False]])


@needs_numba_cuda
def test_what_is_cached_is_compiled_by_shortcuts(monkeypatch):
    cuda, before, among = toolchain.require(), insides(), []
    kernel = cuda.jit(lambda x: None)
    monkeypatch.setattr(type(kernel), "compile", lambda self, types: among.append(insides()))
    cached(kernel)
    kernel.compile("f4")
    assert len(among) == 1 and among[0][0] is False and insides() == before != among[0]
