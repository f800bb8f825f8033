"""``pytest --warpsim``: tests of Numba-CUDA kernels run without a GPU, and fail on races.

From before the first conftest on, ``numba.cuda`` is the simulator. Every launch of a test, and of
its fixtures, is looked at; a finding that is an error fails the test. Without the option nothing
happens. Use ``-p warpsim.pytest_plugin`` where this package is not installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

_NAME = "warpsim findings"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of :func:`pytest_load_initial_conftests`."""
    group = parser.getgroup("warpsim", "kernels on a simulated GPU")
    group.addoption(
        "--warpsim",
        action="store_true",
        help="numba.cuda is a simulator; a test whose kernels race or go astray fails",
    )
    group.addoption("--warpsim-all", action="store_true", help="print all findings of a test")
    group.addoption("--warpsim-gpu", metavar="NAME", help="the simulated GPU (Tesla T4)")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin before anything of the project is imported."""
    options = early_config.known_args_namespace
    if not options.warpsim:
        if options.warpsim_gpu:
            raise pytest.UsageError("--warpsim-gpu needs --warpsim")
        return
    from warpsim.host import gpus
    from warpsim.redirect import redirected
    from warpsim.run.kernel import onlookers

    if options.warpsim_gpu:
        try:
            gpus.simulate(options.warpsim_gpu)
        except ValueError as error:
            raise pytest.UsageError(f"--warpsim-gpu: {error}") from None
    looking = Looking(("", None) if options.warpsim_all else ("--warpsim-all prints them",))
    stack = ExitStack()
    stack.enter_context(redirected())
    onlookers.append(looking.look)
    stack.callback(onlookers.remove, looking.look)
    early_config.add_cleanup(stack.close)
    early_config.pluginmanager.register(looking, _NAME)


class Looking:
    """The launches of each phase of each test, and those of none, such as of an import."""

    def __init__(self, how: tuple) -> None:
        from warpsim.run.program_findings import Collected

        self.how = how  # findings are printed
        self.outside = self.now = Collected()

    def look(self, kernel: Any, launch: Any) -> None:
        self.now.look(kernel, launch)

    @contextmanager
    def _phase(self, item: pytest.Item, when: str) -> Iterator[None]:
        self.now = found = type(self.outside)()
        try:
            yield
        except BaseException:
            if found.findings:
                item.add_report_section(when, "warpsim", found.text(*self.how))
            raise
        finally:
            self.now = self.outside
        errors = [one for one in found.findings if one.error]
        if errors:
            pytest.fail("\n".join(map(str, errors)), pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        with self._phase(item, "setup"):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        with self._phase(item, "call"):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        with self._phase(item, "teardown"):
            return (yield)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.outside.any_error and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.outside.any_error:
            terminalreporter.section("warpsim: launches outside tests", red=True)
            terminalreporter.line(self.outside.text(*self.how))
