"""A notebook's kernel as a fork of one process that has imported what the lessons import.

A kernel spends more time on starting and on its first imports than many a notebook on its cells.
With pytest --nbval each worker starts one process (this file as a program) that imports it all
once and forks a kernel for each notebook: its own memory, environment, folder and process group.
Where a process cannot be forked (Windows; macOS, whose libraries forbid it; beside a GPU, whose
driver does) or COURSE_COLD_KERNELS=1 is set, each kernel starts from nothing, as in JupyterLab.
"""

import ast
import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: What the course imports where it is first used, beside what the lessons import themselves.
LATER = ["import matplotlib.pyplot", "import pandas"]
LESSONS = Path(__file__).resolve().parents[2] / "course_lessons"
KERNEL = ["-m", "ipykernel_launcher", "-f"]  # in a kernel's command, before its connection file
# now: conftest.py takes settings of the course away before it starts a kernel
COLD = os.environ.get("COURSE_COLD_KERNELS", "") not in ("", "0")


def can_fork() -> bool:
    """Whether kernels may be forked from a process that has imported the course."""
    a_gpu = any(Path(name).exists() for name in ("/dev/nvidiactl", "/dev/dxg", "/dev/nvmap"))
    return sys.platform == "linux" and not a_gpu and not COLD


class Forked:
    """A kernel that the warmed process has forked: as much of `subprocess.Popen` as is asked."""

    stdin = stdout = stderr = None

    def __init__(self, parent: "Parent", pid: int):
        self.parent, self.pid, self.returncode = parent, pid, None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.parent.ask(ended=self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("kernel", timeout)
            time.sleep(0.005)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Parent:
    """The warmed process, as seen by who asks it for kernels. It ends with who started it."""

    def __init__(self, python: list[str]):
        ours, its = socket.socketpair()
        with its:
            self.process = subprocess.Popen(
                [*python, __file__, str(its.fileno())],
                stdin=subprocess.DEVNULL, pass_fds=[its.fileno()], start_new_session=True,
            )  # fmt: skip
        self.lines = ours.makefile("rw")
        ours.close()

    def ask(self, **question):
        """What it answers; -1 where it is gone, and with it its kernels."""
        try:
            self.lines.write(json.dumps(question) + "\n")
            self.lines.flush()
            return json.loads(self.lines.readline() or "-1")
        except (OSError, ValueError):  # ValueError: closed here
            return -1

    def kernel(self, words: list[str], cwd: str, env: dict[str, str]) -> Forked | None:
        pid = self.ask(start=words, cwd=cwd, env=env)
        return Forked(self, pid) if pid > 0 else None

    def close(self) -> None:
        self.lines.close()
        self.process.wait()


_parents: dict[tuple[str, ...], Parent] = {}


def launch(cmd, *, cwd=None, env=None, start=None, **options):
    """As `jupyter_client.launcher.launch_kernel`, which is `start`; forked where that can be."""
    place = cmd.index(KERNEL[0]) if KERNEL[0] in cmd else len(cmd)
    if can_fork() and cmd[place : place + len(KERNEL)] == KERNEL:
        python = tuple(cmd[:place])
        if python not in _parents:
            _parents[python] = Parent(list(python))
        environment = dict(os.environ if env is None else env)
        words = list(cmd[place + len(KERNEL) :])  # its connection file, and options
        kernel = _parents[python].kernel(words, os.path.abspath(cwd or "."), environment)
        if kernel is not None:
            return kernel
    return start(cmd, cwd=cwd, env=env, **options)


@contextmanager
def launching() -> Iterator[None]:
    """Kernels that jupyter_client starts meanwhile are forked."""
    from jupyter_client.provisioning import local_provisioner

    start = local_provisioner.launch_kernel

    def launch_kernel(cmd, **options):
        return launch(cmd, start=start, **options)

    local_provisioner.launch_kernel = launch_kernel
    try:
        yield
    finally:
        local_provisioner.launch_kernel = start


def close() -> None:
    """End the warmed processes."""
    while _parents:
        _parents.popitem()[1].close()


# --- the warmed process --------------------------------------------------------------------------


def imports_of_lessons() -> list[str]:
    """The import statements of all lessons that stand outside functions and tests."""
    found = {}
    for lesson in sorted(LESSONS.glob("lesson*/*.py")):
        for node in ast.parse(lesson.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                found[ast.unparse(node)] = True
    return list(found)


def warm() -> None:
    """Import what kernels and lessons import, and nothing that a kernel must do itself."""
    # matplotlib reads it when it is imported, and ipykernel sets it before that
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    import ipykernel.ipkernel
    import ipykernel.kernelapp  # noqa: F401

    for statement in [*imports_of_lessons(), *LATER]:
        try:
            exec(statement, {})
        except ImportError:
            continue  # the lesson says so itself
    from numba import njit

    from course.checks.exercises import exercises

    exercises()
    njit(lambda x: x + 1)(1)  # reads in what Numba knows of Python and NumPy


def become_kernel(words: list[str], cwd: str, env: dict[str, str]) -> None:
    """In the forked process, be what `python -m ipykernel_launcher` is, until it ends."""
    import numpy
    from ipykernel.kernelapp import launch_new_instance

    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 2):
        os.dup2(null, descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    random.seed()
    numpy.random.seed()
    sys.argv = ["ipykernel_launcher.py", "-f", *words]
    # the kernel ends when its parent does, and its parent is the warmed process
    launch_new_instance(parent_handle=os.getppid())


def main(descriptor: int) -> None:
    """Fork a kernel for each question on the socket, until its other end is closed."""
    sys.path.remove(str(Path(__file__).resolve().parent))
    warm()
    gc.collect()
    gc.freeze()  # the kernels share it, and none looks through it for garbage
    alone = threading.active_count() == 1  # a fork has only the thread that forks
    channel = socket.socket(fileno=descriptor)
    lines = channel.makefile("rw")
    for line in lines:
        question = json.loads(line)
        if "start" in question:
            answer = os.fork() if alone else -1
            if answer >= 0:
                os.setpgid(answer, answer)  # by both, for neither knows which is first
            if answer == 0:
                lines.close()
                channel.close()
                return become_kernel(question["start"], question["cwd"], question["env"])
        else:
            pid, status = os.waitpid(question["ended"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        lines.write(json.dumps(answer) + "\n")
        lines.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
