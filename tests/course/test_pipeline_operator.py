"""The command as an operator expects it: what it reads, leaves out, keeps, replaces and reports."""

import pytest

from tests.course.pipeline_parts import call, some_images

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
        assert err == ("passed over: 2 .txt, 2 hidden, 1 .svg, 1 without a suffix; 2 folders\n")
    status, _, err = call(capfd, *words(folder, out=out, more=["--resume"]))
    assert status == 0 and err.startswith("passed over: 2 .txt")
    assert call(capfd, *words(folder / "image00.png", out=tmp_path / "one"))[2] == ""
