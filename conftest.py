"""How pytest runs the tests and, with --nbval, the notebooks.

A solution's kernel has COURSE_STRICT=1: a verdict other than "passed" stops it. A student's has
not, and each of its check cells must say "not started". Nothing else of the user's own settings
reaches a notebook, nor does a test the user's progress.
"""

import gc
import os
import shutil
import tempfile
import zlib
from contextlib import nullcontext
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent
# what a student does in work/ is no test, not even for `pytest .`
collect_ignore = ["work"]
if (ROOT / "tests/house/warm_kernels.py").exists():
    from tests.house import warm_kernels
else:  # beside notebooks without the rest of the clone, as in Colab
    warm_kernels = None

EXPECTED_VERDICT = {"notebooks": "not started", "solutions": "passed"}
#: Files below tests/ whose few tests take longest, begun first and spread over all workers.
SPREAD = {
    "course/kernels/svd/test_ladder_launches", "course/kernels/svd/test_ladder",
    "tools/test_build_notebooks", "tools/test_compile_all", "house/test_command_line",
    "warpsim/programs/test_uninitialised_programs", "warpsim/programs/test_exchanges",
    "course_app/pipeline/test_resuming", "course_app/pipeline/test_resuming_changed",
}  # fmt: skip
#: Begun last, for they come in small parts: parameters begin with an exercise and a "/", and what
#: is computed for an exercise serves all its tests.
OF_EXERCISES = {
    "course_lessons/test_edits", "course_lessons/test_wrong_answers",
    "course_lessons/test_serial_twins", "tools/test_mutants",
}  # fmt: skip
#: Of the drawn tests that `make test` leaves out, and of the parameters of other slow tests, "1/3"
#: runs a third, "2/3" and "3/3" the others; "1/3 compiler" does the same for tests of that mark.
PART = os.environ.get("COURSE_PART", "1/1")
#: Begun last, too: thousands of programs in small parts, which any worker takes.
IN_SMALL_PARTS = {"warpsim/programs/test_control_flow"}

# where each of a few processes runs tests, the threads of its linear algebra are in the others' way
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    _cores = (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, _cores)))


def of_tests(file: str | Path) -> str:
    """A test file by its path below tests/, without its ending."""
    path = Path(os.path.relpath(ROOT / file, ROOT))
    return path.with_suffix("").as_posix().removeprefix("tests/")


def pytest_configure(config: pytest.Config) -> None:
    # the package of this clone is tested, by kernels and subprocesses as well
    search = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(part for part in search if part)
    os.environ["COURSE_PROGRESS"] = "off"  # while tests are collected, too
    config.option.loadscopereorder = False  # as pytest_collection_modifyitems orders them
    if getattr(config.option, "nbval", False):
        _start_kernels_again()
    config.stash[_ipython] = os.environ["IPYTHONDIR"] = tempfile.mkdtemp(prefix="ipython-")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """With -n, what shares something stays together: a notebook's kernel, a file's fixtures."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            given = test.partition("[")[2]
            if of_tests(file) in OF_EXERCISES:
                return given.partition("/")[0]
            if of_tests(file) not in SPREAD | IN_SMALL_PARTS:
                return file
            # of parameters joined by "-" the last may differ
            return nodeid.rpartition("-")[0] if "-" in given else nodeid

    if config.getvalue("dist") in ("load", "loadfile", "loadgroup", "loadscope", "worksteal"):
        return Together(config, log)
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        # a student's notebook repeats its solution but for the answers: make test-all runs both
        if _notebook_folder(item) == "notebooks" or not _is_drawn(item):
            item.add_marker("slow")
    config.hook.pytest_deselected(items=[item for item in items if not _is_of_part(item)])
    items[:] = filter(_is_of_part, items)

    def turn(item: pytest.Item) -> int:
        if of_tests(item.path) in OF_EXERCISES | IN_SMALL_PARTS:
            return 3
        return 0 if of_tests(item.path) in SPREAD else 1 if item.path.suffix == ".ipynb" else 2

    if hasattr(config, "workerinput"):  # with -n
        # the longest first, and last what comes in small parts: no worker is busy alone for long
        items.sort(key=turn)


def _is_drawn(item: pytest.Item) -> bool:
    """Whether `make test` runs it: of ``mark.drawn(n)`` one parameter in n, by the test's name."""
    mark = item.get_closest_marker("drawn")
    return mark is None or zlib.crc32(item.name.encode()) % mark.args[0] == 0


def _is_of_part(item: pytest.Item) -> bool:
    """Whether it is in the part that is asked for, or is always run."""
    numbers, _, name = PART.partition(" ")
    part, parts = map(int, numbers.split("/"))
    drawn = None if name else item.get_closest_marker("drawn")
    skipped = drawn.args[0] if drawn else 1
    if not item.get_closest_marker(name or "slow") or not name and "[" not in item.name:
        return True
    return zlib.crc32(item.name.encode()) // skipped % parts == part - 1


def pytest_collection_finish() -> None:
    # what is there now stays; to look through it again and again takes a tenth of the time
    gc.collect()
    gc.freeze()
    # what tests leave, Numba's compilations above all, is looked through a tenth as often
    gc.set_threshold(10_000, 20, 50)


def _start_kernels_again() -> None:
    # A kernel's free network ports are chosen before it starts; where many start at a time,
    # another program may take one of them in between, and the kernel dies at once.
    from nbval import kernel, plugin

    kernel.pformat = lambda message: message  # each message's text, for a log that nobody reads

    def start(*args, **options):
        with warm_kernels.launching() if warm_kernels else nullcontext():
            return start_one(*args, **options)

    start_one = plugin.RunningKernel

    def start_up_to_three_times(*args, **options):
        for _ in range(2):
            try:
                return start(*args, **options)
            except RuntimeError:
                continue
        return start(*args, **options)

    plugin.RunningKernel = start_up_to_three_times


def pytest_unconfigure(config: pytest.Config) -> None:
    if warm_kernels:
        warm_kernels.close()
    if hasattr(config, "workerinput"):
        gc.freeze()  # to look through all that is left, several times, takes a worker seconds
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
        kept = name in ("COURSE_SOURCE", "COURSE_COMPILER")
        if name == "MPLBACKEND" or (name.startswith("COURSE_") and not kept):
            del os.environ[name]
    os.environ["COURSE_PROGRESS"] = "off"  # no verdict of a test is the user's
    folder = _notebook_folder(item)
    if folder:
        item.output_timeout = 60  # seconds without a message; nbval's 5 can pass on a busy machine
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
