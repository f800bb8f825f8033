"""Two wheels of one repository: what each says of itself, and both installed and removed."""

import importlib.util
import itertools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import warpsim
from course import __version__
from tests.house.test_house import tracked_files
from tools.notebooks.lessons import ROOT

pytest.importorskip("hatchling", reason="the extra dev is missing")
_spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
hatch_build = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hatch_build)

WAYS = hatch_build.WAYS
NAMES = "course", "warpsim"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """For either setting the folder of both wheels."""
    made = {}
    for way in WAYS:
        tree, made[way] = (tmp_path_factory.mktemp(f"{way}-{what}") for what in ("tree", "wheels"))
        for path in tracked_files():
            if not path.is_relative_to(ROOT / "tests"):
                target = tree / path.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        project = tree / "pyproject.toml"
        text = project.read_text(encoding="utf-8")
        project.write_text(re.sub('^warpsim = ".*"$', f'warpsim = "{way}"', text, flags=re.M))
        for source in (tree, tree / "warpsim"):
            build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made[way]]
            subprocess.run(build, cwd=source, capture_output=True, check=True)
    return made


def opened(folder, name):
    (path,) = folder.glob(f"{name}-*.whl")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        (metadata,) = (each for each in names if each.endswith(".dist-info/METADATA"))
        return names, Parser().parsestr(archive.read(metadata).decode())


def test_the_two_have_one_version():
    assert warpsim.__version__ == __version__


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_courses_wheel_packs_the_simulator_or_requires_it(wheels, way):
    names, said = opened(wheels[way], "course")
    inside = {name for name in names if name.startswith("warpsim/")}
    source = {p.relative_to(ROOT).as_posix() for p in (ROOT / "warpsim").rglob("*.py")}
    assert inside == (source if way == "packed" else set())
    wanted = [each for each in said.get_all("Requires-Dist") if each.startswith("warpsim")]
    assert wanted == ([] if way == "packed" else [f"warpsim=={__version__}"])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_wheel_describes_itself_and_its_links_lead_somewhere_from_anywhere(wheels, name):
    _, said = opened(wheels["packed"], name)
    assert said["Description-Content-Type"] == "text/markdown"
    text = re.sub(r"```.*?```|`[^`]*`", "", said.get_payload(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert [each for each in targets if not each.startswith(("https://", "#"))] == []
    assert len(targets) > (50 if name == "course" else 1)
    assert any(each.startswith("Programming Language") for each in said.get_all("Classifier"))


@pytest.mark.parametrize(
    ("text", "absolute"),
    [
        ("[a](site/a.md#b)", "[a](https://github.com/me/it/blob/v1/site/a.md#b)"),
        ("![a](a.svg)", "![a](https://github.com/me/it/raw/v1/a.svg)"),
        ("[![a](https://b/c.svg)](https://d)",) * 2,
        ("[a](#b) [c](mailto:d)",) * 2,
    ],
)
def test_links_become_absolute(text, absolute):
    assert hatch_build.absolute(text, "me/it", "v1") == absolute


def test_a_setting_that_is_neither_is_named(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.course]\nwarpsim = "both"\n')
    with pytest.raises(ValueError, match="warpsim = 'both': say 'packed' or 'required'"):
        hatch_build.settings(tmp_path)


# --- installed and removed -----------------------------------------------------------------------


class Environment:
    """An environment of its own, which finds pip, Numba and the rest where this one has them."""

    def __init__(self, folder: Path):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
        found = self.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        self.site = Path(found.stdout.strip())
        (self.site / "others.pth").write_text(sysconfig.get_path("purelib"))

    def run(self, *words):
        outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [self.python, *words], cwd=self.python.parent, env=outside, capture_output=True,
            text=True,
        )  # fmt: skip

    def pip(self, *words):
        done = self.run("-m", "pip", *words)
        assert done.returncode == 0, done.stderr

    def works(self, name):
        """Is it there, of this environment, and does it do something?"""
        does = {"warpsim": "from warpsim import cuda, trace", "course": "from course import cuda"}
        done = self.run("-c", f"{does[name]}; import {name}; print({name}.__file__)")
        return done.returncode == 0 and Path(done.stdout.strip()).is_relative_to(self.site)

    def left(self):
        """What is left of the two, caches of Python aside."""
        return [
            path.relative_to(self.site).as_posix()
            for name in ("course*", "warpsim*")
            for top in self.site.glob(name)
            for path in [top, *top.rglob("*")]
            if path.is_file() and path.suffix != ".pyc"
        ]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a running Python's files cannot be removed there")
@pytest.mark.parametrize("way", WAYS)
def test_both_are_installed_and_removed_in_either_order(wheels, tmp_path, way):
    environment = Environment(tmp_path / "environment")
    # which of them owns a file depends on the order where both have it
    orders = [NAMES, NAMES[::-1]] if way == "packed" else [NAMES]
    for order, removed in itertools.product(orders, NAMES):
        for name in order:
            (wheel,) = wheels[way].glob(f"{name}-*.whl")
            environment.pip("install", "--no-deps", "--no-index", "--no-compile", str(wheel))
        assert all(map(environment.works, NAMES)), (order, removed)
        environment.pip("uninstall", "-y", removed)
        (other,) = set(NAMES) - {removed}
        if way == "required":
            # whoever needs the other goes without it, and its files are whole
            assert environment.works(other) is (other == "warpsim"), (order, removed)
        else:
            # they own the same files: what is left is installed anew
            assert not environment.works("warpsim"), (order, removed)
            (wheel,) = wheels[way].glob(f"{other}-*.whl")
            again = ("install", "--no-deps", "--no-index", "--no-compile", "--force-reinstall")
            environment.pip(*again, str(wheel))
            assert environment.works(other), (order, removed)
        environment.pip("uninstall", "-y", other)
        assert environment.left() == [], (order, removed)
