"""Rooflines: known GPUs, bounds, what is refused, and the plot."""

import dataclasses
import math

import numpy as np
import pytest
from matplotlib.text import Text

from course import backend, bound, bound_of, cuda, known_gpu, trace
from course.measure.measured_roofs import (
    CHAINS,
    UNROLLED,
    l2_roof,
    measure_roofs,
    recorded_roofs,
    roof_kernels,
)
from course.measure.recorded import Figure
from course.measure.roofline import (
    PIPES,
    ImpossibleFigure,
    Roofs,
    _table,
    article,
    refuse_impossible,
    roofs_of,
    time_text,
    transfer_bound,
)
from course.measure.timing import Timing
from course.plots.roofline_chart import intensity, roofline, used_pipes
from warpsim.draw.style import Picture
from warpsim.host import gpus
from warpsim.host.device import NoTime

ROOFS = Roofs("fake", bandwidth=1000.0, rates={"float32": 10.0, "float64": 5.0}, l2_bytes=1 << 20)

# --- the table ------------------------------------------------------------------------------------


def test_every_gpu_of_the_table_has_figures_that_fit_together_and_a_source():
    for name, gpu in _table()[0].items():
        assert gpu.gpu == name and not gpu.measured
        assert len(gpu.source) > 20 and "NVIDIA" in gpu.source
        assert {"float32", "float64", "tensor_float16"} <= set(gpu.rates) <= set(PIPES)
        assert gpu.rates["float64"] < gpu.rates["float32"] <= gpu.rates["tensor_float16"]
        assert 100 < gpu.bandwidth < 10_000 and gpu.link < gpu.bandwidth / 5
        assert 2 << 20 <= gpu.l2_bytes <= 128 << 20


def test_printed_peaks_are_multiprocessors_times_lanes_times_a_clock():
    for gpu in _table()[0].values():
        lanes = 64 if gpu.gpu.startswith(("Tesla T4", "A100")) else 128
        clock = gpu.rates["float32"] * 1e12 / (2 * lanes * gpu.multiprocessors)
        assert 1.3e9 < clock < 2.8e9, gpu.gpu


def test_gpus_that_can_be_simulated_are_in_the_table_with_their_multiprocessors():
    for gpu in gpus.GPUS.values():
        assert known_gpu(gpu.name).multiprocessors == gpu.multiprocessors


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("NVIDIA H200", "H200"), ("Tesla T4", "Tesla T4"), ("t4", "Tesla T4"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB SXM"), ("NVIDIA A100-SXM4-80GB", "A100 80GB SXM"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"), ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"), ("NVIDIA GeForce RTX 4070", "RTX 4070"),
    ],
)  # fmt: skip
def test_gpus_are_found_by_the_names_that_drivers_give(called, name):
    assert known_gpu(called).gpu == name


@pytest.mark.parametrize("other", ["RTX 4070 Ti", "RTX 4080 SUPER", "RTX 4090 Laptop GPU", "T40"])
def test_a_gpu_with_a_similar_name_is_another_gpu(other):
    with pytest.raises(ValueError, match=r"no figures are known .* measure_roofs"):
        known_gpu(other)


def test_a_slip_of_the_pen_is_told():
    with pytest.raises(ValueError, match="Did you mean 'H200'"):
        known_gpu("H20O")


# --- bounds ---------------------------------------------------------------------------------------


def test_a_bound_is_the_longest_of_the_least_times():
    memory = bound(2e9, 1e9, ROOFS)
    assert memory.binding == "memory" and memory.milliseconds == pytest.approx(2.0)
    assert memory.times == pytest.approx({"memory": 2.0, "float32": 0.1})
    compute = bound(1e6, {"float32": 1e9, "float64": 1e10}, ROOFS)
    assert compute.binding == "float64" and compute.milliseconds == pytest.approx(2.0)
    assert "10,000,000,000 float64 operations at 5 TFLOP/s" in compute.sentence


def test_at_the_ridge_memory_and_pipe_take_equally_long():
    operations = 1e9 * ROOFS.ridge("float32")
    times = bound(1e9, operations, ROOFS).times
    assert times["memory"] == pytest.approx(times["float32"])
    assert bound(1e9, operations, ROOFS).intensity == pytest.approx(ROOFS.ridge("float32"))


def test_integer_and_special_operations_bind_nothing():
    assert bound(1e9, {"integer": 1e20, "special": 1e20}, ROOFS).binding == "memory"


def test_a_traced_kernel_has_the_bound_of_its_bytes_and_operations():
    @cuda.jit
    def scaled(out, values):
        i = cuda.grid(1)
        if i < values.size:
            out[i] = values[i] * np.float32(3)

    report = trace(scaled, 4, 256, np.zeros(1000, np.float32), np.zeros(1000, np.float32))
    found = bound_of(report, "H200")
    assert found.bytes == 8000 and found.operations["float32"] == 1000
    assert found.milliseconds == pytest.approx(8000 / 4800e9 * 1e3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((-1,), "from 0 up"),
        ((math.nan,), "from 0 up"),
        ((1, {"flops": 3}), "'flops'; the kinds are float32"),
        ((1, {"float32": -3}), "-3 of float32"),
        ((1, {"tensor_float32": 3}, "T4"), "a Tesla T4 has no roof for tensor_float32"),
        ((1, 1, "GTX 9"), "no figures are known"),
    ],
)
def test_bounds_of_nonsense_are_refused_with_words(arguments, words):
    with pytest.raises(ValueError, match=words):
        bound(*arguments)


def test_without_a_name_the_simulated_gpu_counts(monkeypatch):
    monkeypatch.setattr(backend, "gpu", lambda: None)
    monkeypatch.setattr(gpus, "_chosen", gpus.find("L4"))
    assert roofs_of().gpu == "L4"
    monkeypatch.setattr(backend, "gpu", lambda: "NVIDIA H200")
    assert roofs_of().gpu == "H200"


def test_a_transfer_is_bound_by_the_link():
    assert transfer_bound(15.75e9, "T4").milliseconds == pytest.approx(1000)
    with pytest.raises(ValueError, match="nothing is known of the link"):
        transfer_bound(1, ROOFS)


# --- refusing -------------------------------------------------------------------------------------


def test_a_figure_above_the_roof_of_its_memory_level_is_refused():
    refuse_impossible(1.0, 1.02e9, None, ROOFS)
    with pytest.raises(ImpossibleFigure, match=r"2,000 GB/s, above the 1,000 GB/s of device mem"):
        refuse_impossible(1.0, 2e9, None, ROOFS)


def test_data_that_may_lie_in_l2_is_held_against_l2():
    refuse_impossible(1.0, 2e9, None, ROOFS, in_l2=True)  # nobody measured it
    measured = dataclasses.replace(ROOFS, l2_bandwidth=3000.0)
    refuse_impossible(1.0, 2e9, None, measured, in_l2=True)
    with pytest.raises(ImpossibleFigure, match=r"above the 3,000 GB/s of L2"):
        refuse_impossible(1.0, 4e9, None, measured, in_l2=True)


def test_reading_may_be_faster_than_copying():
    refuse_impossible(1.0, 1.1e9, None, dataclasses.replace(ROOFS, read_bandwidth=1100.0))


def test_a_figure_above_the_roof_of_its_pipe_is_refused_by_the_right_pipe():
    refuse_impossible(1.0, None, {"float32": 1e10}, ROOFS)
    with pytest.raises(ImpossibleFigure, match=r"10 TFLOP/s, above the 5 of that pipe"):
        refuse_impossible(1.0, None, {"float64": 1e10}, ROOFS)


def test_a_card_may_clock_above_what_is_printed_but_not_above_what_it_reached():
    refuse_impossible(1.0, None, 1.1e10, ROOFS)
    with pytest.raises(ImpossibleFigure):
        refuse_impossible(1.0, None, 1.1e10, dataclasses.replace(ROOFS, measured=True))


@pytest.mark.parametrize("time", [0.0, -1.0, math.nan])
def test_no_time_at_all_is_refused(time):
    with pytest.raises(ImpossibleFigure, match="every launch takes some"):
        refuse_impossible(time, None, None, ROOFS)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(2500, "2.5 s"), (1.5, "1.5 ms"), (0.0123, "12.3 µs"), (4.2e-5, "42 ns"), (math.nan, "no")],
)
def test_times_have_the_unit_that_suits_them(milliseconds, text):
    assert time_text(milliseconds).startswith(text)


def test_articles():
    assert (article("Tesla T4"), article("H200")) == ("a Tesla T4", "an H200")


# --- measured roofs -------------------------------------------------------------------------------


@pytest.mark.skipif(backend.gpu() is not None, reason="there is a GPU to measure")
def test_without_a_gpu_no_roofs_are_measured_and_it_says_what_there_is():
    with pytest.raises(NoTime, match=r"known_gpu\('T4'\)"):
        measure_roofs()


def test_recorded_roofs_are_those_of_the_file_and_below_what_is_printed():
    found, printed = recorded_roofs("H200"), known_gpu("H200")
    assert found.measured and found.gpu == "NVIDIA H200"
    assert 0.8 < found.bandwidth / printed.bandwidth < 1
    assert found.l2_bandwidth is None or found.l2_bandwidth > found.bandwidth
    for pipe in ("float32", "float64"):
        assert 0.8 < found.rates[pipe] / printed.rates[pipe] < 1.03
    with pytest.raises(ValueError, match="no roofs"):
        recorded_roofs("T4")


def test_a_program_that_reads_l2_no_faster_than_memory_shows_no_roof_of_l2():
    def reading(rate):
        return Timing(1.0, 1.0, 1.0, 9, bytes=rate * 1e6)

    assert l2_roof(reading(6000), reading(4200), reading(4500)) == pytest.approx(6000)
    assert l2_roof(reading(4600), reading(4200), reading(4500)) is None


def test_the_multiply_add_kernel_does_the_operations_that_are_counted():
    multiply_add = roof_kernels()[3]
    seeds = np.linspace(0, 1, 256, dtype=np.float32)
    out = np.full(1, np.float32(7))

    def operations(steps):
        half, more = np.float32(0.5), np.float32(1.5)
        report = trace(multiply_add, 2, 64, out, seeds, steps, half, more)
        assert report.operations["float64"] == 0
        return report.operations["float32"]

    assert operations(5) - operations(4) == 2 * CHAINS * UNROLLED * 128
    assert out[0] == 7, "nothing is stored"


def test_the_kernel_that_reads_again_reads_everything_in_every_pass():
    _, read, read_again, _ = roof_kernels()
    values = np.ones(4 * 64 * 4)
    once = trace(read, 4, 64, np.zeros(1), values).total("global", "load").lanes
    again = trace(read_again, 4, 64, np.zeros(1), values, 5).total("global", "load").lanes
    assert once >= values.size
    assert again - 2 * 256 == 5 * values.size  # each thread first reads element 0 twice


# --- the plot -------------------------------------------------------------------------------------


def done(teraflops, operations=1e9, bytes=1e7, **facts):
    time = operations / teraflops * 1e-9
    return Timing(time, time, time, 9, bytes=bytes, operations={"float32": operations}, **facts)


def texts(picture):
    return [text.get_text() for axes in picture.axes for text in axes.texts]


def test_the_plot_has_roofs_ridges_points_and_the_ladders_line():
    kernels = {"first": done(1.0), "second": done(4.0), "peer": done(8.0)}
    picture = roofline(ROOFS, kernels, ladder=["first", "second"], pipes=("float32", "float64"))
    assert isinstance(picture, Picture)
    (axes,) = picture.axes
    assert {"first", "second", "peer"} <= set(texts(picture))
    assert any("float32 10 TFLOP/s, ridge 10" in text for text in texts(picture))
    lines = [tuple(map(tuple, line.get_xydata())) for line in axes.lines]
    assert ((100.0, 1.0), (100.0, 4.0)) in lines
    assert ((100.0, 8.0),) in lines
    assert axes.get_xlabel() and axes.get_ylabel() == "TFLOP/s"
    assert len(picture.png()) > 5000


def test_points_lie_at_operations_a_byte():
    assert intensity(done(3.0)) == pytest.approx(100)
    assert intensity(
        Figure("k", "v", "", "float32", "time", "ms", 1, 1, 1, 5, bytes=100, operations=700)
    ) == pytest.approx(7)


def test_kernels_without_operations_stand_apart_as_shares_of_the_bandwidth():
    copy = Timing(1.0, 1.0, 1.0, 9, bytes=5e8)
    picture = roofline(ROOFS, {"copy": copy, "work": done(2.0)})
    _, bars = picture.axes
    assert "500 (50%)" in texts(picture)
    assert "copy" in [label.get_text() for label in bars.get_yticklabels()]
    alone = roofline(ROOFS, {"copy": copy})
    assert len(alone.axes) == 1 and alone.get_figheight() < picture.get_figheight()


def test_a_bound_is_drawn_hollow():
    (axes,) = roofline(ROOFS, {"bound": done(2.0, source="bound")}).axes
    (point,) = [
        line for line in axes.lines if len(line.get_xdata()) == 1 and line.get_zorder() == 4
    ]
    assert point.get_markerfacecolor() == "white"


def test_pipes_are_those_that_the_kernels_use():
    half = Timing(1.0, 1.0, 1.0, 9, bytes=1e6, operations={"tensor_float16": 1e9, "float32": 0})
    assert used_pipes([half]) == {"tensor_float16"}
    assert used_pipes([done(1.0)]) == {"float32"}


def test_names_do_not_overlap():
    kernels = {f"kernel {n}": done(4.0 + n / 100) for n in range(6)}
    picture = roofline(ROOFS, kernels)
    (axes,) = picture.axes
    picture.canvas.draw()
    names = [text for text in axes.texts if text.get_text().startswith("kernel")]
    boxes = [Text.get_window_extent(name) for name in names]  # without the lines to the points
    assert len(boxes) == 6
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="'third' is none of first"):
        roofline(ROOFS, {"first": done(1.0)}, ladder=["third"])
    with pytest.raises(ValueError, match="'first' has no bytes"):
        roofline(ROOFS, {"first": Timing(1.0, 1.0, 1.0, 9)})


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(backend.gpu() is None, reason="needs a GPU")
def test_measured_roofs_are_below_printed_ones_and_not_far():
    found = measure_roofs()
    assert found.measured
    assert found.l2_bandwidth is None or found.l2_bandwidth > found.bandwidth
    try:
        printed = known_gpu(found.gpu)
    except ValueError:
        return
    assert 0.6 < found.bandwidth / printed.bandwidth < 1.03
    for pipe in ("float32", "float64"):
        assert 0.6 < found.rates[pipe] / printed.rates[pipe] < 1.15
