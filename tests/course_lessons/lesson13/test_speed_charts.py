"""Charts of a micro-benchmark show the figures that they are given, and the published ones."""

import dataclasses

import pytest
from PIL import Image

from course.measure import recorded
from course.measure.recorded import Figure
from course_lessons.lesson13 import speed_charts
from course_recording.frame import charts_beside
from warpsim.draw.style import Picture

SMALL, LARGE = "1048576", str(1 << 26)
HEADER = {"gpu": "NVIDIA Fake 1", "course": "0.1.0", "date": "2026-01-01"}


def figure(variant, ms, shape=SMALL, metric="time", kernel="silu", dtype="float32"):
    size = 8 * int(shape) if metric == "time" else None
    return Figure(kernel, variant, shape, dtype, metric, "ms", ms, ms, ms, 30, size)


FIGURES = [
    figure("each", 0.4, LARGE),
    figure("wide", 0.2, LARGE),
    figure("torch", 0.3, LARGE),
    figure("torch, two kernels", 0.6, LARGE),
    figure("wide", 0.005),
    figure("wide", 0.02, metric="launch"),
    figure("wide", 0.03, metric="events"),
    figure("wide", 0.004, metric="graph"),
    figure("torch, two kernels", 0.01),
    figure("CUDA C++", 0.004),
    figure("wide", 0.9, kernel="gelu erf"),
    figure("wide", 0.1, dtype="float16"),
]


def texts(picture):
    return [text.get_text() for axes in picture.axes for text in axes.texts]


def marks(axes, marker):
    return [line.get_xdata()[0] for line in axes.lines if line.get_marker() == marker]


def test_what_was_published_is_kept_with_its_source():
    known = speed_charts.original()
    assert len(known) == 12
    assert known["silu", SMALL, "torch, two kernels"] == 0.1446
    assert known["layer norm + gelu", "4096x1024", "Triton"] == 0.2801
    assert speed_charts.original_speedups("silu", SMALL, "torch, two kernels")[
        "CUDA C++"
    ] == pytest.approx(1.878, abs=1e-3)
    assert speed_charts.original_speedups("silu", SMALL, "torch") == {}


def test_an_operation_has_a_panel_for_each_size_and_a_dot_for_each_time():
    picture = speed_charts.speed_chart(FIGURES, "silu")
    assert [axes.get_title(loc="left") for axes in picture.axes] == [
        "67,108,864 elements",
        "1,048,576 elements",
    ]
    large, small = picture.axes
    assert marks(large, "o") == [0.4, 0.2, 0.3, 0.6]
    assert marks(small, "o") == [0.005, 0.01, 0.004]
    assert marks(small, "|") == [0.02] and marks(small, ">") == [0.03]
    assert marks(small, "s") == [0.004]
    assert marks(small, "D") == [0.1446, 0.0770]  # of the programs that are there
    assert not marks(large, "D") and not marks(large, "|")
    assert "200 µs, 2,684 GB/s" in texts(picture)


def test_the_longest_name_fits_into_the_picture():
    wide = speed_charts.speed_chart(FIGURES, "silu").axes[0].get_position()
    for name in ("registers and shared memory", "registers, in the memory of another program"):
        picture = speed_charts.speed_chart([*FIGURES, figure(name, 0.25, LARGE)], "silu")
        renderer = picture.canvas.get_renderer()
        for axes in picture.axes:
            assert axes.yaxis.get_tightbbox(renderer).x0 >= 0
            place = axes.get_position()
            assert place.x0 == picture.axes[0].get_position().x0 > wide.x0
            assert place.x1 == pytest.approx(wide.x1)


def test_the_time_of_a_copy_is_drawn_where_no_cache_holds_the_data():
    large, small = speed_charts.speed_chart(FIGURES, "silu", bandwidth=4000).axes
    copied = 8 * int(LARGE) / 4000e6
    assert [line.get_xdata()[0] for line in large.lines if line.get_linestyle() == ":"] == [copied]
    assert not [line for line in small.lines if line.get_linestyle() == ":"]


def test_sizes_can_be_chosen_and_what_is_missing_is_said():
    (axes,) = speed_charts.speed_chart(FIGURES, "silu", shapes=[SMALL]).axes
    assert marks(axes, "o") == [0.005, 0.01, 0.004]
    with pytest.raises(ValueError, match="no time of 'mish'.*silu"):
        speed_charts.speed_chart(FIGURES, "mish")
    with pytest.raises(ValueError, match="no time of the size '7'"):
        speed_charts.speed_chart(FIGURES, "silu", shapes=["7"])


def test_speedups_are_against_one_kernel_and_against_two():
    found = speed_charts.speedups(FIGURES)
    assert found["silu", LARGE, "torch"] == {speed_charts.OURS: pytest.approx(1.5)}
    assert found["silu", LARGE, "torch, two kernels"] == {
        speed_charts.OURS: pytest.approx(3),
        "torch": pytest.approx(2),
    }
    assert found["silu", SMALL, "torch, two kernels"] == {
        speed_charts.OURS: pytest.approx(2),
        "CUDA C++": pytest.approx(2.5),
    }
    assert len(found) == 3


def test_the_chart_of_speedups_has_a_row_for_each_and_the_published_ratios():
    picture = speed_charts.speedup_chart(FIGURES)
    (axes,) = picture.axes
    assert len(axes.get_yticklabels()) == 3
    assert sorted(marks(axes, "D")) == pytest.approx([0.1446 / 0.1016, 0.1446 / 0.0770])
    with pytest.raises(ValueError, match="no operation in float16"):
        speed_charts.speedup_chart(FIGURES, dtype="float16")


def test_charts_stand_beside_their_file_all_or_none(tmp_path, monkeypatch):
    path = recorded.write(tmp_path / "fake1-activation.csv", HEADER, FIGURES)
    saved = charts_beside(path, speed_charts, bandwidth=4000)
    assert [file.name for file in saved] == [
        "fake1-activation-silu.png",
        "fake1-activation-speedups.png",
    ]
    for file in saved:
        with Image.open(file) as picture:
            assert picture.format == "PNG" and picture.width > 700
        file.unlink()

    def broken(self, dpi):
        raise RuntimeError("no paper")

    monkeypatch.setattr(Picture, "png", broken)
    with pytest.raises(RuntimeError):
        charts_beside(path, speed_charts)
    assert [file.name for file in tmp_path.iterdir()] == ["fake1-activation.csv"]


def test_a_bench_alone_without_peers_has_charts_of_its_steps_only():
    own = [dataclasses.replace(row) for row in FIGURES if row.variant in ("each", "wide")]
    assert list(speed_charts.charts(own)) == ["silu"]
