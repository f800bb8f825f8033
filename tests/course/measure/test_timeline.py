"""Timelines: what spans say of engines, and files of them."""

import random

import pytest

from course.measure import timeline
from course.measure.recorded import recordings
from course.measure.timeline import BadTimeline, Span, busy, one_at_a_time, read, together, write

HEADER = {"gpu": "NVIDIA Test", "date": "2026-11-21", "way": "a way"}


def spans(*times, lane="copy out"):
    return [Span(lane, lane, float(a), float(b), i, i % 3) for i, (a, b) in enumerate(times)]


def test_a_lane_is_busy_where_any_of_its_spans_is():
    assert busy(spans((0, 2), (1, 3), (1.5, 1.6), (5, 6)), "copy out") == 4
    assert busy(spans((5, 6), (0, 2)), "copy out") == 3
    assert busy(spans((0, 2)), "compute") == 0
    assert busy([], "copy out") == 0


def test_two_lanes_are_together_where_both_are_busy():
    both = spans((0, 2), (3, 5)) + spans((1, 4), lane="compute")
    assert together(both, "copy out", "compute") == 2
    assert together(both, "copy out", "copy in") == 0


def test_busy_time_equals_a_count_of_small_steps():
    rng = random.Random(3)
    for _ in range(20):
        many = spans(*((a, a + rng.randint(0, 9)) for a in rng.choices(range(40), k=8)))
        steps = sum(any(s.start <= t < s.end for s in many) for t in range(60))
        assert busy(many, "copy out") == steps


def test_an_engine_does_one_copy_at_a_time():
    seen = one_at_a_time(spans((0, 1), (0, 2), (0.5, 3), (7, 8)), ["copy out"])
    assert [(span.start, span.end) for span in seen] == [(0, 1), (1, 2), (2, 3), (7, 8)]
    assert [span.image for span in seen] == [0, 1, 2, 3]


def test_kernels_may_overlap():
    both = spans((0, 2), (1, 3), lane="compute")
    assert one_at_a_time(both, ["copy out"]) == tuple(both)


def test_what_is_written_is_read(tmp_path):
    path = write(tmp_path / "x-timeline-a.csv", spans((0, 1.25), (1.25, 3)), HEADER)
    assert read(path) == tuple(spans((0, 1.25), (1.25, 3)))
    assert timeline.header(path) == HEADER


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "columns must be name,lane"),
        ("a,b\n", "got a,b"),
        ("name,lane,start,end,image,stream\nx,y,2,1,0,0\n", "line 2: it lasts from 2.0 to 1.0"),
        ("# a=b\nname,lane,start,end,image,stream\nx,y,nan,1,0,0\n", "line 3"),
        ("name,lane,start,end,image,stream\nx,y,0,1,0\n", "line 2"),
        ("name,lane,start,end,image,stream\nx,y,0,one,0,0\n", "line 2"),
    ],
)
def test_a_file_that_is_no_timeline_is_refused_with_its_line(tmp_path, text, words):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(BadTimeline, match=words):
        read(path)


@pytest.mark.parametrize(
    ("given", "header"), [(spans((2, 1)), HEADER), (spans((0, 1)), {"a": "two\nlines"})]
)
def test_what_could_not_be_read_is_not_written(tmp_path, given, header):
    with pytest.raises(BadTimeline):
        write(tmp_path / "x.csv", given, header)
    assert not list(tmp_path.iterdir())


def test_a_recorded_timeline_is_found_by_its_name(tmp_path):
    write(tmp_path / "h200-timeline-3-streams.csv", spans((0, 1)), HEADER)
    assert timeline.names(folder=tmp_path) == ("3-streams",)
    assert timeline.recorded("3 streams", folder=tmp_path) == tuple(spans((0, 1)))
    with pytest.raises(LookupError, match="no timeline 'graph' is recorded on h200.*3-streams"):
        timeline.recorded("graph", folder=tmp_path)
    with pytest.raises(LookupError, match="there are: none"):
        timeline.recorded("graph", gpu="T4", folder=tmp_path)


def test_timelines_are_no_figures_and_do_not_disturb_them(tmp_path):
    write(tmp_path / "h200-timeline-3-streams.csv", spans((0, 1)), HEADER)
    assert recordings(folder=tmp_path) == ()
