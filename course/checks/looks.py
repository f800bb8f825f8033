"""How verdicts, predictions and progress look on a page, beside their text.

A notebook's page shows a box with a bar at its left; a terminal, and whoever compares outputs,
takes the text. Styles stand at their elements, so that none leaks to what is around, and survive
where a notebook is not trusted. Words keep the page's colour, and grounds are translucent: both
read on white and on black.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

# the pictures' green and red; each goes with a sign and words
COLOURS = {"✓": "0, 158, 115", "✗": "204, 51, 17", "○": "128, 128, 128", "·": "0, 114, 178"}


def escaped(text: str) -> str:
    """Words as HTML that shows every sign of them."""
    return html.escape(text).replace("$", "<span>$</span>")  # no formula begins there


def marked(text: str) -> str:
    """Words as HTML; what stands between ` is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped(text))


def box(sign: str, head: str, lines: Iterable[str] = (), ground: bool = True) -> str:
    """A box of HTML: a bar in the sign's colour, the head in bold, the other lines below.

    Parameters
    ----------
    sign : str
        One of `COLOURS`.
    head, lines : str
        HTML, such as `marked` makes it.
    ground : bool
        Whether the box is tinted.
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
