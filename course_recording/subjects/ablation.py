"""Step 9 of the ladder without one of its parts at a time: what each part gains.

Each row is the kernel of warp tiles with **one** optimisation removed, by an edit of its source;
all others stay. So each gain is measured by itself, and the gains do not add up to the whole.
All kernels are checked against float64 and timed in the same run, `ROUNDS` times, interleaved.
"""

import itertools
import linecache
from collections.abc import Callable
from inspect import getsource
from types import ModuleType

import numpy as np

from course.kernels.reconstruct import warp_tiles
from course.kernels.steps import ceil_div
from course_lessons.lesson06.ladder import work_of
from course_recording.subjects.reconstruct import exact

SHAPES = ((8192, 8192, 8192, 2048), (4096, 4096, 4096, 1024))
ROUNDS = 3

#: What is removed, and how: pairs of a text that the source has once, and the new text.
WITHOUT = {
    "nothing": (),
    "bands": (
        (
            "        row, column = row_group_tile()\n",
            "        row, column = int32(cuda.blockIdx.y), int32(cuda.blockIdx.x)\n",
        ),
    ),
    "32-bit indices": (
        ("import float32, int32, uint32", "import float32, int64 as int32, uint32"),
    ),
    "fastmath": (("jit_without_lto(fastmath=True, ", "jit_without_lto("),),
    "leaving out lto": (("jit_without_lto(fastmath=True", "cuda.jit(fastmath=True"),),
    "the order of products": (
        (
            "        for n in range(0, 8, 2):\n"
            "            for there in range(8):\n"
            "                m = 7 - there if n % 4 else there\n"
            "                near, far = n + 1 - there % 2, n + there % 2\n"
            "                total[m, near] += a[side, m] * b[side, near]\n"
            "                total[m, far] += a[side, m] * b[side, far]\n",
            "        for m in range(8):\n"
            "            for n in range(8):\n"
            "                total[m, n] += a[side, m] * b[side, n]\n",
        ),
    ),
    "compact warp tiles": (
        (
            "        lane_row, lane_column = lane // 16 * 2 + lane % 2, lane // 2 % 8\n",
            "        lane_row, lane_column = lane // 16, lane % 16\n",
        ),
        (
            "        row = int32(warp % WARPS_DOWN * 32 + lane_row * 4)\n"
            "        column = int32(warp // WARPS_DOWN * 64 + lane_column * 4)\n",
            "        row, column = int32(warp * 16 + lane_row * 4), int32(lane_column * 4)\n",
        ),
        ("vt_tile, (stage, i, column + g * 8))", "vt_tile, (stage, i, column + g * 16))"),
        ("u_tile, (stage, i, row + g * 4))", "u_tile, (stage, i, row + g * 2))"),
        ("row = first_row + m // 4 * 16 + m % 4", "row = first_row + m // 4 * 8 + m % 4"),
        ("first_column + n // 4 * 32 + n % 4", "first_column + n // 4 * 64 + n % 4"),
    ),
}  # fmt: skip
_serial = itertools.count()


def run(bench):
    """Check and time step 9, whole and without each part."""
    kernels = {name: without(name)(True)[0] for name in WITHOUT}
    for rows, columns, r, k in bench.parts(SHAPES):
        u, s, vt = bench.random(rows, r), bench.random(r), bench.random(r, columns)
        there = [bench.cuda.to_device(array) for array in (u, s, vt)]
        out = bench.cuda.device_array((rows, columns), np.float32)
        expected = exact(bench, u[:, :k], s[:k], vt[:k])
        grid = ceil_div(columns, warp_tiles.BLOCK_COLUMNS), ceil_div(rows, warp_tiles.BLOCK_ROWS)
        for number in range(ROUNDS):
            for name, kernel in kernels.items():
                bench.variant(
                    "step 9 without", name, kernel[grid, (warp_tiles.THREADS, 1)], (*there, k, out),
                    out=out, expected=expected, shape=f"{rows}x{columns}x{k}, round {number + 1}",
                    **work_of("warp tiles", rows, columns, k),
                )  # fmt: skip


def without(name: str) -> Callable:
    """`course.kernels.reconstruct.warp_tiles.warp_tiles` with one part removed.

    Raises
    ------
    ValueError
        When the source has a text that is to be replaced never, or more than once.
    """
    text = getsource(warp_tiles)
    for old, new in WITHOUT[name]:
        if text.count(old) != 1:
            raise ValueError(f"without {name}: {old!r} stands {text.count(old)} times there")
        text = text.replace(old, new)
    file = f"<step 9 without {name}, {next(_serial)}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    made = ModuleType(warp_tiles.__name__)
    exec(compile(text, file, "exec"), vars(made))
    return made.warp_tiles
