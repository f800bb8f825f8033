"""Rates of the pipeline's stages: recorded ones are read as the bench writes them, own ones fit."""

import pytest

from course.measure import recorded
from course_lessons.lesson09 import stage_rates
from course_recording.subjects import pipeline as bench_pipeline
from tests.course_recording.untimed import Untimed

HEADER = {"gpu": "NVIDIA H200", "course": "0", "date": "2026-01-02"}
ALONE = {"decode": 900.0, "factorise": 640.0, "rebuild": 20_000.0, "write": 1_500.0}


def written(folder, cores=16):
    """A file as the bench writes it on a machine with so many cores."""
    share = stage_rates.share_of(cores)
    bench = Untimed()
    for stage, rate in ALONE.items():
        there = share[stage]
        for number in sorted({1, there, cores} if stage != "rebuild" else {1}):
            found = rate if number == there else rate / there if number == 1 else 7.0
            bench_pipeline.keep(bench, f"{stage}, {bench_pipeline.several(number)}", 500, found)
    threads = f"{cores} threads"
    bench_pipeline.keep(bench, f"factorise, BLAS as NumPy starts it, {threads}", 9, 3.0)
    for program, rate in ("plain script", 200.0), ("reconstruct_images, svd cpu", 608.0):
        bench_pipeline.keep(bench, f"{program}, {cores} processes", 10_000, rate)
    recorded.write(folder / "h200-pipeline.csv", HEADER, bench.rows)


@pytest.mark.parametrize("cores", [2, 3, 16, 64])
def test_recorded_rates_are_those_that_the_bench_writes(tmp_path, cores):
    written(tmp_path, cores)
    rates = stage_rates.recorded(folder=tmp_path)
    assert dict(rates.alone) == ALONE
    assert rates.whole == 608 and rates.images == 10_000
    assert rates.slowest == "factorise" and rates.share == pytest.approx(0.95)
    assert rates.threads == stage_rates.share_of(cores)
    text = str(rates)
    for words in (f"{cores} cores and an NVIDIA H200", "the slowest", "10,000 images", "95%"):
        assert words in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("cores", [1, 2, 7, 16, 32, 128])
def test_a_share_of_the_cores_is_a_thread_or_more_and_all_are_about_the_cores(cores):
    share = stage_rates.share_of(cores)
    assert list(share) == list(stage_rates.STAGES) and min(share.values()) == 1 or cores > 12
    assert share["rebuild"] == 1 and share["factorise"] == max(share.values())
    its = [share[stage] for stage in stage_rates.COSTS]
    assert cores - 1 <= sum(its) <= max(cores + 1, 3)


def test_without_a_file_nothing_is_recorded(tmp_path):
    assert stage_rates.recorded(folder=tmp_path) is None


def test_what_is_recorded_in_the_course_fits_what_lesson_09_says():
    rates = stage_rates.recorded("H200")
    if rates is None:
        pytest.skip("python -m course bench pipeline was not recorded")
    assert rates.images == 10_000 and rates.share > 1  # by processes, not threads
    cost = {stage: 1 / rate for stage, rate in rates.one_thread.items()}
    assert max(cost, key=cost.get) == "factorise"


def test_threads_did_not_scale_where_python_holds_the_lock_and_did_where_lapack_lets_go():
    def rate(variant):
        (found,) = recorded.recorded("pipeline", variant=variant, metric="rate", gpu="H200")
        return found.median

    gains = {
        stage: rate(f"{stage}, 16 threads") / rate(f"{stage}, 1 thread")
        for stage in ("decode", "factorise", "write")
    }
    assert gains["decode"] < 1.5 and gains["write"] < 3 and gains["factorise"] > 4
    programs = "plain script", "reconstruct_images, svd cpu", "reconstruct_images, svd gpu"
    rates = [rate(f"{name}, 16 processes") for name in programs]
    assert rates == sorted(rates)


def test_measuring_here_gives_every_stage_a_rate_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    rates = stage_rates.measure(count=12, seconds=0.02, side=32, k=4)
    assert set(rates.alone) == set(rates.one_thread) == set(stage_rates.STAGES)
    assert min(*rates.alone.values(), *rates.one_thread.values(), rates.whole) > 0
    assert rates.threads["rebuild"] == 1
    assert list(tmp_path.iterdir()) == []
    assert str(rates).startswith("here: ")
