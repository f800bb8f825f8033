"""A copy of the repository writes its own address at its first push; until then notebooks say so.

The workflow's lines run against a bare repository on disk, as a runner would run them.
"""

import os
import shutil
import subprocess
import sys

import pytest
import yaml

from tools import address
from tools.notebooks import lessons, seals

ROOT = lessons.ROOT
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/address.yml").read_text(encoding="utf-8"))
SOMEBODY = "some-body/Their.Course"
IN_COLAB = """
import sys, types
sys.modules["google.colab"] = types.ModuleType("google.colab")
sys.modules["course.colab"] = types.SimpleNamespace(set_up=lambda source: print("from", source))
"""


def git(*arguments, at):
    """Run git and return what it printed."""
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *map(str, arguments)]
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def push_files(bare, at):
    """Push this working tree's files to a bare repository's branch main, as a new user would."""
    names = git("ls-files", "--cached", "--others", "--exclude-standard", at=ROOT).splitlines()
    for name in names:
        left_out = name.startswith(("data/", "tests/")) and "measurements" not in name
        if (ROOT / name).is_file() and not left_out:
            (at / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, at / name)
    git("init", "-q", "--initial-branch=main", at=at)
    address.write(address.Address(address.PLACEHOLDER, "v0"), at)
    git("add", "--all", at=at)
    git("commit", "-q", "-m", "All", at=at)
    git("push", "-q", bare, "main", at=at)


def runner(bare, folder, repository):
    """Run the workflow as at a push to main; return whether it installed anything.

    pip is a stand-in that writes down what it was asked: this environment has it all.
    """
    (job,) = WORKFLOW["jobs"].values()
    assert job["if"] == "github.ref_name == github.event.repository.default_branch"
    checkout, python, *steps = job["steps"]
    assert (checkout["uses"], python["uses"]) == ("actions/checkout@v4", "actions/setup-python@v5")
    folder.mkdir()
    (folder / "bin").mkdir()
    pip = folder / "bin/pip"
    pip.write_text(f'#!/bin/sh\necho "$@" >> "{folder}/asked"\n')
    pip.chmod(0o755)
    (folder / "bin/python").symlink_to(sys.executable)
    git("clone", "-q", bare, "checkout", at=folder)
    environment = {
        **os.environ,
        "GITHUB_REPOSITORY": repository,
        "GITHUB_REF_NAME": "main",
        "PATH": f"{folder}/bin{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{folder}/checkout{os.pathsep}{os.pathsep.join(filter(None, sys.path))}",
    }
    for step in steps:
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command, cwd=folder / "checkout", env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return (folder / "asked").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="GitHub's runner for it is a Linux machine")
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git clone")
def test_the_first_push_of_a_copy_writes_its_address_everywhere_and_the_second_nothing(tmp_path):
    bare, mine = tmp_path / "bare.git", tmp_path / "mine"
    mine.mkdir()
    git("init", "-q", "--bare", "--initial-branch=main", bare, at=tmp_path)
    push_files(bare, mine)
    assert runner(bare, tmp_path / "first", SOMEBODY)

    git("pull", "-q", bare, "main", at=mine)
    assert address.read(mine) == address.Address(SOMEBODY, "main")
    assert SOMEBODY in git("log", "-1", "--format=%s", at=mine)
    changed = {
        f"{kind}/{path.name}" for kind in seals.KINDS for path in seals.notebooks(ROOT, kind)
    }
    changed |= {"CITATION.cff", "README.md", "pyproject.toml"}
    assert set(git("diff", "--name-only", "HEAD~1", at=mine).splitlines()) == changed
    for name in changed:
        text = (mine / name).read_text(encoding="utf-8")
        assert SOMEBODY in text and address.PLACEHOLDER not in text, name

    head = git("rev-parse", "main", at=bare)
    assert not runner(bare, tmp_path / "second", SOMEBODY.lower())  # GitHub's names have no case
    assert git("rev-parse", "main", at=bare) == head


@pytest.mark.parametrize("source", ["", "git+https://example.org/x@v1"])
def test_a_notebook_without_an_address_says_what_to_do_in_one_sentence(source):
    cell = address.Address(address.PLACEHOLDER, "main").first_cell()
    done = subprocess.run(
        [sys.executable, "-c", IN_COLAB + cell], capture_output=True, text=True, check=False,
        env={**os.environ, "COURSE_SOURCE": source},
    )  # fmt: skip
    if source:
        assert (done.returncode, done.stdout) == (0, f"from {source}\n")
    else:
        assert done.returncode == 1 and done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert "%env COURSE_SOURCE=git+" in line and address.PLACEHOLDER in line


def test_a_notebook_with_an_address_has_no_word_about_the_placeholder():
    cell = address.Address(SOMEBODY, "v1").first_cell()
    assert "sys.exit" not in cell and f'"git+https://github.com/{SOMEBODY}@v1"\n' in cell
