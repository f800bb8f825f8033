"""Set up the course in Colab. Called by the first cell of every notebook, there and nowhere else.

What Colab preinstalls is never touched: the package comes without its dependencies, and only
those that are missing altogether are installed after it.
"""

import importlib
import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path


def set_up(source: str) -> None:
    """Make sure that the package of this notebook's tag and all it needs are installed.

    Parameters
    ----------
    source
        What pip installs: ``git+https://...@tag``, a wheel or a clone's folder.

    Raises
    ------
    RuntimeError
        If pip fails; the message ends with what pip said.
    """
    installed = installed_source()
    if installed is not None and installed != _normalised(source):
        print(f"course: {installed} is installed, this notebook needs {_normalised(source)}")
        packages = installed_packages()
        _pip("--force-reinstall", "--no-deps", source)
        # what pip did is not seen before that
        importlib.invalidate_caches()
        _forget(packages | installed_packages())
    if missing := missing_requirements():
        _pip(*missing)
    importlib.invalidate_caches()


def installed_packages() -> set[str]:
    """Return the names that are imported from what is installed: the course and what it requires.

    They are those of the distribution's own record, whichever packages its wheel held.
    """
    names = {"course"}
    for path in metadata.distribution("course").files or ():
        top, *below = path.parts
        if path.suffix == ".py" and top not in ("..", "/"):
            names.add(top if below else path.stem)
    return names


def _forget(packages: set[str]) -> None:
    """Take packages and all below them out of the running kernel: the next import reads files."""
    for name, module in list(sys.modules.items()):
        known = name, getattr(module, "__name__", name)  # by an old name, too
        if any(its.split(".")[0] in packages for its in known):
            del sys.modules[name]


def installed_source() -> str | None:
    """Return what the installed package came from; None if pip did not install it."""
    try:
        text = metadata.distribution("course").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    if text is None:
        return None
    facts = json.loads(text)
    version_control = facts.get("vcs_info")
    if version_control is None:
        return facts["url"]
    name, revision = version_control["vcs"], version_control.get("requested_revision")
    return f"{name}+{facts['url']}" + (f"@{revision}" if revision else "")


def _normalised(source: str) -> str:
    """Return a source as `installed_source` gives it: paths as file URLs."""
    return source if "://" in source else Path(source).resolve().as_uri()


def missing_requirements() -> list[str]:
    """Return the course's core requirements of which no version at all is installed."""
    missing = []
    for requirement in metadata.requires("course") or ():
        name = re.match(r"[\w.-]+", requirement)
        if name is None or "extra ==" in requirement:
            continue
        try:
            metadata.distribution(name[0])
        except metadata.PackageNotFoundError:
            missing.append(requirement)
    return missing


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"pip could not install {' '.join(arguments)}; run the cell again, "
            f"and if it fails again, look at what pip said:\n{done.stderr.strip()[-2000:]}"
        )
