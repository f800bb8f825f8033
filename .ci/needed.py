"""Print the names of what the course needs, from pyproject.toml."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
for requirement in project["project"]["dependencies"]:
    print(re.match(r"[\w.-]+", requirement)[0])
