"""What a verdict tells a student to do, done to the letter: the answer must get further."""

from __future__ import annotations

import ast
import re
from ast import unparse
from collections.abc import Callable, Sequence
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


def _on_the_line(text: str, number: int, old: str, new: str) -> str:
    """The text with one line changed.

    Raises
    ------
    LookupError
        When the line has not what is replaced.
    """
    lines = text.split("\n")
    if old not in lines[number]:
        raise LookupError(f"no {old!r} on {lines[number]!r}")
    lines[number] = lines[number].replace(old, new)
    return "\n".join(lines)


def _found(pattern: str, text: str) -> re.Match:
    """Where a pattern is in a text; raises LookupError where it is not."""
    found = re.search(pattern, text)
    if found is None:
        raise LookupError(f"nothing like {pattern!r} in {text!r}")
    return found


def _guarded(text: str, number: int, said: str) -> str:
    """An `if` around the statement and those that follow it, as far as the next barrier."""
    suite, place = _statement_at(text, number)
    condition = _found(r"`(?:if )?([^`]* < [^`:]*):?`", said)[1]
    last = place
    while last + 1 < len(suite) and "syncthreads" not in unparse(suite[last + 1]):
        last += 1
    lines = text.split("\n")
    first, end, margin = suite[place].lineno - 1, suite[last].end_lineno, suite[place].col_offset
    inner = indented("\n".join(lines[first:end]))
    return "\n".join([*lines[:first], f"{' ' * margin}if {condition}:", inner, *lines[end:]])


def _padded(text: str, number: int, said: str) -> str:
    name, more = _found(r"banks of (\w+) \(pad its rows by (\w+) elements?\)", said).groups()
    pattern = rf"({name} = cuda\.shared\.array\(\([^()]*, )(\w+)\)"
    longer = f"{_found(pattern, text)[2]} + {1 if more == 'one' else more}"
    return f"PADDED_ROW = {longer}\n" + re.sub(pattern, r"\g<1>PADDED_ROW)", text)


def _with_a_barrier(text: str, number: int, said: str) -> str:
    """The barrier that the verdict names, in front of the line; outside of an `if`."""
    barrier = _found(r"put (cuda\.sync\w+\(\)) between", said)[1]
    suite, place = _statement_at(text, number)
    lines, number = text.split("\n"), suite[place].lineno - 1
    while lines[number - 1].lstrip().startswith("if "):
        number -= 1
    margin = re.match(" *", lines[number])[0]
    return "\n".join([*lines[:number], f"{margin}{barrier}", *lines[number:]])


def _in_float32(text: str, number: int, said: str) -> str:
    if wide := re.search(r"(float64\(.*?\)) is float64 in Numba", said):
        return text.replace(wide[1], wide[1].replace("64", "32"))
    old = text.split("\n")[number]
    bare = r"(?<![\w.\[(])(\d+\.\d+(?:e-?\d+)?|\d+)(?![\w.\]])"
    new = re.sub(bare, r"float32(\1)", old.replace("float64(", "float32("))
    if new != old:
        return text.replace(old, new, 1)
    name = _found(r"(\w+) \+=", old)[1]  # what is added to came in where it was set
    return re.sub(rf"(?m)^(\s*{name} = )([\d.]+)$", r"\1float32(\2)", text)


def _returned(text: str, number: int, said: str) -> str:
    return re.sub(r"(?m)^( *)(.+)\s*\Z", r"\1return \2\n", text)


def _taken_by_index(text: str, number: int, said: str) -> str:
    hint = said.partition("Hint: ")[2].partition(" stand")[0]
    for name in re.findall(r"`(\w+)`", hint):
        text = _on_the_line(text, number, f" {name} ", f" {name}[i] ")
    return text


#: What an instruction looks like, what is replaced on the line it names and by what: {0} is what
#: the first group of it has.
REPLACED = (
    (r"`([^`]+)` is one too large: the last index", "{0}", "{0} - 1"),
    (r"`(\w+)` counts .* index it with (cuda\.threadIdx\.\w)", "[{0}", "[{1}"),
    (r"write `and` instead of &", " & ", " and "),
    (r"Compare each number by itself: (.*?\.shape\[1\])\..* Line \d+: .*?(\(.*?\) < \w+\.shape)",
     "{1}", "{0}"),
    (r"(\w+\.shape) is a tuple of sizes.* compare with (\w+\.shape\[0\])", "{0}", "{1}"),
    (r"Store the value where", "return ", "out[i] = "),
    (r"use cuda.atomic.add, or give.* Line \d+: (\w+)\[(.+)\] \+= (.+?) Case: ",
     "{0}[{1}] += {2}", "cuda.atomic.add({0}, {1}, {2})"),
)  # fmt: skip
#: The words of an instruction, and what follows it.
INSTRUCTIONS: dict[str, Callable[[str, int, str], str]] = {
    "guard it with `if": _guarded,
    "let only `": _guarded,
    "pad its rows by": _padded,
    "between the two": _with_a_barrier,
    "float64 operations: ": _in_float32,
    "goes through cuda.shared.array": lambda text, *_: text.replace("cuda.local.", "cuda.shared."),
    "for a whole array here": _taken_by_index,
    "It has no `return`": _returned,
}


def following(text: str, verdict: Verdict) -> str | None:
    """The text after the instruction in its verdict; None where there is none.

    Raises
    ------
    LookupError
        When what is to be changed is not where the instruction says.
    """
    said = " ".join(str(verdict).split())
    number = _line(text, verdict)
    for words, old, new in REPLACED:
        if found := re.search(words, said):
            parts = found.groups()
            return _on_the_line(text, number, old.format(*parts), new.format(*parts))
    function = next((f for words, f in INSTRUCTIONS.items() if words in said), None)
    return function(text, number, said) if function else None


def followed(text: str, judged: Callable[[str], Verdict], times: int = 4) -> list[Verdict]:
    """The verdicts on a text and on what its instructions make of it, until there is none.

    Parameters
    ----------
    text : str
    judged : callable
        Takes a text, returns its verdict.
    times : int
        How many instructions are followed.
    """
    verdicts = [judged(text)]
    while verdicts[-1].status != "passed" and len(verdicts) <= times:
        after = following(text, verdicts[-1])
        if after is None:
            break
        text = after
        verdicts.append(judged(text))
    return verdicts


def without_help(exercise: Exercise, verdicts: Sequence[Verdict]) -> str:
    """Which instruction did not lead further, and how; "" where each did.

    Further is passed, or another failure than before, or one of a later case: an instruction that
    only moves the failure to where it was, or makes a new one on the line it names, is no help.
    """
    for before, after in zip(verdicts, verdicts[1:], strict=False):
        said = ""
        if after.kind in ("typing", "raised"):
            said = "the instruction breaks the answer"
        elif after.status != "passed":
            earlier = _number(exercise, after) < _number(exercise, before)
            if after.message.split("\n")[:2] == before.message.split("\n")[:2]:
                said = "nothing has changed"
            elif after.kind == before.kind and earlier:
                said = "it fails earlier"
        if said:
            return f"{said}: after\n{before}\ncame\n{after}"
    return ""


def _number(exercise: Exercise, verdict: Verdict) -> int:
    """Which case a verdict is about; one more than there are where it passed."""
    found = re.search(r"(?m)^Case: (.*?)(?:, grid .*)?\.$", verdict.message)
    names = [case.name for case in exercise.cases]
    return names.index(found[1]) if found and found[1] in names else len(names)
