"""What must hold of the finished site: it is whole, it needs no network, it is light.

Looked for in the HTML itself: links and files that lead nowhere, pictures without words, anything
that a page would fetch from elsewhere, pages that are too large.
"""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LARGEST_PAGE = 3_000_000  # bytes, with the pictures that it shows
#: What a page fetches by itself, and the attribute that says from where.
FETCHED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href"}
#: Links that a browser does not fetch.
NOT_FETCHED = {"canonical", "index", "search", "next", "prev", "author", "copyright", "license"}


class Page(HTMLParser):
    """What one page offers, links to, shows and fetches."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetches: list[str] = []
        self.without_words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in FETCHED and given.get(FETCHED[tag]):
            if tag != "link" or not NOT_FETCHED & set(given.get("rel", "").split()):
                self.fetches.append(given[FETCHED[tag]])
        words = given.get("alt", "").strip()
        # a file's name is what Sphinx writes where nobody said anything
        if tag == "img" and (not words or words.endswith((".png", ".svg"))):
            self.without_words.append(given.get("src", "?"))


def problems(folder: Path) -> list[str]:
    """List what is wrong with the site in a folder; empty when all is well."""
    files = [path for path in folder.rglob("*.html") if "_static" not in path.parts]
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in files}
    found = []
    for path, page in sorted(pages.items()):
        name = path.relative_to(folder.resolve()).as_posix()
        found += [f"{name}: the picture {src} has no words" for src in page.without_words]
        size = path.stat().st_size
        for target in dict.fromkeys(page.links + page.fetches):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.fetches and parts.scheme != "data":
                    found.append(f"{name}: it fetches {target}; the site works offline")
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not there.is_file():
                found.append(f"{name}: {target} leads nowhere")
            elif parts.fragment and there in pages and parts.fragment not in pages[there].ids:
                found.append(f"{name}: {target}: that page has no such place")
            elif target in page.fetches and there.suffix == ".png":
                size += there.stat().st_size
        if size > LARGEST_PAGE:
            found.append(f"{name}: {size / 1e6:.1f} MB, {LARGEST_PAGE / 1e6:.0f} MB at most")
    for sheet in folder.rglob("*.css"):
        for place in sheet.read_text(encoding="utf-8").replace("'", "").split("url(")[1:]:
            if place.lstrip('"').startswith(("http:", "https:", "//")):
                found.append(f"{sheet.name}: it fetches {place[:60]}; the site works offline")
    return found
