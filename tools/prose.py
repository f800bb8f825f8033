"""Find sentences and words in the lessons' texts that a reader stumbles over: `make lint`.

    python -m tools.prose [--show] [NN ...]

The words are the field's, as in the CUDA programming guide and Nsight Compute. `LEFT` says how many
findings a lesson still has; the number may only fall. The status is 1 where there are more.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tools.notebooks import cells as cutting

LONGEST = 25  # words of a sentence
#: What not to say, as a pattern in small letters, and what to say.
WORDS = {
    r"shall": "must, or will",
    r"clocks|\d clock|a clock(?! (rate|frequency))": "cycle",
    r"(?<!\()multiprocessors?": "SM; SM (multiprocessor) at first",
    r"(thread|lane|block)'s (own )?number|number of (a|the|its) (thread|lane|block)": "index",
    r"sectors moved|moves? \w+ sectors": "sectors requested",
    r"(?<!theoretical )(?<!measured )(?<!achieved )occupancy": "theoretical occupancy",
    r"pitch(es)?": "row stride in elements",
    r"bus|(the|a|its|one|two) links?(?! (to|leads))": "PCIe, NVLink",
    r"(narrow|narrower|narrowest) (row|place|part|one)": "bottleneck",
    r"(ladder's|ladder of) steps|steps? of the ladder": "rung",
    r"trips?": "wavefront",
    r"halves": "float16, bfloat16",
    r"mend(s|ed|ing)?": "fix",
    r"forgiv(e|es|en|ing)": "tolerate",
    r"stick(s|ing)? out|stuck out": "go past the edge",
    r"starts? a (clock|cycle)|starts of instructions|free starts|start slots?": "issue slots",
    r"(warps?|they|it) (is|are|was|were) waiting": "stalled",
    r"sticks? better": "(tell why once)",
}
_WORDS = [(re.compile(rf"\b(?:{word})\b", re.IGNORECASE), say) for word, say in WORDS.items()]
_WHAT = re.compile(r"What (?!(is|are|was|were|does|do|did|has|have|if)\b)[^?]*\b(is|are)\b[^?]*\.$")
_END = re.compile(r"(?<=[.!?:])[\"*_)’”]*\s+(?=[\"*_(“\[]*[A-Z0-9`])")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
#: Findings of each lesson.
LEFT = {}


class Finding(NamedTuple):
    """What is amiss in a sentence of the lesson's cell that starts at `line`."""

    line: int
    amiss: str
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.amiss}: {self.sentence}"


def findings(cells: list[cutting.Cell]) -> list[Finding]:
    """List what is amiss in a lesson's texts."""
    found = []
    for cell in cells:
        if cell.kind != "markdown":
            continue
        for sentence, after_heading in sentences(cell.source):
            found += [Finding(cell.line, amiss, sentence) for amiss in _amiss(sentence)]
            if after_heading and re.match(r"It\b", sentence):
                found.append(Finding(cell.line, "'It' after a heading: name it", sentence))
    return found


def sentences(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yield the sentences of a text, and whether a heading stands above; tables and code apart."""
    after_heading = False
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+[.]) )", _FENCE.sub("", markdown)):
        lines = [line for line in paragraph.split("\n") if not line.lstrip().startswith(("|", "<"))]
        text = " ".join(" ".join(lines).split())
        if not text or text.startswith("#"):
            after_heading = bool(text) or after_heading
            continue
        text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"^(?:[-*]|\d+[.]) ", "", text))
        for sentence in _END.split(text):
            yield sentence, after_heading
            after_heading = False


def _amiss(sentence: str) -> Iterator[str]:
    plain = re.sub(r"`[^`]*`", "`code`", sentence)
    count = sum(bool(re.search(r"\w", word)) for word in plain.split())
    if count > LONGEST:
        yield f"{count} words, {LONGEST} at most"
    if _WHAT.match(plain):
        yield "'What … is': name the noun"
    for pattern, say in _WORDS:
        for found in pattern.finditer(plain):
            yield f"{found[0]!r}: say {say}"


def main(arguments: list[str] | None = None) -> None:
    """Print what is amiss, and end with 1 where a lesson has more of it than is known."""
    parser = argparse.ArgumentParser(prog="python -m tools.prose", description=__doc__)
    parser.add_argument("lessons", nargs="*", metavar="NN", help="lessons; all where none is named")
    parser.add_argument("--show", action="store_true", help="print known findings, too")
    options = parser.parse_args(arguments)
    amiss = False
    for path in cutting.paths():
        number = cutting.name(path)[:2]
        if options.lessons and number not in options.lessons:
            continue
        found = findings(cutting.read(path))
        more = len(found) > LEFT.get(number, 0)
        amiss |= more
        if more or options.show:
            print(f"{cutting.label(path)}: {len(found)}, {LEFT.get(number, 0)} at most")
            print(*(f"  {each}" for each in found), sep="\n")
    sys.exit(int(amiss))


if __name__ == "__main__":
    main()
