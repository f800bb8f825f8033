"""What theme and notebooks leave out of a page's HTML for who hears it, types or has a phone.

A fold is announced by its own words. The empty corner of a table is no head, and the first cells
below it are heads of their rows. What scrolls by itself and the sidebar are regions with a name.
A picture leads to its file, which can be enlarged.
"""

import itertools
import re
from pathlib import Path

_EMPTY_HEAD = r"<th[^>]*>(?:\s|<p>\s*</p>)*</th>"
_TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
_CORNER = re.compile(rf"(<thead>\s*<tr[^>]*>\s*){_EMPTY_HEAD}", re.DOTALL)
_FIRST_CELL = re.compile(r"(<tr[^>]*>\s*)<td([^>]*)>(.*?)</td>", re.DOTALL)
_SCROLLS = '<div class="pst-scrollable-table-container">'
_PICTURE = re.compile(r'(<img (?![^>]*sd-card-img)[^>]*?src="([^"]*_images/[^"]*)"[^>]*>)')
#: Attributes, as the theme writes them, and what stands in their place.
_ATTRIBUTES = (
    # the words below it say more, or the same
    (re.compile(r'<summary aria-label="Toggle hidden content">'), "<summary>"),
    (re.compile(r'(<button class="btn search-button-field[^>]*?) aria-label="[^"]*"'), r"\1"),
    (
        re.compile(r'<div id="pst-primary-sidebar"'),
        '<div id="pst-primary-sidebar" role="navigation" aria-label="Site"',
    ),
)


def page(html: str) -> str:
    """Return a page's HTML with all of it mended."""
    for found, instead in _ATTRIBUTES:
        html = found.sub(instead, html)
    html = _TABLE.sub(lambda table: _with_heads_of_rows(table[0]), html)
    tables = itertools.count(1)
    html = re.sub(
        re.escape(_SCROLLS),
        lambda _: f'{_SCROLLS[:-1]} role="region" aria-label="Table {next(tables)}">',
        html,
    )
    return _PICTURE.sub(r'<a class="site-picture" href="\2">\1</a>', html)


def _with_heads_of_rows(table: str) -> str:
    """Return a table without an empty head; where it had one, rows have heads of their own."""
    mended, corners = _CORNER.subn(r"\1<td></td>", table)
    if not corners:
        return table
    head, found, body = mended.partition("<tbody>")
    return head + found + _FIRST_CELL.sub(r'\1<th scope="row"\2>\3</th>', body)


def mend(folder: Path) -> None:
    """Mend all pages of a finished site."""
    for path in folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        path.write_text(page(text), encoding="utf-8")
