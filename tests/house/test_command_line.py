"""python -m course: results on disk, one clear line for each mistake, all or nothing."""

import csv
import importlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from course import stopping
from course.__main__ import COMMANDS
from course.files import data_path
from course.images import images
from course_app.commands import reconstruct as command
from course_app.pipeline import capacity, inputs, journal, pipeline
from course_app.pipeline import results as grid
from tests.course_app.pipeline_parts import call, draw_quickly
from tests.course_app.stopped_processes import hear

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("keep_signal_handlers")


def run(*words, folder, **settings):
    """Run the command in a process of its own, as a user does."""
    command = [sys.executable, "-m", "course", *map(str, words)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | settings
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture(autouse=True)
def quick_grid(request, monkeypatch):
    """The grid of pictures is drawn where a test looks at it, and in a process of its own."""
    if request.function is not test_the_grid_of_many_images_and_ranks_stays_readable:
        monkeypatch.setattr(grid, "write_grid", draw_quickly)


@pytest.fixture
def photos(tmp_path):
    """A folder of two pictures and one broken file."""
    folder = tmp_path / "photos"
    folder.mkdir()
    Image.fromarray((images.phantom(40, 60) * 255).astype(np.uint8)).save(folder / "head.png")
    Image.fromarray((images.phantom(50) * 255).astype(np.uint8)).save(folder / "HEAD2.JPG")
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    return folder


def table(folder):
    way = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}
    with open(folder / "quality.csv", **way) as file:
        return list(csv.DictReader(file))


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# --- what it makes ------------------------------------------------------------------------------


def test_a_folder_becomes_reconstructions_a_grid_and_a_table(photos, tmp_path):
    done = run("reconstruct", "photos", "--k", 3, 20, "--out", "new/results", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 images rebuilt by" in done.stdout
    assert ("NumPy" in done.stdout) or ("GPU kernel on" in done.stdout)
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("skipped 'photos/broken.png': ".replace("/", os.sep))

    results = tmp_path / "new" / "results"
    pictures = [f"{name}_k{k}.png" for name in ("HEAD2", "head") for k in (20, 3)]
    assert files_below(results) == sorted([*pictures, "grid.png", "quality.csv", "report.json"])
    lines = table(results)
    assert [(line["name"], line["k"]) for line in lines] == [
        ("HEAD2", "3"),
        ("HEAD2", "20"),
        ("head", "3"),
        ("head", "20"),
    ]
    original = images.load_image(photos / "head.png", 256)
    approximation = images.reconstruct(*images.svd(original), 20)
    line = lines[-1]
    assert float(line["psnr_db"]) == pytest.approx(images.psnr(original, approximation), abs=1e-2)
    assert float(line["ssim"]) == pytest.approx(images.ssim(original, approximation), abs=1e-3)
    assert float(line["compression"]) == pytest.approx(256 * 256 / (20 * 513), abs=1e-4)
    with Image.open(results / line["file"]) as picture:
        assert picture.mode == "L"
        saved = np.asarray(picture) / 255
    assert np.abs(saved - np.clip(approximation, 0, 1)).max() < 0.6 / 255
    with Image.open(results / "grid.png") as grid:
        assert 500 < grid.width < 2000


def test_files_and_folders_mix_and_none_is_taken_twice(photos, tmp_path, capfd):
    other = tmp_path / "other"
    other.mkdir()
    Image.fromarray(np.eye(30, dtype=np.uint8) * 255).save(other / "head.png")
    Image.fromarray(np.eye(30, dtype=np.uint8) * 99).save(other / "head.tif")
    words = [photos, other, photos / "head.png", "--k", "4", "--out", tmp_path / "out"]
    status, out, _ = call(capfd, "reconstruct", *words, "--size", "32x48")
    assert status == 0
    assert "4 images" in out
    lines = table(tmp_path / "out")
    names = [line["name"] for line in lines]
    assert names == ["HEAD2", "head", "head_2", "head_3"]
    sources = [Path(line["source"]) for line in lines]
    assert sources[1:] == [photos / "head.png", other / "head.png", other / "head.tif"]
    assert {(line["rows"], line["columns"]) for line in lines} == {("32", "48")}
    rebuilt = [np.asarray(Image.open(tmp_path / "out" / f"{name}_k4.png")) for name in names]
    assert len({picture.tobytes() for picture in rebuilt}) == 4


def test_names_that_differ_only_in_case_get_different_files():
    used = {}
    stems = ("a", "A", "a_2", "a", "a_3", "A")
    names = [inputs._unused_name(stem, used) for stem in stems]
    assert len({name.casefold() for name in names}) == len(stems)


@pytest.mark.parametrize("name", ["cost$ {x.png", "naïve 図.png", "two\nlines.png", "=1+1.png"])
def test_odd_file_names_are_no_trouble(tmp_path, capfd, name):
    try:
        Image.fromarray(np.eye(30, dtype=np.uint8) * 255).save(tmp_path / name)
    except OSError:
        pytest.skip("this file system takes no such name")
    status, _, err = call(
        capfd, "reconstruct", tmp_path, "--k", 2, "--size", 16, "--out", tmp_path / "out"
    )
    assert (status, err) == (0, "")
    assert len(table(tmp_path / "out")) == 1


def test_file_name_of_undecodable_bytes_is_no_trouble(tmp_path, capfd):
    if sys.platform != "linux":
        pytest.skip("only Linux has such names")
    name = os.fsdecode(b"caf\xe9.png")
    (tmp_path / name).write_bytes(data_path("images", "camera.png").read_bytes())
    (tmp_path / os.fsdecode(b"br\xf6ken.png")).write_bytes(b"")
    status, _, err = call(
        capfd, "reconstruct", tmp_path, "--k", 2, "--size", 16, "--out", tmp_path / "out"
    )
    assert status == 0
    assert err.count("\n") == 1
    assert table(tmp_path / "out")[0]["name"] == "caf?"


def test_a_console_without_the_signs_is_no_trouble(photos, tmp_path):
    words = ["photos", "--k", 5, "--size", 16, "--out", "out"]
    done = run("reconstruct", *words, folder=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "\\xd7" in done.stdout


def test_doctor_reports_and_ends_well(tmp_path):
    done = run("doctor", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Python" in done.stdout
    assert "NumPy" in done.stdout
    assert done.stderr == ""


def test_several_runs_replace_their_files_and_leave_others_alone(photos, tmp_path, capfd):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("keep")
    for k, *more in ((5,), (5,), (7, "--replace")):
        words = [photos, "--k", k, "--size", 48, "--out", out, *more]
        assert call(capfd, "reconstruct", *words)[0] == 0
    assert (out / "mine.txt").read_text() == "keep"
    assert {line["k"] for line in table(out)} == {"7"}
    assert files_below(out) == [
        "HEAD2_k7.png", "grid.png", "head_k7.png", "mine.txt", "quality.csv", "report.json"
    ]  # fmt: skip


def test_repeated_ranks_count_once_and_are_sorted(photos, tmp_path, capfd):
    words = ["--k", 9, 2, "--k", 9, "--out", tmp_path / "out"]
    assert call(capfd, "reconstruct", photos / "head.png", *words)[0] == 0
    assert [line["k"] for line in table(tmp_path / "out")] == ["2", "9"]


def test_full_rank_gives_the_image_back(photos, tmp_path, capfd):
    words = [photos / "head.png", "--k", 40, "--size", "40x60", "--out", tmp_path / "out"]
    assert call(capfd, "reconstruct", *words)[0] == 0
    with Image.open(tmp_path / "out" / "head_k40.png") as rebuilt:
        assert np.array_equal(np.asarray(rebuilt), np.asarray(Image.open(photos / "head.png")))


def test_the_grid_of_many_images_and_ranks_stays_readable(tmp_path, capfd):
    folder = tmp_path / "many"
    folder.mkdir()
    for n in range(11):
        Image.fromarray(np.full((9, 9), 20 * n, np.uint8)).save(folder / f"{n:02}.png")
    words = ["--k", *range(1, 10), "--size", 9, "--out", tmp_path / "out"]
    status, out, _ = call(capfd, "reconstruct", folder, *words)
    assert status == 0
    assert "11 images" in out
    assert len(table(tmp_path / "out")) == 99
    with Image.open(tmp_path / "out" / "grid.png") as grid:
        assert max(grid.size) < 4000


@pytest.mark.parametrize("engine", ["numpy", "simulator"])
def test_engines_agree_and_are_named(photos, tmp_path, capfd, engine):
    words = ["--k", 3, 8, "--size", 40, "--out", tmp_path / engine, "--engine", engine]
    status, out, _ = call(capfd, "reconstruct", photos, *words)
    assert status == 0
    assert {"numpy": "NumPy", "simulator": "simulator"}[engine] in out
    for line in table(tmp_path / engine):
        original = images.load_image(line["source"], 40)
        expected = images.psnr(original, images.reconstruct(*images.svd(original), int(line["k"])))
        assert float(line["psnr_db"]) == pytest.approx(expected, abs=1e-3)


@pytest.mark.slow
def test_no_progress_bar_in_a_pipe_but_on_a_terminal(photos, tmp_path):
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    done = run("reconstruct", "photos/head.png", "--k", 2, "--out", "a", folder=tmp_path)
    assert done.stderr == ""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    command = [sys.executable, "-m", "course", "reconstruct", "photos", "--k", "2", "--out", "b"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with open(ours, "rb", buffering=0) as terminal:
        subprocess.run(
            command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=theirs
        )
        os.close(theirs)
        shown = b""
        try:
            while chunk := terminal.read(4096):
                shown += chunk
        except OSError:  # a terminal whose other side is closed
            pass
    assert b"0/3 [" in shown


# --- mistakes -----------------------------------------------------------------------------------


def nan_image(path):
    picture = np.ones((9, 9), np.float32)
    picture[4, 4] = np.nan
    Image.fromarray(picture).save(path)


MISTAKES = {
    "k is 0": (["photos", "--k", "0"], "k is 0; for an image of 256x256 it must be from 1 to 256"),
    "k is negative": (["photos", "--k", "-5"], "k is -5"),
    "k is too large": (["photos", "--k", "50", "300"], "k is 300; for an image of 256x256"),
    "k over the smaller side": (["photos", "--k", "41", "--size", "40x60"], "from 1 to 40"),
    "k is no number": (["photos", "--k", "many"], "'many' is not a whole number"),
    "k is a fraction": (["photos", "--k", "2.5"], "'2.5' is not a whole number"),
    "images after --k": (["--k", "50", "photos"], "images come before --k"),
    "no k": (["photos"], "required: --k"),
    "no such file": (["missing.png", "--k", "5"], "no file or folder 'missing.png'"),
    "no image in the folder": (["empty", "--k", "5"], "looked for *.jpg, *.jpeg, *.png"),
    "only broken images": (["photos/broken.png", "--k", "5"], "none of the 1 files could be used"),
    "NaN": (["nan.tif", "--k", "5"], "'nan.tif' holds NaN or infinite values"),
    "only NaN": (["nan.tif", "--k", "5", "--discard"], "'nan.tif' holds NaN"),
    "empty name": (["photos", "", "--k", "5"], "the name is empty; a dot is the current folder"),
    "size is no size": (["photos", "--k", "5", "--size", "big"], "'big' is no size"),
    "size of three": (["photos", "--k", "5", "--size", "1x2x3"], "'1x2x3' is no size"),
    "size too small": (["photos", "--k", "5", "--size", "6"], "SSIM needs at least 7x7"),
    "size is 0": (["photos", "--k", "5", "--size", "0"], "size is 0x0"),
    "unknown engine": (["photos", "--k", "5", "--engine", "cuda"], "invalid choice: 'cuda'"),
    "unknown option": (["photos", "--k", "5", "--rank", "3"], "unrecognized arguments: --rank"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line_and_leaves_nothing(
    photos, tmp_path, capfd, monkeypatch, mistake
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    nan_image(tmp_path / "nan.tif")
    before = files_below(tmp_path)
    words, message = MISTAKES[mistake]
    status, out, err = call(capfd, "reconstruct", *words, "--out", "new/results")
    assert status == 2
    assert message in err
    assert err.startswith("python -m course")
    assert err.count("\n") == 1
    assert out == ""
    assert files_below(tmp_path) == before


def test_a_mistake_ends_the_process_with_status_2_and_no_traceback(photos, tmp_path):
    before = files_below(tmp_path)
    done = run("reconstruct", "photos", "--k", 999, "--out", "results", folder=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "python -m course: error: k is 999; for an image of 256x256 it must be from 1 to 256\n"
    )
    assert files_below(tmp_path) == before


def unwritable_places(tmp_path):
    (tmp_path / "a-file").write_text("")
    yield tmp_path / "a-file", "is a file"
    yield tmp_path / "a-file" / "below", "cannot write to the folder"
    if sys.platform == "linux":
        yield Path("/proc/results"), "cannot write to the folder '/proc/results'"
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        yield tmp_path / "locked", "ermission denied"
        yield tmp_path / "locked" / "below", "ermission denied"


def test_an_unwritable_folder_is_one_clear_line(photos, tmp_path, capfd):
    for place, message in unwritable_places(tmp_path):
        before = files_below(tmp_path)
        status, _, err = call(capfd, "reconstruct", photos, "--k", 5, "--out", place)
        assert status == 2
        assert message in err
        assert err.count("\n") == 1
        assert files_below(tmp_path) == before


def test_results_do_not_go_where_images_are_read(photos, capfd):
    before = files_below(photos)
    status, _, err = call(capfd, "reconstruct", photos, "--k", 5, "--out", photos)
    assert (status, err.count("\n")) == (2, 1)
    assert "would be read and written" in err
    assert files_below(photos) == before


def test_a_folder_in_the_way_of_a_result_stops_before_anything_is_moved(photos, tmp_path, capfd):
    out = tmp_path / "out"
    (out / "grid.png").mkdir(parents=True)
    status, _, err = call(capfd, "reconstruct", photos, "--k", 5, "--out", out)
    assert (status, err.count("\n")) == (2, 1)
    assert "in the way" in err
    assert files_below(out) == ["grid.png"]


def test_no_gpu_is_said_when_one_is_asked_for(photos, tmp_path, capfd, monkeypatch):
    from course import backend

    monkeypatch.setattr(backend, "gpu", lambda: None)
    words = [photos, "--k", 5, "--out", tmp_path / "out", "--engine", "gpu"]
    status, _, err = call(capfd, "reconstruct", *words)
    assert (status, err.count("\n")) == (2, 1)
    assert "no usable GPU" in err
    assert not (tmp_path / "out").exists()


def test_no_command_and_wrong_command_are_one_line(capfd):
    for words in ([], ["fly"]):
        status, out, err = call(capfd, *words)
        assert (status, out, err.count("\n")) == (2, "", 1)


# --- interruptions ------------------------------------------------------------------------------


def test_a_stop_while_the_summary_is_printed_says_that_all_is_there(
    photos, tmp_path, capfd, monkeypatch
):
    def interrupted(numbers):
        raise KeyboardInterrupt

    monkeypatch.setattr("course_app.pipeline.results.fmean", interrupted)
    out = tmp_path / "out"
    status, _, err = call(capfd, "reconstruct", photos, "--k", 5, "--out", out)
    assert status == 130 and (out / "quality.csv").is_file()
    assert err.splitlines()[-1] == f"python -m course: stopped; all results are in {str(out)!r}"


@pytest.mark.parametrize(
    ("stage", "error"),
    [
        ("_write_grid", OSError(28, "No space left on device")),
        ("_write_table", KeyboardInterrupt),
        pytest.param("_write_grid", KeyboardInterrupt, marks=pytest.mark.slow),
        pytest.param("_write_table", OSError(28, "No space left"), marks=pytest.mark.slow),
    ],
)
def test_an_interruption_leaves_earlier_results_as_they_were(
    photos, tmp_path, capfd, monkeypatch, stage, error
):
    out = tmp_path / "out"
    words = ["reconstruct", photos, "--size", 48, "--k", 5]
    assert call(capfd, *words, "--out", out)[0] == 0
    before = {name: (out / name).read_bytes() for name in files_below(out)}

    def interrupted(*arguments):
        arguments[-1].write_text("half")
        raise error

    monkeypatch.setattr(pipeline, stage, interrupted)
    for folder in (out, tmp_path / "fresh" / "one"):
        status, _, err = call(capfd, *words, 6, "--out", folder, "--discard", "--replace")
        assert status == (130 if error is KeyboardInterrupt else 2)
        assert err.count("\n") == 1
    assert {name: (out / name).read_bytes() for name in files_below(out)} == before
    assert not (tmp_path / "fresh").exists()


#: Images that keep a process busy for as long as a busy machine needs to send it a signal.
STOPPING = "stopping: a large SVD or the GPU's stack ends first; Ctrl-C again ends at once\n"
MANY = 500


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize(
    "name",
    [
        "SIGTERM",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("SIGINT", "SIGHUP", "five times SIGINT")
        ),
    ],
)
def test_a_stopped_process_leaves_nothing_if_asked_for(tmp_path, name):
    number = getattr(signal, name.split()[-1])
    folder = tmp_path / "many"
    folder.mkdir()
    data = data_path("images", "camera.png").read_bytes()
    for n in range(MANY):
        (folder / f"{n}.png").write_bytes(data)
    command = [sys.executable, "-m", "course", "reconstruct", "many", "--k", "90", "--out", "out"]
    command.append("--discard")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=hear
    ) as process:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("out/.unfinished-*/*.png")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        for _ in range(5 if "five" in name else 1):
            process.send_signal(number)
            time.sleep(0.015)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    # that it takes long is only said on a machine where it does
    err = err.removeprefix(STOPPING)
    assert err == "python -m course: stopped; nothing was written\n"
    assert files_below(tmp_path) == sorted(["many", *(f"many/{n}.png" for n in range(MANY))])


def test_who_waits_for_long_after_ctrl_c_is_told_for_what(capfd, monkeypatch):
    monkeypatch.setattr(stopping, "SILENCE", 0.01)
    with pytest.raises(KeyboardInterrupt):
        stopping.Stopping()(signal.SIGINT, None)
    deadline, told = time.monotonic() + 60, ""
    while "Ctrl-C again ends at once" not in told and time.monotonic() < deadline:
        time.sleep(0.02)
        told += capfd.readouterr().err
    assert (
        told == "stopping: a large SVD or the GPU's stack ends first; Ctrl-C again ends at once\n"
    )


def test_a_second_ctrl_c_soon_after_the_first_is_the_same_one(monkeypatch):
    monkeypatch.setattr(stopping, "SILENCE", 3600)
    stop = stopping.Stopping()
    with pytest.raises(KeyboardInterrupt):
        stop(signal.SIGINT, None)
    stop(signal.SIGINT, None)

    class Timer(threading.Thread):
        def __init__(self, *arguments):
            super().__init__()
            nested.append(stop(signal.SIGINT, None))

    nested, stop = [], stopping.Stopping()
    monkeypatch.setattr(stopping.threading, "Timer", Timer)
    with pytest.raises(KeyboardInterrupt):
        stop(signal.SIGINT, None)
    assert nested == [None]  # one that comes while the first is at work
    monkeypatch.setattr(stopping, "TOGETHER", 0)
    with pytest.raises(KeyboardInterrupt):
        stop(signal.SIGINT, None)


def test_ctrl_c_does_not_end_the_cleaning_up(photos, tmp_path, capfd, monkeypatch):
    """As it would where it comes later than what counts as one."""
    monkeypatch.setattr(stopping, "TOGETHER", 0)
    remove = journal.Journal.remove

    def removed(kept):
        signal.raise_signal(signal.SIGINT)
        remove(kept)
        signal.raise_signal(signal.SIGTERM)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(journal.Journal, "remove", removed)
    monkeypatch.setattr(pipeline, "_write_grid", interrupted)
    words = [photos, "--k", 5, "--out", tmp_path / "out", "--discard"]
    status, _, err = call(capfd, "reconstruct", *words)
    assert (status, err) == (130, "python -m course: stopped; nothing was written\n")
    assert not (tmp_path / "out").exists()


def test_a_thread_that_writes_on_does_not_keep_the_hidden_folder(tmp_path, monkeypatch):
    """After a second Ctrl-C nobody waits for the writers."""
    kept = journal.begin(tmp_path, {"settings": {}, "files": []})
    listed = os.scandir
    late = []

    def scandir(path):
        found = listed(path)
        if not late:
            late.append(kept.folder / "late.png")
            names = list(found)
            late[0].write_bytes(b"late")

            class Listed:
                def __enter__(self):
                    return iter(names)

                def __exit__(self, *error):
                    pass

            return Listed()
        return found

    monkeypatch.setattr(os, "scandir", scandir)
    kept.remove()
    assert late and not kept.folder.exists()


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_during_imports_is_one_line(photos, tmp_path):
    """Even where an import catches every exception."""
    (tmp_path / "threadpoolctl.py").write_text(
        "import pathlib, time\n"
        "pathlib.Path('importing').touch()\n"
        "try:\n    time.sleep(600)\nexcept BaseException:\n    time.sleep(600)\n"
    )
    command = [sys.executable, "-m", "course", "reconstruct", "photos", "--k", "5", "--out", "out"]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=hear
    ) as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "importing").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, "python -m course: stopped; nothing was written\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP")
def test_nohup_is_respected():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopping.stoppable():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert isinstance(signal.getsignal(signal.SIGTERM), stopping.Stopping)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


# --- large images -------------------------------------------------------------------------------


def test_who_asks_for_long_svds_is_told_before(photos, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(capacity, "NEVER_LONG", 30)
    monkeypatch.setattr(capacity, "svd_seconds", lambda rows, columns: 90 * 60 + rows + columns)
    words = ["reconstruct", photos, "--k", 3, "--size", "40x50", "--out", tmp_path / "out"]
    status, _, err = call(capfd, *words, "--workers", 1)
    first, *others = err.splitlines()
    assert status == 0 and len(others) == 1 and others[0].startswith("skipped")
    assert first == (
        "the SVD of an image of 40x50 takes about 92 minutes here, that of 3 images about 5 hours; "
        "a smaller size is quicker (half of it 8 times)"
    )


@pytest.mark.parametrize("size", [256, 1024, 2048])
def test_at_usual_sizes_nothing_is_timed_or_said(size, monkeypatch):
    monkeypatch.setattr(capacity, "svd_seconds", None)
    assert capacity.long_svds(size, size, 10_000, 2) is None


def test_large_svds_that_are_quick_on_this_machine_are_not_spoken_of(monkeypatch):
    monkeypatch.setattr(capacity, "svd_seconds", lambda rows, columns: capacity.LONG - 1)
    assert capacity.long_svds(4000, 4000, 5, 2) is None


def test_the_time_of_an_svd_grows_as_the_cube(monkeypatch):
    """From a trial that takes 2 s: one of twice as many rows and columns takes 16 s."""
    now = [0.0]

    def leading_svd(image, k):
        now[0] += 2.0

    monkeypatch.setattr(images, "leading_svd", leading_svd)
    monkeypatch.setattr(capacity.time, "perf_counter", lambda: now[0])
    n = capacity.TRIAL
    assert capacity.svd_seconds(2 * n, 2 * n) == pytest.approx(16)
    assert capacity.svd_seconds(n, 10 * n) == capacity.svd_seconds(10 * n, n) == pytest.approx(20)


def test_an_image_that_does_not_fit_into_memory_is_refused_before(photos, tmp_path, capfd):
    status, out, err = call(
        capfd, "reconstruct", photos, "--k", 5, "--size", 2_000_000, "--out", tmp_path / "out"
    )
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "size is 2000000x2000000: the SVD of one image needs about 268,221 GiB" in err
    assert "choose a smaller size" in err and not (tmp_path / "out").exists()


def test_the_handler_of_ctrl_c_is_restored(capfd, photos, tmp_path):
    before = signal.getsignal(signal.SIGINT)
    status, out, _ = call(capfd, "reconstruct", photos / "head.png", "--k", 3, "--out", tmp_path)
    assert status == 0 and out.endswith("grid.png, quality.csv, 1 image\n")
    assert signal.getsignal(signal.SIGINT) is before


# --- help ---------------------------------------------------------------------------------------


def test_help_offers_only_commands_that_exist(capfd):
    status, out, _ = call(capfd, "--help")
    assert status == 0
    assert "reconstruct" in out
    assert "doctor" in out
    for absent in ("trace",):
        assert absent not in out
    status, out, _ = call(capfd, "reconstruct", "--help")
    assert status == 0
    options = ("--k", "--out", "--size", "--fit", "--engine", "--resume", "--workers", "--batch")
    for word in (*options, "--gpus", "quality.csv", "grid.png", "report.json"):
        assert word in out


@pytest.mark.slow
def test_the_examples_of_the_help_run(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("data/images", "scans", "archive"):
        shutil.copytree(data_path("images"), tmp_path / folder)
    (tmp_path / "holiday.jpg").write_bytes(data_path("images", "coffee.jpg").read_bytes())
    start = "  python -m course "
    examples = [line for line in command.EXAMPLES.splitlines() if start in line]
    assert len(examples) == 3
    for example in examples:
        assert call(capfd, *example.removeprefix(start).split())[0] == 0
        shutil.rmtree("results")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_one_module_and_no_other_is_imported(name):
    module = importlib.import_module(COMMANDS[name][0])
    assert module.HELP and callable(module.add_options) and callable(module.run)
    others = [its for other, (its, _) in COMMANDS.items() if other != name]
    program = (
        "import sys\nfrom course.__main__ import make_parser\n"
        f"make_parser([{name!r}])\n"
        f"print(sorted(sys.modules.keys() & {others!r}))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    # the options of several take a folder, as those of reconstruct do
    assert done.stdout in ("[]\n", "['course_app.commands.reconstruct']\n"), done.stderr
