"""Kernels forked from one process know nothing of one another, as kernels that start cold."""

import os
import signal
import sys

import pytest

from tests.house import warm_kernels

pytest.importorskip("nbval")
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, RunningKernel

pytestmark = pytest.mark.skipif(not warm_kernels.can_fork(), reason="kernels start cold here")


@pytest.fixture
def start(monkeypatch):
    """Start a kernel in a folder and with environment variables of its own."""
    kernels = []

    def start(cwd, **environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with warm_kernels.launching():
            kernels.append(RunningKernel(CURRENT_ENV_KERNEL_NAME, cwd=str(cwd)))
        for name in environment:
            monkeypatch.delenv(name)
        return kernels[-1]

    yield start
    for kernel in kernels:
        kernel.stop()


def value(kernel, code):
    """What a cell with this code and an expression at its end gives; its error otherwise."""
    sent, shown = kernel.execute_cell_input(code), None
    kernel.await_reply(sent, timeout=60)
    while True:
        message = kernel.get_message("iopub", timeout=60)
        if message["parent_header"].get("msg_id") != sent:
            continue
        content = message["content"]
        if message["msg_type"] == "execute_result":
            shown = content["data"]["text/plain"]
        elif message["msg_type"] == "error":
            shown = content["ename"]
        elif content.get("execution_state") == "idle":
            return shown


def test_two_kernels_share_nothing_that_a_lesson_can_see(start, tmp_path):
    one = start(tmp_path, COURSE_STRICT="1", ONLY_ONE="1")
    other = start(tmp_path.parent)
    assert all(isinstance(k.km.provisioner.process, warm_kernels.Forked) for k in (one, other))
    change = """
        import math, os, sys, warnings
        import matplotlib, numpy, course
        name, math.pi, sys.modules["made_up"] = 1, 3, math
        os.environ["MINE"] = "1"
        matplotlib.rcParams["figure.dpi"] = 7
        course.simulate("H200")
        sys.path.append("/mine"); warnings.simplefilter("error"); os.chdir("/")
        numpy.random.seed(1)
    """
    assert value(one, "\n".join(line.strip() for line in change.splitlines())) is None
    assert value(one, "math.pi, os.getcwd(), os.environ['COURSE_STRICT']") == "(3, '/', '1')"
    assert value(other, "name") == "NameError"
    assert value(other, "import made_up") == "ModuleNotFoundError"
    assert value(other, "import math, os, sys; int(1e3 * math.pi), '/mine' in sys.path") == (
        "(3141, False)"
    )
    seen = "sorted({'MINE', 'ONLY_ONE', 'COURSE_STRICT', 'HOME'} & set(os.environ))"
    assert value(other, seen) == str(["HOME"] if "HOME" in os.environ else [])
    assert value(other, "os.getcwd()") == repr(str(tmp_path.parent))
    assert value(other, "import matplotlib; matplotlib.rcParams['figure.dpi'] != 7") == "True"
    assert value(other, "from warpsim.host import gpus; gpus.current().name") == "'Tesla T4'"
    assert value(one, "os.getpgid(0) == os.getpid()") == "True"


def test_kernels_draw_numbers_of_their_own(start, tmp_path):
    drawn = "import random, numpy; random.random(), float(numpy.random.random())"
    first, second = (value(start(tmp_path), drawn) for _ in range(2))
    assert first != second


def test_figures_are_shown_as_by_a_kernel_that_starts_cold(start, tmp_path):
    kernel = start(tmp_path)
    sent = kernel.execute_cell_input("import matplotlib.pyplot as plt; plt.plot([1, 2]);")
    kinds = []
    while "idle" not in kinds[-1:]:
        message = kernel.get_message("iopub", timeout=60)
        if message["parent_header"].get("msg_id") == sent:
            content = message["content"]
            kinds += [*content.get("data", {}), content.get("execution_state")]
    assert "image/png" in kinds


def test_a_cell_is_interrupted_and_a_kernel_that_dies_is_noticed(start, tmp_path):
    kernel, other = start(tmp_path), start(tmp_path)
    sent = kernel.execute_cell_input(
        "import time\nprint('now', flush=True)\nwhile True: time.sleep(0.01)"
    )
    while True:  # until the cell runs
        message = kernel.get_message("iopub", timeout=60)
        if message["msg_type"] == "stream":
            break
    kernel.interrupt()
    kernel.await_reply(sent, timeout=60)
    assert kernel.is_alive() and value(other, "1 + 1") == "2"
    process = kernel.km.provisioner.process
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    assert not kernel.is_alive() and other.is_alive()


@pytest.mark.slow
def test_the_process_that_forks_ends_with_its_last_user():
    parent = warm_kernels.Parent([sys.executable])
    parent.close()
    assert parent.process.returncode == 0
    assert parent.ask(ended=1) == -1
