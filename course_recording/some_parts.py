"""A file of figures in which some parts of a subject were measured alone."""

from __future__ import annotations

from collections.abc import Mapping

from course.measure.recorded import Figure, Recording

#: Lines of a header on which other rows' figures do not depend, or that their own run has.
OF_A_RUN = ("date", "roofs", "command", "notes")


def beside_others(
    others: Recording | None, facts: Mapping[str, str], rows: list[Figure], parts: list[str]
) -> tuple[dict[str, str], list[Figure]]:
    """Header and rows of the file: new rows in the place of those of the same programs.

    The header is that of the other rows, and its notes name the parts, when they were measured, and
    what differed then. Where there are no others, they say so.
    """
    what = f"{', '.join(parts)}: measured alone"
    if others is None:
        return {**facts, "notes": joined(facts.get("notes"), f"{what}, and nothing else")}, rows
    header = dict(others.header)
    differing = [f"{key}={value}" for key, value in facts.items()
                 if key not in OF_A_RUN and header.get(key) != value]  # fmt: skip
    what = " ".join([what, f"on {facts['date']}", *differing])
    header["notes"] = joined(header.get("notes"), facts.get("notes"), what)
    new = {row.key for row in rows}
    return header, [row for row in others.figures if row.key not in new] + rows


def joined(*notes: str | None) -> str:
    """Notes in one line, each once."""
    return "; ".join(dict.fromkeys(filter(None, notes)))
