"""Images by several processes: the results of one, whichever process ends, and none left behind."""

import errno
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from course.images.reading import ImageError
from course_app.pipeline import capacity, pipeline, stages, worker
from course_app.pipeline.journal import Done
from course_app.pipeline.scheduler import Scheduler
from course_app.pipeline.worker import Work
from course_app.pipeline.workers import Workers, how_it_ended
from tests.course_app.pipeline_parts import STAGES, call, contents, in_time
from tests.course_app.worker_parts import FAULTY, SLOWLY, TIMEOUT, all_end, customized, lives
from tools import kill_test

SIZE = 24
COUNT = 14
pytestmark = [
    pytest.mark.usefixtures("quick_grid"),
    pytest.mark.skipif(sys.platform != "linux", reason="signals, /proc"),
]


@pytest.fixture
def whole(folder, tmp_path):
    """What this process makes of the images."""
    rebuild(folder, tmp_path / "whole")
    return contents(tmp_path / "whole")


def rebuild(folder, out, ranks=(3, 9), **options):
    given = {"size": SIZE, "engine": "numpy"} | options
    return in_time(lambda: pipeline.reconstruct_images([folder], ranks, out, **given))


def at(place, do):
    """Something that is done when so many images are."""

    def progress(files):
        for number, file in enumerate(files):
            if number == place:
                do()
            yield file

    return progress


# --- what comes out -------------------------------------------------------------------------------


@pytest.mark.drawn(2)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_names_order_and_bytes_are_those_of_one_process(folder, tmp_path, whole, begun, count):
    lines = []
    report = rebuild(folder, tmp_path / "out", workers=count, watch=lines.append)
    assert len(begun) == count and contents(tmp_path / "out") == whole
    assert [os.path.basename(file) for file, _ in report.skipped] == ["image02.png"]
    ((line),) = lines
    assert set(line.seconds) == STAGES and min(line.seconds.values()) > 0


def test_for_little_work_there_is_no_process_but_this(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "Workers", None)
    rebuild(folder, tmp_path / "out", workers=9)


def test_there_are_no_more_processes_than_images_or_than_the_work_is_worth(
    folder, tmp_path, monkeypatch
):
    asked = []

    def add(workers, count):
        asked.append(count)
        raise ImageError("enough")

    monkeypatch.setattr(pipeline.Workers, "__init__", lambda workers: None)
    monkeypatch.setattr(pipeline.Workers, "close", lambda workers: None)
    monkeypatch.setattr(pipeline.Workers, "add", add)
    monkeypatch.setattr(capacity, "WORTH_PROCESSES", 0)
    for worth, workers in (10, 30), (10, 7), (10, 1), (99, 30), (0.5, 30):
        its = worth * capacity.WORTH_A_PROCESS
        monkeypatch.setattr(capacity, "cpu_seconds", lambda *_, its=its: its)
        with pytest.raises(ImageError, match="enough"):
            rebuild(folder, tmp_path / "out", workers=workers)
    assert asked == [10, 7, 1, COUNT, 2]


def test_what_a_decoder_prints_is_no_answer(folder, tmp_path, whole, begun, monkeypatch):
    customized(tmp_path, monkeypatch, FAULTY.replace("speaks", "image"))
    rebuild(folder, tmp_path / "out", workers=2)
    assert contents(tmp_path / "out") == whole


# --- a process that ends --------------------------------------------------------------------------


def test_processes_that_are_killed_cost_nothing(folder, tmp_path, whole, begun, monkeypatch):
    """Each of two, once, in the middle of its work."""
    customized(tmp_path, monkeypatch, SLOWLY)

    def kill():
        for process in begun[:2]:
            os.kill(process, signal.SIGKILL)

    rebuild(folder, tmp_path / "out", workers=2, progress=at(1, kill))
    assert contents(tmp_path / "out") == whole


ENDS = {
    "fatal": "cannot be read: a process was ended by signal 11 (SIGSEGV), with no other at work",
    "ends": "cannot be read: a process ended with status 5, with no other at work",
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("names", [["fatal"], ["fatal too", "ends"]])
def test_a_decoder_that_ends_its_process_costs_its_image(
    folder, tmp_path, whole, begun, monkeypatch, names
):
    customized(tmp_path, monkeypatch, FAULTY)
    for number, name in enumerate(names):  # one after the other in the list of files
        (folder / f"image05{number} {name}.png").write_bytes((folder / "image05.png").read_bytes())
    report = rebuild(folder, tmp_path / "out", workers=2)
    told = {os.path.basename(file): reason for file, reason in report.skipped}
    assert "image02.png" in told and len(told) == 1 + len(names)
    for number, name in enumerate(names):
        assert told[f"image05{number} {name}.png"] == ENDS[name.split()[0]]
    found = contents(tmp_path / "out")
    pictures = {name for name in whole if "_k" in name}
    assert {name for name in found if "_k" in name} == pictures
    assert all(found[name] == whole[name] for name in (*pictures, "quality.csv", "grid.png"))


@pytest.mark.slow
def test_an_image_over_which_the_system_kills_processes_is_named_and_the_others_are_kept(
    folder, tmp_path, begun, monkeypatch
):
    killed = folder / "image05 killed.png"
    killed.write_bytes((folder / "image05.png").read_bytes())
    rebuild(folder, tmp_path / "whole")
    with monkeypatch.context() as patch:
        customized(tmp_path, patch, FAULTY)
        with pytest.raises(ChildProcessError, match="SIGKILL.*memory may have run out") as caught:
            rebuild(folder, tmp_path / "out", workers=2)
    over, kept = caught.value.__notes__
    assert over.startswith(f"it worked on {str(killed)!r}, with no other at work; give")
    assert kept.startswith(f"{COUNT} of {COUNT + 1} images are done and kept")
    rebuild(folder, tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_where_every_image_ends_its_process_all_are_named(folder, tmp_path, begun, monkeypatch):
    customized(tmp_path, monkeypatch, FAULTY.replace("fatal", "image"))
    with pytest.raises(ImageError, match="none of the 14 files could be used") as caught:
        rebuild(folder, tmp_path / "out", workers=3)
    assert "SIGSEGV" in str(caught.value)


@pytest.mark.slow
def test_processes_that_end_at_once_are_one_clear_error(
    folder, tmp_path, begun, monkeypatch, capfd
):
    customized(tmp_path, monkeypatch, "os._exit(7)")
    words = "3 processes in turn ended before they did anything; the last one ended with status 7"
    with pytest.raises(ChildProcessError, match=words):
        rebuild(folder, tmp_path / "out", workers=2)
    given = ["--k", 3, "--size", SIZE, "--engine", "numpy", "--out", tmp_path / "out"]
    status, said, err = call(capfd, "reconstruct", folder, *given)
    assert (status, said) == (2, "") and err == f"python -m course: error: {words}\n"
    assert not (tmp_path / "out").exists()


def test_how_a_process_ended_is_said():
    assert how_it_ended(3) == "ended with status 3"
    assert how_it_ended(-11) == "was ended by signal 11 (SIGSEGV)"
    assert how_it_ended(-9).endswith("signal 9 (SIGKILL): memory may have run out")
    assert how_it_ended(-63) == "was ended by signal 63 (unknown)"


def test_another_process_takes_the_place_of_one_that_ended(folder, tmp_path):
    job = stages.Job((SIZE, SIZE), "stretch", [3], [3], tmp_path)
    task = stages.Task(0, folder / "image00.png", ["a.png"])
    with Workers(1) as workers:
        (hand,) = workers.hands
        hand.begin(job, None)
        first = hand.pid
        assert hand.do(Work("whole", [(0, task)])).found[0].reason is None
        os.kill(first, signal.SIGKILL)
        hand._process.wait()  # idle: what is done next did not end it
        assert hand.do(Work("whole", [(0, task)])).found[0].reason is None
        assert hand.pid != first and not lives(first)
        second = hand.pid
    assert not lives(second)


# --- errors, interruptions ------------------------------------------------------------------------

FULL = """
from course import files

def full(path, content):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

import errno
files.write_whole = full
"""
RAISES = """
from course_app.pipeline import stages

class Odd(Exception):
    def __init__(self, one, two):
        super().__init__("planted")

def raises(image, most, real=stages.factorise):
    raise {error}

stages.factorise = raises
"""


def test_a_full_disk_is_the_same_error_from_another_process(folder, tmp_path, begun, monkeypatch):
    customized(tmp_path, monkeypatch, FULL)
    with pytest.raises(OSError, match="No space left on device; make room on that") as caught:
        rebuild(folder, tmp_path / "out", workers=2)
    assert caught.value.errno == errno.ENOSPC and str(tmp_path / "out") in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        ("ZeroDivisionError('planted')", ZeroDivisionError, "planted"),
        ("MemoryError('planted')", MemoryError, "planted"),
        ("Odd(1, 2)", RuntimeError, "Odd: planted"),  # which cannot travel
    ],
)
def test_an_error_is_of_the_same_kind_from_another_process(
    folder, tmp_path, begun, monkeypatch, error, kind, words
):
    customized(tmp_path, monkeypatch, RAISES.format(error=error))
    with pytest.raises(kind, match=words):
        rebuild(folder, tmp_path / "out", workers=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.drawn(2)
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_ends_all_processes_and_can_be_resumed(
    folder, tmp_path, out, whole, begun, monkeypatch, error
):
    customized(tmp_path, monkeypatch, SLOWLY)

    def stop():
        raise error

    with pytest.raises(error) as caught:
        rebuild(folder, out, workers=2, progress=at(3, stop))
    assert not any(map(lives, begun)) and len(begun) == 2
    assert caught.value.__notes__[0].startswith("3 of 14 images are done and kept")
    before = contents(out)
    report = rebuild(folder, out, workers=2, resume=True)
    assert report.kept == 3 and contents(out) == whole
    assert {name for name in before if "journal" in name}  # it was a run that still worked


def test_where_something_is_refused_after_processes_began_none_is_left(folder, tmp_path, begun):
    with pytest.raises(ImageError, match="engine is 'cuda'; allowed are"):
        rebuild(folder, tmp_path / "out", workers=2, engine="cuda")
    assert len(begun) == 2 and not any(map(lives, begun))


PARENT = """
import sys
from course_app.pipeline import capacity, pipeline

capacity.WORTH_PROCESSES, capacity.WORTH_A_PROCESS = 0, 1e-9

def say(line):
    print(*(hand.pid for hand in line.workers.hands), flush=True)

pipeline.reconstruct_images(
    [sys.argv[1]], [3, 9], sys.argv[2], size=24, engine="numpy", workers=3, watch=say
)
"""


def test_processes_end_with_their_parent_however_it_ends(folder, tmp_path, begun, monkeypatch):
    """By SIGKILL, of which it hears nothing; what was done is kept."""
    rebuild(folder, tmp_path / "whole")
    place = customized(tmp_path, monkeypatch, SLOWLY)
    out, environment = tmp_path / "out", kill_test.environment()
    environment["PYTHONPATH"] = f"{place}{os.pathsep}{environment['PYTHONPATH']}"
    words = [sys.executable, "-c", PARENT, str(folder), str(out)]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        processes = [int(word) for word in parent.stdout.readline().split()]
        deadline = time.monotonic() + TIMEOUT
        while not any(path.stat().st_size > 999 for path in out.glob(".unfinished-*/journal*")):
            if len(list(out.glob(".unfinished-*/*_k9.png"))) > 3:
                break
            assert parent.poll() is None and time.monotonic() < deadline
            time.sleep(0.002)
        parent.kill()
    assert len(processes) == 3 and all_end(processes)
    left = len(contents(out))
    rebuild(folder, out, workers=2, resume=True)
    assert left and contents(out) == contents(tmp_path / "whole")


# --- bounded --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_twenty_thousand_images_need_no_more_memory_than_their_list(monkeypatch):
    monkeypatch.setattr(
        stages, "whole", lambda job, task, shown, clock: Done(task.image, [(9.0, 0.5, 0.1)], [7])
    )
    job = stages.Job((8, 8), "stretch", [1], [1], Path())
    todo = [stages.Task(number, Path(), []) for number in range(20_000)]
    assert any(_peak(job, todo) < 40 * len(todo) for _ in range(3))


def _peak(job, todo):
    """The most memory while all is done; other threads' is counted, too, where they take any."""
    tracemalloc.start()
    try:
        assert sum(1 for _ in Scheduler(job, todo, None, 8)) == len(todo)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- between the processes ------------------------------------------------------------------------


def test_what_is_sent_is_received_whole_or_it_is_said():
    read, write = os.pipe()
    with os.fdopen(read, "rb") as incoming, os.fdopen(write, "wb") as outgoing:
        for what in ({"a": [1, 2]}, list(range(1000)), None):
            worker.send(outgoing, what)
            assert worker.receive(incoming) == what
        outgoing.write(worker.LENGTH.pack(50) + b"half of it")
        outgoing.close()
        with pytest.raises(EOFError, match="the other process has ended"):
            worker.receive(incoming)
        with pytest.raises(EOFError):
            worker.receive(incoming)


def test_a_process_whose_parent_has_ended_already_does_not_begin(monkeypatch):
    # this process is not to end with its own
    monkeypatch.setattr(worker.sys, "platform", "another")
    with pytest.raises(EOFError, match="the parent has ended"):
        worker.end_with_parent(-1)
