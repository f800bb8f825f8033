"""Build the site and check it: ``python -m tools.site`` (``make site``).

The sources are collected in ``build/site/source``: what is in ``site/``, the executed solutions
as pages, the simulator's own README, the recorded figures, the index of kernels, a page for each
family of them. Sphinx makes ``build/site/html`` of them, where a warning is an error. Nothing is
executed.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

from sphinx.cmd.build import build_main

from tools import address
from tools.notebooks.lessons import ROOT
from tools.publish import kernel_index
from tools.site import accessible, checking, figures, interfaces, lessons


def main(arguments: list[str] | None = None) -> None:
    """Build and check; the exit status is 1 where either finds something."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build/site", help="folder to build in")
    out = parser.parse_args(arguments).out
    start = time.monotonic()
    source, html = out / "source", out / "html"
    for folder in (source, html):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "site", source)
    lessons.write(ROOT, source)
    figures.write(ROOT, source)
    interfaces.write(source)
    where = address.read(ROOT)
    files = f"{where.url}/blob/{where.tag}"
    shutil.copy(ROOT / "warpsim/README.md", source / "simulator.md")
    for page in source.glob("*.md"):  # what lies outside site/ is on the site, or a file to see
        text = page.read_text(encoding="utf-8").replace("../warpsim/README.md", "simulator.md")
        text = text.replace("](../notebooks/", "](lessons/").replace("](../", f"]({files}/")
        page.write_text(text, encoding="utf-8")
    kernels = kernel_index.page(ROOT, files)
    (source / "kernels.md").write_text(kernels, encoding="utf-8")
    # one process for each core; all warnings are shown, and any is an error
    options = ["-q", "-W", "--keep-going", "-j", "auto", "-b", "html", "-d", str(out / "doctrees")]
    if status := build_main([*options, "-E", str(source), str(html)]):
        sys.exit(status)
    accessible.mend(html)
    if problems := checking.problems(html):
        sys.exit("\n".join(problems))
    size = sum(file.stat().st_size for file in html.rglob("*") if file.is_file())
    pages = len(list(html.rglob("*.html")))
    print(
        f"{pages} pages, {size / 1e6:.0f} MB, {time.monotonic() - start:.0f} s: {html}/index.html"
    )


if __name__ == "__main__":
    main()
