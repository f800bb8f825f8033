"""What must hold before a version is published: ``make release``.

``python -m tools.release`` builds both wheels, the course's and the simulator's, into ``dist/`` and
names everything that is amiss: a placeholder in place of the address, a tag that is not the
version's, a changelog without it; a wheel, notebooks or a site (where one was built) of another
version; what twine says of the wheels. Nothing is uploaded: ``.github/workflows/publish.yml`` does
that on a tag.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import warpsim
from course import __version__
from tools import address, build_notebooks
from tools.address import PLACEHOLDER
from tools.notebooks import lessons, seals

SITE = "build/site/html"


def address_problems(root: Path, version: str = __version__) -> list[str]:
    """List where the public address, its tag or the changelog does not fit the version."""
    where = address.read(root)
    found = []
    if warpsim.__version__ != version:
        found.append(f"warpsim is {warpsim.__version__}, the course {version}: the two go together")
    if where.repository == PLACEHOLDER:
        found.append(f"the address is still {PLACEHOLDER}: make badges REPO=owner/name")
    if where.tag != f"v{version}":
        found.append(f"the tag is {where.tag!r}, of version {version}: make badges TAG=v{version}")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changes, re.MULTILINE):
        found.append(f"CHANGELOG.md has no line `## {version} (YYYY-MM-DD)`")
    if (root / "CITATION.cff").read_text(encoding="utf-8") != address.citation(where):
        found.append("CITATION.cff is of another version or address: make notebooks")
    return found


def notebook_problems(root: Path) -> list[str]:
    """List the notebooks that differ from their lessons, or lead to another address or tag."""
    where, found = address.read(root), []
    for path in lessons.paths(root):
        for kind in seals.KINDS:
            target = root / kind / f"{lessons.name(path)}.ipynb"
            stored = seals.read(target)
            made = build_notebooks.notebook(path, kind, where)
            if stored is None or build_notebooks.difference(stored, made):
                found.append(f"{kind}/{target.name} is not of this version: make notebooks")
    return found


def wheel_problems(root: Path, wheel: Path, version: str = __version__) -> list[str]:
    """List what a wheel does not have in common with the repository: version, notebooks, names."""
    found = []
    if wheel.name.split("-")[1] != version:
        found.append(f"{wheel.name} is not of version {version}")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for path in seals.notebooks(root, "notebooks"):
            inside = f"course_lessons/notebooks/{path.name}"
            if inside not in names or archive.read(inside) != path.read_bytes():
                found.append(f"{wheel.name}: {inside} is not the repository's")
        holders = [name for name in sorted(names) if PLACEHOLDER.encode() in archive.read(name)]
    if holders:
        found.append(f"{wheel.name}: {PLACEHOLDER} stands in {', '.join(holders[:3])} and others")
    return found


def site_problems(root: Path, site: Path, version: str = __version__) -> list[str]:
    """List where a built site is of another version, or offers other notebooks to download."""
    index = site / "objects.inv"
    if not index.is_file():
        return []
    said = index.read_bytes().split(b"\n")[2].decode().removeprefix("# Version: ")
    found = [] if said == version else [f"{site} is of version {said}: make site"]
    ours = {path.name: _hash(path) for path in seals.notebooks(root, "notebooks")}
    for path in sorted(site.rglob("*.ipynb")):
        if "_sources" not in path.parts and ours.get(path.name, _hash(path)) != _hash(path):
            found.append(f"{path.relative_to(site)} on the site is not notebooks/{path.name}")
    return found


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def twine_problems(wheels: list[Path]) -> list[str]:
    """List what twine says of wheels: whether an index can show their long descriptions."""
    check = [sys.executable, "-m", "twine", "check", "--strict", *map(str, wheels)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    return [(done.stdout + done.stderr).strip()] if done.returncode else []


def build_wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of a folder with a ``pyproject.toml`` into another, and return its path."""
    with tempfile.TemporaryDirectory() as place:
        build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "-w", place, str(source)]
        subprocess.run([sys.executable, *build], check=True)
        (wheel,) = Path(place).glob("*.whl")
        folder.mkdir(exist_ok=True)
        return Path(wheel.replace(folder / wheel.name))


def main(arguments: list[str] | None = None) -> None:
    """Build the wheel and look at everything; status 1 where something is amiss."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--root", type=Path, default=lessons.ROOT, help=argparse.SUPPRESS)
    root = parser.parse_args(arguments).root
    found = address_problems(root) + notebook_problems(root)
    wheels = [build_wheel(source, root / "dist") for source in (root, root / "warpsim")]
    found += wheel_problems(root, wheels[0]) + site_problems(root, root / SITE)
    found += twine_problems(wheels)
    if found:
        sys.exit("not yet:\n" + "\n".join(f"  {problem}" for problem in found))
    site = "with the site" if (root / SITE).is_dir() else "no site was built"
    for wheel in wheels:
        print(
            f"dist/{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, version {__version__}, {site}"
        )


if __name__ == "__main__":
    main()
