"""LayerNorm of long rows: a part in registers, the rest in shared memory, read once."""

import numpy as np
import pytest

from course import compiled, gpu, trace
from course.backend import cuda
from course.heuristics.norm import (
    EDGE,
    FEW,
    REGISTERS_AND_SHARED,
    STATIC,
    NormProblem,
    RowConfig,
    Variant,
    dynamic_shared,
    longest_in_registers,
    longest_split,
    split_config,
    split_variant,
)
from course.kernels.norm.ladder import LADDER, layer_norm, prepared, shifted_factors
from course.kernels.norm.long_rows import rows_in_both
from tests.course.compiled_samples import needs_compiler
from tests.course.kernels.cases.norm import right
from warpsim.host import gpus

pytestmark = [
    pytest.mark.skipif(gpu() is not None, reason="chooses the simulated GPU"),
    pytest.mark.usefixtures("h200"),
]
SMALL, WARPS3 = RowConfig(128, 1, 4), RowConfig(96, 1, 8)
H200 = 227 * 1024, True  # shared memory of a block, asynchronous copies


def inputs(rng, rows, columns):
    """x, gamma and beta."""
    x = 3 * rng.standard_normal((rows, columns)) + 2
    return [its.astype(np.float32) for its in (x, *rng.standard_normal((2, columns)))]


def normalised(x, gamma=None, beta=None, activation=None):
    """The definition, in float64."""
    gamma, beta = 1.0 if gamma is None else gamma, 0.0 if beta is None else beta
    arrays = {"x": x.astype(np.float64), "gamma": gamma, "beta": beta}
    return right(arrays, activation=activation)[0].values


def assert_close(result, expected, limit=2e-6):
    """Within a few roundings of float32, relative to 1 or the element."""
    assert result.shape == expected.shape
    assert np.all(np.abs(result - expected) <= limit * np.maximum(1, np.abs(expected)))


def best(columns, aligned, dtype="float32", limits=None):
    """The step that "auto" takes."""
    return LADDER.best(NormProblem(FEW, columns, dtype, aligned, limits=limits))


def launched(shape, blocks, x, gamma, beta, out, **form):
    """Trace a launch; no error is found in it."""
    columns = x.shape[1]
    given = gamma is not None, beta is not None
    form = Variant(str(x.dtype), columns % 4 == 0, 0, *given, **form)
    some = np.zeros(1, np.float32)
    gamma, beta = (some if factor is None else factor for factor in (gamma, beta))
    if form.shifted:
        width = -(-columns // 4) * 4
        copies = [np.zeros(4 * width if f.size > 1 else 1, np.float32) for f in (gamma, beta)]
        trace(shifted_factors, -(-width // 64), 64, gamma, beta, *copies)
        gamma, beta = copies
    size = dynamic_shared(shape, columns, form.shifted)
    report = trace(
        rows_in_both(shape, split_variant(shape, form, columns)), blocks, shape.threads, x, gamma,
        beta, np.float32(1e-5), out, dynamic_shared=size,
    )  # fmt: skip
    assert not [finding for finding in report.findings if finding.is_error]
    return report


@pytest.mark.drawn(4)
@pytest.mark.parametrize("columns", [4, 8, 512, 516, 768, 772, 1200, 1996, 2000])
@pytest.mark.parametrize("shape", [SMALL, WARPS3])
def test_rows_agree_with_float64_whatever_is_in_shared_memory(rng, shape, columns):
    for rows, blocks in ((1, 1), (5, 2), (4, 4)):  # blocks walk over the rows, or have one
        x, gamma, beta = inputs(rng, rows, columns)
        out = np.full_like(x, np.nan)
        launched(shape, blocks, x, gamma, beta, out, activation="gelu")
        assert_close(out, normalised(x, gamma, beta, activation="gelu"))


@pytest.mark.drawn(5)
@pytest.mark.parametrize("columns", [67, 511, 575, 579, 767, 1199, 1201, 1998, 1999])
@pytest.mark.parametrize("shape", [SMALL, WARPS3])
def test_of_rows_that_begin_anywhere_all_but_66_numbers_are_accessed_four_at_a_time(
    rng, shape, columns
):
    for rows, blocks in ((1, 1), (5, 2), (4, 4)):
        x, gamma, beta = inputs(rng, rows, columns)
        factors_of = {
            (1, 1): ((gamma, beta), (None, None)),
            (5, 2): ((gamma, beta), (gamma, None), (None, beta), (None, None)),
            (4, 4): ((None, None),),
        }
        for factors in factors_of[rows, blocks]:
            out = np.full_like(x, np.nan)
            report = launched(shape, blocks, x, *factors, out, activation="gelu", shifted=True)
            assert_close(out, normalised(x, *factors, activation="gelu"))
        if columns - shape.longest >= EDGE:  # no thread reads a number of another once more
            assert report.total("global", "load").bytes == x.nbytes
        assert report.total("global", "store").bytes == x.nbytes


@pytest.mark.parametrize("columns", [1200, 1201])
def test_an_outlier_where_the_sums_begin_and_a_mean_far_from_zero(rng, columns):
    x, gamma, beta = inputs(rng, 4, columns)
    form = {"shifted": columns % 4 > 0}
    x[0, 0:1] = x[0, 512] = 3e4  # squares are taken around a thread's first number
    x[1, 512:768] = -3e4
    x[2, :512] += 3e3
    out = np.full_like(x, np.nan)
    launched(SMALL, 2, x, gamma, beta, out, **form)
    expected = normalised(x, gamma, beta)
    assert_close(out[:3], expected[:3], 2e-5)  # digits of x that its mean leaves to a difference
    x[3] += 1e3
    launched(SMALL, 2, x, gamma, beta, out, **form)
    assert_close(out[3], normalised(x[3], gamma, beta), 2e-6 * 1e3 / 3)


@pytest.mark.parametrize("columns", [1200, 1201])
def test_nan_and_infinity_in_either_part_make_their_row_nan_and_no_other(rng, columns):
    x, gamma, beta = inputs(rng, 6, columns)
    x[1, 0], x[2, -1], x[3, 511], x[4, 512] = np.nan, np.nan, np.inf, -np.inf
    out = np.zeros_like(x)
    launched(SMALL, 2, x, gamma, beta, out, shifted=columns % 4 > 0)
    assert np.isnan(out[1:5]).all()
    assert_close(out[[0, 5]], normalised(x[[0, 5]], gamma, beta))


@pytest.mark.parametrize("columns", [1200, 1201])
def test_out_may_be_x_though_the_next_row_is_in_flight(rng, columns):
    x, gamma, beta = inputs(rng, 7, columns)
    expected = normalised(x, gamma, beta)
    launched(SMALL, 2, x, gamma, beta, x, shifted=columns % 4 > 0)
    assert_close(x, expected)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("columns", [8193, 16_385, 16_388, 32_769, 32_772, 65_535, 65_536])
def test_auto_takes_long_rows_into_both_where_they_fit(rng, columns):
    assert best(columns, columns % 4 == 0) == REGISTERS_AND_SHARED
    x, gamma, beta = inputs(rng, 2, columns)
    result = layer_norm(x, gamma, beta, activation="gelu")
    assert_close(result, normalised(x, gamma, beta, activation="gelu"))
    fits = columns <= longest_in_registers(columns % 4 == 0)
    without = best(columns, columns % 4 == 0, limits=(64 * 1024, False))
    assert without == ("registers" if fits else "long")


def test_a_slice_of_long_rows_takes_another_step_than_the_whole_matrix(rng):
    whole = rng.standard_normal((3, 32_800)).astype(np.float32)
    there = cuda.to_device(whole)
    for x in (there, there[:, :32_780]):
        ((launch, arguments),) = prepared(x, None, None, 1e-5, x)
        launch(*arguments)
    kept = there.copy_to_host()
    first = normalised(whole).astype(np.float32)
    assert_close(kept[:, :32_780], normalised(first[:, :32_780]), 4e-6)
    assert_close(kept[:, 32_780:], first[:, 32_780:].astype(np.float64))


def test_rows_without_gaps_are_shifted_and_others_take_another_step(rng, monkeypatch):
    monkeypatch.setattr("course.heuristics.norm.one_wave", lambda *_: False)  # no clusters
    whole = rng.standard_normal((3, 16_388)).astype(np.float32)
    gamma, beta = (rng.standard_normal(16_387).astype(np.float32) for _ in range(2))
    there, gamma, beta = (cuda.to_device(array) for array in (whole, gamma, beta))
    gaps = there[:, :16_387]
    no_gaps = cuda.to_device(np.ascontiguousarray(whole[:, :16_387]))
    expected = normalised(whole[:, :16_387], gamma.copy_to_host(), beta.copy_to_host())
    for x, launches in ((gaps, 1), (no_gaps, 2)):
        found = prepared(x, gamma, beta, 1e-5, x)
        assert len(found) == launches
        for launch, arguments in found:
            launch(*arguments)
        assert_close(x.copy_to_host(), expected, 4e-6)
    bare = prepared(no_gaps, None, None, 1e-5, no_gaps)
    assert len(bare) == 1
    one_later = cuda.to_device(np.zeros(3 * 16_387 + 1, np.float32))[1:].reshape(3, 16_387)
    assert len(prepared(one_later, gamma, beta, 1e-5, one_later)) == 1


def test_the_longest_row_fits_and_one_more_number_does_not():
    shared, copies = H200
    most = longest_split(shared)
    for aligned, step in ((True, 4), (False, 1)):
        longest = most // step * step
        shape = split_config(longest, H200[0], not aligned)
        assert STATIC + dynamic_shared(shape, longest, shifted=not aligned) <= shared
        assert best(longest, aligned, limits=H200) == REGISTERS_AND_SHARED
        beyond = "long" if aligned else "clusters"
        assert best(longest + step, aligned, limits=H200) == beyond
        assert best(longest, aligned, "float16", limits=H200) == beyond


def test_blocks_share_a_multiprocessor_where_that_leaves_the_cache_its_part():
    for columns, threads, elements in (
        (12_288, 256, 12),
        (16_384, 512, 12),
        (32_768, 512, 16),  # 12 in registers would leave too many to shared memory
        (32_900, 1024, 12),
        (65_536, 1024, 16),
        (70_000, 1024, 16),  # leaves less than that whatever is in registers
    ):
        shape = split_config(columns, H200[0])
        assert (shape.threads, shape.elements) == (threads, elements)
        assert shape.max_registers * 1024 <= 65_536


@needs_compiler
@pytest.mark.parametrize(
    ("columns", "aligned"),
    [(20_000, True), (40_000, True), (65_536, True), (20_001, False), (65_535, False)],
)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.usefixtures("compiled_once")
def test_compiled_it_spills_nothing_and_fits_a_multiprocessor(columns, aligned, target):
    form = Variant("float32", aligned, activation="gelu", shifted=not aligned)
    shape = split_config(columns, H200[0], form.shifted)
    kernel = rows_in_both(shape, split_variant(shape, form, columns))
    rows, factors = "float32[:, ::1]", "float32[::1]"
    facts = compiled(kernel, f"void({rows}, {factors}, {factors}, float32, {rows})", target)
    assert facts.spills == 0 and not facts.float64_lines
    assert facts.registers * 1024 <= 65_536
    assert "cp.async.cg" in facts.ptx and "ld.local" not in facts.ptx
    assert "st.global.cs" in facts.ptx and "ld.global.cs" not in facts.ptx


def test_the_step_refuses_what_it_cannot_copy_four_at_a_time(rng, monkeypatch):
    whole, gamma, _ = inputs(rng, 3, 4100)
    there, narrow = cuda.to_device(whole), whole[:, :4095].copy()
    one_later = cuda.to_device(np.zeros(3 * 4100 + 1, np.float32))[1:].reshape(3, 4100)
    for x, wrong in (
        (whole.astype(np.float16), "the elements are float16, not float32"),
        (there[:, :4096], "rows have gaps between them"),
        (one_later, "or begin at no multiple of 16 bytes"),
        (narrow, "4,095 is no multiple of 4 and below 4,096"),
    ):
        with pytest.raises(ValueError, match=wrong):
            layer_norm(x, method=REGISTERS_AND_SHARED)
        layer_norm(x)  # another step takes it
    monkeypatch.setattr(gpus, "_chosen", gpus.find("Tesla T4"))
    with pytest.raises(ValueError, match="rows of 4,100 elements .*, since the GPU's compute cap"):
        layer_norm(whole, method=REGISTERS_AND_SHARED)
