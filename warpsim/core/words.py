"""How printed words are broken, here alone: no line over 80 columns, no word in two.

A notebook's page, a terminal and a site all show 80 columns.
"""

import re
import textwrap
from itertools import chain

WIDTH = 80  # columns
ORPHAN = 16  # a last line shorter than this takes words of the one before, where it can
LONGEST_HELD = 42  # characters
_TOGETHER = re.compile(
    r"`[^`\n]+`"  # code
    r"|\([-\d, ]{1,20}\)"  # an index, a shape
    r"|[✓✗○·→!] (?=\S)"  # a sign and its word
    r"|\S+ [=x×] \S+"  # k = 5, 16 x 16
    r"|(?<=\d) (?=(?:[mµ]?s|%|dB|[KMG]i?B(?:/s)?|TFLOP/s)(?!\w))"  # a number and its unit
)
_HELD = "\0"  # a blank that is no place to break at


def wrapped(text: object, indent: str = "", hanging: str = "  ") -> str:
    """Break each line of a text that is longer than `WIDTH`; lines keep the blanks before them.

    ``indent`` goes in front of every line, ``hanging`` besides in front of what a broken one goes
    on with.
    """
    lines = (_broken(indent + line, hanging) for line in str(text).splitlines())
    return "\n".join(chain.from_iterable(lines))


def _held(found: re.Match[str]) -> str:
    """What stays on one line; not long code, whose quotes would else begin another."""
    return found[0].replace(" ", _HELD) if len(found[0]) <= LONGEST_HELD else found[0]


def _broken(line: str, hanging: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line.rstrip()]
    words = line.lstrip()
    start = line[: len(line) - len(words)]
    held = _TOGETHER.sub(_held, words)
    parts: list[str] = []
    for width in range(WIDTH, WIDTH - ORPHAN, -4):
        narrower = textwrap.wrap(
            held, width, initial_indent=start, subsequent_indent=start + hanging,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        if parts and len(narrower) > len(parts):
            break
        parts = narrower
        if len(parts[-1].strip()) >= ORPHAN:
            break
    return [part.replace(_HELD, " ") for part in parts]


def count(number: int, noun: str) -> str:
    """ "1 case", "7 cases", "1,003 elements", "2 addresses"."""
    ending = "" if number == 1 else "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number:,} {noun}{ending}"
