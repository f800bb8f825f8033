"""What lesson 12 says in words of toys, figures and drawings is true of what it shows."""

import itertools
import re

import numpy as np
import pytest

from course.measure.recorded import recorded, recordings
from course_lessons.lesson08 import overlap
from course_lessons.lesson09 import stage_rates
from course_lessons.lesson12 import pictures, scaling
from course_lessons.lesson12.judges import DEALS, deal_anew, judge_steady
from course_lessons.lesson12.toy_cluster import play_cluster
from tests.pictures import assert_drawn
from tools.notebooks import lessons

UNEVEN = [5.0, 5.0, 4.0, 4.0] + [1.0] * 8


# --- the toy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_the_toy_keeps_its_own_rules(seed):
    rng = np.random.default_rng(seed)
    batches = list(rng.uniform(0.5, 6.0, int(rng.integers(1, 30))))
    workers, hand_out = int(rng.integers(2, 6)), float(rng.choice([0.0, 0.3]))
    killed = (int(rng.integers(workers)), float(rng.uniform(0, 20))) if seed % 2 else None
    its = play_cluster(batches, workers, start_up=1.5, hand_out=hand_out, killed=killed)
    assert sorted(its.done) == list(range(len(batches)))
    for worker in range(workers):
        own = [one for one in its.work if one.worker == worker]
        assert all(a.end <= b.start for a, b in itertools.pairwise(own))
        assert 0 <= its.busy(worker) <= 1
    for one in its.done.values():
        assert one.end - one.start == pytest.approx(batches[one.batch])
    starts = sorted(one.start for one in its.work if not one.lost)
    assert starts[0] >= 1.5 + hand_out
    assert all(b - a >= hand_out - 1e-9 for a, b in itertools.pairwise(starts))
    if killed:
        assert all(one.end <= killed[1] for one in its.work if one.worker == killed[0])
        assert len(its.lost) <= 1
        for batch in its.lost:
            assert its.done[batch].start >= killed[1]
            assert its.done[batch].worker != killed[0]
    else:
        assert not its.lost
        bound = max(sum(batches) / workers, *batches)
        assert bound <= its.milliseconds
        if not hand_out:  # Graham's bound for a list
            assert its.milliseconds - 1.5 <= sum(batches) / workers + max(batches) + 1e-9


def test_dealing_beforehand_gives_neighbours_to_one_worker():
    its = play_cluster([1.0] * 7, 3, beforehand=True)
    owners = [its.done[batch].worker for batch in range(7)]
    assert owners == [0, 0, 0, 1, 1, 1, 2]


def test_what_cannot_be_a_cluster_is_refused():
    for batches, workers, more in (
        ([], 1, {}),
        ([1], 0, {}),
        ([-1], 1, {}),
        ([1], 1, {"hand_out": -1}),
    ):
        with pytest.raises(ValueError, match="at least one batch and one worker"):
            play_cluster(batches, workers, **more)
    for workers, more in ((1, {}), (2, {"beforehand": True})):
        with pytest.raises(ValueError, match="there must be another one"):
            play_cluster([1.0], workers, killed=(0, 0.5), **more)
    with pytest.raises(ValueError, match="worker 3 of 2 is killed"):
        play_cluster([1.0], 2, killed=(3, 0.5))


def test_a_worker_that_is_killed_early_or_late_changes_nothing_that_is_done():
    for moment in (0.0, 3.0, 100.0):
        its = play_cluster([2.0] * 5, 2, killed=(1, moment))
        assert len(its.done) == 5 and len(its.lost) <= 1
    last = play_cluster([1.0, 9.0], 2, killed=(1, 8.0))  # the other one has been idle for long
    assert last.lost == [1] and last.done[1].start == 8.0 and last.milliseconds == 17.0


# --- what the lesson says of it -------------------------------------------------------------------


def test_a_killed_worker_costs_batch_7_and_two_milliseconds():
    its = play_cluster([2.0] * 12, workers=3, killed=(1, 5.0))
    assert its.lost == [7]
    assert (play_cluster([2.0] * 12, 3).milliseconds, its.milliseconds) == (8, 10)


def test_static_takes_twice_what_dynamic_takes_and_long_ones_first_help():
    assert play_cluster(UNEVEN, 3, beforehand=True).milliseconds == 18
    assert play_cluster(UNEVEN, 3).milliseconds == 9
    assert play_cluster(UNEVEN[::-1], 3).milliseconds == 11
    assert sum(UNEVEN) == 26


def test_a_scheduler_that_takes_time_ends_scaling_at_ten_workers():
    def time(workers, hand_out, share=1):
        return play_cluster(
            [4.0] * 160 * share, workers, start_up=20, hand_out=hand_out
        ).milliseconds

    def karp_flatt(workers, hand_out):
        return overlap.serial_fraction(time(1, hand_out) / time(workers, hand_out), workers)

    for workers in (2, 4, 8, 16):
        assert karp_flatt(workers, 0) == pytest.approx(20 / 660)
        assert time(1, 0) / time(workers, 0) == pytest.approx(overlap.amdahl(20 / 660, workers))
        one = time(1, 0, share=workers)
        assert one / time(workers, 0, workers) == pytest.approx(
            overlap.gustafson(20 / 660, workers)
        )
    shares = [karp_flatt(workers, 0.5) for workers in (2, 4, 8, 16)]
    assert shares == sorted(shares) and shares[-1] > 2 * shares[0]
    assert time(8, 0.5) > 1.05 * time(9, 0.5) > 1.01 * time(10, 0.5)
    assert time(16, 0.5) == pytest.approx(time(10, 0.5), rel=0.01)
    assert time(1, 0.5, 16) / time(16, 0.5, 16) < 9.5


def test_the_answers_of_the_questions():
    assert round(overlap.amdahl(0.01, 64)) == 39
    slow = play_cluster([1.0] * 3 + [2.0], 4)  # the fourth worker is half as fast
    assert 4 / slow.milliseconds == 2


# --- recorded figures -----------------------------------------------------------------------------


def test_an_image_takes_a_fifth_of_a_microsecond_and_a_stack_of_1024_a_fifth_of_a_millisecond():
    (stack,) = recorded("reconstruct", variant="warp tiles", shape="1024x256x256x50", gpu="H200")
    assert stack.median == pytest.approx(0.2, abs=0.01)


def test_the_pipeline_waits_for_the_host_however_many_gpus_there_are():
    found = stage_rates.recorded("H200")
    assert max(found.alone, key=found.alone.get) == "rebuild"
    assert max(found.threads, key=found.threads.get) == "factorise"


def test_svds_on_the_gpu_make_that_pipeline_1_8_times_as_fast_and_the_host_is_left():
    def rate(name):
        (figure,) = recorded("pipeline", variant=name, metric="rate", gpu="H200")
        return figure.median

    before, whole = (rate(f"reconstruct_images, svd {svd}, 16 processes") for svd in ("cpu", "gpu"))
    on_gpu = rate("factorise, rebuild and judge on the GPU, 1 thread")
    assert round(whole / before, 1) == 1.8
    assert 2 < on_gpu / whole < 2.5  # "more than twice as many as reach it"


def of_cluster(kernel, workers, **more):
    """The one figure of `python -m course bench cluster` for so many H200s."""
    (figure,) = recorded(
        "cluster", kernel=kernel, variant=scaling.variant(workers), gpu="H200", **more
    )
    return figure


SHAPES = "1024x2048x2048x128", "16384x256x256x50", "256x256x256x50"


def recorded_scalings():
    found = scaling.scalings(recorded("cluster", metric=None, gpu="H200"))
    assert tuple(its.shape for its in found) == SHAPES
    return found


def of_strong(its, workers, metric):
    """A recorded median of a kind of batches, strong scaling."""
    return of_cluster("strong scaling", workers, shape=its.shape, metric=metric).median


def batch_count(its):
    """How many batches a run of strong scaling has."""
    images = of_strong(its, 1, "rate") * of_strong(its, 1, "time") / 1e3
    batches = images / int(its.shape.split("x")[0])
    assert batches == pytest.approx(round(batches), rel=1e-4)
    return round(batches)


def of_one(its):
    """What a batch takes one worker [ms]: work, waiting; and start and gathering of the run."""
    waiting = of_strong(its, 1, "waiting") * its.strong[1]
    work = of_strong(its, 1, "working")
    return work / batch_count(its), waiting / batch_count(its), its.serial * its.strong[1]


def toy_of(its, workers, share=1):
    """Milliseconds of the toy with the times that one worker took."""
    work, waiting, ends = of_one(its)
    batches = [work] * batch_count(its) * share
    return play_cluster(batches, workers, start_up=ends, hand_out=waiting).milliseconds


def empty_ms(workers):
    return of_cluster("empty batch", workers).median


def test_the_clusters_recording_is_of_one_two_and_four_gpus():
    for its in recorded_scalings():
        assert set(its.strong) == set(its.weak) == {1, 2, 4}
    (recording,) = recordings("cluster")
    assert recording.header["notes"].count("NVIDIA H200") == 4
    for workers in (1, 2, 4):
        for kernel in ("start of workers", "empty batch", "travelling batches"):
            assert of_cluster(kernel, workers).median > 0


def test_four_gpus_do_large_batches_at_least_three_and_a_half_times_as_fast():
    large, *_ = recorded_scalings()
    for scale in (large.speedup, large.scaled_speedup):
        assert scale(4) >= 3.5
    one, four = (of_strong(large, workers, "rate") for workers in (1, 4))
    assert four / one >= 3.5
    slowest, quickest = of_cluster("strong scaling", 4, shape=large.shape).q3, large.strong[1]
    assert quickest / slowest >= 3.5  # by the upper quartile, too


def test_what_two_and_four_gpus_reach_is_what_the_lesson_says():
    found = recorded_scalings()
    large, many, small = found
    for workers, measured, amdahl, scaled in (
        (2, [1.97, 1.82, 1.98], [1.97, 1.96, 1.96], [1.98, 1.77, 1.88]),
        (4, [3.80, 3.23, 1.77], [3.85, 3.75, 3.77], [3.81, 3.04, 2.02]),
    ):
        assert [round(its.speedup(workers), 2) for its in found] == measured
        assert [round(its.amdahl(workers), 2) for its in found] == amdahl
        assert [round(its.scaled_speedup(workers), 2) for its in found] == scaled
    assert [round(its.serial, 3) for its in found] == [0.013, 0.022, 0.020]
    assert min(its.amdahl(4) for its in found) > 3.7
    assert round(min(its.gustafson(4) for its in found), 2) == 3.93
    assert large.karp_flatt(2) < large.karp_flatt(4) < 0.02
    assert [round(small.karp_flatt(n), 3) for n in (2, 4)] == [0.008, 0.419]
    assert 2 < small.amdahl(4) / small.speedup(4) < 2.2  # "wrong by a factor of two"
    one = of_cluster("strong scaling", 1, shape=small.shape)
    assert round((one.q3 - one.q1) / one.median, 2) == 0.08
    assert small.amdahl(2) < small.speedup(2) < small.amdahl(2) * one.q3 / one.median


def test_four_workers_take_longer_than_two_for_small_batches_by_more_than_runs_differ():
    *_, small = recorded_scalings()
    two, four = (of_cluster("strong scaling", n, shape=small.shape) for n in (2, 4))
    assert (round(two.q3), round(four.q1)) == (600, 613)
    assert two.n == four.n == 5


def test_a_worker_waits_between_batches_whatever_is_in_them():
    found = recorded_scalings()
    assert [round(its.strong[1] / batch_count(its), 1) for its in found] == [35.0, 9.1, 4.6]
    work, waiting, _ = zip(*(of_one(its) for its in found), strict=True)
    assert [round(one, 1) for one in work] == [32.5, 6.3, 2.3]
    assert [round(one, 1) for one in waiting] == [2.3, 2.6, 2.2]
    assert [round(empty_ms(workers), 1) for workers in (1, 2, 4)] == [1.9, 1.3, 1.5]
    assert max(waiting) < 1.4 * empty_ms(1) and min(waiting) > empty_ms(1)
    assert 0.45 < waiting[2] / (waiting[2] + work[2]) < 0.55  # "half" of a batch of 256


def test_no_small_batches_follow_each_other_faster_than_the_lesson_says():
    *_, small = recorded_scalings()
    batches = batch_count(small)
    gaps = [small.strong[n] / batches for n in (1, 2, 4)]
    gaps += [small.weak[n] / batches / n for n in (2, 4)]
    assert [round(gap, 1) for gap in gaps[:3]] == [4.6, 2.3, 2.6]
    assert round(min(gaps), 1) == 2.2
    work, waiting, _ = of_one(small)
    assert (work + waiting) / 2 < 1.02 * min(gaps)  # two workers want that much


def test_four_workers_of_small_batches_wait_and_neither_work_nor_start_nor_gather():
    shares = [
        [
            round(100 * share)
            for share in (
                of_strong(its, 4, "working") / its.strong[4],
                of_strong(its, 4, "waiting"),
                of_strong(its, 4, "serial fraction"),
            )
        ]
        for its in recorded_scalings()
    ]
    assert shares == [[88, 3, 8], [58, 29, 11], [19, 75, 6]]


def test_the_toy_with_one_workers_times_tells_what_four_would_do():
    found = recorded_scalings()
    for workers in (2, 4):
        for its in found:
            strong = toy_of(its, 1) / toy_of(its, workers)
            weak = toy_of(its, 1, workers) / toy_of(its, workers, workers)
            assert strong == pytest.approx(its.speedup(workers), rel=0.15)
            assert weak == pytest.approx(its.scaled_speedup(workers), rel=0.15)
    with_four = [round(toy_of(its, 1) / toy_of(its, 4), 2) for its in found]
    assert with_four == [3.79, 3.21, 2.02]
    for its, most in zip(found[1:], (0.1, 0.2), strict=True):  # nearer than Amdahl's law
        off = abs(toy_of(its, 1) / toy_of(its, 4) - its.speedup(4))
        assert off < most * its.speedup(4) and 3 * off < its.amdahl(4) - its.speedup(4)
    work, waiting, _ = of_one(found[1])
    assert round((work + waiting) / 4, 1) == 2.2 < waiting


def test_what_travels_hardly_scales_and_is_thousands_of_times_slower_than_what_stays():
    trips = [of_cluster("travelling batches", workers) for workers in (1, 2, 4)]
    rates = [of_cluster("travelling batches", n, metric="rate").median for n in (1, 2, 4)]
    assert [round(rate) for rate in rates] == [641, 828, 929]
    assert [8 * 128e3 / trip.median for trip in trips] == pytest.approx(rates, rel=1e-3)
    assert round(rates[2] / rates[0], 2) == 1.45
    assert [round(trip.bytes / trip.median * 1e-6, 1) for trip in trips] == [0.2, 0.3, 0.3]
    stays = of_cluster("strong scaling", 1, shape=SHAPES[1], metric="rate").median
    assert round(stays / 1e6, 1) == 1.8 and stays > 2000 * rates[0]


def test_five_percent_of_an_empty_batchs_cost_need_183_000_images_of_48_gigabytes():
    (stack,) = recorded("reconstruct", variant="warp tiles", shape="1024x256x256x50", gpu="H200")
    images = 19 * empty_ms(1) / (stack.median / 1024)
    assert images == pytest.approx(183_000, rel=0.01)
    assert round(images * 4 * 256 * 256 / 1e9) == 48


def test_a_cluster_starts_in_about_seven_seconds():
    for workers in (1, 2, 4):
        assert 6500 < of_cluster("start of workers", workers).median < 7600
    first = [of_cluster("first batch", 4, shape=shape).median for shape in SHAPES]
    assert 3900 < max(first) < 4100


# --- the steady sum's judge -----------------------------------------------------------------------


def test_deals_show_orders_and_workers_apart():
    assert {order for _, order in DEALS} == {True, False}
    seen = []
    deal_anew(lambda given: seen.append(given) or 0.0, ([(n, 0, np.float32(n)) for n in range(9)],))
    assert len(seen) == len(DEALS)
    for given, (workers, in_order) in zip(seen, DEALS, strict=True):
        assert sorted(n for n, _, _ in given) == list(range(9))
        assert ([n for n, _, _ in given] == list(range(9))) == in_order
        assert {worker for _, worker, _ in given} <= set(range(workers))


def test_a_sum_that_is_steady_and_wrong_is_refused():
    arrivals = [(0, 0, np.float32(1.5)), (1, 0, np.float32(2.25))]
    assert judge_steady((3.75,) * 3, arrivals) is None
    assert "That is the mean" in judge_steady((1.875,) * 3, arrivals)
    assert "The first batch counts twice" in judge_steady((5.25,) * 3, arrivals)
    assert "The last batch counts twice" in judge_steady((6.0,) * 3, arrivals)
    assert "exactly once" in judge_steady((7.0,) * 3, arrivals)
    nearly = (3.75, 3.7500000000000004) * (len(DEALS) // 2)  # told with the digits that differ
    assert "3.7500000000000004" in judge_steady(nearly, arrivals)
    assert "nan" in judge_steady((float("nan"),) * 3, arrivals)


# --- drawings -------------------------------------------------------------------------------------


def test_the_parts_are_named_and_each_worker_has_its_own_gpu():
    words = ["your program", "the scheduler", "127.0.0.1", "called 0 by its worker"]
    for worker in range(3):
        words += [f"CUDA_VISIBLE_DEVICES={worker},", f"GPU {worker}"]
    assert_drawn(pictures.parts(3), *words)
    with pytest.raises(ValueError, match="room for 1 to 4"):
        pictures.parts(5)


def test_pictures_are_drawn_and_small():
    killed = play_cluster([2.0] * 12, workers=3, killed=(1, 5.0), start_up=1.0)
    drawn = (
        pictures.parts(4),
        pictures.timelines({"killed": killed}, {"bound": 8.0}),
        pictures.speedups({"toy": {1: 1.0, 2: 1.9, 4: 3.5}}, {"toy": lambda n: n}),
    )
    for picture in drawn:
        assert_drawn(picture, most_bytes=60_000)
    for draw in (pictures.timelines, pictures.speedups):
        with pytest.raises(ValueError, match="at least one run|0 lines"):
            draw({})


# --- the lesson -----------------------------------------------------------------------------------


def test_workers_are_started_where_a_with_block_ends_them():
    path = next(path for path in lessons.paths() if lessons.name(path).startswith("12"))
    text = path.read_text(encoding="utf-8")
    starts = [
        line.strip()
        for line in text.splitlines()
        if re.search(r"\bcluster\(", line) and "import" not in line
    ]
    calls = [line for line in starts if not line.startswith("#")]
    assert len(calls) == 3 and all(line.startswith("with cluster.cluster(") for line in calls)
