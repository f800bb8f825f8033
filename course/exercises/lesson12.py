"""Exercises of lesson 12 that add: a warp its row, all blocks an array."""

import numpy as np

from course.checks import Case, KernelExercise, Limit, Passes, Tolerance, register

WARPS = 4  # of a block where a warp has a row

ALL_LANES = "A warp's {}: neighbouring lanes take neighbouring columns, all 32 at the same time."

SHUFFLE_HINTS = {
    "barrier-divergence": "All 32 lanes make every shuffle. Guard what a lane loads, never the "
    "shuffle: a lane without a number gives one that changes nothing. And a warp needs no "
    "cuda.syncthreads(), which waits for warps that may have no row.",
    "out-of-bounds": "The last block may have warps without a row, and the last round of a row "
    "lanes without a column: compare with x.shape first. The row is x's first index.",
    "uncoalesced": "Lane l takes the columns l, l + 32, l + 64, ...: neighbours read neighbours.",
    "float64": "In your own lines: 0.0, 1.0 and 1e-5 are float64, and so is a whole number such as "
    "x.shape[1], or 1, beside a float32 in a product or quotient. Write float32(0), float32(1).",
    "unwritten-output": "Each row has a warp; one of its lanes, or each for its columns, stores.",
}


# --- a warp adds a row ----------------------------------------------------------------------------


def _sums(rows, columns, measured=False):
    def arguments(rng):
        x = rng.standard_normal((rows, columns), dtype=np.float32)
        return {"x": x, "out": np.empty(rows, np.float32)}

    name = f"{rows} x {columns}"
    return Case(name, arguments, block=32 * WARPS, grid=-(-rows // WARPS), measured=measured)


def _lanes_of(x, lanes):
    """The sum over the columns of some lanes."""
    return x[:, np.isin(np.arange(x.shape[1]) % 32, lanes)].sum(1)


def _met_each(x):
    """As if the five shuffles stood within the loop over the columns."""
    total = np.zeros(len(x))
    for column in range(0, x.shape[1], 32):
        total = 32 * total + x[:, column : column + 32].sum(1)
    return total


def _shared_out(x):
    """As if the four warps of a block divided each row among them: every 128 columns 32 a warp."""
    warp = np.arange(len(x)).reshape(-1, 1) % WARPS
    return (x * (np.arange(x.shape[1]) // 32 % WARPS == warp)).sum(1)


register(
    KernelExercise(
        name="warp-row-sum",
        lesson=12,
        title="A warp adds a row",
        outputs=("out",),
        reference=lambda x: x.sum(1),
        cases=[
            _sums(4, 32),
            _sums(8, 96),
            _sums(5, 70),
            _sums(3, 7),
            _sums(1, 1),
            _sums(32, 256, measured=True),
        ],
        tolerance=Tolerance(
            24,
            "up to 8 additions in a lane and 5 between lanes",
            magnitude=lambda x: np.abs(x).sum(1),
        ),
        forbidden={"float64", "negative-index", "uncoalesced", "same-value-race"},
        limits=[
            Limit("shared", "store", "requests", "launch", 0, "Lanes exchange registers: shuffles "
                  "do without shared memory."),
            Limit("global", "load", "lanes", "element", 256, "Load each number once."),
            Limit("global", "load", "requests", "launch", 256, ALL_LANES.format("lanes share a "
                  "row")),
            Limit("global", "atomic", "lanes", "launch", 0, "The lanes meet by shuffles, then one "
                  "of them stores."),
            Limit("global", "store", "lanes", "element", 1, "One lane stores the sum, lane 0."),
        ],
        hints=SHUFFLE_HINTS
        | {
            "same-value-race": "All lanes have the sum, and one stores it: if lane == 0.",
            "race": "One lane of each warp stores, at out[row].",
            "wrong-result": "Each lane adds its columns first. Then five shuffles, with 16, 8, 4, "
            "2 and 1, each followed by an addition. A lane without a column goes along with "
            "float32(0): one that returns early is missing in the shuffles.",
        },
        mistakes={
            "only the first 32 columns are added: a lane goes on by steps of 32": lambda x: (
                x[:, :32].sum(1)
            ),
            "the lanes meet after each of their columns; they meet once, after the loop": _met_each,
            "a lane's own columns alone are stored: the lanes never meet": lambda x: (
                _lanes_of(x, [0])
            ),
            "one step of five is missing: 16, 8, 4, 2 and 1 are five": lambda x: (
                _lanes_of(x, range(0, 32, 2))
            ),
            "the first step is missing: it starts with 16": lambda x: _lanes_of(x, range(16)),
            "the number of the other lane replaces your own; it is added, with +=": lambda x: (
                _lanes_of(x, [31])
            ),
            "the first exchange is with lane + 32, which is not there; it is 16 >> step": (
                lambda x: 2 * _lanes_of(x, range(0, 32, 2))
            ),
            "you shuffle up and store from lane 0; upwards the sum arrives in lane 31": lambda x: (
                32 * _lanes_of(x, [0])
            ),
            "you shuffle down and store from lane 31; downwards the sum arrives in lane 0": (
                lambda x: 32 * _lanes_of(x, [31])
            ),
            "the last round of a row is left out, if it has fewer than 32 columns": lambda x: (
                x[:, : x.shape[1] // 32 * 32].sum(1)
            ),
            "the last column is left out: range ends before its second number": lambda x: (
                x[:, :-1].sum(1)
            ),
            "the four warps divide each row; here each has a row of its own, from column lane on, "
            "by steps of 32": _shared_out,
            "you return the mean, not the sum": lambda x: x.mean(1),
        },
    )
)  # fmt: skip

# --- a block adds, one atomic each ----------------------------------------------------------------

BLOCKS = 3
PASSES = 24  # of the loop of each thread, where costs are judged
SHARED_OUT = BLOCKS * 256 * PASSES


def _all(size, blocks=BLOCKS, measured=False):
    def arguments(rng):
        return {
            "x": rng.standard_normal(size, dtype=np.float32),
            "out": np.zeros(1, np.float32),
        }

    name = f"{size:,} element{'s' * (size != 1)}, {blocks} block{'s' * (blocks != 1)}"
    return Case(name, arguments, block=256, grid=blocks, measured=measured)


def _of_threads(x, threads):
    """The sum of the elements that some threads of each block load, 3 blocks of 256."""
    return np.array([x[np.isin(np.arange(x.size) % 256, threads)].sum()])


def _of_blocks(x, blocks):
    """The sum of the elements that some of 3 blocks load."""
    return np.array([x[np.isin(np.arange(x.size) // 256 % BLOCKS, blocks)].sum()])


def _from(x, first):
    """The sum of the elements from one on."""
    return np.array([x[first:].sum()])


register(
    KernelExercise(
        name="sum-several",
        lesson=12,
        title="Several elements a thread, one atomic a block",
        updated=("out",),
        reference=lambda x, out: np.array([x.sum()]),
        cases=[
            _all(256, 1),
            _all(768),
            _all(6_000),
            _all(1_003),
            _all(1),
            _all(SHARED_OUT, measured=True),
        ],
        tolerance=Tolerance(
            40,
            "up to 24 additions in a thread, 5 and 3 between lanes, 3 atomics",
            magnitude=lambda x: np.array([np.abs(x).sum()]),
        ),
        forbidden={"float64", "negative-index", "uncoalesced"},
        limits=[
            Limit("global", "atomic", "lanes", "launch", BLOCKS, "One thread of each block adds to "
                  "out, after the warps have met in shared memory."),
            Limit("global", "load", "lanes", "launch", SHARED_OUT, "Load each element once."),
            Limit("global", "load", "requests", "launch", SHARED_OUT // 32, "All threads of "
                  "the block load, neighbours beside each other."),
            Limit("shared", "atomic", "lanes", "launch", 8 * BLOCKS, "In shared memory, too, many "
                  "additions at one address stand in line: the lanes of a warp meet first."),
            Limit("shared", "store", "lanes", "launch", 8 * BLOCKS, "One lane of each warp stores "
                  "its warp's sum: 8 numbers a block."),
        ],
        # A loop over the 32 lanes is no fault; one warp for eight, or a block for all, needs more.
        passes=Passes(32, f"All warps of all blocks share the elements, {PASSES} for each thread: "
                      "begin at cuda.grid(1) in every warp."),
        hints=SHUFFLE_HINTS
        | {
            "race": "The warps' sums are stored, then all wait (cuda.syncthreads()), then one warp "
            "or one thread reads them. Only atomics may touch out, which holds 0 at the start.",
            "out-of-bounds": "sums has eight places: lanes 8 to 31 take float32(0) instead. And "
            "for i in range(cuda.grid(1), x.size, cuda.gridsize(1)) stays inside x.",
            "uncoalesced": "for i in range(cuda.grid(1), x.size, cuda.gridsize(1)): then "
            "neighbouring threads read neighbouring elements.",
            "barrier-divergence": "Shuffles and the barrier stand outside of every if, and of the "
            "loop over the elements: all threads make them. warp_sum, too.",
            "wrong-result": "A thread's own elements, then warp_sum, then the warps' sums in "
            "shared memory, then one atomic a block. A thread without an element goes along with "
            "float32(0): one that returns early is missing in the shuffles.",
            "uninitialised-read": "sums has a place for each of the 8 warps: lane 0 of every warp "
            "stores there.",
        },
        mistakes={
            "each thread adds one element: the loop over the rest is missing": lambda x: np.array(
                [x[: 256 * BLOCKS].sum()]
            ),
            "only the first warp of each block is counted": lambda x: _of_threads(x, range(32)),
            "only the first lane of each warp is counted: warp_sum is missing": lambda x: (
                _of_threads(x, range(0, 256, 32))
            ),
            "only the last warp of each block is counted: the block's sum is in thread 0": (
                lambda x: _of_threads(x, range(224, 256))
            ),
            "all lanes take the same place of sums; lane l takes sums[l]": lambda x: (
                32 * _of_threads(x, range(32))
            ),
            "the first warp is counted twice: the sum of sums is total, it is not added to it": (
                lambda x: np.array([x.sum()]) + _of_threads(x, range(32))
            ),
            "only one thread of each block is counted": lambda x: _of_threads(x, [0]),
            "only block 0 is counted: every block adds to out": lambda x: _of_blocks(x, [0]),
            "each of the eight warps adds the same: begin at cuda.grid(1), not at the lane, and "
            "let one thread add to out, t == 0": (
                lambda x: np.array([8 * x.sum()])
            ),
            "all lanes of a warp add the block's sum to out: one thread does, t == 0": (
                lambda x: np.array([32 * x.sum()])
            ),
            "every block adds all of x: begin at cuda.grid(1), go on by cuda.gridsize(1)": (
                lambda x: np.array([BLOCKS * x.sum()])
            ),
            "all blocks add the same elements: begin at cuda.grid(1), not at threadIdx.x": (
                lambda x: BLOCKS * _of_blocks(x, [0])
            ),
            "blocks add elements of other blocks again: go on by cuda.gridsize(1), not by "
            "blockDim.x": lambda x: sum(_from(x, 256 * block) for block in range(BLOCKS)),
        },
    )
)  # fmt: skip
