"""Launches that begin before the one in front of them is done: who waits, and who may be early."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from numba import float32, types

from course import backend, cuda, trace
from course.compiler.facts import compiled
from course.dispatch import prepared as launches
from course.heuristics.gemm import ThinConfig, staged_config
from course.kernels.attention.warpgroups import Config, warpgroups
from course.kernels.gemm import mma_sync, padding, partial, split_k, thin, warp_specialised
from course.kernels.norm.half import wide
from course_models.patches import gather
from tests.course.compiled_samples import needs_compiler
from warpsim.ptx import grid_dependency_wait
from warpsim.ptx.grid_dependency import waits

LINE = types.Array(types.float32, 1, "C")


@cuda.jit
def doubled(x, out):
    grid_dependency_wait()
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * float32(2)


@cuda.jit
def halved(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] / float32(2)


def test_in_the_simulator_it_is_nothing():
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    report = trace(doubled, 2, 32, x, out)
    assert not report.findings and np.array_equal(out, 2 * x)


@needs_compiler
def test_it_lets_the_next_begin_then_waits_before_anything_is_read():
    ptx = compiled(doubled, (LINE, LINE), "sm_90").ptx
    places = [
        re.search(word, ptx).start()
        for word in (r"griddepcontrol\.launch_dependents", r"griddepcontrol\.wait", r"ld\.global")
    ]
    assert places == sorted(places)


@needs_compiler
@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
def test_older_gpus_have_no_such_instruction(target):
    assert "griddepcontrol" not in compiled(doubled, (LINE, LINE), target).ptx


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (12, 0)])
def test_only_a_kernel_that_waits_may_begin_early(capability, monkeypatch):
    device = type("Device", (), {"compute_capability": capability})
    monkeypatch.setattr(backend.cuda, "get_current_device", lambda: device)
    (one,) = launches.attributes_behind(
        SimpleNamespace(py_func=lambda: grid_dependency_wait())
    ) or (None,)
    assert (one is not None) == (capability >= (9, 0))
    assert launches.attributes_behind(SimpleNamespace(py_func=lambda: 1)) == ()
    assert launches.attributes_behind(object()) == ()


def test_all_launches_of_a_vision_transformer_wait():
    tile = staged_config(1, 64, 1)
    kernels = [
        warpgroups("float16", Config(1, 64, 1, 64)),
        warp_specialised.gemm("nt", "float16", tile), split_k.gemm("nt", "float16", tile, 2),
        mma_sync.gemm("nt", "float16", "copied"), wide("float16", 768), gather(True, True),
        padding.pad(), partial.finish("float16", ("", True, True), 1),
        thin.gemm("float16", (True, True), (True, True), False, ThinConfig(1, 1, 8, 1), None),
    ]  # fmt: skip
    for kernel in kernels:
        function = getattr(kernel, "py_func", None) or kernel.function
        assert waits(function)
