"""Is a kernel's work spread over its launch, as in the lesson's own solution?

One thread, one warp or one block that does everything has right results, too, and so has a launch
whose every thread does everything; none of them has the speed. So the accesses of memory are
counted for each thread, and the busiest thread of an answer is held against the busiest one of the
solution in the same launch. Where one thread is meant to do it all, it does so in the solution.
A compare-and-swap that came too late is tried again, which is no work of others: where threads do
so, the least busy one that stores is held against the solution's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

#: So many times what the solution's busiest thread does may a thread of an answer do. Of so many
#: blocks that store in the solution one must store in an answer, and so for threads.
TIMES = 4
_DOES = {(): "accesses memory", (("shared", "store"),): "stores to shared memory"}
_STORES = ("global", "store"), ("global", "atomic")
_TRIES = r"\b(?:cas|compare_and_swap)\("  # what may have to be tried again


@dataclass(frozen=True)
class Work:
    """Who does what in a launch, of blocks x threads."""

    done: dict[tuple, np.ndarray]  # how often each thread accesses memory, stores to shared memory
    stores: np.ndarray  # of bool: the threads whose stores reach global memory
    barriers: int  # how many a block passes
    tries: bool  # whether threads compare and swap

    @classmethod
    def of(cls, report: Any) -> Work:
        done = {kinds: report.by_thread(*kinds) for kinds in _DOES}
        stores = report.by_thread(*_STORES) > 0
        atomics = report.by_thread(("global", "atomic"), ("shared", "atomic"))
        tries = stores.any() and atomics.any() and report.lines["code"].str.contains(_TRIES).any()
        return cls(done, stores, report.barriers, bool(tries))


@dataclass(frozen=True)
class Fault:
    """What is wrong with who does the work."""

    sentence: str
    # A few do it and the rest have nothing to store. Else each does too much; that may be the
    # effect of something else, such as numbers that are loaded again and again.
    of_few: bool


def stores_once(report: Any, elements: int) -> bool:
    """Whether as many threads as there are elements store, and each of them once."""
    stores = report.by_thread(*_STORES)
    return int(stores.sum()) == int((stores > 0).sum()) == elements


def spread_fault(own: Work, right: Work) -> Fault | None:
    """What is wrong with who does the work of an answer; None where it is as in the solution."""
    few_blocks = 0 < TIMES * own.stores.any(1).sum() < right.stores.any(1).sum()
    few = few_blocks or 0 < TIMES * own.stores.sum() < right.stores.sum()
    for kinds, does in _DOES.items():
        mine, most = own.done[kinds], int(right.done[kinds].max())
        busiest = mine[own.stores].min() if own.tries else mine.max()
        if not most or busiest <= TIMES * most:
            continue
        who, their = _who(mine > mine.max() / 2)
        times = "time" if most == 1 else "times"
        return Fault(
            f"The result is right, but {who}: {their} {does} {mine.max():,} times, "
            f"and {most:,} {times} is what the lesson's solution needs for a thread.",
            bool(few),
        )
    if few_blocks:
        who, _ = _who(own.stores)
        return Fault(
            f"The result is right, but {who}; in the lesson's solution "
            f"{right.stores.any(1).sum():,} of {len(right.stores):,} blocks do.",
            True,
        )
    return None


def _who(busy: np.ndarray) -> tuple[str, str]:
    """Which threads do too much, and how to go on about one of them; (blocks, threads)."""
    blocks, threads = np.nonzero(busy)
    if len(threads) > busy.size / 2:
        return "each thread does the work of many, over and over", "it"
    if len(threads) == 1:
        return f"one of {busy.size:,} threads does the work", "it"
    if len(set(zip(blocks, threads // 32, strict=True))) == 1:
        return "one warp does the work", "a thread of it"
    if len(set(blocks)) == 1 < len(busy):
        return f"one of {len(busy):,} blocks does the work", "a thread of it"
    if (busy.sum(1) <= 1).all():
        return "one thread of each block does its work", "it"
    return f"{len(threads):,} of {busy.size:,} threads do the work", "one of them"
