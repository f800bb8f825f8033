"""What lesson 03 says in words about recorded figures is true of the files that it shows."""

import numpy as np
import pytest

from course import known_gpu, recorded_roofs
from course.measure.recorded import recorded

SIZES = (512, 1024, 2048, 4096)


def time_of(kernel, variant, shape=None, dtype=None, metric="time"):
    """A recorded median; exactly one figure fits, or the lesson's look-up is ambiguous."""
    wanted = {"kernel": kernel, "variant": variant, "shape": shape, "dtype": dtype}
    (found,) = recorded("measuring", metric=metric, gpu="H200", **wanted)
    return found.median


def way(name, k=256):
    return time_of("way of timing", name, f"2048x2048x{k}")


def by_block(kernel, block, size):
    return time_of("reconstruct", f"reconstruct_{kernel} {block}", f"{size}x{size}x256")


def crossing(name, size):
    return time_of("crossing", name, f"{size}x{size}x{size // 8}")


def test_each_wrong_way_is_wrong_by_what_the_lesson_says():
    right = way("events, queued, cold")
    assert 50 < way("host clock, synchronize") / way("host clock, no synchronize") < 70
    assert 1 < way("host clock, synchronize") / right < 1.1
    assert 1.8 < way("events, queued, cold, float64 arrays") / right < 2.2
    assert 4 < way("NumPy arrays") / right < 6
    assert way("first call, NumPy arrays") / way("host clock, no synchronize") > 3000


def test_most_roofs_are_good_to_a_thousandth_and_those_of_tensor_cores_to_some_percent():
    for figure in recorded("roofs", kernel="roof", gpu="H200"):
        scatter = (figure.q3 - figure.q1) / figure.median
        if figure.variant.startswith("tensor"):
            assert 0.03 < scatter < 0.07
        else:
            assert scatter < 0.002


def test_the_projects_kernels_did_equal_work_with_and_without_shared_memory():
    assert 2048 * 2048 * 256 == 1024**3  # 52.9 ms without, 53.7 ms with


def test_one_row_against_the_other_proves_whatever_you_like():
    for one, other in (("NumPy", "events, queued, cold"), ("events, queued, cold", "NumPy")):
        assert 7.5 < way(other, 2048) / way(one, 256) < 8.5


def test_first_calls_turn_the_order_of_the_libraries_round():
    first, later = (
        {name: time_of("first image", name, "256x256x100", metric=m) for name in ("CuPy", "Numba")}
        for m in ("first call", "time")
    )
    assert first["CuPy"] > first["Numba"] and later["CuPy"] < later["Numba"]
    assert time_of("first image", "NumPy", "256x256x100") < later["CuPy"] / 3


def test_tiles_are_several_times_faster_once_compiled():
    for size in SIZES:
        assert by_block("naive", "16x16", size) > 4 * by_block("tiled", "16x16", size)


def test_shapes_matter_only_where_x_walks_down_the_rows():
    for size in SIZES:
        shapes = ("8x8", "16x16", "32x8", "32x32", "64x4", "256x1")
        naive = [by_block("naive", block, size) for block in shapes]
        assert max(naive) < 1.06 * min(naive)
        for kernel in ("float32", "original"):
            assert 2 < by_block(kernel, "32x32", size) / by_block(kernel, "8x8", size) < 2.4


def test_a_float64_sum_costs_next_to_nothing_with_16x16_blocks():
    assert by_block("original", "16x16", 2048) < 1.05 * by_block("float32", "16x16", 2048)


def test_the_kernel_is_far_below_both_roofs_and_level_with_numpy():
    roofs = recorded_roofs("H200")
    (figure,) = recorded("measuring", variant="reconstruct_naive 32x8", shape="4096x4096x256")
    assert figure.teraflops < 0.1 * roofs.rates["float32"]
    assert figure.gigabytes_per_second < 0.1 * roofs.bandwidth
    for k in (256, 2048):
        assert 0.9 < way("NumPy", k) / way("events, queued, cold", k) < 1.1
    printed = known_gpu("H200")
    assert roofs.bandwidth == pytest.approx(0.88 * printed.bandwidth, rel=0.01)
    assert roofs.rates["float32"] == pytest.approx(0.89 * printed.rates["float32"], rel=0.01)
    assert time_of("reconstruct", "reconstruct_naive 32x8", "2048x2048x256") == pytest.approx(
        2, 0.01
    )


def test_a_warm_copy_is_above_the_memory_at_32_mib_and_nowhere_else():
    memory = recorded_roofs("H200").bandwidth
    rates = {
        (figure.variant, figure.shape): figure.gigabytes_per_second
        for figure in recorded("measuring", kernel="cached copy")
    }
    assert rates["warm", "32"] > memory > max(rates["cold", size] for size in ("2", "32", "512"))
    assert rates["warm", "128"] == pytest.approx(rates["cold", "128"], rel=0.02)


def test_bytes_under_way_count_and_not_warps():
    for count in (2, 4, 8, 16, 32):
        four = time_of("copy by warps", f"{count} warps", dtype="float32")
        eight = time_of("copy by warps", f"{count // 2} warps", dtype="float64")
        assert four == pytest.approx(eight, rel=0.05)
    assert 85 < 0.268435456e3 / time_of("copy by warps", "1 warps", dtype="float32") < 95


def test_a_copy_of_4_bytes_a_thread_reaches_57_percent():
    (four,) = recorded("transpose", variant="copy", shape="8192x8192")
    share = four.gigabytes_per_second / recorded_roofs("H200").bandwidth
    assert share == pytest.approx(0.57, abs=0.015)


def test_the_crossing_lies_elsewhere_for_each_question():
    def first(name):
        sizes = (64, 128, 256, 512, 1024, 2048, 4096)
        return next((n for n in sizes if crossing(name, n) < crossing("NumPy", n)), None)

    assert first("kernel") == 64
    assert first("kernel, launch and wait") == 256
    assert first("kernel and copies, pinned") == 4096
    assert first("kernel and copies") is None
    assert 0.2 < crossing("copies in", 64) + crossing("copy out", 64) < 0.4
    assert 0.03 < crossing("kernel, launch and wait", 64) < 0.05


def test_small_images_are_bound_by_their_copies():
    def share(size):
        parts = [crossing(name, size) for name in ("copies in", "kernel", "copy out")]
        return parts[1] / sum(parts)

    assert share(512) < 0.2 < 0.5 < share(4096)
    assert np.all(np.diff([share(size) for size in SIZES]) > 0)


def test_a_launch_in_the_queue_takes_a_tenth_of_one_between_events():
    launch = {f.metric: f.median for f in recorded("launch", variant="no arguments", metric=None)}
    assert 7 < launch["host"] / launch["queued"] < 13
    assert 7 < launch["events"] / launch["queued"] < 13
