"""Is a kernel's work spread over its launch, as in the lesson's own solution?

One thread, one warp or one block that does everything has right results, too, and so has a launch
whose every thread does everything; none of them has the speed. So the accesses of memory are
counted for each thread, and the busiest thread of an answer is held against the busiest one of the
solution in the same launch. Where one thread is meant to do it all, it does so in the solution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: So many times what the solution's busiest thread does may a thread of an answer do.
TIMES = 4


def spread_fault(report: Any, right: Any) -> str | None:
    """What is wrong with who does the work; None where it is spread.

    Parameters
    ----------
    report, right : Report
        Of the answer and of the solution, in one case.
    """
    everything, shared_stores = (), (("shared", "store"),)
    for kinds, does in (
        (everything, "accesses memory"),
        (shared_stores, "stores to shared memory"),
    ):
        own, enough = report.by_thread(*kinds), right.by_thread(*kinds)
        most = int(enough.max())
        if not most or own.max() <= TIMES * most:
            continue
        who, their = _who(own > own.max() / 2)
        times = "time" if most == 1 else "times"
        return (
            f"The result is right, but {who}: {their} {does} {own.max():,} times, "
            f"and {most:,} {times} is what the lesson's solution needs for a thread."
        )
    return None


def _who(busy: np.ndarray) -> tuple[str, str]:
    """Which threads do too much, and how to go on about one of them; (blocks, threads)."""
    blocks, threads = np.nonzero(busy)
    if len(threads) == 1:
        return f"one of {busy.size:,} threads does the work", "it"
    if len(set(zip(blocks, threads // 32, strict=True))) == 1:
        return "one warp does the work", "a thread of it"
    if len(set(blocks)) == 1 < len(busy):
        return f"one of {len(busy):,} blocks does the work", "a thread of it"
    if len(threads) > busy.size / 2:
        return "each thread does the work of many, over and over", "it"
    if (busy.sum(1) <= 1).all():
        return "one thread of each block does its work", "it"
    return f"{len(threads):,} of {busy.size:,} threads do the work", "one of them"
