"""What lesson 13 says in words of recorded figures and of numbers is true of them."""

from dataclasses import replace

import numpy as np
import pytest

from course import recorded_roofs
from course.kernels import norm
from course.measure.recorded import recorded
from course.plots import original
from course_lessons.lesson13 import pictures, profile
from course_lessons.lesson13.digits import network as cnn
from course_models import digits
from tests.course_lessons.lesson10.test_claims import of

BIG, SMALL = str(2**26), str(2**20)
IMAGES = (16, 32, 64, 128)
ACTIVATIONS = ("relu", "gelu", "silu")


def of_swish(variant, shape=BIG, metric="time"):
    return of("activation", "silu", variant, shape, metric)


def of_norm(shape, kernel="layer norm"):
    found = recorded("norm", kernel=kernel, shape=shape, dtype="float32", gpu="H200")
    return {figure.variant: figure.median for figure in found}


# --- activations ----------------------------------------------------------------------------------


def test_one_kernel_is_nearly_two_and_a_half_times_as_fast_as_two():
    ratio = of_swish("torch, two kernels") / of_swish("torch")
    assert 2.2 < ratio < 2.55
    assert of_swish("two kernels") / of_swish("each") > 2


def test_all_stand_at_the_roof_of_memory():
    copy = 8 * 2**26 / recorded_roofs("H200").bandwidth * 1e-6
    for program in ("wide", "CUDA C++", "torch", "torch.compile", "Triton"):
        assert of_swish(program) < 1.06 * copy


def test_at_a_million_elements_a_launch_costs_more_than_the_kernel():
    assert of_swish("wide", SMALL, "launch") > 2 * of_swish("wide", SMALL)
    assert of_swish("wide", SMALL, "launch") > of_swish("CUDA C++", SMALL, "launch")
    assert of_swish("wide", SMALL, "first call") > 1e4 * of_swish("wide", SMALL)


def test_gelu_with_tanh_is_off_by_thousands_of_roundings_and_below_one_of_float16():
    x = np.linspace(-6, 6, 12_001)
    off = np.abs(pictures.gelu_by_tanh(x) - x * pictures.normal_below(x))
    assert abs(x[off.argmax()]) == pytest.approx(2.7, abs=0.05)
    assert off.max() < np.spacing(np.float16(2.7)) / 2
    assert off.max() > 2000 * np.spacing(np.float32(2.7)) / 2
    value = 4 * pictures.normal_below(np.array([-4.0]))[0]
    assert 0.4 < off[np.abs(x + 4).argmin()] / value < 0.6
    farther = 5 * pictures.normal_below(np.array([-5.0]))[0]
    assert off[np.abs(x + 5).argmin()] / farther > 0.8


# --- what was published ---------------------------------------------------------------------------


def test_the_published_swish_is_no_faster_than_the_published_gelu_of_the_same_bytes():
    published = original()
    swish = published["silu", SMALL, "torch, two kernels"] / published["silu", SMALL, "CUDA C++"]
    assert swish == pytest.approx(1.87, abs=0.01)
    assert published["silu", SMALL, "CUDA C++"] > published["gelu", SMALL, "torch"]


def test_the_published_fused_kernels_stay_below_the_ratio_of_bytes():
    shape, fused = "4096x1024", "layer norm + gelu"
    its = {name: original()[fused, shape, name] for name in ("torch", "CUDA C++", "Triton")}
    alone = {name: original()["layer norm", shape, name] for name in its}
    for name in ("CUDA C++", "Triton"):
        assert 1.3 < its["torch"] / its[name] < 1.6
        assert alone[name] > alone["torch"]


# --- LayerNorm ------------------------------------------------------------------------------------


def test_the_fastest_step_for_long_rows_keeps_them_in_registers():
    steps = {name: time for name, time in of_norm("16384x4096").items() if name in norm.LADDER}
    assert min(steps, key=steps.get) == "registers"
    assert max(steps, key=steps.get) == "naive"


def test_one_reading_less_gains_hardly_anything_and_the_division_is_why():
    long, short = of_norm("16384x4096"), of_norm("65536x768")
    assert long["tree"] / long["one pass"] < 1.15
    for found in (long, short):
        assert found["squares"] < found["one pass"]
    assert long["warp"] > long["block"]
    assert short["warp"] < short["block"]


def test_fusing_gives_two_and_more_only_against_slow_kernels():
    alone, fused = of_norm("16384x4096"), of_norm("16384x4096", "layer norm + gelu")
    ours = fused["registers"]
    assert fused["block"] / ours > 3
    assert fused["torch"] / ours > 2
    best_two = alone["registers"] + of("activation", "gelu", "wide", BIG)
    assert best_two / ours == pytest.approx(2, rel=0.1)


def test_fused_kernels_of_others_take_longer_than_their_layer_norm():
    alone, fused = of_norm("16384x4096"), of_norm("16384x4096", "layer norm + gelu")
    slower = {name: fused[name] / alone[name] for name in ("torch.compile", "Triton", "CUDA C++")}
    assert max(slower.values()) > 1.1
    assert fused["registers"] / alone["registers"] < 1.05


def test_compiled_pytorch_and_the_row_in_registers_are_level():
    for shape in ("16384x4096", "65536x768"):
        found = of_norm(shape)
        assert found["registers"] / found["torch.compile"] == pytest.approx(1, abs=0.01)


def test_several_rows_are_for_short_rows():
    assert "several rows" not in of_norm("16384x4096")
    assert "several rows" in of_norm("65536x768")


# --- the length of a row --------------------------------------------------------------------------


def of_lengths(program="auto"):
    """Recorded rates of LayerNorm with GELU [GB/s], by the length of the rows."""
    found = recorded(
        "norm_lengths", kernel="layer norm + gelu", variant=program, dtype="float32", gpu="H200"
    )
    return {int(figure.shape.split("x")[1]): figure.gigabytes_per_second for figure in found}


def chosen():
    """The step that is chosen on an H200, by the length of the rows."""
    room = 227 * 1024, True
    rows = (norm.NormProblem(2**26 // n, n, aligned=n % 4 == 0, limits=room) for n in of_lengths())
    return {each.columns: norm.LADDER.best(each) for each in rows}


def test_rows_in_registers_are_nearest_to_the_roof_and_longer_ones_not_far_from_it():
    copy, rates, steps = recorded_roofs("H200").bandwidth, of_lengths(), chosen()

    def between(lengths):
        shares = [rates[length] / copy for length in lengths]
        return round(min(shares), 2), round(max(shares), 2)

    both = [n for n, step in steps.items() if step == "registers and shared memory"]
    assert between([n for n in rates if n not in both])[0] == 0.88
    assert between([n for n in both if n % 4 == 0]) == (0.79, 0.89)
    assert between([n for n in both if n % 4]) == (0.79, 0.85)
    assert min((n for n in both if n % 4 == 0), key=rates.get) == 50_000
    assert 2**26 // 50_000 == 1342 == 10 * 132 + 22


def test_odd_rows_lose_a_twelfth_in_registers_and_compiled_ones_more_than_half():
    copy, rates = recorded_roofs("H200").bandwidth, of_lengths()
    theirs = of_lengths("torch.compile")
    assert rates[4099] / rates[4096] == pytest.approx(0.92, abs=0.01)
    for length in (12_001, 20_001, 40_001, 65_535):
        assert theirs[length] / copy < 0.5


def test_compiled_pytorch_is_faster_at_no_length():
    ours, theirs = of_lengths(), of_lengths("torch.compile")
    assert not [n for n in ours if theirs[n] > ours[n]]


def test_which_lengths_lie_in_registers_and_shared_memory_of_an_h200():
    steps = chosen()
    both = sorted(n for n, step in steps.items() if step == "registers and shared memory")
    assert both == [
        12_001, 20_000, 20_001, 24_576, 32_768, 40_000, 40_001, 50_000, 65_535, 65_536,
    ]  # fmt: skip
    assert "long" not in steps.values()


# --- the counters ---------------------------------------------------------------------------------

AT_THE_ROOF = ("sum", "softmax", "gelu", "silu", "layer norm", "layer norm + gelu")


@pytest.mark.parametrize("kernel", AT_THE_ROOF)
def test_memory_moves_nearly_what_it_moves_in_a_copy_and_each_number_came_once(kernel):
    of_a_copy = 100 * recorded_roofs("H200").bandwidth / 4800
    assert profile.counter(kernel, "DRAM throughput") > 0.93 * of_a_copy
    assert profile.counter(kernel, "SM throughput") < 75
    assert profile.counter(kernel, "DRAM bytes read") == pytest.approx(4 * 2**26, rel=0.005)
    if kernel != "sum":
        written = profile.counter(kernel, "DRAM bytes written") / (4 * 2**26)
        assert written == pytest.approx(0.9, abs=0.04)
    assert profile.main_stall(kernel)[0] == "long_scoreboard"


def test_gelu_inside_keeps_the_multiprocessors_busier_and_the_memory_as_busy():
    alone, fused = "layer norm", "layer norm + gelu"
    assert profile.counter(fused, "SM throughput") > 1.2 * profile.counter(alone, "SM throughput")
    assert profile.counter(fused, "DRAM throughput") == pytest.approx(
        profile.counter(alone, "DRAM throughput"), rel=0.04
    )
    times = of_norm("16384x4096"), of_norm("16384x4096", "layer norm + gelu")
    assert times[1]["registers"] / times[0]["registers"] < 1.02


def test_fewer_warps_are_enough_for_elements_and_too_few_for_the_way_back():
    def occupancy(kernel):
        return profile.counter(kernel, "achieved occupancy")

    for kernel in ("gelu", "silu"):
        assert occupancy(kernel) < occupancy("layer norm") - 5
    backward = "layer norm backward"
    assert occupancy(backward) < 30
    assert profile.counter(backward, "DRAM throughput") < 70
    its = {name: of("norm", backward, name, "16384x4096") for name in ("registers", "torch")}
    roof = 12 * 2**26 / recorded_roofs("H200").bandwidth * 1e-6
    assert its["registers"] < its["torch"]
    assert its["registers"] > 1.3 * roof


# --- numbers --------------------------------------------------------------------------------------


def test_a_float32_near_a_million_is_good_to_a_sixteenth():
    assert np.spacing(np.float32(1e6)) == 0.0625


def test_compiling_is_below_1_percent_after_712701_calls_by_the_hosts_clock():
    about = {"kernel": "silu", "variant": "wide", "shape": str(2**20), "dtype": "float32"}
    figures = recorded("activation", gpu="H200", metric=None, **about)
    each = {figure.metric: figure.median for figure in figures}
    assert each["launch"] > each["time"]  # so the host is what a program waits for
    assert int(np.ceil(99 * each["first call"] / each["launch"])) == 712_701


# --- digits ---------------------------------------------------------------------------------------


def wait(program, batch, activation="relu"):
    return 1e3 * of("cnn", f"digits {activation}", program, str(batch), "latency")


def gpu_time(program, batch, activation="relu"):
    return 1e3 * of("cnn", f"digits {activation}", program, str(batch))


def test_a_faster_activation_gains_nothing_and_costs_the_caller():
    for batch in IMAGES:
        times = [gpu_time(f"torch{more}", batch) for more in
                 ("", ", Numba activation", ", Triton activation")]  # fmt: skip
        assert max(times) < 1.015 * min(times)
        graphs = [wait(f"torch{more}, graph", batch) for more in ("", ", Numba activation")]
        assert max(graphs) < 1.03 * min(graphs)
    longer = wait("torch, Numba activation", 128) - wait("torch", 128)
    assert longer / 3 == pytest.approx(200, rel=0.12)  # three activations
    assert 4 < wait("torch, Numba activation", 128) / wait("torch", 128) < 5


@pytest.mark.parametrize(
    ("program", "least", "most"), [("whole", 2.3, 4.6), ("fused", 1.6, 2.9), ("naive", 0.7, 1.2)]
)
def test_how_many_times_faster_than_pytorch_each_program_is_in_a_graph(program, least, most):
    ratios = [
        wait("torch, graph", batch, name) / wait(f"{program}, graph", batch, name)
        for name in ACTIVATIONS
        for batch in IMAGES
    ]
    assert round(min(ratios), 1) == least and round(max(ratios), 1) == most


def test_small_work_does_not_fill_the_gpu():
    for name in ACTIVATIONS:
        used = [
            100 * of("cnn", f"digits {name}", "whole", str(batch), "efficiency") for batch in IMAGES
        ]
        assert used[-1] < 6
        for before, after in zip(used, used[1:], strict=False):
            assert 1.8 < after / before < 2.05
        assert gpu_time("whole", 128, name) < 1.1 * gpu_time("whole", 16, name)


def test_dashed_lines_are_steady_but_for_pytorch_after_16_images():
    for name in ACTIVATIONS:
        for program in ("whole", "fused", "naive"):
            waits = [wait(f"{program}, graph", batch, name) for batch in IMAGES]
            assert max(waits) < 1.25 * min(waits)
        waits = [wait("torch, graph", batch, name) for batch in IMAGES]
        assert waits[1] > 1.4 * waits[0] and max(waits[1:]) < 1.1 * min(waits[1:])


def test_five_of_six_exchanged_activations_lose_and_one_loses_nothing():
    images, labels = digits.held_out()
    lost = []
    for name in ACTIVATIONS:
        weights = cnn.Weights.trained(name)
        right = {
            other: cnn.accuracy(cnn.reference(images, replace(weights, activation=other)), labels)
            for other in ACTIVATIONS
        }
        assert right[name] > 0.98
        others = [other for other in ACTIVATIONS if other != name]
        lost += [(100 * (right[name] - right[other]), name, other) for other in others]
    (least, *exchanged), *more = sorted(lost)
    assert exchanged == ["silu", "gelu"] and -0.5 < least <= 0
    assert round(more[0][0]) == 2 and round(more[-1][0]) == 4
