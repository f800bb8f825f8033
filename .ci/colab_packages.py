"""What the course and its notebooks need of Colab's packages: their names, and all versions.

python colab_packages.py FREEZE CONSTRAINTS: FREEZE is what `pip freeze` printed in Colab, and Colab
publishes. CONSTRAINTS is written: every version that an index has. Printed are the names.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What notebooks run in, and what a lesson uses where it is there.
BESIDE = "numba-cuda", "dask", "distributed", "ipython", "ipykernel"
#: A system's own, and what installs.
NOT_OURS = "pip", "python-apt"


def canonical(name: str) -> str:
    """Return a name as an index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def versions(freeze: str) -> dict[str, str]:
    """Return a list's versions; a file's, an address's or a build of one's own has none."""
    found = re.findall(r"^([\w.-]+)==([\w.!]+)$", freeze, re.MULTILINE)
    named = {canonical(name): version for name, version in found}
    return {name: version for name, version in named.items() if name not in NOT_OURS}


def needed(root: Path = ROOT) -> list[str]:
    """Return the names of what the course requires, and `BESIDE`."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [re.match(r"[\w.-]+", text)[0] for text in project["dependencies"]]
    return [canonical(name) for name in (*required, *BESIDE)]


if __name__ == "__main__":
    brought = versions(Path(sys.argv[1]).read_text(encoding="utf-8"))
    lines = "".join(f"{name}=={version}\n" for name, version in brought.items())
    Path(sys.argv[2]).write_text(lines, encoding="utf-8")
    print(*(name for name in needed() if name in brought))
