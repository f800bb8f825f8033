"""LayerNorm agrees with float64, forward and backward, and moves the bytes that it says."""

import dataclasses
import functools
import inspect
import math
import types

import numpy as np
import pytest

from course import gpu, trace
from course.backend import cuda
from course.images import images
from course.kernels import norm
from course.kernels.activation import FUNCTIONS
from course.kernels.arrays import rows_are_aligned
from course.kernels.norm.backward import BACKWARD, layer_norm_backward
from course.kernels.norm.backward_registers import backward_config, backward_in_registers
from course.kernels.norm.first_steps import FIRST_STEPS, NormProblem, RowConfig, Variant
from course.kernels.norm.ladder import LADDER, REGISTERS_AND_SHARED, layer_norm, method_for
from course.kernels.norm.registers import row_config, rows_in_registers, short_config
from course.kernels.steps import shared_memory_limit
from course_recording.frame import Bench, WrongResult
from course_recording.peers import cuda_cpp
from course_recording.subjects import norm as bench_norm
from course_recording.subjects import norm_lengths
from warpsim.host import gpus

KINDS = (np.float32, np.float16)
#: Of rows of any kind: the other two are in test_norm_long and in test_norm_halves.
STEPS = [name for name in LADDER if name not in (REGISTERS_AND_SHARED, "half")]
GOOD = [name for name in STEPS if name != "squares"]
FUSED = [name for name in STEPS if name not in FIRST_STEPS]
SHAPES = [(1, 1), (3, 2), (5, 31), (7, 33), (2, 100), (67, 33), (5, 128), (3, 260), (2, 1023)]
#: Lengths at which one shape ends and the next begins, and the longest.
LENGTHS = (
    4, 8, 9, 64, 255, 256, 257, 260, 384, 385, 388, 768, 1020, 4096, 4099, 8192, 8196, 16_388,
    16_389, 32_768, 32_769, 65_535, 65_536,
)  # fmt: skip
ERF = np.vectorize(math.erf)


def normalised(x, gamma=None, beta=None, eps=1e-5, activation=None):
    """The definition, in float64."""
    x = x.astype(np.float64)
    difference = x - x.mean(-1, keepdims=True)
    y = difference / np.sqrt((difference**2).mean(-1, keepdims=True) + eps)
    y = y if gamma is None else y * gamma.astype(np.float64)
    y = y if beta is None else y + beta.astype(np.float64)
    return y if activation is None else y * (1 + ERF(y / math.sqrt(2))) / 2


def gradients(dy, x, gamma=None, eps=1e-5):
    """Gradients of sum(dy * normalised(x, gamma, beta)), in float64."""
    x, dy = x.astype(np.float64), dy.astype(np.float64)
    scale = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    hat = (x - x.mean(-1, keepdims=True)) * scale
    g = dy if gamma is None else dy * gamma.astype(np.float64)
    dx = g - g.mean(-1, keepdims=True) - hat * (g * hat).mean(-1, keepdims=True)
    return scale * dx, (dy * hat).sum(0), dy.sum(0)


def terms_of_dx(dy, x, gamma=None, eps=1e-5):
    """How large the three terms are whose difference is dx, in float64."""
    x, dy = x.astype(np.float64), dy.astype(np.float64)
    scale = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    hat = np.abs(x - x.mean(-1, keepdims=True)) * scale
    g = np.abs(dy if gamma is None else dy * gamma.astype(np.float64))
    return scale * (g + g.mean(-1, keepdims=True) + hat * (g * hat).mean(-1, keepdims=True))


def assert_close(result, expected, limit=2e-6, terms=1):
    """Within a few roundings of float32, relative to 1 or the number, and one of what is stored.

    With `terms` relative to what was subtracted instead. The gradient of a row needs that: in a
    row of one number g - mean(g) is a rounding of g at most, and scale, 316 there, multiplies it;
    the result is rightly compared with scale * |g|, and not with the 0 that is left of it.
    """
    assert result.shape == expected.shape
    stored = 2.0**-11 if result.dtype == np.float16 else 0
    error, size = np.abs(result.astype(np.float64) - expected), np.abs(expected)
    assert np.all(error <= limit * np.maximum(terms, size) + stored * np.maximum(1, size))


def assert_gradients(result, dy, x, gamma=None):
    """dx to 1e-6 of its terms, the sums over rows to 1e-5 of themselves, or of 1."""
    (dx, *sums), (expected, *expected_sums) = result, gradients(dy, x, gamma)
    assert_close(dx, expected, 1e-6, terms_of_dx(dy, x, gamma))
    for got, wanted in zip(sums, expected_sums, strict=True):
        assert_close(got, wanted, 1e-5)


def inputs(rng, rows, columns, kind=np.float32):
    x = (3 * rng.standard_normal((rows, columns)) + 2).astype(kind)
    return x, rng.standard_normal(columns).astype(kind), rng.standard_normal(columns).astype(kind)


def traced(method, x, gamma, beta, out, **form):
    """Trace a step's launch; no error is found in it. With a GPU here, as that one."""
    aligned = rows_are_aligned(*(cuda.to_device(a) for a in (x, out))) and out.strides[0] % 16 == 0
    form = Variant(str(out.dtype), aligned, gamma=gamma is not None, beta=beta is not None, **form)
    kernel, blocks, threads, shared = LADDER[method].launch(*x.shape, form)
    some = np.zeros(1, np.float32)
    gamma, beta = (some if factor is None else factor for factor in (gamma, beta))
    report = trace(
        kernel, blocks, threads, x, gamma, beta, np.float32(1e-5), out, dynamic_shared=shared,
        gpu=gpu(),
    )  # fmt: skip
    assert not [finding for finding in report.findings if finding.is_error]
    return report


# --- forward --------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", LENGTHS)
def test_rows_of_every_length(rng, columns):
    x, gamma, beta = inputs(rng, 2, columns)
    result = layer_norm(x, gamma, beta, activation="gelu")
    assert_close(result, normalised(x, gamma, beta, activation="gelu"))


@pytest.mark.parametrize("columns", [64, 384, 388, 4096, 4099, 12_288, 12_292])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_l2_is_asked_to_keep(rng, monkeypatch, columns, kind):
    monkeypatch.setattr(gpus, "_chosen", gpus.find("H200"))
    x, gamma, beta = inputs(rng, 3, columns, kind)
    result = layer_norm(x, gamma, beta, activation="gelu")
    assert_close(result, normalised(x, gamma, beta, activation="gelu"))


@pytest.mark.parametrize(
    ("columns", "kept"), [(1024, True), (1023, False), (12_288, True), (12_292, False)]
)
def test_which_rows_l2_is_asked_to_keep(columns, kept):
    form = Variant(aligned=columns % 4 == 0, activation="gelu", keep_in_l2=True)
    shape = row_config(columns, form.aligned)
    full = shape.unguarded(columns, form.aligned)
    wanted = rows_in_registers(shape, dataclasses.replace(form, unguarded=full, keep_in_l2=kept))
    assert LADDER["registers"].launch(2, columns, form).kernel is wanted


@pytest.mark.skipif(gpu() is not None, reason="chooses the simulated GPU")
def test_which_gpus_keep(monkeypatch):
    for name, kind, kept in (
        ("T4", "float32", False), ("H200", "float32", True), ("H200", "float16", False)
    ):  # fmt: skip
        monkeypatch.setattr(gpus, "_chosen", gpus.find(name))
        assert NormProblem(1, 8, kind).variant.keep_in_l2 == kept


@pytest.mark.parametrize("method", ["tree", *FUSED])
@pytest.mark.parametrize("kind", KINDS)
def test_gamma_and_beta_may_be_left_out(rng, method, kind):
    x, gamma, beta = inputs(rng, 3, 36, kind)
    for factors in ((None, None), (gamma, None), (None, beta)):
        assert_close(layer_norm(x, *factors, method=method), normalised(x, *factors))


def test_float16_rows_may_have_float32_factors(rng):
    x, gamma, beta = inputs(rng, 5, 40, np.float16)
    wide = gamma.astype(np.float32), beta.astype(np.float32)
    result = layer_norm(x, *wide)
    assert result.dtype == np.float16
    assert_close(result, normalised(x, gamma, beta))


def test_sums_of_float16_rows_neither_overflow_nor_lose_digits(rng):
    x = (20_000 + 30 * rng.standard_normal((2, 768))).astype(np.float16)
    with np.errstate(over="ignore"):
        assert not np.isfinite(x.sum(1, dtype=np.float16)).any()
    assert_close(layer_norm(x), normalised(x))


@pytest.mark.parametrize("activation", FUNCTIONS)
def test_an_activation_is_the_same_fused_and_not(rng, activation):
    x, gamma, beta = inputs(rng, 4, 96)
    fused = layer_norm(x, gamma, beta, activation=activation)
    unfused = layer_norm(x, gamma, beta, activation=activation, method="block")
    assert_close(fused, unfused.astype(np.float64))
    assert not np.allclose(fused, layer_norm(x, gamma, beta))


@pytest.mark.parametrize("eps", [0.0, 1e-12, 0.5])
def test_eps(rng, eps):
    x, gamma, beta = inputs(rng, 3, 50)
    assert_close(layer_norm(x, gamma, beta, eps), normalised(x, gamma, beta, eps))


@pytest.mark.parametrize("method", GOOD)
def test_a_constant_row_is_beta_and_a_large_single_number_too(rng, method):
    beta = rng.standard_normal(45).astype(np.float32)
    x = np.full((2, 45), 7, np.float32)
    assert np.array_equal(layer_norm(x, None, beta, method=method), [beta, beta])
    assert layer_norm(np.full((1, 1), 1e30, np.float32), method=method) == 0


# --- the trap -------------------------------------------------------------------------------------


def variance_error(method, x):
    """Largest relative error of the scale, from a result without gamma and beta."""
    result, expected = layer_norm(x, eps=0.0, method=method), normalised(x, eps=0.0)
    return np.linalg.norm(result - expected) / np.linalg.norm(expected)


def test_mean_of_squares_minus_square_of_mean_loses_air_pressure(rng):
    pascal = (101_325 + 30 * rng.standard_normal((8, 256))).astype(np.float32)
    assert not variance_error("squares", pascal) < 0.1  # NaN: a variance came out below zero
    for method in GOOD:
        # sums of 256 such numbers are rounded to 2 Pa, of which the mean keeps up to 1/30 in 30 Pa
        assert variance_error(method, pascal) < 2e-3


def test_it_loses_digits_of_a_photo_that_the_others_keep():
    photo = images.photograph("camera", 256)
    even = np.argsort(photo.std(1))[:8]  # rows of sky
    x = np.ascontiguousarray(photo[even], np.float32)
    assert variance_error("squares", x) > 1e-4
    for method in GOOD:
        assert variance_error(method, x) < 2e-5


def test_one_pass_survives_an_outlier_that_a_shift_by_the_first_number_does_not(rng):
    x = rng.standard_normal((1, 1024)).astype(np.float32)
    x[0, 0] = 1e4
    shifted = x - x[0, 0]
    variance = (shifted**2).mean(dtype=np.float32) - shifted.mean(dtype=np.float32) ** 2
    exact = x.astype(np.float64).var()
    assert abs(variance / exact - 1) > 3e-5
    for method in GOOD:
        assert variance_error(method, x) < 3e-6


# --- arrays ---------------------------------------------------------------------------------------


X = np.zeros((2, 8), np.float32)


@pytest.mark.parametrize(
    ("error", "says", "arguments", "named"),
    [
        (ValueError, "from 1 to", (np.zeros((3, 0), np.float32),), {}),
        (ValueError, "from 1 to", (np.zeros((), np.float32),), {}),
        (TypeError, "float64", (X.astype(np.float64),), {}),
        (TypeError, "int32", (X.astype(np.int32),), {}),
        (TypeError, "list", ([[1.0]],), {}),
        (TypeError, "gamma", (X, np.zeros(8)), {}),
        (ValueError, "gamma has the shape", (X, X[0, :7]), {}),
        (ValueError, "beta has the shape", (X, None, X), {}),
        (ValueError, "eps is -1", (X, None, None, -1), {}),
        (ValueError, "eps is nan", (X, None, None, math.nan), {}),
        (ValueError, "out", (X,), {"out": X[:1]}),
        (ValueError, "out", (X,), {"out": X.astype(np.float16)}),
        (ValueError, "no method 'best'", (X,), {"method": "best"}),
        (ValueError, "no activation 'tanh'", (X,), {"activation": "tanh"}),
        (
            ValueError,
            "holds rows of at most",
            (np.zeros((1, 2000), np.float32),),
            {"method": "several rows"},
        ),
        (
            ValueError,
            "holds rows of at most",
            (np.zeros((1, 40_000), np.float32),),
            {"method": "registers"},
        ),
    ],
)
def test_what_is_wrong_is_said(error, says, arguments, named):
    with pytest.raises(error, match=says):
        layer_norm(*arguments, **named)


def test_rows_whose_numbers_lie_apart_are_refused_on_the_gpu():
    there = cuda.to_device(np.zeros((4, 16), np.float32))
    with pytest.raises(ValueError, match="side by side"):
        layer_norm(there[:, ::2])


@pytest.mark.parametrize("sizes", [(33, 1), (48, 2), (3, 32), (16, 3), (2048, 1), (0, 1)])
def test_shapes_that_no_block_has(sizes):
    with pytest.raises(ValueError, match="threads for each of"):
        RowConfig(*sizes)
    with pytest.raises(ValueError, match="multiple of 4"):
        RowConfig(32, 1, 6)


@pytest.mark.parametrize(
    "shape", [RowConfig(1, 32, 4), RowConfig(4, 8, 12), RowConfig(32, 2, 4), RowConfig(96)]
)
@pytest.mark.parametrize("aligned", [True, False])
def test_other_shapes_work_too(rng, shape, aligned):
    for columns in {shape.longest, shape.longest - 4 if aligned else shape.longest - 3} - {0}:
        x, gamma, beta = inputs(rng, shape.rows + 1, columns)
        out = np.full_like(x, np.nan)
        form = Variant(aligned=aligned, unguarded=shape.unguarded(columns, aligned))
        kernel = rows_in_registers(shape, form)
        kernel[2 if shape.rows > 1 else shape.rows + 1, shape.threads](
            x, gamma, beta, np.float32(1e-5), out
        )
        assert_close(out, normalised(x, gamma, beta))


def test_the_chosen_shapes_hold_their_rows_and_fit_a_multiprocessor():
    halves = functools.partial(row_config, kind="float16")
    for choose, most in ((row_config, 16_384), (halves, 16_384), (backward_config, 4096)):
        for aligned in (True, False):
            for columns in (*range(1, 260), 768, 1024, 4093, most):
                if columns <= most:
                    shape = choose(columns, aligned)
                    assert shape.longest >= columns
                    assert shape.threads * shape.max_registers <= 65_536
    assert all(short_config(columns).longest >= columns for columns in range(1, 1025))


def test_shapes_that_were_measured():
    """On an H200; who changes one measures again."""
    few, every = 32, 255  # registers
    for columns, sizes in {
        768: (96, 1, 8, few), 1024: (128, 1, 8, few), 2048: (256, 1, 8, few),
        4096: (512, 1, 8, few), 5000: (320, 1, 16, every), 8192: (512, 1, 16, every),
        12_288: (512, 1, 24, every),
    }.items():  # fmt: skip
        assert method_for("auto", columns) == "registers" and row_config(columns) == RowConfig(
            *sizes
        )
    for columns in (257, 384):
        assert method_for("auto", columns) == method_for("auto", columns, False) == "several rows"
        assert short_config(columns) == RowConfig(32, 4, 12)
    assert method_for("auto", 385) == "registers"
    for columns in (4097, 4099, 4224):
        assert row_config(columns, aligned=False) == RowConfig(352, 1, 12, 64)


# --- bytes ----------------------------------------------------------------------------------------


@pytest.mark.skipif(gpu() is not None, reason="counted in the simulator")
def test_the_row_is_read_once_in_wide_accesses(rng):
    x, gamma, beta = inputs(rng, 4, 768)
    for method, times in (("tree", 3), ("one pass", 2), ("block", 2), ("registers", 1)):
        report = traced(method, x, gamma, beta, np.empty_like(x))
        # gamma and beta are as long as a row, and read once for each
        assert report.total("global", "load").bytes == (times + 2) * x.nbytes
        assert report.total("global", "store").bytes == x.nbytes
    load = report.total("global", "load")
    assert load.sectors == 16 * load.requests  # 16 bytes for each lane


@pytest.mark.skipif(gpu() is not None, reason="counted in the simulator")
def test_fused_moves_half_of_what_two_kernels_move(rng):
    x = inputs(rng, 8, 256)[0]
    out = np.empty_like(x)
    fused = traced("registers", x, None, None, out, activation="gelu")
    alone = traced("registers", x, None, None, out)
    second = trace(norm.activate("gelu"), (1, 8), 256, out)
    moved = [
        report.total("global", "load").bytes + report.total("global", "store").bytes
        for report in (fused, alone, second)
    ]
    assert moved == [2 * x.nbytes] * 3  # fused 2 transfers, unfused 2 + 2


# --- backward -------------------------------------------------------------------------------------


def test_the_reference_is_the_slope(rng):
    x, dy, gamma = (rng.standard_normal(shape) for shape in ((2, 5), (2, 5), 5))
    dx, dgamma, _ = gradients(dy, x, gamma)
    step = 1e-6
    for place in np.ndindex(2, 5):
        moved = np.zeros((2, 5))
        moved[place] = step
        change = normalised(x + moved, gamma) - normalised(x - moved, gamma)
        assert (dy * change).sum() / (2 * step) == pytest.approx(dx[place], abs=1e-6)
    assert np.allclose(dgamma, (dy * normalised(x)).sum(0))


def test_the_bound_of_the_gradient_allows_a_rounding_of_its_terms_and_finds_what_is_wrong(rng):
    one, gamma, _ = inputs(rng, 1, 1)
    scale = 1 / math.sqrt(1e-5)
    rounded = np.float32(scale) * np.spacing(np.abs(gamma * one))  # of g, as contraction leaves
    assert_close(rounded, np.zeros((1, 1)), 1e-6, terms_of_dx(one, one, gamma))
    x, gamma, _ = inputs(rng, 5, 128)
    dy = inputs(rng, 5, 128)[0]
    dx = gradients(dy, x, gamma)[0]
    dx[2, 7] += 4e-6 * terms_of_dx(dy, x, gamma)[2, 7]
    with pytest.raises(AssertionError):
        assert_gradients((dx, *gradients(dy, x, gamma)[1:]), dy, x, gamma)


@pytest.mark.parametrize("shape", [RowConfig(4, 8, 8), RowConfig(64, 1, 8)])
def test_blocks_that_walk_over_many_rows_race_with_nobody(rng, shape):
    rows, columns, blocks = 37, shape.longest - 4, 3
    x, gamma, _ = inputs(rng, rows, columns)
    dy, dx = inputs(rng, rows, columns)[0], np.full_like(x, np.nan)
    sums = np.full((2, blocks * shape.rows, columns), np.nan, np.float32)
    kernel = backward_in_registers(shape, Variant(beta=False), True)
    none, eps = np.zeros(1, np.float32), np.float32(1e-5)
    report = trace(kernel, blocks, shape.threads, dy, x, gamma, none, eps, dx, sums)
    assert not [finding for finding in report.findings if finding.is_error]
    assert_gradients((dx, *sums.sum(1)), dy, x, gamma)


@pytest.mark.parametrize("method", BACKWARD)
def test_backward_without_gamma_without_parameters_and_of_slices_on_the_gpu(rng, method):
    x, dy = inputs(rng, 6, 48)[0], inputs(rng, 6, 48)[0]
    there = [cuda.to_device(array)[:, 3:43] for array in (dy, x)]
    result = layer_norm_backward(*there, method=method)
    assert_gradients([got.copy_to_host() for got in result], dy[:, 3:43], x[:, 3:43])
    dx, *none = layer_norm_backward(*there, parameters=False, method=method)
    assert none == [None, None]
    assert np.array_equal(dx.copy_to_host(), result[0].copy_to_host())


def test_backward_says_what_is_wrong():
    with pytest.raises(ValueError, match="dy"):
        layer_norm_backward(X[:1], X)
    with pytest.raises(ValueError, match="no method 'naive'"):
        layer_norm_backward(X, X, method="naive")
    long = np.zeros((1, 8196), np.float32)
    with pytest.raises(ValueError, match="two kernels"):
        layer_norm_backward(long, long, method="registers")


# --- the bench, and the peers ---------------------------------------------------------------------


class Judge(Bench):
    """A bench that checks every program and times none; it takes what a bench takes, no more."""

    def variant(self, kernel, variant, call, args, *, expected, out=None, limit=1e-6, **said):
        inspect.signature(Bench.variant).bind(self, kernel, variant, call, args, expected=0, **said)
        self.check(call, args, expected, out=out, limit=limit)
        self.rows.append((kernel, variant, said["shape"], said["dtype"]))


def test_the_bench_times_right_programs(monkeypatch):
    monkeypatch.setattr(bench_norm, "SHAPES", ((9, 40),))
    monkeypatch.setattr(bench_norm, "ORIGINAL", (3, 1028))
    monkeypatch.setattr(norm_lengths, "LENGTHS", (9, 300))
    monkeypatch.setattr(norm_lengths, "NUMBERS", 900)
    frame = Judge("norm", None, say=lambda _: None)
    frame.peer = lambda name: None
    bench_norm.run(frame)
    norm_lengths.run(frame)
    for name in ("layer norm", "layer norm + gelu"):
        assert all((name, method, "9x40", "float32") in frame.rows for method in STEPS)
        assert (
            (name, REGISTERS_AND_SHARED, "9x40", "float32") in frame.rows
        ) == shared_memory_limit()[1]
    assert (
        f"{REGISTERS_AND_SHARED} left out: it needs compute capability 8.0" in frame.notes
    ) != shared_memory_limit()[1]
    assert ("layer norm + gelu", "auto", "9x40", "float16") in frame.rows
    assert ("layer norm + gelu", "auto", "3x300", "float32") in frame.rows
    assert all(("layer norm backward", m, "9x40", "float32") in frame.rows for m in BACKWARD)


@pytest.mark.skipif(gpu() is not None, reason="chooses the simulated GPU")
def test_the_bench_times_a_step_of_two_launches_with_what_it_is_given(monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", gpus.find("H200"))
    frame = Judge("norm", None, say=lambda _: None)
    data = bench_norm.inputs(frame, 2, 8193)
    given = tuple(cuda.to_device(array) for array in data)
    given += np.float32(bench_norm.EPS), cuda.to_device(np.empty_like(data[0]))
    launches = norm.prepared(*given, "auto", "gelu")
    assert len(launches) == 2  # four copies of gamma and beta, and rows that begin anywhere
    other = tuple(cuda.to_device(2 * array) for array in data)
    other += given[3], cuda.to_device(np.zeros_like(data[0]))
    bench_norm.one_call(launches, given)(*other)
    doubled = normalised(*(2 * array for array in data), activation="gelu")
    assert_close(other[-1].copy_to_host(), doubled)
    bench_norm.ours(frame, data, "gelu", ("auto",), normalised(*data, activation="gelu"))
    assert [row[1] for row in frame.rows] == ["auto"]


@pytest.mark.parametrize("activation", [None, "gelu"])
def test_the_bench_writes_where_pytorch_writes_too_and_judges_what_is_there(activation):
    frame, made = Judge("norm", None, say=lambda _: None), []

    def empty(shape, dtype, device):
        assert (dtype, device) == ("its float32", "cuda")
        made.append(cuda.to_device(np.full(shape, np.nan, np.float32)))
        return made[-1]

    torch = types.SimpleNamespace(
        empty=empty,
        empty_like=lambda like: empty(like.shape, "its float32", "cuda"),
        float32="its float32",
    )
    frame.peer = lambda name: torch if name == "torch" else None
    data = bench_norm.inputs(frame, 9, 40)
    expected = normalised(*data, activation=activation)
    bench_norm.ours(frame, data, activation, ("block", "registers"), expected)
    name = "layer norm" if activation is None else "layer norm + gelu"
    said = [row[1] for row in frame.rows]
    assert said == ["block", "registers", "registers, in PyTorch's memory"]
    assert frame.rows[-1] == (name, said[-1], "9x40", "float32")
    assert_close(made[-1].copy_to_host(), expected)  # a new array for the call, and it is written
    there = [cuda.to_device(array) for array in data]
    arguments = (*there, np.float32(bench_norm.EPS), cuda.to_device(data[0]))
    work = bench_norm.work_of(data, activation)[1]
    with pytest.raises(WrongResult):
        bench_norm.in_torch_memory(
            frame, torch, (name, "registers"), arguments, expected + 1e-3, work
        )


def test_the_bench_leaves_small_work_in_its_own_memory(monkeypatch):
    monkeypatch.setattr(bench_norm, "ORIGINAL", (9, 40))
    frame = Judge("norm", None, say=lambda _: None)
    frame.peer = lambda name: types.SimpleNamespace()  # it has nothing to call
    data = bench_norm.inputs(frame, 9, 40)
    bench_norm.ours(frame, data, None, ("registers",), normalised(*data))
    assert [row[1] for row in frame.rows] == ["registers"]


def test_the_cuda_kernel_is_left_out_where_its_registers_are_too_many(rng):
    frame = Judge("norm", None, say=lambda _: None)
    data = [np.zeros((1, 65_536), np.float32), *np.zeros((2, 65_536), np.float32)]
    kernel = types.SimpleNamespace(num_regs=72)
    cupy = types.SimpleNamespace(RawKernel=lambda *source: kernel)  # it has nothing to launch
    bench_norm.cuda_cpp(frame, cupy, data, True, "layer norm + gelu", {})
    (note,) = frame.notes
    assert "left out at rows of 65536: 72 registers for each of 1,024 threads" in note


def test_the_cuda_kernel_covers_the_row():
    for columns in (4, 128, 768, 4096, 16_384, 65_536):
        threads, parts = cuda_cpp.launch_shape(columns)
        assert threads * parts * 4 >= columns and threads % 32 == 0
    assert cuda_cpp.launch_shape(1023) is None
    assert cuda_cpp.launch_shape(65_540) is None
