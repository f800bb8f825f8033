"""pytest --warpsim and %%trace: somebody's tests and cells, unchanged, without a GPU."""

import json
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
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # none from further up
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
    assert "in turn: race, outside of tests" in run.stdout


ACCEPTED = (
    TESTS.partition("@pytest.mark.parametrize")[0]
    + """\
@cuda.jit
def turn_known(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    out[t] = s[
        63 - t
    ]  # warpsim: race ok, one warp was enough before Volta


def launch(kernel):
    kernel[1, 64](np.zeros(64, np.float32), np.zeros(64, np.float32))


def test_by_a_comment():
    launch(turn_known)


@pytest.mark.warpsim(accept="race", reason="until #12 is mended")
def test_by_a_mark():
    launch(turn)


@pytest.mark.warpsim(accept="out-of-bounds", reason="of another kind")
def test_by_no_mark():
    launch(turn)
"""
)


def test_an_error_is_accepted_on_its_line_by_a_mark_by_a_baseline(somebodys, tmp_path):
    (tmp_path / "test_turn.py").write_text(ACCEPTED, encoding="utf-8")
    run = somebodys("--warpsim", "--warpsim-write-baseline", "known.json")
    assert run.returncode == 1 and "1 failed, 2 passed" in run.stdout, run.stdout
    assert "[accepted by comment: one warp was enough before Volta]" in run.stdout
    assert "1 error in 2 tests, 1 accepted" in run.stdout
    entries = json.loads((tmp_path / "known.json").read_text())
    assert [(e["file"], e["kernel"], e["kind"]) for e in entries] == [
        ("test_turn.py", "turn", "race")
    ]
    # lines move, the entry stays; what is mended is told
    (tmp_path / "test_turn.py").write_text("\n\n" + ACCEPTED, encoding="utf-8")
    moved = somebodys("--warpsim", "--warpsim-baseline", "known.json")
    assert moved.returncode == 0 and "3 passed" in moved.stdout, moved.stdout
    mended = ACCEPTED.replace("    s[t] = x[t]\n", "    s[t] = x[t]\n    cuda.syncthreads()\n")
    (tmp_path / "test_turn.py").write_text(mended, encoding="utf-8")
    stale = somebodys("--warpsim", "--warpsim-baseline", "known.json")
    assert stale.returncode == 0, stale.stdout
    assert "lists what no test has met: race in turn of test_turn.py" in stale.stdout


OUTSIDE = """\
import unittest

import numpy as np
import pytest
from numba import cuda


@cuda.jit
def fill(x):
    x[cuda.threadIdx.x] = 1


def launch(error=None):
    fill[1, 32](np.zeros(8))


@pytest.mark.parametrize("kinds", [IndexError, (KeyError, LookupError), Exception])
def test_expected(kinds):
    with pytest.raises(kinds, match="x has size 8"):
        launch()
    pytest.raises(kinds, launch)


class Test(unittest.TestCase):
    def test_expected(self):
        self.assertRaises(IndexError, launch)


def test_after_one_that_is_expected():
    with pytest.raises(ValueError):
        raise ValueError
    launch()


@pytest.mark.parametrize("kinds", [ValueError, (KeyError, TypeError)])
def test_not_expected(kinds):
    with pytest.raises(kinds):
        launch()
        raise kinds if isinstance(kinds, type) else kinds[0]
"""


def test_an_index_out_of_bounds_is_raised_where_a_test_expects_it(somebodys, tmp_path):
    (tmp_path / "test_outside.py").write_text(OUTSIDE, encoding="utf-8")
    done = somebodys("--warpsim", "test_outside.py")
    assert "3 failed, 4 passed" in done.stdout, done.stdout
    assert "1 error in 3 tests" in done.stdout


@pytest.mark.slow
def test_a_comment_without_a_reason_accepts_nothing(somebodys, tmp_path):
    text = ACCEPTED.replace("ok, one warp was enough before Volta", "ok")
    (tmp_path / "test_turn.py").write_text(text, encoding="utf-8")
    run = somebodys("--warpsim", "-q", "-k", "comment")
    assert run.returncode == 1 and "gives no reason: add one" in " ".join(run.stdout.split())


@pytest.mark.slow
def test_a_broken_baseline_and_a_broken_mark_are_told(somebodys, tmp_path):
    (tmp_path / "known.json").write_text("{", encoding="utf-8")
    run = somebodys("--warpsim", "--warpsim-baseline", "known.json")
    assert run.returncode == 4 and "known.json is no list of file" in run.stderr
    run = somebodys("--warpsim", "--warpsim-json", "nowhere/found.json")
    assert run.returncode == 4 and "nowhere/found.json: there is no such folder" in run.stderr
    run = somebodys("--warpsim", "--warpsim-baseline", "none.json")
    assert run.returncode == 4 and "none.json: No such file" in run.stderr
    text = ACCEPTED.replace('accept="race", reason="until #12 is mended"', 'accept="rase"')
    (tmp_path / "test_turn.py").write_text(text, encoding="utf-8")
    run = somebodys("--warpsim", "-q", "-k", "by_a_mark")
    assert run.returncode and "a mark is @pytest.mark.warpsim" in run.stdout + run.stderr


def test_what_is_only_reported_fails_nothing(somebodys):
    run = somebodys("--warpsim", "--warpsim-report-only", "-q", "--deselect", "test_known_to_race")
    assert "1 error in" in run.stdout and "4 passed" in run.stdout, run.stdout


@pytest.mark.parametrize("processes", [pytest.param("0", marks=pytest.mark.slow), "2"])
def test_findings_are_gathered_once(somebodys, tmp_path, processes):
    pytest.importorskip("xdist")
    options = "-p", "xdist", "-n", processes, "--warpsim-json", "found.json"
    run = somebodys("--warpsim", "-q", *options)
    assert run.returncode == 1, run.stdout
    assert run.stdout.count("test_turn.py:13 in turn: race, ") == 1
    found = json.loads((tmp_path / "found.json").read_text())
    (one,) = [one for one in found["findings"] if one["error"]]
    assert (one["kind"], one["line"], len(one["tests"])) == ("race", 13, 3)
    assert found["launches"] == 4


SIMULATED = """\
import os

import numba
from numba import cuda
from numba.cuda.cudadrv.devicearray import FakeCUDAArray
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray as same


def test_all_say_simulated():
    assert os.environ["NUMBA_ENABLE_CUDASIM"] == "1"
    assert numba.config.ENABLE_CUDASIM and cuda.config.ENABLE_CUDASIM
    assert cuda.cudadrv.devices.gpus.current.name.endswith("(simulated)")
    assert isinstance(cuda.to_device([1]), FakeCUDAArray) and same is FakeCUDAArray
    device = cuda.jit(device=True)(lambda x: x + 1)
    assert device._device and device(2) == 3 and device.fn(2) == 3  # as there, not on a GPU


def test_the_rules_are_numba_cudas_own():
    from warpsim.front import numba_typing as rules

    assert rules._context()[1] is not rules.nullcontext or not rules.has_numba_cuda()
"""


@pytest.mark.parametrize(
    "variable",
    ["WARPSIM", "NUMBA_ENABLE_CUDASIM", pytest.param("", marks=pytest.mark.slow)],
)
def test_a_variable_does_what_the_option_does(somebodys, tmp_path, monkeypatch, variable):
    (tmp_path / "conftest.py").unlink()
    (tmp_path / "test_turn.py").write_text(SIMULATED, encoding="utf-8")
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    if variable:
        monkeypatch.setenv(variable, "1")
    run = somebodys(*() if variable else ("--warpsim",))
    assert run.returncode == 0, run.stdout + run.stderr
    said = f"{variable}=1" if variable else "--warpsim"
    assert f"numba.cuda is simulated, as {said} says" in run.stdout


@pytest.mark.slow
def test_numbas_own_simulator_can_be_had(somebodys, tmp_path, monkeypatch):
    text = (
        "from numba import cuda\n\n\ndef test_whose():\n    assert 'warpsim' not in cuda.__file__"
    )
    (tmp_path / "conftest.py").unlink()
    (tmp_path / "test_turn.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    run = somebodys("--no-warpsim", "-q")
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
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
    [
        ("warpsim", "numba"),
        pytest.param("course", "warpsim", marks=[needs_course, pytest.mark.slow]),
    ],
)
def test_a_cell_is_traced(tmp_path, extension, home):
    pytest.importorskip("IPython")
    text = CELLS.format(extension=extension, home=home)
    run = _apart(tmp_path, "-c", text)
    assert "1 finding in 1 launch" in run.stdout, run.stdout + run.stderr
    assert "out-of-bounds in fill, 1 launch: x[cuda.grid(1)]" in run.stdout
    assert "none\nwarpsim: no launch of the simulator in this cell" in run.stdout
    assert "%%trace takes no arguments, 'nonsense' given" in run.stdout
