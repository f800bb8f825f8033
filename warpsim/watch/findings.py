"""What a launch finds wrong with a kernel, or too slow: findings, and how they are told."""

import ast
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from warpsim.core.words import wrapped
from warpsim.front.names import Site
from warpsim.watch.advice import conflict_cure
from warpsim.watch.counts import Counters

#: Kinds of finding that make a program wrong; the others cost time.
ERRORS = frozenset(
    "out-of-bounds misaligned race barrier-divergence uninitialised-read deadlock".split()
)
#: Findings that are told at most, unless one asks for all.
MOST_TOLD = 10

#: What a thread does in an access, as findings say it.
VERBS = {"load": "reads", "view": "reads", "store": "writes", "atomic": "updates"}


class Where(NamedTuple):
    """A thread of a launch: its block's and its own index, as ``(x, y, z)``."""

    block: tuple[int, int, int]
    thread: tuple[int, int, int]

    def __str__(self) -> str:
        return f"Thread {self.thread} of block {self.block}"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a kernel, or that costs time.

    Attributes
    ----------
    kind : str
        Such as ``"out-of-bounds"``; see :data:`ERRORS` for the kinds that are errors.
    line : int
        Counted from the line of ``def`` as 1.
    code : str
        The access or statement.
    message : str
        What happens, and what to do; :attr:`sentence` says whom it happens to, too.
    where : Where or None
        The first thread concerned.
    call : (int, str) or None
        Of a finding in a function of another module: where the kernel's own module calls it, as
        `line` and `code`.
    whole : bool
        Whether the message says all that there is to do: a general hint would lead elsewhere.
    function : str
        The function that the line belongs to: the kernel, or one that it calls.
    """

    kind: str
    line: int
    code: str
    message: str
    where: Where | None = None
    call: tuple[int, str] | None = None
    whole: bool = False
    function: str = field(default="", compare=False, repr=False)

    is_error = property(lambda self: self.kind in ERRORS)

    @property
    def sentence(self) -> str:
        """The message with the thread it speaks of: "Thread ... of block ... writes ..."."""
        return f"{self.where} {self.message}" if self.where else self.message

    def indented(self, indent: str = "") -> str:
        text = wrapped(self.sentence, indent + "    ", "")
        return f"{indent}{self.kind}, line {self.line}: {self.code}\n{text}"

    __str__ = indented

    @property
    def place(self) -> str:
        """Where it is, as the head of what costs time on one line says it."""
        return f"line {self.line}" + (f" of {self.function}" if self.function else "")


def told(findings: Iterable, more: str, most: int | None = MOST_TOLD, indent="") -> list[str]:
    """Findings, or `Found`, errors first, as text: each error, then what costs time, by line.

    ``more`` says how to see what is beyond the ``most``; None for no limit.
    """
    groups: dict[Any, list[Any]] = {}
    for one in findings:
        groups.setdefault(id(one) if one.is_error else one.place, []).append(one)
    texts = [
        group[0].indented(indent) if len(group) == 1 else _of_a_line(group, indent)
        for group in groups.values()
    ]
    rest = len(texts) - len(texts[:most])
    return texts[:most] + [f"{indent}... and {rest:,} more: {more}"] * (rest > 0)


def _of_a_line(costs: list[Any], indent: str) -> str:
    kinds: dict[str, list[Any]] = {}
    for one in costs:
        kinds.setdefault(one.kind, []).append(one)
    text = [f"{indent}{costs[0].place}: {' and '.join(kinds)}"]
    for kind, same in kinds.items():
        codes = ", ".join(dict.fromkeys(one.code for one in same))
        text.append(wrapped(f"{kind}: {codes}: {same[0].message}", indent + "    "))
    return "\n".join(text)


class KernelError(RuntimeError):
    """A launch did something that would be undefined on a GPU; arrays are left untouched."""

    module: str = ""  # of the kernel
    place: tuple[str, int] | None = None  # file, and line there

    def __init__(self, finding: Finding, kernel: str):
        self.finding = finding
        super().__init__(f"{kernel}: {finding}")


class OutOfBounds(KernelError, IndexError):
    """An index out of bounds, as the arrays of Numba's own simulator say it."""


def error_of(finding: Finding, kernel: str) -> KernelError:
    """The exception that ends a launch."""
    return (OutOfBounds if finding.kind == "out-of-bounds" else KernelError)(finding, kernel)


def in_function(site: Site, kernel: str) -> str:
    """A remark where a line is not the kernel's own."""
    return "" if site.function == kernel else f" [in {site.function}]"


def call_of(counters: Counters, site: Site) -> tuple[int, str] | None:
    """Where the kernel calls the function of another module that a place belongs to."""
    call = counters.called.get(site.function)
    return call and (call.line, call.code)


def index_names(site: Site, count: int) -> list[str]:
    """The source text of each index of an access, such as ``['i', 'j + 1']``."""
    parts: list[ast.expr] = []
    with suppress(SyntaxError):
        node = ast.parse(site.code).body[0]
        node = node.target if isinstance(node, ast.AugAssign) else getattr(node, "value", None)
        if isinstance(node, ast.Call) and len(node.args) > 1:
            arrays = [ast.unparse(argument) for argument in node.args[:-1:2]]
            place = arrays.index(site.array) if site.array in arrays else 0
            inner = node.args[2 * place + 1]  # copy_async(to, index, source, index)
        else:
            inner = getattr(node, "slice", ast.Tuple([]))
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    return [ast.unparse(part) for part in parts] if len(parts) == count else ["index"] * count


def cost_findings(counters: Counters, kernel: str) -> list[Finding]:
    """Findings that are read off the counts at the end of a launch.

    Lines of the kernel itself come first: float64 that it hands to a function came in there.
    """
    found: list[tuple[str, Site, str]] = []
    doubles: Counter[Site] = Counter()
    for number, amount in counters.doubles.items():
        doubles[counters.sites[number]] += amount
    for site in sorted(doubles, key=lambda site: (site.function != kernel, site.line)):
        found.append(("float64", site, f"{doubles[site]:,} float64 operations: {site.double}"))
    for site, (warps, both) in counters.branches.items():
        text = f"{both:,} of {warps:,} times a warp takes both sides, one after the other: let "
        text += "whole warps agree, by branching on what all 32 lanes share"
        found += [("divergence", site, text)] * (both * 2 >= warps > 0)
    for (site, space, op), its in counters.accesses.items():
        if space == "global" and op != "atomic" and its.sectors >= 2 * its.ideal_sectors:
            text = f"{its.sectors / its.requests:.1f} sectors a request, "
            text += f"{its.ideal_sectors / its.requests:.1f} would do: let threads with "
            text += f"neighbouring threadIdx.x {op} neighbouring elements of {site.array}"
            found.append(("uncoalesced", site, text))
        if space == "shared" and op != "atomic" and its.conflicts >= its.ideal_wavefronts > 0:
            text = f"{its.wavefronts / its.requests:.1f} wavefronts a request, "
            text += f"{its.ideal_wavefronts / its.requests:.1f} would do: let the lanes of a warp "
            text += f"touch different banks of {site.array} "
            text += f"({conflict_cure(counters.samples, site, op)})"
            found.append(("bank-conflict", site, text))
    return [
        Finding(kind, site.line, site.code, text + in_function(site, kernel),
                call=call_of(counters, site), function=site.function)
        for kind, site, text in found
    ]  # fmt: skip
