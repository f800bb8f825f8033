"""Where a finding is: its file, and the line there."""

from __future__ import annotations

import ast

from warpsim.code.programs import program_of
from warpsim.front.names import Source, Unsupported
from warpsim.front.nodes import walk
from warpsim.watch.findings import Finding


def place_of(finding: Finding, kernel: Source) -> tuple[str, int, str]:
    """File, line there and code of a finding.

    Of one in a function of another module it is where that is called: there it can be mended.
    """
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
        for node in walk(source.tree):
            function = source.static(node.func) if isinstance(node, ast.Call) else None
            if not hasattr(function, "py_func"):
                continue
            try:
                inner = program_of(function).source
            except Unsupported:
                continue  # on a way that the types rule out: it does not run
            if all(inner.function is not one.function for one in found):
                found.append(inner)
    return found
