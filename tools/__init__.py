"""What builds the notebooks, the badges and the set-up. Nothing of the package imports it."""

import sys
from pathlib import Path


def command(module: str) -> str:
    """Return the command that runs `module` in this environment, from the repository's root."""
    python, root = Path(sys.executable), Path(__file__).absolute().parent.parent
    name = str(python.relative_to(root)) if python.is_relative_to(root) else "python"
    return f"{name} -m {module}"
