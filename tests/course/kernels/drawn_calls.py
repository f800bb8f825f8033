"""Drawn calls of every step and public function, for a tool that looks at a GPU's memory.

    compute-sanitizer --tool memcheck python -m tests.course.kernels.drawn_calls 7 0/16

makes the calls of seed 7 that are the first of 16 parts: those of the contract, for each step, and
shapes as `python -m course bench drawn` has them, smaller, for each function as it chooses. It says
what was called, and ends with status 1 where a result is wrong. Words behind choose calls by name.
"""

import itertools
import sys
import zlib
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np

from tests.course.kernels.contract import calls, cases, make_call

TRIES = 8  # of a call that a step refuses, with other inputs
SHAPES = 4  # of a function
MOST_BYTES, MOST_OPERATIONS = 8e6, 1e9  # a tool makes them a hundred times slower
LONGEST = {"svd": 130, "rank_k": 130}  # sides, and matrices
USUALLY = 40_000


def of_steps(seed: int, name: str) -> Iterator[str]:
    """What is wrong with each drawn call of a step, "" if nothing is; "refused"."""
    for case in cases():
        for method in case.ladder.names:
            if name == f"{case.name} {method}":
                rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
                for how in calls(case, rng):
                    sizes = [how.size, *rng.choice(case.sizes, TRIES)]  # it may take none of one
                    tried = (make_call(case, method, how._replace(size=its), rng) for its in sizes)
                    told = next((its for its in tried if its is not None), None)
                    yield "refused" if told is None else told and f"{how}: {told}"


def of_functions(seed: int, name: str) -> Iterator[str]:
    """The same of drawn shapes."""
    import torch

    from course_recording.subjects import drawn

    longest, side = LONGEST.get(name, USUALLY), drawn.side
    drawn.MOST_BYTES, drawn.MOST_OPERATIONS = MOST_BYTES, MOST_OPERATIONS
    drawn.side = lambda rng, least, most: side(rng, least, min(most, longest))
    bench = SimpleNamespace(peer=lambda peer: None, seed=seed)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    for problem in itertools.islice(drawn.unlike(drawn.FUNCTIONS[name](rng, bench, torch)), SHAPES):
        error = problem.error(problem.ours())
        right = error <= problem.limit
        yield "" if right else f"{problem.shape} {problem.dtype}: the error is {error:.3g}"
    drawn.side = side


def main(seed: int, part: int, parts: int, chosen: list[str]) -> int:
    """Make a part of the calls; 1 where something is wrong."""
    from course_recording.subjects import drawn

    sources = {f"{case.name} {name}": of_steps for case in cases() for name in case.ladder.names}
    sources |= dict.fromkeys(drawn.FUNCTIONS, of_functions)
    names = [name for name in sources if not chosen or name in chosen]
    failed = False
    for name in names[part::parts]:
        try:
            found = list(sources[name](seed, name))
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        wrong = [told for told in found if told not in ("", "refused")]
        failed |= bool(wrong)
        print(f"{name}: {len(found)} calls, {found.count('refused')} refused", *wrong, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *map(int, sys.argv[2].split("/")), sys.argv[3:]))
