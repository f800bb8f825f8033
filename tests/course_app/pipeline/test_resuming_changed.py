"""--resume where images came, went or changed since: the same is kept, the rest is as if new."""

import json
import os
import shutil
import sys

import pytest

from course.files import FolderInUse, alone_in
from course_app.pipeline import journal, pipeline, results, stages
from course_app.pipeline.journal import ResumeError
from tests.course_app.pipeline.test_resuming import die, in_a_child
from tests.course_app.pipeline_parts import contents, in_time, some_images

COUNT = 14  # more than the grid shows
pytestmark = pytest.mark.usefixtures("quick_grid")


def rebuild(inputs, out, ranks=(2, 5), **options):
    given = {"size": 16, "engine": "numpy", "workers": 2, "batch": 2} | options
    inputs = inputs if isinstance(inputs, list) else [inputs]
    return in_time(lambda: pipeline.reconstruct_images(inputs, ranks, out, **given))


def interrupted(inputs, out, after=11, **options):
    """Leave an unfinished run with at least so many images done."""

    def progress(files):
        yield from files[:after]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild(inputs, out, progress=progress, resume=True, workers=1, **options)


def undisturbed(inputs, out):
    rebuild(inputs, out)
    return contents(out)


@pytest.fixture
def read(monkeypatch):
    """Names of the files that are decoded from now on."""
    names = []
    real = stages.decode
    monkeypatch.setattr(stages, "decode", lambda f, *more: names.append(f.name) or real(f, *more))
    return names


def removed(folder):
    for number in (0, 4):
        (folder / f"image{number:02}.png").unlink()


def removed_in_work(folder):
    (folder / "image13.png").unlink()


def added(folder):
    shutil.copy(folder / "image05.png", folder / "a first one.png")


def changed(folder):
    shutil.copy(folder / "image09.png", folder / "image01.png")


def touched(folder):
    os.utime(folder / "image01.png", ns=(1, 1))


def repaired(folder):
    shutil.copy(folder / "image09.png", folder / "image02.png")


def all_at_once(folder):
    for change in (removed, added, changed, repaired):
        change(folder)


TOLD = {
    removed: "2 images are gone ('image00.png', ...)",
    removed_in_work: "1 image is gone ('image13.png')",
    added: "1 image is new ('a first one.png')",
    changed: "1 image is changed ('image01.png')",
    touched: "1 image is changed ('image01.png')",
    repaired: "1 image is changed ('image02.png')",
    all_at_once: "1 image is new ('a first one.png'); 2 images are gone ('image00.png', ...); "
    "2 images are changed ('image01.png', ...)",
}


@pytest.mark.parametrize("change", TOLD)
def test_what_is_the_same_is_kept_and_the_rest_is_done(folder, tmp_path, out, read, change):
    """Twelve of fourteen are done; the results are those of a run with the images as they are."""
    interrupted(folder, out)
    (left,) = out.iterdir()
    lines = [json.loads(line) for line in (left / journal.FILE).read_text().splitlines()]
    done = {os.path.basename(lines[0]["files"][line[0]][0]) for line in lines[1:]}
    assert len(done) >= 11
    before = {path.name: path.stat() for path in folder.iterdir()}
    change(folder)
    same = {
        path.name for path in folder.iterdir()
        if path.name in before and path.stat().st_mtime_ns == before[path.name].st_mtime_ns
    }  # fmt: skip
    read.clear()
    told = []
    report = rebuild(folder, out, resume=True, tell=told.append)
    again = {name for name in read if name in same & done}
    # The grid needs pictures of images that were not among its first ones before.
    assert len(again) <= 3 and report.kept == len(same & done) - len(again)
    assert sorted(read) == sorted({path.name for path in folder.iterdir()} - (same & done) | again)
    assert told == [f"{TOLD[change]} since the run began: what is the same is kept"]
    assert contents(out) == undisturbed(folder, tmp_path / "whole")
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def test_two_images_of_one_name_do_not_change_places(folder, tmp_path, out):
    """b/image00.png becomes image00_2; once a/image00.png is gone it becomes image00."""
    other = some_images(tmp_path / "other", 3, side=30)
    interrupted([other, folder], out)
    shutil.rmtree(other)
    assert rebuild(folder, out, resume=True).kept > 3
    assert contents(out) == undisturbed(folder, tmp_path / "whole")


def test_another_order_is_no_trouble(folder, tmp_path):
    files = sorted(folder.iterdir())
    interrupted(files, tmp_path / "out")
    assert rebuild(files[::-1], tmp_path / "out", resume=True).kept > 3
    assert contents(tmp_path / "out") == undisturbed(files[::-1], tmp_path / "whole")


def test_images_that_come_back_are_not_done_again(folder, tmp_path, out, read):
    """A folder that was not mounted for a while, or a slip: nothing is thrown away."""
    other = some_images(tmp_path / "other", 12, side=30)
    interrupted([folder, other], out, after=22)
    interrupted(folder, out, after=1)
    assert len(list(out.iterdir())) == 2
    read.clear()
    told = []
    report = rebuild([folder, other], out, resume=True, tell=told.append)
    assert report.kept >= 20 and len(read) == COUNT + 12 - report.kept and not told
    assert contents(out) == undisturbed([folder, other], tmp_path / "whole")


def test_settings_are_never_mixed(folder, out):
    interrupted(folder, out)
    removed(folder)
    before = contents(out)
    with pytest.raises(ResumeError, match="--k was 2 5 and is 2 7"):
        rebuild(folder, out, (2, 7), resume=True)
    assert contents(out) == before


def test_while_another_process_works_there_nothing_is_taken(folder, out):
    interrupted(folder, out)
    removed(folder)
    with alone_in(out):
        before = contents(out)
        with pytest.raises(FolderInUse, match="another process writes its results to"):
            rebuild(folder, out, resume=True)
        assert contents(out) == before


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_run_that_was_killed_as_it_moved_its_results_is_taken_over(folder, tmp_path, out, read):
    """Some results are where they belong, some are not; then an image goes."""
    interrupted(folder, out)

    def run():
        left, real = [7], os.replace

        def dies(source, target):
            if os.path.dirname(target) == str(out):
                left[0] -= 1
            if not left[0]:
                os._exit(99)
            real(source, target)

        os.replace = dies
        rebuild(folder, out, resume=True)

    assert in_a_child(run) == 99
    assert len(list(out.glob("*.png"))) == 6
    removed(folder)
    read.clear()
    report = rebuild(folder, out, resume=True)
    assert report.kept >= COUNT - 2 - 2 and len(read) <= 2  # whose pictures the grid now needs
    left_over = {f"image{number:02}_k{k}.png" for number in (0, 4) for k in (2, 5)}
    whole = undisturbed(folder, tmp_path / "whole")
    assert {name: its for name, its in contents(out).items() if name not in left_over} == whole
    assert not left_over & set(contents(out))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.parametrize("moment", ["half-way", "before", "after"])
def test_a_death_while_results_are_taken_over_loses_one_image_at_most(tmp_path, moment):
    folder, out = some_images(tmp_path / "in", 4), tmp_path / "out"
    interrupted(folder, out, after=3)
    begun = tmp_path / "begun"
    out.rename(begun)
    (folder / "image00.png").unlink()
    whole = undisturbed(folder, tmp_path / "whole")
    for count in range(1, 200):
        shutil.copytree(begun, out)

        def run(count=count):
            die(count, moment)
            rebuild(folder, out, resume=True)

        status = in_a_child(run)
        assert status in (0, 99)
        if status == 0:
            break
        at_end = (out / results.REPORT_FILE).exists()
        report = rebuild(folder, out, resume=True)
        assert report.kept >= 1 or at_end
        assert contents(out) == whole
        shutil.rmtree(out)
    assert 15 < count < 199
