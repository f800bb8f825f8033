"""Links from lesson to lesson.

The first mention of another lesson in a markdown cell is a link, ``[lesson 04](04_name.ipynb)``.
The files have the same names in ``notebooks/`` and ``solutions/``, so a link leads from a student's
notebook to a student's, and from a solution to a solution. A planned lesson is no link yet.
``python -m tools.notebooks.links course_lessons/lessonNN/name.py`` makes those that are missing.
"""

import argparse
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

from tools.notebooks.cells import Cell, name, parse, paths

_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>\d\d_\w+\.ipynb)(?:#[^)]*)?\)")
_NUMBER = r"(?:\[(?:[Ll]essons? )?\d\d[^\]]*\]\([^)]*\)|\d\d\b)"
_MENTION = re.compile(
    rf"(?:\[[Ll]essons?\s+\d\d[^\]]*\]\([^)]*\)|\b[Ll]essons?\s+{_NUMBER})"
    rf"(?:(?:,\s+and|,\s+or|,|\s+and|\s+or|\s+to)\s+{_NUMBER})*"
)
_FENCE = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_UNBROKEN = re.compile(r"`[^`]+`|\[[^\]]*\]\([^)]*\)| [-+*#>] ")  # what stays on one line
_GLUE = "\N{NO-BREAK SPACE}"
_WIDTH = 98  # of a markdown cell's text in a lesson's file, where each line starts with "# "


def problems(cell: Cell, own: str, built: Mapping[str, str]) -> list[str]:
    """List the mentions of other lessons in a markdown cell that are not linked as they should be.

    Parameters
    ----------
    cell
        A markdown cell.
    own
        The number of the lesson that it stands in.
    built
        The whole names of the lessons that are there, by number: ``{"04": "04_warps"}``.
    """
    found = []
    for link in _LINK.finditer(cell.source):
        lesson = link["target"].removesuffix(".ipynb")
        if built.get(lesson[:2]) != lesson:
            found.append(f"{cell}: the link {link[0]} leads nowhere; no lesson is named {lesson}")
        elif not re.search(rf"\b{lesson[:2]}\b", link["text"]):
            found.append(f"{cell}: the link {link[0]} does not say which lesson it leads to")
    for number, _ in _unlinked(cell.source, own, built):
        found.append(
            f"{cell}: the first mention of lesson {number} is a link, "
            f"[lesson {number}]({built[number]}.ipynb)"
        )
    return found


def _unlinked(source: str, own: str, built: Mapping[str, str]) -> list[tuple[str, tuple[int, int]]]:
    """Return the lessons whose first mention is no link, and where one belongs."""
    hidden = _FENCE.sub(lambda fence: "." * len(fence[0]), source)
    seen: set[str] = set()
    found = []
    for mention in _MENTION.finditer(hidden):
        links = [(link.start(), link.end()) for link in _LINK.finditer(mention[0])]
        seen |= {link["target"][:2] for link in _LINK.finditer(mention[0])}
        for place in re.finditer(r"(?:[Ll]esson\s+)?(\d\d)\b", mention[0]):
            number = place[1]
            if any(start <= place.start() < end for start, end in links) or number in seen:
                continue
            seen.add(number)
            if number != own and number in built:
                found.append(
                    (number, (mention.start() + place.start(), mention.start() + place.end()))
                )
    return found


def linked(source: str, own: str, built: Mapping[str, str]) -> str:
    """Return a markdown cell's text with a link at the first mention of each other lesson."""
    for number, (start, end) in reversed(_unlinked(source, own, built)):
        shown = " ".join(source[start:end].split())
        source = f"{source[:start]}[{shown}]({built[number]}.ipynb){source[end:]}"
    return _wrapped(source)


def _wrapped(source: str) -> str:
    """Break the paragraphs anew that have a line too long; code and tables stay as they are."""
    blocks: list[list[str]] = []
    fenced = False
    for line in source.split("\n"):
        fenced ^= line.startswith("```")
        apart = fenced or re.match(r"\s*([-*] |\d+\. |\||#|<|```|$)", line)
        if blocks and not apart and not re.match(r"(\||#|<|```|$)", blocks[-1][0]):
            blocks[-1].append(line)
        else:
            blocks.append([line])
    made = []
    for block in blocks:
        if max(map(len, block)) <= _WIDTH or block[0].startswith("|"):
            made += block
            continue
        indent = " " * len(re.match(r"\s*(?:[-*] |\d+\. )?", block[0])[0])
        text = " ".join([block[0].rstrip(), *map(str.strip, block[1:])])
        lines = textwrap.wrap(
            _UNBROKEN.sub(lambda found: found[0].replace(" ", _GLUE), text),
            _WIDTH,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        made += [line.replace(_GLUE, " ") for line in lines]
    return "\n".join(made)


def main(arguments: list[str] | None = None) -> None:
    """Write the missing links into the lessons named."""
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks.links", description=__doc__)
    parser.add_argument("lessons", nargs="+", type=Path, help="course_lessons/lessonNN/name.py")
    built = {name(path)[:2]: name(path) for path in paths()}
    for path in parser.parse_args(arguments).lessons:
        text = path.read_text(encoding="utf-8")
        path.write_text(_with_links(text, _own_number(path), built), encoding="utf-8")


def _with_links(text: str, own: str, built: Mapping[str, str]) -> str:
    """Return a lesson's text with a link at the first mention of each other lesson in a cell."""
    lines = text.split("\n")
    for cell in reversed(parse(text)):
        if cell.kind != "markdown" or not _unlinked(cell.source, own, built):
            continue
        below = lines[cell.line :]  # the line numbers count from 1, so these are behind `# %%`
        ends = (place for place, line in enumerate(below) if line.startswith("# %%"))
        end = cell.line + next(ends, len(below))
        while not lines[end - 1]:
            end -= 1
        new = linked(cell.source, own, built).split("\n")
        lines[cell.line : end] = [f"# {line}".rstrip() for line in new]
    return "\n".join(lines)


def _own_number(path: Path) -> str:
    """Return the number of the lesson in the file `path`."""
    return path.resolve().parent.name.removeprefix("lesson")


if __name__ == "__main__":
    main()
