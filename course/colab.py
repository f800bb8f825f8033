"""What the course requires and what is here of it; `set_up`, which Colab's first cell calls.

What Colab preinstalls is never touched: the package comes without its dependencies, and only
those that are missing altogether are installed after it, in versions that take what is there. Only
the standard library is needed.
"""

import importlib
import json
import operator
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

#: Extras whose packages the course imports; others are for who grades it or works on it.
USED = ("", "cuda12", "cuda13", "compare", "cluster", "weights")
_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9.]+)?")
_HOLDS = {
    "==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


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
        _pip_beside_what_is_here(missing)
    importlib.invalidate_caches()
    for here, wanted in outside().items():
        print(
            f"course: {here} is here, and was left as it is; the course is made for {wanted}. If a "
            f'lesson fails: %pip install "{wanted}", then Runtime → Restart session'
        )


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


class Requirement(NamedTuple):
    """A distribution's name, the `text` as pip takes it, and the extra, "" for the core."""

    name: str
    text: str
    extra: str


def declared() -> list[Requirement]:
    """All requirements of the installed course.

    Raises
    ------
    importlib.metadata.PackageNotFoundError
        If the course is not installed.
    """
    found = []
    for line in metadata.requires("course") or ():
        text, _, condition = line.partition(";")
        extra = re.search(r"extra == ['\"]([\w-]+)", condition)
        name = re.match(r"[\w.-]+", text)
        found.append(Requirement(name[0], text.strip(), extra[1] if extra else ""))
    return found


def installed_version(distribution: str) -> str | None:
    """Version of an installed distribution such as "numba-cuda", or None."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    numbers = re.match(r"\d+(\.\d+)*", version)[0].split(".")
    return (*map(int, numbers), 0, 0, 0)[:4]


def holds(text: str, version: str) -> bool:
    """Whether "numpy<2.5,>=2.1" allows a version; four numbers count, and no pre-release."""
    have = _numbers(version)
    for sign, bound in re.findall(r"([=<>!~]+)([\d.]*\d)", text):
        parts = bound.count(".") + 1 if sign == "==" else 4
        if not _HOLDS[sign](have[:parts], _numbers(bound)[:parts]):
            return False
    return True


def outside(version: Callable[[str], str | None] = installed_version) -> dict[str, str]:
    """What is here and not in the declared range: {"numpy 2.0.2": "numpy<2.5,>=2.1"}.

    Of numba-cuda the range alone is named: which toolkit is wanted depends on the driver. NumPy's
    bound in the extras is numba-cuda's.
    """
    return {
        f"{name} {have}": re.sub(r"\[cu\d+\]", "", text)
        for name, text, extra in declared()
        if extra in USED
        and (have := version(name))
        and not holds(text, have)
        and not (extra and name == "numpy" and version("numba-cuda") is None)
    }


def missing_requirements() -> list[str]:
    """Return the course's core requirements of which no version at all is installed."""
    return [
        text for name, text, extra in declared() if not extra and installed_version(name) is None
    ]


def _pip_beside_what_is_here(requirements: list[str]) -> None:
    """Install requirements without another version of anything that is installed already."""
    versions: dict[str, str] = {}
    for one in metadata.distributions():
        name = re.sub(r"[-_.]+", "-", one.metadata["Name"] or "").lower()
        # of two with one name the first is imported; a system's own may have no version of pip's
        if name and _VERSION.fullmatch(one.version or ""):
            versions.setdefault(name, one.version)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "constraints.txt")
        text = "".join(f"{name}=={version}\n" for name, version in versions.items())
        path.write_text(text, encoding="utf-8")
        _pip("--constraint", str(path), *requirements)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"pip could not install {' '.join(arguments)}; run the cell again, "
            f"and if it fails again, look at what pip said:\n{done.stderr.strip()[-2000:]}"
        )
