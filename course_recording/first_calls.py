"""What a process's first call takes: with kernels compiled anew, and with those kept before."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

#: Variables that name the folder of compiled kernels: ours, PyTorch's compiler's, Triton's.
KEPT = ("COURSE_CACHE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
ANEW, AGAIN = "compiled anew", "kept"
LONGEST = 240  # seconds that a process may take


def keep(
    bench: Any, module: str, key: tuple[str, str, str], *arguments: str, compiles: bool = True
) -> None:
    """Keep what ``python -m module arguments`` prints by `print_two`, in two processes.

    The first argument names the program; the key is kernel, shape and dtype. The second process
    finds the kernels that the first one compiled and kept. Where nothing is compiled there is one
    process alone. A process that fails is a failure of the bench.
    """
    kernel, *what = key
    with tempfile.TemporaryDirectory() as folder:
        places = {place: os.path.join(folder, place) for place in KEPT}
        for kept in (ANEW, AGAIN) if compiles else ("",):
            variant = ", ".join(filter(None, (arguments[0], kept)))
            try:
                done = subprocess.run(
                    [sys.executable, "-m", module, *arguments], capture_output=True, text=True,
                    check=False, env={**os.environ, **places}, timeout=LONGEST,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                bench.failures.append(f"a process of its own, {variant}: over {LONGEST} s")
                return
            if done.returncode:
                bench.failures.append(f"a process of its own, {variant}: {done.stderr[-400:]}")
                return
            first, second = map(float, done.stdout.splitlines()[-1].split())
            bench.figure(kernel, variant, *what, "first", "ms", first)
            bench.say(
                f"  a process's first {kernel}, {variant}: {first:.1f} ms; the next {second:.2f}"
            )


def print_two(call: Callable[[], Any], wait: Callable[[], Any], begun: float | None = None) -> None:
    """Print the milliseconds of two calls by the host's clock; the first counts from `begun`."""
    times = []
    for _ in range(2):
        wait()
        since, begun = begun or time.perf_counter(), None
        call()
        wait()
        times.append(1e3 * (time.perf_counter() - since))
    print(*times)
