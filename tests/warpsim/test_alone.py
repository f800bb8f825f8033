"""warpsim by itself: its wheel with Numba and NumPy alone, its tests without the course."""

import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import numba
import pytest

import warpsim

ROOT = Path(warpsim.__file__).resolve().parents[1]
TESTS = Path(__file__).resolve().parent
INSTALLED = Path(numba.__file__).parents[1]

PROGRAM = """\
import sys

import numpy as np
from numba import cuda, float32


@cuda.jit
def turn(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[63 - t]


x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
turn[1, 64](x, out)
assert (out == x[::-1]).all()
"""
IMPORTED = (
    PROGRAM.replace("from numba import cuda, float32", "from numba import float32\nimport warpsim\n"
                    "from warpsim import cuda, trace")
    + """\
report = trace(turn, 1, 64, x, out)
print(warpsim.__file__, warpsim.__version__, report.total("global", "load").sectors)
print(report)
assert not report.findings
try:
    report.heat_map()
except ModuleNotFoundError as error:
    print(error)
"""
)  # fmt: skip
TEST = f"{PROGRAM}\n\ndef test_turn():\n    turn[1, 64](x, out)\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel's content, in a folder."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT / "warpsim", capture_output=True, check=True)
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def alone(wheel, tmp_path):
    """Run Python where the wheel, Numba, NumPy and these packages are all there is."""
    if os.name == "nt":
        pytest.skip("makes links")

    def run(*words, packages=()):
        (tmp_path / "packages").mkdir(exist_ok=True)
        for name in ("numba", "llvmlite", "numpy", "numpy.libs", "llvmlite.libs", *packages):
            if (INSTALLED / name).exists():
                (tmp_path / "packages" / name).symlink_to(INSTALLED / name)
        path = os.pathsep.join(map(str, (wheel, tmp_path / "packages")))
        return subprocess.run(
            [sys.executable, "-S", *words],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        )  # fmt: skip

    return run


def test_the_wheel_holds_the_package_and_no_more(wheel):
    made = {file.relative_to(wheel).as_posix() for file in wheel.rglob("*.py")}
    source = {file.relative_to(ROOT).as_posix() for file in (ROOT / "warpsim").rglob("*.py")}
    assert made == source
    (info,) = metadata.distributions(path=[str(wheel)])
    assert (info.metadata["Name"], info.version) == ("warpsim", warpsim.__version__)
    assert [(one.group, one.value) for one in info.entry_points] == [
        ("pytest11", "warpsim.pytest_plugin")
    ]
    (licence,) = wheel.rglob("LICENSE")
    assert licence.read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_kernels_run_and_are_traced_with_numba_and_numpy_alone(alone, wheel, tmp_path):
    (tmp_path / "own.py").write_text(IMPORTED)
    done = alone("own.py")
    assert done.returncode == 0, done.stderr
    first, *report, last = done.stdout.splitlines()
    assert first == f"{wheel / 'warpsim' / '__init__.py'} {warpsim.__version__} 8"
    assert report and last.startswith("pictures need Matplotlib, which is not installed: ")


def test_a_program_runs_unchanged(alone, tmp_path):
    (tmp_path / "turn.py").write_text(PROGRAM)
    done = alone("-m", "warpsim", "--trace", "turn.py")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "warpsim: no findings in 1 launch\n"


@pytest.mark.slow
def test_the_plugin_finds_a_race(alone, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # none from further up
    (tmp_path / "test_turn.py").write_text(TEST.replace("    cuda.syncthreads()\n", ""))
    packages = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py")
    done = alone("-m", "pytest", "-q", "--warpsim", "test_turn.py", packages=packages)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_turn.py:12: race in turn, 1 launch: s[63 - t]" in done.stdout


@pytest.mark.slow
def test_its_tests_need_no_course():
    part = "exchange.py or test_records or number_types or words.py or of_another_module"
    path = os.pathsep.join((str(TESTS.parent / "alone"), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-k", part, TESTS],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    # as the course is not there
    assert "SKIPPED [1] tests/warpsim/watch/test_advice.py" in done.stdout
