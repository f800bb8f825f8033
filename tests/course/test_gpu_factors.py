"""The pipeline's second stage on the GPU: the same factors in any stack, clear refusals."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from course import backend
from course.images.images import psnr
from course.images.reading import ImageError
from course.pipeline import pipeline
from course.pipeline.engines import GpuFactors, choose_svd
from course.pipeline.stages import Workers
from recording.subjects import pipeline as bench_pipeline


@pytest.fixture
def stack():
    rng = np.random.default_rng(4)
    return [rng.random((20, 28), dtype=np.float32) for _ in range(3)]


def test_an_image_has_the_same_factors_in_any_stack(stack):
    together, alone = GpuFactors(3, 5)(stack), GpuFactors(3, 5)(stack[1:2])
    assert [part.shape for part in together[0]] == [(20, 8), (8,), (8, 28)]
    assert all(np.array_equal(x, y) for x, y in zip(together[1], alone[0], strict=True))
    for image, (_, s, _) in zip(stack, together, strict=True):
        exact = np.linalg.svd(image.astype(np.float64), compute_uv=False)
        np.testing.assert_allclose(s, exact[:8], atol=5e-7 * exact[0])


def test_an_image_that_does_not_converge_goes_to_the_cpu(stack, monkeypatch):
    from course.kernels import svd

    def fail(*_):
        raise svd.NotConverged

    monkeypatch.setattr(GpuFactors, "_factors", fail)
    u, s, vt = GpuFactors(3, 20)(stack)[2]
    np.testing.assert_allclose((u * s) @ vt, stack[2], atol=1e-5)


def test_memory_that_does_not_suffice_is_told(stack, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(GpuFactors, "_factors", fail)
    with pytest.raises(MemoryError, match="factorise 32 images of 20x28.*--svd cpu"):
        GpuFactors(32, 4)(stack)


def test_who_factorises(monkeypatch):
    assert choose_svd("cpu", 5000, 5000) == "cpu"
    monkeypatch.setattr(backend, "gpu", lambda: None)
    assert choose_svd("auto", 256, 256) == "cpu"
    with pytest.raises(ImageError, match="no usable GPU.*--svd cpu"):
        choose_svd("gpu", 256, 256)
    monkeypatch.setattr(backend, "gpu", lambda: "a GPU")
    assert choose_svd("auto", 256, 1024) == "gpu" and choose_svd("auto", 256, 1025) == "cpu"
    with pytest.raises(ImageError, match="1025x256.*up to 1024"):
        choose_svd("gpu", 1025, 256)
    with pytest.raises(ImageError, match="svd is 'tpu'; allowed are cpu, gpu, auto"):
        choose_svd("tpu", 8, 8)


def test_without_svds_the_cpu_decodes_and_writes():
    share = Workers.share(16, svd="gpu")
    assert share.decode >= 5 and share.write >= 10
    assert Workers.share(16).factorise == 13


def test_the_whole_pipeline_on_the_gpu(tmp_path, monkeypatch):
    """Images in, factors, reconstructions, images out; here the simulator is the GPU."""
    rng = np.random.default_rng(8)
    folder = tmp_path / "in"
    folder.mkdir()
    for name in "abcde":
        pixels = (255 * rng.random((16, 12))).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    results = {}
    for svd in ("gpu", "cpu"):
        monkeypatch.setattr(pipeline, "choose_svd", lambda *_, svd=svd: svd)
        results[svd] = pipeline.reconstruct_images(
            [folder], [3, 12], tmp_path / svd, size=(16, 12), engine="numpy", batch=2, svd=svd
        )
    assert "SVDs on the GPU" in results["gpu"].engine
    assert "GPU" not in results["cpu"].engine
    pairs = zip(results["gpu"].qualities, results["cpu"].qualities, strict=True)
    for ours, exact in pairs:
        assert ours.name == exact.name and ours.k == exact.k
        if ours.k < 12:  # of all twelve only rounding is left
            assert ours.psnr_db == pytest.approx(exact.psnr_db, abs=1e-3)
        files = [np.asarray(Image.open(r.out / q.file), np.float64) / 255
                 for r, q in ((results["gpu"], ours), (results["cpu"], exact))]  # fmt: skip
        assert psnr(*files) > 55


@pytest.mark.slow
def test_the_bench_of_the_pipeline_with_svds_on_the_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "choose_svd", lambda *_: "gpu")
    monkeypatch.setattr(bench_pipeline, "SIDE", 16)
    monkeypatch.setattr(bench_pipeline, "RANK", 3)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        bench_pipeline._make(folder, range(number, number + 1))
    bench = SimpleNamespace(rows=[], say=lambda _: None)
    files = sorted(folder.iterdir())
    bench_pipeline.with_gpu_svds(bench, folder, tmp_path / "out", files, 0.01)
    assert [row.variant.split(",")[0] for row in bench.rows] == ["factorise on the GPU", "whole"]
    assert bench.rows[1].n == 3 and all(row.median > 0 for row in bench.rows)
