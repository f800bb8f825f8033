"""The spectral autoencoder: against float64, layer by layer, fused; its data, weights, training."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import course
from course import cuda, trace
from course.dispatch.prepared import allow_shared
from course.measure.occupancy import occupancy
from course_models.spectral import network
from course_models.spectral import weights as spectral_weights
from course_models.spectral.config import STATIC_LIMIT, FusedConfig
from course_models.spectral.data import FAULTS, area_under_curve, held_out, spectra
from course_models.spectral.layers import Layers
from course_models.spectral.network import (
    CONFIGS,
    FETCHED,
    FOLDED,
    Autoencoder,
    config_for,
    reference,
)
from course_models.spectral.weights import PACKED, Weights
from tools.train import spectral as train_spectral
from warpsim.host import gpus, libcuda

METHODS = ("fused", "folded", "fetched", "layers")

LIMIT = 1e-5  # relative, of float32 against float64
HOPPER, TURING = gpus.find("H200"), gpus.find("T4")


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    """All of this runs on a simulated H200, unless a test says otherwise."""
    monkeypatch.setattr(gpus, "_chosen", HOPPER)


@pytest.fixture(scope="module")
def weights():
    return Weights.random(5)


def launched(shape, x, weights, blocks, run=None):
    """What a shape's kernel writes with so many blocks, into memory that held NaN."""
    y, errors = np.full_like(x, np.nan), np.full(len(x), np.nan, np.float32)
    kernel, args = network.kernel_of(shape), (x, weights.packed(shape.folded), y, errors)
    if run is not None:
        found = run(kernel, blocks, shape.threads, *args, dynamic_shared=shape.dynamic_shared)
        return y, errors, found
    if shape.dynamic_shared:  # a GPU gives more than 48 KiB only when it is asked
        allow_shared(kernel, network.SIGNATURE, shape.dynamic_shared)
    kernel[blocks, shape.threads, 0, shape.dynamic_shared](*args)
    return y, errors, None


def assert_right(x, weights, y, errors):
    rebuilt, scores = reference(x, weights)
    assert np.linalg.norm(y - rebuilt) <= LIMIT * np.linalg.norm(rebuilt)
    assert np.abs(y - rebuilt).max() <= LIMIT * np.abs(rebuilt).max()
    np.testing.assert_allclose(errors, scores, rtol=LIMIT)


# --- right ---------------------------------------------------------------------------------------


def test_the_reference_is_the_formula_written_out_for_one_spectrum(weights):
    from math import erf, sqrt

    x = spectra(1, 3)[0].astype(np.float64)
    w = {name: array.astype(np.float64) for name, array in weights.as_dict().items()}

    def half(values, name):
        z = (values - np.mean(values)) / np.sqrt(np.var(values) + 1e-5)
        a = w[f"{name}_weight"] @ (z * w[f"{name}_gamma"] + w[f"{name}_beta"]) + w[f"{name}_bias"]
        return np.array([0.5 * v * (1 + erf(v / sqrt(2))) for v in a])

    c = np.concatenate([half(x[64 * f : 64 * f + 64], "encode") for f in range(5)])
    r = half(w["basis"] @ c, "code") @ w["basis"]
    y = [w["decode_weight"] @ r[64 * f : 64 * f + 64] + w["decode_bias"] for f in range(5)]
    rebuilt, scores = reference(x[None], weights)
    np.testing.assert_allclose(rebuilt[0], np.concatenate(y), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scores[0], np.mean((np.concatenate(y) - x) ** 2), rtol=1e-12)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("batch", [1, 7, 135, pytest.param(277, marks=pytest.mark.slow)])
def test_every_method_agrees_with_float64_for_any_batch(method, batch, weights):
    x = spectra(batch, batch)
    y = np.full_like(x, np.nan)
    returned, errors = Autoencoder(weights)(x, method=method, out=y)
    assert returned is y and errors.dtype == np.float32
    assert_right(x, weights, y, errors)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("shape", (*CONFIGS, FOLDED[3], FOLDED[-1], *FETCHED), ids=str)
def test_every_shape_is_right_with_fewer_blocks_than_tiles_and_a_tile_that_is_not_full(
    shape, weights
):
    tile = shape.tile * shape.groups
    x = spectra(3 * tile + max(1, tile // 2) - 1, 11)
    y, errors, _ = launched(shape, x, weights, blocks=2)
    assert_right(x, weights, y, errors)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("shape", "batch", "blocks"),
    [
        (FusedConfig(1, 2), 5, 2),
        (FusedConfig(1, 4), 3, 1),
        (FusedConfig(2, 4, groups=2), 11, 1),
        (FusedConfig(4, 8), 19, 1),
        (FusedConfig(2, 4, folded=True), 9, 1),
        pytest.param(FusedConfig(2, 4, resident=False), 9, 2, marks=pytest.mark.slow),
        pytest.param(FusedConfig(1, 8, resident=False, groups=2), 13, 1, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_traced_there_is_no_error_no_float64_no_conflict_and_half_the_wavefronts(
    shape, batch, blocks, weights
):
    x = spectra(batch, 2)
    y, errors, report = launched(shape, x, weights, blocks, trace)
    assert_right(x, weights, y, errors)
    assert not {"race", "out-of-bounds", "uninitialised-read", "misaligned"} & {
        finding.kind for finding in report.findings
    }
    assert report.operations["float64"] == 0
    for what in ("load", "store"):
        assert report.total("shared", what).conflicts == 0
    lines = report.lines[report.lines.op == "load"]
    wide = lines[lines.code.str.contains("load4") & (lines.space == "shared")]
    most = 2 if shape.columns > 2 else 4  # lanes side by side that read the same need half
    assert len(wide) >= 4 and (wide.wavefronts <= most * wide.requests).all()
    packed = weights.packed(shape.folded).nbytes
    assert report.unique_bytes == x.nbytes + y.nbytes + errors.nbytes + packed
    assert report.total("global", "store").bytes == y.nbytes + errors.nbytes


@pytest.mark.slow
def test_layer_by_layer_moves_several_times_the_bytes(weights):
    batch, shape = 32, FusedConfig(4, 8)
    x = spectra(batch, 1)
    *_, one = launched(shape, x, weights, 1, trace)
    there, y = cuda.to_device(x), cuda.device_array(x.shape, np.float32)
    errors = cuda.device_array(batch, np.float32)
    reports = [
        trace(kernel, *how, *args)
        for _, kernel, how, args in Layers(weights, batch).launches(there, y, errors)
    ]
    assert len(reports) == 10
    bad = {"race", "out-of-bounds", "uninitialised-read", "barrier-divergence", "float64"}
    assert not any(bad & {finding.kind for finding in report.findings} for report in reports)
    assert_right(x, weights, y.copy_to_host(), errors.copy_to_host())
    total = sum(report.unique_bytes for report in reports)
    assert total > 3.5 * one.unique_bytes


def test_nan_and_infinity_stay_in_their_spectrum(weights):
    x = spectra(9, 4)
    x[3, 17], x[7, 300] = np.nan, np.inf
    sound = np.delete(np.arange(9), (3, 7))
    for method in METHODS:
        y, errors = Autoencoder(weights)(x, method=method)
        assert np.isnan(y[[3, 7]]).all() and np.isnan(errors[[3, 7]]).all()
        assert_right(x[sound], weights, y[sound], errors[sound])


def test_a_constant_frame_is_normalised_to_zero_and_not_divided_by_zero(weights):
    x = np.full((2, 320), 3, np.float32)
    y, errors = Autoencoder(weights)(x)
    assert_right(x, weights, y, errors)


@pytest.mark.slow
def test_folded_weights_make_a_third_less_work(weights):
    made = {
        folded: launched(FusedConfig(2, 4, folded=folded), spectra(8, 1), weights, 1, trace)[2]
        for folded in (False, True)
    }
    saved = made[False].operations["float32"] - made[True].operations["float32"]
    assert saved == 2 * 8 * 5 * 64 * 64
    ratio = spectral_weights.multiplications(1, True) / spectral_weights.multiplications(1)
    assert ratio == pytest.approx(2 / 3, abs=0.01)


# --- what is launched ----------------------------------------------------------------------------


def test_small_batches_are_spread_over_all_multiprocessors_and_large_ones_share_weights():
    def chosen(batch, gpu, method="fused"):
        return config_for(
            batch, gpu.multiprocessors, gpu.shared_per_block, gpu.compute_capability, method
        )

    assert chosen(32, HOPPER).tile == 1
    assert chosen(512, HOPPER).tile == 4
    assert chosen(65536, HOPPER) == CONFIGS[-1]
    assert not chosen(65536, TURING).resident
    assert not chosen(65536, HOPPER, "fetched").resident
    for gpu in gpus.GPUS.values():
        for batch in (1, 1000, 10**6):
            assert chosen(batch, gpu).shared_bytes <= gpu.shared_per_block


@pytest.mark.parametrize("shape", (*CONFIGS, *FOLDED, *FETCHED), ids=str)
def test_a_block_of_every_shape_can_start_with_all_the_registers_that_it_may_have(shape):
    fits = occupancy("H200", shape.threads, shape.max_registers, shape.shared_bytes)
    assert fits.blocks >= 1, fits


def test_blocks_have_equal_rounds_of_work():
    shape = FusedConfig(4, 8)  # tiles of 16
    assert shape.blocks(1, 132) == 1
    assert shape.blocks(16 * 132, 132) == 132
    assert shape.blocks(16 * 133, 132) == 67  # two rounds of 67, and not 132 and 1


@pytest.mark.skipif(course.gpu() is not None, reason="a GPU of another kind cannot be one")
def test_a_t4_takes_weights_in_parts_and_refuses_resident_ones(weights, monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", TURING)
    model, x = Autoencoder(weights), spectra(21, 5)
    assert_right(x, weights, *model(x))
    with pytest.raises(ValueError, match=r"needs 80,496 bytes of shared memory.*this GPU has 65,5"):
        model.configured(5, config=FusedConfig(1, 2))


def test_shapes_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="samples must be 1, 2, 4 or 8"):
        FusedConfig(3, 8)
    with pytest.raises(ValueError, match="only with resident weights"):
        FusedConfig(1, 2, resident=False)
    with pytest.raises(ValueError, match="folded weights must be resident"):
        FusedConfig(4, 8, resident=False, folded=True)
    with pytest.raises(ValueError, match="49,152 is the most without resident weights"):
        FusedConfig(8, 8, resident=False)


def test_a_gpu_is_asked_for_more_shared_memory_in_the_words_of_both_numba_cudas(monkeypatch):
    from course.dispatch import prepared

    asked = []

    class Driver:
        def cuKernelSetAttribute(self, attribute, value, kernel, device):
            asked.append((attribute, value, "kernel", kernel.value, device))
            return 0

        def cuFuncSetAttribute(self, function, attribute, value):
            asked.append((attribute, value, "function", function.value))
            return 0 if value == 81_000 else 1

        def cuGetErrorName(self, status, name):
            name._obj.value = b"CUDA_ERROR_INVALID_VALUE"

    driver = Driver()
    monkeypatch.setattr(libcuda, "library", lambda: driver)
    prepared._allow(SimpleNamespace(handle=7, kernel=None), 3, 81_000)
    prepared._allow(SimpleNamespace(handle=7), 3, 81_000)
    assert asked == [(8, 81_000, "kernel", 7, 3), (8, 81_000, "function", 7)]
    with pytest.raises(RuntimeError, match="refuses 90,000 bytes .*CUDA_ERROR_INVALID_VALUE"):
        prepared._allow(SimpleNamespace(handle=7), 3, 90_000)


# --- the entry point -----------------------------------------------------------------------------


def test_arrays_on_the_gpu_stay_there(weights):
    x = spectra(6, 8)
    there = cuda.to_device(x)
    y, errors = Autoencoder(weights)(there)
    assert not isinstance(y, np.ndarray) and not isinstance(errors, np.ndarray)
    assert_right(x, weights, y.copy_to_host(), errors.copy_to_host())


def test_a_batch_of_none_gives_empty_results(weights):
    y, errors = Autoencoder(weights)(spectra(0, 1))
    assert y.shape == (0, 320) and errors.shape == (0,)
    with pytest.raises(ValueError, match="batch is 0; a launch needs at least 1"):
        Autoencoder(weights).configured(0)


@pytest.mark.parametrize(
    ("x", "kind", "words"),
    [
        ([[0.0] * 320], TypeError, "x is list: give an array"),
        (np.zeros((2, 320)), TypeError, r"float64; .* convert it, x.astype\('float32'\)"),
        (np.zeros((2, 320), np.int32), TypeError, "x holds int32"),
        (
            np.zeros((2, 319), np.float32),
            ValueError,
            r"shape \(2, 319\); it must be \(batch, 320\)",
        ),
        (np.zeros(320, np.float32), ValueError, r"x has the shape \(320,\)"),
    ],
)
def test_what_is_no_batch_of_spectra_is_refused(x, kind, words, weights):
    with pytest.raises(kind, match=words):
        Autoencoder(weights)(x)


def test_strides_and_addresses_that_do_not_fit_are_refused_and_numpys_copied(weights):
    model, wide = Autoencoder(weights), np.zeros((4, 321), np.float32)
    wide[:, 1:] = spectra(4, 1)
    assert_right(wide[:, 1:], weights, *model(wide[:, 1:]))
    there = cuda.to_device(wide)
    with pytest.raises(ValueError, match=r"x has the strides \(1284, 4\)"):
        model(there[:, 1:])
    flat = cuda.to_device(np.zeros(2 * 320 + 1, np.float32))
    with pytest.raises(ValueError, match="no multiple of 16 bytes: copy it"):
        model(flat[1:].reshape(2, 320))


def test_out_must_be_another_array_of_the_same_shape(weights):
    x = spectra(3, 1)
    with pytest.raises(ValueError, match="out is x itself"):
        Autoencoder(weights)(x, out=x)
    with pytest.raises(ValueError, match=r"out is float32 of shape \(2, 320\)"):
        Autoencoder(weights)(x, out=np.zeros((2, 320), np.float32))
    with pytest.raises(
        ValueError, match="no method 'fast': choose auto, fused, folded, fetched, layers"
    ):
        Autoencoder(weights)(x, method="fast")


# --- weights -------------------------------------------------------------------------------------


def test_weights_of_a_seed_are_saved_and_loaded_as_they_are(tmp_path, weights):
    weights.save(tmp_path / "w.npz")
    again = Weights.load(tmp_path / "w.npz")
    for name, array in weights.as_dict().items():
        assert np.array_equal(getattr(again, name), array)
        assert np.array_equal(getattr(Weights.random(5), name), array)


def test_weights_that_do_not_fit_are_refused(tmp_path, weights):
    for change, words in (
        ({"basis": weights.basis.T}, r"basis is \(320, 32\); it must be a NumPy array of shape"),
        ({"code_bias": weights.code_bias.astype(np.float64)}, "code_bias is float64"),
        ({"basis": weights.basis * np.float32(1.01)}, "they must be 1: divide each row"),
        ({"decode_bias": weights.decode_bias + np.float32(np.nan)}, "numbers that are not finite"),
    ):
        with pytest.raises(ValueError, match=words):
            dataclasses.replace(weights, **change)
    some = weights.as_dict()
    del some["basis"]
    np.savez(tmp_path / "some.npz", **some)
    with pytest.raises(ValueError, match="lacks, or has beside the weights: basis"):
        Weights.load(tmp_path / "some.npz")
    np.savez(tmp_path / "pickled.npz", **(some | {"basis": np.array([{}], dtype=object)}))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        Weights.load(tmp_path / "pickled.npz")
    with pytest.raises(TypeError, match="give Weights"):
        Autoencoder(some)


def test_packed_weights_have_every_part_on_a_multiple_of_16_bytes(weights):
    packed = weights.packed()
    places = (
        spectral_weights.PACKED_BIASES, spectral_weights.PACKED_BASIS,
        spectral_weights.PACKED_CODE, spectral_weights.PACKED_DECODE,
    )  # fmt: skip
    assert packed.shape == (PACKED,) and not any(place % 4 for place in places)
    basis = packed[places[1] : places[2]].reshape(32, -1)
    assert np.array_equal(basis[:, :320], weights.basis)
    turned = packed[places[3] :].reshape(64, 64)
    assert np.array_equal(turned, weights.decode_weight.T)
    assert STATIC_LIMIT < 4 * PACKED  # why they are fetched in parts


# --- data, score, training -----------------------------------------------------------------------


def test_spectra_are_the_same_for_a_seed_and_levels_are_relative_to_their_frame():
    for fault in (None, *FAULTS):
        x = spectra(20, 3, fault)
        assert x.shape == (20, 320) and x.dtype == np.float32
        assert np.array_equal(x, spectra(20, 3, fault))
        assert np.abs(x.reshape(20, 5, 64).mean(2)).max() < 1e-5
        assert fault is None or not np.array_equal(x, spectra(20, 3))
    with pytest.raises(ValueError, match="no fault 'rust': choose None or whistle"):
        spectra(1, 1, "rust")
    with pytest.raises(ValueError, match="count is -1"):
        spectra(-1, 1)


def test_area_under_curve_counts_pairs_with_ties_as_one_half():
    rng = np.random.default_rng(1)
    scores, faulty = rng.integers(0, 6, 60).astype(float), rng.random(60) < 0.4
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[faulty] for b in scores[~faulty]]
    assert area_under_curve(scores, faulty) == pytest.approx(np.mean(pairs))
    with pytest.raises(ValueError, match="both True and False"):
        area_under_curve(scores, np.ones(60, bool))
    with pytest.raises(ValueError, match="a score is NaN"):
        area_under_curve(np.where(faulty, np.nan, scores), faulty)
    with pytest.raises(ValueError, match="as long as each other"):
        area_under_curve(scores, faulty[:-1])


def test_the_scores_of_the_fused_kernel_tell_faulty_spectra_that_no_training_has_seen():
    x, faulty = held_out(256)
    model = Autoencoder(Weights.trained())
    rebuilt, scores = model(x)
    assert_right(x, model.weights, rebuilt, scores)
    assert area_under_curve(scores, faulty) > 0.98
    assert area_under_curve((x**2).mean(1), faulty) < 0.9  # loudness alone does not tell
    untrained = reference(x, Weights.random(train_spectral.SEED))[1]
    assert area_under_curve(untrained, faulty) < 0.9
    for fault in FAULTS:
        some = np.concatenate([x[~faulty], spectra(64, 77, fault)])
        found = reference(some, model.weights)[1]
        assert area_under_curve(found, np.arange(len(some)) >= 256) > 0.9, fault


def test_gradients_of_the_training_are_those_of_differences(weights):
    x = spectra(3, 1).astype(np.float64)
    w = {name: array.astype(np.float64) for name, array in weights.as_dict().items()}
    _, gradients = train_spectral.loss_and_gradients(x, w)
    rng, step = np.random.default_rng(2), 1e-4
    for name, array in w.items():
        place = tuple(int(rng.integers(size)) for size in array.shape)
        losses = []
        for sign in (1, -1):
            moved = array.copy()
            moved[place] += sign * step
            losses.append(train_spectral.loss_and_gradients(x, w | {name: moved})[0])
        slope = (losses[0] - losses[1]) / (2 * step)
        assert gradients[name][place] == pytest.approx(slope, rel=1e-3, abs=1e-9), name


def test_training_is_the_same_each_time_and_rebuilds_better():
    one, other = (train_spectral.train(steps=10, count=256) for _ in range(2))
    x = spectra(64, 5)
    for name, array in one.as_dict().items():
        assert np.array_equal(array, getattr(other, name))
    before = reference(x, Weights.random(train_spectral.SEED))[1].mean()
    middle = reference(x, one)[1].mean()
    assert middle < 0.8 * before
    assert reference(x, Weights.trained())[1].mean() < 0.3 * middle


# --- the bench ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_bench_checks_and_counts_each_of_its_programs(monkeypatch):
    """In the simulator, without times: what is called, with what, and whether it is right."""
    from course_recording import frame
    from course_recording.subjects import spectral as subject

    class Untimed(frame.Bench):
        def __init__(self):
            super().__init__("spectral", None)
            self.seen = {}

        def peer(self, name):
            return None

        def variant(self, kernel, variant, call, args, *, expected, out, **work):
            self.check(call, args, expected, out=out, limit=work["limit"])
            self.seen[kernel, variant] = work
            return True

    bench = Untimed()
    monkeypatch.setattr(subject, "BATCHES", (3,))
    monkeypatch.setattr(subject, "SHAPE_BATCHES", (3,))
    launches = []
    monkeypatch.setattr(subject, "time_launch", lambda bench, name, call: launches.append(call()))
    subject.run(bench)
    assert {name for kernel, name in bench.seen if kernel == "spectral"} == set(METHODS)
    shapes = [work for (kernel, _), work in bench.seen.items() if kernel == "spectral shape"]
    assert len(shapes) == len((*CONFIGS, *FOLDED, *FETCHED)) and len(launches) == 4
    assert bench.seen["spectral", "folded"]["operations"]["float32"] == 2 * 3 * 41984
    assert all(work["needed"] == 2 * 3 * 62464 for work in bench.seen.values())
