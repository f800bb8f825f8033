"""What lesson 14 says in words about recorded figures is true of the files that it shows."""

import numpy as np
import pytest

from course import bound, recorded_roofs, trace
from course.measure.occupancy import occupancy
from course.measure.recorded import recorded as find
from course_models.spectral import network
from course_models.spectral.data import spectra
from course_models.spectral.weights import Weights, multiplications

BATCHES = (32, 64, 128, 256, 512, 4096, 65536)
FEW = BATCHES[:5]
MODES = ("torch.compile default", "torch.compile max-autotune-no-cudagraphs")
H200 = 132, 227 * 1024, (9, 0)  # multiprocessors, bytes of shared memory, capability


def recorded(subject, kernel, variant, shape, metric="time"):
    """A recorded median [µs]; exactly one figure fits, or the lesson's look-up is ambiguous."""
    wanted = {"kernel": kernel, "variant": variant, "shape": str(shape), "metric": metric}
    (found,) = find(subject, gpu="H200", **wanted)
    return 1e3 * found.median


def in_graph(name, batch):
    return recorded("spectral", "spectral", f"{name}, graph", batch)


def best_compiled(batch):
    return min(in_graph(mode, batch) for mode in MODES)


def launch(name, batch=32):
    return recorded("spectral", "spectral", name, batch, "launch")


def empty(name, metric="host in a row"):
    return recorded("spectral", "empty", name, "", metric)


# --- launches -------------------------------------------------------------------------------------


def test_ten_arrays_less_save_41_microseconds_of_the_host_and_nothing_of_the_gpu():
    assert empty("14 arrays") - empty("4 arrays") == pytest.approx(41, abs=0.5)
    assert 0.5 < empty("4 arrays, configured anew") - empty("4 arrays") < 1.5
    for name in ("14 arrays", "4 arrays", "4 arrays, configured anew"):
        assert empty(name, "queued") == pytest.approx(1.3, abs=0.05)
        assert empty(name) < empty(name, "events") < 1.3 * empty(name)


def test_plain_launches_bind_both_programs_at_32():
    ten = launch("layers") / recorded("spectral", "spectral", "layers", 32)
    assert 9.5 < ten < 11
    assert launch("fused") == pytest.approx(30, abs=0.5)
    assert recorded("spectral", "spectral", "fused", 32) == pytest.approx(5, abs=0.5)
    assert launch("torch.compile default") > launch("torch")
    for name in ("torch", "torch.compile default", "layers", "fused"):
        times = [launch(name, batch) for batch in BATCHES]
        assert max(times) < 1.85 * min(times)
    times = [launch("torch", batch) for batch in BATCHES]
    assert round(max(times) / min(times), 1) == 1.8


# --- shapes ---------------------------------------------------------------------------------------


def of_shape(shape, batch, metric="time"):
    name = f"{shape.samples}x{shape.columns}, {shape.groups} groups"
    return recorded("spectral", "spectral shape", name, batch, metric)


@pytest.mark.parametrize("batch", [32, 512, 4096, 65536])
def test_the_shape_that_is_chosen_was_the_fastest(batch):
    times = {shape: of_shape(shape, batch) for shape in network.CONFIGS}
    assert min(times, key=times.get) == network.config_for(batch, *H200)
    if batch in (32, 65536):
        assert max(times.values()) > 5 * min(times.values())


def test_the_last_three_shapes_differ_in_their_groups_and_in_the_registers_that_these_leave():
    shapes = network.CONFIGS[-3:]
    assert [shape.groups for shape in shapes] == [1, 2, 4]
    assert {(shape.samples, shape.columns) for shape in shapes} == {(4, 8)}
    facts = [
        tuple(of_shape(shape, 65536, what) / 1e3 for what in ("registers", "local memory"))
        for shape in shapes
    ]
    assert facts == [(127, 0), (127, 0), (96, 16)]
    for shape, fit in zip(shapes, (200, 168, 96), strict=True):
        assert occupancy("H200", shape.threads, fit, shape.shared_bytes).blocks >= 1
        if shape.groups > 1:
            assert occupancy("H200", shape.threads, fit + 1, shape.shared_bytes).blocks == 0
    most = occupancy("H200", shapes[-1].threads, 96, shapes[-1].shared_bytes)
    assert most.blocks == 1 and set(most.limited_by) == {"registers", "shared memory"}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("shape", network.CONFIGS[-3:], ids=str)
def test_a_spectrum_needs_428_wavefronts_of_loads_with_any_groups(shape):
    batch = shape.tile * shape.groups
    x, packed = spectra(batch, seed=3), Weights.trained().packed()
    kernel, y, errors = network.kernel_of(shape), np.empty_like(x), np.empty(batch, np.float32)
    report = trace(
        kernel, 1, shape.threads, x, packed, y, errors,
        dynamic_shared=shape.dynamic_shared, gpu="H200",
    )  # fmt: skip
    assert round(report.total("shared", "load").wavefronts / batch) == 428


def test_more_groups_save_time_only_where_all_multiprocessors_have_work():
    one, two, four = shapes = network.CONFIGS[-3:]
    blocks = {batch: [shape.blocks(batch, 132) for shape in shapes] for batch in (4096, 65536)}
    assert blocks == {4096: [128, 128, 64], 65536: [128, 128, 128]}
    rounds = {65536: (32, 16, 8), 4096: (2, 1, 1)}
    a_round = {
        batch: [of_shape(shape, batch) / each for shape, each in zip(shapes, times, strict=True)]
        for batch, times in rounds.items()
    }
    for batch, times in rounds.items():
        for shape, each, some in zip(shapes, times, blocks[batch], strict=True):
            assert each * some * shape.tile * shape.groups == batch
    assert round(a_round[65536][2] / a_round[65536][0], 1) == 2.4
    for many, few in zip(a_round[65536], a_round[4096], strict=True):
        assert 1 < few / many < 1.15  # about as long
    assert of_shape(four, 65536) < of_shape(two, 65536) < of_shape(one, 65536)
    assert round(of_shape(four, 4096)) == 36 and round(of_shape(two, 4096)) == 22


# --- one kernel against PyTorch -------------------------------------------------------------------


def test_how_many_times_faster_the_fused_kernel_is():
    few = [best_compiled(batch) / in_graph("fused", batch) for batch in FEW]
    assert round(few[0], 1) == 7.4  # for 32, where the peer is slower than for 64
    assert best_compiled(32) == pytest.approx(39, abs=0.5)
    assert best_compiled(64) == pytest.approx(30, abs=0.5)
    assert round(min(few[1:]), 1) == 4.7 and round(max(few[1:]), 1) == 5.4
    assert round(best_compiled(65536) / in_graph("fused", 65536), 2) == 1.67
    assert in_graph("torch", 128) < in_graph("torch", 32)


def test_few_spectra_wait_for_starts():
    assert in_graph("layers", 32) == pytest.approx(31, abs=0.5)
    least = bound(0, 2 * multiplications(32), gpu=recorded_roofs("H200"))
    assert max(least.times.values()) == pytest.approx(0.07e-3, abs=0.005e-3)


def test_many_spectra_wait_for_arithmetic_and_kernels_apart_for_both():
    roofs, operations = recorded_roofs("H200"), 2 * multiplications(65536)
    times = [bound(4 * 65536 * n, operations, gpu=roofs).times for n in (641, 4097)]
    fused, ten = ({what: 1e3 * ms for what, ms in each.items()} for each in times)
    assert round(fused["float32"]) == 137 and round(fused["memory"]) == 40
    assert round(fused["float32"] / fused["memory"], 1) == 3.4
    assert round(ten["memory"]) == 255
    assert round(best_compiled(65536)) == 454
    assert round(in_graph("folded", 65536)) == 222
    assert 1.9 < in_graph("fused", 65536) / fused["float32"] < 2.1
    assert round(in_graph("layers", 65536) / in_graph("fused", 65536)) == 5


def test_each_of_ten_kernels_takes_at_least_its_bytes_or_its_operations_whichever_is_longer():
    numbers = {  # of a spectrum, read and written; products
        "norm": (640, 0), "encode": (640, 5 * 64 * 64), "gelu": (640, 0), "basis": (352, 32 * 320),
        "norm of code": (64, 0), "middle": (64, 32 * 32), "gelu of code": (64, 0),
        "back": (352, 32 * 320), "decode": (640, 5 * 64 * 64), "error": (641, 0),
    }  # fmt: skip
    assert sum(moved for moved, _ in numbers.values()) == 4097
    assert sum(products for _, products in numbers.values()) == multiplications(1)
    roofs = recorded_roofs("H200")
    bounds = [
        bound(4 * 65536 * moved, 2 * 65536 * products, gpu=roofs)
        for moved, products in numbers.values()
    ]
    least = 1e3 * sum(each.milliseconds for each in bounds)
    assert round(least) == 266
    fused = 1e3 * bound(4 * 65536 * 641, 2 * multiplications(65536), gpu=roofs).milliseconds
    assert round(least / fused, 1) == 1.9
    assert round(least / best_compiled(65536), 2) == 0.59
    assert round(fused / in_graph("fused", 65536), 2) == 0.51
    for moved, products in (numbers["encode"], numbers["basis"]):  # the large Linears
        times = bound(4 * moved, 2 * products, gpu=roofs).times
        assert 1 < times["float32"] / times["memory"] < 1.15


@pytest.mark.parametrize("batch", BATCHES)
def test_all_programs_are_right_to_a_few_roundings(batch):
    for name in ("fused", "folded", "layers", "torch", *MODES):
        assert 1e-7 < recorded("spectral", "spectral", name, batch, "error") / 1e3 < 2.5e-7
