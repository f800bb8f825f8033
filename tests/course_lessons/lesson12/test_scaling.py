"""Where a run's time went, what the laws make of it, and the bench that measures it."""

import io
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from course.measure import recorded
from course.measure.recorded import Figure
from course_app.cluster import work
from course_app.cluster.work import Done, Recipe
from course_lessons.lesson08.overlap import amdahl, gustafson
from course_lessons.lesson12 import plots, toy_cluster
from course_lessons.lesson12.scaling import Parts, Scaling, parts, scalings, variant
from course_recording.frame import charts_beside

HEADER = {"gpu": "Tesla T4", "course": "0.1.0", "date": "2026-11-22"}


def done(*spans):
    return [Done(n, None, str(n % 2), start, end) for n, (start, end) in enumerate(spans)]


def test_a_run_is_cut_where_the_first_batch_begins_and_the_last_ends():
    # two workers: 2 to 6 and 6 to 8, 3 to 9 seconds; results are there at 10
    its = parts(0.0, 10.0, done((2.0, 6.0), (3.0, 9.0), (6.0, 8.0)), 2)
    assert (its.total, its.start, its.gathering) == (10e3, 2e3, 1e3)
    assert its.working == pytest.approx(6e3)  # 12 s on two workers
    assert its.waiting == pytest.approx(1e3)  # one waits a second at both ends
    assert its.serial_share == pytest.approx(0.3)
    assert its.total == pytest.approx(its.serial + its.working + its.waiting)


@pytest.mark.parametrize("spans", [(), ((-1.0, 2.0),), ((1.0, 11.0),)])
def test_batches_outside_of_their_run_are_refused(spans):
    with pytest.raises(ValueError, match="must all|all must lie inside"):
        parts(0.0, 10.0, done(*spans), 1)


def test_the_laws_explain_a_run_of_their_own_making():
    serial = 0.08
    its = Scaling(
        "4x8x8x2",
        {n: 100 / amdahl(serial, n) for n in (1, 2, 4)},
        {1: 100, 2: 100, 4: 100},
        serial,
    )
    for n in (2, 4):
        assert its.speedup(n) == pytest.approx(its.amdahl(n))
        assert its.karp_flatt(n) == pytest.approx(serial)
        assert its.scaled_speedup(n) == pytest.approx(its.gustafson(n))
        assert its.efficiency(n) == pytest.approx(its.gustafson(n) / n)


@pytest.mark.parametrize("hand_out", [0.0, 0.5])
@pytest.mark.parametrize("workers", [2, 8, 16])
def test_the_scaled_speedup_is_that_of_one_worker_who_does_it_all(workers, hand_out):
    def time(share, count):
        return toy_cluster.play_cluster(
            [4.0] * 160 * share, count, start_up=20.0, hand_out=hand_out
        ).milliseconds

    one = time(1, 1)
    its = Scaling("4x8x8x2", {1: one}, {1: one, workers: time(workers, workers)}, 20 / one)
    assert its.scaled_speedup(workers) == pytest.approx(time(workers, 1) / its.weak[workers])
    assert its.scaled_speedup(workers) <= its.gustafson(workers) + 1e-9
    assert its.efficiency(workers) == its.scaled_speedup(workers) / workers


def row(kernel, count, metric, value, shape="4x8x8x2"):
    unit = "ms" if metric == "time" else "relative"
    return Figure(kernel, variant(count), shape, "float32", metric, unit, value, value, value, 1)


ROWS = [
    row("strong scaling", 1, "time", 100.0), row("strong scaling", 2, "time", 55.0),
    row("weak scaling", 1, "time", 100.0), row("weak scaling", 2, "time", 110.0),
    row("strong scaling", 4, "time", 32.0), row("weak scaling", 4, "time", 130.0),
    row("strong scaling", 1, "serial fraction", 0.05),
    row("strong scaling", 2, "serial fraction", 0.3),
    row("strong scaling", 1, "time", 9.0, "half"), row("empty batch", 1, "time", 1.0, ""),
]  # fmt: skip


def test_scaling_is_read_from_rows():
    (its,) = scalings(ROWS)
    strong, weak = {1: 100.0, 2: 55.0, 4: 32.0}, {1: 100.0, 2: 110.0, 4: 130.0}
    assert its == Scaling("4x8x8x2", strong, weak, 0.05)
    assert its.speedup(2) == pytest.approx(100 / 55)
    assert its.scaled_speedup(2) == pytest.approx(195 / 110)
    assert its.speedup(4) == pytest.approx(100 / 32)
    assert its.scaled_speedup(4) == pytest.approx(385 / 130)


def test_the_chart_shows_marks_at_the_measured_speed_ups_and_the_laws(tmp_path):
    picture = plots.scaling_chart(scalings(ROWS), "Tesla T4")
    strong, weak = picture.axes
    marks = next(line for line in strong.lines if line.get_marker() == "o")
    assert np.allclose(marks.get_xydata(), [[1, 1], [2, 100 / 55], [4, 100 / 32]])
    marks = next(line for line in weak.lines if line.get_marker() == "o")
    assert np.allclose(marks.get_xydata(), [[1, 100], [2, 97.5 / 1.1], [4, 96.25 / 1.3]])
    laws = [axes.lines[-1].get_xydata() for axes in (strong, weak)]
    assert np.allclose(laws[0][:, 1], [amdahl(0.05, n) for n in laws[0][:, 0]])
    assert np.allclose(laws[1][:, 1], [100 * gustafson(0.05, n) / n for n in laws[1][:, 0]])
    with Image.open(io.BytesIO(picture.png())) as image:
        assert min(image.size) > 300
    with pytest.raises(ValueError, match="0 kinds of batches"):
        plots.scaling_chart([])
    path = recorded.write(tmp_path / "t4-cluster.csv", HEADER, ROWS[:-2])
    assert [one.name for one in charts_beside(path, plots)] == ["t4-cluster-scaling.png"]
    alone = [one for one in ROWS[:-2] if one.variant == "1 worker"]
    path = recorded.write(tmp_path / "t4-one.csv", HEADER, alone)
    assert charts_beside(path, plots) == []


def test_marks_of_several_kinds_are_all_seen_where_they_meet():
    found = scalings([*ROWS, *(replace(one, shape="8x8x8x2") for one in ROWS[:-2])])
    picture = plots.scaling_chart(found, "Tesla T4")
    for axes in picture.axes:
        assert axes.get_xlim()[1] > 4 and list(axes.get_xticks()) == [1, 2, 3, 4]
        first, second = (line for line in axes.lines if len(line.get_xdata()) == 3)
        assert (first.get_xydata() == second.get_xydata()).all()
        assert first.get_markersize() < second.get_markersize()
        assert second.get_markerfacecolor() == "none" != first.get_markerfacecolor()
    assert all(float(tick).is_integer() for tick in picture.axes[0].get_yticks())


# --- the bench, on CPU workers --------------------------------------------------------------------


@pytest.fixture
def bench(monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed")
    from course_recording.frame import Bench
    from course_recording.subjects import cluster

    monkeypatch.setattr(cluster, "EMPTY", 8)
    frame = Bench("cluster", None, say=lambda _: None)
    case = cluster.Case(3, 40, 24, 5, kept=4, passes=2, runs=2)
    return SimpleNamespace(module=cluster, frame=frame, case=case)


@pytest.mark.slow
def test_the_bench_measures_one_two_and_four_workers(bench, tmp_path):
    frame = bench.frame
    bench.module.measure(frame, bench.module.WORKERS, (bench.case,), gpus=False)
    assert not frame.failures
    assert frame.notes[0].startswith("Dask 20")
    assert frame.notes[1:] == [f"worker {number}: CPU" for number in range(4)]
    found = {(one.kernel, one.variant, one.metric): one for one in frame.rows}
    for kernel in ("start of workers", "empty batch", "travelling batches"):
        for count in (1, 2, 4):
            assert found[kernel, variant(count), "time"].median > 0
    for law in ("strong", "weak"):
        for count in (1, 2, 4):
            time = found[f"{law} scaling", variant(count), "time"]
            assert time.shape == "3x40x24x5" and time.n == 2
            images = 24 * (count if law == "weak" else 1)
            assert time.operations == 2 * 40 * 24 * 5 * images
            share = found[f"{law} scaling", variant(count), "serial fraction"].median
            assert 0 < share < 1
    assert found["strong scaling", "1 worker", "error"].median < 1e-6
    one, *more = (found["strong scaling", variant(n), "time"].median for n in (1, 2, 4))
    for n, time in zip((2, 4), more, strict=True):
        assert found["strong scaling", variant(n), "speed-up"].median == pytest.approx(one / time)
    serial = found["strong scaling", "1 worker", "serial fraction"].median
    for n in (2, 4):
        law = found["strong scaling", variant(n), "Amdahl"].median
        assert law == pytest.approx(amdahl(serial, n))
    path = recorded.write(tmp_path / "cpu-cluster.csv", HEADER, frame.rows)
    (its,) = scalings(recorded.read(path).figures)
    assert set(its.strong) == set(its.weak) == {1, 2, 4}


def test_wrong_images_and_impossible_times_are_no_rows(bench):
    module, frame = bench.module, bench.frame
    digests = {1: np.arange(4, dtype=np.uint64), 2: np.arange(8, dtype=np.uint64)}
    module.same(frame, "weak", digests)
    assert not frame.failures
    digests[2][3] = 9
    module.same(frame, "weak", digests)
    assert frame.failures == ["weak: 2 workers gave other images than one"]
    frame.roofs = SimpleNamespace(bandwidth=1e-3)
    quick = Parts(1.0, 0.1, 0.1, 0.8, 1)
    module.keep_law(frame, "strong", "3x40x24x5", bench.case, 3, {1: [quick]})
    assert "less than the memory needs" in frame.failures[-1] and not frame.rows


def test_batches_fit_in_the_memory_that_is_free(bench):
    whole = bench.module.Case(1000, 64, 64, 8, kept=4, passes=1, runs=1)
    assert [one.images for one in whole.batches(2, 0)] == [1000, 1000]
    one = Recipe(0, 1, 64, 64, 8).bytes
    (few,) = whole.batches(1, 4 * 25 * one)
    assert bench.module.MEMORY * 25 >= few.images == 8
    assert few.bytes == work.make(few, "numpy").__sizeof__() > 0
