"""Profiles of the kernels over rows: what is launched is right, and its traffic is predicted."""

import numpy as np
import pytest

from course import backend
from course.measure import recorded
from course.measure.recorded import Figure
from course_lessons.lesson07 import profile as of_any
from course_lessons.lesson07.profile import METRICS
from course_lessons.lesson13 import profile
from course_lessons.lesson13.profile import CASES, COLUMNS, ROWS, predicted, traced
from course_recording.profiling import record_profile

ELEMENTS = ROWS * COLUMNS
WIDE = ELEMENTS // (32 * 4)  # requests that load each of the elements once, 16 bytes a lane
SIMULATED = pytest.mark.skipif(backend.gpu() is not None, reason="simulated where there is no GPU")


@pytest.mark.parametrize("kernel", ["softmax", "gelu", "silu"])
def test_each_element_is_read_and_written_once_in_wide_accesses(kernel):
    for op in ("load", "store"):
        assert predicted(kernel, f"global {op} requests") == WIDE
        assert predicted(kernel, f"global {op} sectors") == 4 * ELEMENTS / 32


def test_layer_norm_reads_gamma_and_beta_again_for_each_row_and_fused_moves_no_more():
    for name in profile.TRAFFIC:
        assert predicted("layer norm", name) == predicted("layer norm + gelu", name)
    assert predicted("layer norm", "global load requests") == 3 * WIDE
    assert predicted("layer norm", "DRAM bytes read") == 4 * ELEMENTS


@pytest.mark.slow
def test_a_sum_reads_each_element_once_and_writes_next_to_nothing():
    assert WIDE < predicted("sum", "global load requests") < 1.001 * WIDE
    assert predicted("sum", "global store sectors") < 1e-3 * ELEMENTS / 8
    assert predicted("sum", "DRAM bytes written") == 0


@SIMULATED
def test_traffic_grows_evenly_with_the_rows():
    for kernel in ("softmax", "layer norm + gelu"):
        few, more, most = (traced(kernel, rows).total("global", "load") for rows in (16, 32, 64))
        assert most.sectors - more.sectors == 2 * (more.sectors - few.sectors)


@pytest.mark.slow
def test_no_kernel_that_is_profiled_has_an_error_and_shapes_are_those_of_the_gpu():
    for kernel in CASES:
        assert not [f for f in traced(kernel, CASES[kernel].few).findings if f.is_error]
    from warpsim.host import gpus

    before = gpus.current()
    traced.__wrapped__("gelu", 16)
    assert gpus.current() == before


def test_what_cannot_be_predicted_is_said():
    with pytest.raises(ValueError, match="does not count 'cycles'"):
        predicted("gelu", "cycles")


@pytest.fixture
def profiled(tmp_path, monkeypatch):
    """A file of made-up counters: as predicted, or 50."""
    named = record_profile.named("norm", "")
    metrics = record_profile.wanted()
    traffic = (*profile.TRAFFIC, *profile.DRAM)
    rows = []
    for kernel, _, _ in named:
        values = {
            metric: str(predicted(kernel, name)) if name in traffic else "50"
            for name, metric in metrics.items()
        }
        rows += [{"ID": "0", "Kernel Name": kernel, **values}] * record_profile.LAUNCHES
    units = {METRICS["duration"]: "ns"}
    figures = record_profile.figures(rows, units, named, [])
    header = {"gpu": "NVIDIA H200", "course": "0", "date": "2026-01-01"}
    folder = tmp_path / "measurements"
    folder.mkdir()
    recorded.write(folder / "h200-profile-norm.csv", header | metrics, figures)
    monkeypatch.setattr(of_any, "data_path", lambda *parts: tmp_path.joinpath(*parts))
    of_any._figures.cache_clear()
    yield folder
    of_any._figures.cache_clear()


@pytest.mark.slow
def test_a_recorded_profile_is_read_and_shown_beside_the_prediction(profiled):
    assert profile.counter("silu", "global load requests") == WIDE
    assert isinstance(profile.recorded("sum", "duration"), Figure)
    lines = profile.table().splitlines()
    assert len(lines) == 1 + len(CASES)
    assert "268.44 / 268.44" in lines[1] and "50%" in lines[1]
    with pytest.raises(ValueError, match="no counters of 'relu'; there are those of sum, softmax"):
        profile.counter("relu", "duration")
    with pytest.raises(ValueError, match="no recorded 'heat' of 'sum'"):
        profile.counter("sum", "heat")
    assert recorded.recordings(folder=profiled) == ()  # it is no bench


@SIMULATED
def test_every_launch_that_is_profiled_gives_a_right_result(monkeypatch):
    monkeypatch.setattr(profile, "COLUMNS", 64)
    for kernel, case in CASES.items():
        launch, arguments = case.launch(8)
        launch(*arguments)
        backward = kernel == "layer norm backward"
        out = arguments[4 + backward] if "layer norm" in kernel else arguments[-1]
        result, x = out.copy_to_host().astype(np.float64), arguments["backward" in kernel]
        x = x.copy_to_host().astype(np.float64)
        assert np.isfinite(result).all()
        if kernel == "sum":
            assert result[0] == pytest.approx(x.sum(), abs=1e-4)
        elif kernel == "silu":
            assert np.allclose(result, x / (1 + np.exp(-x)), atol=1e-6)
        elif kernel == "softmax":
            assert np.allclose(result.sum(1), 1, atol=1e-6)
        elif kernel == "layer norm backward":
            assert np.allclose(result.mean(1), 0, atol=1e-6)


# --- what is recorded -----------------------------------------------------------------------------


def is_recorded():
    try:
        profile.recorded("sum", "duration")
    except FileNotFoundError:
        return False
    return True


@pytest.mark.skipif(not is_recorded(), reason="no profile of these kernels is recorded yet")
@pytest.mark.parametrize("kernel", ["softmax", "gelu", "silu"])
def test_recorded_sectors_are_those_of_the_trace_and_memory_is_what_binds(kernel):
    for op in ("load", "store"):
        name = f"global {op} sectors"
        assert profile.counter(kernel, name) == pytest.approx(predicted(kernel, name), rel=1e-3)
    read = predicted(kernel, "DRAM bytes read")
    assert profile.counter(kernel, "DRAM bytes read") == pytest.approx(read, rel=0.05)
    busy = {part: profile.counter(kernel, f"{part} throughput") for part in ("SM", "DRAM")}
    assert busy["DRAM"] > 75 and busy["DRAM"] > busy["SM"]
