"""The findings of a launch, and those of a whole program: each once, and how many launches had it.

Their places are files and lines there.
"""

import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpsim.code.programs import program_of
from warpsim.core.words import count, wrapped
from warpsim.front.names import Source, Unsupported
from warpsim.watch.findings import MOST_TOLD, Finding, cost_findings, told


# ---------------------------------------------------------------------- of a launch
def place_of(finding: Finding, kernel: Source) -> tuple[str, int, str]:
    """File, line there and code of a finding; in another module it is where that is called."""
    sources = reached(kernel)
    if finding.call is not None:
        line, code = finding.call
        source = next((one for one in sources if one.code(line) == code), kernel)
        return *source.in_file(line), code
    source = next((one for one in sources if one.name == finding.function), kernel)
    return *source.in_file(finding.line), finding.code


def reached(kernel: Source) -> list[Source]:
    """A kernel and the device functions that it may call, each once."""
    found = [kernel]
    for source in found:  # grows meanwhile
        for node in source.calls:
            function = source.static(node.func)
            if not hasattr(function, "py_func"):
                continue
            try:
                inner = program_of(function).source
            except Unsupported:
                continue  # on a way that the types rule out: it does not run
            if all(inner.function is not one.function for one in found):
                found.append(inner)
    return found


# ---------------------------------------------------------------------- of a program
def findings_of(launch: Any) -> tuple[Finding, ...]:
    """All that was found in a launch that was counted, errors first."""
    found = sorted(launch.findings.values(), key=lambda finding: not finding.is_error)
    if launch.counters.costs:
        found += cost_findings(launch.counters, launch.name)
    return tuple(found)


@dataclass
class Found:
    """A finding of a program, and in how many launches."""

    kind: str
    error: bool  # it makes the program wrong; the others cost time
    kernel: str
    file: str
    line: int  # of the file
    code: str
    message: str  # of the first launch, with the thread that it speaks of
    launches: int = 0

    is_error = property(lambda self: self.error)
    #: File, line and kernel.
    place = property(lambda self: f"{self._line} in {self.kernel}")

    @property
    def _line(self) -> str:
        path, here = Path(self.file), Path.cwd()
        shown = path.relative_to(here) if path.is_relative_to(here) else path
        return f"{shown}:{self.line}"

    def indented(self, indent: str = "") -> str:
        times = count(self.launches, "launch")
        head = f"{indent}{self._line}: {self.kind} in {self.kernel}, {times}: {self.code}"
        return f"{head}\n{wrapped(self.message, indent + '    ', '')}"

    __str__ = indented


class Collected:
    """What all launches of a program did wrong, or too slowly; its threads may launch at once."""

    def __init__(self) -> None:
        self.launches = 0
        self._found: dict[tuple, Found] = {}
        self._places: dict[tuple, tuple[str, int, str]] = {}
        self._lock = threading.RLock()

    def look(self, kernel: Any, launch: Any) -> None:
        findings = findings_of(launch)
        source = program_of(kernel).source if findings else None
        with self._lock:
            self.launches += 1
            # one line may have the same finding in two of its accesses
            here = {(one.kind, launch.name, *self._place(one, source)): one for one in findings}
            for key, one in here.items():
                if key not in self._found:
                    kind, name, *place = key
                    self._found[key] = Found(kind, one.is_error, name, *place, one.sentence)
                self._found[key].launches += 1

    def _place(self, finding: Finding, source: Source) -> tuple[str, int, str]:
        key = (source.function, finding.function, finding.line, finding.code, finding.call)
        if key not in self._places:
            self._places[key] = place_of(finding, source)
        return self._places[key]

    @property
    def findings(self) -> list[Found]:
        """Errors first; else as they came."""
        with self._lock:
            return sorted(self._found.values(), key=lambda found: not found.error)

    any_error = property(lambda self: any(found.error for found in self.findings))

    def as_json(self) -> dict[str, Any]:
        """Numbers and text alone, for `json.dump`."""
        return {"launches": self.launches, "findings": [asdict(found) for found in self.findings]}

    def text(self, more: str, most: int | None = MOST_TOLD) -> str:
        """What there is to say: of many findings the first; ``more`` says how to see the others."""
        found = self.findings
        many = count(len(found), "finding") if found else "no findings"
        return "\n".join([f"{many} in {count(self.launches, 'launch')}", *told(found, more, most)])
