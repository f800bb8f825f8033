"""Lines of Python in each package and the most that it may have: `make lint` prints them.

    python -m tests.house.lines

The status is 1 where a package has more than it may.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.house.places import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (*PACKAGES, "tests")


class Budget(NamedTuple):
    """The most lines of a package: what was planned at a340430, and what came since with a reason.

    A package that is not there yet has a `ceiling`: its lines when it was last looked at, up to the
    next hundred. It may only be lowered.
    """

    planned: int
    added: int = 0
    ceiling: int = 0

    total = property(lambda self: self.planned + self.added)


#: `added` is what the issue "Right where nobody looked" brought from a340430 to e515b94, by `git
#: diff --numstat`; after 1aa383a by its own commits alone. To raise a budget, write here which
#: lines came and why.
BUDGETS = {
    # the parts of Threads and the table of calls are 450 lines more than the mixins and the chain
    # of comparisons were: heads, constructors, handlers; they stay, since no part knows another's
    # insides. 340 came from course with tensor maps and the binding of libcuda
    # 10 more: a trace matches signatures as a launch does, and counts calls. 730 for test suites of
    # others: findings gathered and accepted (440), names of Numba's own simulator (190), loads of
    # what a thread has stored itself (170). The ceiling was raised by 300 for the other import
    # name: types by numba-cuda-mlir's rules (200), lines of kernels' bodies in coverage (40); and
    # by 400: every name of Numba's own simulator, programs that functions which are alike share
    # (both 125), draws that go on where a race depends on the data, wgmma of any depth and columns;
    # and by 800: translations that functions of one shape share and that stay on disk (690), an
    # IndexError where a test expects one (60). 2,500 of all its folders went
    # again: helpers written twice, rows of tables in place of functions, branches that typing
    # makes unreachable, docstrings of internals that repeat the code; what was left out and timed
    # cost up to twice the time; 110 came with copies of what nobody wrote, 10 with stmatrix4_trans
    "warpsim": Budget(18_100, 2_410),
    # ladders and launches: 600 lines more in the kernels than planned;
    # 126 of what was added are old names, which go with the next version. 1,270 came with drawn
    # cases: predictions in words (280), cells that failed (183), causes from an answer's text and
    # results that are kept; `Work` in three families 100. The ceiling was raised for them.
    # 1,400 came with the first half hour: the line that decides, found by changes of the answer
    # (880, of which tools gave 260), statements in order 160, the reader's photograph and kernels
    # 380; the mistakes that the first makes superfluous have gone, and as
    # many lines came for up to three lines that decide; 65 are versions compared with their ranges
    # 2,710 kernels for shapes that nobody listed: products thin, deep and unaligned (890), a small
    # SVD in one launch (880), heads of 80 to 128, images by a warp a tile (410), rows by clusters
    # and thin transposes (510); 230 kernels compiled ahead and several shapes' graphs kept; 640
    # numba-cuda-mlir in numba-cuda's place. The ceiling was raised by 900: SVDs of up to 128
    # columns in registers (300), LayerNorms within products (300), products whose rows begin
    # anywhere, in pairs of blocks (150), what numba-cuda-mlir 0.6.0 has wrong on a GPU (85).
    # 1,300 of kernels, checks and dispatch went again with `Work`, refusals said twice and fields
    # described twice; raised by 400 for tall matrices' SVD by their Gram matrix (330),
    # by 300 for what is handed to cuSOLVER (160) and softmax's rows that begin anywhere (70)
    "course": Budget(25_400, 878, 34_900),
    # 160 are products with LayerNorm, and epilogues apart, which the transformer alone uses
    "course_models": Budget(5_600, 83, 6_200),
    "course_app": Budget(6_200, 368),
    # drawers of 116 exercises are 280 lines more than the cases, hints and mistakes that went
    # 1,700 came with lesson 00 anew, the reader's softmax in PyTorch (690), wgmma and TMA step by
    # step (510), the warm-up (340); 2,600 went with the mistakes that exercises named
    "course_lessons": Budget(44_000, 13),
    # 75 of these the command `bench`, which came from course/__main__; 440 the functions on drawn
    # shapes, with the peers of each
    "course_recording": Budget(10_300, 816),
    # 395 of these instruments, a fifth of which stood in tests: hashes of PTX with kernels of
    # halves, and lists of test ids compared; 309 the index of kernels
    # 1,500 the mutants of every exercise's solution, 104 the check of a class's work beforehand
    # 320 minutes by one rule and the prose's linter
    # 300 what numba-cuda-mlir compiles, and both compilers beside each other
    "tools": Budget(5_700, 2_319, 8_250),
    # 220 of these old names, and what a learner has beside a notebook
    # 1,100 came with drawn cases, predictions, cells and mutants; what mutants are went
    # 2,200 came with what is new in lessons 00 to 06, 15 and 17, and with test suites of others;
    # 430 with numba-cuda-mlir's typing, its answers kept; 150 with an address that writes itself
    # 2,300 came with these kernels and compilers; as many went: 480 answers that say what others
    # do; 350 with programs that are kept, here and in the next process, and expected errors; 400
    # with LayerNorms within products, rows in registers, drawn calls for compute-sanitizer; 70 with
    # Gram matrices; 250 with what is handed to cuSOLVER, loops of several types, rows that begin
    # anywhere
    "tests": Budget(54_500, 5_521, 70_300),
}
SLACK = 500


def counted(root: Path = ROOT) -> Counter[str]:
    """Lines by package."""
    lines: Counter[str] = Counter()
    for folder in FOLDERS:
        for file in (root / folder).rglob("*.py"):
            lines[folder] += file.read_bytes().count(b"\n")
    return lines


def complaints(lines: Mapping[str, int], budgets: Mapping[str, Budget] = BUDGETS) -> list[str]:
    """What is over its budget, and which ceilings can be lowered."""
    said = []
    for package, budget in budgets.items():
        most = max(budget.total, budget.ceiling)
        if lines[package] > most:
            said.append(f"{package} has {lines[package]:,} lines; {most:,} are the most")
        elif budget.ceiling and lines[package] <= budget.total:
            said.append(f"{package} keeps to its budget: take its ceiling away")
        elif lines[package] < budget.ceiling - SLACK:
            said.append(f"{package} has {lines[package]:,} lines: lower its ceiling")
    return said


def table(lines: Mapping[str, int]) -> str:
    """The lines of each package as a table."""
    rows = [f"{'lines of Python':18}{'now':>10}{'budget':>9}{'ceiling':>9}"]
    for package, budget in BUDGETS.items():
        ceiling = f"{budget.ceiling:,}" if budget.ceiling else ""
        rows.append(f"{package:18}{lines[package]:>10,}{budget.total:>9,}{ceiling:>9}")
    return "\n".join(rows)


def main() -> int:
    """Print table and complaints; returns the exit status."""
    lines = counted()
    print(table(lines))
    wrong = complaints(lines)
    for complaint in wrong:
        print(f"wrong: {complaint} (tests/house/lines.py)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
