"""What lesson 11 says in words of toys, figures and drawings is true of what it shows."""

import io
import itertools

import numpy as np
import pytest
from PIL import Image

from course import overlap, scaling_pictures, stage_rates
from course.exercises.lesson11_judges import DEALS, deal_anew, judge_steady
from course.measurements import find
from course.toy_cluster import run
from tools import lessons

UNEVEN = [5.0, 5.0, 4.0, 4.0] + [1.0] * 8


# --- the toy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_the_toy_keeps_its_own_rules(seed):
    rng = np.random.default_rng(seed)
    batches = list(rng.uniform(0.5, 6.0, int(rng.integers(1, 30))))
    workers, hand_out = int(rng.integers(2, 6)), float(rng.choice([0.0, 0.3]))
    killed = (int(rng.integers(workers)), float(rng.uniform(0, 20))) if seed % 2 else None
    its = run(batches, workers, start_up=1.5, hand_out=hand_out, killed=killed)
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
    its = run([1.0] * 7, 3, beforehand=True)
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
            run(batches, workers, **more)
    for workers, more in ((1, {}), (2, {"beforehand": True})):
        with pytest.raises(ValueError, match="there must be another one"):
            run([1.0], workers, killed=(0, 0.5), **more)
    with pytest.raises(ValueError, match="worker 3 of 2 is killed"):
        run([1.0], 2, killed=(3, 0.5))


def test_a_worker_that_is_killed_early_or_late_changes_nothing_that_is_done():
    for moment in (0.0, 3.0, 100.0):
        its = run([2.0] * 5, 2, killed=(1, moment))
        assert len(its.done) == 5 and len(its.lost) <= 1
    last = run([1.0, 9.0], 2, killed=(1, 8.0))  # the other one has been idle for long
    assert last.lost == [1] and last.done[1].start == 8.0 and last.milliseconds == 17.0


# --- what the lesson says of it -------------------------------------------------------------------


def test_a_killed_worker_costs_batch_7_and_two_milliseconds():
    its = run([2.0] * 12, workers=3, killed=(1, 5.0))
    assert its.lost == [7]
    assert (run([2.0] * 12, 3).milliseconds, its.milliseconds) == (8, 10)


def test_static_takes_twice_what_dynamic_takes_and_long_ones_first_help():
    assert run(UNEVEN, 3, beforehand=True).milliseconds == 18
    assert run(UNEVEN, 3).milliseconds == 9
    assert run(UNEVEN[::-1], 3).milliseconds == 11
    assert sum(UNEVEN) == 26


def test_a_scheduler_that_takes_time_ends_scaling_at_ten_workers():
    def time(workers, hand_out, share=1):
        return run([4.0] * 160 * share, workers, start_up=20, hand_out=hand_out).milliseconds

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
    slow = run([1.0] * 3 + [2.0], 4)  # the fourth worker is half as fast
    assert 4 / slow.milliseconds == 2


# --- recorded figures -----------------------------------------------------------------------------


def test_an_image_takes_a_fifth_of_a_microsecond_and_a_stack_of_1024_a_fifth_of_a_millisecond():
    (stack,) = find("reconstruct", variant="warp tiles", shape="1024x256x256x50", gpu="H200")
    assert stack.median == pytest.approx(0.2, abs=0.01)


def test_the_pipeline_waits_for_the_host_however_many_gpus_there_are():
    rates = dict(stage_rates.recorded("H200").alone)
    assert min(rates, key=rates.get) == "factorise"
    others = {stage: rate for stage, rate in rates.items() if stage != "factorise"}
    assert min(others, key=others.get) in ("decode", "write")
    for stage in ("decode", "write"):  # with all cores, too, both are slower than the GPU
        (figure,) = find("pipeline", variant=f"{stage}, 16 threads", metric="rate", gpu="H200")
        assert figure.median < rates["rebuild"]


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
    assert "exactly once" in judge_steady((5.25,) * 3, arrivals)
    assert "nan" in judge_steady((float("nan"),) * 3, arrivals)


# --- drawings -------------------------------------------------------------------------------------


def texts(picture):
    return "\n".join(
        text.get_text() for text in picture.findobj(match=lambda part: hasattr(part, "get_text"))
    )


def test_the_parts_are_named_and_each_worker_has_its_own_gpu():
    found = texts(scaling_pictures.parts(3))
    for word in ("your program", "the scheduler", "127.0.0.1", "called 0 by its worker"):
        assert word in found
    for worker in range(3):
        assert f"CUDA_VISIBLE_DEVICES={worker}," in found and f"GPU {worker}" in found
    with pytest.raises(ValueError, match="room for 1 to 4"):
        scaling_pictures.parts(5)


def test_pictures_are_drawn_and_small():
    killed = run([2.0] * 12, workers=3, killed=(1, 5.0), start_up=1.0)
    drawn = (
        scaling_pictures.parts(4),
        scaling_pictures.timelines({"killed": killed}, {"bound": 8.0}),
        scaling_pictures.speedups({"toy": {1: 1.0, 2: 1.9, 4: 3.5}}, {"toy": lambda n: n}),
    )
    for picture in drawn:
        png = picture.png()
        assert len(png) < 60_000
        pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
        assert pixels.shape[1] <= 900 and pixels.min() < 60
    for draw in (scaling_pictures.timelines, scaling_pictures.speedups):
        with pytest.raises(ValueError, match="at least one run|0 lines"):
            draw({})


# --- the lesson -----------------------------------------------------------------------------------


def test_workers_are_started_where_a_with_block_ends_them():
    path = next(path for path in lessons.paths() if path.stem.startswith("11"))
    text = path.read_text(encoding="utf-8")
    starts = [
        line.strip() for line in text.splitlines() if "cluster(" in line and "import" not in line
    ]
    calls = [line for line in starts if not line.startswith("#")]
    assert len(calls) == 3 and all(line.startswith("with cluster(") for line in calls)
