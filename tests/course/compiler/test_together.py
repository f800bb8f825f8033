"""Kernels compiled together: what comes out is what comes out for each alone."""

import importlib.util
import re
from pathlib import Path

import pytest

from course.compiler import facts, toolchain
from course.compiler.facts import compiled
from course.compiler.real_kernels import RealKernel
from course.compiler.together import (
    ASKED,
    ASKED_FOR_BFLOAT16,
    ASKED_TO_FOLLOW,
    answers,
    common,
    compiled_together,
)
from course.heuristics.activation import MANY
from course.kernels import activation
from course.kernels.arrays import NUMBA_TYPES
from course.kernels.svd import rotate
from tests.course import compiled_samples as samples
from tools import compile_all
from warpsim import cuda
from warpsim.ptx import grid_dependency_wait

TARGETS = ("sm_75", "sm_90")


def wide(stored):
    array = f"{stored}[::1]" if stored != "bfloat16" else NUMBA_TYPES[stored][::1]
    config = activation.config_for("float16", MANY)
    kernel = activation.wide(activation.FUNCTIONS["gelu tanh"][0], stored, config)
    return kernel, (f"void({array}, {array})" if isinstance(array, str) else (array, array))


@cuda.jit(lto=False)
def unlinked(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = samples.scaled(x[i])


#: One with many device functions; with float64; with float16's library, and bfloat16; one that is
#: not optimised once more when it is linked.
KERNELS = {
    "rotations": lambda: (rotate.rotate_plain, compile_all.SIGNATURES["svd.rotate.*"]),
    "float64": lambda: (samples.bend_each, (samples.VECTOR, samples.VECTOR)),
    "float16": lambda: wide("float16"),
    "bfloat16": lambda: wide("bfloat16"),
    "not optimised when linked": lambda: (unlinked, (samples.VECTOR, samples.VECTOR)),
}


@pytest.fixture
def compilations(monkeypatch):
    """What Numba compiles, by name, and nothing that was compiled before."""
    seen = []
    monkeypatch.setattr(facts, "_compiled", {})
    original = toolchain.compile_kernel

    def counting(function, *rest, **options):
        seen.append(function.__name__)
        return original(function, *rest, **options)

    monkeypatch.setattr(toolchain, "compile_kernel", counting)
    return seen


def figures(found):
    """Everything, with the numbers in names of the code replaced: each compilation has its own."""
    counts = sorted(re.sub(r"\W.*", "", line.strip()) for line in found.ptx.splitlines())
    return {**vars(found), "ptx": counts}


@samples.needs_numba_cuda
@pytest.mark.parametrize("name", KERNELS)
def test_what_comes_out_is_what_comes_out_alone(name, compilations, monkeypatch):
    kernel, types = KERNELS[name]()
    alone = [figures(compiled(kernel, types, target)) for target in TARGETS]
    monkeypatch.setattr(facts, "_compiled", {})
    compilations.clear()
    with compiled_together():
        together = [figures(compiled(kernel, types, target)) for target in TARGETS]
    assert together == alone
    if "float" not in name:
        assert len(compilations) == 1  # for both targets


@samples.needs_numba_cuda
def test_a_bfloat16_is_rounded_as_its_target_can(compilations):
    kernel, types = wide("bfloat16")
    with compiled_together():
        old, new = (compiled(kernel, types, target).ptx for target in TARGETS)
    assert "cvt.rn.bf16" not in old and "cvt.rn.bf16" in new
    assert len(compilations) == 2


@samples.needs_numba_cuda
def test_kernels_share_device_functions(compilations):
    from numba.cuda import dispatcher

    @cuda.jit(device=True)
    def doubled(value):
        return value + value

    def once(x):
        x[0] = doubled(x[1])

    def twice(x):
        x[0] = doubled(doubled(x[1]))

    with compiled_together():
        for kernel in (once, twice):
            assert compiled(kernel, (samples.VECTOR,)).registers > 0
        (functions,) = common().functions.values()
        (made,) = functions.values()
        assert isinstance(made, dispatcher.CUDADispatcher)
        assert list(functions) == [doubled.py_func]
        assert len(made.overloads) == 1
    assert common() is None
    assert RealKernel(once).function.__closure__[0].cell_contents is not made


def test_targets_differ_in_what_is_asked_only():
    vector = (NUMBA_TYPES["float32"][::1],)
    assert answers((7, 5), vector) == answers((8, 0), vector) == answers((9, 0), vector)
    assert answers((7, 0), vector) != answers((7, 5), vector)
    words = (*vector, NUMBA_TYPES["bfloat16"][::1])
    assert answers((7, 5), words) != answers((8, 0), words) == answers((9, 0), words)
    assert answers((7, 5)) == answers((7, 5), words)
    assert answers((8, 0), vector, behind) != answers((9, 0), vector, behind)


def behind(x):
    grid_dependency_wait()
    x[0] = x[1]


@samples.needs_compiler
def test_a_kernel_that_follows_another_waits_where_launches_begin_early_only():
    with compiled_together():
        waits = {
            target: "griddepcontrol.wait" in compiled(behind, (samples.VECTOR,), target=target).ptx
            for target in ("sm_80", "sm_90", "sm_75")
        }
    assert waits == {"sm_75": False, "sm_80": False, "sm_90": True}


@samples.needs_numba_cuda
def test_numba_asks_for_no_other_capability():
    """Wherever numba-cuda and the course compare a target's capability while they write code."""
    numba_cuda = Path(importlib.util.find_spec("numba_cuda").submodule_search_locations[0])
    course = Path(facts.__file__).parents[1]
    asked = set()
    for folder, left_out in (
        (numba_cuda / "numba" / "cuda", {"tests", "simulator", "testing.py", "cudadrv"}),
        (course / "dispatch", set()),
        (course.parent / "warpsim" / "ptx", set()),
    ):
        for path in folder.rglob("*.py"):
            if left_out.isdisjoint(path.relative_to(folder).parts):
                text = path.read_text(encoding="utf-8")
                readers = {"compute_capability", r"\bcapability\[:2\]", r"\bcapability\(\)"}
                # numba-cuda's tanh asks a function, and keeps its answer as `cc`
                if "def get_compute_capability" in text:
                    readers.add(r"\bcc")
                for reader in readers:
                    found = re.findall(rf"{reader}\)? *[<>=!]=? *\((\d+), *(\d+)\)", text)
                    asked |= {(int(major), int(minor)) for major, minor in found}
    assert asked == {*ASKED, ASKED_FOR_BFLOAT16, ASKED_TO_FOLLOW}
