"""What a traced launch did: counts by line, findings, operations, pictures."""

from __future__ import annotations

import importlib.util
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from warpsim.core.words import wrapped
from warpsim.watch.counts import Count, Counters
from warpsim.watch.findings import told

if TYPE_CHECKING:
    import pandas

    from warpsim.draw.style import Picture

SPACES = ("global", "shared", "local")
OPS = ("load", "store", "atomic")


class Report:
    """What a traced launch did: counts by line, findings, operations, pictures.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    findings : tuple of Finding
        Errors first.
    source : str
        The kernel's text from its ``def``, which is line 1.
    """

    def __init__(self, kernel: str, counters: Counters, findings: tuple, source: str = ""):
        self.kernel, self.findings, self.source = kernel, findings, source
        self._counters = counters

    def total(self, space: str, op: str) -> Count:
        """Sums over all accesses of a kind.

        Parameters
        ----------
        space : {'global', 'shared', 'local'}
        op : {'load', 'store', 'atomic'}

        Returns
        -------
        Count
            With ``requests``, ``sectors``, ``ideal_sectors``, ``wavefronts``, ``conflicts``,
            ``lanes``, ``bytes``.
        """
        if space not in SPACES or op not in OPS:
            raise ValueError(
                f"total({space!r}, {op!r}): the spaces are {', '.join(SPACES)}, "
                f"the operations {', '.join(OPS)}"
            )
        total = Count()
        for (_, its_space, its_op), count in self._counters.accesses.items():
            if (its_space, its_op) == (space, op):
                total.add(count)
        return total

    @property
    def lines(self) -> pandas.DataFrame:
        """One row for each place of the source that touches memory."""
        import pandas

        counted = ["requests", "sectors", "ideal_sectors", "wavefronts", "conflicts", "lanes"]
        rows = [
            (site.line, site.code, site.array, space, op, *(getattr(its, name) for name in counted))
            for (site, space, op), its in self._counters.accesses.items()
        ]
        table = pandas.DataFrame(rows, columns=["line", "code", "array", "space", "op", *counted])
        return table.sort_values(["line", "code", "op"], ignore_index=True)

    def by_thread(self, *kinds: tuple[str, str]) -> np.ndarray | None:
        """How often each thread touched global and shared memory.

        Parameters
        ----------
        *kinds : (str, str)
            Space and operation, as for `total`, to be added up; all of the two without any.

        Returns
        -------
        ndarray of int, (blocks, threads of a block), or None
            None for a launch of over a million threads: there it is not counted.
        """
        counted = self._counters.by_thread
        if not counted:
            return None
        chosen = [counted[kind] for kind in kinds] if kinds else list(counted.values())
        return np.sum(chosen, axis=0)[:, : self._counters.threads]

    @property
    def barriers(self) -> int:
        """How many barriers a block passed, of the blocks that with the most."""
        return int(self._counters.barriers.max())

    @property
    def operations(self) -> dict[str, int]:
        """Operations of all threads by type; + − × count 1, fma 2; see DESIGN for the rest.

        Those of tensor cores are there, as "tensor", if there are any.
        """
        kinds = ["float32", "float64", "float16", "special", "integer"]
        kinds += ["tensor"] * bool(self._counters.operations["tensor"])
        return {kind: self._counters.operations[kind] for kind in kinds}

    def calls(self, name: str) -> int:
        """How often threads called a device function or an instruction of `warpsim.ptx`, in all.

        One that a whole warp does, such as ``mma_f16``, counts for each of its 32 lanes.
        """
        return self._counters.operations[f"call {name}"]

    @property
    def unique_bytes(self) -> int:
        """Bytes of global memory touched, each counted once."""
        return self._counters.unique_bytes

    def show(self, line: int | None = None) -> Picture:
        """Draw which lane of a warp touches which sector of global, or bank of shared memory.

        Each drawing is of one request: of a place's requests the first with the most sectors or
        wavefronts.

        Parameters
        ----------
        line : int, optional
            A line of the source, counted from ``def`` as 1. Without it all accesses, at most six:
            first those that waste most.

        Raises
        ------
        ValueError
            When nothing on the line touches global or shared memory; it lists the lines that do.
        """
        _need_matplotlib()
        from warpsim.draw.panels import requests_picture

        return requests_picture(self._counters, self.kernel, line)

    def heat_map(self) -> Picture:
        """Draw the source with each line's traffic beside it: needed, in excess, and findings."""
        _need_matplotlib()
        from warpsim.draw.heat_map import heat_map_picture

        return heat_map_picture(self._counters, self.kernel, self.source, self.findings)

    def __str__(self) -> str:
        out = [f"{self.kernel}:"]
        for space, op in product(SPACES, OPS):
            count = self.total(space, op)
            text = f"  {space} {op}s: {count.requests:,} requests"
            if space == "global":
                text += f", {count.sectors:,} sectors ({count.ideal_sectors:,} would do)"
            elif space == "shared" and op != "atomic":
                text += f", {count.wavefronts:,} wavefronts, {count.conflicts:,} conflicts"
            out += [wrapped(text)] * (count.requests > 0)
        done = ", ".join(f"{kind} {n:,}" for kind, n in self.operations.items() if n)
        out.append(wrapped(f"  operations: {done or 'none'}"))
        out += told(self.findings, "report.findings has all", indent="  ")
        if not self.findings:
            out.append("  no findings")
        return "\n".join(out)

    __repr__ = __str__


def _need_matplotlib() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise ModuleNotFoundError(
            "pictures need Matplotlib, which is not installed: python -m pip install matplotlib",
            name="matplotlib",
        )
