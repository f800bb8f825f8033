"""What a process's first call takes: with kernels compiled anew, and with those kept before."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Any

#: Where a process keeps what it has compiled: ours; PyTorch's compiler, and Triton, which it uses.
KEPT = ("COURSE_CACHE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
ANEW, AGAIN = "compiled anew", "kept"
LONGEST = 240  # seconds of a process


def told(bench: Any, module: str, *arguments: str, compiles: bool = True) -> dict[str, list[float]]:
    """What ``python -m module arguments`` prints, numbers in its last line, in two processes.

    The second has what the first kept. Where nothing is compiled there is one, without a name. A
    process that fails is a failure of the bench.
    """
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        places = {place: os.path.join(folder, place) for place in KEPT}
        for kept in (ANEW, AGAIN) if compiles else ("",):
            what = ", ".join(filter(None, (arguments[0], kept)))
            try:
                done = subprocess.run(
                    [sys.executable, "-m", module, *arguments], capture_output=True, text=True,
                    check=False, env={**os.environ, **places}, timeout=LONGEST,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                bench.failures.append(f"a process of its own, {what}: over {LONGEST} s")
                break
            if done.returncode:
                bench.failures.append(f"a process of its own, {what}: {done.stderr[-400:]}")
                break
            found[kept] = list(map(float, done.stdout.splitlines()[-1].split()))
    return found
