"""pytest --warpsim and %%trace: somebody's tests and cells, unchanged, without a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warpsim.the_course import needs_course

ROOT = Path(__file__).resolve().parents[2]

CONFTEST = """\
import pytest
from numba import cuda


@pytest.fixture
def on_device():
    return cuda.to_device
"""

TESTS = """\
import importlib

import numpy as np
import pytest
from numba import cuda, float32


@cuda.jit
def turn(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    out[t] = s[63 - t]


@cuda.jit
def turn_in_order(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[63 - t]


@pytest.mark.parametrize("kernel", [turn, turn_in_order])
def test_turn(kernel, on_device):
    x = np.arange(64, dtype=np.float32)
    out = np.zeros_like(x)
    kernel[1, 64](on_device(x), out)
    assert (out == x[::-1]).all()


@pytest.fixture
def hasty():
    turn[1, 64](np.zeros(64, np.float32), np.zeros(64, np.float32))


def test_with_a_fixture_that_races(hasty):
    pass


@pytest.mark.xfail(strict=True)
def test_known_to_race():
    turn[1, 64](np.zeros(64, np.float32), np.zeros(64, np.float32))


def test_import_by_name():
    assert importlib.import_module("numba.cuda") is cuda
"""


@pytest.fixture
def somebodys(tmp_path):
    """Run pytest where somebody's tests lie: its result."""
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_turn.py").write_text(TESTS, encoding="utf-8")

    def run(*options):
        command = ["pytest", "-p", "warpsim.pytest_plugin", "-p", "no:cacheprovider", *options]
        return _apart(tmp_path, "-m", *command)

    return run


def _apart(folder, *words):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # -p names the plugin, others take a second
    environment.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_a_test_fails_whose_kernel_races(somebodys):
    run = somebodys("--warpsim", "-q")
    assert run.returncode == 1, run.stdout
    assert "1 failed, 2 passed, 1 xfailed, 1 error" in run.stdout
    assert "test_turn.py:13: race in turn, 1 launch: s[63 - t]" in run.stdout
    assert "ERROR at setup of test_with_a_fixture_that_races" in run.stdout


def test_a_race_at_an_import_fails_the_session(somebodys, tmp_path):
    (tmp_path / "test_turn.py").write_text(
        TESTS.partition("@pytest.mark.parametrize")[0]
        + "turn[1, 64](np.zeros(64), np.zeros(64))\n\n\ndef test_nothing():\n    pass\n",
        encoding="utf-8",
    )
    run = somebodys("--warpsim", "-q")
    assert run.returncode == 1, run.stdout
    assert "launches outside tests" in run.stdout and "race in turn" in run.stdout


def test_a_gpu_is_chosen_by_name(somebodys):
    unknown = somebodys("--warpsim", "--warpsim-gpu", "Voodoo")
    assert unknown.returncode == 4 and "Voodoo" in unknown.stderr
    alone = somebodys("--warpsim-gpu", "H200")
    assert alone.returncode == 4 and "--warpsim-gpu needs --warpsim" in alone.stderr


def test_without_the_option_nothing_is_loaded(tmp_path):
    (tmp_path / "test_inert.py").write_text(
        "import builtins, sys\n\n\ndef test_inert():\n"
        "    assert builtins.__import__.__module__ == 'builtins'\n"
        "    assert [m for m in sys.modules if m.startswith('warpsim.')] == "
        "['warpsim.pytest_plugin']\n",
        encoding="utf-8",
    )
    run = _apart(
        tmp_path, "-m", "pytest", "-q", "-p", "warpsim.pytest_plugin", "-p", "no:cacheprovider"
    )
    assert run.returncode == 0, run.stdout + run.stderr


CELLS = """\
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", {extension!r})
shell.run_cell('''%%trace
import numpy as np
from {home} import cuda


@cuda.jit
def fill(x):
    x[cuda.grid(1)] = 1


fill[1, 32](np.zeros(4))
''')
shell.run_cell("%%trace\\nprint('none')")
shell.run_cell("%%trace nonsense\\npass")
shell.run_line_magic("unload_ext", "warpsim")
"""


@pytest.mark.parametrize(
    "extension, home",
    [("warpsim", "numba"), pytest.param("course", "warpsim", marks=needs_course)],
)
def test_a_cell_is_traced(tmp_path, extension, home):
    pytest.importorskip("IPython")
    text = CELLS.format(extension=extension, home=home)
    run = _apart(tmp_path, "-c", text)
    assert "1 finding in 1 launch" in run.stdout, run.stdout + run.stderr
    assert "out-of-bounds in fill, 1 launch: x[cuda.grid(1)]" in run.stdout
    assert "none\nwarpsim: no launch of the simulator in this cell" in run.stdout
    assert "%%trace takes no arguments, 'nonsense' given" in run.stdout
