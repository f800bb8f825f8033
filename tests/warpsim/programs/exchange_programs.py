"""Random kernels whose threads exchange values: shared memory, barriers, shuffles, atomics, loops.

All values are small multiples of a quarter, so that nothing rounds and every order of a sum gives
the same; a thread's index into shared memory is always that of one other thread.

    python exchange_programs.py FILE simulator|gpu FIRST END

writes the results of the programs FIRST to END to a NumPy file, run by whatever ``numba.cuda`` is:
Numba's simulator with NUMBA_ENABLE_CUDASIM=1, else a GPU.
"""

from __future__ import annotations

import linecache
import random
import sys
from types import FunctionType
from typing import Any

import numpy as np

GRID = 3
KINDS = ("float32", "float64", "int32", "int64")


class _Author:
    """Writes one kernel."""

    def __init__(self, seed: int, shuffles: bool):
        self.random = random.Random(seed)
        self.shuffles = shuffles
        self.block = self.random.choice([32, 64, 96] if shuffles else [32, 48, 64, 50])
        self.kinds = [self.random.choice(KINDS) for _ in range(2)]
        self.lines: list[str] = []
        self.names = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def other(self) -> str:
        """The index of a thread of the block: each thread's own, or all the same."""
        r, block = self.random, self.block
        return r.choice([
            f"(t + {r.randrange(1, block)}) % {block}", f"{block - 1} - t", "t ^ 1",
            "t ^ 16" if block % 32 == 0 else "t",
            f"(t * {r.choice([5, 7, 11, 13])}) % {block}", f"{r.randrange(block)}",
            f"t // {r.choice([2, 4, 8])}",
        ])  # fmt: skip

    def number(self, depth: int = 0) -> str:
        r, roll = self.random, self.random.random()
        if depth > 2 or roll < 0.35:
            return r.choice(["a", "b", "c", "t", "x[i]", "n[i]"])
        if roll < 0.5:
            return r.choice(["0.25", "1", "2", "-3", "1.5"])
        if roll < 0.6:
            return f"({self.number(3)} if {self.condition()} else {self.number(3)})"
        if roll < 0.7:
            return f"{r.choice(['min', 'max'])}({self.number(3)}, {self.number(3)})"
        return f"({self.number(depth + 1)} {r.choice('+-')} {self.number(depth + 1)})"

    def condition(self) -> str:
        r = self.random
        return r.choice([
            f"t % {r.choice([2, 3, 5])} == 0", f"t < {r.randrange(self.block)}", "a > b",
            "n[i] > 2", "x[i] < 0.5", "t // 32 == 0",
        ])  # fmt: skip

    def settle(self, depth: int, name: str) -> None:
        """Keep a value small; whole where it goes to an array of integers."""
        self.line(depth, f"{name} = {name} % 16")

    def put(self, depth: int, array: str, index: str, value: str, kind: str) -> None:
        self.line(depth, f"{array}[{index}] = {f'int({value})' if 'int' in kind else value}")

    def exchange(self, depth: int) -> None:
        self.put(depth, "tile", "t", self.number(), self.kinds[0])
        self.line(depth, "cuda.syncthreads()")
        self.line(depth, f"{self.random.choice('ab')} = tile[{self.other()}] + {self.number(3)}")
        self.line(depth, "cuda.syncthreads()")

    def in_turns(self, depth: int) -> None:
        """A double buffer: one barrier a turn."""
        times = self.random.randrange(2, 5)
        self.line(depth, f"for q in range({times}):")
        self.put(depth + 1, "two", "q % 2, t", "a", self.kinds[1])
        self.line(depth + 1, "cuda.syncthreads()")
        self.line(depth + 1, f"if {self.condition()}:")
        self.line(depth + 2, f"a = a + two[q % 2, {self.other()}]")
        self.settle(depth + 1, "a")
        self.line(depth, "cuda.syncthreads()")

    def tree(self, depth: int) -> None:
        """A sum over the block, halved in each round."""
        self.put(depth, "tile", "t", "a", self.kinds[0])
        self.line(depth, "cuda.syncthreads()")
        self.line(depth, f"width = {1 << (self.block - 1).bit_length() - 1}")
        self.line(depth, "while width > 0:")
        self.line(depth + 1, f"if t < width and t + width < {self.block}:")
        self.line(depth + 2, "tile[t] += tile[t + width]")
        self.line(depth + 1, "cuda.syncthreads()")
        self.line(depth + 1, "width //= 2")
        self.line(depth, "b = tile[0] + c")
        self.line(depth, "cuda.syncthreads()")

    def counts(self, depth: int) -> None:
        self.line(depth, "if t < 4:")
        self.line(depth + 1, "bins[t] = 0")
        self.line(depth, "cuda.syncthreads()")
        self.line(depth, f"cuda.atomic.{self.random.choice(['add', 'max'])}(bins, n[i] % 4, t % 7)")
        self.line(depth, "cuda.syncthreads()")
        self.line(depth, "c = c + bins[t % 4]")
        self.line(depth, "cuda.syncthreads()")

    def shuffle(self, depth: int) -> None:
        r = self.random
        call = r.choice([
            f"cuda.shfl_xor_sync(0xFFFFFFFF, v, {r.choice([1, 2, 4, 8, 16])})",
            f"cuda.shfl_sync(0xFFFFFFFF, v, {r.randrange(32)})",
            f"cuda.shfl_down_sync(0xFFFFFFFF, v, {r.randrange(1, 9)})",
            f"cuda.shfl_up_sync(0xFFFFFFFF, v, {r.randrange(1, 9)})",
        ])  # fmt: skip
        self.line(
            depth, f"v = {r.choice(['float32(a)', 'int32(b)', 'float64(b)', 'int64(t + c)'])}"
        )
        self.line(depth, f"a = a + {call}")

    def alone(self, depth: int) -> None:
        """Something that needs no other thread."""
        name = self.random.choice("ab")
        if self.random.random() < 0.5:
            self.line(depth, f"if {self.condition()}:")
            self.line(depth + 1, f"{name} = {self.number()}")
            if self.random.random() < 0.5:
                self.line(depth, "else:")
                self.line(depth + 1, f"{name} = {self.number()}")
        else:
            self.line(depth, f"for p in range({self.random.choice(['n[i] % 4', '3', 't % 3'])}):")
            self.line(depth + 1, f"{name} = {name} + {self.number(2)}")
            self.line(depth + 1, f"if {self.condition()}:")
            self.line(depth + 2, self.random.choice(["break", "continue", f"{name} = {name} + p"]))

    def write(self) -> str:
        self.line(0, "def kernel(x, n, out):")
        self.line(1, f"tile = cuda.shared.array({self.block}, {self.kinds[0]})")
        self.line(1, f"two = cuda.shared.array((2, {self.block}), {self.kinds[1]})")
        self.line(1, "bins = cuda.shared.array(4, int32)")
        self.line(1, "t = cuda.threadIdx.x")
        self.line(1, "i = cuda.grid(1)")
        self.line(1, "a = x[i]")
        self.line(1, "b = n[i]")
        self.line(1, "c = t % 5")
        acts = [self.exchange, self.in_turns, self.tree, self.counts, self.alone, self.alone]
        acts += [self.shuffle] * self.shuffles
        for _ in range(self.random.randrange(2, 6)):
            self.random.choice(acts)(1)
            for name in "ab":
                self.settle(1, name)
            self.line(1, "c = c % 8")
        self.line(1, "out[i, 0] = a")
        self.line(1, "out[i, 1] = b")
        self.line(1, "out[i, 2] = c")
        return "\n".join(self.lines) + "\n"


def source(seed: int, shuffles: bool) -> tuple[str, int]:
    """The text of a kernel, and the threads of its blocks."""
    author = _Author(seed, shuffles)
    return author.write(), author.block


def function(seed: int, cuda: Any, shuffles: bool) -> tuple[FunctionType, int]:
    """A kernel as a function whose source Python finds, and the threads of its blocks."""
    from numba import float32, float64, int32, int64

    text, block = source(seed, shuffles)
    name = f"<exchange {seed} {shuffles}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"cuda": cuda, "float32": float32, "float64": float64, "int32": int32, "int64": int64}
    exec(compile(text, name, "exec"), names)
    return names["kernel"], block


def arguments(seed: int, block: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs and output of a program: quarters, small integers, zeros."""
    random = np.random.default_rng(seed)
    size = GRID * block
    x = (random.integers(0, 32, size) / 4).astype(np.float32)
    return x, random.integers(0, 9, size).astype(np.int32), np.zeros((size, 3))


def result(seed: int, cuda: Any, shuffles: bool) -> np.ndarray:
    """What a program writes, run by a module of numba.cuda's names."""
    made, block = function(seed, cuda, shuffles)
    x, n, out = arguments(seed, block)
    cuda.jit(made)[GRID, block](x, n, out)
    return out


if __name__ == "__main__":
    from numba import cuda

    path, where, first, end = sys.argv[1:]
    shuffles = where == "gpu"
    with np.errstate(all="ignore"):
        found = {str(s): result(s, cuda, shuffles) for s in range(int(first), int(end))}
    np.savez(path, **found)
