"""benchmark and transfers: what is inside a time, and what is never called one."""

import itertools
import math

import numpy as np
import pytest

from course import KernelError, backend, cuda
from course.kernels.transpose import transpose_padded
from course.measure import event_clock, timing
from course.measure.event_clock import EventClock
from course.measure.roofline import ImpossibleFigure, Roofs
from course.measure.timing import Timing, benchmark, median_interval, timing_of
from course.measure.transfers import transfers
from tests.course_recording.fake_gpu import FakeArray, FakeGPU
from warpsim.host.device import NoTime

needs_no_gpu = pytest.mark.skipif(backend.gpu() is not None, reason="with a GPU, times are times")
needs_gpu = pytest.mark.skipif(backend.gpu() is None, reason="needs a GPU")

ROOFS = Roofs("fake", bandwidth=1000.0, rates={"float32": 10.0}, l2_bytes=1 << 20)


@pytest.fixture
def gpu():
    return FakeGPU()


def clock_of(gpu):
    return EventClock(gpu, busy=gpu.busy, empty_l2=gpu.empty_l2, now=gpu.now)


def measured(gpu, call, *args, **options):
    given = {"bytes": None, "operations": None, "roofs": ROOFS, "warm": False, "samples": 10,
             "seconds": 1.0, "name": "fake"}  # fmt: skip
    return timing.measure(clock_of(gpu), call, args, **(given | options))


# --- on a GPU: what is inside the time ------------------------------------------------------------


def test_launch_cost_of_a_short_kernel_is_not_in_its_time_but_beside_it(gpu):
    kernel = gpu.kernel(cold=2e-6, warm=2e-6, cost=12e-6)
    found = measured(gpu, kernel, np.zeros(1000, np.float32))
    assert found.median == pytest.approx(2e-3, rel=1e-3)
    assert found.launch == pytest.approx(12e-3, rel=0.01)
    assert found.hidden
    assert "costs the host 12" in str(found) and "not counted" in str(found)


def test_without_a_queue_the_same_kernel_would_seem_to_take_its_launch(gpu):
    kernel = gpu.kernel(cold=2e-6, warm=2e-6, cost=12e-6)
    one = clock_of(gpu).between_events(lambda: kernel(np.zeros(1)))
    assert one == pytest.approx(14e-3, rel=0.01)


def test_a_head_start_that_was_too_short_is_tried_again(gpu):
    kernel = gpu.kernel(cold=2e-6, warm=2e-6, cost=20e-6)
    # told that launching is nearly free, the clock must find out that it is not
    calls = itertools.repeat(lambda: kernel(np.zeros(1)))
    samples, hidden = clock_of(gpu).samples(calls, 8, 1e-3, together=40)
    assert hidden
    assert samples == pytest.approx([2e-3] * 8, rel=1e-3)


def test_a_call_that_waits_for_its_result_is_said_to_hold_its_launch(gpu):
    def call():
        gpu.launch(5e-6, cost=10e-6)
        gpu.synchronize()

    found = measured(gpu, call)
    assert not found.hidden
    assert "could not be hidden" in str(found)


def test_first_call_is_apart_and_says_that_it_compiled(gpu):
    kernel = gpu.kernel(cold=1e-3, warm=1e-3, compile=0.8)
    found = measured(gpu, kernel, np.zeros(1000, np.float32))
    assert found.first_call == pytest.approx(801, rel=0.01)
    assert found.compiled and "compiling" in str(found)
    assert found.median == pytest.approx(1.0, rel=1e-3)
    again = measured(gpu, kernel, np.zeros(1000, np.float32))
    assert not again.compiled and again.first_call < 2


@pytest.mark.parametrize("size", [1000, 40_000, 150_000, 600_000])
def test_every_timed_launch_finds_a_cold_cache_whatever_the_size(gpu, size):
    kernel = gpu.kernel(cold=5e-6, warm=1e-6)
    found = measured(gpu, kernel, np.zeros(size, np.float32))
    assert found.cold
    assert found.samples == pytest.approx([5e-3] * found.n, rel=1e-3)


def test_warm_launches_find_their_data_in_the_cache_and_say_so(gpu):
    kernel = gpu.kernel(cold=5e-6, warm=1e-6)
    found = measured(gpu, kernel, np.zeros(1000, np.float32), warm=True)
    assert found.median == pytest.approx(1e-3, rel=1e-3)
    assert not found.cold and "where the last call left it" in str(found)
    assert gpu.emptied == 0


def test_a_function_without_arguments_is_timed_one_by_one_with_an_emptied_cache(gpu):
    array = gpu.to_device(np.zeros(1000, np.float32))
    kernel = gpu.kernel(cold=5e-6, warm=1e-6)
    found = measured(gpu, lambda: kernel(array))
    assert found.median == pytest.approx(5e-3, rel=1e-3)
    assert gpu.emptied >= found.n


def test_host_arrays_of_a_kernel_stay_as_they_are_and_go_to_the_device_once(gpu):
    values = np.arange(1000, dtype=np.float32)
    kernel = gpu.kernel(cold=5e-6, warm=5e-6)
    measured(gpu, kernel, values)
    sent = [args[0] for args in gpu.launches]
    assert all(isinstance(array, FakeArray) for array in sent)
    assert all(np.array_equal(array.values, values) for array in sent)
    assert len({array.address for array in sent}) < len(sent)


def test_a_figure_above_a_roof_is_refused_with_words(gpu):
    kernel = gpu.kernel(cold=1e-6, warm=1e-6)
    with pytest.raises(ImpossibleFigure, match=r"above the 1,000 GB/s of device memory"):
        measured(gpu, kernel, np.zeros(600_000, np.float32), bytes=2_400_000)
    with pytest.raises(ImpossibleFigure, match=r"10,000,000,000 float32 operations"):
        measured(gpu, kernel, np.zeros(10, np.float32), operations=1e10)


def test_a_figure_below_its_roof_says_how_near_it_is(gpu):
    kernel = gpu.kernel(cold=4e-6, warm=4e-6)
    found = measured(gpu, kernel, np.zeros(600_000, np.float32), bytes=2_400_000)
    assert found.gigabytes_per_second == pytest.approx(600, rel=0.01)
    assert "60% of what the roofs allow" in str(found)


def test_few_samples_where_they_take_long(gpu):
    kernel = gpu.kernel(cold=0.5, warm=0.5)
    found = measured(gpu, kernel, np.zeros(10, np.float32), samples=100, seconds=1.0)
    assert found.n == 5


@pytest.mark.parametrize(
    ("count", "first", "last"), [(6, 1, 6), (10, 2, 9), (20, 6, 15), (30, 10, 21), (100, 40, 61)]
)
def test_the_interval_of_a_median_lies_between_two_sorted_samples(count, first, last):
    samples = np.random.default_rng(count).permutation(np.arange(1.0, count + 1))
    assert median_interval(list(samples)) == (first, last)  # the usual table for 95%
    found = timing_of(list(samples))
    assert found.interval == (first, last)
    assert f"median between {first} ms and {last} ms, at 95%" in str(found)


def test_few_samples_do_not_tell_where_the_median_lies():
    assert np.isnan(median_interval([1.0, 2.0, 3.0, 4.0, 5.0])).all()
    assert "median between" not in str(timing_of([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0], confidence=0.9) == (1.0, 5.0)


def test_95_of_100_intervals_hold_the_true_median():
    draws = np.random.default_rng(0).exponential(size=(2000, 30))
    ends = np.array([median_interval(list(samples)) for samples in draws])
    held = np.mean((ends[:, 0] <= np.log(2)) & (np.log(2) <= ends[:, 1]))
    assert 0.945 < held < 0.975  # 95.7% for 30 samples


def test_median_and_quartiles_are_those_of_the_samples():
    found = timing_of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (found.q1, found.median, found.q3, found.n) == (2, 3, 4, 5)


# --- copies ---------------------------------------------------------------------------------------


def sets(gpu, *arrays, **options):
    given = {"cold": True, "l2": gpu.l2, "free": gpu.free, "most": 256, "host_arrays": True}
    return event_clock.sets_of_arguments(arrays, gpu, **(given | options))


def test_copies_are_together_twice_the_cache_and_share_nothing(gpu):
    found = sets(gpu, np.zeros(50_000, np.float32), np.zeros(50_000, np.float32), 7)
    assert sum(a.nbytes + b.nbytes for a, b, _ in found) >= 2 * gpu.l2
    addresses = [array.address for a, b, _ in found for array in (a, b)]
    assert len(set(addresses)) == len(addresses)
    assert all(number == 7 for *_, number in found)


def test_an_array_passed_twice_stays_one_array_in_each_set(gpu):
    values = gpu.to_device(np.zeros(50_000, np.float32))
    assert all(a is b for a, b in sets(gpu, values, values))


def test_a_copy_of_a_slice_keeps_strides_alignment_and_values(gpu):
    rng = np.random.default_rng(1)
    wide = rng.random((40, 60), dtype=np.float32)
    for part in (wide[:, :13], wide[3:, 5:], wide[::-1, ::2], wide.T, wide[:1, :1]):
        given = FakeArray(part)
        twin = event_clock.copy_of(given, gpu)
        assert np.array_equal(twin.values, part)
        assert not np.shares_memory(twin.values, part)
        strides = [s for s, n in zip(twin.values.strides, part.shape, strict=True) if n > 1]
        assert strides == [s for s, n in zip(part.strides, part.shape, strict=True) if n > 1]
        assert (twin.address - given.address) % event_clock.ALIGNMENT == 0


def test_copies_leave_a_part_of_the_memory(gpu):
    big = gpu.to_device(np.zeros(1 << 20, np.uint8))
    assert len(sets(gpu, big, l2=1 << 30, free=3 << 20)) == 3
    assert len(sets(gpu, big, l2=1 << 30, free=1000)) == 1


# --- without a GPU --------------------------------------------------------------------------------


@cuda.jit
def double(out, values):
    i = cuda.grid(1)
    if i < values.size:
        out[i] = values[i] + values[i]


@cuda.jit
def double_unguarded(out, values):
    i = cuda.grid(1)
    out[i] = values[i] + values[i]


@needs_no_gpu
def test_without_a_gpu_a_kernel_has_a_bound_of_a_named_gpu_and_no_time():
    out, values = np.zeros(1000, np.float32), np.ones(1000, np.float32)
    found = benchmark(double[4, 256], out, values, gpu="H200")
    assert found.source == "bound"
    assert found.n == 0 and math.isnan(found.first_call) and math.isnan(found.launch)
    assert found.median == pytest.approx(8000 / 4800e9 * 1e3)
    assert found.bytes == 8000 and found.operations["float32"] == 1000
    assert "no GPU here, so no time" in str(found) and "an H200" in str(found)
    assert not out.any(), "the reader's array was written"


@needs_no_gpu
def test_without_a_gpu_device_arrays_stay_as_they_are():
    out, values = cuda.to_device(np.zeros(64, np.float32)), cuda.to_device(np.ones(64, np.float32))
    assert benchmark(double[1, 64], out, values).bytes == 512
    assert not out.copy_to_host().any()


@needs_no_gpu
def test_given_bytes_and_operations_replace_the_trace():
    found = benchmark(double[1 << 20, 256], None, None, bytes=8 << 28, operations=1 << 28, gpu="T4")
    assert found.median == pytest.approx((8 << 28) / 320e9 * 1e3)
    assert found.bound.binding == "memory"


@needs_no_gpu
def test_what_is_recorded_of_a_kernel_stands_beside_its_bound():
    image = np.zeros((32, 32), np.float32)
    found = benchmark(transpose_padded[(1, 1), (32, 8)], image.copy(), image)
    assert found.source == "bound"
    assert found.recorded.variant == "transpose_padded"
    assert "recorded on an NVIDIA H200" in str(found)
    other = benchmark(double[1, 64], np.zeros(9, np.float32), np.zeros(9, np.float32))
    assert other.recorded is None


@needs_no_gpu
def test_a_broken_kernel_has_no_bound():
    with pytest.raises(KernelError, match="out-of-bounds"):
        benchmark(double_unguarded[1, 64], np.zeros(9, np.float32), np.zeros(9, np.float32))


@needs_no_gpu
@pytest.mark.parametrize("inside", [False, True])
def test_seconds_of_the_simulator_are_never_a_time(inside):
    out, values = np.zeros(64, np.float32), np.ones(64, np.float32)
    call = (lambda *args: double[1, 64](*args)) if inside else double[1, 64]
    with pytest.raises(NoTime, match="seconds say nothing about a GPU"):
        benchmark(call, out, values, host=True)
    double[1, 64](out, values)  # and afterwards kernels run again
    assert out.sum() == 128


@needs_no_gpu
def test_a_function_without_a_gpu_needs_its_work_or_the_host():
    with pytest.raises(ValueError, match=r"bytes= and operations= .* host=True"):
        benchmark(np.sort, np.zeros(5))
    assert benchmark(np.sort, np.zeros(5), bytes=40).source == "bound"


# --- on the host ----------------------------------------------------------------------------------


def test_a_cpu_function_is_timed_by_the_host_with_its_first_call_apart(monkeypatch):
    ticks = iter(np.cumsum([0.0, 0, 9.0] + [0, 1.0] * 200).tolist())
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(ticks))
    calls = []
    found = timing._benchmark_host(calls.append, (1,), 8, None, 5, 100.0, "append")
    assert found.first_call == pytest.approx(0.0) or found.first_call == pytest.approx(9000.0)
    assert found.source == "measured" and found.n == 5 and len(calls) == 6


def test_a_cpu_time_names_the_processor_and_counts_its_rate():
    values = np.random.default_rng(0).random(200_000)
    found = benchmark(np.sort, values, host=True, samples=5, bytes=2 * values.nbytes)
    assert found.n == 5 and found.median > 0 and math.isnan(found.launch)
    assert found.device == timing.processor() and found.device in " ".join(str(found).split())
    assert found.gigabytes_per_second == pytest.approx(2 * values.nbytes / found.median * 1e-6)


# --- what was given -------------------------------------------------------------------------------


def test_a_kernel_without_grid_and_block_is_refused_with_the_way_to_write_it():
    with pytest.raises(TypeError, match=r"benchmark\(double\[grid, block\], \.\.\.\)"):
        benchmark(double, np.zeros(3))


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="Give the function itself"):
        benchmark(None)
    with pytest.raises(ValueError, match="at least 5 samples"):
        benchmark(np.sort, np.zeros(3), host=True, samples=2)
    with pytest.raises(ValueError, match="'flops'"):
        benchmark(np.sort, np.zeros(3), host=True, operations={"flops": 3})


def test_teraflops_leave_out_what_has_no_roof():
    found = Timing(1.0, 1.0, 1.0, 5, operations={"float32": 2e12, "integer": 5e12})
    assert found.teraflops == pytest.approx(2000)
    assert math.isnan(Timing(1.0, 1.0, 1.0, 5).teraflops)


# --- transfers ------------------------------------------------------------------------------------


@needs_no_gpu
def test_transfers_without_a_gpu_are_bounds_of_the_link():
    found = transfers(np.zeros(1_000_000, np.uint8), gpu="T4")
    for one in found:
        assert one.source == "bound" and one.median == pytest.approx(1e6 / 15.75e9 * 1e3)
    assert "host and device at 15.75 GB/s" in " ".join(str(found).split())
    assert "recorded on an NVIDIA H200" in str(found)


def test_transfers_of_nothing_are_refused():
    with pytest.raises(ValueError, match="from 1 up"):
        transfers(0)


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@needs_gpu
def test_a_large_copy_is_near_the_gpus_bandwidth_and_not_above_it():
    from course.kernels.transpose import copy

    image = np.ones((8192, 8192), np.float32)
    found = benchmark(
        copy[(256, 1024), (32, 8)], np.empty_like(image), image, bytes=2 * image.nbytes
    )
    assert found.source == "measured" and found.hidden and found.cold and found.n >= 5
    assert found.q1 <= found.median <= found.q3
    if found.bound is not None:
        assert 0.3 < found.bound.milliseconds / found.median < 1.03


@pytest.mark.gpu
@needs_gpu
def test_an_empty_kernel_takes_less_than_its_launch():
    @cuda.jit
    def empty():
        pass

    found = benchmark(empty[1, 32])
    queued = benchmark(empty[1, 32], warm=True)
    assert found.compiled and found.first_call > 10 * found.median
    assert queued.hidden and queued.median < queued.launch


@pytest.mark.gpu
@needs_gpu
def test_transfers_on_a_gpu_are_of_four_ways():
    found = transfers(1 << 24)
    assert all(one.source == "measured" and 0.1 < one.gigabytes_per_second < 1000 for one in found)
