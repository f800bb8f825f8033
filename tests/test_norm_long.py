"""LayerNorm of long rows: a part in registers, the rest in shared memory, read once."""

import numpy as np
import pytest
from compiled_samples import needs_compiler
from test_norm import assert_close, inputs, normalised

from course import compiled, gpu, trace
from course.backend import cuda
from course.kernels import norm
from course.kernels.norm import BOTH, LADDER, layer_norm, method_for
from course.kernels.norm_long import Split, rows_in_both
from course.kernels.norm_rows import Form, Shape
from course.kernels.norm_shapes import longest_split, split_for
from course.simt import gpus

SIMULATED = pytest.mark.skipif(gpu() is not None, reason="chooses the simulated GPU")
SMALL, WARPS3 = Shape(64, 1, 8), Shape(96, 1, 8)
H200 = 227 * 1024, True  # shared memory of a block, asynchronous copies


@pytest.fixture
def rng():
    return np.random.default_rng(21)


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    """All of this runs on a simulated H200."""
    monkeypatch.setattr(gpus, "_chosen", gpus.find("H200"))


def launched(split, blocks, x, gamma, beta, out, **form):
    """Trace a launch; no error is found in it."""
    aligned = x.shape[1] % 4 == 0
    form = Form(
        str(x.dtype), aligned, split.shape.full(x.shape[1], aligned),
        gamma is not None, beta is not None, **form,
    )  # fmt: skip
    some = np.zeros(1, np.float32)
    gamma, beta = (some if factor is None else factor for factor in (gamma, beta))
    size = split.dynamic_shared(x.shape[1], str(x.dtype))
    report = trace(
        rows_in_both(split, form), blocks, split.shape.threads, x, gamma, beta, np.float32(1e-5),
        out, dynamic_shared=size,
    )  # fmt: skip
    assert not [finding for finding in report.findings if finding.is_error]
    return report


@SIMULATED
@pytest.mark.parametrize("columns", [3, 4, 512, 513, 516, 767, 1200, 1999, 2000])
@pytest.mark.parametrize("split", [Split(SMALL), Split(WARPS3), Split(SMALL, copies=False)])
def test_rows_agree_with_float64_whatever_is_in_shared_memory(rng, split, columns):
    for rows, blocks in ((1, 1), (5, 2), (4, 4)):  # blocks walk over the rows, or have one
        x, gamma, beta = inputs(rng, rows, columns)
        out = np.full_like(x, np.nan)
        launched(split, blocks, x, gamma, beta, out, activation="gelu")
        assert_close(out, normalised(x, gamma, beta, activation="gelu"))


@SIMULATED
@pytest.mark.parametrize("columns", [512, 1199, 1200])
@pytest.mark.parametrize("group", [1, 2, 3])
def test_gamma_and_beta_may_be_left_out_and_groups_may_end_anywhere(rng, columns, group):
    x, gamma, beta = inputs(rng, 5, columns)
    for factors in ((gamma, beta), (None, None), (gamma, None), (None, beta)):
        out = np.full_like(x, np.nan)
        launched(Split(SMALL, group=group), 2, x, *factors, out, in_l2=group == 2)
        assert_close(out, normalised(x, *factors))


@SIMULATED
def test_an_outlier_where_the_sums_begin_and_a_mean_far_from_zero(rng):
    x, gamma, beta = inputs(rng, 4, 1200)
    x[0, 512] = 3e4  # squares in shared memory are taken around a thread's first number
    x[1, 512:768] = -3e4
    x[2, :512] += 3e3
    out = np.full_like(x, np.nan)
    launched(Split(SMALL), 2, x, gamma, beta, out)
    expected = normalised(x, gamma, beta)
    assert_close(out[:3], expected[:3], 2e-5)  # digits of x that its mean leaves to a difference
    x[3] += 1e3
    launched(Split(SMALL), 2, x, gamma, beta, out)
    assert_close(out[3], normalised(x[3], gamma, beta), 2e-6 * 1e3 / 3)


@pytest.mark.parametrize("columns", [700, 701])
def test_float16_waits_for_its_rest(rng, columns):
    x, gamma, beta = inputs(rng, 3, columns, np.float16)
    out = np.full_like(x, np.nan)
    launched(Split(SMALL, copies=False), 2, x, gamma, beta, out)
    assert_close(out, normalised(x, gamma, beta))


@SIMULATED
def test_nan_and_infinity_in_either_part_make_their_row_nan_and_no_other(rng):
    x, gamma, beta = inputs(rng, 6, 1200)
    x[1, 0], x[2, -1], x[3, 511], x[4, 512] = np.nan, np.nan, np.inf, -np.inf
    out = np.zeros_like(x)
    launched(Split(SMALL), 2, x, gamma, beta, out)
    assert np.isnan(out[1:5]).all()
    assert_close(out[[0, 5]], normalised(x[[0, 5]], gamma, beta))


@SIMULATED
def test_out_may_be_x_though_the_next_row_is_under_way(rng):
    x, gamma, beta = inputs(rng, 7, 1200)
    expected = normalised(x, gamma, beta)
    launched(Split(SMALL), 2, x, gamma, beta, x)
    assert_close(x, expected)


@SIMULATED
@pytest.mark.parametrize("in_l2", [False, True])
def test_x_is_read_once_and_gamma_and_beta_once_a_row(rng, in_l2):
    rows, blocks, columns = 6, 2, 1200
    x, gamma, beta = inputs(rng, rows, columns)
    report = launched(Split(SMALL), blocks, x, gamma, beta, np.empty_like(x), in_l2=in_l2)
    assert report.total("global", "load").bytes == x.nbytes + 2 * 4 * rows * columns
    assert report.total("global", "store").bytes == x.nbytes


@SIMULATED
@pytest.mark.parametrize("columns", [16_385, 32_769, 32_772, 65_535, 65_536])
def test_auto_takes_long_rows_into_both_where_they_fit(rng, columns):
    assert method_for("auto", columns, columns % 4 == 0) == BOTH
    x, gamma, beta = inputs(rng, 2, columns)
    result = layer_norm(x, gamma, beta, activation="gelu")
    assert_close(result, normalised(x, gamma, beta, activation="gelu"))
    assert method_for("auto", columns, columns % 4 == 0, given=(64 * 1024, False)) == "long"


@SIMULATED
def test_a_slice_and_a_whole_matrix_are_kernels_of_their_own(rng):
    whole = rng.standard_normal((3, 32_800)).astype(np.float32)
    there = cuda.to_device(whole)
    for x in (there, there[:, :32_780]):
        ((launch, arguments),) = norm.prepared(x, None, None, 1e-5, x)
        launch(*arguments)
    kept = there.copy_to_host()
    first = normalised(whole).astype(np.float32)
    assert_close(kept[:, :32_780], normalised(first[:, :32_780]), 4e-6)
    assert_close(kept[:, 32_780:], first[:, 32_780:].astype(np.float64))
    spellings = [norm._types(x, x, x, x) for x in (there, there[:, :32_780])]
    assert "float32[:, ::1]" in spellings[0] and "float32[:, :]" in spellings[1]


def test_the_longest_row_fits_and_one_more_number_does_not():
    shared, copies = H200
    for aligned, step in ((True, 4), (False, 1)):
        most = longest_split(shared)
        split = split_for(most, aligned, "float32", *H200)
        assert split.dynamic_shared(most) <= shared
        assert method_for("auto", most, aligned, given=H200) == BOTH
        assert method_for("auto", most + step, aligned, given=H200) == "long"
        assert method_for("auto", most, aligned, "float16", H200) == "long"
        with pytest.raises(ValueError, match=f"which hold {most:,} on this GPU"):
            split_for(most + step, aligned, "float32", shared, copies)


def test_what_is_no_split_is_refused():
    with pytest.raises(ValueError, match="several rows"):
        Split(Shape(32, 4))
    with pytest.raises(ValueError, match="groups of 0 accesses: take at least 1"):
        Split(SMALL, group=0)
    with pytest.raises(ValueError, match="float16 is not copied asynchronously"):
        rows_in_both(Split(SMALL), Form("float16"))


@needs_compiler
@pytest.mark.parametrize(("columns", "aligned"), [(40_000, True), (65_536, True), (65_535, False)])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_compiled_it_spills_nothing_and_fits_a_multiprocessor(columns, aligned, target):
    split = split_for(columns, aligned, "float32", *H200)
    full = split.shape.full(columns, aligned)
    kernel = rows_in_both(split, Form("float32", aligned, full, activation="gelu", in_l2=True))
    rows, factors = "float32[:, ::1]", "float32[::1]"
    facts = compiled(kernel, f"void({rows}, {factors}, {factors}, float32, {rows})", target)
    assert facts.spills == 0 and not facts.float64_lines
    assert facts.registers * split.shape.threads <= 65_536
    assert "cp.async" in facts.ptx and "ld.local" not in facts.ptx
    assert "ld.global.L1::evict_last.L2::cache_hint" in facts.ptx
    assert ".cs" not in facts.ptx


def test_the_step_is_of_the_ladder(rng):
    x, gamma, beta = inputs(rng, 3, 1023)
    assert LADDER[BOTH].launch(3, 1023, Form(aligned=False)).shared > 0
    assert_close(layer_norm(x, gamma, beta, method=BOTH), normalised(x, gamma, beta))
    with pytest.raises(ValueError, match="registers and shared memory"):
        layer_norm(np.zeros((1, 2**20), np.float32), method=BOTH)
