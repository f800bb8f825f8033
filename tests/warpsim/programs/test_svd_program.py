"""The first program that must run unchanged: the cells of an SVD notebook, one after the other."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warpsim.the_course import needs_course

PROGRAM = Path(__file__).with_name("svd_program.py")
ROOT = PROGRAM.parents[3]
COURSE = pytest.param("course", marks=[needs_course, pytest.mark.slow])


@pytest.fixture(scope="module", params=["warpsim", COURSE])
def ended(request, tmp_path_factory):
    """The program after its run by either command, and its findings."""
    target = tmp_path_factory.mktemp("svd") / "findings.json"
    first = ["-m", "warpsim"] if request.param == "warpsim" else ["-m", "course", "run"]
    command = [sys.executable, *first, "--json", target, "--gpu", "H200", PROGRAM, "50", "20"]
    run = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)
    return run, json.loads(target.read_text(encoding="utf-8"))


def test_every_cell_gives_the_right_answer(ended):
    run, _ = ended
    assert run.returncode == 0, run.stderr
    assert "False" not in run.stdout
    assert run.stdout.count("True") == 14, run.stdout
    assert "compute capability: (9, 0)" in run.stdout


def test_what_made_the_notebook_slow_is_found(ended):
    _, findings = ended
    assert findings["launches"] == 8
    found = {(one["kernel"], one["kind"], one["code"]) for one in findings["findings"]}
    total = "temp_sum += U[row, m] * s[m] * Vt[m, col]"
    assert ("reconstruct_naive", "float64", total) in found
    assert ("reconstruct_naive", "uncoalesced", "U[row, m]") in found
    assert ("reconstruct_tiled", "bank-conflict", "tile_u[tx, j]") in found
    assert not any(one["error"] for one in findings["findings"])
