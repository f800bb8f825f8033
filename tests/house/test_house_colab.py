"""The first cell of every notebook, run as in Colab: in a fresh environment, offline.

The packages are tiny wheels made here; the real one is installed this way by `.ci/run`.
"""

import os
import subprocess
import sys
import tomllib
import types
import venv
import zipfile
from importlib import metadata

import pytest
import yaml

from course import colab
from tools import address
from tools.notebooks import lessons

with (lessons.ROOT / "pyproject.toml").open("rb") as file:
    TARGET = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]
WHEEL_PACKAGES = [*TARGET["packages"], "warpsim"]  # packed by hatch_build.py
STAND_IN = "import sys, types; sys.modules['google.colab'] = types.ModuleType('google.colab')\n"
OLD = (
    "course: preinstalled 1.0 is here, and was left as it is; the course is made for "
    'preinstalled>=2. If a lesson fails: %pip install "preinstalled>=2", then Runtime → '
    "Restart session\n"
)
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
        # the newest one would bring another version of what is there
        make_wheel(self.index, "absent", "4.0", requires=["preinstalled>=2"])
        # older than the course asks for, and not to be touched all the same
        old = make_wheel(folder / "old", "preinstalled", "1.0")
        make_wheel(self.index, "preinstalled", "2.0")
        self.run(f"import pip._internal.cli.main as m; m.main(['install', '-q', r'{old}'])")

    def course(self, version, files=()):
        code = (lessons.ROOT / "course/colab.py").read_text(encoding="utf-8")
        requires = ["preinstalled>=2", "absent", 'never; extra == "dev"']
        content = {"course/colab.py": code, **dict(files)}
        return make_wheel(self.folder / version, "course", version, requires, content)

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

    # what an uninstalled version has left behind, as Numba's cache or a student's file
    left_behind = STAND_IN + (
        "import pathlib, sysconfig\n"
        "pathlib.Path(sysconfig.get_paths()['purelib'], 'course', 'left').mkdir(parents=True)\n"
    )
    bare = machine.first_cell(
        machine.course("1.0"), left_behind, f"{REPORT}import course; print(course.__version__)\n"
    )
    assert bare.returncode == 0, bare.stderr
    assert bare.stdout == f"{OLD}course 1.0\nabsent 3.0\npreinstalled 1.0\n1.0\n"
    assert bare.stderr == ""

    no_pip = STAND_IN + "import subprocess; subprocess.run = None\n"
    again = machine.first_cell(machine.course("1.0"), before=no_pip)
    assert f"{again.stdout}1.0\n" == bare.stdout, again.stderr

    later = machine.first_cell(machine.course("2.0"))
    assert later.returncode == 0, later.stderr
    told, old, *versions = later.stdout.splitlines()
    assert "1.0" in told and "2.0" in told
    assert f"{old}\n" == OLD
    assert versions == ["course 2.0", "absent 3.0", "preinstalled 1.0"]

    # in one process: what 2.0 has and 1.0 has not, what both have, and what is someone else's
    more = machine.course("3.0", {"gone/__init__.py": "", "both/__init__.py": "version = 3"})
    assert machine.first_cell(more).returncode == 0
    imported = machine.first_cell(
        machine.course("1.0", {"both/__init__.py": "version = 1", "single.py": ""}),
        before=STAND_IN + "import sys, course, both, gone, preinstalled\n"
        "sys.modules['single'] = sys.modules['bothered'] = preinstalled\n",
        after="\nprint(sorted({'gone', 'single', 'bothered', 'preinstalled'} & set(sys.modules)))"
        "\nimport course, both, single; print(course.__version__, both.version, single.__file__)",
    )
    assert imported.returncode == 0, imported.stderr
    *_, left, versions = imported.stdout.splitlines()
    assert left == "['bothered', 'preinstalled']"
    assert versions.startswith("1.0 1 ") and versions.endswith("single.py")

    missing = machine.first_cell(machine.folder / "course-9.0-py3-none-any.whl")
    assert missing.returncode != 0
    assert "pip could not install" in missing.stderr
    assert "course-9.0" in missing.stderr


def test_the_first_cell_is_instant_and_silent_outside_colab():
    program = (
        "import time; start = time.process_time()\n"
        + address.read().first_cell()
        + "\nassert time.process_time() - start < 0.5"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def distribution(*files):
    """Return a stand-in for an installed distribution with these files; None: no record."""

    class Distribution:
        def __init__(self):
            self.files = None if files == (None,) else [metadata.PackagePath(f) for f in files]

        def read_text(self, name):
            return '{"url": "file:///the/old/one"}' if name == "direct_url.json" else None

    return Distribution()


@pytest.mark.parametrize(
    ("files", "packages"),
    [
        (["course/__init__.py", "course/simt/a.py", "course/data/warpsim/x.png"], {"course"}),
        (
            ["course/a.py", "warpsim/__init__.py", "lessons/b/c.py"],
            {"course", "warpsim", "lessons"},
        ),
        (["course/a.py", "one.py", "__pycache__/one.cpython-311.pyc"], {"course", "one"}),
        (["course/a.py", "course-1.dist-info/METADATA", "../../../bin/run.py"], {"course"}),
        (["course-1.dist-info/RECORD", "_course.pth"], {"course"}),  # editable
        ([None], {"course"}),
    ],
)
def test_the_distributions_record_names_its_packages(monkeypatch, files, packages):
    monkeypatch.setattr(colab.metadata, "distribution", lambda name: distribution(*files))
    assert colab.installed_packages() == packages


def test_a_reinstall_drops_the_modules_of_all_packages_old_and_new_and_no_others(monkeypatch):
    wheel = [f"{package}/__init__.py" for package in WHEEL_PACKAGES]
    installed = [distribution(*wheel, "old/__init__.py")]
    monkeypatch.setattr(colab.metadata, "distribution", lambda name: installed[-1])
    monkeypatch.setattr(colab, "missing_requirements", list)
    monkeypatch.setattr(colab, "outside", dict)
    monkeypatch.setattr(colab, "_pip", lambda *_: installed.append(distribution(*wheel, "new.py")))
    packages = [*WHEEL_PACKAGES, "old", "new"]
    dropped = {name for package in packages for name in (package, f"{package}.a", f"{package}.a.b")}
    kept = {"olds", "my.course", "numpy", "renew.a"}
    loaded = dict.fromkeys(dropped | kept)
    monkeypatch.setattr(colab, "sys", types.SimpleNamespace(modules=loaded))
    colab.set_up("/the/new/one")
    assert len(installed) == 2
    assert set(loaded) == kept


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


# --- today's Colab -------------------------------------------------------------------------------

FREEZE = """\
# Do not modify this file directly
numba==0.60.0
Pillow==11.3.0
scikit_image==0.25.2
pip==24.1.2
torch==2.11.0+cu128
numpy @ file:///somewhere/numpy-2.0.2.tar.gz
dask==2026.1.1
pandas==2.2.2
"""


def test_of_colabs_list_what_the_course_needs_is_taken_in_its_versions(tmp_path):
    (tmp_path / "freeze.txt").write_text(FREEZE)
    program = [sys.executable, lessons.ROOT / ".ci/colab_packages.py"]
    done = subprocess.run(
        [*program, tmp_path / "freeze.txt", tmp_path / "constraints.txt"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["numba", "pandas", "pillow", "scikit-image", "dask"]
    assert (tmp_path / "constraints.txt").read_text().splitlines() == [
        "numba==0.60.0", "pillow==11.3.0", "scikit-image==0.25.2", "dask==2026.1.1",
        "pandas==2.2.2",
    ]  # fmt: skip


def test_the_workflow_hands_colabs_own_list_to_the_script():
    text = (lessons.ROOT / ".github/workflows/colab.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    steps = workflow["jobs"]["today"]["steps"]
    (fetched,) = (step["with"]["path"] for step in steps if "repository" in step.get("with", {}))
    script, freeze, python = steps[-1]["run"].split()
    assert os.access(lessons.ROOT / script, os.X_OK)
    assert (freeze, python) == (f"{fetched}/pip-freeze.gpu.txt", "python")
    assert "schedule" in workflow[True]  # YAML's `on`
