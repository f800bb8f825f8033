"""The judge of a launch configuration, in lessons 01 and 04."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from course.checks.exercises import call_with_named
from warpsim.core.words import count


def launch_covers(
    shape: Callable[..., tuple[int, ...]], largest_block: int = 1024
) -> Callable[..., str | None]:
    """Judge of a launch configuration: any (grid, block) that covers a shape without waste.

    Parameters
    ----------
    shape : callable
        Takes the arguments it names, returns the data's shape; x runs along its last axis.
    largest_block : int
        Most threads of a block that the exercise allows.
    """

    def judge(answer: Any, **arguments: Any) -> str | None:
        wanted = tuple(reversed(call_with_named(shape, arguments)))
        try:
            grid, block = (tuple(np.atleast_1d(part).tolist()) for part in answer)
        except (TypeError, ValueError):
            return f"Return two things, grid and block; got {answer!r}."
        for name, part in (("grid", grid), ("block", block)):
            further = part[len(wanted) :]
            if len(part) < len(wanted) or any(number != 1 for number in further):
                return f"{name} is {part}: give {len(wanted)} numbers, x first."
            if not all(isinstance(n, int) and not isinstance(n, bool) for n in part):
                return f"{name} is {part}: give whole numbers (// rounds down, / gives a float)."
            if min(part) < 1:
                return f"{name} is {part}: each number must be at least 1."
        threads = int(np.prod(block))
        if threads > largest_block:
            return f"block {block} has {threads:,} threads; at most {largest_block:,} are allowed."
        for axis, blocks, size, needed in zip("xyz", grid, block, wanted, strict=False):
            if blocks * size < needed:
                return (
                    f"Along {axis}, {count(blocks, 'block')} of {size}: {blocks * size:,} threads "
                    f"for {count(needed, 'element')}: {needed - blocks * size:,} without a thread."
                )
            if (blocks - 1) * size >= needed:
                return (
                    f"Along {axis}, {count(blocks, 'block')} of {size} are more than needed for "
                    f"{count(needed, 'element')}: the last block has nothing to do."
                )
        return None

    return judge
