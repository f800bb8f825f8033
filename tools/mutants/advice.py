"""What a verdict tells a student to do, done to the letter: the answer must get further."""

from __future__ import annotations

import ast
import re
from ast import unparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from course.checks.exercises import Exercise
from course.checks.verdicts import Verdict
from tools.mutants.subjects import indented


def _statement_at(text: str, number: int) -> tuple[list[Any], int]:
    """The statements of the suite in which a line stands, and its place there."""
    for node in ast.walk(ast.parse(text)):
        for name in ("body", "orelse"):
            suite = getattr(node, name, None)
            for place, one in enumerate(suite if isinstance(suite, list) else []):
                head = one.lineno if hasattr(one, "body") else one.end_lineno
                if one.lineno <= number + 1 <= head and not isinstance(one, ast.FunctionDef):
                    return suite, place
    raise LookupError(f"line {number} of\n{text}")


def _line(text: str, verdict: Verdict) -> int:
    """Which line of the text a verdict names, from 0: the code that it quotes may be a helper's."""
    found = re.search(r"(?m)^Line (\d+): (.*)$", verdict.message)
    if found is None:
        return 0
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    lines, number = text.split("\n"), functions[-1].lineno + int(found[1]) - 2
    quoted = [n for n, line in enumerate(lines) if found[2] in line]
    return number if number in quoted or not quoted else quoted[0]


def on_the_line(text: str, number: int, old: str, new: str) -> str:
    """The text with a line changed; raises LookupError where the line has not what is replaced."""
    lines = text.split("\n")
    if old not in lines[number]:
        raise LookupError(f"no {old!r} on {lines[number]!r}")
    whole = r"(?<!\w)" * old[0].isalnum() + re.escape(old) + r"(?!\w)" * old[-1].isalnum()
    lines[number] = re.sub(whole, lambda found: new, lines[number])
    return "\n".join(lines)


def _guarded(text: str, number: int, found: re.Match) -> str:
    """An `if` around the statement and those that follow it, as far as the next barrier."""
    suite, place = _statement_at(text, number)
    last = place
    while last + 1 < len(suite) and "syncthreads" not in unparse(suite[last + 1]):
        last += 1
    lines, margin = text.split("\n"), " " * suite[place].col_offset
    first, end = suite[place].lineno - 1, suite[last].end_lineno
    inner = indented("\n".join(lines[first:end]))
    return "\n".join([*lines[:first], f"{margin}if {found[1]}:", inner, *lines[end:]])


def _padded(text: str, number: int, found: re.Match) -> str:
    shape = rf"({found[1]} = cuda\.shared\.array\(\([^()]*, )(\w+)\)"
    if (row := re.search(shape, text)) is None:
        raise LookupError(f"no rows of {found[1]} in\n{text}")
    more = 1 if found[2] == "one" else found[2]
    return f"PADDED_ROW = {row[2]} + {more}\n" + re.sub(shape, r"\g<1>PADDED_ROW)", text)


def _with_a_barrier(text: str, number: int, found: re.Match) -> str:
    """The barrier that the verdict names, in front of the line; outside of an `if`."""
    suite, place = _statement_at(text, number)
    lines, number = text.split("\n"), suite[place].lineno - 1
    while lines[number - 1].lstrip().startswith("if "):
        number -= 1
    margin = " " * (len(lines[number]) - len(lines[number].lstrip()))
    return "\n".join([*lines[:number], margin + found[1], *lines[number:]])


def _in_float32(text: str, number: int, found: re.Match) -> str:
    old = text.split("\n")[number]
    bare = r"(?<![\w.\[(])(?<!e-)(\d+\.?\d*e-?\d+|\d+\.\d+|\d+)(?![\w.\]])"
    new = re.sub(bare, r"float32(\1)", old.replace("float64(", "float32("))
    name = re.search(r"(\w+) \+=", old)
    if new == old and name:  # what is added to came in where it was set
        return re.sub(rf"(?m)^(\s*{name[1]} = )([\d.]+)$", r"\1float32(\2)", text)
    return text.replace(old, new, 1)


#: An instruction; and what follows it, or what is replaced on the line that it names and by what:
#: {0} is what the first group has.
Instruction = tuple[str, Callable[[str, int, re.Match], str]] | tuple[str, str, str]
INSTRUCTIONS: tuple[Instruction, ...] = (
    (r"(?:guard it with|let only) `(?:if )?([^`]* < [^`:]*):?`", _guarded),
    (r"`([^`]+)` is one too large: the last index", "{0}", "{0} - 1"),
    (r"`(\w+)` counts .* index it with (cuda\.threadIdx\.\w)", "[{0}", "[{1}"),
    (r"banks of (\w+) \(pad its rows by (\w+) elements?\)", _padded),
    (r"put (cuda\.sync\w+\(\)) between the two", _with_a_barrier),
    (r"the elements of (\w+) are float64",
     lambda text, number, of: re.sub(rf"(\b{of[1]} = .*)float64", r"\1float32", text)),
    (r"float64 operations: .*?float64\((.*?)\) is float64",
     lambda text, number, of: text.replace(f"float64({of[1]})", f"float32({of[1]})")),
    (r"float64 operations: ", _in_float32),
    (r"use cuda.atomic.add, or give.* Line \d+: (\w+)\[(.+)\] \+= (.+?) Case: ",
     "{0}[{1}] += {2}", "cuda.atomic.add({0}, {1}, {2})"),
)  # fmt: skip


def following(
    text: str, verdict: Verdict, instructions: Iterable[Instruction] = INSTRUCTIONS
) -> str | None:
    """The text after the instruction in its verdict; None where there is none.

    LookupError is raised where the line that it names has not what is to be changed.
    """
    said, number = " ".join(str(verdict).split()), _line(text, verdict)
    for words, *how in instructions:
        if found := re.search(words, said):
            if callable(how[0]):
                return how[0](text, number, found)
            return on_the_line(text, number, *(part.format(*found.groups()) for part in how))
    return None


def without_help(exercise: Exercise, verdicts: Sequence[Verdict]) -> str:
    """Which instruction did not lead further, and how; "" where each did.

    Further is passed, or another failure than before, or one of a later case: an instruction that
    only moves the failure to where it was, or makes a new one on the line it names, is no help.
    """
    for before, after in zip(verdicts, verdicts[1:], strict=False):
        said = ""
        if after.kind in ("typing", "raised"):
            said = "the instruction breaks the answer"
        elif after.message.split("\n")[:2] == before.message.split("\n")[:2]:
            said = "nothing has changed"
        elif after.kind == before.kind and _number(exercise, after) < _number(exercise, before):
            said = "it fails earlier"
        if said:
            return f"{said}: after\n{before}\ncame\n{after}"
    return ""


def _number(exercise: Exercise, verdict: Verdict) -> int:
    """Which case a verdict is about; one more than there are where it passed."""
    found = re.search(r"(?m)^Case: (.*?)(?:, grid .*)?\.$", verdict.message)
    names = [case.name for case in exercise.cases]
    return names.index(found[1]) if found and found[1] in names else len(names)
