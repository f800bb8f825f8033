"""The model of overlap keeps its promises, and the Gantt charts show what they are given."""

import random

import numpy as np
import pytest

from course.measure.recorded import recorded
from course.measure.timeline import Span
from course_lessons.lesson08 import overlap, plots
from course_lessons.lesson08.overlap import DEFAULT_STREAM, ONE_COPY_ENGINE, STEPS, Link, Stage
from tests.pictures import assert_drawn

STAGE = Stage(1.0, 1.5, 1.25)


def random_stages(count):
    chance = random.Random(8)
    return [Stage(*(chance.uniform(0.1, 3.0) for _ in STEPS)) for _ in range(count)]


def assert_possible(spans, commands, engines=overlap.ENGINES):
    """Nothing overlaps in an engine or a stream, and each step waits for the one before it."""
    for key in (lambda n: spans[n].lane, lambda n: commands[n][2]):
        rows = {}
        for number in range(len(spans)):
            rows.setdefault(key(number), []).append(spans[number])
        for row in rows.values():
            row = sorted(row, key=lambda span: (span.start, span.end))
            assert all(a.end <= b.start + 1e-9 for a, b in zip(row, row[1:], strict=False))
    for span, (step, image, _) in zip(spans, commands, strict=True):
        assert (span.name, span.lane, span.image) == (step, engines[step], image)
    for image in {span.image for span in spans}:
        steps = {span.name: span for span in spans if span.image == image}
        assert steps["copy in"].end <= steps["kernel"].start + 1e-9
        assert steps["kernel"].end <= steps["copy out"].start + 1e-9


# --- the model ----------------------------------------------------------------------------------


def test_one_stream_overlaps_nothing():
    for stage in random_stages(20):
        spans = overlap.schedule(stage, 7, 1)
        assert overlap.length(spans) == pytest.approx(7 * stage.total)


@pytest.mark.parametrize("engines", [overlap.ENGINES, ONE_COPY_ENGINE])
def test_every_schedule_is_possible_and_none_beats_the_bound(engines):
    for stage in random_stages(20):
        for streams in (1, 2, 3, 5, 11):
            commands = overlap.in_turns(11, streams)
            spans = overlap.play(commands, stage, engines)
            assert_possible(spans, commands, engines)
            assert overlap.length(spans) >= overlap.least_length(stage, 11, engines) * (1 - 1e-12)


def test_enough_streams_reach_the_bound_but_for_the_two_ends():
    for stage in random_stages(40):
        enough = -int(-stage.total // stage.busiest())
        best = 29 * stage.busiest() + stage.total  # nothing waits but for the first and the last
        assert overlap.length(overlap.schedule(stage, 30, enough)) == pytest.approx(best)
        assert overlap.length(overlap.schedule(stage, 30, 30)) == pytest.approx(best)
        if enough > 1:
            assert overlap.length(overlap.schedule(stage, 30, enough - 1)) > best * 1.0001


def test_the_originals_order_copies_nothing_back_before_all_kernels_are_done():
    for pageable in (False, True):
        spans = overlap.schedule(STAGE, 6, 6, order=overlap.back_at_the_end, pageable=pageable)
        kernels = [span.end for span in spans if span.name == "kernel"]
        backs = [span.start for span in spans if span.name == "copy out"]
        assert min(backs) >= max(kernels)
        assert overlap.length(spans) > overlap.length(overlap.schedule(STAGE, 6, 6))


def test_pageable_copies_make_the_host_wait_so_that_nothing_overlaps():
    """Queued image by image, each copy back holds the host until the image is there."""
    spans = overlap.schedule(STAGE, 5, 5, pageable=True)
    assert overlap.length(spans) == pytest.approx(5 * STAGE.total)


def test_the_default_stream_waits_for_all_and_all_wait_for_it():
    commands = [("copy in", 0, 0), ("kernel", 0, DEFAULT_STREAM), ("copy in", 1, 1)]
    first, default, after = overlap.play(commands, STAGE)
    assert default.start == first.end and after.start == default.end
    mixed = [("kernel", 0, 0), ("copy out", 1, DEFAULT_STREAM), ("copy in", 2, 2)]
    spans = overlap.play(mixed, STAGE)
    assert [span.start for span in spans] == [0, 1.5, 2.75]


def test_what_queueing_costs_the_host_binds_where_the_work_is_short():
    short = Stage(0.001, 0.002, 0.001)
    spans = overlap.schedule(short, 20, 4, issue=0.01)
    assert overlap.length(spans) == pytest.approx(60 * 0.01 + 0.001)
    assert overlap.length(overlap.schedule(short, 20, 4)) < 0.05


def test_an_engine_takes_what_was_ready_first_in_whatever_order_it_was_queued():
    turns = overlap.in_turns(12, 4)
    by_stream = sorted(turns, key=lambda command: command[2])
    length = overlap.length(overlap.play(turns, STAGE))
    assert overlap.length(overlap.play(by_stream, STAGE)) <= 1.05 * length


def test_busy_shares_are_work_over_time():
    spans = overlap.schedule(STAGE, 4, 1)
    shares = overlap.busy_shares(spans)
    assert shares == pytest.approx({"copy in": 4 / 15, "compute": 6 / 15, "copy out": 5 / 15})


def test_what_cannot_be_played_is_refused():
    with pytest.raises(ValueError, match="command 1 is 'launch'; a step is one of copy in"):
        overlap.play([("launch", 0, 0)], STAGE)
    with pytest.raises(ValueError, match="streams are numbers from 0"):
        overlap.play([("kernel", 0, -2)], STAGE)
    with pytest.raises(ValueError, match="kernel is -1"):
        Stage(1.0, -1, 1.0)
    with pytest.raises(ValueError, match="all three times are 0"):
        Stage(0, 0, 0)
    with pytest.raises(ValueError, match="streams is 0; give 1 or more"):
        overlap.schedule(STAGE, 4, 0)
    with pytest.raises(ValueError, match="k is 9; it must be from 1 to 8"):
        overlap.stage_of(8, 12, 9, Link(10, 10), kernel=1.0)
    with pytest.raises(LookupError, match="'pinned' or 'pageable'"):
        overlap.recorded_link("swapped")


# --- from bytes and rates -----------------------------------------------------------------------


def test_a_stage_is_bytes_over_rates():
    stage = overlap.stage_of(100, 50, 10, Link(2.0, 4.0), kernel=0.5)
    assert stage.copy_in == pytest.approx(4 * (100 * 10 + 10 + 10 * 50) / 2e9 * 1e3)
    assert stage.copy_out == pytest.approx(4 * 100 * 50 / 4e9 * 1e3)
    whole = overlap.stage_of(100, 50, 10, Link(2.0, 4.0), kernel=0.5, whole=True)
    assert whole.copy_in == pytest.approx(4 * (100 * 50 + 50 + 50 * 50) / 2e9 * 1e3)
    assert (whole.kernel, whole.copy_out) == (0.5, stage.copy_out)


@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_a_recorded_link_is_that_of_the_largest_copies(memory):
    link = overlap.recorded_link(memory)
    for direction, rate in (("in", link.into), ("out", link.out)):
        figures = recorded("transfers", variant=f"{memory} {direction}", gpu="H200")
        largest = max(figures, key=lambda figure: figure.bytes)
        assert rate == pytest.approx(largest.bytes / largest.median * 1e-6)


# --- laws ---------------------------------------------------------------------------------------


def test_karp_and_flatt_undo_amdahl():
    for serial in (0.0, 0.013, 0.3, 1.0):
        for workers in (2, 3, 64):
            speedup = overlap.amdahl(serial, workers)
            assert overlap.serial_fraction(speedup, workers) == pytest.approx(serial)


def test_amdahl_ends_at_one_over_the_fraction_and_gustafson_does_not():
    assert overlap.amdahl(0.1, 1e9) == pytest.approx(10)
    assert overlap.gustafson(0.1, 1000) == pytest.approx(900.1)
    assert overlap.amdahl(0.25, 1) == overlap.gustafson(0.25, 1) == 1


def test_a_slow_down_is_a_fraction_above_1():
    assert overlap.serial_fraction(36.8 / 44.0, 10) > 1


def test_the_laws_refuse_what_is_no_fraction():
    for law in (overlap.amdahl, overlap.gustafson):
        with pytest.raises(ValueError, match="serial fraction is 1.2"):
            law(1.2, 4)
        with pytest.raises(ValueError, match="workers is 0"):
            law(0.2, 0)
    with pytest.raises(ValueError, match="more than one worker"):
        overlap.serial_fraction(1.0, 1)
    with pytest.raises(ValueError, match="must be above 0"):
        overlap.serial_fraction(0.0, 4)


@pytest.mark.slow
def test_the_share_of_the_busiest_engine_is_the_serial_fraction_of_many_streams():
    for stage in random_stages(10):
        serial = overlap.length(overlap.schedule(stage, 400, 1))
        best = overlap.length(overlap.schedule(stage, 400, 8))
        assert serial / best == pytest.approx(stage.total / stage.busiest(), rel=0.02)


# --- pictures -----------------------------------------------------------------------------------


def boxes(axes):
    return [(box.get_x(), box.get_width(), box.get_y() + box.get_height() / 2)
            for box in axes.patches]  # fmt: skip


def test_a_gantt_draws_every_span_in_its_row():
    spans = overlap.schedule(STAGE, 5, 3)
    engines = plots.gantt(spans, "model").axes[0]
    rows = {"copy in": 0, "compute": 1, "copy out": 2}
    expected = [(span.start, span.milliseconds, rows[span.lane]) for span in spans]
    assert np.allclose(boxes(engines), expected)
    assert [label.get_text() for label in engines.get_yticklabels()] == list(rows)
    streams = plots.gantt(spans, "model", "stream").axes[0]
    assert np.allclose(boxes(streams), [(s.start, s.milliseconds, s.stream) for s in spans])
    assert streams.get_ylim()[0] > streams.get_ylim()[1]  # stream 0 on top


def test_charts_below_each_other_share_their_axis_and_marks():
    charts = {f"{n} streams": overlap.schedule(STAGE, 6, n) for n in (1, 3)}
    picture = plots.gantts(charts, marks={"the bound": overlap.least_length(STAGE, 6)})
    first, second = picture.axes
    assert first.get_xlim() == second.get_xlim()
    assert first.get_xlim()[1] >= overlap.length(charts["1 streams"])
    words = ("the bound", "1 streams", "3 streams", "kernel", "time [ms]")
    assert_drawn(picture, *words)


def test_many_streams_and_other_lanes_can_be_drawn():
    many = overlap.schedule(STAGE, 40, 40)
    assert plots.gantt(many, rows="stream").get_size_inches()[1] < 6
    other = (Span("allocate", "host", 0.0, 1.0), Span("kernel", "compute", 1.0, 3.0, 0))
    axes = plots.gantt(other).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["host", "compute"]


def test_nothing_to_draw_is_said():
    with pytest.raises(ValueError, match="nothing to draw in nobody; give spans"):
        plots.gantt([], "nobody")
    with pytest.raises(ValueError, match='give "lane" or "stream"'):
        plots.gantt([Span("kernel", "compute", 0.0, 1.0)], rows="engine")
