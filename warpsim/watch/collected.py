"""The findings of a whole program: each once, its file and line, how many launches had it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpsim.front.programs import program_of
from warpsim.run.launch import Launch, findings_of
from warpsim.watch.places import place_of
from warpsim.wrapping import wrapped


@dataclass
class Found:
    """A finding, and the launches that had it.

    Attributes
    ----------
    kind, code, message : str
        As in a `Finding`; the message is that of the first launch, with the thread it speaks of.
    error : bool
        Whether it makes the program wrong; the others cost time.
    kernel, file : str
    line : int
        Of the file.
    launches : int
    """

    kind: str
    error: bool
    kernel: str
    file: str
    line: int
    code: str
    message: str
    launches: int = 0

    def __str__(self) -> str:
        times = "1 launch" if self.launches == 1 else f"{self.launches:,} launches"
        path, here = Path(self.file), Path.cwd()
        shown = path.relative_to(here) if path.is_relative_to(here) else path
        head = f"{shown}:{self.line}: {self.kind} in {self.kernel}, {times}: {self.code}"
        return f"{head}\n{wrapped(self.message, '    ', '')}"


class Collected:
    """What all launches of a program did wrong, or too slowly."""

    def __init__(self) -> None:
        self.launches = 0
        self._found: dict[tuple, Found] = {}
        self._last: dict[tuple, int] = {}  # the launch that had a finding last

    def look(self, kernel: Any, launch: Launch) -> None:
        """Take the findings of a launch."""
        self.launches += 1
        for finding in findings_of(launch):
            file, line, code = place_of(finding, program_of(kernel).source)
            key = (finding.kind, launch.name, file, line, code)
            if self._last.get(key) == self.launches:
                continue  # one line may have the same finding in two of its accesses
            self._last[key] = self.launches
            found = self._found.get(key)
            if found is None:
                found = self._found[key] = Found(
                    finding.kind, finding.is_error, launch.name, file, line, code, finding.sentence
                )
            found.launches += 1

    @property
    def findings(self) -> list[Found]:
        """Errors first; else as they came."""
        return sorted(self._found.values(), key=lambda found: not found.error)

    @property
    def any_error(self) -> bool:
        return any(found.error for found in self._found.values())

    def as_json(self) -> dict[str, Any]:
        """Numbers and text alone, for `json.dump`."""
        return {"launches": self.launches, "findings": [asdict(found) for found in self.findings]}

    def __str__(self) -> str:
        of = "1 launch" if self.launches == 1 else f"{self.launches:,} launches"
        many = {0: "no findings", 1: "1 finding"}.get(
            len(self._found), f"{len(self._found)} findings"
        )
        return "\n".join([f"{many} in {of}", *map(str, self.findings)])
