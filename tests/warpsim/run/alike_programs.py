"""Random functions of branches and loops that store, and what single threads leave in memory.

The oracle runs a function in plain Python, thread by thread, each on the memory as it was.
"""

from __future__ import annotations

import linecache
import random
from collections import defaultdict
from types import FunctionType, SimpleNamespace

import numpy as np

THREADS, SIZE = 6, 8
#: What differs between threads is rare: else hardly any array would be alike.
VALUES = ("0", "1", "2.5", "x[0]", "x[v]", "v", "w", "v + w", "u * x[3]", "own[1]", "x[4] - x[5]")
BY_THREAD = ("t", "x[t]", "x[t] * 0", "own[0] + t")
CONDITIONS = ("x[1] > 0", "v < 3", "x[v] < w", "w == 1", "own[0] > x[2]")
PLACES = ("0", "1", "v")


class Program:
    """Stores to ``o`` and ``q``, and to an array of its own."""

    def __init__(self, seed: int):
        self.r = random.Random(seed)
        self.by_thread = self.r.choice((0, 0.1, 0.2))
        lines = ["t = cuda.threadIdx.x", "own = cuda.local.array(4, float32)"]
        lines += ["own[0] = own[1] = own[2] = own[3] = 0", "v, w, u = 0, 0, 1"]
        lines += self._suite(self.r.randrange(3, 7), 0, False)
        self.text = "def kernel(x, o, q):\n    " + "\n    ".join(lines) + "\n"

    def _drawn(self, alike: tuple[str, ...], by_thread: tuple[str, ...]) -> str:
        return self.r.choice(by_thread if self.r.random() < self.by_thread else alike)

    def _suite(self, length: int, depth: int, in_loop: bool) -> list[str]:
        lines = []
        for _ in range(length):
            kind = self.r.choice(("set", "store", "store", "own", "if", "if", "for", "end"))
            value = self._drawn(VALUES, BY_THREAD)
            place = self._drawn(PLACES, ("t",))
            if kind == "set":
                lines.append(f"{self.r.choice('wu')} = {value}")
            elif kind == "own":
                lines.append(f"own[{self.r.randrange(2)}] = {value}")
            elif kind == "end" and depth:
                lines.append(self.r.choice(("break", "continue") if in_loop else ("return",)))
                break
            elif kind in ("if", "for") and depth < 2:
                condition = self._drawn(CONDITIONS, ("t == 1", "x[t] > 0"))
                times = self._drawn(("2", "3"), ("t % 3",))
                head = f"if {condition}:" if kind == "if" else f"for v in range({times}):"
                inner = self._suite(self.r.randrange(1, 4), depth + 1, in_loop or kind == "for")
                lines += [head, *(f"    {line}" for line in inner)]
            else:
                lines.append(f"{self.r.choice('oq')}[{place}] = {value}")
        return lines

    def function(self, cuda, float32) -> FunctionType:
        """The program's function; its source can be found."""
        file = f"<alike {hash(self.text)}>"
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(True), file)
        space = {"cuda": cuda, "float32": float32}
        exec(compile(self.text, file, "exec"), space)
        return space["kernel"]

    def differing(self, data: np.ndarray) -> set[str]:
        """The arrays in which two threads leave different things at one element, on any data."""
        local = SimpleNamespace(array=lambda size, dtype: [0.0] * size)
        cuda = SimpleNamespace(threadIdx=SimpleNamespace(x=0), local=local)
        run, found = self.function(cuda, None), set()
        for x in data.tolist():
            left = defaultdict(set)
            for cuda.threadIdx.x in range(THREADS):
                own = {"o": {}, "q": {}}
                run(x, own["o"], own["q"])
                for name, memory in own.items():
                    for place, value in memory.items():
                        left[name, place].add(float(value))
            found |= {name for (name, _), values in left.items() if len(values) > 1}
        return found
