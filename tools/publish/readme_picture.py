"""The README's picture: the one of lesson 06's ladder, as its solution shows it."""

import base64
import json
from pathlib import Path

from course.files import write_whole

SOLUTION = "solutions/06_reuse_reuse_reuse.ipynb"
CELL = "plots.roofline("  # of the cells with a picture, the first one that calls this
FILE = ".github/ladder.png"


def found(root: Path) -> tuple[bytes, str] | None:
    """Return the picture and its words; None in a folder without that solution.

    Raises
    ------
    ValueError
        When the solution has no such picture.
    """
    path = root / SOLUTION
    if not path.exists():
        return None
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if CELL not in "".join(cell["source"]):
            continue
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                words = output["metadata"]["image/png"]["alt"]
                return base64.b64decode(output["data"]["image/png"]), words
    raise ValueError(f"{SOLUTION}: no cell with {CELL}...) shows a picture for the README")


def block(words: str) -> str:
    """Return the README's lines that show it."""
    return f"![{words}]({FILE})"


def write(root: Path, picture: bytes) -> None:
    """Write the picture beside the README."""
    write_whole(root / FILE, picture)
