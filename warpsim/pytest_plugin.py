"""``pytest --warpsim``: tests of Numba-CUDA kernels run without a GPU, and fail on races.

From before the first conftest on, ``numba.cuda`` is the simulator. Every launch of a test, and of
its fixtures, is looked at; a finding that is an error fails the test, unless it is accepted:

- by a comment on its line, ``# warpsim: race ok, all blocks store the same flag``,
- by a mark of the test, ``@pytest.mark.warpsim(accept="race", reason="...")``,
- by a baseline, a file that ``--warpsim-write-baseline`` writes and ``--warpsim-baseline`` reads.

``WARPSIM=1`` or ``NUMBA_ENABLE_CUDASIM=1`` in the environment does what ``--warpsim`` does, and
``--no-warpsim`` undoes it. Without any of them nothing happens. Use ``-p warpsim.pytest_plugin``
where this package is not installed.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.case import _AssertRaisesContext

import pytest

_NAME = "warpsim findings"
_VARIABLES = ("WARPSIM", "NUMBA_ENABLE_CUDASIM")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of :func:`pytest_load_initial_conftests`."""
    group = parser.getgroup("warpsim", "kernels on a simulated GPU")
    add = group.addoption
    how = "numba.cuda is a simulator; a test whose kernels race or go astray fails"
    add("--warpsim", action="store_true", default=None, help=how)
    how = "not even where WARPSIM=1 or NUMBA_ENABLE_CUDASIM=1 says so"
    add("--no-warpsim", action="store_false", dest="warpsim", help=how)
    add("--warpsim-all", action="store_true", help="count costs, too, and print all findings")
    add("--warpsim-gpu", metavar="NAME", help="the simulated GPU (Tesla T4)")
    add("--warpsim-report-only", action="store_true", help="findings are told, no test fails")
    add("--warpsim-baseline", metavar="FILE", help="accept the errors that this file lists")
    add("--warpsim-write-baseline", metavar="FILE", help="write all errors into such a file")
    add("--warpsim-json", metavar="FILE", help="write all findings, with their tests")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known, with the simulator and without."""
    config.addinivalue_line(
        "markers",
        "warpsim(accept, reason): errors of these kinds that warpsim finds do not fail the test",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin before anything of the project is imported."""
    options = early_config.known_args_namespace
    asked = [f"{name}=1" for name in _VARIABLES if os.environ.get(name, "0") not in ("", "0")]
    if options.warpsim is False or (options.warpsim is None and not asked):
        for name, value in vars(options).items():
            if name.startswith("warpsim_") and value:
                raise pytest.UsageError(f"--{name.replace('_', '-')} needs --warpsim")
        return
    for name in ("json", "write-baseline"):
        file = getattr(options, f"warpsim_{name.replace('-', '_')}")
        if file and not Path(file).absolute().parent.is_dir():
            raise pytest.UsageError(f"--warpsim-{name} {file}: there is no such folder")
    stack, patch = ExitStack(), pytest.MonkeyPatch()
    early_config.add_cleanup(stack.close)
    stack.callback(patch.undo)
    stack.callback(gc.enable)
    gc.disable()  # what is imported stays
    from numba.core import config

    # until programs run nothing says "simulated": the typing rules are those of Numba-CUDA itself
    patch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    patch.setattr(config, "ENABLE_CUDASIM", 0)
    from warpsim.code import kept
    from warpsim.host import gpus
    from warpsim.redirect import redirected
    from warpsim.run import kernel
    from warpsim.suite import BadBaseline, Suite

    if options.warpsim_gpu:
        try:
            gpus.simulate(options.warpsim_gpu)
        except ValueError as error:
            raise pytest.UsageError(f"--warpsim-gpu: {error}") from None
    try:
        suite = Suite(early_config.rootpath, options.warpsim_baseline)
    except BadBaseline as error:
        raise pytest.UsageError(f"--warpsim-baseline: {error}") from None
    looking = Looking(suite, options, asked[0] if asked and not options.warpsim else "--warpsim")
    for kind, names in _EXPECTING:
        _note(patch, kind, names, looking.expected)
    kept.begin()
    gc.freeze()
    gc.enable()
    stack.callback(gc.unfreeze)
    stack.callback(gc.set_threshold, *gc.get_threshold())
    gc.set_threshold(10_000, 10, 10)  # nearly all that typing makes stays
    stack.callback(kept.save)  # a process of pytest-xdist may end without its exit's functions
    stack.enter_context(redirected())
    patch.setattr(config, "ENABLE_CUDASIM", 1)  # as under Numba's own simulator, which is not used
    patch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    patch.setattr(kernel, "onlookers", [*kernel.onlookers, looking.look])
    patch.setattr(kernel, "counts_costs", options.warpsim_all)
    patch.setattr(kernel, "host_calls_devices", True)
    early_config.pluginmanager.register(looking, _NAME)


#: The contexts that say which exceptions a test expects, and the names under which they do.
_EXPECTING = (
    (type(pytest.raises(IndexError)), ("expected_exceptions", "expected_exception")),
    (_AssertRaisesContext, ("expected",)),
)


def _note(patch: pytest.MonkeyPatch, kind: type, names: tuple[str, ...], expected: list) -> None:
    """Let contexts of some kind say what they expect while they are entered."""
    enter, leave = kind.__enter__, kind.__exit__

    def __enter__(self: Any) -> Any:
        found = next(getattr(self, name) for name in names if hasattr(self, name))
        expected.append(found if isinstance(found, tuple) else (found,))
        return enter(self)

    def __exit__(self: Any, *args: Any) -> Any:
        expected.pop()
        return leave(self, *args)

    patch.setattr(kind, "__enter__", __enter__)
    patch.setattr(kind, "__exit__", __exit__)


class Looking:
    """The launches of each phase of each test, and those of none, such as of an import."""

    def __init__(self, suite: Any, options: Any, why: str) -> None:
        from warpsim.run.program_findings import Collected

        self.suite, self.options, self.why = suite, options, why
        # how findings are printed
        self.how = ("", None) if options.warpsim_all else ("--warpsim-all prints them",)
        self.outside = self.now = Collected()
        self.expected: list[tuple[type, ...]] = []  # of each `pytest.raises` around a launch
        self.tells = True  # not in a process of pytest-xdist, which tells another

    def look(self, kernel: Any, launch: Any) -> None:
        """Take a launch's findings; one out of bounds is raised where the test expects that."""
        if any(issubclass(IndexError, kinds) for kinds in self.expected):
            from warpsim.watch.findings import error_of

            for finding in launch.findings.values():
                if finding.kind == "out-of-bounds":
                    raise error_of(finding, launch.name)
        self.now.look(kernel, launch)

    def pytest_report_header(self) -> str:
        from warpsim import __version__
        from warpsim.host import gpus

        name = self.options.warpsim_gpu or gpus.current().name
        return f"warpsim {__version__}: numba.cuda is simulated, as {self.why} says ({name})"

    def pytest_collection_finish(self) -> None:
        """What was imported stays: Python need not look through it for what can go."""
        gc.freeze()

    @contextmanager
    def _phase(self, item: pytest.Item, when: str) -> Iterator[None]:
        self.now = found = type(self.outside)()
        try:
            yield
        except BaseException:
            if found.findings:
                item.add_report_section(when, "warpsim", found.text(*self.how))
            self.suite.add(found, item.nodeid, _accepted_by(item))
            raise
        finally:
            self.now = self.outside
        errors = self.suite.add(found, item.nodeid, _accepted_by(item))
        if errors and not self.options.warpsim_report_only:
            pytest.fail("\n".join(map(str, errors)), pytrace=False)

    def _hook(when: str) -> Any:
        @pytest.hookimpl(wrapper=True)
        def phase(self, item: pytest.Item) -> Iterator[None]:
            with self._phase(item, when):
                return (yield)

        return phase

    pytest_runtest_setup, pytest_runtest_call = _hook("setup"), _hook("call")
    pytest_runtest_teardown = _hook("teardown")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        self.suite.merge(getattr(node, "workeroutput", {}).get("warpsim"))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        errors = self.suite.add(self.outside, "", ())
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["warpsim"] = self.suite.as_json()
            self.tells = False
            return
        outside = errors or self.suite.outside
        if outside and not self.options.warpsim_report_only:
            if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        for name, write in (("json", self.suite.write), ("write_baseline", self.suite.rebase)):
            if file := getattr(self.options, f"warpsim_{name}"):
                write(Path(file))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.tells and (text := self.suite.summary(*self.how)):
            terminalreporter.section("warpsim", red=self.suite.any_error)
            terminalreporter.line(text)


def _accepted_by(item: pytest.Item) -> tuple[str, ...]:
    """The kinds of findings that a test's marks accept, each with a reason."""
    from warpsim.watch.findings import ERRORS

    found: list[str] = []
    for mark in item.iter_markers("warpsim"):
        accept = mark.kwargs.get("accept", mark.args[0] if mark.args else ())
        kinds = (accept,) if isinstance(accept, str) else tuple(accept)
        if not kinds or not ERRORS.issuperset(kinds) or not mark.kwargs.get("reason"):
            raise pytest.UsageError(
                f"{item.nodeid}: a mark is @pytest.mark.warpsim(accept=kind, reason=text), with "
                f"kinds of {', '.join(sorted(ERRORS))}; got {mark.args} {mark.kwargs}"
            )
        found += kinds
    return tuple(found)
