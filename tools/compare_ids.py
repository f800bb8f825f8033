"""Which tests went and which came when tests are moved: two lists of ids, compared.

    python -m pytest --collect-only -q tests > before
    python -m pytest --collect-only -q tests > after
    python -m tools.compare_ids before after --renamed course/test_dots.py=course/gemm/test_gemv.py

`--renamed OLD=NEW` changes that text in the ids before; it may be repeated. Printed is a line for
each function with the number of its cases; the status is 1 where tests went.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path


def read(path: Path, renamed: Iterable[tuple[str, str]] = ()) -> Counter[str]:
    """The ids in pytest's output, renamed; of two that get one name both count."""
    ids: Counter[str] = Counter()
    for line in path.read_text(encoding="utf-8").splitlines():
        if "::" in line:
            for old, new in renamed:
                line = line.replace(old, new)
            ids[line] += 1
    return ids


def functions(ids: Counter[str]) -> Counter[str]:
    """How many of these cases each function has."""
    found: Counter[str] = Counter()
    for name, times in ids.items():
        found[name.partition("[")[0]] += times
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    chosen = parser.parse_args(arguments)
    pairs = [tuple(one.split("=", 1)) for one in chosen.renamed]
    if wrong := [pair for pair in pairs if len(pair) != 2]:
        parser.error(f"--renamed {wrong[0][0]}: write it like OLD=NEW")
    before, after = read(chosen.before, pairs), read(chosen.after)
    went, came = before - after, after - before
    for word, ids in (("went", went), ("came", came)):
        for name, times in sorted(functions(ids).items()):
            print(f"{word} {name} ({times})")
    print(
        f"{before.total()} tests before, {after.total()} after: "
        f"{went.total()} went, {came.total()} came"
    )
    return 1 if went else 0


if __name__ == "__main__":
    sys.exit(main())
