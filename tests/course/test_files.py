"""Files that are whole or not there, and what is said where they cannot be written."""

import errno
import os

import pytest

from course import files


def full(path, content, mode):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_error_names_the_file_that_was_wanted_and_the_old_one_stays(tmp_path, monkeypatch):
    path = tmp_path / "own.txt"
    files.write_whole(path, "old")
    with pytest.raises(FileNotFoundError) as found:
        files.write_whole(tmp_path / "no" / "own.txt", "new")
    assert found.value.filename == str(tmp_path / "no" / "own.txt")
    with pytest.raises(NotADirectoryError) as found:
        files.write_whole(path / "own.txt", "new")
    assert found.value.filename == str(path / "own.txt")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder'$"):
        files.write_whole(tmp_path / "folder", "new")
    monkeypatch.setattr(files, "write_new", full)
    with pytest.raises(OSError, match="No space left on device: .*own.txt'$"):
        files.write_whole(path, "new")
    assert sorted(its.name for its in tmp_path.iterdir()) == ["folder", "own.txt"]
    assert path.read_text() == "old"
