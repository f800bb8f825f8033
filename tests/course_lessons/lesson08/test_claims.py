"""What lesson 08 says in words about recorded figures is true of the files that it shows."""

import numpy as np
import pytest

from course.measure import timeline
from course.measure.recorded import recorded
from course_lessons.lesson08 import overlap
from course_lessons.lesson08.batches import WAYS

LARGE, SHAPE_OF_SMALL = "32x2048x2048x128", "50x256x256x50"
NEEDED, WHOLE, SMALL, PACKED = (
    "k columns and rows", "whole factors", "small images", "packed on the host",
)  # fmt: skip


def time_of(way, metric="time", case=NEEDED, shape=LARGE):
    """A recorded median; exactly one figure fits, or the lesson's look-up is ambiguous."""
    wanted = {"kernel": case, "variant": way, "shape": shape, "metric": metric}
    (found,) = recorded("streams", gpu="H200", **wanted)
    return found.median


def small(way, metric="time"):
    return time_of(way, metric, SMALL, SHAPE_OF_SMALL)


def beside_others(spans, first):
    """Of the copies in of the first images: the share that runs beside another's copy out."""
    early = [span for span in spans if span.image < first]
    copies = [span for span in early if span.name != "kernel"]
    return timeline.together(copies, "copy in", "copy out") / timeline.busy(copies, "copy in")


def test_the_lesson_counts_the_ways_and_the_pieces_of_a_graph_rightly():
    assert len(WAYS) == 1 + 11  # "beside eleven others"
    assert WAYS["graph"].streams == WAYS["3 streams"].streams == 3 and WAYS["graph"].chunk == 1
    assert int(SHAPE_OF_SMALL.split("x")[0]) * len(overlap.STEPS) == 150


def test_the_originals_streams_gain_nothing_and_lose_on_small_images():
    assert time_of("original") / time_of("original's streams") == pytest.approx(1, abs=0.03)
    ratio = small("original") / small("original's streams")
    assert ratio == pytest.approx(0.84, abs=0.04)  # the project's, on another GPU


def test_the_originals_timeline_is_all_in_then_all_out_with_slivers_of_kernels():
    spans = timeline.recorded("original's streams")
    assert timeline.together(spans, "copy in", "copy out") == 0
    assert timeline.busy(spans, "compute") < 0.06 * overlap.length(spans)
    kernel = np.median([span.milliseconds for span in spans if span.name == "kernel"])
    link = overlap.recorded_link("pageable")
    stage = overlap.stage_of(2048, 2048, 128, link, kernel=float(kernel), whole=True)
    modelled = overlap.schedule(stage, 12, 12, order=overlap.back_at_the_end, pageable=True)
    assert timeline.together(modelled, "copy in", "copy out") == 0
    assert 2 < overlap.length(spans) / overlap.length(modelled) < 3


def test_16_times_fewer_bytes_in_are_less_than_2_times_the_speed():
    assert time_of("original", "bytes in") / time_of("truncated", "bytes in") == pytest.approx(16)
    assert time_of("original", "bytes out") == time_of("truncated", "bytes out")
    assert 1.3 < time_of("original") / time_of("truncated") < 2


def test_pinned_gains_far_more_than_the_rates_explain_and_fresh_memory_is_dear():
    slow, fast = (overlap.recorded_link(memory) for memory in ("pageable", "pinned"))
    by_rates = [67.1 / link.into + 536.9 / link.out for link in (slow, fast)]
    assert time_of("truncated") / time_of("pinned") > 2 * by_rates[0] / by_rates[1]
    fresh, used = (
        time_of(name, case="images copied on", shape="32x2048x2048")
        for name in ("to fresh memory", "to memory in use")
    )
    assert fresh > 2 * used
    assert time_of("original") / time_of("pinned") > 10 * time_of("pinned") / time_of("2 streams")


def stage(whole=False):
    spans = timeline.recorded("3 streams")
    kernel = np.median([span.milliseconds for span in spans if span.name == "kernel"])
    link = overlap.recorded_link("pinned")
    return overlap.stage_of(2048, 2048, 128, link, kernel=float(kernel), whole=whole)


def test_copies_out_are_by_far_the_busiest_engine_and_two_streams_are_enough():
    image = stage()
    assert image.copy_out == image.busiest() > 3 * (image.copy_in + image.kernel)
    assert 1 < image.total / image.busiest() < 2
    assert image.busiest() / 4 > max(image.copy_in, image.kernel)  # 8-bit images: 4 times shorter
    assert image.busiest() / 8 < max(image.copy_in, image.kernel)
    assert time_of("pinned") > 1.2 * 32 * image.total  # the rest is the host's
    assert time_of("n streams") > 0.99 * time_of("2 streams")


def test_the_best_way_is_within_a_few_percent_of_the_bound_and_none_is_below():
    for case in (NEEDED, WHOLE):
        for way in WAYS:
            found = recorded("streams", kernel=case, variant=way, shape=LARGE, gpu="H200")
            assert all(f.median > time_of(way, "bound", case) for f in found)
    assert min(time_of(way) / time_of(way, "bound") for way in WAYS) < 1.10
    assert time_of("2 streams") / time_of("2 streams", "bound") < 1.06


def test_a_stream_for_each_engine_overlaps_early_copies_that_three_streams_do_not():
    assert beside_others(timeline.recorded("3 streams"), 6) < 0.4
    assert beside_others(timeline.recorded("queues"), 6) > 0.6
    spans = timeline.recorded("queues")
    last = [span for span in spans if span.name == "copy out"]
    idle = sum(b.start - a.end for a, b in zip(last, last[1:], strict=False))
    assert idle < 0.03 * overlap.length(spans)  # copy out behind copy out


def test_whole_factors_gain_more_than_the_models_most_since_the_host_is_hidden_too():
    whole = stage(whole=True)
    assert whole.copy_in == whole.busiest()
    most = whole.total / whole.busiest()
    gained = time_of("pinned", case=WHOLE) / time_of("3 streams", case=WHOLE)
    assert most < gained < 1.15 * most


def test_both_directions_at_once_lose_a_tenth():
    rates = {
        f.variant: f.gigabytes_per_second for f in recorded("streams", kernel="link", gpu="H200")
    }
    for way in ("in", "out"):
        assert 0.05 < 1 - rates[f"{way}, both at once"] / rates[f"{way}, alone"] < 0.15


def test_packing_by_the_queueing_thread_gains_next_to_nothing_and_four_threads_do():
    alone, before, meanwhile = (
        time_of(name, case=PACKED) for name in ("packing alone", "before", "meanwhile")
    )
    assert alone == pytest.approx(13, abs=1) and time_of("3 streams") == pytest.approx(10, abs=0.6)
    assert 0.9 < meanwhile / before < 1 and meanwhile > 1.5 * alone
    assert time_of("meanwhile", "host", PACKED) > 0.95 * meanwhile
    (threads,) = recorded("streams", kernel=PACKED, variant="meanwhile, 4 threads", gpu="H200")
    assert threads.median < 1.1 * alone and threads.q3 > 1.5 * threads.q1
    (locking,) = recorded("streams", kernel="pinned memory", gpu="H200")
    assert locking.median > 10 * alone


def test_batched_is_slower_than_streams_and_chunks_are_not():
    assert time_of("batched") > 1.05 * time_of("3 streams")
    assert time_of("chunks") < 1.02 * time_of("3 streams")


def test_small_images_keep_the_host_busy_and_the_gpu_idle():
    for way in ("original", "original's streams", "truncated", "pinned", "3 streams", "n streams"):
        assert small(way, "host") > 0.95 * small(way)
        assert small(way, "bound") < 0.05 * small(way)
    assert 1 < small("pinned") / small("3 streams") < 1.2
    best = min(small(way) for way in WAYS)
    assert small("original's streams") / best > 10
    assert small("graph", "host") < 0.05 * small("3 streams", "host")
    assert small("batched") == best


def test_a_graphs_piece_costs_the_host_far_less_than_a_launch():
    (launch,) = recorded("launch", variant="5 Numba arrays", metric="host in a row", gpu="H200")
    assert small("graph", "host") / 150 < launch.median / 10


def test_the_measured_serial_fraction_grows_towards_the_busiest_engines_part():
    counts = {"2 streams": 2, "3 streams": 3, "4 streams": 4, "n streams": 32}
    for case in (NEEDED, WHOLE):
        serial = time_of("pinned", case=case)
        fractions = [
            overlap.serial_fraction(serial / time_of(way, case=case), count)
            for way, count in counts.items()
        ]
        assert fractions == sorted(fractions)
        part = time_of("pinned", "bound", case) / serial
        assert fractions[-1] == pytest.approx(part, rel=0.1)
