"""The command as an operator expects it: what it reads, leaves out, keeps, replaces and reports."""

import csv
import errno
import importlib
import io
import json
import math
import os
import shutil
import signal
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from course import files
from course.images.reading import ImageError
from course_app.commands import reconstruct
from course_app.pipeline import inputs, results
from course_app.pipeline import progress as watching
from course_app.pipeline.pipeline import reconstruct_images
from course_app.pipeline.scheduler import Scheduler
from course_app.pipeline.stages import Job
from tests.course_app.pipeline_parts import STAGES, call, contents, in_time, rows_of, some_images

pytestmark = pytest.mark.usefixtures("quick_grid")


def words(*inputs, out, k=(2,), more=()):
    options = ["--k", *k, "--size", 16, "--engine", "numpy", "--out", out, *more]
    return ["reconstruct", *inputs, *options]


# --- what is read, and what is passed over --------------------------------------------------------


def littered(tmp_path):
    """A folder of two images and much else."""
    folder = some_images(tmp_path / "in", 2)
    for name in ("a.txt", "b.TXT", "c.svg", "LICENSE", ".DS_Store"):
        (folder / name).write_text("no image")
    for name in ("sub", "sub/deeper", "odd.png", ".thumbnails"):
        (folder / name).mkdir()
    return folder


def test_what_is_passed_over_is_counted_by_kind(tmp_path, capfd):
    folder, out = littered(tmp_path), tmp_path / "in" / "out"
    for _ in range(2):  # the folder for results is none of it, when it is there, either
        status, _, err = call(capfd, *words(folder, out=out))
        assert status == 0
        assert err == (
            "passed over: 2 .txt, 2 hidden, 1 .svg, 1 without a suffix; "
            "2 folders (use --recursive)\n"
        )
    status, _, err = call(capfd, *words(folder, out=out, more=["--resume"]))
    assert status == 0 and err.startswith("passed over: 2 .txt")
    assert call(capfd, *words(folder / "image00.png", out=tmp_path / "one"))[2] == ""


def test_recursive_takes_subfolders_and_their_names_are_in_those_of_the_results(tmp_path, capfd):
    folder, out = littered(tmp_path), tmp_path / "in" / "out"
    picture = Image.open(folder / "image00.png")
    for name in ("sub/image00", "sub/deeper/image00", "sub__image00", "odd.png/x", ".thumbnails/y"):
        picture.save(folder / f"{name}.png")
    (folder / "sub" / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "sub" / "other.md").touch()
    for _ in range(2):  # results that lie below the images are not read as images
        status, said, err = call(capfd, *words(folder, out=out, more=["--recursive"]))
        assert status == 0 and said.startswith("6 images rebuilt")
        assert err == (
            "passed over: 2 .txt, 2 hidden, 1 .md, 1 .svg, 1 linked folder, 1 without a suffix\n"
        )
    rows = {row["source"]: row["name"] for row in rows_of(out)}
    assert [(os.path.relpath(source, folder), name) for source, name in rows.items()] == [
        ("image00.png", "image00"),
        ("image01.png", "image01"),
        ("sub__image00.png", "sub__image00"),
        ("odd.png/x.png", "odd.png__x"),
        ("sub/image00.png", "sub__image00_2"),
        ("sub/deeper/image00.png", "sub__deeper__image00"),
    ]


def test_long_names_keep_their_end_and_stay_apart(tmp_path):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    for name in ("f" * 80, "f" * 81, "g"):
        (deep / f"{name}.png").touch()
    names = inputs.gathered([tmp_path], recursive=True).names
    assert names == ["f" * 50, "f" * 50 + "_2", "e" * 47 + "__g"]


# --- a run that is stopped ------------------------------------------------------------------------


def test_whatever_ends_a_run_keeps_what_is_done_unless_it_is_to_be_discarded(tmp_path):
    folder = some_images(tmp_path / "in", 6)
    options = {"size": 16, "engine": "numpy", "workers": 1, "batch": 1}

    def rebuild(out, **more):
        return in_time(lambda: reconstruct_images([folder], [2], out, **(options | more)))

    rebuild(tmp_path / "whole")
    for number, error in enumerate((KeyboardInterrupt, OSError, MemoryError, ZeroDivisionError)):

        def progress(files, error=error):
            yield from files[:3]
            raise error

        out = tmp_path / f"out{number}"
        with pytest.raises(error):
            rebuild(out, progress=progress, discard=True)
        assert not out.exists()
        with pytest.raises(error) as caught:
            rebuild(out, progress=progress)
        assert caught.value.__notes__ == [
            "3 of 6 images are done and kept; the same command with --resume goes on"
        ]
        assert rebuild(out, resume=True).kept == 3
        assert contents(out) == contents(tmp_path / "whole")


def test_to_resume_and_to_discard_exclude_each_other(tmp_path, capfd):
    folder = some_images(tmp_path / "in", 1)
    status, _, err = call(
        capfd, *words(folder, out=tmp_path / "out", more=["--resume", "--discard"])
    )
    assert status == 2 and "--discard: not allowed with argument --resume" in err
    with pytest.raises(ImageError, match="resume and discard contradict each other"):
        reconstruct_images([folder], [2], tmp_path / "out", resume=True, discard=True)


# --- what is reported -----------------------------------------------------------------------------


def test_strict_ends_with_status_3_where_an_image_was_set_aside(tmp_path, capfd):
    folder, out = some_images(tmp_path / "in", 3), tmp_path / "out"
    assert call(capfd, *words(folder, out=out, more=["--strict"]))[0] == 0
    (folder / "broken.png").write_bytes(b"no image")
    for more, expected in ([], 0), (["--strict"], 3), (["--strict", "--resume"], 3):
        status, said, err = call(capfd, *words(folder, out=tmp_path / "more", more=more))
        assert status == expected and said.startswith("3 images rebuilt")
        assert err.startswith("skipped ") and "broken.png" in err
    status, said, _ = call(capfd, "reconstruct", "--help")
    assert "status 3" in " ".join(said.split())


def test_means_are_of_what_is_not_exact_but_for_rounding_and_that_is_counted(tmp_path, capfd):
    folder, out = some_images(tmp_path / "in", 3), tmp_path / "out"
    for name in ("black", "black too"):
        Image.new("L", (20, 20), 0).save(folder / f"{name}.png")
    status, said, _ = call(capfd, *words(folder, out=out))
    psnr = [float(row["psnr_db"]) for row in rows_of(out)]
    lossy = [value for value in psnr if value < 100]  # of one picture the rank is 1
    assert status == 0 and len(lossy) == 2 and sum(map(math.isinf, psnr)) == 2 and len(psnr) == 5
    line = said.splitlines()[2]
    assert line.split()[:2] == ["2", f"{sum(lossy) / 2:.1f}"]
    assert line.endswith("PSNR: 3 exact, left out")
    (its,) = results.means(reconstruct_images([folder], [2], out, size=16, resume=True).qualities)
    assert its.exact == 3 and its.psnr_db == pytest.approx(sum(lossy) / 2)
    _, said, _ = call(capfd, *words(folder / "image00.png", out=tmp_path / "exact"))
    assert 100 < float(said.splitlines()[2].split()[1]) < math.inf
    for given in ([folder / "black.png"], [folder / "black.png", folder / "black too.png"]):
        _, said, _ = call(capfd, *words(*given, out=tmp_path / f"flat{len(given)}"))
        assert said.splitlines()[2].split()[:2] == ["2", "inf"] and "infinite" not in said


def test_json_is_one_object_for_machines_and_all_else_goes_elsewhere(tmp_path, capfd):
    folder, out = littered(tmp_path), tmp_path / "out"
    (folder / "broken.png").write_bytes(b"")
    Image.new("L", (20, 20), 0).save(folder / "black.png")
    status, said, err = call(capfd, *words(folder, out=out, k=(2, 5), more=["--json"]))
    found = json.loads(said, parse_constant=pytest.fail)
    assert status == 0 and said.count("\n") == 1 and "3 images rebuilt" in err
    assert found.pop("seconds") > 0 and found.pop("images_per_second") > 0
    means, stages = found.pop("means"), found.pop("seconds_of_stages")
    assert set(stages) == STAGES and min(stages.values()) > 0
    assert [(its["k"], its["exact"]) for its in means] == [(2, 2), (5, 2)]
    assert means[0].keys() == {"k", "psnr_db", "exact", "ssim", "compression"}
    assert found == {
        "images": 4,
        "rebuilt": 3,
        "kept": 0,
        "set_aside": [{"file": str(folder / "broken.png"), "reason": "is empty (0 bytes)"}],
        "unreadable": [],
        "passed_over": {".txt": 2, "hidden": 2, ".svg": 1, "without a suffix": 1, "folder": 2},
        "engine": "NumPy on the CPU",
        "processes": 0,
        "out": str(out),
    }
    again = call(capfd, *words(folder, out=out, k=(2, 5), more=["--json", "--resume"]))[1]
    assert json.loads(again)["kept"] == 4 and json.loads(again)["images_per_second"] == 0
    assert call(capfd, *words(folder / "no", out=out, more=["--json"]))[:2] == (2, "")


# --- results of another run -----------------------------------------------------------------------


def test_results_of_another_run_are_refused_or_replaced_as_a_whole(tmp_path, capfd):
    folder, fewer, out = some_images(tmp_path / "in", 5), tmp_path / "fewer", tmp_path / "out"
    call(capfd, *words(folder, out=out, k=(2, 3)))
    (out / "notes_k2.png").write_text("mine")
    before = contents(out)
    some_images(fewer, 2)
    for more in ([], ["--resume"]):
        status, said, err = call(capfd, *words(fewer, out=out, more=more))
        assert (status, said, err.count("\n")) == (2, "", 1)
        assert "holds results of a run with other images or options (10 pictures): choose" in err
        assert "--replace" in err and contents(out) == before
    call(capfd, *words(fewer, out=tmp_path / "whole"))
    assert call(capfd, *words(fewer, out=out, more=["--replace"]))[0] == 0
    after = contents(out)
    assert after.pop("notes_k2.png") == b"mine" and after == contents(tmp_path / "whole")
    assert call(capfd, *words(fewer, out=out))[0] == 0  # the same run again


@pytest.mark.parametrize("name", ["image01_k2.png", "quality.csv", "grid.png"])
def test_files_of_others_are_not_written_over(tmp_path, capfd, name):
    folder, out = some_images(tmp_path / "in", 2), tmp_path / "out"
    out.mkdir()
    (out / name).write_text("file\n../in/image00.png\n")
    status, _, err = call(capfd, *words(folder, out=out))
    assert status == 2 and f"holds {name!r}, which is no result of a finished run: choose" in err
    assert list(contents(out)) == [name]
    assert call(capfd, *words(folder, out=out, more=["--replace"]))[0] == 0
    assert len(list(folder.iterdir())) == 2 and len(rows_of(out)) == 2


def test_a_death_while_results_are_replaced_mixes_nothing(tmp_path, monkeypatch):
    """At every removal and every move; what goes on ends it, what begins again clears it away."""
    old, new = some_images(tmp_path / "old", 4), tmp_path / "new"
    some_images(new, 3)
    (new / "image02.png").rename(new / "other.png")
    options = {"size": 16, "engine": "numpy"}

    def rebuild(folder, out, **more):
        return reconstruct_images([folder], [2], out, **(options | more))

    rebuild(old, tmp_path / "begun")
    rebuild(new, tmp_path / "whole")
    expected = {"old": contents(tmp_path / "begun"), "new": contents(tmp_path / "whole")}
    for count in range(30):
        ways = [tmp_path / f"{way}{count}" for way in ("resumed", "anew")]
        for out in ways:
            shutil.copytree(tmp_path / "begun", out)
            left = [count]

            def dies(real):
                def change(*paths, **more):
                    if Path(paths[-1]).parent == out:  # noqa: B023
                        if not left[0]:  # noqa: B023
                            raise KeyboardInterrupt
                        left[0] -= 1  # noqa: B023
                    real(*paths, **more)

                return change

            with monkeypatch.context() as patch:
                patch.setattr(os, "replace", dies(os.replace))
                patch.setattr(Path, "unlink", dies(Path.unlink))
                with suppress(KeyboardInterrupt):
                    rebuild(new, out, replace=True)
        rebuild(new, ways[0], resume=True)
        assert contents(ways[0]) == expected["new"]
        rebuild(old, ways[1], replace=True)
        assert contents(ways[1]) == expected["old"]
        if left[0]:
            break
    assert 5 < count < 29


# --- what cannot be read --------------------------------------------------------------------------


def refuse(monkeypatch, name, *places):
    """The system refuses this name, whoever runs the test."""

    def refusing(real):
        def asked(path, *more, **options):
            if isinstance(path, str | Path) and os.path.basename(path) == name:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return real(path, *more, **options)

        return asked

    for module, place in places:
        monkeypatch.setattr(module, place, refusing(getattr(module, place)))


def test_a_folder_that_cannot_be_read_is_a_sentence(tmp_path, capfd, monkeypatch):
    folder, out = some_images(tmp_path / "in", 2), tmp_path / "out"
    some_images(folder / "lost", 1)
    refuse(monkeypatch, "lost", (os, "scandir"))
    status, said, err = call(capfd, *words(folder / "lost", out=out))
    assert (status, said, err.count("\n")) == (2, "", 1)
    assert "lost' cannot be read: Permission denied; change its permissions" in err
    status, said, err = call(capfd, *words(folder, out=out, more=["--recursive", "--strict"]))
    assert status == 3 and said.startswith("2 images rebuilt")
    assert err == f"skipped '{folder / 'lost'}': cannot be read: Permission denied\n"


@pytest.mark.parametrize("name", ["secret", "secret.png"])
def test_a_file_that_cannot_be_asked_is_a_sentence(tmp_path, capfd, monkeypatch, name):
    folder = some_images(tmp_path / "in", 1)
    refuse(monkeypatch, name, (Path, "stat"))
    status, _, err = call(capfd, *words(folder / name, out=tmp_path / "out"))
    assert (status, err.count("\n")) == (2, 1)
    assert f"{name}' cannot be read: Permission denied; change" in err and "Errno" not in err
    status, _, err = call(capfd, *words(folder, out=tmp_path / name))
    assert (status, err.count("\n")) == (2, 1)
    assert "Permission denied" in err and "Errno" not in err and str(tmp_path / name) in err


def test_no_error_of_the_system_shows_its_number(capfd, monkeypatch):
    def fails(arguments):
        raise OSError(errno.EIO, "Input/output error", "a.png")

    monkeypatch.setattr(reconstruct, "run", fails)
    assert call(capfd, *words("a.png", out="out"))[2] == (
        "python -m course: error: 'a.png': Input/output error\n"
    )


# --- odd names ------------------------------------------------------------------------------------

NAMES = [
    b"=cmd|'calc'!A0.png", b"+1.png", b"-rf.png", b"@sum.png", b"two\nlines.png", b"cr\r.png",
    b"a,b;c.png", b'"quoted".png', b"'single'.png", b"caf\xe9.png", b"caf\xc3\xa9.png",
    b"back\\x.png", b"\ttab.png", b" space .png", b"%41.png", b"\x1b[31m.png",
]  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_the_table_has_every_name_byte_for_byte(tmp_path, capfd, monkeypatch):
    folder = some_images(tmp_path / "in", 1)
    picture = (folder / "image00.png").read_bytes()
    (folder / "image00.png").unlink()
    (folder / "bro\nken\udce9.png").write_bytes(b"")
    for name in NAMES:
        (folder / os.fsdecode(name)).write_bytes(picture)
    monkeypatch.chdir(folder)
    given = sorted(path.name for path in folder.iterdir())
    for out, paths in (tmp_path / "all", [folder]), (tmp_path / "each", given):
        status, _, err = call(capfd, "reconstruct", *words("--", out=out)[2:-1], out, "--", *paths)
        assert status == 0 and err.count("\n") == 1
        with open(out / "quality.csv", newline="", encoding="utf-8", errors="surrogateescape") as f:
            rows = list(csv.DictReader(f))
        sources = [os.fsencode(row["source"]) for row in rows]
        assert sorted(map(os.path.basename, sources)) == sorted(NAMES)
        assert all(os.path.isfile(source) for source in sources)
        for row in rows:
            assert not any(str(cell).startswith(results.FORMULA) for cell in row.values())
            assert (out / row["file"]).is_file() and row["file"].isprintable()
        report = json.loads((out / "report.json").read_text(encoding="utf-8"))
        (broken,) = report["set aside"]
        assert os.path.basename(os.fsencode(broken["file"])) == b"bro\nken\xe9.png"
        again = reconstruct_images(paths, [2], out, size=16, engine="numpy", resume=True)
        assert again.kept == len(NAMES) + 1


# --- progress -------------------------------------------------------------------------------------


def seen(gpu=0.0, workers=None, **seconds):
    """A line of which so many seconds of stages are known."""
    line = Scheduler(Job((8, 8), "stretch", [1], [1], Path()), [], None, 1)
    line.seconds.update(seconds | ({"gpu": gpu} if gpu else {}))
    line.workers = workers
    return line


def test_the_slowest_stage_is_that_of_most_seconds_of_a_process_or_the_gpu():
    four = range(4)
    assert seen().slowest() is None
    assert seen(decode=3.0, factorise=9.0, save=2.0).slowest() == "factorise"
    assert seen(decode=9.0, save=3.0, workers=four, gpu=2.9).slowest() == "decode"
    assert seen(decode=9.0, save=3.0, workers=four, gpu=3.1).slowest() == "gpu"


def test_now_and_then_a_line_says_how_far_it_is_and_which_stage_is_the_slowest():
    seconds, said = iter(range(0, 9000, 4)), io.StringIO()
    watch = watching.Watch(said, clock=lambda: next(seconds))
    watch.watch(seen(decode=3.0, save=5.0))
    assert list(watch(list(range(1000))))[-1] == 999
    lines = said.getvalue().splitlines()
    assert len(lines) == 124
    end = "0.25 a second, 66 minutes left; slowest stage: save"
    assert lines[0] == f"8 of 1,000 images done, {end}"


def test_on_a_terminal_there_is_a_bar_and_with_quiet_there_is_nothing(tmp_path, capfd, monkeypatch):
    folder = some_images(tmp_path / "in", 12)
    monkeypatch.setattr(watching, "EVERY", 0)
    status, _, err = call(capfd, *words(folder, out=tmp_path / "lines"))
    assert status == 0 and "1 of 12 images done" in err and err.count("\n") == 11
    assert call(capfd, *words(folder, out=tmp_path / "none", more=["--quiet"]))[2] == ""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shown = Terminal()
    watch = watching.Watch(shown)
    watch.watch(seen(save=3.0))
    with pytest.raises(KeyboardInterrupt):
        for number, _ in enumerate(watch(list(range(50)))):
            if number == 20:
                raise KeyboardInterrupt
    assert "0/50 [" in shown.getvalue() and watch.slowest == "save"


# --- how it is called -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("/usr/bin/course", "course"),
        ("course.exe", "course"),
        ("/x/course/__main__.py", "python -m course"),
    ],
)
def test_usage_and_errors_name_the_program_as_it_was_called(capfd, monkeypatch, program, name):
    monkeypatch.setattr(sys, "argv", [program])
    status, said, _ = call(capfd, "reconstruct", "--help")
    assert status == 0 and said.startswith(f"usage: {name} reconstruct IMAGES")
    assert f"  {name} reconstruct data/images --k 50" in said
    assert call(capfd, "fly")[2].startswith(f"{name}: error: ")
    assert call(capfd, *words("none", out="out"))[2].startswith(f"{name}: error: there is no file")


def test_the_console_script_is_the_whole_program(capfd, monkeypatch):
    project = tomllib.loads(Path(files.__file__).parents[1].joinpath("pyproject.toml").read_text())
    module, _, name = project["project"]["scripts"]["course"].partition(":")
    script = getattr(importlib.import_module(module), name)
    monkeypatch.setattr(sys, "argv", ["course", "--help"])
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as ended:
            script()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.code == 0 and capfd.readouterr().out.startswith("usage: course ")
