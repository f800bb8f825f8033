"""Verdicts: what a check says, in the same words on every machine, and how that looks on a page.

A notebook's page shows a box with a bar at its left; a terminal, and whoever compares outputs,
takes the text. Styles stand at their elements, so that none leaks to what is around, and survive
where a notebook is not trusted. Words keep the page's colour, and grounds are translucent: both
read on white and on black.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from warpsim.core.words import wrapped

SYMBOLS = {"passed": "✓", "failed": "✗", "not started": "○"}

# Costs that a trace finds; an exercise may forbid them.
COSTS = (
    "negative-index", "same-value-race", "float64", "uncoalesced", "bank-conflict", "divergence",
)  # fmt: skip
# Every kind of failure, in the order in which an answer is judged.
FAILURES = (
    "not-a-kernel", "not-a-function", "borrowed", "wrong-arguments", "statements", "typing",
    "raised", "endless-loop", "deadlock", "out-of-bounds", "misaligned", "barrier-divergence",
    "input-modified", "race", "uninitialised-read", "unwritten-output", "wrong-shape",
    "wrong-dtype", "wrong-result", *COSTS, "limit", "not-parallel", "gpu-result",
)  # fmt: skip

# What every exercise may say to a kind of failure; an exercise's own hint replaces it.
GENERAL_HINTS = {
    "out-of-bounds": "The last block usually has more threads than there are elements left.",
    "negative-index": "Count from the front: the last element's index is the size less 1.",
    "misaligned": "The address of a wide access is a multiple of its bytes. "
    "Where rows or parts begin in between, take one element at a time.",
    "barrier-divergence": "Every thread of a block must reach the same syncthreads. "
    "Move it out of the branch; guard the loads and stores instead.",
    "race": "Give each thread its own address, or use cuda.atomic, "
    "or put a barrier between the write and the read.",
    "same-value-race": "A thread that has no element of its own stores nothing: guard the store. "
    "`if i < out.size:` lets threads beyond the end do nothing; of several that have one value, "
    "one stores it, as under `if cuda.threadIdx.x == 0:`.",
    "unwritten-output": "Which threads should write these elements? "
    "Look at the index and the guard.",
    "not-parallel": "Each thread of the launch does a part of its own. Where there is a thread for "
    "each element, it takes the one of its index; where there are more elements, it begins there "
    "and goes on in steps: range(cuda.grid(1), size, cuda.gridsize(1)).",
    "input-modified": "Read from the inputs, write to the outputs only.",
}


HINT = "Hint: "  # begins the line that is said at the second try
DECIDES = re.compile(r"Line \d+(?: of `\w+`)? decides: ")  # the same
WOULD = re.compile(r"Line \d+(?: of `\w+`)? would be right as ")  # what is said at the third
MORE = (
    "Change your answer and check it again for a hint.",
    "After the next try: the line as it would be right.",
)


class VerdictError(AssertionError):
    """Raised instead of a verdict that is not "passed" when COURSE_STRICT=1; has `.verdict`."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict


@dataclass(frozen=True)
class Verdict:
    """What `check` found out about an answer; shows itself as text.

    Attributes
    ----------
    exercise : str
        Name of the exercise.
    status : str
        "passed", "failed" or "not started".
    kind : str
        "passed", "not-started", or one of `FAILURES`.
    message : str
        What was found and where, a sentence or a fact a line; no paths, no times.
    findings : tuple of Finding
        What the simulator noted in the case that decided.
    """

    exercise: str
    status: str
    kind: str
    message: str
    findings: tuple[Any, ...] = field(default=(), compare=False)

    def __bool__(self) -> bool:
        return self.status == "passed"

    def at_try(self, earlier: int) -> Verdict:
        """As much help as there is after so many other answers that have failed.

        At first where and what; then the hint and which line decides; then how it would be right.
        """
        lines, left = [], ""
        for line in self.message.splitlines():
            second = line.startswith(HINT) or DECIDES.match(line)
            step = 1 if second else 2 * bool(WOULD.match(line))
            if step <= earlier:
                lines.append(line)
            else:
                left = left or MORE[earlier > 0]
        return replace(self, message="\n".join([*lines, left] if left else lines))

    @property
    def title(self) -> str:
        """The first line: "✗ add-one: out-of-bounds"."""
        word = self.status if self.status != "failed" else self.kind
        return f"{SYMBOLS[self.status]} {self.exercise}: {word}"

    def __str__(self) -> str:
        lines = [self.title]
        for line in self.message.splitlines():
            # A line of source must stay one line, as the learner wrote it.
            lines.append("  " + line if re.match(r"Line \d+[:.]", line) else wrapped(line, "  "))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title, *lines = [self.title, *self.message.splitlines()]
        return box(SYMBOLS[self.status], marked(title), map(_line_on_page, lines))


def _line_on_page(line: str) -> str:
    """A line of a message as HTML: a learner's line of code as code, a hint's first word bold."""
    if found := re.match(r"(Line \d+): (.+)", line):
        return f"{found[1]}: <code>{escaped(found[2])}</code>"
    if line.startswith(HINT):
        return f"<b>Hint:</b> {marked(line.removeprefix(HINT))}"
    return marked(line)


@dataclass(eq=False)
class Failure(Exception):
    """An answer's first fault, on its way from where it was seen to the verdict."""

    kind: str  # as `Verdict.kind`
    message: str  # what was found: one or more sentences
    line: int | None = None  # of the answer, counted from its `def` line = 1
    code: str | None = None  # its source
    findings: tuple[Any, ...] = ()
    # instead of the exercise's hint for this kind, and the general one; none where it is empty
    hint: str | None = None
    case: str | None = None
    number: int = 0  # of that case
    repair: list[str] = field(default_factory=list)  # which line decides, how it would be right

    def __post_init__(self) -> None:
        super().__init__(self.message)


class NotStarted(Exception):
    """The answer is still its stub."""


def failed(exercise: str, failure: Failure, hints: dict[str, str]) -> Verdict:
    """The verdict of a failure: message, line, case, hint, each where there is one."""
    lines = [failure.message]
    if failure.line is not None:
        code = (failure.code or "").strip()
        lines.append(f"Line {failure.line}: {code}" if code else f"Line {failure.line}.")
    if failure.case:
        lines.append(f"Case: {failure.case}.")
    hint = hints.get(failure.kind, GENERAL_HINTS.get(failure.kind))
    if failure.kind == "out-of-bounds" and "`if " not in failure.message:
        hint = hints.get(failure.kind)  # it is not the last block: the index is wrong
    if failure.hint is not None:
        hint = failure.hint
    if hint:
        lines.append(f"{HINT}{hint}")
    lines += failure.repair
    return Verdict(exercise, "failed", failure.kind, "\n".join(lines), failure.findings)


def brief(value: Any, longest: int = 60) -> str:
    """A value as Python writes it, at most so many characters; "…" at its end says that it goes on.

    >>> brief([1000, 2000, 3000], longest=12)
    '[1000, 2000…'
    """
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))  # another one each time
    return text if len(text) <= longest else text[: longest - 1] + "…"


# --- on a page ------------------------------------------------------------------------------------

# the pictures' green and red; each goes with a sign and words
COLOURS = {"✓": "0, 158, 115", "✗": "204, 51, 17", "○": "128, 128, 128", "·": "0, 114, 178"}


def escaped(text: str) -> str:
    """Words as HTML that shows every sign of them."""
    return html.escape(text).replace("$", "<span>$</span>")  # no formula begins there


def marked(text: str) -> str:
    """Words as HTML; what stands between ` is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped(text))


def box(sign: str, head: str, lines: Iterable[str] = (), ground: bool = True) -> str:
    """A box of HTML: a bar in the colour of a sign of `COLOURS`, head in bold, other lines below.

    Head and lines are HTML, such as `marked` makes it; with `ground` the box is tinted.
    """
    colour = COLOURS[sign]
    tint = f" background-color: rgba({colour}, 0.1);" if ground else ""
    look = f"border-left: 4px solid rgb({colour});{tint} padding: 4px 10px; margin: 2px 0px;"
    rows = [f"<div><b>{head}</b></div>", *(f"<div>{line}</div>" for line in lines)]
    return f'<div style="{look}">\n' + "\n".join(rows) + "\n</div>"


def bar(done: int, of: int) -> str:
    """A bar of HTML, filled as far as something is done."""
    share = round(100 * done / of) if of else 0
    colour = COLOURS["✓"]
    fill = f"background-color: rgb({colour}); width: {share}%; height: 8px;"
    around = "background-color: rgba(128, 128, 128, 0.3); width: 320px; height: 8px;"
    return f'<div style="{around} margin: 4px 0px;"><div style="{fill}"></div></div>'
