"""A run that was killed at any moment and is resumed ends as one that nothing disturbed."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from course import files
from course.files import FolderInUse, alone_in
from course.images.reading import ImageError
from course_app.pipeline import journal, pipeline, resuming, stages
from course_app.pipeline.journal import ResumeError
from tests.course_app.pipeline_parts import call, contents, in_time, some_images
from tests.course_app.stopped_processes import hear
from tools import kill_test

SIZE = 16
COUNT = 6
pytestmark = pytest.mark.usefixtures("quick_grid")


@pytest.fixture
def whole(folder, tmp_path):
    """What an undisturbed run leaves."""
    rebuild(folder, tmp_path / "whole")
    return contents(tmp_path / "whole")


def rebuild(folder, out, ranks=(2, 5), **options):
    given = {"size": SIZE, "engine": "numpy", "workers": 2, "batch": 2} | options
    return in_time(lambda: pipeline.reconstruct_images([folder], ranks, out, **given))


def interrupted(folder, out, after=3, **options):
    """Leave an unfinished run with so many images done."""

    def progress(files):
        yield from files[:after]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild(folder, out, progress=progress, **options)
    (left,) = out.iterdir()
    return left


# --- killed ---------------------------------------------------------------------------------------


def die(count, moment):
    """Let this process die at its count-th change of the disk: before, half-way or after it."""
    left, lock = [count], threading.Lock()

    def is_last():
        with lock:
            left[0] -= 1
            return left[0] == 0

    def dies(real):
        def change(*arguments, **options):
            last = is_last()
            if last and moment != "after":
                os._exit(99)
            real(*arguments, **options)
            if last:
                os._exit(99)

        return change

    class Dying(io.FileIO):
        def write(self, content):
            last = is_last()
            if last and moment != "after":
                super().write(content[: len(content) // 2 if moment == "half-way" else 0])
                os._exit(99)
            written = super().write(content)
            if last:
                os._exit(99)
            return written

    for module in (files, journal, resuming):
        module.open = lambda path, mode, **options: Dying(path, mode)
    for name in ("replace", "unlink", "rmdir"):
        setattr(os, name, dies(getattr(os, name)))


def in_a_child(work):
    """The exit status of a process that does that."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 60
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimeoutError("the pipeline hangs")
        time.sleep(0.002)


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.parametrize(
    ("moment", "first"),
    [
        ("before", True),
        pytest.param("half-way", False, marks=pytest.mark.slow),
        pytest.param("after", True, marks=pytest.mark.slow),
    ],
)
def test_a_death_at_any_change_of_the_disk_changes_nothing(tmp_path, moment, first):
    """One death for each write, renaming and removal, one after the other."""
    folder = some_images(tmp_path / "in", 4)
    (folder / "image02.png").write_bytes(b"no image")
    rebuild(folder, tmp_path / "whole")
    whole = contents(tmp_path / "whole")
    for count in range(1, 500):

        def run(out=tmp_path / f"out{count}", count=count):
            die(count, moment)
            rebuild(folder, out, resume=first)

        status = in_a_child(run)
        if status == 0:
            break
        assert status == 99
        out = tmp_path / f"out{count}"
        before = {path.name: path.stat().st_mtime_ns for path in out.glob("*_k*.png")}
        rebuild(folder, out, resume=True)
        assert contents(out) == whole
        assert not [path for path in out.iterdir() if path.name.startswith(".")]
        assert all((out / name).stat().st_mtime_ns == its for name, its in before.items())
    assert 20 < count < 499  # of pictures, journal, grid; then moves and removals


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.parametrize("part", [0.15, 0.5, 0.85])
def test_killed_at_a_random_moment(tmp_path, out, monkeypatch, part):
    """SIGKILL, after about so much of the work; chance decides in the middle of what."""
    folder = some_images(tmp_path / "in", 40)
    rebuild(folder, tmp_path / "whole")
    write = files.write_new

    def slowly(*arguments):
        time.sleep(0.003)
        write(*arguments)

    monkeypatch.setattr(files, "write_new", slowly)
    child = os.fork()
    if not child:
        try:
            rebuild(folder, out)
        finally:
            os._exit(0)
    deadline = time.monotonic() + 60
    while len(list(out.glob(".unfinished-*/*_k5.png"))) < part * 40:
        if (out / "report.json").exists():
            break
        assert time.monotonic() < deadline
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    report = rebuild(folder, out, resume=True)
    assert report.kept > 0
    assert contents(out) == contents(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_killed_command_that_is_resumed_ends_as_the_undisturbed_one():
    """One of the twenty moments of ``python -m tools.kill_test``."""
    said = []
    (trial,) = kill_test.kill_test(kills=1, images=40, seed=11, say=said.append)
    assert trial.passed, said


def test_the_kill_test_finds_what_is_wrong(tmp_path, monkeypatch):
    """A file that is missing, one too many, one that differs, an image that was done again."""
    folder, out = tmp_path / "images", tmp_path / "out"
    out.mkdir()
    (out / "report.json").write_text("{}")
    for name in ("a_k5.png", "a_k20.png", "extra"):
        (out / name).write_text("old")
    expected = kill_test.digests(out) | {"missing": ""}
    del expected["extra"]

    class Ended:
        returncode, stderr = 0, ""

        def kill(self):
            pass

        def wait(self):
            return 0

        def poll(self):
            return 0

    def again(*arguments, **options):
        (out / "a_k5.png").write_text("new")
        os.utime(out / "a_k5.png", ns=(1, 1))
        return Ended()

    monkeypatch.setattr(kill_test.subprocess, "Popen", lambda *a, **b: Ended())
    monkeypatch.setattr(kill_test.subprocess, "run", again)
    its = kill_test.trial(folder, out, expected, [0.1], True)
    assert its.wrong == ["missing missing", "extra too many", "a_k5.png differs", "extra differs"]
    assert its.repeated == 1 and not its.passed


# --- resumed --------------------------------------------------------------------------------------


def test_what_is_done_is_not_done_again(folder, out, whole, monkeypatch):
    left = interrupted(folder, out)
    done = [json.loads(line)[0] for line in (left / journal.FILE).read_text().splitlines()[1:]]
    assert len(done) == 3
    read = []
    real = stages.decode
    monkeypatch.setattr(stages, "decode", lambda f, *more: read.append(f) or real(f, *more))
    report = rebuild(folder, out, resume=True, workers=5, batch=1)
    assert report.kept == 3
    files = sorted(folder.iterdir())
    assert sorted(read) == [file for i, file in enumerate(files) if i not in done]
    assert contents(out) == whole


def test_a_finished_run_that_is_resumed_does_nothing(folder, tmp_path, whole, monkeypatch):
    out = tmp_path / "whole"
    times = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    monkeypatch.setattr(stages, "decode", None)
    report = rebuild(folder, out, resume=True)
    assert report.kept == COUNT and len(report.qualities) == 2 * (COUNT - 1)
    assert report.qualities[0].psnr_db == pytest.approx(float(whole_row(out)["psnr_db"]))
    assert [file for file, _ in report.skipped] == [str(folder / "image02.png")]
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == times


def test_a_finished_run_that_is_resumed_says_the_same_figures(folder, tmp_path):
    first = rebuild(folder, tmp_path / "out")
    assert rebuild(folder, tmp_path / "out", resume=True).qualities == first.qualities


def whole_row(out):
    header, first = (out / "quality.csv").read_text().splitlines()[:2]
    return dict(zip(header.split(","), first.split(","), strict=True))


@pytest.mark.parametrize("change", ["a picture is gone", "other k", "an image is new"])
def test_a_finished_run_of_something_else_is_no_finished_run(folder, tmp_path, whole, change):
    out = tmp_path / "whole"
    ranks = (2, 5)
    if change == "a picture is gone":
        (out / "image03_k5.png").unlink()
    elif change == "other k":
        ranks = (2, 6)
    else:
        some_images(tmp_path / "more", 1)
        (tmp_path / "more" / "image00.png").rename(folder / "new.png")
    if change != "a picture is gone":
        with pytest.raises(ImageError, match="results of a run with other images or options"):
            rebuild(folder, out, ranks, resume=True)
    report = rebuild(folder, out, ranks, resume=True, replace=change != "a picture is gone")
    assert report.kept == 0
    assert all((out / line.file).is_file() for line in report.qualities)


def test_files_that_were_damaged_since_are_done_again(folder, out, whole):
    left = interrupted(folder, out, after=5)
    # not any picture there: one that was just written may belong to an image that is not entered
    done = [json.loads(line)[0] for line in (left / journal.FILE).read_text().splitlines()[1:]]
    first, second = [left / f"image{n:02}_k2.png" for n in done if n != 2][:2]  # 2 is no image
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    report = rebuild(folder, out, resume=True)
    assert report.kept == 3
    assert contents(out) == whole


@pytest.mark.parametrize("tail", [b"[4, [[12.5", b'"mov', b"\x00\x00", b'[1, [], [], "x"]'])
def test_half_a_line_at_the_end_of_the_journal_counts_for_nothing(folder, out, whole, tail):
    left = interrupted(folder, out)
    with open(left / journal.FILE, "ab") as file:
        file.write(tail)
    assert rebuild(folder, out, resume=True).kept == 3
    assert contents(out) == whole


REASONS = (
    "a process was ended by signal 9 (SIGKILL): memory may have run out",
    "a process ended with status 1",
    "No space left on device",
    "out of memory error when reading image file",
)


@pytest.mark.parametrize("reason", REASONS)
def test_what_an_earlier_version_set_aside_for_a_shortage_is_done(folder, tmp_path, whole, reason):
    left = interrupted(folder, tmp_path / "out")
    done = [json.loads(line)[0] for line in (left / journal.FILE).read_text().splitlines()[1:]]
    with open(left / journal.FILE, "a") as file:
        for image in {*range(COUNT)} - {*done, 2}:
            file.write(json.dumps([image, [], [], f"cannot be read: {reason}"]) + "\n")
    report = rebuild(folder, tmp_path / "out", resume=True)
    assert report.kept == 3 and contents(tmp_path / "out") == whole
    said = json.loads(whole["report.json"])
    said["set aside"].append({"file": "x.png", "reason": f"cannot be read: {reason}"})
    del said["checksum"]  # which that version did not write
    (tmp_path / "out" / "report.json").write_text(json.dumps(said))
    assert rebuild(folder, tmp_path / "out", resume=True).kept == 0
    assert contents(tmp_path / "out") == whole


def test_a_journal_that_was_torn_twice_loses_nothing(folder, out, whole):
    left = interrupted(folder, out, after=2)
    for kept in (2, 3):
        with open(left / journal.FILE, "ab") as file:
            file.write(b"[4, [" + b"[12.5, 0.25, 1.5], " * 40)
        assert len(interrupted(folder, out, after=1, resume=True).name) == len(left.name)
        lines = (left / journal.FILE).read_bytes().splitlines()
        assert len(list(map(json.loads, lines))) == 1 + kept + 1
    assert rebuild(folder, out, resume=True).kept == 4
    assert contents(out) == whole


DIFFERENCES = {
    "other k": ({"ranks": (2, 7)}, "--k was 2 5 and is 2 7"),
    "other size": ({"size": (16, 20)}, "--size was 16x16 and is 16x20"),
    "other fit": ({"fit": "crop"}, "--fit was stretch and is crop"),
    "other engine": ({"engine": "simulator"}, "--engine was numpy and is simulator"),
}


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_other_settings_are_said_and_nothing_is_lost(folder, out, whole, difference):
    options, words = DIFFERENCES[difference]
    interrupted(folder, out)
    before = contents(out)
    with pytest.raises(ResumeError, match="begun with something else") as caught:
        rebuild(folder, out, resume=True, **options)
    assert words in str(caught.value) and "begin again without --resume" in str(caught.value)
    assert contents(out) == before
    rebuild(folder, out, resume=True)
    assert contents(out) == whole


def test_other_images_altogether_are_refused(folder, tmp_path, out):
    interrupted(folder, out)
    before = contents(out)
    other = some_images(tmp_path / "other", 1)
    with pytest.raises(ResumeError, match="no image is the same: 1 image is new") as caught:
        rebuild(other, out, resume=True)
    assert "6 images are gone ('image00.png', ...)" in str(caught.value)
    assert contents(out) == before


def test_a_run_that_still_works_is_not_resumed(folder, out, whole):
    interrupted(folder, out)
    with alone_in(out):
        with pytest.raises(FolderInUse, match="another process writes its results to"):
            rebuild(folder, out, resume=True)
    rebuild(folder, out, resume=True)
    assert contents(out) == whole


def test_a_new_run_does_not_mix_its_results_with_those_of_one_at_work(folder, out):
    interrupted(folder, out)
    with alone_in(out):
        before = contents(out)
        with pytest.raises(FolderInUse, match="another process writes its results to"):
            rebuild(folder, out, ranks=(3,))
        assert contents(out) == before


def test_nothing_is_said_to_be_kept_where_the_folder_is_gone(folder, out):

    def progress(files):
        for number, file in enumerate(files):
            while number == 3 and out.exists():  # again, where a file came or went meanwhile
                shutil.rmtree(out, ignore_errors=True)
            yield file

    with pytest.raises(OSError, match="cannot write to the folder") as error:
        rebuild(folder, out, progress=progress, resume=True, batch=1, workers=1)
    assert not getattr(error.value, "__notes__", ())


def test_a_new_run_replaces_an_unfinished_one_when_it_is_done(folder, out, whole):
    interrupted(folder, out)
    (out / ".unfinished-empty").mkdir()  # killed before there was a journal
    rebuild(folder, out)
    assert contents(out) == whole
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def test_an_error_before_anything_is_done_keeps_nothing(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "broken.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match="none of the 1 files could be used"):
        rebuild(folder, tmp_path / "out", resume=True)
    assert not (tmp_path / "out").exists()


# --- the command ----------------------------------------------------------------------------------


def command(folder, out, *more):
    return ["reconstruct", folder, "--k", 2, 5, "--size", SIZE, "--engine", "numpy", "--out", out,
            *more]  # fmt: skip


@pytest.mark.usefixtures("keep_signal_handlers")
def test_the_command_resumes_and_says_so(folder, out, whole, capfd):
    interrupted(folder, out)
    status, _, err = call(capfd, *command(folder, out, "--resume", "--k", 7))
    assert (status, err.count("\n")) == (2, 1) and "--k was 2 5 and is 2 5 7" in err
    status, said, _ = call(capfd, *command(folder, out, "--resume", "--workers", 3, "--batch", 1))
    assert status == 0
    assert "5 images rebuilt by NumPy on the CPU, 3 of the files in an earlier run" in said
    assert contents(out) == whole


@pytest.mark.usefixtures("keep_signal_handlers")
def test_the_command_says_that_an_image_is_gone(folder, out, capfd):
    interrupted(folder, out)
    (folder / "image05.png").unlink()
    (folder / "image02.png").unlink()
    status, said, err = call(capfd, *command(folder, out, "--resume"))
    assert status == 0 and said.startswith("4 images rebuilt")
    assert err.startswith("2 images are gone ('image02.png', ...) since the run began: what is the")
    assert err.count("\n") == 1


@pytest.mark.usefixtures("keep_signal_handlers")
def test_the_command_says_that_an_unfinished_run_lies_there(folder, out, whole, capfd):
    interrupted(folder, out)
    status, _, err = call(capfd, *command(folder, out))
    assert status == 0
    assert err.startswith(f"an unfinished run lies in {str(out)!r}: --resume goes on with it")
    assert contents(out) == whole


@pytest.mark.usefixtures("keep_signal_handlers")
def test_the_command_does_not_call_a_run_at_work_unfinished(folder, tmp_path, capfd):
    interrupted(folder, tmp_path / "out")
    with alone_in(tmp_path / "out"):
        status, said, told = call(capfd, *command(folder, tmp_path / "out"))
    assert status == 2 and not said
    assert "another process" in told and "--resume goes on" not in told


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a pipe as a shell makes it")
def test_who_reads_only_the_beginning_gets_no_error(folder, tmp_path):
    words = [sys.executable, "-m", "course", *map(str, command(folder, tmp_path / "out"))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.close()
        told = run.stderr.read().decode()
    assert run.returncode == 0 and told.count("\n") == told.count("skipped")
    assert (tmp_path / "out" / "quality.csv").is_file()


def test_an_empty_name_is_no_folder(folder, capfd):
    status, said, told = call(capfd, *command(folder, ""))
    assert status == 2 and "--out: the name is empty" in told


@pytest.mark.parametrize("option", ["--workers", "--batch"])
@pytest.mark.parametrize("value", ["0", "-3", "many"])
def test_workers_and_batch_must_be_numbers(folder, tmp_path, capfd, option, value):
    status, _, err = call(capfd, *command(folder, tmp_path / "out", f"{option}={value}"))
    assert (status, err.count("\n")) == (2, 1)
    assert f"{value!r} is no number of at least 1" in err


#: So that the command is at work for long, however late a busy machine sends it a signal.
SLOW_WRITES = """
import os, time

def replace(*arguments, real=os.replace):
    time.sleep(0.1)
    real(*arguments)

os.replace = replace
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_a_stopped_command_says_what_is_kept(tmp_path):
    folder = some_images(tmp_path / "in", 200, side=120)
    (tmp_path / "sitecustomize.py").write_text(SLOW_WRITES)
    words = ["reconstruct", folder, "--k", 90, "--size", 120, "--out", tmp_path / "out"]
    start = [sys.executable, "-m", "course", *map(str, words), "--engine", "numpy"]
    slow = kill_test.environment()
    slow["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{slow['PYTHONPATH']}"
    process = subprocess.Popen(
        start, env=slow, stderr=subprocess.PIPE, text=True, cwd=tmp_path, preexec_fn=hear
    )
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("out/.unfinished-*/*.png"))) < 5:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    words = err.split()
    assert words[:4] == ["python", "-m", "course:", "stopped;"] and 1 <= int(words[4]) < 200
    assert err.endswith("of 200 images are done and kept; the same command with --resume goes on\n")
