"""``%%trace``: the findings of all launches of a notebook's cell."""

from contextlib import ExitStack
from typing import Any

_redirections = ExitStack()


def add_trace(shell: Any) -> None:
    """Give a shell of IPython the cell magic ``%%trace``."""
    from warpsim.program import collecting

    def trace(line: str, cell: str) -> None:
        """Run a cell; then print what its launches do wrong, or too slowly, each once."""
        if line.strip() not in ("", "--all"):
            raise ValueError(
                f"%%trace takes no arguments, {line.strip()!r} given; --all prints all findings"
            )
        with collecting(True) as collected:
            shell.run_cell(cell)
        whole = ("", None) if line.strip() else ("%%trace --all prints them",)
        none = "no launch of the simulator in this cell"
        print(f"warpsim: {collected.text(*whole) if collected.launches else none}")

    shell.register_magic_function(trace, "cell", "trace")


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext warpsim``: from here on cells that import ``numba.cuda`` get the simulator."""
    from warpsim.redirect import redirected

    add_trace(shell)
    _redirections.enter_context(redirected())


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext warpsim``: imports are Numba's again."""
    _redirections.close()
    shell.magics_manager.magics["cell"].pop("trace", None)
