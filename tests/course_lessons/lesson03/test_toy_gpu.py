"""The GPU of arithmetic behaves as the real one does: launches return, work queues up."""

import numpy as np
import pytest

from course_lessons.lesson03.toy_gpu import DISTURBANCE, DISTURBED, MOST_READINGS, ToyGPU

NEAR = pytest.approx


def test_a_launch_returns_before_its_work_is_done():
    toy = ToyGPU(work=2.0, launch=0.3, compiling=0.0, steady=True)
    start = toy.clock()
    toy.launch()
    assert toy.clock() - start == NEAR(0.3e-3, abs=1e-6)
    toy.synchronize()
    assert toy.clock() - start == NEAR(2.3e-3, abs=1e-6)


def test_launches_wait_for_each_other_and_for_what_was_queued():
    toy = ToyGPU(work=2.0, launch=0.3, compiling=0.0, queued=5.0, steady=True)
    for _ in range(3):
        toy.launch()
    work = [span for span in toy.spans if span.what == "work"]
    assert work[0].start == NEAR(5e-3)
    assert all(one.end == other.start for one, other in zip(work, work[1:], strict=False))
    toy.synchronize()
    assert toy.clock() == NEAR(11e-3, abs=1e-6)


def test_only_the_first_launch_compiles():
    toy = ToyGPU(compiling=150.0)
    for _ in range(4):
        toy.launch()
    assert [span.what for span in toy.spans if span.where == "host"] == ["compile"] + 4 * ["launch"]


def test_events_measure_the_gap_when_the_gpu_waits_for_the_host():
    def between(queued):
        toy = ToyGPU(work=0.02, launch=0.1, compiling=0.0, queued=queued, steady=True)
        begin = toy.event()
        for _ in range(3):
            toy.launch()
        return (toy.event() - begin) * 1e3

    assert between(queued=0.0) == NEAR(0.32)
    assert between(queued=1.0) == NEAR(0.06)


def test_every_seventh_launch_is_disturbed_and_the_median_does_not_care():
    toy = ToyGPU(work=2.0)
    for _ in range(70):
        toy.launch()
    times = np.array([span.end - span.start for span in toy.spans if span.what == "work"]) * 1e3
    assert (times > 2.0 * DISTURBANCE - 0.1).sum() == 70 // DISTURBED
    assert np.median(times) == NEAR(2.0, rel=0.01)
    assert times.mean() == NEAR(2.0 * (1 + (DISTURBANCE - 1) / DISTURBED), rel=0.01)


def test_a_loop_that_only_reads_the_clock_ends():
    toy = ToyGPU()
    toy.readings = MOST_READINGS
    with pytest.raises(RuntimeError, match="a million times"):
        toy.clock()


def test_a_reading_while_nothing_runs_is_noted_with_the_launches_before_it():
    toy = ToyGPU(work=2.0)
    for waits in (False, True, False):
        toy.launch()
        if waits:
            toy.synchronize()
        toy.clock()
    assert toy.over == {2}
