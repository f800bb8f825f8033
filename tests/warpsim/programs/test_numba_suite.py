"""numba-cuda's own tests, run with the simulator in the place of ``numba.cuda``.

``numba_suite_exceptions.csv`` lists the tests that do not pass, each with what it needs. Any other
test that does not pass, and any of the list that does, is an error here.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tests.warpsim import the_course
from tests.warpsim.programs import numba_suite

HERE = Path(__file__).parent
pytestmark = pytest.mark.slow
VERSION = "0.30.4"  # the list of exceptions is of this version's tests
LAUNCHED = 700  # at least so many tests launch simulated kernels and agree with Numba
IN_SCOPE = 999  # tests of which the share is asked; listing more as out of scope raises no share
SHARE = 0.97
KINDS = {
    "scope": "not about kernels: compiled code, the compiler, the driver, linking, CuPy",
    "construct": "Numba takes it in a kernel, the simulator does not",
    "host": "a method or an option of the host side that the simulator does not have",
    "error": "the simulator refuses with other words, another error, or at another time",
    "refused": "the simulator refuses on purpose what CUDA leaves undefined",
    "result": "the simulator gives another result",
}


def _exceptions() -> dict[tuple[str, str], dict[str, str]]:
    with numba_suite.EXCEPTIONS.open(encoding="utf-8", newline="") as file:
        return {(row["module"], row["test"]): row for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> list[dict]:
    """The outcome of each test method, from two processes."""
    try:
        found = version("numba-cuda")
    except PackageNotFoundError:
        found = "none"
    if found != VERSION or numba_suite.installed() is None:
        pytest.skip(f"needs the tests of numba-cuda {VERSION}; installed: {found}")
    if the_course.gpu() is not None:
        pytest.skip("the list was made without a GPU: tests that ask the driver pass with one")
    if not hasattr(signal, "SIGALRM"):
        pytest.skip("the limit on a test's time needs SIGALRM")
    folder = tmp_path_factory.mktemp("numba_suite")
    hidden = {"NUMBA_ENABLE_CUDASIM", "COURSE_SIMULATED_GPU"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["PYTHONPATH"] = os.pathsep.join(map(os.fspath, HERE.parents[1:3]))

    def part(number: int) -> list[dict]:
        file = folder / f"{number}.json"
        names = numba_suite.MODULES[number::2]
        command = [sys.executable, os.fspath(HERE / "numba_suite.py"), *names, "--json", file]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(file.read_text(encoding="utf-8"))

    with ThreadPoolExecutor(2) as pool:
        return [row for found in pool.map(part, (0, 1)) for row in found]


def test_every_test_passes_or_is_listed_with_its_reason(rows):
    listed = _exceptions()
    wrong = [
        "{module} {test}: {outcome}, {detail}".format(**row)
        for row in rows
        if row["outcome"] in ("failed", "error") and (row["module"], row["test"]) not in listed
    ]
    assert not wrong, f"{len(wrong)} tests of numba-cuda do not pass:\n" + "\n".join(wrong)


def test_what_is_listed_still_does_not_pass(rows):
    passed = {(row["module"], row["test"]) for row in rows if row["outcome"] == "passed"}
    # what looks at compiled code or for CuPy may pass where those are installed
    listed = {key for key, row in _exceptions().items() if row["kind"] != "scope"}
    better = sorted(passed & listed)
    assert not better, f"these pass now: take them from the list: {better}"


def test_what_is_listed_exists_and_has_a_kind_and_a_reason(rows):
    known = {(row["module"], row["test"]) for row in rows}
    for key, row in _exceptions().items():
        assert key in known, f"numba-cuda has no such test: {key}"
        assert row["kind"] in KINDS and len(row["reason"]) > 5, row


def test_the_share_of_those_in_scope(rows):
    inside = numba_suite.in_scope(rows)
    passed = sum(row["outcome"] == "passed" for row in inside)
    assert len(inside) >= IN_SCOPE and passed >= SHARE * len(inside), (passed, len(inside))


def test_most_tests_launch_simulated_kernels_and_agree(rows):
    """The suite is not passed by leaving things out: so many tests really use the simulator."""
    passed = [row for row in rows if row["outcome"] == "passed"]
    launched = sum(row["launches"] > 0 for row in passed)
    assert launched >= LAUNCHED, (launched, Counter(row["outcome"] for row in rows))
