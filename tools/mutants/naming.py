"""Whether a verdict names the line that a mutant changed, or the cause by the mutant's kind."""

from __future__ import annotations

import re

from tools.mutants.subjects import Answer, subject

#: Failures that say what is wrong with a mutant of a kind: who does the work, where a guard is.
FAILURES = {
    "barriers": "race uninitialised-read barrier-divergence deadlock limit",
    "who": "not-parallel limit same-value-race",
    "libraries": "not-a-kernel not-a-function borrowed",
    "borrowed-references": "borrowed",
    "clamped-indices": "same-value-race race limit",
    "guards": "out-of-bounds unwritten-output",
    "indices": "unwritten-output out-of-bounds race same-value-race uncoalesced not-parallel limit",
    "strides": "unwritten-output out-of-bounds race same-value-race not-parallel limit",
    "axes": "wrong-shape out-of-bounds unwritten-output uncoalesced limit",
    "types": "wrong-dtype float64",
    "roundings": "wrong-dtype",
    "statements": "not-started unwritten-output",
    "comparisons": "out-of-bounds unwritten-output race",
    "frozen-sizes": "out-of-bounds unwritten-output wrong-shape",
    "ranges": "out-of-bounds unwritten-output wrong-shape",
    "limited-arguments": "out-of-bounds unwritten-output wrong-shape",
    "limited-sizes": "unwritten-output",
    "known-cases": "unwritten-output",
}
#: Kinds that are right in the first case: that another one is named says what they do not look at.
LATER = "frozen-arguments frozen-sizes limited-arguments limited-sizes known-cases kept-results"
#: What a verdict says of how wrong values come about; of right ones nothing is looked for.
CAUSE = re.compile(
    "That is what you get when|times the right one|(?:more|less) than the right one|"
    "in transposed order|is the transpose|in reversed|wrong sign|signs are lost|fractions are lost|"
    "the squares of|the square roots of|Shifted by one|Only the first block's|Only the square part|"
    "on the border|unchanged|Every element is 0|rounding explains|changed too little|"
    "one too large|guard it with|exchanged|swapped|returns no value|has no `return`|had not ended|"
    "does not end|the same in every case that is wrong|That is the last batch alone|"
    "Nothing was added|"
    r"Line \d+(?: of `\w+`)? decides: "
)


#: How a comparison begins; a judge's own sentence says what is wrong.
COMPARED = re.compile(r"[^\n]* is \S.*?[,;:] right is |[^\n]*; right is |Line |Case: |Hint: ")


def named(answer: Answer, message: str, kind: str) -> str:
    """ "line" or "cause" where a verdict's message on a mutant, or its kind, names it, else ""."""
    line = re.search(r"(?m)^Line (\d+)", message)
    if line and int(line[1]) in answer.lines:
        return "line"
    if kind in FAILURES.get(answer.kind, "").split() or CAUSE.search(" ".join(message.split())):
        return "cause"
    exercise = subject(answer.exercise).exercise
    if answer.kind in LATER.split() and f"Case: {exercise.cases[0].name}" not in message:
        return "cause"
    judged = getattr(exercise, "judge", None) is not None and kind == "wrong-result"
    if judged and not all(map(COMPARED.match, message.split("\n"))):
        return "cause"
    ends = kind in ("typing", "raised", "endless-loop")  # by a name that was set, or read, there
    old = set(subject(answer.exercise).text.split("\n")) - set(answer.text.split("\n"))
    changed = " ".join(each if ends else each.rpartition(" = ")[2] for each in old)
    names = set(re.findall(r"[a-z_]\w*", re.sub(r"\b(cuda|np|math)[.\w]*", "", changed)))
    names -= {"float32", "for", "if", "in", "range", "return", "def", "elif", "else", "while"}
    if ends:
        return "cause" if any(re.search(rf"\b{name}\b", message) for name in names) else ""
    said = set(re.findall(r"[a-z_]\w*", message))
    return "cause" if names and names <= said else ""
