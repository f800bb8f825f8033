"""Random right kernels whose blocks tell each other something: atomics, fences, last blocks, syncs.

All acts of a program share two arrays, of which each has elements of its own, so that who confuses
elements of one array sees races that are none.
"""

from __future__ import annotations

import linecache
import random
from types import FunctionType
from typing import Any

import numpy as np

#: Lines without which a program is wrong, by what they begin with.
FENCE, SYNC = "cuda.threadfence()", "cuda.cg.this_grid().sync()"
ROOM = 2048


class _Author:
    """Writes one kernel of ``x, n, f, c, out``: floats, small integers, room, counters, results."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.block = self.random.choice([32, 48, 64, 96])
        self.grid = self.random.randrange(2, 8)
        self.lines: list[str] = []
        self.floats = self.counters = self.results = self.names = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def room(self, size: int) -> int:
        self.floats += size
        return self.floats - size

    def counter(self, size: int = 1) -> int:
        self.counters += size
        return self.counters - size

    def out(self, depth: int, value: str, index: str = "i") -> None:
        """One column of the results for each value."""
        self.line(depth, f"out[{self.results}, {index}] = {value}")
        self.results += 1

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    # ------------------------------------------------------------------ the last block
    def count(self, place: int, reset: bool) -> str:
        """Code of a thread's count of its block, true in the last one."""
        if self.random.random() < 0.5 and not reset:
            return f"cuda.atomic.inc(c, {place}, {self.grid - 1}) == {self.grid - 1}"
        return f"cuda.atomic.add(c, {place}, 1) == {self.grid - 1}"

    def last_block(self, depth: int, publish, read) -> None:
        """Publish, count, and let the last block read; fences where they are needed."""
        r, place = self.random, self.counter()
        reset, early = r.random() < 0.3, r.random() < 0.5
        everyone = publish(depth)
        if everyone and r.random() < 0.5:
            self.line(depth, FENCE)
            self.line(depth, "cuda.syncthreads()")
            self.line(depth, "if t == 0:")
        else:
            if everyone:
                self.line(depth, "cuda.syncthreads()")
            self.line(depth, "if t == 0:")
            self.line(depth + 1, FENCE)
        self.line(depth + 1, f"last[0] = {self.count(place, reset)}")
        if early:
            self.line(depth + 1, FENCE)
        self.line(depth, "cuda.syncthreads()")
        self.line(depth, "if last[0]:")
        if not early:
            self.line(depth + 1, FENCE)
        read(depth + 1)
        if reset:
            self.line(depth + 1, "if t == 0:")
            self.line(depth + 2, f"c[{place}] = 0")
        self.line(depth, "cuda.syncthreads()")

    def partials(self, depth: int) -> None:
        """A value of each block, or of each thread, which the last block adds."""
        each = self.random.random() < 0.4
        size = self.grid * self.block if each else self.grid
        start = self.room(size)

        def publish(depth: int) -> bool:
            if each:
                self.line(depth, f"f[{start} + i] = x[i] + n[i]")
            else:
                self.line(depth, "if t == 0:")
                self.line(depth + 1, f"f[{start} + cuda.blockIdx.x] = x[i]")
            return each

        def read(depth: int) -> None:
            total = self.name("total")
            if self.random.random() < 0.5:
                self.line(depth, "if t == 0:")
                depth += 1
                first, step = "0", "1"
            else:
                first, step = "t", str(self.block)
            self.line(depth, f"{total} = float32(0)")
            self.line(depth, f"for p in range({first}, {size}, {step}):")
            self.line(depth + 1, f"{total} += f[{start} + p]")
            self.out(depth, total, "0" if step == "1" else "t")

        self.last_block(depth, publish, read)

    def histogram(self, depth: int) -> None:
        """Counts of all blocks by atomics, which the last block reads plainly."""
        start = self.counter(4)
        in_shared = self.random.random() < 0.5

        def publish(depth: int) -> bool:
            if not in_shared:
                self.line(depth, f"cuda.atomic.add(c, {start} + n[i] % 4, 1)")
                return True
            self.line(depth, "if t < 4:")
            self.line(depth + 1, "bins[t] = 0")
            self.line(depth, "cuda.syncthreads()")
            self.line(depth, "cuda.atomic.add(bins, n[i] % 4, 1)")
            self.line(depth, "cuda.syncthreads()")
            self.line(depth, "if t < 4:")
            self.line(depth + 1, f"cuda.atomic.add(c, {start} + t, bins[t])")
            return True

        def read(depth: int) -> None:
            self.line(depth, "if t < 4:")
            self.out(depth + 1, f"c[{start} + t] + 1", "t")

        self.last_block(depth, publish, read)

    # ------------------------------------------------------------------ other ways
    def look_ahead(self, depth: int) -> None:
        """A maximum that reads first whether there is anything to do; in a loop, or not."""
        place = self.room(1)
        if self.random.random() < 0.5:
            self.line(depth, f"for p in range({self.random.randrange(1, 4)}):")
            depth += 1
        if self.random.random() < 0.5:
            self.line(depth, "if t == 0:")
            self.line(depth + 1, f"best[0] = f[{place}]")
            self.line(depth, "cuda.syncthreads()")
            self.line(depth, "if x[i] > best[0]:")
            self.line(depth + 1, f"cuda.atomic.max(f, {place}, x[i])")
            self.line(depth, "cuda.syncthreads()")
        else:
            self.line(depth, f"if x[i] > f[{place}]:")
            self.line(depth + 1, f"cuda.atomic.max(f, {place}, x[i])")

    def swap(self, depth: int) -> None:
        """A maximum by compare-and-swap, whose old value may be kept."""
        place, old, seen = self.counter(), self.name("old"), self.name("seen")
        self.line(depth, f"{old} = c[{place}]")
        self.line(depth, f"while {old} < n[i]:")
        self.line(depth + 1, f"{seen} = {old}")
        self.line(depth + 1, f"{old} = cuda.atomic.cas(c, {place}, {seen}, n[i])")
        self.line(depth + 1, f"if {old} == {seen}:")
        self.line(depth + 2, "break")

    def ranks(self, depth: int) -> None:
        """Each thread takes a place, and writes there."""
        place, start, rank = self.counter(), self.room(self.grid * self.block), self.name("rank")
        self.line(depth, f"{rank} = cuda.atomic.add(c, {place}, 1)")
        self.line(depth, f"f[{start} + {rank}] = x[i]")

    def own(self, depth: int) -> None:
        """Elements that one thread, or one block, has for itself, updated and read."""
        if self.random.random() < 0.5:
            start = self.room(self.grid * self.block)
            self.line(depth, f"cuda.atomic.add(f, {start} + i, x[i])")
            self.out(depth, f"f[{start} + i] + 1")
        else:
            start = self.counter(self.grid)
            self.line(depth, f"cuda.atomic.add(c, {start} + cuda.blockIdx.x, n[i])")
            self.line(depth, "cuda.syncthreads()")
            self.out(depth, f"c[{start} + cuda.blockIdx.x] * 2")

    def whole_grid(self, depth: int) -> None:
        """A total of all blocks, a barrier of the grid, and everybody reads it."""
        place = self.room(1)
        self.line(depth, f"cuda.atomic.add(f, {place}, x[i])")
        self.line(depth, SYNC)
        self.out(depth, f"x[i] / (f[{place}] + 1)")
        if self.random.random() < 0.5:
            self.line(depth, SYNC)
            self.line(depth, "if i == 0:")
            self.line(depth + 1, f"f[{place}] = 0")
            self.line(depth, SYNC)
            self.line(depth, f"cuda.atomic.max(f, {place}, x[i])")
            self.line(depth, SYNC)
            value = self.name("value")
            self.line(depth, f"{value} = f[{place}]")
            self.out(depth, value)

    def old_value(self, depth: int) -> None:
        """What an atomic returns is the thread's own; reading by an atomic needs no order."""
        place = self.counter()
        self.line(depth, f"cuda.atomic.add(c, {place}, 1)")
        before = self.name("before")
        self.line(depth, f"{before} = cuda.atomic.add(c, {place}, 0)")
        self.out(depth, f"min({before}, 1)")

    def shuffled(self, depth: int) -> None:
        """A warp's total by shuffles, which need no memory; its first lane adds it for all."""
        if self.block % 32:  # a shuffle of a whole warp needs one
            self.own(depth)
            return
        total, place = self.name("total"), self.room(1)
        self.line(depth, f"{total} = x[i]")
        for distance in (16, 8, 4, 2, 1):
            self.line(depth, f"{total} += cuda.shfl_down_sync(0xFFFFFFFF, {total}, {distance})")
        self.line(depth, "if cuda.laneid == 0:")
        self.line(depth + 1, f"cuda.atomic.add(f, {place}, {total})")
        self.out(depth, f"cuda.shfl_sync(0xFFFFFFFF, {total}, 0)")

    def handed_on(self, depth: int) -> None:
        """A block's value behind a flag, which the next block takes if it is there already."""
        place, flag = self.room(self.grid), self.counter(self.grid)
        came = self.name("came")
        swap = self.random.random() < 0.5
        self.line(depth, "if t == 0:")
        self.line(depth + 1, f"f[{place} + cuda.blockIdx.x] = x[i]")
        self.line(depth + 1, FENCE)
        word = "exch" if swap else "or_"
        self.line(depth + 1, f"cuda.atomic.{word}(c, {flag} + cuda.blockIdx.x, 1)")
        before = f"{flag} + (cuda.blockIdx.x + {self.grid - 1}) % {self.grid}"
        ask = self.random.choice(
            [f"cuda.atomic.add(c, {before}, 0)", f"cuda.atomic.cas(c, {before}, 1, 1)"]
        )
        self.line(depth + 1, f"{came} = {ask}")
        self.line(depth + 1, f"if {came} == 1:")
        self.line(depth + 2, FENCE)
        self.out(depth + 2, f"f[{place} + (cuda.blockIdx.x + {self.grid - 1}) % {self.grid}] + 1")

    def bits(self, depth: int) -> None:
        """Bits, largest and smallest numbers of all blocks, which the last block reads."""
        start = self.counter(4)

        def publish(depth: int) -> bool:
            for place, word in enumerate(
                self.random.sample(["or_", "xor", "max", "min", "and_"], 3)
            ):
                self.line(depth, f"cuda.atomic.{word}(c, {start + place}, n[i])")
            return True

        def read(depth: int) -> None:
            self.line(depth, "if t < 4:")
            self.out(depth + 1, f"c[{start} + t] * 2", "t")

        self.last_block(depth, publish, read)

    def warps_room(self, depth: int) -> None:
        """Shared memory of each warp's own, ordered by syncwarp alone; twice, in two halves."""
        lane, half = self.name("lane"), self.random.randrange(2)
        distance = self.random.randrange(1, 32)
        self.line(depth, f"{lane} = t - t % 32")
        self.line(depth, f"room[{half}, t] = x[i]")
        self.line(depth, "cuda.syncwarp()")
        other = f"room[{half}, min({lane} + (t + {distance}) % 32, {self.block - 1})]"
        value = self.name("value")
        self.line(depth, f"{value} = {other}")
        if self.random.random() < 0.5:
            self.line(depth, "cuda.syncwarp()")
            self.line(depth, f"room[{half}, t] = {value} + 1")
        self.out(depth, f"{value} - n[i]")
        self.line(depth, "cuda.syncthreads()")

    def two_rooms(self, depth: int) -> None:
        """A value goes round the block: written to one half while the other is read."""
        turns, turn = self.random.randrange(2, 5), self.name("turn")
        value = self.name("value")
        self.line(depth, "room[0, t] = x[i]")
        self.line(depth, f"for {turn} in range({turns}):")
        self.line(depth + 1, "cuda.syncthreads()")
        self.line(depth + 1, f"{value} = room[{turn} & 1, (t + 1) % {self.block}]")
        self.line(depth + 1, f"room[1 - ({turn} & 1), t] = {value} + n[i]")
        self.line(depth, "cuda.syncthreads()")
        self.out(depth, f"room[{turns} & 1, t]")
        self.line(depth, "cuda.syncthreads()")

    def asked(self, depth: int) -> None:
        """Votes, matches and shuffles of whole warps; one lane acts for those that agree."""
        if self.block % 32:
            self.old_value(depth)
            return
        same, place, mine = self.name("same"), self.counter(16), self.name("mine")
        all_lanes = "0xFFFFFFFF"
        if self.random.random() < 0.5:
            self.line(depth, f"{same} = cuda.match_any_sync({all_lanes}, n[i])")
            self.line(depth, f"if cuda.ffs({same}) - 1 == cuda.laneid:")
            self.line(depth + 1, f"cuda.atomic.add(c, {place} + n[i], cuda.popc({same}))")
        else:
            self.line(depth, f"{same} = cuda.ballot_sync({all_lanes}, n[i] % 2 == 0)")
            self.line(depth, "if cuda.laneid == 0:")
            self.line(depth + 1, f"cuda.atomic.add(c, {place}, cuda.popc({same}))")
        self.line(depth, f"{mine} = n[i]")
        self.line(depth, f"while cuda.any_sync({all_lanes}, {mine} > 2):")
        self.line(depth + 1, f"{mine} = cuda.shfl_xor_sync({all_lanes}, {mine}, 1) >> 1")
        step = self.random.choice(["up", "down"])
        self.out(depth, f"{mine} + cuda.shfl_{step}_sync({all_lanes}, n[i], 3)")

    def rounds(self, depth: int) -> None:
        """A ring of tickets by inc and dec: who draws zero counts a round."""
        place, mine = self.counter(3), self.name("mine")
        word = self.random.choice(["inc", "dec"])
        self.line(depth, f"{mine} = cuda.atomic.{word}(c, {place}, {self.random.randrange(3, 40)})")
        self.line(depth, f"if {mine} == 0:")
        self.line(depth + 1, f"cuda.atomic.add(c, {place + 1}, 1)")
        self.line(depth, f"cuda.atomic.max(c, {place + 2}, {mine})")

    def write(self) -> str:
        self.line(0, "def kernel(x, n, f, c, out):")
        self.line(1, "last = cuda.shared.array(1, int32)")
        self.line(1, "bins = cuda.shared.array(4, int32)")
        self.line(1, "best = cuda.shared.array(1, float32)")
        self.line(1, "room = cuda.shared.array((2, 96), float32)")
        self.line(1, "t = cuda.threadIdx.x")
        self.line(1, "i = cuda.grid(1)")
        acts = [self.partials, self.histogram, self.look_ahead, self.swap, self.ranks, self.own]
        acts += [self.old_value, self.shuffled, self.partials, self.histogram]
        acts += [
            self.handed_on,
            self.bits,
            self.warps_room,
            self.two_rooms,
            self.asked,
            self.rounds,
        ]
        if self.random.random() < 0.4:
            acts += [self.whole_grid] * 3
        for _ in range(self.random.randrange(2, 6)):
            self.random.choice(acts)(1)
        self.line(1, "i = i")
        return "\n".join(self.lines) + "\n"


def program(seed: int) -> _Author:
    author = _Author(seed)
    author.text = author.write()
    return author


def function(text: str, cuda: Any) -> FunctionType:
    """A kernel as a function whose source Python finds."""
    from numba import float32, int32

    name = f"<publishing {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"cuda": cuda, "float32": float32, "int32": int32}
    exec(compile(text, name, "exec"), names)
    return names["kernel"]


def arguments(author: _Author, seed: int) -> tuple[np.ndarray, ...]:
    """Inputs, room and results: quarters, small integers, zeros."""
    rng = np.random.default_rng(seed)
    size = author.grid * author.block
    x = (rng.integers(0, 32, size) / 4).astype(np.float32)
    n = rng.integers(0, 9, size).astype(np.int32)
    out = np.zeros((max(1, author.results), size), np.float32)
    return x, n, np.zeros(8 * ROOM, np.float32), np.zeros(ROOM, np.uint32), out
