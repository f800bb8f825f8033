"""The tool that compiles every kernel of the course."""

import pytest
from numba import float32

from course.compiler.facts import compiled
from course.compiler.together import compiled_together
from tests.course.compiled_samples import VECTOR, bend_each, juggle, needs_compiler
from tools import compile_all
from warpsim import cuda
from warpsim.ptx import grid_dependency_wait

#: The families of kernels, those that take longest to compile first.
FAMILIES = (
    "svd", "norm", "vae", "reconstruct", "spectral", "activation", "softmax", "convolution",
    "cnn", "reduce", "softmax_backward", "fragments", "linear", "transpose", "synthetic_images",
    "image_quality", "resize", "training", "losses", "matmul", "gemm", "attention",
)  # fmt: skip


@pytest.fixture(scope="module")
def family(request):
    """A family of kernels, whose targets have in common what Numba does."""
    with compiled_together():
        yield request.param


# a worker compiles a family for all targets, and the other one another: see conftest.py
@needs_compiler
@pytest.mark.parametrize("target", compile_all.TARGETS)
@pytest.mark.parametrize("family", FAMILIES, indirect=True)
def test_all_kernels_of_the_course_compile_without_spills_or_float64(family, target, capsys):
    assert compile_all.main(["--family", family, "--target", target]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    meant = [case for case in compile_all.kernels() if compile_all.family(case) == family]
    assert len(rows) == sum(case.is_for(target) for case in meant)


def test_the_families_are_all_kernels_of_the_course():
    cases = list(compile_all.kernels())
    assert {compile_all.family(case) for case in cases} == set(FAMILIES)
    names = [case.name for case in cases]
    assert "reconstruct.first_steps.reconstruct_naive" in names
    assert "reconstruct: warp tiles (many, unaligned)" in names
    assert len(set(names)) == len(names)


@needs_compiler
def test_a_family_that_is_not_there_is_a_complaint(capsys):
    assert compile_all.main(["--family", "reduction", "--target", "sm_75"]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == ["wrong: there is no family reduction"]


@needs_compiler
def test_compile_all_refuses_float64_and_undeclared_kernels(monkeypatch, capsys):
    cases = [compile_all.Case(name, bend_each) for name in ("a.bend", "a.undeclared", "a.clean")]
    monkeypatch.setattr(compile_all, "kernels", lambda: iter(cases))
    vectors = "void(float32[::1], float32[::1])"
    monkeypatch.setattr(
        compile_all, "SIGNATURES", {"a.bend": vectors, "a.gone": vectors, "a.clean": "void(int8)"}
    )
    monkeypatch.setattr(compile_all, "WITH_FLOAT64", {})
    assert compile_all.main(["--target", "sm_75"]) == 1
    printed = capsys.readouterr().out
    assert "wrong: a.bend (sm_75) has float64 instructions, line 3 of bent" in printed
    assert "wrong: a.gone is declared and does not exist" in printed
    assert "wrong: a.undeclared has no argument types" in printed
    assert "wrong: a.clean (sm_75) does not compile: TypeError: bend_each takes 2" in printed


@needs_compiler
def test_three_parts_are_all_kernels_of_a_family(capsys):
    def compiled_names(*words):
        assert compile_all.main(["--family", "resize", "--target", "sm_75", *words]) == 0
        return [row.partition(" sm_75 ")[0] for row in capsys.readouterr().out.splitlines()[1:]]

    parts = [compiled_names("--part", f"{part}/3") for part in (1, 2, 3)]
    assert sorted(sum(parts, [])) == sorted(compiled_names()) and all(parts)


@cuda.jit(device=True)
def one_waits(x):
    grid_dependency_wait()
    x[0] = float32(1)


@cuda.jit
def waits_inside(x):
    one_waits(x)


@cuda.jit
def waits_itself(x):
    grid_dependency_wait()
    x[0] = float32(1)


@needs_compiler
def test_compile_all_complains_of_a_wait_that_a_launch_cannot_see():
    cases = [compile_all.Case("a.x", kernel) for kernel in (waits_inside, waits_itself)]
    facts = (compiled(case.kernel, (VECTOR,), "sm_90") for case in cases)
    found = [list(compile_all.complaints(*both)) for both in zip(cases, facts, strict=True)]
    assert "in a device function, not in its own text" in found[0][0] and not found[1]


@needs_compiler
def test_compile_all_complains_of_spills_and_of_missing_float64(monkeypatch):
    case = compile_all.Case("a.juggle", juggle)
    tight = compiled(juggle, (VECTOR, VECTOR), max_registers=24)
    (complaint,) = compile_all.complaints(case, tight)
    assert complaint.startswith("a.juggle (sm_75) spills ")
    free = compiled(juggle, (VECTOR, VECTOR))
    assert not list(compile_all.complaints(case, free))
    monkeypatch.setitem(compile_all.WITH_FLOAT64, "a.juggle", "to be seen")
    (complaint,) = compile_all.complaints(case, free)
    assert "declared with float64 and has none" in complaint
