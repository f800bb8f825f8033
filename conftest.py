"""How pytest runs the tests and, with --nbval, the notebooks.

A solution's kernel has COURSE_STRICT=1: a verdict other than "passed" stops it. A student's has
not, and each of its check cells must say "not started". Nothing else of the user's own settings
reaches a notebook.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent
EXPECTED_VERDICT = {"notebooks": "not started", "solutions": "passed"}


def pytest_configure(config: pytest.Config) -> None:
    # the package of this clone is tested, by kernels and subprocesses as well
    search = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(part for part in search if part)
    # with -n, the cells of one notebook stay together: they share a kernel
    if getattr(config.option, "dist", "no") in ("load", "worksteal"):
        config.option.dist = "loadfile"
    if getattr(config.option, "nbval", False):
        _start_kernels_again()
    config.stash[_ipython] = os.environ["IPYTHONDIR"] = tempfile.mkdtemp(prefix="ipython-")


def _start_kernels_again() -> None:
    # A kernel's free network ports are chosen before it starts; where many start at a time,
    # another program may take one of them in between, and the kernel dies at once.
    from nbval import plugin

    start = plugin.RunningKernel

    def start_up_to_three_times(*args, **options):
        for _ in range(2):
            try:
                return start(*args, **options)
            except RuntimeError:
                continue
        return start(*args, **options)

    plugin.RunningKernel = start_up_to_three_times


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_ipython], ignore_errors=True)


_ipython = pytest.StashKey[str]()


def _notebook_folder(item: pytest.Item) -> str | None:
    """Return "notebooks" or "solutions" for a notebook's cell, None for a test."""
    if item.path.suffix != ".ipynb":
        return None
    return item.path.parent.name


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # before nbval starts the kernel, which inherits this process's environment
    for name in list(os.environ):
        if name == "MPLBACKEND" or (name.startswith("COURSE_") and name != "COURSE_SOURCE"):
            del os.environ[name]
    folder = _notebook_folder(item)
    if folder is None:
        os.environ["MPLBACKEND"] = "agg"
    elif folder == "solutions":
        os.environ["COURSE_STRICT"] = "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    result = yield
    expected = EXPECTED_VERDICT.get(_notebook_folder(item) or "")
    if expected and "check" in item.cell.metadata.get("tags", ()):
        text = "\n".join(str(output) for output in item.test_outputs or ())
        if expected not in text:
            item.raise_cell_error(f"The verdict is not {expected!r}", text)
    return result
