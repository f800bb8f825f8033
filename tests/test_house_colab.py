"""The first cell of every notebook, run as in Colab: in a fresh environment, offline.

The packages are tiny wheels made here; the real one is installed this way by `.ci/run`.
"""

import os
import subprocess
import sys
import venv
import zipfile

import pytest

from course import colab
from tools import address, lessons

STAND_IN = "import sys, types; sys.modules['google.colab'] = types.ModuleType('google.colab')\n"
# what is told after the first cell, in the same process
REPORT = """
from importlib import metadata
for name in ("course", "absent", "preinstalled"):
    try:
        print(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        print(name, "missing")
"""


def make_wheel(folder, name, version, requires=(), files=()):
    """Write a wheel by hand and return its path."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    content = {
        f"{name}/__init__.py": f"__version__ = {version!r}\n",
        **dict(files),
        f"{about}/METADATA": metadata,
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{entry},,\n" for entry in [*content, f"{about}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for entry, text in {**content, f"{about}/RECORD": record}.items():
            archive.writestr(entry, text)
    return path


class Machine:
    """An environment of its own with one preinstalled package, and no way to any index."""

    def __init__(self, folder):
        self.folder = folder
        venv.create(folder / "env", with_pip=True)
        self.python = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
        self.index = folder / "index"
        make_wheel(self.index, "absent", "3.0", requires=["preinstalled"])
        # older than the course asks for, and not to be touched all the same
        old = make_wheel(folder / "old", "preinstalled", "1.0")
        make_wheel(self.index, "preinstalled", "2.0")
        self.run(f"import pip._internal.cli.main as m; m.main(['install', '-q', r'{old}'])")

    def course(self, version):
        code = (lessons.ROOT / "course/colab.py").read_text(encoding="utf-8")
        requires = ["preinstalled>=2", "absent", 'never; extra == "dev"']
        return make_wheel(
            self.folder / version, "course", version, requires, {"course/colab.py": code}.items()
        )

    def run(self, program, **variables):
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "COURSE_", "PYTHON"))
        }
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index), "PIP_NO_CACHE_DIR": "1"}
        environment = {**kept, **offline, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}
        return subprocess.run(
            [self.python, "-c", program],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def first_cell(self, source, before=STAND_IN, after=REPORT):
        return self.run(before + address.read().first_cell() + after, COURSE_SOURCE=str(source))


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    return Machine(tmp_path_factory.mktemp("machine"))


@pytest.mark.slow
def test_the_first_cell_installs_the_course_and_what_is_missing_and_touches_nothing_else(machine):
    # one machine, from bare to two tags: each step starts where the one before ended
    elsewhere = machine.first_cell(machine.course("1.0"), before="")
    assert elsewhere.stdout.split("\n")[:3] == [
        "course missing",
        "absent missing",
        "preinstalled 1.0",
    ]

    bare = machine.first_cell(machine.course("1.0"))
    assert bare.returncode == 0, bare.stderr
    assert bare.stdout == "course 1.0\nabsent 3.0\npreinstalled 1.0\n"
    assert bare.stderr == ""

    no_pip = STAND_IN + "import subprocess; subprocess.run = None\n"
    again = machine.first_cell(machine.course("1.0"), before=no_pip)
    assert again.stdout == bare.stdout, again.stderr

    later = machine.first_cell(machine.course("2.0"))
    assert later.returncode == 0, later.stderr
    told, *versions = later.stdout.splitlines()
    assert "1.0" in told and "2.0" in told
    assert versions == ["course 2.0", "absent 3.0", "preinstalled 1.0"]

    imported = machine.first_cell(
        machine.course("1.0"),
        before=STAND_IN + "import course\n",
        after="\nimport course; print(course.__version__)",
    )
    assert imported.stdout.splitlines()[-1] == "1.0", imported.stderr

    missing = machine.first_cell(machine.folder / "course-9.0-py3-none-any.whl")
    assert missing.returncode != 0
    assert "pip could not install" in missing.stderr
    assert "course-9.0" in missing.stderr


def test_the_first_cell_is_instant_and_silent_outside_colab():
    program = (
        "import time; start = time.perf_counter()\n"
        + address.read().first_cell()
        + "\nassert time.perf_counter() - start < 0.5"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("stored", "source"),
    [
        (
            '{"url": "https://github.com/a/b", "vcs_info": '
            '{"vcs": "git", "requested_revision": "v1", "commit_id": "0123"}}',
            "git+https://github.com/a/b@v1",
        ),
        (
            '{"url": "file:///somewhere/course.whl", "archive_info": {}}',
            "file:///somewhere/course.whl",
        ),
        (None, None),
    ],
)
def test_what_is_installed_is_named_as_the_first_cell_names_it(monkeypatch, stored, source):
    class Distribution:
        def read_text(self, name):
            return stored if name == "direct_url.json" else None

    monkeypatch.setattr(colab.metadata, "distribution", lambda name: Distribution())
    assert colab.installed_source() == source


def test_the_first_cell_names_this_repository_at_its_tag():
    where = address.Address("owner/name", "v3")
    assert '"git+https://github.com/owner/name@v3"' in where.first_cell()
    assert where.badge("notebooks/00.ipynb").endswith(
        "/github/owner/name/blob/v3/notebooks/00.ipynb)"
    )
