"""Run the notebooks' first cell as Colab does; refuse what changes a package that Colab brings."""

import importlib.metadata
import json
import os
import pathlib


def versions() -> dict[str, str]:
    """Return the version of each package that is installed."""
    return {each.name: each.version for each in importlib.metadata.distributions()}


before = versions()
notebook = min(pathlib.Path("notebooks").glob("*.ipynb"))
cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
first = next(cell for cell in cells if cell["cell_type"] == "code")
start = sum(os.times()[:4])
exec("".join(first["source"]))
seconds = sum(os.times()[:4]) - start  # of the processor, pip's among them
after = versions()
added = {name: version for name, version in after.items() if name not in before}
print(f"the first cell took {seconds:.1f} s of the processor and installed {added}")
if any(after.get(name) != version for name, version in before.items()):
    raise SystemExit("the first cell changed a preinstalled package")
if "course" not in added:
    raise SystemExit("the first cell did not install the course")
if seconds > 20:
    raise SystemExit("the first cell took over 20 s of the processor")
