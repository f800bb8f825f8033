"""Random kernels: nested branches and loops, early exits, mixed types, device functions.

Each program is plain Python that a thread could run alone; the test runs it once for each thread as
Python and once for all threads in the simulator. Values stay small, so that nothing rounds.
"""

from __future__ import annotations

import random
from types import FunctionType

import numpy as np

from tests.texts import function_of
from warpsim.cuda import jit

THREADS = 70  # not a multiple of 32, less than three warps
WIDTH = 8
VARIABLES = ["a", "b", "c", "f"]


class _Author:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.names = 0
        self.readable: list[str] = []

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    # ------------------------------------------------------------------ expressions
    def number(self, depth: int = 0) -> str:
        r, roll = self.random, self.random.random()
        deeper = depth + 1
        if depth > 2 or roll < 0.22:
            return r.choice(VARIABLES + self.readable)
        if roll < 0.34:
            return f"n[i, {r.randrange(WIDTH)}]"
        if roll < 0.42:
            return str(r.randrange(-3, 9))
        if roll < 0.45:
            return r.choice(["0.5", "1.0", "-2.0", "0.25"])
        if roll < 0.48:
            return "i"
        if roll < 0.56:
            return f"({self.number(deeper)} if {self.condition(deeper)} else {self.number(deeper)})"
        if roll < 0.62:
            return f"n[i, int({self.number(deeper)}) % {WIDTH}]"
        if roll < 0.67:
            return f"{r.choice(['min', 'max'])}({self.number(deeper)}, {self.number(deeper)})"
        if roll < 0.70:
            return f"abs({self.number(deeper)})"
        if roll < 0.74:
            return f"(a, 3, int({self.number(deeper)}))[{r.randrange(3)}]"
        if roll < 0.78:
            return f"local[int({self.number(deeper)}) % 4]"
        if roll < 0.82:
            return f"(int({self.number(deeper)}) {r.choice(['//', '%'])} {r.choice([2, 3, 7, -5])})"
        if roll < 0.85:
            return f"(int({self.number(deeper)}) {r.choice(['&', '|', '^'])} {r.randrange(16)})"
        return f"(({self.number(deeper)} {r.choice('+-*')} {self.number(deeper)}) % 97 - 20)"

    def condition(self, depth: int = 0) -> str:
        r, roll, deeper = self.random, self.random.random(), depth + 1
        if depth < 3 and roll < 0.15:
            return f"({self.condition(deeper)} and {self.condition(deeper)})"
        if depth < 3 and roll < 0.30:
            return f"({self.condition(deeper)} or {self.condition(deeper)})"
        if roll < 0.36:
            return f"(not {self.condition(deeper)})"
        if roll < 0.44:
            return r.choice(["k > 2", "k == 1", "2 > 1", "k < 5"])
        if roll < 0.50:
            return f"({self.number(deeper)} <= {self.number(deeper)} < {self.number(deeper)})"
        sign = r.choice(["<", ">", "==", "!=", "<=", ">="])
        return f"({self.number(deeper)} {sign} {self.number(deeper)})"

    # ------------------------------------------------------------------ statements
    def suite(self, indent: int, depth: int, in_loop: bool) -> list[str]:
        lines: list[str] = []
        outer = list(self.readable)
        for _ in range(self.random.randrange(1, 4)):
            lines += self.statement("    " * indent, indent, depth, in_loop)
        self.readable = outer
        return lines

    def statement(self, pad: str, indent: int, depth: int, in_loop: bool) -> list[str]:
        r, roll = self.random, self.random.random()
        if depth > 3 or roll < 0.24:
            return [f"{pad}{r.choice(VARIABLES)} = {self.number()}"]
        if roll < 0.29:
            return [f"{pad}a, b = {self.number()}, {self.number()}"]
        if roll < 0.35:
            name = self.name("t")
            line = f"{pad}{name} = {self.number()}"
            self.readable.append(name)
            return [line]
        if roll < 0.41:
            name = r.choice(VARIABLES)  # kept small: Python's integers do not wrap
            return [f"{pad}{name} += {self.number()}", f"{pad}{name} = {name} % 1009"]
        if roll < 0.45:
            return [f"{pad}o[i, {r.randrange(4)}] = {self.number()}"]
        if roll < 0.48:
            return [f"{pad}o[i, int({self.number()}) % 4] += {self.number()}"]
        if roll < 0.51:
            return [f"{pad}local[int({self.number()}) % 4] = {self.number()}"]
        if roll < 0.69:
            return self.branch(pad, indent, depth, in_loop)
        if roll < 0.80:
            return self.counted_loop(pad, indent, depth, in_loop)
        if roll < 0.87:
            return self.while_loop(pad, indent, depth, in_loop)
        if roll < 0.92 and in_loop:
            return [f"{pad}if {self.condition()}:", f"{pad}    {r.choice(['break', 'continue'])}"]
        if roll < 0.95:
            return [f"{pad}if {self.condition()}:", f"{pad}    return {self.number()}"]
        return [f"{pad}b = helper(i, n, {self.number()})"]

    def branch(self, pad: str, indent: int, depth: int, in_loop: bool) -> list[str]:
        lines = [f"{pad}if {self.condition()}:", *self.suite(indent + 1, depth + 1, in_loop)]
        if self.random.random() < 0.3:
            lines += [f"{pad}elif {self.condition()}:", *self.suite(indent + 1, depth + 1, in_loop)]
        if self.random.random() < 0.5:
            lines += [f"{pad}else:", *self.suite(indent + 1, depth + 1, in_loop)]
        return lines

    def counted_loop(self, pad: str, indent: int, depth: int, in_loop: bool) -> list[str]:
        r, name = self.random, self.random.choice(["q", self.name("q")])
        items = r.choice(
            [
                "range(4)",
                f"range(abs(int({self.number()})) % 5)",
                "range(n[i, 0] % 3, n[i, 1] % 6)",
                "range(k + 2)",
                "range(5, n[i, 2] % 4, -2)",
                "(2, n[i, 3], 5)",
            ]
        )
        head = f"{pad}for {name} in {items}:"
        if r.random() < 0.15:
            head = f"{pad}for {name}, p{indent} in enumerate({r.choice(['(1, 2)', 'n[i]'])}):"
        lines = [head, f"{pad}    c += {name}"]
        lines += self.suite(indent + 1, depth + 1, True)
        return lines + self.loop_else(pad, indent, depth, in_loop)

    def loop_else(self, pad: str, indent: int, depth: int, in_loop: bool) -> list[str]:
        if self.random.random() < 0.7:
            return []
        return [f"{pad}else:", *self.suite(indent + 1, depth + 1, in_loop)]

    def while_loop(self, pad: str, indent: int, depth: int, in_loop: bool) -> list[str]:
        name = self.name("w")
        return [
            f"{pad}{name} = 0",
            f"{pad}while {name} < 6 and {self.condition()}:",
            f"{pad}    {name} += 1",
            *self.suite(indent + 1, depth + 1, True),
            *self.loop_else(pad, indent, depth, in_loop),
        ]

    def program(self) -> str:
        lines = [
            "def f(i, n, o, local, k):",
            "    a = 1",
            "    b = n[i, 3]",
            "    c = 0",
            "    f = 0.5",
        ]
        lines += self.suite(1, 0, False)
        lines.append("    return a * 100 + b * 10 + c + f")
        return "\n".join(lines) + "\n"


def helper(i, n, x):
    """A device function with returns inside loops and branches."""
    last = 0
    for p in range(8):
        if n[i, p] == x % 7:
            return p
        q = 0
        while q < p:
            if n[i, q] > n[i, p]:
                break
            if q + x > 30:
                return q * 3
            q += 1
        last = q
    return x % 5 - last


class _PythonArray:
    """An array whose elements are Python's own numbers."""

    def __init__(self, values: np.ndarray):
        self.values = values
        self.shape = values.shape

    def __getitem__(self, index):
        value = self.values[index]
        return value.item() if isinstance(value, np.generic) else [v.item() for v in value]

    def __setitem__(self, index, value):
        self.values[index] = value


def source(seed: int) -> str:
    """The source of a random program."""
    return _Author(seed).program()


def results(seed: int, kernel_of) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of a random program: by Python, thread for thread, and by ``kernel_of(f)``."""
    text = source(seed)
    n = np.random.default_rng(seed).integers(-9, 10, (THREADS, WIDTH))
    wanted = np.zeros((THREADS, 5))
    plain = function_of(text, str(seed), {"helper": helper})
    for i in range(THREADS):
        local = [0.0, 0.0, 0.0, 0.0]
        wanted[i, 4] = plain(i, _PythonArray(n), _PythonArray(wanted), local, 3)
    found = np.zeros((THREADS, 5))
    # the same code, whose source is known, with other globals
    device = FunctionType(plain.__code__, {**plain.__globals__, "helper": jit(device=True)(helper)})
    kernel_of(jit(device=True)(device))(n, found, 3)
    return wanted, found
