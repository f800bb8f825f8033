"""The pipeline: right whatever finishes first, bounded, stopped in order by whatever goes wrong."""

import csv
import errno
import io
import json
import os
import shutil
import threading
import warnings

import numpy as np
import pytest
from PIL import Image
from threadpoolctl import threadpool_info

from course import files
from course.images import images, reading
from course.images.reading import ImageError
from course_app.pipeline import inputs, pipeline, results, stages
from course_app.pipeline import threads as blas
from course_app.pipeline import threads as heap
from course_app.pipeline.engines import Halving, by_gpu, by_numpy, choose_engine
from tests.course_app.pipeline_parts import Cuda, contents, in_time, rows_of, some_images

SIZE = 24
pytestmark = pytest.mark.usefixtures("quick_grid")


@pytest.fixture
def folder(tmp_path):
    return some_images(tmp_path / "in", 11)


def rebuild(folder, out, ranks=(3, 9), **options):
    given = {"size": SIZE, "engine": "numpy"} | options
    return in_time(lambda: pipeline.reconstruct_images([folder], ranks, out, **given))


# --- what comes out -------------------------------------------------------------------------------


def test_results_are_those_of_one_image_after_the_other(folder, tmp_path):
    report = rebuild(folder, tmp_path / "out")
    files = sorted(folder.iterdir())
    assert [(q.name, q.k) for q in report.qualities] == [(f.stem, k) for f in files for k in (3, 9)]
    for line in report.qualities:
        original = images.load_image(line.source, SIZE)
        u, s, vt = images.svd(original)
        expected = images.reconstruct(u, s, vt, line.k)
        assert line.psnr_db == pytest.approx(images.psnr(original, expected), abs=1e-3)
        assert line.ssim == pytest.approx(images.ssim(original, expected), abs=1e-4)
        saved = np.asarray(Image.open(tmp_path / "out" / line.file)) / 255
        assert np.abs(saved - np.clip(expected, 0, 1)).max() < 0.51 / 255


def test_the_grid_shows_the_first_good_images(tmp_path, monkeypatch):
    folder = some_images(tmp_path / "in", 14)
    for number in (0, 3, 4):
        (folder / f"image{number:02}.png").write_bytes(b"no image")
    shown = []
    monkeypatch.setattr(results, "write_grid", lambda q, ranks, cells, path: shown.append(cells))
    monkeypatch.setattr(pipeline.resuming, "move", lambda *arguments: None)
    rebuild(folder, tmp_path / "out", [5])
    (cells,) = shown
    good = [number for number in range(14) if number not in (0, 3, 4)][:8]
    assert len(cells) == 8
    for number, (original, approximation) in zip(good, cells, strict=True):
        expected = images.load_image(folder / f"image{number:02}.png", SIZE)
        assert np.array_equal(original, expected)
        assert np.allclose(approximation, images.reconstruct(*images.svd(expected), 5), atol=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_of_the_first_good_images_pictures_are_kept_whichever_is_ready_first(seed):
    rng = np.random.default_rng(seed)
    good = rng.permutation(60)[: rng.integers(1, 60)]
    shown, kept = stages.Shown(), set()
    for image in good.tolist():
        if shown.may_show(image):
            kept.add(image)
        shown.add(image)
    assert set(sorted(good.tolist())[:8]) <= kept
    assert shown.first == tuple(sorted(good.tolist())[:8])


def test_names_are_given_before_anything_is_read(tmp_path):
    """So that a name does not depend on whether an earlier image of that name is good."""
    for name in ("a", "b"):
        some_images(tmp_path / name, 1)
    (tmp_path / "a" / "image00.png").write_bytes(b"no image")
    report = pipeline.reconstruct_images(
        [tmp_path / "a", tmp_path / "b"], [2], tmp_path / "out", size=SIZE, engine="numpy"
    )
    assert [line.name for line in report.qualities] == ["image00_2"]


def test_bad_images_are_set_aside_with_their_reason_in_the_order_of_the_files(folder, tmp_path):
    (folder / "image00.png").write_bytes(b"")
    (folder / "image07.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    report = rebuild(folder, tmp_path / "out")
    said = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert [(one["file"], one["reason"]) for one in said["set aside"]] == report.skipped
    assert [os.path.basename(file) for file, _ in report.skipped] == ["image00.png", "image07.png"]
    assert report.skipped[0][1] == "is empty (0 bytes)"
    assert (said["images"], said["rebuilt"], said["k"]) == (11, 9, [3, 9])
    assert len(rows_of(tmp_path / "out")) == 18


def test_a_matrix_without_an_svd_is_set_aside(folder, tmp_path, monkeypatch):
    real = stages.factorise

    def sometimes(image, most):
        if image.mean() == means[0]:
            raise np.linalg.LinAlgError("SVD did not converge")
        return real(image, most)

    means = [images.load_image(folder / "image04.png", SIZE).mean()]
    monkeypatch.setattr(stages, "factorise", sometimes)
    report = rebuild(folder, tmp_path / "out")
    ((file, reason),) = report.skipped
    assert file.endswith("image04.png") and reason == "has no SVD: SVD did not converge"


def test_nan_is_set_aside_as_any_other_bad_image(folder, tmp_path):
    picture = np.full((9, 9), np.nan, np.float32)
    Image.fromarray(picture).save(folder / "nan.tif")
    report = rebuild(folder, tmp_path / "out")
    assert [reason for _, reason in report.skipped] == ["holds NaN or infinite values"]


def test_progress_has_a_step_for_each_file(folder, tmp_path):
    seen = []

    def progress(files):
        for file in files:
            yield file
            seen.append(file)

    rebuild(folder, tmp_path / "out", progress=progress)
    assert seen == sorted(folder.iterdir())
    with pytest.raises(ImageError, match="gave 9 files less"):
        rebuild(folder, tmp_path / "out2", progress=lambda files: files[:2])


@pytest.mark.parametrize("name", ["workers", "batch"])
def test_workers_and_batch_are_at_least_one(folder, tmp_path, name):
    with pytest.raises(ImageError, match=f"{name} is 0; it must be at least 1"):
        rebuild(folder, tmp_path / "out", **{name: 0})


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["decode", "factorise", "rebuild", "save"])
def test_an_error_in_any_stage_ends_the_run(folder, tmp_path, monkeypatch, stage):
    real, calls = getattr(stages, stage), []

    def fails(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise ZeroDivisionError("planted")
        return real(*arguments)

    monkeypatch.setattr(stages, stage, fails)
    with pytest.raises(ZeroDivisionError, match="planted"):
        rebuild(folder, tmp_path / "new" / "out", discard=True)
    assert not (tmp_path / "new").exists()


def test_an_error_or_interruption_of_progress_leaves_nothing_if_asked_for(folder, tmp_path):
    for error in (KeyboardInterrupt, RuntimeError):

        def progress(files, error=error):
            yield from files[:3]
            raise error

        with pytest.raises(error):
            rebuild(folder, tmp_path / "out", progress=progress, discard=True)
        assert not (tmp_path / "out").exists()


def full_after(monkeypatch, count):
    """The disk takes so many files; then it is full, in the middle of one."""
    real, calls = files.write_new, []

    def write_new(path, content, *mode):
        calls.append(path)
        if len(calls) > count:
            monkeypatch.setattr(files, "open", lambda *a, **b: FullFile(*a, **b), raising=False)
        real(path, content)

    monkeypatch.setattr(files, "write_new", write_new)


class FullFile(io.FileIO):
    def write(self, content):
        super().write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("discard", [False, True])
def test_a_full_disk_is_said_and_nothing_is_torn(folder, tmp_path, out, monkeypatch, discard):
    rebuild(folder, tmp_path / "whole")
    with monkeypatch.context() as patch:
        full_after(patch, 11)
        with pytest.raises(OSError, match="No space left on device; make room") as caught:
            rebuild(folder, out, discard=discard)
    assert caught.value.errno == errno.ENOSPC and str(out) in str(caught.value)
    if discard:
        assert not out.exists()
        return
    assert " of 11 images are done and kept" in caught.value.__notes__[0]
    assert not list(out.glob("**/*.part"))
    report = rebuild(folder, out, resume=True)
    assert 0 < report.kept < 11
    assert contents(out) == contents(tmp_path / "whole")


def test_a_disk_that_is_too_full_for_the_journal_is_said_too(folder, tmp_path, monkeypatch):
    from course_app.pipeline.journal import Journal

    real = Journal.write

    def full(self, entry):
        if len(self.done) == 4:
            self._file.write(b"[4, [[1")  # half a line
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(self, entry)

    rebuild(folder, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", full)
        with pytest.raises(OSError, match="No space left on device; make room"):
            rebuild(folder, tmp_path / "out", resume=True)
    assert rebuild(folder, tmp_path / "out", resume=True).kept == 4
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_folder_of_images_that_vanishes_ends_the_run_but_a_file_is_set_aside(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    last = sorted(copy.iterdir())[-1]

    def progress(gone):
        def steps(files):
            for place, file in enumerate(files):
                if place == 2:
                    gone()
                yield file

        return steps

    report = rebuild(copy, tmp_path / "one", progress=progress(last.unlink), resume=True)
    ((file, reason),) = report.skipped
    assert file == str(last) and "No such file" in reason

    moved, gone = tmp_path / "moved", progress(lambda: folder.rename(moved))
    with pytest.raises(FileNotFoundError, match="the folder .* is gone: bring it back") as caught:
        rebuild(folder, tmp_path / "all", progress=gone, resume=True)
    assert "images are done and kept" in caught.value.__notes__[0]
    moved.rename(folder)
    rebuild(folder, tmp_path / "all", resume=True)
    rebuild(folder, tmp_path / "whole")
    assert contents(tmp_path / "all") == contents(tmp_path / "whole")


def test_a_folder_for_results_that_vanishes_ends_the_run(folder, out):

    def progress(files):
        for place, file in enumerate(files):
            if place == 3:
                shutil.rmtree(out, ignore_errors=True)
            yield file

    with pytest.raises(OSError, match="cannot write to the folder .*: No such file or directory"):
        rebuild(folder, out, progress=progress)


def test_too_many_open_files_are_no_fault_of_the_image(folder, tmp_path, monkeypatch):
    real = reading._refuse_special_files

    def scarce(path):
        if path.stem == "image05":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        real(path)

    monkeypatch.setattr(reading, "_refuse_special_files", scarce)
    with pytest.raises(OSError, match="Too many open files"):
        rebuild(folder, tmp_path / "out")


# --- engines --------------------------------------------------------------------------------------


def stacks(count=7, rows=13, columns=17, seed=0):
    rng = np.random.default_rng(seed)
    factors = [stages.factorise(rng.random((rows, columns), np.float32), 9) for _ in range(count)]
    return [np.stack(parts) for parts in zip(*factors, strict=True)]


def limited(most, log, error=None):
    """An engine with memory for so many images."""

    def engine(u, s, vt, ranks):
        log.append(len(u))
        if len(u) > most:
            raise error or Cuda.CudaAPIError(2, "Call to cuMemAlloc results in OUT_OF_MEMORY")
        return by_numpy(u, s, vt, ranks)

    return engine


@pytest.mark.parametrize("error", [None, MemoryError("planted")])
def test_without_memory_for_a_stack_it_is_halved_and_the_run_goes_on(error):
    factors, log = stacks(), []
    halving = Halving(limited(2, log, error))
    for _ in range(2):
        found = halving(*factors, [4, 9])
        for ours, expected in zip(found, by_numpy(*factors, [4, 9]), strict=True):
            assert np.array_equal(ours, expected)
    assert log == [7, 3, 1, 1, 1, 1, 1, 1, 1] + [1] * 7
    assert halving.halved.most == 1


def test_without_memory_for_one_image_it_is_said():
    with pytest.raises(MemoryError, match="rebuild one image of 13x17; choose a smaller size"):
        Halving(limited(0, []))(*stacks(), [4])
    with pytest.raises(Cuda.CudaAPIError, match="ILLEGAL"):
        Halving(limited(0, [], Cuda.CudaAPIError(700, "CUDA_ERROR_ILLEGAL_ADDRESS")))(
            *stacks(), [4]
        )


@pytest.mark.parametrize("shape", [(13, 17), (64, 68)])
def test_the_gpus_way_gives_an_image_the_same_bits_in_any_company(shape):
    u, s, vt = stacks(3, *shape)
    together = by_gpu(u, s, vt, [4, 9])
    for k, found in zip((4, 9), together, strict=True):
        exact = (u[..., :k].astype(np.float64) * s[:, None, :k]) @ vt[:, :k]
        assert np.linalg.norm(found - exact) < 1e-6 * np.linalg.norm(exact)
    alone = [by_gpu(u[i : i + 1], s[i : i + 1], vt[i : i + 1], [4, 9]) for i in range(3)]
    for place in range(2):
        assert np.array_equal(together[place], np.concatenate([one[place] for one in alone]))


def test_the_simulator_gives_what_numpy_gives(folder, tmp_path):
    report = rebuild(folder, tmp_path / "out", [3], engine="simulator")
    assert report.engine == "the GPU kernel on the simulator"
    for line, other in zip(
        report.qualities, rebuild(folder, tmp_path / "numpy", [3]).qualities, strict=True
    ):
        assert line.psnr_db == pytest.approx(other.psnr_db, abs=1e-4)
    u, s, vt = stacks(2)
    from course_app.pipeline.engines import by_simulator

    assert np.allclose(by_simulator(u, s, vt, [5])[0], by_numpy(u, s, vt, [5])[0], atol=1e-6)
    with pytest.raises(ImageError, match="engine is 'cuda'; allowed are auto"):
        choose_engine("cuda")


# --- threads of others --------------------------------------------------------------


def test_the_linear_algebra_has_one_thread_and_gets_its_own_back():
    def threads():
        return {its["num_threads"] for its in threadpool_info() if its["user_api"] == "blas"}

    before = threads()
    if not before:
        pytest.skip("NumPy's linear algebra is no OpenBLAS that can be asked")
    with blas.one_thread(), blas.one_thread():
        assert threads() == {1}
    assert threads() == before
    with pytest.raises(ValueError), blas.one_thread():
        raise ValueError
    assert threads() == before


def test_memory_that_is_let_go_is_kept_where_the_c_library_can():
    resource = pytest.importorskip("resource")
    who = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # others may be at work
    with heap.kept() as known:
        if not known:
            pytest.skip("not glibc")
        for _ in range(3):
            np.ones(1 << 19)
        start = resource.getrusage(who).ru_minflt
        for _ in range(20):
            np.ones(1 << 19)  # 4 MiB, 1,024 pages
        assert resource.getrusage(who).ru_minflt - start < 4096


def test_threads_that_decode_leave_the_warnings_as_they_were(folder):
    before = list(warnings.filters)
    file = sorted(folder.iterdir())[0]
    threads = [
        threading.Thread(target=lambda: [images.load_image(file) for _ in range(40)])
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before


def test_the_table_can_be_read(folder, tmp_path):
    report = rebuild(folder, tmp_path / "out")
    with open(tmp_path / "out" / "quality.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["file"] for line in lines] == [quality.file for quality in report.qualities]


def test_a_file_is_taken_once_whatever_way_leads_to_it(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    (tmp_path / "one.png").symlink_to(folder / "image03.png")
    ways = [folder, tmp_path / "link", tmp_path / "one.png", folder / ".." / "in" / "image05.png"]
    assert inputs.gathered(ways).files == sorted(folder.iterdir())
    assert inputs.gathered(ways[::-1]).files[:2] == ways[:1:-1]
