"""The public address of the repository, and everything that is generated from it.

The address stands in ``pyproject.toml``, ``[tool.course]``, and nowhere else by hand. From it come
the two cells below every notebook's title and the generated blocks of the README.
``make badges REPO=owner/name TAG=v1`` changes it and all of them; nothing is executed. Until a
repository has done that (``.github/workflows/address.yml`` does), a placeholder stands there.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from course import __version__
from course.files import write_whole
from tools.notebooks import lessons, minutes, sections
from tools.publish import readme_picture, syllabus, tracks

PLACEHOLDER = "OWNER" + "/REPOSITORY"  # which stands in pyproject.toml alone
_COLAB = "https://colab.research.google.com"

# The first line is the title of the folded cell in Colab.
_FIRST_CELL = """\
#@title Set-up: in Colab this installs the course; anywhere else it does nothing.
import importlib.util, os, subprocess, sys
file = getattr(importlib.util.find_spec("course"), "origin", None)  # found, but not run
if file and not os.path.exists(os.path.join(os.path.dirname(file), "colab.py")):
    raise ImportError(f"{{file}} hides the course: rename it or its folder, restart the kernel")
if "google.colab" in sys.modules:
    source = os.environ.get("COURSE_SOURCE") or "{source}"{guard}
    if not file:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", source]
        subprocess.run(pip, check=True)
        sys.modules.pop("course", None)  # an empty folder of that name, if there was one
    from course.colab import set_up
    set_up(source)"""

_NO_ADDRESS = """
    if "{placeholder}" in source:
        sys.exit("This notebook does not know where to get the course: in place of its address "
                 "stands {placeholder}. In a new cell above run %env COURSE_SOURCE=git+ followed "
                 "by the address of your copy on GitHub, then run this cell again.")"""


@dataclass(frozen=True)
class Address:
    """Where the repository is published, and at which tag or branch."""

    repository: str
    tag: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", self.repository):
            raise ValueError(f"repository {self.repository!r}: give it as owner/name")
        if not re.fullmatch(r"[\w./-]+", self.tag):
            raise ValueError(f"tag {self.tag!r}: give a git tag or branch, as in v1")

    @property
    def url(self) -> str:
        """The repository's page, which git clones too."""
        return f"https://github.com/{self.repository}"

    @property
    def install_source(self) -> str:
        """What pip installs: this repository at this tag."""
        return f"git+{self.url}@{self.tag}"

    def badge(self, notebook: str) -> str:
        """Return the Colab badge, in Markdown, of `notebook`, a path in the repository."""
        target = f"{_COLAB}/github/{self.repository}/blob/{self.tag}/{notebook}"
        return f"[![Open in Colab]({_COLAB}/assets/colab-badge.svg)]({target})"

    def first_cell(self) -> str:
        """Return the source of the code cell that every notebook runs first.

        Where the address is the placeholder, it says in Colab what is missing and what to do.
        """
        unknown = self.repository == PLACEHOLDER
        guard = _NO_ADDRESS.format(placeholder=PLACEHOLDER) if unknown else ""
        return _FIRST_CELL.format(source=self.install_source, guard=guard)


def read(root: Path = lessons.ROOT) -> Address:
    """Read the address from the ``pyproject.toml`` in the folder `root`."""
    with (root / "pyproject.toml").open("rb") as file:
        course = tomllib.load(file)["tool"]["course"]
    return Address(course["repository"], course["tag"])


def write(address: Address, root: Path = lessons.ROOT) -> None:
    """Write the address to the ``pyproject.toml`` in the folder `root`, touching nothing else."""
    path = root / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    head, section, rest = text.partition("[tool.course]\n")
    for key, value in (("repository", address.repository), ("tag", address.tag)):
        line = re.compile(rf'^{key} = ".*"$', re.MULTILINE)
        rest, count = line.subn(f'{key} = "{value}"', rest, count=1)
        if not section or count != 1:
            raise ValueError(f"{path.name} has no line {key} = ... below [tool.course]")
    write_whole(path, head + section + rest)


def lesson_table(address: Address, root: Path = lessons.ROOT) -> str:
    """Return the README's table of lessons: below each track those that it is the first for."""
    present = {lessons.name(path)[:2]: path for path in lessons.paths(root)}
    named = dict(lessons.PLAN)
    rows = [
        "| no. | lesson | core (min) | all | exercises | filled in |",
        "|---|---|---|---|---|---|",
    ]
    for aim, taken, core, whole, first_here in tracks.rows(root):
        rows.append(f"| | **{aim}**: {taken} | **{core}** | **{whole}** | | |")
        for number in first_here:
            path = present.get(number)
            if path is None:
                rows.append(f"| {number} | {named[number]} | planned | | | |")
                continue
            cells = lessons.read(path)
            notebook = f"notebooks/{lessons.name(path)}.ipynb"
            link = f"[{lessons.title(cells)[1]}]({notebook})"
            times = sections.times(cells)
            spans = f"{minutes.span(times.core)} | {tracks.hours(times.whole)}"
            opened = f"{address.badge(notebook)} | [solution](solutions/{lessons.name(path)}.ipynb)"
            rows.append(f"| {number} | {link} | {spans} | {opened} |")
    return re.sub(r"(?<=[\d½]) h\b", "&nbsp;h", "\n".join(rows))


def readme(text: str, address: Address, root: Path = lessons.ROOT) -> str:
    """Return the README's text with its generated blocks made anew."""
    folder = address.repository.split("/")[1]
    first = lessons.name(lessons.paths(root)[0])
    blocks = {
        "picture": readme_picture.block(),
        "button": address.badge(f"notebooks/{first}.ipynb"),
        "clone": f"```bash\ngit clone {address.url} && cd {folder}\nmake lab\n```",
        "placeholder": _placeholder(address),
        "install": f'```bash\npip install "course @ {address.install_source}"\n```',
        "lessons": lesson_table(address, root),
    }
    for sentence, made in tracks.sentences(root):
        text = sentence.sub(made, text)
    return with_blocks(text, blocks, "README.md")


def _placeholder(address: Address) -> str:
    """Return the README's words about the placeholder, where it stands for the address."""
    if address.repository != PLACEHOLDER:
        return ""
    return (
        f"`{PLACEHOLDER}` stands for this repository's address. The first push to a copy of your\n"
        "own on GitHub writes that copy's address here, into the Colab links and into the\n"
        "notebooks (in a fork allow workflows first: *Actions*)."
    )


def with_blocks(text: str, blocks: dict[str, str], file: str) -> str:
    """Return a document's text with its generated blocks made anew.

    Raises
    ------
    ValueError
        If the document has no such block.
    """
    for name, block in blocks.items():
        begin, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->"
        before, found, after = text.partition(begin)
        _, closed, after = after.partition(end)
        if not found or not closed:
            raise ValueError(f"{file} has no block {begin.strip()} ... {end.strip()}")
        text = f"{before}{begin}{block}\n{end}{after}"
    return text


def refresh_readme(address: Address, root: Path = lessons.ROOT) -> None:
    """Make the README's generated blocks anew, and its picture."""
    path = root / "README.md"
    readme_picture.write(root)
    write_whole(path, readme(path.read_text(encoding="utf-8"), address, root))


def citation(address: Address) -> str:
    """Return the text of CITATION.cff: version and address have their own one place each."""
    return f"""\
# generated: make notebooks, make badges
cff-version: 1.2.0
message: If you teach with this course or build on it, please cite it as below.
title: Fast GPU code from Python, one step at a time
type: software
authors:
  - name: The authors of this course
version: {__version__}
license: [MIT, CC-BY-4.0]
repository-code: {address.url}
"""


def refresh_citation(address: Address, root: Path = lessons.ROOT) -> None:
    """Write CITATION.cff."""
    write_whole(root / "CITATION.cff", citation(address))


def refresh_instructors(root: Path = lessons.ROOT) -> None:
    """Make the generated blocks of INSTRUCTORS.md anew."""
    path = root / "INSTRUCTORS.md"
    text = path.read_text(encoding="utf-8")
    write_whole(path, with_blocks(text, syllabus.blocks(root), path.name))
