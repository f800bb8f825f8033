"""Run what README.md beside it shows first, and compare: where warpsim's wheel is alone."""

import re
import subprocess
import sys
from pathlib import Path

FENCED = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
FILES = "double.py", "turn.py", "test_turn.py"  # its first programs, in order


def run(*words: str) -> str:
    """Return all that a program says."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    return done.stdout + done.stderr


blocks = FENCED.findall(Path("README.md").read_text(encoding="utf-8"))
programs = [text for kind, text in blocks if kind == "python"]
for name, text in zip(FILES, programs):
    Path(name).write_text(text, encoding="utf-8")
shown = [text.partition("\n") for kind, text in blocks if kind == "text" and text[0] == "$"]
(_, _, traced), (_, _, tested) = shown[:2]

said = run("-W", "ignore", "double.py")  # of arrays that are copied at a launch
# 1,000 floats in sectors of 8, and the one finding: 2 * x[i] is float64 in Numba
if not said.startswith("125 (Finding(kind='float64'"):
    sys.exit(f"double.py: {said}")
if run("-m", "warpsim", "--trace", "turn.py") != traced:
    sys.exit(f"turn.py says something else than README.md:\n{traced}")
finding = tested.partition("\n")[2]  # below a ruler as wide as the terminal
if finding not in run("-m", "pytest", "--warpsim", "-q", "test_turn.py"):
    sys.exit(f"test_turn.py says something else than README.md:\n{tested}")
print("warpsim's README runs as it stands")
