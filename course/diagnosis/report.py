"""doctor(): what this machine has, what works, what does not, and what to do about it.

Every probe is run by itself; one that breaks is reported like any other trouble. The doctor only
reports: it changes nothing, and it never raises.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from course import backend
from course.diagnosis.probes import PROBES, Facts, Probe
from course.driver import Driver
from warpsim.core.words import count, wrapped

SYMBOLS = {"ok": "✓", "warning": "!", "problem": "✗", "absent": "○"}
HELP = "Report versions, driver and GPUs: what works, what does not, what to do."  # `course doctor`
INDENT = 24  # columns for the symbol and a probe's name


@dataclass(frozen=True)
class Diagnosis:
    """All probes; shows itself as text."""

    probes: tuple[Probe, ...]

    @property
    def problems(self) -> tuple[Probe, ...]:
        """The probes that found something to mend."""
        return tuple(probe for probe in self.probes if probe.status == "problem")

    def __getitem__(self, name: str) -> Probe:
        for probe in self.probes:
            if probe.name == name:
                return probe
        raise KeyError(f"no probe {name!r}; there are {', '.join(p.name for p in self.probes)}")

    def __str__(self) -> str:
        lines = ["The machine in front of you"]
        for probe in self.probes:
            detail = wrapped(probe.detail, " " * INDENT, "")[INDENT:]
            lines.append(f"{SYMBOLS[probe.status]} {probe.name}".ljust(INDENT) + detail)
            if probe.advice:
                lines.append(wrapped(f"→ {probe.advice}", " " * INDENT))
        found = f"{count(len(self.problems), 'problem')}: see the lines with ✗."
        lines.append(found if self.problems else "No problems.")
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__


def doctor() -> Diagnosis:
    """Look at this machine: versions, driver, GPUs, what works and what does not.

    Returns
    -------
    Diagnosis
        Shows itself. `.problems` is empty where everything that is there works.
    """
    try:
        facts = Facts()
    except Exception as error:  # a report without the driver is better than none
        facts = Facts(driver=Driver(found=False, error=backend.one_line(error)))
    probes: list[Probe] = []
    for probe in PROBES:
        try:
            result = probe(facts)
        except Exception as error:  # each probe stands alone: the others still report
            name = probe.__name__.removeprefix("probe_").replace("_", " ")
            detail = f"this look at the machine failed itself. {backend.one_line(error)}"
            advice = "The other lines still hold. Please report this one as a bug of the course."
            result = Probe(name, "problem", detail, advice)
        if isinstance(result, Probe):
            probes.append(result)
        elif result:
            probes.extend(result)
    return Diagnosis(tuple(probes))


def add_options(parser: argparse.ArgumentParser) -> None:
    """The command `doctor` has none."""


def run(arguments: argparse.Namespace) -> None:
    """Print what the doctor finds."""
    print(doctor())
