"""What the course's wheel takes from elsewhere in the repository, when it is built.

README is its long description, with links that lead to the repository from anywhere. The
simulator is packed or required, as ``[tool.course] warpsim`` in pyproject.toml says: packed until
``warpsim`` is published, since a requirement that nobody can fulfil fails every installation;
required from then on, since two wheels that own the same files break when one is removed.
"""

import re
import tomllib
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

WAYS = "packed", "required"


def settings(root: Path) -> dict[str, str]:
    """Return ``[tool.course]``.

    Raises
    ------
    ValueError
        When `warpsim` there is neither of `WAYS`.
    """
    course = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["course"]
    if course["warpsim"] not in WAYS:
        raise ValueError(
            f"[tool.course] warpsim = {course['warpsim']!r}: say {' or '.join(map(repr, WAYS))}"
        )
    return course


def absolute(text: str, repository: str, tag: str) -> str:
    """Return Markdown whose relative links and pictures lead to a repository on GitHub."""
    url = f"https://github.com/{repository}"
    text = re.sub(r"(!\[[^]]*\]\()(?!\w+:|#)", rf"\g<1>{url}/raw/{tag}/", text)
    return re.sub(r"(?<!\\)(\]\()(?!\w+:|#)", rf"\g<1>{url}/blob/{tag}/", text)


class LongDescription(MetadataHookInterface):
    """README, readable where a package index shows it."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict) -> None:
        """Set the long description."""
        course = settings(Path(self.root))
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, course["repository"], course["tag"]),
        }


class Simulator(BuildHookInterface):
    """`warpsim` in the wheel, or among its requirements."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict) -> None:
        """Add files or a requirement; an editable installation finds the folder in any case."""
        root = Path(self.root)
        if self.target_name != "wheel" or version == "editable":
            return
        if settings(root)["warpsim"] == "packed":
            for path in (root / "warpsim").rglob("*.py"):
                build_data["force_include"][str(path)] = path.relative_to(root).as_posix()
            return
        text = (root / "warpsim/__init__.py").read_text(encoding="utf-8")
        its = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]
        build_data["dependencies"].append(f"warpsim=={its}")
