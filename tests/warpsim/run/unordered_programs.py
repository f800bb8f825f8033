"""Small random kernels whose threads meet at elements, and what an order-blind look says of them.

The oracle walks through a program thread by thread and knows what orders two accesses. Values are
those on many sets of random data at once: stores leave the same if they do on each of them.
"""

from __future__ import annotations

import linecache
import random
from collections import defaultdict
from itertools import combinations
from types import FunctionType, SimpleNamespace

import numpy as np
from numba import float32

BLOCKS, THREADS, DRAWS = 2, 34, 24
ELEMENTS = ("0", "1", "t % 2", "b", "t", "2 * b + t % 2", "i")
VALUES = (
    "float32(2)", "float32(3)", "a", "float32(t)", "float32(b)", "x[0]", "x[1]", "x[b]", "x[t]",
    "x[i]", "x[t % 2]", "v", "x[0] * a", "x[t % 2] + a", "max(x[0], a)", "max(x[t], a)",
    "cuda.selp(x[t % 3] > float32(0), float32(2), float32(3))", "float32(k)", "x[k]",
)  # fmt: skip
GUARDS = ("True", "True", "True", "t < 2", "t == 1", "t % 32 == 0", "i == 3", "b == 0")


class Program:
    """Acts on shared ``s`` and global ``o``: stores, loads, barriers, some of them in a loop."""

    def __init__(self, seed: int):
        r = random.Random(seed)
        self.acts = [self._act(r) for _ in range(r.randrange(2, 6))]
        stores = [n for n, act in enumerate(self.acts) if act[1].endswith("store")]
        if stores and r.random() < 0.3:  # a thread loads what it has stored
            guard, kind, element, _ = self.acts[stores[-1]]
            self.acts.insert(stores[-1] + 1, (guard, f"{kind[0]}load", element, ""))
        first = r.randrange(len(self.acts))
        self.loop = range(first, first + r.choice((0, 0, 1, 2)))
        lines = ["t, b, i = cuda.threadIdx.x, cuda.blockIdx.x, cuda.grid(1)"]
        lines += [f"s = cuda.shared.array({THREADS}, float32)", "s[t] = float32(0)"]
        lines += ["cuda.syncthreads()", "k, v = 0, float32(0)"]
        for number, (guard, kind, element, value) in enumerate(self.acts):
            if number in self.loop and number == self.loop.start:
                lines.append("for k in range(2):")
            margin = "    " if number in self.loop else ""
            if kind == "barrier":
                lines.append(f"{margin}cuda.{element}()")
                continue
            place = f"{kind[0]}[{element}]"
            act = f"{place} = {value}" if kind[1:] == "store" else f"v = {place}"
            lines += [f"{margin}if {guard}:", f"{margin}    {act}"]
        lines.append("out[i] = v")
        self.text = "def kernel(x, a, o, out):\n    " + "\n    ".join(lines) + "\n"

    @staticmethod
    def _act(r: random.Random) -> tuple[str, str, str, str]:
        kind = r.choice(("sstore", "sstore", "ostore", "ostore", "sload", "oload", "barrier"))
        if kind == "barrier":
            return "True", kind, r.choice(("syncthreads", "syncthreads", "syncwarp")), ""
        elements = [one for one in ELEMENTS if kind[0] == "o" or "i" not in one]
        guard = r.choice(GUARDS)
        return guard, kind, r.choice(elements), r.choice(VALUES)

    def function(self, cuda) -> FunctionType:
        """The program's function; its source can be found."""
        file = f"<unordered {hash(self.text)}>"
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(True), file)
        space = {"cuda": cuda, "float32": float32}
        exec(compile(self.text, file, "exec"), space)
        return space["kernel"]

    def steps(self):
        """The acts as they come, with the pass of the loop."""
        for number, act in enumerate(self.acts):
            if number not in self.loop:
                yield act, 0 if number < self.loop.start or not self.loop else 1
            elif number == self.loop.start:
                for k in range(2):
                    yield from ((self.acts[j], k) for j in self.loop if j < len(self.acts))

    def verdict(self) -> str:
        """``race``, ``same-value-race`` or nothing."""
        draws, there = np.random.default_rng(0).normal(0, 2, (2, BLOCKS * THREADS + 1, DRAWS))
        cuda = SimpleNamespace(selp=np.where)
        space = {"cuda": cuda, "float32": np.float64, "max": np.maximum, "x": draws, "a": draws[-1]}
        memory, held = {}, defaultdict(lambda: 0.0)
        block_time, warp_time = 0, 0
        seen = defaultdict(list)
        for (guard, kind, element, value), k in self.steps():
            if kind == "barrier":
                block_time += element == "syncthreads"
                warp_time += 1
                continue
            for i in range(BLOCKS * THREADS):
                b, t = divmod(i, THREADS)
                own = {"t": t, "b": b, "i": i, "k": k, "v": held[i]}
                if not eval(guard, space, own):
                    continue
                place = kind[0], b if kind[0] == "s" else 0, eval(element, space, own)
                when = i, b, t // 32, block_time, warp_time
                if kind[1:] == "load":
                    held[i] = memory.get(place, there[place[2]] if kind[0] == "o" else 0.0)
                    seen[place].append((*when, None))
                else:
                    memory[place] = np.broadcast_to(eval(value, space, own), DRAWS)
                    seen[place].append((*when, memory[place]))
        verdicts = {_of_element(accesses) for accesses in seen.values()}
        return next((one for one in ("race", "same-value-race") if one in verdicts), "")


def _is_ordered(p: tuple, q: tuple) -> bool:
    same = p[1] == q[1]
    return p[0] == q[0] or (same and (p[3] != q[3] or (p[2] == q[2] and p[4] != q[4])))


def _sees_its_own(accesses: list[tuple], load: int) -> bool:
    """Whether a load gives what its thread has stored last, in any order of the others' stores."""
    thread = accesses[load][0]
    own = [n for n, one in enumerate(accesses[:load]) if one[0] == thread and one[-1] is not None]
    if not own:
        return False
    stored = accesses[own[-1]]
    return all(
        np.array_equal(one[-1], stored[-1])
        for n, one in enumerate(accesses)
        if one[0] != thread and one[-1] is not None
        if own[-1] < n < load or not (_is_ordered(one, accesses[load]) and _is_ordered(one, stored))
    )


def _of_element(accesses: list[tuple]) -> str:
    found = ""
    for n, m in combinations(range(len(accesses)), 2):
        p, q = accesses[n], accesses[m]
        if _is_ordered(p, q) or (p[-1] is None and q[-1] is None):
            continue
        found = "same-value-race"
        if p[-1] is None or q[-1] is None:
            if not _sees_its_own(accesses, n if p[-1] is None else m):
                return "race"
            continue
        # a store that its own thread overwrites before anything orders the two does not matter
        overwritten = any(
            a[0] == one[0] and a[-1] is not None and not _is_ordered(a, other)
            for where, one, other in ((n, p, q), (m, q, p))
            for a in accesses[where + 1 :]
        )
        if not overwritten and not np.array_equal(p[-1], q[-1]):
            return "race"
    return found
