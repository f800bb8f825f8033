"""Fill ``work/``, where students work, from ``notebooks/``, and lose nothing there.

``python -m tools.work`` copies the lessons that ``work/`` does not have, and renews copies that
nobody changed (`course_lessons.copies`). ``python -m tools.work --new 05`` writes the new lesson 05
beside the student's file. Where the course came from pip, ``course lessons DIR`` does the same.
"""

import argparse
import sys
from pathlib import Path

from course_lessons.copies import Copies
from tools import command
from tools.notebooks import lessons, seals


def copies(root: Path = lessons.ROOT) -> Copies:
    """Return the folder ``work/`` of a repository."""
    return Copies(
        root / "work", root / "notebooks", "work", command("tools.work"), seals.is_as_written
    )


def main(arguments: list[str] | None = None) -> None:
    """Fill ``work/``, or write one new lesson beside the student's file."""
    parser = argparse.ArgumentParser(prog="python -m tools.work", description=__doc__)
    parser.add_argument("--new", metavar="NN", help="put this lesson, as it is now, beside yours")
    parser.add_argument("--root", type=Path, default=lessons.ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        work = copies(options.root)
        said = work.fill() if options.new is None else work.put_beside(options.new)
    except (OSError, ValueError) as error:
        sys.exit(f"work/: {error}")
    print("\n".join(said), end="\n" if said else "")


if __name__ == "__main__":
    main()
