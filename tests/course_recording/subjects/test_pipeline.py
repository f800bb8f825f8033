"""The bench of the pipeline: every stage alone, the command beside the plain script."""

import csv
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from course.images import images
from course.measure import recorded
from course_app.pipeline import capacity
from course_lessons.lesson09 import stage_rates
from course_recording.frame import Bench
from course_recording.subjects import pipeline as subject


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(subject, "make_images", lambda f, count: subject._make(f, range(count)))
    monkeypatch.setattr(subject, "SAMPLE", 4)
    return Bench("pipeline", None, say=lambda text: None)


def rates_of(tmp_path, frame):
    header = {"gpu": "none", "course": "0", "date": "2026-01-01"}
    path = recorded.write(tmp_path / "none-pipeline.csv", header, frame.rows)
    return {f.variant: f.median for f in recorded.read(path).figures if f.metric == "rate"}


def test_every_stage_has_a_rate_on_a_thread_on_its_share_and_on_all_cores(
    tmp_path, monkeypatch, quick
):
    monkeypatch.setattr(subject, "whole", lambda *_: None)
    monkeypatch.setattr(subject, "cores", lambda: 3)

    timed = subject.rate_of

    def rate_of(*given, **more):  # on a busy machine nothing may be done in so short a time
        while not (found := timed(*given, **more))[0]:
            pass
        return found

    monkeypatch.setattr(subject, "rate_of", rate_of)
    subject.measure(quick, tmp_path, 6, 0.02)
    rates, share = rates_of(tmp_path, quick), stage_rates.share_of(3)
    for stage in stage_rates.STAGES:
        for count in {1, share[stage], 3} if stage != "rebuild" else {1}:
            assert rates[f"{stage}, {subject.several(count)}"] > 0
    assert rates["factorise, BLAS as NumPy starts it, 3 threads"] > 0
    assert np.asarray(Image.open(tmp_path / "images" / "image00003.png")).std() > 10


@pytest.mark.slow
def test_the_command_is_timed_beside_the_plain_script(tmp_path, quick):
    subject.measure(quick, tmp_path, 6, 0.02)
    assert not quick.failures
    rates, count = rates_of(tmp_path, quick), capacity.cores()
    processes = subject.several(count, "process", "processes")
    ours, script = (
        rates[f"{name}, {processes}"] for name in ("reconstruct_images, svd cpu", "plain script")
    )
    ratio, *_ = (row.median for row in quick.rows if row.metric == "speed of the script")
    assert ratio == pytest.approx(ours / script, rel=1e-4)
    stages = {
        s: rates[f"{s}, {subject.several(n)}"] for s, n in stage_rates.share_of(count).items()
    }
    (share,) = [row.median for row in quick.rows if row.metric == "share of the slowest stage"]
    assert share == pytest.approx(ours / min(stages.values()), rel=1e-4)
    assert any("of the stages" in note for note in quick.notes)
    found = stage_rates.recorded("none", tmp_path)
    assert found.whole == ours and dict(found.alone) == stages


@pytest.mark.slow
def test_the_plain_script_does_the_work_of_the_command(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    subject._make(folder, range(3))
    subprocess.run([sys.executable, subject.SCRIPT, folder, out, "2", "10", "50"], check=True)
    with open(out / "quality.csv", newline="") as file:
        rows = sorted(csv.reader(file))
    assert [(row[0], row[1]) for row in rows] == [
        (f"image{number:05}.png", k) for number in range(3) for k in ("10", "50")
    ]
    for name, k, psnr_db, ssim in rows:
        image = images.load_image(folder / name, 256)
        rebuilt = np.clip(images.reconstruct(*images.svd(image), int(k)), 0, 1)
        assert float(psnr_db) == pytest.approx(images.psnr(image, rebuilt), abs=0.01)
        assert float(ssim) == pytest.approx(images.ssim(image, rebuilt), abs=1e-3)
        assert Image.open(out / f"{name[:-4]}_k{k}.png").size == (256, 256)


@pytest.mark.slow
def test_what_a_gpu_does_alone_has_a_rate(tmp_path, monkeypatch):
    """Here on the simulator."""
    monkeypatch.setattr(subject, "SIDE", 16)
    monkeypatch.setattr(subject, "RANK", 3)
    monkeypatch.setattr(capacity, "LARGEST_BATCH", 2)
    subject._make(tmp_path, range(3))
    bench = Bench("pipeline", None, say=lambda _: None)
    subject.gpu_alone(bench, sorted(tmp_path.iterdir()), 0.01)
    (row,) = bench.rows
    assert row.variant == "factorise, rebuild and judge on the GPU, 1 thread" and row.median > 0
