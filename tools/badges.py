"""Change the repository's public address, and all that is generated from it.

``python -m tools.badges --repository owner/name --tag v1`` (``make badges``) writes the address to
``pyproject.toml``, README and CITATION.cff, and badge and set-up cell of every notebook. Nothing is
executed.
"""

import argparse
import sys
from pathlib import Path

from tools import address, build_notebooks
from tools.address import Address
from tools.notebooks import lessons, seals


def main(arguments: list[str] | None = None) -> None:
    """Change the address, then everything that is generated from it."""
    parser = argparse.ArgumentParser(prog="python -m tools.badges", description=__doc__)
    parser.add_argument("--repository", help="owner/name on GitHub; left out, it stays")
    parser.add_argument("--tag", help="git tag or branch; left out, it stays")
    parser.add_argument("--root", type=Path, default=lessons.ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        now = address.read(options.root)
        then = Address(options.repository or now.repository, options.tag or now.tag)
        if changed := seals.all_refusals(options.root):
            raise ValueError("\n".join(changed))
        address.write(then, options.root)
        address.refresh_readme(then, options.root)
        address.refresh_citation(then, options.root)
        count = build_notebooks.refresh_address(then, options.root)
    except ValueError as error:
        sys.exit(f"make badges: {error}")
    print(f"{then.repository} at {then.tag}: README and {count} notebooks")


if __name__ == "__main__":
    main()
